"""Labels taken over from a sheet, as changed fields of golden rows.

`add_labels` writes them into a golden file, `with_labels` into a golden set in memory.
"""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import name_list
from ragscore.golden.golden_text import GoldenText, Values, locked, write_golden_text
from ragscore.golden.sheet import LEVELS, STATE, filled, golden_to_label, state, targets_met
from ragscore.io.columns import ANSWERABLE
from ragscore.io.files import naming, read_bytes
from ragscore.io.formats.chatbot import chatbot_cases
from ragscore.io.golden_read import ID_FIELDS
from ragscore.io.golden_write import golden_rows

LOCATORS = {
    "anchor": ["path", "heading", "snippet"], "chunk": ["chunk_id", "chunker_version"],
    "doc": ["doc_id"],
}  # fmt: skip


def _split(was: pd.Series) -> pd.DataFrame:
    parts = was.fillna("||").astype("str").str.split("|", n=2, expand=True)
    return parts.reindex(columns=range(3)).fillna("").set_axis(STATE, axis=1)


def add_labels(
    golden_file: str | os.PathLike[str], sheet: pd.DataFrame | str | os.PathLike[str]
) -> list[str]:
    """Write the changes of a label sheet into a golden file; return the ids of changed queries.

    Only fields whose labels changed are rewritten: comments, order and spelling of everything
    else stay, and so do labels that others gave meanwhile. A copy of the file as it was is kept
    (.bak).

    Parameters
    ----------
    golden_file
        Our golden file (YAML or JSON lines, also .gz), or a chatbot's `eval_set.jsonl`.
    sheet
        What `rs.label_sheet` gave, filled in, or the CSV file of it.

    Raises
    ------
    DataError
        As `Golden.with_labels`; a file of another format, such as CSV: label what `golden.save`
        writes. Nothing is written.
    """
    path = Path(golden_file).resolve()
    with locked(path.parent):
        golden = golden_to_label(path)
        text = GoldenText(path, read_bytes(path).decode(errors="replace"))
        if (
            not path.name.removesuffix(".gz").endswith((".yaml", ".yml", ".jsonl"))
            or [*text.rows] != golden.queries["query_id"].tolist()
        ):
            raise DataError(
                "its rows can't be labelled",
                file=path,
                allowed='YAML or JSON lines with ids, as golden.save("golden.yaml") writes them',
            )
        new, meant = _labelled(golden, sheet)
        if any("question" in row.values for row in text.rows.values()):  # a chatbot's cases
            meant.queries["answerable"] = meant.queries["answerable"].fillna(True)
            old, new = chatbot_cases(golden), chatbot_cases(meant)
        else:
            old, _ = golden_rows(golden, path)
        changes = _changed_fields(text, old, new, golden, meant)
        if changes:
            write_golden_text(_changed_text(text, changes, meant))
    return list(changes)


def with_labels(golden: Golden, sheet: pd.DataFrame | str | os.PathLike[str]) -> Golden:
    """Return the golden set with the changes of a label sheet (`rs.label_sheet`).

    A hit gets the grade that its row says; without one it loses its label. A document's label
    holds for all paraphrases of a group. The set is as if saved, labelled and loaded again: spans
    of `resolve_spans` are to be resolved again.

    Raises
    ------
    DataError
        A query that the set doesn't have; another grade than a whole number from 0 on; a label that
        somebody else changed since the sheet was made; a query to refuse that has relevant targets;
        a hit without what its level needs, or a snippet that its text doesn't hold.
    """
    return _labelled(golden, sheet)[1]


def _labelled(golden: Golden, sheet: Any) -> tuple[list[Values], Golden]:
    """Return the golden set with the changes of a sheet, and its rows."""
    due = _due(golden, _read(sheet))
    targets = _relabelled(golden, due[due["relabel"]].reset_index(drop=True))
    queries = golden.queries.assign(answerable=_answerable(golden, due, targets))
    meant = replace(golden, queries=queries, targets=targets)
    rows, found = golden_rows(meant, "golden.with_labels")
    said = _split(filled(due, found)["was"])
    for name, is_due, allowed in (
        ("grade", due["relabel"], "a grade for each target; words of the hit's text"),
        ("answerable", due["restate"], "false only where no grade is above 0"),
    ):
        for row in due.index[is_due & due[name].ne(said[name])]:
            text = f"{due[name][row]!r} of {due['query_id'][row]} would be {said[name][row]!r}"
            raise DataError(text, field=f"sheet.{name}", allowed=allowed)
    return rows, found


def _read(sheet: Any) -> pd.DataFrame:
    if not isinstance(sheet, pd.DataFrame):
        sheet = pd.read_csv(sheet, dtype="str", keep_default_na=False)
        sheet = sheet.replace("\r\n", "\n", regex=True).mask(sheet.eq(""))
    needed = ["query_id", "answerable", "grade", "level", "was"]
    if lacking := [name for name in needed if name not in sheet]:
        raise DataError(
            f"no column {name_list(lacking)}", field="sheet", allowed="what rs.label_sheet gives"
        )
    levels = sheet["level"].unique()
    if len(levels) > 1 or not {*levels} <= {*LEVELS}:
        raise DataError(
            f"found {name_list(levels)}", field="sheet.level",
            allowed=f"one level a sheet: {', '.join(LEVELS)}",
        )  # fmt: skip
    return sheet.reset_index(drop=True).astype({"query_id": "str"})


def _due(golden: Golden, sheet: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a sheet that say something new.

    `relabel`: a new grade or snippet; `restate`: a new `answerable`; `old`: the snippet so far.
    """
    wanted, was = state(sheet), _split(sheet["was"])
    now = _split(filled(sheet, golden)["was"])
    changed = wanted.ne(was)
    changed["snippet"] &= was["snippet"].ne("")  # a proposal is no label
    clash = (changed & now.ne(was) & now.ne(wanted)).any(axis=1)
    if clash.any():
        row = sheet[clash].iloc[0]
        raise DataError(
            f"a label of {row['query_id']} was changed by someone else since ({row['was']!r} then,"
            f" {now[clash].iloc[0].str.cat(sep='|')!r} now)",
            field="sheet", allowed="a new sheet, rs.label_sheet",
        )  # fmt: skip
    todo = changed & now.ne(wanted)
    relabel, restate = todo["grade"] | todo["snippet"], todo["answerable"]
    found = sheet.assign(**wanted, relabel=relabel, restate=restate, old=now["snippet"])
    found = found[relabel | restate]
    if "group" in golden.queries:  # paraphrases expect the same documents
        group = golden.queries[["query_id", "group"]].dropna()
        pairs = group.merge(group.rename(columns={"query_id": "member"}))
        pairs = pairs[pairs["member"].ne(pairs["query_id"])]
        shared = found[found["level"].eq("doc") & found["relabel"]].merge(pairs, on="query_id")
        shared = shared.drop(columns="query_id").rename(columns={"member": "query_id"})
        found = pd.concat([found, shared.assign(restate=False)])
    return found.reset_index(drop=True)


def _relabelled(golden: Golden, hits: pd.DataFrame) -> pd.DataFrame:
    """Return the targets as hits say: those they meet are graded or go, others come."""
    targets, level = golden.targets.reset_index(drop=True), [*hits["level"], *LEVELS][0]
    if len(hits) and "gain" in targets and targets["gain"].notna().any():
        raise DataError("the set has gains", field="targets.gain", allowed="whole grades")
    met = targets_met(hits, targets)
    said = hits.loc[met["row"], ["grade", "snippet", "old"]].set_axis(met["target"].to_numpy())
    said = said[~said.index.duplicated(keep="last")]  # by the position of the target
    number = targets.groupby(["query_id", "level", "target_id"], sort=False).ngroup()
    gone = pd.Series(number.index.isin(said.index[said["grade"].eq("")]))
    if level == "anchor":  # of ids, other alternatives of a target stay
        gone = number.isin(number[gone])
    named = golden.support_groups.merge(targets.loc[gone, ["query_id", "target_id"]])
    if len(named):
        raise DataError(
            f"a group of {named['query_id'].iloc[0]} names a target that goes",
            field="required_support_groups", allowed="edit this row by hand",
        )  # fmt: skip
    kept = _graded(targets, number, said[said["grade"].ne("")])[~gone]
    new = _new_targets(hits[~hits.index.isin(met["row"])], level)
    return pd.concat([kept, new], ignore_index=True)


def _graded(targets: pd.DataFrame, number: pd.Series, said: pd.DataFrame) -> pd.DataFrame:
    """Return targets with grades and snippets as said; alternatives of a target share a grade."""
    of_target = said["grade"].astype("int32").groupby(number[said.index]).last()
    grade = number.map(of_target).fillna(targets["grade"]).astype("int32")
    found = targets.assign(grade=grade)
    if "judged_by" in targets:
        found["judged_by"] = targets["judged_by"].where(grade.eq(targets["grade"]))
    for place, old, words in said[["old", "snippet"]].itertuples():
        if old and words and targets.loc[place, "snippet"] == old:
            found.loc[place, "snippet"] = words
    return found


def _new_targets(hits: pd.DataFrame, level: str) -> pd.DataFrame:
    """Return a target for each hit that has a grade and is named at this level."""
    columns = ["query_id", "grade", *LOCATORS[level]]
    new = hits[hits["grade"].ne("")].reindex(columns=columns)
    new = new.mask(new == "").dropna(subset=LOCATORS[level][0]).drop_duplicates()
    target_id, grade = "new " + new.index.astype("str"), new["grade"].astype("int32")
    return new.assign(level=level, alternative=0, target_id=target_id, grade=grade)


def _answerable(golden: Golden, due: pd.DataFrame, targets: pd.DataFrame) -> pd.Series:
    """Return `answerable` of each query: of those due as their targets say, else as the sheet."""
    queries = golden.queries.reindex(columns=["query_id", "answerable", "reference_answer"])
    ids = queries["query_id"]
    expects = ids.isin(golden.checks["query_id"]) | queries["reference_answer"].notna()
    is_due = ids.isin(due["query_id"])
    stated = due[due["restate"]].drop_duplicates("query_id").set_index("query_id")["answerable"]
    answerable = queries["answerable"].mask(
        is_due & ~expects & queries["answerable"].eq(True).fillna(False)
    )
    given = ids.map(stated.map({"true": True, "false": False})).astype("boolean")
    answerable = given.where(ids.isin(stated.index), answerable)
    return answerable.mask(is_due & ids.isin(targets.loc[targets["grade"] > 0, "query_id"]), True)


def _changed_fields(
    text: GoldenText, old: list[Values], new: list[Values], before: Golden, after: Golden
) -> dict[str, Values]:
    """Return the fields of a file's rows that differ, by query; None removes one."""
    was, now = (one.queries["answerable"].astype("str").fillna("") for one in (before, after))
    changes = dict[str, Values]()
    for row, labelled, stated, states in zip(old, new, was, now, strict=True):
        values, names = text.rows[row["id"]].values, row | labelled
        found = {name: labelled.get(name) for name in names if row.get(name) != labelled.get(name)}
        if stated != states:
            gone = [name for name in ANSWERABLE if name in values]
            if states != "False":  # an empty list says so, too
                gone += [name for name, _ in ID_FIELDS.values() if values.get(name) == []]
            found = dict.fromkeys(gone) | {"answerable": labelled.get("answerable")} | found
        changes |= {row["id"]: found} if found else {}
    return changes


def _changed_text(text: GoldenText, changes: dict[str, Values], meant: Golden) -> GoldenText:
    """Return the changed text; refuse one that would not be read as it is meant."""
    after, name = text.edited(changes), next(iter(changes))
    with naming(text.path), TemporaryDirectory() as folder:
        copy = Path(folder) / text.path.name.removesuffix(".gz")
        copy.write_text(after.text, encoding="utf-8", newline="")
        with suppress(DataError):
            if golden_to_label(copy).golden_hash == meant.golden_hash:
                return after
    raise DataError(
        f"the row of {name} can't be changed alone", file=text.path, line=text.rows[name].line,
        allowed="a plain list of mappings; edit this row by hand",
    )  # fmt: skip

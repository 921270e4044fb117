"""Labels by a sheet: hits of some runs in a frame with a column `grade`, filled in anywhere.

`label_sheet` makes it; a notebook's panel, a spreadsheet, a terminal or a judge fills it in; and
`add_labels` (a golden file) or `with_labels` (a golden set in memory) takes its changes over, as
changed fields of golden rows. What changed is told by the column `was`, so that several people may
work on one file.
"""

import os
import re
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_choice, name_list, unsaid
from ragscore.golden.golden_text import (
    GoldenText,
    Values,
    locked,
    write_golden_text,
)
from ragscore.io.columns import ANSWERABLE
from ragscore.io.files import naming, read_bytes
from ragscore.io.formats.chatbot import chatbot_cases
from ragscore.io.golden_read import ID_FIELDS, golden_of
from ragscore.io.golden_write import golden_rows
from ragscore.io.load import load_golden, load_results
from ragscore.io.source import Problems, Row
from ragscore.scoring.rules import ELLIPSES, Rule, by_anchor, by_chunk, by_doc, matched_pairs

RULES: dict[str, Rule] = {"anchor": by_anchor(), "chunk": by_chunk, "doc": by_doc}
LEVELS = tuple(RULES)
LOCATORS = {
    "anchor": ["path", "heading", "snippet"], "chunk": ["chunk_id", "chunker_version"],
    "doc": ["doc_id"],
}  # fmt: skip
STATE = ["grade", "answerable", "snippet"]
STATES = {"True": "labelled", "False": "should refuse"}  # what `answerable` says of a query
SHOWN = (
    "path", "heading", "text", "text_cut", "chunk_id", "doc_id", "start", "end", "span_unit",
    "chunker_version",
)  # fmt: skip
COLUMNS = (
    "query_id", "query", "answerable", "rank", "found", *SHOWN, "snippet", "grade", "level", "was",
)  # fmt: skip


def label_sheet(
    results: Any, golden: Any, k: int = 20, *, level: str | None = None
) -> pd.DataFrame:
    """Return the first hits of some runs as a sheet, to label which of them answer which query.

    Fill in `grade`, `answerable` and `snippet` in any editor, and hand the sheet, or its CSV file,
    to `rs.add_labels` or `golden.with_labels`. Other columns stay as they are.

    Parameters
    ----------
    results, golden
        `Results` and `Golden`, or what `rs.load_results` and `rs.load_golden` take.
    k
        Hits of each run.
    level
        What is labelled: "anchor" (a passage: path, heading and a few words, which survive another
        chunker), "chunk" or "doc" (ids). By default what most queries have labels of, else anchor.

    Returns
    -------
    One row per query and passage, chunk or document, in the order of the golden set, best rank
    first; a query without hits has one row. query_id, query; `answerable` (true, false: should
    refuse; NA: unlabelled); `rank` (the best), `found` ("bm25 3, dense 1"); path, heading, text,
    ids, as far as hits have them; `grade` (0: no help, 1: supports the answer, 2: well, 3: exactly;
    NA: no label); `snippet`, the words by which an anchor finds its passage again: those of its
    label, else a proposal; `level`; `was`, the label when the sheet was made.

    Raises
    ------
    DataError
        An unknown level, or hits without what it needs.
    """
    loaded = results if isinstance(results, Results) else load_results(results)
    known = golden_to_label(golden)
    used = known.targets.loc[known.targets["level"].isin(LEVELS)].groupby("level")["query_id"]
    level = level or (str(used.nunique().idxmax()) if len(used) else LEVELS[0])
    check_choice(level, LEVELS, "level")
    pool = pooled_hits(loaded, level, k)
    column = "path" if level == "anchor" else f"{level}_id"
    if len(pool) and (column not in pool or pool[column].isna().all()):
        raise DataError(
            f"no hit has a {column}", field=f"hits.{column}",
            allowed=f"another level: {', '.join(LEVELS)}",
        )  # fmt: skip
    sheet = known.queries[["query_id", "query"]].merge(pool, on="query_id", how="left")
    snippet = _proposed(sheet) if level == "anchor" else pd.Series(pd.NA, sheet.index, dtype="str")
    sheet = filled(sheet.assign(snippet=snippet, level=level), known)
    return sheet[[name for name in COLUMNS if name in sheet]]


def golden_to_label(source: Any) -> Golden:
    """Return a golden set without warnings: that queries are unlabelled is no news here."""
    with unsaid():
        return source if isinstance(source, Golden) else load_golden(source)


def filled(sheet: pd.DataFrame, golden: Golden) -> pd.DataFrame:
    """Return a sheet with what a golden set says of its rows: grade, answerable, snippet, was."""
    sheet = sheet.reset_index(drop=True)
    targets = golden.targets.reindex(columns=["grade", "snippet"]).reset_index(drop=True)
    met = _met(sheet, golden.targets).join(targets, on="target").groupby("row")
    of_row = met.agg({"grade": "max", "snippet": "first"}).reindex(sheet.index)
    stated = golden.queries.set_index("query_id")["answerable"]
    told = sheet[["query_id"]].assign(
        grade=of_row["grade"].astype("Int64"), snippet=of_row["snippet"].astype("str"),
        answerable=sheet["query_id"].map(stated).astype("boolean"),
    )  # fmt: skip
    said = state(told)
    was = said["grade"] + "|" + said["answerable"] + "|" + said["snippet"]
    told["snippet"] = told["snippet"].fillna(sheet.get("snippet", told["snippet"]))
    return sheet.assign(**told[STATE], was=was)


def _proposed(sheet: pd.DataFrame) -> pd.Series:
    """Return words of each passage that no other passage of its file contains."""
    found: dict[Any, str | None] = {}
    if "text" in sheet:
        for _, texts in sheet.dropna(subset="text").groupby(["query_id", "path"])["text"]:
            for row, text in texts.items():
                found[row] = snippet_of(text, texts.drop(row))
    return pd.Series(found, sheet.index, dtype="str")


def state(sheet: pd.DataFrame) -> pd.DataFrame:
    """Return what a sheet's rows say, each as one text; what is unknown is empty.

    Raises
    ------
    DataError
        A grade that is no whole number from 0 on; `answerable` that is neither true nor false.
    """
    given = sheet.reindex(columns=STATE).astype("object")
    texts = given.where(given.notna(), "").astype("str").apply(lambda one: one.str.strip())
    grade = texts["grade"].str.removesuffix(".0")
    stated = texts["answerable"].str.lower()
    for name, found, is_right, allowed in (
        ("grade", grade, grade.str.fullmatch(r"\d{0,9}"), "0, 1, 2, 3, or nothing"),
        ("answerable", stated, stated.isin(["true", "false", ""]), "true, false, or nothing"),
    ):
        if not is_right.all():
            row = int(np.argmin(is_right))
            raise DataError(
                f"found {found.iloc[row]!r} (query {sheet['query_id'].iloc[row]})",
                field=f"sheet.{name}", allowed=allowed,
            )  # fmt: skip
    return texts.assign(grade=grade, answerable=stated)


def pooled_hits(results: Results, level: str, k: int) -> pd.DataFrame:
    """Return the first k hits of each run, once per passage, chunk or document.

    Passages are one if they have the same text at the same place, else if they have the same chunk
    id.

    Returns
    -------
    One row per query and passage: `rank` (the best), `found` ("bm25 3, dense 1"), and chunk_id,
    doc_id, path, heading, span, text, what of these the hits have; best rank first.
    """
    hits = results.hits[(results.hits["rank"] <= k).to_numpy()].reset_index(drop=True)
    columns = hits.reindex(columns=SHOWN)
    if "chunker_version" in results.runs:
        of_run = results.runs.set_index(results.runs["run_id"].astype("str"))["chunker_version"]
        stated = hits["run_id"].astype("str").map(of_run).astype("str")
        columns["chunker_version"] = columns["chunker_version"].astype("str").fillna(stated)
    text = columns.astype("str").where(columns.notna())
    place = text["path"].fillna(text["doc_id"]).fillna("")
    spot = place + "\0" + text[["heading", "start", "end"]].fillna("").agg("\0".join, axis=1)
    by_text = place + "\0" + text["text"]
    name = by_text.fillna(text["chunk_id"]) if level == "anchor" else text[f"{level}_id"]
    hits = hits[["query_id", "rank"]].assign(
        **columns.dropna(axis=1, how="all"),
        run=hits["run_id"].cat.codes, run_id=hits["run_id"].astype("str"),
        passage=name.fillna(spot),
    )  # fmt: skip
    key = ["query_id", "passage"]
    hits = hits.sort_values(["rank", "run"], kind="stable")
    by_run = hits.drop_duplicates([*key, "run"]).sort_values("run", kind="stable")
    by_run["found"] = by_run["run_id"] + " " + by_run["rank"].astype("str")
    told = by_run.groupby(key)["found"].agg(", ".join)
    pool = hits.drop_duplicates(key).merge(told, on=key)
    pool = pool.sort_values(["query_id", "rank", "run"], kind="stable", ignore_index=True)
    shown = ["query_id", "rank", "found", *(name for name in SHOWN if name in pool)]
    return pool[shown].astype({"query_id": "str"})


def add_labels(
    golden_file: str | os.PathLike[str], sheet: pd.DataFrame | str | os.PathLike[str]
) -> list[str]:
    """Write the changes of a label sheet into a golden file; return the ids of changed queries.

    Only fields whose labels changed are written anew: comments, order and spelling of everything
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
        meant, rows_of = with_labels(golden, sheet), partial[Any](golden_rows, path=path)
        if any("question" in row.values for row in text.rows.values()):  # a chatbot's cases
            meant.queries["answerable"] = meant.queries["answerable"].fillna(True)
            rows_of = partial(chatbot_cases)
        changes = _changed_fields(text, rows_of(golden), rows_of(meant), golden, meant)
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
    due = _due(golden, _read(sheet))
    targets = _relabelled(golden, due[due["relabel"]].reset_index(drop=True))
    queries = golden.queries.assign(answerable=_answerable(golden, due, targets))
    rows = golden_rows(replace(golden, queries=queries, targets=targets), "golden.with_labels")
    listed = [Row(row, number) for number, row in enumerate(rows, 1)]
    found = golden_of(listed, Problems("sheet", strict=True), "unlabelled", None)
    said = _split(filled(due, found)["was"])
    _refuse(due, due["relabel"], "grade", said, "a grade for each target; words of the hit's text")
    _refuse(due, due["restate"], "answerable", said, "false only where no grade is above 0")
    return found


def _refuse(due: pd.DataFrame, is_due: Any, name: str, said: pd.DataFrame, allowed: str) -> None:
    """Refuse what labels would not say as the sheet does."""
    for row in due.index[is_due & due[name].ne(said[name])]:
        told = f"{due[name][row]!r} of {due['query_id'][row]} would be {said[name][row]!r}"
        raise DataError(told, field=f"sheet.{name}", allowed=allowed)


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
        shared = found[found["level"].eq("doc") & found["relabel"]].merge(pairs, on="query_id")
        shared = shared[shared["member"].ne(shared["query_id"])].assign(restate=False)
        shared = shared.drop(columns="query_id").rename(columns={"member": "query_id"})
        found = pd.concat([found, shared])
    return found.reset_index(drop=True)


def _split(was: pd.Series) -> pd.DataFrame:
    parts = was.fillna("||").astype("str").str.split("|", n=2, expand=True)
    return parts.reindex(columns=range(3)).fillna("").set_axis(STATE, axis=1)


def _met(sheet: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Return the targets that rows of a sheet meet at its level: positions `row` and `target`."""
    level = [*sheet["level"], *LEVELS][0]
    places = np.flatnonzero(targets["level"].eq(level))
    names = [name for name in ("path", "heading", "text", f"{level}_id") if name in sheet]
    hits = sheet.astype(dict.fromkeys(names, "str")).reset_index(drop=True)
    known = targets.iloc[places].reset_index(drop=True)
    if not (len(hits) and len(known)):
        return pd.DataFrame({"row": [], "target": []}, dtype="int64")
    hit, target = matched_pairs(RULES[level], hits, known)
    return pd.DataFrame({"row": hit, "target": places[target]}).sort_values("row", kind="stable")


def _relabelled(golden: Golden, hits: pd.DataFrame) -> pd.DataFrame:
    """Return the targets as hits say: those they meet are graded or go, others come."""
    targets, level = golden.targets.reset_index(drop=True), [*hits["level"], *LEVELS][0]
    if len(hits) and "gain" in targets and targets["gain"].notna().any():
        raise DataError("the set has gains", field="targets.gain", allowed="whole grades")
    met = _met(hits, targets)
    said = hits.loc[met["row"], ["grade", "snippet", "old"]].set_axis(met["target"].to_numpy())
    said = said[~said.index.duplicated(keep="last")]
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
    said = said[said["grade"].ne("")]
    of_target = said["grade"].astype("int32").groupby(number[said.index]).last()
    grade = number.map(of_target).fillna(targets["grade"]).astype("int32")
    if "judged_by" in targets:
        targets["judged_by"] = targets["judged_by"].where(grade.eq(targets["grade"]))
    targets["grade"] = grade
    for place, old, words in said[["old", "snippet"]].itertuples():
        if old and words and targets.loc[place, "snippet"] == old:
            targets.loc[place, "snippet"] = words
    new = hits[hits["grade"].ne("") & ~hits.index.isin(met["row"])]
    new = new.reindex(columns=["query_id", "grade", *LOCATORS[level]])
    new = new.mask(new == "").dropna(subset=LOCATORS[level][0]).drop_duplicates()
    new = new.assign(level=level, alternative=0)
    new["target_id"], new["grade"] = "new " + new.index.astype("str"), new["grade"].astype("int32")
    targets = pd.concat([targets[~gone], new], ignore_index=True)
    chunks = targets[targets["level"].eq("chunk")].reindex(columns=["query_id", "chunker_version"])
    chunks = chunks.dropna().drop_duplicates()
    many = chunks[chunks.duplicated("query_id", keep=False)]
    if len(many):
        raise DataError(
            f"chunks of {many['query_id'].iloc[0]} are of {name_list(many['chunker_version'])}",
            field="chunker_version", allowed="one chunker; or label anchors",
        )  # fmt: skip
    return targets


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
    told = ids.map(stated.map({"true": True, "false": False})).astype("boolean")
    answerable = told.where(ids.isin(stated.index), answerable)
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


LONGEST, SHORTEST = 100, 12  # characters
FEWEST = 3  # words; a name alone occurs in many passages
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+")
_AS_WRITTEN: Any = {"expand_tabs": False, "replace_whitespace": False, "break_on_hyphens": False}


def snippet_of(text: str, others: Iterable[str] = ()) -> str | None:
    """Return a sentence of a text, or its first 100 characters cut between words.

    It is the first sentence that none of the `others` (hits of the same place) contains, so that
    the label doesn't cover them too. Sentences lie within one line, because another chunker may
    join or cut lines. Without a sentence of three words the longest one is returned, without any
    words None.
    """
    sentences = [one for line in text.split("\n") for one in _SENTENCE.split(line.strip())]
    for mark in ELLIPSES:  # of a text that was cut when it was stored
        sentences = [one.removesuffix(mark) for one in sentences]
    cut = [textwrap.wrap(one, LONGEST, **_AS_WRITTEN)[0] for one in sentences if one.strip()]
    found = [one for one in cut if re.search(r"\w", one)]
    if not found:
        return None
    elsewhere = [other.lower() for other in others]
    own = [one for one in found if not any(one.lower() in other for other in elsewhere)] or found
    long = [one for one in own if len(one) >= SHORTEST and len(one.split()) >= FEWEST]
    return long[0] if long else max(own, key=len)

"""Labels by a sheet: hits of some runs in a frame with a column `grade`, filled in anywhere.

`label_sheet` makes it; a notebook's panel, a spreadsheet, a terminal or a judge fills it in; and
`add_labels` (a golden file) or `with_labels` (a golden set in memory) takes its changes over. What
changed is told by the column `was`, so that several people may work on one file.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_choice, name_list, unsaid
from ragscore.golden.golden_text import GoldenText, Values, change_file
from ragscore.golden.pool import RULES, pooled_hits, snippet_of
from ragscore.io.columns import ANSWERABLE
from ragscore.io.golden_read import ID_FIELDS
from ragscore.io.golden_write import row_of
from ragscore.io.load import load_golden, load_results
from ragscore.io.values import by_query
from ragscore.scoring.rules import matched_pairs

LEVELS = ("anchor", "chunk", "doc")
FIELD_OF = {"anchor": "gold_supports"} | {level: ID_FIELDS[level][0] for level in ("chunk", "doc")}
STATE = ["grade", "answerable", "snippet"]
KEY = ["query_id", "level", "target_id"]


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
    last = ["snippet", "grade", "level", "was"]
    first = ["query_id", "query", "answerable", "rank", "found"]
    return sheet[[*first, *(name for name in sheet if name not in (*first, *last)), *last]]


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
    was = state(told).agg("|".join, axis=1)
    proposed = sheet["snippet"] if "snippet" in sheet else told["snippet"]
    told["snippet"] = told["snippet"].fillna(proposed)
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


def add_labels(
    golden_file: str | os.PathLike[str], sheet: pd.DataFrame | str | os.PathLike[str]
) -> list[str]:
    """Write the changes of a label sheet into a golden file; return the ids of changed queries.

    Only the labels that changed are written: comments, order and spelling of everything else stay,
    and so do labels that others gave meanwhile. A copy of the file as it was is kept (.bak).

    Parameters
    ----------
    golden_file
        Our golden file (YAML or JSON lines, also .gz), or a chatbot's `eval_set.jsonl`.
    sheet
        What `rs.label_sheet` gave, filled in, or the CSV file of it.

    Raises
    ------
    DataError
        As `Golden.with_labels`; or a row of the file can't be changed alone. Nothing is written.
    """
    path, changed = Path(golden_file).resolve(), list[str]()

    def action(text: GoldenText) -> GoldenText:
        golden = golden_to_label(path)
        due = _due(golden, _read(sheet))
        asked = list(dict.fromkeys(due["query_id"]))
        old, new = (_rows(one, asked) for one in (golden, _labelled(golden, due)))
        fields = {name: _changes(text.rows[name].values, old[name], new[name]) for name in asked}
        changed[:] = [name for name in asked if fields[name]]
        return text.edited({name: fields[name] for name in changed})

    change_file(path, action)
    return changed


def with_labels(golden: Golden, sheet: pd.DataFrame | str | os.PathLike[str]) -> Golden:
    """Return the golden set with the changes of a label sheet (`rs.label_sheet`).

    A hit gets the grade that its row says; without one it loses its label. A document's label
    holds for all paraphrases of a group.

    Raises
    ------
    DataError
        A query that the set doesn't have; another grade than a whole number from 0 on; a label that
        somebody else changed since the sheet was made; a query to refuse that has relevant targets;
        a hit without what its level needs, or a snippet that its text doesn't hold.
    """
    return _labelled(golden, _due(golden, _read(sheet)))


def _labelled(golden: Golden, due: pd.DataFrame) -> Golden:
    targets = _targets(golden, due[due["relabel"]])
    groups, key = golden.support_groups, ["query_id", "target_id"]
    gone = _keys(golden.targets, key).difference(_keys(targets, key))
    if len(groups) and len(gone):
        groups = groups[~_keys(groups, key).isin(gone)]
        number = groups.groupby("query_id")["group"].rank("dense").astype("int64") - 1
        groups = groups.assign(group=number).reset_index(drop=True)
    queries = golden.queries.assign(answerable=_answerable(golden, targets, due))
    return replace(golden, queries=queries, targets=targets, support_groups=groups)


def _read(sheet: Any) -> pd.DataFrame:
    if not isinstance(sheet, pd.DataFrame):
        sheet = pd.read_csv(sheet, dtype="str", keep_default_na=False)
        sheet = sheet.replace("\r\n", "\n", regex=True).mask(sheet.eq(""))
    needed = ["query_id", "answerable", "grade", "level", "was"]
    if lacking := [name for name in needed if name not in sheet]:
        raise DataError(
            f"no column {name_list(lacking)}", field="sheet", allowed="what rs.label_sheet gives"
        )
    return sheet.reset_index(drop=True).astype({"query_id": "str"})


def _due(golden: Golden, sheet: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a sheet that say something new.

    `relabel`: a new grade or snippet; `restate`: a new `answerable`; `old`: the snippet so far.
    """
    strange = sheet.loc[~sheet["query_id"].isin(golden.queries["query_id"]), "query_id"]
    if len(strange):
        raise DataError(
            f"no query {strange.iloc[0]!r}", field="sheet.query_id",
            allowed="queries of the golden set: add the row there first",
        )  # fmt: skip
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
    relabel = todo["grade"] | todo["snippet"]
    found = sheet.assign(**wanted, relabel=relabel, restate=todo["answerable"], old=now["snippet"])[
        relabel | todo["answerable"]
    ]
    group = golden.queries.reindex(columns=["query_id", "group"]).dropna()
    if not len(group) or not found["level"].eq("doc").any():
        return found
    group_of = group.set_index("query_id")["group"]
    own = found["query_id"].map(group_of).where(found["level"].eq("doc") & found["relabel"])
    members = group.rename(columns={"query_id": "member"})
    found = found.assign(group=own).merge(members, on="group", how="left")
    is_other = found["member"].notna() & found["member"].ne(found["query_id"])
    return found.assign(
        query_id=found["member"].fillna(found["query_id"]), restate=found["restate"] & ~is_other
    ).drop(columns=["group", "member"])


def _split(was: pd.Series) -> pd.DataFrame:
    parts = was.fillna("||").astype("str").str.split("|", n=2, expand=True)
    return parts.reindex(columns=range(3)).fillna("").set_axis(STATE, axis=1)


def _keys(frame: pd.DataFrame, names: list[str]) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(frame[names].astype("str"))


def _met(sheet: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Return the targets that rows meet at their own level: positions `row` and `target`."""
    parts = [pd.DataFrame({"row": [], "target": []}, dtype="int64")]
    for level, rule in RULES.items():
        rows = np.flatnonzero(sheet["level"].eq(level))
        places = np.flatnonzero(targets["level"].eq(level))
        if len(rows) and len(places):
            hits = sheet.iloc[rows].reset_index(drop=True)
            names = [name for name in ("path", "heading", "text", f"{level}_id") if name in hits]
            hits = hits.astype(dict.fromkeys(names, "str"))
            hit, target = matched_pairs(rule, hits, targets.iloc[places].reset_index(drop=True))
            parts.append(pd.DataFrame({"row": rows[hit], "target": places[target]}))
    return pd.concat(parts, ignore_index=True)


def _targets(golden: Golden, due: pd.DataFrame) -> pd.DataFrame:
    """Return the targets after the labels of some rows."""
    due, targets = due.reset_index(drop=True), golden.targets.reset_index(drop=True)
    if "gain" in targets and targets["gain"].notna().any() and len(due):
        raise DataError("the set has gains", field="targets.gain", allowed="whole grades")
    met = _met(due, targets)
    met = met.join(due[["grade", "snippet", "old"]], on="row").join(targets[KEY], on="target")
    key = _keys(targets, KEY)
    wanted = met.drop_duplicates(KEY, keep="last").set_index(KEY)["grade"].reindex(key).to_numpy()
    is_regraded = pd.Series(wanted).fillna("").ne("")
    known = due["snippet"] if "snippet" in due else pd.Series("", due.index)
    _check_snippets(due.assign(snippet=known))
    if len(met):
        words = met[met["snippet"].ne(met["old"]) & met["old"].ne("") & met["snippet"].ne("")]
        for _, one in words.iterrows():
            is_old = (key == tuple(one[KEY])) & targets["snippet"].eq(one["old"])
            targets.loc[is_old, "snippet"] = one["snippet"]
        number = pd.to_numeric(pd.Series(wanted)).where(is_regraded)
        differs = is_regraded & number.ne(targets["grade"])
        targets["grade"] = number.fillna(targets["grade"]).astype("int32")
        if "judged_by" in targets:
            targets["judged_by"] = targets["judged_by"].mask(differs)
    is_hit = targets.index.isin(met["target"]) | targets["level"].eq("anchor")
    kept = targets[~(pd.Series(wanted).eq("") & is_hit)]
    new = due[due["grade"].ne("") & ~due.index.isin(met["row"])]
    return pd.concat([kept, *(_new_targets(rows, kept) for _, rows in new.groupby("level"))],
                     ignore_index=True)  # fmt: skip


def _check_snippets(due: pd.DataFrame) -> None:
    given = due[due["level"].eq("anchor") & due["grade"].ne("") & due["snippet"].ne("")]
    for _, row in given.iterrows() if "text" in given else ():
        text = row["text"]
        if isinstance(text, str) and row["snippet"].lower() not in text.lower():
            raise DataError(
                f"{row['snippet']!r} is not in the hit's text (query {row['query_id']})",
                field="sheet.snippet", allowed="words as they stand in the text",
            )  # fmt: skip


def _new_targets(rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Return new targets of one level."""
    level = str(rows["level"].iloc[0])
    column = "path" if level == "anchor" else f"{level}_id"
    names = {"anchor": ["path", "heading", "snippet"], "chunk": ["chunk_id", "chunker_version"]}
    columns = [name for name in names.get(level, ["doc_id"]) if name in rows]
    lacks = rows[column].isna() if column in rows else pd.Series(True, rows.index)
    if lacks.any():
        raise DataError(
            f"a hit of {rows.loc[lacks, 'query_id'].iloc[0]} has no {column}",
            field=f"sheet.{column}", allowed=f"a level that it has: {', '.join(LEVELS)}",
        )  # fmt: skip
    new = rows[["query_id", *columns]].assign(
        level=level, alternative=0, grade=pd.to_numeric(rows["grade"]).astype("int32")
    )
    if level == "anchor":
        new["snippet"] = new["snippet"].mask(new["snippet"].eq(""))
        name = new["path"] + "#" + (new["heading"].fillna("") if "heading" in new else "")
    else:
        name = new[column]
    if level == "chunk":
        new = _with_chunkers(new, known)
    new = new.assign(target_id=name.astype("str")).drop_duplicates(["query_id", *columns])
    both = pd.concat([known[known["level"].eq(level)][KEY], new[KEY]])
    base = both["target_id"].str.replace(r"\(\d+\)$", "", regex=True)
    number = both.assign(base=base).groupby(["query_id", "base"]).cumcount()[-len(new) :] + 1
    suffix = number.map(lambda n: "" if n == 1 else f"({n})").to_numpy()
    return new.assign(target_id=new["target_id"] + suffix)


def _with_chunkers(new: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Return new chunks with their query's chunker; a hit of another one is refused."""
    rows = known.reindex(columns=["query_id", "chunker_version"]).dropna()
    stated = new["query_id"].map(rows.groupby("query_id")["chunker_version"].first()).astype("str")
    own = new.reindex(columns=["chunker_version"])["chunker_version"].astype("str")
    other = own.notna() & stated.notna() & own.ne(stated)
    if other.any():
        raise DataError(
            f"a hit of {new['query_id'][other].iloc[0]} is of the chunker {own[other].iloc[0]}",
            field="chunker_version",
            allowed=f"{stated[other].iloc[0]}, as the query says; or label anchors",
        )  # fmt: skip
    return new.assign(chunker_version=stated.fillna(own))


def _answerable(golden: Golden, targets: pd.DataFrame, due: pd.DataFrame) -> pd.Series:
    """Return `answerable` of every query: as the sheet says, else as its targets do."""
    queries = golden.queries
    ids, before = queries["query_id"], queries["answerable"].astype("boolean")
    positive = ids.isin(targets.loc[targets["grade"] > 0, "query_id"])
    stated = due[due["restate"]].groupby("query_id")["answerable"].agg(["first", "nunique"])
    if (stated["nunique"] > 1).any():
        raise DataError(
            f"true and false (query {stated.index[stated['nunique'].gt(1)][0]})",
            field="sheet.answerable", allowed="one of them",
        )  # fmt: skip
    says = ids.map(stated["first"])
    if (says.eq("false") & positive).any():
        raise DataError(
            f"targets are labelled as the answer of {ids[says.eq('false') & positive].iloc[0]}",
            field="sheet.answerable", allowed="take those labels off first",
        )  # fmt: skip
    expects = ids.isin(golden.checks["query_id"])
    if "reference_answer" in queries:
        expects |= queries["reference_answer"].notna()
    is_due = ids.isin(due["query_id"])
    after = before.mask(is_due & positive, True)
    after = after.mask(is_due & ~positive & ~expects & before.eq(True).fillna(False), pd.NA)
    return after.mask(says.notna() & ~positive, says.map({"true": True, "false": False}))


@dataclass(frozen=True)
class _Row:
    """One query of a golden set: the rows of its frames, `answerable`, and its fields in a file."""

    parts: dict[str, list[Values]]
    answerable: bool | None
    fields: Values

    def of(self, level: str) -> dict[str, list[Values]]:
        """Return the targets of a level, each with its alternatives."""
        found: dict[str, list[Values]] = {}
        for one in self.parts["targets"]:
            if one["level"] == level:
                found.setdefault(one["target_id"], []).append(one)
        return found

    def written(self, level: str, target_id: str) -> Any:
        """Return one target as an item of its field."""
        alone: dict[str, Any] = {name: [] for name in self.parts}
        alone["targets"] = self.of(level)[target_id]
        field = row_of({"query_id": "", "query": ""}, alone)[FIELD_OF[level]]
        if isinstance(field, list):
            return field[0]
        ((name, grade),) = field.items()
        return {"any": [name], "grade": grade}


def _rows(golden: Golden, query_ids: list[str]) -> dict[str, _Row]:
    frames = ("targets", "conditions", "checks", "tags", "support_groups")
    parts = {
        name: by_query(frame[frame["query_id"].isin(query_ids)])
        for name, frame in ((name, getattr(golden, name)) for name in frames)
    }
    stated = golden.queries.set_index("query_id")["answerable"].astype("object")
    found = {}
    for query_id in query_ids:
        own = {name: rows.get(query_id, []) for name, rows in parts.items()}
        answerable = None if pd.isna(stated[query_id]) else bool(stated[query_id])
        fields = row_of({"query_id": query_id, "query": ""}, own)
        found[query_id] = _Row(own, answerable, fields)
    return found


def _changes(values: Values, old: _Row, new: _Row) -> Values:
    """Return the fields of a file's row that the new labels change; None removes one."""
    is_case = "question" in values and "query" not in values  # a chatbot's
    changes: Values = {}
    for level, name in FIELD_OF.items():
        before, after = old.of(level), new.of(level)
        if before == after:
            continue
        raw = values.get(name) or []
        if len(raw) != len(before):
            raise DataError(
                f"{name} of {values.get('id')} has items that are no target, or one twice",
                field=name, allowed="edit this row by hand",
            )  # fmt: skip
        items = dict(zip(before, raw, strict=True))
        if isinstance(raw, dict):
            listed: Any = {items.get(one, one): rows[0]["grade"] for one, rows in after.items()}
        else:
            listed = [
                items[one] if before.get(one) == rows
                else _item(items.get(one), new.written(level, one), is_case)
                for one, rows in after.items()
            ]  # fmt: skip
        changes[name] = listed or ([] if is_case else None)
    for name in ("chunker_version", "required_support_groups"):
        if old.fields.get(name) != new.fields.get(name):
            changes[name] = new.fields.get(name)
    if old.answerable is not new.answerable:
        changes |= {name: None for name in ANSWERABLE if name in values}
        positive = any(one["grade"] > 0 for one in new.parts["targets"])
        if new.answerable is False or is_case or (new.answerable and not positive):
            changes["answerable"] = new.answerable is not False
        if new.answerable is not False:
            empty = [name for name in FIELD_OF.values() if name in values and not values[name]]
            changes = ({} if is_case else dict.fromkeys(empty)) | changes
    return changes


def _item(raw: Any, written: Any, is_case: bool) -> Any:
    """Return a target as an item, in a chatbot's words, with what its item says besides."""
    if not isinstance(written, dict) or "any" in written:
        return written
    names = {"path": "rel_path", "heading": "heading_path"} if is_case else {}
    written = {names.get(name, name): value for name, value in written.items()}
    kept = {name: value for name, value in (raw or {}).items() if name not in ("grade", "snippets")}
    return kept | {name: value for name, value in written.items() if name not in kept}

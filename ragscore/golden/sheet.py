"""Labels by a sheet: hits of some runs in a frame with a column `grade`, filled in anywhere.

`label_sheet` makes it; a notebook's panel, a spreadsheet, a terminal or a judge fills it in; and
`add_labels` (a golden file) or `with_labels` (a golden set in memory) takes its changes over, as
changed fields of golden rows. What changed is told by the column `was`, so that several people may
work on one file.
"""

import json
import os
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_choice, name_list, unsaid
from ragscore.golden.golden_text import GoldenText, Values, change_file
from ragscore.io.columns import ANSWERABLE
from ragscore.io.golden_read import ID_FIELDS, golden_of
from ragscore.io.golden_write import golden_rows
from ragscore.io.load import load_golden, load_results
from ragscore.io.source import Problems, Row, as_id
from ragscore.io.values import by_query
from ragscore.scoring.rules import ELLIPSES, Rule, by_anchor, by_chunk, by_doc, matched_pairs

RULES: dict[str, Rule] = {"anchor": by_anchor(), "chunk": by_chunk, "doc": by_doc}
LEVELS = tuple(RULES)
FIELD_OF = {"anchor": "gold_supports"} | {level: ID_FIELDS[level][0] for level in ("chunk", "doc")}
STATE = ["grade", "answerable", "snippet"]
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
    was = state(told).agg("|".join, axis=1)
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
    if results.chunks is not None and {"chunk_id", "text"} <= {*results.chunks}:
        texts = results.chunks.drop_duplicates("chunk_id").set_index("chunk_id")["text"]
        columns["text"] = (
            columns["chunk_id"].map(texts).astype("str").fillna(columns["text"].astype("str"))
        )
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
        rows = {name: row.values for name, row in text.rows.items()}
        changes = _changes(golden_to_label(path), sheet, rows)
        changed[:] = changes
        return text.edited(changes)

    change_file(path, action)
    return changed


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
    rows = {row["id"]: row for row in golden_rows(golden, "golden")}
    changes = _changes(golden, sheet, rows)
    changed = [Row(row | changes.get(name, {}), n) for n, (name, row) in enumerate(rows.items(), 1)]
    return golden_of(changed, Problems("sheet", strict=True), "unlabelled", None)


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
    relabel, restate = todo["grade"] | todo["snippet"], todo["answerable"]
    found = sheet.assign(**wanted, relabel=relabel, restate=restate, old=now["snippet"])
    found = found[relabel | restate]
    if "group" not in golden.queries:
        return found.reset_index(drop=True)
    group = golden.queries[["query_id", "group"]].dropna()  # paraphrases expect the same documents
    pairs = group.merge(group.rename(columns={"query_id": "member"}))
    shared = found[found["level"].eq("doc") & found["relabel"]].merge(pairs, on="query_id")
    shared = shared[shared["member"].ne(shared["query_id"])].assign(restate=False)
    shared = shared.drop(columns="query_id").rename(columns={"member": "query_id"})
    return pd.concat([found, shared], ignore_index=True)


def _split(was: pd.Series) -> pd.DataFrame:
    parts = was.fillna("||").astype("str").str.split("|", n=2, expand=True)
    return parts.reindex(columns=range(3)).fillna("").set_axis(STATE, axis=1)


def _met(sheet: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Return the targets that rows of a sheet meet at its level: positions `row` and `target`."""
    level = _level(sheet)
    places = np.flatnonzero(targets["level"].eq(level))
    names = [name for name in ("path", "heading", "text", f"{level}_id") if name in sheet]
    hits = sheet.astype(dict.fromkeys(names, "str")).reset_index(drop=True)
    known = targets.iloc[places].reset_index(drop=True)
    if not (len(hits) and len(known)):
        return pd.DataFrame({"row": [], "target": []}, dtype="int64")
    hit, target = matched_pairs(RULES[level], hits, known)
    return pd.DataFrame({"row": hit, "target": places[target]})


def _level(sheet: pd.DataFrame) -> str:
    levels = sheet["level"].unique().tolist() or [LEVELS[0]]
    if len(levels) > 1 or levels[0] not in LEVELS:
        raise DataError(
            f"found {name_list(levels)}", field="sheet.level",
            allowed=f"one level a sheet: {', '.join(LEVELS)}",
        )  # fmt: skip
    return str(levels[0])


def _changes(golden: Golden, sheet: Any, rows: dict[str, Values]) -> dict[str, Values]:
    """Return the fields of golden rows that a sheet changes, by query; None removes one."""
    due, targets = _due(golden, _read(sheet)), golden.targets
    if len(due) and "gain" in targets and targets["gain"].notna().any():
        raise DataError("the set has gains", field="targets.gain", allowed="whole grades")
    met, changes = _met(due, targets), dict[str, Values]()
    names = targets["target_id"].iloc[met["target"]].groupby(met["row"].to_numpy()).agg(list)
    hits = by_query(due.assign(asked=due["query_id"], met=names.reindex(due.index)))
    known, queries = by_query(targets), by_query(golden.queries)
    checked = {*golden.checks["query_id"]}
    for query_id, own in hits.items():
        (query,), values = queries[query_id], rows[query_id]
        grades = {(one["level"], one["target_id"]): one["grade"] for one in known.get(query_id, [])}
        labelled = [hit for hit in own if hit["relabel"]]
        found = _relabelled(values, labelled, grades) if labelled else {}
        before, is_positive = query.get("answerable"), any(grade > 0 for grade in grades.values())
        expects = query_id in checked or "reference_answer" in query
        after = _answerable(own, before, is_positive, expects)
        if after is not before:
            found = _restated(values, after, is_positive) | found
        found = {name: value for name, value in found.items() if value != values.get(name)}
        changes |= {query_id: found} if found else {}
    return changes


def _relabelled(values: Values, hits: list[Values], grades: dict[tuple[str, str], int]) -> Values:
    """Return the fields with the targets that hits meet or add; `grades` are changed likewise."""
    _check_words(hits)
    level, asked = hits[0]["level"], hits[0]["asked"]
    field, is_case = FIELD_OF[level], "question" in values
    raw = values.get(field) or []
    listed = [{"any": [one], "grade": raw[one]} for one in raw] if isinstance(raw, dict) else raw
    names = [name for of, name in grades if of == level]
    if len(listed) != len(names):
        raise _by_hand(field, asked, "has items that are no target, or one twice")
    items = dict(zip(names, listed, strict=True))
    wanted = {name: hit for hit in hits for name in hit.get("met", [])}  # the last one counts
    for name, hit in wanted.items():
        items[name] = _regraded(items[name], hit)
        grades[level, name] = int(hit["grade"] or grades[level, name])
        if items[name] is None:
            del items[name], grades[level, name]
    if len(items) < len(names) and values.get("required_support_groups"):
        raise _by_hand("required_support_groups", asked, "may name a target that goes")
    new = [hit for hit in hits if hit["grade"] and "met" not in hit]
    for hit in new:
        item = _new_item(hit, is_case)
        name = json.dumps(item, sort_keys=True)
        items[name], grades[level, name] = item, int(hit["grade"])
    listed = list(items.values())
    if isinstance(raw, dict):
        listed = {one["any"][0]: one.get("grade", 1) for one in map(_as_mapping, listed)}
    changes: Values = {field: listed or ([] if is_case else None)}
    if level == "chunk":
        stated = [values.get("chunker_version"), *(hit.get("chunker_version") for hit in new)]
        versions = sorted({one for one in stated if one})
        if len(versions) > 1:
            raise DataError(
                f"chunks of {asked} are of the chunkers {name_list(versions)}",
                field="chunker_version", allowed="one of them; or label anchors",
            )  # fmt: skip
        changes["chunker_version"] = versions[0] if listed and versions else None
    return changes


def _by_hand(field: str, query_id: str, fault: str) -> DataError:
    found = f"{field} of {query_id} {fault}"
    return DataError(found, field=field, allowed="edit this row by hand")


def _regraded(item: Any, hit: Values) -> Any:
    """Return a target's item with the grade and words of a hit that meets it; None if it has none.

    Without a grade a hit is no alternative of its target any more.
    """
    given = _as_mapping(item)
    if not hit["grade"]:
        own = hit.get(f"{hit['level']}_id")
        given["any"] = [one for one in given.get("any", []) if as_id(one) != own]
        return _shortest(given) if given["any"] else None
    if hit["old"] and hit["snippet"] and "snippets" in given:
        words = given["snippets"]
        given["snippets"] = [hit["snippet"] if one == hit["old"] else one for one in words]
    if given.get("grade", 1) != int(hit["grade"]):
        given.pop("judged_by", None)
    return _shortest(given | {"grade": int(hit["grade"])})


def _new_item(hit: Values, is_case: bool) -> Any:
    """Return a hit as a target's item."""
    column = "path" if hit["level"] == "anchor" else f"{hit['level']}_id"
    if column not in hit:
        raise DataError(
            f"a hit of {hit['asked']} has no {column}", field=f"sheet.{column}",
            allowed=f"a level that it has: {', '.join(LEVELS)}",
        )  # fmt: skip
    item: Values = {"any": [hit[column]]}
    if hit["level"] == "anchor":
        item = {"rel_path" if is_case else "path": hit["path"]}
        item |= {"heading_path" if is_case else "heading": hit.get("heading")}
        item |= {"snippets": [hit["snippet"]] if hit["snippet"] else None}
    return _shortest(item | {"grade": int(hit["grade"])})


def _as_mapping(item: Any) -> Values:
    """Return an item of a field as a mapping."""
    given = dict(item) if isinstance(item, dict) else {"any": item}
    if "any" in given and not isinstance(given["any"], list):
        given["any"] = [given["any"]]
    return given


def _shortest(given: Values) -> Any:
    """Return an item without a grade of 1; an id, or a list of ids, where it says no more."""
    given = {name: one for name, one in given.items() if one is not None}
    if given.get("grade") == 1:
        del given["grade"]
    if given.keys() != {"any"}:
        return given
    return given["any"] if len(given["any"]) > 1 else given["any"][0]


def _check_words(hits: list[Values]) -> None:
    for hit in hits:
        is_cited = hit["level"] == "anchor" and hit["grade"] and "text" in hit
        if is_cited and hit["snippet"].lower() not in hit["text"].lower():
            raise DataError(
                f"{hit['snippet']!r} is not in the hit's text (query {hit['asked']})",
                field="sheet.snippet", allowed="words as they stand in the text",
            )  # fmt: skip


def _answerable(
    hits: list[Values], before: bool | None, is_positive: bool, expects: bool
) -> bool | None:
    """Return `answerable` of a query: as its targets say, else as the sheet does."""
    stated = {hit["answerable"] for hit in hits if hit["restate"]}
    if len(stated) > 1 or (is_positive and stated == {"false"}):
        targets = " beside labels of its answer" if is_positive else ""
        raise DataError(
            f"{' and '.join(sorted(stated))}{targets} (query {hits[0]['asked']})",
            field="sheet.answerable", allowed="one of them; false where no hit has a grade above 0",
        )  # fmt: skip
    if is_positive:
        return True
    if stated:
        return {"true": True, "false": False}.get(*stated)
    return None if before and not expects else before


def _restated(values: Values, answerable: bool | None, is_positive: bool) -> Values:
    """Return the fields that say `answerable`: only where the targets don't imply it."""
    is_case = "question" in values
    changes: Values = {name: None for name in ANSWERABLE if name in values}
    if answerable is False or is_case or (answerable and not is_positive):
        changes["answerable"] = answerable is not False
    if answerable is not False and not is_case:  # an empty list says that it should be refused
        changes |= {name: None for name in FIELD_OF.values() if name in values and not values[name]}
    return changes


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

"""Labels by a sheet: hits of some runs in a frame with a column `grade`, filled in anywhere.

`label_sheet` makes it, and a notebook's panel, a spreadsheet, a terminal or a judge fills it in.
`labels.py` takes its changes over. The column `was` shows what changed, so that several people
may work on one file.
"""

import re
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_choice, unsaid
from ragscore.io.load import load_golden, load_results
from ragscore.scoring.rules import ELLIPSES, Rule, by_anchor, by_chunk, by_doc, matched_pairs

RULES: dict[str, Rule] = {"anchor": by_anchor(), "chunk": by_chunk, "doc": by_doc}
LEVELS = tuple(RULES)
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
    NA: no label); `snippet`, the words by which an anchor finds its passage again: its label's,
    else a proposal; `level`; `was`, the label when the sheet was made.

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
    met = targets_met(sheet, golden.targets).join(targets, on="target").groupby("row")
    of_row = met.agg({"grade": "max", "snippet": "first"}).reindex(sheet.index)
    stated = golden.queries.set_index("query_id")["answerable"]
    labelled = sheet[["query_id"]].assign(
        grade=of_row["grade"].astype("Int64"), snippet=of_row["snippet"].astype("str"),
        answerable=sheet["query_id"].map(stated).astype("boolean"),
    )  # fmt: skip
    said = state(labelled)
    was = said["grade"] + "|" + said["answerable"] + "|" + said["snippet"]
    labelled["snippet"] = labelled["snippet"].fillna(sheet.get("snippet", labelled["snippet"]))
    return sheet.assign(**labelled[STATE], was=was)


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
    texts = sheet.reindex(columns=STATE).astype("str").fillna("")
    grade = texts["grade"].str.strip().str.removesuffix(".0")
    stated = texts["answerable"].str.strip().str.lower()
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
    return texts.assign(grade=grade, answerable=stated, snippet=texts["snippet"].str.strip())


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
    found = by_run.groupby(key)["found"].agg(", ".join)
    pool = hits.drop_duplicates(key).merge(found, on=key)
    pool = pool.sort_values(["query_id", "rank", "run"], kind="stable", ignore_index=True)
    shown = ["query_id", "rank", "found", *(name for name in SHOWN if name in pool)]
    return pool[shown].astype({"query_id": "str"})


def targets_met(sheet: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
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

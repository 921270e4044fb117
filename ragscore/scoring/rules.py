"""Matching: rules that join hits to targets of one level.

A rule is any function `(hits, targets) -> pairs`: positions of hits and positions of the targets
that they meet, as two arrays or as a frame with the columns `hit` and `target`. Levels, finest
first: the same chunk id; a shared span; path, heading and snippet; a text that the hit holds; the
same document; source key, or metadata and text.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import (
    all_differ,
    are_equal,
    contains_each,
    distinct,
    equal_pairs,
    fingerprints,
    is_among,
    lookup,
    may_be_pairs,
    pair_keys,
    small_lookup,
)
from ragscore.frames.data import DataError, Golden, Results, empty
from ragscore.frames.errors import check_choice, excerpt
from ragscore.frames.typing import Codes, Values
from ragscore.scoring.readings import k_of_runs

Pairs = tuple[Codes, Codes]
Rule = Callable[[pd.DataFrame, pd.DataFrame], Any]
MIN_OVERLAP = 0.5  # share of the shorter span that must be covered
ELLIPSES = ("...", "…")  # of snippets that were cut
READS_TEXT = ("anchor", "text", "predicate")  # levels whose rule looks into the hits' text
NONE = np.zeros(0, np.int64)


def pairs_with_equal(hits: pd.DataFrame, targets: pd.DataFrame, column: str) -> Pairs:
    """Return every (hit, target) pair of one query whose columns hold one text.

    Few hits meet a target. So hits are sifted by fingerprints of their ids, and only the few that
    are left are read as text, which takes several times longer than the whole join.
    """
    if column not in hits or column not in targets or not len(hits):
        return NONE, NONE
    with_id = np.flatnonzero(targets[column].notna().to_numpy())
    wanted = targets.iloc[with_id]
    if not len(wanted):
        return NONE, NONE
    queries, wanted_ids = distinct(wanted["query_id"]), wanted[column]
    hit_queries = small_lookup(hits["query_id"], queries)
    target_queries = lookup(wanted["query_id"], queries)
    prints, target_prints = fingerprints(hits[column]), fingerprints(wanted_ids)(slice(None))
    hit, hit_prints = may_be_pairs(hit_queries, prints, target_queries, target_prints)
    target_keys = pair_keys(target_queries, target_prints, len(queries))
    if all_differ(target_keys):
        hit_keys = pair_keys(hit_queries[hit], hit_prints, len(queries))
        pair, target = equal_pairs(hit_keys, target_keys)
        is_same = are_equal(hits[column], hit[pair], wanted_ids, target)
        return hit[pair[is_same]], with_id[target[is_same]]
    # An id is there twice, or several ids of a query share a fingerprint and might make more pairs
    # than there is memory for: these are joined by codes of their texts.
    ids = distinct(wanted_ids)
    hit_ids = lookup(hits[column].iloc[hit], ids)
    # int64 before multiplying: 32-bit codes overflow without a word
    hit_keys = np.where(hit_ids < 0, -1, hit_queries[hit].astype(np.int64) * len(ids) + hit_ids)
    pair, target = equal_pairs(hit_keys, target_queries * len(ids) + lookup(wanted_ids, ids))
    return hit[pair], with_id[target]


def by_chunk(hits: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
    """Match hits and targets that carry the same chunk id."""
    return pairs_with_equal(hits, targets, "chunk_id")


def by_doc(hits: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
    """Match hits and targets of the same document."""
    return pairs_with_equal(hits, targets, "doc_id")


def by_span(hits: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
    """Match hits that share at least half of the shorter span with a target of their document.

    So it holds when chunks shrink and when they grow. Documents are compared by doc_id; a target
    without one by its path. Spans are half-open, and units never mix. Several hits never add up to
    one match.
    """
    if not (has_spans(hits, "hits") and has_spans(targets, "targets")):
        return NONE, NONE
    lacks_doc = np.flatnonzero(targets.reindex(columns=["doc_id"])["doc_id"].isna())
    hit, target = pairs_with_equal(hits, targets, "doc_id")
    more, of_file = pairs_with_equal(hits, targets.iloc[lacks_doc], "path")
    hit, target = np.append(hit, more), np.append(target, lacks_doc[of_file])
    is_enough = _overlap(hits.iloc[hit], targets.iloc[target]) >= MIN_OVERLAP
    return hit[is_enough], target[is_enough]


def has_spans(frame: pd.DataFrame, name: str) -> bool:
    """Return whether any row has a span; one whose end or unit is unknown is refused."""
    has_some = "start" in frame and bool(frame["start"].notna().any())
    if has_some and not {"end", "span_unit"} <= {*frame}:
        raise DataError("spans without end or unit", field=name, allowed="start, end, span_unit")
    return has_some


def _overlap(hits: pd.DataFrame, targets: pd.DataFrame) -> Values:
    """Return the shared part of the shorter span, row by row; NaN without one in this unit."""
    (start, end), (wanted_start, wanted_end) = (
        [one[name].to_numpy("float64", na_value=np.nan) for name in ("start", "end")]
        for one in (hits, targets)
    )
    shorter = np.minimum(end - start, wanted_end - wanted_start)
    shared = np.maximum(np.minimum(end, wanted_end) - np.maximum(start, wanted_start), 0)
    unit, wanted_unit = (one["span_unit"].astype("str").to_numpy() for one in (hits, targets))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((unit == wanted_unit).astype(bool), shared / shorter, np.nan)


def by_anchor(snippets: bool = True, cut_text: str = "unknown") -> Rule:
    """Match hits from a target's file, at or under its heading, that hold one of its snippets.

    Paths are compared case-sensitively, headings part by part without their `#` marks ("Setup" is
    no beginning of "Setups"; a target without a heading takes its whole file), snippets
    case-insensitively and without an ellipsis that cuts them.

    Parameters
    ----------
    snippets
        False leaves the snippets out.
    cut_text
        Of a hit whose text is cut (`text_cut`) and, as far as it goes, lacks the snippet.
        "unknown": file and heading decide, as for a hit without any text; "miss": it meets nothing.
    """
    check_choice(cut_text, ("unknown", "miss"), "cut_text")

    def rule(hits: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
        hit, target = pairs_with_equal(hits, targets, "path")
        sides = texts(hits, "heading").take(hit), texts(targets, "heading").take(target)
        pairs = zip(*(map(heading_parts, side) for side in sides), strict=True)
        is_under = np.array([own[: len(of)] == of for own, of in pairs], dtype=bool)
        hit, target = hit[is_under], target[is_under]
        if not snippets or "snippet" not in targets or not len(hit):
            return hit, target
        snippet, whole = targets["snippet"].take(target), texts(hits, "text").take(hit).str.lower()
        parts = snippet.fillna("").str.lower().str.strip()
        for mark in ELLIPSES:
            parts = parts.str.removesuffix(mark)
        at = np.arange(len(hit))
        holds = contains_each(whole.tolist(), at, parts.tolist(), at)
        cut = hits.get("text_cut", pd.Series(False, hits.index)).take(hit).fillna(False)
        is_empty, is_cut = whole.eq("").to_numpy(bool), cut.to_numpy(bool)
        holds |= is_empty & ~is_cut if cut_text == "miss" else is_empty | is_cut
        holds |= snippet.isna().to_numpy()
        return hit[holds], target[holds]

    rule.__qualname__ = f"by_anchor(snippets={snippets})"
    return rule


def texts(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return a column of text, "" where there is none."""
    if name not in frame:
        return pd.Series("", frame.index, dtype="str")
    return frame[name].astype("str").fillna("")


@lru_cache(maxsize=2**16)  # the same few headings are in thousands of paths
def heading_parts(heading: str) -> tuple[str, ...]:
    """Split a heading path at `>` into names, without `#` marks and extra white space."""
    names = (" ".join(re.sub(r"^[#\s]+", "", part).split()) for part in heading.split(">"))
    return tuple(name for name in names if name)


def by_text(hits: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
    """Match hits whose text holds the whole text that is expected.

    White space is collapsed and letter case ignored on both sides.
    """
    expected = targets.get("snippet", pd.Series(pd.NA, targets.index, dtype="str"))
    wanted = np.flatnonzero(expected.notna().to_numpy())
    if not len(wanted):
        return NONE, NONE
    queries = distinct(targets["query_id"].iloc[wanted])
    code = lookup(hits["query_id"], queries)
    asked = np.flatnonzero((code >= 0) & (texts(hits, "text") != "").to_numpy(bool))
    pair, part = equal_pairs(code[asked], lookup(targets["query_id"].iloc[wanted], queries))
    wholes, parts = (
        [" ".join(text.split()).casefold() for text in column.tolist()]
        for column in (texts(hits, "text").iloc[asked], expected.iloc[wanted])
    )
    holds = contains_each(wholes, pair, parts, part)
    return asked[pair[holds]], wanted[part[holds]]


def by_predicate(
    results: Results, golden: Golden, *, substrings: str = "any", hits: str = "any"
) -> Rule:
    """Match hits that have an expected source key, or all expected metadata and the expected text.

    Source keys decide alone where a query expects some: equal to the hit's, whatever the case. Else
    the metadata must match and, where substrings are expected, they must occur in the hit's text or
    in a value of its metadata, whatever the case. Metadata match within their JSON type: 2024 is
    not "2024". A query that expects nothing is never satisfied.

    Parameters
    ----------
    substrings
        "any" or "all" of the substrings that are expected of one hit.
    hits
        "all": besides, every hit within its run's k must satisfy the expectation; if one doesn't,
        none of the list matches.
    """
    check_choice(substrings, ("any", "all"), "substrings")
    check_choice(hits, ("any", "all"), "hits")
    meta = empty("hit_meta") if results.hit_meta is None else results.hit_meta

    def rule(given: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
        cells = given[["run_id", "query_id", "rank"]].astype({"run_id": "str", "query_id": "str"})
        cells = cells.assign(hit=np.arange(len(cells)))
        pairs = _by_metadata(cells, meta, golden, targets)
        pairs = _by_text(pairs, texts(given, "text"), cells, meta, golden, substrings)
        keyed = [one[["query_id"]].assign(source_key=texts(one, "source_key").str.lower())
                 for one in (given, targets)]  # fmt: skip
        keyed[1]["source_key"] = keyed[1]["source_key"].where(targets["level"].eq("source_key"))
        hit, target = pairs_with_equal(keyed[0], keyed[1], "source_key")
        by_key = pd.DataFrame({"hit": hit, "target": target})
        found = pd.concat([by_key, pairs]).astype("int64")
        if hits == "all":
            k = cells["run_id"].map(k_of_runs(results.runs, None)).astype("float64").fillna(np.inf)
            is_other = (cells["rank"] <= k) & ~cells["hit"].isin(found["hit"])
            mixed = cells.loc[is_other, ["run_id", "query_id"]].drop_duplicates()
            found = found[~found["hit"].isin(cells.merge(mixed)["hit"])]
        return found["hit"].to_numpy(), found["target"].to_numpy()

    rule.__qualname__ = f"by_predicate(substrings={substrings!r}, hits={hits!r})"
    return rule


def _by_metadata(
    cells: pd.DataFrame, meta: pd.DataFrame, golden: Golden, targets: pd.DataFrame
) -> pd.DataFrame:
    """Pair hits and targets of one query all of whose conditions hold; `n_asked` counts these."""
    wanted = targets[["query_id", "target_id", "level"]].assign(target=np.arange(len(targets)))
    wanted = wanted[wanted["level"].eq("predicate")].astype({"query_id": "str"})
    asks = golden.conditions.merge(wanted, on=["query_id", "target_id"])
    held = _held(cells, meta[is_among(meta["key"], asks["key"])])
    asks, held = (one.assign(value=one["value"].map(_comparable).astype("str"))
                  for one in (asks, held))  # fmt: skip
    met = held.merge(asks, on=["query_id", "key", "value"])
    pairs = cells.merge(wanted, on="query_id")
    pairs = pairs.join(met.groupby(["hit", "target"]).size().rename("n_met"), ["hit", "target"])
    pairs = pairs.join(asks.groupby("target").size().rename("n_asked"), "target")
    pairs = pairs.fillna({"n_met": 0, "n_asked": 0})
    return pairs[pairs["n_met"] >= pairs["n_asked"]]


def _by_text(
    pairs: pd.DataFrame, own: pd.Series, cells: pd.DataFrame, meta: pd.DataFrame, golden: Golden,
    how: str,
) -> pd.DataFrame:  # fmt: skip
    """Return the pairs whose hit holds "any" or "all" of the texts that the query expects."""
    expected = golden.checks[golden.checks["kind"].eq("expected_substring")]
    checked = pairs.merge(expected[["query_id", "text"]], on="query_id")
    values = _held(cells[cells["hit"].isin(checked["hit"])], meta)
    plain: Any = values["value"].map(_plain)
    more = plain.groupby(values["hit"]).agg("\0".join).astype("str")
    whole = (
        own.take(checked["hit"].to_numpy())
        .str.lower()
        .str.cat(more.reindex(checked["hit"]).fillna("").to_numpy(), sep="\0")
    )
    at = np.arange(len(checked))
    holds = contains_each(whole.tolist(), at, checked["text"].str.lower().tolist(), at)
    enough = checked.assign(holds=holds).groupby(["hit", "target"])["holds"].agg(how).astype(bool)
    keys = pairs[["hit", "target"]]
    is_met = pd.MultiIndex.from_frame(keys).isin(enough.index[enough])
    has_text = pairs["query_id"].isin(expected["query_id"])
    return keys[is_met | (~has_text & (pairs["n_asked"] > 0))]


def _held(cells: pd.DataFrame, meta: pd.DataFrame) -> pd.DataFrame:
    """Return hit, query_id, key and value (JSON text) of the metadata of these hits."""
    columns = ["run_id", "query_id", "rank", "key", "value"]
    texts = meta[columns].astype({"run_id": "str", "query_id": "str", "key": "str"})
    return cells.merge(texts, on=["run_id", "query_id", "rank"])


@lru_cache(maxsize=2**16)
def _comparable(value: str) -> str:
    """Return a text that is equal for JSON values that match; true is 1, as in the harness."""
    read = json.loads(value)
    if isinstance(read, str) or read is None:
        return f"text {(read or '').lower()}"
    if isinstance(read, bool) or (isinstance(read, float) and read.is_integer()):
        read = int(read)
    return f"{type(read).__name__} {json.dumps(read, sort_keys=True)}"


def _plain(value: str) -> str:
    """Return a JSON value as text in lower case."""
    read = json.loads(value)
    return ("" if read is None else read if isinstance(read, str) else value).lower()


RULES: dict[str, Rule] = {
    "chunk": by_chunk, "span": by_span, "anchor": by_anchor(), "text": by_text, "doc": by_doc,
}  # fmt: skip


def rule_of(level: str, results: Results, golden: Golden, cut_text: str = "unknown") -> Rule:
    """Return the rule of a match level."""
    if level == "anchor" and cut_text == "miss":
        return by_anchor(cut_text=cut_text)
    return by_predicate(results, golden) if level == "predicate" else RULES[level]


def source_hash(function: Any) -> str:
    """Return a hash of what a function does: its source, what it closes over and its defaults."""
    code, held = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = repr(code and (code.co_code, code.co_consts, code.co_names))
    more = [cell.cell_contents for cell in held], getattr(function, "__defaults__", None)
    plain = re.sub(r" at 0x[0-9a-f]+", "", f"{text}{more!r}")
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


# The names of the levels' own rules
_NAMES = {level: getattr(rule, "__qualname__", level) for level, rule in RULES.items()} | {
    "predicate": "by_predicate(substrings='any', hits='any')",
    "per_query": "the rule of each query's level",
}


def rule_name(rule: Rule | None, level: str) -> str:
    """Return the name of the level's rule, or of your own, with a hash of what it does."""
    if rule is None:
        return _NAMES.get(level, "")
    name = str(getattr(rule, "__qualname__", type(rule).__name__))
    is_ours = str(getattr(rule, "__module__", "")).startswith("ragscore.")
    return name if is_ours else f"{name}#{source_hash(rule)[:8]}"


def matched_pairs(rule: Rule, hits: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
    """Return the positions of hits and targets that a rule matches.

    Raises
    ------
    DataError
        Not pairs; a position that no row has; a hit matched with a target of another query.
    """
    if not callable(rule):
        raise DataError(
            f"found {type(rule).__name__}", field="rule", allowed="a function, as rs.match.by_doc"
        )
    found, name = rule(hits, targets), str(getattr(rule, "__qualname__", "rule"))
    if isinstance(found, pd.DataFrame) and ({"hit", "target"} <= {*found} or not len(found)):
        found = tuple(found.get(side, NONE) for side in ("hit", "target"))
    if not isinstance(found, tuple) or len(found) != 2:
        raise DataError(
            f"found {excerpt(found)}", field=name,
            allowed="two arrays of positions, or a DataFrame with the columns hit and target",
        )  # fmt: skip
    for positions, frame, side in zip(found, (hits, targets), ("hit", "target"), strict=True):
        at, last = pd.Series(positions).reset_index(drop=True), len(frame) - 1
        is_place = at.isna() if at.dtype.kind not in "iu" else at.fillna(-1).between(0, last)
        if not is_place.all():
            row = int(is_place.argmin())
            raise DataError(
                f"found {at[row]} ({at.dtype}) in row {row}", field=f"{name}.{side}",
                allowed=f"row positions from 0 to {last}",
            )  # fmt: skip
    hit, target = (pd.Series(one).to_numpy(np.int64) for one in found)
    queries = distinct(targets["query_id"])
    own, wanted = (lookup(frame["query_id"].iloc[at], queries)
                   for frame, at in ((hits, hit), (targets, target)))  # fmt: skip
    if (own != wanted).any():
        raise DataError(
            "the rule matched a hit with a target of another query", field=name,
            allowed="pairs of one query",
        )  # fmt: skip
    return hit, target

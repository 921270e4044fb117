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
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import (
    BLOCK,
    are_equal,
    are_unambiguous,
    contains_each,
    distinct,
    equal_pairs,
    fingerprints,
    is_among,
    is_present,
    lookup,
    may_be_pairs,
    pair_keys,
    small_lookup,
)
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_choice, excerpt
from ragscore.frames.typing import Codes, Flags, Values

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
    with_id = np.flatnonzero(is_present(targets[column]))
    wanted = targets.iloc[with_id]
    if not len(wanted):
        return NONE, NONE
    queries, wanted_ids = distinct(wanted["query_id"]), wanted[column]
    hit_queries = small_lookup(hits["query_id"], queries)
    target_queries = lookup(wanted["query_id"], queries)
    prints, target_prints = fingerprints(hits[column]), fingerprints(wanted_ids)(slice(None))
    if len(hits) > BLOCK:
        hit, hit_prints = may_be_pairs(hit_queries, prints, target_queries, target_prints)
    else:
        hit = np.flatnonzero(hit_queries >= 0)
        hit_prints = prints(slice(None))[hit]
    target_keys = pair_keys(target_queries, target_prints, len(queries))
    if are_unambiguous(target_keys, wanted_ids):
        hit_keys = pair_keys(hit_queries[hit], hit_prints, len(queries))
        pair, target = equal_pairs(hit_keys, target_keys)
        is_same = are_equal(hits[column], hit[pair], wanted_ids, target)
        return hit[pair[is_same]], with_id[target[is_same]]
    # Several ids of a query share a fingerprint, and might make more pairs than there is memory
    # for: these are joined by codes of their texts.
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


def by_span(share: str = "shorter", min_overlap: float = MIN_OVERLAP) -> Rule:
    """Match hits that share enough of a target's span in the same document.

    Documents are compared by doc_id; a target without one by its path. Spans are half-open, and
    units never mix. Several hits never add up to one match.

    Parameters
    ----------
    share
        "shorter": the shared part divided by the shorter of the two spans, so that the rule holds
        when chunks shrink and when they grow. "target": divided by the target's length.
    min_overlap
        The least share, 0 < min_overlap ≤ 1.
    """
    check_choice(share, ("shorter", "target"), "share")
    if not 0 < min_overlap <= 1:
        raise DataError(
            f"found {min_overlap!r}", field="min_overlap", allowed="a share above 0, at most 1"
        )

    def rule(hits: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
        if not (has_spans(hits, "hits") and has_spans(targets, "targets")):
            return NONE, NONE
        is_spanned = targets["start"].notna().to_numpy()
        has_doc = is_present(targets["doc_id"]) if "doc_id" in targets else is_spanned & False
        parts = []
        for column, some in (("doc_id", is_spanned & has_doc), ("path", is_spanned & ~has_doc)):
            hit, target = pairs_with_equal(hits, targets[some], column)
            parts.append((hit, np.flatnonzero(some)[target]))
        hit, target = (np.concatenate(one) for one in zip(*parts, strict=True))
        is_enough = _coverage(hits.iloc[hit], targets.iloc[target], share) >= min_overlap
        return hit[is_enough], target[is_enough]

    rule.__qualname__ = f"by_span(share={share!r}, min_overlap={min_overlap})"
    return rule


def has_spans(frame: pd.DataFrame, name: str) -> bool:
    """Return whether any row has a span; one whose end or unit is unknown is refused."""
    if "start" not in frame or not frame["start"].notna().any():
        return False
    if missing := [column for column in ("end", "span_unit") if column not in frame]:
        raise DataError(
            f"spans without the columns {missing}", field=name, allowed="start, end and span_unit"
        )
    return True


def _coverage(hits: pd.DataFrame, targets: pd.DataFrame, share: str) -> Values:
    """Return the shared part of spans, row by row; NaN without a span or in another unit."""
    (start, end), (wanted_start, wanted_end) = (
        [one[name].to_numpy("float64", na_value=np.nan) for name in ("start", "end")]
        for one in (hits, targets)
    )
    whole = wanted_end - wanted_start
    if share == "shorter":
        whole = np.minimum(end - start, whole)
    shared = np.maximum(np.minimum(end, wanted_end) - np.maximum(start, wanted_start), 0)
    unit, wanted_unit = (one["span_unit"].astype("str").to_numpy() for one in (hits, targets))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((unit == wanted_unit).astype(bool), shared / whole, np.nan)


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
        is_inside = is_under(
            texts(hits, "heading").take(hit), texts(targets, "heading").take(target)
        )
        hit, target = hit[is_inside], target[is_inside]
        if not snippets or "snippet" not in targets or not len(hit):
            return hit, target
        snippet, whole = targets["snippet"].take(target), texts(hits, "text").take(hit).str.lower()
        parts = snippet.fillna("").str.lower().str.strip()
        for mark in ELLIPSES:
            parts = parts.str.removesuffix(mark)
        at = np.arange(len(hit))
        holds = contains_each(whole.tolist(), at, parts.tolist(), at)
        is_unknown, is_cut = whole.eq("").to_numpy(bool), _is_cut(hits)[hit]
        is_unknown = is_unknown & ~is_cut if cut_text == "miss" else is_unknown | is_cut
        holds |= snippet.isna().to_numpy() | is_unknown
        return hit[holds], target[holds]

    rule.__qualname__ = f"by_anchor(snippets={snippets})"
    return rule


def _is_cut(hits: pd.DataFrame) -> Flags:
    """Flag hits whose text is cut."""
    if "text_cut" not in hits:
        return np.zeros(len(hits), dtype=bool)
    return hits["text_cut"].fillna(False).to_numpy(dtype=bool)


def texts(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return a column of text, "" where there is none."""
    if name not in frame:
        return pd.Series("", frame.index, dtype="str")
    return frame[name].astype("str").fillna("")


@lru_cache(maxsize=2**16)  # the same few headings stand in thousands of paths
def heading_parts(heading: str) -> tuple[str, ...]:
    """Split a heading path at `>` into names, without `#` marks and extra white space."""
    names = (" ".join(re.sub(r"^[#\s]+", "", part).split()) for part in heading.split(">"))
    return tuple(name for name in names if name)


def is_under(headings: pd.Series, wanted: pd.Series) -> Flags:
    """Flag the headings that lie at or under the wanted one of their row; "" holds every one."""
    pairs = zip(map(heading_parts, headings), map(heading_parts, wanted), strict=True)
    return np.array([own[: len(of)] == of for own, of in pairs], dtype=bool)


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
    for name, value in (("substrings", substrings), ("hits", hits)):
        check_choice(value, ("any", "all"), name)
    meta = results.hit_meta
    expected = golden.checks[golden.checks["kind"].eq("expected_substring")]
    expected = expected[["query_id", "text"]].assign(text=expected["text"].str.lower())

    def rule(rows_of_hits: pd.DataFrame, targets: pd.DataFrame) -> Pairs:
        cell = ["run_id", "query_id", "rank"]
        rows = rows_of_hits[cell].astype({"run_id": "str", "query_id": "str"})
        rows = rows.assign(hit=np.arange(len(rows)))
        found = pd.concat(
            [_by_source_key(rows_of_hits, targets), _by_content(rows_of_hits, rows, targets)]
        ).astype("int64")
        if hits == "all":
            found = found[~found["hit"].isin(_hits_of_mixed_lists(rows, found, targets))]
        return found["hit"].to_numpy(), found["target"].to_numpy()

    def _by_content(given: pd.DataFrame, rows: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        wanted = targets[["query_id", "target_id", "level"]].assign(target=np.arange(len(targets)))
        wanted = wanted[wanted["level"].eq("predicate")].astype({"query_id": "str"})
        asks = golden.conditions.merge(wanted, on=["query_id", "target_id"])
        asks = asks.assign(value=asks["value"].map(_comparable).astype("str"))
        n_asked = asks.groupby("target").size().reindex(wanted["target"], fill_value=0)
        has_text = wanted["query_id"].isin(expected["query_id"]).to_numpy()
        wanted = wanted[(n_asked.to_numpy() > 0) | has_text]
        pairs = rows.merge(wanted, on="query_id").assign(n_met=0)
        if len(asks):
            known = _held(rows, meta, asks["key"]).merge(asks, on=["query_id", "key", "value"])
            n_met = known.groupby(["hit", "target"]).size().rename("n_met").reset_index()
            pairs = pairs.drop(columns="n_met").merge(n_met, on=["hit", "target"], how="left")
        is_met = pairs["n_met"].fillna(0).to_numpy() >= n_asked.reindex(pairs["target"]).to_numpy()
        pairs = pairs[is_met]
        checked = pairs.merge(expected, on="query_id")
        own: Any = texts(given, "text").take(checked["hit"].to_numpy()).str.lower()
        if meta is not None and len(checked):
            some = rows[rows["hit"].isin(checked["hit"])]
            values: Any = _held(some, meta)["raw"].map(_plain)
            more = values.groupby(_held(some, meta)["hit"]).agg("\0".join)
            own = own.str.cat(checked["hit"].map(more).fillna("").to_numpy(), sep="\0")
        at = np.arange(len(checked))
        holds = contains_each(own.tolist(), at, checked["text"].tolist(), at)
        both = checked.assign(holds=holds).groupby(["hit", "target"])["holds"]
        enough = both.all() if substrings == "all" else both.any()
        in_text = enough[enough.astype(bool)].index.to_frame(index=False)
        no_text = pairs[~pairs["query_id"].isin(expected["query_id"])]
        return pd.concat([no_text[["hit", "target"]], in_text])

    def _hits_of_mixed_lists(
        rows: pd.DataFrame, found: pd.DataFrame, targets: pd.DataFrame
    ) -> Iterable[int]:
        runs = results.runs
        k = runs["k"] if "k" in runs else pd.Series(pd.NA, runs.index, dtype="Int64")
        run_k = k.set_axis(runs["run_id"].astype("str"))
        is_seen = rows["rank"].to_numpy() <= rows["run_id"].map(run_k).fillna(np.inf).to_numpy()
        is_other = is_seen & ~rows["hit"].isin(found["hit"]).to_numpy()
        mixed = rows.loc[is_other, ["run_id", "query_id"]].drop_duplicates()
        of_mixed: Iterable[int] = rows.merge(mixed)["hit"]
        return of_mixed

    rule.__qualname__ = f"by_predicate(substrings={substrings!r}, hits={hits!r})"
    return rule


def _by_source_key(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Pair hits and targets of one query with equal source keys, whatever the case."""
    keyed = [one[["query_id"]].assign(source_key=texts(one, "source_key").str.lower())
             for one in (hits, targets)]  # fmt: skip
    keyed[1]["source_key"] = keyed[1]["source_key"].where(targets["level"].eq("source_key"))
    hit, target = pairs_with_equal(keyed[0], keyed[1], "source_key")
    return pd.DataFrame({"hit": hit, "target": target})


def _held(
    rows: pd.DataFrame, meta: pd.DataFrame | None, keys: pd.Series | None = None
) -> pd.DataFrame:
    """Return hit, query_id, key, value and the JSON text `raw` of the metadata of these hits."""
    columns = ["run_id", "query_id", "rank", "key", "value"]
    meta = pd.DataFrame(columns=columns) if meta is None else meta
    meta = meta if keys is None else meta[is_among(meta["key"], keys)]
    told = meta[columns].astype({"run_id": "str", "query_id": "str", "key": "str"})
    found = rows.merge(told, on=["run_id", "query_id", "rank"])
    value = found["value"].map(_comparable).astype("str")
    return found.assign(value=value, raw=found["value"])


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
    "chunk": by_chunk, "span": by_span(), "anchor": by_anchor(), "text": by_text, "doc": by_doc,
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


def rule_name(rule: Rule | None, level: str) -> str:
    """Return the name of the level's rule, or of your own, with a hash of what it does."""
    if rule is not None:
        name = str(getattr(rule, "__qualname__", type(rule).__name__))
        is_ours = str(getattr(rule, "__module__", "")).startswith("ragscore.")
        return name if is_ours else f"{name}#{source_hash(rule)[:8]}"
    if level == "per_query":
        return "the rule of each query's level"
    named = "by_predicate(substrings='any', hits='any')"
    if level == "predicate" or level not in RULES:
        return named if level == "predicate" else ""
    return str(getattr(RULES[level], "__qualname__", level))


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
    allowed = "two arrays of positions, or a DataFrame with the columns hit and target"
    if isinstance(found, pd.DataFrame):
        if len(found) and (lacking := sorted({"hit", "target"} - {*found})):
            raise DataError(f"no column {lacking}", field=name, allowed=allowed)
        found = (found["hit"], found["target"]) if len(found) else (NONE, NONE)
    if not isinstance(found, tuple) or len(found) != 2:
        raise DataError(f"found {type(found).__name__}", field=name, allowed=allowed)
    arrays = []
    for positions, frame, side in zip(found, (hits, targets), ("hit", "target"), strict=True):
        at = pd.Series(positions).reset_index(drop=True)
        is_place = pd.Series(pd.api.types.is_integer_dtype(at), at.index, dtype=bool)
        is_place &= at.between(0, len(frame) - 1).fillna(False) if is_place.all() else False
        if not is_place.all():
            wrong = int(is_place.argmin())
            raise DataError(
                f"{at[wrong]} ({at.dtype}) in row {wrong}", field=f"{name}.{side}",
                allowed=f"row positions from 0 to {len(frame) - 1}",
            )  # fmt: skip
        arrays.append(at.to_numpy(np.int64))
    hit, target = arrays
    queries = distinct(targets["query_id"])
    if (
        lookup(hits["query_id"].iloc[hit], queries)
        != lookup(targets["query_id"].iloc[target], queries)
    ).any():
        raise DataError(
            "the rule matched a hit with a target of another query",
            field=name,
            allowed="pairs of one query",
        )
    return hit, target

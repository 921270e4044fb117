"""The predicate rule: judge hits by their source key, metadata and text; and the product filter.

In: `hits` with their metadata (`Results.hit_meta`), predicate targets with their conditions and
substrings, and whether any or all hits, or values, have to satisfy what is expected. Out: matches.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from ragscore.frames.codes import (
    contains_each,
    equal_pairs,
    is_among,
    is_present,
    lookup,
    unique_rows,
)
from ragscore.frames.data import DataError, Golden, Results, empty
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.metadata import lowered_texts, rows_of, with_metadata
from ragscore.scoring.rules import Rule, pairs_with_equal


def where_every_hit(
    pairs: pd.DataFrame,
    satisfying: pd.DataFrame,
    hits: pd.DataFrame,
    queries: pd.Index,
    run_k: pd.Series,
) -> pd.DataFrame:
    """Drop the matches of lists of which some hit does not satisfy an expectation.

    Parameters
    ----------
    pairs, satisfying
        Matches (`hit`, `target`, `undecidable`), and the pairs that satisfy the expectation.
    queries
        The queries that need every hit; matches of others stay as they are.
    run_k
        Per run (index run_id) the lowest rank that counts as a hit.

    Returns
    -------
    Rows of `pairs`; all of a list are `undecidable` where only undecidable hits keep it from being
    satisfied or not.
    """
    if not len(queries) or not len(pairs):
        return pairs
    query = lookup(hits["query_id"], queries)
    run = hits["run_id"].astype("category")
    run_code = run.cat.codes.to_numpy()
    k = run_k.reindex(run.cat.categories.astype("str")).fillna(np.inf).to_numpy()[run_code]
    cell = np.where(query >= 0, run_code.astype(np.int64) * len(queries) + query, -1)
    asked = np.flatnonzero((query >= 0) & (hits["rank"].to_numpy() <= k))
    state = np.zeros(len(hits), dtype=np.int8)  # 0: not satisfying, 1: undecidable, 2: satisfying
    is_undecidable = satisfying["undecidable"].to_numpy(dtype=bool)
    state[satisfying["hit"].to_numpy()[is_undecidable]] = 1
    state[satisfying["hit"].to_numpy()[~is_undecidable]] = 2
    of_list = pd.Series(state[asked]).groupby(cell[asked]).min()
    of_pair = of_list.reindex(cell[pairs["hit"].to_numpy()]).fillna(2).to_numpy()
    return pairs.assign(undecidable=pairs["undecidable"].to_numpy(dtype=bool) | (of_pair == 1))[
        of_pair > 0
    ]


# (expectation, axis, query ids) -> those of the queries that need all
NeedsAll = Callable[[str, str, pd.Series], pd.Index]


def by_predicate(
    results: Results,
    golden: Golden,
    *,
    source_keys: str = "any",
    metadata: str = "all",
    substrings: str = "any",
    hits: str = "any",
) -> Rule:
    """Match hits that have an expected source key, or the expected metadata and text.

    Expected source keys decide alone where a query has some (see `targets_at`): equal to the hit's,
    whatever the case. Else the expected metadata must match and, if substrings are expected, they
    must occur in the hit's text or in one of its metadata values, whatever the case. Metadata
    values match within their JSON type: a number equals the same number, never a text (2024 is not
    "2024"); texts are equal whatever their case. A query that expects nothing is never satisfied.

    Where the text of a hit is cut (`text_cut`), substrings that aren't in what is left of it may
    stand in the rest: the hit is undecidable, if nothing else speaks against it.

    Parameters
    ----------
    results, golden
        The source of hits' metadata, and of the queries' conditions and substrings.
    source_keys
        "any": each hit with an expected key matches. "all": the first hit that counts is the one by
        which every expected key of the query has been seen; it meets all of them at once.
    metadata, substrings
        "all" or "any" of what is expected of one hit.
    hits
        "any": one hit that satisfies what is expected is enough. "all": besides, every hit within
        its run's k must satisfy the expectation; if one doesn't, none of the list matches, if one
        is undecidable, all that would match are.

    Returns
    -------
    A rule `(hits, targets) -> matches` for the targets of level "predicate". Its matches carry
    `undecidable`: True for an undecidable hit, which `rs.match.grade_hits` takes as a miss,
    `rs.score` as `unknown=` says.

    Raises
    ------
    DataError
        An option that is neither "any" nor "all".
    """
    values = {
        "expected_source_keys": source_keys,
        "expected_metadata": metadata,
        "expected_substrings": substrings,
    }
    options = {"source_keys": source_keys, "metadata": metadata, "substrings": substrings}
    for name, value in (options | {"hits": hits}).items():
        if value not in ("any", "all"):
            raise DataError(f"found {value!r}", field=name, allowed="'any' or 'all'")
    meta = results.hit_meta if results.hit_meta is not None else empty("hit_meta")
    k = results.runs["k"].to_numpy("float64", na_value=np.inf) if "k" in results.runs else np.inf
    run_k = pd.Series(k, index=results.runs["run_id"].astype("str"), dtype="float64")

    def needs_all(expectation: str, axis: str, query_ids: pd.Series) -> pd.Index:
        queries = pd.Index(query_ids.unique())
        return (
            queries if (hits if axis == "hits" else values[expectation]) == "all" else queries[:0]
        )

    def judge(hits_given: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        by_key = _by_source_keys(hits_given, targets, needs_all, run_k)
        by_content = _by_content(hits_given, targets, meta, golden, needs_all, run_k)
        return pd.concat([by_key, by_content], ignore_index=True)

    judge.__qualname__ = predicate_rule_name(source_keys, metadata, substrings, hits)
    return judge


def predicate_rule_name(
    source_keys: str = "any", metadata: str = "all", substrings: str = "any", hits: str = "any"
) -> str:
    """Return the name of the rule with these options."""
    # Without `hits` where it is the default: matches stored by that name stay valid.
    of_hits = f", hits={hits!r}" if hits != "any" else ""
    return (
        f"by_predicate(source_keys={source_keys!r}, metadata={metadata!r},"
        f" substrings={substrings!r}{of_hits})"
    )


def _by_source_keys(
    hits: pd.DataFrame, targets: pd.DataFrame, needs_all: NeedsAll, run_k: pd.Series
) -> pd.DataFrame:
    """Pair hits with source-key targets, by any key of a query or once all have been seen."""
    hit, target = _with_equal_key(hits, targets)
    keyed = targets.loc[targets["level"] == "source_key", "query_id"]
    is_relevant = targets["grade"].to_numpy()[target] > 0
    satisfying = pd.DataFrame({"hit": hit[is_relevant], "target": target[is_relevant]})
    strict = needs_all("expected_source_keys", "values", keyed)
    is_strict = lookup(targets["query_id"].iloc[target], strict) >= 0
    if is_strict.any():
        more_hits, more_targets = _from_completing_hit(
            hits, targets, hit[is_strict], target[is_strict]
        )
        hit = np.concatenate([hit[~is_strict], more_hits])
        target = np.concatenate([target[~is_strict], more_targets])
    return where_every_hit(
        pd.DataFrame({"hit": hit, "target": target}).assign(undecidable=False),
        satisfying.assign(undecidable=False),
        hits,
        needs_all("expected_source_keys", "hits", keyed),
        run_k,
    )


def _with_equal_key(hits: pd.DataFrame, targets: pd.DataFrame) -> tuple[Codes, Codes]:
    """Return the pairs of hits and targets of one query with equal source keys, cases ignored."""
    if "source_key" not in hits or "source_key" not in targets:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    with_key = targets.loc[is_present(targets["source_key"]), "query_id"]
    asked = np.flatnonzero(is_among(hits["query_id"], with_key))
    found, wanted = (
        rows[["query_id"]].assign(source_key=rows["source_key"].str.lower())
        for rows in (hits[["query_id", "source_key"]].take(asked), targets)
    )
    hit, target = pairs_with_equal(found, wanted, "source_key", "source_key")
    return asked[hit], target


def _from_completing_hit(
    hits: pd.DataFrame, targets: pd.DataFrame, hit: Codes, target: Codes
) -> tuple[Codes, Codes]:
    """Return the matches from the hit by which every expected key of its query has been seen.

    That hit meets all of them; matches above it are dropped.
    """
    keyed = targets.assign(target=np.arange(len(targets)))
    keyed = keyed.loc[targets["source_key"].notna(), ["query_id", "target_id", "target"]]
    n_expected = keyed.groupby("query_id")["target_id"].nunique()
    pairs = pd.DataFrame(
        {
            "run": hits["run_id"].astype("category").cat.codes.to_numpy()[hit],
            "query_id": targets["query_id"].to_numpy()[target],
            "target_id": targets["target_id"].to_numpy()[target],
            "hit": hit,
            "rank": hits["rank"].to_numpy()[hit],
            "target": target,
        }
    )
    first = pairs.groupby(["run", "query_id", "target_id"])["rank"].min()
    lists = first.groupby(["run", "query_id"]).agg(["size", "max"]).reset_index()
    complete = lists[lists["size"].to_numpy() == lists["query_id"].map(n_expected).to_numpy()]
    pairs = pairs.merge(complete[["run", "query_id", "max"]], on=["run", "query_id"])
    completing = pairs.loc[pairs["rank"] == pairs["max"], ["hit", "query_id"]].drop_duplicates()
    completing = completing.merge(keyed[["query_id", "target"]], on="query_id")
    below = pairs.loc[pairs["rank"] > pairs["max"]]
    counted = pd.concat([completing[["hit", "target"]], below[["hit", "target"]]])
    counted = counted.drop_duplicates()
    return counted["hit"].to_numpy(np.int64), counted["target"].to_numpy(np.int64)


def _by_content(
    hits: pd.DataFrame,
    targets: pd.DataFrame,
    meta: pd.DataFrame,
    golden: Golden,
    needs_all: NeedsAll,
    run_k: pd.Series,
) -> pd.DataFrame:
    """Pair hits with predicate targets by metadata and, of those that are left, by text.

    `undecidable` where a cut text can't tell.
    """
    position = np.flatnonzero((targets["level"] == "predicate").to_numpy())
    wanted = targets.iloc[position][["query_id", "target_id"]].assign(target=position)
    queries = pd.Index(wanted["query_id"].unique())
    texts = golden.checks.loc[golden.checks["kind"] == "expected_substring", ["query_id", "text"]]
    texts = texts[lookup(texts["query_id"], queries) >= 0]
    with_text = pd.Index(texts["query_id"].unique())
    conditions = golden.conditions.merge(wanted, on=["query_id", "target_id"])
    has_no_condition = ~wanted["target"].isin(conditions["target"])
    by_text_only = wanted[has_no_condition & (lookup(wanted["query_id"], with_text) >= 0)]
    row = rows_of(meta, hits, queries)
    strict_texts = needs_all("expected_substrings", "values", texts["query_id"])

    def holding(pairs: pd.DataFrame) -> pd.DataFrame:
        query_ids = targets["query_id"].take(pairs["target"].to_numpy())
        return _with_substrings(pairs, query_ids, hits, meta, row, texts, strict_texts)

    strict_metadata = needs_all("expected_metadata", "values", conditions["query_id"])
    in_meta = with_metadata(hits, meta, row, conditions, strict_metadata).assign(undecidable=False)
    pairs = pd.concat(
        [in_meta, _every_hit(hits, by_text_only).assign(undecidable=False)], ignore_index=True
    )
    has_text = (lookup(targets["query_id"], with_text) >= 0)[pairs["target"].to_numpy(np.int64)]
    dtypes = {"hit": "int64", "target": "int64", "undecidable": "bool"}
    met = pd.concat([pairs[~has_text], holding(pairs[has_text])])[list(dtypes)].astype(dtypes)
    every_hit = needs_all("expected_metadata", "hits", conditions["query_id"])
    met = where_every_hit(met, in_meta, hits, every_hit, run_k)
    every_hit = needs_all("expected_substrings", "hits", texts["query_id"])
    if not len(every_hit):
        return met
    in_text = holding(_every_hit(hits, wanted[lookup(wanted["query_id"], every_hit) >= 0]))
    return where_every_hit(met, in_text, hits, every_hit, run_k)


def _every_hit(hits: pd.DataFrame, wanted: pd.DataFrame) -> pd.DataFrame:
    """Pair every hit of a query with every wanted target of it."""
    queries = pd.Index(wanted["query_id"].unique())
    if not len(queries):
        return pd.DataFrame({"hit": [], "target": []}, dtype="int64")
    code = lookup(hits["query_id"], queries)
    asked = np.flatnonzero(code >= 0)
    hit, row = equal_pairs(code[asked], lookup(wanted["query_id"], queries))
    return pd.DataFrame({"hit": asked[hit], "target": wanted["target"].to_numpy()[row]})


def _with_substrings(
    pairs: pd.DataFrame,
    query_ids: pd.Series,
    hits: pd.DataFrame,
    meta: pd.DataFrame,
    row: Codes,
    texts: pd.DataFrame,
    needing_all_of: pd.Index,
) -> pd.DataFrame:
    """Keep the pairs whose hit holds a substring of its query in its text or metadata.

    For queries in `needing_all_of` it has to hold all of them. Pairs are `undecidable` where the
    substrings may stand in a part cut off.

    Parameters
    ----------
    query_ids
        The query of each pair.
    row
        The hit of each row of metadata.
    """
    if not len(pairs):
        return pairs.assign(undecidable=False)
    queries = pd.Index(texts["query_id"].unique())
    pair, text = equal_pairs(lookup(query_ids, queries), lookup(texts["query_id"], queries))
    hit = pairs["hit"].to_numpy(np.int64)
    holds = _holds_text(hits, meta, row, hit[pair], texts["text"].str.lower().tolist(), text)
    n_asked = np.bincount(pair, minlength=len(pairs))
    n_held = np.bincount(pair[holds], minlength=len(pairs))
    needs_all = lookup(query_ids, needing_all_of) >= 0
    is_met = np.where(needs_all, n_held == n_asked, n_held > 0)
    is_undecidable = np.zeros(len(pairs), dtype=bool)
    if "text_cut" in hits:
        is_undecidable = ~is_met & hits["text_cut"].fillna(False).to_numpy(dtype=bool)[hit]
    return pairs.assign(undecidable=is_undecidable)[is_met | is_undecidable]


def _holds_text(
    hits: pd.DataFrame, meta: pd.DataFrame, row: Codes, hit: Codes, texts: list[str], text: Codes
) -> Flags:
    """Test each hit for the text asked for: in its own text, then in its metadata values."""
    own = hits["text"] if "text" in hits else pd.Series("", index=hits.index, dtype="str")
    wholes, whole = unique_rows(own, hit)
    holds = contains_each([one.lower() for one in wholes.tolist()], whole, texts, text)
    rest = np.flatnonzero(~holds)
    # the last is that of metadata of no hit
    is_wanted = np.zeros(len(hits) + 1, dtype=bool)
    is_wanted[hit[rest]] = True
    of_rest = np.flatnonzero(is_wanted[row])
    values, value = lowered_texts(meta["value"].take(of_rest))
    place, found = equal_pairs(hit[rest], row[of_rest])
    holds[rest[place[contains_each(values, value[found], texts, text[rest[place]])]]] = True
    return holds


def filter_hits(results: Results, golden: Golden) -> Results:
    """Keep only hits whose text holds the product that the query filters by, ranked from 1 again.

    The product (`filters: {product: ...}` of a golden row) is searched whatever the case. Queries
    without one, and those that the golden set doesn't have, keep all their hits. An explicit step:
    scoring never filters by itself.

    Returns
    -------
    Results of the same runs; `responses.x_n_filtered` counts the hits dropped from each response.
    Stored matches are left out, as they name ranks.

    Raises
    ------
    DataError
        The text of a hit that would have to be searched has been cut.
    """
    products = golden.checks.loc[golden.checks["kind"] == "product", ["query_id", "text"]]
    hits = results.hits.reset_index(drop=True)
    asked = np.flatnonzero(hits["query_id"].isin(products["query_id"]).to_numpy())
    if "text_cut" in hits and (n_cut := int(hits["text_cut"].iloc[asked].fillna(False).sum())):
        raise DataError(
            f"{n_cut} hits have cut text: the part cut off may hold the product",
            field="hits.text",
            allowed="whole texts",
        )
    whole = hits["text"].iloc[asked].fillna("").str.lower() if "text" in hits else ""
    searched = hits.iloc[asked][["query_id"]].assign(hit=asked, whole=whole)
    pairs = searched.merge(products.assign(text=products["text"].str.lower()), on="query_id")
    lacks = [text not in one for text, one in zip(pairs["text"], pairs["whole"], strict=True)]
    keep = np.ones(len(hits), dtype=bool)
    keep[pairs["hit"].to_numpy(np.int64)[lacks]] = False
    left, keys = hits[keep], ["run_id", "query_id"]
    order = np.lexsort((left["rank"], left["query_id"], left["run_id"].cat.codes))
    ranks = left.iloc[order].groupby(keys, observed=True, sort=False).cumcount() + 1
    rank = np.zeros(len(left), dtype=np.int32)
    rank[order] = ranks.to_numpy()
    dropped = hits[~keep].groupby(keys, observed=True).size().rename("x_n_filtered")
    responses = results.responses.drop(columns="x_n_filtered", errors="ignore")
    responses = responses.astype({"run_id": "str"}).merge(
        dropped.reset_index().astype({"run_id": "str"}), on=keys, how="left"
    )
    responses["x_n_filtered"] = responses["x_n_filtered"].fillna(0).astype("Int64")
    meta = results.hit_meta
    if meta is not None:
        row = rows_of(meta, left, pd.Index(left["query_id"].unique()))
        meta = meta[row >= 0].assign(rank=rank[row[row >= 0]])
    return replace(
        results, hits=left.assign(rank=rank), responses=responses, hit_meta=meta, matches=None
    )

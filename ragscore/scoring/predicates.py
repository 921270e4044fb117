"""Predicates.

Hits judged by what they are (source key, metadata, text) instead of by an id; and the product
filter.

In: `hits` with their metadata (`Results.hit_meta`), predicate targets with their conditions and
substrings. Out: matches, as every rule gives them.

How an expectation is satisfied.

By any or all of the hits, with any or all of the values that it lists.

In: a choice for the whole set and, from the golden set's `satisfied_by`, those of single questions.
Out: the questions that need all, and the matches that are left where every hit must satisfy an
expectation.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import contains_each, equal_pairs, unique_rows
from ragscore.frames.data import DataError, Golden, Results, empty
from ragscore.frames.kinds import CHOICES
from ragscore.scoring.matching import Codes, Rule, lookup, pairs_with_equal
from ragscore.scoring.metadata import readable, rows_of, with_metadata


def needing_all(
    golden: Golden, query_ids: pd.Series, expectation: str, axis: str, otherwise: str
) -> pd.Index:
    """Which of these questions need all hits, or all values.

    Those that say so, and where `otherwise` is "all" those that say nothing.
    """
    queries = pd.Index(query_ids.unique())
    stated = golden.checks[golden.checks["kind"] == f"{expectation}.{axis}"]
    if not len(stated):
        return queries if otherwise == "all" else queries[:0]
    by_choice = {
        choice: lookup(
            queries.to_series(), pd.Index(stated.loc[stated["text"] == choice, "query_id"].unique())
        )
        >= 0
        for choice in CHOICES
    }
    return queries[by_choice["all"] | (~by_choice["any"] & (otherwise == "all"))]


def where_every_hit(
    pairs: pd.DataFrame,
    satisfying: pd.DataFrame,
    hits: pd.DataFrame,
    queries: pd.Index,
    run_k: pd.Series,
) -> pd.DataFrame:
    """The matches of lists of which every hit is among the `satisfying`.

    Those of other questions than `queries` stay as they are.

    Parameters
    ----------
    pairs, satisfying
        Matches (`hit`, `target`, `undecidable`), and the pairs that satisfy one expectation.
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
    deepest = (
        run_k.reindex(run.cat.categories.astype("str"))
        .fillna(np.inf)
        .to_numpy()[run.cat.codes.to_numpy()]
    )
    cell = np.where(
        query >= 0, run.cat.codes.to_numpy().astype(np.int64) * len(queries) + query, -1
    )
    asked = np.flatnonzero((query >= 0) & (hits["rank"].to_numpy() <= deepest))
    state = np.zeros(len(hits), dtype=np.int8)  # 0: not satisfying, 1: undecidable, 2: satisfying
    is_open = satisfying["undecidable"].to_numpy(dtype=bool)
    state[satisfying["hit"].to_numpy()[is_open]] = 1
    state[satisfying["hit"].to_numpy()[~is_open]] = 2
    of_list = pd.Series(state[asked]).groupby(cell[asked]).min()
    of_pair = of_list.reindex(cell[pairs["hit"].to_numpy()]).fillna(2).to_numpy()
    return pairs.assign(undecidable=pairs["undecidable"].to_numpy(dtype=bool) | (of_pair == 1))[
        of_pair > 0
    ]


# expectation, axis, questions -> those of them that need all
Needing = Callable[[str, str, pd.Series], pd.Index]


def by_predicate(
    results: Results,
    golden: Golden,
    *,
    source_keys: str = "any",
    metadata: str = "all",
    substrings: str = "any",
    hits: str = "any",
) -> Rule:
    """Build the rule: the hit has an expected source key, or the expected metadata and text.

    Expected source keys decide alone where a question has some (see `at_level`): equal to the
    hit's, whatever the case. Else the expected metadata must match and, if substrings are expected,
    they must occur in the hit's text or in one of its metadata values, whatever the case. Metadata
    values match within their JSON type: a number equals the same number, never a text (2024 is not
    "2024"); texts are equal whatever their case. A question that expects nothing is never
    satisfied. What `satisfied_by` of a golden row states of an expectation goes before the options.

    Where the text of a hit is cut (`text_cut`), substrings that aren't in what is left of it may
    stand in the rest: the hit is undecidable, if nothing else speaks against it.

    Parameters
    ----------
    results, golden
        Where hits' metadata, and the questions' conditions and substrings come from.
    source_keys
        "any": each hit with an expected key matches. "all": the first hit that counts is the one by
        which every expected key of the question has been seen; it meets all of them at once.
    metadata, substrings
        "all" or "any" of what is expected of one hit.
    hits
        "any": one hit that satisfies what is expected is enough. "all": besides, every hit within
        its run's k must satisfy the expectation; if one doesn't, none of the list matches, if one
        is undecidable, all that would match are.

    Returns
    -------
    A rule `(hits, targets) -> matches` for the targets of level "predicate". Its matches carry
    `undecidable`: True for an undecidable hit, which `rs.grade_hits` takes as a miss, `rs.score` as
    `unknown=` says.

    Raises
    ------
    DataError
        An option that is neither "any" nor "all".
    """
    for name, value in (
        ("source_keys", source_keys),
        ("metadata", metadata),
        ("substrings", substrings),
        ("hits", hits),
    ):
        if value not in CHOICES:
            raise DataError(f"found {value!r}", field=name, allowed="'any' or 'all'")
    meta = results.hit_meta if results.hit_meta is not None else empty("hit_meta")

    values = {
        "expected_source_keys": source_keys,
        "expected_metadata": metadata,
        "expected_substrings": substrings,
    }
    run_k = _run_k(results)

    def judge(hits_given: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        def needing(expectation: str, axis: str, query_ids: pd.Series) -> pd.Index:
            return needing_all(
                golden,
                query_ids,
                expectation,
                axis,
                hits if axis == "hits" else values[expectation],
            )

        by_key = _by_source_keys(hits_given, targets, needing, run_k)
        return pd.concat(
            [by_key, _by_content(hits_given, targets, meta, golden, needing, run_k)],
            ignore_index=True,
        )

    judge.__qualname__ = predicate_rule_name(source_keys, metadata, substrings, hits)
    return judge


def predicate_rule_name(
    source_keys: str = "any", metadata: str = "all", substrings: str = "any", hits: str = "any"
) -> str:
    """How the rule of these options is named."""
    # Without `hits` where it is the default: matches kept by that name stay valid.
    of_hits = f", hits={hits!r}" if hits != "any" else ""
    return (
        f"by_predicate(source_keys={source_keys!r}, metadata={metadata!r},"
        f" substrings={substrings!r}{of_hits})"
    )


def _run_k(results: Results) -> pd.Series:
    k = results.runs["k"].to_numpy("float64", na_value=np.inf) if "k" in results.runs else np.inf
    return pd.Series(k, index=results.runs["run_id"].astype("str"), dtype="float64")


def _by_source_keys(
    hits: pd.DataFrame, targets: pd.DataFrame, needing: Needing, run_k: pd.Series
) -> pd.DataFrame:
    """Pairs of hits and source-key targets.

    By any of a question's keys, or once all of them have been seen.
    """
    hit, target = _by_source_key(hits, targets)
    keyed = targets.loc[targets["level"] == "source_key", "query_id"]
    relevant = targets["grade"].to_numpy()[target] > 0
    satisfying = pd.DataFrame({"hit": hit[relevant], "target": target[relevant]}).assign(
        undecidable=False
    )
    is_all = (
        lookup(targets["query_id"].iloc[target], needing("expected_source_keys", "values", keyed))
        >= 0
    )
    if is_all.any():
        completing = _complete(hits, targets, hit[is_all], target[is_all])
        hit, target = (
            np.concatenate([one[~is_all], more])
            for one, more in zip((hit, target), completing, strict=True)
        )
    pairs = pd.DataFrame({"hit": hit, "target": target}).assign(undecidable=False)
    return where_every_hit(
        pairs, satisfying, hits, needing("expected_source_keys", "hits", keyed), run_k
    )


def _by_source_key(hits: pd.DataFrame, targets: pd.DataFrame) -> tuple[Codes, Codes]:
    if "source_key" not in hits or "source_key" not in targets:
        return _none(), _none()
    with_key = np.flatnonzero(targets["source_key"].notna().to_numpy())
    wanted = targets[["query_id", "source_key"]].take(with_key)
    asked = np.flatnonzero(
        (lookup(hits["query_id"], pd.Index(wanted["query_id"].unique())) >= 0)
        & hits["source_key"].notna().to_numpy()
    )
    lowered, expected = (
        keys.str.lower() for keys in (hits["source_key"].take(asked), wanted["source_key"])
    )
    some = np.flatnonzero(lookup(lowered, pd.Index(expected.unique())) >= 0)
    found = hits[["query_id"]].take(asked[some]).assign(source_key=lowered.take(some))
    hit, target = pairs_with_equal(
        found, wanted.assign(source_key=expected), "source_key", "source_key"
    )
    return asked[some[hit]], with_key[target]


def _complete(
    hits: pd.DataFrame, targets: pd.DataFrame, hit: Codes, target: Codes
) -> tuple[Codes, Codes]:
    """Only the matches from the hit on by which every expected key of its question has been seen.

    That hit meets all of them.
    """
    keyed = targets.assign(target=np.arange(len(targets)))
    keyed = (
        keyed[keyed["source_key"].notna()][["query_id", "target_id", "target"]]
        if "source_key" in keyed
        else keyed.iloc[:0]
    )
    expected = keyed.groupby("query_id")["target_id"].nunique()
    pairs = pd.DataFrame(
        {
            "run": hits["run_id"].astype("category").cat.codes.to_numpy()[hit],
            "hit": hit,
            "rank": hits["rank"].to_numpy()[hit],
            "target": target,
        }
    )
    pairs = pairs.assign(
        query_id=targets["query_id"].to_numpy()[target],
        target_id=targets["target_id"].to_numpy()[target],
    )
    first = (
        pairs.groupby(["run", "query_id", "target_id"])["rank"]
        .min()
        .groupby(["run", "query_id"])
        .agg(["size", "max"])
        .reset_index()
    )
    complete = first[first["size"].to_numpy() == first["query_id"].map(expected).to_numpy()]
    pairs = pairs.merge(complete[["run", "query_id", "max"]], on=["run", "query_id"])
    completing = (
        pairs.loc[pairs["rank"] == pairs["max"], ["hit", "query_id"]]
        .drop_duplicates()
        .merge(keyed[["query_id", "target"]], on="query_id")
    )
    counted = pd.concat(
        [completing[["hit", "target"]], pairs.loc[pairs["rank"] > pairs["max"], ["hit", "target"]]]
    ).drop_duplicates()
    return counted["hit"].to_numpy(np.int64), counted["target"].to_numpy(np.int64)


def _by_content(
    hits: pd.DataFrame,
    targets: pd.DataFrame,
    meta: pd.DataFrame,
    golden: Golden,
    needing: Needing,
    run_k: pd.Series,
) -> pd.DataFrame:
    """Pairs of hits and predicate targets by metadata and, of those that are left, by text.

    `undecidable` where a cut text can't tell.
    """
    place = np.flatnonzero((targets["level"] == "predicate").to_numpy())
    wanted = targets.iloc[place][["query_id", "target_id"]].assign(target=place)
    texts = golden.checks.loc[golden.checks["kind"] == "expected_substring", ["query_id", "text"]]
    texts = texts[lookup(texts["query_id"], pd.Index(wanted["query_id"].unique())) >= 0]
    with_text = pd.Index(texts["query_id"].unique())
    conditions = golden.conditions.merge(wanted, on=["query_id", "target_id"])
    by_text_only = wanted[
        ~wanted["target"].isin(conditions["target"]) & (lookup(wanted["query_id"], with_text) >= 0)
    ]
    row = rows_of(meta, hits, pd.Index(wanted["query_id"].unique()))

    def holding(pairs: pd.DataFrame) -> pd.DataFrame:
        query_ids = targets["query_id"].take(pairs["target"].to_numpy())
        return _with_substrings(
            pairs,
            query_ids,
            hits,
            meta,
            row,
            texts,
            needing("expected_substrings", "values", texts["query_id"]),
        )

    in_meta = with_metadata(
        hits, meta, row, conditions, needing("expected_metadata", "values", conditions["query_id"])
    ).assign(undecidable=False)
    pairs = pd.concat(
        [in_meta, _every_hit(hits, by_text_only).assign(undecidable=False)], ignore_index=True
    )
    has_text = (lookup(targets["query_id"], with_text) >= 0)[pairs["target"].to_numpy(np.int64)]
    kept = pd.concat([pairs[~has_text], holding(pairs[has_text])])[
        ["hit", "target", "undecidable"]
    ].astype({"hit": "int64", "target": "int64", "undecidable": "bool"})
    kept = where_every_hit(
        kept, in_meta, hits, needing("expected_metadata", "hits", conditions["query_id"]), run_k
    )
    strict = needing("expected_substrings", "hits", texts["query_id"])
    in_text = (
        holding(_every_hit(hits, wanted[lookup(wanted["query_id"], strict) >= 0]))
        if len(strict)
        else kept
    )
    return where_every_hit(kept, in_text, hits, strict, run_k)


def _every_hit(hits: pd.DataFrame, wanted: pd.DataFrame) -> pd.DataFrame:
    queries = pd.Index(wanted["query_id"].unique())
    if not len(queries):
        return pd.DataFrame({"hit": _none(), "target": _none()})
    code = lookup(hits["query_id"], queries)
    asked = np.flatnonzero(code >= 0)
    hit, place = equal_pairs(code[asked], lookup(wanted["query_id"], queries))
    return pd.DataFrame({"hit": asked[hit], "target": wanted["target"].to_numpy()[place]})


def _with_substrings(
    pairs: pd.DataFrame,
    query_ids: pd.Series,
    hits: pd.DataFrame,
    meta: pd.DataFrame,
    row: Codes,
    texts: pd.DataFrame,
    needing_all_of: pd.Index,
) -> pd.DataFrame:
    """The pairs whose hit holds the query's substrings in its text or metadata.

    Any of them, for some queries all; `undecidable` where they may stand in a part cut off.

    Parameters
    ----------
    query_ids
        The question of each pair.
    row
        The hit of each row of metadata.
    """
    if not len(pairs):
        return pairs.assign(undecidable=False)
    queries = pd.Index(texts["query_id"].unique())
    pair, text = equal_pairs(lookup(query_ids, queries), lookup(texts["query_id"], queries))
    hit = pairs["hit"].to_numpy(np.int64)
    holds = _holds(hits, meta, row, hit[pair], texts["text"].str.lower().tolist(), text)
    n_asked, n_held = (
        np.bincount(pair, minlength=len(pairs)),
        np.bincount(pair[holds], minlength=len(pairs)),
    )
    held = np.where(lookup(query_ids, needing_all_of) >= 0, n_held == n_asked, n_held > 0)
    is_open = ~held & _is_cut(hits)[hit]
    return pairs.assign(undecidable=is_open)[held | is_open]


def _holds(
    hits: pd.DataFrame, meta: pd.DataFrame, row: Codes, hit: Codes, texts: list[str], text: Codes
) -> npt.NDArray[np.bool_]:
    """Whether each hit holds the text asked for in its own text or, looked at only where it doesn't, in one of its metadata values."""
    own = hits["text"] if "text" in hits else pd.Series("", index=hits.index, dtype="str")
    wholes, whole = unique_rows(own, hit)
    holds = contains_each([one.lower() for one in wholes.tolist()], whole, texts, text)
    rest = np.flatnonzero(~holds)
    # the last is that of metadata of no hit
    is_wanted = np.append(np.zeros(len(hits), dtype=bool), False)
    is_wanted[hit[rest]] = True
    of_rest = np.flatnonzero(is_wanted[row])
    values, value = readable(meta["value"].take(of_rest))
    place, found = equal_pairs(hit[rest], row[of_rest])
    holds[rest[place[contains_each(values, value[found], texts, text[rest[place]])]]] = True
    return holds


def _is_cut(hits: pd.DataFrame) -> npt.NDArray[np.bool_]:
    return (
        hits["text_cut"].fillna(False).to_numpy(dtype=bool)
        if "text_cut" in hits
        else np.zeros(len(hits), dtype=bool)
    )


def filter_hits(results: Results, golden: Golden) -> Results:
    """Keep only hits whose text holds the product that the question filters by, and rank them again from 1.

    The product (`filters: {product: ...}` of a golden row) is searched whatever the case. Questions
    without one, and those that the golden set doesn't have, keep all their hits. An explicit step:
    scoring never filters by itself.

    Returns
    -------
    Results of the same runs; `responses.x_n_filtered` counts the hits dropped from each response.
    Kept matches are left out, as they name ranks.

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
            f"{n_cut} hits have cut text: whether it holds the product is unknown",
            field="hits.text",
            allowed="whole texts",
        )
    held = hits.iloc[asked][["query_id"]].assign(
        hit=asked, of=hits["text"].iloc[asked].fillna("").str.lower() if "text" in hits else ""
    )
    pairs = held.merge(products.assign(text=products["text"].str.lower()), on="query_id")
    lacks = [text not in where for text, where in zip(pairs["text"], pairs["of"], strict=True)]
    keep = np.ones(len(hits), dtype=bool)
    keep[pairs["hit"].to_numpy(np.int64)[lacks]] = False
    kept = hits[keep]
    order = np.lexsort((kept["rank"], kept["query_id"], kept["run_id"].cat.codes))
    rank = np.zeros(len(kept), dtype=np.int32)
    rank[order] = (
        kept.iloc[order]
        .groupby(["run_id", "query_id"], observed=True, sort=False)
        .cumcount()
        .to_numpy()
        + 1
    )
    dropped = (
        hits[~keep]
        .groupby(["run_id", "query_id"], observed=True)
        .size()
        .rename("x_n_filtered")
        .reset_index()
        .astype({"run_id": "str"})
    )
    responses = results.responses.drop(columns="x_n_filtered", errors="ignore").astype(
        {"run_id": "str"}
    )
    responses = responses.merge(dropped, on=["run_id", "query_id"], how="left")
    responses["x_n_filtered"] = responses["x_n_filtered"].fillna(0).astype("Int64")
    meta = _ranked_again(results.hit_meta, kept.assign(new=rank))
    return replace(
        results, hits=kept.assign(rank=rank), responses=responses, hit_meta=meta, matches=None
    )


def _ranked_again(meta: pd.DataFrame | None, kept: pd.DataFrame) -> pd.DataFrame | None:
    """Metadata of the hits that are left, under their new ranks."""
    if meta is None:
        return None
    row = rows_of(meta, kept, pd.Index(kept["query_id"].unique()))
    return meta[row >= 0].assign(rank=kept["new"].to_numpy()[row[row >= 0]])


def _none() -> npt.NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)

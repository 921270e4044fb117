"""Retrievers side by side on one set of questions, each judged by its predicate.

Rows, a table, a matrix, Markdown.

In: `Results` with one run per retriever, and `Golden`. Out: frames, and one text.
"""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.render import markdown_table
from ragscore.scoring.matching import RANKLESS, at_level
from ragscore.scoring.predicates import by_predicate
from ragscore.scoring.score import score

KINDS = ("expected_empty", "must_not_contain", "positive", "other")
PASSED, FAILED, NOT_ASKED = "✅", "❌", "?"
QUERY_WIDTH = 60
NOTE = "expect_lessons_call"  # an advisory note of a question: shown, never scored


def predicate_rows(
    results: Results,
    golden: Golden | None = None,
    k: int | None = None,
    hits: str = "any",
    *,
    source_keys: str = "any",
    metadata: str = "all",
    substrings: str = "any",
    unknown: str = "exclude",
) -> pd.DataFrame:
    """Judge every question of every retriever.

    Parameters
    ----------
    golden
        Without it the values that the file stored itself are shown (`results.reported`), nothing is
        computed.
    k
        Only hits up to this rank; by default all that a run has.
    hits
        "any": one hit that satisfies what is expected is enough. "all": besides, every hit within k
        must satisfy it. `satisfied_by` of a golden row goes before this and the following options.
    source_keys, metadata, substrings
        As for `rs.by_predicate`.
    unknown
        As for `rs.score`: a question whose outcome depends on the cut-off part of a hit's text has
        none, or ("miss") such hits are misses.

    Returns
    -------
    One row per retriever (`run_id`) and question: `kind` (expected_empty, must_not_contain,
    positive; other: judged by its refusal, or by nothing), `n_hits` within k, `rank_first_match`
    (NA: none, or undecided), `passed` (1, 0; NaN: nothing to judge it by, not asked, or undecided),
    `elapsed_ms`, `state` (scored, failed, missing). `passed` is that of `rs.score` where k, hits
    and options are the defaults.

    Raises
    ------
    DataError
        k below 1, an option that is neither "any" nor "all", or a golden set beside runs that only
        hold a summary.
    """
    if golden is None:
        return _reported_rows(results)
    _refuse_summaries(results)
    cut = _cut(results, k)
    rule = by_predicate(
        cut, golden, source_keys=source_keys, metadata=metadata, substrings=substrings, hits=hits
    )
    with warnings.catch_warnings():
        # Both are told by the rows themselves: what is missing, and that no hit below k is looked
        # for.
        warnings.filterwarnings(
            "ignore", "golden queries without a row|cut-offs above the run's own k", UserWarning
        )
        scores = score(
            cut, golden, ["mrr", "passed"], match="predicate", rule=rule, unknown=unknown
        )
    rows = scores[scores["state"] != "extra"].reset_index()
    rows = rows.assign(run_id=rows["run_id"].astype("str")).join(
        _counts(cut), on=["run_id", "query_id"]
    )
    rows["n_hits"] = rows["n_hits"].fillna(0).astype("int64")
    rows["kind"] = _kinds(rows["query_id"], golden)
    rows["rank_first_match"] = (1 / rows["mrr"].where(rows["mrr"] > 0)).round().astype("Int64")
    return rows[
        [
            "run_id",
            "query_id",
            "kind",
            "n_hits",
            "rank_first_match",
            "passed",
            "elapsed_ms",
            "state",
        ]
    ].astype({"run_id": results.runs["run_id"].dtype})


def predicate_report(
    results: Results,
    golden: Golden | None = None,
    k: int | None = None,
    hits: str = "any",
    **options: str,
) -> pd.DataFrame:
    """How each retriever did on the whole set; parameters as for `predicate_rows`.

    Returns
    -------
    One row per retriever (index run_id), in the order of the runs: `n_queries` judged, `n_positive`
    of them; `passed`, `pass_rate` (0 to 1); `precision_at_1` and `mrr` over the positive questions,
    those that have a rank at all, and `precision_at_1_all`, `mrr_all` over all that were judged,
    where questions without a rank add 0 (a perfect retriever stays below 1 there); `latency_ms`,
    the mean over questions that didn't fail; `n_failed`, `n_missing` and `n_unjudged` questions,
    those that cut texts leave undecided among them. Only questions that passed have a rank; where
    it is undecided which, they are in no mean of ranks. Higher is better but for the latency.
    """
    return _summary(predicate_rows(results, golden, k, hits, **options))


def predicate_matrix(
    results: Results,
    golden: Golden,
    k: int | None = None,
    hits: str = "any",
    **options: str,
) -> pd.DataFrame:
    """Every question beside every retriever; parameters as for `predicate_rows`.

    Returns
    -------
    One row per question (index query_id, in the order of the golden set), one column per retriever,
    by name: "✅ #rank" passed with its first right hit there ("✅ #?": which one it is is undecided),
    "✅" passed without a rank (no hit, or no forbidden source), "❌" failed, "?" not asked, nothing
    to judge it by, or undecided because texts are cut.
    """
    return _matrix(predicate_rows(results, golden, k, hits, **options), golden)


def predicate_markdown(
    results: Results,
    golden: Golden,
    k: int | None = None,
    hits: str = "any",
    **options: str,
) -> str:
    """The report as Markdown.

    Retrievers by MRR, best first, then every question; parameters as for `predicate_rows`.

    What questions note in `expect_lessons_call` stands beside them; a product that they filter by,
    and whether hits were filtered by it (`rs.filter_hits`), above.
    """
    rows = predicate_rows(results, golden, k, hits, **options)
    table, matrix = (
        _summary(rows).sort_values("mrr", ascending=False, kind="stable", na_position="last"),
        _matrix(rows, golden),
    )
    counts = f"{len(golden.queries)} golden queries × {len(table)} retrievers"
    ks = (
        sorted({int(one) for one in results.runs["k"].dropna()})
        if k is None and "k" in results.runs
        else [k]
        if k is not None
        else []
    )
    title = "# Retrievers" + (f" (k = {', '.join(map(str, ks))})" if ks else "")
    legend = (
        f"MRR and P@1 over the {_range(table['n_positive'])} positive queries; (all) over every"
        f" query, where one without a rank adds 0. {PASSED} #rank: passed, first right hit at that"
        f" rank; {PASSED}: passed without a rank; {FAILED}: failed; {NOT_ASKED}: not asked, nothing"
        " to judge by, or undecided because texts are cut."
    )
    return (
        "\n\n".join(
            [
                title,
                counts,
                *_product_filter(results, golden),
                markdown_table(_shown_summary(table)),
                legend,
                "## Queries",
                markdown_table(_shown_matrix(matrix, golden)),
            ]
        )
        + "\n"
    )


def _product_filter(results: Results, golden: Golden) -> list[str]:
    """What became of the products that questions filter by; nothing where none does."""
    asking = golden.checks.loc[golden.checks["kind"] == "product", "query_id"].drop_duplicates()
    if not len(asking):
        return []
    named = f"{len(asking)} queries filter by a product"
    if "x_n_filtered" not in results.responses:
        return [f"{named}; their hits were not filtered (`rs.filter_hits`)."]
    dropped = results.responses.groupby(results.responses["run_id"].astype("str"), sort=False)[
        "x_n_filtered"
    ].sum()
    return [
        f"{named}; hits dropped: {', '.join(f'{run_id} {n}' for run_id, n in dropped.items())}."
    ]


def _refuse_summaries(results: Results) -> None:
    """A run without hits of which the file says that it had some can't be judged again."""
    if results.reported is None:
        return
    counted = results.reported.loc[
        (results.reported["metric"] == "n_hits") & (results.reported["value"] > 0), "run_id"
    ]
    bare = sorted(
        {str(one) for one in counted.unique()}
        - {str(one) for one in results.hits["run_id"].unique()}
    )
    if bare:
        raise DataError(
            f"{', '.join(bare)} hold a summary and no hits",
            field="results",
            allowed="records with hits, or no golden set (shows what the file stored)",
        )


def _cut(results: Results, k: int | None) -> Results:
    if k is None:
        return results
    if k < 1:
        raise DataError(f"found {k}", field="k", allowed="a whole number from 1")
    meta = results.hit_meta[results.hit_meta["rank"] <= k] if results.hit_meta is not None else None
    runs = results.runs.assign(k=pd.array([k] * len(results.runs), dtype="Int64"))
    return replace(results, runs=runs, hits=results.hits[results.hits["rank"] <= k], hit_meta=meta)


def _counts(results: Results) -> pd.DataFrame:
    """Hits and latency of each response, by run and query."""
    responses = results.responses
    latency = (
        responses["elapsed_ms"].where(responses["error"].isna())
        if "elapsed_ms" in responses
        else np.nan
    )
    keys = [responses["run_id"].astype("str"), responses["query_id"]]
    table = pd.DataFrame({"elapsed_ms": latency, "run_id": keys[0], "query_id": keys[1]}).set_index(
        ["run_id", "query_id"]
    )
    n_hits = (
        results.hits.assign(run_id=results.hits["run_id"].astype("str"))
        .groupby(["run_id", "query_id"])
        .size()
    )
    return table.astype({"elapsed_ms": "float64"}).assign(n_hits=n_hits.reindex(table.index))


def _kinds(query_ids: pd.Series, golden: Golden) -> pd.Series:
    checks, with_target = golden.checks, at_level(golden, "predicate").targets["query_id"]
    has = [query_ids.isin(checks.loc[checks["kind"] == kind, "query_id"]) for kind in RANKLESS]
    return pd.Series(
        np.select([*has, query_ids.isin(with_target)], KINDS[:3], KINDS[3]),
        index=query_ids.index,
        dtype="str",
    )


def _reported_rows(results: Results) -> pd.DataFrame:
    """The same rows from what the file stored itself."""
    stored = results.reported
    if stored is None or not stored["metric"].eq("passed").any():
        raise DataError(
            "no stored outcomes",
            field="results.reported",
            allowed="summary records, or a golden set to judge the hits by",
        )
    responses = results.responses.reset_index(drop=True)
    known = responses.reindex(columns=["run_id", "query_id", "x_kind", "elapsed_ms", "error"])
    rows = known[["run_id", "query_id"]].assign(
        kind=known["x_kind"], elapsed_ms=known["elapsed_ms"].where(known["error"].isna())
    )
    rows["state"] = np.where(responses["error"].notna(), "failed", "scored")
    keys = ["run_id", "query_id"]
    wide = stored.assign(run_id=stored["run_id"].astype("str")).pivot(
        index=keys, columns="metric", values="value"
    )
    values = wide.reindex(columns=["n_hits", "rank_first_match", "passed"]).reindex(
        pd.MultiIndex.from_frame(rows[keys].astype({"run_id": "str"}))
    )
    for name in values.columns:
        rows[str(name)] = values[name].to_numpy()
    rows = rows.astype({"n_hits": "Int64", "rank_first_match": "Int64", "kind": "str"})
    return rows[[*keys, "kind", "n_hits", "rank_first_match", "passed", "elapsed_ms", "state"]]


def _summary(rows: pd.DataFrame) -> pd.DataFrame:
    judged, positive = rows["passed"].notna(), rows["kind"].eq("positive")
    has_rank = (rows["passed"] == 1) & rows["rank_first_match"].notna()
    # passed, but which hit is the first right one is undecided
    is_open = positive & (rows["passed"] == 1) & rows["rank_first_match"].isna()
    reciprocal = (1 / rows["rank_first_match"].astype("float64")).where(has_rank, 0.0).mask(is_open)
    first = (
        ((rows["rank_first_match"] == 1).fillna(False) & has_rank).astype("float64").mask(is_open)
    )
    values = pd.DataFrame({
        "n_queries": judged, "n_positive": judged & positive, "passed": rows["passed"] == 1,
        "pass_rate": rows["passed"],
        "precision_at_1": first.where(judged & positive), "precision_at_1_all": first.where(judged),
        "mrr": reciprocal.where(judged & positive),
        "mrr_all": reciprocal.where(judged), "latency_ms": rows["elapsed_ms"],
        "n_failed": rows["state"] == "failed", "n_missing": rows["state"] == "missing",
        "n_unjudged": ~judged & (rows["state"] != "missing"),
    })  # fmt: skip
    how = {
        name: "sum" if name.startswith("n_") or name == "passed" else "mean"
        for name in values.columns
    }
    return (
        values.groupby(rows["run_id"], observed=False)
        .agg(how)
        .astype({name: "int64" for name, one in how.items() if one == "sum"})
    )


def _matrix(rows: pd.DataFrame, golden: Golden) -> pd.DataFrame:
    rank = rows["rank_first_match"].astype("str").fillna("?")
    with_rank = (PASSED + " #" + rank).where(rows["kind"].eq("positive"), PASSED)
    cells = np.select([rows["passed"].isna(), rows["passed"] == 1], [NOT_ASKED, with_rank], FAILED)
    table = rows.assign(cell=cells, run_id=rows["run_id"].astype("str")).pivot(
        index="query_id", columns="run_id", values="cell"
    )
    return (
        table.reindex(golden.queries["query_id"])
        .rename_axis("query_id")
        .reindex(columns=sorted(table.columns))
    )


def _shown_summary(table: pd.DataFrame) -> pd.DataFrame:
    percent = {name: table[column].map("{:.2%}".format).where(table[column].notna(), "—") for name, column in (
        ("pass rate", "pass_rate"), ("P@1", "precision_at_1"),
        ("P@1 (all)", "precision_at_1_all"))}  # fmt: skip
    number = {
        name: table[column].map("{:.3f}".format).where(table[column].notna(), "—")
        for name, column in (("MRR", "mrr"), ("MRR (all)", "mrr_all"))
    }
    latency = table["latency_ms"].map("{:.0f}".format).where(table["latency_ms"].notna(), "—")
    shown = {
        "retriever": table.index.astype("str"),
        "queries": table["n_queries"],
        "passed": table["passed"],
        **percent,
        **number,
        "mean ms": latency,
    }
    return pd.DataFrame(shown).reset_index(drop=True)


def _shown_matrix(matrix: pd.DataFrame, golden: Golden) -> pd.DataFrame:
    queries = (
        golden.queries["query"]
        .str.slice(0, QUERY_WIDTH)
        .str.replace("`", "'")
        .str.replace("\n", " ")
    )
    shown = matrix.reset_index(drop=True)
    shown.insert(0, "query", ("`" + queries.reset_index(drop=True) + "`").astype(object))
    notes = [name for name in golden.queries.columns if name.split(".")[0] == f"x_{NOTE}"]
    if not notes:
        return shown
    texts = [
        golden.queries[name]
        .map(_note if name.endswith(".json") else str, na_action="ignore")
        .astype("str")
        .fillna("")
        for name in notes
    ]
    joined = [" ".join(parts).strip() for parts in zip(*texts, strict=True)]
    return shown.assign(**{f"note ({NOTE})": joined})


def _note(written: str) -> str:
    """A note of a column that holds JSON, as one of a column of its own type looks."""
    value = json.loads(written)
    return str(value) if isinstance(value, (bool, str)) else written


def _range(counts: pd.Series) -> str:
    low, high = counts.min(), counts.max()
    return str(low) if low == high else f"{low} to {high}"

"""Retrievers side by side on one set of queries, each query judged by its predicate.

In: `Results` with one run per retriever, and `Golden`. Out: `RetrieverReport`: one row per
retriever and query, a table, a matrix, and one text in Markdown.
"""

import json
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import plural, unsaid
from ragscore.frames.escaping import markdown_code, markdown_line
from ragscore.frames.tables import Table
from ragscore.scoring.rules import by_predicate
from ragscore.scoring.score import score
from ragscore.scoring.targets import RANKLESS, targets_at

KINDS = ("expected_empty", "must_not_contain", "positive", "other")
PASSED, FAILED, NOT_ASKED = "✅", "❌", "?"
QUERY_WIDTH = 60
NOTE = "expect_lessons_call"  # an advisory note of a query: shown, never scored
ROWS = ["n_hits", "rank_first_match", "passed", "elapsed_ms", "state"]


@dataclass(frozen=True, repr=False, eq=False)
class RetrieverReport(FramesResult):
    """Retrievers side by side, each query judged by its predicate.

    Attributes
    ----------
    table
        One row per retriever (run_id), in the order of the runs: `n_queries` judged, `n_positive`
        of them; `passed`, `pass_rate` (0 to 1); `precision_at_1` and `mrr` over the positive
        queries, the only kind with a rank; `precision_at_1_all`, `mrr_all` over all judged queries,
        where a query without a rank adds 0 (a perfect retriever stays below 1 there); `latency_ms`,
        the mean over queries that didn't fail; `n_failed`, `n_missing` and `n_unjudged` queries.
        Only queries that passed have a rank. Higher is better but for the latency.
    matrix
        One row per query (index query_id, in the order of the golden set), one column per
        retriever, by name. "✅ #rank": passed with its first right hit at that rank; "✅": passed
        without a rank (no hit, or no forbidden source); "❌": failed; "?": not asked, or nothing to
        judge it by.
    per_query
        One row per retriever (`run_id`) and query: `kind` (expected_empty, must_not_contain,
        positive; other: judged by its refusal, or by nothing), `n_hits` within k,
        `rank_first_match` (NA: none), `passed` (1, 0; NaN: nothing to judge it by, or not asked),
        `elapsed_ms`, `state` (scored, failed, missing). `passed` is
        the metric `found` where k, hits and options are the defaults: answers don't count.
    """

    FRAMES = ("table", "matrix", "per_query")
    METHODS = ("to_markdown()",)

    per_query: pd.DataFrame
    _results: Results = field(repr=False)
    _golden: Golden = field(repr=False)
    _k: int | None = field(repr=False)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Each retriever's figures over all queries."""
        return _summary(self.per_query)

    @cached_property
    def matrix(self) -> pd.DataFrame:
        """The outcome of every query and retriever."""
        return _matrix(self.per_query, self._golden.queries["query_id"])

    def to_markdown(self) -> str:
        """Return the report as Markdown.

        Retrievers come first, best MRR first, then every query with its note
        (`expect_lessons_call`). Above them stands how many queries filter by a product, and how
        many hits `rs.match.filter_hits` dropped.
        """
        results, golden = self._results, self._golden
        table = self.table.sort_values(
            "mrr", ascending=False, kind="stable", na_position="last", ignore_index=True
        )
        ks = [] if self._k is None else [self._k]
        if self._k is None and "k" in results.runs:
            ks = sorted({int(own) for own in results.runs["k"].dropna()})
        low, high = table["n_positive"].min(), table["n_positive"].max()
        n_positive = str(low) if low == high else f"{low} to {high}"
        legend = (
            f"MRR and P@1 over the {n_positive} positive queries; (all) over every"
            f" query, where one without a rank adds 0. {PASSED} #rank: passed, first right hit at"
            f" that rank; {PASSED}: passed without a rank; {FAILED}: failed; {NOT_ASKED}: not"
            " asked, or nothing to judge by."
        )
        parts = [
            "# Retrievers" + (f" (k = {', '.join(map(str, ks))})" if ks else ""),
            f"{len(golden.queries)} golden queries × {len(table)} retrievers",
            *_product_filter(results, golden),
            Table(_shown_summary(table)).to_markdown(),
            legend,
            "## Queries",
            Table(_shown_matrix(self.matrix, golden)).to_markdown(),
        ]
        return "\n\n".join(parts) + "\n"

    def _heading(self) -> str:
        n = self.per_query["query_id"].nunique()
        return f"{plural(len(self.table), 'retriever')}, {plural(n, 'query')}"

    def _shown(self) -> pd.DataFrame:
        return _shown_summary(self.table)


def retrievers(
    results: Results,
    golden: Golden,
    k: int | None = None,
    hits: str = "any",
    *,
    substrings: str = "any",
) -> RetrieverReport:
    """Judge every query of every retriever; see `rs.extras.retrievers`."""
    _refuse_summaries(results)
    cut = _cut(results, k)
    rule = by_predicate(cut, golden, substrings=substrings, hits=hits)
    # the rows themselves show both: missing queries, and that no hit below k is searched
    with unsaid("golden queries without a row"):
        scores = score(cut, golden, ["mrr", "found"], match="predicate", rule=rule)
        scores = scores.rename(columns={"found": "passed"})
    rows = scores[scores["state"] != "extra"].reset_index().astype({"run_id": "str"})
    keys = ["run_id", "query_id"]
    responses = cut.responses.astype({"run_id": "str"}).set_index(keys)
    elapsed = responses.get("elapsed_ms", pd.Series(np.nan, index=responses.index))
    latency = elapsed.astype("float64").where(responses["error"].isna())
    n_hits = cut.hits.astype({"run_id": "str"}).groupby(keys).size().reindex(responses.index)
    rows = rows.join(pd.DataFrame({"elapsed_ms": latency, "n_hits": n_hits}), on=keys)
    rows["n_hits"] = rows["n_hits"].fillna(0).astype("int64")
    flags = [
        rows["query_id"].isin(golden.checks.loc[golden.checks["kind"] == kind, "query_id"])
        for kind in RANKLESS
    ]
    flags += [rows["query_id"].isin(targets_at(golden, "predicate").targets["query_id"])]
    rows["kind"] = pd.Series(np.select(flags, KINDS[:3], KINDS[3]), dtype="str")
    rows["rank_first_match"] = (1 / rows["mrr"].where(rows["mrr"] > 0)).round().astype("Int64")
    per_query = rows[[*keys, "kind", *ROWS]].astype({"run_id": results.runs["run_id"].dtype})
    return RetrieverReport(per_query, results, golden, k)


def _product_filter(results: Results, golden: Golden) -> list[str]:
    """Describe the effect of product filters; nothing where no query filters by a product."""
    filtering = golden.checks.loc[golden.checks["kind"] == "product", "query_id"].drop_duplicates()
    if not len(filtering):
        return []
    text = f"{len(filtering)} queries filter by a product"
    if "x_n_filtered" not in results.responses:
        return [f"{text}; their hits were not filtered (`rs.match.filter_hits`)."]
    by_run = results.responses.groupby(results.responses["run_id"].astype("str"), sort=False)
    n_dropped = by_run["x_n_filtered"].sum()
    dropped = ", ".join(f"{run_id} {n}" for run_id, n in n_dropped.items())
    return [f"{text}; hits dropped: {markdown_line(dropped)}."]


def _refuse_summaries(results: Results) -> None:
    """Refuse runs without hits whose file says that they had some: they can't be judged again."""
    if results.reported is None:
        return
    is_count = (results.reported["metric"] == "n_hits") & (results.reported["value"] > 0)
    counted = set(results.reported.loc[is_count, "run_id"].astype("str"))
    without_hits = sorted(counted - set(results.hits["run_id"].astype("str").unique()))
    if without_hits:
        raise DataError(
            f"{', '.join(without_hits)} hold a summary and no hits",
            field="results",
            allowed="records with hits; results.reported has what the file stored",
        )


def _cut(results: Results, k: int | None) -> Results:
    """Return the results with hits up to rank k only."""
    if k is None:
        return results
    if k < 1:
        raise DataError(f"found {k}", field="k", allowed="a whole number from 1")
    meta = results.hit_meta[results.hit_meta["rank"] <= k] if results.hit_meta is not None else None
    runs = results.runs.assign(k=pd.array([k] * len(results.runs), dtype="Int64"))
    return replace(results, runs=runs, hits=results.hits[results.hits["rank"] <= k], hit_meta=meta)


def _summary(rows: pd.DataFrame) -> pd.DataFrame:
    is_judged, is_positive = rows["passed"].notna(), rows["kind"].eq("positive")
    has_passed = rows["passed"] == 1
    rank = rows["rank_first_match"].astype("float64").where(has_passed)
    reciprocal, first = (1 / rank).fillna(0.0), (rank == 1).astype("float64")
    counts = {
        "n_queries": is_judged,
        "n_positive": is_judged & is_positive,
        "passed": has_passed,
        "n_failed": rows["state"] == "failed",
        "n_missing": rows["state"] == "missing",
        "n_unjudged": ~is_judged & (rows["state"] != "missing"),
    }
    means = {
        "pass_rate": rows["passed"],
        "precision_at_1": first.where(is_judged & is_positive),
        "precision_at_1_all": first.where(is_judged),
        "mrr": reciprocal.where(is_judged & is_positive),
        "mrr_all": reciprocal.where(is_judged),
        "latency_ms": rows["elapsed_ms"],
    }
    n = pd.DataFrame(counts).groupby(rows["run_id"], observed=False).sum().astype("int64")
    means_by_run = pd.DataFrame(means).groupby(rows["run_id"], observed=False)
    # column by column: the mean of a whole frame may differ in the last bit
    table = n.join(means_by_run.agg(dict.fromkeys(means, "mean")))
    columns = ["n_queries", "n_positive", "passed", *means, "n_failed", "n_missing", "n_unjudged"]
    return table[columns].rename_axis("run_id").reset_index()


def _matrix(rows: pd.DataFrame, query_ids: pd.Series) -> pd.DataFrame:
    rank = rows["rank_first_match"].astype("str").fillna("?")
    with_rank = (PASSED + " #" + rank).where(rows["kind"].eq("positive"), PASSED)
    cells = np.select([rows["passed"].isna(), rows["passed"] == 1], [NOT_ASKED, with_rank], FAILED)
    table = rows.assign(cell=cells, run_id=rows["run_id"].astype("str")).pivot(
        index="query_id", columns="run_id", values="cell"
    )
    table = table.reindex(query_ids).rename_axis("query_id")
    return table.reindex(columns=sorted(table.columns))


def _shown_summary(table: pd.DataFrame) -> pd.DataFrame:
    shown = pd.DataFrame({"retriever": table["run_id"].astype("str")})
    for name, column, style in (
        ("queries", "n_queries", ""),
        ("passed", "passed", ""),
        ("pass rate", "pass_rate", ".2%"),
        ("P@1", "precision_at_1", ".2%"),
        ("P@1 (all)", "precision_at_1_all", ".2%"),
        ("MRR", "mrr", ".3f"),
        ("MRR (all)", "mrr_all", ".3f"),
        ("mean ms", "latency_ms", ".0f"),
    ):
        values = table[column]
        texts = values.map(f"{{:{style}}}".format).where(values.notna(), "—")
        shown[name] = texts if style else values
    return shown


def _shown_matrix(matrix: pd.DataFrame, golden: Golden) -> pd.DataFrame:
    queries = golden.queries["query"].str.slice(0, QUERY_WIDTH)
    queries = queries.str.replace("`", "'")
    shown = matrix.reset_index(drop=True)
    shown.insert(0, "query", pd.Series(list(map(markdown_code, queries)), dtype="object"))
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


def _note(text: str) -> str:
    """Return a note of a column of JSON as one of a column of its own type looks."""
    value = json.loads(text)
    return str(value) if isinstance(value, (bool, str)) else text

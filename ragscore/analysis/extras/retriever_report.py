"""Retrievers side by side on one set of queries, each query judged by its predicate.

In: an evaluation with one run per retriever. Out: `RetrieverReport`: one row per retriever and
query, a table, a matrix, and one text in Markdown.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_whole, plural, unsaid
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
SHOWN = {
    "queries": ("n_queries", ""), "passed": ("passed", ""), "pass rate": ("pass_rate", ".2%"),
    "P@1": ("precision_at_1", ".2%"), "P@1 (all)": ("precision_at_1_all", ".2%"),
    "MRR": ("mrr", ".3f"), "MRR (all)": ("mrr_all", ".3f"), "mean ms": ("latency_ms", ".0f"),
}  # fmt: skip
"""Heading -> the column of the table, and how its numbers are written."""
LEGEND = (
    "MRR and P@1 over the {} positive queries; (all) over every query, where one without a rank"
    f" adds 0. {PASSED} #rank: passed, first right hit at that rank; {PASSED}: passed without a"
    f" rank; {FAILED}: failed; {NOT_ASKED}: not asked, or nothing to judge by."
)


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

    METHODS = ("to_markdown()",)

    table: pd.DataFrame
    matrix: pd.DataFrame
    per_query: pd.DataFrame
    _results: Results = field(repr=False)
    _golden: Golden = field(repr=False)
    _k: int | None = field(repr=False)

    def to_markdown(self) -> str:
        """Return the report as Markdown.

        Retrievers come first, best MRR first, then every query with its note
        (`expect_lessons_call`). Above them are the numbers of queries that filter by a product,
        and of hits that `rs.match.filter_hits` dropped.
        """
        results, golden = self._results, self._golden
        table = self.table.sort_values("mrr", ascending=False, kind="stable")
        stated = results.runs["k"].dropna() if "k" in results.runs else ()
        ks = [self._k] if self._k is not None else sorted(set(map(int, stated)))
        low, high = table["n_positive"].min(), table["n_positive"].max()
        checks, parts = golden.checks, [
            "# Retrievers" + (f" (k = {', '.join(map(str, ks))})" if ks else ""),
            f"{len(golden.queries)} golden queries × {len(table)} retrievers",
        ]  # fmt: skip
        if n := checks.loc[checks["kind"] == "product", "query_id"].nunique():
            filtered = "their hits were not filtered (`rs.match.filter_hits`)"
            if "x_n_filtered" in results.responses:
                run = results.responses["run_id"].astype("str")
                dropped = results.responses["x_n_filtered"].groupby(run, sort=False).sum()
                listed = ", ".join(f"{run_id} {n_hits}" for run_id, n_hits in dropped.items())
                filtered = f"hits dropped: {markdown_line(listed)}"
            parts.append(f"{n} queries filter by a product; {filtered}.")
        parts += [
            Table(_shown(table)).to_markdown(),
            LEGEND.format(low if low == high else f"{low} to {high}"),
            "## Queries",
            Table(_shown_matrix(self.matrix, golden)).to_markdown(),
        ]
        return "\n\n".join(parts) + "\n"

    def _heading(self) -> str:
        return f"{plural(len(self.table), 'retriever')}, {plural(len(self.matrix), 'query')}"

    def _shown(self) -> pd.DataFrame:
        return _shown(self.table)


def retrievers(
    ev: Any,
    k: int | None = None,
    hits: str = "any",
    *,
    substrings: str = "any",
) -> RetrieverReport:
    """Judge every query of every retriever by the query's predicate.

    Parameters
    ----------
    k
        Only hits up to this rank; by default all that a run has.
    hits
        "any": one hit that satisfies the predicate is enough. "all": besides, every hit within
        k must satisfy it.
    substrings
        As for `rs.match.by_predicate`.

    Returns
    -------
    `RetrieverReport`: frames `table`, `matrix` and `per_query`, and `to_markdown()`; its
    docstring has the columns.

    Raises
    ------
    DataError
        k below 1; an option that is neither "any" nor "all"; runs that only hold a summary; no
        query has a predicate.

    Examples
    --------
    >>> from dataclasses import replace
    >>> hits = ev.results.hits.assign(source_key=ev.results.hits["doc_id"])
    >>> targets = ev.golden.targets.query("level == 'doc'").assign(level="source_key")
    >>> targets = targets.assign(source_key=targets["doc_id"])
    >>> keyed = rs.Golden(ev.golden.queries, targets)
    >>> rs.extras.retrievers(rs.evaluate(replace(ev.results, hits=hits), keyed), k=5).table
    """
    results, golden = ev.results, ev.golden
    if results.reported is not None:  # a file's summary can't be judged again
        is_count = (results.reported["metric"] == "n_hits") & (results.reported["value"] > 0)
        counted = set(results.reported.loc[is_count, "run_id"].astype("str"))
        if without := sorted(counted - set(results.hits["run_id"].astype("str").unique())):
            raise DataError(
                f"{', '.join(without)} hold a summary and no hits", field="results",
                allowed="records with hits; results.reported has what the file stored",
            )  # fmt: skip
    cut = _cut(results, k)
    rule = by_predicate(cut, golden, substrings=substrings, hits=hits)
    # the rows themselves show both: missing queries, and that no hit below k is searched
    with unsaid("golden queries without a row"):
        scores = score(cut, golden, ["mrr", "found"], match="predicate", rule=rule)
    rows = scores[scores["state"] != "extra"].reset_index().astype({"run_id": "str"})
    keys = ["run_id", "query_id"]
    responses = cut.responses.astype({"run_id": "str"}).set_index(keys)
    elapsed = responses.get("elapsed_ms", pd.Series(np.nan, index=responses.index))
    latency = elapsed.astype("float64").where(responses["error"].isna())
    n_hits = cut.hits.astype({"run_id": "str"}).groupby(keys).size().reindex(responses.index)
    rows = rows.join(pd.DataFrame({"elapsed_ms": latency, "n_hits": n_hits}), on=keys)
    checks, positive = golden.checks.set_index("kind")["query_id"], targets_at(golden, "predicate")
    by_kind = [*(checks[checks.index == kind] for kind in RANKLESS), positive.targets["query_id"]]
    is_asked = [rows["query_id"].isin(query_ids) for query_ids in by_kind]
    rows = rows.assign(
        n_hits=rows["n_hits"].fillna(0).astype("int64"), passed=rows["found"],
        kind=pd.Series(np.select(is_asked, KINDS[:3], KINDS[3]), dtype="str"),
        rank_first_match=(1 / rows["mrr"].where(rows["mrr"] > 0)).round().astype("Int64"),
    )  # fmt: skip
    per_query = rows[[*keys, "kind", *ROWS]].astype({"run_id": results.runs["run_id"].dtype})
    matrix = _matrix(per_query, golden.queries["query_id"])
    return RetrieverReport(_table(per_query), matrix, per_query, results, golden, k)


def _cut(results: Results, k: int | None) -> Results:
    """Return the results with hits up to rank k only."""
    if k is None:
        return results
    check_whole(k, "k")
    meta = results.hit_meta[results.hit_meta["rank"] <= k] if results.hit_meta is not None else None
    runs = results.runs.assign(k=pd.array([k] * len(results.runs), dtype="Int64"))
    return replace(results, runs=runs, hits=results.hits[results.hits["rank"] <= k], hit_meta=meta)


def _table(rows: pd.DataFrame) -> pd.DataFrame:
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


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    shown = {
        name: table[column].map(f"{{:{style}}}".format).where(table[column].notna(), "—")
        if style
        else table[column]
        for name, (column, style) in SHOWN.items()
    }
    return pd.DataFrame({"retriever": table["run_id"].astype("str"), **shown})


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

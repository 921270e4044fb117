"""Multi-hop answers.

How many steps they took, how often they were cut short, how long they took, what the check of their
claims said.

In: `Results` with a hops frame (the reader of run files fills it from `answer.hops`). Out: one row
per query, per run, or per run and kind of step.
"""

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Results

PASSED, SCORE = "x_answer.verification.nli_passed", "x_answer.verification.nli_score"


def query_hops(results: Results) -> pd.DataFrame:
    """The steps of every multi-hop answer, added up.

    Returns
    -------
    One row per run and query with hops: `n_hops`; `chunks_added`, new chunks over all steps (NA if
    no step says); `forced_stop`, 1 if a limit ended the search, 0 if not, NaN if no step says;
    `llm_call_ms`, over the timed steps (NaN if none is) and `n_timed`, how many these are.

    Raises
    ------
    DataError
        The results hold no hops.
    """
    hops = _hops(results)
    grouped = hops.groupby(["run_id", "query_id"], observed=True, sort=False)
    table = pd.DataFrame({
        "n_hops": grouped.size(), "chunks_added": grouped["chunks_added"].sum(min_count=1),
        "forced_stop": grouped["forced_stop"].max(),
        "llm_call_ms": grouped["llm_call_ms"].sum(min_count=1),
        "n_timed": grouped["llm_call_ms"].count(),
    })  # fmt: skip
    return table.reset_index()


def hop_report(results: Results) -> pd.DataFrame:
    """Multi-hop answers of each run in figures.

    Returns
    -------
    One row per run: `n_queries` with hops and their `share` of all responses; `hops_mean`,
    `hops_max` a query; `n_forced` searches that a limit ended, and `forced_rate` of those that say
    (0 to 1, lower is better); `query_ms_p50`, `query_ms_p95`, time in the model a query (ms). NaN
    where no step says. A run without hops has n = 0.
    """
    per_query = query_hops(results)
    grouped = per_query.groupby("run_id", observed=False)
    n_responses = results.responses.groupby("run_id", observed=False).size()
    n_queries, time = grouped.size(), grouped["llm_call_ms"]
    table = pd.DataFrame({
        "n_queries": n_queries,
        "share": n_queries.astype("float64") / n_responses.astype("float64").replace(0.0, np.nan),
        "hops_mean": grouped["n_hops"].mean(), "hops_max": grouped["n_hops"].max().astype("Int64"),
        "n_forced": grouped["forced_stop"].sum().astype("int64"),
        "forced_rate": grouped["forced_stop"].mean(),
        "query_ms_p50": time.quantile(0.5), "query_ms_p95": time.quantile(0.95),
    })  # fmt: skip
    return table.reset_index()


def hop_latency(results: Results) -> pd.DataFrame:
    """How long the steps of each kind took.

    Returns
    -------
    One row per run and kind of step ("(none)" where a step has none): `n` steps, `n_timed` of them,
    and over these `mean_ms`, `p50_ms`, `p95_ms`, `max_ms` (NaN if none was timed).
    """
    hops = _hops(results)
    grouped = hops.assign(kind=hops["kind"].fillna("(none)")).groupby(
        ["run_id", "kind"], observed=True
    )
    time = grouped["llm_call_ms"]
    return pd.DataFrame({
        "n": grouped.size(), "n_timed": time.count(), "mean_ms": time.mean(),
        "p50_ms": time.quantile(0.5), "p95_ms": time.quantile(0.95), "max_ms": time.max(),
    }).reset_index()  # fmt: skip


def verification_report(results: Results) -> pd.DataFrame:
    """How often the check of an answer's claims against its sources (natural-language inference) passed.

    Returns
    -------
    One row per run: `n` verified answers, `pass_rate` of them (0 to 1, higher is better),
    `score_mean` of the entailment score; NaN in a run without verified answers.
    """
    responses = results.responses
    passed = (
        responses[PASSED].astype("boolean").astype("Float64")
        if PASSED in responses
        else pd.Series(pd.NA, index=responses.index, dtype="Float64")
    )
    score = (
        responses[SCORE].astype("float64")
        if SCORE in responses
        else pd.Series(np.nan, index=responses.index)
    )
    grouped = pd.DataFrame(
        {"run_id": responses["run_id"], "passed": passed.astype("float64"), "score": score}
    ).groupby("run_id", observed=False)
    return pd.DataFrame(
        {
            "n": grouped["passed"].count(),
            "pass_rate": grouped["passed"].mean(),
            "score_mean": grouped["score"].mean(),
        }
    ).reset_index()


def _hops(results: Results) -> pd.DataFrame:
    """The hops frame with all its columns, numbers as float64; a duration of 0 is none."""
    if results.hops is None:
        raise DataError(
            "these results hold no hops",
            field="results.hops",
            allowed="a run whose answers have `hops`, or Results(..., hops=frame)",
        )
    frame = results.hops
    columns = {
        name: frame[name] if name in frame else pd.Series(pd.NA, index=frame.index)
        for name in ("kind", "chunks_added", "forced_stop", "llm_call_ms")
    }
    time = columns["llm_call_ms"].astype("Float64").astype("float64")
    return pd.DataFrame({
        "run_id": frame["run_id"], "query_id": frame["query_id"],
        "kind": columns["kind"].astype("str"),
        "chunks_added": columns["chunks_added"].astype("Int64"),
        "forced_stop": columns["forced_stop"].astype("boolean").astype("Float64").astype("float64"),
        "llm_call_ms": time.mask(time == 0),
    })  # fmt: skip

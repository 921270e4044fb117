"""Operational figures of a run: latency, errors, cost, index, multi-hop answers.

In: `Results`; the functions are methods of it. Out: figures per run that are not means of a
per-query column; for hops also per query and per kind of step.
"""

import json

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import check_choice
from ragscore.scoring.metrics.operations import TIMED_OUT
from ragscore.stats import quantile_interval

PERCENTILES = ("linear", "floor")
CARRIES = 0.5  # part of all squared distances from a mean: one value of so much carries it
COVERAGE = "x_indexing_coverage."
SKIPPED = "chunks_skipped_reasons."
ALL_TYPES, NO_TYPE = "(all)", "(none)"
PASSED, SCORE = "x_answer.verification.nli_passed", "x_answer.verification.nli_score"


def latency(
    results: Results,
    by: str | None = None,
    *,
    method: str = "linear",
) -> pd.DataFrame:
    """Return the latency of each run, in milliseconds; lower is better.

    Failed queries are left out.

    Parameters
    ----------
    by
        None: by phase, `total` and then each `latency_<phase>_ms` that was recorded. "hop": by
        kind of step of multi-hop answers, the time in the model.
    method
        Of the percentiles: "linear" interpolation, or "floor": the value at position floor(share ·
        n) of n sorted values, counted from 0, as some harnesses take it.

    Returns
    -------
    One row per run and `phase`, or per run and `kind` of step ("(none)" where a step has none). `n`
    queries or steps with a time, `p50`, `p95`, `mean`, `caution` (one value carries the mean),
    `max` and `total` (their sum), NaN without any; 95 % order-statistic intervals `p50_low`,
    `p50_high`, `p95_low`, `p95_high` (NaN where n is too small for a bound: both bounds of a median
    take 6 times, of a p95 72). By phase `n_failed` queries, which are left out; by kind of step
    `n_untimed` steps.

    Raises
    ------
    DataError
        No response has a latency; by="hop" without hops; an unknown `by` or `method`.

    Examples
    --------
    >>> results.latency().query("phase == 'total'")[["run_id", "n", "p50", "p95"]]
    """
    check_type(results, Results, "results")
    if by is not None:
        check_choice(by, ("hop",), "by")
    check_choice(method, PERCENTILES, "method")
    percentiles = [f"{name}{bound}" for name in ("p50", "p95") for bound in ("", "_low", "_high")]
    columns = ["n", *percentiles, "mean", "caution", "max", "total"]
    if by == "hop":
        hops = _hops(results).fillna({"kind": NO_TYPE})
        table = _percentiles(hops["llm_call_ms"], [hops["run_id"], hops["kind"]], method)
        n_steps = hops.groupby(["run_id", "kind"], observed=True).size()
        return table[columns].assign(n_untimed=n_steps - table["n"]).reset_index()
    responses = results.responses
    phases = {"total": "elapsed_ms"} | {
        name.removeprefix("latency_").removesuffix("_ms"): name
        for name in map(str, responses.columns)
        if name.startswith("latency_")
    }
    failed = responses["error"].notna()
    timed = responses[~failed]
    parts = [
        _percentiles(timed[column].astype("float64"), [timed["run_id"]], method).assign(phase=phase)
        for phase, column in phases.items()
        if column in responses
    ]
    if not parts:
        raise DataError(
            "no response has a latency",
            field="responses",
            allowed="elapsed_ms or latency_<phase>_ms",
        )
    table = pd.concat(parts).rename_axis("run_id").reset_index()
    n_failed = failed.groupby(responses["run_id"], observed=False).sum()
    table["n_failed"] = table["run_id"].map(n_failed).astype("int64")
    table = table.sort_values("run_id", kind="stable", ignore_index=True)
    return table[["run_id", "phase", *columns, "n_failed"]]


def _percentiles(values: pd.Series, keys: list[pd.Series], method: str) -> pd.DataFrame:
    """Return n, mean, max, total and percentiles with their intervals, one row per group."""
    observed = (
        len(keys) > 1
    )  # a run without a time has a row, a kind of step that it lacks has none
    # sorted, so that sums don't depend on the order of rows
    order = np.argsort(values.to_numpy(), kind="stable")
    values, keys = values.iloc[order], [key.iloc[order] for key in keys]
    grouped = values.groupby(keys, observed=observed)
    n = grouped.count()
    table = pd.DataFrame(
        {"n": n, "mean": grouped.mean(), "max": grouped.max(), "total": grouped.sum(min_count=1)}
    )
    # Half of the spread around the mean is the part of one value: whether the next sample has such
    # a value is chance, and intervals of the mean are worthless.
    farthest = np.maximum(table["max"] - table["mean"], table["mean"] - grouped.min()) ** 2
    spread = grouped.var() * (n - 1)
    table["caution"] = (n > 2) & (spread > 0) & (farthest >= CARRIES * spread)
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        if method == "linear":
            table[name] = grouped.quantile(share)
        else:
            known = values.dropna().sort_values(kind="stable")
            own = [key[known.index] for key in keys]
            place = known.groupby(own, observed=observed).cumcount()
            size = known.groupby(own, observed=observed).transform("size")
            chosen = known[(place == np.floor(share * size)).to_numpy()]
            chosen = chosen.groupby([key[chosen.index] for key in keys], observed=observed).first()
            table[name] = chosen.reindex(n.index)
        bounds = {key: quantile_interval(own, share) for key, own in grouped}
        for side, bound in enumerate(("low", "high")):
            table[f"{name}_{bound}"] = [
                bounds.get(key if observed else (key,), (np.nan, np.nan))[side]
                for key in table.index
            ]
    return table


def errors(results: Results, golden: Golden | None = None) -> pd.DataFrame:
    """Count errors, time-outs and empty responses of each run, and add up tokens and cost.

    Parameters
    ----------
    golden
        With it, queries without a response are counted, whatever the reason.

    Returns
    -------
    One row per run: `n` responses, of them `n_failed`, `n_timeout` and
    `n_empty_response` (a blank answer without a stated refusal); `error_rate` and `timeout_rate`,
    of all responses; `empty_response_rate`, of those that were answered (not failed, with an answer
    field); with a golden set `n_missing` queries without a response and `missing_rate`, of all
    queries. Rates are 0 to 1, lower is better, NaN where there is nothing to divide by. Totals,
    NaN if never recorded: `prompt_tokens`, `completion_tokens`, `cost_usd` of the answers,
    `judge_tokens`, `judge_cost_usd` of the judges.

    Examples
    --------
    >>> results.errors(golden)[["run_id", "n", "n_failed", "n_missing"]]
    """
    check_type(results, Results, "results")
    responses = results.responses
    run, failed = responses["run_id"], responses["error"].notna()
    unknown = pd.Series(np.nan, index=responses.index)
    answer = responses.get("answer", unknown).astype("str")
    refused = responses.get("refused", unknown).astype("boolean").fillna(False).astype(bool)
    answered = answer.notna() & ~failed
    flags = pd.DataFrame(
        {
            "n": True,
            "n_failed": failed,
            "n_timeout": responses["error"].fillna("").astype(object).str.contains(TIMED_OUT),
            "n_empty_response": answered & (answer.str.strip() == "") & ~refused,
            "answered": answered,
        },
        index=responses.index,
    )
    table = flags.astype("int64").groupby(run, observed=False).sum()
    n_answered = table.pop("answered")
    table = table.assign(
        error_rate=table["n_failed"] / table["n"],
        timeout_rate=table["n_timeout"] / table["n"],
        empty_response_rate=table["n_empty_response"] / n_answered,
    )
    if golden is not None:
        check_type(golden, Golden, "golden")
        known = responses["query_id"].isin(golden.queries["query_id"])
        table["n_missing"] = len(golden.queries) - known.groupby(run, observed=False).sum()
        table["missing_rate"] = table["n_missing"] / len(golden.queries)
    for name in ("prompt_tokens", "completion_tokens", "cost_usd"):
        table[name] = _total(responses, name)
    judgments = results.judgments if results.judgments is not None else responses.iloc[:0]
    for name in ("tokens", "cost_usd"):
        table[f"judge_{name}"] = _total(judgments, name).reindex(table.index)
    return table.reset_index()


def _total(frame: pd.DataFrame, column: str) -> pd.Series:
    values = frame.get(column, pd.Series(np.nan, index=frame.index)).astype("float64")
    order = np.argsort(values.to_numpy(), kind="stable")  # sums don't depend on the order of rows
    return values.iloc[order].groupby(frame["run_id"].iloc[order], observed=False).sum(min_count=1)


def indexing(results: Results) -> pd.DataFrame:
    """Return how the index of each run was built, by type of document.

    The figures come from the record of indexing in the responses (`x_indexing_coverage.*`; the last
    one of a run stands), and from the chunk catalogue `results.chunks` where there is one.
    `results.documents` adds the documents without chunks.

    Returns
    -------
    One row per run and `doc_type`: "(all)" holds the record, the others are the types of the
    catalogue (that of `results.documents` first, then its own `doc_type`, then the ending of the
    path). `n_docs` processed and `n_without_chunks`; `coverage`, the share of documents that have a
    chunk (0 to 1, higher is better); `n_attempted`, `n_embedded` and `n_skipped` chunks,
    `skipped_rate`; `reasons` for skipping (JSON); `tokens_min`, `tokens_mean`, `tokens_p95`,
    `tokens_max` of a chunk; `chunker_version`, `index_version`. By type there are `n_docs` and
    `n_embedded`, and with `results.documents` also `n_without_chunks` and `coverage`: the catalogue
    alone knows only documents that have a chunk.

    Raises
    ------
    DataError
        There is neither a record nor a catalogue.

    Examples
    --------
    >>> from dataclasses import replace
    >>> chunks = results.hits[["chunk_id", "doc_id", "path"]].drop_duplicates("chunk_id")
    >>> replace(results, chunks=chunks).indexing()[["run_id", "doc_type", "n_docs"]]
    """
    check_type(results, Results, "results")
    recorded = [name for name in map(str, results.responses.columns) if name.startswith(COVERAGE)]
    if not recorded and results.chunks is None:
        raise DataError(
            "no record of indexing and no chunk catalogue",
            field="results",
            allowed="indexing_coverage in the responses, or chunks",
        )
    parts = [_from_record(results, recorded)] if recorded else []
    parts += [_from_catalogue(results)] if results.chunks is not None else []
    table = pd.concat(parts, ignore_index=True)
    order = pd.Categorical(
        table["run_id"].astype("str"), categories=results.runs["run_id"].astype("str").tolist()
    )
    places = np.lexsort((table["doc_type"] != ALL_TYPES, order.codes))
    return table.iloc[places].reset_index(drop=True)


def _from_record(results: Results, columns: list[str]) -> pd.DataFrame:
    """One row per run, from the last record of indexing among its responses."""
    last = results.responses[["run_id", *columns]].groupby("run_id", observed=False).last()
    record = last.rename(columns=lambda name: name.removeprefix(COVERAGE))
    unknown = pd.Series(np.nan, index=record.index)

    def number(name: str) -> pd.Series:
        return record.get(name, unknown).astype("float64")

    # why chunks were skipped, as JSON {reason: count}
    columns = [name for name in map(str, record.columns) if name.startswith(SKIPPED)]
    names = {name: name.removeprefix(SKIPPED).removesuffix(".json") for name in columns}
    counts = [
        {names[str(name)]: n for name, n in row.items() if not pd.isna(n)}
        for row in record[columns].to_dict("records")  # one row per run
    ]
    texts = [json.dumps(row, ensure_ascii=False, default=str) if row else None for row in counts]
    table = {
        "doc_type": ALL_TYPES,
        "n_docs": number("docs_processed"),
        "n_without_chunks": number("docs_with_0_chunks"),
        "coverage": 1 - number("docs_with_0_chunks") / number("docs_processed"),
        "n_attempted": number("chunks_attempted"),
        "n_embedded": number("chunks_embedded"),
        "n_skipped": number("chunks_skipped"),
        "skipped_rate": number("chunks_skipped") / number("chunks_attempted"),
        "reasons": pd.Series(texts, index=record.index, dtype="str"),
    }
    for name in ("min", "mean", "p95", "max"):
        table[f"tokens_{name}"] = number(f"chunk_token_stats.{name}")
    for name in ("chunker_version", "index_version"):
        table[name] = record.get(name, unknown).astype("str")
    return pd.DataFrame(table).rename_axis("run_id").reset_index().astype({"run_id": "str"})


def _from_catalogue(results: Results) -> pd.DataFrame:
    """One row per run and type of document, from the catalogue of its chunks."""
    chunks, known = _listed(results.chunks, results), _listed(results.documents, results)
    # A chunk without doc_id belongs to the document of its path, and is of that document's type.
    by_path = known.dropna(subset=["path"]).drop_duplicates(["run_id", "path"])
    chunks = chunks.merge(
        by_path[["run_id", "path", "document"]],
        on=["run_id", "path"],
        how="left",
        suffixes=("", "_known"),
    )
    has_no_id = chunks["document"].eq(chunks["path"])
    chunks["document"] = chunks["document"].mask(
        has_no_id, chunks["document_known"].fillna(chunks["document"])
    )
    types = known.dropna(subset=["document"]).drop_duplicates(["run_id", "document"])
    rows = chunks.merge(
        types[["run_id", "document", "doc_type"]],
        on=["run_id", "document"],
        how="outer",  # documents without a chunk, too
        suffixes=("_own", ""),
        indicator=True,
    )
    has_chunk = rows["_merge"].ne("right_only").to_numpy()
    rows = rows.assign(
        doc_type=rows["doc_type"].fillna(rows["doc_type_own"]).fillna(NO_TYPE),
        n_embedded=has_chunk.astype("float64"),
        without=(~has_chunk).astype("float64"),
    )
    table = rows.groupby(["run_id", "doc_type"]).agg(
        n_docs=("document", "nunique"),
        n_without_chunks=("without", "sum"),
        n_embedded=("n_embedded", "sum"),
    )
    table = table.astype("float64").reset_index()
    table["n_without_chunks"] = table["n_without_chunks"].where(
        table["run_id"].isin(known["run_id"])
    )
    return table.assign(
        coverage=1 - table["n_without_chunks"] / table["n_docs"].where(table["n_docs"] > 0)
    )


def _listed(frame: pd.DataFrame | None, results: Results) -> pd.DataFrame:
    """Return run_id, document, path and doc_type of each run's chunks or documents.

    Those without a run belong to every run.
    """
    frame = pd.DataFrame() if frame is None else frame
    unknown = pd.Series(pd.NA, index=frame.index, dtype="str")
    path = frame.get("path", unknown)
    ending = path.astype("str").str.extract(r"\.(\w+)$")[0].str.lower()
    listed = pd.DataFrame(
        {
            "run_id": frame.get("run_id", unknown).astype("str"),
            "document": frame.get("doc_id", path).fillna(path),
            "path": path,
            "doc_type": frame.get("doc_type", unknown).fillna(ending),
        }
    )
    shared = listed[listed["run_id"].isna()].drop(columns="run_id")
    of_runs = [
        shared.assign(run_id=str(run_id)) for run_id in results.runs["run_id"] if len(shared)
    ]
    return pd.concat([listed.dropna(subset=["run_id"]), *of_runs], ignore_index=True)


def traces(results: Results) -> pd.DataFrame:
    """Return what was read of the traces of each run.

    What was left out, and the argument that would take it, is in `results.problems`.

    Returns
    -------
    One row per run: `n_traces`, of which `n_turns` belong to `n_sessions`; their `n_spans`, of
    which `n_orphans` name a parent that is not there; `n_calls`, of which `n_empty` returned
    nothing, and `n_documents` that the others returned; traces without a question
    (`n_without_query`) and without a call (`n_without_calls`).

    Raises
    ------
    DataError
        The results are not of traces.

    Examples
    --------
    >>> rs.load_results("spans.jsonl").traces()
    """
    responses = results.responses
    if "x_n_spans" not in responses:
        raise DataError("no traces", field="responses", allowed="results that were read of spans")
    columns = ["run_id", "query_id", "query", "conversation", "turn", "x_n_spans", "x_n_orphans"]
    of_run = responses.reindex(columns=columns).groupby("run_id", observed=False)
    calls = pd.DataFrame(columns=["run_id", "query_id", "n_hits"])
    if results.calls is not None:
        calls = results.calls[calls.columns].assign(run_id=results.calls["run_id"].astype("str"))
    calls = calls.assign(is_empty=calls["n_hits"].eq(0))
    searched = calls.groupby("run_id")
    table = pd.DataFrame(
        {
            "n_traces": of_run.size(), "n_sessions": of_run["conversation"].nunique(),
            "n_turns": of_run["turn"].count(), "n_spans": of_run["x_n_spans"].sum(),
            "n_orphans": of_run["x_n_orphans"].sum(), "n_calls": searched.size(),
            "n_empty": searched["is_empty"].sum(), "n_documents": searched["n_hits"].sum(),
            "n_without_query": of_run.size() - of_run["query"].count(),
            "n_without_calls": of_run.size() - searched["query_id"].nunique(),
        },
        index=of_run.size().index,
    )  # fmt: skip
    without = {"n_without_calls": table["n_traces"]}
    return table.fillna(without).fillna(0).astype("int64").reset_index()


def hops_summary(results: Results, *, per_query: bool = False) -> pd.DataFrame:
    """Return the figures of each run's multi-hop answers, or those of each answer.

    Returns
    -------
    One row per run: `n_queries` with hops and their `share` of all responses; `hops_mean`,
    `hops_max` per query; `n_forced` searches that a limit ended, and `forced_rate` of those that
    say (0 to 1, lower is better); `query_ms_p50`, `query_ms_p95`, time in the model per query (ms).
    NaN where no step says. A run without hops has n = 0.

    With `per_query`, one row per run and query with hops: `n_hops`; `chunks_added`, new chunks over
    all steps (NA if no step says); `forced_stop`, 1 if a limit ended the search, 0 if not, NaN if
    no step says; `llm_call_ms`, over the timed steps (NaN if none is) and `n_timed`, their number.

    Raises
    ------
    DataError
        The results hold no hops.

    Examples
    --------
    >>> from dataclasses import replace
    >>> steps = results.responses[["run_id", "query_id"]].assign(call=1, kind="search")
    >>> replace(results, calls=steps).hops_summary()[["run_id", "n_queries", "hops_mean"]]
    """
    steps = _hops(results).groupby(["run_id", "query_id"], observed=True, sort=False)
    queries = pd.DataFrame(
        {
            "n_hops": steps.size(),
            "chunks_added": steps["chunks_added"].sum(min_count=1),
            "forced_stop": steps["forced_stop"].max(),
            "llm_call_ms": steps["llm_call_ms"].sum(min_count=1),
            "n_timed": steps["llm_call_ms"].count(),
        }
    ).reset_index()
    if per_query:
        return queries
    grouped = queries.groupby("run_id", observed=False)
    n_responses = results.responses.groupby("run_id", observed=False).size()
    n_queries, time = grouped.size(), grouped["llm_call_ms"]
    return pd.DataFrame(
        {
            "n_queries": n_queries,
            "share": n_queries.astype("float64")
            / n_responses.astype("float64").replace(0.0, np.nan),
            "hops_mean": grouped["n_hops"].mean(),
            "hops_max": grouped["n_hops"].max().astype("Int64"),
            "n_forced": grouped["forced_stop"].sum().astype("int64"),
            "forced_rate": grouped["forced_stop"].mean(),
            "query_ms_p50": time.quantile(0.5),
            "query_ms_p95": time.quantile(0.95),
        }
    ).reset_index()


def verification(results: Results) -> pd.DataFrame:
    """Return how often answers passed the check of their claims against their sources.

    The system itself did the check, by natural-language inference.

    Returns
    -------
    One row per run: `n` verified answers, `pass_rate` of them (0 to 1, higher is better),
    `score_mean` of the entailment score; NaN in a run without verified answers.

    Examples
    --------
    >>> results.verification()[["run_id", "n", "pass_rate"]]
    """
    responses = results.responses
    unknown = pd.Series(np.nan, index=responses.index)
    passed = responses.get(PASSED, unknown).astype("boolean").astype("Float64").astype("float64")
    score = responses.get(SCORE, unknown).astype("float64")
    rows = pd.DataFrame({"run_id": responses["run_id"], "passed": passed, "score": score})
    rows = rows.sort_values("score")  # sums don't depend on the order of rows
    grouped = rows.groupby("run_id", observed=False)
    return pd.DataFrame(
        {
            "n": grouped["passed"].count(),
            "pass_rate": grouped["passed"].mean(),
            "score_mean": grouped["score"].mean(),
        }
    ).reset_index()


def _hops(results: Results) -> pd.DataFrame:
    """Return the hops frame with all its columns, numbers as float64.

    A recorded duration of 0 means that nothing was timed.
    """
    if results.hops is None:
        raise DataError(
            "these results hold no calls",
            field="results.calls",
            allowed="a run whose answers have `hops`, a trace, or Results(..., calls=frame)",
        )
    frame = results.hops
    unknown = pd.Series(np.nan, index=frame.index)
    time = frame.get("llm_call_ms", unknown).astype("Float64").astype("float64")
    forced = frame.get("forced_stop", unknown).astype("boolean").astype("Float64")
    return pd.DataFrame(
        {
            "run_id": frame["run_id"],
            "query_id": frame["query_id"],
            "kind": frame.get("kind", unknown).astype("str"),
            "chunks_added": frame.get("chunks_added", unknown).astype("Int64"),
            "forced_stop": forced.astype("float64"),
            "llm_call_ms": time.mask(time == 0),
        }
    )

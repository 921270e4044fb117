"""How a system behaves beside being right.

Refusals, latency, errors and cost, and how its index was built.

In: `Results`, and a golden set where needed. Out: figures per run that are not means of a column.

Multi-hop answers.

How many steps they took, how often they were cut short, how long they took, what the check of their
claims said.

In: `Results` with a hops frame (the reader of run files fills it from `answer.hops`). Out: one row
per query, per run, or per run and kind of step.
"""

import json
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import has_pair, is_among
from ragscore.frames.data import DataError, Golden, Results, check_inputs, check_type
from ragscore.scoring.answers import is_timeout, score_answers
from ragscore.stats import quantile_interval

PERCENTILES = ("linear", "floor")
ERRORS = ("exclude", "include")
COVERAGE = "x_indexing_coverage."
ALL_TYPES, NO_TYPE = "(all)", "(none)"


def refusal_report(results: Results, golden: Golden) -> pd.DataFrame:
    """Refusal as a detector of the questions that should be refused.

    Returns
    -------
    One row per run (index run_id): `precision` (due refusals / refusals), `recall` (due refusals /
    questions that should be refused), `f1`, `accuracy` (rightly refused or answered / all), 0 to 1,
    higher is better, NaN where there is nothing to divide by; `n` responses that are decided, of
    them `n_refused_due`, `n_refused_answerable`, `n_answered_due`, `n_answered_answerable`;
    `n_undecided`: failed, or the system doesn't say, or the question is unlabelled.
    """
    check_inputs(results, golden)
    scores = score_answers(results, golden)
    of_run = scores[["refusal_correct", "false_refusal"]].groupby(scores["run_id"], observed=False)
    counts, sums = of_run.count(), of_run.sum()
    due, wrong = sums["refusal_correct"], sums["false_refusal"]
    missed, answered = counts["refusal_correct"] - due, counts["false_refusal"] - wrong
    n = counts.sum(axis=1)
    table = pd.DataFrame({
        "precision": due / (due + wrong), "recall": due / (due + missed),
        "f1": 2 * due / (2 * due + wrong + missed), "accuracy": (due + answered) / n, "n": n,
        "n_refused_due": due, "n_refused_answerable": wrong, "n_answered_due": missed,
        "n_answered_answerable": answered,
        "n_undecided": scores.groupby("run_id", observed=False).size() - n,
    })  # fmt: skip
    return table.astype(
        {name: "int64" for name in table.columns if name == "n" or name.startswith("n_")}
    )


def latency_report(
    results: Results, *, method: str = "linear", errors: str = "exclude"
) -> pd.DataFrame:
    """Latency of each run and phase, in milliseconds.

    Parameters
    ----------
    method
        Of the percentiles: "linear" interpolation, or "floor": of n sorted values the one at
        position floor(share · n), counted from 0, as some harnesses take it.
    errors
        "exclude" leaves failed queries out, "include" counts their time.

    Returns
    -------
    One row per run and phase (`total`, then each `latency_<phase>_ms` that was recorded): `n`
    queries with a time, `mean`, `p50`, `p95`, `max`, `total` (their sum), lower is better, NaN
    without any; 95 % order-statistic intervals `p50_low`, `p50_high`, `p95_low`, `p95_high` (NaN
    where n is too small for a bound: both of a median take 6 times, of a p95 72); `n_failed`
    queries left out or counted in.
    """
    check_type(results, Results, "results")
    _check("method", method, PERCENTILES)
    _check("errors", errors, ERRORS)
    responses = results.responses
    phases = {"total": "elapsed_ms"} | {
        name.removeprefix("latency_").removesuffix("_ms"): name
        for name in map(str, responses.columns)
        if name.startswith("latency_")
    }
    failed = responses["error"].notna()
    kept = responses if errors == "include" else responses[~failed]
    parts = [
        _percentiles(kept, column, method).assign(phase=phase)
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
    table["n_failed"] = (
        table["run_id"]
        .map(failed.groupby(responses["run_id"], observed=False).sum())
        .astype("int64")
    )
    run_order = (
        table["run_id"].cat.codes
        if isinstance(table["run_id"].dtype, pd.CategoricalDtype)
        else table["run_id"]
    )
    table = table.iloc[np.argsort(run_order.to_numpy(), kind="stable")].reset_index(drop=True)
    return table[
        [
            "run_id",
            "phase",
            "n",
            "mean",
            "p50",
            "p50_low",
            "p50_high",
            "p95",
            "p95_low",
            "p95_high",
            "max",
            "total",
            "n_failed",
        ]
    ]


def _percentiles(responses: pd.DataFrame, column: str, method: str) -> pd.DataFrame:
    values = responses[column].astype("float64")
    of_run = values.groupby(responses["run_id"], observed=False)
    n = of_run.count()
    table = pd.DataFrame(
        {"n": n, "mean": of_run.mean(), "max": of_run.max(), "total": of_run.sum(min_count=1)}
    )
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        table[name] = (
            of_run.quantile(share)
            if method == "linear"
            else _at_floor(responses.assign(value=values), n, share)
        )
        bounds = {run_id: quantile_interval(own, share) for run_id, own in of_run}
        table[f"{name}_low"], table[f"{name}_high"] = (
            [bounds.get(run_id, (np.nan, np.nan))[side] for run_id in table.index]
            for side in (0, 1)
        )
    return table


def _at_floor(responses: pd.DataFrame, n: pd.Series, share: float) -> pd.Series:
    """The value at position floor(share · n) of each run's sorted values."""
    known = responses.dropna(subset=["value"]).sort_values("value", kind="stable")
    place = known.groupby("run_id", observed=False).cumcount()
    wanted = np.floor(share * known["run_id"].map(n).astype("float64"))
    chosen = known[(place == wanted).to_numpy()]
    return pd.Series(
        chosen["value"].to_numpy(), index=chosen["run_id"].astype(n.index.dtype)
    ).reindex(n.index)


def error_report(results: Results, golden: Golden | None = None) -> pd.DataFrame:
    """Errors, time-outs and empty responses of each run, and what its judges and tokens cost.

    Parameters
    ----------
    golden
        With it, questions that were never answered are counted, whatever became of them.

    Returns
    -------
    One row per run (index run_id): `n` responses, of them `n_failed`, `n_timeout` and
    `n_empty_response` (a blank answer without a stated refusal); `error_rate` and `timeout_rate`,
    of all responses; `empty_response_rate`, of those that were answered (not failed, with an answer
    field); with a golden set `n_missing` questions without a response and `missing_rate`, of all
    questions. Rates are 0 to 1, lower is better, NaN where there is nothing to divide by. Totals,
    NaN if never recorded: `prompt_tokens`, `completion_tokens`, `cost_usd` of the answers,
    `judge_tokens`, `judge_cost_usd` of the judges.
    """
    check_type(results, Results, "results")
    responses = results.responses
    run = responses["run_id"]
    failed, timed_out = (
        responses["error"].notna(),
        pd.Series(is_timeout(responses["error"]), index=responses.index),
    )
    answer = (
        responses["answer"]
        if "answer" in responses
        else pd.Series(pd.NA, index=responses.index, dtype="str")
    )
    refused = (
        responses["refused"].fillna(False).astype(bool)
        if "refused" in responses
        else pd.Series(False, index=responses.index)
    )
    answered = answer.notna() & ~failed
    flags = pd.DataFrame(
        {
            "n_failed": failed,
            "n_timeout": timed_out,
            "n_empty_response": answered & (answer.str.strip() == "") & ~refused,
            "answered": answered,
        }
    )
    table = flags.astype("int64").groupby(run, observed=False).sum()
    table.insert(0, "n", run.groupby(run, observed=False).size())
    n_answered = table.pop("answered")
    table["error_rate"], table["timeout_rate"] = (
        table["n_failed"] / table["n"],
        table["n_timeout"] / table["n"],
    )
    table["empty_response_rate"] = table["n_empty_response"] / n_answered
    if golden is not None:
        check_type(golden, Golden, "golden")
        known = responses["query_id"].isin(golden.queries["query_id"])
        table["n_missing"] = len(golden.queries) - known.groupby(run, observed=False).sum()
        table["missing_rate"] = table["n_missing"] / len(golden.queries)
    for name in ("prompt_tokens", "completion_tokens", "cost_usd"):
        table[name] = _total(responses, name)
    judged = results.judgments if results.judgments is not None else responses.iloc[:0]
    table["judge_tokens"], table["judge_cost_usd"] = (
        _total(judged, name).reindex(table.index) for name in ("tokens", "cost_usd")
    )
    return table


def _total(frame: pd.DataFrame, column: str) -> pd.Series:
    values = (
        frame[column].astype("float64") if column in frame else pd.Series(np.nan, index=frame.index)
    )
    return values.groupby(frame["run_id"], observed=False).sum(min_count=1)


def indexing_report(results: Results) -> pd.DataFrame:
    """How the index of each run was built.

    Documents without chunks, chunks skipped, their length, by type of document.

    Read from the record of indexing that came with the responses (`x_indexing_coverage.*`; the last
    one of a run stands), and from the chunk catalogue `results.chunks` where there is one;
    `results.documents` tells it of documents without chunks.

    Returns
    -------
    One row per run and `doc_type`: "(all)" is what the record says, the others are the types of the
    catalogue (its `doc_type`, else the ending of the path; that of `results.documents` first).
    `n_docs` processed and `n_without_chunks`; `coverage`, the share of documents that have a chunk
    (0 to 1, higher is better); `n_attempted`, `n_embedded` and `n_skipped` chunks, `skipped_rate`;
    `reasons` for skipping (JSON); `tokens_min`, `tokens_mean`, `tokens_p95`, `tokens_max` of a
    chunk; `chunker_version`, `index_version`. By type there are `n_docs` and `n_embedded`, and with
    `results.documents` also `n_without_chunks` and `coverage`: the catalogue alone knows only
    documents that have a chunk.

    Raises
    ------
    DataError
        There is neither a record nor a catalogue.
    """
    check_type(results, Results, "results")
    recorded = any(name.startswith(COVERAGE) for name in map(str, results.responses.columns))
    if not recorded and results.chunks is None:
        raise DataError(
            "no record of indexing and no chunk catalogue",
            field="results",
            allowed="indexing_coverage in the responses, or chunks",
        )
    parts = [_recorded(results)] if recorded else []
    table = pd.concat(
        [*parts, *([_catalogued(results)] if results.chunks is not None else [])], ignore_index=True
    )
    order = pd.Categorical(
        table["run_id"].astype("str"), categories=results.runs["run_id"].astype("str").tolist()
    )
    return table.iloc[np.lexsort((table["doc_type"] != ALL_TYPES, order.codes))].reset_index(
        drop=True
    )


def _recorded(results: Results) -> pd.DataFrame:
    """One row per run, from the last record of indexing among its responses."""
    columns = [name for name in map(str, results.responses.columns) if name.startswith(COVERAGE)]
    last = results.responses[["run_id", *columns]].groupby("run_id", observed=False).last()
    said = last.rename(columns=lambda name: name.removeprefix(COVERAGE))

    def of(name: str) -> pd.Series:
        return said[name].astype("float64") if name in said else pd.Series(np.nan, index=said.index)

    table = pd.DataFrame({
        "doc_type": ALL_TYPES, "n_docs": of("docs_processed"),
        "n_without_chunks": of("docs_with_0_chunks"),
        "coverage": 1 - of("docs_with_0_chunks") / of("docs_processed"),
        "n_attempted": of("chunks_attempted"), "n_embedded": of("chunks_embedded"),
        "n_skipped": of("chunks_skipped"),
        "skipped_rate": of("chunks_skipped") / of("chunks_attempted"), "reasons": _reasons(said),
        **{f"tokens_{name}": of(f"chunk_token_stats.{name}") for name in ("min", "mean", "p95", "max")},
        **{name: said[name].astype("str") if name in said else pd.Series(pd.NA, index=said.index, dtype="str") for name in ("chunker_version", "index_version")},
    })  # fmt: skip
    return table.rename_axis("run_id").reset_index().astype({"run_id": "str"})


def _reasons(said: pd.DataFrame) -> pd.Series:
    """Why chunks were skipped, as JSON {reason: count}; NA where nothing was said."""
    names = [name for name in map(str, said.columns) if name.startswith("chunks_skipped_reasons.")]
    texts: list[Any] = []
    for row in said[names].to_dict("records"):  # one row per run
        counts = {
            str(name).removeprefix("chunks_skipped_reasons.").removesuffix(".json"): value
            for name, value in row.items()
            if not pd.isna(value)
        }
        texts.append(json.dumps(counts, ensure_ascii=False, default=str) if counts else None)
    return pd.Series(texts, index=said.index, dtype="str")


def _catalogued(results: Results) -> pd.DataFrame:
    """Documents and chunks of each run's catalogue, by type of document."""
    chunks = _listed(results.chunks, results)
    known = _listed(results.documents, results)
    # A chunk without doc_id belongs to the document of its path, and is of that document's type.
    by_path = known.dropna(subset=["path"]).drop_duplicates(["run_id", "path"])[
        ["run_id", "path", "document"]
    ]
    named = chunks.merge(by_path, on=["run_id", "path"], how="left", suffixes=("", "_known"))
    chunks = named.assign(
        document=named["document"].mask(
            named["document"].eq(named["path"]), named["document_known"].fillna(named["document"])
        )
    )
    types = known.dropna(subset=["document"]).drop_duplicates(["run_id", "document"])[
        ["run_id", "document", "doc_type"]
    ]
    typed = chunks.merge(types, on=["run_id", "document"], how="left", suffixes=("_own", ""))
    chunks = typed.assign(
        doc_type=typed["doc_type"].fillna(typed["doc_type_own"]).fillna(NO_TYPE),
        n_embedded=1.0,
        without=0.0,
    )
    bare = types[~has_pair(types, chunks, ("run_id", "document"))].assign(
        n_embedded=0.0, without=1.0
    )
    rows = pd.concat(
        [chunks, bare.assign(doc_type=bare["doc_type"].fillna(NO_TYPE))], ignore_index=True
    )
    counted = rows.groupby(["run_id", "doc_type"]).agg(
        n_docs=("document", "nunique"),
        n_without_chunks=("without", "sum"),
        n_embedded=("n_embedded", "sum"),
    )
    table = counted.astype("float64").reset_index()
    table["n_without_chunks"] = table["n_without_chunks"].where(
        is_among(table["run_id"], known["run_id"])
    )
    return table.assign(
        coverage=1 - table["n_without_chunks"] / table["n_docs"].where(table["n_docs"] > 0)
    )


def _listed(frame: pd.DataFrame | None, results: Results) -> pd.DataFrame:
    """Chunks or documents of each run.

    Run_id, document, path, doc_type; shared ones belong to every run.
    """
    frame = pd.DataFrame() if frame is None else frame
    blank = pd.Series(pd.NA, index=frame.index, dtype="str")
    path = frame.get("path", blank)
    ending = path.astype("str").str.extract(r"\.(\w+)$")[0].str.lower()
    document = frame["doc_id"].fillna(path) if "doc_id" in frame else path
    own = frame["run_id"].astype("str") if "run_id" in frame else blank
    listed = pd.DataFrame(
        {
            "run_id": own,
            "document": document,
            "path": path,
            "doc_type": frame.get("doc_type", blank).fillna(ending),
        }
    )
    shared = listed[listed["run_id"].isna()].drop(columns="run_id")
    return pd.concat(
        [
            listed.dropna(subset=["run_id"]),
            *(
                shared.assign(run_id=str(run_id))
                for run_id in results.runs["run_id"]
                if len(shared)
            ),
        ],
        ignore_index=True,
    )


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise DataError(f"found {value!r}", field=name, allowed=f"one of {', '.join(allowed)}")


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

"""Refusals, failures, time and cost; and success of any kind of query: `found` and `passed`."""

import re
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.typing import Flags, Values
from ragscore.scoring.metrics.declaration import Family
from ragscore.scoring.metrics.needs import (
    ANSWERABLE,
    EXPECTATIONS,
    FINDINGS,
    TARGETS,
    UNANSWERABLE,
    texts_only,
    with_check,
)

TIMED_OUT = re.compile(r"time[ds]?[\s_-]*out|deadline exceeded", re.IGNORECASE)
FORBIDDEN = "forbidden_source_key"
BAD_BELOW = 3.0  # points of judge_correctness below which an answer is wrong
refusals = Family("refusals", kind="binary", where="decided", reads="responses.refused")


@refusals(
    "refusal_correct",
    "1 if the system refused",
    needs=(UNANSWERABLE,),
    also="kebab refusal_correctness",
)
def refusal_correct(rows: Any) -> Values:
    return rows.refused


@refusals(
    "answered_unanswerable",
    "1 if the system answered what it should have refused",
    needs=(UNANSWERABLE,),
    better="lower",
)
def answered_unanswerable(rows: Any) -> Values:
    return 1 - rows.refused


@refusals(
    "false_refusal",
    "1 if the system refused an answerable query",
    needs=(ANSWERABLE,),
    better="lower",
)
def false_refusal(rows: Any) -> Values:
    return rows.refused


success = Family("success", kind="binary", where="rows")


@success(
    "found",
    "1 if retrieval gave what the query asks for: a target hit within the run's k; no hit where"
    " expected_empty; no forbidden source; a refusal where one is due",
    needs=(FINDINGS,),
    default=False,
)
def found(rows: Any) -> Values:
    refused = rows.values("refusal_correct")
    expects_none, forbids = (
        rows.of_query(with_check(rows.golden, kind)) for kind in ("expected_empty", FORBIDDEN)
    )
    has_target = rows.of_query(rows.meets(TARGETS))
    first = rows.by_level(lambda hits: hits.first_rank)
    is_near = np.isfinite(first) & (first <= rows.run_k[rows.run])
    result = np.select(
        [expects_none, forbids, ~np.isnan(refused)],
        [rows.n_hits == 0, ~has_forbidden_source(rows), refused],
        np.where(has_target, is_near, np.nan),
    )
    result = np.where(rows.has_outcome, rows.outcomes["passed"], result)
    return np.where(~rows.finished & (~np.isnan(result) | has_target), 0.0, result)


@success(
    "passed",
    "1 if found is 1 and the answer, where there is one, is neither a false refusal nor blank, has"
    " answer_checks 1 if it has any, and isn't judged bad (judge_correctness below 3); where only"
    " texts are expected of the answer, answer_checks alone counts in the place of found",
    needs=(EXPECTATIONS,),
    version=2,
)
def passed(rows: Any) -> Values:
    by_text = rows.of_query(texts_only(rows.golden))
    checks, refused = rows.values("answer_checks"), rows.values("false_refusal")
    value = np.where(by_text, checks, rows.values("found"))
    is_blank = (rows.values("empty_response") == 1) & (refused == 0)
    wrong = (refused == 1) | is_blank | (checks == 0)
    wrong |= (rows.values("judge_correctness") < BAD_BELOW) & ~rows.should_refuse
    applies = by_text | ~np.isnan(rows.values("found")) | rows.of_query(rows.meets(TARGETS))
    return np.where((~rows.finished | wrong) & applies, 0.0, value)


def has_forbidden_source(rows: Any) -> Flags:
    """Flag rows with a hit, within the run's k, whose source key holds a forbidden token."""
    checks, hits = rows.golden.checks, rows.results.hits
    if "source_key" not in hits or not with_check(rows.golden, FORBIDDEN).any():
        return np.zeros(rows.n, dtype=bool)
    tokens = checks.loc[checks["kind"].eq(FORBIDDEN), ["query_id", "text"]]
    near = hits[["query_id", "source_key", "rank"]].assign(row=rows.row_of_hit).dropna()
    near = near[near["rank"].to_numpy() <= rows.run_k[rows.run[near["row"]]]].merge(tokens)
    keys, tokens = near["source_key"].str.lower(), near["text"].str.lower()
    holds = [token in key for key, token in zip(keys, tokens, strict=True)]
    return np.isin(np.arange(rows.n), near.loc[holds, "row"])


operation = Family("operations", kind="binary", better="lower", where="finished")
always: dict[str, Any] = {"where": "asked"}
time: dict[str, Any] = {
    "kind": "time",
    "bounds": (0.0, np.inf),
    "unit": "ms",
    "reads": "responses.elapsed_ms",
}


@operation(
    "empty_response",
    "1 if the answer is blank and the system doesn't say that it refused",
    where="answered",
    reads="responses.answer",
)
def empty_response(rows: Any) -> Values:
    return rows.blank & (rows.numbers("refused") != 1)


@operation("timeout", "1 if the query ended in an error that says that time ran out", **always)
def timeout(rows: Any) -> Values:
    return rows.column("error").fillna("").str.contains(TIMED_OUT).to_numpy("float64")


@operation(
    "empty_all",
    "as empty, failed queries included",
    also="kebab empty_result_rate",
    default=False,
    **always,
)
@operation("empty", "1 if the query got no hit")
def empty(rows: Any) -> Values:
    return (rows.n_hits == 0) & ~rows.has_outcome


@operation("failed", "1 if the query ended in an error", **always)
def failed(rows: Any) -> Values:
    return rows.failed


@operation(
    "latency_ms_all", "as latency_ms, failed queries included", default=False, **time | always
)
@operation("latency_ms", "elapsed time of search and answer", **time)
def latency_ms(rows: Any) -> Values:
    return rows.numbers("elapsed_ms")


@operation(
    "cost_usd",
    "money spent on the query",
    kind="cost",
    bounds=(0.0, np.inf),
    unit="US dollars",
    reads="responses.cost_usd",
    default=False,
)
def cost_usd(rows: Any) -> Values:
    return rows.numbers("cost_usd")


counted: dict[str, Any] = {"kind": "other", "better": "not declared", "bounds": (0.0, np.inf)}


@operation("n_calls", "searches made for the query", default=False, **counted, reads="hits.call")
def n_calls(rows: Any) -> Values:
    return np.where(rows.of_runs_with(rows.n_calls > 0), rows.n_calls, np.nan)


@operation(
    "n_documents",
    "different documents among the hits; hits, where they name no document",
    default=False,
    **counted,
)
def n_documents(rows: Any) -> Values:
    hits = rows.results.hits
    if "doc_id" not in hits or not hits["doc_id"].notna().any():
        return rows.n_hits
    found = pd.DataFrame({"row": rows.row_of_hit, "doc": hits["doc_id"].to_numpy()})
    return rows.count(found.drop_duplicates()["row"].to_numpy())

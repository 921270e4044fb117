"""Refusals, scope, failures, time and cost: what the system did, and `passed`."""

from typing import Any

import numpy as np

from ragscore.frames.typing import Values
from ragscore.scoring.metrics.family import Family
from ragscore.scoring.metrics.needs import (
    ANCHORS,
    ANSWERABLE,
    ANSWERS,
    COSTS,
    DUE_REFUSALS,
    EXPECTATIONS,
    FINDINGS,
    FOLDERS,
    HITS,
    REFUSALS,
    RESPONSES,
    SCOPES,
    TEXT_ANSWERS,
    TIMES,
    UNANSWERABLE,
)

success = Family(
    "success", excuses=False, reads_matches=True, kind="binary", partly=(DUE_REFUSALS,)
)
success(
    "found",
    "1 if retrieval gave what the query asks for: a target hit within the run's k; no hit where"
    " expected_empty; no forbidden source; a refusal where one is due",
    needs=(FINDINGS, RESPONSES), default=False, fields=("responses.refused", "hits.text"),
)(None)  # fmt: skip
success(
    "passed",
    "1 if found is 1 and the answer, where there is one, is neither a false refusal nor blank, has"
    " answer_checks 1 if it has any, and isn't judged bad (judge_correctness below 3); where only"
    " texts are expected of the answer, answer_checks alone counts in the place of found",
    needs=(EXPECTATIONS, RESPONSES), partly=(DUE_REFUSALS, TEXT_ANSWERS), aspect="passed",
    fields=("responses.refused", "hits.text", "responses.answer", "judgments.judge_correctness"),
    version=2,
)(None)  # fmt: skip

refusals = Family("refusals", kind="binary", where="decided", excuses=False, aspect="refusals")


@refusals(
    "refusal_correct", "1 if the system refused", needs=(UNANSWERABLE, REFUSALS), aspect="",
    also="kebab refusal_correctness",
)  # fmt: skip
def refusal_correct(facts: Any) -> Values:
    return facts.if_refusal_is_due(facts.refused)


@refusals(
    "answered_unanswerable", "1 if the system answered what it should have refused",
    needs=(UNANSWERABLE, REFUSALS), better="lower",
)  # fmt: skip
def answered_unanswerable(facts: Any) -> Values:
    return facts.if_refusal_is_due(1 - facts.refused)


@refusals(
    "false_refusal", "1 if the system refused an answerable query", needs=(ANSWERABLE, REFUSALS),
    better="lower",
)  # fmt: skip
def false_refusal(facts: Any) -> Values:
    return facts.if_answer_is_due(facts.refused)


scope = Family("scope", kind="binary", better="lower", where="finished", on_failure="left_out")


@scope(
    "scope_miss",
    "1 if none of the folders that the system chose to search holds, or lies in, a folder of the"
    " query (else a file of its anchors)",
    needs=(FOLDERS, SCOPES),
)  # fmt: skip
def scope_miss(facts: Any) -> Values:
    return facts.scope_miss


@scope(
    "scope_miss_proxy",
    "1 if no hit at all meets an anchor, in a folder mode that chooses folders: a weak stand-in for"
    " scope_miss",
    needs=(ANCHORS, HITS), reads_matches=True, fields=("hits.text",), default=False,
    also="the chatbot harness's scope_miss", otherwise="the folder mode is off or unknown",
)  # fmt: skip
def scope_miss_proxy(facts: Any) -> Values:
    return facts.scope_miss_proxy


operation = Family(
    "operations", kind="binary", better="lower", excuses=False, needs=(RESPONSES,),
    where="finished", on_failure="left_out",
)  # fmt: skip
always = {"where": "asked", "on_failure": "measured"}
time = {"kind": "time", "bounds": (0.0, np.inf), "unit": "ms", "needs": (TIMES,)}


@operation(
    "empty_response", "1 if the answer is blank and the system doesn't say that it refused",
    needs=(ANSWERS,), where="answered", fields=("responses.refused",),
)  # fmt: skip
def empty_response(facts: Any) -> Values:
    return facts.blank & (facts.stated_refusal != 1)


@operation("timeout", "1 if the query ended in an error that says that time ran out", **always)
def timeout(facts: Any) -> Values:
    return facts.timed_out


@operation(
    "empty_all", "as empty, failed queries included", also="kebab empty_result_rate",
    default=False, **always,
)  # fmt: skip
@operation("empty", "1 if the query got no hit")
def empty(facts: Any) -> Values:
    return facts.n_hits == 0


@operation("failed", "1 if the query ended in an error", **always)
def failed(facts: Any) -> Values:
    return facts.failed


@operation(
    "latency_ms_all", "as latency_ms, failed queries included", default=False, **time | always
)
@operation("latency_ms", "elapsed time of search and answer", **time)
def latency_ms(facts: Any) -> Values:
    return facts.numbers("elapsed_ms")


@operation(
    "cost_usd", "money spent on the query", kind="cost", bounds=(0.0, np.inf), unit="US dollars",
    needs=(COSTS,), default=False,
)  # fmt: skip
def cost_usd(facts: Any) -> Values:
    return facts.numbers("cost_usd")

"""Answers one by one: what they must hold and may cost, and which key facts they support.

In: results with expectations per query, or an evaluation with verdicts on nuggets. Out:
`Behaviour`, `Nuggets`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import nearest, plural, warn
from ragscore.frames.kinds import parsed
from ragscore.scoring.metrics import TABLE

EVERY = "*"  # expectations that hold for every query
CALLED = ("x_tool_calls.json", "x_answer.tool_calls.json")  # columns that list the tools
BUDGETS = {
    "max_turns": ("x_turns", "x_answer.turns"),
    "max_tool_calls": ("x_tool_calls", "x_answer.tool_calls"),
    "max_tokens": (),  # of prompt and completion together
    "max_output_tokens": ("completion_tokens",),
    "max_cost_usd": ("cost_usd",),
    "max_latency_ms": ("elapsed_ms",),
}
"""Budget -> the columns of the responses that may hold what was used of it."""
TEXTS = "a list of texts"
EXPECTED = {
    "required": TEXTS, "forbidden": TEXTS, "json": "True or False",
    "tools": f"{TEXTS}, or text -> number of calls from 1",
    **dict.fromkeys(BUDGETS, "a number from 0"),
}  # fmt: skip
"""Check -> what may be expected."""


@dataclass(frozen=True, repr=False, eq=False)
class Behaviour(FramesResult):
    """Checks of what answers hold, of budgets and of tools.

    Attributes
    ----------
    summary
        One row per run: `n` responses with checks, the means `score` and `passed` of them (0 to 1,
        higher is better; NaN without).
    per_query
        One row per response: `n_checks`, `n_passed`; `behaviour.score`, their ratio (0 to 1, higher
        is better; NaN without checks), and `behaviour.passed`, 1 if it reaches the threshold, else
        0 (NaN without a score). `ev.with_columns(per_query, ["behaviour.score"])` makes a metric of
        it, of which higher is better.
    checks
        One row per response and check: `row` of the response, run_id, query_id, `check`,
        `expected`, `found` (text), `passed` (boolean). An unknown (no answer, no telemetry) fails
        its check, with an empty `found`.
    """

    summary: pd.DataFrame
    per_query: pd.DataFrame
    checks: pd.DataFrame

    def _heading(self) -> str:
        n_failed = int((~self.checks["passed"]).sum())
        return f"Behaviour: {plural(len(self.checks), 'check')}, {n_failed} failed"


def behaviour(
    results: Results,
    expectations: Mapping[str, Mapping[str, Any]],
    *,
    threshold: float = 1.0,
    empty_value: float = np.nan,
) -> Behaviour:
    """Check every response: required and forbidden terms, valid JSON, budgets, tools.

    Turns and tool calls (a number, or a JSON list of names or of objects with a `name`) are the
    fields `turns` and `tool_calls` of the record or its answer.

    Parameters
    ----------
    expectations
        Query id, or "*" for every query -> the expectations of its answers: `required` and
        `forbidden` (lists of terms, in upper or lower case), `json` (True: the answer is valid
        JSON), `tools` (list of names, or name -> least number of calls), and the budgets
        `max_turns`, `max_tool_calls`, `max_tokens` (prompt and completion), `max_output_tokens`,
        `max_cost_usd`, `max_latency_ms`.
    threshold
        Share of passed checks from which a response has passed.
    empty_value
        The score of a response without checks.

    Raises
    ------
    DataError
        No expectation at all, one that isn't known or of the wrong type; a threshold
        outside 0..1.

    Warns
    -----
    UserWarning
        Queries with expectations that no run was asked.

    Examples
    --------
    >>> rs.extras.behaviour(results, {"*": {"max_latency_ms": 100}}).checks.query("~passed")
    """
    if not 0 <= threshold <= 1:
        raise DataError(f"found {threshold}", field="threshold", allowed="a share from 0 to 1")
    responses = results.responses.reset_index(drop=True)
    checks = _checks(responses, expectations)
    counts = checks.groupby("row")["passed"].agg(n_checks="size", n_passed="sum")
    counts = counts.reindex(responses.index, fill_value=0).astype("int64")
    share = pd.Series(counts["n_passed"] / counts["n_checks"]).fillna(empty_value)
    # a share such as 7 of 10 may be a bit below the .7 it is compared with
    passed = share.ge(threshold - 1e-9).astype("float64").where(share.notna())
    per_query = (
        responses[["run_id", "query_id"]]
        .join(counts)
        .assign(**{"behaviour.score": share, "behaviour.passed": passed})
    )
    summary = per_query.groupby("run_id", observed=False).agg(
        n=("behaviour.score", "count"), score=("behaviour.score", "mean"),
        passed=("behaviour.passed", "mean"),
    )  # fmt: skip
    return Behaviour(summary.reset_index(), per_query, checks)


def _checks(responses: pd.DataFrame, expectations: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return every check of every response with its outcome."""
    rows = [
        (str(query_id), check, *expected)
        for query_id, checks in expectations.items()
        for check, value in checks.items()
        for expected in _expected(f"expectations.{query_id}.{check}", check, value)
    ]
    if not rows:
        known = ", ".join(EXPECTED)
        raise DataError(
            "no expectation", field="expectations", allowed=f"query id -> what is expected: {known}"
        )
    asked = responses[["run_id", "query_id"]].rename_axis("row").reset_index()
    if never_asked := sorted({row[0] for row in rows} - {EVERY} - set(asked["query_id"])):
        warn(
            f"no run was asked {', '.join(never_asked[:5])} ({len(never_asked)} queries with"
            " expectations)"
        )
    expected = pd.DataFrame(rows, columns=["query", "check", "expected", "limit"])
    of_query = pd.concat([asked.assign(query=asked["query_id"]), asked.assign(query=EVERY)])
    checks = of_query.merge(expected.rename_axis("position").reset_index(), on="query")
    checks = checks.sort_values(["row", "position"], kind="stable", ignore_index=True)
    used, tools = _used(responses)
    answers = responses.get("answer", pd.Series(pd.NA, index=responses.index)).tolist()
    # row by row: every row looks for a text of its own in a text of its own
    outcomes = [
        _outcome(check, text, limit, answers[row], used, tools, row)
        for row, check, text, limit in checks[["row", "check", "expected", "limit"]].itertuples(
            index=False
        )
    ]
    outcome = pd.DataFrame(outcomes, columns=["found", "passed"])
    outcome = outcome.astype({"found": "str", "passed": "bool"})
    return checks[["row", "run_id", "query_id", "check", "expected"]].join(outcome)


def _expected(field: str, check: str, value: Any) -> list[tuple[str, float]]:
    """Return the expected texts of one check, each with its limit."""
    if check not in EXPECTED:
        raise DataError("not a known check", field=field, allowed=nearest(check, EXPECTED))
    is_bool = isinstance(value, bool)
    if check == "json" and is_bool:
        return [("valid JSON", 1.0)] * value
    if check in BUDGETS and isinstance(value, (int, float)) and not is_bool and value >= 0:
        return [(f"≤ {value}", float(value))]
    named = [("", 0)]
    if isinstance(value, (list, tuple)) and EXPECTED[check].startswith(TEXTS):
        named = [(text, 1) for text in value]
    elif isinstance(value, Mapping) and check == "tools":
        named = list(value.items())
    if not all(isinstance(text, str) and text and type(n) is int and n > 0 for text, n in named):
        raise DataError(f"found {value!r}", field=field, allowed=EXPECTED[check])
    return [(text, float(n)) for text, n in named]


def _used(responses: pd.DataFrame) -> tuple[dict[str, pd.Series], list[list[str] | None]]:
    """Return what every response used of each budget, and the names of the tools it called.

    NaN where it was not measured; unknown tools are None.
    """
    none = pd.Series(np.nan, index=responses.index)

    def first_of(names: tuple[str, ...]) -> pd.Series:
        return next((responses[name] for name in names if name in responses), none)

    used = {
        budget: pd.to_numeric(first_of(names), errors="coerce").astype("float64")
        for budget, names in BUDGETS.items()
    }
    tools = [_tool_names(cell) for cell in first_of(CALLED)]
    n_calls = pd.Series([np.nan if one is None else len(one) for one in tools], dtype="float64")
    used["max_tool_calls"] = n_calls.fillna(used["max_tool_calls"])
    prompt = first_of(("prompt_tokens",)).astype("Float64").astype("float64")
    return used | {"max_tokens": prompt + used["max_output_tokens"]}, tools


def _tool_names(cell: Any) -> list[str] | None:
    """Return the names of the called tools, one per call; None if the record doesn't say."""
    calls = parsed(cell)
    if not isinstance(calls, list):
        return None
    names = [one.get("name", one.get("tool")) if isinstance(one, dict) else one for one in calls]
    return [str(name) for name in names] if all(isinstance(one, str) for one in names) else None


def _outcome(
    check: str, expected: str, limit: float, answer: Any, used: dict[str, pd.Series],
    tools: list[list[str] | None], row: int,
) -> tuple[str, bool]:  # fmt: skip
    """Return what a response has of what is expected, as text, and whether that will do."""
    if check in BUDGETS:
        value = used[check].iloc[row]
        return ("" if np.isnan(value) else f"{value:g}"), bool(value <= limit)
    if check == "tools":
        n = (tools[row] or []).count(expected)
        return ("" if tools[row] is None else f"{n} calls"), n >= limit
    if not isinstance(answer, str):
        return "", False
    if check == "json":
        try:
            json.loads(answer)
        except (ValueError, RecursionError):
            return "not JSON", False
        return "valid JSON", True
    is_present = expected.lower() in answer.lower()
    return ("present" if is_present else "absent"), is_present == (check == "required")


@dataclass(frozen=True, repr=False, eq=False)
class Nuggets(FramesResult):
    """Which key facts the answers support.

    Attributes
    ----------
    table
        One row per run and metric of nuggets: `mean` with its 95 % interval `low`, `high` over the
        `n` queries whose nuggets all have a verdict; `n_unjudged` of the run's nuggets.
    per_nugget
        One row per query and nugget: query_id, `nugget` (its number), text, importance, weight;
        `n` answers with a verdict, of which `n_support`, `n_partial` and `n_not`; `share`, the mean
        of what verdicts count (0 to 1).
    missed
        The rows of `per_nugget` that no answer supports, not even in part, though each run has a
        verdict. Vital ones first.
    per_answer
        One row per run, query and nugget: `value` (1, 0.5 or 0; NaN: no verdict).
    """

    table: pd.DataFrame
    missed: pd.DataFrame
    per_nugget: pd.DataFrame
    per_answer: pd.DataFrame

    def _heading(self) -> str:
        n_vital = int(self.missed["importance"].eq("vital").fillna(False).sum())
        return (
            f"Nuggets: {plural(len(self.per_nugget), 'key fact')}, of which no answer supports"
            f" {len(self.missed)} ({n_vital} vital)"
        )


def nuggets(ev: Any) -> Nuggets:
    """Return which key facts the answers support, and which no run's answer does.

    Raises
    ------
    DataError
        Nobody gave verdicts on nuggets.

    Examples
    --------
    >>> nugget = {"text": "a fact", "importance": "vital", "assignment": "not_support"}
    >>> line = {"qid": "q1", "query": "?", "answer_text": "no", "nuggets": [nugget]}
    >>> rs.extras.nuggets(rs.evaluate([line], [line])).missed[["query_id", "text", "importance"]]
    """
    names = [name for name in TABLE if name.startswith("nugget_")]
    scores, _ = ev._scored(names)
    valued, facts = [name for name in names if scores[name].notna().any()], ev._rows
    if facts is None or not valued or not facts.verdicts["criterion"].eq("nuggets").any():
        raise DataError(
            "no verdict on nuggets", field="results.judgments",
            allowed="rs.judge(results, golden, 'nuggets', endpoint), or a file of assignments",
        )  # fmt: skip
    run = pd.Series(facts.runs.astype("str")[facts.run], dtype="str")
    rows = facts.nuggets
    rows = rows[facts.asked[rows["row"]]].reset_index(drop=True)
    rows = rows.assign(run_id=run[rows["row"]].to_numpy())
    unjudged = rows[rows["value"].isna()].groupby("run_id").size()
    table = replace(ev, scores=scores).summary(valued)
    table = table[["run_id", "metric", "mean", "low", "high", "n"]].assign(
        n_unjudged=table["run_id"].astype("str").map(unjudged).fillna(0).astype("int64"),
    )
    value = rows["value"]
    counted = rows.assign(
        n=value.notna(), n_support=value.ge(1.0), n_partial=value.gt(0.0) & value.lt(1.0),
        n_not=value.le(0.0),
    )  # fmt: skip
    of_nugget = counted.groupby(["query_id", "nugget"], sort=False)
    about = of_nugget[["text", "importance", "weight"]].first()
    counts = of_nugget[["n", "n_support", "n_partial", "n_not"]].sum().astype("int64")
    per_nugget = about.join(counts).join(of_nugget["value"].mean().rename("share")).reset_index()
    is_missed = per_nugget["n_not"].to_numpy() == of_nugget.size().to_numpy()
    missed = per_nugget[is_missed].assign(other=lambda one: one["importance"].ne("vital"))
    missed = missed.sort_values("other", kind="stable", ignore_index=True).drop(columns="other")
    return Nuggets(
        table.reset_index(drop=True), missed, per_nugget,
        rows[["run_id", "query_id", "nugget", *about, "value"]],
    )  # fmt: skip

"""Behaviour of answers: required and forbidden terms, valid JSON, budgets and tools.

In: `Results` and expectations per query. Out: `Behaviour`: one row per check, and one per response
with its share of passed checks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import nearest, plural, warn

EVERY = "*"  # expectations that hold for every query
BUDGETS = {
    "max_turns": "turns",
    "max_tool_calls": "tool_calls",
    "max_tokens": "tokens",
    "max_output_tokens": "output_tokens",
    "max_cost_usd": "cost_usd",
    "max_latency_ms": "latency_ms",
}
EXPECTED = ("required", "forbidden", "json", "tools", *BUDGETS)
TELEMETRY = {
    "turns": ("x_turns", "x_answer.turns"),
    "tool_calls": (
        "x_tool_calls.json",
        "x_answer.tool_calls.json",
        "x_tool_calls",
        "x_answer.tool_calls",
    ),
    "output_tokens": ("completion_tokens",),
    "cost_usd": ("cost_usd",),
    "latency_ms": ("elapsed_ms",),
}
"""Measured quantity -> the columns of the responses that may hold it.

`tokens` is not among them: they are prompt and completion tokens together.
"""


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
        0 (NaN without a score). `ev.with_columns(table, better="higher")` makes metrics of these.
    checks
        One row per response and check: `row` of the response, run_id, query_id, `check`,
        `expected`, `found` (text), `passed` (boolean). An unknown (no answer, no telemetry) fails
        its check, with an empty `found`.
    """

    FRAMES = ("summary", "per_query", "checks")

    per_query: pd.DataFrame
    checks: pd.DataFrame

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The mean score of each run, and its share of responses that passed."""
        by_run = self.per_query.groupby("run_id", observed=False)
        table = {
            "n": by_run["behaviour.score"].count(),
            "score": by_run["behaviour.score"].mean(),
            "passed": by_run["behaviour.passed"].mean(),
        }
        return pd.DataFrame(table).reset_index()

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
    checks = _checks(results, expectations)
    responses = results.responses[["run_id", "query_id"]].reset_index(drop=True)
    counts = checks.groupby("row")["passed"].agg(["size", "sum"])
    counts = counts.reindex(responses.index, fill_value=0).astype("int64")
    n, n_passed = counts["size"].to_numpy(), counts["sum"].to_numpy()
    share = np.where(n > 0, n_passed / np.where(n > 0, n, 1), empty_value)
    # A share such as 7 of 10 may be a bit below the .7 it is compared with.
    passed = np.where(np.isnan(share), np.nan, share >= threshold - 1e-9)
    columns = {"n_checks": n, "n_passed": n_passed}
    per_query = responses.assign(
        **columns, **{"behaviour.score": share, "behaviour.passed": passed}
    )
    return Behaviour(per_query, checks)


def _checks(results: Results, expectations: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return every check of every response with its outcome."""
    rows = [
        (str(query_id), check, expected, limit)
        for query_id, checks in expectations.items()
        for check, value in checks.items()
        for expected, limit in _expectation(str(query_id), check, value)
    ]
    if not rows:
        raise DataError(
            "no expectation",
            field="expectations",
            allowed=f"query id -> what is expected: {', '.join(EXPECTED)}",
        )
    expected = pd.DataFrame(rows, columns=["query_id", "check", "expected", "limit"])
    expected = expected.assign(position=np.arange(len(expected)))
    responses = results.responses.reset_index(drop=True)
    if never_asked := sorted(set(expected["query_id"]) - {EVERY} - set(responses["query_id"])):
        warn(
            f"no run was asked {', '.join(never_asked[:5])} ({len(never_asked)} queries with"
            " expectations)"
        )
    asked = responses[["run_id", "query_id"]].rename_axis("row").reset_index()
    is_common = expected["query_id"] == EVERY
    own = asked.merge(expected[~is_common], on="query_id")
    common = asked.merge(expected[is_common].drop(columns="query_id"), how="cross")
    checks = pd.concat([own, common], ignore_index=True).sort_values(
        ["row", "position"], kind="stable", ignore_index=True
    )
    measured, tools = _measured(responses)
    answers = responses.get("answer", pd.Series(pd.NA, index=responses.index))
    # Row by row: every row looks for a text of its own in a text of its own.
    outcomes = [
        _within_budget(measured[BUDGETS[check]].iloc[row], limit)
        if check in BUDGETS
        else _tool_called(tools[row], text, limit)
        if check == "tools"
        else _answer_holds(answers.iloc[row], check, text)
        for row, check, text, limit in zip(
            checks["row"], checks["check"], checks["expected"], checks["limit"], strict=True
        )
    ]
    found, passed = zip(*outcomes, strict=True) if outcomes else ((), ())
    return checks[["row", "run_id", "query_id", "check", "expected"]].assign(
        found=pd.Series(found, dtype="str"), passed=pd.Series(passed, dtype=bool)
    )


def _expectation(query_id: str, check: str, value: Any) -> list[tuple[str, float]]:
    """Return the expected texts of one check, each with its limit."""
    field = f"expectations.{query_id}.{check}"
    if check not in EXPECTED:
        raise DataError("not a known check", field=field, allowed=nearest(check, EXPECTED))
    if check == "json":
        if not isinstance(value, bool):
            raise DataError(f"found {value!r}", field=field, allowed="True or False")
        return [("valid JSON", 1.0)] if value else []
    if check in BUDGETS:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise DataError(f"found {value!r}", field=field, allowed="a number from 0")
        return [(f"≤ {value}", float(value))]
    counts: Mapping[Any, Any] | None = None
    if isinstance(value, (list, tuple)):
        counts = dict.fromkeys(value, 1)
    elif isinstance(value, Mapping) and check == "tools":
        counts = value
    if counts is None or not all(
        isinstance(name, str) and name and type(n) is int and n >= 1 for name, n in counts.items()
    ):
        or_counts = ", or text -> number of calls from 1" if check == "tools" else ""
        raise DataError(f"found {value!r}", field=field, allowed=f"a list of texts{or_counts}")
    return [(name, float(n)) for name, n in counts.items()]


def _measured(
    responses: pd.DataFrame,
) -> tuple[dict[str, pd.Series], list[list[str] | None]]:
    """Return the measured quantities of every response, and the names of the tools it called.

    A quantity that was not measured is NaN; unknown tools are None.
    """
    columns = {
        name: [column for column in candidates if column in responses]
        for name, candidates in TELEMETRY.items()
    }
    none = pd.Series(np.nan, index=responses.index)
    measured = {
        name: pd.to_numeric(responses[found[0]], errors="coerce").astype("float64")
        if found
        else none
        for name, found in columns.items()
    }
    calls = columns["tool_calls"]
    tools = [_tool_names(cell) for cell in (responses[calls[0]] if calls else none)]
    n_calls = [np.nan if names is None else len(names) for names in tools]
    measured["tool_calls"] = pd.Series(n_calls, index=responses.index, dtype="float64").fillna(
        measured["tool_calls"]
    )
    prompt, completion = (
        responses.get(name, none).astype("Float64").astype("float64")
        for name in ("prompt_tokens", "completion_tokens")
    )
    return measured | {"tokens": prompt + completion}, tools


def _tool_names(cell: Any) -> list[str] | None:
    """Return the names of the called tools, one per call; None if the record doesn't say."""
    try:
        calls = json.loads(cell) if isinstance(cell, str) else None
    except ValueError:
        return None
    if not isinstance(calls, list):
        return None
    names = [
        call.get("name", call.get("tool")) if isinstance(call, dict) else call for call in calls
    ]
    return [str(name) for name in names] if all(isinstance(name, str) for name in names) else None


def _within_budget(value: float, limit: float) -> tuple[str, bool]:
    return ("" if np.isnan(value) else f"{value:g}"), bool(value <= limit)


def _tool_called(names: list[str] | None, name: str, limit: float) -> tuple[str, bool]:
    if names is None:
        return "", False
    n = names.count(name)
    return f"{n} calls", n >= limit


def _answer_holds(answer: Any, check: str, term: str) -> tuple[str, bool]:
    if not isinstance(answer, str):
        return "", False
    if check == "json":
        try:
            json.loads(answer)
        except (ValueError, RecursionError):
            return "not JSON", False
        return "valid JSON", True
    is_present = term.lower() in answer.lower()
    return ("present" if is_present else "absent"), is_present == (check == "required")

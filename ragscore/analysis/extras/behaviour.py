"""Behaviour of answers.

Terms they must and must not hold, valid JSON, budgets, tools that must be called.

In: `Results` and expectations per question. Out: one row per check, and one per response with its
share of passed checks.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import warn

EVERY = "*"  # expectations that hold for every question
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
    "tool_calls": ("x_tool_calls.json", "x_answer.tool_calls.json", "x_tool_calls",
    "x_answer.tool_calls"),
    "output_tokens": ("completion_tokens",), "cost_usd": ("cost_usd",),
    "latency_ms": ("elapsed_ms",),
}  # fmt: skip
"""What is measured -> the columns of the responses that it may stand in. Tokens are prompt and completion tokens together."""


def behaviour(
    results: Results,
    expectations: Mapping[str, Mapping[str, Any]],
    *,
    threshold: float = 1.0,
    empty_value: float = np.nan,
    telemetry: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """The share of passed checks of every response.

    Parameters
    ----------
    expectations, telemetry
        As for `rs.behaviour_checks`.
    threshold
        Share of passed checks from which a response has passed.
    empty_value
        The share of a response without checks.

    Returns
    -------
    One row per response: `n_checks`, `n_passed`; `behaviour.score`, their ratio (0 to 1, higher is
    better; NaN without checks), and `behaviour.passed`, whether it reaches the threshold (1 or 0;
    NaN without a score). `rs.add_columns(scores, table)` makes metrics of these.

    Raises
    ------
    DataError
        As for `rs.behaviour_checks`; a threshold outside 0..1.
    """
    if not 0 <= threshold <= 1:
        raise DataError(f"found {threshold}", field="threshold", allowed="a share from 0 to 1")
    checks = behaviour_checks(results, expectations, telemetry=telemetry)
    responses = results.responses[["run_id", "query_id"]].reset_index(drop=True)
    counts = (
        checks.groupby("row")["passed"]
        .agg(["size", "sum"])
        .reindex(responses.index)
        .fillna(0)
        .astype("int64")
    )
    n, passed = counts["size"].to_numpy(), counts["sum"].to_numpy()
    with np.errstate(invalid="ignore"):
        share = np.where(n > 0, passed / np.where(n > 0, n, 1), empty_value)
    # A share such as 7 of 10 may be a bit below the .7 it is compared with.
    reached = np.where(np.isnan(share), np.nan, share >= threshold - 1e-9)
    return responses.assign(
        **{"n_checks": n, "n_passed": passed, "behaviour.score": share, "behaviour.passed": reached}
    )


def behaviour_checks(
    results: Results,
    expectations: Mapping[str, Mapping[str, Any]],
    *,
    telemetry: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Every check of every response, and what was found.

    Parameters
    ----------
    expectations
        Question id, or "*" for every question -> what is expected of its answers: `required` and
        `forbidden` (lists of terms, found in any case), `json` (True: the answer is valid JSON),
        `tools` (list of names, or name -> least number of calls), and the budgets `max_turns`,
        `max_tool_calls`, `max_tokens` (prompt and completion), `max_output_tokens`, `max_cost_usd`,
        `max_latency_ms`.
    telemetry
        Where else to look: turns, tool_calls (a number, or a JSON list of names or of objects with
        a `name`), tokens, output_tokens, cost_usd, latency_ms -> a column of the responses. By
        default the fields of those names in the record or its answer, usage, and elapsed_ms.

    Returns
    -------
    One row per response and check: `row` of the response, run_id, query_id, `check`, `expected`,
    `found` (text), `passed` (boolean). What isn't known (no answer, no telemetry) fails its check,
    with an empty `found`.

    Raises
    ------
    DataError
        No expectation at all, one that isn't known or of the wrong type, or a telemetry column that
        isn't there.

    Warns
    -----
    UserWarning
        Questions with expectations that no run was asked.
    """
    wanted = _expected(expectations)
    responses = results.responses.reset_index(drop=True)
    if strange := sorted(set(wanted["query_id"]) - {EVERY} - set(responses["query_id"])):
        warn(
            f"no run was asked {', '.join(strange[:5])} ({len(strange)} questions with"
            " expectations)"
        )
    asked = pd.DataFrame(
        {"row": responses.index, "run_id": responses["run_id"], "query_id": responses["query_id"]}
    )
    own = asked.merge(wanted[wanted["query_id"] != EVERY], on="query_id")
    common = asked.merge(wanted[wanted["query_id"] == EVERY].drop(columns="query_id"), how="cross")
    checks = pd.concat([own, common], ignore_index=True).sort_values(
        ["row", "position"], kind="stable", ignore_index=True
    )
    measured = _measured(responses, telemetry or {})
    parts = [
        _judge(str(check), rows, responses, measured)
        for check, rows in checks.groupby("check", sort=False)
    ]
    judged = (
        pd.concat(parts).sort_index()
        if parts
        else checks.assign(found=pd.Series(dtype="str"), passed=pd.Series(dtype=bool))
    )
    return judged[["row", "run_id", "query_id", "check", "expected", "found", "passed"]]


def _expected(expectations: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row per expectation: query_id, check, expected (text), limit (number), position."""
    rows: list[tuple[str, str, str, float]] = []
    for query_id, wanted in expectations.items():
        for check, value in wanted.items():
            rows += [
                (str(query_id), check, expected, limit)
                for expected, limit in _expectation(str(query_id), check, value)
            ]
    if not rows:
        raise DataError(
            "no expectation",
            field="expectations",
            allowed=f"question id -> what is expected: {', '.join(EXPECTED)}",
        )
    table = pd.DataFrame(rows, columns=["query_id", "check", "expected", "limit"])
    return table.assign(position=np.arange(len(table)))


def _expectation(query_id: str, check: str, value: Any) -> list[tuple[str, float]]:
    place = f"expectations.{query_id}.{check}"
    if check not in EXPECTED:
        raise DataError("not a known check", field=place, allowed=f"one of {', '.join(EXPECTED)}")
    if check == "json":
        if not isinstance(value, bool):
            raise DataError(f"found {value!r}", field=place, allowed="True or False")
        return [("valid JSON", 1.0)] if value else []
    if check in BUDGETS:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise DataError(f"found {value!r}", field=place, allowed="a number from 0")
        return [(f"≤ {value}", float(value))]
    counts = (
        dict(value)
        if isinstance(value, Mapping) and check == "tools"
        else dict.fromkeys(value, 1)
        if isinstance(value, (list, tuple))
        else None
    )
    if counts is None or not all(
        isinstance(name, str) and name and type(n) is int and n >= 1 for name, n in counts.items()
    ):
        raise DataError(
            f"found {value!r}",
            field=place,
            allowed="a list of texts"
            + (", or text -> number of calls from 1" if check == "tools" else ""),
        )
    return [(name, float(n)) for name, n in counts.items()]


def _measured(responses: pd.DataFrame, telemetry: Mapping[str, str]) -> dict[str, pd.Series]:
    """What was measured of every response; NaN where it was not.

    `tools` holds the names of the calls, None where unknown.
    """
    unknown = [name for name in telemetry if name not in (*TELEMETRY, "tokens")]
    absent = [column for column in telemetry.values() if column not in responses]
    if unknown or absent:
        raise DataError(
            f"found {', '.join([*unknown, *absent])}",
            field="telemetry",
            allowed=f"{', '.join([*TELEMETRY, 'tokens'])} -> a column of the responses",
        )
    columns = {
        name: telemetry.get(name) or next((column for column in found if column in responses), None)
        for name, found in TELEMETRY.items()
    }
    none = pd.Series(np.nan, index=responses.index)
    calls = (
        responses[columns["tool_calls"]]
        if columns["tool_calls"]
        else pd.Series(None, index=responses.index, dtype=object)
    )
    tools = pd.Series([_tools(cell) for cell in calls], index=responses.index, dtype=object)
    measured = {
        name: (
            pd.to_numeric(responses[column], errors="coerce").astype("float64") if column else none
        )
        for name, column in columns.items()
        if name != "tool_calls"
    }
    n_calls = pd.Series(
        [np.nan if names is None else len(names) for names in tools], index=responses.index
    )
    measured["tool_calls"] = n_calls.fillna(pd.to_numeric(calls, errors="coerce").astype("float64"))
    usage = [
        responses[name].astype("Float64").astype("float64") if name in responses else none
        for name in ("prompt_tokens", "completion_tokens")
    ]
    measured["tokens"] = (
        pd.to_numeric(responses[telemetry["tokens"]], errors="coerce").astype("float64")
        if "tokens" in telemetry
        else usage[0] + usage[1]
    )
    return {**measured, "tools": tools}


def _tools(cell: Any) -> list[str] | None:
    """Names of the tools that were called, one per call; None if the record doesn't say."""
    if not isinstance(cell, str):
        return None
    try:
        calls = json.loads(cell)
    except ValueError:
        return None
    if not isinstance(calls, list):
        return None
    names = [
        (
            call
            if isinstance(call, str)
            else call.get("name", call.get("tool"))
            if isinstance(call, dict)
            else None
        )
        for call in calls
    ]
    return [str(name) for name in names] if all(isinstance(name, str) for name in names) else None


def _judge(
    check: str, rows: pd.DataFrame, responses: pd.DataFrame, measured: dict[str, pd.Series]
) -> pd.DataFrame:
    """The rows of one kind of check with what was found."""
    if check in BUDGETS:
        value = measured[BUDGETS[check]].to_numpy()[rows["row"]]
        shown = [f"{one:g}" if not np.isnan(one) else "" for one in value]
        return rows.assign(
            found=pd.Series(shown, index=rows.index, dtype="str"),
            passed=value <= rows["limit"].to_numpy(),
        )
    cells = (
        _tool_counts(rows, measured["tools"])
        if check == "tools"
        else _texts(check, rows, responses)
    )
    found = pd.Series([one for one, _ in cells], index=rows.index, dtype="str")
    return rows.assign(found=found, passed=np.array([passed for _, passed in cells], dtype=bool))


def _tool_counts(rows: pd.DataFrame, tools: pd.Series) -> list[tuple[str, bool]]:
    called = [tools.iloc[row] for row in rows["row"]]
    counts = [
        None if names is None else names.count(name)
        for names, name in zip(called, rows["expected"], strict=True)
    ]
    return [
        ("" if n is None else f"{n} calls", n is not None and n >= limit)
        for n, limit in zip(counts, rows["limit"], strict=True)
    ]


def _texts(check: str, rows: pd.DataFrame, responses: pd.DataFrame) -> list[tuple[str, bool]]:
    answers: npt.NDArray[np.object_] = (
        responses["answer"].to_numpy(dtype=object)[rows["row"]]
        if "answer" in responses
        else np.full(len(rows), None, dtype=object)
    )
    return [
        _text(check, term, answer) if isinstance(answer, str) else ("", False)
        for term, answer in zip(rows["expected"], answers, strict=True)
    ]


def _text(check: str, term: str, answer: str) -> tuple[str, bool]:
    if check == "json":
        try:
            json.loads(answer)
        except (ValueError, RecursionError):
            return "not JSON", False
        return "valid JSON", True
    is_there = term.lower() in answer.lower()
    return ("present" if is_there else "absent"), is_there == (check == "required")

"""promptfoo's results JSON (version 3, its rows as JSON lines too) -> cases.

One run per provider and prompt. A row has no id that survives an edit of the tests (`testIdx`
counts repeats too), so a query's id is a hash of its `vars`.
"""

import json
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.detect import Sample
from ragscore.io.records import Record, Stored
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row, as_text, describe
from ragscore.io.tools.cases import Imported, hash_query, imported
from ragscore.io.tools.cells import (
    QUERY_KEYS,
    Cells,
    json_text,
    labels_in,
    our_name,
    stored,
    text_in,
    with_roles,
    without_missing,
)
from ragscore.io.values import as_number

CHECKS = {
    "contains": "must_contain",
    "contains-all": "must_contain",
    "not-contains": "forbidden",
    "not-contains-any": "forbidden",
}
JUDGED = (
    "llm-rubric", "factuality", "model-graded-closedqa", "model-graded-factuality",
    "answer-relevance", "context-faithfulness", "context-recall",
    "context-relevance", "g-eval", "select-best", "search-rubric", "conversation-relevance",
)  # fmt: skip


PASSED: dict[str, Any] = {"better": "higher", "lowest": 0.0, "highest": 1.0}
"""What is known of every score: an assertion that holds has 1."""


def fits(seen: Sample) -> bool:
    """Return True for an evaluation's file, or its rows."""
    return (
        seen.has("evalId", "results")
        or seen.has("promptIdx", "testIdx")
        or (seen.has("results", "config") and "eval" not in seen.keys)
    )


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per row of results."""
    rows, config = _rows(source, problems)
    if isinstance(config, dict):
        described = described | {"config": json_text(config)}
    n_prompts = len({as_text(row.values.get("promptIdx")) for row in rows})
    has_prompts = n_prompts > max(len({_provider(Cells(row, problems)) for row in rows}), 1)
    cases = [_case(row, problems, columns, has_prompts) for row in rows]
    return imported(cases, described, problems)


def _rows(source: Source, problems: Problems) -> tuple[list[Row], Any]:
    """Return the rows of results, and the configuration if the file has it."""
    rows = list(table_rows(source, problems))
    if rows and "promptIdx" in rows[0].values:
        return rows, None
    top = rows[0].values if rows else {}
    place: Any = top.get("results")
    # the documentation calls the rows `outputs`, the program `results`
    for name in ("results", "outputs"):
        if isinstance(place, dict):
            place = place.get(name, place)
    if not isinstance(place, list):
        raise DataError(
            f"found {describe(place)}",
            file=problems.file,
            field="results.results",
            allowed="a list of rows (promptfoo eval -o results.json)",
        )
    listed = Cells(Row({"results": place}, 1), problems).records("results")
    return [Row(one, number) for number, one in enumerate(listed, 1)], top.get("config")


def _provider(cells: Cells) -> str:
    provider = cells.values.get("provider")
    if isinstance(provider, dict):
        return as_text(provider.get("label")) or as_text(provider.get("id")) or "provider"
    return as_text(provider) or "provider"


def _case(row: Row, problems: Problems, columns: dict[str, str], has_prompts: bool) -> Record:
    cells = Cells(row, problems)
    variables, test, answer = cells.mapping("vars"), cells.part("testCase"), cells.part("response")
    query, prompt_index = _query(variables, cells.mapping("prompt")), cells.text("promptIdx")
    run = _provider(cells) + (f".prompt{prompt_index}" if has_prompts else "")
    case = Record(row.line, run=run)
    if variables:
        case.query_id = hash_query(json.dumps(variables, ensure_ascii=False, sort_keys=True))
    # `error` also holds the message of a failed assertion; only failureReason 2 says that the
    # system failed.
    error = answer.text("error")
    if cells.whole("failureReason") == 2:
        error = cells.text("error") or error or "error without a message"
    is_cached, latency_ms = answer.values.get("cached") is True, cells.number("latencyMs")
    tokens = cells.part("tokenUsage")
    case.response = {
        "query": query,
        "answer": answer.text("output"),
        "error": error,
        "elapsed_ms": None if is_cached else latency_ms,
        "cost_usd": cells.number("cost"),
        "prompt_tokens": tokens.whole("prompt"),
        "completion_tokens": tokens.whole("completion"),
    }
    grading = cells.part("gradingResult")
    case.stored = _stored([cells.of(one) for one in grading.records("componentResults")])
    known = {one.metric for one in case.stored}
    named = cells.mapping("namedScores")
    case.stored += [
        stored(name, value, is_judged=False, **PASSED)
        for name, value in named.items() if our_name(name) not in known
    ]  # fmt: skip
    if (success := cells.flag("success")) is not None and error is None:
        case.stored.append(stored("success", success, is_judged=False, **PASSED))
    for assertion in test.records("assert"):
        _expect(case, assertion)
    case.labels |= labels_in(test.mapping("metadata"))
    case.extra = without_missing({"cached": is_cached, "testIdx": cells.whole("testIdx")})
    return with_roles(case, row, columns, problems)


def _query(variables: dict[str, Any], prompt: dict[str, Any]) -> str | None:
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    return text_in(variables, QUERY_KEYS) or text_in(texts, texts) or as_text(prompt.get("raw"))


def _expect(case: Record, assertion: dict[str, Any]) -> None:
    """Add the expectation of an assertion that looks for texts.

    Case-insensitive assertions have no equivalent here.
    """
    kind, value = assertion.get("type"), assertion.get("value")
    items = value if isinstance(value, list) else [value]
    texts = [text for item in items if (text := as_text(item))]
    if kind in CHECKS and texts:
        case.checks.setdefault(CHECKS[str(kind)], []).extend(texts)
    elif kind == "equals" and texts:
        case.reference_answer = texts[0]
    elif kind == "is-refusal":
        case.answerable = False


def _stored(components: list[Cells]) -> list[Stored]:
    """Return one score per metric or kind of assertion, the mean of its components."""
    by_metric: dict[str, list[Stored]] = {}
    for cells in components:
        assertion, metadata = cells.mapping("assertion"), cells.mapping("metadata")
        kind = as_text(assertion.get("type")) or "assertion"
        has_failed = metadata.get("graderError") is True
        error = cells.values.get("reason") or "grader error"
        judge = assertion.get("provider")
        is_judged = kind.removeprefix("not-") in JUDGED
        score = stored(
            as_text(assertion.get("metric")) or kind, cells.pop("score"),
            reason=cells.text("reason") if is_judged else None,
            error=as_text(error) if has_failed else None,
            judge=judge if isinstance(judge, str) else None, is_judged=is_judged, **PASSED,
        )  # fmt: skip
        by_metric.setdefault(our_name(score.metric), []).append(score)
    return [_mean(scores) for scores in by_metric.values()]


def _mean(scores: list[Stored]) -> Stored:
    """Return the first score with the mean value; without a value if a grader failed.

    A mean over the graders that didn't fail would be another metric.
    """
    failed = next((score for score in scores if score.value is None), None)
    if failed is not None or len(scores) == 1:
        return failed or scores[0]
    values = [value for score in scores if (value := as_number(score.value)) is not None]
    scores[0].value = sum(values) / len(values)
    return scores[0]

"""promptfoo's results JSON (version 3, its rows as JSON lines too) -> cases.

One run per provider and prompt.

A row has no id that survives an edit of the tests (`testIdx` counts repeats too), so questions are
known by a hash of their `vars`.
"""

import json
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.detect import Sample
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row, as_text, describe
from ragscore.io.tools.cases import Case, Imported, Stored, hash_query, imported
from ragscore.io.tools.cells import Cells, as_number, our_name, stored, with_roles

QUESTION = ("query", "question", "input", "user_input", "prompt")
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


def fits(seen: Sample) -> bool:
    """Whether it is an evaluation's file, or its rows."""
    return (
        seen.has("evalId", "results")
        or seen.has("promptIdx", "testIdx")
        or (seen.has("results", "config") and "eval" not in seen.keys)
    )


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """One case per row of results."""
    rows, top = _rows(source, problems)
    config = top.get("config")
    described = (
        {**described, "config": json.dumps(config, ensure_ascii=False, sort_keys=True)}
        if isinstance(config, dict)
        else described
    )
    prompts = {as_text(row.values.get("promptIdx")) for row in rows}
    providers = {_provider(Cells(row, problems)) for row in rows}
    cases = [
        _case(row, problems, columns, many=len(prompts) > max(len(providers), 1)) for row in rows
    ]
    return imported(cases, described, problems)


def _rows(source: Source, problems: Problems) -> tuple[list[Row], dict[str, Any]]:
    rows = list(table_rows(source, problems))
    if rows and "promptIdx" in rows[0].values:
        return rows, {}
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
    found = []
    for number, one in enumerate(place, 1):
        if isinstance(one, dict):
            found.append(Row(one, number))
        else:
            problems.add(
                f"found {describe(one)}",
                line=number,
                field="results.results",
                allowed="a list of objects",
            )
    return found, top


def _provider(cells: Cells) -> str:
    provider = cells.values.get("provider")
    if isinstance(provider, dict):
        return as_text(provider.get("label")) or as_text(provider.get("id")) or "provider"
    return as_text(provider) or "provider"


def _case(row: Row, problems: Problems, columns: dict[str, str], many: bool) -> Case:
    cells = Cells(row, problems)
    variables, test, response = (
        cells.mapping("vars"),
        Cells(Row(cells.mapping("testCase"), row.line), problems),
        cells.mapping("response"),
    )
    query, prompt_index = _question(variables, cells.mapping("prompt")), cells.text("promptIdx")
    case = Case(
        row.line, query=query, run=_provider(cells) + (f".prompt{prompt_index}" if many else "")
    )
    if variables:
        case.query_id = hash_query(json.dumps(variables, ensure_ascii=False, sort_keys=True))
    answer = Cells(Row(response, row.line), problems)
    case.answer = answer.text("output")
    # `error` also holds the message of a failed assertion; only failureReason 2 says that the
    # system failed.
    failed = cells.whole("failureReason") == 2
    case.error = (
        (cells.text("error") or answer.text("error") or "error without a message")
        if failed
        else answer.text("error")
    )
    is_cached = answer.values.get("cached") is True
    latency = cells.number("latencyMs")
    case.latency_ms, case.cost_usd = (None if is_cached else latency), cells.number("cost")
    tokens = cells.mapping("tokenUsage")
    case.prompt_tokens, case.completion_tokens = (
        Cells(Row(tokens, row.line), problems).whole(name) for name in ("prompt", "completion")
    )
    grading = Cells(Row(cells.mapping("gradingResult"), row.line), problems)
    case.stored = _stored(grading.records("componentResults"), row.line, problems)
    for one in test.records("assert"):
        _expect(case, one)
    about = {
        name: value
        for name, value in test.mapping("metadata").items()
        if name in ("difficulty", "category", "lang") and isinstance(value, str)
    }
    case.labels |= about
    case.extra = {
        "cached": is_cached,
        **({"testIdx": index} if (index := cells.whole("testIdx")) is not None else {}),
    }
    return with_roles(case, row, columns, problems)


def _question(variables: dict[str, Any], prompt: dict[str, Any]) -> str | None:
    named = [text for name in QUESTION if (text := as_text(variables.get(name)))]
    texts = [text for value in variables.values() if isinstance(value, str) and (text := value)]
    return next(iter([*named, *texts]), as_text(prompt.get("raw")))


def _expect(case: Case, one: dict[str, Any]) -> None:
    """What an assertion that looks for texts says of the right answer.

    Case-insensitive ones have no equal here.
    """
    kind, value = one.get("type"), one.get("value")
    texts = [
        text for item in (value if isinstance(value, list) else [value]) if (text := as_text(item))
    ]
    if kind in CHECKS and texts:
        case.checks.setdefault(CHECKS[str(kind)], []).extend(texts)
    elif kind == "equals" and texts:
        case.reference_answer = texts[0]
    elif kind == "is-refusal":
        case.answerable = False


def _stored(components: list[dict[str, Any]], line: int, problems: Problems) -> list[Stored]:
    """One score per metric or kind of assertion.

    The mean of those that are scored, none where every grader failed.
    """
    by_name: dict[str, list[Stored]] = {}
    for component in components:
        cells = Cells(Row(component, line), problems)
        assertion, metadata = cells.mapping("assertion"), cells.mapping("metadata")
        kind = as_text(assertion.get("type")) or "assertion"
        error = (
            (cells.values.get("reason") or "grader error")
            if metadata.get("graderError") is True
            else None
        )
        judge = assertion.get("provider")
        judged = kind.removeprefix("not-") in JUDGED
        score = stored(
            as_text(assertion.get("metric")) or kind, cells.take("score"),
            reason=cells.text("reason") if judged else None, error=as_text(error),
            judge=judge if isinstance(judge, str) else None, is_judged=judged,
        )  # fmt: skip
        by_name.setdefault(our_name(score.metric), []).append(score)
    return [_joined(scores) for scores in by_name.values()]


def _joined(scores: list[Stored]) -> Stored:
    values = [value for one in scores if (value := as_number(one.value)) is not None]
    failed = next((one for one in scores if one.value is None), None)
    # a mean over the graders that didn't fail would be another metric
    if failed is not None or len(scores) == 1:
        return failed or scores[0]
    scores[0].value = sum(values) / len(values)
    return scores[0]

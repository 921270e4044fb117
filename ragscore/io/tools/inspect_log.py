"""Inspect AI's logs (`.json`; `.eval` through `inspect_ai.log`) and its `samples_df` -> cases.

Epochs become repeats.

Where passages stand in a sample is each task author's own convention: name it, as in
`columns={"retrieved_ids": "metadata.sources"}`.
"""

import json
import re
from pathlib import Path
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.detect import Sample
from ragscore.io.rows import Source, nested, table_rows
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Case, Imported, Stored, imported
from ragscore.io.tools.cells import SAME as COMMON
from ragscore.io.tools.cells import Cells, stored, with_roles

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
SAME = {**COMMON, "exact": "exact_match", "f1": "token_f1"}
"""Its own scorers that are metrics of ours by formula: f1 is rounded to two digits there, and both take the best of several targets."""
DETERMINISTIC = ("includes", "match", "exact", "f1", "choice", "pattern", "answer")


def fits(seen: Sample) -> bool:
    """Whether it is a log, or a frame of its samples."""
    is_log = seen.has("eval", "status") or (seen.kind == "zip" and seen.has("header.json"))
    return is_log or seen.has("eval_id", "epoch", "input")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """One case per sample and epoch; what the samples were scored against is the reference answer."""
    if isinstance(source, Path) and source.suffix == ".eval":
        top: dict[str, Any] = _eval_log(source)
    else:
        rows = list(table_rows(source, problems))
        if rows and "eval_id" in rows[0].values:
            return imported(
                [_frame_case(row, problems, columns) for row in rows], described, problems
            )
        top = rows[0].values if rows else {}
    cells = Cells(Row(top, 1), problems)
    spec = cells.mapping("eval")
    about = Cells(Row(spec, 1), problems)
    described = {
        **described,
        "system": about.text("model"),
        "suite": about.text("task"),
        "config": json.dumps(spec, ensure_ascii=False, sort_keys=True, default=str),
    }
    cases = [
        _case(Row(one, number), problems, columns)
        for number, one in enumerate(cells.records("samples"), 1)
    ]
    return imported(
        cases, {name: value for name, value in described.items() if value is not None}, problems
    )


def _eval_log(path: Path) -> dict[str, Any]:
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise DataError(
            "inspect_ai is not installed",
            file=path,
            allowed="pip install inspect_ai, or the log as JSON (inspect log convert --to json)",
        ) from error
    try:
        return dict(
            read_eval_log(str(path), resolve_attachments=True).model_dump(
                mode="json", exclude_none=True
            )
        )
    except Exception as error:  # whatever its readers raise on a broken file ends here in one error
        raise DataError(f"inspect_ai can't read it ({error})", file=path) from error


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Case:
    cells = Cells(row, problems)
    metadata, output = cells.mapping("metadata"), cells.mapping("output")
    case = Case(
        row.line,
        query=_question(cells.take("input")),
        query_id=cells.identifier("id"),
        repeat=cells.whole("epoch"),
    )
    error = cells.take("error")
    case.error = (
        str(error.get("message") or "error")
        if isinstance(error, dict)
        else Cells(Row({"error": error}, row.line), problems).text("error") or None
    )
    answer = Cells(Row(output, row.line), problems)
    case.answer = None if case.error else answer.text("completion")
    case.reference_answer = _target(cells.take("target"))
    # working time leaves out waiting for rate limits
    seconds = cells.number("working_time", "total_time")
    case.latency_ms = None if seconds is None else seconds * 1000
    usage = Cells(Row(answer.mapping("usage"), row.line), problems)
    case.prompt_tokens, case.completion_tokens = (
        usage.whole("input_tokens"),
        usage.whole("output_tokens"),
    )
    for name, score in cells.mapping("scores").items():
        case.stored += _scores(name, score if isinstance(score, dict) else {"value": score})
    case.labels = {
        name: value
        for name in ("difficulty", "category", "lang")
        if isinstance(value := metadata.get(name), str)
    }
    case.extra = {
        "metadata": metadata,
        **{name: value for name in ("limit", "retries") if (value := cells.take(name))},
    }
    return with_roles(case, row, columns, problems)


def _frame_case(row: Row, problems: Problems, columns: dict[str, str]) -> Case:
    """A row of `samples_df`: it has no answer, and its texts may be cut."""
    cells = Cells(row, problems)
    said = cells.text("input") or ""
    case = Case(
        row.line,
        query=re.sub(r"^user:\s*", "", said).strip(),
        query_id=cells.identifier("id"),
        repeat=cells.whole("epoch"),
    )
    case.error, case.reference_answer = cells.text("error") or None, cells.text("target")
    seconds = cells.number("working_time", "total_time")
    case.latency_ms = None if seconds is None else seconds * 1000
    for name in [name for name in cells.values if name.startswith("score_")]:
        value = cells.take(name)
        if value is not None or case.error is None:
            case.stored += _scores(name.removeprefix("score_"), {"value": value})
    case.extra = {
        name: value
        for name, value in cells.values.items()
        if name.startswith("metadata_") and value is not None
    }
    return with_roles(case, row, columns, problems)


def _scores(name: str, score: dict[str, Any]) -> list[Stored]:
    """A score; of one that is a mapping, one per member. None or NaN is a scorer that gave none."""
    value = score.get("value")
    about = {"reason": score["explanation"]} if isinstance(score.get("explanation"), str) else {}
    judged = name not in DETERMINISTIC
    if isinstance(value, dict):
        return [
            stored(f"{name}.{member}", LETTERS.get(str(one), one), is_judged=judged, **about)
            for member, one in value.items()
        ]
    number = LETTERS.get(value, value) if isinstance(value, str) else value
    found = stored(
        name,
        number,
        same=SAME,
        is_judged=judged,
        verdict=value if isinstance(value, str) else None,
        **about,
    )
    if found.value is None and found.verdict is None:
        found.error = found.reason or "unscored"
    return [found]


def _question(value: Any) -> str | None:
    """The input, or the last user message of it."""
    value = nested(value)
    if isinstance(value, list):
        said = [
            one.get("content")
            for one in value
            if isinstance(one, dict) and one.get("role", "user") == "user"
        ]
        value = said[-1] if said else None
        if isinstance(value, list):
            value = " ".join(
                str(one["text"])
                for one in value
                if isinstance(one, dict) and isinstance(one.get("text"), str)
            )
    return value if isinstance(value, str) else None


def _target(value: Any) -> str | None:
    """The target; the first of several that are all right."""
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, str) and first else None

"""Inspect AI's logs (`.json`; `.eval` through `inspect_ai.log`) and its `samples_df` -> cases.

Epochs become repeats. The place of the passages in a sample is each task author's own convention:
name it, as in `columns={"chunk_id": "metadata.sources"}`.
"""

import re
from pathlib import Path
from typing import Any

from ragscore.frames.errors import DataError, to_install
from ragscore.io.detect import Sample
from ragscore.io.rows import Source, nested, table_rows
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Case, Imported, Stored, imported
from ragscore.io.tools.cells import SAME as COMMON
from ragscore.io.tools.cells import Cells, json_text, labels_in, stored, with_roles, without_missing

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
SAME = {**COMMON, "exact": "exact_match", "f1": "token_f1"}
"""Its scorers with our formula. It rounds f1 to two digits; both take the best of the targets."""
DETERMINISTIC = ("includes", "match", "exact", "f1", "choice", "pattern", "answer")


def fits(seen: Sample) -> bool:
    """Return True for a log, or a frame of its samples."""
    is_log = seen.has("eval", "status") or (seen.kind == "zip" and seen.has("header.json"))
    return is_log or seen.has("eval_id", "epoch", "input")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per sample and epoch; a sample's target is its reference answer."""
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
    spec = cells.part("eval")
    config = json_text(spec.values)
    about = {"system": spec.text("model"), "suite": spec.text("task"), "config": config}
    cases = [
        _case(Row(sample, number), problems, columns)
        for number, sample in enumerate(cells.records("samples"), 1)
    ]
    return imported(cases, without_missing(described | about), problems)


def _eval_log(path: Path) -> dict[str, Any]:
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise DataError(
            "the package inspect_ai is missing",
            file=path,
            allowed=f"{to_install('inspect')}; or the log as JSON (inspect log convert --to json)",
        ) from error
    try:
        log = read_eval_log(str(path), resolve_attachments=True)
        return dict(log.model_dump(mode="json", exclude_none=True))
    except Exception as error:  # its readers raise many kinds for a broken file
        raise DataError(f"inspect_ai can't read it ({error})", file=path) from error


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Case:
    cells = Cells(row, problems)
    metadata, output = cells.mapping("metadata"), cells.part("output")
    case = Case(
        row.line,
        query=_query(cells.take("input")),
        query_id=cells.identifier("id"),
        repeat=cells.whole("epoch"),
    )
    error = cells.take("error")
    if isinstance(error, dict):
        case.error = str(error.get("message") or "error")
    else:
        case.error = cells.of({"error": error}).text("error") or None
    case.answer = None if case.error else output.text("completion")
    case.reference_answer = _target(cells.take("target"))
    # working time leaves out waiting for rate limits
    case.latency_ms = cells.milliseconds("working_time", "total_time")
    usage = output.part("usage")
    case.prompt_tokens = usage.whole("input_tokens")
    case.completion_tokens = usage.whole("output_tokens")
    for name, score in cells.mapping("scores").items():
        case.stored += _scores(name, score if isinstance(score, dict) else {"value": score})
    case.labels = labels_in(metadata)
    own = {name: value for name in ("limit", "retries") if (value := cells.take(name))}
    case.extra = {"metadata": metadata} | own
    return with_roles(case, row, columns, problems)


def _frame_case(row: Row, problems: Problems, columns: dict[str, str]) -> Case:
    """Return a row of `samples_df` as a case; it has no answer, and its texts may be cut."""
    cells = Cells(row, problems)
    case = Case(
        row.line,
        query=re.sub(r"^user:\s*", "", cells.text("input") or "").strip(),
        query_id=cells.identifier("id"),
        repeat=cells.whole("epoch"),
    )
    case.error, case.reference_answer = cells.text("error") or None, cells.text("target")
    case.latency_ms = cells.milliseconds("working_time", "total_time")
    for name in [name for name in cells.values if name.startswith("score_")]:
        value = cells.take(name)
        if value is not None or case.error is None:
            case.stored += _scores(name.removeprefix("score_"), {"value": value})
    own = {name: one for name, one in cells.values.items() if name.startswith("metadata_")}
    case.extra = without_missing(own)
    return with_roles(case, row, columns, problems)


def _scores(name: str, score: dict[str, Any]) -> list[Stored]:
    """Return a score, or one per member of a score that is a mapping.

    None or NaN means that the scorer gave no score.
    """
    value, explanation = score.get("value"), score.get("explanation")
    about: dict[str, Any] = {"is_judged": name not in DETERMINISTIC}
    about |= {"reason": explanation} if isinstance(explanation, str) else {}
    if isinstance(value, dict):
        return [
            stored(f"{name}.{member}", LETTERS.get(str(one), one), **about)
            for member, one in value.items()
        ]
    is_text = isinstance(value, str)
    number = LETTERS.get(value, value) if isinstance(value, str) else value
    found = stored(name, number, same=SAME, verdict=value if is_text else None, **about)
    if found.value is None and found.verdict is None:
        found.error = found.reason or "unscored"
    return [found]


def _query(value: Any) -> str | None:
    """Return the input, or the last user message of it."""
    value = nested(value)
    if isinstance(value, list):
        messages = [
            one.get("content")
            for one in value
            if isinstance(one, dict) and one.get("role", "user") == "user"
        ]
        value = messages[-1] if messages else None
        if isinstance(value, list):
            parts = [one.get("text") for one in value if isinstance(one, dict)]
            value = " ".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) else None


def _target(value: Any) -> str | None:
    """Return the target, or the first of several right ones."""
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, str) and first else None

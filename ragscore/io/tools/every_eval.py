"""Every Eval Ever: a record of reported results -> aggregates; its samples -> cases."""

import re
from pathlib import Path
from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.records import Record
from ragscore.io.rows import Source, json_value, table_rows
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Imported, aggregate, imported, one_per_query
from ragscore.io.tools.cells import Cells, stored, with_roles, without_missing


def fits(seen: Sample) -> bool:
    """Return True for a record, or for samples."""
    is_samples = seen.has("evaluation_id", "sample_id", "evaluation")
    return is_samples or seen.has("evaluation_id", "evaluation_results", "model_info")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per sample, with the record beside it; or a record's results alone."""
    rows = list(table_rows(source, problems))
    are_samples = bool(rows) and "sample_id" in rows[0].values
    record = rows[0].values if rows and not are_samples else _beside(source)
    cells = Cells(Row(record, 1), problems)
    model = cells.part("model_info")
    results = [cells.of(one) for one in cells.records("evaluation_results")]
    configs = {
        one.values.get("evaluation_result_id", one.values.get("evaluation_name")): _about(one)
        for one in results
    }
    cases = [_case(row, problems, columns, configs) for row in rows] if are_samples else []
    told = {
        "system": model.text("id", "name"),
        "aggregates": [row for one in results for row in _aggregates(one, are_samples)],
    }
    return imported(one_per_query(cases), described | without_missing(told), problems)


def _beside(source: Source) -> dict[str, Any]:
    """Return the record that samples belong to, the file of the same name."""
    if not isinstance(source, Path):
        return {}
    file = source.with_name(re.sub(r"_samples\.jsonl(\.gz)?$", ".json", source.name))
    content = json_value(file) if file != source and file.exists() else {}
    return content if isinstance(content, dict) else {}


def _about(result: Cells) -> dict[str, Any]:
    """Return direction and range of a result."""
    config = result.of(dict(result.values.get("metric_config") or {}))
    is_lower = config.flag("lower_is_better")
    better = None if is_lower is None else "lower" if is_lower else "higher"
    return {
        "better": better, "lowest": config.number("min_score"),
        "highest": config.number("max_score"),
    }  # fmt: skip


def _aggregates(result: Cells, has_samples: bool) -> list[dict[str, Any]]:
    name, about = result.text("evaluation_name") or "score", _about(result)
    details = result.part("score_details")
    if (score := details.number("score")) is None:
        return []
    n = details.of(details.mapping("uncertainty")).whole("num_samples")
    counts = [] if n is None else [aggregate(name, float(n), name, statistic="n")]
    return [aggregate(name, score, name if has_samples else None, **about), *counts]


def _case(
    row: Row, problems: Problems, columns: dict[str, str], configs: dict[Any, dict[str, Any]]
) -> Record:
    cells = Cells(row, problems)
    given, output, verdict = (cells.part(name) for name in ("input", "output", "evaluation"))
    result_id, name = cells.text("evaluation_result_id"), cells.text("evaluation_name") or "score"
    about = configs.get(result_id, configs.get(name, {}))
    case = Record(row.line, cells.identifier("sample_id"))
    case.response["query"] = given.text("raw", "formatted")
    references = given.texts("reference") or []
    case.reference_answer = references[0] if references else None
    answers = output.texts("raw") or []
    case.response["answer"] = answers[0] if answers else None
    usage = cells.part("token_usage")
    case.response["prompt_tokens"] = usage.whole("input_tokens")
    case.response["completion_tokens"] = usage.whole("output_tokens")
    score = verdict.pop("score")
    value = verdict.pop("is_correct") if score is None else score
    case.stored = [stored(name, value, is_judged=False, same={}, **about)]
    case.extra = without_missing(cells.mapping("metadata"))
    return with_roles(case, row, columns, problems)

"""lm-evaluation-harness's samples -> cases, with the means that are reported beside them.

The files are `samples_<task>_<time>.jsonl` and `results_<time>.json`.
"""

import re
from pathlib import Path
from typing import Any

from ragscore.io.records import Record
from ragscore.io.rows import Source, json_value, table_rows
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tools.cases import Imported, aggregate, imported, one_per_query
from ragscore.io.tools.cells import (
    QUERY_KEYS,
    Cells,
    json_text,
    stored,
    text_in,
    with_roles,
    without_missing,
)
from ragscore.io.values import as_number


def _object_in(file: Path) -> dict[str, Any]:
    """Return the object that a file holds; an empty one without the file."""
    content = json_value(file) if file.exists() else {}
    return content if isinstance(content, dict) else {}


_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT.+)\.jsonl(\.gz)?")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per document, and what the results beside the samples report of their task.

    A line is one document under one filter; those of a document make one case, with the metrics
    `exact_match,none`, `exact_match,strict-match` and so on, as the harness calls them.
    """
    named = _SAMPLES.fullmatch(source.name) if isinstance(source, Path) else None
    task = ""
    beside: dict[str, Any] = {}
    if named is not None and isinstance(source, Path):
        task = named["task"]
        beside = _object_in(source.with_name(f"results_{named['time']}.json"))
    about = Cells(Row(beside, 1), problems)
    better = about.mapping("higher_is_better").get(task) or {}
    cases = [_document_case(row, problems, columns, better) for row in table_rows(source, problems)]
    n_items = as_number((about.mapping("n-samples").get(task) or {}).get("effective"))
    means = []
    for name, value in (about.mapping("results").get(task) or {}).items():
        metric, _, filter = name.partition(",")
        if (number := as_number(value)) is None or not filter or metric.endswith("_stderr"):
            continue
        means.append(aggregate(name, number, name) | _direction(better, metric))
        if n_items is not None:
            means.append(aggregate(name, n_items, name, statistic="n"))
    told = {
        "system": about.text("model_name"), "suite": task or None, "aggregates": means,
        "config": json_text(beside["config"]) if "config" in beside else None,
    }  # fmt: skip
    return imported(one_per_query(cases), described | without_missing(told), problems)


def _direction(better: dict[str, bool], metric: str) -> dict[str, str]:
    told = better.get(metric)
    return {} if told is None else {"better": "higher" if told else "lower"}


def _document_case(
    row: Row, problems: Problems, columns: dict[str, str], better: dict[str, bool]
) -> Record:
    cells = Cells(row, problems)
    doc, filter = cells.mapping("doc"), cells.text("filter") or "none"
    prompt = cells.pop("arguments")  # the first argument of the first request
    while isinstance(prompt, (list, dict)) and prompt:
        prompt = next(iter(prompt.values())) if isinstance(prompt, dict) else prompt[0]
    answers, target = cells.pop("filtered_resps"), cells.pop("target")
    first = answers[0] if isinstance(answers, list) and answers else None
    case = Record(row.line, cells.identifier("doc_id"), extra={"doc": doc})
    case.response = {
        "query": text_in(doc, (*QUERY_KEYS, "problem")) or as_text(prompt),
        "answer": first if isinstance(first, str) else None,
    }
    case.reference_answer = target if isinstance(target, str) else None
    for name in cells.texts("metrics") or []:
        value = cells.pop(name)
        if isinstance(value, bool) or as_number(value) is not None:
            about = _direction(better, name)
            case.stored.append(stored(f"{name},{filter}", value, is_judged=False, same={}, **about))
    return with_roles(case, row, columns, problems)

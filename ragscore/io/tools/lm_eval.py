"""lm-evaluation-harness: `samples_<task>_<time>.jsonl` -> cases; `results_<time>.json` beside it.

A line is one document under one filter; those of a document make one case, with the metrics
`exact_match,none`, `exact_match,strict-match` and so on, as the harness calls them.
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

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT.+)\.jsonl(\.gz)?")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per document, and what the results beside the samples report of their task."""
    named = _NAME.fullmatch(source.name) if isinstance(source, Path) else None
    beside: dict[str, Any] = {}
    if named is not None and isinstance(source, Path):
        file = source.with_name(f"results_{named['time']}.json")
        content = json_value(file) if file.exists() else {}
        beside = content if isinstance(content, dict) else {}
    task = named["task"] if named else ""
    about = Cells(Row(beside, 1), problems)
    better = about.mapping("higher_is_better").get(task) or {}
    cases = [_case(row, problems, columns, better) for row in table_rows(source, problems)]
    values = about.mapping("results").get(task) or {}
    n_items = (about.mapping("n-samples").get(task) or {}).get("effective")
    told = {
        "system": about.text("model_name"), "suite": task or None,
        "config": json_text(beside["config"]) if "config" in beside else None,
        "aggregates": _aggregates(values, better, n_items),
    }  # fmt: skip
    return imported(one_per_query(cases), described | without_missing(told), problems)


def _aggregates(
    values: dict[str, Any], better: dict[str, bool], n_items: Any
) -> list[dict[str, Any]]:
    found = []
    for name, value in values.items():
        metric, _, filter = name.partition(",")
        if (number := as_number(value)) is None or not filter:
            continue
        if metric.endswith("_stderr"):
            continue
        found.append(aggregate(name, number, name) | _direction(better, metric))
        if (n := as_number(n_items)) is not None:
            found.append(aggregate(name, n, name, statistic="n"))
    return found


def _direction(better: dict[str, bool], metric: str) -> dict[str, str]:
    told = better.get(metric)
    return {} if told is None else {"better": "higher" if told else "lower"}


def _case(row: Row, problems: Problems, columns: dict[str, str], better: dict[str, bool]) -> Record:
    cells = Cells(row, problems)
    doc, filter = cells.mapping("doc"), cells.text("filter") or "none"
    case = Record(row.line, cells.identifier("doc_id"))
    case.response["query"] = text_in(doc, (*QUERY_KEYS, "problem")) or _prompt(cells)
    answers = cells.pop("filtered_resps")
    first = answers[0] if isinstance(answers, list) and answers else None
    case.response["answer"] = first if isinstance(first, str) else None
    target = cells.pop("target")
    case.reference_answer = target if isinstance(target, str) else None
    for name in cells.texts("metrics") or []:
        value = cells.pop(name)
        if isinstance(value, bool) or as_number(value) is not None:
            about = _direction(better, name)
            case.stored.append(stored(f"{name},{filter}", value, is_judged=False, same={}, **about))
    case.extra = {"doc": doc}
    return with_roles(case, row, columns, problems)


def _prompt(cells: Cells) -> str | None:
    """Return the prompt of a document: the first argument of its first request."""
    given = cells.pop("arguments")
    while isinstance(given, (list, dict)) and given:
        given = next(iter(given.values())) if isinstance(given, dict) else given[0]
    return as_text(given)

"""BEIR's means: `{"NDCG@10": 0.4}`, or a mapping of those by measure -> reported means."""

import re
from pathlib import Path
from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.rows import Source, json_value
from ragscore.io.source import Problems
from ragscore.io.tools.cases import Imported, aggregate, imported
from ragscore.io.values import as_number

_NAME = re.compile(
    r"(ndcg|map|recall|p|precision|mrr|r_cap|hole|accuracy|top_k_accuracy)@\d+", re.I
)


def fits(seen: Sample) -> int:
    """Return a mark for numbers under names of measures alone."""
    values = _values(seen.first) if seen.kind in ("json", "jsonl") else {}
    is_named = bool(values) and all(_NAME.fullmatch(name) for name in values)
    return 3 * (is_named and all(as_number(one) is not None for one in values.values()))


def _values(content: Any) -> dict[str, Any]:
    """Return the values of a mapping, and of those in it, by name."""
    found: dict[str, Any] = {}
    for name, value in content.items() if isinstance(content, dict) else ():
        found |= value if isinstance(value, dict) else {name: value}
    return found


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read the means; there are no rows."""
    assert isinstance(source, Path)
    values = {name: as_number(one) for name, one in _values(json_value(source)).items()}
    rows = [
        aggregate(name, value) | _label(name) for name, value in values.items() if value is not None
    ]
    return imported([], described | {"aggregates": rows}, problems)


def _label(name: str) -> dict[str, str]:
    """Return our label where it is another than the name tells: gains are grades in BEIR's nDCG."""
    measure, _, k = name.partition("@")
    return {"label": f"ndcg_linear@{k}"} if measure.lower() == "ndcg" else {}

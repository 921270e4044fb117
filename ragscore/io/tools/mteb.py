"""MTEB's results (version 2), a file per task or a model's folder of them -> reported means.

A mean is that of one task, split and subset: `SciFact/test/ndcg_at_10`. There are no rows.
"""

from pathlib import Path
from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.rows import Source, json_value
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Imported, aggregate, imported
from ragscore.io.tools.cells import Cells, json_text, without_missing
from ragscore.io.values import as_number

META = "model_meta.json"


def fits(seen: Sample) -> bool:
    """Return True for a task's file, or a folder with the model's description beside such files."""
    is_task = seen.has("task_name", "scores") or seen.has("mteb_version", "scores")
    return is_task or (seen.kind == "folder" and META in seen.keys)


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read the means of a task, or of all tasks of a model."""
    assert isinstance(source, Path)
    is_folder = source.is_dir()
    folder = source if is_folder else source.parent
    files = sorted(source.glob("*.json")) if is_folder else [source]
    rows: list[dict[str, Any]] = []
    for file in (one for one in files if one.name != META):
        cells = Cells(Row(dict(json_value(file)), 1), problems)
        task = cells.text("task_name") or file.name.removesuffix(".json")
        for split, subsets in cells.mapping("scores").items():
            for subset in map(cells.of, subsets):
                rows += _means(f"{task}/{split}", subset, len(subsets) > 1)
    meta = json_value(folder / META) if (folder / META).exists() else {}
    told = {"system": meta.get("name"), "config": json_text(meta) if meta else None}
    if not is_folder and rows:
        told["suite"] = rows[0]["metric"].partition("/")[0]
    return imported([], described | without_missing(told) | {"aggregates": rows}, problems)


def _means(place: str, subset: Cells, are_several: bool) -> list[dict[str, Any]]:
    name = subset.text("hf_subset")
    place = f"{place}/{name}" if are_several or name not in (None, "default") else place
    numbers = {key: as_number(one) for key, one in subset.values.items()}
    return [
        aggregate(f"{place}/{key}", value) for key, value in numbers.items() if value is not None
    ]

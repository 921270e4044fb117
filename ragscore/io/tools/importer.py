"""Formats whose files have labels and results side by side -> a format of each.

The reader of such a format takes `(source, problems, described, columns)` and returns `Imported`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.io.columns import Columns, is_role, unknown_role
from ragscore.io.detect import Format, function_at
from ragscore.io.golden_read import check_catalogue
from ragscore.io.rows import Source
from ragscore.io.source import Problems
from ragscore.io.tools.cases import Imported
from ragscore.io.tools.cells import EXPECTED


def run_name_of(source: Source) -> str:
    """Return the name of a run that has none: that of its file, or "run"."""
    if isinstance(source, pd.DataFrame):
        return "run"
    return source.name.removesuffix(".gz").rsplit(".", 1)[0] or source.name


def result_part(tool: Format, *options: str) -> Format:
    """Return a tool as a format of results; with the option `columns`, also of its DataFrames."""
    return replace(tool, read=_results_part(tool), options=(*options, "run_id"))


def golden_part(tool: Format, *options: str) -> Format:
    """Return a tool as a format of golden files."""
    about = (*tool.about[2:], "as for results")
    return replace(tool, read=_golden_part(tool), options=options, about=about, write=None)


def _read(
    tool: Format,
    source: Source,
    run_id: str | None,
    columns: Columns | None,
    side: str,
    strict: bool,
    calls_from: Mapping[str, str] | None = None,
) -> Imported:
    name = "frame" if isinstance(source, pd.DataFrame) else str(source)
    for role in columns or {}:
        if not is_role(role, side):
            raise unknown_role(role, side, name)
    expected = EXPECTED if side == "golden" else {}
    given = {role: column for role, column in (columns or {}).items() if column is not None}
    roles = {expected.get(role, role): column for role, column in given.items()}
    described = {
        "run_id": run_id or run_name_of(source),
        "is_golden": side == "golden",
        "are_repeats": "repeat" in (columns or {}),
        "calls_from": calls_from,
    }
    try:
        found: Imported = function_at(tool.read)(source, Problems(name, strict), described, roles)
    except RecursionError as error:
        raise DataError("nested too deeply", file=name) from error
    return found


def labels_beside(tool: Format, source: Path) -> Golden | None:
    """Return the labels, tags and texts of queries that a file of results holds, too."""
    described = {"run_id": run_name_of(source), "is_golden": True, "are_queries": True}
    found: Imported = function_at(tool.read)(source, Problems(source, False), described, {})
    return found.golden


def _results_part(tool: Format) -> Callable[..., Results]:
    def read(
        source: Source,
        strict: bool,
        columns: Columns | None = None,
        run_id: str | None = None,
        calls_from: Mapping[str, str] | None = None,
    ) -> Results:
        found = _read(tool, source, run_id, columns, "results", strict, calls_from).results
        if found is None:
            raise DataError(
                "labels only: nothing that a system answered",
                file="frame" if isinstance(source, pd.DataFrame) else source,
                allowed="a file with answers, passages or scores; load_golden reads this one",
            )
        return found

    return read


def _golden_part(tool: Format) -> Callable[..., Golden]:
    def read(
        source: Source,
        strict: bool,
        absent_docs: str,
        catalogue: pd.DataFrame | None,
        columns: Columns | None = None,
    ) -> Golden:
        found = _read(tool, source, None, columns, "golden", strict).golden
        file: Path | str = "frame" if isinstance(source, pd.DataFrame) else source
        if found is None:
            raise DataError(
                "no labels: nothing says what is right",
                file=file,
                allowed="a file with references; load_results reads this one",
            )
        if catalogue is not None:
            problems = Problems(file, strict)
            check_catalogue(found.targets, catalogue, problems)
            found = replace(
                found, problems=pd.concat([found.problems, problems.frame()], ignore_index=True)
            )
        if absent_docs == "refuse":
            has_targets = is_among(found.queries["query_id"], found.targets["query_id"])
            answerable = pd.array(has_targets, dtype="boolean")
            found = replace(found, queries=found.queries.assign(answerable=answerable))
        return found

    return read

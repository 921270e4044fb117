"""The importers of other tools' files: one line per tool, and the functions that users call."""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, records_of
from ragscore.frames.errors import warn
from ragscore.io.detect import Format, Sample, matching_format, sample
from ragscore.io.golden_read import check_catalogue
from ragscore.io.rows import Source
from ragscore.io.source import Problems
from ragscore.io.tools import cells, deepeval, inspect_log, mlflow, phoenix, promptfoo, ragas
from ragscore.io.tools.cases import Imported

Read = Callable[[Source, Problems, dict[str, Any], dict[str, str]], Imported]


TOOLS = [
    Format("ragas", ragas.fits, ragas.read),
    Format("promptfoo", promptfoo.fits, promptfoo.read),
    Format("inspect", inspect_log.fits, inspect_log.read),
    Format("deepeval", deepeval.fits, deepeval.read),
    Format("mlflow", mlflow.fits, mlflow.read),
    Format("phoenix", phoenix.fits, phoenix.read),
    Format("table", cells.fits, cells.read),
]


def import_results(
    source: str | os.PathLike[str] | pd.DataFrame,
    format: str | None = None,
    *,
    columns: dict[str, str] | None = None,
    run_id: str | None = None,
    strict: bool = False,
) -> Imported:
    """Read another evaluation tool's file: its runs, its labels and its scores.

    Parameters
    ----------
    source
        A file (CSV, JSON, JSON lines, Parquet, `.eval`), or the tool's DataFrame.
    format
        "ragas", "promptfoo", "inspect", "deepeval", "mlflow", "phoenix" or "table" (columns named
        by role); needed only if the content doesn't tell it.
    columns
        Role -> column, or dotted path into a record, over what the format says: `{"retrieved_ids":
        "metadata.sources"}`. `load_table` lists the roles.
    run_id
        The run's name; by default the file's, without its ending.
    strict
        True stops at the first fault instead of returning it in `problems`.

    Returns
    -------
    `Imported(results, golden, problems)`; results or golden is None if the file has none. A query
    without an id gets one made from its text. Further answers to it become repeats, each in a run
    of its own (`<run>-r2`). A judge that failed is a row of `results.judgments` with state
    "judge_failed" and value NaN. Scores that the tool stored are in `results.reported`, under our
    name if it is the same metric. A cached answer has no latency. Passages without an id get one
    made from their text.

    Raises
    ------
    DataError
        No such file, a format that can't be told or read; with `strict`, any fault.

    Warns
    -----
    UserWarning
        Queries that appear more than once; faults that were left out (see `problems`).
    """
    roles = cells.check_roles(columns)
    found = _read(_tool(source, format).read, source, run_id, roles, strict)
    if len(found.problems):
        first = found.problems.iloc[0]
        n = "1 fault" if len(found.problems) == 1 else f"{len(found.problems)} faults"
        field = "" if pd.isna(first["field"]) else f"{first['field']}: "
        text = f"{first['file']}: {n} left out, first {field}{first['found']}; see .problems"
        warn(text)
    return found


def load_table(
    source: str | os.PathLike[str] | pd.DataFrame,
    columns: dict[str, str] | None = None,
    *,
    run_id: str | None = None,
    strict: bool = True,
) -> tuple[Results, Golden | None]:
    """Return results, and labels if there are any, of a table whose columns you name by role.

    The table is a DataFrame or a file.

    Parameters
    ----------
    columns
        Role -> column. A column that has a role's name already need not be named. Roles: query_id,
        run_id, repeat, query, answer, refused, error, latency_ms, prompt_tokens, completion_tokens,
        cost_usd; retrieved_ids, retrieved_doc_ids, retrieved_texts, retrieved_scores (lists by
        rank; in CSV as JSON or Python's repr); gold_ids, gold_doc_ids, gold_texts (lists),
        gold_answer, answerable, lang, difficulty, category, group, variant, tags, vaults, folders,
        must_contain, forbidden, key_facts; and `score.<metric>`, `reason.<metric>`,
        `scorer_error.<metric>`. Other columns are kept as `x_<name>`.

    Raises
    ------
    DataError
        An unknown role, a row with neither query nor id, a value of the wrong kind, or no answers
        of a system.
    """
    roles = cells.check_roles(columns)
    found = _read(cells.read, source, run_id, roles, strict)
    if found.results is None:
        raise DataError(
            "no column says what a system answered",
            field="columns",
            allowed=(
                "answer, retrieved_ids, error or score.<metric>; rs.import_results reads labels"
                " alone"
            ),
        )
    return found.results, found.golden


def _tool(source: str | os.PathLike[str] | pd.DataFrame, format: str | None) -> Format:
    """Return the format asked for, or the only one that fits the content."""
    if isinstance(source, pd.DataFrame):
        seen = Sample(Path("frame"), "frame", frozenset(map(str, source.columns)))
    elif not isinstance(source, (str, os.PathLike)):
        found = f"found {type(source).__name__}"
        raise DataError(found, field="source", allowed="a path or a DataFrame")
    elif not Path(source).is_file():
        raise DataError("no such file", file=str(source), allowed="a path or a DataFrame")
    else:
        seen = sample(Path(source))
    return matching_format(seen, TOOLS, format, "tools' results")


def _read(
    read: Read,
    source: str | os.PathLike[str] | pd.DataFrame,
    run_id: str | None,
    columns: dict[str, str],
    strict: bool,
) -> Imported:
    if not isinstance(source, pd.DataFrame):
        source = Path(source)
        if not source.is_file():
            raise DataError("no such file", file=source)
    name = "frame" if isinstance(source, pd.DataFrame) else source.name
    stem = name.removesuffix(".gz").rsplit(".", 1)[0] or name
    problems = Problems("frame" if isinstance(source, pd.DataFrame) else source, strict)
    try:
        return read(source, problems, {"run_id": run_id or stem}, columns)
    except RecursionError as error:
        raise DataError("nested too deeply", file=name) from error


def result_formats() -> list[Format]:
    """Return the tools as formats of results, for `load_results`."""
    return [Format(tool.name, tool.fits, _results_part(tool)) for tool in TOOLS]


def golden_formats() -> list[Format]:
    """Return the tools as formats of golden files, for `load_golden`."""
    return [Format(tool.name, tool.fits, _golden_part(tool)) for tool in TOOLS]


def _results_part(tool: Format) -> Callable[[Path, bool], Results]:
    def read(path: Path, strict: bool) -> Results:
        found = _read(tool.read, path, None, {}, strict).results
        if found is None:
            raise DataError(
                "labels only: nothing that a system answered",
                file=path,
                allowed="a file with answers, passages or scores; load_golden reads this one",
            )
        return found

    return read


def _golden_part(tool: Format) -> Callable[[Path, bool, str, pd.DataFrame | None], Golden]:
    def read(path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None) -> Golden:
        with warnings.catch_warnings():
            # Repeats concern the results only.
            warnings.filterwarnings("ignore", ".*more than once.*", UserWarning)
            found = _read(tool.read, path, None, {}, strict).golden
        if found is None:
            raise DataError(
                "no labels: nothing says what is right",
                file=path,
                allowed="a file with references; load_results reads this one",
            )
        if catalogue is not None:
            problems = Problems(path, strict)
            check_catalogue(records_of(found.targets), catalogue, problems)
            found = replace(
                found, problems=pd.concat([found.problems, problems.frame()], ignore_index=True)
            )
        if absent_docs == "refuse":
            has_targets = is_among(found.queries["query_id"], found.targets["query_id"])
            answerable = pd.array(has_targets, dtype="boolean")
            found = replace(found, queries=found.queries.assign(answerable=answerable))
        return found

    return read

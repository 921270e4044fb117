"""Our run file, `per_query.jsonl` with `run.json` beside it -> `Results`.

It is a superset of kebab's record; older records without later fields load. Fields that no column
takes are kept in `x_*` columns.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.file_content import line_blocks, lines_of
from ragscore.io.parsed_lines import LineParser
from ragscore.io.record import LEFT_OPEN, STATED, TYPES, columns_of, with_refusals_implied
from ragscore.io.run_records import Level, NotPlain, Reader, listed
from ragscore.io.sidecars import (
    JUDGMENTS_FILE,
    LEDGER_FILE,
    read_judgments,
    read_run_json,
    run_record,
)
from ragscore.io.source import Problems, Row, as_id, describe, json_rows
from ragscore.io.values import ID_ALLOWED

RUN_FIELDS = ("run_id", "run_name", "run", "system")
"""Fields that may name the run of a record. A file holds one run, so they have one value."""


def read_per_query(path: Path, strict: bool) -> Results:
    """Read one run: its records, and `run.json` and `judgments.jsonl` if they are there."""
    _check_name(path)
    problems = Problems(path, strict)
    run = _run(path, problems)
    frames = _frames_of_file(path, run["run_id"], problems)
    problems.typos.warn()
    judgments = _judgments(path, run, problems)
    results = _results(run, frames, problems)
    return replace(results, judgments=judgments) if judgments is not None else results


def _check_name(path: Path) -> None:
    if path.name in (JUDGMENTS_FILE, LEDGER_FILE):
        raise DataError(
            "these are a run's judgments, not a run",
            file=path,
            allowed="the per_query.jsonl beside it, with which they are read",
        )


def _judgments(path: Path, run: dict[str, Any], problems: Problems) -> pd.DataFrame | None:
    if not path.name.startswith("per_query."):
        return None
    return read_judgments(path.parent / JUDGMENTS_FILE, run["run_id"], problems)


def _run(path: Path, problems: Problems) -> dict[str, Any]:
    """Return the run as `run.json` describes it.

    Without one, a run is named after its file, or after its folder if the file is `per_query`.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    named = {"run_id": path.absolute().parent.name if stem == "per_query" else stem}
    run_json = path.parent / "run.json"
    if stem != "per_query" or not run_json.exists():
        return run_record(named, path)
    faults = problems.for_file(run_json)
    described, lines = read_run_json(run_json, faults)
    if "run_id" in described and as_id(described["run_id"]) is None:
        faults.reject(described.pop("run_id"), lines.get("run_id"), "run_id", ID_ALLOWED)
    for name in ("n_queries", "n_failed"):  # counted anew
        described.pop(name, None)
    run = run_record({**named, **described}, run_json, lines=lines, problems=faults)
    faults.typos.warn()
    return run


def results_of(run: dict[str, Any], rows: Iterable[Row], problems: Problems) -> Results:
    """Return the records of one run as `Results`."""
    return _results(run, frames_of(rows, run["run_id"], problems), problems)


def frames_of(rows: Iterable[Row], run_id: str, problems: Problems) -> dict[str, pd.DataFrame]:
    """Return the frames of the records of one run."""
    reader = Reader(columns_of, problems)
    reader.read(_Seen(problems).records(rows))
    return _frames(reader, run_id)


def _frames_of_file(path: Path, run_id: str, problems: Problems) -> dict[str, pd.DataFrame]:
    """Read a file block by block."""
    reader = Reader(columns_of, problems)
    seen, parser = _Seen(problems), LineParser(TYPES)
    for begin, block in line_blocks(path):
        parsed = parser.parse(begin, block)
        if parsed is None or not _is_added(parsed, reader, seen):
            parser.is_off |= parsed is not None
            rows = json_rows(path, problems, lines_of(block, path, begin), begin)
            reader.read(seen.records(parser.learning(rows)))
    return _frames(reader, run_id)


def _is_added(records: Level, reader: Reader, seen: "_Seen") -> bool:
    """Add a parsed block; return False if its lines have to be looked at."""
    lines = records.batch.lines
    try:
        ids = seen.ids_of(records)
        reader.add(records)
    except (NotPlain, pa.ArrowException):
        return False
    seen.lines |= zip(ids, lines.tolist(), strict=True)
    return True


def _frames(reader: Reader, run_id: str) -> dict[str, pd.DataFrame]:
    frames = reader.frames(run_id)
    is_stated = STATED in reader.notes and LEFT_OPEN not in reader.notes
    frames["responses"] = with_refusals_implied(frames["responses"], is_stated)
    return frames


@dataclass
class _Seen:
    """The line of each query id, and the names of the run, in the records of a file so far."""

    problems: Problems
    lines: dict[str, int] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def records(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows that are records of this run, each of a query of its own."""
        for row in rows:
            if self._is_record(row):
                yield row

    def _is_record(self, row: Row) -> bool:
        values, line, problems = row.values, row.line, self.problems
        value = values.get("query_id")
        if "query_id" not in values:
            problems.add("the field is missing", line=line, field="query_id", allowed=ID_ALLOWED)
            return False
        if (query_id := as_id(value)) is None:
            problems.reject(value, line, "query_id", ID_ALLOWED)
            return False
        if query_id in self.lines:
            before, allowed = self.lines[query_id], "one record per query"
            problems.repeat(f"'{query_id}'", before, line, "query_id", allowed)
            return False
        for name in RUN_FIELDS:
            run = values.get(name)
            if run is not None and self.run.setdefault(name, run) != run:
                problems.add(
                    f"found {describe(run)} after {describe(self.run[name])}",
                    line=line,
                    field=name,
                    allowed="one run in a file; format='table' reads several",
                )
                return False
        for name, types, allowed in _PARTS:
            if not isinstance(values.get(name), types):
                problems.reject(values[name], line, name, allowed)
                return False
        self.lines[query_id] = line
        return True

    def ids_of(self, records: Level) -> list[str]:
        """Return the ids of a parsed block of records of this run, each of a query of its own.

        Raises
        ------
        NotPlain
            Anything else.
        """
        query_id, none = records.fields.get("query_id"), pa.nulls(0)
        ids = [as_id(one) for one in ([None] if query_id is None else listed(query_id))]
        is_good = None not in ids and len({*ids}) == len(ids) and self.lines.keys().isdisjoint(ids)
        for name in RUN_FIELDS:
            runs = {*listed(records.fields.get(name, none))} - {None}
            is_good &= runs <= {self.run.setdefault(name, *runs)} if len(runs) == 1 else not runs
        hits, answer = (records.fields.get(name, none).type for name in ("hits_top_k", "answer"))
        is_good &= pa.types.is_list(hits) or pa.types.is_null(hits)
        is_good &= pa.types.is_struct(answer) or answer in (pa.string(), pa.null())
        if not is_good:
            raise NotPlain
        return [str(one) for one in ids]


_PARTS = (
    ("hits_top_k", (list, type(None)), "a list"),
    ("answer", (dict, str, type(None)), "an object, text or null"),
)


def _results(run: dict[str, Any], frames: dict[str, pd.DataFrame], problems: Problems) -> Results:
    """Return the frames as `Results`, with the number of queries in the runs frame."""
    counts = {
        "n_queries": len(frames["responses"]),
        "n_failed": int(frames["responses"]["error"].notna().sum()),
    }
    return Results(
        runs=from_records([run | counts], "runs"), **frames, problems=problems.frame(run["run_id"])
    )

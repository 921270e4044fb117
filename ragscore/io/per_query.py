"""Our run file, `per_query.jsonl` with `run.json` beside it -> `Results`.

It is a superset of kebab's record; older records without later fields load. Fields that no column
takes are kept in `x_*` columns.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.files import line_blocks, lines_of
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

MISSING = "the field is missing"


def read_per_query(path: Path, strict: bool) -> Results:
    """Read one run: its records, and `run.json` and `judgments.jsonl` if they are there."""
    problems = Problems(path, strict)
    run = _run(path, problems)
    reader = _Records(columns_of, problems)
    for _ in reader.blocks(path):
        pass
    frames = reader.frames(run["run_id"])
    problems.typos.warn()
    judgments = _judgments(path, run, problems)
    results = _results(run, frames, problems)
    return results if judgments is None else replace(results, judgments=judgments)


def _judgments(path: Path, run: dict[str, Any], problems: Problems) -> pd.DataFrame | None:
    if not path.name.startswith("per_query."):
        return None
    return read_judgments(path.parent / JUDGMENTS_FILE, run["run_id"], problems)


def _run(path: Path, problems: Problems) -> dict[str, Any]:
    """Return the run as `run.json` describes it.

    Without one, a run is named after its file, or after its folder if the file is `per_query`.
    """
    if path.name in (JUDGMENTS_FILE, LEDGER_FILE):
        raise DataError(
            "these are a run's judgments, not a run",
            file=path,
            allowed="the per_query.jsonl beside it, with which they are read",
        )
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
    reader = _Records(columns_of, problems)
    reader.read(reader.of_run(rows))
    return reader.frames(run_id)


def load_pieces(path: str | os.PathLike[str], *, strict: bool = True) -> Iterator[Results]:
    """Yield a run file of any size as `Results` of some megabytes each, for `store.save`.

    The file is read twice, since the end of a run may tell whether answers at its beginning are
    refusals. Only one piece is in memory; each has the row of the whole run.
    """
    file = Path(path)
    problems = Problems(file, strict)
    run, whole = _run(file, problems), _Records(columns_of, problems)
    counts = {"n_queries": 0, "n_failed": 0}
    for parts in whole.blocks(file):
        for part in parts:
            error = part["responses"].get("error")
            counts["n_queries"] += len(part["responses"]["query_id"])
            counts["n_failed"] += 0 if error is None else len(error) - error.null_count
        parts.clear()
    problems.typos.warn()
    beside: dict[str, Any] = {
        "judgments": _judgments(file, run, problems),
        "problems": problems.frame(run["run_id"]),
    }
    reader = _Records(columns_of, Problems(file, strict=False), whole.notes)
    for parts in reader.blocks(file):
        frames = reader.frames(run["run_id"])
        yield Results(runs=from_records([run | counts], "runs"), **frames, **beside)
        beside = {}
        parts.clear()


@dataclass
class _Records(Reader):
    """Reads the records of one run, each of a query of its own.

    `lines` has the line of each query id so far, `run` the names of the run.
    """

    lines: dict[str, int] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def frames(self, run_id: str | None = None) -> dict[str, pd.DataFrame]:
        """Return the frames, with what answers imply about refusals."""
        frames = super().frames(run_id)
        is_stated = STATED in self.notes and LEFT_OPEN not in self.notes
        frames["responses"] = with_refusals_implied(frames["responses"], is_stated)
        return frames

    def blocks(self, path: Path) -> Iterator[list[Any]]:
        """Read a file block by block, and yield the parts so far after each."""
        parser = LineParser(TYPES)
        for begin, block in line_blocks(path):
            parsed = parser.parse(begin, block)
            try:
                self._add_parsed(parsed)
            except (NotPlain, pa.ArrowException):
                parser.is_off |= parsed is not None
                rows = json_rows(path, self.problems, lines_of(block, path, begin), begin)
                self.read(self.of_run(parser.learning(rows)))
            yield self.parts

    def of_run(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows that are records of this run, each of a query of its own."""
        for row in rows:
            values, line, problems = row.values, row.line, self.problems
            query_id, names = as_id(values.get("query_id")), self.run
            runs = {name: one for name in RUN_FIELDS if (one := values.get(name)) is not None}
            others = [name for name, one in runs.items() if names.get(name, one) != one]
            if query_id is None:
                is_there = "query_id" in values
                found = f"found {describe(values['query_id'])}" if is_there else MISSING
                problems.add(found, line=line, field="query_id", allowed=ID_ALLOWED)
            elif query_id in self.lines:
                what, before = f"'{query_id}'", self.lines[query_id]
                problems.repeat(what, before, line, "query_id", "one record per query")
            elif others:
                found = f"found {describe(runs[others[0]])} after {describe(names[others[0]])}"
                allowed = "one run in a file; format='table' reads several"
                problems.add(found, line=line, field=others[0], allowed=allowed)
            else:
                self.lines[query_id] = line
                self.run = runs | names
                yield row

    def _add_parsed(self, records: Level | None) -> None:
        """Add a parsed block of records of this run, each of a query of its own.

        Raises
        ------
        NotPlain
            Anything else; nothing was added.
        """
        if records is None:
            raise NotPlain
        ids = [as_id(one) for one in listed(records.fields.get("query_id", pa.nulls(1)))]
        is_good = None not in ids and len({*ids}) == len(ids) and self.lines.keys().isdisjoint(ids)
        for name in RUN_FIELDS:
            runs = {*listed(records.fields.get(name, pa.nulls(0)))} - {None}
            is_good &= runs <= {self.run.setdefault(name, *runs)} if len(runs) == 1 else not runs
        if not is_good:
            raise NotPlain
        self.add(records)
        self.lines |= zip(map(str, ids), records.batch.lines.tolist(), strict=True)


def _results(run: dict[str, Any], frames: dict[str, pd.DataFrame], problems: Problems) -> Results:
    """Return the frames as `Results`, with the number of queries in the runs frame."""
    counts = {
        "n_queries": len(frames["responses"]),
        "n_failed": int(frames["responses"]["error"].notna().sum()),
    }
    return Results(
        runs=from_records([run | counts], "runs"), **frames, problems=problems.frame(run["run_id"])
    )

"""Our run file, `per_query.jsonl` with `run.json` beside it -> `Results`.

It is a superset of kebab's record; older records without later fields load. Which field is which
column says the schema (`Part`); here is what needs several fields at once, and what answers
imply about refusals. Fields that no column takes are kept in `x_*` columns.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, Results, from_records
from ragscore.frames.schema import BESIDE, FIELDS, LAYOUT, Field
from ragscore.frames.typing import Codes, Flags
from ragscore.io.citations import SPAN_FIELDS, take_heading, take_span
from ragscore.io.files import line_blocks, lines_of, read_text
from ragscore.io.formats.fields import json_object
from ragscore.io.run_records import (
    Columns,
    Frames,
    Level,
    LineParser,
    NotPlain,
    Reader,
    Values,
    listed,
    values_of,
)
from ragscore.io.sidecars import (
    JUDGMENTS_FILE,
    LEDGER_FILE,
    read_judgments,
    run_record,
)
from ragscore.io.source import Problems, Row, as_id, describe, field_lines, json_rows
from ragscore.io.values import ARROW, ID_ALLOWED, nested_of

UNKNOWN = "unknown"
"""`refused` of an answer that tells neither that it is a refusal nor that it is none."""


WRITE: dict[str, Callable[[Any], Any]] = {"json": nested_of, "texts": json.loads}


class Part:
    """One object of our file."""

    def __init__(self, kind: str, inner: str = "", place: str = "") -> None:
        self.kind, self.place = kind, place
        prefix = f"{inner}." if inner else ""
        at = {field.at.removeprefix(prefix): field for field in FIELDS[kind]
              if field.at and field.at.startswith(prefix)}  # fmt: skip
        order = LAYOUT.get(f"{kind}.{inner}" if inner else kind, ())
        here = [name for name in at if "." not in name]
        names = [*(name for name in order if name in here), *(n for n in here if n not in order)]
        self.fields: dict[str, Field] = {name: at[name] for name in names}
        self.order = order
        self.also = {} if inner else {n: field for field in FIELDS[kind] for n in field.also}
        self.own = frozenset(self.fields)
        beside = BESIDE.get(f"{kind}.{inner}" if inner else kind, "").split()
        self.known = frozenset((*self.own, *self.also, *beside))
        self.columns = {
            name: (field.column, "number" if field.type == "score" else field.type)
            for name, field in self.fields.items()
            if field.type not in ("rank", "place") and name != "query_id"
        }

    def write(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of a row as fields, in the order of the file."""
        return {
            name: WRITE[field.type](row[field.column])
            if field.type in WRITE and field.column in row
            else row.get(field.column)
            for name, field in self.fields.items()
            if field.null or field.column in row
        }

    def write_in_order(self, row: dict[str, Any], inside: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of a row with the objects inside, in the order of the file."""
        found, written = self.write(row) | inside, dict[str, Any]()
        for name in self.order:
            if name.endswith("*"):
                begin = name[:-1]
                written |= {one: value for one, value in row.items() if one.startswith(begin)}
            elif name in found:
                written[name] = found.pop(name)
        return written | found


RECORD = Part("responses")
ANSWER = Part("responses", "answer", "answer.")
USAGE = Part("responses", "answer.usage", "answer.usage.")
HIT = Part("hits", "", "hits_top_k.")
RETRIEVAL = Part("hits", "retrieval", "hits_top_k.retrieval.")
CITATION = Part("citations", "", "answer.citations.")
CALL = Part("calls", "", "answer.hops.")
RECORD_FIELDS = RECORD.own | {"hits_top_k"}
ANSWER_FIELDS = ANSWER.own | {"citations"}
CITATION_FIELDS = CITATION.own | {"path", "span_unit"}
HIT_FIELDS = HIT.own | {"doc_path", "span_unit", "metadata", "score_lexical", "score_vector"}
HIT_COLUMNS = {name: field.column for name, field in HIT.fields.items()} | {"doc_path": "path"}


def _type(part: Part, *others: tuple[str, pa.DataType]) -> pa.DataType:
    return pa.struct([(name, ARROW[type]) for name, (_, type) in part.columns.items()] + [*others])


_SPAN = pa.struct(
    [("kind", pa.string()), ("path", pa.string())]
    + [(name, pa.int64()) for name in sorted({*chain(*(one[:2] for one in SPAN_FIELDS.values()))})]
)
_PLACE = [("citation", _SPAN), ("heading_path", pa.list_(pa.string()))]
_HIT = _type(HIT, *_PLACE, ("retrieval", _type(RETRIEVAL)))
_ANSWER = _type(ANSWER, ("usage", _type(USAGE)), ("citations", pa.list_(_type(CITATION, *_PLACE))))
TYPES = _type(RECORD, ("hits_top_k", pa.list_(_HIT)), ("answer", _ANSWER))
"""Types of the fields of a record, for pyarrow's parser."""
STATED, LEFT_OPEN = "some answer says whether it is a refusal", "some says that this is unknown"
RUN_FIELDS = ("run_id", "run_name", "run", "system")
"""Fields that may name the run of a record. A file holds one run, so they have one value."""
WHITESPACE = "".join(one for one in map(chr, range(0x3001)) if one.isspace())


# Files


def read_per_query(path: Path, strict: bool) -> Results:
    """Read one run: its records, and `run.json` and `judgments.jsonl` if they are there."""
    problems = Problems(path, strict)
    run = _run(path, problems)
    reader = _Records(columns_of, problems)
    for _ in reader.blocks(path):
        pass
    frames = reader.frames(run["run_id"])
    problems.typos.warn()
    return _results(run, frames | _judgments(path, run, problems), problems)


def _judgments(path: Path, run: dict[str, Any], problems: Problems) -> dict[str, pd.DataFrame]:
    file = path.parent / JUDGMENTS_FILE
    if not path.name.startswith("per_query.") or not file.exists():
        return {}
    return {"judgments": read_judgments(file, run["run_id"], problems)}


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
    described, lines = dict[str, Any](), dict[str, int]()
    try:
        described, lines = json_object(run_json), field_lines(read_text(run_json))
    except DataError as error:
        faults.add(error.found, line=error.line, field=error.field, allowed=error.allowed)
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


def _results(run: dict[str, Any], frames: dict[str, pd.DataFrame], problems: Problems) -> Results:
    """Return the frames as `Results`, with the number of queries in the runs frame."""
    counts = {
        "n_queries": len(frames["responses"]),
        "n_failed": int(frames["responses"]["error"].notna().sum()),
    }
    return Results(
        runs=from_records([run | counts], "runs"), **frames, problems=problems.frame(run["run_id"])
    )


def frames_of(rows: Iterable[Row], run_id: str, problems: Problems) -> dict[str, pd.DataFrame]:
    """Return the frames of the records of one run."""
    reader = _Records(columns_of, problems)
    reader.read(rows)
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
    beside = _judgments(file, run, problems) | {"problems": problems.frame(run["run_id"])}
    reader = _Records(columns_of, Problems(file, strict=False), notes=whole.notes)
    for parts in reader.blocks(file):
        frames = reader.frames(run["run_id"])
        yield Results(runs=from_records([run | counts], "runs"), **frames, **beside)
        beside = {}
        parts.clear()


@dataclass
class _Records(Reader):
    """Reads the records of one run; `run` has what names it in them."""

    run: dict[str, Any] = field(default_factory=dict)

    def blocks(self, path: Path) -> Iterator[list[Any]]:
        """Read a file block by block, and yield the parts so far after each."""
        parser = LineParser(TYPES)
        for begin, block in line_blocks(path):
            parsed = parser.parse(begin, block)
            try:
                if parsed is None:
                    raise NotPlain
                self.add(parsed)
            except (NotPlain, pa.ArrowException):
                parser.is_off |= parsed is not None
                rows = json_rows(path, self.problems, lines_of(block, path, begin), begin)
                self.read(parser.learning(rows))
            yield self.parts

    def add(self, records: Level) -> None:
        """Add records; those of another run are faults."""
        for name in RUN_FIELDS:
            for at, one in enumerate(listed(records.fields.get(name, pa.nulls(0)))):
                if one is not None and one != self.run.setdefault(name, one):
                    records.fault(
                        at,
                        name,
                        f"found {describe(one)} after {describe(self.run[name])}",
                        "one run in a file; format='table' reads several",
                    )
        super().add(records)

    def frames(self, run_id: str | None = None) -> dict[str, pd.DataFrame]:
        """Return the frames, with what answers imply about refusals."""
        frames = super().frames(run_id)
        is_stated = STATED in self.notes and LEFT_OPEN not in self.notes
        frames["responses"] = with_refusals_implied(frames["responses"], is_stated)
        return frames


# Records


def columns_of(record: Level) -> Frames:
    """Return the columns of a batch of records."""
    record.check_names(RECORD.known)
    responses = record.columns(RECORD.columns)
    for name in [name for name in record.fields if name.startswith("latency_")]:
        responses[name] = record.take(name, "number")
    frames = _hits(record) | _answer(record, responses)
    record.extras(responses)
    return {"responses": (np.arange(len(record)), responses)} | frames


def _hits(record: Level) -> Frames:
    hits, row, at = record.items("hits_top_k")
    hits.check_names(HIT.known)
    rank = hits.order("rank", row, at)
    meta, source_key = hits.metadata(row, rank)
    found = {"rank": pa.array(rank.astype(np.int32))} | hits.columns(HIT.columns)
    found["source_key"] = pc.coalesce(found.get("source_key", source_key), source_key)
    found |= take_span(hits, "doc_path")
    inside = hits.inner("retrieval")
    found |= inside.columns(RETRIEVAL.columns)
    for name in [name for name in HIT.also if name in hits.fields]:
        column, on_hit = HIT.also[name].column, hits.take(name, "number")
        own = found.get(column, pa.nulls(len(hits), pa.float64()))
        found[column] = pc.coalesce(own, on_hit)
        # beside one within `retrieval` it is a field of its own
        hits.fields[name] = pc.if_else(pc.and_(own.is_valid(), on_hit.is_valid()), on_hit, None)
    found |= take_heading(hits)
    inside.extras(found, "x_retrieval.")
    hits.extras(found)
    return {"hits": (row, found)} | meta


def _answer(record: Level, responses: Columns) -> Frames:
    """Add the columns of answers; return their citations and calls."""
    answer = record.inner("answer")
    answer.check_names(ANSWER.known)
    refused = listed(answer.fields.get("refused", pa.nulls(len(answer))))
    is_unknown = pa.array([one == UNKNOWN for one in refused], pa.bool_())
    if UNKNOWN in refused:
        answer.fields["refused"] = values_of([None if one == UNKNOWN else one for one in refused])
    responses |= answer.columns(ANSWER.columns)
    said = listed(record.fields.pop("answer", pa.nulls(len(record))))
    as_text = pa.array([one if isinstance(one, str) else None for one in said], pa.string())
    record.fields["answer"] = [None if isinstance(one, str) else one for one in said]
    record.refuse("answer", "an object, text or null")
    responses["answer"] = pc.coalesce(responses.get("answer", as_text), as_text)
    _imply_refusals(responses, is_unknown, record)
    usage = answer.inner("usage")
    responses |= usage.columns(USAGE.columns)
    if (lists := answer.fields.get("citations")) is not None:
        responses["n_citations"] = none_cited(lists)
    cited, row, _ = answer.items("citations")
    cited.check_names(CITATION.known)
    citations = {"position": positions(row)} | cited.columns(CITATION.columns)
    citations |= take_span(cited, "path") | take_heading(cited)
    cited.extras(citations)
    no_hops = none_cited(answer.fields.get("hops", pa.nulls(len(answer))))
    hops, hop_row, hop_at = answer.items("hops")
    number = hops.order("iter", hop_row, hop_at, first=0) + 1
    calls = {"call": pa.array(number.astype(np.int32))} | hops.columns(CALL.columns)
    hops.extras(calls)
    usage.extras(responses, "x_answer.usage.")
    answer.extras(responses, "x_answer.")
    if no_hops.null_count < len(no_hops):
        responses["x_answer.hops.json"] = pc.if_else(pc.is_valid(no_hops), "[]", None)
    return {"citations": (row, citations), "calls": (hop_row, calls)}


def _imply_refusals(responses: Columns, is_unknown: pa.Array, record: Level) -> None:
    """Say of an answer that isn't grounded, or blank, that it is a refusal if it doesn't say so."""
    none = pa.nulls(len(record), pa.bool_())
    stated = pc.coalesce(responses.get("refused", none), pc.invert(responses.get("grounded", none)))
    stated = pc.if_else(is_unknown, None, stated)
    if stated.null_count < len(stated):
        record.batch.notes.add(STATED)
    if pc.any(is_unknown).as_py():
        record.batch.notes.add(LEFT_OPEN)
    is_blank = pc.equal(pc.utf8_trim(responses["answer"], characters=WHITESPACE), "")
    is_implied = pc.and_(pc.and_(is_blank, pc.is_null(stated)), pc.invert(is_unknown))
    responses["refused"] = pc.if_else(pc.fill_null(is_implied, False), True, stated)


def positions(row: Codes) -> pa.Array:
    """Return the place of each citation of an answer, from 1, without those that were faults."""
    return pa.array((np.arange(1, len(row) + 1) - np.searchsorted(row, row)).astype(np.int32))


def none_cited(lists: Values) -> pa.Array:
    """Return 0 for an answer with an empty list, of citations as a rule, else null."""
    if isinstance(lists, pa.Array):
        is_list = pa.types.is_list(lists.type)
        n = pc.list_value_length(lists) if is_list else pa.nulls(len(lists), pa.int32())
        return pc.if_else(pc.equal(n, 0), pa.scalar(0, pa.int64()), None)
    return pa.array([0 if one == [] else None for one in lists], pa.int64())


def implied_refusal(answer: str | None, grounded: bool | None) -> bool | None:
    """Return True for an answer that isn't grounded, or that is blank if `grounded` is unknown.

    None for a text: whether its words refuse is unknown.
    """
    if isinstance(grounded, bool):
        return not grounded
    return None if answer is None or answer.strip() else True


def with_refusals_implied(responses: pd.DataFrame, stated: Flags | bool) -> pd.DataFrame:
    """Return responses in which an answer is no refusal if its run states this of others only.

    Many systems say `refused` where it is true, and nothing elsewhere. `stated`: the rows of runs
    that state it of any answer, or whether the run does.
    """
    if "answer" not in responses or not np.any(stated):
        return responses
    is_open = stated & responses["answer"].notna().to_numpy()
    unknown = pd.Series(pd.NA, responses.index, dtype="boolean")
    refused = responses.get("refused", unknown)
    return responses.assign(refused=refused.mask(refused.isna() & is_open, False))

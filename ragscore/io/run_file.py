"""Our run file, `per_query.jsonl` with `run.json` beside it -> `Results`.

It is a superset of kebab's record; older records without later fields load. The schema says which
field is which column; here is what needs several fields at once, spans above all, and what answers
imply about refusals. Fields that no column takes are kept in `x_*` columns.

`run.json` describes a run and becomes one row of the runs frame. `judgments.jsonl` beside it holds
one verdict a line. A documents file (JSON lines) lists what there is to find, and which document
replaces which.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import KINDS, DataError, Results, conform, empty, from_records
from ragscore.frames.schema import BESIDE, FIELDS
from ragscore.frames.typing import Flags
from ragscore.io.files import line_blocks, lines_of
from ragscore.io.formats.fields import json_object
from ragscore.io.run_records import (
    Columns,
    Fields,
    Frames,
    Level,
    LineParser,
    NotPlain,
    Reader,
    Values,
    is_stated,
    kept,
    listed,
    own_fields,
    places,
)
from ragscore.io.source import (
    Problems,
    Row,
    as_id,
    as_text,
    describe,
    json_rows,
    parsed,
)
from ragscore.io.values import (
    ID_ALLOWED,
    SPAN_ALLOWED,
    FieldReader,
    is_int,
)


def _fields(kind: str) -> Fields:
    return {one.at: (one.column, one.type) for one in FIELDS[kind] if one.at}


# Fields of our objects by their places, such as `answer.usage.prompt_tokens`
RECORD, HIT, CITATION, CALL = map(_fields, ("responses", "hits", "citations", "calls"))
# Fields that are written as null where they are unknown
NULLS = [one.at for one in FIELDS["responses"] if one.null and one.at]
# Fields of hits that are read, too, where the declared one is absent -> their column
ALSO = {name: one.column for one in FIELDS["hits"] for name in one.also}


def names(fields: Iterable[str], under: str = "", beside: str = "") -> frozenset[str]:
    """Return the names of the fields of an object, which may lie `under` another one."""
    inside = (name.removeprefix(under) for name in fields if name.startswith(under))
    return frozenset((*(name.partition(".")[0] for name in inside), *beside.split()))


RECORD_NAMES = names(RECORD, beside=BESIDE["responses"])
ANSWER_NAMES = names(RECORD, "answer.", BESIDE["responses.answer"])
HIT_NAMES = names((*HIT, *ALSO), beside=BESIDE["hits"])
CITATION_NAMES = names(CITATION, beside=BESIDE["citations"])

# A span of one's own, beside a citation
SPAN: Fields = {
    "start": ("start", "whole"), "end": ("end", "whole"), "span_unit": ("span_unit", "text"),
}  # fmt: skip
# Kind of citation -> its first and last field, and what to add to make the last one half-open.
# Lines and pages are inclusive in a citation, times are not.
SPAN_FIELDS = {
    "line": ("start", "end", 1),
    "code": ("line_start", "line_end", 1),
    "page": ("page", "page", 1),
    "time": ("start_ms", "end_ms", 0),
}
SPAN_UNITS = {"line": "line", "code": "line", "page": "page", "time": "ms"}
CITATION_KINDS = (*SPAN_FIELDS, "region", "caption")
KIND_ALLOWED = f"one of {', '.join(CITATION_KINDS)}"


# `refused` of an answer that states neither that it is a refusal nor that it is none
UNKNOWN = "unknown"
STATED, OPEN = "some answer says whether it is a refusal", "x_says that this is unknown"
# Fields that may name the run of a record. A file holds one run, so they have one value.
RUN_FIELDS = ("run_id", "run_name", "run", "system")


# Fields of a run that are columns, and their types
RUN = {
    **dict.fromkeys(("system", "suite", "config_hash", "golden_hash", "note"), "text"),
    **dict.fromkeys(("repeat", "n_queries", "n_failed"), "whole"),
    **{"commit": "text", "chunker_version": "text", "k": "positive", "created_at": "time"},
}
RUN_NAMES = frozenset(
    (*RUN, "run_id", "config", "config_snapshot", "config_snapshot_json", "commit_hash")
)


DOCUMENT: Fields = {
    "version_key": ("version_key", "id"),
    "effective_timestamp": ("effective_timestamp", "integer"),
    "superseded_by": ("superseded_by", "id"),
    "doc_type": ("doc_type", "text"),
    "path": ("path", "text"),
}
_TYPES = {"str": "text", "float64": "number", "Int64": "whole"}
JUDGMENT: Fields = {
    name: (name, _TYPES[dtype])
    for name, dtype in KINDS["judgments"].dtypes.items()
    if name not in ("run_id", "query_id", "criterion")
}
JUDGMENTS_FILE = "judgments.jsonl"
LEDGER_FILE = "judge_ledger.jsonl"


# Files


def read_per_query(path: Path, strict: bool) -> Results:
    """Read one run: its records, and `run.json` and `judgments.jsonl` if they are there."""
    problems = Problems(path, strict)
    run = _run(path, problems)
    reader = _Records(columns_of, problems)
    for _ in reader.blocks(path):
        pass
    return reader.results(run, **_judgments(path, run, problems))


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
    described, faults = json_object(run_json), problems.for_file(run_json)
    return run_record({**named, **described}, run_json, problems=faults)


def run_record(
    described: dict[str, Any],
    file: Path | str,
    *,
    line: int | None = None,
    problems: Problems | None = None,
) -> dict[str, Any]:
    """Return one row of the runs frame from the content of a `run.json`.

    Fields without a column go to `x_*`. `line`: of the record, where a file has several.
    """
    reader = FieldReader(described, "", line, problems or Problems(file, strict=True))
    reader.problems.check_names(described, RUN_NAMES, line or 1)
    if (run_id := as_id(reader.pop("run_id"))) is None:
        raise DataError(
            f"found {describe(described.get('run_id'))}",
            file=file,
            line=line,
            field="run_id",
            allowed=ID_ALLOWED,
        )
    snapshot = parsed(reader.pop("config_snapshot", "config_snapshot_json")) or {}
    config = reader.values.pop("config", snapshot)
    settings = config if isinstance(config, dict) else {}
    run: dict[str, Any] = {
        "run_id": run_id,
        "config": json.dumps(config, ensure_ascii=False, sort_keys=True),
    }
    for name, type in RUN.items():
        synonym = ["commit_hash"] if name == "commit" else []
        run[name] = reader.take(type, name, *synonym)
    if run["chunker_version"] is None:
        run["chunker_version"] = as_text(settings.get("chunker_version"))
    if described.get("k") is None:
        ks = (settings.get(name) for name in ("eval_k", "k"))
        run["k"] = next((k for k in ks if is_int(k) and 1 <= k < 2**63), None)
    known = {name: value for name, value in run.items() if value is not None}
    return known | own_fields(reader.values)


def results_of(run: dict[str, Any], rows: Iterable[Row], problems: Problems) -> Results:
    """Return the records of one run as `Results`."""
    reader = _Records(columns_of, problems)
    reader.read(rows)
    return reader.results(run)


def load_pieces(path: str | os.PathLike[str], *, strict: bool = True) -> Iterator[Results]:
    """Yield a run file of any size as `Results` of some megabytes each, for `store.save`.

    The file is read twice, since the end of a run may show whether answers at its beginning are
    refusals. Only one piece is in memory; each has the row of the whole run.
    """
    file = Path(path)
    problems = Problems(file, strict)
    run, whole = _run(file, problems), _Records(columns_of, problems)
    counts = {"n_queries": 0, "n_failed": 0}
    for parts in whole.blocks(file):
        for responses in (columns for kind, columns in parts if kind == "responses"):
            error = responses.get("error", pa.nulls(0))
            counts["n_queries"] += len(responses["query_id"])
            counts["n_failed"] += len(error) - error.null_count
        parts.clear()
    beside = _judgments(file, run, problems) | {"problems": problems.frame(run["run_id"])}
    reader = _Records(columns_of, Problems(file, strict=False))
    reader.faults.notes, reader.faults.typos = whole.faults.notes, whole.faults.typos
    for parts in reader.blocks(file):
        frames = reader.frames(run["run_id"])
        yield Results(runs=from_records([run | counts], "runs"), **frames, **beside)
        beside = {}
        parts.clear()


class _Records(Reader):
    """Reads the records of one run."""

    def blocks(self, path: Path) -> Iterator[list[Any]]:
        """Read a file block by block, and yield the parts so far after each."""
        parser = LineParser()
        for begin, block in line_blocks(path):
            parsed = parser.parse(block)
            try:
                if parsed is None:
                    raise NotPlain
                lines = begin + np.arange(len(next(iter(parsed.values()))))
                self.add(Level(parsed, lines, "", self.faults, is_parsed=True))
            except (NotPlain, pa.ArrowException):
                parser.is_off |= parsed is not None
                rows = [*json_rows(path, self.faults, lines_of(block, path, begin), begin)]
                parser.learn([row.values for row in rows])
                self.read(rows)
            yield self.parts

    def frames(self, run_id: str | None = None) -> dict[str, pd.DataFrame]:
        """Return the frames, with what answers imply about refusals."""
        frames = super().frames(run_id)
        responses = frames["responses"]
        for name in [one for one in RUN_FIELDS if f"x_{one}" in responses]:
            if len(runs := responses[f"x_{name}"].dropna().unique()) > 1:
                found = f"found {describe(runs[1])} after {describe(runs[0])}"
                allowed = "one run in a file; format='table' reads several"
                self.problems.add(found, field=name, allowed=allowed)
        is_stated = self.faults.notes == {STATED}
        frames["responses"] = with_refusals(responses, is_stated)
        return frames

    def results(self, run: dict[str, Any], **others: pd.DataFrame) -> Results:
        """Return the frames as `Results`, with the number of queries in the runs frame."""
        frames = self.frames(run["run_id"])
        n_failed = int(frames["responses"]["error"].notna().sum())
        counts = {"n_queries": len(frames["responses"]), "n_failed": n_failed}
        problems = self.problems.frame(run["run_id"])
        return Results(
            runs=from_records([run | counts], "runs"), **frames, **others, problems=problems
        )


# Records


def columns_of(record: Level) -> Frames:
    """Return the columns of a batch of records."""
    record.check_names(RECORD_NAMES)
    answer = record.inner("answer")
    answer.check_names(ANSWER_NAMES)
    refused = answer.values("refused")
    is_open = np.array([one == UNKNOWN for one in listed(refused)], bool)
    if is_open.any():
        answer.fields["refused"] = kept(refused, ~is_open)
        record.faults.notes.add(OPEN)
    responses = record.columns(RECORD)
    responses[OPEN] = pc.if_else(pa.array(is_open), True, None)
    if any(is_stated(responses.get(one, pa.nulls(0))).any() for one in ("refused", "grounded")):
        record.faults.notes.add(STATED)
    for name in [name for name in record.fields if name.startswith("latency_")]:
        responses[name] = record.take(name, "number")
    as_text = record.take("answer", "text")
    responses["answer"] = pc.coalesce(responses.get("answer", as_text), as_text)
    if "citations" in answer.fields:
        responses["n_citations"] = none_cited(answer.fields["citations"])
    frames = [*_hits(record), *_citations(answer), *_calls(answer)]
    record.extras(responses)
    return [("responses", np.arange(len(record)), responses), *frames]


def _hits(record: Level) -> Frames:
    hits, row, at = record.items("hits_top_k")
    hits.check_names(HIT_NAMES)
    rank = hits.order("rank", row, at)
    meta, source_key = hits.metadata(row, rank)
    found = {"rank": rank} | hits.columns(HIT)
    found["source_key"] = pc.coalesce(found.get("source_key", source_key), source_key)
    _take_span(hits, found)
    for name in [name for name in ALSO if name in hits.fields]:
        on_hit = hits.take(name, "number")
        own = found.get(ALSO[name], pa.nulls(len(hits), pa.float64()))
        found[ALSO[name]] = pc.coalesce(own, on_hit)
        # beside the declared one it is a field of its own
        hits.fields[name] = kept(on_hit, is_stated(own))
    hits.extras(found)
    return [("hits", row, found), *meta]


def _citations(answer: Level) -> Frames:
    cited, row, _ = answer.items("citations")
    cited.check_names(CITATION_NAMES)
    citations = {"position": pa.array(places(row))} | cited.columns(CITATION)
    _take_span(cited, citations)
    cited.extras(citations)
    return [("citations", row, citations)]


def _calls(answer: Level) -> Frames:
    hops, row, at = answer.items("hops")
    calls = {"call": pc.add(hops.order("iter", row, at, first=0), 1)} | hops.columns(CALL)
    hops.extras(calls)
    return [("calls", row, calls)]


def _take_span(level: Level, found: Columns) -> None:
    """Add path and half-open span of hits or citations to their columns.

    Their own come before the citation object's, whose fields stay as `x_citation`. A span of
    their own has a unit.
    """
    has_one = is_stated(level.values("citation"))
    cited = level.inner("citation", lambda one: one.get("kind") in CITATION_KINDS)
    level.refuse("citation", f"an object whose kind is {KIND_ALLOWED}")
    kind = cited.fields.get("kind", pa.nulls(len(level), pa.string()))
    if (has_one & ~np.asarray(pc.is_in(kind, pa.array(CITATION_KINDS)))).any():
        level.refuse_parsed()
    unit = level.take("span_unit", "text")
    is_own, where = is_stated(unit), replace(cited, fields={**cited.fields})
    start, end = _ends(level, is_own, "start", "end", 0)
    for name, fields in SPAN_FIELDS.items():
        is_kind = np.asarray(pc.fill_null(pc.equal(kind, name), False)) & ~is_own
        if is_kind.any():
            ends = _ends(where, is_kind, *fields)
            units = kept(pa.repeat(SPAN_UNITS[name], len(level)), is_stated(ends[0]))
            start, end, unit = map(pc.coalesce, (start, end, unit), (*ends, units))
    found |= {"start": start, "end": end, "span_unit": unit}
    path = where.take("path", "text")
    found["path"] = pc.coalesce(found.get("path", path), path)


def _ends(
    level: Level, where: Flags, first: str, last: str, step: int
) -> tuple[pa.Array, pa.Array]:
    """Take out the ends of some spans, half-open; those that are none are faults."""
    begins = level.take(first, "whole", where)
    ends = begins if last == first else level.take(last, "whole", where)
    ends = pc.add(ends, step)
    is_span = np.asarray(pc.fill_null(pc.greater(ends, begins), False))
    for at in np.flatnonzero((is_stated(begins) | is_stated(ends)) & ~is_span):
        level.fault(at, "", f"found {first} {begins[at]}, {last} {ends[at]}", SPAN_ALLOWED)
    return kept(begins, is_span), kept(ends, is_span)


def implied_refusals(responses: pd.DataFrame) -> pd.Series:
    """Return True for an answer that isn't grounded, or that is blank if `grounded` is unknown.

    NA for a text: whether its words refuse is unknown.
    """
    unknown = pd.Series(pd.NA, responses.index, dtype="boolean")
    grounded = responses.get("grounded", unknown)
    if "answer" not in responses:
        return ~grounded
    return (~grounded).mask(responses["answer"].str.strip().eq("") & grounded.isna(), True)


def none_cited(lists: Values) -> pa.Array:
    """Return 0 for an answer with an empty list, of citations as a rule, else null."""
    if isinstance(lists, pa.Array) and pa.types.is_list(lists.type):
        is_empty = pc.equal(pc.list_value_length(lists), 0)
    else:
        is_empty = pa.array([one == [] for one in listed(lists)], pa.bool_())
    return pc.if_else(is_empty, pa.scalar(0, pa.int64()), None)


def with_refusals(responses: pd.DataFrame, is_stated: Any = None) -> pd.DataFrame:
    """Return responses with what answers imply about refusals.

    Many systems say `refused` where it is true, and nothing elsewhere: where a run states it of
    some answers, the others are no refusals. `is_stated`: where it does; None: where rows of the
    same run do.
    """
    if {*responses}.isdisjoint(("answer", "grounded", "refused", OPEN)):
        return responses
    runs, implied = responses["run_id"], implied_refusals(responses)
    refused = responses.get("refused", implied)
    if is_stated is None:
        is_stated = "refused" in responses and runs.isin(runs[refused.notna()])
    found = refused.fillna(implied)
    if OPEN in responses:
        found = found.mask(responses.pop(OPEN).notna())
    if "answer" in responses:
        found = found.mask(found.isna() & responses["answer"].notna() & is_stated, False)
    return responses.assign(refused=found) if found.notna().any() else responses


# Files beside a run or a corpus


def load_documents(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Load the documents of a corpus: one JSON object a line.

    `doc_id` is required. Versions of one document share a `version_key`. `effective_timestamp` (a
    whole number, in any unit that orders them) says from when on a version holds, `superseded_by`
    names the document that replaces it. `doc_type` or `path` give the type by which
    a chatbot's `metrics.json` counts what is indexed, including types of which nothing is.

    Returns
    -------
    The documents frame, one row per document: doc_id and whichever of version_key,
    effective_timestamp, superseded_by, doc_type and path the file has; other fields as `x_<name>`.
    It belongs in `Results.documents`, or goes straight to `rs.extras.freshness`.

    Raises
    ------
    DataError
        File, line and field of a record that can't be read, or of a document that occurs
        twice.
    """
    reader = Reader(
        lambda record: _columns(record, "documents", DOCUMENT),
        Problems(Path(path), strict=True),
        keys={"doc_id": "doc_id"},
        once="one record per document",
    )
    reader.read(json_rows(Path(path), reader.faults))
    return conform(reader.frames().get("documents", empty("documents")), "documents")


def _columns(record: Level, kind: str, fields: Fields) -> Frames:
    columns = record.columns(fields)
    record.extras(columns)
    return [(kind, np.arange(len(record)), columns)]


def read_judgments(file: Path, run_id: str, problems: Problems) -> pd.DataFrame:
    """Return the judgments beside a run's file."""
    faults = problems.for_file(file)
    keys = {name: name for name in ("query_id", "criterion")}
    reader = Reader(_judgment_columns, faults, keys, once="")
    reader.read(json_rows(file, reader.faults))
    return reader.frames(run_id).get("judgments", empty("judgments"))


def _judgment_columns(record: Level) -> Frames:
    """Return the columns of a batch of judgments; the run is the one beside them."""
    record.fields.pop("run_id", None)
    item = pc.fill_null(record.take("item", "text"), "")
    ((kind, row, columns),) = _columns(record, "judgments", JUDGMENT)
    return [(kind, row, columns | {"item": item})]

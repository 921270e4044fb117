"""One record of a run file -> a `Record`, and its rows in `Tables`.

In: a `Row` of per_query.jsonl. Fields without a column go to `x_*` columns; a value that a column
can't hold is a problem with its line. Which field is which column says the schema (layout.py).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.typing import Flags
from ragscore.io.citations import heading_column, read_heading, read_span, span_columns
from ragscore.io.formats.fields import ranks_of
from ragscore.io.layout import ANSWER, CALL, CITATION, HIT, RECORD, RETRIEVAL, UNKNOWN, USAGE, Part
from ragscore.io.object_columns import (
    Columns,
    HitColumns,
    NotPlain,
    Values,
    extras,
    kinds_of,
    objects_in,
    texts,
)
from ragscore.io.records import Record, Rows, Tables
from ragscore.io.source import Problems, Row, as_id, describe
from ragscore.io.values import ID_ALLOWED, FieldReader, flatten, is_int, metadata

RECORD_FIELDS = RECORD.own | {"hits_top_k"}
ANSWER_FIELDS = ANSWER.own | {"citations"}
CITATION_FIELDS = CITATION.own | {"path", "span_unit"}
HIT_FIELDS = HIT.own | {"doc_path", "span_unit", "metadata", "score_lexical", "score_vector"}
HIT_COLUMNS = {name: field.column for name, field in HIT.fields.items()} | {"doc_path": "path"}
RUN_FIELDS = ("run_id", "run_name", "run", "system")
"""Fields that may name the run of a record. A file holds one run, so they have one value."""


def read_record(row: Row, tables: Tables, problems: Problems) -> None:
    """Add one record to the tables; one without an id, or with that of another, is a problem."""
    record = record_of(row, tables, problems)
    if record is not None:
        tables.add(record, {"query_id": record.query_id})


def record_of(row: Row, tables: Tables, problems: Problems) -> Record | None:
    """Return one record; `tables` hold the lines of the query ids before it."""
    fields, line = FieldReader(row.values, "", row.line, problems), row.line
    problems.typos.check(fields.values, RECORD.known, line)
    query_id = _query_id(fields, tables.lines)
    if query_id is None:
        return None
    for name in RUN_FIELDS:
        if (run := fields.values.get(name)) is not None and tables.run.setdefault(name, run) != run:
            problems.add(
                f"found {describe(run)} after {describe(tables.run[name])}",
                line=line,
                field=name,
                allowed="one run in a file; format='table' reads several",
            )
            return None
    hits, answer = fields.pop("hits_top_k"), fields.pop("answer")
    if not isinstance(hits, (list, type(None))):
        fields.reject(hits, "hits_top_k", "a list")
        return None
    if not isinstance(answer, (dict, str, type(None))):
        fields.reject(answer, "answer", "an object, text or null")
        return None
    tables.lines[query_id] = line
    record = Record(line, query_id, response=RECORD.read(fields, {}))
    for name in [name for name in fields.values if name.startswith("latency_")]:
        record.response[name] = fields.number(name)
    if answer is not None:
        whole = answer if isinstance(answer, dict) else {"answer": answer}
        _answer(whole, record, tables, problems)
    record.response |= flatten(fields.values)
    if tables.columns is not None:
        record.hits = hits or []
    else:
        record.hits = list(_hits(hits or [], query_id, line, problems))
    return record


def _query_id(record: FieldReader, lines: dict[str, int]) -> str | None:
    line, problems = record.line, record.problems
    if "query_id" not in record.values:
        problems.add("the field is missing", line=line, field="query_id", allowed=ID_ALLOWED)
        return None
    value = record.pop("query_id")
    query_id = as_id(value)
    if query_id is None:
        record.reject(value, "query_id", ID_ALLOWED)
    elif query_id in lines:
        problems.repeat(f"'{query_id}'", lines[query_id], line, "query_id", "one record per query")
        return None
    return query_id


def _answer(values: dict[str, Any], record: Record, tables: Tables, problems: Problems) -> None:
    """Add the columns of an answer, its citations and calls."""
    answer = FieldReader(values, ANSWER.place, record.line, problems)
    problems.typos.check(values, ANSWER.known, record.line)
    found = ANSWER.read(answer, {})
    if found.get("refused") == UNKNOWN:
        del found["refused"]
        tables.leaves_refusals = True
    elif "refused" in found:
        tables.states_refusals = True
    else:
        tables.states_refusals |= "grounded" in found
        implied = implied_refusal(found.get("answer"), found.get("grounded"))
        found |= {} if implied is None else {"refused": implied}
    _inner(answer, "usage", USAGE, found)
    if answer.values.get("citations") == []:
        found["n_citations"] = 0  # it is recorded that nothing is cited
    record.citations = _citations(answer)
    if answer.values.get("hops") != []:  # an empty list stays among the extra fields
        record.steps = read_steps(answer.pop("hops"), record.line, problems)
    # Extra fields tell that there was an answer object. So does any value of a column; an object
    # without either is recorded as an empty one.
    if answer.values or not (found or record.citations or record.steps):
        found |= flatten({"answer": answer.values})
    record.response |= found


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
    refused = responses["refused"]
    return responses.assign(refused=refused.mask(refused.isna() & is_open, False))


def _inner(outer: FieldReader, name: str, part: Part, found: dict[str, Any]) -> None:
    """Take the columns out of an object inside another; its other fields stay in it."""
    values = outer.values.get(name)
    if isinstance(values, dict):
        inner = FieldReader(values, part.place, outer.line, outer.problems)
        part.read(inner, found)
        del outer.values[name]
        if inner.values:
            outer.values[name] = inner.values


def _citations(answer: FieldReader) -> Rows:
    items, allowed = answer.pop("citations"), "a list of objects"
    if not isinstance(items, (list, type(None))):
        answer.reject(items, "citations", allowed)
        return []
    found: Rows = []
    for item in items or []:
        if not isinstance(item, dict):
            answer.reject(item, "citations", allowed)
            continue
        citation = FieldReader(item, CITATION.place, answer.line, answer.problems)
        answer.problems.typos.check(item, CITATION.known, answer.line)
        columns = CITATION.read(citation, {})
        columns |= read_span(citation, "path")
        columns |= read_heading(citation)
        found.append(columns | flatten(citation.values))
    return found


def read_steps(hops: Any, line: int, problems: Problems) -> Rows:
    """Return one row per step of a multi-hop answer, numbered as the file does, but from 1.

    Durations are as written, where 0 ms means that none was taken.
    """
    if hops is None:
        return []
    if not isinstance(hops, list) or not all(isinstance(hop, dict) for hop in hops):
        problems.reject(hops, line, "answer.hops", "a list of objects, or null")
        return []
    rows = []
    for number, values in zip(_hop_numbers(hops, line, problems), hops, strict=True):
        hop = FieldReader(values, CALL.place, line, problems)
        hop.pop("iter")
        rows.append(CALL.read(hop, {"call": number + 1}) | flatten(hop.values))
    return rows


def _hop_numbers(hops: list[dict[str, Any]], line: int, problems: Problems) -> list[int]:
    """Return each step's own number if all have one, once each; else their order, from 0."""
    in_order = list(range(len(hops)))
    numbers = [hop.get("iter") for hop in hops]
    if all(number is None for number in numbers):
        return in_order
    valid = [number for number in numbers if is_int(number) and 0 <= number < 2**31 - 1]
    if len(set(valid)) < len(numbers):
        allowed = "whole numbers from 0, each once, or no number at all"
        problems.reject(numbers, line, "answer.hops.iter", allowed)
        return in_order
    return valid


def _hits(
    hits: list[Any], query_id: str, line: int, problems: Problems
) -> Iterator[dict[str, Any]]:
    for values, rank in zip(
        hits, ranks_of(hits, "hits_top_k.rank", line, problems, query_id), strict=True
    ):
        if not isinstance(values, dict):
            problems.reject(values, line, "hits_top_k", "a list of objects")
            continue
        problems.typos.check(values, HIT.known, line)
        hit = FieldReader(values, HIT.place, line, problems)
        hit.pop("rank")
        found = HIT.read(hit, {"rank": rank})
        if meta := metadata(hit.pop("metadata"), "hits_top_k.metadata", line, problems):
            found["metadata"] = meta
            if "source_key" in meta and "source_key" not in values:
                found["source_key"] = as_id(meta["source_key"])
        found |= read_span(hit, "doc_path")
        _inner(hit, "retrieval", RETRIEVAL, found)
        HIT.read_also(hit, found)
        found |= read_heading(hit)
        if hit.values:
            found |= flatten(hit.values)
        yield found


def hit_columns() -> HitColumns:
    """Return what gathers the hits of a run file as columns, as `_hits` reads them one by one."""
    quiet = Problems("", strict=True)
    return HitColumns(
        _columns, lambda hit: next(_hits([hit], "", 1, quiet)), HIT.known, has_meta=True
    )


def _columns(values: dict[str, Values]) -> Columns:
    held = [one.get("source_key") if one else None for one in values.pop("metadata", ())]
    keys = [*map(as_id, held)] if kinds_of(held) else []
    if "source_key" in values and any(keys):
        raise NotPlain
    found = HIT.take(values)
    if any(keys):
        found["source_key"] = texts(keys)
    found |= span_columns(values, "doc_path")
    retrieval = objects_in(values.pop("retrieval", None))
    found |= RETRIEVAL.take(retrieval)
    HIT.take_also(values, found)
    found |= heading_column(values)
    extras(retrieval, found, "x_retrieval.")
    extras(values, found)
    return found

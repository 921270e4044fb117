"""Records of our run file -> columns of frames, and what its answers imply about refusals.

Which field is which column says the schema (layout.py); here is what needs several fields at once.
"""

from itertools import chain

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.typing import Codes, Flags
from ragscore.io.citations import SPAN_FIELDS, take_heading, take_span
from ragscore.io.layout import ANSWER, CALL, CITATION, HIT, RECORD, RETRIEVAL, UNKNOWN, USAGE, Part
from ragscore.io.run_records import Columns, Frames, Level, Values, listed, values_of
from ragscore.io.values import ARROW

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


def columns_of(record: Level) -> Frames:
    """Return the columns of a batch of records."""
    record.check_names(RECORD.known)
    query_id = record.batch.query_ids = record.take("query_id", "id")
    responses = {"query_id": query_id} | record.columns(RECORD.columns)
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
    is_unknown = _take_unknown(answer)
    responses |= answer.columns(ANSWER.columns)
    if "answer" in record.fields:  # as text
        every = listed(record.fields["answer"])
        own = pa.array([one if isinstance(one, str) else None for one in every], pa.string())
        record.fields["answer"] = [None if isinstance(one, str) else one for one in every]
        record.refuse("answer", "an object, text or null")
        responses["answer"] = pc.coalesce(responses.get("answer", own), own)
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
    none = none_cited(answer.fields.get("hops", pa.nulls(len(answer))))
    hops, hop_row, hop_at = answer.items("hops")
    number = hops.order("iter", hop_row, hop_at, first=0) + 1
    calls = {"call": pa.array(number.astype(np.int32))} | hops.columns(CALL.columns)
    hops.extras(calls)
    usage.extras(responses, "x_answer.usage.")
    answer.extras(responses, "x_answer.")
    if none.null_count < len(none):
        responses["x_answer.hops.json"] = pc.if_else(pc.is_valid(none), "[]", None)
    return {"citations": (row, citations), "calls": (hop_row, calls)}


def _take_unknown(answer: Level) -> pa.Array:
    """Take out where `refused` is "unknown"; return these places."""
    values = answer.fields.get("refused", [])
    every = listed(values)
    if UNKNOWN not in every:
        return pa.array(np.zeros(len(answer), bool))
    answer.fields["refused"] = values_of([None if one == UNKNOWN else one for one in every])
    return pa.array([one == UNKNOWN for one in every])


def _imply_refusals(responses: Columns, is_unknown: pa.Array, record: Level) -> None:
    """Say of an answer that isn't grounded, or blank, that it is a refusal if it doesn't say so."""
    none = pa.nulls(len(record), pa.bool_())
    grounded, text = (
        responses.get("grounded", none),
        responses.get("answer", none.cast(pa.string())),
    )
    stated = pc.coalesce(responses.get("refused", none), pc.invert(grounded))
    stated = pc.if_else(is_unknown, None, stated)
    if stated.null_count < len(stated):
        record.batch.notes.add(STATED)
    if pc.any(is_unknown).as_py():
        record.batch.notes.add(LEFT_OPEN)
    is_blank = pc.equal(pc.utf8_length(pc.utf8_trim(text, characters=WHITESPACE)), 0)
    implied = pc.if_else(pc.and_(is_blank, pc.invert(is_unknown)), True, None)
    responses["refused"] = pc.coalesce(stated, implied)


WHITESPACE = "".join(one for one in map(chr, range(0x3001)) if one.isspace())


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

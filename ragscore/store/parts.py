"""Read parts of stored runs: ranges of a run's queries, each without the rest.

Large tables lie in the order of the responses, in row groups that end between two of them, and the
file says at which response each group begins. Other tables are read batch by batch, and rows of
other parts are dropped. In: a stored run. Out: its parts, and their `Results`.
"""

import json
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.frames.codes import arrow_texts, is_among
from ragscore.frames.data import Results, categorical, conform, empty, narrowed
from ragscore.io.parquet_file import reading_parquet
from ragscore.scoring.score import judged_metrics
from ragscore.store.checked import AGAIN, StoredFile
from ragscore.store.parquet import (
    RESPONSES_KEY,
    Lengths,
    columns_without,
    known_columns,
    lengths_of,
    open_parquet,
)
from ragscore.store.runs import StoredRun

# As many as a row group holds: scoring them takes some 250 MB, without their texts.
PART_HITS = 2**21
# Fewer where texts are read: they are most of what a hit weighs.
PART_HITS_WITH_TEXT = 2**19
# The tables that scoring looks at, beside responses.
READ = ("hits", "citations", "hit_meta", "judgments", "chunks", "calls")
HEAD = 64  # responses that mostly tell what columns of a run hold
CODED = ("query_id", "doc_id", "chunk_id")  # ids of hits that stay codes where only joins read them
BATCH_ROWS = 2**13  # rows read at a time, few enough for texts of any length


@dataclass(frozen=True)
class Part:
    """The queries of one run from its response `first` up to `last`.

    The last part also has the queries that the run has no response for.
    """

    run: StoredRun
    about: pd.DataFrame  # its row of the runs frame
    first: int
    last: int
    is_last: bool
    run_hits: int  # of the whole run
    # of each column of the run's hits, as `has_values` gives it
    hit_columns: dict[str, bool | None] = field(default_factory=dict, compare=False, repr=False)
    # of each response, where the file says so and hits lie in their order
    n_hits: Lengths | None = field(default=None, compare=False)
    first_hit: int = 0


def parts_of(run: StoredRun, about: pd.DataFrame, part_hits: int = PART_HITS) -> list[Part]:
    """Cut a run into ranges of its responses with about `part_hits` hits each.

    Cuts also lie where row groups of its hits begin, so that each part reads whole groups.
    """
    with open_parquet(run.table("responses")) as file:
        n_responses = file.metadata.num_rows
    bounds, lengths, run_hits = [0, n_responses], None, 0
    hit_columns: dict[str, bool | None] = {}
    if (hits := run.file("hits")) is not None:
        with open_parquet(hits) as file:
            sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
            begins, lengths, hit_columns = _begins(file) or [0], lengths_of(file), has_values(file)
        run_hits = sum(sizes)
        lengths = (
            lengths
            if lengths is not None
            and len(lengths) == n_responses
            and lengths.sum() == run_hits
            and lengths.min(initial=0) >= 0
            else None
        )
        sizes = sizes if len(sizes) == len(begins) else [run_hits]
        ends = [*begins[1:], n_responses]
        bounds = [
            at
            for a, b, n in zip(begins, ends, sizes, strict=True)
            for at in np.linspace(a, b, max(round(n / part_hits), 1) + 1).astype(int).tolist()
        ]
    bounds = sorted({0, *bounds, n_responses})
    pairs = list(pairwise(bounds)) or [(0, 0)]
    first_hit = None if lengths is None else np.concatenate([[0], np.cumsum(lengths)])
    return [
        Part(
            run,
            about,
            first,
            last,
            last == n_responses,
            run_hits,
            hit_columns,
            None if lengths is None else lengths[first:last],
            0 if first_hit is None else int(first_hit[first]),
        )
        for first, last in pairs
    ]


def head_of(part: Part) -> Part:
    """Return the part's first responses only."""
    last = min(part.first + HEAD, part.last)
    return replace(
        part,
        last=last,
        is_last=part.is_last and last == part.last,
        n_hits=None if part.n_hits is None else part.n_hits[:HEAD],
    )


@dataclass(frozen=True)
class Queries:
    """The queries of a part: its `own`, and in the last part all that are not `answered`.

    `answered` are the queries of all responses of the run, None but in the last part.
    """

    own: pd.Index
    answered: pd.Index | None

    def hold(self, column: pd.Series) -> npt.NDArray[np.bool_]:
        """Return for each row whether its query belongs to the part."""
        is_own = is_among(column, self.own)
        return is_own if self.answered is None else is_own | ~is_among(column, self.answered)


def read_part(
    part: Part,
    without: tuple[str, ...] = (),
    kinds: tuple[str, ...] = READ,
    coded_ids: bool = False,
) -> tuple[Results, Queries]:
    """Return the results of a part, and its queries.

    Parameters
    ----------
    without
        Columns of hits and chunks that aren't needed; "x_*" are all columns of your own.
    kinds
        The tables to read beside responses.
    coded_ids
        Leave the ids of hits as the codes that they are stored as: much faster than texts.
    """
    of_responses = part.run.table("responses")
    rows = _rows_between(of_responses, part.first, part.last)
    responses = _frame(of_responses, rows, "responses")
    own = pd.Index(responses["query_id"])
    answered = (
        own
        if part.first == 0
        else pd.Index(_column(of_responses, "query_id"))
        if part.is_last
        else None
    )
    queries = Queries(own, answered if part.is_last else None)
    frames: dict[str, Any] = {"responses": responses}
    for kind in kinds:
        file = part.run.file(kind)
        if kind == "hits" and file is not None:
            frames[kind] = _hits_of(file, part, queries, without, CODED if coded_ids else ())
        elif file is not None:
            is_shared = kind == "chunks"
            rows = _rows_of(
                file, None if is_shared else queries, part, without if is_shared else ()
            )
            if kind == "calls" and "call" not in rows.column_names:
                continue  # hops, as calls were called once, know no number of hits
            frames[kind] = _frame(file, rows, kind)
    return (
        _as_saved(
            part.about.assign(run_id=part.about["run_id"].astype("str")).reset_index(drop=True),
            frames,
        ),
        queries,
    )


def _hits_of(
    file: StoredFile, part: Part, queries: Queries, without: tuple[str, ...], coded: tuple[str, ...]
) -> pd.DataFrame:
    """Read the hits of a part.

    If the file says how many each response has, neither their run nor their queries are read.
    """
    if part.n_hits is None:
        return _frame(file, _rows_of(file, queries, part, without, coded), "hits", coded)
    of_hits = np.repeat(np.arange(len(queries.own), dtype=np.int32), part.n_hits)
    query = pa.DictionaryArray.from_arrays(of_hits, arrow_texts(queries.own).combine_chunks())
    table = _rows_between(
        file, part.first_hit, part.first_hit + len(query), (*without, "query_id", "run_id"), coded
    )
    query_id = (
        pd.arrays.ArrowExtensionArray(query)
        if coded
        else pd.array(query.cast(pa.large_string()).to_pandas(), dtype="str")
    )
    return _frame(
        file,
        table,
        "hits",
        coded,
        query_id=query_id,
        run_id=categorical(np.zeros(len(query), np.int8), [part.run.run_id]),
    )


def _as_saved(runs: pd.DataFrame, frames: dict[str, Any]) -> Results:
    """Return tables of one run as `Results` without checking them: they were checked when saved.

    Checking each part again would take more time than scoring a small one.
    """
    run_id = pd.CategoricalDtype(runs["run_id"].tolist())
    own = {
        name: (
            frame.assign(run_id=categorical(np.zeros(len(frame), np.int8), run_id))
            if "run_id" in frame
            else frame
        )
        for name, frame in frames.items()
    }
    return narrowed(_nothing(), runs=runs.assign(run_id=categorical([0], run_id)), **own)


@lru_cache(maxsize=1)
def _nothing() -> Results:
    return Results(runs=empty("runs"), responses=empty("responses"))


def statistics_of(run: StoredRun, kind: str) -> dict[str, bool | None]:
    """Return for each column of a table whether any row holds a value; None if unknown."""
    stored = run.file(kind)
    if stored is None:
        return {}
    with open_parquet(stored) as file:
        return has_values(file)


def has_values(file: pq.ParquetFile) -> dict[str, bool | None]:
    """Return for each column whether any row holds a value, as the file's statistics say.

    None if they don't.
    """
    groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
    found: dict[str, set[bool | None]] = {}
    for chunk in [group.column(n) for group in groups for n in range(group.num_columns)]:
        said = chunk.statistics
        is_known = said is not None and said.has_null_count
        has_any = said.null_count < chunk.num_values if is_known else None
        found.setdefault(chunk.path_in_schema, set()).add(has_any)
    return {
        name: True if True in of_groups else None if None in of_groups else False
        for name, of_groups in found.items()
    }


def judged_metrics_of(run: StoredRun) -> set[str]:
    """Return the metrics that a run's stored judgments are scored by."""
    file = run.file("judgments")
    if file is None:
        return set()
    with open_parquet(file) as source:
        names = [name for name in ("criterion", "state") if name in source.schema_arrow.names]
        found = source.read(names)
    return judged_metrics(found.group_by(names).aggregate([]).to_pandas())


def _begins(file: pq.ParquetFile) -> list[int] | None:
    """Return the response that each row group begins at; None if the file doesn't say so."""
    written = (file.metadata.metadata or {}).get(RESPONSES_KEY)
    begins = json.loads(written) if written else None
    if not isinstance(begins, list) or len(begins) != file.num_row_groups:
        return None
    is_sound = all(type(n) is int and n >= 0 for n in begins) and begins == sorted(begins)
    return begins if is_sound else None


def _rows_between(
    file: StoredFile,
    first: int,
    last: int,
    without: tuple[str, ...] = (),
    coded: tuple[str, ...] = (),
) -> pa.Table:
    """Read these rows of a table, from the row groups that hold them."""
    with open_parquet(file) as source:
        names = columns_without(source, without)
        begins = np.cumsum(
            [0, *(source.metadata.row_group(n).num_rows for n in range(source.num_row_groups))]
        ).tolist()
        groups = [
            n for n, (begin, end) in enumerate(pairwise(begins)) if begin < last and end > first
        ]
        if (
            groups
            and "text" not in names
            and (begins[groups[0]], begins[groups[-1] + 1]) == (first, last)
        ):
            return _whole_groups(source, file, groups, names, coded)
        kept, place = [], begins[groups[0]] if groups else 0
        for batch in (
            source.iter_batches(BATCH_ROWS, row_groups=groups, columns=names) if groups else ()
        ):
            kept.append(
                batch.slice(
                    max(first - place, 0), max(min(last, place + len(batch)) - max(first, place), 0)
                )
            )
            place += len(batch)
            if place >= last:
                break
        return _as_table(kept, source, names)


def _whole_groups(
    opened: pq.ParquetFile,
    file: StoredFile,
    groups: list[int],
    names: list[str],
    coded: tuple[str, ...],
) -> pa.Table:
    # Ids that were written as plain texts stay texts: arrow would make codes of them, slowly.
    first = opened.metadata.row_group(groups[0])
    chunks = [first.column(n) for n in range(first.num_columns)]
    with_codes = {one.path_in_schema for one in chunks if one.has_dictionary_page}
    with open_parquet(file, [name for name in coded if name in with_codes & {*names}]) as source:
        return source.read_row_groups(groups, columns=names)


def _as_table(kept: list[pa.RecordBatch], source: pq.ParquetFile, names: list[str]) -> pa.Table:
    schema = pa.schema([source.schema_arrow.field(name) for name in names])
    table = pa.Table.from_batches(kept) if kept else schema.empty_table()
    # pandas' dtypes of columns of your own
    return table.replace_schema_metadata(source.schema_arrow.metadata)


def _column(file: StoredFile, name: str) -> pd.Series:
    with open_parquet(file) as source:
        return source.read([name]).column(0).to_pandas().astype("str")


def _rows_of(
    file: StoredFile,
    queries: Queries | None,
    part: Part,
    without: tuple[str, ...],
    coded: tuple[str, ...] = (),
) -> pa.Table:
    """Read the rows of a part's queries, batch by batch from row groups that may hold some.

    All rows if `queries` is None.
    """
    with open_parquet(file) as source:
        names = columns_without(source, without)
        groups = (
            _groups(source, part) if queries is not None else list(range(source.num_row_groups))
        )
        if "text" not in names and _is_whole(source, part, groups):
            return _whole_groups(source, file, groups, names, coded)
        is_ordered = _begins(source) is not None and not part.is_last
        kept: list[pa.RecordBatch] = []
        for batch in (
            source.iter_batches(BATCH_ROWS, row_groups=groups, columns=names) if groups else ()
        ):
            holds = (
                None
                if queries is None
                else queries.hold(
                    pd.Series(pa.array(batch.column("query_id")).to_pandas(), dtype="str")
                )
            )
            if is_ordered and kept and holds is not None and not holds.any():
                break  # the rows of a part lie together
            if holds is None or holds.any():
                kept.append(
                    batch if holds is None or holds.all() else batch.filter(pa.array(holds))
                )
        return _as_table(kept, source, names)


def _groups(file: pq.ParquetFile, part: Part) -> list[int]:
    every = list(range(file.num_row_groups))
    begins = _begins(file)
    if begins is None:
        return every
    ends = [*begins[1:], math.inf]
    return [n for n in every if begins[n] < part.last and ends[n] > part.first] or (
        [every[-1]] if part.is_last and every else []
    )


def _is_whole(file: pq.ParquetFile, part: Part, groups: list[int]) -> bool:
    """Return whether the part's rows are exactly these row groups.

    They are if the part is the whole run, or begins and ends where the groups do.
    """
    if groups and part.first == 0 and part.is_last:
        return True
    begins = _begins(file)
    if begins is None or not groups:
        return False
    ends = [*begins[1:], part.last if part.is_last else math.inf]
    return begins[groups[0]] == part.first and ends[groups[-1]] == part.last


def _frame(
    file: StoredFile, table: pa.Table, kind: str, coded: tuple[str, ...] = (), **columns: Any
) -> pd.DataFrame:
    """Return a table and further columns as a frame of its kind, without undeclared columns."""
    table = table.select(known_columns(table.column_names, kind))
    codes = [
        name
        for name in coded
        if name in table.column_names and pa.types.is_dictionary(table.schema.field(name).type)
    ]
    own = {name: pd.arrays.ArrowExtensionArray(table.column(name)) for name in codes}
    with reading_parquet(str(file), AGAIN):
        return conform(table.drop_columns(codes).to_pandas().assign(**own, **columns), kind)

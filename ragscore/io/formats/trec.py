"""TREC runs <-> `Results`, also .gz.

A line of a run is `qid Q0 docid rank score tag`. Fields are split by any white space, as C and
trec_eval split them (blank, tab, vertical tab, form feed, carriage return); blank lines, and those
that begin with `#`, count for nothing. Lines become a table, which is read as any other is.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import excerpt, plural, warn
from ragscore.frames.ranking import n_contradicting, rank_hits
from ragscore.io.detect import Sample
from ragscore.io.files import line_blocks, text_of
from ragscore.io.formats.documents import (
    ranked_documents,
    refuse_repeated_documents,
    scores_or_ranks,
    write_fields,
)
from ragscore.io.frames_in import Table, arrow_table
from ragscore.io.source import MOST_FAULTS, Problems, describe
from ragscore.io.tables import CELL, Asked, of_hits

HIT = {
    "query_id": "query", "iteration": "iteration", "doc_id": "document", "rank": "rank",
    "score": "score", "run_id": "tag",
}  # fmt: skip
"""Our name of each field of a line -> what messages call it."""
WHOLE, _NUMBER = r"[+-]?\d{1,10}", r"[+-]?(?:\d|\.\d|inf|nan)\S*"
_HIT = re.compile(rf"\S+\s+\S+\s+\S+\s+{WHOLE}\s+{_NUMBER}\s+\S", re.IGNORECASE)


def is_run(seen: Sample) -> bool:
    """Return True for six columns or more of which the fourth is a rank and the fifth a score."""
    return seen.kind == "text" and _HIT.match(seen.line.lstrip()) is not None


# Lines of fields

HEAD = 1 << 20
"""Bytes of a large file that are read on their own first."""


def read_lines(
    path: Path,
    names: list[str],
    problems: Problems,
    read: Callable[[Table, Problems], Any],
    delimiter: str = "",
    has_rest: bool = False,
) -> Any:
    """Return what `read` makes of the lines of a file: a table of texts, the iteration left out.

    Fields are apart by white space or by a delimiter; any other number of them is a problem. With
    `has_rest`, text after the last one is left out with a warning. Blank lines and comments count
    for nothing. A large file with a fault at its beginning is refused before the rest of it takes
    memory.
    """
    first, *more = [*line_blocks(path)] or [(1, b"")]  # the size of the file is checked first
    if more:
        head, alone = first[1][:HEAD].rpartition(b"\n")[0], Problems(path, problems.strict)
        with catch_warnings(action="ignore"):
            read(_table_of([(1, head)], path, names, alone, delimiter, has_rest), alone)
    table = _table_of([first, *more], path, names, problems, delimiter, has_rest)
    if not len(table.frame):
        raise DataError("no line of fields", file=path, allowed=", ".join(names))
    return read(table, problems)


def _table_of(
    blocks: list[tuple[int, bytes]], path: Path, names: list[str], problems: Problems,
    delimiter: str, has_rest: bool,
) -> Table:  # fmt: skip
    n_names, parts = len(names), list[pa.Table]()
    for begin, block in blocks:
        text = pa.scalar(text_of(block, path, begin), pa.large_string())
        lines = pc.ascii_trim_whitespace(pc.split_pattern(text, "\n").values)
        is_row = pc.invert(pc.or_(pc.equal(lines, ""), pc.starts_with(lines, "#")))
        number, lines = np.flatnonzero(is_row) + begin, lines.filter(is_row)
        if delimiter:
            fields = pc.split_pattern(lines, delimiter)
        else:
            fields = pc.ascii_split_whitespace(lines, max_splits=n_names)
        n = np.asarray(pc.list_value_length(fields))
        if has_rest and (n > n_names).any():
            rest = pc.list_element(fields.filter(n > n_names), n_names)
            what = f"{plural(len(rest), 'line')} with text after the {names[-1]}, which is left out"
            warn(f"{path}: {what}, such as {excerpt(rest[0].as_py())}")
            fields = pc.list_slice(fields, 0, n_names)
            n = np.minimum(n, n_names)
        is_good = n == n_names
        for at in np.flatnonzero(~is_good)[: MOST_FAULTS + 1]:
            line = lines[at].as_py()
            found = f"{len(line.split(delimiter or None))} columns: {describe(line)}"
            problems.add(found, line=int(number[at]), allowed=", ".join(names))
        texts = fields.filter(is_good).flatten() if not is_good.all() else fields.flatten()
        columns = {name: texts[at::n_names] for at, name in enumerate(names) if name != "iteration"}
        if delimiter:
            columns = {name: pc.ascii_trim_whitespace(one) for name, one in columns.items()}
        parts.append(pa.table(columns | {"line": number[is_good]}))
    table = pa.concat_tables(parts)
    lines = table["line"].to_numpy()
    return replace(arrow_table(table.drop_columns("line"), str(path), "file"), lines=lines)


# Runs


def read_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """Read rankings as runs: one run per tag, in order of appearance."""

    def results_of(table: Table, problems: Problems) -> Results:
        columns = {role: table.frame[name] for role, name in HIT.items() if name in table.frame}
        if ties != "file":
            columns.pop("rank")
        results = of_hits(Asked(table, columns, {}, problems, ""))
        if ties != "file":
            results.hits = rank_hits(results.hits, ties)
        elif n := n_contradicting(results.hits):
            problems.note(
                f"in {n} lists a hit has a higher score than one ranked before it: the stored ranks"
                " decide, and ties='trec' ranks by score",
                field="rank",
            )
        results.problems = problems.frame()
        return results

    return read_lines(path, [*HIT.values()], Problems(path, strict), results_of, has_rest=True)


def write_trec_run(results: Results, path: str | Path, *, level: str = "doc") -> Path:
    """Write runs as one TREC run file (`qid Q0 docid rank score tag`, gzip if it ends in .gz).

    The tag is the run_id. Ranks and scores are written as they are, so loading the file gives the
    same hits again. If a run has no scores at all, each hit gets the number of the query's hits
    minus its rank, plus one.

    Parameters
    ----------
    level
        "doc" writes doc_id, "chunk" chunk_id.

    Raises
    ------
    DataError
        An id that is missing or holds a space, a document twice in one list
        (`rs.match.collapse_hits` keeps the first), a run of which only some hits have scores.

    Warns
    -----
    UserWarning
        Counts what the format has no place for, such as queries without hits.
    """
    hits = ranked_documents(results, level)
    refuse_repeated_documents(hits, "doc")
    # Queries stay in the order of the responses.
    cells, asked = (pd.MultiIndex.from_frame(one[CELL].astype("str"))
                    for one in (hits, results.responses))  # fmt: skip
    lines = hits.assign(Q0="Q0", score=scores_or_ranks(hits))
    lines = lines.iloc[np.argsort(asked.get_indexer(cells), kind="stable")]
    return write_fields(path, lines[["query_id", "Q0", "doc", "rank", "score", "run_id"]])

"""Rankings: TREC runs, and runs as JSON {query: {document: score}}, <-> `Results`; also .gz.

A line of a run is `qid Q0 docid rank score tag`. Fields are split by any white space, as C and
trec_eval split them (blank, tab, vertical tab, form feed, carriage return); blank lines, and those
that begin with `#`, count for nothing. Lines become columns at once, and a fault of a value is a
null in its column.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import excerpt, warn
from ragscore.frames.ranking import n_contradicting, rank_hits
from ragscore.io.columns import are_means
from ragscore.io.detect import Sample
from ragscore.io.files import (
    LONGEST_ID,
    check_one_run,
    has_limits,
    longest_line,
    read_text,
    write_text,
)
from ragscore.io.formats.documents import (
    ranked_documents,
    refuse_repeated_documents,
    refuse_spaces,
    scores_or_ranks,
)
from ragscore.io.formats.fields import json_object, run_name
from ragscore.io.run_records import tell
from ragscore.io.source import MOST_FAULTS, Problems, as_id, describe
from ragscore.io.values import ID_ALLOWED, is_int

HIGHEST = 2**31 - 1
Spec = dict[str, tuple[str, Callable[[pa.ChunkedArray], pa.ChunkedArray], str]]
"""Column -> its name in messages, what reads it (null for a fault), and what is allowed."""
_FIELD = re.compile(r"[^ \t\r\v\f]+")
_BLANKS = bytes.maketrans(b"\t\r\v\f", b"    ")


def is_run(seen: Sample) -> bool:
    """Return True for six columns or more of which the fourth is a rank and the fifth a score."""
    return seen.kind == "text" and _is_hit(fields_of(seen.line))


def fields_of(line: str) -> list[str]:
    """Return the fields of a line; none for a comment."""
    return [] if line.lstrip().startswith("#") else _FIELD.findall(line)


def _is_hit(fields: list[str]) -> bool:
    is_whole = len(fields) >= 6 and is_grade(fields[3])
    return is_whole and re.fullmatch(f"{NUMBER}|nan", fields[4], re.IGNORECASE) is not None


# Lines of fields


class Lines:
    """The lines of a text: a table of those with as many fields as names, and the others.

    Attributes
    ----------
    table
        The fields as texts, and the number of their `line`.
    others
        Number and text of the lines with fewer or more fields. Comments are none.
    """

    def __init__(self, text: str, names: list[str], delimiter: str = " ") -> None:
        from pyarrow import csv

        data, self.others = text.encode() + b"\n", list[tuple[int, str]]()
        if delimiter == " ":
            data = data.translate(_BLANKS)
            while b"  " in data:
                data = data.replace(b"  ", b" ")
            data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").removeprefix(b" ")
        skipped = list[int]()

        def skip(row: Any) -> str:
            skipped.append(row.number)
            if not row.text.startswith("#"):
                self.others.append((row.number, row.text))
            is_short = row.actual_columns < len(names)  # a file of other lines may have any number
            return "error" if is_short and len(self.others) > MOST_FAULTS else "skip"

        read = csv.ReadOptions(
            column_names=names, use_threads=False, block_size=max(1 << 20, longest_line(data) + 2)
        )
        parse = csv.ParseOptions(
            delimiter=delimiter,
            quote_char=False,
            double_quote=False,
            ignore_empty_lines=False,
            invalid_row_handler=skip,
        )
        convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.large_string()))
        try:
            table = csv.read_csv(pa.BufferReader(data), read, parse, convert)
        except pa.ArrowInvalid as error:
            number, line = self.others[0]
            raise DataError(
                f"more than {MOST_FAULTS:,} lines of other columns, first {describe(line)}",
                line=number,
                allowed=", ".join(names),
            ) from error
        numbers = np.arange(1, len(table) + len(skipped) + 1)
        table = table.append_column("line", [np.delete(numbers, np.array(skipped, int) - 1)])
        is_blank = pc.and_(*(pc.equal(table[name], "") for name in (names[0], names[-1])))
        is_none = pc.or_(is_blank, pc.starts_with(table[names[0]], "#"))
        self.table = table.filter(pc.invert(is_none)) if pc.any(is_none).as_py() else table


def values_of(table: pa.Table, spec: Spec, faults: Problems) -> pd.DataFrame:
    """Return the columns of a table and its lines as values, without rows that have a fault."""
    columns = {column: read(table[column]) for column, (_, read, _) in spec.items()}
    is_bad = np.zeros(len(table), bool)
    for column, (name, _, allowed) in spec.items():
        is_fault = np.asarray(columns[column].is_null()) & ~is_bad
        is_bad |= is_fault
        for at in np.flatnonzero(is_fault).tolist():
            faults.reject(table[column][at].as_py(), table["line"][at].as_py(), name, allowed)
    good = pa.table({"line": table["line"]} | columns)
    return (good.filter(~is_bad) if is_bad.any() else good).to_pandas()


def as_ids(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ids, null for those that are empty or too long."""
    length = pc.utf8_length(texts)
    most = LONGEST_ID if has_limits() else HIGHEST
    is_id = pc.and_(pc.greater(length, 0), pc.less_equal(length, most))
    return pc.if_else(is_id, texts, None)


def as_grades(texts: pa.ChunkedArray, lowest: int = -HIGHEST) -> pa.ChunkedArray:
    """Return whole numbers in 32 bits, null for all else."""
    is_whole = pc.match_substring_regex(texts, f"^{WHOLE}$")
    plain = pc.utf8_ltrim(pc.if_else(is_whole, texts, None), "+")
    grades = plain.cast(pa.int64())
    is_grade = pc.and_(pc.greater_equal(grades, lowest), pc.less_equal(grades, HIGHEST))
    return pc.if_else(is_grade, grades, None)


def as_scores(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return numbers, null for all else.

    "-inf" is the logarithm of 0; digits that stand for more than a float can hold are a fault.
    """
    is_number = pc.match_substring_regex(texts, f"^{NUMBER}$", ignore_case=True)
    scores = pc.if_else(is_number, texts, None).cast(pa.float64())
    is_said = pc.match_substring(texts, "inf", ignore_case=True)
    return pc.if_else(pc.or_(pc.is_finite(scores), is_said), scores, None)


WHOLE, NUMBER = (
    r"[+-]?[0-9]{1,10}",
    r"[+-]?(?:(?:[0-9]+\.?|\.[0-9])[0-9]*(?:e[+-]?[0-9]+)?|inf(?:inity)?)",
)


def is_grade(text: str) -> bool:
    """Return True for a whole number in 32 bits, possibly negative."""
    return re.fullmatch(WHOLE, text) is not None and abs(int(text)) <= HIGHEST


HIT: Spec = {
    "query_id": ("query", as_ids, ID_ALLOWED),
    "doc_id": ("document", as_ids, ID_ALLOWED),
    "run_id": ("tag", lambda texts: as_ids(texts).dictionary_encode(), ID_ALLOWED),
    "rank": ("rank", lambda texts: as_grades(texts, 0), "a whole number from 0"),
    "score": ("score", as_scores, "a finite number, or inf"),
}


# Runs


def read_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """Read rankings as runs: one run per tag, in order of appearance.

    Text after the tag is cut off, and `problems` counts such lines; a warning shows what is no
    comment (`#`).
    """
    problems, faults = Problems(path, strict), Problems(path, strict=False)
    lines = Lines(read_text(path), ["query_id", "iteration", "doc_id", "rank", "score", "run_id"])
    cut = list[list[Any]]()
    for number, line in lines.others:
        fields = line.split(" ")
        if len(fields) < 6:
            faults.add(
                f"{len(fields)} columns: {describe(line)}",
                line=number,
                allowed="query, Q0, document, rank, score, tag",
            )
        elif any(_is_hit(fields[begin:]) for begin in (5, 6)):
            faults.add(
                f"two hits in a line: {describe(line)}",
                line=number,
                allowed="one hit in a line; files that are joined end in a line end",
            )
        else:
            cut.append([*fields[:6], number, " ".join(fields[6:])])
    table = lines.table
    if cut:
        *columns, after = map(list, zip(*cut, strict=True))
        others = pa.table(columns, table.schema.names).cast(table.schema)
        table = pa.concat_tables([table, others]).sort_by("line")
        told = "1 line has" if len(cut) == 1 else f"{len(cut)} lines have"
        told += " text after the tag, which is left out"
        problems.note(told, field="tag")
        if words := next((one for one in after if not one.startswith("#")), None):
            warn(f"{path}: {told}, such as {excerpt(words)}")
    hits = values_of(table, HIT, faults).drop(columns="line")
    tell(faults, problems)
    hits["rank"] = rank_hits(hits, ties)["rank"]
    if ties == "file" and (n := n_contradicting(hits)):
        problems.note(
            f"in {n} lists a hit has a higher score than one ranked before it: the stored ranks"
            " decide, and ties='trec' ranks by score",
            field="rank",
        )
    return _results(hits[["run_id", "query_id"]].drop_duplicates(), hits, problems.frame())


def _results(cells: pd.DataFrame, hits: pd.DataFrame, problems: pd.DataFrame) -> Results:
    """Return rankings as results; `cells` are the runs and queries that were asked."""
    n_queries = cells["run_id"].value_counts(sort=False)
    tags = n_queries.index.astype("str")
    runs = pd.DataFrame({"run_id": tags, "system": tags, "n_queries": n_queries.to_numpy()})
    unknown = pd.Series(pd.NA, range(len(cells)), dtype="str")
    responses = cells.reset_index(drop=True).assign(query=unknown, error=unknown)
    return Results(runs=runs.assign(n_failed=0), responses=responses, hits=hits, problems=problems)


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
    refuse_spaces([hits["doc"], hits["query_id"], results.runs["run_id"]])
    refuse_repeated_documents(hits, "doc")
    # Queries stay in the order of the responses.
    cells = zip(results.responses["run_id"], results.responses["query_id"], strict=True)
    places = {cell: place for place, cell in enumerate(cells)}
    scored = hits.assign(score=scores_or_ranks(hits))
    columns = (scored[name] for name in ("run_id", "query_id", "doc", "rank", "score"))
    rows = sorted(zip(*columns, strict=True), key=lambda row: places.get(row[:2], len(places)))
    lines = (
        f"{query_id} Q0 {doc} {rank} {score!r} {run_id}\n"
        for run_id, query_id, doc, rank, score in rows
    )
    return write_text(path, "".join(lines))


# Runs and judgements as one JSON object: the files of ranx, BEIR and pytrec_eval

_TEXT, _DIGIT = r'"(?:[^"\\]|\\.)*"', r"-?\d"
_BEGIN = re.compile(rf"\s*\{{\s*{_TEXT}\s*:\s*\{{\s*(?:{_TEXT}\s*:\s*{_DIGIT}|\}})")


def is_json_run(seen: Sample) -> bool:
    """Return True if a file begins as an object of objects of numbers, which are no means."""
    whole = seen.first or {}
    is_flat = all(
        isinstance(one, dict) and not any(isinstance(inner, (dict, list)) for inner in one.values())
        for one in whole.values()
    )
    is_run = seen.kind in ("json", "jsonl") and is_flat and not are_means(whole)
    return is_run and _BEGIN.match(seen.begin) is not None


def json_numbers(path: Path, name: str, problems: Problems) -> tuple[list[str], pd.DataFrame]:
    """Return the queries, and query, document and number of each; any other value is a problem."""
    allowed = f"an object {{document: {name}}}"
    most = 2**1023 if name == "score" else HIGHEST + 1
    kind = "a number" if name == "score" else "a whole number"
    query_ids, rows = list[str](), list[tuple[str, str, Any]]()
    for query_id, values in json_object(path, f"one object {{query: {allowed[10:]}}}").items():
        if not (isinstance(values, dict) and as_id(query_id)):
            problems.add(
                f"{excerpt(query_id)} has {describe(values)}", field="query", allowed=allowed
            )
            continue
        query_ids.append(query_id)
        for doc_id, value in values.items():
            is_number = is_int(value) or (isinstance(value, float) and name == "score")
            if as_id(doc_id) and is_number and abs(value) < most:
                rows.append((query_id, doc_id, value))
            else:
                problems.add(
                    f"{excerpt(doc_id)} of {excerpt(query_id)} has {describe(value)}",
                    field=name,
                    allowed=f"{kind} for each document",
                )
    types = {"query_id": "str", "doc_id": "str", name: "float64" if name == "score" else "int64"}
    return query_ids, pd.DataFrame(rows, columns=[*types]).astype(types)


def read_json_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """Read one run, named after its file.

    An object has no order: documents rank by score, equal ones in file order (or as `ties` says).
    """
    problems, run_id = Problems(path, strict), run_name(path)
    query_ids, hits = json_numbers(path, "score", problems)
    query_id = pd.Series(query_ids, dtype="str")
    run = pd.Categorical([run_id] * len(query_ids), [run_id])  # a run without queries is one
    hits.insert(0, "run_id", run_id)
    if ties == "file":
        place = hits["query_id"].map(dict(zip(query_ids, range(len(query_ids)), strict=True)))
        order = np.lexsort((-hits["score"], place))
        hits = hits.iloc[order].reset_index(drop=True)
    cells = pd.DataFrame({"run_id": run, "query_id": query_id})
    return _results(cells, rank_hits(hits, ties), problems.frame(run_id))


def write_json_run(results: Results, path: str | Path, *, level: str = "doc") -> Path:
    """Write one run as a JSON object {query: {document: score}} (gzip if the file ends in .gz).

    Loading the file gives the same hits again, in a run named after the file. Queries without hits
    have an empty object. If a run has no scores at all, each hit gets the number of the query's
    hits minus its rank, plus one.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    level
        "doc" writes doc_id, "chunk" chunk_id.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        No run or more than one; an id that is missing; a document twice in one list
        (`rs.match.collapse_hits` keeps the first); ranks that are not those of the scores. An
        object has no order, so its reader ranks by score.
    """
    check_one_run(results)
    hits = ranked_documents(results, level)
    refuse_repeated_documents(hits, "doc")
    scored = hits.assign(score=scores_or_ranks(hits))
    by_score = scored.sort_values("score", ascending=False, kind="stable")
    place = by_score.groupby("query_id", sort=False).cumcount() + 1
    wrong = scored[place.reindex(scored.index) != scored["rank"]]
    if len(wrong):
        raise DataError(
            f"{len(wrong)} hits have other ranks than their scores say, first"
            f" {wrong['doc'].iloc[0]!r} of query {wrong['query_id'].iloc[0]!r}",
            field="hits.rank",
            allowed="1, 2, 3, ... as scores fall; rs.match.rank_hits(hits, ties='trec') ranks so",
        )
    content: dict[str, dict[str, float]] = {
        query_id: {} for query_id in (*results.responses["query_id"], *scored["query_id"])
    }
    for query_id, doc, score in scored[["query_id", "doc", "score"]].itertuples(index=False):
        content[query_id][doc] = score
    return write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")

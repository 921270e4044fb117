"""Table of everything that is wrong with a golden set.

In: a golden file or a `Golden`. Out: one row per problem, from loading (duplicate ids, wrong types
and grades, paraphrases that expect different documents) or from the rules of `checks`.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, check_type, golden_part
from ragscore.frames.errors import unsaid
from ragscore.golden.checks import CHECKS
from ragscore.golden.violations import FIELD_OF_LEVEL, NOTHING, Check, Violations, violation
from ragscore.io.file_content import text_lines
from ragscore.io.golden_read import file_rows
from ragscore.io.load import IR_DATASETS, given_or_named, golden_files, joined, load_golden
from ragscore.io.rows import table_rows, value_at
from ragscore.io.source import Problems, Row, as_id

COLUMNS = ["severity", "rule", "query_id", "file", "line", "field", "found", "allowed"]


def validate(
    golden: Any = None,
    *,
    catalogue: pd.DataFrame | None = None,
    format: str | None = None,
    columns: dict[str, str] | None = None,
) -> pd.DataFrame:
    """Return everything that is wrong with a golden set.

    Parameters
    ----------
    golden
        A golden set in memory (which has no lines), or whatever `load_golden` takes: a file, a
        pattern or a list of files, a frame, records, a dict. By default the file that the
        environment names.
    catalogue
        A frame with `chunk_id` and / or `doc_id`, such as `results.chunks`: expected ids must be in
        it.
    format, columns
        As for `load_golden`.

    Returns
    -------
    One row per problem: `severity` (error; warning: it may be meant so), `rule` ("loading", or the
    name of a check), `query_id` (NA: not about one query), `file` and `line` (NA in memory),
    `field`, `found`, `allowed`; in the order of the file. Without problems the table is empty.

    Raises
    ------
    DataError
        The file can't be read at all.
    """
    golden = given_or_named(golden)
    if isinstance(golden, Golden):
        return _table([_Part(golden)], catalogue)
    with unsaid():  # the table reports what loading warns of
        sources = golden_files(golden) or [golden]
        return _table([_part(source, format, columns) for source in sources], catalogue)


@dataclass(frozen=True)
class _Part:
    """A golden set with its file, and where its queries stand there.

    Attributes
    ----------
    lines
        Line by (query id, field); the field "" is the whole query.
    starts
        First line of each row with its query id (None: unknown), in the order of the file.
    """

    golden: Golden
    file: str | None = None
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    starts: list[tuple[int, str | None]] = field(default_factory=list)

    def line_of(self, query_id: Any, name: Any) -> int | None:
        """Return the line of a query's field, else that of the query."""
        return self.lines.get((query_id, name), self.lines.get((query_id, "")))

    def query_at(self, line: Any) -> str | None:
        """Return the query on a line."""
        if pd.isna(line) or not self.starts:
            return None
        place = bisect_right([start for start, _ in self.starts], line)
        return self.starts[place - 1][1] if place else None


def _part(source: Any, format: str | None, columns: dict[str, str] | None) -> _Part:
    if isinstance(source, Golden):
        return _Part(source)
    golden = load_golden(source, format, columns, strict=False)
    is_path = isinstance(source, (str, os.PathLike)) and not str(source).startswith(IR_DATASETS)
    if not is_path:
        return _Part(golden)
    lines, starts = dict[tuple[str, str], int](), list[tuple[int, str | None]]()
    for row, query_id in _rows(golden, Path(source)):
        starts.append((row.line, query_id))
        if query_id is not None:
            for name, line in {"": row.line, **row.lines}.items():
                lines.setdefault((query_id, name), line)
    return _Part(golden, str(source), lines, starts)


def _table(parts: list[_Part], catalogue: pd.DataFrame | None) -> pd.DataFrame:
    parts, repeated = _without_repeats(parts)
    golden = parts[0].golden
    if len(parts) > 1:
        golden = joined([part.golden for part in parts], [part.file for part in parts])
    part_of = {
        query_id: part for part in reversed(parts) for query_id in part.golden.queries["query_id"]
    }
    loading = [
        problems.assign(rule="loading", query_id=problems["line"].astype(object).map(part.query_at))
        for part in parts
        if len(problems := part.golden.problems)
    ]
    found = [_violations_in(check, golden) for check in CHECKS]
    if catalogue is not None:
        found.append(_not_in_catalogue(golden, catalogue))
    placed = [_placed(rows, part_of) for rows in (*found, *repeated) if len(rows)]
    tables = [*loading, *placed]
    dtypes = {name: "Int64" if name == "line" else "str" for name in COLUMNS}
    if not tables:
        return pd.DataFrame(columns=COLUMNS).astype(dtypes)
    table = pd.concat(
        [rows.reindex(columns=COLUMNS).astype("object") for rows in tables], ignore_index=True
    )
    table = table.assign(severity=table["severity"].fillna("error")).astype(dtypes)
    files = {part.file: number for number, part in enumerate(parts)}
    position = golden.queries.set_index("query_id")["position"]
    return table.assign(
        number=table["file"].map(files).fillna(0),
        position=table["query_id"].map(position).fillna(-1),
    ).sort_values(
        ["number", "line", "position"], kind="stable", na_position="last", ignore_index=True
    )[COLUMNS]


def _without_repeats(parts: list[_Part]) -> tuple[list[_Part], list[Violations]]:
    """Leave out queries that an earlier file has, and report them."""
    seen: dict[str, str] = {}
    kept, repeated = [], []
    for part in parts:
        queries = part.golden.queries
        is_new = ~queries["query_id"].isin(list(seen))
        twice = queries.loc[~is_new, "query_id"]
        rows = [
            {"query_id": query_id, "found": f"the id is also in {seen[query_id]}",
             "file": part.file, "line": part.line_of(query_id, "id")}
            for query_id in twice
        ]  # fmt: skip
        repeated.append(
            pd.DataFrame(rows).assign(rule="loading", field="id", allowed="ids must be unique")
        )
        seen |= dict.fromkeys(queries["query_id"][is_new], part.file or "another golden set")
        is_whole = bool(is_new.all())
        kept.append(
            part if is_whole else replace(part, golden=golden_part(part.golden, queries[is_new]))
        )
    return kept, repeated


def _placed(rows: Violations, part_of: Mapping[str, _Part]) -> pd.DataFrame:
    """Add the file and the line of each violation."""
    if "file" in rows:
        return rows
    places = [
        (part_of[query_id].file, part_of[query_id].line_of(query_id, name))
        for query_id, name in zip(rows["query_id"], rows["field"], strict=True)
    ]
    return rows.assign(
        **pd.DataFrame(places, index=rows.index, columns=["file", "line"], dtype="object")
    )


def _rows(golden: Golden, path: Path) -> Iterable[tuple[Row, str | None]]:
    """Yield the rows of a file in its order, each with its query id as far as it can be told.

    A row without a known id is that of the query with its text; a format without rows has none.
    """
    texts_once = golden.queries.drop_duplicates("query", keep=False)
    by_text = dict(zip(texts_once["query"], texts_once["query_id"], strict=True))
    known = set(golden.queries["query_id"])
    column = golden.mapping.set_index("role")["column"].get("query_id")
    for row in _file_rows(golden, path):
        named = [value_at(row.values, column)] if column else []
        named += [row.values.get(name) for name in ("id", "query_id", "_id", "qid")]
        taken = [query_id for value in named if (query_id := as_id(value)) is not None]
        texts = [row.values.get(name) for name in ("query", "question")]
        ids = [query_id for query_id in taken if query_id in known]
        ids += [by_text[text] for text in texts if isinstance(text, str) and text in by_text]
        ids += taken  # of a row that is no query of the set
        yield row, ids[0] if ids else None


def _file_rows(golden: Golden, path: Path) -> list[Row]:
    problems = Problems(path, strict=False)
    if path.is_dir():
        path = path / "queries.jsonl"
    name = path.name.removesuffix(".gz")
    if not path.is_file():
        return []
    if name.endswith((".yaml", ".yml", ".jsonl")):
        return file_rows(path, problems)
    if len(golden.mapping):
        return list(table_rows(path, problems))
    if name.endswith((".json", ".parquet", ".db", ".sqlite", ".eval", ".zip")):
        return []
    lines = enumerate(text_lines(path), 1)  # TREC qrels: the query is the first word
    return [
        Row({"id": line.split(maxsplit=1)[0]}, number) for number, line in lines if line.split()
    ]


def _violations_in(check: Check, golden: Golden) -> Violations:
    applies = check.applies(golden).to_numpy(dtype=bool, na_value=False)
    if not applies.any() or not len(found := check.find(golden)):
        return NOTHING
    found = found[found["query_id"].isin(golden.queries.loc[applies, "query_id"])]
    return found.assign(
        rule=check.name,
        severity=check.severity,
        allowed=found.get("allowed", check.allowed),
        field=found.get("field", check.field),
    )


def _not_in_catalogue(golden: Golden, catalogue: pd.DataFrame) -> Violations:
    """Find expected ids that are not in the catalogue.

    Only the kinds of ids that the catalogue has are checked.
    """
    check_type(catalogue, pd.DataFrame, "catalogue")
    parts = [NOTHING]
    for level, column in (("doc", "doc_id"), ("chunk", "chunk_id")):
        if column in catalogue and column in golden.targets:
            expected = golden.targets[golden.targets["level"] == level].dropna(subset=column)
            unknown = expected[~expected[column].isin(catalogue[column].dropna().astype("str"))]
            parts.append(violation(unknown, unknown[column], field=FIELD_OF_LEVEL[level]))
    return pd.concat(parts, ignore_index=True).assign(
        rule="ids are in the catalogue", allowed="ids of the catalogue"
    )

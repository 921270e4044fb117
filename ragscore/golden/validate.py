"""Table of everything that is wrong with a golden set.

In: a golden file or a `Golden`. Out: one row per problem, from loading (duplicate ids, wrong types
and grades, paraphrases that expect different documents) or from `rules`.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, check_type
from ragscore.frames.errors import unsaid
from ragscore.golden.rules import CHECKS, FIELD_OF_LEVEL, NOTHING, Violations, violation
from ragscore.io.golden_read import file_rows
from ragscore.io.load import given_or_named, golden_files, load_golden
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
    name of a check), `query_id` (NA: not about one query), `file`, `line` (of YAML and JSON lines),
    `field`, `found`, `allowed`; in the order of the file. Without problems the table is empty.

    Raises
    ------
    DataError
        The file can't be read at all.
    """
    golden, files = given_or_named(golden), list[Path]()
    if not isinstance(golden, Golden):
        files = [
            Path(one) for one in golden_files(golden) or [golden] if isinstance(one, (str, Path))
        ]
        with unsaid():  # the table reports what loading warns of
            golden = load_golden(golden, format, columns, strict=False)
    places: dict[tuple[Any, Any], tuple[str, int]] = {}
    starts: dict[str, list[tuple[int, str | None]]] = {}
    for file in files:
        for row, query_id in _rows(golden, file):
            starts.setdefault(str(file), []).append((row.line, query_id))
            for name, line in {"": row.line, **row.lines}.items():
                places.setdefault((query_id, name), (str(file), line))

    def query_at(file: Any, line: Any) -> str | None:
        known = starts.get(str(file), [])
        place = 0 if pd.isna(line) else bisect_right([start for start, _ in known], line)
        return known[place - 1][1] if place else None

    loading = golden._problems.assign(rule="loading")
    loading["query_id"] = [
        query_at(*one) for one in zip(loading["file"], loading["line"], strict=True)
    ]
    found = [check.violations(golden) for check in CHECKS]
    found += [] if catalogue is None else [_not_in_catalogue(golden, catalogue)]
    rows = pd.concat([NOTHING, *found], ignore_index=True).reindex(columns=COLUMNS)
    alone = str(files[0]) if len(files) == 1 else None
    at = [
        places.get((query_id, name), places.get((query_id, ""), (alone, None)))
        for query_id, name in zip(rows["query_id"], rows["field"], strict=True)
    ]
    rows[["file", "line"]] = pd.DataFrame(at, columns=["file", "line"], dtype="object")
    table = pd.concat([loading.reindex(columns=COLUMNS).astype("object"), rows.astype("object")])
    dtypes = {name: "Int64" if name == "line" else "str" for name in COLUMNS}
    table = table.assign(severity=table["severity"].fillna("error")).astype(dtypes)
    number = {str(file): number for number, file in enumerate(files)}
    position = golden.queries.set_index("query_id")["position"]
    return table.assign(
        number=table["file"].map(number).fillna(0),
        position=table["query_id"].map(position).fillna(-1),
    ).sort_values(
        ["number", "line", "position"], kind="stable", na_position="last", ignore_index=True
    )[COLUMNS]


def _rows(golden: Golden, path: Path) -> Iterator[tuple[Row, str | None]]:
    """Yield the rows of a YAML or JSON lines file with their query ids; of others none."""
    if not path.is_file() or not path.name.removesuffix(".gz").endswith(
        (".yaml", ".yml", ".jsonl")
    ):
        return
    column = golden._mapping.set_index("role")["column"].get("query_id", "id")
    for row in file_rows(path, Problems(path, strict=False)):
        ids = [as_id(row.values.get(name)) for name in (column, "id", "query_id", "_id", "qid")]
        yield row, next((one for one in ids if one is not None), None)


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

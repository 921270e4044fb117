"""What is wrong with a golden set, as a table.

In: a golden file, or a `Golden`. Out: one row per problem. What loading finds (ids twice, wrong
types and grades, paraphrases that expect different documents) and what the rules of `golden_checks`
find stand in the same table.
"""

import os
import warnings
from pathlib import Path

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, check_type
from ragscore.golden.checks import CHECKS, FIELD_OF_LEVEL, NOTHING, Check, Found, offence
from ragscore.io.load import load_golden
from ragscore.io.rows import yaml_rows
from ragscore.io.source import Problems, json_rows

COLUMNS = ["rule", "query_id", "file", "line", "field", "found", "allowed"]


def validate(
    golden: Golden | str | os.PathLike[str],
    *,
    catalogue: pd.DataFrame | None = None,
    format: str | None = None,
) -> pd.DataFrame:
    """Everything that is wrong with a golden set.

    Parameters
    ----------
    golden
        A golden file of any format that `load_golden` reads, or a golden set in memory (which has
        no lines).
    catalogue
        A frame with `chunk_id` and / or `doc_id`, such as `results.chunks`: expected ids must be in
        it.
    format
        As for `load_golden`.

    Returns
    -------
    One row per problem: `rule` ("loading", or the name of a check), `query_id` (NA: not of one
    question), `file`, `line`, `field`, `found`, `allowed`; in the order of the file. No row: the
    set is sound.

    Raises
    ------
    DataError
        The file can't be read at all.
    """
    if isinstance(golden, Golden):
        return _table(golden, catalogue, None)
    check_type(golden, (str, os.PathLike), "golden")
    with warnings.catch_warnings():
        # unlabelled questions are a row of the table here
        warnings.simplefilter("ignore", UserWarning)
        loaded = load_golden(golden, format=format, strict=False)
        return _table(loaded, catalogue, Path(golden))


def _table(golden: Golden, catalogue: pd.DataFrame | None, file: Path | None) -> pd.DataFrame:
    loading = golden.problems.drop(columns="run_id", errors="ignore").assign(rule="loading")
    parts = [
        loading,
        *(_offences(check, golden) for check in CHECKS),
        *([_not_in_catalogue(golden, catalogue)] if catalogue is not None else []),
    ]
    there = [part for part in parts if len(part)]
    if not there:
        return pd.DataFrame(
            {name: pd.Series(dtype="Int64" if name == "line" else "str") for name in COLUMNS}
        )
    table = pd.concat(
        [part.reindex(columns=COLUMNS).astype("object") for part in there], ignore_index=True
    )
    if file is not None:
        lines = _lines(file)
        line = table.merge(lines, on=["query_id", "field"], how="left")["line_y"].fillna(
            table["query_id"].map(lines[lines["field"] == ""].set_index("query_id")["line"])
        )
        table = table.assign(file=str(file), line=table["line"].fillna(line))
    table = table.astype({name: "Int64" if name == "line" else "str" for name in COLUMNS})
    position = table["query_id"].map(golden.queries.set_index("query_id")["position"]).fillna(-1)
    return table.assign(position=position).sort_values(
        ["line", "position"], kind="stable", na_position="last", ignore_index=True
    )[COLUMNS]


def _lines(file: Path) -> pd.DataFrame:
    """The line of each question (field "") and, in YAML, of each of its fields.

    None for formats without one line or mapping per question.
    """
    problems = Problems(file, strict=False)
    name = file.name.removesuffix(".gz")
    read = (
        yaml_rows
        if name.endswith((".yaml", ".yml"))
        else json_rows
        if name.endswith((".jsonl", ".json")) and file.is_file()
        else None
    )
    rows = list(read(file, problems)) if read is not None else []
    places = [(row.values.get("id", row.values.get("query_id")), row) for row in rows]
    records = [
        (str(query_id), field, line)
        for query_id, row in places
        for field, line in {"": row.line, **row.lines}.items()
    ]
    return (
        pd.DataFrame(records, columns=["query_id", "field", "line"])
        .astype({"query_id": "object", "field": "object"})
        .drop_duplicates(["query_id", "field"])
    )


def _offences(check: Check, golden: Golden) -> Found:
    applies = check.applies(golden).to_numpy(dtype=bool, na_value=False)
    found = check.find(golden) if applies.any() else NOTHING
    found = (
        found[is_among(found["query_id"], golden.queries.loc[applies, "query_id"])]
        if len(found)
        else found
    )
    if not len(found):
        return NOTHING
    return found.assign(
        rule=check.name, allowed=check.allowed, field=found.get("field", check.field)
    )


def _not_in_catalogue(golden: Golden, catalogue: pd.DataFrame) -> Found:
    """Expected ids that the catalogue doesn't know, as far as it has that kind of id."""
    parts = [NOTHING]
    for level, column in (("doc", "doc_id"), ("chunk", "chunk_id")):
        if column in catalogue and column in golden.targets:
            expected = golden.targets[
                is_among(golden.targets["level"], [level])
                & golden.targets[column].notna().to_numpy()
            ]
            unknown = expected[~is_among(expected[column], catalogue[column].dropna())]
            parts.append(offence(unknown, unknown[column], field=FIELD_OF_LEVEL[level]))
    return pd.concat(parts, ignore_index=True).assign(
        rule="ids are in the catalogue", allowed="ids of the catalogue"
    )

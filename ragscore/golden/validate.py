"""Table of everything that is wrong with a golden set.

In: a golden file or a `Golden`. Out: one row per problem, from loading (duplicate ids, wrong types
and grades, paraphrases that expect different documents) or from the rules of `checks`.
"""

import os
import warnings
from pathlib import Path

import pandas as pd

from ragscore.frames.data import Golden, check_type
from ragscore.golden.checks import CHECKS, FIELD_OF_LEVEL, NOTHING, Check, Violations, violation
from ragscore.io.load import load_golden
from ragscore.io.rows import yaml_rows
from ragscore.io.source import Problems, json_rows

COLUMNS = ["rule", "query_id", "file", "line", "field", "found", "allowed"]


def validate(
    golden: Golden | str | os.PathLike[str],
    *,
    catalogue: pd.DataFrame | None = None,
    format: str | None = None,
    columns: dict[str, str] | None = None,
) -> pd.DataFrame:
    """Return everything that is wrong with a golden set.

    Parameters
    ----------
    golden
        A golden file of any format that `load_golden` reads, or a golden set in memory (which has
        no lines).
    catalogue
        A frame with `chunk_id` and / or `doc_id`, such as `results.chunks`: expected ids must be in
        it.
    format, columns
        As for `load_golden`.

    Returns
    -------
    One row per problem: `rule` ("loading", or the name of a check), `query_id` (NA: not about one
    query), `file`, `line`, `field`, `found`, `allowed`; in the order of the file. Without
    problems the table is empty.

    Raises
    ------
    DataError
        The file can't be read at all.
    """
    if isinstance(golden, Golden):
        return _table(golden, catalogue, None)
    check_type(golden, (str, os.PathLike), "golden")
    with warnings.catch_warnings():
        # The table reports unlabelled queries, so a warning would repeat it.
        warnings.simplefilter("ignore", UserWarning)
        loaded = load_golden(golden, format, columns, strict=False)
        return _table(loaded, catalogue, Path(golden))


def _table(golden: Golden, catalogue: pd.DataFrame | None, file: Path | None) -> pd.DataFrame:
    dtypes = {name: "Int64" if name == "line" else "str" for name in COLUMNS}
    parts = [golden.problems.assign(rule="loading")]
    parts += [_violations(check, golden) for check in CHECKS]
    if catalogue is not None:
        parts.append(_not_in_catalogue(golden, catalogue))
    parts = [part.reindex(columns=COLUMNS).astype("object") for part in parts if len(part)]
    if not parts:
        return pd.DataFrame(columns=COLUMNS).astype(dtypes)
    table = pd.concat(parts, ignore_index=True)
    if file is not None:
        lines = _lines(file)
        of_field = table.merge(lines, on=["query_id", "field"], how="left")["line_y"]
        of_query = table["query_id"].map(lines[lines["field"] == ""].set_index("query_id")["line"])
        line = table["line"].fillna(of_field.fillna(of_query))
        table = table.assign(file=str(file), line=line)
    table = table.astype(dtypes)
    position = table["query_id"].map(golden.queries.set_index("query_id")["position"]).fillna(-1)
    return table.assign(position=position).sort_values(
        ["line", "position"], kind="stable", na_position="last", ignore_index=True
    )[COLUMNS]


def _lines(file: Path) -> pd.DataFrame:
    """Return the line of each query (field "") and, in YAML, of each of its fields.

    The frame is empty for formats without a line or mapping per query.
    """
    problems, name, rows = Problems(file, strict=False), file.name.removesuffix(".gz"), []
    if name.endswith((".yaml", ".yml")):
        rows = list(yaml_rows(file, problems))
    elif name.endswith((".jsonl", ".json")) and file.is_file():
        rows = list(json_rows(file, problems))
    records = [
        (str(row.values.get("id", row.values.get("query_id"))), field, line)
        for row in rows
        for field, line in {"": row.line, **row.lines}.items()
    ]
    table = pd.DataFrame(records, columns=["query_id", "field", "line"])
    table = table.astype({"query_id": "object", "field": "object"})
    return table.drop_duplicates(["query_id", "field"])


def _violations(check: Check, golden: Golden) -> Violations:
    applies = check.applies(golden).to_numpy(dtype=bool, na_value=False)
    if not applies.any() or not len(found := check.find(golden)):
        return NOTHING
    found = found[found["query_id"].isin(golden.queries.loc[applies, "query_id"])]
    field = found.get("field", check.field)
    return found.assign(rule=check.name, allowed=check.allowed, field=field)


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

"""Per-query values from elsewhere as columns of the scores, so that they are summarized, compared and gated like any metric."""

import pandas as pd

from ragscore.frames.data import DataError


def add_columns(
    scores: pd.DataFrame,
    table: pd.DataFrame,
    columns: list[str] | None = None,
    *,
    partial: bool = False,
) -> pd.DataFrame:
    """The scores with further metric columns, joined by run and query.

    Parameters
    ----------
    scores
        From `rs.score`.
    table
        One row per run and query: run_id, query_id, and numbers (`rs.freshness`, `rs.behaviour`,
        your own).
    columns
        Which of its columns; by default all whose name holds a dot or an @, as the names of metrics
        from elsewhere do.
    partial
        Whether answered queries may be absent from the table; they become NaN.

    Returns
    -------
    A new frame: the scores, then one float64 column per name; NaN for queries that the run has no
    answer to. Which direction of a column of your own is better isn't known: comparisons say of it
    "higher" or "lower", not "better" or "worse".

    Raises
    ------
    DataError
        The table knows other queries than the scores, or one of them twice; a column is absent, or
        there already.
    """
    chosen = (
        columns
        if columns is not None
        else [name for name in table.columns if "." in name or "@" in name]
    )
    lacking = [name for name in ("run_id", "query_id", *chosen) if name not in table.columns]
    if lacking or not chosen:
        raise DataError(
            f"no column {', '.join(lacking) or 'of a metric'}",
            field="columns",
            allowed=f"the table has {', '.join(table.columns)}",
        )
    if there := [name for name in chosen if name in scores.columns]:
        raise DataError(
            f"{', '.join(there)} is among the scores already",
            field="columns",
            allowed="other names",
        )
    cells = pd.MultiIndex.from_arrays(
        [scores["run_id"].astype("str"), scores.index.astype("str")], names=["run_id", "query_id"]
    )
    keyed = table.set_index([table["run_id"].astype("str"), table["query_id"].astype("str")])[
        chosen
    ].astype("float64")
    _refuse_others(keyed.index, cells, scores, partial)
    found = keyed.reindex(cells)
    return scores.assign(**{name: found[name].to_numpy() for name in chosen})


def _refuse_others(keys: pd.Index, cells: pd.Index, scores: pd.DataFrame, partial: bool) -> None:
    if keys.has_duplicates:
        raise DataError(
            f"{_named(keys[keys.duplicated()])} stands there twice",
            field="table",
            allowed="one row per run and query",
        )
    unknown = keys.difference(cells)
    if len(unknown):
        raise DataError(
            f"{len(unknown)} rows have no score, first {_named(unknown)}",
            field="table",
            allowed="the runs and queries of the scores",
        )
    asked = cells[~scores["state"].eq("missing").to_numpy()] if "state" in scores else cells
    absent = asked.difference(keys)
    if len(absent) and not partial:
        raise DataError(
            f"{len(absent)} answered queries have no row, first {_named(absent)}",
            field="table",
            allowed="the queries of the scores, or partial=True",
        )


def _named(keys: pd.Index) -> str:
    return " / ".join(map(str, keys[0]))

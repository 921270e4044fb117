"""The mode that each response was made in, and slices of the queries by it.

`by="mode"` slices by the response, not by the golden query: runs may answer one query in different
modes. In: results. Out: modes by run and query, and golden sets that have them as a column.
"""

from dataclasses import replace
from typing import Any

import pandas as pd

from ragscore.frames.config import parsed
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import names_of

MODE = "mode"
CONFIG_KEYS = (MODE, "folder_mode")  # of a config, the first that is there


def is_by_mode(by: Any, golden: Golden) -> bool:
    """Tell if slices are asked for by the responses' mode.

    A column or kind of tag of the golden set that is called so goes first.
    """
    known = {MODE, f"x_{MODE}"} & set(golden.queries) or golden.tags["kind"].eq(MODE).any()
    return by is not None and MODE in names_of(by, "by") and not known


def response_modes(results: Results) -> pd.DataFrame:
    """One row per response: run_id, query_id, and its mode as text.

    Its own `mode`, else that of its own config, else that of the run's config (`mode`, or
    `folder_mode`); NA where none of them says.
    """
    responses = results.responses.reset_index(drop=True)
    mode = responses.get(MODE, pd.Series(pd.NA, index=responses.index)).astype("str")
    for texts in response_configs(results):
        modes = {text: _stated(text) for text in texts.dropna().unique()}
        mode = mode.fillna(texts.map(modes).astype("str"))
    return responses[["run_id", "query_id"]].astype({"run_id": "str"}).assign(**{MODE: mode})


def response_configs(results: Results) -> list[pd.Series]:
    """Return the configs of the responses as texts, NA without one: their own, then their runs'."""
    responses, runs = results.responses.reset_index(drop=True), results.runs
    found = [responses["x_config.json"]] if "x_config.json" in responses else []
    if "config" in runs:
        of_run = runs["config"].set_axis(runs["run_id"].astype("str"))
        found.append(responses["run_id"].astype("str").map(of_run))
    return found


def _stated(text: str) -> str | None:
    config = parsed(text)
    stated = [config.get(key) for key in CONFIG_KEYS] if isinstance(config, dict) else []
    return next((value for value in stated if isinstance(value, str) and value), None)


def with_modes(golden: Golden, results: Results | None, run_id: str) -> Golden:
    """Return the golden set with the modes of one run's responses as the column `x_mode`.

    Raises
    ------
    DataError
        No results, or none of their responses has a mode.
    """
    modes = None if results is None else response_modes(results)
    if modes is None or modes[MODE].isna().all():
        raise DataError(
            "no response has a mode" if modes is not None else "the results aren't known",
            field="by",
            allowed=f"responses with a mode, or a config with {' or '.join(CONFIG_KEYS)}",
        )
    of_query = modes[modes["run_id"].eq(run_id).to_numpy()].set_index("query_id")[MODE]
    return _with_column(golden, golden.queries["query_id"].map(of_query))


def shared_modes(golden: Golden, modes: pd.DataFrame, runs: tuple[str, str]) -> tuple[Golden, int]:
    """Return the queries that two runs answered in the same mode, and the number of the others.

    The mode is the column `x_mode`. Queries that either run wasn't asked are among them.

    Raises
    ------
    DataError
        Every query was answered in another mode.
    """
    first, second = (
        golden.queries["query_id"].map(
            modes[modes["run_id"].eq(run_id).to_numpy()].set_index("query_id")[MODE]
        )
        for run_id in runs
    )
    has_changed = first.fillna("").ne(second.fillna("")) & first.notna() & second.notna()
    if has_changed.all() or (first.isna() & second.isna()).all():
        stated = (", ".join(sorted(side.dropna().unique())) or "none" for side in (first, second))
        found = " and ".join(f"{next(stated)} in {run_id}" for run_id in runs)
        raise DataError(
            f"no query was answered in the same mode: {found}",
            field="by",
            allowed="runs that share a mode; cmp.deltas compares them whole",
        )
    same = _with_column(golden, first.fillna(second)).select((~has_changed).to_numpy())
    return same, int(has_changed.sum())


def _with_column(golden: Golden, modes: pd.Series) -> Golden:
    return replace(golden, queries=golden.queries.assign(x_mode=modes.astype("str").to_numpy()))

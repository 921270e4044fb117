"""Whether the system searched where the gold supports are.

From the folders it chose, where a response records them; as a weak stand-in, from its hits alone.
"""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, Results
from ragscore.scoring.grading import decided
from ragscore.scoring.kept import level_rule
from ragscore.scoring.matching import at_level, response_of

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

SELECTING = ("on", "on_with_fallback")  # folder modes in which folders are chosen at all


def score_scope(
    results: Results, golden: Golden, responses: pd.DataFrame, failed: Flags, unknown: str
) -> dict[str, Values]:
    """`scope_miss` and `scope_miss_proxy` of each response, as `rs.metrics()` defines them."""
    columns = {
        "scope_miss": _miss(golden, responses),
        "scope_miss_proxy": _proxy(results, golden, responses, unknown),
    }
    return {name: np.where(failed, np.nan, values) for name, values in columns.items()}


def _miss(golden: Golden, responses: pd.DataFrame) -> Values:
    """1 where a response chose folders and none of them holds, or lies in, a gold folder."""
    if "scope" not in responses or not responses["scope"].notna().any():
        return np.full(len(responses), np.nan)
    stated = responses["scope"].dropna()
    chosen = stated.map({text: _folders(text) for text in stated.unique()}).dropna()
    gold = _gold_folders(golden)
    applies = chosen.index[is_among(responses.loc[chosen.index, "query_id"], gold["query_id"])]
    rows = (
        chosen.loc[applies]
        .explode()
        .rename("chosen")
        .rename_axis("row")
        .reset_index()
        .assign(
            query_id=lambda t: (
                responses["query_id"].take(t["row"].to_numpy(dtype=np.int64)).to_numpy()
            )
        )
    )
    pairs = rows.merge(gold, on="query_id")
    # Prefixes have no column form in pandas where both sides vary by row.
    holds = [
        wanted.startswith(one) or (not is_file and one.startswith(wanted))
        for one, wanted, is_file in zip(
            pairs["chosen"], pairs["folder"], pairs["is_file"], strict=True
        )
    ]
    miss = np.full(len(responses), np.nan)
    miss[applies] = 1.0
    miss[pairs.loc[holds, "row"].to_numpy(dtype=np.int64)] = 0.0
    return miss


def _folders(scope: str) -> list[str] | None:
    """The folders a scope names, each with a slash at its end.

    One that names none, or fell back to all, is the root. None: nothing recorded.
    """
    try:
        read: Any = json.loads(scope)
    except ValueError:
        return None
    folders = read.get("folders") if isinstance(read, dict) else read
    if isinstance(read, dict) and read.get("fallback") is True:
        return [""]
    if not isinstance(folders, list):
        return None
    return [_with_slash(folder) for folder in folders if isinstance(folder, str)] or [""]


def _with_slash(folder: str) -> str:
    return f"{folder.strip('/')}/" if folder.strip("/") else ""


def _gold_folders(golden: Golden) -> pd.DataFrame:
    """Where the supports of each query are.

    Its folders, or without any the paths of its supports (`is_file`).
    """
    folders = golden.tags.loc[
        (golden.tags["kind"] == "folder") & ~is_among(golden.tags["query_id"], golden.refusals),
        ["query_id", "value"],
    ]
    folders = folders.rename(columns={"value": "folder"}).assign(is_file=False)
    folders["folder"] = folders["folder"].map(_with_slash)
    anchors = at_level(golden, "anchor").targets
    paths = (
        anchors.loc[~is_among(anchors["query_id"], folders["query_id"]), ["query_id", "path"]]
        if "path" in anchors
        else anchors[["query_id"]].iloc[:0].assign(path="")
    )
    paths = paths.dropna().drop_duplicates().rename(columns={"path": "folder"}).assign(is_file=True)
    return pd.concat([folders, paths], ignore_index=True).astype(
        {"query_id": "str", "folder": "str", "is_file": "bool"}
    )


def _proxy(results: Results, golden: Golden, responses: pd.DataFrame, unknown: str) -> Values:
    """1 where folders were chosen and no hit, however deep, meets a support.

    Hits with cut text are misses, or make it NaN if it hangs on them.
    """
    anchors = at_level(golden, "anchor").targets
    applies = is_among(responses["query_id"], anchors["query_id"])
    applies = applies & _selects_folders(results, responses) if applies.any() else applies
    if not applies.any():
        return np.full(len(responses), np.nan)
    place = response_of(results.hits, responses)
    matches = level_rule("anchor", results, golden)(results.hits, anchors)
    n_any, n_met = (
        np.bincount(rows[rows >= 0], minlength=len(responses))
        for rows in (place[one["hit"].to_numpy()] for one in (matches, decided(matches)))
    )
    is_known = (n_any == 0) | (n_met > 0) | (unknown == "miss")
    return np.where(applies & is_known, n_met == 0, np.nan)


def _selects_folders(results: Results, responses: pd.DataFrame) -> Flags:
    """Whether each response was made in a mode that chooses folders.

    By its own config, else by its run's.
    """
    configs = (
        results.runs["config"]
        if "config" in results.runs
        else pd.Series(pd.NA, index=results.runs.index, dtype="str")
    )
    of_run = (
        responses["run_id"]
        .astype("str")
        .map(dict(zip(results.runs["run_id"].astype("str"), configs, strict=True)))
    )
    stated = responses["x_config.json"].fillna(of_run) if "x_config.json" in responses else of_run
    return is_among(stated, [text for text in stated.dropna().unique() if _mode(text) in SELECTING])


def _mode(config: str) -> Any:
    try:
        read = json.loads(config)
    except ValueError:
        return None
    return read.get("folder_mode") if isinstance(read, dict) else None

"""Config keys that differ between runs, beside the means of the runs.

In: scores, and the runs with their configs. Out: one row per run, a column per key that varies.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.align import align
from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import check_known, names_of
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.stats.moments import moments

Config = dict[str, Any]
# columns of the runs frame that say how a run was made, and by which labels it was scored
OF_RUNS = ("k", "chunker_version", "golden_hash")


def config_effects(
    scores: pd.DataFrame,
    runs: pd.DataFrame,
    metrics: list[str] | str | None = None,
    *,
    ignore: Sequence[str] = (),
    declared: MetricTable = TABLE,
) -> pd.DataFrame:
    """Return the config keys that vary between runs beside the means of metrics.

    `k` and `chunker_version` of the runs count as keys where equal configs leave them different. So
    does `golden_hash`: a difference between stored scores by different labels is no effect of a
    key. If the scores were computed anew with one golden set, ignore it.

    Raises
    ------
    DataError
        A run of the scores that `runs` doesn't have; runs without a config column; a key to ignore
        that no run has.
    """
    check_type(runs, pd.DataFrame, "runs", "a frame of runs, such as results.runs")
    aligned = align(scores, metrics, declared=declared)
    configs = _configs(runs, aligned.run_ids, ignore)
    known = pd.DataFrame(
        [
            {key: dumped(value) for key, value in config.items()}
            for config in configs
            if config is not None
        ],
        dtype="object",
    )
    keys = [str(key) for key in known if known[key].nunique(dropna=False) > 1]
    values = {key: _column([(config or {}).get(key) for config in configs]) for key in keys}
    means = pd.DataFrame(
        [moments(aligned.values[:, place])[0] for place in range(len(aligned.run_ids))],
        columns=aligned.metrics,
    )
    return pd.concat([pd.DataFrame({"run_id": aligned.run_ids} | values), means], axis=1)


def _configs(runs: pd.DataFrame, run_ids: list[str], ignore: Sequence[str]) -> list[Config | None]:
    """Return the flat config of every run, None where there is none.

    Columns of the runs frame (`OF_RUNS`) join the configs where these don't determine them.
    """
    if "config" not in runs:
        raise DataError("no config", field="runs", allowed="a frame of runs with the column config")
    by_run = runs.set_index(runs["run_id"].astype("str"))
    if missing := [run_id for run_id in run_ids if run_id not in by_run.index]:
        raise DataError(f"no {', '.join(missing)}", field="runs", allowed="every run of the scores")
    by_run = by_run.loc[run_ids]
    contents = [parsed(text) for text in by_run["config"].tolist()]
    configs = [flat(content) if content else None for content in contents]
    known = {key for config in configs if config for key in config}
    extra = [name for name in OF_RUNS if name in by_run and name not in known]
    ignore = names_of(ignore, "ignore", "config keys")
    check_known(ignore, [*sorted(known), *extra], "ignore", "key")
    for config in configs:
        for key in ignore:
            (config or {}).pop(key, None)
    for name in extra:
        values = by_run[name].tolist()
        if name not in ignore and (name == "golden_hash" or _is_undetermined(configs, values)):
            for config, value in zip(configs, values, strict=True):
                if config is not None and not pd.isna(value):
                    config[name] = value
    return configs


def _is_undetermined(configs: list[Config | None], values: list[Any]) -> bool:
    """Return whether runs of equal configs have different values."""
    by_config: dict[str, set[str]] = {}
    for config, value in zip(configs, values, strict=True):
        if config is not None:
            by_config.setdefault(dumped(config), set()).add(str(value))
    return any(len(values) > 1 for values in by_config.values())


def _column(values: list[Any]) -> pd.Series:
    """Return the values of one key as a column: numbers if all are, else texts."""
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, float}:
        return pd.Series(values, dtype="Int64" if kinds == {int} else "float64")
    texts = [
        value if value is None or isinstance(value, str) else dumped(value) for value in values
    ]
    return pd.Series(texts, dtype="str")

"""Config keys that differ between runs, beside the means of the runs.

In: an evaluation whose runs have configs. Out: one row per run, a column per key that varies.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.align import align
from ragscore.frames.config import flat, parsed
from ragscore.frames.data import DataError
from ragscore.frames.errors import check_known, names_of

# columns of the runs frame that say how a run was made, and by which labels it was scored
OF_RUNS = ("k", "chunker_version", "golden_hash")


def config_effects(
    ev: Any,
    metrics: list[str] | str | None = None,
    *,
    ignore: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the config keys that vary between runs, beside the means of metrics.

    Only two runs that differ in one key alone show its effect: compare them.

    Parameters
    ----------
    metrics
        Labels, or one; by default the primary metrics.
    ignore
        Config keys that are not looked at.

    Returns
    -------
    One row per run: each key's value, nested keys dotted (numbers where all are numbers; NA:
    null, or the run doesn't have the key), and each metric's mean.

    Raises
    ------
    DataError
        No run has a config; an unknown metric.

    Examples
    --------
    >>> rs.extras.config_effects(ev, "mrr@10")
    """
    scores, chosen = ev._scored(list(ev.primary) if metrics is None else metrics)
    aligned, runs = align(scores, chosen, declared=ev._declared), ev.results.runs
    if "config" not in runs:
        raise DataError("no config", field="runs", allowed="a frame of runs with the column config")
    own = runs.set_index(runs["run_id"].astype("str")).reindex(aligned.run_ids)
    configs = [flat(parsed(text) or {}) if isinstance(text, str) else {} for text in own["config"]]
    table = pd.DataFrame(configs, index=own.index, dtype="object")
    table = table.join(own[[name for name in OF_RUNS if name in own and name not in table]])
    ignored = names_of(ignore, "ignore", "config keys")
    check_known(ignored, list(table), "ignore", "key")
    known = table[own["config"].notna()].map(repr)  # 5 and "5" are two values
    varies = [name for name in table if known[name].nunique() > 1 and name not in ignored]
    means = pd.DataFrame({one: aligned.frame(one).mean() for one in aligned.run_ids}).T
    shown = table[varies].convert_dtypes().join(means)
    return shown.rename_axis("run_id").reset_index()

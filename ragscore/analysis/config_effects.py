"""Config keys that differ between runs, beside the means of the runs.

In: scores, and the runs with their configs. Out: one row per run, a column per key that varies.
"""

from collections.abc import Sequence

import pandas as pd

from ragscore.analysis.comparison.align import align
from ragscore.frames.config import flat, parsed
from ragscore.frames.data import DataError
from ragscore.frames.errors import check_known, names_of
from ragscore.scoring.metrics import TABLE, MetricTable

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

    See `Evaluation.config_effects`.
    """
    aligned = align(scores, metrics, declared=declared)
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

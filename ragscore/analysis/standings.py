"""The runs of a decision as one table, best first, with an interval each on one scale.

In: a `Decision`, and the means of its runs. Out: a `Table` of text.
"""

from collections.abc import Mapping

import pandas as pd

from ragscore.analysis.comparison.text import in_words
from ragscore.analysis.decision import BESIDE, Decision
from ragscore.frames.render import shown_interval, shown_n
from ragscore.frames.tables import Table
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import table_kind


def standings(
    decision: Decision,
    means: pd.DataFrame,
    lost: Mapping[str, int] | None = None,
    limit: int | None = None,
) -> Table:
    """Return the runs of a decision as a table, best first.

    Parameters
    ----------
    means
        `ev.summary` of the runs: the metrics that decide, and times and costs where there are any.
    lost
        Run -> queries that failed or were not asked.
    limit
        The number of runs to show; by default all.
    """
    runs = list(decision.run_ids[:limit])
    known = means[means["run_id"].isin(runs).to_numpy()]
    letters = decision.letters.set_index(["metric", "run_id"])["sets"]
    columns: dict[str, list[str]] = {"run": runs}
    for metric in dict.fromkeys([*decision.primary, *BESIDE]):
        rows = known[known["metric"].eq(metric).to_numpy()].set_index("run_id").reindex(runs)
        is_primary = metric in decision.primary
        if not is_primary and not rows["n"].gt(0).any():
            continue
        is_timed = table_kind(metric) in BY_QUANTILES
        of = ["p50", "p50_low", "p50_high"] if is_timed else ["mean", "low", "high"]
        counts = [
            str(int(n)) if n == expected else shown_n(int(n), int(expected))
            for n, expected in zip(rows["n"], rows["n_expected"], strict=True)
        ]
        is_one = len(set(counts)) == 1
        cells = []
        for run, row, n in zip(runs, rows[of].astype("float64").to_numpy(), counts, strict=True):
            end = f" ({n})" * (is_primary and not is_one)
            own = f" {letters.loc[metric, run]}" if is_primary else ""
            text = shown_interval(*row)
            cells.append(
                f"{text if metric == decision.primary[0] else text.split(' [')[0]}{end}{own}"
            )
        heading = f", n = {counts[0]}" * (is_one and is_primary)
        columns[f"{in_words(metric)}{heading}"] = cells
    if decision.baseline is not None:
        columns[f"against {decision.baseline}"] = [
            decision.of_pair(decision.baseline, run)[0] or "–" for run in runs
        ]
    if lost is not None:
        columns["failed, not asked"] = [str(lost[run]) for run in runs]
    return Table(pd.DataFrame(columns), verdicts=[f"against {decision.baseline}"])

"""Nuggets one by one: which key facts each run's answers support, and which no answer does.

In: results with verdicts on nuggets, golden set, and the means of their metrics. Out: `Nuggets`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError
from ragscore.frames.errors import plural
from ragscore.scoring.rows import Rows


@dataclass(frozen=True, repr=False, eq=False)
class Nuggets(FramesResult):
    """Which key facts the answers support.

    Attributes
    ----------
    table
        One row per run and metric of nuggets: `mean` with its 95 % interval `low`, `high` over the
        `n` queries whose nuggets all have a verdict; `n_unjudged` of the run's nuggets.
    per_nugget
        One row per query and nugget: query_id, `nugget` (its number), text, importance, weight;
        `n` answers with a verdict, of which `n_support`, `n_partial` and `n_not`; `share`, the mean
        of what verdicts count (0 to 1).
    missed
        The rows of `per_nugget` that no answer supports, not even in part, though each run has a
        verdict. Vital ones first.
    per_answer
        One row per run, query and nugget: `value` (1, 0.5 or 0; NaN: no verdict).
    """

    FRAMES = ("table", "missed", "per_nugget", "per_answer")

    table: pd.DataFrame
    per_answer: pd.DataFrame

    @cached_property
    def per_nugget(self) -> pd.DataFrame:
        """The nuggets, over all runs."""
        rows, keys = self.per_answer, ["query_id", "nugget"]
        value = rows["value"]
        counted = rows.assign(
            n=value.notna(), n_support=value.ge(1.0), n_partial=value.gt(0.0) & value.lt(1.0),
            n_not=value.le(0.0), share=value,
        )  # fmt: skip
        grouped = counted.groupby(keys, sort=False)
        about = grouped[["text", "importance", "weight"]].first()
        counts = grouped[["n", "n_support", "n_partial", "n_not"]].sum().astype("int64")
        return about.join(counts).join(grouped["share"].mean()).reset_index()

    @cached_property
    def missed(self) -> pd.DataFrame:
        """The nuggets that no answer supports."""
        rows = self.per_nugget
        n_asked = self.per_answer.groupby(["query_id", "nugget"], sort=False).size().to_numpy()
        lost = rows[(rows["n"] == n_asked) & (rows["n_not"] == n_asked)]
        is_other = lost["importance"].ne("vital").fillna(True)
        return lost.iloc[np.argsort(is_other.to_numpy(), kind="stable")].reset_index(drop=True)

    def _heading(self) -> str:
        n_vital = int(self.missed["importance"].eq("vital").fillna(False).sum())
        return (
            f"Nuggets: {plural(len(self.per_nugget), 'key fact')}, of which no answer supports"
            f" {len(self.missed)} ({n_vital} vital)"
        )


def nuggets(facts: Rows | None, means: pd.DataFrame | None) -> Nuggets:
    """Return the verdicts on key facts; `means` is the summary of their metrics, if any has one."""
    if facts is None or means is None or not facts.verdicts["criterion"].eq("nuggets").any():
        raise DataError(
            "no verdict on nuggets",
            field="results.judgments",
            allowed="rs.judge(results, golden, 'nuggets', endpoint), or a file of assignments",
        )
    run = pd.Series(facts.runs.astype("str")[facts.run], dtype="str")
    rows = facts.nuggets
    rows = rows[facts.asked[rows["row"]]].reset_index(drop=True)
    rows = rows.assign(run_id=run[rows["row"]].to_numpy())
    unjudged = rows[rows["value"].isna()].groupby("run_id").size()
    table = means[["run_id", "metric", "mean", "low", "high", "n"]].assign(
        n_unjudged=means["run_id"].astype("str").map(unjudged).fillna(0).astype("int64"),
    )
    order = ["run_id", "metric", "mean", "low", "high", "n", "n_unjudged"]
    columns = ["run_id", "query_id", "nugget", "text", "importance", "weight", "value"]
    return Nuggets(table[order].reset_index(drop=True), rows[columns])

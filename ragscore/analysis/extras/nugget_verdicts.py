"""Nuggets one by one: which key facts each run's answers support, and which no answer does.

In: an evaluation with verdicts on nuggets. Out: `Nuggets`.
"""

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError
from ragscore.frames.errors import plural
from ragscore.scoring.metrics import TABLE


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
    missed: pd.DataFrame
    per_nugget: pd.DataFrame
    per_answer: pd.DataFrame

    def _heading(self) -> str:
        n_vital = int(self.missed["importance"].eq("vital").fillna(False).sum())
        return (
            f"Nuggets: {plural(len(self.per_nugget), 'key fact')}, of which no answer supports"
            f" {len(self.missed)} ({n_vital} vital)"
        )


def nuggets(ev: Any) -> Nuggets:
    """Return which key facts the answers support, and which no run's answer does.

    Raises
    ------
    DataError
        Nobody gave verdicts on nuggets.

    Examples
    --------
    >>> nugget = {"text": "a fact", "importance": "vital", "assignment": "not_support"}
    >>> line = {"qid": "q1", "query": "?", "answer_text": "no", "nuggets": [nugget]}
    >>> rs.extras.nuggets(rs.evaluate([line], [line])).missed[["query_id", "text", "importance"]]
    """
    names = [name for name in TABLE if name.startswith("nugget_")]
    scores, _ = ev._scored(names)
    valued, facts = [name for name in names if scores[name].notna().any()], ev._rows
    if facts is None or not valued or not facts.verdicts["criterion"].eq("nuggets").any():
        raise DataError(
            "no verdict on nuggets", field="results.judgments",
            allowed="rs.judge(results, golden, 'nuggets', endpoint), or a file of assignments",
        )  # fmt: skip
    run = pd.Series(facts.runs.astype("str")[facts.run], dtype="str")
    rows = facts.nuggets
    rows = rows[facts.asked[rows["row"]]].reset_index(drop=True)
    rows = rows.assign(run_id=run[rows["row"]].to_numpy())
    unjudged = rows[rows["value"].isna()].groupby("run_id").size()
    table = replace(ev, scores=scores).summary(valued)
    table = table[["run_id", "metric", "mean", "low", "high", "n"]].assign(
        n_unjudged=table["run_id"].astype("str").map(unjudged).fillna(0).astype("int64"),
    )
    value = rows["value"]
    counted = rows.assign(
        n=value.notna(), n_support=value.ge(1.0), n_partial=value.gt(0.0) & value.lt(1.0),
        n_not=value.le(0.0),
    )  # fmt: skip
    of_nugget = counted.groupby(["query_id", "nugget"], sort=False)
    about = of_nugget[["text", "importance", "weight"]].first()
    counts = of_nugget[["n", "n_support", "n_partial", "n_not"]].sum().astype("int64")
    per_nugget = about.join(counts).join(of_nugget["value"].mean().rename("share")).reset_index()
    is_missed = per_nugget["n_not"].to_numpy() == of_nugget.size().to_numpy()
    missed = per_nugget[is_missed].assign(other=lambda one: one["importance"].ne("vital"))
    missed = missed.sort_values("other", kind="stable", ignore_index=True).drop(columns="other")
    columns = ["run_id", "query_id", "nugget", "text", "importance", "weight", "value"]
    return Nuggets(table.reset_index(drop=True), missed, per_nugget, rows[columns])

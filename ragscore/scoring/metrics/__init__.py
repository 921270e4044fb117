"""Metrics: one declaration each beside its formula, one module a family."""

from dataclasses import replace

import pandas as pd

from ragscore.frames.kinds import FAILED
from ragscore.scoring.metrics import answers, citations, judged, operations, ranking
from ragscore.scoring.metrics.declaration import Label, Metric, MetricTable, own_column

__all__ = ["CRITERIA", "TABLE", "Label", "Metric", "MetricTable", "metrics", "own_column"]

_ORDER = (
    ranking.metric, ranking.whole, operations.success, answers.metric, citations.metric,
    judged.metric, operations.refusals, citations.named, citations.scope, answers.literal,
    operations.operation,
)  # fmt: skip
TABLE = MetricTable([one for family in _ORDER for one in family])
# what judges measure by itself, under the name of its criterion
CRITERIA = tuple(
    one.name for one in judged.metric if one.name != FAILED and not one.name.startswith("nugget_")
)
SHOWN = ("name", "formula", "nan_when", "kind", "better", "range", "also", "default", "version")


def metrics(label: str | None = None) -> pd.DataFrame | Metric:
    """Return the table of metrics, or with a label one metric, which prints in full.

    Parameters
    ----------
    label
        Such as "ndcg@5". Names of other tools are understood and come back as ours.

    Returns
    -------
    One row per metric: `name`, `formula`, `nan_when`, `kind`, `better`, `range`, `also` (its name
    in other tools), `default` (part of `metrics="all"`), `version`.

    Raises
    ------
    DataError
        An unknown metric; the nearest are named.
    """
    if label is None:
        return pd.DataFrame(
            [{name: getattr(one, name) for name in SHOWN} for one in TABLE.values()]
        )
    parsed = TABLE.parse(label)
    return replace(parsed.metric, name=parsed.text)

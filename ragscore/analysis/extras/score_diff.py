"""Two runs compared on their scores alone, as a diff that other tools read and write.

In: an evaluation, reported values, a frame of scores, or a diff's JSON. Out: one object per metric,
with the queries that changed most.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.changes import value_changes, values_of
from ragscore.analysis.comparison.invariants import JUDGES, agreed, check_recorded
from ragscore.analysis.reported import FINGERPRINT, reported_scores
from ragscore.frames.data import DataError, Results, records_of, run_names
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.provenance import judges_by_criterion
from ragscore.scoring.summary import metric_columns

ROW = ("metric", "current_mean", "baseline_mean", "delta", "winners", "losers", "unchanged")
CHANGE = ("query_id", "current", "baseline", "delta")
"""Fields of a row, and of its `query_changes`."""


def score_diff(
    source: Any,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    allow_different: bool | str | list[str] = False,
) -> dict[str, Any]:
    """Return what moved between two runs' scores, as a diff that can be written as JSON.

    `ev.compare` decides which run is better. This lists differences of stored scores as they are,
    also where targets and ranks are unknown.

    Parameters
    ----------
    source
        An evaluation; results with reported values; a frame of scores. Or a diff itself, as text
        or as the path of its file: it is read and checked.
    baseline, candidate
        Run ids, or systems that only one run has.
    allow_different
        True or "judge_fingerprint": go on where different judges measured a metric.

    Returns
    -------
    {"rows": [...]}, one object per metric: `metric`; means `current_mean` and `baseline_mean` over
    the queries that both have, and `delta` (None where there are none: each mean is then of its own
    queries); `winners`, `losers`, `unchanged` queries; `n_only_baseline`, `n_only_candidate`; and
    `query_changes` with `query_id`, `current`, `baseline`, `delta`, the largest change first.

    Raises
    ------
    DataError
        Unknown or equal runs; different judges of a metric that both have; what is no diff.

    Examples
    --------
    >>> rs.extras.score_diff(ev, "dense", "hybrid")["rows"][0]["delta"]
    """
    if baseline is None or candidate is None:
        return _read_diff(source)
    scores, results, declared = source, None, TABLE
    if isinstance(source, Results):
        scores = reported_scores(source)
    elif not isinstance(source, pd.DataFrame):
        scores, results, declared = (
            source.scores,
            source._source and source.results,
            source._declared,
        )
    runs = scores[[name for name in ("run_id", "system") if name in scores]]
    a, b = run_names(runs.drop_duplicates("run_id"), [baseline, candidate])
    if a == b:
        text = f"{a!r} is both baseline and candidate"
        raise DataError(text, field="candidate", allowed="two different runs")
    if FINGERPRINT in scores:
        told = scores.groupby(scores["run_id"].astype("str"))[FINGERPRINT].first()
        agreed(JUDGES, {run: str(told[run]) or None for run in (a, b)}, JUDGES, allow_different)
    names = metric_columns(scores)
    of_a, of_b = (values_of(scores, run, names) for run in (a, b))
    changes = value_changes(scores, a, b, names, declared, keeps_equal=True)
    if results is not None:
        judges = judges_by_criterion(results)
        parts = {run: {JUDGES: judges.get(run, {})} for run in (a, b)}
        check_recorded(parts, changes["metric"].unique().tolist(), allow_different)
    by_metric = dict(iter(changes.groupby("metric", sort=False)))
    rows = []
    for name in names:
        own = by_metric.get(name, changes.iloc[:0])
        is_same = (own["delta"].abs() <= declared.describe(name).rounding).to_numpy()
        won = own["kind"].eq("improvement").to_numpy() & ~is_same
        sides = (own["candidate"], own["baseline"]) if len(own) else (of_b[name], of_a[name])
        listed = own.rename(columns={"candidate": "current"})[list(CHANGE)]
        counts = int(won.sum()), int((~won & ~is_same).sum()), int(is_same.sum())
        means = [None if side.isna().all() else float(side.mean()) for side in sides]
        delta = float(own["delta"].mean()) if len(own) else None
        rows.append(
            dict(zip(ROW, (name, *means, delta, *counts), strict=True))
            | {
                "n_only_baseline": int(of_a[name].notna().sum()) - len(own),
                "n_only_candidate": int(of_b[name].notna().sum()) - len(own),
                "query_changes": records_of(listed),
            }
        )
    return {"rows": rows}


def _read_diff(source: Any) -> dict[str, Any]:
    """Return a diff from its JSON, given as text or as the path of a file."""
    is_text = isinstance(source, str) and source.lstrip().startswith("{")
    try:
        content = json.loads(source if is_text else Path(source).read_text(encoding="utf-8"))
        for row in content["rows"]:
            numbers = [row[name] for name in ROW[1:]]
            numbers += [one[name] for one in row["query_changes"] for name in CHANGE[1:]]
            if not all(one is None or isinstance(one, (int, float)) for one in numbers):
                raise TypeError("a value that is neither a number nor null")
        return {**content}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"not a diff ({type(error).__name__}: {error})",
            file=None if is_text else Path(source),
            allowed=f"an object with `rows`, each with {', '.join(ROW)}, query_changes",
        ) from error

"""Values that another tool stored: checked against recomputed ones, or two runs of them compared.

In: results with reported values and a golden set; or the scores of two runs. Out: one row per
reported value beside the recomputed one; a diff that other tools read and write.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.aggregates import aggregate, round_half_away
from ragscore.analysis.comparison.changes import value_changes, values_of
from ragscore.analysis.comparison.invariants import JUDGES, check_recorded
from ragscore.analysis.reported import (
    FIRST_RANK,
    REPORTED_NAMES,
    known_reports,
    label_of,
    split_reported,
)
from ragscore.frames.data import DataError, check_type, records_of, run_names, runs_without_hits
from ragscore.frames.kinds import flat
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.provenance import judges_of_scores
from ragscore.scoring.readings import HARNESSES, Harness, Reading, find_reading, k_of_runs
from ragscore.scoring.score import score
from ragscore.scoring.summary import metric_columns, summarize

CHECKED = ("n", "mean", "sum", "std", "min", "max", "p50", "p95")  # statistics that are recomputed


def check_reported(
    ev: Any,
    reported: pd.DataFrame | None = None,
    *,
    profile: str | Reading | None = None,
) -> pd.DataFrame:
    """Compare the values that another tool reported with those recomputed here.

    The policies of the evaluation say how the other tool counts: `rs.evaluate(...,
    missing="zero")`.

    Parameters
    ----------
    reported
        The values to check, if the results don't hold them: the frame `reported` of other
        results with the same run ids, such as a stored comparison's.
    profile
        The harness that reported them; by default the evaluation's. Its names are
        understood (what it calls `recall_at_k` may be our hit@5), values of a whole run are
        recomputed and rounded as `ev.save` does, and it sets the policies.

    Returns
    -------
    One row per run, query and metric, as reported (query_id "" and a `statistic` for values of
    a whole run): `metric`, `label` (ours; NA: none of ours), `reported`, `recomputed` (NaN:
    does not apply here, or not recomputed), `difference` = recomputed − reported (of a first
    hit's rank: infinite where one side has no hit), and `note` (NA: nothing to say): why
    nothing was recomputed, or that the value comes from stored judgments, which are the other
    tool's own.

    Raises
    ------
    DataError
        There are no reported values, or they name a run that the results don't have.

    Examples
    --------
    >>> values = ev.scores.reset_index()[["run_id", "query_id", "mrr@10"]]
    >>> reported = values.melt(["run_id", "query_id"], var_name="metric").dropna()
    >>> rs.extras.check_reported(ev, reported)["difference"].abs().max()
    """
    results, golden, chosen = ev.results, ev.golden, find_reading(profile or ev._profile)
    policies = asdict(ev._policies)
    if profile is None and ev._profile is None:
        policies["match"] = ev._level
    rows = known_reports(results, reported).rename(columns={"value": "reported"})
    rows = rows.reset_index(drop=True)
    harness = HARNESSES.get(chosen.name)
    with_rows, alone = split_reported(results)
    ks = k_of_runs(results.runs, harness.default_k if harness else 5)
    of_format = rows["label"].notna() if "label" in rows else False
    rows = rows.assign(label=_labels(rows, ks, harness))
    is_rank = rows["query_id"].ne("") & rows["metric"].eq(FIRST_RANK)
    asked = rows["label"].mask(is_rank, "mrr")
    labels = asked.dropna().unique().tolist()
    found, stated = np.full(len(rows), np.nan), rows["reported"].to_numpy("float64")
    if labels and len(with_rows.runs):
        scores = score(with_rows, golden, labels, profile=chosen, **policies)
        keys = rows.assign(label=asked)[["run_id", "query_id", "label", "statistic"]].fillna("")
        known = _recomputed(scores, labels).reindex(pd.MultiIndex.from_frame(keys))
        found = known.to_numpy("float64")
    if harness and len(with_rows.runs):
        contents = aggregate(with_rows, golden, chosen)
        means = pd.DataFrame({run: flat(own) for run, own in contents.items()}).unstack()
        # what the harness itself aggregates is recomputed, and rounded, as it does that
        is_of_run = rows["query_id"].eq("") & rows["metric"].isin(means.index.get_level_values(1))
        is_of_run &= rows["statistic"].eq("mean") | of_format  # n beside a mean is no aggregate
        of_run = means.reindex(pd.MultiIndex.from_frame(rows[["run_id", "metric"]]))
        found = np.where(is_of_run, of_run.to_numpy("float64"), found)
        rounded = [round_half_away(value, harness.decimals) for value in stated.tolist()]
        stated = np.where(is_of_run, rounded, stated)
    with np.errstate(divide="ignore", invalid="ignore"):  # a rank of no hit is infinite
        found = np.where(is_rank, np.round(1 / found), found)
        stated = np.where(is_rank & np.isnan(stated), np.inf, stated)
        difference = np.where(is_rank & (found == stated), 0.0, found - stated)
    # what only reports single queries holds no hits: rankings of nothing would all be 0
    with_values = set(rows.loc[rows["query_id"].ne(""), "run_id"]) if reported is None else set()
    bare = [run_id for run_id in runs_without_hits(with_rows) if run_id in with_values]
    is_ranking = asked.map({one: TABLE.parse(one).is_ranking for one in labels}).eq(True)
    is_bare = rows["run_id"].isin(bare) & is_ranking
    rows = rows.assign(
        recomputed=pd.Series(found).mask(is_bare | np.isinf(found)),
        difference=pd.Series(difference).mask(is_bare),
    )
    notes = _notes(rows).mask(is_bare, "the run has no hits to recompute it from").mask(is_rank)
    notes = notes.mask(rows["run_id"].isin(alone), "the run has no rows to recompute it from")
    columns = ["run_id", "query_id", "statistic", "metric", "label", "reported", "recomputed"]
    return rows[[*columns, "difference"]].assign(note=notes)


def _notes(rows: pd.DataFrame) -> pd.Series:
    """Return why a value was not recomputed."""
    by_label = {
        label: f"does not apply: {TABLE.describe(label).nan_when}"
        for label in rows["label"].dropna().unique()
    }
    by_metric = {
        metric: f"no cut-off given, as in {name}@5" if f"{name}@k" in TABLE else "no metric of ours"
        for metric in rows["metric"].unique()
        for name in [REPORTED_NAMES.get(metric, metric)]
    }
    is_checked = rows["statistic"].isna() | rows["statistic"].isin(CHECKED)
    notes = rows["label"].map(by_label).where(is_checked, "this statistic is not recomputed")
    notes = notes.where(rows["label"].notna(), rows["metric"].map(by_metric))
    notes = notes.mask(rows["reported"].isna(), "no value is reported")
    return notes.where(rows["recomputed"].isna() | rows["reported"].isna()).astype("str")


def _labels(rows: pd.DataFrame, ks: dict[str, int | None], harness: Harness | None) -> pd.Series:
    """Return our label for each reported value.

    A harness's name is taken at its run's own k; else the file's format says it, else the name.
    """
    of_format = rows["label"] if "label" in rows else pd.Series(pd.NA, rows.index, dtype="str")
    keys = list(zip(rows["run_id"], rows["metric"], of_format, strict=True))
    labels = {
        (run_id, metric, label): _harness_label(harness, metric, ks[run_id])
        or (label_of(metric) if pd.isna(label) else label)
        for run_id, metric, label in dict.fromkeys(keys)
    }
    return pd.Series([labels[one] for one in keys], index=rows.index, dtype="str")


def _harness_label(harness: Harness | None, metric: str, k: int | None) -> str | None:
    """Return our label for what a harness's aggregate calls `metric`.

    An aggregate may call the mean `metric_avg` or `metric_rate`.
    """
    keys = harness.keys if harness else {}
    names = (metric, f"{metric}_avg", f"{metric}_rate")
    text = next((keys[name] for name in names if name in keys), "(")
    return None if harness is None or "{k}" in text or "(" in text else harness.at(text, k)


def _recomputed(scores: pd.DataFrame, labels: list[str]) -> pd.Series:
    """Return values of queries and statistics of runs.

    Indexed by run, query ("" for a statistic), label and statistic ("" for a query).
    """
    keys = ["run_id", "query_id", "label", "statistic"]
    of_queries = scores.reset_index().melt(
        id_vars=["run_id", "query_id"], value_vars=labels, var_name="label"
    )
    of_runs = summarize(scores, metrics=labels).melt(
        id_vars=["run_id", "metric"], value_vars=list(CHECKED), var_name="statistic"
    )
    of_runs = of_runs.rename(columns={"metric": "label"})
    parts = [of_queries.assign(statistic=""), of_runs.assign(query_id="")]
    return (
        pd.concat(
            [part[[*keys, "value"]].astype(dict.fromkeys(keys, "str")) for part in parts],
            ignore_index=True,
        )
        .set_index(keys)["value"]
        .astype("float64")
    )


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
        An evaluation (of reports `rs.evaluate(reports)`), or a frame of scores. Or a diff itself,
        as text or as the path of its file: it is read and checked.
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
    if isinstance(getattr(source, "scores", None), pd.DataFrame):
        results = source._source and source.results
        scores, declared = source.scores, source._declared
    check_type(scores, pd.DataFrame, "source", "an evaluation, or a frame of scores")
    runs = scores[[name for name in ("run_id", "system") if name in scores]]
    a, b = run_names(runs.drop_duplicates("run_id"), [baseline, candidate])
    if a == b:
        text = f"{a!r} is both baseline and candidate"
        raise DataError(text, field="candidate", allowed="two different runs")
    names = metric_columns(scores)
    of_a, of_b = (values_of(scores, run, names) for run in (a, b))
    changes = value_changes(of_a, of_b.reindex(of_a.index), declared, keeps_equal=True)
    if results is not None:
        judges = judges_of_scores(results)
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

"""Several golden files side by side: a main set and, say, a sanity suite that every run must pass.

In: results and named golden sets. Out: means by suite, run and metric.
"""

import warnings
from dataclasses import fields, replace

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.scoring.score import score
from ragscore.scoring.summary import summarize


def compare_suites(
    results: Results, suites: dict[str, Golden], metrics: list[str] | str | None = None
) -> pd.DataFrame:
    """Score the runs with each of several golden sets, each on its own questions.

    Parameters
    ----------
    results
        Runs that answered the questions of one suite or of several. A run whose `suite` (in
        `results.runs`) is the name of one belongs to it alone.
    suites
        Golden sets by the name of their suite.
    metrics
        Labels, as for `rs.score`.

    Returns
    -------
    One row per `suite`, run and metric with the columns of `rs.summarize`; within a suite every run
    is scored at one match level. A run that was asked none of a suite's questions has no row there.

    Raises
    ------
    DataError
        No suite; one id for two questions of different suites, so that nobody knows which of them a
        run answered.
    """
    check_type(results, Results, "results")
    if not suites:
        raise DataError("found none", field="suites", allowed="at least one golden set by its name")
    for name, golden in suites.items():
        check_type(golden, Golden, f"suites[{name!r}]")
    parts = [
        _summary(results, golden, suites, name, metrics).assign(suite=name)
        for name, golden in suites.items()
    ]
    table = pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)
    return table[["suite", *(name for name in table.columns if name != "suite")]]


def _summary(
    results: Results,
    golden: Golden,
    suites: dict[str, Golden],
    suite: str,
    metrics: list[str] | str | None,
) -> pd.DataFrame:
    stated = (
        results.runs["suite"]
        if "suite" in results.runs
        else pd.Series(pd.NA, index=results.runs.index, dtype="str")
    )
    may_be = results.runs.loc[
        stated.eq(suite).fillna(False) | ~is_among(stated, list(suites)), "run_id"
    ]
    shared = results.responses[
        is_among(results.responses["query_id"], golden.queries["query_id"])
        & is_among(results.responses["run_id"], may_be)
    ]
    _refuse_shared_ids(shared, results.runs.assign(suite=stated), suites, suite)
    asked = [str(run_id) for run_id in may_be if run_id in set(shared["run_id"])]
    if not asked:
        return pd.DataFrame()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # n_missing stands in the table
        return summarize(
            score(_only(results.select(asked), golden), golden, metrics), golden
        ).astype({"run_id": "str"})


def _refuse_shared_ids(
    shared: pd.DataFrame, runs: pd.DataFrame, suites: dict[str, Golden], suite: str
) -> None:
    """Refuse a question id that is in another suite as well, where a run doesn't say which suite it answered."""
    unstated = shared[
        is_among(shared["run_id"], runs.loc[runs["suite"].ne(suite).fillna(True), "run_id"])
    ]
    for other, golden in suites.items():
        twice = unstated.loc[is_among(unstated["query_id"], golden.queries["query_id"]), "query_id"]
        if other != suite and len(twice):
            found = f"{twice.iloc[0]!r} is a question of {suite} and of {other}"
            raise DataError(
                found,
                field="suites",
                allowed="different ids, or runs whose run.json names their suite",
            )


def _only(results: Results, golden: Golden) -> Results:
    """The results of a golden set's questions; others would count in its failures and times."""
    frames = {item.name: getattr(results, item.name) for item in fields(Results)}
    return replace(
        results,
        **{
            name: frame[is_among(frame["query_id"], golden.queries["query_id"])]
            for name, frame in frames.items()
            if frame is not None and "query_id" in frame
        },
    )

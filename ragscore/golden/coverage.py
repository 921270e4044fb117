"""What there is before any number.

Which queries a run answered, how its ranks and scores look, what is unlabelled.

Several golden files side by side: a main set and, say, a sanity suite that every run must pass.

In: results and named golden sets. Out: means by suite, run and metric.
"""

import warnings
from dataclasses import fields, replace

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import DataError, Golden, Results, check_inputs, check_type
from ragscore.scoring.grading import READS_TEXT, count_undecidable, grade_hits, level_rule
from ragscore.scoring.matching import at_level
from ragscore.scoring.metrics import score_hits
from ragscore.scoring.score import score
from ragscore.scoring.summary import summarize

JUDGED_K = 10


def coverage(results: Results, golden: Golden) -> pd.DataFrame:
    """Count, for each run, what a mean would silently leave out. Look at it before any score.

    Returns
    -------
    One row per run (index run_id): `n_golden` queries, `n_rows` responses; golden queries without a
    row (`n_missing`), rows without a golden query (`n_extra`), repeated rows that loading refused
    (`n_duplicate`), `n_failed`, `n_empty` (no hits, not failed); of the golden queries
    `n_unlabelled` and `n_should_refuse`; queries whose stored ranks contradict the list order
    (`n_rank_order`) or with tied scores (`n_ties`); `k`, how many hits a query the run kept by its
    own account (NA: unknown; a metric with a higher cut-off sees no more than these); `judged@10`,
    the judged share of the first ten hits by document (by anchor or chunk where no documents are
    expected), 0 to 1, NaN without any hit; `n_undecidable`, hits that the anchor or predicate rule
    can't judge because their text is cut.
    """
    rows = coverage_rows(results, golden)
    counts = pd.crosstab(rows["run_id"], rows["issue"]).reindex(
        results.runs["run_id"].cat.categories, fill_value=0
    )
    of_run = results.responses.groupby("run_id", observed=False)
    n_failed = of_run["error"].count()
    whats = {"missing": "n_missing", "extra": "n_extra", "duplicate": "n_duplicate"}
    table = pd.DataFrame(
        {"n_golden": len(golden.queries), "n_rows": of_run.size()}, index=counts.index
    )
    for what, name in whats.items():
        table[name] = counts.get(what, 0)
    answerable = golden.queries["answerable"]
    table["n_failed"], table["n_empty"] = n_failed, counts.get("empty", 0)
    table["n_unlabelled"], table["n_should_refuse"] = (
        int(answerable.isna().sum()),
        len(golden.refusals),
    )
    table["n_rank_order"], table["n_ties"] = counts.get("rank order", 0), counts.get("ties", 0)
    table["k"] = (
        results.runs.set_index("run_id")["k"].reindex(table.index)
        if "k" in results.runs
        else pd.array([pd.NA] * len(table), dtype="Int64")
    )
    table[f"judged@{JUDGED_K}"] = _judged(results, golden)
    table["n_undecidable"] = sum(
        count_undecidable(results, golden, level).to_numpy() for level in READS_TEXT
    )
    return table.rename_axis("run_id")


def coverage_rows(results: Results, golden: Golden) -> pd.DataFrame:
    """Name the rows behind the counts of `coverage`.

    Returns
    -------
    One row per finding: run_id, query_id and `issue`: missing, extra, duplicate, empty, rank order,
    ties.
    """
    check_inputs(results, golden)
    responses, hits = results.responses, results.hits
    query_ids = golden.queries["query_id"]
    asked = responses[["run_id", "query_id"]].astype("str")
    expected = pd.MultiIndex.from_product(
        [results.runs["run_id"].astype("str"), query_ids], names=["run_id", "query_id"]
    )
    missing = expected.difference(pd.MultiIndex.from_frame(asked), sort=False).to_frame(index=False)
    extra = asked[~is_among(asked["query_id"], query_ids)]
    with_hits = pd.MultiIndex.from_frame(
        hits[["run_id", "query_id"]].drop_duplicates().astype("str")
    )
    is_empty = (
        ~pd.MultiIndex.from_frame(asked).isin(with_hits) & responses["error"].isna().to_numpy()
    )
    parts = [
        missing.assign(issue="missing"),
        extra.assign(issue="extra"),
        _duplicates(results),
        asked[is_empty].assign(issue="empty"),
    ]
    parts += [
        _cells(hits, _out_of_order(hits)).assign(issue="rank order"),
        _cells(hits, _tied(hits)).assign(issue="ties"),
    ]
    order = pd.CategoricalDtype(results.runs["run_id"].astype("str").tolist(), ordered=True)
    rows = pd.concat(parts, ignore_index=True).astype({"run_id": order})
    return rows.sort_values(["run_id", "issue"], kind="stable", ignore_index=True).astype(
        {"run_id": "str"}
    )[["run_id", "query_id", "issue"]]


def _duplicates(results: Results) -> pd.DataFrame:
    """Records that a load with strict=False refused because their query had a row already."""
    problems = results.problems.reindex(columns=["run_id", "field", "found"])
    query_ids = (
        problems["found"].astype("str").str.extract(r"^'(.*)' stood on line \d+ already$")[0]
    )
    is_duplicate = problems["field"].eq("query_id") & query_ids.notna() & problems["run_id"].notna()
    return pd.DataFrame(
        {"run_id": problems["run_id"].astype("str"), "query_id": query_ids, "issue": "duplicate"}
    )[is_duplicate.to_numpy(dtype=bool)]


def _cells(hits: pd.DataFrame, is_found: np.ndarray) -> pd.DataFrame:
    return hits.loc[is_found, ["run_id", "query_id"]].drop_duplicates().astype("str")


def _out_of_order(hits: pd.DataFrame) -> np.ndarray:
    """Hits whose stored rank is below that of the hit before them in the list."""
    if len(hits) < 2:
        return np.zeros(len(hits), dtype=bool)
    run, rank = hits["run_id"].cat.codes.to_numpy(), hits["rank"].to_numpy()
    query = lookup(hits["query_id"], pd.Index(hits["query_id"].unique()))
    same = (np.diff(run) == 0) & (np.diff(query) == 0)
    return np.append(False, same & (np.diff(rank) < 0))


def _tied(hits: pd.DataFrame) -> np.ndarray:
    if "score" not in hits:
        return np.zeros(len(hits), dtype=bool)
    return (
        hits.duplicated(["run_id", "query_id", "score"]).to_numpy()
        & hits["score"].notna().to_numpy()
    )


def _judged(results: Results, golden: Golden) -> pd.Series:
    """Mean judged@10 of each run, over the queries it has rows for."""
    expected = set(golden.targets["level"])
    level = next((level for level in ("doc", "anchor") if level in expected), "chunk")
    selected = at_level(golden, level)
    graded, found = grade_hits(results.hits, selected.targets, level_rule(level, results, golden))
    cells = (
        results.hits.groupby(["run_id", "query_id"], observed=True)
        .size()
        .rename("n_hits")
        .reset_index()
    )
    judged = score_hits(graded, found, selected, cells, [f"judged@{JUDGED_K}"])
    return judged.groupby(cells["run_id"], observed=False)[f"judged@{JUDGED_K}"].mean()


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

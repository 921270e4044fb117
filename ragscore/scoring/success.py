"""Success: one 0/1 value of a query of any kind, by its hits (`found`) and with its answer.

In: hits, the golden set, and the columns of ranking and answer metrics. Out: the columns `found`
and `passed`.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, has_pair, is_among
from ragscore.frames.data import Golden, Results
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.limits import limits_of
from ragscore.scoring.metrics import NOTHING_DECLARED, WHOLE_LIST
from ragscore.scoring.metrics.needs import texts_only
from ragscore.scoring.rules import RANKLESS, targets_at

FOUND, PASSED = "found", "passed"
OF_SUCCESS = (FOUND, PASSED)
# The one judgment that says an answer is wrong. Support, relevance and shares of claims say what an
# answer rests on or leaves out: a low one may still be right. Between bad and good nothing is said.
VERDICT = "judge_correctness"


def hit_at_run_k(results: Results) -> pd.Series:
    """Return per run (index run_id) the label of the hit metric at the run's own k.

    A run without a k has no limit.
    """
    ks = results.runs["k"].tolist() if "k" in results.runs else [pd.NA] * len(results.runs)
    labels = [f"hit@{WHOLE_LIST if pd.isna(k) else int(k)}" for k in ks]
    return pd.Series(labels, index=results.runs["run_id"].cat.categories, dtype="str")


def success_values(
    results: Results,
    golden: Golden,
    rows: pd.DataFrame,
    ranking: Mapping[str, Values],
    answers: Mapping[str, Values],
    keep_refusals: bool,
) -> dict[str, Values]:
    """Return the columns `found` and `passed`; a failed or missing query is 0 in both.

    `found`: no hit where none is expected, no forbidden source, a refusal where one is due; for all
    others a relevant hit within the run's k. `passed`: the same, and 0 where the answer isn't what
    was asked for. Where the golden set checks nothing but texts of the answer, these decide alone.
    """
    by_text = is_among(rows["query_id"], golden.queries.loc[texts_only(golden), "query_id"])
    found = _found(results, golden, rows, ranking, answers["refusal_correct"])
    passed = np.where(by_text, answers["answer_checks"], found)
    is_missing = codes_of(rows["state"]) == rows["state"].cat.categories.get_loc("missing")
    is_lost, is_wrong = rows["failed"].to_numpy() | is_missing, _is_wrong(golden, rows, answers)
    applies = ~np.isnan(found)
    if ((is_lost | is_wrong) & ~applies).any():
        # A failed query, or a wrong answer, settles it also where the hits can't be judged.
        applies |= _has_targets(golden, rows, keep_refusals)
    return {
        FOUND: np.where(is_lost & applies, 0.0, found),
        PASSED: np.where((is_lost | is_wrong) & (applies | by_text), 0.0, passed),
    }


def _is_wrong(golden: Golden, rows: pd.DataFrame, answers: Mapping[str, Values]) -> Flags:
    """Flag answers that aren't what was asked for, where no refusal is due.

    A false refusal, a blank answer, a text check that fails, or a judgment of a wrong answer.
    """
    bad_below, _ = limits_of(VERDICT, NOTHING_DECLARED) or (0.0, 0.0)
    refused = answers["false_refusal"]
    is_blank = (answers["empty_response"] == 1) & (refused == 0)
    is_wrong = (refused == 1) | is_blank | (answers["answer_checks"] == 0)
    is_judged_bad = answers[VERDICT] < bad_below
    if is_judged_bad.any():
        is_wrong |= is_judged_bad & ~is_among(rows["query_id"], golden.refusals)
    return is_wrong


def _found(
    results: Results,
    golden: Golden,
    rows: pd.DataFrame,
    ranking: Mapping[str, Values],
    refusal_correct: Values,
) -> Values:
    """Return the column `found` of queries that the system finished."""
    run, run_ids = codes_of(rows["run_id"]), rows["run_id"].cat.categories.astype("str")
    labels = hit_at_run_k(results).reindex(run_ids).tolist()
    found = np.full(len(rows), np.nan)
    for label in dict.fromkeys(labels):
        is_here = np.array([one == label for one in labels])[run]
        found = np.where(is_here, ranking[label], found)
    checks = golden.checks
    expects_none, forbids = (
        is_among(rows["query_id"], checks.loc[is_among(checks["kind"], [kind]), "query_id"])
        if len(checks)
        else np.zeros(len(rows), dtype=bool)
        for kind in RANKLESS
    )
    return np.select(
        [expects_none, forbids, ~np.isnan(refusal_correct)],
        [
            rows["n_hits"].to_numpy() == 0,
            ~_has_forbidden_source(results, golden, rows),
            refusal_correct,
        ],
        found,
    )


def _has_targets(golden: Golden, rows: pd.DataFrame, keep_refusals: bool) -> Flags:
    """Flag rows whose query has a relevant target at the level that it is matched at."""
    found, level = np.zeros(len(rows), dtype=bool), codes_of(rows["level"])
    for code in np.unique(level[level >= 0]).tolist():
        targets = targets_at(golden, rows["level"].cat.categories[code], keep_refusals).targets
        relevant = targets["query_id"][targets["grade"].to_numpy() > 0]
        found |= (level == code) & is_among(rows["query_id"], relevant)
    return found


def _has_forbidden_source(results: Results, golden: Golden, rows: pd.DataFrame) -> Flags:
    """Flag rows with a hit, within the run's k, whose source key holds a forbidden token.

    Tokens are substrings, whatever the case.
    """
    checks, hits, runs = golden.checks, results.hits, results.runs
    if "source_key" not in hits or not len(checks):
        return np.zeros(len(rows), dtype=bool)
    tokens = checks.loc[checks["kind"] == "forbidden_source_key", ["query_id", "text"]]
    if not len(tokens):
        return np.zeros(len(rows), dtype=bool)
    k = runs["k"].to_numpy("float64", na_value=np.inf) if "k" in runs else np.inf
    run_k = pd.Series(k, index=runs["run_id"].astype("str"))
    columns = ["run_id", "query_id", "rank", "source_key"]
    hits = hits.loc[is_among(hits["query_id"], tokens["query_id"]), columns].dropna()
    k_of_hit = run_k.reindex(hits["run_id"].astype("str")).to_numpy()
    pairs = hits[hits["rank"].to_numpy() <= k_of_hit].merge(tokens, on="query_id")
    # Substring search has no column form in pandas where both sides vary by row.
    holds = [
        token.lower() in key.lower()
        for key, token in zip(pairs["source_key"], pairs["text"], strict=True)
    ]
    return has_pair(rows, pairs.loc[holds], ("run_id", "query_id"))

"""The whole compute stage in one call.

Results and golden set -> one row per run and query, one column per metric.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import codes_of, is_among, lookup
from ragscore.frames.data import Golden, Results, categorical, check_inputs
from ragscore.frames.errors import warn
from ragscore.frames.ranking import collapsed
from ragscore.scoring.answers import answer_columns
from ragscore.scoring.grading import (
    count_undecidable,
    decidable,
    grade_matches,
    level_rule,
    level_rule_name,
    n_without_matches,
    rule_name,
    with_stored_matches,
)
from ragscore.scoring.level import Level, choose_level
from ragscore.scoring.matching import (
    ID_LEVELS,
    LEVELS,
    HitResponses,
    Rule,
    apply_rule,
    at_level,
    check_ranks,
    level_rows,
    locate_hits,
    response_of,
    with_coded_queries,
)
from ragscore.scoring.metrics import BY_NAME, DEFAULT_METRICS, Label, parse_label, ranking_columns
from ragscore.scoring.policies import (
    NEVER_VACUOUS,
    STATES,
    VACUOUS,
    fill_empty_gold,
    hit_at_run_k,
    read_refusals,
    resolve_policies,
    success_values,
    warn_of_missing,
    with_policies,
)
from ragscore.scoring.profiles import Profile, find_profile

# How many hits a text is about, by the label or level whose rule met them, and the text. Scoring
# returns notes and never warns: it also runs in threads and on workers, and parts share one note.
Notes = dict[tuple[str, str], int]
LEVEL_DTYPE, STATE_DTYPE = pd.CategoricalDtype(list(LEVELS)), pd.CategoricalDtype(list(STATES))


def score(
    results: Results,
    golden: Golden,
    metrics: list[str] | str | None = None,
    *,
    match: str = "auto",
    rule: Rule | None = None,
    errors: str = "miss",
    missing: str = "exclude",
    empty_gold: str = "nan",
    collapse: str = "none",
    unknown: str = "exclude",
    profile: str | Profile | None = None,
) -> pd.DataFrame:
    """Score runs against a golden set.

    Parameters
    ----------
    metrics
        Labels, or one (see `rs.metrics()`); by default every default metric at k = 1, 3, 5, 10.
    match
        "auto" (the finest level at which every query with targets has some and both sides can be
        joined), "chunk", "span", "doc", or "per_query" (each query's finest).
    rule
        A rule of your own, (hits, targets) -> matches, instead of the level's; `match` says which
        targets it gets.
    errors
        "miss": a failed query is scored on the hits it has; "exclude": it is NaN in everything but
        `failed`.
    missing
        Golden queries that a run has no row for. "exclude": NaN, with a warning; "zero": they score
        0 (trec_eval's -c).
    empty_gold
        Ranking metrics of a query for which nothing at all is relevant. "nan"; "one": vacuously 1,
        precision 0; "zero". Queries that should be refused stay NaN unless the profile scores them.
    collapse
        "doc": ranking metrics see the first hit of each document only, ranks closed up (lists of
        passages scored by document).
    unknown
        Hits of which only a cut text is stored, so that the anchor or predicate rule can't decide
        whether they hold a text. "exclude": a ranking metric is NaN where taking them all as hits
        gives another value than taking none; "miss": they are misses. Their number is warned of,
        and is `n_undecidable` of `rs.scoring` and `rs.coverage`.
    profile
        Another harness's conventions ("kebab"): its metrics and its reading of "should refuse".

    Returns
    -------
    One row per run and golden query, missing ones too, and per response without a golden query
    (index `query_id`): `run_id`; `state` (scored, failed, missing, extra); `level`, the match level
    used; then one float64 column per metric, NaN where it does not apply. Scores do not depend on
    the order of rows.

    Raises
    ------
    DataError
        An unknown metric, level, policy or profile; a level without any target.

    Warns
    -----
    UserWarning
        Golden queries without a row are left out; hits can't be judged on cut text; a cut-off asked
        for in `metrics` is above a run's own k; no query of a run has a value of any ranking
        metric, though there are targets.
    """
    check_inputs(results, golden)
    chosen = find_profile(profile)
    given = {
        "match": match,
        "errors": errors,
        "missing": missing,
        "empty_gold": empty_gold,
        "collapse": collapse,
        "unknown": unknown,
    }
    match, errors, missing, empty_gold, collapse, unknown = resolve_policies(chosen, given).values()
    labels = labels_of(results, metrics, chosen)
    golden = read_refusals(golden, chosen)
    level = choose_level(
        collapsed(results) if collapse == "doc" else results, golden, match, keeps_refusals(chosen)
    )
    policies = {
        "errors": errors,
        "missing": missing,
        "empty_gold": empty_gold,
        "collapse": collapse,
        "unknown": unknown,
    }
    scores, valued, notes = scores_at(results, golden, labels, level, rule, chosen, policies)
    warn_of_notes(notes)
    warn_of_deep_cuts(results, labels, bool(metrics) and chosen is None)
    if missing == "exclude":
        warn_of_missing(scores)
    warn_of_no_value(valued(), level)
    return scores


def labels_of(
    results: Results, metrics: list[str] | str | None, profile: Profile | None
) -> list[Label]:
    """The metrics asked for, else the profile's at the runs' own k, else the default ones."""
    given = [metrics] if isinstance(metrics, str) else metrics
    return [
        parse_label(text)
        for text in given or (profile.labels(_run_ks(results)) if profile else DEFAULT_METRICS)
    ]


def keeps_refusals(profile: Profile | None) -> bool:
    """Whether retrieval is scored for questions that should be refused, too."""
    return profile is not None and profile.score_refusals


def scores_at(
    results: Results,
    golden: Golden,
    labels: list[Label],
    level: Level,
    rule: Rule | None,
    profile: Profile | None,
    policies: dict[str, str],
) -> tuple[pd.DataFrame, Callable[[], pd.DataFrame], Notes]:
    """Score at a level that is chosen already.

    Each query by itself, so that the queries of a run may be scored in parts.

    Parameters
    ----------
    golden
        With refusals as the profile reads them.
    policies
        Every one but `match`, as `resolve_policies` gives them.

    Returns
    -------
    scores
        The frame of `score`.
    valued
        Counts, made when asked for, what `warn_of_no_value` looks at; counts of parts add up.
    notes
        What `warn_of_notes` warns of; numbers of parts add up.
    """
    keep_refusals, unknown, empty_gold = (
        keeps_refusals(profile),
        policies["unknown"],
        policies["empty_gold"],
    )
    ranked = collapsed(results) if policies["collapse"] == "doc" else results
    coded = with_coded_queries(ranked, golden)
    placed = locate_hits(coded)
    rows = _rows(ranked, golden, placed)
    # A rule of your own is given what you loaded.
    ranking, notes = _ranking_scores(
        coded if rule is None else ranked, golden, rows, labels, level, rule, keep_refusals, unknown
    )
    all_hits = placed if ranked is results else None
    answers = _answer_scores(
        results,
        golden,
        rows,
        labels,
        level,
        unknown,
        profile.no_claims if profile else np.nan,
        all_hits,
    )
    columns = {
        label.text: ranking[label.text] if label.is_ranking else answers[label.text]
        for label in labels
        if label.name != "passed"
    }
    if any(label.name == "passed" for label in labels):
        columns["passed"] = success_values(
            results, golden, rows, ranking, answers["refusal_correct"], keep_refusals
        )
    if empty_gold != "nan":
        fill_empty_gold(columns, labels, VACUOUS[empty_gold], rows, golden, keep_refusals)
    ordered = {label.text: columns[label.text] for label in labels}
    scores = with_policies(rows, ordered, policies["errors"], policies["missing"])
    valued = partial(_valued, ranked, rows, columns, labels, golden, level, keep_refusals)
    return scores, valued, notes


def scoring(
    results: Results,
    golden: Golden,
    *,
    match: str = "auto",
    rule: Rule | None = None,
    errors: str = "miss",
    missing: str = "exclude",
    empty_gold: str = "nan",
    collapse: str = "none",
    unknown: str = "exclude",
    profile: str | Profile | None = None,
) -> pd.DataFrame:
    """What a scoring is made of, to keep with its numbers. Arguments as for `rs.score`.

    Returns
    -------
    One row per run: `level` used and `left_out` (what a finer one would have left out),
    `chunker_version_match`, the name of the `rule`, `policies` (JSON of every one, as the profile
    leaves them), `profile` (NA: none), `golden_hash`, `k` of the run, `n_expected` queries,
    `n_undecidable` hits that the level's rule can't judge because their text is cut.
    """
    check_inputs(results, golden)
    chosen = find_profile(profile)
    given = {
        "match": match,
        "errors": errors,
        "missing": missing,
        "empty_gold": empty_gold,
        "collapse": collapse,
        "unknown": unknown,
    }
    policies = resolve_policies(chosen, given)
    golden_hash, golden = golden.golden_hash, read_refusals(golden, chosen)
    ranked = collapsed(results) if policies["collapse"] == "doc" else results
    level = choose_level(
        ranked, golden, policies["match"], chosen is not None and chosen.score_refusals
    )
    runs = results.runs
    used = level.joinable if level.name == "per_query" else (level.name,)
    n_undecidable = sum(count_undecidable(results, golden, name).to_numpy() for name in used)
    return pd.DataFrame({
        "run_id": runs["run_id"].to_numpy(), "level": level.name, "left_out": level.left_out,
        "chunker_version_match": level.chunker_version_match,
        "rule": rule_name(rule) if rule is not None else level_rule_name(level.name),
        "policies": json.dumps(policies, sort_keys=True),
        "profile": pd.Series([chosen.name if chosen else None] * len(runs), dtype="str"),
        "golden_hash": golden_hash,
        "k": runs["k"].to_numpy() if "k" in runs else pd.NA, "n_expected": len(golden.queries),
        "n_undecidable": n_undecidable,
    })  # fmt: skip


def _run_ks(results: Results) -> list[int]:
    return [int(k) for k in results.runs["k"].dropna().unique()] if "k" in results.runs else []


def warn_of_notes(notes: Notes) -> None:
    """Warn of hits that a rule could not judge; their number goes before the text."""
    for (_, text), n in notes.items():
        warn(f"{n} {text}")


def warn_of_deep_cuts(results: Results, labels: list[Label], are_asked_for: bool) -> None:
    """Warn of cut-offs that a run can't fill, having kept fewer hits by its own account.

    Only of those asked for.
    """
    if "k" not in results.runs or not are_asked_for:
        return
    known = results.runs.dropna(subset=["k"])
    cuts = [label for label in labels if label.k is not None]
    deep = {
        f"{run_id} (k = {k})": names
        for run_id, k in zip(known["run_id"], known["k"], strict=True)
        if (names := [c.text for c in cuts if (c.k or 0) > k])
    }
    if deep:
        listed = "; ".join(f"{run}: {', '.join(names)}" for run, names in deep.items())
        warn(f"cut-offs above the run's own k may see fewer hits than their label says ({listed})")


def _valued(
    results: Results,
    rows: pd.DataFrame,
    columns: dict[str, npt.NDArray[np.float64]],
    labels: list[Label],
    golden: Golden,
    level: Level,
    keep_refusals: bool,
) -> pd.DataFrame:
    """Per run.

    Queries with targets that were scored (`n_expected`), those with a value of any ranking metric,
    and, without any, undecidable hits.
    """
    values = [
        columns[label.text]
        for label in labels
        if label.is_ranking and label.level is None and label.name not in NEVER_VACUOUS
    ]
    run, run_ids = codes_of(rows["run_id"]), rows["run_id"].cat.categories
    index = pd.Index(run_ids.astype("str"))
    counts = dict.fromkeys(
        ("n_expected", "n_valued", "n_undecidable"), np.zeros(len(index), dtype=np.int64)
    )
    if not values or not len(golden.targets):
        return pd.DataFrame(counts, index=index)
    is_nan, is_scored = np.all(np.isnan(values), axis=0), codes_of(rows["state"]) == 0
    expected = is_scored
    if is_nan[is_scored].any():
        golden = golden.coded
        relevant = (golden.targets["grade"] > 0).to_numpy() & np.any(
            [level_rows(golden, name, keep_refusals) for name in LEVELS], axis=0
        )
        expected = is_scored & is_among(rows["query_id"], golden.targets.loc[relevant, "query_id"])
    counts["n_expected"], counts["n_valued"] = (
        np.bincount(run[expected & chosen], minlength=len(run_ids)) for chosen in (True, ~is_nan)
    )
    if not counts["n_valued"].all():
        used = level.joinable if level.name == "per_query" else (level.name,)
        counts["n_undecidable"] = np.sum(
            [count_undecidable(results, golden, name).reindex(index).to_numpy() for name in used],
            axis=0,
        )
    return pd.DataFrame(counts, index=index)


def warn_of_no_value(counts: pd.DataFrame, level: Level) -> None:
    """Warn of runs whose every ranking metric is NaN for every query that has targets at some level: nothing could be matched."""
    # Of hits on cut text a warning was given already.
    expected, valued, undecidable = (
        counts[name].to_numpy() for name in ("n_expected", "n_valued", "n_undecidable")
    )
    lost = counts.index[(expected > 0) & (valued == 0) & (undecidable == 0)].tolist()
    if lost:
        why = level.left_out or f"no target of theirs is matched at level {level.name}"
        text = (
            f"no query of {', '.join(lost)} has a value of any ranking metric, though there are"
            f" targets (level {level.name}; {why})"
        )
        warn(text)


def _rows(results: Results, golden: Golden, placed: HitResponses) -> pd.DataFrame:
    """Every golden query of every run, then responses without a golden query.

    Run_id, query_id, response, n_hits, state.
    """
    responses, run_ids = results.responses, results.runs["run_id"].cat.categories
    n_runs, n_queries = len(run_ids), len(golden.queries)
    query_ids = golden.queries["query_id"]
    extra = np.flatnonzero(lookup(responses["query_id"], pd.Index(query_ids)) < 0)
    run_codes = np.concatenate(
        [np.repeat(np.arange(n_runs), n_queries), codes_of(responses["run_id"])[extra]]
    )
    rows = pd.DataFrame({
        "run_id": categorical(run_codes, responses["run_id"].dtype),
        "query_id": pd.concat([*[query_ids] * n_runs, responses["query_id"].iloc[extra]],
        ignore_index=True),
    })  # fmt: skip
    response = response_of(rows, responses)
    check_ranks(results.hits, placed.response)
    n_hits = np.append(placed.n_hits, 0)[response]
    failed = np.append(responses["error"].notna().to_numpy(), False)[response]
    state = np.select(
        [response < 0, np.arange(len(rows)) >= n_runs * n_queries, failed], [2, 3, 1], 0
    )
    known = {"run_id": rows["run_id"], "query_id": rows["query_id"]}
    return pd.DataFrame(
        {
            **known,
            "response": response,
            "n_hits": n_hits,
            "failed": failed,
            "state": categorical(state, STATE_DTYPE),
        },
        copy=False,
    )


def _ranking_scores(
    results: Results,
    golden: Golden,
    rows: pd.DataFrame,
    labels: list[Label],
    level: Level,
    rule: Rule | None,
    keep_refusals: bool,
    unknown: str,
) -> tuple[dict[str, npt.NDArray[np.float64]], Notes]:
    """Columns of ranking metrics; `level` is added to `rows` as a column."""
    for_passed = (
        hit_at_run_k(results).unique().tolist()
        if any(label.name == "passed" for label in labels)
        else []
    )
    own = list(
        dict.fromkeys(
            [
                *(label.text for label in labels if label.is_ranking and label.level is None),
                *for_passed,
            ]
        )
    )
    by_level: dict[str, dict[str, str]] = {}
    for label in labels:
        if label.level is not None:
            by_level.setdefault(label.level, {})[label.text.removesuffix(f":{label.level}")] = (
                label.text
            )
    columns: dict[str, npt.NDArray[np.float64]] = {}
    notes: Notes = {}

    def at_one(name: str, labels: list[str], rule: Rule | None, where: str) -> dict[str, Any]:
        found, counts = _score_at(results, golden, rows, labels, name, rule, keep_refusals, unknown)
        notes.update({(where, text): n for text, n in counts.items()})
        return found

    if level.name == "per_query":
        used = np.full(len(rows), -1)
        queries = pd.Index(golden.queries["query_id"])
        row_query = lookup(rows["query_id"], queries)
        for number, name in reversed(list(enumerate(LEVELS))):
            if name in level.joinable:
                here = is_among(
                    queries, golden.targets.loc[level_rows(golden, name, keep_refusals), "query_id"]
                )
                used[np.append(here, False)[row_query]] = number
        columns = {label: np.full(len(rows), np.nan) for label in own}
        for number, name in enumerate(LEVELS):
            if (used == number).any():
                found = at_one(name, own, rule, name)
                columns = {
                    label: np.where(used == number, found[label], columns[label]) for label in own
                }
        rows["level"] = categorical(used, LEVELS)
    else:
        columns = at_one(level.name, own, rule, level.name) if own else {}
        rows["level"] = categorical(
            np.full(len(rows), LEVELS.index(level.name), np.int8), LEVEL_DTYPE
        )
    for name, wanted in by_level.items():
        found = at_one(name, list(wanted), None, f":{name}")
        columns |= {text: found[plain] for plain, text in wanted.items()}
    return columns, notes


def _score_at(
    results: Results,
    golden: Golden,
    rows: pd.DataFrame,
    labels: list[str],
    level: str,
    rule: Rule | None,
    keep_refusals: bool,
    unknown: str,
) -> tuple[dict[str, npt.NDArray[np.float64]], dict[str, int]]:
    """Columns of ranking metrics at one level, and the texts of notes with their numbers."""
    selected = at_level(golden.coded, level, keep_refusals)
    judge = (
        with_stored_matches(rule, results, golden, level)
        if rule is not None
        else level_rule(level, results, golden)
    )
    # Codes are for rules that join ids; others are given texts.
    by_id = rule is None and level in ID_LEVELS
    matches = apply_rule(
        judge,
        results.hits,
        selected.targets if by_id else at_level(golden, level, keep_refusals).targets,
    )

    def earned(pairs: pd.DataFrame) -> dict[str, npt.NDArray[np.float64]]:
        graded, found = grade_matches(
            pairs, results.hits, selected.targets, getattr(judge, "__qualname__", "rule")
        )
        return ranking_columns(graded, found, selected, rows, labels)

    notes = {}
    if rule is not None and "undecidable" not in matches:
        notes[
            "hits have cut text and no stored matches: what this rule would have found in the part"
            " cut off is unknown"
        ] = n_without_matches(rule, results, golden, level)
    scores = earned(decidable(matches))
    if "undecidable" in matches and matches["undecidable"].any():
        policy = (
            "they count as misses"
            if unknown == "miss"
            else "metrics that depend on them are NaN (unknown='miss' counts them as misses)"
        )
        notes[
            "hits can't be judged, their text is cut and what is left holds no expected text;"
            f" {policy}"
        ] = matches.loc[matches["undecidable"], "hit"].nunique()
        if unknown == "exclude":
            scores = {
                label: np.where(scores[label] == values, scores[label], np.nan)
                for label, values in earned(matches).items()
            }
    return scores, {text: n for text, n in notes.items() if n}


def _answer_scores(
    results: Results,
    golden: Golden,
    rows: pd.DataFrame,
    labels: list[Label],
    level: Level,
    unknown: str,
    no_claims: float,
    placed: HitResponses | None,
) -> dict[str, npt.NDArray[np.float64]]:
    """Columns of answer metrics, brought from responses to rows."""
    if all(label.is_ranking for label in labels):
        return {}
    by_response = answer_columns(results, golden, level, unknown, no_claims, placed)
    response = rows["response"].to_numpy()
    return {
        name: np.append(values, np.nan)[response]
        for name, values in by_response.items()
        if name in BY_NAME
    }

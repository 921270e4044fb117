"""Score runs against a golden set in one call.

In: `Results` and `Golden`. Out: one row per run and query, one column per metric; and, per run,
what the scoring was made of. Everything else in this folder is a step of it.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, is_among, lookup
from ragscore.frames.data import DataError, Golden, Results, categorical, check_inputs
from ragscore.frames.errors import names_of, warn
from ragscore.frames.ranking import collapsed
from ragscore.frames.signatures import takes
from ragscore.frames.typing import Codes, Values
from ragscore.scoring.answers import answer_columns
from ragscore.scoring.calls import has_several, scores_of_calls
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
from ragscore.scoring.id_overlap import (
    ExpectedIds,
    JoinEvidence,
    expected_ids,
    gather,
    join_notes,
    n_targets_with_id,
    near_joins,
)
from ragscore.scoring.judgments import judged_metrics
from ragscore.scoring.level import Level, choose_level
from ragscore.scoring.metrics import (
    DEFAULT,
    LABELS,
    NOTHING_DECLARED,
    Asked,
    Declarations,
    Label,
    asked_for,
    default_metrics,
    is_label,
    judges_irrelevant,
    parse_label,
    ranking_columns,
)
from ragscore.scoring.metrics.needs import IRRELEVANT
from ragscore.scoring.policies import (
    STATES,
    Policies,
    PolicyFields,
    as_recorded,
    fill_empty_gold,
    in_order,
    policies_of,
    read_refusals,
    resolve_policies,
    warn_of_missing,
    with_hits_kept,
    with_policies,
)
from ragscore.scoring.profiles import Profile, find_profile
from ragscore.scoring.refusal_phrases import with_refusals_read
from ragscore.scoring.rules import (
    ID_LEVELS,
    LEVELS,
    HitResponses,
    Rule,
    apply_rule,
    check_ranks,
    level_rows,
    locate_hits,
    response_of,
    targets_at,
    with_coded_queries,
)
from ragscore.scoring.success import OF_SUCCESS, hit_at_run_k, success_values
from ragscore.scoring.turns import with_turns

# (label or level whose rule met the hits, text) -> the number of hits that the text is about.
# Scoring returns notes and never warns: it also runs in threads and on workers, and parts share one
# note.
Notes = dict[tuple[str, str], int]
LEVEL_DTYPE, STATE_DTYPE = pd.CategoricalDtype(list(LEVELS)), pd.CategoricalDtype(list(STATES))


@takes(Policies)
def score(
    results: Results,
    golden: Golden,
    metrics: Asked = None,
    *,
    rule: Rule | None = None,
    profile: str | Profile | None = None,
    policies: Policies | None = None,
    **fields: Unpack[PolicyFields],
) -> pd.DataFrame:
    """Score runs against a golden set.

    Parameters
    ----------
    metrics
        Labels, or one (see `rs.metrics()`); by default every default metric at k = 1, 3, 5, 10,
        and those that the runs' judgments measure. `rs.Metric` objects, for metrics of your own;
        "default" in a list stands for the default ones.
    rule
        A rule of your own, (hits, targets) -> matches, instead of the level's; `match` says which
        targets it gets.
    profile
        Conventions of another harness ("kebab"): its metrics and its reading of "should refuse".
    policies, fields
        `rs.Policies`, and single fields of it: `match="doc"`, `missing="zero"`.

    Returns
    -------
    One row per run and golden query, missing ones too, and per response without a golden query
    (index `query_id`): `run_id`; `state` (scored, failed, missing, extra); `level`, the match level
    used; then one float64 column per metric, NaN where it does not apply. Scores do not depend on
    the order of rows.

    Raises
    ------
    DataError
        An unknown metric, level, policy or profile; a level without any target; hits without any
        id.

    Warns
    -----
    UserWarning
        Golden queries without a row are left out; queries with targets have none at the match level
        that was chosen; hits can't be judged on cut text; a cut-off asked for in `metrics` is above
        a run's own k; no query of a run has a value of any ranking metric, though there are
        targets; no query of the golden set is labelled; the ids of a run are not the expected ones
        (`id_overlap`), with the change that would join them; `metrics` names ndcg and not
        ndcg_linear, other tools' nDCG, and there are grades above 1.
    """
    labels, declared = asked_for(metrics)
    given = policies_of(policies, fields)
    check_inputs(results, golden)
    results, golden = with_turns(results, golden)
    return score_and_settings(results, golden, labels, rule, profile, given, declared)[0]


def score_and_settings(
    results: Results,
    golden: Golden,
    metrics: list[str] | str | None,
    rule: Rule | None,
    profile: str | Profile | None,
    given: Policies,
    declared: Declarations = NOTHING_DECLARED,
    *,
    is_alone: bool = False,
) -> tuple[pd.DataFrame, Callable[[], pd.DataFrame]]:
    """Return the frame of `score`, and what tells of each run what its values were made by.

    The latter hashes the golden set, which takes longer than scoring a run of a million hits.
    `declared` are the metrics of your own among the labels. With `is_alone` there is no golden set:
    a query without a row is none that was missed.
    """
    chosen, holding, read, level = _prepared(results, golden, profile, given)
    labels = labels_of(results, metrics, chosen, declared=declared)
    scored = scores_at(results, read, labels, level, rule, chosen, holding)
    expected = expected_by(read, chosen)
    warn_of_hits(scored.evidence(expected), expected, scored.notes)
    warn_of_choices(results, golden, metrics, labels, chosen, holding)
    warn_of_gaps(scored.scores, scored.valued(), read, labels, level, holding, is_alone)
    return scored.scores, partial(settings_of, results.runs, golden, level, rule, chosen, holding)


def _prepared(
    results: Results, golden: Golden, profile: str | Profile | None, given: Policies
) -> tuple[Profile | None, Policies, Golden, Level]:
    """Return the profile, its policies, the golden set as it reads it, and the match level."""
    chosen = find_profile(profile)
    policies = resolve_policies(chosen, given)
    golden = read_refusals(golden, chosen)
    level = choose_level(
        with_hits_kept(results, policies), golden, policies.match, keeps_refusals(chosen)
    )
    return chosen, policies, golden, level


def labels_of(
    results: Results,
    metrics: list[str] | str | None,
    profile: Profile | None,
    judged: Collection[str] | None = None,
    declared: Declarations = NOTHING_DECLARED,
) -> list[Label]:
    """Return the metrics asked for, else the profile's at the runs' k, else the default ones.

    The default ones include those that judges measured: `judged`, else those of the results.

    Raises
    ------
    DataError
        No metric of ours, and none that is `declared`; one that is, without its function.
    """
    given = names_of([] if metrics is None else metrics, "metrics", LABELS) or [DEFAULT]
    if DEFAULT in given:
        ks = results.runs["k"].dropna().unique().tolist() if "k" in results.runs else []
        default = profile.labels([int(k) for k in ks]) if profile else []
        if not default:
            judged = judged_metrics(results.judgments) if judged is None else judged
            default = default_metrics(judged)
        at = given.index(DEFAULT)
        given = [*given[:at], *default, *given[at + 1 :]]
    # a metric may be asked for by several names
    labels = list(dict.fromkeys(declared.parse(text) for text in given))
    for label in labels:
        if label.metric.source and label.metric.compute is None:
            raise DataError(
                f"{label.text} has stored values alone; the function that makes others is not here",
                field="metrics",
                allowed=f"metrics=[the rs.Metric {label.metric.name}]",
            )
    return labels


def keeps_refusals(profile: Profile | None) -> bool:
    """Tell if retrieval is scored for queries that should be refused, too."""
    return profile is not None and profile.score_refusals


@dataclass(frozen=True)
class Scored:
    """Scores, and what there is to say about them. What is said of parts adds up.

    Attributes
    ----------
    scores
        The frame of `score`.
    valued
        Makes the counts that `warn_of_no_value` reads.
    notes
        The input of `warn_of_hits`.
    joins
        One row per run and match level (index run_id, level): `n_hits`, `n_targets`, `n_graded`.
        Empty for a rule of your own, which need not join ids.
    ranked
        The results whose hits were matched.
    near
        Makes the frame of `near_joins`.
    """

    scores: pd.DataFrame
    valued: Callable[[], pd.DataFrame]
    notes: Notes
    joins: pd.DataFrame
    ranked: Results
    near: Callable[[], pd.DataFrame]

    def evidence(self, expected: ExpectedIds) -> JoinEvidence:
        """Return the evidence of ids that can't be joined; see `expected_by`."""
        return gather(self.ranked, self.joins, expected, self.near())


def expected_by(golden: Golden, profile: Profile | None) -> ExpectedIds:
    """Return a function from a match level to the ids that the golden set expects there."""
    return partial(expected_ids, golden, keeps_refusals(profile))


def scores_at(
    results: Results,
    golden: Golden,
    labels: list[Label],
    level: Level,
    rule: Rule | None,
    profile: Profile | None,
    policies: Policies,
    whole: Golden | None = None,
) -> Scored:
    """Score at a level that is chosen already, with several calls read as the policies say.

    Each query is scored by itself, so the queries of a run may be scored in parts.

    Parameters
    ----------
    golden
        With refusals as the profile reads them.
    policies
        As `resolve_policies` gives them; `match` is not read.
    whole
        The golden set that `golden` is a part of, if it is one.
    """
    if has_several(results):

        def score_lists(results: Results, labels: list[Label], **changed: Any) -> Scored:
            own = replace(policies, **changed)
            return scores_at(results, golden, labels, level, rule, profile, own, whole)

        def kept(results: Results) -> Results:
            return with_hits_kept(in_order(results, policies), policies)

        found: Scored = scores_of_calls(score_lists, kept, results, labels, policies.calls)
        return found
    keep_refusals = keeps_refusals(profile)
    is_part = whole is not None and len(whole.queries) > len(golden.queries)
    results = with_refusals_read(in_order(results, policies), policies)
    ranked = collapsed(results) if policies.collapse == "doc" else results
    coded = with_coded_queries(ranked, golden)
    located = locate_hits(coded)
    rows = _rows(ranked, golden, located)
    # A rule of your own is given what you loaded.
    given = coded if rule is None else ranked
    ranking, notes, n_graded = _ranking_scores(
        given, golden, rows, labels, level, rule, keep_refusals, policies,
        partial(_knows_irrelevant, whole or golden, profile), is_part,
    )  # fmt: skip
    answers: dict[str, Values] = {}
    if not all(label.is_ranking for label in labels):
        # Citations are compared with all hits, not only with those that collapsing keeps.
        all_hits = located if ranked is results else None
        no_claims = profile.no_claims if profile else np.nan
        own = [one.metric for one in labels if one.metric.source]
        by_response = answer_columns(
            results, golden, level, policies.unknown, no_claims, all_hits, own, is_part
        )
        response = rows["response"].to_numpy()
        answers = {
            name: np.append(values, np.nan)[response] for name, values in by_response.items()
        }
    if any(label.name in OF_SUCCESS for label in labels):
        answers |= success_values(results, golden, rows, ranking, answers, keep_refusals)
    columns = {
        label.text: (ranking if label.is_ranking else answers)[label.text] for label in labels
    }
    if profile is not None and not np.isnan(profile.empty_gold):
        fill_empty_gold(columns, labels, rows, golden, profile)
    scores = with_policies(rows, columns, labels, policies.missing)
    for label in labels:
        if label.metric.source:
            label.metric.refuse_outside(scores[label.text], label.text)
    valued = partial(_valued, ranked, rows, columns, labels, golden, level, keep_refusals)
    if n_lost := len(ranked.hits) - int(located.n_hits.sum()):
        notes["", "hits belong to no response and don't count: responses lacks their query"] = (
            n_lost
        )
    joins = _joins(rows, golden, {} if rule is not None else n_graded, keep_refusals)
    near = partial(near_joins, coded, golden, joins.index.unique("level"), keep_refusals)
    return Scored(scores, valued, notes, joins, ranked, near)


def _knows_irrelevant(golden: Golden, profile: Profile | None, level: str) -> bool:
    """Tell if bpref has a meaning at this level: some document is judged as not relevant."""
    if profile is not None and profile.bpref_as_recall:
        return True
    keep_refusals = keeps_refusals(profile)
    return golden._once(
        ("judges_irrelevant", level, keep_refusals),
        lambda: judges_irrelevant(targets_at(golden, level, keep_refusals).targets),
    )


def _joins(
    rows: pd.DataFrame, golden: Golden, n_graded: dict[str, Codes], keep_refusals: bool
) -> pd.DataFrame:
    """Count hits, targets with an id and graded hits, by run and level."""
    run, run_ids = codes_of(rows["run_id"]), rows["run_id"].cat.categories.astype("str")
    n_hits = np.bincount(run, weights=rows["n_hits"], minlength=len(run_ids)).astype(np.int64)
    names = ("n_hits", "n_targets", "n_graded")
    counts = [
        (n_hits, np.full(len(run_ids), n_targets_with_id(golden, level, keep_refusals)), graded)
        for level, graded in n_graded.items()
    ]
    level, place = np.divmod(np.arange(len(n_graded) * len(run_ids)), max(len(run_ids), 1))
    index = pd.MultiIndex(
        [run_ids.tolist(), list(n_graded)],
        [place.tolist(), level.tolist()],
        names=["run_id", "level"],
    )
    columns = {
        name: np.concatenate([one[at] for one in counts] or [np.zeros(0, np.int64)])
        for at, name in enumerate(names)
    }
    return pd.DataFrame(columns, index=index)


@takes(Policies)
def scoring(
    results: Results,
    golden: Golden,
    *,
    rule: Rule | None = None,
    profile: str | Profile | None = None,
    policies: Policies | None = None,
    **fields: Unpack[PolicyFields],
) -> pd.DataFrame:
    """Describe a scoring, to keep with its numbers. Arguments as for `rs.score`.

    Returns
    -------
    One row per run: `level` used and `left_out` (what a finer one would have left out),
    `chunker_version_match`, the name of the `rule`, `policies` (JSON of every one, as the profile
    leaves them), `profile` (NA: none), `golden_hash`, `k` of the run, `n_expected` queries,
    `n_undecidable` hits that the level's rule can't judge because their text is cut.
    """
    given = policies_of(policies, fields)
    check_inputs(results, golden)
    results, golden = with_turns(results, golden)
    chosen, holding, read, level = _prepared(results, golden, profile, given)
    n_undecidable = sum(count_undecidable(results, read, name).to_numpy() for name in level.used)
    return settings_of(results.runs, golden, level, rule, chosen, holding).assign(
        n_expected=len(read.queries), n_undecidable=n_undecidable
    )


def settings_of(
    runs: pd.DataFrame,
    golden: Golden,
    level: Level,
    rule: Rule | None,
    profile: Profile | None,
    policies: Policies,
) -> pd.DataFrame:
    """Return the columns of `scoring` that need no hits."""
    return pd.DataFrame({
        "run_id": runs["run_id"].to_numpy(), "level": level.name, "left_out": level.left_out,
        "chunker_version_match": level.chunker_version_match,
        "rule": rule_name(rule) if rule is not None else level_rule_name(level.name),
        "policies": json.dumps(as_recorded(policies), sort_keys=True),
        "profile": pd.Series([profile.name if profile else None] * len(runs), dtype="str"),
        "golden_hash": golden.golden_hash,
        "k": runs["k"].to_numpy() if "k" in runs else pd.NA, "n_expected": len(golden.queries),
    })  # fmt: skip


def warn_of_hits(evidence: JoinEvidence, expected: ExpectedIds, notes: Notes) -> None:
    """Warn of runs whose ids can't be joined, and of hits that a rule could not judge."""
    counted = [f"{n} {text}" for (_, text), n in notes.items()]
    for text in [*join_notes(evidence, expected), *counted]:
        warn(text)


def warn_of_choices(
    results: Results,
    golden: Golden,
    metrics: list[str] | str | None,
    labels: list[Label],
    profile: Profile | None,
    policies: Policies,
) -> None:
    """Warn of what was asked for and means something else than it seems to."""
    warn_of_deep_cuts(results, labels, bool(metrics) and profile is None)
    warn_of_gains(metrics, golden, profile)


def warn_of_gaps(
    scores: pd.DataFrame,
    counts: pd.DataFrame,
    golden: Golden,
    labels: list[Label],
    level: Level,
    policies: Policies,
    is_alone: bool = False,
) -> None:
    """Warn of queries without a label, a target or a row, and of runs without any value."""
    says_nothing = not len(golden.targets) and not len(golden.checks)
    says_nothing &= not is_alone and not golden.queries["answerable"].notna().any()
    if says_nothing and len(golden.queries) and any(label.is_ranking for label in labels):
        warn(
            f"none of the {len(golden.queries)} queries of the golden set is labelled: give"
            " expected ids (expected_doc_ids, expected_chunk_ids), or answerable: false"
        )
    if level.warning and any(label.is_ranking and label.level is None for label in labels):
        warn(level.warning)
    if policies.missing == "exclude" and not is_alone:
        warn_of_missing(scores)
    warn_of_no_value(counts, level)


def warn_of_deep_cuts(results: Results, labels: list[Label], are_asked_for: bool) -> None:
    """Warn of cut-offs asked for that are above the k which a run states as its own."""
    if "k" not in results.runs or not are_asked_for:
        return
    known = results.runs.dropna(subset=["k"])
    deep = {
        f"{run_id} (k = {k})": names
        for run_id, k in zip(known["run_id"], known["k"], strict=True)
        if (names := [label.text for label in labels if (label.k or 0) > k])
    }
    if deep:
        listed = "; ".join(f"{run}: {', '.join(names)}" for run, names in deep.items())
        warn(f"cut-offs above the run's own k may see fewer hits than their label says ({listed})")


def warn_of_gains(metrics: list[str] | str | None, golden: Golden, profile: Profile | None) -> None:
    """Warn who asks for ndcg by name, on grades where another tool's is another number.

    A label means the same under every profile. So the profile of trec_eval is no reason to be
    silent; one of a tool whose own nDCG is `ndcg` is.
    """
    asked = [metrics] if isinstance(metrics, str) else metrics or []
    named = [parse_label(text).name for text in asked if is_label(text)]
    knows = "ndcg_linear" in named or DEFAULT in asked or any("dcg=" in text for text in asked)
    if profile is not None:
        knows |= any(parse_label(text).name == "ndcg" for text in profile.labels())
    if "gain" in golden.targets:
        return
    if "ndcg" in named and not knows and (golden.targets["grade"] > 1).any():
        warn(
            "ndcg has the gain 2^grade − 1, and there are grades above 1; the nDCG of trec_eval and"
            " ir_measures has the grade itself: ndcg_linear"
        )


def _valued(
    results: Results,
    rows: pd.DataFrame,
    columns: dict[str, Values],
    labels: list[Label],
    golden: Golden,
    level: Level,
    keep_refusals: bool,
) -> pd.DataFrame:
    """Count per run what `warn_of_no_value` needs.

    Scored queries with targets (`n_expected`), those of them with a value of any ranking metric
    (`n_valued`) and, only if some run has none, `n_undecidable` hits.
    """
    values = [
        columns[label.text]
        for label in labels
        if label.is_ranking
        and label.level is None
        and label.metric.vacuous is not None
        and IRRELEVANT not in label.metric.needs
    ]
    run, run_ids = codes_of(rows["run_id"]), rows["run_id"].cat.categories
    index = pd.Index(run_ids.astype("str"))
    counts = dict.fromkeys(
        ("n_expected", "n_valued", "n_undecidable"), np.zeros(len(index), dtype=np.int64)
    )
    if not values or not len(golden.targets):
        return pd.DataFrame(counts, index=index)
    is_nan, expected = np.ones(len(rows), dtype=bool), codes_of(rows["state"]) == 0
    for one in values:
        is_nan &= np.isnan(one)
    if is_nan[expected].any():
        golden = golden._coded
        is_taken = np.any([level_rows(golden, name, keep_refusals) for name in LEVELS], axis=0)
        relevant = is_taken & (golden.targets["grade"] > 0).to_numpy()
        expected = expected & is_among(rows["query_id"], golden.targets.loc[relevant, "query_id"])
    counts["n_expected"] = np.bincount(run[expected], minlength=len(run_ids))
    counts["n_valued"] = np.bincount(run[expected & ~is_nan], minlength=len(run_ids))
    if not counts["n_valued"].all():
        undecidable = [
            count_undecidable(results, golden, name).reindex(index).to_numpy()
            for name in level.used
        ]
        counts["n_undecidable"] = np.sum(undecidable, axis=0)
    return pd.DataFrame(counts, index=index)


def warn_of_no_value(counts: pd.DataFrame, level: Level) -> None:
    """Warn of runs for which no ranking metric has a value: nothing could be matched."""
    is_lost = (counts["n_expected"] > 0) & (counts["n_valued"] == 0)
    # Of hits on cut text a warning was given already.
    lost = counts.index[is_lost & (counts["n_undecidable"] == 0)].tolist()
    if lost:
        why = level.left_out or f"no target of theirs is matched at level {level.name}"
        warn(
            f"no query of {', '.join(lost)} has a value of any ranking metric, though there are"
            f" targets (level {level.name}; {why})"
        )


def _rows(results: Results, golden: Golden, located: HitResponses) -> pd.DataFrame:
    """One row per run and golden query, then one per response without a golden query.

    Columns run_id, query_id, `response` (its position, -1: none), n_hits, failed, state.
    """
    responses, run_ids = results.responses, results.runs["run_id"].cat.categories
    query_ids = golden.queries["query_id"]
    n_runs, n_queries = len(run_ids), len(query_ids)
    extra = np.flatnonzero(lookup(responses["query_id"], pd.Index(query_ids)) < 0)
    run_of_extra = codes_of(responses["run_id"])[extra]
    run = np.concatenate([np.repeat(np.arange(n_runs), n_queries), run_of_extra])
    keys = {
        "run_id": pd.Series(categorical(run, responses["run_id"].dtype)),
        "query_id": pd.concat(
            [*[query_ids] * n_runs, responses["query_id"].iloc[extra]], ignore_index=True
        ),
    }
    response = response_of(pd.DataFrame(keys, copy=False), responses)
    check_ranks(results.hits, located.response)
    failed = np.append(responses["error"].notna().to_numpy(), False)[response]
    is_extra = np.arange(len(response)) >= n_runs * n_queries
    state = np.select([response < 0, is_extra, failed], [2, 3, 1], 0)  # places in STATES
    return pd.DataFrame(
        {
            **keys,
            "response": response,
            "n_hits": np.append(located.n_hits, 0)[response],
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
    policies: Policies,
    knows_irrelevant: Callable[[str], bool],
    is_part: bool,
) -> tuple[dict[str, Values], Notes, dict[str, Codes]]:
    """Compute the columns of ranking metrics; `level` is added to `rows` as a column.

    Notes are returned beside them, and the number of graded hits by level and run.
    """
    own = [label for label in labels if label.is_ranking and label.level is None]
    if any(label.name in OF_SUCCESS for label in labels):
        own += map(parse_label, hit_at_run_k(results).unique())
    own = list(dict.fromkeys(own))
    by_level: dict[str, list[Label]] = {}
    for label in labels:
        if label.level is not None:
            by_level.setdefault(label.level, []).append(label)
    notes: Notes = {}
    n_graded: dict[str, Codes] = {}

    def at_one(name: str, labels: list[Label], rule: Rule | None, where: str) -> dict[str, Values]:
        found, counts, n_graded[name] = _score_at(
            results, golden, rows, labels, name, rule, keep_refusals, policies, knows_irrelevant,
            is_part,
        )  # fmt: skip
        notes.update({(where, text): n for text, n in counts.items()})
        return found

    if level.name == "per_query":
        used = np.full(len(rows), -1)
        queries = pd.Index(golden.queries["query_id"])
        row_query = lookup(rows["query_id"], queries)
        for number, name in reversed(list(enumerate(LEVELS))):  # the finest is written last
            if name in level.joinable:
                targets = golden.targets[level_rows(golden, name, keep_refusals)]
                is_here = is_among(queries, targets["query_id"])
                used[np.append(is_here, False)[row_query]] = number
        columns = {label.text: np.full(len(rows), np.nan) for label in own}
        for number, name in enumerate(LEVELS):
            if (used == number).any():
                found = at_one(name, own, rule, name)
                columns = {
                    text: np.where(used == number, found[text], old)
                    for text, old in columns.items()
                }
        rows["level"] = categorical(used, LEVELS)
    else:
        columns = at_one(level.name, own, rule, level.name) if own else {}
        code = np.full(len(rows), LEVELS.index(level.name), np.int8)
        rows["level"] = categorical(code, LEVEL_DTYPE)
    for name, wanted in by_level.items():
        columns |= at_one(name, wanted, None, f":{name}")
    return columns, notes, n_graded


def _score_at(
    results: Results,
    golden: Golden,
    rows: pd.DataFrame,
    labels: list[Label],
    level: str,
    rule: Rule | None,
    keep_refusals: bool,
    policies: Policies,
    knows_irrelevant: Callable[[str], bool],
    is_part: bool,
) -> tuple[dict[str, Values], dict[str, int], Codes]:
    """Compute ranking metrics at one level.

    Texts of notes are returned beside them, with their numbers of hits, and the number of graded
    hits by run.
    """
    selected = targets_at(golden._coded, level, keep_refusals)
    if rule is not None:
        judge = with_stored_matches(rule, results, golden, level)
    else:
        judge = level_rule(level, results, golden)
    # Codes are for rules that join ids; others are given texts.
    by_id = rule is None and level in ID_LEVELS
    targets = selected.targets if by_id else targets_at(golden, level, keep_refusals).targets
    matches = apply_rule(judge, results.hits, targets)
    is_needed = any(IRRELEVANT in label.metric.needs for label in labels)
    is_known = knows_irrelevant(level) if is_needed else None

    def columns_of(pairs: pd.DataFrame) -> tuple[dict[str, Values], pd.Series]:
        name = getattr(judge, "__qualname__", "rule")
        graded, found = grade_matches(pairs, results.hits, selected.targets, name)
        columns = ranking_columns(
            graded, found, selected, rows, labels, is_known,
            results, is_part,
        )  # fmt: skip
        return columns, graded["run_id"]

    (scores, run_of_graded), notes = columns_of(decidable(matches)), {}
    # The hits of a run without any may know no run at all.
    n_runs = len(rows["run_id"].cat.categories)
    n_graded = np.bincount(codes_of(run_of_graded), minlength=n_runs)
    if rule is not None and "undecidable" not in matches:
        text = (
            "hits have cut text and no stored matches: what this rule would have found in the part"
            " cut off is unknown"
        )
        notes[text] = n_without_matches(rule, results, golden, level)
    if "undecidable" in matches and matches["undecidable"].any():
        policy = "they count as misses"
        if policies.unknown == "exclude":
            policy = "metrics that depend on them are NaN (unknown='miss' counts them as misses)"
            scores = {
                label: np.where(scores[label] == values, scores[label], np.nan)
                for label, values in columns_of(matches)[0].items()
            }
        text = (
            "hits can't be judged, their text is cut and what is left holds no expected text;"
            f" {policy}"
        )
        notes[text] = matches.loc[matches["undecidable"], "hit"].nunique()
    return scores, {text: n for text, n in notes.items() if n}, n_graded

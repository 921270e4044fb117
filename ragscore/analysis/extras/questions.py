"""Questions that only some ask of an evaluation, each a function of it.

In: an evaluation. Out: a frame, or an object whose frames are attributes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ragscore.analysis.calls import CallReport
from ragscore.analysis.calls import calls as calls_of
from ragscore.analysis.check_reported import check_reported as check_reported_of
from ragscore.analysis.config_effects import config_effects as config_effects_of
from ragscore.analysis.conversations import Conversations
from ragscore.analysis.conversations import conversations as conversations_of
from ragscore.analysis.nuggets import Nuggets
from ragscore.analysis.nuggets import nuggets as nuggets_of
from ragscore.analysis.paraphrases import Paraphrases
from ragscore.analysis.paraphrases import paraphrases as paraphrases_of
from ragscore.analysis.retrievers import RetrieverReport
from ragscore.analysis.retrievers import retrievers as retrievers_of
from ragscore.frames.data import Results
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.readings import Reading, find_reading


def calls(ev: Any, k: int | None = None) -> CallReport:
    """Return what each search for a query adds, and which call found each target first.

    Parameters
    ----------
    k
        Hits of each call that count; by default all.

    Returns
    -------
    `CallReport`: frames `table`, `after`, `targets`, `per_query` and `outcomes`; its docstring
    has the columns. `plot()` draws recall against calls.

    Raises
    ------
    DataError
        No query has several calls.

    Examples
    --------
    >>> twice = rs.load_results({"q": [["a"], ["b", "c"]]})
    >>> rs.extras.calls(rs.evaluate(twice, {"q": {"c": 1}})).after[["call", "recall"]]
    """
    return ev._alike(calls_of(ev.results, ev.golden, ev._level, ev._rule, k))


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
        results with the same run ids, such as those of a stored comparison.
    profile
        The harness that reported them; by default that of the evaluation. Its names are
        understood (what it calls `recall_at_k` may be our hit@5), values of a whole run are
        recomputed and rounded as by `to_profile`, and it sets the policies.

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
    chosen = find_reading(profile) if profile else ev._profile
    policies = ev._policies if chosen else replace(ev._policies, match=ev._level)
    parts = [ev.results, *([] if ev._reported is None else [ev._reported])]
    results = parts[0] if len(parts) == 1 else Results.concat(parts)
    return check_reported_of(results, ev.golden, reported, profile=chosen, policies=policies)


def config_effects(
    ev: Any,
    metrics: list[str] | str | None = None,
    *,
    ignore: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the config keys that vary between runs, beside the means of metrics.

    Only two runs that differ in one key alone show its effect: compare them.

    Parameters
    ----------
    metrics
        Labels, or one; by default the primary metrics.
    ignore
        Config keys that are not looked at.

    Returns
    -------
    One row per run: each key's value, nested keys dotted (numbers where all are numbers; NA:
    null, or the run doesn't have the key), and each metric's mean.

    Raises
    ------
    DataError
        No run has a config; an unknown metric.

    Examples
    --------
    >>> rs.extras.config_effects(ev, "mrr@10")
    """
    ev._need_rows()
    scores, chosen = ev._scored(list(ev.primary) if metrics is None else metrics)
    return config_effects_of(scores, ev.results.runs, chosen, ignore=ignore, declared=ev._declared)


def conversations(ev: Any, metric: str | None = None, *, bad: float = 0.0) -> Conversations:
    """Return a metric by turn, first against later turns, and where conversations fail.

    Intervals, tests and gates of this evaluation take conversations as independent, not turns.

    Parameters
    ----------
    metric
        By default the first primary one.
    bad
        A turn with at most this value fails.

    Returns
    -------
    `Conversations`: frames `table`, `turns` and `per_conversation`; its docstring has the
    columns. `plot()` draws the metric by turn.

    Raises
    ------
    DataError
        No query names its conversation.

    Examples
    --------
    >>> talk = [{"id": "c_1", "query": "a?", "expected_doc_ids": ["a"], "conversation": "c"}]
    >>> rs.extras.conversations(rs.evaluate({"c_1": ["a"]}, talk)).table[["n", "mean"]]
    """
    scores, names = ev._scored(metric or ev.primary[0])
    assert names is not None
    return ev._alike(conversations_of(scores, ev.golden, names[0], bad, ev._declared))


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
    valued = [name for name in names if scores[name].notna().any()]
    means = replace(ev, scores=scores).summary(valued) if valued else None
    return nuggets_of(ev._rows, means)


def paraphrases(ev: Any, *, narrow: int | None = None, pool: int | None = None) -> Paraphrases:
    r"""Compare what each run finds for several wordings of one query (`golden.queries.group`).

    Parameters
    ----------
    narrow, pool
        Cut-offs: a document counts as found at rank ≤ narrow, and as retrieved but ranked too
        low at rank ≤ pool. By default 10 and 50, or half of the runs' smallest k and that k.

    Returns
    -------
    `Paraphrases`: frames `summary`, `kinds`, `groups` and `per_query`; its docstring has their
    columns.

    Raises
    ------
    DataError
        A run says that it retrieved fewer than `pool` hits a query; `narrow` is not below
        `pool`.

    Warns
    -----
    UserWarning
        A run has hits but none at rank `pool`: the pool may have been cut short. A run's
        document ids don't join those that are expected.

    Examples
    --------
    >>> rs.extras.paraphrases(ev).kinds
    """
    return paraphrases_of(ev.results, ev.golden, narrow=narrow, pool=pool)


def retrievers(
    ev: Any,
    k: int | None = None,
    hits: str = "any",
    *,
    substrings: str = "any",
) -> RetrieverReport:
    """Judge every query of every retriever by the query's predicate.

    Parameters
    ----------
    k
        Only hits up to this rank; by default all that a run has.
    hits
        "any": one hit that satisfies the predicate is enough. "all": besides, every hit within
        k must satisfy it.
    substrings
        As for `rs.match.by_predicate`.

    Returns
    -------
    `RetrieverReport`: frames `table`, `matrix` and `per_query`, and `to_markdown()`; its
    docstring has the columns.

    Raises
    ------
    DataError
        k below 1; an option that is neither "any" nor "all"; runs that only hold a summary; no
        query has a predicate.

    Examples
    --------
    >>> from dataclasses import replace
    >>> hits = ev.results.hits.assign(source_key=ev.results.hits["doc_id"])
    >>> targets = ev.golden.targets.query("level == 'doc'").assign(level="source_key")
    >>> targets = targets.assign(source_key=targets["doc_id"])
    >>> keyed = rs.Golden(ev.golden.queries, targets)
    >>> rs.extras.retrievers(rs.evaluate(replace(ev.results, hits=hits), keyed), k=5).table
    """
    return retrievers_of(
        ev.results, ev.golden, k, hits, substrings=substrings,
    )  # fmt: skip

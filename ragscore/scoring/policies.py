"""Policies: what a scoring does with failures, missing rows and queries without a relevant target.

In: policies by name as given, a profile's own, and the columns of a scoring. Out: each policy as it
holds; score columns with the policies applied.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, is_among
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import check_choice, excerpt, nearest, warn
from ragscore.frames.ranking import TIES, collapsed, rank_hits, ranked_again
from ragscore.frames.schema import MADE_ID
from ragscore.frames.typing import Values
from ragscore.scoring.calls import CALLS
from ragscore.scoring.id_changes import find_join
from ragscore.scoring.metrics import Label
from ragscore.scoring.profiles import Profile
from ragscore.scoring.rules import LEVELS
from ragscore.scoring.success import OF_SUCCESS

STATED, PHRASES = "stated", "phrases"  # what tells a refusal, unless phrases are given
STATES = ("scored", "failed", "missing", "extra")

# Each policy of a few values with these, its default first. A rule for ties is declared in
# `frames/ranking.py`, a level in `scoring/rules.py`.
POLICIES = {
    "match": ("auto", *LEVELS, "per_query"),
    "missing": ("exclude", "zero"),
    "collapse": ("none", "doc"), "unknown": ("exclude", "miss"), "ties": tuple(TIES),
    "calls": CALLS,
}  # fmt: skip


class PolicyFields(TypedDict, total=False):
    """Fields of `Policies` as keywords, for editors and type checkers."""

    match: str
    missing: str
    collapse: str
    unknown: str
    ties: str
    calls: str
    refusals: str | Sequence[str]


@dataclass(frozen=True)
class Policies:
    """Choices of a scoring: what it matches by, and what it does with gaps.

    The fields are also keywords of `rs.score`, `rs.evaluate` and the methods of a `RunStore`.

    Attributes
    ----------
    match
        The match level. "auto": the finest at which every query with targets has some, and both
        sides can be joined; "chunk", "span", "anchor", "doc", "predicate"; "per_query": each
        query's finest.
    missing
        Golden queries that a run has no row for. "exclude": NaN, with a warning; "zero": they score
        0 (trec_eval's -c).
    collapse
        "doc": ranking metrics see only the first hit of each document, with ranks closed up. This
        scores lists of passages by document.
    unknown
        Hits that the anchor or predicate rule can't decide, because only a cut text is stored.
        "exclude": a ranking metric is NaN where taking them all as hits gives another value than
        taking none; "miss": they are misses.
    ties
        The order of a query's hits. "file": as loaded; "trec", "trec64": by score, as trec_eval
        ranks (see `rs.match.rank_hits`).
    calls
        How several searches for one query are read (`hits.call`). "union": all that they found, k
        of each for a metric at k; what goes by an order (mrr, map, ndcg, judged, ...) is NaN there.
        "first", "last": one call alone. "each": the mean of the calls. "best": each metric's best
        call, which nobody knew before. A metric of your own over hits gets the one call, or each
        call as a list of its own; for "union" it is NaN, and for "best" without `better`.
    refusals
        What tells that a system refused. "stated": only what a run states; whether an answer is a
        refusal in words is unknown (NaN). "phrases": of answers that state nothing, those are
        refusals that hold a phrase of refusing (16 languages) in their first 200 characters. Or a
        list of phrases, in which "phrases" stands for these. A judge's verdicts are filled in by
        `Results.with_judged_refusals`.

    Raises
    ------
    DataError
        A value that the policy can't have.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    match: str = "auto"
    missing: str = "exclude"
    collapse: str = "none"
    unknown: str = "exclude"
    ties: str = "file"
    calls: str = "union"
    refusals: str | Sequence[str] = STATED

    def __post_init__(self) -> None:
        for name, allowed in POLICIES.items():
            check_choice(getattr(self, name), allowed, name)
        object.__setattr__(self, "refusals", _phrases(self.refusals))


def _phrases(refusals: str | Sequence[str]) -> str | tuple[str, ...]:
    """Return what tells a refusal: a name, or phrases."""
    if isinstance(refusals, str) and refusals in (STATED, PHRASES):
        return refusals
    is_list = isinstance(refusals, Iterable) and not isinstance(refusals, str)
    given = tuple(refusals) if is_list else ()
    if not given or not all(isinstance(one, str) and one.strip() for one in given):
        found = excerpt(list(given) if is_list else refusals)
        raise DataError(
            f"found {found}",
            field="refusals",
            allowed=f"{STATED!r}, {PHRASES!r}, or a list of phrases, texts that aren't blank",
        )
    return given


# policies that go without saying where they are as before
LATER = {"refusals": STATED, "calls": "union"}


def as_recorded(policies: Policies) -> dict[str, Any]:
    """Return the policies as settings, provenance and stores keep them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(policies).items()
        if name not in LATER or value != LATER[name]
    }


def policies_of(policies: Policies | None, given: Mapping[str, Any]) -> Policies:
    """Return the policies with single fields set over them.

    Raises
    ------
    DataError
        An unknown policy, or a value that it can't have; `policies` of another type.
    """
    known = [field.name for field in fields(Policies)]
    if unknown := sorted(given.keys() - set(known)):
        raise DataError(
            f"found {unknown[0]!r}", field="policies", allowed=nearest(unknown[0], known)
        )
    check_type(policies, (Policies, type(None)), "policies", "rs.Policies(...), or its fields")
    return replace(policies or Policies(), **given)


def resolve_policies(profile: Profile | None, given: Policies) -> Policies:
    """Return every policy as it holds: as given, else as the profile has it, else its default."""
    if profile is None:
        return given
    default = Policies()
    own = {
        name: value
        for name, value in profile.policies.items()
        if getattr(given, name) == getattr(default, name)
    }
    return replace(given, **own)


def with_hits_kept(results: Results, policies: Policies) -> Results:
    """Return the results with the hits that the policies leave of each list."""
    return collapsed(in_order(results, policies)) if policies.collapse == "doc" else results


def in_order(results: Results, policies: Policies) -> Results:
    """Return the results with each list in the order that the policies say."""
    if policies.ties == "file":
        return results
    return ranked_again(results, rank_hits(results.hits, policies.ties))


def read_refusals(golden: Golden, profile: Profile | None) -> Golden:
    """Return the golden set with "should refuse" read as the profile reads it."""
    if profile is None or profile.should_refuse == "labels":
        return golden
    with_docs = golden.targets.loc[golden.targets["level"] == "doc", "query_id"]
    answerable = pd.array(is_among(golden.queries["query_id"], with_docs), dtype="boolean")
    return replace(golden, queries=golden.queries.assign(answerable=answerable))


def fill_empty_gold(
    columns: dict[str, Values],
    labels: list[Label],
    rows: pd.DataFrame,
    golden: Golden,
    profile: Profile,
) -> None:
    """Give queries without any relevant target their vacuous value, in place.

    A query that the run never answered gets 0, and so do metrics that the profile says so of.
    """
    relevant = golden.targets.loc[golden.targets["grade"] > 0, "query_id"]
    is_empty = ~is_among(golden.queries["query_id"], relevant)
    if not profile.score_refusals:
        is_empty &= ~is_among(golden.queries["query_id"], golden.refusals)
    here = is_among(rows["query_id"], golden.queries.loc[is_empty, "query_id"])
    value = np.where((rows["state"] == "missing").to_numpy(), 0.0, profile.empty_gold)
    for label in labels:
        if label.is_ranking and (vacuous := label.metric.vacuous) is not None:
            filled = value if vacuous and label.name not in profile.zero_if_empty else 0.0
            columns[label.text] = np.where(here, filled, columns[label.text])


def with_policies(
    rows: pd.DataFrame,
    columns: dict[str, Values],
    labels: list[Label],
    missing: str,
) -> pd.DataFrame:
    """Apply what missing and extra rows mean, and return the scores frame."""
    state = codes_of(rows["state"])
    absent, extra = state == 2, state == 3
    table = np.array(list(columns.values())).reshape(len(columns), len(rows))  # a copy
    for label, column in zip(labels, table, strict=True):
        if missing == "exclude" or not (label.is_ranking or label.name in OF_SUCCESS):
            column[absent] = np.nan
        if extra.any() and label.metric.family != "operations":
            column[extra] = np.nan
        if missing == "zero" and label.text == "failed":
            column[absent] = 1.0
    index = pd.Index(rows["query_id"], name="query_id")
    frame = pd.DataFrame(table.T, columns=list(columns), index=index, copy=False)
    for at, name in enumerate(("run_id", "state", "level")):
        frame.insert(at, name, rows[name].array)
    return frame


def warn_of_missing(scores: pd.DataFrame) -> None:
    """Warn of golden queries that a run has no row for, with their number by run.

    Where no row of a run has a golden query, say what its ids are beside the golden set's.
    """
    absent = codes_of(scores["state"]) == STATES.index("missing")
    if absent.any():
        state = scores["state"].astype("str")
        answered = scores.loc[state.isin(["scored", "failed"]).to_numpy(), "run_id"]
        rows = scores.loc[(state == "extra").to_numpy(), "run_id"]
        rows = rows[~rows.isin(answered).to_numpy()].astype("str")
        for run_id, of_run in rows.groupby(rows.to_numpy()):
            warn(_unjoined(str(run_id), of_run.index.unique(), scores.index[absent].unique()))
        runs = scores.loc[absent, "run_id"].astype("str").value_counts(sort=False)
        listed = ", ".join(f"{run_id}: {n}" for run_id, n in runs.items())
        warn(
            f"golden queries without a row are left out of the means ({listed}), as never asked:"
            " runs that list hits alone, such as TREC's, don't tell these from queries without any"
            " hit; missing='zero' counts them as failures"
        )


def _unjoined(run_id: str, ids: pd.Index, golden: pd.Index) -> str:
    """Say that no query id of a run is one of the golden set's, and what would join them."""
    sides = (", ".join(map(repr, side[:3])) for side in (ids, golden))
    text = "query ids of {} do not join: it has {}; the golden set has {}".format(run_id, *sides)
    join = find_join(ids, golden)
    if join is not None:
        expected, own = join.pairs[0]
        words = f"{join.reading.words} ({own!r} and {expected!r})"
        return f"{text}. {join.n_joined} of {len(golden)} would join {words}"
    if ids.str.fullmatch(MADE_ID).all():
        text += (
            ". The run's ids were made from the texts of its queries: name the column that holds"
            ' ids, columns={"query_id": ...}, or give the golden set the same texts as `query`'
        )
    return text

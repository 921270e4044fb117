"""What a scoring may be asked to do with failures, missing rows and queries without a relevant document: policies, by name, and their effect.

In: names and values as given, a profile's own. Out: each policy as it holds, and score columns with
it applied.

`passed`: one 0/1 value across kinds of queries, what it means for a query is its kind.

In: ranking and refusal columns of a scoring. Out: the column `passed`.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import codes_of, has_pair, is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import warn
from ragscore.scoring.matching import LEVELS, RANKLESS, at_level
from ragscore.scoring.metrics import Label, parse_label
from ragscore.scoring.profiles import Profile

STATES = ("scored", "failed", "missing", "extra")

# Each policy with what it may be, its default first.
POLICIES = {
    "match": ("auto", *LEVELS, "per_query"), "errors": ("miss", "exclude"),
    "missing": ("exclude", "zero"), "empty_gold": ("nan", "one", "zero"),
    "collapse": ("none", "doc"), "unknown": ("exclude", "miss"),
}  # fmt: skip
EMPTY_VALUE = {"one": 1.0, "zero": 0.0}  # what a ranking metric is where nothing is relevant
NEVER_VACUOUS = ("judged", "recall_all")  # they ask for something else than relevant documents
# What a row without a golden query still counts in.
EXTRA_METRICS = (
    "empty",
    "empty_all",
    "empty_response",
    "timeout",
    "failed",
    "latency_ms",
    "latency_ms_all",
    "cost_usd",
)


def resolve_policies(profile: Profile | None, given: dict[str, str]) -> dict[str, str]:
    """Every policy as it holds: as given, else as the profile has it, else its default.

    Raises
    ------
    DataError
        What is no policy, or no value of one.
    """
    if unknown := sorted(given.keys() - POLICIES.keys()):
        raise DataError(
            f"found {unknown[0]!r}", field="policies", allowed=f"one of {', '.join(POLICIES)}"
        )
    return {
        name: _policy(profile, name, given.get(name, allowed[0]))
        for name, allowed in POLICIES.items()
    }


def _policy(profile: Profile | None, name: str, value: str) -> str:
    """A policy as asked for; where that is the default, as the profile has it."""
    if profile is not None and value == POLICIES[name][0]:
        value = profile.policies.get(name, value)
    _check(name, value, POLICIES[name])
    return value


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise DataError(f"found {value!r}", field=name, allowed=f"one of {', '.join(allowed)}")


def read_refusals(golden: Golden, profile: Profile | None) -> Golden:
    """The golden set with "should refuse" read as the profile reads it."""
    if profile is None or profile.should_refuse == "labels":
        return golden
    with_docs = golden.targets.loc[golden.targets["level"] == "doc", "query_id"]
    return replace(
        golden,
        queries=golden.queries.assign(
            answerable=pd.array(is_among(golden.queries["query_id"], with_docs), dtype="boolean")
        ),
    )


def fill_empty_gold(
    columns: dict[str, npt.NDArray[np.float64]],
    labels: list[Label],
    empty_value: float,
    rows: pd.DataFrame,
    golden: Golden,
    keep_refusals: bool,
) -> None:
    """Give queries without any relevant target their empty value.

    A query that the run never answered gets 0.
    """
    relevant = golden.targets.loc[golden.targets["grade"] > 0, "query_id"]
    is_empty = ~is_among(golden.queries["query_id"], relevant)
    if not keep_refusals:
        is_empty &= ~is_among(golden.queries["query_id"], golden.refusals)
    here = is_among(rows["query_id"], golden.queries.loc[is_empty, "query_id"])
    value = np.where((rows["state"] == "missing").to_numpy(), 0.0, empty_value)
    for label in labels:
        if label.is_ranking and label.name not in NEVER_VACUOUS:
            columns[label.text] = np.where(
                here, 0.0 if label.name == "precision" else value, columns[label.text]
            )


def with_policies(
    rows: pd.DataFrame, columns: dict[str, npt.NDArray[np.float64]], errors: str, missing: str
) -> pd.DataFrame:
    """Apply what failed, missing and extra rows mean, and name the index."""
    state = codes_of(rows["state"])
    failed, absent, extra = state == 1, state == 2, state == 3
    table = np.array(list(columns.values())).reshape(len(columns), len(rows))  # a copy
    for label, column in zip(map(parse_label, columns), table, strict=True):
        if errors == "exclude" and label.name not in (
            "failed",
            "timeout",
            "empty_all",
            "latency_ms_all",
        ):
            column[failed] = np.nan
        if missing == "exclude" or not (label.is_ranking or label.name == "passed"):
            column[absent] = np.nan
        if extra.any() and label.name not in EXTRA_METRICS:
            column[extra] = np.nan
        if missing == "zero" and label.text == "failed":
            column[absent] = 1.0
    frame = pd.DataFrame(
        table.T,
        columns=list(columns),
        index=pd.Index(rows["query_id"], name="query_id"),
        copy=False,
    )
    for at, name in enumerate(("run_id", "state", "level")):
        frame.insert(at, name, rows[name].array)
    return frame


def warn_of_missing(scores: pd.DataFrame) -> None:
    """Warn of golden queries that a run has no row for; how many, by run."""
    absent = codes_of(scores["state"]) == STATES.index("missing")
    if absent.any():
        runs = scores.loc[absent, "run_id"].astype("str").value_counts(sort=False)
        listed = ", ".join(f"{run_id}: {n}" for run_id, n in runs.items())
        warn(
            f"golden queries without a row are left out of the means ({listed}); missing='zero'"
            " counts them as failures"
        )


NO_LIMIT = 2**31 - 1  # no list is longer: ranks have 32 bits


def hit_at_run_k(results: Results) -> pd.Series:
    """Per run (index run_id) the metric that says whether a hit within the run's own k is right.

    A run without a k has no limit.
    """
    ks = results.runs["k"].tolist() if "k" in results.runs else [pd.NA] * len(results.runs)
    labels = [f"hit@{NO_LIMIT if pd.isna(k) else int(k)}" for k in ks]
    return pd.Series(labels, index=results.runs["run_id"].cat.categories, dtype="str")


def success_values(
    results: Results,
    golden: Golden,
    rows: pd.DataFrame,
    ranking: dict[str, npt.NDArray[np.float64]],
    refusal_correct: npt.NDArray[np.float64],
    keep_refusals: bool,
) -> npt.NDArray[np.float64]:
    """One 0/1 value across kinds of queries; what it means for a query is its kind."""
    run = codes_of(rows["run_id"])
    wanted = hit_at_run_k(results).reindex(rows["run_id"].cat.categories.astype("str")).tolist()
    met = np.full(len(rows), np.nan)
    for label in dict.fromkeys(wanted):
        met = np.where(np.array([one == label for one in wanted])[run], ranking[label], met)
    checks = golden.checks
    none = np.zeros(len(rows), dtype=bool)
    expects_none, forbids = (
        (
            is_among(rows["query_id"], checks["query_id"][is_among(checks["kind"], [kind])])
            if len(checks)
            else none
        )
        for kind in RANKLESS
    )
    kinds = [expects_none, forbids, ~np.isnan(refusal_correct)]
    passed = np.select(
        kinds,
        [
            rows["n_hits"].to_numpy() == 0,
            ~_has_forbidden_source(results, golden, rows),
            refusal_correct,
        ],
        met,
    )
    lost = rows["failed"].to_numpy() | (
        codes_of(rows["state"]) == rows["state"].cat.categories.get_loc("missing")
    )
    # What failed has not passed, also where its hits can't be judged.
    return (
        np.where(
            lost & (~np.isnan(passed) | _has_targets(golden, rows, keep_refusals)), 0.0, passed
        )
        if lost.any()
        else passed
    )


def _has_targets(golden: Golden, rows: pd.DataFrame, keep_refusals: bool) -> npt.NDArray[np.bool_]:
    """Whether each row's query has a relevant target at the level that it is judged at."""
    found, level = np.zeros(len(rows), dtype=bool), codes_of(rows["level"])
    for code in np.unique(level[level >= 0]).tolist():
        targets = at_level(golden, rows["level"].cat.categories[code], keep_refusals).targets
        found |= (level == code) & is_among(
            rows["query_id"], targets["query_id"][targets["grade"].to_numpy() > 0]
        )
    return found


def _has_forbidden_source(
    results: Results, golden: Golden, rows: pd.DataFrame
) -> npt.NDArray[np.bool_]:
    """Whether the source key of a hit within its run's k holds a forbidden token (case-insensitive substring)."""
    if "source_key" not in results.hits or not len(golden.checks):
        return np.zeros(len(rows), dtype=bool)
    tokens = golden.checks.loc[
        golden.checks["kind"] == "forbidden_source_key", ["query_id", "text"]
    ]
    if not len(tokens):
        return np.zeros(len(rows), dtype=bool)
    run_k = pd.Series(
        results.runs["k"].to_numpy("float64", na_value=np.inf) if "k" in results.runs else np.inf,
        index=results.runs["run_id"].astype("str"),
    )
    hits = results.hits.loc[
        is_among(results.hits["query_id"], tokens["query_id"]),
        ["run_id", "query_id", "rank", "source_key"],
    ].dropna()
    pairs = hits[
        hits["rank"].to_numpy() <= run_k.reindex(hits["run_id"].astype("str")).to_numpy()
    ].merge(tokens, on="query_id")
    # Substring search has no column form in pandas where both sides vary by row.
    holds = [
        token.lower() in key.lower()
        for key, token in zip(pairs["source_key"], pairs["text"], strict=True)
    ]
    return has_pair(rows, pairs.loc[holds], ("run_id", "query_id"))

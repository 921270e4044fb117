"""What a scoring may be asked to do with failures, missing rows and queries without a relevant document: policies, by name, and their effect.

In: names and values as given, a profile's own. Out: each policy as it holds, and score columns with
it applied.
"""

import warnings
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import codes_of, is_among
from ragscore.frames.data import DataError, Golden
from ragscore.scoring.matching import LEVELS
from ragscore.scoring.metrics import Label, parse_label
from ragscore.scoring.profiles import Profile

STATES = ("scored", "failed", "missing", "extra")

# Each policy with what it may be, its default first.
POLICIES = {
    "match": ("auto", *LEVELS, "per_query"), "errors": ("miss", "exclude"),
    "missing": ("exclude", "zero"), "empty_gold": ("nan", "one", "zero"),
    "collapse": ("none", "doc"), "unknown": ("exclude", "miss"),
}  # fmt: skip
VACUOUS = {"one": 1.0, "zero": 0.0}  # what a ranking metric is where nothing is relevant
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
    vacuous: float,
    rows: pd.DataFrame,
    golden: Golden,
    keep_refusals: bool,
) -> None:
    """Give queries without any relevant target their vacuous value.

    A query that the run never answered gets 0.
    """
    relevant = golden.targets.loc[golden.targets["grade"] > 0, "query_id"]
    is_empty = ~is_among(golden.queries["query_id"], relevant)
    if not keep_refusals:
        is_empty &= ~is_among(golden.queries["query_id"], golden.refusals)
    here = is_among(rows["query_id"], golden.queries.loc[is_empty, "query_id"])
    value = np.where((rows["state"] == "missing").to_numpy(), 0.0, vacuous)
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
        warnings.warn(
            f"golden queries without a row are left out of the means ({listed}); missing='zero'"
            " counts them as failures",
            UserWarning,
            stacklevel=3,
        )

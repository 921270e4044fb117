"""What changed with what: the keys that vary, beside the means."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.scoring.metrics import TABLE
from tests.messages import refused

N = 20
MEANS = {"r1": 5, "r2": 15, "r3": 15, "r4": 5}  # queries passed


def config_effects(scores, runs, **options):
    """Ask an evaluation of these scores and runs."""
    ev = SimpleNamespace(
        results=SimpleNamespace(runs=runs), primary=("hit@5",), _declared=TABLE,
        _scored=lambda metrics: (scores, metrics),
    )  # fmt: skip
    return rs.extras.config_effects(ev, **options)


def scores_of(means=MEANS):
    index = pd.Index([f"q{n:02}" for n in range(N)], name="query_id")
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "run_id": run_id,
                    "state": "scored",
                    "level": "doc",
                    "hit@5": np.arange(N) < passed,
                },
                index=index,
            ).astype({"hit@5": float})
            for run_id, passed in means.items()
        ]
    )


def runs_of(*configs, **more):
    return pd.DataFrame(
        {
            "run_id": [f"r{n}" for n in range(1, len(configs) + 1)],
            "config": [None if one is None else json.dumps(one) for one in configs],
        }
        | more
    )


CONFIGS = (
    {"k": 5, "fusion": {"w": 0.1}, "model": "m"},
    {"k": 10, "fusion": {"w": 0.1}, "model": "m"},
    {"k": 10, "fusion": {"w": 0.5}, "model": "m"},
    {"k": 5, "fusion": {"w": 0.9}, "model": "m", "rerank": True},
)


def test_the_table_has_the_keys_that_vary_beside_the_means():
    found = config_effects(scores_of(), runs_of(*CONFIGS))
    assert found.columns.tolist() == ["run_id", "k", "fusion.w", "rerank", "hit@5"]
    assert found["k"].tolist() == [5, 10, 10, 5]
    assert found["fusion.w"].tolist() == [0.1, 0.1, 0.5, 0.9]
    assert found["rerank"].isna().tolist() == [True, True, True, False]
    assert found["hit@5"].tolist() == [0.25, 0.75, 0.75, 0.25]


@pytest.mark.parametrize(
    ("configs", "of_runs", "ignore", "expected"),
    [
        ([{"k": 5}, {"k": "5"}], {}, [], ["k"]), ([{"k": 5}, {"k": 5}], {}, [], []),
        ([{"k": 5, "seed": 1}, {"k": 9, "seed": 2}], {}, ["seed"], ["k"]),
        ([{"m": 1}, {"m": 1}], {"k": [5, 10]}, [], ["k"]),
        ([{"m": 1}, {"m": 2}], {"k": [5, 5]}, [], ["m"]),
        ([{"m": 1}, {"m": 3}], {"golden_hash": ["old", "new"]}, [], ["m", "golden_hash"]),
        ([{"m": 1}, {"m": 3}], {"golden_hash": ["old", "new"]}, ["golden_hash"], ["m"]),
        ([{"k": 5}, {"k": 5}, None], {}, [], []), ([{"k": 5}, {"k": 9}, None], {}, [], ["k"]),
    ],
)  # fmt: skip
def test_keys_are_those_that_vary_and_are_not_ignored(configs, of_runs, ignore, expected):
    scores = scores_of(dict.fromkeys(["r1", "r2", "r3"][: len(configs)], 5))
    found = config_effects(scores, runs_of(*configs, **of_runs), ignore=ignore)
    assert found.columns.drop(["run_id", "hit@5"]).tolist() == expected
    stated = [one is not None for one in configs]
    assert all(found[key].notna().tolist() == stated for key in expected)


def test_a_key_to_ignore_must_be_there():
    with refused("x", "k", field="ignore"):
        config_effects(scores_of(), runs_of(*CONFIGS), ignore=["x"])


def test_runs_must_be_described():
    with refused("config", field="runs"):
        config_effects(scores_of(), pd.DataFrame({"run_id": list(MEANS)}))

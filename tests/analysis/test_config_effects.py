"""What changed with what: the keys that vary, beside the means."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd

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


def keys(*args, **options):
    return config_effects(*args, **options).columns.drop(["run_id", "hit@5"]).tolist()


def test_the_table_has_the_keys_that_vary_beside_the_means():
    found = config_effects(scores_of(), runs_of(*CONFIGS))
    assert found.columns.tolist() == ["run_id", "k", "fusion.w", "rerank", "hit@5"]
    assert found["k"].tolist() == [5, 10, 10, 5]
    assert found["fusion.w"].tolist() == [0.1, 0.1, 0.5, 0.9]
    assert found["rerank"].isna().tolist() == [True, True, True, False]
    assert found["hit@5"].tolist() == [0.25, 0.75, 0.75, 0.25]


def test_a_number_and_its_text_are_two_values():
    found = config_effects(scores_of({"r1": 5, "r2": 5}), runs_of({"k": 5}, {"k": "5"}))
    assert found["k"].tolist() == [5, "5"]


def test_ignored_keys_are_not_listed():
    scores = scores_of({"r1": 5, "r2": 15})
    runs = runs_of({"k": 5, "seed": 1}, {"k": 10, "seed": 2})
    assert keys(scores, runs, ignore=["seed"]) == ["k"]
    with refused("x", "k", "seed", field="ignore"):
        config_effects(scores, runs, ignore=["x"])


def test_runs_without_a_config_have_no_values():
    scores = scores_of({"r1": 5, "r2": 15, "r3": 5})
    found = config_effects(scores, runs_of({"k": 5}, {"k": 10}, None))
    assert found["k"].isna().tolist() == [False, False, True]
    assert keys(scores, runs_of({"k": 5}, {"k": 5}, None)) == []


def test_columns_of_the_runs_that_vary_are_keys():
    scores = scores_of({"r1": 5, "r2": 15})
    assert keys(scores, runs_of({"m": 1}, {"m": 1}, k=[5, 10])) == ["k"]
    assert keys(scores, runs_of({"m": 1}, {"m": 2}, k=[5, 5])) == ["m"]


def test_other_labels_stand_beside_the_keys():
    scores = scores_of({"r1": 5, "r2": 15})
    runs = runs_of({"depth": 10}, {"depth": 30}, golden_hash=["old", "new"])
    assert keys(scores, runs) == ["depth", "golden_hash"]
    assert keys(scores, runs, ignore=["golden_hash"]) == ["depth"]


def test_runs_that_are_configured_alike_have_no_keys():
    assert keys(scores_of({"r1": 5, "r2": 15}), runs_of({"k": 5}, {"k": 5})) == []


def test_runs_must_be_described():
    with refused("config", field="runs"):
        config_effects(scores_of(), pd.DataFrame({"run_id": list(MEANS)}))

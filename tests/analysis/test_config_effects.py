"""What changed with what: the keys that vary, beside the means."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
from conftest import scores_of

import ragscore as rs
from ragscore.scoring.metrics import TABLE
from tests.messages import refused

RUNS = ("r1", "r2", "r3", "r4")
SCORES = scores_of(r1=[1, 0, 0, 0], r2=[1, 1, 1, 0], r3=[1, 1, 1, 0], r4=[1, 0, 0, 0])
CONFIGS = [
    {"k": 5, "fusion": {"w": 0.1}, "model": "m"},
    {"k": 10, "fusion": {"w": 0.1}, "model": "m"},
    {"k": 10, "fusion": {"w": 0.5}, "model": "m"},
    {"k": 5, "fusion": {"w": 0.9}, "model": "m", "rerank": True},
]


def config_effects(configs, of_runs=(), without=(), **options):
    """Ask an evaluation of runs with these configs, None for none."""
    texts = [None if one is None else json.dumps(one) for one in configs]
    runs = pd.DataFrame({"run_id": RUNS[: len(configs)], "config": texts} | dict(of_runs))
    runs, scores = runs.drop(columns=[*without]), SCORES[SCORES["run_id"].isin(runs["run_id"])]
    ev = SimpleNamespace(
        results=SimpleNamespace(runs=runs), primary=("hit@5",), _declared=TABLE,
        _scored=lambda metrics: (scores, metrics),
    )  # fmt: skip
    return rs.extras.config_effects(ev, **options)


def test_the_table_has_the_keys_that_vary_beside_the_means():
    found = config_effects(CONFIGS)
    assert found.columns.tolist() == ["run_id", "k", "fusion.w", "rerank", "hit@5"]
    assert found.fillna({"rerank": False}).to_numpy().tolist() == [
        ["r1", 5, 0.1, False, 0.25], ["r2", 10, 0.1, False, 0.75], ["r3", 10, 0.5, False, 0.75],
        ["r4", 5, 0.9, True, 0.25],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("configs", "of_runs", "expected"),
    [
        ([{"k": 5}, {"k": "5"}], {}, ["k"]), ([{"k": 5}, {"k": 5}], {}, []),
        ([{"k": 5, "seed": 1}, {"k": 9, "seed": 2}], {}, ["k", "seed"]),
        ([{"m": 1}, {"m": 1}], {"k": [5, 10]}, ["k"]),
        ([{"m": 1}, {"m": 2}], {"k": [5, 5]}, ["m"]),
        ([{"m": 1}, {"m": 3}], {"golden_hash": ["old", "new"]}, ["m", "golden_hash"]),
        ([{"k": 5}, {"k": 5}, None], {}, []), ([{"k": 5}, {"k": 9}, None], {}, ["k"]),
    ],
)  # fmt: skip
def test_keys_are_those_that_vary(configs, of_runs, expected):
    found = config_effects(configs, of_runs)
    assert found.columns.drop(["run_id", "hit@5"]).tolist() == expected
    stated = [one is not None for one in configs]
    assert all(found[key].notna().tolist() == stated for key in expected)


def test_runs_must_be_described():
    with refused("config", field="runs"):
        config_effects(CONFIGS, without=["config"])

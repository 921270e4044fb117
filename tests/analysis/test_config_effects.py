"""What changed with what.

Keys that vary, runs that differ in one key only, keys that can't be told apart.
"""

import json

import numpy as np
import pandas as pd
import pytest

from ragscore.analysis.config_effects import config_effects
from ragscore.stats import benjamini_hochberg
from tests.messages import refused, says

N = 20
MEANS = {"r1": 5, "r2": 15, "r3": 15, "r4": 5}  # queries passed


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
    assert found.keys == ["k", "fusion.w", "rerank"]
    assert found.table.columns.tolist() == ["run_id", *found.keys, "hit@5"]
    assert found.table["k"].tolist() == [5, 10, 10, 5]
    assert found.table["fusion.w"].tolist() == [0.1, 0.1, 0.5, 0.9]
    assert found.table["rerank"].isna().tolist() == [True, True, True, False]
    assert found.table["hit@5"].tolist() == [0.25, 0.75, 0.75, 0.25]


def test_only_runs_that_differ_in_one_key_are_a_pair():
    pairs = config_effects(scores_of(), runs_of(*CONFIGS)).pairs
    told = ["key", "value_baseline", "value_candidate", "run_baseline", "run_candidate"]
    assert pairs[told].values.tolist() == [
        ["k", "5", "10", "r1", "r2"],
        ["fusion.w", "0.1", "0.5", "r2", "r3"],
    ]
    # ten queries rose and none fell: McNemar's mid-p is P(X = 0) = .5^10; no query moved in the
    # other pair
    assert pairs["delta"].tolist() == [0.5, 0]
    assert pairs["p"].tolist() == pytest.approx([0.5**10, 1])
    assert pairs["verdict"].tolist() == ["better", "can't tell"]
    np.testing.assert_array_equal(pairs["q"], benjamini_hochberg(pairs["p"]))


def test_each_key_says_what_changed_with_it():
    found = config_effects(scores_of(), runs_of(*CONFIGS))
    assert list(found.sentences) == ["k", "fusion.w", "rerank"]
    says(found.sentences["k"], "k", "5 → 10", "r1", "r2", "hit@5", "+0.500", "better")
    assert "hit@5" not in says(found.sentences["fusion.w"], "fusion.w", "0.1 → 0.5", "r2", "r3")
    assert found.tied_keys == {"rerank": ["fusion.w"]}


def test_means_by_value_are_means_of_the_runs_that_have_it():
    rows = (
        config_effects(scores_of(), runs_of(*CONFIGS))
        .by_value.query("key == 'k'")
        .set_index("value")
    )
    assert rows[["n_runs", "mean", "min", "max"]].to_dict("index") == {
        "5": {"n_runs": 2, "mean": 0.25, "min": 0.25, "max": 0.25},
        "10": {"n_runs": 2, "mean": 0.75, "min": 0.75, "max": 0.75},
    }  # fmt: skip


def test_a_number_and_its_text_are_two_values():
    found = config_effects(scores_of({"r1": 5, "r2": 5}), runs_of({"k": 5}, {"k": "5"}))
    assert found.keys == ["k"] and found.table["k"].tolist() == ["5", "5"] and len(found.pairs) == 1


def test_ignored_keys_leave_more_pairs():
    scores = scores_of({"r1": 5, "r2": 15})
    runs = runs_of({"k": 5, "seed": 1}, {"k": 10, "seed": 2})
    assert config_effects(scores, runs).pairs.empty
    assert len(config_effects(scores, runs, ignore=["seed"]).pairs) == 1
    with refused("x", "k", "seed", field="ignore"):
        config_effects(scores, runs, ignore=["x"])


def test_runs_without_a_config_are_named_and_in_no_pair():
    scores = scores_of({"r1": 5, "r2": 15, "r3": 5})
    found = config_effects(scores, runs_of({"k": 5}, {"k": 10}, None))
    assert found.unknown == ["r3"] and len(found.pairs) == 1
    assert set(found.by_value["value"]) == {"5", "10"}


def test_columns_of_the_runs_count_where_equal_configs_leave_them_open():
    scores = scores_of({"r1": 5, "r2": 15})
    assert config_effects(scores, runs_of({"m": 1}, {"m": 1}, k=[5, 10])).keys == ["k"]
    # the config's own key says it already: eval_k and k would never differ alone
    assert config_effects(scores, runs_of({"eval_k": 5}, {"eval_k": 10}, k=[5, 10])).keys == [
        "eval_k"
    ]


def test_other_labels_are_no_effect_of_a_key():
    scores = scores_of({"r1": 5, "r2": 15})
    runs = runs_of({"depth": 10}, {"depth": 30}, golden_hash=["old", "new"])
    found = config_effects(scores, runs)
    assert found.pairs.empty
    assert found.tied_keys == {"depth": ["golden_hash"], "golden_hash": ["depth"]}
    ignoring = config_effects(scores, runs, ignore=["golden_hash"])
    assert ignoring.pairs["verdict"].tolist() == ["better"]


def test_runs_that_are_configured_alike_have_no_keys():
    found = config_effects(scores_of({"r1": 5, "r2": 15}), runs_of({"k": 5}, {"k": 5}))
    assert found.keys == [] and found.pairs.empty
    assert found.table.columns.tolist() == ["run_id", "hit@5"]


def test_runs_must_be_described():
    with refused("r4", field="runs"):
        config_effects(scores_of(), runs_of(*CONFIGS[:3]))
    with refused("config", field="runs"):
        config_effects(scores_of(), pd.DataFrame({"run_id": list(MEANS)}))

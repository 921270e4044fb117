"""Queries that went from good to bad, or from bad to good."""

import numpy as np
import pandas as pd
import pytest

from ragscore.analysis.comparison.changes import flips, limits_of
from ragscore.scoring.metrics import (
    CRITERIA,
    TABLE,
)
from ragscore.scoring.metrics.judged import PARTS
from ragscore.scoring.own import with_own


def _own(name, better, bounds):
    return TABLE.with_metrics([with_own(name, better, bounds)])


def scores_of(metric, before, after):
    """Scores of two runs, one query per value."""
    ids = pd.Index([f"q{n}" for n in range(len(before))], name="query_id")
    return pd.concat(
        [
            pd.DataFrame(
                {"run_id": run, "state": "scored", "level": "doc", metric: values}, index=ids
            )
            for run, values in (("a", before), ("b", after))
        ]
    )


def kinds(metric, before, after, declared=TABLE):
    found = flips(scores_of(metric, before, after), "a", "b", declared)
    return dict(zip(found["query_id"], found["kind"], strict=True))


def test_a_binary_metric_flips_between_0_and_1():
    assert kinds("passed", [1.0, 0, 1, 0, np.nan], [0.0, 1, 1, 0, 1]) == {
        "q0": "regression",
        "q1": "improvement",
    }


def test_a_metric_that_should_be_low_flips_the_other_way():
    assert kinds("answered_unanswerable", [1.0, 0], [0.0, 1]) == {
        "q0": "improvement",
        "q1": "regression",
    }


def test_a_metric_without_limits_does_not_flip():
    assert kinds("token_f1", [1.0, 0.1], [0.1, 1.0]) == {}


def test_both_values_stand_beside_the_kind_metric_by_metric():
    scores = scores_of("passed", [1.0, 0], [0.0, 1]).assign(judge_correctness=[5.0, 2, 2, 4.5])
    rows = flips(scores, "a", "b")
    assert rows.columns.tolist() == [
        "metric", "query_id", "baseline", "candidate", "kind", "bad", "good",
    ]  # fmt: skip
    assert rows.to_numpy().tolist() == [
        ["passed", "q0", 1, 0, "regression", 1, 1], ["passed", "q1", 0, 1, "improvement", 1, 1],
        ["judge_correctness", "q0", 5, 2, "regression", 3, 4],
        ["judge_correctness", "q1", 2, 4.5, "improvement", 3, 4],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("scale", "bad", "good"),
    [
        ((0, 5), 3, 4), ((0, 3), 1.8, 2.4), ((1, 10), 6.4, 8.2), ((0, 1), 0.6, 0.8),
        ((0, 2), 1.2, 1.6),
    ],
)  # fmt: skip
def test_limits_fit_the_scale_of_a_judge_of_your_own(scale, bad, good):
    name = f"judge of {scale}"
    declared = _own(name, "higher", scale)
    assert limits_of(declared.describe(name)) == (bad, good)
    least, most = scale
    before, after = [good, bad - 0.1, bad, most], [bad - 0.1, good, good, bad]
    assert kinds(name, before, after, declared) == {"q0": "regression", "q1": "improvement"}
    declared = _own("faults", "lower", scale)
    assert limits_of(declared.describe("faults")) == pytest.approx(
        (least + most - bad, least + most - good)
    )


def test_whatever_a_judge_measures_flips_by_its_scale_and_nothing_else_does():
    assert {name: limits_of(TABLE.describe(name)) for name in CRITERIA} == {
        "judge_groundedness": (3, 4), "judge_correctness": (3, 4), "judge_refused": (1, 1),
        "answer_relevance": (0.2, 0.6),
        **dict.fromkeys([name for name in PARTS if name != "answer_relevance"], (0.6, 0.8)),
    }  # fmt: skip
    assert [
        limits_of(TABLE.describe(name)) for name in ("mrr", "token_f1", "latency_ms", "unheard_of")
    ] == [None] * 4
    assert kinds("faithfulness", [0.9, 0.5, 0.7], [0.5, 0.8, 0.1]) == {
        "q0": "regression",
        "q1": "improvement",
    }

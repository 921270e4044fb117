"""Variance components: by hand, and unbiased in simulation."""

import numpy as np
import pytest

from ragscore.stats import pooled_sd, variance_components
from tests.messages import refused


def by_source(values):
    return {one.source: one for one in variance_components(values)}


def test_queries_and_repeats_by_hand():
    # Two queries, two repeats: means 2 and 6 of queries, 3 and 5 of repeats, 4 of all. SS_Q = 2·(4
    # + 4) = 16, SS_R = 2·(1 + 1) = 4, what is left: 1 − 2 − 3 + 4 = 0 in every cell.
    found = by_source([[1.0, 3.0], [5.0, 7.0]])
    assert [(one.source, one.df, one.mean_square) for one in found.values()] == [
        ("queries", 1, 16.0),
        ("system repeats", 1, 4.0),
        ("query × repeat", 1, 0.0),
    ]
    assert [one.variance for one in found.values()] == [8.0, 2.0, 0.0]
    assert [one.of_mean for one in found.values()] == [4.0, 2.0, 0.0]


def test_an_interaction_alone_makes_the_others_negative():
    # Query and repeat means are all ½: MS_QR = Σ(±½)² / 1 = 1, so that σ²_Q = (0 − 1) / 2 and σ²_R
    # = (0 − 1) / 2.
    found = by_source([[1.0, 0.0], [0.0, 1.0]])
    assert {name: one.variance for name, one in found.items()} == {
        "queries": -0.5,
        "system repeats": -0.5,
        "query × repeat": 1.0,
    }


def test_judge_repeats_by_hand():
    # One system run: queries with judgements (1, 3) and (5, 7). MS_J = 4·1 / 2 = 2; MS_Q = 2·(4 +
    # 4) = 16; σ²_Q = (16 − 2) / 2.
    found = by_source([[[1.0, 3.0]], [[5.0, 7.0]]])
    assert {name: (one.df, one.variance, one.of_mean) for name, one in found.items()} == {
        "queries": (1, 7.0, 3.5),
        "judge repeats": (2, 2.0, 0.5),
    }


def test_noise_of_the_parts_is_the_noise_of_the_means():
    values = np.random.default_rng(1).random((40, 5, 3))
    found = variance_components(values)
    assert sum(one.of_mean for one in found[1:]) == pytest.approx(
        values.mean(axis=(0, 2)).var(ddof=1)
    )
    plain = variance_components(values[:, :, 0])
    assert sum(one.of_mean for one in plain[1:]) == pytest.approx(
        values[:, :, 0].mean(axis=0).var(ddof=1)
    )


@pytest.mark.parametrize("n_judges", [1, 2])
def test_components_are_unbiased(n_judges):
    # True variances 0.09, 0.0025, 0.04 and 0.01 (without judge repeats the judge's goes to query ×
    # repeat). 600 draws: four standard errors.
    draw, found = np.random.default_rng(7), []
    for _ in range(600):
        query, repeat = draw.normal(0, 0.3, (20, 1, 1)), draw.normal(0, 0.05, (1, 4, 1))
        cells = (
            query
            + repeat
            + draw.normal(0, 0.2, (20, 4, 1))
            + draw.normal(0, 0.1, (20, 4, n_judges))
        )
        found.append([one.variance for one in variance_components(cells)])
    expected = np.array([0.09, 0.0025, 0.04, 0.01] if n_judges == 2 else [0.09, 0.0025, 0.05])
    values = np.array(found)
    assert (
        np.abs(values.mean(axis=0) - expected) < 4 * values.std(axis=0) / np.sqrt(len(values))
    ).all()
    assert (values[:, 1] < 0).any(), "unbiased where the truth is small means below 0 now and then"


def test_what_cannot_be_split_is_refused():
    for values in ([[1.0, 2.0]], [[1.0], [2.0]], [[1.0, np.nan], [1.0, 2.0]]):
        with refused(field="values"):
            variance_components(values)


def test_spreads_of_groups_are_pooled_by_their_degrees_of_freedom():
    assert pooled_sd([1.0, 2.0], [1, 3]) == (pytest.approx(np.sqrt((1 + 12) / 4)), 4)
    assert pooled_sd([], [])[1] == 0

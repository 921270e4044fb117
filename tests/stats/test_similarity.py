"""Similarity of two vectors."""

import pytest

from ragscore.stats.similarity import cosine


@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        ([1, 0], [0, 1], 0),
        ([1, 2], [2, 4], 1),
        ([1, 0], [1, 0, 0], 0),
        ([0, 0], [1, 0], 0),
        ([], [], 0),
        ([1, 0], [-2, 0], -1),
    ],
)
def test_cosine(a, b, value):
    assert cosine(a, b) == pytest.approx(value)

"""Similarity of two vectors."""

import numpy as np
import pytest

from ragscore.stats.similarity import cosine_matrix


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
    rows = (np.array(one, dtype=float)[None, :] for one in (a, b))
    assert cosine_matrix(*rows) == pytest.approx(value)

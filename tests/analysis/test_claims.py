"""Letters and words claim a difference where there is one, and none where there is none."""

from dataclasses import replace

import numpy as np
import pytest
from tests.benchmarks.swapped import demo, equal_runs, everything_claimed

import ragscore as rs

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_nothing_is_claimed_of_runs_that_do_not_differ():
    """Four runs of the demo's records, exchanged at random, and queries of random categories."""
    rng = np.random.default_rng(3)
    golden = demo().golden
    mixed = {name: rng.permutation(golden.queries[name]) for name in ("difficulty", "category")}
    golden = replace(golden, queries=golden.queries.assign(**mixed))
    assert everything_claimed(rs.evaluate(equal_runs(4, 182, rng), golden)) == []


def test_what_differs_is_claimed_by_letters_and_words():
    found = {claim.partition(" ")[0].rstrip(":") for claim in everything_claimed(demo())}
    assert {"letters", "bm25"} <= found

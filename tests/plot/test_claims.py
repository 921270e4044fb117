"""Titles, letters and words claim a difference where there is one, and none where there is none."""

from dataclasses import replace

import numpy as np
import pytest

import ragscore as rs
from tests.benchmarks.swapped import CLAIM, _titles, demo, equal_runs, everything_claimed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def alike():
    """Four runs of the demo's records, exchanged at random, and queries of random categories."""
    rng = np.random.default_rng(3)
    golden = demo().golden
    mixed = {name: rng.permutation(golden.queries[name]) for name in ("difficulty", "category")}
    golden = replace(golden, queries=golden.queries.assign(**mixed))
    return rs.evaluate(equal_runs(4, 182, rng), golden)


@pytest.mark.slow
def test_nothing_is_claimed_of_runs_that_do_not_differ(alike):
    assert everything_claimed(alike) == []


@pytest.mark.slow
def test_what_differs_is_claimed_by_letters_words_and_titles():
    found = {claim.partition(" ")[0].rstrip(":") for claim in everything_claimed(demo())}
    assert {"letters", "forest", "of", "leaderboard", "refusals", "ndcg", "bm25"} <= found


def test_the_title_names_the_runs_that_the_tests_tell_apart():
    title = demo().plot("ndcg@10").get_title()
    assert CLAIM.search(title)
    assert title.startswith("ndcg@10: hybrid_rerank leads, told from bm25, not from")
    board = demo().leaderboard("ndcg@10").plot().get_title()
    assert board.startswith("ndcg@10: hybrid_rerank leads, told from bm25")
    against = rs.evaluate(demo().results, demo().golden, baseline="bm25")
    assert "better than bm25" in against.plot("ndcg@10").get_title().replace("\n", " ")


def test_a_slice_is_named_if_it_is_told_from_the_rest():
    ev = demo()
    is_hard = ev.golden.queries.set_index("query_id")["difficulty"].eq("hard")
    is_lost = is_hard.reindex(ev.scores.index).to_numpy()
    scores = ev.scores.assign(**{"hit@5": ev.scores["hit@5"].mask(is_lost, 0.0)})
    planted = replace(ev, scores=scores)
    for draw in (planted.plot.slices, planted.plot.heatmap):
        title = draw("hit@5", "difficulty").get_title().replace("\n", " ")
        assert title == "hit@5 is worse on hard than on the rest for every run"
    table = planted.summary("hit@5", "difficulty")
    assert _titles({"a summary": lambda: rs.plot.slices(table)}) == [], "nothing was tested"

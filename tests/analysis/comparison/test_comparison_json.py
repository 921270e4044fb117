"""A comparison reloads from its JSON, and what is no comparison is refused."""

import json
from dataclasses import replace

import pytest
from conftest import THREE_QUERIES, record
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.scoring.readings import READINGS
from tests.compared import compare_runs
from tests.messages import refused

FRAMES = ("deltas", "per_query", "targets", "invariants", "config_diff")
VALUES = (
    "baseline", "candidate", "_level", "_k", "_policies", "_profile", "_aggregates", "counts",
)  # fmt: skip


def reloaded(cmp, **how):
    """Return the comparison from its JSON; it holds what it held."""
    again = rs.Comparison.from_json(cmp.to_json(**how))
    for name in FRAMES:
        assert_frame_equal(getattr(again, name), getattr(cmp, name))
    assert [getattr(again, name) for name in VALUES] == [getattr(cmp, name) for name in VALUES]
    return again


def test_a_comparison_reloads_from_its_json_without_what_only_scores_answer(pair):
    cmp = compare_runs(*pair, "a", "b", missing="zero")
    again = reloaded(cmp)
    assert (again.to_json(), again.to_markdown()) == (cmp.to_json(), cmp.to_markdown())
    assert again._policies["missing"] == "zero"
    with refused("JSON", "scores", "rs.evaluate(results, golden).compare(baseline", field="scores"):
        again.slices("difficulty")


def test_a_comparison_without_rows_reloads_with_their_columns(loaded):
    nothing = [record("q1", [])]
    cmp = compare_runs(*loaded(THREE_QUERIES, {"a": nothing, "b": nothing}), "a", "b")
    assert not len(cmp.targets) and not len(cmp.config_diff)
    reloaded(cmp)


def test_a_comparison_by_a_profile_reloads_with_it(pair):
    cmp = compare_runs(*pair, "a", "b", profile="kebab")
    reloaded(cmp, own=True)
    with refused("own=True", field="text"):
        rs.Comparison.from_json(cmp.to_json())


def test_a_reading_of_ones_own_compares_in_our_words_and_reloads_by_its_name(pair):
    mine = replace(READINGS["kebab"], name="mine")
    cmp = rs.evaluate(*pair, profile=mine).compare("a", "b")
    ours = compare_runs(*pair, "a", "b")
    assert (cmp.counts, cmp.overall) == (ours.counts, ours.overall)
    assert cmp.to_markdown() == ours.to_markdown() and cmp.explore() is not None
    again = rs.Comparison.from_json(cmp.to_json())
    assert again._profile.name == "mine" and again.to_json() == cmp.to_json()


@pytest.mark.parametrize(
    ("frame", "row", "named"),
    [
        ("targets", {"query_id": "q1"}, "target_id"),
        ("deltas", {"metric": "mrr", "n": "many"}, "many"),
    ],
)
def test_rows_that_do_not_fit_their_columns_are_refused(pair, frame, row, named):
    content = json.loads(compare_runs(*pair, "a", "b").to_json())
    content[frame][0] = row if frame == "targets" else content[frame][0] | row
    with refused(named, field="text"):
        rs.Comparison.from_json(json.dumps(content))

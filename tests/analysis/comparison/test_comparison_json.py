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


def same(a: rs.Comparison, b: rs.Comparison) -> None:
    for name in FRAMES:
        assert_frame_equal(getattr(a, name), getattr(b, name))
    values = (
        "baseline",
        "candidate",
        "_level",
        "_k",
        "_policies",
        "_profile",
        "_aggregates",
        "counts",
    )
    assert [getattr(a, name) for name in values] == [getattr(b, name) for name in values]


def test_a_comparison_reloads_from_its_json(pair):
    cmp = compare_runs(*pair, "a", "b", missing="zero")
    again = rs.Comparison.from_json(cmp.to_json())
    same(again, cmp)
    assert (
        again.to_json() == cmp.to_json()
        and again.to_markdown() == cmp.to_markdown()
        and again._policies["missing"] == "zero"
    )


def test_a_comparison_without_rows_reloads_with_their_columns(write_golden, write_run):
    results = rs.load_results([write_run(name, [record("q1", [])]) for name in "ab"])
    cmp = compare_runs(results, rs.load_golden(write_golden(THREE_QUERIES)), "a", "b")
    assert not len(cmp.targets) and not len(cmp.config_diff)
    same(rs.Comparison.from_json(cmp.to_json()), cmp)


def test_a_comparison_by_a_profile_reloads_with_it(pair):
    cmp = compare_runs(*pair, "a", "b", profile="kebab")
    same(rs.Comparison.from_json(cmp.to_json(own=True)), cmp)
    with refused("own=True", field="text"):
        rs.Comparison.from_json(cmp.to_json())


def test_a_reading_of_ones_own_compares_in_our_words_and_reloads_where_it_is_given(pair):
    mine = replace(READINGS["kebab"], name="mine")
    cmp = rs.evaluate(*pair, profile=mine).compare("a", "b")
    ours = compare_runs(*pair, "a", "b")
    assert cmp.counts == ours.counts and cmp.overall == ours.overall
    assert cmp.to_markdown() == ours.to_markdown() and cmp.explore() is not None
    text = cmp.to_json()
    assert rs.Comparison.from_json(text, profile=mine)._profile == mine
    with refused("mine", field="profile"):
        rs.Comparison.from_json(text)


@pytest.mark.parametrize("text", ["", "[]", '{"baseline": "a"}'])
def test_what_is_no_comparison_is_refused(text):
    with refused("JSON", "cmp.to_json()", field="text"):
        rs.Comparison.from_json(text)


def test_rows_that_do_not_fit_their_columns_are_refused(pair):
    content = json.loads(compare_runs(*pair, "a", "b").to_json())
    del content["targets"][0]["change"]
    with refused("change", field="text"):
        rs.Comparison.from_json(json.dumps(content))
    content["targets"] = []
    content["deltas"][0]["n"] = "many"
    with refused("many", field="text"):
        rs.Comparison.from_json(json.dumps(content))

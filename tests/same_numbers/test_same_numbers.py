"""The library's answers are those recorded, and a change of the last bit is found."""

import sys

import numpy as np
import pandas as pd
import pytest

from tests.same_numbers import __main__ as same
from tests.same_numbers import worlds


@pytest.fixture(scope="module")
def recorded():
    table = pd.read_parquet(same.RECORDED)
    return table[table["object"].str.startswith("demo")].reset_index(drop=True)


@pytest.mark.slow
def test_the_library_answers_as_recorded_but_for_what_is_meant(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["same_numbers"])
    assert same.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "metric", "field", "fails"),
    [
        ("demo: scores", "ndcg@10", "value", True),
        ("demo: summary", "mrr@10", "mean", True),
        ("demo: comparison", "mrr@10", "low", False),  # an interval may move by rounding
        ("demo: gate by threshold", "hit@5", "candidate", True),
    ],
)
def test_a_change_of_the_last_bit_is_found(recorded, name, metric, field, fails):
    at = recorded["object"].eq(name) & recorded["metric"].eq(metric) & recorded["field"].eq(field)
    row = recorded.index[at & recorded["number"].ne(0) & recorded["number"].notna()][0]
    now = recorded.copy()
    now.loc[row, "number"] = np.nextafter(now.loc[row, "number"], 9)
    found = same.differences(recorded, now)
    assert found[same.LINE].to_numpy().tolist() == [[name, metric, field]]
    said = same.not_meant(same.by_line(found), same.read_meant().iloc[:0])
    assert bool(said) is fails


def test_an_interval_that_moves_beyond_rounding_a_value_gone_and_another_word_are_not_meant(
    recorded,
):
    low = recorded["object"].eq("demo: comparison") & recorded["field"].eq("low")
    word = recorded["object"].eq("demo: comparison") & recorded["field"].eq("verdict")
    rows = [recorded.index[low & recorded["number"].notna()][0], recorded.index[word][0]]
    now = recorded.copy()
    now.loc[rows[0], "number"] += 1e-8
    now.loc[rows[1], "text"] = "otherwise"
    now = now.drop(index=0)
    found = same.differences(recorded, now)
    assert sorted(found["change"]) == ["differs", "differs", "gone"]
    assert len(same.not_meant(same.by_line(found), same.read_meant().iloc[:0])) == 3


def test_a_meant_line_covers_its_count_and_size_and_no_more(recorded):
    mean = recorded["object"].eq("demo: summary") & recorded["field"].eq("mean")
    rows = recorded.index[mean & recorded["metric"].eq("mrr@10")]
    now = recorded.copy()
    now.loc[rows, "number"] += 0.25
    lines = same.by_line(same.differences(recorded, now))
    meant = lines.drop(columns="is_rounding")
    assert same.not_meant(lines, meant) == []
    assert len(same.not_meant(lines, meant.assign(count=meant["count"] - 1))) == 1
    assert len(same.not_meant(lines, meant.assign(size=0.2))) == 1
    assert len(same.not_meant(lines.iloc[:0], meant)) == 1  # meant, and doesn't differ


def test_a_world_is_the_same_each_time(tmp_path):
    first, again = (worlds.written(3, tmp_path / name)[1].hits for name in ("a", "b"))
    pd.testing.assert_frame_equal(first, again)


def test_equal_answers_differ_in_nothing(recorded):
    lines = same.by_line(same.differences(recorded, recorded))
    assert same.not_meant(lines, same.read_meant().iloc[:0]) == []

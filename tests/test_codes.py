"""Joins by integer codes say what pandas says about the texts, and scoring a checked set checks nothing again."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.codes import equal_pairs, has_pair, is_among, lookup

texts = st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "ä", "", "NA", "a b"])), max_size=12)
dtypes = st.sampled_from(["str", "object", "category"])


@given(texts, texts, dtypes)
def test_is_among_is_isin_without_na(column, values, dtype):
    column, values = pd.Series(column, dtype="str").astype(dtype), pd.Series(values, dtype="str")
    assert is_among(column, values).tolist() == (column.isin(values.dropna()) & column.notna()).tolist()


@given(texts, st.lists(st.sampled_from(["a", "b", "ä", ""]), unique=True), dtypes)
def test_lookup_gives_the_place_of_each_text(column, values, dtype):
    found = lookup(pd.Series(column, dtype="str").astype(dtype), pd.Index(values, dtype="str"))
    assert found.tolist() == [values.index(text) if text in values else -1 for text in column]


@given(st.lists(st.tuples(*[st.sampled_from("abc")] * 2)), st.lists(st.tuples(*[st.sampled_from("abc")] * 2)))
def test_a_pair_is_found_only_as_a_pair(rows, pairs):
    frames = [pd.DataFrame(one, columns=["x", "y"], dtype="str") for one in (rows, pairs)]
    assert has_pair(*frames, ("x", "y")).tolist() == [row in pairs for row in rows]


@given(st.lists(st.integers(-1, 4)), st.lists(st.integers(-1, 4)))
def test_equal_pairs_are_those_of_a_merge_and_none_is_no_code(left, right):
    a, b = equal_pairs(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64))
    expected = [(i, j) for i, one in enumerate(left) for j, other in enumerate(right) if one == other >= 0]
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == expected
    a, b = equal_pairs(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), only_first=True)
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == [(i, right.index(one)) for i, one in enumerate(left) if one >= 0 and one in right]


@pytest.mark.parametrize("match", ["auto", "per_query"])
def test_scoring_checks_no_frame_again(pair, monkeypatch, match):
    """Frames are checked where they are made; a scoring cuts them to a level many times over."""
    results, golden = pair
    checked: list[str] = []
    monkeypatch.setattr(rs.Golden, "__post_init__", lambda self: checked.append("golden"))
    monkeypatch.setattr(rs.Results, "__post_init__", lambda self: checked.append("results"))
    assert rs.score(results, golden, match=match)["mrr"].notna().all()
    assert checked == []

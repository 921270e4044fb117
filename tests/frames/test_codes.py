"""Joins by integer codes say what pandas says about the texts, and scoring a checked set checks
nothing again.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragscore.frames import codes
from ragscore.frames.codes import (
    are_equal,
    are_unambiguous,
    equal_pairs,
    fingerprints,
    has_pair,
    is_among,
    lookup,
    pair_keys,
    pair_numbers,
)
from ragscore.scoring import rules as match

texts = st.lists(
    st.one_of(st.none(), st.sampled_from(["a", "b", "ä", "", "NA", "a b"])), max_size=12
)
dtypes = st.sampled_from(["str", "object", "category"])
names = st.text(alphabet="ab\u00e4/", max_size=20)


@pytest.fixture
def small_blocks(monkeypatch):
    """Whatever a few rows would not be worth is done with them, too."""
    monkeypatch.setattr(codes, "BLOCK", 3)


@given(texts, texts, dtypes)
def test_is_among_is_isin_without_na(column, values, dtype):
    column, values = pd.Series(column, dtype="str").astype(dtype), pd.Series(values, dtype="str")
    assert (
        is_among(column, values).tolist()
        == (column.isin(values.dropna()) & column.notna()).tolist()
    )


@given(texts, st.lists(st.sampled_from(["a", "b", "ä", ""]), unique=True), dtypes)
def test_lookup_gives_the_place_of_each_text(column, values, dtype):
    found = lookup(pd.Series(column, dtype="str").astype(dtype), pd.Index(values, dtype="str"))
    assert found.tolist() == [values.index(text) if text in values else -1 for text in column]


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "ä", "", None]), st.integers(1, 5))),
    st.lists(st.sampled_from(["a", "b", "ä", ""]), unique=True),
    st.integers(0, 20),
)
@pytest.mark.usefixtures("small_blocks")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_runs_of_equal_texts_are_looked_up_as_their_rows(runs, values, cut):
    column = [text for text, n in runs for _ in range(n)]
    parts = [pa.array(part, type=pa.large_string()) for part in (column[:cut], column[cut:])]
    held = pd.Series(pd.array(pa.chunked_array(parts), dtype="str"))
    wanted = pd.Index(values, dtype="str")
    assert lookup(held, wanted).tolist() == [
        values.index(text) if text in values else -1 for text in column
    ]
    assert is_among(held, wanted).tolist() == [text in values for text in column]
    number, texts = pd.factorize(held)
    assert codes.coded(held).cat.codes.tolist() == number.tolist()
    assert codes.coded(held).cat.categories.tolist() == texts.tolist()


@given(
    st.lists(st.tuples(*[st.sampled_from("abc")] * 2)),
    st.lists(st.tuples(*[st.sampled_from("abc")] * 2)),
)
def test_a_pair_is_found_only_as_a_pair(rows, pairs):
    frames = [pd.DataFrame(one, columns=["x", "y"], dtype="str") for one in (rows, pairs)]
    assert has_pair(*frames, ("x", "y")).tolist() == [row in pairs for row in rows]


@given(st.lists(st.integers(-1, 4)), st.lists(st.integers(-1, 4)))
def test_equal_pairs_are_those_of_a_merge_and_none_is_no_code(left, right):
    a, b = equal_pairs(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64))
    expected = [
        (i, j) for i, one in enumerate(left) for j, other in enumerate(right) if one == other >= 0
    ]
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == expected


@given(
    st.lists(st.one_of(st.none(), names), max_size=30),
    st.lists(st.integers(0, 29)),
    dtypes,
    st.integers(0, 30),
    st.booleans(),
)
def test_texts_of_some_rows_are_compared_one_by_one(column, rows, dtype, cut, in_order):
    parts = [pa.array(part, type=pa.large_string()) for part in (column[:cut], column[cut:])]
    held = pd.Series(pd.array(pa.chunked_array(parts), dtype="str"))
    rows = np.array(
        [row for row in (sorted(rows) if in_order else rows) if row < len(column)], np.int64
    )
    for one in (held, held.astype(dtype)):
        assert are_equal(one, rows, held, rows[::-1]).tolist() == [
            column[a] is not None and column[a] == column[b]
            for a, b in zip(rows, rows[::-1], strict=True)
        ]


PAIRS = st.lists(
    st.tuples(
        st.integers(-1, 3),
        st.one_of(st.none(), st.sampled_from(["a", "b", "one-chapter", "two-chapter"])),
    ),
    max_size=30,
)


@given(PAIRS, dtypes)
def test_rows_are_numbered_by_code_and_text_even_where_fingerprints_are_the_same(rows, dtype):
    codes, column = (
        np.array([code for code, _ in rows], np.int64),
        pd.Series([text for _, text in rows], dtype="str").astype(dtype),
    )
    known = [n for n, (code, text) in enumerate(rows) if code >= 0 and text is not None]
    found = pair_numbers(codes[known], column.iloc[known].reset_index(drop=True)).tolist()
    assert all(
        (found[i] == found[j]) == (rows[a] == rows[b])
        for i, a in enumerate(known)
        for j, b in enumerate(known)
    )


@given(PAIRS)
def test_keys_tell_codes_apart_and_texts_unless_they_end_alike(rows):
    codes, column = (
        np.array([code for code, _ in rows], np.int64),
        pd.Series([text or "" for _, text in rows], dtype="str"),
    )
    keys = pair_keys(codes, fingerprints(column)(slice(None)), 4)
    alike = {"one-chapter": "chapter", "two-chapter": "chapter"}
    shown = [
        (code, alike.get(text, text)) if code >= 0 else -1
        for code, text in zip(codes, column, strict=True)
    ]
    assert all(
        (keys[i] == keys[j]) == (a == b) for i, a in enumerate(shown) for j, b in enumerate(shown)
    )
    assert (keys[codes < 0] == -1).all() and (keys[codes >= 0] >= 0).all()
    texts = {key: {column[i] for i in np.flatnonzero(keys == key)} for key in keys}
    assert are_unambiguous(keys, column) == all(len(one) == 1 for one in texts.values())


ID = st.sampled_from(["d1", "d2", "chapter-one#section-1", "chapter-two#section-1", "\u00e4", ""])
HITS = st.lists(st.tuples(st.integers(0, 4), ID), max_size=40)


@given(
    HITS, st.lists(st.tuples(st.integers(0, 3), ID), min_size=1, max_size=12), dtypes, st.booleans()
)
@pytest.mark.usefixtures("small_blocks")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pairs_found_fast_are_those_found_one_by_one(hits, targets, dtype, in_order):
    rows = sorted(hits, key=lambda row: row[0]) if in_order else hits
    frames = [
        pd.DataFrame(
            {"query_id": [f"q{n}" for n, _ in one], "doc_id": [text for _, text in one]},
            dtype="str",
        )
        for one in (rows, targets)
    ]
    here, wanted = frames[0].astype(dtype), frames[1]
    plain = [
        (i, j) for i, one in enumerate(rows) for j, other in enumerate(targets) if one == other
    ]
    assert (
        list(
            zip(
                *(found.tolist() for found in match.pairs_with_equal(here, wanted, "doc_id")),
                strict=True,
            )
        )
        == plain
    )

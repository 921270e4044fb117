"""Joins by integer codes say what pandas says about the texts, and scoring a checked set checks
nothing again.
"""

import hashlib
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragscore.frames import codes
from ragscore.frames.codes import has_pair, is_among, lookup, pair_numbers
from ragscore.frames.golden_versions import hashes_by_query
from ragscore.scoring import rules as match

dtypes = st.sampled_from(["str", "object", "category"])


@pytest.fixture
def small_blocks(monkeypatch):
    """Whatever a few rows would not be worth is done with them, too."""
    monkeypatch.setattr(codes, "BLOCK", 3)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "ä", "", None]), st.integers(1, 5))),
    st.lists(st.sampled_from(["a", "b", "ä", ""]), unique=True),
    st.integers(0, 20),
    dtypes,
)
def test_texts_in_any_form_are_looked_up_and_coded_as_their_rows(runs, values, cut, dtype):
    column = [text for text, n in runs for _ in range(n)]
    parts = [pa.array(part, type=pa.large_string()) for part in (column[:cut], column[cut:])]
    held = pd.Series(pd.array(pa.chunked_array(parts), dtype="str")).astype(dtype)
    wanted = pd.Index(values, dtype="str")
    places = [values.index(text) if text in values else -1 for text in column]
    assert lookup(held, wanted).tolist() == places
    assert is_among(held, wanted).tolist() == [text in values for text in column]
    assert codes.coded(held).astype(object).where(held.notna(), None).tolist() == column


@given(
    st.lists(st.tuples(*[st.sampled_from("abc")] * 2)),
    st.lists(st.tuples(*[st.sampled_from("abc")] * 2)),
)
def test_a_pair_is_found_only_as_a_pair(rows, pairs):
    frames = [pd.DataFrame(one, columns=["x", "y"], dtype="str") for one in (rows, pairs)]
    assert has_pair(*frames, ("x", "y")).tolist() == [row in pairs for row in rows]


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


# Hashes of queries are those of every row written as JSON, one by one


TEXTS = [
    'a "b"',
    "back\\slash",
    "line\nend",
    "tab\t\x00\x1f\x7f",
    "é 日本 😀",
    "",
    "NaN",
    "null",
    "'",
]


def plain(query_ids: pd.Series, frames: dict[str, pd.DataFrame]) -> pd.Series:
    """Return the same, row by row."""
    texts: dict[str, list[str]] = {query_id: [] for query_id in query_ids}
    for name, frame in frames.items():
        for record in frame.astype(object).where(frame.notna(), None).to_dict("records"):
            content = {key: value for key, value in sorted(record.items()) if value is not None}
            texts[record["query_id"]].append(
                json.dumps([name, content], ensure_ascii=False, default=str)
            )
    digests = {
        query_id: hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
        for query_id, lines in texts.items()
    }
    return pd.Series(digests, dtype="str", name="query_hash").rename_axis("query_id")


def frame_of(n: int, seed: int) -> pd.DataFrame:
    """Return rows of every type that a golden set may hold, with gaps."""
    rng = np.random.default_rng(seed)
    some = lambda values: pd.array(values)[rng.integers(0, len(values), n)]  # noqa: E731
    return pd.DataFrame({
        "query_id": pd.array([f"q{n}" for n in rng.integers(0, 5, n)], dtype="str"),
        "text": pd.array(rng.choice([*TEXTS, None], n), dtype="str"),
        "grade": rng.integers(-3, 3, n).astype("int32"),
        "start": some([0, 2**53 + 1, None]),
        "answerable": some([True, False, None]),
        "x_flag": rng.random(n) < 0.5,
        "x_share": rng.choice([0.1, 1.0, 1e-300, 1e22, np.nan, -0.0], n),
        "x_float": pd.array(rng.choice([0.1, 3.0], n), "Float64"),
        "x_single": rng.random(n).astype("float32"),
        "x_time": rng.choice(np.array(["2026-01-01T01:02:03", "NaT"], "datetime64[us]"), n),
        "x_kind": pd.Categorical(rng.choice([*TEXTS, None], n)),
        "x_number": pd.Categorical(rng.integers(0, 3, n)),
        'x_"odd"\n': "?",
        "x_mixed": pd.Series([[1, "a", None, float("nan")], {"b": 1, "a": True}, 7, "é", None,
                              2**70, np.int64(3), np.float32(0.1), (1, 2)][:n] * n,
                             dtype=object)[:n],
    })  # fmt: skip


@pytest.mark.parametrize("n", [0, 1, 9, 200])
def test_a_hash_is_that_of_the_rows_as_json(n: int) -> None:
    ids = pd.Series([f"q{at}" for at in range(6)], dtype="str")
    frames = {
        "targets": frame_of(n, 1),
        "tags": frame_of(n // 2, 2).iloc[::-1],
        "none": frame_of(0, 3),
    }
    pd.testing.assert_series_equal(hashes_by_query(ids, frames), plain(ids, frames))

"""Hashes of queries are those of every row written as JSON, one by one."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from ragscore.frames.golden_versions import hashes_by_query

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

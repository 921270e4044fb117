"""Every report reloads from its JSON into the same object.

The same frames with the same dtypes, nothing rounded, NaN as null.
"""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.analysis.comparison.align import AlignedScores
from ragscore.analysis.comparison.gate import Gate, gate
from ragscore.analysis.leaderboard import leaderboard
from ragscore.frames.tables import dump, reload
from tests.compared import compare_runs
from tests.messages import refused

pytestmark = pytest.mark.filterwarnings(
    "ignore:golden queries without a row:UserWarning", "ignore:scores differ in:UserWarning"
)
TIMES = "datetime64[us, UTC]"
COLUMNS = {
    "float64": st.floats(allow_nan=True, allow_infinity=True),
    "Float64": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "Int64": st.none() | st.integers(-(2**63), 2**63 - 1), "bool": st.booleans(),
    "boolean": st.none() | st.booleans(),
    "str": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    TIMES: st.none() | st.datetimes(pd.Timestamp("1700-01-01"),
    pd.Timestamp("2200-01-01")),
}  # fmt: skip


def assert_same(a, b) -> None:
    """Equal to the last bit, whatever the two are made of."""
    assert type(a) is type(b)
    if isinstance(a, pd.DataFrame):
        assert_frame_equal(a, b, check_exact=True)
        assert all(
            left.dtype == right.dtype
            for (_, left), (_, right) in zip(a.items(), b.items(), strict=True)
        )
    elif isinstance(a, rs.Golden):
        for item in dataclasses.fields(a):
            assert_same(*(getattr(one, item.name).reset_index(drop=True) for one in (a, b)))
    elif isinstance(a, AlignedScores):
        np.testing.assert_array_equal(a.values, b.values)
        assert (a.query_ids.tolist(), a.query_ids.name, a.run_ids, a.metrics) == (
            b.query_ids.tolist(),
            b.query_ids.name,
            b.run_ids,
            b.metrics,
        )
    elif dataclasses.is_dataclass(a):
        for item in dataclasses.fields(a):
            if item.compare:  # the others are not part of the JSON
                assert_same(getattr(a, item.name), getattr(b, item.name))
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_same(left, right)
    else:
        assert a == b or (math.isnan(a) and math.isnan(b))


@dataclasses.dataclass
class Report:
    """A report of one frame."""

    frame: pd.DataFrame


@given(st.data(), st.integers(0, 4))
def test_frames_of_every_dtype_reload(data, n):
    columns = {
        dtype: pd.Series(data.draw(st.lists(values, min_size=n, max_size=n)), dtype="object")
        for dtype, values in COLUMNS.items()
    }
    times = pd.to_datetime(columns.pop(TIMES), utc=True).astype(TIMES)
    frame = pd.DataFrame(columns).astype({dtype: dtype for dtype in columns}).assign(times=times)
    assert_same(reload(Report, dump(Report(frame))), Report(frame))


def test_nan_is_null_and_what_is_endless_is_a_text():
    frame = pd.DataFrame({"x": [math.nan, math.inf, -math.inf, 0.1 + 0.2]})
    held = [row["x"] for row in json.loads(dump(Report(frame)))["frame"]]
    assert held == [None, "Infinity", "-Infinity", 0.30000000000000004]


@pytest.fixture
def three(write_golden, write_run):
    """Three runs that differ in k and seed; one has a failed query, one lacks one.

    Answers, refusals, slices.
    """
    rows = [
        one | {"difficulty": level, "answerable": level != "none", "must_contain": ["x"]}
        for one, level in zip(THREE_QUERIES, ("easy", "hard", "none"), strict=True)
    ]
    rows[2] |= {"expected_doc_ids": [], "expected_chunk_ids": []}
    golden = rs.load_golden(write_golden(rows))
    failed = [
        RUN_B[0] | {"answer": answer("x")},
        RUN_B[1] | {"error": "late", "hits_top_k": []},
        RUN_B[2] | {"answer": answer("", grounded=False)},
    ]
    records = {"a": RUN_A, "b": [one | {"answer": answer("y")} for one in RUN_B[:2]], "<c>": failed}
    files = [
        write_run(
            f"r{k}", of, config={"weight": k, "note": "|"}, created_at=f"2026-01-0{k + 1}T00:00:00Z"
        )
        for k, of in enumerate(records.values())
    ]
    for name, file in zip(records, files, strict=True):
        (file.parent / "run.json").write_text(
            (file.parent / "run.json")
            .read_text()
            .replace(f'"{file.parent.name}"', json.dumps(name))
        )
    return rs.load_results(files), golden


MADE = {
    "Leaderboard": lambda results, golden, scores: leaderboard(scores, baseline="a", golden=golden),
    "Leaderboard of one run": lambda results, golden, scores: leaderboard(scores, runs=["a"]),
    "Gate": lambda results, golden,
    scores: gate(compare_runs(results, golden, "a", "b"),
    {"mrr": 0.1, "latency_ms": 5, "judge_correctness": 0}, require=True),
    "Comparison": lambda results, golden, scores: compare_runs(results, golden, "a", "<c>"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:scores of different provenance")
@pytest.mark.parametrize("kind", MADE)
def test_a_report_reloads_into_the_same_object(three, kind):
    results, golden = three
    made = MADE[kind](results, golden, rs.score(results, golden))
    text = made.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    again = type(made).from_json(text)
    assert_same(again, made)
    assert again.to_json() == text


@pytest.mark.parametrize(
    "report",
    [rs.Leaderboard, Gate],
)
def test_what_is_no_such_report_is_refused(report):
    for text, *named in (("", "JSON"), ("[]",), ("{}",), (json.dumps({"dtypes": {}}),)):
        with refused(*named, field="text"):
            report.from_json(text)

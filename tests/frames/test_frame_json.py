"""Every report reloads from its JSON into the same object.

The same frames with the same dtypes, nothing rounded, NaN as null.
"""

import dataclasses
import json
import math

import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, written_run
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.analysis.comparison.gate import Gate
from ragscore.frames.tables import dump, reload
from tests.messages import refused

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
    assert_frame_equal(reload(Report, dump(Report(frame))).frame, frame, check_exact=True)


def test_nan_is_null_and_what_is_endless_is_a_text():
    frame = pd.DataFrame({"x": [math.nan, math.inf, -math.inf, 0.1 + 0.2]})
    held = [row["x"] for row in json.loads(dump(Report(frame)))["frame"]]
    assert held == [None, "Infinity", "-Infinity", 0.30000000000000004]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three runs that differ in seed; one has a failed query, one lacks one; with slices."""
    rows = [
        one | {"difficulty": level, "answerable": level != "none", "must_contain": ["x"]}
        for one, level in zip(THREE_QUERIES, ("easy", "hard", "none"), strict=True)
    ]
    rows[2] |= {"expected_doc_ids": [], "expected_chunk_ids": []}
    failed = [
        RUN_B[0] | {"answer": answer("x")},
        RUN_B[1] | {"error": "late", "hits_top_k": []},
        RUN_B[2] | {"answer": answer("", grounded=False)},
    ]
    records = {"a": RUN_A, "b": [one | {"answer": answer("y")} for one in RUN_B[:2]], "<c>": failed}
    folder = tmp_path_factory.mktemp("three")
    files = [
        written_run(folder, name, of, config={"note": f"|{name}"}) for name, of in records.items()
    ]
    return rs.evaluate(files, rs.load_golden(rows))


DROPS = {"mrr": 0.1, "latency_ms": 5, "judge_correctness": 0}
MADE = {
    "Leaderboard": lambda ev: ev.leaderboard(baseline="a"),
    "Leaderboard of one run": lambda ev: ev.leaderboard(runs=["a"]),
    "Gate": lambda ev: ev.compare("a", "b").gate(DROPS, require=True),
    "Comparison": lambda ev: ev.compare("a", "<c>"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", MADE)
def test_a_report_reloads_into_the_same_object(request, kind):
    made = MADE[kind](request.getfixturevalue("three"))
    text = made.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    again = type(made).from_json(text)
    assert again.to_json() == text and repr(again) == repr(made)


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"dtypes": {}})])
@pytest.mark.parametrize("report", [rs.Leaderboard, Gate, rs.Comparison])
def test_what_is_no_such_report_is_refused(report, text):
    with refused("JSON", field="text"):
        report.from_json(text)

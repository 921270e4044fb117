"""Frames: what fits a column, what is refused, and which row the error names."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.frames.data import conform, from_records
from tests.messages import refused


def targets(**columns):
    return pd.DataFrame(
        {
            "query_id": ["q", "q"],
            "level": "doc",
            "target_id": ["a", "b"],
            "alternative": 0,
            "grade": 1,
        }
        | columns
    )


def hits(**columns):
    return pd.DataFrame({"run_id": ["r", "r"], "query_id": ["q", "q"], "rank": [1, 2]} | columns)


@pytest.mark.parametrize(
    ("columns", "column", "row", "named"),
    [
        ({"grade": [1, -1]}, "grade", 1, [-1, "1 of 2", 0]),
        ({"grade": np.array([1, -1], dtype="int32")}, "grade", 1, [-1]),
        ({"grade": [1, 2**31]}, "grade", 1, [2**31, -(2**31), 2**31 - 1]),
        ({"grade": [1.5, 1.0]}, "grade", 0, [1.5]),
        ({"grade": [1.0, np.nan]}, "grade", 1, []),
        ({"grade": [1, "many"]}, "grade", 1, ["'many'"]),
        ({"grade": [1, True]}, "grade", 1, [True]),
        ({"grade": [True, False]}, "grade", 0, [True]),
        ({"start": [1.0, 2.5]}, "start", 1, [2.5]),
        ({"start": [1.0, 2.0**63]}, "start", 1, [2.0**63]),
        ({"start": [1, 2**70]}, "start", 1, [2**70]),
        ({"alternative": [0, -1]}, "alternative", 1, [-1]),
        ({"target_id": ["a", None]}, "target_id", 1, ["NA"]),
        ({"target_id": [True, False]}, "target_id", 0, [True]),
        ({"target_id": ["a", True]}, "target_id", 1, [True]),
        ({"target_id": ["a", dt.date(2026, 1, 2)]}, "target_id", 1, ["datetime.date"]),
        ({"target_id": pd.to_datetime(["2026-01-01", "2026-01-02"])}, "target_id", 0,
        ["Timestamp"]),
        ({"doc_id": [1.0, np.nan]}, "doc_id", 0, [1.0]),
        ({"doc_id": ["d", ["e"]]}, "doc_id", 1, ["['e']"]),
        ({"doc_id": pd.Categorical([True, False])}, "doc_id", None, []),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_names_frame_column_and_first_row(columns, column, row, named):
    place = [] if row is None else [f"row {row}"]
    with refused(*place, *named, field=f"targets.{column}"):
        conform(targets(**columns), "targets")


def test_run_ids_and_errors_are_texts():
    with refused(1, field="hits.run_id"):
        conform(hits(run_id=["r", None]), "hits")
    with refused(0, field="hits.run_id"):
        conform(hits(run_id=[False, True]), "hits")
    # "False" would count as a failure
    with refused(0, field="responses.error"):
        conform(
            pd.DataFrame(
                {"run_id": "r", "query_id": ["a", "b"], "query": "?", "error": [False, True]}
            ),
            "responses",
        )


def test_times_are_not_numbers():
    with refused(0, 1760000000, field="runs.created_at"):
        conform(pd.DataFrame({"run_id": ["r"], "created_at": [1_760_000_000]}), "runs")


@pytest.mark.parametrize(
    ("value", "hour"),
    [
        ("2026-01-31", 0),
        ("2026-01-31T09:30:00+02:00", 7),
        (pd.Timestamp("2026-01-31 09:00"), 9),
        (dt.date(2026, 1, 31), 0),
        (pd.Timestamp("2026-01-31 09:00", tz="Europe/Berlin"), 8),
    ],
)
def test_times_may_be_texts_and_are_of_utc_without_a_zone(value, hour):
    held = pd.Series([value, None], dtype=object)
    frame = conform(pd.DataFrame({"run_id": ["a", "b"], "created_at": held}), "runs")
    assert frame["created_at"].dt.hour.tolist()[0] == hour
    assert frame["created_at"].isna().tolist() == [False, True]


def test_what_is_no_time_is_refused_with_its_row():
    for bad in ("yesterday", True):
        held = pd.Series(["2026-01-31", bad], dtype=object)
        with refused(1, 2, field="runs.created_at"):
            conform(pd.DataFrame({"run_id": ["a", "b"], "created_at": held}), "runs")


def test_what_fits_is_cast_without_loss():
    frame = conform(
        targets(
            grade=[1.0, 3.0],
            start=[2**60, None],
            doc_id=[7, 8],
            chunk_id=[None, None],
            end=["4", "5"],
        ),
        "targets",
    )
    assert frame.dtypes[["grade", "start", "doc_id", "chunk_id", "end"]].astype("str").tolist() == [
        "int32",
        "Int64",
        "str",
        "str",
        "Int64",
    ]
    assert (
        frame["grade"].tolist() == [1, 3]
        and frame["doc_id"].tolist() == ["7", "8"]
        and frame["end"].tolist() == [4, 5]
    )
    objects = conform(targets(start=pd.Series([2**60 + 1, None], dtype=object)), "targets")
    # floats would have made it 2**60
    assert objects["start"].iloc[0] == 2**60 + 1 and pd.isna(objects["start"].iloc[1])


def test_own_columns_keep_numbers_that_no_float_holds():
    frame = from_records(
        [
            {"query_id": "q", "query": "?", "answerable": None, "position": 0, "x_n": 2**53 + 1},
            {"query_id": "p", "query": "?", "answerable": None, "position": 1, "x_n": 0.5},
        ],
        "queries",
    )
    assert frame["x_n"].tolist() == ["9007199254740993", "0.5"]
    huge = from_records(
        [{"query_id": "q", "query": "?", "answerable": None, "position": 0, "x_n": 10**400}],
        "queries",
    )
    assert huge["x_n"].tolist() == [str(10**400)]


def test_selecting_a_run_keeps_its_problems_and_those_of_no_run():
    problems = from_records(
        [
            {
                "file": "f",
                "line": 1,
                "field": None,
                "found": name or "all",
                "allowed": None,
                "run_id": name,
            }
            for name in ("a", "b", None)
        ],
        "problems",
    )
    runs = pd.DataFrame({"run_id": ["a", "b"]})
    responses = pd.DataFrame(
        {
            "run_id": ["a", "b"],
            "query_id": "q",
            "query": "?",
            "error": pd.Series([None, None], dtype="str"),
        }
    )
    assert rs.Results(runs, responses, problems=problems).select(["b"]).problems[
        "found"
    ].tolist() == ["b", "all"]


def test_selecting_questions_keeps_what_those_got_in_every_frame():
    runs, cells = (
        pd.DataFrame({"run_id": ["a", "b"]}),
        {"run_id": ["a", "a", "b"], "query_id": ["p", "q", "q"]},
    )
    responses = pd.DataFrame(cells | {"query": "?", "error": pd.Series([None] * 3, dtype="str")})
    ranked = pd.DataFrame(cells | {"rank": 1})
    results = rs.Results(
        runs,
        responses,
        ranked,
        hit_meta=ranked.assign(key="year", value="2024"),
        chunks=pd.DataFrame({"chunk_id": ["c"]}),
    )
    of_q = results.select(["b", "a"], query_ids=["q", "never asked"])
    assert of_q.runs["run_id"].tolist() == ["b", "a"]
    for frame in (of_q.responses, of_q.hits, of_q.hit_meta):
        assert frame[["run_id", "query_id"]].to_numpy().tolist() == [["a", "q"], ["b", "q"]]
    assert len(of_q.chunks) == 1 and len(of_q.citations) == 0
    assert (
        len(results.select("a", pd.Series(["p"])).hits) == len(results.select("a", "p").hits) == 1
        and len(results.select("a").hits) == 2
    )


def test_a_golden_set_needs_no_more_than_ids():
    golden = rs.Golden(
        queries=pd.DataFrame({"query_id": ["q1", "q2", "q3"]}),
        targets=pd.DataFrame(
            {"query_id": ["q1", "q3"], "level": "doc", "target_id": ["a", "b"], "grade": [2, 0]}
        ),
    )
    # q3's only target has grade 0: nothing says that it can be answered.
    assert golden.queries["answerable"].tolist() == [True, pd.NA, pd.NA]
    assert golden.queries["query"].tolist() == ["q1", "q2", "q3"]
    assert golden.queries["position"].tolist() == [0, 1, 2]
    assert golden.targets["alternative"].tolist() == [0, 0]


def test_results_need_neither_the_text_of_a_query_nor_errors():
    results = rs.Results(
        runs=pd.DataFrame({"run_id": ["r"]}),
        responses=pd.DataFrame({"run_id": "r", "query_id": ["q1", "q2"]}),
    )
    assert results.responses[["query", "error"]].isna().all().all()

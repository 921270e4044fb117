"""Frames: what fits a column, what is refused, and which row the error names."""

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.frames.data import conform, from_records


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
    ("columns", "message"),
    [
        ({"grade": [1, -1]},
        r"targets\.grade: row 1 holds -1 \(1 of 2 rows are like that\); whole numbers from 0"),
        ({"grade": np.array([1, -1], dtype="int32")}, r"targets\.grade: row 1 holds -1"),
        ({"grade": [1, 2**31]},
        r"targets\.grade: row 1 holds 2147483648 .*; whole numbers from -2147483648 to 2147483647"),
        ({"grade": [1.5, 1.0]}, r"targets\.grade: row 0 holds 1\.5"),
        ({"grade": [1.0, np.nan]}, r"targets\.grade: row 1 holds (nan|NA)"),
        ({"grade": [1, "many"]}, r"targets\.grade: row 1 holds 'many'"),
        ({"grade": [1, True]}, r"targets\.grade: row 1 holds True"),
        ({"grade": [True, False]}, r"targets\.grade: row 0 holds True"),
        ({"start": [1.0, 2.5]}, r"targets\.start: row 1 holds 2\.5"),
        ({"start": [1.0, 2.0**63]}, r"targets\.start: row 1 holds 9\.2"),
        ({"start": [1, 2**70]}, r"targets\.start: row 1 holds 1180591620717411303424"),
        ({"alternative": [0, -1]}, r"targets\.alternative: row 1 holds -1"),
        ({"target_id": ["a", None]},
        r"targets\.target_id: row 1 holds NA .*; a value in every row: it is part of the key"),
        ({"target_id": [True, False]},
        r"targets\.target_id: row 0 holds True .*; text or whole numbers"),
        ({"target_id": ["a", True]}, r"targets\.target_id: row 1 holds True"),
        ({"target_id": ["a", dt.date(2026, 1, 2)]},
        r"targets\.target_id: row 1 holds datetime\.date"),
        ({"target_id": pd.to_datetime(["2026-01-01", "2026-01-02"])},
        r"targets\.target_id: row 0 holds Timestamp"),
        ({"doc_id": [1.0, np.nan]}, r"targets\.doc_id: row 0 holds 1\.0"),
        ({"doc_id": ["d", ["e"]]}, r"targets\.doc_id: row 1 holds \['e'\]"),
        ({"doc_id": pd.Categorical([True, False])}, r"targets\.doc_id: row \d holds (True|False)"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_names_frame_column_and_first_row(columns, message):
    with pytest.raises(rs.DataError, match=message):
        conform(targets(**columns), "targets")


def test_run_ids_and_errors_are_texts():
    with pytest.raises(rs.DataError, match=r"hits\.run_id: row 1 holds NA"):
        conform(hits(run_id=["r", None]), "hits")
    with pytest.raises(rs.DataError, match=r"hits\.run_id: row 0 holds False"):
        conform(hits(run_id=[False, True]), "hits")
    # "False" would count as a failure
    with pytest.raises(rs.DataError, match=r"responses\.error: row 0 holds False"):
        conform(
            pd.DataFrame(
                {"run_id": "r", "query_id": ["a", "b"], "query": "?", "error": [False, True]}
            ),
            "responses",
        )


def test_times_are_not_numbers():
    with pytest.raises(
        rs.DataError, match=r"runs\.created_at: row 0 holds 1760000000 .* times, or texts such as"
    ):
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
    for bad in ("yesterday", True, b"2026-01-31"):
        held = pd.Series(["2026-01-31", bad], dtype=object)
        with pytest.raises(rs.DataError, match=r"runs\.created_at: row 1 holds .* \(1 of 2 rows"):
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


def test_a_golden_set_travels_without_what_is_derived_from_it(pair):
    golden = pair[1]
    light = len(pickle.dumps(golden))
    _ = golden.coded, golden.query_hashes, golden.refusals
    assert len(pickle.dumps(golden)) == light
    again = pickle.loads(pickle.dumps(golden))
    pd.testing.assert_frame_equal(again.targets, golden.targets)
    assert (
        again.golden_hash == golden.golden_hash
        and again.coded.targets["query_id"].tolist() == golden.targets["query_id"].tolist()
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

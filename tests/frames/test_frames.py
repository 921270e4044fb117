"""Frames made by hand: what fits a column, what is refused, and which row the error names."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.frames.data import conform, from_records
from tests.messages import refused, warned

HUGE = [10**30, -(10**30), 2**63, 10**400]
QUERIES = pd.DataFrame({"query_id": ["q1", "q2", "q3"]})


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


@pytest.mark.parametrize(
    ("columns", "column", "row", "named"),
    [
        ({"grade": [1, -1]}, "grade", 1, [-1, "1 of 2", 0]),
        ({"grade": np.array([1, -1], dtype="int32")}, "grade", 1, [-1]),
        ({"grade": [1, 2**31]}, "grade", 1, [2**31, -(2**31), 2**31 - 1]),
        ({"grade": [1, 10**400]}, "grade", 1, []),
        ({"grade": [1, np.inf]}, "grade", 1, []),
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
        ({"doc_id": pd.Categorical([True, False])}, "doc_id", 0, [True]),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_names_frame_column_and_first_row(columns, column, row, named):
    with refused(f"row {row}", *named, field=f"targets.{column}"):
        conform(targets(**columns), "targets")


CELLS = {"query_id": ["p", "q"], "rank": [1, 2]}
RESPONSES = {"run_id": "r", "query_id": ["p", "q"]}
RUNS = {"run_id": ["a", "b"]}


@pytest.mark.parametrize(
    ("kind", "columns", "row", "named"),
    [
        ("hits", CELLS | {"run_id": ["r", None]}, 1, []),
        ("hits", CELLS | {"run_id": [False, True]}, 0, []),
        # "False" would count as a failure
        ("responses", RESPONSES | {"error": [False, True]}, 0, []),
        ("responses", RESPONSES | {"refused": [True, "no"]}, 1, ["'no'"]),
        ("runs", RUNS | {"created_at": [1_760_000_000] * 2}, 0, [1760000000]),
        ("runs", RUNS | {"created_at": ["2026-01-31", "yesterday"]}, 1, [2]),
        ("runs", RUNS | {"created_at": ["2026-01-31", True]}, 1, [2]),
    ],
)
def test_run_ids_and_errors_are_texts_and_times_no_numbers(kind, columns, row, named):
    with refused(f"row {row}", *named, field=f"{kind}.{[*columns][-1]}"):
        conform(pd.DataFrame(columns), kind)


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


def test_what_fits_is_cast_without_loss():
    given = {"grade": [1.0, 3.0], "start": [2**60, None], "doc_id": [7, 8],
             "chunk_id": [None, None], "end": ["4", "5"]}  # fmt: skip
    frame = conform(targets(**given), "targets")
    dtypes = ["int32", "Int64", "str", "str", "Int64"]
    assert frame.dtypes[[*given]].astype("str").tolist() == dtypes
    assert frame[["grade", "doc_id", "end"]].to_numpy().tolist() == [[1, "7", 4], [3, "8", 5]]
    objects = conform(targets(start=pd.Series([2**60 + 1, None], dtype=object)), "targets")
    # floats would have made it 2**60
    assert objects["start"].iloc[0] == 2**60 + 1 and pd.isna(objects["start"].iloc[1])


@pytest.mark.parametrize(
    ("values", "kept"),
    [([2**53 + 1, 0.5], ["9007199254740993", "0.5"]), ([10**400], [str(10**400)])],
)
def test_own_columns_keep_numbers_that_no_float_holds(values, kept):
    rows = [
        {"query_id": f"q{n}", "query": "?", "answerable": None, "position": n, "x_n": value}
        for n, value in enumerate(values)
    ]
    assert from_records(rows, "queries")["x_n"].tolist() == kept


def test_selecting_a_run_keeps_its_problems_and_those_of_no_run():
    rows = pd.DataFrame({"run_id": ["a", "b", None], "found": ["a", "b", "all"], "file": "f"})
    problems = rows.assign(line=1, field=None, allowed=None)
    runs = pd.DataFrame({"run_id": ["a", "b"]})
    results = rs.Results(runs, runs.assign(query_id="q"), problems=problems)
    assert results.select(["b"]).problems["found"].tolist() == ["b", "all"]


def test_selecting_questions_keeps_what_those_got_in_every_frame():
    runs = pd.DataFrame({"run_id": ["a", "b"]})
    cells = pd.DataFrame({"run_id": ["a", "a", "b"], "query_id": ["p", "q", "q"]})
    ranked = cells.assign(rank=1)
    results = rs.Results(
        runs, cells, ranked, hit_meta=ranked.assign(key="year", value="2024"),
        chunks=pd.DataFrame({"chunk_id": ["c"]}),
    )  # fmt: skip
    of_q = results.select(["b", "a"], query_ids=["q", "never asked"])
    assert of_q.runs["run_id"].tolist() == ["b", "a"]
    for frame in (of_q.responses, of_q.hits, of_q.hit_meta):
        assert frame[["run_id", "query_id"]].to_numpy().tolist() == [["a", "q"], ["b", "q"]]
    assert len(of_q.chunks) == 1 and len(of_q.citations) == 0
    one = [results.select("a", which) for which in (pd.Series(["p"]), "p", None)]
    assert [len(found.hits) for found in one] == [1, 1, 2]


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


def golden_with(targets):
    return rs.Golden(QUERIES, pd.DataFrame(targets))


def target(query_id="q1", level="doc", target_id="d1", **more):
    return {"query_id": query_id, "level": level, "target_id": target_id, **more}


@pytest.mark.parametrize(
    ("targets", "field", "named"),
    [
        (
            [target(grade=1), target(grade=2)],
            "targets",
            [1, "q1 / doc / d1 / 0", "query_id, level, target_id, alternative"],
        ),
        (
            [target(alternative=0, grade=1), target(alternative=1, grade=2)],
            "targets.target_id",
            ["row 0", "'d1'", "2 of 2"],
        ),
        (
            [target(level="document")],
            "targets.level",
            ["row 0", "'document'", "1 of 1", "chunk, doc, anchor, text, source_key, predicate"],
        ),
        (
            [target(), target("Q2")],
            "targets.query_id",
            ["row 1", "'Q2'", "1 of 2", "golden.select"],
        ),
        ([target(grade=-1)], "targets.grade", ["row 0", -1, "1 of 1"]),
        ([target(grade=0.5)], "targets.grade", ["row 0", 0.5, "1 of 1"]),
    ],
)
def test_targets_that_nothing_could_be_made_of_are_refused(targets, field, named):
    with refused(*named, field=field):
        golden_with(targets)


@pytest.mark.parametrize("frame", ["tags", "checks", "support_groups", "conditions"])
def test_rows_about_unknown_queries_are_refused(frame):
    rows = {
        "tags": {"kind": "tag", "value": "x"},
        "checks": {"kind": "forbidden", "text": "x"},
        "support_groups": {"group": 0, "target_id": "d1"},
        "conditions": {"target_id": "d1", "key": "year", "value": "1"},
    }[frame]
    with refused("row 0", "'q9'", field=f"{frame}.query_id"):
        rs.Golden(QUERIES, **{frame: pd.DataFrame([{"query_id": "q9", **rows}])})


@pytest.mark.parametrize(
    ("level", "column"), [("doc", "doc_id"), ("chunk", "chunk_id"), ("source_key", "source_key")]
)
def test_a_target_without_an_id_is_what_its_target_id_names(level, column):
    golden = golden_with([target(level=level, target_id="x"), target("q2", level, "y")])
    assert golden.targets[column].tolist() == ["x", "y"]
    some = golden_with([target(level=level, target_id="x", **{column: "own"}), target("q2", level)])
    assert some.targets[column].tolist() == ["own", "d1"]


def test_a_part_of_a_golden_set_is_selected():
    golden = rs.Golden(
        QUERIES.assign(lang=["de", "en", "de"]),
        pd.DataFrame([target(), target("q2"), target("q3")]),
        tags=pd.DataFrame({"query_id": ["q1", "q2"], "kind": "tag", "value": "x"}),
    )
    german = golden.select("lang == 'de'")
    assert german.targets["query_id"].tolist() == ["q1", "q3"]
    assert german.tags["query_id"].tolist() == ["q1"]
    assert golden.select(golden.queries["lang"] == "de").golden_hash == german.golden_hash
    assert golden.select(["q1", "q3"]).golden_hash == german.golden_hash
    for wrong in ("q9", "lang == 'fr'", ["q1", "q9"], np.array([True])):
        with refused(field="queries"):
            golden.select(wrong)


@pytest.mark.parametrize(
    ("runs", "named", "field"), [(["a"], ["'b'", "a"], "hits"), (["b", "b"], ["b"], "runs")]
)
def test_runs_that_are_not_there_or_twice_are_refused_with_their_names(runs, named, field):
    hits = pd.DataFrame({"run_id": ["b"], "query_id": "q1", "rank": 1, "doc_id": "d1"})
    responses = pd.DataFrame({"run_id": runs[:1], "query_id": "q1"})
    with refused(*named, field=field):
        rs.Results(pd.DataFrame({"run_id": runs}), responses, hits)


def test_hits_that_belong_to_no_response_are_counted_and_said():
    hits = pd.DataFrame(
        {"run_id": "a", "query_id": ["q1", "q2", "q2"], "rank": [1, 1, 2], "doc_id": "d1"}
    )
    results = rs.Results(
        pd.DataFrame({"run_id": ["a"]}), pd.DataFrame({"run_id": ["a"], "query_id": "q1"}), hits
    )
    golden = rs.Golden(QUERIES[:1], pd.DataFrame([target()]))
    with warned("2 hits"):
        assert rs.score(results, golden, "mrr")["mrr"].tolist() == [1]


def results_with(frame, column, value):
    key = {"run_id": ["a"], "query_id": ["q"]}
    frames = {
        "runs": {"run_id": ["a"]},
        "responses": key,
        "hits": key | {"rank": [1], "doc_id": ["d"]},
        "judgments": key | {"criterion": ["c"], "item": [""], "value": [1.0]},
        "reported": key | {"metric": ["theirs"], "value": [1.0]},
    }
    frames[frame] = frames[frame] | {column: [value]}
    return rs.Results(**{name: pd.DataFrame(columns) for name, columns in frames.items()})


WHOLE = [("runs", "k"), ("responses", "prompt_tokens"), ("hits", "rank"), ("hits", "start")]
FINITE = [
    ("responses", "elapsed_ms"), ("responses", "cost_usd"), ("judgments", "value"),
]  # fmt: skip
TOO_LARGE = [
    *((*of, value) for of in WHOLE for value in [*HUGE, np.inf, -np.inf, "1e999"]),
    *((*of, value) for of in FINITE for value in [np.inf, -np.inf, "1e999", "inf"]),
    ("responses", "latency_search_ms", np.inf),
    ("hits", "score", "1e999"), ("hits", "score", "-1e400"),
    ("responses", "x_n", HUGE[0]), ("responses", "x_n", HUGE[1]),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "column", "value"), TOO_LARGE, ids=lambda one: str(one)[:9])
def test_a_number_beyond_its_column_names_the_field_and_its_row(frame, column, value):
    with refused(frame, column, 0):
        results_with(frame, column, value)


@pytest.mark.parametrize(
    ("frame", "column", "value"),
    [*((*of, np.nan) for of in FINITE), ("responses", "latency_search_ms", np.nan),
     ("hits", "score", -np.inf), ("reported", "value", np.inf)],
)  # fmt: skip
def test_nan_is_unknown_and_scores_and_reported_values_may_be_infinite(frame, column, value):
    held = getattr(results_with(frame, column, value), frame)[column]
    assert held.tolist() == pytest.approx([value], nan_ok=True)


def test_numbers_of_many_digits_are_refused_in_every_form():
    with refused(file="frame", line=1, field="score"):
        rs.load_results(pd.DataFrame({"query_id": ["q"], "doc_id": ["d"], "score": ["1e999"]}))
    with refused("a finite number", file="dict", line=1, field="hits"):
        rs.load_results({"q": {"d": 10**400}})
    with refused(0, field="queries.x_n"):
        rs.Golden(pd.DataFrame({"query_id": ["q"], "x_n": HUGE[:1]}))


# Frames of a golden set or of results that are changed after a first evaluation


# D1 and d1: what is changed is how ids are written


@pytest.fixture
def both():
    golden = rs.load_golden({"q0": ["D1"], "q1": ["D2"]})
    return golden, rs.load_results({"q0": ["d1"], "q1": ["D2"]})


def found(golden, results, metric="hit@5"):
    return rs.evaluate(results, golden, metric).scores[metric].tolist()


@pytest.mark.filterwarnings("ignore:ids of:UserWarning")
def test_changed_ids_of_targets_count_in_the_next_evaluation_alone(both):
    golden, results = both
    first, before = rs.evaluate(results, golden, "hit@5"), golden.golden_hash
    golden.targets["doc_id"] = golden.targets["doc_id"].str.lower()
    assert found(*both) == [1, 0] and golden.golden_hash != before
    # the first evaluation has frames of its own
    assert first.golden.golden_hash == before and first.summary("mrr")["mean"].tolist() == [0.5]


@pytest.mark.filterwarnings("ignore:ids of:UserWarning")
def test_changed_queries_count(both):
    both[0].queries["answerable"] = pd.array([True, False], "boolean")
    assert found(*both) == [0, pytest.approx(float("nan"), nan_ok=True)]
    both[0].queries["query_id"] = ["q0", "q7"]
    with refused("q1", field="targets.query_id"):
        found(*both)


@pytest.mark.filterwarnings("ignore:ids of:UserWarning")
@pytest.mark.parametrize("is_replaced", [True, False])
@pytest.mark.parametrize(
    ("name", "column", "values", "metric", "expected"),
    [
        ("hits", "doc_id", ["d1", "d2"], "hit@5", [0, 0]),
        ("responses", "error", "broken", "failed", [1, 1]),
        ("hits", "run_id", "run", "hit@5", [0, 1]),  # texts, which become categories again
    ],
)
def test_changed_results_count(both, name, column, values, metric, expected, is_replaced):
    golden, results = both
    first = rs.evaluate(results, golden, ["hit@5", "failed"])
    if is_replaced:
        setattr(results, name, getattr(results, name).assign(**{column: values}))
    else:
        getattr(results, name)[column] = values
    assert found(golden, results, metric) == expected
    assert first.summary("mrr")["mean"].tolist() == [0.5]


@pytest.mark.filterwarnings("ignore:ids of:UserWarning")
def test_changed_columns_are_checked_like_new_ones(both):
    both[1].hits["rank"] = "first"
    with refused("first"):
        found(*both)

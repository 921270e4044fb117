"""Frames made by hand: what fits a column, what is refused and how that is named; joins, ranks."""

import datetime as dt
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import answer, hit, record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragscore as rs
from ragscore.frames import codes
from ragscore.frames.codes import has_pair, is_among, lookup, pair_numbers
from ragscore.frames.data import conform, from_records
from ragscore.frames.errors import (
    DataError,
    check_choice,
    nearest,
    packages_of,
    unsaid,
    warn,
)
from ragscore.frames.golden_versions import hashes_by_query
from ragscore.scoring import rules as match
from ragscore.scoring.policies import Policies
from ragscore.scoring.score import scored
from tests.messages import check, refused, warned

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


def test_selecting_runs_and_questions_keeps_what_those_got_in_every_frame():
    runs = pd.DataFrame({"run_id": ["a", "b"]})
    cells = pd.DataFrame({"run_id": ["a", "a", "b"], "query_id": ["p", "q", "q"]})
    ranked = cells.assign(rank=1)
    results = rs.Results(
        runs, cells, ranked, hit_meta=ranked.assign(key="year", value="2024"),
        chunks=pd.DataFrame({"chunk_id": ["c"]}),
        problems=pd.DataFrame({"run_id": ["a", "b", None], "found": ["a", "b", "all"], "file": "f",
                               "line": 1, "field": None, "allowed": None}),
    )  # fmt: skip
    assert results.select(["b"]).problems["found"].tolist() == ["b", "all"]
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
            {"query_id": ["q1", "q3"], "level": "doc", "target_id": ["a", "b"], "grade": [1, 0]}
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
        rs.Golden(QUERIES, pd.DataFrame(targets))


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
    x = target(level=level, target_id="x")
    for rows, ids in (
        ([x, target("q2", level, "y")], ["x", "y"]),
        ([x | {column: "own"}, target("q2", level)], ["own", "d1"]),
    ):
        assert rs.Golden(QUERIES, pd.DataFrame(rows)).targets[column].tolist() == ids


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
    for wrong, named in (
        ("q9", "q9"), ("lang == 'fr'", "no query"), (["q1", "q9"], "query 'q9'"),
        (["q8", "q1", "q9"], "query q8, q9"), (np.array([True]), "each of the 3 queries"),
    ):  # fmt: skip
        with refused(named, field="queries"):
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
     ("hits", "score", -np.inf), ("reported", "value", np.inf), ("responses", "x_n", np.inf)],
)  # fmt: skip
def test_nan_is_unknown_and_scores_and_reported_values_may_be_infinite(frame, column, value):
    held = getattr(results_with(frame, column, value), frame)[column]
    assert held.tolist() == pytest.approx([value], nan_ok=True)


def test_numbers_of_many_digits_are_refused_in_every_form():
    scores = pd.DataFrame({"query_id": ["q"], "doc_id": ["d"], "score": ["1e999"]})
    for content, about in (
        (scores, {"file": "frame", "field": "score"}),
        ({"q": {"d": 10**400}}, {"file": "dict", "field": "hits"}),
    ):
        with refused("a finite number", line=1, **about):
            rs.load_results(content)
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


# How messages name things: the nearest of what is known, and never a list of thousands.

KNOWN_IDS = [f"pd-{n:03}" for n in range(60)]


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("hits@1", ["mrr@10", "hit@1"], "one of mrr@10, hit@1; did you mean hit@1?"),
        ("MRR@10", ["mrr@10", "hit@1"], "one of mrr@10, hit@1; did you mean mrr@10?"),
        ("dense", ["dense-v2-2024", "hybrid"], "one of dense-v2-2024, hybrid; did you mean dense-"),
        ("nobody", ["dense", "hybrid"], "one of dense, hybrid"),
        ("x", [], "there are none"),
        ("pd-14", KNOWN_IDS, "did you mean pd-014?"),
        (14, KNOWN_IDS, "did you mean pd-014?"),
        ("zz", KNOWN_IDS, "one of pd-000, pd-001, pd-002, pd-003, pd-004, pd-005, pd-006, pd-007,"),
        (None, ["a", "b"], "one of a, b"),
        (pd.DataFrame({"a": [1]}), ["a", "b"], "one of a, b"),
    ],
)
def test_the_nearest_of_known_names_is_named(name, known, text):
    assert nearest(name, known).startswith(text)


@pytest.mark.parametrize("value", [None, 5, [], ["doc"], pd.DataFrame(), pd.Series(["doc"])])
def test_a_choice_is_one_of_a_few_words(value):
    check_choice("doc", ("none", "doc"), "collapse")
    with refused("none, doc", field="collapse"):
        check_choice(value, ("none", "doc"), "collapse")


def test_of_an_extra_the_package_is_named_and_never_ours_of_the_index():
    with pytest.raises(DataError) as caught, packages_of("collect", field="system"):
        raise ModuleNotFoundError(name="httpx")
    check(caught.value, "httpx", "'.[collect]'", field="system")


def test_a_warning_that_is_kept_back_is_listed_and_others_are_given():
    with pytest.warns(UserWarning) as given, unsaid() as outer, unsaid("few") as said:
        with ThreadPoolExecutor(1) as pool:  # another thread keeps nothing back
            pool.submit(warn, "few hits there").result()
        warn("few hits")
        warn("many hits")
    assert (said, outer) == (["few hits"], ["many hits"])
    assert [str(one.message) for one in given] == ["few hits there"]


def test_an_error_names_a_few_of_many_columns_and_ids():
    many = pd.DataFrame([range(1_986)], columns=[f"q{n}" for n in range(1_986)])
    with pytest.raises(rs.DataError) as caught:
        rs.Golden(queries=many)
    assert "1,986 in all" in str(caught.value) and len(str(caught.value)) < 400


# Joins by integer codes say what pandas says about the texts, and scoring a checked set checks
# nothing again.

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
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records"):
            content = {key: value for key, value in sorted(row.items()) if value is not None}
            texts[row["query_id"]].append(
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


# The order of hits.


def hits(*rows, names=("query_id", "rank", "doc_id", "score")):
    return from_records(
        [{"run_id": "r", **dict(zip(names, row, strict=True))} for row in rows], "hits"
    )


FOUR = [("q", 1, "a", 0.5), ("q", 2, "b", 0.5), ("q", 3, "c", 0.9), ("p", 1, "z", -1.0)]
IN_32_BITS = [("q", 1, "a", 1.00000001), ("q", 2, "b", 1.0), ("q", 3, "c", 1e300),
              ("q", 4, "d", 1e200)]  # fmt: skip
ONE_WITHOUT = [("q", 1, "a", None), ("q", 2, "b", None), ("p", 1, "c", 1.0), ("p", 2, "d", 2.0)]


@pytest.mark.parametrize(
    ("rows", "ties", "ranks"),
    [
        (FOUR, "trec", [3, 2, 1, 1]),  # by score, then document descending
        (FOUR, "file", [1, 2, 3, 1]),
        (IN_32_BITS, "trec", [4, 3, 2, 1]),  # what differs beyond them is a tie
        ([*IN_32_BITS[:2], ("q", 3, "c", 1.0)], "trec64", [1, 3, 2]),
        (ONE_WITHOUT, "trec", [1, 2, 2, 1]),  # without any score, the order stays
        # documents are compared by their bytes
        ([("q", n, doc, 1) for n, doc in enumerate(["é", "a", "Z", "9", "10"][::-1], 1)], "trec",
         [5, 4, 3, 2, 1]),
        ([("q", None, "a", 1), ("p", None, "b", 1), ("q", None, "c", 1)], "file", [1, 1, 2]),
    ],
)  # fmt: skip
def test_hits_rank_as_the_file_says_or_as_trec_eval_ranks(rows, ties, ranks):
    columns = ["query_id", "rank", "doc_id", "score"]
    frame = pd.DataFrame(rows, columns=columns).assign(run_id="r")
    assert rs.match.rank_hits(frame, ties)["rank"].tolist() == ranks


def test_ranks_from_0_are_moved_up_in_the_lists_that_have_them_and_that_is_said():
    some = hits(("q", 0, "a", 2.0), ("q", 1, "b", 1.0), ("p", 1, "a", 1.0), ("q", 1, "b", 1.0))
    both = some.assign(run_id=["r", "r", "r", "s"])
    with warned(0, 1, 3) as caught:
        assert rs.match.rank_hits(both)["rank"].tolist() == [1, 2, 1, 1]
    assert len(caught) == 1


def test_ranks_that_are_left_out_stay_so_and_are_counted_once():
    rows = hits(
        ("q", 1, "a", 3.0), ("q", 3, "b", 2.0), ("p", 2, "a", 1.0), ("o", 1, "a", 1.0),
        ("o", 2, "b", 1.0),
    )  # fmt: skip
    with warned("2 of 3", "'r'") as caught:
        assert rs.match.rank_hits(rows)["rank"].tolist() == [1, 3, 2, 1, 2]
    assert len(caught) == 1
    assert rs.match.rank_hits(rows, "trec")["rank"].tolist() == [1, 2, 1, 2, 1]


@pytest.mark.parametrize(
    ("ranks", "scores", "ties", "named"),
    [
        ((1, 1), (1, 2), "file", [1, "'q'", "'r'"]),
        ((-1, 1), (1, 2), "file", [-1]),
        ((1, 2), (1, None), "trec", ["1 of 2"]),
        ((1, 2), (1, 2), "score", ["file, trec, trec64"]),
    ],
)
def test_what_cannot_be_ranked_is_refused(ranks, scores, ties, named):
    with refused(*named):
        rs.match.rank_hits(
            hits(
                *(("q", rank, f"d{rank}", score) for rank, score in zip(ranks, scores, strict=True))
            ),
            ties,
        )


def test_no_hits_rank_to_no_hits():
    assert len(rs.match.rank_hits(hits(), "trec")) == 0 and len(rs.match.collapse_hits(hits())) == 0


PASSAGES = [
    hit("a1", "a", 1),
    hit("a2", "a", 2),
    hit("b1", "b", 3),
    hit("a3", "a", 4),
    hit("c1", "c", 5),
]


@pytest.fixture
def passages(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["b", "c"]}])
    )
    return rs.load_results(write_run("r", [record("q", PASSAGES)], k=10)), golden


def test_the_first_passage_of_a_document_stands_for_it(passages):
    results, golden = passages
    kept = rs.match.collapse_hits(results.hits)
    assert kept[["rank", "chunk_id"]].to_numpy().tolist() == [[1, "a1"], [2, "b1"], [3, "c1"]]
    labels = ["mrr", "recall@3", "precision@3", "judged@3"]
    assert rs.score(results, golden, labels).loc["q", labels].tolist() == pytest.approx(
        [1 / 3, 1 / 2, 1 / 3, 1 / 3]
    )
    # documents a b c, targets b c: first at rank 2, both within 3, two of three hits relevant and
    # judged
    assert rs.score(results, golden, labels, collapse="doc").loc[
        "q", labels
    ].tolist() == pytest.approx([1 / 2, 1, 2 / 3, 2 / 3])


def test_collapsing_takes_the_best_rank_in_any_order_and_keeps_hits_without_a_document(passages):
    hits = passages[0].hits
    kept = rs.match.collapse_hits(hits.iloc[[3, 4, 2, 1, 0]])
    assert kept[["rank", "chunk_id"]].to_numpy().tolist() == [[3, "c1"], [2, "b1"], [1, "a1"]]
    assert rs.match.collapse_hits(kept).equals(kept)
    without = hits.assign(doc_id=pd.Series([None, None, "b", None, "b"], dtype="str"))
    assert rs.match.collapse_hits(without)["rank"].tolist() == [1, 2, 3, 4]


def test_collapsing_leaves_answers_and_empty_results_alone(write_run):
    row = {"id": "q", "query": "?", "expected_doc_ids": ["a"], "must_contain": ["yes"]}
    cited = answer("yes") | {"citations": [{"marker": "[1]", "chunk_id": "a2", "doc_id": "a"}]}
    results = rs.load_results(write_run("r", [record("q", PASSAGES, answer=cited)]))
    labels, golden = ["citation_coverage", "answer_checks", "empty"], rs.load_golden([row])
    for how in ("none", "doc"):
        assert rs.score(results, golden, labels, collapse=how).loc["q", labels].tolist() == [
            1,
            1,
            0,
        ]


EMPTY = [
    {"id": "has", "query": "?", "expected_doc_ids": ["a"]},
    {"id": "none", "query": "?", "answerable": True, "expected_doc_ids": {"x": 0}},
    {"id": "refuse", "query": "?", "answerable": False},
    {"id": "unseen", "query": "?", "answerable": True, "reference_answer": "yes"},
]


VACUOUS = ["recall@5", "hit@5", "mrr", "map@5", "ndcg@5", "precision@5"]
FULL = dict.fromkeys(["recall", "hit", "mrr", "map", "ndcg"], 1.0) | {"precision": 0.0}


@pytest.mark.parametrize(
    ("empty", "expected"),
    [({}, [0] * 6), (FULL, [1, 1, 1, 1, 1, 0]), (dict.fromkeys(FULL, 0.0), [0] * 6)],
)
@pytest.mark.parametrize("n_hits", [0, 2])
def test_a_query_without_anything_relevant_has_the_value_asked_for(
    write_run, empty, expected, n_hits
):
    golden, profile = rs.load_golden(EMPTY), rs.Reading("own", {"match": "doc"}, empty=empty)
    results = rs.load_results(
        write_run("r", [record(name, PASSAGES[:n_hits]) for name in ("has", "none", "refuse")])
    )
    # judged with grade 0 throughout is judged, as for trec_eval
    with nullcontext() if empty else warned("1 of 2", "grades of 0"):
        scores = rs.score(results, golden, VACUOUS, missing="zero", profile=profile)
    scores = scores[VACUOUS]
    assert [None if pd.isna(value) else value for value in scores.loc["none"]] == expected
    assert scores.loc["has", "mrr"] == (n_hits > 0) and scores.loc["refuse"].isna().all()
    # never answered: a failure, not a vacuous success
    assert (scores.loc["unseen"] == 0).all() if empty else scores.loc["unseen"].isna().all()


def test_a_query_with_targets_at_another_level_only_is_not_empty(write_run):
    golden = rs.load_golden(
        [*EMPTY[:1], {"id": "chunks", "query": "?", "expected_chunk_ids": ["a1"]}]
    )
    results = rs.load_results(
        write_run("r", [record(name, PASSAGES) for name in ("has", "chunks")])
    )
    profile = rs.Reading("own", {"match": "doc"}, empty=FULL)
    scores = rs.score(results, golden, ["mrr", "judged@5", "passed"], profile=profile)
    assert scores.loc["has", "mrr"] == 1
    assert scores.loc["chunks", ["mrr", "passed"]].isna().all()


def test_a_scoring_names_every_policy_its_profile_and_its_rule(passages):
    made = scored(*passages, profile="trec").settings.iloc[0]
    assert set(json.loads(made["policies"])) == set(asdict(Policies()))
    assert json.loads(made["policies"])["missing"] == "zero" and (
        made["profile"],
        made["level"],
        made["rule"],
    ) == ("trec", "doc", "by_doc")
    by_span = scored(*passages, rule=rs.match.by_span).settings.iloc[0]
    assert by_span["rule"].startswith("by_span") and pd.isna(by_span["profile"])
    with refused("never", field="missing"):
        scored(*passages, missing="never")

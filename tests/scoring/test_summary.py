"""Means by run and slice, with honest denominators; and the coverage shown before them."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import MISSES, RUN_A, THREE_QUERIES, answer, hit, record

import ragscore as rs
from ragscore.golden.coverage import coverage
from ragscore.scoring.score import scored
from ragscore.scoring.summary import summarize
from tests.messages import refused, says, warned


def _settings(*of, **how):
    return scored(*of, ["failed"], **how).settings


@pytest.fixture
def tagged(write_golden, write_run):
    rows = [
        THREE_QUERIES[0] | {"tags": ["x", "y"], "difficulty": "easy"},
        THREE_QUERIES[1] | {"tags": ["x"], "difficulty": "hard"}, THREE_QUERIES[2],
        {"id": "no", "query": "?", "answerable": False, "difficulty": "hard"},
    ]  # fmt: skip
    return rs.load_results(
        write_run("a", [*RUN_A, record("no", [], answer=answer("no", grounded=False))])
    ), rs.load_golden(write_golden(rows))


def test_a_mean_is_the_plain_mean_of_its_column(tagged):
    scores = rs.score(*tagged)
    row = summarize(scores).set_index("metric").loc["mrr@10"]
    values = scores["mrr@10"].dropna()
    assert (row["mean"], row["n"], row["sum"], row["std"], row["p50"], row["max"]) == (
        values.mean(),
        3,
        values.sum(),
        values.std(),
        values.median(),
        1,
    )
    assert row["p95"] == pytest.approx(np.quantile(values, 0.95), abs=1e-12)


def test_a_query_with_several_tags_counts_in_each_and_one_without_in_none(tagged):
    results, golden = tagged
    table = summarize(rs.score(results, golden), golden, by="tags", metrics=["hit@1"]).set_index(
        "tags"
    )
    assert table["n"].to_dict() == {"(none)": 1, "x": 2, "y": 1}
    assert table["mean"].to_dict() == {"(none)": 0, "x": 0.5, "y": 1}


def test_a_metric_that_applies_to_no_query_has_n_0_and_nan(tagged):
    row = summarize(rs.score(*tagged, "all")).set_index("metric").loc["answer_checks"]
    assert row["n"] == 0 and row[["mean", "low", "high", "sum"]].isna().all()


def test_n_expected_counts_what_failed_or_is_missing(write_golden, write_run):
    rows = [*THREE_QUERIES, {"id": "no", "query": "?", "answerable": False}]
    golden = rs.load_golden(write_golden(rows))
    results = rs.load_results(write_run("a", [RUN_A[0], record("q2", [], error="late")]))
    with warnings.catch_warnings():
        done = scored(results, golden, "all")
        scores = done.scores
    table = summarize(scores, golden, rows=done.rows).set_index("metric")
    # q3 and `no` are missing: hit@1 was expected of q3, refusal_correct of `no`; q2 failed and
    # counts as a miss
    assert table.loc["hit@1", ["n", "n_expected", "n_failed", "n_missing"]].tolist() == [2, 3, 1, 2]
    assert table.loc["latency_ms", ["n", "n_expected"]].tolist() == [1, 3]


def test_binary_metrics_get_wilson_intervals_and_bounded_ones_its_form(tagged):
    table = summarize(rs.score(*tagged)).set_index("metric")
    z2 = 1.959963984540054**2  # Wilson for 1 of 3
    centre, half = (1 / 3 + z2 / 6) / (1 + z2 / 3), (z2 * (2 / 27 + z2 / 36)) ** 0.5 / (1 + z2 / 3)
    assert table.loc["hit@1", ["low", "high"]].tolist() == pytest.approx(
        [centre - half, centre + half], abs=1e-12
    )
    mean, std = table.loc["mrr@10", ["mean", "std"]]
    # the n that the spread amounts to; t², 2 degrees of freedom
    n, t2 = mean * (1 - mean) / (std**2 / 3) + 1, 0.95**2 / (2 * 0.975 * 0.025)
    centre, half = (
        (mean + t2 / n / 2) / (1 + t2 / n),
        (t2 * (mean * (1 - mean) / n + t2 / n**2 / 4)) ** 0.5 / (1 + t2 / n),
    )
    # with L = 1.1 all but 10^−5L is trusted
    assert table.loc["mrr@10", ["low", "high"]].tolist() == pytest.approx(
        [centre - half, centre + half], abs=1e-7
    )


def test_bad_slices_are_refused_with_the_choices(tagged):
    results, golden = tagged
    scores = rs.score(results, golden, ["mrr"])
    with refused("level", field="by"):
        summarize(scores, golden, by="level")
    with refused("golden", field="by"):
        summarize(scores, by="difficulty")
    with refused("hit@7", field="metrics"):
        summarize(scores, metrics=["hit@7"])


@pytest.mark.filterwarnings("ignore:.*unlabelled")
def test_coverage_counts_what_means_leave_out(write_golden, write_run):
    golden = rs.load_golden(
        write_golden(
            [
                *THREE_QUERIES,
                {"id": "no", "query": "?", "answerable": False},
                {"id": "free", "query": "?"},
            ]
        )
    )
    tied = [
        hit("c2", "d2", 1, retrieval={"fusion_score": 0.5}),
        hit("x", "dx", 2, retrieval={"fusion_score": 0.5}),
    ]
    file = write_run(
        "a",
        [
            record("q1", RUN_A[0]["hits_top_k"]),
            record("q2", tied),
            record("q3", MISSES[1::-1]),
            record("stray", []),
            record("no", [], error="late"),
        ],
    )
    results = rs.load_results(file)
    row = coverage(results, golden).runs.loc["a"]
    expected = {
        "n_golden": 5,
        "n_rows": 5,
        "n_missing": 1,
        "n_extra": 1,
        "n_failed": 1,
        "n_empty": 1,
        "n_unlabelled": 1,
        "n_should_refuse": 1,
        "n_rank_order": 1,
        "n_ties": 1,
        "n_cut": 0,
    }
    assert row.drop("k").astype(int).to_dict() == expected
    assert pd.isna(row["k"])
    found = coverage(results, golden).issues.groupby("issue")["query_id"].agg(list).to_dict()
    assert found == {
        "missing": ["free"],
        "extra": ["stray"],
        "empty": ["stray"],
        "rank order": ["q3"],
        "ties": ["q2"],
    }


def test_auto_takes_the_finest_level_that_covers_every_query(write_golden, write_run):
    rows = [*THREE_QUERIES[:2], {"id": "q3", "query": "?", "expected_doc_ids": ["d3"]}]
    results = rs.load_results(write_run("a", RUN_A))
    made = _settings(results, rs.load_golden(write_golden(rows))).iloc[0]
    assert made["level"] == "doc"
    says(made["left_out"], "chunk", "1 of 3")
    assert (
        _settings(results, rs.load_golden(write_golden(THREE_QUERIES))).iloc[0]["level"] == "chunk"
    )


def test_per_query_takes_each_querys_finest_level(write_golden, write_run):
    rows = [
        THREE_QUERIES[0] | {"expected_chunk_ids": ["other chunk of d1", "c2"]},
        {"id": "q2", "query": "?", "expected_doc_ids": ["d2"]},
    ]
    results, golden = rs.load_results(write_run("a", RUN_A[:2])), rs.load_golden(write_golden(rows))
    scores = rs.score(results, golden, ["hit@5"], match="per_query")
    assert scores["level"].astype("str").to_dict() == {"q1": "chunk", "q2": "doc"}
    assert scores["hit@5"].to_dict() == {"q1": 0, "q2": 1}


MIXED = [
    *({"id": f"q{n}", "query": "?", "expected_chunk_ids": [f"c{n}"]} for n in (1, 2, 3)),
    {"id": "q4", "query": "?", "expected_doc_ids": ["d4"]},
]
FOUND = [{"query_id": f"q{n}", "chunk_id": f"c{n}", "doc_id": f"d{n}"} for n in (1, 2, 3, 4)]


def test_a_query_with_targets_at_another_level_is_said_and_expected(write_golden):
    golden, results = rs.load_golden(write_golden(MIXED)), rs.load_results(FOUND)
    with warned(1, 4, "per_query"):
        ev = rs.evaluate(results, golden, metrics=["hit@5", "passed"])
    assert ev.summary()[["n", "n_expected"]].to_numpy().tolist() == [[3, 4], [3, 4]]
    (left_out,) = ev.settings["left_out"]
    says(left_out, "chunk", "1 of 4")
    ledger = ev.explain("hit@5").set_index("query_id")
    assert ledger.loc["q4", "state"] == "undecided"
    says(ledger.loc["q4", "reason"], "match='per_query'")


@pytest.mark.parametrize(("match", "n"), [("chunk", 3), ("doc", 1), ("per_query", 4)])
def test_a_level_of_ones_own_choice_warns_of_nothing_and_expects_all(write_golden, match, n):
    golden, results = rs.load_golden(write_golden(MIXED)), rs.load_results(FOUND)
    table = rs.evaluate(results, golden, metrics=["mrr"], match=match).summary()
    assert table[["n", "n_expected"]].to_numpy().tolist() == [[n, 4]]


@pytest.mark.parametrize("kind", ["trec", "records", "dict"])
def test_a_query_that_no_hit_names_is_said_and_can_count_as_empty(kind, tmp_path):
    (tmp_path / "a.trec").write_text("q1 Q0 d1 1 1.0 a\nq2 Q0 d2 1 1.0 a\n")
    rows = [{"query_id": f"q{n}", "doc_id": f"d{n}", "run_id": "a"} for n in (1, 2)]
    found = {"a": {"q1": ["d1"], "q2": ["d2"]}}
    source = {"trec": tmp_path / "a.trec", "records": rows, "dict": found}[kind]
    golden = rs.load_golden({"q1": ["d1"], "q2": ["d2"], "q3": ["d3"]})
    with warned("a", 1, "missing", "zero"):
        ev = rs.evaluate(source, golden, metrics=["hit@5"])
    counts = ["mean", "n", "n_expected"]
    assert ev.summary()[counts].iloc[0].tolist() == [1.0, 2, 3]
    zero = rs.evaluate(source, golden, metrics=["hit@5"], missing="zero")
    assert zero.summary()[counts].iloc[0].tolist() == [2 / 3, 3, 3]


def test_an_empty_golden_column_is_one_slice():
    frame = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["d1", "d2"], "difficulty": None})
    ev = rs.evaluate({"q1": ["d1"], "q2": ["x"]}, frame.assign(own=np.nan), metrics=["hit@5"])
    table = ev.summary(by=["difficulty", "own"])
    assert table[["difficulty", "own", "mean"]].to_numpy().tolist() == [["(none)"] * 2 + [0.5]]


def test_runs_are_named_by_id_or_unambiguous_system(write_run):
    files = [
        write_run(name, RUN_A, system=system)
        for name, system in (("a1", "bm25"), ("a2", "bm25"), ("b", "dense"))
    ]
    results = rs.load_results(files)
    assert results.select(["dense", "a2"]).runs["run_id"].tolist() == ["b", "a2"]
    with refused("bm25", 2, "a1", "a2", field="run"):
        results.select(["bm25"])


def test_the_same_run_twice_is_refused(pair):
    results, _ = pair
    with refused("a", "b", field="runs.run_id"):
        rs.Results.concat([results, results])
    assert isinstance(results.runs["run_id"].dtype, pd.CategoricalDtype)


@pytest.mark.filterwarnings("ignore:.*to be refused with expected ids")
def test_targets_of_questions_to_refuse_do_not_choose_the_level(write_golden, write_run):
    golden = rs.load_golden(
        write_golden(
            [
                THREE_QUERIES[0],
                {"id": "no", "query": "?", "answerable": False, "expected_doc_ids": ["d"]},
            ]
        )
    )
    assert _settings(rs.load_results(write_run("a", [*RUN_A[:1], record("no", [])])), golden)[
        "level"
    ].tolist() == ["chunk"]


def expected_of(results, golden, label, **policies):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        done = scored(results, golden, [label], **policies)
    return (
        summarize(done.scores, golden, rows=done.rows).set_index("metric").loc[label, "n_expected"]
    )


@pytest.mark.filterwarnings("ignore:.*unlabelled")
def test_passed_is_expected_where_there_is_something_to_pass(write_golden, write_run):
    rows = [
        THREE_QUERIES[0],
        {"id": "no", "query": "?", "answerable": False},
        {"id": "none", "query": "?", "expected_empty": True},
    ]
    rows += [
        {"id": "clean", "query": "?", "must_not_contain_source_keys": ["k"]},
        {"id": "free", "query": "?"},
    ]
    assert (
        expected_of(
            rs.load_results(write_run("a", [record("stray", [])])),
            rs.load_golden(write_golden(rows)),
            "passed",
        )
        == 4
    )


def test_columns_of_ones_own_are_summarized_if_they_hold_numbers(tagged):
    results, golden = tagged
    scores = rs.score(results, golden, ["mrr"])
    own = scores.assign(
        long=[True, False, True, False],
        note="text",
        tokens=pd.array([1, None, 4, None], dtype="Int64"),
    )
    table = summarize(own, golden).set_index("metric")
    assert (
        table["mean"].drop("mrr").to_dict() == {"long": 0.5, "tokens": 2.5}
        and table.loc["tokens", "n"] == 2
    )
    with refused("note", "mrr", "long", "tokens", field="metrics"):
        summarize(own, metrics=["note"])


def with_tag(golden, kind):
    return replace(
        golden, tags=pd.DataFrame({"query_id": ["q1", "q2"], "kind": kind, "value": ["u", "v"]})
    )


def test_a_slice_must_have_a_name_of_its_own(tagged):
    results, golden = tagged
    scores = rs.score(results, golden, ["mrr"])
    with refused("difficulty", field="by"):
        summarize(scores, with_tag(golden, "difficulty"), by="difficulty")
    for kind in ("query_id", "run_id", "mean", "mrr"):
        with refused(kind, field="by"):
            summarize(scores, with_tag(golden, kind), by=kind)
    assert summarize(scores, with_tag(golden, "level"), by="level")["level"].tolist() == [
        "(none)",
        "u",
        "v",
    ]


def test_a_catalogue_of_one_run_says_nothing_about_another(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES[:1]))
    unknown = [record("q1", [hit("other", "d1", 1, chunker_version=None)])]
    results = rs.load_results([write_run("a", unknown), write_run("b", unknown)])
    chunks = pd.DataFrame({"chunk_id": ["c1", "x"], "run_id": ["a", "b"]})
    assert _settings(replace(results, chunks=chunks), golden)["level"].tolist() == ["doc", "doc"]
    shared = chunks.assign(run_id=[None, "b"])
    assert _settings(replace(results, chunks=shared), golden)["level"].tolist() == [
        "chunk",
        "chunk",
    ]

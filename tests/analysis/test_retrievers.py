"""Retrievers side by side.

The published table from its rank lists, the matrix, the Markdown, stored outcomes.
"""

import json
import re

import pandas as pd
import pytest
from conftest import found, said
from published_retrievers import MS, QUESTIONS, records

import ragscore as rs
from ragscore.analysis.retrievers import retrievers
from tests.messages import refused, says, warned


@pytest.fixture
def published(tmp_path):
    for name, rows in (("queries.jsonl", QUESTIONS), ("results.jsonl", records())):
        (tmp_path / name).write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    return rs.load_results(tmp_path / "results.jsonl"), rs.load_golden(tmp_path / "queries.jsonl")


def test_the_published_table_comes_out_of_its_ranks(published):
    table = retrievers(*published).table.set_index("run_id").round(4)
    assert table["passed"].to_dict() == {"hybrid+rerank": 21, "bm25": 20, "hybrid": 15, "dense": 14}
    assert set(table["n_queries"]) == {21} and set(table["n_positive"]) == {19}
    assert table["precision_at_1_all"].to_dict() == {
        "hybrid+rerank": 0.9048,
        "bm25": 0.8095,
        "hybrid": 0.6190,
        "dense": 0.3810,
    }
    assert table["mrr_all"].to_dict() == {
        "hybrid+rerank": 0.9048,
        "bm25": 0.8333,
        "hybrid": 0.6190,
        "dense": 0.4405,
    }
    assert table["pass_rate"].to_dict() == {
        "hybrid+rerank": 1,
        "bm25": 0.9524,
        "hybrid": 0.7143,
        "dense": 0.6667,
    }
    assert table["latency_ms"].to_dict() == MS


def test_a_perfect_retriever_has_mrr_1_FLAW_upstream_put_queries_without_a_rank_into_the_mean(
    published,
):
    table = retrievers(*published).table.set_index("run_id").round(4)
    assert table["mrr"].to_dict() == {
        "hybrid+rerank": 1.0,
        "bm25": 0.9211,
        "hybrid": 0.6842,
        "dense": 0.4868,
    }
    # 19, 17, 13, 8 of 19
    assert table["precision_at_1"].to_dict() == {
        "hybrid+rerank": 1.0,
        "bm25": 0.8947,
        "hybrid": 0.6842,
        "dense": 0.4211,
    }


@pytest.mark.large
def test_scores_agree_with_the_report(published):
    scores = rs.score(*published, ["passed", "mrr", "hit@1"])
    means = scores.groupby("run_id", observed=True)[["passed", "mrr", "hit@1"]].mean()
    table = retrievers(*published).table.set_index("run_id")
    pd.testing.assert_frame_equal(
        means.astype("float64"),
        table[["pass_rate", "mrr", "precision_at_1"]].set_axis(means.columns, axis=1),
        check_names=False,
        check_index_type=False,
    )
    assert scores["mrr"].notna().groupby(scores["run_id"], observed=True).sum().tolist() == [19] * 4


@pytest.mark.large
def test_a_smaller_k_finds_less(published):
    table = retrievers(*published, k=2).table.set_index("run_id")
    assert table["passed"].to_dict() == {"hybrid+rerank": 21, "bm25": 20, "hybrid": 15, "dense": 10}
    # (8 + 3/3) / 21
    dense = retrievers(*published, k=3).table.set_index("run_id").loc["dense"]
    assert round(dense["mrr_all"], 4) == 0.4286


@pytest.mark.large
def test_every_hit_must_satisfy_if_asked(published):
    # only those without a rank
    assert retrievers(*published, hits="all").table["passed"].tolist() == [2, 2, 2, 2]
    table = retrievers(*published, k=1, hits="all").table.set_index("run_id")
    assert table["passed"].tolist() == [21, 19, 15, 10] and table["mrr"].round(4)["bm25"] == 0.8947


def test_the_matrix_shows_ranks(published):
    matrix = retrievers(*published).matrix
    assert list(matrix.columns) == ["bm25", "dense", "hybrid", "hybrid+rerank"] and list(
        matrix.index[-2:]
    ) == ["made up", "nowhere"]
    assert matrix.loc["question 17"].tolist() == ["✅ #2", "❌", "❌", "✅ #1"]
    assert matrix.loc["question 11"].tolist() == ["✅ #1", "✅ #4", "✅ #1", "✅ #1"]
    assert matrix.loc["made up"].tolist() == ["✅"] * 4


@pytest.mark.large
def test_what_was_not_asked_is_a_question_mark(tmp_path, published):
    _, golden = published
    lines = [
        said("question 0", [found(1, "key-0")]),
        said("question 1", [], error="timeout"),
        said("not golden", []),
    ]
    (tmp_path / "one.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    results = rs.load_results(tmp_path / "one.jsonl")
    assert retrievers(results, golden).matrix["dense"].tolist() == ["✅ #1", "❌"] + ["?"] * 19
    row = retrievers(results, golden).table.iloc[0]
    assert row[
        ["n_queries", "n_positive", "passed", "n_failed", "n_missing", "n_unjudged", "mrr"]
    ].tolist() == [2, 2, 1, 1, 19, 0, 0.5]


@pytest.mark.large
def test_a_failed_query_has_no_rank_and_no_latency(tmp_path, published):
    lines = [
        said("question 0", [found(1, "key-0")], error="late"),
        said("question 1", [found(2, "key-1")], elapsed_ms=3),
    ]
    (tmp_path / "one.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    row = retrievers(rs.load_results(tmp_path / "one.jsonl"), published[1]).table.iloc[0]
    assert row[["passed", "mrr", "precision_at_1", "latency_ms"]].tolist() == [1, 0.25, 0, 3]


@pytest.mark.large
def test_questions_of_other_kinds_are_counted_apart(tmp_path, write_golden):
    golden = rs.load_golden(
        write_golden(
            [
                {"id": "a", "query": "?", "expected_doc_ids": ["d"]},
                {"id": "b", "query": "!", "expected_source_keys": ["k"]},
            ]
        )
    )
    lines = [said("?", [found(1, "k")], query_id="a"), said("!", [found(1, "k")], query_id="b")]
    (tmp_path / "one.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    results = rs.load_results(tmp_path / "one.jsonl")
    assert retrievers(results, golden).table[
        ["n_queries", "passed", "n_unjudged"]
    ].to_numpy().tolist() == [[1, 1, 1]]
    assert retrievers(results, golden).matrix["dense"].to_dict() == {"a": "?", "b": "✅ #1"}


@pytest.mark.large
def test_the_markdown_report(published):
    text = retrievers(*published).to_markdown()
    says(text.splitlines()[0], "#", "k = 5")
    says(text.splitlines()[2], 21, 4)
    summary = [line for line in text.splitlines() if re.match(r"\| (hybrid|bm25|dense)", line)]
    assert (
        summary[0]
        == "| hybrid+rerank | 21 | 21 | 100.00% | 100.00% | 90.48% | 1.000 | 0.905 | 2064 |"
    )
    # by MRR, best first
    assert [line.split(" | ")[0] for line in summary] == [
        "| hybrid+rerank",
        "| bm25",
        "| hybrid",
        "| dense",
    ]
    assert "| query | bm25 | dense | hybrid | hybrid+rerank | note (expect_lessons_call) |" in text
    assert (
        "| `nowhere` | ✅ | ✅ | ✅ | ✅ | True |" in text
        and "| `question 17` | ✅ #2 | ❌ | ❌ | ✅ #1 |  |" in text
    )
    says(text, "P@1", 19)


def test_long_and_odd_queries_do_not_break_the_table(tmp_path):
    query = "a|b `c`\n" + "x" * 80
    (tmp_path / "queries.jsonl").write_text(
        json.dumps({"query": query, "expected_empty": True}) + "\n", encoding="utf-8"
    )
    (tmp_path / "results.jsonl").write_text(json.dumps(said(query, [])) + "\n", encoding="utf-8")
    text = retrievers(
        rs.load_results(tmp_path / "results.jsonl"), rs.load_golden(tmp_path / "queries.jsonl")
    ).to_markdown()
    assert f"| `a\\|b 'c' {'x' * 52}` | ✅ |" in text  # 60 characters


def test_stored_outcomes_are_reported_and_not_judged_again(tmp_path, published):
    results, golden = published
    found = retrievers(results, golden)
    rows, table = found.per_query, found.table.sort_values("run_id")
    file = rs.io.write_retriever_summary(results, tmp_path / "summary.jsonl", rows)
    first = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    assert first == {
        "query": "question 0", "retriever": "hybrid+rerank", "k": 5, "elapsed_ms": 2064.0,
        "n_hits": 5, "rank_first_match": 1, "passed": True, "kind": "positive",
    }  # fmt: skip
    with warned("say that there were hits (n_hits), and hold none"):
        stored = rs.load_results(file)
    told = stored.reported[stored.reported["metric"] == "passed"]
    assert told.groupby("run_id")["value"].sum().tolist() == table["passed"].tolist()
    with refused("hits", field="results"):
        retrievers(stored, golden)


def test_times_have_one_decimal_in_summaries_and_aggregates(tmp_path):
    for name, rows in (
        ("queries", [{"query": "a", "expected_source_keys": ["key-0"]}]),
        ("results", [said("a", [found(1, "key-0")], elapsed_ms=3.14159)]),
    ):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    results = rs.load_results(tmp_path / "results.jsonl")
    ev = rs.evaluate(results, rs.load_golden(tmp_path / "queries.jsonl"))
    rows = ev.retrievers().per_query
    file = rs.io.write_retriever_summary(results, tmp_path / "summary.jsonl", rows)
    assert json.loads(file.read_text(encoding="utf-8"))["elapsed_ms"] == 3.1
    assert ev.to_profile("seed-mcp")["dense"]["avg_latency_ms"] == 3.1


@pytest.mark.large
def test_cut_texts_leave_questions_undecided(tmp_path):
    questions = [
        {"query": "open", "expected_substrings": ["late"]},
        {"query": "sure", "expected_substrings": ["late"]},
        {"query": "met", "expected_substrings": ["late"]},
    ]
    hits = {
        "open": [found(1)],
        "sure": [found(1), found(2, document="late")],
        "met": [found(1, document="late"), found(2)],
    }
    for name, rows in (
        ("queries.jsonl", questions),
        ("results.jsonl", [said(query, one) for query, one in hits.items()]),
    ):
        (tmp_path / name).write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    results, golden = (
        rs.load_results(tmp_path / "results.jsonl"),
        rs.load_golden(tmp_path / "queries.jsonl"),
    )
    results = rs.Results(
        runs=results.runs, responses=results.responses, hits=results.hits.assign(text_cut=True)
    )
    with warned(3):
        matrix = retrievers(results, golden).matrix
    assert matrix["dense"].to_dict() == {"open": "?", "sure": "✅ #?", "met": "✅ #1"}
    with warned(3):
        row = retrievers(results, golden).table.iloc[0]
    # ranks: of "met" only
    assert row[
        ["n_queries", "passed", "n_unjudged", "mrr", "mrr_all", "precision_at_1"]
    ].tolist() == [2, 2, 1, 1, 1, 1]
    with warned(3, "misses"):
        assert retrievers(results, golden, unknown="miss").matrix["dense"].tolist() == [
            "❌",
            "✅ #2",
            "✅ #1",
        ]


@pytest.mark.large
@pytest.mark.parametrize(
    ("note", "shown"),
    [
        (True, "True"),
        (False, "False"),
        ("see lesson 3", "see lesson 3"),
        (["a|b", 1], '["a\\|b", 1]'),
        ({"lesson": 3}, '{"lesson": 3}'),
        (None, ""),
    ],
)
@pytest.mark.parametrize("name", ["queries.jsonl", "golden.yaml"])
def test_an_advisory_note_is_shown_and_changes_no_score(tmp_path, note, shown, name):
    ids = {"id": "noted"} if name == "golden.yaml" else {}
    rows = [
        {**ids, "query": "noted", "expected_empty": True, "expect_lessons_call": note},
        {**ids, "query": "plain", "expected_empty": True, "expect_lessons_call": "x"},
    ]
    rows[1] |= {"id": "plain"} if ids else {}
    (tmp_path / name).write_text(
        "".join(("- " if ids else "") + json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    (tmp_path / "results.jsonl").write_text(
        "".join(json.dumps(said(query, [])) + "\n" for query in ("noted", "plain")),
        encoding="utf-8",
    )
    results, golden = rs.load_results(tmp_path / "results.jsonl"), rs.load_golden(tmp_path / name)
    lines = [
        line
        for line in retrievers(results, golden).to_markdown().splitlines()
        if line.startswith("| `")
    ]
    assert [line.rsplit(" | ", 1)[1].removesuffix(" |").strip() for line in lines] == [shown, "x"]
    assert retrievers(results, golden).table[["n_queries", "passed"]].to_numpy().tolist() == [
        [2, 2]
    ]


def test_the_report_says_whether_hits_were_filtered_by_product(tmp_path):
    questions = [
        {"query": "a", "filters": {"product": "P1142"}, "expected_substrings": ["yield"]},
        {"query": "b", "expected_empty": True},
    ]
    hits = [found(1, document="P7 yield"), found(2, document="p1142 yield")]
    for name, rows in (
        ("queries.jsonl", questions),
        (
            "results.jsonl",
            [said("a", hits), said("b", []), said("a", hits[1:], "bm25"), said("b", [], "bm25")],
        ),
    ):
        (tmp_path / name).write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    results, golden = (
        rs.load_results(tmp_path / "results.jsonl"),
        rs.load_golden(tmp_path / "queries.jsonl"),
    )
    says(retrievers(results, golden).to_markdown(), 1, "product", "rs.match.filter_hits")
    filtered = retrievers(rs.match.filter_hits(results, golden), golden).to_markdown()
    says(filtered, 1, "product", "dense 1", "bm25 0")
    assert "| `a` | ✅ #1 | ✅ #1 |" in filtered
    assert (
        "product"
        not in retrievers(
            results, rs.load_golden(_without_filters(tmp_path, questions))
        ).to_markdown()
    )


def _without_filters(folder, questions):
    file = folder / "plain.jsonl"
    file.write_text(
        "".join(
            json.dumps({name: value for name, value in row.items() if name != "filters"}) + "\n"
            for row in questions
        ),
        encoding="utf-8",
    )
    return file

"""What a golden set can tell, and what it can't: its queries, ids, duplicates, metrics."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import THREE_QUERIES, answer, golden_of, hit, record, targets_of
from scipy import stats

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.golden.coverage import coverage
from tests.messages import refused, says

pytestmark = pytest.mark.filterwarnings("ignore:golden queries without a row")
DISCRIMINATES = {
    "q1": "all pass",
    "q2": "all fail",
    "q3": "tells apart",
    "q4": "one run",
    "q5": "not measured",
}
VALUES = {"A": [1.0, 0, 1, 1, None], "B": [1.0, 0, 0, None, None]}
CHANGED = {
    "A": [0.0] * 4 + [1.0] * 2 + [0.0] * 14,
    "B": [1.0] * 4 + [0.0] * 2 + [0.0] * 14,
}


def evaluated(values):
    """Runs whose hit@5 and mrr are these values: the document, another one, or no row (None)."""
    n = len(next(iter(values.values())))
    golden = {f"q{i}": ["d"] for i in range(1, n + 1)}
    runs = {
        run: {
            f"q{i}": ["d" if value else "x"]
            for i, value in enumerate(column, 1)
            if value is not None
        }
        for run, column in values.items()
    }
    parts = [rs.load_results(found, run_id=run) for run, found in runs.items()]
    return rs.evaluate(rs.Results.concat(parts), golden)


def health_of(values, metric="hit@5", **how):
    ev = evaluated(values)
    return ev.golden.health(ev, metric, **how)


def test_each_question_passes_fails_or_tells_runs_apart():
    health = health_of(VALUES)
    assert health.queries.set_index("query_id")["discriminates"].to_dict() == DISCRIMINATES
    says(repr(health), "tells apart", 1)


def test_the_number_of_queries_needed_is_the_formulas():
    # Differences b − a: 4 × 1, 2 × −1, 14 × 0: mean .1, sd² = (6 − 20 · .01) / 19. The least n with
    # n ≥ (t.975 + t.8)² sd²/δ², t of n − 1.
    needed = health_of(CHANGED, "mrr", differences=(0.1, 0.5)).needed
    variance = (6 - 20 * 0.01) / 19
    row = needed.iloc[0]
    assert row[["run_baseline", "run_candidate", "n"]].tolist() == ["A", "B", 20]
    # every question is alone in its group
    figures = row[["delta", "sd", "design_effect"]].tolist()
    assert figures == pytest.approx([0.1, variance**0.5, 1])
    n = np.arange(2, 500)
    least = (stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) ** 2 * variance
    by_hand = [int(n[n * difference**2 >= least][0]) for difference in (0.1, 0.5)]
    assert needed["n_needed"].tolist() == by_hand == [242, 12]
    assert needed["n_more"].tolist() == [222, 0]


def test_a_rate_needs_six_queries_that_change():
    # 6 of 20 differ; of fewer than 6 that changed, all one way, the exact p is .0625: 6 / .3 = 20.
    # To find .1, with s² = .3 − .1² = .29: (1.96 + .84)² · .29 / .1² + 1.96² / 2 is 229.5.
    needed = health_of(CHANGED, differences=(0.1, 0.5)).needed
    assert needed["n_needed"].tolist() == [230, 20]


def test_two_equal_runs_need_nobody_knows_how_many_queries():
    needed = health_of({"A": [1.0, 0, 1], "B": [1.0, 0, 1]}).needed
    assert needed["n_needed"].isna().all() and needed["n_more"].isna().all()


@pytest.mark.filterwarnings("ignore:ids of")
def test_targets_that_no_run_returned_are_named(write_golden, write_run):
    rows = [
        {"id": "q1", "query": "one thing", "expected_doc_ids": ["d1", "d2"]},
        {"id": "q2", "query": "another", "expected_doc_ids": [["d3", "d4"]]},
    ]
    runs = [
        write_run("A", [record("q1", [hit("c", "d1", 1)]), record("q2", [hit("c", "d2", 1)])]),
        write_run("B", [record("q1", [hit("c", "x", 1)]), record("q2", [hit("c", "x", 1)])]),
    ]
    ev = rs.evaluate(rs.load_results(runs), write_golden(rows))
    health = ev.golden.health(ev)
    # d2 came back for another question only; d3 has an alternative, and counts once
    columns = ["query_id", "target_id", "n_runs"]
    assert health.targets[columns].to_numpy().tolist() == [["q1", "d2", 2], ["q2", "d3", 2]]
    says(repr(health), 2, "targets", "passed")


def test_a_metric_that_can_not_be_passed_is_refused():
    for field, named, how in (
        ("metrics", ["mr"], {"metric": "mr"}),
        ("metric", [0, 1], {"metric": "failed"}),
        ("differences", [0], {"differences": (0,)}),
    ):
        with refused(*named, field=field):
            health_of(VALUES, **how)


# The ids of hits and targets, counted before any mean


@pytest.fixture
def two_runs():
    """Run a returns d1 twice, d9 and a hit without a document; run b d1 once, and nothing."""
    hits = [
        {"run_id": "a", "query_id": "q1", "rank": 1, "doc_id": "d1", "chunk_id": "c1"},
        {"run_id": "a", "query_id": "q1", "rank": 2, "doc_id": "d1", "chunk_id": "c2"},
        {"run_id": "a", "query_id": "q2", "rank": 1, "doc_id": "d1", "chunk_id": "c1"},
        {"run_id": "a", "query_id": "q2", "rank": 2, "doc_id": "d9", "chunk_id": None},
        {"run_id": "a", "query_id": "q2", "rank": 3, "doc_id": None, "chunk_id": "c3"},
        {"run_id": "b", "query_id": "q1", "rank": 1, "doc_id": "d1", "chunk_id": "c1"},
    ]
    responses = [
        {"run_id": run, "query_id": query, "query": "?", "error": None}
        for run in "ab"
        for query in ("q1", "q2")
    ]
    results = rs.Results(
        from_records([{"run_id": "a"}, {"run_id": "b"}], "runs"),
        from_records(responses, "responses"),
        from_records(hits, "hits"),
    )
    targets = [
        targets_of({"doc_id": "d1"}, {"doc_id": "d2"}, query_id="q1"),
        targets_of({"doc_id": "d2"}, query_id="q2"),
        targets_of({"level": "chunk", "target_id": "C1", "chunk_id": "C1"}, query_id="q2"),
    ]
    return results, golden_of(pd.concat(targets, ignore_index=True))


def test_ids_are_counted_by_run_and_level(two_runs):
    ids = coverage(*two_runs).ids
    # at level doc: four hits with one of d1, d9; expected are d1, d2; q1 expects both hits of d1
    expected = pd.DataFrame(
        [
            ("a", "chunk", 5, 4, 3, 1, 0, 0),
            ("a", "doc", 5, 4, 2, 2, 1, 2),
            ("b", "chunk", 1, 1, 1, 1, 0, 0),
            ("b", "doc", 1, 1, 1, 2, 1, 1),
        ],
        columns=[
            "run_id", "level", "n_hits", "n_with_id", "n_ids", "n_expected_ids", "n_joined_ids",
            "n_joined_hits",
        ],
    )  # fmt: skip
    pd.testing.assert_frame_equal(ids, expected.astype({"run_id": "str", "level": "str"}))


def test_coverage_shows_queries_and_ids_side_by_side(two_runs):
    assert (
        repr(coverage(*two_runs))
        == """\
Coverage of 2 golden queries by 2 runs

                                    a       b
n_golden                            2       2
n_rows                              2       2
n_missing                           0       0
n_failed                            0       0
n_empty                             0       1
k                                   —       —
hits with an id (chunk)        4 of 5  1 of 1
expected ids returned (chunk)  0 of 1  0 of 1
hits with an id (doc)          4 of 5  1 of 1
expected ids returned (doc)    1 of 2  1 of 2

Frames: .runs, .ids, .issues"""
    )


def test_a_golden_set_that_expects_no_ids_has_none_to_count(two_runs):
    results, golden = two_runs
    found = coverage(results, rs.Golden(golden.queries))
    assert found.ids.empty and "n_golden" in repr(found)


# Questions that nearly ask the same


def asking(*texts):
    ids = [f"q{n}" for n in range(len(texts))]
    queries = pd.DataFrame({"query_id": ids, "query": texts, "position": range(len(texts))})
    return rs.Golden(queries.assign(answerable=True))


def pairs_of(golden, similarity):
    found = golden.duplicates(similarity)
    return found[["query_id", "other", "similarity"]].to_numpy().tolist()


def test_similarity_is_shared_words_over_all_words():
    golden = asking(
        "How do I merge two frames?", "how do I MERGE frames", "what is the weather like"
    )
    # how do i merge frames; of these and "two"
    assert pairs_of(golden, 0.8) == [["q0", "q1", pytest.approx(5 / 6)]]
    assert pairs_of(golden, 0.9) == []


def test_all_pairs_are_found_as_by_comparing_each_with_each():
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(list("abcdefgh"), 5)) for _ in range(60)]
    sets = [set(re.findall(r"\w", text)) for text in texts]
    expected = {
        (f"q{a}", f"q{b}")
        for a, b in itertools.combinations(range(60), 2)
        if len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= 0.6
    }
    assert {(a, b) for a, b, _ in pairs_of(asking(*texts), 0.6)} == expected and len(expected) > 20


def test_a_text_without_words_is_like_none():
    assert pairs_of(asking("the same", "Same, the!", "", "?"), 0.7) == [["q0", "q1", 1.0]]


def test_a_pair_says_whether_it_is_meant_and_whether_it_agrees():
    golden = rs.load_golden([
        {"id": "q0", "query": "a b c d", "expected_doc_ids": ["d1"], "group": "g"},
        {"id": "q1", "query": "a b c d e", "expected_doc_ids": ["d1"], "group": "g"},
        {"id": "q2", "query": "a b c d f", "expected_doc_ids": ["d2"]},
    ])  # fmt: skip
    columns = [
        "query_id", "other", "similarity", "same_group", "same_targets", "same_order", "query",
        "other_query",
    ]  # fmt: skip
    pairs = [
        ("q0", "q1", 0.8, True, True, True, "a b c d", "a b c d e"),
        ("q0", "q2", 0.8, False, False, True, "a b c d", "a b c d f"),
    ]
    expected = pd.DataFrame(pairs, columns=columns)
    texts = dict.fromkeys(["query_id", "other", "query", "other_query"], "str")
    pd.testing.assert_frame_equal(golden.duplicates(0.8), expected.astype(texts))


@pytest.mark.parametrize(
    ("texts", "same"),
    [
        (("string to date", "date to string"), False),
        (("string to date", "String to a date?"), True),
        (("to date a string to", "to a string"), True),  # "to" first, in both
    ],
)
def test_a_pair_says_whether_its_words_come_in_the_same_order(texts, same):
    found = asking(*texts).duplicates(0.5)
    assert found["same_order"].tolist() == [same]


def test_scripts_without_spaces_are_compared_by_character():
    golden = asking("東京の天気", "京都の天気", "大阪はどこ")
    assert pairs_of(golden, 0.6) == [["q0", "q1", pytest.approx(4 / 6)]]


def test_a_similarity_out_of_range_is_refused():
    with refused(0, field="similarity"):
        asking("a").duplicates(0)


# The metrics that golden files, runs and other tools' files support, alone and together.

FIXTURES = Path(__file__).parents[1] / "fixtures"


def told(*sources):
    table = rs.supported_metrics(*sources)
    assert table["metric"].tolist() == rs.metrics()["name"].tolist()
    assert (table["supported"] == (table["missing"] == "")).all()
    assert (table["supported"] == (table["n"] > 0)).all()
    return table.set_index("metric")


HIT = [hit("c1", "d1", 1)]
ANSWERED = record("q1", HIT, answer=answer("text", paths=["docs/d1.md"]))
# A golden set, a run, what is supported, and what is not, with what it lacks.
SOURCES = {
    "a golden set alone": (
        THREE_QUERIES, None, [],
        {"recall@k": ["hits of a run"], "refusal_correct": ["answerable: false"],
         "latency_ms": []},
    ),
    "a run alone supports what needs no label": (
        None, ANSWERED, ["empty", "failed", "latency_ms", "citation_present", "citation_coverage"],
        {"mrr": ["targets"], "recall@k": [], "answer_checks": [], "refusal_correct": [],
         "cost_usd": [], "passed": []},
    ),
    "both": (
        THREE_QUERIES, record("q1", HIT),
        ["hit@k", "recall@k", "recall_all@k", "ndcg@k", "mrr", "passed"], {"answer_checks": []},
    ),
    # no query names a folder or a support, and none a key fact: neither metric has a value
    "what a metric does not apply without": (
        THREE_QUERIES, record("q1", HIT, scope={"folders": ["docs"]}), [],
        {"scope_miss": ["folders", "anchors"], "key_facts": ["judgments", "key_facts"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_missing_is_said(name, write_golden, write_run):
    golden, run, supported, lacking = SOURCES[name]
    given = [write_golden(golden)] if golden else []
    table = told(*given, *([write_run("a", [run])] if run else []))
    assert table["supported"][supported].all()
    assert not table["supported"][[*lacking]].any()
    assert run or not table["supported"].any()
    for metric, named in lacking.items():
        says(table["missing"][metric], *named)


def test_a_supported_metric_has_values_and_an_unsupported_one_has_none(loaded):
    # Only columns are looked at; scoring is the judge of whether it was right.
    rows = [
        *THREE_QUERIES,
        {"id": "q4", "query": "?", "answerable": False},
        {"id": "q5", "query": "?", "must_contain": ["x"]},
    ]
    records = [
        ANSWERED,
        record("q4", [], answer=answer("no", grounded=False)),
        record("q5", [], answer=answer("x")),
    ]
    results, golden = loaded(rows, {"a": records})
    points = {"criterion": "judge_groundedness", "item": "", "value": 4.0}
    results = replace(results, judgments=results.responses[["run_id", "query_id"]].assign(**points))
    table = told(golden, results)
    labels = {name: name.replace("@k", "@5").replace("@r", "@0.5") for name in table.index}
    with pytest.warns(UserWarning):
        scores = rs.score(results, golden, list(labels.values()))
    has_value = {name: bool(scores[label].notna().any()) for name, label in labels.items()}
    assert has_value == table["supported"].to_dict()


@pytest.mark.parametrize(
    ("file", "supported", "lacking"),
    [
        ("ragas_result.csv", ["recall@k"], ["latency_ms"]),
        ("promptfoo_results.json", ["latency_ms", "cost_usd", "answer_checks"], []),
    ],
)
def test_another_tool_s_file_is_asked_for_labels_and_results_at_once(file, supported, lacking):
    found = told(FIXTURES / file)["supported"]
    assert found[supported].all() and not found[lacking].any()


def test_a_file_that_is_neither_is_one_error(tmp_path):
    (tmp_path / "x.json").write_text('{"a": 1}', encoding="utf-8")
    with refused(1, "a", file="x.json"):
        rs.supported_metrics(tmp_path / "x.json")


def test_for_columns_that_tell_nothing_a_mapping_is_proposed(tmp_path):
    (tmp_path / "x.csv").write_text("topic,gave\nq1,d1\n", encoding="utf-8")
    proposed = 'columns={"query_id": "topic", "doc_id": "???"}'
    with refused(
        "csv",
        'topic="q1", gave="d1"',
        proposed,
        file="x.csv",
    ):
        rs.supported_metrics(tmp_path / "x.csv")
    golden = rs.load_golden(tmp_path / "x.csv", columns={"query_id": "topic", "doc_id": "gave"})
    assert told(golden, {"q1": ["d1"]})["supported"]["mrr"]


def test_a_query_that_several_levels_and_checks_know_counts_once(write_golden, write_run):
    # q1: chunks and documents; q2: texts of the answer, too; q3: to refuse
    golden = write_golden(
        [
            {"id": "q1", "query": "?", "expected_chunk_ids": ["c1"], "expected_doc_ids": ["d1"]},
            {"id": "q2", "query": "?", "expected_doc_ids": ["d2"], "must_contain": ["x"]},
            {"id": "q3", "query": "?", "answerable": False},
        ]
    )
    run = write_run("a", [record(f"q{n}", [hit("c1", "d1", 1)]) for n in range(1, 6)])
    table = told(golden, run)
    assert table["n"][["found", "passed", "recall@k", "answer_checks"]].tolist() == [3, 3, 2, 0]
    assert table["levels"]["recall@k"] == "chunk, doc"

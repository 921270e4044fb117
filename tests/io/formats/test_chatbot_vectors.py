"""SEEDS F.6.

A chatbot harness's aggregates, metric by metric; where that harness is flawed, our answer, and the
flaw by name.
"""

import json
import warnings

import numpy as np
import pytest
from plausible_runs import put

import ragscore as rs
from ragscore.analysis.aggregates import aggregate as aggregate_of
from ragscore.scoring.provenance import judge_fingerprint
from tests.compared import compare_runs, flips_of
from tests.messages import refused, warned

SUPPORTS = [
    {"rel_path": "a.md", "heading_path": "O"},
    {"rel_path": "b.md", "heading_path": "Q"},
    {"rel_path": "c.md", "heading_path": "R"},
]
FOUR_HITS = [("x.md", "X"), ("a.md", "O > P"), ("b.md", "Q"), ("a.md", "O")]
RETRIEVAL = ("recall_at_k_avg", "mrr_avg", "precision_at_k_avg")


def case(query_id="q", supports=(SUPPORTS[0],), answerable=True, **more):
    return {
        "id": query_id,
        "question": "?",
        "answerable": answerable,
        "gold_supports": list(supports),
        "expected_key_facts": [],
    } | more


def row(query_id="q", chunks=(), answer="text", **more):
    retrieved = [
        {"chunk_id": f"c{n}", "rel_path": path, "heading_path": heading, "rank": n, "text": "t"}
        for n, (path, heading) in enumerate(chunks, 1)
    ]
    return {
        "test_case_id": query_id,
        "question": "?",
        "answer": answer,
        "references": [],
        "retrieved_chunks": retrieved,
    } | more


@pytest.fixture
def load(tmp_path):
    """Golden cases, and runs {name: rows} or one run of rows."""

    def of(cases, runs, k=5, mode="on", **configs):
        for name, rows in (runs if isinstance(runs, dict) else {"run": runs}).items():
            put(tmp_path / name, rows, "results.jsonl")
            config = {"k": k, "folder_mode": mode} | configs.get(name, {})
            put(tmp_path / name, [config], "config.json")
        files = [tmp_path / name for name in (runs if isinstance(runs, dict) else ["run"])]
        return rs.load_results(files), rs.load_golden(put(tmp_path, cases, "eval_set.jsonl"))

    return of


@pytest.fixture
def aggregate(load):
    """The aggregate of one run, as that harness writes it."""
    return lambda cases, rows, **config: aggregate_of(*load(cases, rows, **config), "chatbot")[
        "run"
    ]


# 1 and the rule of 2 are in test_rules.py; here 2 as the profile's means see it


@pytest.mark.parametrize(
    ("path", "heading", "found"),
    [
        ("a.md", "# Overview > ## D", 1),
        ("a.md", "# Overview2", 0),  # FLAW: a raw prefix of the text finds it there
        ("a.md", "# Over", 0),
        ("A.md", "# Overview", 0),
    ],
)
@pytest.mark.filterwarnings("ignore:ids of")  # one case finds nothing on purpose
def test_2_a_chunk_below_the_gold_heading_is_found(aggregate, path, heading, found):
    support = {"rel_path": "a.md", "heading_path": "# Overview"}
    assert (
        aggregate([case(supports=[support])], [row(chunks=[(path, heading)])])["recall_at_k_avg"]
        == found
    )


@pytest.mark.parametrize(
    ("snippets", "text", "found"),
    [(["foo", "bar"], "has FOO here", 1), (["foo"], "nothing", 0), (["foo"], "", 1)],
)
def test_2_a_snippet_is_found_whatever_its_case(aggregate, snippets, text, found):
    chunk = {"chunk_id": "c", "rel_path": "a.md", "heading_path": "Any", "rank": 1, "text": text}
    # an empty heading is any
    support = {"rel_path": "a.md", "heading_path": "", "snippets": snippets}
    assert (
        aggregate([case(supports=[support])], [row(retrieved_chunks=[chunk])])["recall_at_k_avg"]
        == found
    )


@pytest.mark.parametrize(
    ("k", "means"), [(1, [0, 0, 0]), (2, [1, 0.5, 0.5]), (3, [1, 0.5, 0.6667]), (5, [1, 0.5, 0.6])]
)
def test_3_recall_is_any_support_and_all_is_cut_at_the_runs_k(aggregate, k, means):
    found = aggregate([case(supports=SUPPORTS)], [row(chunks=FOUR_HITS)], k=k)
    assert [round(found[name], 4) for name in RETRIEVAL] == means


@pytest.mark.parametrize(
    ("k", "groups", "expected"),
    [(3, [[0, 1]], 1), (3, [[0, 2]], 0), (3, [[0, 2], [1]], 1), (3, [[9]], 0), (2, [[0, 1]], 0)],
)
def test_3_recall_all_wants_a_whole_group(aggregate, k, groups, expected):
    found = aggregate(
        [case(supports=SUPPORTS, required_support_groups=groups, category="multi_hop")],
        [row(chunks=FOUR_HITS)],
        k=k,
    )
    assert found["recall_all_at_k_avg"] == expected


@pytest.mark.parametrize("groups", [None, []])
def test_3_without_groups_there_is_no_recall_all(aggregate, groups):
    # FLAW: the function itself falls back to any support for []; its aggregate never calls it so.
    assert "recall_all_at_k_avg" not in aggregate(
        [case(supports=SUPPORTS, required_support_groups=groups)], [row(chunks=FOUR_HITS)]
    )


@pytest.mark.parametrize(
    ("chunks", "mode", "supports", "rate"),
    [
        ([("x.md", "X")], "on", SUPPORTS, 1),
        ([("x.md", "X")], "off", SUPPORTS, 0),
        ([("x.md", "X")], "on", [], 0),
        ([("x.md", "X"), ("a.md", "O")], "on", SUPPORTS, 0),
        ([], "on_with_fallback", SUPPORTS, 1),
    ],
)
def test_4_scope_miss_is_no_hit_at_all_in_a_mode_with_folders(
    aggregate, chunks, mode, supports, rate
):
    cases = [case(supports=supports, answerable=bool(supports)), case("other")]
    found = aggregate(cases, [row(chunks=chunks), row("other", [("a.md", "O")])], mode=mode)
    assert found["scope_miss_rate"] == rate / 2  # the other is none: the mean is over both


def test_4_a_folder_mode_in_the_rows_counts_without_a_config_file(load, tmp_path):
    _, golden = load([case()], [row(config={"k": 5, "folder_mode": "on"})])
    (tmp_path / "run" / "config.json").unlink()
    scores = rs.score(rs.load_results(tmp_path / "run"), golden, ["scope_miss_proxy"])
    assert scores["scope_miss_proxy"].tolist() == [1]


# 5 is in test_dialogue.py


def test_6_an_answers_text_attributes_and_unanswerable_questions_do_not_count(aggregate):
    cited = "so it is [File: a.md, Section: O > P]"
    rows = [row(answer=cited), row("none"), row("refuse", answer=cited)]
    cases = [case(), case("none"), case("refuse", supports=[], answerable=False)]
    assert aggregate(cases, rows)["attribution_hit_rate"] == 0.5
    assert "attribution_hit_rate" not in aggregate(cases[2:], rows[2:])


def test_a_cited_heading_keeps_its_closing_bracket_though_upstream_strips_it(aggregate):
    support = {"rel_path": "a.md", "heading_path": "# Setup (macOS)"}
    answers = "See [File: a.md, Section: Setup (macOS)].", "See (File: a.md, Section: Setup)."
    cases = [case(f"q{n}", [support]) for n in range(2)]
    rows = [row(f"q{n}", answer=answer) for n, answer in enumerate(answers)]
    assert aggregate(cases, rows)["attribution_hit_rate"] == 0.5


def test_7_errors_count_once_and_timed_out_is_a_time_out(aggregate):
    # FLAW: 2 / (8 + 10) = .1111 there, and no "timeout" in "timed out"; an empty answer without a
    # refusal counts of those answered.
    rows = [
        row(f"q{n}", answer="" if n == 0 else "text", abstention={"abstained": False})
        for n in range(8)
    ]
    rows += [
        row(f"q{n}", answer=None, error="Request timed out", latency={"total_ms": 5.0})
        for n in (8, 9)
    ]
    found = aggregate([case(f"q{n}") for n in range(10)], rows)
    assert found["operational_metrics"] == {
        "error_rate": 0.2,
        "timeout_rate": 0.2,
        "empty_response_rate": 0.125,
    }


# 8 is in test_operations.py


def test_9_long_texts_are_stored_cut_or_whole_when_asked_and_the_config_as_it_was(load, tmp_path):
    long = {"chunk_id": "c", "rel_path": "a.md", "heading_path": "O", "rank": 1, "text": "x" * 300}
    results, _ = load([case()], [row(retrieved_chunks=[long])], run={"eval_set_commit_hash": "abc"})
    with warned(1, 200, "text=None"):
        cut = results.save(tmp_path / "cut", format="chatbot")
    whole = results.save(tmp_path / "whole", format="chatbot", text=None)
    again = rs.load_results(cut).save(tmp_path / "again", format="chatbot")
    for folder, text in ((cut, "x" * 200 + "..."), (whole, "x" * 300), (again, "x" * 200 + "...")):
        (found,) = (folder / "results.jsonl").read_text().splitlines()
        assert json.loads(found)["retrieved_chunks"][0]["text"] == text
        assert json.loads((folder / "config.json").read_text())["eval_set_commit_hash"] == "abc"
    assert rs.load_results(cut).hits["text_cut"].tolist() == [True]


@pytest.mark.parametrize("error", [None, "boom"])
def test_10_percentiles_are_the_sixth_of_ten_and_the_largest_failed_cases_included(
    aggregate, error
):
    times = [30.0, 10, 100, 20, 90, 40, 80, 50, 70, 60]
    rows = [
        row(f"q{n}", latency={"total_ms": ms}, error=error if ms == 100 else None)
        for n, ms in enumerate(times)
    ]
    assert aggregate([case(f"q{n}") for n in range(10)], rows)["latency"] == {
        "p50_ms": 60,
        "p95_ms": 100,
        "total_ms": 550,
    }


def judged(groundedness, query_id="q", **more):
    scores = (
        {}
        if groundedness is None
        else {
            "groundedness": {"score": groundedness, "reasoning": "r"},
            "correctness": {"score": 4.0, "reasoning": "r"},
        }
    )
    return row(query_id, **scores, **more)


def judge_state(results, golden):
    cmp = compare_runs(results, golden, "a", "b", profile="chatbot", allow_different=True)
    return cmp.invariants.set_index("name")["state"].get("judge_fingerprint")


JUDGE = {"judge_model": "m", "judge_prompt_version": "v1.0", "judge_temperature": 0.0}


@pytest.mark.parametrize(
    ("other", "state"),
    [
        ({"judge_temperature": 0.0005}, "equal"),
        ({"judge_temperature": 0.001}, "equal"),
        ({"judge_temperature": 0.002}, "differs"),
        ({"judge_model": "n"}, "differs"),
        ({"judge_prompt_version": "v1.1"}, "differs"),
    ],
)
def test_11_judges_are_compared_by_model_prompt_version_and_temperature(load, other, state):
    results, golden = load(
        [case()], {"a": [judged(4.0)], "b": [judged(4.0)]}, a=JUDGE, b=JUDGE | other
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert judge_state(results, golden) == state
    assert bool(said) == (state == "differs")
    if state == "equal":
        own = judge_fingerprint(results)["a"]
        assert own == "judge_correctness:m:v1.0:0|judge_groundedness:m:v1.0:0"
    else:
        with refused("allow_different", field="judge_fingerprint"):
            compare_runs(results, golden, "a", "b", profile="chatbot")


@pytest.mark.filterwarnings("ignore:scores that were measured differently")
def test_11_a_run_that_nobody_judged_is_compared_but_its_judges_are_unknown(load):
    results, golden = load([case()], {"a": [judged(4.0)], "b": [judged(None)]}, a=JUDGE, b={})
    with warned("a", "b"):
        assert judge_state(results, golden) == "unknown"
    assert judge_fingerprint(results)["b"] == ""
    results, golden = load([case()], {"a": [judged(None)], "b": [judged(None)]}, a={}, b={})
    assert judge_state(results, golden) is None and judge_fingerprint(results).eq("").all()


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (4.0, 2.9, ["regression"]),
        (4.0, 3.0, []),
        (2.9, 4.0, ["improvement"]),
        (3.0, 5.0, []),
        (5.0, 0.0, ["regression"]),
    ],
)
def test_11_a_judges_points_flip_between_4_and_below_3(load, before, after, kind):
    results, golden = load(
        [case()], {"a": [judged(before)], "b": [judged(after)]}, a=JUDGE, b=JUDGE
    )
    scores = rs.score(results, golden, ["judge_groundedness", "judge_correctness"])
    assert flips_of(scores)["kind"].tolist() == kind


def test_11_recall_flips_by_query(load):
    hit = [("a.md", "O")]
    runs = {
        "a": [row("lost", hit), row("won"), row("kept", hit)],
        "b": [row("lost"), row("won", hit), row("kept", hit)],
    }
    results, golden = load([case(name) for name in ("lost", "won", "kept")], runs)
    scores = rs.score(results, golden, ["hit@5:anchor"], profile="chatbot")
    flipped = flips_of(scores, metrics=["hit@5:anchor"])
    assert flipped[["query_id", "kind"]].to_numpy().tolist() == [
        ["lost", "regression"],
        ["won", "improvement"],
    ]
    counts = compare_runs(results, golden, "a", "b", profile="chatbot").counts
    assert counts == {"win": 1, "regression": 1, "draw": 1}


def test_11_a_case_without_a_row_has_not_improved_FLAW_upstream_reads_missing_metrics_as_0(load):
    results, golden = load(
        [case("q"), case("p")], {"a": [row("p")], "b": [row("q", [("a.md", "O")]), row("p")]}
    )
    with warned("a", 1, "missing='zero'"):
        scores = rs.score(results, golden, ["hit@5"])
    assert not len(flips_of(scores, metrics=["hit@5"]))


def test_11_a_delta_in_percent_is_null_where_the_baseline_is_0(load):
    results, golden = load(
        [case("q"), case("p")],
        {"a": [row("q"), row("p")], "b": [row("q", [("a.md", "O")]), row("p")]},
        a=JUDGE,
        b=JUDGE,
    )
    deltas = {
        one["metric"]: one
        for one in json.loads(compare_runs(results, golden, "a", "b").to_json())["deltas"]
    }
    assert (
        deltas["hit@1"]["baseline"],
        deltas["hit@1"]["candidate"],
        deltas["hit@1"]["delta"],
        deltas["hit@1"]["delta_pct"],
    ) == (0, 0.5, 0.5, None)
    back = {
        one["metric"]: one
        for one in json.loads(compare_runs(results, golden, "b", "a").to_json())["deltas"]
    }
    assert (back["hit@1"]["delta"], back["hit@1"]["delta_pct"]) == (-0.5, -100)


@pytest.mark.filterwarnings("ignore:scores that were measured differently")
def test_the_compare_report_has_both_aggregates_and_their_differences(load):
    runs = {
        "a": [judged(3.0, "q", latency={"total_ms": 10.0})],
        "b": [row("q", [("a.md", "O")], latency={"total_ms": 30.0})],
    }
    results, golden = load([case("q")], runs, a=JUDGE, b=JUDGE)
    cmp = compare_runs(results, golden, "a", "b", profile="chatbot")
    report = json.loads(cmp.to_json())
    assert report["aggregate_a"] == aggregate_of(results, golden, "chatbot")["a"]
    assert report["deltas"]["recall_at_k_avg"] == 1 and report["deltas"]["latency"] == {
        "p50_ms": 20,
        "p95_ms": 20,
        "total_ms": 20,
    }
    # one side has it; neither has it
    assert (
        report["deltas"]["groundedness_avg"] is None
        and "recall_all_at_k_avg" not in report["deltas"]
    )
    assert "groundedness_avg" in repr(cmp) and "Matched by anchor" in cmp.to_markdown()


# the aggregate as a whole


def whole():
    """Five cases.

    Found at rank 2, not found, refused as it should be, answered though it shouldn't be, and one of
    two hops.
    """
    cases = [
        case("found"),
        case("lost"),
        case("refuse", supports=[], answerable=False),
        case("made-up", supports=[], answerable=False),
    ]
    cases.append(
        case("hops", supports=SUPPORTS[:2], required_support_groups=[[0, 1]], category="multi_hop")
    )
    rows = [
        judged(
            4.0,
            "found",
            chunks=[("x.md", "X"), ("a.md", "O")],
            references=[SUPPORTS[0]],
            latency={"total_ms": 10.0},
        ),
        judged(2.0, "lost", chunks=[("x.md", "X")], latency={"total_ms": 20.0}),
        row(
            "refuse",
            chunks=[("x.md", "X")],
            answer="",
            abstention={"abstained": True},
            latency={"total_ms": 30.0},
        ),
        row(
            "made-up",
            chunks=[("a.md", "O")],
            abstention={"abstained": False},
            latency={"total_ms": 40.0},
        ),
        row("hops", chunks=[("b.md", "Q"), ("a.md", "O")], latency={"total_ms": 50.0}),
        row("stray", chunks=[("a.md", "O")], latency={"total_ms": 60.0}),
    ]
    return cases, rows


AGGREGATE = {
    "operational_metrics": {"error_rate": 0, "timeout_rate": 0, "empty_response_rate": 0},
    # of six rows: the fourth and the last; the stray one was timed too
    "latency": {"p50_ms": 40, "p95_ms": 60, "total_ms": 210},
    "recall_at_k_avg": 2 / 5, "recall_all_at_k_avg": 1, "mrr_avg": (1 / 2 + 1) / 5,
    "precision_at_k_avg": (1 / 5 + 2 / 5) / 5, "scope_miss_rate": 1 / 5,
    "attribution_hit_rate": 1 / 3, "groundedness_avg": 3, "correctness_avg": 4,
    "abstention_accuracy": 0.5, "hallucination_rate_unanswerable": 0.5,
}  # fmt: skip


def test_names_and_values_are_those_of_that_harness(aggregate):
    found = aggregate(*whole())
    assert list(found) == list(AGGREGATE)
    flat = {name: value for name, value in found.items() if not isinstance(value, dict)}
    assert flat == pytest.approx({name: value for name, value in AGGREGATE.items() if name in flat})
    assert (found["latency"], found["operational_metrics"]) == (
        AGGREGATE["latency"],
        AGGREGATE["operational_metrics"],
    )


def test_what_no_case_measures_is_left_out_but_for_refusals_which_are_null(aggregate):
    found = aggregate([case()], [row()])
    assert not {"recall_all_at_k_avg", "groundedness_avg", "correctness_avg"} & set(found)
    assert (
        found["abstention_accuracy"],
        found["hallucination_rate_unanswerable"],
        found["latency"]["p50_ms"],
    ) == (None, None, None)


def test_by_query_a_question_to_refuse_scores_0_as_that_harness_stores_it(load):
    results, golden = load(*whole())
    scores = rs.score(results, golden, profile="chatbot")
    assert scores.loc[
        ["refuse", "made-up"], ["hit@5:anchor", "mrr@5:anchor", "precision@5:anchor"]
    ].to_numpy().tolist() == [[0, 0, 0], [0, 0, 0]]
    # ours: it doesn't apply
    assert rs.score(results, golden, ["hit@5"]).loc["refuse"].isna()["hit@5"]
    assert scores.loc[["found", "lost", "hops"], "judge_groundedness"].tolist() == pytest.approx(
        [4, 2, np.nan], nan_ok=True
    )


def test_a_run_that_states_no_k_has_5(load):
    results, golden = load([case()], [row(chunks=[*FOUR_HITS[:1] * 5, ("a.md", "O")])], k=None)
    assert aggregate_of(results, golden, "chatbot")["run"]["recall_at_k_avg"] == 0
    assert rs.score(results, golden, profile="chatbot")["hit@5:anchor"].tolist() == [0]


def test_a_snippet_beyond_the_cut_of_a_stored_text_is_missed_and_said_to_be(load):
    chunk = {
        "chunk_id": "c",
        "rel_path": "a.md",
        "heading_path": "O",
        "rank": 1,
        "text": "x" * 200 + "...",
    }
    results, golden = load(
        [case(supports=[SUPPORTS[0] | {"snippets": ["foo"]}])], [row(retrieved_chunks=[chunk])]
    )
    with warned(1):
        found = aggregate_of(results, golden, "chatbot")["run"]
    assert (found["recall_at_k_avg"], found["precision_at_k_avg"], found["scope_miss_rate"]) == (
        0,
        0,
        1,
    )
    # ours: like a hit without text, which file and heading decide
    with warned(1):
        assert rs.score(results, golden, ["scope_miss_proxy"])["scope_miss_proxy"].tolist() == [0]

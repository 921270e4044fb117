"""A chatbot's evaluation files: golden cases, run folders, and the way back."""

import json

import pandas as pd
import pytest
from conftest import hit, record
from plausible_runs import lines_of, put

import ragscore as rs
from ragscore.golden.coverage import coverage
from tests.messages import names, refused, warned

CONFIG = {
    "k": 5, "rerank_weights": {"vector": 0.7, "lexical": 0.3}, "folder_mode": "on_with_fallback",
    "llm_model": "m", "embedding_model": None, "judge_model": "judge-1",
    "judge_prompt_version": "v1.0", "judge_temperature": 0.0, "dataset_version": None,
    "eval_set_commit_hash": "abc",
}  # fmt: skip
CASE = {
    "id": "test_001", "question": "how do I reset it?", "answerable": True,
    "expected_key_facts": ["hold the button", "ten seconds"],
    "gold_supports": [
        {"rel_path": "manual/reset.md", "heading_path": "# Reset > ## Steps",
        "snippets": ["hold the", "ten seconds"]},
        {"rel_path": "manual/faq.md", "heading_path": "# FAQ", "date": "2025-03-01", "page": 3},
    ],
    "required_support_groups": [[0, 1]], "recency_conflict_rule": None, "tags": ["manual"],
    "vaults": ["work"], "folders": ["manual"], "category": "multi_hop",
    "difficulty": "medium", "author": {"team": "docs", "reviewed": None}, "sources": [1, 2],
}  # fmt: skip
REFUSE = {
    "id": "test_002", "question": "what is the weather?", "answerable": False,
    "expected_key_facts": [], "gold_supports": [], "required_support_groups": None,
    "recency_conflict_rule": None, "tags": [], "vaults": [], "folders": [], "category": "general",
    "difficulty": "easy",
}  # fmt: skip
LONG = "a" * 200 + "..."
ROW = {
    "test_case_id": "test_001", "question": "how do I reset it?", "answer": "Hold the button.",
    "references": [
        {"rel_path": "manual/reset.md", "heading_path": "# Reset", "vault": "work",
         "chunk_index": 0}
    ],
    "retrieved_chunks": [
        {"chunk_id": "c1", "rel_path": "manual/reset.md", "heading_path": "# Reset > ## Steps",
        "rank": 1, "score_final": 0.9, "score_vector": 0.95, "score_lexical": 0.8, "text": LONG},
        {"chunk_id": "c2", "rel_path": "manual/faq.md", "heading_path": "# FAQ", "rank": 2,
        "score_final": 0.5, "score_vector": 0.6, "text": "wait...", "token_count": 7},
    ],
    "config": {name: value for name, value in CONFIG.items() if name != "eval_set_commit_hash"},
    "latency": {"total_ms": 1234.0, "folder_selection_ms": 12.5, "generation_ms": 900},
    "indexing_coverage": {"docs_processed": 10, "docs_with_0_chunks": 1,
    "chunks_skipped_reasons": {"too long": 2}, "chunk_token_stats": {"min": 3, "mean": 40.5}},
    "retrieval_metrics": {"recall_at_k": 1.0, "mrr": 0.5, "precision_at_k": 0.2,
    "scope_miss": False, "attribution_hit": True},
    "groundedness": {"score": 4.0, "reasoning": "mostly", "unsupported_claims": ["it beeps"],
    "supported_claims": ["hold the button", "wait"]},
    "correctness": {"score": 3.5, "reasoning": "short"},
    "abstention": {"abstained": False, "hallucinated": False},
    "judge_input": {"question": "how do I reset it?", "answer": "Hold the button.",
    "context_chunk_ids": ["c1"], "context_chunks_truncated": ["a"]},
    "cost": {"judge_tokens": 120, "judge_cost_usd": 0.0}, "trace": "t-1",
}  # fmt: skip
REFUSED = {
    "test_case_id": "test_002", "question": "what is the weather?", "answer": "", "references": [],
    "retrieved_chunks": [], "config": ROW["config"],
    "latency": {"total_ms": 300.0},
    "groundedness": {"score": 5.0, "reasoning": "none", "unsupported_claims": [],
    "supported_claims": []},
    "abstention": {"abstained": True, "hallucinated": False},
}  # fmt: skip
METRICS = {
    "run_id": "20251219_235258", "timestamp": "2025-12-19T23:53:20.701942+00:00",
    "aggregate_metrics": {
        "operational_metrics": {"error_rate": 0.0, "coverage_by_doc_type": {}},
        "latency": {"p50_ms": 1234.0}, "recall_at_k_avg": 0.5, "abstention_accuracy": None,
    },
    "by_tag": {"v1.0": {"mrr_avg": 0.5}}, "total_tests": 2,
    "config_hash": "0123456789abcdef", "eval_set_commit_hash": "abc",
}  # fmt: skip


def loaded(tmp_path, *rows):
    return rs.load_results(put(tmp_path, rows, "20251219_235258/results.jsonl"))


def cases(tmp_path, *rows):
    return rs.load_golden(put(tmp_path, rows, "eval_set.jsonl"))


@pytest.fixture
def run_folder(tmp_path):
    file = put(tmp_path, [ROW, REFUSED], "results/20251219_235258/results.jsonl")
    for name, content in (("config.json", CONFIG), ("metrics.json", METRICS)):
        (file.parent / name).write_text(json.dumps(content), encoding="utf-8")
    return file.parent


def test_golden_cases_load_as_anchors_groups_checks_and_tags(tmp_path):
    silent = {name: value for name, value in REFUSE.items() if name != "answerable"}
    golden = cases(tmp_path, CASE, REFUSE, silent | {"id": "test_003"})
    targets, checks = golden.targets, golden.checks
    assert golden.queries[["answerable", "category"]].values.tolist() == [
        [True, "multi_hop"], [False, "general"], [True, "general"],
    ]  # fmt: skip
    assert set(targets["level"]) == {"anchor"}
    assert targets["snippet"].dropna().tolist() == ["hold the", "ten seconds"]
    ids = ["manual/reset.md## Reset > ## Steps", "manual/faq.md## FAQ"]
    assert targets["target_id"].unique().tolist() == ids
    assert golden.support_groups["target_id"].tolist() == ids
    assert checks.loc[checks["kind"] == "key_fact", "text"].tolist() == CASE["expected_key_facts"]
    assert {*map(tuple, golden.tags[["kind", "value"]].to_numpy())} == {
        ("tag", "manual"), ("vault", "work"), ("folder", "manual"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("case", "groups", "written"),
    [
        (CASE, [[0, 1]], [[0, 1]]), (REFUSE, None, None), (CASE, [], None), (CASE, [[]], None),
        (CASE, [[0], []], [[0]]), (CASE, [[9], [0, 1]], [[9], [0, 1]]),
    ],
)  # fmt: skip
def test_golden_cases_round_trip_with_unknown_fields(tmp_path, case, groups, written):
    golden = cases(tmp_path, case | {"required_support_groups": groups})
    again = lines_of(golden.save(tmp_path / "again.jsonl", format="chatbot"))
    assert again == [case | {"required_support_groups": written}]


def test_a_group_of_a_document_called_0_is_not_written_as_the_first_support(tmp_path):
    golden = rs.load_golden([
        {"id": "q", "query": "?", "expected_doc_ids": ["0"], "gold_supports": [{"path": "a.md"}],
         "required_support_groups": [["0"]]}
    ])  # fmt: skip
    with refused(0, "q", "gold_supports", field="support_groups.target_id"):
        golden.save(tmp_path / "eval_set.jsonl", format="chatbot")


@pytest.mark.parametrize(
    ("case", "field", "named"),
    [
        (CASE, "id", ["test_001", 1]),  # upstream takes the last
        (REFUSE | {"gold_supports": [{"rel_path": "a.md", "date": "last week"}]},
         "gold_supports.date", []),
    ],
)  # fmt: skip
def test_what_a_case_cannot_hold_names_line_and_field(tmp_path, case, field, named):
    with refused(*named, file="eval_set.jsonl", line=2, field=field):
        cases(tmp_path, CASE, case)


def test_a_run_folder_loads_into_frames(run_folder):
    results = rs.load_results(run_folder)
    run, responses = results.runs.iloc[0], results.responses
    assert run[["run_id", "k", "config_hash"]].tolist() == [
        "20251219_235258", 5, "0123456789abcdef",
    ]  # fmt: skip
    assert str(run["created_at"].date()) == "2025-12-19" and json.loads(run["config"]) == CONFIG
    first = {
        "elapsed_ms": 1234, "latency_folder_selection_ms": 12.5, "latency_generation_ms": 900,
        "x_indexing_coverage.docs_processed": 10,
        "x_indexing_coverage.chunk_token_stats.mean": 40.5,
    }  # fmt: skip
    assert responses.loc[0, list(first)].to_dict() == first
    # an empty list says that nothing is cited
    told = responses[["refused", "n_citations", "error"]].astype(object).fillna("").values.tolist()
    assert told == [[False, "", ""], [True, 0, ""]]
    # an ellipsis alone is no cut
    assert results.hits[["score", "score_vector", "text_cut"]].values.tolist() == [
        [0.9, 0.95, True], [0.5, 0.6, False],
    ]  # fmt: skip
    assert results.citations.iloc[0][["path", "heading", "x_vault"]].tolist() == [
        "manual/reset.md", "# Reset", "work",
    ]  # fmt: skip


def test_judges_scores_and_claims_are_judgments(run_folder):
    judged = rs.load_results(run_folder).judgments
    first = judged[judged["query_id"] == "test_001"]
    rows = first[["criterion", "item", "value", "verdict"]].fillna("-").values.tolist()
    assert rows == [
        ["judge_groundedness", "", 4, "-"],
        ["judge_groundedness", "supported 1", 1, "supported"],
        ["judge_groundedness", "supported 2", 1, "supported"],
        ["judge_groundedness", "unsupported 1", 0, "unsupported"],
        ["judge_correctness", "", 3.5, "-"],
    ]
    assert first["item_text"].iloc[3] == "it beeps"
    assert first["tokens"].fillna(0).tolist() == [120, 0, 0, 0, 0]  # the cost of both judges
    assert judged[["judge", "temperature"]].drop_duplicates().values.tolist() == [["judge-1", 0]]


def test_stored_values_are_reported_by_case_and_for_the_run(run_folder):
    reported = rs.load_results(run_folder).reported.set_index(["query_id", "metric"])["value"]
    assert reported["test_001"][["mrr", "attribution_hit", "scope_miss"]].tolist() == [0.5, 1, 0]
    assert reported[""][["latency.p50_ms", "recall_at_k_avg"]].tolist() == [1234, 0.5]


SUMMARY = """# Evaluation Run Summary

**Run ID**: `20251219_235258`
**Timestamp**: 2025-12-19 23:55:13 UTC

## Run Description

{}

## Configuration

### RAG Parameters

- **K**: 5
"""


@pytest.mark.parametrize(
    ("summary", "description"),
    [
        (SUMMARY.format("a wider k").replace("\n", "\r\n"), "a wider k"),
        (SUMMARY.format("two\n\nparagraphs"), "two\n\nparagraphs"),
        ("## Run Description\n\nno more sections\n", "no more sections"),
        ("## Run Description\n\none\n\n## Files\n\n- a\n", "one\n\n## Files\n\n- a"),
        (SUMMARY.format("No description provided"), None),
        ("# Evaluation Run Summary\n\n## Configuration\n", None),
        ("", None),
    ],
)
def test_the_description_of_a_summary_is_the_runs_note_and_is_written_back(
    run_folder, tmp_path, summary, description
):
    (run_folder / "summary.md").write_bytes(summary.encode())
    results = rs.load_results(run_folder / "results.jsonl")
    again = rs.load_results(results.save(tmp_path / "out", format="chatbot"))
    for one in (results, again):
        assert one.runs.get("note", pd.Series([None])).tolist() == [description]


def test_a_run_folder_round_trips(run_folder, tmp_path):
    results = rs.load_results(run_folder)
    again = results.save(tmp_path / "again" / "20251219_235258", format="chatbot")
    assert lines_of(again / "results.jsonl") == [ROW, REFUSED]
    for name, content in (("config.json", CONFIG), ("metrics.json", METRICS)):
        assert json.loads((again / name).read_text()) == content
    with refused(0, field="results"):
        results.select([]).save(tmp_path, format="chatbot")


def test_a_run_without_files_beside_it_takes_k_from_its_rows_and_its_time_from_its_name(tmp_path):
    results = loaded(tmp_path, ROW)
    run = results.runs.iloc[0]
    assert (run["run_id"], run["k"]) == ("20251219_235258", 5)
    assert str(run["created_at"]) == "2025-12-19 23:52:58+00:00"
    # a case without a row is missing, though upstream drops it from every denominator
    assert coverage(results, cases(tmp_path, CASE, REFUSE)).runs["n_missing"].tolist() == [1]


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ("x" * 200 + "...", True), ("x" * 250, False), ("x" * 400 + "...", False),
        ("x" * 190, False),
    ],
)  # fmt: skip
def test_a_text_is_stored_cut_at_200_characters_or_whole(tmp_path, text, is_cut):
    row = ROW | {"retrieved_chunks": [ROW["retrieved_chunks"][0] | {"text": text}]}
    assert loaded(tmp_path, row).hits["text_cut"].tolist() == [is_cut]


@pytest.mark.parametrize(
    ("change", "field", "named"),
    [
        ({"retrieved_chunks": [{"rank": 1}, {"rank": 1}]}, "retrieved_chunks.rank", [1]),
        ({"retrieved_chunks": ["c1"]}, "retrieved_chunks", ["c1"]),
        ({"latency": 5}, "latency", [5]),
        ({"groundedness": {"score": "high"}}, "groundedness.score", ["high"]),
        ({"abstention": {"abstained": "no"}}, "abstention.abstained", ["no"]),
        ({"test_case_id": None}, "test_case_id", []),
        ({"test_case_id": "test_001"}, "test_case_id", ["test_001", 1]),
    ],
)
def test_what_a_row_cannot_hold_names_line_and_field(tmp_path, change, field, named):
    with refused(*named, file="results.jsonl", line=2, field=field):
        loaded(tmp_path, ROW, ROW | {"test_case_id": "test_002"} | change)


def test_a_cut_text_leaves_file_and_heading_to_decide(tmp_path, run_folder):
    results, golden = rs.load_results(run_folder), cases(tmp_path, CASE, REFUSE)
    assert coverage(results, golden).runs["n_cut"].tolist() == [1]
    labels = ["hit@1", "hit@3", "recall_all@3"]
    for profile, found in ((None, [1, 1, 1]), ("chatbot", [0, 1, 0])):
        with warned("1 hits"):
            scores = rs.score(results, golden, labels, profile=profile)
        assert scores.loc["test_001", labels].tolist() == found


def test_a_judge_temperature_that_is_no_number_is_named(run_folder):
    (run_folder / "config.json").write_text('{"k": 5, "judge_temperature": "cold"}')
    with refused("cold", file="config.json", field="judge_temperature"):
        rs.load_results(run_folder)
    loose = rs.load_results(run_folder, strict=False)
    assert len(loose.problems) == 1 and loose.judgments["value"].tolist()[0] == 4


# What a user of the chatbot harness does with two run folders: score, compare, store, follow.

STATED = {
    "k": 5, "folder_mode": "on", "judge_model": "judge-1", "judge_prompt_version": "v1.0",
    "judge_temperature": 0.0, "eval_set_commit_hash": "abc",
}  # fmt: skip
GROUNDEDNESS, CORRECTNESS = "judge_groundedness", "judge_correctness"
# ranks of the right passage, groundedness, correctness, by query and run
BEFORE = {"t1": (1, 4.0, 4.0), "t2": (2, 4.0, 2.0), "t3": (None, 1.0, 3.0), "t4": (7, None, None)}
AFTER = {"t1": (1, 2.9, 4.0), "t2": (1, 3.0, 4.0), "t3": (3, 4.0, 3.5), "t4": (6, None, None)}


GOLDEN = [
    {
        "id": query_id, "question": f"about {query_id}?", "answerable": True,
        "expected_key_facts": [], "gold_supports": [{"rel_path": f"{query_id}.md",
        "heading_path": "# Overview"}], "required_support_groups": None,
        "recency_conflict_rule": None, "tags": [], "vaults": [], "folders": [],
        "category": "factual", "difficulty": "easy",
    }
    for query_id in BEFORE
]  # fmt: skip
A, B = "20251219_100000", "20251219_200000"


def row_of(query_id, right, points, config):
    chunks = [
        {
            "chunk_id": f"{query_id}-{rank}", "rank": rank, "score_final": 1 / rank,
            "rel_path": f"{query_id}.md" if rank == right else "other.md",
            "heading_path": "# Overview", "text": "words",
        }
        for rank in range(1, 9)
    ]  # fmt: skip
    judges = zip(("groundedness", "correctness"), points, strict=True)
    return {
        "test_case_id": query_id, "question": f"about {query_id}?", "answer": "This.",
        "references": [], "retrieved_chunks": chunks, "config": config,
        "latency": {"total_ms": 1000.0}, "abstention": {"abstained": False},
    } | {name: {"score": one, "reasoning": "r"} for name, one in judges if one}  # fmt: skip


def write_chatbot_run(folder, cases, **changed):
    """Write a run folder; `changed` are fields of its config, of which None is left out."""
    config = {name: value for name, value in (STATED | changed).items() if value is not None}
    rows = [row_of(name, right, points, config) for name, (right, *points) in cases.items()]
    put(folder, rows, "results.jsonl")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("chatbot")


@pytest.fixture(scope="module")
def golden(folder):
    return rs.load_golden(put(folder, GOLDEN, "eval_set.jsonl"))


@pytest.fixture(scope="module")
def ev(folder, golden):
    runs = [write_chatbot_run(folder / name, of) for name, of in ((A, BEFORE), (B, AFTER))]
    return rs.evaluate(runs, golden)


def test_scores_have_the_points_of_judges_that_runs_carry_without_being_asked(ev):
    points = ev.scores[[GROUNDEDNESS, CORRECTNESS]].dropna()
    assert points.values.tolist() == [[4, 4], [4, 2], [1, 3], [2.9, 4], [3, 4], [4, 3.5]]
    assert "faithfulness" not in ev.scores  # nobody judged it


def test_a_comparison_has_the_points_and_the_flips_of_judges(ev):
    cmp = ev.compare(A, B)
    deltas = cmp.deltas.set_index("metric").loc[GROUNDEDNESS, ["baseline", "candidate", "n"]]
    assert deltas.tolist() == pytest.approx([3.0, 3.3, 3])
    flips = cmp.flips[cmp.flips["metric"].isin([GROUNDEDNESS, CORRECTNESS])]
    assert flips[["metric", "query_id", "kind"]].to_numpy().tolist() == [
        [GROUNDEDNESS, "t3", "improvement"],
        [GROUNDEDNESS, "t1", "regression"],
        [CORRECTNESS, "t2", "improvement"],
    ]
    assert GROUNDEDNESS in cmp.to_markdown()


@pytest.fixture(scope="module")
def store(folder, ev):
    store = rs.RunStore(folder / "store")
    store.save(ev)
    return store


def test_a_store_keeps_the_points_of_judges(store, golden):
    for scores in (store.scores(metrics=GROUNDEDNESS), store.scores(golden)):
        assert scores[GROUNDEDNESS].dropna().tolist() == [4, 4, 1, 2.9, 3, 4]
    means = store.summary().set_index(["run_id", "metric"])["mean"]
    assert means[B, CORRECTNESS] == pytest.approx(11.5 / 3)
    assert store.evaluate(golden).summary(GROUNDEDNESS)["n"].tolist() == [3, 3]


def evaluated(tmp_path, golden, changed, profile="chatbot", cases=(BEFORE, AFTER), **both):
    """Evaluate a run of the usual config and one whose config is changed."""
    runs = [
        write_chatbot_run(tmp_path / A, cases[0], **both),
        write_chatbot_run(tmp_path / B, cases[1], **(both | changed)),
    ]
    return rs.evaluate(runs, golden, profile=profile)


UNJUDGED = {name: (rank, None, None) for name, (rank, *_) in BEFORE.items()}


@pytest.mark.parametrize(
    ("changed", "component", "cases"),
    [
        ({"judge_model": "judge-2"}, "judge_fingerprint", (BEFORE, AFTER)),
        ({"judge_temperature": 0.5}, "judge_fingerprint", (UNJUDGED, UNJUDGED)),
        ({"eval_set_commit_hash": "def"}, "golden", (UNJUDGED, UNJUDGED)),
    ],
)
def test_runs_of_other_judges_or_eval_sets_are_compared_only_if_told_to(
    tmp_path, golden, changed, component, cases
):
    ((key, value),) = changed.items()
    ev = evaluated(tmp_path, golden, changed, cases=cases)
    with refused(key, A, value, B, f"allow_different=['{component}']"):
        ev.compare(A, B)
    with pytest.warns(UserWarning) as told:
        cmp = ev.compare(A, B, allow_different=[component])
    assert any(names(str(one.message), key) for one in told)
    assert cmp.invariants.set_index("name").loc[key, "state"] == "differs"


@pytest.mark.parametrize("key", ["judge_model", "judge_prompt_version", "judge_temperature"])
def test_a_judge_that_one_run_does_not_state_is_a_warning(tmp_path, golden, key):
    with warned("judge_correctness"), warned(B, "abc"):
        left_out = {key: None, "eval_set_commit_hash": None}
        cmp = evaluated(tmp_path, golden, left_out).compare(A, B)
    states = cmp.invariants.set_index("name")["state"]
    assert states[["judge_fingerprint", "eval_set_commit_hash"]].tolist() == ["unknown"] * 2


def test_runs_that_state_neither_judge_nor_eval_set_are_compared_without_a_word(
    tmp_path, golden, recwarn
):
    stated = ("judge_model", "judge_prompt_version", "judge_temperature", "eval_set_commit_hash")
    ev = evaluated(tmp_path, golden, {}, cases=[UNJUDGED] * 2, **dict.fromkeys(stated))
    recwarn.clear()
    ev.compare(A, B)
    assert [str(one.message) for one in recwarn] == []


def test_the_profile_compares_within_the_smaller_k(tmp_path, golden):
    cmp = evaluated(tmp_path, golden, {"k": 8}).compare(A, B)
    # the passage of t4 lies at rank 7 and 6: beyond the smaller k, 5
    assert cmp.per_query.set_index("query_id")["outcome"].to_dict() == {
        "t1": "draw", "t2": "win", "t3": "win", "t4": "both_miss",
    }  # fmt: skip
    assert cmp._k == 5
    assert {"hit@5:anchor", "hit@8:anchor"} & {*cmp.deltas["metric"]} == {"hit@5:anchor"}
    # .75 would be 1 with its own k, 8
    assert [cmp._aggregates[name]["recall_at_k_avg"] for name in (A, B)] == [0.5, 0.75]


def test_a_label_that_is_not_stored_is_scored_from_the_stored_hits(store, golden):
    # ranks: 1, 2, none, 7; and 1, 1, 3, 6
    means = [0.75, 1.0]
    assert store.scores(golden, "hit@7").groupby("run_id")["hit@7"].mean().tolist() == means
    found = store.evaluate(golden, "hit@7").trend("hit@7").table
    assert found["mean"].tolist() == means and found["segment"].tolist() == [1, 1]
    with refused("hit@7", "store.evaluate(golden, ['hit@7'])", field="metric"):
        store.trend("hit@7")


def test_a_leaderboard_of_points_by_different_judges_says_so(tmp_path, golden):
    ev = evaluated(tmp_path, golden, {"judge_model": "judge-2"}, profile=None)
    with warned("judge_fingerprint", "judge-1", "judge-2"):
        ev.leaderboard(CORRECTNESS)
    ev.leaderboard("mrr")  # which no judge measured: no warning


def test_a_run_from_elsewhere_has_its_config_in_every_row(loaded, tmp_path):
    records = [
        record(name, [hit("c1", "d1", 1)], answer={"answer": "so", "refused": name == "z"})
        for name in ("x", "z")
    ]
    golden = [{"id": "x", "query": "?", "expected_doc_ids": ["d1"]}]
    config = {"eval_k": 7, "folder_mode": "on"}
    results, _ = loaded(golden, {"r": records}, config=config, k=7)
    with warned("responses"):
        folder = results.save(tmp_path / "out", format="chatbot")
    rows = lines_of(folder / "results.jsonl")
    assert [one["config"] for one in rows] == [config | {"k": 7}] * 2
    assert [one["abstention"] for one in rows] == [{"abstained": False}, {"abstained": True}]

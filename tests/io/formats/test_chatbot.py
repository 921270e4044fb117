"""A chatbot's evaluation files: golden cases, run folders, and the way back."""

import json

import pytest

import ragscore as rs
from ragscore.golden.coverage import coverage
from ragscore.io.formats.chatbot import read_description
from tests.messages import refused, warned

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


def jsonl(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def rows_of(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def golden_file(tmp_path):
    return jsonl(tmp_path / "eval_set.jsonl", [CASE, REFUSE])


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "results" / "20251219_235258"
    jsonl(folder / "results.jsonl", [ROW, REFUSED])
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (folder / "metrics.json").write_text(json.dumps(METRICS), encoding="utf-8")
    return folder


def test_golden_cases_load_as_anchors_groups_checks_and_tags(golden_file):
    golden = rs.load_golden(golden_file)
    assert golden.queries["answerable"].tolist() == [True, False] and golden.queries[
        "category"
    ].tolist() == ["multi_hop", "general"]
    targets = golden.targets
    assert targets["level"].unique().tolist() == ["anchor"] and targets[
        "snippet"
    ].dropna().tolist() == ["hold the", "ten seconds"]
    assert targets["target_id"].unique().tolist() == [
        "manual/reset.md## Reset > ## Steps",
        "manual/faq.md## FAQ",
    ]
    assert golden.support_groups["target_id"].tolist() == targets["target_id"].unique().tolist()
    assert (
        golden.checks.loc[golden.checks["kind"] == "key_fact", "text"].tolist()
        == CASE["expected_key_facts"]
    )
    assert set(map(tuple, golden.tags[["kind", "value"]].to_numpy())) == {
        ("tag", "manual"),
        ("vault", "work"),
        ("folder", "manual"),
    }


def test_golden_cases_round_trip_with_unknown_fields(golden_file, tmp_path):
    written = rs.load_golden(golden_file).save(
        tmp_path / "again" / "eval_set.jsonl", format="chatbot"
    )
    author = {"author": {"team": "docs"}}  # null and absent are the same
    assert rows_of(written) == [CASE | author, REFUSE]


@pytest.mark.parametrize(
    ("groups", "written"),
    [
        (None, None), ([], None), ([[]], None), ([[0], []], [[0]]),
        ([[9], [0, 1]], [[9], [0, 1]]),
    ],
)  # fmt: skip
def test_groups_round_trip_with_those_out_of_range_but_without_empty_ones(
    tmp_path, groups, written
):
    case = CASE | {"required_support_groups": groups, "author": 1}
    golden = rs.load_golden(jsonl(tmp_path / "eval_set.jsonl", [case]))
    again = rows_of(golden.save(tmp_path / "again.jsonl", format="chatbot"))
    assert again == [case | {"required_support_groups": written}]


def test_a_group_of_a_document_called_0_is_not_written_as_the_first_support(tmp_path):
    row = {
        "id": "q", "query": "?", "expected_doc_ids": ["0"], "gold_supports": [{"path": "a.md"}],
        "required_support_groups": [["0"]],
    }  # fmt: skip
    golden = rs.load_golden(jsonl(tmp_path / "golden.jsonl", [row]))
    with refused(0, "q", "gold_supports", field="support_groups.target_id"):
        golden.save(tmp_path / "eval_set.jsonl", format="chatbot")


def test_a_case_that_does_not_say_so_is_answerable(tmp_path):
    case = {"id": "t", "question": "?", "gold_supports": []}
    assert rs.load_golden(jsonl(tmp_path / "eval_set.jsonl", [case])).queries[
        "answerable"
    ].tolist() == [True]


@pytest.mark.parametrize(
    ("cases", "field", "named"),
    [
        ([CASE, CASE], "id", ["test_001", 1]),  # upstream takes the last
        (
            [CASE, REFUSE | {"recency_conflict_rule": "newest"}],
            "recency_conflict_rule",
            ["cite_newer", "acknowledge_both", "cite_both"],
        ),
        (
            [CASE, REFUSE | {"gold_supports": [{"rel_path": "a.md", "date": "last week"}]}],
            "gold_supports.date",
            [],
        ),
    ],
)
def test_what_a_case_cannot_hold_names_line_and_field(tmp_path, cases, field, named):
    with refused(*named, file="eval_set.jsonl", line=2, field=field):
        rs.load_golden(jsonl(tmp_path / "eval_set.jsonl", cases))


def test_a_run_folder_loads_into_frames(run_folder):
    results = rs.load_results(run_folder)
    run = results.runs.iloc[0]
    assert (run["run_id"], run["k"], run["config_hash"], str(run["created_at"].date())) == (
        "20251219_235258",
        5,
        "0123456789abcdef",
        "2025-12-19",
    )
    assert json.loads(run["config"]) == CONFIG
    response = results.responses.iloc[0]
    assert (
        response["elapsed_ms"],
        response["latency_folder_selection_ms"],
        response["latency_generation_ms"],
    ) == (1234, 12.5, 900)
    assert (
        results.responses["refused"].tolist() == [False, True]
        and results.responses["error"].isna().all()
    )
    assert (
        response["x_indexing_coverage.docs_processed"] == 10
        and response["x_indexing_coverage.chunk_token_stats.mean"] == 40.5
    )
    assert results.hits[["score", "score_vector"]].to_numpy().tolist() == [[0.9, 0.95], [0.5, 0.6]]
    assert results.hits["text_cut"].tolist() == [True, False]  # an ellipsis alone is no cut
    assert results.citations.iloc[0][["path", "heading", "x_vault"]].tolist() == [
        "manual/reset.md",
        "# Reset",
        "work",
    ]


def test_judges_scores_and_claims_are_judgments(run_folder):
    judged = rs.load_results(run_folder).judgments
    first = judged[judged["query_id"] == "test_001"]
    assert first["criterion"].tolist() == ["judge_groundedness"] * 4 + ["judge_correctness"]
    assert first["item"].tolist() == [
        "",
        "supported 1",
        "supported 2",
        "unsupported 1",
        "",
    ] and first["value"].tolist() == [4, 1, 1, 0, 3.5]
    assert (
        first["verdict"].dropna().tolist() == ["supported", "supported", "unsupported"]
        and first["item_text"].iloc[3] == "it beeps"
    )
    # both judges' cost stands once
    assert first["tokens"].tolist()[0] == 120 and first["tokens"].sum() == 120
    assert set(judged["judge"]) == {"judge-1"} and set(judged["temperature"]) == {0.0}


def test_stored_values_are_reported_by_case_and_for_the_run(run_folder):
    reported = rs.load_results(run_folder).reported.set_index(["query_id", "metric"])["value"]
    assert (
        reported["test_001", "mrr"] == 0.5
        and reported["test_001", "attribution_hit"] == 1
        and reported["test_001", "scope_miss"] == 0
    )
    assert reported["", "latency.p50_ms"] == 1234 and reported["", "recall_at_k_avg"] == 0.5


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
        ("## Run Description\n\none\n\n## Files\n\n- a\n", "one"),
        (SUMMARY.format("No description provided"), None),
        ("# Evaluation Run Summary\n\n## Configuration\n", None),
        ("", None),
    ],
)
def test_the_description_of_a_summary_is_its_section_or_nothing(tmp_path, summary, description):
    (tmp_path / "summary.md").write_bytes(summary.encode())
    assert read_description(tmp_path / "summary.md") == description


def test_the_description_of_a_summary_is_the_runs_note_and_is_written_back(run_folder, tmp_path):
    (run_folder / "summary.md").write_text(SUMMARY.format("first\n\nand second paragraph"))
    results = rs.load_results(run_folder / "results.jsonl")
    assert results.runs["note"].tolist() == ["first\n\nand second paragraph"]
    results.save(tmp_path / "out", format="chatbot")
    again = rs.load_results(tmp_path / "out" / "results.jsonl")
    assert again.runs["note"].tolist() == results.runs["note"].tolist()


def test_a_run_folder_round_trips(run_folder, tmp_path):
    again = rs.load_results(run_folder).save(
        tmp_path / "again" / "20251219_235258", format="chatbot"
    )
    assert rows_of(again / "results.jsonl") == [ROW, REFUSED]
    assert json.loads((again / "config.json").read_text()) == CONFIG
    assert json.loads((again / "metrics.json").read_text()) == METRICS


def test_only_one_run_is_written(run_folder, tmp_path):
    results = rs.load_results(run_folder)
    with refused(0, field="results"):
        results.select([]).save(tmp_path, format="chatbot")


def test_a_run_without_files_beside_it_takes_k_from_its_rows_and_its_time_from_its_name(tmp_path):
    file = jsonl(tmp_path / "20251219_235258" / "results.jsonl", [ROW])
    run = rs.load_results(file).runs.iloc[0]
    assert (run["run_id"], run["k"], str(run["created_at"])) == (
        "20251219_235258",
        5,
        "2025-12-19 23:52:58+00:00",
    )


def test_a_case_without_a_row_is_missing_though_upstream_drops_it_from_every_denominator(
    golden_file, tmp_path
):
    results = rs.load_results(jsonl(tmp_path / "run" / "results.jsonl", [ROW]))
    assert coverage(results, rs.load_golden(golden_file)).runs["n_missing"].tolist() == [1]


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ("x" * 200 + "...", True), ("x" * 250, False), ("x" * 400 + "...", False),
        ("x" * 190, False),
    ],
)  # fmt: skip
def test_a_text_is_stored_cut_at_200_characters_or_whole(tmp_path, text, is_cut):
    row = ROW | {"retrieved_chunks": [ROW["retrieved_chunks"][0] | {"text": text}]}
    results = rs.load_results(jsonl(tmp_path / "run" / "results.jsonl", [row]))
    assert results.hits["text_cut"].tolist() == [is_cut]


@pytest.mark.parametrize(
    ("change", "field", "named"),
    [
        (
            {"retrieved_chunks": [{"rank": 1}, {"rank": 1}]},
            "retrieved_chunks.rank",
            [1, "each once"],
        ),
        ({"retrieved_chunks": ["c1"]}, "retrieved_chunks", ["c1"]),
        ({"latency": 5}, "latency", [5]),
        ({"groundedness": {"score": "high"}}, "groundedness.score", ["high"]),
        ({"abstention": {"abstained": "no"}}, "abstention.abstained", ["no"]),
        ({"test_case_id": None}, "test_case_id", []),
        ({"test_case_id": "test_001"}, "test_case_id", ["test_001", 1]),
    ],
)
def test_what_a_row_cannot_hold_names_line_and_field(tmp_path, change, field, named):
    other = ROW | {"test_case_id": "test_002"}
    with refused(*named, file="results.jsonl", line=2, field=field):
        rs.load_results(jsonl(tmp_path / "run" / "results.jsonl", [ROW, other | change]))


def test_a_cut_text_leaves_file_and_heading_to_decide(golden_file, run_folder):
    results, golden = rs.load_results(run_folder), rs.load_golden(golden_file)
    assert coverage(results, golden).runs["n_cut"].tolist() == [1]
    labels, found = ["hit@1", "hit@3", "recall_all@3"], {}
    for profile in (None, "chatbot"):
        with warned("1 hits"):
            scores = rs.score(results, golden, labels, profile=profile)
        found[profile] = scores.loc["test_001", labels].tolist()
    assert found == {None: [1, 1, 1], "chatbot": [0, 1, 0]}


def test_a_judge_temperature_that_is_no_number_is_named(run_folder):
    (run_folder / "config.json").write_text('{"k": 5, "judge_temperature": "cold"}')
    with refused("cold", file="config.json", field="judge_temperature"):
        rs.load_results(run_folder)
    loose = rs.load_results(run_folder, strict=False)
    assert len(loose.problems) == 1 and loose.judgments["value"].tolist()[0] == 4

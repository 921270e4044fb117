"""Files of every format of ours, nearly right, for the tests that throw damaged files at readers.

Records are good ones with values, keys and bytes changed: a reader sees its own format nearly
right, where mistakes hide.
"""

import copy
import json

from conftest import answer, hit, record

ODD = [
    None, True, 0, -1, 3, 10**400, 2**63, 1.5, float("nan"), float("inf"), "", " ", "a", "\u202e",
    "\x00", "\ud800", "ﬁ", "1e999", "2024-01-01", "x" * 300, [],
    [None], [[]], [["d1"]], {}, {"a": 1}, {"": None}, ["a", 1, {}],
    {"a": {"b": {"c": [1, {"d": None}]}}}, [1, 2], ["a", "a"], [{"rank": 1}],
]  # fmt: skip
OWN_KEYS = ["x", "", "rank", "\ud800", "a.b", "x_a", "json", "ID"]

HITS = [hit("c1", "d1", 1), hit("c2", "d2", 2)]
HOP = {
    "hop": 0,
    "kind": "decompose",
    "sub_queries": ["one"],
    "context_chunks_added": 2,
    "forced_stop": False,
    "llm_call_ms": 5,
}
RECORDS = [
    record(
        "q1",
        HITS,
        answer=answer("yes", paths=["docs/d1.md"])
        | {
            "hops": [HOP],
            "verification": {"nli_passed": True},
        },
    ),
    record("q2", [], error="boom"),
]
GOLDEN = [
    {
        "id": "q1", "query": "one?", "expected_doc_ids": ["d1", ["d2", "d3"]],
        "expected_chunk_ids": [{"any": ["c1"], "grade": 2}], "must_contain": ["a"],
        "tags": ["t"], "difficulty": "easy", "group": "g", "variant": "v", "reference_answer": "r",
        "expected_key_facts": ["f"], "answerable": True,
    },
    {"id": "q2", "query": "two?", "answerable": False},
    {
        "id": "q3", "query": "three?",
        "gold_supports": [
            {"path": "a.md", "heading": "A > B", "snippets": ["s"], "date": "2024-01-01"},
            {"path": "b.md"},
        ],
        "required_support_groups": [[0, 1]], "recency_conflict_rule": "cite_newer",
        "folders": ["a"],
    },
    {"id": "q4", "query": "four?", "expected_source_keys": ["k"], "expected_metadata": {"y": 2024},
    "must_not_contain_source_keys": ["z"], "filters": {"product": "p"}},
]  # fmt: skip
CASES = [
    {
        "id": "test_001", "question": "q?", "answerable": True, "expected_key_facts": ["f"],
        "gold_supports": [{"rel_path": "a.md", "heading_path": "# O", "snippets": ["t"]}],
        "required_support_groups": [[0]], "recency_conflict_rule": "cite_both", "tags": ["t"],
        "vaults": ["p"], "folders": ["f"], "category": "multi_hop",
        "difficulty": "easy",
    },
]  # fmt: skip
RESPONSE = {
    "test_case_id": "test_001", "question": "q?", "answer": "a [File: a.md, Section: O]",
    "references": [{"rel_path": "a.md", "heading_path": "# O"}],
    "retrieved_chunks": [
        {"chunk_id": "c1", "rel_path": "a.md", "heading_path": "# O", "rank": 1,
         "score_final": 0.9, "text": "t", "token_count": 5}
    ],
    "config": {"k": 5, "folder_mode": "on"}, "latency": {"total_ms": 12.0},
    "retrieval_metrics": {"recall_at_k": 1.0, "scope_miss": False},
    "indexing_coverage": {"docs_processed": 3, "chunks_skipped_reasons": {"big": 1}},
    "groundedness": {"score": 4.0, "reasoning": "r", "supported_claims": ["y"]},
    "correctness": {"score": 3, "reasoning": "z"}, "abstention": {"abstained": False},
    "cost": {"judge_tokens": 5, "judge_cost_usd": 0.1},
}  # fmt: skip
CONFIG = {
    "k": 5,
    "rerank_weights": {"vector": 0.7},
    "folder_mode": "on",
    "judge_model": "m",
    "judge_temperature": 0.0,
}
METRICS = {
    "run_id": "r1",
    "timestamp": "2025-01-01T00:00:00",
    "aggregate_metrics": {"latency": {"p50_ms": 1.0}, "recall_at_k_avg": 0.5},
    "config_hash": "x",
}
RUN = {
    "run_id": "r1",
    "system": "s",
    "created_at": "2025-01-01T00:00:00Z",
    "k": 10,
    "config": {"eval_k": 10},
    "chunker_version": "v1",
}
RAG = {
    "run_id": "r",
    "topic_id": "1",
    "topic": "q",
    "references": ["d1", "d2"],
    "answer": [{"text": "a", "citations": [0, 1]}],
}
CHECKED = {
    "query_id": "1",
    "query": "q",
    "gt_answer": "g",
    "response": "r",
    "retrieved_context": [{"doc_id": "d", "text": "t"}],
    "metrics": {"precision": 0.5},
}
REPORT = {
    "dataset_id": "d",
    "metrics": [
        {
            "metric": "mrr",
            "n": 2,
            "mean": 0.5,
            "per_query": [["q1", 0.0], ["q2", 1.0]],
            "ci": {"lower": 0.3, "level": 0.9},
        }
    ],
}
QRELS = [
    {"query_id": "q1", "query": "x", "relevant_docs": {"a": 2, "b": 0}, "reference_answer": "r"},
    {"query_id": "q2", "query": "y", "relevant_docs": {}},
]
RETRIEVED = [
    {"query": "one?", "query_id": "q1", "retriever": "r", "k": 5, "elapsed_ms": 1.0,
    "hits": [{"source_key": "k", "text": "t", "score": 0.5, "metadata": {"y": 2024}}]},
    {"query": "two?", "query_id": "q2", "retriever": "r", "k": 5, "error": "boom", "hits": []},
    {"query": "three?", "query_id": "q3", "retriever": "s", "n_hits": 2, "rank_first_match": 1,
    "passed": True, "kind": "positive"},
]  # fmt: skip
PREDICATES = [
    {"query": "one?", "id": "q1", "expected_source_keys": ["k"], "match": "any",
    "filters": {"product": "p"}},
    {"query": "two?", "id": "q2", "expected_metadata": {"y": 2024}, "expected_substrings": ["s"],
    "must_not_contain_source_keys": ["z"]},
    {"query": "three?", "id": "q3", "expected_empty": True},
]  # fmt: skip
BEIR = [{"_id": "q1", "text": "one?", "metadata": {"url": "u"}}, {"_id": "q2", "text": "two?"}]
JUDGED = "query-id\tcorpus-id\tscore\nq1-0\td1-0\t2\nq2-1\td2-1\t1\n"
VERSIONS = [
    {"doc_id": "a", "version_key": "k", "effective_timestamp": 100, "superseded_by": "b"},
    {"doc_id": "b"},
]
KEBAB_RUN = {
    "run_id": "a", "created_at": "2026-01-31T09:00:00Z", "commit_hash": "abc",
    "config_snapshot_json": {"chunker_version": "test@1", "eval_k": 10},
    "aggregate": {"hit_at_k": {"1": 0.5}, "mrr": 0.4, "citation_coverage": None,
    "total_queries": 2, "failed_queries": 1}, "per_query": RECORDS,
}  # fmt: skip


def lines(rows):
    return "\n".join(map(json.dumps, rows))


# reader -> its format, the file that is changed, what the file holds, how that is written, files
# beside it that are good, what is loaded
READERS = {
    "golden": ("golden", "g.jsonl", GOLDEN, "lines", {}, "g.jsonl"),
    "golden as YAML": ("golden", "g.yaml", GOLDEN, "yaml", {}, "g.yaml"),
    "chatbot golden": ("chatbot", "e.jsonl", CASES, "lines", {}, "e.jsonl"),
    "qrels": ("qrels_jsonl", "q.jsonl", QRELS, "lines", {}, "q.jsonl"),
    "ragchecker golden": ("ragchecker", "c.json", {"results": [CHECKED]}, "json", {}, "c.json"),
    "per_query": ("per_query", "per_query.jsonl", RECORDS, "lines", {}, "per_query.jsonl"),
    "run.json": (
        "per_query",
        "run.json",
        RUN,
        "json",
        {"per_query.jsonl": lines(RECORDS)},
        "per_query.jsonl",
    ),
    "chatbot": (
        "chatbot",
        "results.jsonl",
        [RESPONSE],
        "lines",
        {"config.json": json.dumps(CONFIG)},
        "results.jsonl",
    ),
    "config.json": (
        "chatbot",
        "config.json",
        CONFIG,
        "json",
        {"results.jsonl": lines([RESPONSE])},
        "results.jsonl",
    ),
    "metrics.json": (
        "chatbot",
        "metrics.json",
        METRICS,
        "json",
        {"results.jsonl": lines([RESPONSE])},
        "results.jsonl",
    ),
    "trec_rag": ("trec_rag", "a.jsonl", [RAG], "lines", {}, "a.jsonl"),
    "ragchecker": (
        "ragchecker",
        "c.json",
        {"results": [CHECKED], "metrics": {"overall": {"f1": 1.0}}},
        "json",
        {},
        "c.json",
    ),
    "report": ("metric_report", "r.json", REPORT, "json", {}, "r.json"),
    "json_run": (
        "table",
        "r.json",
        {"q1": {"d1": 1.0, "d2": 0.5}, "q2": {}},
        "json",
        {},
        "r.json",
    ),
    "retrievers": ("retrievers", "r.jsonl", RETRIEVED, "lines", {}, "r.jsonl"),
    "predicates": ("predicates", "p.jsonl", PREDICATES, "lines", {}, "p.jsonl"),
    "trec_qrels": (
        "trec_qrels",
        "q.txt",
        ["q1 0 d1 1", "q1 0 d2 0", "q2 0 d3 2"],
        "text",
        {},
        "q.txt",
    ),
    "trec_run": (
        "trec",
        "r.txt",
        ["q1 Q0 d1 1 1.5 t", "q1 Q0 d2 2 1.0 t", "q2 Q0 d3 1 0.5 t"],
        "text",
        {},
        "r.txt",
    ),
    "beir queries": (
        "beir",
        "queries.jsonl",
        BEIR,
        "lines",
        {"qrels/test.tsv": JUDGED},
        ".",
    ),
    "json_qrels": (
        "table",
        "q.json",
        {"q1": {"d1": 2, "d2": 0}, "q2": {"d3": 1}},
        "json",
        {},
        "q.json",
    ),
    "documents": (None, "v.jsonl", VERSIONS, "lines", {}, "v.jsonl"),
}
IS_GOLDEN = (
    "golden",
    "golden as YAML",
    "chatbot golden",
    "qrels",
    "ragchecker golden",
    "predicates",
    "trec_qrels",
    "beir queries",
    "json_qrels",
)


def changed(value, by):
    """The value with one thing in it changed.

    A value, a key or an item; gone, doubled or of another kind.
    """
    if not isinstance(value, (dict, list)) or not value or by.random() < 0.1:
        return copy.deepcopy(by.choice(ODD))
    value, kind = copy.copy(value), by.random()
    place = by.choice(list(value)) if isinstance(value, dict) else by.randrange(len(value))
    if kind < 0.15:
        del value[place]
    elif kind < 0.3 and isinstance(value, dict):
        value[by.choice(OWN_KEYS)] = copy.deepcopy(by.choice(ODD))
    elif kind < 0.3:
        value.insert(place, copy.deepcopy(value[place]))
    else:
        value[place] = changed(value[place], by)
    return value

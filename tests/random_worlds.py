"""Small random worlds, written as the files that people have: a golden set and two or three runs.

Each world draws what it has: graded and alternative targets, chunks, support groups, questions to
refuse, checks, citations, failures, missing rows, documents found twice, equal scores.
"""

import json
import random
from pathlib import Path
from typing import Any

import ragscore as rs


def written(seed: int, folder: Path) -> tuple[rs.Golden, rs.Results]:
    """Write a world's files and load them."""
    draw = random.Random(f"world {seed}")
    folder.mkdir(parents=True)
    has = {name: draw.random() < 0.5 for name in ("chunks", "answers", "groups", "refusals")}
    rows = [golden_row(draw, n, has, seed) for n in range(draw.randint(3, 45))]
    (folder / "golden.yaml").write_text(json.dumps(rows), encoding="utf-8")
    for run in "abc"[: draw.randint(2, 3)]:
        skill = draw.uniform(0.2, 0.9)
        records = [record(draw, row, has, skill) for row in rows if draw.random() > 0.03]
        target = folder / "runs" / run / "per_query.jsonl"
        target.parent.mkdir(parents=True)
        target.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
        described = {"run_id": run, "config": {"chunker_version": "c@1", "eval_k": 10}}
        (target.parent / "run.json").write_text(json.dumps(described), encoding="utf-8")
    return rs.load_golden(folder / "golden.yaml"), rs.load_results(f"{folder}/runs/*")


def golden_row(draw: random.Random, n: int, has: dict[str, bool], seed: int) -> dict[str, Any]:
    """Return a query and what is expected of it."""
    row: dict[str, Any] = {
        "id": f"q{n:02}",
        "query": f"question {n}",
        "difficulty": draw.choice(["easy", "medium", "hard"]),
        "category": draw.choice("xy"),
    }
    if has["refusals"] and draw.random() < 0.25:
        return row | {"answerable": False}
    if has["groups"] and n % 3:
        row |= {"group": f"g{n // 3}", "variant": f"v{n % 3}"}
        draw = random.Random(f"group {n // 3} of world {seed}")  # paraphrases expect the same
    docs = draw.sample([f"d{one}" for one in range(12)], draw.randint(1, 4))
    if draw.random() < 0.3:
        row["expected_doc_ids"] = [{"any": [one], "grade": draw.randint(1, 3)} for one in docs]
    elif draw.random() < 0.3:
        row["expected_doc_ids"] = [{"any": docs[:2]}, *docs[2:]]
    else:
        row["expected_doc_ids"] = docs
    if has["chunks"]:
        row["expected_chunk_ids"] = [f"{one}#{draw.randint(0, 2)}" for one in docs]
    if has["answers"]:
        row["must_contain"] = draw.sample(["red", "green", "blue"], draw.randint(1, 2))
        row["reference_answer"] = f"it is {draw.choice(['red', 'green', 'blue'])} as far as known"
    return row


def record(
    draw: random.Random, row: dict[str, Any], has: dict[str, bool], skill: float
) -> dict[str, Any]:
    """Return what one run did with a query."""
    one = {"query_id": row["id"], "query": row["query"], "mode": "hybrid"}
    elapsed = draw.randint(5, 400)
    if draw.random() < 0.05:
        failed = {"hits_top_k": [], "answer": None, "error": "TimeoutError: timed out"}
        return one | failed | {"elapsed_ms": elapsed}
    wanted = [
        doc
        for part in row.get("expected_doc_ids", [])
        for doc in (part["any"] if isinstance(part, dict) else [part])
    ]
    ranked = [
        draw.choice(wanted) if wanted and draw.random() < skill / 3 else f"d{draw.randint(0, 30)}"
        for _ in range(draw.choice([0, 3, 10, 10, 10]))
    ]
    hits = [
        hit(doc, f"{doc}#{draw.randint(0, 2)}", rank, draw) for rank, doc in enumerate(ranked, 1)
    ]
    given = {"hits_top_k": hits, "answer": None, "elapsed_ms": elapsed, "error": None}
    if has["answers"] or has["refusals"]:
        is_refused = draw.random() < (0.6 if row.get("answerable") is False else 0.1)
        words = " ".join(draw.choices(["red", "green", "blue", "it", "is", "known"], k=5))
        cited = draw.sample(hits, min(len(hits), draw.randint(0, 3)))
        given["answer"] = {
            "answer": "I can't tell." if is_refused else words,
            "grounded": not is_refused,
            "refusal_reason": "score_gate" if is_refused else None,
            "citations": [
                {"marker": f"[{n}]", "citation": found["citation"]}
                for n, found in enumerate([] if is_refused else cited, 1)
            ],
        }
    return one | given


def hit(doc: str, chunk: str, rank: int, draw: random.Random) -> dict[str, Any]:
    path = f"docs/{doc}.md"
    return {
        "rank": rank, "chunk_id": chunk, "doc_id": doc, "doc_path": path,
        "heading_path": ["root"], "section_label": None, "snippet": f"words of {doc}",
        "citation": {"kind": "line", "path": path, "start": 1, "end": 4, "section": None},
        "retrieval": {"method": "hybrid", "fusion_score": draw.choice([1.0 / rank, 0.5]),
        "lexical_score": None, "vector_score": None, "lexical_rank": None, "vector_rank": None},
        "index_version": "i@1", "embedding_model": None, "chunker_version": "c@1",
        "indexed_at": "2026-01-01T00:00:00Z", "stale": False, "score_kind": "rrf",
    }  # fmt: skip

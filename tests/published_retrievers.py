"""The runs behind the published table of retrievers judged by predicates (SEEDS F.7)."""

from conftest import found, said

# SEEDS F.7: 21 queries, of which 2 have no rank (one expects nothing, one must not hold a source).
# None: a miss.
RANKS = {
    "hybrid+rerank": [1] * 19,
    "bm25": [1] * 17 + [2, None],
    "hybrid": [1] * 13 + [None] * 6,
    "dense": [1] * 8 + [3] * 3 + [4] + [None] * 7,
}
MS = {"hybrid+rerank": 2064.0, "bm25": 5.0, "hybrid": 73.0, "dense": 79.0}
QUESTIONS = [{"query": f"question {n}", "expected_source_keys": [f"Key-{n}"]} for n in range(19)]
QUESTIONS += [
    {"query": "made up", "must_not_contain_source_keys": ["pioneer"]},
    {"query": "nowhere", "expected_empty": True, "expect_lessons_call": True},
]


def records():
    for retriever, ranks in RANKS.items():
        for n, rank in enumerate(ranks):
            yield said(
                f"question {n}",
                [found(r, f"key-{n}" if r == rank else "else") for r in range(1, 6)],
                retriever,
                elapsed_ms=MS[retriever],
            )
        yield said("made up", [found(1, "bayer")], retriever, elapsed_ms=MS[retriever])
        yield said("nowhere", [], retriever, elapsed_ms=MS[retriever])

"""SEEDS F.5.20: a golden set and its corpus from a seed."""

import pandas as pd

import ragscore as rs
from ragscore.analysis.extras.corpora import needle_set


def test_the_same_arguments_give_the_same_set():
    one, other = needle_set(seed=7), needle_set(seed=7)
    pd.testing.assert_frame_equal(one.chunks, other.chunks)
    assert (
        one.golden.golden_hash == other.golden.golden_hash != needle_set(seed=8).golden.golden_hash
    )


def test_each_needle_stands_in_its_document_and_nowhere_else():
    golden, chunks = needle_set(docs=4, lines=40, needles=6, seed=3)
    texts = chunks.groupby("doc_id")["text"].agg("\n".join)
    assert len(golden.queries) == 6 and len(texts) == 4
    for query, doc_id in zip(golden.queries["query"], golden.targets["doc_id"], strict=True):
        assert texts.index[texts.str.contains(query, regex=False)].tolist() == [doc_id]


def test_ids_and_sizes_are_as_documented():
    golden, chunks = needle_set()
    assert (len(golden.queries), chunks["doc_id"].nunique()) == (12, 8)
    assert golden.queries["query_id"].iloc[-1] == "needle-0011"
    assert golden.queries["query"].iloc[0] == "IOC-00000001-0000"
    assert chunks["doc_id"].iloc[-1] == "doc-007"
    # every needle is a line of its own
    assert (chunks["end"] - chunks["start"]).sum() == 8 * 200 + 12


def test_a_search_over_the_chunks_can_be_scored():
    golden, chunks = needle_set(docs=5, needles=4)
    pairs = golden.queries.merge(chunks, how="cross")
    has_needle = [a in b for a, b in zip(pairs["query"], pairs["text"], strict=True)]
    hits = pairs.loc[has_needle, ["query_id", "chunk_id", "doc_id"]].assign(run_id="r", rank=2)
    responses = golden.queries[["query_id", "query"]].assign(run_id="r", error=pd.NA)
    results = rs.Results(runs=pd.DataFrame({"run_id": ["r"]}), responses=responses, hits=hits)
    assert rs.score(results, golden, ["mrr"])["mrr"].tolist() == [1 / 2] * 4

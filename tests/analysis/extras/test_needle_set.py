"""SEEDS F.5.20: a golden set and its corpus from a seed."""

import pandas as pd

import ragscore as rs
from ragscore.analysis.extras.corpora import needle_set


def test_the_same_arguments_give_the_same_set():
    one, other = needle_set(seed=7), needle_set(seed=7)
    pd.testing.assert_frame_equal(one.chunks, other.chunks)
    hashes = [made.golden.golden_hash for made in (one, other, needle_set(seed=8))]
    assert hashes[0] == hashes[1] != hashes[2]


def test_ids_and_sizes_are_as_documented():
    golden, chunks = needle_set()
    assert (len(golden.queries), chunks["doc_id"].nunique()) == (12, 8)
    assert golden.queries["query_id"].iloc[-1] == "needle-0011"
    assert golden.queries["query"].iloc[0] == "IOC-00000001-0000"
    assert chunks["doc_id"].iloc[-1] == "doc-007"
    # every needle is a line of its own
    assert (chunks["end"] - chunks["start"]).sum() == 8 * 200 + 12


def test_each_needle_stands_in_its_document_and_nowhere_else():
    golden, chunks = needle_set(docs=4, lines=40, needles=6, seed=3)
    found = {
        query: chunks.loc[chunks["text"].str.contains(text, regex=False), "doc_id"].tolist()
        for query, text in golden.queries[["query_id", "query"]].to_numpy()
    }
    assert [len(docs) for docs in found.values()] == [1] * 6
    assert rs.evaluate(found, golden).summary(["mrr", "hit@1"])["mean"].tolist() == [1, 1]

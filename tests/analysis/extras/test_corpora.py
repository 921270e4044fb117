"""SEEDS F.5.18 and F.5.20: chunks that retrieval suffers from, and a corpus from a seed."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused

TWICE = "A sentence that stands here twice, word for word."
LONG = "a chunk of some forty characters of prose"
WORDS = [f"word{n}" for n in range(100)]


def linted(texts, ids=None, **how):
    ids = [f"c{n}" for n in range(len(texts))] if ids is None else ids
    return rs.extras.lint_chunks(pd.DataFrame({"chunk_id": ids, "text": texts}), **how)


SEVEN = [TWICE, TWICE, "four", "", "x", "z" * 5000, LONG]


@pytest.mark.parametrize(
    ("texts", "ids", "found", "rows"),
    [
        (SEVEN, [*"abcdef", None],
         {"empty": 1, "near_empty": 2, "tiny": 2, "giant": 1, "missing_id": 1, "duplicate": 2},
         [["duplicate", 0, "a", 2, "a"], ["duplicate", 1, "b", 2, "a"],
          ["giant", 5, "f", 5000, ""]]),
        ([None, LONG], [None, None], {"empty": 1, "missing_id": 2}, []),
        ([LONG, "y" * 40, "z" * 40], ["a", "a", ""], {"duplicate_id": 2, "missing_id": 1}, []),
        # a byte order mark, a bell and a null; lines and tabs are what texts are made of
        (["\ufeff" + LONG, f"{LONG} \x07 \x00", f"{LONG}\nand\ttabs\r\n"], ["a", "b", "c"],
         {"byte_order_mark": 1, "control_characters": 1}, []),
        ([], [], {}, []),
    ],
    ids=["seven", "missing", "ids", "characters", "none"],
)  # fmt: skip
def test_what_is_wrong_is_counted_by_kind(texts, ids, found, rows):
    lint = linted(pd.Series(texts, dtype="str"), pd.Series(ids, dtype="str"))
    counts = lint.summary.set_index("kind")["n"]
    assert counts[counts > 0].to_dict() == found
    assert lint.summary["share"].isna().all() == (not texts)
    told = lint.findings.query("kind in ['duplicate', 'giant']").fillna("")
    assert told[["kind", "row", "chunk_id", "value", "other"]].values.tolist() == rows


@pytest.mark.parametrize("n_tiny", [1, 2])
def test_a_few_tiny_chunks_are_no_warning(n_tiny):
    texts = [f"tiny text {n}" if n < n_tiny else f"{LONG}, number {n}" for n in range(10)]
    row = linted(texts).summary.set_index("kind").loc["tiny"]
    assert (row["n"], row["is_warning"]) == (n_tiny, n_tiny > 1)


def near(*texts, limit=0.85, **more):
    found = linted(texts, near_duplicates=limit, **more).findings
    return found[found["kind"] == "near_duplicate"]


def test_a_changed_word_makes_a_near_duplicate_and_mere_punctuation_none():
    found = near(" ".join(WORDS), " ".join(reversed(WORDS)), " ".join([*WORDS[:-1], "other"]))
    assert found[["chunk_id", "other"]].values.tolist() == [["c2", "c0"]]
    # 96 shingles each, 95 of them in both
    assert found["value"].iloc[0] == pytest.approx(95 / 97, abs=0.1)
    for other in (TWICE, TWICE.upper().replace(",", " !")):
        assert near(TWICE, other, limit=0.01).empty


@pytest.mark.parametrize(("limit", "size"), [(0.5, 5), (0.85, 5), (0.85, 1)])
def test_pairs_are_those_whose_shingles_are_alike_by_jaccard(limit, size):
    rng = np.random.default_rng(0)
    texts = [" ".join(np.where(rng.random(100) < 0.01, f"x{n}", WORDS)) for n in range(30)]
    words = [text.split() for text in texts]
    shingles = [{tuple(own[at : at + size]) for at in range(101 - size)} for own in words]
    similar = [[len(a & b) / len(a | b) for b in shingles] for a in shingles]
    distinct = [row for row in range(30) if texts[row] not in texts[:row]]
    best = {
        row: max([similar[row][one] for one in distinct if one < row] or [0]) for row in distinct
    }
    expected = {row: value for row, value in best.items() if value >= limit}
    found = near(*texts, limit=limit, shingle=size).set_index("row")["value"]
    assert found.to_dict() == pytest.approx(expected) and len(expected) > 5


@pytest.mark.parametrize(
    ("chunks", "limit", "field"),
    [({"chunk_id": ["a"]}, None, "chunks"),
     ({"chunk_id": ["a"], "text": ["x"]}, 1.5, "near_duplicates, shingle")],
)  # fmt: skip
def test_what_cannot_be_linted_is_said(chunks, limit, field):
    with refused(field=field):
        rs.extras.lint_chunks(pd.DataFrame(chunks), near_duplicates=limit)


# A golden set and its corpus


def test_the_same_arguments_give_the_same_set():
    one, other = rs.extras.needle_set(seed=7), rs.extras.needle_set(seed=7)
    pd.testing.assert_frame_equal(one.chunks, other.chunks)
    hashes = [made.golden.golden_hash for made in (one, other, rs.extras.needle_set(seed=8))]
    assert hashes[0] == hashes[1] != hashes[2]


def test_ids_and_sizes_are_as_documented():
    golden, chunks = rs.extras.needle_set()
    assert (len(golden.queries), chunks["doc_id"].nunique()) == (12, 8)
    assert golden.queries["query_id"].iloc[-1] == "needle-0011"
    assert golden.queries["query"].iloc[0] == "IOC-00000001-0000"
    assert chunks["doc_id"].iloc[-1] == "doc-007"
    # every needle is a line of its own
    assert (chunks["end"] - chunks["start"]).sum() == 8 * 200 + 12


def test_each_needle_stands_in_its_document_and_nowhere_else():
    golden, chunks = rs.extras.needle_set(docs=4, lines=40, needles=6, seed=3)
    found = {
        query: chunks.loc[chunks["text"].str.contains(text, regex=False), "doc_id"].tolist()
        for query, text in golden.queries[["query_id", "query"]].to_numpy()
    }
    assert [len(docs) for docs in found.values()] == [1] * 6
    assert rs.evaluate(found, golden).summary(["mrr", "hit@1"])["mean"].tolist() == [1, 1]

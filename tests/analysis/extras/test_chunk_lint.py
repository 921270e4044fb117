"""SEEDS F.5.18: chunks that retrieval suffers from."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused

TWICE = "A sentence that stands here twice, word for word."
TEXTS = [TWICE, TWICE, "four", "", "x", "z" * 5000, "a chunk of some forty characters of prose"]
SEVEN = pd.DataFrame({"chunk_id": ["a", "b", "c", "d", "e", "f", None], "text": TEXTS})


def counts(lint):
    return {kind: n for kind, n in lint.summary.set_index("kind")["n"].items() if n}


def test_seven_chunks():
    lint = rs.extras.lint_chunks(SEVEN)
    assert counts(lint) == {
        "empty": 1,
        "near_empty": 2,
        "tiny": 2,
        "giant": 1,
        "missing_id": 1,
        "duplicate": 2,
    }
    assert lint.findings.query("kind == 'duplicate'")[
        ["row", "chunk_id", "value", "other"]
    ].values.tolist() == [[0, "a", 2, "a"], [1, "b", 2, "a"]]
    assert lint.findings.query("kind == 'giant'")[["chunk_id", "value"]].values.tolist() == [
        ["f", 5000]
    ]


@pytest.mark.parametrize(("n_tiny", "is_warning"), [(1, False), (2, True)])
def test_a_few_tiny_chunks_are_no_warning(n_tiny, is_warning):
    texts = [f"tiny text {n}" for n in range(n_tiny)] + [
        f"chunk number {n} is long enough for anyone" for n in range(10 - n_tiny)
    ]
    row = (
        rs.extras.lint_chunks(
            pd.DataFrame({"chunk_id": [str(n) for n in range(10)], "text": texts})
        )
        .summary.set_index("kind")
        .loc["tiny"]
    )
    assert (row["n"], row["is_warning"]) == (n_tiny, is_warning)


def test_broken_characters_are_found_and_line_ends_are_none():
    texts = [
        "\ufeffa text that begins with a byte order mark",
        "a text with a bell \x07 and a null \x00 inside it",
        "lines\nand\ttabs\r\nare what texts are made of",
    ]
    found = rs.extras.lint_chunks(
        pd.DataFrame({"chunk_id": ["bom", "ctrl", "fine"], "text": texts})
    ).findings
    assert found[["chunk_id", "kind", "value"]].values.tolist() == [
        ["bom", "byte_order_mark", 1],
        ["ctrl", "control_characters", 2],
    ]


def test_missing_texts_are_empty_and_missing_ids_are_counted():
    lint = rs.extras.lint_chunks(
        pd.DataFrame({"text": [None, "a chunk that is long enough for anyone"]})
    )
    assert counts(lint) == {"empty": 1, "missing_id": 2}
    assert counts(
        rs.extras.lint_chunks(
            pd.DataFrame({"chunk_id": ["a", "a", ""], "text": ["x" * 40, "y" * 40, "z" * 40]})
        )
    ) == {"duplicate_id": 2, "missing_id": 1}


WORDS = [f"word{n}" for n in range(100)]


def near(*texts, limit=0.85, **more):
    chunks = pd.DataFrame({"chunk_id": [f"c{n}" for n in range(len(texts))], "text": texts})
    return rs.extras.lint_chunks(chunks, near_duplicates=limit, **more).findings.query(
        "kind == 'near_duplicate'"
    )


def test_a_changed_word_makes_a_near_duplicate():
    found = near(" ".join(WORDS), " ".join(reversed(WORDS)), " ".join([*WORDS[:-1], "other"]))
    assert found[["chunk_id", "other"]].values.tolist() == [["c2", "c0"]]
    # 96 shingles each, 95 of them in both
    assert found["value"].iloc[0] == pytest.approx(95 / 97, abs=0.1)


@pytest.mark.parametrize(
    "other", ["the same words, in the same order", "The same words in the same order!"]
)
def test_exact_duplicates_and_mere_punctuation_are_no_near_duplicates(other):
    assert near("the same words, in the same order", other, limit=0.01).empty


def test_the_value_is_the_jaccard_similarity_of_the_shingles():
    rng = np.random.default_rng(3)
    for shared in (20, 50, 80):
        left, right = WORDS, [*WORDS[:shared], *(f"new{n}" for n in range(100 - shared))]
        found = near(
            " ".join(rng.permutation(left)), " ".join(rng.permutation(right)), limit=0.02, shingle=1
        )
        assert found["value"].iloc[0] == pytest.approx(shared / (200 - shared))


@pytest.mark.parametrize("limit", [0.5, 0.85])
def test_no_pair_that_is_similar_enough_is_missed(limit):
    rng = np.random.default_rng(0)
    texts = [" ".join(np.where(rng.random(100) < 0.01, f"x{n}", WORDS)) for n in range(30)]
    words = [text.split() for text in texts]
    shingles = [{tuple(own[at : at + 5]) for at in range(96)} for own in words]
    similar = [[len(a & b) / len(a | b) for b in shingles] for a in shingles]
    distinct = [row for row in range(30) if texts[row] not in texts[:row]]
    best = {
        row: max([similar[row][one] for one in distinct if one < row] or [0]) for row in distinct
    }
    expected = {row: value for row, value in best.items() if value >= limit}
    found = near(*texts, limit=limit).set_index("row")["value"]
    assert found.to_dict() == pytest.approx(expected) and len(expected) > 5


def test_no_chunks_have_no_findings():
    lint = rs.extras.lint_chunks(
        pd.DataFrame({"chunk_id": pd.Series([], dtype="str"), "text": pd.Series([], dtype="str")}),
        near_duplicates=0.85,
    )
    assert (
        not len(lint.findings)
        and not lint.summary["is_warning"].any()
        and lint.summary["share"].isna().all()
    )


def test_what_cannot_be_linted_is_said():
    with refused("text", field="chunks"):
        rs.extras.lint_chunks(pd.DataFrame({"chunk_id": ["a"]}))
    with refused(1.5, 0, field="near_duplicates, shingle"):
        rs.extras.lint_chunks(SEVEN, near_duplicates=1.5)

"""Bounds of scores over every label that unjudged hits might get, against all labellings."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.scoring.metrics import MOVABLE, parse_label
from ragscore.scoring.unjudged import (
    all_labelled,
    judged_lists,
    label_bounds,
    scores_if,
)

LABELS = [
    "hit@1", "hit@3", "mrr", "mrr@3", "recall@1", "recall@3", "precision@3", "map", "map@3",
    "ndcg", "ndcg@3", "ndcg_linear", "ndcg_linear@3", "rprec", "bpref", "set_precision",
    "set_recall", "set_f1", "err@3", "rbp", "iprec@0.0", "iprec@0.5", "iprec@1.0", "11pt_avg",
]  # fmt: skip
# Their bounds hold, but need not be reached (see `label_bounds`).
LOOSE = ("bpref", "iprec", "11pt_avg")


@st.composite
def cases(draw):
    """A list of at most six hits, at most three of them unjudged, and grades of some documents."""
    docs = draw(st.lists(st.sampled_from("abcdxyz"), min_size=1, max_size=6))
    if not draw(st.booleans()):
        docs = list(dict.fromkeys(docs))
    names = draw(st.sets(st.sampled_from("abcdm")))
    highest = draw(st.integers(1, 3))
    grades = {name: draw(st.integers(0, highest)) for name in sorted(names)}
    # one document that no list holds, so that something is relevant
    grades["n"] = draw(st.integers(1, highest))
    free = list(dict.fromkeys(doc for doc in docs if doc not in grades))
    assume(len(free) <= 3)
    return docs, grades, free


def every_labelling(docs, grades, free, labels, min_grade):
    """The scores of each labelling: one query for each."""
    highest = max([*grades.values(), min_grade])
    labelled = {
        f"q{n}": grades | dict(zip(free, given, strict=True))
        for n, given in enumerate(product(range(highest + 1), repeat=len(free)))
    }
    results = rs.load_results(dict.fromkeys(labelled, docs))
    golden = rs.load_golden(labelled | {"other": {"z9": 0, "z8": highest}})  # for bpref
    scores = rs.score(results, golden, labels, match="doc", min_grade=min_grade)
    return scores.loc[list(labelled), labels]


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(cases(), st.integers(1, 2))
def test_every_labelling_lies_within_the_bounds_and_most_bounds_are_reached(case, min_grade):
    docs, grades, free = case
    labels = [parse_label(text).text for text in LABELS]
    values = every_labelling(docs, grades, free, labels, min_grade)
    lists = judged_lists(rs.load_results({"q": docs}), rs.load_golden({"q": grades}), "doc",
                         min_grade=min_grade)  # fmt: skip
    bounds = label_bounds(lists, [parse_label(text) for text in labels])
    for text in labels:
        low, high = (side[0] for side in bounds[text])
        if np.isnan(low):  # nothing is relevant yet
            continue
        found = values[text].dropna()
        assert low - 1e-9 <= found.min() and found.max() <= high + 1e-9, text
        assert low >= -1e-9 and high <= 1 + 1e-9
        is_repeated = len(set(docs)) < len(docs)
        if parse_label(text).name not in (*LOOSE, *(["rprec"] if is_repeated else [])):
            assert found.min() == pytest.approx(low, abs=1e-9), text
            assert found.max() == pytest.approx(high, abs=1e-9), text


def test_the_bounds_of_a_list_worked_by_hand():
    # x a y, a relevant (grade 1), and b, which the list lacks; cut at 2: y is beyond it
    lists = judged_lists(
        rs.load_results({"q": list("xay")}), rs.load_golden({"q": {"a": 1, "b": 1}}), "doc"
    )
    expected = {
        # relevant y is one target more that the cut lacks: 1 of 3; relevant x is found: 2 of 3
        "recall@2": (1 / 3, 2 / 3),
        "precision@2": (1 / 2, 1),
        "mrr": (1 / 2, 1),
        # y relevant: 1/2 + 2/3 of 3 targets, more than 1/2 of 2; x as well: (1 + 1 + 1) of 4
        "map": (1 / 4, 3 / 4),
        "map@2": (1 / 2 / 3, (1 + 1) / 3),
        # all three of the list are right: 3 of its first 4 ranks
        "rprec": (1 / 2, 3 / 4),
    }
    for text, bounds in expected.items():
        found = [side[0] for side in label_bounds(lists, [parse_label(text)])[text]]
        assert found == pytest.approx(bounds), text


def test_ndcg_may_be_highest_with_only_some_hits_relevant():
    # a is right and first; a relevant document at rank 3 asks for an ideal list that has it second
    lists = judged_lists(
        rs.load_results({"q": ["a", "no", "x"]}), rs.load_golden({"q": {"a": 1, "no": 0}}), "doc"
    )
    low, high = label_bounds(lists, [parse_label("ndcg@3")])["ndcg@3"]
    both = (1 + 1 / 2) / (1 + 1 / np.log2(3))
    assert high[0] == 1 and low[0] == pytest.approx(both) and both < 1


def test_a_label_on_an_item_that_a_list_lacks_adds_a_target_alone():
    lists = judged_lists(rs.load_results({"q": list("xa")}), rs.load_golden({"q": {"a": 1}}), "doc")
    (item,) = lists.item[lists.item >= 0]
    row, case = np.array([0, 0]), np.array([0, 1])
    found = scores_if(lists, ["recall@2", "mrr"], row, case, np.array([item, 99]), 1)
    assert found["recall@2"].tolist() == [1, 1 / 2] and found["mrr"].tolist() == [1, 1 / 2]


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(st.lists(cases(), min_size=1, max_size=4), st.integers(0, 2), st.integers(1, 2))
def test_labels_of_whole_lists_score_as_labels_of_their_items_to_the_bit(several, grade, min_grade):
    lists = judged_lists(
        rs.load_results({f"q{n}": docs for n, (docs, _, _) in enumerate(several)}),
        rs.load_golden({f"q{n}": grades for n, (_, grades, _) in enumerate(several)}),
        "doc", min_grade=min_grade,
    )  # fmt: skip
    row = np.arange(len(lists.rows))
    case, item = lists.row[lists.is_first], lists.item[lists.is_first]
    expected = scores_if(lists, LABELS, row, case, item, grade)
    found = all_labelled(lists, [parse_label(text) for text in LABELS], grade)
    for text in LABELS:
        np.testing.assert_array_equal(found[parse_label(text).text], expected[text], text)


def test_every_ranking_metric_but_two_can_be_moved_by_labels():
    assert {parse_label(text).name for text in LABELS} == set(MOVABLE)

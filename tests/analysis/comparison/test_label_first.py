"""`cmp.label_first`: the labels that would move a comparison, and the verdict after them."""

from itertools import combinations

import pytest
import yaml
from conftest import EXAMPLES
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ragscore as rs
from ragscore.golden.labelling import LabelSession
from ragscore.golden.labelling.terminal import label_in_terminal
from tests.messages import refused, says

GOLDEN = """\
# Should refuse: answerable: false
- id: q1
  query: one
  expected_doc_ids: [a]
- id: q2
  query: two
  expected_doc_ids: [b]
- id: q3
  query: three   # stays
  expected_doc_ids: [c]
- id: q4
  query: four
  answerable: false
"""
RUNS = {
    "old": {"q1": ["a"], "q2": ["b", "s"], "q3": ["w", "c"], "q4": ["z"]},
    "new": {"q1": ["x", "a"], "q2": ["s", "b"], "q3": ["c", "y"], "q4": []},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "golden.yaml"
    path.write_text(GOLDEN, encoding="utf-8")
    return path


def compared(file, metrics=("mrr@10", "recall@1")):
    return rs.evaluate(rs.load_results(RUNS), file, list(metrics)).compare("old", "new")


def test_the_list_worked_by_hand(file):
    found = compared(file).label_first()
    # mrr: old 1, 1, 1/2; new 1/2, 1/2, 1: old leads by 1/6. Both returned s, so it isn't listed.
    # x relevant makes new 1 in q1 (+1/2: the sum of −1/2 becomes 0), w makes old 1 in q3 (−1/2).
    # y stands behind c: it changes nothing.
    columns = ["query_id", "run", "run_id", "rank", "doc_id", "delta", "delta_if_relevant"]
    assert found.metric == "mrr@10"
    assert found.hits[columns].to_numpy().tolist() == [
        ["q1", "candidate", "new", 1, "x", -0.5, 0.0],
        ["q3", "baseline", "old", 1, "w", 0.5, 0.0],
        ["q3", "candidate", "new", 2, "y", 0.5, 0.5],
    ]
    assert found.hits["towards"].fillna("").tolist() == ["candidate", "baseline", ""]
    assert found.hits["ends_lead"].tolist() == [True, False, False]
    assert found.hits["level"].unique().tolist() == ["doc"]
    assert found.n_to_turn == 1
    says(found.sentence, "mrr@10", "old", 0.167, 3)
    assert len(compared(file).label_first(2).hits) == 2


def test_a_cut_decides_which_hits_are_listed(file):
    # at rank 1: x, w alone, and s, which the old run has at rank 2 only; two targets halve recall
    found = compared(file).label_first(metric="recall@1").hits
    assert sorted(found["doc_id"]) == ["s", "w", "x"]
    # q2: old b: 1 of 2 targets, new s: 1 of 2; the difference −1 becomes 0
    row = found.set_index("doc_id").loc["s"]
    assert [row["run"], row["delta"], row["delta_if_relevant"]] == ["candidate", -1, 0]


def test_a_metric_that_labels_do_not_move_is_refused(file):
    cmp = compared(file, ["mrr@10", "passed", "failed"])
    for metric, field in (("passed", "metrics"), ("hit@1", "metric")):
        with refused(metric, field=field):
            cmp.label_first(metric=metric)
    with refused("JSON", "scores", field="scores"):
        rs.Comparison.from_json(cmp.to_json()).label_first()
    with refused("ranking", field="metric"):
        compared(file, ["passed", "failed"]).label_first()


def test_labelling_what_comes_first_moves_the_verdict(file):
    session = LabelSession(file, rs.load_results(RUNS), first=compared(file).label_first())
    session.show("label first")
    assert session.level == "doc"  # the level that the runs were matched by
    assert session.stops() == ["q1", "q3"] and session.query_id == "q1"
    assert session.hits["doc_id"].tolist() == ["x", "a"]  # x is listed, a is judged
    session.toggle(int(session.hits["number"].iloc[0]))
    assert session.stops() == ["q3"]  # nothing of q1 is left to label
    session.next()
    # what the old run has at rank 1 goes first, as in the list
    assert session.query_id == "q3" and session.hits["doc_id"].tolist() == ["w", "y", "c"]
    session.toggle(int(session.hits["number"].iloc[0]), grade=0)
    session.toggle(int(session.hits["number"].iloc[1]))
    assert session.stops() == []
    text = file.read_text(encoding="utf-8")
    rows = {row["id"]: row for row in yaml.safe_load(text)}
    assert "# stays" in text and "x" in str(rows["q1"]["expected_doc_ids"])
    after = compared(file)
    # q1: x and a of the new run are both right, old 1; q3 unchanged: the lead is gone
    assert after.deltas.set_index("metric").loc["mrr@10", "delta"] == pytest.approx(0)
    assert after.label_first().hits.empty


def test_the_terminal_goes_through_the_same_list(file):
    said: list[str] = []
    session = LabelSession(file, rs.load_results(RUNS), first=compared(file).label_first().hits)
    label_in_terminal(session, ["f label first", "2", "n", "q"], said.append, width=80)
    says(said[2], "hit 2")
    says(said[3], "──", "q3")


def test_a_list_of_other_columns_is_refused(file):
    with refused("query_id", field="first"):
        LabelSession(file, rs.load_results(RUNS), level="doc", first=compared(file).per_query)


@st.composite
def two_runs(draw):
    """Two runs of two queries over a few documents, of which one a query is relevant."""
    lists = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
    return {run: {q: draw(lists) for q in ("q1", "q2")} for run in ("old", "new")}


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=EXAMPLES // 2)
@given(two_runs(), st.sampled_from(["mrr@2", "recall@2", "ndcg@3", "map@3", "rprec"]))
def test_no_fewer_labels_than_said_turn_the_sign(runs, metric):
    grades = {"q1": ["a"], "q2": ["b", "never"]}
    results = rs.load_results(runs, columns=None)

    def lead(labels):
        golden = [
            {"id": q, "query": q, "expected_doc_ids": [*ids, *(d for at, d in labels if at == q)]}
            for q, ids in grades.items()
        ]
        scores = rs.score(results, rs.load_golden(golden), [metric])
        means = scores.groupby("run_id", observed=True)[metric].mean()
        return means["new"] - means["old"]

    before = lead([])
    assume(abs(before) > 1e-9)
    labels = {(q, doc) for of in runs.values() for q, docs in of.items() for doc in docs}
    unlabelled = sorted(labels - {(q, doc) for q, docs in grades.items() for doc in docs})
    sizes = range(1, len(unlabelled) + 1)
    turning = (
        size
        for size in sizes
        if any(lead(chosen) * before < -1e-12 for chosen in combinations(unlabelled, size))
    )
    least = next(turning, None)
    golden = [{"id": q, "query": q, "expected_doc_ids": ids} for q, ids in grades.items()]
    found = rs.evaluate(results, golden, [metric]).compare("old", "new").label_first(n=None)
    if least is not None:
        assert found.n_to_turn is not None and found.n_to_turn <= least

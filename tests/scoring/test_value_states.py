"""The ledger: why a cell has no value is told from causes, and the means say what that leaves
open.
"""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import THREE_QUERIES, answer, hit, record

import ragscore as rs
from ragscore.scoring.explain import explain
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.own import with_own
from ragscore.scoring.score import scored
from ragscore.scoring.summary import summarize
from tests.messages import says

GOLDEN = [
    {"id": "q1", "query": "?", "expected_doc_ids": ["d1"], "answerable": True},
    {"id": "q2", "query": "?", "expected_doc_ids": ["d2"], "answerable": True},
]
RIGHT = record("q1", [hit("c1", "d1", 1)], answer=answer("yes"))
SECOND = record("q2", [hit("c2", "d2", 1)], answer=answer("yes"))


def judged(*values):
    """Judgments of faithfulness: (query, value, state)."""
    rows = [
        {
            "run_id": "a",
            "query_id": query,
            "criterion": "faithfulness",
            "item": "",
            "value": value,
            "state": state,
        }
        for query, value, state in values
    ]
    return pd.DataFrame(rows).astype({"state": "str"})


ONE = ("q1", 1.0, None)
CAUSES = {
    "nothing to measure": (
        [RIGHT, SECOND],
        [ONE, ("q2", np.nan, None)],
        "not_applicable",
        ["judge"],
    ),
    "refused": (
        [RIGHT, record("q2", [], answer=answer("I can't say", grounded=False))],
        [ONE],
        "refused",
        ["system"],
    ),
    "failed": (
        [RIGHT, record("q2", [], error="out of memory")],
        [ONE],
        "system_error",
        ["out of memory"],
    ),
    "judge failed": (
        [RIGHT, SECOND],
        [ONE, ("q2", np.nan, "judge_failed")],
        "judge_failed",
        ["1 of 1"],
    ),
    "never asked": ([RIGHT], [ONE], "missing", ["response"]),
    "never judged": ([RIGHT, SECOND], [ONE], "missing", ["judgment"]),
}


def _rows(scores, golden, results, **policies):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        own = [with_own(name) for name in scores.columns[3:] if TABLE.is_own(name)]
        return scored(results, golden, [*scores.columns[3:], *own], **policies)


def _told(scores, golden, results, **policies):
    done = _rows(scores, golden, results, **policies)
    return explain(done.rows, done.labels, scores)


@pytest.fixture
def of_cause(write_golden, write_run):
    def made(cause):
        records, judgments, _, _ = CAUSES[cause]
        results = replace(rs.load_results(write_run("a", records)), judgments=judged(*judgments))
        golden = rs.load_golden(write_golden(GOLDEN))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "golden queries without a row", UserWarning)
            return rs.score(results, golden, ["faithfulness"]), golden, results

    return made


def test_identical_scores_have_six_different_ledgers(of_cause):
    ledgers = set()
    for cause, (_, _, state, named) in CAUSES.items():
        scores, golden, results = of_cause(cause)
        np.testing.assert_array_equal(scores["faithfulness"], [1.0, np.nan])
        ledger = _told(scores, golden, results)
        row = summarize(scores, golden, rows=_rows(scores, golden, results).rows).iloc[0]
        n_expected = 1 if state == "not_applicable" else 2
        assert (row["mean"], row["n"], row["n_expected"]) == (1.0, 1, n_expected)
        assert ledger["query_id"].tolist() == ["q1", "q2"]
        assert ledger["state"].tolist() == ["scored", state], cause
        assert ledger["reason"][0] == ""
        says(ledger["reason"][1], *named)
        ledgers.add(tuple(ledger.loc[1, ["state", "reason"]]))
    assert len(ledgers) == 6


def states(results, golden, metric, **policies):
    """State and reason by query."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = rs.score(results, golden, [metric], **policies)
    ledger = _told(scores, golden, results, **policies)
    found = zip(ledger["state"].astype("str"), ledger["value"], ledger["reason"], strict=True)
    return dict(zip(ledger["query_id"], found, strict=True))


def test_a_state_is_the_cause_also_where_a_value_counts(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    records = [record("q1", [hit("c1", "d1", 1)]), record("q2", [], error="late")]
    results = rs.load_results(write_run("a", records))
    found = states(results, golden, "hit@1", missing="zero")
    assert [one[:2] for one in found.values()] == [
        ("scored", 1.0), ("scored", 0.0), ("scored", 0.0)
    ]  # fmt: skip
    for metric, expected in (("failed", "scored"), ("latency_ms", "not_applicable")):
        told = [one[0] for one in states(results, golden, metric).values()]
        assert told == ["scored", expected, "missing"]


def test_what_a_run_records_of_no_query_does_not_apply_and_elsewhere_is_missing(
    write_golden, write_run
):
    golden = rs.load_golden(write_golden([one | {"must_contain": ["yes"]} for one in GOLDEN]))
    silent = [record("q1", [hit("c1", "d1", 1)]), record("q2", [])]
    found = states(rs.load_results(write_run("a", silent)), golden, "answer_checks")
    assert {one[0] for one in found.values()} == {"not_applicable"}
    says(found["q1"][2], "run", "answer")
    found = states(rs.load_results(write_run("b", [RIGHT, silent[1]])), golden, "answer_checks")
    assert (found["q1"][0], found["q2"][0]) == ("scored", "missing")
    says(found["q2"][2], "answer")
    nothing_finished = [record("q1", [], error="late"), record("q2", [], error="late")]
    found = states(rs.load_results(write_run("c", nothing_finished)), golden, "answer_checks")
    assert {one[0] for one in found.values()} == {"system_error"}


def test_citations_of_a_refusal_are_refused_unless_refusing_was_right(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([*GOLDEN, {"id": "no", "query": "?", "answerable": False}])
    )
    refusal = answer("no idea", grounded=False)
    cited = record("q2", [hit("c2", "d2", 1)], answer=answer("yes", paths=["docs/d2.md"]))
    records = [record("q1", [], answer=refusal), cited, record("no", [], answer=refusal)]
    results = rs.load_results(write_run("a", records))
    found = states(results, golden, "citation_present")
    assert [one[0] for one in found.values()] == ["refused", "scored", "not_applicable"]
    says(found["no"][2], "refused")
    found = states(results, golden, "refusal_correct")
    assert [one[0] for one in found.values()] == ["not_applicable", "not_applicable", "scored"]

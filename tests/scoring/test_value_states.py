"""The ledger: why a cell has no value is told from causes, and the means say what that leaves
open.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import THREE_QUERIES, answer, hit, record

from ragscore.scoring.explain import explain
from ragscore.scoring.score import scored
from ragscore.scoring.summary import summarize
from tests.messages import says

GOLDEN = [
    {"id": "q1", "query": "?", "expected_doc_ids": ["d1"], "answerable": True},
    {"id": "q2", "query": "?", "expected_doc_ids": ["d2"], "answerable": True},
]
RIGHT = record("q1", [hit("c1", "d1", 1)], answer=answer("yes"))
SECOND = record("q2", [hit("c2", "d2", 1)], answer=answer("yes"))
REFUSAL = answer("I can't say", grounded=False)
pytestmark = pytest.mark.filterwarnings("ignore:golden queries without a row", "ignore:ids of")


def states(results, golden, metric, **policies):
    """The state, value and reason of each query, and n_expected of the mean."""
    done = scored(results, golden, [metric], **policies)
    ledger = explain(done.rows, done.labels, done.scores)
    found = ledger.astype({"state": "str"})[["state", "value", "reason"]].to_numpy().tolist()
    return (
        dict(zip(ledger["query_id"], found, strict=True)),
        summarize(done.scores, golden, rows=done.rows).iloc[0],
    )


@pytest.mark.parametrize(
    ("second", "judged", "state", "named"),
    [
        (SECOND, [(np.nan, None)], "not_applicable", ["judge"]),  # nothing to measure
        (record("q2", [], answer=REFUSAL), [], "refused", ["system"]),
        (record("q2", [], error="out of memory"), [], "system_error", ["out of memory"]),
        (SECOND, [(np.nan, "judge_failed")], "judge_failed", ["1 of 1"]),
        (None, [], "missing", ["response"]),  # never asked
        (SECOND, [], "missing", ["judgment"]),  # never judged
    ],
)
def test_identical_scores_have_six_different_ledgers(loaded, second, judged, state, named):
    results, golden = loaded(GOLDEN, {"a": [RIGHT, second] if second else [RIGHT]})
    rows = [("q1", 1.0, None), *(("q2", *one) for one in judged)]
    judgments = pd.DataFrame(rows, columns=["query_id", "value", "state"]).astype({"state": "str"})
    judgments = judgments.assign(run_id="a", criterion="faithfulness", item="")
    ledger, mean = states(replace(results, judgments=judgments), golden, "faithfulness")
    assert ledger["q1"] == ["scored", 1.0, ""]
    assert ledger["q2"][0] == state and np.isnan(ledger["q2"][1])
    says(ledger["q2"][2], *named)
    n_expected = 1 if state == "not_applicable" else 2
    assert mean[["mean", "n", "n_expected"]].tolist() == [1.0, 1, n_expected]


@pytest.mark.parametrize(
    ("metric", "policies", "expected"),
    [
        ("hit@1", {"missing": "zero"}, [("scored", 1), ("scored", 0), ("scored", 0)]),
        ("failed", {}, [("scored", 0), ("scored", 1), ("missing", np.nan)]),
        ("latency_ms", {}, [("scored", 1), ("not_applicable", np.nan), ("missing", np.nan)]),
    ],
)
def test_a_state_is_the_cause_also_where_a_value_counts(loaded, metric, policies, expected):
    records = [record("q1", [hit("c1", "d1", 1)]), record("q2", [], error="late")]
    ledger, _ = states(*loaded(THREE_QUERIES, {"a": records}), metric, **policies)
    for found, (state, value) in zip(ledger.values(), expected, strict=True):
        assert found[0] == state and found[1] == pytest.approx(value, nan_ok=True)


SILENT = [record("q1", [hit("c1", "d1", 1)]), record("q2", [])]


@pytest.mark.parametrize(
    ("records", "expected", "query", "named"),
    [
        (SILENT, ["not_applicable"] * 2, "q1", ["run", "answer"]),
        ([RIGHT, SILENT[1]], ["scored", "missing"], "q2", ["answer"]),
        ([one | {"error": "late", "hits_top_k": []} for one in SILENT], ["system_error"] * 2, "q1",
         ["late"]),
    ],
)  # fmt: skip
def test_what_a_run_records_of_no_query_does_not_apply_and_elsewhere_is_missing(
    loaded, records, expected, query, named
):
    golden = [one | {"must_contain": ["yes"]} for one in GOLDEN]
    ledger, _ = states(*loaded(golden, {"a": records}), "answer_checks")
    assert [state for state, *_ in ledger.values()] == expected
    says(ledger[query][2], *named)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("citation_present", ["refused", "scored", "not_applicable"]),
        ("refusal_correct", ["not_applicable", "not_applicable", "scored"]),
    ],
)
def test_citations_of_a_refusal_are_refused_unless_refusing_was_right(loaded, metric, expected):
    golden = [*GOLDEN, {"id": "no", "query": "?", "answerable": False}]
    cited = record("q2", [hit("c2", "d2", 1)], answer=answer("yes", paths=["docs/d2.md"]))
    records = [record("q1", [], answer=REFUSAL), cited, record("no", [], answer=REFUSAL)]
    ledger, _ = states(*loaded(golden, {"a": records}), metric)
    assert [state for state, *_ in ledger.values()] == expected
    if metric == "citation_present":
        says(ledger["no"][2], "refused")

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


LATE = [record("q1", [hit("c1", "d1", 1)]), record("q2", [], error="late")]
SILENT = [record("q1", [hit("c1", "d1", 1)]), record("q2", [])]
BROKEN = [one | {"error": "late", "hits_top_k": []} for one in SILENT]
CHECKED = [one | {"must_contain": ["yes"]} for one in GOLDEN]
REFUSE = [*GOLDEN, {"id": "no", "query": "?", "answerable": False}]
CITED = record("q2", [hit("c2", "d2", 1)], answer=answer("yes", paths=["docs/d2.md"]))
REFUSED = [record("q1", [], answer=REFUSAL), CITED, record("no", [], answer=REFUSAL)]


@pytest.mark.parametrize(
    ("golden", "records", "metric", "policies", "expected", "told"),
    [
        # the state is the cause, also where a value counts
        (THREE_QUERIES, LATE, "hit@1", {"missing": "zero"},
         ["scored 1", "scored 0", "scored 0"], ()),
        (THREE_QUERIES, LATE, "failed", {}, ["scored 0", "scored 1", "missing"], ()),
        (THREE_QUERIES, LATE, "latency_ms", {}, ["scored 1", "not_applicable", "missing"], ()),
        # what a run records of no query doesn't apply, and is missing elsewhere
        (CHECKED, SILENT, "answer_checks", {}, ["not_applicable"] * 2, ("q1", "run", "answer")),
        (CHECKED, [RIGHT, SILENT[1]], "answer_checks", {}, ["scored 1", "missing"],
         ("q2", "answer")),
        (CHECKED, BROKEN, "answer_checks", {}, ["system_error"] * 2, ("q1", "late")),
        # citations of a refusal are refused, unless refusing was right
        (REFUSE, REFUSED, "citation_present", {}, ["refused", "scored 1", "not_applicable"],
         ("no", "refused")),
        (REFUSE, REFUSED, "refusal_correct", {},
         ["not_applicable", "not_applicable", "scored 1"], ()),
    ],
    ids=range(8),
)  # fmt: skip
def test_states_of_each_query(loaded, golden, records, metric, policies, expected, told):
    ledger, _ = states(*loaded(golden, {"a": records}), metric, **policies)
    found = [
        state if np.isnan(value) else f"{state} {value:g}" for state, value, _ in ledger.values()
    ]
    assert found == expected
    for query, *named in [told] if told else []:
        says(ledger[query][2], *named)

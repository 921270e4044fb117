"""`found` looks at hits and refusals that are due, `passed` at the answer as well."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs

VERDICT = "judge_correctness"
HITS = [hit("c1", "d", 1)]
MISSED = [hit("c2", "e", 1)]
SOUGHT = {"id": "q", "query": "?", "expected_doc_ids": ["d"]}
CHECKED = SOUGHT | {"must_contain": ["merge"], "forbidden": ["never"]}
TEXT_ONLY = {"id": "q", "query": "?", "must_contain": ["merge"]}
DUE = {"id": "q", "query": "?", "answerable": False, "forbidden": ["never"]}
REFUSAL = answer("no idea", grounded=False)
METRICS = ["found", "passed"]


@pytest.fixture
def load(loaded):
    """Results of one run and the golden set, with a judge's points for each answer."""

    def load(rows, records, points=None):
        results, golden = loaded(rows, {"r": records}, k=10)
        if points is not None:
            judgments = pd.DataFrame(
                {"run_id": "r", "query_id": one["query_id"], "criterion": VERDICT, "item": "",
                 "value": points}
                for one in records
            )  # fmt: skip
            results = replace(results, judgments=judgments)
        return results, golden

    return load


@pytest.mark.parametrize(
    ("query", "given", "points", "expected"),
    [
        (SOUGHT, record("q", HITS), None, (1, 1)),  # retrieval alone
        (SOUGHT, record("q", HITS, answer=answer("merge")), None, (1, 1)),
        (SOUGHT, record("q", MISSED, answer=answer("merge")), None, (0, 0)),
        (SOUGHT, record("q", HITS, answer=REFUSAL), None, (1, 0)),
        (SOUGHT, record("q", HITS, answer=answer("  ")), None, (1, 0)),
        (CHECKED, record("q", HITS), None, (1, 1)),
        (CHECKED, record("q", HITS, answer=answer("use merge")), None, (1, 1)),
        (CHECKED, record("q", HITS, answer=answer("use concat")), None, (1, 0)),
        (CHECKED, record("q", HITS, answer=answer("never merge")), None, (1, 0)),
        (CHECKED, record("q", MISSED, answer=answer("use merge")), None, (0, 0)),
        (SOUGHT, record("q", HITS, answer=answer("so")), 2.9, (1, 0)),
        (SOUGHT, record("q", HITS, answer=answer("so")), 3.0, (1, 1)),  # neither bad nor good
        (SOUGHT, record("q", HITS, answer=answer("so")), np.nan, (1, 1)),  # the judge failed
        (SOUGHT, record("q", MISSED, answer=answer("so")), 5.0, (0, 0)),
        (SOUGHT, record("q", HITS, error="late"), None, (0, 0)),
        # where a refusal is due, it decides alone: its text and a judge of it don't count
        (DUE, record("q", HITS, answer=REFUSAL), 0.0, (1, 1)),
        (DUE, record("q", HITS, answer=answer("never", grounded=False)), None, (1, 1)),
        (DUE, record("q", HITS, answer=answer("so")), 5.0, (0, 0)),
        (DUE, record("q", HITS), None, (None, None)),
        # nothing is to be found, and only the answer is checked
        (TEXT_ONLY, record("q", HITS, answer=answer("use merge")), None, (None, 1)),
        (TEXT_ONLY, record("q", HITS, answer=answer("use concat")), None, (None, 0)),
        (TEXT_ONLY, record("q", HITS, answer=answer("use merge")), 0.0, (None, 0)),
        (TEXT_ONLY, record("q", HITS), None, (None, None)),
        (TEXT_ONLY, record("q", HITS, error="late"), None, (None, 0)),
        # expects no hit, and isn't known to be answerable: a refusal does no harm
        ({"id": "q", "query": "?", "expected_empty": True}, record("q", [], answer=REFUSAL), None,
         (1, 1)),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:no query of", "ignore:.*labelled", "ignore:ids of")
def test_a_query_passes_if_hits_and_answer_are_what_it_asks_for(
    load, query, given, points, expected
):
    scores = rs.score(*load([query], [given], points), METRICS, match="doc")
    assert [None if np.isnan(one) else one for one in scores[METRICS].iloc[0]] == list(expected)


def test_a_missing_query_counts_as_not_passed_where_missing_rows_count(load):
    rows = [SOUGHT, TEXT_ONLY | {"id": "text"}]
    results, golden = load(rows, [record("q", HITS, answer=answer("merge"))])
    zero = rs.score(results, golden, METRICS, missing="zero").loc["text"]
    assert np.isnan(zero["found"]) and zero["passed"] == 0

"""SEEDS F.5.10: only scores of the same judges are compared."""

import pandas as pd

import ragscore as rs
from ragscore.scoring.provenance import judge_fingerprint


def judged(*rows, **columns):
    """Results of the runs that `rows` name: (run_id, criterion, judge)."""
    run_ids = list(dict.fromkeys(row[0] for row in rows))
    judgments = pd.DataFrame(
        [
            {
                "run_id": run,
                "query_id": "q",
                "criterion": criterion,
                "item": "",
                "value": 1.0,
                "judge": judge,
            }
            for run, criterion, judge in rows
        ]
    )
    responses = pd.DataFrame(
        {
            "run_id": run_ids,
            "query_id": "q",
            "query": "?",
            "error": pd.Series([None] * len(run_ids), dtype="str"),
        }
    )
    return rs.Results(
        runs=pd.DataFrame({"run_id": run_ids}),
        responses=responses,
        judgments=judgments.assign(**columns),
    )


def test_fingerprints_of_several_judges_are_joined_in_order():
    assert judge_fingerprint(
        judged(("r", "B", "fp"), ("r", "A", "fp"), ("r", "A", "fp"))
    ).to_dict() == {"r": "A:fp|B:fp"}


def test_prompt_and_temperature_are_part_of_it():
    assert judge_fingerprint(
        judged(("r", "A", "m"), prompt_hash="1f", temperature=0.0)
    ).tolist() == ["A:m:1f:0"]


def test_runs_that_nobody_judged_have_an_empty_fingerprint(pair):
    assert judge_fingerprint(pair[0]).tolist() == ["", ""]

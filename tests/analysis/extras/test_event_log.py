"""SEEDS C.2: metrics as an event log."""

import json
from datetime import UTC, datetime

import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.extras.harness_files import event_log
from ragscore.scoring.summary import summarize
from tests.compared import compare_runs
from tests.messages import refused

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def read(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def summary(pair):
    results, golden = pair
    return summarize(rs.score(results, golden, ["hit@1", "refusal_correct"]))


def test_each_metric_is_one_line(summary, tmp_path):
    assert event_log(summary, tmp_path / "log.jsonl", occurred_at=NOON) == 4
    first, refusal, *_ = read(tmp_path / "log.jsonl")
    tick, low, high = first.pop("tick"), first.pop("ci_lower"), first.pop("ci_upper")
    assert first == {
        "version": 1, "occurred_at_millis": 1769860800000, "conversation_id": "a",
        "kind": "eval.retrieval_report", "metric": "hit@1", "n": 3, "mean": pytest.approx(1 / 3),
        "ci_level": 0.95, "run_id": "a",
    }  # fmt: skip
    assert 0 < low < 1 / 3 < high < 1 and refusal["tick"] == tick + 1
    # measured nowhere: left out, never NaN
    assert refusal["n"] == 0 and not {"mean", "ci_lower", "ci_level"} & set(refusal)


def test_logs_are_appended_to_also_after_a_line_cut_short_by_a_crash(summary, tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text('{"version": 1, "occ')
    for _ in range(2):
        event_log(summary, file, conversation_id="nightly")
    events = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    assert [event["conversation_id"] for event in events] == ["nightly"] * 8
    assert [event["tick"] for event in events] == sorted({event["tick"] for event in events})


def test_slices_say_which(pair, tmp_path):
    results, golden = pair
    summary = summarize(
        rs.score(results, golden, ["hit@1"]),
        rs.Golden(queries=golden.queries.assign(lang="en"), targets=golden.targets),
        by="lang",
    )
    event_log(summary, tmp_path / "log.jsonl")
    assert read(tmp_path / "log.jsonl")[0]["slice"] == {"lang": "en"}


DELTAS = pd.DataFrame(
    {
        "metric": ["recall@10", "hit@5", "mrr", "empty"],
        "baseline": [0.9, 0.9, None, 0.0],
        "candidate": [0.4, 0.88, 0.5, 0.1],
        "delta": [-0.5, -0.02, None, 0.1],
    }
)


def test_differences_say_whether_they_are_regressions(tmp_path):
    tolerances = {"recall@10": 0.05, "hit@5": 0.02, "empty": 0.05}
    event_log(DELTAS, tmp_path / "log.jsonl", conversation_id="c", tolerances=tolerances)
    events = {event["metric"]: event for event in read(tmp_path / "log.jsonl")}
    regressed = {name: event["regressed"] for name, event in events.items()}
    assert regressed == {"recall@10": True, "hit@5": False, "mrr": False, "empty": True}
    recall = events["recall@10"]
    assert recall["kind"] == "eval.regression_diff"
    assert (recall["current_mean"], recall["baseline_mean"]) == (0.4, 0.9)
    assert not {"baseline_mean", "delta"} & set(events["mrr"])


def test_deltas_of_a_comparison_are_taken_as_they_are(pair, tmp_path):
    cmp = compare_runs(*pair, "a", "b", metrics=["hit@1"])
    event_log(cmp.deltas, tmp_path / "log.jsonl", conversation_id="c")
    assert read(tmp_path / "log.jsonl")[0]["delta"] == pytest.approx(1 / 3)


def test_what_cannot_be_logged_is_said(summary, tmp_path):
    with refused("ev.summary", field="table"):
        event_log(pd.DataFrame({"x": [1]}), tmp_path / "log.jsonl")
    with refused("conversation_id", field="conversation_id"):
        event_log(DELTAS, tmp_path / "log.jsonl")
    with refused(field="occurred_at"):
        event_log(summary, tmp_path / "log.jsonl", occurred_at=NOON.replace(tzinfo=None))
    assert not (tmp_path / "log.jsonl").exists()

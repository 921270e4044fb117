"""SEEDS C.2: metrics as an event log."""

import json
from datetime import UTC, datetime

import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.extras.harness_files import event_log
from tests.messages import refused

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def ev(pair):
    pair[1].queries["lang"] = "en"
    return rs.evaluate(*pair, ["hit@1", "refusal_correct"])


@pytest.fixture
def logged(tmp_path):
    """Log a table, and return the lines of the file."""

    def logged(table, **how):
        file = tmp_path / "log.jsonl"
        event_log(table, file, **how)
        lines = file.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    return logged


def test_each_metric_is_one_line(ev, logged):
    first, refusal, *rest = logged(ev.summary(), occurred_at=NOON)
    tick, low, high = first.pop("tick"), first.pop("ci_lower"), first.pop("ci_upper")
    assert first == {
        "version": 1, "occurred_at_millis": 1769860800000, "conversation_id": "a",
        "kind": "eval.retrieval_report", "metric": "hit@1", "n": 3, "mean": pytest.approx(1 / 3),
        "ci_level": 0.95, "run_id": "a",
    }  # fmt: skip
    assert 0 < low < 1 / 3 < high < 1 and refusal["tick"] == tick + 1 and len(rest) == 2
    # measured nowhere: left out, never NaN
    assert refusal["n"] == 0 and not {"mean", "ci_lower", "ci_level"} & set(refusal)


def test_logs_are_appended_to_also_after_a_line_cut_short_by_a_crash(ev, logged, tmp_path):
    (tmp_path / "log.jsonl").write_text('{"version": 1, "occ')
    logged(ev.summary(), conversation_id="nightly")
    events = logged(ev.summary(by="lang"), conversation_id="nightly")
    assert [one["conversation_id"] for one in events] == ["nightly"] * 8
    assert [one["tick"] for one in events] == sorted({one["tick"] for one in events})
    assert events[-1]["slice"] == {"lang": "en"} and "slice" not in events[0]


DELTAS = pd.DataFrame(
    {
        "metric": ["recall@10", "hit@5", "mrr", "empty"],
        "baseline": [0.9, 0.9, None, 0.0],
        "candidate": [0.4, 0.88, 0.5, 0.1],
        "delta": [-0.5, -0.02, None, 0.1],
    }
)


def test_differences_say_whether_they_are_regressions(ev, logged):
    tolerances = {"recall@10": 0.05, "hit@5": 0.02, "empty": 0.05}
    events = logged(DELTAS, conversation_id="c", tolerances=tolerances)
    regressed = {one["metric"]: one["regressed"] for one in events}
    assert regressed == {"recall@10": True, "hit@5": False, "mrr": False, "empty": True}
    recall, _, mrr, _ = events
    assert recall["kind"] == "eval.regression_diff"
    assert (recall["current_mean"], recall["baseline_mean"]) == (0.4, 0.9)
    assert not {"baseline_mean", "delta"} & set(mrr)
    # those of a comparison are taken as they are
    *_, last = logged(ev.compare("a", "b", "hit@1").deltas, conversation_id="c")
    assert last["delta"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("table", "how", "field"),
    [
        (pd.DataFrame({"x": [1]}), {}, "table"),
        (DELTAS, {}, "conversation_id"),
        (DELTAS, {"conversation_id": "c", "occurred_at": NOON.replace(tzinfo=None)}, "occurred_at"),
    ],
    ids=["no table", "no conversation", "no time zone"],
)
def test_what_cannot_be_logged_is_said(tmp_path, table, how, field):
    with refused(field=field):
        event_log(table, tmp_path / "log.jsonl", **how)
    assert not (tmp_path / "log.jsonl").exists()

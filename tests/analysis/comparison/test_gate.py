"""A gate: by the words of primary metrics, by amounts, by intervals.

Direction, the three rules, failures that never help, what can't be evaluated, numbers as shown, and
the same answer everywhere.
"""

import json
import math
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from conftest import times

import ragscore as rs
from ragscore.analysis.comparison.gate import LEVELS, Gate, gate
from ragscore.cli import main
from tests.compared import compare_runs
from tests.messages import refused, says

METRICS = ["hit@5", "mrr", "ndcg@10", "failed", "empty", "latency_ms"]
FOUND, MISSED, FELL = ["d"], ["y"], ["y", "d"]
FAILURES = ["verdict", "candidate", "max_drop", "n"]


def compared(a, b, **how):
    """Compare run a with run b; the first record of each answers q0, the second q1, and so on."""
    golden = rs.load_golden({f"q{n}": ["d"] for n in range(len(a))})
    named = (("a", a), ("b", b))
    results = rs.load_results(
        [
            {"run_id": run, "query_id": f"q{n}"} | one
            for run, own in named
            for n, one in enumerate(own)
        ]
    )
    results.runs["k"] = 10
    return compare_runs(results, golden, "a", "b", **{"metrics": METRICS} | how)


def runs(*docs, **more):
    return [{"doc_id": list(found), "latency_ms": 1.0} | more for found in docs]


def same_when_reloaded(cmp, found, *asked, **how):
    """A comparison from its JSON gives the same gate, and so does the gate from its own."""
    again = gate(rs.Comparison.from_json(cmp.to_json()), *asked, **how)
    assert again.to_json() == found.to_json() == Gate.from_json(found.to_json()).to_json()


def verdicts(found):
    return found.table["verdict"].tolist()


def row_of(found, metric, columns):
    return found.table.set_index("metric").loc[metric, columns].tolist()


def test_a_loss_beyond_what_is_allowed_fails_whichever_way_is_worse():
    cmp = compared(runs(*[FOUND] * 4), runs(*[FOUND] * 3, []))
    found = gate(cmp, {"hit@5": 0.25, "mrr": 0.2, "empty": 0.25, "failed": 0})
    assert verdicts(found) == ["pass", "fail", "pass", "pass", "pass"]
    assert row_of(found, "mrr", ["delta", "max_drop"]) == [-0.25, 0.2]
    assert (found.passed, found.exit_status) == (False, 1)
    assert gate(cmp, {"empty": 0.2}).exit_status == 1, "more empty lists are a loss"
    assert found.regressions[["query_id", "outcome"]].to_numpy().tolist() == [["q3", "regression"]]


def test_an_interval_fails_a_sure_loss_and_is_undecided_until_one_is_ruled_out():
    # 5 of 30 lost, none gained: where Tango's score (0 − 5 − 30d) / √(30 (2q + d (1 − d))) is ± z
    cmp = compared(runs(*[FOUND] * 30), runs(*[FOUND] * 25, *[MISSED] * 5))
    for allowed, by_threshold, by_interval, status in (
        (0.03423 - 0.01, "fail", "fail", 1), (0.03423 + 0.01, "fail", "undecided", 2),
        (0.33564 - 0.01, "pass", "undecided", 2), (0.33564 + 0.01, "pass", "pass", 0),
    ):  # fmt: skip
        asked = {"hit@5": allowed}
        assert verdicts(gate(cmp, asked))[0] == by_threshold
        found = gate(cmp, asked, rule="interval")
        ends = row_of(found, "hit@5", ["low", "high"])
        assert ends == pytest.approx([-0.33564, -0.03423], abs=1e-5)
        assert (verdicts(found)[0], found.exit_status) == (by_interval, status)
        assert gate(cmp, asked, rule="interval", undecided="pass").passed is (status != 1)


def test_a_metric_without_an_interval_is_undecided_by_it():
    quick, slow = (runs(*[FOUND] * 3, latency_ms=ms) for ms in (10.0, 12.0))
    cmp = compared(quick, slow, primary="latency_ms")
    found = gate(cmp, {"latency_ms": 5}, rule="interval")
    figures = ["verdict", "delta", "low", "high"]
    row = found.table[figures].astype(object).fillna("").iloc[0]
    assert (row.tolist(), found.exit_status) == (["undecided", 2, "", ""], 2)
    sentences = cmp.aspects.set_index("metrics")["sentence"]
    assert sentences["latency_ms"] == "3 queries are too few for an interval"


def test_by_the_interval_rule_each_metric_has_its_own_interval():
    """Loaded with five primary metrics or alone, a metric passes by the same 95 % interval."""
    a = runs(*[FOUND] * 30, *[MISSED] * 30)
    b = runs(*[MISSED] * 5, *[FOUND] * 25, *[MISSED] * 30)
    times = [
        [one | {"latency_ms": 9.0 + n % of} for n, one in enumerate(own)]
        for own, of in ((a, 7), (b, 5))
    ]
    seven = ["ndcg@10", "passed", "hit@1", "hit@3", "latency_ms", "hit@5", "empty"]
    both = [compared(*times, metrics=of, primary=of) for of in (["hit@5"], seven)]
    alone, together = (one.deltas.set_index("metric").loc["hit@5"] for one in both)
    for one in (alone, together):
        assert alone[["low", "high"]].tolist() == one[["low_95", "high_95"]].tolist()
    assert together["low"] < alone["low"], "seven hold together by wider ones"
    allowed = -(together["low"] + alone["low"]) / 2
    assert all(gate(one, {"hit@5": allowed}, rule="interval").passed for one in both)


def test_times_go_by_their_median_or_by_their_95th_percentile():
    # medians 10 and 12; the 95th percentile of 21 times is the 20th: 20 and 60
    times = [[10.0] * 19 + [20.0, 30.0], [12.0] * 19 + [60.0, 90.0]]
    cmp = compared(*([{"doc_id": FOUND, "latency_ms": ms} for ms in own] for own in times))
    asked = {"latency_ms": 2, "p95(latency_ms)": 39}
    for rule in ("threshold", "interval"):
        found = gate(cmp, asked, rule=rule)
        tail = ["baseline", "candidate", "delta", "verdict"]
        assert row_of(found, "p95(latency_ms)", tail) == [20, 60, 40, "fail"]
        assert row_of(found, "latency_ms", ["delta"]) == [2]
        same_when_reloaded(cmp, found, asked, rule=rule)
    assert gate(cmp, {"latency_ms": 2, "p95(latency_ms)": 40}).passed


# Failures never help

SOME_LATE = [*runs(*[FOUND] * 6), *runs(FOUND, FOUND, [], error="late")]
FALLEN = runs(*[FOUND] * 2, *[MISSED] * 4, *[FOUND] * 6)
ALLOWED = dict.fromkeys(["hit@5", "mrr", "passed", "failed", "timeout", "empty_all"], 0)


@pytest.mark.parametrize(
    ("a", "b", "allowed", "verdicts", "failing", "metric", "figures", "missing"),
    [
        # failed queries keep their hits, and fail the gate
        (runs(*[FOUND] * 40), runs(*[FOUND] * 40, error="no answer"),
         {"hit@5": 0.02, "failed": 0.02}, "pass fail fail", ["fail", 40, 0, 40],
         "hit@5", [40, 1, 1], "exclude"),
        # `empty` has no value where b failed: what is left looks better (0 of 2 against 2 of 4)
        (runs(FOUND, FOUND, [], []), [*runs(FOUND, FOUND), *runs([], [], error="timed out")],
         {"empty": 0.1}, "pass fail", ["fail", 2, 0, 4], "empty", [2, 0, 0], "exclude"),
        (runs(FOUND, FOUND, [], []), [*runs(FOUND, FOUND), *runs([], [], error="timed out")],
         {"empty": 0.1}, "pass fail", ["fail", 2, 0, 4], "empty", [2, 0, 0], "zero"),
        # a run against itself passes, scored on the hits it has: 8 of 9 found
        (SOME_LATE, SOME_LATE, ALLOWED, " ".join(["pass"] * 7), ["pass", 0, 0, 6],
         "hit@5", [9, 8 / 9, 8 / 9], "exclude"),
        # 4 of the 6 that the baseline answered are lost, the 6 it failed on are gained
        ([*runs(*[FOUND] * 6), *runs(*[[]] * 6, error="late")], FALLEN,
         {"hit@5": 0.1}, "pass pass", ["pass", 0, 0, 6], "hit@5", [12, 6 / 12, 8 / 12], "zero"),
    ],
    ids=["kept", "candidate", "candidate as zero", "itself", "baseline"],
)  # fmt: skip
def test_queries_that_the_candidate_newly_failed_on_fail_the_gate(
    a, b, allowed, verdicts, failing, metric, figures, missing
):
    cmp = compared(a, b, metrics=list(allowed), missing=missing)
    found = gate(cmp, allowed)
    assert found.table["verdict"].tolist() == verdicts.split()
    assert row_of(found, "failed queries", FAILURES) == failing
    assert row_of(found, metric, ["n", "baseline", "candidate"]) == pytest.approx(figures)
    assert ("failed queries" in found.headline()) == (failing[0] == "fail")
    assert gate(cmp, {metric: 0.1}, max_failed=40).passed


def test_a_baseline_that_answered_nothing_passes_no_gate():
    none = compared(runs(*[FOUND] * 6, error="late"), runs(*[FOUND] * 6))
    for found in (gate(none, {"hit@5": 0.1}), gate(none)):
        assert (found.answer, found.exit_status) == ("undecided", 2)
    failing = row_of(gate(none, {"failed": 0}), "failed", ["verdict", "delta"])
    assert failing == ["pass", -1], "failures are what it measures"


def stored(keys, values):
    """Compare two runs by scores that another tool stored for these (run, query)."""
    rows = pd.DataFrame(keys, columns=["run_id", "query_id"])
    results = rs.load_results([{**row, "hits": []} for row in rows.to_dict("records")])
    golden = rs.load_golden({query: {"d": 1} for query in rows["query_id"]})
    scores = rows.assign(state="scored", level="doc", mrr=values).set_index("query_id")
    return compare_runs(results, golden, "a", "b", scores=scores)


def test_queries_dropped_from_stored_scores_fail_the_gate():
    """Another tool's scores have no row for a query that was not asked."""
    asked = [(run, f"q{n}") for run, n_asked in (("a", 10), ("b", 5)) for n in range(n_asked)]
    found = gate(stored(asked, 1.0), {"mrr": 0.1})
    assert row_of(found, "mrr", ["verdict", "n", "delta"]) == ["pass", 5, 0]
    assert row_of(found, "failed queries", FAILURES) == ["fail", 5, 0, 10]


# What can't be evaluated, and what is no question


def test_what_cannot_be_evaluated_stops_a_gate_that_requires_it():
    cmp = compared(runs(FOUND), runs(FOUND), metrics=["hit@5", "refusal_correct"])
    asked = {"hit@5": 0, "refusal_correct": 0, "mrr": 0}
    loose, strict = gate(cmp, asked), gate(cmp, asked, require=True)
    assert verdicts(loose) == ["pass", "not evaluated", "not evaluated", "pass"]
    assert loose.table["n"].tolist() == [1, 0, 0, 1]
    assert (loose.exit_status, strict.passed, strict.exit_status) == (0, False, 2)
    same_when_reloaded(cmp, strict, asked, require=True)
    nothing = gate(cmp, {"refusal_correct": 0})
    assert (nothing.answer, nothing.exit_status) == ("not evaluated", 2), "it looked at nothing"


def test_a_slip_is_an_error_and_no_pass():
    cmp = stored([("a", "q0"), ("b", "q0")], 1.0)
    for asked, how, field, named in (
        ({"mrrr@10": 0}, {}, "metrics", ["mrrr@10"]),
        ({"mrr": -0.1}, {}, "max_drop", ["mrr", -0.1]),
        ({}, {}, "max_drop", []),
        ({"mrr": math.nan}, {}, "max_drop", ["mrr", math.nan]),
        ({"mrr": True}, {}, "max_drop", ["mrr", True]),
        ({"p95(mrr)": 1}, {}, "max_drop", ["p95(mrr)"]),
        ({"mrr": 0}, {"rule": "p"}, "rule", ["p", "threshold", "interval"]),
        (None, {"max_failed": "none"}, "max_failed", ["max_failed"]),
    ):
        with refused(*named, field=field):
            gate(cmp, asked, **how)


def test_the_command_line_says_it_by_its_exit_status(tmp_path, capsys):
    golden, a, b = (tmp_path / name for name in ("golden.yaml", "a.json", "b.json"))
    for file, rows in {
        golden: [{"id": "q0", "query": "?", "expected_doc_ids": ["d"]}],
        a: [{"query_id": "q0", "doc_id": "d"}],
        b: [{"query_id": "q0", "doc_id": "y", "error": "late"}],
    }.items():
        file.write_text(json.dumps(rows), encoding="utf-8")
    command = ["gate", str(a), str(b), "--golden", str(golden), "--max-drop"]
    one = ["--max-failed", "1"]
    asked = [
        ["hit@7=1", *one],
        ["hit@7=1"],
        ["refusal_correct=0", "--require", *one],
        ["hit@7", *one],
    ]
    assert [main([*command, *more]) for more in asked] == [0, 1, 2, 2]
    says(capsys.readouterr().err, "--max-drop", "hit@7")


@pytest.mark.filterwarnings("ignore:ids of")
def test_the_gate_says_how_many_values_it_rests_on_and_names_the_worst_first():
    found = gate(compared(runs(FOUND, FELL, FOUND), runs(FELL, MISSED)), {"mrr": 1})
    # q1 was lost altogether, q2 was not asked, q0 fell by one rank
    assert found.regressions[["query_id", "outcome"]].to_numpy().tolist() == [
        ["q1", "regression"], ["q2", "only_baseline"], ["q0", "loss"],
    ]  # fmt: skip
    assert found.table["n"].tolist() == [2, 3], "both have two values, the baseline answered three"
    many = gate(compared(runs(*[FOUND] * 9), runs(*[MISSED] * 9)))
    assert many.regressions["query_id"].tolist() == [f"q{n}" for n in range(5)]


# Without amounts


@pytest.mark.filterwarnings("ignore:ids of")
@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        ([FOUND] * 30, [MISSED] * 30, "failed"),
        ([MISSED] * 30, [FOUND] * 30, "passed"),
        ([FOUND] * 30, [FOUND] * 30, "passed"),  # nothing changed
        ([FOUND] * 30, [MISSED, *[FOUND] * 29], "undecided"),
    ],
)
def test_without_amounts_the_words_of_primary_metrics_decide(a, b, answer):
    cmp = compared(runs(*a), runs(*b))
    found = gate(cmp)
    assert (found.rule, found.answer) == ("verdict", answer)
    same_when_reloaded(cmp, found)
    assert found.table["metric"].tolist() == [*cmp._primary, "failed queries"]
    assert found.table["max_drop"][:-1].isna().all()


def test_a_metric_that_is_worse_fails_whatever_the_others_won():
    """Refusing everything: false refusals are worse, answers that should be refused better."""
    golden = [{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"][: n % 2]} for n in range(80)]
    records = [
        {"run_id": run, "query_id": one["id"], "hits": [], "answer": "yes", "refused": run == "b"}
        for run in "ab" for one in golden
    ]  # fmt: skip
    pair = ["answered_unanswerable", "false_refusal"]
    cmp = rs.evaluate(records, golden, pair, primary=pair).compare("a", "b")
    found = cmp.gate()
    assert (
        found.to_markdown()
        == """\
## ✗ Gate failed by false_refusal: b against a

| metric | verdict | baseline | candidate | delta | interval | why |
| --- | --- | ---: | ---: | ---: | ---: | --- |
| answered_unanswerable | ✓ pass | 1.00 | 0.00 | -1.00 | [-1.00, -0.82] | surely better |
| false_refusal | ✗ fail | 0.00 | 1.00 | +1.00 | [+0.82, +1.00] | surely worse |
| failed queries | ✓ pass | — | 0 | 0 |  | 0 of 80 |

All intervals together hold in 95 % of cases.
"""
    )
    assert cmp.overall == "can't tell"


def test_a_build_reads_the_verdicts_in_junit():
    cmp = compared(runs(*[FOUND] * 20), runs(MISSED, *[FOUND] * 19))
    asked = {"hit@5": 0.05, "mrr": 0.01, "refusal_correct": 0}
    for undecided, kind, status in (("fail", ["failure"], 1), ("pass", [], 0)):
        found = gate(cmp, asked, rule="interval", undecided=undecided)
        cases = [[one.tag for one in case] for case in ElementTree.fromstring(found.to_junit())]
        assert (cases, found.exit_status) == ([kind, kind, ["skipped"], []], status)


@pytest.mark.parametrize("seed", range(times(2)))
def test_shown_numbers_lie_on_the_side_of_the_amount_that_the_verdict_says(seed):
    """At amounts that losses lie on exactly, or by a digit beside."""
    draw = np.random.default_rng(seed)
    n = draw.integers(3, 20)
    base = draw.random(n) * 0.4 + 0.3
    values = np.append(base, base - draw.integers(-1, 4, n) / 10)
    cmp = stored([(run, f"q{place}") for run in "ab" for place in range(n)], values)
    exact = cmp.deltas.loc[0, ["delta", "low_95"]].abs().astype(float)
    amounts = [*exact, *exact.round(2), *exact.round(4)]
    for rule, allowed in product(("threshold", "interval"), amounts):
        found = gate(cmp, {"mrr": allowed}, rule=rule)
        row, shown = found.table.iloc[0], found.shown().iloc[0]
        a, b, apart = (float(shown[name]) for name in ("baseline", "candidate", "delta"))
        assert abs(b - a - apart) <= 1.5 * 10 ** -len(shown["delta"].partition(".")[2]) + 1e-12
        if rule == "threshold":
            assert (-apart > allowed) == (row["verdict"] == "fail")
        elif shown["95 % interval"]:
            ends = [-float(one) for one in shown["95 % interval"].strip("[]").split(", ")]
            assert LEVELS[sum(end > allowed for end in ends)] == row["verdict"]

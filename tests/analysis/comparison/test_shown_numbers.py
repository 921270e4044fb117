"""Numbers beside each other are of the same queries, add up, and agree with the word beside them.

Random pairs of runs with failed and missing queries, and limits at which losses lie exactly.
"""

import math

import pandas as pd
import pytest
from conftest import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

import ragscore as rs
from ragscore.analysis.comparison.deltas import jointly_tested, paired_deltas
from ragscore.frames.render import decimals_beside, decimals_within, shown_p
from ragscore.scoring.metrics import NOTHING_DECLARED
from ragscore.stats import verdict
from tests.messages import says

SIDES = ("baseline", "candidate", "delta")
ASKED = ("hit@1", "hit@5", "mrr", "ndcg@5", "passed", "failed", "empty")

# how a query ended, the rank of its hit (0: none), and its milliseconds
endings = st.tuples(
    st.sampled_from(["ok"] * 6 + ["failed", "missing"]),
    st.integers(0, 4),
    st.integers(1, 40),
)
pairs_of_runs = st.lists(
    st.tuples(endings, endings, st.sampled_from("abc")), min_size=3, max_size=40
)


def evaluated(pairs):
    """Both runs as `rs.evaluate` reads them from dicts."""
    golden = [
        {"id": f"q{n:02}", "query": "?", "expected_doc_ids": ["d"], "category": kind}
        for n, (*_, kind) in enumerate(pairs)
    ]
    records = []
    for side, run_id in enumerate(("a", "b")):
        # each run was asked something, or there would be no run
        records.append({"run_id": run_id, "query_id": "extra", "hits": []})
        for n, pair in enumerate(pairs):
            how, rank, time = pair[side]
            if how == "missing":
                continue
            hits = [{"rank": r, "doc_id": "d" if r == rank else f"x{r}"} for r in range(1, 6)]
            records.append(
                {
                    "run_id": run_id, "query_id": f"q{n:02}", "query": "?", "answer": "yes",
                    "hits": hits if rank else hits[:0], "elapsed_ms": time, "cost_usd": time / 1e4,
                    **({"error": "late"} if how == "failed" else {}),
                }
            )  # fmt: skip
    return rs.evaluate(rs.load_results(records), rs.load_golden(golden))


def places(text):
    return len(text.partition(".")[2])


def check_sums(table):
    """Candidate − baseline is delta, but for the rounding of the digits shown."""
    for row in table.to_dict("records"):
        texts = [row[name] for name in SIDES]
        if "—" in texts or row["metric"].endswith("(p50)"):
            continue
        a, b, delta = map(float, texts)
        least = min(map(places, texts))
        assert abs((b - a) - delta) <= 1.5 * 10**-least + 1e-12, row


def by_hand(ev, metric):
    """Means and difference of a gate, query by query, as its page says it."""
    rows = ev.scores[(ev.scores["state"] != "extra").to_numpy()].reset_index()
    own = dict(rows.set_index(["run_id", "query_id"]).iterrows())
    lower = NOTHING_DECLARED.describe(metric).better == "lower"
    worst, sides = float(lower), []
    for query in rows["query_id"].unique():
        (state_a, a), (state_b, b) = (
            (own[run, query]["state"], own[run, query][metric]) for run in "ab"
        )
        if state_b == "missing" or (state_b == "failed" and state_a != "failed"):
            b = worst
        if state_a == "failed" and metric != "failed":
            is_worse = b > a if lower else b < a
            if state_b == "failed" or not is_worse:
                continue
        if state_a != "missing" and not math.isnan(a) and not math.isnan(b):
            sides.append((a, b))
    n = len(sides)
    a, b = (math.fsum(pair[side] for pair in sides) / n if n else math.nan for side in (0, 1))
    return [n, a, b, b - a]


@settings(max_examples=EXAMPLES // 2)
@given(pairs_of_runs)
@pytest.mark.filterwarnings("ignore")
def test_a_gate_has_the_means_and_differences_worked_query_by_query(pairs):
    ev = evaluated(pairs)
    found = ev.compare("a", "b").gate(dict.fromkeys(ASKED, 0)).table.set_index("metric")
    for metric in ASKED:
        row = found.loc[metric, ["n", *SIDES]].tolist()
        assert row == pytest.approx(by_hand(ev, metric), nan_ok=True), metric


@settings(max_examples=EXAMPLES // 2)
@given(pairs_of_runs, st.integers(2, 4))
@pytest.mark.filterwarnings("ignore")
def test_shown_numbers_add_up_and_lie_on_the_side_of_the_limit_that_the_gate_says(pairs, digits):
    ev = evaluated(pairs)
    cmp = ev.compare("a", "b")
    slices = cmp.slices("category", list(ASKED), min_n=2)
    for table in (cmp.shown()[0], slices._shown(), ev.score_diff("a", "b")._shown()):
        check_sums(table)
    deltas = cmp.gate(dict.fromkeys(ASKED, 0)).table.set_index("metric")["delta"]
    losses = deltas.abs().fillna(0.0)
    for allowed in (losses.to_dict(), losses.round(digits).to_dict()):
        found = cmp.gate(allowed)
        check_sums(found.shown())
        rows = zip(found.table.to_dict("records"), found.shown().to_dict("records"), strict=True)
        for row, texts in rows:
            if row["verdict"] != "not evaluated":
                sign = 1 if NOTHING_DECLARED.describe(row["metric"]).better == "lower" else -1
                is_beyond = sign * float(texts["delta"]) > float(texts["allowed"])
                assert is_beyond == (row["verdict"] == "fail"), (row, texts)


@pytest.mark.parametrize(
    ("value", "limit", "is_beyond", "shown"),
    [
        (0.0204, 0.02, True, "0.0204"),
        (0.02, 0.02, False, "0.02"),
        (0.0196, 0.0196, False, "0.0196"),
        (0.020000004, 0.02, True, "0.020000004"),
    ],
)
def test_a_number_has_the_digits_that_show_its_side_of_a_limit(value, limit, is_beyond, shown):
    assert f"{value:.{decimals_beside(value, limit, is_beyond, 2)}f}" == shown


def test_a_p_value_is_shown_on_its_side_of_five_per_cent():
    assert [shown_p(p) for p in (0.0496, 0.0504, 0.05, 0.04999, 0.0004, 0.2)] == [
        ".0496", ".050", ".050", ".04999", "< .001", ".200",
    ]  # fmt: skip
    assert verdict(0.1, 0.001, 0.2, 0.0496, 0.1, 100).word == "better"


def test_an_interval_that_leaves_out_zero_is_shown_so():
    assert decimals_within(0.0004, 0.2) == 4 and decimals_within(-0.0004, 0.2) == 2
    says(verdict(0.1, 0.0004, 0.2, 0.04, 0.1, 100).sentence, "[+.0004")


def test_costs_are_told_by_their_median():
    # nearly every query costs less, one costs much more: the mean rises, the median falls
    first = pd.DataFrame({"cost_usd": [0.010] * 40})
    second = pd.DataFrame({"cost_usd": [0.008] * 39 + [1.0]})
    together = jointly_tested(first, second, ["cost_usd"])
    row = paired_deltas(first, second, first * float("nan"), together=together).iloc[0]
    assert row["delta"] > 0 and row["p50_delta"] == pytest.approx(-0.002)
    assert row["verdict"] == "better"

"""Numbers beside each other are of the same queries, add up, and agree with the word beside them.

Random pairs of runs with failed and missing queries, and limits at which losses lie exactly.
"""

import math
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.analysis.comparison.deltas import jointly_tested, paired_deltas
from ragscore.analysis.comparison.text import shown_deltas
from ragscore.frames.render import decimals_beside, decimals_within, shown_p
from ragscore.reporting.summary import _primaries
from ragscore.scoring.metrics import NOTHING_DECLARED
from ragscore.stats import verdict
from tests.messages import says

SIDES = ("baseline", "candidate", "delta")
ASKED = ("hit@1", "hit@5", "mrr", "ndcg@5", "passed", "failed", "empty", "latency_ms", "cost_usd")

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


def number(text):
    return math.nan if text == "—" else float(text)


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


def check_gate(cmp, **how):
    found = cmp.gate(**how)
    shown = found.shown()
    check_sums(shown)
    lost = cmp.at_worst.set_index("metric")["n_uncounted"] if len(cmp.at_worst) else {}
    for row, texts in zip(found.table.to_dict("records"), shown.to_dict("records"), strict=True):
        if row["verdict"] == "not evaluated" or lost.get(row["metric"], 0):
            continue
        sign = 1 if NOTHING_DECLARED.describe(row["metric"]).better == "lower" else -1
        allowed = float(texts["allowed"])
        seen = sign * number(texts["delta"]) > allowed
        if found.rule == "threshold":
            assert seen == (row["verdict"] == "fail"), (row, texts)
        else:
            ends = [sign * float(end) for end in re.findall(r"[-+]?[\d.]+", texts["95 % interval"])]
            assert (seen or max(ends) > allowed) == (row["verdict"] == "fail"), (row, texts)
        if seen:
            assert float(re.findall(r"[\d.e-]*\d", row["reason"])[0]) > allowed, row["reason"]


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


@pytest.mark.slow
@given(pairs_of_runs, st.integers(2, 4))
@pytest.mark.filterwarnings("ignore")
def test_numbers_beside_each_other_add_up_and_agree_with_the_word(pairs, digits):
    ev = evaluated(pairs)
    cmp = ev.compare("a", "b")
    table, _ = cmp.shown()
    check_sums(table)
    for row in table.to_dict("records"):
        word = row["candidate is"].removesuffix(" (exploratory)")
        ends = [float(end) for end in re.findall(r"[-+]?[\d.]+", row["95 % interval"])]
        if word != "can't tell":
            assert ends[0] * ends[1] > 0 and float(row["delta"]) != 0, row
            assert row["corrected p"] == "< .001" or float(row["corrected p"]) < 0.05
    slices = cmp.slices("category", list(ASKED[:7]), min_n=2)
    check_sums(slices._shown())
    text = " ".join(slices.reversals["sentence"])
    assert not re.search(r"\b(better|worse)\b", text)
    check_sums(ev.score_diff("a", "b")._shown())
    found = _primaries(cmp)
    for row in found.to_dict("records"):
        before, after = map(float, row["before → after"].split(" → "))
        delta = row["difference [95 %]"].split(" ")[0]
        assert abs(after - before - float(delta)) <= 1.5 * 10 ** -places(delta) + 1e-12
    check_sums(cmp.gate().shown())
    first = cmp.gate(dict.fromkeys(ASKED, 0)).table.set_index("metric")
    losses = {
        metric: max(0.0, abs(row["delta"]) if row["delta"] == row["delta"] else 0.0)
        for metric, row in first.iterrows()
    }
    for allowed in (losses, {name: round(loss, digits) for name, loss in losses.items()}):
        for rule in ("threshold", "interval"):
            check_gate(cmp, max_drop=allowed, rule=rule)
    for metric in ASKED[:7]:
        row = first.loc[metric, ["n", *SIDES]].tolist()
        assert row == pytest.approx(by_hand(ev, metric), nan_ok=True), metric


@pytest.mark.large
def test_a_loss_just_beyond_what_is_allowed_is_shown_so(write_golden, write_run):
    # 51 of 2,500 lost: .0204 beside .02
    n = 2500
    golden = [{"id": f"q{i}", "query": "?", "expected_doc_ids": ["d"]} for i in range(n)]
    records = [
        {"run_id": run, "query_id": f"q{i}",
         "hits": [{"rank": 1, "doc_id": "d" if run == "a" or i >= 51 else "x"}]}
        for run in "ab" for i in range(n)
    ]  # fmt: skip
    cmp = rs.evaluate(records, golden, "hit@1").compare("a", "b")
    row = cmp.gate({"hit@1": 0.02}).shown().iloc[0]
    assert row[["verdict", "delta", "allowed"]].tolist() == ["fail", "-0.0204", "0.02"]
    row = cmp.gate({"hit@1": 0.0204}).shown().iloc[0]
    assert row[["verdict", "delta", "allowed"]].tolist() == ["pass", "-0.020", "0.0204"]


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
    found = verdict(0.1, 0.001, 0.2, 0.0496, 0.1, 100)
    assert found.word == "better"
    says(found.sentence, "better", "p = .0496")


def test_an_interval_that_leaves_out_zero_is_shown_so():
    assert decimals_within(0.0004, 0.2) == 4 and decimals_within(-0.0004, 0.2) == 2
    says(verdict(0.1, 0.0004, 0.2, 0.04, 0.1, 100).sentence, "[+.0004")


def test_costs_are_shown_by_the_median_that_their_word_goes_by():
    # nearly every query costs less, one costs much more: the mean rises, the median falls
    first = pd.DataFrame({"cost_usd": [0.010] * 40})
    second = pd.DataFrame({"cost_usd": [0.008] * 39 + [1.0]})
    deltas = paired_deltas(
        first, second, first * float("nan"), together=jointly_tested(first, second, ["cost_usd"])
    ).assign(is_primary=True, n_expected_baseline=40, n_expected_candidate=40)
    table, note = shown_deltas(deltas, pd.DataFrame(columns=["metric"]))
    row = table.iloc[0]
    assert (row["metric"], row["candidate is"]) == ("cost_usd (p50)", "better")
    assert float(row["delta"]) == pytest.approx(-0.002)
    says(note, "cost_usd (p50)", "medians")

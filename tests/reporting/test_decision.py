"""What a report and a printed evaluation say first: the decision, and the runs."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from browser import CHROMIUM, Browser

import ragscore as rs
from ragscore.frames.short_names import fitting_names, renamed
from ragscore.reporting.sections import run_by_run, sections
from tests.messages import says

LONG = [f"prod-eu-west-retriever-{n:02d}-chunk512-over64" for n in range(10)]


def runs_of(shares, n=80, times=None):
    """Runs of n queries; each finds its share of the documents, the same ones first."""
    ids = [f"q{at:03d}" for at in range(n)]
    golden = [{"id": one, "query": one, "expected_doc_ids": [one]} for one in ids]
    hits, responses = [], []
    for run, share in shares.items():
        for at, one in enumerate(ids):
            doc = one if at < share * n else "other"
            hits.append({"run_id": run, "query_id": one, "rank": 1, "doc_id": doc})
            took = 10.0 + (times or {}).get(run, 0) + at / n
            responses.append({"run_id": run, "query_id": one, "elapsed_ms": took})
    results = rs.Results(
        runs=pd.DataFrame({
            "run_id": list(shares),
            "created_at": pd.date_range("2026-01-01", periods=len(shares), tz="UTC"),
        }),
        responses=pd.DataFrame(responses), hits=pd.DataFrame(hits),
    )  # fmt: skip
    return rs.evaluate(results, rs.load_golden(golden), ["hit@1"])


@pytest.fixture(scope="module")
def demo():
    return rs.evaluate("data/demo/runs/*/per_query.jsonl", "data/demo/golden.yaml")


@pytest.fixture(scope="module")
def parts(demo):
    """The sections of the demo's report, by their titles."""
    return {one.title: one for one in sections(demo.report())}


def told(ev):
    return ev.report().decision


def test_planted_differences_are_in_the_sentence_and_in_the_letters():
    ev = runs_of({"low": 0.3, "best": 0.9, "near": 0.88, "mid": 0.6})
    found = told(ev)
    assert found.run_ids == ("best", "near", "mid", "low")
    says(found.sentence, "best: better than mid and low, not told from near")
    board = ev.leaderboard().table.set_index("run_id")["sets"]
    assert found.letters.set_index("run_id")["sets"].to_dict() == board.to_dict()
    assert set(board["best"]) & set(board["near"]) and not set(board["best"]) & set(board["mid"])
    clear = told(ev.select(["best", "mid", "low"]))
    says(clear.sentence, "best: better than each of the 2 others")


def test_equal_runs_are_not_told_apart_and_none_is_recommended():
    found = told(runs_of({"a": 0.5, "b": 0.5, "c": 0.5}))
    says(found.sentence, "None of the 3 runs is told from another")
    assert set(found.pairs["verdict"]) == {"can't tell"} and set(found.letters["sets"]) == {"a"}


def test_the_sentence_about_two_runs_or_a_baseline_is_about_those():
    two = runs_of({"old": 0.9, "new": 0.3}, times={"new": 5})
    says(told(two).sentence, "new: worse than old")
    ev = runs_of({"old": 0.5, "good": 0.9, "bad": 0.1, "same": 0.5})
    against = rs.evaluate(ev.results, ev.golden, ["hit@1"], baseline="old")
    found = told(against)
    says(found.sentence, "good: better than old", "bad: worse than old", "same: not told from old")
    pairs = set(zip(found.pairs["run_baseline"], found.pairs["run_candidate"], strict=True))
    assert all("old" in pair for pair in pairs), "no other pair is tested, so none is shown"
    assert "▲ better" in against.report().to_html()


def test_time_is_said_with_its_verdict_and_else_in_numbers(demo):
    two = demo.select(["hybrid", "hybrid_rerank"])
    row = two.compare("hybrid", "hybrid_rerank").deltas.set_index("metric").loc["latency_ms"]
    assert row["verdict"] == "worse" and round(row["p50_delta"], 1) == 6.9
    says(told(two).sentence, "hybrid_rerank: better than hybrid; slower by 6.9 ms")
    # without latency of one run nothing is tested of it, whatever the others have
    scores = demo.scores.copy()
    scores.loc[scores["run_id"].eq("bm25").to_numpy(), ["latency_ms", "answer_checks"]] = np.nan
    lacking = replace(demo, scores=scores)._decided(of_all=True)
    says(lacking.sentence, "median 19 ms against 11 ms of dense")


@pytest.mark.parametrize("how", ["baseline", "lacking", "margins"])
def test_the_decision_says_what_compare_says_of_each_pair(demo, how):
    ev, margins = demo, None
    if how == "baseline":
        ev = replace(demo, baseline="bm25")
    if how == "lacking":  # no query has answer_checks in all runs
        scores = demo.scores.copy()
        scores.loc[scores["run_id"].eq("dense").to_numpy(), "answer_checks"] = np.nan
        ev = replace(demo, scores=scores)
    if how == "margins":
        margins = {"ndcg@10": 0.5, "passed": 0.5}
    found = ev._decided(margins, of_all=True)
    pairs = [pair for pair in permutations(ev.run_ids, 2) if how != "baseline" or "bm25" in pair]
    assert len(found.pairs) == len(pairs)
    for pair in pairs[::4]:
        assert found.of_pair(*pair)[0] == ev.compare(*pair, margins=margins).overall, pair


def test_conversations_are_the_clusters_of_the_decision_as_of_compare():
    rng, n = np.random.default_rng(5), 48
    asked = pd.DataFrame({"query_id": [f"q{at}" for at in range(n)], "turn": np.arange(n) % 6 + 1})
    asked = asked.assign(query=asked["query_id"], conversation=np.arange(n) // 6, doc_id="right")
    easy = np.repeat(rng.random(n // 6), 6)
    runs = {
        run: asked[["query_id"]].assign(
            rank=1, doc_id=np.where(rng.random(n) < easy + more, "right", "wrong")
        )
        for run, more in {"a": -0.1, "b": 0.1, "c": 0.35}.items()
    }
    hits = pd.concat(runs, names=["run_id"]).reset_index(level=0)
    golden = rs.load_golden(asked.astype({"conversation": "str"}))
    ev = rs.evaluate(rs.load_results(hits), golden)
    pairs = ev.report().decision.pairs
    assert len(pairs) == 6
    for row in pairs.to_dict("records"):
        assert ev.compare(row["run_baseline"], row["run_candidate"]).overall == row["verdict"]
    assert set(pairs["verdict"]) == {"better", "worse", "can't tell"}


def test_of_many_runs_the_newest_is_compared_in_full_and_the_others_by_their_verdicts():
    ev = runs_of({f"r{n}": 0.3 + n / 10 for n in range(6)})
    report = ev.report()
    assert [(one.baseline, one.candidate) for one in report.comparisons] == [("r4", "r5")]
    assert report.left_out["part"].tolist()[-1] == "4 older comparisons"
    (table,) = (one.table for one in run_by_run(report))
    first = table.set_index("run").loc["r1"]
    assert (first["against"], first["difference"]) == ("r0", report.decision.of_pair("r0", "r1")[0])
    assert len(ev.report(baseline="r0").comparisons) == 5
    (table,) = (one.table for one in run_by_run(ev.select(["r0", "r1"]).report(baseline="r1")))
    assert table["against"].tolist() == ["r1", "—"], "a baseline is read against no run"


def test_names_stand_apart_when_they_are_shortened():
    short = fitting_names(LONG, 28)
    assert list(short.values()) == [f"{n:02d}" for n in range(10)]
    odd = [*LONG, "another_name_of_forty_characters_in_all"]
    short = fitting_names(odd, 20)
    assert len(set(short.values())) == 11 and max(map(len, short.values())) == 20
    assert renamed(f"{odd[-1]}: better", short) == f"{short[odd[-1]]}: better"
    assert fitting_names(["a" * 50 + "b" + "c" * 50, "a" * 50 + "d" + "c" * 50], 9)


# -- in a browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    one = runs_of(dict(zip(LONG, np.linspace(0.2, 0.9, 10), strict=True)))
    names = ["hit@1", "mrr@10", "ndcg@10", "precision@5", "passed"]
    ev = rs.evaluate(one.results, one.golden, names, primary=names)
    report = ev.report(gate={"ndcg@10": 0.5})  # with a section for each run and the one before it
    file = report.write(tmp_path_factory.mktemp("decision") / "ten.html")
    with Browser() as browser:
        yield browser, file


def opened(page, width, height, media=""):
    browser, file = page
    browser.send(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
        mobile=False,
    )  # fmt: skip
    browser.send("Emulation.setEmulatedMedia", media=media, features=[])
    browser.open(file)
    return browser


ROWS = "[...document.querySelectorAll('.rs-standings tbody tr')]"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_the_first_screen_has_the_sentence_and_all_ten_runs(page, width, height):
    browser = opened(page, width, height)
    assert browser.run(f"{ROWS}.length") == 10
    assert (
        browser.run(f"Math.max(...{ROWS}.map(row => row.getBoundingClientRect().bottom))") < height
    )
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
    cut = (
        "[...document.querySelectorAll('.decision :is(h2, th, td)')].filter(one =>"
        " one.getBoundingClientRect().right > innerWidth || one.scrollWidth > one.clientWidth + 1)"
        ".map(one => one.textContent)"
    )
    assert browser.run(cut) == []
    assert browser.run("document.querySelector('nav').getBoundingClientRect().height") < 60


def test_a_map_of_means_has_the_numbers_of_the_summary(demo, parts):
    table = parts["By difficulty"].table.set_index("mean hit@5")
    means = demo.summary("hit@5", by="difficulty")
    n = means.set_index("difficulty")["n"].groupby(level=0).max()
    for name in ("easy", "medium", "hard"):
        own = means[means["difficulty"].eq(name)].set_index("run_id")["mean"]
        assert table[f"{name} ({n[name]})"].tolist() == [f"{own[run]:.2f}" for run in table.index]
    assert list(table.index) == demo.run_ids, "three slices of four runs: a row per run"


def test_moves_between_causes_are_those_of_the_failures(demo, parts):
    table = parts["How failure causes changed: hybrid to hybrid_rerank"].table
    moves = demo.failures().transitions("hybrid", "hybrid_rerank")
    shown = table.set_index(table.columns[0])
    assert shown.loc[moves.index, moves.columns].to_numpy().tolist() == moves.to_numpy().tolist()


def test_a_report_asks_nothing_again_that_a_printed_evaluation_has_asked(monkeypatch):
    ev = runs_of({"a": 0.5, "b": 0.7, "c": 0.6})
    before = repr(ev)

    def questions_of(*_, **__):
        raise AssertionError("asked again")

    for module in ("comparison.question", "leaderboard"):
        monkeypatch.setattr(f"ragscore.analysis.{module}.questions_of", questions_of)
    assert ev.report().decision.short in before

"""Refusals, failures and the like of an evaluation: objects whose frames are attributes."""

import inspect
import json
import re
import warnings
from dataclasses import fields

import pandas as pd
import pytest
from conftest import answer, hit, record
from test_evaluation import ev

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from ragscore.analysis.extras.answers import Behaviour
from ragscore.analysis.extras.corpora import Lint
from ragscore.analysis.extras.document_versions import Freshness
from ragscore.analysis.extras.paraphrase_groups import Paraphrases
from ragscore.analysis.extras.retriever_report import RetrieverReport
from ragscore.analysis.extras.score_threshold import RiskCoverage
from ragscore.analysis.failure_causes import Failures
from ragscore.analysis.refusals import Refusals
from ragscore.analysis.repeats import Repeats, average_repeats
from ragscore.golden.health import GoldenHealth
from tests.messages import refused, says

__all__ = ["ev"]  # a fixture

CLASSES = (
    Refusals, RiskCoverage, Failures, Paraphrases, Repeats, RetrieverReport, GoldenHealth,
    Freshness, Behaviour, Lint, rs.extras.knowledge_gain.Gain,
)  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES)
def test_every_frame_of_an_object_is_there_and_documented(kind):
    declared = {item.name for item in fields(kind)}
    for name in kind.FRAMES:
        assert name in declared or isinstance(vars(kind)[name].__doc__, str)
        # From 3.13 on, docstrings are stored without their indentation.
        text = inspect.cleandoc(kind.__doc__)
        assert re.search(rf"^([\w, ]*\b)?{name}\b[\w, ]*$", text, flags=re.M), name


def objects_of(ev):
    return (
        ev.refusals(), rs.extras.risk_coverage(ev, right="hit@5"), ev.failures(),
        ev.golden.health(ev, "hit@5"),
        rs.extras.paraphrases(ev, narrow=5, pool=10),
        ev.repeats("passed", 2, runs=["dense", "hybrid"]),
    )  # fmt: skip


def test_objects_print_a_table_and_the_names_of_their_frames(ev):
    for found in objects_of(ev):
        text, page = repr(found), found._repr_html_()
        for name in found.FRAMES:
            assert f".{name}" in text
            assert f".{name}" in page
        assert page.count("<table") == 1
        assert len(text.splitlines()) < 20


def test_what_was_not_scored_is_scored_when_an_object_needs_it(ev):
    few = rs.evaluate(ev.results, ev.golden, ["mrr@10"])
    pd.testing.assert_frame_equal(few.refusals().table, ev.refusals().table)
    pd.testing.assert_frame_equal(
        few.failures(hit="hit@10").table, ev.failures(hit="hit_rate@10").table
    )
    assert few.golden.health(few, "hit@5").metric == "hit@5"
    with refused("no such thing", "rs.metrics()", field="metrics"):
        few.refusals(right="no such thing")


@pytest.fixture
def repeated(write_golden, write_run):
    """System s with two repeats and system t with one run, on queries q0 and q1."""
    golden = rs.load_golden(
        write_golden([{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]} for n in range(2)])
    )
    ranks = {"s1": ("s", 1, (1, 2)), "s2": ("s", 2, (1, None)), "t": ("t", None, (2, 2))}
    files = [
        write_run(
            name,
            [
                record(f"q{n}", [hit("c", "d", rank)] if rank else [], answer=answer("x"))
                for n, rank in enumerate(found)
            ],
            system=system,
            **({"repeat": repeat} if repeat else {}),
        )
        for name, (system, repeat, found) in ranks.items()
    ]
    return rs.evaluate(files, golden)


def test_repeats_of_a_system_are_known_from_its_runs(repeated):
    found = repeated.select(["s1", "s2"]).repeats("hit@3", 2)
    assert found.per_query[["n_passed", "pass@2", "pass^2"]].to_numpy().tolist() == [
        [2, 1, 1],
        [1, 1, 0],
    ]


def test_averages_of_repeats_are_an_evaluation_by_system(repeated):
    averaged = repeated._of_systems
    assert averaged.run_ids == ["s", "t"]
    # s: 1 and 1 for q0, 1/2 and 0 for q1; t: 1/2 and 1/2
    assert averaged.pivot("mrr@10").to_numpy().tolist() == [[1, 0.5], [0.25, 0.5]]
    assert averaged.summary("mrr@10")["mean"].tolist() == [0.625, 0.5]
    assert averaged.leaderboard("mrr@10")._run_ids == ["s", "t"]
    assert averaged.select("t").pivot("mrr@10").columns.tolist() == ["t"]
    assert "s" in repr(averaged)
    pd.testing.assert_frame_equal(
        averaged.scores, average_repeats(repeated.scores, repeated.results.runs)
    )


def test_what_is_asked_later_is_scored_run_by_run_and_then_averaged(repeated):
    averaged = rs.evaluate(repeated.results, repeated.golden, ["mrr"])._of_systems
    # hit@7 of q1: 1 and 0, so 1/2; the first repeat alone has 1
    assert averaged.summary("hit@7")["mean"].tolist() == [0.75, 1]
    assert averaged.select("s").summary("hit@7")["mean"].tolist() == [0.75]
    part = averaged.select(queries=["q1"]).summary("hit@7")
    assert part["mean"].tolist() == [0.5, 1]


def test_a_system_is_compared_with_its_repeats_averaged(repeated):
    cmp = repeated.compare("t", "s", "mrr@10")
    row = cmp.deltas.iloc[0]
    assert (row["baseline"], row["candidate"], row["n"]) == (0.5, 0.625, 2)
    says(cmp.notes(), "s: 2 runs, averaged", "2 queries", "first")
    # ranks of the first repeat: 1 and 2 against 2 and 2
    assert cmp.counts == {"win": 1, "draw": 1}
    assert repeated.compare("s1", "s2", "mrr@10").deltas["delta"].tolist() == [-0.25]


def test_a_report_has_systems_and_not_their_repeats(repeated):
    page = repeated.report()
    assert next(iter(page.tables)) == "Standings"
    assert page.tables["Standings"]["run_id"].unique().tolist() == ["s", "t"]
    assert "t against s" in page.tables and not any("s1" in name for name in page.tables)


def test_reported_values_are_checked_by_the_evaluations_policies(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]} for n in range(2)])
    )
    results = rs.load_results(write_run("r", [record("q0", [hit("c", "d", 1)])]))
    reported = pd.DataFrame(
        {"run_id": "r", "query_id": "", "metric": "hit@1", "statistic": "mean", "value": [0.5]}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        as_missing = rs.extras.check_reported(
            rs.evaluate(results, golden, missing="zero"), reported
        )
        left_out = rs.extras.check_reported(rs.evaluate(results, golden), reported)
    assert as_missing["recomputed"].tolist() == [0.5]
    assert left_out["recomputed"].tolist() == [1.0]


def test_means_are_saved_as_another_harness_writes_them(ev, tmp_path):
    file = ev.save(tmp_path / "means.json", format="kebab")
    assert json.loads(file.read_text()) == aggregate(ev.results, ev.golden, "kebab")
    of_trec = rs.evaluate(ev.results, ev.golden, profile="trec").save(tmp_path / "trec.json")
    assert json.loads(of_trec.read_text()) == aggregate(ev.results, ev.golden, "trec")
    with refused("kebab", "trec", field="format"):
        ev.save(file)


def test_a_comparison_shows_a_query_as_its_evaluation_does(ev):
    cmp = ev.compare("dense", "hybrid")
    assert repr(cmp.query("pd-005")) == repr(ev.query("pd-005", ["dense", "hybrid"]))
    with refused("JSON", field="results"):
        rs.Comparison.from_json(cmp.to_json()).query("pd-005")


def test_repeats_of_a_system_are_one_row_wherever_runs_are_ranked(repeated):
    assert repeated.leaderboard("mrr@10").table["run_id"].tolist() == ["s", "t"]
    text = repr(repeated)
    says(text, "s: 2 runs", "2 queries asked more than once")
    assert "s1" not in text
    # whoever names runs compares these
    assert repeated.leaderboard("mrr@10", runs=["s1", "s2"]).table["run_id"].tolist() == [
        "s1",
        "s2",
    ]

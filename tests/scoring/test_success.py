"""`found` looks at hits and refusals that are due, `passed` at the answer as well."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.scoring import provenance
from ragscore.scoring.limits import limits_of
from ragscore.scoring.metrics import BY_NAME
from ragscore.scoring.success import VERDICT
from ragscore.scoring.value_states import explain
from tests.messages import refused, says, warned

HITS = [hit("c1", "d", 1)]
MISSED = [hit("c2", "e", 1)]
SOUGHT = {"id": "q", "query": "?", "expected_doc_ids": ["d"]}
CHECKED = SOUGHT | {"must_contain": ["merge"], "forbidden": ["never"]}
TEXT_ONLY = {"id": "q", "query": "?", "must_contain": ["merge"]}
DUE = {"id": "q", "query": "?", "answerable": False, "forbidden": ["never"]}
REFUSAL = answer("no idea", grounded=False)
METRICS = ["found", "passed"]


@pytest.fixture
def load(write_golden, write_run):
    """Results of one run and the golden set, with a judge's points for each answer."""

    def load(rows, records, points=None):
        results = rs.load_results(write_run("r", records, k=10))
        if points is not None:
            judgments = pd.DataFrame(
                {"run_id": "r", "query_id": one["query_id"], "criterion": VERDICT, "item": "",
                 "value": points}
                for one in records
            )  # fmt: skip
            results = replace(results, judgments=judgments)
        return results, rs.load_golden(write_golden(rows))

    return load


@pytest.mark.large
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


def test_the_formula_names_the_limit_below_which_a_judgment_counts_as_bad():
    bad_below, _ = limits_of(VERDICT)
    assert f"{VERDICT} below {bad_below:g}" in BY_NAME["passed"].formula
    assert BY_NAME["passed"].version == 2 and BY_NAME["found"].version == 1


@pytest.mark.large
def test_undecided_hits_leave_a_query_open_unless_its_answer_settles_it(load):
    golden = [{"id": "q", "query": "?", "expected_metadata": {"kind": "a"},
               "expected_substrings": ["needle"], "must_contain": ["merge"]}]  # fmt: skip
    results, golden = load(golden, [record("q", HITS, answer=answer("merge"))])
    cut = replace(
        results,
        hits=results.hits.assign(text="hay", text_cut=pd.array([True], dtype="boolean")),
        hit_meta=pd.DataFrame(
            {"run_id": "r", "query_id": "q", "rank": 1, "key": ["kind"], "value": ['"a"']}
        ),
    )
    wrong = replace(cut, responses=cut.responses.assign(answer="other"))
    with warned(1, "unknown"):
        open_, settled = (
            rs.score(one, golden, METRICS, match="predicate").iloc[0] for one in (cut, wrong)
        )
    assert open_[METRICS].isna().all()
    assert np.isnan(settled["found"]) and settled["passed"] == 0


@pytest.mark.large
def test_of_the_demo_no_false_refusal_and_no_failed_check_passes():
    root = Path(__file__).parents[2] / "data" / "demo"
    scores = rs.score(
        rs.load_results(root / "runs" / "*" / "per_query.jsonl"),
        rs.load_golden(root / "golden.yaml"),
        [*METRICS, "answer_checks", "false_refusal"],
    )
    scores = scores[scores["run_id"] == "hybrid_rerank"]
    is_refused, is_failed = scores["false_refusal"] == 1, scores["answer_checks"] == 0
    assert (is_refused.sum(), scores.loc[is_refused, "found"].sum()) == (32, 20)
    assert scores.loc[is_failed, "found"].sum() == 49
    assert not scores.loc[is_refused | is_failed, "passed"].any()
    assert (scores["passed"] <= scores["found"]).all()
    same = ~(is_refused | is_failed)
    assert (scores.loc[same, "passed"] == scores.loc[same, "found"]).all()


@pytest.mark.filterwarnings("ignore:golden queries without a row", "ignore:.*labelled")
def test_the_reason_of_a_query_without_a_value_is_told(load):
    rows = [TEXT_ONLY | {"id": "text"}, DUE | {"id": "due"}, {"id": "free", "query": "?"}, SOUGHT]
    results, golden = load(rows, [record(one["id"], HITS) for one in rows])
    told = explain(rs.score(results, golden, METRICS), golden, METRICS, results)
    told = told.set_index(["metric", "query_id"])[["state", "reason"]].astype("str")
    passed = told.loc["passed"]
    assert passed["state"].tolist() == ["not_applicable"] * 3 + ["scored"]
    assert passed["reason"].nunique() == 4 and passed["reason"].iloc[3] == ""
    for reason, named in zip(passed["reason"], ("answer", "refusal", "expectation"), strict=False):
        says(reason, named)
    state, reason = told.loc[("found", "text")]
    assert state == "not_applicable" and reason not in set(passed["reason"])
    says(reason, "expectation")


@pytest.mark.large
def test_a_missing_query_counts_as_not_passed_where_missing_rows_count(load):
    rows = [SOUGHT, TEXT_ONLY | {"id": "text"}]
    results, golden = load(rows, [record("q", HITS, answer=answer("merge"))])
    zero = rs.score(results, golden, METRICS, missing="zero").loc["text"]
    assert np.isnan(zero["found"]) and zero["passed"] == 0


@pytest.mark.large
def test_runs_with_and_without_answers_are_compared_with_a_warning(write_golden, write_run):
    golden = write_golden([SOUGHT, SOUGHT | {"id": "p"}])
    names = ("q", "p")
    paths = [
        write_run("searching", [record(name, HITS) for name in names]),
        write_run("answering", [record(name, HITS, answer=answer("so")) for name in names]),
    ]
    ev = rs.evaluate(paths, golden, METRICS)
    with warned("fields", "searching", "answering", "responses.answer", "passed"):
        cmp = ev.compare("searching", "answering")
    row = cmp.invariants.set_index("name").loc["fields"]
    says(row["baseline"], "responses.answer")
    assert row["state"] == "differs"
    cmp = ev.compare("searching", "answering", ["found"])
    assert "fields" not in cmp.invariants["name"].tolist()


def test_passed_is_measured_by_the_judge_of_correctness(load):
    results, golden = load([SOUGHT], [record("q", HITS, answer=answer("so"))], 4.0)
    results = replace(results, judgments=results.judgments.assign(judge="m"))
    parts = rs.evaluate(results, golden, METRICS).provenance(["passed"])
    content = parts.set_index("component")["content"]
    assert VERDICT in content["judge_fingerprint"]
    says(content["fields"], f"judgments.{VERDICT} recorded")


@pytest.mark.large
def test_a_judged_and_an_unjudged_run_are_stored_side_by_side_with_a_warning(
    load, write_run, tmp_path
):
    judged, golden = load([SOUGHT], [record("q", HITS, answer=answer("so"))], 4.0)
    plain = rs.load_results(write_run("plain", [record("q", HITS, answer=answer("so"))], k=10))
    store = rs.RunStore(tmp_path / "store")
    for results in (judged, plain):
        store.save(rs.evaluate(results, golden, METRICS))
    with warned("fields", "plain", "r", f"judgments.{VERDICT}", "passed"):
        assert len(store.scores()) == 2


@pytest.mark.large
def test_values_of_an_earlier_version_are_not_taken_for_the_same(
    write_golden, write_run, tmp_path, monkeypatch
):
    store, golden = rs.RunStore(tmp_path / "store"), rs.load_golden(write_golden([SOUGHT]))
    for run_id, version in (("old", 1), ("new", 2)):
        versions = {"passed": version}
        monkeypatch.setattr(provenance, "metric_versions", lambda *given, of=versions: of)
        results = rs.load_results(write_run(run_id, [record("q", HITS, answer=REFUSAL)], k=10))
        store.save(rs.evaluate(results, golden, METRICS))
    with refused("passed", "new", 2, "old", 1, field="metric_versions"):
        store.scores("passed")

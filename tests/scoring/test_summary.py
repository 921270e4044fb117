"""Means by run and slice with honest denominators, the coverage before, and why a cell is empty."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import MISSES, RUN_A, THREE_QUERIES, answer, hit, record

import ragscore as rs
from ragscore.golden.coverage import coverage
from ragscore.scoring.explain import explain
from ragscore.scoring.score import scored
from ragscore.scoring.summary import slices, summarize
from ragscore.stats import mean_interval
from tests.messages import refused, says, warned

REFUSE = {"id": "no", "query": "?", "answerable": False}


@pytest.fixture
def tagged(loaded):
    rows = [
        THREE_QUERIES[0] | {"tags": ["x", "y"], "difficulty": "easy"},
        THREE_QUERIES[1] | {"tags": ["x"], "difficulty": "hard"}, THREE_QUERIES[2],
        REFUSE | {"difficulty": "hard"},
    ]  # fmt: skip
    return loaded(rows, {"a": [*RUN_A, record("no", [], answer=answer("no", grounded=False))]})


def test_a_mean_is_the_plain_mean_of_its_column_with_the_interval_of_its_kind(tagged):
    scores = rs.score(*tagged, "all")
    table = summarize(scores).set_index("metric")
    values = scores["mrr@10"].dropna()
    expected = {
        "mean": values.mean(), "n": 3, "sum": values.sum(), "std": values.std(),
        "p50": values.median(), "max": 1, "p95": np.quantile(values, 0.95),
    }  # fmt: skip
    assert table.loc["mrr@10", list(expected)].to_dict() == pytest.approx(expected, abs=1e-12)
    for metric, kind in (("hit@1", "binary"), ("mrr@10", "bounded")):
        interval = np.ravel(mean_interval(scores[metric].dropna(), kind))
        assert table.loc[metric, ["low", "high"]].tolist() == pytest.approx(interval, abs=1e-12)
    nowhere = table.loc["answer_checks"]
    assert nowhere["n"] == 0 and nowhere[["mean", "low", "high", "sum"]].isna().all()


@pytest.mark.parametrize(
    ("metric", "n", "n_expected"),
    # q3 and `no` are missing: hit@1 was expected of q3; q2 failed and counts as a miss
    [("hit@1", 2, 3), ("latency_ms", 1, 3), ("passed", 2, 4)],
)
def test_n_expected_counts_what_failed_or_is_missing(loaded, metric, n, n_expected):
    results, golden = loaded(
        [*THREE_QUERIES, REFUSE], {"a": [RUN_A[0], record("q2", [], error="late")]}
    )
    with warned("2", "missing"):
        done = scored(results, golden, [metric])
        row = rs.evaluate(results, golden, metric).summary().iloc[0]
    assert row[["n", "n_expected"]].tolist() == [n, n_expected]
    counts = summarize(done.scores, golden, rows=done.rows).iloc[0]
    assert counts[["n_failed", "n_missing"]].tolist() == [1, 2]


def with_tag(golden, kind):
    tags = pd.DataFrame({"query_id": ["q1", "q2"], "kind": kind, "value": ["u", "v"]})
    return replace(golden, tags=tags)


def test_bad_slices_are_refused_with_the_choices(tagged):
    results, golden = tagged
    scores = rs.score(results, golden, ["mrr"])
    with refused("level", field="by"):
        summarize(scores, golden, by="level")
    with refused("hit@7", field="metrics"):
        summarize(scores, golden, metrics=["hit@7"])
    for kind in ("difficulty", "query_id", "run_id", "mean", "mrr"):  # a slice has its own name
        with refused(kind, field="by"):
            summarize(scores, with_tag(golden, kind), by=kind)
    with refused("golden", field="by"):
        summarize(scores, by="difficulty")
    found = summarize(scores, with_tag(golden, "level"), by="level")["level"]
    assert found.tolist() == ["(none)", "u", "v"]


@pytest.mark.filterwarnings("ignore:.*unlabelled")
def test_coverage_counts_what_means_leave_out(write_golden, write_run):
    golden = rs.load_golden(write_golden([*THREE_QUERIES, REFUSE, {"id": "free", "query": "?"}]))
    tied = [hit(chunk, doc, rank, retrieval={"fusion_score": 0.5})
            for rank, (chunk, doc) in enumerate((("c2", "d2"), ("x", "dx")), 1)]  # fmt: skip
    records = [
        RUN_A[0], record("q2", tied), record("q3", MISSES[1::-1]), record("stray", []),
        record("no", [], error="late"),
    ]  # fmt: skip
    found = coverage(rs.load_results(write_run("a", records)), golden)
    row = found.runs.loc["a"]
    expected = {
        "n_golden": 5, "n_rows": 5, "n_missing": 1, "n_extra": 1, "n_failed": 1,
        "n_empty": 1, "n_unlabelled": 1, "n_should_refuse": 1, "n_rank_order": 1, "n_ties": 1,
        "n_cut": 0,
    }  # fmt: skip
    assert row.drop("k").astype(int).to_dict() == expected
    assert pd.isna(row["k"])
    assert found.issues.groupby("issue")["query_id"].agg(list).to_dict() == {
        "missing": ["free"], "extra": ["stray"], "empty": ["stray"],
        "rank order": ["q3"], "ties": ["q2"],
    }  # fmt: skip


# The level


@pytest.mark.filterwarnings("ignore:.*to be refused with expected ids")
@pytest.mark.parametrize(
    ("last", "level", "left_out"),
    [
        (THREE_QUERIES[2], "chunk", ""),
        ({"id": "q3", "query": "?", "expected_doc_ids": ["d3"]}, "doc", "1 of 3"),
        # targets of a query to refuse don't choose the level
        (REFUSE | {"expected_doc_ids": ["d"]}, "chunk", ""),
    ],
)
def test_auto_takes_the_finest_level_that_covers_every_query(loaded, last, level, left_out):
    results, golden = loaded([*THREE_QUERIES[:2], last], {"a": [*RUN_A, record("no", [])]})
    made = scored(results, golden, ["failed"]).settings.iloc[0]
    assert made["level"] == level
    says(made["left_out"], left_out)


MIXED = [
    *({"id": f"q{n}", "expected_chunk_ids": [f"c{n}"]} for n in (1, 2, 3)),
    {"id": "q4", "expected_doc_ids": ["d4"]},
]
FOUND = [{"query_id": f"q{n}", "chunk_id": f"c{n}", "doc_id": f"d{n}"} for n in (1, 2, 3, 4)]


def test_a_query_with_targets_at_another_level_is_said_and_expected():
    with warned(1, 4, "per_query"):
        ev = rs.evaluate(FOUND, MIXED, metrics=["hit@5", "passed"])
    assert ev.summary()[["n", "n_expected"]].to_numpy().tolist() == [[3, 4], [3, 4]]
    (left_out,) = ev.settings["left_out"]
    says(left_out, "chunk", "1 of 4")
    ledger = ev.explain("hit@5").set_index("query_id")
    assert ledger.loc["q4", "state"] == "undecided"
    says(ledger.loc["q4", "reason"], "match='per_query'")


@pytest.mark.parametrize(
    ("match", "levels"),
    [
        ("chunk", ["chunk"] * 4), ("doc", ["doc"] * 4),
        ("per_query", ["chunk", "chunk", "chunk", "doc"]),
    ],
)  # fmt: skip
def test_a_level_of_ones_own_choice_warns_of_nothing_and_expects_all(match, levels):
    ev = rs.evaluate(FOUND, MIXED, metrics=["mrr"], match=match)
    n = {"chunk": 3, "doc": 1, "per_query": 4}[match]
    assert ev.summary()[["n", "n_expected"]].to_numpy().tolist() == [[n, 4]]
    assert ev.scores["level"].astype("str").tolist() == levels


@pytest.mark.parametrize(
    ("catalogue", "level"), [(["a", "b"], "doc"), ([None, "b"], "chunk")], ids=["own", "shared"]
)
def test_a_catalogue_of_one_run_says_nothing_about_another(loaded, catalogue, level):
    unknown = [record("q1", [hit("other", "d1", 1, chunker_version=None)])]
    results, golden = loaded(THREE_QUERIES[:1], {"a": unknown, "b": unknown})
    chunks = pd.DataFrame({"chunk_id": ["c1", "x"], "run_id": catalogue})
    found = scored(replace(results, chunks=chunks), golden, ["failed"])
    assert found.settings["level"].tolist() == [level] * 2


# Queries, columns and runs


def test_an_empty_golden_column_is_one_slice():
    frame = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["d1", "d2"], "difficulty": None})
    ev = rs.evaluate({"q1": ["d1"], "q2": ["x"]}, frame.assign(own=np.nan), metrics=["hit@5"])
    table = ev.summary(by=["difficulty", "own"])
    assert table[["difficulty", "own", "mean"]].to_numpy().tolist() == [["(none)"] * 2 + [0.5]]


def test_columns_of_ones_own_are_summarized_if_they_hold_numbers(tagged):
    results, golden = tagged
    own = rs.score(results, golden, ["mrr"]).assign(
        long=[True, False, True, False], note="text", tokens=pd.array([1, None, 4, None], "Int64")
    )
    table = summarize(own, golden).set_index("metric")
    assert table["mean"].drop("mrr").to_dict() == {"long": 0.5, "tokens": 2.5}
    assert table.loc["tokens", "n"] == 2
    with refused("note", "mrr", "long", "tokens", field="metrics"):
        summarize(own, metrics=["note"])


def test_runs_are_named_by_id_or_unambiguous_system_and_never_twice(write_run):
    systems = {"a1": "bm25", "a2": "bm25", "b": "dense"}
    files = [write_run(name, RUN_A, system=system) for name, system in systems.items()]
    results = rs.load_results(files)
    assert results.select(["dense", "a2"]).runs["run_id"].tolist() == ["b", "a2"]
    with refused("bm25", 2, "a1", "a2", field="run"):
        results.select(["bm25"])
    with refused("a1", field="runs"):
        rs.Results.concat([results, results])


@pytest.mark.filterwarnings("ignore:.*unlabelled", "ignore:query ids of")
def test_passed_is_expected_where_there_is_something_to_pass(loaded):
    rows = [
        THREE_QUERIES[0], REFUSE, {"id": "none", "query": "?", "expected_empty": True},
        {"id": "clean", "query": "?", "must_not_contain_source_keys": ["k"]},
        {"id": "free", "query": "?"},
    ]  # fmt: skip
    ev = rs.evaluate(*loaded(rows, {"a": [record("stray", [])]}), "passed", missing="zero")
    assert ev.summary()["n_expected"].tolist() == [4]


# What `by` means, everywhere: a name or several, each a column of the queries or a kind of tag


@pytest.fixture(scope="module")
def by_team():
    rows = [
        {"difficulty": "easy", "tags": ["x", "y"], "team": "red"},
        {"difficulty": "hard", "tags": ["x"], "team": "blue"}, {"tags": [], "team": "red"},
    ]  # fmt: skip
    return rs.load_golden(
        [row | {"id": f"q{n}", "expected_doc_ids": ["d"]} for n, row in enumerate(rows)]
    )


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (["difficulty", "tag"], [["q0", "easy", "x"], ["q0", "easy", "y"], ["q1", "hard", "x"],
                                 ["q2", "(none)", "(none)"]]),
        # a field of one's own needs no prefix
        ("team", [["q0", "red"], ["q1", "blue"], ["q2", "red"]]),
        ("x_team", [["q0", "red"], ["q1", "blue"], ["q2", "red"]]),
    ],
    ids=str,
)  # fmt: skip
def test_several_names_make_a_slice_of_every_combination(by_team, by, expected):
    assert slices(by_team, by).values.tolist() == expected


@pytest.mark.parametrize(
    ("by", "named"),
    [
        ("dificulty", ["dificulty", "difficulty"]), (["tag", "teams"], ["teams", "team"]),
        (["tag", "tag"], ["tag"]), ([], []),
    ],
)  # fmt: skip
def test_an_unknown_name_lists_the_nearest(by_team, by, named):
    with refused(*named, field="by"):
        slices(by_team, by)


def test_a_summary_has_a_column_per_name(by_team):
    by_team.queries["group"] = ["A", "B", "B"]
    ev = rs.evaluate({"q0": ["d"], "q1": [], "q2": []}, by_team, ["hit@1"])
    rows = ev.summary(by=["team", "tag"])
    assert rows[["team", "tag", "mean", "n"]].values.tolist() == [
        ["blue", "x", 0, 1], ["red", "(none)", 0, 1], ["red", "x", 1, 1], ["red", "y", 1, 1],
    ]  # fmt: skip
    assert ev.summary(by="group")[["group", "mean"]].values.tolist() == [["A", 1], ["B", 0]]


# The ledger: why a cell has no value is told from causes

GOLDEN = [
    {"id": "q1", "query": "?", "expected_doc_ids": ["d1"], "answerable": True},
    {"id": "q2", "query": "?", "expected_doc_ids": ["d2"], "answerable": True},
]
RIGHT = record("q1", [hit("c1", "d1", 1)], answer=answer("yes"))
SECOND = record("q2", [hit("c2", "d2", 1)], answer=answer("yes"))
REFUSAL = answer("I can't say", grounded=False)


def states(results, golden, metric, **policies):
    """The state, value and reason of each query, and n_expected of the mean."""
    done = scored(results, golden, [metric], **policies)
    ledger = explain(done.rows, done.labels, done.scores)
    found = ledger.astype({"state": "str"})[["state", "value", "reason"]].to_numpy().tolist()
    return (
        dict(zip(ledger["query_id"], found, strict=True)),
        summarize(done.scores, golden, rows=done.rows).iloc[0],
    )


@pytest.mark.filterwarnings("ignore:golden queries without a row")
@pytest.mark.parametrize(
    ("second", "judged", "state", "named"),
    [
        (SECOND, [(np.nan, None)], "not_applicable", ["judge"]),  # nothing to measure
        (record("q2", [], answer=REFUSAL), [], "refused", ["system"]),
        (record("q2", [], error="out of memory"), [], "system_error", ["out of memory"]),
        (SECOND, [(np.nan, "judge_failed")], "judge_failed", ["1 of 1"]),
        (None, [], "missing", ["response"]),  # never asked
        (SECOND, [], "missing", ["judgment"]),  # never judged
    ],
)
def test_identical_scores_have_six_different_ledgers(loaded, second, judged, state, named):
    results, golden = loaded(GOLDEN, {"a": [RIGHT, second] if second else [RIGHT]})
    rows = [("q1", 1.0, None), *(("q2", *one) for one in judged)]
    judgments = pd.DataFrame(rows, columns=["query_id", "value", "state"]).astype({"state": "str"})
    judgments = judgments.assign(run_id="a", criterion="faithfulness", item="")
    ledger, mean = states(replace(results, judgments=judgments), golden, "faithfulness")
    assert ledger["q1"] == ["scored", 1.0, ""]
    assert ledger["q2"][0] == state and np.isnan(ledger["q2"][1])
    says(ledger["q2"][2], *named)
    n_expected = 1 if state == "not_applicable" else 2
    assert mean[["mean", "n", "n_expected"]].tolist() == [1.0, 1, n_expected]


LATE = [record("q1", [hit("c1", "d1", 1)]), record("q2", [], error="late")]
SILENT = [record("q1", [hit("c1", "d1", 1)]), record("q2", [])]
BROKEN = [one | {"error": "late", "hits_top_k": []} for one in SILENT]
CHECKED = [one | {"must_contain": ["yes"]} for one in GOLDEN]
ONE_TO_REFUSE = [*GOLDEN, REFUSE]
CITED = record("q2", [hit("c2", "d2", 1)], answer=answer("yes", paths=["docs/d2.md"]))
UNGROUNDED = RIGHT | {"answer": answer("yes") | {"grounded": False, "refused": False}}
REFUSED = [record("q1", [], answer=REFUSAL), CITED, record("no", [], answer=REFUSAL)]


@pytest.mark.filterwarnings("ignore:golden queries without a row", "ignore:ids of")
@pytest.mark.parametrize(
    ("golden", "records", "metric", "policies", "expected", "told"),
    [
        # the state is the cause, also where a value counts
        (THREE_QUERIES, LATE, "hit@1", {"missing": "zero"},
         ["scored 1", "scored 0", "scored 0"], ()),
        (THREE_QUERIES, LATE, "failed", {}, ["scored 0", "scored 1", "missing"], ()),
        (THREE_QUERIES, LATE, "latency_ms", {}, ["scored 1", "not_applicable", "missing"], ()),
        # what a run records of no query doesn't apply, and is missing elsewhere
        (CHECKED, SILENT, "answer_checks", {}, ["not_applicable"] * 2, ("q1", "run", "answer")),
        (CHECKED, [RIGHT, SILENT[1]], "answer_checks", {}, ["scored 1", "missing"],
         ("q2", "answer")),
        (CHECKED, BROKEN, "answer_checks", {}, ["system_error"] * 2, ("q1", "late")),
        # citations of a refusal are refused, unless refusing was right
        (ONE_TO_REFUSE, REFUSED, "citation_present", {}, ["refused", "scored 1", "not_applicable"],
         ("no", "refused")),
        (ONE_TO_REFUSE, REFUSED, "refusal_correct", {},
         ["not_applicable", "not_applicable", "scored 1"], ()),
        (GOLDEN, [RIGHT, CITED], "citation_fabricated", {}, ["not_applicable", "scored 0"],
         ("q1", "nothing cited")),
        (GOLDEN, [UNGROUNDED, CITED], "citation_coverage", {}, ["not_applicable", "scored 1"],
         ("q1", "not grounded")),
    ],
    ids=range(10),
)  # fmt: skip
def test_states_of_each_query(loaded, golden, records, metric, policies, expected, told):
    ledger, _ = states(*loaded(golden, {"a": records}), metric, **policies)
    found = [
        state if np.isnan(value) else f"{state} {value:g}" for state, value, _ in ledger.values()
    ]
    assert found == expected
    for query, *named in [told] if told else []:
        says(ledger[query][2], *named)

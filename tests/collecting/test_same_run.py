"""Two runs are the same but for their timing, or it is said in what they differ."""

import json
import random

import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.collecting.reproducible import same_run
from tests.messages import refused

TIMED = {"latency_retrieval_ms": 5.0, "attempts": 2}
USAGE = {"usage": {"prompt_tokens": 5, "latency_ms": 9}, "created_at": "2026-01-01T00:00:00Z"}


def records(**more):
    return [
        record(
            "q1", [hit("c1", "d1", 1), hit("c2", "d1", 2)], answer=answer("yes", paths=["a.md"])
        ),
        record("q2", [], **more),
    ]


@pytest.fixture
def runs(write_run):
    """Two runs: the second one's records and description as given."""

    def make(second, first=None, **described):
        a = write_run(
            "a", first or records(), config={"seed": 1, "k": 5}, created_at="2026-01-01T00:00:00Z"
        )
        return a, write_run(
            "b",
            second,
            **({"config": {"seed": 1, "k": 5}, "created_at": "2026-01-02T00:00:00Z"} | described),
        )

    return make


def test_times_and_attempts_are_no_difference(runs):
    timed = [json.loads(json.dumps(one)) | TIMED | {"elapsed_ms": 99} for one in records()]
    timed[0]["answer"] |= USAGE
    first = records()
    first[0]["answer"] |= {"usage": {"prompt_tokens": 5, "latency_ms": 1}}
    assert same_run(*runs(timed, first)).empty


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda one: one["hits_top_k"][1].update(chunk_id="c9"),
            ("hits", "q1", "2", "chunk_id", "c2", "c9"),
        ),
        (  # ids that read as one number
            lambda one: one["hits_top_k"][0].update(chunk_id="01"),
            ("hits", "q1", "1", "chunk_id", "1", "01"),
        ),
        (lambda one: one["hits_top_k"].pop(), ("hits", "q1", "2", "(row)", "there", None)),
        (
            lambda one: one["answer"].update(answer="no"),
            ("responses", "q1", "", "answer", "yes", "no"),
        ),
        (
            lambda one: one["answer"]["citations"][0]["citation"].update(end=9),
            ("citations", "q1", "1", "end", "4", "10"),
        ),
        (lambda one: one.update(error="late"), ("responses", "q1", "", "error", None, "late")),
    ],
)
def test_what_differs_is_named(runs, change, expected):
    first, other = records(), records()
    for one in (first, other):
        one[0]["hits_top_k"][0]["chunk_id"] = "1"
    change(other[0])
    same = same_run(*runs(other, first))
    rows = same.astype(object).where(same.notna(), None)
    assert [tuple(row) for row in rows.itertuples(index=False)] == [expected]


def test_a_query_of_one_run_only_is_one_difference(runs):
    same = same_run(*runs([*records(), record("q3", [])]))
    assert same.fillna("").values.tolist() == [["responses", "q3", "", "(row)", "", "there"]]


def test_another_config_differs_and_another_machine_does_not(runs):
    same = same_run(
        *runs(
            records(),
            config={"seed": 2, "k": 5},
            environment={"python": "3.0"},
            collector={"workers": 9},
            commit="abc",
        )
    )
    assert same[["part", "column", "a", "b"]].values.tolist() == [["config", "seed", "1", "2"]]


def test_numbers_may_differ_by_the_tolerance(runs):
    other = records()
    other[0]["hits_top_k"][0]["retrieval"]["fusion_score"] = 1.0000001
    a, b = runs(other)
    assert len(same_run(a, b)) == 1
    assert same_run(a, b, tolerance=1e-6).empty


def test_more_than_one_run_is_refused(runs):
    both = rs.load_results(list(runs(records())))
    with refused(2, field="a"):
        same_run(both, both)
    assert same_run(both.select("a"), both.select("b")).empty


def test_two_collected_runs_of_one_seed_are_the_same_and_of_two_seeds_are_not(
    write_golden, tmp_path
):
    rows = [{"id": f"q{n}", "query": f"q {n}", "expected_doc_ids": ["d"]} for n in range(5)]
    golden = rs.load_golden(write_golden(rows))

    def system(query, seed):
        return [{"chunk_id": "c", "score": random.Random(f"{query}{seed}").random()}]

    for name, seed, workers in (("a", 1, 1), ("b", 1, 3), ("c", 2, 1)):
        rs.collect(system, golden, tmp_path / name, seed=seed, workers=workers, progress=False)
    assert same_run(tmp_path / "a", tmp_path / "b").empty
    other = same_run(tmp_path / "a", tmp_path / "c")
    assert set(other["column"]) == {"seed", "score"} and len(other) == 6

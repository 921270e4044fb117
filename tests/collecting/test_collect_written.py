"""What a run leaves.

Replies of any shape load back, the snapshot says how it was made, ids sort by time.
"""

import json
import random
import re
import sqlite3
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from conftest import EXAMPLES, answer, hit, questions, record

import ragscore as rs
from ragscore.collecting import journal
from ragscore.collecting.replies import json_scalar
from ragscore.collecting.reproducible import same_run
from ragscore.io.values import plain
from tests.messages import refused, says

NAMES = [
    "hits", "hits_top_k", "answer", "citations", "error", "mode", "latency", "latency_llm_ms",
    "scope", "config", "usage", "refused", "grounded", "query_id", "query",
    "elapsed_ms", "prompt_tokens", "attempts", "request", "own", "own.dotted", "json", "x_own",
    "hops", "rank", "chunk_id", "doc_id", "path", "text", "snippet", "heading",
    "heading_path", "score", "score_lexical", "retrieval", "fusion_score", "metadata", "citation",
    "kind", "start", "end", "span_unit", "stale", "source_key", "marker",
    "reported", "refusal_reason", "cost_usd", "chunker_version", "run_id",
]  # fmt: skip


GOLDEN = questions(20)


def any_value(draw, depth=0):
    """Anything that JSON or Python may hold where a reply is expected."""
    kind = draw.randrange(12 if depth < 4 else 8)
    if kind < 8:
        return [
            None,
            draw.random() < 0.5,
            draw.randrange(-3, 10),
            10**20,
            draw.random(),
            float("nan"),
            "text",
            "\ud800 half a pair",
        ][kind]
    if kind < 10:
        return [any_value(draw, depth + 1) for _ in range(draw.randrange(3))]
    return {draw.choice(NAMES): any_value(draw, depth + 1) for _ in range(draw.randrange(5))}


def any_reply(draw):
    """A reply that is sound in most places, so that its odd places are reached."""
    reply = {
        "hits": [hit(f"c{n}", "d1", n) for n in range(1, draw.randrange(4) + 1)],
        "answer": answer("yes", paths=["a.md"]),
    }
    for _ in range(draw.randrange(4)):
        place = draw.choice(
            [reply, reply["answer"], *(reply["hits"] if isinstance(reply["hits"], list) else [])]
        )
        if isinstance(place, dict):
            place[draw.choice(NAMES)] = any_value(draw)
    return reply if draw.random() < 0.9 else any_value(draw)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(EXAMPLES // 8))
def test_replies_of_any_shape_end_as_a_run_that_loads(tmp_path, seed):
    draw = random.Random(seed)
    replies = {query: any_reply(draw) for query in GOLDEN.queries["query"]}
    results = rs.collect(lambda query: replies[query], GOLDEN, tmp_path / "run", progress=False)
    asked = ["query_id", "query"]
    assert results.responses[asked].values.tolist() == GOLDEN.queries[asked].values.tolist()
    n_failed = int(results.responses["error"].notna().sum())
    assert 0 < n_failed < 20 and results.runs["n_failed"].iloc[0] == n_failed
    results.save(tmp_path / "again", format="per_query")
    for name in ("per_query.jsonl", "run.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_a_record_as_kebab_writes_it_is_kept_whole(tmp_path):
    usage = {"prompt_tokens": 3, "latency_ms": 8}
    given = {
        "hits_top_k": [hit("c1", "d1", 1), hit("c2", "d2", 2)],
        "answer": answer("yes", paths=["a.md", "b.md"], usage=usage),
        "mode": "lexical",
    }
    results = rs.collect(lambda query: given, GOLDEN, tmp_path / "run", limit=1, progress=False)
    written = json.loads((tmp_path / "run" / "per_query.jsonl").read_text())
    without_null = json.loads(
        json.dumps(given["hits_top_k"]),
        object_hook=lambda one: {key: value for key, value in one.items() if value is not None},
    )
    # the span that a citation tells stands beside it, too
    assert [before.items() <= one.items() for before, one in
            zip(without_null, written["hits_top_k"], strict=True)] == [True, True]  # fmt: skip
    assert written["answer"]["usage"] == usage and len(written["answer"]["citations"]) == 2
    config = json.loads(results.runs["config"].iloc[0])
    assert (config["chunker_version"], config["index_version"]) == ("test@1", "idx@1")


def test_values_of_numpy_and_pandas_become_json():
    values = {
        "a": np.int64(3), "b": np.float32(0.5), "c": np.array([1, 2]), 4: pd.NA,
        "e": pd.Timestamp("2026-01-02", tz="UTC"), "f": (1.0, float("inf")), "g": np.bool_(True),
    }  # fmt: skip
    assert json.loads(json.dumps(plain(values, json_scalar))) == {
        "a": 3, "b": 0.5, "c": [1, 2], "4": None,
        "e": "2026-01-02T00:00:00+00:00", "f": [1.0, None], "g": True,
    }  # fmt: skip


def test_a_frame_of_hits_is_a_reply(tmp_path):
    frame = pd.DataFrame({"chunk_id": ["c1", "c2"], "score": [0.5, 0.25], "path": ["a.md", None]})
    results = rs.collect(
        lambda query: {"hits": frame}, GOLDEN, tmp_path / "run", limit=1, progress=False
    )
    assert results.hits[["chunk_id", "score"]].values.tolist() == [
        ["c1", 0.5],
        ["c2", 0.25],
    ] and results.hits["path"].isna().tolist() == [False, True]


def test_ids_of_runs_sort_by_time():
    ids = [journal.new_run_id(), time.sleep(0.001) or journal.new_run_id()]
    assert ids[0] < ids[1] and re.fullmatch(r"run_\d{8}T\d{12}_[0-9a-f]{8}", ids[0])


def test_the_snapshot_says_how_when_and_on_what_a_run_was_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outside = rs.collect(lambda query: [], GOLDEN, "a", limit=1, progress=False)
    assert "commit" not in outside.runs
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    inside = rs.collect(
        lambda query: [], GOLDEN, "b", limit=3, seed=None, workers=2, suite="s", progress=False
    )
    assert inside.runs["commit"].tolist() == [commit]
    assert "x_uncommitted_changes" not in inside.runs
    run = json.loads(Path("b", "run.json").read_text())
    assert run["collector"] == {"limit": 3, "workers": 2, "timeout": 120.0, "retries": 2}
    assert run["environment"]["libraries"]["pandas"] == pd.__version__
    assert run["environment"]["hardware"]["cpus"] >= 1
    assert (run["golden_hash"], run["suite"]) == (GOLDEN.golden_hash, "s")
    age = datetime.now(UTC) - datetime.fromisoformat(run["created_at"])
    assert abs(age) < timedelta(minutes=10) and run["created_at"].endswith("Z")
    subprocess.run([*git, "add", "a"], check=True)
    assert journal.code_version() == {"commit": commit, "uncommitted_changes": True}


def test_a_single_worker_without_a_time_limit_is_the_calling_thread(tmp_path):
    connection = sqlite3.connect(":memory:")  # refuses other threads
    results = rs.collect(
        lambda query: [{"chunk_id": connection.execute("SELECT 'c1'").fetchone()[0]}],
        GOLDEN,
        tmp_path,
        timeout=None,
        limit=2,
        progress=False,
    )
    connection.close()
    assert results.hits["chunk_id"].tolist() == ["c1", "c1"]


def test_a_description_stands_in_the_file_and_the_frame_without_its_key(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_TOKEN", "sk-abcdefghijklmnop1234")
    note = "  a wider k; key sk-abcdefghijklmnop1234 "
    run = rs.collect(lambda query: [], GOLDEN, tmp_path / "a", limit=2, note=note, progress=False)
    said = run.runs["note"].iloc[0]
    assert said == "a wider k; key ***"
    assert json.loads((tmp_path / "a" / "run.json").read_text())["note"] == said


@pytest.mark.parametrize(("again", "kept"), [(None, "first"), ("second", "second")])
def test_a_resumed_run_keeps_its_description_unless_another_is_given(tmp_path, again, kept, capsys):
    replies = Mock(side_effect=[ValueError, ValueError, [], KeyboardInterrupt, []])

    def collect(note):
        return rs.collect(lambda query: replies(), GOLDEN, tmp_path, limit=4, note=note)

    with pytest.raises(KeyboardInterrupt):
        collect("first")
    assert collect(again).runs["note"].tolist() == [kept]
    says(capsys.readouterr().err.splitlines()[-1], "<lambda>:", "4/4", "failed=2")


# Two two_runs are the same but for their timing, or it is said in what they differ


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
def two_runs(write_run):
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


def test_times_and_attempts_are_no_difference(two_runs):
    timed = [json.loads(json.dumps(one)) | TIMED | {"elapsed_ms": 99} for one in records()]
    timed[0]["answer"] |= USAGE
    first = records()
    first[0]["answer"] |= {"usage": {"prompt_tokens": 5, "latency_ms": 1}}
    assert same_run(*two_runs(timed, first)).empty


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
            lambda one: one["answer"]["citations"][0].update(marker="[9]"),
            ("citations", "q1", "1", "marker", "[1]", "[9]"),
        ),
        (lambda one: one.update(error="late"), ("responses", "q1", "", "error", None, "late")),
    ],
)
def test_what_differs_is_named(two_runs, change, expected):
    first, other = records(), records()
    for one in (first, other):
        one[0]["hits_top_k"][0]["chunk_id"] = "1"
    change(other[0])
    same = same_run(*two_runs(other, first))
    rows = same.astype(object).where(same.notna(), None)
    assert [tuple(row) for row in rows.itertuples(index=False)] == [expected]


def test_a_query_of_one_run_only_is_one_difference(two_runs):
    same = same_run(*two_runs([*records(), record("q3", [])]))
    assert same.fillna("").values.tolist() == [["responses", "q3", "", "(row)", "", "there"]]


def test_another_config_differs_and_another_machine_does_not(two_runs):
    same = same_run(
        *two_runs(
            records(),
            config={"seed": 2, "k": 5},
            environment={"python": "3.0"},
            collector={"workers": 9},
            commit="abc",
        )
    )
    assert same[["part", "column", "a", "b"]].values.tolist() == [["config", "seed", "1", "2"]]


def test_numbers_may_differ_by_the_tolerance(two_runs):
    other = records()
    other[0]["hits_top_k"][0]["retrieval"]["fusion_score"] = 1.0000001
    a, b = two_runs(other)
    assert len(same_run(a, b)) == 1
    assert same_run(a, b, tolerance=1e-6).empty


def test_more_than_one_run_is_refused(two_runs):
    both = rs.load_results(list(two_runs(records())))
    with refused(2, field="a"):
        same_run(both, both)
    assert same_run(both.select("a"), both.select("b")).empty


def test_runs_of_one_seed_are_the_same_and_of_two_seeds_are_not(tmp_path):
    def system(query, seed):
        return [{"chunk_id": "c", "score": random.Random(f"{query}{seed}").random()}]

    hashes = [
        rs.collect(
            system, questions(3), tmp_path / name, seed=seed, workers=workers, progress=False
        ).runs["config_hash"][0]
        for name, seed, workers in (("a", 1, 1), ("b", 1, 3), ("c", 2, 1))
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    assert same_run(tmp_path / "a", tmp_path / "b").empty
    other = same_run(tmp_path / "a", tmp_path / "c")
    assert set(other["column"]) == {"seed", "score"} and len(other) == 4

"""What a user of the chatbot harness does with two run folders: score, compare, store, follow."""

import json
from dataclasses import replace

import pytest
from conftest import hit, record

import ragscore as rs
from tests.compared import provenance
from tests.messages import names, refused, warned

CONFIG = {
    "k": 5, "folder_mode": "on", "judge_model": "judge-1", "judge_prompt_version": "v1.0",
    "judge_temperature": 0.0, "eval_set_commit_hash": "abc",
}  # fmt: skip
GROUNDEDNESS, CORRECTNESS = "judge_groundedness", "judge_correctness"
# ranks of the right passage, groundedness, correctness, by query and run
BEFORE = {"t1": (1, 4.0, 4.0), "t2": (2, 4.0, 2.0), "t3": (None, 1.0, 3.0), "t4": (7, None, None)}
AFTER = {"t1": (1, 2.9, 4.0), "t2": (1, 3.0, 4.0), "t3": (3, 4.0, 3.5), "t4": (6, None, None)}


def write_chatbot_golden(folder):
    cases = [
        {
            "id": query_id, "question": f"about {query_id}?", "answerable": True,
            "expected_key_facts": [], "gold_supports": [{"rel_path": f"{query_id}.md",
            "heading_path": "# Overview"}], "required_support_groups": None,
            "recency_conflict_rule": None, "tags": [], "vaults": [], "folders": [],
            "category": "factual", "difficulty": "easy",
        }
        for query_id in BEFORE
    ]  # fmt: skip
    return _write_lines(folder / "eval_set.jsonl", cases)


def write_chatbot_run(folder, cases, **changed):
    """Write a run folder; `changed` are fields of its config, of which None is left out."""
    config = {name: value for name, value in (CONFIG | changed).items() if value is not None}
    rows = []
    for query_id, (right, groundedness, correctness) in cases.items():
        chunks = [
            {
                "chunk_id": f"{query_id}-{rank}", "rank": rank, "score_final": 1 / rank,
                "rel_path": f"{query_id}.md" if rank == right else "other.md",
                "heading_path": "# Overview", "text": "words",
            }
            for rank in range(1, 9)
        ]  # fmt: skip
        row = {
            "test_case_id": query_id, "question": f"about {query_id}?", "answer": "This.",
            "references": [], "retrieved_chunks": chunks, "config": config,
            "latency": {"total_ms": 1000.0}, "abstention": {"abstained": False},
        }  # fmt: skip
        if groundedness is not None:
            row |= {
                "groundedness": {"score": groundedness, "reasoning": "r"},
                "correctness": {"score": correctness, "reasoning": "r"},
            }
        rows.append(row)
    _write_lines(folder / "results.jsonl", rows)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _write_lines(file, records):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("chatbot")


@pytest.fixture(scope="module")
def golden(folder):
    return rs.load_golden(write_chatbot_golden(folder))


@pytest.fixture(scope="module")
def two_runs(folder):
    return rs.load_results(
        [write_chatbot_run(folder / A, BEFORE), write_chatbot_run(folder / B, AFTER)]
    )


@pytest.fixture(scope="module")
def ev(two_runs, golden):
    return rs.evaluate(two_runs, golden)


A, B = "20251219_100000", "20251219_200000"


def test_scores_have_the_points_of_judges_that_runs_carry_without_being_asked(two_runs, golden):
    scores = rs.score(two_runs, golden)
    points = scores[scores["run_id"] == A][GROUNDEDNESS]
    assert points.dropna().to_dict() == {"t1": 4.0, "t2": 4.0, "t3": 1.0}
    assert scores[scores["run_id"] == B][CORRECTNESS].dropna().to_dict() == {
        "t1": 4.0, "t2": 4.0, "t3": 3.5,
    }  # fmt: skip
    assert "faithfulness" not in scores  # nobody judged it


def test_a_comparison_has_the_points_and_the_flips_of_judges(ev):
    cmp = ev.compare(A, B)
    deltas = cmp.deltas.set_index("metric")
    assert deltas.loc[GROUNDEDNESS, ["baseline", "candidate", "n"]].tolist() == pytest.approx(
        [3.0, 3.3, 3]
    )
    flips = cmp.flips[cmp.flips["metric"].isin([GROUNDEDNESS, CORRECTNESS])]
    assert flips[["metric", "query_id", "kind"]].to_numpy().tolist() == [
        [GROUNDEDNESS, "t3", "improvement"],
        [GROUNDEDNESS, "t1", "regression"],
        [CORRECTNESS, "t2", "improvement"],
    ]
    assert GROUNDEDNESS in cmp.to_markdown()


def test_the_provenance_names_the_judges_by_default(ev):
    for parts in provenance(ev).values():
        assert "judge-1" in str(parts["judge_fingerprint"])


@pytest.fixture(scope="module")
def store(folder, ev):
    store = rs.RunStore(folder / "store")
    store.save(ev)
    return store


def test_a_store_keeps_the_points_of_judges(store, golden):
    assert store.scores(metrics=GROUNDEDNESS)[GROUNDEDNESS].dropna().tolist() == [
        4,
        4,
        1,
        2.9,
        3,
        4,
    ]
    means = store.summary().set_index(["run_id", "metric"])["mean"]
    assert means[B, CORRECTNESS] == pytest.approx(11.5 / 3)
    scores = store.scores(golden)
    assert scores[GROUNDEDNESS].dropna().tolist() == [4, 4, 1, 2.9, 3, 4]
    assert store.evaluate(golden).summary(GROUNDEDNESS)["n"].tolist() == [3, 3]


def evaluated(tmp_path, golden, changed, profile="chatbot", cases=(BEFORE, AFTER)):
    """Evaluate a run of the usual config and one whose config is changed."""
    runs = [
        write_chatbot_run(tmp_path / A, cases[0]),
        write_chatbot_run(tmp_path / B, cases[1], **changed),
    ]
    return rs.evaluate(rs.load_results(runs), golden, profile=profile)


UNJUDGED = {name: (rank, None, None) for name, (rank, *_) in BEFORE.items()}


@pytest.mark.parametrize(
    ("changed", "component", "cases"),
    [
        ({"judge_model": "judge-2"}, "judge_fingerprint", (BEFORE, AFTER)),
        ({"judge_prompt_version": "v2"}, "judge_fingerprint", (BEFORE, AFTER)),
        ({"judge_temperature": 0.5}, "judge_fingerprint", (BEFORE, AFTER)),
        ({"judge_temperature": 0.5}, "judge_fingerprint", (UNJUDGED, UNJUDGED)),
        ({"eval_set_commit_hash": "def"}, "golden", (UNJUDGED, UNJUDGED)),
    ],
)
def test_runs_of_other_judges_or_eval_sets_are_compared_only_if_told_to(
    tmp_path, golden, changed, component, cases
):
    (key, value) = next(iter(changed.items()))
    ev = evaluated(tmp_path, golden, changed, cases=cases)
    with refused(key, A, value, B, f"allow_different=['{component}']"):
        ev.compare(A, B)
    with pytest.warns(UserWarning) as told:
        cmp = ev.compare(A, B, allow_different=[component])
    assert any(names(str(one.message), key) for one in told)
    states = cmp.invariants.set_index("name")["state"]
    assert states[key] == "differs"


@pytest.mark.parametrize(
    ("key", "profile", "named", "unknown"),
    [
        ("judge_model", "chatbot", ["judge_correctness"], "judge_fingerprint"),
        ("judge_model", None, ["judge_correctness"], "judge_fingerprint"),
        ("judge_prompt_version", "chatbot", ["judge_correctness"], "judge_fingerprint"),
        ("judge_temperature", "chatbot", ["judge_correctness"], "judge_fingerprint"),
        ("eval_set_commit_hash", "chatbot", [B, "abc"], "eval_set_commit_hash"),
    ],
)
def test_what_one_run_does_not_state_is_a_warning(tmp_path, golden, key, profile, named, unknown):
    with warned(*named):
        cmp = evaluated(tmp_path, golden, {key: None}, profile).compare(A, B)
    assert cmp.invariants.set_index("name").loc[unknown, "state"] == "unknown"


def test_runs_that_state_neither_judge_nor_eval_set_are_compared_without_a_word(
    tmp_path, golden, recwarn
):
    nothing = dict.fromkeys(
        ("judge_model", "judge_prompt_version", "judge_temperature", "eval_set_commit_hash")
    )
    runs = [write_chatbot_run(tmp_path / name, UNJUDGED, **nothing) for name in (A, B)]
    ev = rs.evaluate(rs.load_results(runs), golden, profile="chatbot")
    recwarn.clear()
    ev.compare(A, B)
    assert [str(one.message) for one in recwarn] == []


def test_the_profile_compares_within_the_smaller_k(tmp_path, golden):
    cmp = evaluated(tmp_path, golden, {"k": 8}).compare(A, B)
    ranks = cmp.per_query.set_index("query_id")[["rank_baseline", "rank_candidate", "outcome"]]
    # the passage of t4 lies at rank 7 and 6: beyond the smaller k, 5
    assert ranks["outcome"].to_dict() == {
        "t1": "draw", "t2": "win", "t3": "win", "t4": "both_miss",
    }  # fmt: skip
    assert cmp._k == 5
    names = cmp.deltas["metric"].tolist()
    assert "hit@5:anchor" in names and "hit@8:anchor" not in names
    assert cmp._aggregates[B]["recall_at_k_avg"] == 0.75  # 1 with its own k, 8
    assert cmp._aggregates[A]["recall_at_k_avg"] == 0.5


def test_a_label_that_is_not_stored_is_scored_from_the_stored_hits(store, golden):
    # ranks: 1, 2, none, 7; and 1, 1, 3, 6
    means = [0.75, 1.0]
    assert store.evaluate(golden).summary("hit@7")["mean"].tolist() == means
    assert store.scores(golden, "hit@7").groupby("run_id")["hit@7"].mean().tolist() == means
    found = store.evaluate(golden, "hit@7").trend("hit@7").table
    assert found["mean"].tolist() == means and found["segment"].tolist() == [1, 1]
    with refused("hit@7", "store.evaluate(golden, ['hit@7'])", field="metric"):
        store.trend("hit@7")
    with refused(A, "hit@7", field="metrics"):
        store.scores(metrics="hit@7")


def test_a_leaderboard_of_points_by_different_judges_says_so(tmp_path, golden):
    runs = [
        write_chatbot_run(tmp_path / A, BEFORE),
        write_chatbot_run(tmp_path / B, AFTER, judge_model="judge-2"),
    ]
    ev = rs.evaluate(rs.load_results(runs), golden)
    with warned("judge_fingerprint", "judge-1", "judge-2"):
        ev.leaderboard(CORRECTNESS)
    ev.leaderboard("mrr")  # which no judge measured: no warning


def rows_of(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_run_from_elsewhere_has_its_config_and_what_was_hallucinated_in_every_row(
    write_run, write_golden, tmp_path
):
    records = [
        record(name, [hit("c1", "d1", 1)], answer={"answer": "so", "refused": name == "z"})
        for name in ("x", "y", "z")
    ]
    results = rs.load_results(write_run("r", records, config={"eval_k": 7, "folder_mode": "on"}))
    results = replace(results, runs=results.runs.assign(k=7))
    golden = rs.load_golden(
        write_golden(
            [
                {"id": "x", "query": "?", "expected_doc_ids": ["d1"]},
                {"id": "y", "query": "?", "answerable": False},
                {"id": "z", "query": "?", "answerable": False},
            ]
        )
    )
    with warned("responses"):
        results.save(tmp_path / "out", format="chatbot", golden=golden)
    rows = rows_of(tmp_path / "out" / "results.jsonl")
    assert [one["config"]["k"] for one in rows] == [7, 7, 7]
    assert [one["config"]["folder_mode"] for one in rows] == ["on"] * 3
    assert [one["abstention"] for one in rows] == [
        {"abstained": False, "hallucinated": False},
        {"abstained": False, "hallucinated": True},
        {"abstained": True, "hallucinated": False},
    ]
    with warned("responses"):
        results.save(tmp_path / "plain", format="chatbot")
    assert "hallucinated" not in rows_of(tmp_path / "plain" / "results.jsonl")[1]["abstention"]

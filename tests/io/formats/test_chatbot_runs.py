"""What a user of the chatbot harness does with two run folders: score, compare, store, follow."""

import json

import pytest
from conftest import hit, record
from plausible_runs import lines_of, put

import ragscore as rs
from tests.messages import names, refused, warned

CONFIG = {
    "k": 5, "folder_mode": "on", "judge_model": "judge-1", "judge_prompt_version": "v1.0",
    "judge_temperature": 0.0, "eval_set_commit_hash": "abc",
}  # fmt: skip
GROUNDEDNESS, CORRECTNESS = "judge_groundedness", "judge_correctness"
# ranks of the right passage, groundedness, correctness, by query and run
BEFORE = {"t1": (1, 4.0, 4.0), "t2": (2, 4.0, 2.0), "t3": (None, 1.0, 3.0), "t4": (7, None, None)}
AFTER = {"t1": (1, 2.9, 4.0), "t2": (1, 3.0, 4.0), "t3": (3, 4.0, 3.5), "t4": (6, None, None)}


GOLDEN = [
    {
        "id": query_id, "question": f"about {query_id}?", "answerable": True,
        "expected_key_facts": [], "gold_supports": [{"rel_path": f"{query_id}.md",
        "heading_path": "# Overview"}], "required_support_groups": None,
        "recency_conflict_rule": None, "tags": [], "vaults": [], "folders": [],
        "category": "factual", "difficulty": "easy",
    }
    for query_id in BEFORE
]  # fmt: skip
A, B = "20251219_100000", "20251219_200000"


def row_of(query_id, right, points, config):
    chunks = [
        {
            "chunk_id": f"{query_id}-{rank}", "rank": rank, "score_final": 1 / rank,
            "rel_path": f"{query_id}.md" if rank == right else "other.md",
            "heading_path": "# Overview", "text": "words",
        }
        for rank in range(1, 9)
    ]  # fmt: skip
    judges = zip(("groundedness", "correctness"), points, strict=True)
    return {
        "test_case_id": query_id, "question": f"about {query_id}?", "answer": "This.",
        "references": [], "retrieved_chunks": chunks, "config": config,
        "latency": {"total_ms": 1000.0}, "abstention": {"abstained": False},
    } | {name: {"score": one, "reasoning": "r"} for name, one in judges if one}  # fmt: skip


def write_chatbot_run(folder, cases, **changed):
    """Write a run folder; `changed` are fields of its config, of which None is left out."""
    config = {name: value for name, value in (CONFIG | changed).items() if value is not None}
    rows = [row_of(name, right, points, config) for name, (right, *points) in cases.items()]
    put(folder, rows, "results.jsonl")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("chatbot")


@pytest.fixture(scope="module")
def golden(folder):
    return rs.load_golden(put(folder, GOLDEN, "eval_set.jsonl"))


@pytest.fixture(scope="module")
def ev(folder, golden):
    runs = [write_chatbot_run(folder / name, of) for name, of in ((A, BEFORE), (B, AFTER))]
    return rs.evaluate(runs, golden)


def test_scores_have_the_points_of_judges_that_runs_carry_without_being_asked(ev):
    points = ev.scores[[GROUNDEDNESS, CORRECTNESS]].dropna()
    assert points.values.tolist() == [[4, 4], [4, 2], [1, 3], [2.9, 4], [3, 4], [4, 3.5]]
    assert "faithfulness" not in ev.scores  # nobody judged it


def test_a_comparison_has_the_points_and_the_flips_of_judges(ev):
    cmp = ev.compare(A, B)
    deltas = cmp.deltas.set_index("metric").loc[GROUNDEDNESS, ["baseline", "candidate", "n"]]
    assert deltas.tolist() == pytest.approx([3.0, 3.3, 3])
    flips = cmp.flips[cmp.flips["metric"].isin([GROUNDEDNESS, CORRECTNESS])]
    assert flips[["metric", "query_id", "kind"]].to_numpy().tolist() == [
        [GROUNDEDNESS, "t3", "improvement"],
        [GROUNDEDNESS, "t1", "regression"],
        [CORRECTNESS, "t2", "improvement"],
    ]
    assert GROUNDEDNESS in cmp.to_markdown()


@pytest.fixture(scope="module")
def store(folder, ev):
    store = rs.RunStore(folder / "store")
    store.save(ev)
    return store


def test_a_store_keeps_the_points_of_judges(store, golden):
    for scores in (store.scores(metrics=GROUNDEDNESS), store.scores(golden)):
        assert scores[GROUNDEDNESS].dropna().tolist() == [4, 4, 1, 2.9, 3, 4]
    means = store.summary().set_index(["run_id", "metric"])["mean"]
    assert means[B, CORRECTNESS] == pytest.approx(11.5 / 3)
    assert store.evaluate(golden).summary(GROUNDEDNESS)["n"].tolist() == [3, 3]


def evaluated(tmp_path, golden, changed, profile="chatbot", cases=(BEFORE, AFTER), **both):
    """Evaluate a run of the usual config and one whose config is changed."""
    runs = [
        write_chatbot_run(tmp_path / A, cases[0], **both),
        write_chatbot_run(tmp_path / B, cases[1], **(both | changed)),
    ]
    return rs.evaluate(runs, golden, profile=profile)


UNJUDGED = {name: (rank, None, None) for name, (rank, *_) in BEFORE.items()}


@pytest.mark.parametrize(
    ("changed", "component", "cases"),
    [
        ({"judge_model": "judge-2"}, "judge_fingerprint", (BEFORE, AFTER)),
        ({"judge_temperature": 0.5}, "judge_fingerprint", (UNJUDGED, UNJUDGED)),
        ({"eval_set_commit_hash": "def"}, "golden", (UNJUDGED, UNJUDGED)),
    ],
)
def test_runs_of_other_judges_or_eval_sets_are_compared_only_if_told_to(
    tmp_path, golden, changed, component, cases
):
    ((key, value),) = changed.items()
    ev = evaluated(tmp_path, golden, changed, cases=cases)
    with refused(key, A, value, B, f"allow_different=['{component}']"):
        ev.compare(A, B)
    with pytest.warns(UserWarning) as told:
        cmp = ev.compare(A, B, allow_different=[component])
    assert any(names(str(one.message), key) for one in told)
    assert cmp.invariants.set_index("name").loc[key, "state"] == "differs"


@pytest.mark.parametrize("key", ["judge_model", "judge_prompt_version", "judge_temperature"])
def test_a_judge_that_one_run_does_not_state_is_a_warning(tmp_path, golden, key):
    with warned("judge_correctness"), warned(B, "abc"):
        left_out = {key: None, "eval_set_commit_hash": None}
        cmp = evaluated(tmp_path, golden, left_out).compare(A, B)
    states = cmp.invariants.set_index("name")["state"]
    assert states[["judge_fingerprint", "eval_set_commit_hash"]].tolist() == ["unknown"] * 2


def test_runs_that_state_neither_judge_nor_eval_set_are_compared_without_a_word(
    tmp_path, golden, recwarn
):
    stated = ("judge_model", "judge_prompt_version", "judge_temperature", "eval_set_commit_hash")
    ev = evaluated(tmp_path, golden, {}, cases=[UNJUDGED] * 2, **dict.fromkeys(stated))
    recwarn.clear()
    ev.compare(A, B)
    assert [str(one.message) for one in recwarn] == []


def test_the_profile_compares_within_the_smaller_k(tmp_path, golden):
    cmp = evaluated(tmp_path, golden, {"k": 8}).compare(A, B)
    # the passage of t4 lies at rank 7 and 6: beyond the smaller k, 5
    assert cmp.per_query.set_index("query_id")["outcome"].to_dict() == {
        "t1": "draw", "t2": "win", "t3": "win", "t4": "both_miss",
    }  # fmt: skip
    assert cmp._k == 5
    assert {"hit@5:anchor", "hit@8:anchor"} & {*cmp.deltas["metric"]} == {"hit@5:anchor"}
    # .75 would be 1 with its own k, 8
    assert [cmp._aggregates[name]["recall_at_k_avg"] for name in (A, B)] == [0.5, 0.75]


def test_a_label_that_is_not_stored_is_scored_from_the_stored_hits(store, golden):
    # ranks: 1, 2, none, 7; and 1, 1, 3, 6
    means = [0.75, 1.0]
    assert store.scores(golden, "hit@7").groupby("run_id")["hit@7"].mean().tolist() == means
    found = store.evaluate(golden, "hit@7").trend("hit@7").table
    assert found["mean"].tolist() == means and found["segment"].tolist() == [1, 1]
    with refused("hit@7", "store.evaluate(golden, ['hit@7'])", field="metric"):
        store.trend("hit@7")


def test_a_leaderboard_of_points_by_different_judges_says_so(tmp_path, golden):
    ev = evaluated(tmp_path, golden, {"judge_model": "judge-2"}, profile=None)
    with warned("judge_fingerprint", "judge-1", "judge-2"):
        ev.leaderboard(CORRECTNESS)
    ev.leaderboard("mrr")  # which no judge measured: no warning


@pytest.mark.parametrize("is_judged", [True, False])
def test_a_run_from_elsewhere_has_its_config_and_what_was_hallucinated_in_every_row(
    loaded, tmp_path, is_judged
):
    records = [
        record(name, [hit("c1", "d1", 1)], answer={"answer": "so", "refused": name == "z"})
        for name in ("x", "y", "z")
    ]
    golden = [{"id": "x", "query": "?", "expected_doc_ids": ["d1"]}]
    golden += [{"id": name, "query": "?", "answerable": False} for name in ("y", "z")]
    config = {"eval_k": 7, "folder_mode": "on"}
    results, golden = loaded(golden, {"r": records}, config=config, k=7)
    with warned("responses"):
        more = {"golden": golden} if is_judged else {}
        folder = results.save(tmp_path / "out", format="chatbot", **more)
    rows = lines_of(folder / "results.jsonl")
    assert [one["config"] for one in rows] == [config | {"k": 7}] * 3
    said = [(one["abstention"]["abstained"], one["abstention"].get("hallucinated")) for one in rows]
    told = (False, True, False) if is_judged else (None, None, None)
    assert said == list(zip((False, False, True), told, strict=True))

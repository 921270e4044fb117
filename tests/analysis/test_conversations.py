"""Conversations: turns depend on each other, first and later turns differ, and some recover."""

import gzip
import json
import statistics
from pathlib import Path

import pytest

import ragscore as rs
from ragscore.stats import mean_interval
from tests.messages import refused, says, warned

# c1: right, wrong, right; c2: wrong, wrong; c3: right
VALUES = {"c1_1": 1, "c1_2": 0, "c1_3": 1, "c2_1": 0, "c2_2": 0, "c3_1": 1}
RUN = {one: ["d"] if right else ["x"] for one, right in VALUES.items()}
PATTERN = "(c[0-9])_([0-9]+)"
SHARED = Path(__file__).parents[3] / "shared" / "data"


def with_turns(pattern, source):
    golden = rs.load_golden(source)
    golden.queries[["conversation", "turn"]] = golden.queries["query_id"].str.extract(pattern)
    return golden


def test_conversations_have_means_first_failures_and_whether_they_recovered():
    ev = rs.evaluate(RUN, with_turns(PATTERN, {one: ["d"] for one in VALUES}))
    found = rs.extras.conversations(ev, "hit@1")
    low, high = mean_interval([2 / 3, 0, 1], "bounded")
    # 3 of 6 turns; (2/3 + 0 + 1) / 3; first turns 2 of 3, later ones 1 of 3
    expected = {
        "n": 6, "n_conversations": 3, "mean": 0.5, "mean_of_conversations": 5 / 9,
        "low_of_conversations": low[0], "high_of_conversations": high[0],
        "first": 2 / 3, "n_first": 3, "later": 1 / 3, "n_later": 3,
    }  # fmt: skip
    assert found.table.iloc[0][list(expected)].to_dict() == pytest.approx(expected)
    turns = found.turns[["turn", "n", "mean"]].to_numpy().tolist()
    assert turns == [[1, 3, pytest.approx(2 / 3)], [2, 2, 0], [3, 1, 1]]
    columns = ["conversation", "n_turns", "first_failure", "recovered"]
    assert found.per_conversation[columns].astype(object).fillna("").to_numpy().tolist() == [
        ["c1", 3, 2, True], ["c2", 2, 1, False], ["c3", 1, "", ""],
    ]  # fmt: skip


def test_means_over_conversations_leave_out_queries_of_none_and_say_so():
    golden = rs.load_golden({"a": ["d"], "b": ["d"]})
    ev = rs.evaluate({"a": ["d"], "b": ["x"]}, golden)
    with refused(field="golden.queries.conversation"):
        rs.extras.conversations(ev)
    golden.queries[["conversation", "turn"]] = [["c", "2"], [None, None]]
    with warned("1 query", 2):
        found = rs.extras.conversations(rs.evaluate({"a": ["d"], "b": ["x"]}, golden), "hit@1")
    assert found.table["mean_of_conversations"].tolist() == [1]
    assert found.turns[["turn", "n", "mean"]].to_numpy().tolist() == [[2, 1, 1]]


def test_turns_are_sorted_as_numbers_wherever_they_slice():
    ids = [f"c{c}_{turn}" for c in (1, 2) for turn in range(1, 13)]
    runs = {"a": {one: ["d"] for one in ids}, "b": {one: ["x", "d"] for one in ids}}
    ev = rs.evaluate(runs, with_turns(PATTERN, {one: ["d"] for one in ids}), "hit@1")
    in_order = [str(turn) for turn in range(1, 13)]
    for table in (ev.summary(by="turn"), ev.slices("turn")):
        assert table["turn"].tolist() == in_order * 2
    assert ev.compare("a", "b").slices("turn", "hit@1").table["turn"].tolist() == in_order
    assert rs.extras.conversations(ev, "hit@1").turns["turn"].tolist() == [*range(1, 13)] * 2


def test_conversations_are_the_clusters_of_everything_by_default():
    # a conversation is all right in one run or the other: 8 conversations of 5 turns
    ids = [f"c{c}_{turn}" for c in range(1, 9) for turn in range(1, 6)]
    right = {"a": "12", "b": "234567"}
    runs = {run: {one: ["d" if one[1] in of else "x"] for one in ids} for run, of in right.items()}
    ev = rs.evaluate(runs, with_turns(PATTERN, {one: ["d"] for one in ids}), "hit@1")
    for table in (
        lambda **how: ev.summary("hit@1", **how),
        lambda **how: ev.compare("a", "b", **how).deltas,
        lambda **how: ev.leaderboard("hit@1", **how).table,
    ):
        default, talks, alone = (
            table(**how)[["low", "high"]].to_numpy("float64")
            for how in ({}, {"cluster": "conversation"}, {"cluster": None})
        )
        assert default == pytest.approx(talks) and default != pytest.approx(alone)
    says(ev.compare("a", "b").notes(), 8, "conversations", 40)
    # b is better on 25 turns and worse on 5, which are 5 conversations and 1
    assert ev.compare("a", "b", cluster=None).overall == "better"
    assert ev.compare("a", "b").overall == "can't tell"


CAST = SHARED / "trec-cast-2021"
RUNS = {"org_convdr.run": (0.3502, 0.3478, 0.5617, 0.3213),
        "org_manual_bm25.run": (0.3881, 0.3901, 0.3243, 0.3969)}  # fmt: skip
BY_TURN = [0.5617, 0.4004, 0.3971, 0.3384, 0.1735, 0.3514, 0.3457, 0.2770, 0.2029, 0.3118, 0.4161]


@pytest.mark.skipif(not CAST.exists(), reason="needs a track's files beside the checkout")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_turns_of_a_track_have_the_values_of_trec_eval():
    golden = with_turns("([0-9]+)_(.+)", CAST / "trec-cast-qrels-docs.2021.qrel.gz")
    results = rs.load_results([CAST / f"{run}.gz" for run in RUNS])
    ev = rs.evaluate(results, golden, ["ndcg_linear@5"], profile="trec", primary="ndcg_linear@5")
    found = rs.extras.conversations(ev)
    table = found.table.set_index("run_id")
    for run, known in RUNS.items():
        values = table.loc[run, ["mean", "mean_of_conversations", "first", "later"]]
        assert values.tolist() == pytest.approx(known, abs=5e-5)
    turns = found.turns[found.turns["run_id"] == "org_convdr.run"]
    assert turns["mean"].tolist() == pytest.approx(BY_TURN, abs=5e-5)
    assert turns["n"].tolist() == [19, 19, 19, 18, 18, 18, 16, 16, 8, 5, 2]


RATED = SHARED / "mtrag-human"
RATINGS = RATED / "reference_subset_with_human_evaluations.json.gz"
TASK = "(.+)<::>([0-9]+)"
# lines of judgements, judged turns, conversations, first turns
JUDGED = {"clapnq": (578, 208, 29, 28), "fiqa": (535, 180, 27, 24),
          "cloud": (494, 188, 26, 25), "govt": (521, 201, 28, 25)}  # fmt: skip


@pytest.mark.skipif(not RATED.exists(), reason="needs a benchmark's judgements beside the checkout")
@pytest.mark.parametrize("part", JUDGED)
def test_ids_of_judgements_tell_conversation_and_turn(part):
    golden = with_turns(TASK, RATED / "qrels" / f"{part}.tsv")
    talks, turns = golden.queries["conversation"], golden.queries["turn"]
    found = len(golden.targets), len(talks), talks.nunique(), turns.eq("1").sum()
    assert found == JUDGED[part] and golden.targets["grade"].eq(1).all()


# metric of the file -> what its column is called here, where ours has another meaning
RATED_AS = {"faithfulness": "rated", "RougeL": "overlap", "completeness": "complete",
            "rl_f": "rl_f"}  # fmt: skip


@pytest.fixture(scope="module")
def rated():
    """Return answers of three models with the mean of each answer's raters, as an evaluation."""
    if not RATINGS.exists():
        pytest.skip("needs the ratings of a benchmark beside the checkout")
    with gzip.open(RATINGS, "rt", encoding="utf-8") as opened:
        content = json.load(opened)
    labels = [
        {"id": one["task_id"], "query": one["input"][-1]["text"],
         "reference_answer": one["targets"][0]["text"]}
        for one in content["tasks"]
    ]  # fmt: skip
    answers = [
        {"query_id": one["task_id"], "run_id": one["model_id"], "answer": one["model_response"]}
        | {
            f"score.{name}": statistics.mean(float(rating["value"]) for rating in ratings.values())
            for name, ratings in one["annotations"].items() if name in RATED_AS
        }
        for one in content["evaluations"]
    ]  # fmt: skip
    results = rs.load_results(answers)
    stored = results.reported.pivot_table("value", ["run_id", "query_id"], "metric", observed=True)
    stored = stored.rename(columns=RATED_AS).reset_index()
    with warned("reference", "is the reference answer"):  # one of the models is people
        ev = rs.evaluate(results, with_turns(TASK, labels))
    return ev.with_columns(stored, better="higher")


@pytest.mark.parametrize(
    ("column", "known"),
    [
        # means over all turns, first and later ones, of the raters' means
        ("rated", {"reference": (3.6080, 3.6500, 3.6019), "gpt-4o": (3.2390, 3.5500, 3.1942),
                   "llama-3.1-405b-instruct": (3.2432, 3.5333, 3.2014)}),
        ("complete", {"gpt-4o": (3.5021, 3.7833, 3.4616)}),
        ("rl_f", {"gpt-4o": (0.7560, 0.8473, 0.7428)}),
        ("overlap", {"llama-3.1-405b-instruct": (0.3234, 0.3392, 0.3211)}),
    ],
    ids=["rated", "complete", "rl_f", "overlap"],
)  # fmt: skip
def test_ratings_of_first_and_later_turns_are_the_known_ones(rated, column, known):
    found = rs.extras.conversations(rated, column)
    table = found.table.set_index("run_id")
    for run_id, means in known.items():
        row = table.loc[run_id]
        assert row[["mean", "first", "later"]].tolist() == pytest.approx(means, abs=5e-5)
        assert row[["n", "n_conversations", "n_first", "n_later"]].tolist() == [159, 20, 20, 139]
        turns = found.turns.loc[found.turns["run_id"] == run_id, "n"].tolist()
        assert turns == [20, 20, 20, 20, 20, 18, 15, 14, 8, 2, 1, 1]


def test_a_difference_of_two_models_is_no_finding_once_conversations_are_independent(rated):
    models = "llama-3.1-405b-instruct", "gpt-4o"
    alone, talks = (
        rated.compare(*models, metrics=["overlap", "rated"], cluster=cluster).deltas
        for cluster in (None, "group")
    )
    assert alone["delta"].tolist() == talks["delta"].tolist()
    is_overlap = alone["metric"].eq("overlap")
    words = [rows.loc[is_overlap, "verdict"].item() for rows in (alone, talks)]
    assert words[0] != "can't tell" == words[1]
    assert (talks["high"] - talks["low"] > 1.3 * (alone["high"] - alone["low"])).all()


UNANSWERED = SHARED / "mtragun-scored-answers/submit_qwen2_5_32b_taskB.jsonl.gz"
MEANS = {"RL_F": 0.7003, "RL_F_idk": 0.6828, "idk_eval": 0.1667}


@pytest.mark.filterwarnings("ignore:records")
@pytest.mark.skipif(not UNANSWERED.exists(), reason="needs scored answers beside the checkout")
def test_stored_scores_of_a_file_have_the_known_means_by_turn():
    columns = {"query_id": "task_id", "doc_id": "contexts", "answer": "predictions"}
    columns |= {f"score.{name}": f"metrics.{name}" for name in MEANS}
    results = rs.load_results(UNANSWERED, columns=columns, run_id="qwen")
    assert (len(results.runs), len(results.responses)) == (1, 507)
    assert results.responses["conversation"].is_unique, "one turn of each"
    values = results.reported.pivot(index="query_id", columns="metric", values="value")
    labels = [{"id": one, "query": one, "answerable": True} for one in values.index]
    ev = rs.evaluate(results, with_turns(TASK, labels)).with_columns(values.add_prefix("own_"))
    found = ev.summary([f"own_{name}" for name in MEANS])["mean"].tolist()
    assert found == pytest.approx([*MEANS.values()], abs=5e-5)
    turns = ev.summary("own_RL_F", by="turn")["n"].tolist()
    assert turns == [42, 96, 84, 58, 61, 70, 47, 27, 18, 3, 1]

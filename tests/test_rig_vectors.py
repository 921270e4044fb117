"""SEEDS F.5.1-9 and 12: graded retrieval as rig-retrieval-evals counts it.

Formulas, reports, diffs, its gate and bootstrap.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from ragscore.analysis.extras.harness_files import event_log
from ragscore.analysis.extras.stored_scores import score_diff
from ragscore.scoring.readings import HARNESSES, READINGS
from ragscore.scoring.summary import summarize
from ragscore.stats.bootstrap import _splitmix64
from tests.messages import refused

# Its ndcg is ours, and its labels are graded.
pytestmark = pytest.mark.filterwarnings("ignore:ndcg uses the gain:UserWarning")

# its code, unlike its pages, counts an empty gold set as hit at once
ALL_MET = dict(READINGS["rig"].empty) | {"hit": 1.0, "mrr": 1.0}


@pytest.fixture
def scored(tmp_path):
    """Score rankings {query: documents} by graded judgements {query: {document: grade}}."""

    def score(rankings, gold, labels, run_id="run", **policies):
        run_file = tmp_path / f"{run_id}.txt"
        run_file.write_text("".join(
            f"{query_id} Q0 {doc} {rank} {1 / rank!r} {run_id}\n"
            for query_id, docs in rankings.items() for rank, doc in enumerate(docs, 1)
        ))  # fmt: skip
        golden = rs.load_golden(put(tmp_path, judged(gold), "qrels.jsonl"))
        return rs.score(rs.load_results(run_file), golden, labels, **policies)

    return score


def judged(gold):
    """Lines of a file of judgements."""
    return [{"query_id": name, "query": "?", "relevant_docs": docs} for name, docs in gold.items()]


@pytest.mark.filterwarnings("ignore:ids of .* do not join:UserWarning")
@pytest.mark.parametrize(
    ("ranking", "gold", "expected"),
    [
        # recall is the share of relevant documents found, precision divides by k however long the
        # list is
        (
            "x d1 y d2 d3",
            {"d1": 1, "d2": 1, "d3": 1},
            {"recall@1": 0, "recall@3": 1 / 3, "recall@10": 1},
        ),
        ("d1 x d2 y", {"d1": 1, "d2": 1}, {"precision@4": 0.5, "map@4": (1 + 2 / 3) / 2}),
        ("d1 x", {"d1": 1}, {"mrr": 1, "hit@3": 1}),
        ("a b c", {"d1": 1}, {"mrr": 0, "hit@3": 0}),
        ("a d1 c", {"d1": 1}, {"hit@3": 1, "mrr": 0.5}),
        ("d1 d2 d3", {"d1": 3, "d2": 2, "d3": 1}, {"ndcg@3": 1, "ndcg_linear@3": 1}),
        # (2^1-1)/log2(2) + (2^3-1)/log2(3) over 7 + 1/log2(3)
        ("d2 d1", {"d1": 3, "d2": 1}, {"ndcg@2": 0.709810, "ndcg_linear@2": 0.796708}),
        ("d3 x d1", {"d1": 3, "d2": 2, "d3": 1}, {"ndcg@3": 0.479091, "ndcg_linear@3": 0.525005}),
    ],
)
def test_formulas_on_one_list(scored, ranking, gold, expected):
    found = scored({"q": ranking.split()}, {"q": gold}, list(expected))
    assert found.loc["q", list(expected)].tolist() == pytest.approx(
        list(expected.values()), abs=5e-7
    )


@pytest.mark.filterwarnings("ignore:.*carry no expectation:UserWarning")
@pytest.mark.parametrize("ranking", [["d1"], []])
def test_an_empty_gold_set_is_vacuously_met_except_for_precision(scored, ranking):
    labels = ["recall@5", "hit@5", "mrr", "map@5", "ndcg@5", "precision@5"]
    found = scored(
        {"other": ["d1"], "q": ranking},
        {"q": {}, "other": {"d1": 1}},
        labels,
        profile=replace(READINGS["rig"], empty=ALL_MET),
        missing="exclude" if ranking else "zero",
    )
    if ranking:
        assert found.loc["q", labels].tolist() == [1, 1, 1, 1, 1, 0]
    else:  # a run file has no place for an empty list: the query is missing, and fails
        assert found.loc["q", labels].tolist() == [0] * 6


@pytest.mark.filterwarnings("ignore:.*carry no expectation:UserWarning")
@pytest.mark.parametrize(("empty", "hit", "mrr"), [(None, 0, 0), (ALL_MET, 1, 1)])
def test_the_profile_counts_an_empty_gold_set_as_met_but_has_no_first_hit(scored, empty, hit, mrr):
    own = READINGS["rig"]
    assert (own.empty["hit"], own.empty["mrr"]) == (0, 0)
    profile = own if empty is None else replace(own, empty=empty)
    found = scored(
        {"other": ["d1"], "q": ["d1"]}, {"q": {}, "other": {"d1": 1}}, None, profile=profile
    )
    labels = ["recall@5:doc", "ndcg@5:doc", "map@5:doc", "precision@5:doc", "hit@5:doc", "mrr:doc"]
    assert found.loc["q", labels].tolist() == [1, 1, 1, 0, hit, mrr]


def test_questions_to_refuse_are_scored_where_the_profile_scores_refusals(write_golden, write_run):
    golden = rs.load_golden(write_golden([{"id": "q", "query": "?", "answerable": False}]))
    results = rs.load_results(write_run("r", [{"query_id": "q", "query": "?", "hits_top_k": []}]))
    labels, silent = ["recall@5", "mrr"], replace(READINGS["rig"], scores_hits_of_refusals=False)
    found, unscored = (
        rs.score(results, golden, labels, profile=one)[labels] for one in ("rig", silent)
    )
    assert found.loc["q"].tolist() == [1, 0] and pd.isna(unscored.loc["q", "mrr"])


GOLD = {
    "q1": {"doc-orwell": 2, "doc-1984": 1},
    "q2": {"doc-paris": 1},
    "q3": {"doc-light": 2, "doc-physics": 1},
}
FULL = {
    "q1": ["doc-orwell", "doc-1984", "doc-paris"],
    "q2": ["doc-paris", "doc-cats"],
    "q3": ["doc-light", "doc-physics", "doc-cats"],
}
AT_5 = ["recall@5", "ndcg@5", "mrr", "precision@5", "map@5"]


def without(*docs):
    return {
        query_id: [doc for doc in ranking if doc not in docs] for query_id, ranking in FULL.items()
    }


# recall@5, ndcg@5, mrr, precision@5 and map@5
MEANS = pytest.mark.parametrize(
    ("rankings", "means"),
    [
        (FULL, [1, 1, 1, 1 / 3, 1]),
        (without("doc-orwell"), [0.833333, 0.758471, 1, 0.266667, 0.833333]),
        (without("doc-light", "doc-physics"), [0.666667, 0.666667, 0.666667, 0.2, 0.666667]),
    ],
)


@MEANS
def test_means_over_three_graded_queries(scored, rankings, means):
    assert scored(rankings, GOLD, AT_5)[AT_5].mean().tolist() == pytest.approx(means, abs=5e-7)


def test_diffs_and_gates_of_stores_that_lack_documents_name_what_moved(scored, tmp_path):
    lists = {
        "full": FULL, "no_orwell": without("doc-orwell"),
        "no_light": without("doc-light", "doc-physics"),
    }  # fmt: skip
    stores = pd.concat(
        scored(own, GOLD, AT_5, run_id).astype({"run_id": "str"}) for run_id, own in lists.items()
    )
    better = score_diff(stores, "no_orwell", "full")
    (before,) = stores.loc[stores["run_id"] == "no_orwell"].loc[["q1"], "ndcg@5"]
    assert before == pytest.approx(0.275412, abs=5e-7)
    row = row_of(better, "recall@5")
    assert counts_of(row) == [1, 0, 2] and row["delta"] == pytest.approx(1 / 6)
    assert [one["query_id"] for one in row["query_changes"]] == ["q1", "q2", "q3"]
    worse = score_diff(stores, "full", "no_light")
    row = row_of(worse, "recall@5")
    assert counts_of(row)[:2] == [0, 1] and row["delta"] == pytest.approx(-1 / 3)
    assert row["query_changes"][0]["query_id"] == "q3"
    # a better store passes a gate, a worse one doesn't
    limits, log = dict.fromkeys(AT_5, 0.02), tmp_path / "log.jsonl"
    assert [regressed(diff, log, limits) for diff in (better, worse)] == [[], AT_5]


def row_of(diff, metric):
    return next(row for row in diff["rows"] if row["metric"] == metric)


def counts_of(row):
    return [row[name] for name in ("winners", "losers", "unchanged")]


def frame(**runs):
    """A scores frame from {run: {metric: {query: value}}}."""
    parts = [
        pd.DataFrame(metrics, dtype="float64")
        .rename_axis("query_id")
        .assign(run_id=run_id, state="scored", level="doc")
        for run_id, metrics in runs.items()
    ]
    return pd.concat(parts)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.0, 0.5, 1.0], [3, 0.5, 0, 1, 0.5, 0.5, 0.95]), ([np.nan], [0, *[np.nan] * 6])],
)
def test_the_summary_of_a_metric(values, expected):
    row = summarize(frame(r={"recall@10": dict(enumerate(values))})).iloc[0]
    found = row[["n", "mean", "min", "max", "p50", "std", "p95"]].tolist()
    assert found == pytest.approx(expected, nan_ok=True)


def test_winners_losers_and_movers_over_the_queries_both_have():
    current, baseline = (
        {"q1": 1, "q2": 0, "q3": 0.5, "q4": 0.9},
        {"q1": 0.5, "q2": 0.5, "q3": 0.5, "q5": 1},
    )
    diff = score_diff(frame(base={"recall@5": baseline}, now={"recall@5": current}), "base", "now")
    (row,) = diff["rows"]
    assert counts_of(row) == [1, 1, 1]
    assert [row["n_only_baseline"], row["n_only_candidate"]] == [1, 1]
    changes = [(one["query_id"], one["delta"]) for one in row["query_changes"]]
    assert changes == [("q1", 0.5), ("q2", -0.5), ("q3", 0)]


def test_a_metric_that_the_baseline_lacks_has_no_delta():
    diff = score_diff(
        frame(base={"mrr": {"q": 0.6}}, now={"mrr": {"q": 0.8}, "recall@5": {"q": 0.4}}),
        "base",
        "now",
    )
    assert row_of(diff, "mrr")["delta"] == pytest.approx(0.2)
    row = row_of(diff, "recall@5")
    assert [*counts_of(row), row["n_only_candidate"]] == [0, 0, 0, 1]
    assert row["delta"] is row["baseline_mean"] is None and row["current_mean"] == 0.4
    assert row["query_changes"] == []


# the bootstrap, with the generator its figures were made by


def test_splitmix64_gives_its_published_outputs():
    outputs = [10451216379200822465, 13757245211066428519, 17911839290282890590]
    assert _splitmix64(1, 0, 3).tolist() == outputs and _splitmix64(1, 2, 1).tolist() == outputs[2:]


@pytest.mark.parametrize(
    ("values", "iterations", "level", "seed", "expected"),
    [
        ([(i % 5) / 4 for i in range(30)], 500, 0.9, 42, (0.383333, 0.600417)),
        ([0.8, 0.6] * 25, 1000, 0.95, 0xC0FFEE, (0.672, 0.724)),
        ([1, 0.5], 200, 0.9, 1, (0.5, 1)),
        ([0.5] * 7, 100, 0.9, 3, (0.5, 0.5)),
    ],
)
def test_bootstrap_intervals_of_splitmix64(values, iterations, level, seed, expected):
    assert rs.stats.bootstrap_mean(values, iterations, level, seed, "splitmix64") == pytest.approx(
        expected, abs=5e-7
    )


@pytest.mark.parametrize("method", ["numpy", "splitmix64"])
def test_the_bootstrap_is_the_same_for_the_same_seed_and_leaves_nan_out(method):
    values = np.random.default_rng(3).random(40)
    first = rs.stats.bootstrap_mean(values, 2000, seed=7, method=method)
    assert (
        first
        == rs.stats.bootstrap_mean([*values, np.nan], 2000, seed=7, method=method)
        != rs.stats.bootstrap_mean(values, 2000, seed=8, method=method)
    )
    assert first is not None and first[0] < values.mean() < first[1]
    # close to the normal interval of the mean at this size
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert first == pytest.approx((values.mean() - half, values.mean() + half), abs=0.01)


def test_no_value_has_no_interval():
    assert rs.stats.bootstrap_mean([]) is None and rs.stats.bootstrap_mean([np.nan]) is None


@pytest.mark.parametrize(
    "bad",
    [
        {"iterations": 0},
        {"confidence": 0},
        {"confidence": 1},
        {"confidence": np.nan},
        {"seed": -1},
        {"seed": 2**64},
        {"method": "xorshift"},
    ],
)
def test_bad_arguments_of_the_bootstrap_are_refused(bad):
    with refused(*bad.values(), field=next(iter(bad))):
        rs.stats.bootstrap_mean([1.0], **bad)


# the profile: F.5.1 to F.5.6 once more, as that harness's aggregates; its code, which made them,
# gives 1 for hit rate and MRR where nothing is relevant, unlike what it states


@pytest.fixture
def profile_means(tmp_path):
    """The profile's means of rankings {query: documents}, which may be empty."""

    def means(rankings, gold, ks=(1, 3, 5, 10)):
        records = [
            {"query_id": query_id, "query": "?",
             "hits_top_k": [{"doc_id": doc, "rank": n} for n, doc in enumerate(docs, 1)]}
            for query_id, docs in rankings.items()
        ]  # fmt: skip
        (found,) = aggregate(
            rs.load_results(put(tmp_path, records)),
            rs.load_golden(put(tmp_path, judged(gold), "qrels.jsonl")),
            replace(READINGS["rig"], empty=ALL_MET),
            replace(HARNESSES["rig"], ks=ks),
        ).values()
        return found

    return means


@pytest.mark.filterwarnings("ignore:ids of .* do not join:UserWarning")
@pytest.mark.parametrize(
    ("ranking", "gold", "expected"),
    [
        (
            "x d1 y d2 d3",
            {"d1": 1, "d2": 1, "d3": 1},
            {("recall", 1): 0, ("recall", 3): 1 / 3, ("recall", 10): 1},
        ),
        ("d1 x d2 y", {"d1": 1, "d2": 1}, {("precision", 4): 0.5, ("map", 4): (1 + 2 / 3) / 2}),
        ("d1 x", {"d1": 1}, {("mrr", None): 1}),
        ("a b c", {"d1": 1}, {("mrr", None): 0, ("hit_rate", 3): 0}),
        ("a d1 c", {"d1": 1}, {("hit_rate", 3): 1}),
        ("d1 d2 d3", {"d1": 3, "d2": 2, "d3": 1}, {("ndcg", 3): 1}),
        ("d2 d1", {"d1": 3, "d2": 1}, {("ndcg", 3): 0.709810}),
        ("d3 x d1", {"d1": 3, "d2": 2, "d3": 1}, {("ndcg", 3): 0.479091}),
    ],
)
def test_formulas_by_the_profile(profile_means, ranking, gold, expected):
    found = profile_means({"q": ranking.split()}, {"q": gold}, ks=(1, 3, 4, 5, 10))
    assert [
        found[name] if k is None else found[name][str(k)] for name, k in expected
    ] == pytest.approx(list(expected.values()), abs=5e-7)


@pytest.mark.filterwarnings("ignore:none of the 1 queries .* is labelled:UserWarning")
@pytest.mark.filterwarnings("ignore:.*carry no expectation:UserWarning")
@pytest.mark.parametrize("ranking", [["d1"], []])
def test_an_empty_gold_set_is_met_by_an_empty_list_as_well(profile_means, ranking):
    found = profile_means({"q": ranking}, {"q": {}})
    values = [found[name]["5"] for name in ("recall", "hit_rate", "map", "ndcg", "precision")]
    assert values == [1, 1, 1, 1, 0] and found["mrr"] == 1


@MEANS
def test_means_over_three_graded_queries_by_the_profile(profile_means, rankings, means):
    found = profile_means(rankings, GOLD)
    values = [found[name]["5"] for name in ("recall", "ndcg", "precision", "map")]
    values.insert(2, found["mrr"])
    assert values == pytest.approx(means, abs=5e-7)


# F.5.6 and F.5.9, the gate: which metrics of a diff have regressed by more than their threshold


def regressed(diff, path, thresholds):
    theirs = {"current_mean": "candidate", "baseline_mean": "baseline"}
    deltas = pd.DataFrame(diff["rows"]).rename(columns=theirs)
    deltas["n"] = deltas[["winners", "losers", "unchanged"]].sum(axis=1)
    event_log(deltas, path, conversation_id="c", tolerances=thresholds)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    return [event["metric"] for event in events if event["regressed"]]


@pytest.mark.parametrize(
    ("baseline", "candidate", "deltas", "thresholds", "expected"),
    [
        (
            {"recall@5": [0.60], "ndcg@5": [0.60], "mrr": [0.90]},
            {"recall@5": [0.50], "ndcg@5": [0.595], "mrr": [0.10]},
            [-0.10, -0.005, -0.80],
            {"recall@5": 0.02, "ndcg@5": 0.02},
            ["recall@5"],
        ),
        ({"recall@5": [0.9]}, {"recall@5": [0.4]}, [-0.5], {"recall@5": 0.05}, ["recall@5"]),
        ({"recall@5": [0.9]}, {"recall@5": [0.4]}, [-0.5], {"recall@5": 1.0}, []),
        # a threshold below 0 is 0
        ({"recall@5": [0.6]}, {"recall@5": [0.6]}, [0], {"recall@5": -0.5}, []),
        ({"recall@5": [0.6]}, {"recall@5": [0.599]}, [-0.001], {"recall@5": -0.5}, ["recall@5"]),
        (
            {"recall@5": [0.6, 0.7]},
            {"recall@5": [0.4, 0.4]},
            [-0.25],
            {"recall@5": 0.05},
            ["recall@5"],
        ),
        ({"recall@5": [0.5, 0.5]}, {"recall@5": [1, 0.6]}, [0.3], {"recall@5": 0.05}, []),
        (
            {"recall@5": [0.60], "ndcg@5": [0.50], "mrr": [0.7]},
            {"recall@5": [0.50], "ndcg@5": [0.55], "mrr": [0.7]},
            [-0.1, 0.05, 0],
            {"recall@5": 0, "ndcg@5": 0, "mrr": 0},
            ["recall@5"],
        ),
    ],
)
def test_a_gate_names_the_metrics_that_fell_by_more_than_their_threshold(
    tmp_path, baseline, candidate, deltas, thresholds, expected
):
    runs = {
        name: {metric: dict(enumerate(values)) for metric, values in run.items()}
        for name, run in (("a", baseline), ("b", candidate))
    }
    diff = score_diff(frame(**runs).rename(index=str), "a", "b")
    assert [row["delta"] for row in diff["rows"]] == pytest.approx(deltas)
    again = score_diff(json.dumps(diff))
    assert again == diff
    for one in (diff, again):
        assert regressed(one, tmp_path / "log.jsonl", thresholds) == expected

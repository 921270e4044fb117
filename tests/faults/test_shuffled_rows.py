"""Attack: rows, runs and queries in another order. Every number stays the same to the last bit.

What an order may mean is written in `ragscore/frames/kinds.py`.
"""

import dataclasses
import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import times

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from ragscore.analysis.comparison.changes import rank_overlap
from ragscore.frames.golden_versions import query_parts

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

SYSTEMS = ("a", "b", "c")
DOCUMENTS = [f"d{n:02}" for n in range(14)]
METRICS = [
    "hit@3", "recall@5", "precision@5", "mrr", "map", "ndcg@5", "ndcg", "judged@5", "rbp", "bpref",
    "rprec", "err@5", "set_f1", "11pt_avg", "latency_ms", "cost_usd", "faithfulness",
    "context_precision", "citation_precision", "citation_coverage", "refusal_correct", "failed",
    "recall@3:doc", "passed", "judge_correctness", "answer_checks",
]  # fmt: skip


def golden_of(rng, n_queries):
    ids = [f"q{n:03}" for n in rng.permutation(n_queries)]
    targets = [
        {"query_id": one, "level": "doc", "target_id": f"t{place}", "doc_id": document,
         "grade": int(rng.integers(0, 4)), "alternative": 0}
        for one in ids[: -n_queries // 6]
        for place, document in enumerate(rng.choice(DOCUMENTS, rng.integers(1, 5), replace=False))
    ]  # fmt: skip
    queries = pd.DataFrame({
        "query_id": ids, "query": "?",
        "answerable": pd.array([True] * (n_queries - n_queries // 6) + [False] * (n_queries // 6)),
        "difficulty": rng.choice(["easy", "hard"], n_queries),
        "group": [f"g{n}" for n in rng.integers(0, n_queries // 2, n_queries)],
        "reference_answer": "the answer is here",
    })  # fmt: skip
    tags = pd.DataFrame(
        {
            "query_id": ids * 2,
            "kind": "tag",
            "value": ["x"] * n_queries + list(rng.choice(["y", "z"], n_queries)),
        }
    )
    checks = pd.DataFrame({"query_id": ids, "kind": "must_contain", "text": "answer"})
    return rs.Golden(queries=queries, targets=pd.DataFrame(targets), tags=tags, checks=checks)


def results_of(rng, golden):
    asked = [*golden.queries["query_id"], "not golden 1", "not golden 2"]
    cells = [(run, one) for run in SYSTEMS for one in asked]
    n = len(cells)
    responses = pd.DataFrame(cells, columns=["run_id", "query_id"]).assign(
        query="?", error=pd.array(rng.choice([None, None, None, "boom"], n), dtype="str"),
        answer=rng.choice(["the answer", "no idea"], n), refused=rng.random(n) < 0.2,
        elapsed_ms=rng.lognormal(4, 1, n), latency_search_ms=rng.lognormal(3, 1, n),
        cost_usd=rng.random(n) / 100,
    )  # fmt: skip
    hits = pd.DataFrame([
        {"run_id": run, "query_id": one, "rank": rank, "doc_id": document,
         "score": float(rng.choice([0.3, 0.7, 0.1]))}
        for run, one in cells
        for rank, document in enumerate(rng.choice(DOCUMENTS, rng.integers(0, 13)), 1)
    ])  # fmt: skip
    citations = [
        {"run_id": run, "query_id": one, "position": place, "marker": f"[{place}]",
         "doc_id": document}
        for run, one in cells
        for place, document in enumerate(rng.choice(DOCUMENTS, rng.integers(0, 4)))
    ]  # fmt: skip
    items = [("judge_correctness", ""), *(("faithfulness", f"claim {n}") for n in range(5))]
    judgments = [
        {"run_id": run, "query_id": one, "criterion": criterion, "item": item, "judge": judge,
         "repeat": repeat, "value": round(float(rng.random()), 1)}
        for (run, one), (criterion, item), judge, repeat in product(
            cells, items, ["j1", "j2"], range(3)
        )
    ]  # fmt: skip
    runs = pd.DataFrame({
        "run_id": SYSTEMS, "system": SYSTEMS, "k": 10,
        "config": [json.dumps({"depth": n // 2, "kind": n % 2}) for n in range(3)],
        "created_at": pd.date_range("2026-01-01", periods=3, tz="UTC"),
    })  # fmt: skip
    return rs.Results(
        runs=runs, responses=responses, hits=hits,
        hit_meta=hits[["run_id", "query_id", "rank"]].assign(key="lang", value='"de"'),
        citations=pd.DataFrame(citations), judgments=pd.DataFrame(judgments),
        chunks=pd.DataFrame({"chunk_id": DOCUMENTS, "doc_id": DOCUMENTS}),
        reported=responses[["run_id", "query_id"]].assign(metric="theirs", value=rng.random(n)),
    )  # fmt: skip


def shuffled(holder, rng, kept=()):
    """Return the same frames with their rows in another order."""
    frames = {item.name: getattr(holder, item.name) for item in dataclasses.fields(holder)}
    moved = {
        name: frame.iloc[rng.permutation(len(frame))]
        for name, frame in frames.items()
        if frame is not None and name not in kept
    }
    return dataclasses.replace(holder, **moved)


def frames_in(value):
    """Return the frames of an answer by their names: it is one, or holds some."""
    held = {"": value} if isinstance(value, pd.DataFrame) else vars(value)
    return {
        name: one
        for name, one in held.items()
        if isinstance(one, pd.DataFrame) and name.strip("_") not in ("scores", "rows")
    }


def rows_of(frame):
    """Return rows as sorted texts, floats by all their bits."""
    named = frame if frame.index.name is None else frame.reset_index()
    columns = sorted(str(name) for name in named.columns if name != "position")
    return sorted(
        tuple(
            f"{name}={value.hex() if isinstance(value, float) else value!r}"
            for name, value in zip(columns, row, strict=True)
        )
        for row in named[columns].astype(object).itertuples(index=False, name=None)
    )


def assert_same(before, after, name):
    first, second = frames_in(before), frames_in(after)
    assert first.keys() == second.keys() and first, name
    for key, frame in first.items():
        assert rows_of(frame) == rows_of(second[key]), f"{name} {key}"


QUESTIONS = {
    "scores": lambda ev: ev.scores,
    "summary": lambda ev: ev.summary(METRICS),
    "summary by difficulty": lambda ev: ev.summary(["mrr", "latency_ms", "ndcg@5"], "difficulty"),
    "summary by tag": lambda ev: ev.summary(["mrr", "cost_usd"], ["tag", "difficulty"]),
    "summary without clusters": lambda ev: ev.summary(["mrr", "latency_ms"], cluster=None),
    "explained": lambda ev: ev.explain(["mrr", "faithfulness"]),
    "pivot": lambda ev: ev.pivot("mrr"),
    "compared": lambda ev: ev.compare("a", "b", ["mrr", "ndcg@5", "latency_ms", "faithfulness"]),
    "compared by slice": lambda ev: ev.compare("a", "c", ["mrr"]).slices("difficulty", min_n=3),
    "leaderboard": lambda ev: ev.leaderboard(["mrr", "hit@3", "latency_ms"], baseline="a"),
    "slices": lambda ev: ev.slices("difficulty", ["mrr", "hit@3"], min_n=3),
    "trend": lambda ev: ev.trend("mrr"),
    "refusals": lambda ev: ev.refusals(right="judge_correctness", threshold=0.5),
    "failures": lambda ev: ev.failures(right="judge_correctness", threshold=0.5),
    "risk": lambda ev: rs.extras.risk_coverage(ev, right="judge_correctness", threshold=0.5),
    "health": lambda ev: ev.golden.health(ev, "mrr"),
    "config": lambda ev: rs.extras.config_effects(ev, ["mrr"]),
    "score diff": lambda ev: pd.DataFrame(rs.extras.score_diff(ev, "a", "b")["rows"]),
    "one query": lambda ev: ev.query("q001"),
    "overlap": lambda ev: rank_overlap(ev.results, "a", "b"),
    "another harness's": lambda ev: pd.json_normalize(aggregate(ev.results, ev.golden, "kebab")),
    "hash": lambda ev: query_parts(ev.golden).reset_index(),
}  # fmt: skip
# What is said of pairs or changes of runs goes by the order of the runs, which is the user's.
ANY_ORDER_OF_RUNS = (
    "scores", "summary", "summary by difficulty", "summary without clusters", "compared", "slices",
    "trend", "refusals", "latency", "overlap", "another harness's", "score diff",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(times(2)))
def test_shuffled_rows_change_no_bit_of_any_answer(seed):
    rng = np.random.default_rng(seed)
    golden = golden_of(rng, int(rng.integers(14, 20)))
    results = results_of(rng, golden)
    before = rs.evaluate(results, golden, METRICS)
    rows = shuffled(results, rng, kept=("runs",)), shuffled(golden, rng)
    after = rs.evaluate(*rows, METRICS)
    by_run = rs.evaluate(shuffled(rows[0], rng), rows[1], METRICS)
    for name, ask in QUESTIONS.items():
        asked = ask(before)
        assert_same(asked, ask(after), name)
        if name in ANY_ORDER_OF_RUNS:
            assert_same(asked, ask(by_run), f"{name}, other runs first")

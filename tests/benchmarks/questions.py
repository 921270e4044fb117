"""Every question of an `Evaluation`, against the scoring that it stands on.

Runs answer the same queries, with answers, refusals, times and configs. Each question is asked
twice in one process: the first call pays for what it imports and keeps for later, then again.
`summary` and `compare` are asked first in processes of their own, too.

`python -m tests.benchmarks.questions RUNS QUERIES [QUESTION ...]` asks some here.
"""

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

import ragscore as rs
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import Clock, Measured, run_fresh
from tests.benchmarks.table import Claim, Table, middle, number

DEPTH = 20
N_DOCS = 50_000
N_TARGETS = 4
CATEGORIES = [f"topic {n}" for n in range(8)]
FIRST = ("summary", "compare")
LIMITS = {"small": 1.0, "large": 3.0}  # seconds
REPORT_LIMITS = {"small": 1.0, "large": 5.0}


def workload(n_runs: int, n_queries: int, seed: int = 0) -> tuple[rs.Results, rs.Golden]:
    """Runs of rising quality over one golden set, of which 5 % should be refused."""
    rng = np.random.default_rng(seed)
    ids = pd.Series([f"q{n:06d}" for n in range(n_queries)], dtype="str")
    should_refuse = rng.random(n_queries) < 0.05
    wanted = rng.integers(N_DOCS, size=(n_queries, 1)) + 7 * np.arange(N_TARGETS)
    names = pd.array([f"doc-{n:05d}" for n in range(N_DOCS)], dtype="str")
    run_ids = [f"run{n:02d}" for n in range(n_runs)]
    hits, responses = [], []
    for at, run_id in enumerate(run_ids):
        docs = _found(rng, wanted, 0.3 + 0.3 * at / n_runs) % N_DOCS
        top = rng.random((n_queries, 1))
        hits.append(
            pd.DataFrame({
                "run_id": run_id,
                "query_id": ids.repeat(DEPTH).to_numpy(),
                "rank": np.tile(np.arange(1, DEPTH + 1), n_queries),
                "doc_id": names.take(docs.ravel()),
                "score": (top + 1 / np.arange(1, DEPTH + 1)).ravel(),
            })
        )  # fmt: skip
        draws = rng.random(n_queries)
        known = np.where(draws < 0.6 + 0.2 * at / n_runs, "known", "guessed")
        responses.append(
            pd.DataFrame({
                "run_id": run_id,
                "query_id": ids,
                "query": "what is " + ids,
                "answer": "It is " + pd.Series(known) + ", as " + ids + " says.",
                "refused": np.where(should_refuse, draws < 0.7, draws < 0.03),
                "elapsed_ms": rng.lognormal(5, 0.6, n_queries),
            })
        )  # fmt: skip
    configs = [{"fusion": {"alpha": n % 3 / 10}, "depth": 10 * (n % 2)} for n in range(n_runs)]
    runs = pd.DataFrame({
        "run_id": run_ids, "system": run_ids, "k": DEPTH,
        "created_at": pd.date_range("2026-01-01", periods=n_runs, tz="UTC"),
        "config": [json.dumps(config) for config in configs],
    })  # fmt: skip
    results = rs.Results(
        runs=runs,
        responses=pd.concat(responses, ignore_index=True),
        hits=pd.concat(hits, ignore_index=True),
    )
    return results, _golden(rng, ids, should_refuse, names.take((wanted % N_DOCS).ravel()))


def _found(
    rng: np.random.Generator, wanted: npt.NDArray[np.int64], quality: float
) -> npt.NDArray[np.int64]:
    """Different documents for each query: targets at random places, others elsewhere."""
    n = len(wanted)
    others = wanted[:, :1] + 1_000 + rng.integers(1, 900, (n, 1)) * np.arange(1, DEPTH + 1)
    places = rng.permuted(np.tile(np.arange(DEPTH), (n, 1)), axis=1)[:, :N_TARGETS]
    is_found = rng.random((n, N_TARGETS)) < quality
    rows, columns = np.nonzero(is_found)
    others[rows, places[rows, columns]] = wanted[rows, columns]
    return others


def _golden(
    rng: np.random.Generator, ids: pd.Series, should_refuse: npt.NDArray[np.bool_], wanted: Any
) -> rs.Golden:
    n = len(ids)
    queries = pd.DataFrame({
        "query_id": ids, "query": "what is " + ids, "answerable": ~should_refuse,
        "position": range(n),
        "difficulty": rng.choice(["easy", "medium", "hard"], n),
        "category": rng.choice(CATEGORIES, n),
    })  # fmt: skip
    targets = pd.DataFrame({
        "query_id": ids.repeat(N_TARGETS).to_numpy(), "level": "doc", "target_id": wanted,
        "doc_id": wanted, "grade": rng.integers(1, 4, n * N_TARGETS), "alternative": 0,
    })  # fmt: skip
    is_kept = ~should_refuse.repeat(N_TARGETS)
    checks = pd.DataFrame({"query_id": ids, "kind": "must_contain", "text": "known"})
    return rs.Golden(queries=queries, targets=targets[is_kept], checks=checks[~should_refuse])


def questions(ev: rs.Evaluation, folder: Path) -> dict[str, Callable[[], Any]]:
    """Name -> what asks it, in the order in which they are asked."""
    first, second = ev.run_ids[0], ev.run_ids[-1]
    compared: list[rs.Comparison] = []

    def compare() -> rs.Comparison:
        compared[:] = [ev.compare(first, second)]
        return compared[0]

    def cmp() -> rs.Comparison:
        return compared[0] if compared else compare()

    return {
        "summary": ev.summary,
        "summary by category": lambda: ev.summary(by="category"),
        "compare": compare,
        "leaderboard": ev.leaderboard,
        "slices by category": lambda: ev.slices("category"),
        "slices, two columns": lambda: ev.slices(["category", "difficulty"]),
        "slices, every metric": lambda: ev.slices("category", list(_metrics(ev))),
        "print": lambda: repr(ev),
        "HTML": lambda: ev._repr_html_(),
        "comparison: print": lambda: repr(cmp()),
        "comparison: HTML": lambda: cmp()._repr_html_(),
        "comparison: changed queries": lambda: cmp().changed(),
        "comparison: slices": lambda: cmp().slices("category"),
        "comparison: gate": lambda: cmp().gate({"ndcg@10": 0.02}),
        "score_diff": lambda: ev.score_diff(first, second),
        "trend": ev.trend,
        "trend by category": lambda: ev.trend(by="category"),
        "config_effects": ev.config_effects,
        "refusals": ev.refusals,
        "failures": ev.failures,
        "risk_coverage": lambda: ev.risk_coverage(right="hit@5"),
        "repeats": lambda: ev.repeats("hit@5", 1, runs=ev.run_ids),
        "explain": ev.explain,
        "pivot": lambda: ev.pivot("ndcg@10"),
        "query": lambda: repr(ev.query(ev.golden.queries["query_id"].iloc[1])),
        "select hard queries": lambda: ev.select(queries="difficulty == 'hard'").summary(),
        "coverage": ev.coverage,
        "coverage_issues": lambda: ev.coverage().issues,
        "golden_health": lambda: ev.golden_health("hit@5"),
        "tie_sensitivity": ev.tie_sensitivity,
        "unjudged": lambda: ev.unjudged().table,
        "retriever_scores": ev.retriever_scores,
        "provenance": ev.provenance,
        "to_profile": lambda: ev.to_profile("trec"),
        "explore": lambda: ev.explore()._repr_html_(),
        "report": lambda: ev.report(folder / "report.html"),
        "store.save": lambda: _save(ev, folder),
    }


def _metrics(ev: rs.Evaluation) -> list[str]:
    from ragscore.scoring.value_states import metric_columns

    return metric_columns(ev.scores)


def _save(ev: rs.Evaluation, folder: Path) -> None:
    store = rs.RunStore(Path(tempfile.mkdtemp(dir=folder)) / "store")
    store.save(ev)


def plain(ev: rs.Evaluation, results: rs.Results, folder: Path) -> dict[str, Callable[[], Any]]:
    """The same by pandas or scipy as one would write it, where there is such a way."""
    scores, golden, primary = ev.scores, ev.golden, list(ev.primary)
    names = _metrics(ev)
    by_run = {run: rows[names] for run, rows in scores.groupby("run_id", observed=True)}
    first, second = (by_run[run] for run in (ev.run_ids[0], ev.run_ids[-1]))
    category = golden.queries.set_index("query_id")["category"]

    def compare() -> None:
        for name in primary:
            differences = (second[name] - first[name]).dropna().to_numpy()
            stats.permutation_test(
                (differences,), np.mean, permutation_type="samples", n_resamples=1_000, batch=100
            )

    def save() -> None:
        target = Path(tempfile.mkdtemp(dir=folder))
        for name in ("responses", "hits"):
            getattr(results, name).to_parquet(target / f"{name}.parquet")
        scores.to_parquet(target / "scores.parquet")

    return {
        "summary": lambda: scores.groupby("run_id", observed=True)[names].agg(
            ["mean", "sem", "count"]
        ),
        "summary by category": lambda: (
            scores.assign(category=category.reindex(scores.index).to_numpy())
            .groupby(["run_id", "category"], observed=True)[names]
            .agg(["mean", "sem", "count"])
        ),
        "compare": compare,
        "store.save": save,
    }


def ask(clock: Clock, n_runs: int, n_queries: int, names: list[str] | None = None) -> Measured:
    """Seconds of every question, first and again; those of scoring are the best of three."""
    warnings.simplefilter("ignore")
    results, golden = workload(n_runs, n_queries)
    scoring = []
    for _ in range(3):
        with clock.stage("score"):
            ev = rs.evaluate(results, golden)
        scoring.append(clock.wall["score"])
        with clock.stage("rs.score"):
            rs.score(results, golden)
        scoring.append(clock.wall["rs.score"])
    spent: dict[str, list[float]] = {"score": scoring[1::2], "evaluate": scoring[::2]}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, question in questions(ev, folder).items():
            if not names or name in names:
                spent[name] = [_seconds(question) for _ in range(2)]
        if (folder / "report.html").exists():
            sizes["report"] = (folder / "report.html").stat().st_size
        theirs = {
            name: _seconds(way)
            for name, way in plain(ev, results, folder).items()
            if not names or name in names
        }
    return {"spent": spent, "plain": theirs, "sizes": sizes}


def first(clock: Clock, n_runs: int, n_queries: int, name: str) -> Measured:
    """Seconds of the first question in a process."""
    warnings.simplefilter("ignore")
    ev = rs.evaluate(*workload(n_runs, n_queries))
    with clock.stage(name):
        questions(ev, Path())[name]()
    return {}


def measure(plan: Plan, folder: Path, say: Callable[[str], None]) -> list[Measured]:
    """One record per size and repeat, and one per first question in a process."""
    records: list[Measured] = []
    for size, (n_runs, n_queries) in plan.questions.items():
        shape = {"size": size, "n_runs": n_runs, "n_queries": n_queries}
        asked = {"n_runs": n_runs, "n_queries": n_queries}
        for _ in range(plan.repeats):
            records.append({"what": "all", **shape, **run_fresh("questions", "ask", **asked)})
            for name in FIRST:
                found = run_fresh("questions", "first", name=name, **asked)
                records.append({"what": name, **shape, **found})
        say(f"questions of {n_runs} x {n_queries:,} measured")
    return records


def claims(records: list[Measured]) -> list[Claim]:
    """The slowest question of each size in seconds and against scoring; the report's bytes."""
    found = []
    for size in dict.fromkeys(record["size"] for record in records):
        whole = [one for one in records if one["size"] == size and one["what"] == "all"]
        title = _title(whole[0])
        longest = {name: _again(whole, name) for name in _asked(whole) if name != "report"}
        slowest = max(longest, key=lambda name: middle(longest[name]))
        found.append(_within(f"{title}: {slowest}", longest[slowest], LIMITS[size]))
        found.append(_within(f"{title}: report", _again(whole, "report"), REPORT_LIMITS[size]))
        for name in FIRST:
            spent = [
                one["wall"][name] for one in records if one["size"] == size and one["what"] == name
            ]
            found.append(_within(f"{title}: {name}, first in a process", spent, LIMITS[size]))
    return found


def _within(name: str, spent: list[float], limit: float) -> Claim:
    return Claim(name, middle(spent), min(spent), max(spent), limit, True, "s")


def _title(record: Measured) -> str:
    return f"{record['n_runs']} runs × {record['n_queries']:,} queries"


def _asked(records: list[Measured]) -> list[str]:
    return [name for name in records[0]["spent"] if name not in ("score", "evaluate")]


def _again(records: list[Measured], name: str) -> list[float]:
    return [min(one["spent"][name]) for one in records]


def tables(records: list[Measured]) -> list[Table]:
    """Seconds of every question, first and again, against `rs.score` and a plain way."""
    found = []
    for size in dict.fromkeys(record["size"] for record in records):
        whole = [one for one in records if one["size"] == size and one["what"] == "all"]
        scoring = middle([min(one["spent"]["score"]) for one in whole])
        rows = []
        for name in whole[0]["spent"]:
            first_call = middle([one["spent"][name][0] for one in whole])
            again = middle(_again(whole, name))
            theirs = [one["plain"][name] for one in whole if name in one["plain"]]
            rows.append(
                [
                    name,
                    number(first_call),
                    number(again),
                    f"{again / scoring:.1f}",
                    number(middle(theirs)) if theirs else "",
                ]
            )
        size_of = middle([one["sizes"]["report"] for one in whole]) / 1e6
        found.append(
            Table(
                f"{_title(whole[0])} × {DEPTH} hits; seconds, medians. The report has"
                f" {size_of:.1f} MB.",
                ["", "first", "again", "× score", "plain"],
                rows,
            )
        )
    return found


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    found = ask(Clock(), int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    for name, (once, *again) in found["spent"].items():
        theirs = found["plain"].get(name)
        print(
            f"{name:28} {once:7.2f} {min(again):7.2f}",
            "" if theirs is None else f"plain {theirs:.2f}",
            flush=True,
        )
    print(found["sizes"])

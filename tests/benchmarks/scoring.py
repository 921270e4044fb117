"""From Parquet files to the mean of every measure: ragscore beside pytrec_eval, ir_measures, ranx.

Tools run in turn, each time in a fresh process. Only imports are outside the clock, so each tool
does a tiny task first. Their means must agree.
"""

import importlib.util
import tempfile
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pandas as pd

from tests.benchmarks.process import Clock, Measured, run_fresh

KS = (1, 3, 5, 10)
CHECKED = ("hit@10", "recall@10", "precision@10", "map@10", "mrr", "ndcg_linear@10")
SLOW_ABOVE = 10**6  # hits beyond which only ragscore and pytrec_eval run
TINY = {
    "query_id": ["query-000000"] * 2,  # as long as those to come: ranx compiles for each length
    "doc_id": ["doc-0000000", "doc-0000001"], "score": [1.0, 0.5], "grade": [1, 2],
}  # fmt: skip


def write(clock: Clock, folder: str, n_queries: int) -> None:
    from tests.benchmarks.workload import write_workload

    write_workload(Path(folder), n_queries)


def frames(clock: Clock, folder: str) -> Measured:
    import ragscore as rs
    from tests.benchmarks.workload import as_results, read_golden

    _warm_up()
    with clock.stage("all"):
        columns = ["run_id", "query_id", "rank", "doc_id"]
        hits = pd.read_parquet(f"{folder}/hits.parquet", columns=columns)
        golden = read_golden(Path(folder))
        means = rs.score(as_results(hits, golden), golden, "all", match="doc").mean(
            numeric_only=True
        )
    return _measured(means, CHECKED)


def store(clock: Clock, folder: str) -> Measured:
    import ragscore as rs
    from tests.benchmarks.workload import read_golden

    _warm_up()
    with clock.stage("all"):
        golden = read_golden(Path(folder))
        scores = rs.RunStore(f"{folder}/store").scores(golden, "all", match="doc")
        means = scores.mean(numeric_only=True)
    return _measured(means, CHECKED)


def _warm_up() -> None:
    import ragscore as rs
    from tests.benchmarks.workload import as_results, make_run

    hits, golden = make_run(2, 5, 100)
    rs.score(as_results(hits, golden), golden, match="doc")
    with tempfile.TemporaryDirectory() as folder:
        kept = rs.RunStore(folder)
        kept.save(as_results(hits, golden))
        kept.scores(golden, match="doc")


def pytrec_eval(clock: Clock, folder: str) -> Measured:
    import pytrec_eval as tool

    cuts = ",".join(map(str, KS))
    asked = {f"{name}.{cuts}" for name in ("success", "recall", "P", "map_cut", "ndcg_cut")}
    asked.add("recip_rank")
    tool.RelevanceEvaluator({"q": {"d": 1}}, asked).evaluate({"q": {"d": 1.0}})
    with clock.stage("all"):
        hits, targets = _read(folder)
        run, qrels = _dicts(hits, "score"), _dicts(targets, "grade")
        found = tool.RelevanceEvaluator(qrels, asked).evaluate(run)
        names = list(next(iter(found.values())))
        means = {name: fmean(values[name] for values in found.values()) for name in names}
    theirs = ("success_10", "recall_10", "P_10", "map_cut_10", "recip_rank", "ndcg_cut_10")
    return _measured(means, theirs)


def ir_measures(clock: Clock, folder: str) -> Measured:
    import ir_measures as tool

    names = [f"{name}@{k}" for name in ("Success", "R", "P", "AP", "nDCG") for k in KS]
    asked = [tool.parse_measure(name) for name in (*names, "RR")]
    tiny = pd.DataFrame(TINY).rename(columns={"grade": "relevance"})
    tool.calc_aggregate(asked, tiny, tiny)
    with clock.stage("all"):
        hits, targets = _read(folder)
        found = tool.calc_aggregate(asked, targets.rename(columns={"grade": "relevance"}), hits)
    means = {str(name): float(value) for name, value in found.items()}
    return _measured(means, ("Success@10", "R@10", "P@10", "AP@10", "RR", "nDCG@10"))


def ranx(clock: Clock, folder: str) -> Measured:
    from ranx import Qrels, Run, evaluate

    kinds = ("hit_rate", "recall", "precision", "map", "ndcg")
    asked = [*(f"{name}@{k}" for name in kinds for k in KS), "mrr"]

    def evaluated(hits: pd.DataFrame, targets: pd.DataFrame) -> dict[str, float]:
        ids = {"query_id": object, "doc_id": object}
        names = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
        run = Run.from_df(hits.astype(ids), **names, score_col="score")
        qrels = Qrels.from_df(targets.astype({**ids, "grade": "int64"}), **names, score_col="grade")
        found: dict[str, float] = evaluate(qrels, run, asked)
        return found

    evaluated(pd.DataFrame(TINY), pd.DataFrame(TINY))
    with clock.stage("all"):
        found = evaluated(*_read(folder))
    theirs = ("hit_rate@10", "recall@10", "precision@10", "map@10", "mrr", "ndcg@10")
    return _measured(found, theirs)


def _read(folder: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    hits = pd.read_parquet(f"{folder}/hits.parquet", columns=["query_id", "doc_id", "score"])
    targets = pd.read_parquet(f"{folder}/targets.parquet", columns=["query_id", "doc_id", "grade"])
    return hits, targets


def _dicts(frame: pd.DataFrame, value: str) -> dict[str, dict[str, Any]]:
    """Return {query: {document: value}}, row by row, as people write it."""
    found: dict[str, dict[str, Any]] = {}
    rows = (frame[name].tolist() for name in ("query_id", "doc_id", value))
    for query_id, doc_id, one in zip(*rows, strict=True):
        found.setdefault(query_id, {})[doc_id] = one
    return found


def _measured(means: Any, names: tuple[str, ...]) -> Measured:
    return {"means": {ours: float(means[one]) for ours, one in zip(CHECKED, names, strict=True)}}


def main(sizes: tuple[int, ...] = (10**5, 10**6, 10**7), repeats: int = 3) -> None:
    """Print seconds and peak memory of every tool at every size."""
    print(f"{'read, score, mean':24}{'hits':>12}{'seconds':>9}{'range':>15}{'MiB':>7}")
    for hits in sizes:
        tools = ["frames", "store", "pytrec_eval"]
        if hits <= SLOW_ABOVE:
            tools += [name for name in ("ir_measures", "ranx") if importlib.util.find_spec(name)]
        with tempfile.TemporaryDirectory() as folder:
            run_fresh("scoring", "write", folder=folder, n_queries=hits // 100)
            found: dict[str, list[Measured]] = {tool: [] for tool in tools}
            for _ in range(repeats):
                for tool in tools:
                    found[tool].append(run_fresh("scoring", tool, folder=folder))
        for tool, runs in found.items():
            for name, mean in runs[0]["means"].items():
                apart = abs(mean - found["pytrec_eval"][0]["means"][name])
                assert apart < 1e-6, (tool, name, apart)
            wall = [one["wall"]["all"] for one in runs]
            rss = median(one["rss"] for one in runs)
            name = f"ragscore, {tool}" if tool in ("frames", "store") else tool
            spread = f"{min(wall):.2f} to {max(wall):.2f}"
            print(f"{name:24}{hits:>12,}{median(wall):>9.2f}{spread:>15}{rss:>7,.0f}")

"""From Parquet files to the mean of every measure: ragscore beside what people use instead.

Tools run in turn, each time in a fresh process. Only imports are outside the clock, so each tool
does a tiny task first. Their means must agree.
"""

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.process import Measured, run_fresh, timed

KS = (1, 3, 5, 10)
CHECKED = ("hit@10", "recall@10", "precision@10", "map@10", "mrr", "ndcg_linear@10")
SLOW_ABOVE = 10**6  # hits beyond which tools of SLOW don't run
SLOW = ("ir_measures", "ranx")
IS_THERE = {"ranx": find_spec("ranx")}  # with its compiler, it is in the extra `bench` alone
TINY = pd.DataFrame({"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [1.0, 0.5]})


def frames(folder: str) -> Measured:
    import ragscore as rs
    from tests.benchmarks.workload import as_results, read_golden

    def score(folder: str) -> pd.Series:
        columns = ["run_id", "query_id", "rank", "doc_id"]
        hits = pd.read_parquet(f"{folder}/hits.parquet", columns=columns)
        golden = read_golden(Path(folder))
        scores = rs.score(as_results(hits, golden), golden, "all", match="doc")
        return scores.mean(numeric_only=True)

    return _ours(score, folder)


def store(folder: str) -> Measured:
    import ragscore as rs
    from tests.benchmarks.workload import read_golden

    def score(folder: str) -> pd.Series:
        kept = rs.RunStore(f"{folder}/store")
        scores = kept.scores(read_golden(Path(folder)), "all", match="doc")
        return scores.mean(numeric_only=True)

    return _ours(score, folder)


def _ours(score: Callable[[str], pd.Series], folder: str) -> Measured:
    from tests.benchmarks.workload import write_workload

    with tempfile.TemporaryDirectory() as tiny:
        write_workload(tiny, 2)
        score(tiny)
    return _measured(*timed(lambda: score(folder)), CHECKED)


def pytrec_eval(folder: str) -> Measured:
    import pytrec_eval as tool

    cuts = ",".join(map(str, KS))
    asked = {f"{name}.{cuts}" for name in ("success", "recall", "P", "map_cut", "ndcg_cut")}
    asked.add("recip_rank")
    tool.RelevanceEvaluator({"q": {"d": 1}}, asked).evaluate({"q": {"d": 1.0}})

    def score() -> dict[str, float]:
        hits, targets = _read(folder)
        run, qrels = _dicts(hits, "score"), _dicts(targets, "grade")
        found = tool.RelevanceEvaluator(qrels, asked).evaluate(run)
        names = list(next(iter(found.values())))
        return {name: fmean(values[name] for values in found.values()) for name in names}

    names = ("success_10", "recall_10", "P_10", "map_cut_10", "recip_rank", "ndcg_cut_10")
    return _measured(*timed(score), names)


def ir_measures(folder: str) -> Measured:
    import ir_measures as tool

    names = [f"{name}@{k}" for name in ("Success", "R", "P", "AP", "nDCG") for k in KS]
    asked = [tool.parse_measure(name) for name in (*names, "RR")]
    tool.calc_aggregate(asked, TINY.assign(relevance=[1, 2]), TINY)

    def score() -> dict[str, float]:
        hits, targets = _read(folder)
        found = tool.calc_aggregate(asked, targets.rename(columns={"grade": "relevance"}), hits)
        return {str(name): float(value) for name, value in found.items()}

    return _measured(*timed(score), ("Success@10", "R@10", "P@10", "AP@10", "RR", "nDCG@10"))


def ranx(folder: str) -> Measured:
    import ranx as tool

    from tests.benchmarks.workload import write_workload

    cut = [f"{name}@{k}" for name in ("hit_rate", "recall", "precision", "map", "ndcg") for k in KS]
    names = [*cut, "mrr"]

    def score(folder: str) -> Any:
        # it refuses pandas' own texts, and small integers
        kinds = {"query_id": object, "doc_id": object}
        hits, targets = (one.astype(kinds) for one in _read(folder))
        columns = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
        run = tool.Run.from_df(hits, score_col="score", **columns)
        qrels = tool.Qrels.from_df(targets.astype({"grade": "int64"}), score_col="grade", **columns)
        return tool.evaluate(qrels, run, names, make_comparable=True)

    with tempfile.TemporaryDirectory() as tiny:  # compiles for ids of these lengths
        write_workload(tiny, 2)
        score(tiny)
    names_10 = ("hit_rate@10", "recall@10", "precision@10", "map@10", "mrr", "ndcg@10")
    return _measured(*timed(lambda: score(folder)), names_10)


def plain_pandas(folder: str) -> Measured:
    """Take the same measures by hand, as a notebook without a library has them."""

    def score(hits: pd.DataFrame, targets: pd.DataFrame) -> dict[str, float]:
        hits = hits.sort_values(["query_id", "score"], ascending=[True, False])
        rank = hits.groupby("query_id").cumcount() + 1
        found = hits.assign(rank=rank).merge(targets, on=["query_id", "doc_id"])
        found["nth"] = found.groupby("query_id").cumcount() + 1
        ideal = targets.sort_values(["query_id", "grade"], ascending=[True, False])
        ideal["rank"] = ideal.groupby("query_id").cumcount() + 1
        n = targets.groupby("query_id").size()
        means = {"mrr": (1 / found.groupby("query_id")["rank"].min()).sum() / len(n)}
        for k in KS:
            top = found[found["rank"] <= k]
            by_query = top.groupby("query_id").size().reindex(n.index, fill_value=0)
            means[f"hit@{k}"] = (by_query > 0).mean()
            means[f"recall@{k}"] = (by_query / n).mean()
            means[f"precision@{k}"] = by_query.mean() / k
            precision = (top["nth"] / top["rank"]).groupby(top["query_id"]).sum()
            means[f"map@{k}"] = (precision / n).fillna(0).mean()
            gained, best = (_gain(one, k) for one in (top, ideal))
            means[f"ndcg_linear@{k}"] = (gained / best).reindex(n.index).fillna(0).mean()
        return means

    score(TINY, TINY.assign(grade=[1, 2]))
    return _measured(*timed(lambda: score(*_read(folder))), CHECKED)


def _gain(rows: pd.DataFrame, k: int) -> "pd.Series[float]":
    top = rows[rows["rank"] <= k]
    return (top["grade"] / np.log2(top["rank"] + 1)).groupby(top["query_id"]).sum()


TOOLS = {
    "ragscore, frames": frames, "ragscore, store": store, "plain pandas": plain_pandas,
    "pytrec_eval": pytrec_eval, "ir_measures": ir_measures, "ranx": ranx,
}  # fmt: skip


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


def _measured(seconds: float, means: Any, names: tuple[str, ...]) -> Measured:
    pairs = zip(CHECKED, names, strict=True)
    return {"seconds": seconds, "means": {ours: float(means[one]) for ours, one in pairs}}


def main(sizes: tuple[int, ...] = (10**5, 10**6, 10**7), repeats: int = 3) -> None:
    """Print seconds and peak memory of every tool at every size."""
    print(f"{'read, score, mean':24}{'hits':>12}{'seconds':>9}{'range':>15}{'MiB':>7}")
    for hits in sizes:
        tools = [
            name for name in TOOLS
            if IS_THERE.get(name, True) and (hits <= SLOW_ABOVE or name not in SLOW)
        ]  # fmt: skip
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            run_fresh("workload", "write_workload", folder=folder, n_queries=hits // 100)
            for name in tools * repeats:
                measured = run_fresh("scoring", TOOLS[name].__name__, folder=folder)
                rows.append({"tool": name, **measured, **measured["means"]})
        found = pd.DataFrame(rows).groupby("tool", sort=False)
        means = found[list(CHECKED)].first()
        assert (means.max() - means.min() < 1e-6).all(), means
        for name, runs in found:
            wall, rss = runs["seconds"], runs["rss"].median()
            spread = f"{wall.min():.2f} to {wall.max():.2f}"
            print(f"{name:24}{hits:>12,}{wall.median():>9.2f}{spread:>15}{rss:>7,.0f}")

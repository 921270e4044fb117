"""Jobs of measured processes.

Ragscore and its peers, each from the same files to the mean of every measure.

Everything but imports is inside the clock; so that what is imported on use is there, each tool does
a tiny task first. `means` are by our names, to see that the tools agree.
"""

import importlib.util
import statistics
import tempfile
from pathlib import Path
from typing import Any

from ragscore.scoring.summary import summarize
from tests.benchmarks.process import Clock, Measured, best_of, peak_mib

KS = (1, 3, 5, 10)
CUTS = ",".join(map(str, KS))
THEIRS = {
    f"success.{CUTS}",
    f"recall.{CUTS}",
    f"P.{CUTS}",
    f"map_cut.{CUTS}",
    f"ndcg_cut.{CUTS}",
    "recip_rank",
}
CHECKED = ("hit@10", "recall@10", "precision@10", "map@10", "mrr", "ndcg_linear@10")


def version(clock: Clock, package: str) -> Measured:
    """Which version of a package this interpreter has; none if it hasn't."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    try:
        return {"version": of(package) if importlib.util.find_spec(package.split("-")[0]) else None}
    except PackageNotFoundError:
        return {"version": None}


def write(clock: Clock, folder: str, n_queries: int, variants: list[str]) -> Measured:
    """Write a workload's files; in a process of its own, so that its memory is given back."""
    from tests.benchmarks.workload import write_workload

    for variant in variants:
        with clock.stage(variant):
            write_workload(Path(folder) / variant, n_queries, variant)
    return {}


# ragscore


def warm_up() -> None:
    """Let ragscore import what it imports on use."""
    import ragscore as rs
    from tests.benchmarks.workload import as_results, make_run

    hits, golden = make_run(2, 5, 100)
    summarize(rs.score(as_results(hits, golden), golden, match="doc"))
    with tempfile.TemporaryDirectory() as folder:
        kept = rs.RunStore(folder)
        kept.save(as_results(hits, golden))
        kept.score(golden, match="doc")


def frames(clock: Clock, folder: str, match: str = "doc", ids: str = "str") -> Measured:
    """ragscore from Parquet files that pandas reads."""
    import pandas as pd

    import ragscore as rs
    from tests.benchmarks.workload import as_results

    hit_id = "chunk_id" if match == "chunk" else "doc_id"
    warm_up()
    with clock.stage("read"):
        hits = pd.read_parquet(
            f"{folder}/hits.parquet", columns=["run_id", "query_id", "rank", hit_id]
        )
        queries, targets = (
            pd.read_parquet(f"{folder}/{name}.parquet") for name in ("queries", "targets")
        )
    if ids != "str":
        hits = hits.astype({"query_id": ids, hit_id: ids})
    given = peak_mib()
    with clock.stage("score"):
        golden = rs.Golden(queries=queries, targets=targets)
        scores = rs.score(as_results(hits, golden), golden, match=match)
    with clock.stage("summarize"):
        summary = summarize(scores)
    return {**_ours(summary), "given": given}


def store(clock: Clock, folder: str) -> Measured:
    """ragscore from its store."""
    import ragscore as rs
    from tests.benchmarks.workload import read_golden

    warm_up()
    with clock.stage("read"):
        golden = read_golden(Path(folder))
    with clock.stage("score"):
        scores = rs.RunStore(f"{folder}/store").score(golden, match="doc")
    with clock.stage("summarize"):
        summary = summarize(scores)
    return _ours(summary)


def _ours(summary: Any) -> Measured:
    means = summary.set_index("metric")["mean"]
    return {
        "means": {name: float(means[name]) for name in CHECKED},
        "n_measures": int(means.notna().sum()),
    }


def floor(clock: Clock, files: dict[str, str], columns: list[str]) -> Measured:
    """The least a reader can take.

    Pyarrow reading the columns that scoring needs, warm, best of five.
    """
    import pyarrow.parquet as pq

    for name, file in files.items():
        clock.wall[name] = best_of(lambda file=file: pq.read_table(file, columns=columns))  # type: ignore[misc]
    return {}


# Peers


def pytrec_eval(clock: Clock, folder: str, hit_id: str = "doc_id", dicts: str = "rows") -> Measured:
    """pytrec_eval, its dicts built row by row, or (dicts="slices") as fast as rows that are sorted
    by query allow.
    """
    import pandas as pd
    import pytrec_eval as tool

    from tests.benchmarks.dicts import from_rows, from_slices

    tool.RelevanceEvaluator({"q": {"d": 1}}, THEIRS).evaluate({"q": {"d": 1.0}})
    with clock.stage("read"):
        hits = pd.read_parquet(f"{folder}/hits.parquet", columns=["query_id", hit_id, "score"])
        targets = pd.read_parquet(
            f"{folder}/targets.parquet", columns=["query_id", hit_id, "grade"]
        )
    build = from_slices if dicts == "slices" else from_rows
    with clock.stage("dicts"):
        run, qrels = build(hits, hit_id, "score"), build(targets, hit_id, "grade")
    with clock.stage("evaluate"):
        found = tool.RelevanceEvaluator(qrels, THEIRS).evaluate(run)
    with clock.stage("summarize"):
        names = list(next(iter(found.values())))
        means = {
            name: statistics.fmean(values[name] for values in found.values()) for name in names
        }
    theirs = ("success_10", "recall_10", "P_10", "map_cut_10", "recip_rank", "ndcg_cut_10")
    return {
        "means": {ours: means[name] for ours, name in zip(CHECKED, theirs, strict=True)},
        "n_measures": len(means),
    }


def ir_measures(clock: Clock, folder: str) -> Measured:
    """ir_measures from DataFrames."""
    import ir_measures as tool
    import pandas as pd

    asked = [
        tool.parse_measure(f"{name}@{k}")
        for name in ("Success", "R", "P", "AP", "nDCG")
        for k in KS
    ] + [tool.parse_measure("RR")]
    tiny = pd.DataFrame({"query_id": ["q"], "doc_id": ["d"], "score": [1.0], "relevance": [1]})
    tool.calc_aggregate(asked, tiny, tiny)
    with clock.stage("read"):
        hits = pd.read_parquet(f"{folder}/hits.parquet", columns=["query_id", "doc_id", "score"])
        targets = pd.read_parquet(
            f"{folder}/targets.parquet", columns=["query_id", "doc_id", "grade"]
        )
    with clock.stage("score"):
        found = tool.calc_aggregate(asked, targets.rename(columns={"grade": "relevance"}), hits)
    means = {str(name): float(value) for name, value in found.items()}
    theirs = ("Success@10", "R@10", "P@10", "AP@10", "RR", "nDCG@10")
    return {
        "means": {ours: means[name] for ours, name in zip(CHECKED, theirs, strict=True)},
        "n_measures": len(means),
    }


def ranx(clock: Clock, folder: str) -> Measured:
    """ranx from DataFrames; the tiny task compiles its functions."""
    import pandas as pd
    from ranx import Qrels, Run, evaluate

    asked = [
        f"{name}@{k}" for name in ("hit_rate", "recall", "precision", "map", "ndcg") for k in KS
    ] + ["mrr"]
    names = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
    # Ids as long as those to come: another length is another type, for which all would be compiled
    # again.
    tiny = pd.DataFrame(
        {
            "query_id": ["query-000000"] * 2,
            "doc_id": ["doc-0000000", "doc-0000001"],
            "score": [1.0, 0.5],
            "grade": [1, 2],
        }
    )
    tiny = tiny.astype({"query_id": object, "doc_id": object})
    evaluate(
        Qrels.from_df(tiny, **names, score_col="grade"),
        Run.from_df(tiny, **names, score_col="score"),
        asked,
    )
    with clock.stage("read"):
        hits = pd.read_parquet(f"{folder}/hits.parquet", columns=["query_id", "doc_id", "score"])
        targets = pd.read_parquet(
            f"{folder}/targets.parquet", columns=["query_id", "doc_id", "grade"]
        )
    with clock.stage("dicts"):
        ids = {"query_id": object, "doc_id": object}
        run = Run.from_df(hits.astype(ids), **names, score_col="score")
        qrels = Qrels.from_df(targets.astype({**ids, "grade": "int64"}), **names, score_col="grade")
    with clock.stage("evaluate"):
        found = evaluate(qrels, run, asked)
    theirs = ("hit_rate@10", "recall@10", "precision@10", "map@10", "mrr", "ndcg@10")
    means = {ours: float(found[name]) for ours, name in zip(CHECKED, theirs, strict=True)}
    return {"means": means, "n_measures": len(found), **version(clock, "ranx")}

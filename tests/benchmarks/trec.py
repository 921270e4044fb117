"""Time from TREC text to means: `python -m tests.benchmarks.trec [n_lines]`.

A run and its judgements as text files, read and scored by ragscore and by pytrec_eval's own parsers
and evaluator: the same 21 measures. Tools run in turn, each in a fresh process; medians and ranges.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.process import Clock, Measured, median, run_fresh
from tests.benchmarks.tools import CHECKED, KS, THEIRS, warm_up
from tests.benchmarks.workload import DEPTH

REPEATS = 5
OURS = [f"{name}@{k}" for name in ("hit", "recall", "precision", "map", "ndcg_linear") for k in KS]
NAMES = ("success_10", "recall_10", "P_10", "map_cut_10", "recip_rank", "ndcg_cut_10")


def write(clock: Clock, folder: str, n_queries: int) -> Measured:
    """Write run.txt and qrels.txt."""
    from tests.benchmarks.workload import make_run

    hits, golden = make_run(n_queries, DEPTH)
    hits["score"] = 1.0 / hits["rank"]
    for name, frame, columns in (
        ("run", hits, ["query_id", "Q0", "doc_id", "rank", "score", "tag"]),
        ("qrels", golden.targets, ["query_id", "Q0", "doc_id", "grade"]),
    ):
        frame.assign(Q0=0, tag="bm25")[columns].to_csv(
            f"{folder}/{name}.txt", sep=" ", header=False, index=False
        )
    return {"lines": len(hits), "bytes": Path(f"{folder}/run.txt").stat().st_size}


def ragscore(clock: Clock, folder: str) -> Measured:
    """ragscore, from files to means."""
    import ragscore as rs

    warm_up()
    with clock.stage("read"):
        golden = rs.load_golden(f"{folder}/qrels.txt")
        results = rs.load_results(f"{folder}/run.txt")
    with clock.stage("score"):
        means = rs.score(results, golden, [*OURS, "mrr"])[[*OURS, "mrr"]].mean()
    return {"means": means[list(CHECKED)].to_dict(), "n_measures": len(means)}


def pytrec_eval(clock: Clock, folder: str) -> Measured:
    """pytrec_eval, with its own parsers."""
    import pytrec_eval as tool

    with clock.stage("read"):
        with Path(folder, "qrels.txt").open(encoding="ascii") as lines:
            qrels = tool.parse_qrel(lines)
        with Path(folder, "run.txt").open(encoding="ascii") as lines:
            run = tool.parse_run(lines)
    with clock.stage("score"):
        found = tool.RelevanceEvaluator(qrels, THEIRS).evaluate(run).values()
        means = {name: statistics.fmean(one[name] for one in found) for name in next(iter(found))}
    return {
        "means": {ours: means[name] for ours, name in zip(CHECKED, NAMES, strict=True)},
        "n_measures": len(means),
    }


def main(n_lines: int = 1_000_000) -> None:
    """Print the table, and how far the means lie apart."""
    tools = ("ragscore", "pytrec_eval")
    spent: dict[str, list[Measured]] = {name: [] for name in tools}
    with tempfile.TemporaryDirectory() as folder:
        made = run_fresh("trec", "write", folder=folder, n_queries=n_lines // DEPTH)
        for _ in range(REPEATS):
            for name in tools:
                spent[name].append(run_fresh("trec", name, folder=folder))
    ours, theirs = (spent[name][0] for name in tools)
    apart = max(abs(ours["means"][name] - theirs["means"][name]) for name in CHECKED)
    print(
        f"{made['lines']:,} lines of a run ({made['bytes'] / 1e6:.0f} MB), {REPEATS} alternating"
        f" runs in fresh processes; means differ by {apart:.0e} at most"
    )
    for name, runs in spent.items():
        walls = [sum(one["wall"].values()) for one in runs]
        read, score = (median([one["wall"][stage] for one in runs]) for stage in ("read", "score"))
        cpu = median([sum(one["cpu"].values()) for one in runs])
        rss = median([one["rss"] for one in runs])
        print(
            f"{name:12} median {median(walls):6.2f} s   range {min(walls):.2f} to {max(walls):.2f}"
            f"   cpu {cpu:6.2f} s   read {read:.2f}, score {score:.2f}"
            f"   {runs[0]['n_measures']} measures   {rss:,.0f} MiB"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

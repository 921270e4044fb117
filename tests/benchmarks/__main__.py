"""Time scoring against pytrec_eval: `python -m tests.benchmarks [n_queries]` (default 10,000 queries × 100 hits).

`python -m tests.benchmarks reading [n_lines]` times reading a run file instead: see reading.py.

Both sides start from the same frames of text ids; for pytrec_eval building its dicts is inside the clock, as its users
must. Runs alternate; medians and ranges of five are printed, and the largest difference between the two tools' values.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytrec_eval

import ragscore as rs
from ragscore.metrics import DEFAULT_KS, DEFAULT_METRICS, parse_label
from tests.benchmarks import reading
from tests.benchmarks.workload import as_dicts, as_results, make_run

REPEATS = 5
DEPTH = 100
RANKING = [label for label in DEFAULT_METRICS if parse_label(label).is_ranking]
CUTS = ",".join(map(str, DEFAULT_KS))
THEIRS = {f"success.{CUTS}", f"recall.{CUTS}", f"P.{CUTS}", f"map_cut.{CUTS}", f"ndcg_cut.{CUTS}", "recip_rank"}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds a call takes, and what it gives."""
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def main(n_queries: int) -> None:
    """Print the table."""
    hits, golden = make_run(n_queries, DEPTH)
    results = as_results(hits, golden)
    seconds: dict[str, list[float]] = {"ragscore": [], "pytrec_eval": []}
    for _ in range(REPEATS):
        spent, ours = timed(lambda: rs.score(results, golden, RANKING, match="doc"))
        seconds["ragscore"].append(spent)
        spent, theirs = timed(lambda: _pytrec_eval(hits, golden))
        seconds["pytrec_eval"].append(spent)
    difference = max(abs(ours.loc[query_id, "map@10"] - values["map_cut_10"]) for query_id, values in theirs.items())
    print(
        f"{len(hits):,} hits, {n_queries:,} queries, {len(RANKING)} columns against pytrec_eval's {len(next(iter(theirs.values())))}, {REPEATS} alternating runs"
    )
    for name, spent in seconds.items():
        print(f"{name:12} median {statistics.median(spent):6.3f} s   range {min(spent):.3f} to {max(spent):.3f}")
    print(f"ratio        {statistics.median(seconds['ragscore']) / statistics.median(seconds['pytrec_eval']):.3f} of pytrec_eval's time (dicts and evaluate)")
    print(f"largest difference in map@10: {difference:.1e}; mean mrr {np.mean(ours['mrr']):.4f}")


def _pytrec_eval(hits: Any, golden: rs.Golden) -> dict[str, dict[str, float]]:
    run, qrels = as_dicts(hits, golden)
    found: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(qrels, THEIRS).evaluate(run)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["reading"]:
        reading.main(*map(int, sys.argv[2:]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

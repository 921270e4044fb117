"""Time intervals by bootstrap and tests by permutation.

`python -m tests.benchmarks.resampling [resamples [queries [metrics]]]` (10,000 of 500 and 20).

Against scipy.stats.bootstrap and scipy.stats.permutation_test, called as their users do:
vectorized, one metric after another. Tools run in turn, each in a fresh process; imports, making
the values and a first small call are outside the clock. Medians of three and ranges are printed, as
seconds on the wall and of all cores (which a busy machine disturbs less), as share of scipy's, and
as peak memory of the process. Then `ev.slices` by ten slices and `ev.compare` of whole runs.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

REPEATS = 3
WARMING = 20  # resamples before the clock runs
IN_SLICE = 0.15  # share of the queries in the slice: few enough to be relabelled, not Welch alone
Values = npt.NDArray[np.float64]


def scores(n: int, metrics: int, seed: int = 0) -> tuple[Values, Values]:
    """Two runs' scores, a third of the metrics 0/1, the others anywhere between.

    Two of five queries' scores differ from run to run.
    """
    rng = np.random.default_rng(seed)
    baseline = rng.beta(2, 1, (n, metrics))
    baseline[:, : metrics // 3] = rng.random((n, metrics // 3)) < 0.7
    moved = rng.permuted(baseline, axis=0)
    return baseline, np.where(rng.random((n, metrics)) < 0.4, moved, baseline)


def _our_bootstrap(resamples: int, baseline: Values, candidate: Values) -> Any:
    from ragscore.stats import bootstrap_means

    return lambda: bootstrap_means(baseline, resamples)


def _our_bootstrap_t(resamples: int, baseline: Values, candidate: Values) -> Any:
    from ragscore.stats import bootstrap_t_interval

    return lambda: bootstrap_t_interval(baseline, resamples)


def _scipy_bootstrap(method: str) -> Callable[[int, Values, Values], Any]:
    def prepared(resamples: int, baseline: Values, candidate: Values) -> Any:
        from scipy.stats import bootstrap

        return lambda: [
            bootstrap(
                (column,), np.mean, n_resamples=resamples, vectorized=True, method=method, rng=0
            )
            for column in baseline.T
        ]

    return prepared


def _our_signs(resamples: int, baseline: Values, candidate: Values) -> Any:
    from ragscore.stats import sign_flip_p

    return lambda: sign_flip_p(candidate - baseline, iterations=resamples)


def _scipy_signs(resamples: int, baseline: Values, candidate: Values) -> Any:
    from scipy.stats import permutation_test

    return lambda: [
        permutation_test(
            (column,),
            np.mean,
            permutation_type="samples",
            vectorized=True,
            n_resamples=resamples,
            rng=0,
        )
        for column in (candidate - baseline).T
    ]


def _our_slice(resamples: int, baseline: Values, candidate: Values) -> Any:
    from ragscore.stats import two_sample_test

    inside = np.arange(len(baseline)) < IN_SLICE * len(baseline)
    return lambda: two_sample_test(baseline, inside, iterations=resamples)[0]


def _scipy_slice(resamples: int, baseline: Values, candidate: Values) -> Any:
    from scipy.stats import permutation_test

    cut = int(IN_SLICE * len(baseline))

    def difference(a: Values, b: Values, axis: int) -> Any:
        return a.mean(axis) - b.mean(axis)

    return lambda: [
        permutation_test(
            (column[:cut], column[cut:]), difference, vectorized=True, n_resamples=resamples, rng=0
        )
        for column in baseline.T
    ]


PARTS: dict[str, dict[str, Callable[[int, Values, Values], Any]]] = {
    "intervals of means": {
        "scipy, percentile": _scipy_bootstrap("percentile"),
        "scipy, BCa": _scipy_bootstrap("BCa"),
        "ragscore, percentile": _our_bootstrap,
        "ragscore, studentised": _our_bootstrap_t,
    },
    "p of paired differences": {
        "scipy, sign flips": _scipy_signs,
        "ragscore, sign flips": _our_signs,
    },
    "p of a slice and the rest": {
        "scipy, permutations": _scipy_slice,
        "ragscore, permutations": _our_slice,
    },
}
"""What is found -> by what; the first of each is what the others are compared with."""


WHOLE = ((500, "slices"), (500, "compare"), (50_000, "slices"), (100_000, "compare"))
"""Queries, and the verb that is timed: targets are 1 s for slices, and 3 s for compare."""


def _whole(n: int, verb: str) -> dict[str, float]:
    """Time a verb, imports on use included; two of five lists are in another order."""
    import pandas as pd

    import ragscore as rs
    from tests.benchmarks.workload import as_results, make_run

    rng = np.random.default_rng(0)
    hits, golden = make_run(n, 10, 20_000)
    order = np.tile(np.arange(10), (n, 1))
    moved = rng.random(n) < 0.4
    order[moved] = rng.permuted(order[moved], axis=1)
    docs = hits["doc_id"].take((order + 10 * np.arange(n)[:, None]).ravel())
    other = hits.assign(doc_id=docs.to_numpy())
    slices = pd.Series(rng.integers(0, 10, n).astype("str"), dtype="str")
    golden = rs.Golden(queries=golden.queries.assign(difficulty=slices), targets=golden.targets)
    sides = [as_results(one, golden) for one in (hits, other)]
    frames = {
        name: pd.concat(
            [getattr(side, name).assign(run_id=run) for side, run in zip(sides, "ab", strict=True)],
            ignore_index=True,
        )
        for name in ("runs", "responses", "hits")
    }
    frames["responses"]["elapsed_ms"] = rng.lognormal(5, 1, 2 * n)
    ev = rs.evaluate(rs.Results(**frames), golden)
    one_run = ev.select("a")
    wall, cpu = time.perf_counter(), time.process_time()
    if verb == "slices":
        one_run.slices("difficulty")
    else:
        ev.compare("a", "b")
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def _one(part: str, tool: str, resamples: int, n: int, metrics: int) -> dict[str, float]:
    values = scores(n, metrics)
    PARTS[part][tool](WARMING, *values)()  # what is imported on use is outside the clock, for all
    call = PARTS[part][tool](resamples, *values)
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "rss": peak_memory(),
    }


def peak_memory() -> float:
    """MB this process has held at most."""
    status = Path("/proc/self/status")
    if status.exists():  # `ru_maxrss` begins at what the process it was forked from held
        return (
            int(
                next(
                    line.split()[1]
                    for line in status.read_text().splitlines()
                    if line.startswith("VmHWM")
                )
            )
            / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(resamples: int = 10_000, n: int = 500, metrics: int = 20) -> None:
    """Print the table."""
    spent: dict[tuple[str, str], list[dict[str, float]]] = {
        (part, tool): [] for part, tools in PARTS.items() for tool in tools
    }
    size = [str(resamples), str(n), str(metrics)]
    for _ in range(REPEATS):
        for part, tool in spent:
            command = [
                sys.executable,
                "-m",
                "tests.benchmarks.resampling",
                "--one",
                part,
                tool,
                *size,
            ]
            spent[part, tool].append(
                json.loads(
                    subprocess.run(command, check=True, capture_output=True, text=True).stdout
                )
            )
    print(
        f"{resamples:,} resamples × {n:,} queries × {metrics} metrics, {REPEATS} alternating runs"
        " in fresh processes"
    )
    for part, tools in PARTS.items():
        print(part)
        scipys = {
            key: statistics.median(one[key] for one in spent[part, next(iter(tools))])
            for key in ("wall", "cpu")
        }
        for tool in tools:
            wall, cpu, rss = (
                [one[key] for one in spent[part, tool]] for key in ("wall", "cpu", "rss")
            )
            ratio = (
                f"{statistics.median(wall) / scipys['wall']:6.3f} of scipy's (cpu"
                f" {statistics.median(cpu) / scipys['cpu']:.3f})"
            )
            print(
                f"  {tool:22} median {statistics.median(wall):7.3f} s   range {min(wall):.3f} to"
                f" {max(wall):.3f}   cpu {statistics.median(cpu):7.3f} s   {ratio}  "
                f" {statistics.median(rss):,.0f} MB"
            )

    print("whole runs, ten hits a query: slices of one run by ten slices, compare of two runs")
    for n_queries, verb in WHOLE:
        command = [
            sys.executable, "-m", "tests.benchmarks.resampling", "--whole", str(n_queries), verb
        ]  # fmt: skip
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        one = json.loads(said.splitlines()[-1])
        print(f"  {verb:8} {n_queries:9,} queries   {one['wall']:7.2f} s   cpu {one['cpu']:7.2f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--whole"]:
        print(json.dumps(_whole(int(sys.argv[2]), sys.argv[3])))
    elif sys.argv[1:2] == ["--one"]:
        print(json.dumps(_one(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))))
    else:
        main(*map(int, sys.argv[1:]))

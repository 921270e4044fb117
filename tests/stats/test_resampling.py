"""Resampling many metrics at once.

Equal to one resample after another, whatever is held at a time, in memory that doesn't grow with
their number.
"""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragscore.stats import (
    bootstrap_mean,
    bootstrap_t_interval,
    krippendorff_alpha,
    max_t_p,
    sign_flip_p,
    two_sample_test,
)

ITERATIONS = 60
CELLS = st.one_of(st.just(np.nan), st.sampled_from([0.0, 1.0]), st.floats(-3, 5))
# equal, or clearly apart: rounding decides nothing
TENTHS = st.one_of(st.just(np.nan), st.integers(-30, 50).map(lambda tenths: tenths / 10))


def matrices(cells):
    """Rows of queries, one to six metrics wide."""
    size = st.tuples(st.integers(1, 12), st.integers(1, 6))
    return size.flatmap(
        lambda size: st.lists(
            st.lists(cells, min_size=size[1], max_size=size[1]), min_size=size[0], max_size=size[0]
        )
    )


def splitmix64(seed, count):
    """The first `count` outputs, in whole numbers of any size."""
    mask, state, found = 2**64 - 1, seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        found.append(z ^ (z >> 31))
    return found


def resamples(column, method="numpy", seed=5):
    """The resamples of one column's values, one after another."""
    kept = [value for value in column if value == value]
    n, rng = len(kept), np.random.default_rng(seed)
    outputs = iter(splitmix64(seed, n * ITERATIONS)) if method == "splitmix64" else None
    for _ in range(ITERATIONS):
        yield [kept[next(outputs) % n if outputs else int(rng.integers(0, n))] for _ in range(n)]


@given(matrices(CELLS), st.sampled_from(["numpy", "splitmix64"]))
def test_intervals_of_a_mean_are_those_of_one_resample_after_another(rows, method):
    for column in zip(*rows, strict=True):
        found = bootstrap_mean(column, ITERATIONS, 0.9, 5, method)
        if all(value != value for value in column):
            assert found is None
            continue
        means = [sum(drawn) / len(drawn) for drawn in resamples(column, method)]
        assert found == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])), abs=1e-12)


@given(matrices(TENTHS))
def test_studentised_intervals_are_those_of_one_resample_after_another(rows):
    low, high = bootstrap_t_interval(rows, ITERATIONS, 0.9, 5)
    for place, column in enumerate(zip(*rows, strict=True)):
        kept = np.array([value for value in column if value == value])
        if len(kept) < 2:
            assert np.isnan(low[place]) and np.isnan(high[place])
            continue
        ratios = []
        for drawn in resamples(column):
            spread = np.std(drawn, ddof=1) / len(drawn) ** 0.5
            away = np.mean(drawn) - kept.mean()
            ratios.append(
                away / spread
                if len(set(drawn)) > 1
                else np.copysign(np.inf, away)
                if abs(away) > 1e-9
                else 0.0
            )
        with np.errstate(invalid="ignore"):
            lower, upper = np.quantile(ratios, [0.05, 0.95])
        error = kept.std(ddof=1) / len(kept) ** 0.5
        if np.isfinite(lower) and np.isfinite(upper):
            assert (low[place], high[place]) == pytest.approx(
                (kept.mean() - upper * error, kept.mean() - lower * error), rel=1e-9, abs=1e-9
            )


@pytest.mark.parametrize("at_once", [1, 1_000, 10**7])
def test_no_interval_and_no_p_depends_on_how_much_is_held_at_a_time(monkeypatch, at_once):
    rng = np.random.default_rng(2)
    values, inside, groups = rng.random((30, 5)), np.arange(30) < 11, np.arange(30) // 2
    values[:3, 2] = np.nan

    def found():
        yield np.array(bootstrap_t_interval(values, 301))
        yield two_sample_test(values, inside, iterations=301)[0]
        yield two_sample_test(values, inside, groups=groups, iterations=301)[0]
        yield sign_flip_p(values - 0.5, iterations=301)
        yield max_t_p(values, iterations=301)
        agreement = krippendorff_alpha(values[:, :2].round(1), "ordinal", iterations=301)
        yield np.array([agreement.low, agreement.high])

    before = list(found())
    for name in (
        "bootstrap.AT_ONCE", "bootstrap.BLOCK", "paired.CELLS", "paired.BLOCK", "multiple.BLOCK",
        "agreement.BLOCK",
    ):  # fmt: skip
        monkeypatch.setattr(f"ragscore.stats.{name}", at_once)
    for one, other in zip(before, found(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


@given(st.lists(st.floats(0.01, 3), min_size=17, max_size=30), st.randoms(use_true_random=False))
def test_p_by_random_signs_is_that_of_one_pattern_after_another(sizes, random):
    differences = [random.choice([-1, 1]) * size for size in sizes]
    # Signs are drawn for the largest difference first, for all patterns; a row begins at a whole
    # byte, with the highest bit.
    rng, width = np.random.default_rng(0), -(-ITERATIONS // 8)
    rows = [
        [int(byte) for byte in row]
        for row in rng.integers(0, 256, (len(sizes), width), dtype=np.uint8)
    ]
    ordered, beyond = sorted(sizes, reverse=True), 0
    for pattern in range(ITERATIONS):
        keeps = [row[pattern // 8] >> (7 - pattern % 8) & 1 for row in rows]
        total = sum(size if keep else -size for size, keep in zip(ordered, keeps, strict=True))
        beyond += abs(total) >= abs(sum(differences)) - 1e-12 * sum(sizes)
    assert sign_flip_p(differences, iterations=ITERATIONS)[0] == pytest.approx(
        (1 + beyond) / (ITERATIONS + 1), abs=1e-12
    )


PEAK = """
import sys
import numpy as np
from pathlib import Path
from ragscore.stats import bootstrap_t_interval, sign_flip_p, two_sample_test
values, iterations = np.random.default_rng(0).normal(size=(500, 20)), int(sys.argv[1])
bootstrap_t_interval(values, iterations)
sign_flip_p(values, iterations=iterations)
two_sample_test(values, np.arange(500) < 150, iterations=iterations)[0]
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_peak_memory_does_not_grow_with_the_resamples():
    few, many = (
        int(
            subprocess.run(
                [sys.executable, "-c", PEAK, str(n)], check=True, capture_output=True, text=True
            ).stdout
        )
        for n in (1_000, 20_000)
    )
    # 20,000 resamples of 500 queries and 20 metrics are 1.6 GB; what is kept is a mean of each, and
    # at most BLOCK of them
    assert many - few < 60_000, f"{few} kB for 1,000 resamples, {many} kB for 20,000"

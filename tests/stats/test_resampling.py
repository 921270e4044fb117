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
    max_t_p,
    sign_flip_p,
    two_sample_test,
)

ITERATIONS = 60


@pytest.mark.parametrize("at_once", [1, 1_000, 10**7])
def test_no_p_depends_on_how_much_is_held_at_a_time(monkeypatch, at_once):
    rng = np.random.default_rng(2)
    values, inside, groups = rng.random((30, 5)), np.arange(30) < 11, np.arange(30) // 2
    values[:3, 2] = np.nan

    def found():
        yield two_sample_test(values, inside, iterations=301)[0]
        yield two_sample_test(values, inside, groups=groups, iterations=301)[0]
        yield sign_flip_p(values - 0.5, iterations=301)
        yield max_t_p(values, iterations=301)

    before = list(found())
    for name in ("paired.CELLS", "paired.BLOCK", "multiple.BLOCK"):
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
from ragscore.stats import sign_flip_p, two_sample_test
values, iterations = np.random.default_rng(0).normal(size=(500, 20)), int(sys.argv[1])
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

"""The inner functions, each by itself.

`python -m pytest tests/benchmarks/kernels.py --benchmark-only` (extra `bench`).

Not collected with the tests: its name says no `test_`, and its figures mean something on a quiet
machine only.
"""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.frames.codes import lookup
from ragscore.io import arrow_lines
from ragscore.scoring.grading import grade_matches
from ragscore.scoring.metrics import DEFAULT_METRICS, parse_label, ranking_columns
from ragscore.scoring.rules import apply_rule
from ragscore.stats import bootstrap_mean, bootstrap_t_interval, sign_flip_p

from .reading import lines
from .workload import DEPTH, make_run

N_QUERIES = 1_000
RANKING = [label for label in DEFAULT_METRICS if parse_label(label).is_ranking]


@pytest.fixture(scope="module")
def run() -> tuple[pd.DataFrame, rs.Golden]:
    """100,000 hits with a span, a path, a heading and a text each.

    The targets are ranges and anchors of the same documents.
    """
    hits, golden = make_run(N_QUERIES, DEPTH)
    start = np.random.default_rng(0).integers(0, 1_000, len(hits))
    headings = pd.array([f"guide > part {n % 50}" for n in range(len(hits))], dtype="str")
    hits = hits.assign(
        start=start,
        end=start + 200,
        span_unit="char",
        path=hits["doc_id"],
        heading=headings,
        text="some words and others",
    )
    targets = golden.targets
    targets = targets.assign(
        start=400,
        end=600,
        span_unit="char",
        path=targets["doc_id"],
        heading="guide",
        snippet="WORDS and",
    )
    return hits, rs.Golden(queries=golden.queries, targets=targets)


def test_lookup_of_ids(benchmark: Any, run: tuple[pd.DataFrame, rs.Golden]) -> None:
    hits, golden = run
    wanted = pd.Index(golden.targets["doc_id"].unique())
    assert (benchmark(lookup, hits["doc_id"], wanted) >= 0).any()


@pytest.mark.parametrize(
    "rule",
    [rs.match.by_doc, rs.match.by_span(), rs.match.by_anchor()],
    ids=["by_doc", "by_span", "by_anchor"],
)
def test_rule(benchmark: Any, run: tuple[pd.DataFrame, rs.Golden], rule: rs.match.Rule) -> None:
    hits, golden = run
    assert len(benchmark(rule, hits, golden.targets))


def test_grade_matches(benchmark: Any, run: tuple[pd.DataFrame, rs.Golden]) -> None:
    hits, golden = run
    graded, _ = benchmark(
        grade_matches, apply_rule(rs.match.by_doc, hits, golden.targets), hits, golden.targets
    )
    assert len(graded)


def test_ranking_columns(benchmark: Any, run: tuple[pd.DataFrame, rs.Golden]) -> None:
    hits, golden = run
    graded, found = grade_matches(
        apply_rule(rs.match.by_doc, hits, golden.targets), hits, golden.targets
    )
    rows = pd.DataFrame(
        {"run_id": "run", "query_id": golden.queries["query_id"], "n_hits": DEPTH}
    ).astype({"run_id": "category"})
    assert len(benchmark(ranking_columns, graded, found, golden, rows, RANKING)) == len(RANKING)


@pytest.fixture(scope="module")
def differences() -> Any:
    """Of 500 queries in 20 metrics."""
    return np.random.default_rng(0).normal(0.01, 0.2, (500, 20))


def test_sign_flips(benchmark: Any, differences: Any) -> None:
    assert benchmark(sign_flip_p, differences).shape == (20,)


def test_bootstrap_t(benchmark: Any, differences: Any) -> None:
    low, high = benchmark(bootstrap_t_interval, differences)
    assert (low < high).all()


def test_bootstrap_mean(benchmark: Any, differences: Any) -> None:
    low, high = benchmark(bootstrap_mean, differences[:, 0])
    assert low < high


def test_reading_blocks_of_lines(benchmark: Any) -> None:
    written = "".join(line + "\n" for line in lines(1_000)).encode()
    blocks = benchmark(
        lambda: list(arrow_lines._parse_ahead(arrow_lines._whole_lines(io.BytesIO(written))))
    )
    assert blocks

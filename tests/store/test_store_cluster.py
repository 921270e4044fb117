"""A store scored on a Dask cluster.

The same scores, workers smaller than the data, and nothing lost with a worker.
"""

import os
import pickle
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from stored import stored_run

import ragscore as rs
from ragscore.store import scale
from ragscore.store import tables as run_tables
from tests.messages import refused

pytestmark = pytest.mark.slow
distributed = pytest.importorskip("distributed")

N_QUERIES, N_HITS, TEXT = 1_000, 60, 10_000  # 600 MB of text
# Of a worker, of which its libraries take more than half. Dask pauses one that holds four fifths,
# until it gives back what it freed.
MEMORY_LIMIT = 410_000_000


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit=MEMORY_LIMIT,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store of one run whose hits take more memory than a worker has, and the golden set."""
    rng = np.random.default_rng(0)
    query = np.array([f"q{n:04}" for n in range(N_QUERIES)])
    targets = {one: [f"d{n}" for n in rng.integers(0, 500, 3)] for one in query}
    golden = rs.load_golden({one: list(dict.fromkeys(ids)) for one, ids in targets.items()})

    def piece(ids):
        return rs.load_results(pd.DataFrame({
            "query_id": ids.repeat(N_HITS), "rank": np.tile(np.arange(1, N_HITS + 1), len(ids)),
            "doc_id": [f"d{n}" for n in rng.integers(0, 500, len(ids) * N_HITS)],
            "text": "x" * TEXT,
        }), run_id="big")  # fmt: skip

    store = rs.RunStore(tmp_path_factory.mktemp("large"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_tables, "PART_HITS", 3_000)
        store.save(map(piece, np.array_split(query, 20)))
    return store, golden


def by_doc_reading_texts(hits, targets):
    """As rs.match.by_doc; a rule of one's own is given the texts."""
    assert hits["text"].str.len().eq(10_000).all()
    return rs.match.by_doc(hits, targets)


def peak_memory():
    """Bytes this process has held at most.

    `ru_maxrss` would begin at what the process it was forked from held.
    """
    (peak,) = [
        line.split()[1]
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return int(peak) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory of a process is read from /proc")
def test_workers_smaller_than_the_data_score_it_and_send_only_scores(client, large, monkeypatch):
    store, golden = large
    sent = []

    def counted(*given):
        for value in run_each(*given):
            sent.append(len(pickle.dumps(value, protocol=5)))
            yield value

    run_each = scale.run_each
    monkeypatch.setattr(scale, "run_each", counted)
    scores = store.scores(golden, client=client, rule=by_doc_reading_texts, match="doc")
    monkeypatch.undo()
    texts = stored_run(store, "big").n_rows("hits") * TEXT
    assert texts > MEMORY_LIMIT > max(client.run(peak_memory).values())
    numbers = scores.select_dtypes("float64").to_numpy().nbytes
    # the run's file tells the level, so that no worker looks for it
    assert len(sent) == 20 and numbers <= sum(sent) <= 4 * numbers
    here = store.scores(golden)
    assert_frame_equal(scores, here, check_exact=True)
    assert_frame_equal(store.scores(golden, client=client), here, check_exact=True)


def test_workers_score_a_metric_of_ones_own(client, tmp_path):
    @rs.metric("short@k", "1 if a hit is short", kind="binary")
    def short(hits):
        return (
            hits["x_tokens"].lt(3).groupby([hits["run_id"], hits["query_id"]]).max().astype(float)
        )

    hits = pd.DataFrame({
        "run_id": np.repeat(["a", "b"], 30), "query_id": np.tile(np.repeat(list("xyz"), 10), 2),
        "rank": np.tile(np.arange(1, 11), 6),
        "doc_id": np.tile([f"d{n}" for n in range(10)], 6), "tokens": np.arange(60) % 11,
    })  # fmt: skip
    golden, results = rs.load_golden({one: ["d3"] for one in "xyz"}), rs.load_results(hits)
    store = rs.RunStore(tmp_path / "runs")
    store.save(results)
    asked = [short, "mrr"]
    scores = store.scores(golden, asked, client=client)
    here = rs.score(results, golden, asked)
    assert_frame_equal(scores, here, check_exact=True, check_categorical=False)
    assert set(here["short@1"]) == {0.0, 1.0}


def test_a_worker_killed_in_the_middle_loses_nothing(client, large, tmp_path):
    store, golden = large
    flag = tmp_path / "killed"

    def killing(hits, targets):
        """As rs.match.by_doc; the first worker that gets to the middle of the run is killed."""
        if (hits["query_id"] == "q0500").any() and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return rs.match.by_doc(hits, targets)

    scores = store.scores(
        golden,
        client=client,
        rule=killing,
        match="doc",
        metrics=["mrr", "ndcg@10"],
    )
    assert flag.exists()
    assert_frame_equal(
        scores, store.scores(golden, match="doc", metrics=["mrr", "ndcg@10"]), check_exact=True
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_error_on_a_worker_is_the_error_of_the_library(client, large):
    store, golden = large
    with refused("target"):
        store.scores(
            golden,
            client=client,
            rule=lambda hits, targets: pd.DataFrame({"hit": [0]}),
            match="doc",
        )

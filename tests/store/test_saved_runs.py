"""What is saved of each of many runs is what is saved of it alone, to the byte."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs


@pytest.fixture
def results():
    """Three runs whose rows don't lie run by run, with frames that belong to no run, too."""
    rng = np.random.default_rng(0)
    ids = [f"q{n}" for n in range(40)]
    names = ["b", "a", "none"]
    hits = pd.DataFrame([
        {"run_id": name, "query_id": query, "rank": rank, "doc_id": f"d{rng.integers(9)}{rank}"}
        for name in names[:2] for query in ids for rank in (1, 2, 3)
    ])  # fmt: skip
    responses = pd.DataFrame([
        {"run_id": name, "query_id": query, "query": "?", "error": None}
        for name in names for query in ids
    ])  # fmt: skip
    return rs.Results(
        runs=pd.DataFrame({"run_id": names, "system": ["y", "x", "z"]}),
        responses=responses.sample(frac=1, random_state=1),
        hits=hits.sample(frac=1, random_state=2),
        chunks=pd.DataFrame({"run_id": ["a", None, "b"], "chunk_id": ["1", "2", "3"]}),
    )


@pytest.fixture
def golden():
    ids = [f"q{n}" for n in range(40)]
    targets = pd.DataFrame({
        "query_id": ids, "target_id": [f"d{n % 9}1" for n in range(40)], "level": "doc",
        "doc_id": [f"d{n % 9}1" for n in range(40)], "grade": 1, "alternative": 0,
    })  # fmt: skip
    groups = [f"g{n // 3}" for n in range(40)]
    queries = pd.DataFrame({"query_id": ids, "query": "?", "answerable": True, "group": groups})
    return rs.Golden(queries=queries, targets=targets)


def test_files_are_those_of_a_run_saved_alone(results, golden, tmp_path):
    rs.RunStore(tmp_path / "all").save(results, golden=golden)
    for name in ("a", "b", "none"):
        rs.RunStore(tmp_path / name).save(results.select(name), golden=golden)
        there, alone = (
            {file.name.split("-")[0]: file.read_bytes() for file in folder.glob("*.parquet")}
            for folder in (tmp_path / "all" / name, tmp_path / name / name)
        )
        assert there == alone


def test_what_was_put_into_the_runs_after_loading_is_read_as_a_time(store):
    results = rs.load_results({"run": {"q": ["d"]}})
    results.runs["created_at"] = "2026-01-05"
    store.save(rs.evaluate(results, {"q": ["d"]}))
    assert store.runs()["created_at"].tolist() == [pd.Timestamp("2026-01-05", tz="UTC")]

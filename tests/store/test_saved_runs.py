"""What is saved of each of many runs is what is saved of it alone, to the byte."""

import numpy as np
import pandas as pd

import ragscore as rs

IDS = [f"q{n}" for n in range(40)]
GOLDEN = rs.load_golden(
    [
        {"id": one, "query": "?", "expected_doc_ids": [f"d{n // 3 % 9}1"], "group": f"g{n // 3}"}
        for n, one in enumerate(IDS)
    ]
)


def test_files_are_those_of_a_run_saved_alone(tmp_path):
    rng = np.random.default_rng(0)
    runs = pd.DataFrame({"run_id": ["b", "a", "none"], "system": ["y", "x", "z"]})
    responses = runs[["run_id"]].merge(pd.DataFrame({"query_id": IDS}), how="cross")
    hits = responses[responses["run_id"] != "none"].merge(
        pd.Series([1, 2, 3], name="rank"), how="cross"
    )
    docs = [f"d{rng.integers(9)}{rank}" for rank in hits["rank"]]
    # rows don't lie run by run, and a chunk belongs to no run
    results = rs.Results(
        runs,
        responses.sample(frac=1, random_state=1),
        hits.assign(doc_id=docs).sample(frac=1, random_state=2),
        chunks=pd.DataFrame({"run_id": ["a", None, "b"], "chunk_id": ["1", "2", "3"]}),
    )
    together, alone = rs.RunStore(tmp_path / "all"), rs.RunStore(tmp_path / "alone")
    together.save(results, golden=GOLDEN)
    for name in results.runs["run_id"]:
        alone.save(results.select(name), golden=GOLDEN)
        files, expected = (
            {one.name.split("-")[0]: one.read_bytes() for one in store.path(name).glob("*.parquet")}
            for store in (together, alone)
        )
        assert files == expected, name

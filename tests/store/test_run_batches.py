"""Runs that are read together are what they are one by one, whatever each of them holds."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import answer, hit, record, written_run
from stored import assert_same, edit_table, put_file, put_table, stored_file

import ragscore as rs
from ragscore.frames.data import from_records
from tests.messages import ANY, refused


def with_own_columns(results, n):
    """Columns of one's own, of types that differ from run to run, and missing values among them."""
    hits = results.hits
    values = {
        "x_number": [1, 2.5, "three", None][n], "x_flag": [True, False, None, True][n],
        "x_kind": pd.Categorical([f"kind {n}"] * len(hits)),
        "x_count": pd.array([n, *[None] * (len(hits) - 1)][: len(hits)], dtype="Int64"),
        f"x_only_{n}": 1.0,
    }  # fmt: skip
    return replace(
        results,
        hits=hits.assign(**values),
        responses=(
            results.responses.assign(latency_search_ms=float(n)) if n % 2 else results.responses
        ),
    )


LONG = {"snippet": "long " * 60}
JUDGED = {
    "run_id": "a", "query_id": "q1", "criterion": "faithfulness", "item": "1", "value": 1.0,
}  # fmt: skip
MORE = {
    "a": {"judgments": from_records([JUDGED], "judgments")},
    "d": {
        "chunks": pd.DataFrame({"chunk_id": ["c1", "c2"], "text": ["a", None]}),
        "documents": pd.DataFrame({"doc_id": ["d1"]}),
    },
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder of four runs.

    With chunks, judgments, documents and problems or without, one of them without any hit.
    """
    folder = tmp_path_factory.mktemp("store")
    for n, name in enumerate("abcd"):
        ranks = range(1, 1 if name == "c" else 4)
        hits = [hit(f"c{rank}", f"d{rank}", rank, **(LONG if n else {})) for rank in ranks]
        said = answer("text", paths=["docs/d1.md"]) if name == "b" else None
        records = [record(f"q{q}", hits[q % 2 :], answer=said) for q in range(3)]
        file = written_run(tmp_path_factory.mktemp("runs"), name, records, k=4)
        results = with_own_columns(rs.load_results(file), n)
        rs.RunStore(folder).save(replace(results, **MORE.get(name, {})))
    return folder


@pytest.fixture
def several(template, tmp_path):
    """A copy of its store."""
    return rs.RunStore(shutil.copytree(template, tmp_path / "store"))


def one_by_one(store):
    return rs.Results.concat([store.load(name) for name in "abcd"])


def test_runs_read_together_are_the_runs_read_one_by_one(several):
    expected = one_by_one(several)
    assert_same(several.load(), expected)
    assert set(expected.runs["run_id"]) == set("abcd")
    assert len(expected.problems) == 0 and expected.hits["x_only_3"].notna().sum() == 8
    assert_same(several.load(["d", "b"]), rs.Results.concat([several.load("d"), several.load("b")]))


def test_tables_that_another_program_wrote_are_read_without_what_the_kind_doesnt_know(several):
    expected = one_by_one(several)
    unheard_of = pa.array(np.zeros(len(several.load("a").hits)))
    edit_table(several, "a", "hits", lambda table: table.append_column("unheard_of", unheard_of))
    edit_table(several, "d", "hits", lambda table: table.drop_columns(["run_id"]))
    assert_same(several.load(), expected)


@pytest.mark.parametrize(
    ("break_it", "field", "named"),
    [
        (lambda store: put_table(store, "b", "hits", pd.DataFrame({"rank": ["x"]})), "hits", []),
        (lambda store: put_file(store, "b", "hits", b"PAR1"), None, ["Parquet"]),
        (lambda store: edit_table(store, "b", "hits", lambda one: one.drop_columns(["rank"])),
         "hits", ["rank"]),
    ],
    ids=["other columns", "not Parquet", "no rank"],
)  # fmt: skip
def test_a_table_that_cant_be_read_is_named(several, break_it, field, named):
    break_it(several)
    file = f"b/{stored_file(several, 'b', 'hits').name}"
    with refused(*named, file=file if field is None else ANY, field=field):
        several.load("b")


# What is saved of each of many runs is what is saved of it alone


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

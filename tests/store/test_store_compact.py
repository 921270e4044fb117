"""Many runs in one file.

Read as before, whatever came, changed or went since; and by DuckDB and polars too.
"""

import os
import shutil
from dataclasses import replace
from unittest import mock
from uuid import uuid4

import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer
from stored import (
    compact_file,
    describe,
    edit_table,
    parquet_bytes,
    put_compact,
    stored_file,
)

import ragscore as rs
from ragscore.store import compact
from ragscore.store import runs as stored
from ragscore.store.catalogue import open_catalogue
from ragscore.store.run_cache import CACHE_KEY, load_cache
from ragscore.store.runs import stored_runs
from tests.messages import refused, says, warned


@pytest.fixture
def golden(write_golden):
    return rs.load_golden(write_golden(THREE_QUERIES))


@pytest.fixture
def runs(write_run):
    """Runs of two systems over three months; `n` tells how many."""

    def make(n=6):
        described = [
            {
                "system": ("bm25", "dense")[i % 2],
                "created_at": f"2026-0{i + 1}-15T00:00:00Z",
                "config": {"bm25": {"k1": i % 3}, "chunker_version": "test@1"},
            }
            for i in range(n)
        ]
        return rs.load_results(
            [
                write_run(f"run {n - i}", (RUN_A, RUN_B)[i % 2], **one)
                for i, one in enumerate(described)
            ]
        )

    return make


@pytest.fixture(params=["folder", pytest.param("memory", marks=pytest.mark.slow)])
def store(request, tmp_path):
    return rs.RunStore(
        tmp_path / "store" if request.param == "folder" else f"memory://{uuid4().hex}"
    )


def copied(store, kind="scores"):
    """Which runs are read from the compact file."""
    there = open_catalogue(store.root)
    return sorted(compact.valid_rows(there, kind, list(there.stored))[1])


def test_scores_are_the_same_from_one_file_as_from_many(runs, golden, store, monkeypatch):
    monkeypatch.setattr(compact, "ROWS_OF_GROUP", 7)  # two runs of three rows
    store.save(runs(), golden=golden)
    asked = [
        {},
        {"metrics": "mrr"},
        {"metrics": ["ndcg@3", "mrr"], "runs": ["run 2", "run 6", "run 1"]},
    ]
    before = [store.scores(**one) for one in asked]
    told = store.compact()
    assert (
        told["n_rows"][told["table"] == "scores"].tolist() == [3] * 6
        and told["left_out"].isna().all()
    )
    assert copied(store) == sorted(store.runs()["run_id"])
    for one, expected in zip(asked, before, strict=True):
        pd.testing.assert_frame_equal(store.scores(**one), expected)
    assert before[0]["run_id"].drop_duplicates().tolist() == [
        f"run {n}" for n in (6, 5, 4, 3, 2, 1)
    ]
    with refused(6, "mrr@7", field="metrics"):
        store.scores("mrr@7")


def test_what_came_changed_or_went_since_is_read_as_it_is(runs, golden, store, write_golden):
    results = runs()
    first = results.select([f"run {n}" for n in (1, 2, 3, 4, 5)])
    store.save(first, golden=golden)
    store.compact()
    store.save(results.select("run 6"), golden=golden)  # new
    changed = results.select("run 2")
    store.save(replace(changed, hits=changed.hits.iloc[:1]), golden=golden, overwrite=True)
    relabelled = rs.load_golden(
        write_golden(
            [
                one | {"expected_chunk_ids": ["x"], "expected_doc_ids": ["dx"]}
                for one in THREE_QUERIES
            ]
        )
    )
    store.refresh(relabelled, runs="run 3")
    gone = f"{store.root}/run 4"
    (
        shutil.rmtree(gone)
        if gone.startswith("/")
        else store.root.fs.rm(f"{store.root.path}/run 4", recursive=True)
    )
    assert copied(store) == ["run 1", "run 5"]
    with warned("run 3"):
        found = store.scores("mrr", allow_different=True)
    assert found["run_id"].drop_duplicates().tolist() == [
        "run 6",
        "run 5",
        "run 3",
        "run 2",
        "run 1",
    ]
    expected = {
        name: (
            rs.score(store.load(name), relabelled if name == "run 3" else golden, "mrr")[
                "mrr"
            ].tolist()
        )
        for name in found["run_id"].unique()
    }
    assert {
        name: part["mrr"].tolist() for name, part in found.groupby("run_id", observed=True)
    } == expected
    store.compact()
    assert copied(store) == ["run 1", "run 2", "run 3", "run 5", "run 6"]


def test_scores_rewritten_under_the_same_description_are_not_read_from_before(
    write_run, golden, store
):
    """Citations were replaced.

    Run.json says the same of golden set, judges and fields; only the files that it names differ.
    """
    records = [{**one, "answer": answer("text", paths=["docs/elsewhere.md"])} for one in RUN_A]
    results = rs.load_results(write_run("run 1", records))
    store.save(results, golden=golden)
    store.compact()
    assert store.scores("citation_coverage").loc["q1", "citation_coverage"] == 0 and copied(
        store
    ) == ["run 1"]
    (before,) = stored_runs(store.root)
    store.add("run 1", citations=results.citations.assign(path="docs/d1.md"), overwrite=True)
    store.refresh(golden)
    (after,) = stored_runs(store.root)
    assert before.described | {"ragscore": 0} == after.described | {"ragscore": 0}
    assert after.digest != before.digest and copied(store) == []
    assert store.scores("citation_coverage").loc["q1", "citation_coverage"] == 1


def test_a_run_whose_own_columns_are_of_another_type_is_left_out_and_said(runs, golden, store):
    results = runs(2)
    for name, values in (("run 2", 1.5), ("run 1", "text")):
        one = results.select(name)
        store.save(replace(one, hits=one.hits.assign(x_note=values)), golden=golden)
    told = store.compact()
    (left,) = told[told["left_out"].notna()].to_dict("records")
    assert (left["table"], left["run_id"]) == ("hits", "run 1")
    says(left["left_out"], "x_note", "large_string", "double")
    assert store.load("run 1").hits["x_note"].unique().tolist() == ["text"]


def test_only_tables_of_runs_asked_for_are_opened(runs, golden, tmp_path):
    store = rs.RunStore(tmp_path)
    store.save(runs(), golden=golden)
    for name in ("run 6", "run 4"):
        stored_file(store, name, "scores").write_bytes(b"damaged")
    assert store.scores("mrr", runs=["run 5", "run 3", "run 1"])["run_id"].nunique() == 3
    with refused(file=f"run 6/{stored_file(store, 'run 6', 'scores').name}"):
        store.scores("mrr")


def test_duckdb_and_polars_read_the_folder(runs, golden, tmp_path):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    store = rs.RunStore(tmp_path / "s")
    store.save(runs(), golden=golden)
    expected = store.scores("mrr").groupby("system")["mrr"].mean().to_dict()
    told = store.compact()
    (scores,) = told["file"][told["table"] == "scores"].unique()
    assert scores == str(compact_file(store, "scores"))
    sql = f"SELECT system, avg(mrr) FROM '{scores}' GROUP BY system"
    assert dict(duckdb.sql(sql).fetchall()) == pytest.approx(expected)
    joined = f"""SELECT system, avg(mrr) FROM read_parquet({store.files("scores")})
        JOIN (SELECT run_id, system FROM '{compact_file(store, "runs")}') USING (run_id)
                 WHERE system = 'dense' GROUP BY system"""
    assert dict(duckdb.sql(joined).fetchall()) == pytest.approx({"dense": expected["dense"]})
    read = (
        polars.scan_parquet(store.files("scores")).select(polars.col("mrr").mean()).collect().item()
    )
    assert read == pytest.approx(store.scores("mrr")["mrr"].mean())
    by_system = (
        polars.scan_parquet(scores).group_by("system").agg(polars.col("mrr").mean()).collect()
    )
    assert dict(by_system.iter_rows()) == pytest.approx(expected)
    (hits,) = duckdb.sql(
        f"SELECT count(*) FROM read_parquet({store.files('hits', ['run 1', 'run 2'])})"
    ).fetchall()
    assert hits == (len(store.load(["run 1", "run 2"]).hits),)


@pytest.fixture
def settled(monkeypatch):
    """Files count as written a while ago."""
    monkeypatch.setattr("ragscore.store.places.SETTLED_NS", -1)


def opened(root):
    """The folders whose run.json a store that is opened anew reads."""
    with mock.patch.object(stored, "_read_run", wraps=stored._read_run) as reader:
        stored_runs(root)
    return [call.args[1] for call in reader.call_args_list]


def test_of_runs_that_were_compacted_no_description_is_opened(runs, golden, tmp_path, settled):
    store = rs.RunStore(tmp_path)
    store.save(runs(), golden=golden)
    own = [
        {"created_at": "2026-03-01T12:00:00.000123+02:00", "x_flag": True, "n_failed": 2},
        {"note": "ü", "extra": {"depth": [1, 2.5], "of": 7}},
    ]
    for name, values in zip(("run 2", "run 5"), own, strict=True):
        describe(tmp_path, name, lambda run, values=values: run | values)
    expected = store.scores("mrr")
    store.compact()
    anew = rs.RunStore(tmp_path)
    assert opened(tmp_path) == []
    pd.testing.assert_frame_equal(anew.scores("mrr"), expected)
    pd.testing.assert_frame_equal(anew.runs(), store.runs())
    pd.testing.assert_frame_equal(anew.provenance(), store.provenance())


def test_a_description_rewritten_in_the_same_second_with_the_same_size_is_read_anew(
    runs, golden, tmp_path, settled
):
    store = rs.RunStore(tmp_path)
    store.save(runs(2), golden=golden)
    file = tmp_path / "run 1" / "run.json"
    second = file.stat().st_mtime_ns // 10**9 * 10**9
    os.utime(file, ns=(second, second))
    store.compact()
    before = store.scores("mrr")
    size = file.stat().st_size
    describe(tmp_path, "run 1", lambda run: run | {"system": "other"})
    assert file.stat().st_size == size
    os.utime(file, ns=(second, second + 1))
    for one in (rs.RunStore(tmp_path), store):
        assert set(one.scores("mrr")["system"]) == {"bm25", "other"} and set(before["system"]) == {
            "bm25",
            "dense",
        }
        assert one.runs()["system"].tolist() == ["bm25", "other"]
    assert opened(tmp_path) == ["run 1"]


def test_a_description_that_has_just_been_written_is_not_cached(runs, golden, tmp_path):
    store = rs.RunStore(tmp_path)
    store.save(runs(2), golden=golden)
    long_ago = 10**18
    os.utime(tmp_path / "run 2" / "run.json", ns=(long_ago, long_ago))
    future = 4 * 10**18
    os.utime(tmp_path / "run 1" / "run.json", ns=(future, future))
    store.compact()
    assert list(load_cache(tmp_path)) == ["run 2"] and opened(tmp_path) == ["run 1"]
    assert rs.RunStore(tmp_path).runs()["run_id"].tolist() == ["run 2", "run 1"]


@pytest.mark.parametrize(
    "garbage",
    ["damaged", "no parquet", "none", '{"runs": {"run 1": 0}}'],
)
def test_a_cache_that_cannot_be_understood_is_none(runs, golden, tmp_path, settled, garbage):
    store = rs.RunStore(tmp_path)
    store.save(runs(2), golden=golden)
    store.compact()
    expected = store.scores()
    table = pq.read_table(compact_file(store, "runs"))
    assert opened(tmp_path) == []
    if garbage == "damaged":
        compact_file(store, "runs").write_bytes(b"garbage")
    elif garbage == "no parquet":
        put_compact(store, "runs", b"garbage")
    else:
        notes = {CACHE_KEY: garbage} if garbage != "none" else {}
        put_compact(store, "runs", parquet_bytes(table.replace_schema_metadata(notes)))
    assert opened(tmp_path) == ["run 1", "run 2"]
    pd.testing.assert_frame_equal(rs.RunStore(tmp_path).scores(), expected)


def test_a_run_without_rows_and_files_that_are_no_runs_do_no_harm(runs, golden, tmp_path):
    store = rs.RunStore(tmp_path)
    store.save(runs(3), golden=golden)
    for name in ("run 1", "run 3"):
        edit_table(store, name, "scores", lambda table: table.slice(0, 0))
    (tmp_path / "note.txt").write_text("no run")
    (tmp_path / "empty").mkdir()
    expected = store.scores(["mrr", "hit@1"])
    assert expected["run_id"].unique().tolist() == ["run 2"] and expected[
        "run_id"
    ].cat.categories.tolist() == ["run 3", "run 2", "run 1"]
    store.compact()
    assert copied(store) == ["run 1", "run 2", "run 3"]
    pd.testing.assert_frame_equal(store.scores(["mrr", "hit@1"]), expected)
    assert store.scores("mrr", ["run 1", "run 3"]).empty
    assert rs.RunStore(tmp_path / "nowhere").runs().empty

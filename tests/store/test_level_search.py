"""Stored runs have the match level of the runs in memory, found by statistics or in the hits."""

from dataclasses import replace

import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import answer, hit, record
from stored import put_table, stored_file

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.level import choose_level
from ragscore.store import level_search, scoring
from ragscore.store.catalogue import open_catalogue
from ragscore.store.parts import statistics_of

GOLDENS = {
    "doc": [{"id": "q0", "query": "?", "expected_doc_ids": ["d1"]}],
    "anchor": [
        {
            "id": "q0",
            "query": "?",
            "gold_supports": [{"path": "docs/d1.md", "heading": "root", "snippets": ["snip"]}],
        }
    ],
    "chunk": [{"id": "q0", "query": "?", "expected_chunk_ids": ["c1"], "expected_doc_ids": ["d1"]}],
    "predicate": [{"id": "q0", "query": "?", "expected_metadata": {"k": "v"}}],
    "mixed": [
        {"id": "q0", "query": "?", "expected_doc_ids": ["d1"]},
        {"id": "q1", "query": "?", "gold_supports": [{"path": "docs/d1.md"}]},
    ],
}
NOT_COMPARED = ("citation_levels",)


def without(*columns):
    """Hits that lack these columns, or hold nothing in them."""
    return lambda results: replace(results, hits=results.hits.drop(columns=list(columns)))


def holding_nothing_in(column):
    return lambda results: replace(
        results,
        hits=results.hits.assign(
            **{column: pd.Series(pd.NA, index=results.hits.index, dtype=results.hits[column].dtype)}
        ),
    )


def holding_one_in(column):
    return lambda results: replace(
        results,
        hits=results.hits.assign(**{column: results.hits[column].where(results.hits.index == 2)}),
    )


def with_metadata(results):
    run_id = results.runs["run_id"].iloc[0]
    meta = from_records(
        [{"run_id": run_id, "query_id": "q0", "rank": 1, "key": "k", "value": '"v"'}], "hit_meta"
    )
    return replace(without("text")(results), hit_meta=meta)


EDITS = {
    "whole": lambda results: results,
    "no path": without("path"),
    "nothing in path": holding_nothing_in("path"),
    "one path": holding_one_in("path"),
    "no document": without("doc_id"),
    "nothing in document": holding_nothing_in("doc_id"),
    "no text": without("text"),
    "metadata": with_metadata,
    "a source key": lambda results: replace(
        results,
        hits=results.hits.drop(columns="text").assign(
            source_key=["k"] + [pd.NA] * (len(results.hits) - 1)
        ),
    ),
    "no hits": lambda results: replace(results, hits=results.hits.iloc[:0]),
    "other chunker": lambda results: replace(
        results, hits=results.hits.assign(chunker_version="other@2")
    ),
    "two chunkers": lambda results: replace(
        results,
        hits=results.hits.assign(chunker_version=["one@1"] + ["two@2"] * (len(results.hits) - 1)),
    ),
    "unknown chunker": holding_nothing_in("chunker_version"),
    "other chunks": lambda results: replace(
        results,
        hits=results.hits.assign(chunk_id="x" + results.hits["chunk_id"], chunker_version=pd.NA),
    ),
}


@pytest.fixture
def runs(write_run):
    hits = [hit(f"c{rank}", f"d{rank}", rank) for rank in (1, 2)]
    return {
        name: rs.load_results(write_run(name, [record("q0", hits), record("q1", hits)], k=2))
        for name in ("a", "b")
    }


def levels_of(kept, golden, monkeypatch, **choices):
    """The level that the store scores at, and the one of its runs in memory."""
    settled = []

    def find_level(*given):
        settled.append(level_search.find_level(*given))
        return settled[-1]

    monkeypatch.setattr(scoring, "find_level", find_level)
    kept.score(golden, **choices)
    return (
        replace(level, citation_levels=None)
        for level in (settled[0].level, choose_level(kept.load(), golden))
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("by_statistics", [True, False], ids=["by statistics", "by hits"])
@pytest.mark.parametrize("part_hits", [None, 2], ids=["together", "one by one"])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("rows", GOLDENS.values(), ids=GOLDENS)
def test_stored_runs_have_the_level_of_the_runs_in_memory(
    runs, write_golden, tmp_path, rows, edit, part_hits, by_statistics, monkeypatch
):
    if not by_statistics:
        monkeypatch.setattr(level_search, "_from_file_statistics", lambda *given: None)
    kept, golden = rs.RunStore(tmp_path / "kept"), rs.load_golden(write_golden(rows))
    # one run of them all is enough for these
    kept.save(edit(runs["a"]) if rows == GOLDENS["predicate"] else runs["a"])
    kept.save(edit(runs["b"]))
    found, expected = levels_of(kept, golden, monkeypatch, part_hits=part_hits)
    assert found == expected


@pytest.mark.large
@pytest.mark.parametrize("rows", [GOLDENS["doc"], GOLDENS["anchor"]], ids=["doc", "anchor"])
def test_where_statistics_tell_the_level_no_hit_is_looked_at(
    runs, write_golden, tmp_path, rows, monkeypatch
):
    kept, golden = rs.RunStore(tmp_path / "kept"), rs.load_golden(write_golden(rows))
    for results in runs.values():
        kept.save(results)
    monkeypatch.delattr(level_search, "read_batch")
    found, expected = levels_of(kept, golden, monkeypatch)
    assert found == expected


def looked_at(kept, golden, monkeypatch, **choices):
    """How often hits are looked at for the level."""
    looks = []
    monkeypatch.setattr(
        level_search, "read_batch", lambda *given: looks.append(given) or read(*given)
    )
    read = scoring.score_batch.__globals__["read_batch"]
    kept.score(golden, **choices)
    return len(looks)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_hits_are_looked_at_where_statistics_dont_tell_the_level(
    runs, write_golden, tmp_path, monkeypatch
):
    doc, chunk = (
        rs.load_golden(write_golden(GOLDENS[name], f"{name}.yaml")) for name in ("doc", "chunk")
    )
    kept = rs.RunStore(tmp_path / "kept")
    kept.save(runs["a"])
    assert (
        looked_at(kept, doc, monkeypatch) == 0
        and looked_at(kept, chunk, monkeypatch) == 1
        and looked_at(kept, doc, monkeypatch, collapse="doc") == 1
    )
    table = pq.read_table(stored_file(kept, "a", "hits"))
    put_table(kept, "a", "hits", table, write_statistics=False)
    assert set(statistics_of(open_catalogue(kept.root).stored["a"], "hits").values()) == {None}
    assert looked_at(kept, doc, monkeypatch) == 1
    found, expected = levels_of(kept, doc, monkeypatch)
    assert found == expected


def test_citations_are_looked_at(write_run, write_golden, tmp_path, monkeypatch):
    golden, kept = rs.load_golden(write_golden(GOLDENS["doc"])), rs.RunStore(tmp_path / "kept")
    kept.save(
        rs.load_results(
            write_run(
                "a",
                [record("q0", [hit("c1", "d1", 1)], answer=answer("text", paths=["docs/d1.md"]))],
                k=1,
            )
        )
    )
    assert (
        looked_at(kept, golden, monkeypatch) == 1
        and looked_at(kept, golden, monkeypatch, metrics="mrr") == 0
    )


def test_statistics_tell_of_every_column_whether_it_holds_a_value(runs, tmp_path):
    kept = rs.RunStore(tmp_path / "kept")
    kept.save(holding_one_in("path")(holding_nothing_in("doc_id")(runs["a"])))
    found = statistics_of(open_catalogue(kept.root).stored["a"], "hits")
    assert (found["path"], found["doc_id"], found["rank"]) == (
        True,
        False,
        True,
    ) and "x_none" not in found
    assert statistics_of(open_catalogue(kept.root).stored["a"], "judgments") == {}

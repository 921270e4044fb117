"""Stored runs have the match level of the runs in memory, found by statistics or in the hits."""

from dataclasses import replace

import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.level import choose_level
from ragscore.store import level_search, scoring

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
    "one path": holding_one_in("path"),
    "nothing in document": holding_nothing_in("doc_id"),
    "metadata": with_metadata,
    "source key": lambda results: replace(
        results,
        hits=results.hits.drop(columns="text").assign(
            source_key=["k"] + [pd.NA] * (len(results.hits) - 1)
        ),
    ),
    "no hits": lambda results: replace(results, hits=results.hits.iloc[:0]),
    "two chunkers": lambda results: replace(
        results,
        hits=results.hits.assign(chunker_version=["one@1"] + ["two@2"] * (len(results.hits) - 1)),
    ),
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


class Settled(Exception):
    """The level is found; what scoring does with it is tested elsewhere."""


def level_of(kept, golden, monkeypatch, **choices):
    """The level that the store scores at."""

    def find_level(*given):
        raise Settled(level_search.find_level(*given).level)

    with monkeypatch.context() as patched, pytest.raises(Settled) as found:
        patched.setattr(scoring, "find_level", find_level)
        kept.score(golden, **choices)
    return found.value.args[0]


def level_in_memory(kept, golden):
    return choose_level(kept.load(), golden)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("edit", "is_beside_a_whole_run"),
    [
        ("whole", True),
        ("one path", True),
        ("metadata", False),
        *(pytest.param(name, True, marks=pytest.mark.slow) for name in list(EDITS)[1:]),
    ],
)
def test_stored_runs_have_the_level_of_the_runs_in_memory(
    runs, tmp_path, edit, is_beside_a_whole_run, monkeypatch
):
    kept = rs.RunStore(tmp_path / "kept")
    kept.save(runs["a"] if is_beside_a_whole_run else EDITS[edit](runs["a"]))
    kept.save(EDITS[edit](runs["b"]))
    for name, rows in GOLDENS.items():
        golden = rs.load_golden(rows)
        expected = level_in_memory(kept, golden)
        assert level_of(kept, golden, monkeypatch) == expected, name
        with monkeypatch.context() as patched:
            patched.setattr(level_search, "_from_file_statistics", lambda *given: None)
            assert level_of(kept, golden, monkeypatch, part_hits=2) == expected, f"{name}, by hits"

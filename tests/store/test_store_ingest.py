"""A run file read straight into a store leaves what loading and saving it leaves, or the same
error and the store as it was; memory doesn't grow with the file.
"""

import gzip
import json
import math
import random
import re
import warnings
from uuid import uuid4

import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import EXAMPLES, answer, hit, record
from damaged_files import READERS, damaged, written
from plausible_runs import equal, plausible, put
from stored import described, named_by, stored_file, stored_table

import ragscore as rs
from ragscore.io import file_content, parsed_lines
from ragscore.store import ingest
from ragscore.store import tables as run_tables
from tests.messages import ANY, refused, warned

N_FILES = EXAMPLES // 2
GOOD = [
    record(f"q{n}", [hit(f"c{n}", f"d{n}", 1), hit("c", "d", 2)], answer=answer("yes", paths=["p"]))
    for n in range(30)
]


@pytest.fixture
def small(monkeypatch):
    """Blocks, frames and row groups of a few rows, read by the fast reader (0) or line by line
    (infinity).
    """

    def make(from_bytes=0, block=2_000, group_rows=16, group_bytes=10**9):
        monkeypatch.setattr(parsed_lines, "FEWEST", from_bytes)
        monkeypatch.setattr(file_content, "BLOCK_BYTES", block)
        monkeypatch.setattr(run_tables, "GROUP_ROWS", group_rows)
        monkeypatch.setattr(ingest, "GROUP_BYTES", group_bytes)

    make()
    return make


TOKEN = re.compile(r"-[0-9a-f]{12}(?=\.)")  # of a file's name, which no other file has


def left_by(call, store):
    """What a call leaves in a store, or its error, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call(store)
        except rs.DataError as error:
            found = str(error)
    there = (
        sorted(
            TOKEN.sub("", str(file.relative_to(store.root)))
            for file in store.root.rglob("*")
            if file.name != ".gitignore"
        )
        if store.root.exists()
        else []
    )
    return found, there, [str(one.message) for one in caught]


def same_both_ways(file, tmp_path, strict=True, text="cut"):
    """Compare; what both end in."""
    loaded, streamed_to = (rs.RunStore(tmp_path / uuid4().hex) for _ in range(2))
    plain = left_by(
        lambda store: store.save(
            rs.load_results(file, format="per_query", strict=strict), text=text
        ),
        loaded,
    )
    found = left_by(
        lambda store: store.ingest(file, format="per_query", strict=strict, text=text), streamed_to
    )
    assert found == plain
    for run_id in plain[0] if isinstance(plain[0], list) else []:
        equal(streamed_to.load(run_id), loaded.load(run_id))
        assert described(streamed_to, run_id) | {"ragscore": 0} == described(loaded, run_id) | {
            "ragscore": 0
        }
        for kind in named_by(loaded, run_id):
            ours, theirs = (
                pq.read_schema(stored_file(store, run_id, kind)) for store in (streamed_to, loaded)
            )
            assert ours.remove_metadata() == theirs.remove_metadata()
    return plain[0]


@pytest.mark.slow
@pytest.mark.parametrize("from_bytes", [0, math.inf])
def test_files_of_plausible_records_leave_the_same_store(small, tmp_path, from_bytes):
    for seed in range(N_FILES):
        by = random.Random(f"ingest {seed}")
        small(
            from_bytes,
            block=by.choice([500, 3_000, 10**6]),
            group_rows=by.choice([5, 40, 10**6]),
            group_bytes=by.choice([2_000, 10**9]),
        )
        file = put(tmp_path, plausible(by))
        assert same_both_ways(file, tmp_path, text=by.choice(["cut", "full", "none"])) == [
            tmp_path.name
        ]


@pytest.mark.slow
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("from_bytes", [0, math.inf])
def test_files_nearly_right_end_the_same(small, tmp_path, from_bytes, strict):
    small(from_bytes)
    ends = []
    for seed in range(EXAMPLES):
        by, file = random.Random(f"ingested {seed}"), tmp_path / "per_query.jsonl"
        _, _, good, how, _, _ = READERS["per_query"]
        file.write_bytes(damaged(written(good, how, by).encode("utf-8", "surrogatepass"), by))
        ends.append(type(same_both_ways(file, tmp_path, strict)))
    assert {str, list} == set(ends)


def test_a_file_with_all_that_may_stand_in_it_and_beside_it(small, tmp_path):
    long = "word " * 100
    hops = [{"iter": n, "kind": "decompose", "sub_queries": ["a"]} for n in range(3)]
    records = [
        record(
            f"q{n}",
            [hit("c", "d", 1, snippet=long if n % 2 else "short", metadata={"year": n})],
            answer=answer("a") | {"hops": hops},
            error="x" if n % 3 == 0 else None,
        )
        for n in range(20)
    ]
    records[-1] |= {"note": "late", "weight": 1.5}
    records[3] |= {"weight": 2}
    file = put(tmp_path, records)
    (tmp_path / "run.json").write_text(
        json.dumps(
            {"run_id": "mine", "system": "bm25", "k": 5, "n_queries": 7, "config": {"k1": 1.2}}
        )
    )
    (tmp_path / "judgments.jsonl").write_text(
        "".join(
            json.dumps({"query_id": f"q{n}", "criterion": "faithfulness", "value": 1.0}) + "\n"
            for n in range(20)
        )
    )
    assert same_both_ways(file, tmp_path) == ["mine"]
    packed = tmp_path / "per_query.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    assert same_both_ways(packed, tmp_path) == ["mine"]


LONG = "word " * 60 + "needle"  # of which a cut text doesn't tell
RICH = [
    record(
        f"q{n}",
        [
            hit(
                f"c{(rank + n) % 7}",
                f"d{(rank + n) % 5}",
                rank,
                doc_path=f"docs/{(rank + n) % 4}.md",
                snippet=LONG if (rank + n) % 3 else "short needle",
            )
            for rank in range(1, 5)
        ],
        answer=answer(f"text {n}", paths=[f"docs/{n}.md"]) if n % 2 else None,
        error="boom" if n == 4 else None,
    )
    for n in (3, 0, 1, 2, 5, 4, 7, 8, 9)
] + [
    record("refuse", [], answer=answer("no", grounded=False)),
    record("unasked", [hit("c1", "d1", 1)]),
]
BY_ID = [
    {
        "id": f"q{n}",
        "query": "?",
        "expected_doc_ids": [f"d{n}", f"d{n + 1}"],
        "expected_chunk_ids": [f"c{n}"],
    }
    for n in range(7)
]
BY_TEXT = [
    {
        "id": f"q{n}",
        "query": "?",
        "gold_supports": [{"path": f"docs/{n % 4}.md", "snippets": ["needle"]}],
    }
    for n in range(7)
]
BY_PREDICATE = [{"id": f"q{n}", "query": "?", "must_contain": ["needle"]} for n in range(7)]
MIXED = [*BY_ID[:3], *BY_TEXT[3:]]
REFUSE = [
    {"id": "refuse", "query": "?", "answerable": False},
    {"id": "missing", "query": "?", "expected_doc_ids": ["d1"]},
]


def by_last_digit(hits, targets):
    """The target's and the document's last letters are equal."""
    pairs = (
        hits.reset_index(drop=True)
        .reset_index(names="hit")
        .merge(targets.reset_index(drop=True).reset_index(names="target"), on="query_id")
    )
    return pairs.loc[pairs["doc_id_x"].str[-1] == pairs["target_id"].str[-1], ["hit", "target"]]


def ingested_as_saved(file, golden, tmp_path, **choices):
    """The store that a file was read into; one that it was loaded and saved into is equal."""
    loaded, ingested = rs.RunStore(tmp_path / "loaded"), rs.RunStore(tmp_path / "ingested")
    plain = left_by(
        lambda store: store.save(rs.load_results(file), golden=golden, **choices), loaded
    )
    found = left_by(lambda store: store.ingest(file, golden=golden, **choices), ingested)
    assert found[:2] == plain[:2] and {*found[2]} == {*plain[2]}
    files_equal(ingested, loaded, *found[0])
    return ingested


# A part compares citations at the levels that its own citations carry.
BY_PART = ["citation_precision", "citation_recall"]


def files_equal(ours, theirs, run_id):
    runs = [described(store, run_id) | {"ragscore": 0} for store in (ours, theirs)]
    assert runs[0] == runs[1] and named_by(ours, run_id) == named_by(theirs, run_id)
    for kind in named_by(ours, run_id):
        if kind == "metrics":
            files = [stored_file(store, run_id, kind).read_text() for store in (ours, theirs)]
            metrics = [json.loads(one)["metrics"] for one in files]
            assert all(metrics[0][name] == metrics[1][name] for name in {*metrics[0]} - {*BY_PART})
            continue
        tables = [stored_table(store, run_id, kind) for store in (ours, theirs)]
        if kind == "scores":
            tables = [table.drop(columns=BY_PART) for table in tables]
        pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.mark.parametrize(
    ("rows", "choices"),
    [
        (BY_ID, {}), (BY_ID, {"match": "doc", "collapse": "doc", "text": "none"}),
        (MIXED, {"match": "per_query"}),
        pytest.param(BY_TEXT, {"text": "full"}, marks=pytest.mark.slow),
        pytest.param(BY_ID, {"profile": "kebab"}, marks=pytest.mark.slow),
        pytest.param(BY_PREDICATE, {}, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_an_ingested_run_is_scored_as_a_saved_one(small, tmp_path, write_golden, rows, choices):
    small(group_rows=6)
    golden = rs.load_golden(write_golden([*rows, *REFUSE]))
    file = put(tmp_path, RICH)
    (tmp_path / "judgments.jsonl").write_text(
        "".join(
            json.dumps(
                {"query_id": f"q{n}", "criterion": "faithfulness", "value": n % 2, "judge": "m"}
            )
            + "\n"
            for n in range(7)
        )
    )
    (tmp_path / "run.json").write_text(
        json.dumps({"run_id": "mine", "k": 4, "config": {"chunker_version": "v"}})
    )
    ingested = ingested_as_saved(file, golden, tmp_path, **choices)
    assert pq.ParquetFile(ingested.files("hits")[0]).num_row_groups > 2
    begins = [
        pq.ParquetFile(ingested.files(name)[0]).metadata.metadata[b"ragscore.responses"]
        for name in ("hits", "responses")
    ]
    assert begins[0] == begins[1]  # one part of hits needs one of responses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "choices"),
    [
        (MIXED, {"match": "anchor", "unknown": "miss"}),
        (BY_ID, {"rule": by_last_digit, "match": "doc"}),
    ],
)
def test_texts_that_were_cut_before_stay_undecided(small, tmp_path, write_golden, rows, choices):
    small(group_rows=6)
    golden = rs.load_golden(write_golden(rows))
    cut = [
        one
        | {
            "hits_top_k": [
                each | ({"text_cut": True, "snippet": "short"} if n % 2 else {})
                for n, each in enumerate(one["hits_top_k"], number)
            ]
        }
        for number, one in enumerate(RICH)
    ]
    ingested_as_saved(put(tmp_path, cut), golden, tmp_path, **choices)


def test_policies_without_a_golden_set_are_refused(small, tmp_path):
    with refused(field="golden"):
        rs.RunStore(tmp_path / "store").ingest(put(tmp_path, GOOD), missing="zero")


@pytest.mark.parametrize("from_bytes", [0, math.inf])
@pytest.mark.parametrize(
    ("last", "field", "named"),
    [
        ("{", ANY, ["JSON"]),
        (json.dumps(record("q3", [])), "query_id", ["'q3'", 4]),
        (json.dumps(record("new", [hit("c", "d", 1) | {"rank": 0}])), "hits_top_k.rank", [0]),
    ],
)
def test_an_error_on_the_last_line_leaves_the_store_as_it_was(
    small, tmp_path, from_bytes, last, field, named
):
    small(from_bytes)
    store = rs.RunStore(tmp_path / "store")
    store.ingest(put(tmp_path, GOOD))
    before = {file: file.read_bytes() for file in store.root.rglob("*") if file.is_file()}
    with refused(*named, line=31, field=field):
        store.ingest(put(tmp_path, [*GOOD, last]), overwrite=True)
    assert {file: file.read_bytes() for file in store.root.rglob("*") if file.is_file()} == before
    assert not list(store.root.rglob(".staging*"))


def test_a_byte_that_is_no_text_is_told_before_what_stands_above_it(small, tmp_path):
    file = put(tmp_path, [*GOOD, "{"])
    file.write_bytes(file.read_bytes() + b'"\xe4"\n')
    with refused("0xe4", "UTF-8", file="per_query.jsonl", line=32):
        rs.RunStore(tmp_path / "store").ingest(file)
    assert ":32: byte 0xe4" in same_both_ways(file, tmp_path)


def test_a_writer_that_is_stopped_leaves_no_run(small, tmp_path, monkeypatch):
    def stopped(draft, kind, groups, lengths):
        raise KeyboardInterrupt

    monkeypatch.setattr(ingest, "write_groups", stopped)
    store = rs.RunStore(tmp_path / "store")
    with pytest.raises(KeyboardInterrupt):
        store.ingest(put(tmp_path, GOOD))
    assert not len(store.runs()) and [one.name for one in store.root.iterdir()] == [".gitignore"]


def test_a_run_that_is_there_is_replaced_only_when_told_so(small, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.ingest(put(tmp_path, GOOD))
    with refused(file="store", field="run_id"):
        store.ingest(put(tmp_path, GOOD[:3]))
    assert len(store.load().responses) == 30
    store.ingest(tmp_path, overwrite=True)  # the folder that it is in
    assert len(store.load().responses) == 3


def test_what_could_not_be_taken_stays_with_the_run(small, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.ingest(put(tmp_path, [*GOOD, "[]", "{"]), strict=False)
    problems = store.load().problems
    assert problems["line"].tolist() == [31, 32] and len(store.load().responses) == 30


def test_a_slip_is_warned_of_where_the_file_was_asked_for(small, tmp_path):
    file = put(tmp_path, [one | {"elapsed_m": 3} for one in GOOD])
    (tmp_path / "run.json").write_text(json.dumps({"run_id": "r", "sute": "s"}))
    with warned("'sute'", "'suite'"), warned("'elapsed_m'", "'elapsed_ms'") as caught:
        rs.RunStore(tmp_path / "store").ingest(file)
    assert [one.filename for one in caught] == [__file__] * 2


def test_another_format_is_loaded_whole(small, tmp_path):
    file = tmp_path / "bm25.run"
    file.write_text("q1 Q0 d1 1 2.0 bm25\nq1 Q0 d2 2 1.0 bm25\n")
    store = rs.RunStore(tmp_path / "store")
    assert store.ingest(file) == ["bm25"] and len(store.load().hits) == 2


def test_several_runs_at_once_are_refused(small, tmp_path, write_run):
    write_run("a", GOOD[:1])
    folder = write_run("b", GOOD[:1]).parents[1]
    with refused(2, field="path"):
        rs.RunStore(tmp_path / "store").ingest(folder)


@pytest.mark.slow
def test_a_store_elsewhere_is_written_to_as_well(small, tmp_path, write_golden):
    store = rs.RunStore(f"memory://{uuid4().hex}")
    local = rs.RunStore(tmp_path / "store")
    file = put(tmp_path, GOOD)
    golden = rs.load_golden(
        write_golden(
            [{"id": f"q{n}", "query": "?", "expected_doc_ids": [f"d{n}"]} for n in range(30)]
        )
    )
    assert store.ingest(file, golden=golden) == local.ingest(file, golden=golden)
    equal(store.load(), local.load())
    pd.testing.assert_frame_equal(store.scores(), local.scores())

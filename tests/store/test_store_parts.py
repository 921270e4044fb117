"""A store scored part by part gives the scores of the whole, to the bit.

A part reads its own queries only.
"""

import dataclasses
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import answer, hit, record
from stored import edit_table, put_file, stored_file

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.store import parquet as store_parquet
from ragscore.store import tables as run_tables
from ragscore.store.catalogue import open_catalogue
from ragscore.store.parquet import LENGTHS_KEY, packed
from ragscore.store.part_scoring import BATCH_ROWS, batches_of, run_each, score_batch
from ragscore.store.parts import Part, parts_of, read_part
from tests.messages import refused, warned

HISTORY = Path(__file__).parents[2] / "data" / "demo" / "history"


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(run_tables, "GROUP_ROWS", 4)


@pytest.fixture
def varied(write_golden, write_run, tmp_path, small_groups):
    """Three runs that differ in what their hits carry, with answers, citations, judgments,
    failures, and questions one side doesn't know.
    """
    rows = [
        {
            "id": f"q{n}",
            "query": "?",
            "expected_doc_ids": [f"d{n}", f"d{n + 1}"],
            "expected_chunk_ids": [f"c{n}"],
        }
        for n in range(6)
    ] + [
        {"id": "refuse", "query": "?", "answerable": False},
        {"id": "nothing", "query": "?", "answerable": True},
        {"id": "doc", "query": "?", "expected_doc_ids": {"d1": 2, "d4": 0, "d9": 1}},
    ]
    golden = rs.load_golden(write_golden(rows))

    def hits(shift):
        return [
            hit(f"c{(rank + shift) % 7}", f"d{(rank + shift) % 5}", rank) for rank in range(1, 5)
        ]

    a = [
        record(f"q{n}", hits(n), answer=answer(f"text {n}", paths=[f"docs/d{n}.md"]))
        for n in (3, 0, 1, 2, 5)
    ]
    a += [
        record("refuse", hits(0), answer=answer("no", grounded=False)),
        record("nothing", []),
        record("unasked", hits(1)),
        record("doc", hits(3)),
    ]
    b = [record(f"q{n}", hits(n + 1), error="boom" if n == 2 else None) for n in range(6)] + [
        record("extra", hits(2))
    ]
    c = [record("q1", []), record("q2", hits(2)[:2])]
    files = [
        write_run(name, lines, k=k) for name, lines, k in (("a", a, 4), ("b", b, 10), ("c", c, 4))
    ]
    results = rs.load_results(files)
    judged = [
        {
            "run_id": "a",
            "query_id": f"q{n}",
            "criterion": "faithfulness",
            "item": str(item),
            "value": float(item % 2),
        }
        for n in range(3)
        for item in range(n + 1)
    ]
    results = rs.Results(
        runs=results.runs,
        responses=results.responses,
        hits=results.hits,
        citations=results.citations,
        judgments=from_records(judged, "judgments"),
    )
    store = rs.RunStore(tmp_path / "store")
    store.save(results)
    return store, golden


def scored_both_ways(store, golden, part_hits, **choices):
    with warnings.catch_warnings(record=True) as whole_said:
        warnings.simplefilter("always")
        whole = rs.score(store.load(choices.pop("runs", None)), golden, **choices)
    with warnings.catch_warnings(record=True) as parts_said:
        warnings.simplefilter("always")
        parts = store.score(golden, part_hits=part_hits, **choices)
    return (
        whole,
        parts,
        # a part doesn't know the ids of the others
        [str(one.message) for one in whole_said if not str(one.message).startswith("ids of")],
        [str(one.message) for one in parts_said if not str(one.message).startswith("ids of")],
    )


def by_last_digit(hits, targets):
    """The target's and the document's last letters are equal."""
    pairs = (
        hits.reset_index(drop=True)
        .reset_index(names="hit")
        .merge(targets.reset_index(drop=True).reset_index(names="target"), on="query_id")
    )
    same = pairs["doc_id_x"].str[-1] == pairs["target_id"].str[-1]
    return pairs.loc[same, ["hit", "target"]]


WHOLE_LISTS = [
    "map", "ndcg_linear", "rprec", "bpref", "bpref:doc", "set_precision", "set_recall", "set_f1",
    "err@3", "rbp", "rbp(0.95):doc", "iprec@0.3", "11pt_avg:doc",
]  # fmt: skip


@pytest.mark.parametrize(
    ("part_hits", "choices"),
    [
        (1, {}), (6, {"missing": "zero"}),
        pytest.param(6, {"rule": by_last_digit, "match": "doc"}, marks=pytest.mark.slow),
        (6, {"metrics": WHOLE_LISTS, "match": "doc", "collapse": "doc"}),
        pytest.param(6, {"match": "per_query"}, marks=pytest.mark.slow),
        pytest.param(6, {"profile": "kebab"}, marks=pytest.mark.slow),
        pytest.param(6, {"profile": "trec"}, marks=pytest.mark.slow),
        pytest.param(6, {"metrics": WHOLE_LISTS, "match": "doc"}, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_parts_give_the_scores_of_the_whole(varied, part_hits, choices):
    whole, parts, whole_said, parts_said = scored_both_ways(*varied, part_hits, **choices)
    pd.testing.assert_frame_equal(parts, whole, check_exact=True)
    assert (
        sorted(parts_said) == sorted(whole_said)
        and (whole["state"].cat.categories == parts["state"].cat.categories).all()
    )


@pytest.fixture
def unsplit(varied, tmp_path, monkeypatch):
    """The same runs, each in one row group and so small that they are scored together."""
    monkeypatch.setattr(run_tables, "GROUP_ROWS", 2**21)
    store = rs.RunStore(tmp_path / "unsplit")
    store.save(varied[0].load())
    return store, varied[1]


@pytest.mark.slow
# A run has at most 32 hits: by 16 times as many all three go together, by fewer two or one.
@pytest.mark.parametrize(("part_hits", "n_batches"), [(512, 1), (250, 3)])
@pytest.mark.parametrize("choices", [{"match": "per_query"}, {"profile": "trec"}])
def test_small_runs_scored_together_get_the_scores_of_the_whole(
    unsplit, part_hits, n_batches, choices, monkeypatch
):
    scored = []
    monkeypatch.setattr(
        "ragscore.store.scoring.score_batch",
        lambda *given: scored.append(given[0]) or score_batch(*given),
    )
    whole, parts, whole_said, parts_said = scored_both_ways(*unsplit, part_hits, **choices)
    pd.testing.assert_frame_equal(parts, whole, check_exact=True)
    assert sorted(parts_said) == sorted(whole_said) and len(scored) == n_batches


@pytest.mark.slow
def test_parts_of_a_real_history_give_the_scores_of_the_whole():
    store, golden = rs.RunStore(HISTORY), rs.load_golden(HISTORY.parent / "golden.yaml")
    runs = store.runs()["run_id"].astype("str").tolist()[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole, parts = (
            rs.score(store.load(runs), golden, profile="kebab"),
            store.score(golden, runs=runs, profile="kebab", part_hits=100),
        )
    pd.testing.assert_frame_equal(parts, whole, check_exact=True)


def sized(n_hits, n_parts=1, n_responses=10):
    return [
        Part(None, None, n, n_responses if n == n_parts - 1 else n + 1, n == n_parts - 1, n_hits)
        for n in range(n_parts)
    ]


def test_batches_hold_small_runs_that_follow_each_other_up_to_a_quarter_of_a_part():
    runs = [
        sized(20),
        sized(20),
        sized(9),
        sized(100),
        sized(25),
        sized(0),
        sized(640, n_parts=2),
        sized(25),
        sized(26),
    ]
    groups = batches_of(runs, 10, 400)
    hits = [[[part.run_hits for part in batch] for batch in group] for group in groups]
    assert hits == [[[20, 20, 9]], [[100]], [[25, 0]], [[640], [640]], [[25]], [[26]]]
    assert [[part for batch in group for part in batch] for group in groups] == [
        runs[0] + runs[1] + runs[2],
        runs[3],
        runs[4] + runs[5],
        runs[6],
        runs[7],
        runs[8],
    ]


def test_batches_hold_no_more_scores_than_a_golden_set_or_run_of_many_questions_allows():
    assert [len(group[0]) for group in batches_of([sized(1)] * 5, BATCH_ROWS // 2, 10**6)] == [
        2,
        2,
        1,
    ]
    assert [
        len(group[0]) for group in batches_of([sized(1, n_responses=BATCH_ROWS)] * 2, 1, 10**6)
    ] == [1, 1]
    assert batches_of([], 10, 100) == []


def test_a_part_reads_its_own_row_groups_only(varied):
    """The first group is none; whoever wrote the file has summed it all the same."""
    store, _ = varied
    file = stored_file(store, "a", "hits")
    groups = pq.ParquetFile(file).metadata
    written = bytearray(file.read_bytes())
    begin, end = (
        groups.row_group(0).column(0).dictionary_page_offset,
        groups.row_group(1).column(0).dictionary_page_offset,
    )
    written[begin:end] = bytes(end - begin)
    put_file(store, "a", "hits", bytes(written))
    there = open_catalogue(store.root)
    parts = parts_of(there.stored["a"], there.table.iloc[:1], 4)
    assert groups.num_row_groups == 8 and len(parts) >= 8
    last, queries = read_part(parts[-1])
    assert last.hits["query_id"].unique().tolist() == ["doc"] and list(queries.own) == ["doc"]
    with refused(file=stored_file(store, "a", "hits").name):
        read_part(parts[0])


@pytest.mark.slow
def test_large_tables_are_kept_in_the_order_of_the_responses(varied, tmp_path):
    store, golden = varied
    results = store.load()
    shuffled = rs.Results(
        runs=results.runs,
        responses=results.responses,
        hits=results.hits.sample(frac=1, random_state=0),
        citations=results.citations,
    )
    again = rs.RunStore(tmp_path / "again")
    again.save(shuffled)
    hits = again.load("a").hits
    assert hits["query_id"].drop_duplicates().tolist() == [
        one for one in results.select("a").responses["query_id"] if one != "nothing"
    ]
    _, parts, _, said = scored_both_ways(again, golden, 4)
    with warned("a: 1", "b: 3", "c: 7") as caught:
        pd.testing.assert_frame_equal(parts, rs.score(shuffled, golden), check_exact=True)
    assert sorted(said) == sorted(str(one.message) for one in caught)


def parts_of_run(store, name, part_hits):
    there = open_catalogue(store.root)
    return parts_of(there.stored[name], there.table[there.table["run_id"] == name], part_hits)


def rewrite(store, run_id, change):
    """The same row groups with other notes in the file's metadata, as another writer may leave
    them.
    """
    with pq.ParquetFile(stored_file(store, run_id, "hits")) as source:
        groups, notes = (
            [source.read_row_group(n) for n in range(source.num_row_groups)],
            change(dict(source.metadata.metadata)),
        )
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, groups[0].schema.remove_metadata()) as writer:
        for group in groups:
            writer.write_table(group.replace_schema_metadata())
        writer.add_key_value_metadata(
            {key: value for key, value in notes.items() if key.startswith(b"ragscore")}
        )
    put_file(store, run_id, "hits", bytes(sink.getvalue()))


@pytest.mark.slow
@pytest.mark.parametrize("note", [None, packed(np.array([9, 9]))])
def test_hits_that_are_not_counted_or_counted_wrong_are_read_by_their_query(varied, note):
    store, golden = varied
    expected = rs.score(store.load(), golden, ["mrr", "recall@3:doc"], missing="zero")
    found = {} if note is None else {LENGTHS_KEY: note}
    rewrite(
        store,
        "a",
        lambda notes: {key: value for key, value in notes.items() if key != LENGTHS_KEY} | found,
    )
    assert all(part.n_hits is None for part in parts_of_run(store, "a", 3))
    scores = store.score(golden, ["mrr", "recall@3:doc"], part_hits=3, missing="zero")
    pd.testing.assert_frame_equal(scores, expected, check_exact=True)


def test_hits_that_another_program_sorts_and_writes_back_are_read_by_their_query(
    varied, tmp_path, monkeypatch
):
    monkeypatch.setattr(run_tables, "GROUP_ROWS", 2**21)
    store, golden = rs.RunStore(tmp_path / "sorted"), varied[1]
    store.save(varied[0].load("a"))
    assert parts_of_run(store, "a", 10**6)[0].n_hits is not None
    edit_table(store, "a", "hits", lambda table: table.sort_by([("rank", "descending")]))
    whole, parts, *_ = scored_both_ways(store, golden, 10**6)
    pd.testing.assert_frame_equal(parts, whole, check_exact=True)


def test_hits_in_another_order_than_responses_and_hits_of_nobody_are_not_counted(
    varied, tmp_path, monkeypatch
):
    results = varied[0].load("a")
    monkeypatch.setattr(run_tables, "GROUP_ROWS", 2**21)
    nobodys = results.hits.iloc[:1].assign(query_id="unheard of")
    for name, hits in (
        ("turned", results.hits.iloc[::-1]),
        ("nobodys", pd.concat([results.hits, nobodys])),
    ):
        store = rs.RunStore(tmp_path / name)
        store.save(dataclasses.replace(results, hits=hits.reset_index(drop=True)))
        assert [part.n_hits for part in parts_of_run(store, "a", 10**6)] == [None], name
        whole, parts, *_ = scored_both_ways(store, varied[1], 10**6)
        pd.testing.assert_frame_equal(parts, whole, check_exact=True)


@pytest.mark.slow
def test_runs_without_any_hit_are_scored_beside_others(varied, tmp_path):
    store, golden = rs.RunStore(tmp_path / "bare"), varied[1]
    for name in "abc":
        results = varied[0].load(name)
        store.save(
            dataclasses.replace(results, hits=results.hits.iloc[:0]) if name == "b" else results
        )
    whole, parts, whole_said, parts_said = scored_both_ways(store, golden, 3)
    pd.testing.assert_frame_equal(parts, whole, check_exact=True)
    assert sorted(parts_said) == sorted(whole_said)


def test_a_store_without_runs_has_nothing_to_score(varied, tmp_path):
    with refused(file="none"):
        rs.RunStore(tmp_path / "none").score(varied[1])


@pytest.mark.parametrize(
    ("choice", "field", "named"),
    [
        ({"part_hits": 0}, "part_hits", [0, 1]),
        ({"part_hits": 1.5}, "part_hits", [1.5]),
        ({"client": "tcp://scheduler:8786"}, "client", ["str", "distributed.Client"]),
    ],
)
def test_what_is_no_size_and_no_client_is_refused(varied, choice, field, named):
    store, golden = varied
    with refused(*named, field=field):
        store.score(golden, **choice)


def test_threads_that_silence_warnings_at_once_leave_the_process_as_it_was():
    def silenced(item, number, job):  # what two overlapping pandas calls can leave behind
        warnings.simplefilter("ignore", UserWarning)
        return item

    before = list(warnings.filters)
    assert list(run_each(silenced, [1, 2, 3], SimpleNamespace(has_own_code=False), None)) == [
        1,
        2,
        3,
    ]
    assert warnings.filters == before


@pytest.mark.parametrize(("n_docs", "is_coded"), [(1_000_000, False), (20, True)])
def test_ids_that_hardly_repeat_are_stored_as_texts_and_score_the_same(
    tmp_path, monkeypatch, n_docs, is_coded
):
    """A dictionary of ids that hardly repeat is as large as the ids, and slow to read."""
    monkeypatch.setattr(store_parquet, "ID_SAMPLE", 64)
    rng = np.random.default_rng(0)
    numbers = [rng.choice(n_docs, 10, replace=False) for _ in range(40)]
    hits = pd.DataFrame([
        {"query_id": f"q{n}", "rank": rank, "doc_id": f"{doc * 7919:012x}"}
        for n, docs in enumerate(numbers)
        for rank, doc in enumerate(docs, start=1)
    ])  # fmt: skip
    results = rs.load_results(hits, run_id="a")
    wanted = hits[hits["rank"] == 3]
    golden = rs.load_golden(
        {query: [doc] for query, doc in zip(wanted["query_id"], wanted["doc_id"], strict=True)}
    )
    store = rs.RunStore(tmp_path / "store")
    store.save(results)
    column = pq.read_schema(stored_file(store, "a", "hits")).names.index("doc_id")
    chunk = pq.ParquetFile(stored_file(store, "a", "hits")).metadata.row_group(0).column(column)
    assert chunk.has_dictionary_page == is_coded
    scores = store.score(golden, "all", match="doc")
    assert scores["mrr"].eq(1 / 3).all()
    pd.testing.assert_frame_equal(
        scores, rs.score(results, golden, "all", match="doc"), check_exact=True
    )
    assert store.load().hits["doc_id"].equals(results.hits["doc_id"])

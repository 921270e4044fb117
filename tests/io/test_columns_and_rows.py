"""Labels and hits read as columns are those read row by row: frames, problems, warnings, errors."""

import datetime
import importlib
import json
import warnings
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.io import object_columns, tables
from ragscore.io.object_columns import NotPlain


def _declined(*_, **__):
    raise NotPlain


def outcome(load, source, **options):
    """Frames, or the error's text, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = load(source, **options)
            frames = {item.name: getattr(found, item.name) for item in fields(found)}
        except Exception as error:  # whatever it is, it is the same
            frames = f"{type(error).__name__}: {error}"
    return frames, [str(one.message) for one in caught]


def assert_same_by_rows(load, source, **options):
    """Return the outcome, which is the same row by row."""
    fast, fast_warnings = outcome(load, source, **options)
    with pytest.MonkeyPatch.context() as patched:
        for holder, name in READ_AS_COLUMNS:
            patched.setattr(holder, name, _declined)
        slow, slow_warnings = outcome(load, source, **options)
    assert fast_warnings == slow_warnings
    if isinstance(slow, str) or isinstance(fast, str):
        assert fast == slow
        return fast
    for name, frame in slow.items():
        if frame is None:
            assert fast[name] is None
        else:
            pd.testing.assert_frame_equal(fast[name], frame, check_exact=True)
    return fast


READ_AS_COLUMNS = [
    (tables, "label_frames"), (tables, "hit_lists"), (tables, "hit_objects"),
    (object_columns.HitColumns, "add"),
]  # fmt: skip
LONG = "d" * 70_000
IDS = ["d1", "d2", "é", "", " ", "[d]", "{d", "1", None, 7, 2.0, 1.5, True, LONG, "a;b"]
GRADES = [0, 1, 2, -1, 1.0, 0.5, -0.5, "1", "yes", "2.0", "x", "", None, True, False, [1], "[1]"]
TEXTS = ["a", "A", "[a]", "", None, 3, 2.5, True]
FLAGS = [True, False, None, "yes", "no", 1, 0, "maybe", 2]
OWN = ["a", 1, 2.5, True, None, 2**63, float("inf"), [1], {"a": 1}, datetime.date(2026, 1, 2)]


def columns_of(values, n, dtypes=("as is", "object", "str", "category", "Int64")):
    """Columns of one or of several kinds of values, as pandas or others would hold them."""
    one_kind = st.sampled_from(values).flatmap(
        lambda one: st.lists(
            st.sampled_from([other for other in values if type(other) in (type(one), type(None))]),
            min_size=n, max_size=n,
        )
    )  # fmt: skip
    of_any = st.lists(st.sampled_from(values), min_size=n, max_size=n)
    return st.tuples(one_kind | of_any, st.sampled_from(dtypes)).map(_column)


def _column(drawn):
    values, dtype = drawn
    try:
        return pd.Series(values) if dtype == "as is" else pd.Series(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        return pd.Series(values, dtype=object)


@st.composite
def judgements(draw):
    """A frame of one row per judgement."""
    n = draw(st.integers(1, 6))
    columns = {"query_id": columns_of(["q1", "q2", "q3", "q1", "q2", 1, None, ""], n)}
    columns["doc_id"] = columns_of(draw(st.sampled_from([IDS[:3], IDS])), n)
    plain = [0, 1, 2, 1]
    optional = {
        "chunk_id": columns_of(draw(st.sampled_from([IDS[:3], IDS])), n),
        "grade": columns_of(draw(st.sampled_from([plain, GRADES])), n),
        "query": columns_of(["one", "one", "two", None, 1], n),
        "answerable": columns_of(FLAGS, n), "should_refuse": columns_of(FLAGS, n),
        "lang": columns_of(TEXTS, n), "group": columns_of(["g", None], n),
        "turn": columns_of([1, 2, None, 1.0, "1"], n),
        "reference_answer": columns_of(TEXTS, n), "tags": columns_of([["t"], "t", None], n),
        "own": columns_of(OWN, n), "id": columns_of(["r1", "r2", None, 3], n),
        "other": columns_of([0, 1, None, "0", "5"], n), "chunker_version": columns_of(TEXTS, n),
    }  # fmt: skip
    for name in draw(st.lists(st.sampled_from([*optional]), max_size=5, unique=True)):
        columns[name] = optional[name]
    if draw(st.booleans()) and "query" in columns:
        del columns["query_id"]
    return pd.DataFrame({name: draw(column) for name, column in columns.items()})


OPTIONS = st.fixed_dictionaries(
    {"strict": st.booleans(), "absent_docs": st.sampled_from(["unlabelled", "refuse"])},
    optional={
        "gains": st.just({"0": 0, "1": 0.5, "2": 1}),
        "catalogue": st.just(pd.DataFrame({"doc_id": ["d1", "1"], "chunk_id": ["d2", "é"]})),
    },
)


@given(judgements(), OPTIONS)
@example(pd.DataFrame({"qid": ["q", "q"], "docid": ["a", "a"], "rel": [1, 2]}), {"strict": True})
def test_judgements_of_a_frame(frame, options):
    assert_same_by_rows(rs.load_golden, frame, **options)


ITEMS = st.one_of(st.sampled_from(["d1", "d2", "é"]), st.sampled_from(IDS))
LISTS = st.one_of(
    st.lists(st.sampled_from(["d1", "d2", "d3", "é"]), max_size=4),
    st.lists(st.integers(1, 3), max_size=4),
    st.lists(ITEMS, max_size=3), st.lists(ITEMS, max_size=3).map(tuple), st.none(),
    st.lists(st.sampled_from(["d1", "d2"]), max_size=3).map(np.array), ITEMS,
    st.lists(st.lists(ITEMS, max_size=2), max_size=2), st.just([datetime.date(2026, 1, 2)]),
    st.just([{"any": ["a", "b"], "grade": 2}]),
)  # fmt: skip
MAPPINGS = st.one_of(
    st.dictionaries(st.sampled_from(["d1", "d2", "é", ""]), st.integers(-1, 3), max_size=4),
    st.dictionaries(ITEMS.filter(lambda one: one is not None), st.sampled_from(GRADES), max_size=3),
    st.dictionaries(st.integers(1, 3), st.sampled_from([0.5, 1.0, 1, -2]), max_size=3), st.none(),
)  # fmt: skip
QUERIES = st.sampled_from(["q1", "q2", "q3", "é", 1, "1", ""])


def of_queries(*values):
    """Dicts of one kind of values, or of several."""
    every = [st.dictionaries(QUERIES, one, min_size=1, max_size=4) for one in values]
    return st.one_of(*every, st.dictionaries(QUERIES, st.one_of(*values), min_size=1, max_size=4))


@given(of_queries(st.lists(ITEMS, max_size=3), MAPPINGS, LISTS), OPTIONS)
@example({"q": {"a": 1, "b": 0.5}, "r": {}}, {"strict": True})
@example({"q": ["a", "a", "b"], "r": [], "s": None}, {"strict": True})
@example({"q": {"a": -1}}, {"strict": True})
def test_judgements_of_a_dict(source, options):
    assert_same_by_rows(rs.load_golden, source, **options)


@given(st.data(), OPTIONS)
def test_judgements_of_list_columns(data, options):
    n = data.draw(st.integers(1, 4))
    values = data.draw(st.sampled_from([st.lists(st.sampled_from("abc"), max_size=3), MAPPINGS]))
    values = data.draw(st.sampled_from([values, LISTS]))
    lists = data.draw(st.lists(values, min_size=n, max_size=n))
    frame = pd.DataFrame({"query_id": data.draw(columns_of(["q1", "q2", "q3", None], n))})
    frame["relevant_doc_ids"] = pd.Series(lists, dtype=object)
    if data.draw(st.booleans()):
        frame["grades"] = pd.Series(
            [
                data.draw(
                    st.lists(st.sampled_from([0, 1, 2]), min_size=len(one), max_size=len(one))
                    if isinstance(one, (list, tuple)) and data.draw(st.integers(0, 9))
                    else st.sampled_from([[1], 1, None])
                )
                for one in lists
            ],
            dtype=object,
        )
    assert_same_by_rows(rs.load_golden, frame, **options)


SCORES = st.sampled_from([0.5, 1, 1.0, -2, 0.1 + 0.2])
SCORED = st.dictionaries(st.sampled_from(["a", "b", "c", "é"]), SCORES, max_size=4)
ODD_SCORED = st.dictionaries(ITEMS.filter(lambda one: one is not None), st.sampled_from(GRADES))
HITS = (st.lists(st.sampled_from("abc"), max_size=4), SCORED, LISTS, ODD_SCORED)


@given(st.one_of(of_queries(*HITS), st.dictionaries(st.sampled_from("rs"), of_queries(*HITS))))
@example({"q": {"a": 0.5, "b": 2, "c": 0.5}, "r": {"z": 1}})
@example({"q": ["a", "b"], "r": []})
@example({"q": [["a", 0.5], ["b", 0.7]]})
@example({"q": [["a"], ["b", "c"]]})
def test_hits_of_a_dict(source):
    assert_same_by_rows(rs.load_results, source)


@given(st.data(), st.booleans())
def test_hits_of_list_columns(data, strict):
    n = data.draw(st.integers(1, 4))
    lists = data.draw(st.lists(data.draw(st.sampled_from(HITS)), min_size=n, max_size=n))
    frame = pd.DataFrame({"query_id": data.draw(columns_of(["q1", "q2", "q3", "q4", None], n))})
    frame["retrieved_doc_ids"] = pd.Series(lists, dtype=object)
    more = {
        "scores": st.just([[0.5] * len(one) if isinstance(one, list) else one for one in lists]),
        "chunk_ids": st.just([one if isinstance(one, list) else None for one in lists]),
        "ranks": st.just([[1, 2, 3]] * n), "run_id": st.just(["r", "s", "r", "s"][:n]),
        "answer": st.lists(st.sampled_from(["yes", "", None]), min_size=n, max_size=n),
        "session_id": st.just(["u", "v", "u", "v"][:n]),
    }  # fmt: skip
    for name in data.draw(st.lists(st.sampled_from([*more]), max_size=3, unique=True)):
        frame[name] = pd.Series(data.draw(more[name]), dtype=object)
    assert_same_by_rows(rs.load_results, frame, strict=strict)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert_same_by_rows(rs.load_results, rows, strict=strict)


# What a field of a hit may hold in JSON: mostly one kind of value, sometimes any.
ANY = st.one_of(
    st.none(), st.booleans(), st.sampled_from([0, 1, 2, -1, 2**31, 2**53 + 1, 2**63, 10**30]),
    st.sampled_from([0.5, -0.0, 1.0, 1e300]), st.sampled_from(["", "a", "1", "yes", "é", " > "]),
    st.sampled_from([[], ["a"], [1, "b"], [None], {}, {"a": 1}, {"a": None}, {"a": {"b": [0.5]}}]),
)  # fmt: skip
OF_KIND = {
    "id": ["d1", "d2", "é", 7, None], "text": ["one", "two ...", "", None],
    "number": [0.5, 1, 2, -1.5, None], "whole": [1, 2, 3, None], "flag": [True, False, None],
    "texts": [["a", "b"], [], ["a > b"], [""], "a", None],
    "rank": [1, 2, 3], "object": [{"a": 1}, {"a": 2, "b": "x"}, {"source_key": "k"}, None],
    "cited": [
        {"kind": "line", "path": "d", "start": 1, "end": 4, "section": None},
        {"kind": "line", "path": "e", "start": None, "end": None}, {"kind": "page", "page": 3},
        {"kind": "time", "start_ms": 0, "end_ms": 9}, {"kind": "caption", "text": "t"},
        {"kind": "code", "line_start": 2, "line_end": 2, "start": 5}, None,
    ],
    "retrieval": [
        {"method": "m", "fusion_score": 0.5, "lexical_score": 1}, {"vector_score": None}, {},
        {"fusion_score": 2, "own": [1]}, None,
    ],
}  # fmt: skip
_BAD_CITED = [{}, {"kind": "x"}, {"kind": "line", "start": 4, "end": 1}, {"kind": "page"}, "d"]


def hits_with(**kinds):
    """Lists of hits with fields of these kinds, some with fields of their own."""

    def lists(draw, is_odd):
        fields = draw(st.lists(st.sampled_from([*kinds]), unique=True, max_size=len(kinds)))
        fields += draw(st.lists(st.sampled_from(["own", "own.a", "json", "scor"]), max_size=2))
        found = []
        for rank in range(1, draw(st.integers(0, 3)) + 1):
            hit = {}
            for name in fields:
                kind = kinds.get(name, "number")
                plain = st.just(rank) if kind == "rank" else st.sampled_from(OF_KIND[kind])
                odd = st.sampled_from(_BAD_CITED) if kind == "cited" else ANY
                hit[name] = draw(odd if is_odd and not draw(st.integers(0, 5)) else plain)
            found.append(dict(sorted(hit.items(), reverse=draw(st.booleans()))))
        return draw(ANY) if is_odd and not draw(st.integers(0, 9)) else found

    return lists


FILES = {
    "per_query": (
        "hits_top_k",
        hits_with(
            rank="rank", chunk_id="id", doc_id="id", doc_path="text", heading_path="texts",
            snippet="text", citation="cited", retrieval="retrieval", metadata="object",
            score="number", score_kind="text", stale="flag", source_key="text", span_unit="text",
        ),
        lambda n, hits: {"query_id": f"q{n}", "query": "a", "hits_top_k": hits},
    ),
    "retrievers": (
        "hits", hits_with(rank="rank", id="id", document="text", metadata="object"),
        lambda n, hits: {"query": f"what {n}", "retriever": "r", "hits": hits},
    ),
    "results": (
        "retrieved_chunks",
        hits_with(
            rank="rank", chunk_id="id", rel_path="text", heading_path="text", score_final="number",
            text="text", metadata="object",
        ),
        lambda n, hits: {"test_case_id": f"t{n}", "retrieved_chunks": hits, "answer": "a"},
    ),
    "table": (
        "retrieved",
        hits_with(doc_id="id", id="id", text="text", score="number", rank="rank", meta="object"),
        lambda n, hits: {"qid": f"q{n}", "question": "what", "retrieved": hits},
    ),
    "passages": (
        "passages", hits_with(doc_id="id", content="text", score="number", position="rank"),
        lambda n, hits: {"qid": f"q{n}", "answer": "a", "passages": hits},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@given(st.data(), st.booleans(), st.sampled_from([1, 2, 1 << 12]), st.booleans())
def test_hits_of_a_file_of_records(tmp_path_factory, name, data, strict, batch, is_odd):
    _, lists, record = FILES[name]
    rows = [record(n, lists(data.draw, is_odd)) for n in range(data.draw(st.integers(1, 4)))]
    if is_odd and not data.draw(st.integers(0, 3)):
        rows.append(rows[0] | {"other": data.draw(ANY)})
    path = tmp_path_factory.getbasetemp() / f"{name}.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(object_columns, "BATCH", batch)
        assert_same_by_rows(rs.load_results, path, strict=strict)
        if name in ("table", "passages"):
            assert_same_by_rows(rs.load_results, pd.DataFrame(rows), strict=strict)


@pytest.mark.parametrize("name", FILES)
def test_plain_hits_of_a_file_are_read_as_columns(tmp_path, monkeypatch, name):
    hit = {"doc_id": "d", "chunk_id": "c", "id": "i", "own": {"a": 1}}
    path = tmp_path / f"{name}.jsonl"
    rows = [FILES[name][2](n, [hit | {"rank": 1}, hit | {"rank": 2}]) for n in range(2)]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    for holder in ("record", "formats.retrievers", "formats.chatbot", "tools.cells"):
        reader = "inner_hits" if holder == "tools.cells" else "_hits"
        monkeypatch.setattr(f"ragscore.io.{holder}.{reader}", _only_one(holder, reader))
    hits = rs.load_results(path).hits
    assert hits["rank"].tolist() == [1, 2, 1, 2]
    assert hits["x_own.a"].tolist() == [1, 1, 1, 1]


def _only_one(holder, reader):
    """Return what reads hits one by one, which is asked for the order of columns alone."""
    read = getattr(importlib.import_module(f"ragscore.io.{holder}"), reader)

    def checked(hits, *arguments):
        assert len(hits) == 1
        return read(hits, *arguments)

    return checked


def test_a_date_in_a_list_of_ids_of_a_record_is_refused():
    rows = [{"query_id": "q", "retrieved_doc_ids": [datetime.date(2026, 1, 2)]}]
    assert "2026-01-02" in assert_same_by_rows(rs.load_results, rows)


@pytest.mark.parametrize("as_columns", [True, False])
def test_labels_are_read_as_columns_where_they_are_plain(monkeypatch, as_columns):
    taken = []

    def spied(*arguments):
        found = label_frames(*arguments)
        taken.append(found)
        return found

    label_frames = tables.label_frames
    monkeypatch.setattr(tables, "label_frames", spied)
    grades = [1, 2, 0] if as_columns else [1, "no grade", 0]
    frame = pd.DataFrame({"query_id": ["q", "q", "r"], "doc_id": ["a", "b", "a"], "grade": grades})
    outcome(rs.load_golden, frame)
    assert len(taken) == as_columns


def test_the_highest_score_of_a_dict_comes_first_and_ties_keep_their_order():
    hits = rs.load_results({"q": {"a": 1, "b": 3, "c": 1}, "r": {"z": 0.5}}).hits
    assert hits["doc_id"].tolist() == ["b", "a", "c", "z"]
    assert hits["rank"].tolist() == [1, 2, 3, 1]
    assert hits["score"].tolist() == [3, 1, 1, 0.5]


def test_fractions_are_gains_whose_levels_count_from_0():
    frame = pd.DataFrame({"query_id": list("qqr"), "doc_id": list("aba"), "grade": [0.5, 1, 0.25]})
    with pytest.warns(UserWarning, match=r"fractions \(0.25, 0.5\)"):
        targets = rs.load_golden(frame).targets
    assert targets["gain"].tolist() == [0.5, 1, 0.25]
    assert targets["grade"].tolist() == [2, 3, 1]  # of 0, .25, .5 and 1

"""Writing a run and loading it again gives equal frames, whatever the run holds.

What the file can't give back is refused.
"""

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from conftest import EXAMPLES, hit, record
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.io.registry import FORMATS
from tests.messages import ANY, refused, warned

FRAMES = ("runs", "responses", "hits", "citations")


def results_of(responses, hits=(), citations=(), **run):
    counts = {
        "n_queries": len(responses),
        "n_failed": sum(row.get("error") is not None for row in responses),
    }
    run = {"run_id": "r", "config": "{}", **counts, **run}
    named = {"responses": responses, "hits": hits, "citations": citations}
    frames = {
        name: from_records([{"run_id": "r", **row} for row in rows], name)
        for name, rows in named.items()
    }
    return rs.Results(from_records([run], "runs"), **frames)


def response(query_id="q", **more):
    return {"query_id": query_id, "query": "?", "error": None, **more}


def assert_round_trip(results, folder):
    loaded = rs.load_results(results.save(Path(folder) / "r", format="per_query"))
    for name in FRAMES:
        before, after = getattr(results, name), getattr(loaded, name)
        pd.testing.assert_frame_equal(after, before, check_like=True)


TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["", "a > b", " > ", "[]", '{"a": 1}', "null", "unknown"]
)
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**63 - 1)
OWN = {
    "x_text": TEXT, "x_whole": st.integers(-(2**63), 2**63 - 1), "x_number": FLOATS,
    "x_flag": st.booleans(), "x_mixed": st.integers() | FLOATS | TEXT | st.booleans(),
    "x_deep.one": TEXT, "x_deep.two%2E.%6Ason": FLOATS,
    "x_list.json": st.sampled_from(["[1, {}]", "[[]]", "[]"]),
}  # fmt: skip


def rows(optional, fixed):
    return st.fixed_dictionaries(fixed, optional=optional | OWN)


@st.composite
def spans(draw, kinds=("line", "code", "page", "time", "region", "caption")):
    start, length = draw(st.integers(0, 2**40)), draw(st.integers(1, 3))
    row = draw(st.sampled_from([{}, {"path": "p"}, {"path": ""}]))
    if (unit := draw(st.sampled_from([None, "line", "char", "page", "ms", "token"]))) is not None:
        row["span_unit"] = unit
        row |= {"start": start, "end": start + length} if draw(st.booleans()) else {}
    if (kind := draw(st.sampled_from([None, *kinds]))) is not None:
        row |= {"x_citation.kind": kind} | draw(
            st.fixed_dictionaries({}, optional={"x_citation.section": TEXT})
        )
        row |= {"x_citation.path": "other"} if "path" in row and draw(st.booleans()) else {}
    return row


@st.composite
def results(draw):
    responses, hits, citations = [], [], []
    optional = {
        "mode": TEXT, "answer": TEXT, "grounded": st.booleans(), "refused": st.booleans(),
        "refusal_reason": TEXT, "elapsed_ms": FLOATS, "latency_search_ms": FLOATS,
        "prompt_tokens": COUNTS, "completion_tokens": COUNTS, "cost_usd": FLOATS, "scope": TEXT,
        "x_answer.model.id": TEXT, "x_answer.usage.latency_ms": FLOATS,
    }  # fmt: skip
    of_hit = {
        "chunk_id": IDS, "doc_id": IDS, "heading": TEXT, "text": TEXT, "text_cut": st.booleans(),
        "score": FLOATS, "score_kind": TEXT, "score_lexical": FLOATS,
        "score_vector": FLOATS, "source_key": TEXT, "chunker_version": TEXT, "stale": st.booleans(),
        "x_retrieval.method": TEXT,
    }  # fmt: skip
    for query_id in draw(st.lists(IDS, min_size=1, max_size=3, unique=True)):
        responses.append(
            draw(
                rows(
                    optional,
                    {
                        "query_id": st.just(query_id),
                        "query": st.none() | TEXT,
                        "error": st.none() | TEXT.filter(str.strip),
                    },
                )
            )
        )
        ranks = draw(st.lists(st.integers(1, 2**31 - 1), max_size=3, unique=True))
        hits += [
            draw(rows(of_hit, {"query_id": st.just(query_id), "rank": st.just(rank)}))
            | draw(spans())
            for rank in ranks
        ]
        n = draw(st.integers(0, 2))
        of_citation = {"marker": TEXT, "chunk_id": IDS, "doc_id": IDS, "heading": TEXT}
        citations += [
            draw(rows(of_citation, {"query_id": st.just(query_id), "position": st.just(1 + i)}))
            | draw(spans())
            for i in range(n)
        ]
    return results_of(
        responses,
        hits,
        citations,
        **draw(
            st.fixed_dictionaries(
                {}, optional={"system": TEXT, "k": st.integers(1, 99), "x_deep.note": TEXT}
            )
        ),
    )


@pytest.mark.filterwarnings("ignore:.* count as failures")
@given(results())
@settings(
    max_examples=-(-EXAMPLES // 2), deadline=None, phases=[Phase.generate]
)  # shrinking frames takes minutes
def test_loading_what_was_written_gives_equal_frames(results):
    with tempfile.TemporaryDirectory() as folder:
        assert_round_trip(results, folder)


def test_a_span_of_its_own_comes_before_that_of_its_citation(write_run, tmp_path):
    given = hit("c", "d", 1, start=5, end=9, span_unit="char")
    results = rs.load_results(write_run("r", [record("q", [given])]))
    assert results.hits[["start", "end", "span_unit"]].values.tolist() == [[5, 9, "char"]]
    assert_round_trip(results, tmp_path)


def test_citations_are_written_by_position(tmp_path):
    cited = [{"query_id": "q", "position": at, "marker": str(at)} for at in (2, 1)]
    written = results_of([response()], [], cited).save(tmp_path / "r", format="per_query")
    found = rs.load_results(written).citations[["position", "marker"]]
    assert found.to_numpy().tolist() == [[1, "1"], [2, "2"]]


@pytest.mark.parametrize(
    ("hits", "citations", "field", "named"),
    [
        ([{"query_id": "other", "rank": 1}], [], "hits", ["other"]),
        ([], [{"query_id": "other", "position": 1}], "citations", ["other"]),
        (
            [],
            [{"query_id": "q", "position": 2}],
            "citations",
            ["position", 2, "1, 2, 3"],
        ),
        ([{"query_id": "q", "rank": 1, "start": 3}], [], ANY, ["start", 3, "half-open"]),
        ([{"query_id": "q", "rank": 1, "start": 3, "end": 3}], [], ANY, ["start", "end", 3]),
        ([{"query_id": "q", "rank": 1, "x_doc_id": "d"}], [], "hits", ["x_doc_id", "doc_id"]),
        (
            [{"query_id": "q", "rank": 1, "x_citation.section": "s"}],
            [],
            ANY,
            ["x_citation", "section", "kind"],
        ),
        (
            [{"query_id": "q", "rank": 1, "x_note.json": "{bad"}],
            [],
            ANY,
            ["x_note.json", "'{bad'", "JSON"],
        ),
        ([{"query_id": "q", "rank": 1, "x_a": 1, "x_a.b": 2}], [], ANY, ["x_a.b"]),
        ([{"query_id": "q", "rank": 1, "x_retrieval": "m", "score": 2}], [], ANY, ["x_retrieval"]),
    ],
)
def test_what_the_file_could_not_give_back_is_refused(tmp_path, hits, citations, field, named):
    with refused(*named, field=field):
        results_of([response()], hits, citations).save(tmp_path, format="per_query")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given",
    [
        record("q", [], answer={}),
        record("q", [], answer={"answer": None, "usage": {"prompt_tokens": 3}}),
        record("q", [], answer={"answer": "a", "usage": "much"}),
        record("q", [], answer={"answer": "a", "usage": {"latency_ms": 2**70}}),
        record("q", [], answer={"answer": "a", "refused": "unknown"}),
        record("q", [], answer={"answer": "a", "hops": []}),
        record("q", [], scope={"vault": "v", "tags": ["x"]}),
        record("q", [], scope="everything"),
        record("q", [hit("c", "d", 1, heading_path=["a > b", "c"])]),
        record("q", [hit("c", "d", 1, heading_path=[]), hit("c2", "d", 2, heading_path=[""])]),
        record("q", [hit("c", "d", 1, score=7)]),
        record(
            "q",
            [
                {"chunk_id": "c", "score": 0.5},
                {"chunk_id": "e", "retrieval": {"fusion_score": 0.25}},
            ],
        ),
        record("q", [hit("c", "d", 1, text_cut=True)]),
        record("q", [hit("c", "d", 1, start=3, end="x", citation=None)]),
        record("q", [hit("c", "d", 1, confidence=1), hit("c2", "d", 2, confidence=0.5)]),
        record("q", [hit("c", "d", 1, size=2**53 + 1), hit("c2", "d", 2, size=0.5)]),
    ],
)
def test_corner_cases_come_back_as_they_were_loaded(write_run, tmp_path, given):
    results = rs.load_results(write_run("r", [given], k=3, size=2**70))
    assert_round_trip(results, tmp_path / "out")


def test_a_score_of_the_hit_beside_one_within_retrieval_comes_back(write_run, tmp_path):
    one = {"chunk_id": "c", "score": 1, "score_lexical": 2, "score_vector": 3,
           "retrieval": {"fusion_score": 4.0, "lexical_score": 5.0}}  # fmt: skip
    results = rs.load_results(write_run("r", [record("q", [one])]))
    own = results.hits[["score", "score_lexical", "score_vector", "x_score", "x_score_lexical"]]
    assert own.values.tolist() == [[4, 5, 3, 1, 2]]
    assert_round_trip(results, tmp_path)


# `results.save` and `golden.save`: the format by the path's ending or by name.

GOLDEN = rs.Golden(
    queries=pd.DataFrame({"query_id": ["q1", "q2"]}),
    targets=pd.DataFrame(
        {"query_id": ["q1", "q2"], "level": "doc", "target_id": ["a", "b"], "doc_id": ["a", "b"]}
    ),
)
RESULTS = rs.Results(
    runs=pd.DataFrame({"run_id": ["bm25"]}),
    responses=pd.DataFrame({"run_id": "bm25", "query_id": ["q1", "q2"]}),
    hits=pd.DataFrame(
        {
            "run_id": "bm25",
            "query_id": ["q1", "q1", "q2"],
            "rank": [1, 2, 1],
            "doc_id": ["a", "c", "b"],
            "score": [2.0, 1.0, 3.0],
        }
    ),
)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("run.trec", None),
        ("run.run", None),
        ("bm25.jsonl.gz", None),
        ("bm25.jsonl", "trec"),
    ],
)
def test_results_come_back_from_the_format_of_the_ending_or_name(name, format, tmp_path):
    path = RESULTS.save(tmp_path / name, format=format)
    assert path == tmp_path / name and path.is_file()
    assert rs.load_results(path, format=format).hits[
        ["query_id", "doc_id", "rank"]
    ].values.tolist() == [["q1", "a", 1], ["q1", "c", 2], ["q2", "b", 1]]


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("g.yml.gz", None),
        ("g.jsonl", None),
        ("g.qrels", None),
        ("x.jsonl", "qrels_jsonl"),
        ("folder", "beir"),
    ],
)
def test_a_golden_set_comes_back_from_the_format_of_the_ending_or_name(name, format, tmp_path):
    found = rs.load_golden(GOLDEN.save(tmp_path / name, format=format), format=format)
    assert found.targets[["query_id", "doc_id", "grade"]].values.tolist() == [
        ["q1", "a", 1],
        ["q2", "b", 1],
    ]


@pytest.mark.parametrize(
    ("held", "path", "options", "field", "named"),
    [
        (RESULTS, "out.dat", {}, ANY, ["out.dat", "format=", "per_query", ".jsonl"]),
        (GOLDEN, "out", {"format": "trec_qrel"}, "format", ["trec_qrel", "trec_qrels"]),
        (RESULTS, "out.trec", {"lvl": "doc"}, ANY, ["lvl='doc'", "trec", "level"]),
        (RESULTS, 3, {}, "path", ["int"]),
    ],
)
def test_what_cannot_be_written_says_what_can(held, path, options, field, named):
    with refused(*named, field=field):
        held.save(path, **options)


FULL = replace(
    RESULTS,
    runs=pd.DataFrame(
        {"run_id": ["bm25"], "system": "s", "k": 5, "golden_hash": "g", "chunker_version": "c",
         "config": '{"a": 1}'}
    ),
    responses=RESULTS.responses.assign(query=["one?", "two?"], answer="yes"),
    hits=RESULTS.hits.assign(chunk_id=["a#1", "c#1", "b#1"], text="t", path="p", heading="h"),
    citations=pd.DataFrame(
        {"run_id": "bm25", "query_id": ["q1", "q1"], "position": [1, 2], "doc_id": ["a", "c"]}
    ),
)  # fmt: skip


def test_a_run_file_alone_loses_what_describes_the_run_and_says_so(tmp_path):
    described = ("run_id", "system", "k", "golden_hash", "chunker_version", "config")
    with warned("a.jsonl", "run.json", *described):
        FULL.save(tmp_path / "a.jsonl")
    for name in ("folder", "per_query.jsonl", "per_query.jsonl.gz"):  # run.json is beside these
        path = FULL.save(tmp_path / name.partition(".")[2] / name, format="per_query")
        found = rs.load_results(path)
        for kind in ("runs", "responses", "hits", "citations"):
            expected = getattr(FULL, kind).drop(columns="run_id").astype("str")
            again = getattr(found, kind)[expected.columns].astype("str")
            pd.testing.assert_frame_equal(again, expected)


WRITERS = [one for one in FORMATS["results"] if one.write]


@pytest.mark.parametrize("one", WRITERS, ids=lambda one: one.name)
def test_every_writer_names_each_column_that_does_not_come_back(one, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = FULL.save(tmp_path / "out.jsonl", format=one.name)
    told = " ".join(str(one.message) for one in caught)
    found = rs.load_results(path, format=one.name)
    for kind in ("runs", "responses", "hits"):
        before, after = getattr(FULL, kind), getattr(found, kind)
        values = after.stack().astype("str").tolist()
        for column in before.columns.difference(["run_id", "query_id", "rank"]):
            is_kept = set(before[column].dropna().astype("str")) <= set(values)
            assert is_kept or column in told, (kind, column)
    assert len(found.citations) == len(FULL.citations) or "citations: 2" in told

"""Golden files and run files: what loads, how it comes out, and what one clear error says."""

import gzip
import json
import warnings
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import RUN_A, THREE_QUERIES, answer, hit, record

import ragscore as rs
from tests.messages import ANY, refused, says, warned

DEMO = Path(__file__).parents[2] / "data" / "demo" / "golden.yaml"


ROW = {"id": "q", "query": "?"}
GROUP = [ROW | {"id": f"g{n}", "expected_doc_ids": ["b", "a"][::n], "group": "x"} for n in (1, -1)]
TARGETS = "target_id alternative doc_id grade"
# Content of a golden file, and what its frames hold: frame -> columns, rows.
GOLDEN = {
    "a minimal row": (
        "- {id: g1, query: what?}\n",
        {"queries": ("query_id query position answerable", [["g1", "what?", 0, None]]),
         "targets": ("query_id", []), "checks": ("query_id", [])},
    ),
    "a group that agrees, and rows of none": (
        [*GROUP, *THREE_QUERIES],
        {"queries": ("group", [["x"], ["x"], [None], [None], [None]])},
    ),
    "texts to be found": (
        [ROW | {"must_contain": ["x", "y"]}],
        {"checks": ("kind text", [["must_contain", "x"], ["must_contain", "y"]])},
    ),
    "ids as written": (
        "- {id: 001, query: what?, expected_doc_ids: [007, 1.10, 12:30, 0x1F]}\n",
        {"queries": ("query_id", [["001"]]),
         "targets": ("doc_id", [["007"], ["1.10"], ["12:30"], ["0x1F"]])},
    ),
    "aliases and merge keys that end": (
        "- &first {id: a, query: q, expected_doc_ids: &docs [d], lang: ko}\n"
        "- {<<: *first, id: b, x: [*docs, *docs]}\n",
        {"queries": ("query_id lang", [["a", "ko"], ["b", "ko"]]),
         "targets": ("doc_id", [["d"]] * 2)},
    ),
    "a huge number and other fields of one's own": (
        f"- {{id: a, query: q, expected_doc_ids: [d], size: {10**400}, group_id: 3}}\n",
        {"queries": ("x_size x_group_id", [[str(10**400), 3]])},
    ),
    "alternatives, grades, groups and own fields": (
        [ROW | {"expected_doc_ids": [["a", "b"], {"any": ["c"], "grade": 3}],
                "required_support_groups": [["b", "c"], ["zzz"]], "tags": ["x", "y"],
                "vaults": ["v"], "reviewed": 3, "filters": {"year": 2024}}],
        {"targets": (TARGETS, [["a", 0, "a", 1], ["a", 1, "b", 1], ["c", 0, "c", 3]]),
         "support_groups": ("target_id", [["a"], ["c"], ["unknown:zzz"]]),
         "tags": ("kind value", [["tag", "x"], ["tag", "y"], ["vault", "v"]]),
         "queries": ("x_reviewed x_filters", [[3, '{"year": 2024}']])},
    ),
    "targets that share their first id": (
        [ROW | {"expected_doc_ids": [["x", "y"], ["x", "z"], ["x", "y"]]}],
        {"targets": (TARGETS, [["x", 0, "x", 1], ["x", 1, "y", 1],
                               ["x(2)", 0, "x", 1], ["x(2)", 1, "z", 1]])},
    ),
    "JSON lines after a byte order mark": (
        '\ufeff{"id": "a", "query": "q", "expected_doc_ids": {"d": 2}}\n\n',
        {"targets": ("grade", [[2]])},
    ),
    **{
        f"what to refuse: {row}": ([ROW | row], {"queries": ("answerable", [[answerable]])})
        for row, answerable in (
            ({"expected_doc_ids": []}, False), ({"answerable": False}, False),
            ({"expected_doc_ids": ["d"]}, True), ({"expected_chunk_ids": ["c"]}, True),
            ({"expected_doc_ids": [], "expected_chunk_ids": ["c"]}, True),
            ({"must_contain": ["x"]}, True), ({"answerable": True, "expected_doc_ids": []}, True),
            ({"gold_supports": [{"path": "a.md", "heading": "A"}], "expected_doc_ids": []}, True),
            ({"should_refuse": True}, False),
        )
    },
    "the older reading, which refuses whatever expects no document": (
        [ROW | {"must_contain": ["x"]}, ROW | {"id": "b", "expected_doc_ids": ["d"]}],
        {"queries": ("answerable", [[False], [True]])}, {"absent_docs": "refuse"},
    ),
}  # fmt: skip
JSON_ROW = '{"id": "a", "query": "q", "expected_doc_ids": ["d"]}\n'
TWICE = [ROW | {"id": name, "expected_doc_ids": ["d"]} for name in ("g2", "g1") * 2 + ("g2", "g3")]
BAD_GROUP = [ROW | {"id": f"g{n}", "expected_doc_ids": [doc], "group": "intent"}
             for n, doc in ((1, "a"), (2, "b"), (3, "a"))]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "facts", "options"),
    [(*case, {})[:3] for case in GOLDEN.values()],
    ids=GOLDEN,
)
@pytest.mark.filterwarnings("ignore:.*1 of 1 queries carry no expectation")
def test_a_golden_file_is_read_as_it_says(write_golden, content, facts, options):
    name = "golden.jsonl" if str(content).startswith("\ufeff") else "golden.yaml"
    golden = rs.load_golden(write_golden(content, name), **options)
    for frame, (columns, rows) in facts.items():
        found = getattr(golden, frame)[columns.split()].astype(object)
        assert found.where(found.notna(), None).to_numpy().tolist() == rows


@pytest.mark.parametrize(
    ("catalogue", "field", "named"),
    [
        ({"chunk_id": ["c1", 7], "doc_id": ["d1"] * 2}, "expected_doc_ids, expected_chunk_ids",
         [2, "d8, d9", "8, c9"]),
        # of a kind of id that the catalogue doesn't have, none is missing
        ({"chunk_id": ["c1", "c9", 7]}, "expected_chunk_ids", [1, 8]),
        ({"doc_id": ["d1", "d8"]}, "expected_doc_ids", [1, "d9"]),
    ],
)  # fmt: skip
def test_unknown_expected_ids_are_all_listed_documents_then_chunks(
    write_golden, catalogue, field, named
):
    rows = [
        ROW | {"expected_doc_ids": ["d9", "d8"], "expected_chunk_ids": ["c9", 7]},
        ROW | {"id": "r", "expected_doc_ids": ["d1", "d9"], "expected_chunk_ids": ["c1", 8, "c9"]},
    ]
    file, catalogue = write_golden(rows), pd.DataFrame(catalogue)
    with refused(*named, file="golden.yaml", field=field):
        rs.load_golden(file, catalogue=catalogue)
    assert len(rs.load_golden(file, strict=False, catalogue=catalogue)._problems) == 1


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (
            [ROW | {"answerable": True, "right": "d"}],
            ["1 query to be answered", "columns without a role: right"],
        ),
        (
            [ROW | {"answerable": False, "expected_doc_ids": ["d"]}],
            ["1 query to be refused", "q"],
        ),
    ],
)
def test_labels_that_count_for_nothing_are_said(rows, named):
    with warned(*named):
        rs.load_golden([*rows, ROW | {"id": "other", "answerable": False}])


@pytest.mark.parametrize(
    ("text", "line", "field", "named"),
    [
        (TWICE, 6, "id", ["g1", 3, "g2", 2]),
        (BAD_GROUP, 3, "group", ["g2", "intent", "g1"]),
        (f"{JSON_ROW}\n{{bad\n", 3, ANY, ["JSON"]),
        ('{"id": "a", "id": "b"}\n', 1, ANY, ["id"]),
        (
            "- {id: q, query: '?', expected_doc_ids: [x, {any: [x], grade: 3}]}\n",
            1,
            "expected_doc_ids",
            [1, 3],
        ),
        ("- {id: no, query: q}\n", 1, "id", ["false"]),
        ("- {id: 2024-01-01, query: q}\n", 1, "id", ["2024-01-01"]),
        ("- query: q\n", 1, "id", []),
        ("- id: a\n  query: [x]\n", 2, "query", ['["x"]']),
        ("- id: a\n  query: q\n  expected_doc_ids: d1\n", 3, "expected_doc_ids", ['"d1"']),
        ("- id: a\n  query: q\n  expected_doc_ids: {d1: -1}\n", 3, "expected_doc_ids", [-1, 0]),
        ("- id: a\n  query: q\n  tags: [yes]\n", 3, "tags", ["[true]"]),
        (
            "- id: a\n  query: q\n  answerable: maybe\n",
            3,
            "answerable",
            ['"maybe"', "true", "false"],
        ),
        (
            "- {id: a, query: q, should_refuse: true, answerable: true}\n",
            1,
            "answerable",
            ["should_refuse"],
        ),
        ("- id: a\n  query: q\n  query: r\n", 3, "query", []),
        ("- id: a\n  query: 'q\n", ANY, ANY, ["YAML"]),
        ("id: a\n", 1, None, []),
        ("- {id: a, query: q}\n---\n- {id: b, query: q}\n", 3, None, ["2 documents"]),
        (
            "- id: a\n  query: q\n  gold_supports: [{heading: H}]\n",
            3,
            "gold_supports",
            ["heading", "path"],
        ),
        (
            "- id: a\n  query: q\n  gold_supports: [{path: p, start: 9, end: 3}]\n",
            3,
            "gold_supports",
            ["start", 9, "end", 3],
        ),
    ],
)
def test_a_bad_golden_file_stops_with_line_field_found_and_allowed(
    write_golden, text, line, field, named
):
    name = "golden.jsonl" if text[0] == "{" else "golden.yaml"
    with refused(*named, file=name, line=line, field=field):
        rs.load_golden(write_golden(text, name))


Q = "- id: a\n  query: q\n"


@pytest.mark.parametrize(
    ("text", "field", "named"),
    [
        (f"{Q}  ? [a, b]\n  : 1\n", ANY, ["YAML", "list"]),
        (f"{Q}  filters: &loop {{deeper: {{again: *loop}}}}\n", ANY, ["YAML", "recursive"]),
        (f"{Q}  filters: &loop {{<<: *loop, x: *loop}}\n", ANY, ["YAML", "recursive"]),
        (f"{Q}  filters: !!int abc\n", ANY, ["YAML", "'abc'", "int"]),
        (f"{Q}  filters: {'9' * 5000}\n", ANY, ["YAML", "int"]),
        (f"{Q}  <<: 3\n", ANY, ["YAML", "mapping"]),
        (f"{Q}  gold_supports: [{{path: p, start: 1, end: {2**63}}}]\n",
        "gold_supports", ["start", 1, "end", 2**63]),
        (f"{Q}  gold_supports: [{{path: p, grade: {2**31}}}]\n",
        "gold_supports", ["grade", 2**31, 0, 2**31 - 1]),
        (f"{Q}  gold_supports: [{{path: p, grade: high}}]\n", "gold_supports", ["grade", "high"]),
        (f"{Q}  gold_supports: [{{path: p, doc_id: true}}]\n", "gold_supports.doc_id", ["true"]),
        (f"{Q}  expected_doc_ids: {{d: {2**31}}}\n", "expected_doc_ids", ["grade", 2**31]),
        (f"{Q}  expected_doc_ids: ['']\n", "expected_doc_ids", ['""']),
        (f"{Q}  required_support_groups: [[{{a: 1}}]]\n", "required_support_groups", ["a"]),
    ],
)  # fmt: skip
def test_odd_yaml_is_one_error_with_its_line_and_one_problem(write_golden, text, field, named):
    with refused(*named, file="golden.yaml", line=3, field=field):
        rs.load_golden(write_golden(text))
    with warnings.catch_warnings(action="ignore"):
        assert len(rs.load_golden(write_golden(text), strict=False)._problems) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [("[" * 100_000, 1), ("- " * 100_000 + "a", 1), (f"{Q}  x: {'[' * 99}{']' * 99}\n", 3)],
)
def test_yaml_of_any_depth_ends_in_an_error_and_not_the_process(write_golden, text, line):
    for strict in (True, False):
        with refused(file="golden.yaml", line=line):
            rs.load_golden(write_golden(text), strict=strict)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("answerabel", "answerable"), ("expected_docs_ids", "expected_doc_ids"), ("tag", "tags")],
)
def test_a_slip_in_a_field_name_warns_once_and_is_kept(write_golden, written, meant):
    rows = [
        {
            "id": name,
            "query": "q",
            "expected_doc_ids": ["d"],
            **({written: "v"} if name != "a" else {}),
        }
        for name in "abc"
    ]
    with warned("golden.yaml:3", written, meant) as caught:
        golden = rs.load_golden(write_golden(rows))
    assert len(caught) == 1 and caught[0].filename == __file__
    assert golden.queries[f"x_{written}"].count() == 2


@pytest.mark.parametrize(
    ("load", "name", "content", "line", "named"),
    [
        (rs.load_golden, "golden.jsonl", yaml.safe_dump(THREE_QUERIES), 1, []),
        (rs.load_golden, "golden.jsonl", "\nid,query\na,b\n", 2, ["JSON"]),
        (rs.load_results, "per_query.jsonl", json.dumps(RUN_A), 1, []),
        (rs.load_results, "per_query.jsonl", "query_id;rank\nq1;1\n", 1, ["JSON"]),
        (rs.load_results, "bad.jsonl", b"{}\n\xff\n", 2, ["0xff", "UTF-8"]),
        (rs.load_results, "bad.jsonl.gz", b"plain", None, []),
    ],
)
def test_a_file_of_another_format_is_called_by_its_name(tmp_path, load, name, content, line, named):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with refused(*named, file=name, line=line):
        load(tmp_path / name)


@pytest.mark.parametrize("given", [None, [3], {"a": 1.5}])
def test_a_path_that_is_none_says_what_is_allowed(given, monkeypatch):
    monkeypatch.delenv("RAGSCORE_GOLDEN", raising=False)
    monkeypatch.delenv("KEBAB_EVAL_GOLDEN", raising=False)
    for load in (rs.load_results, rs.load_golden):
        with refused() as caught:
            load(given)
        assert {caught.value.field, caught.value.file} & {"source", "dict", "records"}


def test_not_strict_loads_the_rest_and_returns_the_problems(write_golden):
    text = (
        "- {id: a, query: q, expected_doc_ids: [d]}\n- {id: no, query: q}\n- {id: a, query:"
        " again}\n- {id: b, query: q, expected_doc_ids: [d], tags: 7}\n"
    )
    golden = rs.load_golden(write_golden(text), strict=False)
    assert golden.queries["query_id"].tolist() == ["a", "b"]
    found = golden._problems.sort_values("line", ignore_index=True)
    assert found["field"].to_dict() == {0: "id", 1: "id", 2: "tags"}
    assert found["line"].tolist() == [2, 3, 4]
    says(found["found"][1], "a", 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "n"), [("three.yaml", None, 3), ("three.yaml", "one.yaml", 3),
                              ("", "one.yaml", 1)],  # an empty name is none
)  # fmt: skip
def test_the_environment_names_the_golden_file_ours_before_that_of_another_harness(
    write_golden, tmp_path, monkeypatch, ours, theirs, n
):
    write_golden(THREE_QUERIES, "three.yaml"), write_golden(THREE_QUERIES[:1], "one.yaml")
    monkeypatch.chdir(tmp_path)
    for name, value in (("RAGSCORE_GOLDEN", ours), ("KEBAB_EVAL_GOLDEN", theirs)):
        monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name, False)
    assert len(rs.load_golden().queries) == n


def test_golden_hash_knows_content_not_order(write_golden):
    # Stored runs are told apart by it: a change of it breaks every comparison with them.
    assert rs.load_golden(DEMO).golden_hash == "63253d3c2a3be42c"
    first = rs.load_golden(write_golden(THREE_QUERIES)).golden_hash
    assert rs.load_golden(write_golden(THREE_QUERIES[::-1])).golden_hash == first
    assert (
        rs.load_golden(
            write_golden([*THREE_QUERIES[:2], THREE_QUERIES[2] | {"expected_doc_ids": ["d4"]}])
        ).golden_hash
        != first
    )


def test_run_files_load_with_spans_scores_and_ids(write_run):
    results = rs.load_results(
        write_run(
            "a",
            RUN_A,
            system="bm25",
            created_at="2026-01-31T10:00:00+01:00",
            config={"eval_k": 20, "chunker_version": "test@1"},
        )
    )
    run = results.runs.iloc[0]
    assert (
        run["run_id"],
        run["system"],
        run["k"],
        run["chunker_version"],
        run["n_queries"],
        run["n_failed"],
    ) == ("a", "bm25", 20, "test@1", 3, 0)
    assert str(run["created_at"]) == "2026-01-31 09:00:00+00:00"
    first = results.hits.iloc[0]
    # lines 1 to 4 of the file are the half-open span [1, 5)
    assert (
        first["start"],
        first["end"],
        first["span_unit"],
        first["heading"],
        first["score_lexical"],
    ) == (1, 5, "line", "root", 1.0)
    assert results.hits["x_retrieval.lexical_rank"].tolist() == results.hits["rank"].tolist()


CITATIONS = [
    ({"kind": "line", "path": "p", "start": 3, "end": 9}, (3, 10, "line")),
    ({"kind": "page", "path": "p", "page": 2}, (2, 3, "page")),
    ({"kind": "code", "path": "p", "line_start": 1, "line_end": 1, "symbol": "f"}, (1, 2, "line")),
    ({"kind": "time", "path": "p", "start_ms": 100, "end_ms": 900, "speaker": "A"},
    (100, 900, "ms")),
    ({"kind": "region", "path": "p", "x": 1, "y": 2, "w": 3, "h": 4}, (pd.NA, pd.NA, pd.NA)),
    ({"kind": "caption", "path": "p", "model": "m"}, (pd.NA, pd.NA, pd.NA)),
]  # fmt: skip


@pytest.mark.parametrize(("citation", "span"), CITATIONS, ids=[one["kind"] for one, _ in CITATIONS])
def test_all_six_kinds_of_citation_load_and_write_back(write_run, tmp_path, citation, span):
    given = {
        "answer": "a",
        "grounded": True,
        "citations": [{"marker": "[1]", "citation": citation}],
    }
    results = rs.load_results(
        write_run("a", [record("q", [hit("c", "d", 1, citation=citation)], answer=given)])
    )
    row = results.citations.reindex(columns=["start", "end", "span_unit"]).iloc[0]
    assert [None if pd.isna(value) else value for value in row] == [
        None if pd.isna(value) else value for value in span
    ]
    written = json.loads(results.save(tmp_path / "out", format="per_query").read_text())
    assert (
        written["answer"]["citations"][0]["citation"]
        == citation
        == written["hits_top_k"][0]["citation"]
    )


def without_nulls(value, without=("path", "start", "end", "span_unit")):  # that stand beside, too
    if isinstance(value, dict):
        known = {key: one for key, one in value.items() if one not in (None, {})}
        return {key: without_nulls(one) for key, one in known.items() if key not in without}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def test_writing_gives_back_what_was_loaded(write_run, tmp_path):
    odd = hit(
        "c1",
        "d1",
        1,
        repo="r",
        weird={"a.b": 1, "json": [1, {"x": None}], "deep": {"mixed": 3}},
        trust_level="primary",
    )
    given = answer(
        "text",
        paths=["docs/d1.md"],
        model={"id": "m", "dimensions": None},
        usage={"prompt_tokens": 3, "completion_tokens": 4, "latency_ms": 5},
        hops=[{"iter": 1}],
    )
    records = [
        record("q1", [odd], answer=given, latency_search_ms=2.5, note="x"),
        record("q2", [hit("c2", "d2", 1, weird={"deep": {"mixed": "text"}})], error="boom"),
    ]
    file = write_run(
        "a",
        records,
        system="s",
        config={"k": 5},
        created_at="2026-01-31T09:00:00Z",
        hardware={"cores": 2},
    )
    results = rs.load_results(file)
    written = results.save(tmp_path / "again" / "a", format="per_query")
    assert [without_nulls(json.loads(line)) for line in written.read_text().splitlines()] == [
        without_nulls(one) for one in records
    ]
    again = rs.load_results(written)
    for kind in ("runs", "responses", "hits", "citations"):
        pd.testing.assert_frame_equal(getattr(again, kind), getattr(results, kind), check_like=True)


def test_a_record_without_answer_object_is_not_an_answer(write_run):
    hits = [{"chunk_id": name, "doc_id": "d"} for name in "abc"]
    answers = [{}, {"answer": ""}, {"answer": answer("no", grounded=False)}]
    records = [record(f"q{n}", hits, **one) for n, one in enumerate(answers)]
    results = rs.load_results(write_run("a", records))
    assert results.hits["rank"].tolist() == [1, 2, 3] * 3, "the order of the list"
    assert results.responses["answer"].isna().tolist() == [True, False, False]
    # a blank answer is a refusal
    assert results.responses["refused"].astype(object).fillna("").tolist() == ["", True, True]


@pytest.mark.parametrize(
    ("line", "field", "named"),
    [
        ("[1]", None, ["[1]"]),
        ("{", ANY, ["JSON"]),
        ('{"query_id": true}', "query_id", ["true"]),
        ('{"query_id": "q1"}', "query_id", ["'q1'", 1]),
        ('{"query_id": "x", "hits_top_k": [null]}', "hits_top_k", ["null"]),
        (
            '{"query_id": "x", "hits_top_k": [{"rank": 3}, {"rank": 3}]}',
            "hits_top_k.rank",
            [3],
        ),
        (
            '{"query_id": "x", "hits_top_k": [{"rank": 0}]}',
            "hits_top_k.rank",
            [0],
        ),
        ('{"query_id": "x", "elapsed_ms": "fast"}', "elapsed_ms", ['"fast"', "null"]),
        (
            '{"query_id": "x", "answer": {"citations": [{"citation": {"kind": "verse"}}]}}',
            ANY,
            ["kind", "line, code, page, time, region, caption"],
        ),
        (
            (
                '{"query_id": "x", "answer": {"citations": [{"citation": {"kind": "line", "start":'
                ' 5, "end": 2}}]}}'
            ),
            ANY,
            ["start", 5, "end", 2],
        ),
        ('{"query_id": "x", "query": "\\ud800"}', ANY, ["JSON", "ud800"]),
    ],
)
def test_a_bad_record_stops_with_line_field_found_and_allowed(write_run, line, field, named):
    file = write_run("a", RUN_A[:1])
    file.write_text(file.read_text() + line + "\n")
    with refused(*named, file="per_query.jsonl", line=2, field=field):
        rs.load_results(file)
    assert rs.load_results(file, strict=False).problems["line"].tolist() == [2]


def test_problems_of_several_runs_name_their_run(write_run):
    files = [
        write_run("odd/a", [*RUN_A, RUN_A[0]]),
        write_run("odd/b", [*RUN_A, RUN_A[1], RUN_A[2]], note="n"),
    ]
    (files[1].parent / "run.json").write_text('{"run_id": "renamed"}')  # no folder bears this name
    results = rs.load_results(files, strict=False)
    assert results.problems["run_id"].astype("str").tolist() == ["a", "renamed", "renamed"]
    assert results.select(["renamed"]).problems["line"].tolist() == [4, 5]


def test_runs_are_named_by_run_json_folder_or_file(write_run, tmp_path):
    assert rs.load_results(write_run("folder", RUN_A)).runs["run_id"].tolist() == ["folder"]
    alone = tmp_path / "alone.jsonl.gz"
    alone.write_bytes(gzip.compress(json.dumps(RUN_A[0]).encode()))
    assert rs.load_results(alone).runs["run_id"].tolist() == ["alone"]
    file = write_run("folder", RUN_A)
    (file.parent / "run.json").write_text('{"run_id": "named"}')
    assert rs.load_results(tmp_path / "runs" / "*").runs["run_id"].tolist() == ["named"]


def test_two_files_of_one_run_are_refused(write_run, tmp_path):
    file = write_run("a", RUN_A)
    with refused(field="run_id"):
        rs.load_results([file, file])
    for name in ("nothing.jsonl", "none*.jsonl"):
        with refused(field="source"):
            rs.load_results(tmp_path / name)

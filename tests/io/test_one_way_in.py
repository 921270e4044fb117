"""One way in: data of twenty kinds and more, each loaded by one line, or refused with a remedy."""

import json
from types import SimpleNamespace

import duckdb  # noqa: F401 (a line of the table uses it)
import numpy as np  # noqa: F401 (as above)
import pandas as pd
import polars as pl  # noqa: F401 (code of the cases)
import pyarrow as pa  # noqa: F401
import pytest
from plausible_runs import put

import ragscore as rs
from ragscore.io.load import load_golden, load_results
from tests.messages import refused, warned

HITS = pd.DataFrame({"qid": ["q1", "q1", "q2"], "docno": ["a", "b", "c"], "score": [1.0, 2.0, 3.0]})
QRELS = pd.DataFrame({"qid": ["q1", "q1", "q2"], "docno": ["a", "b", "c"], "label": [2, 0, 1]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the table names, to stand in."""
    monkeypatch.chdir(tmp_path)
    HITS.to_csv("hits.csv", index=False)
    HITS.rename(columns={"qid": "topicnum", "docno": "hitname"}).to_csv("odd.csv", index=False)
    HITS.to_parquet("hits.parquet")
    HITS.to_feather("hits.feather")
    HITS.to_json("hits.jsonl", orient="records", lines=True)
    rows = {
        "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tc\t2\n",
        "run.txt": "q1 Q0 b 1 2.0 bm25\nq1 Q0 a 2 1.0 bm25\nq2 Q0 c 1 3.0 bm25\n",
        "ragas.jsonl": '{"user_input": "why?", "response": "so", "reference": "so",'
        ' "retrieved_context_ids": ["a"], "reference_context_ids": ["a"]}\n',
        "ranked.json": '{"q1": ["b", "a"], "q2": ["c"]}',
        "printed.csv": "qid,retrieved\nq1,\"['a' 'b']\"\n",
        "empty.jsonl": "\n",
        "gap.csv": "qid,docno\nq1,a\nq1,\n",
        "header.csv": "qid,docno\n",
        "prose.txt": "word " * 30,
        "array.jsonl": '[{"qid": "q1", "retrieved": ["a"]}]\n',
    }
    for name, text in rows.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


# What it is, the one line, how much was loaded (runs, responses and hits; queries, those to be
# answered and targets), and which columns were taken for what.
LOADED = [
    # -- one row per hit --
    (
        'pandas, with scores',
        'load_results(HITS)',
        (1, 2, 3),
        'query_id = qid, doc_id = docno, score = score, rank = score (descending)',
    ),
    (
        'polars, two runs by a column',
        ("load_results(pl.from_pandas(HITS).with_columns(system=pl.Series(['bm25', 'dense', "
         "'dense'])))"),
        (2, 3, 3),
        ('query_id = qid, run_id = system, doc_id = docno, score = score, rank = score '
         '(descending)'),
    ),
    (
        'pyarrow, ranks',
        'load_results(pa.Table.from_pandas(HITS.assign(rank=[2, 1, 1])))',
        (1, 2, 3),
        'query_id = qid, doc_id = docno, rank = rank, score = score',
    ),
    (
        'DuckDB',
        "load_results(duckdb.sql('select * from HITS'), run_id='sql')",
        (1, 2, 3),
        'query_id = qid, doc_id = docno, score = score, rank = score (descending)',
    ),
    (
        'an index of queries and documents',
        "load_results(HITS.set_index(['qid', 'docno']))",
        (1, 2, 3),
        'query_id = qid, doc_id = docno, score = score, rank = score (descending)',
    ),
    (
        'a part of each query, which pandas puts into a nameless index beside',
        "load_results(HITS.groupby('qid').apply(lambda of: of.head(1)))",
        (1, 2, 2),
        'query_id = qid, doc_id = docno, score = score, rank = score (descending)',
    ),
    (
        'neither rank nor score',
        "load_results(HITS[['qid', 'docno']])",
        (1, 2, 3),
        'query_id = qid, doc_id = docno, rank = order of the hits',
    ),
    (
        'chunks and their documents',
        "load_results(HITS.assign(chunk_id=['a#1', 'b#2', 'c#1']))",
        (1, 2, 3),
        ('query_id = qid, doc_id = docno, chunk_id = chunk_id, score = score, rank = score '
         '(descending)'),
    ),
    (
        'CSV',
        "load_results('hits.csv')",
        (1, 2, 3),
        'query_id = qid, doc_id = docno, score = score, rank = score (descending)',
    ),
    (
        "TSV of BEIR's judgements",
        "load_golden('qrels.tsv')",
        (2, 2, 2),
        '',
    ),
    (
        'CSV with odd names, named',
        "load_results('odd.csv', columns={'query_id': 'topicnum', 'doc_id': 'hitname'})",
        (1, 2, 3),
        'query_id = topicnum, doc_id = hitname, score = score, rank = score (descending)',
    ),
    (
        'Parquet',
        "load_results('hits.parquet')",
        (1, 2, 3),
        'query_id = qid, doc_id = docno, score = score, rank = score (descending)',
    ),
    (
        'JSON lines',
        "load_results('hits.jsonl')",
        (1, 2, 3),
        'query_id = qid, doc_id = docno, score = score, rank = score (descending)',
    ),
    (
        'TREC run',
        "load_results('run.txt')",
        (1, 2, 3),
        '',
    ),
    # -- one row per query --
    (
        'lists of ids',
        "load_results(pl.DataFrame({'qid': ['q1', 'q2'], 'retrieved': [['b', 'a'], ['c']]}))",
        (1, 2, 3),
        'query_id = qid, doc_id = retrieved, rank = order of the hits',
    ),
    (
        'lists of ids and scores',
        ("load_results(pd.DataFrame({'qid': ['q1'], 'retrieved': [['b', 'a']], 'scores': [[2.0, "
         '1.0]]}))'),
        (1, 1, 2),
        'query_id = qid, doc_id = retrieved, score = scores, rank = order of the hits',
    ),
    (
        'answers and hits as records',
        ("load_results([{'id': 1, 'question': 'why?', 'answer': 'so', 'hits': [{'id': 'a', "
         "'score': 0.5}]}])"),
        (1, 1, 1),
        ('query_id = id, query = question, doc_id = hits, answer = answer, rank = order of the '
         'hits'),
    ),
    (
        'a column inside another one',
        "load_results([{'id': 1, 'out': {'ids': ['a', 'b']}}], columns={'doc_id': 'out.ids'})",
        (1, 1, 2),
        'query_id = id, doc_id = out.ids, rank = order of the hits',
    ),
    (
        'a field of passages that are called as texts are',
        ("load_results([{'id': 1, 'context': [{'file': 'a', 'sim': 0.9}, {'file': 'b'}]}], "
         "columns={'doc_id': 'context.file'})"),
        (1, 1, 2),
        'query_id = id, doc_id = context.file, rank = order of the hits',
    ),
    (
        "a tool's export",
        "load_results('ragas.jsonl')",
        (1, 1, 1),
        '',
    ),
    (
        "one row that is answered, and one with labels alone",
        "load_results(pd.DataFrame({'user_input': ['a?', 'b?'], 'reference': ['B', 'C'],"
        " 'response': ['x', None]}))",
        (1, 1, 0),
        '',
    ),
    (
        "another tool's export",
        "load_golden('ragas.jsonl')",
        (1, 1, 1),
        '',
    ),
    (
        'a dataset of Hugging Face',
        "load_golden(SimpleNamespace(to_pandas=lambda: pd.DataFrame({'question': ['why?'],"
        " 'gold_docs': [['a']]})))",
        (1, 1, 1),
        'query = question, doc_id = gold_docs',
    ),
    # -- dicts --
    (
        'ranked ids',
        "load_results({'q1': ['b', 'a'], 'q2': []})",
        (1, 2, 2),
        '',
    ),
    (
        'records beside a name, by the column that asks',
        "load_results({'run': 'x', 'turns': [{'turn_id': '1_1', 'found': ['a']}]},"
        " columns={'query_id': 'turn_id', 'doc_id': 'found'})",
        (1, 1, 1),
        'query_id = turn_id, doc_id = found, rank = order of the hits',
    ),
    (
        'scores',
        "load_results({'q1': {'a': 1.0, 'b': 2.0}})",
        (1, 1, 2),
        '',
    ),
    (
        'runs',
        "load_results({'bm25': {'q1': ['b', 'a']}, 'dense': {'q1': {'b': 0.5}}})",
        (2, 2, 3),
        '',
    ),
    (
        'expected ids',
        "load_golden({'q1': ['a', 'b'], 'q2': []})",
        (2, 1, 2),
        '',
    ),
    (
        'grades',
        "load_golden({'q1': {'a': 2, 'b': 0}})",
        (1, 1, 2),
        '',
    ),
    (
        'JSON',
        "load_results('ranked.json')",
        (1, 2, 3),
        '',
    ),
    # -- labels --
    (
        'judgements',
        'load_golden(QRELS)',
        (2, 2, 3),
        'query_id = qid, doc_id = docno, grade = label',
    ),
    (
        'grades as a mapping',
        "load_golden(pd.DataFrame({'qid': ['q1'], 'relevant': [{'a': 2, 'b': 1}]}))",
        (1, 1, 2),
        'query_id = qid, doc_id = relevant',
    ),
    (
        'one answer each',
        "load_golden(pd.DataFrame({'qid': ['q1', 'q2'], 'gold_id': ['a', 'c']}))",
        (2, 2, 2),
        'query_id = qid, doc_id = gold_id',
    ),
    (
        'a label of which nothing is known',
        "load_golden(pd.DataFrame({'qid': ['q1'], 'gold': [['a']], 'difficulty': [None]}))",
        (1, 1, 1),
        'query_id = qid, doc_id = gold, difficulty = difficulty',
    ),
    (
        'scores of which nothing is known',
        "load_results(HITS.assign(score=None))",
        (1, 2, 3),
        'query_id = qid, doc_id = docno, rank = order of the hits, x_score = score',
    ),
    (
        'what to refuse',
        ("load_golden(pd.DataFrame({'qid': ['q1', 'q2'], 'gold': [['a'], None], 'unanswerable': "
         '[False, True]}))'),
        (2, 1, 1),
        'query_id = qid, doc_id = gold, should_refuse = unanswerable',
    ),
]  # fmt: skip
# What it is, the one line, and file, line and field of the error and what it names.
REFUSED = [
    (
        'CSV with odd names',
        "load_results('odd.csv')",
        ('odd.csv', None, 'format'),
        ['topicnum', 'hitname'],
    ),
    (
        'passages without a known id',
        "load_results([{'id': 1, 'context': [{'file': 'a'}]}])",
        ('records', 1, 'context'),
        ['columns={"doc_id": "context.???"}'],
    ),
    (
        'a misspelt column',
        "load_results('odd.csv', columns={'query_id': 'topicnum', 'doc_id': 'hitnam'})",
        ('odd.csv', None, 'columns'),
        ["'hitnam'", 'hitname'],
    ),
    (
        'an unknown role',
        "load_results('odd.csv', columns={'query_id': 'topicnum', 'retrieved_ids': 'hitname'})",
        ('odd.csv', None, 'columns'),
        ["'retrieved_ids'", 'doc_id'],
    ),
    (
        'a role that resembles one of stored values',
        "load_results('odd.csv', columns={'score_metric': 'hitname'})",
        ('odd.csv', None, 'columns'),
        ["no role 'score_metric'; did you mean score.<metric>"],
    ),
    (
        'the opposite of a role',
        ("load_golden(pd.DataFrame({'qid': ['q1'], 'gold': [['a']], 'unanswerable': [False]}), "
         "columns={'answerable': 'unanswerable'})"),
        ('frame', None, 'columns'),
        ["'unanswerable'", 'answerable', 'columns={"should_refuse": "unanswerable"}'],
    ),
    (
        'hits as labels',
        'load_golden(HITS)',
        ('frame', None, 'columns'),
        ['docno', 'columns={"doc_id": "docno"}', 'rs.load_results'],
    ),
    (
        'labels as hits',
        'load_results(QRELS)',
        ('frame', None, 'columns'),
        ['docno', 'columns={"doc_id": "docno"}', 'rs.load_golden'],
    ),
    (
        'missing ids',
        "load_results(HITS.assign(docno=['a', None, 'c']))",
        ('frame', 2, 'docno'),
        ['null'],
    ),
    (
        'a missing id in a file',
        "load_results('gap.csv')",
        ('gap.csv', 3, 'docno'),
        ['null'],
    ),
    (
        'flags as scores',
        "load_results({'q1': {'a': True}})",
        ('dict', 1, 'hits'),
        ['a'],
    ),
    (
        'columns as a dict',
        "load_results({'query_id': ['q1', 'q2'], 'doc_id': ['a', 'b']})",
        ('dict', None, None),
        ['query_id', 'doc_id', 'pd.DataFrame'],
    ),
    (
        'whole numbers with a gap',
        'load_results(HITS.assign(docno=[1, np.nan, 3]))',
        ('frame', 2, 'docno'),
        ['null'],
    ),
    (
        'booleans as ids',
        'load_results(HITS.assign(docno=[True, False, True]))',
        ('frame', 1, 'docno'),
        ['true', 3],
    ),
    (
        'dates as ids',
        "load_results(HITS.assign(docno=pd.to_datetime(['2026-01-31'] * 3)))",
        ('frame', 1, 'docno'),
        ['2026-01-31', 3],
    ),
    (
        'a missing score',
        'load_results(HITS.assign(score=[1.0, None, None]))',
        ('frame', 2, 'score'),
        ['found nothing (null) (2 of 3 rows are like that)'],
    ),
    (
        'a rank twice',
        'load_results(HITS.assign(rank=[1, 1, 1]))',
        ('frame', 2, 'rank'),
        ["rank 1 appears twice for query 'q1'", 'columns={"rank": None}'],
    ),
    (
        'wrong shape of a dict',
        "load_results({'q1': 3})",
        ('dict', None, None),
        [3, "'q1'"],
    ),
    (
        "numpy's print of a list",
        "load_results('printed.csv')",
        ('printed.csv', 2, 'retrieved'),
        ["['a' 'b']"],
    ),
    (
        'nothing that tells',
        "load_golden(pd.DataFrame({'topicnum': ['q1'], 'answers': ['a']}))",
        ('frame', None, 'format'),
        ['topicnum', 'answers'],
    ),
    (
        'an empty file',
        "load_golden('empty.jsonl')",
        ('empty.jsonl', None, None),
        [],
    ),
    (
        'a text',
        "load_golden('prose.txt')",
        ('prose.txt', None, 'format'),
        [f"golden files (text {'word ' * 12!r})"],  # sixty characters of it
    ),
    (
        'a folder of anything',
        "load_golden('.')",
        ('', None, 'format'),
        ["folder with array.jsonl, empty.jsonl", "qrels.tsv);"],  # twelve of its names
    ),
    (
        'an array in JSON lines',
        "load_results('array.jsonl')",
        ('array.jsonl', 1, None),
        ["found a list", "one JSON object per line"],
    ),
    (
        'labels alone, in the names of a tool',
        "load_results(pd.DataFrame([{'user_input': 'a?', 'reference': 'B'}]))",
        ('frame', None, None),
        ["labels only", "load_golden"],
    ),
    (
        'only a header',
        "load_results('header.csv')",
        ('header.csv', None, None),
        ['csv'],
    ),
    (
        'an empty frame',
        'load_results(HITS[:0])',
        ('frame', None, None),
        ['frame'],
    ),
    (
        'a file of Arrow',
        "load_results('hits.feather')",
        ('hits.feather', None, 'format'),
        [],
    ),
    (
        'a lazy frame',
        'load_results(pl.from_pandas(HITS).lazy())',
        (None, None, 'source'),
        ['LazyFrame', 'collect()'],
    ),
    (
        'something else',
        'load_results(3)',
        (None, None, 'source'),
        ['int'],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "counts", "taken"), [way[1:] for way in LOADED], ids=[way[0] for way in LOADED]
)
def test_data_of_every_kind_is_loaded_by_one_line(code, counts, taken, folder):
    found = eval(code)
    held = found._mapping if isinstance(found, rs.Golden) else found.mapping
    mapping = [] if held is None else held.values.tolist()
    assert ", ".join(" = ".join(one) for one in mapping) == taken
    if isinstance(found, rs.Golden):
        frames = found.queries, found.queries[found.queries["answerable"]], found.targets
    else:
        frames = found.runs, found.responses, found.hits
    assert tuple(map(len, frames)) == counts


@pytest.mark.parametrize(
    ("code", "place", "named"), [way[1:] for way in REFUSED], ids=[way[0] for way in REFUSED]
)
def test_data_that_cannot_be_taken_is_refused_with_a_remedy(code, place, named, folder):
    file, line, field = place
    with refused(*named, file=file, line=line, field=field):
        eval(code)


def test_other_columns_are_kept_as_ones_own():
    frame = HITS.assign(shard=[1, 2, 1], source={"kind": "wiki"}["kind"], boost=[0.5, None, 1.0])
    hits = load_results(frame).hits
    assert hits["x_shard"].tolist() == [1, 2, 1] and hits["x_source"].tolist() == ["wiki"] * 3
    answers = load_results([{"qid": 1, "response": "so", "model_size": "7b"}]).responses
    assert answers["x_model_size"].tolist() == ["7b"]


def test_rows_that_cannot_be_taken_are_counted_unless_strict():
    frame = HITS.assign(docno=["a", None, "c"], latency_ms=[5, 5, "fast"])
    found = load_results(frame, strict=False)
    assert found.hits["doc_id"].tolist() == ["a", "c"]
    assert found.responses["elapsed_ms"].fillna(0).tolist() == [5, 0]
    assert found.problems[["line", "field"]].values.tolist() == [[2, "docno"], [3, "latency_ms"]]


def test_ids_that_are_numbers_stay_as_they_are_written(tmp_path):
    (tmp_path / "hits.csv").write_text("qid,docno\n001,7\n001,07\n", encoding="utf-8")
    assert load_results(tmp_path / "hits.csv").hits["doc_id"].tolist() == ["7", "07"]


def test_ties_of_scores_keep_the_order_of_rows_or_follow_trec_eval():
    frame = HITS.assign(score=1.0)
    assert load_results(frame).hits["rank"].tolist() == [1, 2, 1]
    # trec_eval: the greater id first, whatever ranks are stored
    for stored, columns in ((frame, None), (frame.assign(rank=1), {"rank": None})):
        hits = load_results(stored, columns=columns, ties="trec").hits
        assert hits["rank"].tolist() == [2, 1, 1]


def test_several_sources_are_joined_and_named(folder):
    found = load_results([load_results(HITS, run_id="mine"), "hits.csv", {"dense": {"q1": ["a"]}}])
    assert found.runs["run_id"].tolist() == ["mine", "hits", "dense"]
    assert load_results("run.txt", run_id="named").runs["run_id"].tolist() == ["named"]
    with refused("x", 2, field="run_id"):
        load_results(["hits.csv", "run.txt"], run_id="x")


def test_several_golden_files_become_one_with_the_queries_of_all(folder, tmp_path):
    for name in ("a", "b"):
        load_golden({name: ["d"]}).save(f"{name}.qrels")
    assert load_golden("*.qrels").queries["query_id"].tolist() == ["a", "b"]
    joined = load_golden(["b.qrels", "a.qrels"])
    assert joined.queries["query_id"].tolist() == ["b", "a"]
    assert joined.queries["position"].tolist() == [0, 1]
    (tmp_path / "c.csv").write_text("query_id,doc_id,grade\na,d,1\n")
    with refused("a", field="queries"):
        load_golden(["a.qrels", "b.qrels", "c.csv"])


def test_documents_that_stand_in_a_query_twice_are_said_or_refused():
    frame = pd.concat([HITS.assign(setup="x"), HITS.assign(setup="y")], ignore_index=True)
    with warned('columns={"run_id": ...}'):
        load_results(frame)
    with refused(1, "columns=", file="frame", field="rank"):
        load_results(frame.assign(rank=[2, 1, 1, 2, 1, 1]))


@pytest.mark.parametrize(("load", "third"), [(load_results, "rank"), (load_golden, "grade")])
def test_a_file_without_a_header_is_refused_until_pandas_names_its_columns(tmp_path, load, third):
    file = put(tmp_path, ["q1\td1\t1\tx\ty", "q2\td2\t1\tx\ty"], "run.tsv")
    with refused("q1", "d1", file="run.tsv", field="format"):
        load(file)
    load(pd.read_csv(file, sep="\t", names=["query_id", "doc_id", third, "a", "b"]))
    frame = pd.read_csv(file, sep="\t", header=None)
    load(frame, columns={"query_id": 0, "doc_id": 1})


def test_json_lines_in_a_file_named_json_are_read_as_such(tmp_path):
    run = [{"query_id": one, "query": "?", "hits_top_k": []} for one in ("q1", "q2")]
    found = load_results(put(tmp_path, run, "run.json"))
    assert found.responses["query_id"].tolist() == ["q1", "q2"]
    rows = [{"query": text, "answerable": True} for text in ("one?", "two?")]
    golden = load_golden(put(tmp_path, rows, "golden.json"))
    assert golden.queries["query"].tolist() == ["one?", "two?"]


LABEL = {"query_id": "q1", "query": "?", "expected_doc_ids": ["a"]}


@pytest.mark.parametrize(("name", "start"), [("golden.jsonl", ""), ("golden.yaml", "- ")])
def test_a_golden_file_may_call_its_ids_query_id_but_is_no_run(tmp_path, name, start):
    file = put(tmp_path, [start + json.dumps(LABEL)], name)
    golden = load_golden(file)
    assert golden.targets[["query_id", "doc_id"]].values.tolist() == [["q1", "a"]]
    assert "x_query_id" not in golden.queries
    if name == "golden.jsonl":
        with refused("expected_doc_ids", file=name, field="format"):
            load_results(file)


def test_results_and_golden_set_the_other_way_round_are_told_so():
    golden, results = load_golden({"q": ["a"]}), load_results({"q": ["a"]})
    with refused("Results", field="source"):
        rs.evaluate(golden, results)
    with refused("Golden", field="source"):
        load_results(golden)


# A file's format is told from its content; where it can't be, the candidates are named.


@pytest.mark.filterwarnings("ignore:.*not read")
@pytest.mark.parametrize(
    "first",
    [
        {"query": "?", "hits_top_k": []},
        {"query": "?", "hits_top_k": [{"chunk_id": "c"}], "answer": None, "elapsed_ms": 1,
         "error": None},
        {"query": "?", "mode": "hybrid", "error": "timeout"},
    ],
)  # fmt: skip
def test_a_run_whose_first_record_lacks_its_id_is_told_so(tmp_path, first):
    file = put(tmp_path, [first, {"query_id": "b", "query": "?", "hits_top_k": []}], "r.jsonl")
    with refused("text", file=file, line=1, field="query_id"):
        rs.load_results(file)
    loaded = rs.load_results(file, strict=False)
    assert loaded.responses["query_id"].tolist() == ["b"]
    assert loaded.problems["line"].tolist() == [1]


@pytest.mark.parametrize(
    "more",
    [
        {"expected_doc_ids": ["d"]},
        {"answerable": False},
        {"must_contain": ["x"]},
        {"gold_supports": []},
        {"difficulty": "easy"},
    ],
)
@pytest.mark.parametrize("name", ["golden.jsonl", "golden.yaml"])
def test_a_golden_file_whose_first_record_lacks_its_id_is_told_so(tmp_path, more, name):
    rows = [{"query": "?", **more}, {"id": "b", "query": "?", **more}]
    begin = "- " if name.endswith("yaml") else ""
    (tmp_path / name).write_text("".join(f"{begin}{json.dumps(row)}\n" for row in rows))
    with refused(file=name, line=1, field="id"):
        rs.load_golden(tmp_path / name)


@pytest.mark.parametrize(
    "row",
    [
        {"query": "?"},
        {"query": "?", "said": "a"},
        {"question": "?", "difficulty": "easy"},
    ],
)
def test_records_that_may_be_of_any_tool_fit_no_run(tmp_path, row):
    with refused(file="rows.jsonl", field="format"):
        rs.load_results(put(tmp_path, [row], "rows.jsonl"))


# Documents of frameworks and responses of search engines: their ids, texts and scores.


def langchain(doc, text, **metadata):
    return SimpleNamespace(id=doc, page_content=text, metadata=metadata)


def llama_index(doc, text, score):
    node = SimpleNamespace(node_id=doc, text=text, metadata={"file": "f"})
    return SimpleNamespace(node=node, score=score)


def haystack(doc, text, score):
    return SimpleNamespace(id=doc, content=text, meta={"file": "f"}, score=score)


VALUES = {
    "langchain": [langchain("a", "A", page=1), langchain(None, "B", source="b")],
    "llama_index": [llama_index("a", "A", 0.9), llama_index("b", "B", 0.5)],
    "haystack": [haystack("a", "A", 0.9), haystack("b", "B", 0.5)],
    "elasticsearch": {"took": 1, "hits": {"total": {"value": 2}, "hits": [
        {"_id": "a", "_score": 0.9, "_source": {"text": "A"}},
        {"_id": "b", "_score": 0.5, "_source": {"text": "B"}}]}},
    "pinecone": {"namespace": "", "matches": [
        {"id": "a", "score": 0.9, "metadata": {"text": "A"}},
        {"id": "b", "score": 0.5, "metadata": {"text": "B"}}]},
    "qdrant": {"status": "ok", "result": {"points": [
        {"id": "a", "score": 0.9, "payload": {"text": "A"}},
        {"id": "b", "score": 0.5, "payload": {"text": "B"}}]}},
    "weaviate": {"data": {"Get": {"Passage": [
        {"text": "A", "_additional": {"id": "a", "score": 0.9}},
        {"text": "B", "_additional": {"id": "b", "score": 0.5}}]}}},
    "chroma": {"ids": [["a", "b"]], "distances": [[0.1, 0.5]], "documents": [["A", "B"]],
               "metadatas": [[{"file": "f"}, None]]},
    "vespa": {"root": {"id": "toplevel", "children": [
        {"id": "a", "relevance": 0.9, "fields": {"text": "A"}},
        {"id": "b", "relevance": 0.5, "fields": {"text": "B"}}]}},
}  # fmt: skip


@pytest.mark.parametrize("name", list(VALUES))
@pytest.mark.parametrize("is_by_run", [False, True])
def test_hits_of_a_framework_or_an_engine_are_read_in_their_order(name, is_by_run):
    queries = {"q1": VALUES[name], "q2": []}
    results = rs.load_results({"sys": queries} if is_by_run else queries)
    rows = results.hits[["rank", "doc_id", "text"]].to_numpy().tolist()
    assert rows == [[1, "a", "A"], [2, "b", "B"]]
    if name != "langchain":
        assert results.hits["score"].is_monotonic_decreasing
    assert results.responses["query_id"].tolist() == ["q1", "q2"]
    assert results.runs["run_id"].tolist() == ["sys" if is_by_run else "run"]
    assert rs.score(results, rs.load_golden({"q1": ["b"]}), ["mrr"]).loc["q1", "mrr"] == 0.5


def test_another_field_names_the_id_where_it_is_said():
    found = {"q": [langchain("x1", "A", source="guide"), langchain("x2", "B", source="faq")]}
    results = rs.load_results(found, columns={"doc_id": "hits.metadata.source"})
    assert results.hits["doc_id"].tolist() == ["guide", "faq"]


@pytest.mark.parametrize("path", [None, "hits", "hits.hits._id"])
def test_the_hits_of_a_response_of_elasticsearch_are_those_inside_its_hits(path):
    found = [{"_id": "a", "_score": 2.0}, {"_id": "b", "_score": 1.0}]
    response = {"query": "?", "hits": {"total": {"value": 2}, "hits": found}}
    results = rs.load_results([response], columns=path and {"doc_id": path})
    assert results.hits["doc_id"].tolist() == ["a", "b"]

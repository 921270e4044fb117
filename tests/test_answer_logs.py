"""Other tools' logs of answers: TREC RAG's cited answers, RAGChecker's inputs and outputs."""

from pathlib import Path

import pytest
from plausible_runs import put

import ragscore as rs
from tests.messages import ANY, refused, warned

DATA = Path(__file__).parents[2] / "shared" / "data"
TREC, RAGCHECKER = DATA / "trec-rag24-answers", DATA / "ragchecker-human"
needs_trec = pytest.mark.skipif(
    not TREC.is_dir(), reason="the shared TREC RAG 2024 answers are not beside the project"
)
needs_ragchecker = pytest.mark.skipif(
    not RAGCHECKER.is_dir(), reason="the shared RAGChecker files are not beside the project"
)
LINE = {
    "run_id": "r", "topic_id": "t1", "topic": "why?", "references": ["p1", "p2"],
    "response_length": 4,
    "answer": [{"text": "One. ", "citations": [1, 0]}, {"text": "Two.", "citations": [1, 5]},
    {"text": "Three.", "citations": []}],
}  # fmt: skip


def test_trec_answers_become_hits_citations_and_an_answer_that_is_no_refusal(tmp_path):
    lines = [LINE, {**LINE, "topic_id": "t2", "answer": []}, {**LINE, "run_id": "s"}]
    results = rs.load_results(put(tmp_path, lines, "answers.jsonl"))
    assert results.runs[["run_id", "n_queries"]].values.tolist() == [
        ["answers.r", 2], ["answers.s", 1],
    ]  # fmt: skip
    answers = results.responses["answer"].fillna("none").tolist()
    assert answers == ["One. Two. Three.", "none", "One. Two. Three."]
    assert "refused" not in results.responses
    hits = results.hits.query("run_id == 'answers.r' and query_id == 't1'")
    assert hits[["rank", "doc_id"]].values.tolist() == [[1, "p1"], [2, "p2"]]
    cited = results.citations.query("run_id == 'answers.s'")[["doc_id", "x_sentence", "marker"]]
    assert cited.fillna("none").values.tolist() == [
        ["p2", 1, "[1]"], ["p1", 1, "[0]"], ["p2", 2, "[1]"], ["none", 2, "[5]"],
    ]  # fmt: skip


def test_a_citation_behind_the_references_counts_as_fabricated(tmp_path):
    golden = rs.load_golden({"t1": ["p1", "p9"]})
    kinds = ("precision", "recall", "fabricated", "present")
    labels = [f"citation_{one}" for one in kinds]
    scores = rs.score(rs.load_results(put(tmp_path, [LINE], "answers.jsonl")), golden, labels)
    # passages p2, p1 and [5], p2 twice: 1 of 3 right, 1 of 2 targets, 1 of 3 nowhere
    assert scores.loc["t1", labels].tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 3, 1])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"references": {"p1": 1}}, "doc_id"),
        ({"answer": "text"}, "answer"),
        ({"answer": [{"text": "a", "citations": ["p1"]}]}, "answer"),
    ],
)
def test_a_bad_trec_record_is_named_by_line_and_field(tmp_path, change, field):
    file = put(tmp_path, [{**LINE, "topic_id": "t0"}, LINE | change], "answers.jsonl")
    with refused(file="answers.jsonl", line=2, field=field):
        rs.load_results(file)
    assert len(rs.load_results(file, strict=False).problems) == 1


def judged():
    """The golden set of the TREC RAG 2024 qrels: 89 judged topics, passages graded 0 to 3."""
    with warned("3 of 89 queries"):  # all their passages have the grade 0
        return rs.load_golden(TREC / "qrels.rag24.test.txt")


# SOURCE.md: share of references judged > 0 (mean over topics, 0 where there is none), unjudged
# references, answers without citation (of 301)
@needs_trec
@pytest.mark.parametrize(
    ("name", "share", "unjudged", "silent", "words"),
    [
        ("gpt-4o", 0.831, 15, 4, 301),
        ("command-r-plus", 0.794, 59, 3, 252),
        ("l31_70b_instruct", 0.813, 36, 0, 197),
    ],
)
def test_trec_answers_give_the_known_figures(name, share, unjudged, silent, words):
    results, golden = rs.load_results(TREC / f"{name}.jsonl"), judged()
    ids, grades = golden.queries["query_id"], golden.targets["grade"].to_numpy()
    asked = results.hits[results.hits["query_id"].isin(ids)].reset_index(drop=True)
    hit, target = rs.match.by_doc(asked, golden.targets)
    is_good = asked.index.isin(hit[grades[target] > 0])
    shares = asked.assign(good=is_good).groupby("query_id")["good"].mean()
    assert round(shares.reindex(ids, fill_value=0).mean(), 3) == share
    assert len(asked) - len(hit) == unjudged
    every = rs.Golden(results.responses[["query_id", "query"]].assign(position=range(301)))
    scores = rs.score(results, every, ["citation_present", "citation_fabricated"])
    assert len(scores) == 301 and (scores["citation_present"] == 0).sum() == silent
    assert (scores["citation_fabricated"].dropna() == 0).all()
    assert round(results.responses["x_response_length"].mean()) == words


RESULT = {
    "query_id": 7,
    "query": "longest river?",
    "gt_answer": "The Nile.",
    "response": "nile",
    "retrieved_context": [{"doc_id": "000", "text": "It is."}, {"text": "x"}],
}


def test_ragchecker_results_and_references_load_from_one_file(tmp_path):
    result = RESULT | {
        "metrics": {"precision": 0.75, "f1": float("nan")},
        "response_claims": [["a"]],
    }
    content = {"results": [result], "metrics": {"overall": {"f1": 68.3}}}
    file = put(tmp_path, [content], "checked.json")
    results, golden = rs.load_results(file), rs.load_golden(file)
    assert results.runs[["run_id", "x_metrics.overall.f1"]].values.tolist() == [["checked", 68.3]]
    hits = results.hits[["doc_id", "text"]].fillna("none")
    assert hits.values.tolist() == [["000", "It is."], ["none", "x"]]
    assert results.reported[["metric", "value"]].values.tolist() == [["precision", 0.75]]
    assert results.judgments[["criterion", "state"]].values.tolist() == [["f1", "judge_failed"]]
    names = ["query_id", "answer", "x_gt_answer", "x_response_claims.json"]
    assert results.responses[names].values.tolist() == [["7", "nile", "The Nile.", '[["a"]]']]
    assert rs.score(results, golden, ["exact_match"])["exact_match"].to_dict() == {"7": 1}


@pytest.mark.parametrize(
    ("text", "line", "field", "named"),
    [('{"results": [\n{]}', 2, None, ["JSON"]), ('{"results": {}}', ANY, "results", [])],
)
def test_a_bad_ragchecker_file_is_one_clear_error(tmp_path, text, line, field, named):
    with refused(*named, file="checked.json", line=line, field=field):
        rs.load_results(put(tmp_path, [text], "checked.json"), format="ragchecker")


@needs_ragchecker
def test_ragcheckers_own_files_load():
    files = [RAGCHECKER / f"checking_{one}.json" for one in ("inputs", "outputs")]
    inputs, outputs = map(rs.load_results, files)
    assert len(inputs.responses) == len(outputs.responses) == 2 and inputs.reported is None
    means = outputs.reported.groupby("metric", observed=True)["value"].mean()
    # the file's own means are per cent, rounded to one place
    assert {name: round(100 * mean, 1) for name, mean in means.items()}.items() >= {
        "precision": 76.4, "recall": 62.5, "f1": 68.3, "faithfulness": 68.2,
    }.items()  # fmt: skip
    scores = rs.score(inputs, rs.load_golden(files[0]), ["rouge_l"])
    assert scores["rouge_l"].between(0.1, 0.9).all()

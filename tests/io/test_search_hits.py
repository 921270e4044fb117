"""Documents of frameworks and responses of search engines: their ids, texts and scores."""

from types import SimpleNamespace

import pytest

import ragscore as rs


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

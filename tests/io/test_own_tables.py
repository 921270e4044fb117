"""Tables of one's own, as people have them: read right, or refused with the line to paste."""

import json
import warnings
from functools import partial

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, warned

Q = {"id": 7, "question": "how to merge?"}
ASKED = {"qid": "q0", "question": "what is 0?"}
LOG = Q | {"answer": "use merge", "ground_truth": "merge()", "retrieved_ids": ["d2", "d1"]}
LABELLED = LOG | {"relevant_ids": ["d1"], "latency_ms": 12.5}
FOUND = [("7", "d2"), ("7", "d1")]
A, B = {"qid": "1", "retrieved": ["a"]}, {"qid": "2", "retrieved": ["b"]}
JUDGED = {"qid": ["1", "1"], "docno": ["a", "b"]}
SOURCES = [{"doc_id": f"d{n}", "filename": "f", "text": "t"} for n in range(10)]
PASSAGE = "A passage of so many words that nobody would call it an id. It has two sentences."
DEEP = {"pred": "x", "retrieval_result": [{"id": "d1"}]}
MEANS = {"bm25": {"mrr": 0.27, "recall@5": 0.41}, "dense": {"mrr": 0.55, "recall@5": 0.58}}
LOSSES = [{"qid": "1", "my_output": "x"}, {"qid": "2", "my_output": "y", "error": "Timeout"}]
BLOCKS = [{"type": "text", "text": "x "}, {"type": "text", "text": "y"}]
ERRORS = [
    ("blank", ""),
    ("spaces", " "),
    ("false", False),
    ("zero", 0),
    ("object", {}),
    ("list", []),
]

# Name, source, what is right: `hits` as (query, document), answers, failures, latencies;
# `refused`: what the error names, and the columns= that it proposes; `warned`: what is said.
RESULTS = {
    # I1: nothing of a log is taken for another tool's
    "a log with a reference answer": ([LABELLED], {"hits": FOUND, "latency": [12.5]}),
    "the same in a frame": (pd.DataFrame([LABELLED]), {"hits": FOUND, "latency": [12.5]}),
    "retrieved_doc_ids": (
        [Q | {"answer": "a", "ground_truths": ["b"], "retrieved_doc_ids": ["d2"]}],
        {"hits": [("7", "d2")], "answer": ["a"]},
    ),
    "texts in retrieved_docs": (
        [Q | {"answer": "a", "ground_truth": "b", "retrieved_docs": [PASSAGE]}],
        {"refused": ["retrieved_docs", "texts"], "columns": {"text": "retrieved_docs"}},
    ),
    "user_input and ids": (
        [{"user_input": "why?", "response": "so", "retrieved_ids": ["d1", "d2"]}],
        {"docs": ["d1", "d2"], "answer": ["so"]},
    ),
    "contexts and doc_ids": (
        [Q | {"contexts": ["one", "two"], "doc_ids": ["d1", "d2"]}],
        {"hits": [("7", "d1"), ("7", "d2")]},
    ),
    "an id and a latency are no metrics": ([LABELLED], {"reported": 0}),
    # I2: what says that there was no error is none
    **{
        f"an error that is {name}": ([A | {"error": value}], {"failed": 0})
        for name, value in ERRORS
    },
    "an error": ([A | {"error": "Timeout"}], {"failed": 1}),
    "an error that is the word None": (
        [A | {"error": "None"}],
        {"failed": 1, "warned": ["'None'"]},
    ),
    "an error that is N/A": ([A | {"error": "N/A"}], {"failed": 1, "warned": ["'N/A'"]}),
    # I3: a row that was asked stays
    "a list that is null": ([A, B | {"retrieved": None}], {"queries": ["1", "2"], "docs": ["a"]}),
    "an empty list": ([A, B | {"retrieved": []}], {"queries": ["1", "2"], "docs": ["a"]}),
    "a list that is absent": ([A, {"qid": "2"}], {"queries": ["1", "2"], "docs": ["a"]}),
    "a list that is null in a frame": (
        pd.DataFrame([A, B | {"retrieved": None}]),
        {"queries": ["1", "2"], "docs": ["a"]},
    ),
    "answers under a name of one's own": (
        pd.DataFrame(LOSSES),
        {"queries": ["1", "2"], "failed": 1, "warned": ["not read: my_output"]},
    ),
    "an answer that is null": (
        [{"qid": "1", "response": "x"}, {"qid": "2", "response": None}],
        {"queries": ["1", "2"], "answer": ["x", None]},
    ),
    "no documents for one question": (
        {"q1": ["a"], "q2": []},
        {"queries": ["q1", "q2"], "docs": ["a"]},
    ),
    # I4: means are no run
    "means by system": (MEANS, {"refused": ["means", "bm25"]}),
    "records beside means": (
        {"aggregate": {"mrr": 0.5}, "per_query": [A, B]},
        {"docs": ["a", "b"]},
    ),
    **{
        f"records under {name}": ({"config": {"k": 5}, name: [A, B]}, {"docs": ["a", "b"]})
        for name in ("per_query_results", "samples", "results", "detailed_results", "details")
    },
    # I6: a mapping is no answer
    "an answer that is a mapping": (
        [{"id": "1", "question": "a?", "output": DEEP}],
        {
            "refused": ["output"],
            "columns": {"answer": "output.pred", "doc_id": "output.retrieval_result.id"},
        },
    ),
    # I7: two columns may be the answer
    **{
        f"answer beside {name}": (
            [{"question": "when?", "answer": "7 May", name: "in June", "retrieved_ids": ["s1"]}],
            {"refused": ["answer", name], "columns": {"answer": "answer"}},
        )
        for name in (
            "prediction",
            "response",
            "generated_answer",
            "predicted_answer",
            "model_answer",
        )
    },
    "three columns that may be the answer": (
        [Q | {"answer": "a", "response": "b", "prediction": "c", "output": "d", "doc_id": ["x"]}],
        {
            "refused": [
                "answer and response and prediction may each be the answer;"
                ' columns={"answer": "answer"} or another one of them (answer="a", response="b",'
                ' prediction="c")',
            ],
            "columns": {"answer": "answer"},
        },
    ),
    "answer beside response and contexts": (
        [Q | {"answer": "7 May", "response": "June", "contexts": ["x"]}],
        {"refused": ["answer", "response"], "columns": {"answer": "answer"}},
    ),
    "answer alone": (
        [{"question": "when?", "answer": "7 May"}],
        {
            "refused": ["answer", "reference_answer"],
            "columns": {"answer": "answer"},
            "answer": ["7 May"],
        },
    ),
    "a text beside an id of its own": (
        [{"_id": "q0", "text": "what is 0?"}],
        {"refused": ["text", "_id"], "columns": {"query": "text"}},
    ),
    "passages under a name of ids": (
        [ASKED | {"documents": [PASSAGE, f"2: {PASSAGE}"]}],
        {
            "refused": ["documents"],
            "columns": {"text": "documents"},
            "texts": [PASSAGE, f"2: {PASSAGE}"],
            "chunks": ["text-0f77bfc029ae", "text-00cdabbda36d"],  # as sha256sum has it
        },
    ),
    **{
        f"an answer beside {name}": (
            [ASKED | {"answer": "five", name: value}],
            {"answer": ["five"]},
        )
        for name, value in (
            ("latency_ms", 5),
            ("model", "m"),
            ("refused", False),
            ("doc_id", ["a"]),
            ("cost_usd", 1),
        )
    },
    **{
        f"an answer called {name}": ([ASKED | {name: "five"}], {"answer": ["five"]})
        for name in ("response", "prediction", "output", "generated_answer")
    },
    **{
        f"an id beside {name}": ([ASKED | {"id": "0b1c", name: value}], {"docs": ["0b1c"]})
        for name, value in (("score", 0.5), ("rank", 1), ("text", PASSAGE))
    },
    # one row per hit has one question, answer and session for each query
    **{
        f"{'two' if second == 'y' else 'equal'} of {name} for one query": (
            [{"qid": 1, "doc_id": "a", name: "x"}, {"qid": 1, "doc_id": "b", name: second}],
            right,
        )
        for name, role in (("query",) * 2, ("answer",) * 2, ("session_id", "conversation"))
        for second, right in (
            ("x", {"docs": ["a", "b"]}),
            (
                "y",
                {"refused": [f":2: {name}: {role} 'y' for query '1', which has 'x'; one {role}"]},
            ),
        )
    },
    # I9: gaps in ranks
    "ranks that leave numbers out": (
        pd.DataFrame(JUDGED | {"rank": [2, 3]}),
        {"ranks": [2, 3], "warned": ["rank"]},
    ),
    "ranks of objects that leave numbers out": (
        [{"qid": "1", "hits": [{"doc_id": "a", "rank": 2}, {"doc_id": "b", "rank": 3}]}],
        {"ranks": [2, 3], "warned": ["rank"]},
    ),
    # I10: lists in a list are calls
    "two ids a call": (
        {"q1": [[12, 7], [3, 9]]},
        {"docs": ["12", "7", "3", "9"], "calls": [1, 1, 2, 2], "scores": []},
    ),
    "three ids a call": ({"q1": [[1, 2, 3], [4, 5, 6]]}, {"calls": [1, 1, 1, 2, 2, 2]}),
    "calls in records": ([{"qid": "1", "retrieved": [["a"], ["b", "c"]]}], {"calls": [1, 2, 2]}),
    "an id and a fraction": (
        {"q1": [("a", 0.5), ("b", 0.75)]},
        {"docs": ["a", "b"], "scores": [0.5, 0.75], "ranks": [1, 2]},
    ),
    "scores by id": (
        {"q1": {"a": 1, "b": 2, "c": 1}},
        {"docs": ["b", "a", "c"], "scores": [2, 1, 1], "ranks": [1, 2, 3]},
    ),
    "ranks beside a list": (
        [{"qid": "1", "retrieved": ["a", "b", "c"], "rank": [3, 1, 2]}],
        {"docs": ["b", "c", "a"]},
    ),
    # I11: an empty reply has no hits
    "one empty reply": (
        pd.DataFrame(
            {
                "qid": ["1", "2"],
                "doc_id": [{"took": 1, "hits": [{"_id": "x"}]}, {"took": 1, "hits": []}],
            }
        ),
        {"queries": ["1", "2"], "docs": ["x"]},
    ),
    "one empty reply in a dict": (
        {
            "1": {"took": 1, "hits": {"hits": [{"_id": "x"}]}},
            "2": {"took": 1, "hits": {"hits": []}},
        },
        {"queries": ["1", "2"], "docs": ["x"]},
    ),
    # I13: what is not read is said
    "objects under a name of one's own": (
        [{"qid": "1", "answer": "x", "latency_ms": 1, "sources": SOURCES}],
        {
            "warned": [
                "not read: sources (list of 10 objects: doc_id, filename, text)",
                'columns={"doc_id": "sources.doc_id"}',
            ]
        },
    ),
    "a text under a vague name of documents": (
        [{"qid": "1", "response": "x", "documents": "a text of more words than an id has"}],
        {"docs": [], "warned": ["not read: documents"]},
    ),
    "answers and times beside hits": (
        pd.DataFrame(
            {
                "qid": ["1", "1", "2"],
                "docno": ["a", "b", "c"],
                "answer": ["so", None, "no"],
                "latency_ms": [10, 10, 20],
            }
        ),
        {"answer": ["so", "no"], "latency": [10, 20], "docs": ["a", "b", "c"]},
    ),
    "a stored score beside each hit": (
        pd.DataFrame(JUDGED | {"score.tone": [0.5, 0.5]}),
        {"reported": 1, "docs": ["a", "b"]},
    ),
    "two stored scores of one query": (
        pd.DataFrame(JUDGED | {"score.tone": [0.5, 0.25]}),
        {"refused": ["score.tone", 0.5, 0.25]},
    ),
    "whole numbers with a gap as ids": (
        pd.DataFrame({"qid": [1.0, 2.0], "docno": [10.0, 11.0]}),
        {"hits": [("1", "10"), ("2", "11")]},
    ),
    # One rule for columns
    "our own name before a vague one": (
        [{"query_id": "q", "id": "r1", "doc_ids": ["a"]}],
        {"hits": [("q", "a")]},
    ),
    "large ids": (
        pd.DataFrame({"qid": [1, 1], "docno": [2**62 + 1, 2**62 + 3]}),
        {"docs": [str(2**62 + 1), str(2**62 + 3)]},
    ),
    "two names for the query": (
        [{"qid": "1", "topic_id": "2", "retrieved": ["a"]}],
        {"refused": ["qid", "topic_id"], "columns": {"query_id": "qid"}},
    ),
    "two names for documents": (
        [{"qid": "1", "doc_ids": ["a"], "result_ids": ["b"]}],
        {"refused": ["doc_ids", "result_ids"], "columns": {"doc_id": "doc_ids"}},
    ),
    "a column called as our role before others": (
        pd.DataFrame({"query_id": ["1"], "doc_id": ["a"], "url": ["u"]}),
        {"docs": ["a"]},
    ),
    "a name in another case": (pd.DataFrame({"Query ID": ["1"], "Doc-ID": ["a"]}), {"docs": ["a"]}),
    "thirteen names that aren't known": (
        [dict.fromkeys("abcdefghijkm", 3) | {"a": "x" * 38, "b": "x" * 39, "l": 4}],
        {"refused": [f'a="{"x" * 38}", b="{"x" * 36}..., c=3', "m=3, and 1 more;"]},
    ),
    "no name that is known": (
        pd.DataFrame({"topicnum": ["1"], "hitname": ["a"]}),
        {"refused": ["topicnum", "hitname"]},
    ),
    # S1: citations
    "cited ids": (
        [A | {"answer": "x", "cited_ids": ["a", "b"]}, B | {"answer": "y", "cited_ids": []}],
        {"cited": [("1", "a"), ("1", "b")]},
    ),
    "citations as objects": (
        [A | {"answer": "x", "citations": [{"doc_id": "a", "quote": "so"}]}],
        {"cited": [("1", "a")]},
    ),
    "references as ids": ([A | {"answer": "x", "references": ["a"]}], {"cited": [("1", "a")]}),
    "references that are texts": (
        [A | {"answer": "x", "references": ["a right answer"]}],
        {"cited": []},
    ),
    "ranks in the answer": (
        [A | {"answer": "So [1], and so [2].", "retrieved": ["a", "b"]}, B | {"answer": "No."}],
        {"cited": [("1", "a"), ("1", "b")]},
    ),
    "numbers in the answer that are no ranks": (
        [A | {"answer": "x[0] is [7].", "retrieved": ["a", "b"]}],
        {"cited": []},
    ),
    "no citations": ([A | {"answer": "x"}], {"cited": []}),
    # answers in lists, as chats have them
    "an answer in a list": ([A | {"answer": ["x"]}], {"answer": ["x"]}),
    "an answer in blocks": ([A | {"answer": BLOCKS}], {"answer": ["x y"]}),
    **{
        f"{len(answers)} answers in a list": (
            [A | {"answer": answers}],
            {"refused": [":1: answer"]},
        )
        for answers in (["x", "y"], [])
    },
    # runs, repeats, keys that are one id
    "an empty column names no run": (
        [{"query_id": "q1", "doc_id": "d1", "run_id": None, "system": "a"}],
        {"runs": ["a"]},
    ),
    "repeats of a system": (
        pd.DataFrame(JUDGED | {"docno": ["a", "a"], "trial": [1, 2], "system": "bm25"}),
        {"runs": ["bm25-r1", "bm25-r2"]},
    ),
    "a repeat that would get the name of another run": (
        [A | {"run_id": "a-r2"}, B | {"run_id": "a"}, B | {"run_id": "a"}],
        {"refused": ["a-r2", ":3: run_id"]},
    ),
    "queries 1 and '1'": ({1: ["a"], "1": ["b"]}, {"refused": ["1"]}),
    "runs 1 and '1'": ({1: {"q1": ["a"]}, "1": {"q2": ["b"]}}, {"refused": ["1"]}),
    # values that a role can't have
    **{
        f"{name}: {values}": (
            [{"qid": "1", "doc_id": "d1", name: values}],
            {"refused": [f":1: {name}: found ", f": {json.dumps(values)}; {allowed}"]},
        )
        for name, values, allowed in (
            ("rank", "second", "a whole number"),
            ("rank", 2**31, "a whole number"),
            ("similarity", "low", "a finite number"),
        )
    },
    **{
        f"a list of two ids and {name} {values}": (
            [{"qid": "1", "retrieved": ["a", "b"], name: values}],
            {"refused": [f":1: {name}"]},
        )
        for name, values in (
            ("rank", [1, 1]),
            ("rank", []),
            ("rank", [1]),
            ("rank", 1),
            ("score", 0.5),
            ("score", ["x", "y"]),
            ("score", [3, 2, 1]),
        )
    },
    # a text in brackets is a list where a row is a query, else the number of a passage
    "numbers in brackets, a row a hit": (
        pd.DataFrame({"qid": ["1", "1"], "passage_id": ["[1]", "[2]"], "text": ["[1] x.", "y"]}),
        {"ranks": [1, 2], "queries": ["1"]},
    ),
    "a number in brackets, a row a query": (
        pd.DataFrame({"qid": ["1", "2"], "retrieved": ["[7]", "[8]"]}),
        {"docs": ["7", "8"]},
    ),
    "passages that begin with a bracket": (
        pd.DataFrame(JUDGED | {"text": ["[edit] x [y]", "z"]}),
        {"docs": ["a", "b"], "ranks": [1, 2]},
    ),
    "ids that are objects as JSON": (
        [A, B | {"retrieved": ['{"doc_id": "b", "page": 3}']}],
        {"refused": [":2: retrieved", "json.loads"]},
    ),
    "a place in a conversation": (
        [{"conversation": "s", "turn": 2, "answer": "x", "latency_ms": 1}],
        {"queries": ["s/2"], "answer": ["x"]},
    ),
    "a case": ([{"case_id": "c1", "question": "?", "retrieved": ["a"]}], {"queries": ["c1"]}),
    "a case beside a query": ([A | {"case_id": "c1"}], {"queries": ["1"]}),
    "a column a rank": (
        [{"query": "?", "gold": "a", "top1": "a", "top2": "b"}],
        {"refused": ["frame.assign(doc_id=frame[['top1', 'top2']].to_numpy().tolist())"]},
    ),
    "several ids in a text": (
        pd.DataFrame({"qid": ["1", "2"], "retrieved_ids": ["a", "b;c"]}),
        {"refused": [":2: retrieved_ids", "str.split"]},
    ),
    "an id that is a mapping": (
        [{"query_id": {"a": 1}, "query": "x", "doc_id": "d1"}],
        {"refused": [":1: query_id"]},
    ),
    "distances, of which the smallest comes first": (
        pd.DataFrame({"qid": ["1", "1"], "docno": ["b", "a"], "_distance": [0.4, 0.1]}),
        {"scores": [-0.4, -0.1], "ranks": [2, 1]},
    ),
    "a score beside a distance": (
        pd.DataFrame({"qid": ["1", "1"], "docno": ["a", "b"], "distance": [1, 2], "score": [9, 8]}),
        {"scores": [9, 8], "ranks": [1, 2]},
    ),
    "distances beside ids": (
        [{"qid": "1", "retrieved_ids": ["a", "b"], "distances": [0.1, 0.4]}],
        {"docs": ["a", "b"], "scores": [-0.1, -0.4]},
    ),
    "ranks in the place of scores": (
        {"q": {"a": 1, "b": 2, "c": 3}, "p": {"d": 1}},
        {"docs": ["c", "b", "a", "d"], "warned": ["as ranks are"]},
    ),
    "hits of one query, with a bare id": (
        {"q": [{"id": "a", "score": 0.5}, {"id": "b", "score": 0.25}]},
        {"hits": [("q", "a"), ("q", "b")]},
    ),
    "a bare id in a column of chunks": (
        [{"qid": "1", "chunk_ids": [{"id": "c1", "score": 0.5}]}],
        {"chunks": ["c1"], "docs": [], "scores": [0.5]},
    ),
    "a bare id beside a text": (
        [{"qid": "1", "contexts": [{"id": "d1", "text": "t"}]}],
        {"docs": ["d1"], "texts": ["t"], "chunks": []},
    ),
    "one mapping a hit": ({"q": [{1: 0.5}, {2: 0.25}]}, {"refused": [":1: hits", "with an id"]}),
    "records of one's own beside a name": (
        {"run": "x", "turns": [{"turn_id": "1_1", "found": ["a"]}]},
        {"refused": ["'run'", "a list of records, also under one key"]},
    ),
    "a footer after the records": (
        [A, B, {"model": "m"}],
        {"refused": [":3: qid"]},
    ),
    "a number among texts": (
        [{"qid": "1", "doc_id": "a", "text": "t"}, {"qid": "1", "doc_id": "b", "text": 7}],
        {"texts": ["t", "7"]},
    ),
    "an infinite number beside a whole one": (
        [{"qid": "1", "doc_id": "a", "n": 1}, {"qid": "1", "doc_id": "b", "n": float("inf")}],
        {"refused": [":2: "]},
    ),
    "a rank below zero": (
        [{"qid": "1", "doc_id": "d1", "rank": -1}],
        {"refused": [":1: rank: rank -1 for query '1'"]},
    ),
    "records by run": (
        {"x": [A], "y": [A]},
        {"refused": ["records under each of x, y", '{"run_id": key}']},
    ),
    "one record": (A | {"status": "done"}, {"refused": ["'qid'", "a list of records"]}),
    "a score of an answer": ([{"qid": "1", "answer": "a", "score": 0.5}], {"refused": [":1: "]}),
}
# `targets` as (query, id or text, grade); `answers`: the accepted ones; `answerable`.
LABELS = {
    "a log with labels": (
        [LABELLED],
        {"targets": [("7", "d1", 1)], "answers": ["merge()"], "asked": ["how to merge?"]},
    ),
    "paraphrases that expect other documents": (
        [{"qid": one, "question": "?", "relevant": [one], "group": "g"} for one in ("1", "2")],
        {"refused": [":2: ", "2 of group 'g' expect other documents than 1"]},
    ),
    **{
        f"grades as {name}": (
            pd.DataFrame(JUDGED | {"gain": values}),
            {
                "refused": ["gain"],
                "columns": {"grade": "gain"},
                "targets": [("1", one, n) for one, n in zip("ab", grades, strict=False)],
            },
        )
        for name, values, grades in (
            ("fractions", [1.0, 0.0], [1, 0]),
            ("fractions between", [0.5, 1.0], [1, 2]),
            ("flags", [True, False], [1, 0]),
            ("words", ["yes", "no"], [1, 0]),
            ("1 to 5", [1, 5], [1, 5]),
            ("-1", [1, -1], [1]),
        )
    },
    **{
        f"several ids in a text, by {name}": (
            pd.DataFrame({"qid": ["1", "2"], "relevant_ids": ["a", mark.join("bc")]}),
            {"refused": [":2: relevant_ids", "str.split"]},
        )
        for name, mark in {"semicolon": ";", "bar": "|", "comma": ", "}.items()
    },
    "a number of each query": (
        pd.DataFrame({"qid": ["1", "1", "2"], "docno": ["a", "b", "a"], "hops": [1, 1, 2]}),
        {"targets": [("1", "a", 1), ("1", "b", 1), ("2", "a", 1)]},
    ),
    "expected ids beside those of anything": (
        [{"qid": "1", "question": "?", "docno": "b", "relevant_ids": ["a"]}],
        {"targets": [("1", "a", 1)]},
    ),
    "two names for the ids of anything, of which the surest counts": (
        [{"qid": "1", "question": "?", "document_id": "b", "docid": "a"}],
        {"targets": [("1", "a", 1)]},
    ),
    "a grade beside ids": (
        pd.DataFrame(JUDGED | {"relevance": [2, 0]}),
        {"targets": [("1", "a", 2), ("1", "b", 0)]},
    ),
    "one expected document": (
        [{"qid": "1", "expected_doc_id": 0}],
        {"targets": [("1", "0", 1)]},
    ),
    "relevant_document_ids": (
        [{"case_id": "1", "query": "?", "relevant_document_ids": ["a"]}],
        {"targets": [("1", "a", 1)]},
    ),
    "grades by id": ([{"qid": "1", "relevant": {"a": 2}}], {"targets": [("1", "a", 2)]}),
    "grades in objects": (
        [
            {
                "qid": "1",
                "relevant": [{"doc_id": "a", "relevance": 3}, {"doc_id": "b", "relevance": 0}],
            }
        ],
        {"targets": [("1", "a", 3), ("1", "b", 0)]},
    ),
    "a number in objects": (
        [{"qid": "1", "relevant": [{"doc_id": "a", "gain": 3}, {"doc_id": "b", "gain": 1}]}],
        {
            "refused": ["relevant.gain holds 3, 1"],
            "columns": {"grade": "relevant.gain"},
            "targets": [("1", "a", 3), ("1", "b", 1)],
        },
    ),
    "grades in a list": (
        [{"qid": "1", "relevant": ["a", "b"], "grades": [1, 3]}],
        {"targets": [("1", "a", 1), ("1", "b", 3)]},
    ),
    **{
        f"{name}, several": (
            [Q | {name: ["Mark Twain", "Samuel Clemens"]}],
            {"answers": ["Mark Twain", "Samuel Clemens"], "answerable": [True]},
        )
        for name in (
            "gold_answers",
            "golden_answers",
            "answers",
            "ground_truths",
            "reference_answers",
            "generation_gt",
        )
    },
    **{
        f"evidence in {name}": (
            [Q | {name: ["one fact", "another"]}],
            {"targets": [("7", "one fact", 1), ("7", "another", 1)], "level": "text"},
        )
        for name in ("expected_texts", "gold_contexts", "reference_contexts")
    },
    "ids beside grades by id": (
        {"q": {"d": 2}, "p": ["e"]},
        {"targets": [("q", "d", 2), ("p", "e", 1)]},
    ),
    "words for grades before numbers": (
        pd.DataFrame(JUDGED | {"n": [0, 1], "esci": ["E", "I"], "m": [1, 0], "l": [0, 2]}),
        {
            "refused": ["esci holds E, I; n holds 0, 1; m holds 1, 0; columns="],  # three of them
            "columns": {"grade": "esci"},
        },
    ),
    "grades of which none is known": (
        pd.DataFrame(JUDGED | {"relevance": [None, None]}),
        {"refused": ["; relevance holds "], "columns": {"grade": "relevance"}},
    ),
    "a grade that isn't known, of one judgement": (
        [{"qid": "1", "docno": "a", "relevance": None}],
        {"targets": [("1", "a", 1)]},
    ),
    "words that are no grades": (
        pd.DataFrame(JUDGED | {"grade": ["E", "I"]}),
        {"refused": [":1: grade", "map({...})"]},
    ),
    "a row that isn't judged": (
        pd.DataFrame(JUDGED | {"grade": [1, None]}),
        {"refused": [":2: grade", "dropna"]},
    ),
    "parallel lists in an object": (
        [{"qid": "1", "positives": {"doc_id": ["a"], "score": [0.5]}}],
        {"refused": [":1: positives", 'columns={"doc_id": "positives.???"}']},
    ),
    "answers in an object": (
        [{"id": "1", "question": "?", "answers": {"text": ["a"], "start": [0]}}],
        {"refused": [":1: answers", "reaches into a mapping"]},
    ),
    "pairs of an id and a grade": (
        [{"query_id": "1", "query": "?", "expected_doc_ids": [["a", 2], ["b", 0]]}],
        {"refused": [":1: expected_doc_ids", '["a", 2]']},
    ),
    "N/A among ids": (
        [{"qid": "1", "gold_ids": ["N/A"]}, {"qid": "2", "gold_ids": ["a"]}],
        {"targets": [("1", "N/A", 1), ("2", "a", 1)], "warned": ["'N/A' among the expected"]},
    ),
    "labels that no role takes": (
        [{"query_id": "1", "query": "?", "positive_passages": [{"docid": "a"}]}],
        {"targets": [], "warned": ["unlabelled (columns without a role: positive_passages)"]},
    ),
    "alternatives": (
        [{"query_id": "1", "query": "?", "expected_doc_ids": [["a", "b"], ["c"]]}],
        {"targets": [("1", "a", 1), ("1", "b", 1), ("1", "c", 1)]},
    ),
    "alternatives under a name that isn't ours": (
        [{"qid": "1", "retrieval_gt": [["a", "b"], ["c"]]}],
        {"refused": [":1: retrieval_gt", '["a", "b"]']},
    ),
    "neither documents nor grades": (
        [{"qid": "1", "relevant": ["a"], "grades": [2]}, {"qid": "2"}],
        {"targets": [("1", "a", 2)], "answerable": [True, pd.NA]},
    ),
    "an empty list of documents": (
        [
            {"qid": "1", "question": "?", "expected_doc_ids": []},
            {"qid": "2", "question": "!", "expected_doc_ids": ["a"]},
        ],
        {"targets": [("2", "a", 1)], "answerable": [False, True]},
    ),
    "two grades of one document": (
        pd.DataFrame({"qid": ["1", "1"], "docno": ["a", "a"], "grade": [1, 2]}),
        {"refused": ["a", 1, 2]},
    ),
    "two categories of a query without an id": (
        [{"query": "what?", "doc_id": ["a"], "category": one} for one in ("x", "y")],
        {"refused": [":2: category: category 'y' for query 'what?', which has 'x'"]},
    ),
    "two answers of one query": (
        [
            {"qid": "1", "doc_id": "a", "gold_answer": "x"},
            {"qid": "1", "doc_id": "b", "gold_answer": "y"},
        ],
        {"refused": ["gold_answer", "x", "y"]},
    ),
    **{
        f"{name} as a text": (
            [Q | {name: "It is so."}],
            {
                "refused": [name],
                "columns": {"reference_answer": name},
                "answers": ["It is so."],
            },
        )
        for name in ("expected", "gold", "target")
    },
    "expected as a list": ([Q | {"expected": ["d"]}], {"targets": [("7", "d", 1)]}),
    "an answer alone": (
        [{"query": "when?", "answer": "7 May", "question_type": "simple"}],
        {
            "refused": ["reference_answer"],
            "columns": {"query": "query", "reference_answer": "answer"},
            "answers": ["7 May"],
        },
    ),
    "passages under a name of ids": (
        [ASKED | {"documents": [PASSAGE]}],
        {
            "refused": ["documents"],
            "columns": {"text": "documents"},
            "targets": [("q0", PASSAGE, 1)],
            "level": "text",
        },
    ),
    **{
        f"{name}: {value}": ([{"qid": "1", "question": "?", name: value}], {"answerable": [says]})
        for name, value, says in (
            ("should_refuse", True, False),
            ("unanswerable", "no", True),
            ("is_answerable", 0, False),
            ("answerable", "true", True),
            ("Is Impossible", 1, False),
        )
    },
    "grades below zero, which are not judged": (
        pd.DataFrame(JUDGED | {"label": [2, -1]}),
        {"targets": [("1", "a", 2)], "warned": ["1 judgements with a negative grade"]},
    ),
    "an id beside a grade": (
        [ASKED | {"_id": "0b1c", "grade": 1}],
        {"targets": [("q0", "0b1c", 1)]},
    ),
    "one expected id": (
        {"q1": "d1", "q2": "d2"},
        {"targets": [("q1", "d1", 1), ("q2", "d2", 1)]},
    ),
    "queries 1 and '1'": ({1: ["a"], "1": ["b"]}, {"refused": ["1"]}),
    "a description of something": (
        {"name": "mmlu", "description": "what it is", "tags": ["knowledge", "choice"]},
        {"refused": ["name"]},
    ),
    "a text in the place of ids": (
        {"q1": "a text of nine words is no one's id"},
        {"refused": ["q1"]},
    ),
    "a long text in the place of ids": ({"q1": "x" * 201}, {"refused": ["q1"]}),
    "ids of eight words and of 200 characters": (
        {"q1": "the name of a file may have blanks", "q2": "x" * 200},
        {
            "targets": [
                ("q1", "the name of a file may have blanks", 1),
                ("q2", "x" * 200, 1),
            ],
        },
    ),
    **{
        f"{name}: {value}": (
            [{"qid": "1", "docno": "d1", name: value}],
            {"refused": [f":1: {name}"]},
        )
        for name, value in (
            ("label", "irrelevant"),
            ("ground_truth", {"a": 1}),
            ("difficulty", ["easy", "hard"]),
            ("group", {"a": 1}),
        )
    },
}


def told(load, source):
    """What was loaded, or the error; and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = load(source)
        except rs.DataError as error:
            found = error
    return found, [str(one.message) for one in caught]


def facts_of(found):
    """Facts of results or of a golden set by the names that the tables above have for them."""
    if isinstance(found, rs.Golden):
        first = found.queries.get("reference_answer", pd.Series(dtype="str")).dropna().tolist()
        more = found.checks.loc[found.checks["kind"].eq("accepted_answer"), "text"].tolist()
        column = found.targets.get("doc_id", pd.Series(dtype="str"))
        if "snippet" in found.targets:
            column = found.targets["snippet"]
        rows = zip(found.targets["query_id"], column, found.targets["grade"], strict=True)
        return {
            "targets": list(rows),
            "answers": first + more,
            "level": "".join(set(found.targets["level"])),
            "answerable": found.queries["answerable"].tolist(),
            "asked": found.queries["query"].tolist(),
        }
    hits, responses = found.hits, found.responses
    answers = responses.get("answer", pd.Series(None, responses.index, dtype=object))
    cited = found.citations
    return {
        "hits": [*zip(hits["query_id"], hits["doc_id"], strict=True)] if "doc_id" in hits else [],
        "docs": hits["doc_id"].tolist() if "doc_id" in hits else [],
        "texts": hits["text"].tolist() if "text" in hits else [],
        "chunks": hits["chunk_id"].tolist() if "chunk_id" in hits else [],
        "ranks": hits["rank"].tolist(),
        "queries": responses["query_id"].tolist(),
        "runs": found.runs["run_id"].tolist(),
        "calls": hits["call"].tolist() if "call" in hits else [],
        "scores": hits["score"].tolist() if "score" in hits else [],
        "answer": [None if pd.isna(one) else one for one in answers],
        "failed": int(responses["error"].notna().sum()),
        "latency": responses["elapsed_ms"].tolist() if "elapsed_ms" in responses else [],
        "reported": 0 if found.reported is None else len(found.reported),
        "cited": [*zip(cited["query_id"], cited["doc_id"], strict=True)] if len(cited) else [],
    }


CASES = [
    *((f"results: {name}", rs.load_results, *case) for name, case in RESULTS.items()),
    *((f"labels: {name}", rs.load_golden, *case) for name, case in LABELS.items()),
]


# Quickly every other case in a file.
FORMS = [
    pytest.param(*case, is_file, id=f"{name}-{form}", marks=[pytest.mark.slow] * (n % 2 != is_file))
    for n, (name, *case) in enumerate(CASES)
    for is_file, form in enumerate(("in memory", "in a file"))
]


@pytest.mark.parametrize(("load", "source", "right", "as_file"), FORMS)
def test_a_table_is_read_right_or_refused_with_the_line_to_paste(
    load, source, right, as_file, tmp_path
):
    if as_file:
        records = source.to_dict("records") if isinstance(source, pd.DataFrame) else source
        is_list = isinstance(records, list)
        path = tmp_path / ("table.jsonl" if is_list else "table.json")
        lines = [json.dumps(one) for one in records] if is_list else [json.dumps(records)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        source = path
    found, warned = told(load, source)
    if "refused" in right:
        assert isinstance(found, rs.DataError), found
        assert all(str(one) in str(found) for one in right["refused"]), found
        assert found.columns == right.get("columns", found.columns)
        if not right.keys() - {"refused", "columns"}:
            return
        found, warned = told(partial(load, columns=found.columns), source)
    assert not isinstance(found, rs.DataError), found
    facts = facts_of(found)
    for name in right.keys() & facts.keys():
        assert facts[name] == right[name], name
    for text in right.get("warned", []):
        assert any(text in one for one in warned), (text, warned)


def test_citations_are_nan_where_a_table_records_none():
    golden = rs.load_golden({"1": ["a"], "2": ["b"]})
    rows = [A | {"answer": "x", "cited_ids": ["a"]}, B | {"answer": "y", "cited_ids": []}]
    names = ["citation_present", "citation_recall"]
    assert rs.score(rs.load_results(rows), golden, names)[names].to_numpy().tolist() == [
        [1, 1],
        [0, 0],
    ]
    bare = [{name: one for name, one in row.items() if name != "cited_ids"} for row in rows]
    assert rs.score(rs.load_results(bare), golden, names)[names].isna().all(axis=None)


def test_a_run_that_knows_only_texts_joins_the_queries_that_have_them():
    golden = [
        {"id": f"q{n}", "query": text, "expected_doc_ids": ["a"]}
        for n, text in enumerate(("how do I join?", "and else?", "twice", "Twice"))
    ]
    run = [{"question": text, "retrieved": ["a"]} for text in ("How do I  join?", "twice")]
    with warned("1 query joined by the text"):
        found = rs.score(rs.load_results(run), rs.load_golden(golden), ["hit@1"], missing="zero")
    assert found["hit@1"].tolist()[:2] == [1, 0]


def test_ids_of_texts_stay_where_the_golden_set_has_them():
    run = [{"question": "why?", "retrieved": ["a"]}]
    found = rs.score(
        rs.load_results(run), rs.load_golden([{"question": "why?", "gold_ids": ["a"]}])
    )
    assert found["hit@1"].tolist() == [1]


def test_a_path_that_no_column_holds_is_refused_for_dicts_too():
    replies = {"q1": {"hits": {"hits": [{"_id": "a", "_source": {"doc": "d"}}]}}}
    with refused("no column '_source' for doc_id; there are query_id, hits", field="columns"):
        rs.load_results(replies, columns={"doc_id": "_source.doc"})
    found = rs.load_results(replies, columns={"doc_id": "hits.hits.hits._source.doc"})
    assert found.hits["doc_id"].tolist() == ["d"]


def test_an_own_list_in_yaml_is_refused_with_the_way_on(tmp_path):
    (tmp_path / "own.yaml").write_text("version: 1\ncases:\n  - {id: a, question: b?, wanted: [x]}")
    for columns in (None, {"doc_id": "wanted"}):
        with refused("yaml.safe_load(text)"):
            rs.load_golden(tmp_path / "own.yaml", columns=columns)


def test_a_header_before_the_records_is_said(tmp_path):
    lines = [json.dumps(one) for one in ({"model": "m", "k": 5}, A, B)]
    (tmp_path / "run.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with refused("header", "model, k", ".iloc[1:]", line=1):
        rs.load_results(tmp_path / "run.jsonl")
    rows = pd.read_json(tmp_path / "run.jsonl", lines=True).iloc[1:]
    assert rs.load_results(rows).hits["doc_id"].tolist() == ["a", "b"]
    loose = rs.load_results(tmp_path / "run.jsonl", strict=False)
    assert loose.problems["line"].tolist() == [1] and len(loose.responses) == 2


# A column that is called as a role is has it, or is refused with its row; none is left out.

GOLDEN = rs.load_golden({"q1": ["d1"], "q2": ["d2"]})
NAMES = ("run_id", "system", "tag")


def two_runs(name, first, second):
    """Two runs: one finds the document of each query, the other that of the other one."""
    found = [("q1", "d1", first), ("q2", "d2", first), ("q1", "d2", second), ("q2", "d1", second)]
    return [{"query_id": query, "doc_id": doc, name: run} for query, doc, run in found]


TEXTS = {
    "text": ("a", "b"),
    "nan": ("nan", "b"),
    "True": ("True", "False"),
    "numbers": (1, 2),
    "two lines": ("a\nb", "c"),
    "a list": ("[a]", "[b]"),
    "decimal texts": ("0.1", "0.2"),
    "yes and no": ("yes", "no"),
    "long": ("a" * 201, "b" * 201),
    "many words": ("a run of more words than a name has", "b"),
}
OTHERS = {
    "decimals": (0.1, 0.2),
    "a boolean and its text": (True, "True"),
    "mappings": ({"a": 1}, {"a": 2}),
    "lists": (["a"], ["b"]),
    "a missing one": ("a", None),
    "booleans": (True, False),
    "tuples": (("a", 1), ("a", 2)),
    "dates": (pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02")),
    "bytes": (b"a", b"b"),
}


def shapes(records, name):
    """The records as every kind of source that holds any values."""
    columns = {column: [row[column] for row in records] for column in records[0]}
    per_query = [
        {"query_id": row["query_id"], "retrieved": [row["doc_id"]], name: row[name]}
        for row in records
    ]
    return {
        "frame": pd.DataFrame({one: pd.Series(values) for one, values in columns.items()}),
        "records": records,
        "per query": per_query,
    }


def of_each(values, others):
    """Each kind of values under the first name (the last ones slowly), these under the others."""
    return pytest.mark.parametrize(
        ("name", "values"),
        [
            *((name, values[kind]) for name in NAMES[1:] for kind in others),
            *(
                pytest.param(NAMES[0], one, marks=[pytest.mark.slow] * (n >= 5))
                for n, one in enumerate(values.values())
            ),
        ],
    )


@of_each(TEXTS, ("text", "numbers"))
def test_a_column_that_names_runs_keeps_them_apart(name, values, tmp_path):
    records = two_runs(name, *values)
    pd.DataFrame(records).to_csv(tmp_path / "a.csv", index=False)
    for kind, source in (shapes(records, name) | {"CSV": tmp_path / "a.csv"}).items():
        results = rs.load_results(source)
        assert results.runs["run_id"].astype("str").to_list() == list(map(str, values)), kind
    means = rs.score(results, GOLDEN, ["mrr"]).groupby("run_id")["mrr"].mean()
    assert means.to_dict() == {str(values[0]): 1.0, str(values[1]): 0.0}


@of_each(OTHERS, ("booleans",))
def test_what_names_no_run_is_refused_with_its_row(name, values):
    for kind, source in shapes(two_runs(name, *values), name).items():
        with refused(field=name) as caught:
            rs.load_results(source)
        assert caught.value.line is not None, kind


@pytest.mark.parametrize(
    ("field", "n"),
    [("run_id", 2), ("run_name", 2), ("run", 2), ("system", 2), ("run_id", 6000)],
)
def test_a_run_file_of_two_runs_is_refused(field, n, tmp_path):
    file = tmp_path / "per_query.jsonl"
    hits = [{"rank": 1, "doc_id": "a", "snippet": "x" * 20}]
    file.write_text(
        "\n".join(
            json.dumps({"query_id": f"q{i}", field: "AB"[i == n - 1], "hits_top_k": hits})
            for i in range(n)
        )
    )
    with refused("A", "B", field=field):
        rs.load_results(file)
    apart = rs.load_results(file, format="table")
    assert apart.runs["run_id"].to_list() == ["A", "B"]


def test_no_column_has_a_role_that_is_given_to_none():
    rows = [{"query_id": "q1", "doc_id": "d1", "system": {"name": "m"}}]
    with refused("run_id", file="records", line=1, field="system"):
        rs.load_results(rows)
    results = rs.load_results(rows, columns={"run_id": None})
    assert results.runs["run_id"].to_list() == ["run"]
    assert results.hits["x_system.name"].to_list() == ["m"]


def test_a_number_in_a_path_is_a_position_and_a_name_is_that_of_each_in_a_list():
    rows = [{"query_id": "q", "steps": [{"hits": [{"key": "a"}]}, {"hits": [{"key": "b"}]}]}]
    for path, ids in (("steps.1.hits.key", ["b"]), ("steps.0.hits.0.key", ["a"])):
        loaded = rs.load_results(rows, columns={"query_id": "query_id", "doc_id": path})
        assert loaded.hits["doc_id"].tolist() == ids


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([{"query_id": one, "doc_id": "d", "hops": n} for n, one in enumerate("abc")], None),
        ([{"query_id": "q", "doc_id": one, "year": 2000} for one in "abc"], None),
        (
            [{"query_id": "q", "doc_id": one, "n": int(one > "a")} for one in "abc"],
            {"grade": None},
        ),
    ],
    ids=["a row per query", "large numbers", "said to be none"],
)
def test_other_numbers_beside_judged_ids_are_silent(rows, columns):
    assert len(rs.load_golden(rows, columns=columns).targets) == 3


# What one column alone makes a table seem, and what may be another thing

OWN = [{"query_id": f"q{n}", "query": f"what is {n}?", "id": f"0b1c-{n}", "response": "so",
        "reference_answer": "so"} for n in range(2)]  # fmt: skip


@pytest.mark.parametrize(
    ("load", "asked", "named", "own"),
    [
        (rs.load_results, "responses", "hits", "x_id"),
        (rs.load_golden, "queries", "targets", "x_record_id"),
    ],
)
def test_a_records_own_id_is_not_taken_for_a_documents(load, asked, named, own):
    kept, taken = load(OWN), load(OWN, columns={"doc_id": "id"})
    assert getattr(kept, asked)[own].tolist() == ["0b1c-0", "0b1c-1"]
    mapping = kept.mapping if load is rs.load_results else kept._mapping
    assert ["x_id", "id"] in mapping.values.tolist()
    assert getattr(taken, named)["doc_id"].tolist() == ["0b1c-0", "0b1c-1"]


def test_steps_of_a_trace_are_no_queries():
    step = {"traceId": "t", "parentObservationId": "s0", "type": "GENERATION", "model": "m"}
    steps = [step | {"id": one, "input": "what?", "question": "what?", "output": one}
             for one in ("s1", "s2")]  # fmt: skip
    assert len(rs.load_results(steps).responses) == 1, "of the trace"
    named = rs.load_results(steps, "table", {"query_id": "id", "answer": "output"})
    assert len(named.responses) == 2


def test_a_grade_that_is_none_refuses_no_query():
    rows = [{"query_id": "q", "doc_id": "d", "label": "irrelevant"}]
    with warned("1 of 1 queries carry no expectation"):
        assert rs.load_golden(rows, strict=False).queries["answerable"].isna().all()


def test_an_own_name_that_begins_as_ours_do_stays():
    hits = rs.load_results([{"query_id": "q", "doc_id": "d", "x_tokens": 3, "cost": 1}]).hits
    assert {"x_tokens", "x_cost"} < {*hits} and "x_x_tokens" not in hits


@pytest.mark.parametrize("first", [0, 1])
def test_an_answer_that_is_json_text_is_a_text_wherever_it_stands(first):
    texts = ['{"Port": 8080}', "x"]
    rows = [{"query_id": f"q{n}", "doc_id": ["a"], "answer": one, "reference_answer": one}
            for n, one in enumerate(texts[first:] + texts[:first])]  # fmt: skip
    answers = rs.load_results([{**row, "reference_answer": None} for row in rows]).responses
    labels = rs.load_golden([{**row, "answer": None} for row in rows]).queries
    assert sorted(answers["answer"]) == sorted(labels["reference_answer"]) == ["x", texts[0]]


# Repeats are the same question asked of the same system again; what is another one is said


def records(**own):
    """Two records of each question, which differ in a field of their own."""
    ((name, values),) = own.items()
    questions = ("one?", "two?")
    return [{"query": q, "doc_id": ["a"], name: value} for q in questions for value in values]


def test_further_answers_are_repeats_unless_a_column_names_their_systems():
    found = records(locale=("de", "en"))
    with warned("records", 2, "one?", "two?"):  # by their texts, not by hashes
        assert rs.load_results(found).runs["run_id"].tolist() == ["run", "run-r2"]
    # with an option, nothing is to be said any more
    for columns, runs in (
        ({"run_id": "locale"}, ["de", "en"]),
        ({"repeat": None}, ["run", "run-r2"]),
    ):
        assert rs.load_results(found, columns=columns).runs["run_id"].tolist() == runs


@pytest.mark.parametrize(("name", "values"), [("session", ("x", "y")), ("sessionId", (17, 18))])
def test_without_ids_records_of_several_conversations_are_several_queries(name, values):
    results = rs.load_results(records(**{name: values}))
    assert len(results.runs) == 1 and results.responses["query_id"].is_unique
    assert results.responses["conversation"].tolist() == [str(one) for one in values] * 2


def test_two_questions_under_one_id_are_refused_unless_the_column_is_no_id():
    found = [{"ID": 1, "query": query, "doc_id": ["a"]} for query in ("what?", "who?")]
    with refused("1", "what?", "who?", line=2, field="query"):
        rs.load_results(found)
    assert len(rs.load_results(found, columns={"query_id": None}).responses) == 2

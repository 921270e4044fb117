"""The small system of the collecting notebook.

What it answers, and that the notebook's answer holds.
"""

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.demo.corpus import GOLDEN, PASSAGES, chatty, plain, search
from ragscore.demo.judge_server import JudgeServer
from ragscore.scoring.judgments import with_judged_refusals


def test_the_search_finds_the_passage_of_every_answerable_question():
    assert [
        search(row["query"], k=1)[0]["doc_id"] for row in GOLDEN if "expected_doc_ids" in row
    ] == [row["expected_doc_ids"][0] for row in GOLDEN[:10]]
    assert all(hit["text"] == PASSAGES[hit["doc_id"]] for hit in search("waves"))


def test_plain_refuses_where_chatty_tells_of_its_own():
    refused = [
        row["id"] for row in GOLDEN if plain(row["query"], search(row["query"])) == "I don't know."
    ]
    assert {"sea-11", "sea-12"} < set(refused) and len(refused) == 4
    assert all(chatty(row["query"], search(row["query"])).endswith("by heart.") for row in GOLDEN)


@pytest.mark.slow
def test_the_notebooks_answer_holds(write_golden, write_run):
    golden = rs.load_golden(write_golden(GOLDEN))
    files = []
    for name, speak in (("plain", plain), ("chatty", chatty)):
        found = {row["id"]: (row["query"], search(row["query"])) for row in GOLDEN}
        records = [
            record(key,
            [hit(one["chunk_id"], one["doc_id"], n, snippet=one["text"]) for n,
            one in enumerate(hits, 1)], query=query, answer=answer(speak(query, hits)))
            for key, (query, hits) in found.items()
        ]  # fmt: skip
        files.append(write_run(name, records, k=3))
    with JudgeServer() as server:
        endpoint = rs.judging.Endpoint("words", base_url=server.url)
        read = rs.judge(rs.load_results(files), golden, "abstention", endpoint, cache=None)
        judged = rs.judge(
            with_judged_refusals(read.results, override=True),
            golden,
            ["groundedness", "correctness", "faithfulness"],
            endpoint,
            cache=None,
        )
        turned = rs.judge(
            judged.results, golden, "groundedness", endpoint, cache=None, order="reversed"
        )
    metrics = ["judge_groundedness", "judge_correctness", "faithfulness"]
    assert (
        compare_runs(judged.results, golden, "plain", "chatty", metrics=metrics)
        .deltas["verdict"]
        .tolist()
        == ["worse"] * 3
    )
    people = pd.DataFrame(
        {
            "run_id": "chatty",
            "query_id": [f"sea-{n:02}" for n in range(1, 11)],
            "criterion": "judge_correctness",
            "value": [4] * 9 + [3],
        }
    )
    card = judged.audit(people, reversed_context=turned).table.set_index(["criterion", "measure"])
    assert (card.xs("length_effect", level="measure")["high"] < 0).all()
    assert (
        card.loc[("judge_correctness", "people_bias"), "value"] < -1
        and card.loc[("judge_groundedness", "position_effect"), "value"] == 0
    )

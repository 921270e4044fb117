"""The small system of the collecting notebook."""

from ragscore.demo.sea import GOLDEN, PASSAGES, chatty, plain, search


def test_the_search_finds_the_passage_of_every_answerable_query():
    answerable = [row for row in GOLDEN if "expected_doc_ids" in row]
    assert len(answerable) == 10
    for row in answerable:
        assert search(row["query"], k=1)[0]["doc_id"] == row["expected_doc_ids"][0]
    assert all(hit["text"] == PASSAGES[hit["doc_id"]] for hit in search("waves"))


def test_plain_refuses_where_chatty_tells_of_its_own():
    found = {row["id"]: (row["query"], search(row["query"])) for row in GOLDEN}
    refused = [key for key, asked in found.items() if plain(*asked) == "I don't know."]
    assert {"sea-11", "sea-12"} < set(refused) and len(refused) == 4
    assert all(chatty(*asked).endswith("by heart.") for asked in found.values())

"""Ids that are written otherwise in golden set and run: what is said of them, and `ids=`."""

import pickle
import warnings

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, says, warned

URLS = {f"q{n}": [f"https://www.Example.org/docs/{n}.html"] for n in range(20)}
# One is written alike; the others differ by scheme, www., host case and a slash.
FOUND = {f"q{n}": ["x", f"http://example.org/docs/{n}.html/"] for n in range(1, 20)}
FOUND["q0"] = ["x", URLS["q0"][0]]


def said_of(run, golden, **more):
    """The mean of hit@5, and what was said of ids."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ev = rs.evaluate(rs.load_results(run), rs.load_golden(golden), "hit@5", **more)
    return ev.scores["hit@5"].mean(), [str(one.message) for one in caught]


def test_urls_that_join_in_part_are_said_with_the_line_that_joins_the_others():
    mean, (said,) = said_of(FOUND, URLS)
    assert mean == 0.05
    says(said, 19, "doc_id", "run", "golden ↔ run", "rs.evaluate(results, golden, ids='url')")
    assert said.count(" ↔ 'http://example.org/docs/") == 3
    assert said_of(FOUND, URLS, ids="url") == (1, [])


CASES = {
    "strip": ("a", " a"), "lower": ("Ab", "aB"),
    "url": ("https://X.org/a%20b", "http://www.x.org:80/a b/"),
    "fragment": ("a", "a#top"), "query": ("https://x.org/a", "https://x.org/a?utm=1"),
    "chunk": ("doc-a", "doc-a::chunk-3"), "extension": ("a", "a.md"), "zeros": ("d7", "d007"),
}  # fmt: skip


@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_each_reading_is_named_where_it_would_join_ids(name, is_swapped):
    one, other = CASES[name][::-1] if is_swapped else CASES[name]
    golden = {f"q{n}": [f"same {n}"] for n in range(9)} | {"q": [one]}
    run = golden | {"q": [other]}
    mean, (said,) = said_of(run, golden)
    assert mean == 0.9
    says(said, 1, f"rs.evaluate(results, golden, ids={name!r})")
    assert said_of(run, golden, ids=name) == (1, [])


def test_a_prefix_is_cut_by_a_function_that_cuts_no_more():
    golden = {f"q{n}": [f"{n}/index.md"] for n in range(5)}
    run = {query: [f"docs/{ids[0]}"] for query, ids in golden.items()} | {"q0": golden["q0"]}
    mean, (said,) = said_of(run, golden)
    assert mean == 0.2
    line = "lambda one: one.removeprefix('docs/')"
    says(said, 4, f"ids={line}")
    assert said_of(run, golden, ids=eval(line)) == (1, [])


def test_a_reading_that_takes_different_ids_for_one_is_said_to_need_care():
    golden = {"q0": ["b"], "q1": ["a"], "q2": ["c#2"], "q3": ["c#3"]}
    run = {"q0": ["b"], "q1": ["a#1", "a#2", "a#3"], "q2": ["c#2"], "q3": ["c#3"]}
    _, (said,) = said_of(run, golden)
    says(said, "fragment", "With care", "'c#2' = 'c#3'", "'a#1' = 'a#2'")


def test_ids_that_were_not_found_are_no_matter_of_how_they_are_written():
    golden = {"q0": ["a"], "q1": ["b.md"], "q2": ["x?id=1"], "q3": ["docs/a.md"], "q4": ["c#1"]}
    run = {
        "q0": ["a"], "q1": ["c.md"], "q2": ["x?id=2"], "q3": ["wiki/a.md"], "q4": ["c#2"],
    }  # fmt: skip
    assert said_of(run, golden) == (0.2, [])
    # "A" is another document than "a": it is returned as it is expected, for another query
    golden = {"q0": ["A"], "q1": ["a"], "q2": ["A"]}
    assert said_of({"q0": ["a"], "q1": ["a"], "q2": ["A"]}, golden)[1] == []


def test_targets_and_hits_that_become_one_are_counted():
    golden = {"q0": {"a#1": 1, "a#2": 2, "b": 1}}
    with warned(1, "target", "query"), warned(1, "hit", "doc_id"):
        ev = rs.evaluate({"q0": ["a#1", "a#2", "b"]}, golden, ["recall@5"], ids="fragment")
    assert ev.golden.targets[["target_id", "grade"]].to_numpy().tolist() == [["a", 2], ["b", 1]]
    assert ev.scores["recall@5"].tolist() == [1]


def test_a_function_reads_both_sides_once_and_is_recorded_by_its_code():
    def read(one):
        return one[1:]

    golden, run = {"q0": ["xabc"]}, {"q0": ["yabc"]}
    ev = rs.evaluate(run, golden, ["hit@5"], ids=read)
    assert ev.golden.targets["doc_id"].tolist() == ["abc"]
    assert ev.policies.ids.startswith(read.__qualname__) and "#" in ev.policies.ids
    assert ev.summary("mrr")["mean"].tolist() == [1]
    again = pickle.loads(pickle.dumps((ev.results, ev.golden)))
    assert rs.score(*again, "mrr", policies=ev.policies)["mrr"].tolist() == [1]
    with refused(field="ids"):
        rs.evaluate(run, golden, "hit@5", policies=ev.policies)
    with refused("'xabc'", None):
        rs.evaluate(run, golden, "hit@5", ids=lambda one: None)


def test_readings_are_part_of_the_provenance():
    hashes = [
        rs.evaluate(FOUND, URLS, "hit@5", ids=ids)
        .provenance("hit@5").set_index("component")["hash"]["policies"]
        for ids in ("url", ["url", "lower"])
    ]  # fmt: skip
    assert hashes[0] != hashes[1]
    with refused("uri", "url", field="ids"):
        rs.Policies(ids="uri")
    assert rs.Policies(ids=["lower", "url"]).ids == "url+lower"


def test_a_store_keeps_what_was_read_and_reads_no_ids_itself(tmp_path):
    golden, results = rs.load_golden(URLS), rs.load_results(FOUND)
    ev = rs.evaluate(results, golden, ["hit@5"], ids="url")
    store = rs.RunStore(tmp_path)
    store.save(ev)
    assert store.score(ev.golden, "hit@5", ids="url")["hit@5"].mean() == 1
    with refused("url", field="ids"):
        store.score(golden, "hit@5", ids="url")


def test_support_groups_follow_their_targets():
    golden = rs.load_golden({"q0": ["A", "B"]})
    groups = pd.DataFrame({"query_id": "q0", "group": 0, "target_id": ["A", "B"]})
    golden = rs.Golden(golden.queries, golden.targets, support_groups=groups)
    ev = rs.evaluate({"q0": ["a", "b"]}, golden, ["recall_all@5"], ids="lower")
    assert ev.scores["recall_all@5"].tolist() == [1]


def test_a_part_that_tells_expected_ids_apart_is_no_part_to_cut():
    golden = {"q0": ["b"], "q1": ["a"], **{f"q{n}": [f"c#{n}"] for n in range(2, 6)}}
    run = {"q0": ["b"], "q1": ["a#1"], **{f"q{n}": [f"c#{n}"] for n in range(2, 6)}}
    assert said_of(run, golden)[1] == []


def test_source_keys_are_read_but_where_some_are_forbidden():
    golden = rs.load_golden([
        {"id": "q0", "query": "?", "expected_source_keys": ["a"]},
        {"id": "q1", "query": "?", "must_not_contain_source_keys": ["b.md"]},
    ])  # fmt: skip
    results = rs.load_results({"q0": ["a.md"], "q1": ["b.md"]})
    results.hits["source_key"] = results.hits["doc_id"]
    ev = rs.evaluate(results, golden, "mrr", ids="extension")
    assert ev.results.hits["source_key"].tolist() == ["a", "b.md"]
    assert ev.scores.loc["q0", "mrr"] == 1

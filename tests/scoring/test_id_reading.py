"""Ids that are written otherwise in golden set and run: what is said of them, in part too."""

import re
import warnings

import pytest

import ragscore as rs
from ragscore.scoring.id_changes import READINGS
from tests.messages import says

URLS = {f"q{n}": [f"https://www.Example.org/docs/{n}.html"] for n in range(20)}
# One is written alike; the others differ by scheme, www., host case and a slash.
FOUND = {f"q{n}": ["x", f"http://example.org/docs/{n}.html/"] for n in range(1, 20)}
FOUND["q0"] = ["x", URLS["q0"][0]]


def said_of(run, golden, lines=""):
    """The mean of hit@5, and what was said of ids, once these lines have run."""
    known = {"results": rs.load_results(run), "golden": rs.load_golden(golden)}
    exec(lines, known)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ev = rs.evaluate(known["results"], known["golden"], "hit@5")
    return ev.scores["hit@5"].mean(), [str(one.message) for one in caught]


def lines_of(said):
    """The pandas that a warning proposes."""
    return re.search(r"\): ?((?:results\.|from ).*?)(?:\. With care.*)?$", said)[1]


def test_urls_that_join_in_part_are_said_with_the_line_that_joins_the_others():
    mean, (said,) = said_of(FOUND, URLS)
    assert mean == 0.05
    says(said, 19, "doc_id", "run", "golden ↔ run")
    assert said.count(" ↔ 'http://example.org/docs/") == 3
    assert said_of(FOUND, URLS, lines_of(said)) == (1, [])


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
    says(said, 1, READINGS[name].code)
    assert said_of(run, golden, lines_of(said)) == (1, [])


def test_a_prefix_is_cut_by_a_line_that_cuts_no_more():
    golden = {f"q{n}": [f"{n}/index.md"] for n in range(5)}
    run = {query: [f"docs/{ids[0]}"] for query, ids in golden.items()} | {"q0": golden["q0"]}
    mean, (said,) = said_of(run, golden)
    assert mean == 0.2
    says(said, 4, ".str.removeprefix('docs/')")
    assert said_of(run, golden, lines_of(said)) == (1, [])


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


def test_a_part_that_tells_expected_ids_apart_is_no_part_to_cut():
    golden = {"q0": ["b"], "q1": ["a"], **{f"q{n}": [f"c#{n}"] for n in range(2, 6)}}
    run = {"q0": ["b"], "q1": ["a#1"], **{f"q{n}": [f"c#{n}"] for n in range(2, 6)}}
    assert said_of(run, golden)[1] == []

"""What is said where the ids of hits and the expected ones can't be joined, and what joins them."""

import re
import warnings
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest
from conftest import golden_of, hits_of, targets_of
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.id_changes import READINGS, find_join
from tests.messages import refused, says, warned

DEMO = Path(__file__).parents[2] / "data" / "demo"


def results_of(*lists, run_id="r"):
    """One run: a list of hits for each of the queries q0, q1, ..."""
    hits = [
        {"run_id": run_id, "query_id": f"q{n}", "rank": rank, **one}
        for n, found in enumerate(lists)
        for rank, one in enumerate(found, 1)
    ]
    responses = [
        {"run_id": run_id, "query_id": f"q{n}", "query": "?", "error": None}
        for n in range(len(lists))
    ]
    return rs.Results(
        from_records([{"run_id": run_id}], "runs"),
        from_records(responses, "responses"),
        from_records(hits, "hits"),
    )


def golden_by(column, ids):
    """A golden set that expects one id of each of the queries q0, q1, ..."""
    level = {"chunk_id": "chunk", "doc_id": "doc"}[column]
    targets = [
        targets_of({"level": level, "target_id": one, column: one}, query_id=f"q{n}")
        for n, one in enumerate(ids)
    ]
    return golden_of(pd.concat(targets, ignore_index=True))


def told(results, golden, metrics="mrr", **more):
    """The scores, and what was said of ids."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = rs.score(results, golden, metrics, **more)
    return scores, [str(one.message) for one in caught if "ids" in str(one.message).split()]


def repaired(said, results, golden):
    """The MRR once the line that was proposed has run, and what is said of ids then."""
    line = re.search(r"\): ((?:results\.|from |rs\.evaluate).*?)(?:\. With care.*)?$", said)[1]
    if not line.split("; ")[-1].startswith("rs.evaluate"):
        line += "; rs.evaluate(results, golden)"
    *before, last = line.split("; ")
    known = {"results": results, "golden": golden, "rs": rs}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec("; ".join([*before, f"ev = {last}"]), known)
    told = [str(one.message) for one in caught if str(one.message).startswith("ids of")]
    return known["ev"].scores["mrr"].tolist(), told


def test_a_run_of_chunk_ids_and_a_golden_set_of_documents_are_not_scored_without_a_word():
    results = results_of([{"chunk_id": "a"}], [{"chunk_id": "b"}])
    golden = golden_by("doc_id", ["a", "b"])
    scores, (said,) = told(results, golden)
    assert scores["mrr"].tolist() == [0, 0]
    says(said, "r", "doc", "doc_id", "chunk_id", "a", "b", 2)
    assert repaired(said, results, golden) == ([1, 1], [])


# By the methods that are proposed: ids of hits, and expected ones.
CASES = {
    "lower": (["Ab", "C"], ["ab", "c"]),
    "strip": ([" a", "b "], ["a", "b"]),
    "url": (["http://www.x.org/a/", "http://x.org/b"], ["https://x.org/a", "https://X.org/b"]),
    ".str.removeprefix('corpus-')": (["corpus-a", "corpus-b"], ["a", "b"]),
    ".str.removeprefix('docs/')": (["docs/a/x.md", "docs/b/x.md"], ["a/x.md", "b/x.md"]),
    ".str.removesuffix('.md')": (["a.js.md", "b.css.md"], ["a.js", "b.css"]),
    ".str.removesuffix('.7zip')": (["a.7zip", "b.7zip"], ["a", "b"]),
    "extension": (["a.md", "b.html"], ["a", "b"]),
    "path": (["/x/a", "http://y.org/b"], ["a", "b"]),
    "path of both": (["/home/x/a.md", "/home/x/b.md"], ["docs/a.md", "wiki/b.md"]),
    "path+extension": (["https://x.org/docs/a.html", "https://x.org/b.html"], ["a", "b"]),
    "zeros": (["7", "12"], ["007", "012"]),
    "chunk": (["my_doc_3", "your_doc_12"], ["my_doc", "your_doc"]),
    "subchunk": (["doc_1_3", "doc_2::chunk-12"], ["doc_1", "doc_2"]),
    ".str.split('-').str[:3].str.join('-')": (
        ["2025-10-05-1", "2025-10-06-12"], ["2025-10-05", "2025-10-06"],
    ),
    "fragment": (["doc_1#3", "doc_2#12"], ["doc_1", "doc_2"]),
    "chunk+path": (["x/a::chunk-1", "y/b::chunk-2"], ["a", "b"]),
    "fragment+path+extension": (["x/A_1.md#3", "y/b_2.html#part-2"], ["A_1", "b_2"]),
}  # fmt: skip


@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_reading_that_would_join_ids_is_named_with_the_line_that_makes_it(case, is_swapped):
    hits, expected = CASES[case][::-1] if is_swapped else CASES[case]
    results = results_of(*[[{"doc_id": one}] for one in hits])
    golden = golden_by("doc_id", expected)
    scores, (said,) = told(results, golden)
    assert scores["mrr"].tolist() == [0, 0]
    says(said, "r", 2, "doc_id", *hits, *expected)
    names = case.removesuffix(" of both").split("+")
    code = "".join(READINGS[name].code if name in READINGS else name for name in names)
    assert f'golden.targets["doc_id"]{code}' in said or said.endswith(code)
    assert repaired(said, results, golden) == ([1, 1], [])


@pytest.mark.parametrize("suffix", ["#3", "_3", "-3", "::chunk-3", ":3", "#chunk_3", "/3", "@p3"])
def test_chunk_suffixes_are_known_in_many_forms(suffix):
    join = find_join(pd.Index([f"a b{suffix}", f"c{suffix[:-1]}4"]), pd.Index(["a b", "c"]))
    assert join.n_joined == 2
    known = [READINGS[name].code for name in ("chunk", "fragment")]
    assert join.reading.code in known  # any chunk's, not only this one's


def test_expected_chunks_and_hits_of_whole_documents_are_joined_by_both():
    results = results_of([{"doc_id": "a"}], [{"doc_id": "b"}])
    golden = golden_by("chunk_id", ["a#1", "b#7"])
    _, (said,) = told(results, golden)
    says(said, "chunk_id", "doc_id", "a", "b")
    assert repaired(said, results, golden) == ([1, 1], [])


@given(
    st.lists(st.from_regex(r"[a-z]{3,8}", fullmatch=True), min_size=6, max_size=12, unique=True),
    st.sampled_from(["{}.md", "Docs/{}", "{}#1", " {}", "x-{}-y", "0{}", "{}"]),
    st.sampled_from(["{}", "a/{}", "{}.txt"]),
)
def test_what_is_said_to_join_joins(names, form, other):
    ids, expected = [form.format(one) for one in names], [other.format(one) for one in names[:5]]
    join = find_join(pd.Index(ids), pd.Index(expected))
    if join is None:
        return
    known = {"hits": pd.Series(ids), "wanted": pd.Series(expected), "unquote": unquote}
    hits, wanted = (eval(side + join.reading.code, known) for side in ("hits", "wanted"))
    assert set(wanted) & set(hits) and join.n_joined >= wanted.isin(hits).sum()
    assert all(one in expected and other in ids for one, other in join.pairs)


def test_ids_of_another_corpus_are_said_to_be_others():
    results = results_of([{"doc_id": "x"}], [{"doc_id": "y"}])
    _, (said,) = told(results, golden_by("doc_id", ["a", "b"]))
    says(said, "doc_id", "x", "y", "a", "b", "columns", "match")
    assert "golden.targets" not in said  # no reading joins them


def test_honest_runs_are_not_spoken_of():
    golden = rs.load_golden(DEMO / "golden.yaml")
    assert not told(rs.load_results(sorted((DEMO / "runs").glob("*/per_query.jsonl"))), golden)[1]
    # nothing relevant is found, but the ids are of the same documents
    results = results_of([{"doc_id": "b"}, {"doc_id": "c"}], [{"doc_id": "a"}])
    scores, said = told(results, golden_by("doc_id", ["a", "b"]))
    assert scores["mrr"].tolist() == [0, 0] and not said


def many(form, n=60, shift=0):
    """A run that returns, as its only hit of each query, the document of that number."""
    return results_of(*[[{"doc_id": form(n, at + shift)}] for at in range(n)])


def test_a_few_ids_that_join_by_chance_hide_no_reading():
    golden = golden_by("doc_id", [f"{at:03}" for at in range(60)])
    results = many(lambda n, at: f"{at:03}" if at < 2 else f"{at:03}.md")
    scores, (said,) = told(results, golden)
    assert scores["mrr"].sum() == 2
    says(said, "r", "doc", "2 of 60", "doc_id", "60 of 60", "'002.md'")
    # a bad run: two of its ids are expected, and no reading makes them more
    assert not told(many(lambda n, at: f"{at:03}" if at < 2 else f"x{at}"), golden)[1]


def test_ids_that_only_other_queries_expect_are_said_to_be_of_other_queries():
    golden = golden_by("doc_id", [f"d{at}" for at in range(60)])
    _, (said,) = told(many(lambda n, at: f"d{at % n}", shift=1), golden)
    says(said, "r", "doc", "60 of 60", "doc_id", "query_id")


@pytest.mark.parametrize(
    ("level", "target", "hit", "needed"),
    [
        ("chunk", {"chunk_id": "c"}, {"chunk_id": "C"}, "chunk_id"),
        ("doc", {"doc_id": "c"}, {"doc_id": "C"}, "doc_id"),
        ("anchor", {"path": "c.md"}, {"path": "docs/c.md"}, "path"),
        ("source_key", {"source_key": "k"}, {"source_key": "k.md"}, "source_key"),
        (
            "doc",
            {"doc_id": "c", "start": 1, "end": 9, "span_unit": "line"},
            {"doc_id": "C", "start": 1, "end": 9, "span_unit": "line"},
            "doc_id",
        ),
    ],
)
def test_every_level_tells_of_its_own_ids(level, target, hit, needed):
    golden = golden_of(targets_of({"level": level, "target_id": "t", **target}, query_id="q0"))
    scores, (said,) = told(results_of([hit]), golden)
    assert scores["mrr"].tolist() == [0]
    says(said, needed, "1 of 1")


def test_source_keys_join_whatever_their_case():
    golden = golden_of(targets_of({"level": "source_key", "target_id": "t", "source_key": "Key"}))
    results = rs.Results(
        pd.DataFrame({"run_id": ["r"]}),
        pd.DataFrame({"run_id": ["r"], "query_id": ["q"], "query": ["?"], "error": [None]}),
        hits_of({"source_key": "kEY"}),
    )
    scores, said = told(results, golden)
    assert scores["mrr"].tolist() == [1] and not said


def test_hits_without_any_id_are_refused():
    results = results_of([{"score": 0.5, "text": "t"}])
    with refused("run_id", "query_id", "chunk_id", "doc_id", "source_key", field="hits"):
        rs.score(results, golden_by("doc_id", ["a"]), "mrr")


def test_a_golden_set_without_a_label_is_said_to_have_none():
    golden = rs.Golden(
        pd.DataFrame({"query_id": ["q0"], "query": "?", "answerable": None, "position": 0})
    )
    results = results_of([{"doc_id": "a"}])
    with warned(1, "expected_doc_ids", "answerable"):
        rs.score(results, golden, "mrr")
    rs.score(results, golden, "failed")

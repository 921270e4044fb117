"""Rules and what hits earn by them."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import golden_of, hit, hits_of, record, targets_of

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.rules import heading_parts, rule_name
from ragscore.scoring.targets import targets_at
from tests.compared import compare_runs
from tests.messages import refused, says


def scores_of(hits, targets, labels, rule=None, **golden):
    found = rs.score(
        rs.load_results(hits), golden_of(targets, **golden), labels, match="doc", rule=rule
    )
    return found[labels].iloc[0].tolist()


def docs(*names):
    return [{"doc_id": name} for name in names]


@pytest.mark.filterwarnings("ignore:ndcg has the gain")
@pytest.mark.parametrize(
    ("hits", "targets", "labels", "expected"),
    [
        # a document returned as three chunks earns once; precision counts hits, others targets
        (docs("d", "d", "e", "d"), docs("d"),
         "recall@5 map@5 ndcg@5 precision@5", [1, 1, 1, 3 / 5]),
        # one hit that meets two targets earns the better grade: 7 of ideal 7 + 3 / log2 3
        (docs("d"), [{"doc_id": "d", "target_id": "a", "grade": 3},
                     {"doc_id": "d", "target_id": "b", "grade": 2}],
         "recall@3 ndcg@3", [1, 7 / (7 + 3 / np.log2(3))]),
        # any alternative meets its target once
        (docs("x", "b", "a"), [{"doc_id": "a", "target_id": "t"},
                               {"doc_id": "b", "target_id": "t", "alternative": 1}],
         "recall@1 recall@2 recall@3 mrr", [0, 1, 1, 0.5]),
        # grade 0 is judged, and not relevant
        (docs("bad", "x", "good"), [{"doc_id": "bad", "grade": 0}, {"doc_id": "good"}],
         "hit@1 judged@1 judged@10 precision@3 recall@3", [0, 1, 2 / 3, 1 / 3, 1]),
    ],
    ids=["three chunks", "two targets", "alternatives", "grade 0"],
)  # fmt: skip
def test_what_hits_earn(hits, targets, labels, expected):
    found = scores_of(hits_of(*hits), targets_of(*targets), labels.split())
    assert found == pytest.approx(expected, abs=1e-12)


def of_two(make, first, second):
    """The rows of queries q1 and q2."""
    parts = [make({"doc_id": doc}, query_id=one) for one, doc in (("q1", first), ("q2", second))]
    return pd.concat(parts, ignore_index=True)


def test_ids_of_another_query_do_not_match_and_a_rule_that_pairs_two_is_refused():
    hits, targets = of_two(hits_of, "d1", "d1"), of_two(targets_of, "d1", "d2")
    assert rs.match.by_doc(hits, targets)[0].tolist() == [0]

    def across(hits, targets):
        return pd.DataFrame({"hit": [1], "target": [0]})

    with pytest.raises(rs.DataError, match="across"):
        scores_of(hits, targets, ["mrr"], across)


SPAN = {"doc_id": "d", "span_unit": "line"}


@pytest.mark.parametrize(
    ("found", "expected", "is_met"),
    [
        ((1, 11), (1, 11), True), ((5, 15), (1, 11), True), ((7, 17), (1, 11), False),
        # a quarter of the target: a smaller chunk of it
        ((26, 51), (1, 101), True), ((1, 101), (26, 51), True), ((11, 21), (1, 11), False),
    ],
)  # fmt: skip
def test_spans_match_by_their_share(found, expected, is_met):
    matches = rs.match.by_span(
        hits_of({**SPAN, "start": found[0], "end": found[1]}),
        targets_of({**SPAN, "start": expected[0], "end": expected[1]}),
    )
    assert len(matches[0]) == is_met


@pytest.mark.parametrize(
    ("hit", "target", "is_met"),
    [
        ({}, {}, True), ({"span_unit": "char"}, {}, False), ({"doc_id": "e"}, {}, False),
        # a target without document is found by its path
        ({"path": "a.md"}, {"doc_id": None, "path": "a.md"}, True),
        ({"path": "b.md"}, {"doc_id": None, "path": "a.md"}, False),
    ],
)  # fmt: skip
def test_spans_match_in_one_unit_and_document(hit, target, is_met):
    span = {**SPAN, "start": 1, "end": 9}
    target = targets_of(span | {"target_id": "t"} | target)
    assert len(rs.match.by_span(hits_of(span | hit), target)[0]) == is_met


def chunk(name, start, end, version):
    return {
        "doc_id": "d",
        "chunk_id": name,
        "start": start,
        "end": end,
        "span_unit": "line",
        "chunker_version": version,
    }


def test_a_target_of_100_lines_recut_as_4_times_25_is_found_by_the_span_rule():
    old = hits_of(chunk("old", 1, 101, "v1"))
    new = hits_of(*(chunk(f"new{n}", 1 + 25 * n, 26 + 25 * n, "v2") for n in range(4)), run_id="s")
    target = {"level": "chunk", "chunk_id": "old", "target_id": "old", "chunker_version": "v1"}
    golden = golden_of(targets_of(target)).resolve_spans(old)
    runs = pd.DataFrame({"run_id": ["r", "s"], "chunker_version": ["v1", "v2"], "k": 10})
    hits = pd.concat([one.astype({"run_id": "str"}) for one in (old, new)], ignore_index=True)
    results = rs.Results(runs=runs, responses=runs[["run_id"]].assign(query_id="q"), hits=hits)
    labels = ["hit@1", "recall@5", "ndcg@5"]
    scores = rs.score(results, golden, labels)
    assert scores["level"].tolist() == ["span", "span"]
    assert scores[labels].to_numpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    cmp = compare_runs(results, golden, "r", "s")
    assert cmp._level.chunker_version_match == "fallback_doc_span" and cmp.counts == {"draw": 1}
    says(cmp._level.left_out, "v1", "v2")


def test_resolving_spans_keeps_the_golden_hash_and_refuses_two_spans_of_one_chunk():
    golden = golden_of(targets_of({"level": "chunk", "chunk_id": "c", "target_id": "c"}))
    resolved = golden.resolve_spans(hits_of(chunk("c", 1, 9, "v1")))
    assert resolved.targets[["doc_id", "start", "end"]].to_numpy().tolist() == [["d", 1, 9]]
    assert resolved.golden_hash == golden.golden_hash
    with refused(1, "c", field="chunk_id"):
        golden.resolve_spans(hits_of(chunk("c", 1, 9, "v1"), chunk("c", 2, 9, "v1")))


def test_resolving_leaves_other_targets_and_unknown_chunks_alone():
    targets = targets_of(
        {"doc_id": "d"}, {"level": "chunk", "chunk_id": "gone", "target_id": "gone"}
    )
    resolved = golden_of(targets).resolve_spans(hits_of(chunk("c", 1, 9, "v1")))
    assert resolved.targets["start"].isna().all() and resolved.targets["doc_id"].tolist()[0] == "d"


def by_word(hits, targets):
    """A rule of one's own: the target's id occurs in the hit's text."""
    hits, targets = (one.reset_index(drop=True) for one in (hits, targets))
    pairs = hits.reset_index(names="hit").merge(targets.reset_index(names="target"), on="query_id")
    is_there = [word in text for word, text in pairs[["target_id", "text"]].to_numpy()]
    return pairs.loc[is_there, ["hit", "target"]]


def test_a_rule_of_ones_own():
    golden = rs.load_golden([{"id": "q", "query": "?", "expected_doc_ids": ["apple"]}])
    hits = hits_of({"doc_id": "d", "text": "a pear"}, {"doc_id": "d", "text": "an apple"})
    assert rs.score(results_of(hits), golden, ["mrr"], rule=by_word)["mrr"].tolist() == [0.5]


NAMED = """
from ragscore.scoring.rules import rule_name
def helper(one): return one
def made(limit, near=helper):
    return lambda hits, targets: [near(x) for x in hits if x in {"a", "b", "c"} and limit]
print(rule_name(made(1), "doc"), rule_name(made(2), "doc"))
"""


@pytest.mark.slow
def test_a_rule_has_one_name_in_all_processes_and_another_one_for_what_it_closes_over():
    def named(seed):
        command = [sys.executable, "-c", NAMED]
        told = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
        return done.stdout.split()

    one, other = named("1"), named("2")
    assert one == other and one[0] != one[1]


def test_rules_that_differ_in_a_name_or_inside_a_comprehension_have_other_names():
    alike = [
        lambda hits, targets: hits.one,
        lambda hits, targets: hits.two,
        lambda hits, targets: [one for one in hits if one > 1],
        lambda hits, targets: [one for one in hits if one > 2],
    ]
    assert len({rule_name(one, "doc") for one in alike}) == 4


@pytest.mark.parametrize(
    ("groups", "expected"),
    [([["a", "b"]], [0, 1]), ([["a"], ["b", "c"]], [1, 1]), ([["a", "unknown:9"]], [0, 0])],
    ids=str,
)
def test_support_groups_need_all_their_targets(groups, expected):
    members = [
        {"query_id": "q", "group": n, "target_id": one}
        for n, group in enumerate(groups)
        for one in group
    ]
    support = from_records(members, "support_groups")
    hits, targets = hits_of(*docs("a", "x", "b")), targets_of(*docs("a", "b", "c"))
    labels = ["recall_all@1", "recall_all@3"]
    assert scores_of(hits, targets, labels, support_groups=support) == expected


def test_support_groups_of_documents_say_nothing_about_chunks():
    chunk = targets_of({"level": "chunk", "chunk_id": "c", "target_id": "c"})
    targets = pd.concat([targets_of({"doc_id": "a"}), chunk], ignore_index=True)
    groups = from_records([{"query_id": "q", "group": 0, "target_id": "a"}], "support_groups")
    golden = golden_of(targets, support_groups=groups)
    counts = [len(targets_at(golden, level).support_groups) for level in ("doc", "chunk")]
    assert counts == [1, 0]


def results_of(hits):
    run = pd.DataFrame({"run_id": ["r"]})
    return rs.Results(runs=run, responses=run.assign(query_id="q"), hits=hits)


@pytest.mark.parametrize(
    ("ranks", "named"),
    [([1, 1], (1, "q", "r")), ([0, 1], (0, 1)), ([1, 10**9, 10**9], (10**9,))],
)
def test_ranks_that_cannot_be_are_refused_before_scoring(ranks, named):
    hits = hits_of(*docs(*"ddd"[: len(ranks)])).assign(rank=ranks)
    with refused(*named):
        rs.score(results_of(hits), golden_of(targets_of({"doc_id": "d"})), ["mrr"], match="doc")


@pytest.mark.filterwarnings("ignore:ids of")
@pytest.mark.parametrize(("runs", "hits"), [(["lost"], [0]), (["found", "lost"], [1, 0])])
def test_a_run_that_finds_no_expected_chunk_misses_where_there_are_no_other_targets(
    loaded, runs, hits
):
    chunks = {"found": hit("c1", "d1", 1, chunker_version=None),
              "lost": hit("c9", "d9", 1, chunker_version=None)}  # fmt: skip
    rows = [{"id": "q1", "query": "?", "expected_chunk_ids": ["c1"]}]
    records = {run: [record("q1", [chunks[run]])] for run in runs}
    scores = rs.score(*loaded(rows, records), ["hit@5"])
    assert scores["hit@5"].tolist() == hits and set(scores["level"]) == {"chunk"}


# Anchors: headings by their parts, snippets in the text, and what a cut text leaves undecided


def anchored(*hits):
    """Hits of query q from (path, heading) or (path, heading, text, text_cut)."""
    columns = ["path", "heading", "text", "text_cut"]
    return hits_of(*(dict(zip(columns, hit, strict=False)) for hit in hits))


def anchor(heading, *snippets):
    """A target in a.md; any of its snippets will do."""
    return targets_of(*(
        {"level": "anchor", "target_id": "t", "path": "a.md", "heading": heading, "snippet": one,
         "alternative": n}
        for n, one in enumerate(snippets or [None])
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("heading", "parts"),
    [
        ("# Overview > ## Details", ("Overview", "Details")),
        ("##Title  >Sub", ("Title", "Sub")),
        (" # A\tB >  > ### C ", ("A B", "C")),
        ("", ()),
        ("#", ()),
        ("C# Guide > # F# notes", ("C# Guide", "F# notes")),
    ],
)
def test_a_heading_path_is_the_names_of_its_parts(heading, parts):
    assert heading_parts(heading) == parts


@pytest.mark.parametrize(
    ("hit", "wanted", "met"),
    [
        (("a.md", "# Overview > ## D"), anchor("# Overview"), True),
        (("a.md", "Overview"), anchor("### Overview"), True),  # levels don't count
        (("a.md", "# Over"), anchor("# Overview"), False),
        (("a.md", "# Overview2"), anchor("# Overview"), False),
        (("A.md", "# Overview"), anchor("# Overview"), False),
        (("a.md", "# Overview", "has FOO here"), anchor("# Overview", "foo", "bar"), True),
        (("a.md", "# Overview", "nothing"), anchor("# Overview", "foo"), False),
        # nothing says that the text was cut
        (("a.md", "# Overview", "nothing", None), anchor("# Overview", "foo"), False),
        # the snippet was cut with an ellipsis, which stands nowhere in the text
        (("a.md", "# Overview", "The sentence goes on."), anchor("", "The sentence..."), True),
        (("a.md", "# Overview", ""), anchor("# Overview", "foo"), True),
        (("a.md", "# Overview", None), anchor("# Overview", "foo"), True),
        (("a.md", "# Anything"), anchor(""), True),
        (("a.md", None), anchor(None), True),
        (("a.md", None), anchor("# Overview"), False),
    ],
)
def test_a_hit_meets_an_anchor_by_path_heading_and_snippet(hit, wanted, met):
    assert len(rs.match.by_anchor()(anchored(hit), wanted)[0]) == met


def test_snippets_can_be_left_out():
    hits = anchored(("a.md", "# O", "nothing"))
    assert len(rs.match.by_anchor(snippets=False)(hits, anchor("# O", "foo"))[0]) == 1

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
from tests.compared import compare_runs
from tests.messages import refused, says


def results_of(hits):
    run = pd.DataFrame({"run_id": ["r"]})
    return rs.Results(runs=run, responses=run.assign(query_id="q"), hits=hits)


def scores_of(hits, targets, labels, rule=None, **golden):
    of = results_of(hits), golden_of(targets, **golden)
    found = rs.score(*of, labels, match="doc", rule=rule)
    return found[labels].iloc[0].tolist()


def docs(*names):
    return [{"doc_id": name} for name in names]


def span(start, end, **more):
    return {"doc_id": "d", "span_unit": "line", "start": start, "end": end} | more


@pytest.mark.filterwarnings("ignore:ndcg uses the gain")
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
        (docs("x", "b", "a", "c"), [{"doc_id": "a", "target_id": "t"}, {"doc_id": "c"},
                                    {"doc_id": "b", "target_id": "t", "alternative": 1}],
         "recall@1 recall@2 recall@3 recall@5 mrr", [0, 0.5, 0.5, 1, 0.5]),
        # grade 0 is judged, and not relevant
        (docs("bad", "x", "good"), [{"doc_id": "bad", "grade": 0}, {"doc_id": "good"}],
         "hit@1 judged@1 judged@10 precision@3 recall@3", [0, 1, 2 / 3, 1 / 3, 1]),
        # at another level other targets count
        ([span(1, 9)], [span(1, 9, target_id="t"), {"doc_id": "e"}],
         "recall@1:span recall@1:doc", [1, 0.5]),
    ],
    ids=["three chunks", "two targets", "alternatives", "grade 0", "levels"],
)  # fmt: skip
def test_what_hits_earn(hits, targets, labels, expected):
    found = scores_of(hits_of(*hits), targets_of(*targets), labels.split())
    assert found == pytest.approx(expected, abs=1e-12)


def of_two(make, first, second):
    """The rows of queries q1 and q2."""
    parts = [make({"doc_id": doc}, query_id=one) for one, doc in (("q1", first), ("q2", second))]
    return pd.concat(parts, ignore_index=True)


def test_ids_of_another_query_do_not_match_and_a_rule_of_ones_own_that_pairs_two_is_refused():
    hits, targets = of_two(hits_of, "d1", "d1"), of_two(targets_of, "d1", "d2")
    assert rs.match.by_doc(hits, targets)[0].tolist() == [0]

    def across(hits, targets):
        return pd.DataFrame({"hit": [1], "target": [0]})

    assert scores_of(hits_of(*docs("x", "y")), targets_of(*docs("d")), ["mrr"], across) == [0.5]
    with pytest.raises(rs.DataError, match="across"):
        scores_of(hits, targets, ["mrr"], across)


def under(heading, text=None, path="a.md", **more):
    return {"path": path, "heading": heading, "text": text} | more


def anchor(heading, *snippets):
    """A target in a.md; any of its snippets will do."""
    return [
        {"level": "anchor", "target_id": "t", "path": "a.md", "heading": heading, "snippet": one,
         "alternative": n}
        for n, one in enumerate(snippets or [None])
    ]  # fmt: skip


BY_SPAN, BY_ANCHOR = rs.match.by_span, rs.match.by_anchor()
NO_DOC = {"doc_id": None, "path": "a.md"}


@pytest.mark.parametrize(
    ("rule", "hit", "target", "is_met"),
    [
        # spans match by their share, in one unit and document
        (BY_SPAN, span(1, 11), [span(1, 11)], True),
        (BY_SPAN, span(5, 15), [span(1, 11)], True),
        (BY_SPAN, span(7, 17), [span(1, 11)], False),
        (BY_SPAN, span(26, 51), [span(1, 101)], True),  # a quarter of it: a smaller chunk
        (BY_SPAN, span(1, 101), [span(26, 51)], True),
        (BY_SPAN, span(11, 21), [span(1, 11)], False),
        (BY_SPAN, span(1, 9, span_unit="char"), [span(1, 9)], False),
        (BY_SPAN, span(1, 9, doc_id="e"), [span(1, 9)], False),
        # a target without document is found by its path
        (BY_SPAN, span(1, 9, path="a.md"),
         [span(1, 9, target_id="t", **NO_DOC), span(1, 9, doc_id="e")], True),
        (BY_SPAN, span(1, 9, path="b.md"), [span(1, 9, target_id="t", **NO_DOC)], False),
        # anchors match by path, heading and snippet
        (BY_ANCHOR, under("# Overview > ## D"), anchor("# Overview"), True),
        (BY_ANCHOR, under("Overview"), anchor("### Overview"), True),  # levels don't count
        (BY_ANCHOR, under("# Over"), anchor("# Overview"), False),
        (BY_ANCHOR, under("# Overview2"), anchor("# Overview"), False),
        (BY_ANCHOR, under("# Overview", path="A.md"), anchor("# Overview"), False),
        (BY_ANCHOR, under("# Overview", "has FOO here"), anchor("# Overview", "foo", "bar"), True),
        (BY_ANCHOR, under("# Overview", "nothing"), anchor("# Overview", "foo"), False),
        # nothing says that the text was cut
        (BY_ANCHOR, under("# Overview", "nothing", text_cut=None), anchor("# Overview", "foo"),
         False),
        # the snippet was cut with an ellipsis, which stands nowhere in the text
        (BY_ANCHOR, under("# O", "The sentence goes on."), anchor("", "The sentence..."), True),
        (BY_ANCHOR, under("# Overview", ""), anchor("# Overview", "foo"), True),
        (BY_ANCHOR, under("# Overview"), anchor("# Overview", "foo"), True),
        (BY_ANCHOR, under("# Anything"), anchor(""), True),
        (BY_ANCHOR, under(None), anchor(None), True),
        (BY_ANCHOR, under(None), anchor("# Overview"), False),
        # snippets can be left out
        (rs.match.by_anchor(snippets=False), under("# O", "nothing"), anchor("# O", "foo"), True),
    ],
    ids=range(25),
)  # fmt: skip
def test_a_hit_meets_a_target_by_its_rule(rule, hit, target, is_met):
    assert len(rule(hits_of(hit), targets_of(*target))[0]) == is_met


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


def test_resolving_spans_fills_in_known_chunks_alone_and_keeps_the_golden_hash():
    chunks = [{"level": "chunk", "chunk_id": one, "target_id": one} for one in ("c", "gone")]
    chunks += [{"level": "chunk", "chunk_id": "b", "target_id": "b", "doc_id": "d"}, *docs("d")]
    golden, known = (
        golden_of(targets_of(*chunks)),
        [chunk("c", 1, 9, "v1"), chunk("b", 9, 12, "v1")],
    )
    resolved = golden.resolve_spans(hits_of(*known))
    found = resolved.targets[["doc_id", "start", "end"]].astype(object).fillna("-")
    assert found.to_numpy().tolist() == [["d", 1, 9], ["-"] * 3, ["d", 9, 12], ["d", "-", "-"]]
    assert resolved.golden_hash == golden.golden_hash
    # two spans of a chunk; another document than the target's
    for name, more in (("c", chunk("c", 2, 9, "v1")), ("b", known.pop() | {"doc_id": "x"})):
        with refused(1, name, field="chunk_id"):
            golden.resolve_spans(hits_of(*known, more))


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


@pytest.mark.filterwarnings("ignore:ids of")
def test_support_groups_of_documents_say_nothing_about_chunks():
    chunk = targets_of({"level": "chunk", "chunk_id": "c", "target_id": "c"})
    targets = pd.concat([targets_of({"doc_id": "a"}), chunk], ignore_index=True)
    groups = from_records([{"query_id": "q", "group": 0, "target_id": "a"}], "support_groups")
    hits, labels = hits_of({"chunk_id": "c", "doc_id": "x"}), ["recall_all@1", "recall_all@1:chunk"]
    assert scores_of(hits, targets, labels, support_groups=groups) == [0, 1]


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

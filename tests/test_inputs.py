"""Frames and arguments as people make them in a notebook.

Used where the meaning is clear, else one clear error.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import RUN_A, THREE_QUERIES, golden_of, hit, hits_of, record, targets_of

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from ragscore.frames.data import conform
from ragscore.golden.coverage import coverage
from ragscore.scoring.level import resolve_spans
from ragscore.scoring.rules import matched_pairs
from ragscore.scoring.summary import summarize
from ragscore.scoring.targets import targets_at
from tests.compared import compare_runs
from tests.messages import ANY, refused


def test_a_golden_set_is_subset_by_its_queries(write_golden, write_run):
    rows = [
        {
            "id": f"q{n}",
            "query": "?",
            "expected_doc_ids": [f"d{n}"],
            "must_contain": ["x"],
            "tags": [f"t{n}"],
            "required_support_groups": [[f"d{n}"]],
        }
        for n in (1, 2)
    ]
    subset = rs.load_golden(write_golden(rows)).select("q2")
    alone = rs.load_golden(write_golden(rows[1:]))
    assert subset.golden_hash == alone.golden_hash and subset.targets["query_id"].tolist() == ["q2"]
    results = rs.load_results(
        [
            write_run(name, [record("q2", [hit("c", "d2", n)])], k=5)
            for n, name in enumerate("ab", 1)
        ]
    )
    scores = rs.score(results, subset)
    pd.testing.assert_frame_equal(scores, rs.score(results, alone))
    pd.testing.assert_frame_equal(
        summarize(scores, subset, by="tags"), summarize(scores, alone, by="tags")
    )
    assert compare_runs(results, subset, "a", "b").counts == {"loss": 1}
    assert coverage(results, subset).runs["n_missing"].tolist() == [0, 0]


SPAN = {"doc_id": "d", "start": 1, "end": 9, "span_unit": "line"}


@pytest.mark.parametrize("column", ["end", "span_unit"])
@pytest.mark.parametrize("side", ["hits", "targets"])
def test_spans_need_their_end_and_unit(side, column):
    frames = {"hits": hits_of(SPAN), "targets": targets_of(SPAN)}
    frames[side] = frames[side].drop(columns=column)
    with refused(column, "start", "end", "span_unit", field=side):
        rs.match.by_span(frames["hits"], frames["targets"])
    frames[side] = frames[side].assign(start=pd.array([None], dtype="Int64"))
    # no span, nothing amiss
    assert not len(rs.match.by_span(frames["hits"], frames["targets"])[0])


def test_citations_are_not_checked_against_spans_of_no_unit(write_golden, write_run):
    cited = {
        "answer": "text",
        "grounded": True,
        "citations": [{"citation": {"kind": "line", "path": "docs/d.md", "start": 2, "end": 3}}],
    }
    results = rs.load_results(write_run("r", [record("q", [hit("c", "d", 1)], answer=cited)]))
    golden = rs.load_golden(write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["d"]}]))
    assert rs.score(results, golden, ["citation_coverage"])["citation_coverage"].tolist() == [1]
    with refused("span_unit", field="hits"):
        rs.score(
            replace(results, hits=results.hits.drop(columns="span_unit")),
            golden,
            ["citation_coverage"],
        )


@pytest.mark.parametrize(
    ("matches", "field", "named"),
    [
        ([(0, 0)], "odd_rule", ("list", "DataFrame", "hit", "target")),
        (None, "odd_rule", ("None",)),
        (pd.DataFrame({"hit": [0], "doc": [0]}), "odd_rule", ("DataFrame", "hit", "target")),
        (pd.DataFrame({"hit": [0.0], "target": [0]}), "odd_rule.hit", ("float64",)),
        (pd.DataFrame({"hit": ["0"], "target": [0]}), "odd_rule.hit", ("str",)),
        (pd.DataFrame({"hit": [True], "target": [0]}), "odd_rule.hit", ("bool",)),
        (
            pd.DataFrame({"hit": pd.array([0, None], "Int64"), "target": [0, 0]}),
            "odd_rule.hit",
            (1, "NA", 0),  # row, value, highest position
        ),
        (pd.DataFrame({"hit": [0, 1], "target": [0, 0]}), "odd_rule.hit", (1, 0)),
        (pd.DataFrame({"hit": [0], "target": [-1]}), "odd_rule.target", (0, -1, 1)),
    ],
)
def test_a_rule_that_returns_no_matches_frame_is_named(matches, field, named, pair, tmp_path):
    def odd_rule(hits, targets):
        return matches

    odd_rule.__qualname__ = "odd_rule"
    with refused(*named, field=field):
        matched_pairs(
            odd_rule, hits_of({"doc_id": "d"}), targets_of({"doc_id": "d"}, {"doc_id": "e"})
        )


@pytest.mark.parametrize("nothing", [pd.DataFrame(), pd.DataFrame({"hit": [], "target": []})])
def test_an_empty_frame_is_no_match(nothing):
    hits, targets = hits_of({"doc_id": "d"}), targets_of({"doc_id": "d"})
    assert not len(matched_pairs(lambda hits, targets: nothing, hits, targets)[0])


def test_positions_may_be_nullable_whole_numbers():
    pairs = pd.DataFrame({"hit": pd.array([0], "Int64"), "target": pd.array([0], "Int64")})
    hits, targets = hits_of({"doc_id": "x"}), targets_of({"doc_id": "d"})
    hit, target = matched_pairs(lambda hits, targets: pairs, hits, targets)
    assert (hit.tolist(), target.tolist()) == ([0], [0])


def resolved(known, **target):
    golden = resolve_spans(
        golden_of(targets_of({"level": "chunk", "chunk_id": "7", "target_id": "7", **target})),
        known,
    )
    found = golden.targets.reindex(columns=["doc_id", "path", "start", "end", "span_unit"]).astype(
        object
    )
    return found.where(found.notna(), None).iloc[0].tolist()


CHUNK = {"chunk_id": "7", "doc_id": "d", "path": "d.md", "start": 1, "end": 9, "span_unit": "line"}


@pytest.mark.parametrize(
    "ids", [[7, 8], pd.array([7, 8], "Int64"), pd.Series([7, 8], dtype=object)]
)
def test_chunk_ids_that_are_numbers_are_resolved_by_their_text(ids):
    assert resolved(
        pd.DataFrame(
            {
                "chunk_id": ids,
                "doc_id": ["d", "e"],
                "start": [1, 2],
                "end": [9, 9],
                "span_unit": "line",
            }
        )
    ) == ["d", None, 1, 9, "line"]


def test_the_same_span_with_and_without_a_path_is_one_span():
    bare = {name: value for name, value in CHUNK.items() if name != "path"}
    assert resolved(pd.DataFrame([bare, CHUNK])) == ["d", "d.md", 1, 9, "line"]
    assert resolved(
        pd.DataFrame([CHUNK | {"start": None, "end": None, "span_unit": None}, bare])
    ) == ["d", "d.md", 1, 9, "line"]


@pytest.mark.parametrize(
    "other", [{"end": 8}, {"span_unit": "char"}, {"doc_id": "e"}, {"path": "e.md"}]
)
def test_two_spans_of_one_chunk_are_refused(other):
    with refused(1, 7, field="chunk_id"):
        resolved(pd.DataFrame([CHUNK, CHUNK | other]))


def test_a_span_is_taken_whole_or_not_at_all():
    # its own span, of an unknown unit
    assert resolved(pd.DataFrame([CHUNK]), start=100, end=200) == ["d", "d.md", 100, 200, None]
    assert resolved(pd.DataFrame([CHUNK]), path="d.md") == ["d", "d.md", 1, 9, "line"]


@pytest.mark.parametrize("other", [{"doc_id": "e"}, {"path": "e.md"}])
def test_a_chunk_that_its_target_places_elsewhere_is_refused(other):
    with refused(1, 7, field="chunk_id"):
        resolved(pd.DataFrame([CHUNK]), **other)


def test_a_catalogue_without_chunk_ids_is_refused():
    with refused("chunk_id", field="known"):
        resolved(pd.DataFrame({"doc_id": ["d"]}))


@pytest.mark.parametrize(
    ("call", "about"),  # the field, and what else the error names
    [
        (
            lambda results, golden: conform(results.hits, "hit"),
            ("kind", "hit", "hits", "hit_meta"),
        ),
        (
            lambda results, golden: conform(
                pd.concat([results.hits, results.hits[["rank"]]], axis=1), "hits"
            ),
            ("hits", "rank"),
        ),
        (
            lambda results, golden: conform("hits.csv", "hits"),
            ("hits", "str", "DataFrame"),
        ),
        (
            lambda results, golden: targets_at(golden, "docs"),
            ("level", "docs", "chunk", "span"),
        ),
        (lambda results, golden: aggregate(results, golden, None), ("profile",)),
        (lambda results, golden: rs.Results.concat([]), ("parts", "none")),
        (lambda results, golden: rs.score(results, golden, [5]), ("metrics", 5)),
        (lambda results, golden: rs.score(golden, results), ("results", "Golden", "Results")),
        (lambda results, golden: rs.score(results, "golden.yaml"), ("golden", "str", "Golden")),
        (
            lambda results, golden: compare_runs(golden, results, "a", "b"),
            ("results", "Golden", "Results"),
        ),
        (
            lambda results, golden: summarize(golden.queries),
            ("scores", "run_id", "state", "level", "rs.score"),
        ),
        (
            lambda results, golden: summarize(rs.score(results, golden, ["mrr"]), results),
            ("golden", "Results", "Golden"),
        ),
        (
            lambda results, golden: rs.Golden(queries="golden.yaml"),
            ("queries", "str", "DataFrame"),
        ),
    ],
)
def test_what_cannot_be_meant_ends_in_one_clear_error(pair, call, about):
    field, *named = about
    with refused(*named, field=field):
        call(*pair)


def test_a_store_says_what_it_was_given_instead_of_results(pair, tmp_path):
    results, golden = pair
    with refused("Golden", "Results", field="results"):
        rs.RunStore(tmp_path).save(golden, golden=results)
    with refused("Results", "Golden", field="golden"):
        rs.RunStore(tmp_path).save(results, golden=results)
    with refused("Results", "Golden", field="golden"):
        rs.RunStore(tmp_path).refresh(results)


def test_one_label_or_run_may_be_given_as_text(pair):
    results, golden = pair
    pd.testing.assert_frame_equal(
        rs.score(results, golden, "mrr"), rs.score(results, golden, ["mrr"])
    )
    assert compare_runs(results, golden, "a", "b", metrics="mrr").deltas["metric"].tolist() == [
        "mrr"
    ]
    assert results.select("b").runs["run_id"].tolist() == ["b"]


def test_scores_read_back_from_a_file_can_be_summarized(write_golden, write_run, tmp_path):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    scores = rs.score(rs.load_results(write_run("a", RUN_A)), golden, ["mrr"])
    scores.to_csv(tmp_path / "scores.csv")
    again = pd.read_csv(tmp_path / "scores.csv")
    table = summarize(again, golden)
    assert (
        table["mean"].tolist() == pytest.approx([(1 + 1 / 4 + 0) / 3])
        and np.isfinite(table["low"]).all()
    )


@pytest.fixture(scope="module")
def ev():
    """Two runs that find two of three queries."""
    cells = [(run, f"q{n}") for run in "ab" for n in (1, 2, 3)]
    targets = [targets_of({"doc_id": f"d{n}"}, query_id=f"q{n}") for n in (1, 2, 3)]
    golden = golden_of(pd.concat(targets, ignore_index=True))
    queries = golden.queries.assign(difficulty=["easy", "easy", "hard"])
    found = {"q1": "d1", "q2": "d2", "q3": "d1"}
    hits = [hits_of({"doc_id": found[one]}, run_id=run, query_id=one) for run, one in cells]
    results = rs.Results(
        pd.DataFrame({"run_id": ["a", "b"]}),
        pd.DataFrame(cells, columns=["run_id", "query_id"]),
        pd.concat([one.astype({"run_id": "str"}) for one in hits], ignore_index=True),
    )
    return rs.evaluate(results, replace(golden, queries=queries), ["mrr", "hit@1"])


WRONG = {
    "None": None, "a number": 5, "an empty list": [], "a name that isn't there": "nothng",
}  # fmt: skip
# What to call, its arguments, which of them is wrong, and which wrong values have a meaning.
NAMED = [
    ("summary", ["mrr"], {}, 0, ["None"]),
    ("summary", ["mrr"], {}, "by", ["None"]),
    ("slices", ["difficulty"], {}, 0, []),
    ("pivot", ["mrr"], {}, 0, []),
    ("query", ["q1"], {}, 0, []),
    ("query", ["q1"], {}, "runs", ["None", "an empty list"]),
    ("select", [], {}, "runs", ["None", "an empty list"]),
    ("select", [], {}, "queries", ["None"]),
    ("compare", ["a", "b"], {}, 0, []),
    ("compare", ["a", "b", "mrr"], {}, 2, ["None"]),
    ("compare", ["a", "b"], {}, "vary", ["None", "an empty list"]),
    ("compare", ["a", "b"], {}, "allow_different", ["an empty list"]),
    ("leaderboard", ["mrr"], {}, 0, ["None"]),
    ("leaderboard", ["mrr"], {}, "baseline", ["None"]),
    ("repeats", ["hit@1", 1], {}, 0, []),
]


@pytest.mark.filterwarnings("ignore:the candidate pool")  # these runs keep few hits
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    ("verb", "args", "more", "place", "meant"),
    NAMED,
    ids=[f"{verb} {place}" for verb, _, _, place, _ in NAMED],
)
def test_a_wrong_argument_is_one_short_error(ev, verb, args, more, place, meant, wrong):
    given, named = list(args), dict(more)
    if isinstance(place, int):
        given[place] = WRONG[wrong]
    else:
        named[place] = WRONG[wrong]
    if wrong in meant:
        getattr(ev, verb)(*given, **named)
        return
    with pytest.raises(rs.DataError) as caught:
        getattr(ev, verb)(*given, **named)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "about"),  # the field, and what else the error names
    [
        (lambda ev: ev.query("q22"), (ANY, "q22", "q1", "q2")),
        (lambda ev: ev.summary("mrrr"), (ANY, "mrrr", "mrr")),
        (lambda ev: ev.compare("a", "c"), ("run", "c", "a", "b")),
        (lambda ev: ev.select(runs="A"), (ANY, "A", "a", "b")),
        (lambda ev: ev.summary("mrr", by="lange"), ("by", "lange")),
        (
            lambda ev: ev.save("means.json", format="treck"),
            (ANY, "treck", "trec"),
        ),
        (
            lambda ev: rs.evaluate(ev.results, ev.golden, match="docs"),
            ("match", "docs", "auto", "doc"),
        ),
        (
            lambda ev: rs.evaluate(ev.results, ev.golden, mising="zero"),
            (ANY, "mising", "match", "missing"),
        ),
        (
            lambda ev: rs.evaluate(ev.results, ev.golden, primary="mr"),
            ("primary", "mr", "mrr"),
        ),
        (lambda ev: rs.evaluate(ev.golden, ev.results), (ANY, "Results")),
        (
            lambda ev: rs.evaluate(ev.results, ev.golden, rule="doc"),
            ("rule", "str"),
        ),
        (lambda ev: rs.Results.concat("a"), ("parts", "str", "Results")),
        (lambda ev: rs.RunStore(None), ("root", "NoneType")),
        (lambda ev: rs.Golden(None), ("queries", "NoneType", "DataFrame")),
        (lambda ev: rs.Results(ev.results.runs, None), ("responses", "NoneType", "DataFrame")),
        (lambda ev: ev.results.save("x", format=["trec"]), (ANY, "list", "trec")),
        (lambda ev: rs.plot.summary("ev"), (ANY, "str", "ev.summary")),
        (lambda ev: rs.plot.ranks(ev.scores), ("cmp", "DataFrame", "ev.compare")),
        (lambda ev: rs.judging.get_judge("groundness"), (ANY, "groundness", "groundedness")),
    ],
)
def test_a_misspelt_name_or_a_wrong_kind_tells_the_way_on(ev, call, about):
    field, *named = about
    with refused(*named, field=field):
        call(ev)

"""Frames and arguments as people make them in a notebook.

Used where the meaning is clear, else one clear error.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import golden_of, hit, hits_of, record, targets_of

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from ragscore.frames.data import conform
from ragscore.scoring.level import resolve_spans
from ragscore.scoring.rules import matched_pairs
from ragscore.scoring.summary import summarize
from ragscore.scoring.targets import targets_at
from tests.messages import ANY, refused

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
def test_a_rule_that_returns_no_matches_frame_is_named(matches, field, named):
    def odd_rule(hits, targets):
        return matches

    odd_rule.__qualname__ = "odd_rule"
    with refused(*named, field=field):
        matched_pairs(
            odd_rule, hits_of({"doc_id": "d"}), targets_of({"doc_id": "d"}, {"doc_id": "e"})
        )


@pytest.mark.parametrize(
    ("matches", "n"),
    [
        (pd.DataFrame(), 0),
        (pd.DataFrame({"hit": [], "target": []}), 0),
        (pd.DataFrame({"hit": [0], "target": [0]}, dtype="Int64"), 1),
    ],
)
def test_an_empty_frame_is_no_match_and_positions_may_be_nullable(matches, n):
    hits, targets = hits_of({"doc_id": "x"}), targets_of({"doc_id": "d"})
    hit, target = matched_pairs(lambda hits, targets: matches, hits, targets)
    assert (hit.tolist(), target.tolist()) == ([0] * n, [0] * n)


SPOT = ["doc_id", "path", "start", "end", "span_unit"]
CHUNK = {"chunk_id": "7", "doc_id": "d", "path": "d.md", "start": 1, "end": 9, "span_unit": "line"}
WHOLE = ["d", "d.md", 1, 9, "line"]
BARE = {name: value for name, value in CHUNK.items() if name != "path"}
NO_SPAN = CHUNK | {"start": None, "end": None, "span_unit": None}


def resolved(known, target):
    """Where a target of chunk 7 lies, by a catalogue of chunks."""
    targets = targets_of({"level": "chunk", "chunk_id": "7", "target_id": "7", **target})
    found = resolve_spans(golden_of(targets), known).targets.reindex(columns=SPOT).astype(object)
    return found.where(found.notna(), None).iloc[0].tolist()


@pytest.mark.parametrize(
    ("known", "target", "spot"),
    [
        # ids that are numbers go by their text
        (pd.DataFrame([CHUNK | {"chunk_id": 7}, CHUNK | {"chunk_id": 8}]), {}, WHOLE),
        (pd.DataFrame([CHUNK]).assign(chunk_id=pd.array([7], "Int64")), {}, WHOLE),
        (pd.DataFrame([CHUNK]).assign(chunk_id=pd.Series([7], dtype=object)), {}, WHOLE),
        # with and without a path, or a span, it is one
        (pd.DataFrame([BARE, CHUNK]), {}, WHOLE),
        (pd.DataFrame([NO_SPAN, BARE]), {}, WHOLE),
        (pd.DataFrame([CHUNK]), {"path": "d.md"}, WHOLE),
        # its own span, of an unknown unit, is taken whole
        (pd.DataFrame([CHUNK]), {"start": 100, "end": 200}, ["d", "d.md", 100, 200, None]),
    ],
)
def test_a_chunk_is_resolved_to_its_span(known, target, spot):
    assert resolved(known, target) == spot


@pytest.mark.parametrize(
    ("known", "target", "field", "named"),
    [
        *(
            (pd.DataFrame([CHUNK, CHUNK | other]), {}, "chunk_id", (1, 7))
            for other in ({"end": 8}, {"span_unit": "char"}, {"doc_id": "e"}, {"path": "e.md"})
        ),
        (pd.DataFrame([CHUNK]), {"doc_id": "e"}, "chunk_id", (1, 7)),
        (pd.DataFrame([CHUNK]), {"path": "e.md"}, "chunk_id", (1, 7)),
        (pd.DataFrame({"doc_id": ["d"]}), {}, "known", ["chunk_id"]),
    ],
)
def test_two_spans_of_one_chunk_or_a_catalogue_without_chunks_are_refused(
    known, target, field, named
):
    with refused(*named, field=field):
        resolved(known, target)


def test_scores_read_back_from_a_file_can_be_summarized(pair, tmp_path):
    results, golden = pair
    rs.score(results.select("a"), golden, ["mrr"]).to_csv(tmp_path / "scores.csv")
    table = summarize(pd.read_csv(tmp_path / "scores.csv"), golden)
    assert table["mean"].tolist() == pytest.approx([(1 + 1 / 4 + 0) / 3])
    assert np.isfinite(table["low"]).all()


@pytest.fixture(scope="module")
def ev():
    """Two runs that find two of three queries."""
    rows = [
        {"id": f"q{n}", "query": "?", "expected_doc_ids": [f"d{n}"], "difficulty": level}
        for n, level in enumerate(["easy", "easy", "hard"], 1)
    ]
    found = {"q1": ["d1"], "q2": ["d2"], "q3": ["d1"]}
    results = rs.load_results({"a": found, "b": found})
    return rs.evaluate(results, rs.load_golden(rows), ["mrr", "hit@1"])


WRONG = {
    "None": None, "a number": 5, "an empty list": [], "a name that isn't there": "nothng",
}  # fmt: skip
# What to call, its arguments, which of them is wrong, and which wrong values have a meaning.
NAMED = [
    ("summary", ["mrr"], 0, ["None"]),
    ("summary", ["mrr"], "by", ["None"]),
    ("slices", ["difficulty"], 0, []),
    ("pivot", ["mrr"], 0, []),
    ("query", ["q1"], 0, []),
    ("query", ["q1"], "runs", ["None", "an empty list"]),
    ("select", [], "runs", ["None", "an empty list"]),
    ("select", [], "queries", ["None"]),
    ("compare", ["a", "b"], 0, []),
    ("compare", ["a", "b", "mrr"], 2, ["None"]),
    ("compare", ["a", "b"], "vary", ["None", "an empty list"]),
    ("compare", ["a", "b"], "allow_different", ["an empty list"]),
    ("leaderboard", ["mrr"], 0, ["None"]),
    ("leaderboard", ["mrr"], "baseline", ["None"]),
    ("repeats", ["hit@1", 1], 0, []),
]


@pytest.mark.filterwarnings("ignore:the candidate pool")  # these runs keep few hits
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    ("verb", "args", "place", "meant"),
    NAMED,
    ids=[f"{verb} {place}" for verb, _, place, _ in NAMED],
)
def test_a_wrong_argument_is_one_short_error(ev, verb, args, place, meant, wrong):
    given = [WRONG[wrong] if at == place else one for at, one in enumerate(args)]
    named = {} if isinstance(place, int) else {place: WRONG[wrong]}
    if wrong in meant:
        getattr(ev, verb)(*given, **named)
    else:
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
        (lambda ev: conform(ev.results.hits.iloc[:, [0, 1, 1]], "hits"), ("hits", "query_id")),
        (lambda ev: conform("hits.csv", "hits"), ("hits", "str", "DataFrame")),
        (lambda ev: targets_at(ev.golden, "docs"), ("level", "docs", "chunk", "span")),
        (lambda ev: aggregate(ev.results, ev.golden, None), ("profile",)),
        (lambda ev: rs.Results.concat([]), ("parts", "at least one")),
        (lambda ev: rs.score(ev.results, ev.golden, [5]), ("metrics", 5)),
        (lambda ev: rs.score(ev.golden, ev.results), ("results", "Golden", "Results")),
        (lambda ev: rs.score(ev.results, "golden.yaml"), ("golden", "str", "Golden")),
        (lambda ev: rs.Golden(queries="golden.yaml"), ("queries", "str", "DataFrame")),
        (
            lambda ev: rs.RunStore("none").save(ev.golden, golden=ev.results),
            ("results", "Golden", "Results"),
        ),
        (
            lambda ev: rs.RunStore("none").save(ev.results, golden=ev.results),
            ("golden", "Results", "Golden"),
        ),
        (lambda ev: rs.RunStore("none").refresh(ev.results), ("golden", "Results", "Golden")),
    ],
)
def test_a_misspelt_name_or_a_wrong_kind_tells_the_way_on(ev, call, about, tmp_path, monkeypatch):
    field, *named = about
    monkeypatch.chdir(tmp_path)
    with refused(*named, field=field):
        call(ev)

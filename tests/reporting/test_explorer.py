"""The explorer of runs: what it holds is what `ev.query` and `cmp.per_query` say."""

import base64
import gzip
import importlib.util
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, hit, record

import ragscore as rs
from ragscore.reporting.explorer.data import numbers
from ragscore.reporting.explorer.element import pack
from tests.messages import refused, says, warned

DEMO = Path(__file__).parents[2] / "data" / "demo"


def unpacked(explorer):
    """The content of an explorer, as a browser reads it from the page."""
    packed = explorer.to_html().partition('<script type="text/plain">')[2].partition("</script>")[0]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


@pytest.fixture(scope="module")
def demo():
    return rs.evaluate(str(DEMO / "runs" / "*" / "per_query.jsonl"), str(DEMO / "golden.yaml"))


@pytest.fixture(scope="module")
def cmp(demo):
    return demo.compare("dense", "hybrid")


@pytest.fixture(scope="module")
def content(cmp):
    return unpacked(cmp.explore())


def evaluated(golden, runs, write_golden, write_run, **options):
    """An evaluation of runs given as records by run id."""
    files = [write_run(name, records) for name, records in runs.items()]
    return rs.evaluate(rs.load_results(files), rs.load_golden(write_golden(golden)), **options)


def rows_of(content, part, run, query):
    """The rows of a query in a part with one list per run, as dicts."""
    start = content[part]["start"][run]
    return [
        {name: values[run][at] for name, values in content[part].items()
         if name not in ("start", "kind")}
        for at in range(start[query], start[query + 1])
    ]  # fmt: skip


# What it holds


def says_what_compare_says(ev, first):
    told = unpacked(ev.explore(baseline=first))["verdict"]
    others = [run for run in ev.run_ids if run != first]
    assert len(told) == len(others) + 1
    for line, run in zip(told, others, strict=False):
        of_pair = ev.compare(first, run, allow_different=True)
        counts = ", ".join(f"{n} {outcome}" for outcome, n in of_pair.counts.items())
        assert line == f"{run} against {first}: {of_pair.overall}. {counts}."
    return told


def test_it_says_of_each_run_what_compare_says(demo):
    two, against = demo.select(["bm25", "hybrid"]), replace(demo, baseline="bm25")
    for ev, first in ((two, "bm25"), (against, "dense")):
        says_what_compare_says(ev, first)


@pytest.mark.parametrize("more", [[], ["c"]])
def test_zeros_for_queries_that_a_run_was_not_asked_decide_nothing(more):
    ids = [f"q{n}" for n in range(40)]
    lists = {"a": ids, "b": ids[:20]} | dict.fromkeys(more, ids)
    hits = [(run, one, 1, "right") for run, asked in lists.items() for one in asked]
    results = rs.load_results(pd.DataFrame(hits, columns=["run_id", "query_id", "rank", "doc_id"]))
    golden = rs.load_golden(pd.DataFrame({"query_id": ids, "query": ids, "doc_id": "right"}))
    ev = rs.evaluate(results, golden, missing="zero")
    told = says_what_compare_says(ev, "a")
    assert told[0] == "b against a: can't tell. 20 draw, 20 only_baseline."
    assert not any("worse" in one for one in (*told, repr(ev)))


def test_it_warns_of_judges_that_differ():
    ids = [f"q{n}" for n in range(4)]
    hits = [(run, one, 1, "right") for run in "abc" for one in ids]
    results = rs.load_results(pd.DataFrame(hits, columns=["run_id", "query_id", "rank", "doc_id"]))
    golden = rs.load_golden(pd.DataFrame({"query_id": ids, "query": ids, "doc_id": "right"}))
    judged = pd.DataFrame({
        "run_id": np.repeat(["a", "b", "c"], 4), "query_id": ids * 3, "value": 0.5, "item": "",
        "criterion": "faithfulness", "judge": np.repeat(["one", "other", "one"], 4),
    })  # fmt: skip
    ev = rs.evaluate(replace(results, judgments=judged), golden, primary=["faithfulness", "mrr@10"])
    with warned("judge_fingerprint"):
        ev.explore()


def test_queries_of_the_demo_have_the_hits_targets_and_checks_of_its_view(demo, content):
    runs = [one["id"] for one in content["runs"]]
    assert runs == ["dense", "hybrid"]
    for query, query_id in [*enumerate(content["queries"]["id"])][::20]:
        view = demo.query(query_id, runs)
        here = slice(*content["targets"]["start"][query : query + 2])
        names = content["targets"]["name"][here]
        shown = {
            "target_id": names,
            "grade": content["targets"]["grade"][here],
            "alternatives": content["targets"]["others"][here],
        } | {run: content["targets"]["rank"][at][here] for at, run in enumerate(runs)}
        for name in view.targets:
            expected = [None if pd.isna(one) else one for one in view.targets[name]]
            assert shown[name] == expected
        for at, run in enumerate(runs):
            hits = view.hits[view.hits["run_id"] == run].to_dict("records")
            own = rows_of(content, "hits", at, query)
            assert [content["items"]["id"][one["item"]] for one in own] == [
                one["id"] for one in hits
            ]
            assert [one["rank"] for one in own] == [one["rank"] for one in hits]
            assert [one["grade"] for one in own] == [
                None if pd.isna(one["grade"]) else one["grade"] for one in hits
            ]
            assert [{names[number] for number in one["target"]} for one in own] == [
                set(filter(None, one["target"].split(", "))) for one in hits
            ]
            assert np.allclose([one["score"] for one in own], [one["score"] for one in hits], 1e-5)
        checks = slice(*content["checks"]["start"][query : query + 2])
        assert content["checks"]["text"][checks] == view.checks["text"].tolist()
        assert content["queries"]["refuse"][query] == view.should_refuse


def test_every_query_of_the_demo_has_its_outcome_ranks_and_scores(demo, cmp, content):
    per_query = cmp.per_query.set_index("query_id").reindex(content["queries"]["id"])
    words = content["outcomes"]
    assert [words[code] for code in content["queries"]["outcome"][1]] == per_query[
        "outcome"
    ].tolist()
    assert set(content["queries"]["outcome"][0]) == {-1}, "the baseline has none"
    for at, side in enumerate(("rank_baseline", "rank_candidate")):
        expected = [None if pd.isna(one) else one for one in per_query[side]]
        assert content["queries"]["first"][at] == expected
    for at, metric in enumerate(content["metrics"]):
        for run, name in enumerate(("dense", "hybrid")):
            values = demo.pivot(metric["name"])[name].reindex(per_query.index)
            own = pd.Series(content["queries"]["metric"][at][run], dtype="float64")
            assert np.allclose(own, values, rtol=1e-5, equal_nan=True), metric
    assert [one["name"] for one in content["metrics"] if one["primary"]] == list(cmp.primary)


def test_every_answer_of_the_demo_cites_what_its_citations_name(demo, content):
    citations = demo.results.citations.sort_values(["query_id", "position"])
    for run, run_id in enumerate(("dense", "hybrid")):
        own = citations[citations["run_id"] == run_id]
        cited = own.groupby("query_id")["chunk_id"].agg(list).to_dict()
        for query, query_id in enumerate(content["queries"]["id"]):
            rows = rows_of(content, "citations", run, query)
            assert [content["items"]["id"][one["item"]] for one in rows] == cited.get(query_id, [])


def test_the_size_of_a_change_is_the_largest_difference_of_a_primary_metric(demo, cmp, content):
    differences = [
        (demo.pivot(name)["hybrid"] - demo.pivot(name)["dense"]).abs() for name in cmp.primary
    ]
    largest = pd.concat(differences, axis=1).max(axis=1).reindex(content["queries"]["id"])
    # ties differ by a millionth of the change in reciprocal rank
    assert np.allclose(content["queries"]["change"][1], largest, atol=2e-6)


def test_several_runs_have_the_outcomes_of_their_comparisons_with_the_baseline(demo):
    content = unpacked(demo.explore(runs=["bm25", "hybrid", "dense"], baseline="dense"))
    assert [(one["id"], one["role"]) for one in content["runs"]] == [
        ("dense", "baseline"), ("bm25", "candidate"), ("hybrid", "candidate"),
    ]  # fmt: skip
    for run, name in ((1, "bm25"), (2, "hybrid")):
        outcomes = demo.compare("dense", name).per_query.set_index("query_id")["outcome"]
        own = [content["outcomes"][code] for code in content["queries"]["outcome"][run]]
        assert own == outcomes.reindex(content["queries"]["id"]).tolist()


def test_one_run_has_no_outcome(demo):
    content = unpacked(demo.explore(runs="bm25"))
    assert [(one["id"], one["role"]) for one in content["runs"]] == [("bm25", None)]
    assert set(content["queries"]["outcome"][0]) == {-1}


# Runs that lack something


def test_a_failed_query_has_its_error_and_no_answer(write_golden, write_run):
    failed = [record("q1", [], error="timed out"), *RUN_B[1:]]
    ev = evaluated(THREE_QUERIES, {"a": RUN_A, "b": failed}, write_golden, write_run)
    content = unpacked(ev.compare("a", "b").explore())
    assert content["answers"]["error"] == [[None] * 3, ["timed out", None, None]]
    assert "text" not in content["answers"], "no run has answers"


def test_queries_that_no_run_was_asked_are_counted(write_golden, write_run):
    ev = evaluated(THREE_QUERIES, {"a": RUN_A[:2]}, write_golden, write_run, missing="zero")
    explorer = ev.explore()
    assert unpacked(explorer)["queries"]["id"] == ["q1", "q2"]
    says("\n".join(explorer.left_out), 1, "queries")


def test_a_query_that_one_run_was_not_asked_has_no_hits_there(write_golden, write_run):
    ev = evaluated(
        THREE_QUERIES, {"a": RUN_A, "b": RUN_B[:2]}, write_golden, write_run, missing="zero"
    )
    content = unpacked(ev.explore())
    assert content["outcomes"][content["queries"]["outcome"][1][2]] == "only_baseline"
    assert rows_of(content, "hits", 1, 2) == []


def test_texts_come_from_a_frame_where_hits_kept_none(demo, cmp):
    chunk = demo.results.hits["chunk_id"].iloc[0]
    texts = pd.DataFrame({"chunk_id": [chunk], "text": ["words of the passage"]})
    items = unpacked(demo.explore(runs=["bm25"], texts=texts))["items"]
    assert items["text"][items["id"].index(chunk)] == "words of the passage"
    assert "cmp.explore(texts=frame)" in cmp.explore().left_out[0]


def test_one_id_with_two_texts_stands_there_twice(write_golden, write_run):
    runs = {
        name: [record("q1", [hit("c1", "d1", 1, snippet=text)])]
        for name, text in (("a", "old words"), ("b", "new words"))
    }
    ev = evaluated(THREE_QUERIES[:1], runs, write_golden, write_run)
    items = unpacked(ev.explore())["items"]
    assert items["id"] == ["c1", "c1"] and items["text"] == ["old words", "new words"]


def test_a_snippet_is_marked_where_a_browser_finds_it(write_golden, write_run):
    golden = [
        {
            "id": "q1",
            "query": "?",
            "gold_supports": [{"path": "docs/d1.md", "snippets": ["The Answer"]}],
        }
    ]
    text = "😀 here is the answer."  # an emoji takes two units in a browser
    ev = evaluated(
        golden, {"a": [record("q1", [hit("c1", "d1", 1, snippet=text)])]}, write_golden, write_run
    )
    content = unpacked(ev.explore())
    begin, end = content["hits"]["span"][0][0]
    units = content["items"]["text"][0].encode("utf-16-le")
    assert units[2 * begin : 2 * end].decode("utf-16-le") == "the answer"


def test_lines_of_a_span_are_marked_in_a_text_of_whole_lines():
    golden = rs.Golden(
        queries=pd.DataFrame({"query_id": ["q"]}),
        targets=pd.DataFrame(
            {"query_id": ["q"], "level": "doc", "target_id": "t", "doc_id": "d", "start": 11,
             "end": 13, "span_unit": "line"}
        ),
    )  # fmt: skip
    results = rs.Results(
        runs=pd.DataFrame({"run_id": ["a"]}),
        responses=pd.DataFrame({"run_id": ["a"], "query_id": ["q"]}),
        hits=pd.DataFrame(
            {"run_id": ["a"], "query_id": ["q"], "rank": [1], "doc_id": ["d"], "start": [10],
             "end": [13], "span_unit": "line", "text": ["first\nsecond\nthird"]}
        ),
    )  # fmt: skip
    content = unpacked(rs.evaluate(results, golden, match="span").explore())
    begin, end = content["hits"]["span"][0][0]
    assert "first\nsecond\nthird"[begin:end] == "second\nthird"


def test_an_answer_meets_what_it_must_contain_and_must_not(write_golden, write_run):
    golden = [THREE_QUERIES[0] | {"must_contain": ["yes"], "forbidden": ["never"]}]
    runs = {
        name: [RUN_A[0] | {"answer": answer(text)}]
        for name, text in (("a", "yes"), ("b", "never"), ("c", "yes, never"))
    }
    ev = evaluated(golden, runs, write_golden, write_run)
    assert unpacked(ev.explore())["checks"]["met"] == [[True, True], [False, False], [True, False]]


def test_a_cited_passage_that_is_no_hit_is_there_too(write_golden, write_run):
    said = [RUN_A[0] | {"answer": answer("see", paths=["docs/d1.md", "docs/other.md"])}]
    ev = evaluated(THREE_QUERIES[:1], {"a": said}, write_golden, write_run)
    content = unpacked(ev.explore())
    (cited, other) = rows_of(content, "citations", 0, 0)
    assert content["items"]["id"][cited["item"]] == "c1"
    assert (other["item"], other["label"]) == (-1, "docs/other.md 2–3")


# What to open with


def test_an_explorer_opens_with_what_a_copied_link_names(cmp):
    state = cmp.explore("pd-014", outcome="regression", search="csv").state
    assert state == {"query": "pd-014", "outcome": ["regression"], "search": "csv"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"query": "pd014"}, ["pd014", "pd-014"]),
        ({"outcome": ["wins"]}, ["wins", "win"]),
        ({"by": "dificulty"}, ["dificulty", "difficulty"]),
        ({"texts": "texts.parquet"}, ["str"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(cmp, options, named):
    with refused(*named, field=next(iter(options))):
        cmp.explore(**options)


def test_outcomes_need_two_runs(demo):
    with refused("run", field="outcome"):
        demo.explore(runs="bm25", outcome="win")


def test_a_comparison_from_json_says_what_it_needs(cmp):
    again = rs.Comparison.from_json(cmp.to_json())
    with refused("hits", "answers", "compare(", field="results"):
        again.explore()


# Bytes


def test_equal_frames_give_equal_bytes(demo, cmp):
    again = rs.evaluate(str(DEMO / "runs" / "*" / "per_query.jsonl"), str(DEMO / "golden.yaml"))
    assert again.compare("dense", "hybrid").explore()._repr_html_() == cmp.explore()._repr_html_()


def test_half_a_character_is_shown_as_unknown():
    packed = pack({"text": "a\ud800b 😀"})
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == {"text": "a\ufffdb 😀"}


@pytest.fixture
def wordy(write_golden, write_run):
    """A comparison of 40 queries with long texts, of which every fourth is a win."""
    draw = random.Random(0)
    golden = [{"id": f"q{n}", "query": "?", "expected_doc_ids": [f"d{n}"]} for n in range(40)]
    runs = {"a": [], "b": []}
    for n in range(40):
        texts = [f"{draw.getrandbits(4000):x}" for _ in range(2)]
        hits = [(f"c{n}", f"d{n}", texts[0]), (f"x{n}", f"x{n}", texts[1])]
        for name, order in (("a", hits[::-1] if n % 4 == 0 else hits), ("b", hits)):
            listed = [hit(chunk, doc, rank, snippet=text)
                      for rank, (chunk, doc, text) in enumerate(order, 1)]  # fmt: skip
            runs[name].append(record(f"q{n}", listed, answer=answer(texts[0])))
    return evaluated(golden, runs, write_golden, write_run).compare("a", "b")


def test_of_many_queries_the_one_asked_for_and_those_that_changed_most_are_there(wordy):
    """Every fourth query is a win; of these those with the largest change are first in the file."""
    whole, cut = wordy.explore(), wordy.explore("q1", max_queries=4)
    every, content = unpacked(whole), unpacked(cut)
    assert content["queries"]["id"] == ["q0", "q1", "q4", "q8"]
    assert whole.left_out == () and cut.left_out == tuple(content["left_out"])
    says(cut.left_out[0], 4, 40, "cmp.explore(max_queries=40)")
    places = [every["queries"]["id"].index(query) for query in content["queries"]["id"]]
    for name in ("outcome", "change", "note", "first"):
        for mine, theirs in zip(content["queries"][name], every["queries"][name], strict=True):
            assert mine == [theirs[at] for at in places]
    for run in (0, 1):
        texts = every["answers"]["text"][run]
        assert content["answers"]["text"][run] == [texts[at] for at in places]
        for mine, theirs in enumerate(places):
            ours, others = (
                [one["items"]["text"][row["item"]] for row in rows_of(one, "hits", run, at)]
                for one, at in ((content, mine), (every, theirs))
            )
            assert ours == others
    with refused(0, field="max_queries"):
        wordy.explore(max_queries=0)


def test_numbers_are_those_of_their_text():
    draw = np.random.default_rng(0)
    values = np.concatenate(
        [
            draw.random(5_000), draw.normal(size=5_000) * 10 ** draw.uniform(-30, 30, 5_000),
            np.round(draw.random(5_000), 3), draw.integers(0, 10**8, 5_000) / 1e7,
            10.0 ** np.arange(-30, 30), np.nextafter(10.0 ** np.arange(-30, 30), 0),
            [0.0, -0.0, 0.1234565, 1.000005, 999999.5, 1234565, 5e-324, np.nan, np.inf, -np.inf],
        ]
    )  # fmt: skip
    plain = [float(f"{one:.6g}") if np.isfinite(one) else None for one in values.tolist()]
    assert list(map(repr, numbers(values))) == list(map(repr, plain))


# Files


def test_a_page_of_its_own_is_written(cmp, tmp_path):
    page = cmp.explore().write(tmp_path / "explorer.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "//" not in page.partition("<body>")[0]
    with refused(".md", ".html", field="path"):
        cmp.explore().write(tmp_path / "explorer.md")


# Back to Python

needs_widget = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("anywidget", "ipywidgets")),
    reason="anywidget and ipywidgets are not installed",
)


def select(explorer, **state):
    """Select as the explorer's frame in a notebook does."""
    from ragscore.reporting.explorer.widget import bridge

    bridge(explorer.frame_name).state = state


@needs_widget
def test_the_selected_hit_comes_back_as_a_frame(demo, cmp):
    explorer = cmp.explore("pd-002")
    assert not len(explorer.selected), "nothing was shown"
    select(explorer, query="pd-014", run="hybrid", hit={"run": "dense", "rank": 2})
    (row,) = explorer.selected.to_dict("records")
    hits = demo.results.hits.query("run_id == 'dense' and query_id == 'pd-014' and rank == 2")
    assert (row["query_id"], row["outcome"]) == ("pd-014", "regression")
    assert (row["run_id"], row["rank"]) == ("dense", 2)
    assert row["chunk_id"] == hits["chunk_id"].item() and row["doc_id"] == hits["doc_id"].item()


@needs_widget
@pytest.mark.parametrize("state", [{}, {"query": "pd-999"}, {"query": ["pd-014"]}])
def test_a_frame_can_select_only_what_is_there(cmp, state):
    explorer = cmp.explore("pd-003")
    select(explorer, **state)
    assert not len(explorer.selected)


@needs_widget
@pytest.mark.parametrize("hit", [None, {"run": "nobody", "rank": 1}, {"run": "dense", "rank": "1"}])
def test_a_hit_that_is_not_there_is_no_hit(cmp, hit):
    explorer = cmp.explore("pd-004")
    select(explorer, query="pd-014", run={"a": 1}, hit=hit)
    (row,) = explorer.selected.to_dict("records")
    assert row["query_id"] == "pd-014" and pd.isna(row["run_id"]) and pd.isna(row["rank"])


@needs_widget
def test_labelling_opens_at_the_selected_query(write_golden, write_run):
    others = [hit(f"x{n}", "dx", n, snippet=f"words of {n}") for n in (1, 2, 3)]
    runs = {"a": [RUN_A[0], record("q2", others), RUN_A[2]], "b": RUN_B}
    explorer = evaluated(THREE_QUERIES, runs, write_golden, write_run).explore()
    file = write_golden(THREE_QUERIES)
    with refused(field="label"):
        explorer.label(file)
    select(explorer, query="q2", hit={"run": "a", "rank": 3})
    assert explorer.label(file).session.query_id == "q2"
    select(explorer, query="q3", hit=None)
    assert explorer.label(file).session.query_id == "q3"
    select(explorer, query="q1", hit={"run": "a", "rank": 1})
    assert explorer.label(file).session.query_id == "q1"


def test_without_anywidget_only_the_selection_is_missing(cmp, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "ragscore.reporting.explorer.widget", raising=False)
    explorer = cmp.explore()
    assert set(explorer._repr_mimebundle_()) == {"text/plain", "text/html"}
    with refused("anywidget", "pip install", "'.[lab]'", field="selected"):
        explorer.selected  # noqa: B018


# Calls and turns


def of_calls(**options):
    """An evaluation of two runs whose query q has four calls and two."""
    results = rs.load_results({
        "A": {"q": [["a", "b"], ["x", "a"], [], ["t", "b", "u"]], "one": [["z"]]},
        "B": {"q": [["u", "t"], ["b"]], "one": [["y"]]},
    })  # fmt: skip
    calls = results.calls.assign(query="what?", tool="search", elapsed_ms=5.0, error=None)
    calls.loc[2, "error"] = "timed out"
    golden = rs.load_golden({"q": {"t": 1, "b": 1, "w": 1}, "one": {"z": 1}})
    return rs.evaluate(replace(results, calls=calls.astype({"error": "str"})), golden, **options)


def test_calls_have_their_hits_ranks_repeats_and_what_they_asked():
    content = unpacked(of_calls().explore(runs="A"))
    query = content["queries"]["id"].index("q")
    hits = rows_of(content, "hits", 0, query)
    ids = content["items"]["id"]
    assert [[one["call"], one["place"], ids[one["item"]], one["repeats"]] for one in hits] == [
        [1, 1, "a", None], [1, 2, "b", None], [2, 1, "x", None], [2, 2, "a", 1],
        [4, 1, "t", None], [4, 2, "b", 1], [4, 3, "u", None],
    ]  # fmt: skip
    assert [one["rank"] for one in hits] == [1, 2, 3, 4, 5, 6, 7], "a hit keeps its name"
    calls = rows_of(content, "calls", 0, query)
    assert [one["n_hits"] for one in calls] == [2, 2, 0, 3]
    assert calls[2]["error"] == "timed out" and calls[0]["error"] is None
    assert (calls[1]["asked"], calls[1]["tool"], calls[1]["elapsed_ms"]) == ("what?", "search", 5)
    here = slice(*content["targets"]["start"][query : query + 2])
    places = zip(*(content["targets"][name][0][here] for name in ("call", "rank")), strict=True)
    assert dict(zip(content["targets"]["name"][here], places, strict=True)) == {
        "t": (4, 1), "b": (1, 2), "w": (None, None),
    }  # fmt: skip
    assert content["queries"]["first"][0][query] == 1, "t is first in its call"


def test_the_explorer_shows_all_calls_and_which_ones_the_policy_reads():
    content = unpacked(of_calls(calls="first").explore(runs="A"))
    query = content["queries"]["id"].index("q")
    calls = rows_of(content, "calls", 0, query)
    assert [one["is_read"] for one in calls] == [True, False, False, False]
    assert len(rows_of(content, "hits", 0, query)) == 7
    here = slice(*content["targets"]["start"][query : query + 2])
    found = dict(
        zip(content["targets"]["name"][here], content["targets"]["call"][0][here], strict=True)
    )
    assert found == {"t": None, "b": 1, "w": None}
    assert content["queries"]["first"][0][query] == 2


def test_the_calls_of_the_explorer_are_those_of_the_report():
    ev = of_calls()
    content, report = unpacked(ev.explore()), ev.calls()
    query = content["queries"]["id"].index("q")
    for run, run_id in enumerate(("A", "B")):
        of_report = report.per_query.query(f"run_id == '{run_id}' and query_id == 'q'")
        assert len(rows_of(content, "calls", run, query)) == of_report["n_calls"].item()
        repeats = [one["repeats"] for one in rows_of(content, "hits", run, query)]
        assert len(repeats) - repeats.count(None) == of_report["n_repeated"].item()


def test_collapsed_lists_of_calls_keep_what_each_call_had():
    table = pd.DataFrame(
        [("q", 1, "c1", "d1"), ("q", 1, "c2", "d1"), ("q", 2, "c1", "d1"), ("q", 2, "c3", "d2")],
        columns=["query_id", "call", "chunk_id", "doc_id"],
    ).assign(rank=[1, 2, 1, 2])
    ev = rs.evaluate(rs.load_results(table), {"q": {"d2": 1}}, match="doc", collapse="doc")
    content = unpacked(ev.explore())
    hits = rows_of(content, "hits", 0, 0)
    ids = content["items"]["id"]
    assert [[one["call"], one["place"], ids[one["item"]], one["repeats"]] for one in hits] == [
        [1, 1, "c1", None], [2, 1, "c1", 1], [2, 2, "c3", None],
    ]  # fmt: skip


def test_results_without_calls_or_conversations_hold_nothing_of_them(content):
    assert not {"calls", "judgments"} & set(content)
    assert not {"call", "place", "repeats"} & set(content["hits"])
    assert "call" not in content["targets"] and "turn" not in content["queries"]


def test_turns_name_their_conversation_and_are_a_filter():
    with warned("1 query of 4"):
        golden = rs.load_golden(
            {"c1_2": ["a"], "c1_1": ["b"], "c2_1": ["c"], "alone": ["d"]},
            turns="(?P<conversation>c[0-9])_(?P<turn>[0-9]+)",
        )
    run = {one: ["a"] for one in ("c1_2", "c1_1", "c2_1", "alone", "extra")}
    content = unpacked(rs.evaluate(run, golden).explore())
    queries = content["queries"]
    turns = zip(queries["conversation"], queries["turn"], strict=True)
    assert dict(zip(queries["id"], turns, strict=True)) == {
        "c1_2": ("c1", 2), "c1_1": ("c1", 1), "c2_1": ("c2", 1), "alone": (None, None),
        "extra": (None, None),
    }  # fmt: skip
    assert ["conversation", ["c1", "c2", "(none)"]] in [
        [one["name"], one["values"]] for one in content["slices"]
    ]


def test_a_run_looks_alike_in_plots_and_explorers(demo):
    ev = replace(demo, baseline="dense")
    drawn = {str(one.get_label()): one.lines[0].get_color() for one in ev.plot("hit@5").containers}
    content = unpacked(ev.select(["hybrid", "dense"]).explore())
    colours = {run["id"]: run["colour"] for run in content["runs"]}
    assert colours == {run: drawn[run] for run in ("hybrid", "dense")}

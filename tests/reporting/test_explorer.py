"""The explorer of runs: what it holds is what `ev.query` and `cmp.per_query` say."""

import base64
import gzip
import html
import importlib.util
import json
import sys

import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, hit, record

import ragscore as rs
from ragscore.reporting.explorer.element import pack
from tests.hostile import HOSTILE
from tests.messages import refused, says


def unpacked(explorer):
    """The content of an explorer, as a browser reads it from the page."""
    packed = explorer.to_html().partition('<script type="text/plain">')[2].partition("</script>")[0]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def shown(content, hit):
    """The id of the passage that a hit shows."""
    return content["items"][hit["item"]]["id"]


@pytest.fixture(scope="module")
def demo(demo):
    """Every fourth query of the demo, and two more."""
    ids = demo.golden.queries["query_id"]
    return demo.select(queries=[*{*ids[::4], "pd-002", "pd-014"}])


@pytest.fixture(scope="module")
def cmp(demo):
    return demo.compare("dense", "hybrid")


@pytest.fixture(scope="module")
def explorer(cmp):
    return cmp.explore()


@pytest.fixture(scope="module")
def content(explorer):
    return unpacked(explorer)


@pytest.fixture(scope="module")
def few(demo):
    """Twenty queries of the demo."""
    return demo.select(queries=demo.golden.queries["query_id"].head(20).tolist())


@pytest.fixture(scope="module")
def three(demo):
    """What the demo's runs hold against one of them."""
    return unpacked(demo.explore(runs=["bm25", "hybrid", "dense"], baseline="dense"))


# What it holds


def test_a_comparison_says_its_word_and_runs_only_count(cmp, content, three):
    counts = ", ".join(f"{n} {outcome}" for outcome, n in cmp.counts.items())
    assert content["verdict"][0] == f"hybrid against dense: {cmp.overall}. {counts}."
    assert f"hybrid against dense: {counts}." in three["verdict"] and len(three["verdict"]) == 3


def known(values):
    """Values as JSON has them: None where there is none."""
    return [None if pd.isna(one) else one for one in values]


def test_queries_of_the_demo_have_the_hits_targets_and_checks_of_its_view(demo, content):
    runs = [one["id"] for one in content["runs"]]
    for query in content["queries"][::9]:
        view, targets = demo.query(query["id"], runs), query["targets"]
        columns = ["target_id", "grade", "alternatives", *runs]
        assert [
            [one["name"], one["grade"], one.get("others", ""), *one["places"]] for one in targets
        ] == [known(row) for row in view.targets[columns].to_numpy()]
        names = [[targets[at]["name"] for at in one.get("targets", [])]
                 for run in query["runs"] for one in run["hits"]]  # fmt: skip
        assert [", ".join(sorted(one)) for one in names] == [
            ", ".join(sorted(text.split(", "))) for text in view.hits["target"]
        ]
        found = [[one["rank"], shown(content, one), one["score"], one.get("grade")]
                 for run in query["runs"] for one in run["hits"]]  # fmt: skip
        rows = view.hits[["rank", "id", "score", "grade"]]
        assert found == [known(row) for row in rows.to_numpy()]
        assert [one["text"] for one in query["checks"]] == view.checks["text"].tolist()
        assert query["refuse"] == view.should_refuse


def test_every_query_of_the_demo_has_its_scores(demo, cmp, content):
    ids = [one["id"] for one in content["queries"]]
    assert not any("outcome" in one["runs"][0] for one in content["queries"]), "the baseline's"
    assert [one["name"] for one in content["metrics"] if one["primary"]] == list(cmp._primary)
    for run, name in enumerate(("dense", "hybrid")):
        sides = [one["runs"][run] for one in content["queries"]]
        for at, metric in enumerate(content["metrics"]):
            values = demo.pivot(metric["name"])[name].reindex(ids)
            assert [one["metrics"][at] for one in sides] == known(values), metric


def test_several_runs_have_the_outcomes_of_their_comparisons_with_the_baseline(demo, three):
    assert [one["id"] for one in three["runs"]] == ["dense", "bm25", "hybrid"]
    for run, name in ((1, "bm25"), (2, "hybrid")):
        outcomes = demo.compare("dense", name).per_query.set_index("query_id")["outcome"]
        for one in three["queries"]:
            assert one["runs"][run]["outcome"] == outcomes[one["id"]]


# The one order of reading


def test_what_is_read_first_is_the_same_in_python_and_on_the_page(explorer, content):
    order = explorer.order
    on_page = [one for one in content["queries"] if "order" in one["runs"][1]]
    on_page.sort(key=lambda one: one["runs"][1]["order"])
    rows = [[one["id"], one["runs"][1]["change"]] for one in on_page]
    assert rows == order[["query_id", "change"]].head(len(rows)).to_numpy().tolist()
    assert order["change"].iloc[len(rows) :].eq("").all()


def test_each_change_shows_what_it_is_sorted_by():
    golden = rs.load_golden({one: {"t": 1, "u": 1} for one in ("same", "deep", "gone", "up")})
    runs = {
        "a": {"same": ["t", "u"], "deep": ["t", "u"], "gone": ["x", "t"], "up": ["x", "t"]},
        "b": {"same": ["t", "u"], "deep": ["t", "x"], "gone": ["x"], "up": ["t"]},
    }
    order = rs.evaluate(runs, golden, primary="recall@10").compare("a", "b").explore().order
    assert order[["query_id", "outcome", "change"]].to_numpy().tolist() == [
        ["gone", "regression", "2 → miss"],
        ["deep", "draw", "recall@10 −0.50"],  # one of its two targets is lost
        ["up", "win", "2 → 1"],
        ["same", "draw", ""],
    ]


def test_one_run_begins_with_what_it_should_have_refused_then_its_lowest_values(demo):
    order = demo.explore(runs="bm25").order
    scores = demo.scores.query("run_id == 'bm25'")
    is_answered = scores["answered_unanswerable"] == 1
    ids = [*scores.index[is_answered], *scores["ndcg@10"].dropna().sort_values(kind="stable").index]
    assert order["query_id"].head(len(ids)).tolist() == ids
    assert order["change"].iloc[[0, int(is_answered.sum())]].tolist() == [
        "answered", "ndcg@10 0.00",
    ]  # fmt: skip


# Runs that lack something


def explored(of):
    return unpacked(rs.evaluate(*of, missing="zero").explore())


def test_queries_that_failed_or_were_not_asked_say_so(loaded):
    runs = {"a": RUN_A, "b": [record("q1", [], error="timed out"), RUN_B[1]]}
    content = explored(loaded(THREE_QUERIES, runs))
    first, second, third = (one["runs"] for one in content["queries"])
    assert first[1]["error"] == "timed out" and "answer" not in first[1]
    assert not any("error" in run for run in (first[0], *second, *third))
    assert third[1]["outcome"] == "only_baseline" and "hits" not in third[1]
    alone = rs.evaluate(*loaded(THREE_QUERIES, {"c": RUN_A[:2]}), missing="zero").explore()
    assert [one["id"] for one in unpacked(alone)["queries"]] == ["q1", "q2"]
    says("\n".join(alone.left_out), 1, "queries")


def test_texts_come_from_a_frame_where_hits_kept_none(few, explorer):
    chunk = few.results.hits["chunk_id"].iloc[0]
    texts = pd.DataFrame({"run_id": ["other", few.run_ids[0]], "chunk_id": chunk})
    texts["text"] = ["words of another", "words of the passage"]
    items = unpacked(few.explore(runs=[few.run_ids[0]], texts=texts))["items"]
    assert [one["text"] for one in items if one["id"] == chunk] == ["words of the passage"]
    assert "cmp.explore(texts=frame)" in explorer.left_out[0]


def test_one_id_with_two_texts_stands_there_twice(loaded):
    runs = {
        name: [record("q1", [hit("c1", "d1", 1, snippet=text)])]
        for name, text in (("a", "old words"), ("b", "new words"))
    }
    items = explored(loaded(THREE_QUERIES[:1], runs))["items"]
    assert [(one["id"], one["text"]) for one in items] == [("c1", "old words"), ("c1", "new words")]


def test_an_answer_has_its_checks_and_what_it_cites_with_lines_as_people_count(loaded):
    golden = [THREE_QUERIES[0] | {"must_contain": ["yes"], "forbidden": ["never"]}]
    cited = answer("yes", paths=["docs/d1.md", "docs/other.md"])
    said = {"a": cited, "b": answer("never"), "c": answer("yes, never")}
    runs = {name: [RUN_A[0] | {"answer": one}] for name, one in said.items()}
    (query,) = explored(loaded(golden, runs))["queries"]
    assert [one["met"] for one in query["checks"]] == [[True, False, True], [True, False, False]]
    cites = query["runs"][0]["citations"]
    assert [one["path"] for one in cites] == ["docs/d1.md", "docs/other.md"]
    assert cites[1]["label"] == "docs/other.md 2–3"


# What to open with


def test_an_explorer_opens_with_what_a_call_names(cmp):
    state = cmp.explore("pd-014", outcome="regression", search="csv").state
    assert state == {"query": "pd-014", "outcome": ["regression"], "search": "csv"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"query": "pd014"}, ["pd014", "pd-014"]),
        ({"outcome": ["wins"]}, ["wins", "win"]),
        ({"by": "dificulty"}, ["dificulty", "difficulty"]),
        ({"texts": "texts.parquet"}, ["str"]),
        ({"max_queries": 0}, [0]),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(cmp, options, named):
    with refused(*named, field=next(iter(options))):
        cmp.explore(**options)


def test_what_has_no_outcomes_or_no_hits_says_what_it_needs(demo, cmp):
    with refused("run", field="outcome"):
        demo.explore(runs="bm25", outcome="win")
    with refused("hits", "answers", "compare(", field="scores"):
        rs.Comparison.from_json(cmp.to_json()).explore()


def test_of_many_queries_the_one_asked_for_and_those_that_changed_most_are_there(
    cmp, explorer, content
):
    asked = explorer.order["query_id"].iloc[-1]
    cut = cmp.explore(asked, max_queries=4)
    n = len(content["queries"])
    says(cut.left_out[-1], 4, n, "changed most", f"cmp.explore(max_queries={n})")
    less, whole = unpacked(cut), {one["id"]: one for one in content["queries"]}
    ids = {one["id"] for one in less["queries"]}
    assert ids == {*cut.order["query_id"]} == {asked, *explorer.order["query_id"].head(3)}
    for one in less["queries"]:
        for mine, theirs in zip(one["runs"], whole[one["id"]]["runs"], strict=True):
            found = [shown(less, row) for row in mine.pop("hits")]
            assert found == [shown(content, row) for row in theirs["hits"]]
            for name in ("outcome", "change", "metrics", "answer"):
                assert mine.get(name) == theirs.get(name)


# Bytes and texts


def test_equal_frames_give_equal_bytes(few):
    one, other = (
        rs.evaluate(few.results, few.golden, ["mrr@10"]).compare("dense", "hybrid").explore()
        for _ in range(2)
    )
    assert one._repr_html_() == other._repr_html_()


def test_no_text_of_a_file_is_markup_and_none_is_lost():
    texts = {f"{name}-{text[:40]}": text for name, text in HOSTILE.items()}
    golden = [
        {"id": one, "query": text, "expected_doc_ids": [text], "must_contain": [text],
         "difficulty": text, "reference_answer": text, "conversation": text, "turn": 1}
        for one, text in texts.items()
    ]  # fmt: skip
    names = [HOSTILE["script"], HOSTILE["tag"]]
    records = [
        {"run_id": run, "query_id": one, "doc_id": [text, "other"], "text": [text, text],
         "answer": text, "error": text}
        for run in names for one, text in texts.items()
    ]  # fmt: skip
    explorer = rs.evaluate(records, golden).explore(search=HOSTILE["script"])
    content = unpacked(explorer)
    assert [one["id"] for one in content["runs"]] == names
    assert {one["text"] for one in content["items"]} == set(texts.values())
    for one in content["queries"]:
        known = one["text"], one["reference_answer"], one["targets"][0]["name"], one["conversation"]
        given = [run[field] for run in one["runs"] for field in ("answer", "error")]
        assert {*known, *given, one["checks"][0]["text"]} == {texts[one["id"]]}
    inner = html.unescape(explorer._repr_html_().partition('srcdoc="')[2].partition('"')[0])
    assert "<img" not in inner and inner.count("<script") == inner.count("</script>")
    lone = {"text": "a\ud800b 😀"}
    assert json.loads(gzip.decompress(base64.b64decode(pack(lone)))) == lone


def test_a_page_of_its_own_is_written(explorer, tmp_path):
    page = explorer.write(tmp_path / "explorer.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "//" not in page.partition("<body>")[0]
    with refused(".md", ".html", field="path"):
        explorer.write(tmp_path / "explorer.md")


def test_a_run_looks_alike_in_plots_and_explorers(few):
    ev = rs.evaluate(few.results, few.golden, ["hit@5"], baseline="dense")
    drawn = {str(one.get_label()): one.lines[0].get_color() for one in ev.plot("hit@5").containers}
    runs = unpacked(ev.select(["hybrid", "dense"]).explore())["runs"]
    assert {run["id"]: run["colour"] for run in runs} == {
        run: drawn[run] for run in ("hybrid", "dense")
    }


# Back to Python


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("anywidget", "ipywidgets")),
    reason="anywidget and ipywidgets are not installed",
)
def test_the_open_query_comes_back_and_only_one_that_is_there(cmp):
    from ragscore.reporting.explorer.widget import bridge

    explorer = cmp.explore("pd-002")
    assert explorer.selected is None, "nothing was shown"
    for told, expected in (("pd-014", "pd-014"), ("pd-999", None), (["pd-014"], None)):
        bridge(explorer._in_frame().name).state = {"query": told}
        assert explorer.selected == expected


def test_without_anywidget_only_the_selection_is_missing(explorer, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "ragscore.reporting.explorer.widget", raising=False)
    assert set(explorer._repr_mimebundle_()) == {"text/plain", "text/html"}
    with refused("anywidget", "pip install", "'.[lab]'", field="selected"):
        explorer.selected  # noqa: B018


# Calls and turns


def test_a_collapsed_list_keeps_the_first_passage_of_all_calls():
    table = pd.DataFrame(
        [("q", 1, "c1", "d1"), ("q", 1, "c2", "d1"), ("q", 2, "c1", "d1"), ("q", 2, "c3", "d2")],
        columns=["query_id", "call", "chunk_id", "doc_id"],
    ).assign(rank=[1, 2, 1, 2])
    ev = rs.evaluate(rs.load_results(table), {"q": {"d2": 1}}, match="doc", collapse="doc")
    content = unpacked(ev.explore())
    hits = content["queries"][0]["runs"][0]["hits"]
    places = [[one["call"], one["place"], shown(content, one), one.get("repeats")] for one in hits]
    assert places == [[1, 1, "c1", None], [2, 1, "c3", None]]


def test_turns_name_their_conversation_and_are_a_filter():
    golden = rs.load_golden({"c1_2": ["a"], "c1_1": ["b"], "c2_1": ["c"], "alone": ["d"]})
    named = golden.queries["query_id"].str.extract("(c[0-9])_([0-9]+)")
    golden.queries[["conversation", "turn"]] = named
    run = {one: ["a"] for one in ("c1_2", "c1_1", "c2_1", "alone", "extra")}
    content = unpacked(rs.evaluate(run, golden).explore())
    turns = {one["id"]: (one.get("conversation"), one.get("turn")) for one in content["queries"]}
    assert turns == {
        "c1_2": ("c1", 2), "c1_1": ("c1", 1), "c2_1": ("c2", 1), "alone": (None, None),
        "extra": (None, None),
    }  # fmt: skip
    assert {"name": "conversation", "values": ["c1", "c2", "(none)"]} in content["slices"]

"""The explorer of runs: what it holds is what `ev.query` and `cmp.per_query` say."""

import base64
import gzip
import html
import importlib.util
import json
import sys

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.reporting.explorer.element import pack
from tests.hostile import HOSTILE
from tests.messages import refused, warned


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


def frame(columns, *rows):
    """A frame of rows that may lack their last values."""
    names = columns.split()
    return pd.DataFrame([[*row, *[None] * (len(names) - len(row))] for row in rows], columns=names)


@pytest.fixture(scope="module")
def world():
    """Three runs: of `lost` they find one target, the other, none; only c was asked `free`."""
    golden = [
        {"id": "kept", "query": "what stays?", "expected_chunk_ids": [["k1", "k9"], "k2"],
         "expected_doc_ids": ["d1"]},
        {"id": "lost", "query": "what goes?", "expected_doc_ids": {"d2": 2, "d1": 1},
         "difficulty": "hard", "reference_answer": "the second", "conversation": "s", "turn": "2",
         "must_contain": ["it"], "forbidden": ["not"]},
        {"id": "up", "query": "what comes?", "difficulty": "easy", "conversation": "s", "turn": "1",
         "gold_supports": [{"path": "p3", "snippets": ["Words", "of three"]}]},
        {"id": "same", "query": "what is alike?", "expected_doc_ids": ["d4"]},
        {"id": "no", "query": "what never?", "answerable": False},
        {"id": "unasked", "query": "what else?", "expected_doc_ids": ["d1"]},
    ]  # fmt: skip
    hits = frame(
        "run_id query_id rank call chunk_id doc_id text score",
        ("a", "kept", 1, 1, "k1", "d1", "old", 9.5), ("a", "kept", 2, 1, "c1", "d2", None, 9),
        ("a", "kept", 3, 2, "k1", "d1", "old", float("inf")), ("a", "lost", 1, 1, "c1", "d2"),
        ("a", "up", 1, 1, "c2", "d1"), ("a", "same", 1, 1, "c4", "d4"),
        ("b", "kept", 1, 1, "k1", "d1", "new"), ("b", "kept", 2, 1, "k2", "d1"),
        ("b", "kept", 3, 2, "c1", "d2"), ("b", "same", 1, 1, "c4", "d4"),
        ("b", "lost", 2, 1, "k1", "d1", "new"), ("b", "lost", 1, 1, "c3", "d3"),
        ("b", "up", 1, 1, "c3", "d3"), ("b", "same", 2, 1, "c2", "d1"),
        ("c", "kept", 1, 1, "k1", "d1", "old"), ("c", "lost", 1, 1, "c3", "d3"),
        ("c", "up", 1, 1, "c2", "d1"), ("c", "up", 2, 1, "c3", "d3"), ("c", "no", 1, 1, "c1", "d2"),
        ("c", "same", 1, 1, "c4", "d4"),
    )  # fmt: skip
    hits["path"] = hits["doc_id"].str.replace("d", "p")
    hits["heading"] = hits["chunk_id"].map({"k1": "Top"})
    responses = frame(
        "run_id query_id answer refused refusal_reason error elapsed_ms",
        ("a", "kept", None, None, None, None, 20), ("a", "lost", "it is"),
        ("a", "up", None, None, None, "timed out"), ("a", "no", None, True, "no hit"),
        ("b", "kept"),
        ("b", "lost", "it is not"), ("b", "up"), ("c", "kept"), ("c", "lost", "never"), ("c", "up"),
        ("c", "no", "never", False), ("c", "free"), *((run, "same") for run in "abc"),
    ).astype({"refused": "boolean"})  # fmt: skip
    citations = frame(
        "run_id query_id position marker chunk_id doc_id path start end span_unit",
        ("a", "lost", 2, "[2]", None, "d2", "p2", 0, 4, "char"),
        ("a", "lost", 1, "[1]", "c1", None, None, 2, 4, "line"),
        ("b", "lost", 1, None, None, "d1"), ("c", "no", 1, "[1]"),
    )  # fmt: skip
    judgments = frame(
        "run_id query_id criterion item value verdict reason item_text",
        ("a", "lost", "faithful", "claim-1", 1.0, "yes", "it says so", "it is"),
        ("a", "lost", "faithful", "claim-2"),
    )
    calls = frame(
        "run_id query_id call tool query elapsed_ms error n_hits",
        ("a", "kept", 2, "search", "stays", 3, None, 1),
        ("a", "kept", 1, "search", None, None, "slow", 2),
    )
    chunks = frame(
        "chunk_id text run_id",
        ("c1", "one"), ("c1", "another"), ("c1", "one of b", "b"), ("c3", "never shown", "b"),
    )  # fmt: skip
    results = rs.Results(
        runs=frame("run_id", "a", "b", "c"), hits=hits, responses=responses, calls=calls,
        citations=citations, judgments=judgments, chunks=chunks,
    )  # fmt: skip
    primary = ["mrr", "set_precision", "answered_unanswerable"]
    with warned("left out of the means"), warned("do not join"):
        return rs.evaluate(
            results, [{"lang": "en", **one} for one in golden], [*primary, "latency_ms"],
            primary=primary, match="per_query",
        )  # fmt: skip


# What it holds


def test_all_that_is_known_of_a_query_is_on_the_page_once(world):
    explorer = world.explore(
        texts=frame("chunk_id text", ("k1", "never shown"), ("c3", "words of three"))
    )
    content = unpacked(explorer)
    queries = content.pop("queries")
    assert content == {
        "title": "3 runs, baseline a",
        "verdict": [
            "b against a: 1 win, 1 loss, 2 draw, 1 only_baseline.",
            "c against a: 1 win, 1 regression, 2 draw, 1 no_target, 1 only_candidate.",
            "Matched by each query's finest target. Hits are ranks 1 to 3. Not by chunk: 4 of 5"
            " queries have no chunk targets; anchor: 4 of 5 queries have no anchor targets; doc: 1"
            " of 5 queries have no doc targets.",
        ],
        "left_out": ["Left out: 1 golden query that no run was asked."],
        "runs": [{"id": "a", "colour": "#1359B2"}, {"id": "b", "colour": "#D97D00"},
                 {"id": "c", "colour": "#6A405C"}],
        "metrics": [{"name": "mrr", "better": "higher", "primary": True, "decimals": 2},
                    {"name": "set_precision", "better": "higher", "primary": True, "decimals": 2},
                    {"name": "answered_unanswerable", "better": "lower", "primary": True,
                     "decimals": 0},
                    {"name": "latency_ms", "better": "lower", "primary": False, "decimals": 1}],
        "outcomes": ["win", "loss", "regression", "draw", "no_target", "only_baseline",
                     "only_candidate"],
        "slices": [{"name": "difficulty", "values": ["easy", "hard", "(none)"]},
                   {"name": "conversation", "values": ["s", "(none)"]}],
        "items": [{"id": "k1", "doc": "d1", "path": "p1", "heading": "Top", "text": "old"},
                  {"id": "c1", "doc": "d2", "path": "p2", "text": "one"},
                  {"id": "c2", "doc": "d1", "path": "p1"}, {"id": "c4", "doc": "d4", "path": "p4"},
                  {"id": "k1", "doc": "d1", "path": "p1", "heading": "Top", "text": "new"},
                  {"id": "c3", "doc": "d3", "path": "p3", "text": "words of three"},
                  {"id": "k2", "doc": "d1", "path": "p1"},
                  {"id": "c1", "doc": "d2", "path": "p2", "text": "one of b"}],
    }  # fmt: skip
    assert queries == [
        {"id": "kept", "text": "what stays?", "refuse": False, "slices": [[2], [1]],
         "targets": [{"name": "k1", "grade": 1, "others": "k9", "places": [1, 1, 1],
                      "calls": [1, 1, 1]},
                     {"name": "k2", "grade": 1, "places": [None, 2, None],
                      "calls": [None, 1, None]}],
         "runs": [{"hits": [{"rank": 1, "place": 1, "call": 1, "score": 9.5, "item": 0, "grade": 1,
                             "targets": [0]},
                            {"rank": 2, "place": 2, "call": 1, "score": 9, "item": 1},
                            {"rank": 3, "place": 1, "call": 2, "repeats": 1, "item": 0, "grade": 1,
                             "targets": [0]}],
                   "calls": [{"call": 1, "tool": "search", "error": "slow"},
                             {"call": 2, "query": "stays", "tool": "search", "elapsed_ms": 3}],
                   "metrics": [1, 2 / 3, None, 20], "elapsed_ms": 20},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 4, "grade": 1,
                             "targets": [0]},
                            {"rank": 2, "place": 2, "call": 1, "item": 6, "grade": 1,
                             "targets": [1]}, {"rank": 3, "place": 1, "call": 2, "item": 7}],
                   "calls": [{"call": 1}, {"call": 2}], "metrics": [1, 2 / 3, None, None],
                   "outcome": "draw", "order": 4},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 0, "grade": 1,
                             "targets": [0]}], "calls": [{"call": 1}],
                   "metrics": [1, 1, None, None], "outcome": "draw",
                   "change": "set_precision +0.33", "order": 3}], "checks": []},
        {"id": "lost", "text": "what goes?", "refuse": False, "reference_answer": "the second",
         "conversation": "s", "turn": 2, "slices": [[1], [0]],
         "targets": [{"name": "d2", "grade": 2, "places": [1, None, None],
                      "calls": [1, None, None]},
                     {"name": "d1", "grade": 1, "places": [None, 2, None],
                      "calls": [None, 1, None]}],
         "runs": [{"hits": [{"rank": 1, "place": 1, "call": 1, "item": 1, "grade": 2,
                             "targets": [0]}], "calls": [{"call": 1}],
                   "citations": [{"chunk_id": "c1", "marker": "[1]", "label": "c1 2–3"},
                                 {"doc_id": "d2", "path": "p2", "marker": "[2]",
                                  "label": "p2 0–4"}],
                   "judgments": [{"item": "it is", "criterion": "faithful", "value": 1,
                                  "verdict": "yes", "reason": "it says so"},
                                 {"item": "claim-2", "criterion": "faithful"}],
                   "metrics": [1, 1, None, None], "answer": "it is"},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 5},
                            {"rank": 2, "place": 2, "call": 1, "item": 4, "grade": 1,
                             "targets": [1]}], "calls": [{"call": 1}],
                   "citations": [{"doc_id": "d1", "label": "d1"}],
                   "metrics": [0.5, 0.5, None, None], "outcome": "loss", "change": "1 → 2",
                   "note": "rank 1→2", "order": 2, "answer": "it is not"},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 5}], "calls": [{"call": 1}],
                   "metrics": [0, 0, None, None], "outcome": "regression", "change": "1 → miss",
                   "note": "rank 1→miss", "order": 1, "answer": "never"}],
         "checks": [{"kind": "must_contain", "text": "it", "met": [True, True, False]},
                    {"kind": "forbidden", "text": "not", "met": [True, False, True]}]},
        {"id": "up", "text": "what comes?", "refuse": False, "conversation": "s", "turn": 1,
         "slices": [[0], [0]],
         "targets": [{"name": "p3#", "grade": 1, "snippets": ["Words", "of three"],
                      "places": [None, 1, 2], "calls": [None, 1, 1]}],
         "runs": [{"hits": [{"rank": 1, "place": 1, "call": 1, "item": 2}], "calls": [{"call": 1}],
                   "metrics": [0, 0, None, None], "error": "timed out"},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 5, "grade": 1,
                             "targets": [0]}], "calls": [{"call": 1}],
                   "metrics": [1, 1, None, None], "outcome": "win", "change": "miss → 1",
                   "note": "miss→rank 1", "order": 5},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 2},
                            {"rank": 2, "place": 2, "call": 1, "item": 5, "grade": 1,
                             "targets": [0]}], "calls": [{"call": 1}],
                   "metrics": [0.5, 0.5, None, None], "outcome": "win", "change": "miss → 2",
                   "note": "miss→rank 2", "order": 5}], "checks": []},
        {"id": "same", "text": "what is alike?", "refuse": False, "slices": [[2], [1]],
         "targets": [{"name": "d4", "grade": 1, "places": [1, 1, 1], "calls": [1, 1, 1]}],
         "runs": [{"hits": [{"rank": 1, "place": 1, "call": 1, "item": 3, "grade": 1,
                             "targets": [0]}], "calls": [{"call": 1}],
                   "metrics": [1, 1, None, None]},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 3, "grade": 1,
                             "targets": [0]}, {"rank": 2, "place": 2, "call": 1, "item": 2}],
                   "calls": [{"call": 1}], "metrics": [1, 0.5, None, None], "outcome": "draw",
                   "change": "set_precision −0.50", "order": 3},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 3, "grade": 1,
                             "targets": [0]}], "calls": [{"call": 1}],
                   "metrics": [1, 1, None, None], "outcome": "draw"}], "checks": []},
        {"id": "no", "text": "what never?", "refuse": True, "slices": [[2], [1]], "targets": [],
         "runs": [{"metrics": [None, None, 0, None], "refused": True, "refusal_reason": "no hit"},
                  {"metrics": [None, None, None, None], "outcome": "only_baseline", "order": 1},
                  {"hits": [{"rank": 1, "place": 1, "call": 1, "item": 1}], "calls": [{"call": 1}],
                   "citations": [{"marker": "[1]", "label": "[1]"}],
                   "metrics": [None, None, 1, None], "outcome": "no_target",
                   "change": "answered_unanswerable +1.00", "order": 2, "answer": "never",
                   "refused": False}], "checks": []},
        {"id": "free", "text": "free", "refuse": False, "slices": [[], []], "targets": [],
         "runs": [{"metrics": [None, None, None, None]}, {"metrics": [None, None, None, None]},
                  {"metrics": [None, None, None, None], "outcome": "only_candidate", "order": 4}],
         "checks": []},
    ]  # fmt: skip
    rows = [
        ("lost", "what goes?", "loss", "1 → 2", "regression", "1 → miss"),
        ("no", "what never?", "only_baseline", "", "no_target", "answered_unanswerable +1.00"),
        ("same", "what is alike?", "draw", "set_precision −0.50", "draw", ""),
        ("kept", "what stays?", "draw", "", "draw", "set_precision +0.33"),
        ("free", "free", "", "", "only_candidate", ""),
        ("up", "what comes?", "win", "miss → 1", "win", "miss → 2"),
    ]
    names = ["query_id", "query", "b: outcome", "b: change", "c: outcome", "c: change"]
    assert_frame_equal(explorer.order, pd.DataFrame(rows, columns=names, dtype="str"))


def test_a_comparison_says_its_word_where_several_runs_only_count(world):
    explorer = world.compare("a", "c").explore(by="lang")
    content = unpacked(explorer)
    assert content["slices"] == [{"name": "lang", "values": ["en"]}]
    assert "▲ win" in explorer.to_html(), "the table without a script"
    assert content["verdict"][:-1] == [
        "c against a: can't tell. 1 win, 1 regression, 2 draw, 1 no_target, 1 only_candidate.",
        "retrieval: can't tell (the difference lies between -1 and +1)",
        "set_precision: can't tell (the difference lies between -1 and +1)",
        "refusals: can't tell (the difference lies between -0.668 and +1)",
    ]
    assert explorer.order[3:5].to_dict("list") == {
        "query_id": ["free", "up"], "query": ["free", "what comes?"],
        "outcome": ["only_candidate", "win"], "change": ["", "miss → 2"],
    }  # fmt: skip


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


# The one order of reading


def test_what_is_read_first_is_the_same_in_python_and_on_the_page(explorer, content):
    order = explorer.order
    on_page = [one for one in content["queries"] if "order" in one["runs"][1]]
    on_page.sort(key=lambda one: one["runs"][1]["order"])
    rows = [[one["id"], one["runs"][1]["change"]] for one in on_page]
    assert rows == order[["query_id", "change"]].head(len(rows)).to_numpy().tolist()
    assert order["change"].iloc[len(rows) :].eq("").all()


def test_one_run_begins_with_what_it_should_have_refused_then_its_lowest_values(demo):
    order = demo.explore(runs="bm25").order
    scores = demo.scores.query("run_id == 'bm25'")
    is_answered = scores["answered_unanswerable"] == 1
    ids = [*scores.index[is_answered], *scores["ndcg@10"].dropna().sort_values(kind="stable").index]
    assert order["query_id"].head(len(ids)).tolist() == ids
    assert order["change"].iloc[[0, int(is_answered.sum())]].tolist() == [
        "answered", "ndcg@10 0.00",
    ]  # fmt: skip


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
    assert cut.left_out == (
        "The hits kept no text. cmp.explore(texts=frame) shows it, from a frame with chunk_id and"
        " text.",
        f"4 of {n} queries are here, those that changed most: cmp.explore(max_queries={n}) shows"
        " all.",
    )
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

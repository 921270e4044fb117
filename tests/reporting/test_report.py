"""Reports: what stands on a page, in which order, and that no text of it is followed."""

import base64
import hashlib
import json
import re
from urllib.parse import unquote

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from browser import CHROMIUM, Browser
from conftest import RUN_A, THREE_QUERIES

import ragscore as rs
from ragscore.reporting.report import figure
from tests.messages import refused, says, warned

pytestmark = pytest.mark.filterwarnings("ignore:golden queries without a row")
# query -> the rank of its one target in the old run and in the new one (0: not found)
RANKS = {"same": (1, 1), "down": (1, 3), "lost": (2, 0), "lost first": (1, 0), "up": (3, 1)}
LOST = ["lost first", "lost", "lost dear", "down"]
NASTY = [
    "<script>document.title = 'taken'</script>", '"><img src=x onerror="document.title=1">',
    "a | b || c", "it's \"quoted\" & <b>bold</b>", "]]>--></style></script>",
    "long " + "x" * 10_000, r"$\nothing$ _{ ^", "問い 질문 \u202e \x0b", "'; alert(1); //",
    "http://example.org/a.png", "line\nbreak\r\n# no heading",
]  # fmt: skip


@pytest.fixture(scope="module")
def runs():
    """Two runs and the first, which was asked less: of "lost dear" the target of grade 3 is lost,
    "no" should be refused.
    """
    golden = [
        {"id": one, "query": f"question {one}", "expected_doc_ids": [one],
         "difficulty": "easy" if ranks[0] == 1 else "hard"}
        for one, ranks in RANKS.items()
    ]  # fmt: skip
    golden += [
        {"id": "lost dear", "query": "?", "expected_doc_ids": {"dear": 3}},
        {"id": "no", "query": "question no", "answerable": False},
        {"id": "unasked", "query": "?", "expected_doc_ids": ["x"], "difficulty": "rare"},
    ]
    rows = [
        {"run_id": "first", "query_id": query, "doc_id": ["x", query], "answer": "said",
         "refused": False}
        for query in ("same", "down", "lost", "no")
    ]  # fmt: skip
    for side, name in enumerate(("old", "new")):
        found = {
            query: [query if n == ranks[side] else f"x{n}" for n in range(1, 5)]
            for query, ranks in RANKS.items()
        } | {"lost dear": ["x1", "x2", "x3", "x4" if side else "dear"], "no": []}  # fmt: skip
        rows += [
            {"run_id": name, "query_id": query, "doc_id": docs, "answer": "said",
             "refused": query == "no" and not side}
            for query, docs in found.items()
        ]  # fmt: skip
    results = rs.load_results(rows)
    results.runs["created_at"] = ["2026-01-01", "2026-01-02", "2026-01-03 12:34:56"]
    results.runs["note"] = ["cold", None, None]
    results.runs["config"] = [json.dumps({"k": k, "fields": 2}) for k in (3, 5, 5)]
    return rs.evaluate(results, golden)


@pytest.fixture(scope="module")
def report(runs):
    return runs.report()


@pytest.fixture(scope="module")
def page(report):
    return report.to_html()


# -- what is read first


def test_python_page_explorer_and_gate_list_lost_queries_in_one_order(runs, report, page):
    cmp = runs.compare("old", "new")
    assert report.tables["Lost queries"]["query_id"].tolist() == LOST
    assert cmp.changed()["query_id"].tolist()[:4] == LOST
    assert cmp.gate().regressions["query_id"].tolist() == LOST
    assert cmp.explore().order["query_id"].tolist()[:4] == LOST
    links = re.findall(r'href="#x\.q=([^"]*)"', page)
    assert list(map(unquote, links)) == LOST


def test_the_page_opens_with_the_runs_a_picture_and_what_was_lost_and_folds_the_rest(report, page):
    parts = dict(part.split("\n\n", 1) for part in report.to_markdown().split("\n\n## ")[1:])
    assert list(parts) == [
        "old is best by ndcg@10, but not surely better than first, new",
        "new lost 4 queries of old: 3 with no hit any more, 1 with a later first hit",
        "new against old: can't tell", "ndcg@10 by difficulty", "Refusals of 3 runs", "The runs",
        "Left out",
    ]  # fmt: skip
    lost, compared, sliced, _, described, _ = list(parts.values())[1:]
    assert compared.startswith("| metric | baseline | candidate | delta [interval] |")
    # "up" has 7 of 10 / log2 4 = .5, then 1; "lost" 1 / log2 3 = .63, then 0
    assert f"{lost}\n\n{sliced}\n\n{described}" == """\
| query_id | outcome | rank | query |
| --- | --- | --- | --- |
| lost first | ▼! regression | rank 1 → none | question lost first |
| lost | ▼! regression | rank 2 → none | question lost |
| lost dear | ▼! regression | rank 4 → none | ? |
| down | ▼ loss | rank 1 → 3 | question down |

| slice | n | first | old | new |
| --- | ---: | ---: | ---: | ---: |
| easy | 2–3 | 0.631 [0.005, 0.998] | 1.00 [0.14, 1.00] | 0.50 [0.05, 0.95] |
| hard | 1–2 | 0.63 [0.08, 0.97] | 0.57 [0.09, 0.95] | 0.500 [0.003, 0.997] |
| (none) | 1 | — | 0.43 [0.04, 0.93] | 0.00 [0.00, 0.79] |

| fact | first | old | new |
| --- | --- | --- | --- |
| system | first | old | new |
| created_at | 2026-01-01 00:00 | 2026-01-02 00:00 | 2026-01-03 12:34 |
| n_queries | 4 | 7 | 7 |
| note | cold | — | — |
| k | 3 | 5 | 5 |
| repeat | 1 | same | same |
| n_failed | 0 | same | same |
| fields | 2 | same | same |"""  # fmt: skip
    folds = re.findall(r'<details class="part"( open)?><summary><h2>(.*?)</h2>', page)
    assert [title for is_open, title in folds if is_open] == list(parts)[:2]
    assert page.partition("lost 4 queries")[0].count("<img") == 1
    for text in ("Query by query", "rank 1 → none", "rank 1 → 3"):
        assert text in page
    assert repr(report).splitlines()[1:-1] == list(parts)


def test_marks_say_which_run_is_best_and_if_that_is_sure():
    ids = [f"q{n}" for n in range(40)]
    golden = {one: ["d"] for one in ids}
    good, bad = {one: ["d"] for one in ids}, {one: ["x"] for one in ids}
    near = {**good, "q0": ["x"]}
    with warned("bad", "join"):
        ev = rs.evaluate({"good": good, "near": near, "bad": bad}, golden, ["hit@1"])
    assert ev.report().to_markdown().split("\n\n")[1] == (
        "## good is best by hit@1, but not surely better than near"
    )
    assert "good is best by hit@1, surely" in ev.select(["good", "bad"]).report().to_markdown()
    says(ev.report(baseline="bad").to_markdown(), "Against bad by hit@1: good, near better")


def test_a_printed_evaluation_shows_every_primary_metric_and_latency_in_a_hundred_columns(demo):
    names = [f"{'a-name-of-letters-' * 3}"[:37] + f"-{n:02}" for n in range(6)]
    part = demo.select("dense", demo.golden.queries["query_id"].head(30).tolist())
    kinds = {kind: getattr(part.results, kind) for kind in ("runs", "responses", "hits")}
    many = rs.Results.concat([
        rs.Results(**{kind: frame.assign(run_id=name) for kind, frame in kinds.items()})
        for name in names
    ])  # fmt: skip
    for text in (repr(demo), repr(rs.evaluate(many, part.golden))):
        assert max(map(len, text.splitlines()[:10])) <= 100 and "more column" not in text
        assert "latency_" in text and "★ best; ≈ no sure difference from it (all" in text


# -- what is compared, and what is left out


def test_runs_are_compared_in_order_of_time_or_with_one_baseline():
    days = {"late": 3, "early": 1, "middle": 2}
    results = rs.load_results({name: {"q1": ["d1"], "q2": ["x"]} for name in days})
    results.runs["created_at"] = [f"2026-01-0{day}" for day in days.values()]
    results.runs[["system", "repeat"]] = [["s", pd.NA], ["s", pd.NA], ["t", pd.NA]]
    results.runs["config"] = [json.dumps({"k": day}) for day in days.values()]
    ev = rs.evaluate(results, {"q1": ["d1"], "q2": ["d2"]}, ["mrr"])
    for pairs, options in {
        "late against middle": {},
        "late against middle, early against middle": {"baseline": "middle"},
        "late against middle, middle against early": {"gate": {"mrr": 1.0}},
    }.items():
        tables = ev.report(**options).tables
        assert ", ".join(one for one in tables if re.match(r"\w+ against", one)) == pairs
    assert len(tables["Trend"]) == 3, "system s has runs of two times"
    facts = tables["The runs"].set_index("fact")
    assert facts.loc["k", ["early", "middle", "late"]].tolist() == ["1", "2", "3"]
    results.runs.loc[0, "created_at"] = None
    undated = rs.evaluate(results, ev.golden, ["mrr"]).report()
    assert "middle against early" in undated.tables, "as they were given"


def test_what_there_is_no_data_for_is_named_with_the_reason(loaded, runs):
    alone = rs.evaluate(*loaded(THREE_QUERIES, {"a": RUN_A})).report(gate={"hit@5": 1})
    refusals = runs.select(queries=["no"]).report()
    assert [*alone.tables["Left out"].head(3).itertuples(index=False, name=None)] == [
        ("Gate", "one run, and none to compare it with"),
        ("Trend", "no system has runs of two times (created_at)"),
        ("Refusals", "nothing says which queries should be refused, or were"),
    ]
    assert alone.to_markdown().startswith("# 1 run on 3 golden queries\n")
    assert refusals.to_markdown().startswith("# 3 runs on 1 golden query\n")
    assert "| Lost queries | no query has an expected document |" in refusals.to_markdown()
    assert alone.tables["Lowest queries"].to_numpy().tolist() == [
        ["q3", "question q3", "ndcg@10 0.00"],
        ["q2", "question q2", "ndcg@10 0.43"],  # 1 / log2(5)
        ["q1", "question q1", "ndcg@10 1.00"],
    ]


def test_a_picture_that_the_data_do_not_support_says_why():
    def draw():
        raise rs.DataError("no query has a value", field="table", allowed="others")

    says(figure("t", draw), "No picture", "no query has a value")


@pytest.mark.parametrize(
    ("options", "field", "named"),
    [
        ({"vary": ["nothing"]}, "vary", "nothing"),
        ({"allow_different": ["colour"]}, "allow_different", "colour"),
        ({"gate": {"mrrr": 0.1}}, "metrics", "mrrr"),
        ({"history": "store"}, "history", "str"),
        ({"slices": ["colour"]}, "by", "colour"),
        ({"path": "report.pdf"}, "path", ".pdf"),
    ],
)
def test_options_of_a_report_that_mean_nothing_are_refused(runs, options, field, named):
    with refused(named, field=field):
        runs.report(**options)


def test_a_history_gives_the_trend(runs, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.save(runs.results, golden=runs.golden)
    assert runs.report(history=store).tables["Trend"]["run_id"].tolist() == list(runs.run_ids)


def test_a_comparison_alone_is_a_page_also_from_json(runs, tmp_path):
    cmp = runs.compare("old", "new")
    made = cmp.report(tmp_path / "cmp.html", gate={"mrr@10": 0.5})
    assert (tmp_path / "cmp.html").read_text(encoding="utf-8") == made.to_html()
    assert list(made.tables) == ["new against old", "Gate: new against old", "Lost queries"]
    again = rs.Comparison.from_json(cmp.to_json()).report()
    says(again.tables["Left out"]["why"].iloc[0], "JSON")
    assert "#x.q=" not in again.to_html()
    kebab = rs.evaluate(runs.results, runs.golden, profile="kebab").report().to_markdown()
    assert "hit_at_k.1" in kebab.replace("\\", "")


def test_stored_scores_make_a_page():
    rows = [
        {"user_input": f"q{n}?", "response": f"a{n}", "reference": f"r{n}",
         "retrieved_contexts": ["c"], "faithfulness": n / 10, "answer_relevancy": 0.8}
        for n in range(6)
    ]  # fmt: skip
    for golden in (None, rows):
        ev = rs.evaluate(rows, golden)
        assert ev.report().tables["Standings"]["metric"].iloc[0] == "faithfulness"


# -- forms


def test_the_same_input_gives_the_same_bytes_whatever_the_style_of_the_notebook(runs, page):
    opened = plt.get_fignums()
    with plt.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.hashsalt": None}):
        assert runs.report().to_html() == page
    assert plt.get_fignums() == opened, "no figure is left open"


def test_json_has_the_tables_and_figures_are_axes(runs, report, tmp_path):
    rows = json.loads(report.write(tmp_path / "x.json").read_text(encoding="utf-8"))
    assert {name: len(one) for name, one in rows.items()} == {
        name: len(frame) for name, frame in report.tables.items()
    }
    assert rows["Lost queries"][0]["query_id"] == "lost first"
    figures = runs.select(["old", "new"]).report().figures
    assert "ndcg@10" in figures["Standings"]().get_title(), "of two runs, what decides alone"


@pytest.fixture(scope="module")
def hostile():
    """Four runs of one system on four days whose names, notes, configs, questions and answers are
    markup; some refuse, fail or answer what they shouldn't.
    """
    names = [NASTY[0], NASTY[2], NASTY[1], "long " + "y" * 10_000]
    golden = rs.load_golden(
        [
            {"id": text, "query": text, "expected_doc_ids": ["d"], "must_contain": ["right"],
             "difficulty": text}
            for text in NASTY
        ]
        + [{"id": f"r{n}", "query": text, "answerable": False} for n, text in enumerate(NASTY[:4])]
    )  # fmt: skip
    rows = pd.DataFrame(
        [
            {"run_id": name, "query_id": text, "query": text,
             "doc_id": "d" if (n + day + day // 3) % 3 else "x", "answer": f"right {text}",
             "refused": (n + day) % 5 == 0, "error": NASTY[2] if n == 3 + day else None}
            for day, name in enumerate(names) for n, text in enumerate(NASTY)
        ]
        + [
            {"run_id": name, "query_id": f"r{n}", "query": text, "doc_id": "x", "answer": text,
             "refused": n == day, "error": None}
            for day, name in enumerate(names) for n, text in enumerate(NASTY[:4])
        ]
    )  # fmt: skip
    runs = pd.DataFrame({
        "run_id": names, "system": NASTY[1], "note": NASTY[:4],
        "created_at": pd.date_range("2026-01-01", periods=4, tz="UTC"),
        "config": [json.dumps({NASTY[2]: NASTY[day], NASTY[0]: day}) for day in range(4)],
    })  # fmt: skip
    hits = rows[["run_id", "query_id", "doc_id"]].assign(rank=np.int32(1), chunk_id=NASTY[3])
    results = rs.Results(runs=runs, hits=hits,
                         responses=rows.drop(columns="doc_id"))  # fmt: skip
    return rs.evaluate(results, golden).report(
        gate={"mrr@10": 0.01}, baseline=names[0], title=NASTY[0]
    )


def test_no_text_of_a_file_opens_a_tag_an_address_a_cell_or_a_heading(hostile):
    page, text = hostile.to_html(), hostile.to_markdown()
    assert not any(one in page for one in NASTY if "<" in one)
    assert re.findall(r'\s(?:src|href|action|data)="(?!data:|#)', page) == []
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.S)
    digests = [hashlib.sha256(one.encode()).digest() for one in scripts]
    allowed = [f"'sha256-{base64.b64encode(one).decode()}'" for one in digests]
    assert page.partition("script-src ")[2].partition(";")[0].split() == allowed
    links = list(map(unquote, re.findall(r'href="#x\.q=([^"]*)"', page)))
    lost = hostile.tables["Lost queries"]["query_id"].tolist()
    assert links == lost[: len(links)] and len(links) > 1
    assert "<" not in text and "\n# no heading" not in text
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        lines = table.replace("\\\\", "").splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", one)) for one in lines}) == 1, table[:200]
    assert json.loads(hostile.to_json())["The runs"]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to show the page")
def test_a_browser_executes_loads_and_loses_nothing_of_hostile_texts(hostile, tmp_path):
    out = hostile.write(tmp_path / "report.html")
    with Browser() as browser:
        browser.open(out)
        browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert browser.complaints == [] and browser.loaded == [out.as_uri()]
        assert browser.run("document.title") == NASTY[0]
        images = "[...document.images].every(one => one.complete && one.naturalWidth > 100)"
        assert browser.run(images)
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
        cells = browser.run("[...document.querySelectorAll('td')].map(cell => cell.textContent)")
        assert {NASTY[0], NASTY[5]} <= set(cells)

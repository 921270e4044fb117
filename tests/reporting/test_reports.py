"""Reports.

The same frames give the same page, every text is escaped, and a page needs nothing but itself.
"""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import pandas as pd
import pytest
from browser import CHROMIUM, Browser
from conftest import RUN_A, THREE_QUERIES, hit, record
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.gate import gate
from ragscore.frames.escaping import visible
from ragscore.reporting.page import Section, to_html
from ragscore.scoring.profiles import PROFILES
from tests.messages import refused, says, warned

matplotlib.use("Agg")
FRAMES = ("deltas", "per_query", "targets", "invariants", "config_diff")
NASTY = [
    "<script>document.title = 'taken'</script>", '"><img src=x onerror="document.title=1">',
    "a | b || c", "it's \"quoted\" & <b>bold</b>", "]]>--></style></script>",
    "long " + "x" * 10_000, r"$\nothing$ _{ ^", "問い 질문 \u202e \x0b", "'; alert(1); //",
    "http://example.org/a.png", "line\nbreak\r\n# no heading",
]  # fmt: skip


def report(results, golden, path=None, **options):
    """The page about runs, as an evaluation makes it."""
    return rs.evaluate(results, golden).report(path, **options)


def same(a: rs.Comparison, b: rs.Comparison) -> None:
    for name in FRAMES:
        assert_frame_equal(getattr(a, name), getattr(b, name))
    values = ("baseline", "candidate", "level", "k", "policies", "profile", "aggregates", "counts")
    assert [getattr(a, name) for name in values] == [getattr(b, name) for name in values]


def test_a_comparison_reloads_from_its_json(pair):
    cmp = compare_runs(*pair, "a", "b", missing="zero")
    again = rs.Comparison.from_json(cmp.to_json())
    same(again, cmp)
    assert (
        again.to_json() == cmp.to_json()
        and again.to_markdown() == cmp.to_markdown()
        and again.policies["missing"] == "zero"
    )


def test_a_comparison_without_rows_reloads_with_their_columns(write_golden, write_run):
    results = rs.load_results([write_run(name, [record("q1", [])]) for name in "ab"])
    cmp = compare_runs(results, rs.load_golden(write_golden(THREE_QUERIES)), "a", "b")
    assert not len(cmp.targets) and not len(cmp.config_diff)
    same(rs.Comparison.from_json(cmp.to_json()), cmp)


def test_a_comparison_by_a_profile_reloads_with_it(pair):
    cmp = compare_runs(*pair, "a", "b", profile="kebab")
    same(rs.Comparison.from_json(cmp.to_json(own=True)), cmp)
    with refused("own=True", field="text"):
        rs.Comparison.from_json(cmp.to_json())
    mine = replace(PROFILES["kebab"], name="mine")
    text = compare_runs(*pair, "a", "b", profile=mine).to_json(own=True)
    assert rs.Comparison.from_json(text, profile=mine).profile == mine
    with refused("mine", field="profile"):
        rs.Comparison.from_json(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["JSON"]),
        ("[]", ["baseline", "candidate", "level"]),
        ('{"baseline": "a"}', ["candidate", "level"]),
    ],
)
def test_what_is_no_comparison_is_refused(text, named):
    with refused(*named, field="text"):
        rs.Comparison.from_json(text)


def test_rows_that_do_not_fit_their_columns_are_refused(pair):
    content = json.loads(compare_runs(*pair, "a", "b").to_json())
    del content["targets"][0]["change"]
    with refused("change", field="targets"):
        rs.Comparison.from_json(json.dumps(content))
    content["targets"] = []
    content["deltas"][0]["n"] = "many"
    with refused("many", field="deltas"):
        rs.Comparison.from_json(json.dumps(content))


def test_the_same_input_gives_the_same_bytes_whatever_the_style_of_the_notebook(pair):
    import matplotlib.pyplot as plt

    opened, first = plt.get_fignums(), report(*pair).to_html()
    with plt.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.hashsalt": None}):
        assert report(*pair).to_html() == first
    assert plt.get_fignums() == opened, "no figure is left open"


def test_runs_are_compared_in_order_of_time_or_with_one_baseline(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    days = {"late": 3, "early": 1, "middle": 2}
    files = [
        write_run(name, RUN_A, created_at=f"2026-01-0{day}T00:00:00Z", config={"k": day})
        for name, day in days.items()
    ]
    ev = rs.evaluate(rs.load_results(files), golden)

    def pairs(**options):
        return [(one.baseline, one.candidate) for one in ev.report(**options).comparisons]

    made = ev.report()
    assert made.runs["run_id"].tolist() == ["early", "middle", "late"]
    assert [(one.baseline, one.candidate) for one in made.comparisons] == [("middle", "late")]
    assert "| k | 1 | 2 | 3 | differs |" in made.to_markdown()
    assert pairs(baseline="middle") == [("middle", "late"), ("middle", "early")]
    assert pairs(gate={"hit@5": 1.0}) == [("middle", "late"), ("early", "middle")]


class Page(HTMLParser):
    """Tags, addresses and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        told = dict(attrs)
        if tag == "script" and "type" not in told:
            self.scripts.append("")
        if told.get("http-equiv") == "Content-Security-Policy":
            self.policy = told["content"]
        self.addresses += [
            value for name, value in attrs if name in ("src", "href", "srcset", "action", "data")
        ]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data):
        self.texts.append(data)
        if self.scripts and self.scripts[-1] == "":
            self.scripts[-1] = data


ALLOWED = {
    "html", "head", "meta", "link", "title", "style", "body", "h1", "h2", "h3", "nav", "a", "p",
    "div", "table", "thead", "tbody", "tr", "th", "td", "button", "header", "main", "section",
    "ul", "ol", "li", "b", "span", "wbr", "script", "details", "summary", "figure", "img",
    "i", "svg", "line", "circle",
}  # fmt: skip


def read(page: str) -> Page:
    found = Page()
    found.feed(page)
    assert set(found.tags) <= ALLOWED and not found.handlers
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()) for one in found.scripts]
    assert digests and found.policy.partition("script-src ")[2].partition(";")[0].split() == [
        f"'sha256-{digest.decode()}'" for digest in digests
    ], "the policy allows these scripts and no other"
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    return found


@given(st.lists(st.text() | st.sampled_from(NASTY), min_size=3, max_size=6), st.sampled_from(NASTY))
def test_no_text_breaks_out_of_a_page(texts, title):
    table = pd.DataFrame(dict.fromkeys((texts[0] + "1", texts[1] + "2", "answers"), texts))
    part = Section(title, 2, tuple(texts), (), table, (texts[-1],))
    page = read(to_html(title, [part]))
    assert page.tags.count("td") == 3 * len(texts) and page.tags.count("p") == len(texts) + 1
    shown = "".join(page.texts)
    assert all(line in shown for text in texts for line in visible(text).split("\n"))


def test_a_comparison_alone_is_a_page(pair, tmp_path):
    cmp = compare_runs(*pair, "a", "b")
    text = cmp.report(tmp_path / "cmp.html").to_html()
    assert (tmp_path / "cmp.html").read_text(encoding="utf-8") == text
    assert read(text).tags.count("img") == 1
    profile = compare_runs(*pair, "a", "b", profile="kebab").report()
    sections = profile.to_html().partition('<details class="part"')[2]
    assert "hit_at_k.1" in sections.replace("<wbr>", "") and "ndcg" not in sections
    with refused(".pdf", field="path"):
        cmp.report(tmp_path / "cmp.pdf")


LONG = "long " + "y" * 10_000
NAMES = [NASTY[0], NASTY[2], NASTY[1], LONG]


@pytest.fixture(scope="module")
def hostile():
    """Four runs of one system on four days whose names, notes, configs, questions and answers are
    markup; some refuse, fail or answer what they shouldn't.
    """
    golden = rs.load_golden(
        [
            {"id": f"q{n}", "query": text, "expected_doc_ids": ["d"], "must_contain": ["right"],
             "difficulty": text}
            for n, text in enumerate(NASTY)
        ]
        + [{"id": f"r{n}", "query": text, "answerable": False} for n, text in enumerate(NASTY[:4])]
    )  # fmt: skip
    rows = [
        {"run_id": name, "query_id": f"q{n}", "query": text, "rank": 1, "chunk_id": f"c{n}",
         "doc_id": "d" if (n + day) % 3 and (day != 2 or n > 5) else "x",
         "answer": "right " * ((n + day) % 2) + text, "refused": (n + 2 * day) % 5 == 0,
         "error": NASTY[2] if n == 3 + day else None}
        for day, name in enumerate(NAMES) for n, text in enumerate(NASTY)
    ] + [
        {"run_id": name, "query_id": f"r{n}", "query": text, "rank": 1, "chunk_id": f"c{n}",
         "doc_id": "x", "answer": text, "refused": n == day, "error": None}
        for day, name in enumerate(NAMES) for n, text in enumerate(NASTY[:4])
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    runs = pd.DataFrame({
        "run_id": NAMES, "system": NASTY[1], "note": [NASTY[0], NASTY[5], NASTY[2], LONG],
        "created_at": pd.date_range("2026-01-01", periods=4, tz="UTC"),
        "config": [
            json.dumps({"k": 1, NASTY[2]: NASTY[day], NASTY[0]: LONG if day else 1})
            for day in range(4)
        ],
    })  # fmt: skip
    hits = table[["run_id", "query_id", "rank", "chunk_id", "doc_id"]]
    hits = hits.assign(score=1.0, score_kind="rrf")
    results = rs.Results(runs=runs, responses=table.drop(columns=["rank", "chunk_id", "doc_id"]),
                         hits=hits)  # fmt: skip
    ev = rs.evaluate(results, golden)
    return ev.report(gate=ALLOWED_LOSS, baseline=NAMES[0], title=NASTY[0])


ALLOWED_LOSS = {"mrr@10": 0.01, "hit@5": 0.9, "judge_correctness": 0}
SECTIONS = (
    "Run by run", "Leaderboard", "Results", "By difficulty", "Trend",
    "Refusing as a decision", "Quality beside coverage", "What if a threshold refused",
    "Failure causes of wrong answers", "How failure causes changed", "The runs", "Configuration",
    "Largest regressions",
    # the candidate failed on q4 or another one, which the baseline answered
    "Gate failed by mrr@10, failed queries, 1 not evaluated",
    "Gate failed by failed queries, 1 not evaluated",
)  # fmt: skip


@pytest.mark.slow
def test_several_runs_fill_every_section_and_no_text_opens_a_tag_a_cell_or_a_heading(hostile):
    text = hostile.to_markdown()
    for title in SECTIONS:
        assert re.search(rf"^##+ {title}", text, flags=re.M), title
    assert not len(hostile.left_out)
    assert [one.answer for one in hostile.gates] == [
        gate(cmp, ALLOWED_LOSS).answer for cmp in hostile.comparisons
    ]
    assert "<" not in text and "\n# no heading" not in text
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if lines[0].startswith("|"):
            bars = {len(re.findall(r"(?<!\\)\|", one.replace("\\\\", ""))) for one in lines}
            assert len(bars) == 1, lines[0][:200]


def test_the_json_of_a_report_has_its_frames(hostile):
    content = json.loads(hostile.to_json())
    for name in ("runs", "summary", "slices", "trends", "transitions"):
        assert len(content[name]) == len(getattr(hostile, name)) > 0, name
    assert [one["run_id"] for one in content["runs"]] == NAMES
    assert len(content["comparisons"]) == len(hostile.comparisons) == 3


def test_what_there_is_no_data_for_is_named_with_the_reason(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    one = report(rs.load_results(write_run("a", RUN_A)), golden)
    assert one.comparisons == () and "## Results" in one.to_markdown()
    left_out = dict(one.left_out.to_numpy().tolist())
    of_answers = [
        "Refusing as a decision", "Quality beside coverage", "Failure causes of wrong answers",
        "What if a threshold refused",
    ]  # fmt: skip
    of_two = ["Leaderboard", "Gate", "How failure causes changed"]
    assert set(left_out) == {*of_two, *of_answers, "Trend"}
    for part in of_two:
        says(left_out[part], "one run")
    for part in of_answers:
        says(left_out[part], "refused", "answerable")
    says(left_out["Trend"], "created_at")


def test_the_run_summary_says_what_changed_and_what_came_of_it(write_golden, write_run):
    ids = [f"q{n}" for n in range(20)]
    golden = [{"id": one, "query": "?", "expected_doc_ids": ["d"]} for one in ids]
    files = []
    for day, (name, doc) in enumerate({"old": "x", "new": "d"}.items(), 1):
        about = {"created_at": f"2026-01-0{day}T00:00:00Z", "config": {"depth": day * 10, "k": 1}}
        records = [record(one, [hit("c", doc, 1)]) for one in ids]
        files.append(write_run(name, records, note=f"of {name}", **about))
    with warned("old"):
        made = report(rs.load_results(files), rs.load_golden(write_golden(golden)))
    blocks = made.to_markdown().split("\n\n")
    (table,) = [one.split("\n") for one in blocks if one.startswith("| run | description")]
    old, new = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]
    assert old[:3] == ["old", "of old", "—"]
    assert old[3].startswith("hit@5 0.00 (20 / 20); mrr@10 0.00 (20 / 20)")
    assert new[:3] == ["new", "of new", "depth: 10 → 20"] and new[4] == "old"
    assert new[5].startswith("better (better: retrieval, passed")


def test_a_gate_and_what_may_differ_pass_through(pair):
    made = rs.evaluate(*pair).report(gate={"hit@7": 0.5}, rule="interval", vary="eval_k")
    assert made.gates[0].rule == "interval"
    assert made.gates[0].table["metric"].tolist() == ["hit@7", "failed queries"]
    assert "declared" in made.comparisons[0].config_diff
    alone = made.comparisons[0].report(gate={"hit@7": 1})
    says(alone.to_markdown(), "###", "Gate", "passed")


@pytest.mark.parametrize(
    ("options", "field", "named"),
    [
        ({"vary": ["nothing"]}, "vary", "nothing"),
        ({"allow_different": ["colour"]}, "allow_different", "colour"),
        ({"gate": {"mrrr": 0.1}}, "metrics", "mrrr"),
        ({"history": "store"}, "history", "str"),
    ],
)
def test_options_of_a_report_that_mean_nothing_are_refused(pair, options, field, named):
    with refused(named, field=field):
        report(*pair, **options)


def test_a_history_gives_the_trend(write_golden, write_run, tmp_path):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    files = [
        write_run(name, RUN_A, created_at=f"2026-01-0{day}T00:00:00Z")
        for day, name in enumerate("ab", 1)
    ]
    results, store = rs.load_results(files), rs.RunStore(tmp_path / "store")
    store.save(results, golden=golden)
    of_metric = report(results, golden, history=store).trends.groupby("metric")["run_id"].agg(list)
    assert of_metric.to_dict() == {name: ["a", "b"] for name in ("hit@5", "mrr@10", "passed")}


needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine to show the page"
)


@pytest.mark.slow
@needs_chromium
def test_the_browser_of_these_tests_sees_loads_and_errors(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text(
        '<title>bad</title><img src="missing.png"><script>document.title = "taken";'
        " nothing()</script>"
    )
    with Browser() as browser:
        browser.open(page)
        assert any(url.endswith("missing.png") for url in browser.loaded) and any(
            "nothing is not defined" in one for one in browser.complaints
        )
        assert browser.run("document.title") == "taken"


@pytest.mark.slow
@needs_chromium
def test_every_section_survives_markup_in_all_that_it_shows(hostile, tmp_path):
    out = hostile.write(tmp_path / "report.html")
    read(out.read_text(encoding="utf-8"))
    with Browser() as browser:
        browser.open(out)
        assert browser.complaints == [] and browser.loaded == [out.as_uri()]
        assert browser.run("document.title") == NASTY[0]
        images = "[...document.images].every(image => image.complete && image.naturalWidth > 100)"
        assert browser.run(images)
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), (
            "long lines are broken, wide tables scroll in themselves"
        )
        heads = "[...document.querySelectorAll('h2, h3')].map(head => head.textContent)"
        titles = browser.run(heads)
        assert all(any(one.startswith(title) for one in titles) for title in SECTIONS)
        cells = browser.run("[...document.querySelectorAll('td')].map(cell => cell.textContent)")
        assert {NASTY[0], NASTY[5]} <= set(cells)
        # every table sorts by every heading without a complaint, and keeps its rows
        rows = browser.run("document.querySelectorAll('tbody tr').length")
        browser.run("document.querySelectorAll('th button').forEach(button => button.click())")
        assert browser.run("document.querySelectorAll('tbody tr').length") == rows
        assert browser.run(
            "[...document.querySelectorAll('.rs-table thead')].every(head =>"
            " head.querySelector('[aria-sort=ascending]'))"
        )
        assert browser.complaints == []


@pytest.mark.slow
@needs_chromium
def test_a_table_sorts_by_the_numbers_of_a_column_and_what_is_missing_comes_last(tmp_path):
    table = pd.DataFrame({"n": ["10 / 20", "9 / 20", "—", "2 / 20"]})
    (tmp_path / "page.html").write_text(to_html("t", [Section("s", table=table)]), encoding="utf-8")
    cells = "[...document.querySelectorAll('td')].map(cell => cell.textContent)"
    with Browser() as browser:
        browser.open(tmp_path / "page.html")
        browser.run("document.querySelector('th button').click()")
        assert browser.run(cells) == ["2 / 20", "9 / 20", "10 / 20", "—"]
        browser.run("document.querySelector('th button').click()")
        assert browser.run(cells) == ["10 / 20", "9 / 20", "2 / 20", "—"]

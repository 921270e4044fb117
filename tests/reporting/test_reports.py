"""Reports.

The same frames give the same page, every text is escaped, and a page needs nothing but itself.
"""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import pandas as pd
import pytest
from browser import CHROMIUM, Browser
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, hit, record
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.gate import gate
from ragscore.cli import main
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


@pytest.fixture
def two(write_golden, write_run):
    """Three questions, two runs whose answers, configs and questions are full of markup."""
    rows = [
        one | {"query": text, "difficulty": NASTY[1]}
        for one, text in zip(THREE_QUERIES, NASTY, strict=False)
    ]
    golden = rs.load_golden(write_golden(rows))
    files = []
    for name, records, day in (("old", RUN_A, 1), ("<i>new", RUN_B, 2)):
        said = [
            one | {"answer": answer(text)}
            for one, text in zip(records, (NASTY[0], NASTY[5], NASTY[8]), strict=True)
        ]
        file = write_run(
            f"run{day}",
            said,
            created_at=f"2026-01-0{day}T00:00:00Z",
            note=NASTY[3],
            config={"chunker_version": "test@1", "note": NASTY[day]},
        )
        (file.parent / "run.json").write_text(
            (file.parent / "run.json").read_text().replace(f'"run{day}"', f'"{name}"')
        )
        files.append(file)
    return rs.load_results(files[::-1]), golden


def same(a: rs.Comparison, b: rs.Comparison) -> None:
    for name in FRAMES:
        assert_frame_equal(getattr(a, name), getattr(b, name))
    values = ("baseline", "candidate", "level", "k", "policies", "profile", "aggregates", "counts")
    assert [getattr(a, name) for name in values] == [getattr(b, name) for name in values]


def test_a_comparison_reloads_from_its_json(pair):
    cmp = compare_runs(*pair, "a", "b", empty_gold="zero")
    again = rs.Comparison.from_json(cmp.to_json())
    same(again, cmp)
    assert (
        again.to_json() == cmp.to_json()
        and again.to_markdown() == cmp.to_markdown()
        and again.policies["empty_gold"] == "zero"
    )


@pytest.mark.large
def test_frames_without_rows_keep_their_columns(write_golden, write_run):
    results = rs.load_results([write_run(name, [record("q1", [])]) for name in "ab"])
    cmp = compare_runs(results, rs.load_golden(write_golden(THREE_QUERIES)), "a", "b")
    assert not len(cmp.targets) and not len(cmp.config_diff)
    same(rs.Comparison.from_json(cmp.to_json()), cmp)


@pytest.mark.slow
def test_a_comparison_by_a_profile_reloads_with_it(pair):
    cmp = compare_runs(*pair, "a", "b", profile="kebab")
    again = rs.Comparison.from_json(cmp.to_json(own=True))
    same(again, cmp)
    assert again.to_json() == cmp.to_json(), "the report of that harness"
    assert rs.Comparison.from_json(cmp.to_json()).counts == cmp.counts, "that report, too"
    mine = replace(PROFILES["kebab"], name="mine")
    text = compare_runs(*pair, "a", "b", profile=mine).to_json(own=True)
    assert rs.Comparison.from_json(text, profile=mine).profile == mine
    with refused("mine", field="profile"):
        rs.Comparison.from_json(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["JSON"]),
        ("[]", ["baseline", "candidate", "match"]),
        ('{"baseline": "a"}', ["candidate", "match"]),
    ],
)
def test_what_is_no_comparison_is_refused(text, named):
    with refused(*named, field="text"):
        rs.Comparison.from_json(text)


def test_rows_that_do_not_fit_their_columns_are_refused(pair):
    content = json.loads(compare_runs(*pair, "a", "b").to_json())
    del content["targets"][0]["change"]
    with refused("dtypes", field="targets"):
        rs.Comparison.from_json(json.dumps(content))
    content["targets"] = []
    content["deltas"][0]["n"] = "many"
    with refused("many", field="deltas"):
        rs.Comparison.from_json(json.dumps(content))


@pytest.mark.slow
def test_a_report_reloads_into_the_same_pages(two):
    made = report(*two)
    again = rs.Report.from_json(made.to_json())
    for name in (
        "runs",
        "config",
        "summary",
        "slices",
        "decisions",
        "quality",
        "trends",
        "faults",
        "transitions",
        "curve",
        "left_out",
    ):
        assert_frame_equal(getattr(again, name), getattr(made, name))
    assert again.order == made.order and set(made.order) == set(made.runs["run_id"])
    same(again.comparisons[0], made.comparisons[0])
    assert (
        again.to_html() == made.to_html()
        and again.to_markdown() == made.to_markdown()
        and again.to_json() == made.to_json()
    )
    with refused("dtypes", "title", "runs", field="text"):
        rs.Report.from_json("{}")


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes_whatever_the_style_of_the_notebook(two):
    import matplotlib.pyplot as plt

    opened = plt.get_fignums()
    first = report(*two).to_html()
    with plt.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.hashsalt": None}):
        assert report(*two).to_html() == first
    assert plt.get_fignums() == opened, "no figure is left open"


@pytest.mark.slow
def test_runs_are_compared_in_order_of_time_or_with_one_baseline(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    days = {"late": 3, "early": 1, "middle": 2}
    results = rs.load_results(
        [
            write_run(name, RUN_A, created_at=f"2026-01-0{day}T00:00:00Z", config={"k": day})
            for name, day in days.items()
        ]
    )

    def pairs(made):
        return [(one.baseline, one.candidate) for one in made.comparisons]

    made = report(results, golden)
    assert made.runs["run_id"].tolist() == ["early", "middle", "late"]
    assert pairs(made) == [("middle", "late")]
    of_middle = report(results, golden, baseline="middle")
    assert pairs(of_middle) == [("middle", "late"), ("middle", "early")]
    gated = report(results, golden, gate={"hit@5": 1.0})
    assert pairs(gated) == [("middle", "late"), ("early", "middle")], "each is asked to pass"
    text = made.to_markdown()
    assert (
        text.index("### All pairs")
        < text.index("## late against middle")
        < text.index("## Results")
        < text.index("## The runs")
        < text.index("### Configuration")
    )
    assert "| k | 1 | 2 | 3 | differs |" in text


@pytest.mark.slow
def test_markdown_and_page_hold_the_same_tables(two):
    made = report(*two)
    for one in (made.to_markdown(), html.unescape(made.to_html())):
        says(re.sub("<[^>]*>", "\n", one), "2 win", "1 loss")
        assert "question q3" not in one and "By difficulty" in one and "Configuration" in one


@pytest.mark.slow
def test_no_text_opens_a_tag_a_cell_or_a_heading_in_markdown(two):
    text = report(*two, title="# <b>").to_markdown()
    assert "<" not in text and "\n# no heading" not in text and text.startswith("# # &lt;b>\n")
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if lines[0].startswith("|"):
            assert (
                len({len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))) for line in lines})
                == 1
            ), "every row has all its cells"


def first(text: str) -> int:
    """The number that a cell such as 5 / 6 starts with."""
    return int(text.split()[0])


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
    "i", "svg", "line", "circle", "map", "area",
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


@pytest.mark.slow
def test_every_text_of_a_report_is_text(two):
    page = read(report(*two, title=NASTY[0]).to_html())
    shown = "".join(page.texts)
    for text in (NASTY[0], NASTY[1], NASTY[2], "<i>new against old"):
        assert text in shown


@given(st.lists(st.text() | st.sampled_from(NASTY), min_size=3, max_size=6), st.sampled_from(NASTY))
def test_no_text_breaks_out_of_a_page(texts, title):
    table = pd.DataFrame(dict.fromkeys((texts[0] + "1", texts[1] + "2", "answers"), texts))
    part = Section(title, 2, tuple(texts), (), table, (texts[-1],))
    page = read(to_html(title, [part]))
    assert page.tags.count("td") == 3 * len(texts) and page.tags.count("p") == len(texts) + 1
    shown = "".join(page.texts)
    assert all(line in shown for text in texts for line in visible(text).split("\n"))


@pytest.mark.slow
def test_a_comparison_alone_is_a_page(pair, tmp_path):
    cmp = compare_runs(*pair, "a", "b")
    text = cmp.report(tmp_path / "cmp.html").to_html()
    assert (tmp_path / "cmp.html").read_text(encoding="utf-8") == text and read(text).tags.count(
        "img"
    ) == 1
    profile = compare_runs(*pair, "a", "b", profile="kebab").report()
    sections = profile.to_html().partition('<details class="part"')[2]
    assert "hit_at_k.1" in sections.replace("<wbr>", "") and "ndcg" not in sections
    with refused(".pdf", field="path"):
        cmp.report(tmp_path / "cmp.pdf")


@pytest.mark.slow
def test_one_run_without_answers_still_has_a_report(write_golden, write_run):
    made = report(
        rs.load_results(write_run("a", RUN_A)), rs.load_golden(write_golden(THREE_QUERIES))
    )
    text = made.to_markdown()
    assert (
        made.comparisons == ()
        and "## Results" in text
        and "| How failure causes changed | one run |" in text
    )
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert not any(
        word in line
        for line in headings
        for word in ("Refusing", "against", "Leaderboard", "fault", "threshold")
    )
    assert rs.Report.from_json(made.to_json()).to_html() == made.to_html()


@pytest.mark.slow
def test_the_command_writes_page_and_markdown(write_golden, write_run, tmp_path, capsys):
    files = [str(write_run("a", RUN_A)), str(write_run("b", RUN_B))]
    golden, out = str(write_golden(THREE_QUERIES)), tmp_path / "report.html"
    assert (
        main(["report", *files, "--golden", golden, "-o", str(out), "--markdown", "--title", "T"])
        == 0
    )
    says(capsys.readouterr().err, "report.html")
    assert main(["report", *files, "--golden", golden, "--title", "T"]) == 0
    assert capsys.readouterr().out == out.with_suffix(".md").read_text(encoding="utf-8")
    results = rs.load_results(files)
    assert (
        out.read_text(encoding="utf-8")
        == report(results, rs.load_golden(golden), title="T").to_html()
    )
    assert main(["report", *files, "--golden", golden, "--markdown"]) == 2
    says(capsys.readouterr().err, "--markdown")
    assert main(["report", *files, "--golden", golden, "--baseline", "c"]) == 2
    says(capsys.readouterr().err, "c", "a, b")


LONG = "long " + "y" * 10_000
NAMES = [NASTY[0], NASTY[2], NASTY[1], LONG]


@pytest.fixture
def hostile(write_golden, write_run):
    """Four runs of one system on four days whose names, notes, configs, questions and answers are
    markup; some refuse, fail or answer what they shouldn't.
    """
    rows = [
        {
            "id": f"q{n}",
            "query": text,
            "expected_doc_ids": ["d"],
            "must_contain": ["right"],
            "difficulty": text,
        }
        for n, text in enumerate(NASTY)
    ] + [{"id": f"r{n}", "query": text, "answerable": False} for n, text in enumerate(NASTY[:4])]
    golden = rs.load_golden(write_golden(rows))
    files = []
    for day, name in enumerate(NAMES):
        said = [
            record(
                f"q{n}", [hit(f"c{n}", "d" if (n + day) % 3 and (day != 2 or n > 5) else "x", 1)],
                answer=answer("right " * ((n + day) % 2) + text, grounded=(n + 2 * day) % 5 > 0),
                error=NASTY[2] if n == 3 + day else None,
            )
            for n, text in enumerate(NASTY)
        ]  # fmt: skip
        said += [
            record(f"r{n}", [hit(f"c{n}", "x", 1)], answer=answer(text, grounded=n != day))
            for n, text in enumerate(NASTY[:4])
        ]
        described = {
            "system": NASTY[1],
            "note": (NASTY[0], NASTY[5], NASTY[2], LONG)[day],
            "created_at": f"2026-01-0{day + 1}T00:00:00Z",
        }
        file = write_run(
            f"run{day}",
            said,
            **described,
            config={"chunker_version": "t@1", NASTY[2]: NASTY[day], NASTY[0]: LONG if day else 1},
        )
        described_run = json.loads((file.parent / "run.json").read_text()) | {"run_id": name}
        (file.parent / "run.json").write_text(json.dumps(described_run))
        files.append(file)
    return rs.load_results(files), golden


ALLOWED_LOSS = {"mrr@10": 0.01, "hit@5": 0.9, "judge_correctness": 0}
SECTIONS = (
    "Run by run", "Leaderboard", "Results", "By difficulty", "Trend",
    "Refusing as a decision", "Quality beside coverage", "What if a threshold refused",
    "Failure causes of wrong answers", "How failure causes changed", "The runs", "Configuration",
    "Largest regressions",
    "Gate failed by mrr@10, 1 not evaluated", "Gate passed, 1 not evaluated",
)  # fmt: skip


@pytest.mark.slow
def test_several_runs_fill_every_section_and_say_what_is_left_out(hostile):
    made = report(*hostile, gate=ALLOWED_LOSS, baseline=NAMES[0])
    text = made.to_markdown()
    for title in SECTIONS:
        assert re.search(rf"^##+ {title}", text, flags=re.M), title
    assert not len(made.left_out) and "## Left out" not in text
    assert [one.exit_status for one in made.gates] == [
        one.exit_status for one in (gate(cmp, ALLOWED_LOSS) for cmp in made.comparisons)
    ]
    again = rs.Report.from_json(made.to_json())
    assert again.to_markdown() == text and [one.answer for one in again.gates] == [
        one.answer for one in made.gates
    ]
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if lines[0].startswith("|"):
            assert (
                len({len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))) for line in lines})
                == 1
            ), lines[0][:200]
    assert "<" not in text


@pytest.mark.large
def test_what_there_is_no_data_for_is_named_with_the_reason(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    one = report(rs.load_results(write_run("a", RUN_A)), golden)
    left_out = dict(one.left_out.to_numpy().tolist())
    of_answers = [
        "Refusing as a decision", "Quality beside coverage", "Failure causes of wrong answers",
        "What if a threshold refused",
    ]  # fmt: skip
    of_two = ["Leaderboard", "Gate", "How failure causes changed"]
    assert set(left_out) == {*of_two, *of_answers, "Trend"}
    (reason,) = {left_out[part] for part in of_two}
    says(reason, "one run")
    says(left_out["Trend"], "created_at")
    (reason,) = {left_out[part] for part in of_answers}
    says(reason, "refused", "answerable")
    days = [write_run(name, RUN_A, created_at="2026-01-01T00:00:00Z", system=name) for name in "bc"]
    two = report(rs.load_results(days), golden)
    reasons = dict(two.left_out.to_numpy().tolist())
    says(reasons["Gate"], "gate=", "--max-drop")
    says(reasons["Trend"], "system", "two")
    assert f"| Trend | {reasons['Trend']} |" in two.to_markdown()
    assert not len(two.comparisons[0].report().left_out)


@pytest.mark.slow
def test_the_run_summary_says_what_changed_and_what_came_of_it(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]} for n in range(20)])
    )
    files = []
    for day, (name, note, found) in enumerate(
        (("old", "as it was", 0), ("new", "k raised", 20)), 1
    ):
        records = [record(f"q{n}", [hit("c", "d" if n < found else "x", 1)]) for n in range(20)]
        files.append(
            write_run(
                name,
                records,
                note=note,
                created_at=f"2026-01-0{day}T00:00:00Z",
                system="s",
                config={"depth": day * 10, "same": 1},
            )
        )
    with warned("old"):
        made = report(rs.load_results(files), golden)
    (table,) = [
        block
        for block in made.to_markdown().split("\n\n")
        if block.startswith("| run | description")
    ]
    old, new = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.split("\n")[2:]
    ]
    assert old[:3] == ["old", "as it was", "—"] and old[3].startswith(
        "hit@5 0.00 (20 / 20); mrr@10 0.00 (20 / 20)"
    )
    assert (
        new[:3] == ["new", "k raised", "depth: 10 → 20"]
        and new[4] == "old"
        and new[5].startswith("better (better: retrieval, passed")
    )


@pytest.mark.slow
def test_gate_margins_and_what_may_differ_pass_through(pair, write_run):
    results, golden = pair
    made = report(
        results,
        golden,
        gate={"hit@7": 0.5},
        rule="interval",
        margins={"mrr@10": 0.9},
        vary="eval_k",
    )
    assert made.gates[0].rule == "interval" and made.gates[0].table["metric"].tolist() == ["hit@7"]
    expected = (
        compare_runs(results, golden, "a", "b", margins={"mrr@10": 0.9})
        .deltas.set_index("metric")
        .loc["mrr@10", "verdict"]
    )
    assert made.comparisons[0].deltas.set_index("metric").loc["mrr@10", "verdict"] == expected
    assert "declared" in made.comparisons[0].config_diff
    with refused("nothing", field="vary"):
        report(results, golden, vary=["nothing"])
    with refused("colour", field="allow_different"):
        report(results, golden, allow_different=["colour"])
    with refused("mrrr", field="metrics"):
        report(results, golden, gate={"mrrr": 0.1})
    with refused("str", field="history"):
        report(results, golden, history="store")
    alone = made.comparisons[0].report(gate={"hit@7": 1})
    says(alone.to_markdown(), "###", "Gate", "passed")


@pytest.mark.slow
def test_a_history_gives_the_trend(write_golden, write_run, tmp_path):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    results = rs.load_results(
        [
            write_run(name, RUN_A, created_at=f"2026-01-0{day}T00:00:00Z")
            for day, name in enumerate("ab", 1)
        ]
    )
    store = rs.RunStore(tmp_path / "store")
    store.save(results, golden=golden)
    made = report(results, golden, history=store)
    assert made.trends.groupby("metric")["run_id"].agg(list).to_dict() == {
        name: ["a", "b"] for name in ("hit@5", "mrr@10", "passed")
    }


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
    out = tmp_path / "report.html"
    made = report(*hostile, out, gate=ALLOWED_LOSS, baseline=NAMES[0], title=NASTY[0])
    assert (
        made.to_html() == rs.Report.from_json(made.to_json()).to_html() == out.read_bytes().decode()
    )
    with Browser() as browser:
        browser.open(out)
        assert browser.complaints == [] and browser.loaded == [out.as_uri()]
        assert browser.run("document.title") == NASTY[0]
        assert browser.run(
            "[...document.images].every(image => image.complete && image.naturalWidth > 100)"
        )
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), (
            "long lines are broken, wide tables scroll in themselves"
        )
        titles = browser.run(
            "[...document.querySelectorAll('h2, h3')].map(head => head.textContent)"
        )
        assert all(any(one.startswith(title) for one in titles) for title in SECTIONS)
        assert browser.run(
            "[...document.querySelectorAll('td')].some(cell => cell.textContent === "
            + json.dumps(NASTY[0])
            + ")"
        )
        # every table sorts by every heading without a complaint, and keeps its rows
        rows = browser.run("document.querySelectorAll('tbody tr').length")
        browser.run("document.querySelectorAll('th button').forEach(button => button.click())")
        assert browser.run("document.querySelectorAll('tbody tr').length") == rows
        assert (
            browser.run(
                "[...document.querySelectorAll('.rs-table thead')].every(head =>"
                " head.querySelector('[aria-sort=ascending]'))"
            )
            and browser.complaints == []
        )


@pytest.mark.slow
@needs_chromium
def test_a_report_full_of_markup_loads_nothing_complains_of_nothing_and_sorts(
    write_golden, write_run, tmp_path
):
    rows = [
        {"id": f"q{n}", "query": text, "expected_doc_ids": ["d"], "difficulty": text}
        for n, text in enumerate(NASTY)
    ]
    golden = rs.load_golden(write_golden(rows))
    runs = [
        write_run(
            name,
            [
                record(
                    f"q{n}", [hit(f"c{n}", "d" if (n + side) % 2 else "x", 1)], answer=answer(text)
                )
                for n, text in enumerate(NASTY)
            ],
            note=NASTY[0],
        )
        for side, name in enumerate(("a", "b"))
    ]
    out = tmp_path / "report.html"
    report(rs.load_results(runs), golden, out, title=NASTY[0])
    with Browser() as browser:
        browser.open(out)
        assert browser.complaints == [] and browser.loaded == [out.as_uri()]
        assert browser.run("document.title") == NASTY[0]
        assert browser.run(
            "[...document.images].every(image => image.complete && image.naturalWidth > 100)"
        )
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), (
            "long lines are broken, wide tables scroll in themselves"
        )
        texts = (
            "[...[...document.querySelectorAll('table')].find(t =>"
            " t.tHead.textContent.startsWith('query_id')).tBodies[0].rows].map(r =>"
            " r.cells[{}].textContent)"
        )
        assert set(browser.run(texts.format(2))) >= {NASTY[0], NASTY[5]}
        button = (
            "[...document.querySelectorAll('th button')].find(b => b.textContent === 'n /"
            " expected')"
        )
        column = (
            f"[...{button}.closest('table').tBodies[0].rows].map(r =>"
            f" r.cells[{button}.parentElement.cellIndex].textContent)"
        )
        before = browser.run(column)

        browser.run(f"{button}.click()")
        assert (
            browser.run(column) == sorted(before, key=first)
            and browser.run(f"{button}.parentElement.getAttribute('aria-sort')") == "ascending"
        )
        browser.run(f"{button}.click()")
        assert browser.run(column) == sorted(before, key=first, reverse=True)
        ranks = "find(b => b.textContent === 'rank_baseline')"
        browser.run(f"[...document.querySelectorAll('th button')].{ranks}.click()")
        assert browser.run(texts.format(3)) == sorted(
            browser.run(texts.format(3)), key=lambda text: (text == "—", text)
        ), "what is missing comes last"
        assert browser.complaints == []

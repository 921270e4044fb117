"""Texts that mean no good, as every name and text of files and models, through every way out.

A page, a notebook, a terminal, a Markdown renderer, a figure and a JSON reader get them; none may
follow them, fail, or be told of a character that it can't show.
"""

import contextlib
import hashlib
import json
import random
import re
import unicodedata
import warnings
from base64 import b64encode
from html.parser import HTMLParser
from types import SimpleNamespace

import matplotlib
import matplotlib.pyplot as plt
import pytest
from conftest import answer, hit, record, times
from matplotlib.text import Text

import ragscore as rs
from ragscore.cli import main
from ragscore.cli.files import _shown
from ragscore.frames.escaping import visible
from ragscore.golden.sheet import label_sheet

matplotlib.use("Agg")

HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><svg/onload=alert(1)>",
    "]]>--></style></title>", "<a href='javascript:alert(1)'>a</a>", "&lt;b&gt; &#60;i&#62; &amp;",
    "[x](javascript:alert(1))", "![x](http://example.org/x.png)", "<http://example.org>",
    "http://example.org/a www.example.org", "[x]: http://example.org\n\n[x]", "[a][b] [^1]",
    "| a | b |\n|---|---|\n| c | d |", "`a` ``` ~~~ ~~b~~", "# a\n\n- b\n\n> c\n\n---\n\n1. d",
    "*a* **b** _c_ __d__", "\\", "a\\|b", "<!-- a", "\x1b[2J\x1b]0;owned\x07", "a\rb\x08\x08c",
    "\x9b31m", "nul\0here", "\x7f\x1f", r"$\nothing$", "$a_b^{c$", r"$$ \frac{a} $", "_a", "a_b^c{",
    "\u202egnp.exe\u2066", "x" * 5_000, "long " * 500, '=HYPERLINK("a")',
    "+1-1@SUM", "{a} {0} {{b}} ${c}", "%s %d %(a)s %", "../../etc/passwd", "C:\\con\\..\\aux",
    "問い 질문 💩", "\u2028line\u2029", "\ufeffa", "a\u200bb", "\ufffe\uffff", "\t\v\f tabs",
    "e\u0301",
]  # fmt: skip
NO_TEXT = ["lone \ud800", "\udfff"]  # no file holds them: readers refuse them
PIECES = "<>&\"'`[]()!|\\*_~#-+=$^{}%@:/.\n\r\t\x00\x1b\x9b\u202e\u2028 ab1é中💩"


def texts(seed: int) -> list[str]:
    """Every text of the list and as many generated ones, mixed; the first one is each's in turn."""
    chance = random.Random(seed)
    made = ["".join(chance.choices(PIECES, k=chance.randrange(1, 30))) for _ in HOSTILE]
    mixed = chance.sample([*HOSTILE, *made], 2 * len(HOSTILE))
    return [HOSTILE[seed % len(HOSTILE)], *mixed]


class Page(HTMLParser):
    """The elements, attributes, texts and scripts that a browser would find."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, attrs))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")


TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
OURS = TABLE | {
    "p", "b", "br", "div", "ul", "li", "span", "small", "svg", "line", "circle", "i", "mark", "wbr",
    "style", "script", "details", "summary",
}  # fmt: skip
ATTRIBUTES = {
    "class", "style", "border", "title", "role", "scope", "type", "tabindex", "aria-label",
    "aria-sort", "data-lm-suppress-shortcuts", "width", "height", "x1", "x2", "y1", "y2", "stroke",
    "stroke-width", "stroke-dasharray", "cx", "cy", "r", "fill", "opacity", "aria-hidden", "id",
    "colspan", "rowspan", "align", "scoped",
}  # fmt: skip
OF_PAGE = {
    "html", "head", "meta", "link", "title", "body", "h1", "h2", "h3", "nav", "a", "pre", "figure",
    "img", "main", "header", "section", "ol", "footer",
}  # fmt: skip
ATTRIBUTES_OF_PAGE = {
    "href", "src", "alt", "rel", "name", "content", "charset", "http-equiv", "lang",
    "aria-labelledby", "open", "data-options", "hidden",
}  # fmt: skip


def assert_html(page: str, is_page: bool = False) -> None:
    """No element, attribute, address or script that isn't ours."""
    assert_shown(page)
    found = Page(page)
    tags = [tag for tag, _ in found.elements]
    assert set(tags) <= OURS | (OF_PAGE if is_page else set()), set(tags) - OURS
    assert tags.count("title") == int(is_page)
    policy = re.findall(r"'sha256-([^']+)'", page)
    for script in found.scripts:
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        is_data = is_page and re.fullmatch("[A-Za-z0-9+/=]+", script)  # of the explorer, packed
        assert is_data or digest in policy
    for tag, attributes in found.elements:
        for name, value in attributes:
            assert name in ATTRIBUTES or (is_page and name in ATTRIBUTES_OF_PAGE), (tag, name)
            if name in ("href", "src"):
                assert re.match("data:image/svg|#|data:,", str(value)), (tag, value)
            if name == "style":
                assert "url(" not in str(value) and "expression" not in str(value)


def assert_shown(text: str) -> None:
    """Nothing but line ends and tabs controls a terminal; any file holds the text."""
    bad = {one for one in text if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")}
    assert not bad - {"\n", "\t"}, bad
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
    text.encode()


def assert_markdown(text: str) -> None:
    """Rendered, it has our headings, lists and tables, and no link, image, code or raw tag."""
    assert_shown(text)
    mistune = pytest.importorskip("mistune")
    plugins = ["table", "url", "strikethrough", "footnotes", "task_lists", "math"]
    found = Page(str(mistune.create_markdown(escape=False, plugins=plugins)(text)))
    tags = {tag for tag, _ in found.elements}
    assert tags <= TABLE | {"h1", "h2", "h3", "p", "ul", "li"}, (tags, text)
    assert {name for _, of_tag in found.elements for name, _ in of_tag} <= {"style"}


def assert_json(text: str) -> None:
    """Strict JSON that any file and any script can hold."""
    json.loads(text, parse_constant=pytest.fail)
    assert_shown(text)


FORMS = {
    "__repr__": assert_shown, "to_text": assert_shown, "_repr_html_": assert_html,
    "to_html": assert_html, "to_markdown": assert_markdown, "to_json": assert_json,
}  # fmt: skip


SEEDS = range(times(3))


@pytest.fixture(params=SEEDS)
def hostile(request, tmp_path, write_run):
    """Two runs and a golden set whose every name and text is hostile; the first is of the list."""
    seed = request.param
    found = texts(seed)
    take = iter(found * 2)
    # ids stay apart by a number, each behind its text: what begins it is the text's own
    names = {name: f"{next(take)} {name[-1]}" for name in ("q1", "q2", "q3", "d1", "d2", "d3")}
    golden = [
        {
            "id": names[f"q{n}"], "query": next(take), "expected_doc_ids": [names[f"d{n}"]],
            "reference_answer": next(take), "must_contain": [next(take)], "tags": [next(take)],
        } | {name: next(take) for name in ("category", "difficulty", "lang", "group")}
        for n in (1, 2, 3)
    ]  # fmt: skip
    kind, files = next(take), []
    runs = [f"{text} {n}" for n, text in enumerate((found[0], random.Random(seed).choice(found)))]
    for place, run_id in enumerate(runs):
        records = []
        for n in (1, 2, 3):
            hits = [
                hit(
                    next(take), names[f"d{1 + (n + rank * place) % 3}"], rank,
                    doc_path=next(take), heading_path=[next(take)], snippet=next(take),
                    score_kind=kind,
                )
                for rank in (1, 2)
            ]  # fmt: skip
            said = answer(next(take), grounded=n != 3, paths=[next(take)])
            records.append(record(names[f"q{n}"], hits, query=golden[n - 1]["query"], answer=said))
        records[1] |= {"error": next(take), "answer": None} if place else {}
        config = {"chunker_version": "test@1", f"k {next(take)}": next(take)}
        described = {
            "run_id": run_id, "system": f"{next(take)} {place}", "note": next(take),
            "config": config, "created_at": f"2026-01-0{place + 1}T00:00:00Z",
        }  # fmt: skip
        files.append(write_run(f"run{place}", records, **described))
    file = tmp_path / "golden.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in golden))
    with strict():
        ev = rs.evaluate(rs.load_results(files), rs.load_golden(file))
        own = ev.scores.reset_index()[["run_id", "query_id"]].astype("str")
        own[f"{found[0]} own"] = [0.25, 0.5, 0.75] * 2
        yield SimpleNamespace(
            seed=seed, ev=ev.with_columns(own), golden=file, files=files, runs=runs,
            metric=f"{found[0]} own", part=slice(seed % 3, None, 3),
        )  # fmt: skip


def told(call):
    """What a call returns; None where it refuses in an error that can be shown."""
    try:
        return call()
    except rs.DataError as error:
        assert_shown(str(error))
        return None


@contextlib.contextmanager
def strict():
    """Warnings of matplotlib are errors; ours must be fit for a terminal."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    for one in seen:
        assert_shown(str(one.message))
        assert not re.search("[Gg]lyph|mathtext|Matplotlib|font", str(one.message)), one.message


@pytest.mark.slow
def test_a_text_is_shown_and_never_followed_in_any_form_of_any_object(hostile, tmp_path):
    ev, (one, other) = hostile.ev, hostile.runs
    store = rs.RunStore(tmp_path / "st<b>re")
    told(lambda: store.save(ev))
    made = [
        lambda: ev, lambda: ev.results, lambda: ev.golden, lambda: ev.compare(one, other),
        lambda: ev.compare(one, other).gate(),
        lambda: ev.compare(one, other).gate({"hit@5": 0.0}),
        lambda: ev.leaderboard(baseline=one), lambda: rs.extras.score_diff(ev, one, other),
        ev.coverage, ev.refusals, ev.failures, lambda: rs.extras.risk_coverage(ev),
        lambda: rs.extras.retrievers(ev), lambda: ev.golden.health(ev),
        lambda: rs.extras.paraphrases(ev), lambda: ev.trend("hit@5"),
        lambda: ev.query(ev.golden.queries["query_id"].iloc[0]),
        lambda: ev.compare(one, other).slices("category"), lambda: store, lambda: ev.plot,
    ]  # fmt: skip
    shown = [found for make in made[hostile.part] if (found := told(make)) is not None]
    assert len(shown) > 5, "few are refused"
    for found in shown:
        for form, check in FORMS.items():
            if getattr(type(found), form, None) not in (None, object.__repr__):
                text = told(getattr(found, form))
                if text is not None:
                    check(text)


@pytest.mark.parametrize("text", NO_TEXT)
def test_a_text_that_no_file_can_hold_is_refused_in_words_that_any_terminal_holds(text, tmp_path):
    golden = tmp_path / "golden.jsonl"
    golden.write_text(json.dumps({"id": text, "query": "a", "expected_doc_ids": ["b"]}))
    with pytest.raises(rs.DataError) as refused:
        rs.load_golden(golden)
    assert_shown(str(refused.value))
    assert_shown(str(rs.DataError(text, file=text, field=text, allowed=text)))


@pytest.mark.slow
def test_a_text_is_a_text_in_every_figure(hostile):
    ev, plot, metric, runs = hostile.ev, rs.plot, hostile.metric, hostile.runs
    cmp = ev.compare(*runs)
    every = [
        lambda: plot.summary(ev.summary([metric])),
        lambda: plot.slices(ev.summary(metric, by="category")),
        lambda: plot.heatmap(ev.summary(metric, by="tags")),
        lambda: plot.scatter(ev.scores, metric, *runs),
        lambda: plot.forest(cmp.deltas, [metric], *runs),
        lambda: plot.outcomes({metric: 1, **cmp.counts}, *runs),
        lambda: plot.ranks(cmp),
        lambda: plot.metric_at_k(ev.summary()),
        lambda: plot.tradeoff(ev.summary(), metric),
        lambda: plot.refusals(ev.refusals().table),
        lambda: plot.failures(ev.failures(), *runs),
        lambda: plot.risk_coverage(rs.extras.risk_coverage(ev).curve),
        lambda: plot.trend(ev.trend(metric)),
    ]
    drawn = [ax for draw in every[hostile.part] if (ax := told(draw)) is not None]
    assert len(drawn) > 3
    for ax in drawn:
        ax.figure.draw_without_rendering()
    plt.close("all")


def letters(figure) -> str:
    """The texts of a figure without spaces, which labels break at."""
    shown = [text.get_text() for text in figure.findobj(Text) if text.get_visible()]
    return re.sub(r"\s", "", "|".join(shown))


@pytest.mark.parametrize(
    "run",
    [
        r"$\nothing$",
        "\x1b[31m",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("_a$b$", r"a^{\frac")),
    ],
)
def test_names_stand_in_figures_as_they_are_written(run, pair):
    results, golden = pair
    ev = rs.evaluate(results, golden, ["hit@5", "mrr"])
    scores = ev.scores.assign(run_id=ev.scores["run_id"].cat.rename_categories({"a": run}))
    scores[r"x_$\q$"] = 0.5
    table = ev.summary().astype({"run_id": "str"})
    table["run_id"] = table["run_id"].replace("a", run)
    for ax in (
        rs.plot.scatter(scores, r"x_$\q$", run, "b"),
        rs.plot.summary(table, ["hit@5", "mrr"]),
        rs.plot.heatmap(table.assign(slice=run)[["run_id", "slice", *table.columns[1:]]], "hit@5"),
    ):
        ax.figure.draw_without_rendering()
        assert visible(run) in letters(ax.figure)
        plt.close(ax.figure)


def test_texts_of_the_callers_own_axes_stay_formulas(pair):
    ev = rs.evaluate(*pair)
    ax = plt.subplots()[1]
    own = ax.text(0.5, 0.5, r"$\alpha$")
    rs.plot.summary(ev.summary(), ["hit@5"], ax=ax)
    assert own.get_parse_math() and not ax.title.get_parse_math()
    plt.close(ax.figure)


@pytest.mark.slow
def test_a_text_is_shown_and_never_followed_by_commands_pages_and_panels(hostile, tmp_path, capsys):
    ev, golden, runs, files = hostile.ev, str(hostile.golden), hostile.runs, hostile.files
    both = [*map(str, files), "--golden", golden]
    commands = [
        ["score", *both], ["score", *both, "--by", "category"], ["score", *both, "--json"],
        ["compare", *both], ["compare", *both, "--json"], ["compare", *both, "--profile=kebab"],
        ["gate", *both], ["gate", *both, "--markdown"], ["check", *map(str, files)],
        ["validate", golden], ["validate", golden, "--json"],
        ["score", runs[0], "--golden", golden], [runs[0]], ["score", f"--{runs[0]}"],
        ["report", *both, "--out", str(tmp_path / "report.md")],
    ]  # fmt: skip
    for command in commands[hostile.part]:
        assert main(command) in (0, 1, 2)
        said = capsys.readouterr()
        assert_shown(said.out + said.err)
        if "--json" in command and said.out:
            assert_json(said.out)
    made = ev.report(title=runs[0])
    assert_markdown(made.to_markdown())
    assert_json(made.to_json())
    assert_html(made.to_html(), is_page=True)
    sheet = label_sheet(ev.results, golden)
    parts = [part for _, part in sheet.groupby("query_id")]
    assert_shown(visible("".join(map(_shown, parts))))
    panel = pytest.importorskip("ragscore.golden.panel")
    for one in (*map(panel.query_html, parts), panel.error_html(rs.DataError(runs[0])),
                *(panel.hit_html(row) for _, row in sheet.iterrows())):  # fmt: skip
        assert_html(one)

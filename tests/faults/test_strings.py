"""Texts that mean no good, as every name and text of files and models, through every way out.

A page, a notebook, a terminal, a Markdown renderer, a figure and a JSON reader get them; none may
follow them, fail, or be told of a character that it can't show.
"""

import contextlib
import hashlib
import importlib.util
import json
import random
import re
import unicodedata
import warnings
from base64 import b64encode
from html.parser import HTMLParser

import matplotlib
import matplotlib.pyplot as plt
import pytest
from conftest import answer, hit, record
from matplotlib.text import Text

import ragscore as rs
from faults.size import times
from ragscore.cli import main
from ragscore.cli.golden import _shown
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
    "p",
    "b",
    "br",
    "div",
    "ul",
    "li",
    "span",
    "small",
    "svg",
    "line",
    "circle",
    "i",
    "mark",
    "wbr",
}
SORTED = {"style", "script", "details", "summary"}  # of a table that folds
ATTRIBUTES = {"class", "style", "border", "title", "role", "scope"}
ATTRIBUTES |= {"type", "tabindex", "aria-label", "aria-sort", "data-lm-suppress-shortcuts"}
DRAWN = {"width", "height", "x1", "x2", "y1", "y2", "stroke", "stroke-width", "stroke-dasharray"}
DRAWN |= {"cx", "cy", "r", "fill", "opacity", "aria-hidden"}


def assert_html(page: str, is_page: bool = False) -> Page:
    """No element, attribute, address or script that isn't ours."""
    assert_shown(page)
    found = Page(page)
    tags = [tag for tag, _ in found.elements]
    frame = {
        "html", "head", "meta", "link", "title", "style", "body", "h1", "h2", "h3", "nav", "a",
        "pre", "figure", "img", "main", "header", "section", "ol", "footer",
    } if is_page else set()  # fmt: skip
    assert set(tags) <= OURS | SORTED | frame, set(tags) - OURS - SORTED - frame
    assert tags.count("title") == int(is_page)
    policy = re.findall(r"'sha256-([^']+)'", page)
    for script in found.scripts:
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        is_data = is_page and re.fullmatch("[A-Za-z0-9+/=]+", script)  # of the explorer, packed
        assert is_data or digest in policy
    allowed = ATTRIBUTES | DRAWN | {"id", "colspan", "rowspan", "align", "scoped"}
    if is_page:
        allowed |= {
            "href", "src", "alt", "rel", "name", "content", "charset", "http-equiv", "lang",
            "aria-labelledby", "open", "data-options", "hidden",
        }  # fmt: skip
    for tag, attributes in found.elements:
        for name, value in attributes:
            assert name in allowed, (tag, name, value)
            if name in ("href", "src"):
                assert re.match("data:image/svg|#|data:,", str(value)), (tag, value)
            if name == "style":
                assert "url(" not in str(value) and "expression" not in str(value)
    return found


def assert_shown(text: str) -> None:
    """Nothing but line ends and tabs controls a terminal; any file holds the text."""
    bad = {one for one in text if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")}
    assert not bad - {"\n", "\t"}, bad
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
    text.encode()


def rendered(text: str) -> str:
    """The page that a renderer makes of Markdown, with all it can do switched on."""
    mistune = pytest.importorskip("mistune")
    plugins = ["table", "url", "strikethrough", "footnotes", "task_lists", "math"]
    return str(mistune.create_markdown(escape=False, plugins=plugins)(text))


def assert_markdown(text: str) -> None:
    """Rendered, it has our headings, lists and tables, and no link, image, code or raw tag."""
    assert_shown(text)
    found = Page(rendered(text))
    tags = {tag for tag, _ in found.elements}
    assert tags <= TABLE | {"h1", "h2", "h3", "p", "ul", "li"}, (tags, text)
    given = {name for _, attributes in found.elements for name, _ in attributes}
    assert given <= {"style"}, given


def assert_json(text: str) -> None:
    """Strict JSON that any file and any script can hold."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(text, parse_constant=refuse)
    assert_shown(text)


FORMS = {
    "__repr__": assert_shown, "to_text": assert_shown, "_repr_html_": assert_html,
    "to_html": assert_html, "to_markdown": assert_markdown, "to_json": assert_json,
}  # fmt: skip


def written(seed: int, folder):
    """Two runs and a golden set whose every name and text is hostile; the first is of the list."""
    found = texts(seed)
    take = iter(found * 2)
    # ids stay apart by a number, each behind its text: what begins it is the text's own
    names = {name: f"{next(take)} {name[-1]}" for name in ("q1", "q2", "q3", "d1", "d2", "d3")}
    chosen = random.Random(seed)
    runs = [f"{text} {n}" for n, text in enumerate((found[0], chosen.choice(found)))]
    golden = [
        {
            "id": names[f"q{n}"], "query": next(take), "expected_doc_ids": [names[f"d{n}"]],
            "category": next(take), "difficulty": next(take), "tags": [next(take)],
            "lang": next(take), "group": next(take), "reference_answer": next(take),
            "must_contain": [next(take)],
        }
        for n in (1, 2, 3)
    ]  # fmt: skip
    golden_file = folder / "golden.jsonl"
    golden_file.write_text("".join(json.dumps(one) + "\n" for one in golden), encoding="utf-8")
    kind = next(take)
    files = []
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
        file = folder / f"run{place}" / "per_query.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
        described = {
            "run_id": run_id, "system": f"{next(take)} {place}", "note": next(take),
            "created_at": f"2026-01-0{place + 1}T00:00:00Z",
            "config": {"chunker_version": "test@1", f"k {next(take)}": next(take)},
        }  # fmt: skip
        (file.parent / "run.json").write_text(json.dumps(described), encoding="utf-8")
        files.append(file)
    return golden_file, files, runs


def told(call):
    """What a call returns; None where it refuses in an error that can be shown."""
    try:
        return call()
    except rs.DataError as error:
        assert_shown(str(error))
        return None


def own_metric(ev, name: str):
    """The evaluation with a column of its own, named by the text."""
    own = ev.scores.reset_index()[["run_id", "query_id"]].astype("str")
    own[name] = [0.25, 0.5, 0.75] * 2
    return ev.with_columns(own)


@contextlib.contextmanager
def strict():
    """Warnings of matplotlib are errors; ours must be fit for a terminal."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    for one in seen:
        assert_shown(str(one.message))
        assert not re.search("[Gg]lyph|mathtext|Matplotlib|font", str(one.message)), one.message


def objects(ev, runs, store):
    """Return every object that is read by people, by name."""
    return {
        "evaluation": lambda: ev,
        "results": lambda: ev.results,
        "golden": lambda: ev.golden,
        "comparison": lambda: ev.compare(*runs),
        "gate": lambda: ev.compare(*runs).gate(),
        "losses": lambda: ev.compare(*runs).gate({"hit@5": 0.0}),
        "leaderboard": lambda: ev.leaderboard(baseline=runs[0]),
        "score diff": lambda: rs.extras.score_diff(ev, *runs),
        "coverage": ev.coverage,
        "refusals": ev.refusals,
        "failures": ev.failures,
        "risk": lambda: rs.extras.risk_coverage(ev),
        "retrievers": lambda: rs.extras.retrievers(ev),
        "health": lambda: ev.golden.health(ev),
        "paraphrases": lambda: rs.extras.paraphrases(ev),
        "trend": lambda: ev.trend("hit@5"),
        "query": lambda: ev.query(ev.golden.queries["query_id"].iloc[0]),
        "slices": lambda: ev.compare(*runs).slices("category"),
        "store": lambda: store,
        "plots": lambda: ev.plot,
    }


def check_forms(name: str, made) -> None:
    """Check every form in which an object is read."""
    for form, check in FORMS.items():
        if getattr(type(made), form, None) in (None, object.__repr__):
            continue
        text = told(getattr(made, form))
        if text is not None:
            try:
                check(text)
            except AssertionError as error:
                raise AssertionError(f"{name}.{form}: {error}") from error


def evaluated(seed: int, folder):
    """The runs of a round, scored, with a metric of their own."""
    folder.mkdir()
    golden, files, runs = written(seed, folder)
    ev = rs.evaluate(rs.load_results(files), rs.load_golden(golden))
    return own_metric(ev, f"{texts(seed)[0]} own"), golden, files, runs


def stored(ev, folder):
    """A store of this evaluation, in a folder of an odd name."""
    store = rs.RunStore(folder / "st<b>re")
    told(lambda: store.save(ev))
    return store


@pytest.mark.slow
def test_a_text_is_shown_and_never_followed_in_any_form_of_any_object(tmp_path):
    n_objects = 0
    for seed in range(times(3)):
        with strict():
            ev, _, _, runs = evaluated(seed, tmp_path / str(seed))
            made = objects(ev, runs, stored(ev, tmp_path / str(seed)))
            for name, make in list(made.items())[seed % 3 :: 3]:
                shown = told(make)
                if shown is not None:
                    check_forms(f"{seed}: {name}", shown)
                    n_objects += 1
    assert n_objects > 18, "few are refused"


@pytest.mark.parametrize("text", NO_TEXT)
def test_a_text_that_no_file_can_hold_is_refused_in_words_that_any_terminal_holds(text, tmp_path):
    golden = tmp_path / "golden.jsonl"
    golden.write_text(json.dumps({"id": text, "query": "a", "expected_doc_ids": ["b"]}))
    with pytest.raises(rs.DataError) as refused:
        rs.load_golden(golden)
    assert_shown(str(refused.value))
    assert_shown(str(rs.DataError(text, file=text, field=text, allowed=text)))


def figures(ev, runs, metric: str):
    """Every picture, of a metric that the text names where the picture takes one."""
    plot, cmp = rs.plot, ev.compare(*runs)
    return [
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


def letters(figure) -> str:
    """The texts of a figure without spaces, which labels break at."""
    shown = [text.get_text() for text in figure.findobj(Text) if text.get_visible()]
    return re.sub(r"\s", "", "|".join(shown))


@pytest.mark.slow
def test_a_text_is_a_text_in_every_figure(tmp_path):
    for seed in range(times(1)):
        with strict():
            ev, _, _, runs = evaluated(seed + 5, tmp_path / str(seed))
            metric = f"{texts(seed + 5)[0]} own"
            n_drawn = 0
            for draw in figures(ev, runs, metric):
                ax = told(draw)
                if ax is not None:
                    ax.figure.draw_without_rendering()
                    n_drawn += 1
                plt.close("all")
        assert n_drawn > 12


@pytest.mark.parametrize("run", [r"$\nothing$", "_a$b$", r"a^{\frac", "\x1b[31m"])
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
def test_a_text_is_shown_and_never_followed_by_commands_pages_and_panels(tmp_path, capsys):
    for seed in range(times(1)):
        folder = tmp_path / str(seed)
        ev, golden, files, runs = evaluated(seed + 1, folder)
        both = [str(one) for one in (*files, "--golden", golden)]
        commands = [
            ["score", *both], ["score", *both, "--by", "category"], ["score", *both, "--json"],
            ["compare", *both], ["compare", *both, "--json"], ["compare", *both, "--profile=kebab"],
            ["gate", *both], ["gate", *both, "--markdown"], ["check", *map(str, files)],
            ["validate", str(golden)], ["validate", str(golden), "--json"],
            ["score", runs[0], "--golden", str(golden)], [runs[0]], ["score", f"--{runs[0]}"],
            ["report", *both, "--out", str(folder / "report.md")],
        ]  # fmt: skip
        for command in commands[seed % 3 :: 3]:
            assert main(command) in (0, 1, 2)
            said = capsys.readouterr()
            assert_shown(said.out)
            assert_shown(said.err)
            if "--json" in command and said.out:
                assert_json(said.out)
        with strict():
            made = ev.report(title=runs[0])
            assert_markdown(made.to_markdown())
            assert_json(made.to_json())
            assert_html(made.to_html(), is_page=True)
            check_labelling(golden, ev, runs)


def check_labelling(golden, ev, runs) -> None:
    """Label by hand in the terminal and in the panel."""
    sheet = label_sheet(ev.results, golden)
    parts = [part for _, part in sheet.groupby("query_id")]
    for part in parts:
        assert_shown(visible(_shown(part)))
    if importlib.util.find_spec("ipywidgets"):
        from ragscore.golden import panel

        shown = [panel.query_html(part) for part in parts]
        shown += [panel.hit_html(one) for _, one in sheet.iterrows()]
        for one in [*shown, panel.error_html(rs.DataError(runs[0]))]:
            assert_html(one)

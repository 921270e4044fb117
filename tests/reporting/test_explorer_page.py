"""The explorer in a real browser: what it lists, how it filters, sorts, links and is read aloud."""

import json
import re
from dataclasses import replace

import pandas as pd
import pytest
from browser import CHROMIUM, Browser

import ragscore as rs
from tests.hostile import HOSTILE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the explorer with"),
]


def runs_of(queries, first, second):
    """Return an evaluation of two runs; ranks of the right document, 0 where it isn't found."""
    golden = rs.load_golden([
        {"id": name, "query": text, "expected_doc_ids": [f"doc-{name}"], "difficulty": level}
        for name, text, level in queries
    ])  # fmt: skip
    results = {
        run: {
            name: [f"doc-{name}" if place == rank else f"other-{place}" for place in range(1, 6)]
            for (name, _, _), rank in zip(queries, ranks, strict=True)
        }
        for run, ranks in (("old", first), ("new", second))
    }
    return rs.evaluate(results, golden)


SIX = [
    ("q1", "alpha one", "easy"), ("q2", "beta two", "easy"), ("q3", "gamma three", "hard"),
    ("q4", "delta four", "hard"), ("q5", "epsilon five", "easy"), ("q6", "zeta six", "hard"),
]  # fmt: skip
# q1 stays first, q2 falls 1 to 4, q3 is lost, q4 rises 5 to 2, q5 is found anew, q6 is never found
RANKS = [1, 1, 2, 5, 0, 0], [1, 4, 0, 2, 1, 0]


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


SETTLED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture
def opened(browser, tmp_path):
    """Open an explorer's page; nothing is complained of, and no other address loaded."""

    def opened(explorer, width=1200, hash_="", scheme="light"):
        file = explorer.write(tmp_path / "x.html")
        browser.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1,
            mobile=False,
        )  # fmt: skip
        prefers = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.send("Emulation.setEmulatedMedia", features=prefers)
        browser.send("Page.navigate", url="about:blank")
        browser.events = []
        browser.send("Page.navigate", url=file.as_uri() + hash_)
        browser.wait("document.querySelector('.x-frame [role=grid]')")
        browser.run(SETTLED)

    yield opened
    assert browser.complaints == []
    own = {(tmp_path / name).as_uri() for name in ("x.html", "host.html")}
    assert {url.partition("#")[0] for url in browser.loaded} <= own | {"about:blank"}


def rows(browser):
    """Return the ids of the rows in the order in which they stand."""
    return texts(browser, ".x-space > [role=row] .x-cell-id")


def texts(browser, selector):
    """Return the text of each element that is there."""
    elements = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return browser.run(f"{elements}.map(one => one.textContent)")


def press(browser, key, text=None):
    codes = {"ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36, "Enter": 13, "Escape": 27}
    for kind in ("keyDown", "keyUp"):
        browser.send(
            "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes.get(key, 0),
            **({"text": text} if text and kind == "keyDown" else {}),
        )  # fmt: skip
    browser.run(SETTLED)


def seek(browser, text):
    box = "document.querySelector('input[type=search]')"
    browser.run(f"{box}.value = {json.dumps(text)}; {box}.dispatchEvent(new Event('input'))")


def pick(browser, slice_, value):
    box = f"document.querySelector('select[aria-label={slice_}]')"
    browser.run(f"{box}.value = {json.dumps(value)}; {box}.dispatchEvent(new Event('change'))")


def open_query(browser):
    return browser.run("document.querySelector('.x-query h3')?.textContent")


@pytest.fixture
def six():
    return runs_of(SIX, *RANKS).compare("old", "new").explore()


def test_it_opens_with_the_queries_that_changed_the_worst_one_beside_them(browser, six, opened):
    opened(six)
    assert rows(browser) == ["q3", "q2", "q4", "q5"], "as Python has them"
    assert texts(browser, ".x-space .x-cell-change") == ["2 → miss", "1 → 4", "5 → 2", "miss → 1"]
    assert open_query(browser) == "q3", "the regression"
    assert browser.run("document.querySelector('.x-foot').innerText").startswith("4 of 6")
    text = browser.run("document.querySelector('.x-query').innerText")
    assert "doc-q3" in text and "gone" in text and "old" in text and "new" in text


def test_chips_search_and_filters_leave_the_queries_they_name(browser, six, opened):
    opened(six)
    chip = "[...document.querySelectorAll('.x-chip')].find(b => b.innerText.includes({!r})).click()"
    every = [name for name, *_ in SIX]
    for act, *given, left in (
        (browser.run, chip.format("regression"), ["q3"]),
        (browser.run, chip.format("all"), every),
        (seek, browser, "TWO", ["q2"]),
        (seek, browser, "nothing", []),
        (seek, browser, "", every),
        (pick, browser, "difficulty", "", every),
        (pick, browser, "difficulty", "hard", ["q3", "q4", "q6"]),
    ):
        act(*given)
        assert sorted(rows(browser)) == left
    assert browser.run("document.querySelector('input[type=search]').value") == "difficulty:hard"
    pick(browser, "difficulty", "")
    assert sorted(rows(browser)) == every


def test_a_column_sorts_both_ways_and_says_so(browser, six, opened):
    opened(six)
    lowest = ["q2", "q3", "q4", "q5"]
    for order, ids in (("ascending", lowest), ("descending", lowest[::-1])):
        browser.run("document.querySelectorAll('.x-headline button')[1].click()")
        said = "document.querySelectorAll('.x-headline [role=columnheader]')[1].ariaSort"
        assert (browser.run(said), rows(browser)) == (order, ids)
    # by a metric: what is shown is what sorts, the worst first
    box = "document.querySelector('select[aria-label=\"Last column\"]')"
    at = f"[...{box}.options].find(one => one.text === 'mrr@10').value"
    browser.run(f"{box}.value = {at}; {box}.dispatchEvent(new Event('change'))")
    assert rows(browser) == lowest
    assert texts(browser, ".x-space .x-cell-change") == ["▼ −0.75", "▼ −0.50", "▲ +0.30", "▲ +1.00"]


def test_keys_go_through_the_list_and_letters_are_text_while_typing(browser, six, opened):
    opened(six)
    first, second, *_, last = rows(browser)
    assert open_query(browser) == first
    browser.run("document.querySelector('[role=grid]').focus()")
    for key, text, query in (("ArrowDown", None, second), ("k", "k", first), ("End", None, last)):
        press(browser, key, text)
        assert open_query(browser) == query
    press(browser, "/", "/")
    assert browser.run("document.activeElement.type") == "search"
    press(browser, "k", "k")
    assert open_query(browser) == last and rows(browser) == [], "a letter that no query has"
    seek(browser, "")
    press(browser, "Escape")
    assert browser.run("document.activeElement.getAttribute('role')") == "grid"
    focused = "document.querySelector('[role=grid]').getAttribute('aria-activedescendant')"
    assert last in browser.run(f"document.getElementById({focused}).textContent")


def test_the_address_holds_the_open_query(browser, six, opened):
    opened(six, hash_="#x.q=q6")
    assert open_query(browser) == "q6", "also one that is not in the list"
    browser.run("location.hash = '#x.q=q2'")
    browser.wait("document.querySelector('.x-query h3')?.textContent === 'q2'", 20)
    press(browser, "j", "j")
    browser.wait("!location.hash.endsWith('x.q=q2')", 20)
    assert browser.run("location.hash") == f"#x.q={open_query(browser)}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 700, 400])
def test_every_size_and_scheme_shows_the_list_within_its_width(browser, six, opened, width, scheme):
    opened(six, width, scheme=scheme)
    scroll = "document.documentElement.scrollWidth"
    assert browser.run(scroll) <= width and rows(browser)
    assert browser.run(
        "(right => [...document.querySelectorAll('.x-hit > button')]"
        ".every(one => right(one) <= right(one.parentNode)))"
        "(one => one.getBoundingClientRect().right)"
    ), "moves and scores stand within their hit"
    back = browser.run("getComputedStyle(document.querySelector('.rs-explorer')).backgroundColor")
    assert back == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 24, 28)")
    if width == 400:  # a phone shows the list, then the query with a way back
        for press, view in ((".x-space > [role=row]", "query"), (".x-back", "list")):
            browser.run(f"document.querySelector({press!r}).click()")
            assert browser.run("document.querySelector('.x-frame').dataset.view") == view
            assert browser.run(scroll) <= 400


def test_hostile_texts_are_texts_on_a_page_and_in_a_notebooks_output(browser, opened, tmp_path):
    queries = [(f"{name}-{n}", text, text) for n, (name, text) in enumerate(HOSTILE.items())]
    queries.append(("__proto__", HOSTILE["script"], "easy"))
    ev = runs_of(queries, [1] * len(queries), [2] * len(queries))
    hits, responses, texts_of = ev.results.hits, ev.results.responses, [*HOSTILE.values()] * 20
    said = texts_of[: len(responses)]
    results = replace(
        ev.results, hits=hits.assign(text=texts_of[: len(hits)]),
        responses=responses.assign(answer=said, refusal_reason=said),
    )  # fmt: skip
    explorer = rs.evaluate(results, ev.golden).compare("old", "new").explore()
    opened(explorer)
    assert len(rows(browser)) == len(queries)
    title = browser.run("document.title")
    for _ in queries:
        press(browser, "j", "j")
    for at in range(1, len(HOSTILE) + 2):  # each slice alone: put into the search box
        box = "document.querySelector('select[aria-label=difficulty]')"
        pick(browser, "difficulty", browser.run(f"{box}.options[{at}].value"))
        assert len(rows(browser)) == 1
    assert browser.run("[document.title, document.images.length]") == [title, 0]
    assert browser.run("document.querySelectorAll('.rs-explorer script').length") <= 1
    assert browser.run("document.documentElement.scrollWidth") <= 1200
    host, output = tmp_path / "host.html", explorer._repr_html_()
    host.write_text(f'<meta charset="utf-8"><title>host</title>{output}', encoding="utf-8")
    browser.open(host)
    browser.wait("document.querySelector('.rs-output > .rs-plain')?.hidden", 60)
    counts = "[document.title, document.images.length, document.scripts.length]"
    assert browser.run(counts) == ["host", 0, 1]


def test_keys_reach_the_last_of_ten_thousand_queries(browser, opened):
    n = 10_000
    queries = [(f"q{number:05}", f"question {number}", "easy") for number in range(n)]
    sides = [[1 + number // by % 5 for number in range(n)] for by in (1, 5)]
    opened(runs_of(queries, *sides).compare("old", "new").explore(max_queries=n))
    assert len(rows(browser)) == sum(a != b for a, b in zip(*sides, strict=True))
    browser.run("document.querySelector('[role=grid]').focus()")
    press(browser, "End")
    assert open_query(browser) == rows(browser)[-1]


def test_everything_that_can_be_used_has_a_name(browser, six, opened):
    opened(six)
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    used = {"button", "combobox", "searchbox", "grid", "columnheader", "region", "link"}
    nameless = [
        node["role"]["value"]
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"] in used
        and not node.get("name", {}).get("value", "").strip()
    ]
    assert nameless == []
    assert json.dumps(nodes).count('"status"') >= 1
    # outcomes are told by a word and a sign, not by their colour
    cells = texts(browser, ".x-space .x-outcome")
    assert cells and all(re.search("[▲▼].*(win|loss|regression)", cell) for cell in cells)


def calls_of(asked="reason", error=None, **runs):
    """An evaluation of runs given as the lists of their calls for one query."""
    results = rs.load_results({run: {"q": calls} for run, calls in runs.items()})
    calls = results.calls.assign(query=asked, tool="search", elapsed_ms=1234.0, error=error)
    golden = [{"id": "q", "query": "why?", "expected_doc_ids": ["t", "b"]}]
    return rs.evaluate(replace(results, calls=calls), golden)


def test_calls_stand_below_each_other_with_what_they_asked_found_and_repeated(browser, opened):
    asked = ["why?", "<b>so</b>", "because", "<b>so</b>"]
    ev = calls_of(asked, [None, None, "timed out", None],
                  A=[["a", "b"], ["x", "a"], [], ["t", "b", "u"]])  # fmt: skip
    opened(ev.explore("q"))
    calls = browser.run("[...document.querySelectorAll('.x-call')].map(one => one.innerText)")
    assert len(calls) == 4
    first, second, third, fourth = (one.split("\n") for one in calls)
    assert "Call 1 · search · 1,234 ms" in first and "the query itself" in first
    assert "2 hits · ★ first to find b" in first
    assert "“<b>so</b>”" in second and "2 hits, 1 returned before" in second
    assert third[-1] == "This call failed: timed out"
    assert "the same text as call 2" in fourth and any("★ first to find t" in x for x in fourth)
    ranks = "[...document.querySelectorAll('.x-call:last-child .x-hit')].map(one => one.innerText)"
    told = [" ".join(one.split()) for one in browser.run(ranks)]
    assert told == ["1 t ★ grade 1", "2 b ★ grade 1 as in call 1", "3 u"]
    table = browser.run("document.querySelector('.x-query tbody').innerText")
    assert "call 4, rank 1" in table and "call 1, rank 2" in table


def test_calls_of_two_runs_stand_side_by_side_and_know_each_others(browser, opened):
    ev = calls_of(A=[["a", "b"], ["t"]], B=[["t", "a"]])
    opened(ev.explore("q", outcome=list(ev.compare("A", "B").counts)))
    moves = "[...document.querySelectorAll('.x-move')].map(one => one.innerText)"
    assert browser.run(moves) == ["↓ to 2", "gone", "from call 2", "↓ from 1", "to call 1"]
    table = browser.run("document.querySelector('.x-query tbody').innerText")
    assert "▲ earlier call" in table and "▼ lost" in table


def test_a_turn_stands_below_the_turns_before_it_and_each_opens(browser, opened):
    rows = [
        {"id": f"s_{turn}", "query": f"question {turn}?", "expected_doc_ids": ["a"],
         "conversation": "s", "turn": str(turn)}
        for turn in (1, 2, 10)
    ]  # fmt: skip
    results = rs.load_results({"s_1": ["x", "a"], "s_2": ["a"], "s_10": ["x"]})
    answers = results.responses.assign(answer=["so <i>it</i> is", None, "because"])
    ev = rs.evaluate(replace(results, responses=answers), rs.load_golden(rows))
    opened(ev.explore("s_2"))
    panel = browser.run("document.querySelector('.x-query').innerText")
    assert "Turn 2 of 3 in conversation s" in panel
    before = browser.run("document.querySelector('.x-turns').innerText").split("\n")
    assert before == ["1 question 1? first rank 2", "→ so <i>it</i> is"]
    assert panel.index("question 1?") < panel.index("question 2?") and "1 later turn" in panel
    browser.click(".x-turn")
    browser.wait("document.querySelector('.x-query h3').textContent === 's_1'")
    later = browser.run("document.querySelector('.x-after').textContent")
    assert later.index("question 2?") < later.index("question 10?")
    assert "nothing found" in later and "→ because" in later


def passages(first, second, query="where does beta stand?"):
    """A comparison of two runs with one query; each hit is (chunk, document, text)."""
    lists = {"old": first, "new": second}
    hits = pd.DataFrame(
        [(run, "q", rank, *one) for run, of in lists.items() for rank, one in enumerate(of, 1)],
        columns=["run_id", "query_id", "rank", "chunk_id", "doc_id", "text"],
    )
    asked = pd.DataFrame({"run_id": list(lists), "query_id": "q", "query": query})
    hits["path"] = hits["doc_id"]
    results = rs.Results(runs=asked[["run_id"]], responses=asked, hits=hits)
    golden = [
        {"id": "q", "query": query, "gold_supports": [{"path": "d1", "snippets": ["Stands"]}]}
    ]
    return rs.evaluate(results, rs.load_golden(golden)).compare("old", "new")


def test_a_passage_shows_words_of_the_query_and_what_is_expected(browser, opened):
    first = [("c1", "d1", "Alpha beta stands gamma delta"), ("c2", "d2", "nothing of it")]
    second = [("c9", "d9", "where it does"), ("c8", "d1", "alpha stands gamma delta epsilon")]
    opened(passages(first, second).explore("q", outcome=["loss"]))
    assert texts(browser, ".x-preview") == [text for *_, text in first + second]
    assert texts(browser, ".x-term") == ["beta", "stands", "where", "does", "stands"]
    assert texts(browser, "mark") == ["stands", "stands"], "in hits that meet the target"


SOUGHT = {
    "doc:doc-q3": ["q3"], 'doc:doc-q3 "doc":"DOC-Q2"': ["q2", "q3"], "target:doc-q6": ["q6"],
    "answer:because": ["q1"], "text:passage": ["q2"], "difficulty:hard": ["q3", "q4", "q6"],
    "tag:eas": ["q1", "q2", "q5"], "difficulty:hard target:q4": ["q4"], "four tag:hard": ["q4"],
    "mrr:0.4..0.6": ["q4"], "mrr:1>..0.5": ["q2"], "mrr:0": ["q3", "q6"],
    "other:hard": [], "mrr:x": [], "doc:https://doc-q3": [], "target:doc-q3:": [],
}  # fmt: skip


def test_a_word_with_a_prefix_is_sought_where_it_names(browser, opened):
    ev = runs_of(SIX, *RANKS)
    results = ev.results
    answers = ["it is because", *[None] * 11]
    kept = [
        "a passage" if one == ("q2", 3) else None
        for one in zip(results.hits["query_id"], results.hits["rank"], strict=True)
    ]
    results = replace(
        results, responses=results.responses.assign(answer=answers),
        hits=results.hits.assign(text=kept),
    )  # fmt: skip
    ev = rs.evaluate(results, ev.golden, metrics=["mrr"])
    cmp = ev.compare("old", "new", metrics=["mrr"])
    opened(cmp.explore(outcome=list(cmp.counts)))
    for text, expected in SOUGHT.items():
        seek(browser, text)
        assert sorted(rows(browser)) == expected, text
    parse = "ragscoreSeeking.parse('recall@5:doc:0..1', new Set(['recall@5:doc'])).tokens[0]"
    assert browser.run(f"(one => [one.name, one.value])({parse})") == ["recall@5:doc", "0..1"]
    seek(browser, "four target:doc-q4 doc:other-3")
    browser.run("document.querySelector('.x-space > [role=row]').click()")
    browser.run(SETTLED)
    assert texts(browser, ".x-query .x-found") == ["four", "doc-q4", "other-3", "other-3"]
    press(browser, "c", "c")
    assert browser.run("document.querySelector('.x-out textarea').value") == (
        'part = ev.golden.select(["q4"])'
    )

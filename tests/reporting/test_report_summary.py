"""The top of a report: which queries are read first, verdicts in words, and what isn't told."""

import re
from urllib.parse import unquote

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.reporting.figures import compact_svg, image
from ragscore.reporting.page import Section, to_html, to_markdown
from ragscore.reporting.reading import worst_changes, worst_queries
from ragscore.reporting.summary import Summary, summary_of
from tests.messages import names, says

# query -> the rank of its one target in the old run and in the new one (0: not found)
RANKS = {"same": (1, 1), "down": (1, 3), "lost": (2, 0), "lost first": (1, 0), "up": (3, 1)}


@pytest.fixture
def runs(write_golden, write_run):
    """Two runs: of "lost dear" the target of grade 3 is lost, "no" should be refused."""
    rows = [
        {"id": name, "query": f"question {name}", "expected_doc_ids": [name]} for name in RANKS
    ] + [
        {
            "id": "lost dear",
            "query": "question lost dear",
            "expected_doc_ids": [{"any": ["dear"], "grade": 3}],
        },
        {"id": "no", "query": "question no", "answerable": False},
    ]
    files = []
    for side, name in enumerate(("old", "new")):
        records = [
            record(
                query,
                [hit(f"c{n}", query if n == ranks[side] else f"x{n}", n) for n in range(1, 5)],
                answer=answer("said"),
            )
            for query, ranks in RANKS.items()
        ]
        dear = [hit("c", "dear" if not side else "x", 4)]
        records.append(record("lost dear", dear, answer=answer("said")))
        records.append(record("no", [], answer=answer("said", grounded=bool(side))))
        files.append(write_run(name, records, created_at=f"2026-01-0{side + 1}T00:00:00Z"))
    return rs.evaluate(rs.load_results(files), rs.load_golden(write_golden(rows)))


def test_lost_first_hits_come_first_by_their_rank_then_losses_then_answers(runs):
    found = worst_changes(runs.compare("old", "new"), 9)
    assert found["query_id"].tolist() == ["lost first", "lost", "lost dear", "down", "no"]
    facts = [
        ["rank 1", "lost first"], ["rank 2", "lost"], ["rank 4", "dear"], ["rank 1 → 3"],
        ["answered", "refused"],
    ]  # fmt: skip
    for why, named in zip(found["why"], facts, strict=True):
        says(why, *named)
    assert (
        worst_changes(runs.compare("old", "new"))["query_id"].tolist()
        == (found["query_id"].tolist()[:3])
    )


def test_every_list_of_queries_begins_with_the_same_ones(runs):
    cmp = runs.compare("old", "new")
    first = ["lost first", "lost", "lost dear", "down"]
    assert cmp.changed()["query_id"].tolist()[:4] == first
    assert cmp.gate().regressions["query_id"].tolist() == first
    assert worst_changes(cmp, 4)["query_id"].tolist() == first
    page = cmp.explore()._repr_html_()
    assert sorted(first, key=lambda name: page.rindex(f">{name}<")) == first


def test_of_a_run_alone_answers_to_be_refused_come_first_then_the_lowest_values(runs):
    alone = runs.select("new")
    found = worst_queries(alone.scores, alone.golden, "mrr@10", 4)
    assert found["query_id"].tolist() == ["no", "lost", "lost first", "lost dear"]
    says(found["why"].iloc[0], "answered", "refused")
    assert found["why"].tolist()[1:] == ["mrr@10 0.00"] * 3
    assert found["query"].tolist()[:2] == ["question no", "question lost"]
    # "down" has 1/3; "same" and "up" have 1, which is no loss
    assert worst_queries(alone.scores, alone.golden, "mrr@10", 9)["query_id"].tolist()[4:] == [
        "down"
    ]


@pytest.mark.parametrize("overall", ["better", "can't tell"])
def test_every_verdict_is_a_sentence(runs, monkeypatch, overall):
    monkeypatch.setattr(rs.Comparison, "overall", property(lambda _: overall))
    card = summary_of(runs.report()).card
    word = overall.capitalize() if card.title.startswith("C") else overall
    says(card.title, "new", "old", word)
    assert card.title.index("new") < card.title.index("old") and card.verdict == overall


def test_a_summary_counts_outcomes_and_names_the_gate(runs):
    summary = summary_of(runs.report(gate={"mrr@10": 0.5}))
    gate, counts = summary.card.sentences
    says(gate, "passed")
    says(counts, "3 regression ▼!", "1 win ▲", "1 loss ▼", "1 draw =")
    assert summary.reading["query_id"].tolist() == ["lost first", "lost", "lost dear"]


def test_a_run_alone_has_a_summary_and_an_explorer_of_it(runs):
    made = runs.select("old").report()
    summary = summary_of(made)
    says(summary.card.title, "old")
    assert made.primary[0] in summary.card.primaries["metric"].tolist()
    assert made.explorer and "Query by query" in made.to_html()


def test_a_report_of_a_comparison_from_json_has_no_explorer_and_says_why(runs):
    cmp = rs.Comparison.from_json(runs.compare("old", "new").to_json())
    made = cmp.report()
    assert not made.explorer and 'id="queries"' not in made.to_html()
    assert made.left_out["part"].tolist() == ["Query by query"]
    says(made.left_out["why"].iloc[0], "JSON")


def test_links_of_hostile_ids_are_data():
    reading = pd.DataFrame(
        {"query_id": ['"><b>&#x.q=+ %'], "query": ["<i>"], "outcome": ["loss"], "why": ["<u>"]}
    )
    from ragscore.reporting.explorer.element import element

    page = to_html("t", [], Summary(_card(), reading), element({"queries": {}}))
    (link,) = re.findall(r'href="#x\.q=([^"]*)"', page)
    assert unquote(link) == '"><b>&#x.q=+ %' and re.fullmatch(r"[\w%.-]*", link)
    assert "<i>" not in page and "<u>" not in page


def _card():
    from ragscore.reporting.summary import Card

    return Card("worse", "new is worse than old")


def test_the_page_shows_some_rows_and_says_where_the_others_are_while_markdown_has_all():
    rows = pd.DataFrame({"query_id": [f"q{n}" for n in range(30)]})
    part = Section("Queries", table=rows, limit=20, way="see “Query by query”")
    page, text = to_html("t", [part]), to_markdown("t", [part])
    assert page.count("<tr><td") == 20
    rest = re.sub("<[^>]*>", "\n", page)
    says(rest, 10, "Query by query")
    assert text.count("| q") == 31 and not names(text, "Query by query")


def test_sections_of_one_title_have_links_of_their_own():
    page = to_html("t", [Section("Main"), Section("A & b", 3), Section("問い"), Section("a-b")])
    assert re.findall(r'<(?:details class="part"|h3) id="([^"]*)"', page) == [
        "main-2", "a-b", "section", "a-b-2",
    ]  # fmt: skip


def test_a_smaller_svg_keeps_its_texts_and_drops_what_nothing_shows():
    svg = (
        '<?xml version="1.0"?>\n<!DOCTYPE svg>\n<svg viewBox="0 0 10.123456 5">\n <metadata>m'
        '</metadata><defs><style type="text/css">*{}</style></defs>\n <g id="patch_12">\n  '
        '<path id="mabc" d="M 0.123456 1.98765 \nL -3.000001 4" clip-path="url(#p1)"/>\n'
        "  <text style=\"font-size: 10px; font-family: 'A', 'B', sans-serif; x: y\""
        ' transform="rotate(-0 1.23 4.56)">0.123456 &lt;a b="1.23456"&gt;</text>\n </g>\n</svg>'
    )
    assert compact_svg(svg) == (
        '<svg viewBox="0 0 10.1 5"><defs><style type="text/css">*{}text{font-family:'
        "'DejaVu Sans',Verdana,sans-serif}</style></defs><g>"
        '<path id="mabc" d="M 0.1 2 L -3 4" clip-path="url(#p1)"/>'
        '<text style="font-size: 10px; x: y">0.123456 &lt;a b="1.23456"&gt;</text></g></svg>'
    )


def test_a_figure_is_data_of_known_size_with_its_texts():
    def draw():
        import matplotlib.pyplot as plt

        axes = plt.subplots()[1]
        axes.set_title('100 % " < # é')
        return axes

    found = image("what it shows", draw)
    assert re.match(
        r'<img alt="what it shows" width="\d+" height="\d+" src="data:image/svg\+xml,', found
    )
    address = found.partition('src="')[2].partition('"')[0]
    assert not set(address) & set("<>#\"&'\n") and '100 % " &lt; # é' in unquote(address)
    assert len(address) < 12_000

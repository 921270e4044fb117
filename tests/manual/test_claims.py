"""Numbers and words that the manual's prose claims are those of the code and of its own tables."""

import re
from pathlib import Path

import pytest

import ragscore as rs
from ragscore.scoring.id_overlap import FEW
from tests.messages import says, warned

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def prose(page):
    return " ".join((NOTEBOOKS / page).read_text(encoding="utf-8").split())


@pytest.mark.large
def test_the_share_of_ids_below_which_a_warning_is_given_is_the_pages():
    assert f"fewer than {FEW:.0%}".replace("%", " %") in prose("howto/load-ids.md")
    labels = {f"q{n}": [f"d{n}"] for n in range(100)}

    def run(n_joined):
        return {f"q{n}": [f"d{n}" if n < n_joined else f"docs/d{n}"] for n in range(100)}

    with warned("hardly join", "docs/", "doc_id"):
        rs.evaluate(run(4), labels)
    with warned("join in part", "docs/", "doc_id"):
        rs.evaluate(run(5), labels)


def test_the_exponents_that_sizing_speaks_of_are_those_of_the_table():
    page = (NOTEBOOKS / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    words = r"exponents are ([\d.]+) from the store and ([\d.]+) from frames"
    said = re.search(words, prose("reference/benchmarks.md"))
    growth = page[page.index("Growth exponents") :]
    last = [
        re.search(rf"^\| ragscore, {tool} \| [\d.]+ \| (.*) \|$", growth, re.MULTILINE)
        for tool in ("store", "frames")
    ]
    assert list(said.groups()) == [one[1].split(", ")[-1] for one in last]


@pytest.fixture(scope="module")
def ev():
    root = NOTEBOOKS.parent / "data" / "demo"
    return rs.evaluate(root / "runs" / "*" / "per_query.jsonl", root / "golden.yaml")


@pytest.mark.slow
def test_the_detectable_difference_grows_with_what_else_is_compared(ev):
    def detectable(metrics):
        two = ev.select(["dense", "hybrid_rerank"])
        deltas = two.compare("dense", "hybrid_rerank", metrics).deltas.set_index("metric")
        return deltas.loc["hit@5", "mde"]

    assert detectable(["hit@5"]) < detectable(["hit@5", "mrr@10", "hit@10"])
    # a smaller difference than the detectable one may well be found
    later = ev.select(["hybrid", "hybrid_rerank"]).compare("hybrid", "hybrid_rerank")
    row = later.deltas.set_index("metric").loc["ndcg@10"]
    assert row["delta"] < row["mde"] and row["verdict"] == "better"


@pytest.mark.large
def test_where_the_interval_holds_0_and_the_test_does_not_a_line_says_so(ev):
    cmp = ev.compare("dense", "hybrid_rerank", ["hit@5", "mrr@10", "hit@10"])
    rows = cmp.deltas.set_index("metric")
    assert rows.loc["mrr@10", "low"] < 0 and rows.loc["mrr@10", "p"] < 0.05
    text = cmp.notes()
    says(text, "mrr@10", 0, ".045")
    assert "own p is .045" in prose("concepts/uncertainty.md")


@pytest.mark.large
def test_nothing_is_said_where_interval_and_test_agree(ev):
    assert "the test alone has p" not in ev.compare("bm25", "dense", ["hit@5"]).notes()

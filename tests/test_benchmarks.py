"""The benchmark command runs, compares tools that agree, and writes what it found.

What it times is nobody's test.
"""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.blocks import rewritten
from benchmarks.table import Claim, Table, at_most, of_times

from tests.messages import says

ROOT = Path(__file__).parents[1]
PARTS = ("scoring", "small", "store", "sizing")
PAGE = (ROOT / "notebooks" / "reference" / "benchmarks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A small run of the command: its raw numbers, Markdown, page and what it printed."""
    folder = tmp_path_factory.mktemp("benchmarks")
    blocks = [
        f"before\n<!-- benchmark:{name} -->\nold\n<!-- /benchmark:{name} -->\nafter\n"
        for name in ("machine", *PARTS)
    ]
    (folder / "page.md").write_text("".join(blocks), encoding="utf-8")
    files = [
        f"--{name}={folder / file}"
        for name, file in (("json", "raw.json"), ("markdown", "tables.md"), ("page", "page.md"))
    ]
    return folder, _command(*PARTS, "--small", *files)


def _command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.large
def test_every_tool_is_measured_at_every_size_and_all_agree(measured):
    folder, _ = measured
    records = json.loads((folder / "raw.json").read_text(encoding="utf-8"))["scoring"]
    there = {(record["tool"], record["hits"], record["variant"]) for record in records}
    for tool in (
        "ragscore, frames",
        "ragscore, store",
        "pytrec_eval",
        "pytrec_eval, dicts by slices",
    ):
        assert {(tool, 10**4, "plain"), (tool, 10**5, "plain")} <= there
    assert ("ir_measures", 10**4, "plain") in there
    assert {(tool, 200_000, "plain") for tool in ("ragscore, frames", "ragscore, store")} <= there
    for variant in (
        "rows shuffled",
        "ids as category",
        "ids as object",
        "Parquet by polars",
        "Parquet by duckdb",
        "3 million chunk ids",
    ):
        assert ("ragscore, frames", 10**5, variant) in there
    for hits in (10**4, 10**5):
        plain = [
            record["means"]
            for record in records
            if (record["hits"], record["variant"]) == (hits, "plain") and "means" in record
        ]
        assert len(plain) >= 4
        for means in plain:
            assert means == pytest.approx(plain[0], abs=1e-6)
            assert 0 < means["map@10"] < 1
    assert all(record["rss"] > 50 for record in records)


@pytest.mark.large
def test_without_a_part_named_all_are_meant(measured):
    folder, printed = measured
    assert _command("--raw", str(folder / "raw.json")) == printed


@pytest.mark.large
def test_variants_hold_the_same_rankings(measured):
    folder, _ = measured
    records = json.loads((folder / "raw.json").read_text(encoding="utf-8"))["scoring"]
    means = [
        record["means"]
        for record in records
        if record["hits"] == 10**5 and "means" in record and "chunk" not in record["variant"]
    ]
    assert len(means) >= 10
    assert all(one == pytest.approx(means[0], abs=1e-6) for one in means)


@pytest.mark.large
def test_every_part_prints_and_writes_its_tables(measured):
    folder, printed = measured
    markdown, page = (
        (folder / name).read_text(encoding="utf-8") for name in ("tables.md", "page.md")
    )
    for name in ("scoring", "small", "store"):
        assert f"Targets of {name}" in printed
    for text in (printed, markdown, page):
        assert re.search(r"store: all, against read \+ dicts \+ evaluate, 10\^5 hits", text)
        assert re.search(r"100 queries × 10 hits: rs.score", text)
        assert re.search(r"one metric, compacted, again", text)
        assert re.search(r"disk, without texts.*GB.*GB", text)
        assert re.search(r"Measured on \d+ cores \(.+\), \d+ GiB, Python", text)
    assert "old" not in page
    assert page.count("before\n") == page.count("after\n") == 5


def test_a_part_that_is_not_there_says_so(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    command = importlib.import_module("tests.benchmarks.__main__")
    monkeypatch.setitem(command.PRINTED, "nowhere", ((), ()))
    assert (
        command.printed("nowhere", True)
        == "nowhere: not measured, tests.benchmarks.nowhere is missing"
    )


@pytest.mark.large
def test_a_peer_that_fails_is_named_and_the_rest_compared(measured, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    scoring = importlib.import_module("tests.benchmarks.scoring")
    records = json.loads((measured[0] / "raw.json").read_text(encoding="utf-8"))["scoring"]
    with_failure = [
        *records,
        {"tool": "ranx", "hits": 10**5, "variant": "plain", "failed": "out of memory"},
    ]
    says(scoring.tables(with_failure)[0].title, "ranx", "10^5")
    # As texts: NaN, a claim without CPU times, equals nothing.
    assert repr(scoring.claims(with_failure)) == repr(scoring.claims(records))


def test_blocks_of_a_page_are_filled_and_others_stay():
    text = (
        "a\n<!-- benchmark:x -->\nold\n<!-- /benchmark:x -->\nb\n<!-- benchmark:y -->\nkept\n<!--"
        " /benchmark:y -->\n"
    )
    assert rewritten(text, {"x": "new", "z": "without a block"}) == text.replace("old", "new")


def test_the_page_has_a_block_for_every_part_but_statistics(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    command = importlib.import_module("tests.benchmarks.__main__")
    parts = {"machine", *command.MEASURED, *command.PRINTED} - {"statistics"}
    assert set(re.findall(r"<!-- benchmark:(\w+) -->", PAGE)) == parts


def test_the_figures_at_the_top_of_the_page_are_those_below():
    top = (ROOT / "notebooks" / "benchmarks.md").read_text(encoding="utf-8").partition("\n## ")[0]
    figures = re.findall(r"\| ([\d.,]+) ", top)
    assert len(figures) == 14
    assert [one for one in figures if not re.search(rf"(?<![\d.,]){re.escape(one)} ", PAGE)] == []


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m (tests[\w.]*\w)", PAGE))))
def test_every_module_that_the_page_runs_is_there(module):
    file = ROOT / module.replace(".", "/")
    assert file.with_suffix(".py").exists() or (file / "__main__.py").exists()


def test_the_efficiency_of_the_workers_measured_holds_for_as_many_workers_alone(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    sizing = importlib.import_module("tests.benchmarks.sizing")
    found = sizing.Facts({"none": 3.0, "cut": 60.0}, 44.0, 1e6, 1e6, 2, 0.5, None, None, 10**7)
    slow = sizing.needs(found, 36 * 10**8, sizing.Price(per_hour=0.4, cores=8, minutes=10))
    assert slow["core_hours"] == 1  # 3.6e9 hits at 10^6 a second
    assert slow["measured_hours"] == 1  # two workers, each half as fast as one alone
    assert (slow["hours"], slow["machines"], slow["money"]) == (1 / 8, 1, 0.4 / 8)  # at least
    text = sizing._needed(found, sizing.Price(cores=8)).markdown()
    rows = [line for line in text.splitlines() if re.search("8 cores,|machines to|money", line)]
    assert len(rows) == 4 and all("at least" in row for row in rows)


@pytest.mark.large
def test_trec_text_is_measured_to_the_same_means():
    pytest.importorskip("pytrec_eval")
    said = _command("trec", "--small")
    assert re.search(r"1,000 lines of a run .* differ by \de-1\d at most", said)
    assert said.count("21 measures") == 2


@pytest.mark.large
def test_an_earlier_run_is_shown_beside(measured):
    folder, _ = measured
    printed = _command(
        "store", "--raw", str(folder / "raw.json"), "--earlier", str(folder / "raw.json")
    )
    assert "run before" in printed


def test_a_claim_says_whether_it_is_met_and_by_how_much_not():
    assert Claim("x", 6.0, 5.0, 7.0, 6).verdict == "met"
    says(Claim("x", 4.5, 4.0, 5.0, 6).verdict, "25%")
    says(Claim("x", 1.5, 1.0, 2.0, 1.2, at_most=True).verdict, "25%")
    assert Claim("x", 1.2, 1.0, 2.0, 1.2, at_most=True).verdict == "met"


def test_ratios_are_of_medians_and_their_range_of_runs_side_by_side():
    faster = of_times("x", ours=[1.0, 2.0, 4.0], theirs=[10.0, 10.0, 12.0], target=6)
    assert (faster.found, faster.low, faster.high) == (5.0, 3.0, 10.0)
    smaller = at_most("x", ours=[1.0, 3.0], theirs=[4.0], target=0.4)
    assert (smaller.found, smaller.low, smaller.high, smaller.verdict) == (
        0.5,
        0.25,
        0.75,
        "short by 25%",
    )


def test_a_table_is_markdown():
    assert (
        Table("Speed.", ["tool", "s"], [["ours", "1"]]).markdown()
        == "Speed.\n\n| tool | s |\n| --- | --: |\n| ours | 1 |"
    )

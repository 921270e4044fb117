"""The first command: what it prints is what the library gives, and its page is there."""

import re
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import dedent

import pytest

import ragscore as rs
from ragscore.cli import main
from ragscore.demo import show
from tests.messages import says

ROOT = Path(__file__).parents[2]
SYSTEMS = ["hybrid_rerank", "dense", "hybrid", "bm25"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(out):
    with chdir(ROOT), redirect_stdout(StringIO()) as text:
        assert main(["demo", "--out", str(out)]) == 0
    return text.getvalue()


@pytest.fixture(scope="module")
def same(printed):
    """What the printed lines of Python define."""
    lines, names = printed[printed.index("  import ragscore") :].partition("\n\n")[0], {}
    with chdir(ROOT):
        exec(dedent(lines), names)
    return names


def line_of(printed, start):
    """Return the line of a table that begins so, and its numbers."""
    (line,) = re.findall(rf"^{re.escape(start)} .*\d.*$", printed, re.M)
    return line, [float(one) for one in re.findall(r"[-+]?\d+\.\d+", line)]


def test_the_standings_are_the_summary_of_all_four_runs_best_first(printed, same):
    means = same["ev"].summary(["hit@5", "ndcg@10", "passed"]).set_index(["run_id", "metric"])
    for run_id in SYSTEMS:
        own = means.loc[run_id]
        expected = [*own.loc["hit@5", ["mean", "low", "high"]], *own["mean"].iloc[1:]]
        assert line_of(printed, run_id)[1] == pytest.approx(expected, abs=0.0051)
    assert means.loc["dense"].index.tolist() == ["hit@5", "ndcg@10", "passed"]
    places = [printed.index(f"\n{run_id} ") for run_id in SYSTEMS]
    assert places == sorted(places)


def test_the_differences_are_those_of_the_two_runs_alone(printed, same):
    runs = ROOT / "data" / "demo" / "runs"
    cmp = rs.compare(runs / "dense", runs / "hybrid_rerank", ROOT / "data" / "demo" / "golden.yaml")
    for row in cmp.deltas[cmp.deltas["is_primary"]].to_dict("records"):
        line, numbers = line_of(printed, row["metric"])
        expected = [row[name] for name in ("delta", "low", "high")]
        assert numbers == pytest.approx(expected, abs=0.0051)
        assert row["verdict"] in line
    of_four = same["ev"].compare("dense", "hybrid_rerank")
    says(printed, "these two", cmp.overall)
    says(printed, "4 runs", of_four._among)


def test_every_query_that_is_lost_and_every_slice_is_named(printed, same):
    cmp = same["cmp"]
    lost = cmp.per_query.query("outcome == 'regression'")["query_id"]
    assert len(lost) == 3 and all(f"\n{query_id} " in printed for query_id in lost)
    says(printed, cmp.counts["win"], "earlier")
    says(printed, cmp.counts["loss"], "later", len(lost))
    slices = cmp.slices("difficulty", "hit@5").table
    for name, delta in zip(slices["difficulty"], slices["delta"], strict=True):
        assert line_of(printed, name)[1][0] == pytest.approx(delta, abs=0.0051)


def test_the_page_is_there_and_no_line_is_longer_than_a_terminal(printed, out):
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("dense", "hybrid_rerank", "pd-040"))
    lines = printed.replace(str(out), "ragscore-demo").splitlines()
    assert max(map(len, lines)) <= 80


def test_without_a_clone_one_line_says_where_the_data_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show, "__file__", str(tmp_path / "lib" / "ragscore" / "demo" / "show.py"))
    assert main(["demo"]) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.count("\n") == 1 and not list(tmp_path.iterdir())
    says(found.err, "data/demo", "clone")


def test_the_data_is_found_from_below_the_clone_and_beside_the_package(tmp_path, monkeypatch):
    for folder in (ROOT / "notebooks" / "howto", tmp_path):
        monkeypatch.chdir(folder)
        assert show.demo_data().resolve() == ROOT / "data" / "demo"

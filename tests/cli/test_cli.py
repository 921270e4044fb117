"""The command line as people type it: what it prints, where, and with which exit status."""

import json
import subprocess
import sys

import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, hit, record
from test_kebab_vectors import AGGREGATE_A, AGGREGATE_B

import ragscore as rs
from ragscore.cli import main
from tests.messages import says


@pytest.fixture
def files(write_golden, write_run):
    described = {"config": {"chunker_version": "test@1", "eval_k": 10}}
    return [
        str(write_golden(THREE_QUERIES)),
        str(write_run("a", RUN_A, **described)),
        str(write_run("b", RUN_B, **described)),
    ]


def test_score_prints_aggregates_of_a_profile(files, capsys):
    assert main(["score", *files, "--profile", "kebab", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"a": AGGREGATE_A, "b": AGGREGATE_B}


def test_compare_prints_the_report_of_a_profile(files, capsys):
    golden, a, b = files
    assert main(["compare", a, b, "--golden", golden, "--profile", "kebab", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["run_a", "run_b", "aggregate_a", "aggregate_b", "deltas", "per_query"]
    assert report["deltas"]["chunker_version_match"] == "exact" and [
        row["kind"] for row in report["per_query"]
    ] == ["loss", "win", "win"]


def test_a_report_of_stored_runs_is_written_beside_the_candidate(files, tmp_path, capsys):
    golden, a, b = files
    store = tmp_path / "store"
    rs.RunStore(store).save(rs.load_results([a, b]), golden=rs.load_golden(golden))
    line = ["compare", "a", "b", "--golden", golden, "--store", str(store), "--write-report"]
    assert main(line) == 0
    assert (store / "b" / "report.md").read_text() == capsys.readouterr().out


@pytest.mark.parametrize("more", [[], ["--json"], ["--profile", "kebab"]])
def test_runs_of_other_questions_are_not_scored(files, capsys, write_run, more):
    golden, a, _ = files
    other = str(write_run("other", [record("z1", [])]))
    for arguments in (["score", golden, a, other], ["compare", a, other, "--golden", golden]):
        assert main([*arguments, *more]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        says(err, "run", "other")


def listed(text):
    return sum(line.startswith("| q") and line[3].isdigit() for line in text.splitlines())


def test_compare_lists_twenty_changed_queries_unless_asked_for_all(
    capsys, tmp_path, write_golden, write_run
):
    ids = [f"q{n:02}" for n in range(25)]
    golden = write_golden([{"id": one, "query": "?", "expected_doc_ids": ["d"]} for one in ids])
    hits = {"a": [hit("c", "d", 1)], "b": [hit("x", "x", 1), hit("c", "d", 2)]}
    a, b = (write_run(name, [record(one, found) for one in ids]) for name, found in hits.items())
    line = ["compare", str(a), str(b), "--golden", str(golden)]
    assert main([*line, "--write-report"]) == 0
    out, _ = capsys.readouterr()
    assert listed(out) == 20
    says(out, "5 more are not listed")
    assert listed((tmp_path / "runs" / "b" / "report.md").read_text()) == 25
    main([*line, "--all"])
    assert listed(capsys.readouterr().out) == 25
    main([*line, "--profile", "kebab"])
    out, err = capsys.readouterr()
    assert err == "" and out.startswith("# Eval compare: `a` vs `b`\n")
    assert out.count("| loss | 1 | 2 | rank 1→2 |\n") == 25


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0 and capsys.readouterr().out == f"ragscore {rs.__version__}\n"


def test_warnings_go_to_standard_error(files, capsys, write_run):
    golden, *_ = files
    main(["score", golden, str(write_run("c", RUN_A[:1])), "--metric", "hit@1"])
    out, err = capsys.readouterr()
    says(err, "c: 2")
    assert "c: 2" not in out


def test_the_command_is_installed():
    done = subprocess.run(
        [sys.executable, "-m", "ragscore.cli", "score"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "usage: ragscore score" in done.stderr


def test_a_cut_text_that_lacks_the_snippet_counts_like_none_and_is_said(
    capsys, write_golden, write_run
):
    rows = [
        {"id": "q1", "query": "?", "gold_supports": [{"path": "docs/d.md", "snippets": ["late"]}]},
        {"id": "q2", "query": "?", "answerable": True},
    ]
    files = [
        str(write_golden(rows)),
        str(write_run("a", [record("q1", [hit("c", "d", 1, text_cut=True)]), record("q2", [])])),
    ]
    means = {}
    for options in ([], ["--profile", "chatbot"]):
        given = options or ["--metric", "hit@1"]
        assert main(["score", *files, "--json", *given]) == 0
        out, err = capsys.readouterr()
        means[" ".join(options)] = json.loads(out)
        says(err, "1 hits have cut text")
    assert means[""][0]["mean"] == 1 and means["--profile chatbot"]["a"]["recall_at_k_avg"] == 0

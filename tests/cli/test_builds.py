"""A gate in builds: where its baseline lies, its files, the action's steps."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from servers import Server

import ragscore as rs
from ragscore.analysis.comparison.gate import Gate
from ragscore.cli import main
from ragscore.cli.files import about_baseline
from tests.messages import says

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "demo"
ACTION = ROOT / ".github" / "actions" / "gate"
USER = ["-c", "user.name=a", "-c", "user.email=a@example.org"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with a golden file and a baseline on `main`; the demo's runs beside it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DEMO / "runs", tmp_path / "runs")
    shutil.copytree(DEMO / "runs" / "dense", tmp_path / "eval" / "baseline")
    shutil.copy(DEMO / "golden.yaml", tmp_path / "eval" / "golden.yaml")
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "eval"],
        [*USER, "commit", "-q", "-m", "baseline"],
    ):
        subprocess.run(["git", *command], check=True)
    shutil.move(tmp_path / "eval" / "baseline", tmp_path / "before")  # only the commit has it
    return tmp_path


GATE = "--golden eval/golden.yaml"


def test_a_baseline_of_the_main_branch_gates_and_a_build_keeps_its_files(project, capsys):
    command = f"gate before runs/bm25 {GATE} --out kept --link https://ci/page"
    assert main(command.split()) == 1
    printed = capsys.readouterr()
    says(printed.out, "Gate failed by ndcg@10")
    # how many days ago depends on the day
    says(printed.err, "Baseline dense", "ago", "golden set 63253d3c, this one")
    text = (project / "kept" / "comment.md").read_text()
    assert text.startswith("<!-- ragscore gate -->")
    assert text.count("](https://ci/page#x.q=") == 5, "the five queries that lost most"
    gate = Gate.from_json((project / "kept" / "gate.json").read_text())
    assert (gate.answer, gate.passed, gate.exit_status) == ("failed", False, 1)
    suite = ElementTree.parse(project / "kept" / "junit.xml").getroot()
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert "ndcg@10" in failed and suite.get("failures") == str(len(failed))
    for name in ("report.html", "explorer.html"):
        assert (project / "kept" / name).stat().st_size > 10_000


@pytest.fixture
def comments():
    """The comments of a pull request, over a hundred of them, and the address of its interface."""
    kept = {str(n): {"id": n, "body": "a word"} for n in range(130)}

    def reply(seen):
        """Reply as the part of GitHub's interface that the action's comment uses."""
        if seen.method == "GET":
            end = 100 * int(seen.params["page"][0])
            return list(kept.values())[end - 100 : end]
        number = seen.path.rpartition("/")[2]
        if number not in kept:
            number = str(1000 + len(kept))
        kept[number] = {"id": int(number), **seen.body}
        return kept[number]

    with Server(reply) as server:
        yield kept, server.url


@pytest.mark.slow
def test_the_actions_steps_fail_for_a_regression_and_keep_one_comment(project, comments):
    kept, address = comments
    (project / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    names = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    given = {
        "BASELINE": "git:main:eval/baseline", "GOLDEN": "eval/golden.yaml", "OPTIONS": "",
        "GITHUB_API_URL": address, "GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": "t",
        "GITHUB_EVENT_PATH": "event.json", "PYTHONPATH": str(ROOT), "GITHUB_SERVER_URL": "https://g",
        "GITHUB_RUN_ID": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    steps = [["bash", str(ACTION / "gate.sh")],
             [sys.executable, str(ACTION / "comment.py"), "ragscore-gate/comment.md"]]  # fmt: skip
    statuses = {}
    for candidate, undecided in (("bm25", ""), ("hybrid", ""), ("hybrid", "pass")):
        more = {"CANDIDATE": f"runs/{candidate}", "UNDECIDED": undecided}
        for step in steps:
            done = subprocess.run(
                step, env=os.environ | given | names | more, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
        statuses[candidate, undecided] = (project / "output").read_text().split()[-1]
    assert statuses == {
        ("bm25", ""): "status=1", ("hybrid", ""): "status=2", ("hybrid", "pass"): "status=0",
    }  # fmt: skip
    bodies = [one["body"] for one in kept.values()]
    (ours,) = (text for text in bodies if text.startswith("<!-- ragscore gate -->"))  # not repeated
    says(ours, "Gate passed")
    assert "[this build](https://g/a/b/actions/runs/1)" in ours
    assert (project / "summary").read_text().count("## Gate") == 3


def test_the_age_of_a_baseline_without_a_date_is_not_known(capsys):
    frame = pd.DataFrame({"query": ["a", "b"], "score.tone": [0.2, 0.4]})
    results = rs.load_results(frame, run_id="x")
    says(about_baseline(results, "x", None), "Baseline x", "age isn't known")

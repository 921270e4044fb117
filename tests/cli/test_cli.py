"""The command line as people type it: what it prints, where, and with which exit status."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import yaml
from conftest import RUN_A, RUN_B, THREE_QUERIES, hit, record
from servers import Reply, Server, chatbot
from test_kebab_vectors import AGGREGATE_A, AGGREGATE_B

import ragscore as rs
from ragscore.analysis.comparison.gate import Gate
from ragscore.cli import main
from ragscore.cli.files import about_baseline
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


def test_a_baseline_of_another_golden_set_is_refused_unless_it_may_differ(files, capsys):
    golden, a, b = files
    told = Path(a).with_name("run.json")
    told.write_text(json.dumps(json.loads(told.read_text()) | {"golden_hash": "0" * 16}))
    line = ["gate", a, b, "--golden", golden, "--undecided", "pass"]
    assert main(line) == 2
    says(capsys.readouterr().err, "golden set", "0" * 16, "--allow-different golden")
    assert main([*line, "--allow-different", "golden"]) == 0


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0 and capsys.readouterr().out == f"ragscore {rs.__version__}\n"


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


# Labelling in a terminal: what lines do, from a person or from a pipe


TO_LABEL = (
    "# kept\n- id: q1\n  query: who?\n- id: q2\n  query: what?  # hm\n- id: q3\n  query: why?\n"
)


@pytest.fixture
def golden_file(write_golden):
    return write_golden(TO_LABEL)


@pytest.fixture
def played(golden_file, write_run, monkeypatch, capsys):
    """Type lines; return what is printed."""
    hits = [
        hit("c1", "d1", 1, snippet="By us."),
        hit("c2", "d2", 2, snippet="By \x1b[31mthem."),
        hit("c3", "d3", 3, snippet="Who knows."),
    ]
    run = write_run("a", [record("q1", hits), record("q2", hits[:1]), record("q3", [])])

    def play(*lines, options=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
        assert main(["label", str(golden_file), str(run), *options]) == 0
        return capsys.readouterr().out

    return play


def rows(file):
    return {row["id"]: row for row in yaml.safe_load(file.read_text())}


LABELLED = """\
── q1 · labelled
who?
1  1  docs/d1.md › root · a 1
      By us.
   2  docs/d2.md › root · a 2
      By \\u001b[31mthem.
0  3  docs/d3.md › root · a 3
      Who knows.
"""


def test_numbers_are_graded_and_taken_off(golden_file, played):
    printed = played("1, 2=3", "3=0", "2=3", "q", "1")
    assert "3  2  docs/d2.md" in printed and printed.endswith(LABELLED)
    supports = rows(golden_file)["q1"]["gold_supports"]
    assert [(one["path"], one.get("grade")) for one in supports] == [
        ("docs/d1.md", None), ("docs/d3.md", 0),
    ]  # fmt: skip


def test_lines_step_refuse_and_take_back(golden_file, played):
    printed = played("x", "x", "x", "", "1")
    assert rows(golden_file)["q1"]["answerable"] is False
    assert rows(golden_file)["q2"]["gold_supports"][0]["path"] == "docs/d1.md"
    assert [line[3:] for line in printed.splitlines() if line.startswith("──")] == [
        "q1 · unlabelled", "q1 · should refuse", "q1 · unlabelled", "q1 · should refuse",
        "q2 · unlabelled", "q2 · labelled",
    ]  # fmt: skip


@pytest.mark.parametrize("lines", [["7"], ["0"], ["1=x"], ["1 2 odd"], ["n", "n", "1"]])
def test_what_cannot_be_done_is_said_with_the_help_and_nothing_changes(golden_file, played, lines):
    printed = played(*lines)
    says(printed, repr(lines[-1].split()[-1]), 0 if len(lines) > 1 else 3)
    assert "nothing answers it" in printed
    assert golden_file.read_text() == TO_LABEL
    assert not golden_file.with_name("golden.yaml.bak").exists()


def test_labels_come_from_a_pipe(golden_file, played):
    played("1", "n", "x", "n", "x", options=["--level", "doc", "--k", "1"])
    text = TO_LABEL.replace("who?\n", "who?\n  expected_doc_ids: [d1]\n").replace(
        "# hm\n", "# hm\n  answerable: false\n"
    )
    text += "  answerable: false\n"
    assert golden_file.read_text() == text
    assert golden_file.with_name("golden.yaml.bak").read_text() == TO_LABEL
    assert played(options=["--skip-labelled"]) == ""


# `ragscore run` as people type it


MODULE = """
def ask(query, k=3, *, folder_mode="off"):
    hits = [{"chunk_id": f"c{n}", "doc_id": f"d{n}"} for n in range(1, k + 1)]
    return {"hits": hits, "config": {"mode_used": folder_mode}}

def stop(query):
    raise KeyboardInterrupt
"""


@pytest.fixture
def here(tmp_path, monkeypatch, write_golden):
    """A folder with a golden file, a mapping and a module, in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)
    (tmp_path / "my_rag.py").write_text(MODULE)
    write_golden(
        [
            {"id": f"q{n}", "query": f"question {n}", "expected_doc_ids": [f"d{n}"]}
            for n in (1, 2, 3)
        ]
    )
    return tmp_path


GOLDEN = ("--golden", "golden.yaml", "--quiet")


def test_a_function_is_asked_and_scored(here, capsys):
    options = "-k 2 --set folder_mode=on --metric hit@1 --run-id mine --repeat 2 --description wide"
    assert main(["run", "my_rag:ask", *GOLDEN, *options.split()]) == 0
    out, err = capsys.readouterr()
    assert err == "ragscore: wrote runs/ask/per_query.jsonl\n"
    assert out.splitlines()[1].split() == ["mine", "hit@1", "0.333", "0.061", "0.792", "3", "3"]
    run = rs.load_results("runs/ask").runs.iloc[0]
    assert json.loads(run["config"]) == {
        "k": 2,
        "folder_mode": "on",
        "mode_used": "on",
        "system": {"kind": "function", "function": "my_rag.ask"},
    }
    assert run[["system", "repeat", "note"]].tolist() == ["ask", 2, "wide"]


def test_a_mapping_file_is_asked(here, capsys):
    mapping = {
        "url": "", "method": "get", "request": {"query": "q", "k": "n"},
        "response": {"hits": "hits", "hit": {"chunk_id": "id", "doc_id": "document"}},
    }  # fmt: skip
    with Server(lambda seen: {"hits": [{"id": "c1", "document": "d1"}]}) as server:
        mapping["url"] = f"{server.url}/search"
        (here / "search.yaml").write_text(json.dumps(mapping))
        assert main(["run", "search.yaml", *GOLDEN, "-k", "1", "--out", "a"]) == 0
        mapping["response"] = {"hits": "hits.0"}  # one hit, not a list of them
        (here / "search.yaml").write_text(json.dumps(mapping))
        assert main(["run", "search.yaml", *GOLDEN, "-k", "1", "--out", "b"]) == 3
    assert {seen.method for seen in server.requests} == {"GET"}
    assert server.requests[2].params == {"q": ["question 3"], "n": ["1"]}
    results = rs.load_results("a")
    assert results.runs["system"].tolist() == ["search"] and len(results.hits) == 3


def test_an_address_is_asked_and_some_failures_are_no_finding(here):
    refusing = Reply({}, status=400)
    with Server(lambda seen: refusing if seen.number == 2 else chatbot(seen)) as server:
        assert main(["run", server.url, *GOLDEN, "-k", "1"]) == 0
    results = rs.load_results("runs/" + server.url.removeprefix("http://").replace(":", "-"))
    assert results.responses["error"].fillna("").tolist() == ["", "HTTP 400: {}", ""]
    assert results.hits["query_id"].tolist() == ["q1", "q3"]


def test_a_command_is_asked(here, capsys):
    code = (
        "import json, sys; r = json.load(sys.stdin);"
        " print(json.dumps([dict(chunk_id=r['query_id'])]))"
    )
    command = ["--command", f'{sys.executable} -c "{code}"']
    assert main(["run", *command, *GOLDEN, "--name", "mine", "--retrieval-only", "--json"]) == 0
    assert rs.load_results("runs/mine").hits["chunk_id"].tolist() == ["q1", "q2", "q3"]


def test_a_stopped_run_says_how_to_go_on(here, capsys):
    assert main(["run", "my_rag:stop", *GOLDEN]) == 130
    (line,) = capsys.readouterr().err.splitlines()
    says(line, 0, "runs/stop/.per_query.journal")


# A gate in builds: where its baseline lies, its files, the action's steps.

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

"""`ragscore run` as people type it."""

import json
import sys

import pytest
from servers import Reply, Server, chatbot

import ragscore as rs
from ragscore.cli import main
from tests.messages import says

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "system: "),
        (["bm25", "--command", "x"], "system: both"),
        (["bm26"], "system: found 'bm26'"),
        (["my_rag:answer"], "system: found 'my_rag:answer'"),
        (["my_rag:ask", "--set", "x"], "argument --set: invalid setting value: 'x'"),
        (["my_rag:ask", "--mode", "x"], "settings: ask does not accept mode"),
        (["none.yaml"], "none.yaml: can't be read"),
    ],
)
def test_what_cant_be_asked_is_status_2_and_one_line(here, capsys, arguments, message):
    assert main(["run", *arguments, *GOLDEN]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"ragscore: {message}") and err.count("\n") == 1

"""Every option of every command: used at least once, and what --help says of it."""

import argparse
import io
import json
import re
import shlex
import shutil
import sys
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, written_run

import ragscore as rs
from ragscore.cli import main, make_parser
from ragscore.scoring.policies import Policies
from tests.messages import says

(SUBPARSERS,) = (
    one for one in make_parser()._actions if isinstance(one, argparse._SubParsersAction)
)
PARSERS = SUBPARSERS.choices
MODULE = """
def answer(query, k=3, mode=None, temperature=None, seed=None, with_answer=True, depth=1):
    return {"hits": [{"chunk_id": f"c{n}", "doc_id": f"d{n}"} for n in range(1, k + 1)]}
"""


FILES = {
    "my_rag.py": MODULE,
    "qrels.txt": "q1 0 d1 1\nq2 0 d2 1\nq3 0 d3 1\n",
    "both.trec": (
        "q1 Q0 d1 1 1 dense\nq2 Q0 dx 1 2 dense\nq2 Q0 d2 2 1 dense\nq3 Q0 dx 1 1 dense\n"
        "q1 Q0 dx 1 2 hybrid\nq1 Q0 d1 2 1 hybrid\nq2 Q0 d2 1 1 hybrid\nq3 Q0 d3 1 1 hybrid\n"
    ),
    "hits.csv": "topicnr,docno,sys\nq1,d1,dense\nq2,d9,dense\nq1,d9,hybrid\n",
    "silent.csv": "query_id,docno,answer\nq1,d1,I don't know.\nq2,d2,Yes\n",
    "gold.csv": "topicnr,answers\nq1,d1\nq2,d2\n",
    "one.yaml": "- {id: q1, query: who?, answerable: false, expected_doc_ids: [d1]}\n",
    "odd.yaml": "- {id: q1, query: who?, expected_doc_ids: d1}\n- {id: q2}\n",
    "prices.json": '{"words": [1, 1]}',
}


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """What every test begins with: a golden set, two runs in several forms, and a store."""
    folder = tmp_path_factory.mktemp("desk")
    levels = zip(THREE_QUERIES, ("easy", "easy", "hard"), strict=True)
    rows = [one | {"difficulty": level, "lang": "en"} for one, level in levels]
    (folder / "golden.yaml").write_text(json.dumps(rows))
    for day, (name, records) in enumerate({"dense": RUN_A, "hybrid": RUN_B}.items(), 1):
        answered = [one | {"answer": answer("Yes.", paths=["docs/d1.md"])} for one in records]
        config = {"chunker_version": "test@1", "eval_k": 10, "depth": day}
        made = f"2026-01-0{day}T00:00:00Z"
        written_run(folder / "runs", name, answered, config=config, created_at=made)
    results = rs.load_results(str(folder / "runs" / "*"))
    rs.RunStore(folder / "history").save(results, golden=rs.load_golden(folder / "golden.yaml"))
    ids = {"chunk_id": ["c1", "c2", "c3"], "doc_id": ["d1", "d2", "d3"], "text": ["a", "b", "c"]}
    pd.DataFrame(ids).to_parquet(folder / "catalogue.parquet")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def desk(template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the current folder."""
    copy = tmp_path / "desk"
    shutil.copytree(template, copy)
    monkeypatch.chdir(copy)
    monkeypatch.delenv("RAGSCORE_GOLDEN", raising=False)
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)
    return copy


@pytest.fixture
def no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input at its end: a labeller who leaves at once."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))


PAIR = "runs/dense runs/hybrid --golden golden.yaml"
KEBAB = "score golden.yaml runs/dense --profile kebab"
BOTH = "both.trec --golden qrels.txt"
GOLD_ROLES = "--golden-columns query_id=topicnr,doc_id=answers"
ROLES = f"--columns query_id=topicnr,run_id=sys {GOLD_ROLES}"
WRITTEN = [
    "report runs/dense --golden golden.yaml -o page.html --title Ours",
    "report dense --golden golden.yaml --store history --out page.json",
]
# Command line, exit status, and what it prints.
LINES = [
    ("check golden.yaml runs/dense", 0, "targets: chunk, doc\nsupported: hit@k, recall@k"),
    ("check golden.yaml runs/hybrid", 0, "\nwithout costs of responses: cost_usd\n"),
    ("check golden.yaml runs/dense --json", 0, '[{"metric": "hit@k", "supported": true'),
    ("validate golden.yaml", 0, ""),
    ("validate golden.yaml --catalogue catalogue.parquet", 0, ""),
    (
        "validate one.yaml",
        1,
        "one.yaml:1: error: q1: expected_doc_ids: d1; no expected ids or supports: the query should"
        " be refused [unanswerable expects nothing]\n1 problem in 1 query\n",
    ),
    ("validate odd.yaml", 1, ": found nothing (null); text\n3 problems in 2 queries\n"),
    ("score golden.yaml runs/dense --metric P_10", 0, "precision@10"),
    (
        "score golden.yaml runs/dense --metric mrr@10 --by difficulty --by lang",
        0,
        "easy   en mrr@10 0.625",
    ),
    ("score golden.yaml runs/dense --profile kebab", 0, '{"dense": {"hit_at_k"'),
    (
        "score golden.yaml runs/dense --metric hit@1 --metric key_facts",
        0,
        "not measured: key_facts",
    ),
    # in the order in which they are picked, else in that of the file
    (
        "score qrels.txt both.trec --run hybrid --run dense --metric mrr --json",
        0,
        '[{"run_id": "hybrid"',
    ),
    ("score golden.yaml hybrid --store history --metric mrr", 0, "hybrid    mrr 0.833"),
    (
        "score qrels.txt both.trec --run hybrid --metric mrr --format trec"
        " --golden-format trec_qrels",
        0,
        "hybrid    mrr 0.833",
    ),
    (f"score gold.csv hits.csv {ROLES} --run hybrid --metric hit@1", 0, "hybrid  hit@1 0.000"),
    # dx counts once: d2 comes second instead of fourth
    ("score golden.yaml runs/dense --metric mrr --collapse doc", 0, "0.500"),
    (
        "score golden.yaml runs/dense --metric mrr --ties trec --match doc --missing zero",
        0,
        "0.417",
    ),
    # hits without a label are not seen: d2 comes first
    ("score golden.yaml silent.csv --metric mrr --columns answer=", 0, "mrr 1.000"),
    (f"compare {PAIR} --primary mrr@10 --vary depth --allow-different all", 0, "depth"),
    (
        f"gate {PAIR} --max-drop mrr=0.02 --markdown --vary depth --allow-different all",
        0,
        "Gate passed",
    ),
    (f"gate {PAIR} --max-drop hit@1=0 --rule interval --max-failed 1", 2, "Gate undecided"),
    (
        "run my_rag:answer --golden golden.yaml --mode x --k 2 --temperature 0.5 --seed 1"
        " --set depth=2 --retrieval-only --limit 2 --workers 2 --timeout 9 --retries 1"
        " --name mine --run-id r1 --suite s --repeat 2"
        " --description wider --out made --json --quiet",
        0,
        '[{"run_id": "r1"',
    ),
    ("run --command false --golden golden.yaml --quiet --retries 0 --fresh", 3, ""),
    ("label golden.yaml runs/dense --level doc --skip-labelled --k 2", 0, ""),
    ("label golden.yaml dense --store history", 0, "question q1"),
    (
        "judge golden.yaml runs/* --k 2 --refused judge --cut-text mark --overwrite"
        " --temperature 0 --seed 1 --structured json_schema --timeout 9"
        " --retries 1 --repeats 2 --workers 2 --prices prices.json --max-cost 5",
        0,
        "judge_groundedness",
    ),
    (
        "judge golden.yaml runs/dense --prices prices.json --max-cost 0",
        1,
        "judgments not asked, first: max_cost 0 is reached",
    ),
    ("demo --build --out made", 0, ""),
]
# Options that a line above has, of the other commands that take them, or that a test of its own
# uses quickly.
SHARED = [
    ("score golden.yaml runs/dense --metric key_facts --json", 0, '"mean": null'),
    ("score qrels.txt both.trec --metric mrr --json", 0, '[{"run_id": "dense"'),
    ("score golden.yaml runs/* --run hybrid --run dense --metric hit@1", 0, "hybrid  hit@1 0.667"),
    (f"compare {PAIR} --metric mrr --json", 0, '"metric": "mrr"'),
    (
        "run my_rag:answer --golden golden.yaml --limit 2 --quiet --json --metric hit@3",
        0,
        '"n": 2, "n_expected": 2',
    ),
    (f"compare {PAIR} --strict-chunker-version --all --write-report", 0, "Queries that changed"),
    (f"gate {PAIR} --max-drop key_facts=0 --require --json", 2, '"passed": false'),
    (
        f"report {PAIR} --baseline hybrid --by difficulty --match doc --primary hit@1",
        0,
        "dense against hybrid",
    ),
    ("run my_rag:answer --golden golden.yaml --limit 1 --leave-out tool --quiet", 0, "mrr@10"),
    ("judge golden.yaml runs/dense --judge groundedness --json", 0, '{"judgments": '),
    (f"gate {PAIR} --primary mrr@10 --undecided fail --out built --link page.html", 1, "failed"),
    (
        "compare dense hybrid --golden golden.yaml --store history",
        0,
        "hybrid (candidate) against",
    ),
    (
        "judge golden.yaml runs/dense --spot-check 1 --second-model other",
        0,
        "second judge:",
    ),
    ("check both.trec --format trec", 0, "without costs of responses: cost_usd"),
    ("check hits.csv --columns query_id=topicnr,run_id=sys", 0, "supported: timeout, empty"),
    ("validate gold.csv --columns query_id=topicnr,doc_id=answers", 0, ""),
    ("validate qrels.txt --format trec_qrels --json", 0, "[]"),
    (
        f"compare hits.csv --golden gold.csv {ROLES} --metric hit@1",
        0,
        "hybrid (candidate) against",
    ),
    (f"compare {PAIR} --profile kebab --json", 0, '{"run_a": "dense", "run_b": "hybrid"'),
    (
        f"compare {BOTH} --run hybrid --run dense --format trec --golden-format trec_qrels",
        0,
        "dense (candidate) against",
    ),
    (
        f"compare {PAIR} --match doc --missing zero --collapse doc --ties trec",
        0,
        "Scored with",
    ),
    (f"gate hits.csv --golden gold.csv {ROLES} --max-drop hit@1=0", 1, "Gate failed"),
    (
        f"gate {BOTH} --run dense --run hybrid --format trec --golden-format trec_qrels"
        " --max-drop mrr=0",
        0,
        "Gate passed",
    ),
    ("gate dense hybrid --golden golden.yaml --store history --max-drop mrr=0", 0, "Gate passed"),
    (
        f"gate {PAIR} --max-drop mrr=0 --match doc --missing zero --collapse doc --ties trec",
        0,
        "Gate passed",
    ),
    (f"report hits.csv --golden gold.csv {ROLES}", 0, "# 2 runs on 2 golden queries"),
    (
        f"report {PAIR} --max-drop mrr@10=0 --rule interval --vary depth"
        " --allow-different all --history history",
        0,
        "Gate",
    ),
    (f"report {BOTH} --run dense --format trec --golden-format trec_qrels", 0, "# 1 run on"),
    ("run my_rag:answer --golden qrels.txt --golden-format trec_qrels --quiet", 0, "mrr@10"),
    (f"run my_rag:answer --golden gold.csv {GOLD_ROLES} --quiet", 0, "mrr@10"),
    ("label golden.yaml both.trec --format trec --run hybrid --level doc", 0, "question q1"),
    ("label golden.yaml hits.csv --columns query_id=topicnr,run_id=sys --level doc", 0, "q1"),
    (f"judge gold.csv dense --store history {GOLD_ROLES}", 0, "judge_groundedness"),
    ("judge golden.yaml dense --store history --golden-format golden", 0, "judge_groundedness"),
]


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [*LINES, *(pytest.param(*one, marks=pytest.mark.slow) for one in SHARED)],
    ids=[line for line, *_ in [*LINES, *SHARED]],
)
def test_an_option_does_what_it_says(
    line, status, text, desk, server, no_input, monkeypatch, capsys
):
    words = line.split()
    if words[0] == "demo":
        made = {"run_demo": lambda *given: None}
        monkeypatch.setattr("runpy.run_path", lambda path: made)
    if words[0] == "judge":
        address = ["--base-url", server.url, "--second-base-url", server.url]
        words += ["--model", "words", "--cache", "none", *address]
    if "runs/*" in words:
        at = words.index("runs/*")
        words[at : at + 1] = ["runs/dense", "runs/hybrid"]
    found = main(words)
    printed = capsys.readouterr()
    assert found == status, printed.err
    assert text in printed.out + printed.err


def test_every_option_is_used_above():
    used = {name: set() for name in PARSERS}
    for line in [*WRITTEN, *(line for line, *_ in [*LINES, *SHARED])]:
        name, *words = line.split()
        used[name] |= {word for word in words if word.startswith("-")}
    used["judge"] |= {"--base-url", "--second-base-url", "--model", "--cache"}
    unused = [
        f"{name} {one.option_strings[-1]}"
        for name, parser in PARSERS.items()
        for one in parser._actions
        if one.option_strings
        and one.option_strings[-1] != "--help"
        and not used[name] & set(one.option_strings)
    ]
    assert unused == []


def test_written_files_are_where_they_were_asked_for(desk, capsys):
    for line in WRITTEN:
        assert main(line.split()) == 0 and capsys.readouterr().out == ""
    assert "<h1>Ours</h1>" in Path("page.html").read_text()
    rows = json.loads(Path("page.json").read_text())["Standings"]
    assert {one["run_id"] for one in rows} == {"dense"}


# Slips that are found only after a while.
LATE_SLIPS = [
    (f"compare {PAIR} --vary dept", ["depth"]),
    (f"gate {PAIR} --max-drop mrr10=0.1", ["metrics:", "'mrr10'"]),
    (f"gate {PAIR} --undecided maybe", ["undecided:", "'maybe'"]),
    (f"report {PAIR} --baseline nobody", ["'nobody'", "dense, hybrid"]),
    ("score golden.yaml runs/dense --by colour", ["by:", "'colour'"]),
]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        *(pytest.param(*one, marks=pytest.mark.slow) for one in LATE_SLIPS),
        ("scroe golden.yaml runs/dense", ["'scroe'", "score"]),
        ("", ["COMMAND", "ragscore [-h] [--version] COMMAND ..."]),
        ("score golden.yaml runs/dense --run dens", ["'dens'", "dense"]),
        ("score golden.yaml runs/dense --columns doc_id", ["--columns", "'doc_id'"]),
        ("score golden.yaml runs/dense --format trek", ["'trek'", "trec"]),
        ("score runs/dense", ["source:", "RAGSCORE_GOLDEN", "KEBAB_EVAL_GOLDEN"]),
        ("validate golden.yaml --format kebap", ["'kebap'", "golden"]),
        ("score golden.yaml dens --store history", ["run:", "'dens'", "dense"]),
        ("score golden.yaml runs/dense --profile kebap", ["kebab, rig, seed-mcp, trec, chatbot"]),
        (f"compare {BOTH} --run dense", ["run:", 1, "dense", "--run"]),
        (f"gate {PAIR} --max-drop mrr@10", ["--max-drop", "'mrr@10'"]),
        ("label golden.yaml runs/dense --level span", ["span", "anchor"]),
        ("judge golden.yaml runs/dense --model m --refused no", ["refused:", "'no'", "skip"]),
        ("judge golden.yaml both.trec --model m", ["run:", "per_query.jsonl"]),
        ("run my_rag:answer --golden golden.yaml --leave-out langs", ["leave_out:", "langs"]),
        ("run --golden golden.yaml", ["system:"]),
        ("run bm25 --command x --golden golden.yaml", ["system:", "both"]),
        ("run bm26 --golden golden.yaml", ["system:", "'bm26'"]),
        ("run my_rag:ask --golden golden.yaml", ["system:", "'my_rag:ask'"]),
        ("run my_rag:answer --set x --golden golden.yaml", ["--set", "setting", "'x'"]),
        ("run my_rag:answer --set y=x --golden golden.yaml", ["settings:", "answer", "y"]),
        ("run none.yaml --golden golden.yaml", ["none.yaml"]),
        ("score gold.csv hits.csv", ['"query_id": "???"', '"doc_id": "???"']),
        ("score golden.yaml hits.csv", ['"query_id": "???"', '"doc_id": "docno"']),
        ("check hits.csv", ['"dense"', '"query_id": "???"']),
        ("validate golden.yaml --catalogue nothing.parquet", ["nothing.parquet"]),
        ("score none.yaml runs/dense", ["none.yaml"]),
        ("score golden.yaml none.jsonl", ["source:", "none.jsonl"]),
        ("score golden.yaml runs/dense --metric hits@1", ["metrics:", "'hits@1'", "hit@1"]),
        ("score golden.yaml runs/dense runs/dense", ["run_id:", "dense"]),
        ("compare runs/dense runs/hybrid", ["source:", "golden"]),
        ("report runs/dense --golden golden.yaml --history nowhere", ["--history", "nowhere"]),
        (f"{KEBAB} --metric hit@1 --by tag", ["--profile:", "--metric, --by"]),
        (f"{KEBAB} --missing zero", ["--profile:", "--missing"]),
        (f"report {PAIR} --missing zero", ["--missing", "zero", "usage:"]),
        (f"compare {PAIR} --profile kebab --match auto", ["--profile:", "--match"]),
        ("compare runs/dense runs/hybrid --golden none --profile kebab", ["--golden none"]),
        (f"compare {PAIR} --missing hit", ["missing:", "'hit'", "exclude, zero"]),
    ],
)
def test_a_slip_ends_in_one_line_that_tells_the_way_on(line, named, desk, capsys):
    assert main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert printed.err.startswith("ragscore: ")
    says(printed.err, *named)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_the_example_of_each_command_runs(name, desk, server, no_input, monkeypatch, capsys):
    made = []
    monkeypatch.setattr("ragscore.demo.show.show_demo", lambda *given: made.append(given))
    (example,) = (line.strip() for line in PARSERS[name].epilog.splitlines() if "ragscore " in line)
    words = shlex.split(example.replace("http://127.0.0.1:8080/v1", server.url))
    assert words[:2] == ["ragscore", name]
    status = main(words[1:])
    # b's mean reciprocal rank is higher by 1/2, so the gate passes
    assert status == 0, capsys.readouterr().err
    assert capsys.readouterr().out or made or name in ("report", "validate")


@pytest.mark.parametrize("variable", ["RAGSCORE_GOLDEN", "KEBAB_EVAL_GOLDEN"])
def test_the_environment_names_the_golden_file(variable, desk, capsys, monkeypatch):
    monkeypatch.setenv(variable, "golden.yaml")
    assert main(["score", "runs/dense", "--metric", "mrr"]) == 0
    assert "0.417" in capsys.readouterr().out
    assert rs.validate().empty


# What --help says


def arguments_of(name):
    return [one for one in PARSERS[name]._actions if "--help" not in one.option_strings]


def test_the_overview_lists_every_command_once(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    printed = capsys.readouterr().out
    assert stopped.value.code == 0
    assert re.findall(r"^    ([a-z]+) +[A-Z]", printed, re.M) == list(PARSERS)


@pytest.mark.parametrize("name", PARSERS)
def test_every_argument_says_what_it_is(name):
    assert [one.dest for one in arguments_of(name) if len(one.help or "") <= 10] == []


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_says_its_values_and_its_default(name):
    for option in filter(lambda one: one.option_strings, arguments_of(name)):
        metavar = option.metavar or ""
        values = metavar.split("|") if "|" in metavar else []
        if not (option.default in (None, False) or isinstance(option.default, list)):
            values.append(str(option.default).removesuffix(".0"))
        assert option.required or "default" in option.help, option.option_strings
        assert [one for one in values if one not in option.help] == [], option.option_strings


@pytest.mark.parametrize("name", ["score", "compare", "gate"])
def test_every_policy_is_an_option_of_what_scores(name):
    given = {one.dest for one in PARSERS[name]._actions}
    assert {field.name for field in fields(Policies)} <= given

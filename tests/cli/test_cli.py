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


def test_score_prints_a_table(files, capsys):
    assert main(["score", *files, "--metric", "mrr@10", "--metric", "hit@1"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and [line.split()[:3] for line in out.splitlines()[1:]] == [
        ["a", "mrr@10", "0.417"],
        ["a", "hit@1", "0.333"],
        ["b", "mrr@10", "0.833"],
        ["b", "hit@1", "0.667"],
    ]


def test_score_prints_json_with_null(files, capsys):
    main(["score", *files, "--metric", "answer_checks", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert next(row for row in rows if row["metric"] == "answer_checks")["mean"] is None


def test_compare_prints_the_report_of_a_profile(files, capsys):
    golden, a, b = files
    assert main(["compare", a, b, "--golden", golden, "--profile", "kebab", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["run_a", "run_b", "aggregate_a", "aggregate_b", "deltas", "per_query"]
    assert report["deltas"]["chunker_version_match"] == "exact" and [
        row["kind"] for row in report["per_query"]
    ] == ["loss", "win", "win"]


def test_compare_prints_every_query_in_a_profiles_own_layout(write_golden, write_run, capsys):
    ids = [f"q{n:02d}" for n in range(25)]
    rows = [{"id": one, "query": "?", "expected_doc_ids": ["d"]} for one in ids]
    hits = {"a": [hit("c", "d", 1)], "b": [hit("x", "x", 1), hit("c", "d", 2)]}
    a, b = (write_run(name, [record(one, found) for one in ids]) for name, found in hits.items())
    golden = write_golden(rows)
    main(["compare", str(a), str(b), "--golden", str(golden), "--profile", "kebab"])
    out, err = capsys.readouterr()
    assert err == "" and out.startswith("# Eval compare: `a` vs `b`\n")
    assert out.count("| loss | 1 | 2 | rank 1→2 |\n") == 25


def test_runs_may_be_names_in_a_store(files, tmp_path, capsys):
    golden, a, b = files
    store = tmp_path / "store"
    rs.RunStore(store).save(rs.load_results([a, b]), golden=rs.load_golden(golden))
    assert main(["score", golden, "a", "--store", str(store), "--metric", "mrr@10"]) == 0
    assert "0.417" in capsys.readouterr().out
    assert (
        main(["compare", "a", "b", "--golden", golden, "--store", str(store), "--write-report"])
        == 0
    )
    out = capsys.readouterr().out
    assert (store / "b" / "report.md").read_text() == out


KEBAB = "--profile kebab"
PAIR = "{a} {b} --golden {golden}"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("score none.yaml a", ["none.yaml"]),
        ("score {golden} none.jsonl", ["source:", "none.jsonl"]),
        ("score {golden} {a} --metric hits@1", ["metrics:", "'hits@1'", "hit@1"]),
        ("score {golden} {a} {a}", ["run:", "a"]),
        ("compare {a} {b}", ["source:", "golden"]),
        ("score {golden} {a} --by colour", ["by:", "'colour'"]),
        ("report {a} --golden {golden} --history nowhere", ["--history", "nowhere"]),
        (
            f"score {{golden}} {{a}} {KEBAB} --metric hit@1 --by tag",
            ["--profile:", "--metric, --by"],
        ),
        (f"score {{golden}} {{a}} {KEBAB} --missing zero", ["--profile:", "--missing"]),
        (f"compare {PAIR} {KEBAB} --match auto", ["--profile:", "--match"]),
        (f"compare {PAIR} --missing hit", ["missing:", "'hit'", "exclude, zero"]),
    ],
)
def test_bad_input_is_one_line_on_standard_error_and_exit_2(
    files, capsys, monkeypatch, tmp_path, line, named
):
    monkeypatch.delenv("RAGSCORE_GOLDEN", raising=False)
    (tmp_path / "folder").mkdir()
    places = dict(zip(("golden", "a", "b"), files, strict=True)) | {"folder": tmp_path / "folder"}
    assert main([word.format(**places) for word in line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("ragscore: ")
    says(err, *named)


@pytest.mark.parametrize("more", [[], ["--json"], ["--profile", "kebab"]])
def test_runs_of_other_questions_are_not_scored(files, capsys, write_run, more):
    golden, a, _ = files
    other = str(write_run("other", [record("z1", [])]))
    for arguments in (["score", golden, a, other], ["compare", a, other, "--golden", golden]):
        assert main([*arguments, *more]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        says(err, "run", "other")


def test_metrics_without_any_value_are_named(files, capsys):
    main(["score", *files, "--metric", "hit@1", "--metric", "key_facts"])
    note = says(capsys.readouterr().out.splitlines()[-1], "not measured", "key_facts")
    assert "hit@1" not in note


def listed(text):
    return sum(line.startswith("| q") and line[3].isdigit() for line in text.splitlines())


def test_compare_lists_twenty_changed_queries_unless_asked_for_all(
    capsys, tmp_path, write_golden, write_run
):
    ids = [f"q{n:02}" for n in range(23)]
    golden = str(
        write_golden([{"id": one, "query": "?", "expected_doc_ids": ["d"]} for one in ids])
    )
    a = str(write_run("a", [record(one, [hit("c", "d", 1)]) for one in ids]))
    b = str(write_run("b", [record(one, []) for one in ids]))
    assert main(["compare", a, b, "--golden", golden, "--write-report"]) == 0
    out, _ = capsys.readouterr()
    assert listed(out) == 20
    says(out, "3 more are not listed")
    report = (tmp_path / "runs" / "b" / "report.md").read_text()
    assert listed(report) == 23, "the report leaves nothing out"
    main(["compare", a, b, "--golden", golden, "--all"])
    assert listed(capsys.readouterr().out) == 23


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


@pytest.fixture
def passages(write_golden, write_run):
    """A run with several passages of a document, a question without gold, a failed one, and one
    that is missing.
    """
    expected = {"q1": ["d2"], "q2": [], "q3": ["d3"], "q4": ["d4"]}
    rows = [{"id": one, "query": "?", "expected_doc_ids": ids} for one, ids in expected.items()]
    hits = [hit("c1", "d1", 1), hit("c2", "d1", 2), hit("c3", "d2", 3)]
    by_score = [  # the second has the higher score
        hit("c", doc, rank, retrieval={"fusion_score": score})
        for rank, (doc, score) in enumerate({"d9": 0.1, "d3": 0.9}.items(), 1)
    ]
    records = [record("q1", hits), record("q2", hits), record("q3", by_score, error="late")]
    return str(write_golden(rows)), str(write_run("a", records, k=5))


@pytest.mark.parametrize(
    ("options", "means"),
    [
        ([], [1 / 3 / 2 + 1 / 2 / 2, 2]),
        (["--collapse", "doc"], [1 / 2 / 2 + 1 / 2 / 2, 2]),
        (["--missing", "zero"], [(1 / 3 + 1 / 2) / 3, 3]),
        (["--ties", "trec"], [1 / 3 / 2 + 1 / 2, 2]),
    ],
)
def test_score_takes_the_policies_of_scoring(passages, capsys, options, means):
    assert main(["score", *passages, "--metric", "mrr", "--json", *options]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert [row["mean"], row["n"]] == pytest.approx(means)


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
        says(err, "cut text of 1 hits")
    assert means[""][0]["mean"] == 1 and means["--profile chatbot"]["a"]["recall_at_k_avg"] == 0

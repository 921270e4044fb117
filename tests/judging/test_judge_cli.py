"""`ragscore judge`: what it writes, prints and returns."""

import json

import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.cli import main
from ragscore.judging.run import ledger_of
from tests.messages import says

CHUNK = [hit("c1", "d1", 1, snippet="Paris is in France.")]
TEXTS = ["Paris is in France.", "Paris is in France. It lies on the river Seine."]


@pytest.fixture
def files(write_golden, write_run):
    golden = write_golden(
        [{"id": f"q{i}", "query": f"{i}?", "expected_doc_ids": ["d1"]} for i in range(2)]
    )
    return golden, write_run(
        "r", [record(f"q{i}", CHUNK, answer=answer(text)) for i, text in enumerate(TEXTS)]
    )


@pytest.fixture
def command(files, server, tmp_path):
    options = ["--base-url", server.url, "--model", "words", "--cache", str(tmp_path / "c.jsonl")]
    return lambda *more, run=files[1]: main(["judge", str(files[0]), str(run), *options, *more])


def test_judgments_lie_beside_the_run_and_means_are_printed(command, files, capsys):
    assert command("--judge", "groundedness", "--judge", "faithfulness") == 0
    means = {row.split()[1]: row.split()[2] for row in capsys.readouterr().out.splitlines()[-2:]}
    # 5 and round(2.5) = 2; 1 and 1/2
    assert {name: float(mean) for name, mean in means.items()} == {
        "judge_groundedness": 3.5,
        "faithfulness": 0.75,
    }
    results = rs.load_results(files[1])
    assert set(results.judgments["criterion"]) == {"judge_groundedness", "faithfulness"}
    assert ledger_of(files[1].parent)["state"].tolist() == ["scored"] * 4


def test_what_was_judged_is_not_judged_over_unless_asked_for(command, files, server, capsys):
    command("--judge", "groundedness")
    n = len(server.bodies)
    assert command("--judge", "groundedness") == 2 and len(server.bodies) == n
    says(capsys.readouterr().err, "judge_groundedness", "--overwrite")
    # from the cache
    assert command("--judge", "groundedness", "--overwrite") == 0 and len(server.bodies) == n
    assert command("--judge", "abstention") == 0
    assert set(rs.load_results(files[1]).judgments["criterion"]) == {
        "judge_groundedness",
        "judge_refused",
    }
    assert set(ledger_of(files[1].parent)["judge"]) == {"groundedness", "abstention"}


def test_a_run_of_which_every_judgment_failed_ends_with_3_and_prints_no_metric(
    command, files, server, capsys
):
    server.faults = lambda number, body: "words"
    assert command() == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    says(printed.err, 2, "failed", "JSON")
    assert not (files[1].parent / "judgments.jsonl").exists()


def test_json_holds_counts_means_and_agreement(command, files, capsys):
    options = ["--spot-check", "2", "--second-model", "others"]
    assert command("--json", *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["judgments"][0]["scored"] == 2 and found["judgments"][0]["cost_usd"] is None
    assert found["means"][0]["mean"] == 3.5 and found["agreement"][0]["disagreement"] == 0
    agreement = json.loads((files[1].parent / "agreement.json").read_text())
    assert [row["n"] for row in agreement["table"]] == [2]

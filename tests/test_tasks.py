"""What people want to know, each in at most two lines."""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import ragscore as rs

ROOT = Path(__file__).parents[1]

# task -> at most two lines, and what the last of them must give
TASKS = {
    "mean by slice": (
        'found = ev.summary("mrr@10", by="category")',
        lambda found: set(found["metric"]) == {"mrr@10"} and found["category"].nunique() > 1,
    ),
    "why is it NaN": (
        'found = ev.explain("citation_precision")',
        lambda found: "not_applicable" in set(found["state"].astype("str")),
    ),
    "compare, by slice": (
        'cmp = ev.compare("dense", "hybrid")\nfound = cmp.slices("difficulty", ["hit@5"])',
        lambda found: set(found.table["difficulty"]) == {"easy", "medium", "hard"},
    ),
    "leaderboard": (
        'found = ev.leaderboard(baseline="dense")',
        lambda found: found.baseline == "dense" and len(found.run_ids) == 4,
    ),
    "refusals": (
        'found = ev.refusals(right="answer_checks", threshold=0.5).table',
        lambda found: len(found) >= 4,
    ),
    "failure causes": (
        "failures = ev.failures(right='answer_checks', threshold=0.5)\n"
        "found = failures.transitions('dense', 'hybrid')",
        lambda found: len(found) > 0,
    ),
    "paraphrases": (
        "found = ev.paraphrases(narrow=5, pool=10).summary",
        lambda found: len(found) >= 4,
    ),
    "store and trend": (
        'rs.RunStore(folder / "runs").save(ev)\n'
        'found = rs.RunStore("data/demo/history").trend("mrr@10", golden=golden).plot()',
        lambda found: isinstance(found, plt.Axes),
    ),
    "to TREC": (
        'run = results.save(folder / "run.txt", format="trec", level="chunk")\n'
        'found = golden.save(folder / "qrels.txt", format="trec_qrels")',
        lambda found: found.read_text().startswith("pd-001 0 "),
    ),
}


@pytest.fixture(scope="module")
def ev():
    return rs.evaluate(str(ROOT / "data/demo/runs/*"), str(ROOT / "data/demo/golden.yaml"))


@pytest.mark.large
@pytest.mark.parametrize("task", TASKS)
def test_a_task_takes_two_lines_at_most(task, ev, monkeypatch, tmp_path):
    # what the format has no place for is counted
    warnings.filterwarnings("ignore", ".*has no place for", UserWarning)
    monkeypatch.chdir(ROOT)
    code, holds = TASKS[task]
    assert code.count("\n") <= 1
    names = {"rs": rs, "ev": ev, "results": ev.results, "golden": ev.golden, "folder": tmp_path}
    exec(compile(code, task, "exec"), names)
    assert holds(names["found"])
    plt.close("all")

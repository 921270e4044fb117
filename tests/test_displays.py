"""Every object that an analysis returns can be read in a notebook, a terminal and a paper."""

import inspect
import pkgutil
from importlib import import_module

import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.frames.tables import Display

LAYERS = ("analysis", "golden", "judging", "reporting")
# parts of a computation, what a judge is and answers, and what shows itself: no results to be read
OTHERS = {
    "AlignedScores", "Explorer", "Golden", "GoldenText", "Harness", "History", "Judge",
    "JudgedLists", "Mounted", "NeedleSet", "RankChanges", "Reference", "Reply", "Results", "Span",
    "Table", "Together", "Verdict",
}  # fmt: skip


def returned() -> dict[str, type]:
    """Classes of the package that its public functions return, by name."""
    found = {}
    for listed in pkgutil.walk_packages(rs.__path__, "ragscore."):
        if listed.name.split(".")[1] not in LAYERS:
            continue
        module = import_module(listed.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("_") or function.__module__ != listed.name:
                continue
            kind = function.__annotations__.get("return")
            if inspect.isclass(kind) and kind.__module__.split(".")[0] == "ragscore":
                found[kind.__name__] = kind
    return found


RESULTS = {name: kind for name, kind in returned().items() if name not in OTHERS}
RESULTS["Report"] = rs.Report


def test_the_results_are_found():
    assert {"Comparison", "Gate", "Leaderboard", "QueryView", "Report"} <= set(RESULTS)


@pytest.mark.parametrize("kind", RESULTS.values(), ids=RESULTS)
def test_a_result_has_every_form(kind):
    assert issubclass(kind, Display) and not inspect.isabstract(kind)
    # a dataclass writes a repr of its own unless it is told not to
    assert kind.__repr__ is Display.__repr__
    for name in ("_repr_html_", "to_markdown"):
        assert callable(getattr(kind, name))


@pytest.fixture
def evaluation(write_golden, write_run):
    golden = write_golden(
        [{"id": f"q_{n}", "query": "50 % & $1 {x}?", "expected_doc_ids": ["d_1"]} for n in range(3)]
    )
    first = [record(f"q_{n}", [hit("c_1", "d_1", 1)]) for n in range(3)]
    second = [record("q_0", []), *first[1:]]
    results = rs.load_results([write_run("a_1", first), write_run("b#2", second)])
    return rs.evaluate(results, rs.load_golden(golden))


FOUND = {
    "evaluation": lambda ev: ev,
    "comparison": lambda ev: ev.compare("a_1", "b#2"),
    "gate": lambda ev: ev.compare("a_1", "b#2").gate({"mrr@10": 0.01}),
    "leaderboard": lambda ev: ev.leaderboard(["mrr@10", "hit@5"], baseline="a_1"),
    "coverage": lambda ev: ev.coverage(),
    "query": lambda ev: ev.query("q_0"),
    "report": lambda ev: ev.report(),
}

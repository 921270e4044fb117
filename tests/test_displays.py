"""Every object that an analysis returns can be read in a notebook, a terminal and a paper."""

import inspect
import pkgutil
from importlib import import_module

import pytest

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
assert {"Comparison", "Gate", "Leaderboard", "QueryView"} <= set(RESULTS)


@pytest.mark.parametrize("kind", RESULTS.values(), ids=RESULTS)
def test_a_result_has_every_form(kind):
    assert issubclass(kind, Display) and not inspect.isabstract(kind)
    # a dataclass writes a repr of its own unless it is told not to
    assert kind.__repr__ is Display.__repr__
    for name in ("_repr_html_", "to_markdown"):
        assert callable(getattr(kind, name))

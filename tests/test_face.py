"""What an analysis returns can be read anywhere, and editors show what can be asked for.

Every result has a form for a notebook, a terminal and a paper; methods that are functions of a
higher layer have their signatures and words.
"""

import pkgutil
from importlib import import_module
from inspect import Parameter, getmembers, isabstract, isclass, isfunction, ismodule, signature

import pytest

import ragscore as rs
from ragscore.frames.tables import Display
from ragscore.frames.verbs import Verb
from ragscore.judging import Judged
from ragscore.scoring.policies import Policies

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
        if listed.name.split(".")[1] in LAYERS:
            functions = getmembers(import_module(listed.name), isfunction)
            own = [one for _, one in functions if one.__module__ == listed.name]
            kinds = [one.__annotations__.get("return") for one in own if one.__name__[0] != "_"]
            found |= {kind.__name__: kind for kind in kinds if isclass(kind)}
    return {name: kind for name, kind in found.items() if kind.__module__.startswith("ragscore.")}


RESULTS = {name: kind for name, kind in returned().items() if name not in OTHERS}
RESULTS["Report"] = rs.Report
assert {"Comparison", "Gate", "Leaderboard", "QueryView"} <= set(RESULTS)


@pytest.mark.parametrize("kind", RESULTS.values(), ids=RESULTS)
def test_a_result_has_every_form(kind):
    assert issubclass(kind, Display) and not isabstract(kind)
    # a dataclass writes a repr of its own unless it is told not to
    assert kind.__repr__ is Display.__repr__


HOLDERS = (rs.Golden, rs.Results, rs.RunStore, rs.Comparison, Judged)
METHODS = [
    (cls, name)
    for cls in HOLDERS
    for name, found in vars(cls.__base__).items()
    if isinstance(found, Verb)
]


@pytest.mark.parametrize(
    ("cls", "name"), METHODS, ids=[f"{cls.__name__}.{name}" for cls, name in METHODS]
)
def test_a_method_has_the_signature_and_the_words_of_its_function(cls, name):
    function, bound = getattr(cls, name), getattr(object.__new__(cls), name)
    assert bound.__doc__ == function.__doc__ and function.__doc__
    _, *asked_for = signature(function).parameters.values()  # the first is the object
    assert list(signature(bound).parameters.values()) == asked_for


def public() -> list[tuple[str, object]]:
    """Return the functions, and the classes and their methods, that `rs` and its parts list."""
    parts = {"rs": rs, **{f"rs.{name}": getattr(rs, name) for name in rs.__all__}}
    found: dict[str, object] = {}
    for path, part in parts.items():
        names = getattr(part, "__all__", ()) if ismodule(part) else ()
        for name in names:
            one = getattr(part, name)
            if isclass(one) and one.__module__.startswith("ragscore"):
                members = {each: getattr(one, each) for each in dir(one) if each[0] != "_"}
                found |= {f"{path}.{name}.{each}": of for each, of in members.items()}
            found[f"{path}.{name}"] = one
    return [(path, one) for path, one in found.items() if isfunction(one) or isclass(one)]


# what these take is open: sources, and options of a format, of a program or of matplotlib
OPEN = {"rs.supported_metrics", "rs.Golden.save", "rs.Results.save"}


def test_no_signature_hides_what_can_be_asked_for():
    hidden = {
        path
        for path, one in public()
        for part in signature(one).parameters.values()
        if part.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        and one.__module__.startswith("ragscore")
    }
    assert hidden == OPEN


def test_the_keywords_of_policies_are_its_fields():
    shown = signature(rs.evaluate).parameters
    for one in signature(Policies).parameters.values():
        assert shown[one.name].default == one.default

"""Editors, notebooks and type checkers show methods that are functions of a higher layer."""

from inspect import Parameter, isclass, isfunction, ismodule, signature

import pytest

import ragscore as rs
from ragscore.frames.verbs import Verb
from ragscore.judging import Judged
from ragscore.scoring.policies import Policies, PolicyFields

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
    assert PolicyFields.__annotations__.keys() == signature(Policies).parameters.keys()

"""Editors, notebooks and type checkers show methods that are functions of a higher layer."""

import re
from inspect import Parameter, isclass, isfunction, ismodule, signature
from pathlib import Path

import jedi
import pytest

import ragscore as rs
from ragscore.frames.verbs import Accessor, Verb
from ragscore.judging import Judged
from ragscore.scoring.policies import PolicyFields

HOLDERS = (rs.Golden, rs.Results, rs.RunStore, rs.Comparison, Judged)
METHODS = [
    (cls, name)
    for cls in HOLDERS
    for name, found in vars(cls.__base__).items()
    if isinstance(found, Verb)
]
EACH_METHOD = pytest.mark.parametrize(
    ("cls", "name"), METHODS, ids=[f"{cls.__name__}.{name}" for cls, name in METHODS]
)


def path_of(cls: type) -> str:
    return "rs.judging.Judged" if cls is Judged else f"rs.{cls.__name__}"


def asked_for(cls: type, name: str) -> list[str]:
    """Return the parameters of the function but the first, which is the object."""
    return list(signature(getattr(cls, name)).parameters)[1:]


def test_these_are_the_methods():
    assert len(METHODS) == 37


@EACH_METHOD
def test_a_method_has_the_signature_and_the_words_of_its_function(cls, name):
    function = getattr(cls, name)
    assert function.__doc__
    bound = getattr(object.__new__(cls), name)
    assert signature(bound).parameters == {
        each: found
        for each, found in signature(function).parameters.items()
        if each in asked_for(cls, name)
    }
    assert bound.__doc__ == function.__doc__


def shown_by(script: jedi.Script, line: int | None = None) -> list[list[str]]:
    return [[part.name for part in one.params] for one in script.get_signatures(line)]


@pytest.mark.large
@EACH_METHOD
def test_an_editor_shows_the_parameters(cls, name):
    code = f"import ragscore as rs\ndef given(x: {path_of(cls)}):\n    x.{name}("
    (parameters,) = shown_by(jedi.Script(code))
    named = [one for one in asked_for(cls, name) if one != "options"]  # it may look into these
    # what takes the rest hides the keywords of policies, judges and files from it
    pairs = zip(parameters, named, strict=False)
    assert all(one == other for one, other in pairs if one not in ("fields", "options", "how"))
    assert len(parameters) >= len(named) or parameters[-1] in ("fields", "options", "how")


@pytest.mark.large
@EACH_METHOD
def test_a_notebook_shows_the_parameters(cls, name):
    known = {"x": object.__new__(cls)}
    assert asked_for(cls, name) in shown_by(jedi.Interpreter(f"x.{name}(", [known]))


def test_a_notebook_completes_the_methods():
    for cls in HOLDERS:
        shown = jedi.Interpreter("x.", [{"x": object.__new__(cls)}]).complete()
        assert {name for one, name in METHODS if one is cls} <= {each.name for each in shown}


@pytest.mark.large
def test_a_type_checker_knows_the_parameters_and_the_pictures(tmp_path):
    from mypy import api

    lines = ["import ragscore as rs"]
    for number, (cls, name) in enumerate(METHODS):
        lines.append(f"def f{number}(x: {path_of(cls)}) -> None: reveal_type(x.{name})")
    for number, cls in enumerate((rs.Evaluation, rs.Comparison, rs.Leaderboard)):
        assert isinstance(vars(cls)["plot"], Accessor)
        lines.append(f"def p{number}(x: rs.{cls.__name__}) -> None: reveal_type(x.plot)")
    file = tmp_path / "asked.py"
    file.write_text("\n".join(lines))
    found = api.run([str(file), "--config-file", str(Path(__file__).parents[1] / "pyproject.toml")])
    types = re.findall(r'Revealed type is "(.*)"', found[0])
    assert len(types) == len(lines) - 1, found
    for (cls, name), text in zip(METHODS, types[: len(METHODS)], strict=True):
        kinds = {
            each: "**" if part.kind is Parameter.VAR_KEYWORD else ""
            for each, part in signature(getattr(cls, name)).parameters.items()
        }
        first, *rest = kinds
        assert f"{first}:" not in text.partition(" -> ")[0], text
        lacking = [each for each in rest if f"{kinds[each]}{each}:" not in text]
        assert not lacking or "**" in text, text
        if "PolicyFields" in text:  # one dict, with its names in quotes
            assert all(f"'{each}'" in text for each in lacking), text
    assert types[len(METHODS) :] == ["ragscore.plot.accessor.Plots"] * 3


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
    for one in signature(rs.Policies).parameters.values():
        assert shown[one.name].default == one.default
    assert PolicyFields.__annotations__.keys() == signature(rs.Policies).parameters.keys()

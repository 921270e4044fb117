"""Methods of the frame holders whose functions lie in a higher layer.

Golden, Results and the like are read without what works on them. The stub beside this file says
which function is which method, and editors and type checkers read it. From it the classes are made
here that Golden, Results and the like inherit; a function is imported when its method is looked up.
"""

import re
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from pathlib import Path
from pkgutil import resolve_name
from types import MethodType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Accessor:
    """What an attribute of an object gives, made by a higher layer from the object.

    `plot = Accessor("ragscore.plot.accessor:TREND")` in the body of a class: the name leads to a
    function of the object. Looked up on the class, it is that function.
    """

    of_holder: Callable[[Any, object], Any] = staticmethod(lambda make, holder: make(holder))

    def __init__(self, path: str) -> None:
        self.path = path

    def __get__(self, holder: object | None, owner: type | None = None) -> Any:
        """Return what the function makes of the object, or the function for the class."""
        function = resolve_name(self.path)
        return function if holder is None else self.of_holder(function, holder)


class Verb(Accessor):
    """A function of a higher layer as a method: the object becomes its first argument.

    Looked up on the class, it is the function itself, so `help` shows its signature and docstring.
    """

    of_holder = MethodType


_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_PATHS = {
    name: f"{module}:{name}"
    for module, names in re.findall(r"from (ragscore\S+) import (.+)", _STUB)
    for name in names.split(", ")
}
for _name, _body in re.findall(r"class (\w+Verbs):\n((?: .+\n)+)", _STUB):
    _verbs = {
        name: Verb(_PATHS[function]) for name, function in re.findall(r"(\w+) = (\w+)", _body)
    }
    globals()[_name] = type(_name, (), {"__slots__": (), **_verbs})


def takes(*others: Callable[..., Any] | Iterable[Parameter]) -> Callable[[F], F]:
    """Return a decorator that shows the keywords of these functions and dataclasses.

    Keywords that the function names itself are left out, and arguments that the others need.
    """

    def shown(function: F) -> F:
        whole = signature(function)
        kept = {
            one.name: one
            for other in others
            for one in (signature(other).parameters.values() if callable(other) else other)
            if one.default is not Parameter.empty
        }
        own = [one for one in whole.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        more = [
            one.replace(kind=Parameter.KEYWORD_ONLY)
            for one in kept.values()
            if one.name not in whole.parameters
        ]
        function.__signature__ = whole.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return shown

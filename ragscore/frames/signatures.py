"""Signatures that name the keywords a function passes on, for `help`, `?` and completion.

In: a function that takes `**options` for another one. Out: the same function; its signature has the
other's keywords instead.
"""

from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def takes(*others: Callable[..., Any] | Iterable[Parameter]) -> Callable[[F], F]:
    """Return a decorator that shows the keywords of these functions and dataclasses.

    Keywords that the function names itself are left out, and arguments that the others need.
    """

    def shown(function: F) -> F:
        whole = signature(function)
        given = [one for one in whole.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        kept = {one.name: one for one in given}
        for other in others:
            of = signature(other).parameters.values() if callable(other) else other
            for one in (one for one in of if one.default is not Parameter.empty):
                kept.setdefault(one.name, one.replace(kind=Parameter.KEYWORD_ONLY))
        listed = list(kept.values())
        function.__signature__ = whole.replace(parameters=listed)  # type: ignore[attr-defined]
        return function

    return shown

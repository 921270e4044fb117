"""Methods of the frame holders whose functions lie in a higher layer.

Golden, Results and the like are read without what works on them. A class names such a function by
text, and it is imported when the method is first looked up.
"""

from collections.abc import Callable
from importlib import import_module
from types import MethodType
from typing import Any


class Verb:
    """A function of a higher layer as a method: the object becomes its first argument.

    `save = Verb("ragscore.io.save:save_results")` in the body of a class. Looked up on the class,
    it is the function itself, so `help` shows its signature and docstring.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __get__(self, holder: object | None, owner: type | None = None) -> Callable[..., Any]:
        """Return the function bound to the object, or as it is for the class."""
        module, _, name = self.path.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function if holder is None else MethodType(function, holder)


class Accessor:
    """What an attribute of an object gives, made by a higher layer from the object.

    `plot = Accessor("ragscore.plot.accessor:TREND")` in the body of a class: the name leads to a
    function of the object. Looked up on the class, it is that function.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __get__(self, holder: object | None, owner: type | None = None) -> Any:
        """Return what the function makes of the object."""
        module, _, name = self.path.partition(":")
        make: Callable[[Any], Any] = getattr(import_module(module), name)
        return make if holder is None else make(holder)

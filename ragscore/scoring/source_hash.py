"""What a user's function does, as a hash that is the same in every process.

Rules of matching, readings of ids and metrics of one's own are recorded by it.
"""

import ast
import hashlib
import inspect
import re
import textwrap
from types import CodeType
from typing import Any

PLAIN = (str, bytes, int, float, bool, tuple, frozenset, type(None))


def source_hash(function: Any) -> str:
    """Return a hash of what a function does, not of what it calls.

    Its source without comments, docstring and decorators, else its code (of a lambda, say); what it
    closes over and has as defaults; and the plain values that it finds in its module.
    """
    code = function.__code__
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError, TypeError):
        tree = None
    if isinstance(tree, ast.FunctionDef):
        tree.decorator_list = []
        if ast.get_docstring(tree) is not None:
            tree.body = tree.body[1:] or [ast.Pass()]
        text = ast.unparse(tree)
    else:
        text = repr(_instructions(code))
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    held += [cell.cell_contents for cell in function.__closure__ or ()]
    found = [function.__globals__.get(name) for name in code.co_names]
    held += [one for one in found if isinstance(one, PLAIN)]
    return hashlib.sha256("\n".join([text, *map(_shown, held)]).encode()).hexdigest()[:16]


def _instructions(code: CodeType) -> tuple[Any, ...]:
    inner = [
        _instructions(one) if isinstance(one, CodeType) else _shown(one) for one in code.co_consts
    ]
    return code.co_code, code.co_names, inner


def _shown(value: Any) -> str:
    """Return a value's repr without what differs between processes: order of sets, addresses."""
    if isinstance(value, (set, frozenset)):
        return repr(sorted(map(repr, value)))
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))

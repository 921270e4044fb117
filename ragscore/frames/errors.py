"""The one error that unusable input ends in, how it names things, and the one way to warn."""

import json
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from ragscore.frames.escaping import visible

LISTED = 10  # names that a message lists; of more it lists these first and gives the count
SHOWN = 60  # characters of a value that a message shows
# not by our name: on the package index, that is another project's
TO_INSTALL = "that package; all of the extra: pip install '.[{}]' in a clone of ragscore"
COMPARED = 20_000  # names that are looked through for near ones: more take seconds
_UNSAID: ContextVar[tuple[tuple[str, list[str]], ...]] = ContextVar("unsaid", default=())


class DataError(ValueError):
    """Input that can't be used: where it is, what was found there and what is allowed.

    Attributes
    ----------
    file, line, field, found, allowed
        Parts of the message; None where they don't apply. `line` counts from 1.
    columns
        Role -> column to give as `columns=`, "???" where only the caller knows it; None: none.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    def __init__(
        self,
        found: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        allowed: str | None = None,
        columns: Mapping[str, str | None] | None = None,
    ) -> None:
        self.file = None if file is None else str(file)
        self.line, self.field, self.found, self.allowed = line, field, found, allowed
        self.columns = columns
        place = ":".join(str(part) for part in (self.file, line) if part is not None)
        text = ": ".join(part for part in (place, field, found) if part)
        roles = ", ".join(
            f"{json.dumps(role)}: {json.dumps(name, ensure_ascii=False) if name else None}"
            for role, name in (columns or {}).items()
        )
        way = " ".join(part for part in (f"columns={{{roles}}}" * bool(roles), allowed) if part)
        super().__init__(visible(f"{text}; {way}" if way else text))


def excerpt(value: object) -> str:
    """Return a value as a message shows it: short text and numbers as written, else the type."""
    if value is None or isinstance(value, (str, int, float)):
        text = repr(value)
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    return type(value).__name__


def name_list(names: Iterable[object]) -> str:
    """Return names as a message lists them: each once, the first few and the count if many."""
    distinct = list(dict.fromkeys(map(str, names)))
    if len(distinct) <= LISTED + 2:
        return ", ".join(distinct) or "none"
    return f"{', '.join(distinct[:LISTED])}, … ({len(distinct):,} in all)"


def plural(n: int, noun: str) -> str:
    """Return a number with its noun: "1 run", "2 runs", "3 queries"."""
    return f"{n:,} {noun if n == 1 else f'{noun}s'.replace('ys', 'ies')}"


def nearest(name: object, known: Iterable[object], preface: str = "one of") -> str:
    """Return what there is instead of an unknown name, and which of it was probably meant.

    Case, punctuation and leading zeros don't count. Many names are listed only where none is near.
    """
    names = list(dict.fromkeys(map(str, known)))
    if not names:
        return "there are none"
    wanted, listed = _plain(str(name)[:SHOWN]), f"{preface} {name_list(names)}"
    plain = {_plain(one): one for one in reversed(names)}
    close = [wanted] if wanted in plain else get_close_matches(wanted, list(plain)[:COMPARED], n=3)
    if not close or len(names) == 1:
        return listed
    meant = f"did you mean {' or '.join(plain[one] for one in close)}?"
    return f"{listed}; {meant}" if len(names) <= LISTED + 2 else meant


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+|(?<!\d)0+(?=\d)", "", name.casefold()) or name


def names_of(value: object, field: str, allowed: str = "a name, or a list of names") -> list[str]:
    """Return one name or several as a list.

    Raises
    ------
    DataError
        Anything else, such as a frame or a number.
    """
    is_one = isinstance(value, str) or hasattr(value, "columns") or not isinstance(value, Iterable)
    names = [value] if is_one else list(cast("Iterable[object]", value))
    if others := [one for one in names if not isinstance(one, str)]:
        raise DataError(f"found {excerpt(others[0])}", field=field, allowed=allowed)
    return cast("list[str]", names)


def check_choice(value: object, known: Collection[str], field: str) -> None:
    """Refuse an argument that is none of a few words.

    Raises
    ------
    DataError
        It names the nearest of them.
    """
    if not isinstance(value, str) or value not in known:
        raise DataError(f"found {excerpt(value)}", field=field, allowed=nearest(value, known))


def check_whole(value: object, field: str, lowest: int = 1, *, or_none: bool = False) -> None:
    """Refuse what is no whole number from `lowest`."""
    if not ((type(value) is int and value >= lowest) or (or_none and value is None)):
        allowed = f"a whole number from {lowest}" + ", or None" * or_none
        raise DataError(f"found {excerpt(value)}", field=field, allowed=allowed)


@contextmanager
def packages_of(
    extra: str, *, field: str | None = None, file: str | Path | None = None
) -> Iterator[None]:
    """Name the extra of a package that an optional part imports here, if it isn't installed."""
    try:
        yield
    except ImportError as error:
        raise DataError(
            f"the package {error.name} is missing",
            field=field,
            file=file,
            allowed=TO_INSTALL.format(extra),
        ) from error


def check_known(
    names: object, known: Iterable[object], field: str, what: str, preface: str = "one of"
) -> None:
    """Refuse a name, or several, of which there is no such `what`.

    Raises
    ------
    DataError
        It names the nearest one.
    """
    is_one = isinstance(names, str) or not isinstance(names, Iterable)
    asked, there = [names] if is_one else list(cast("Iterable[object]", names)), list(known)
    if unknown := [one for one in asked if one not in there]:
        found = name_list(unknown) if len(unknown) > 1 else excerpt(unknown[0])
        allowed = nearest(unknown[0], there, preface)
        raise DataError(f"no {what} {found}", field=field, allowed=allowed)


def warn(text: str) -> None:
    """Warn at the line outside this package that led here.

    That is where the caller can change something, however deep the reason was found. Only the
    thread of the public call may warn; threads and workers return what is to be said.
    """
    for pattern, said in reversed(_UNSAID.get()):
        if re.match(pattern, text):
            said.append(visible(text))
            return
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "ragscore":
        frame, level = frame.f_back, level + 1
    warnings.warn(visible(text), UserWarning, stacklevel=level)


@contextmanager
def unsaid(pattern: str = "") -> Iterator[list[str]]:
    """Keep back warnings whose text starts so, and list them instead.

    Only those given here by `warn`: filters of `warnings` would silence other threads as well.
    """
    said: list[str] = []
    before = _UNSAID.set((*_UNSAID.get(), (pattern, said)))
    try:
        yield said
    finally:
        _UNSAID.reset(before)


def check_type(value: object, kind: type | tuple[type, ...], field: str, allowed: str = "") -> None:
    """Refuse an argument of another type, such as a file's name where a frame belongs."""
    if not isinstance(value, kind):
        name = kind.__name__ if isinstance(kind, type) else ""
        made_by = f", as rs.load_{name.lower()} gives it" * (name in ("Results", "Golden"))
        allowed = allowed or f"a {name}{made_by}"
        raise DataError(f"found {type(value).__name__}", field=field, allowed=allowed)

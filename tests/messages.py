"""What errors, warnings and displays are about: facts, not sentences.

A test names the file, line and field of a `DataError`, and the values that a text must name. How
the sentence goes round them is free to change.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ragscore as rs

ANY: Any = object()


@contextmanager
def refused(
    *named: object,
    file: object = ANY,
    line: int | None = ANY,
    field: str | None = ANY,
    error: type[BaseException] = rs.DataError,
) -> "Iterator[pytest.ExceptionInfo[Any]]":
    """Expect a `DataError` about something: `with refused("q1", 7, field="rank"): ...`.

    Parameters
    ----------
    *named
        What the message names, each as a word of its own: ids, values, counts, options.
    file, line, field
        Of the error. A file is given by its last parts. None says that it has no line or field.
    error
        Another class of error.
    """
    __tracebackhide__ = True
    with pytest.raises(error) as caught:
        yield caught
    check(caught.value, *named, file=file, line=line, field=field)


def check(
    error: BaseException,
    *named: object,
    file: object = ANY,
    line: int | None = ANY,
    field: str | None = ANY,
) -> None:
    """Check the facts of an error that was caught, as `refused` does."""
    __tracebackhide__ = True
    if file is not ANY:
        parts, there = Path(str(file)).parts, getattr(error, "file", None)
        assert Path(str(there)).parts[-len(parts) :] == parts, f"file: {there!r}"
    if line is not ANY:
        assert getattr(error, "line", None) == line, f"line: {error}"
    if field is not ANY:
        assert getattr(error, "field", None) == field, f"field: {error}"
    says(str(error), *named)


@contextmanager
def warned(
    *named: object, category: type[Warning] = UserWarning
) -> Iterator[list[warnings.WarningMessage]]:
    """Expect a warning that names what is given; others are passed on."""
    __tracebackhide__ = True
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield told
    texts = [str(one.message) for one in told]
    is_meant = [
        issubclass(one.category, category) and all(names(text, name) for name in named)
        for one, text in zip(told, texts, strict=True)
    ]
    assert any(is_meant), f"no warning names {named}: {texts}"
    for one, is_expected in zip(told, is_meant, strict=True):
        if not is_expected:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def says(text: object, *named: object) -> str:
    """Check what a text names, and return it. Of several lines, one has to name it all."""
    __tracebackhide__ = True
    text = str(text)
    lines = text.strip("\n").splitlines() if "\n" in text.strip("\n") else [text]
    if not any(all(names(line, name) for name in named) for line in lines):
        missing = [name for name in named if not names(text, name)]
        raise AssertionError(f"no line names {missing or named} in:\n{text}")
    return text


def names(text: str, name: object) -> bool:
    """Whether a text holds a name or number, not only as a part of a longer one."""
    name = str(name)
    before = r"(?<![\w.])" if re.match(r"\d", name) else r"(?<!\w)" if re.match(r"\w", name) else ""
    after = r"(?!\w|\.\d)" if re.search(r"\w$", name) else ""
    return re.search(before + re.escape(name) + after, text) is not None

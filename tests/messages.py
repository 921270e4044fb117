"""What errors, warnings and displays are about: facts, not sentences.

A test names the file, line and field of a `DataError`, and the values that a text must name. How
the sentence goes round them is free to change.
"""

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import ragscore as rs

ANY: Any = object()


class refused:
    """Expect a `DataError` about something: `with refused("q1", 7, field="rank"): ...`.

    Parameters
    ----------
    *named
        What the message names, each as a word of its own: ids, values, counts, options.
    file, line, field
        Of the error. A file is given by its last parts. None says that it has none.
    error
        Another class of error.
    """

    def __init__(
        self,
        *named: object,
        file: object = ANY,
        line: int | None = ANY,
        field: str | None = ANY,
        error: type[BaseException] = rs.DataError,
    ) -> None:
        self.named, self.file, self.line, self.field = named, file, line, field
        self.raises = pytest.raises(error)

    def __enter__(self) -> "pytest.ExceptionInfo[Any]":
        return self.raises.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        __tracebackhide__ = True
        if not self.raises.__exit__(kind, error, traceback):
            return False
        check(error, *self.named, file=self.file, line=self.line, field=self.field)
        return True


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
        there = getattr(error, "file", None)
        if file is None or there is None:
            assert there is file, f"file: {there!r}"
        else:
            parts = Path(str(file)).parts
            assert Path(there).parts[-len(parts) :] == parts, f"file: {there!r}"
    if line is not ANY:
        assert getattr(error, "line", None) == line, f"line: {error}"
    if field is not ANY:
        assert getattr(error, "field", None) == field, f"field: {error}"
    says(str(error), *named)


class warned:
    """Expect a warning that names what is given; others are passed on."""

    def __init__(self, *named: object, category: type[Warning] = UserWarning) -> None:
        self.named, self.category = named, category
        self.recorder = warnings.catch_warnings(record=True)

    def __enter__(self) -> list[warnings.WarningMessage]:
        self.told: list[warnings.WarningMessage] = self.recorder.__enter__()  # type: ignore[assignment]
        warnings.simplefilter("always")
        return self.told

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        __tracebackhide__ = True
        self.recorder.__exit__(kind, error, traceback)
        if error is not None:
            return
        meant = [
            one
            for one in self.told
            if issubclass(one.category, self.category)
            and all(names(str(one.message), name) for name in self.named)
        ]
        texts = [str(one.message) for one in self.told]
        assert meant, f"no warning names {self.named}: {texts}"
        for one in self.told:
            if one in meant:
                says(str(one.message))
            else:
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

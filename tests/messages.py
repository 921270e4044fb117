"""What errors, warnings and displays are about, and the one page that holds their sentences.

A test names facts: the file, line and field of a `DataError`, and the input that a sentence names.
The sentence itself is kept in `tests/messages.md`, by test. A run of pytest compares it and fails
once, with the differences; `python -m tests.messages [FILE ...]` renews the page, to be read in
review. Sentences may quote Python, pandas or pyarrow: with other versions of them than the page was
made with, a run compares nothing and says so.
"""

import os
import platform
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import ragscore as rs

PAGE = Path(__file__).with_name("messages.md")
SAID: dict[str, list[str]] = {}  # by test, in the order said
ANY: Any = object()
_FOLDERS = re.compile(r"[^\s'\"(]*/pytest-of-[^/\s]+/pytest-\d+/(?:popen-gw\d+/)?[^/\s'\":;,]+/?")
_VERSIONS = ", ".join(
    re.sub(r"(\d+\.\d+)\S*", r"\1", one)
    for one in (
        platform.system(),
        f"Python {platform.python_version()}",
        f"pandas {pd.__version__}",
        f"pyarrow {pa.__version__}",
    )
)
_MADE_WITH = "Made with "
_TITLE = f"""# Messages

Every sentence that a test says a fact of, by test. A page of `python -m tests.messages`.
{_MADE_WITH}{_VERSIONS}.
"""


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
    kept
        False for a message that differs between runs or platforms: it is not put on the page.
    """

    def __init__(
        self,
        *named: object,
        file: object = ANY,
        line: int | None = ANY,
        field: str | None = ANY,
        error: type[BaseException] = rs.DataError,
        kept: bool = True,
    ) -> None:
        self.named, self.file, self.line, self.field = named, file, line, field
        self.kept, self.raises = kept, pytest.raises(error)

    def __enter__(self) -> "pytest.ExceptionInfo[Any]":
        return self.raises.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        __tracebackhide__ = True
        if not self.raises.__exit__(kind, error, traceback):
            return False
        check(error, *self.named, file=self.file, line=self.line, field=self.field, kept=self.kept)
        return True


def check(
    error: BaseException,
    *named: object,
    file: object = ANY,
    line: int | None = ANY,
    field: str | None = ANY,
    kept: bool = True,
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
    says(str(error), *named, kept=kept)


class warned:
    """Expect a warning that names what is given; others are passed on."""

    def __init__(
        self, *named: object, category: type[Warning] = UserWarning, kept: bool = True
    ) -> None:
        self.named, self.category, self.kept = named, category, kept
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
                says(str(one.message), kept=self.kept)
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def says(text: object, *named: object, kept: bool = True) -> str:
    """Check what a text names, keep it for the page, and return it.

    Of a text of several lines, one has to name it all, and the first that does is kept.
    """
    __tracebackhide__ = True
    text = str(text)
    lines = text.strip("\n").splitlines()
    if len(lines) > 1 and named:
        fitting = [line for line in lines if all(names(line, name) for name in named)]
        assert fitting, f"no line names {named} in:\n{text}"
        sentence = fitting[0]
    else:
        sentence = text
        for name in named:
            assert names(text, name), f"{name!r} is not named in: {text}"
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if kept and test:
        SAID.setdefault(test, []).append(plain(sentence.strip()))
    return text


def names(text: str, name: object) -> bool:
    """Whether a text holds a name or number, not only as a part of a longer one."""
    name = str(name)
    before = r"(?<![\w.])" if re.match(r"\d", name) else r"(?<!\w)" if re.match(r"\w", name) else ""
    after = r"(?!\w|\.\d)" if re.search(r"\w$", name) else ""
    return re.search(before + re.escape(name) + after, text) is not None


def plain(text: str) -> str:
    """Return a text as the page has it: one line, without what differs between runs.

    That is folders of this run and machine, random roots of stores, hashes in names of files, free
    ports, the seconds up to a date, and times in a table.
    """
    text = _FOLDERS.sub("", text).replace(f"{PAGE.parents[1]}{os.sep}", "")
    text = re.sub(
        r"-[0-9a-f]{12}(?=\.)", "-…", re.sub(r"\w+://(?:bucket/)?[0-9a-f]{8,}/?", "", text)
    )
    text = re.sub(r"(?<=[\w>])#[0-9a-f]{8}\b", "#…", text)
    text = re.sub(r"(?<= at 0x)[0-9a-f]+", "…", text)  # where an object lies
    text = re.sub(r"(?<=  )\d+\.\d s(?=  )", "… s", text)  # the times of a table
    text = re.sub(r"(?<=port: )\d{5}\b|(?<=wait of )\d{10,}(?= s)", "…", text)
    return " ⏎ ".join(line.rstrip() for line in text.strip("\n").splitlines())


def made_elsewhere(page: Path = PAGE) -> str:
    """Return what the page was made with, if that isn't what runs here; else nothing."""
    for line in page.read_text(encoding="utf-8").splitlines() if page.exists() else []:
        if line.startswith(_MADE_WITH):
            made = line.removeprefix(_MADE_WITH).removesuffix(".")
            return "" if made == _VERSIONS else made
    return ""


def read(page: Path = PAGE) -> dict[str, list[str]]:
    """Return the sentences of the page, by test."""
    found: dict[str, list[str]] = {}
    file = test = ""
    for line in page.read_text(encoding="utf-8").splitlines() if page.exists() else []:
        if line.startswith("## "):
            file = line[3:]
        elif line.startswith("- `"):
            test = f"{file}::{line[3:-1]}"
        elif line.startswith("  - "):
            found.setdefault(test, []).append(line[4:])
    return found


def write(said: dict[str, list[str]], page: Path = PAGE) -> None:
    """Write the page."""
    lines, last = [_TITLE], ""
    for test in sorted(said):
        file, _, name = test.partition("::")
        if file != last:
            lines.append(f"\n## {file}\n")
            last = file
        lines.append(f"- `{name}`")
        lines += [f"  - {text}" for text in said[test]]
    page.write_text("\n".join(lines).replace("\n\n\n", "\n\n") + "\n", encoding="utf-8")


def differences(said: dict[str, list[str]], kept: dict[str, list[str]]) -> list[str]:
    """Return what tests said that the page has otherwise, a line each."""
    return [
        line
        for test in sorted(said)
        if said[test] != kept.get(test, [])
        for line in (
            test,
            *(f"  - {text}" for text in kept.get(test, []) if text not in said[test]),
            *(f"  + {text}" for text in said[test] if text not in kept.get(test, [])),
        )
    ]


def main() -> None:
    """Run the tests that say something, and write the page."""
    files = sys.argv[1:] or sorted(
        str(file.relative_to(Path.cwd()))
        for file in Path(__file__).parent.rglob("test_*.py")
        if "messages import" in file.read_text(encoding="utf-8")
    )
    raise SystemExit(pytest.main(["-q", "--large", "--messages=renew", *files]))


if __name__ == "__main__":
    main()

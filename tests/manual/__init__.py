"""The pages of the manual: README.md and those in notebooks/, run as a reader would.

A page runs top to bottom in one namespace, in a folder of its own that holds a link to data/.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import pandas as pd

from ragscore import evaluation
from ragscore.cli import main
from ragscore.io import registry
from ragscore.io.load import load_golden, load_results

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
BLOCK = re.compile(r"^```([\w-]+)(?: +(\S+))?\n(.*?)^```$", flags=re.M | re.S)
WIDTH = 100
# What is written to the file it names, for the blocks below it.
FILES = {"yaml", "json", "jsonl", "csv", "tsv", "toml", "trec"}
# Shown, not needed: a block that imports one of these is left out where it isn't there.
OPTIONAL = ("duckdb", "polars", "ranx", "ir_measures", "pytrec_eval", "dask", "distributed")


class PageError(AssertionError):
    """A block that does not do what its page says."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, the second word of its fence, its text and place."""

    page: Path
    language: str
    name: str
    text: str
    line: int
    start: int  # of the text, in characters
    end: int

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"


def pages() -> list[Path]:
    """Return README.md and the Markdown pages of the manual."""
    found = (
        page
        for page in NOTEBOOKS.rglob("*.md")
        if not any(part.startswith(("_", ".")) for part in page.relative_to(NOTEBOOKS).parts)
    )
    return [ROOT / "README.md", *sorted(found)]


def blocks(page: Path, text: str | None = None) -> list[Block]:
    """Return the fenced blocks of a page that have a language."""
    text = page.read_text(encoding="utf-8") if text is None else text
    return [
        Block(
            page, m[1], m[2] or "", m[3], text.count("\n", 0, m.start()) + 1, m.start(3), m.end(3)
        )
        for m in BLOCK.finditer(text)
    ]


def run(page: Path, folder: Path) -> list[tuple[Block, Block | None, str]]:
    """Run every block of a page in `folder`; return each, the block that shows it, and its output.

    A block that can't be run, or that prints what no block shows, is a `PageError`.
    """
    (folder / "data").symlink_to(ROOT / "data", target_is_directory=True)
    namespace: dict[str, object] = {"__name__": "__main__"}
    done = []
    found = blocks(page)
    with (
        contextlib.chdir(folder),
        pd.option_context("display.width", WIDTH),
        patch.dict(registry._registered),  # a page's own formats are gone after it
        patch.multiple(evaluation, load_golden=_demo_golden, load_results=_demo_results),
    ):
        for before, block, following in zip(
            [None, *found],
            found,
            [*found[1:], None],
            strict=False,  # before, it, after
        ):
            shown = following if following and following.language == "text" else None
            shown = shown if shown and not shown.name else None
            if block.language == "python":
                if not is_runnable(block.text):
                    continue
                printed = run_python(block, namespace)
            elif block.language == "sh":
                if block.text.startswith("python3 -m venv"):  # the two commands, tried by .ci/run
                    continue
                printed = run_shell(block)
            elif block.language in FILES:
                if not block.name:
                    raise PageError(f"{block}: name the file that this {block.language} is")
                target = Path(block.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text, encoding="utf-8")
                continue
            elif block.language == "text":
                if not block.name and (before is None or before.language not in ("python", "sh")):
                    raise PageError(f"{block}: text that nothing printed")
                continue
            else:
                raise PageError(f"{block}: {block.language} can't be run")
            if printed.strip() and not shown:
                raise PageError(f"{block}: prints, and no text block shows it:\n{printed}")
            done.append((block, shown, printed))
    return done


def _loaded_once(load: Callable[..., T]) -> Callable[..., T]:
    """Load the demo's files once for all pages that evaluate them; anything else each time."""
    kept = cache(load)

    def loaded(source: object, **how: object) -> T:
        is_of_demo = isinstance(source, str) and source.startswith("data/demo/") and not how
        return (kept if is_of_demo else load)(source, **how)

    return loaded


_demo_golden, _demo_results = map(_loaded_once, (load_golden, load_results))


def is_runnable(code: str) -> bool:
    imported = re.findall(r"^\s*(?:import|from) (\w+)", code, flags=re.M)
    return all(importlib.util.find_spec(name) is not None for name in imported if name in OPTIONAL)


def run_python(block: Block, namespace: dict[str, object]) -> str:
    printed = io.StringIO()
    # Errors name the page and its line.
    code = compile("\n" * block.line + block.text, str(block.page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_shell(block: Block) -> str:
    lines = block.text.replace("\\\n", " ").strip().splitlines()
    if all(re.fullmatch(r"ragscore [\w\s./=:@,-]+", line) for line in lines):
        return "".join(run_command(block, shlex.split(line)[1:]) for line in lines)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "COLUMNS": str(WIDTH),
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
    )
    if done.returncode:
        raise PageError(f"{block}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def run_command(block: Block, arguments: list[str]) -> str:
    """Run a command line of ragscore that needs no shell in this process."""
    printed = io.StringIO()
    columns = os.environ | {"COLUMNS": str(WIDTH)}
    with patch.dict(os.environ, columns), contextlib.redirect_stdout(printed):
        if status := main(arguments):
            raise PageError(f"{block}: exit status {status}\n{printed.getvalue()}")
    return printed.getvalue()


def same(shown: str, printed: str) -> bool:
    """Whether an output is as shown, spaces at the ends of lines aside."""
    return plain(shown) == plain(printed)


def plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()

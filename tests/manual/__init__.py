"""The pages of the manual: README.md and those in notebooks/, run as a reader would.

A page runs top to bottom in one namespace, in a folder of its own that holds a link to data/.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd

from ragscore import evaluation
from ragscore.cli import main
from ragscore.io import registry
from ragscore.io.load import load_golden, load_results

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
BLOCK = re.compile(r"^```([\w-]+)(?: +(\S+))?\n(.*?)^```$", flags=re.M | re.S)
BUILT = re.compile(r"/notebooks/(?:.*/)?[._]")  # folders of Sphinx and Jupyter
WIDTH = "100"
# What is written to the file it names, for the blocks below it.
FILES = {"yaml", "json", "jsonl", "csv", "tsv", "toml", "trec"}
# Shown, not needed: a block that imports one of these is left out where it isn't there.
OPTIONAL = re.compile(
    r"^\s*(?:import|from) (duckdb|polars|ranx|ir_measures|pytrec_eval|dask|distributed)\b", re.M
)


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
        return f"{self.page.name}, line {self.line}"


def pages() -> list[Path]:
    """Return README.md and the Markdown pages of the manual."""
    found = [page for page in NOTEBOOKS.rglob("*.md") if not BUILT.search(str(page))]
    return [ROOT / "README.md", *sorted(found)]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that have a language."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, m[1], m[2] or "", m[3], text.count("\n", 0, m.start()) + 1, *m.span(3))
        for m in BLOCK.finditer(text)
    ]


def run(page: Path, folder: Path) -> list[tuple[Block, Block | None, str]]:
    """Run every block of a page in `folder`; return each, the block that shows it, and its output.

    A block that can't be run, or that prints what no block shows, is an `AssertionError`.
    """
    (folder / "data").symlink_to(ROOT / "data", target_is_directory=True)
    namespace: dict[str, object] = {"__name__": "__main__"}
    done = []
    found = blocks(page)
    with (
        contextlib.chdir(folder),
        pd.option_context("display.width", int(WIDTH)),
        patch.dict(registry._registered),  # a page's own formats are gone after it
        patch.multiple(evaluation, load_golden=_demo_golden, load_results=_demo_results),
    ):
        for before, block, after in zip([None, *found], found, [*found[1:], None], strict=False):
            shown = after if after and after.language == "text" and not after.name else None
            if block.language in FILES and block.name:
                Path(block.name).parent.mkdir(parents=True, exist_ok=True)
                Path(block.name).write_text(block.text, encoding="utf-8")
            elif block.language == "python" and all(map(find_spec, OPTIONAL.findall(block.text))):
                done.append((block, shown, run_python(block, namespace)))
            elif block.language == "sh" and not block.text.startswith("python3 -m venv"):
                done.append((block, shown, run_shell(block)))  # .ci/run tries the others
            else:
                is_printed = before is not None and before.language in ("python", "sh")
                is_shown = block.language == "text" and (block.name or is_printed)
                assert is_shown or block.language in ("python", "sh"), (
                    f"{block}: can't be run, is a file without a name or text that nothing printed"
                )
    for block, shown, printed in done:
        assert shown or not printed.strip(), f"{block}: no text block shows this:\n{printed}"
    return done


def _loaded_once(load: Callable[..., Any]) -> Callable[..., Any]:
    """Load the demo's files once for all pages that evaluate them; anything else each time."""
    kept = cache(load)
    return lambda source, **how: (
        kept if str(source).startswith("data/demo/") and not how else load
    )(source, **how)


_demo_golden, _demo_results = map(_loaded_once, (load_golden, load_results))


def run_python(block: Block, namespace: dict[str, object]) -> str:
    # Errors name the page and its line.
    code = compile("\n" * block.line + block.text, str(block.page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def run_shell(block: Block) -> str:
    """Run command lines: those of ragscore alone in this process, others in a shell."""
    lines = block.text.replace("\\\n", " ").strip().splitlines()
    around = {
        "COLUMNS": WIDTH,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with patch.dict(os.environ, around):
        if all(re.fullmatch(r"ragscore [\w\s./=:@,-]+", line) for line in lines):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                statuses = [main(shlex.split(line)[1:]) for line in lines]
            assert not any(statuses), f"{block}: exit statuses {statuses}\n{printed.getvalue()}"
            return printed.getvalue()
        command = ["bash", "-euo", "pipefail", "-c", block.text]
        done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, f"{block}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def plain(text: str) -> str:
    """Return an output without spaces at the ends of lines, and empty lines around it."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()

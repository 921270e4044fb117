"""Faults put into the package, one at a time, and whether the tests catch them.

`python -m tests.mutants` chooses faults by a seed, spread over the folders of `ragscore`: a
comparison is flipped, a bound moved by one, a column swapped for another one of its module. Each is
written into a clone of what is committed. Files of tests that reach its line run there, those of
its folder first, until one fails: the quick ones, or with `-m ''` all. `--show` lists the faults.

It needs to know which file of tests reaches which fault, and finds out first: it lets each place
note the test that runs it, and runs all tests once.
"""

import argparse
import ast
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, cycle
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FLIPPED = {
    ast.Lt: ">", ast.Gt: "<", ast.LtE: ">", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
LIMIT = 1200  # seconds for the files of one fault: a test that hangs has caught it


class Mutant(NamedTuple):
    """One fault: the text between two offsets of a file, and what stands there instead."""

    file: str
    line: int
    start: int
    end: int
    was: str
    becomes: str
    kind: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.kind}: {self.was} → {self.becomes}"


def is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def changes(node: ast.AST, keys: set[str]) -> Iterator[tuple[ast.expr, str, str]]:
    """Yield what may be changed at a place of a module: the part, its new text, and the kind."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield node, f"({left} {FLIPPED[type(node.ops[0])]} {right})", "comparison"
        bounds = node.comparators
    else:
        bounds = [node.lower, node.upper] if isinstance(node, ast.Slice) else []
    for bound in bounds:
        if is_number(bound):
            yield bound, repr(bound.value + 1), "bound"
    for key in column_of(node) & keys:
        for other in sorted(keys - {key}):
            yield node.slice, repr(other), "column"


def column_of(node: ast.AST) -> set[str]:
    """The name of a column that is looked up here."""
    found = node.slice if isinstance(node, ast.Subscript) else None
    is_name = isinstance(found, ast.Constant) and isinstance(found.value, str)
    return {found.value} if is_name else set()


def faults(file: Path) -> Iterator[Mutant]:
    """Yield every fault that can be put into a file."""
    source, name = file.read_bytes(), str(file.relative_to(ROOT))
    nodes = list(ast.walk(ast.parse(source)))
    lines = source.splitlines(keepends=True)
    begins = [0, *accumulate(map(len, lines))]
    # annotations, and what stands in f-strings: older Pythons place it elsewhere
    left_out = [getattr(node, part, None) for node in nodes for part in ("annotation", "returns")]
    left_out += [node for node in nodes if isinstance(node, ast.JoinedStr)]
    hidden = {id(part) for one in left_out if one is not None for part in ast.walk(one)}
    keys = set().union(*map(column_of, nodes))
    for node in nodes:
        for part, becomes, kind in () if id(node) in hidden else changes(node, keys):
            start = begins[part.lineno - 1] + part.col_offset
            end = begins[part.end_lineno - 1] + part.end_col_offset
            yield Mutant(name, part.lineno, start, end, source[start:end].decode(), becomes, kind)


def chosen(n: int, seed: int) -> list[Mutant]:
    """Return `n` faults: of every folder in turn, of the three kinds in turn."""
    draw, kinds = random.Random(seed), cycle(("comparison", "bound", "column"))
    there: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for file in sorted((ROOT / "ragscore").rglob("*.py")):
        for one in faults(file):
            there[str(Path(one.file).parent), one.kind].append(one)
    folders = cycle(sorted({folder for folder, _ in there}))
    found: list[Mutant] = []
    while len(found) < n:
        folder = next(folders)
        own = there[folder, next(kinds)] or there[folder, "comparison"]
        if own:
            found.append(own.pop(draw.randrange(len(own))))
    return found


def hit(number: int, seen: set[tuple[int, str]] = set()) -> None:  # noqa: B006
    """Note the file of the test that runs, or of none: what is called at the place of a fault.

    Of the process's own variables: a test may put another `os.environ` in place.
    """
    test = os.environb.get(b"PYTEST_CURRENT_TEST", b"").decode().split("::")[0]
    if (number, test) not in seen:
        seen.add((number, test))
        notes = Path(os.environb[b"RAGSCORE_REACHED"].decode())
        with notes.open("a", encoding="utf-8") as file:
            file.write(f"{number} {test}\n")


def reached(wanted: list[Mutant], root: Path, more: list[str]) -> list[set[str]]:
    """Run all tests once; return the files of tests that reach each fault. "" is an import."""
    added: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for n, one in enumerate(wanted):
        call = f'(__import__("tests.mutants", fromlist=["hit"]).hit({n}), '
        added[one.file] += [(one.start, call), (one.end, ")[1]")]
    before = {file: (root / file).read_bytes() for file in added}
    for file, texts in added.items():
        source = before[file]
        for at, text in sorted(texts, reverse=True):
            source = source[:at] + text.encode() + source[at:]
        (root / file).write_bytes(source)
    notes = root / ".reached"
    run_tests(root, "-n", "2", "--dist", "loadfile", *more, RAGSCORE_REACHED=str(notes))
    for file, source in before.items():
        (root / file).write_bytes(source)
    found: list[set[str]] = [set() for _ in wanted]
    for line in notes.read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition(" ")
        found[int(number)].add(test)
    return found


def run_tests(root: Path, *options: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run tests in a clone."""
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    own = {"PYTHONPATH": str(root), "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
    return subprocess.run(
        [*command, *options], cwd=root, env=kept | own | more, capture_output=True, text=True,
        timeout=None if "-n" in options else LIMIT, check=False,
    )  # fmt: skip


def caught(one: Mutant, root: Path, files: list[str], more: list[str]) -> str:
    """Return the test that fails with a fault in the package, or nothing."""
    target = root / one.file
    source = target.read_bytes()
    target.write_bytes(source[: one.start] + one.becomes.encode() + source[one.end :])
    try:
        done = run_tests(root, "-x", *more, *files)
    except subprocess.TimeoutExpired:
        return "a time limit"
    finally:
        target.write_bytes(source)
    if done.returncode in (0, 5):
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return named[0].split(" - ")[0] if named else (done.stdout + done.stderr)[-300:]


def cloned(folder: Path, name: str) -> Path:
    """Return a clone of what is committed, compiled.

    By hashes: of two faults of one length in one second, the first would run twice.
    """
    root = folder / name
    subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
    hashed = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "ragscore"]
    subprocess.run([sys.executable, *hashed], cwd=root, check=True)
    return root


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--seed", type=int, nargs="+", default=[29], help="one or several")
    parser.add_argument("-m", metavar="MARKS", help="which tests, as pytest has it: '' for all")
    parser.add_argument("--show", action="store_true", help="list the faults and stop")
    given = parser.parse_args()
    wanted = [one for seed in given.seed for one in chosen(given.n, seed)]
    if given.show:
        print(*wanted, sep="\n")
        return
    more = [] if given.m is None else ["-m", given.m]
    with tempfile.TemporaryDirectory() as folder:
        if (shared := ROOT.parent / "shared").exists():  # tests read it beside the checkout
            (Path(folder) / "shared").symlink_to(shared)
        roots: SimpleQueue[Path] = SimpleQueue()
        for name in ("one", "two"):
            roots.put(cloned(Path(folder), name))
        root = roots.get()
        reach = reached(wanted, root, more)
        roots.put(root)
        width = Counter(file for files in reach for file in files)  # a wide file is slow

        def tried(one: Mutant, files: set[str]) -> bool:
            near, root = f"tests/{'/'.join(Path(one.file).parts[1:-1])}", roots.get()
            some = set(width) if "" in files else files  # an import: any test may find it
            order = sorted(some - {""}, key=lambda file: (not file.startswith(near), width[file]))
            found = caught(one, root, order, more) if order else ""
            roots.put(root)
            print(f"{'caught' if found else 'SURVIVED'} {one}  {found}", flush=True)
            return bool(found)

        with ThreadPoolExecutor(2) as pool:
            n_caught = sum(pool.map(tried, wanted, reach))
    print(f"{n_caught} of {len(wanted)} caught")


if __name__ == "__main__":
    main()

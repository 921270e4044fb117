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
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
FLIPPED = {
    ast.Lt: ">", ast.Gt: "<", ast.LtE: ">", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
LIMIT = 1200  # seconds for the files of one fault: a test that hangs has caught it


@dataclass(frozen=True)
class Mutant:
    """One fault: the text between two offsets of a file, and what stands there instead."""

    file: str
    line: int
    start: int
    end: int
    was: str
    becomes: str
    kind: str


def faults(file: Path) -> Iterator[Mutant]:
    """Yield every fault that can be put into a file."""
    source = file.read_bytes()
    tree = ast.parse(source)
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    left_out = {  # annotations, and what stands in f-strings: older Pythons place it elsewhere
        id(part)
        for node in ast.walk(tree)
        for note in (
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
            node if isinstance(node, ast.JoinedStr) else None,
        )
        if note is not None
        for part in ast.walk(note)
    }
    keys = sorted(
        {
            node.slice.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        }
    )

    def mutant(node: ast.expr, becomes: str, kind: str) -> Mutant:
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset  # type: ignore[operator]
        was = source[start:end].decode()
        name = str(file.relative_to(ROOT))
        return Mutant(name, node.lineno, start, end, was, becomes, kind)

    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            sign = FLIPPED[type(node.ops[0])]
            yield mutant(node, f"({left} {sign} {right})", "comparison")
            bound = node.comparators[0]
            if isinstance(bound, ast.Constant) and type(bound.value) in (int, float):
                yield mutant(bound, repr(bound.value + 1), "bound")
        elif isinstance(node, ast.Slice):
            for bound in (node.lower, node.upper):
                if isinstance(bound, ast.Constant) and type(bound.value) is int:
                    yield mutant(bound, str(bound.value + 1), "bound")
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and node.slice.value in keys
            and len(keys) > 1
        ):
            for other in keys:
                if other != node.slice.value:
                    yield mutant(node.slice, repr(other), "column")


def chosen(n: int, seed: int) -> list[Mutant]:
    """Return `n` faults: of every folder in turn, of the three kinds in turn."""
    draw = random.Random(seed)
    by_folder: dict[str, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted((ROOT / "ragscore").rglob("*.py")):
        folder = str(file.parent.relative_to(ROOT))
        for one in faults(file):
            by_folder[folder][one.kind].append(one)
    found: list[Mutant] = []
    kinds = ("comparison", "bound", "column")
    while len(found) < n:
        for folder in sorted(by_folder):
            there = by_folder[folder].get(kinds[len(found) % 3]) or by_folder[folder]["comparison"]
            if there:
                found.append(there.pop(draw.randrange(len(there))))
    return found[:n]


def hit(number: int, seen: set[tuple[int, str]] = set()) -> None:  # noqa: B006
    """Note the file of the test that runs, or of none: what is called at the place of a fault."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split("::")[0]
    if (number, test) not in seen:
        seen.add((number, test))
        with Path(os.environ["RAGSCORE_REACHED"]).open("a", encoding="utf-8") as file:
            file.write(f"{number} {test}\n")


def reached(wanted: list[Mutant], root: Path, more: list[str]) -> dict[int, list[str]]:
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
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *more],
        cwd=root, env=environment(root) | {"RAGSCORE_REACHED": str(notes)}, check=False,
    )  # fmt: skip
    for file, source in before.items():
        (root / file).write_bytes(source)
    found: dict[int, list[str]] = defaultdict(list)
    for line in sorted(set(notes.read_text(encoding="utf-8").splitlines())):
        number, _, test = line.partition(" ")
        found[int(number)].append(test)
    return found


def environment(root: Path) -> dict[str, str]:
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(root), "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}


def caught(one: Mutant, root: Path, files: list[str], more: list[str]) -> str:
    """Return the test that fails with a fault in the package, or nothing."""
    target = root / one.file
    source = target.read_bytes()
    target.write_bytes(source[: one.start] + one.becomes.encode() + source[one.end :])
    try:
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no",
                "-rfE", *more, *files,
            ],
            cwd=root, env=environment(root), capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "a time limit"
    finally:
        target.write_bytes(source)
    if done.returncode in (0, 5):
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return named[0].split(" - ")[0] if named else (done.stdout + done.stderr)[-300:]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--seed", type=int, nargs="+", default=[29], help="one or several")
    parser.add_argument("-m", metavar="MARKS", help="which tests, as pytest has it: '' for all")
    parser.add_argument("--show", action="store_true", help="list the faults and stop")
    parser.add_argument("--reached", type=Path, help="a JSON file to keep what reaches which")
    parser.add_argument("--only", help="numbers of faults, with commas")
    parser.add_argument("--out", type=Path, help="a JSON-lines file for the results")
    given = parser.parse_args()
    wanted = [one for seed in given.seed for one in chosen(given.n, seed)]
    numbers = [int(one) for one in given.only.split(",")] if given.only else range(len(wanted))
    if given.show:
        for n in numbers:
            one = wanted[n]
            print(f"{n:3} {one.file}:{one.line} {one.kind}: {one.was} → {one.becomes}")
        return
    more = [] if given.m is None else ["-m", given.m]
    with tempfile.TemporaryDirectory() as folder:
        roots: SimpleQueue[Path] = SimpleQueue()
        if (shared := ROOT.parent / "shared").exists():  # tests read it beside the checkout
            (Path(folder) / "shared").symlink_to(shared)
        for n in range(2):
            root = Path(folder) / str(n)
            subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
            # by their hashes: of two faults of one length in one second, the first would run twice
            hashed = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "ragscore"]
            subprocess.run([sys.executable, *hashed], cwd=root, check=True)
            roots.put(root)
        if given.reached and given.reached.exists():
            kept = json.loads(given.reached.read_text())
            reach = {int(number): files for number, files in kept.items()}
        else:
            reach = reached(wanted, root, more)
            if given.reached:
                given.reached.write_text(json.dumps(reach))
        width = Counter(file for files in reach.values() for file in files)  # a wide file is slow

        def tried(n: int) -> bool:
            one, root = wanted[n], roots.get()
            files = set(reach.get(n, ()))
            if "" in files:  # reached by importing it: any test may find it
                files = set(width)
            near = f"tests/{'/'.join(Path(one.file).parts[1:-1])}"
            order = sorted(files - {""}, key=lambda file: (not file.startswith(near), width[file]))
            there = [file for file in order if (root / file).exists()]
            found = caught(one, root, there, more) if there else ""
            roots.put(root)
            print(
                f"{n:3} {'caught' if found else 'SURVIVED'} {one.file}:{one.line} {one.kind}: "
                f"{one.was} → {one.becomes}  {found}",
                flush=True,
            )
            if given.out:
                with given.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(one) | {"n": n, "by": found}) + "\n")
            return bool(found)

        with ThreadPoolExecutor(2) as pool:
            n_caught = sum(pool.map(tried, numbers))
    print(f"{n_caught} of {len(numbers)} caught")


if __name__ == "__main__":
    main()

"""Tiny stores to attack: what may be done to one, and what it must then give.

A store holds a run `base`, which nobody touches, and mostly a run `r`. A state of `r` is a version
of its records, the labels it was scored by, and the chunks that were added. What a store of a state
gives is found by building one undisturbed; what an attacked one gives must be equal to that.
"""

import json
import shutil
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd

import ragscore as rs
from faults.children import outcome_of

N_QUERIES = 6
KINDS = ("runs", "responses", "hits", "citations", "chunks", "judgments", "problems")


class State(NamedTuple):
    """What a run was last given: the version of its records, labels, chunks; None: no run yet."""

    version: int | None = None
    labels: int | None = None
    chunks: int | None = None


@cache
def _shared() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="ragscore-faults-")
    Path(folder.name).chmod(0o755)  # another user may look
    return folder


def home() -> Path:
    """A folder for what all attacks of this process share, until it ends."""
    return Path(_shared().name)


@cache
def labels(n: int) -> rs.Golden:
    """The n-th golden set, up to 7: other documents are to be found for other questions."""
    wanted = [q + n * (n >> q % 3 & 1) for q in range(N_QUERIES)]
    return rs.load_golden([
        {"id": f"q{q}", "query": f"question {q}", "expected_doc_ids": [f"d{target}"],
         "expected_chunk_ids": [f"c{target}"]}
        for q, target in enumerate(wanted)
    ])  # fmt: skip


@cache
def results(run_id: str, version: int) -> rs.Results:
    """The n-th version of a run: other hits, other texts, another system."""
    found = {
        f"q{q}": dict.fromkeys(
            f"d{(q * (version + 1) + rank * (version + 2)) % (2 * N_QUERIES)}" for rank in range(3)
        )
        for q in range(N_QUERIES)
    }
    loaded = rs.load_results({run_id: {query: list(docs) for query, docs in found.items()}})
    docs, config = loaded.hits["doc_id"], {"chunker_version": "test@1", "version": version}
    runs = loaded.runs.assign(
        system=f"system {version}" if run_id == "r" else "base",
        created_at=pd.Timestamp(2026, 1, version + 1, tz="UTC"), config=json.dumps(config),
    )  # fmt: skip
    hits = loaded.hits.assign(chunk_id="c" + docs.str[1:], text=f"version {version} of " + docs)
    return replace(loaded, runs=runs, hits=hits)


class Operation(NamedTuple):
    """Something done to the run `r` of a store: save, overwrite, pieces, refresh or add."""

    name: str
    n: int  # version, labels or chunks

    def do(self, store: rs.RunStore) -> Any:
        """Do it to a store."""
        if self.name == "refresh":
            return store.refresh(labels(self.n), runs="r")
        if self.name == "add":
            chunks = [{"chunk_id": f"c{one}", "doc_id": f"d{one}"} for one in (self.n, "")]
            return store.add("r", chunks=pd.DataFrame(chunks))
        run = results("r", self.n)
        return store.save(
            iter([run]) if self.name == "pieces" else run,
            golden=labels(self.n),
            overwrite=self.name != "save",
        )

    def becomes(self, state: State) -> State | None:
        """What it makes of a state; None where it must be refused."""
        is_there = state.version is not None
        if self.name in ("overwrite", "pieces") or (self.name == "save" and not is_there):
            return State(self.n, self.n)
        if self.name == "refresh" and is_there:
            return state._replace(labels=self.n)
        if self.name == "add" and is_there and state.chunks is None:
            return state._replace(chunks=self.n)
        return None


# What is done to which state.
ATTACKED = {
    "save": (State(), Operation("save", 1)),
    "overwrite": (State(1, 1), Operation("overwrite", 2)),
    "pieces": (State(1, 1, 1), Operation("pieces", 2)),
    "refresh": (State(1, 1), Operation("refresh", 2)),
    "add": (State(1, 1), Operation("add", 1)),
}


def orders(state: State, operations: Iterable[Operation]) -> set[State]:
    """The states that these operations may end in, one after the other in some order."""
    ends = set()
    for order in permutations(operations):
        now: State | None = state
        for operation in order:
            now = None if now is None else operation.becomes(now)
        ends |= {now} - {None}
    return ends


def build(root: Any, state: State, **options: Any) -> rs.RunStore:
    """A store of this state."""
    store = rs.RunStore(root, **options)
    store.save(results("base", 0), golden=labels(0))
    if state.version is not None:
        store.save(results("r", state.version), golden=labels(state.labels))
    if state.chunks is not None:
        Operation("add", state.chunks).do(store)
    return store


@cache
def prepared(state: State) -> Path:
    """The folder of a store of this state, to be copied."""
    root = home() / "-".join(map(str, state))
    build(root, state)
    return root


@cache
def _warm() -> None:
    """Do everything once, so that what is forked has what it needs."""
    for n in range(5):
        labels(n), results("r", n)
    for state, operation in ATTACKED.values():
        root = shutil.copytree(prepared(state), home() / f"warm-{operation.name}")
        operation.do(rs.RunStore(root))


def copied(state: State) -> Path:
    """A store of this state, to be attacked; it takes the place of the last one."""
    _warm()
    copy = home() / "attacked"
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(prepared(state), copy))


@cache
def expected(state: State) -> dict[str, str]:
    """What a store of this state gives, part by part."""
    return seen(rs.RunStore(prepared(state)))


def as_text(frame: pd.DataFrame) -> str:
    """Every value of a frame to the last bit, and its types."""
    columns = [(name, str(one.dtype), one.tolist()) for name, one in frame.items()]
    return repr((frame.index.tolist(), columns))


def _loaded(store: rs.RunStore) -> str:
    loaded = store.load()
    frames = {kind: getattr(loaded, kind) for kind in KINDS}
    return "\n".join(f"{kind} {as_text(one)}" for kind, one in frames.items() if one is not None)


# Each reads with one call what must be of one state.
READS: dict[str, Callable[[rs.RunStore], str]] = {
    "runs": lambda store: as_text(store.runs()),
    "load": _loaded,
    "scores": lambda store: as_text(store.scores(allow_different=True)),
    "summary": lambda store: as_text(store.summary(allow_different=True)),
}


def read(store: rs.RunStore, part: str, ways: dict[str, Any] = READS) -> str:
    """What one way to read gives; an error as its name and message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that runs were measured differently
        return outcome_of(lambda: ways[part](store))


def seen(store: rs.RunStore) -> dict[str, str]:
    """What a store gives, part by part."""
    return {part: read(store, part) for part in READS}


def state_of(store: rs.RunStore, allowed: Iterable[State]) -> State:
    """Of which of these states a store is."""
    found = seen(store)
    same = [state for state in allowed if found == expected(state)]
    shown = {part: one[:300] for part, one in found.items()}
    assert same, f"neither of {list(allowed)}: {shown}"
    return same[0]


def assert_ends(outcome: Any, is_done: bool) -> None:
    """A second try ends well. Where it was done, what asks for a free place is told so."""
    is_told = is_done and "already" in str(outcome) and str(outcome).startswith("DataError")
    assert is_told or not isinstance(outcome, str), f"retry refused: {outcome}"


def assert_can_be_done(root: Path, operation: Operation, found: State, new: State) -> None:
    """Doing it again, after the store was found in a state, leads to the new one."""
    assert_ends(outcome_of(lambda: operation.do(rs.RunStore(root))), found == new)
    state_of(rs.RunStore(root), [new])

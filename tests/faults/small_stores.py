"""Tiny stores to attack: what may be done to one, and what it must then give.

A store holds a run `base`, which nobody touches, and mostly a run `r`. A state of `r` is a version
of its records, the labels it was scored by, and the chunks that were added. What a store of a state
gives is found by building one undisturbed; what an attacked one gives must be equal to that.
"""

import json
import shutil
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import pandas as pd
from conftest import hit, record

import ragscore as rs
from faults.children import outcome_of

N_QUERIES = 6
KINDS = ("runs", "responses", "hits", "citations", "chunks", "judgments", "problems")


class State(NamedTuple):
    """What a run was last given: the version of its records, labels, chunks."""

    version: int
    labels: int
    chunks: int | None = None


@cache
def home() -> Path:
    """A folder for what all attacks of this process share."""
    return Path(mkdtemp(prefix="ragscore-faults-"))


def remove_home() -> None:
    """Remove what the attacks shared."""
    shutil.rmtree(home(), ignore_errors=True)
    for cached in (home, labels, run_file, results):
        cached.cache_clear()
    _EXPECTED.clear()


@cache
def labels(n: int) -> rs.Golden:
    """The n-th golden set, up to 7: other documents are to be found for other questions."""
    file = home() / f"golden-{n}.yaml"
    wanted = [q + n * (n >> q % 3 & 1) for q in range(N_QUERIES)]
    rows = [
        {
            "id": f"q{q}",
            "query": f"question {q}",
            "expected_doc_ids": [f"d{target}"],
            "expected_chunk_ids": [f"c{target}"],
        }
        for q, target in enumerate(wanted)
    ]
    file.write_text(json.dumps(rows), encoding="utf-8")
    return rs.load_golden(file)


@cache
def run_file(run_id: str, version: int) -> Path:
    """The n-th version of a run's records: other hits, other texts, another system."""
    file = home() / f"version-{version}" / run_id / "per_query.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    records = []
    for q in range(N_QUERIES):
        found = [(q * (version + 1) + rank * (version + 2)) % (2 * N_QUERIES) for rank in range(3)]
        hits = [
            hit(f"c{n}", f"d{n}", rank + 1, snippet=f"text {n} of version {version}")
            for rank, n in enumerate(dict.fromkeys(found))
        ]
        records.append(record(f"q{q}", hits))
    file.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    described = {
        "run_id": run_id,
        "system": f"system {version}" if run_id == "r" else "base",
        "created_at": f"2026-01-{version + 1:02}T00:00:00Z",
        "config": {"chunker_version": "test@1", "version": version},
    }
    (file.parent / "run.json").write_text(json.dumps(described), encoding="utf-8")
    return file


@cache
def results(run_id: str, version: int) -> rs.Results:
    """The same, loaded."""
    return rs.load_results(run_file(run_id, version))


def chunks(n: int) -> pd.DataFrame:
    """Chunks to add to a run."""
    return pd.DataFrame({"chunk_id": [f"c{n}", "c"], "doc_id": [f"d{n}", "d"]})


@dataclass(frozen=True)
class Operation:
    """Something done to the run `r` of a store, and what it makes of a state (None: no run yet).

    `becomes` raises `Refused` where the operation must be refused.
    """

    name: str
    do: Callable[[rs.RunStore], Any]
    becomes: Callable[[State | None], State | None]


class Refused(Exception):
    """An operation that can't be done in this state."""


def _must_be_new(state: State | None, new: State) -> State:
    if state is not None:
        raise Refused
    return new


def _changed(state: State | None, **parts: int) -> State:
    if state is None or ("chunks" in parts and state.chunks is not None):
        raise Refused
    return state._replace(**parts)


def save(n: int) -> Operation:
    """Save version n by labels n, if there is no run yet."""
    return Operation(
        f"save {n}",
        lambda store: store.save(results("r", n), golden=labels(n)),
        lambda state: _must_be_new(state, State(n, n)),
    )


def overwrite(n: int) -> Operation:
    """Save version n by labels n in place of what there is."""
    return Operation(
        f"overwrite {n}",
        lambda store: store.save(results("r", n), golden=labels(n), overwrite=True),
        lambda state: State(n, n),
    )


def pieces(n: int) -> Operation:
    """Save version n piece by piece, in place of what there is."""
    return Operation(
        f"pieces {n}",
        lambda store: store.save(iter([results("r", n)]), golden=labels(n), overwrite=True),
        lambda state: State(n, n),
    )


def refresh(n: int) -> Operation:
    """Score by labels n."""
    return Operation(
        f"refresh {n}",
        lambda store: store.refresh(labels(n), runs="r"),
        lambda state: _changed(state, labels=n),
    )


def add(n: int) -> Operation:
    """Add chunks."""
    return Operation(
        f"add {n}",
        lambda store: store.add("r", chunks=chunks(n)),
        lambda state: _changed(state, chunks=n),
    )


# What is done to which state.
ATTACKED = {
    "save": (None, save(1)),
    "overwrite": (State(1, 1), overwrite(2)),
    "pieces": (State(1, 1, 1), pieces(2)),
    "refresh": (State(1, 1), refresh(2)),
    "add": (State(1, 1), add(1)),
}


def orders(state: State | None, operations: Iterable[Operation]) -> set[State | None]:
    """The states that these operations may end in, one after the other in some order."""
    ends = set()
    for order in permutations(operations):
        now = state
        try:
            for operation in order:
                now = operation.becomes(now)
        except Refused:
            continue
        ends.add(now)
    return ends


def build(root: Any, state: State | None, **options: Any) -> rs.RunStore:
    """A store of this state."""
    store = rs.RunStore(root, **options)
    store.save(results("base", 0), golden=labels(0))
    if state is not None:
        store.save(results("r", state.version), golden=labels(state.labels))
        if state.chunks is not None:
            store.add("r", chunks=chunks(state.chunks))
    return store


_EXPECTED: dict[State | None, dict[str, str]] = {}


def expected(state: State | None) -> dict[str, str]:
    """What a store of this state gives, part by part."""
    if state not in _EXPECTED:
        root = home() / f"expected-{len(_EXPECTED)}"
        build(root, state)
        _EXPECTED[state] = seen(rs.RunStore(root))
        shutil.rmtree(root)
    return _EXPECTED[state]


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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that runs were measured differently
            return ways[part](store)
    except rs.DataError as error:
        return f"DataError: {error}"
    except Exception as error:
        return f"CRASH {type(error).__name__}: {error}"


def seen(store: rs.RunStore) -> dict[str, str]:
    """What a store gives, part by part."""
    return {part: read(store, part) for part in READS}


def verdict(store: rs.RunStore, allowed: Iterable[State | None]) -> tuple[State | None, str]:
    """Of which state a store is, and "" - or what is wrong with it."""
    found = seen(store)
    states = list(allowed)
    for state in states:
        if found == expected(state):
            return state, ""
    if errors := [text for text in found.values() if text.startswith(("DataError", "CRASH"))]:
        return None, f"unreadable: {errors[0][:300]}"
    return None, f"{_kind_of_wrong(found, states)}: " + ", ".join(
        f"{part} of {[tuple(one or ()) for one in states if expected(one)[part] == text] or '?'}"
        for part, text in found.items()
    )


def retried(root: Path, operation: Operation, found: State | None, new: State | None) -> str:
    """What is wrong with doing it again after the store was found in a state, or ""."""
    outcome = outcome_of(lambda: operation.do(rs.RunStore(root)))
    if isinstance(outcome, str):
        # Done already: what asks for a free place is told so.
        is_told = found == new and outcome.startswith("DataError") and "already" in outcome
        return "" if is_told else f"retry refused: {outcome[:300]}"
    return verdict(rs.RunStore(root), [new])[1]


def copied(root: Path, name: object) -> Path:
    """A store again, to be damaged."""
    copy = root.with_name(f"{root.name}-{name}")
    shutil.copytree(root, copy)
    return copy


def _kind_of_wrong(found: dict[str, str], states: list[State | None]) -> str:
    absent = expected(None)["runs"]
    return "lost" if found["runs"] == absent and None not in states else "mixed"

"""Small golden sets and runs, written as the files that people have."""

import copy
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

import ragscore as rs
from ragscore.frames.data import from_records

# How many random examples a test draws: the one number by which a nightly run differs.
EXAMPLES = int(os.environ.get("RAGSCORE_EXAMPLES", "8"))
# Files that take a worker longest, slow tests included.
LONG = ("test_pages.py", "test_store_files.py", "test_store_writers.py")
# A busy machine is no failure: examples are judged by what they give, not by how long they take.
# The same ones are drawn each time, but for those of a night.
settings.register_profile(
    "ragscore",
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="RAGSCORE_EXAMPLES" not in os.environ,
)
settings.load_profile("ragscore")


def times(small: int) -> int:
    """How many rounds an attack takes: `small` of them, and more in a night's run."""
    return max(small, small * EXAMPLES // 8)


os.environ.setdefault("MPLBACKEND", "Agg")

# A shell starts what runs in the background with Ctrl-C ignored, and tests press it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    """Close the figures of a test, if it drew any."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A busy machine is no failure here either: nbval gives a kernel five seconds to go on.
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = 60
            item.add_marker(pytest.mark.slow)
    # Workers take whole files, in this order: those that hold one for long come first.
    items.sort(key=lambda item: item.path.suffix != ".ipynb" and item.path.name not in LONG)


def pytest_collection_finish() -> None:
    """Leave what collecting made to itself: thousands of tests slow every later collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # frames hold no cycles worth looking for so often


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # else extension modules complain at exit of what was never collected


def hit(chunk: str, doc: str, rank: int, **more: Any) -> dict[str, Any]:
    """A hit of the run file, with what every hit of that format has."""
    record = {
        "rank": rank, "chunk_id": chunk, "doc_id": doc, "doc_path": f"docs/{doc}.md",
        "heading_path": ["root"], "section_label": None, "snippet": "snip",
        "citation": {"kind": "line", "path": f"docs/{doc}.md", "start": 1, "end": 4,
        "section": None},
        "retrieval": {"method": "lexical", "fusion_score": 1.0 / rank, "lexical_score": 1.0,
        "vector_score": None, "lexical_rank": rank, "vector_rank": None},
        "index_version": "idx@1", "embedding_model": None, "chunker_version": "test@1",
        "indexed_at": "1970-01-01T00:00:00Z", "stale": False, "score_kind": "rrf",
    }  # fmt: skip
    return record | more


def record(query_id: str, hits: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A line of the run file."""
    return {
        "query_id": query_id,
        "query": f"question {query_id}",
        "mode": "lexical",
        "hits_top_k": hits,
        "answer": None,
        "elapsed_ms": 1,
        "error": None,
    } | more


def answer(
    text: str, *, grounded: bool = True, paths: list[str] | None = None, **more: Any
) -> dict[str, Any]:
    """An answer object, citing lines 2-3 of each path."""
    citations = [
        {
            "marker": f"[{n}]",
            "citation": {"kind": "line", "path": path, "start": 2, "end": 3, "section": None},
        }
        for n, path in enumerate(paths or [], 1)
    ]
    return {
        "answer": text,
        "citations": citations,
        "grounded": grounded,
        "refusal_reason": None if grounded else "score_gate",
    } | more


def hits_of(*rows: dict[str, Any], run_id: str = "r", query_id: str = "q") -> pd.DataFrame:
    """A `hits` frame of one run and query, ranked in the order given."""
    return from_records(
        [
            {"run_id": run_id, "query_id": query_id, "rank": rank, **row}
            for rank, row in enumerate(rows, 1)
        ],
        "hits",
    )


def targets_of(*rows: dict[str, Any], query_id: str = "q") -> pd.DataFrame:
    """A `targets` frame of one query; documents of grade 1 unless a row says otherwise."""
    return from_records(
        [
            {
                "query_id": query_id,
                "level": "doc",
                "target_id": row.get("doc_id", f"t{n}"),
                "alternative": 0,
                "grade": 1,
                **row,
            }
            for n, row in enumerate(rows)
        ],
        "targets",
    )


def golden_of(targets: pd.DataFrame, **more: Any) -> rs.Golden:
    """A golden set of the queries that these targets name, all answerable."""
    queries = [
        {"query_id": query_id, "query": "?", "answerable": True, "position": n}
        for n, query_id in enumerate(dict.fromkeys(targets["query_id"]))
    ]
    return rs.Golden(queries=from_records(queries, "queries"), targets=targets, **more)


def questions(n: int) -> rs.Golden:
    """A golden set of so many questions about which nothing is known: q00, q01, ..."""
    rows = [{"query_id": f"q{at:02}", "query": f"question {at}"} for at in range(n)]
    return rs.Golden(pd.DataFrame(rows).assign(answerable=True, position=range(n)))


def found(
    rank: int,
    source_key: str | None = None,
    document: str = "",
    chunk: str | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A hit of the retrievers' format."""
    more = {"source_key": source_key} if source_key is not None else {}
    return {
        "rank": rank,
        "id": chunk or f"c{rank}",
        "metadata": more | metadata,
        "document": document,
    }


def said(
    query: str, hits: list[dict[str, Any]], retriever: str = "dense", k: int = 5, **more: Any
) -> dict[str, Any]:
    """A record of the retrievers' format: one query and its hits."""
    return {"query": query, "retriever": retriever, "k": k, "elapsed_ms": 1.0, "hits": hits} | more


@pytest.fixture
def write_golden(tmp_path: Path) -> Callable[..., Path]:
    """Write golden rows (dicts, or YAML text) to a file."""

    def write(rows: list[dict[str, Any]] | str, name: str = "golden.yaml") -> Path:
        file = tmp_path / name
        # JSON is YAML: each row on a line of its own, so that line numbers are easy to tell.
        file.write_text(
            (
                rows
                if isinstance(rows, str)
                else "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
            ),
            encoding="utf-8",
        )
        return file

    return write


def written_run(
    folder: Path, name: str, records: list[dict[str, Any]], /, **described: Any
) -> Path:
    """Write records to `<name>/per_query.jsonl`, with a run.json if fields of one are given."""
    file = folder / name / "per_query.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    if described:
        text = json.dumps({"run_id": name, **described})
        (file.parent / "run.json").write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """Write records of a run below `runs`, as `written_run` does."""
    return partial(written_run, tmp_path / "runs")


@pytest.fixture
def loaded(
    write_golden: Callable[..., Path], write_run: Callable[..., Path]
) -> Callable[..., tuple[rs.Results, rs.Golden]]:
    """Write golden rows, and the records of each run by its name; return results and golden."""

    def load(
        rows: list[dict[str, Any]], runs: dict[str, list[dict[str, Any]]], **described: Any
    ) -> tuple[rs.Results, rs.Golden]:
        files = [write_run(name, records, **described) for name, records in runs.items()]
        return rs.load_results(files), rs.load_golden(write_golden(rows))

    return load


@pytest.fixture(scope="session")
def demo() -> rs.Evaluation:
    """The demo's four runs by its golden set; a test that changes something takes a copy."""
    root = Path(__file__).parents[1] / "data" / "demo"
    return rs.evaluate(str(root / "runs" / "*"), root / "golden.yaml")


def scores_of(metric: str = "hit@5", /, **runs: Any) -> pd.DataFrame:
    """Scores of one metric: for each run its values, of the queries q0, q1 and so on."""
    parts = [
        pd.DataFrame(
            {"run_id": run_id, "state": "scored", "level": "doc", metric: values},
            index=pd.Index([f"q{n}" for n in range(len(values))], name="query_id"),
        ).astype({metric: "float64"})
        for run_id, values in runs.items()
    ]
    return pd.concat(parts)


THREE_QUERIES = [
    {
        "id": f"q{n}",
        "query": f"question q{n}",
        "expected_doc_ids": [f"d{n}"],
        "expected_chunk_ids": [f"c{n}"],
    }
    for n in (1, 2, 3)
]
MISSES = [hit("x", "dx", 1), hit("x2", "dx", 2), hit("x3", "dx", 3)]
RUN_A = [
    record("q1", [hit("c1", "d1", 1)]),
    record("q2", [*MISSES, hit("c2", "d2", 4)]),
    record("q3", MISSES[:1]),
]
RUN_B = [
    record("q1", [MISSES[0], hit("c1", "d1", 2)]),
    record("q2", [hit("c2", "d2", 1)]),
    record("q3", [hit("c3", "d3", 1)]),
]


def pair_in(folder: Path) -> tuple[rs.Results, rs.Golden]:
    """Three questions, two runs: b finds q2 and q3 better, q1 worse."""
    config = {"chunker_version": "test@1", "eval_k": 10}
    runs = {"a": RUN_A, "b": RUN_B}
    files = [written_run(folder, name, records, config=config) for name, records in runs.items()]
    return rs.load_results(files), rs.load_golden(THREE_QUERIES)


@pytest.fixture(scope="session")
def the_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[rs.Results, rs.Golden]:
    return pair_in(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def pair(the_pair: tuple[rs.Results, rs.Golden]) -> tuple[rs.Results, rs.Golden]:
    """Three questions, two runs: loaded once, and copied for each test."""
    return copy.deepcopy(the_pair)


@pytest.fixture
def server() -> Iterator[Any]:
    """A judge by words on loopback."""
    from judge_server import FaultyServer  # which the benchmarks, that import this, cannot find

    with FaultyServer() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> rs.RunStore:
    """An empty store."""
    return rs.RunStore(tmp_path)

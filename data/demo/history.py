"""The history in data/demo/history: the demo's systems varied step by step, as a store of runs.

In: the corpus, the golden queries, and earlier labels of some of them (`golden_before.yaml`). Out:
one stored run per entry of `VARIATIONS`, without texts of the manuals: `run_history`. After other
formulas, `refresh_history` scores the stored runs anew.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import build  # beside this file
import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import Golden, Results, from_records
from ragscore.frames.typing import Values
from ragscore.io.load import load_golden
from ragscore.store.store import RunStore


@dataclass(frozen=True)
class Settings(build.Settings):
    """The demo's settings, and those of an approximate vector search.

    `cells` passages drawn with `seed` are centres of cells, and only the `probes` cells nearest to
    the query are searched. With 0 cells all passages are compared.
    """

    cells: int = 0
    probes: int = 8
    seed: int = 0


@dataclass
class Index(build.Index):
    """The demo's index, searched in the cells nearest to the query where the settings have some."""

    @cached_property
    def _cells(self) -> tuple[build.Vectors, npt.NDArray[np.int64]]:
        """The centres of the cells, and each passage's cell: that of the nearest centre."""
        drawn = np.random.default_rng(self.settings.seed).choice(
            len(self.vectors), min(self.settings.cells, len(self.vectors)), replace=False
        )
        centres = self.vectors[np.sort(drawn)]
        return centres, (self.vectors @ centres.T).argmax(axis=1)

    def _similar(self, question: build.Vectors) -> build.Vectors:
        similar = super()._similar(question)
        if self.settings.cells:
            centres, cell = self._cells
            near = np.argsort(-(centres @ question), kind="stable")[: self.settings.probes]
            similar[~np.isin(cell, near)] = -np.inf
        return similar


@dataclass(frozen=True)
class Variation:
    """One run of the history: what it changes in an earlier one, and why.

    Attributes
    ----------
    since
        The run it changes; None for the first.
    changes
        New values of `system` and of fields of `Settings`; empty if only labels or the repeat
        differ.
    relabelled
        Measured with today's golden set; runs before it with `golden_before.yaml`.
    repeat
        The number of the repeat, among runs that differ in their seed only; it is the seed.
    """

    run_id: str
    since: str | None
    changes: dict[str, Any]
    note: str
    relabelled: bool = False
    repeat: int | None = None


VARIATIONS = [
    Variation(
        "01-bm25-plain",
        None,
        {"system": "bm25", "k1": 1.2, "b": 0.75, "stemmer": None},
        "BM25 as textbooks have it, words as they stand",
    ),
    Variation(
        "02-bm25-stemmed",
        "01-bm25-plain",
        {"stemmer": "english"},
        "stemming on: 'merging' should find 'merge'",
    ),
    Variation(
        "03-bm25-b0.3",
        "02-bm25-stemmed",
        {"b": 0.3},
        "passages are cut to one size, so their length should say little",
    ),
    Variation(
        "04-bm25-b1",
        "02-bm25-stemmed",
        {"b": 1.0},
        "the other direction: short passages count for more",
    ),
    Variation(
        "05-bm25-k1.5", "02-bm25-stemmed", {"k1": 1.5}, "repeated words count a little longer"
    ),
    Variation(
        "06-bm25-passages-400",
        "05-bm25-k1.5",
        {"max_chars": 400},
        "passages of 400 characters, nearer to the size of an answer: other passage ids",
    ),
    Variation(
        "07-dense",
        "05-bm25-k1.5",
        {"system": "dense"},
        "vectors in place of words, passages of 900 characters again",
    ),
    Variation("08-hybrid", "07-dense", {"system": "hybrid"}, "words and vectors fused"),
    Variation(
        "09-hybrid-rrf10", "08-hybrid", {"rrf_k": 10}, "the first ranks of each list count for more"
    ),
    Variation("10-hybrid-pool30", "08-hybrid", {"pool": 30}, "fewer candidates to fuse"),
    Variation(
        "11-rerank-10",
        "08-hybrid",
        {"system": "hybrid_rerank", "depth": 10},
        "the ten results of hybrid in a better order",
    ),
    Variation(
        "12-rerank-100", "11-rerank-10", {"depth": 100}, "a hundred candidates to choose from"
    ),
    Variation(
        "13-rerank-30", "11-rerank-10", {"depth": 30}, "thirty: a third of the passages to read"
    ),
    Variation(
        "14-rerank-30-relabelled",
        "13-rerank-30",
        {},
        "near twins accepted in 47 questions: nothing in the system has changed",
        relabelled=True,
    ),
    Variation(
        "15-cells-repeat1",
        "14-rerank-30-relabelled",
        {"cells": 64},
        "approximate vector search, cells drawn by seed 1",
        True,
        1,
    ),
    Variation(
        "16-cells-repeat2", "15-cells-repeat1", {}, "once more, cells drawn by seed 2", True, 2
    ),
    Variation(
        "17-cells-repeat3", "15-cells-repeat1", {}, "once more, cells drawn by seed 3", True, 3
    ),
    Variation(
        "18-rerank-unstemmed",
        "14-rerank-30-relabelled",
        {"stemmer": None},
        "exact search again, stemming off: does it still matter below a reranker?",
        True,
    ),
]


EXAMPLE_DATES = (
    "2026-09-07", "2026-09-10", "2026-09-14", "2026-09-16", "2026-09-18", "2026-09-24",
    "2026-10-01", "2026-10-07", "2026-10-09", "2026-10-13", "2026-10-19", "2026-10-22",
    "2026-10-26", "2026-11-02", "2026-11-09", "2026-11-10", "2026-11-11", "2026-11-19",
)  # fmt: skip
"""When the variations are said to have run; they run within minutes, on whatever day."""


def settings_of(run_id: str) -> tuple[str, Settings]:
    """Return system and settings of a run: its changes on top of those of earlier runs."""
    by_id = {one.run_id: one for one in VARIATIONS}
    line, one = [], by_id.get(run_id)
    while one is not None:
        line.append(one)
        one = by_id[one.since] if one.since else None
    changes: dict[str, Any] = {}
    for one in reversed(line):
        changes |= one.changes
    system = str(changes.pop("system"))
    return system, Settings(**changes, seed=by_id[run_id].repeat or 0)


def earlier_golden(golden: Golden, before: str | Path) -> Golden:
    """Return the golden set with earlier targets, from a golden file of some of its queries."""
    older = load_golden(before)
    kept = golden.targets[~golden.targets["query_id"].isin(older.queries["query_id"])]
    return replace(golden, targets=pd.concat([kept, older.targets], ignore_index=True))


def run_history(out: Path, golden_file: Path, report: Any = print) -> RunStore:
    """Make every run of the history in the store `out/history`, replacing older ones.

    Vectors of the passages are stored in `out/cache`, which `ragscore demo --build` uses too.
    """
    golden = goldens(golden_file)
    sizes = {settings_of(one.run_id)[1].max_chars for one in VARIATIONS}
    chunks = {size: build.build_corpus(size)[1] for size in sizes}
    # The answerer always uses stemmed words, so that refusals don't depend on the retriever's
    # stemmer.
    read = {
        size: build.Familiarity(Index(chunks[size], out / "cache", Settings())) for size in sizes
    }
    store, model = RunStore(out / "history"), build.MiniLM()
    for position, one in enumerate(VARIATIONS, 1):
        start, (_, settings) = perf_counter(), settings_of(one.run_id)
        index = Index(chunks[settings.max_chars], out / "cache", settings, build.progress, model)
        results = make_run(one, index, golden[one.relabelled], read[settings.max_chars])
        store.save(results, golden=golden[one.relabelled], overwrite=True)
        mrr = store.scores(metrics="mrr@10", runs=one.run_id)["mrr@10"].mean()
        report(
            f"{position:2d}/{len(VARIATIONS)} {one.run_id:24s} mrr@10 {mrr:.3f} "
            f" {perf_counter() - start:4.1f} s  {results.runs['note'].iloc[0]}"
        )
    report(f"\nruns: {store.path()}")
    return store


def goldens(golden_file: Path) -> dict[bool, Golden]:
    """Return the golden sets before (False) and after the relabelling (True)."""
    today = load_golden(golden_file)
    return {False: earlier_golden(today, golden_file.with_name("golden_before.yaml")), True: today}


def make_run(one: Variation, index: Index, golden: Golden, read: build.Familiarity) -> Results:
    """Return one variation's run over all queries, without texts or scores of earlier stages.

    Searches are timed by processor time: runs minutes apart share a machine with other work, so
    that time on the clock would tell little of the system.
    """
    system, settings = settings_of(one.run_id)
    index.search(system, "build everything before the clock of any question starts", build.K)
    asked = ask(index, system, golden.queries, process_time)
    position = VARIATIONS.index(one)
    run = {
        "run_id": one.run_id, "system": system, "suite": build.SUITE,
        "created_at": pd.Timestamp(EXAMPLE_DATES[position], tz="UTC"),
        "config": json.dumps(config_of(one.run_id), sort_keys=True),
        "repeat": one.repeat, "golden_hash": golden.golden_hash,
        "chunker_version": build.chunker_version(settings.max_chars), "note": described(one),
        "x_position": position + 1, "x_since": one.since,
    }  # fmt: skip
    results = answered(
        run,
        golden.queries,
        asked,
        familiarity(read, asked, golden.queries),
        build.REFUSE_BELOW,
        index.chunks,
        timed="latency_cpu_ms",
    )
    return replace(
        results,
        hits=results.hits.drop(
            columns=["text", "path", "score_lexical", "score_vector"], errors="ignore"
        ),
    )


def config_of(run_id: str) -> dict[str, Any]:
    """Return the config snapshot of a run of the history."""
    system, settings = settings_of(run_id)
    config = build.system_config(
        system, build.K, build.chunker_version(settings.max_chars), settings
    )
    if settings.cells:
        # Repeats of one system differ in the seed, so it is the run's `repeat` and no part of the
        # config.
        config["vector_search"] = {
            "method": "cells around random passages",
            "cells": settings.cells,
            "probes": settings.probes,
        }
    return config | {
        "passages": {"max_chars": settings.max_chars},
        "answerer": build.answerer_config(build.REFUSE_BELOW),
    }


def described(one: Variation) -> str:
    """Return the note of a run: its changes, the earlier run that they change, and why."""
    if one.since is None:
        return f"the first: {one.note}"
    before, after = (
        pd.json_normalize(config_of(run_id)).iloc[0].drop("chunker_version").to_dict()
        for run_id in (one.since, one.run_id)
    )
    # Another kind of system has settings of its own; listing them all would hide the change.
    shared = [name for name in after if name in before or before["retriever"] == after["retriever"]]
    changed = [
        f"{name} {before.get(name, 'not set')} -> {after[name]}"
        for name in shared
        if name not in before or before[name] != after[name]
    ]
    alone = "the labels alone" if one.repeat is None else "the seed alone"
    return f"since {one.since}: {', '.join(changed) or alone}; {one.note}"


def ask(
    index: Index, system: str, queries: pd.DataFrame, clock: Callable[[], float] = perf_counter
) -> list[tuple[build.Ranking, float]]:
    """Return one system's ranking of each query, and the milliseconds it took by the clock."""
    asked = []
    for question in queries["query"]:
        start = clock()
        ranking = index.search(system, question, build.K)
        asked.append((ranking, 1000 * (clock() - start)))
    return asked


def familiarity(
    read: build.Familiarity, asked: list[tuple[build.Ranking, float]], queries: pd.DataFrame
) -> Values:
    """Return the familiarity of each query, given the passages found for it."""
    return np.array(
        [
            read.of(question, ranking)
            for question, (ranking, _) in zip(queries["query"], asked, strict=True)
        ]
    )


def answered(
    run: dict[str, Any],
    queries: pd.DataFrame,
    asked: list[tuple[build.Ranking, float]],
    familiar: Values,
    threshold: float,
    chunks: pd.DataFrame,
    timed: str = "elapsed_ms",
) -> Results:
    """Return one run as frames: hits, answer and citations of each query.

    `timed` names the column of its milliseconds.
    """
    tables: dict[str, list[dict[str, Any]]] = {"responses": [], "hits": [], "citations": []}
    for (query_id, question), (ranking, elapsed), known in zip(
        queries[["query_id", "query"]].itertuples(index=False), asked, familiar, strict=True
    ):
        given, citations = build.answer(ranking, chunks, known < threshold)
        cell = {"run_id": run["run_id"], "query_id": query_id}
        about = {
            "query": question,
            "mode": run["system"],
            "error": None,
            timed: round(elapsed, 3),
            "x_familiarity": round(float(known), 4),
        }
        tables["responses"].append(cell | about | given)
        kind = {"x_citation.kind": "line"}
        tables["hits"] += [cell | hit | kind for hit in build.ranked_hits(ranking, chunks)]
        tables["citations"] += [
            cell | citation | kind | {"position": n} for n, citation in enumerate(citations, 1)
        ]
    runs = from_records([run | {"k": build.K, "n_queries": len(queries), "n_failed": 0}], "runs")
    return Results(runs, **{kind: from_records(records, kind) for kind, records in tables.items()})


def make_committable(folder: Path) -> RunStore:
    """Let the tables of a history be committed: they hold no texts of the manuals."""
    told = "# No texts of the manuals are in here, so the tables may be committed.\n.staging-*\n"
    (folder / ".gitignore").write_text(told, encoding="utf-8")
    return RunStore(folder)


def refresh_history(folder: Path, golden_file: Path) -> RunStore:
    """Score the stored runs of a history anew, each by the labels it had."""
    store = RunStore(folder)
    for relabelled, golden in goldens(golden_file).items():
        names = [one.run_id for one in VARIATIONS if one.relabelled is relabelled]
        store.refresh(golden, runs=names)
    return store

"""`ragscore demo`: run four systems over the golden queries; store, score and compare them."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.model import Comparison
from ragscore.demo.answerer import Familiarity, answer, tune_threshold
from ragscore.demo.corpus import build_corpus, chunker_version
from ragscore.demo.retrievers import SYSTEMS, Index, Ranking, system_config
from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.frames.typing import Values
from ragscore.golden.coverage import coverage
from ragscore.io.load import load_golden
from ragscore.io.output import write_text
from ragscore.io.per_query_write import write_per_query
from ragscore.scoring.score import score
from ragscore.scoring.summary import summarize
from ragscore.store.store import RunStore

K = 10
SUITE = "demo"
PRINTED = [
    "hit@1",
    "hit@5",
    "recall@5",
    "mrr@10",
    "ndcg@10",
    "answer_checks",
    "refusal_correct",
    "false_refusal",
    "latency_ms",
]
BASELINE, CANDIDATE = "hybrid", "hybrid_rerank"


def run_demo(out: Path, golden_file: Path, report: Any = print) -> Comparison:
    """Run everything from the manuals to the comparison, with all files under `out`.

    Files are `report.md`, `runs/` (a store), `per_query/` (the same runs as JSON lines, without
    texts of the manuals) and `cache/` (vectors of the passages).
    """
    golden = load_golden(golden_file)
    documents, chunks = build_corpus()
    version = chunker_version()
    report(
        f"corpus: {len(documents):,} documents, {len(chunks):,} passages of the manuals on this"
        f" machine ({version})"
    )
    index = Index(chunks, out / "cache", progress=progress)
    results, tuned = ask_all(index, golden, version, datetime.now(UTC))
    report(tuned)
    store = RunStore(out / "runs")
    store.save(results, golden=golden)
    for run_id, system in zip(
        results.runs["run_id"].astype("str"), results.runs["system"], strict=True
    ):
        write_per_query(
            without_texts(results.select([run_id]), str(system)), out / "per_query" / str(system)
        )
    _report_scores(results, golden, report)
    cmp = compare_runs(results, golden, BASELINE, CANDIDATE)
    for folder in (store.path(cmp.candidate), out):
        write_text(folder / "report.md", cmp.to_markdown())
    report(f"\n{cmp!r}\n\nruns: {store.root}\nreport: {out / 'report.md'}")
    return cmp


def ask_all(index: Index, golden: Golden, version: str, now: datetime) -> tuple[Results, str]:
    """Ask every system every query; return the runs, and a sentence on the tuned refusal rule."""
    queries = golden.queries
    read = Familiarity(index)
    index.vectors, index.lexical  # noqa: B018  # built before the first query is timed
    asked: dict[str, list[tuple[Ranking, float]]] = {}
    started: dict[str, pd.Timestamp] = {}
    for system in SYSTEMS:
        started[system] = pd.Timestamp(datetime.now(UTC))
        asked[system] = ask(index, system, queries)
    familiar = np.array([familiarity(read, asked[system], queries) for system in SYSTEMS])
    threshold, tuned = _tuned(familiar, queries)
    stamp = f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}"
    parts = []
    for system, known in zip(SYSTEMS, familiar, strict=True):
        config = system_config(system, K, version, index.settings) | {
            "answerer": answerer_config(threshold)
        }
        run = {
            "run_id": f"{system}-{stamp}", "system": system, "suite": SUITE,
            "created_at": started[system], "config": json.dumps(config, sort_keys=True),
            "golden_hash": golden.golden_hash, "chunker_version": version,
        }  # fmt: skip
        parts.append(answered(run, queries, asked[system], known, threshold, index.chunks))
    return replace(Results.concat(parts), chunks=index.chunks.drop(columns="text")), tuned


def ask(
    index: Index, system: str, queries: pd.DataFrame, clock: Callable[[], float] = perf_counter
) -> list[tuple[Ranking, float]]:
    """Return one system's ranking of each query, and the milliseconds it took by the clock."""
    asked = []
    for question in queries["query"]:
        start = clock()
        ranking = index.search(system, question, K)
        asked.append((ranking, 1000 * (clock() - start)))
    return asked


def familiarity(
    read: Familiarity, asked: list[tuple[Ranking, float]], queries: pd.DataFrame
) -> Values:
    """Return the familiarity of each query, given the passages found for it."""
    return np.array(
        [
            read.of(question, ranking)
            for question, (ranking, _) in zip(queries["query"], asked, strict=True)
        ]
    )


def answerer_config(threshold: float) -> dict[str, Any]:
    """Return the answerer's part of a config snapshot."""
    return {"refuse_below": round(threshold, 4), "rule": "familiarity of the question's words"}


def answered(
    run: dict[str, Any],
    queries: pd.DataFrame,
    asked: list[tuple[Ranking, float]],
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
        given, citations = answer(ranking, chunks, known < threshold)
        cell = {"run_id": run["run_id"], "query_id": query_id}
        about = {
            "query": question,
            "mode": run["system"],
            "error": None,
            timed: round(elapsed, 3),
            "x_familiarity": round(float(known), 4),
        }
        tables["responses"].append(cell | about | given)
        tables["hits"] += [cell | hit for hit in ranked_hits(ranking, chunks)]
        tables["citations"] += [cell | citation for citation in citations]
    runs = from_records([run | {"k": K, "n_queries": len(queries), "n_failed": 0}], "runs")
    return Results(runs, **{kind: from_records(records, kind) for kind, records in tables.items()})


def without_texts(results: Results, run_id: str) -> Results:
    """Return one run under another id, without hit texts and chunks, as it may be published."""
    frames = {
        name: getattr(results, name).assign(run_id=run_id)
        for name in ("runs", "responses", "hits", "citations")
    }
    frames["hits"] = frames["hits"].drop(columns="text", errors="ignore")
    return replace(results, **frames, chunks=None)


def _tuned(familiar: np.ndarray, queries: pd.DataFrame) -> tuple[float, str]:
    """Return the refusal threshold and a sentence on it.

    It is tuned on every other query for all systems at once, and measured on the rest.
    """
    answerable = queries["answerable"].fillna(True).to_numpy(dtype=bool)
    # Every other query, answerable or not, with paraphrases of one intent on the same side.
    intent = (
        queries["group"].fillna(queries["query_id"]) if "group" in queries else queries["query_id"]
    )
    half = (
        pd.Series(answerable)
        .groupby(answerable)
        .transform(lambda kind: pd.factorize(intent[kind.index])[0] % 2 == 0)
        .to_numpy(dtype=bool)
    )
    threshold = tune_threshold(familiar[:, half].ravel(), np.tile(answerable[half], len(familiar)))
    refuses, known = familiar[:, ~half] < threshold, answerable[~half]
    right, wrong = refuses[:, ~known].mean(), refuses[:, known].mean()
    return (
        threshold,
        (
            f"refusal rule: refuse a query whose words have a familiarity below {threshold:.3f},"
            f" tuned on {half.sum()} queries; on the other {(~half).sum()} it refuses {right:.0%}"
            f" of those it should and {wrong:.0%} of those it shouldn't"
        ),
    )


def ranked_hits(ranking: Ranking, chunks: pd.DataFrame) -> Iterable[dict[str, Any]]:
    """Yield the passages of a ranking as rows of the hits frame."""
    found = chunks.iloc[ranking.chunk]
    for rank, (row, score_, lexical, vector) in enumerate(
        zip(found.to_dict("records"), ranking.score, ranking.lexical, ranking.vector, strict=True),
        1,
    ):
        hit = {
            name: row[name]
            for name in (
                "chunk_id",
                "doc_id",
                "path",
                "heading",
                "start",
                "end",
                "span_unit",
                "text",
            )
        }
        scores = {"score": score_, "score_lexical": lexical, "score_vector": vector}
        yield {"rank": rank, **hit, "score_kind": ranking.score_kind, "x_citation.kind": "line"} | {
            name: round(float(value), 5) for name, value in scores.items() if not np.isnan(value)
        }


def _report_scores(results: Results, golden: Golden, report: Any) -> None:
    systems = dict(zip(results.runs["run_id"].astype("str"), results.runs["system"], strict=True))
    report(f"\n{coverage(results, golden).runs.rename(index=systems).astype(object).T.to_string()}")
    scores = score(results, golden)
    scores["run_id"] = scores["run_id"].cat.rename_categories(systems)
    means = summarize(scores, golden, metrics=PRINTED)
    wide = means.pivot_table(
        index="metric", columns="run_id", values="mean", observed=False, sort=False, dropna=False
    )
    report(f"\nmeans\n{_rounded(wide, means.groupby('metric')['n'].max())}")
    for by in ("category", "difficulty"):
        sliced = summarize(scores, golden, by=by, metrics=["hit@5"]).query("n > 0")
        wide = sliced.pivot_table(index=by, columns="run_id", values="mean", observed=False)
        report(f"\nhit@5 by {by}\n{_rounded(wide, sliced.groupby(by)['n'].max())}")


def _rounded(table: pd.DataFrame, n: pd.Series) -> str:
    return table.round(3).assign(n=n).rename_axis(index=None, columns=None).to_string()


def default_golden() -> Path:
    """Return the golden file of a checkout, `data/demo/golden.yaml`.

    Also when run from elsewhere in it.
    """
    for folder in (Path.cwd(), *Path.cwd().parents, Path(__file__).parents[2]):
        file = folder / "data" / "demo" / "golden.yaml"
        if file.exists():
            return file
    raise DataError(
        "no data/demo/golden.yaml here or above",
        field="golden",
        allowed="run it in a checkout, or pass --golden FILE",
    )


def progress(items: Iterable[Any], total: int) -> Iterable[Any]:
    """Show a progress bar over the embedding of passages."""
    from tqdm.auto import tqdm

    return tqdm(items, total=total, desc="embedding passages", unit="text", mininterval=0.5)

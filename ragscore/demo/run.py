"""`ragscore demo`: run four systems over the golden queries; store, score and compare them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.model import Comparison
from ragscore.collecting.run import collect
from ragscore.demo.ask import K, progress, systems_over
from ragscore.demo.corpus import build_corpus, chunker_version
from ragscore.demo.retrievers import Index
from ragscore.frames.data import DataError, Golden, Results
from ragscore.golden.coverage import coverage
from ragscore.io.load import load_golden
from ragscore.io.output import write_text
from ragscore.io.per_query_write import write_per_query
from ragscore.scoring.score import score
from ragscore.scoring.summary import summarize
from ragscore.store.store import RunStore

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
    store, stamp = RunStore(out / "runs"), f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"[:-3]
    parts = []
    for name, system in systems_over(index, version).items():
        folder, run_id = out / "per_query" / name, f"{name}-{stamp}"
        run = collect(system, golden, folder, k=K, run_id=run_id, suite=SUITE, fresh=True)
        parts.append(run)
        write_per_query(replace(run, hits=run.hits.drop(columns="text", errors="ignore")), folder)
    results = Results.concat(parts)
    store.save(results, golden=golden)
    _report_scores(results, golden, report)
    cmp = compare_runs(results, golden, BASELINE, CANDIDATE)
    for folder in (store.path(cmp.candidate), out):
        write_text(folder / "report.md", cmp.to_markdown())
    report(f"\n{cmp!r}\n\nruns: {store.root}\nreport: {out / 'report.md'}")
    return cmp


def _report_scores(results: Results, golden: Golden, report: Any) -> None:
    systems = dict(zip(results.runs["run_id"].astype("str"), results.runs["system"], strict=True))
    report(f"\n{coverage(results, golden).runs.rename(index=systems).astype(object).T.to_string()}")
    scores = score(results, golden)
    scores["run_id"] = scores["run_id"].cat.rename_categories(systems)
    for by, metrics in ((None, PRINTED), ("category", ["hit@5"]), ("difficulty", ["hit@5"])):
        means = summarize(scores, golden, by=by, metrics=metrics).query("n > 0")
        rows = by or "metric"
        wide = means.pivot_table(
            index=rows, columns="run_id", values="mean", observed=False, sort=by is not None
        )
        table = wide.round(3).assign(n=means.groupby(rows)["n"].max())
        shown = table.rename_axis(index=None, columns=None).to_string()
        report(f"\nhit@5 by {by}\n{shown}" if by else f"\nmeans\n{shown}")


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

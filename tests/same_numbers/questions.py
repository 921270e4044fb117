"""What is asked: of the demo, of its dialects by every profile, the history, files, random worlds.

Each question is asked by the names that the library has now, and yields rows whose five keys stay
as they are: a value keeps its place in the table when a function or a column gets another name.
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from ragscore.analysis.extras.harness_files import write_metrics_json
from tests.same_numbers import worlds

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "demo"
FIXTURES = ROOT / "tests" / "fixtures"
ARITHMETIC = "arithmetic"
PROFILES = ("kebab", "rig", "chatbot", "trec", "seed-mcp")
KEYS = ["object", "run", "query", "metric", "field"]
NAN, NUMBERS = float("nan"), (bool, int, float, np.number, np.bool_)

# By field of the recorded table: the column that has it now. One name stands for both.
SUMMARY = "mean low high n n_expected n_failed n_missing sum std min p50 p95 max"
DELTAS = (
    "baseline candidate delta low high p verdict is_primary n_better n_worse n_same n "
    "n_expected_baseline n_expected_candidate detectable"
)
OUTCOMES = "outcome rank_baseline rank_candidate n_gained n_lost gained lost"
STANDING = "rank mean low high p50 n n_expected mark"
TREND = "position mean low high p50 n n_expected is_reported band_low band_high in_band"


def table(
    name: str,
    frame: pd.DataFrame,
    fields: str,
    *,
    run: str = "",
    query: str = "",
    metric: str = "",
    prefix: str = "",
) -> Iterator[pd.DataFrame]:
    """Yield the cells of some columns of a frame, by the columns or texts that are its keys."""
    frame = frame.reset_index() if frame.index.names != [None] else frame
    keys = {"run": run, "query": query, "metric": metric}
    named = {
        key: frame[column].astype("str").to_numpy() if column in frame else column
        for key, column in keys.items()
    }
    for field in fields.split():
        if field in frame:
            yield cells(frame[field]).assign(object=name, field=prefix + field, **named)


def cells(column: pd.Series) -> pd.DataFrame:
    """Return values as numbers where they are numbers or truth values, and as texts else."""
    if pd.api.types.is_numeric_dtype(column.dtype):  # truth values, too
        return pd.DataFrame({"number": column.astype("Float64").to_numpy("float64", na_value=NAN)})
    values = column.astype("object").where(column.notna(), None).tolist()
    is_number = [isinstance(one, NUMBERS) for one in values]
    both = list(zip(values, is_number, strict=True))
    return pd.DataFrame(
        {
            "number": [float(one) if known else NAN for one, known in both],
            "text": [None if known or one is None else as_text(one) for one, known in both],
        }
    )


def as_text(value: Any) -> str:
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)


def leaves(name: str, value: Any, run: str = "", at: str = "") -> Iterator[pd.DataFrame]:
    """Yield the values of a JSON document; their field is the path."""
    found: dict[str, Any] = {}

    def walk(one: Any, path: str) -> None:
        if isinstance(one, dict | list) and one:
            items = one.items() if isinstance(one, dict) else enumerate(one)
            for key, inner in items:
                walk(inner, f"{path}.{key}" if path else str(key))
        else:
            found[path] = one if one not in ({}, []) else None

    walk(value, at)
    series = pd.Series(list(found.values()), dtype="object")
    yield cells(series).assign(object=name, run=run, query="", metric="", field=list(found))


def content(name: str, file: Path) -> Iterator[pd.DataFrame]:
    """Yield what a written file holds: the values of JSON, else a sum of its bytes."""
    if file.suffix == ".json":
        yield from leaves(name, json.loads(file.read_text(encoding="utf-8")))
    else:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        yield from leaves(name, {"sha256": digest})


def wide(name: str, scores: pd.DataFrame, run: str = "run_id") -> Iterator[pd.DataFrame]:
    """Yield the cells of a frame of scores, a row per run and query."""
    frame = scores.reset_index()
    labels = [one for one in frame if one not in ("run_id", "query_id", "state", "level")]
    for label in labels:
        for rows in table(name, frame, label, run=run, query="query_id"):
            yield rows.assign(metric=label, field="value")
    yield from table(name, frame, "state level", run=run, query="query_id")


# Questions put to one evaluation


def compared(name: str, ev: rs.Evaluation, a: str, b: str, at: str = "") -> Iterator[pd.DataFrame]:
    """Yield what a comparison, its gates and its slices say."""
    cmp, pair = ev.compare(a, b), f"{at}{a}..{b}"
    yield from table(f"{name}: comparison", cmp.deltas, DELTAS, run=pair, metric="metric")
    yield from table(f"{name}: outcomes", cmp.per_query, OUTCOMES, run=pair, query="query_id")
    found = cmp.targets.assign(target=cmp.targets["query_id"] + " " + cmp.targets["target_id"])
    ranks = "rank_baseline rank_candidate change"
    yield from table(f"{name}: targets", found, ranks, run=pair, query="target")
    yield from table(
        f"{name}: flips", cmp.flips, "baseline candidate kind", run=pair, query="query_id",
        metric="metric",
    )  # fmt: skip
    yield from table(f"{name}: aspects", cmp.aspects, "verdict", run=pair, metric="aspect")
    yield from leaves(f"{name}: comparison", {"overall": cmp.overall, "counts": cmp.counts}, pair)
    yield from table(
        f"{name}: invariants", cmp.invariants, "baseline candidate state", run=pair, metric="name"
    )
    for rule in ("threshold", "interval"):
        gate = cmp.gate({"hit@5": 0.03, "mrr@10": 0.03}, rule=rule)
        asked = f"{name}: gate by {rule}"
        fields = "baseline candidate delta low high max_drop n verdict"
        yield from table(asked, gate.table, fields, run=pair, metric="metric")
        yield from leaves(asked, {"overall": gate.answer, "exit_status": gate.exit_status}, pair)
    if "difficulty" in ev.golden.queries:
        slices = cmp.slices("difficulty", ["hit@5", "mrr@10"]).table
        fields = "n baseline candidate delta low high p"
        yield from table(
            f"{name}: changes by slice", slices, fields, run=pair, metric="metric",
            query="difficulty",
        )  # fmt: skip


def of_all_runs(name: str, ev: rs.Evaluation, at: str = "") -> Iterator[pd.DataFrame]:
    """Yield summaries, standings, slices and coverage."""
    summary = ev.summary()
    yield from table(f"{name}: summary", _at(summary, at), SUMMARY, run="run_id", metric="metric")
    board = ev.leaderboard()
    is_mean = board.table["statistic"].eq("mean")
    ranked = board.table.assign(
        mean=board.table["value"].where(is_mean), p50=board.table["value"].mask(is_mean)
    )
    yield from table(
        f"{name}: leaderboard", _at(ranked, at), STANDING, run="run_id", metric="metric"
    )
    pairs = board.pairs.assign(
        pair=at + board.pairs["run_baseline"].astype("str")
        + ".." + board.pairs["run_candidate"].astype("str")
    )  # fmt: skip
    yield from table(f"{name}: pairs", pairs, "delta verdict", run="pair", metric="metric")
    if "difficulty" in ev.golden.queries:
        metrics = ["hit@5", "mrr@10"]
        by = ev.summary(metrics, by="difficulty")
        key = {"run": "run_id", "query": "difficulty", "metric": "metric"}
        yield from table(f"{name}: summary by slice", _at(by, at), SUMMARY, **key)
        slices = ev.slices("difficulty", metrics)
        yield from table(
            f"{name}: slices", _at(slices, at), "n mean low high n_rest mean_rest delta_rest p",
            **key,
        )  # fmt: skip
    fields = "n_golden n_rows n_missing n_extra n_failed n_empty n_unlabelled n_should_refuse"
    yield from table(f"{name}: coverage", _at(ev.coverage().runs, at), fields, run="run_id")


def refused(name: str, ev: rs.Evaluation, at: str = "") -> Iterator[pd.DataFrame]:
    """Yield which queries were refused, and why queries failed."""
    key = {"run": "run_id", "query": "query_id"}
    causes = ev.failures().per_query
    yield from table(f"{name}: failures", _at(causes, at), "hit right cause", **key)
    decided = ev.refusals().decisions
    yield from table(f"{name}: refusals", _at(decided, at), "decision right", **key)


def _at(frame: pd.DataFrame, at: str) -> pd.DataFrame:
    """Return a frame with `at` before its runs' names: the world that they are from."""
    if not at:
        return frame
    frame = frame.reset_index() if frame.index.names != [None] else frame
    return frame.assign(run_id=at + frame["run_id"].astype("str"))


def asked(name: str, at: str, ask: Callable[..., Iterator[pd.DataFrame]], *given: Any) -> Any:
    """Yield the answers, or that there is none."""
    try:
        yield from ask(name, *given)
    except rs.DataError:
        yield from leaves(name, {f"{ask.__name__} refused": True}, at)


# The objects


def demo() -> Iterator[pd.DataFrame]:
    golden, results = rs.load_golden(DEMO / "golden.yaml"), rs.load_results(f"{DEMO}/runs/*")
    every = [one for name in rs.metrics()["name"] for one in labels_of(name)]
    yield from wide("demo: scores", rs.score(results, golden, every))
    for level in ("chunk", "doc", "anchor", "span"):
        yield from asked(f"demo: scores by {level}", "", matched, results, golden, level)
    ev = rs.evaluate(results, golden, "all")
    yield from of_all_runs("demo", ev)
    yield from refused("demo", ev)
    yield from compared("demo", ev, "dense", "hybrid_rerank")
    yield from compared("demo", ev, "bm25", "hybrid")
    two = ev.select(["dense", "hybrid_rerank"])
    yield from compared("demo, two runs", two, "dense", "hybrid_rerank")
    yield from of_all_runs("demo, zeros", rs.evaluate(results, golden, "all", missing="zero"))
    yield from table("demo: retrievers", ev.summary("latency_ms"), "n p50 p95 mean", run="run_id")
    yield from written(results.select("hybrid"), golden)


def labels_of(name: str) -> list[str]:
    """Return the labels that are asked of a metric: a few cut-offs, or itself."""
    if name.endswith("@k"):
        return [f"{name[:-1]}{k}" for k in (1, 3, 5, 10)]
    return [name.replace("@r", "@0.5")]


def matched(name: str, results: rs.Results, golden: rs.Golden, level: str) -> Any:
    labels = ["hit@5", "recall@10", "mrr@10", "ndcg@10", "map"]
    yield from wide(name, rs.score(results, golden, labels, match=level))


def written(results: rs.Results, golden: rs.Golden) -> Iterator[pd.DataFrame]:
    """Yield what files hold that are written for other tools."""
    once = rs.Results(
        runs=results.runs, responses=results.responses, hits=rs.match.collapse_hits(results.hits)
    )
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder)
        once.save(to / "run.txt", format="trec", level="doc")
        golden.save(to / "qrels.txt", format="trec_qrels", level="doc")
        golden.save(to / "golden.yaml", format="golden")
        results.save(to / "r", format="per_query")
        results.save(to / "chatbot", format="chatbot")
        for file in sorted(to.rglob("*")):
            if file.is_file() and file.name not in ("run.json", "meta.json"):
                yield from content(f"demo: {file.relative_to(to)}", file)


def dialects() -> Iterator[pd.DataFrame]:
    golden, results = rs.load_golden(DEMO / "dialects.yaml"), rs.load_results(f"{DEMO}/runs/*")
    for profile in PROFILES:
        ev = rs.evaluate(results, golden, profile=profile)
        yield from wide(f"dialects by {profile}: scores", ev.scores)
        yield from leaves(f"dialects by {profile}: aggregates", aggregate(results, golden, profile))
        yield from asked(f"dialects by {profile}", "", outcomes, ev)
    ev = rs.evaluate(results, golden, "all")
    yield from of_all_runs("dialects", ev)
    yield from refused("dialects", ev)


def outcomes(name: str, ev: rs.Evaluation) -> Iterator[pd.DataFrame]:
    cmp = ev.compare("dense", "hybrid_rerank")
    yield from table(f"{name}: outcomes", cmp.per_query, OUTCOMES, query="query_id")
    yield from leaves(f"{name}: aggregates", cmp._aggregates, "dense..hybrid_rerank")
    yield from leaves(f"{name}: comparison as JSON", json.loads(cmp.to_json()))
    with tempfile.TemporaryDirectory() as folder:
        one = ev.results.select("hybrid_rerank")
        file = write_metrics_json(one, ev.golden, Path(folder) / "m.json", profile=ev._profile)
        yield from leaves(f"{name}: metrics.json", json.loads(file.read_text(encoding="utf-8")))


def history() -> Iterator[pd.DataFrame]:
    golden = rs.load_golden(DEMO / "golden.yaml")
    store = rs.RunStore(DEMO / "history")
    described = "system repeat suite created_at golden_hash chunker_version k n_queries n_failed"
    yield from table("history: runs", store.runs(), described, run="run_id")
    labels = ["hit@5", "mrr@10", "ndcg@10", "passed", "latency_ms"]
    yield from wide("history: stored scores", store.scores(metrics=labels, allow_different=True))
    yield from wide("history: scores", store.scores(golden, labels[:4]))
    for label in ("mrr@10", "hit@5", "passed", "latency_ms"):
        found = store.trend(label).table
        for name in ("trend", "trend as stored"):
            yield from table(f"history: {name}", found.assign(metric=label), TREND, run="run_id",
                             metric="metric")  # fmt: skip


def files() -> Iterator[pd.DataFrame]:
    """Yield what other tools' files hold."""
    for file in sorted(FIXTURES.glob("*_*")):
        yield from asked(f"files: {file.name}", "", loaded, file)
        yield from asked(f"files: {file.name}: labels", "", labelled, file)


def loaded(name: str, file: Path) -> Iterator[pd.DataFrame]:
    results = rs.load_results(file)
    key = {"run": "run_id", "query": "query_id"}
    fields = "query answer refused error elapsed_ms prompt_tokens completion_tokens cost_usd"
    yield from table(name, results.responses, fields, **key)
    if results.hits is not None and len(results.hits):
        hits = results.hits
        ranked = hits.assign(query_id=hits["query_id"] + " " + hits["rank"].astype("str"))
        yield from table(f"{name}: hits", ranked, "chunk_id doc_id score text", **key)
    if results.judgments is not None:
        made = results.judgments.assign(
            metric=results.judgments["criterion"] + " " + results.judgments["item"]
        )
        yield from table(f"{name}: judgments", made, "value state judge", metric="metric", **key)


def labelled(name: str, file: Path) -> Iterator[pd.DataFrame]:
    golden = rs.load_golden(file)
    fields = "query answerable reference_answer difficulty category"
    yield from table(name, golden.queries, fields, query="query_id")
    grouped = golden.targets.groupby(["query_id", "level"], as_index=False)["target_id"].agg(
        " ".join
    )
    yield from table(name, grouped, "target_id", query="query_id", metric="level")


def random_worlds() -> Iterator[pd.DataFrame]:
    with tempfile.TemporaryDirectory() as folder:
        for n in range(worlds.N_WORLDS):
            golden, results = worlds.written(n, Path(folder) / str(n))
            ev = rs.evaluate(results, golden, "all")
            at = f"{n:02} "
            yield from wide("worlds: scores", _at(ev.scores, at))
            yield from asked("worlds", at, compared, ev, "a", "b", at)
            yield from asked("worlds", at, refused, ev, at)
            if n % 3 == 0:  # the dearest question
                yield from asked("worlds", at, of_all_runs, ev, at)


def arithmetic() -> Iterator[pd.DataFrame]:
    """Yield a sum over what processors round each in their way: see `by_line`."""
    numbers = np.arange(2, 20_000, dtype="float64")
    made = [np.log2(numbers), np.log(numbers), np.exp(-numbers / 7), numbers**0.3]
    made.append(np.sin(numbers[:10_000].reshape(100, 100)) @ numbers[:10_000].reshape(100, 100))
    digest = hashlib.sha256(b"".join(one.tobytes() for one in made)).hexdigest()[:16]
    yield from leaves(ARITHMETIC, {"sha256": digest})


OBJECTS = {
    ARITHMETIC: arithmetic,
    "demo": demo, "dialects": dialects, "history": history, "files": files,
    "worlds": random_worlds,
}  # fmt: skip


def answers(only: str = "") -> pd.DataFrame:
    """Ask everything, or what one object gives; return the rows in their keys' order."""
    parts = [rows for name, ask in OBJECTS.items() if only in ("", name) for rows in ask()]
    found = pd.concat(
        [one.reindex(columns=[*KEYS, "number", "text"]) for one in parts], ignore_index=True
    )
    found = found.astype(dict.fromkeys([*KEYS, "text"], "str"))
    twice = found.duplicated(KEYS)
    assert not twice.any(), found[twice].head(5).to_string()
    return found.sort_values(KEYS, ignore_index=True)

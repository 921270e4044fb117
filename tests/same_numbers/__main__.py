"""Compare the library's answers with those recorded, or record them: see the package."""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from tests.same_numbers.worlds import written

DEMO = Path(__file__).parents[2] / "data" / "demo"
RECORDED = Path(__file__).parent / "answers.parquet"
PROFILES = ("kebab", "rig", "chatbot", "trec", "seed-mcp")
# Columns that name a row; among equal ones the place counts.
NAMES = (
    "run_id run_baseline run_candidate query_id metric rank level target_id criterion item aspect "
    "name statistic difficulty decision cause"
).split()
KEYS = ["asked", "row", "field"]
ROUNDING = 1e-9  # processors round logarithms and products each in their way
SHOWN, N_WORLDS = 40, 24

Frames = Iterator[tuple[str, pd.DataFrame]]


def of_evaluation(ev: rs.Evaluation, a: str, b: str) -> Frames:
    """Yield the frames of an evaluation, and of the comparison of two of its runs."""
    board, cmp = ev.leaderboard(), ev.compare(a, b)
    found = {
        "scores": ev.scores, "summary": ev.summary(), "coverage": ev.coverage().runs,
        "leaderboard": board.table, "pairs": board.pairs,
        "deltas": cmp.deltas, "outcomes": cmp.per_query, "targets": cmp.targets,
        "flips": cmp.flips, "aspects": cmp.aspects, "invariants": cmp.invariants,
        "slices": ev.slices("difficulty", ["hit@5", "mrr@10"]),
        "changes by slice": cmp.slices("difficulty", ["hit@5", "mrr@10"]).table,
        "gate": cmp.gate({"hit@5": 0.03, "mrr@10": 0.03}, rule="interval").table,
    }  # fmt: skip
    yield from found.items()


def demo() -> Frames:
    ev = rs.evaluate(f"{DEMO}/runs/*", DEMO / "golden.yaml", "all")
    yield from of_evaluation(ev, "dense", "hybrid_rerank")
    for level in ("chunk", "doc"):
        labels = ["hit@5", "recall@10", "mrr@10", "ndcg@10", "map"]
        yield f"by {level}", rs.score(ev.results, ev.golden, labels, match=level)
    yield "zeros", rs.evaluate(ev.results, ev.golden, "all", missing="zero").summary()
    yield from (("failures", ev.failures().per_query), ("refusals", ev.refusals().decisions))


def dialects() -> Frames:
    golden, results = rs.load_golden(DEMO / "dialects.yaml"), rs.load_results(f"{DEMO}/runs/*")
    for profile in PROFILES:
        ev = rs.evaluate(results, golden, profile=profile)
        cmp = ev.compare("dense", "hybrid_rerank")
        yield from ((f"{profile} scores", ev.scores), (f"{profile} outcomes", cmp.per_query))
        yield f"{profile} aggregates", pd.json_normalize(aggregate(results, golden, profile))
    yield from of_evaluation(rs.evaluate(results, golden, "all"), "dense", "hybrid_rerank")


def history() -> Frames:
    golden, store = rs.load_golden(DEMO / "golden.yaml"), rs.RunStore(DEMO / "history")
    labels = ["hit@5", "mrr@10", "ndcg@10", "passed", "latency_ms"]
    yield from (("runs", store.runs()), ("scores", store.scores(golden, labels[:4])))
    yield "stored scores", store.scores(metrics=labels, allow_different=True)
    for label in labels:
        yield f"trend of {label}", store.trend(label).table


def random_worlds() -> Frames:
    with tempfile.TemporaryDirectory() as folder:
        for n in range(N_WORLDS):
            golden, results = written(n, Path(folder) / str(n))
            ev = rs.evaluate(results, golden, "all")
            for name, frame in of_evaluation(ev, "a", "b"):
                yield f"{n:02} {name}", frame


OBJECTS = {"demo": demo, "dialects": dialects, "history": history, "worlds": random_worlds}


def cells(asked: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row per value: what was asked, what names its row, the column; number or text."""
    frame = frame.reset_index(drop=frame.index.name is None)
    names = [one for one in NAMES if one in frame]
    row = frame[names].astype("str").agg(" ".join, axis=1) if names else pd.Series("", frame.index)
    row += " " + row.groupby(row).cumcount().astype("str")
    parts = []
    for field, values in frame.drop(columns=names).items():
        is_number = pd.api.types.is_numeric_dtype(values)
        own = {"number": values.astype("Float64")} if is_number else {"text": values.astype("str")}
        parts.append(pd.DataFrame({"asked": asked, "row": row, "field": str(field), **own}))
    return pd.concat(parts)


def answers(names: list[str]) -> pd.DataFrame:
    """Ask these objects; return a row per value."""
    parts = [cells(f"{name}: {asked}", frame) for name in names for asked, frame in OBJECTS[name]()]
    found = pd.concat(parts, ignore_index=True)[[*KEYS, "number", "text"]]
    return found.astype({"number": "float64", "text": "str"})


def differences(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the values that are gone, new, or no longer the same but for rounding."""
    both = before.merge(after, on=KEYS, how="outer", indicator="change", suffixes=("", "_now"))
    is_near = np.isclose(both["number"], both["number_now"], ROUNDING, 1e-12, equal_nan=True)
    is_text = (both["text"] == both["text_now"]) | (both["text"].isna() & both["text_now"].isna())
    names = {"both": "differs", "left_only": "gone", "right_only": "new"}
    both["change"] = both["change"].astype("str").map(names)
    return both[~is_near | ~is_text | both["change"].ne("differs")]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.same_numbers", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["compare", "record"], default="compare")
    parser.add_argument("--object", choices=list(OBJECTS), help="ask it alone")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    found = answers([given.object] if given.object else list(OBJECTS))
    if given.what == "record":
        found.to_parquet(RECORDED, compression="zstd", index=False)
    recorded = pd.read_parquet(RECORDED)
    recorded = recorded[recorded["asked"].str.startswith(f"{given.object or ''}")]
    differing = differences(recorded, found)
    print(differing.groupby(["asked", "field", "change"]).size().head(SHOWN).to_string())
    print(differing.head(SHOWN).to_string())
    print(f"{len(recorded):,} values compared: {len(differing)} are not the same")
    return int(len(differing) > 0)


if __name__ == "__main__":
    sys.exit(main())

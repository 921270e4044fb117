"""A comparison as people read it: which metrics are shown, in what precision, what a change means, which queries changed.

In: the frames of a `Comparison`. Out: frames of text, and sentences. Computes nothing.
"""

import numpy as np
import pandas as pd

from ragscore.level import Level
from ragscore.metrics import HEADLINE, parse_label
from ragscore.tables import decimals_for, shown_number

WORST_FIRST = ("regression", "loss", "only_a", "only_b", "draw", "win")
MATCHED_BY = {"chunk": "chunk id", "span": "span", "anchor": "anchor", "doc": "document", "predicate": "predicate", "per_query": "each query's finest target"}
NOT_FINER = {
    "span": "Text spans were matched and not chunk ids, because of this",
    "anchor": "Anchors (file and heading) were matched and nothing finer, because of this",
    "doc": "Whole documents were matched and not passages of them, because of this",
    "predicate": "Predicates were matched and nothing finer, because of this",
}


def shown_deltas(deltas: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The headline metrics of `Comparison.deltas` as text, one row per metric that was measured, and a note to the table.

    Times are shown by their median, which one slow query doesn't move; every other metric by its mean.
    """
    measured = deltas.loc[deltas["n"] > 0, "metric"].tolist()
    names = [name for name in HEADLINE if name in measured] or measured
    rows = deltas.set_index("metric").loc[names]
    times = [name for name in names if _is_time(name)]
    for part in ("a", "b", "delta", "low", "high"):
        rows.loc[times, part] = rows.loc[times, f"p50_{part}"]
    error = (rows["high"] - rows["low"]) / 4
    places = [max(decimals_for(e), 1 if _is_time(name) else 2) for name, e in zip(names, error, strict=True)]
    texts = {
        part: [shown_number(value, digits, part in ("delta", "low", "high")) for value, digits in zip(rows[part], places, strict=True)]
        for part in ("a", "b", "delta", "low", "high", "mde")
    }
    table = pd.DataFrame({
        "metric": [f"{name} (p50)" if name in times else name for name in names], "a": texts["a"], "b": texts["b"], "delta": texts["delta"],
        "95 % interval": [f"{low} to {high}" for low, high in zip(texts["low"], texts["high"], strict=True)],
        "p": [_shown_p(p) for p in rows["p"]], "b is": rows["verdict"].tolist(),
        "detectable": ["" if name in times else "not at this n" if np.isnan(mde) else shown for name, mde, shown in zip(names, rows["mde"], texts["mde"], strict=True)],
        "better / worse / same": [f"{b} / {w} / {s}" for b, w, s in zip(rows["n_better"], rows["n_worse"], rows["n_same"], strict=True)],
        "by chance": ["" if name in times else f"{value:.0f}" for name, value in zip(names, rows["n_by_noise"], strict=True)],
        "n": rows["n"].astype("str").tolist(),
    })  # fmt: skip
    return table, "\n".join(_notes(rows, times))


def _notes(rows: pd.DataFrame, times: list[str]) -> list[str]:
    """What a reader of the table must know beside it."""
    notes = ["By chance: wins, and as many losses, if what moved had moved evenly both ways."]
    if (rows["verdict"] == "can't tell").any():
        notes.append("Can't tell: so many queries find a difference as large as the detectable one 4 times in 5; the interval says how large it may be.")
    cautions = [name for name in rows.index[rows["caution"]] if name not in times]
    if cautions:
        notes.append(f"Caution, a few queries carry the difference in {', '.join(cautions)}: look at the largest movers.")
    lost = rows[rows["n_lost"] > 0]
    if len(lost):
        notes.append(f"Left out, because b failed or was not asked: {', '.join(f'{n} of {name}' for name, n in lost['n_lost'].items())}.")
    if times:
        notes.append(f"{', '.join(times)} (p50): medians of a and b, and the median of the differences query by query.")
    return notes


def _shown_p(p: float) -> str:
    return "—" if np.isnan(p) else "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def changed_queries(per_query: pd.DataFrame) -> pd.DataFrame:
    """The queries of `Comparison.per_query` whose outcome or targets changed, worst first; ranks as text, `—` for a miss."""
    rows = per_query[~per_query["outcome"].isin(["draw", "both_miss", "no_target"]) | (per_query["n_gained"] > 0) | (per_query["n_lost"] > 0)]
    ranks = {name: rows[name].astype("object").where(rows[name].notna(), "—").map(str) for name in ("rank_a", "rank_b")}
    order = {outcome: place for place, outcome in enumerate(WORST_FIRST)}
    shown = rows[["query_id", "query", "outcome", "rank_a", "rank_b", "gained", "lost", "note"]].assign(**ranks)
    return shown.sort_values("outcome", key=lambda column: column.map(order).fillna(len(order)), kind="stable", ignore_index=True)


def describe_matching(level: Level, k: int | None) -> str:
    """At which level hits were matched, up to which rank (None: any), and why not at a finer level, in words."""
    agree = "agree" if level.chunker_version_match == "exact" else "differ"
    text = f"Matched by {MATCHED_BY[level.name]} (chunker versions {agree})" + ("." if k is None else f"; a hit is one of rank ≤ {k}.")
    return f"{text} {NOT_FINER[level.name]}: {level.left_out}." if level.left_out else text


def _is_time(label: str) -> bool:
    return parse_label(label).metric.kind == "time"

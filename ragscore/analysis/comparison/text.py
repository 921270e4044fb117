"""A comparison as people read it.

Which metrics are shown, in what precision, what a change means, which queries changed.

In: the frames of a `Comparison`. Out: frames of text, and sentences. Computes nothing.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.render import decimals_for, shown_detectable, shown_n, shown_number
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import HEADLINE, parse_label

WORST_FIRST = ("regression", "loss", "only_a", "only_b", "draw", "win")
MATCHED_BY = {
    "chunk": "chunk id",
    "span": "span",
    "anchor": "anchor",
    "doc": "document",
    "predicate": "predicate",
    "per_query": "each query's finest target",
}
NOT_FINER = {
    "span": "Text spans were matched and not chunk ids, because of this",
    "anchor": "Anchors (file and heading) were matched and nothing finer, because of this",
    "doc": "Whole documents were matched and not passages of them, because of this",
    "predicate": "Predicates were matched and nothing finer, because of this",
}


def shown_deltas(deltas: pd.DataFrame, movers: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The headline metrics of `Comparison.deltas` as text, one row per metric that was measured, and a note to the table.

    Times are shown by their median, which one slow query doesn't move; every other metric by its
    mean.
    """
    names = _headline(deltas)
    rows = deltas.set_index("metric").loc[names]
    times = [name for name in names if _is_time(name)]
    for part in ("a", "b", "delta", "low", "high"):
        rows.loc[times, part] = rows.loc[times, f"p50_{part}"]
    error = (rows["high"] - rows["low"]) / 4
    places = [
        max(decimals_for(e), 1 if _is_time(name) else 2)
        for name, e in zip(names, error, strict=True)
    ]
    texts = {
        part: [
            shown_number(value, digits, part in ("delta", "low", "high"))
            for value, digits in zip(rows[part], places, strict=True)
        ]
        for part in ("a", "b", "delta", "low", "high", "mde")
    }
    table = pd.DataFrame({
        "metric": [f"{name} (p50)" if name in times else name for name in names], "a": texts["a"],
        "b": texts["b"], "delta": texts["delta"],
        "95 % interval": [f"{low} to {high}" for low,
        high in zip(texts["low"], texts["high"], strict=True)],
        "p": [_shown_p(p) for p in rows["p"]], "b is": rows["verdict"].tolist(),
        "detectable": [shown_detectable(*row) for row in zip(rows["verdict"], rows["p"], rows["mde"], texts["mde"], strict=True)],
        "better / worse / same": [f"{b} / {w} / {s}" for b, w,
        s in zip(rows["n_better"], rows["n_worse"], rows["n_same"], strict=True)],
        "by chance": ["" if name in times else f"{value:.0f}" for name,
        value in zip(names, rows["n_by_noise"], strict=True)],
        "n / expected": [shown_n(*counts) for counts in zip(rows["n"], rows["n_expected_a"], rows["n_expected_b"], strict=True)],
    })  # fmt: skip
    return table, "\n".join(_notes(rows, times, movers))


def _headline(deltas: pd.DataFrame) -> list[str]:
    measured = deltas.loc[deltas["n"] > 0, "metric"].tolist()
    return [name for name in HEADLINE if name in measured] or measured


def shown_moves(deltas: pd.DataFrame, movers: pd.DataFrame) -> pd.DataFrame:
    """The headline metrics that moved by more than 0 and 1, as text.

    Δ, how skew the differences are, and the queries that lost and gained most.
    """
    names = [name for name in _headline(deltas) if name in set(movers["metric"])]
    rows = deltas.set_index("metric").loc[names]
    parts = {
        word: movers[(movers["kind"] == kind).to_numpy()]
        for word, kind in (("lost most", "regression"), ("gained most", "improvement"))
    }
    changes = [
        median if _is_time(name) else mean
        for name, median, mean in zip(names, rows["p50_delta"], rows["delta"], strict=True)
    ]
    table = pd.DataFrame(
        {
            "metric": names,
            "delta": [shown_number(value, 3, True) for value in changes],
            "skewness": [shown_number(value, 1, True) for value in rows["skewness"]],
        }
    )
    return table.assign(
        **{word: [_moves_text(part, name) for name in names] for word, part in parts.items()}
    )


def _moves_text(movers: pd.DataFrame, metric: str) -> str:
    own = movers[(movers["metric"] == metric).to_numpy()]
    return (
        ", ".join(
            f"{query} {shown_number(delta, 1 if _is_time(metric) else 2, True)}"
            for query, delta in zip(own["query_id"], own["delta"], strict=True)
        )
        or "none"
    )


def shown_tails(deltas: pd.DataFrame) -> list[str]:
    """A sentence per time that was measured.

    The slowest twentieth of both runs, and by how much they differ.
    """
    rows = deltas[(deltas["n"] > 0).to_numpy() & [_is_time(name) for name in deltas["metric"]]]
    return [
        f"{row['metric']} (p95): {row['p95_a']:.1f} and {row['p95_b']:.1f}, {row['p95_delta']:+.1f}"
        f" (95 % interval: {_shown_tail(row)})."
        for row in rows.to_dict("records")
    ]


def _shown_tail(row: dict[Hashable, Any]) -> str:
    return (
        "n too small"
        if np.isnan(row["p95_low"])
        else f"{row['p95_low']:+.1f} to {row['p95_high']:+.1f}"
    )


def shown_flips(flips: pd.DataFrame) -> pd.DataFrame:
    """How many answers flipped by metric, as text, and which."""
    kinds = {"good to bad": "regression", "bad to good": "improvement"}
    by_metric = dict(iter(flips.groupby("metric", sort=False)))
    counts = {
        word: [int((rows["kind"] == kind).sum()) for rows in by_metric.values()]
        for word, kind in kinds.items()
    }
    named = {
        f"{word}: queries": [
            ", ".join(rows.loc[rows["kind"] == kind, "query_id"]) for rows in by_metric.values()
        ]
        for word, kind in kinds.items()
    }
    return pd.DataFrame({"metric": list(by_metric), **counts, **named})


def _notes(rows: pd.DataFrame, times: list[str], movers: pd.DataFrame) -> list[str]:
    """What a reader of the table must know beside it."""
    notes = ["By chance: wins, and as many losses, if what moved had moved evenly both ways."]
    if (rows["verdict"] == "can't tell").any():
        notes.append(
            "Can't tell: so many queries find a difference as large as the detectable one 4 times"
            " in 5; the interval says how large it may be."
        )
    cautions = [name for name in rows.index[rows["caution"]] if name not in times]
    if cautions:
        notes.append(
            f"Caution, a few queries carry the difference in {', '.join(cautions)}: look at the"
            " largest movers."
        )
        notes += [
            f"{name}, largest moves: {_moves_text(movers, name)}."
            for name in cautions
            if name in set(movers["metric"])
        ]
    lost = rows[rows["n_lost"] > 0]
    if len(lost):
        notes.append(
            "Left out, because b failed or was not asked:"
            f" {', '.join(f'{n} of {name}' for name, n in lost['n_lost'].items())}."
        )
    if times:
        notes.append(
            f"{', '.join(times)} (p50): medians of a and b, and the median of the differences query"
            " by query."
        )
    return notes


def _shown_p(p: float) -> str:
    return "—" if np.isnan(p) else "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def changed_queries(per_query: pd.DataFrame) -> pd.DataFrame:
    """The queries of `Comparison.per_query` whose outcome or targets changed, worst first.

    Ranks as text, `—` for a miss.
    """
    rows = per_query[
        ~per_query["outcome"].isin(["draw", "both_miss", "no_target"])
        | (per_query["n_gained"] > 0)
        | (per_query["n_lost"] > 0)
    ]
    ranks = {
        name: rows[name].astype("object").where(rows[name].notna(), "—").map(str)
        for name in ("rank_a", "rank_b")
    }
    order = {outcome: place for place, outcome in enumerate(WORST_FIRST)}
    shown = rows[
        ["query_id", "query", "outcome", "rank_a", "rank_b", "gained", "lost", "note"]
    ].assign(**ranks)
    return shown.sort_values(
        "outcome",
        key=lambda column: column.map(order).fillna(len(order)),
        kind="stable",
        ignore_index=True,
    )


def describe_matching(level: Level, k: int | None) -> str:
    """At which level hits were matched, up to which rank (None.

    Any), and why not at a finer level, in words.
    """
    agree = "agree" if level.chunker_version_match == "exact" else "differ"
    text = f"Matched by {MATCHED_BY[level.name]} (chunker versions {agree})" + (
        "." if k is None else f"; a hit is one of rank ≤ {k}."
    )
    return f"{text} {NOT_FINER[level.name]}: {level.left_out}." if level.left_out else text


def _is_time(label: str) -> bool:
    return parse_label(label).metric.kind == "time"

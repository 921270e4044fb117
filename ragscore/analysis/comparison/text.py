"""Tables and sentences that show a comparison to people.

In: the frames of a `Comparison`. Out: frames of text and sentences, with as many decimals as the
intervals justify. Nothing is computed here.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.deltas import FIGURES
from ragscore.frames.codes import is_among, lookup
from ragscore.frames.errors import plural
from ragscore.frames.tables import decimals_within, shown_n, shown_number, shown_p
from ragscore.frames.typing import Values
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import TABLE

EXPLORED = 8  # metrics that are shown beside those that decide
RANKS = ("rank_baseline", "rank_candidate")
MATCHED_BY = {
    "chunk": "chunk id",
    "span": "span",
    "anchor": "anchor",
    "doc": "document",
    "predicate": "predicate",
    "per_query": "each query's finest target",
}


def shown_deltas(deltas: pd.DataFrame, confidence: float) -> tuple[pd.DataFrame, str]:
    """Return the metrics that decide and the headline metrics as text, and the note below."""
    known = deltas[(deltas["n"] > 0).to_numpy()]
    if not len(known):
        expected = deltas[["n_expected_baseline", "n_expected_candidate"]].to_numpy("float64")
        why = (
            "no query has a value of the same metric in both runs"
            if expected.any()
            else "no metric applies: there are no scores, and no labels in a golden set"
        )
        return pd.DataFrame({"metric": []}), f"Nothing can be compared: {why}."
    is_primary = known["is_primary"].to_numpy(dtype=bool)
    others = TABLE.headline(known.loc[~is_primary, "metric"])[:EXPLORED]
    rows = pd.concat([known[is_primary], known[known["metric"].isin(others).to_numpy()]])
    n_primary = int(is_primary.sum())
    is_joint = bool(n_primary) and confidence > 0.9505
    moved = zip(rows["n_better"], rows["n_worse"], rows["n_same"], strict=True)
    counts = zip(rows["n"], rows["n_expected_baseline"], rows["n_expected_candidate"], strict=True)
    figures = shown_figures(rows, is_joint=is_joint)
    interval, ends = figures.popitem()
    both = zip(figures.pop("delta"), ends, strict=True)
    figures[f"delta [{interval}]"] = [" ".join(one).rstrip() for one in both]
    table = pd.DataFrame(
        {
            "metric": [in_words(name) for name in rows["metric"]],
            **figures,
            "candidate is": rows["verdict"].fillna("").tolist(),
            "p": ["" if p != p else shown_p(p) for p in rows["p"]],
            "better / worse / same": [f"{b} / {w} / {s}" for b, w, s in moved],
            "n / expected": [shown_n(*row) for row in counts],
        }
    )
    notes = []
    if is_joint:
        notes.append(
            f"The intervals of the first {plural(n_primary, 'metric')} are wider"
            f" ({100 * confidence:.3g} %), so that all of them hold in 95 % of cases. Any other is"
            " a 95 % interval by itself."
        )
    if n_more := len(known) - len(rows):
        notes.append(f"{plural(n_more, 'more metric')} in .deltas.")
    if cautious := rows.loc[rows["caution"].to_numpy(dtype=bool), "metric"].tolist():
        notes.append(
            f"Caution, a few queries carry the difference in {few_names(cautious)}: ev.pivot shows"
            " them."
        )
    return table, "\n".join(notes)


def shown_figures(
    rows: pd.DataFrame, decimals: Sequence[int] | None = None, *, is_joint: bool = False
) -> dict[str, list[str]]:
    """Return columns of text: both values, their difference, and its interval ("": none).

    With `is_joint`, intervals hold together and not each in 95 % of cases: none is called so.
    """
    if decimals is None:
        decimals = list(map(decimals_within, rows["low"], rows["high"]))
    texts = {
        name: [
            shown_number(value, places, name not in FIGURES[:2])
            for value, places in zip(rows[name], decimals, strict=True)
        ]
        for name in FIGURES
    }
    ends = zip(texts.pop("low"), texts.pop("high"), strict=True)
    name = "interval" if is_joint else "95 % interval"
    return texts | {name: ["" if "—" in two else f"[{', '.join(two)}]" for two in ends]}


def one_sided(deltas: pd.DataFrame) -> list[str]:
    """Name the metrics that only one run has."""
    first, second = deltas[["n_expected_baseline", "n_expected_candidate"]].to_numpy(bool).T
    names = deltas.loc[first != second, "metric"].tolist()
    return [f"Only one run has values of {few_names(names)}."] if names else []


def lost_values(deltas: pd.DataFrame) -> list[str]:
    """Say of all metrics how many values the candidate lost, most first."""
    lost = deltas[(deltas["n_lost"] > 0).to_numpy()]
    lost = lost.sort_values("n_lost", ascending=False, kind="stable")
    listed = few_names([f"{n} of {name}" for n, name in lost[["n_lost", "metric"]].to_numpy()])
    return [f"Left out, because the candidate failed or was not asked: {listed}."] * bool(listed)


def few_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, and how many others there are."""
    more = len(names[most:])
    return ", ".join(names[:most]) + (f" and {more} more" if more else "")


def reading_priority(
    per_query: pd.DataFrame, answered: Collection[str] = (), loss: Values | None = None
) -> Values:
    """Return a number per query of a comparison; the lowest is to be read first.

    Lost first hits, hits of queries that only the baseline was asked, hits further down, queries
    that should be refused and are answered, lost targets, other changes, gains. Within these, by
    the reciprocal rank that was lost, or where no first hit moved by the `loss`.

    Parameters
    ----------
    per_query
        `Comparison.per_query`.
    answered
        Ids of queries that should be refused, and that only the candidate answers.
    loss
        What each query lost by what decides, as a share of its range.
    """
    before, after = (
        np.nan_to_num(1 / per_query[name].to_numpy("float64", na_value=np.inf)) for name in RANKS
    )
    outcome = lookup(per_query["outcome"], pd.Index(["regression", "only_baseline", "loss", "win"]))
    first, only, further, better = (outcome == place for place in range(4))
    is_answered = is_among(per_query["query_id"], list(answered))
    lost_more = ((per_query["n_lost"] > 0) & (per_query["n_gained"] == 0)).to_numpy()
    kind = np.select([first, only, further, is_answered, better, lost_more], [0, 1, 2, 3, 6, 4], 5)
    lost = before - after
    if loss is not None:
        lost = np.where(lost == 0, np.clip(np.nan_to_num(loss), -1, 1), lost)
    return np.asarray(kind + (1 - lost) / 2.01)


def changed_queries(per_query: pd.DataFrame) -> pd.DataFrame:
    """One row per query whose outcome or targets changed, in reading order; ranks as text."""
    is_changed = (
        ~per_query["outcome"].isin(["draw", "both_miss", "no_target"])
        | (per_query["n_gained"] > 0)
        | (per_query["n_lost"] > 0)
    )
    rows = per_query[is_changed]
    rows = rows.iloc[np.argsort(reading_priority(rows), kind="stable")].reset_index(drop=True)
    ranks = {
        name: rows[name].astype("object").where(rows[name].notna(), "—").map(str) for name in RANKS
    }
    return rows[["query_id", "query", "outcome", *RANKS, "gained", "lost", "note"]].assign(**ranks)


def describe_matching(level: Level, k: int | None) -> str:
    """Return the match level, the largest rank of a hit (k None: any), and why no finer level."""
    within = "" if k is None else f" Hits are ranks 1 to {k}."
    finer = f" Not by {level.left_out}." if level.left_out else ""
    return f"Matched by {MATCHED_BY[level.name]}.{within}{finer}"


def in_words(label: str) -> str:
    """Return the name of a metric in a table that shows medians of times and costs."""
    return f"{label} (p50)" if TABLE.describe(label).is_timed else label

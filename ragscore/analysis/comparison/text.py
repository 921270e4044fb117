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
from ragscore.frames.render import (
    decimals_beside,
    decimals_within,
    shown_detectable,
    shown_interval,
    shown_n,
    shown_number,
    shown_p,
)
from ragscore.frames.typing import Values
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import HEADLINE, Declarations, Metric, headline_of, table_kind
from ragscore.stats import ALPHA, NORMAL_FROM, UNSURE

SHOWN_METRICS = 12  # on one screen, unless more are primary
NAMED = 6  # metrics in a line of those that are not shown
FLIPPED = 100  # queries in a cell; `flips` has all
RANKS = ("rank_baseline", "rank_candidate")
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

MEDIANS_NOTE = (
    "(p50): medians of both runs, and the median of the differences query by query; they need not"
    " add up."
)


def shown_deltas(deltas: pd.DataFrame, largest_changes: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the primary metrics and those with a detected change as text, and the note below.

    The note names those without values, and counts those without a change. Times and costs are
    shown by their median, which decides and which one slow query doesn't change; every other metric
    by its mean.
    """
    names = _read_first(deltas)
    if not names:
        return pd.DataFrame({"metric": []}), _nothing(deltas)
    rows = deltas.set_index("metric").loc[names]
    times = [name for name in names if _by_median(name)]
    for part in FIGURES:
        rows.loc[times, part] = rows.loc[times, f"p50_{part}"]
    digits = [
        decimals_within(low, high, 1 if _by_median(name) else 2)
        for name, low, high in zip(names, rows["low"], rows["high"], strict=True)
    ]
    texts = pd.DataFrame(
        {
            part: [
                shown_number(value, places, signed=part in ("delta", "low", "high"))
                for value, places in zip(rows[part], digits, strict=True)
            ]
            for part in ("baseline", "candidate", "delta", "low", "high", "mde")
        },
        index=rows.index,
    )
    detectable = zip(rows["verdict"], rows["p"], rows["mde"], texts["mde"], strict=True)
    moved = zip(rows["n_better"], rows["n_worse"], rows["n_same"], strict=True)
    counts = zip(rows["n"], rows["n_expected_baseline"], rows["n_expected_candidate"], strict=True)
    table = pd.DataFrame(
        {
            "metric": [in_words(name) for name in names],
            **{part: texts[part].tolist() for part in ("baseline", "candidate", "delta")},
            "95 % interval": ("[" + texts["low"] + ", " + texts["high"] + "]").tolist(),
            "corrected p": [shown_p(p) for p in rows["p_adjusted"]],
            "candidate is": [
                word if is_primary or word == UNSURE else f"{word} (exploratory)"
                for word, is_primary in zip(rows["verdict"], rows["is_primary"], strict=True)
            ],
            "detectable": [shown_detectable(*row) for row in detectable],
            "better / worse / same": [f"{b} / {w} / {s}" for b, w, s in moved],
            "n / expected": [shown_n(*row) for row in counts],
        }
    )
    notes = [*_left_out(deltas, names), *_notes(rows, times, largest_changes)]
    return table, "\n".join(notes)


def _nothing(deltas: pd.DataFrame) -> str:
    """Say that nothing can be compared, and why."""
    expected = deltas[["n_expected_baseline", "n_expected_candidate"]]
    why = "no query has a value of the same metric in both runs"
    if not len(deltas):
        why = "there is no metric"
    elif not expected.to_numpy(dtype="float64").any():
        why = "no metric applies to any query; the golden set may be unlabelled"
    return f"Nothing can be compared: {why}."


def _read_first(deltas: pd.DataFrame) -> list[str]:
    """Return the primary metrics that have values, then what moved, headline metrics first.

    All where one screen holds them. Headline metrics stand for the primary ones where none of these
    has a value.
    """
    known = deltas[(deltas["n"] > 0).to_numpy()]
    headline = headline_of(known["metric"])
    primary = known.loc[known["is_primary"].to_numpy(dtype=bool), "metric"].tolist() or headline
    moved = _moved(known)
    names = [*primary, *(name for name in headline if name in moved), *moved]
    if len(known) <= SHOWN_METRICS:
        names += known["metric"].tolist()
    return list(dict.fromkeys(names))[: max(SHOWN_METRICS, len(primary))]


def _moved(known: pd.DataFrame) -> list[str]:
    """Return the metrics whose verdict is open no more, or whose own p is small."""
    alone = np.fmax(known["p"], known["p_exact"])
    has_moved = ((known["verdict"] != UNSURE) | (alone < ALPHA)).to_numpy()
    return known.loc[has_moved].sort_values("p_adjusted", kind="stable")["metric"].tolist()


def _left_out(deltas: pd.DataFrame, shown: list[str]) -> list[str]:
    """Name in a line each the metrics with and without a detected change, and without a value."""
    has_values = (deltas["n"] > 0).to_numpy()
    known = deltas[has_values & ~deltas["metric"].isin(shown).to_numpy()]
    moved = _moved(known)
    still = [name for name in known["metric"] if name not in moved]
    still.sort(key=lambda name: name not in HEADLINE)
    listed = {
        "A verdict, or p < .05 alone, in": (moved, ": see .deltas."),
        "No change detected in": (still, ": see .deltas."),
        "No values of": (deltas.loc[~has_values, "metric"].tolist(), "."),
    }
    return [
        f"{words} {plural(len(names), 'more metric')}: {few_names(names, NAMED)}{way}"
        for words, (names, way) in listed.items()
        if names
    ]


def lost_values(deltas: pd.DataFrame) -> list[str]:
    """Say of all metrics how many values the candidate lost, most first."""
    lost = deltas[(deltas["n_lost"] > 0).to_numpy()].sort_values(
        "n_lost", ascending=False, kind="stable"
    )
    if not len(lost):
        return []
    counts = zip(lost["n_lost"], lost["metric"], strict=True)
    listed = few_names([f"{n} of {name}" for n, name in counts], NAMED)
    return [f"Left out, because the candidate failed or was not asked: {listed}."]


def few_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, and how many others there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _notes(rows: pd.DataFrame, times: list[str], largest_changes: pd.DataFrame) -> list[str]:
    """Explain the table's columns, and name what it leaves out."""
    notes = [
        "Corrected p: for all metrics of the comparison together, primary ones first; the words go"
        " by it. Intervals are those of each metric alone."
    ]
    alone = np.fmax(rows["p"], rows["p_exact"])
    is_undone = (alone < ALPHA) & (rows["p_adjusted"] >= ALPHA) & (rows["verdict"] == UNSURE)
    if undone := rows.index[is_undone].tolist():
        notes.append(
            f"{', '.join(undone)}: alone p is below .05; among so many metrics one in twenty is,"
            " where nothing changed. So the word is can't tell."
        )
    # Interval and test approximate the same in two ways, which may part where p is near .05.
    without_0 = (rows["low"] > 0) | (rows["high"] < 0)
    with_0 = (rows["low"] <= 0) & (rows["high"] >= 0)
    for parts, words in (
        (without_0 & (alone >= ALPHA), "the interval leaves out 0, the test alone has p"),
        (with_0 & (alone < ALPHA), "the interval holds 0, the test alone has p"),
    ):
        notes += [
            f"{name}: {words} {shown_p(alone[name])}. They are two approximations; the word goes"
            " by the test."
            for name in rows.index[parts]
            if name not in times
        ]
    split = (rows["p"] < ALPHA) & (rows["p_exact"] >= ALPHA)
    if by_few := rows.index[split].tolist():
        notes.append(
            f"{', '.join(by_few)}: few queries moved, and p and the exact p disagree, so the word"
            " is can't tell."
        )
    if (rows.loc[~rows["is_primary"], "verdict"] != UNSURE).any():
        notes.append("Exploratory: beyond the primary metrics; a reason to look, not to decide.")
    if (rows["n_better"] + rows["n_worse"] >= NORMAL_FROM).any():
        notes.append(
            f"From {NORMAL_FROM:,} moved queries (or groups of them) on, corrected p values go by"
            " the normal limit of random signs."
        )
    if (rows["verdict"] == UNSURE).any():
        notes.append(
            "Can't tell: with this many queries, a true difference of the detectable size is found"
            " 4 times in 5; the interval says how large the difference may be."
        )
    cautions = [name for name in rows.index[rows["caution"]] if name not in times]
    if cautions:
        notes.append(
            f"Caution, a few queries carry the difference in {', '.join(cautions)}: look at the"
            " largest changes."
        )
        notes += [
            f"{name}, largest changes: {_changes_text(largest_changes, name)}."
            for name in cautions
            if name in set(largest_changes["metric"])
        ]
    return [*notes, f"{', '.join(times)} {MEDIANS_NOTE}"] if times else notes


def shown_largest_changes(deltas: pd.DataFrame, largest_changes: pd.DataFrame) -> pd.DataFrame:
    """One row per headline metric that isn't 0/1, as text: the queries that changed most.

    `delta`, `skewness` of the differences, and the queries that lost and gained most.
    """
    known = deltas[(deltas["n"] > 0).to_numpy()]
    primary = known.loc[known["is_primary"].to_numpy(dtype=bool), "metric"]
    shown = dict.fromkeys([*primary, *headline_of(known["metric"])])
    names = [name for name in shown if name in set(largest_changes["metric"])]
    rows = deltas.set_index("metric").loc[names]
    changes = [
        median if _by_median(name) else mean
        for name, median, mean in zip(names, rows["p50_delta"], rows["delta"], strict=True)
    ]
    is_loss = (largest_changes["kind"] == "regression").to_numpy()
    return pd.DataFrame(
        {
            "metric": [in_words(name) for name in names],
            "delta": [shown_number(value, 3, True) for value in changes],
            "skewness": [shown_number(value, 1, True) for value in rows["skewness"]],
            "lost most": [_changes_text(largest_changes[is_loss], name) for name in names],
            "gained most": [_changes_text(largest_changes[~is_loss], name) for name in names],
        }
    )


def _changes_text(largest_changes: pd.DataFrame, metric: str) -> str:
    own = largest_changes[(largest_changes["metric"] == metric).to_numpy()]
    places = 1 if _by_median(metric) else 2
    changes = [
        f"{query} {shown_number(delta, decimals_beside(abs(delta), 0.0, True, places), True)}"
        for query, delta in zip(own["query_id"], own["delta"], strict=True)
    ]
    return ", ".join(changes) or "none"


def shown_tails(deltas: pd.DataFrame) -> list[str]:
    """Return a sentence per time that was measured, with both runs' 95th percentiles."""
    rows = deltas[(deltas["n"] > 0).to_numpy() & [_by_median(name) for name in deltas["metric"]]]
    sentences = []
    for row in rows.to_dict("records"):
        bounds = row["p95_low"], row["p95_high"]
        places = decimals_within(*bounds, 1) if bounds[1] > bounds[0] else 1
        sides, changes = (
            [shown_number(row[f"p95_{name}"], places, signed=is_signed) for name in names]
            for names, is_signed in ((FIGURES[:2], False), (FIGURES[2:], True))
        )
        interval = "n too small" if np.isnan(bounds[0]) else " to ".join(changes[1:])
        sentences.append(
            f"{row['metric']} (p95): {' and '.join(sides)}, {changes[0]}"
            f" (95 % interval: {interval})."
        )
    return sentences


def shown_flips(flips: pd.DataFrame, counts: pd.DataFrame, declared: Declarations) -> pd.DataFrame:
    """One row per metric whose answers flipped, as text: how many each way, limits, and which."""
    kinds = {"good to bad": "regression", "bad to good": "improvement"}
    of_kind = flips.groupby(["kind", "metric"], observed=True)["query_id"]
    listed = {found: few_names(queries.tolist(), FLIPPED) for found, queries in of_kind}
    lists = {
        f"{word}: queries": [listed.get((found, name), "") for name in counts["metric"]]
        for word, found in kinds.items()
    }
    limits = flips.drop_duplicates("metric").set_index("metric")[["bad", "good"]]
    return pd.DataFrame(
        {
            "metric": counts["metric"],
            "good to bad": counts["n_regressions"],
            "bad to good": counts["n_improvements"],
            "corrected p": [shown_p(p) for p in counts["p_adjusted"]],
            "candidate is": counts["verdict"],
            "good, bad": [
                _limits_text(declared.describe(name), *limits.loc[name])
                for name in counts["metric"]
            ],
            **lists,
        }
    )


def _limits_text(metric: Metric, bad: float, good: float) -> str:
    """Return what counts as good and as bad: "≥ 4, < 3"."""
    better, worse = ("≤", ">") if metric.better == "lower" else ("≥", "<")
    if bad == good and metric.kind == "binary":
        return f"{good:g}, {1 - good:g}"
    return f"{better} {good:g}, {worse} {bad:g}"


def aspect_lines(aspects: pd.DataFrame, deltas: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Return of each aspect that decides its name, its verdict, and its metrics' differences."""
    rows = deltas.set_index("metric")
    lines = []
    for aspect, metrics, verdict in zip(
        aspects["aspect"], aspects["metrics"], aspects["verdict"], strict=True
    ):
        names = metrics.split(", ")
        texts = []
        for name in names:
            start = "p50_" if _by_median(name) else ""
            value, low, high = rows.loc[name, [f"{start}{part}" for part in FIGURES[2:]]]
            shown = shown_interval(value, low, high, decimals_within(low, high), signed=True)
            texts.append(f"{in_words(name)} {shown if len(names) == 1 else shown.split(' [')[0]}")
        lines.append((aspect, verdict, ", ".join(texts)))
    return lines


def shown_decision(overall: str, aspects: pd.DataFrame) -> list[str]:
    """Return the overall word, and one line per aspect that decides."""
    lines = [f"Overall: {overall}"]
    for aspect, metrics, sentence in zip(
        aspects["aspect"], aspects["metrics"], aspects["sentence"], strict=True
    ):
        name = aspect if aspect == metrics else f"{aspect} ({metrics})"
        lines.append(f"{name}: {sentence}")
    return lines


def reading_priority(
    per_query: pd.DataFrame, answered: Collection[str] = (), loss: Values | None = None
) -> Values:
    """Return a number per query of a comparison; the lowest is to be read first.

    Lost first hits, those of queries that only the baseline was asked, hits further down, queries
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
    agree = "agree" if level.chunker_version_match == "exact" else "differ"
    text = f"Matched by {MATCHED_BY[level.name]} (chunker versions {agree})"
    text += "." if k is None else f"; a hit is one of rank ≤ {k}."
    reason = NOT_FINER.get(level.name, "Queries or levels that this leaves out")
    return f"{text} {reason}: {level.left_out}." if level.left_out else text


def in_words(label: str) -> str:
    """Return the name of a metric in a table that shows medians of times and costs."""
    return f"{label} (p50)" if _by_median(label) else label


def _by_median(label: str) -> bool:
    return table_kind(label) in BY_QUANTILES

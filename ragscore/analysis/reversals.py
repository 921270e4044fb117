"""Simpson's paradox.

A direction over all queries that is opposite to that of the slices, said in words. Computes no
mean.

In: differences over all queries and by slice. Out: one row per reversal.
"""

import pandas as pd

from ragscore.frames.tables import shown_number
from ragscore.scoring.metrics import describe
from ragscore.stats import DIRECTIONS

SAME = 1e-9  # differences closer to 0 have no direction
KINDS = ("same queries", "own queries")
COLUMNS = ["metric", "means", "delta", "n_slices", "n_opposite", "reversal", "sentence"]


def reversals(
    run_ids: list[str],
    by: str,
    names: list[str],
    overall: pd.DataFrame,
    slices: pd.DataFrame,
    own_overall: pd.DataFrame,
    own: pd.DataFrame,
    *,
    least: int,
) -> pd.DataFrame:
    """Metrics whose difference over all queries points the other way than that of every slice, or of more than half.

    Parameters
    ----------
    run_ids
        Runs a and b.
    names
        The slices' names, in the order in which `slices` and `own` have them, each with all
        metrics.
    overall, slices
        Rows with metric, delta and n, on the queries that both runs have a value for.
    own_overall, own
        The same, with the mean of each run over its own queries; different only where the runs were
        asked different queries.
    least
        Slices of fewer queries have no say, nor have those without a difference.

    Returns
    -------
    One row per reversal: `metric`, `means` (same queries, own queries), `delta` over all queries,
    `n_slices` with a say, of which `n_opposite`; `reversal` ("every", "most"), `sentence`.
    """
    found = []
    for kind, whole, parts in ((KINDS[0], overall, slices), (KINDS[1], own_overall, own)):
        for metric, delta, n in zip(whole["metric"], whole["delta"], whole["n"], strict=True):
            rows = parts[(parts["metric"] == metric).to_numpy()].assign(slice=names)
            rows = rows[(rows["n"] >= least) & (rows["delta"].abs() > SAME)]
            opposite = rows[rows["delta"] * delta < 0]
            alike = kind == KINDS[1] and _asked_alike(own_overall, overall, metric)
            if (
                not n
                or abs(delta) <= SAME
                or len(rows) < 2
                or 2 * len(opposite) <= len(rows)
                or alike
            ):
                continue
            word = "every" if len(opposite) == len(rows) else "most"
            sentence = _in_words(run_ids, by, metric, float(delta), rows, opposite, kind)
            found.append([metric, kind, float(delta), len(rows), len(opposite), word, sentence])
    return pd.DataFrame(found, columns=COLUMNS).astype(
        {"metric": "str", "means": "str", "reversal": "str", "sentence": "str"}
    )


def _asked_alike(own: pd.DataFrame, overall: pd.DataFrame, metric: str) -> bool:
    """Whether both runs have values for the same queries, so that the two kinds of mean are one."""
    counts = own.set_index("metric").loc[metric, ["n_a", "n_b"]]
    return bool((counts == overall.set_index("metric").loc[metric, "n"]).all())


def _in_words(
    run_ids: list[str],
    by: str,
    metric: str,
    delta: float,
    rows: pd.DataFrame,
    opposite: pd.DataFrame,
    kind: str,
) -> str:
    better = describe(metric).better
    words = DIRECTIONS[better]
    ahead, behind = words if (delta > 0) == (better != "lower") else words[::-1]
    share = (
        f"every one of {len(rows)}"
        if len(opposite) == len(rows)
        else f"{len(opposite)} of {len(rows)}"
    )
    named = ", ".join(
        f"{name} {shown_number(change, 3, True)}"
        for name, change in zip(opposite["slice"], opposite["delta"], strict=True)
    )
    why = (
        "they were asked different mixes of it"
        if kind == KINDS[1]
        else "a few slices, or the largest, decide the mean"
    )
    over = ", each over its own queries" if kind == KINDS[1] else " over all queries"
    return (
        f"{metric}: {run_ids[1]} is {ahead} than {run_ids[0]}{over}"
        f" ({shown_number(delta, 3, True)}), but {behind} in {share} slices of {by} ({named}):"
        f" {why}."
    )

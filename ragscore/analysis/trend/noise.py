"""What repeats of one unchanged system say about noise.

How far apart their means are, where one more would land, and what the noise is made of.

In: scores of runs that differ in their `repeat` alone, or the judgments of judges who were asked
several times.

Control limits from repeats.

Which runs the band lies around, where its edges are, and where a line left it for good.

In: a history and means over runs. Out: columns of the trend's frame.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.trend.history import History, history
from ragscore.frames.codes import lookup
from ragscore.frames.data import DataError, Results, run_names
from ragscore.scoring.judgments import CRITERIA, score_judgments
from ragscore.stats import flip_rate, pooled_sd, repeat_means, t_quantile, variance_components
from ragscore.store.store import RunStore

Values = npt.NDArray[np.float64]


def noise_floor(
    source: RunStore | pd.DataFrame,
    metric: str,
    *,
    results: Results | None = None,
    repeats: list[str] | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """How far apart runs of one unchanged system are.

    The difference below which nothing needs to have changed.

    Parameters
    ----------
    source, results, repeats
        As for `rs.trend`.

    Returns
    -------
    One row per group of repeats: `system`, `runs` (their ids), `n_repeats`; `n`, the queries with a
    value in each of them, and `n_left_out`, those with a value in some; `mean`; `sd`, the standard
    deviation of the repeats' means (`df` = n_repeats − 1); `low`, `high`, where one more run would
    land with probability `confidence`, mean ± t·sd·√(1 + 1/n_repeats); `flip_rate`, the share of
    queries on which two repeats differ. Few repeats know their own spread badly: with two, t is
    12.7, with three 4.3, with five 2.8.

    Raises
    ------
    DataError
        No two runs are repeats of one system; no query has a value in all of them.
    """
    found = history(source, metric, results=results, repeats=repeats)
    rows = [_floor(found, run_ids, confidence) for run_ids in groups_of(found)]
    if not rows:
        raise DataError(
            "no two runs are repeats of one system",
            field="repeat",
            allowed=(
                "runs of one system and config with another `repeat` each, or repeats=[run ids]"
            ),
        )
    return pd.DataFrame(rows)


def noise_components(
    source: RunStore | pd.DataFrame,
    metric: str,
    *,
    results: Results | None = None,
    repeats: list[str] | None = None,
) -> pd.DataFrame:
    """Where the variance of repeated measurements comes from.

    Queries, repeats of the system, repeats of the judge.

    Parameters
    ----------
    source, results, repeats
        As for `rs.trend`. Judge repeats are the `repeat` of stored judgments (or of
        `results.judgments`) of a judged metric.

    Returns
    -------
    One row per group of repeats and source (see `stats.variance_components` for the model):
    `system`, `source`, `n` queries, `n_repeats`, `n_judge_repeats`, `n_left_out` (queries without a
    value in every cell); `df`, the unbiased `variance` (below 0: too small to be seen), its `share`
    of the sum (negatives as 0), and `sd_of_mean`, the standard deviation it gives to the mean of
    one run. More queries make all smaller but "system repeats"; only more repeats tell that one.

    Raises
    ------
    DataError
        Neither the system nor the judge was repeated; a group has fewer than two complete queries.
    """
    found = history(source, metric, results=results, repeats=repeats)
    judged = _judge_repeats(found)
    groups = groups_of(found) or (
        [[run_id] for run_id in found.runs.index] if judged is not None else []
    )
    if not groups:
        raise DataError(
            "neither the system nor its judge was repeated",
            field="repeat",
            allowed="runs with a `repeat`, repeats=[run ids], or judgments with a `repeat`",
        )
    return pd.concat([_components(found, run_ids, judged) for run_ids in groups], ignore_index=True)


def groups_of(found: History) -> list[list[str]]:
    """The run ids of each group of repeats."""
    group = found.runs["group"]
    return [group.index[group == number].tolist() for number in sorted(set(group) - {-1})]


def band_width(
    found: History, run_ids: list[list[str]], n_centre: int, confidence: float = 0.95
) -> float:
    """Half the width of the band around the mean of `n_centre` runs in which one more lands.

    T·sd·√(1 + 1/n_centre), sd pooled over groups of repeats.
    """
    tables = [values_of(found, group)[0].to_numpy() for group in run_ids]
    means = [repeat_means(table) for table in tables if len(table)]
    sd, df = pooled_sd([one.std(ddof=1) for one in means], [len(one) - 1 for one in means])
    return (
        float(
            t_quantile(np.array([df], dtype=np.float64), confidence)[0]
            * sd
            * np.sqrt(1 + 1 / n_centre)
        )
        if df
        else float("nan")
    )


def values_of(found: History, run_ids: list[str]) -> tuple[pd.DataFrame, int]:
    """Queries × repeats of the queries with a value in all of them, and how many have one in some only."""
    rows = found.of(run_ids)
    if rows.duplicated(["run_id", "query_id"]).any():
        raise DataError(
            "a query stands twice in one run", field="scores", allowed="one row per run and query"
        )
    table = (
        rows[rows["state"] != "extra"]
        .pivot(index="query_id", columns="run_id", values=found.metric)
        .reindex(columns=run_ids)
        .astype("float64")
    )
    known = table[table.notna().any(axis=1)]
    complete = known.dropna()
    return complete, len(known) - len(complete)


def _floor(found: History, run_ids: list[str], confidence: float) -> dict[str, object]:
    table, n_left_out = values_of(found, run_ids)
    if not len(table):
        raise DataError(
            f"no query has a value of {found.metric} in all of {', '.join(run_ids)}",
            field="metric",
            allowed="a metric that applies",
        )
    means = repeat_means(table.to_numpy())
    sd, k = float(means.std(ddof=1)), len(means)
    half = band_width(found, [run_ids], k, confidence)
    return {
        "system": found.runs["system"].get(run_ids[0]), "runs": ", ".join(run_ids), "n_repeats": k,
        "n": len(table), "n_left_out": n_left_out, "mean": means.mean(),
        "sd": sd, "df": k - 1, "low": means.mean() - half, "high": means.mean() + half,
        "flip_rate": flip_rate(table.to_numpy()),
    }  # fmt: skip


def _judge_repeats(found: History) -> pd.DataFrame | None:
    """Values of a judged metric by judge repeat.

    Run_id, query_id, repeat, value; None where no judge was repeated.
    """
    if found.metric not in CRITERIA or found.load is None:
        return None
    results = found.load(found.runs.index.tolist())
    judgments = results.judgments
    if judgments is None or "repeat" not in judgments or judgments["repeat"].nunique() < 2:
        return None
    cells = results.responses[["run_id", "query_id"]].astype({"run_id": "str"})
    keys = cells["run_id"] + "\n" + cells["query_id"]
    parts = []
    for repeat in sorted(judgments["repeat"].dropna().unique()):
        own = judgments[(judgments["repeat"] == repeat).fillna(False).to_numpy(dtype=bool)]
        place = lookup(own["run_id"].astype("str") + "\n" + own["query_id"], keys)
        values = score_judgments(replace(results, judgments=own), place, len(cells))[found.metric]
        parts.append(cells.assign(judge_repeat=int(repeat), value=values))
    return pd.concat(parts, ignore_index=True)


def _components(found: History, run_ids: list[str], judged: pd.DataFrame | None) -> pd.DataFrame:
    cube, n_left_out = _cube(judged, run_ids) if judged is not None else _of_scores(found, run_ids)
    if len(cube) < 2:
        raise DataError(
            f"{len(cube)} queries have a value in every repeat of {', '.join(run_ids)}",
            field="metric",
            allowed="at least two",
        )
    table = pd.DataFrame(variance_components(cube))
    seen = table["variance"].clip(lower=0)
    return pd.DataFrame({
        "system": found.runs["system"].get(run_ids[0]), "source": table["source"],
        "n": cube.shape[0], "n_repeats": cube.shape[1], "n_judge_repeats": cube.shape[2],
        "n_left_out": n_left_out, "df": table["df"], "variance": table["variance"],
        "share": seen / seen.sum(),
        "sd_of_mean": np.sqrt(table["of_mean"].clip(lower=0)),
    })  # fmt: skip


def _of_scores(found: History, run_ids: list[str]) -> tuple[Values, int]:
    table, n_left_out = values_of(found, run_ids)
    return table.to_numpy()[:, :, None], n_left_out


def _cube(judged: pd.DataFrame, run_ids: list[str]) -> tuple[Values, int]:
    """Queries × runs × judge repeats of the queries with a value in every cell, and how many have one in some only."""
    rows = judged[judged["run_id"].isin(run_ids)]
    passes = sorted(rows["judge_repeat"].unique())
    wide = rows.pivot(index="query_id", columns=["run_id", "judge_repeat"], values="value")
    wide = wide.reindex(columns=pd.MultiIndex.from_product([run_ids, passes]))
    known = wide[wide.notna().any(axis=1)]
    complete = known.dropna()
    return complete.to_numpy("float64").reshape(len(complete), len(run_ids), len(passes)), len(
        known
    ) - len(complete)


SLACK = 1e-12  # the last bit of a mean is not outside


@dataclass(frozen=True)
class Reference:
    """What the band lies around, and the repeats that its width is from.

    Attributes
    ----------
    run_ids
        The baseline, with its repeats; without a baseline the last group of repeats; empty if there
        is neither.
    is_baseline
        Whether a baseline was named.
    groups
        The repeats that say how wide the band is: those of the reference's system, else all.
    """

    run_ids: tuple[str, ...]
    is_baseline: bool
    groups: list[list[str]]
    said: str


def reference_of(found: History, baseline: str | None) -> Reference:
    """The reference of a history; see `rs.trend`."""
    groups, systems = groups_of(found), found.runs["system"].astype(object)
    if baseline is not None:
        (name,) = run_names(found.runs.reset_index(), [baseline])
        run_ids = next((group for group in groups if name in group), [name])
    else:
        run_ids = groups[-1] if groups else []
    own = [
        group for group in groups if run_ids and str(systems[group[0]]) == str(systems[run_ids[0]])
    ] or groups
    said = ", ".join(
        f"{len(group)} repeats"
        + (f" of {systems[group[0]]}" if pd.notna(systems[group[0]]) else "")
        for group in own
    )
    return Reference(tuple(run_ids), baseline is not None, own, said)


def band_columns(
    rows: pd.DataFrame,
    reference: Reference,
    centre: npt.NDArray[np.float64],
    half: float,
    is_unit: bool,
) -> pd.DataFrame:
    """Columns band_low, band_high, band_from, in_band and first_out_of_control of one slice.

    The rows are in order; NaN and NA where there is no band.
    """
    low, high = centre - half, centre + half
    mean = rows["mean"].to_numpy("float64")
    side = np.where(mean > high + SLACK, 1, np.where(mean < low - SLACK, -1, 0))
    is_known = ~np.isnan(low) & ~np.isnan(mean)
    last = rows.loc[rows["run_id"].isin(reference.run_ids), "position"].max()
    in_band = pd.Series(side == 0, index=rows.index, dtype="boolean").mask(~is_known)
    return pd.DataFrame(
        {
            "band_low": np.maximum(low, 0) if is_unit else low,
            "band_high": np.minimum(high, 1) if is_unit else high,
            "band_from": pd.Series(reference.said, index=rows.index,
            dtype="str").mask(np.isnan(low)),
            "in_band": in_band,
            "first_out_of_control": first_outside(
                side, is_known & (rows["position"] > last).to_numpy()
            ),
        },
        index=rows.index,
    )  # fmt: skip


def first_outside(
    side: npt.NDArray[np.int64], counts: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """The first place from which all that count are outside on one side (1 above, -1 below).

    At most one is True.
    """
    found = np.zeros(len(side), dtype=bool)
    places = np.flatnonzero(counts)
    if len(places) and side[places[-1]] != 0:
        other = np.flatnonzero(side[places] != side[places[-1]])
        found[places[other[-1] + 1 if len(other) else 0]] = True
    return found

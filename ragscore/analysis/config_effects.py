"""Effects of config keys: which keys vary between runs, and how metrics differ with each.

In: scores, and the runs with their configs. Out: `ConfigEffects`: runs × keys and metrics, and
pairs of runs that differ in one key only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align, expected_in
from ragscore.analysis.comparison.deltas import (
    decisive_p,
    paired_deltas,
    read_by_medians,
    row_verdict,
)
from ragscore.analysis.comparison.text import in_words
from ragscore.analysis.result_forms import TableResult
from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.errors import check_known, names_of
from ragscore.frames.render import decimals_within, shown_n, shown_number
from ragscore.frames.tables import SHOWN_ROWS, Table
from ragscore.frames.typing import Codes
from ragscore.scoring.intervals import Groups, clusters_text, query_clusters, shared_only
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.stats import benjamini_hochberg, moments

Config = dict[str, Any]
ABSENT = "—"
# columns of the runs frame that say how a run was made, and by which labels it was scored
OF_RUNS = ("k", "chunker_version", "golden_hash")
PAIRS = (
    "key", "value_baseline", "value_candidate", "run_baseline", "run_candidate", "metric", "n",
    "baseline", "candidate", "delta", "low", "high", "p", "q", "verdict",
)  # fmt: skip
BY_VALUE = ("key", "value", "metric", "n_runs", "mean", "min", "max")


@dataclass(frozen=True, repr=False)  # else the generated one replaces TableResult's
class ConfigEffects(TableResult):
    """Config keys that vary, and the metrics beside them.

    Attributes
    ----------
    keys
        The keys that have more than one value, nested ones dotted.
    table
        One row per run: each key's value (numbers where all are numbers; NA: null, or the run
        doesn't have the key), and each metric's mean.
    counts
        One row per run and metric: `n` values in the mean, of `n_expected` (see `ev.explain`).
    by_value
        One row per key, value and metric: `n_runs`, `mean` of their means, `min`, `max`. Other keys
        may differ between these runs, too.
    pairs
        One row per pair of runs that differ in one key only, and metric: `key`, `value_baseline`,
        `value_candidate`, `run_baseline`, `run_candidate`; means `baseline`, `candidate` over the
        `n` queries where both have a value, `delta` = candidate − baseline with its paired 95 %
        interval `low`, `high`, `p`, `q` (Benjamini and Hochberg over all of them), `verdict` by q.
        Times and costs have medians of these, and the p of a sign test. The baseline is the run
        that stands first.
    tied_keys
        Key -> other keys that change whenever it does, so that their effects can't be separated.
    sentences
        One per key: its effect in words.
    unknown
        Runs without a config: in no pair.
    clusters
        How many conversations intervals and tests allow for, in words; empty without any.
    """

    keys: list[str]
    metrics: list[str]
    table: pd.DataFrame
    counts: pd.DataFrame
    by_value: pd.DataFrame
    pairs: pd.DataFrame
    tied_keys: dict[str, list[str]]
    sentences: dict[str, str]
    unknown: list[str]
    clusters: str = ""

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table."""
        with_pairs = set(self.pairs["key"])
        together: dict[frozenset[str], list[str]] = {}  # keys that always change together
        for key in self.sentences:
            tied = () if key in with_pairs else self.tied_keys.get(key, ())
            together.setdefault(frozenset((key, *tied)), []).append(key)
        notes = [
            self.sentences[keys[0]]
            if len(keys) == 1
            else f"{', '.join(_key_text(key, self.by_value) for key in keys)}: no two runs differ"
            " in one of them alone; they change together."
            for keys in together.values()
        ] or ["No config key varies between these runs."]
        if self.unknown:
            notes.append(f"Without a config, and in no pair: {', '.join(self.unknown)}.")
        return [*notes, *filter(None, [self.clusters])]

    def _shown(self) -> pd.DataFrame:
        """Return the table with values and means as text."""
        texts = {key: [_value_text(value) for value in self.table[key]] for key in self.keys}
        for metric, rows in self.counts.groupby("metric", sort=False):
            counts = rows.set_index("run_id").loc[self.table["run_id"], ["n", "n_expected"]]
            texts[str(metric)] = [
                f"{shown_number(mean)}, n = {shown_n(*n)}"
                for mean, n in zip(self.table[metric], counts.to_numpy(), strict=True)
            ]
        return self.table[["run_id"]].assign(**texts)

    def _tables(self) -> list[Table]:
        return [Table(self._shown(), "What changed with what", limit=SHOWN_ROWS, way=".table")]


def config_effects(
    scores: pd.DataFrame,
    runs: pd.DataFrame,
    metrics: list[str] | str | None = None,
    *,
    golden: Golden | None = None,
    ignore: Sequence[str] = (),
    cluster: str | None = "group",
    seed: int = 0,
    declared: Declarations = NOTHING_DECLARED,
) -> ConfigEffects:
    """Find the config keys that vary between runs, and the metrics that change with each.

    A difference can be put down to a key only where two runs differ in nothing else; those pairs
    are compared query by query. Everything else is shown as means beside values, and keys that
    always change together are named.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    runs
        Such as `results.runs` or `store.runs()`: run_id and `config`. `k` and `chunker_version`
        count as keys where equal configs leave them different. So does `golden_hash`: a difference
        between stored scores by different labels is no effect of a key. If the scores were computed
        anew with one golden set, ignore it.
    metrics
        Columns of the scores; by default the headline metrics that were measured.
    golden, cluster
        The column of `golden.queries` whose equal values make queries depend on each other, as for
        `ev.leaderboard`.
    ignore
        Dotted keys that don't count, such as paths, or seeds of runs that are repeats.
    declared
        What is declared of columns of your own.

    Raises
    ------
    DataError
        A run of the scores that `runs` doesn't have; runs without a config column; a key to ignore
        that no run has.
    """
    check_type(runs, pd.DataFrame, "runs", "a frame of runs, such as results.runs")
    aligned = align(scores, metrics, declared=declared)
    run_ids, configs = aligned.run_ids, _configs(runs, aligned.run_ids, ignore)
    is_known = np.array([config is not None for config in configs])
    texts = pd.DataFrame(
        [{key: dumped(value) for key, value in (config or {}).items()} for config in configs],
        index=run_ids,
        dtype="object",
    )
    known = texts[is_known]
    keys = [str(key) for key in known if known[key].nunique(dropna=False) > 1]
    codes = np.zeros((len(configs), len(keys)), dtype=np.int64)
    for place, key in enumerate(keys):
        codes[:, place] = pd.factorize(texts[key], use_na_sentinel=False)[0]
    clusters = query_clusters(golden, aligned.query_ids, cluster)
    pairs = _pairs(aligned, configs, keys, codes, clusters, seed)
    expected = expected_in(aligned, scores, golden)
    counts = pd.DataFrame(
        {
            "run_id": pd.Series(np.repeat(run_ids, len(aligned.metrics)), dtype="str"),
            "metric": pd.Series(np.tile(aligned.metrics, len(run_ids)), dtype="str"),
            "n": (~np.isnan(aligned.values)).sum(axis=0).ravel(),
            "n_expected": expected.sum(axis=0).ravel(),
        }
    )
    means = pd.DataFrame(
        [moments(aligned.values[:, place])[0] for place in range(len(run_ids))],
        columns=aligned.metrics,
    )
    values = {key: _column([(config or {}).get(key) for config in configs]) for key in keys}
    shown = pd.DataFrame(
        {key: [_shown(config, key) for config in configs] for key in keys},
        index=range(len(configs)),
        dtype="str",
    )
    by_value = _by_value(shown[is_known], means[is_known], keys)
    tied_keys = _tied_keys(codes[is_known], keys, pairs)
    return ConfigEffects(
        keys,
        aligned.metrics,
        pd.concat([pd.DataFrame({"run_id": run_ids} | values), means], axis=1),
        counts,
        by_value,
        pairs,
        tied_keys,
        {key: _sentence(key, by_value, pairs, tied_keys.get(key, [])) for key in keys},
        [run_id for run_id, known in zip(run_ids, is_known, strict=True) if not known],
        clusters_text(golden, aligned.query_ids, cluster, talks=True),
    )


def _configs(runs: pd.DataFrame, run_ids: list[str], ignore: Sequence[str]) -> list[Config | None]:
    """Return the flat config of every run, None where there is none.

    Columns of the runs frame (`OF_RUNS`) join the configs where these don't determine them.
    """
    if "config" not in runs:
        raise DataError("no config", field="runs", allowed="a frame of runs with the column config")
    by_run = runs.set_index(runs["run_id"].astype("str"))
    if missing := [run_id for run_id in run_ids if run_id not in by_run.index]:
        raise DataError(f"no {', '.join(missing)}", field="runs", allowed="every run of the scores")
    by_run = by_run.loc[run_ids]
    contents = [parsed(text) for text in by_run["config"].tolist()]
    configs = [flat(content) if content else None for content in contents]
    known = {key for config in configs if config for key in config}
    extra = [name for name in OF_RUNS if name in by_run and name not in known]
    ignore = names_of(ignore, "ignore", "config keys")
    check_known(ignore, [*sorted(known), *extra], "ignore", "key")
    for config in configs:
        for key in ignore:
            (config or {}).pop(key, None)
    for name in extra:
        values = by_run[name].tolist()
        if name not in ignore and (name == "golden_hash" or _is_undetermined(configs, values)):
            for config, value in zip(configs, values, strict=True):
                if config is not None and not pd.isna(value):
                    config[name] = value
    return configs


def _is_undetermined(configs: list[Config | None], values: list[Any]) -> bool:
    """Return whether runs of equal configs have different values."""
    by_config: dict[str, set[str]] = {}
    for config, value in zip(configs, values, strict=True):
        if config is not None:
            by_config.setdefault(dumped(config), set()).add(str(value))
    return any(len(values) > 1 for values in by_config.values())


def _pairs(
    aligned: AlignedScores,
    configs: list[Config | None],
    keys: list[str],
    codes: Codes,
    groups: Groups | None,
    seed: int,
) -> pd.DataFrame:
    """Compare the runs that differ in one key, on the queries where both have a value."""
    known = [place for place, config in enumerate(configs) if config is not None]
    parts = []
    for first, second in combinations(known, 2):
        differing = np.flatnonzero(codes[first] != codes[second])
        if len(differing) != 1:
            continue
        key = keys[differing[0]]
        side_a, side_b = (aligned.frame(aligned.run_ids[place]) for place in (first, second))
        deltas = paired_deltas(
            side_a,
            side_b,
            side_a * np.nan,
            declared=aligned.declared,
            groups=shared_only(groups),
            seed=seed,
        )
        sides = {
            "value_baseline": _shown(configs[first], key),
            "value_candidate": _shown(configs[second], key),
            "run_baseline": aligned.run_ids[first],
            "run_candidate": aligned.run_ids[second],
        }
        parts.append(read_by_medians(deltas, aligned.declared).assign(key=key, **sides))
    if not parts:
        return pd.DataFrame(columns=list(PAIRS))
    table = pd.concat(parts, ignore_index=True)
    table["q"] = benjamini_hochberg(table["p"])
    corrected = table.assign(p_adjusted=decisive_p(table["q"], table["p_exact"]))
    table["verdict"] = [
        row_verdict(row, aligned.declared.describe(row["metric"])).word
        for row in corrected.to_dict("records")
    ]
    order = {key: place for place, key in enumerate(keys)}
    return table.sort_values(
        "key", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )[list(PAIRS)]


def _column(values: list[Any]) -> pd.Series:
    """Return the values of one key as a column: numbers if all are, else texts."""
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, float}:
        return pd.Series(values, dtype="Int64" if kinds == {int} else "float64")
    texts = [
        value if value is None or isinstance(value, str) else dumped(value) for value in values
    ]
    return pd.Series(texts, dtype="str")


def _shown(config: Config | None, key: str) -> str:
    if config is None or key not in config:
        return ABSENT
    return config[key] if isinstance(config[key], str) else dumped(config[key])


def _value_text(value: Any) -> str:
    if pd.isna(value):
        return ABSENT
    return f"{value:g}" if isinstance(value, float) else str(value)


def _by_value(values: pd.DataFrame, means: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return means of the runs that share a value of a key."""
    parts = []
    for key in keys:
        long = means.assign(value=values[key].to_numpy()).melt(
            id_vars="value", var_name="metric", value_name="mean"
        )
        grouped = long.groupby(["value", "metric"], sort=False)["mean"]
        part = grouped.agg(n_runs="size", mean=_mean, min="min", max="max").reset_index()
        parts.append(part.assign(key=key)[list(BY_VALUE)])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(BY_VALUE))


def _mean(values: pd.Series) -> float:
    """Return the mean of the runs that have one; an exact sum doesn't depend on their order."""
    known = values.dropna()
    return math.fsum(known) / len(known) if len(known) else math.nan


def _tied_keys(codes: Codes, keys: list[str], pairs: pd.DataFrame) -> dict[str, list[str]]:
    """Return key -> keys that change whenever it does, for keys without a pair of their own."""
    first, second = np.triu_indices(len(codes), 1)
    differs = codes[first] != codes[second]
    with_pair = set(pairs["key"])
    return {
        key: [
            keys[other]
            for other in np.flatnonzero(differs[differs[:, place]].all(axis=0))
            if other != place
        ]
        for place, key in enumerate(keys)
        if key not in with_pair
    }


def _key_text(key: str, by_value: pd.DataFrame) -> str:
    """Return a key with its values in brackets."""
    values = dict.fromkeys(by_value.loc[by_value["key"] == key, "value"])
    return f"{key} ({', '.join(values)})"


def _sentence(key: str, by_value: pd.DataFrame, pairs: pd.DataFrame, tied_keys: list[str]) -> str:
    """Describe the effect of a key by the pairs that differ in it alone."""
    own = pairs[pairs["key"] == key]
    if not len(own):
        why = (
            f"it changes together with {', '.join(tied_keys)}"
            if tied_keys
            else "other keys always change as well"
        )
        return f"{_key_text(key, by_value)}: no two runs differ in it alone; {why}."
    parts = []
    for (first, second), rows in own.groupby(["run_baseline", "run_candidate"], sort=False):
        has_verdict = rows["verdict"].isin(["better", "worse", "higher", "lower"])
        changed = ", ".join(
            f"{in_words(row['metric'])}"
            f" {shown_number(row['delta'], decimals_within(row['low'], row['high'], 3), True)}"
            f" ({row['verdict']})"
            for row in rows[has_verdict & rows["q"].notna()].to_dict("records")
        )
        parts.append(
            f"{rows['value_baseline'].iloc[0]} → {rows['value_candidate'].iloc[0]}"
            f" ({first}, {second}): {changed or 'no metric can be said to have changed'}"
        )
    return f"{key}: {'; '.join(parts)}."

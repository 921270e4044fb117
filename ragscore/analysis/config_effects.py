"""What changed with what: config keys that vary between runs, and the metrics beside them.

In: scores, and the runs with their configs. Out: an `Impact`: runs × keys and metrics, pairs of
runs that differ in one key only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import Aligned, align, expected_in
from ragscore.analysis.comparison.deltas import paired_deltas, row_verdict
from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.render import dump, markdown_table, reload, shown_n, shown_number
from ragscore.scoring.intervals import Groups, query_clusters, shared_only
from ragscore.stats import benjamini_hochberg, moments

Codes = npt.NDArray[np.int64]
ABSENT = "—"
# columns of the runs frame that say how a run was made, and by which labels it was scored
OF_RUNS = ("k", "chunker_version", "golden_hash")
ALPHA = 0.05


@dataclass(frozen=True)
class Impact:
    """Config keys that vary, and what the metrics did.

    Attributes
    ----------
    keys
        The keys that have more than one value, nested ones dotted.
    table
        One row per run: each key's value (numbers where all are numbers; NA: null, or the run
        doesn't have the key), and each metric's mean.
    counts
        One row per run and metric: `n` values in the mean, of `n_expected` (see `rs.explain`).
    by_value
        One row per key, value and metric: `n_runs`, `mean` of their means, `min`, `max`. Other keys
        may differ between these runs, too.
    pairs
        One row per pair of runs that differ in one key only, and metric: `key`, `value_a`,
        `value_b`, `run_a`, `run_b`; means `a`, `b` over the `n` queries where both have a value,
        `delta` = b − a with its paired 95 % interval `low`, `high`, `p`, `q` (Benjamini and
        Hochberg over all of them), `verdict` by q.
    changes
        One row per key and metric: `n_values`, `spread` of the means by value (`by_value`),
        `n_pairs` that differ in this key only, of which `n_changed` have q ≤ .05 and `n_better`,
        `n_worse` of these in run b.
    tied_keys
        Key -> other keys that change whenever it does, so that nobody can say which of them did it.
    sentences
        One per key: what changed with it, in words.
    unknown
        Runs without a config: in no pair.
    """

    keys: list[str]
    metrics: list[str]
    table: pd.DataFrame
    counts: pd.DataFrame
    by_value: pd.DataFrame
    pairs: pd.DataFrame
    changes: pd.DataFrame
    tied_keys: dict[str, list[str]]
    sentences: dict[str, str]
    unknown: list[str]

    def notes(self) -> list[str]:
        """What a reader must know beside the table."""
        unknown = (
            [f"Without a config, and in no pair: {', '.join(self.unknown)}."]
            if self.unknown
            else []
        )
        return [
            *(list(self.sentences.values()) or ["No config key varies between these runs."]),
            *unknown,
        ]

    def shown(self) -> pd.DataFrame:
        """The table with values and means as text."""
        n = {
            name: rows.set_index("run_id").loc[self.table["run_id"], ["n", "n_expected"]].to_numpy()
            for name, rows in self.counts.groupby("metric")
        }
        texts = {
            name: [
                f"{shown_number(mean)}, n = {shown_n(*of)}"
                for mean, of in zip(self.table[name], n[name], strict=True)
            ]
            for name in self.metrics
        }
        keys = {
            key: [
                (
                    ABSENT
                    if pd.isna(value)
                    else f"{value:g}"
                    if isinstance(value, float)
                    else str(value)
                )
                for value in self.table[key]
            ]
            for key in self.keys
        }
        return self.table[["run_id"]].assign(**keys, **texts)

    def to_markdown(self) -> str:
        """The table and what changed with each key, as Markdown."""
        return (
            "\n\n".join(
                [
                    "# What changed with what",
                    markdown_table(self.shown()),
                    "\n".join(f"- {note}" for note in self.notes()),
                ]
            )
            + "\n"
        )

    def to_json(self) -> str:
        """The report as JSON, NaN as null; `from_json` reloads it."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> "Impact":
        """The report that `to_json` wrote."""
        return reload(cls, text)

    def _repr_html_(self) -> str:
        return (
            self.shown().to_html(index=False, border=0)
            + "<ul>"
            + "".join(f"<li>{escape(note)}</li>" for note in self.notes())
            + "</ul>"
        )

    def __repr__(self) -> str:
        return "\n\n".join([self.shown().to_string(index=False), "\n".join(self.notes())])


def impact(
    scores: pd.DataFrame,
    runs: pd.DataFrame,
    metrics: list[str] | str | None = None,
    golden: Golden | None = None,
    *,
    ignore: Sequence[str] = (),
    cluster: str | None = "group",
    seed: int = 0,
) -> Impact:
    """Which config keys vary between runs, and which metric changed with which of them.

    A difference can be put down to a key only where two runs differ in nothing else; those pairs
    are compared query by query. Everything else is shown as means beside values, and keys that
    always change together are named.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    runs
        Such as `results.runs` or `store.runs()`: run_id and `config`. `k` and `chunker_version`
        count as keys where equal configs leave them different, and so does `golden_hash`: stored
        scores by other labels are no effect of a key. If the scores were computed anew with one
        golden set, ignore it.
    metrics
        Columns of the scores; by default those a table for reading starts with, as far as they were
        measured.
    golden, cluster
        The column of `golden.queries` whose equal values make queries depend on each other, as for
        `rs.leaderboard`.
    ignore
        Dotted keys that don't count, such as paths, or seeds of runs that are repeats.

    Raises
    ------
    DataError
        A run of the scores that `runs` doesn't have; runs without a config column; a key to ignore
        that no run has.
    """
    check_type(runs, pd.DataFrame, "runs", "a frame of runs, such as results.runs")
    found = align(scores, metrics)
    configs = _configs(runs, found.run_ids, ignore)
    unknown = [
        run_id for run_id, config in zip(found.run_ids, configs, strict=True) if config is None
    ]
    texts = pd.DataFrame(
        [{key: dumped(value) for key, value in (config or {}).items()} for config in configs],
        index=found.run_ids,
        dtype="object",
    )
    known = texts.drop(index=unknown)
    keys = [str(key) for key in texts if known[key].nunique(dropna=False) > 1]
    codes = (
        np.column_stack([pd.factorize(texts[key], use_na_sentinel=False)[0] for key in keys])
        if keys
        else np.zeros((len(configs), 0), dtype=np.int64)
    )
    pairs = _pairs(
        found, configs, keys, codes, query_clusters(golden, found.query_ids, cluster), seed
    )
    counts = _counts(found, expected_in(found, scores, golden))
    means = pd.DataFrame(
        [moments(found.values[:, place])[0] for place in range(len(found.run_ids))],
        columns=found.metrics,
    )
    table = pd.DataFrame(
        {"run_id": found.run_ids}
        | {key: _column([(config or {}).get(key) for config in configs]) for key in keys}
    )
    shown = pd.DataFrame(
        {key: [_shown(config, key) for config in configs] for key in keys},
        index=range(len(configs)),
        dtype="str",
    )
    is_known = np.array([config is not None for config in configs])
    by_value = _by_value(shown[is_known], means[is_known], keys)
    together = _tied_keys(codes[is_known], keys, pairs)
    changes = _changes(by_value, pairs, keys, found.metrics)
    sentences = {key: _in_words(key, by_value, pairs, together.get(key, [])) for key in keys}
    return Impact(
        keys,
        found.metrics,
        pd.concat([table, means], axis=1),
        counts,
        by_value,
        pairs,
        changes,
        together,
        sentences,
        unknown,
    )


def _counts(found: Aligned, expected: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """How many values each run's mean of each metric has, and how many were expected."""
    n = np.logical_not(np.isnan(found.values)).sum(axis=0)
    columns = {
        "run_id": np.repeat(found.run_ids, len(found.metrics)),
        "metric": np.tile(found.metrics, len(found.run_ids)),
    }
    return pd.DataFrame(
        columns | {"n": n.ravel(), "n_expected": expected.sum(axis=0).ravel()}
    ).astype({"run_id": "str", "metric": "str"})


def _configs(
    runs: pd.DataFrame, run_ids: list[str], ignore: Sequence[str]
) -> list[dict[str, Any] | None]:
    """Flat config of every run, None where there is none.

    With `k` and `chunker_version` where configs leave them open.
    """
    if "config" not in runs:
        raise DataError("no config", field="runs", allowed="a frame of runs with the column config")
    about = runs.set_index(runs["run_id"].astype("str"))
    if missing := [run_id for run_id in run_ids if run_id not in about.index]:
        raise DataError(f"no {', '.join(missing)}", field="runs", allowed="every run of the scores")
    contents = [parsed(text) for text in about.loc[run_ids, "config"].tolist()]
    configs = [flat(content) if content else None for content in contents]
    known = {key for config in configs if config for key in config}
    offered = [name for name in OF_RUNS if name in about and name not in known]
    if unknown := [key for key in ignore if key not in {*known, *offered}]:
        raise DataError(
            f"no key {', '.join(unknown)}",
            field="ignore",
            allowed=f"one of {', '.join([*sorted(known), *offered])}",
        )
    configs = [
        (
            None
            if config is None
            else {key: value for key, value in config.items() if key not in ignore}
        )
        for config in configs
    ]
    for name in offered:
        values = about.loc[run_ids, name].tolist()
        if name not in ignore and (name == "golden_hash" or _is_open(configs, values)):
            added = [{} if pd.isna(value) else {name: value} for value in values]
            configs = [
                None if config is None else config | more
                for config, more in zip(configs, added, strict=True)
            ]
    return configs


def _is_open(configs: list[dict[str, Any] | None], values: list[Any]) -> bool:
    """Whether runs of equal configs have different values."""
    by_config: dict[str, set[str]] = {}
    for config, value in zip(configs, values, strict=True):
        if config is not None:
            by_config.setdefault(dumped(config), set()).add(str(value))
    return any(len(found) > 1 for found in by_config.values())


def _pairs(
    found: Aligned,
    configs: list[dict[str, Any] | None],
    keys: list[str],
    codes: Codes,
    groups: Groups | None,
    seed: int,
) -> pd.DataFrame:
    """Pairs of runs that differ in one key, compared on the queries where both have a value."""
    parts = []
    for first, second in combinations(
        [place for place, config in enumerate(configs) if config is not None], 2
    ):
        differing = np.flatnonzero(codes[first] != codes[second])
        if len(differing) != 1:
            continue
        key, (run_a, run_b) = keys[differing[0]], (found.run_ids[first], found.run_ids[second])
        side_a, side_b = found.frame(run_a), found.frame(run_b)
        labels = {
            "key": key,
            "value_a": _shown(configs[first], key),
            "value_b": _shown(configs[second], key),
            "run_a": run_a,
            "run_b": run_b,
        }
        parts.append(
            paired_deltas(
                side_a, side_b, side_a * np.nan, groups=shared_only(groups), seed=seed
            ).assign(**labels)
        )
    columns = [
        "key",
        "value_a",
        "value_b",
        "run_a",
        "run_b",
        "metric",
        "n",
        "a",
        "b",
        "delta",
        "low",
        "high",
        "p",
        "q",
        "verdict",
    ]
    if not parts:
        return pd.DataFrame(columns=columns)
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(q=benjamini_hochberg(table["p"]))
    table = table.assign(
        verdict=[row_verdict(row | {"p": row["q"]}).word for row in table.to_dict("records")]
    )
    order = {key: place for place, key in enumerate(keys)}
    return table.sort_values(
        "key", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )[columns]


def _column(values: list[Any]) -> pd.Series:
    """Values of one key: numbers if all are, else texts."""
    there = [value for value in values if value is not None]
    if there and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in there
    ):
        return pd.Series(
            values, dtype="Int64" if all(isinstance(value, int) for value in there) else "float64"
        )
    return pd.Series(
        [
            None if value is None else value if isinstance(value, str) else dumped(value)
            for value in values
        ],
        dtype="str",
    )


def _shown(config: dict[str, Any] | None, key: str) -> str:
    if config is None or key not in config:
        return ABSENT
    return config[key] if isinstance(config[key], str) else dumped(config[key])


def _by_value(values: pd.DataFrame, means: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Means of the runs that share a value."""
    parts = []
    for key in keys:
        long = means.assign(value=values[key].to_numpy()).melt(
            id_vars="value", var_name="metric", value_name="mean"
        )
        grouped = long.groupby(["value", "metric"], sort=False)["mean"]
        parts.append(
            grouped.agg(n_runs="size", mean="mean", min="min", max="max")
            .reset_index()
            .assign(key=key)
        )
    columns = ["key", "value", "metric", "n_runs", "mean", "min", "max"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _tied_keys(codes: Codes, keys: list[str], pairs: pd.DataFrame) -> dict[str, list[str]]:
    """For keys without a pair of their own: the keys that change whenever they do."""
    first, second = np.triu_indices(len(codes), 1)
    differs = codes[first] != codes[second]
    alone = set(pairs["key"])
    found = {}
    for place, key in enumerate(keys):
        always = differs[differs[:, place]].all(axis=0)
        if key not in alone:
            found[key] = [keys[other] for other in np.flatnonzero(always) if other != place]
    return found


def _changes(
    by_value: pd.DataFrame, pairs: pd.DataFrame, keys: list[str], metrics: list[str]
) -> pd.DataFrame:
    rows = []
    for key in keys:
        for metric in metrics:
            values = by_value[(by_value["key"] == key) & (by_value["metric"] == metric)]
            here = pairs[(pairs["key"] == key) & (pairs["metric"] == metric)]
            words = here.loc[here["q"] <= ALPHA, "verdict"]
            spread = float(values["mean"].max() - values["mean"].min())
            rows.append(
                [
                    key,
                    metric,
                    len(values),
                    spread,
                    len(here),
                    len(words),
                    int((words == "better").sum()),
                    int((words == "worse").sum()),
                ]
            )
    return pd.DataFrame(
        rows,
        columns=[
            "key",
            "metric",
            "n_values",
            "spread",
            "n_pairs",
            "n_changed",
            "n_better",
            "n_worse",
        ],
    )


def _in_words(key: str, by_value: pd.DataFrame, pairs: pd.DataFrame, together: list[str]) -> str:
    """What changed with a key, from its clean pairs."""
    values = ", ".join(dict.fromkeys(by_value.loc[by_value["key"] == key, "value"]))
    here = pairs[pairs["key"] == key]
    if not len(here):
        why = (
            f"it changes together with {', '.join(together)}"
            if together
            else "other keys always change as well"
        )
        return f"{key} ({values}): no two runs differ in it alone; {why}."
    said = []
    for (run_a, run_b), rows in here.groupby(["run_a", "run_b"], sort=False):
        changed = rows[
            rows["verdict"].isin(["better", "worse", "higher", "lower"]) & rows["q"].notna()
        ]
        named = ", ".join(
            f"{row.metric} {shown_number(row.delta, 3, True)} ({row.verdict})"
            for row in changed.itertuples()
        )
        said.append(
            f"{rows['value_a'].iloc[0]} → {rows['value_b'].iloc[0]} ({run_a}, {run_b}):"
            f" {named or 'no metric can be said to have changed'}"
        )
    return f"{key}: {'; '.join(said)}."

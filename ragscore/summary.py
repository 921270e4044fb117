"""Scores -> means: one row per run and metric, and by slice. The mean of a metric is the plain mean of its column."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.codes import is_among
from ragscore.frames import DataError, Golden, check_type
from ragscore.match import LEVELS, RANKLESS, at_level
from ragscore.metrics import BY_NAME, Label, describe, parse_label
from ragscore.stats import mean_interval

FIXED_COLUMNS = ("run_id", "query_id", "state", "level", "created_at", "system")
NO_VALUE = "(none)"  # the slice of queries without a value or a tag


STATISTICS = ("mean", "low", "high", "n", "n_expected", "n_failed", "n_missing", "sum", "std", "min", "p50", "p95", "max")


def metric_columns(scores: pd.DataFrame) -> list[str]:
    """The metric columns of a scores frame, in its order; columns of your own are among them if they hold numbers."""
    return [name for name in scores.columns if name not in FIXED_COLUMNS and pd.api.types.is_numeric_dtype(scores[name])]


def summarize(scores: pd.DataFrame, golden: Golden | None = None, *, by: str | None = None, metrics: list[str] | str | None = None) -> pd.DataFrame:
    """Means of every metric, by run and, if asked, by a column or tag of the golden set.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    golden
        Needed for `by`; with it `n_expected` knows to which of the missing queries a metric would have applied.
    by
        A column of `golden.queries` (difficulty, category, ...), a kind of tag ("tag", "vault", "folder"), or "doc_type", the endings of the
        files its targets are from. A query with several of them counts in each, one without in `(none)`.
    metrics
        Only these columns; by default all that hold numbers. True and false count as 1 and 0.

    Returns
    -------
    One row per run, slice and metric: `mean`; `low`, `high`, its 95 % interval (Wilson for 0/1 metrics, for bounded ones
    Wilson's form with the n that their spread amounts to, else t); `n`, the queries in the mean; `n_expected`, those the metric was expected for; `n_failed`,
    `n_missing` queries of the slice; `sum`, `std` (sample), `min`, `p50`, `p95`, `max`. A metric that applies to no
    query has n = 0 and NaN.

    Raises
    ------
    DataError
        `by` without a golden set, not one of its columns or kinds of tag, or both; an unknown metric column, or one
        of text.
    """
    check_type(scores, pd.DataFrame, "scores")
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    rows = scores if "query_id" in scores else scores.reset_index()
    missing = [name for name in ("run_id", "query_id", "state", "level") if name not in rows]
    if missing:
        raise DataError(f"no {', '.join(missing)}", field="scores", allowed="a frame of rs.score")
    chosen = _chosen_columns(scores, metrics)
    rows = rows.reset_index(drop=True)[["run_id", "query_id", "state", "level", *chosen]]
    rows = rows.assign(**{name: rows[name].to_numpy("float64", na_value=np.nan) for name in chosen})
    expected = _expected(rows, golden, [parse_label(name) if describe(name).name in BY_NAME else Label(name, name) for name in chosen])
    keys = ["run_id"]
    if by is not None:
        if golden is None:
            raise DataError("by= needs the golden set", field="by", allowed="summarize(scores, golden, by=...)")
        if by in ("run_id", "query_id", "metric", *STATISTICS, *chosen):
            raise DataError(f"a slice can't be called {by!r}", field="by", allowed="a name that no column of the summary has")
        sliced = slices(golden, by)
        keys.append(by)
        row_of_scores = rows[["query_id"]].assign(row=np.arange(len(rows))).merge(sliced, on="query_id", how="inner")
        taken = row_of_scores["row"].to_numpy()
        rows = rows.iloc[taken].reset_index(drop=True).assign(**{by: row_of_scores[by]})
        expected = expected.iloc[taken].reset_index(drop=True)
    groups = rows.groupby(keys, observed=True, sort=False)
    values = groups[chosen]
    parts = {
        "mean": values.mean(), "n": values.count(), "n_expected": expected.groupby([rows[key] for key in keys], observed=True, sort=False)[chosen].sum(),
        "sum": values.sum(min_count=1), "std": values.std(), "min": values.min(), "p50": values.quantile(0.5), "p95": values.quantile(0.95), "max": values.max(),
    }  # fmt: skip
    table = pd.DataFrame({name: part.rename_axis(columns="metric").stack() for name, part in parts.items()}).reset_index()
    for name, state in (("n_failed", "failed"), ("n_missing", "missing")):
        counts = rows["state"].eq(state).groupby([rows[key] for key in keys], observed=True, sort=False).sum().rename(name)
        table = table.join(counts, on=keys)
    table["low"], table["high"] = np.nan, np.nan
    for name in chosen:
        here = table["metric"] == name
        mean, std, n = (table.loc[here, part].to_numpy("float64") for part in ("mean", "std", "n"))
        table.loc[here, "low"], table.loc[here, "high"] = mean_interval(mean, std, n, describe(name).kind)
    return _ordered(table, keys, chosen, scores)


def _chosen_columns(scores: pd.DataFrame, metrics: list[str] | str | None) -> list[str]:
    known = metric_columns(scores)
    if metrics is None:
        return known
    chosen = list(dict.fromkeys([metrics] if isinstance(metrics, str) else metrics))
    allowed = f"scores has {', '.join(known)}"
    unknown = [name for name in chosen if name not in scores.columns]
    if unknown:
        raise DataError(f"no column {', '.join(unknown)}", field="metrics", allowed=allowed)
    texts = [name for name in chosen if name not in known]
    if texts:
        raise DataError(f"{', '.join(texts)} holds no numbers", field="metrics", allowed=allowed)
    return chosen


CHECKS_OF = {"recency_ok": "recency_rule", "key_facts": "key_fact", "key_facts_literal": "key_fact"}  # metric -> the checks without which it doesn't apply


def slices(golden: Golden, by: str) -> pd.DataFrame:
    """Which slice each query belongs to: one row per query and value of `by`.

    Raises
    ------
    DataError
        `by` is neither a column of the queries nor a kind of tag, or it is both.
    """
    check_type(golden, Golden, "golden")
    kinds = golden.tags["kind"].unique().tolist()
    query_ids = golden.queries[["query_id"]]
    if by in golden.queries.columns and by not in ("query_id", "query", "position"):
        if by in kinds:
            raise DataError(f"{by!r} is a column of the queries and a kind of tag", field="by", allowed="a name that only one of them has")
        return query_ids.assign(**{by: golden.queries[by].astype("str").fillna(NO_VALUE)})
    kind = {"tags": "tag", "vaults": "vault", "folders": "folder"}.get(by, by)
    if kind in kinds:
        tags = golden.tags.loc[golden.tags["kind"] == kind, ["query_id", "value"]].rename(columns={"value": by})
        return query_ids.merge(tags, on="query_id", how="left").fillna({by: NO_VALUE})
    if by == "doc_type":
        return query_ids.merge(_doc_types(golden), on="query_id", how="left").fillna({by: NO_VALUE})
    columns = [name for name in golden.queries.columns if name not in ("query_id", "query", "position")]
    raise DataError(f"no column or kind of tag {by!r}", field="by", allowed=f"one of {', '.join(dict.fromkeys([*columns, *kinds, 'doc_type']))}")


def _doc_types(golden: Golden) -> pd.DataFrame:
    """The endings of the files that each query's targets are from, each once."""
    paths = golden.targets[["query_id", "path"]].dropna() if "path" in golden.targets else golden.targets[["query_id"]].iloc[:0].assign(path="")
    ending = paths["path"].astype("str").str.extract(r"\.(\w+)$")[0].str.lower()
    return pd.DataFrame({"query_id": paths["query_id"], "doc_type": ending}).dropna().drop_duplicates()


def _expected(rows: pd.DataFrame, golden: Golden | None, labels: list[Label]) -> pd.DataFrame:
    """Where a value was expected: there is one, or the query failed or is missing and the metric applies to it."""
    lost = rows["state"].isin(["failed", "missing"]).to_numpy()
    applying = _Applying(golden, rows) if golden is not None else None
    columns = {}
    for label in labels:
        applies = np.ones(len(rows), dtype=bool) if applying is None else applying.to_rows(label)
        # A failed query isn't expected to have a latency, or to be empty; it is expected to have been answered rightly.
        only_if_done = label.name in ("empty", "empty_response", "scope_miss", "latency_ms", "cost_usd")
        counts_lost = rows["state"].eq("missing").to_numpy() & applies if only_if_done else lost & applies
        # A ranking metric of a query with targets is NaN only where hits could not be judged: a value was expected.
        is_undecided = applies & rows["state"].eq("scored").to_numpy() & (golden is not None and label.is_ranking and label.name != "judged")
        columns[label.text] = rows[label.text].notna().to_numpy() | counts_lost | is_undecided
    return pd.DataFrame(columns)


class _Applying:
    """To which rows of the scores a metric applies, by what the golden set says of the row's query at the row's match level."""

    def __init__(self, golden: Golden, rows: pd.DataFrame) -> None:
        self.golden, self.query_ids = golden, rows["query_id"]
        self.level = rows["level"].astype("str").to_numpy()
        self.at = {name: at_level(golden, name) for name in LEVELS}

    def to_rows(self, label: Label) -> npt.NDArray[np.bool_]:
        """One flag per row."""
        if label.level is not None:
            return self._is_among(self._with_targets(label.name, label.level))
        if label.is_ranking:
            return self._at_own_level(label.name)
        if label.name == "passed":
            kinds = is_among(self.golden.checks["kind"], RANKLESS)
            return self._at_own_level("hit") | self._is_among(pd.concat([self.golden.refusals, self.golden.checks.loc[kinds, "query_id"]]))
        return self._is_among(queries_of_metric(self.golden, label.name))

    def _is_among(self, query_ids: pd.Series) -> npt.NDArray[np.bool_]:
        return is_among(self.query_ids, query_ids)

    def _at_own_level(self, name: str) -> npt.NDArray[np.bool_]:
        """By the match level of each row: a per-query scoring has several, and none where a query has no target."""
        used = [level for level in LEVELS if (self.level == level).any()]
        return np.logical_or.reduce(
            [np.zeros(len(self.level), dtype=bool), *((self.level == level) & self._is_among(self._with_targets(name, level)) for level in used)]
        )

    def _with_targets(self, name: str, level: str) -> pd.Series:
        selected = self.at[level]
        return selected.support_groups["query_id"] if name == "recall_all" else selected.targets.loc[selected.targets["grade"] > 0, "query_id"]


def queries_of_metric(golden: Golden, metric: str) -> pd.Series:
    """Queries to which an answer metric applies."""
    queries, answerable = golden.queries["query_id"], golden.queries["answerable"]
    is_due = is_among(queries, golden.refusals)
    if metric in ("refusal_correct", "hallucinated"):
        return queries[is_due]
    if metric == "false_refusal":
        return queries[answerable.fillna(False).astype(bool)]
    if metric in ("attribution_hit", "scope_miss_proxy"):
        return at_level(golden, "anchor").targets["query_id"]
    if metric == "scope_miss":
        return queries[~is_due]
    if metric in CHECKS_OF:
        return queries[is_among(queries, golden.checks.loc[golden.checks["kind"] == CHECKS_OF[metric], "query_id"]) & ~is_due]
    if metric.startswith("answer_checks"):
        checked = is_among(queries, golden.checks.loc[is_among(golden.checks["kind"], ["must_contain", "forbidden"]), "query_id"])
        return queries[checked if metric.endswith("all") else checked & ~is_due]
    if metric in ("exact_match", "token_f1", "rouge_l"):
        has_reference = golden.queries["reference_answer"].notna() if "reference_answer" in golden.queries else pd.Series(False, index=queries.index)
        return queries[has_reference & ~is_due]
    if metric in ("citation_precision", "citation_recall"):
        return queries[is_among(queries, golden.targets.loc[golden.targets["grade"] > 0, "query_id"]) & ~is_due]
    return queries


def _ordered(table: pd.DataFrame, keys: list[str], chosen: list[str], scores: pd.DataFrame) -> pd.DataFrame:
    """Rows by run, then slice, then metric as in the scores; a stable order of columns."""
    metric = pd.Categorical(table["metric"], categories=chosen, ordered=True)
    table = table.assign(run_id=table["run_id"].astype(scores["run_id"].dtype), metric=metric)
    table = table.sort_values([*keys, "metric"], ignore_index=True).assign(metric=lambda t: t["metric"].astype("str"))
    return table[[*keys, "metric", "mean", "low", "high", "n", "n_expected", "n_failed", "n_missing", "sum", "std", "min", "p50", "p95", "max"]]

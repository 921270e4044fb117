"""How good a golden set is at telling runs apart.

What it can't see, what it asks twice, and how many questions it would need.

In: scores of some runs, the golden set, and their results. Out: a `GoldenHealth`, frames side by
side with a summary.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.refusals import rows_with_queries
from ragscore.frames.codes import has_pair, is_among, lookup
from ragscore.frames.data import DataError, Golden, Results, categorical, check_type
from ragscore.frames.render import dump, reload
from ragscore.golden.duplicates import TIE_COLUMNS, near_duplicates, tie_sensitivity
from ragscore.scoring.grading import grade_hits, level_rule
from ragscore.scoring.intervals import kind_of
from ragscore.scoring.level import choose_level
from ragscore.scoring.matching import at_level
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import metric_columns, summarize
from ragscore.stats import design_effect, inflation, mde_of_differences, moments, queries_needed

Codes = npt.NDArray[np.int64]

DISCRIMINATES = ("all pass", "all fail", "all alike", "tells apart", "one run", "not measured")
DIFFERENCES = (0.02, 0.05, 0.1)
_ID_OF_LEVEL = {"doc": "doc_id", "chunk": "chunk_id", "source_key": "source_key"}


@dataclass(frozen=True, repr=False)
class GoldenHealth:
    """What a golden set can and can't tell, by the runs that were scored with it.

    Attributes
    ----------
    summary
        One row per `finding`: `n` of `n_total` (questions, pairs or targets), `share`, and where to
        look (`frame`).
    queries
        One row per question (query_id): `n_runs` with a value of the metric; its `mean`, `min`,
        `max` over them; `discriminates`, a category: all pass (1 in every run), all fail (0), all
        alike (another value), tells apart, one run (only one has a value), not measured.
    duplicates
        Pairs of questions that nearly ask the same, as `rs.near_duplicates` gives them.
    targets
        One row per target (grade ≥ 1, at the match level) that no run returned: query_id, `level`,
        `target_id`, `grade`, `n_runs` that were asked; `seen_elsewhere`, whether another question's
        hits or the chunk catalogue hold its id: if not, it may not be in the index at all (NA: the
        level has no id).
    judged
        One row per run and metric judged@k: `mean`, `n`. A low one says that what a new run finds
        may be right without counting.
    ties
        As `rs.tie_sensitivity` gives it.
    effective
        One row per run and `by` (group: paraphrases; source: questions linked by a shared document,
        also over a third one): `n` measured questions, `n_clusters`, `largest` cluster,
        `design_effect` (by how much clustering inflates the variance of the mean; NaN where nothing
        varies), `n_effective` = n over it, at most n.
    needed
        One row per pair of runs (run_a, run_b) and `difference`: mean `delta` (b − a) and `sd` of
        the paired differences over `n` questions; `design_effect` of their paraphrase groups, at
        least 1; `mde`, the least difference that they show at 80 % power (infinite: none at this
        n); `n_needed` questions to see `difference` at 80 % power and 5 % error, (z_.975 +
        z_.8)²·sd²/difference² times the design effect; `n_more` than there are. NaN and NA where no
        question differed.
    """

    metric: str
    summary: pd.DataFrame
    queries: pd.DataFrame
    duplicates: pd.DataFrame
    targets: pd.DataFrame
    judged: pd.DataFrame
    ties: pd.DataFrame
    effective: pd.DataFrame
    needed: pd.DataFrame

    def to_json(self) -> str:
        """The report as JSON, NaN as null; `from_json` reloads it."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> "GoldenHealth":
        """The report that `to_json` wrote."""
        return reload(cls, text)

    def __repr__(self) -> str:
        return f"GoldenHealth by {self.metric}\n{self.summary.round(3).to_string(index=False)}"

    def _repr_html_(self) -> str:
        return (
            f"<p>Golden-set health by {self.metric}</p>{self.summary.round(3).to_html(index=False)}"
        )


def golden_health(
    scores: pd.DataFrame,
    golden: Golden,
    results: Results | None = None,
    *,
    metric: str = "passed",
    similarity: float = 0.7,
    differences: tuple[float, ...] = DIFFERENCES,
) -> GoldenHealth:
    """What a golden set can and can't tell.

    Parameters
    ----------
    scores
        Of as many different runs as there are: one run alone can't show which questions tell runs
        apart.
    results
        The same runs, for targets that no run returned and for ties; without it these frames are
        empty.
    metric
        A column from 0 to 1, higher being better.
    similarity
        From which two questions are near-duplicates (see `rs.near_duplicates`).
    differences
        Of the metric's mean, that one would like to see.

    Returns
    -------
    A `GoldenHealth`.

    Raises
    ------
    DataError
        No such column, or one that doesn't range from 0 (bad) to 1 (good); a difference that isn't
        above 0.
    """
    check_type(results, (Results, type(None)), "results", "Results, as rs.load_results gives it")
    if not all(difference > 0 for difference in differences):
        raise DataError(f"found {differences}", field="differences", allowed="differences above 0")
    rows = rows_with_queries(scores, golden, metrics=())
    values = _matrix(rows, golden, metric)
    queries, duplicates = _queries(values), near_duplicates(golden, similarity)
    targets, n_targets = _unreturned(results, golden) if results is not None else (_NO_TARGETS, 0)
    judged = [name for name in metric_columns(rows) if name.startswith("judged@")]
    return GoldenHealth(
        metric=metric,
        summary=_summary(golden, queries, duplicates, targets, n_targets),
        queries=queries,
        duplicates=duplicates,
        targets=targets,
        judged=(
            summarize(rows, metrics=judged)[["run_id", "metric", "mean", "n"]]
            if judged
            else pd.DataFrame(columns=["run_id", "metric", "mean", "n"])
        ),
        ties=(
            tie_sensitivity(results, golden)
            if results is not None
            else pd.DataFrame(columns=list(TIE_COLUMNS))
        ),
        effective=_effective(values, golden),
        needed=_needed(values, golden, metric, differences),
    )


def _matrix(rows: pd.DataFrame, golden: Golden, metric: str) -> pd.DataFrame:
    """The metric, one row per golden question and one column per run."""
    if metric not in metric_columns(rows):
        raise DataError(
            f"no column {metric!r}",
            field="metric",
            allowed=f"scores has {', '.join(metric_columns(rows))}",
        )
    found = describe(metric)
    if found.better == "lower" or not rows[metric].dropna().between(0, 1).all():
        raise DataError(
            f"{metric} doesn't range from 0 to 1, or lower is better",
            field="metric",
            allowed="a metric from 0 (bad) to 1 (good), such as passed",
        )
    table = rows.pivot(index="query_id", columns="run_id", values=metric).reindex(
        golden.queries["query_id"]
    )
    return table.astype("float64").rename_axis(index="query_id", columns="run_id")


def _queries(values: pd.DataFrame) -> pd.DataFrame:
    n, low, high = values.count(axis=1), values.min(axis=1), values.max(axis=1)
    flags = [n == 0, n == 1, low == 1, high == 0, low == high]
    names = ("not measured", "one run", "all pass", "all fail", "all alike")
    codes = np.select(
        [flag.to_numpy() for flag in flags],
        [DISCRIMINATES.index(name) for name in names],
        DISCRIMINATES.index("tells apart"),
    )
    table = pd.DataFrame(
        {
            "n_runs": n,
            "mean": values.mean(axis=1),
            "min": low,
            "max": high,
            "discriminates": categorical(codes, DISCRIMINATES),
        },
        index=values.index,
    )
    return table.reset_index()


def _unreturned(results: Results, golden: Golden) -> tuple[pd.DataFrame, int]:
    """Targets that none of the runs that were asked returned, and the number of all targets of questions that were asked."""
    level = choose_level(results, golden)
    names = level.joinable if level.name == "per_query" else (level.name,)
    parts = [_unreturned_at(name, results, golden) for name in names]
    table = pd.concat([part for part, _ in parts] or [_NO_TARGETS], ignore_index=True)
    return table.iloc[
        np.argsort(lookup(table["query_id"], pd.Index(golden.queries["query_id"])), kind="stable")
    ].reset_index(drop=True), sum(n for _, n in parts)


def _unreturned_at(level: str, results: Results, golden: Golden) -> tuple[pd.DataFrame, int]:
    selected = at_level(golden, level)
    _, found = grade_hits(results.hits, selected.targets, level_rule(level, results, golden))
    n_asked = results.responses["query_id"].value_counts()
    wanted = selected.targets[
        (selected.targets["grade"] > 0) & is_among(selected.targets["query_id"], n_asked.index)
    ]
    wanted = wanted.assign(
        seen_elsewhere=_seen(wanted, level, results),
        n_runs=wanted["query_id"].map(n_asked).astype("int64"),
    )
    keys = ["query_id", "target_id"]
    # A target may have alternatives: it is seen if any of them is.
    each = (
        wanted.groupby(keys, sort=False)
        .agg({"level": "first", "grade": "max", "n_runs": "first", "seen_elsewhere": "max"})
        .reset_index()
    )
    lost = each[~has_pair(each, found, ("query_id", "target_id"))]
    return lost[list(_NO_TARGETS)].astype({"seen_elsewhere": "boolean"}), len(each)


def _seen(targets: pd.DataFrame, level: str, results: Results) -> pd.Series:
    """Whether any hit or catalogued chunk has the target's id; NA where the level has no id."""
    column = _ID_OF_LEVEL.get(level, "")
    if column not in targets:
        return pd.Series(pd.NA, index=targets.index, dtype="boolean")
    frames = [
        frame[column]
        for frame in (results.hits, results.chunks)
        if frame is not None and column in frame
    ]
    seen = np.logical_or.reduce(
        [
            np.zeros(len(targets), dtype=bool),
            *(is_among(targets[column], values) for values in frames),
        ]
    )
    return pd.Series(seen, index=targets.index, dtype="boolean").mask(targets[column].isna())


def _effective(values: pd.DataFrame, golden: Golden) -> pd.DataFrame:
    parts = [
        _clustered(values, codes).assign(by=by)
        for by, codes in (("group", _groups(golden)), ("source", _sources(golden)))
    ]
    table = pd.concat(parts, ignore_index=True)
    table["n_effective"] = table["n"] / table["design_effect"].clip(lower=1)
    table = table.iloc[
        np.argsort(lookup(table["run_id"], values.columns), kind="stable")
    ].reset_index(drop=True)
    return table[["run_id", "by", "n", "n_clusters", "largest", "design_effect", "n_effective"]]


def _clustered(values: pd.DataFrame, codes: Codes) -> pd.DataFrame:
    measured = values.notna().to_numpy()
    sizes = [np.bincount(codes[here]) for here in measured.T]  # one per run
    return pd.DataFrame({
        "run_id": values.columns, "n": measured.sum(axis=0),
        "n_clusters": [np.count_nonzero(size) for size in sizes],
        "largest": [int(size.max(initial=0)) for size in sizes],
        "design_effect": design_effect(values.to_numpy(), codes),
    })  # fmt: skip


def _groups(golden: Golden) -> Codes:
    """A number per paraphrase group; a question without one is alone."""
    if "group" not in golden.queries:
        return np.arange(len(golden.queries))
    codes = pd.factorize(golden.queries["group"])[0].astype(np.int64)
    return np.where(codes < 0, codes.max(initial=-1) + np.cumsum(codes < 0), codes)


def _sources(golden: Golden) -> Codes:
    """A number per set of questions that shared documents link, also over a third question.

    A question without targets is alone.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    wanted = golden.targets[golden.targets["grade"] > 0]
    names = [name for name in ("doc_id", "path", "source_key", "chunk_id") if name in wanted]
    source = (
        reduce(lambda known, name: known.fillna(wanted[name]), names[1:], wanted[names[0]])
        if names
        else wanted["target_id"]
    )
    query = lookup(wanted["query_id"], pd.Index(golden.queries["query_id"]))[
        source.notna().to_numpy()
    ]
    codes = pd.factorize(source.dropna())[0]
    n = len(golden.queries)
    size = n + int(codes.max(initial=-1)) + 1
    return connected_components(
        csr_matrix((np.ones(len(query)), (query, codes + n)), shape=(size, size)), directed=False
    )[1][:n].astype(np.int64)


def _needed(
    values: pd.DataFrame, golden: Golden, metric: str, differences: tuple[float, ...]
) -> pd.DataFrame:
    """What each pair of runs could show.

    Questions of one paraphrase group count as far as they differ.
    """
    first, second = np.triu_indices(values.shape[1], 1)
    change = values.to_numpy()[:, second] - values.to_numpy()[:, first]
    mean, std, n = moments(change)
    effect = inflation(change, _groups(golden))
    mde = mde_of_differences(change, kind_of(describe(metric)), design_effect=effect)
    wanted = np.asarray(differences, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        needed = np.where(
            std[:, None] > 0,
            np.ceil(queries_needed(wanted[None, :], std[:, None]) * effect[:, None]),
            np.nan,
        )
    pairs = pd.DataFrame({
        "run_a": values.columns[first], "run_b": values.columns[second], "n": n.astype("int64"),
        "delta": mean, "sd": std, "design_effect": effect, "mde": mde,
    })  # fmt: skip
    table = (
        pairs.loc[np.repeat(np.arange(len(pairs)), len(wanted))]
        .reset_index(drop=True)
        .assign(difference=np.tile(wanted, len(pairs)))
    )
    table["n_needed"] = pd.array(needed.ravel(), dtype="Int64")
    return table.assign(n_more=(table["n_needed"] - table["n"]).clip(lower=0))


def _summary(
    golden: Golden,
    queries: pd.DataFrame,
    duplicates: pd.DataFrame,
    targets: pd.DataFrame,
    n_targets: int,
) -> pd.DataFrame:
    n_of = queries["discriminates"].value_counts()
    apart = duplicates[~duplicates["same_group"]]
    n, compared = len(queries), int((queries["n_runs"] > 1).sum())
    n_near = len(set(apart["query_id"]) | set(apart["other"]))
    rows = [
        ("questions that every run passes", n_of["all pass"], compared, "queries"),
        ("questions that every run fails", n_of["all fail"], compared, "queries"),
        (
            "questions that tell no runs apart",
            n_of["all pass"] + n_of["all fail"] + n_of["all alike"],
            compared,
            "queries",
        ),
        ("questions that fewer than two runs have a value of", n - compared, n, "queries"),
        ("unlabelled questions", golden.queries["answerable"].isna().sum(), n, ""),
        ("questions with a near-duplicate outside their group", n_near, n, "duplicates"),
        (
            "near-duplicate pairs with different targets",
            (~duplicates["same_targets"]).sum(),
            len(duplicates),
            "duplicates",
        ),
        ("targets that no run returned", len(targets), n_targets, "targets"),
        (
            "targets whose id is in no hit and no catalogue",
            targets["seen_elsewhere"].eq(False).sum(),
            n_targets,
            "targets",
        ),
    ]
    table = pd.DataFrame(rows, columns=["finding", "n", "n_total", "frame"]).astype(
        {"n": "int64", "n_total": "int64"}
    )
    return table.assign(share=table["n"] / table["n_total"].where(table["n_total"] > 0))[
        ["finding", "n", "n_total", "share", "frame"]
    ]


_NO_TARGETS = pd.DataFrame({
    "query_id": pd.Series([], dtype="str"), "level": pd.Series([], dtype="str"),
    "target_id": pd.Series([], dtype="str"), "grade": pd.Series([], dtype="int32"),
    "n_runs": pd.Series([], dtype="int64"), "seen_elsewhere": pd.Series([], dtype="boolean"),
})  # fmt: skip

"""One object to ask: golden set, results and scores together, and the verbs on them.

`evaluate` loads what isn't loaded, scores it once and returns an `Evaluation`. Its methods fill in
what the functions behind them need, so that nothing is passed twice and nothing forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np
import pandas as pd

from ragscore.frames.data import (
    DataError,
    Golden,
    Results,
    check_inputs,
    check_type,
    run_names,
    runs_without_hits,
)
from ragscore.frames.errors import check_known, name_list, names_of, plural, unsaid, warn
from ragscore.frames.signatures import takes
from ragscore.frames.tables import Display, Table
from ragscore.frames.verbs import Accessor
from ragscore.io.load import load_golden, load_results, with_labels
from ragscore.scoring.explain import explain
from ragscore.scoring.intervals import clusters_text, query_clusters
from ragscore.scoring.level import choose_level
from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.scoring.own import with_own
from ragscore.scoring.policies import Policies, PolicyFields, policies_of
from ragscore.scoring.primary import REFUSALS, primary_of
from ragscore.scoring.readings import HARNESSES, Reading, find_reading
from ragscore.scoring.refusals import unstated_text
from ragscore.scoring.rows import Rows
from ragscore.scoring.rules import Rule
from ragscore.scoring.score import Asked, asked_of, scored
from ragscore.scoring.stored import (
    averaged,
    deciding_of,
    golden_of,
    scored_and_stored,
    sides_named,
)
from ragscore.scoring.summary import (
    Slicing,
    add_columns,
    metric_columns,
    summarize,
    with_saved,
)
from ragscore.scoring.turns import with_turns

if TYPE_CHECKING:
    from ragscore.analysis.comparison.model import Comparison
    from ragscore.analysis.failure_causes import Failures
    from ragscore.analysis.leaderboard import Leaderboard
    from ragscore.analysis.query_view import QueryView
    from ragscore.analysis.refusals import Refusals
    from ragscore.analysis.repeats import Repeats
    from ragscore.analysis.risk_coverage import RiskCoverage
    from ragscore.analysis.trend.trend import Trend
    from ragscore.golden.coverage import Coverage
    from ragscore.golden.health import GoldenHealth
    from ragscore.reporting import Report
    from ragscore.reporting.explorer.explorer import Explorer
    from ragscore.store.store import RunStore

# The metrics that tell answers from refusals, and right answers from wrong ones.
DECIDED_BY = ("refusal_correct", "false_refusal", "answer_checks")
OF_WORDS = ("exact_match", "token_f1", "rouge_l")  # a weak sign beside what a judge says
SHOWN_RUNS = 20  # runs in the printed table
MOST_RUNS = 100  # of more, no pairs are compared to print an evaluation
MEDIANS = ("latency_ms", "cost_usd")  # beside the metrics that decide
Range = tuple[float | None, float | None]
Found = TypeVar("Found")


@takes(Policies)
def evaluate(
    results: Any,
    golden: Any = None,
    metrics: Asked = None,
    *,
    rule: Rule | None = None,
    profile: str | Reading | None = None,
    primary: list[str] | str | None = None,
    baseline: str | None = None,
    policies: Policies | None = None,
    **fields: Unpack[PolicyFields],
) -> Evaluation:
    """Score runs against a golden set, and keep all three together.

    Without a golden set, the scores that another tool stored are the metrics, and labels that stand
    beside them in their file count. Runs are then paired by the ids of their queries.

    Runs without rows, of which a folder holds aggregates alone, are not scored: they stand in
    `trend`, `leaderboard` and `report`, marked as reported.

    Parameters
    ----------
    results, golden
        `Results` and `Golden`, or whatever `rs.load_results` and `rs.load_golden` take: paths,
        patterns, frames, dicts, records. None: no golden set.
    metrics
        Labels, or one; by default about 15, by what the data supports, "all" for every metric of
        `rs.metrics()` that is marked so. Without a golden set: all that have a value. Others are
        scored when they are asked for, stored ones by their names. Metrics of your own are
        `rs.Metric` objects (see `rs.metric`); "default" in a list stands for the default ones.
    rule
        A matching rule of your own instead of the level's; see `rs.score`.
    profile
        Another harness's conventions, by name.
    primary
        The metrics that decide a comparison's overall word. By default one for each aspect that
        the scores have: retrieval (ndcg@10, else mrr, recall, hit), answers (judge_correctness,
        answer_checks, ...), refusals (answered_unanswerable and false_refusal, judged jointly),
        and passed. Without a golden set: stored scores of which it is known which value is better,
        the first five.
    baseline
        The run that the others are compared with: verdicts are then about these pairs. By default
        about each pair of runs.
    policies, fields
        `rs.Policies`, and single fields of it: `match="doc"`, `missing="zero"`.

    Raises
    ------
    DataError
        Input that can't be read or joined; an unknown metric, policy or profile. Files that
        contradict each other about a stored metric.

    Warns
    -----
    UserWarning
        Without a golden set: one id stands for different inputs.

    Examples
    --------
    >>> rs.evaluate("data/demo/runs/*/per_query.jsonl", "data/demo/golden.yaml")
    """
    if golden is None:
        results, labelled = with_labels(results)
    else:
        golden, labelled = golden if isinstance(golden, Golden) else load_golden(golden), []
        results = results if isinstance(results, Results) else load_results(results)
    return _evaluated(
        results,
        golden,
        labelled,
        metrics,
        rule,
        profile,
        primary,
        policies_of(policies, fields, find_reading(profile).policies),
    )._against(baseline)


def _evaluated(
    results: Results,
    golden: Golden | None,
    labelled: list[Golden],
    metrics: Asked,
    rule: Rule | None,
    profile: str | Reading | None,
    primary: list[str] | str | None,
    given: Policies,
) -> Evaluation:
    """Evaluate what is loaded; `labelled` is from `with_labels`."""
    from ragscore.analysis.reported import split_reported

    results, reported = split_reported(results)
    is_alone = golden is None
    if golden is None:
        golden = golden_of(results, labelled)
    check_inputs(results, golden)
    # Copies of theirs, checked: frames that are edited later are for the next evaluation.
    results, golden = with_turns(replace(results), replace(golden))
    more = () if primary is None else tuple(names_of(primary, "primary"))
    found, stored = scored_and_stored(
        results, golden, metrics, is_alone=is_alone, more=more, rule=rule, profile=profile,
        policies=given,
    )  # fmt: skip
    for note in found.notes:
        if not (is_alone and note.startswith("none of the")):
            warn(note)
    if is_alone and primary is None:
        primary = list(deciding_of(found.scores, stored, found.table)) or None
    deciding = primary_of(found.scores, primary, found.table)
    if primary is None and set(deciding) <= set(OF_WORDS) and results.judgments is not None:
        judged = [one for one in results.judgments["criterion"].unique() if one in found.scores]
        deciding = (
            *deciding_of(found.scores, judged, found.table),
            *deciding,
        )  # what is stored leads
    return Evaluation(
        golden, found.scores, found.settings.assign(primary=", ".join(deciding)),
        deciding, found.policies, found.reading if profile else None, rule, results,
        reported, found.table,
    )  # fmt: skip


def compare(
    baseline: Any,
    candidate: Any,
    golden: Any = None,
    metrics: Asked = None,
    *,
    primary: list[str] | str | None = None,
    policies: Policies | None = None,
    **how: Any,
) -> Comparison:
    """Compare two runs of two sources: `rs.evaluate` and `Evaluation.compare` in one line.

    Repeats of a side (epochs, trials) are averaged first if there is no golden set: intervals count
    queries, and not repeats.

    Parameters
    ----------
    baseline, candidate
        Each whatever `rs.load_results` takes: one run, or the repeats of one system.
    golden, metrics, primary, policies
        As for `rs.evaluate`. Without a golden set, stored scores are compared.
    how
        As for `Evaluation.compare`, and single fields of `rs.Policies`. Metrics that are named
        decide.

    Raises
    ------
    DataError
        A side with several systems, or with repeats where documents are expected; what
        `rs.evaluate` and `Evaluation.compare` refuse.

    Examples
    --------
    >>> demo = "data/demo/runs/{}/per_query.jsonl"
    >>> rs.compare(demo.format("dense"), demo.format("hybrid"), "data/demo/golden.yaml")
    """
    names = {item.name for item in fields(Policies)}
    given = policies_of(policies, {name: how.pop(name) for name in names & how.keys()})
    if primary is None and metrics is not None:
        named = [
            text
            for one in asked_of(metrics)
            for text in (one.labels if isinstance(one, Metric) else [getattr(one, "text", one)])
        ]
        primary = [one for one in named if one not in ("default", "all")] or None
    ev = evaluate_pair(baseline, candidate, golden, metrics, primary, given)
    return ev.compare(*ev.run_ids, **how)


def evaluate_pair(
    baseline: Any, candidate: Any, golden: Any, metrics: Asked, primary: Any, policies: Policies
) -> Evaluation:
    """Score two sources as one run each, the baseline first; see `compare`."""
    if golden is not None and not isinstance(golden, Golden):
        golden = load_golden(golden)
    sides = [with_labels(source) for source in (baseline, candidate)]
    named = sides_named([results for results, _ in sides])
    labelled = [labels for _, beside in sides for labels in beside]
    ev = _evaluated(Results.concat(named), golden, labelled, metrics, None, None, primary, policies)
    if len(ev.run_ids) == 2:
        return ev
    if len(ev.golden.targets):
        raise DataError(
            f"{len(ev.run_ids)} runs of two systems, and averages of repeats have no ranks",
            field="baseline, candidate",
            allowed="one run each; rs.evaluate(...).average_repeats().leaderboard(metric) compares"
            " averages",
        )
    return ev.average_repeats()


def evaluate_stored(
    store: RunStore,
    golden: Any = None,
    metrics: Asked = None,
    runs: list[str] | str | None = None,
    *,
    client: Any = None,
    rule: Rule | None = None,
    profile: str | Reading | None = None,
    primary: list[str] | str | None = None,
    baseline: str | None = None,
    policies: Policies | None = None,
    **fields: Unpack[PolicyFields],
) -> Evaluation:
    """Score stored runs group by group, and return the object of `rs.evaluate`.

    Results are read when they are first asked for, then whole.

    Parameters
    ----------
    golden, metrics, rule, profile, primary, baseline, policies, fields
        As for `rs.evaluate`. Runs that were all saved with the same primary metrics keep them, and
        columns of your own that were saved with runs come back.
    runs
        Run ids or systems; by default all that have rows: `store.summary` has the means of others.
    client
        As for `store.scores`.

    Raises
    ------
    DataError
        As `store.scores`; two runs declare a column of your own differently.

    Examples
    --------
    >>> rs.RunStore("data/demo/history").evaluate("data/demo/golden.yaml", runs=["07-dense"])
    """
    if golden is None:
        return evaluate(
            store.load(runs), None, metrics, rule=rule, profile=profile, primary=primary,
            baseline=baseline, policies=policies, **fields,
        )  # fmt: skip
    golden = replace(golden) if isinstance(golden, Golden) else load_golden(golden)
    given = policies_of(policies, fields, find_reading(profile).policies)
    found = store._scored(
        golden, metrics, store._with_rows(runs), client=client, rule=rule,
        profile=find_reading(profile), policies=given,
    )  # fmt: skip
    settings = found.settings()
    run_ids = settings["run_id"].astype("str").tolist()
    own, declared = store._saved_columns(run_ids, found.table, settings)
    scores = found.scores if own is None else with_saved(found.scores, own)
    golden = store._with_turns(golden, run_ids[0])
    deciding = primary_of(scores, primary or _saved_primary(settings, scores), declared)
    return Evaluation(
        golden, scores, settings.assign(primary=", ".join(deciding)), deciding,
        given, find_reading(profile) if profile else None, rule, partial(_loaded, store, run_ids),
        None, declared, _among=tuple(store._by_saving()),
    )._against(baseline)  # fmt: skip


def _saved_primary(settings: pd.DataFrame, scores: pd.DataFrame) -> list[str] | None:
    """Return the primary metrics that all runs were saved with, if these were scored."""
    saved = settings["primary"].unique().tolist()
    names = saved[0].split(", ") if len(saved) == 1 and saved[0] else []
    return names if names and set(names) <= set(scores) else None


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(Display):
    """Runs scored against a golden set. `rs.evaluate` and `store.evaluate` make it.

    Attributes
    ----------
    golden, results
        What was scored. Results of a store are read when they are first asked for.
    scores
        One row per run and query (index query_id), one float column per metric: see `rs.score`.
    settings
        One row per run: match `level` and what a finer one would have `left_out`, `rule`,
        `policies`, `profile`, `golden_hash`, `k`, `n_expected` queries, `primary` metrics.
    primary
        The metrics that decide.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    golden: Golden
    scores: pd.DataFrame
    settings: pd.DataFrame
    primary: tuple[str, ...]
    _policies: Policies = field(default_factory=Policies)
    _profile: Reading | None = None
    _rule: Rule | None = None
    _source: Results | Callable[[], Results] | None = None
    _reported: Results | None = None  # runs without rows, of which only aggregates are known
    _declared: MetricTable = TABLE  # our metrics, and those that belong to this evaluation
    _baseline: str | None = None  # the run that the others are compared with
    _among: tuple[str, ...] = ()  # the runs that these were selected from

    plot = Accessor("ragscore.plot.accessor:EVALUATION")

    @property
    def confidence(self) -> float:
        """Confidence of each interval of a primary metric's difference.

        So that the intervals of all pairs of runs, or with a baseline of its pairs, hold together
        in 95 % of cases.
        """
        return 1 - self._level_of_all(self.scores, self.primary, self._baseline)

    def _level_of_all(
        self, scores: pd.DataFrame, metrics: Sequence[str], baseline: str | None,
        cluster: str | None = "group",
    ) -> float:  # fmt: skip
        """Return the level of each interval of these metrics, at which those of all pairs hold."""
        from ragscore.analysis.comparison.align import align
        from ragscore.analysis.leaderboard import level_of_all

        key = tuple(metrics), baseline, cluster
        if key not in self._levels:
            aligned = align(scores, list(metrics), None, self._declared)
            groups = query_clusters(self.golden, aligned.query_ids, cluster)
            self._levels[key] = level_of_all(aligned, baseline, groups)
        return self._levels[key]

    @cached_property
    def _levels(self) -> dict[tuple[tuple[str, ...], str | None, str | None], float]:
        return {}

    @property
    def _in_order(self) -> list[str]:
        """All runs in the order that gives each its look."""
        return list(self._among or self.run_ids)

    def _alike(self, found: Found) -> Found:
        """Return what draws itself with the looks that its runs have here."""
        object.__setattr__(found, "_in_order", self._in_order)
        return found

    def _against(self, baseline: str | None) -> Evaluation:
        """Return the evaluation with a baseline; None: as it is."""
        if baseline is None:
            return self
        return replace(self, _baseline=run_names(self._runs, [baseline])[0])

    @cached_property
    def results(self) -> Results:
        """The results behind the scores; a `DataError` for averages of repeats."""
        if self._source is None:
            raise DataError(
                "averages of repeats have no results of their own",
                field="results",
                allowed="the evaluation that was averaged",
            )
        check_type(self._source, (Results, Callable), "results")  # type: ignore[arg-type]
        return self._source if isinstance(self._source, Results) else self._source()

    @cached_property
    def _rows(self) -> Rows | None:
        """What is known of each row of the scores; None for averages of repeats."""
        if self._source is None:
            return None
        reading = find_reading(self._profile)
        golden, of_hits = reading.golden(self.golden)
        lists = self._policies.lists(self.results)
        level = choose_level(lists, of_hits, self._level)
        return Rows(lists, golden, level, of_hits, self._rule, reading)

    @property
    def _is_of_harness(self) -> bool:
        """True if another harness compares its own way; a reading of one's own compares like us."""
        return find_reading(self._profile).name in HARNESSES

    @property
    def run_ids(self) -> list[str]:
        """The runs, in order."""
        return self.settings["run_id"].astype("str").tolist()

    # Narrow, widen

    def select(
        self,
        runs: list[str] | str | None = None,
        queries: Any = None,
    ) -> Evaluation:
        """Return the evaluation of some runs, or of some queries; nothing is scored anew.

        Parameters
        ----------
        runs
            Run ids, or systems that only one run has.
        queries
            Query ids, a boolean mask over `golden.queries`, or a pandas query string on it.

        Raises
        ------
        DataError
            An unknown run or query; a mask of another length; a query string that pandas refuses;
            no query left.

        Examples
        --------
        >>> ev.select(runs=["dense", "hybrid"], queries="difficulty == 'hard'").summary()
        """
        reported = self._reported
        if runs is not None and reported is not None:
            known = [self._runs, reported.runs]
            shared = [name for name in ("run_id", "system") if all(name in one for one in known)]
            runs = run_names(pd.concat([one[shared].astype("str") for one in known]), runs)
            alone = [name for name in runs if name not in self.run_ids]
            runs = [name for name in runs if name in self.run_ids]
            reported = reported.select(alone) if alone else None
        names = self.run_ids if runs is None else run_names(self._runs, runs)
        golden = self.golden if queries is None else self.golden.select(queries)
        is_kept = self.scores["run_id"].astype("str").isin(names).to_numpy(copy=True)
        if queries is not None:
            is_kept &= self.scores.index.isin(golden.queries["query_id"])
        order = pd.CategoricalDtype(names)
        scores = self.scores[is_kept]
        scores = scores.assign(run_id=scores["run_id"].astype("str").astype(order))
        if runs is not None:
            scores = scores.iloc[np.argsort(scores["run_id"].cat.codes, kind="stable")]
        settings = self.settings.set_index(self.settings["run_id"].astype("str")).loc[names]
        settings = settings.reset_index(drop=True).assign(n_expected=len(golden.queries))
        kept = None if queries is None else set(golden.queries["query_id"])
        return replace(
            self,
            golden=golden,
            scores=scores,
            settings=settings,
            _baseline=self._baseline if self._baseline in names else None,
            _among=tuple(self._in_order),
            _source=None if self._source is None else partial(_selected, self, names, kept),
            # what they report is over all queries
            _reported=None if queries is not None else reported,
        )

    def with_columns(
        self,
        frame: pd.DataFrame,
        columns: list[str] | str | None = None,
        *,
        better: Mapping[str, str] | str | None = None,
        range: Mapping[str, Range] | Range | None = None,
        partial: bool = False,
        primary: list[str] | str | None = None,
    ) -> Evaluation:
        """Add metrics of your own; they go everywhere ours go.

        Parameters
        ----------
        frame
            One row per run and query: columns `run_id`, `query_id` and numbers. Without `run_id`,
            one row per query, for every run.
        columns
            Which columns to add; by default all numbers but the keys.
        better
            "higher" or "lower", for all columns or by column. Without it, comparisons have no word
            for the difference.
        range
            (lowest, highest) value, None for no bound; for all columns or by column. Direction and
            range belong to this evaluation and to what is made of it.
        partial
            Queries may be absent from the frame. They are NaN either way; without `partial`, a
            warning counts those that were answered.
        primary
            The metrics that decide from then on, yours or others that were scored; by default as
            before.

        Raises
        ------
        DataError
            Queries that the scores don't have, or one of them twice; a name that is taken; a
            direction or range of a column that isn't added; a value outside `range`.

        Warns
        -----
        UserWarning
            Answered queries are absent from the frame.

        Examples
        --------
        >>> answers = ev.results.responses
        >>> lengths = answers[["run_id", "query_id"]].assign(length=answers["answer"].str.len())
        >>> ev.with_columns(lengths, better="lower", partial=True).summary("length")
        """
        check_type(frame, pd.DataFrame, "frame")
        table = frame if "query_id" in frame.columns else frame.reset_index()
        if "run_id" not in table.columns:
            table = pd.concat([table.assign(run_id=run_id) for run_id in self.run_ids])
        chosen = [columns] if isinstance(columns, str) else columns
        if chosen is None:
            chosen = [
                name
                for name in table.select_dtypes(["number", "bool"]).columns
                if name not in ("run_id", "query_id") and name not in self.scores
            ]
        scores = add_columns(self.scores, table, chosen, partial=partial)
        declared = self._declared
        for kind, given in (("better", better), ("range", range)):
            named = list(given) if isinstance(given, Mapping) else []
            check_known(named, chosen, kind, "added column", "columns that are added:")
        for name in chosen:
            own: list[Any] = [
                one.get(name) if isinstance(one, Mapping) else one for one in (better, range)
            ]
            declared = declared.with_metrics([with_own(name, *own)])
            declared.describe(name).refuse_outside(scores[name], name)
        found = replace(self, scores=scores, _declared=declared)
        return found if primary is None else found._decided_by(primary)

    def _decided_by(self, primary: list[str] | str) -> Evaluation:
        """Return the evaluation with other metrics that decide, scored where they weren't yet."""
        named = names_of(primary, "primary")
        scores, _ = self._scored([*metric_columns(self.scores), *named])
        deciding = primary_of(scores, named, self._declared)
        settings = self.settings.assign(primary=", ".join(deciding))
        return replace(self, scores=scores, primary=deciding, settings=settings)

    # Look

    def summary(
        self,
        metrics: list[str] | str | None = None,
        by: Slicing | None = None,
        *,
        cluster: str | None = "group",
    ) -> pd.DataFrame:
        """Return means with their intervals, by run and, if asked, by slice.

        Parameters
        ----------
        metrics
            Labels, or one; by default all that were scored; "all": those and all others. True and
            false count as 1 and 0.
        by
            A column of `golden.queries`, a kind of tag, or "mode", that of each run's response; or
            several. A query with several tags counts in each slice, one without in `(none)`.
        cluster
            The column of `golden.queries` whose equal values make queries depend on each other
            (paraphrases, a source, a conversation). Intervals and tests allow for it. None: every
            query stands alone.

        Returns
        -------
        One row per run, slice and metric: `mean`; `low`, `high`, its 95 % interval (Wilson for 0/1
        metrics, Wilson's form with the effective n for bounded ones, else t, or a bootstrap-t where
        values are skewed; NaN where equal values tell nothing); `n`, the queries in the mean;
        `n_expected`, those the metric was expected for; `n_failed`, `n_missing` queries of the
        slice; `sum`, `std` (sample), `min`, `p50`, `p95`, `max`. Times and costs have
        order-statistic intervals `p50_low`, `p50_high`, `p95_low`, `p95_high`, NaN where n is too
        small (below 6 for a median, 72 for a p95). A metric that applies to no query has n = 0 and
        NaN.

        Raises
        ------
        DataError
            An unknown metric, `by` or `cluster`.

        Examples
        --------
        >>> ev.summary(["hit@5", "mrr@10"], by="difficulty")
        """
        if metrics == "all":
            others = [] if self._source is None else TABLE.labels()
            metrics = list(dict.fromkeys([*others, *metric_columns(self.scores)]))
        scores, chosen = self._scored(metrics)
        return summarize(
            scores, self.golden, by=by, metrics=chosen, rows=self._rows, cluster=cluster,
            table=self._declared,
        )  # fmt: skip

    def slices(
        self,
        by: Slicing,
        metrics: list[str] | str | None = None,
        *,
        cluster: str | None = "group",
        min_n: int = 10,
    ) -> pd.DataFrame:
        """Return means by slice, each beside the rest of its run.

        Parameters
        ----------
        metrics
            Labels, or one; by default the primary metrics.
        by, cluster
            As for `summary`.
        min_n
            Slices of fewer queries are flagged `is_small`.

        Returns
        -------
        One row per run, slice and metric: the columns of `by`; `n` queries with a value, `mean`
        with its 95 % interval `low`, `high`; `n_rest`, `mean_rest` of the run's other queries,
        `delta_rest` = mean − mean_rest with its 95 % interval `delta_low`, `delta_high`, and `p` of
        this row alone (Welch's test; NaN for times and costs); `is_small`.

        Raises
        ------
        DataError
            An unknown metric, `by` or `cluster`.

        Examples
        --------
        >>> ev.slices("difficulty", "mrr@10")
        """
        from ragscore.analysis.slices import slice_means

        self._need_rows()
        scores, chosen = self._scored(list(self.primary) if metrics is None else metrics)
        return slice_means(
            scores, self.golden, by, chosen, rows=self._rows, cluster=cluster,
            min_n=min_n, declared=self._declared,
        )  # fmt: skip

    def explain(self, metrics: list[str] | str | None = None) -> pd.DataFrame:
        """Tell for every query why it counts in a metric's mean, or why it doesn't.

        Parameters
        ----------
        metrics
            Labels, or one; by default all that were scored.

        Returns
        -------
        One row per metric, run and query: `value`, what counts in the mean (NaN: nothing does);
        `state`, the cause; `reason`, the same in words. States: *scored*; *not_applicable* (the
        golden set asks nothing of the query that the metric could judge, the run never records what
        it is made of, or there is nothing to divide by); *refused* (the system refused an
        answerable query); *system_error*; *judge_failed*; *undecided* (its targets are
        all at another match level); *missing* (no response, or one without what this run records
        elsewhere). All but not_applicable are the `n_expected` of `summary`.

        Raises
        ------
        DataError
            An unknown metric.

        Examples
        --------
        >>> ev.explain("citation_precision")
        """
        scores, chosen = self._scored(metrics)
        names = metric_columns(scores) if chosen is None else chosen
        return explain(self._rows, map(self._declared.label_of, names), scores)

    def pivot(self, metric: str) -> pd.DataFrame:
        """Return the values of one metric: one row per query, one column per run.

        NaN where the metric doesn't apply or the run wasn't asked. Responses without a golden query
        are left out.

        Raises
        ------
        DataError
            An unknown metric.

        Examples
        --------
        >>> ev.pivot("mrr@10")
        """
        from ragscore.analysis.comparison.align import query_matrix

        name = self._named(metric)
        scores, _ = self._scored(name)
        return query_matrix(scores, name)

    def query(self, query_id: str, runs: list[str] | None = None) -> QueryView:
        """Show one query: what was expected, and each run's hits and answer side by side.

        What each call asked, found first and repeated, and earlier turns of a conversation, stand
        above.

        Parameters
        ----------
        runs
            Run ids or systems; by default all.

        Returns
        -------
        A `QueryView`: print it, end a notebook cell with it, or take its frames.

        Raises
        ------
        DataError
            An unknown query or run.

        Examples
        --------
        >>> ev.query("pd-005")
        """
        from ragscore.analysis.query_view import show_query

        self._need_rows(*(runs if isinstance(runs, (list, tuple)) else ()))
        return show_query(
            self.results, self.golden, query_id, runs, match=self._level, rule=self._rule,
        )  # fmt: skip

    def explore(
        self, query: str | None = None, runs: list[str] | str | None = None,
        baseline: str | None = None, *, outcome: list[str] | str | None = None, search: str = "",
        by: Slicing | None = None, texts: pd.DataFrame | None = None, max_queries: int = 1_000,
    ) -> Explorer:  # fmt: skip
        """Look through the queries of one run or several, side by side: an `Explorer`.

        Parameters
        ----------
        query
            The id of the query to open.
        runs
            Run ids or systems; by default all.
        baseline
            The run that the others are compared with, by the rules of `compare`; by default the
            first.
        outcome, search, by, texts, max_queries
            As for `cmp.explore`.

        Returns
        -------
        An `Explorer`: end a cell with it, or `.write("explorer.html")`.

        Raises
        ------
        DataError
            An unknown query, run, outcome or name in `by`.

        Examples
        --------
        >>> ev.explore(runs=["dense", "hybrid"])
        """
        from ragscore.reporting.explorer.explorer import explore_runs

        return explore_runs(
            self, query, runs, baseline, outcome=outcome, search=search, by=by, texts=texts,
            max_queries=max_queries,
        )  # fmt: skip

    def coverage(self) -> Coverage:
        """Return what a mean would leave out or distort, before any mean.

        Its frames are `runs`, one row per run, with the numbers of queries that are missing,
        failed, unlabelled or tied; `issues`, the queries behind these; and `ids`, one row per run
        and match level, with the numbers of ids and of those that join (see `Coverage`).

        Examples
        --------
        >>> ev.coverage()
        """
        from ragscore.golden.coverage import coverage

        return coverage(self.results, self.golden)

    # Compare

    def compare(
        self,
        baseline: str,
        candidate: str,
        metrics: list[str] | str | None = None,
        *,
        vary: list[str] | str | None = None,
        allow_different: bool | str | list[str] = False,
        cluster: str | None = "group",
        strict_chunker_version: bool = False,
    ) -> Comparison:
        """Compare two runs query by query, on the queries both have.

        It asks about these two, however many there are: the intervals of the metrics that decide
        hold together in 95 % of cases, and better or worse is one that leaves out 0. Of several
        runs the headline also says what all their pairs together leave of it: whoever picks two by
        looking must read that.

        Parameters
        ----------
        baseline, candidate
            Run ids, or systems that only one run has.
        metrics
            Labels, or one: all of them decide. By default all that were scored, of which the
            primary ones decide.
        vary
            Config keys that are meant to differ; a warning names others that differ.
        allow_different
            Components of the provenance that may differ; True or "all" for all.
        cluster
            As for `summary`.
        strict_chunker_version
            Refuse to compare runs of different chunkers instead of falling back to spans or
            documents.

        Returns
        -------
        A `Comparison`: print it, or take its frames `deltas`, `per_query`, `targets`, ...

        Raises
        ------
        DataError
            Unknown or equal runs; different judges of a metric that is compared; a key of `vary`
            that neither run has.

        Warns
        -----
        UserWarning
            Config keys differ that `vary` doesn't declare; only one run has a result field.

        Examples
        --------
        >>> ev.compare("dense", "hybrid")
        """
        scores, chosen = self._scored(metrics)
        return self._compared(
            baseline, candidate, scores, chosen, vary=vary, allow_different=allow_different,
            cluster=cluster, strict_chunker_version=strict_chunker_version,
        )  # fmt: skip

    def _compared(
        self, baseline: str, candidate: str, scores: pd.DataFrame, chosen: list[str] | None = None,
        *, of_all: bool = False, **how: Any,
    ) -> Comparison:  # fmt: skip
        """Compare two runs; with `of_all` by the level, and on the queries, of all runs."""
        from ragscore.analysis.comparison.compare import compare_runs

        self._need_rows(baseline, candidate)
        pair = run_names(self._runs, [baseline, candidate])
        deciding = self.primary if chosen is None else tuple(dict.fromkeys(chosen))
        level, among = None, None
        if (n := len(self.run_ids)) > 2 and not self._is_of_harness:
            asked = self._baseline if self._baseline in pair else None
            level = self._level_of_all(scores, deciding, asked, how.get("cluster", "group"))
            among = None if of_all else (n, level)
        if of_all:
            values = scores[list(deciding)]
            counts = values.groupby(level="query_id").transform("count")
            scores = scores.assign(**values.where(counts == n))
        return compare_runs(
            self.results, self.golden, baseline, candidate, metrics=chosen, scores=scores,
            rule=self._rule, profile=self._profile,
            policies=replace(self._policies, match=self._level),
            primary=deciding, declared=self._declared, level=level if of_all else None, among=among,
            **how,
        )  # fmt: skip

    def leaderboard(
        self,
        metrics: list[str] | str | None = None,
        *,
        baseline: str | None = None,
        runs: list[str] | None = None,
        cluster: str | None = "group",
    ) -> Leaderboard:
        """Rank runs by each metric: the best, and which show no sure difference from it.

        Runs that only report means stand below the others, without rank, interval or test.

        Parameters
        ----------
        metrics
            Labels, or one: all of them are asked about. By default the primary metrics (where no
            run has rows, all reported).
        baseline
            The run that the others are compared with; by default that of the evaluation, if any.
        runs
            Run ids or systems; by default all.
        cluster
            As for `summary`.

        Raises
        ------
        DataError
            An unknown metric, run or `cluster`.

        Examples
        --------
        >>> ev.leaderboard("mrr@10", baseline="dense")
        """
        from ragscore.analysis.leaderboard import leaderboard

        if metrics is None and self.run_ids:
            metrics = list(self.primary)
        scores, chosen = self._scored(metrics, or_told=True)
        whole = replace(self, scores=scores)
        if runs is None and baseline not in self.run_ids and whole._of_systems is not whole:
            return whole._of_systems.leaderboard(chosen, baseline=baseline, cluster=cluster)
        if baseline is None and (runs is None or self._baseline in run_names(self._runs, runs)):
            baseline = self._baseline
        return self._alike(leaderboard(
            scores, metrics=chosen, baseline=baseline, golden=self.golden,
            rows=self._rows, reported=self._reported, runs=runs, cluster=cluster,
            declared=self._declared,
        ))  # fmt: skip

    def trend(
        self,
        metric: str | None = None,
        *,
        order: str | list[str] = "created_at",
        baseline: str | None = None,
        repeats: list[str] | None = None,
    ) -> Trend:
        """Follow a metric over the runs, in segments of runs that may be compared.

        Runs that only report means stand in it, marked as reported.

        Parameters
        ----------
        metric
            A label, a column of your own, or a reported metric; by default the first primary
            metric.
        order
            A column of the runs (`created_at`, `x_position`), or run ids in their order (then only
            these).
        baseline
            The run around which the noise band lies; by default the last group of repeats.
        repeats
            Runs that are repeats of one system; by default those that say so.

        Returns
        -------
        A `Trend`: its `table` with one row per run, notes on every break, and `plot()`.

        Raises
        ------
        DataError
            An unknown metric, run or column.

        Examples
        --------
        >>> ev.trend("mrr@10", order=["bm25", "dense", "hybrid"])
        """
        from ragscore.analysis.trend.history import read_history
        from ragscore.analysis.trend.trend import trend_of

        metric = self.primary[0] if metric is None else metric
        check_type(metric, str, "metric", "one metric")
        scores, names = self._scored(metric, or_told=True)
        results = self.results
        if len(self.golden.targets):  # all are scored by it, whatever set a run was saved with
            runs = results.runs.assign(golden_hash=self.golden.golden_hash)
            results = replace(results, runs=runs)
        history = read_history(
            scores, (names or [metric])[0], golden=self.golden, results=results,
            reported=self._reported, order=order, repeats=repeats, declared=self._declared,
        )  # fmt: skip
        return trend_of(history, baseline)

    def report(
        self,
        path: str | Path | None = None,
        *,
        slices: Sequence[Slicing] | None = None,
        baseline: str | None = None,
        title: str | None = None,
        gate: Mapping[str, float] | None = None,
        rule: str = "threshold",
        history: RunStore | None = None,
        vary: list[str] | str | None = None,
        allow_different: bool | str | list[str] = False,
    ) -> Report:
        """Build a page to decide from, and write it if it has a path.

        The runs, best first, with a picture; the queries that the newest run lost; and sections
        that fold. All words go by `ev.confidence`, on the queries that all runs have.

        Parameters
        ----------
        path
            .html, .md or .json.
        slices
            What to slice by, one section each: names, or lists of names for their combinations. By
            default difficulty, category and lang where the golden set has them.
        baseline
            The run that all others are compared with; by default the newest run is compared with
            the one before it, and with a gate each run.
        gate, rule
            Metric -> largest loss that is allowed, and how that is decided; see `cmp.gate`.
        history
            A store: the trend is drawn over its runs.
        title, vary, allow_different
            The heading of the page; and as for `compare`.

        Returns
        -------
        A `Report`: its frames, `to_html`, `to_markdown`, `to_json` and `write`.

        Raises
        ------
        DataError
            An unknown baseline, slice or metric of `gate`; an ending that names no form; runs that
            `compare` refuses.

        Examples
        --------
        >>> ev.select(["dense", "hybrid"]).report("report.html", gate={"mrr@10": 0.02})
        """
        from ragscore.analysis.comparison.gate import scored_by
        from ragscore.reporting.report import report_runs

        names = [*metric_columns(self.scores), *map(scored_by, gate or {})]
        scores = self._scored(names or None)[0]
        # what this evaluation has tested holds, where no metric was added
        whole = (self if scores is self.scores else replace(self, scores=scores))._against(baseline)
        made = report_runs(
            whole, slices=slices, title=title, gate=gate, rule=rule, history=history, vary=vary,
            allow_different=allow_different,
        )  # fmt: skip
        if path is not None:
            made.write(path)
        return made

    # Refusals, failures, repeats: each an object whose frames are attributes

    def refusals(
        self,
        metrics: Sequence[str] | str | None = None,
        *,
        right: str | None = None,
        threshold: float | None = None,
    ) -> Refusals:
        """Return what each run answers and what it refuses, and how rightly.

        Parameters
        ----------
        metrics
            Metrics of `quality`, of which higher is better and 0 is worst. The default is the
            answer metrics that were scored and have values (judge_correctness, key_facts,
            answer_checks, exact_match, token_f1, rouge_l, ...).
        right
            The metric that says whether an answer is right; higher is better. The default is the
            first of judge_correctness (4 or more of 5), key_facts (all of them) and answer_checks
            that was scored and that every run has; if each is missing in some run, the first that
            any run has.
        threshold
            The least value of `right` that counts as right; 1 for metrics that end there.

        Returns
        -------
        `Refusals`: frames `table`, `decisions`, `quality` and `detection`; its docstring has their
        columns.

        Raises
        ------
        DataError
            An unknown metric; one of which lower values are better; `right` has no upper end at 1
            and no threshold is given.

        Examples
        --------
        >>> ev.refusals().detection[["run_id", "precision", "recall", "f1"]]
        """
        from ragscore.analysis.refusals import refusals

        self._need_rows()
        right = None if right is None else self._named(right)
        chosen = [metrics] if isinstance(metrics, str) else list(metrics or [])
        chosen = [self._named(name) for name in chosen]
        scores, _ = self._scored([*DECIDED_BY, *([right] if right else []), *chosen])
        return refusals(
            scores, self.golden, chosen or None, right=right, threshold=threshold,
            declared=self._declared,
        )  # fmt: skip

    def risk_coverage(
        self,
        *,
        right: str | None = None,
        threshold: float | None = None,
        refusals: str = "kept",
    ) -> RiskCoverage:
        """Return the risk and the coverage that a threshold on the top hit's score would give.

        Parameters
        ----------
        right, threshold
            The metric that says that an answer is right, as for `refusals`; a ranking metric such
            as "hit@5" will do.
        refusals
            "kept": the threshold comes on top of the run's own refusals. "replaced": it takes their
            place. What the system would have answered there is unknown, so that only a ranking
            metric can say whether it would have been right.

        Returns
        -------
        `RiskCoverage`: frames `curve` and `areas`; its docstring has the columns.

        Raises
        ------
        DataError
            No metric says which answers are right; `refusals="replaced"` with a metric that reads
            the answer.

        Warns
        -----
        UserWarning
            A run has no curve: its top hits have no score, or scores of several kinds, or no query
            is known to be answered rightly or wrongly.

        Examples
        --------
        >>> curve = ev.risk_coverage(right="hit@5").curve
        >>> curve[curve["risk"] <= 0.3].drop_duplicates("run_id")[["run_id", "threshold"]]
        """
        from ragscore.analysis.risk_coverage import risk_coverage

        right = None if right is None else self._named(right)
        scores, _ = self._scored([*DECIDED_BY, *([right] if right else [])])
        return self._alike(risk_coverage(
            scores, self.golden, self.results, right=right,
            threshold=threshold, refusals=refusals, declared=self._declared,
        ))  # fmt: skip

    def failures(
        self,
        *,
        hit: str | None = None,
        right: str | None = None,
        threshold: float | None = None,
    ) -> Failures:
        """Return what spoilt each answer: retrieval, generation, or nothing (error attribution).

        Parameters
        ----------
        hit
            The 0/1 metric that says whether retrieval found the right thing. By default hit@k, k
            the smallest of the runs' own, or 5 where that is unknown or wasn't scored.
        right, threshold
            The metric that says that an answer is right, as for `refusals`.

        Returns
        -------
        `Failures`: frames `table` and `per_query`, methods `changes` and `transitions` of two runs;
        its docstring has the columns.

        Raises
        ------
        DataError
            An unknown metric; `hit` is not 0/1; no metric says which answers are right.

        Examples
        --------
        >>> ev.failures().transitions("dense", "hybrid")
        """
        from ragscore.analysis.failure_causes import failures

        hit = None if hit is None else self._named(hit)
        right = None if right is None else self._named(right)
        asked = [name for name in (hit, right) if name]
        scores, _ = self._scored([*DECIDED_BY, *TABLE.labels({"hit@k"}), *asked])
        return failures(
            scores, self.golden,
            self.results, hit=hit, right=right, threshold=threshold, declared=self._declared,
        )  # fmt: skip

    def repeats(
        self,
        metric: str,
        k: int,
        threshold: float | None = None,
        *,
        runs: pd.DataFrame | list[str] | None = None,
    ) -> Repeats:
        """Return pass@k and pass^k of every query and system, from its repeated runs.

        Parameters
        ----------
        metric
            A repeat succeeds at `threshold` of it or better, in the metric's own direction.
        k
            The number of repeats drawn, from 1 to their number.
        threshold
            By default 1 where higher is better and 0 where lower is; metrics of time and cost need
            one.
        runs
            Run ids that are repeats of one system. By default runs of the same `system`, told apart
            by `repeat`; a frame with these two columns and run_id says so itself.

        Returns
        -------
        `Repeats`: frames `summary` and `per_query`; its docstring has their columns.

        Raises
        ------
        DataError
            k is not in 1..n; an unknown metric; runs without a system; a query is missing from a
            repeat, or has no finite value in one repeat but has in another; two runs of a system
            are the same `repeat`.

        Examples
        --------
        >>> ev.repeats("passed", 2, runs=["dense", "hybrid"]).summary
        """
        from ragscore.analysis.repeats import repeats

        name = self._named(metric)
        scores, _ = self._scored(name)
        chosen = self.results.runs if runs is None else runs
        return repeats(scores, name, k, threshold, runs=chosen, declared=self._declared)

    def average_repeats(self) -> Evaluation:
        """Average the repeats of each system query by query, so that every query counts once.

        Five runs of one system on 50 queries know as much about other queries as 50 do. Runs of one
        `system` that have a `repeat` are averaged, and called by the system from then on; all
        others stay as they are. What is returned has no `results`: it summarizes, slices and ranks
        what was scored. Where the golden set has no targets, it has those of the first repeat, and
        compares, too.

        Raises
        ------
        DataError
            Two runs of a system are the same repeat, or another run has the system's name as its
            run_id.

        Warns
        -----
        UserWarning
            Queries that some repeats were not asked; they are averaged over the others.

        Examples
        --------
        >>> ev.average_repeats().leaderboard("mrr@10")
        """
        from ragscore.analysis.repeats import average_names, average_repeats

        scores = average_repeats(self.scores, self.results.runs)
        names = average_names(self.results.runs, pd.Series(self.run_ids))
        settings = self.settings.assign(run_id=names.to_numpy()).drop_duplicates("run_id")
        source = None
        if not len(self.golden.targets):  # no rank is compared
            source = averaged(self.results, names.set_axis(self.run_ids))
        baseline = dict(zip(self.run_ids, names, strict=True)).get(self._baseline or "")
        return replace(
            self, scores=scores, settings=settings.reset_index(drop=True), _source=source,
            _baseline=baseline,
        )  # fmt: skip

    def golden_health(
        self,
        metric: str = "passed",
        *,
        differences: tuple[float, ...] = (0.02, 0.05, 0.1),
    ) -> GoldenHealth:
        """Measure how well the golden set tells runs apart, and find its gaps.

        The more different runs there are, the more it tells; a single run can't show which queries
        discriminate.

        Parameters
        ----------
        metric
            A metric from 0 to 1, higher being better.
        differences
            Differences of the metric's mean that should be detectable.

        Returns
        -------
        `GoldenHealth`: frames `summary`, `queries`, `targets` and `needed`; its docstring has their
        columns.

        Raises
        ------
        DataError
            An unknown metric, or one that doesn't range from 0 (bad) to 1 (good); a difference that
            isn't above 0.

        Examples
        --------
        >>> ev.golden_health("hit@5").queries.query("discriminates == 'all fail'")
        """
        from ragscore.golden.health import golden_health

        name = self._named(metric)
        scores, _ = self._scored(name)
        return golden_health(
            scores,
            self.golden,
            self.results,
            name,
            differences=differences,
            declared=self._declared,
        )

    # Provenance, other tools

    def provenance(self, metrics: list[str] | str | None = None) -> pd.DataFrame:
        """Return what each run was measured by: equal rows mean that scores are comparable.

        Returns
        -------
        One row per run and component, with its `hash` and its `content` in words. Components:
        *golden*, the queries and what is expected of each; *rule* and match level; *policies*;
        *judge_fingerprint*, judge, prompt and temperature of every criterion among the metrics;
        *metric_versions*; *fields*, the result fields present that decide how a metric is measured
        (NA content: none of these metrics depends on any).

        Raises
        ------
        DataError
            An unknown metric.

        Examples
        --------
        >>> ev.provenance("mrr@10")
        """
        from ragscore.scoring.provenance import provenance_frame, provenance_of

        if metrics is not None:
            metrics = [self._named(name) for name in names_of(metrics, "metrics")]
        names = metrics or metric_columns(self.scores)
        found = scored(
            self.results, self.golden, ["failed"], rule=self._rule, profile=self._profile,
            policies=replace(self._policies, match=self._level),
        )  # fmt: skip
        parts = provenance_of(found.rows, found.policies, names, self._declared)
        frame = provenance_frame(parts, names, self._declared)
        return frame.astype({"run_id": self.results.runs["run_id"].dtype})

    def to_profile(self, profile: str | Reading) -> dict[str, dict[str, Any]]:
        """Return the aggregates that another harness would have reported.

        Returns
        -------
        {run_id: its JSON object}, rounded as that harness rounds; None where it writes null.

        Raises
        ------
        DataError
            An unknown profile.

        Examples
        --------
        >>> ev.to_profile("trec")
        """
        from ragscore.scoring.harness import aggregate

        return aggregate(self.results, self.golden, profile)

    def save_metrics_json(
        self,
        path: str | Path,
        profile: str | Reading = "chatbot",
        *,
        agreement: pd.DataFrame | None = None,
    ) -> Path:
        """Write one run's aggregates as the `metrics.json` of the chatbot harness.

        Parameters
        ----------
        path
            A file that ends in .json, or a folder.
        profile
            Whose means are written.
        agreement
            Of the judge with a second one (`judged.spot_check`), written as `judge_reliability`.

        Raises
        ------
        DataError
            More than one run; no target at the match level of the profile.

        Examples
        --------
        >>> ev.select("dense").save_metrics_json("metrics.json", profile="kebab")
        """
        from ragscore.analysis.harness_files import write_metrics_json

        return write_metrics_json(
            self.results, self.golden, path, profile=profile, agreement=agreement
        )

    # What it prints

    def _parts(self) -> list[str | Table]:
        n, alone = len(self.run_ids), list[str | Table]()
        title = f"Evaluation: {plural(n, 'run')} × {len(self.golden.queries)} queries"
        if self._reported is not None:
            from ragscore.analysis.reported import shown_reported

            told = shown_reported(self._reported, self.primary)
            heading = f"{plural(len(told), 'run')} without rows, as reported"
            if not n:
                return [f"Evaluation: {heading}", Table(told), *self._notes()]
            alone = [Table(told, heading)]
        if n and not self.primary:
            bare = "No labels, and no stored scores: no metric can be computed."
            ways = " ev.compare(a, b) shows how far two rankings overlap." if n > 1 else ""
            return [title, f"{bare}{ways}", *alone]
        board = self._of_systems._board
        notes = dict.fromkeys([*board.notes(), *self._notes()])
        return [title, self._of_systems._standings(board), *alone, *notes]

    @cached_property
    def _of_systems(self) -> Evaluation:
        """Return it with the repeats of each system averaged; itself where there are none."""
        if self._is_of_harness or not self._repeats:
            return self
        with unsaid("queries that some repeats were not asked"):
            return self.average_repeats()

    @cached_property
    def _repeats(self) -> dict[str, list[str]]:
        """The runs of each system that are its repeats; results of a store are not read for it."""
        from ragscore.analysis.repeats import average_names

        if not isinstance(self._source, Results):
            return {}
        names = average_names(self._source.runs, pd.Series(self.run_ids))
        runs = pd.Series(self.run_ids).groupby(names.to_numpy(), sort=False).agg(list)
        return {str(name): own for name, own in runs.items() if len(own) > 1}

    @cached_property
    def _board(self) -> Leaderboard:
        """Return the leaderboard that is printed: what decides, and medians of times and costs.

        Without a word where another harness has none, and of so many runs that no pairs are read.
        """
        from ragscore.analysis.leaderboard import bare_leaderboard, leaderboard

        medians = [one for one in MEDIANS if one in self.scores and self.scores[one].notna().any()]
        names = list(dict.fromkeys([*self.primary, *medians]))
        # results of a store are not read to be printed
        rows = self._rows if isinstance(self._source, Results) else None
        if len(self.run_ids) > MOST_RUNS or self._is_of_harness:
            means = summarize(
                self.scores, self.golden, metrics=names, rows=rows, table=self._declared
            )
            return bare_leaderboard(means, names, self._declared)
        return self._alike(leaderboard(
            self.scores, names, baseline=self._baseline, primary=self.primary, golden=self.golden,
            rows=rows, declared=self._declared,
        ))  # fmt: skip

    def _standings(self, board: Leaderboard) -> Table:
        """Return one row per run, best first, with the number of its failed queries if any has."""
        table = board._standings(SHOWN_RUNS)
        is_failed = self.scores["state"].eq("failed").to_numpy()
        failed = self.scores.loc[is_failed, "run_id"].astype("str").value_counts()
        if not len(failed):
            return table
        counts = failed.reindex(board._run_ids, fill_value=0).to_numpy()
        return replace(table, frame=table.frame.assign(failed=counts))

    def _notes(self) -> list[str]:
        """Return what a reader must know beside the means: matching, and what is missing."""
        notes = [self._matched()] if self.run_ids else []
        if self._reported is not None:
            alone = self._reported.runs["run_id"].astype("str").tolist()
            notes.append(
                f"No rows, only reported aggregates: {name_list(alone)}. Trend, leaderboard and"
                " report show them, marked; nothing of them is scored here."
            )
        of_golden = pd.Index(self.golden.queries["query_id"])
        notes += filter(None, [clusters_text(self.golden, of_golden, "group")])
        for system, own in self._repeats.items():
            asked = self.scores[
                self.scores["run_id"].isin(own) & self.scores["state"].ne("missing")
            ]
            n = int(asked.index.value_counts().gt(1).sum())
            notes.append(
                f"{system}: {len(own)} runs, averaged; {plural(n, 'query')} asked more than once"
                " (ev.repeats has their spread)."
            )
        more = len(self.run_ids) - SHOWN_RUNS
        if more > 0:
            notes.append(f"{more} more runs: see .summary().")
        run, state = (self.scores[name].astype("str") for name in ("run_id", "state"))
        counts = pd.crosstab(run, state)
        policies = self._policies
        texts = {
            "missing": _MISSING[policies.missing],
            "failed": "Failed queries, scored on the hits they have",
            "extra": "Rows without a golden query, in no mean of quality",
        }
        for name, text in texts.items():
            found = counts[name] if name in counts else pd.Series(dtype="int64")
            if listed := [f"{run_id} {n}" for run_id, n in found[found > 0].items()]:
                notes.append(f"{text}: {', '.join(listed[:SHOWN_RUNS])}.")
        if isinstance(self._source, Results) and set(REFUSALS) & set(self.scores):
            notes += filter(None, [unstated_text(self._source)])
        bases = {re.split("[@:]", str(name))[0] for name in self.scores}
        names = [name for name in _GAINS if name in bases]
        targets = self.golden.targets
        if names and "gain" in targets:
            gains = ", ".join(f"{one:g}" for one in sorted(targets["gain"].unique()))
            notes.append(f"Labels state gains: {gains}, by which {name_list(names)} goes.")
        if "judged_by" in targets and (n := int(targets["judged_by"].notna().sum())):
            judges = name_list(targets["judged_by"].dropna().unique())
            notes.append(f"Labels by a judge: {n} of {len(targets)} ({judges}).")
        if bare := self._without_hits():
            notes.append(
                f"No row of {name_list(bare)} has any hit: ranking metrics are 0. Where a system"
                " records no hits, ask for other metrics."
            )
        answerable = self.golden.queries["answerable"]
        if (n := int(answerable.isna().sum())) and self._is_matched:
            notes.append(f"Queries without any label: {n}. They count in no ranking metric.")
        if n := len(self.golden.refusals):
            notes.append(f"Queries that should be refused: {n}, judged by their refusal alone.")
        return notes

    def _without_hits(self) -> list[str]:
        """Return the runs of which no answered query has a hit, as far as the scores tell."""
        if not len(self.golden.targets):
            return []
        if "empty" not in self.scores:
            # Results of a store are not read to be printed.
            return runs_without_hits(self._source) if isinstance(self._source, Results) else []
        rows = self.scores[self.scores["state"].eq("scored").to_numpy()]
        is_empty = rows["empty"].groupby(rows["run_id"].astype("str"), sort=False).min() == 1
        return is_empty.index[is_empty].tolist()

    @property
    def _is_matched(self) -> bool:
        """False if there is nothing to match hits with, and no metric of rankings."""
        labels = map(self._declared.label_of, metric_columns(self.scores))
        return bool(len(self.golden.targets)) or any(label.is_ranking for label in labels)

    def _matched(self) -> str:
        if not self._is_matched:
            return "Nothing is matched: no document is expected."
        level = self.settings["level"].astype("str").unique().tolist()
        left_out = [text for text in self.settings["left_out"].unique() if text]
        why = f" ({'; '.join(left_out)})" if left_out else ""
        rule = "" if self._rule is None else ", by a rule of your own"
        return f"Matched by {', '.join(level)}{rule}{why}."

    # Scores of metrics that are asked for later

    @property
    def _known_results(self) -> Results | None:
        return None if self._source is None else self.results

    @property
    def _runs(self) -> pd.DataFrame:
        return self.settings if self._source is None else self.results.runs

    @property
    def _level(self) -> str:
        return str(self.settings["level"].iloc[0]) if len(self.settings) else "auto"

    def _scored(
        self, metrics: list[str] | str | None, *, or_told: bool = False
    ) -> tuple[pd.DataFrame, list[str] | None]:
        """Return scores that have these metrics, and their names as the scores have them.

        With `or_told`, metrics that runs only report need not be ours.
        """
        if metrics is None:
            return self.scores, None
        given = names_of(metrics, "metrics", "labels, such as 'mrr@10'")
        if not given:
            self._need_metrics()
            raise DataError("found none", field="metrics", allowed="at least one, such as 'mrr@10'")
        # without a run to score, what is reported needs no score
        others = set[str]()
        if or_told and self._reported is not None:
            from ragscore.analysis.reported import aggregates

            told = aggregates(self._reported)["metric"]
            others = {
                name for name in told if not (self.run_ids and (TABLE.find(name) is not None))
            }
        names = [name if name in others else self._named(name) for name in given]
        known = {*self.scores, *others}
        lacking = [name for name in dict.fromkeys(names) if name not in known]
        if not lacking:
            return self.scores, names
        own = {one.name: one for one in self._declared.own}
        asked = [own.get(self._declared.parse(name).metric.name, name) for name in lacking]
        more = scored(
            self.results, self.golden, asked, rule=self._rule, profile=self._profile,
            policies=replace(self._policies, match=self._level),
        ).scores.reset_index()  # fmt: skip
        return add_columns(self.scores, more, lacking, partial=True), names

    def _need_rows(self, *runs: str) -> None:
        """Refuse a question about queries of runs that only report aggregates, or of no others."""
        from ragscore.analysis.reported import refuse_without_rows

        alone = self._reported.runs["run_id"].astype("str") if self._reported is not None else ()
        refuse_without_rows(runs if runs or self.run_ids else alone, self._reported)

    def _need_metrics(self) -> None:
        """Refuse a question about metrics where there is none: neither labels nor stored scores."""
        if not metric_columns(self.scores):
            raise DataError(
                "no metric: there are no labels, and the runs hold no scores",
                field="golden",
                allowed="rs.evaluate(results, golden); without labels, ev.compare(a, b) shows how"
                " far two rankings overlap",
            )

    def _named(self, metric: str) -> str:
        """Return the name that a metric has in the scores."""
        check_type(metric, str, "metric", "the name of one metric")
        return metric if metric in self.scores else self._declared.parse(metric).text


# What is said of golden queries without a row, and of failed queries, by their policy.
_MISSING = {
    "exclude": "Golden queries without a row, left out of the means",
    "zero": "Golden queries without a row, counted as failures",
}
_GAINS = ("ndcg", "ndcg_linear")


# Functions of the module, so that an evaluation that has them as its source can be pickled.
def _loaded(store: RunStore, runs: list[str]) -> Results:
    return store.load(runs)


def _selected(ev: Evaluation, runs: list[str], queries: set[str] | None) -> Results:
    return ev.results.select(runs, queries)


takes(Evaluation.compare, Policies)(compare)
takes(Policies)(evaluate_stored)

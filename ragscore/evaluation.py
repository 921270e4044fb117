"""One object to ask: golden set, results and scores together, and the verbs on them.

`evaluate` loads what isn't loaded, scores it once and returns an `Evaluation`. Its methods fill in
what the functions behind them need, so that nothing is passed twice and nothing forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ragscore.analysis.repeats import of_runs, sides_named
from ragscore.analysis.reported import with_rows
from ragscore.frames.data import (
    DataError,
    Golden,
    Results,
    check_inputs,
    check_type,
    run_names,
    runs_without_hits,
)
from ragscore.frames.errors import name_list, names_of, plural, warn
from ragscore.frames.tables import Display, Table
from ragscore.frames.verbs import Accessor, EvaluationVerbs, takes
from ragscore.io.load import load_golden, load_results, with_labels
from ragscore.scoring.explain import explain
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.scoring.own import with_own
from ragscore.scoring.policies import Policies
from ragscore.scoring.primary import REFUSALS, primary_of
from ragscore.scoring.readings import HARNESSES, Reading, find_reading
from ragscore.scoring.refusals import unstated_text
from ragscore.scoring.rows import Rows
from ragscore.scoring.rules import Rule
from ragscore.scoring.score import Asked, asked_of, scores_later
from ragscore.scoring.stored import (
    deciding_of,
    golden_of,
    scored_and_stored,
)
from ragscore.scoring.summary import (
    Slicing,
    add_columns,
    metric_columns,
    summarize,
)
from ragscore.scoring.turns import with_turns

if TYPE_CHECKING:
    from ragscore.analysis.comparison.model import Comparison
    from ragscore.analysis.failure_causes import Failures
    from ragscore.analysis.leaderboard import Leaderboard
    from ragscore.analysis.query_view import QueryView
    from ragscore.analysis.refusals import Refusals
    from ragscore.analysis.repeats import Repeats
    from ragscore.analysis.trend import Trend
    from ragscore.golden.coverage import Coverage
    from ragscore.store.store import RunStore

OF_WORDS = ("exact_match", "token_f1", "rouge_l")  # a weak sign beside what a judge says
SHOWN_RUNS = 20  # runs in the printed table
MOST_RUNS = 100  # of more, no pairs are compared to print an evaluation
MEDIANS = ("latency_ms", "cost_usd")  # beside the metrics that decide


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
    **policies: str,
) -> Evaluation:
    """Score runs against a golden set, and keep all three together.

    Without a golden set, the scores that another tool stored are the metrics, and labels beside
    them in their file count. Runs are then paired by the ids of their queries.

    Runs without rows, of which a folder holds aggregates alone, are left out: a `RunStore` keeps
    them, and shows them in its trends.

    Parameters
    ----------
    results, golden
        `Results` and `Golden`, or whatever `rs.load_results` and `rs.load_golden` take: paths,
        patterns, frames, dicts, records. None: no golden set.
    metrics
        Labels, or one; by default about 15, by what the data supports, "all" for every metric of
        `rs.metrics()` that is marked so. Without a golden set: all that have a value. Others are
        scored when they are asked for, stored ones by their names. Metrics of your own are
        what `rs.metric` returns; "default" in a list means the default ones.
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
    policies
        `match` "auto", a level, or "per_query"; `missing` "exclude" or "zero"; `collapse` "none" or
        "doc"; `ties` as in `rs.match.rank_hits`. What is given goes before a profile's.

    Raises
    ------
    DataError
        Input that can't be read or joined; an unknown metric, policy or profile. Files that
        contradict each other about a stored metric.

    Warns
    -----
    UserWarning
        Runs without rows; without a golden set, one id for different inputs.

    Examples
    --------
    >>> rs.evaluate("data/demo/runs/*/per_query.jsonl", "data/demo/golden.yaml")
    """
    given = Policies.of(policies, find_reading(profile).policies)
    if golden is None:
        results, labelled = with_labels(results)
    else:
        golden, labelled = golden if isinstance(golden, Golden) else load_golden(golden), []
        results = results if isinstance(results, Results) else load_results(results)
    return _evaluated(results, golden, labelled, metrics, rule, profile, primary, given)._against(
        baseline
    )


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
    results, is_alone = with_rows(results), golden is None
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
    ev = Evaluation(
        golden, found.scores, found.settings.assign(primary=", ".join(deciding)),
        deciding, found.policies, found.reading if profile else None, rule, results, found.table,
        _runs=results.runs, _stored=tuple(stored),
    )  # fmt: skip
    vars(ev).update(_rows=found.rows)
    return ev


def compare(
    baseline: Any,
    candidate: Any,
    golden: Any = None,
    metrics: Asked = None,
    *,
    primary: list[str] | str | None = None,
    **how: Any,
) -> Comparison:
    """Compare two runs of two sources: `rs.evaluate` and `Evaluation.compare` in one line.

    Repeats of a side (epochs, trials) are averaged first: intervals count queries, and not repeats.

    Parameters
    ----------
    baseline, candidate
        Each whatever `rs.load_results` takes: one run, or the repeats of one system.
    golden, metrics, primary
        As for `rs.evaluate`. Without a golden set, stored scores are compared.
    how
        As for `Evaluation.compare`, and the policies of `rs.evaluate`. Metrics that are named
        decide.

    Raises
    ------
    DataError
        A side with several systems; what `rs.evaluate` and `Evaluation.compare` refuse.

    Examples
    --------
    >>> demo = "data/demo/runs/{}/per_query.jsonl"
    >>> rs.compare(demo.format("dense"), demo.format("hybrid"), "data/demo/golden.yaml")
    """
    given = Policies(**{name: how.pop(name) for name in Policies.ALLOWED.keys() & how.keys()})
    if primary is None:
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
    return _evaluated(
        Results.concat(named), golden, labelled, metrics, None, None, primary, policies
    )._of_systems


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
    **policies: str,
) -> Evaluation:
    """Score stored runs group by group, and return the object of `rs.evaluate`.

    Results are read when they are first asked for, then whole.

    Parameters
    ----------
    golden, metrics, rule, profile, primary, baseline, policies
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
            baseline=baseline, **policies,
        )  # fmt: skip
    golden = replace(golden) if isinstance(golden, Golden) else load_golden(golden)
    given = Policies.of(policies, find_reading(profile).policies)
    found, settings, saved = store._evaluated(
        golden, metrics, runs, client=client, rule=rule, profile=find_reading(profile),
        policies=given,
    )  # fmt: skip
    run_ids = settings["run_id"].astype("str").tolist()
    golden = store._with_turns(golden, run_ids[0])
    primary = primary or (saved if saved and {*saved} <= {*found.scores} else None)
    deciding = primary_of(found.scores, primary, found.table)
    return Evaluation(
        golden, found.scores, settings.assign(primary=", ".join(deciding)), deciding,
        given, find_reading(profile) if profile else None, rule, partial(store.load, run_ids),
        found.table, _among=tuple(store._by_saving()), _runs=store._about(run_ids),
    )._against(baseline)  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(EvaluationVerbs, Display):
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
    _source: Any = None  # the results, or a function that returns them
    _declared: MetricTable = TABLE  # our metrics, and those that belong to this evaluation
    _baseline: str | None = None  # the run that the others are compared with
    _among: tuple[str, ...] = ()  # the runs that these were selected from
    _runs: pd.DataFrame = field(default_factory=pd.DataFrame)  # what each run says of itself
    _stored: tuple[str, ...] = ()  # metrics whose values another tool stored
    _repeated: Evaluation | None = None  # the evaluation whose repeats are averaged in this one

    plot = Accessor("ragscore.plot.accessor:EVALUATION")

    @property
    def confidence(self) -> float:
        """Confidence of each interval of a primary metric's difference.

        So that the intervals of all pairs of runs, or with a baseline of its pairs, hold together
        in 95 % of cases.
        """
        return 1 - self._level_of_all(self.primary, self._baseline)

    def _level_of_all(
        self, metrics: Sequence[str], baseline: str | None, cluster: str | None = "group"
    ) -> float:
        """Return the level of each interval of these metrics at which all pairs' hold together."""
        from ragscore.analysis.comparison.align import align
        from ragscore.analysis.leaderboard import level_of_all

        aligned = align(self.scores, list(metrics), None, self._declared)
        groups = query_clusters(self.golden, aligned.query_ids, cluster)
        return level_of_all(aligned, baseline, groups)

    @property
    def _in_order(self) -> list[str]:
        """All runs in the order that gives each its look."""
        return list(self._among or self.run_ids)

    def _alike(self, found: Any) -> Any:
        """Return what draws itself with the looks that its runs have here."""
        object.__setattr__(found, "_in_order", self._in_order)
        return found

    def _against(self, baseline: str | None) -> Evaluation:
        """Return the evaluation with this baseline, or without one."""
        named = None if baseline is None else run_names(self._runs, [baseline])[0]
        return self._with(_baseline=named)

    def _with(self, **fields: Any) -> Evaluation:
        """Return it with more scores or a baseline; what was worked out of its rows stays."""
        if all(getattr(self, name) is value for name, value in fields.items()):
            return self
        found = replace(self, **fields)
        known = ("results", "_rows", "_repeats")
        found.__dict__.update({name: one for name, one in vars(self).items() if name in known})
        return found

    @cached_property
    def results(self) -> Results:
        """The results behind the scores; of averaged repeats, the first one's."""
        held: Results = self._source if isinstance(self._source, Results) else self._source()
        return held

    @cached_property
    def _rows(self) -> Rows:
        """What is known of each row of the scores."""
        reading = find_reading(self._profile)
        golden, of_hits = reading._golden(self.golden)
        lists = self._policies.lists(self.results)
        level = Level.of(lists, of_hits, self._level)
        rows = Rows(lists, golden, level, of_hits, self._rule, reading)
        rows.seen = self.results.hits
        return rows

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
        """Return the evaluation of some runs, or of some queries; nothing is scored again.

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
        names = self.run_ids if runs is None else run_names(self._runs, runs)
        golden = self.golden if queries is None else self.golden.select(queries)
        kept = None if queries is None else {*golden.queries["query_id"]}
        run_id = self.scores["run_id"].cat.set_categories(names)
        scores = self.scores.assign(run_id=run_id)[run_id.notna().to_numpy()]
        if kept is not None:
            scores = scores[scores.index.isin(kept)]
        if runs is not None:
            scores = scores.iloc[np.argsort(scores["run_id"].cat.codes, kind="stable")]
        settings = of_runs(self.settings, names).assign(n_expected=len(golden.queries))
        return replace(
            self,
            golden=golden,
            scores=scores,
            settings=settings,
            _baseline=self._baseline if self._baseline in names else None,
            _among=tuple(self._in_order),
            _source=partial(_selected, self, names, kept),
            _runs=of_runs(self._runs, names),
        )

    def with_columns(
        self,
        frame: pd.DataFrame,
        columns: list[str] | str | None = None,
        *,
        better: str | None = None,
        range: tuple[float | None, float | None] | None = None,
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
            "higher" or "lower". Without it, comparisons have no word for the difference.
        range
            (lowest, highest) value, None for no bound. Direction and range belong to this
            evaluation and to what is made of it.
        partial
            Queries may be absent from the frame. They are NaN either way; without `partial`, a
            warning counts those that were answered.
        primary
            The metrics that decide from then on, yours or others that were scored; by default as
            before.

        Raises
        ------
        DataError
            Queries that the scores don't have, or one of them twice; a name that is taken; a value
            outside `range`.

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
        declared = self._declared.with_metrics(with_own(name, better, range) for name in chosen)
        for name in chosen:
            declared.describe(name).refuse_outside(scores[name], name)
        found = self._with(scores=scores, _declared=declared)
        return found if primary is None else found._decided_by(primary)

    def _decided_by(self, primary: list[str] | str) -> Evaluation:
        """Return the evaluation with other metrics that decide, scored where they weren't yet."""
        named = names_of(primary, "primary")
        scores, _ = self._scored(named)
        deciding = primary_of(scores, named, self._declared)
        settings = self.settings.assign(primary=", ".join(deciding))
        return self._with(scores=scores, primary=deciding, settings=settings)

    def _with_scored(self, metrics: Iterable[str]) -> Evaluation:
        """Return the evaluation with these metrics among its scores; what decides stays."""
        return self._with(scores=self._scored([*metrics] or None)[0])

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
            A column of `golden.queries`, a kind of tag, or "mode", as each response states it; or
            several. A query with several tags counts in each slice, one without in `(none)`.
        cluster
            The column of `golden.queries` whose equal values make queries depend on each other
            (paraphrases, a source, a conversation). Intervals and tests allow for it. None: every
            query is independent.

        Returns
        -------
        One row per run, slice and metric: `mean`; `low`, `high`, its 95 % interval (Wilson for 0/1
        metrics, Wilson's form with the effective n for bounded ones, else t, or a bootstrap-t where
        values are skewed; NaN where equal values show no spread); `n`, the queries in the mean;
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
            metrics = list(dict.fromkeys([*TABLE.labels(), *metric_columns(self.scores)]))
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

        scores, chosen = self._scored(list(self.primary) if metrics is None else metrics)
        return slice_means(
            scores, self.golden, by, chosen, rows=self._rows, cluster=cluster,
            min_n=min_n, declared=self._declared,
        )  # fmt: skip

    def explain(self, metrics: list[str] | str | None = None) -> pd.DataFrame:
        """Explain for every query why it counts in a metric's mean, or why it doesn't.

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

        What each call asked, found first and repeated, and earlier turns of a conversation, come
        first.

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

        return show_query(self._rows, query_id, runs)

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
        whole = self._with(scores=scores)
        if not all(one in self.run_ids for one in (baseline, candidate)):
            whole = whole._of_systems  # whoever names a system means all its repeats
        return whole._compared(
            baseline, candidate, chosen, vary=vary, allow_different=allow_different,
            cluster=cluster, strict_chunker_version=strict_chunker_version,
        )  # fmt: skip

    def _compared(
        self, baseline: str, candidate: str, chosen: list[str] | None = None,
        *, of_all: bool = False, **how: Any,
    ) -> Comparison:  # fmt: skip
        """Compare two runs; with `of_all` by the level, and on the queries, of all runs."""
        from ragscore.analysis.comparison.compare import compare_runs

        pair, scores = run_names(self._runs, [baseline, candidate]), self.scores
        deciding = self.primary if chosen is None else tuple(dict.fromkeys(chosen))
        level, among = None, None
        if (n := len(self.run_ids)) > 2 and not self._is_of_harness and not self._repeats:
            asked = self._baseline if self._baseline in pair else None
            level = self._level_of_all(deciding, asked, how.get("cluster", "group"))
            among = None if of_all else (n, level)
        if of_all:
            values = scores[list(deciding)]
            counts = values.groupby(level="query_id").transform("count")
            scores = scores.assign(**values.where(counts == n))
        return compare_runs(
            self._rows, *pair, metrics=chosen, scores=scores, policies=self._policies,
            primary=deciding, declared=self._declared, level=level if of_all else None, among=among,
            averaged=" ".join(self._asked_again()), **how,
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

        Parameters
        ----------
        metrics
            Labels, or one: all of them are asked about. By default the primary metrics.
        baseline
            The run that the others are compared with; by default the evaluation's, if any.
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
        scores, chosen = self._scored(metrics)
        whole = self._with(scores=scores)
        if runs is None and baseline not in self.run_ids and whole._of_systems is not whole:
            return whole._of_systems.leaderboard(chosen, baseline=baseline, cluster=cluster)
        if baseline is None and (runs is None or self._baseline in run_names(self._runs, runs)):
            baseline = self._baseline
        return self._alike(leaderboard(
            scores, metrics=chosen, baseline=baseline, golden=self.golden,
            rows=self._rows, runs=runs, cluster=cluster,
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

        Parameters
        ----------
        metric
            A label, or a column of your own; by default the first primary metric.
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
        from ragscore.analysis.history import JUDGED, read_history
        from ragscore.analysis.trend import trend_of

        name = self._named(self.primary[0] if metric is None else metric)
        scores, _ = self._scored(name)
        # all are scored by one set, whatever set a run was saved with
        runs = self._runs
        if len(self.golden.targets):
            runs = runs.drop(columns="golden_hash", errors="ignore")
        history = read_history(
            scores, name, golden=self.golden, runs=runs, order=order, repeats=repeats,
            results=self.results if name in JUDGED else None, declared=self._declared,
        )  # fmt: skip
        return trend_of(history, baseline)

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
        from ragscore.analysis.decisions import DECIDED_BY
        from ragscore.analysis.refusals import refusals

        right = None if right is None else self._named(right)
        chosen = [self._named(name) for name in names_of(metrics or [], "metrics")]
        scores, _ = self._scored([*DECIDED_BY, *([right] if right else []), *chosen])
        return refusals(
            scores, self.golden, chosen or None, right=right, threshold=threshold,
            declared=self._declared, repeats=self._repeats,
        )  # fmt: skip

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
        from ragscore.analysis.decisions import DECIDED_BY
        from ragscore.analysis.failure_causes import default_hit, failures

        known = {*self.scores, *TABLE.labels({"hit@k"})}
        hit = default_hit(self._runs, known) if hit is None else self._named(hit)
        right = None if right is None else self._named(right)
        scores, _ = self._scored([*DECIDED_BY, hit, *([right] if right else [])])
        return failures(
            scores, self.golden, hit=hit, right=right, threshold=threshold,
            declared=self._declared, repeats=self._repeats,
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
            Run ids that are repeats of one system. By default runs of the same `system` with
            different `repeat`; a frame with these two columns and run_id says so itself.

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
        runs = self._runs if runs is None else runs
        return repeats(scores, name, k, threshold, runs=runs, declared=self._declared)

    # What it prints

    def _parts(self) -> list[str | Table]:
        n = len(self.run_ids)
        title = f"Evaluation: {plural(n, 'run')} × {plural(len(self.golden.queries), 'query')}"
        if n and not self.primary:
            bare = "No labels, and no stored scores: no metric can be computed."
            ways = " ev.compare(a, b) shows how far two rankings overlap." if n > 1 else ""
            return [title, f"{bare}{ways}"]
        board = self._of_systems._board
        notes = dict.fromkeys([*board.notes(), *self._notes()])
        return [title, board._ranked(SHOWN_RUNS), *notes]

    @cached_property
    def _of_systems(self) -> Evaluation:
        """Return it with the repeats of each system averaged; itself where there are none."""
        from ragscore.analysis.repeats import of_systems

        return of_systems(self) if self._repeats and not self._is_of_harness else self

    @cached_property
    def _repeats(self) -> dict[str, list[str]]:
        """The runs of each system that are its repeats."""
        from ragscore.analysis.repeats import average_names

        names = average_names(self._runs, pd.Series(self.run_ids))
        runs = pd.Series(self.run_ids).groupby(names.to_numpy(), sort=False).agg(list)
        return {str(name): own for name, own in runs.items() if len(own) > 1}

    @cached_property
    def _board(self) -> Leaderboard:
        """Return the leaderboard that is printed: what decides, and medians of times and costs.

        Without a word where another harness has none, and of so many runs that no pairs are read.
        """
        from ragscore.analysis.leaderboard import leaderboard

        medians = [one for one in MEDIANS if one in self.scores and self.scores[one].notna().any()]
        names = list(dict.fromkeys([*self.primary, *medians]))
        # results of a store are not read to be printed
        rows = self._rows if isinstance(self._source, Results) else None
        has_words = len(self.run_ids) <= MOST_RUNS and not self._is_of_harness
        return self._alike(leaderboard(
            self.scores, names, baseline=self._baseline, primary=self.primary if has_words else (),
            golden=self.golden, rows=rows, declared=self._declared,
        ))  # fmt: skip

    def _notes(self) -> list[str]:
        """Return what a reader must know beside the means: matching, and what is missing."""
        from ragscore.analysis.comparison.align import clusters_text

        golden = self.golden
        sizes = self.scores.groupby(["run_id", "state"], observed=True).size()
        counted = sorted((*map(str, key), n) for key, n in zip(sizes.index, sizes, strict=True))
        by_state = {
            text: [f"{run} {n}" for run, own, n in counted if own == state]
            for state, text in (_STATES | {"missing": _MISSING[self._policies.missing]}).items()
        }
        held = self._source if isinstance(self._source, Results) else None
        bare = runs_without_hits(held) if held is not None and len(golden.targets) else []
        n_bare, n_due = int(golden.queries["answerable"].isna().sum()), len(golden._refusals)
        by = golden.targets.get("judged_by", pd.Series(dtype="str")).dropna()
        notes = [
            self._matched(),
            clusters_text(golden, pd.Index(golden.queries["query_id"]), "group"),
            *(self._of_systems._asked_again()),
            *(f"{text}: {', '.join(of[:SHOWN_RUNS])}." for text, of in by_state.items() if of),
            unstated_text(held) if held is not None and {*REFUSALS} & {*self.scores} else "",
            f"No row of {name_list(bare)} has any hit: ranking metrics are 0. Where a system"
            " records no hits, ask for other metrics." if bare else "",
            f"Labels by a judge: {len(by)} of {len(golden.targets)} ({name_list(by.unique())})."
            if len(by) else "",
            f"Queries without any label: {n_bare}. They count in no ranking metric."
            if n_bare and self._is_matched else "",
            f"Queries that should be refused: {n_due}, judged by their refusal alone."
            if n_due else "",
        ]  # fmt: skip
        return [one for one in notes if one]

    def _asked_again(self) -> list[str]:
        """Say of each system whose repeats are averaged here how often it was asked."""
        whole = self._repeated
        if whole is None:
            return []
        asked = whole.scores[whole.scores["state"].ne("missing").to_numpy()]
        runs = {system: own for system, own in whole._repeats.items() if system in self.run_ids}
        n = {
            system: int(asked.index[asked["run_id"].isin(own)].value_counts().gt(1).sum())
            for system, own in runs.items()
        }
        return [
            f"{system}: {len(own)} runs, averaged; {plural(n[system], 'query')}"
            " asked more than once (ev.repeats has their spread). Ranks and texts are those of the"
            " first."
            for system, own in runs.items()
        ]

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
    def _level(self) -> str:
        return str(self.settings["level"].iloc[0]) if len(self.settings) else "auto"

    def _scored(self, metrics: list[str] | str | None) -> tuple[pd.DataFrame, list[str] | None]:
        """Return scores that have these metrics, and their names as the scores have them."""
        if metrics is None:
            return self.scores, None
        given = names_of(metrics, "metrics", "labels, such as 'mrr@10'")
        if not given:
            allowed = "at least one, such as 'mrr@10'; no labels and no stored scores: no metric"
            raise DataError("found none", field="metrics", allowed=allowed)
        names = [self._named(name) for name in given]
        lacking = [name for name in dict.fromkeys(names) if name not in self.scores]
        if not lacking:
            return self.scores, names
        if self._repeated is not None:  # run by run, and then averaged
            whole = self._repeated
            scores = replace(whole, scores=whole._scored(lacking)[0])._of_systems.scores
            is_own = scores["run_id"].isin(self.run_ids) & scores.index.isin(self.scores.index)
            return add_columns(
                self.scores, scores[is_own].reset_index(), lacking, partial=True
            ), names
        more = scores_later(self._rows, lacking, self._declared, self._policies)
        return add_columns(self.scores, more, lacking, partial=True), names

    def _named(self, metric: str) -> str:
        """Return the name that a metric has in the scores."""
        check_type(metric, str, "metric", "the name of one metric")
        return metric if metric in self.scores else self._declared.parse(metric).text


# State of rows -> how their number is described; for missing ones by the policy.
_STATES = {
    "missing": "",
    "failed": "Failed queries, scored on the hits they have",
    "extra": "Rows without a golden query, in no mean of quality",
}
_MISSING = {
    "exclude": "Golden queries without a row, left out of the means",
    "zero": "Golden queries without a row, counted as failures",
}


# A function of the module, so that an evaluation that has it as its source can be pickled.
def _selected(ev: Evaluation, runs: list[str], queries: set[str] | None) -> Results:
    return ev.results.select(runs, queries)


takes(Evaluation.compare, Policies)(compare)
takes(Policies)(evaluate_stored)

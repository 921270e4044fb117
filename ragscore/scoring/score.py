"""Score runs against a golden set: one row per run and query, one column per metric."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, categorical, check_inputs
from ragscore.frames.errors import name_list, warn
from ragscore.frames.kinds import FAILED
from ragscore.frames.schema import MADE_ID
from ragscore.frames.verbs import takes
from ragscore.scoring.ids import join_notes, joined_by
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import CRITERIA, TABLE, Label, Metric, MetricTable
from ragscore.scoring.metrics.needs import REFERENCE, among
from ragscore.scoring.policies import Policies
from ragscore.scoring.readings import HARNESSES, Reading, find_reading, k_of_runs
from ragscore.scoring.rows import STATES, Rows
from ragscore.scoring.rules import READS_TEXT, Rule, rule_name
from ragscore.scoring.targets import LEVELS
from ragscore.scoring.turns import with_turns

Asked = Sequence[str | Metric | Label] | str | Metric | Label | None
NUGGETS = ("nugget_all", "nugget_vital")  # of these metrics, by default
DEFAULT, ALL = "default", "all"  # in the place of labels: what the data supports; every metric
SURE = 20  # queries answered just as their references: fewer may be right if these are all
STATE_DTYPE, LEVEL_DTYPE = pd.CategoricalDtype([*STATES]), pd.CategoricalDtype([*LEVELS])


@dataclass(frozen=True)
class Scored:
    """Scores, and what is known of them.

    Attributes
    ----------
    scores
        The frame of `score`.
    rows
        The facts that they were made of; of each row of the frame, in its order.
    table
        Our metrics, and your own among those asked for.
    notes
        What a mean of them leaves out, or can't know: a sentence each.
    """

    scores: pd.DataFrame
    rows: Rows
    labels: tuple[Label, ...]
    table: MetricTable
    level: Level
    reading: Reading
    policies: Policies
    asked: Asked
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> pd.DataFrame:
        """One row per run: what its values were made by."""
        runs, golden, level = self.rows.results.runs, self.rows.golden, self.level
        return pd.DataFrame({
            "run_id": runs["run_id"].to_numpy(), "level": level.name, "left_out": level.left_out,
            "chunker_version_match": level.chunker_version_match,
            "rule": rule_name(self.rows.rule, level.name),
            "policies": json.dumps(asdict(self.policies), sort_keys=True),
            "profile": pd.Series([self.reading.name or None] * len(runs), dtype="str"),
            "golden_hash": golden.golden_hash,
            "k": runs["k"].to_numpy() if "k" in runs else pd.NA, "n_expected": len(golden.queries),
        })  # fmt: skip

    def notes_on(self, scores: pd.DataFrame) -> Iterator[str]:
        """Say what a mean of the scores of whole runs leaves out, or can't know."""
        golden, labels, level = self.rows.golden, self.labels, self.level
        queries = golden.queries
        is_ranked = any(label.is_ranking for label in labels)
        says_something = len(golden.targets) or len(golden.checks)
        if is_ranked and len(queries) and not says_something and queries["answerable"].isna().all():
            yield (
                f"none of the {len(queries)} queries of the golden set is labelled: give"
                " expected ids (expected_doc_ids, expected_chunk_ids), or answerable: false"
            )
        if level.warning and any(label.is_ranking and label.level is None for label in labels):
            yield level.warning
        if self.policies.missing == "exclude" and scores["state"].eq("missing").any():
            yield from _missing_notes(scores)
        if is_ranked and len(golden.targets):
            targets = golden.targets
            judged = among(golden, targets["query_id"]) & ~among(golden, golden._refusals)
            relevant = among(golden, targets.loc[targets["grade"] > 0, "query_id"])
            if (n := int((judged & ~relevant).sum())) and not self.reading.empty:
                yield (
                    f"{n} of {judged.sum()} judged queries have no relevant target (grades of 0"
                    " throughout): their ranking metrics are 0, as trec_eval's"
                )
            yield from _gain_notes(golden, self.reading, labels, self.asked)
        for label in [one for one in labels if REFERENCE in one.metric.needs][:1]:
            yield from _reference_notes(scores[["run_id", label.text]].dropna(), self.rows)


@takes(Policies)
def score(
    results: Results,
    golden: Golden,
    metrics: Asked = None,
    *,
    rule: Rule | None = None,
    profile: str | Reading | None = None,
    **policies: str,
) -> pd.DataFrame:
    """Score runs against a golden set.

    Parameters
    ----------
    metrics
        Labels, or one (see `rs.metrics()`); what `rs.metric` returns, for metrics of your own. By
        default about 15, by what the data supports; "all": every default metric at k = 1, 3, 5, 10,
        and all that judges measured.
    rule
        A rule of your own, (hits, targets) -> pairs, instead of the level's.
    profile
        Conventions of another harness ("kebab"), or a `Reading` of your own.
    policies
        `match` "auto", a level, or "per_query"; `missing` "exclude" or "zero"; `collapse` "none" or
        "doc"; `ties` as in `rs.match.rank_hits`. What is given goes before a profile's.

    Returns
    -------
    One row per run and golden query, missing ones too, and per response without a golden query
    (index `query_id`): `run_id`; `state` (scored, failed, missing, extra); `level`, the match level
    used; then one float64 column per metric, NaN where it does not apply. Scores do not depend on
    the order of rows.

    Raises
    ------
    DataError
        An unknown metric, level, policy or profile; a level without any target; hits without any
        id; two hits of one rank.

    Warns
    -----
    UserWarning
        Golden queries without a row or a label; queries without a target at the match level; ids
        that don't join; hits whose text is cut; queries of which no target is relevant; runs whose
        answers all are the references.
    """
    check_inputs(results, golden)
    results, golden = with_turns(results, golden)
    given = Policies.of(policies, find_reading(profile).policies)
    found = scored(results, golden, metrics, rule=rule, profile=profile, policies=given)
    for note in found.notes:
        warn(note)
    return found.scores


def scored(
    results: Results,
    golden: Golden,
    metrics: Asked = None,
    *,
    rule: Rule | None = None,
    profile: str | Reading | None = None,
    policies: Policies | None = None,
    level: Level | None = None,
    is_outline: bool = False,
    **fields: str,
) -> Scored:
    """Return the scores, and all that is known of them; arguments as for `score`.

    Each query is scored by itself. So a run may be scored in parts, each with some of its queries
    and the `level` of the whole run; notes are then on its hits alone. Of an outline, which
    describes what runs hold, only level, labels and settings are found.
    """
    reading = find_reading(profile)
    held = policies or Policies.of(fields, reading.policies)
    golden, of_hits = reading._golden(golden)
    table = table_of(metrics)
    labels = tuple(labels_of(results, golden, metrics, reading, table))
    lists = results if is_outline else held.lists(results)
    is_part, families = level is not None, {label.metric.family for label in labels}
    matches = held.match if families & {"ranking", "success", "citations"} else "auto"
    level = level or Level.of(lists, of_hits, matches)
    rows = Rows(lists, golden, level, of_hits, rule, reading)
    rows.seen = results.hits
    found = Scored(pd.DataFrame(), rows, labels, table, level, reading, held, metrics)
    if is_outline:
        return found
    scores = _scores_of(rows, labels, held)
    notes = [*notes_on_hits(rows, labels)]
    if not is_part:
        notes += found.notes_on(scores)
    return replace(found, scores=scores, notes=tuple(notes))


def asked_of(metrics: Asked) -> list[Any]:
    """Return what is asked for, one by one."""
    is_one = isinstance(metrics, (str, Metric, Label)) or callable(metrics)
    return [metrics] if is_one else list(metrics or [DEFAULT])  # type: ignore[arg-type]


def table_of(metrics: Asked) -> MetricTable:
    """Return our metrics and the ones of your own that were asked for."""
    given = [one.metric if isinstance(one, Label) else one for one in asked_of(metrics)]
    own = [one for one in given if isinstance(one, Metric) and one.source]
    return TABLE.with_metrics(own) if own else TABLE


def labels_of(
    results: Results, golden: Golden, metrics: Asked, reading: Reading, table: MetricTable = TABLE
) -> list[Label]:
    """Return the metrics asked for; by default the profile's, or what the data supports."""
    found: list[str | Label] = []
    for one in asked_of(metrics):
        if isinstance(one, Metric):
            found += one.labels
        elif one == DEFAULT:
            found += default_labels(results, golden, reading)
        elif one == ALL:
            names = {name for name in table if table[name].default}
            found += table.labels(names | judged_metrics(results.judgments))
        else:
            found.append(one)
    labels = [one if isinstance(one, Label) else table.parse(one) for one in found]
    for label in labels:
        if label.metric.compute is None:
            raise DataError(
                f"{label.text} has only stored values: its function is not known here",
                field="metrics",
                allowed=f"metrics=[{label.metric.name}], the metric itself",
            )
    return list({label.text: label for label in labels}.values())


def judged_metrics(judgments: pd.DataFrame | None) -> set[str]:
    """Return the metrics that these judgments measure."""
    if judgments is None:
        return set()
    criteria = set(judgments["criterion"].astype("str"))
    if "state" in judgments and judgments["state"].eq(FAILED).any():
        criteria |= {FAILED}
    nuggets = {one for one in TABLE if one.startswith("nugget_") and "nuggets" in criteria}
    return nuggets | criteria & {*CRITERIA, FAILED} - {"judge_refused"}


def default_labels(results: Results, golden: Golden, reading: Reading) -> list[str]:
    """Return about 15 metrics that the data supports, those first that decide; or a harness's."""
    if reading.name in HARNESSES:
        ks = dict.fromkeys(k for k in k_of_runs(results.runs, None).values() if k)
        return HARNESSES[reading.name].labels(ks)
    checks, queries = set(golden.checks["kind"]), golden.queries
    responses, has_answers = results.responses, _has(results.responses, "answer")
    ranked, refuses = bool(len(golden.targets)), bool(len(golden._refusals))
    has_calls = "call" in results.hits and bool((results.hits["call"].dropna() > 1).any())
    has_reference = _has(queries, "reference_answer") or "accepted_answer" in checks
    tells_refusals = has_answers or _has(responses, "refused")
    judged = [
        one for one in judged_metrics(results.judgments)
        if not one.startswith("nugget_") or one in NUGGETS
    ]  # fmt: skip
    kinds = {
        "hit@1 hit@5 recall@5 recall@10 mrr@10 ndcg@10": ranked,
        "recall_all@10": ranked and len(golden.support_groups),
        "set_recall set_precision": ranked and has_calls,
        "n_calls n_documents": has_calls,
        "passed": len(golden.checks) or refuses,  # more is asked for than hits
        "answer_checks": has_answers and bool({"must_contain", "forbidden"} & checks),
        "exact_match token_f1": has_answers and has_reference,
        "citation_coverage citation_precision citation_recall":
            has_answers and len(results.citations),
        " ".join(TABLE.labels(judged)): True,
        "refusal_correct answered_unanswerable": refuses and tells_refusals,
        "false_refusal": bool(queries["answerable"].eq(True).any()) and tells_refusals,
        "failed": True,
        "empty": len(results.hits),
        "latency_ms": _has(responses, "elapsed_ms"),
        "cost_usd": _has(responses, "cost_usd"),
    }  # fmt: skip
    return [name for names, is_there in kinds.items() if is_there for name in names.split()]


def _has(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and bool(frame[name].notna().any())


def scores_later(
    rows: Rows, metrics: list[str], table: MetricTable, policies: Policies
) -> pd.DataFrame:
    """Return the scores of more metrics, of rows that were scored before."""
    labels = labels_of(rows.results, rows.golden, metrics, rows.reading, table)
    return _scores_of(rows, labels, policies).reset_index()


def _scores_of(rows: Rows, labels: Iterable[Label], policies: Policies) -> pd.DataFrame:
    """Return the frame of scores, by what missing and extra rows mean."""
    absent, extra, empty = ~rows.asked, rows.state == 3, rows.reading.empty
    table: dict[str, Any] = {
        "run_id": categorical(rows.run, rows.results.responses["run_id"].dtype),
        "state": categorical(rows.state, STATE_DTYPE), "level": categorical(rows.used, LEVEL_DTYPE),
    }  # fmt: skip
    for label in labels:
        family, values = label.metric.family, rows.score(label)
        if family == "ranking" and label.metric.base in empty:
            values = np.where(rows.vacuous, np.where(absent, 0.0, empty[label.metric.base]), values)
        if absent.any() and (policies.missing == "exclude" or family not in ("ranking", "success")):
            lost = 1.0 if policies.missing == "zero" and label.text == "failed" else np.nan
            values = np.where(absent, lost, values)
        if extra.any() and family != "operations":
            values = np.where(extra, np.nan, values)
        if label.metric.source:
            label.metric.refuse_outside(values, label.text)
        table[label.text] = values
    index = pd.Index(rows.query_ids, name="query_id")
    return pd.DataFrame(table).set_axis(index)


def notes_on_hits(rows: Rows, labels: Iterable[Label]) -> Iterator[str]:
    """Say which hits can't be joined or judged."""
    hits, level = rows.results.hits, rows.level
    if any(one.is_ranking for one in labels) and len(rows.of_hits.targets) and rows.rule is None:
        yield from join_notes(rows)
    n_cut = int(hits["text_cut"].fillna(False).sum()) if "text_cut" in hits else 0
    if n_cut and set(level.used) & set(READS_TEXT):
        yield (
            f"{n_cut} hits have cut text: expected texts are looked for in what is left; where a"
            " snippet is not found there, file and heading decide"
        )
    if n := len(hits) - int(rows.n_hits.sum()):
        yield f"{n} hits belong to no response and don't count: their query has no row in responses"


def _missing_notes(scores: pd.DataFrame) -> Iterator[str]:
    """Say how many golden queries each run has no row for, and of which runs no query joins."""
    counts = scores.groupby(["run_id", "state"], observed=False).size().unstack()
    n_missing = counts["missing"]
    for run_id in counts.index[counts["scored"] + counts["failed"] == 0]:
        of_run = scores.loc[(scores["run_id"] == run_id).to_numpy(), "state"]
        ids, wanted = (
            pd.Series(of_run.index[of_run == state].unique(), dtype="str")
            for state in ("extra", "missing")
        )
        sides = (", ".join(map(repr, side.iloc[:3])) for side in (ids, wanted))
        text = "query ids of {} do not join: it has {}; the golden set has {}"
        n_joined = joined_by(*(pd.DataFrame({"row": 0, "id": one}) for one in (ids, wanted))).sum()
        if words := str(n_joined.idxmax()):
            text += f". {n_joined[words]} of {len(wanted)} would join {words}"
        elif ids.str.fullmatch(MADE_ID).all():
            text += (
                ". The run's ids were made from the texts of its queries: name the column that"
                ' holds ids, columns={{"query_id": ...}}, or give the golden set the same texts as'
                " `query`"
            )
        if len(ids):
            yield text.format(run_id, *sides)
    listed = ", ".join(f"{run_id}: {n}" for run_id, n in n_missing[n_missing > 0].items())
    yield (
        f"golden queries without a row are left out of the means ({listed}), as if never asked. A"
        " file that lists hits alone, such as a TREC run, has no row for a query without hits:"
        " missing='zero' counts such queries as failures"
    )


def _reference_notes(found: pd.DataFrame, rows: Rows) -> Iterator[str]:
    """Say in which runs every answer is the reference; `found` is how far each agrees with it."""
    n, n_all = found["run_id"].value_counts(sort=False), REFERENCE.of_queries(rows.golden, "").sum()
    differ = found.loc[(found.iloc[:, 1] < 1).to_numpy(), "run_id"]
    alike = n.index[(n >= np.clip(n_all, 5, SURE)) & ~n.index.isin(differ)]
    read = ", ".join(map(repr, rows.results.mapping.query("role == 'answer'")["column"]))
    if len(alike):
        yield (
            f"every answer of {name_list(alike)} is the reference answer of its query: is the"
            f" column {read or 'of answers'} what the system answered?"
            ' `columns={"answer": ...}` of load_results names another'
        )


def _gain_notes(
    golden: Golden, reading: Reading, labels: Sequence[Label], asked: Asked
) -> Iterator[str]:
    """Say which nDCG was asked for by name, where another tool's is another number."""
    targets, names = golden.targets, {label.metric.base for label in labels}
    texts = [one for one in asked_of(asked) if isinstance(one, str)]
    own = HARNESSES[reading.name].labels() if reading.name in HARNESSES else []
    knows = "ndcg_linear" in names or any(
        one in (DEFAULT, ALL) or "dcg=" in one for one in texts
    ) or any(one.startswith("ndcg@") for one in own)  # fmt: skip
    is_asked = "ndcg" in names and texts and not knows and "gain" not in targets
    if is_asked and (targets["grade"] > 1).any():
        yield (
            "ndcg uses the gain 2^grade − 1, and some grades are above 1; trec_eval and ir_measures"
            " use the grade itself by default: ndcg_linear"
        )

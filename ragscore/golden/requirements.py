"""Requirements of metrics: which metrics some files support, and what is missing for others.

Nothing is scored; only columns that have values are counted.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.io.load import load_golden, load_results
from ragscore.scoring.metrics import NEEDS_IRRELEVANT, RANKING, TABLE, judges_irrelevant
from ragscore.scoring.rules import LEVELS, targets_at

Requirements = list[tuple[str, int]]
"""Requirements of a metric: description, and number of queries or rows that meet it."""


@dataclass(frozen=True)
class _Inputs:
    """Loaded golden sets and results, with counts of what they hold."""

    golden: list[Golden]
    results: list[Results]

    def targets(self) -> dict[str, int]:
        """Return the number of queries with targets by level; levels without any are left out."""
        n_by_level = {
            level: sum(
                targets_at(item, level).targets["query_id"].nunique() for item in self.golden
            )
            for level in LEVELS
        }
        return {level: n for level, n in n_by_level.items() if n}

    def irrelevant(self) -> int:
        """Count queries of which a document is judged as not relevant."""
        return sum(
            int(item.targets.loc[item.targets["grade"] < 1, "query_id"].nunique())
            for item in self.golden
            if any(judges_irrelevant(targets_at(item, level).targets) for level in LEVELS)
        )

    def labelled(self, answerable: bool) -> int:
        """Count queries that are labelled as answerable, or as to be refused."""
        return sum(
            int(item.queries["answerable"].eq(answerable).fillna(False).sum())
            for item in self.golden
        )

    def checks(self, *kinds: str) -> int:
        """Count queries with a check of these kinds."""
        return sum(
            int(item.checks.loc[item.checks["kind"].isin(kinds), "query_id"].nunique())
            for item in self.golden
        )

    def references(self) -> int:
        """Count queries with a reference answer."""
        return sum(
            int(item.queries["reference_answer"].notna().sum())
            for item in self.golden
            if "reference_answer" in item.queries
        )

    def known(self, frame: str, *columns: str) -> int:
        """Count rows of a results frame that have a value in one of these columns.

        Without columns, count all rows.
        """
        frames = [rows for item in self.results if (rows := getattr(item, frame)) is not None]
        if not columns:
            return sum(map(len, frames))
        return sum(
            int(rows[rows.columns.intersection(columns)].notna().any(axis=1).sum())
            for rows in frames
        )

    def judged(self, criterion: str) -> int:
        """Count judgments of a criterion that have a value."""
        frames = [item.judgments for item in self.results if item.judgments is not None]
        return sum(
            int((rows["criterion"].eq(criterion) & rows["value"].notna()).sum()) for rows in frames
        )


def supported_metrics(
    *sources: Any,
    format: str | None = None,
    columns: dict[str, str] | None = None,
    strict: bool = False,
) -> pd.DataFrame:
    """Return which metrics of `rs.metrics()` these files support, and what others lack.

    Parameters
    ----------
    sources
        Golden files and runs, or other tools' files that hold both: whatever `load_golden` or
        `load_results` takes, `Golden`, `Results`. Labels alone or runs alone suffice.
    format, columns, strict
        As for `rs.load_golden` and `rs.load_results`, for every file among the sources.

    Returns
    -------
    One row per metric, in the order of the metric table: `metric`; `supported` (bool); `missing`,
    what the files lack for it ("" if supported); `n`, the number of queries, responses or
    judgments of its scarcest requirement; `levels`, the match levels with targets ("" for metrics
    that use none).

    Raises
    ------
    DataError
        No source, or one that is neither golden set nor results. For a table with unknown columns
        the `columns=` of both loaders is proposed.
    """
    if not sources:
        raise DataError("found none", field="sources", allowed="golden files, runs, or both")
    inputs = _Inputs([], [])
    for source in sources:
        golden, results = _parts(source, {"format": format, "columns": columns, "strict": strict})
        inputs.golden.extend(golden)
        inputs.results.extend(results)
    levels = ", ".join(inputs.targets())
    rows = [
        {
            "metric": metric,
            "supported": all(n for _, n in requirements),
            "missing": "; ".join(text for text, n in requirements if not n),
            "n": min(n for _, n in requirements),
            "levels": levels if metric.split("@")[0] in RANKING else "",
        }
        for metric, requirements in _requirements(inputs).items()
    ]
    return pd.DataFrame(rows)


def _parts(source: Any, options: dict[str, Any]) -> tuple[list[Golden], list[Results]]:
    """Return the golden set, the results or both that a source holds."""
    if isinstance(source, Golden):
        return [source], []
    if isinstance(source, Results):
        return [], [source]
    golden: list[Golden] = []
    results: list[Results] = []
    errors: list[DataError] = []
    with warnings.catch_warnings():
        # The table tells what the warnings of loading would.
        warnings.simplefilter("ignore", UserWarning)
        try:
            golden.append(load_golden(source, **options))
        except DataError as error:
            errors.append(error)
        try:
            results.append(load_results(source, **options))
        except DataError as error:
            errors.append(error)
    if len(errors) == 2:
        raise _unreadable(*errors)
    return golden, results


def _unreadable(as_golden: DataError, as_results: DataError) -> DataError:
    """Return the one error of a source that is neither; the columns of a table are proposed."""
    columns = [(error.allowed or "").partition(" (also ")[0] for error in (as_results, as_golden)]
    if all(one.startswith("columns=") for one in columns):
        found = as_results.found.replace("of results", "of golden set or results")
        allowed = "load_results(source, {}) or load_golden(source, {})".format(*columns)
        return DataError(found, file=as_results.file, allowed=allowed)
    if as_golden.found == as_results.found:
        return as_results
    return DataError(f"neither golden set ({as_golden}) nor results ({as_results})")


def _requirements(inputs: _Inputs) -> dict[str, Requirements]:
    """Return the requirements of every metric of the metric table."""
    n_by_level = inputs.targets()
    anchors = ("anchors (gold_supports)", n_by_level.get("anchor", 0))
    targets = (
        "targets: expected chunk or document ids, spans or anchors",
        max(n_by_level.values(), default=0),
    )
    irrelevant = ("documents judged as not relevant (grade 0)", inputs.irrelevant())
    expectations = (
        "something to judge by: targets, expected_empty, forbidden sources, queries to refuse",
        sum(n_by_level.values())
        + inputs.checks("expected_empty", "forbidden_source_key")
        + inputs.labelled(False),
    )
    groups = (
        "support groups (required_support_groups)",
        sum(int(golden.support_groups["query_id"].nunique()) for golden in inputs.golden),
    )
    references = ("reference answers", inputs.references())
    texts = (
        "texts that an answer must or must not hold (must_contain, forbidden)",
        inputs.checks("must_contain", "forbidden"),
    )
    expectations_or_texts = (f"{expectations[0]}; or {texts[0]}", expectations[1] + texts[1])
    key_facts = ("key facts (expected_key_facts)", inputs.checks("key_fact"))
    rules = (
        "rules for supports that disagree (recency_conflict_rule)",
        inputs.checks("recency_rule"),
    )
    unanswerable = (
        "queries that should be refused (answerable: false)",
        inputs.labelled(False),
    )
    answerable = ("queries known to be answerable", inputs.labelled(True))

    hits = ("hits of a run", inputs.known("hits"))
    responses = ("responses of a run", inputs.known("responses"))
    answers = ("answers in the responses", inputs.known("responses", "answer"))
    refusals = ("whether the system refused", inputs.known("responses", "refused", "answer"))
    citations = ("citations of the answers", inputs.known("citations"))
    n_scopes = inputs.known("responses", "scope")
    scopes = ("the folders that were searched (scope)", n_scopes)
    catalogue = (
        "the run's chunk catalogue, or the folders that were searched",
        inputs.known("chunks") + n_scopes,
    )
    times = ("times of the responses", inputs.known("responses", "elapsed_ms"))
    costs = ("costs of the responses", inputs.known("responses", "cost_usd"))

    by_name: dict[str, Requirements] = {
        "found": [expectations, responses],
        "passed": [expectations_or_texts, responses],
        "recall_all": [groups, targets, hits],
        "answer_checks": [texts, answers],
        "answer_checks_all": [texts, answers],
        "exact_match": [references, answers],
        "token_f1": [references, answers],
        "rouge_l": [references, answers],
        "refusal_correct": [unanswerable, refusals],
        "answered_unanswerable": [unanswerable, refusals],
        "false_refusal": [answerable, refusals],
        "citation_precision": [targets, answers, citations],
        "citation_recall": [targets, answers, citations],
        "citation_out_of_scope": [answers, catalogue],
        "retrieved_cited": [answers, citations],
        "attribution_hit": [anchors, answers],
        "recency_ok": [rules, answers],
        "key_facts_literal": [key_facts, answers],
        "scope_miss": [scopes],
        "scope_miss_proxy": [anchors, hits],
        "latency_ms": [times],
        "latency_ms_all": [times],
        "cost_usd": [costs],
        "judge_failed": [("judgments", inputs.known("judgments"))],
        "empty_response": [answers],
        "empty": [responses],
        "empty_all": [responses],
        "failed": [responses],
        "timeout": [responses],
    }

    def of_metric(name: str) -> Requirements:
        base = name.split("@")[0]
        if base in by_name:
            return by_name[base]
        if base in NEEDS_IRRELEVANT:
            return [targets, irrelevant, hits]
        if base in RANKING:
            return [targets, hits]
        if base.startswith("citation"):
            return [answers, citations]
        # A metric without requirements here comes from a judge.
        return [(f"judgments of {name}", inputs.judged(name))]

    return {metric.name: of_metric(metric.name) for metric in TABLE}

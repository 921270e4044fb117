"""Which metrics some files support, and what each other one lacks.

Nothing is scored: it looks at which columns hold anything.
"""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.io.load import load_golden, load_results
from ragscore.scoring.matching import LEVELS, at_level
from ragscore.scoring.metrics import RANKING, TABLE

File = str | os.PathLike[str] | Golden | Results
Needs = list[tuple[str, int]]
"""What a metric needs, in words, each with how many queries or rows have it."""

_ANSWERS = ("answer_checks", "answer_checks_all", "exact_match", "token_f1", "rouge_l")
_CHECKED = ("must_contain", "forbidden")


@dataclass(frozen=True)
class _Facts:
    """What there is, as counts."""

    golden: list[Golden]
    results: list[Results]

    def targets(self) -> dict[str, int]:
        """Queries with targets, by level; levels without any are left out."""
        found = {
            level: sum(
                int(at_level(one, level).targets["query_id"].nunique()) for one in self.golden
            )
            for level in LEVELS
        }
        return {level: n for level, n in found.items() if n}

    def labelled(self, answerable: bool) -> int:
        """Queries known to be answerable, or known to be refused."""
        return sum(
            int(one.queries["answerable"].eq(answerable).fillna(False).sum()) for one in self.golden
        )

    def checks(self, *kinds: str) -> int:
        """Queries with a check of these kinds."""
        return sum(
            int(one.checks.loc[one.checks["kind"].isin(kinds), "query_id"].nunique())
            for one in self.golden
        )

    def references(self) -> int:
        """Queries with a reference answer."""
        return sum(
            int(one.queries["reference_answer"].notna().sum())
            for one in self.golden
            if "reference_answer" in one.queries
        )

    def known(self, frame: str, *columns: str) -> int:
        """Rows of a results frame in which some of these columns is known.

        Without columns, all its rows.
        """
        frames = [rows for one in self.results if (rows := getattr(one, frame)) is not None]
        return sum(
            (
                len(rows)
                if not columns
                else int(rows[rows.columns.intersection(columns)].notna().any(axis=1).sum())
            )
            for rows in frames
        )

    def judged(self, criterion: str) -> int:
        """Judgments of a criterion that have a value."""
        frames = [one.judgments for one in self.results if one.judgments is not None]
        return sum(
            int((rows["criterion"].eq(criterion) & rows["value"].notna()).sum()) for rows in frames
        )


def doctor(files: File | list[File], *, strict: bool = False) -> pd.DataFrame:
    """Say which metrics of `rs.metrics()` these files support, and what each other one lacks.

    Parameters
    ----------
    files
        Golden files and runs, or other tools' files that hold both, as paths, `Golden` or
        `Results`, one or a list; labels alone and runs alone will do.
    strict
        As for loading.

    Returns
    -------
    One row per metric, in the order of the metric table: `metric`; `supported` (bool); `missing`,
    what would have to be there ("" if supported); `n`, how many queries, responses or judgments
    there are of the scarcest thing that it needs; `levels`, the match levels with targets ("" for
    metrics that use none).

    Raises
    ------
    DataError
        A file that is neither golden file nor results.
    """
    facts = _Facts([], [])
    for one in files if isinstance(files, list) else [files]:
        golden, results = _parts(one, strict)
        facts.golden.extend(golden)
        facts.results.extend(results)
    rows = []
    for metric in TABLE:
        needs = _needs(metric.name, facts)
        missing = [what for what, n in needs if not n]
        levels = ", ".join(facts.targets()) if metric.name.split("@")[0] in RANKING else ""
        rows.append(
            {
                "metric": metric.name,
                "supported": not missing,
                "missing": "; ".join(missing),
                "n": min(n for _, n in needs),
                "levels": levels,
            }
        )
    return pd.DataFrame(rows)


def _parts(one: File, strict: bool) -> tuple[list[Golden], list[Results]]:
    """What a file holds, labels, results or both."""
    if isinstance(one, Golden):
        return [one], []
    if isinstance(one, Results):
        return [], [one]
    golden: list[Golden] = []
    results: list[Results] = []
    faults: list[DataError] = []
    with warnings.catch_warnings():
        # loading says these; here the table is the news
        warnings.simplefilter("ignore", UserWarning)
        try:
            golden.append(load_golden(Path(one), strict=strict))
        except DataError as fault:
            faults.append(fault)
        try:
            results.append(load_results(Path(one), strict=strict))
        except DataError as fault:
            faults.append(fault)
    if len(faults) == 2:
        raise DataError(
            f"neither golden file ({faults[0]}) nor results ({faults[1]})", file=str(one)
        )
    return golden, results


def _needs(name: str, facts: _Facts) -> Needs:
    """What a metric needs; one that isn't named here is a judge's: it needs judgments of its name."""
    base = name.split("@")[0]
    responses = ("responses of a run", facts.known("responses"))
    answers = ("answers in the responses", facts.known("responses", "answer"))
    refusals = ("whether the system refused", facts.known("responses", "refused", "answer"))
    if base in RANKING or base == "passed":
        return _ranking_needs(base, facts)
    if name in _ANSWERS:
        return [_expected_text(name, facts), answers]
    if name in ("refusal_correct", "answered_unanswerable"):
        return [
            ("queries that should be refused (answerable: false)", facts.labelled(False)),
            refusals,
        ]
    if name == "false_refusal":
        return [("queries known to be answerable", facts.labelled(True)), refusals]
    if name in ("citation_precision", "citation_recall"):
        return [
            _some_target(facts),
            answers,
            ("citations of the answers", facts.known("citations")),
        ]
    if name == "citation_out_of_scope":
        return [
            answers,
            (
                "the run's chunk catalogue, or the folders that were searched",
                facts.known("chunks") + facts.known("responses", "scope"),
            ),
        ]
    if base.startswith("citation") or name == "retrieved_cited":
        return [answers, ("citations of the answers", facts.known("citations"))]
    if name in ("latency_ms", "latency_ms_all"):
        return [("times of the responses", facts.known("responses", "elapsed_ms"))]
    if name == "cost_usd":
        return [("costs of the responses", facts.known("responses", "cost_usd"))]
    if base == "judge_failed":
        return [("judgments", facts.known("judgments"))]
    if name in (
        "attribution_hit",
        "recency_ok",
        "scope_miss",
        "scope_miss_proxy",
        "key_facts_literal",
    ):
        return _dialogue_needs(name, facts, answers)
    if name == "empty_response":
        return [answers]
    if name in ("empty", "empty_all", "failed", "timeout"):
        return [responses]
    return [(f"judgments of {name}", facts.judged(name))]


def _dialogue_needs(name: str, facts: _Facts, answers: tuple[str, int]) -> Needs:
    anchors = ("anchors (gold_supports)", facts.targets().get("anchor", 0))
    if name == "key_facts_literal":
        return [("key facts (expected_key_facts)", facts.checks("key_fact")), answers]
    if name == "recency_ok":
        return [
            (
                "rules for supports that disagree (recency_conflict_rule)",
                facts.checks("recency_rule"),
            ),
            answers,
        ]
    if name == "attribution_hit":
        return [anchors, answers]
    if name == "scope_miss":
        return [("the folders that were searched (scope)", facts.known("responses", "scope"))]
    return [anchors, ("hits of a run", facts.known("hits"))]


def _ranking_needs(base: str, facts: _Facts) -> Needs:
    hits = ("hits of a run", facts.known("hits"))
    if base == "passed":
        expects = (
            sum(facts.targets().values())
            + facts.checks("expected_empty", "forbidden_source_key")
            + facts.labelled(False)
        )
        return [
            (
                (
                    "something to judge by: targets, expected_empty, forbidden sources, queries to"
                    " refuse"
                ),
                expects,
            ),
            ("responses of a run", facts.known("responses")),
        ]
    if base == "recall_all":
        groups = sum(int(one.support_groups["query_id"].nunique()) for one in facts.golden)
        return [("support groups (required_support_groups)", groups), _some_target(facts), hits]
    return [_some_target(facts), hits]


def _some_target(facts: _Facts) -> tuple[str, int]:
    return "targets: expected chunk or document ids, spans or anchors", max(
        facts.targets().values(), default=0
    )


def _expected_text(name: str, facts: _Facts) -> tuple[str, int]:
    if name.startswith("answer_checks"):
        return "texts that an answer must or must not hold (must_contain, forbidden)", facts.checks(
            *_CHECKED
        )
    return "reference answers", facts.references()

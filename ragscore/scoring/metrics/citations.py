"""Metrics of citations: passages cited, hits retrieved, targets expected.

A formula gets the facts of all responses; `facts.cited` counts what each of them cites, once for
all of these metrics.
"""

from typing import Any

from ragscore.frames.typing import Values
from ragscore.scoring.metrics.family import Family
from ragscore.scoring.metrics.needs import (
    ANSWERS,
    CITATIONS,
    NOT_GROUNDED,
    NOTHING_CITED,
    RELEVANT,
)

metric = Family("citations", needs=(ANSWERS, CITATIONS), where="given", ends_at_refusal=True)
passages = ("hits.chunk_id", "citations.chunk_id")
grounded = {"kind": "binary", "where": "grounded", "gaps": (NOT_GROUNDED,)}
uncarried = "citations don't carry what targets are matched by"


@metric("citation_present", "1 if the answer has at least one citation", kind="binary")
def present(facts: Any) -> Values:
    return facts.cited.n_citations > 0


@metric(
    "citation_coverage",
    "1 if there is a citation and each one resolves: its chunk id, or its path and span inside a"
    " chunk, is among the query's hits or the run's chunk catalogue",
    fields=("responses.grounded", "chunks", *passages), **grounded,
)  # fmt: skip
def coverage(facts: Any) -> Values:
    return (facts.cited.n_citations > 0) & (facts.cited.n_unresolved == 0)


@metric(
    "citation_coverage_weak", "1 if there is a citation and each one has a path",
    also="kebab citation_coverage", default=False, fields=("responses.grounded",), **grounded,
)  # fmt: skip
def coverage_weak(facts: Any) -> Values:
    return (facts.cited.n_citations > 0) & (facts.cited.n_pathless == 0)


@metric(
    "citation_precision",
    "cited passages that meet a target of grade ≥ 1 / passages cited, each once; at the match"
    " level, or the next coarser one that citations carry",
    needs=(RELEVANT, ANSWERS, CITATIONS), gaps=(NOTHING_CITED,), otherwise=uncarried,
    also="ALCE citation precision (by labels, not NLI)", fields=("citations.chunk_id",),
)  # fmt: skip
def precision(facts: Any) -> Values:
    return facts.cited.only_if_expected(facts.cited.n_relevant / facts.cited.n_passages)


@metric(
    "citation_recall",
    "targets (grade ≥ 1) that a cited passage meets / all of them; level as for citation_precision",
    needs=(RELEVANT, ANSWERS, CITATIONS), otherwise=uncarried, fields=("citations.chunk_id",),
)  # fmt: skip
def recall(facts: Any) -> Values:
    return facts.cited.n_met / facts.cited.n_targets


@metric(
    "citation_fabricated",
    "cited passages that are not among the query's hits / passages cited, each once",
    gaps=(NOTHING_CITED,), better="lower", fields=passages,
)  # fmt: skip
def fabricated(facts: Any) -> Values:
    return facts.cited.n_fabricated / facts.cited.n_passages

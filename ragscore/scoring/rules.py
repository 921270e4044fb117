"""The rule that each match level stands for, given the frames it needs beside hits and targets."""

from ragscore.frames.data import DataError, Golden, Results
from ragscore.scoring.anchors import by_anchor
from ragscore.scoring.matching import LEVELS, Rule, by_chunk, by_doc, by_span
from ragscore.scoring.predicates import by_predicate, predicate_rule_name

READS_TEXT = ("anchor", "predicate")  # levels whose rule looks into the hits' text


def rule_of(level: str, results: Results, golden: Golden) -> Rule:
    """The rule that a match level stands for.

    Raises
    ------
    DataError
        Not a match level.
    """
    if level not in LEVELS:
        raise DataError(f"found {level!r}", field="level", allowed=f"one of {', '.join(LEVELS)}")
    if level == "predicate":
        return by_predicate(results, golden)
    return {"chunk": by_chunk, "span": by_span(), "anchor": by_anchor(), "doc": by_doc}[level]


def level_rule_name(level: str) -> str:
    """How the rule of a level is named in what a scoring was made of."""
    if level == "predicate":
        return predicate_rule_name()
    built = {"span": by_span(), "anchor": by_anchor()}
    return built[level].__qualname__ if level in built else f"by_{level}"

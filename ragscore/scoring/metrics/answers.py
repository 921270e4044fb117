"""Metrics of answers: text checks, reference answers, key facts, supports named.

A formula gets the facts of all responses (`scoring.answers.ResponseFacts`), and gives one value for
each; NaN outside of `where` is set for it.
"""

from typing import Any

from ragscore.frames.typing import Values
from ragscore.scoring.metrics.family import Family
from ragscore.scoring.metrics.needs import (
    ANCHORS,
    ANSWERS,
    CONFLICT_RULE,
    KEY_FACTS,
    REFERENCE,
    TEXT_CHECKS,
)

metric = Family("answers", kind="binary", where="answered", ends_at_refusal=True)
shared = {"kind": "bounded", "needs": (REFERENCE, ANSWERS), "where": "due", "aspect": "answers"}


@metric(
    "answer_checks_all", "as answer_checks, should-refuse queries included",
    needs=(TEXT_CHECKS, ANSWERS), excuses=False, also="kebab groundedness", default=False,
)  # fmt: skip
@metric(
    "answer_checks",
    "1 if the answer holds every must_contain text and no forbidden one (case-sensitive)",
    needs=(TEXT_CHECKS, ANSWERS), where="due", aspect="answers", priority=2,
)  # fmt: skip
def answer_checks(facts: Any) -> Values:
    return facts.checks_passed


@metric(
    "exact_match",
    "1 if answer and reference answer are equal after SQuAD's normalisation: lower case, without"
    " ASCII punctuation and the words a, an, the (Rajpurkar et al. 2016, doi:10.18653/v1/D16-1264)",
    also="SQuAD exact", priority=4, **shared | {"kind": "binary"},
)  # fmt: skip
def exact_match(facts: Any) -> Values:
    return facts.compared["exact_match"]


@metric(
    "token_f1",
    "2 · shared tokens / (tokens of the answer + tokens of the reference), repeated ones counted,"
    " after the same normalisation",
    also="SQuAD f1", priority=5, **shared,
)  # fmt: skip
def token_f1(facts: Any) -> Values:
    return facts.compared["token_f1"]


@metric(
    "rouge_l",
    "2 · words of the longest common subsequence / (words of the answer + words of the reference),"
    " lower case, no stemming (Lin 2004, W04-1013)",
    also="rouge-score rougeL fmeasure", priority=6, **shared,
)  # fmt: skip
def rouge_l(facts: Any) -> Values:
    return facts.compared["rouge_l"]


named = Family("answers", kind="binary", where="answered", ends_at_refusal=True)


@named(
    "attribution_hit",
    "1 if a reference of the answer, or a citation in its text, names the file and heading of an"
    " anchor (snippets left out)",
    needs=(ANCHORS, ANSWERS), also="the chatbot harness's attribution_hit",
)  # fmt: skip
def attribution_hit(facts: Any) -> Values:
    return facts.attribution["attribution_hit"]


@named(
    "recency_ok",
    "1 if the answer cites the supports that the query's rule for supports that disagree wants:"
    " the newest (cite_newer), every one (cite_both, acknowledge_both)",
    needs=(CONFLICT_RULE, ANSWERS), otherwise="the rule for supports that disagree is not known",
)  # fmt: skip
def recency_ok(facts: Any) -> Values:
    return facts.attribution["recency_ok"]


literal = Family("answers", where="due", ends_at_refusal=True)


@literal(
    "key_facts_literal",
    "key facts whose words stand in the answer, in lower case and without punctuation / all of"
    " them",
    needs=(KEY_FACTS, ANSWERS),
)  # fmt: skip
def key_facts_literal(facts: Any) -> Values:
    return facts.literal_key_facts

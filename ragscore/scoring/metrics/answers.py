"""Metrics of answers: text checks, reference answers, key facts. A formula gets the rows."""

import re
import string
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import equal_pairs, is_among, lookup
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.metrics.declaration import Family
from ragscore.scoring.metrics.needs import KEY_FACTS, REFERENCE, TEXT_CHECKS

metric = Family("answers", where="due", reads="responses.answer")
ACCEPTED = "accepted_answer"  # the kind of check that holds a further accepted answer
_ARTICLES, _WORD, _BETWEEN = (
    re.compile(r"\b(a|an|the)\b"),
    re.compile(r"[^\W_]+"),
    re.compile(r"[\W_]+"),
)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def checked(rows: Any, kinds: list[str], where: Flags) -> pd.DataFrame:
    """Pair answers with checks of their queries: row, answer, kind, text."""
    checks = rows.golden.checks
    return paired(rows, checks[is_among(checks["kind"], kinds)], where)


def paired(rows: Any, texts: pd.DataFrame, where: Flags) -> pd.DataFrame:
    """Pair answers with texts (query_id and more) of their queries: row, answer, and the texts'."""
    at = np.flatnonzero(where)
    one, other = equal_pairs(rows.query[at], lookup(texts["query_id"], rows.queries))
    row = at[one]
    return texts.iloc[other].assign(row=row, answer=rows.answers.array[row])


@metric(
    "answer_checks_all",
    "as answer_checks, should-refuse queries included",
    kind="binary",
    needs=(TEXT_CHECKS,),
    where="answered",
    default=False,
    also="kebab groundedness",
)
@metric(
    "answer_checks",
    "1 if the answer holds every must_contain text and no forbidden one (case-sensitive)",
    kind="binary",
    needs=(TEXT_CHECKS,),
)
def answer_checks(rows: Any) -> Values:
    pairs = checked(rows, ["must_contain", "forbidden"], rows.answered)
    holds = np.array(
        [text in answer for answer, text in zip(pairs["answer"], pairs["text"], strict=True)],
        dtype=bool,
    )
    passed = np.ones(rows.n)
    passed[pairs["row"].to_numpy()[holds != pairs["kind"].eq("must_contain").to_numpy()]] = 0.0
    return passed


def with_reference(rows: Any, compare: Any) -> Values:
    """Compare each answer with the accepted answers of its query; the best of them counts."""
    checks = rows.golden.checks
    others = checks.loc[checks["kind"].eq(ACCEPTED), ["query_id", "text"]]
    own = rows.golden.queries.reindex(columns=["query_id", "reference_answer"]).dropna()
    accepted = pd.concat([others, own.set_axis(["query_id", "text"], axis=1)])
    pairs = paired(rows, accepted, rows.due)
    values = [compare(*pair) for pair in zip(pairs["answer"], pairs["text"], strict=True)]
    found = np.full(rows.n, -np.inf)
    np.maximum.at(found, pairs["row"].to_numpy(np.int64), np.array(values, dtype=np.float64))
    return np.where(np.isinf(found), np.nan, found)


def normalised(text: str) -> list[str]:
    """Return the words of a text as SQuAD compares them."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def f1(common: int, left: int, right: int) -> float:
    """Return 2 · common / both lengths; 0 where both are 0."""
    return 2 * common / (left + right) if left + right else 0.0


@metric(
    "exact_match",
    "1 if answer and reference answer are equal after SQuAD's normalisation: lower case,"
    " without ASCII punctuation and the words a, an, the (Rajpurkar et al. 2016,"
    " doi:10.18653/v1/D16-1264)",
    kind="binary",
    needs=(REFERENCE,),
    also="SQuAD exact",
)
def exact_match(rows: Any) -> Values:
    return with_reference(
        rows, lambda answer, wanted: float(normalised(answer) == normalised(wanted))
    )


@metric(
    "token_f1",
    "2 · shared tokens / (tokens of the answer + tokens of the reference), repeated ones"
    " counted, after the same normalisation",
    needs=(REFERENCE,),
    also="SQuAD f1",
)
def token_f1(rows: Any) -> Values:
    def compare(answer: str, wanted: str) -> float:
        left, right = normalised(answer), normalised(wanted)
        n = sum(min(left.count(word), right.count(word)) for word in set(left))
        return f1(n, len(left), len(right)) if left or right else 1.0

    return with_reference(rows, compare)


@metric(
    "rouge_l",
    "2 · words of the longest common subsequence / (words of the answer + words of the"
    " reference), lower case, no stemming (Lin 2004, W04-1013)",
    needs=(REFERENCE,),
    also="rouge-score rougeL fmeasure",
)
def rouge_l(rows: Any) -> Values:
    def compare(*texts: str) -> float:
        left, right = (_WORD.findall(text.lower()) for text in texts)
        return f1(common_length(left, right), len(left), len(right))

    return with_reference(rows, compare)


def common_length(left: list[str], right: list[str]) -> int:
    """Return the length of the longest common subsequence of two lists of words (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for position, word in enumerate(left):
        places[word] = places.get(word, 0) | 1 << position
    row = full = (1 << len(left)) - 1
    for word in right:
        met = row & places.get(word, 0)
        row = ((row + met) | (row - met)) & full
    return len(left) - row.bit_count()


literal = Family("answers", where="due", reads="responses.answer")


@literal(
    "key_facts_literal",
    "key facts whose words are in the answer, in lower case and without punctuation / all of them",
    needs=(KEY_FACTS,),
)
def key_facts_literal(rows: Any) -> Values:
    pairs = checked(rows, ["key_fact"], rows.due)
    texts = (
        [f" {_BETWEEN.sub(' ', one.casefold()).strip()} " for one in pairs[name]]
        for name in ("text", "answer")
    )
    holds = [fact in answer for fact, answer in zip(*texts, strict=True)]
    return (
        pd.Series(holds, pairs["row"], dtype="float64")
        .groupby(level=0)
        .mean()
        .reindex(range(rows.n))
        .to_numpy()
    )

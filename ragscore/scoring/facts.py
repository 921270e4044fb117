"""Key facts that an answer should state, literally.

A judge (`judgments`) sees a fact in other words, the literal share doesn't: it is the lower bound
that needs no model.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import Golden

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_BETWEEN_WORDS = re.compile(r"[\W_]+")


def score_facts(golden: Golden, responses: pd.DataFrame, applies: Flags) -> dict[str, Values]:
    """`key_facts_literal` of each response, as `rs.metrics()` defines it.

    NaN where it doesn't apply.
    """
    return {"key_facts_literal": _literal(golden, responses, applies)}


def _literal(golden: Golden, responses: pd.DataFrame, applies: Flags) -> Values:
    """Share of the facts whose words stand in the answer, one after the other."""
    share = np.full(len(responses), np.nan)
    if not len(golden.checks) or not applies.any():
        return share
    facts = golden.checks.loc[golden.checks["kind"] == "key_fact", ["query_id", "text"]]
    if not len(facts):
        return share
    answers = responses.loc[applies, ["query_id", "answer"]].assign(row=np.flatnonzero(applies))
    answers["words"] = [_words(answer) for answer in answers["answer"]]
    pairs = answers.merge(
        facts.assign(fact=[_words(text) for text in facts["text"]]), on="query_id"
    )
    # Substring search has no column form in pandas where both sides vary by row.
    holds = pd.Series(
        [fact in words for fact, words in zip(pairs["fact"], pairs["words"], strict=True)],
        dtype="float64",
    )
    means = holds.groupby(pairs["row"].to_numpy()).mean()
    share[means.index.to_numpy(dtype=np.int64)] = means.to_numpy()
    return share


def _words(text: str) -> str:
    """The words of a text in lower case, with a space around each.

    No case, no punctuation, single spaces.
    """
    return f" {_BETWEEN_WORDS.sub(' ', text.casefold()).strip()} "

"""Key facts that an answer should state: by a judge's verdicts, and literally.

A judge sees a fact in other words, the literal share doesn't: it is the lower bound that needs no model.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames import Golden, Results
from ragscore.match import response_of

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CRITERION = "key_facts"
VERDICTS = {"supported": 1.0, "unsupported": 0.0}
_BETWEEN_WORDS = re.compile(r"[\W_]+")


def score_facts(results: Results, golden: Golden, responses: pd.DataFrame, applies: Flags) -> dict[str, Values]:
    """`key_facts` (a judge's) and `key_facts_literal` of each response, as `rs.metrics()` defines them; NaN where it doesn't apply."""
    return {"key_facts": np.where(applies, _judged(results, responses), np.nan), "key_facts_literal": _literal(golden, responses, applies)}


def _judged(results: Results, responses: pd.DataFrame) -> Values:
    """A judge's value for the whole answer, else the mean of its verdicts on the single facts."""
    found = np.full(len(responses), np.nan)
    if results.judgments is None:
        return found
    rows = results.judgments[results.judgments["criterion"] == CRITERION].reset_index(drop=True)
    place = response_of(rows, responses)
    verdicts = rows["verdict"].map(VERDICTS).astype("float64") if "verdict" in rows else np.nan
    value = rows["value"].fillna(verdicts).groupby([place, rows["item"] == ""]).mean().dropna()
    for is_whole in (False, True):  # a value for the whole answer comes last and stands
        means = value[(value.index.get_level_values(1) == is_whole) & (value.index.get_level_values(0) >= 0)]
        found[means.index.get_level_values(0).to_numpy(dtype=np.int64)] = means.to_numpy()
    return found


def _literal(golden: Golden, responses: pd.DataFrame, applies: Flags) -> Values:
    """Share of the facts whose words stand in the answer, one after the other."""
    share = np.full(len(responses), np.nan)
    facts = golden.checks.loc[golden.checks["kind"] == "key_fact", ["query_id", "text"]]
    if not len(facts) or not applies.any():
        return share
    answers = responses.loc[applies, ["query_id", "answer"]].assign(row=np.flatnonzero(applies))
    answers["words"] = [_words(answer) for answer in answers["answer"]]
    pairs = answers.merge(facts.assign(fact=[_words(text) for text in facts["text"]]), on="query_id")
    # Substring search has no column form in pandas where both sides vary by row.
    holds = pd.Series([fact in words for fact, words in zip(pairs["fact"], pairs["words"], strict=True)], dtype="float64")
    means = holds.groupby(pairs["row"].to_numpy()).mean()
    share[means.index.to_numpy(dtype=np.int64)] = means.to_numpy()
    return share


def _words(text: str) -> str:
    """The words of a text in lower case, with a space around each: no case, no punctuation, single spaces."""
    return f" {_BETWEEN_WORDS.sub(' ', text.casefold()).strip()} "

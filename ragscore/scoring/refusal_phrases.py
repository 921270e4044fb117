"""Answers that read like refusals, where the system doesn't say whether it refused.

In: results and `Policies.refusals`. Out: the same, with `responses.refused` filled in where it is
unknown. Answers are compared as a column, by one pattern of all phrases.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources

import pandas as pd

from ragscore.frames.data import Results
from ragscore.frames.errors import excerpt, plural
from ragscore.scoring.answers import is_blank
from ragscore.scoring.citations import has_value
from ragscore.scoring.policies import PHRASES, STATED, Policies

READ_CHARS = 200  # a refusal comes at once: phrases are looked for in so many first characters
SHOWN = 3  # examples of answers that read like refusals
_APOSTROPHES = "[’ʼ`´]"


def with_refusals_read(results: Results, policies: Policies) -> Results:
    """Return results with `refused` filled in from the words of answers, as the policies say.

    What a run states stays. Of the other answers, those with a phrase are refusals and all else
    are none; a response without an answer stays unknown.
    """
    how = policies.refusals
    if how == STATED:
        return results
    responses = results.responses
    is_open = unstated(responses)
    if not is_open.any():
        return results
    refused = pd.Series(pd.NA, index=responses.index, dtype="boolean")
    if "refused" in responses:
        refused = responses["refused"].copy()
    refused[is_open] = read_as_refusals(
        responses.loc[is_open, "answer"], phrases_of(how)
    ).to_numpy()
    return replace(results, responses=responses.assign(refused=refused))


def unstated(responses: pd.DataFrame) -> pd.Series:
    """Flag answers, not blank and of no error, that nobody states to be a refusal or none."""
    is_given = has_value(responses, "answer") & ~is_blank(responses)
    is_open = is_given & ~has_value(responses, "error") & ~has_value(responses, "refused")
    return pd.Series(is_open, index=responses.index)


def phrases_of(refusals: str | Iterable[str] = PHRASES) -> list[str]:
    """Return the phrases to look for: "phrases" stands for those of refusal_phrases.yaml."""
    found: list[str] = []
    for one in [refusals] if isinstance(refusals, str) else refusals:
        found += _listed() if one in (PHRASES, STATED) else [one]
    return list(dict.fromkeys(found))


@cache
def _listed() -> list[str]:
    import yaml  # not needed to score files of other formats

    file = resources.files("ragscore.scoring") / "refusal_phrases.yaml"
    by_language = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [phrase for phrases in by_language.values() for phrase in phrases]


def read_as_refusals(answers: pd.Series, phrases: Iterable[str]) -> pd.Series:
    """Flag answers with one of the phrases in their first `READ_CHARS` characters.

    Letter case, kinds of apostrophe and the width of white space make no difference.
    """
    plain = (" ".join(re.sub(_APOSTROPHES, "'", one.lower()).split()) for one in phrases)
    texts = answers.astype("str").str.strip().str.slice(0, READ_CHARS).str.lower()
    texts = texts.str.replace(_APOSTROPHES, "'", regex=True).str.replace(r"\s+", " ", regex=True)
    return texts.str.contains("|".join(map(re.escape, plain))).fillna(False).astype(bool)


def told_by_words(results: Results, policies: Policies) -> str:
    """Say how many answers state nothing, and which of them read like refusals.

    "" where every answer states it.
    """
    responses, how = results.responses, policies.refusals
    is_open = unstated(responses)
    if not is_open.any():
        return ""
    answers = responses.loc[is_open, "answer"]
    alike = answers[read_as_refusals(answers, phrases_of(how))]
    shown = responses.loc[alike.index, ["query_id", "answer"]].drop_duplicates("answer")
    pairs = shown.iloc[:SHOWN].itertuples(index=False)
    examples = "; ".join(f"{query}: {excerpt(' '.join(answer.split()))}" for query, answer in pairs)
    listed = f" ({examples})" if examples else ""
    n = plural(len(answers), "answer")
    if how != STATED:
        return f"Refusals by their words, where nothing is stated: {len(alike)} of {n}{listed}."
    return (
        f"Nothing states whether {n} {'is a refusal' if len(answers) == 1 else 'are refusals'}:"
        " metrics of refusals leave them out, passed takes them for answers. Worded as a refusal:"
        f" {len(alike)}{listed}; refusals='phrases' goes by the words."
    )

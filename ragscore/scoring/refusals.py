"""Refusals where the system doesn't state them: by the words of its answer, or by a judge.

Steps on results: what a run states stays, unless asked otherwise.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import excerpt, plural
from ragscore.scoring.level import Level
from ragscore.scoring.metrics.judged import measured
from ragscore.scoring.rows import Rows

READ_CHARS = 200  # a refusal comes at once: phrases are looked for in so many first characters
SHOWN = 3  # examples of answers that read like refusals
_APOSTROPHES = "[’ʼ`´]"


@cache
def listed_phrases() -> tuple[str, ...]:
    """Return the phrases of refusing that are looked for by default, of 16 languages."""
    import yaml  # not needed to score files of other formats

    file = resources.files(__package__) / "refusal_phrases.yaml"
    by_language = yaml.safe_load(file.read_text(encoding="utf-8"))
    return tuple(phrase for phrases in by_language.values() for phrase in phrases)


def with_refusals_in_words(results: Results, phrases: Iterable[str] | None = None) -> Results:
    """Fill in `responses.refused` from the words of answers that state nothing.

    Answers that hold a phrase of refusing in their first 200 characters are refusals, all other
    answers are none; a response without an answer stays unknown.

    Parameters
    ----------
    phrases
        Phrases of your own instead; letter case and white space make no difference.

    Examples
    --------
    >>> rs.evaluate(results.with_refusals_in_words(), golden).refusals().table
    """
    check_type(results, Results, "results")
    given = listed_phrases() if phrases is None else tuple(phrases)
    is_text = not isinstance(phrases, str) and all(
        isinstance(one, str) and one.strip() for one in given
    )
    if not given or not is_text:
        raise DataError(
            f"found {excerpt(phrases)}",
            field="phrases",
            allowed="a list of texts that aren't blank",
        )
    responses = results.responses
    is_open = unstated(responses)
    refused = responses.get("refused", pd.Series(pd.NA, responses.index, dtype="boolean")).copy()
    refused[is_open] = in_words(responses.loc[is_open, "answer"], given).to_numpy()
    return replace(results, responses=responses.assign(refused=refused.astype("boolean")))


def unstated(responses: pd.DataFrame) -> pd.Series:
    """Flag answers, not blank and of no error, that nobody states to be a refusal or none."""
    absent = pd.Series(pd.NA, responses.index, dtype="str")
    answer, refused = responses.get("answer", absent), responses.get("refused", absent)
    is_given = answer.notna() & answer.astype("str").str.strip().ne("").fillna(False)
    return (is_given & responses["error"].isna() & refused.isna()).astype(bool)


def in_words(answers: pd.Series, phrases: Iterable[str] | None = None) -> pd.Series:
    """Flag answers with one of the phrases in their first `READ_CHARS` characters."""
    given = listed_phrases() if phrases is None else phrases
    plain = (" ".join(re.sub(_APOSTROPHES, "'", one.lower()).split()) for one in given)
    texts = answers.astype("str").str.strip().str.slice(0, READ_CHARS).str.lower()
    texts = texts.str.replace(_APOSTROPHES, "'", regex=True).str.replace(r"\s+", " ", regex=True)
    return texts.str.contains("|".join(map(re.escape, plain))).fillna(False).astype(bool)


def unstated_text(results: Results) -> str:
    """Say how many answers state nothing, and which of them read like refusals; "" for none."""
    responses = results.responses
    is_open = unstated(responses)
    if not is_open.any():
        return ""
    answers = responses.loc[is_open, "answer"]
    alike = responses.loc[answers[in_words(answers)].index, ["query_id", "answer"]]
    pairs = alike.drop_duplicates("answer").iloc[:SHOWN].itertuples(index=False)
    examples = "; ".join(f"{query}: {excerpt(' '.join(answer.split()))}" for query, answer in pairs)
    are = "is a refusal" if len(answers) == 1 else "are refusals"
    return (
        f"Nothing states whether {plural(len(answers), 'answer')} {are}: metrics of refusals leave"
        f" them out, passed takes them for answers. Worded as a refusal: {len(alike)}"
        f"{f' ({examples})' if examples else ''}; results.with_refusals_in_words() goes by the"
        " words."
    )


def response_rows(results: Results) -> Rows:
    """Return the rows of the responses alone, in their order."""
    queries = pd.DataFrame({"query_id": pd.Series(dtype="str"), "query": pd.Series(dtype="str")})
    return Rows(results, Golden(queries), Level("doc", "", ("doc",)))


def with_judged_refusals(results: Results, override: bool = False) -> Results:
    """Fill in `responses.refused` from the abstention judge's verdicts, where it isn't known.

    Where several verdicts differ, more than half of them make a refusal.

    Parameters
    ----------
    override
        Let the judge's verdict replace what the run states.

    Examples
    --------
    >>> rs.evaluate(results.with_judged_refusals(), golden).refusals().table
    """
    check_type(results, Results, "results")
    responses = results.responses
    judged = measured(response_rows(results), "judge_refused")  # a row per response, in their order
    verdict = pd.Series(judged > 0.5, index=responses.index, dtype="boolean").mask(np.isnan(judged))
    known = responses.get("refused", pd.Series(pd.NA, responses.index, dtype="boolean"))
    first, second = (verdict, known) if override else (known, verdict)
    return replace(results, responses=responses.assign(refused=first.fillna(second)))

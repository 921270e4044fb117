"""Refusals where the system doesn't state them: by the words of its answer, or by a judge.

Steps on results: what a run states stays, unless asked otherwise.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources

import pandas as pd

from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import excerpt, plural
from ragscore.scoring.metrics.judged import measured
from ragscore.scoring.rows import Rows

READ_CHARS = 200  # a refusal comes at once: phrases are looked for in so many first characters
SHOWN = 3  # examples of answers that read like refusals


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
    given = listed_phrases() if phrases is None else phrases
    are_texts = all(isinstance(one, str) and one.strip() for one in given)
    if not given or isinstance(given, str) or not are_texts:
        raise DataError(
            f"found {excerpt(phrases)}", field="phrases",
            allowed="a list of texts that aren't blank",
        )  # fmt: skip
    responses = results.responses
    is_open = unstated(responses)
    refused = _stated(responses).mask(is_open, in_words(responses.loc[is_open, "answer"], given))
    return replace(results, responses=responses.assign(refused=refused))


def _stated(responses: pd.DataFrame) -> pd.Series:
    return responses.get("refused", pd.Series(pd.NA, responses.index, dtype="boolean"))


def unstated(responses: pd.DataFrame) -> pd.Series:
    """Flag answers, not blank and of no error, that nobody states to be a refusal or none."""
    answer = responses.get("answer", pd.Series(pd.NA, responses.index, dtype="str"))
    is_given = answer.fillna("").str.strip().ne("")
    return is_given & responses["error"].isna() & _stated(responses).isna()


def in_words(answers: pd.Series, phrases: Iterable[str] | None = None) -> pd.Series:
    """Flag answers with one of the phrases in their first `READ_CHARS` characters."""
    pattern = _pattern(listed_phrases() if phrases is None else tuple(phrases))
    texts = _plain(answers.str.strip().str.slice(0, READ_CHARS))
    return texts.str.contains(pattern).astype("boolean")


@cache
def _pattern(phrases: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, _plain(pd.Series(phrases)).str.strip()))


def _plain(texts: pd.Series) -> pd.Series:
    """Return texts in small letters, with one kind of apostrophe and of white space."""
    small = texts.astype("str").str.lower().str.replace("[’ʼ`´]", "'", regex=True)
    return small.str.replace(r"\s+", " ", regex=True)


def unstated_text(results: Results) -> str:
    """Say how many answers state nothing, and which of them read like refusals; "" for none."""
    responses = results.responses[unstated(results.responses)]
    if not len(responses):
        return ""
    alike = responses[in_words(responses["answer"])]
    first = alike.drop_duplicates("answer").head(SHOWN)
    examples = first["query_id"] + ": " + first["answer"].str.split().str.join(" ").map(excerpt)
    shown = f" ({'; '.join(examples)})" if len(alike) else ""
    are = "is a refusal" if len(responses) == 1 else "are refusals"
    return (
        f"Nothing states whether {plural(len(responses), 'answer')} {are}: metrics of refusals"
        f" leave them out, passed takes them for answers. Worded as a refusal: {len(alike)}"
        f"{shown}; results.with_refusals_in_words() decides by the words."
    )


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
    responses, rows = results.responses, Rows.of_responses(results)  # one per response, in order
    judged = pd.Series(measured(rows, "judge_refused"), responses.index)
    verdict, stated = judged.gt(0.5).astype("boolean").mask(judged.isna()), _stated(responses)
    refused = verdict.fillna(stated) if override else stated.fillna(verdict)
    return replace(results, responses=responses.assign(refused=refused))

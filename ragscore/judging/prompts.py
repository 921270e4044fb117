"""The judges, as data.

What each one is shown, what it is asked, the shape of its reply and the function that reads it.

A prompt is a text file beside this module, named after what it asks and its version; its hash
covers the text and the shape of the reply, and stands in every judgment that it led to.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from importlib.resources import files
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.judging.verdicts import (
    SHAPES,
    Verdict,
    chunk_verdict,
    points,
    refusal_verdict,
    stated,
    supported,
)

Parse = Callable[[dict[str, Any], list[str]], list[Verdict]]
N_QUESTIONS = 3  # that answer relevance generates, as RAGAS does


@dataclass(frozen=True)
class Prompt:
    """What a model is told, its version, and the JSON schema of the reply."""

    name: str
    version: str
    text: str
    schema: dict[str, Any]

    @cached_property
    def hash(self) -> str:
        """A hash of the text and of the reply's shape."""
        return hashlib.sha256(
            json.dumps([self.text, self.schema], sort_keys=True, ensure_ascii=False).encode()
        ).hexdigest()[:16]


@dataclass(frozen=True)
class Judge:
    """One judge.

    Attributes
    ----------
    name, criterion
        What it is called, and under which name its judgments stand in the frame and its scores
        among the metrics.
    prompt
        What it is asked.
    needs
        Without which it isn't asked: answer, context, reference, key_facts; `a|b` is either.
    shows
        What the prompt sees, of: question, answer, context, reference_answer, key_facts.
    parse
        Reads the reply's object, given the items that were judged; returns the verdicts.
    each
        What gets a verdict of its own: "" the answer, "claims", "facts" (one call for all),
        "chunks" (a call for each) or "questions" (generated, then compared with the question by
        their embeddings).
    claims_of, source
        Whose claims ("answer" or "reference"), and what should support them ("context", "reference"
        or "answer").
    claims
        The prompt that finds the claims.
    """

    name: str
    criterion: str
    prompt: Prompt
    needs: tuple[str, ...]
    parse: Parse
    shows: tuple[str, ...] = ()
    each: str = ""
    claims_of: str = ""
    source: str = ""
    claims: Prompt | None = None

    def with_prompt(self, text: str, version: str = "own") -> "Judge":
        """The same judge with another wording; the shape of its reply stays."""
        return replace(self, prompt=replace(self.prompt, text=text, version=version))

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """Every prompt that it uses."""
        return (self.claims, self.prompt) if self.claims else (self.prompt,)

    @property
    def prompt_hash(self) -> str:
        """One hash of everything that it asks."""
        if len(self.prompts) == 1:
            return self.prompt.hash
        return hashlib.sha256(
            " ".join(prompt.hash for prompt in self.prompts).encode()
        ).hexdigest()[:16]

    @property
    def prompt_version(self) -> str:
        """Names and versions of its prompts."""
        return "+".join(f"{prompt.name}.{prompt.version}" for prompt in self.prompts)


def _prompt(name: str, version: str = "v1") -> Prompt:
    text = (
        files("ragscore.judging")
        .joinpath("prompts", f"{name}.{version}.md")
        .read_text(encoding="utf-8")
    )
    return Prompt(name, version, text, SHAPES[name])


def _of_claims(name: str, claims_of: str, source: str) -> Judge:
    needs = tuple(dict.fromkeys((claims_of, source)))
    return Judge(
        name,
        name,
        _prompt("attribution"),
        needs,
        supported,
        each="claims",
        claims_of=claims_of,
        source=source,
        claims=_prompt("claims"),
    )


def _all() -> list[Judge]:
    asked = ("question", "answer")
    return [
        Judge("groundedness", "judge_groundedness", _prompt("groundedness"), ("answer", "context"),
        points, ("question", "context", "answer")),
        Judge("correctness", "judge_correctness", _prompt("correctness"),
        ("answer", "reference|key_facts"), points,
        ("question", "reference_answer", "key_facts", "answer")),
        _of_claims("faithfulness", "answer", "context"),
        Judge("context_precision", "context_precision", _prompt("chunk_relevance"), ("context",),
        chunk_verdict, ("question", "reference_answer"), each="chunks"),
        _of_claims("context_recall", "reference", "context"),
        Judge("answer_relevance", "answer_relevance", _prompt("questions"), ("answer",), stated,
        ("answer",), each="questions"),
        Judge("abstention", "judge_refused", _prompt("abstention"), ("answer",), refusal_verdict,
        asked),
        Judge("key_facts", "key_facts", _prompt("key_facts"), ("answer", "key_facts"), supported,
        asked, each="facts"),
        _of_claims("claim_precision", "answer", "reference"),
        _of_claims("claim_recall", "reference", "answer"),
    ]  # fmt: skip


JUDGES = {judge.name: judge for judge in _all()}


def find_judges(wanted: "str | Judge | Iterable[str | Judge]") -> list[Judge]:
    """Judges by name, or as they are given.

    Raises
    ------
    DataError
        A name that no judge has (near misses are named), none at all, or two judges of one
        criterion.
    """
    given = [wanted] if isinstance(wanted, (str, Judge)) else list(wanted)
    found = [one if isinstance(one, Judge) else _named(one) for one in given]
    criteria = [judge.criterion for judge in found]
    if not found or len(set(criteria)) < len(criteria):
        raise DataError(
            f"found {[judge.name for judge in found]}",
            field="judges",
            allowed=f"each criterion once, of {', '.join(JUDGES)}",
        )
    return found


def find_judge(name: str) -> Judge:
    """One judge by its name, to look at or to give another wording.

    `rs.find_judge("groundedness").with_prompt(text)`.
    """
    return _named(name)


def judge_table() -> pd.DataFrame:
    """The judges that come with the library.

    Returns
    -------
    One row per judge: `judge`, the `criterion` under which its judgments and its metric stand, what
    it `needs`, what gets a verdict of its own (`each`; "" is the answer as a whole),
    `prompt_version` and `prompt_hash`.
    """
    rows = [
        (
            j.name,
            j.criterion,
            ", ".join(j.needs),
            j.each or "answer",
            j.prompt_version,
            j.prompt_hash,
        )
        for j in JUDGES.values()
    ]
    return pd.DataFrame(
        rows,
        columns=["judge", "criterion", "needs", "each", "prompt_version", "prompt_hash"],
        dtype="str",
    )


def _named(name: object) -> Judge:
    if not isinstance(name, str) or name not in JUDGES:
        close = get_close_matches(str(name), JUDGES, n=2)
        raise DataError(
            f"unknown judge {name!r}",
            field="judges",
            allowed=(
                f"did you mean {', '.join(close)}?" if close else f"some of {', '.join(JUDGES)}"
            ),
        )
    return JUDGES[name]

"""Cells of foreign records as text, list of texts, number or score.

Leniently, but never guessing and never silently.
"""

import json
import math
from typing import Any

from ragscore.io.rows import nested
from ragscore.io.source import Problems, Row, as_id, as_text, shown
from ragscore.io.tools.cases import Stored

SAME = {
    "faithfulness": "faithfulness", "context_precision": "context_precision",
    "llm_context_precision_with_reference": "context_precision",
    "contextual precision": "context_precision", "context_recall": "context_recall",
    "llm_context_recall": "context_recall",
    "contextual recall": "context_recall", "context-recall": "context_recall",
    "context-faithfulness": "faithfulness", "answer_relevancy": "answer_relevance",
}  # fmt: skip
"""Other tools' names (lower case) of judged metrics that are ours by formula: claims supported / claims, and so on."""
VERDICTS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "pass": 1.0, "fail": 0.0}


def our_name(metric: str, same: dict[str, str] = SAME) -> str:
    """Our name of another tool's metric where it is the same one, else its own."""
    plain = metric.strip()
    return same.get(plain.lower(), plain)


def score_of(value: Any) -> tuple[float | None, str | None]:
    """A stored score as (number, verdict).

    Yes / no and booleans are 1 / 0, another word is a verdict without a number.
    """
    if isinstance(value, bool):
        return float(value), str(value).lower()
    if (number := as_number(value)) is not None:
        return number, None
    word = as_text(value) if isinstance(value, str) else None
    if word is None or not word.strip() or word.strip().lower() in ("nan", "none", "null"):
        return None, None
    return VERDICTS.get(word.strip().lower()), word


def as_number(value: Any) -> float | None:
    """A finite number, also written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def stored(metric: str, value: Any, *, same: dict[str, str] = SAME, **about: Any) -> Stored:
    """A score under our name of its metric.

    One that came with an error is none, whatever number stands beside it.
    """
    number, verdict = (None, None) if about.get("error") is not None else score_of(value)
    return Stored(
        our_name(metric, same), number, verdict=about.pop("verdict", None) or verdict, **about
    )


class Cells:
    """The cells of one record, taken out by name.

    What isn't of the asked kind is a problem with its line.
    """

    def __init__(self, row: Row, problems: Problems) -> None:
        self.values, self.line, self.problems = dict(row.values), row.line, problems

    def take(self, *names: str) -> Any:
        """The first of these cells that isn't missing; all of them are taken out."""
        found = None
        for name in names:
            value = self.values.pop(name, None)
            found = value if found is None else found
        return found

    def text(self, *names: str) -> str | None:
        """Text or a number as text; a list or mapping as its JSON."""
        value = self.take(*names)
        if isinstance(value, (dict, list)):
            return json.dumps(value, ensure_ascii=False)
        return str(value).lower() if isinstance(value, bool) else as_text(value)

    def number(self, *names: str) -> float | None:
        """A number; NaN is none."""
        value = self.take(*names)
        found = as_number(value)
        if (
            found is None
            and value is not None
            and not (isinstance(value, float) and math.isnan(value))
        ):
            self._refuse(value, names, "a number or null")
        return found

    def whole(self, *names: str) -> int | None:
        """A whole number from 0 that 64 bits hold."""
        value = self.take(*names)
        found = as_number(value)
        if found is None or found % 1 or not 0 <= found < 2**53:
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                self._refuse(value, names, "a whole number or null")
            return None
        return int(found)

    def flag(self, *names: str) -> bool | None:
        """True or false, also as 1, 0, or a word for it."""
        value = self.take(*names)
        number, _ = score_of(value)
        if value is not None and number not in (0.0, 1.0):
            self._refuse(value, names, "true or false, or null")
            return None
        return None if number is None else bool(number)

    def identifier(self, *names: str) -> str | None:
        """An id: text that isn't empty, or a whole number."""
        value = self.take(*names)
        found = as_id(value)
        if value is not None and found is None:
            self._refuse(value, names, "an id: text or a whole number")
        return found

    def texts(self, *names: str) -> list[str] | None:
        """A list of texts.

        One text is a list of one, a cell of CSV may hold the list as JSON or Python's repr.
        """
        value = nested(self.take(*names))
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        found = [as_text(one) for one in items]
        if None in found:
            self._refuse(value, names, "a list of texts")
        return [one for one in found if one is not None]

    def numbers(self, *names: str) -> list[float | None]:
        """A list of numbers; items that are none are None."""
        value = nested(self.take(*names))
        return [as_number(one) for one in value] if isinstance(value, list) else []

    def mapping(self, *names: str) -> dict[str, Any]:
        """A mapping, also as JSON or Python's repr; an empty one if it is missing."""
        value = nested(self.take(*names))
        if value is not None and not isinstance(value, dict):
            self._refuse(value, names, "a mapping")
        return dict(value) if isinstance(value, dict) else {}

    def records(self, *names: str) -> list[dict[str, Any]]:
        """A list of mappings; what is none in it is a problem."""
        value = nested(self.take(*names))
        items = value if isinstance(value, list) else [] if value is None else [value]
        for one in items:
            if not isinstance(one, dict):
                self._refuse(one, names, "a list of mappings")
        return [one for one in items if isinstance(one, dict)]

    def _refuse(self, value: Any, names: tuple[str, ...], allowed: str) -> None:
        self.problems.add(f"found {shown(value)}", line=self.line, field=names[0], allowed=allowed)


def hits_of(
    texts: list[str] | None,
    chunk_ids: list[str] | None,
    doc_ids: list[str] | None,
    scores: list[float | None],
) -> list[dict[str, Any]] | None:
    """Hits from lists side by side, in the order of their ranks; None where no list is given."""
    lists = {"text": texts, "chunk_id": chunk_ids, "doc_id": doc_ids, "score": scores or None}
    given = {name: values for name, values in lists.items() if values is not None}
    if not any(name in given for name in ("text", "chunk_id", "doc_id")):
        return None
    longest = max(len(values) for name, values in given.items() if name != "score")
    return [
        {name: values[place] for name, values in given.items() if place < len(values)}
        for place in range(longest)
    ]

"""Cells of foreign records as text, list of texts, number or score.

Leniently, but never guessing and never silently.

A plain table with named columns -> cases.

And the roles that a user may give to any field of any format.
"""

import json
import math
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.detect import Sample
from ragscore.io.rows import Source, nested, table_rows
from ragscore.io.source import Problems, Row, as_id, as_text, describe
from ragscore.io.tools.cases import Case, Imported, Stored, imported

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
        self.problems.add(
            f"found {describe(value)}", line=self.line, field=names[0], allowed=allowed
        )


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


TEXT = {"query": "query", "answer": "answer", "error": "error", "gold_answer": "reference_answer"}
NUMBER = {"latency_ms": "latency_ms", "cost_usd": "cost_usd"}
WHOLE = {
    "repeat": "repeat",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
}
FLAG = {"answerable": "answerable", "refused": "refused"}
LABEL = ("lang", "difficulty", "category", "group", "variant")
TAG = {"tags": "tag", "vaults": "vault", "folders": "folder"}
CHECK = {"must_contain": "must_contain", "forbidden": "forbidden", "key_facts": "key_fact"}
RETRIEVED = ("retrieved_ids", "retrieved_doc_ids", "retrieved_texts", "retrieved_scores")
GOLD = {"gold_ids": "chunk", "gold_doc_ids": "doc"}
ROLES = (
    "query_id",
    "run_id",
    *TEXT,
    *NUMBER,
    *WHOLE,
    *FLAG,
    *LABEL,
    *TAG,
    *CHECK,
    *RETRIEVED,
    *GOLD,
    "gold_texts",
)
PREFIXES = ("score.", "reason.", "scorer_error.")


def fits(seen: Sample) -> bool:
    """Whether a table has columns called as our roles are.

    A question or its id, and something to score or be scored by.
    """
    asks = seen.keys & {"query", "query_id"}
    says = seen.keys & {"answer", "gold_answer", *RETRIEVED, *GOLD, "gold_texts"} or any(
        name.startswith("score.") for name in seen.keys
    )
    return bool(seen.kind in ("frame", "parquet", "text") and asks and says) and not seen.keys & {
        "user_input",
        "test_case_id",
        "retriever",
    }


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """One case per row.

    Columns that have a role's name have that role, unless `columns` gives it to another.
    """
    rows = list(table_rows(source, problems))
    names = dict.fromkeys(name for row in rows for name in row.values)
    given = {name: name for name in names if _is_role(name)} | columns
    cases = []
    for row in rows:
        case = with_roles(Case(row.line), row, given, problems)
        case.extra = {
            name: value
            for name, value in row.values.items()
            if name not in given.values() and value is not None
        }
        cases.append(case)
    return imported(cases, {**described, "runs_are_named": True}, problems)


def _is_role(name: str) -> bool:
    return name in ROLES or name.startswith(PREFIXES)


def check_roles(columns: dict[str, str] | None) -> dict[str, str]:
    """The roles that a user gave.

    Raises
    ------
    DataError
        A role that there isn't.
    """
    for role, column in (columns or {}).items():
        if not _is_role(role) or not isinstance(column, str):
            raise DataError(
                f"found {role!r}: {column!r}",
                field="columns",
                allowed=(
                    "role -> column; roles are"
                    f" {', '.join([*ROLES, *(f'{one}<metric>' for one in PREFIXES)])}"
                ),
            )
    return dict(columns or {})


def with_roles(case: Case, row: Row, columns: dict[str, str], problems: Problems) -> Case:
    """The case with what the user's columns (dotted names reach into mappings) say, over what the format said."""
    cells = Cells(
        Row({role: _reach(row.values, path) for role, path in columns.items()}, row.line), problems
    )
    for take, roles in (
        (cells.text, TEXT),
        (cells.number, NUMBER),
        (cells.whole, WHOLE),
        (cells.flag, FLAG),
    ):
        for role, name in roles.items():
            if role in columns and (value := take(role)) is not None:
                setattr(case, name, value)
    case.query_id, case.run = (
        cells.identifier("query_id") or case.query_id,
        cells.text("run_id") or case.run,
    )
    case.labels |= {name: text for name in LABEL if (text := cells.text(name)) is not None}
    case.tags |= {kind: texts for role, kind in TAG.items() if (texts := cells.texts(role))}
    case.checks |= {kind: texts for role, kind in CHECK.items() if (texts := cells.texts(role))}
    case.gold_ids |= {
        level: ids for role, level in GOLD.items() if (ids := cells.texts(role)) is not None
    }
    case.gold_texts = cells.texts("gold_texts") or case.gold_texts
    found = hits_of(
        cells.texts("retrieved_texts"),
        cells.texts("retrieved_ids"),
        cells.texts("retrieved_doc_ids"),
        cells.numbers("retrieved_scores"),
    )
    case.hits = case.hits if found is None else found
    case.stored += _scores(cells)
    return case


def _scores(cells: Cells) -> list[Stored]:
    metrics = dict.fromkeys(
        role.removeprefix(prefix)
        for role in cells.values
        for prefix in PREFIXES
        if role.startswith(prefix)
    )
    found = []
    for name in metrics:
        reason, error = cells.text(f"reason.{name}"), cells.text(f"scorer_error.{name}")
        found.append(
            stored(
                name,
                cells.take(f"score.{name}"),
                reason=reason,
                error=error,
                is_judged=reason is not None,
            )
        )
    return [one for one in found if one.value is not None or one.error or one.verdict]


def _reach(values: dict[str, Any], path: str) -> Any:
    """A value by its name, or by a dotted path through mappings, whose names may have dots themselves."""
    if path in values:
        return values[path]
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        if (name := ".".join(parts[:length])) in values:
            place = nested(values[name])
            return _reach(place, ".".join(parts[length:])) if isinstance(place, dict) else None
    return None

"""`satisfied_by` of a golden row.

For each expectation, whether any or all hits, and any or all of its values, are needed.

`{"expected_metadata": {"hits": "all", "values": "any"}}` <-> rows of `checks`, one for each choice
that is stated.
"""

from collections.abc import Iterable
from typing import Any

from ragscore.frames.kinds import AXES, CHOICE_KINDS, CHOICES, EXPECTATIONS
from ragscore.io.source import Problems, Row, shown

FIELD = "satisfied_by"


def choices_of(row: Row, query_id: str, problems: Problems) -> list[dict[str, Any]]:
    """The choices that a row states, as checks; what is none is a problem."""
    written, line = row.values.get(FIELD), row.line_of(FIELD)
    if written is None:
        return []
    if not isinstance(written, dict):
        problems.add(
            f"found {shown(written)}",
            line=line,
            field=FIELD,
            allowed=f"a mapping of {', '.join(EXPECTATIONS)}",
        )
        return []
    found: list[dict[str, Any]] = []
    for name, choices in written.items():
        if name not in EXPECTATIONS:
            problems.add(
                f"found {shown(name)}",
                line=line,
                field=FIELD,
                allowed=f"one of {', '.join(EXPECTATIONS)}",
            )
        elif not isinstance(choices, dict):
            problems.add(
                f"found {shown(choices)}",
                line=line,
                field=f"{FIELD}.{name}",
                allowed=f"a mapping of {', '.join(AXES)}",
            )
        else:
            found += _stated(name, choices, query_id, line, problems)
    return found


def _stated(
    name: str, choices: dict[str, Any], query_id: str, line: int, problems: Problems
) -> Iterable[dict[str, Any]]:
    for axis, choice in choices.items():
        if axis not in AXES:
            problems.add(
                f"found {shown(axis)}",
                line=line,
                field=f"{FIELD}.{name}",
                allowed=f"one of {', '.join(AXES)}",
            )
        elif choice not in CHOICES:
            problems.add(
                f"found {shown(choice)}",
                line=line,
                field=f"{FIELD}.{name}.{axis}",
                allowed=f"one of {', '.join(CHOICES)}",
            )
        else:
            yield {"query_id": query_id, "kind": f"{name}.{axis}", "text": choice}


def written_choices(kinds: Iterable[str], texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """The field as it stood, from kinds and texts of a question's checks.

    Empty where nothing was stated.
    """
    found: dict[str, dict[str, str]] = {}
    for kind, text in zip(kinds, texts, strict=True):
        if kind in CHOICE_KINDS:
            name, axis = CHOICE_KINDS[kind]
            found.setdefault(name, {})[axis] = text
    return found

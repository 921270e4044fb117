"""Our golden file: an optional header that declares rules, then one row per query.

In YAML the header is a document of its own, divided from the list by `---`; in JSON lines it is the
first line. Either is a mapping with the one key `rules`: field -> list of its allowed values, and
`required` -> list of fields that every query must have. `validate` checks the rules; scoring never
looks at them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, from_records
from ragscore.frames.errors import nearest
from ragscore.io.golden_read import FIELD_ORDER, KNOWN_FIELDS, TAG_FIELDS, TEXT_FIELDS, golden_of
from ragscore.io.rows import RULES, is_header
from ragscore.io.source import Problems, Row, as_text, json_rows, suggest_field

REQUIRED = "required"
WITH_VALUES = tuple(name for name in (*TEXT_FIELDS, *TAG_FIELDS) if name != "reference_answer")
"""Fields of ours whose values a header can declare; a user's own fields are as free."""
_MAPPING = f"a mapping of fields to lists of their values, and {REQUIRED}: a list of fields"
_VALUES = "a list of at least one text (quote a yes/no)"


def read_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read and check one golden file; `ragscore.load_golden` documents the arguments."""
    problems = Problems(path, strict)
    header, rows = split_header(file_rows(path, problems))
    for row in rows:
        if is_header(row.values):
            problems.add(
                f"{RULES} after the first row", line=row.line, allowed="them before all rows"
            )
    rows = [row for row in rows if not is_header(row.values)]
    golden = golden_of(rows, problems, absent_docs, catalogue)
    problems.typos.warn()
    if header is None:
        return golden
    return replace(golden, rules=rules_of(header, problems), problems=problems.frame())


def file_rows(path: Path, problems: Problems, text: str | None = None) -> list[Row]:
    """Return the rows of a golden file, its header among them.

    Pass `text` if the file's content is at hand.
    """
    if path.name.removesuffix(".gz").endswith((".yaml", ".yml")):
        from ragscore.io.yaml_rows import yaml_rows

        return list(yaml_rows(path, problems, text))
    return list(json_rows(path, problems, None if text is None else text.split("\n")))


def split_header(rows: Sequence[Row]) -> tuple[Row | None, list[Row]]:
    """Return the header (None without one) and the rows of the queries."""
    if rows and is_header(rows[0].values):
        return rows[0], list(rows[1:])
    return None, list(rows)


def rules_of(header: Row, problems: Problems) -> pd.DataFrame:
    """Return the rules that a header declares, those about values first.

    A name that is a field of ours, but none with a vocabulary, is a problem, and so is one that
    resembles a field of ours.
    """
    if others := [name for name in header.values if name != RULES]:
        problems.add(
            f"found {others[0]!r} beside {RULES}",
            line=header.line_of(others[0]),
            allowed=f"a header with the one key {RULES}",
        )
    declared = header.values[RULES]
    if not isinstance(declared, dict) or not declared:
        problems.reject(declared, header.line_of(RULES), RULES, _MAPPING)
        declared = {}
    allowed, required = list[dict[str, Any]](), list[dict[str, Any]]()
    for name, written in declared.items():
        place = f"{RULES}.{name}"
        line = header.lines.get(place, header.line_of(RULES))
        values = [as_text(one) for one in written] if isinstance(written, list) else []
        if not values or None in values:
            problems.reject(
                written, line, place, "a list of fields" if name == REQUIRED else _VALUES
            )
        elif name == REQUIRED:
            known = [
                one for one in values if _is_field(str(one), FIELD_ORDER, line, problems, place)
            ]
            required += [{"field": one, "value": None} for one in dict.fromkeys(known)]
        elif _is_field(name, WITH_VALUES, line, problems, RULES):
            allowed += [{"field": name, "value": one} for one in dict.fromkeys(values)]
    return from_records([*allowed, *required], RULES)


def _is_field(name: str, known: Sequence[str], line: int, problems: Problems, place: str) -> bool:
    """Refuse fields of ours that aren't in `known`, and names that resemble a field of ours."""
    if name in known or not (name in KNOWN_FIELDS or suggest_field(name, KNOWN_FIELDS)):
        return True
    allowed = f"{nearest(name, known)}; or a field of your own"
    problems.add(f"found {name!r}", line=line, field=place, allowed=allowed)
    return False


def header_of(rules: pd.DataFrame) -> dict[str, Any] | None:
    """Return the header that declares these rules; None without any."""
    declared: dict[str, list[str]] = {}
    is_required = rules["value"].isna()
    for name, value in rules[~is_required].itertuples(index=False):
        declared.setdefault(name, []).append(value)
    if is_required.any():
        declared.setdefault(REQUIRED, []).extend(rules.loc[is_required, "field"])
    return {RULES: declared} if declared else None


def rules_in_all(parts: Sequence[Golden]) -> pd.DataFrame:
    """Return the rules that hold for queries of several files: about fields that all declare.

    A value is allowed if any of the files allows it.
    """
    rules = pd.concat([part.rules for part in parts], ignore_index=True).drop_duplicates()
    kinds = pd.MultiIndex.from_arrays([rules["field"], rules["value"].isna()])
    for part in parts:
        own = pd.MultiIndex.from_arrays([part.rules["field"], part.rules["value"].isna()])
        is_shared = kinds.isin(own)
        rules, kinds = rules[is_shared], kinds[is_shared]
    return rules.reset_index(drop=True)

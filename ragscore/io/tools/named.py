"""A plain table with named columns -> cases.

And the roles that a user may give to any field of any format.
"""

from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.detect import Sample
from ragscore.io.rows import Source, nested, table_rows
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Case, Imported, Stored, imported
from ragscore.io.tools.cells import Cells, hits_of, stored

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

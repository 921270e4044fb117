"""Cells of foreign records as text, lists of texts, numbers or scores.

Cells are read leniently, but a value of the wrong kind is always a problem. Here are also the
values that a user's `columns=` give to a case of any tool or table.
"""

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from ragscore.frames.kinds import LABELS
from ragscore.frames.schema import FIELDS
from ragscore.io.columns import METRIC_ROLES, inner_roles
from ragscore.io.records import Call, Record, Stored
from ragscore.io.rows import LIST_ALLOWED, is_list_text, nested, value_at
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.stored import SAME, our_name, score_of
from ragscore.io.values import ID_ALLOWED, FieldReader, as_number, flatten

QUERY_KEYS = ("question", "query", "input", "user_input", "prompt", "request")


def stored(metric: str, value: Any, *, same: dict[str, str] = SAME, **about: Any) -> Stored:
    """Return a score under our name of its metric.

    A score with an error has no value, whatever number stands beside it.
    """
    number, verdict = (None, None) if about.get("error") is not None else score_of(value)
    return Stored(
        our_name(metric, same), number, verdict=about.pop("verdict", None) or verdict, **about
    )


def text_in(values: dict[str, Any], names: Iterable[str]) -> str | None:
    """Return the first text that isn't empty among the fields of these names."""
    return next((text for name in names if (text := as_text(values.get(name)))), None)


def labels_in(values: dict[str, Any]) -> dict[str, str]:
    """Return the labels of a query that its metadata state under our own names."""
    return {name: label for name in LABELS if isinstance(label := values.get(name), str)}


def query_of(value: Any) -> str | None:
    """Return the query in an input: a text, a field of a mapping, or the user's last message."""
    value = nested(value)
    if isinstance(value, list):
        users = [
            one.get("content")
            for one in value
            if isinstance(one, dict) and one.get("role", one.get("type")) in (None, "user", "human")
        ]
        value = users[-1] if users else None
        if isinstance(value, list):
            parts = [one.get("text") for one in value if isinstance(one, dict)]
            value = " ".join(part for part in parts if isinstance(part, str))
    if not isinstance(value, dict):
        return as_text(value)
    texts = {name: one for name, one in value.items() if isinstance(one, str)}
    return text_in(value, QUERY_KEYS) or text_in(texts, texts) or json_text(value)


def json_text(value: Any) -> str:
    """Return a value as JSON text that doesn't depend on the order of its keys."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def without_missing(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


class Cells(FieldReader):
    """The cells of one record of another tool, each removed when it is read, with lists and parts.

    A value of another kind than asked for is a problem with its line.
    """

    __slots__ = ()

    def __init__(self, row: Row, problems: Problems, called: dict[str, str] | None = None) -> None:
        super().__init__(row.values, "", row.line, problems, loose=True, called=called)

    def milliseconds(self, *names: str) -> float | None:
        """Return seconds as milliseconds."""
        seconds = self.number(*names)
        return None if seconds is None else seconds * 1000

    def answer(self, name: str) -> str | None:
        """Return an answer's text, also of a list of one and of the blocks of a message."""
        value = self.values.get(name)
        if isinstance(value, list):
            blocks = [one.get("text", "") for one in value if isinstance(one, dict)]
            texts = blocks if len(blocks) == len(value) else value
            is_one = bool(blocks) if texts is blocks else len(value) == 1
            if not is_one or not all(isinstance(one, str) for one in texts):
                self.reject(self.pop(name), name, "one text, or the blocks of a message")
                return None
            self.values[name] = "".join(texts)
        return self.text(name)

    def texts(self, *names: str) -> list[str] | None:
        """Return a list of texts; one text is a list of one.

        A cell of CSV may hold the list as JSON or Python's repr.
        """
        value = nested(self.pop(*names))
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        found = [as_text(one) for one in items]
        if None in found:
            self.reject(value, names[0], "a list of texts")
        return [one for one in found if one is not None]

    def ids(self, *names: str) -> list[str] | None:
        """Return a list of ids; one id is a list of one. Anything else in it is a problem."""
        value = nested(self.pop(*names))
        if value is None:
            return None
        if is_list_text(value):
            self.reject(value, names[0], LIST_ALLOWED)
            return []
        found = []
        for one in value if isinstance(value, list) else [value]:
            if (known := as_id(one)) is None:
                self.reject(one, names[0], ID_ALLOWED)
            else:
                found.append(known)
        return found

    def numbers(self, *names: str) -> list[float | None]:
        """Return a list of numbers, with None for other items."""
        value = nested(self.pop(*names))
        return [as_number(one) for one in value] if isinstance(value, list) else []

    def mapping(self, *names: str) -> dict[str, Any]:
        """Return a mapping, also from JSON or Python's repr; an empty one if it is missing."""
        value = nested(self.pop(*names))
        if value is not None and not isinstance(value, dict):
            self.reject(value, names[0], "a mapping")
        return dict(value) if isinstance(value, dict) else {}

    def part(self, *names: str) -> "Cells":
        """Return the cells of a mapping inside this record."""
        return self.of(self.mapping(*names))

    def of(self, values: dict[str, Any]) -> "Cells":
        """Return the cells of another mapping, at the line of this record."""
        return Cells(Row(values, self.line), self.problems)

    def records(self, *names: str) -> list[dict[str, Any]]:
        """Return a list of mappings; any other item is a problem."""
        value = nested(self.pop(*names))
        items = value if isinstance(value, list) else [] if value is None else [value]
        for one in items:
            if not isinstance(one, dict):
                self.reject(one, names[0], "a list of mappings")
        return [one for one in items if isinstance(one, dict)]


def hits_of(
    texts: list[str] | None,
    chunk_ids: list[str] | None = None,
    doc_ids: list[str] | None = None,
    scores: list[float | None] | None = None,
) -> list[dict[str, Any]] | None:
    """Return hits from parallel lists in the order of ranks; None if no list is given."""
    lists = {"text": texts, "chunk_id": chunk_ids, "doc_id": doc_ids, "score": scores or None}
    given = {name: values for name, values in lists.items() if values is not None}
    if not any(name in given for name in ("text", "chunk_id", "doc_id")):
        return None
    longest = max(len(values) for name, values in given.items() if name != "score")
    return [
        {name: values[place] for name, values in given.items() if place < len(values)}
        for place in range(longest)
    ]


_LOOSELY: dict[str, Callable[..., Any]] = {
    "text": Cells.text, "failure": Cells.text, "number": Cells.number, "whole": Cells.whole,
    "flag": Cells.flag, "refusal": Cells.flag,
}  # fmt: skip
COLUMN: dict[str, tuple[str, Callable[..., Any]]] = {
    field.role or field.column: (field.column, _LOOSELY[field.type])
    for field in FIELDS["responses"]
    if field.names and field.type in _LOOSELY
} | {"answer": ("answer", Cells.answer), "latency_s": ("elapsed_ms", Cells.milliseconds)}
"""Roles of a response -> their column, and how a cell of it is read."""
VALUE: dict[str, Callable[..., Any]] = {
    "reference_answer": Cells.text, "repeat": Cells.whole, "answerable": Cells.flag,
}  # fmt: skip
"""Other roles of single values, called as the attribute of `Record`, and how a cell is read."""
TAG = {"tags": "tag", "vaults": "vault", "folders": "folder"}
CHECK = {"must_contain": "must_contain", "forbidden": "forbidden", "key_facts": "key_fact"}
EXPECTED = {"doc_id": "gold_doc_id", "chunk_id": "gold_chunk_id", "text": "gold_text"}
"""Roles that mean what was returned in results, and what is expected in a golden set."""


def first_at(values: dict[str, Any], paths: Iterable[str]) -> Any:
    """Return the value at the first of these paths that has one; a text has them with blanks."""
    for path in _parted(paths) if isinstance(paths, str) else paths:
        if (found := value_at(values, path)) is not None:
            return found
    return None


@lru_cache(maxsize=4096)
def _parted(paths: str) -> list[str]:
    return paths.split()


def mapped(row: Row, paths: dict[str, str], columns: dict[str, str], problems: Problems) -> Record:
    """Return a record by a format's own paths; the user's columns come before them."""
    both = {
        role: f"{columns[role]}|{path}" if role in columns else path for role, path in paths.items()
    }
    return with_roles(Record(row.line), row, columns | both, problems)


def with_roles(case: Record, row: Row, columns: dict[str, str], problems: Problems) -> Record:
    """Return the case with the values of the user's columns, which override the format's.

    Dotted column names reach into mappings, and into each mapping of a list.
    """
    if not columns:
        return case
    values = {role: first_at(row.values, paths.split("|")) for role, paths in columns.items()}
    cells = Cells(Row(values, row.line), problems, columns)
    for role, (column, read) in COLUMN.items():
        if role in columns and (value := read(cells, role)) is not None:
            case.response[column] = value
    for role, read in VALUE.items():
        if role in columns and (value := read(cells, role)) is not None:
            setattr(case, role, value)
    if (should_refuse := cells.flag("should_refuse")) is not None:
        case.answerable = not should_refuse
    case.query_id = cells.identifier("query_id") or case.query_id
    case.run = cells.identifier("run_id") or case.run
    case.labels |= {
        name: text for name in LABELS if name in columns and (text := cells.text(name)) is not None
    }
    case.tags |= {
        kind: texts
        for role, kind in TAG.items()
        if role in columns and (texts := cells.texts(role))
    }
    case.checks |= {
        kind: texts
        for role, kind in CHECK.items()
        if role in columns and (texts := cells.texts(role))
    }
    case.gold_ids |= {
        level: ids
        for level in ("doc", "chunk")
        if (ids := cells.ids(f"gold_{level}_id")) is not None
    }
    case.gold_texts = cells.texts("gold_text") or case.gold_texts
    case.calls = _calls(cells) or case.calls
    hits = _hits(cells)
    case.hits = case.hits if hits is None else hits
    case.stored += _scores(cells)
    return case


def _calls(cells: Cells) -> list[Call]:
    """Return the calls of a record whose ids are a list for each call; else none."""
    roles = [role for role in ("doc_id", "chunk_id", "text") if role in cells.values]
    lists: dict[str, Any] = {role: nested(cells.values[role]) for role in roles}
    if not any(are_calls(one) for one in lists.values()):
        return []
    beside = {
        role: nested(cells.values[role]) for role in ("score", "rank") if role in cells.values
    }
    lists |= {
        role: one
        for role, one in beside.items()
        if isinstance(one, list) and all(isinstance(of_call, list) for of_call in one)
    }
    found = []
    for number in range(max(len(one) for one in lists.values())):
        of_call = cells.of({role: one[number] for role, one in lists.items() if number < len(one)})
        found.append(Call(_hits(of_call) or []))
    for role in lists:
        cells.pop(role)
    return found


def _hits(cells: Cells) -> list[dict[str, Any]] | None:
    """Return what a record says was returned.

    Parallel lists, a mapping id -> score (the highest first), or a list of mappings.
    """
    for role in ("doc_id", "chunk_id"):
        value = nested(cells.values.get(role))
        if isinstance(value, dict):
            value = _list_in(value) or value  # as in a response of Elasticsearch
        if isinstance(value, dict):
            pairs = [[one, as_number(score)] for one, score in value.items()]
            if any(score is None for _, score in pairs):
                cells.problems.reject(value, cells.line, role, "a mapping id -> score")
                return None
            cells.values[role] = value = sorted(pairs, key=lambda pair: -pair[1])
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            cells.pop(role)
            return inner_hits(value, role, cells)
        if isinstance(value, list) and value and all(is_scored(one) for one in value):
            cells.values[role] = [one[0] for one in value]
            cells.values["score"] = [one[1] for one in value]
    passages = nested(cells.values.get("text"))
    if isinstance(passages, list) and passages and all(isinstance(one, dict) for one in passages):
        cells.pop("text")
        return inner_hits(passages, "doc_id", cells)
    beside = {role: _of_hits(role, cells) for role in ("score", "rank")}
    hits = hits_of(cells.texts("text"), cells.ids("chunk_id"), cells.ids("doc_id"))
    for role, values in beside.items():
        if values is not None and len(values) != len(hits or []):
            text = f"{len(values)} values for {len(hits or [])} hits"
            cells.problems.add(text, line=cells.line, field=role, allowed="one for each hit")
            return hits
    if hits is None:
        return None
    if (of_hits := beside["score"]) is not None:
        hits = [
            hit | ({} if score is None else {"score": score})
            for hit, score in zip(hits, of_hits, strict=True)
        ]
    if (ranks := beside["rank"]) is None:
        return hits
    by_rank = {int(one): hit for one, hit in zip(ranks, hits, strict=True) if one and one % 1 == 0}
    if len(by_rank) < len(hits):
        cells.problems.reject(ranks, cells.line, "rank", "whole numbers from 1, each once")
        return hits
    return [by_rank[rank] for rank in sorted(by_rank)]


def _list_in(value: dict[str, Any]) -> list[Any] | None:
    """Return the one list of mappings in a mapping; None if there is none, or more than one."""
    lists = [one for one in value.values() if isinstance(one, list) and one]
    is_one = len(lists) == 1 and all(isinstance(one, dict) for one in lists[0])
    return lists[0] if is_one else None


def _of_hits(role: str, cells: Cells) -> list[float | None] | None:
    """Return a list of numbers that stands beside the hits; None if there is none.

    A single number is one of the query, which no list of hits can hold: a problem.
    """
    value = nested(cells.pop(role))
    if value is None:
        return None
    numbers = [as_number(one) for one in value] if isinstance(value, list) else []
    wrong = not isinstance(value, list) or any(
        number is None and one is not None for number, one in zip(numbers, value, strict=True)
    )
    if wrong:
        allowed = f'a list of numbers, one for each hit; columns={{"{role}": None}} if it is no'
        cells.problems.reject(value, cells.line, role, f"{allowed} {role} of hits")
        return None
    return numbers


def is_scored(value: Any) -> bool:
    """Return True for a pair of an id and its score; two whole numbers are two ids."""
    if not (isinstance(value, list) and len(value) == 2):
        return False
    return isinstance(value[1], float) or (type(value[1]) is int and isinstance(value[0], str))


def are_calls(value: Any) -> bool:
    """Return True for lists of ids or texts, one for each call, and not for pairs with scores."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, list) for one in value)
        and not all(is_scored(one) for one in value)
    )


def inner_hits(values: list[dict[str, Any]], role: str, cells: Cells) -> list[dict[str, Any]]:
    """Return hits that are mappings, by the names of their own fields."""
    found = []
    for value in values:
        roles = inner_roles(value, role)
        inner = cells.of({name: value[field] for name, field in roles.items()})
        hit: dict[str, Any] = {
            name: inner.identifier(name) for name in ("doc_id", "chunk_id") if name in roles
        }
        if not hit and "text" not in roles:
            cells.problems.reject(value, cells.line, role, "mappings with an id, such as doc_id")
            continue
        hit |= {"text": inner.text("text"), "score": inner.number("score")}
        rest = {name: one for name, one in value.items() if name not in roles.values()}
        rank = inner.whole("rank")
        found.append((rank, without_missing(hit) | flatten(rest)))
    if all(rank is not None for rank, _ in found):
        found.sort(key=lambda ranked: ranked[0] or 0)
    return [hit for _, hit in found]


def _scores(cells: Cells) -> list[Stored]:
    """Return the scores of `score.<metric>`, `reason.<metric>` and `scorer_error.<metric>`."""
    metrics = dict.fromkeys(
        role.removeprefix(prefix)
        for role in cells.values
        for prefix in METRIC_ROLES
        if role.startswith(prefix)
    )
    scores = []
    for name in metrics:
        reason, error = cells.text(f"reason.{name}"), cells.text(f"scorer_error.{name}")
        about: dict[str, Any] = {"reason": reason, "error": error, "is_judged": reason is not None}
        score = stored(name, cells.pop(f"score.{name}"), **about)
        if score.value is not None or score.error or score.verdict:
            scores.append(score)
    return scores

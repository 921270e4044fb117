"""Translation of clicks into changed fields of a golden row.

A click marks or unmarks a hit, or says that the query has no answer. In: a row's fields and a hit.
Out: new values by field (None removes one). No files, no frames.
"""

from dataclasses import dataclass
from typing import Any

from ragscore.frames.data import DataError
from ragscore.io.source import as_id, as_text
from ragscore.scoring.rules import heading_parts

LEVELS = ("anchor", "chunk", "doc")
FIELD_OF = {"chunk": "expected_chunk_ids", "doc": "expected_doc_ids"}
Values = dict[str, Any]
Changes = dict[str, Any]


@dataclass(frozen=True)
class Wording:
    """Field names of a format: the query, and a support's file and heading.

    `says_all` formats always have `answerable` and a list of supports.
    """

    query: str = "query"
    path: str = "path"
    heading: str = "heading"
    says_all: bool = False


OURS = Wording()
CHATBOT = Wording("question", "rel_path", "heading_path", says_all=True)


def marked(
    values: Values,
    hit: Values,
    level: str,
    grade: int,
    met: list[int],
    snippet: str | None,
    wording: Wording = OURS,
) -> Changes:
    """Return the changes that give a hit a grade.

    0: judged, no help; 1: supports the answer; 2: supports it well; 3: answers it exactly.

    Parameters
    ----------
    met
        Positions among the row's targets of this level that the hit meets already. They get
        the grade; without any, a new target is added.
    snippet
        Words by which an anchor finds this hit again.
    """
    if level == "anchor":
        changes: Changes = {
            "gold_supports": _with_support(values, hit, grade, met, snippet, wording)
        }
    else:
        changes = {
            FIELD_OF[level]: _with_id(
                values.get(FIELD_OF[level]), _required(hit, f"{level}_id"), grade, met
            )
        }
        changes |= _chunker(values, hit) if level == "chunk" else {}
    if grade > 0 and values.get("answerable") is False:
        # A supporting hit implies that the query can be answered.
        changes["answerable"] = True if wording.says_all else None
    return changes


def unmarked(
    values: Values, hit: Values, level: str, met: list[int], wording: Wording = OURS
) -> Changes:
    """Return the changes that remove a hit's label.

    Support groups lose a target that is removed.
    """
    if level == "anchor":
        supports = [
            support for place, support in enumerate(values["gold_supports"]) if place not in met
        ]
        changes: Changes = {"gold_supports": supports or ([] if wording.says_all else None)}
        gone: set[Any] = set()
    else:
        name, own = FIELD_OF[level], _required(hit, f"{level}_id")
        # None, since an empty list would mean that the query should be refused.
        changes = {name: _without_ids(values[name], own, met) or None}
        gone = {own}
        if level == "chunk" and changes[name] is None and "chunker_version" in values:
            changes["chunker_version"] = None
    groups = values.get("required_support_groups")
    if isinstance(groups, list):
        left = _groups_left(groups, set(met) if level == "anchor" else set(), gone)
        changes |= {"required_support_groups": left or None} if left != groups else {}
    return changes


def refused(n_positive: int) -> Changes:
    """Return the changes that mark a query as having no answer, to be refused.

    Raises
    ------
    DataError
        The query has targets.
    """
    if n_positive:
        found = (
            f"{n_positive} {'target is' if n_positive == 1 else 'targets are'} labelled as its"
            " answer"
        )
        raise DataError(found, field="answerable", allowed="take those labels off first")
    return {"answerable": False}


def not_refused(values: Values, wording: Wording = OURS) -> Changes:
    """Return the changes that take back a refusal; the query is unlabelled then."""
    changes: Changes = (
        {"answerable": True if wording.says_all else None} if "answerable" in values else {}
    )
    empty = [name for name in FIELD_OF.values() if name in values and not values[name]]
    return changes | dict.fromkeys(empty) if not wording.says_all else changes


def with_snippet(
    values: Values, hit: Values, met: list[int], snippet: str, wording: Wording = OURS
) -> Changes:
    """Return the changes that add a snippet to a support.

    It is added to the supports that the hit meets, else to a new one.
    """
    if not met:
        return marked(values, hit, "anchor", 1, met, snippet, wording)
    supports = [dict(support) for support in values["gold_supports"]]
    for place in met:
        known = [as_text(one) for one in supports[place].get("snippets") or []]
        supports[place]["snippets"] = [
            *(supports[place].get("snippets") or []),
            *([] if snippet in known else [snippet]),
        ]
    return {"gold_supports": supports}


def _with_support(
    values: Values, hit: Values, grade: int, met: list[int], snippet: str | None, wording: Wording
) -> list[Any]:
    supports = list(values.get("gold_supports") or [])
    if met:
        return [
            _graded(support, grade) if place in met else support
            for place, support in enumerate(supports)
        ]
    support: Values = {wording.path: _required(hit, "path")}
    if heading_parts(hit.get("heading") or ""):
        support[wording.heading] = hit["heading"]
    support |= {"snippets": [snippet]} if snippet else {}
    return [*supports, _graded(support, grade)]


def _graded(support: Values, grade: int) -> Values:
    """Return the support with a grade; grade 1 is the default and not written."""
    rest = {name: value for name, value in support.items() if name != "grade"}
    return rest if grade == 1 else {**rest, "grade": grade}


def _with_id(listed: Any, own: str, grade: int, met: list[int]) -> Any:
    """Return the expected ids with one more or with another grade.

    The form stays as it is: a mapping of ids to grades, or a list.
    """
    if isinstance(listed, dict):
        places = [key for place, key in enumerate(listed) if place in met]
        return {**listed, **dict.fromkeys(places or [own], grade)}
    items = list(listed or [])
    if not met:
        return [*items, own if grade == 1 else {"any": [own], "grade": grade}]
    return [_item(_ids(item), grade) if place in met else item for place, item in enumerate(items)]


def _without_ids(listed: Any, own: str, met: list[int]) -> Any:
    """Return the expected ids without this one; a target keeps its alternatives."""
    if isinstance(listed, dict):
        return {key: grade for place, (key, grade) in enumerate(listed.items()) if place not in met}
    left = []
    for place, item in enumerate(listed):
        others = [one for one in _ids(item) if as_id(one) != own] if place in met else _ids(item)
        if place not in met:
            left.append(item)
        elif others:
            left.append(
                _item(others, item["grade"] if isinstance(item, dict) and "grade" in item else 1)
            )
    return left


def listed_ids(listed: Any) -> list[list[Any]]:
    """Return the ids of each expected target, in the order of the row."""
    return (
        [[key] for key in listed]
        if isinstance(listed, dict)
        else [_ids(item) for item in listed or []]
    )


def _ids(item: Any) -> list[Any]:
    inside = item["any"] if isinstance(item, dict) else item
    return list(inside) if isinstance(inside, list) else [inside]


def _item(ids: list[Any], grade: int) -> Any:
    return {"any": ids, "grade": grade} if grade != 1 else ids if len(ids) > 1 else ids[0]


def _groups_left(groups: list[Any], places: set[int], names: set[str]) -> list[Any]:
    """Return the support groups after some targets are removed.

    Indices behind removed targets move up, and empty groups are dropped.
    """

    def moved(member: Any) -> Any:
        return (
            member - sum(place < member for place in places) if isinstance(member, int) else member
        )

    kept = [
        [
            member
            for member in group
            if not (member in places if isinstance(member, int) else member in names)
        ]
        for group in groups
    ]
    return [[moved(member) if places else member for member in group] for group in kept if group]


def _chunker(values: Values, hit: Values) -> Changes:
    """Return the change that names the chunker, since chunk ids hold for one chunker only.

    A hit of another chunker is refused.
    """
    stated, found = as_text(values.get("chunker_version")), hit.get("chunker_version")
    if stated is not None and found is not None and stated != found:
        raise DataError(
            f"this hit is of the chunker {found}",
            field="chunker_version",
            allowed=f"{stated}, as the row says; or label anchors",
        )
    return {"chunker_version": found} if stated is None and found is not None else {}


def _required(hit: Values, name: str) -> str:
    if not hit.get(name):
        raise DataError(
            f"this hit has no {name}",
            field=f"hits.{name}",
            allowed=f"a level that the hits can be labelled at: {', '.join(LEVELS)}",
        )
    return str(hit[name])

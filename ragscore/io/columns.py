"""What a column of a foreign table is for: the roles, and the names that columns have for them.

In: the columns of a table with the first value of each, and what the user says. Out: role ->
column, or one `DataError` with the `columns=` that would settle it. The two tables of roles below
are the only place that knows how other people call their columns.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from ragscore.frames.errors import DataError, excerpt, name_list, nearest
from ragscore.frames.schema import (
    CHUNK_ID_NAMES,
    CONVERSATION_NAMES,
    DOC_ID_NAMES,
    QUERY_ID_NAMES,
    QUERY_NAMES,
    TURN_NAMES,
    role_names,
)
from ragscore.io.rows import is_list_text, nested, value_at

Columns = dict[str, str]
"""Role -> column; a column inside another one is called `outer.inner`.

What a user says may also be role -> None: no column has this role, whatever its name.
"""

# The names of a role, the surest first; letter case, "_", "-" and spaces don't matter.
PLACE = ("conversation", "turn")
_QUERY = {"query_id": QUERY_ID_NAMES, "query": QUERY_NAMES}
_IDS = {"doc_id": DOC_ID_NAMES, "chunk_id": CHUNK_ID_NAMES}
RESULT_ROLES = {**_QUERY, **role_names(), "repeat": "repeat trial epoch"}
GOLDEN_ROLES = {
    **_QUERY,
    "doc_id": "expected_doc_ids gold_doc_ids gold_doc_id gold_docs relevant_doc_ids relevant_docs"
    " relevant_doc_id relevant_documents relevant_ids relevant positive_doc_ids positive_ids"
    " positives positive gold_ids gold_id gold golds expected_ids expected_docs expected"
    " ground_truth_ids ground_truth_doc_ids retrieval_gt reference_doc_ids target_ids target"
    " qrels judgments judgements correct_docs correct_ids"
    f" doc_ids docids {_IDS['doc_id']} id _id",
    "chunk_id": "expected_chunk_ids gold_chunk_ids gold_chunk_id gold_chunks relevant_chunk_ids"
    " relevant_chunks reference_context_ids gold_context_ids gold_passage_ids relevant_passage_ids"
    f" chunk_ids {_IDS['chunk_id']}",
    "text": "gold_texts gold_contexts reference_contexts relevant_contexts gold_passages"
    " relevant_passages relevant_texts ground_truth_contexts",
    "grade": "grade grades rel relevance relevance_grade relevance_label label labels judgment"
    " judgement relevant is_relevant gold rating score",
    "answerable": "answerable is_answerable has_answer",
    "should_refuse": "should_refuse unanswerable is_unanswerable is_impossible should_abstain"
    " expect_refusal expected_refusal",
    "reference_answer": "reference_answer gold_answer gold_answers expected_answer ground_truth"
    " ground_truth_answer reference ideal_answer correct_answer target_answer",
    "lang": "lang language",
    "difficulty": "difficulty",
    "category": "category",
    "group": "group",
    "variant": "variant",
    "conversation": CONVERSATION_NAMES,
    "turn": TURN_NAMES,
    "tags": "tags",
    "vaults": "vaults",
    "folders": "folders",
    "must_contain": "must_contain",
    "forbidden": "forbidden must_not_contain",
    "key_facts": "key_facts expected_key_facts",
}  # fmt: skip
ANSWERABLE = {
    name: role == "answerable"
    for role in ("answerable", "should_refuse")
    for name in GOLDEN_ROLES[role].split()
}
"""Names for what `answerable` says: True where they say the same, False where the opposite."""
LABEL_NAMES = frozenset(
    name
    for role, names in GOLDEN_ROLES.items()
    if role not in (*_QUERY, *_IDS, "text", "grade")
    for name in names.split()
)
"""Known names of columns with labels, of which others may be misspellings."""
METRIC_ROLES = ("score.", "reason.", "scorer_error.")
"""Beginnings of the roles of values that another tool computed: `score.<metric>` and the like."""
ID_ROLES = ("doc_id", "chunk_id")
SAYS = {
    "results": (*ID_ROLES, "text", "answer", "error", "refused", "latency_ms", "cost_usd"),
    "golden": (
        *ID_ROLES, "text", "answerable", "should_refuse", "reference_answer", "must_contain",
        "forbidden", "key_facts", "query",
    ),
}  # fmt: skip
"""The roles of which a table needs one, to be results or a golden set."""
_ALLOWED = {
    "query_id": ("id", "number", "flag", "fraction"),
    "doc_id": ("id", "number", "list", "mapping", "empty"),
    "chunk_id": ("id", "number", "list", "mapping", "empty"),
    "grade": ("number", "flag", "list"), "score": ("number", "list", "fraction"),
    "rank": ("number", "list"),
    "answerable": ("flag", "number"), "should_refuse": ("flag", "number"),
    "query": ("id", "long"), "reference_answer": ("id", "long", "list", "number"),
    "run_id": ("id", "long", "number", "flag", "fraction"),
    "conversation": ("id", "long", "number"), "turn": ("id", "long", "number", "fraction"),
}  # fmt: skip
"""Role -> the kinds of values that tell its column from another one that may have the role, too.

The surest name with such values is taken. If none has them, the surest name is taken all the same:
who reads the column refuses its values with their row, so that nothing is left out silently.
"""


_SURELY_IDS = frozenset(
    (
        "docno", "docid", "documentid", "corpusid", "chunkid", "passageid", "queryid", "qid",
        "questionid", "topicid", "runid", "run", "runname", "runtag", "system", "systemname",
    )
)  # fmt: skip


def plain_name(name: str) -> str:
    """Return a column's name without letter case, spaces, "-" and "_"."""
    return re.sub(r"[^0-9a-z.]", "", name.lower())


def _known(roles: Mapping[str, str]) -> dict[str, list[str]]:
    return {role: [plain_name(name) for name in names.split()] for role, names in roles.items()}


ROLES = {"results": RESULT_ROLES, "golden": GOLDEN_ROLES}
_SPAN_IDS = frozenset(("traceid", "contexttraceid", "spanid"))
_PARENT_IDS = frozenset(("parentobservationid", "parentspanid", "parentrunid", "parentid"))
_OUR_LABELS = frozenset(
    (
        "expected_doc_ids", "expected_chunk_ids", "gold_supports", "expected_source_keys",
        "expected_metadata", "expected_substrings", "expected_empty", "required_support_groups",
        "expected_texts", "must_contain", "forbidden", "expected_key_facts",
    )
)  # fmt: skip
_KNOWN = {side: _known(roles) for side, roles in ROLES.items()}


def kind_of(value: Any) -> str:
    """Return what a value is: empty, flag, number, fraction, id, long (a text), list or mapping.

    A text of CSV may be any of them.
    """
    value = nested(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "empty"
    if isinstance(value, dict):
        return "mapping"
    if isinstance(value, list) or is_list_text(value):
        return "list"
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int):
        return "number"
    if isinstance(value, float):
        return "number" if value % 1 == 0 else "fraction"
    text = str(value)
    if text.strip().lower() in ("true", "false", "yes", "no"):
        return "flag"
    try:
        return "fraction" if float(text) % 1 else "number"
    except (ValueError, OverflowError):
        return "long" if len(text) > 200 or text.count(" ") > 7 or "\n" in text else "id"


def names_ids(names: Iterable[str], side: str) -> bool:
    """Return True if one of these columns is called as columns with ids are."""
    known = {name for role in ID_ROLES for name in _KNOWN[side][role]} - {"id", "text"}
    return any(plain_name(name) in known for name in names)


def is_query_id(name: str) -> bool:
    """Return True if a column is called as queries' ids are; a bare `id` may be of anything."""
    return plain_name(name) in set(_KNOWN["results"]["query_id"]) - {"id"}


def names_query(names: Iterable[str]) -> bool:
    """Return True if columns are called as those with queries, ids, or places of turns are."""
    plain = {plain_name(name) for name in names}
    known = {name for role in _QUERY for name in _KNOWN["results"][role]}
    return bool(plain & known) or all(plain & {*_KNOWN["results"][role]} for role in PLACE)


def has_labels(names: Iterable[str]) -> bool:
    """Return True if one of these fields states a label as our golden file does."""
    return any(str(name) in _OUR_LABELS for name in names)


def may_be(names: Iterable[str], side: str) -> bool:
    """Return True if the names of columns alone make a table results, or a golden set."""
    plain = {plain_name(name) for name in names}
    says = {name for role in SAYS[side] if role != "query" for name in _KNOWN[side][role]} - {"id"}
    return names_query(plain) and bool(plain & says)


def resolve(
    fields: Mapping[str, Any], columns: Columns | None, side: str, where: str, kind: str
) -> Columns:
    """Return role -> column for a table of results or of golden labels.

    Parameters
    ----------
    fields
        Column -> its first value that isn't missing.
    columns
        What the user says, which comes before all names.
    side
        "results" or "golden".
    where, kind
        The table's name and kind, for messages.

    Raises
    ------
    DataError
        An unknown role, a column that isn't there; nothing that tells the query, or what was
        returned or expected.
    """
    given = dict(columns or {})
    check_columns(given, fields, side, where)
    roles = {role: column for role, column in given.items() if column is not None}
    fields = _with_inner(fields)
    by_name: dict[str, list[str]] = {}
    for name in fields:
        by_name.setdefault(plain_name(name), []).append(name)
    kinds = {name: kind_of(value) for name, value in fields.items()}
    # Grades first: `relevant` and `gold` are grades beside an id, else they are ids themselves.
    order = [*_KNOWN[side]]
    if side == "golden" and any(
        name in by_name for role in ID_ROLES for name in map(plain_name, _IDS[role].split())
    ):
        order = ["grade", *order]
    # A score of 2.0 is one of a system, no grade.
    no_grade = {name for name in by_name.get("score", []) if not _is_whole(fields[name])}
    for is_fitting in (True, False):
        for role in order:
            if role in roles or role in given:
                continue
            if role == "grade" and not _has_ids(roles, by_name):
                continue
            taken = set(roles.values()) | (no_grade if role == "grade" else set())
            candidates = [
                name
                for known in _KNOWN[side][role]
                for name in by_name.get(known, [])
                if name not in taken
                and (_fits(role, known, kinds[name]) if is_fitting else kinds[name] != "empty")
                and (is_fitting or role not in PLACE)
                and not (known == "predictions" and _are_texts(fields[name]))
            ]
            if candidates:
                if not is_fitting and role in ID_ROLES and kinds[candidates[0]] == "long":
                    raise _no_ids(role, candidates[0], fields[candidates[0]], where)
                roles[role] = candidates[0]
    roles |= {
        name: name
        for name in fields
        if name not in roles and name.startswith(METRIC_ROLES) and side == "results"
    }
    is_named = roles.keys() & {"query_id", "query"} or {*PLACE} <= roles.keys()
    says = {*SAYS[side], *(role for role in roles if role.startswith(METRIC_ROLES))}
    if not (is_named and roles.keys() & says):
        raise unsettled(fields, roles, side, where, kind)
    if set(SAYS[side]) & roles.keys() == {"query"}:
        returned = {name for role, names in _KNOWN["results"].items() for name in names}
        returned -= {name for role in _QUERY for name in _KNOWN["results"][role]}
        if "query_id" not in roles or returned & by_name.keys():
            raise unsettled(fields, roles, side, where, kind)
    if not set(ID_ROLES) & given.keys():
        _refuse_other_side(roles, by_name, side, where)
    if not given and _SPAN_IDS & by_name.keys() and _PARENT_IDS & by_name.keys():
        raise DataError(
            f"each row is one step of a trace ({name_list(_steps(by_name))}), not a query",
            file=where,
            field="columns",
            columns={"query_id": "???", "answer": "???"},
            allowed="for rows that are whole queries, such as those of the roots; traces of"
            " OpenInference are read as they are",
        )
    _ask_of_one_clue({*roles.items()} - {*given.items()}, roles, fields, side, where)
    return {role: roles[role] for role in (*ROLES[side], *roles) if role in roles}


def _are_texts(value: Any) -> bool:
    """Return True for a list of objects without an id, such as answers that a model gave."""
    first = next(iter(found), None) if isinstance(found := nested(value), list) else None
    return isinstance(first, dict) and not {*ID_ROLES} & inner_roles(first, "doc_id").keys()


def _steps(by_name: Mapping[str, list[str]]) -> list[str]:
    return [name for one in sorted(_SPAN_IDS | _PARENT_IDS) for name in by_name.get(one, [])]


def _ask_of_one_clue(
    found: set[tuple[str, str]],
    roles: Columns,
    fields: Mapping[str, Any],
    side: str,
    where: str,
) -> None:
    """Refuse a table that only one column makes what it is taken for, if that may be another thing.

    `found` are the roles that names told: a record's own `id`, an `expected` that may be a text of
    the answer, passages in the place of their ids, an `answer` that may be the expected one.
    """
    for role in ID_ROLES:
        column = roles.get(role, "")
        if (role, column) not in found:
            continue
        name, values = plain_name(column), nested(fields[column])
        kinds = {kind_of(one) for one in (values if isinstance(values, list) else [values])}
        others = {"rank", "score", "text", "repeat"} if side == "results" else {"grade"}
        if "long" in kinds and isinstance(values, list):
            raise _doubt(
                f"{column} holds texts where ids are looked for, such as {_short(values[0])}",
                {"text": column},
                f'to take them as passages; {{"{role}": "{column}"}} if these are ids',
                where,
            )
        if name == "id" and not others & roles.keys() and not kinds & {"list", "mapping"}:
            raise _doubt(
                f"{column}, beside {roles.get('query_id', roles.get('query'))}, may be the record's"
                " own id",
                {role: None},
                f'if it is; {{"{role}": "{column}"}} if it is that of a document',
                where,
            )
        is_text = isinstance(values, str)
        if name in ("expected", "gold", "golds", "target") and is_text and side == "golden":
            raise _doubt(
                f"{column} may be the expected answer, or the id of a document: {_short(values)}",
                {"reference_answer": column},
                f'for an answer; {{"{role}": "{column}"}} for an id',
                where,
            )
    tells = roles.keys() - {"query_id", "query"}
    is_own_id = plain_name(roles.get("query_id", "")) == "id" and "query" not in roles
    if side == "results" and tells == {"text"} and is_own_id and ("text", roles["text"]) in found:
        raise _doubt(
            f"{roles['text']}, beside {roles['query_id']}, may be the query's own text",
            {"query": roles["text"]},
            f'for queries; {{"text": "{roles["text"]}"}} if it is that of a hit',
            where,
        )
    if side == "results" and tells == {"answer"} and ("answer", roles["answer"]) in found:
        column = roles["answer"]
        if plain_name(column) == "answer":
            raise _doubt(
                f"{column} may be the answer of a system, or the expected one",
                {"answer": column},
                f'for a system\'s; rs.load_golden(..., columns={{"reference_answer": "{column}"}})'
                " for an expected one",
                where,
            )


def _doubt(problem: str, columns: Mapping[str, str | None], allowed: str, where: str) -> DataError:
    return DataError(problem, file=where, field="columns", columns=columns, allowed=allowed)


def _fits(role: str, known: str, kind: str) -> bool:
    """Return True if a column of this name with values of this kind is taken for the role."""
    allowed = _ALLOWED.get(role)
    # a list of messages is the name of no conversation
    is_sure = (known == plain_name(role) and role not in PLACE) or known in _SURELY_IDS
    return allowed is None or kind in allowed or (is_sure and kind != "empty")


def _no_ids(role: str, column: str, value: Any, where: str) -> DataError:
    return DataError(
        f"{excerpt(column)} is called as {role} is, and holds {_short(value)}",
        file=where,
        field="columns",
        columns={role: column},
        allowed="if these are ids, None as the column if not",
    )


def _refuse_other_side(
    roles: Columns, by_name: Mapping[str, list[str]], side: str, where: str
) -> None:
    """Refuse hits as labels and labels as hits: every score would be 1, or none mean anything.

    Ids that are called as ids are everywhere belong to the side that the other columns tell.
    """
    generic = {plain_name(name) for names in _IDS.values() for name in names.split()}
    ids = [roles[role] for role in ID_ROLES if role in roles]
    if not ids or any(plain_name(name) not in generic for name in ids):
        return
    other = "results" if side == "golden" else "golden"
    if side == "golden":
        marks, own = {*_KNOWN[other]["rank"], *_KNOWN[other]["score"]}, {"grade"}
    else:
        marks, own = (
            {*_KNOWN[other]["grade"]} - {*_KNOWN[side]["score"]},
            {"rank", "score", "answer"},
        )
    found = [name for mark in by_name for name in by_name[mark] if mark in marks]
    if found and not own & roles.keys():
        role, column = next((role, roles[role]) for role in ID_ROLES if role in roles)
        looks = "results" if side == "golden" else "labels"
        raise DataError(
            f"{found[0]} beside {', '.join(ids)} looks like {looks}",
            file=where,
            field="columns",
            columns={role: column},
            allowed=f"to take them as {'expected' if side == 'golden' else 'returned'};"
            f" rs.load_{other} takes them as what they look like",
        )


def inner_roles(hit: Mapping[str, Any], role: str) -> Columns:
    """Return role -> field of a hit that is a mapping; a bare `id` has the given role."""
    roles: Columns = {}
    plain = {plain_name(name): name for name in hit}
    for name in (*ID_ROLES, "rank", "score", "text"):
        known = [
            one for one in _KNOWN["results"][name] if one not in ("id", "_id") and one in plain
        ]
        if known:
            roles[name] = plain[known[0]]
    if not roles.keys() & set(ID_ROLES) and "id" in plain:
        roles[role] = plain["id"]
    return roles


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and value.lstrip("-").isdigit())


def _has_ids(roles: Columns, by_name: Mapping[str, Any]) -> bool:
    known = {name for role in ID_ROLES for name in _KNOWN["golden"][role]}
    return bool(roles.keys() & set(ID_ROLES)) or bool(known & by_name.keys())


def _with_inner(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields, and those inside mappings as `outer.inner`."""
    inner = {
        f"{name}.{key}": one
        for name, value in fields.items()
        if isinstance(value, dict)
        for key, one in value.items()
    }
    return {**fields, **inner}


def check_columns(columns: Columns, fields: Mapping[str, Any], side: str, where: str) -> None:
    """Refuse an unknown role and a column that isn't there, with the nearest one."""
    for role, column in columns.items():
        if not isinstance(column, (str, type(None))):
            raise DataError(
                f"{role!r}: {column!r}",
                file=where,
                field="columns",
                allowed="role -> column, or None for no column",
            )
        if not is_role(role, side):
            raise unknown_role(role, side, where)
        if column is None:
            continue
        if role == "answerable" and plain_name(column) in _KNOWN["golden"]["should_refuse"]:
            raise DataError(
                f"{column!r} says the opposite of answerable",
                file=where,
                field="columns",
                columns={"should_refuse": column},
            )
        outer = column.partition(".")[0]
        if column in fields or value_at(dict(fields), column) is not None:
            continue
        inner = nested(fields.get(outer))
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict):
            inside = [f"{outer}.{name}" for name in inner]
            if column in inside:
                continue
            raise DataError(
                f"no column {excerpt(column)} for {role}",
                file=where,
                field="columns",
                allowed=nearest(column, inside, "there are"),
            )
        raise DataError(
            f"no column {excerpt(column)} for {role}",
            file=where,
            field="columns",
            allowed=nearest(column, fields, "there are"),
        )


def is_role(role: str, side: str) -> bool:
    """Return True for a role of results or of golden labels."""
    return role in ROLES[side] or (side == "results" and str(role).startswith(METRIC_ROLES))


def unknown_role(role: str, side: str, where: str | None = None) -> DataError:
    """Return the error of an unknown role, with the one that was probably meant."""
    other = "golden" if side == "results" else "results"
    if role in ROLES[other]:
        return DataError(
            f"{role!r} is no role of {'a golden set' if side == 'golden' else side}",
            file=where,
            field="columns",
            allowed=f"rs.load_{other} takes it; roles here are {name_list(ROLES[side])}",
        )
    plain = plain_name(str(role))
    meant = next((known for known, names in _KNOWN[side].items() if plain in names), None)
    roles = [*ROLES[side], *(["score.<metric>"] if side == "results" else [])]
    return DataError(
        f"no role {excerpt(role)}",
        file=where,
        field="columns",
        allowed="role -> column; "
        + (f"did you mean {meant}?" if meant else nearest(role, roles, "roles are")),
    )


def unsettled(
    fields: Mapping[str, Any], roles: Columns, side: str, where: str, kind: str
) -> DataError:
    """Return the error of a table whose columns don't tell what they are.

    It shows the first record and a `columns=` to complete.
    """
    wanted = {"query_id": roles.get("query_id"), "doc_id": roles.get("doc_id")}
    left = [name for name in fields if name not in roles.values()]
    for role, column in wanted.items():
        if column is None and (role != "query_id" or "query" not in roles):
            names = {plain_name(name): name for name in left}
            close = get_close_matches(plain_name(role), names, n=1, cutoff=0.6)
            wanted[role] = names[close[0]] if close else None
    if "query" in roles and wanted["query_id"] is None:
        wanted = {"query": roles["query"], "doc_id": wanted["doc_id"]}
    what = "results" if side == "results" else "golden files"
    more = "answer for answers" if side == "results" else "grade or answerable for labels"
    answers = [name for name in left if plain_name(name) == "answer"]
    if side == "golden" and answers and wanted["doc_id"] in (None, answers[0]):
        del wanted["doc_id"]
        wanted["reference_answer"] = answers[0]
        more = f"doc_id, {more}"
    return DataError(
        f"fits no format of {what} ({kind}); the first record is {_record(fields)}",
        file=where,
        field="format",
        columns={role: column or "???" for role, column in wanted.items()},
        allowed=f"(also chunk_id, {more}), or a `format`",
    )


def _record(fields: Mapping[str, Any]) -> str:
    shown = [f"{name}={_short(value)}" for name, value in list(fields.items())[:12]]
    more = [f"and {len(fields) - 12} more"] if len(fields) > 12 else []
    return ", ".join([*shown, *more]) or "empty"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."

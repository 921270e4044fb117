"""What a column of a foreign table is for: the roles, and the names that columns have for them.

In: the columns of a table with the first value of each, and what the user says. Out: role ->
column, or one `DataError` with the `columns=` that would settle it. The two tables of roles below
are the only place that knows how other people call their columns.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from ragscore.frames.errors import DataError, excerpt, nearest
from ragscore.frames.schema import (
    CHUNK_ID_NAMES,
    CONVERSATION_NAMES,
    DOC_ID_NAMES,
    QUERY_ID_NAMES,
    QUERY_NAMES,
    TURN_NAMES,
    role_names,
)
from ragscore.io.values import as_number, is_list_text, nested, value_at

Columns = dict[str, str]
"""Role -> column; a column inside another one is called `outer.inner`.

What a user says may also be role -> None: no column has this role, whatever its name.
"""

# The names of a role, the surest first; letter case, "_", "-" and spaces don't matter.
PLACE = ("conversation", "turn")
_QUERY = {"query_id": QUERY_ID_NAMES, "query": QUERY_NAMES}
_IDS = {"doc_id": DOC_ID_NAMES, "chunk_id": CHUNK_ID_NAMES}
RESULT_ROLES = {
    **_QUERY, **role_names(), "repeat": "repeat trial epoch",
    "citations": "citations cited_ids cited_doc_ids cited_chunk_ids cited references",
}  # fmt: skip
GOLDEN_ROLES = {
    **_QUERY,
    "doc_id": "expected_doc_ids expected_doc_id gold_doc_ids gold_doc_id gold_docs relevant_doc_ids"
    " relevant_docs relevant_doc_id relevant_documents relevant_document_ids relevant_ids relevant"
    " positive_doc_ids positive_ids positives positive gold_ids gold_id gold golds expected_ids"
    " expected_docs expected ground_truth_ids ground_truth_doc_ids retrieval_gt reference_doc_ids"
    " target_ids target qrels judgments judgements correct_docs correct_ids"
    f" doc_ids docids {_IDS['doc_id']} id _id",
    "chunk_id": "expected_chunk_ids expected_chunk_id gold_chunk_ids gold_chunk_id gold_chunks"
    " relevant_chunk_ids relevant_chunks reference_context_ids gold_context_ids gold_passage_ids"
    " relevant_passage_ids"
    f" chunk_ids {_IDS['chunk_id']}",
    "text": "expected_texts gold_texts gold_contexts reference_contexts relevant_contexts"
    " gold_passages relevant_passages relevant_texts ground_truth_contexts evidence_texts"
    " gold_facts",
    "grade": "grade grades rel relevance relevance_grade relevance_label label labels judgment"
    " judgement relevant is_relevant gold rating score",
    "answerable": "answerable is_answerable has_answer",
    "should_refuse": "should_refuse unanswerable is_unanswerable is_impossible should_abstain"
    " expect_refusal expected_refusal",
    "reference_answer": "reference_answer reference_answers gold_answer gold_answers golden_answers"
    " expected_answer expected_answers accepted_answers answers ground_truth ground_truths"
    " ground_truth_answer generation_gt reference ideal_answer correct_answer target_answer",
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
_IDS_KIND = ("id", "number", "list", "mapping", "empty")
_KINDS = {
    "query_id": ("id", "number", "flag", "fraction"), "doc_id": _IDS_KIND, "chunk_id": _IDS_KIND,
    "grade": ("number", "flag", "list"), "score": ("number", "list", "fraction"),
    "rank": ("number", "list"), "citations": ("list",),
    "answerable": ("flag", "number"), "should_refuse": ("flag", "number"),
    "query": ("id", "long"), "reference_answer": ("id", "long", "list", "number"),
    "answer": ("id", "long", "list", "number", "fraction", "flag", "mapping"),
    "run_id": ("id", "long", "number", "flag", "fraction"),
    "conversation": ("id", "long", "number"), "turn": ("id", "long", "number", "fraction"),
}  # fmt: skip
"""Role -> the kinds of values of its columns. A vague name with other values has not the role; a
specific one has it all the same, and whoever reads the column refuses its values with their row."""
_VAGUE = frozenset(
    "id _id text texts content contents title context contexts passage passages document documents"
    " doc docs url retrieved retrieved_docs retrieved_documents retrieved_chunks results hits top_k"
    " hits_top_k predictions ranked ranking chunk tag method model retriever prompt topic position"
    " pos case_id expected expected_docs gold golds gold_docs gold_chunks target relevant"
    " relevant_docs relevant_documents relevant_chunks positive positives correct_docs qrels"
    " judgments judgements score distance distances reference evidence references"
    "".replace("_", "").split()
)
"""Names that may be of other things, too: a column with a specific name goes before theirs."""
_OWN = {
    "golden": {"doc_id": "expecteddocids", "chunk_id": "expectedchunkids", "text": "expectedtexts"}
}
"""What our files call a role, if not by its name."""


def plain_name(name: object) -> str:
    """Return a column's name without letter case, spaces, "-" and "_"."""
    return re.sub(r"[^0-9a-z.]", "", str(name).lower())


ROLES = {"results": RESULT_ROLES, "golden": GOLDEN_ROLES}
OUR_LABELS = frozenset(
    (
        "expected_doc_ids", "expected_chunk_ids", "gold_supports", "expected_source_keys",
        "expected_metadata", "expected_substrings", "expected_empty", "required_support_groups",
        "expected_texts", "must_contain", "forbidden", "expected_key_facts",
    )
)  # fmt: skip
_KNOWN = {
    side: {role: [*dict.fromkeys(map(plain_name, names.split()))] for role, names in roles.items()}
    for side, roles in ROLES.items()
}
_ANY_IDS = {plain_name(name) for names in _IDS.values() for name in names.split()}
_OF_SCORES = {*_KNOWN["results"]["rank"], *_KNOWN["results"]["score"]}
_BESIDE = {
    "results": {one for role in ("rank", "score", "text", "repeat")
                for one in _KNOWN["results"][role]},
    "golden": {*_KNOWN["golden"]["grade"]},
}  # fmt: skip
"""Names of columns beside which a bare `id` is a document's."""
_OTHER: dict[str, tuple[str, str, str, set[str], set[str]]] = {
    "golden": ("results", "results", "expected", {"grade"}, _OF_SCORES),
    "results": ("golden", "labels", "returned", {"rank", "score", "answer"},
                {*_KNOWN["golden"]["grade"]} - _OF_SCORES),
}  # fmt: skip
"""Side -> the other one: what it looks like, roles that mark the side, names of the other."""


def kind_of(value: Any) -> str:
    """Return what a value is: empty, flag, number, fraction, id, long (a text), list or mapping.

    A text of CSV may be any of them.
    """
    value = nested(value)
    if value is None or value != value:
        return "empty"
    if isinstance(value, dict):
        return "mapping"
    if isinstance(value, list) or is_list_text(value):
        return "list"
    text = str(value).strip()
    if text.lower() in ("true", "false", "yes", "no"):
        return "flag"
    if text.lstrip("+-").isdecimal():
        return "number"
    if as_number(text) is not None:
        return "fraction"
    return "long" if len(text) > 200 or text.count(" ") > 7 or "\n" in text else "id"


def called(names: Iterable[str], side: str, *roles: str) -> list[str]:
    """Return the columns with names of these roles; a bare `id` may be anything's."""
    known = {one for role in roles or ROLES[side] for one in _KNOWN[side][role]} - {"id"}
    return [name for name in names if plain_name(name) in known]


def names_query(names: Iterable[str]) -> bool:
    """Return True if columns are called as those with queries, ids, or places of turns are."""
    plain = {plain_name(name) for name in names}
    known = {name for role in _QUERY for name in _KNOWN["results"][role]}
    return bool(plain & known) or all(plain & {*_KNOWN["results"][role]} for role in PLACE)


def is_record(names: Iterable[str], side: str) -> bool:
    """Return True for names of a record of a query; an id with only a score or a text is a hit."""
    says = called(names, side, *{*SAYS[side]} - {"text"})
    is_hit = not says and _BESIDE[side] & {*map(plain_name, names)}
    return names_query(one for one in names if not (is_hit and plain_name(one) == "id"))


def resolve(
    fields: Mapping[str, Any], columns: Columns | None, side: str, where: str, kind: str
) -> Columns:
    """Return role -> column for a table of results or of golden labels.

    A known name is taken. Our own name goes before others, a specific one before a vague one.

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
        An unknown role, a column that isn't there; two specific names for a role; a column that may
        be two things; no column for the query, or for what was returned or expected.
    """
    given = dict(columns or {})
    check_columns(given, fields, side, where)
    roles = {role: column for role, column in given.items() if column is not None}
    order = [*_KNOWN[side]]
    if side == "golden" and {plain_name(name) for name in fields} & _ANY_IDS:
        # `relevant` and `gold` are grades beside an id, else they are ids themselves
        order = ["grade", *order]
    for role in order:
        needs_ids = role == "grade" and not {*ID_ROLES} & roles.keys()
        if role in {*given, *roles} or (needs_ids and not called(fields, "golden", *ID_ROLES)):
            continue
        if (found := _column_of(role, roles, fields, side, where)) is not None:
            roles[role] = found
    if side == "results":
        roles |= {one: one for one in fields if one.startswith(METRIC_ROLES) and one not in roles}
    is_named = roles.keys() & {"query_id", "query"} or {*PLACE} <= roles.keys()
    says = [role for role in roles if role in SAYS[side] or role.startswith(METRIC_ROLES)]
    # a golden set of queries alone has their ids, and nothing that was returned
    returned = [role for role in ROLES["results"] if role not in _QUERY]
    is_run = "query_id" not in roles or called(fields, "results", *returned)
    if not (is_named and says) or (side == "golden" and says == ["query"] and is_run):
        raise unsettled(fields, roles, side, where, kind)
    for role in roles.keys() - given.keys():
        _ask(role, roles, fields, side, where)
    return {role: roles[role] for role in (*ROLES[side], *roles) if role in roles}


def _column_of(
    role: str, roles: Columns, fields: Mapping[str, Any], side: str, where: str
) -> str | None:
    """Return the column of a role, None if no name fits."""
    own, names = _OWN.get(side, {}).get(role, plain_name(role)), _KNOWN[side][role]
    plain = {one: plain_name(one) for one in fields}
    # of a column in which ids are named, nothing else is taken
    taken = {*roles.values(), *(roles[one].partition(".")[0] for one in ID_ROLES if one in roles)}
    if role in ID_ROLES and not _BESIDE[side] & {*plain.values()}:
        # nothing shows that a bare `id` is a document's: then it is the record's own
        scalars = [one for one in plain if kind_of(fields[one]) not in ("list", "mapping")]
        plain |= {one: "" for one in scalars if plain[one] == "id"}
    every = [
        one
        for name in names
        for one in fields
        if plain[one] == name
        and one not in taken
        # a label without any value is one, too: what is asked by it is all in one slice
        and (kind_of(fields[one]) != "empty" or (plain[one] == own and role not in _KINDS))
    ]
    fitting = [one for one in every if _fits(role, one, fields[one])]
    mine = [one for one in every if plain[one] == own]
    if mine and role not in ("answer", *PLACE):
        return mine[0]
    specific = [one for one in fitting if plain[one] not in _VAGUE]
    if side == "golden" and role in ID_ROLES:
        # ids of anything come after ids of what is expected
        ids = {plain_name(name) for name in _IDS[role].split()}
        specific = [one for one in specific if plain[one] not in ids] or specific[:1]
    if len(specific) > 1:
        shown = ", ".join(f"{name}={_short(fields[name])}" for name in specific[:3])
        raise DataError(
            f"{' and '.join(specific[:3])} may each be the {role}",
            file=where, field="columns", columns={role: specific[0]},
            allowed=f"or another one of them ({shown})",
        )  # fmt: skip
    unfit = [one for one in every if plain[one] not in _VAGUE and role not in PLACE]
    return next(iter([*specific, *fitting, *unfit]), None)


def _fits(role: str, column: str, value: Any) -> bool:
    """Return whether a value is of the kind that a role has."""
    if role in _KINDS and kind_of(value) not in _KINDS[role]:
        return False
    items = found if isinstance(found := nested(value), list) else []
    if role in ID_ROLES and items and isinstance(items[0], dict):  # else they are texts
        return bool({*ID_ROLES} & inner_roles(items[0], "doc_id").keys())
    # accepted answers are texts with blanks
    return role != "citations" or not any(
        isinstance(one, str) and " " in one.strip() for one in items
    )


def _ask(role: str, roles: Columns, fields: Mapping[str, Any], side: str, where: str) -> None:
    """Refuse a column that may be two things, by the role of its name."""
    column = roles[role]
    values, name, is_id = nested(fields[column]), plain_name(column), role in ID_ROLES
    texts = [one for one in values if isinstance(one, str)] if isinstance(values, list) else []
    named = roles.keys() - {"query_id", "query"}
    has_bare_id = plain_name(roles.get("query_id", "")) == "id" and "query" not in roles
    other, looks, taken, own, marks = _OTHER[side]
    mark = next((one for one in fields if plain_name(one) in marks), None)
    questions: list[tuple[bool, str, Columns, str]] = [
        (  # hits as labels, or labels as hits: every score would be 1, or none mean anything
            is_id and mark is not None and name in _ANY_IDS and not own & roles.keys(),
            f"{mark} beside {column} looks like {looks}",
            {role: column},
            f"to take them as {taken}; rs.load_{other} takes them as what they look like",
        ),
        (
            is_id and any(kind_of(one) == "long" for one in texts),
            f"{column} holds texts where ids are looked for, such as {_short(texts[:1])[1:-1]}",
            {"text": column},
            f'to take them as passages; {{"{role}": "{column}"}} if these are ids',
        ),
        (
            is_id and kind_of(values) == "long",
            f"{excerpt(column)} is called as {role} is, and holds {_short(values)}",
            {role: column},
            "if these are ids, None as the column if not",
        ),
        (
            is_id and side == "golden" and isinstance(values, str) and name in _EXPECTED,
            f"{column} may be the expected answer, or the id of a document: {_short(values)}",
            {"reference_answer": column},
            f'for an answer; {{"{role}": "{column}"}} for an id',
        ),
        (
            role == "text"
            and side == "results"
            and named == {"text"}
            and has_bare_id
            and isinstance(values, str),
            f"{column}, beside {roles.get('query_id')}, may be the query's own text",
            {"query": column},
            f'for queries; {{"text": "{column}"}} if it is text of a hit',
        ),
        (
            role == "answer" and isinstance(fields[column], dict),
            f"{column} is no text, but {_short(values)}",
            _paths(values, column) if isinstance(values, dict) else {},
            'or {"answer": None}',
        ),
        (
            role == "answer" and named == {"answer"} and name == "answer",
            f"{column} may be the answer of a system, or the expected one",
            {"answer": column},
            f'for a system\'s; rs.load_golden(..., columns={{"reference_answer": "{column}"}})'
            " for an expected one",
        ),
    ]
    for is_open, problem, columns, allowed in questions:
        if is_open:
            raise DataError(problem, file=where, field="columns", columns=columns, allowed=allowed)


_EXPECTED = ("expected", "gold", "golds", "target")


def _paths(value: Any, column: str) -> Columns:
    """Return the columns= for a mapping that holds an answer and hits: the first of each."""
    paths: Columns = {}
    for name, inner in value.items():
        path, first = f"{column}.{name}", inner[0] if isinstance(inner, list) and inner else None
        if isinstance(inner, str):
            paths.setdefault("answer", path)
        elif isinstance(first, dict):
            paths |= {role: f"{path}.{one}" for role, one in inner_roles(first, "doc_id").items()
                      if role in (*ID_ROLES, "text")}  # fmt: skip
        elif isinstance(first, (str, int)):
            paths.setdefault("doc_id", path)
    return paths or {"answer": f"{column}.???"}


def are_means(value: Any) -> bool:
    """Return True for metrics with their means by system, which are no documents by query."""
    inner = [*value.values()] if isinstance(value, Mapping) else []
    return bool(inner) and all(
        isinstance(one, Mapping)
        and one
        and all(_METRIC.fullmatch(str(name)) and type(n) in (int, float) for name, n in one.items())
        for one in inner
    )


_METRIC = re.compile(
    r"(mean_)?(hit|hit_?rate|success|recall|precision|p|r|f1|mrr|map|ndcg|rprec|bpref|err|accuracy"
    r"|exact_match|em|rouge_?l?|bleu|faithfulness|answer_relevanc[ey]|context_\w+|latency(_\w+)?)"
    r"([@_. -]?(at)?_?\d+)?",
    re.IGNORECASE,
)


def inner_roles(hit: Mapping[str, Any], role: str, beside: str = "score") -> Columns:
    """Return role -> field of a hit or label that is a mapping; a bare `id` has the given role.

    `beside` is the role of the numbers of its side.
    """
    plain = {plain_name(name): name for name in hit}
    known = _KNOWN["results"] | {"grade": _KNOWN["golden"]["grade"]}
    roles: Columns = {
        name: plain[first[0]]
        for name in (*ID_ROLES, "rank", beside, "text")
        if (
            first := [
                one
                for one in known[name]
                if one in plain and one not in ("id", "distance", "distances")
            ]
        )
    }
    if "id" in plain and not roles.keys() & {*ID_ROLES}:
        roles[role] = plain["id"]
    return roles


def check_columns(columns: Columns, fields: Mapping[str, Any], side: str, where: str) -> None:
    """Refuse an unknown role and a column that isn't there, with the nearest one."""
    for role, column in columns.items():
        check_role(role, side, where)
        if not isinstance(column, (str, NoneType)):
            raise DataError(
                f"{role!r}: {column!r}", file=where, field="columns",
                allowed="role -> column, or None for no column",
            )  # fmt: skip
        if not (column is None or column in fields or value_at(fields, column) is not None):
            raise DataError(
                f"no column {excerpt(column)} for {role}", file=where, field="columns",
                allowed=nearest(column, fields, "there are"),
            )  # fmt: skip
    if called([str(columns.get("answerable"))], "golden", "should_refuse"):
        raise DataError(
            f"{columns['answerable']!r} says the opposite of answerable", file=where,
            field="columns", columns={"should_refuse": columns["answerable"]},
        )  # fmt: skip


def check_role(role: str, side: str, where: str | None = None) -> None:
    """Refuse an unknown role, with the one that was probably meant."""
    if role in ROLES[side] or (side == "results" and str(role).startswith(METRIC_ROLES)):
        return
    known = [*ROLES[side], *(["score.<metric>"] if side == "results" else [])]
    raise DataError(
        f"no role {excerpt(role)}", file=where, field="columns",
        allowed=nearest(role, known, "roles are"),
    )  # fmt: skip


def unsettled(
    fields: Mapping[str, Any], roles: Columns, side: str, where: str, kind: str
) -> DataError:
    """Return the error of a table whose columns can't be recognized.

    It shows the first record and a `columns=` to complete.
    """
    query = "query" if "query" in roles and "query_id" not in roles else "query_id"
    what, more, option = _UNSETTLED[side]
    is_answer = side == "golden" and "answer" in fields and "doc_id" not in roles
    wanted = "reference_answer" if is_answer else "doc_id"
    stems = {name: name.rstrip("0123456789") for name in fields}
    counts = Counter(stem for name, stem in stems.items() if stem not in ("", name))
    if several := [stem for stem, n in counts.items() if n > 1]:
        by_rank = [name for name in fields if stems[name] == several[0]]
        more += f"; in one list: frame.assign({wanted}=frame[{by_rank}].to_numpy().tolist())"
    shown = [f"{name}={_short(value)}" for name, value in list(fields.items())[:12]]
    shown += [f"and {len(fields) - 12} more"] if len(fields) > 12 else []
    return DataError(
        f"fits no format of {what} ({kind}); the first record is {', '.join(shown) or 'empty'}",
        file=where, field="format",
        allowed=f"in rs.load_{side}, or {option} (also {more}); or a `format`",
        columns={query: roles.get(query, "???"),
                 wanted: "answer" if is_answer else roles.get("doc_id", "???")},
    )  # fmt: skip


_UNSETTLED = {
    "results": ("results", "chunk_id, answer for answers", "--columns"),
    "golden": ("golden files", "chunk_id, grade or answerable for labels",
               "--golden-columns"),
}  # fmt: skip


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."

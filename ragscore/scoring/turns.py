"""Conversations and turns on both sides: responses find their query by them, and queries get them."""

from dataclasses import fields, replace
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, narrowed
from ragscore.frames.errors import plural, warn
from ragscore.frames.schema import CONVERSATION_NAMES, MADE_ID, TURN_NAMES

PLACE = ["conversation", "turn"]
_CALLED = {
    "conversation": ("conversation", *(f"x_{name}" for name in CONVERSATION_NAMES.split())),
    "turn": ("turn", *(f"x_{name}" for name in TURN_NAMES.split())),
}
TOLD = ("run_id", "query_id", *(name for names in _CALLED.values() for name in names))
"""Columns of responses that may name conversations and turns, the surest first."""


def with_turns(results: Results, golden: Golden) -> tuple[Results, Golden]:
    """Return results and golden set that agree on conversations and turns.

    Ids that a reader made, or that the golden set lacks, give way to that of the golden query with
    the same conversation and turn. Where the golden set doesn't say the conversation or the turn of
    a query, the first run that does is believed.

    Warns
    -----
    UserWarning
        Two responses of a run have one place in a conversation, so that it names no query.
    """
    told = told_turns(results.responses)
    if told is None:
        return results, golden
    if {*PLACE} <= {*golden.queries} and "turn" in told:
        found = _query_ids(told, golden.queries)
        if (is_new := found.ne(told["query_id"])).any():
            results = _renamed(results, told[["run_id", "query_id"]].assign(new=found)[is_new])
            told = told.assign(query_id=found)
    return results, with_told_turns(golden, told)


def told_turns(responses: pd.DataFrame) -> pd.DataFrame | None:
    """Return run_id, query_id, `conversation` and, if known, `turn` of responses; None: unknown."""
    held = {
        role: next((name for name in names if name in responses), None)
        for role, names in _CALLED.items()
    }
    if held["conversation"] is None:
        return None
    told: dict[str, Any] = {name: responses[name].astype("str") for name in ("run_id", "query_id")}
    for role, name in held.items():
        if name is not None:
            column = responses[name]
            is_float = pd.api.types.is_float_dtype(column.dtype)
            whole = column.astype("Int64") if is_float else column
            told[role] = whole.astype("str").where(column.notna())
    return pd.DataFrame(told)


def _query_ids(told: pd.DataFrame, queries: pd.DataFrame) -> pd.Series:
    """Return the query id of each response, by its place where that names a query."""
    place = told["conversation"] + "/" + told["turn"]
    of_golden = (queries["conversation"] + "/" + queries["turn"]).set_axis(queries["query_id"])
    at, own = of_golden.dropna().drop_duplicates(keep=False), told["query_id"]
    named = place.map(pd.Series(at.index, index=at.to_numpy()))
    is_made = own.str.fullmatch(MADE_ID) | own.eq(place).fillna(False)
    # the same text elsewhere in these conversations is another query
    is_other = is_made & own.map(of_golden).ne(place).fillna(False)
    is_other &= told["conversation"].isin(queries["conversation"].dropna())
    found = named.fillna(place.where(is_other))
    found = found.where(is_made | ~is_among(own, queries["query_id"])).fillna(own)
    twice = told.assign(query_id=found).duplicated(["run_id", "query_id"], keep=False)
    if twice.any():
        runs = told.loc[twice, "run_id"]
        warn(
            f"{plural(int(twice.sum()), 'response')} of {plural(runs.nunique(), 'run')} have a"
            f" conversation and turn that another one of the run has, first {place[twice].iloc[0]!r}"
            f" of {own[twice].iloc[0]!r}: there, queries are joined by their ids alone"
        )
        found = found.mask(told["run_id"].isin(runs), own)
    return found


def _renamed(results: Results, renamed: pd.DataFrame) -> Results:
    """Return results with other query ids; `renamed` has run_id, query_id and the id `new`."""
    new = renamed.set_index(["run_id", "query_id"])["new"]
    frames = {}
    for item in fields(results):
        frame = getattr(results, item.name)
        if frame is not None and {"run_id", "query_id"} <= {*frame}:
            cells = pd.MultiIndex.from_frame(frame[["run_id", "query_id"]].astype("str"))
            found = pd.Series(new.reindex(cells).to_numpy(), frame.index, dtype="str")
            frames[item.name] = frame.assign(query_id=found.fillna(frame["query_id"]))
    return narrowed(results, **frames)


def with_told_turns(golden: Golden, told: pd.DataFrame | None) -> Golden:
    """Return a golden set with the conversations and turns that responses tell, where it has none.

    `told` is from `told_turns`.
    """
    if told is None:
        return golden
    queries = golden.queries
    told = told[is_among(told["query_id"], queries["query_id"]) & told["conversation"].notna()]
    first = told.drop_duplicates("query_id").set_index("query_id").reindex(queries["query_id"])
    has_own = "conversation" in queries and queries["conversation"].notna().any()
    if not has_own and not first["conversation"].dropna().duplicated().any():
        return golden  # no two queries in one conversation
    for name in (one for one in PLACE if one in told):
        known = pd.Series(first[name].to_numpy(), index=queries.index, dtype="str")
        own = queries.get(name)
        queries = queries.assign(**{name: known if own is None else own.fillna(known)})
    return golden if queries.equals(golden.queries) else replace(golden, queries=queries)


def conversations_of(golden: Golden, query_ids: pd.Series) -> pd.Series:
    """Return the conversation of each query, NA for those of none.

    Raises
    ------
    DataError
        No query of the golden set names its conversation.
    """
    queries = golden.queries.set_index("query_id")
    if "conversation" not in queries or not queries["conversation"].notna().any():
        raise DataError(
            "no query names its conversation",
            field="golden.queries.conversation",
            allowed="a column conversation, or load_golden(turns=pattern) that reads it from ids",
        )
    talks: pd.Series = queries["conversation"].reindex(query_ids)
    return talks.set_axis(query_ids.index)

"""Conversations and turns on both sides: responses find their query by them, and queries get them.

In: results and a golden set. Out: the same, with query ids of the golden set where conversation and
turn tell the query, and with conversations of the results where the golden set names none.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, narrowed
from ragscore.frames.errors import plural, warn
from ragscore.frames.schema import CONVERSATION_NAMES, MADE_ID, TURN_NAMES

PLACE = ("conversation", "turn")
_CALLED = {
    "conversation": ("conversation", *(f"x_{name}" for name in CONVERSATION_NAMES.split())),
    "turn": ("turn", *(f"x_{name}" for name in TURN_NAMES.split())),
}
TOLD = ("run_id", "query_id", *(name for names in _CALLED.values() for name in names))
"""Columns of responses that may tell conversations and turns, the surest first."""


def with_turns(results: Results, golden: Golden) -> tuple[Results, Golden]:
    """Return results and golden set that agree on conversations and turns.

    Ids that a reader made, or that the golden set lacks, give way to that of the golden query with
    the same conversation and turn. Where the golden set doesn't say the conversation or the turn of
    a query, the first run that does is believed.

    Warns
    -----
    UserWarning
        Two responses of a run have one place in a conversation, so that it names no query. The
        sides differ in conversations (whatever these are called) or turns.
    """
    told = told_turns(results.responses)
    if told is None:
        return results, golden
    if {*PLACE} <= {*golden.queries} and "turn" in told:
        found = _found(told, golden.queries)
        is_new = found.ne(told["query_id"]).to_numpy(dtype=bool)
        if is_new.any():
            renamed = told[["run_id", "query_id"]].assign(new=found)[is_new]
            results = narrowed(results, **renamed_ids(results, renamed))
            told = told.assign(query_id=found)
    golden = with_told_turns(golden, told)
    return results, golden


def told_turns(responses: pd.DataFrame) -> pd.DataFrame | None:
    """Return run_id, query_id, `conversation` and, if known, `turn` of responses; None: unknown."""
    held = {
        role: next((name for name in names if name in responses), None)
        for role, names in _CALLED.items()
    }
    if held["conversation"] is None:
        return None
    own = {role: _texts(responses[name]) for role, name in held.items() if name is not None}
    cell = {name: responses[name].astype("str") for name in ("run_id", "query_id")}
    return pd.DataFrame(cell | own)


def _texts(column: pd.Series) -> pd.Series:
    """Return names as text, unknown ones as NA; whole numbers as such."""
    whole = column.astype("Int64") if pd.api.types.is_float_dtype(column.dtype) else column
    return whole.astype("str").where(column.notna())


def _found(told: pd.DataFrame, queries: pd.DataFrame) -> pd.Series:
    """Return the query id of each response, by its place where that tells it."""
    place = told["conversation"] + "/" + told["turn"]
    of_golden = (queries["conversation"] + "/" + queries["turn"]).set_axis(queries["query_id"])
    at = of_golden.dropna().drop_duplicates(keep=False)
    named = place.map(pd.Series(at.index, index=at.to_numpy()))
    own = told["query_id"]
    is_made = own.str.fullmatch(MADE_ID) | own.eq(place).fillna(False)
    is_elsewhere = own.map(of_golden).ne(place).fillna(False)
    # the same text elsewhere in these conversations is another query
    other = place.where(
        is_made & is_elsewhere & told["conversation"].isin(queries["conversation"].dropna())
    )
    found = named.fillna(other).where(is_made | ~is_among(own, queries["query_id"]))
    found = found.fillna(own)
    twice = told.assign(query_id=found).duplicated(["run_id", "query_id"], keep=False)
    if twice.any():
        runs, at, first = told.loc[twice, "run_id"], place[twice].iloc[0], own[twice].iloc[0]
        warn(
            f"{plural(int(twice.sum()), 'response')} of {plural(runs.nunique(), 'run')} have a"
            f" conversation and turn that another one of the run has, first {at!r} of {first!r}:"
            " there, queries are joined by their ids alone"
        )
        found = found.mask(told["run_id"].isin(runs), own)
    return found


def renamed_ids(holder: Results | Golden, renamed: pd.DataFrame) -> dict[str, Any]:
    """Return the frames whose query ids change.

    `renamed` has `query_id`, its id `new` and, for results, `run_id`.
    """
    cell = [name for name in ("run_id", "query_id") if name in renamed]
    keys = pd.MultiIndex.from_frame(renamed[cell])
    new = renamed["new"].to_numpy(dtype=object)
    frames = {}
    for item in fields(holder):
        frame = getattr(holder, item.name)
        if frame is None or not {*cell} <= {*frame}:
            continue
        at = keys.get_indexer(pd.MultiIndex.from_frame(frame[cell].astype("str")))
        ids = np.where(at >= 0, new[at], frame["query_id"].astype(object))
        frames[item.name] = frame.assign(query_id=pd.array(ids, dtype="str"))
    return frames


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
    added = {}
    for name in (one for one in PLACE if one in told):
        known = pd.Series(first[name].to_numpy(), index=queries.index, dtype="str")
        added[name] = queries[name].fillna(known) if name in queries else known
    queries = queries.assign(**added)
    _warn_of_contradictions(told, queries)
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


def _warn_of_contradictions(told: pd.DataFrame, queries: pd.DataFrame) -> None:
    """Warn of responses in another conversation or turn than their queries are, by three of them.

    Conversations may be called otherwise, as sessions of each run are; they must only be the same.
    """
    of_golden = queries.set_index("query_id").reindex(told["query_id"])
    both = told.assign(own=of_golden["conversation"].to_numpy()).dropna(subset="own")
    by_session = both.groupby(["run_id", "conversation"])["own"].transform("nunique")
    by_own = both.groupby(["run_id", "own"])["conversation"].transform("nunique")
    is_other = (both["conversation"] != both["own"]) & ((by_session > 1) | (by_own > 1))
    shown, own = both["conversation"], both["own"]
    if "turn" in told:
        turn, turn_own = both["turn"], of_golden["turn"].set_axis(told.index)[both.index]
        is_other |= (turn != turn_own).fillna(False) & (
            pd.to_numeric(turn, errors="coerce") != pd.to_numeric(turn_own, errors="coerce")
        )
        shown, own = shown + "/" + turn.fillna("?"), own + "/" + turn_own.fillna("?")
    if (n := int(is_other.sum())) == 0:
        return
    rows = both[is_other].iloc[:3]
    told_by = zip(rows["query_id"], own[rows.index], shown[rows.index], rows["run_id"], strict=True)
    examples = [f"{one!r} is {is_} here, {was} in {run_id}" for one, is_, was, run_id in told_by]
    warn(
        f"{n} of {plural(len(both), 'response')} have another conversation or turn than the golden"
        f" set, which counts: {'; '.join(examples)}"
    )

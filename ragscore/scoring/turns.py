"""Conversations and turns: responses find their query by them, and queries get them."""

from collections.abc import Callable
from dataclasses import fields, replace

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import plural, warn
from ragscore.frames.ranking import CELL
from ragscore.frames.schema import MADE_ID
from ragscore.io.cells import hash_query, ids_made

PLACE = ["conversation", "turn"]
# columns of responses that name each one's turn of a conversation
ASKED = ("run_id", "query_id", *PLACE)


def with_turns(results: Results, golden: Golden) -> tuple[Results, Golden]:
    """Return results and golden set that agree on conversations and turns.

    Ids that a reader made, or that the golden set lacks, give way to the golden query's with the
    same conversation and turn; a place that two responses of a run have names no query. Where
    the golden set doesn't say the conversation or the turn of a query, the first run that does is
    believed. A made id that still finds no query gives way to the query with the same text.
    """
    if "conversation" in results.responses and {*PLACE} <= {*golden.queries}:
        asked = results.responses.reindex(columns=list(ASKED)).astype("str")
        found = _query_ids(asked, golden.queries)
        if found.ne(asked["query_id"]).any():
            of_cell = found.set_axis(pd.MultiIndex.from_frame(asked[CELL]))
            results = renamed(
                results, "query_id",
                lambda frame: of_cell.reindex(pd.MultiIndex.from_frame(frame[CELL].astype("str")))
                .set_axis(frame.index).fillna(frame["query_id"]),
            )  # fmt: skip
    results = _by_text(results, golden.queries)
    return results, with_stated_turns(golden, results.responses)


def _query_ids(asked: pd.DataFrame, queries: pd.DataFrame) -> pd.Series:
    """Return the query id of each response, by its place where that names a query."""
    place, own = asked["conversation"] + "/" + asked["turn"], asked["query_id"]
    place = place.mask(asked.assign(place=place).duplicated(["run_id", "place"], keep=False))
    of_golden = (queries["conversation"] + "/" + queries["turn"]).set_axis(queries["query_id"])
    at = of_golden.dropna().drop_duplicates(keep=False)
    named = place.map(pd.Series(at.index, index=at.to_numpy()))
    is_made = own.str.fullmatch(MADE_ID) | own.eq(place).fillna(False)
    # the same text elsewhere in these conversations is another query
    is_there = asked["conversation"].isin(queries["conversation"].dropna())
    is_other = is_made & is_there & own.map(of_golden).ne(place).fillna(False)
    found = named.fillna(place.where(is_other))
    return found.where(is_made | ~is_among(own, queries["query_id"])).fillna(own)


def _by_text(results: Results, queries: pd.DataFrame) -> Results:
    """Return results in which ids made of texts give way to ids of queries with these texts."""
    own = results.responses["query_id"]
    others = own[~is_among(own, queries["query_id"])]
    lost = others[others.str.fullmatch(MADE_ID).to_numpy(bool)].unique()
    if not len(lost):
        return results
    made = ids_made(queries["query"], hash_query)
    named = pd.Series(queries["query_id"].to_numpy(), made)[~made.duplicated(keep=False).to_numpy()]
    found = named.reindex(lost).dropna()
    if n := len(found):
        warn(f"{plural(n, 'query')} joined by the text: the run has no ids, the golden set has")
    return renamed(
        results, "query_id", lambda frame: frame["query_id"].map(found).fillna(frame["query_id"])
    )


def renamed(results: Results, column: str, new_ids: Callable[[pd.DataFrame], pd.Series]) -> Results:
    """Return results with other run or query ids in all frames that have this column."""
    frames = {}
    for item in fields(results):
        frame = getattr(results, item.name)
        if frame is not None and {"run_id", column} <= {*frame}:
            frames[item.name] = frame.assign(**{column: new_ids(frame)})
    return replace(results, **frames)


def with_stated_turns(golden: Golden, responses: pd.DataFrame) -> Golden:
    """Return a golden set with the responses' conversations and turns, where it has none.

    Conversations of a single query each are left out.
    """
    if "conversation" not in responses:
        return golden
    asked = responses.reindex(columns=list(ASKED)).astype("str")
    ids, known = golden.queries["query_id"], golden.queries.reindex(columns=PLACE).astype("str")
    asked = asked[is_among(asked["query_id"], ids) & asked["conversation"].notna()]
    first = asked.drop_duplicates("query_id").set_index("query_id")[PLACE].reindex(ids)
    both = known.fillna(first.set_axis(known.index)).dropna(axis="columns", how="all")
    if known["conversation"].isna().all() and not first["conversation"].dropna().duplicated().any():
        return golden
    queries = golden.queries.assign(**both)
    return golden if queries.equals(golden.queries) else replace(golden, queries=queries)

"""Ids of queries and passages that have none, made of their texts, and names of runs."""

import hashlib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.codes import coded, codes_of


def hash_query(query: str) -> str:
    """Return an id for a query that has none: `q-` and 12 hex digits.

    The same query has the same id in every file. Letter case, spacing and Unicode form don't
    matter.
    """
    normal = " ".join(unicodedata.normalize("NFKC", query).casefold().split())
    return "q-" + hashlib.sha256(normal.encode("utf-8", "replace")).hexdigest()[:12]


def ids_of_queries(asked: pd.DataFrame, runs: Any = None) -> pd.Series:
    """Return an id for each query that has none: `hash_query` of its text.

    A text that a run, or a golden set, has in several places of conversations is several queries:
    their ids are these places, such as `s1/3`, or `s1/q-...` without turns. So are those of rows
    without a text.

    Parameters
    ----------
    asked
        The columns `query` and, where they are known, `conversation` and `turn`.
    runs
        The run of each row; None: one run.
    """
    texts = asked.get("query", pd.Series(pd.NA, asked.index, dtype="str"))
    made = ids_made(texts.mask(texts.str.strip() == ""), hash_query)
    if "conversation" not in asked:
        return made
    turn = asked["turn"].fillna(made) if "turn" in asked else made
    place = asked["conversation"] + "/" + turn
    places = pd.DataFrame({"run": runs, "made": made, "place": place}).drop_duplicates()
    several = places.loc[places.duplicated(["run", "made"]), "made"]
    is_placed = (made.isin(several) | made.isna()) & place.notna()
    return made.mask(is_placed, place)


def ids_made(texts: pd.Series, make: Callable[[str], str]) -> pd.Series:
    """Return an id for each text of a query or passage, made from it."""
    found = coded(texts)
    made = pd.array([make(str(one)) for one in found.cat.categories], dtype="str")
    return pd.Series(made.take(codes_of(found), allow_fill=True), texts.index, name=texts.name)


def text_id(text: str) -> str:
    """Return an id for a passage that has none: `text-` and 12 hex digits."""
    return (
        "text-" + hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:12]
    )


def run_name_of(source: Path | pd.DataFrame) -> str:
    """Return the name of a run that has none: that of its file, or "run"."""
    if isinstance(source, pd.DataFrame):
        return "run"
    return source.name.removesuffix(".gz").rsplit(".", 1)[0] or source.name

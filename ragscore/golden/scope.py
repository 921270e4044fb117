"""Checks that what a query expects lies within what it may search: its folders and vaults."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden
from ragscore.golden.violations import FIELD_OF_LEVEL, NOTHING, Violations, tags_of, violation
from ragscore.io.source import as_text
from ragscore.io.targets import SUPPORT_EXTRAS


def foreign_vaults(golden: Golden) -> Violations:
    """Find tags that name a vault of the set, but none of the query's own vaults."""
    vaults, tags = _scope(golden, "vault"), tags_of(golden, "tag")
    if not len(vaults) or not len(tags):
        return NOTHING
    named = tags[
        tags["value"].isin(vaults["value"]) & tags["query_id"].isin(vaults["query_id"])
    ].merge(vaults, how="left", indicator=True)
    strange = named[named["_merge"] == "left_only"]
    return violation(strange, strange["value"])


def outside_folders(golden: Golden) -> Violations:
    """Find paths of supports that lie in none of the folders that their query lists.

    A path may begin with the vault. Ids of documents and chunks aren't looked at.
    """
    folders, places = _scope(golden, "folder"), _places(golden)
    if not len(folders) or not len(places):
        return NOTHING
    folders_of = _by_query(folders)
    vaults_of = _by_query(_scope(golden, "vault"))
    places = places[places["query_id"].isin(list(folders_of))]
    # A loop: pandas can't test prefixes that vary by row.
    inside = [
        any(
            _is_under(path, folder)
            for path in _with_vaults(place, vaults_of.get(query_id, []))
            for folder in folders_of[query_id]
        )
        for query_id, place in zip(places["query_id"], places["place"], strict=True)
    ]
    return _all_outside(places.assign(inside=pd.Series(inside, index=places.index, dtype=bool)))


def outside_vaults(golden: Golden) -> Violations:
    """Find targets in a vault of the set that the query doesn't list.

    The vault is the first part of the path, or the support's own field `vault`.
    """
    vaults = _scope(golden, "vault")
    if not len(vaults):
        return NOTHING
    vaults_of, known = _by_query(vaults), set(vaults["value"])
    folders_of = _by_query(_scope(golden, "folder"))
    places = _places(golden)
    places = places[places["query_id"].isin(list(vaults_of)) & places["place"].str.contains("/")]
    inside = []
    for query_id, place in zip(places["query_id"], places["place"], strict=True):
        first = _parts(place)[0]
        # A folder may be called like another query's vault.
        is_folder = any(_is_under(place, folder) for folder in folders_of.get(query_id, []))
        inside.append(first not in known or first in vaults_of[query_id] or is_folder)
    places = places.assign(inside=pd.Series(inside, index=places.index, dtype=bool))
    return pd.concat([_all_outside(places), _in_other_vault(golden, vaults_of)], ignore_index=True)


def _in_other_vault(golden: Golden, vaults_of: dict[str, list[str]]) -> Violations:
    """Find supports that state a vault which their query doesn't list."""
    if SUPPORT_EXTRAS not in golden.queries:
        return NOTHING
    rows = golden.queries.dropna(subset=SUPPORT_EXTRAS)
    found = [
        {"query_id": query_id, "found": f"vault {vault!r}", "field": FIELD_OF_LEVEL["anchor"]}
        for query_id, extras in zip(rows["query_id"], rows[SUPPORT_EXTRAS], strict=True)
        for support in json.loads(extras)
        if (vault := as_text(support.get("vault"))) and query_id in vaults_of
        if vault not in vaults_of[query_id]
    ]
    return pd.DataFrame(found) if found else NOTHING


def _places(golden: Golden) -> pd.DataFrame:
    """Return the paths of supports: query_id, level, target_id, place."""
    columns = ["query_id", "level", "target_id", "path"]
    targets = golden.targets[golden.targets["level"] == "anchor"].reindex(columns=columns)
    place = targets["path"].astype("str").str.replace("\\", "/", regex=False)
    return targets[columns[:3]].assign(place=place).dropna(subset="place")


def _all_outside(places: pd.DataFrame) -> Violations:
    """Return the targets of which no alternative is inside, each place of a query once."""
    key = ["query_id", "level", "target_id"]
    outside = places[~places.groupby(key)["inside"].transform("any").to_numpy(bool)]
    outside = outside.drop_duplicates(["query_id", "place"])
    return violation(outside, outside["place"])


def _scope(golden: Golden, kind: str) -> pd.DataFrame:
    """Return the folders or vaults that queries list, also in their filters: query_id, value."""
    filtered = [
        (query_id, value)
        for query_id, key, values in _filters(golden)
        if key in (kind, f"{kind}s")
        for value in values
    ]
    listed = pd.DataFrame(filtered, columns=["query_id", "value"], dtype="str")
    return pd.concat([tags_of(golden, kind), listed], ignore_index=True)


def _by_query(rows: pd.DataFrame) -> dict[str, list[str]]:
    return {str(name): own.tolist() for name, own in rows.groupby("query_id")["value"]}


def _filters(golden: Golden) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the filters of queries: query id, key, values; a filter of operators has no values."""
    for column in golden.queries.columns[golden.queries.columns.str.startswith("x_filters")]:
        key = column.removeprefix("x_filters").removeprefix(".").removesuffix(".json")
        rows = golden.queries[golden.queries[column].notna()]
        for query_id, value in zip(rows["query_id"], rows[column].tolist(), strict=True):
            written = value
            if isinstance(value, str) and value[:1] in ("[", "{"):
                with suppress(ValueError, RecursionError):
                    written = json.loads(value)
            if key:
                yield query_id, key, _scalars(written)
            elif isinstance(written, dict):
                yield from ((query_id, name, _scalars(one)) for name, one in written.items())


def _scalars(value: Any) -> list[str]:
    """Return a scalar, or a list of them, as texts; nothing for anything else."""
    texts = [
        json.dumps(one) if isinstance(one, bool) else as_text(one)
        for one in (value if isinstance(value, list) else [value])
    ]
    return [] if None in texts else [str(one) for one in texts]


def _with_vaults(place: str, vaults: list[str]) -> list[str]:
    """Return a path, also with a vault before it or without the one that it begins with."""
    parts = _parts(place)
    inner = ["/".join(parts[1:])] if parts and parts[0] in vaults else []
    return [place, *inner, *(f"{vault}/{place}" for vault in vaults)]


def _is_under(path: str, folder: str) -> bool:
    inner, outer = _parts(path), _parts(folder)
    return inner[: len(outer)] == outer


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]

"""Ids as a policy reads them: by named changes, or by a function, of both sides alike.

In: results, a golden set and `Policies.ids`. Out: the same with changed ids, and the policies with
the name of what was done. Only distinct ids are changed, never row by row.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import coded, codes_of, is_among, is_present
from ragscore.frames.data import DataError, Frames, Golden, Results, narrowed
from ragscore.frames.errors import excerpt, plural, warn
from ragscore.scoring.grading import rule_name
from ragscore.scoring.id_changes import read_as
from ragscore.scoring.policies import Policies
from ragscore.scoring.turns import with_turns

ID_COLUMNS = ("doc_id", "chunk_id", "path", "source_key")
# What makes two rows of a frame the same: of targets they are merged, of hits only counted.
_TARGET_KEY = ["query_id", "level", "target_id", "alternative"]


def with_ids_read(
    results: Results, golden: Golden, policies: Policies
) -> tuple[Results, Golden, Policies]:
    """Return results and golden set joined by turns, with their ids as the policies read them.

    What was read so already stays as it is. A function becomes its name and a hash of its code, as
    settings and provenance record it.

    Raises
    ------
    DataError
        A function that gives no text, or that is only named here.

    Warns
    -----
    UserWarning
        Two targets of a query, or two hits of a list, have one id then; see also `with_turns`.
    """
    results, golden = with_turns(results, golden)
    ids = policies.ids
    if not ids:
        return results, golden, policies
    name = rule_name(ids) if callable(ids) else str(ids)  # type: ignore[arg-type]
    if not callable(ids) and "#" in name and {results._ids, golden._ids} != {name}:
        raise DataError(
            f"the function {name!r} is only named here",
            field="ids",
            allowed="the function itself, as for the scoring that recorded it",
        )
    if golden._ids != name:
        golden = _golden_read(golden, ids, name)
    if results._ids != name:
        results = _results_read(results, golden, ids, name)
    return results, golden, replace(policies, ids=name)


def _marked(original: Frames, name: str, frames: dict[str, Any]) -> Frames:
    read = narrowed(original, **frames)
    read.__dict__["_ids"] = name
    return read


def _changed(column: pd.Series, ids: Any) -> pd.Series:
    """Return a column with its ids changed; absent ones stay absent."""
    held = coded(column)
    old = pd.Series(held.cat.categories.astype("str"))
    if callable(ids):
        new = pd.Series([ids(one) for one in old.tolist()], dtype=object)
        is_bad = [not isinstance(one, str) or not one for one in new]
        if any(is_bad):
            at = int(np.flatnonzero(is_bad)[0])
            raise DataError(
                f"{excerpt(new[at])} for {excerpt(old[at])}",
                field=f"ids: {rule_name(ids)}",
                allowed="a function from an id to an id, both texts that aren't empty",
            )
    else:
        new = read_as(old, tuple(ids.split("+")))
    new = new.astype("str").where(new != "", old)  # "/" alone has no other name
    read = new.reindex(codes_of(held))  # code -1, no id, is at no place
    return read.set_axis(column.index)


def _golden_read(golden: Golden, ids: Any, name: str) -> Golden:
    targets, groups = golden.targets, golden.support_groups
    columns = {one: _changed(targets[one], ids) for one in ID_COLUMNS if one in targets}
    # A target is named by its id unless the file gave it a name of its own.
    is_id = np.zeros(len(targets), dtype=bool)
    for one in columns:
        is_id |= (targets[one] == targets["target_id"]).fillna(False).to_numpy(dtype=bool)
    columns["target_id"] = _changed(targets["target_id"], ids).where(is_id, targets["target_id"])
    frames = {"targets": targets.assign(**columns)}
    if len(groups):
        old = targets["query_id"].astype("str") + "\0" + targets["target_id"]
        new = dict(zip(old, columns["target_id"], strict=True))
        wanted = groups["query_id"].astype("str") + "\0" + groups["target_id"]
        own = wanted.map(new).fillna(groups["target_id"]).astype("str")
        frames["support_groups"] = groups.assign(target_id=own).drop_duplicates()
    changed = frames["targets"].sort_values("grade", ascending=False, kind="stable")
    kept = ~changed.duplicated(_TARGET_KEY)
    if n := int((~kept).sum()):
        of_queries = changed.loc[~kept, "query_id"].nunique()
        warn(
            f"ids={name!r} makes {plural(n, 'target')} of {plural(of_queries, 'query')} equal"
            " another of the same query: each counts once, with the highest grade"
        )
        frames["targets"] = changed[kept].sort_index()
    return _marked(golden, name, frames)


def _results_read(results: Results, golden: Golden, ids: Any, name: str) -> Results:
    # What is forbidden is looked for in source keys as they are; such a query ranks by no key.
    checks = golden.checks
    kept = checks.loc[is_among(checks["kind"], ["forbidden_source_key"]), "query_id"]
    frames: dict[str, Any] = {}
    for item in fields(results):
        frame = getattr(results, item.name)
        if frame is None or item.name in ("runs", "responses", "problems", "mapping", "matches"):
            continue
        of_frame = [one for one in ID_COLUMNS if one in frame]
        if len(frame) and of_frame:
            read = frame.assign(**{one: _changed(frame[one], ids) for one in of_frame})
            if "source_key" in read and len(kept):
                is_kept = is_among(frame["query_id"], kept)
                read["source_key"] = frame["source_key"].where(is_kept, read["source_key"])
            frames[item.name] = read
    if "hits" in frames:
        for column in ("doc_id", "chunk_id"):
            if column in frames["hits"]:
                before, after = (_repeats(one, column) for one in (results.hits, frames["hits"]))
                if n := int((after & ~before).sum()):
                    warn(
                        f"ids={name!r} gives {plural(n, 'hit')} the {column} of an earlier hit of"
                        " the same list: a target counts as found by the first of them;"
                        " collapse='doc' leaves out the others"
                    )
    # Stored matches are of the ids as they were.
    return _marked(results, name, frames | {"matches": None})


def _repeats(hits: pd.DataFrame, column: str) -> np.ndarray:
    """Flag hits whose id an earlier hit of their list has, by rank."""
    ordered = hits[["run_id", "query_id", column, "rank"]].sort_values("rank", kind="stable")
    is_repeat = ordered.duplicated(["run_id", "query_id", column])
    return (is_repeat.sort_index() if hits.index.is_unique else is_repeat).to_numpy() & is_present(
        hits[column]
    )

"""Versions of a golden set: content hashes per query, and the changes between two versions.

In: golden sets, or the hashes that a store holds of one. Out: one hash per query, or one row per
changed query. On all others, scores by both versions can be compared. `Golden` itself is above this
module: it asks for its hash here.
"""

import hashlib
import json
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.errors import check_type

# Where an index holds a target, which `resolve_spans` adds; it is no part of a target's identity.
_RESOLVED = ["doc_id", "path", "heading", "start", "end", "span_unit"]
_ASIDE = ("position", "conversation", "turn")
_json = json.JSONEncoder(
    ensure_ascii=False, default=lambda one: one.item() if isinstance(one, np.generic) else str(one)
).encode


def short_hash(text: str) -> str:
    """Return the first 16 hexadecimal digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def golden_hash(golden: Any) -> str:
    """Return one hash of a whole set, whatever the order of its queries."""
    digests = hashes_by_query(golden.queries["query_id"], _content(golden))
    return short_hash("\n".join(sorted(digests.index + " " + digests)))


def _content(golden: Any) -> dict[str, pd.DataFrame]:
    """Return what a set is known by: texts, labels, targets, checks.

    Locators that `resolve_spans` added don't count, nor does what results may add.
    """
    targets, is_chunk = golden.targets, golden.targets["level"] == "chunk"
    resolved = [name for name in _RESOLVED if name in targets and is_chunk.any()]
    own = [name for name in golden.queries if name not in _ASIDE]
    return {
        "queries": golden.queries[own],
        "targets": targets.assign(**{name: targets[name].mask(is_chunk) for name in resolved}),
        "tags": golden.tags,
        "checks": golden.checks,
        "support_groups": golden.support_groups,
        "conditions": golden.conditions,
    }


def hashes_by_query(query_ids: pd.Series, frames: dict[str, pd.DataFrame]) -> pd.Series:
    """Return a hash of the rows of each query in all frames (index query_id).

    Their order doesn't count. A row is `json.dumps([name of the frame, {column: value, ...}])`,
    columns in alphabetical order and without missing values, so that an absent column and one of NA
    are the same content.
    """
    ids = pd.Index(query_ids, name="query_id")
    rows: list[list[str]] = [[] for _ in ids]
    for name, frame in [(name, one) for name, one in frames.items() if len(one)]:
        for query, row in zip(lookup(frame["query_id"], ids), _rows(name, frame), strict=True):
            rows[query].append(row)
    digests = [short_hash("\n".join(sorted(own))) for own in rows]
    return pd.Series(digests, index=ids, dtype="str", name="query_hash")


def _rows(name: str, frame: pd.DataFrame) -> list[str]:
    """Return each row of a frame as JSON, column by column, which is fast."""
    columns = [_cells(frame[column]) for column in sorted(frame.columns)]
    rows = (", ".join(filter(None, cells)) for cells in zip(*columns, strict=True))
    return [f"[{_json(name)}, {{{row}}}]" for row in rows]


def _cells(column: pd.Series) -> list[str]:
    """Return `"column": value` for each row, "" where it is missing; each value is written once."""
    head = f"{_json(column.name)}: "
    if column.dtype == object:  # 1 and True are one value to `factorize`
        return [
            "" if pd.isna(text) else head + text for text in column.map(_json, na_action="ignore")
        ]
    codes, values = column.array.factorize()
    texts = [*(head + _json(value) for value in values.astype(object)), ""]  # -1 is the last
    return [texts[code] for code in codes.tolist()]


def query_parts(golden: Any) -> pd.DataFrame:
    """Return content hashes of every query (index query_id).

    Columns: `text`, the query itself; `labels`, all that is expected of it; `notes`, tags and
    columns such as difficulty, which change no score. Folder tags count as labels, since
    `scope_miss` compares them.
    """
    content = _content(golden)
    queries, tags = content["queries"].assign(query=""), content["tags"]
    is_folder = tags["kind"].eq("folder").to_numpy(dtype=bool)
    expected = [name for name in ("answerable", "reference_answer") if name in queries]
    labels = {"queries": queries[["query_id", "query", *expected]], "tags": tags[is_folder]}
    ids, texts = golden.queries["query_id"], golden.queries["query"].fillna("")
    parts = {
        "text": texts.map(short_hash).set_axis(pd.Index(ids)),
        "labels": hashes_by_query(ids, content | labels),
        "notes": hashes_by_query(
            ids, {"queries": queries.drop(columns=expected), "tags": tags[~is_folder]}
        ),
    }
    return pd.DataFrame(parts).rename_axis("query_id")


def golden_changes(golden: Any, old: Any) -> pd.DataFrame:
    """List the queries that differ from an older version of a golden set.

    Returns
    -------
    One row per query that changed, in the order of `old`, then of `golden`: query_id; `change`:
    added, removed, relabelled (what is expected of it: targets, checks, whether to refuse it, ...),
    reworded (its text), "reworded and relabelled", or annotated (tags or columns that slice and
    don't score); `what`, the ids of targets that came (+) and went (-).
    """
    check_type(old, type(golden), "old")
    changes = changes_of(query_parts(old), query_parts(golden))
    came, went = (
        one.targets[["query_id", "level", "target_id"]].drop_duplicates() for one in (golden, old)
    )
    moved = came.merge(went, how="outer", indicator="sign").query("sign != 'both'")
    ids = (
        moved["sign"].map({"left_only": "+", "right_only": "-"}).astype("str") + moved["target_id"]
    )
    what = ids.sort_values().groupby(moved["query_id"]).agg(", ".join).astype("str")
    named = what.reindex(changes["query_id"]).fillna("").to_numpy()
    return changes.assign(what=np.where(changes["change"].isin(["added", "removed"]), "", named))


def changes_of(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return one row per changed query (query_id, change), from the sets' `query_parts`."""
    ids = old.index.append(new.index[~new.index.isin(old.index)])
    before, after = old.reindex(ids), new.reindex(ids)
    text, labels, notes = (
        before[name].ne(after[name]).fillna(True) for name in ("text", "labels", "notes")
    )
    words = {  # the first that holds
        "removed": after["text"].isna(), "added": before["text"].isna(),
        "reworded and relabelled": text & labels, "reworded": text, "relabelled": labels,
        "annotated": notes,
    }  # fmt: skip
    change = np.select([one.to_numpy(dtype=bool) for one in words.values()], list(words), "")
    changes = pd.DataFrame({"query_id": ids, "change": change}).astype("str")
    return changes[change != ""].reset_index(drop=True)


def counted(changes: pd.DataFrame, n: int) -> str:
    """Return the changes in one line: `6 of 10 queries relabelled, 1 added`."""
    listed = ", ".join(
        f"{number} {change}"
        for change, number in changes["change"].value_counts(sort=False).items()
    )
    return listed.replace(" ", f" of {n} queries ", 1) or f"no change of {n} queries"

"""Versions of a golden set: content hashes per query, and the changes between two versions.

In: golden sets, or the hashes that a store holds of one. Out: one row per changed query. On all
others, scores by both versions can be compared.
"""

import hashlib

import numpy as np
import pandas as pd

from ragscore.frames.content_hashes import hashes_by_query
from ragscore.frames.data import Golden, check_type

PARTS = ("text", "labels", "notes")


def golden_changes(golden: Golden, old: Golden) -> pd.DataFrame:
    """List the queries that differ from an older version of a golden set.

    Returns
    -------
    One row per query that changed, in the order of `old`, then of `golden`: query_id; `change`:
    added, removed, relabelled (what is expected of it: targets, checks, whether to refuse it, ...),
    reworded (its text), "reworded and relabelled", or annotated (tags or columns that slice and
    don't score); `what`, the ids of targets that came (+) and went (-).
    """
    check_type(golden, Golden, "golden")
    check_type(old, Golden, "old")
    changes = changes_of(query_parts(old), query_parts(golden))
    is_kept = ~changes["change"].isin(["added", "removed"])
    moved = _moved_targets(golden, old).reindex(changes["query_id"]).fillna("")
    return changes.assign(what=moved.where(is_kept.to_numpy(), "").to_numpy())


def _moved_targets(golden: Golden, old: Golden) -> pd.Series:
    """Return the ids of targets that only one set has, each after its sign (index query_id)."""
    names = ["query_id", "level", "target_id"]
    sides = [one.targets[names].drop_duplicates() for one in (golden, old)]
    rows = sides[0].merge(sides[1], how="outer", indicator="sign").query("sign != 'both'")
    signs = rows["sign"].astype("str").map({"left_only": "+", "right_only": "-"})
    ids = (signs + rows["target_id"]).sort_values()
    return ids.groupby(rows["query_id"]).agg(", ".join).astype("str")


def short_hash(text: str) -> str:
    """Return the first 16 hexadecimal digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def query_parts(golden: Golden) -> pd.DataFrame:
    """Return content hashes of every query (index query_id).

    Columns: `text`, the query itself; `labels`, all that is expected of it; `notes`, tags and
    columns such as difficulty, which change no score. Folder tags count as labels, since
    `scope_miss` compares them.
    """
    content = golden._content
    queries, tags = content["queries"].assign(query=""), content["tags"]
    is_folder = tags["kind"].eq("folder").to_numpy(dtype=bool)
    expected = [name for name in ("answerable", "reference_answer") if name in queries]
    labels = {"queries": queries[["query_id", "query", *expected]], "tags": tags[is_folder]}
    notes = {"queries": queries.drop(columns=expected), "tags": tags[~is_folder]}
    ids, texts = golden.queries["query_id"], golden.queries["query"].fillna("")
    parts = {
        "text": texts.map(short_hash).set_axis(pd.Index(ids)),
        "labels": hashes_by_query(ids, content | labels),
        "notes": hashes_by_query(ids, notes),
    }
    return pd.DataFrame(parts).rename_axis("query_id")


def golden_digest(parts: pd.DataFrame) -> str:
    """Return one hash of all that affects scores, whatever the order of queries."""
    return short_hash("\n".join(sorted(parts.index + " " + parts["text"] + " " + parts["labels"])))


def changes_of(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return one row per changed query (query_id, change), from the sets' `query_parts`."""
    ids = old.index.append(new.index[~new.index.isin(old.index)])
    before, after = old.reindex(ids), new.reindex(ids)
    text, labels, notes = (before[name].ne(after[name]).fillna(True) for name in PARTS)
    words = {  # the first that holds
        "removed": after["text"].isna(), "added": before["text"].isna(),
        "reworded and relabelled": text & labels, "reworded": text, "relabelled": labels,
        "annotated": notes,
    }  # fmt: skip
    change = np.select([one.to_numpy(dtype=bool) for one in words.values()], list(words), "")
    changes = pd.DataFrame({"query_id": ids, "change": change}).astype("str")
    return changes[change != ""].reset_index(drop=True)


def counted(changes: pd.DataFrame, n: int) -> str:
    """Return the changes in one line: `6 of 10 queries relabelled, 1 added`.

    `n` is the number of queries before.
    """
    counts = changes["change"].value_counts(sort=False)
    if not len(counts):
        return f"no change of {n} queries"
    first, *others = [
        f"{number} of {n} queries {change}" if not place else f"{number} {change}"
        for place, (change, number) in enumerate(counts.items())
    ]
    return ", ".join([first, *others])

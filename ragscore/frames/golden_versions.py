"""Versions of a golden set: content hashes per query, and the changes between two versions.

In: golden sets, or the hashes that a store holds of one. Out: one row per changed query. On all
others, scores by both versions can be compared.
"""

import hashlib
from dataclasses import replace

import pandas as pd

from ragscore.frames.data import Golden, check_type, empty

PARTS = ("text", "labels", "notes")
FRAMES = ("targets", "checks", "support_groups", "conditions", "tags")


def golden_changes(golden: Golden, old: Golden) -> pd.DataFrame:
    """List the queries that differ from an older version of a golden set.

    Returns
    -------
    One row per query that changed, in the order of `old`, then of `golden`: query_id; `change`:
    added, removed, relabelled (what is expected of it: targets, checks, whether to refuse it, ...),
    reworded (its text), "reworded and relabelled", or annotated (tags or columns that slice and
    don't score); `what`, the frames and columns that differ, with the ids of targets that came (+)
    and went (-); "alternatives" and "grades" where those of a target that stayed are others.
    """
    check_type(golden, Golden, "golden")
    check_type(old, Golden, "old")
    changes = changes_of(query_parts(old), query_parts(golden))
    kept = changes.loc[~changes["change"].isin(["added", "removed"]), "query_id"]
    return changes.assign(
        what=changes["query_id"].map(_what_differs(old, golden, kept)).fillna("").astype("str")
    )


def _what_differs(old: Golden, new: Golden, query_ids: pd.Series) -> pd.Series:
    """Return the frames and columns in which these queries differ, as text (index query_id)."""
    parts = []
    before, after = (
        golden.queries.set_index("query_id").drop(columns="position").reindex(query_ids.to_numpy())
        for golden in (old, new)
    )
    for name in dict.fromkeys([*before.columns, *after.columns]):
        a, b = (
            frame[name].astype("str").fillna("")
            if name in frame
            else pd.Series("", frame.index, dtype="str")
            for frame in (before, after)
        )
        parts.append(pd.Series(name, a.index[(a != b).to_numpy()], dtype="str"))
    for name in FRAMES:
        a, b = (_contents(getattr(golden, name), query_ids) for golden in (old, new))
        parts.append(pd.Series(name, a.index[(a != b).to_numpy()], dtype="str"))
    parts += [
        _within_targets(old, new, query_ids),
        _of_targets(new, old, query_ids, "+"),
        _of_targets(old, new, query_ids, "-"),
    ]
    return pd.concat(parts).groupby(level=0).agg(", ".join)


def _contents(frame: pd.DataFrame, query_ids: pd.Series) -> pd.Series:
    """Return the rows of each query as one text, in sorted order (index query_id)."""
    rows = frame[frame["query_id"].isin(query_ids)]
    texts = (
        pd.Series(_lines(rows), index=pd.Index(rows["query_id"]), dtype="str")
        .groupby(level=0)
        .agg(lambda one: "\n".join(sorted(one)))
    )
    return texts.reindex(query_ids.to_numpy()).fillna("")


def _lines(rows: pd.DataFrame) -> list[str]:
    """Return each row as text, without its missing values."""
    return [
        repr(sorted((key, str(value)) for key, value in row.items() if not pd.isna(value)))
        for row in rows.to_dict("records")
    ]


def _within_targets(old: Golden, new: Golden, query_ids: pd.Series) -> pd.Series:
    """Return "alternatives" or "grades" for targets in both that differ there (index query_id)."""
    names, sides = ["query_id", "level", "target_id"], []
    for golden in (old, new):
        rows = golden.targets[golden.targets["query_id"].isin(query_ids)]
        rows = rows[names].assign(
            grade=rows["grade"], alternatives=_lines(rows.drop(columns=["grade", "alternative"]))
        )
        sides.append(
            rows.groupby(names).agg(
                grade=("grade", "max"),
                alternatives=("alternatives", lambda one: "\n".join(sorted(one))),
                n=("grade", "size"),
            )
        )
    both = sides[0].add_suffix("_a").join(sides[1].add_suffix("_b"), how="inner")
    is_other = {
        "alternatives": (both["alternatives_a"] != both["alternatives_b"])
        & (both[["n_a", "n_b"]].max(axis=1) > 1),
        "grades": both["grade_a"] != both["grade_b"],
    }
    found = [
        pd.Series(name, index=both.index[flags].get_level_values("query_id").unique(), dtype="str")
        for name, flags in is_other.items()
    ]
    return pd.concat(found)


def _of_targets(golden: Golden, other: Golden, query_ids: pd.Series, sign: str) -> pd.Series:
    """Return the ids of targets that only `golden` has, each after a sign (index query_id)."""
    names = ["query_id", "level", "target_id"]
    rows = golden.targets.loc[golden.targets["query_id"].isin(query_ids), names].drop_duplicates()
    only = rows.merge(
        other.targets[names].drop_duplicates(), on=names, how="left", indicator=True
    ).query("_merge == 'left_only'")
    return pd.Series(
        (sign + only["target_id"]).to_numpy(), index=pd.Index(only["query_id"]), dtype="str"
    )


def short_hash(text: str) -> str:
    """Return the first 16 hexadecimal digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def query_parts(golden: Golden) -> pd.DataFrame:
    """Return content hashes of every query (index query_id).

    Columns: `text`, the query itself; `labels`, all that is expected of it; `notes`, tags and
    columns such as difficulty, which change no score. Folder tags count as labels, since
    `scope_miss` compares them.
    """
    return golden._once("query_parts", lambda: _query_parts(golden))


def _query_parts(golden: Golden) -> pd.DataFrame:
    queries, is_folder = golden.queries, (golden.tags["kind"] == "folder").to_numpy(dtype=bool)
    measuring = [
        name
        for name in ("query_id", "answerable", "reference_answer", "position")
        if name in queries
    ]
    labels = replace(
        golden, queries=queries[measuring].assign(query=""), tags=golden.tags[is_folder]
    )
    plain = queries.drop(columns="reference_answer", errors="ignore").assign(
        query="", answerable=pd.array([pd.NA] * len(queries), dtype="boolean")
    )
    none = {name: empty(name) for name in ("targets", "checks", "support_groups", "conditions")}
    notes = replace(golden, queries=plain, tags=golden.tags[~is_folder], **none)
    text = pd.Series(
        [short_hash(query) for query in queries["query"].fillna("").tolist()],
        index=pd.Index(queries["query_id"]),
        dtype="str",
    )
    return pd.DataFrame(
        {"text": text, "labels": labels._query_hashes, "notes": notes._query_hashes}
    ).rename_axis("query_id")


def golden_digest(parts: pd.DataFrame) -> str:
    """Return one hash of all that affects scores, whatever the order of queries."""
    return short_hash("\n".join(sorted(parts.index + " " + parts["text"] + " " + parts["labels"])))


def changes_of(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return one row per changed query (query_id, change), from the sets' `query_parts`."""
    ids = old.index.append(new.index[~new.index.isin(old.index)])
    before, after = old.reindex(ids), new.reindex(ids)
    differs = {
        name: (before[name] != after[name]).fillna(True).to_numpy(dtype=bool) for name in PARTS
    }
    added, removed = before["text"].isna().to_numpy(), after["text"].isna().to_numpy()
    words = pd.Series("", index=ids, dtype="str")
    words[differs["notes"]] = "annotated"
    words[differs["labels"]] = "relabelled"
    words[differs["text"]] = "reworded"
    words[differs["text"] & differs["labels"]] = "reworded and relabelled"
    words[added], words[removed] = "added", "removed"
    changed = words[words != ""]
    return pd.DataFrame({"query_id": changed.index, "change": changed.to_numpy()}).astype("str")


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

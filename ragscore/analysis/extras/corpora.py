"""Corpora: chunks that hurt retrieval, and a synthetic one with rare tokens hidden in log lines.

In: a chunks frame, before anything is embedded; or a seed. Out: `Lint`, one row per finding;
`NeedleSet`, a golden set and its chunks.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden, check_type, conform
from ragscore.frames.errors import plural
from ragscore.frames.typing import Flags

KINDS = (
    "empty", "near_empty", "tiny", "giant", "missing_id", "duplicate_id", "duplicate",
    "near_duplicate", "control_characters", "byte_order_mark",
)  # fmt: skip
CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"


@dataclass(frozen=True, repr=False, eq=False)
class Lint(FramesResult):
    """Chunks that hurt retrieval.

    Attributes
    ----------
    findings
        One row per finding, by row of the frame: `row` (from 0), `chunk_id`, `kind` (empty,
        near_empty, tiny, giant, missing_id, duplicate_id, duplicate, near_duplicate,
        control_characters, byte_order_mark), `value` (characters; members of the duplicate group;
        similarity; control characters) and `other` (chunk id, else row, of the first
        duplicate, or of the near duplicate; empty elsewhere). Every member of a group of duplicates
        is a finding; of a pair of near duplicates the later one.
    summary
        One row per kind: `n` findings, `share` of the chunks, and `is_warning`.
    """

    summary: pd.DataFrame
    findings: pd.DataFrame

    def _heading(self) -> str:
        return f"Chunk lint: {plural(len(self.findings), 'finding')}"


def lint_chunks(
    chunks: pd.DataFrame,
    *,
    min_chars: int = 32,
    max_chars: int = 4096,
    near_empty: int = 4,
    max_tiny: float = 0.10,
    near_duplicates: float | None = None,
    shingle: int = 5,
) -> Lint:
    """Find chunks that hurt retrieval.

    Parameters
    ----------
    chunks
        `text`, and `chunk_id` if there are ids; a frame such as `results.chunks`.
    min_chars, max_chars, near_empty
        Characters: fewer than `min_chars`, more than `max_chars`, at most `near_empty` (but some).
    max_tiny
        The share of tiny chunks above which they are a warning; a few are normal.
    near_duplicates
        Jaccard similarity of word shingles from which two chunks are near duplicates, such as
        0.85; None skips this check. Chunks of the same words,
        which differ in case or punctuation at most, are no near duplicates of each other: only the
        first of them is compared with others.
    shingle
        Words in a shingle.

    Raises
    ------
    DataError
        There is no column `text`, or a limit is not in its range.
    """
    check_type(chunks, pd.DataFrame, "chunks")
    if "text" not in chunks:
        raise DataError(
            "no column text",
            field="chunks",
            allowed=f"chunks with their texts; found {', '.join(map(str, chunks.columns))}",
        )
    if (near_duplicates is not None and not 0 < near_duplicates <= 1) or shingle < 1:
        raise DataError(
            f"found {near_duplicates}, {shingle}",
            field="near_duplicates, shingle",
            allowed="a similarity above 0 and up to 1, and at least one word",
        )
    text = chunks["text"].astype("str").fillna("").reset_index(drop=True)
    ids = chunks.reindex(columns=["chunk_id"])["chunk_id"].astype("str").reset_index(drop=True)
    has_no_id = (ids.isna() | (ids == "").fillna(False)).astype(bool)
    # a chunk without an id is named by its row
    names = ids.mask(has_no_id, pd.Series(ids.index.astype("str"))).to_numpy(dtype=object)
    size = text.str.len().to_numpy(dtype="int64")
    n_control, n_marks = text.str.count(CONTROL), text.str.count("\ufeff")
    first = pd.Series(text.index).groupby(text.to_numpy(dtype=object)).transform("first")
    parts = [
        _findings("empty", size == 0, size),
        _findings("near_empty", (size > 0) & (size <= near_empty), size),
        _findings("tiny", (size > 0) & (size < min_chars), size),
        _findings("giant", size > max_chars, size),
        _findings("missing_id", has_no_id, np.nan),
        _findings(
            "duplicate_id", ids.duplicated(keep=False) & ~has_no_id, ids.map(ids.value_counts())
        ),
        _findings(
            "duplicate",
            text.duplicated(keep=False) & (size > 0),
            text.map(text.value_counts()),
            names[first],
        ),
        _findings("control_characters", n_control > 0, n_control),
        _findings("byte_order_mark", n_marks > 0, n_marks),
    ]
    if near_duplicates is not None:
        parts.append(_near_duplicates(text, names, near_duplicates, shingle))
    findings = pd.concat(parts, ignore_index=True).sort_values(
        ["row", "kind"], kind="stable", ignore_index=True
    )
    findings = findings.astype({"row": "int64", "kind": "str", "other": "str"})
    findings.insert(1, "chunk_id", ids.iloc[findings["row"]].to_numpy())
    n = findings["kind"].value_counts().reindex(list(KINDS), fill_value=0).to_numpy("int64")
    share = n / len(text) if len(text) else np.full(len(KINDS), np.nan)
    is_warning = np.where(np.array(KINDS) == "tiny", share > max_tiny, n > 0)
    summary = pd.DataFrame(
        {"kind": pd.Series(KINDS, dtype="str"), "n": n, "share": share, "is_warning": is_warning}
    )
    return Lint(summary, findings)


def _findings(
    kind: str,
    flags: Flags | pd.Series,
    values: npt.ArrayLike | float,
    others: npt.NDArray[np.object_] | None = None,
) -> pd.DataFrame:
    """One row per flagged chunk."""
    rows = np.flatnonzero(np.asarray(flags, dtype=bool))
    return pd.DataFrame(
        {
            "row": rows,
            "kind": pd.Categorical([kind] * len(rows), categories=list(KINDS), ordered=True),
            "value": np.broadcast_to(np.asarray(values, dtype="float64"), len(flags))[rows],
            "other": np.full(len(rows), "", dtype=object) if others is None else others[rows],
        }
    )


def _near_duplicates(
    text: pd.Series, names: npt.NDArray[np.object_], similarity: float, shingle: int
) -> pd.DataFrame:
    """Find the later chunk of every pair whose shingles are similar enough (Jaccard).

    Of several pairs with an earlier chunk the most similar counts, then the earliest.
    """
    words = pd.Series([re.findall(r"[^\W_]+", chunk.lower()) for chunk in text], dtype=object)
    # chunks of the same words once: a footer that occurs a thousand times is one
    joined = words.str.join(" ")
    distinct = words[joined.ne("") & ~joined.duplicated()]
    shingles = distinct.map(lambda own: {
        " ".join(own[at : at + shingle]) for at in range(max(len(own) - shingle, 0) + 1)
    })  # fmt: skip
    listed = shingles.map(sorted).explode().rename("shingle").rename_axis("row").reset_index()
    listed["n_with"] = listed.groupby("shingle")["row"].transform("size")
    listed = listed.sort_values(["row", "n_with", "shingle"])
    of_row = listed.groupby("row")["shingle"]
    # two that are so similar share one of their rarest shingles (Bayardo, Ma & Srikant 2007)
    least = np.ceil(similarity * of_row.transform("size") - 1e-9)
    rarest = listed.loc[of_row.cumcount() <= of_row.transform("size") - least, ["row", "shingle"]]
    pairs = rarest.merge(rarest, on="shingle", suffixes=("", "_first")).query("row_first < row")
    pairs = pairs[["row", "row_first"]].drop_duplicates()
    both = [len(shingles[a] & shingles[b]) for a, b in pairs.itertuples(index=False)]
    either = [len(shingles[a] | shingles[b]) for a, b in pairs.itertuples(index=False)]
    pairs["value"] = np.array(both, dtype="float64") / np.array(either, dtype="float64")
    best = pairs[pairs["value"] >= similarity - 1e-9].sort_values(
        ["row", "value", "row_first"], ascending=[True, False, True]
    )
    best = best.drop_duplicates("row").set_index("row").reindex(text.index)
    first = best["row_first"].fillna(0).astype("int64")
    others = names[first] if len(names) else names
    return _findings("near_duplicate", best["value"].notna(), best["value"], others)


HOSTS = ("api01", "api02", "queue01", "store01", "proxy01")
USERS = ("ada", "ben", "cleo", "dan", "eva", "finn")
EVENTS = (
    "request served",
    "session closed",
    "backup finished",
    "index rotated",
    "lease renewed",
    "queue drained",
)


class NeedleSet(NamedTuple):
    """Queries for hidden tokens (`golden`) and the corpus that holds them (`chunks`)."""

    golden: Golden
    chunks: pd.DataFrame


def needle_set(
    docs: int = 8,
    lines: int = 200,
    needles: int = 12,
    seed: int = 1,
    *,
    lines_per_chunk: int = 20,
) -> NeedleSet:
    """Make a needle-in-a-haystack set; the same arguments always give the same set.

    Parameters
    ----------
    docs, lines
        Documents, and lines in each; at least 1 of both (0 counts as 1). A needle is one more line.
    needles
        Number of queries; each asks for a token in one line of one document.
    lines_per_chunk
        Lines per chunk.

    Returns
    -------
    `golden`: queries `needle-0000`, ...; the query is the token (`IOC-<seed>-<number>`), the one
    target is its document, grade 1. `chunks`: chunk_id, doc_id (`doc-000`, ...), path, start, end
    (lines from 1, half-open), span_unit, text.
    """
    docs, lines = max(docs, 1), max(lines, 1)
    needles, step = max(needles, 0), max(lines_per_chunk, 1)
    rng = np.random.default_rng(seed)
    hidden = pd.DataFrame({
        "doc": rng.integers(docs, size=needles), "line": rng.integers(lines, size=needles),
        "token": [f"IOC-{seed:08x}-{number:04d}" for number in range(needles)],
    })  # fmt: skip
    doc, line = (axis.ravel() for axis in np.indices((docs, lines)))
    host, user, event = (
        np.array(words)[rng.integers(len(words), size=len(doc))] for words in (HOSTS, USERS, EVENTS)
    )
    second = (1_700_000_000 + doc * 100_000 + line).astype("str")
    head = pd.Series(second) + " host=" + host + " user=" + user + " event="
    plain = pd.DataFrame({"doc": doc, "line": line, "head": head, "text": head + '"' + event + '"'})
    # each needle follows the plain line that it is anchored to
    alert = hidden.merge(plain, on=["doc", "line"])
    alert = alert.assign(text=alert["head"] + '"alert" indicator=' + alert["token"])
    listed = pd.concat([plain, alert]).sort_values(["doc", "line"], kind="stable")
    listed["start"] = listed.groupby("doc").cumcount() + 1
    of_chunk = listed.groupby(["doc", (listed["start"] - 1) // step])
    chunks = of_chunk.agg(start=("start", "min"), end=("start", "max"), text=("text", "\n".join))
    doc_id, needle_doc = (
        "doc-" + pd.Series(one).astype("str").str.zfill(3)
        for one in (chunks.index.get_level_values("doc"), hidden["doc"])
    )
    chunks = chunks.reset_index(drop=True).assign(
        chunk_id=doc_id + "#" + chunks["start"].astype("str").to_numpy(), doc_id=doc_id,
        path=doc_id + ".log", end=chunks["end"].to_numpy() + 1, span_unit="line",
    )  # fmt: skip
    ids = [f"needle-{number:04d}" for number in range(needles)]
    queries = pd.DataFrame({
        "query_id": ids, "query": hidden["token"], "answerable": True, "position": range(needles),
    })  # fmt: skip
    targets = pd.DataFrame({
        "query_id": ids, "level": "doc", "target_id": needle_doc, "alternative": 0, "grade": 1,
        "doc_id": needle_doc,
    })  # fmt: skip
    return NeedleSet(Golden(queries=queries, targets=targets), conform(chunks, "chunks"))

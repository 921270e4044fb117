"""Synthetic golden set with its corpus: rare tokens hidden in plain log lines.

Tests and benchmarks use it instead of files. Out: a `Golden` and a chunks frame over the same
documents, both determined by the seed.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ragscore.frames.data import Golden, conform

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
LINES_PER_CHUNK = 20


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
    lines_per_chunk: int = LINES_PER_CHUNK,
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
    doc_of, line_of = rng.integers(docs, size=needles), rng.integers(lines, size=needles)
    tokens = [f"IOC-{seed:08x}-{number:04d}" for number in range(needles)]
    texts = []
    for doc in range(docs):
        of_doc = [(int(line_of[n]), tokens[n]) for n in np.flatnonzero(doc_of == doc)]
        texts.append(_lines(doc, lines, of_doc, rng))
    chunks = [
        {
            "chunk_id": f"{_doc_id(doc)}#{start + 1}",
            "doc_id": _doc_id(doc),
            "path": f"{_doc_id(doc)}.log",
            "start": start + 1,
            "end": min(start + step, len(text)) + 1,
            "span_unit": "line",
            "text": "\n".join(text[start : start + step]),
        }
        for doc, text in enumerate(texts)
        for start in range(0, len(text), step)
    ]
    golden = _golden(tokens, [_doc_id(int(doc)) for doc in doc_of])
    return NeedleSet(golden, conform(pd.DataFrame(chunks), "chunks"))


def _doc_id(doc: int) -> str:
    return f"doc-{doc:03d}"


def _lines(
    doc: int, n_lines: int, needles: list[tuple[int, str]], rng: np.random.Generator
) -> list[str]:
    """Return the lines of a document; each needle follows the plain line it is anchored to."""
    picks = [rng.integers(len(words), size=n_lines) for words in (HOSTS, USERS, EVENTS)]
    texts: list[str] = []
    for number, (host, user, event) in enumerate(zip(*picks, strict=True)):
        start = f"{1_700_000_000 + doc * 100_000 + number} host={HOSTS[host]} user={USERS[user]}"
        texts.append(f'{start} event="{EVENTS[event]}"')
        texts += [
            f'{start} event="alert" indicator={token}' for line, token in needles if line == number
        ]
    return texts


def _golden(tokens: list[str], doc_ids: list[str]) -> Golden:
    query_ids = [f"needle-{number:04d}" for number in range(len(tokens))]
    queries = pd.DataFrame(
        {"query_id": query_ids, "query": tokens, "answerable": True, "position": range(len(tokens))}
    )
    targets = pd.DataFrame({
        "query_id": query_ids, "level": "doc", "target_id": doc_ids, "alternative": 0, "grade": 1,
        "doc_id": doc_ids,
    })  # fmt: skip
    return Golden(queries=queries, targets=targets)

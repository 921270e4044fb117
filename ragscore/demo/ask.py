"""The demo's systems as systems under test, for `ragscore run bm25` and `demo --serve`.

They are asked one query at a time.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from ragscore.collecting.systems import AskError, Request, System
from ragscore.demo.answerer import Familiarity, answer
from ragscore.demo.corpus import build_corpus, chunker_version
from ragscore.demo.retrievers import SYSTEMS, Chosen, Index, system_config
from ragscore.demo.run import K, answerer_config, progress, ranked_hits
from ragscore.frames.data import DataError
from ragscore.frames.errors import check_known

REFUSE_BELOW = -0.0488  # tuned for the committed runs on half of the queries, all four systems
FILTERS = ("doc_type", "doc_id", "path", "heading", "chunk_id")  # columns of the passages
TAKES = frozenset(("k", "with_answer", "filters", "folders"))


def demo_system(name: str, cache: Path) -> System:
    """Return one of the demo's systems over the manuals of this machine, its index built.

    Vectors are stored in `cache`. The system takes `k` (10), `with_answer`, `filters` (`doc_type`,
    which is the library, `doc_id`, `path`, `heading` or `chunk_id`: a text, or a list of them) and
    `folders` (`pandas`, `pandas.DataFrame`: names that begin so), and reports its configuration.

    Raises
    ------
    DataError
        No system of the demo has this name.
    """
    check_known(name, SYSTEMS, "system", "system")
    return systems_over(demo_index(cache), chunker_version(), [name])[name]


def demo_index(cache: Path) -> Index:
    """Return the index of the manuals of this machine."""
    return Index(build_corpus()[1], cache, progress=progress)


def systems_over(index: Index, version: str, names: Iterable[str] = SYSTEMS) -> dict[str, System]:
    """Return systems of the demo over one index, with all that they need built.

    `version` is the chunker's.
    """
    chosen = list(names)
    check_known(chosen, SYSTEMS, "system", "system")
    read = Familiarity(index)
    for name in chosen:
        # What is built on first use is built now, before the first query is timed.
        index.search(name, "warm up", 1)
    return {
        name: System(
            name,
            partial(_ask, index, read, version, name),
            {"kind": "demo", "retriever": name},
            takes=TAKES,
        )
        for name in chosen
    }


def _ask(
    index: Index,
    read: Familiarity,
    version: str,
    name: str,
    request: Request,
    seconds: float | None,
) -> dict[str, Any]:
    started = perf_counter()
    among = _among(index.chunks, request)
    latency = {} if among is None else {"folder_selection_ms": _since(started)}
    started = perf_counter()
    k = int(request.get("k", K))
    ranking = index.search(name, request["query"], k, among)
    latency["retrieval_ms"] = _since(started)
    config = {
        key: value
        for key, value in system_config(name, k, version, index.settings).items()
        if key != "retriever"
    }
    found = {
        "hits": [_own(hit) for hit in ranked_hits(ranking, index.chunks)],
        "mode": name,
        "latency": latency,
        "config": config,
    }
    if request.get("folders"):
        found["scope"] = {
            "folders": request["folders"],
            "available": sorted(index.chunks["doc_type"].unique()),
        }
    if request.get("with_answer") is False:
        return found
    started = perf_counter()
    known = read.of(request["query"], ranking)
    given, citations = answer(ranking, index.chunks, known < REFUSE_BELOW)
    latency["generation_ms"] = _since(started)
    config["answerer"] = answerer_config(REFUSE_BELOW)
    return (
        found
        | given
        | {
            "citations": [_own(citation) for citation in citations],
            "familiarity": round(float(known), 4),
        }
    )


def _since(started: float) -> float:
    """Return the milliseconds since then."""
    return 1000 * (perf_counter() - started)


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """Return a hit or citation with the fields of a record, whose position is its place."""
    return {
        key: value for key, value in row.items() if key != "position" and not key.startswith("x_")
    }


def _among(chunks: pd.DataFrame, request: Request) -> Chosen | None:
    """Flag the passages that pass the request's filters and folders; None if there are none."""
    filters, folders = request.get("filters") or {}, request.get("folders") or []
    if not filters and not folders:
        return None
    chosen = np.ones(len(chunks), dtype=bool)
    for name, value in filters.items():
        chosen &= chunks[_column(name)].isin(_texts(value, f"filters.{name}")).to_numpy()
    if folders:
        names = _texts(folders, "folders")
        inside = chunks["path"].isin(names) | chunks["path"].str.startswith(
            tuple(f"{one}." for one in names)
        )
        chosen &= inside.to_numpy()
    return chosen


def _column(name: str) -> str:
    if name not in FILTERS:
        raise _refused(
            DataError(
                "no such field of a passage",
                field=f"filters.{name}",
                allowed=f"one of {', '.join(FILTERS)}",
            )
        )
    return name


def _texts(value: Any, field: str) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in texts):
        raise _refused(
            DataError(f"found {value!r}", field=field, allowed="a text, or a list of texts")
        )
    return texts


def _refused(error: DataError) -> AskError:
    """Return the error of a request that can't be answered; it doesn't stop the run."""
    found = AskError(str(error))
    found.__cause__ = error
    return found

"""The demo's systems as systems under test.

Asked one question at a time, as `ragscore run bm25` and `ragscore demo --serve` do.
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

REFUSE_BELOW = -0.0488  # as tuned for the committed runs: half of their questions, all four systems
FILTERS = ("doc_type", "doc_id", "path", "heading", "chunk_id")  # columns of the passages
TAKES = frozenset(("k", "with_answer", "filters", "folders"))


def demo_system(name: str, cache: Path) -> System:
    """One of the demo's systems over the manuals of this machine, its index built.

    Vectors are kept in `cache`.

    It can be told `k` (10), `with_answer`, `filters` (`doc_type`, which is the library, `doc_id`,
    `path`, `heading` or `chunk_id`: a text, or a list of them) and `folders` (`pandas`,
    `pandas.DataFrame`: names that begin so), and reports its configuration.

    Raises
    ------
    DataError
        No system of the demo has this name.
    """
    _check_known([name])
    return systems_over(demo_index(cache), chunker_version(), [name])[name]


def demo_index(cache: Path) -> Index:
    """The manuals of this machine, to be searched."""
    return Index(build_corpus()[1], cache, progress=progress)


def systems_over(index: Index, version: str, names: Iterable[str] = SYSTEMS) -> dict[str, System]:
    """Systems of the demo over one index, all that they need built.

    `version` is that of the chunker.
    """
    chosen = list(names)
    _check_known(chosen)
    read = Familiarity(index)
    for name in chosen:
        # whatever is built at first use is built before the first question's clock starts
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


def _check_known(names: Iterable[str]) -> None:
    if unknown := [name for name in names if name not in SYSTEMS]:
        raise DataError(
            f"found {unknown[0]!r}", field="system", allowed=f"one of {', '.join(SYSTEMS)}"
        )


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
    """Milliseconds."""
    return 1000 * (perf_counter() - started)


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """A hit or citation with the fields of a record.

    Its place in a list is its position, its span has a unit.
    """
    return {
        key: value for key, value in row.items() if key != "position" and not key.startswith("x_")
    }


def _among(chunks: pd.DataFrame, request: Request) -> Chosen | None:
    """The passages that the request's filters and folders leave; None: all of them."""
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
    """A question that can't be asked like this: its error, and no reason to stop a run."""
    found = AskError(str(error))
    found.__cause__ = error
    return found

"""Write results and golden sets in any format that has a writer: `results.save`, `golden.save`.

The two tables below are the only place that knows all writers. Their names are those of `load.py`.
"""

import os
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import DataError, excerpt, nearest
from ragscore.io.formats.beir import write_beir, write_qrels_jsonl
from ragscore.io.formats.chatbot import write_chatbot
from ragscore.io.formats.chatbot_golden import write_chatbot_golden
from ragscore.io.formats.json_run import write_json_qrels, write_json_run
from ragscore.io.formats.metric_report import write_report
from ragscore.io.formats.predicates import write_predicates
from ragscore.io.formats.ragchecker import write_ragchecker
from ragscore.io.formats.retrievers import write_retrievers
from ragscore.io.formats.trec import write_trec_qrels, write_trec_run
from ragscore.io.formats.trec_rag import write_trec_rag
from ragscore.io.golden_write import write_golden
from ragscore.io.output import warn_of_left_out
from ragscore.io.per_query_write import write_per_query

Writer = Callable[..., Path]

RESULT_WRITERS: dict[str, Writer] = {
    "per_query": write_per_query,
    "trec": write_trec_run,
    "json_run": write_json_run,
    "chatbot": write_chatbot,
    "ragchecker": write_ragchecker,
    "retrievers": write_retrievers,
    "trec_rag": write_trec_rag,
    "metric_report": write_report,
}
GOLDEN_WRITERS: dict[str, Writer] = {
    "golden": write_golden,
    "trec_qrels": write_trec_qrels,
    "json_qrels": write_json_qrels,
    "qrels_jsonl": write_qrels_jsonl,
    "beir": write_beir,
    "chatbot": write_chatbot_golden,
    "predicates": write_predicates,
}
RESULT_SUFFIXES = {".jsonl": "per_query", ".trec": "trec", ".run": "trec"}
GOLDEN_SUFFIXES = {
    ".yaml": "golden", ".yml": "golden", ".jsonl": "golden", ".qrels": "trec_qrels",
}  # fmt: skip


def save_results(
    results: Results, path: str | os.PathLike[str], format: str | None = None, **options: Any
) -> Path:
    """Write results to a file or folder, as `rs.load_results` reads it again.

    Parameters
    ----------
    path
        Its ending names the format: .jsonl our run file (one run), .trec or .run a TREC run. Each
        may end in .gz.
    format
        per_query, trec, json_run, chatbot, ragchecker, retrievers, trec_rag or metric_report.
        Needed only if the ending doesn't tell.
    options
        What the format's writer in `rs.io` takes, such as `level="chunk"` for trec.

    Returns
    -------
    The path that was written.

    Raises
    ------
    DataError
        An unknown format or option; content that the format can't hold.

    Warns
    -----
    UserWarning
        Counts what the format has no place for.
    """
    return _save(results, path, format, RESULT_WRITERS, RESULT_SUFFIXES, options)


def save_golden(
    golden: Golden, path: str | os.PathLike[str], format: str | None = None, **options: Any
) -> Path:
    """Write a golden set to a file or folder, as `rs.load_golden` reads it again.

    Parameters
    ----------
    path
        Its ending names the format: .yaml or .jsonl our golden file, .qrels TREC judgements. Each
        may end in .gz.
    format
        golden, trec_qrels, json_qrels, qrels_jsonl, beir, chatbot or predicates. Needed only if the
        ending doesn't tell.
    options
        What the format's writer in `rs.io` takes, such as `level="chunk"` for trec_qrels.

    Returns
    -------
    The path that was written.

    Raises
    ------
    DataError
        An unknown format or option; content that the format can't hold.

    Warns
    -----
    UserWarning
        Counts what the format has no place for.
    """
    written = _save(golden, path, format, GOLDEN_WRITERS, GOLDEN_SUFFIXES, options)
    if format not in (None, "golden") or GOLDEN_SUFFIXES[_suffix(written)] != "golden":
        warn_of_left_out(written, {"declared rules": len(golden.rules)})
    return written


def _save(
    data: Results | Golden,
    path: str | os.PathLike[str],
    format: str | None,
    writers: Mapping[str, Writer],
    suffixes: Mapping[str, str],
    options: dict[str, Any],
) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise DataError(f"found {type(path).__name__}", field="path", allowed="a path")
    name = format if format is not None else suffixes.get(_suffix(Path(path)))
    if not isinstance(name, str) or name not in writers:
        known = f"format=, one of {', '.join(writers)}"
        endings = f"or a path that ends in {', '.join(suffixes)}"
        if name is None:
            raise DataError(
                f"{path} doesn't tell the format", field="format", allowed=f"{known}; {endings}"
            )
        raise DataError(
            f"unknown format {excerpt(name)}", field="format", allowed=nearest(name, writers)
        )
    unknown = sorted(options.keys() - set(_options(writers[name])))
    if unknown:
        raise DataError(
            f"{unknown[0]}={options[unknown[0]]!r} means nothing in format {name}",
            field=unknown[0],
            allowed=f"one of {', '.join(_options(writers[name])) or 'no options'}",
        )
    return writers[name](data, os.fspath(path), **options)


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _options(writer: Writer) -> tuple[str, ...]:
    """Return the parameters of a writer after the data and the path."""
    return tuple(signature(writer).parameters)[2:]

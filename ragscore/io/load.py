"""Files -> frames.

One reader per format; every one ends in frames or in one `DataError` with file and line.
"""

import os
from collections import Counter
from glob import glob, has_magic
from pathlib import Path

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, concat_results
from ragscore.frames.errors import warn
from ragscore.frames.ranking import TIES, rank_hits, ranked_again
from ragscore.io.detect import Format, choose_format
from ragscore.io.formats.beir import read_beir, read_qrels_jsonl, write_beir, write_qrels_jsonl
from ragscore.io.formats.chatbot import read_chatbot, write_chatbot
from ragscore.io.formats.chatbot_golden import read_chatbot_golden, write_chatbot_golden
from ragscore.io.formats.json_run import (
    is_json_run,
    read_json_qrels,
    read_json_run,
    write_json_qrels,
    write_json_run,
)
from ragscore.io.formats.metric_report import is_report, read_report, write_report
from ragscore.io.formats.predicates import fits_golden, read_predicates, write_predicates
from ragscore.io.formats.ragchecker import fits as fits_ragchecker
from ragscore.io.formats.ragchecker import read_ragchecker, read_ragchecker_golden, write_ragchecker
from ragscore.io.formats.retrievers import (
    fits_results,
    read_retrievers,
    write_retriever_summary,
    write_retrievers,
)
from ragscore.io.formats.trec import (
    is_qrels,
    is_run,
    named_by_file,
    read_qrels,
    read_run,
    write_trec_qrels,
    write_trec_run,
)
from ragscore.io.formats.trec_rag import read_trec_rag, write_trec_rag
from ragscore.io.golden_read import KNOWN_FIELDS, read_golden
from ragscore.io.golden_write import write_golden
from ragscore.io.per_query import read_per_query, read_sqlite
from ragscore.io.per_query_write import write_per_query
from ragscore.io.record import RECORD_FIELDS
from ragscore.io.sidecars import load_documents, run_description, write_judgments
from ragscore.io.tools.ragas import to_ragas
from ragscore.io.tools.registry import golden_formats, import_results, load_table, result_formats

__all__ = [
    "import_results",
    "load_documents",
    "load_golden",
    "load_results",
    "load_table",
    "run_description",
    "to_ragas",
    "write_beir",
    "write_chatbot",
    "write_chatbot_golden",
    "write_golden",
    "write_json_qrels",
    "write_json_run",
    "write_judgments",
    "write_per_query",
    "write_predicates",
    "write_qrels_jsonl",
    "write_ragchecker",
    "write_report",
    "write_retriever_summary",
    "write_retrievers",
    "write_trec_qrels",
    "write_trec_rag",
    "write_trec_run",
]

GOLDEN_VARIABLE = "RAGSCORE_GOLDEN"
Paths = str | os.PathLike[str] | list[str] | list[Path]

# Our own format first, then one line a format: what `fits` sees is a sample of the file; a file
# that fits several is refused, so keep them apart.
GOLDEN_FORMATS = [
    Format(
        "ragscore",
        lambda seen: (
            seen.kind == "yaml" or (seen.kind in ("jsonl", "json") and seen.has("id", "query"))
        ),
        read_golden,
        fields=KNOWN_FIELDS,
    ),
    Format(
        "qrels_jsonl",
        lambda seen: seen.kind in ("jsonl", "json") and seen.has("relevant_docs"),
        read_qrels_jsonl,
    ),
    Format("trec_qrels", is_qrels, read_qrels, options=("topics",)),
    Format(
        "beir",
        lambda seen: seen.kind == "folder" and seen.has("queries.jsonl", "qrels"),
        read_beir,
        options=("split",),
    ),
    Format("json_qrels", is_json_run, read_json_qrels),
    Format("predicates", fits_golden, read_predicates),
    Format("ragchecker", fits_ragchecker, read_ragchecker_golden),
    Format(
        "chatbot",
        lambda seen: (
            seen.kind == "jsonl"
            and seen.has("id", "question")
            and bool(seen.keys & {"gold_supports", "expected_key_facts"})
        ),
        read_chatbot_golden,
    ),
    *golden_formats(),
]
RESULT_FORMATS = [
    Format(
        "per_query",
        lambda seen: (
            seen.kind in ("jsonl", "json")
            and seen.has("query_id")
            and not (seen.keys & {"retrieved", "ranked"} or fits_results(seen))
        ),
        read_per_query,
        fields=RECORD_FIELDS,
    ),
    Format(
        "chatbot",
        lambda seen: seen.kind == "jsonl" and seen.has("test_case_id", "retrieved_chunks"),
        read_chatbot,
    ),
    Format("retrievers", fits_results, read_retrievers),
    Format(
        "trec_rag",
        lambda seen: seen.kind == "jsonl" and seen.has("topic_id", "references", "answer"),
        read_trec_rag,
    ),
    Format("ragchecker", fits_ragchecker, read_ragchecker),
    Format("sqlite", lambda seen: seen.kind == "sqlite", read_sqlite),
    Format("trec_run", is_run, read_run, options=("ties",), apart=named_by_file),
    Format("report", is_report, read_report),
    Format("json_run", is_json_run, read_json_run, options=("ties",)),
    *result_formats(),
]


def load_golden(
    path: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    strict: bool = True,
    absent_docs: str = "unlabelled",
    catalogue: pd.DataFrame | None = None,
    topics: str | os.PathLike[str] | None = None,
    split: str | None = None,
) -> Golden:
    """Load a golden file: questions, what answers them, and which of them should be refused.

    Parameters
    ----------
    path
        YAML list or JSON lines; graded judgements as JSON lines (`relevant_docs`), TREC qrels (also
        .gz) or a BEIR folder. Without it, the file that the environment variable RAGSCORE_GOLDEN
        names.
    format
        The name of a format, where the content doesn't tell it.
    strict
        False loads what can be loaded and returns the rest as `golden.problems`.
    absent_docs
        How to read a row without expected documents: "unlabelled" (only `answerable: false`, or an
        empty `expected_doc_ids` without other targets, means "should refuse") or "refuse" (the
        older reading: no document expected means "should refuse").
    catalogue
        A frame with `chunk_id` and / or `doc_id`, such as `results.chunks`: expected ids must be in
        it.
    topics
        For TREC qrels: the file with the questions' texts (TREC topics, id and text apart by a tab,
        or JSON lines). Without it a question's text is its id.
    split
        For a BEIR folder: which of its qrels files; not needed if there is only one.

    Raises
    ------
    DataError
        File, line, field, what was found and what is allowed: unreadable files, duplicate ids (all
        of them, sorted), paraphrase groups whose members expect different documents, ids that the
        catalogue doesn't know.

    Warns
    -----
    UserWarning
        Some questions carry no expectation at all: they are unlabelled, not "should refuse". A
        field that isn't known resembles one that is (it is kept as `x_<name>`). Judgements with a
        negative grade ("not judged") are left out.
    """
    if absent_docs not in ("unlabelled", "refuse"):
        raise DataError(
            f"found {absent_docs!r}", field="absent_docs", allowed="'unlabelled' or 'refuse'"
        )
    chosen = path if path is not None else os.environ.get(GOLDEN_VARIABLE)
    _check_path(
        chosen,
        (str, os.PathLike, type(None)),
        "path",
        f"a path, or nothing and the environment variable {GOLDEN_VARIABLE}",
    )
    if not chosen:
        raise DataError(
            "no golden file given",
            field="path",
            allowed=f"a path, or the environment variable {GOLDEN_VARIABLE}",
        )
    file = Path(chosen)
    _check_exists([file])
    found = choose_format(file, GOLDEN_FORMATS, format, "golden files")
    golden: Golden = found.read(
        file,
        strict,
        absent_docs,
        catalogue,
        **found.understood({"topics": topics, "split": split}, file),
    )
    judged = golden.checks.loc[
        is_among(golden.checks["kind"], ["expected_empty", "forbidden_source_key"]), "query_id"
    ]
    n_unlabelled = int(
        (golden.queries["answerable"].isna() & ~is_among(golden.queries["query_id"], judged)).sum()
    )
    if n_unlabelled:
        text = (
            f"{chosen}: {n_unlabelled} of {len(golden.queries)} queries carry no expectation; they"
            " are unlabelled and only absent_docs='refuse' reads them as should-refuse"
        )
        warn(text)
    return golden


def load_results(
    paths: Paths, *, format: str | None = None, strict: bool = True, ties: str = "file"
) -> Results:
    """Load one or many runs.

    Read are `per_query.jsonl` files (with `run.json` beside them), kebab's SQLite file, TREC run
    files (also .gz), JSON objects {query: {document: score}}, and metric reports (`metrics` with
    `per_query`: they give `reported` values and no hits).

    A TREC run is named by its tag, or by its file where another file has the same tag.

    Parameters
    ----------
    paths
        A file, a folder that holds `per_query.jsonl` (or folders that do), a glob pattern, or a
        list of these. Runs keep this order; a pattern's files are sorted by name.
    format
        The name of a format, where the content doesn't tell it.
    strict
        False loads what can be loaded and returns the rest as `results.problems`.
    ties
        "file": the stored rank, else list order. "trec": every list is ranked anew as trec_eval
        does; see `rs.rank_hits`.

    Raises
    ------
    DataError
        Nothing found, an unreadable file, a bad record (file, line, field), the same run_id twice.

    Warns
    -----
    UserWarning
        The ranks of a TREC run start at 0: they are moved up by one. A field of a run file that
        isn't known resembles one that is (it is kept as `x_<name>`).
    """
    if ties not in TIES:
        raise DataError(f"found {ties!r}", field="ties", allowed=f"one of {', '.join(TIES)}")
    files = _files(paths)
    formats = [choose_format(file, RESULT_FORMATS, format, "results") for file in files]
    parts: list[Results] = []
    # no comprehension: warnings name the caller by counting frames
    for file, found in zip(files, formats, strict=True):
        parts.append(_read_run(file, found, strict, ties))
    twice = _named_twice(parts)
    parts = [
        found.apart(file, part) if found.apart is not None and twice & _names(part) else part
        for file, found, part in zip(files, formats, parts, strict=True)
    ]
    twice = _named_twice(parts)
    if twice:
        raise DataError(
            f"{', '.join(sorted(twice))} named by more than one file",
            field="run_id",
            allowed="one file per run; name runs in run.json",
        )
    return parts[0] if len(parts) == 1 else concat_results(parts)


def record_file(path: str | os.PathLike[str], format: str | None = None) -> Path | None:
    """The file of one run, if it is our own run file, which can be read block by block (`begin_run`, `stream_per_query`); None for any other format.

    Raises
    ------
    DataError
        As `load_results`: nothing found, or a format that isn't known. More than one file.
    """
    _check_path(path, (str, os.PathLike), "path", "the path of one run")
    files = _files(path)
    if len(files) > 1:
        raise DataError(
            f"{path} holds {len(files)} runs",
            field="path",
            allowed=f"one run at a time, such as {files[0]}",
        )
    return (
        files[0]
        if choose_format(files[0], RESULT_FORMATS, format, "results").read is read_per_query
        else None
    )


def _read_run(file: Path, found: Format, strict: bool, ties: str) -> Results:
    if "ties" in found.options:
        return found.read(file, strict, ties=ties)
    results: Results = found.read(file, strict)
    return results if ties == "file" else ranked_again(results, rank_hits(results.hits, ties))


def _names(part: Results) -> set[str]:
    return set(part.runs["run_id"].astype("str"))


def _named_twice(parts: list[Results]) -> set[str]:
    """Run ids that more than one part has."""
    return {
        run_id
        for run_id, n in Counter(run_id for part in parts for run_id in _names(part)).items()
        if n > 1
    }


def _files(paths: Paths) -> list[Path]:
    allowed = "a path or pattern, or a list of these"
    _check_path(paths, (str, os.PathLike, list, tuple), "paths", allowed)
    given: list[str | os.PathLike[str]] = (
        [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    )
    found: list[Path] = []
    for path in given:
        _check_path(path, (str, os.PathLike), "paths", allowed)
        matches: list[str] = (
            sorted(glob(str(path)))
            if has_magic(str(path)) and not Path(path).exists()
            else [str(path)]
        )
        if not matches:
            raise DataError(f"no file matches {path}", field="paths")
        found += [file for one in matches for file in _files_of(Path(one))]
    if not found:
        raise DataError("no file given", field="paths")
    _check_exists(found)
    return found


def _check_exists(files: list[Path]) -> None:
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        raise DataError(f"no such file: {', '.join(missing)}", field="paths")


def _check_path(given: object, types: tuple[type, ...], field: str, allowed: str) -> None:
    if not isinstance(given, types):
        raise DataError(f"found {given!r}", field=field, allowed=allowed)


RUN_FILES = ("per_query.jsonl", "results.jsonl")


def _files_of(path: Path) -> list[Path]:
    """The run file of a folder, or those of the run folders in it.

    A folder without any is looked at as a whole.
    """
    if not path.is_dir():
        return [path]
    own = [path / name for name in RUN_FILES if (path / name).exists()]
    within = sorted(file for name in RUN_FILES for file in path.glob(f"*/{name}"))
    return own or within or [path]

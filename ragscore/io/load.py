"""Load golden sets and results: find the files, tell their format, call its reader.

In: paths, patterns or folders. Out: `Golden` or `Results`, or one `DataError` with file and line.
The two tables of formats below are the only place that knows them all.
"""

import os
from collections import Counter
from glob import glob, has_magic
from pathlib import Path

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_choice, excerpt, warn
from ragscore.frames.ranking import TIES, rank_hits, ranked_again
from ragscore.io.detect import Format, choose_format
from ragscore.io.formats.beir import read_beir, read_qrels_jsonl
from ragscore.io.formats.chatbot import read_chatbot
from ragscore.io.formats.chatbot_golden import read_chatbot_golden
from ragscore.io.formats.json_run import is_json_run, read_json_qrels, read_json_run
from ragscore.io.formats.metric_report import is_report, read_report
from ragscore.io.formats.predicates import fits_golden, read_predicates
from ragscore.io.formats.ragchecker import fits as fits_ragchecker
from ragscore.io.formats.ragchecker import read_ragchecker, read_ragchecker_golden
from ragscore.io.formats.retrievers import fits_results, read_retrievers
from ragscore.io.formats.trec import (
    is_qrels,
    is_run,
    named_by_file,
    read_qrels,
    read_run,
)
from ragscore.io.formats.trec_rag import read_trec_rag
from ragscore.io.golden_read import KNOWN_FIELDS, read_golden
from ragscore.io.per_query import read_per_query, read_sqlite
from ragscore.io.record import RECORD_FIELDS
from ragscore.io.tools.registry import golden_formats, result_formats

GOLDEN_VARIABLE = "RAGSCORE_GOLDEN"
RUN_FILES = ("per_query.jsonl", "results.jsonl")
Paths = str | os.PathLike[str] | list[str] | list[Path]

# Our own format comes first: choose_format falls back to it. A file that fits several formats is
# refused, so keep their tests apart.
GOLDEN_FORMATS = [
    Format(
        "golden",
        lambda sample: (
            sample.kind == "yaml"
            or (sample.kind in ("jsonl", "json") and sample.has("id", "query"))
        ),
        read_golden,
        fields=KNOWN_FIELDS,
    ),
    Format(
        "qrels_jsonl",
        lambda sample: sample.kind in ("jsonl", "json") and sample.has("relevant_docs"),
        read_qrels_jsonl,
    ),
    Format("trec_qrels", is_qrels, read_qrels, options=("topics",)),
    Format(
        "beir",
        lambda sample: sample.kind == "folder" and sample.has("queries.jsonl", "qrels"),
        read_beir,
        options=("split",),
    ),
    Format("json_qrels", is_json_run, read_json_qrels),
    Format("predicates", fits_golden, read_predicates),
    Format("ragchecker", fits_ragchecker, read_ragchecker_golden),
    Format(
        "chatbot",
        lambda sample: (
            sample.kind == "jsonl"
            and sample.has("id", "question")
            and bool(sample.keys & {"gold_supports", "expected_key_facts"})
        ),
        read_chatbot_golden,
    ),
    *golden_formats(),
]
RESULT_FORMATS = [
    Format(
        "per_query",
        lambda sample: (
            sample.kind in ("jsonl", "json")
            and sample.has("query_id")
            and not (sample.keys & {"retrieved", "ranked"} or fits_results(sample))
        ),
        read_per_query,
        fields=RECORD_FIELDS,
    ),
    Format(
        "chatbot",
        lambda sample: sample.kind == "jsonl" and sample.has("test_case_id", "retrieved_chunks"),
        read_chatbot,
    ),
    Format("retrievers", fits_results, read_retrievers),
    Format(
        "trec_rag",
        lambda sample: sample.kind == "jsonl" and sample.has("topic_id", "references", "answer"),
        read_trec_rag,
    ),
    Format("ragchecker", fits_ragchecker, read_ragchecker),
    Format("sqlite", lambda sample: sample.kind == "sqlite", read_sqlite),
    Format("trec", is_run, read_run, options=("ties",), rename_runs=named_by_file),
    Format("metric_report", is_report, read_report),
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
    """Load a golden file: queries, what answers them, and which of them should be refused.

    Parameters
    ----------
    path
        YAML list or JSON lines; graded judgements as JSON lines (`relevant_docs`), TREC qrels (also
        .gz) or a BEIR folder. By default the file that the environment variable RAGSCORE_GOLDEN
        names.
    format
        The name of a format, where the content doesn't tell it.
    strict
        False loads what can be loaded and returns the rest as `golden.problems`.
    absent_docs
        How to read a row without expected documents. "unlabelled": only `answerable: false`, or an
        empty `expected_doc_ids` without other targets, means "should refuse". "refuse" is the older
        reading: no expected document means "should refuse".
    catalogue
        A frame with `chunk_id`, `doc_id` or both, such as `results.chunks`. Expected ids must be in
        it.
    topics
        For TREC qrels: the file with the queries' texts (TREC topics, lines of id, tab and text, or
        JSON lines). Without it a query's text is its id.
    split
        For a BEIR folder: the qrels file to read; not needed if there is only one.

    Raises
    ------
    DataError
        With file, line, field, what was found and what is allowed: unreadable files, duplicate ids
        (all of them, sorted), paraphrase groups whose members expect different documents, ids that
        the catalogue lacks.

    Warns
    -----
    UserWarning
        Some queries carry no expectation at all: they are unlabelled, not "should refuse". An
        unknown field resembles a known one (it is kept as `x_<name>`). Judgements with a negative
        grade ("not judged") are left out.
    """
    if absent_docs not in ("unlabelled", "refuse"):
        raise DataError(
            f"found {absent_docs!r}", field="absent_docs", allowed="'unlabelled' or 'refuse'"
        )
    chosen = path if path is not None else os.environ.get(GOLDEN_VARIABLE)
    variable = f"the environment variable {GOLDEN_VARIABLE}"
    _check_path(
        chosen, (str, os.PathLike, type(None)), "path", f"a path, or nothing and {variable}"
    )
    if not chosen:
        raise DataError("no golden file given", field="path", allowed=f"a path, or {variable}")
    file = Path(chosen)
    _check_exists([file])
    found = choose_format(file, GOLDEN_FORMATS, format, "golden files")
    options = found.options_of({"topics": topics, "split": split}, file)
    golden: Golden = found.read(file, strict, absent_docs, catalogue, **options)
    checks, queries = golden.checks, golden.queries
    is_retrieval_check = is_among(checks["kind"], ["expected_empty", "forbidden_source_key"])
    has_check = is_among(queries["query_id"], checks.loc[is_retrieval_check, "query_id"])
    n_unlabelled = int((queries["answerable"].isna() & ~has_check).sum())
    if n_unlabelled:
        warn(
            f"{chosen}: {n_unlabelled} of {len(queries)} queries carry no expectation; they are"
            " unlabelled and only absent_docs='refuse' reads them as should-refuse"
        )
    return golden


def load_results(
    paths: Paths, *, format: str | None = None, strict: bool = True, ties: str = "file"
) -> Results:
    """Load one or many runs.

    Formats are `per_query.jsonl` (with `run.json` beside it), kebab's SQLite file, TREC run files
    (also .gz), JSON objects {query: {document: score}}, metric reports (`metrics` with `per_query`:
    they give `reported` values and no hits), and the formats of other tools.

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
        "file" takes the stored rank, else list order. "trec" ranks every list anew, as trec_eval
        does; see `rs.rank_hits`.

    Raises
    ------
    DataError
        Nothing found, an unreadable file, a bad record (file, line, field), the same run_id twice.

    Warns
    -----
    UserWarning
        The ranks of a TREC run start at 0: they are moved up by one. An unknown field of a run file
        resembles a known one (it is kept as `x_<name>`).
    """
    check_choice(ties, TIES, "ties")
    files = _files(paths)
    formats = [choose_format(file, RESULT_FORMATS, format, "results") for file in files]
    parts = [
        _read_run(file, found, strict, ties) for file, found in zip(files, formats, strict=True)
    ]
    if twice := _repeated_names(parts):
        parts = [
            found.rename_runs(file, part) if found.rename_runs and twice & _names(part) else part
            for file, found, part in zip(files, formats, parts, strict=True)
        ]
    if twice := _repeated_names(parts):
        raise DataError(
            f"{', '.join(sorted(twice))} named by more than one file",
            field="run_id",
            allowed="one file per run; name runs in run.json",
        )
    return parts[0] if len(parts) == 1 else Results.concat(parts)


def record_file(path: str | os.PathLike[str], format: str | None = None) -> Path | None:
    """Return the file of one run if it is our own run file, else None.

    Only that one can be read block by block (`begin_run`, `stream_per_query`).

    Raises
    ------
    DataError
        As `load_results`: nothing found, or an unknown format. More than one file.
    """
    _check_path(path, (str, os.PathLike), "path", "the path of one run")
    files = _files(path)
    if len(files) > 1:
        raise DataError(
            f"{path} holds {len(files)} runs",
            field="path",
            allowed=f"one run at a time, such as {files[0]}",
        )
    found = choose_format(files[0], RESULT_FORMATS, format, "results")
    return files[0] if found.read is read_per_query else None


def _read_run(file: Path, found: Format, strict: bool, ties: str) -> Results:
    if "ties" in found.options:
        return found.read(file, strict, ties=ties)
    results: Results = found.read(file, strict)
    return results if ties == "file" else ranked_again(results, rank_hits(results.hits, ties))


def _names(part: Results) -> set[str]:
    return set(part.runs["run_id"].astype("str"))


def _repeated_names(parts: list[Results]) -> set[str]:
    """Return the run ids that more than one part has."""
    counts = Counter(run_id for part in parts for run_id in _names(part))
    return {run_id for run_id, n in counts.items() if n > 1}


def _files(paths: Paths) -> list[Path]:
    """Return the run files of paths, patterns and folders, in this order."""
    allowed = "a path or pattern, or a list of these"
    _check_path(paths, (str, os.PathLike, list, tuple), "paths", allowed)
    found: list[Path] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        _check_path(path, (str, os.PathLike), "paths", allowed)
        is_pattern = has_magic(str(path)) and not Path(path).exists()
        matches = sorted(glob(str(path))) if is_pattern else [str(path)]
        if not matches:
            raise DataError(f"no file matches {path}", field="paths")
        found += [file for match in matches for file in _files_of(Path(match))]
    if not found:
        raise DataError("no file given", field="paths")
    _check_exists(found)
    return found


def _files_of(path: Path) -> list[Path]:
    """Return the run files in a folder, else those one folder deeper, else the path itself."""
    if not path.is_dir():
        return [path]
    own = [path / name for name in RUN_FILES if (path / name).exists()]
    deeper = sorted(file for name in RUN_FILES for file in path.glob(f"*/{name}"))
    return own or deeper or [path]


def _check_exists(files: list[Path]) -> None:
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        raise DataError(f"no such file: {', '.join(missing)}", field="paths")


def _check_path(given: object, types: tuple[type, ...], field: str, allowed: str) -> None:
    if not isinstance(given, types):
        raise DataError(f"found {excerpt(given)}", field=field, allowed=allowed)

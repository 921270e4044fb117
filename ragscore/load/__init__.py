"""Files -> frames. One reader per format; every one ends in frames or in one `DataError` with file and line."""

import os
import warnings
from glob import glob, has_magic
from pathlib import Path

import pandas as pd

from ragscore.frames import DataError, Golden, Results, concat_results
from ragscore.load.detect import Format, choose
from ragscore.load.documents import load_documents
from ragscore.load.golden_file import read_golden
from ragscore.load.per_query import read_per_query, read_sqlite
from ragscore.load.write import run_description, write_per_query

__all__ = ["load_documents", "load_golden", "load_results", "run_description", "write_per_query"]

GOLDEN_VARIABLE = "RAGSCORE_GOLDEN"
Paths = str | os.PathLike[str] | list[str] | list[Path]

# Our own format first, then one line a format: what `fits` sees is a sample of the file; a file that fits several is refused, so keep them apart.
GOLDEN_FORMATS = [
    Format("ragscore", lambda seen: seen.kind == "yaml" or (seen.kind in ("jsonl", "json") and seen.has("id", "query")), read_golden),
]
RESULT_FORMATS = [
    Format("per_query", lambda seen: seen.kind in ("jsonl", "json") and seen.has("query_id") and not seen.keys & {"retrieved", "ranked"}, read_per_query),
    Format("sqlite", lambda seen: seen.kind == "sqlite", read_sqlite),
]


def load_golden(
    path: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    strict: bool = True,
    absent_docs: str = "unlabelled",
    catalogue: pd.DataFrame | None = None,
) -> Golden:
    """Load a golden file: questions, what answers them, and which of them should be refused.

    Parameters
    ----------
    path
        YAML list or JSON lines; without it, the file that the environment variable RAGSCORE_GOLDEN names.
    format
        The name of a format, where the content doesn't tell it.
    strict
        False loads what can be loaded and returns the rest as `golden.problems`.
    absent_docs
        How to read a row without expected documents: "unlabelled" (only `answerable: false`, or an empty
        `expected_doc_ids` without other targets, means "should refuse") or "refuse" (the older reading: no document
        expected means "should refuse").
    catalogue
        A frame with `chunk_id` and / or `doc_id`, such as `results.chunks`: expected ids must be in it.

    Raises
    ------
    DataError
        File, line, field, what was found and what is allowed: unreadable files, duplicate ids (all of them, sorted),
        paraphrase groups whose members expect different documents, ids that the catalogue doesn't know.

    Warns
    -----
    UserWarning
        Some questions carry no expectation at all: they are unlabelled, not "should refuse". A field that isn't known
        resembles one that is (it is kept as `x_<name>`).
    """
    if absent_docs not in ("unlabelled", "refuse"):
        raise DataError(f"found {absent_docs!r}", field="absent_docs", allowed="'unlabelled' or 'refuse'")
    chosen = path if path is not None else os.environ.get(GOLDEN_VARIABLE)
    _check_path(chosen, (str, os.PathLike, type(None)), "path", f"a path, or nothing and the environment variable {GOLDEN_VARIABLE}")
    if not chosen:
        raise DataError("no golden file given", field="path", allowed=f"a path, or the environment variable {GOLDEN_VARIABLE}")
    file = Path(chosen)
    _check_exists([file])
    golden: Golden = choose(file, GOLDEN_FORMATS, format, "golden files").read(file, strict, absent_docs, catalogue)
    n_unlabelled = int(golden.queries["answerable"].isna().sum())
    if n_unlabelled:
        text = f"{chosen}: {n_unlabelled} of {len(golden.queries)} queries carry no expectation; they are unlabelled and only absent_docs='refuse' reads them as should-refuse"
        warnings.warn(text, UserWarning, stacklevel=2)
    return golden


def load_results(paths: Paths, *, format: str | None = None, strict: bool = True) -> Results:
    """Load one or many runs: `per_query.jsonl` files (with `run.json` beside them) or kebab's SQLite file.

    Parameters
    ----------
    paths
        A file, a folder that holds `per_query.jsonl` (or folders that do), a glob pattern, or a list of these. Runs keep this order;
        a pattern's files are sorted by name.
    format
        The name of a format, where the content doesn't tell it.
    strict
        False loads what can be loaded and returns the rest as `results.problems`.

    Raises
    ------
    DataError
        Nothing found, an unreadable file, a bad record (file, line, field), the same run_id twice.
    """
    parts: list[Results] = [choose(file, RESULT_FORMATS, format, "results").read(file, strict) for file in _files(paths)]
    named: dict[str, int] = {}
    for part in parts:
        for run_id in part.runs["run_id"].astype("str"):
            named[run_id] = named.get(run_id, 0) + 1
    twice = sorted(run_id for run_id, n in named.items() if n > 1)
    if twice:
        raise DataError(f"{', '.join(twice)} named by more than one file", field="run_id", allowed="one file per run; name runs in run.json")
    return parts[0] if len(parts) == 1 else concat_results(parts)


def _files(paths: Paths) -> list[Path]:
    allowed = "a path or pattern, or a list of these"
    _check_path(paths, (str, os.PathLike, list, tuple), "paths", allowed)
    given: list[str | os.PathLike[str]] = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[Path] = []
    for path in given:
        _check_path(path, (str, os.PathLike), "paths", allowed)
        matches: list[str] = sorted(glob(str(path))) if has_magic(str(path)) and not Path(path).exists() else [str(path)]
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
    """The run file of a folder, or those of the run folders in it; a folder without any is looked at as a whole."""
    if not path.is_dir():
        return [path]
    own = [path / name for name in RUN_FILES if (path / name).exists()]
    within = sorted(file for name in RUN_FILES for file in path.glob(f"*/{name}"))
    return own or within or [path]

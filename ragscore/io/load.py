"""Load golden sets and results: find the files, recognize their format, call its reader.

In: paths, patterns or folders, frames, records or dicts. Out: `Golden` or `Results`, or one
`DataError` with file and line. registry.py knows the formats; tables.py reads what fits none.
"""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import check_choice, name_list, plural, warn
from ragscore.frames.ranking import TIES, rank_hits, ranked_again
from ragscore.io.columns import Columns
from ragscore.io.detect import Format, Sample, choose_format, options_of, sample
from ragscore.io.files import MAX_BYTES, naming, size_limit
from ragscore.io.foreign import TOOLS
from ragscore.io.frames_in import Table, frame_of, record_table
from ragscore.io.registry import TABLES, formats_of
from ragscore.io.source import without_collector

GOLDEN_VARIABLES = ("RAGSCORE_GOLDEN", "KEBAB_EVAL_GOLDEN")
"""Names of the environment variable for the golden file; the first that is set counts."""
AFTER = ("run_id", "ties", "labels")
"""Options that are seen to after reading where a format hasn't them."""
LABELLED = frozenset(tool.name for tool in TOOLS)
"""Formats of results that may hold labels, too."""
RUN_FILES = ("per_query.jsonl", "results.jsonl")


def given_or_named(source: Any) -> Any:
    """Return what is given as golden set, else the file that the environment names."""
    named = (os.environ.get(name) for name in GOLDEN_VARIABLES)
    chosen = next(filter(None, named), None) if source is None else source
    if chosen is None or (isinstance(chosen, str) and not chosen):
        raise DataError(
            "no golden file given",
            field="source",
            allowed=f"a path, or the environment variable {' or '.join(GOLDEN_VARIABLES)};"
            " to compare stored scores without one: rs.evaluate(results), --golden none",
        )
    return chosen


def load_golden(
    source: Any = None,
    format: str | None = None,
    columns: Columns | None = None,
    *,
    strict: bool = True,
    absent_docs: str = "unlabelled",
    catalogue: pd.DataFrame | None = None,
    topics: str | os.PathLike[str] | None = None,
    split: str | None = None,
    max_bytes: int | None = MAX_BYTES,
) -> Golden:
    """Load a golden set: queries, what answers them, and which of them should be refused.

    Parameters
    ----------
    source
        A file, a glob pattern, or a list of paths: our YAML or JSON lines, TREC qrels (also .gz), a
        BEIR folder, another tool's file, or a table of CSV, TSV, Parquet or JSON. A frame of
        pandas, polars, pyarrow, DuckDB or a `datasets.Dataset`. A list of records. A dict `{query:
        [ids]}` or `{query: {id: grade}}`. By default the file that the environment variable
        RAGSCORE_GOLDEN (or KEBAB_EVAL_GOLDEN) names.
    format
        The name of a format, where the content doesn't show it.
    columns
        For tables, role -> column, where the columns' names don't say it: `{"query_id": "topic",
        "doc_id": "answers", "grade": "level"}`. `outer.inner` reaches into a column. Roles:
        query_id, query, doc_id, chunk_id, text (what is expected), grade, answerable,
        should_refuse, reference_answer, lang, difficulty, category, group, variant, conversation,
        turn, tags, vaults, folders, must_contain, forbidden, key_facts. Other columns are kept as
        `x_<name>`.
        `{"grade": None}`: no column has this role, whatever its name.
    strict
        False loads what can be loaded; `golden.validate()` has the rest.
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
    max_bytes
        What a compressed file may unpack to if that is over 100 times its size (Parquet: 1,000
        times), and the longest line. None lifts these limits, and the limits of ids (65,536
        characters) and YAML aliases.

    Returns
    -------
    The golden set. Of a table, it prints which column was taken for which role.

    Raises
    ------
    DataError
        With file, line, field, what was found and what is allowed: unreadable files, duplicate ids
        (all of them, sorted), paraphrase groups whose members expect different documents, ids that
        the catalogue lacks. A table whose columns can't be recognized; the message shows its
        first record and the `columns=` to complete.

    Warns
    -----
    UserWarning
        Some queries carry no expectation at all: they are unlabelled, not "should refuse". An
        unknown field resembles a known one (it is kept as `x_<name>`). Judgements with a negative
        grade ("not judged") are left out.
    """
    check_choice(absent_docs, ("unlabelled", "refuse"), "absent_docs")
    options = {"columns": _named(columns), "topics": topics, "split": split}
    parts = list[Golden]()
    for one in _sources(given_or_named(source), "golden"):
        golden, found = _loaded(
            one, "golden", format, max_bytes, (strict, absent_docs, catalogue), options
        )
        if found is not None:
            _warn_of_expectations(golden, _name(one))
        parts.append(golden)
    return parts[0] if len(parts) == 1 else _joined(parts)


def _loaded(
    source: Any,
    side: str,
    format: str | None,
    max_bytes: int | None,
    how: tuple[Any, ...],
    options: dict[str, Any],
) -> tuple[Any, Format | None]:
    """Return what one source holds, and its format; what was loaded before has none."""
    if isinstance(source, (Results, Golden)):
        if isinstance(source, Results) != (side == "results"):
            raise DataError(
                f"found {type(source).__name__} in place of {_WHAT[side]}",
                field="source",
                allowed="results first, then the golden set",
            )
        return source, None
    named = naming(source) if isinstance(source, Path) else nullcontext()
    with size_limit(max_bytes), named, without_collector():
        found = _choose(source, side, format, options["columns"])
        own = {one: options[one] for one in options if one in found.options or one not in AFTER}
        own = options_of(found.name, own, found.options, _name(source))
        if found.name in LABELLED and "labels" in options:
            own["labels"] = options["labels"]
        is_frame = isinstance(source, Table) and found is not TABLES[side]
        loaded = found.read(source.frame if is_frame else source, *how, **own)
    return loaded, found


def _name(source: Any) -> str:
    """Return the name of a source for messages; a dict may be large."""
    return str(source) if isinstance(source, Path) else getattr(source, "name", "dict")


def _warn_of_expectations(golden: Golden, name: str) -> None:
    """Warn of queries that expect nothing, and of those whose labels contradict each other."""
    checks, queries, targets = golden.checks, golden.queries, golden.targets
    retrieval = checks.loc[checks["kind"].isin(["expected_empty", "forbidden_source_key"])]
    unlabelled = {*queries.loc[queries["answerable"].isna(), "query_id"]} - {*retrieval["query_id"]}
    own = [
        one.removeprefix("x_").removesuffix(".json")
        for one in map(str, queries)
        if one.startswith("x_")
    ]
    is_labelled = len(targets) or len(checks) or "reference_answer" in queries
    unread = "" if is_labelled or not own else f" (columns without a role: {name_list(own)})"
    if unlabelled:
        warn(
            f"{name}: {len(unlabelled)} of {len(queries)} queries carry no expectation and"
            f" are unlabelled{unread}; absent_docs='refuse' reads them as should-refuse"
        )
    n_answerable = int(queries["answerable"].eq(True).sum())
    if n_answerable and unread:
        warn(
            f"{name}: {plural(n_answerable, 'query')} to be answered, and nothing says what answers"
            f" them: only refusals are judged{unread}"
        )
    stated = pd.concat([targets["target_id"], queries.get("reference_answer", pd.Series())])
    if words := {*stated[stated.isin(NOTHING)]}:
        warn(
            f"{name}: {name_list(map(repr, sorted(words)))} among the expected ids and"
            " answers; if it says that there is none, make it null"
        )
    is_refused = targets["query_id"].isin(golden._refusals)
    both = targets.loc[is_refused & (targets["grade"] > 0), "query_id"].unique()
    if len(both):
        warn(
            f"{name}: {plural(len(both), 'query')} to be refused with expected ids or supports"
            f" ({name_list(both)}), which don't count: only the refusal is judged"
        )


CALLS_ALLOWED = '{"tool": "*search*"}'


def load_results(
    source: Any,
    format: str | None = None,
    columns: Columns | None = None,
    *,
    run_id: str | None = None,
    calls_from: Mapping[str, str] | None = None,
    strict: bool = True,
    ties: str = "file",
    max_bytes: int | None = MAX_BYTES,
) -> Results:
    """Load one or many runs, with one row per hit or one row per query.

    Parameters
    ----------
    source
        A file: `per_query.jsonl` (with `run.json` beside it), a TREC run (also .gz), another tool's
        export, a metric report, kebab's database or a run of it as one JSON object, or a table of
        CSV, TSV, Parquet or JSON. A folder that holds `per_query.jsonl` (or folders that do), a
        glob pattern. A frame of pandas, polars, pyarrow, DuckDB or a
        `datasets.Dataset`. A list of records. A dict `{query: [ids]}`, `{query: {id: score}}` or
        `{run: {query: ...}}`. A list of any of these. Runs keep this order; a pattern's files are
        sorted by name.
    format
        The name of a format, where the content doesn't show it.
    columns
        For tables, role -> column, where the columns' names don't say it: `{"query_id": "topic",
        "doc_id": "hit"}`. `outer.inner` reaches into a column. Roles: query_id, query, run_id,
        doc_id, chunk_id, text (one per row, or a list by rank), rank, score, answer, error,
        refused, latency_ms, cost_usd, repeat, prompt_tokens, completion_tokens, conversation,
        turn (a query needs no id beside these two), citations, and `score.<metric>`,
        `reason.<metric>`, `scorer_error.<metric>` for stored values. Other columns are kept as
        `x_<name>`.
        `{"run_id": None}`: no column has this role, whatever its name.
    run_id
        Names the run. By default a run is named by a column, by `run.json`, by a TREC run's tag, or
        after its file ("run" for a frame).
    calls_from
        For traces, which tools search: `{"tool": "*search*"}`, a pattern of their names. By default
        only retrieval spans are calls; a tool is never guessed to be one.
    strict
        False loads what can be loaded and returns the rest as `results.problems`.
    ties
        "file" takes the stored rank; else, in a table with one row per hit, the order of the
        scores, the highest first; else the order of the hits. "trec" ranks every list again, as
        trec_eval does; see `rs.match.rank_hits`.
    max_bytes
        What a compressed file may unpack to if that is over 100 times its size (Parquet: 1,000
        times), and the longest line. None lifts these limits, and the limit of ids (65,536
        characters).

    Returns
    -------
    The runs. For a table, `results.mapping` names the column taken for each role. Repeats of
    a query in a table with one row per query become runs of their own (`<run>-r2`).

    Raises
    ------
    DataError
        Nothing found, an unreadable file, a bad record (file, line, field), the same run_id twice.
        A table whose columns can't be recognized; the message shows its first record and the
        `columns=` to complete.

    Warns
    -----
    UserWarning
        The ranks of a run start at 0: they are moved up by one. An unknown field of a run file
        resembles a known one (it is kept as `x_<name>`). A query occurs more than once.
    """
    check_choice(ties, TIES, "ties")
    check_type(run_id, (str, type(None)), "run_id", "a name")
    check_type(calls_from, (Mapping, type(None)), "calls_from", CALLS_ALLOWED)
    if calls_from is not None and {*calls_from} != {"tool"}:
        raise DataError(f"found {name_list(calls_from)}", field="calls_from", allowed=CALLS_ALLOWED)
    options = {"columns": _named(columns), "calls_from": calls_from, "run_id": run_id}
    return _runs(source, format, max_bytes, strict, options | {"ties": ties})


def with_labels(source: Any) -> tuple[Results, list[Golden]]:
    """Load runs, and the labels beside them in files of other tools."""
    labels = list[Golden]()
    options = {"columns": None, "run_id": None, "ties": "file", "labels": labels}
    return _runs(source, None, MAX_BYTES, True, options), labels


def _runs(
    source: Any, format: str | None, max_bytes: int | None, strict: bool, options: dict[str, Any]
) -> Results:
    """Return the runs of all sources."""
    sources, run_id, ties = _sources(source, "results"), options["run_id"], options["ties"]
    if run_id is not None and len(sources) > 1:
        raise DataError(
            f"{run_id!r} for {len(sources)} sources", field="run_id", allowed="one source"
        )
    parts = list[Results]()
    for one in sources:
        part, found = _loaded(one, "results", format, max_bytes, (strict,), options)
        if found is not None and "ties" not in found.options and ties != "file":
            part = ranked_again(part, rank_hits(part.hits, ties))
        if found is not None and "run_id" not in found.options and run_id is not None:
            if len(part.runs) != 1:
                raise DataError(
                    f"{run_id!r} for {len(part.runs)} runs",
                    file=_name(one),
                    field="run_id",
                    allowed="a source with one run",
                )
            part = _renamed(part, run_id)
        parts.append(part)
    counts = Counter(run_id for part in parts for run_id in part.runs["run_id"].astype("str"))
    if twice := [run_id for run_id, n in counts.items() if n > 1]:
        raise DataError(
            f"{', '.join(sorted(twice))} named by more than one file", field="run_id",
            allowed="one file per run; name runs in run.json, or by its file each:"
            " [rs.load_results(path, run_id=path.stem) for path in paths]",
        )  # fmt: skip
    loaded = parts[0] if len(parts) == 1 else Results.concat(parts)
    errors = loaded.responses["error"]
    words = [one for one in errors.dropna().unique() if one.strip().lower() in NO_ERROR_WORDS]
    if words:
        warn(
            f"{plural(int(errors.isin(words).sum()), 'error')} of {len(errors)} responses:"
            f" {name_list(map(repr, words))} count as failures; if they say that there was"
            " none, make them null"
        )
    return loaded


NOTHING = {"N/A", "n/a", "None", "none", "NULL", "null", "NaN", "nan"}
NO_ERROR_WORDS = ("none", "null", "nan", "n/a", "na", "no", "false", "ok")


def golden_files(source: Any) -> list[Path]:
    """Return the files that a golden set is loaded from."""
    return [one for one in _sources(source, "golden") if isinstance(one, Path)]


def _sources(source: Any, side: str) -> list[Any]:
    """Return each file, dict and table of what was given; what was loaded before stays as it is."""
    if isinstance(source, (str, os.PathLike)):
        return _files(source, side)
    if isinstance(source, (Results, Golden, Mapping)):
        return [source]
    if not isinstance(source, (list, tuple)):
        return [frame_of(source, _SHAPES[side])]
    if not source:
        raise DataError("no file given", field="source", allowed="at least one file or record")
    are_paths = all(isinstance(one, (str, os.PathLike, Golden)) for one in source)
    # named tuples are records, too: ir_measures and ir_datasets have them
    are_records = isinstance(source[0], Mapping) or hasattr(source[0], "_fields")
    if are_records or (side == "golden" and not are_paths):
        plain = [one._asdict() if hasattr(one, "_asdict") else one for one in source]
        return [record_table(plain)]
    return [part for one in source for part in _sources(one, side)]


def _files(path: str | os.PathLike[str], side: str) -> list[Path]:
    """Return the files of a path, or of a pattern (sorted); of runs, those in folders, too."""
    files = [Path(path)]
    if has_magic(os.fspath(path)) and not files[0].exists():
        # beside runs, a README is no run
        files = [Path(one) for one in sorted(glob(os.fspath(path))) if not one.endswith(".md")]
    if not files or not files[0].exists():
        raise DataError(f"no such file: {os.fspath(path)}", field="source")
    if side == "golden":
        return files
    return [file for one in files for file in _run_files(one) or [one]]


def _run_files(folder: Path, depth: int = 1) -> list[Path]:
    """Return the run files in a folder, else in the folders in it.

    A run of which only aggregates are there is its folder.
    """
    inner = sorted(folder.iterdir()) if folder.is_dir() else []
    names = frozenset(one.name for one in inner)
    has_means = "metrics.json" in names and "run.json" not in names
    found = [folder / one for one in RUN_FILES if one in names] or [folder] * has_means
    if found or not depth:
        return found
    return [file for one in inner for file in _run_files(one, depth - 1)]


def _joined(parts: list[Golden]) -> Golden:
    """Return one golden set of several, which have no query in common."""
    frames = {
        item.name: pd.concat([getattr(one, item.name) for one in parts], ignore_index=True)
        for item in fields(Golden)
    }
    frames["queries"] = frames["queries"].assign(position=range(len(frames["queries"])))
    frames["_mapping"] = frames["_mapping"].drop_duplicates(ignore_index=True)
    return Golden(**frames)


_SHAPES = {
    "results": "a path, a frame, a list of records, {query: [ids]} or {run: {query: [ids]}}",
    "golden": "a path, a frame, a list of records, {query: [ids]} or {query: {id: grade}}",
}


_WHAT = {"results": "results", "golden": "a golden set"}


def _named(columns: Any) -> Columns | None:
    """Return `columns=` with numbers, as pandas names columns without a header, as texts."""
    check_type(columns, (Mapping, type(None)), "columns", "role -> column")
    return columns and {n: str(one) if type(one) is int else one for n, one in columns.items()}


def _choose(source: Any, side: str, format: str | None, columns: Columns | None) -> Format:
    """Return the format of a file, or of content at hand.

    With `columns`, and for frames, only the formats that have columns are looked at.
    """
    is_file, is_dict = isinstance(source, Path), isinstance(source, Mapping)
    formats = [] if is_dict else formats_of(side)  # there is nothing to choose from
    if not is_file or (columns is not None and format is None):
        formats = [one for one in formats if "columns" in one.options]
    names = frozenset(getattr(source, "fields", ()))
    seen = sample(source) if is_file else Sample(Path(_name(source)), "frame", names)
    what = "results" if side == "results" else "golden files"
    return choose_format(seen, formats, format, what, TABLES[side])


def _renamed(results: Results, run_id: str) -> Results:
    """Return results with another name of their run."""
    renamed = {
        kind: one.assign(run_id=one["run_id"].cat.rename_categories([run_id]))
        for kind, one in results._of_runs().items()
    }
    return replace(results, **renamed)

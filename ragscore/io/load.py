"""Load golden sets and results: find the files, tell their format, call its reader.

In: paths, patterns or folders, frames, records or dicts. Out: `Golden` or `Results`, or one
`DataError` with file and line. registry.py knows the formats; tables.py reads what fits none.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import check_choice, excerpt, name_list, plural, warn
from ragscore.frames.ranking import TIES, rank_hits, ranked_again
from ragscore.io.columns import Columns
from ragscore.io.detect import Format, Sample, choose_format, function_at, sample
from ragscore.io.files import MAX_BYTES, naming, size_limit
from ragscore.io.foreign import TOOLS
from ragscore.io.formats.chatbot import fits_folder
from ragscore.io.frames_in import frame_of, record_table
from ragscore.io.importers import labels_beside
from ragscore.io.registry import GOLDEN_TABLE, TABLES, formats_of
from ragscore.io.source import without_collector

IR_DATASETS = "ir_datasets:"
IR_DATASET = Format("ir_datasets", lambda seen: 0, "ragscore.io.ir_datasets:read_ir_dataset")
GOLDEN_VARIABLES = ("RAGSCORE_GOLDEN", "KEBAB_EVAL_GOLDEN")
"""Names of the environment variable for the golden file; the first that is set counts."""
AFTER = ("run_id", "ties")
RUN_FILES = ("per_query.jsonl", "results.jsonl")


def given_or_named(source: Any) -> Any:
    """Return what is given as golden set, else the file that the environment names."""
    named = [os.environ[name] for name in GOLDEN_VARIABLES if os.environ.get(name)]
    chosen = source if source is not None else next(iter(named), None)
    if chosen is None or (isinstance(chosen, (str, os.PathLike)) and not str(chosen)):
        allowed = f"a path, or the environment variable {' or '.join(GOLDEN_VARIABLES)};"
        allowed += " to compare stored scores without one: rs.evaluate(results), --golden none"
        raise DataError("no golden file given", field="source", allowed=allowed)
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
        [ids]}` or `{query: {id: grade}}`. "ir_datasets:NAME". By default the file that the
        environment variable RAGSCORE_GOLDEN (or KEBAB_EVAL_GOLDEN) names.
    format
        The name of a format, where the content doesn't tell it.
    columns
        For tables, role -> column, where the columns' names don't tell it: `{"query_id": "topic",
        "doc_id": "answers", "grade": "level"}`. `outer.inner` reaches into a column. Roles:
        query_id, query, doc_id, chunk_id, text (what is expected), grade, answerable,
        should_refuse, reference_answer, lang, difficulty, category, group, variant, conversation,
        turn, tags, vaults, folders, must_contain, forbidden, key_facts. Other columns are kept as
        `x_<name>`.
        `{"grade": None}`: no column has this role, whatever its name.
    strict
        False loads what can be loaded and tells the rest in `golden.validate()`.
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
        times), and the longest line. None lifts these limits, and those of ids (65,536 characters)
        and YAML aliases.

    Returns
    -------
    The golden set. Of a table, it prints which column was taken for which role.

    Raises
    ------
    DataError
        With file, line, field, what was found and what is allowed: unreadable files, duplicate ids
        (all of them, sorted), paraphrase groups whose members expect different documents, ids that
        the catalogue lacks. A table whose columns don't tell what they are; the message shows its
        first record and the `columns=` to complete.

    Warns
    -----
    UserWarning
        Some queries carry no expectation at all: they are unlabelled, not "should refuse". An
        unknown field resembles a known one (it is kept as `x_<name>`). Judgements with a negative
        grade ("not judged") are left out.
    """
    check_choice(absent_docs, ("unlabelled", "refuse"), "absent_docs")
    columns = _named(columns)
    if isinstance(source, Golden):
        return source
    _check_side(source, Results, "a golden set")
    chosen = given_or_named(source)
    if paths := golden_files(chosen):
        parts = [
            load_golden(
                one, format, columns, strict=strict, absent_docs=absent_docs,
                catalogue=catalogue, topics=topics, split=split, max_bytes=max_bytes,
            )
            for one in paths
        ]  # fmt: skip
        return joined(parts, paths)
    options = {"columns": columns, "topics": topics, "split": split}
    is_path = isinstance(chosen, (str, os.PathLike))
    if is_path and not str(chosen).startswith(IR_DATASETS):
        chosen = Path(chosen)
        _check_exists([chosen])
    golden, found, name = _loaded(
        chosen, "golden", format, columns, max_bytes, (strict, absent_docs, catalogue), options
    )
    _warn_of_expectations(golden, name, found is GOLDEN_TABLE)
    return golden


def _loaded(
    source: Any,
    side: str,
    format: str | None,
    columns: Columns | None,
    max_bytes: int | None,
    how: tuple[Any, ...],
    options: dict[str, Any],
) -> tuple[Any, Format, str | Path]:
    """Return what one source holds, its format, and its name for messages."""
    if isinstance(source, Path):
        with size_limit(max_bytes), naming(source), without_collector():
            found = _choose(source, side, format, columns)
            loaded = _read(found, source, how, options, source)
            _check_values(loaded)
            return loaded, found, source
    if isinstance(source, str):  # names a data set
        if format is not None:
            options = options | {"format": format}
        name, value, found = source, cast("Any", source), IR_DATASET
    else:
        name, value = _content(source, side)
        found = _choose(value, side, format, columns)
        value = value if found in TABLES.values() else value.frame
    with without_collector():
        return _read(found, value, how, options, Path(name)), found, name


def _read(
    found: Format, source: Any, how: tuple[Any, ...], options: dict[str, Any], name: Path
) -> Any:
    """Return what the reader of a format returns; what it doesn't know of AFTER is done later."""
    own = {one: options[one] for one in options if one in found.options or one not in AFTER}
    return function_at(found.read)(source, *how, **found.options_of(own, name))


def _warn_of_expectations(golden: Golden, name: str | Path, is_table: bool) -> None:
    """Warn of queries that expect nothing, and of those whose labels contradict each other."""
    checks, queries, targets = golden.checks, golden.queries, golden.targets
    is_retrieval_check = is_among(checks["kind"], ["expected_empty", "forbidden_source_key"])
    has_check = is_among(queries["query_id"], checks.loc[is_retrieval_check, "query_id"])
    n_unlabelled = int((queries["answerable"].isna() & ~has_check).sum())
    if n_unlabelled:
        warn(
            f"{name}: {n_unlabelled} of {len(queries)} queries carry no expectation; they are"
            " unlabelled and only absent_docs='refuse' reads them as should-refuse"
        )
    n_answerable = int(queries["answerable"].eq(True).sum())
    answers = queries.get("reference_answer", pd.Series(dtype="str"))
    own = [one.removeprefix("x_") for one in map(str, queries) if one.startswith("x_")]
    if (
        n_answerable
        and is_table
        and own
        and not (len(targets) or len(checks) or answers.notna().any())
    ):
        warn(
            f"{name}: {plural(n_answerable, 'query')} to be answered, and nothing says what answers"
            f" them: only refusals are judged (columns without a role: {name_list(own)})"
        )
    relevant = targets.loc[targets["grade"] > 0, "query_id"]
    should_refuse = queries["answerable"].eq(False).fillna(False)
    both = queries.loc[should_refuse & is_among(queries["query_id"], relevant), "query_id"]
    if len(both):
        warn(
            f"{name}: {plural(len(both), 'query')} to be refused with expected ids or supports"
            f" ({name_list(both)}), which count for nothing: the refusal alone is judged"
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
        The name of a format, where the content doesn't tell it.
    columns
        For tables, role -> column, where the columns' names don't tell it: `{"query_id": "topic",
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
        scores, the highest first; else the order of the hits. "trec" ranks every list anew, as
        trec_eval does; see `rs.match.rank_hits`.
    max_bytes
        What a compressed file may unpack to if that is over 100 times its size (Parquet: 1,000
        times), and the longest line. None lifts these limits, and that of ids (65,536 characters).

    Returns
    -------
    The runs. For a table, `results.mapping` tells which column was taken for which role. Repeats of
    a query in a table with one row per query become runs of their own (`<run>-r2`).

    Raises
    ------
    DataError
        Nothing found, an unreadable file, a bad record (file, line, field), the same run_id twice.
        A table whose columns don't tell what they are; the message shows its first record and the
        `columns=` to complete.

    Warns
    -----
    UserWarning
        The ranks of a run start at 0: they are moved up by one. An unknown field of a run file
        resembles a known one (it is kept as `x_<name>`). A query stands there more than once.
    """
    check_choice(ties, TIES, "ties")
    columns = _named(columns)
    check_type(run_id, (str, type(None)), "run_id", "a name")
    if calls_from is not None:
        check_type(calls_from, Mapping, "calls_from", CALLS_ALLOWED)
        if {*calls_from} != {"tool"}:
            raise DataError(
                f"found {name_list(calls_from)}", field="calls_from", allowed=CALLS_ALLOWED
            )
    if isinstance(source, Results):
        return source
    parts: list[Results] = []
    files: dict[int, tuple[Path, Format]] = {}
    options = {"columns": columns, "calls_from": calls_from, "run_id": run_id, "ties": ties}
    for one in _sources(source):
        _check_side(one, Golden, "results")
        if isinstance(one, Results):
            parts.append(one)
            continue
        part, found, name = _loaded(one, "results", format, columns, max_bytes, (strict,), options)
        if isinstance(one, Path) and run_id is None:
            files[len(parts)] = one, found
        if "ties" not in found.options and ties != "file":
            part = ranked_again(part, rank_hits(part.hits, ties))
        if run_id is not None and "run_id" not in found.options:
            part = _renamed(part, run_id, name)
        parts.append(part)
    if run_id is not None and len(parts) > 1:
        raise DataError(
            f"{run_id!r} for {len(parts)} sources", field="run_id", allowed="one source"
        )
    if twice := _repeated_names(parts):
        for number, (file, found) in files.items():
            if found.rename_runs and twice & {*parts[number].runs["run_id"].astype("str")}:
                parts[number] = found.rename_runs(file, parts[number])
    if twice := _repeated_names(parts):
        raise DataError(
            f"{', '.join(sorted(twice))} named by more than one file",
            field="run_id",
            allowed="one file per run; name runs in run.json, or by run_id= one by one",
        )
    loaded = parts[0] if len(parts) == 1 else Results.concat(parts)
    _warn_of_error_words(loaded.responses["error"])
    return loaded


def _warn_of_error_words(errors: pd.Series) -> None:
    stated = errors.dropna()
    words = stated[stated.str.strip().str.lower().isin(NO_ERROR_WORDS)]
    if len(words):
        warn(
            f"{plural(len(words), 'error')} of {len(errors)} responses:"
            f" {name_list(map(repr, words.unique()))} count as failures; if they say that there was"
            " none, make them null"
        )


NO_ERROR_WORDS = ("none", "null", "nan", "n/a", "na", "no", "false", "ok")


def with_labels(source: Any) -> tuple[Results, list[Golden]]:
    """Load runs, and the labels that stand beside them in files of other tools."""
    results, labels = load_results(source), list[Golden]()
    tools = {tool.name: tool for tool in TOOLS}
    for one in () if source is results else _sources(source):
        found = _choose(one, "results", None, None).name if isinstance(one, Path) else None
        if found in tools:
            with naming(one):
                golden = labels_beside(tools[found], one)
            labels += [] if golden is None else [golden]
    return results, labels


def golden_files(source: Any) -> list[Any]:
    """Return the files of a pattern or a list of paths; nothing for one file or other content."""
    if isinstance(source, (list, tuple)):
        is_paths = all(isinstance(one, (str, os.PathLike, Golden)) for one in source)
        return list(source) if source and is_paths else []
    is_pattern = isinstance(source, (str, os.PathLike)) and has_magic(str(source))
    if not is_pattern or Path(source).exists():
        return []
    if not (matches := sorted(glob(str(source)))):
        raise DataError(f"no file matches {source}", field="source")
    return list(matches)


def joined(parts: list[Golden], names: list[Any]) -> Golden:
    """Return one golden set of several with different queries.

    Raises
    ------
    DataError
        Two have a query in common. `names` are their files, or golden sets as they are.
    """
    queries = pd.concat([part.queries["query_id"] for part in parts], keys=range(len(parts)))
    if (twice := queries[queries.duplicated()]).any():
        at = queries[queries == twice.iloc[0]].index.get_level_values(0)
        first, second = (str(names[n]) for n in at[:2])
        raise DataError(
            f"query {twice.iloc[0]!r} is in {first}, too",
            file=second,
            field="query_id",
            allowed="each query in one file",
        )
    frames = {}
    for item in fields(Golden):
        found = [frame for part in parts if len(frame := getattr(part, item.name))]
        if found:
            frames[item.name] = found[0] if len(found) == 1 else pd.concat(found, ignore_index=True)
    frames.setdefault("queries", parts[0].queries)
    frames["queries"] = frames["queries"].assign(position=range(len(frames["queries"])))
    if "_mapping" in frames:
        frames["_mapping"] = frames["_mapping"].drop_duplicates(ignore_index=True)
    return Golden(**frames)


def _sources(source: Any) -> list[Any]:
    """Return each file, frame, dict or list of records of what `load_results` was given."""
    if isinstance(source, (str, os.PathLike)):
        return _files(source)
    if not isinstance(source, (list, tuple)):
        return [source]
    if not source:
        raise DataError("no file given", field="source", allowed="at least one file or record")
    if isinstance(source[0], Mapping) or hasattr(source[0], "_fields"):
        return [source]
    return [part for one in source for part in _sources(one)]


def _content(source: Any, side: str) -> tuple[str, Any]:
    """Return the name of what is at hand for messages, and it as a `Table` or a dict."""
    if isinstance(source, Mapping):
        if not source:
            raise DataError("the dict is empty", field="source", allowed=f"{_SHAPES[side]}")
        if any(
            hasattr(one, "__arrow_c_stream__") or hasattr(one, "to_pandas")
            for one in source.values()
        ):
            raise DataError(
                "a dict of frames",
                field="source",
                allowed="one of them, such as dataset['test'], or a list of load_results(frame,"
                " run_id=...)",
            )
        return "dict", source
    if isinstance(source, (list, tuple)):
        # Named tuples are records, too: ir_measures and ir_datasets have them.
        records = [one._asdict() if hasattr(one, "_asdict") else one for one in source]
        return "records", record_table(records)
    return "frame", frame_of(source, _SHAPES[side])


_SHAPES = {
    "results": "a path, a frame, a list of records, {query: [ids]} or {run: {query: [ids]}}",
    "golden": "a path, a frame, a list of records, {query: [ids]} or {query: {id: grade}}",
}


def _check_side(source: Any, other: type, wanted: str) -> None:
    """Refuse results as a golden set and the other way round."""
    if isinstance(source, other):
        raise DataError(
            f"found {other.__name__} in place of {wanted}",
            field="source",
            allowed="results first, then the golden set",
        )


def _named(columns: Any) -> Columns | None:
    """Return `columns=` with numbers, as pandas names columns without a header, as texts."""
    if columns is None:
        return None
    if not isinstance(columns, Mapping):
        raise DataError(f"found {excerpt(columns)}", field="columns", allowed="role -> column")
    return {
        role: str(one) if isinstance(one, int) and not isinstance(one, bool) else one
        for role, one in columns.items()
    }


def _choose(source: Any, side: str, format: str | None, columns: Columns | None) -> Format:
    """Return the format of a file, or of content at hand.

    With `columns`, and for frames, only the formats that have columns are looked at.
    """
    formats, table = formats_of(side), TABLES[side]
    what = "results" if side == "results" else "golden files"
    if isinstance(source, Mapping):
        if format not in (None, table.name):
            found = f"format={format!r} for a dict"
            raise DataError(found, field="format", allowed="no format, or a path")
        return table
    if isinstance(source, Path) and (columns is None or format is not None):
        return choose_format(sample(source), formats, format, what, table, formats[0])
    of_columns = [one for one in formats if "columns" in one.options]
    if isinstance(source, Path):
        seen = sample(source)
    else:
        seen = Sample(Path(source.name), "frame", frozenset(source.fields))
    return choose_format(seen, of_columns, format, what, table)


def _renamed(results: Results, run_id: str, name: str | Path) -> Results:
    """Return results of one run under another name."""
    if len(results.runs) != 1:
        found = f"{run_id!r} for {len(results.runs)} runs"
        raise DataError(found, file=name, field="run_id", allowed="a source with one run")
    frames = {item.name: getattr(results, item.name) for item in fields(results)}
    return replace(
        results,
        **{
            name: frame.assign(
                run_id=frame["run_id"].astype("str").mask(frame["run_id"].notna(), run_id)
            )
            for name, frame in frames.items()
            if frame is not None and "run_id" in frame
        },
    )


def _check_values(loaded: Results | Golden) -> None:
    """Refuse infinite numbers that a reader let pass, so that none is ever stored.

    Readers refuse them with their line; this is the door that no reader can forget.
    """
    for item in fields(loaded):
        frame = getattr(loaded, item.name)
        for name, column in () if frame is None else frame.select_dtypes("float").items():
            # infinite scores are only told apart from others: the logarithm of 0 is one
            place = f"{item.name}.{name}"
            if place != "hits.score" and np.isinf(column.to_numpy("float64", na_value=0)).any():
                raise DataError("an infinite number", field=place, allowed="finite numbers")


def _repeated_names(parts: list[Results]) -> set[str]:
    """Return the run ids that more than one part has."""
    counts = Counter(run_id for part in parts for run_id in part.runs["run_id"].astype("str"))
    return {run_id for run_id, n in counts.items() if n > 1}


def _files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the run files of a path, a pattern (sorted) or a folder."""
    matches = [str(path)]
    if has_magic(str(path)) and not Path(path).exists():
        found = sorted(glob(str(path)))  # beside runs, a README is no run
        matches = [name for name in found if not name.endswith(".md")] or found
    if not matches:
        raise DataError(f"no file matches {path}", field="paths")
    files = [file for match in matches for file in _files_of(Path(match))]
    _check_exists(files)
    return files


def _files_of(path: Path) -> list[Path]:
    """Return the run files in a folder, else the runs one folder deeper, else the path itself.

    A run without rows, of which only aggregates are there, is its folder.
    """
    if not path.is_dir():
        return [path]
    own = [path / name for name in RUN_FILES if (path / name).exists()]
    if own or fits_folder(_names_in(path)):
        return own or [path]
    deeper = [file for name in RUN_FILES for file in path.glob(f"*/{name}")]
    inner = [one for one in path.iterdir() if one.is_dir()]
    deeper += [one for one in inner if fits_folder(_names_in(one))]
    return sorted(deeper) or [path]


def _names_in(folder: Path) -> frozenset[str]:
    return frozenset(one.name for one in folder.iterdir())


def _check_exists(files: list[Path]) -> None:
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        raise DataError(f"no such file: {', '.join(missing)}", field="paths")

"""Load golden sets and results: find the files, tell their format, call its reader.

In: paths, patterns or folders, frames, records or dicts. Out: `Golden` or `Results`, or one
`DataError` with file and line. registry.py knows the formats; tables.py reads what fits none.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import is_float_dtype

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import check_choice, excerpt, name_list, plural, warn
from ragscore.frames.ranking import TIES, rank_hits, ranked_again
from ragscore.io.columns import Columns
from ragscore.io.detect import Format, Sample, choose_format, function_at, matching_format, sample
from ragscore.io.file_content import LONGEST_ID, MAX_BYTES, has_limits, size_limit
from ragscore.io.formats.chatbot import fits_folder
from ragscore.io.frames_in import frame_of, record_table
from ragscore.io.importers import labels_beside
from ragscore.io.ir_datasets import read_ir_dataset
from ragscore.io.labels import key_of
from ragscore.io.registry import (
    GOLDEN_TABLE,
    RESULT_TABLE,
    TABLES,
    TOOLS,
    formats_of,
)
from ragscore.io.search_hits import records_of_hits
from ragscore.io.source import Problems, naming, without_collector
from ragscore.io.values import ID_ALLOWED

IR_DATASETS = "ir_datasets:"
GOLDEN_VARIABLES = ("RAGSCORE_GOLDEN", "KEBAB_EVAL_GOLDEN")
"""Names of the environment variable for the golden file; the first that is set counts."""
RUN_FILES = ("per_query.jsonl", "results.jsonl")
Paths = str | os.PathLike[str] | list[str] | list[Path]


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
    turns: str | None = None,
    gains: Mapping[Any, float] | None = None,
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
    turns
        A pattern that reads the conversation and the turn out of a query's id, with groups of these
        names: "(?P<conversation>[0-9]+)_(?P<turn>[0-9]+)" for 106_1. By default they are columns.
    gains
        What each grade of the file earns in nDCG: `{"E": 1, "S": 0.1, "C": 0.01, "I": 0}`. Grades
        become levels from 0 in the order of their gains. By default fractions are gains.
    max_bytes
        What a compressed file may unpack to if that is over 100 times its size (Parquet: 1,000
        times), and the longest line. None lifts these limits, and those of ids (65,536 characters)
        and YAML aliases.

    Returns
    -------
    The golden set. For a table, `golden.mapping` tells which column was taken for which role.

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
    columns, gains = _named(columns), _checked_gains(gains)
    if isinstance(source, Golden):
        return source
    _check_side(source, Results, "a golden set")
    chosen = given_or_named(source)
    if paths := golden_files(chosen):
        parts = [
            load_golden(
                one, format, columns, strict=strict, absent_docs=absent_docs,
                catalogue=catalogue, topics=topics, split=split, turns=turns, gains=gains,
                max_bytes=max_bytes,
            )
            for one in paths
        ]  # fmt: skip
        return joined(parts, paths)
    options = {"columns": columns, "topics": topics, "split": split}
    name: str | Path
    found: Format | None = None
    if isinstance(chosen, str) and chosen.startswith(IR_DATASETS):
        given = options | {"format": format}
        if stated := [option for option, value in given.items() if value is not None]:
            raise DataError(
                f"{stated[0]}= means nothing for {chosen}",
                field=stated[0],
                allowed=f"no {stated[0]}",
            )
        name = chosen
        golden = read_ir_dataset(
            chosen.removeprefix(IR_DATASETS), Problems(chosen, strict), absent_docs, catalogue
        )
    elif isinstance(chosen, (str, os.PathLike)):
        name = file = Path(chosen)
        _check_exists([file])
        with size_limit(max_bytes), naming(file), without_collector():
            found = _choose(file, "golden", format, columns)
            given = found.options_of(options, file) | _gains_of(found, gains)
            golden = function_at(found.read)(file, strict, absent_docs, catalogue, **given)
            _check_values(golden)
    else:
        name, value = _content(chosen, "golden")
        found = _choose(value, "golden", format, columns)
        given = found.options_of(options, Path(name)) | _gains_of(found, gains)
        value = value if found is GOLDEN_TABLE else _pandas(value)
        with without_collector():
            golden = function_at(found.read)(value, strict, absent_docs, catalogue, **given)
    if gains is not None:
        golden = _with_gains(golden, gains, name)
    _warn_of_expectations(golden, name, found is GOLDEN_TABLE)
    return golden if turns is None else _with_turns(golden, turns, name)


def _checked_gains(gains: Any) -> dict[str, float] | None:
    """Return `gains=` by grades as text.

    Raises
    ------
    DataError
        Anything but grades with numbers from 0, one of which is more.
    """
    if gains is None:
        return None
    check_type(gains, Mapping, "gains", GAINS_ALLOWED)
    found = {key_of(grade): gain for grade, gain in gains.items()}
    is_gain = [
        isinstance(one, (int, float)) and not isinstance(one, bool) and 0 <= one < 2**31
        for one in found.values()
    ]
    if len(found) < len(gains) or not all(is_gain) or not any(found.values()):
        raise DataError(f"found {excerpt(gains)}", field="gains", allowed=GAINS_ALLOWED)
    return {grade: float(gain) for grade, gain in found.items()}


def _gains_of(found: Format, gains: dict[str, float] | None) -> dict[str, Any]:
    """Return the option of a reader that knows how grades are written; others are told after."""
    return {"gains": gains} if gains is not None and "gains" in found.options else {}


def _with_gains(golden: Golden, gains: dict[str, float], name: str | Path) -> Golden:
    """Return a golden set whose grades are levels of these gains, whether all occur or not."""
    if "gain" in golden.targets:
        gain = golden.targets["gain"]
    else:
        written = golden.targets["grade"].map(key_of)
        if unknown := sorted({*written} - gains.keys()):
            raise DataError(
                f"grade {unknown[0]}", file=name, field="grade",
                allowed=f"one of {name_list(gains)}, as gains= has them",
            )  # fmt: skip
        gain = written.map(gains)
    level = {gain: number for number, gain in enumerate(sorted({0.0, *gains.values()}))}
    targets = golden.targets.assign(grade=gain.map(level).astype("int32"), gain=gain)
    return replace(golden, targets=targets.astype({"gain": "float64"}))


def _with_turns(golden: Golden, pattern: str, name: str | Path) -> Golden:
    """Return the golden set with the conversation and the turn that ids name."""
    check_type(pattern, str, "turns", "a pattern")
    groups = ("conversation", "turn")
    try:
        known = re.compile(pattern).groupindex.keys()
    except re.error as error:
        raise DataError(f"no pattern ({error})", field="turns", allowed=TURNS_ALLOWED) from error
    if set(known) != set(groups):
        raise DataError(
            f"a pattern with groups {name_list(known) or 'none'}", field="turns",
            allowed=TURNS_ALLOWED,
        )  # fmt: skip
    found = golden.queries["query_id"].str.extract(f"^(?:{pattern})$")
    if (without := found["conversation"].isna()).all():
        raise DataError(
            f"none of the {len(found)} ids fits, such as"
            f" {golden.queries['query_id'].iloc[0]!r}",
            file=name, field="turns", allowed=TURNS_ALLOWED,
        )  # fmt: skip
    if without.any():
        warn(f"{name}: {plural(int(without.sum()), 'query')} of {len(found)} in no conversation")
    return replace(golden, queries=golden.queries.assign(**{one: found[one] for one in groups}))


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


GAINS_ALLOWED = '{"E": 1, "S": 0.1, "C": 0.01, "I": 0}: a gain from 0 for each grade'
TURNS_ALLOWED = 'a pattern such as "(?P<conversation>[0-9]+)_(?P<turn>[0-9]+)"'
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
        turn (a query needs no id beside these two), and `score.<metric>`, `reason.<metric>`,
        `scorer_error.<metric>` for stored values. Other columns are kept as `x_<name>`.
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
    renames: list[Callable[[Results], Results] | None] = []
    for one in _sources(source):
        rename = None
        _check_side(one, Golden, "results")
        if isinstance(one, Results):
            parts.append(one)
        elif isinstance(one, Path):
            with size_limit(max_bytes), naming(one), without_collector():
                found = _choose(one, "results", format, columns)
                parts.append(_read_run(one, found, columns, run_id, strict, ties, calls_from))
                _check_values(parts[-1])
            rename = found.rename_runs if run_id is None else None
        else:
            with without_collector():
                _, value = _content(one, "results")
                found = _choose(value, "results", format, columns)
                value = value if found is RESULT_TABLE else _pandas(value)
                parts.append(_read_run(value, found, columns, run_id, strict, ties, calls_from))
        renames.append(partial(rename, one) if rename else None)
    if run_id is not None and len(parts) > 1:
        raise DataError(
            f"{run_id!r} for {len(parts)} sources", field="run_id", allowed="one source"
        )
    if twice := _repeated_names(parts):
        parts = [
            rename(part) if rename and twice & _names(part) else part
            for part, rename in zip(parts, renames, strict=True)
        ]
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


def with_labels(source: Any) -> tuple[Results, list[tuple[Results, Golden]]]:
    """Load runs, and the labels that stand beside them in files of other tools.

    Returns
    -------
    All runs; and for each file that has labels, its runs and these.
    """
    if isinstance(source, Results):
        return source, []
    parts: list[Results] = []
    labelled: list[tuple[Results, Golden]] = []
    beside = {tool.name: tool for tool in TOOLS}
    for one in _sources(source):
        parts.append(load_results(one))
        if not isinstance(one, Path):
            continue
        found = beside.get(_choose(one, "results", None, None).name)
        if found is None:
            continue
        with naming(one):
            golden = labels_beside(found, one)
        if golden is not None:
            labelled.append((parts[-1], golden))
    if len(parts) == 1:
        return parts[0], labelled
    if _repeated_names(parts):
        return load_results(source), []
    return Results.concat(parts), labelled


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
    if "mapping" in frames:
        frames["mapping"] = frames["mapping"].drop_duplicates(ignore_index=True)
    return Golden(**frames)


def _sources(source: Any) -> list[Any]:
    """Return each file, frame, dict or list of records of what `load_results` was given."""
    if isinstance(source, (str, os.PathLike)):
        return list(_files(source))
    if isinstance(source, (list, tuple)) and source:
        if not isinstance(source[0], Mapping) and not hasattr(source[0], "_fields"):
            if all(isinstance(one, (str, os.PathLike)) for one in source):
                return list(_files(list(source)))
            return [part for one in source for part in _sources(one)]
    elif isinstance(source, (list, tuple)):
        raise DataError("no file given", field="source", allowed="at least one file or record")
    return [source]


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
        rows = records_of_hits(source) if side == "results" else None
        return "dict", source if rows is None else record_table(rows, "dict")
    if isinstance(source, (list, tuple)):
        # Named tuples are records, too: ir_measures and ir_datasets have them.
        records = [one._asdict() if hasattr(one, "_asdict") else one for one in source]
        return "records", record_table(records)
    return "frame", frame_of(source, _SHAPES[side])


_SHAPES = {
    "results": "a path, a frame, a list of records, {query: [ids]} or {run: {query: [ids]}}",
    "golden": "a path, a frame, a list of records, {query: [ids]} or {query: {id: grade}}",
}


def _pandas(content: Any) -> pd.DataFrame:
    """Return a table as the frame that an importer of a tool reads."""
    frame: pd.DataFrame = content.frame
    return frame


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

    With `columns` only the formats that have columns are looked at.
    """
    table, what = TABLES[side], "results" if side == "results" else "golden files"
    with_columns = [one for one in formats_of(side) if "columns" in one.options]
    if isinstance(source, Mapping):
        if format not in (None, table.name):
            raise DataError(
                f"format={format!r} for a dict", field="format", allowed="no format, or a path"
            )
        return table
    if not isinstance(source, Path):
        seen = Sample(Path(source.name), "frame", frozenset(source.fields))
        return matching_format(seen, with_columns, format, what, table, table)
    if columns is not None and format is None:
        return matching_format(sample(source), with_columns, None, what, table, table)
    return choose_format(source, formats_of(side), format, what, table)


def _read_run(
    source: Any,
    found: Format,
    columns: Columns | None,
    run_id: str | None,
    strict: bool,
    ties: str,
    calls_from: Mapping[str, str] | None,
) -> Results:
    given = {
        "columns": columns,
        "calls_from": calls_from,
        "run_id": run_id if "run_id" in found.options else None,
        "ties": ties if "ties" in found.options else None,
    }
    place = source if isinstance(source, Path) else Path("frame")
    results: Results = function_at(found.read)(source, strict, **found.options_of(given, place))
    if "ties" not in found.options and ties != "file":
        results = ranked_again(results, rank_hits(results.hits, ties))
    if run_id is None or "run_id" in found.options:
        return results
    if len(results.runs) != 1:
        raise DataError(
            f"{run_id!r} for {len(results.runs)} runs",
            file=place,
            field="run_id",
            allowed="a source with one run",
        )
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
    """Refuse infinite numbers and endless ids that a reader let pass, so that none is ever stored.

    Readers refuse them with their line; this is the door that no reader can forget.
    """
    for item in fields(loaded):
        frame = getattr(loaded, item.name)
        for name in [] if frame is None else frame.columns:
            column, place = frame[name], f"{item.name}.{name}"
            if place == "hits.score":  # only told apart from others: the logarithm of 0 is one
                continue
            if is_float_dtype(column.dtype):
                if np.isinf(column.to_numpy("float64", na_value=np.nan)).any():
                    raise DataError("an infinite number", field=place, allowed="finite numbers")
            elif has_limits() and str(name).endswith("_id"):
                longest = _longest(column)
                if longest > LONGEST_ID:
                    raise DataError(
                        f"an id of {longest:,} characters", field=place, allowed=ID_ALLOWED
                    )


def _longest(column: pd.Series) -> int:
    texts = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    if not isinstance(texts.dtype, pd.StringDtype):
        return 0
    return pc.max(pc.binary_length(pa.chunked_array(pa.array(texts.array)))).as_py() or 0


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
        matches = _matches(str(path)) if is_pattern else [str(path)]
        if not matches:
            raise DataError(f"no file matches {path}", field="paths")
        found += [file for match in matches for file in _files_of(Path(match))]
    if not found:
        raise DataError("no file given", field="paths")
    _check_exists(found)
    return found


def _matches(pattern: str) -> list[str]:
    """Return what a pattern matches, sorted; beside runs, a README is no run."""
    found = sorted(glob(pattern))
    return [name for name in found if not name.endswith(".md")] or found


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


def _check_path(given: object, types: tuple[type, ...], field: str, allowed: str) -> None:
    if not isinstance(given, types):
        raise DataError(f"found {excerpt(given)}", field=field, allowed=allowed)

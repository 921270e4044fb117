"""Files beside a run or a corpus: `run.json`, `judgments.jsonl` and the documents of a corpus.

`run.json` describes a run and becomes one row of the runs frame. `judgments.jsonl` holds one
verdict per line, with fields named as the columns of the judgments frame. A documents file (JSON
lines) tells what there is to find, and which document replaces which.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from ragscore.frames.data import KINDS, DataError, Results, check_type, empty
from ragscore.frames.errors import warn
from ragscore.io.files import check_one_run, write_lines
from ragscore.io.run_records import Fields, Frames, Level, Reader
from ragscore.io.source import (
    Problems,
    as_id,
    as_text,
    describe,
    json_rows,
    parse_json,
)
from ragscore.io.values import (
    ID_ALLOWED,
    FieldReader,
    extra_fields,
    flatten,
    is_int,
    row_dicts,
)

# Fields of a run that are columns, and their types
RUN = {
    **dict.fromkeys(("system", "suite", "config_hash", "golden_hash", "note"), "text"),
    **dict.fromkeys(("repeat", "n_queries", "n_failed"), "whole"),
    **{"commit": "text", "chunker_version": "text", "k": "positive", "created_at": "time"},
}
RUN_NAMES = frozenset(
    (*RUN, "run_id", "config", "config_snapshot", "config_snapshot_json", "commit_hash")
)


DOCUMENT: Fields = {
    "version_key": ("version_key", "id"),
    "effective_timestamp": ("effective_timestamp", "integer"),
    "superseded_by": ("superseded_by", "id"),
    "doc_type": ("doc_type", "text"),
    "path": ("path", "text"),
}
_TYPES = {"str": "text", "float64": "number", "Int64": "whole"}
JUDGMENT: Fields = {
    name: (name, _TYPES[dtype])
    for name, dtype in KINDS["judgments"].dtypes.items()
    if name not in ("run_id", "query_id", "criterion")
}


def run_record(
    described: dict[str, Any],
    file: Path | str,
    *,
    lines: dict[str, int] | None = None,
    problems: Problems | None = None,
) -> dict[str, Any]:
    """Return one row of the runs frame from the content of a `run.json`.

    Fields without a column go to `x_*`.
    """
    reader = FieldReader(described, "", None, problems or Problems(file, strict=True), lines=lines)
    for name in described:
        reader.problems.typos.check([name], RUN_NAMES, reader.lines.get(name, 1))
    if (run_id := as_id(reader.pop("run_id"))) is None:
        has_id = "run_id" in described
        raise DataError(
            f"found {describe(described['run_id'])}" if has_id else "the field is missing",
            file=file,
            line=reader.lines.get("run_id"),
            field="run_id",
            allowed=ID_ALLOWED,
        )
    snapshot = snapshot_of(reader.pop("config_snapshot", "config_snapshot_json"))
    config = reader.values.pop("config", snapshot)
    settings = config if isinstance(config, dict) else {}
    run: dict[str, Any] = {
        "run_id": run_id,
        "config": json.dumps(config, ensure_ascii=False, sort_keys=True),
    }
    for name, type in RUN.items():
        synonym = ["commit_hash"] if name == "commit" else []
        run[name] = reader.take(type, name, *synonym)
    if run["chunker_version"] is None:
        run["chunker_version"] = as_text(settings.get("chunker_version"))
    if described.get("k") is None:
        ks = (settings.get(name) for name in ("eval_k", "k"))
        run["k"] = next((k for k in ks if is_int(k) and 1 <= k < 2**63), None)
    known = {name: value for name, value in run.items() if value is not None}
    return known | flatten(reader.values)


def snapshot_of(stored: Any) -> Any:
    """Return a stored config snapshot; text that isn't JSON, or of no finite number, stays text."""
    if not isinstance(stored, str):
        return {} if stored is None else stored
    try:
        return parse_json(stored or "{}")
    except (ValueError, RecursionError):
        return stored


def run_description(runs: pd.DataFrame) -> dict[str, Any]:
    """Return the first row of a runs frame as the content of `run.json`, without missing values."""
    run = next(row_dicts(runs))
    run["run_id"] = str(run["run_id"])
    if "config" in run:
        run["config"] = snapshot_of(run["config"])
    if "created_at" in run:
        run["created_at"] = run["created_at"].isoformat().replace("+00:00", "Z")
    return _with_extra_nested(run, "runs")


def _with_extra_nested(row: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a row with its `x_` columns as the fields they came from."""
    extra = extra_fields(row, frozenset(KINDS[kind].dtypes), kind)
    return {name: value for name, value in row.items() if not name.startswith("x_")} | extra


def load_documents(path: str | os.PathLike[str], *, strict: bool = True) -> pd.DataFrame:
    """Load the documents of a corpus: one JSON object a line.

    `doc_id` is required. Versions of one document share a `version_key`. `effective_timestamp` (a
    whole number, in any unit that orders them) tells from when on a version holds, `superseded_by`
    names the document that replaces it. `doc_type` or `path` give the type by which
    a chatbot's `metrics.json` counts what is indexed, including types of which nothing is.

    Parameters
    ----------
    strict
        False loads what can be loaded: records without an id of their own are left out, other
        faulty values are unknown. One warning counts the faults.

    Returns
    -------
    The documents frame, one row per document: doc_id and whichever of version_key,
    effective_timestamp, superseded_by, doc_type and path the file has; other fields as `x_<name>`.
    It belongs in `Results.documents`, or goes straight to `rs.extras.freshness`.

    Raises
    ------
    DataError
        File, line and field of a record that can't be read, or of a document that stands there
        twice.
    """
    problems = Problems(Path(path), strict)
    reader = Reader(
        lambda record: _columns(record, "documents", DOCUMENT),
        problems,
        keys={"doc_id": "doc_id"},
        once="one record per document",
    )
    reader.read(json_rows(Path(path), reader.faults))
    documents = reader.frames().get("documents", empty("documents"))
    if faults := problems.records:
        first = DataError(**faults[0])
        warn(f"{len(faults)} faults left out, first {first}")
    return documents


def _columns(record: Level, kind: str, fields: Fields) -> Frames:
    columns = record.columns(fields)
    record.extras(columns)
    return [(kind, np.arange(len(record)), columns)]


JUDGMENTS_FILE = "judgments.jsonl"
LEDGER_FILE = "judge_ledger.jsonl"


def write_judgments(results: Results, path: str | Path) -> Path:
    """Write the judgments of one run as `judgments.jsonl`.

    `rs.load_results` reads the file with the run's `per_query.jsonl` beside it.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    path
        The run's folder, or a file that ends in .jsonl.

    Raises
    ------
    DataError
        No run or more than one, or no judgments.
    """
    check_type(results, Results, "results")
    check_one_run(results)
    if results.judgments is None:
        raise DataError(
            "the run has no judgments", field="results.judgments", allowed="those of rs.judge"
        )
    file = Path(path) if str(path).endswith(".jsonl") else Path(path) / JUDGMENTS_FILE
    rows = row_dicts(results.judgments.drop(columns="run_id"))
    return write_lines(file, (_with_extra_nested(row, "judgments") for row in rows))


def read_judgments(file: Path, run_id: str, problems: Problems) -> pd.DataFrame:
    """Return the judgments beside a run's file."""
    faults = problems.for_file(file)
    keys = {name: name for name in ("query_id", "criterion")}
    reader = Reader(_judgment_columns, faults, keys, once="")
    reader.read(json_rows(file, reader.faults))
    return reader.frames(run_id).get("judgments", empty("judgments"))


def _judgment_columns(record: Level) -> Frames:
    """Return the columns of a batch of judgments; the run is the one beside which they stand."""
    record.fields.pop("run_id", None)
    item = pc.fill_null(record.take("item", "text"), "")
    ((kind, row, columns),) = _columns(record, "judgments", JUDGMENT)
    return [(kind, row, columns | {"item": item})]

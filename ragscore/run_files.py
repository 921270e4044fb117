"""The files of a stored run: Parquet tables and JSON, written whole or not at all; one that can't be read is named."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.frames import KINDS, DataError, conform

_TEXTS_OF_FEW_VALUES = ("path", "heading", "chunker_version", "span_unit", "score_kind", "rule", "level")


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"not valid JSON ({error})", file=file) from error
    if not isinstance(content, dict):
        raise DataError("not a JSON object", file=file)
    return content


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write a JSON object; NaN is refused, it has no place in JSON."""
    staging = file.with_name(f".{file.name}.staging")
    staging.write_text(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    staging.replace(file)


def read_parquet(file: Path, columns: list[str] | None = None) -> pd.DataFrame:
    """A Parquet table, or these columns of it."""
    if not file.exists():
        raise DataError("the file is not there", file=file, allowed="save the run again")
    try:
        return pd.read_parquet(file, columns=columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"not a readable Parquet file ({error})", file=file, allowed="save the run again") from error


def column_names(file: Path) -> list[str]:
    """The columns of a Parquet table, without reading it."""
    try:
        return list(pq.read_schema(file).names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"not a readable Parquet file ({error})", file=file, allowed="save the run again") from error


def read_frame(file: Path, kind: str) -> pd.DataFrame:
    """A table as a frame of this kind; columns that the kind doesn't know are left out."""
    frame = read_parquet(file)
    known, prefixes = KINDS[kind].dtypes, KINDS[kind].open_prefixes or ("\0",)
    kept = [name for name in frame.columns if name in known or str(name).startswith(prefixes)]
    try:
        return conform(frame[kept], kind)
    except DataError as error:
        raise DataError(error.found, file=file, field=error.field, allowed=error.allowed) from error


def write_frame(file: Path, frame: pd.DataFrame, run_id: str) -> None:
    """Write a frame of one run; every table carries its run, also one whose rows are shared by all runs."""
    with_run = frame if "run_id" in frame else frame.assign(run_id=run_id)
    write_parquet(file, with_run.assign(run_id=pd.Categorical(with_run["run_id"].astype("str").fillna(run_id), categories=[run_id])))


def write_parquet(file: Path, frame: pd.DataFrame) -> None:
    """One row group per file, ids as dictionaries: small, and fast to join when read."""
    columns = {name: column.astype("category") if name == "run_id" else column for name, column in frame.items()}
    table = pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False)
    ids = [name for name in table.column_names if name.endswith("_id") or name in _TEXTS_OF_FEW_VALUES]
    staging = file.with_name(f".{file.name}.staging")
    pq.write_table(table, staging, compression="zstd", use_dictionary=ids, row_group_size=max(table.num_rows, 1), dictionary_pagesize_limit=2**27)
    staging.replace(file)


def check_columns(frame: pd.DataFrame, kind: str) -> None:
    """Refuse columns of your own that Parquet can't hold: values of several types in one column."""
    for name in [name for name, column in frame.items() if column.dtype == object]:
        try:
            pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(f"values of several types ({error})", field=f"{kind}.{name}", allowed="values of one type, such as text") from error

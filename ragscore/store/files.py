"""Read and write the files of a store: Parquet tables and JSON, whole or not at all.

They lie in a folder of this machine, or on any file system that fsspec knows. A `RemotePath` has as
much of `Path`'s interface as a store needs, so that the code is the same for both. Errors name the
file.
"""

import base64
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.frames.data import KINDS, conform
from ragscore.frames.errors import DataError

# A file this old shows a later write by its time: file systems keep times to a second at worst.
SETTLED_NS = 10**9


@dataclass(frozen=True)
class RemotePath:
    """A file or folder of an fsspec file system."""

    fs: Any
    path: str

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(self.fs, f"{self.path}/{name}")

    def __str__(self) -> str:
        return str(self.fs.unstrip_protocol(self.path))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> "RemotePath":
        """The enclosing folder."""
        return RemotePath(self.fs, self.path.rpartition("/")[0])

    def exists(self) -> bool:
        """Return whether it exists now, whatever fsspec has cached."""
        self.fs.invalidate_cache()
        return bool(self.fs.exists(self.path))

    def read_bytes(self) -> bytes:
        """Return the content of the file."""
        return bytes(self.fs.cat_file(self.path))


Place = Path | RemotePath


def place_of(root: str | Path, storage_options: dict[str, Any] | None = None) -> Place:
    """Return a folder by its path, or by a URL of a file system that fsspec knows.

    Parameters
    ----------
    storage_options
        Options for the file system: end point, credentials, and the like.

    Raises
    ------
    DataError
        The file system is unknown, or its package is missing; options are given for a folder of
        this machine.
    """
    scheme, has_scheme, rest = str(root).partition("://")
    if not has_scheme or scheme in ("file", "local"):
        if storage_options:
            raise DataError(
                f"found {', '.join(storage_options)}",
                file=str(root),
                field="storage_options",
                allowed="a URL such as s3://bucket/runs",
            )
        return Path(rest if has_scheme else root)
    try:
        from fsspec.core import url_to_fs

        fs, path = url_to_fs(str(root), **(storage_options or {}))
    except (ImportError, ValueError) as error:
        raise DataError(
            f"no file system for {scheme}:// ({error})",
            file=str(root),
            allowed="pip install 'ragscore[scale]'",
        ) from error
    return RemotePath(fs, str(path).rstrip("/"))


def arrow_source(file: Place) -> tuple[str, Any]:
    """Return a file's path and file system (None: this machine's), as pyarrow takes them."""
    return (str(file), None) if isinstance(file, Path) else (file.path, file.fs)


@contextmanager
def whole_file(file: Place) -> Iterator[Path]:
    """Yield a path to write to; `file` changes only when all is written."""
    if isinstance(file, Path):
        staging = file.with_name(f".{file.name}.staging")
        yield staging
        staging.replace(file)
    else:
        with TemporaryDirectory() as folder:
            staging = Path(folder) / file.name
            yield staging
            file.fs.put_file(str(staging), file.path)


def write_new(file: RemotePath, content: bytes) -> None:
    """Write a file that must not exist yet; of several writers at once, one succeeds.

    Raises
    ------
    FileExistsError
        The file exists already.
    """
    file.fs.invalidate_cache()
    with file.fs.open(file.path, "xb") as out:
        out.write(content)


def file_names(folder: Place) -> set[str]:
    """Return the names of all in a folder; none if it doesn't exist."""
    if isinstance(folder, Path):
        return set(os.listdir(folder)) if folder.is_dir() else set()  # noqa: PTH208
    folder.fs.invalidate_cache()
    listed = folder.fs.ls(folder.path, detail=False) if folder.fs.exists(folder.path) else []
    return {str(name).rstrip("/").rpartition("/")[2] for name in listed}


def remove(folder: RemotePath) -> None:
    """Remove a folder and all in it, if it exists."""
    file_names = folder.fs.find(folder.path) if folder.exists() else []
    if file_names:
        folder.fs.rm(file_names)


# By which object storages tell versions of a file apart, the surest first.
_VERSION_KEYS = ("ETag", "LastModified", "created", "mtime")


def stamps(root: Place, files: list[str]) -> list[str | None]:
    """Return a stamp of each file that changes with its content; None if it doesn't exist.

    The stamp is size, time and inode, or size and what the object storage offers.
    """
    if isinstance(root, Path):
        # Plain texts: making a Path of each takes longer than asking for thousands of files.
        return [_stamp_of(f"{root}/{file}") for file in files]
    root.fs.invalidate_cache()
    listed = root.fs.find(root.path, detail=True) if root.exists() else {}  # all in one request
    known = {
        str(name).lstrip("/"): (
            f"{info['size']} {next((info[key] for key in _VERSION_KEYS if info.get(key)), None)}"
        )
        for name, info in listed.items()
    }
    return [known.get(f"{root.path}/{file}".lstrip("/")) for file in files]


def _stamp_of(file: str | Path) -> str | None:
    try:
        found = os.stat(file)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def settled_stamp(file: Path) -> str | None:
    """Return the file's stamp; None right after a write, when another could leave the same one."""
    return _stamp_of(file) if time.time_ns() - file.stat().st_mtime_ns > SETTLED_NS else None


_TEXTS_OF_FEW_VALUES = (
    "path",
    "heading",
    "chunker_version",
    "span_unit",
    "score_kind",
    "rule",
    "level",
)
# Keys of a file's metadata: the response of the run that each row group begins at, and the number
# of rows of each response, where rows lie in the order of the responses.
RESPONSES_KEY = b"ragscore.responses"
LENGTHS_KEY = b"ragscore.lengths"
# The first row of each row group, and the first response that it holds rows of.
Groups = tuple[list[int], list[int]]
Lengths = npt.NDArray[np.int32]


def read_json(file: Place) -> dict[str, Any]:
    """Read a JSON object."""
    return json_object(file.read_bytes(), file)


def json_object(written: bytes, file: Place | str) -> dict[str, Any]:
    """Parse the content of a file, which must be a JSON object."""
    try:
        content = json.loads(written.decode("utf-8"))
    except ValueError as error:
        raise DataError(f"not valid JSON ({error})", file=str(file)) from error
    if not isinstance(content, dict):
        raise DataError("not a JSON object", file=str(file))
    return content


def json_bytes(content: dict[str, Any]) -> bytes:
    """Return a JSON object as the content of a file; NaN is refused, JSON has none."""
    return f"{json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)}\n".encode()


def write_json(file: Place, content: dict[str, Any]) -> None:
    """Write a JSON object, whole or not at all."""
    written = json_bytes(content)
    with whole_file(file) as staging:
        staging.write_bytes(written)


def read_parquet(file: Place, columns: list[str] | None = None) -> pd.DataFrame:
    """Read a Parquet table, or these columns of it."""
    if not file.exists():
        raise _missing(file)
    source, filesystem = arrow_source(file)
    try:
        return pd.read_parquet(source, columns=columns, filesystem=filesystem)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(
            f"not a readable Parquet file ({error})", file=str(file), allowed="save the run again"
        ) from error


def _missing(file: Place) -> DataError:
    names = file_names(file.parent)
    if "metrics.json" in names and not any(name.endswith(".parquet") for name in names):
        return DataError(
            "the file is not there, nor is any table of the run",
            file=str(file),
            allowed="the run's Parquet files, copied to this place, or the run saved again; without"
            " them store.runs(), store.metrics(), store.trend(metric) and store.evaluate(golden)"
            " read its means",
        )
    return DataError("the file is not there", file=str(file), allowed="save the run again")


@contextmanager
def open_parquet(file: Place, read_dictionary: list[str] | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file to read parts of it; columns of `read_dictionary` stay codes."""
    if not isinstance(file, Path) and not file.exists():
        raise _missing(file)
    source, filesystem = arrow_source(file)
    try:
        with pq.ParquetFile(
            source, filesystem=filesystem, read_dictionary=read_dictionary or None
        ) as opened:
            yield opened
    except FileNotFoundError as error:
        raise _missing(file) from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"not a readable Parquet file ({error})", file=str(file), allowed="save the run again"
        ) from error


def columns_without(file: pq.ParquetFile, without: tuple[str, ...]) -> list[str]:
    """Return the column names of a table except these; "x_*" are all columns of your own."""
    return [
        name
        for name in file.schema_arrow.names
        if name not in without and not ("x_*" in without and name.startswith("x_"))
    ]


def known_columns(names: Iterable[str], kind: str) -> list[str]:
    """Return the names of columns that are declared for this kind of frame."""
    known, prefixes = KINDS[kind].dtypes, KINDS[kind].open_prefixes or ("\0",)
    return [name for name in names if name in known or str(name).startswith(prefixes)]


def read_frame(file: Place, kind: str) -> pd.DataFrame:
    """Read a table as a frame of this kind, without undeclared columns."""
    frame = read_parquet(file)
    try:
        return conform(frame[known_columns(frame.columns, kind)], kind)
    except DataError as error:
        raise DataError(
            error.found, file=str(file), field=error.field, allowed=error.allowed
        ) from error


def write_frame(
    file: Place,
    frame: pd.DataFrame,
    run_id: str,
    groups: Groups | None = None,
    lengths: Lengths | None = None,
) -> None:
    """Write a frame of one run; every table carries its run, shared frames too."""
    rows, notes = None, {}
    if groups is not None:
        rows, notes[RESPONSES_KEY] = groups[0], json.dumps(groups[1])
    if lengths is not None:
        notes[LENGTHS_KEY] = packed(lengths)
    write_parquet(file, of_run(frame, run_id), rows, notes)


def of_run(frame: pd.DataFrame, run_id: str) -> pd.DataFrame:
    """Return the frame with the run in every row."""
    with_run = frame if "run_id" in frame else frame.assign(run_id=run_id)
    return with_run.assign(
        run_id=pd.Categorical(with_run["run_id"].astype("str").fillna(run_id), categories=[run_id])
    )


def write_parquet(
    file: Place,
    frame: pd.DataFrame,
    rows: list[int] | None = None,
    notes: dict[bytes, str] | None = None,
) -> None:
    """Write a table. Ids are written as dictionaries: small, and fast to join when read.

    Parameters
    ----------
    rows
        The first rows of its row groups; one group by default.
    notes
        Values for the file's metadata. They are not in the schema, so whoever writes the table
        elsewhere, in another order, doesn't carry them along.
    """
    table = as_table(frame)
    with (
        whole_file(file) as staging,
        pq.ParquetWriter(staging, table.schema, **_options(table)) as writer,
    ):
        for first, last in pairwise([*(rows or [0]), table.num_rows]):
            writer.write_table(
                table.slice(first, last - first), row_group_size=max(last - first, 1)
            )
        writer.add_key_value_metadata(notes or {})


def as_table(frame: pd.DataFrame) -> pa.Table:
    """Return the arrow table that is written of a frame."""
    columns = {
        name: column.astype("category") if name == "run_id" else column
        for name, column in frame.items()
    }
    return pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False)


def packed(lengths: Lengths) -> str:
    """Pack numbers of rows for a file's metadata; mostly all are equal and compress well."""
    return base64.b64encode(zlib.compress(lengths.astype("<i4").tobytes(), 1)).decode("ascii")


def lengths_of(file: pq.ParquetFile) -> Lengths | None:
    """Return the number of rows of each response; None if the file doesn't say it legibly."""
    try:
        return np.frombuffer(
            zlib.decompress(base64.b64decode((file.metadata.metadata or {})[LENGTHS_KEY])), "<i4"
        )
    except (KeyError, ValueError, zlib.error):
        return None


def write_groups(
    file: Place, tables: Iterable[tuple[pa.Table, int]], lengths: Lengths | None = None
) -> list[int]:
    """Write tables of the same columns as the row groups of one file.

    Each comes with the response that it begins at. Return those.
    """
    begins: list[int] = []
    with whole_file(file) as staging, ExitStack() as stack:
        for table, begin in tables:
            if not begins:
                writer = stack.enter_context(
                    pq.ParquetWriter(staging, table.schema, **_options(table))
                )
            writer.write_table(table, row_group_size=max(len(table), 1))
            begins.append(begin)
        if len(begins) > 1:
            writer.add_key_value_metadata({RESPONSES_KEY: json.dumps(begins)})
        if begins and lengths is not None:
            writer.add_key_value_metadata({LENGTHS_KEY: packed(lengths)})
    return begins


def _options(table: pa.Table) -> dict[str, Any]:
    ids = [
        name for name in table.column_names if name.endswith("_id") or name in _TEXTS_OF_FEW_VALUES
    ]
    return {"compression": "zstd", "use_dictionary": ids, "dictionary_pagesize_limit": 2**27}


def check_columns(frame: pd.DataFrame, kind: str) -> None:
    """Refuse columns that Parquet can't hold: values of several types."""
    for name in [name for name, column in frame.items() if column.dtype == object]:
        try:
            pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"values of several types ({error})",
                field=f"{kind}.{name}",
                allowed="values of one type, such as text",
            ) from error

"""Rows of a table, whatever holds it.

In: a path (CSV, JSON lines, a JSON array, `{columns, data}`, Parquet) or a DataFrame. Out: `Row`s
of plain Python values (None = missing). Every fault has its line.
"""

import ast
import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.io.files import open_bytes, read_text
from ragscore.io.source import (
    DEEPEST,
    InfiniteNumber,
    Problems,
    Row,
    YamlDate,
    json_fault,
    json_rows,
    parse_json,
    refuse_depth,
)

Source = Path | pd.DataFrame
CELL_LIMIT = 1 << 24
"""The longest CSV cell. One cell may hold all retrieved texts of a query; csv's limit is 128 KB."""


def table_rows(source: Source, problems: Problems) -> Iterator[Row]:
    """Yield one row per record; one that isn't a mapping is a problem.

    The line of a frame's row is its number, from 1.
    """
    if isinstance(source, pd.DataFrame):
        yield from _frame_rows(source)
        return
    name = source.name.removesuffix(".gz")
    if name.endswith(".parquet") or _begins(source, b"PAR1"):
        yield from _parquet_rows(source)
    elif _begins(source, b"[") or name.endswith(".json"):
        yield from _json_array(source, problems)
    elif _begins(source, b"{") or name.endswith(".jsonl"):
        yield from json_rows(source, problems)
    else:
        yield from _csv_rows(source, problems)


def json_value(path: Path, allowed: str = "one JSON value") -> Any:
    """Return the one JSON value that a file holds.

    Raises
    ------
    DataError
        Not JSON: cut short, nested too deeply, a key twice, half a surrogate pair.
    """
    try:
        return parse_json(read_text(path))
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(**json_fault(error), file=path, allowed=allowed) from error


def _begins(path: Path, mark: bytes) -> bool:
    with open_bytes(path) as opened:
        return opened.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(mark)


def _json_array(path: Path, problems: Problems) -> Iterator[Row]:
    if not _begins(path, b"[") and _are_lines(path):
        yield from json_rows(path, problems)  # whatever the file's name
        return
    value = json_value(path)
    if isinstance(value, dict):
        columns, data = value.get("columns"), value.get("data")
        value = [value]
        if isinstance(columns, list) and isinstance(data, list):
            value = [
                dict(zip(columns, cells, strict=False)) if isinstance(cells, list) else cells
                for cells in data
            ]
    for number, record in enumerate(value if isinstance(value, list) else [value], 1):
        if isinstance(record, dict):
            yield Row({str(key): cell for key, cell in record.items()}, number)
        else:
            problems.reject(record, number, None, "an array of JSON objects")


def _are_lines(path: Path) -> bool:
    """Return True for a file whose first line is a JSON object, and not its last."""
    with open_bytes(path) as opened:
        begin = next((line for line in opened if line.strip()), b"")
        rest = opened.read(1 << 10).decode(errors="replace")
    first, _, more = begin.decode("utf-8-sig", errors="replace").strip().partition("\r")
    return bool((more + rest).strip()) and isinstance(nested(first), dict)


def _csv_rows(path: Path, problems: Problems) -> Iterator[Row]:
    """Yield cells as text, empty ones as None; more or fewer than in the header is a problem."""
    csv.field_size_limit(CELL_LIMIT)
    text = read_text(path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(text))
    try:
        header = next(reader, [])
        if twice := sorted({name for name in header if header.count(name) > 1}):
            raise DataError(
                f"column {twice[0]!r} appears twice", file=path, line=1, allowed="each column once"
            )
        begins = reader.line_num + 1
        for cells in reader:
            if len(cells) == len(header):
                yield Row(
                    {name: cell or None for name, cell in zip(header, cells, strict=True)}, begins
                )
            elif cells:
                problems.add(
                    f"{len(cells)} cells under a header of {len(header)}",
                    line=begins,
                    allowed="as many cells as columns",
                )
            begins = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"not readable as CSV ({error})", file=path, line=reader.line_num
        ) from error


def _parquet_rows(path: Path) -> Iterator[Row]:
    from ragscore.io.files import read_parquet

    for number, record in enumerate(read_parquet(path).to_pylist(), 1):
        yield _plain_row(record, number, path)


def _frame_rows(frame: pd.DataFrame) -> Iterator[Row]:
    columns = [str(name) for name in frame.columns]
    for number, cells in enumerate(frame.itertuples(index=False, name=None), 1):
        yield _plain_row(dict(zip(columns, cells, strict=True)), number, "frame")


def _plain_row(cells: dict[str, Any], number: int, file: Path | str) -> Row:
    return Row({name: plain_cell(one, name, number, file) for name, one in cells.items()}, number)


def plain_cell(
    cell: Any, field: str = "source", line: int | None = None, file: Path | str | None = None
) -> Any:
    """Return a cell as plain Python values, or refuse what no file could hold."""
    try:
        return plain(cell)
    except NOT_PLAIN as error:
        raise DataError(
            f"a value can't be taken ({error})",
            file=file,
            line=line,
            field=field,
            allowed="text, finite numbers, lists and mappings of them",
        ) from error


DELIMITERS = ",\t;|"


def first_cells(text: str) -> list[str]:
    """Return the cells of a table's first line; none where CSV can't be read."""
    with suppress(csv.Error, StopIteration):
        return next(csv.reader(text.lstrip("\ufeff").splitlines(), delimiter=delimiter_of(text)))
    return []


def delimiter_of(text: str) -> str:
    """Return what separates the cells of a table's first line: comma, tab, semicolon or bar."""
    header = next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")
    return max(DELIMITERS, key=header.count)


NOT_PLAIN = (UnicodeEncodeError, InfiniteNumber, RecursionError)


def _of_file(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        raise InfiniteNumber(str(value))
    if isinstance(value, str) and not value.isascii():
        value.encode()  # half a surrogate pair is no text: UnicodeEncodeError, a ValueError
    return YamlDate(value) if isinstance(value, (datetime, date)) else value


def plain(value: Any, scalar: Callable[[Any], Any] = _of_file, depth: int = DEEPEST) -> Any:
    """Return a value of Python, numpy or pandas as lists and dicts of what `scalar` gives.

    NaN, NaT and NA are None. Half a surrogate pair and an infinite number are errors unless
    `scalar` takes them, endless nesting always; all three are in `NOT_PLAIN`.
    """
    if isinstance(value, str):
        return scalar(value)
    if not depth:
        raise RecursionError(f"it is nested deeper than {DEEPEST} levels")
    if type(value) not in (dict, list, int, float):
        if isinstance(value, pd.DataFrame):
            value = value.to_dict("records")
        elif isinstance(value, (np.ndarray, np.generic, pd.Series)):
            value = value.tolist()
        if isinstance(value, (set, frozenset)):
            value = sorted(value, key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(one, scalar, depth - 1) for one in value]
    if type(value) is dict or isinstance(value, Mapping):
        return {scalar(str(name)): plain(one, scalar, depth - 1) for name, one in value.items()}
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    return None if isinstance(value, float) and math.isnan(value) else scalar(value)


_ADJACENT = re.compile(r"""^\[\s*(?P<quote>['"])[^'",]*(?P=quote)\s+['"]""")


def nested(cell: Any) -> Any:
    """Return the list or mapping that a CSV cell holds as JSON or Python's repr, else the cell."""
    if not isinstance(cell, str) or cell.strip()[:1] not in ("[", "{"):
        return cell
    for parse in (parse_json, ast.literal_eval):
        if parse is ast.literal_eval and _ADJACENT.search(cell):
            return cell  # numpy's print of texts has no commas: Python would join them to one
        try:
            refuse_depth(cell)
            found = parse(cell.strip())
            if isinstance(found, (list, dict)):
                return plain(found)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return cell


@lru_cache(maxsize=4096)
def _ways(path: str) -> list[tuple[str, str]]:
    """Return each way to cut a dotted path in two, the longest name first."""
    parts = path.split(".")
    cuts = range(len(parts) - 1, 0, -1)
    return [(".".join(parts[:cut]), ".".join(parts[cut:])) for cut in cuts]


def value_at(values: Any, path: str, missing: Any = None) -> Any:
    """Return a value by its name, or by a dotted path; names on the path may have dots too.

    Texts on the way may hold JSON. In a list a number is a position; any other name gives the
    value of each of its mappings.
    """
    if isinstance(values, dict):
        if path in values:
            return values[path]
        for name, rest in _ways(path) if "." in path else ():
            if name in values:
                return value_at(nested(values[name]), rest, missing)
    elif isinstance(values, list):
        name, _, rest = path.partition(".")
        if name.isdecimal():
            inner = values[int(name)] if int(name) < len(values) else missing
            return value_at(inner, rest, missing) if rest else inner
        each = [value_at(one, path, missing) for one in values if isinstance(one, dict)]
        return each if len(each) == len(values) else missing
    return missing


LIST_ALLOWED = 'a list as JSON, such as ["a", "b"]'


def is_list_text(value: Any) -> bool:
    """Return True for text that looks like a list, but none that `nested` can read."""
    text = value.strip() if isinstance(value, str) else ""
    return text[:1] == "[" and text[-1:] == "]" and isinstance(nested(text), str)

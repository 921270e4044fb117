"""Text files whose lines are fields between white space, as columns.

White space is what C calls so (blank, tab, vertical tab, form feed, carriage return), any number
and mixture of it, as trec_eval splits lines. Blank lines, and lines that begin with `#`, count for
nothing. A regular file becomes columns without a Python object per line; `field_table` declines any
other, and `field_lines` reads line by line, so that each fault has its number.
"""

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ragscore.io.file_content import LONGEST_ID

_BLANKS = bytes.maketrans(b"\t\r\v\f", b"    ")
_FIELD = re.compile(r"[^ \t\r\v\f]+")
_COMMENT = re.compile(rb"(?m)^#[^\n]*$")


def split_fields(line: str) -> list[str]:
    """Return the fields of a line; none for a comment."""
    fields = _FIELD.findall(line)
    return [] if fields and fields[0].startswith("#") else fields


def field_lines(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, text and fields of each line that has any."""
    for number, line in enumerate(text.split("\n"), 1):
        if fields := split_fields(line):
            yield number, line, fields


def field_table(text: str, columns: dict[str, pa.DataType | None]) -> pa.Table | None:
    """Return the columns of a regular file.

    None where the file isn't regular, as with text after the last column: only `field_lines` can
    tell what is wrong with it, or right.

    Parameters
    ----------
    columns
        Name -> type, None for a column that isn't needed.
    """
    data = text.encode().translate(_BLANKS)
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")
    if data.startswith(b"#") or b"\n#" in data:
        data = _COMMENT.sub(b"", data)
    # Arrow takes hexadecimal numbers, which nobody means.
    if not data.strip() or b" 0x" in data or b" 0X" in data:
        return None
    table = _parsed(data, columns)
    return None if table is None or any(map(_is_irregular, table.columns)) else table


def _is_irregular(column: pa.ChunkedArray) -> bool:
    """Return True for a column with a missing value, or with a text too long for an id."""
    is_coded = pa.types.is_dictionary(column.type) and column.num_chunks > 0
    texts = column.unify_dictionaries().chunk(0).dictionary if is_coded else column
    is_text = not pa.types.is_primitive(texts.type)
    longest = pc.max(pc.binary_length(texts)).as_py() if is_text else 0
    return bool(column.null_count) or (longest or 0) > LONGEST_ID


def _parsed(data: bytes, columns: dict[str, pa.DataType | None]) -> pa.Table | None:
    from pyarrow import csv

    types = {name: dtype for name, dtype in columns.items() if dtype is not None}
    try:
        return csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=list(columns)),
            parse_options=csv.ParseOptions(
                delimiter=" ", quote_char=False, double_quote=False, newlines_in_values=False
            ),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=list(types), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None

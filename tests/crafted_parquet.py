"""Parquet files written byte by byte, so that footers and page headers can say what isn't so."""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

UNCOMPRESSED, ZSTD = 0, 6
INT32, INT64, DOUBLE, TEXT, FIXED = 1, 2, 5, 6, 7
PLAIN, RLE, DELTA_LENGTHS, DELTA_TEXTS, DICTIONARY = 0, 3, 6, 7, 8
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2


def varint(n: int) -> bytes:
    """An unsigned number, seven bits a byte."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def number(n: int) -> bytes:
    """A signed number as Thrift's compact protocol writes it."""
    return varint(n << 1 if n >= 0 else (-n << 1) - 1)


def thrift(fields: dict[int, Any]) -> bytes:
    """A struct: i32 as int, i64 as a 1-tuple, text as bytes, structs as dicts, lists as lists."""
    out, last = b"", 0
    for key, value in fields.items():
        kind, written = _value(value)
        out += bytes([(key - last) << 4 | kind]) + written
        last = key
    return out + b"\0"


def _value(value: Any) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return (1 if value else 2), b""
    if isinstance(value, int):
        return 5, number(value)
    if isinstance(value, tuple):
        return 6, number(value[0])
    if isinstance(value, bytes):
        return 8, varint(len(value)) + value
    if isinstance(value, dict):
        return 12, thrift(value)
    kind = _value(value[0])[0]
    n = len(value)
    head = bytes([n << 4 | kind]) if n < 15 else bytes([0xF0 | kind]) + varint(n)
    return 9, head + b"".join(_value(one)[1] for one in value)


def run_of(value: int, n: int, width: int = 1) -> bytes:
    """A value n times, as one run-length run; `width` is its bytes."""
    return varint(n << 1) + value.to_bytes(width, "little")


def levels(value: int, n: int) -> bytes:
    """Definition or repetition levels of a first-version page: one run."""
    run = run_of(value, n)
    return struct.pack("<I", len(run)) + run


def text(value: bytes) -> bytes:
    """A plain text: its length and its bytes."""
    return struct.pack("<I", len(value)) + value


@dataclass
class CraftedPage:
    """A page; `said` replaces fields of its header: type, 2 unpacked, 3 packed, 5 or 7 the kind."""

    content: bytes
    n: int
    encoding: int = PLAIN
    is_dictionary: bool = False
    said: dict[int, Any] = field(default_factory=dict)

    def written(self, codec: int) -> bytes:
        packed = self.content if codec == UNCOMPRESSED else _zstd(self.content)
        about = (
            {7: {1: self.n, 2: PLAIN}}
            if self.is_dictionary
            else {5: {1: self.n, 2: self.encoding, 3: RLE, 4: RLE}}
        )
        head = {1: 2 if self.is_dictionary else 0, 2: len(self.content), 3: len(packed)}
        return thrift(dict(sorted((head | about | self.said).items()))) + packed


def _zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


@dataclass
class CraftedColumn:
    """A column of one row group; `said` replaces fields of its footer entry."""

    name: bytes
    physical: int
    pages: list[CraftedPage]
    n: int
    codec: int = ZSTD
    repetition: int = REQUIRED
    length: int | None = None
    is_text: bool = True
    said: dict[int, Any] = field(default_factory=dict)


def craft(
    path: Path, columns: list[CraftedColumn], n_rows: int, said: dict[int, Any] | None = None
) -> Path:
    """Write the columns as a file of one row group of `n_rows`."""
    out = b"PAR1"
    schema: list[dict[int, Any]] = [{4: b"schema", 5: len(columns)}]
    chunks = []
    for column in columns:
        leaf: dict[int, Any] = {1: column.physical}
        if column.length is not None:
            leaf[2] = column.length
        leaf |= {3: column.repetition, 4: column.name}
        if column.physical == TEXT and column.is_text:
            leaf[6] = 0
        schema.append(leaf)
        start = len(out)
        places = {}
        for page in column.pages:
            places.setdefault(page.is_dictionary, len(out))
            out += page.written(column.codec)
        size = len(out) - start
        about: dict[int, Any] = {
            1: column.physical, 2: [one.encoding for one in column.pages], 3: [column.name],
            4: column.codec, 5: (column.n,),
            6: (sum(len(one.content) for one in column.pages),), 7: (size,),
            9: (places.get(False, start),),
        }  # fmt: skip
        if True in places:
            about[11] = (places[True],)
        chunks.append({2: (start,), 3: dict(sorted((about | column.said).items()))})
    group = {1: chunks, 2: (sum(len(one.pages) for one in columns),), 3: (n_rows,)}
    footer = {1: 1, 2: schema, 3: (n_rows,), 4: [group]} | (said or {})
    written = thrift(footer)
    path.write_bytes(out + written + struct.pack("<I", len(written)) + b"PAR1")
    return path

"""Detect the format of a file from its content.

In: a path. Out: a `Sample` of the file, and the one `Format` of a table that it fits. A file that
fits several formats or none is an error that names the candidates and the `format=` to pass.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, nearest
from ragscore.io.files import open_bytes, open_parquet
from ragscore.io.source import json_fields, refuse_depth

SAMPLE_BYTES = 1 << 20
TABLES = ("frame", "parquet", "text", "jsonl", "json")
"""Kinds of samples that may be tables."""

NOT_READ = {
    "mteb_version scores": 'pd.DataFrame(json.load(open(path))["scores"]["test"])',
    "schema_version evaluation_results":
        'pd.json_normalize(json.load(open(path))["evaluation_results"])',
    "schema_version evaluation_id sample_id":
        'pd.json_normalize(pd.read_json(path, lines=True).to_dict("records")).rename(columns='
        '{"sample_id": "query_id", "evaluation.score": "score.score"})',
    "instance_id train_trial_index stats":
        'pd.json_normalize(json.load(open(path)), "stats", "instance_id").pivot_table("mean",'
        ' "instance_id", "name.name").add_prefix("score.").rename_axis("query_id").reset_index()',
    "lm_eval_version results": 'pd.DataFrame(json.load(open(path))["results"]).T',
    "judgmentRatings":
        'pd.json_normalize(json.load(open(path))["judgmentRatings"], "ratings", ["query"])',
    "run_a run_b deltas": 'pd.DataFrame(json.load(open(path))["per_query"])',
}  # fmt: skip
"""What the files of other tools hold that aren't read -> the line that makes a frame of it: means
of MTEB, Every Eval Ever and lm-evaluation-harness, samples, HELM's stats, labels of OpenSearch,
kebab's comparisons."""


@dataclass(frozen=True)
class Sample:
    """The beginning of a file, by which its format is recognized.

    Attributes
    ----------
    kind
        folder, sqlite, parquet, zip, frame (a DataFrame), jsonl (its first line is a JSON object),
        json (the whole file is one JSON value), yaml, text, empty.
    keys
        The keys of its first JSON object or YAML mapping; for a folder or zip, the names in it; for
        a table, its columns.
    first
        That object, `{}` for other kinds.
    line
        The first line of a text file that is neither blank nor a comment (`#`).
    begin
        The beginning of the text, for JSON larger than the sample.
    """

    path: Path
    kind: str
    keys: frozenset[str] = frozenset()
    first: dict[str, Any] | None = None
    line: str = ""
    begin: str = ""

    def has(self, *names: str) -> bool:
        """Return True if all these keys (or, for a folder, names) are there."""
        return self.keys.issuperset(names)


class Mark:
    """What a file must hold to be of a format. Of several formats, the highest mark wins.

    Parameters
    ----------
    keys
        Names, apart by blanks, that the first record (or folder, or header) must all have.
    some
        Names of which it must have at least one.
    kinds
        Kinds of samples, such as `("jsonl",)`; any by default.
    test
        A further question to the sample.
    without
        Names that it must not have.

    Each name in `keys`, and each of `some` and `test`, counts 1.
    """

    def __init__(
        self, keys: str = "", some: str = "", kinds: tuple[str, ...] = (),
        test: Callable[[Sample], bool] | None = None, without: str = "",
    ) -> None:  # fmt: skip
        self.keys, self.some, self.without = ({*one.split()} for one in (keys, some, without))
        self.kinds, self.test = kinds, test

    def __call__(self, seen: Sample) -> int:
        """Return how much of what the mark asks for is there; 0 if anything lacks."""
        fits = (
            (not self.kinds or seen.kind in self.kinds)
            and seen.keys >= self.keys
            and (not self.some or bool(seen.keys & self.some))
            and not seen.keys & self.without
            and (self.test is None or self.test(seen))
        )
        return fits * max(len(self.keys) + bool(self.some) + (self.test is not None), 1)


@dataclass(frozen=True)
class Format:
    """One file format.

    Parameters
    ----------
    name
        What `format=` calls it.
    fits
        Its mark: takes a sample of a file, and returns how much of the format is there (0: none).
    read
        Its reader, which takes `(path, strict, **options)`.
    write
        Its writer, which takes results or a golden set and a path, which it returns. None if there
        is none.
    about
        What it is, how it is recognized, and what a golden set takes of it, for the manual.
    options
        Load options that only some formats have.
    suffixes
        Endings of paths that mean it when it is written. Of a file that can't be read, its reader
        names the line that is wrong.
    keeps
        What its writer keeps, apart by blanks: names of frames, of columns ("hits.score"), and how
        such names begin ("responses.x_"); `{level}` is its option. Saving names the rest.
    """

    name: str
    fits: Callable[[Sample], int]
    read: Callable[..., Any]
    write: Callable[..., Path] | None = None
    about: tuple[str, ...] = ("", "")
    options: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    keeps: str = ""


def options_of(
    format: str, given: dict[str, Any], known: Iterable[str], file: str | None = None
) -> dict[str, Any]:
    """Return the options that are not None; one that a format doesn't have is a DataError."""
    stated = {name: value for name, value in given.items() if value is not None}
    for name in sorted(stated.keys() - {*known}):
        raise DataError(
            f"{name}={stated[name]!r} means nothing in format {format}",
            file=file,
            field=name,
            allowed=f"one of {', '.join(known) or 'no options'}",
        )
    return stated


def sample(path: Path) -> Sample:
    """Return a sample of a file's beginning, or of the names in a folder."""
    if path.is_dir():
        return Sample(path, "folder", frozenset(one.name for one in path.iterdir()))
    with open_bytes(path) as opened:
        begin = opened.read(SAMPLE_BYTES)
    if begin.startswith(b"PAR1"):
        with suppress(DataError), open_parquet(path) as file:
            return Sample(path, "parquet", frozenset(file.schema_arrow.names))
    for mark, kind in _BINARY.items():
        if begin.startswith(mark):
            return Sample(path, kind)
    text = begin.decode("utf-8-sig", errors="replace").replace("\r", "\n")
    found = _LINE.search(text) or re.search(r"\S.*", text)
    line = found[0] if found else ""
    name = path.name.removesuffix(".gz")
    if not line or name.endswith((".yaml", ".yml")):
        return Sample(path, "yaml" if line else "empty", line=line)
    first = _json(line)
    is_alone = found is not None and not text[found.end() :].strip()
    if isinstance(first, dict) and not (first and name.endswith(".json") and is_alone):
        return Sample(path, "jsonl", frozenset(first), first, line, text)
    if line.lstrip()[0] in "[{":
        whole = first if first is not None else _json(text)
        top = whole[0] if isinstance(whole, list) and whole else whole
        keys: set[str] = set()
        if isinstance(top, dict):  # a table may be written as its columns and its rows
            is_split = {*top} == {"columns", "data"} and isinstance(top["columns"], list)
            keys = {*map(str, top["columns"] if is_split else top)}
        elif whole is None:  # cut by the sample: the keys of the first object that it shows
            with suppress(ValueError, RecursionError):
                keys.update(name for name, _ in json_fields(text))
        first = top if isinstance(top, dict) else None
        return Sample(path, "json", frozenset(keys), first, line, text)
    # a header line has commas, tabs or the like; other text has no names
    cells = first_cells(line)
    return Sample(path, "text", frozenset(cells) if len(cells) > 1 else frozenset(), line=line)


_LINE = re.compile(r"^[^\S\r\n]*[^#\s].*", re.MULTILINE)
_BINARY = {b"SQLite format 3\0": "sqlite", b"PAR1": "parquet", b"PK\x03\x04": "zip"}


def _json(text: str) -> Any:
    with suppress(ValueError, RecursionError):
        refuse_depth(text)
        return json.loads(text)
    return None


def choose_format(
    seen: Sample, formats: list[Format], name: str | None, what: str, table: Format
) -> Format:
    """Return the format called `name`, else the only one that a sample fits.

    What fits none is a `table`, if it has columns, else of the format that its ending names.

    Raises
    ------
    DataError
        An unknown format, or a file that fits several formats or none; the candidates are named.
    """
    by_name = {candidate.name: candidate for candidate in (*formats, table)}
    if name is not None:
        if not isinstance(name, str) or name not in by_name:
            raise DataError(
                f"unknown format {excerpt(name)}", field="format", allowed=nearest(name, by_name)
            )
        return by_name[name]
    if seen.kind == "empty":
        raise DataError("the file is empty", file=seen.path, allowed="at least one record")
    sure = {one.name: int(one.fits(seen)) for one in formats}
    fitting = [one for one in formats if sure[one.name] == max(sure.values()) > 0]
    lines = [one for names, one in NOT_READ.items() if seen.has(*names.split())]
    if not fitting and not lines:
        is_table = seen.kind == "frame" or (seen.keys and seen.kind in TABLES)
        ending = seen.path.name.removesuffix(".gz")
        named = [one for one in formats if one.suffixes and ending.endswith(one.suffixes)]
        is_torn = not is_table or (seen.kind == "text" and ending.endswith(".jsonl"))
        fitting = named if named and is_torn else [table] * bool(is_table)
    if len(fitting) == 1:
        return fitting[0]
    allowed = (
        "its records, by yaml.safe_load(text)"
        if seen.kind == "yaml"
        else f"pass format=, one of {', '.join(by_name)}"
    )
    if fitting:
        found = f"fits {len(fitting)} formats: {', '.join(one.name for one in fitting)}"
    elif lines:
        found, allowed = "a file of another tool that isn't read as it is", f"its rows: {lines[0]}"
    else:
        shown = f"with {', '.join(sorted(seen.keys)[:12])}" if seen.keys else repr(seen.line[:60])
        found = f"fits no format of {what} ({seen.kind} {shown})"
    raise DataError(found, file=seen.path, field="format", allowed=allowed)


def first_cells(text: str) -> list[str]:
    """Return the cells of a table's first line; none where CSV can't be read."""
    with suppress(csv.Error, StopIteration):
        return next(csv.reader(text.lstrip("\ufeff").splitlines(), delimiter=delimiter_of(text)))
    return []


def delimiter_of(text: str) -> str:
    """Return what separates the cells of a table's first line: comma, tab, semicolon or bar."""
    header = next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")
    return max(",\t;|", key=header.count)

"""The text of a golden file with its rows, and that text with one row changed, read again to make sure that only this row is.

In: bytes of a golden file (ours, or a chatbot's cases). Out: `GoldenText`, which never changes; an
edit gives another one.
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from ragscore.frames.data import DataError
from ragscore.golden.labelling.spans import Span, json_lines, yaml_list
from ragscore.golden.labelling.splice import with_field, with_row
from ragscore.io.source import Problems, Row, as_id, json_rows
from ragscore.io.yaml_rows import yaml_rows

BOM = "\ufeff"
Values = dict[str, Any]
Changes = dict[str, Any]
"""Field -> its new value; None takes the field out."""


@dataclass(frozen=True)
class GoldenText:
    """What a golden file holds: its text, and its rows by id."""

    path: Path
    text: str

    @property
    def is_yaml(self) -> bool:
        """YAML, by the file's name; else JSON lines."""
        return self.path.name.removesuffix(".gz").endswith((".yaml", ".yml"))

    @cached_property
    def rows(self) -> dict[str, Row]:
        """The rows by id, in the order of the file.

        Raises
        ------
        DataError
            What can't be read, or an id that is missing or there twice: what can't be told apart
            can't be changed.
        """
        problems = Problems(self.path, strict=True)
        listed = list(
            yaml_rows(self.path, problems, self._body)
            if self.is_yaml
            else json_rows(self.path, problems, self._body.split("\n"))
        )
        found: dict[str, Row] = {}
        for row in listed:
            query_id = as_id(row.values.get("id"))
            if query_id is None or query_id in found:
                fault = (
                    "the field is missing or no id"
                    if query_id is None
                    else f"{query_id} appears more than once"
                )
                raise DataError(
                    fault,
                    file=self.path,
                    line=row.line_of("id"),
                    field="id",
                    allowed="ids must be there and unique",
                )
            found[query_id] = row
        return found

    @property
    def _body(self) -> str:
        return self.text.removeprefix(BOM)

    @cached_property
    def spans(self) -> Span | None:
        """Where the rows stand in the text, without a byte-order mark."""
        return yaml_list(self._body) if self.is_yaml else json_lines(self._body)

    def values(self, query_id: str) -> Values | None:
        """The fields of a row; None where there is no such row."""
        return dict(self.rows[query_id].values) if query_id in self.rows else None

    def segment(self, query_id: str) -> tuple[int, int]:
        """Where a row begins, and where the next one does (or the text ends)."""
        places = [item.start for item in self.spans.items] if self.spans else []
        n = list(self.rows).index(query_id)
        return places[n], places[n + 1] if n + 1 < len(places) else len(self._body)

    def edited(self, query_id: str, changes: Changes) -> "GoldenText":
        """The text with some fields of one row changed.

        Raises
        ------
        DataError
            The row is written in a way in which it can't be changed alone, such as an alias of
            another one.
        """
        wanted = {
            name: value
            for name, value in {**self.rows[query_id].values, **changes}.items()
            if value is not None or name not in changes
        }
        tries: list[Callable[[], GoldenText]] = [
            lambda: self._spliced(query_id, changes, whole=False),
            lambda: self._spliced(query_id, changes, whole=True),
        ]
        return self._first_right(tries, query_id, wanted)

    def added(self, values: Values) -> "GoldenText":
        """The text with one more row at its end."""
        query_id = str(values["id"])
        if query_id in self.rows:
            raise DataError(
                f"{query_id} is there already",
                file=self.path,
                line=self.rows[query_id].line,
                field="id",
                allowed="ids must be unique",
            )
        return self._first_right(
            [lambda: self._with(with_row(self._body, self.spans, values, is_yaml=self.is_yaml))],
            query_id,
            values,
        )

    def replaced(self, start: int, end: int, new: str) -> "GoldenText":
        """The text with one part put back as it was."""
        return self._with(self._body[:start] + new + self._body[end:])

    def part(self, start: int, end: int) -> str:
        """What stands between two places."""
        return self._body[start:end]

    def data(self) -> bytes:
        """The file's bytes."""
        data = self.text.encode()
        return gzip.compress(data, mtime=0) if self.path.suffix == ".gz" else data

    def _with(self, body: str) -> "GoldenText":
        return GoldenText(self.path, self.text[: len(self.text) - len(self._body)] + body)

    def _spliced(self, query_id: str, changes: Changes, whole: bool) -> "GoldenText":
        """Field by field, each in the text that the one before left."""
        here = self
        for name, value in changes.items():
            items = here.spans.items if here.spans else ()
            row = items[list(here.rows).index(query_id)]
            if row.kind != "map":
                raise DataError("the row is an alias", file=self.path)
            here = here._with(
                with_field(
                    here._body, row, name, here.rows[query_id].values.get(name), value, whole=whole
                )
            )
        return here

    def _first_right(
        self, tries: "list[Callable[[], GoldenText]]", query_id: str, wanted: Values
    ) -> "GoldenText":
        """The first text in which this row is as wanted, and every other row as it was."""
        expected = {name: row.values for name, row in self.rows.items()} | {query_id: wanted}
        for attempt in tries:
            try:
                found = attempt()
                if list(found.rows) == list(expected) and all(
                    same(row.values, expected[name]) for name, row in found.rows.items()
                ):
                    return found
            except (DataError, yaml.YAMLError):
                continue
        line = self.rows[query_id].line if query_id in self.rows else None
        raise DataError(
            f"the row of {query_id} can't be changed alone",
            file=self.path,
            line=line,
            allowed="a plain list of mappings; edit this row by hand",
        )


def same(one: Any, other: Any) -> bool:
    """Whether two values of rows are the same, down to how their numbers are spelled."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return (
        isinstance(one, bool) == isinstance(other, bool)
        and one == other
        and getattr(one, "text", str(one)) == getattr(other, "text", str(other))
    )

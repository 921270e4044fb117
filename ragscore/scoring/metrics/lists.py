"""What a formula of lists is given: hits, responses, citations or judgments, list by list.

Every run and query is a list. An array over items holds one value per hit (or citation, ...), those
of a list side by side; a metric makes of it an array of one value per list.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import name_list
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.scoring.metrics.credit import WHOLE_LIST, Credit, GainFunction
from ragscore.scoring.metrics.declaration import Label

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Lists:
    """Items of lists.

    Attributes
    ----------
    label, k
        The label that is scored, such as "in_budget@5", and its cut-off, if it has one.
    n
        Lists. A formula returns so many numbers, in this order.
    row
        The list of each item, ascending.
    """

    of: str
    row: Codes
    n: int
    frames: Mapping[str, pd.DataFrame | None]
    places: Mapping[str, Codes]  # in their frames: of items, and of the response of each list
    run: Codes  # of each list
    is_part: bool  # of a run, of whose other parts nothing is known
    label: str = ""
    k: int | None = None
    reads: tuple[str, ...] = ()
    known: dict[str, Column] = field(default_factory=dict, repr=False)  # whole columns

    def column(self, name: str) -> Column:
        """Return a column of the items.

        Numbers, times, or else texts with None for no value; true is 1, no number is NaN.
        """
        return self._read(self.of, name)[self.places[self.of]]

    def response(self, name: str) -> Column:
        """Return a column of the responses, one value per list."""
        return self._read("responses", name)[self.places["responses"]]

    def total(self, values: npt.ArrayLike = 1.0) -> Values:
        """Add up values of items, list by list; without values, count items."""
        weights = np.broadcast_to(np.asarray(values, dtype="float64"), self.row.shape)
        return np.bincount(self.row, weights, self.n).astype(np.float64, copy=False)

    def any(self, flags: npt.ArrayLike) -> Flags:
        """Tell of each list if any of its items has this flag."""
        return np.asarray(self.total(flags) > 0)

    def so_far(self, values: npt.ArrayLike) -> Values:
        """Add up values from the begin of each list up to each item, its own included."""
        return sum_so_far(np.asarray(values, dtype="float64"), self.row)

    def distinct(self, values: npt.ArrayLike) -> Values:
        """Count the distinct values of each list; no value counts for nothing."""
        code = pd.factorize(pd.Series(values))[0]
        pairs = np.unique(self.row[code >= 0] * (code.max(initial=0) + 1) + code[code >= 0])
        return np.bincount(pairs // (code.max(initial=0) + 1), minlength=self.n).astype("float64")

    def recorded(self) -> Flags:
        """Flag lists of which everything that is read is known: see `recorded_here`."""
        found = np.ones(self.n, dtype=bool)
        for read in self.reads:
            kind, _, name = read.partition(".")
            frame = self.frames.get(kind)
            if frame is None or name not in frame:
                return np.zeros(self.n, dtype=bool)
            at = self.places[kind]
            row = self.row if kind == self.of else np.arange(self.n)
            has_value = np.append(frame[name].notna().to_numpy(), False)[at]
            found &= recorded_here(row[at >= 0], has_value[at >= 0], self.run, self.is_part)
        return found

    def _read(self, kind: str, name: str) -> Column:
        read, frame = f"{kind}.{name}", self.frames.get(kind)
        if read not in self.reads:
            raise DataError(
                f"{self.label} reads {read}, which its declaration doesn't name",
                field="reads",
                allowed=f"reads=({', '.join(map(repr, (*self.reads, read)))},)",
            )
        if read not in self.known:
            assert frame is not None  # see `recorded`
            self.known[read] = _as_array(frame[name])
        return self.known[read]


@dataclass(frozen=True)
class HitLists(Lists):
    """Lists of hits, cut off at k, with the grades that rules of matching gave them.

    Attributes
    ----------
    rank, grade, gain, n_found
        Of each hit: rank; best grade that it meets, 0 for none; the best of targets that it is the
        first to meet; how many relevant ones these are.
    """

    rank: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    grade: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    gain: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    n_found: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    credit: Credit | None = field(default=None, repr=False)

    def up_to(self, k: int | None) -> "HitLists":
        """Return the same of hits up to rank k."""
        if k is None:
            return self
        at = np.flatnonzero(self.rank <= k)
        names = ("row", "rank", "grade", "gain", "n_found")
        places = {**self.places, "hits": self.places["hits"][at]}
        return replace(
            self, k=k, places=places, **{name: getattr(self, name)[at] for name in names}
        )

    @property
    def is_relevant(self) -> Flags:
        """Hits of grade 1 or more."""
        assert self.credit is not None
        return np.asarray(self.grade > 0)

    @property
    def n_targets(self) -> Values:
        """The number of relevant targets of each list's query."""
        assert self.credit is not None
        return self.credit.n_targets

    def ideal(self, gain: GainFunction) -> Values:
        """Return Σ gain(grade) / log2(rank + 1) over the first k targets, best first."""
        assert self.credit is not None
        return self.credit.ideal(gain, WHOLE_LIST if self.k is None else self.k)


@dataclass(frozen=True)
class ResponseLists(Lists):
    """Responses, or what each of them has of citations or judgments.

    Attributes
    ----------
    facts
        Arrays of one value per response: `answered`, `refused`, `failed`, `answerable`, `n_hits`.
    """

    facts: Any = field(default=None, repr=False)

    def __getattr__(self, name: str) -> Any:
        if name not in ("answered", "refused", "failed", "blank", "answerable", "n_hits"):
            raise AttributeError(name)
        return getattr(self.facts, name)


def recorded_here(row: Codes, has_value: Flags, run: Codes, elsewhere: bool) -> Flags:
    """Flag lists of which a column is known.

    One of their items has a value; or they have no items, and the column has a value elsewhere in
    their run. A run that never records it has no zeros for its empty lists.

    Parameters
    ----------
    row, has_value
        The list of each item, and if it has a value.
    run
        The run of each list.
    elsewhere
        Other parts of the run record it.
    """
    n = len(run)
    held = np.bincount(row[has_value], minlength=n) > 0
    is_empty = np.bincount(row, minlength=n) == 0
    in_run = np.bincount(run[held], minlength=int(run.max(initial=0)) + 1) > 0
    return held | (is_empty & (in_run[run] | elsewhere))


def _as_array(values: pd.Series) -> Column:
    """Return a column as an array, with one more element for no value."""
    if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return np.append(values.to_numpy("float64", na_value=np.nan), np.nan)
    if pd.api.types.is_datetime64_any_dtype(values):
        times = values.to_numpy("datetime64[ns]")
        return np.append(times, np.datetime64("NaT", "ns"))
    texts = values.astype(object).where(values.notna().to_numpy(), None).to_numpy()
    return np.append(texts, np.array([None], dtype=object))


def values_of(function: Callable[[Any], Any], lists: Lists, whole: Lists) -> Values:
    """Return what a function makes of lists; NaN where what it reads isn't recorded.

    Raises
    ------
    DataError
        The function raises an error, or returns anything but one number per list.
    """
    known = whole.recorded()
    if not known.any():
        return np.full(lists.n, np.nan)
    wanted = f"an array of {lists.n} numbers, one per list"
    try:
        values = np.asarray(function(lists))
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"its function raised {type(error).__name__}: {error}", field=lists.label,
            allowed=wanted,
        ) from error  # fmt: skip
    if values.dtype.kind not in "biuf" or values.shape != (lists.n,):
        found = f"{values.dtype} of shape {name_list(map(str, values.shape)) or '()'}"
        raise DataError(f"its function gave {found}", field=lists.label, allowed=wanted)
    return np.where(known, values.astype("float64"), np.nan)


@dataclass(frozen=True)
class ListFormula:
    """A function of lists, called as formulas of a `Credit` or of `ResponseFacts` are."""

    function: Any
    of: str
    name: str
    reads: tuple[str, ...]

    def __call__(self, given: Any, label: Label | None = None) -> Values:
        """Return its values."""
        text = self.name if label is None else label.text
        whole = replace(given.lists(self.of), reads=self.reads, label=text)
        lists = whole.up_to(label.k) if label and isinstance(whole, HitLists) else whole
        return values_of(self.function, lists, whole)


def sum_so_far(values: Values, row: Codes) -> Values:
    """Return the sum of values up to each element of its row.

    Rows are added up apart: a sum that runs on through all rows would depend on their order.
    """
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    n = np.diff(begins, append=len(row))
    total, place = values.astype("float64"), 0
    while len(begins):  # the first of each row, then the second of each longer one, ...
        at = begins + place
        if place:
            total[at] += total[at - 1]
        place += 1
        begins, n = begins[n > place], n[n > place]
    return total

"""Text, HTML and JSON forms that the result objects of an analysis share.

In: an object whose fields are frames and plain values. Out: text. Computes nothing.
"""

from abc import abstractmethod
from typing import Self

import pandas as pd

from ragscore.frames.tables import SHOWN_ROWS, Display, Table, dump, reload

NO_ROWS = "(no rows)"


class JsonResult:
    """Result whose fields are written as JSON and read back."""

    def to_json(self) -> str:
        """Return the result as JSON, NaN as null; `from_json` reloads it."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the result that `to_json` wrote."""
        return reload(cls, text)


class FramesResult(Display):
    """Result made of frames that are its attributes; made by a method, never by hand.

    One table is shown, the first, and the frames are named below it.
    """

    FRAMES = tuple[str, ...]()  # the fields that are frames, as they are best read
    METHODS = tuple[str, ...]()

    def __init_subclass__(cls) -> None:
        frames = (name for name, kind in cls.__annotations__.items() if kind is pd.DataFrame)
        # those that are made when they are asked for come last
        cls.FRAMES = (*(name for name in frames if not name.startswith("_")), *cls.FRAMES)

    @abstractmethod
    def _heading(self) -> str:
        """Return in one line what the result is about."""

    def _shown(self) -> pd.DataFrame:
        """Return the table to read first."""
        first: pd.DataFrame = getattr(self, self.FRAMES[0])
        return first

    def _parts(self) -> list[str | Table]:
        shown, names = self._shown(), ", ".join(f".{name}" for name in self.FRAMES)
        has_plot = "plot" in vars(type(self))
        methods = ", ".join(f".{name}" for name in (*self.METHODS, *["plot()"] * has_plot))
        return [
            self._heading(),
            Table(shown, limit=SHOWN_ROWS, way=f".{self.FRAMES[0]}") if len(shown) else NO_ROWS,
            f"Frames: {names}" + (f"; methods: {methods}" if methods else ""),
        ]


def shares_by_run(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return classes × runs as text, "n of total (share)"; classes without a query are left out.

    `table` has one row per run and class (column `name`), with n, n_total and share.
    """
    rows = table[table.groupby(name, sort=False)["n"].transform("sum") > 0]
    counts = zip(rows["n"], rows["n_total"], rows["share"], strict=True)
    texts = [f"{n} of {total} ({share:.0%})" if total else "—" for n, total, share in counts]
    wide = rows.assign(text=texts, run_id=rows["run_id"].astype("str")).pivot(
        index=name, columns="run_id", values="text"
    )
    wide = wide.reindex(index=rows[name].unique(), columns=rows["run_id"].astype("str").unique())
    return wide.reset_index().rename_axis(columns=None)

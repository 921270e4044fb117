"""Whether two runs are the same but for their timing."""

import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import KINDS, DataError, Results, check_type
from ragscore.io.load import load_results

# Durations, and what is new in every call: when an answer was made, its trace, how often it was
# asked for.
_PASSING = re.compile(r"_ms$|(^|[._])(created_at|trace_id|attempts)$")
_FRAMES = ("responses", "hits", "hit_meta", "citations", "hops", "judgments")
_RUN = ("system", "suite", "k", "golden_hash", "chunker_version")
COLUMNS = ["part", "query_id", "row", "column", "a", "b"]
LISTED = 5


@dataclass(frozen=True)
class SameRun:
    """What two runs differ in, timing aside; true if that is nothing.

    Attributes
    ----------
    a, b
        The runs' ids.
    differences
        One row per value that differs: `part` (config, run, or the frame), `query_id` and `row`
        (the rest of the key, such as a hit's rank; empty for config and run), `column`, and both
        values as text, NA where one run has no such row or value.
    n_responses
        How many responses were compared.
    """

    a: str
    b: str
    differences: pd.DataFrame
    n_responses: int

    @property
    def same(self) -> bool:
        """Whether nothing differs but the timing."""
        return self.differences.empty

    def __bool__(self) -> bool:
        return self.same

    def __repr__(self) -> str:
        if self.same:
            return f"{self.a} and {self.b} are the same, timing aside: {self.n_responses} responses"
        n_queries = self.differences["query_id"].replace("", pd.NA).nunique()
        lines = [
            f"{self.a} and {self.b} differ: {len(self.differences)} values, in {n_queries} of"
            f" {self.n_responses} queries"
        ]
        for part, query_id, row, column, a, b in self.differences.head(LISTED).itertuples(
            index=False
        ):
            place = " ".join(text for text in (part, query_id, row, column) if text)
            lines.append(f"  {place}: {_short(a)} / {_short(b)}")
        left = len(self.differences) - LISTED
        return "\n".join(
            [*lines, *([f"  ... and {left} more in .differences"] if left > 0 else [])]
        )


def same_run(
    a: Results | str | os.PathLike[str],
    b: Results | str | os.PathLike[str],
    *,
    tolerance: float = 0.0,
) -> SameRun:
    """Compare two runs value by value, timing aside.

    With one seed they should be the same, and else it says in what they differ.

    Left out are the runs' ids and times, code, libraries, machine and manner of asking; in the
    frames, columns of milliseconds, `created_at`, `trace_id` and `attempts`.

    Parameters
    ----------
    a, b
        One run each: `Results`, or its file or folder.
    tolerance
        By how much numbers may differ.

    Raises
    ------
    DataError
        A file can't be read, or what is given holds more than one run.
    """
    one, other = (_one_run(run, name) for run, name in ((a, "a"), (b, "b")))
    rows = _run_differences(one, other)
    parts = [
        _frame_differences(name, getattr(one, name), getattr(other, name), tolerance)
        for name in _FRAMES
    ]
    found = pd.concat([pd.DataFrame(rows, columns=COLUMNS, dtype="str"), *parts], ignore_index=True)
    n_responses = len(set(one.responses["query_id"]) | set(other.responses["query_id"]))
    return SameRun(
        str(one.runs["run_id"].iloc[0]), str(other.runs["run_id"].iloc[0]), found, n_responses
    )


def _one_run(run: Results | str | os.PathLike[str], name: str) -> Results:
    found = load_results(os.fspath(run)) if isinstance(run, (str, os.PathLike)) else run
    check_type(found, Results, name)
    if len(found.runs) != 1:
        raise DataError(
            f"found {len(found.runs)} runs",
            field=name,
            allowed="exactly one; choose it with results.select([name])",
        )
    return found


def _run_differences(one: Results, other: Results) -> list[list[str | None]]:
    """Config keys and columns of the runs frame that differ."""
    configs = [
        flat(parsed(run.runs["config"].iloc[0])) if "config" in run.runs else {}
        for run in (one, other)
    ]
    about = [
        {
            name: run.runs[name].iloc[0]
            for name in _RUN
            if name in run.runs and pd.notna(run.runs[name].iloc[0])
        }
        for run in (one, other)
    ]
    rows: list[list[str | None]] = []
    for part, (first, second) in (("config", configs), ("run", about)):
        for key in dict.fromkeys([*first, *second]):
            texts = [
                dumped(_plain(values[key])) if key in values else None for values in (first, second)
            ]
            if texts[0] != texts[1]:
                rows.append([part, "", "", key, *texts])
    return rows


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _frame_differences(
    part: str, one: pd.DataFrame | None, other: pd.DataFrame | None, tolerance: float
) -> pd.DataFrame:
    """The values of one frame that differ; a row that only one run has is one difference."""
    keys = [name for name in KINDS[part].key if name not in ("run_id", "query_id")]
    first, second = (_keyed(frame, keys) for frame in (one, other))
    rows = first.index.union(second.index, sort=False)
    there = [pd.Series(rows.isin(frame.index), index=rows) for frame in (first, second)]
    in_both = (there[0] & there[1]).to_numpy()
    found = [
        _differing(
            part,
            ~in_both,
            "(row)",
            *(one.map({True: "there", False: None}).astype("str") for one in there),
        )
    ]
    for name in dict.fromkeys([*first.columns, *second.columns]):
        if not _PASSING.search(str(name)):
            a, b = (
                (
                    frame[name].reindex(rows)
                    if name in frame
                    else pd.Series(pd.NA, index=rows, dtype="str")
                )
                for frame in (first, second)
            )
            found.append(_differing(part, in_both & ~_equal(a, b, tolerance), str(name), a, b))
    return pd.concat(found, ignore_index=True)


def _keyed(frame: pd.DataFrame | None, keys: list[str]) -> pd.DataFrame:
    """A run's frame by query and the text of the rest of its key."""
    if frame is None:
        return pd.DataFrame(index=pd.MultiIndex.from_arrays([[], []], names=["query_id", "row"]))
    parts = [frame[name].astype("str").tolist() for name in keys]
    row = [" ".join(one) for one in zip(*parts, strict=True)] if parts else [""] * len(frame)
    index = pd.MultiIndex.from_arrays([frame["query_id"].tolist(), row], names=["query_id", "row"])
    return frame.drop(columns=["run_id", "query_id", *keys]).set_index(index)


def _equal(one: pd.Series, other: pd.Series, tolerance: float) -> npt.NDArray[np.bool_]:
    known = [values.notna().to_numpy() for values in (one, other)]
    equal = known[0] == known[1]
    both = known[0] & known[1]
    if all(
        pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        for values in (one, other)
    ):
        numbers = [values[both].to_numpy(dtype="float64") for values in (one, other)]
        equal[both] = np.abs(numbers[0] - numbers[1]) <= tolerance
    else:
        equal[both] = [
            a == b for a, b in zip(one[both].tolist(), other[both].tolist(), strict=True)
        ]
    return equal


def _differing(
    part: str, where: npt.NDArray[np.bool_], column: str, one: pd.Series, other: pd.Series
) -> pd.DataFrame:
    """These rows of two aligned columns, as differences."""
    index = one.index[where]
    texts = [
        [None if pd.isna(value) else str(value) for value in values[where].tolist()]
        for values in (one, other)
    ]
    rows = {
        "part": [part] * len(index),
        "query_id": index.get_level_values(0),
        "row": index.get_level_values(1),
        "column": [column] * len(index),
    }
    return pd.DataFrame(rows | {"a": texts[0], "b": texts[1]}, columns=COLUMNS, dtype="str")


def _short(value: Any) -> str:
    text = "nothing" if pd.isna(value) else str(value)
    return text if len(text) <= 50 else text[:47] + "..."

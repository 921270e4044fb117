"""Reproducibility: compare two runs value by value, except for timing.

In: two runs, as results or files. Out: `SameRun`, one row per value that differs.
"""

import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import KINDS, DataError, Results, check_type
from ragscore.frames.escaping import visible
from ragscore.io.load import load_results

# Durations, and values that are new in every call.
_VOLATILE = re.compile(r"_ms$|(^|[._])(created_at|trace_id|attempts)$")
_FRAMES = ("responses", "hits", "hit_meta", "citations", "calls", "judgments")
_RUN = ("system", "suite", "k", "golden_hash", "chunker_version")
COLUMNS = ["part", "query_id", "row", "column", "a", "b"]
N_LISTED = 5  # differences shown by repr


@dataclass(frozen=True)
class SameRun:
    """Differences of two runs except for timing; true if there are none.

    Attributes
    ----------
    a, b
        The ids of the runs.
    differences
        One row per differing value: `part` (config, run, or the name of the frame), `query_id` and
        `row` (the rest of the key, such as a hit's rank; both empty for config and run), `column`,
        and both values as text in `a`, `b` (NA if a run has no such row or value).
    n_responses
        Number of compared responses.
    """

    a: str
    b: str
    differences: pd.DataFrame
    n_responses: int

    @property
    def same(self) -> bool:
        """True if nothing differs except for timing."""
        return self.differences.empty

    def __bool__(self) -> bool:
        return self.same

    def __repr__(self) -> str:
        if self.same:
            text = f"{self.a} and {self.b} are the same, timing aside: {self.n_responses} responses"
            return visible(text)
        n_queries = self.differences["query_id"].replace("", pd.NA).nunique()
        lines = [
            f"{self.a} and {self.b} differ: {len(self.differences)} values, in {n_queries} of"
            f" {self.n_responses} queries"
        ]
        for part, query_id, row, column, a, b in self.differences.head(N_LISTED).itertuples(
            index=False
        ):
            place = " ".join(text for text in (part, query_id, row, column) if text)
            lines.append(f"  {place}: {_short(a)} / {_short(b)}")
        if (left := len(self.differences) - N_LISTED) > 0:
            lines.append(f"  ... and {left} more in .differences")
        return visible("\n".join(lines))


def same_run(
    a: Results | str | os.PathLike[str],
    b: Results | str | os.PathLike[str],
    *,
    tolerance: float = 0.0,
) -> SameRun:
    """Compare two runs value by value, except for timing.

    A deterministic system gives the same run twice with one seed. Not compared are ids and times of
    the runs, code, libraries, machine and request policy; in the frames, columns of milliseconds,
    `created_at`, `trace_id` and `attempts`.

    Parameters
    ----------
    a, b
        One run each: `Results`, or its file or folder.
    tolerance
        Largest difference of equal numbers.

    Raises
    ------
    DataError
        A file that cannot be read, or more than one run on a side.
    """
    first, second = _one_run(a, "a"), _one_run(b, "b")
    rows = pd.DataFrame(_run_differences(first, second), columns=COLUMNS, dtype="str")
    parts = [
        _frame_differences(name, getattr(first, name), getattr(second, name), tolerance)
        for name in _FRAMES
    ]
    id_a, id_b = (str(run.runs["run_id"].iloc[0]) for run in (first, second))
    n_responses = len(set(first.responses["query_id"]) | set(second.responses["query_id"]))
    return SameRun(id_a, id_b, pd.concat([rows, *parts], ignore_index=True), n_responses)


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


def _run_differences(first: Results, second: Results) -> list[list[str | None]]:
    """Return the differing config keys and columns of the runs frame."""
    rows: list[list[str | None]] = []
    facts = [_run_facts(run) for run in (first, second)]
    for part in ("config", "run"):
        a, b = (one[part] for one in facts)
        for key in dict.fromkeys([*a, *b]):
            if a.get(key) != b.get(key):
                rows.append([part, "", "", key, a.get(key), b.get(key)])
    return rows


def _run_facts(results: Results) -> dict[str, dict[str, str]]:
    """Return config and columns of the only run, with values as JSON."""
    run = {str(name): results.runs[name].iloc[0] for name in results.runs}
    config = flat(parsed(run["config"])) if "config" in run else {}
    columns = {name: run[name] for name in _RUN if name in run and pd.notna(run[name])}
    return {
        part: {
            key: dumped(value.item() if isinstance(value, np.generic) else value)
            for key, value in values.items()
        }
        for part, values in (("config", config), ("run", columns))
    }


def _frame_differences(
    part: str, first: pd.DataFrame | None, second: pd.DataFrame | None, tolerance: float
) -> pd.DataFrame:
    """Return the differing values of one frame; a row that only one run has counts once."""
    keys = [name for name in KINDS[part].key if name not in ("run_id", "query_id")]
    a, b = _keyed(first, keys), _keyed(second, keys)
    rows = a.index.union(b.index, sort=False)
    in_a, in_b = (pd.Series(rows.isin(frame.index), index=rows) for frame in (a, b))
    in_both = (in_a & in_b).to_numpy()
    presence = (flags.map({True: "there", False: None}).astype("str") for flags in (in_a, in_b))
    found = [_differences(part, ~in_both, "(row)", *presence)]
    unknown = pd.Series(pd.NA, index=rows, dtype="str")
    for name in dict.fromkeys([*a.columns, *b.columns]):
        if not _VOLATILE.search(str(name)):
            x, y = (frame[name].reindex(rows) if name in frame else unknown for frame in (a, b))
            differs = in_both & ~_equal(x, y, tolerance)
            found.append(_differences(part, differs, str(name), x, y))
    return pd.concat(found, ignore_index=True)


def _keyed(frame: pd.DataFrame | None, keys: list[str]) -> pd.DataFrame:
    """Index a run's frame by query and by the rest of its key as text."""
    if frame is None:
        return pd.DataFrame(index=pd.MultiIndex.from_arrays([[], []], names=["query_id", "row"]))
    parts = [frame[name].astype("str").tolist() for name in keys]
    row = [" ".join(texts) for texts in zip(*parts, strict=True)] if parts else [""] * len(frame)
    index = pd.MultiIndex.from_arrays([frame["query_id"].tolist(), row], names=["query_id", "row"])
    return frame.drop(columns=["run_id", "query_id", *keys]).set_index(index)


def _equal(a: pd.Series, b: pd.Series, tolerance: float) -> npt.NDArray[np.bool_]:
    known_a, known_b = a.notna().to_numpy(), b.notna().to_numpy()
    equal, both = known_a == known_b, known_a & known_b
    is_number = [
        pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        for values in (a, b)
    ]
    if all(is_number):
        difference = a[both].to_numpy(dtype="float64") - b[both].to_numpy(dtype="float64")
        equal[both] = np.abs(difference) <= tolerance
    else:
        equal[both] = [x == y for x, y in zip(a[both].tolist(), b[both].tolist(), strict=True)]
    return equal


def _differences(
    part: str, where: npt.NDArray[np.bool_], column: str, a: pd.Series, b: pd.Series
) -> pd.DataFrame:
    """Return the selected rows of two aligned columns in the layout of `SameRun.differences`."""
    index = a.index[where]
    texts = [
        [None if pd.isna(value) else str(value) for value in values[where].tolist()]
        for values in (a, b)
    ]
    rows = {
        "part": [part] * len(index),
        "query_id": index.get_level_values(0),
        "row": index.get_level_values(1),
        "column": [column] * len(index),
        "a": texts[0],
        "b": texts[1],
    }
    return pd.DataFrame(rows, columns=COLUMNS, dtype="str")


def _short(value: Any) -> str:
    text = "nothing" if pd.isna(value) else str(value)
    return text if len(text) <= 50 else text[:47] + "..."

"""Metrics and columns of your own: declared, stored as JSON, read again.

A metric is a function of a pandas frame that returns a number per run and query, as
`ir_measures.define` has it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import check_choice, check_known, excerpt
from ragscore.frames.typing import Values
from ragscore.scoring.metrics import TABLE, Label, Metric, MetricTable, own_column
from ragscore.scoring.metrics.declaration import ANY, Bounds, spelling
from ragscore.scoring.metrics.matched import MatchedHits
from ragscore.scoring.metrics.needs import TARGETS
from ragscore.scoring.rows import Rows
from ragscore.scoring.rules import source_hash
from ragscore.scoring.summary import KEYS

FRAMES = ("hits", "responses", "citations", "judgments")
RESERVED = ("run_id", "query_id", "state", "level", "created_at", "system", "default", "all")


def metric(
    name: str,
    formula: str,
    *,
    of: str = "hits",
    kind: str = "other",
    better: str | None = None,
    range: Any = None,
) -> Callable[[Any], Metric]:
    """Declare a metric of your own: a decorator of the function that computes it.

    `rs.evaluate(results, golden, metrics=["default", mine])` scores it. From then on its labels
    name it: "mine", or "mine@5" and "mine@5:doc" if its name is "mine@k". Nothing is registered: an
    evaluation has the metrics that it was made with.

    The function gets a frame and returns a Series by run_id and query_id, as
    `frame.groupby(["run_id", "query_id"])` makes it. Queries that it leaves out are NaN; those
    without any hit are 0 if that is the worst value, as of a metric from 0 to 1.

    Parameters
    ----------
    of
        "hits": the hits up to k of queries with targets, with `grade` (the best grade that a hit
        met, 0 for none), `gain` (what it earns as the first to meet a target) and `n_targets`
        (relevant targets of the query). "responses", "citations", "judgments": that frame.
    kind
        "binary", "bounded" (0 to 1), "time", "cost", or "other".
    better
        "higher", "lower", or None: neither is better.
    range
        (lowest, highest) value, None for no bound; or None for neither.

    Raises
    ------
    DataError
        A name that is taken, or that no label can have; a kind, direction or range of no meaning.

    Examples
    --------
    >>> @rs.metric("top_half@k", "relevant hits in the first half of k / k", kind="bounded")
    ... def top_half(hits):
    ...     first = hits["rank"] <= hits["rank"].max() / 2
    ...     return (hits["grade"].gt(0) & first).groupby([hits["run_id"], hits["query_id"]]).mean()
    """
    check_choice(of, FRAMES, "of")
    check_choice(kind, ("binary", "bounded", "time", "cost", "other"), "kind")
    check_type(name, str, "name", "text, such as 'in_budget@k'")
    base = name.removesuffix("@k")
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", base) or base in RESERVED:
        raise DataError(
            f"found {excerpt(name)}",
            field="name",
            allowed="letters, digits and _, with @k at the end if it takes a cut-off",
        )
    if spelling(base) in TABLE.spelled:
        raise DataError(
            f"{base} is a metric of ours, or of another tool", field="name", allowed="another name"
        )
    bounds = _bounds((0, 1) if range is None and kind in ("binary", "bounded") else range)

    def declared(function: Any) -> Metric:
        if not callable(function):
            raise DataError(f"found {excerpt(function)}", field=name, allowed="a function")
        return _metric(
            name, formula, _direction(better), bounds, {"of": of, "kind": kind}, function
        )

    return declared


def _metric(
    name: str, formula: str, better: str, bounds: Bounds, stated: Mapping[str, Any], function: Any,
    source: str = "",
) -> Metric:  # fmt: skip
    """Return a metric of your own; without its function where only what is stored is known."""
    of = stated["of"]

    def of_hits(matched: MatchedHits, label: Label) -> Values:
        found = _by_row(matched.rows, function(hits_of(matched)), label.text)
        is_worst_0 = better == "higher" and bounds[0] == 0  # what a list without hits is worth
        return np.where(np.isnan(found) & (matched.rows.n_hits == 0) & is_worst_0, 0.0, found)

    def of_frame(rows: Rows) -> Values:
        frame = getattr(rows.results, of)
        if frame is None or not len(frame):
            return np.full(rows.n, np.nan)
        return _by_row(rows, function(frame), name)

    compute = None if function is None else of_hits if of == "hits" else of_frame
    return Metric(
        name, formula, "ranking" if of == "hits" else "own", compute, stated["kind"], better,
        bounds, needs=(TARGETS,) if of == "hits" else (),
        reads="" if of in ("hits", "responses") else of,
        source=source or source_hash(function),
    )  # fmt: skip


def hits_of(matched: MatchedHits) -> pd.DataFrame:
    """Return the hits up to the cut-off, with what they met."""
    rows = matched.rows
    hits = rows.results.hits.assign(row=rows.row_of_hit)
    hits = hits[(hits["row"] >= 0) & (hits["rank"] <= (matched.k or np.inf))]
    arrays = {name: getattr(matched, name) for name in ("row", "rank", "grade", "gain")}
    met = hits.merge(pd.DataFrame(arrays), on=["row", "rank"], how="left")
    met["n_targets"] = matched.n_targets[met.pop("row")]
    return met.fillna({"grade": 0, "gain": 0})


def _by_row(rows: Rows, values: Any, name: str) -> Values:
    """Return the values of rows from a Series by run_id and query_id."""
    is_keyed = isinstance(values, pd.Series) and list(values.index.names) == KEYS
    if not is_keyed or values.index.has_duplicates or not pd.api.types.is_numeric_dtype(values):
        raise DataError(
            f"found {excerpt(values)}",
            field=name,
            allowed='one number per run_id and query_id, as groupby(["run_id", "query_id"]) gives',
        )
    made = values.rename("value").reset_index()
    found = np.full(rows.n + 1, np.nan)
    found[rows.places(made)] = made["value"].to_numpy("float64", na_value=np.nan)
    return found[:-1]


def with_own(name: str, better: str | None = None, range: Any = None) -> Metric:
    """Declare a column of your own.

    Raises
    ------
    DataError
        A metric of ours; a direction or range of no meaning.
    """
    if not TABLE.is_own(name):
        raise DataError(
            f"{name} is a metric of the table", field="better, range", allowed="another name"
        )
    if better is None and range is None and name.startswith(("behaviour.", "freshness.")):
        better, range = "higher", (0, 1)  # what rs.extras measures
    return own_column(name, _direction(better), _bounds(range))


def from_plain(content: Any) -> list[Metric]:
    """Return what `MetricTable.to_plain` wrote; metrics have no function.

    Raises
    ------
    DataError
        Anything else.
    """
    check_type(content, Mapping, "declared", "name -> {better, range}")
    found = []
    for name, stated in content.items():
        check_type(stated, Mapping, f"declared.{name}", "{better, range}")
        one = with_own(str(name), stated.get("better"), stated.get("range"))
        if "source" in stated:
            check_known(("formula", "of", "kind"), stated, f"declared.{name}", "key", "found")
            one = _metric(
                str(name), stated["formula"], one.better, one.bounds, stated, None, stated["source"]
            )
        found.append(one)
    return found


def _direction(better: Any) -> str:
    check_choice("higher" if better is None else better, ("higher", "lower"), "better")
    return "not declared" if better is None else str(better)


def _bounds(range: Any) -> Bounds:
    try:
        low, high = ANY if range is None else range
        bounds = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
    except (TypeError, ValueError):
        bounds = (np.nan, np.nan)
    if not bounds[0] < bounds[1]:
        allowed = "(lowest, highest), two numbers, the lower one first; None for no bound"
        raise DataError(f"found {excerpt(range)}", field="range", allowed=allowed)
    return bounds


# The table itself is below this module.
MetricTable.from_plain = lambda content: TABLE.with_metrics(from_plain(content))

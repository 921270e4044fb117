"""Labels of metrics: taken apart, listed, described."""

import re
from collections.abc import Collection
from copy import copy
from functools import lru_cache
from typing import overload

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, nearest
from ragscore.scoring.metrics.declaration import Label, Metric
from ragscore.scoring.metrics.table import (
    BY_NAME,
    BY_SPELLING,
    OTHER_NAMES,
    PARAMETERS,
    TABLE,
    spelling,
)
from ragscore.scoring.rules import LEVELS

DEFAULT_KS = (1, 3, 5, 10)
GAINS = {"dcg='exp-log2'": "ndcg", "dcg='log2'": "ndcg_linear"}
"""How ir_measures writes the gain of its nDCG -> the metric of this gain."""
SHOWN = ("name", "formula", "nan_when", "kind", "better", "range", "also", "default", "version")


def default_metrics(judged: Collection[str] = ()) -> list[str]:
    """Return the labels that are scored unless others are asked for, in the table's order.

    Metrics that a judge measures are among them where results carry a judge's verdicts: `judged`.
    """
    return [
        label
        for m in TABLE
        if m.default or m.name in judged
        for label in (
            [m.name[:-1] + str(k) for k in DEFAULT_KS]
            if m.name.endswith("@k") and m.name != "mrr@k"
            else [m.name.replace("@k", "@10")]
        )
    ]


DEFAULT_METRICS = default_metrics()


def parse_label(text: str) -> Label:
    """Take a metric label apart.

    Names of trec_eval, ir_measures and ranx are understood where their definition is the same:
    `P_10` and `P@10` are `precision@10`, `ndcg_cut_10` is `ndcg_linear@10`. Letter case and
    separators don't matter: `nDCG@10` is `ndcg@10`.

    Raises
    ------
    DataError
        Not a known metric (near misses are named), a cut-off below 1, a parameter out of range, or
        an unknown level.
    """
    if not isinstance(text, str):
        raise DataError(
            f"found {excerpt(text)}", field="metrics", allowed="labels, such as 'mrr@10'"
        )
    found = _read(text)
    if isinstance(found, DataError):
        raise copy(found)
    return found


@lru_cache(maxsize=4096)
def _read(text: str) -> Label | DataError:
    """Return the label, or the error: names of other tools are asked for again and again."""
    try:
        return _parsed(text)
    except DataError as error:
        return error.with_traceback(None)


_LABEL = re.compile(
    r"(?P<name>.+?)(?:\((?P<given>[^()]*)\))?(?:[@_.](?P<at>\d+(?:\.\d+)?))?(?::(?P<level>[a-z]+))?"
)


def _parsed(text: str) -> Label:
    found = _LABEL.fullmatch(text)
    parts: dict[str, str | None] = found.groupdict() if found else {"name": text}
    written, given, at = parts["name"] or "", parts.get("given") or "", parts.get("at")
    level = parts.get("level")
    name = BY_SPELLING.get(spelling(written), written)
    gain = GAINS.get(given.replace(" ", "").replace('"', "'"))
    if name == "ndcg" and gain is not None:
        name, given = gain, ""
    line = "iprec@r" if name == "iprec" else f"{name}@k" if at is not None else name
    if line not in BY_NAME or "@" in name or (name == "iprec" and at is None):
        raise _unknown(text, name)
    metric = BY_NAME[line]
    has_cut = line.endswith("@k")
    if has_cut and (at is None or "." in at or int(at) < 1):
        raise DataError(f"found {text!r}", field="metrics", allowed="a cut-off k of at least 1")
    k = int(at) if has_cut and at is not None else None
    if level is not None and (level not in LEVELS or metric.family != "ranking"):
        raise DataError(
            f"found {text!r}",
            field="metrics",
            allowed=f"a ranking metric followed by one of {', '.join(':' + one for one in LEVELS)}",
        )
    parameter = _parameter(text, name, given, at)
    shown = name
    if name in PARAMETERS and parameter != PARAMETERS[name]:
        shown += f"({parameter:.12g})"
    shown += f"@{k}" if k is not None else f"@{parameter:.12g}" if name == "iprec" else ""
    return Label(shown + (f":{level}" if level else ""), name, k, level, parameter, metric)


def _unknown(text: str, name: str) -> DataError:
    """Return the error of a label that names no metric."""
    name = re.sub("@[kr]$", "", name)  # as the table writes it
    allowed = nearest(text, [*DEFAULT_METRICS, *BY_NAME, *OTHER_NAMES], "rs.metrics() has")
    if name == "iprec":
        allowed = "a recall level, as in iprec@0.1"
    elif f"{name}@k" in BY_NAME:
        allowed = f"a cut-off, as in {name}@10"
    elif name in BY_NAME:
        allowed = f"{name} without a cut-off"
    return DataError(f"unknown metric {excerpt(text)}", field="metrics", allowed=allowed)


def _parameter(text: str, name: str, given: str, at: str | None) -> float | None:
    """Return the parameter of a label, with the parts that ir_measures may write in parentheses."""
    parts = [part.strip().rpartition("=") for part in given.split(",") if part.strip()]
    stated = {key: value for key, _, value in parts}
    for key, default, allowed in (
        ("rel", "1", "a golden set whose lower grades are 0"),
        ("judged_only", "False", "results with judged hits alone"),
    ):
        if stated.pop(key, default) != default:
            raise DataError(f"found {text!r}", field="metrics", allowed=allowed)
    if name == "iprec":
        stated["r"] = at or ""
    if not stated:
        return PARAMETERS.get(name)
    line = BY_NAME.get(name) or BY_NAME.get(f"{name}@k") or BY_NAME.get(f"{name}@r")
    none = (None, lambda number: False, f"no parameter of {name}")
    _, is_allowed, allowed = (line and line.parameter) or none
    try:
        number = float(stated.popitem()[1])
    except ValueError:
        number = np.nan
    if stated or not is_allowed(number):
        raise DataError(f"found {text!r}", field="metrics", allowed=allowed)
    return number


def is_label(text: str) -> bool:
    """Tell whether a metric of ours has this name."""
    try:
        parse_label(text)
    except DataError:
        return False
    return True


class Card(str):
    """A text that a notebook shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


@overload
def metrics() -> pd.DataFrame: ...


@overload
def metrics(label: str) -> Card: ...


def metrics(label: str | None = None) -> pd.DataFrame | Card:
    """Return the table of metrics, or with a label one metric in full, as text.

    Parameters
    ----------
    label
        Such as "ndcg@5". Names of other tools are understood and come back as ours.

    Returns
    -------
    One row per metric: `name`, `formula`, `nan_when`, `kind`, `better`, `range`, `also` (its name
    in other tools), `default` (computed without being asked for), `version`.

    Raises
    ------
    DataError
        An unknown metric; the nearest are named.
    """
    if label is None:
        return pd.DataFrame([{name: getattr(one, name) for name in SHOWN} for one in TABLE])
    parsed = parse_label(label)
    return Card(parsed.metric.card(parsed.text))


def is_better(metric: Metric, delta: float) -> bool | None:
    """Tell if a change of this metric is an improvement.

    None for no change or NaN, and for a column of your own without a direction.
    """
    if not delta or np.isnan(delta) or metric.better not in ("higher", "lower"):
        return None
    return (delta > 0) == (metric.better == "higher")

"""Metrics of your own: a function and what is to be known of it, scored as ours are."""

import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import check_choice, excerpt, names_of
from ragscore.scoring.metrics.declaration import NO_BOUNDS, Metric
from ragscore.scoring.metrics.labels import is_label
from ragscore.scoring.metrics.lists import ListFormula
from ragscore.scoring.metrics.needs import (
    ANSWERABLE,
    CITATIONS,
    GROUPS,
    HITS,
    KEY_FACTS,
    REFERENCE,
    RESPONSES,
    TARGETS,
    TEXT_CHECKS,
    UNANSWERABLE,
    RunNeed,
    needs_of,
)
from ragscore.scoring.metrics.ranges import checked_direction, checked_range
from ragscore.scoring.metrics.table import ADDED, OTHER_NAMES, completed
from ragscore.scoring.source_hash import source_hash

OF = {  # its family, and what a run must have
    "hits": ("ranking", HITS), "responses": ("answers", RESPONSES),
    "citations": ("citations", CITATIONS),
    "judgments": ("judgments", RunNeed("judgments", "judgments")),
}  # fmt: skip
NEEDS = {
    "targets": TARGETS, "support_groups": GROUPS, "answerable": ANSWERABLE,
    "unanswerable": UNANSWERABLE, "reference_answer": REFERENCE, "key_facts": KEY_FACTS,
    "must_contain": TEXT_CHECKS,
}  # fmt: skip
RESERVED = ("run_id", "query_id", "state", "level", "created_at", "system", "default")


class OwnFormula(ListFormula):
    """A function of your own, called as the formulas of the table are."""

    def __reduce__(self) -> Any:
        # A decorated function is not what its name stands for, so it can't be pickled by it.
        module, name = self.function.__module__, self.function.__qualname__
        found = _imported(module, name) if module in sys.modules and module != "__main__" else None
        if isinstance(found, Metric) and found.compute == self:
            return _formula_of, (module, name)
        parts = (self.of, self.name, self.reads)
        if found is self.function:
            return OwnFormula, (self.function, *parts)
        try:
            import cloudpickle
        except ImportError:
            raise DataError(
                f"its function {name} is in no module that could be imported", field=self.name,
                allowed="a function of a module; or the package cloudpickle (extra scale)",
            ) from None  # fmt: skip
        return _unpacked, (cloudpickle.dumps(self.function), *parts)


def _imported(module: str, name: str) -> Any:
    """Return what a name of a module stands for; None for nothing."""
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _formula_of(module: str, name: str) -> Any:
    return _imported(module, name).compute


def _unpacked(content: bytes, *parts: Any) -> OwnFormula:
    return OwnFormula(pickle.loads(content), *parts)


def metric(
    name: str,
    formula: str,
    *,
    of: str = "hits",
    reads: Iterable[str] | str = (),
    needs: Iterable[str] | str | None = None,
    kind: str = "other",
    better: str | None = None,
    range: Any = None,
    aspect: str = "",
) -> Callable[[Any], Metric]:
    """Declare a metric of your own: a decorator of the function that computes it.

    `rs.evaluate(results, golden, metrics=["default", mine])` scores it, and so do `rs.score` and
    `store.evaluate`, here and on a cluster. From then on it goes by its labels: "mine", or "mine@5"
    and "mine@5:doc" if its name is "mine@k". Nothing is registered: an evaluation has the metrics
    that it was made with, and a function that is defined anew counts from the next one on.

    The function gets lists (one per run and query), and returns one number for each: an array of
    `lists.n`, NaN for no value. `lists.column(name)` is an array over all items;
    `lists.total(values)`, `any(flags)` and `distinct(values)` make one value per list of it, and
    `lists.so_far(values)` adds up within each. `lists.response(name)` has one value per list.
    Several calls of a query are lists of their own; the policy `calls` says which count.
    Of hits there are also `rank`, `is_relevant`, `grade`, `gain`, `n_found` (per hit, within the
    cut-off), `n_targets` and `ideal(gain)` (per list); of all else `answered`, `refused`,
    `failed`, `blank`, `answerable` and `n_hits` (per list).

    Parameters
    ----------
    name
        With "@k" at its end if it takes a cut-off; hits alone can be cut off. A name of ours, or of
        another tool's metric, is refused.
    formula
        What it measures, in words.
    of
        What its items are: "hits", at any match level; "responses"; "citations"; "judgments".
    reads
        The columns that it reads, such as "hits.x_tokens" or "responses.cost_usd". Where a run has
        no value of one, the metric is NaN, and `ev.explain` says so.
    needs
        What the golden set must say of a query: "targets" (of hits the default),
        "support_groups", "answerable", "unanswerable", "reference_answer", "key_facts",
        "must_contain". () for nothing: the metric then applies to every query.
    kind
        "binary" (0 or 1), "bounded" or "other".
    better, range
        As for `ev.with_columns`; (0, 1) is the range of binary and bounded ones.
    aspect
        What it stands for among the metrics that decide: "retrieval", "answers", or a word of your
        own. It decides in the place of ours. Without it, it decides if `primary=` names it.

    Raises
    ------
    DataError
        A name that is taken; an unknown word in one of the others.

    Examples
    --------
    >>> @rs.metric("found_in_200@k", "1 if a relevant hit lies within the first 200 tokens",
    ...            reads="hits.x_tokens", kind="binary", better="higher")
    ... def found_in_200(lists):
    ...     tokens = lists.so_far(lists.column("x_tokens"))
    ...     return lists.any(lists.is_relevant & (tokens <= 200))
    """
    read = tuple(one if "." in one else f"{of}.{one}" for one in names_of(reads, "reads"))
    needed = ["targets"] * (of == "hits") if needs is None else names_of(needs, "needs")
    told = {
        "formula": formula, "of": of, "reads": read, "needs": needed, "kind": kind,
        "better": better, "range": range, "aspect": aspect,
    }  # fmt: skip

    def declared(function: Any) -> Metric:
        check_type(function, FunctionType, name, "a function: def, or lambda")
        given = told | {"source": source_hash(function)}
        return own_metric(name, given, OwnFormula(function, of, name, read))

    own_metric(name, told | {"source": "-"}, None)  # what is wrong is said where it stands
    return declared


def own_metric(name: Any, told: Mapping[str, Any], compute: OwnFormula | None) -> Metric:
    """Return a metric of your own from its declaration, as `to_plain` gives it.

    Raises
    ------
    DataError
        See `metric`.
    """
    _check_name(name)
    of, reads = told["of"], tuple(told["reads"])
    check_choice(of, OF, "of")
    for one in told["needs"]:
        check_choice(one, NEEDS, "needs")
    for read in reads:
        if not re.fullmatch(rf"({of}|responses)\.\w+", read):
            allowed = f"columns of {of} or responses, such as '{of}.x_tokens'"
            raise DataError(f"found {read!r}", field="reads", allowed=allowed)
    if name.endswith("@k") and of != "hits":
        raise DataError(f"{name} is of {of}", field="of", allowed="'hits', which have ranks")
    for field in ("formula", "aspect", "source"):
        check_type(told[field], str, field)
    kind, better = told["kind"], checked_direction(told["better"])
    check_choice(kind, ("binary", "bounded", "other"), "kind")
    bounds = checked_range(told["range"]) or (NO_BOUNDS if kind == "other" else (0.0, 1.0))
    recorded = needs_of(reads)
    return completed(Metric(
        name, told["formula"], bounds=bounds, better=better or "not declared",
        kind="bounded" if kind == "other" and np.isfinite(bounds).all() else kind, default=False,
        compute=compute, family=OF[of][0], excuses=False,
        needs=(*(NEEDS[one] for one in told["needs"]), OF[of][1], *recorded), partly=recorded,
        where="asked" if of == "hits" else "finished", reads_matches=of == "hits", vacuous=None,
        otherwise="the formula has no value", aspect=told["aspect"], source=told["source"],
        reads=reads,
    ))  # fmt: skip


def plain(own: Metric) -> dict[str, Any]:
    """Return the declaration of a metric of your own, as JSON holds it."""
    return {
        "name": own.name,
        "formula": own.formula,
        "of": next(of for of, (family, _) in OF.items() if family == own.family),
        "reads": list(own.reads),
        "needs": [word for word, need in NEEDS.items() if need in own.needs],
        "kind": own.kind, "aspect": own.aspect, "source": own.source,
    }  # fmt: skip


def of_plain(told: Mapping[str, Any]) -> Metric:
    """Return the metric of a declaration as JSON holds it, without its function."""
    names = ("name", "formula", "of", "reads", "needs", "kind", "better", "range", "aspect")
    if missing := [name for name in names if name not in told]:
        raise DataError(f"no {missing[0]}", field="declared", allowed="what rs.metric was given")
    return own_metric(told["name"], told, None)


def _check_name(name: Any) -> None:
    check_type(name, str, "name", "text, such as 'in_budget@k'")
    base = name.removesuffix("@k")
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", base) or base in RESERVED:
        raise DataError(
            f"found {excerpt(name)}", field="name",
            allowed="letters, digits and _, with @k at the end if it takes a cut-off",
        )  # fmt: skip
    if base in (*OTHER_NAMES, *ADDED) or is_label(base) or is_label(f"{base}@10"):
        raise DataError(
            f"{base} is a metric of ours, or of another tool", field="name", allowed="another name"
        )

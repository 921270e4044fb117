"""The metrics that decide: which ones by default, and which are judged as one aspect.

In: a frame of scores, or the names that a user gave. Out: the names of the primary metrics, and
the aspects they stand for.
"""

from collections.abc import Iterable, Sequence

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import name_list, names_of, nearest
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.metrics.table import by_aspect
from ragscore.scoring.value_states import column_of, metric_columns

# Refusing less trades one of the two for the other, so neither says anything alone.
ASPECTS = ("retrieval", "answers", "refusals", "passed")
REFUSALS = by_aspect()["refusals"]


def primary_of(
    scores: pd.DataFrame,
    given: Sequence[str] | str | None = None,
    declared: Declarations = NOTHING_DECLARED,
    *,
    are_united: bool = False,
) -> tuple[str, ...]:
    """Return the metrics that decide.

    Those given, and by default one for each aspect that has values: retrieval, answers, refusals
    (both of the pair), and passed if there is more than retrieval; a metric of your own that was
    declared for an aspect goes before ours. Without any of these, the first metric. Where one of
    the pair of refusals is given, the other joins it if it was scored. With `are_united`, several
    calls of some queries were united: metrics of retrieval that go by an order decide nothing.

    Raises
    ------
    DataError
        A name that wasn't scored; no name at all.
    """
    columns = metric_columns(scores)
    if given is None:
        has_value = [name for name in columns if scores[name].notna().any()]
        if are_united:
            labels = {name: declared.label_of(name) for name in has_value}
            has_value = [
                name for name, one in labels.items() if not one.is_ranking or one.metric.of_calls
            ]
        return default_primary(has_value, declared) or tuple(columns[:1])
    names = [column_of(name, columns) for name in names_of(given, "primary")]
    if not names:
        raise DataError("found none", field="primary", allowed="at least one, such as 'mrr@10'")
    if unknown := [name for name in names if name not in columns]:
        raise DataError(
            f"{name_list(unknown)} wasn't scored",
            field="primary",
            allowed=nearest(unknown[0], columns, "metrics of the scores:"),
        )
    if set(names) & set(REFUSALS):
        names += [name for name in REFUSALS if name in columns]
    return tuple(dict.fromkeys(names))


def default_primary(
    names: Iterable[str], declared: Declarations = NOTHING_DECLARED
) -> tuple[str, ...]:
    """Return the metrics among these that decide by default; none if no aspect is there.

    Of a metric of your own, its largest cut-off does.
    """
    known, decide = dict.fromkeys(names), by_aspect()
    labels = [label for name in known if (label := declared.find(name)) is not None]
    own = {
        label.metric.aspect: label.text
        for label in sorted(labels, key=lambda one: (one.level is None, one.k or 0))
        if label.metric.aspect
    }
    found: list[str] = []
    for aspect in dict.fromkeys([*ASPECTS, *own]):
        held = [name for name in decide.get(aspect, ()) if name in known]
        # of retrieval alone `passed` says the same again, and would halve its level
        if aspect != "passed" or aspects_of(found).keys() != {"retrieval"}:
            found += [own[aspect]] if aspect in own else held[: None if aspect == "refusals" else 1]
    return tuple(found)


def aspects_of(primary: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the aspects that primary metrics stand for: name -> its metrics.

    Both metrics of refusals are one aspect. A metric that isn't the only one of its aspect goes
    by its own name.
    """
    names = list(dict.fromkeys(primary))
    aspects: dict[str, tuple[str, ...]] = {}
    for name in names:
        if name in REFUSALS:
            aspects["refusals"] = tuple(one for one in REFUSALS if one in names)
            continue
        aspect = next((key for key, of in by_aspect().items() if name in of), name)
        is_alone = sum(one in by_aspect().get(aspect, ()) for one in names) <= 1
        aspects[aspect if is_alone else name] = (name,)
    return aspects

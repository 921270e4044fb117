"""The metrics that decide: which ones by default, and which are judged as one aspect.

In: a frame of scores, or the names that a user gave. Out: the names of the primary metrics, and
the aspects they stand for.
"""

from collections.abc import Iterable, Sequence

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import name_list, names_of, nearest
from ragscore.scoring.metrics import parse_label
from ragscore.scoring.value_states import metric_columns

# Aspect -> the metrics that may stand for it: the first that has a value does.
FIRST_OF = {
    "retrieval": ("ndcg@10", "mrr@10", "mrr", "recall@10", "hit@10"),
    "answers": (
        "judge_correctness", "answer_checks", "key_facts", "exact_match", "token_f1", "rouge_l",
    ),
}  # fmt: skip
# Refusing less trades one of the two for the other, so neither says anything alone.
REFUSALS = ("answered_unanswerable", "false_refusal")
PASSED = "passed"


def primary_of(scores: pd.DataFrame, given: Sequence[str] | str | None = None) -> tuple[str, ...]:
    """Return the metrics that decide.

    Those given, and by default one for each aspect that has values: retrieval, answers, refusals
    (both of the pair), passed. Without any of these, the first metric. Where one of the pair of
    refusals is given, the other joins it if it was scored.

    Raises
    ------
    DataError
        A name that wasn't scored; no name at all.
    """
    columns = metric_columns(scores)
    if given is None:
        has_value = [name for name in columns if scores[name].notna().any()]
        return default_primary(has_value) or tuple(columns[:1])
    names = names_of(given, "primary")
    names = [name if name in columns else _own_spelling(name) for name in names]
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


def default_primary(names: Iterable[str]) -> tuple[str, ...]:
    """Return the metrics among these that decide by default; none if no aspect is there."""
    known = set(names)
    firsts = (next((name for name in of if name in known), None) for of in FIRST_OF.values())
    pair = [name for name in REFUSALS if name in known]
    return (*(name for name in firsts if name), *pair, *([PASSED] if PASSED in known else []))


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
        aspect = next((key for key, of in FIRST_OF.items() if name in of), name)
        is_alone = sum(one in FIRST_OF.get(aspect, ()) for one in names) <= 1
        aspects[aspect if is_alone else name] = (name,)
    return aspects


def _own_spelling(name: str) -> str:
    """Return our name of a metric that was given under another tool's; unknown ones as they are."""
    try:
        return parse_label(name).text
    except DataError:
        return name

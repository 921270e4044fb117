"""The metrics that decide: which ones by default, and which are read as one aspect."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import names_of
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.summary import chosen_columns, metric_columns

# Aspect -> the metrics that may represent it: the first that has values does. Refusing less trades
# one of the pair of refusals for the other, so both do.
ASPECTS = {
    "retrieval": ("ndcg@10", "mrr@10", "mrr", "recall@10", "hit@10"),
    "answers": (
        "judge_correctness", "answer_checks", "key_facts", "nugget_all", "exact_match", "token_f1",
        "rouge_l",
    ),
    "refusals": ("answered_unanswerable", "false_refusal"),
    "passed": ("passed",),
}  # fmt: skip
REFUSALS = ASPECTS["refusals"]


def primary_of(
    scores: pd.DataFrame,
    given: Sequence[str] | str | None = None,
    table: MetricTable = TABLE,
) -> tuple[str, ...]:
    """Return the metrics that decide.

    Those given, and by default one for each aspect that has values: retrieval, answers, refusals
    (both of the pair), and passed if there is more than retrieval. Without any of these, the first
    metric.
    Where one of the pair of refusals is given, the other joins it if it was scored.

    Raises
    ------
    DataError
        A name that wasn't scored; no name at all.
    """
    columns, found = metric_columns(scores), list[str]()
    if given is None:
        for aspect, of in ASPECTS.items():
            held = [name for name in of if name in columns and scores[name].notna().any()]
            # of retrieval alone `passed` says the same again, and would halve its level
            if aspect != "passed" or aspects_of(found).keys() != {"retrieval"}:
                found += held if aspect == "refusals" else held[:1]
        return tuple(found or columns[:1])
    names = chosen_columns(scores, names_of(given, "primary"), table, "primary")
    if not names:
        raise DataError("found none", field="primary", allowed="at least one, such as 'mrr@10'")
    if set(names) & set(REFUSALS):
        names += [name for name in REFUSALS if name in columns]
    return tuple(dict.fromkeys(names))


def aspects_of(primary: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the aspects that primary metrics represent: name -> its metrics.

    Both metrics of refusals are one aspect. A metric that isn't the only one of its aspect goes
    by its own name.
    """
    names, found = list(dict.fromkeys(primary)), dict[str, tuple[str, ...]]()
    aspect_of = {name: aspect for aspect, of in ASPECTS.items() for name in of}
    counts = Counter(aspect_of.get(name) for name in names)
    for name in names:
        aspect = aspect_of.get(name, name)
        key = aspect if aspect == "refusals" or counts[aspect] <= 1 else name
        found[key] = (*found.get(key, ()), name)
    return found

"""Requirements of metrics: which metrics some files support, and what is missing for others.

Nothing is scored; only columns that have values are counted.
"""

from typing import Any, cast

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import unsaid
from ragscore.io.load import load_golden, load_results
from ragscore.scoring.metrics import TABLE, Metric
from ragscore.scoring.targets import LEVELS, targets_at


def supported_metrics(
    *sources: Any,
    format: str | None = None,
    columns: dict[str, str] | None = None,
    strict: bool = False,
) -> pd.DataFrame:
    """Return which metrics of `rs.metrics()` these files support, and what others lack.

    Parameters
    ----------
    sources
        Golden files and runs, or other tools' files that hold both: whatever `load_golden` or
        `load_results` takes, `Golden`, `Results`. Labels alone or runs alone suffice. And metrics
        of your own (`rs.metric`), which come last in the table.
    format, columns, strict
        As for `rs.load_golden` and `rs.load_results`, for every file among the sources.

    Returns
    -------
    One row per metric, in the order of the metric table: `metric`; `supported` (bool); `missing`,
    what the files lack for it ("" if supported); `n`, the number of queries, responses or
    judgments of its scarcest requirement; `levels`, the match levels with targets ("" for metrics
    that use none).

    Raises
    ------
    DataError
        No source, or one that is neither golden set nor results. For a table with unknown columns
        the `columns=` of both loaders is proposed.
    """
    if not sources:
        raise DataError("found none", field="sources", allowed="golden files, runs, or both")
    own = [one for one in sources if isinstance(one, Metric)]
    options = {"format": format, "columns": columns, "strict": strict}
    found = [one for each in sources if each not in own for one in read_source(each, options)[0]]
    goldens = [one._coded for one in found if isinstance(one, Golden)]  # which keep what is found
    results = [one for one in found if isinstance(one, Results)]
    with_targets = [
        level for level in LEVELS if any(len(targets_at(one, level).targets) for one in goldens)
    ]

    rows = []
    for metric in (*TABLE.values(), *own):
        n_of = {
            need.asked: sum(int(need.anywhere(one).sum()) for one in goldens)
            for need in metric.needs
        }
        for name in _recorded(metric):
            frame, _, column = name.partition(".")
            words = _WORDS.get(name) or name.replace(".", " of ")
            n_of[words] = sum(_n_recorded(getattr(one, frame), column) for one in results)
        rows.append({
            "metric": metric.name,
            "supported": all(n_of.values()),
            "missing": "; ".join(words for words, n in n_of.items() if not n),
            "n": min(n_of.values()),
            "levels": ", ".join(with_targets) if metric.family == "ranking" else "",
        })  # fmt: skip
    return pd.DataFrame(rows)


def read_source(source: Any, options: dict[str, Any]) -> tuple[list[Golden | Results], list[str]]:
    """Return the golden set, the results or both that a source holds, and notes on it.

    Raises
    ------
    DataError
        It holds neither; the columns of a table are proposed.
    """
    if isinstance(source, (Golden, Results)):
        return [source], []
    found, notes, errors = list[Golden | Results](), list[str](), list[DataError]()
    for load in cast("tuple[Any, ...]", (load_golden, load_results)):
        with unsaid() as said:
            try:
                one = load(source, **options)
                if not len(one.queries if isinstance(one, Golden) else one.responses):
                    load(source, **options | {"strict": True})  # raises why nothing is left
                found.append(one)
                notes.append(f"{source}: {one!r}")
            except DataError as error:
                errors.append(error)
        notes += said
    if found:
        return found, notes + [f"not read: {error}" for error in errors if error.columns]
    as_golden, as_results = errors
    asked = [one for one in errors if one.field == "columns"]
    if len(asked) == 1:
        raise asked[0]
    if as_results.columns or as_golden.found == as_results.found:
        raise as_results
    raise DataError(f"neither golden set ({as_golden}) nor results ({as_results})")


_WORDS = {
    "hits": "hits of a run", "responses": "responses of a run", "citations": "citations of answers",
    "responses.answer": "answers in the responses",
    "responses.refused": "whether the system refused",
    "responses.elapsed_ms": "times of responses", "responses.cost_usd": "costs of responses",
    "responses.scope": "the folders that were searched (scope)",
    "hits.call": "the call that found each hit",
}  # fmt: skip


def _recorded(metric: Metric) -> list[str]:
    """Return what a run must record for a metric: a frame, or a column or criterion of it."""
    if metric.reads == "judgments.value":
        of_nuggets = metric.name.startswith("nugget_")
        return [f"judgments.{'nuggets' if of_nuggets else metric.name}"]
    if metric.reads == "citations":
        return ["responses.answer", "citations"]
    return [metric.reads or ("hits" if metric.family == "ranking" else "responses")]


def _n_recorded(frame: pd.DataFrame | None, name: str) -> int:
    """Count the rows of a frame that record a column, or a criterion of judgments."""
    if frame is None or not name:
        return 0 if frame is None else len(frame)
    if "criterion" in frame:
        is_of = frame["criterion"].eq(name) | (name == "judge_failed")
        return int((is_of & frame["value"].notna()).sum())
    columns = [name, "answer"] if name == "refused" else [name]
    return int(frame.reindex(columns=columns).notna().any(axis=1).sum())

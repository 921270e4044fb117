"""Requirements of metrics: which metrics some files support, and what is missing for others.

Nothing is scored; only columns that have values are counted.
"""

from functools import cache
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import unsaid
from ragscore.io.load import load_golden, load_results
from ragscore.scoring.metrics import Metric, TABLE
from ragscore.scoring.metrics.needs import Need, RunNeed
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
        of your own, `rs.Metric`, which come last in the table.
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
    goldens: list[Golden] = []
    results: list[Results] = []
    metrics = [*TABLE, *(one for one in sources if isinstance(one, Metric))]
    for source in (one for one in sources if not isinstance(one, Metric)):
        found = parts_of(source, {"format": format, "columns": columns, "strict": strict})
        goldens += found[0]
        results += found[1]
    with_targets = [
        level for level in LEVELS if any(len(targets_at(one, level).targets) for one in goldens)
    ]

    @cache
    def count(need: Need | RunNeed) -> int:
        return need.count(goldens) if isinstance(need, Need) else need.count(results)

    rows = [
        {
            "metric": metric.name,
            "supported": all(map(count, metric.needs)),
            "missing": "; ".join(need.text for need in metric.needs if not count(need)),
            "n": min(map(count, metric.needs)),
            "levels": ", ".join(with_targets) if metric.family == "ranking" else "",
        }
        for metric in metrics
    ]
    return pd.DataFrame(rows)


def parts_of(source: Any, options: dict[str, Any]) -> tuple[list[Golden], list[Results]]:
    """Return the golden set, the results or both that a source holds."""
    if isinstance(source, Golden):
        return [source], []
    if isinstance(source, Results):
        return [], [source]
    golden: list[Golden] = []
    results: list[Results] = []
    errors: list[DataError] = []
    with unsaid():  # the table tells what the warnings of loading would
        try:
            golden.append(load_golden(source, **options))
        except DataError as error:
            errors.append(error)
        try:
            results.append(load_results(source, **options))
        except DataError as error:
            errors.append(error)
    if len(errors) == 2:
        raise _unreadable(*errors)
    return golden, results


def _unreadable(as_golden: DataError, as_results: DataError) -> DataError:
    """Return the one error of a source that is neither; the columns of a table are proposed."""
    if as_results.columns and as_golden.columns:
        found = as_results.found.replace("of results", "of golden set or results")
        allowed = "to read it as results, or as a golden set"
        return DataError(found, file=as_results.file, columns=as_results.columns, allowed=allowed)
    if as_golden.found == as_results.found:
        return as_results
    return DataError(f"neither golden set ({as_golden}) nor results ({as_results})")

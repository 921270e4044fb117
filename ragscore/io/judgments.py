"""`judgments.jsonl` beside a run's file.

One verdict per line, fields named as the columns of the judgments frame.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import KINDS, DataError, Results, check_type, from_records
from ragscore.io.fields import identifier, number, text, whole
from ragscore.io.source import Problems, Row, json_rows
from ragscore.io.values import flatten, own_fields, present, settle
from ragscore.io.written import check_one_run, write_lines

JUDGMENTS_FILE = "judgments.jsonl"
LEDGER_FILE = "judge_ledger.jsonl"
_READERS: dict[str, Callable[..., Any]] = {"str": text, "float64": number, "Int64": whole}
_KNOWN = frozenset(KINDS["judgments"].dtypes)


def write_judgments(results: Results, path: str | Path) -> Path:
    """Write the judgments of one run as `judgments.jsonl`, which `rs.load_results` reads with the run's `per_query.jsonl` beside it.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    path
        The run's folder, or a file that ends in .jsonl.

    Raises
    ------
    DataError
        No run or more than one, or no judgments.
    """
    check_type(results, Results, "results")
    check_one_run(results)
    if results.judgments is None:
        raise DataError(
            "the run has no judgments", field="results.judgments", allowed="those of rs.judge"
        )
    file = Path(path) if str(path).endswith(".jsonl") else Path(path) / JUDGMENTS_FILE
    rows = present(results.judgments.drop(columns="run_id"))
    return write_lines(
        file,
        (
            {
                **{name: value for name, value in row.items() if not name.startswith("x_")},
                **own_fields(row, _KNOWN, "judgments"),
            }
            for row in rows
        ),
    )


def read_judgments(file: Path, run_id: str, problems: Problems) -> pd.DataFrame | None:
    """The judgments beside a run's file; None where there is no such file."""
    if not file.exists():
        return None
    faults = problems.of(file)
    records = [
        record for row in json_rows(file, faults) if (record := _record(row, faults)) is not None
    ]
    return from_records(settle([{"run_id": run_id} | record for record in records]), "judgments")


def _record(row: Row, problems: Problems) -> dict[str, Any] | None:
    """One verdict; None, and a problem, for one of no query or no criterion."""
    values = dict(row.values)
    found: dict[str, Any] = {
        name: identifier(values.pop(name, None), name, row.line, problems)
        for name in ("query_id", "criterion")
    }
    if missing := [name for name, value in found.items() if value is None]:
        if all(name not in row.values or row.values[name] is None for name in missing):
            problems.add(
                "the field is missing",
                line=row.line,
                field=missing[0],
                allowed="text that isn't empty",
            )
        return None
    values.pop("run_id", None)
    for name, dtype in KINDS["judgments"].dtypes.items():
        if name not in ("run_id", *found):
            found[name] = _READERS[dtype](values.pop(name, None), name, row.line, problems)
    found["item"] = found["item"] or ""
    return found | flatten(values)

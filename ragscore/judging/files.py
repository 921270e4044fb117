"""What judging leaves with a run.

Judgments, as the rest of the library reads them, and the ledger of what was asked.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, records_of
from ragscore.io.output import write_lines
from ragscore.io.sidecars import JUDGMENTS_FILE, LEDGER_FILE, write_judgments
from ragscore.io.source import Problems, json_rows
from ragscore.store.store import RunStore


def save_judged(
    results: Results, ledger: pd.DataFrame, where: str | Path | RunStore, overwrite: bool
) -> list[Path]:
    """Judgments and ledger of every run, to the run's folder or to the store; see `Judged.save`."""
    run_ids = results.runs["run_id"].astype("str").tolist()
    if not isinstance(where, RunStore) and len(run_ids) != 1:
        raise DataError(
            f"{len(run_ids)} runs in one folder",
            field="where",
            allowed="one run (see Results.select), or the RunStore that holds them",
        )
    folders = []
    for run_id in run_ids:
        part = results.select(run_id)
        assert part.judgments is not None
        if isinstance(where, RunStore):
            folder = where.path(run_id)
            where.add(run_id, judgments=part.judgments, overwrite=overwrite)
        else:
            folder = Path(where)
            if (folder / JUDGMENTS_FILE).exists() and not overwrite:
                raise DataError(
                    "the run has judgments already",
                    file=folder / JUDGMENTS_FILE,
                    field="judgments",
                    allowed="overwrite=True",
                )
            write_judgments(part, folder)
        own = ledger[ledger["run_id"] == run_id]
        write_lines(folder / LEDGER_FILE, [*_kept(folder, own), *records_of(own)])
        folders.append(folder)
    return folders


def _kept(folder: Path, new: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of the ledger that is there, of judges that were not asked anew."""
    if not (folder / LEDGER_FILE).exists():
        return []
    before = load_judge_ledger(folder)
    return records_of(before[~before["judge"].isin(new["judge"].unique())])


def load_judge_ledger(folder: str | Path) -> pd.DataFrame:
    """The ledger of a judged run: the frame of `Judged.ledger`."""
    file = Path(folder) / LEDGER_FILE
    if not file.exists():
        raise DataError(
            "no such file", file=file, allowed="a run whose judgments were saved by Judged.save"
        )
    frame = pd.DataFrame([row.values for row in json_rows(file, Problems(file, strict=True))])
    texts = dict.fromkeys(("run_id", "query_id", "judge", "criterion", "state", "reason"), "str")
    return frame.astype(texts | {"tokens": "float64", "cost_usd": "float64"})

"""Runs of a store of which only aggregates are there, as in a clone that left the tables out.

In: the catalogue. Out: which runs these are, and their aggregates as `Results` without rows: from
`metrics.json` where no Parquet file is left, else from the values that the run was saved with.
"""

import pandas as pd

from ragscore.frames.data import Results, empty, from_records
from ragscore.scoring.summary import STATISTICS
from ragscore.store.catalogue import Catalogue
from ragscore.store.parquet import open_parquet, read_frame
from ragscore.store.places import file_names, stamps
from ragscore.store.runs import StoredRun
from ragscore.store.tables import read_metrics

NO_TABLES = "the file is not there: run.json and metrics.json are all that is left of the run"


def without_rows(catalogue: Catalogue, names: list[str]) -> list[str]:
    """Return those of the runs of which only aggregates are stored, in this order."""
    runs = [catalogue.stored[name] for name in names]
    # of a scored run the scores tell; a run that wasn't may have been saved with aggregates alone
    kinds = ["scores" if run.scoring else "reported" for run in runs]
    asked = {
        run.run_id: f"{run.name}/{run.entries[kind].name}"
        for run, kind in zip(runs, kinds, strict=True)
        if kind in run.entries
    }
    found = dict(zip(asked, stamps(catalogue.root, list(asked.values())), strict=True))
    is_there = [found.get(run.run_id) is not None for run in runs]
    return [
        run.run_id
        for run, there in zip(runs, is_there, strict=True)
        if (is_clone(run) if run.scoring and not there else not run.scoring and there)
        and (run.scoring or _has_no_response(run))
    ]


def is_clone(run: StoredRun) -> bool:
    """Tell a run of which no table is left from one that lost a single file."""
    there = file_names(run.folder)
    tables = [entry.name for kind, entry in run.entries.items() if kind != "metrics"]
    return run.table("metrics").entry.name in there and not there.intersection(tables)


def _has_no_response(run: StoredRun) -> bool:
    with open_parquet(run.table("responses")) as source:
        return bool(source.metadata.num_rows == 0)


def aggregate_results(catalogue: Catalogue, names: list[str]) -> Results:
    """Return runs without rows with their aggregates, and a problem that names what is missing."""
    runs = [catalogue.stored[name] for name in names]
    about = catalogue.about(names).assign(run_id=names).reset_index(drop=True)
    clones = [run for run in runs if run.scoring]
    problem = {"line": None, "field": None, "found": NO_TABLES, "allowed": "the run's tables"}
    problems = [
        problem | {"file": str(run.table("responses")), "run_id": run.run_id} for run in clones
    ]
    parts = [_of_clone(run) if run.scoring else _as_saved(run) for run in runs]
    return Results(
        about,
        empty("responses"),
        reported=pd.concat(parts, ignore_index=True),
        problems=from_records(problems, "problems"),
    )


def _of_clone(run: StoredRun) -> pd.DataFrame:
    """Return the statistics of a run's metrics as reported values; null is left out."""
    table = read_metrics(run)
    known = [name for name in STATISTICS if name in table]
    rows = table.melt(["metric"], known, var_name="statistic").dropna(subset="value")
    rows = rows.assign(run_id=run.run_id, query_id="", label=rows["metric"])
    return rows.astype({"value": "float64"})


def _as_saved(run: StoredRun) -> pd.DataFrame:
    rows = read_frame(run.table("reported"), "reported")
    return rows[rows["query_id"].eq("")].astype({"run_id": "str"})

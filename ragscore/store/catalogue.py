"""Snapshot of the runs of a store: each `run.json` is read once for whatever is asked of it.

In: the stored runs. Out: their table, run ids for the names that people give, and errors for runs
that can't be compared.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, from_records, run_names
from ragscore.frames.golden_versions import changes_of, counted
from ragscore.scoring.provenance import check_provenance
from ragscore.store.checked import GoneError
from ragscore.store.parquet import read_parquet
from ragscore.store.places import Place
from ragscore.store.runs import StoredRun, stored_runs
from ragscore.store.scoring import choices_of


@dataclass(frozen=True)
class Catalogue:
    """The runs that a store held at one moment."""

    root: Place
    stored: dict[str, StoredRun]

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per run, oldest first (created_at, then run_id); columns as the `runs` frame."""
        runs = from_records([run.record for run in self.stored.values()], "runs")
        by = [name for name in ("created_at", "run_id") if name in runs]
        return (
            runs.assign(run_id=runs["run_id"].astype("str"))
            .sort_values(by, ignore_index=True)
            .astype({"run_id": "category"})
        )

    @cached_property
    def by_saving(self) -> list[str]:
        """Run ids in the order in which they were first saved, those without that time by date."""
        own = {run.run_id: run.described["ragscore"] for run in self.stored.values()}
        return sorted(
            self.table["run_id"].astype("str"), key=lambda run: own[run].get("saved_at", "")
        )

    def about(self, names: list[str]) -> pd.DataFrame:
        """Return the rows of these runs in the table, in this order."""
        return self.table.iloc[
            pd.Index(self.table["run_id"].astype("str")).get_indexer(pd.Index(names))
        ]

    def names(self, runs: list[str] | str | None = None) -> list[str]:
        """Return run ids of all runs, or of those named, each once.

        A name is a run id, or a system that only one run has.
        """
        table = self.table
        names = (
            run_names(table, [runs] if isinstance(runs, str) else runs)
            if runs is not None
            else table["run_id"].astype("str").tolist()
        )
        if not names:
            raise DataError(
                "the store holds no run" if not len(table) else "no run named", file=str(self.root)
            )
        return list(dict.fromkeys(names))

    def check_scored(self, names: list[str]) -> None:
        """Refuse runs that were saved without scores."""
        if without := [name for name in names if not self.stored[name].scoring]:
            others = [name for name in names if name not in without]
            allowed = "save(results, golden=...) or refresh(golden)" + (
                f", or runs={others}" if others else ""
            )
            raise DataError(
                f"{', '.join(without)} saved without scores", file=str(self.root), allowed=allowed
            )

    def check_policies(self, names: list[str], policies: dict[str, str | None]) -> None:
        """Refuse scores that were made by other policies than asked for."""
        if not policies:
            return
        used = {name: choices_of(self.stored[name].scoring) for name in names}
        for policy, value in policies.items():
            if others := [name for name, choices in used.items() if choices[policy] != value]:
                found = f"{', '.join(others)} scored with {policy}={used[others[0]][policy]!r}"
                raise DataError(
                    found,
                    file=str(self.root),
                    field=policy,
                    allowed=f"refresh(golden, {policy}={value!r}), or save so",
                )

    def provenance(self, names: list[str]) -> dict[str, dict[str, Any]]:
        """Return the provenance of each of these runs that has one, by component."""
        scorings = {name: self.stored[name].scoring for name in names}
        return {name: one["provenance"] for name, one in scorings.items() if one}

    def golden_changes(self, baseline: str, candidate: str) -> pd.DataFrame:
        """Return what became of each query between the golden sets of two runs."""
        old, new = (
            read_parquet(self.stored[name].table("golden")).set_index("query_id")
            for name in (baseline, candidate)
        )
        return changes_of(old, new)

    def check_provenance(
        self, names: list[str], columns: list[str], ignore: bool | str | list[str]
    ) -> None:
        """Refuse runs that were measured differently; warn of components to be ignored."""
        parts = self.provenance(names)
        a, b = next(
            ((a, b) for a, b in pairwise(parts) if parts[a]["golden"] != parts[b]["golden"]),
            ("", ""),
        )
        details = ""
        with suppress(GoneError):  # a clone without tables can't tell which queries
            if a:
                n = len(read_parquet(self.stored[a].table("golden"), ["query_id"]))
                details = f"{a} to {b}: {counted(self.golden_changes(a, b), n)}"
        # The first run of each provenance: a thousand runs of one suite mostly share one.
        first: dict[str, dict[str, Any]] = {}
        for name, part in parts.items():
            if part not in first.values():
                first[name] = part
        check_provenance(first, columns, ignore, details=details, remedy=": refresh(golden)")


def open_catalogue(root: Place, before: Catalogue | None = None) -> Catalogue:
    """Return the catalogue of a store now; `before` itself if nothing has changed since."""
    seen = before.stored if before is not None else {}
    stored = {run.run_id: run for run in stored_runs(root, seen.values())}
    is_same = (
        before is not None
        and stored.keys() == seen.keys()
        and all(run is seen[name] for name, run in stored.items())
    )
    return before if before is not None and is_same else Catalogue(root, stored)

"""The runs of a store at one look: their descriptions are read once, however much is asked of them.

In: what the `run.json` of each run says. Out: their names as people give them, and whether they may
be set side by side.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, from_records, run_names
from ragscore.frames.golden_versions import changes_of, counted
from ragscore.scoring.provenance import check_provenance
from ragscore.store.files import Place, read_parquet
from ragscore.store.runs import Stored, stored_runs
from ragscore.store.scoring import choices_of


@dataclass(frozen=True)
class Listing:
    """The runs that a store held when it was looked at."""

    root: Place
    stored: dict[str, Stored]

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

    def about(self, names: list[str]) -> pd.DataFrame:
        """The rows of these runs, in this order."""
        return self.table.iloc[
            pd.Index(self.table["run_id"].astype("str")).get_indexer(pd.Index(names))
        ]

    def names(self, runs: list[str] | str | None = None) -> list[str]:
        """Run ids of all runs, or of those named (by run_id, or by a system that only one run has), each once."""
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

    def find(self, system: str | None, since: Any, until: Any, config: dict[str, Any]) -> list[str]:
        """Run ids by system, time and keys of their config; see `RunStore.find`."""
        table = self.table
        keep = np.ones(len(table), dtype=bool)
        if system is not None:
            keep &= (
                (table["system"] == system).to_numpy(dtype=bool, na_value=False)
                if "system" in table
                else False
            )
        made = (
            table["created_at"]
            if "created_at" in table
            else pd.Series(pd.NaT, index=table.index, dtype="datetime64[us, UTC]")
        )
        for bound, holds in ((since, made.ge), (until, made.lt)):
            if bound is not None:
                keep &= holds(_time(bound)).to_numpy()
        configs = (
            [json.loads(text) if isinstance(text, str) else None for text in table["config"]]
            if config and "config" in table
            else [None] * len(table)
        )
        for key, value in config.items():
            keep &= np.array([_at(one, key) == value for one in configs], dtype=bool)
        return table.loc[keep, "run_id"].astype("str").tolist()

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

    def check_policies(self, names: list[str], wanted: dict[str, str | None]) -> None:
        """Refuse scores that were made otherwise than asked for."""
        made = {name: choices_of(self.stored[name].scoring) for name in names} if wanted else {}
        for policy, value in wanted.items():
            if others := [name for name, choices in made.items() if choices[policy] != value]:
                found = f"{', '.join(others)} scored with {policy}={made[others[0]][policy]!r}"
                raise DataError(
                    found,
                    file=str(self.root),
                    field=policy,
                    allowed=f"refresh(golden, {policy}={value!r}), or save so",
                )

    def rulers(self, names: list[str]) -> dict[str, dict[str, Any]]:
        """What run.json says of the ruler of each of these runs that has one, by component."""
        return {name: self._rulers[name] for name in names if name in self._rulers}

    @cached_property
    def _rulers(self) -> dict[str, dict[str, Any]]:
        """The rulers of all runs, equal ones the same object.

        Comparing them again costs nothing then.
        """
        distinct: list[dict[str, Any]] = []
        found = {}
        for name, ruler in (
            (name, run.scoring["ruler"])
            for name, run in self.stored.items()
            if "ruler" in run.scoring
        ):
            found[name] = next((one for one in distinct if one is ruler or one == ruler), ruler)
            if found[name] is ruler and not any(one is ruler for one in distinct):
                distinct.append(ruler)
        return found

    def golden_changes(self, baseline: str, candidate: str) -> pd.DataFrame:
        """What became of each query between the golden sets that two runs were scored by."""
        old, new = (
            read_parquet(self.stored[name].folder / "golden.parquet").set_index("query_id")
            for name in (baseline, candidate)
        )
        return changes_of(old, new)

    def check_rulers(self, names: list[str], columns: list[str], ignore: bool | list[str]) -> None:
        """Refuse runs that different rulers measured; components to be ignored are warned of."""
        parts = self.rulers(names)
        a, b = next(
            ((a, b) for a, b in pairwise(parts) if parts[a]["golden"] != parts[b]["golden"]),
            ("", ""),
        )
        n = len(read_parquet(self.stored[a].folder / "golden.parquet", ["query_id"])) if a else 0
        parts = parts if len(parts) == len(names) else self._by_hash(names, parts)
        details = f"{a} to {b}: {counted(self.golden_changes(a, b), n)}" if a else ""
        check_provenance(
            _distinct(parts), columns, ignore, details=details, remedy=": refresh(golden)"
        )

    def _by_hash(
        self, names: list[str], parts: dict[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """The rulers of runs of which some were saved without one.

        All that run.json knows of those is the hash of the golden set.
        """
        hashes = {name: self.stored[name].scoring.get("golden_hash") for name in names}
        return {
            name: parts.get(name, {}) | {"golden": f"golden set {hashes[name]}"}
            for name in names
            if hashes[name]
        }


def listing_of(root: Place, before: Listing | None = None) -> Listing:
    """The runs that are in a store now; `before` itself where nothing has changed since."""
    seen = before.stored if before is not None else {}
    stored = {run.run_id: run for run in stored_runs(root, seen.values())}
    is_same = (
        before is not None
        and stored.keys() == seen.keys()
        and all(run is seen[name] for name, run in stored.items())
    )
    return before if before is not None and is_same else Listing(root, stored)


def _distinct(parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The first run of each ruler: a thousand runs of one suite mostly have the same."""
    kept: dict[str, dict[str, Any]] = {}
    for name, part in parts.items():
        if part not in kept.values():
            kept[name] = part
    return kept


def _time(bound: Any) -> pd.Timestamp:
    try:
        time = pd.Timestamp(bound)
    except ValueError as error:
        raise DataError(
            f"found {bound!r}", field="since, until", allowed="an ISO 8601 time such as 2026-01-31"
        ) from error
    return time.tz_localize("UTC") if time.tzinfo is None else time


def _at(config: Any, key: str) -> Any:
    """The value of a key, those inside others with dots; a key that holds a dot itself goes first."""
    if not isinstance(config, dict):
        return None
    if key in config:
        return config[key]
    outer, has_more, inner = key.partition(".")
    return _at(config.get(outer), inner) if has_more else None

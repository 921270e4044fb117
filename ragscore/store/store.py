"""`RunStore`: a folder of runs as Parquet, one folder per run, as DuckDB and polars read them too.

The folder may lie on this machine or on object storage.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial, wraps
from inspect import Parameter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import (
    DataError,
    Golden,
    Results,
    categorical,
    check_inputs,
    check_type,
    conform,
    from_records,
    run_names,
)
from ragscore.frames.errors import check_choice, check_whole, name_list, names_of, plural, warn
from ragscore.frames.escaping import html_text
from ragscore.frames.golden_versions import changes_of, counted
from ragscore.frames.tables import SHOWN_ROWS, Table
from ragscore.frames.verbs import RunStoreVerbs, takes
from ragscore.io.run_write import run_description
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import check_provenance
from ragscore.scoring.readings import Reading, find_reading
from ragscore.scoring.rows import STATES
from ragscore.scoring.rules import Rule, rule_name
from ragscore.scoring.score import Asked, Scored, scored
from ragscore.scoring.summary import STATISTICS, metric_columns, with_saved
from ragscore.scoring.targets import LEVELS
from ragscore.scoring.turns import ASKED, with_stated_turns, with_turns
from ragscore.store.place import Disk, place_of
from ragscore.store.runs import (
    ATTEMPTS,
    Draft,
    GoneError,
    Seen,
    StoredRun,
    put_run,
    run_before,
    stored_runs,
)
from ragscore.store.scale import score_stored_runs
from ragscore.store.scoring import (
    PROFILE,
    Request,
    kept_of,
    own_columns,
    reported_means,
    request_of,
    write_scores,
)
from ragscore.store.tables import (
    ADDED,
    FRAMES,
    check_columns,
    map_threads,
    only_run,
    read_frame,
    read_parts,
    read_table,
    write_pieces,
    write_run,
    write_table,
)

IGNORED = (
    "# Texts and tables stay out of version control; run-….json and reports may be committed.\n"
    "*.parquet\n.staging-*\n"
)
_Method = TypeVar("_Method", bound=Callable[..., Any])
_OPTIONAL = partial(Parameter, kind=Parameter.KEYWORD_ONLY, default=None)


def _of_one_state(read: _Method) -> _Method:
    """Read again, from the runs as they are then, where a file has gone since they were listed."""

    @wraps(read)
    def reread(self: "RunStore", *args: Any, **kwargs: Any) -> Any:
        for _ in range(ATTEMPTS):
            try:
                return read(self, *args, **kwargs)
            except GoneError:
                before = self._seen
                self._open()
                if self._seen == before:
                    raise
        return read(self, *args, **kwargs)

    return cast(_Method, reread)


class RunStore(RunStoreVerbs):
    """A store of runs: save them, list them, load them and their scores again.

    Parameters
    ----------
    root
        The folder; it is created with the first run, with a `.gitignore` that keeps texts out of
        version control. Or a URL of a file system that fsspec knows, such as `s3://bucket/runs`
        (extra `scale`).
    storage_options
        Options for that file system: end point, credentials, and the like.
    """

    def __init__(self, root: str | Path, *, storage_options: dict[str, Any] | None = None) -> None:
        check_type(root, (str, os.PathLike), "root", "a folder, or a URL")
        self._place = place_of(root, storage_options)
        self._seen: Seen = {}
        self._stored: dict[str, StoredRun] = {}
        self._table = from_records([], "runs")

    def __repr__(self) -> str:
        return f"RunStore({self._root!r}): {plural(len(self._open()), 'run')}"

    def _repr_html_(self) -> str:
        runs = self.runs().drop(columns=["config"], errors="ignore")
        return f"<p>{html_text(repr(self))}</p>{Table(runs, limit=SHOWN_ROWS).to_html()}"

    # Write

    @takes(Policies)
    def save(
        self,
        results: Any,
        *,
        golden: Golden | None = None,
        overwrite: bool = False,
        text: int | None = None,
        rule: Rule | None = None,
        profile: str | None = None,
        **policies: str,
    ) -> list[str]:
        """Write every run, and its scores if there is a golden set.

        `store.save(ev)` takes golden set, rule, profile, policies and primary metrics from an
        evaluation, and columns of your own with their direction and range. Problems of the load
        are stored, too.

        Parameters
        ----------
        results
            `Results`, an `Evaluation`, or an iterator of `Results`: one run piece by piece, in
            memory that doesn't grow with it. A piece has whole queries, with all that is about
            them.
        golden
            With it every default metric is scored, before texts are cut; scores and means are
            stored.
        overwrite
            Replace runs of the same ids. Without it such a run is an error, and nothing is written.
        text
            How many characters of a hit's text are stored; None: all, 0: none. What was cut can't
            be searched when stored hits are scored again, nor read by a judge. Pieces are stored
            whole.
        rule, profile, policies
            As for `rs.score`; a profile is given by its name. They are stored with the scores, and
            refused without a golden set.

        Returns
        -------
        The run ids written.
        """
        is_scored = isinstance(getattr(results, "golden", None), Golden)
        if not isinstance(results, Iterator):
            allowed = "Results, an Evaluation, or an iterator of Results"
            check_type(results.results if is_scored else results, Results, "results", allowed)
        check_whole(text, "text", 0, or_none=True)
        check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
        used = Policies.of(policies, find_reading(profile).policies)
        stated = {"rule": rule, PROFILE: profile, **policies}
        if is_scored:
            request, results = request_of(results), results.results
        elif golden is not None:
            request = Request(golden, rule, used, profile)
        elif given := [name for name, one in stated.items() if one is not None]:
            raise DataError(
                f"{', '.join(given)} without a golden set",
                field="golden",
                allowed="a golden set to score by",
            )
        else:
            request = None
        if isinstance(results, Iterator):
            if text is not None:
                raise DataError(
                    "pieces are stored whole", field="text", allowed="pieces of cut texts, or None"
                )
            return self._save_pieces(results, request, overwrite)
        if request is not None:
            check_inputs(results, request.golden)
            results, golden = with_turns(results, request.golden)
            request = replace(request, golden=golden)
        run_ids = results.runs["run_id"].astype("str").tolist()
        before = {run_id: self._before(run_id, overwrite) for run_id in run_ids}
        for kind in FRAMES:
            if (frame := getattr(results, kind)) is not None:
                check_columns(frame, kind)
        if text is not None and results.judgments is not None and len(results.judgments):
            warn(f"text={text}: judging again reads the stored texts alone")
        if request is not None:
            found = scored(results, request.golden, request.metrics, **request.how)
            for note in () if is_scored else found.notes:  # the evaluation said them
                warn(note)
            kept = kept_of(found, request)
        self._make_folder()

        def write(draft: Draft) -> dict[str, Any]:
            run = only_run(results, draft.run_id)
            write_run(draft, run, text)
            content: dict[str, Any] = {"run": run_description(run.runs), "text": text}
            if request is not None:
                return content | write_scores(draft, kept)
            if run.reported is not None and not len(run.responses):
                content["metrics"] = reported_means(run.reported)
            return content

        for run_id in run_ids:
            put_run(self._place, run_id, write, before[run_id])
        return run_ids

    def _save_pieces(
        self, pieces: Iterator[Any], request: Request | None, overwrite: bool
    ) -> list[str]:
        first: Any = next(pieces, None)
        check_type(first, Results, "results", "at least one piece, as Results")
        (run_id, *others) = first.runs["run_id"].astype("str")
        if others:
            raise DataError(f"pieces of {1 + len(others)} runs", field="results", allowed="one run")
        before = self._before(run_id, overwrite)
        self._make_folder()

        def write(draft: Draft) -> dict[str, Any]:
            write_pieces(draft, chain([first], pieces))
            content: dict[str, Any] = {"run": run_description(first.runs), "text": None}
            if request is not None:
                run = draft.as_run(content)
                content |= write_scores(draft, self._scored_run(run, request))
            return content

        put_run(self._place, run_id, write, before)
        return [run_id]

    def _scored_run(self, run: StoredRun, request: Request) -> Any:
        """Score a run of any size; return what is kept of it."""
        found, counted = score_stored_runs(
            [run], from_records([run.record], "runs"), request.golden, request.metrics,
            counts=True, **request.how,
        )  # fmt: skip
        return kept_of(found, request, counted)

    def _make_folder(self) -> None:
        if isinstance(self._place, Disk):
            with suppress(FileExistsError):
                self._place.write(".gitignore", IGNORED.encode())

    def _before(self, run_id: str, overwrite: bool) -> StoredRun | None:
        """Return the run that would be replaced."""
        found = run_before(self._place, run_id)
        if found is not None and not overwrite:
            raise DataError(
                f"{run_id} saved already",
                file=self._root,
                field="run_id",
                allowed="other run ids, or overwrite=True",
            )
        return found

    @takes(Policies)
    def refresh(
        self,
        golden: Golden,
        *,
        runs: list[str] | str | None = None,
        rule: Rule | None = None,
        profile: str | None = None,
        **policies: str,
    ) -> list[str]:
        """Score stored runs again, after labels or formulas have changed.

        Scores and means of all runs, or of those named, are rewritten. Each run keeps the policies
        and the profile it was saved with, except for those given here.

        Returns
        -------
        The run ids refreshed.

        Raises
        ------
        DataError
            A run was scored by a rule of your own, and no `rule` is given. No run is refreshed.
        """
        check_type(golden, Golden, "golden")
        find_reading(profile)
        Policies.of(policies)  # is checked, whatever the store holds
        stored = self._open()
        names = self._names(runs) if stored else []
        for run in (stored[name] for name in names):
            used, own_rule = run.scoring.get("rule"), rule_name(None, str(run.scoring.get("level")))
            if run.scoring and rule is None and used != own_rule:
                raise DataError(
                    f"{run.run_id} was scored by the rule {used}",
                    file=self._place.where(run.folder),
                    field="rule",
                    allowed="pass that rule, or another one",
                )
        for name in names:
            run = stored[name]
            used = Policies.of(run.scoring.get("policies", {}) | policies)
            made_by = {"golden_hash": golden.golden_hash, "policies": asdict(used)}
            own, declared = self._saved_columns([name], TABLE, made_by)
            request = Request(
                golden, rule, used, profile or run.scoring.get(PROFILE), own=own,
                declared=declared, primary=tuple(run.scoring.get("primary", ())),
            )  # fmt: skip
            kept = self._scored_run(run, request)

            def write(draft: Draft, run: StoredRun = run, kept: Any = kept) -> dict[str, Any]:
                return run.content | write_scores(draft, kept)

            put_run(self._place, name, write, run, keep=True)
        return names

    @takes([_OPTIONAL(name, annotation="pd.DataFrame | None") for name in ADDED])
    def add(self, run_id: str, *, overwrite: bool = False, **frames: pd.DataFrame) -> None:
        """Add frames to a saved run: `store.add("bm25", judgments=judgments)`.

        Parameters
        ----------
        frames
            By kind: judgments, chunks, citations, hit_meta, reported, calls, documents. Rows of
            other runs are refused.
        overwrite
            Replace a frame that the run has already.
        """
        (name,) = self._names(run_id)
        run, checked = self._stored[name], dict[str, pd.DataFrame]()
        for kind, frame in frames.items():
            check_choice(kind, ADDED, "frames")
            if kind in run.files and not overwrite:
                raise DataError(
                    f"{name} has {kind} already",
                    file=self._place.where(run.folder),
                    field=kind,
                    allowed="overwrite=True",
                )
            if "run_id" not in frame and kind not in ("chunks", "documents"):
                frame = frame.assign(run_id=name)
            own = checked[kind] = conform(frame, kind)
            if "run_id" in own and set(own["run_id"].dropna().astype("str")) - {name}:
                raise DataError(f"rows of other runs than {name}", field=f"{kind}.run_id")
            check_columns(own, kind)

        def write(draft: Draft) -> dict[str, Any]:
            for kind, frame in checked.items():
                write_table(draft, kind, frame)
            return run.content

        put_run(self._place, name, write, run, keep=True)

    # Read

    def runs(self) -> pd.DataFrame:
        """One row per stored run, oldest first (created_at, then run_id).

        Columns as the `runs` frame. A query on it gives `runs=` for other methods:
        `store.runs().query("system == 'bm25'")["run_id"].tolist()`.
        """
        self._open()
        return self._table.copy()

    @_of_one_state
    def load(self, runs: list[str] | str | None = None) -> Results:
        """Return stored runs as `Results`.

        All of them, or those named by run_id, or by a system that only one run has.
        """
        names = self._names(runs)
        parts = [(self._stored[n], part) for n in names for part in range(self._stored[n].n_parts)]
        return read_parts(parts, self._about(names))

    @takes(Policies)
    def scores(
        self,
        golden: Golden | None = None,
        metrics: Asked = None,
        runs: list[str] | str | None = None,
        *,
        client: Any = None,
        rule: Rule | None = None,
        profile: str | Reading | None = None,
        allow_different: bool | str | list[str] = False,
        **policies: str,
    ) -> pd.DataFrame:
        """Return stored scores; with a golden set, new ones of the stored hits.

        Stored ones are the frame of `rs.score` with `created_at` and `system`, oldest run first.
        New ones equal `rs.score(store.load(runs), golden)`, for runs of any size: they are
        scored group by group, here or on a Dask cluster. Nothing is written.

        Parameters
        ----------
        metrics
            As for `rs.score`; stored ones by their names, by default all.
        runs
            Run ids or systems; by default all.
        client
            A `distributed.Client` (extra `scale`), with a golden set. Its workers read the store
            directly and return only scores.
        rule
            As for `rs.score`, with a golden set. A rule or metric of your own sees the hits of one
            group at a time.
        profile, policies
            As for `rs.score`, with a golden set.
        allow_different
            Components of the stored scores' provenance that may differ (`ev.settings`); True or
            "all" for all.

        Raises
        ------
        DataError
            A run was saved without scores (all of them are named); a metric wasn't scored; or the
            runs' provenance differs.
        """
        check_type(golden, (Golden, type(None)), "golden", "a Golden; metrics=, runs= by name")
        if golden is not None:
            reading = find_reading(profile)
            used = Policies.of(policies, reading.policies)
            return self._scored(
                golden, metrics, runs, client=client, rule=rule, profile=reading, policies=used
            ).scores
        given = {"rule": rule, "client": client, PROFILE: profile, **policies}
        if idle := [name for name, one in given.items() if one is not None]:
            raise DataError(
                f"{', '.join(idle)} without a golden set: stored scores are read as they are",
                field="golden",
                allowed="a golden set to score by",
            )
        return self._read_scores(metrics, runs, allow_different)

    @_of_one_state
    def _read_scores(self, metrics: Any, runs: Any, allow_different: Any) -> pd.DataFrame:
        names = self._scored_names(runs)
        scores = self._stored_scores(names, metrics)
        self._check_provenance(names, metric_columns(scores), allow_different)
        about = self._about(names)
        for name in ("created_at", "system"):
            if name in about:
                of_run = about[name].array.take(scores["run_id"].cat.codes.to_numpy())
                scores.insert(1, name, of_run)
        return scores

    def _evaluated(
        self, golden: Golden, metrics: Asked, runs: Any, *, policies: Policies, **how: Any
    ) -> tuple[Scored, pd.DataFrame, list[str]]:
        """Return new scores of runs that have rows, their settings, and the primary metrics.

        The scores have the columns of your own that were saved with runs, and their table says what
        these mean. Primary metrics are those that all runs were saved with.
        """
        names = self._with_rows(runs)
        found = self._scored(golden, metrics, names, policies=policies, **how)
        settings = found.settings
        made_by = {"policies": asdict(policies), **settings[["golden_hash", "level"]].iloc[0]}
        own, declared = self._saved_columns(names, found.table, made_by, found.scores.columns)
        scores = found.scores if own is None else with_saved(found.scores, own)
        first, *others = (self._stored[name].scoring.get("primary", []) for name in names)
        primary = first if all(one == first for one in others) else []
        return replace(found, scores=scores, table=declared), settings, primary

    @_of_one_state
    def _scored(
        self,
        golden: Golden,
        metrics: Asked,
        runs: list[str] | str | None,
        *,
        client: Any,
        **how: Any,
    ) -> Scored:
        """Return new scores of stored runs."""
        if client is not None and not hasattr(client, "submit"):
            raise DataError(
                f"found {type(client).__name__}", field="client", allowed="a distributed.Client"
            )
        names = self._names(runs)
        stored = [self._stored[name] for name in names]
        return score_stored_runs(stored, self._about(names), golden, metrics, client=client, **how)[
            0
        ]

    def _stored_scores(self, names: list[str], metrics: Any = None) -> pd.DataFrame:
        """Return run_id, state, level and metrics of these runs in this order (index query_id)."""
        asked = None if metrics is None else names_of(metrics, "metrics")
        wanted = frozenset(["query_id", "state", "level", *(asked or ())])
        is_read = bool if asked is None else wanted.__contains__
        read = partial(read_table, kind="scores", is_read=is_read)
        found = map_threads(read, [self._stored[name] for name in names])
        for name, table in zip(names, found, strict=True):
            if lacking := sorted(set(asked or ()) - {*table.column_names}):
                raise DataError(
                    f"{name} has no scores of {name_list(lacking)}",
                    file=self._root,
                    field="metrics",
                    allowed=f"store.scores(golden, {lacking}) scores the stored hits, and"
                    " store.save(ev) keeps what ev has",
                )
        plain = [
            table.select([one for one in table.column_names if one != "run_id"]) for table in found
        ]
        frame = pa.concat_tables(plain, promote_options="permissive").to_pandas()
        run = np.repeat(np.arange(len(names)), [len(one) for one in plain])
        coded = {"run_id": categorical(run, names)} | {
            name: pd.Categorical(frame[name].astype("str"), categories=list(values))
            for name, values in (("state", STATES), ("level", LEVELS))
        }
        rest = frame.drop(columns=["query_id", "state", "level"])
        index = pd.Index(frame["query_id"].astype("str"), name="query_id")
        return pd.concat([pd.DataFrame(coded), rest], axis=1).set_axis(index, axis=0)

    @_of_one_state
    def _saved_columns(
        self,
        runs: list[str],
        declared: MetricTable,
        made_by: Mapping[str, Any],
        scored: Collection[str] = (),
    ) -> tuple[pd.DataFrame | None, MetricTable]:
        """Return the columns of your own that runs were saved with; see `own_columns`.

        One row per run and query: run_id, query_id and a column each; None without any.
        """
        scorings = {name: self._stored[name].scoring for name in self._names(runs)}
        kept, declared = own_columns(scorings, declared, made_by, scored)
        parts = [
            self._stored_scores([name], own).reset_index()[["run_id", "query_id", *own]]
            for name, own in kept.items()
        ]
        found = pd.concat([part.astype({"run_id": "str"}) for part in parts]) if parts else None
        return found, declared

    def summary(
        self,
        runs: list[str] | str | None = None,
        *,
        allow_different: bool | str | list[str] = False,
    ) -> pd.DataFrame:
        """Return the stored means of all or some runs, as the frame of `ev.summary`.

        They are in the runs' `run-….json`: a clone without tables has them, too. A column
        `is_reported` marks runs of which no row is there, or that were saved without rows. Runs
        without means are left out; runs that were measured differently are refused, unless that is
        allowed (see `scores`).
        """
        table = self._means(self._names(runs) if runs is not None else None)
        names = [one for one in table["run_id"].unique() if self._stored[one].scoring]
        self._check_provenance(names, table["metric"].unique().tolist(), allow_different)
        return table.astype({"run_id": pd.CategoricalDtype(table["run_id"].unique().tolist())})

    def _means(self, names: list[str] | None = None) -> pd.DataFrame:
        """Return the stored means of these runs: run_id, metric, statistics, is_reported."""
        self._open()
        names, there = names or self._order(), set(self._place.files())
        rows = [
            {"run_id": name, "metric": metric, "is_reported": is_alone, **values}
            for name in names
            for is_alone in [_is_without_rows(self._stored[name], there)]
            for metric, values in self._stored[name].content.get("metrics", {}).items()
        ]
        if not rows:
            raise DataError(
                "no run of the store has scores",
                file=self._root,
                allowed="save(results, golden=...) or refresh(golden)",
            )
        columns = ["run_id", "metric", *STATISTICS, "is_reported"]
        counts = [one for one in STATISTICS if one == "n" or one.startswith("n_")]
        dtypes = dict.fromkeys(STATISTICS, "float64") | dict.fromkeys(counts, "Int64")
        table = pd.DataFrame(rows).reindex(columns=columns)
        return table.astype(dtypes | {"run_id": "str", "metric": "str"})

    def _scorings(self, names: list[str]) -> dict[str, dict[str, Any]]:
        """Return how these runs were scored; of one saved with means alone, nothing."""
        return {name: self._stored[name].scoring for name in self._scored_names(names, "metrics")}

    def files(self, table: str, runs: list[str] | str | None = None) -> list[str]:
        """Return the files of a table, oldest run first, for DuckDB, polars or pyarrow.

        Of all or some runs, as in `store.files("hits")`. Runs without the table are left out.
        """
        names = self._names(runs)
        there = set(self._place.files())
        files = [
            f"{self._stored[name].folder}/{entry.name}"
            for name in names
            for entry in self._stored[name].files.get(table, ())
            if entry
        ]
        return [self._place.where(name) for name in files if name in there]

    def path(self, run: str | None = None) -> Path:
        """Return the folder of the store, or of a run by run_id or system, on this machine."""
        if not isinstance(self._place, Disk):
            raise DataError(
                "a store elsewhere has no folder on this machine",
                file=self._root,
                allowed="load(run), or another store",
            )
        return self._place.root / (self._open()[self._names(run)[0]].folder if run else "")

    @property
    def _root(self) -> str:
        return self._place.where("")

    def _open(self) -> dict[str, StoredRun]:
        """Return the runs that the store holds now; only new or changed ones are read."""
        before, self._seen = self._seen, stored_runs(self._place, self._seen)
        if self._seen != before:
            self._stored = {run_id: run for run_id, (_, run) in self._seen.items()}
            runs = from_records([run.record for run in self._stored.values()], "runs")
            by = [name for name in ("created_at", "run_id") if name in runs]
            table = runs.astype({"run_id": "str"}).sort_values(by, ignore_index=True)
            self._table = table.astype({"run_id": "category"})
        return self._stored

    def _order(self) -> list[str]:
        return self._table["run_id"].astype("str").tolist()

    def _about(self, names: list[str]) -> pd.DataFrame:
        """Return the rows of these runs in the runs frame, in this order."""
        rows = self._table.iloc[pd.Index(self._order()).get_indexer(pd.Index(names))]
        return rows.assign(run_id=names)

    def _names(self, runs: list[str] | str | None = None) -> list[str]:
        """Return run ids of all runs, or of those named: by id, or a system that one run has."""
        table = self.runs()
        names = run_names(table, table["run_id"].astype("str") if runs is None else runs)
        if not names:
            raise DataError(
                "the store holds no run" if not len(table) else "no run named", file=self._root
            )
        return list(dict.fromkeys(names))

    def _scored_names(self, runs: list[str] | str | None, key: str = "scoring") -> list[str]:
        """Return the run ids; runs that were saved without a scoring (or means) are refused."""
        names = self._names(runs)
        if without := [name for name in names if not self._stored[name].content.get(key)]:
            others = [name for name in names if name not in without]
            raise DataError(
                f"{name_list(without)} saved without scores",
                file=self._root,
                allowed="save(results, golden=...) or refresh(golden)"
                + (f", or runs={others}" if others else ""),
            )
        return names

    def _check_provenance(
        self, names: list[str], columns: list[str], ignore: bool | str | list[str]
    ) -> None:
        """Refuse runs that were measured differently; warn of components to be ignored."""
        parts = {name: self._stored[name].scoring["provenance"] for name in names}
        details = ""
        for a, b in pairwise(parts):
            if parts[a]["golden"] != parts[b]["golden"]:
                with suppress(GoneError):  # a clone without tables can't tell which queries
                    tables: Any = [read_table(self._stored[one], "golden") for one in (a, b)]
                    old, new = (one.to_pandas().set_index("query_id") for one in tables)
                    changes = changes_of(old, new)
                    details = f"{a} to {b}: {counted(changes, len(old))}"
                break
        first: dict[str, dict[str, Any]] = {}
        for name, part in parts.items():  # a thousand runs of one suite mostly share one
            if part not in first.values():
                first[name] = part
        check_provenance(first, columns, ignore, details=details, remedy="refresh(golden)")

    def _with_rows(self, runs: list[str] | str | None) -> list[str]:
        """Return the runs that can be scored; the others have means alone."""
        names, there = self._names(runs), set(self._place.files())
        alone = [name for name in names if _is_without_rows(self._stored[name], there)]
        if alone:
            warn(f"left out, without rows: {name_list(alone)}; store.summary() has their means")
        return [name for name in names if name not in alone]

    def _by_saving(self, column: str = "run_id") -> list[str]:
        """Return run ids, or systems, in the order that gives each its look: new ones come last."""
        stored = self._open()
        names = sorted(self._order(), key=lambda name: stored[name].content["saved_at"])
        rows = self._about(names)
        return rows[column].dropna().astype("str").unique().tolist() if column in rows else []

    def _with_turns(self, golden: Golden, run_id: str) -> Golden:
        """Return the golden set with the run's conversations, if it names none itself."""
        if "conversation" in golden.queries:
            return golden
        held = read_frame(self._open()[run_id], "responses", ASKED.__contains__)
        return golden if held is None else with_stated_turns(golden, held)


def _is_without_rows(run: StoredRun, there: set[str]) -> bool:
    """Return whether no table of a run is left, or it was saved with means alone."""
    if not run.scoring:
        return "metrics" in run.content
    names = [f"{run.folder}/{one.name}" for own in run.files.values() for one in own if one]
    return not there.intersection(names)

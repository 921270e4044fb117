"""`RunStore`: a folder of runs as Parquet, one folder per run, as DuckDB and polars read them too.

The public face of the store: its methods check what they are given and hand it on. The folder may
lie on this machine or on object storage.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial, wraps
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeVar, Unpack, cast

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_inputs, check_type, conform
from ragscore.frames.errors import check_choice, name_list, names_of, plural, unsaid, warn
from ragscore.frames.escaping import html_text
from ragscore.frames.signatures import takes
from ragscore.frames.tables import SHOWN_ROWS, Table
from ragscore.frames.verbs import RunStoreVerbs
from ragscore.io.file_content import MAX_BYTES, size_limit
from ragscore.io.load import load_results, record_file
from ragscore.io.output import write_text
from ragscore.io.per_query import begin_run
from ragscore.io.source import naming
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.own import DECLARED, from_plain
from ragscore.scoring.policies import Policies, PolicyFields, policies_of
from ragscore.scoring.provenance import provenance_frame
from ragscore.scoring.readings import READINGS, Reading, find_reading
from ragscore.scoring.rules import Rule, rule_name
from ragscore.scoring.score import Asked
from ragscore.scoring.summary import STATISTICS, metric_columns
from ragscore.scoring.turns import TOLD, told_turns, with_told_turns, with_turns
from ragscore.store.aggregates import aggregate_results, without_rows
from ragscore.store.catalogue import Catalogue, open_catalogue
from ragscore.store.checked import GoneError
from ragscore.store.described import TEXTS
from ragscore.store.disk import make_folder
from ragscore.store.draft import Draft, writing
from ragscore.store.ingest import write_file
from ragscore.store.parquet import check_columns, open_parquet, write_frame
from ragscore.store.places import place_of, stamps
from ragscore.store.runs import change_run, check_distinct, is_taken, put_run, stored_runs
from ragscore.store.scores import runs_without, scores_of, with_about
from ragscore.store.scoring import (
    PROFILE,
    ScoringRequest,
    StoredScores,
    check_choices,
    choices_of,
    is_made_otherwise,
    same_scoring,
    score_results,
    score_stored_runs,
    with_versions_of_today,
)
from ragscore.store.tables import FRAMES, only_run, read_metrics, read_runs, write_run, write_scores

IGNORED = (
    "# Texts and tables stay out of version control; run.json, metrics and report.md may be"
    " committed.\n*.parquet\n.staging-*\n.lock\n"
)
_Method = TypeVar("_Method", bound=Callable[..., Any])
_OPTIONAL = partial(Parameter, kind=Parameter.KEYWORD_ONLY, default=None)
NAMED_PROFILE = [_OPTIONAL("profile", annotation="str | None")]
# frames that are added to a saved run
ADDED = [
    _OPTIONAL(name, annotation="pd.DataFrame | None")
    for name in FRAMES
    if name not in ("responses", "hits", "problems")
]
ATTEMPTS = 10  # at reading a run that others keep writing anew


def _of_one_state(read: _Method) -> _Method:
    """Read again, from the runs as they are then, where a file has gone since they were listed.

    Files stay for ten minutes after a run was written anew; reading may take longer.
    """

    @wraps(read)
    def reread(self: "RunStore", *args: Any, **kwargs: Any) -> Any:
        for _ in range(ATTEMPTS):
            try:
                return read(self, *args, **kwargs)
            except GoneError:
                seen = self._catalogue
                if self._open() is seen:
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
        self.root = place_of(root, storage_options)
        self._catalogue: Catalogue | None = None

    def __repr__(self) -> str:
        return f"RunStore({str(self.root)!r}): {plural(len(stored_runs(self.root)), 'run')}"

    def _repr_html_(self) -> str:
        runs = self.runs().drop(columns=["config"], errors="ignore")
        return f"<p>{html_text(repr(self))}</p>{Table(runs, limit=SHOWN_ROWS).to_html()}"

    @takes(Policies)
    def save(
        self,
        results: Any,
        *,
        golden: Golden | None = None,
        overwrite: bool = False,
        text: str = "cut",
        rule: Rule | None = None,
        profile: str | None = None,
        policies: Policies | None = None,
        **fields: Unpack[PolicyFields],
    ) -> list[str]:
        """Write every run, and its scores if there is a golden set.

        `store.save(ev)` takes golden set, rule, profile, policies and primary metrics from an
        evaluation, and columns of your own with their direction and range.

        Scores are computed and stored before texts are cut, so that cutting changes none of them.
        Problems of the load are stored, too.

        Parameters
        ----------
        results
            `Results`, or an `Evaluation`.
        golden
            With it `scores.parquet` and `metrics.json` are written too.
        overwrite
            Replace runs of the same ids. Without it such a run is an error, and nothing is written.
        text
            How much of the hits' texts is stored: "cut" (200 characters), "full" or "none".
        rule, profile, policies, fields
            As for `rs.score`; a profile is given by its name. They are stored with the scores, and
            refused without a golden set.

        Returns
        -------
        The run ids written.
        """
        primary: tuple[str, ...] = ()
        own, declared = None, TABLE
        if isinstance(getattr(results, "golden", None), Golden):
            ev, results = results, results.results
            golden, rule, policies, primary = ev.golden, ev._rule, ev._policies, ev.primary
            profile = ev._profile.name if ev._profile else None
            if ev._profile not in (None, READINGS.get(str(profile))):
                raise DataError(
                    f"found a reading of your own, {profile!r}", field="profile",
                    allowed="a profile by its name: a store keeps names",
                )  # fmt: skip
            own, declared = _own_columns(ev), ev._declared
        check_type(results, Results, "results", "Results, or an Evaluation")
        given = policies_of(policies, fields)
        if golden is not None:
            check_inputs(results, golden)
            results, golden = with_turns(results, golden)
        choices = _choices(golden, text, profile, given)
        run_ids = results.runs["run_id"].astype("str").tolist()
        self._check_free(run_ids, overwrite)
        for kind in FRAMES:
            if (frame := getattr(results, kind)) is not None:
                check_columns(frame, kind)
        scored: dict[str, dict[str, Any]] = {}
        if golden is not None:
            request = ScoringRequest(golden, rule, choices, primary, own, declared)
            scored = score_results(results, request)
        self._make_folder()
        for at, run_id in enumerate(run_ids):
            run = only_run(results, run_id)
            write = partial(write_run, run=run, text=text, scored=scored.get(run_id))
            with _told(run_ids[:at], "saved"):
                put_run(self.root, run_id, write, overwrite)
        return run_ids

    @takes(Policies)
    def ingest(
        self,
        path: str | os.PathLike[str],
        *,
        golden: Golden | None = None,
        format: str | None = None,
        strict: bool = True,
        overwrite: bool = False,
        text: str = "cut",
        rule: Rule | None = None,
        profile: str | None = None,
        progress: bool | None = None,
        max_bytes: int | None = MAX_BYTES,
        policies: Policies | None = None,
        **fields: Unpack[PolicyFields],
    ) -> list[str]:
        """Read one run from its file into the store, in memory that doesn't grow with the file.

        The result is that of `save(rs.load_results(path), golden=golden)`. A `per_query.jsonl`
        (also .gz) is read block by block, written row group by row group, and scored part by part.
        Meanwhile the store's folder needs up to as much room again as the file (for a store
        elsewhere, the system's temporary folder does). Query ids, a `judgments.jsonl` beside the
        file and scores are held in memory. A file in another format is loaded whole.

        Parameters
        ----------
        path
            The run's file, or the folder it is in.
        format, strict, max_bytes
            As for `rs.load_results`. Lines that could not be read are `problems` of the run.
        golden, overwrite, text, rule, profile, policies, fields
            As for `save`. A rule of your own sees the hits of one part at a time.
        progress
            Show a progress bar (needs tqdm); by default on a terminal.

        Returns
        -------
        The run ids written.

        Raises
        ------
        DataError
            As `rs.load_results` and `save`; or `path` holds several runs. The store is then as it
            was before.

        Warns
        -----
        UserWarning
            As `rs.load_results` and `score`.
        """
        file = record_file(path, format)
        if file is None:
            loaded = load_results(path, format=format, strict=strict, max_bytes=max_bytes)
            return self.save(
                loaded,
                golden=golden,
                overwrite=overwrite,
                text=text,
                rule=rule,
                profile=profile,
                policies=policies,
                **fields,
            )
        choices = _choices(golden, text, profile, policies_of(policies, fields))
        with size_limit(max_bytes), naming(file):
            described, problems = begin_run(file, strict)
        run_id = str(described["run_id"])
        self._check_free([run_id], overwrite)
        self._make_folder()
        request = None if golden is None else ScoringRequest(golden, rule, choices)
        write = partial(
            write_file, file=file, run=described, problems=problems, request=request, text=text
        )
        with size_limit(max_bytes):
            put_run(self.root, run_id, partial(write, progress=progress), overwrite)
        return [run_id]

    def runs(self) -> pd.DataFrame:
        """One row per stored run, oldest first (created_at, then run_id).

        Columns as the `runs` frame.
        """
        return self._open().table.copy()

    @_of_one_state
    def load(self, runs: list[str] | str | None = None) -> Results:
        """Return stored runs as `Results`.

        All of them, or those named by run_id, or by a system that only one run has.
        """
        catalogue = self._open()
        return _results_of(catalogue, catalogue.names(runs))

    @takes(Policies)
    def score(
        self,
        golden: Golden,
        metrics: Asked = None,
        runs: list[str] | str | None = None,
        *,
        client: Any = None,
        rule: Rule | None = None,
        profile: str | Reading | None = None,
        part_hits: int | None = None,
        policies: Policies | None = None,
        **fields: Unpack[PolicyFields],
    ) -> pd.DataFrame:
        """Score stored runs part by part, here or on a Dask cluster. Nothing is written.

        The result is that of `rs.score(store.load(runs), golden)`, for runs of any size. A part is
        a range of a run's queries, or several small runs together.

        Parameters
        ----------
        metrics, rule, profile, policies, fields
            As for `rs.score`. A rule or metric of your own sees the hits of one part, or of the
            small runs read with it, at a time.
        runs
            Run ids or systems; by default all.
        client
            A `distributed.Client` (extra `scale`). Its workers read the store directly and return
            only scores. None: score here, as many parts at once as arrow has threads (one, for a
            rule or a metric of your own).
        part_hits
            The approximate number of hits that each worker or thread holds in memory. By default
            two million; half a million where a rule may read their texts.

        Raises
        ------
        DataError
            As `rs.score`; the store holds no run; `client` or `part_hits` is of another kind.

        Warns
        -----
        UserWarning
            As `rs.score`, once for all parts.
        """
        given = policies_of(policies, fields, find_reading(profile).policies)
        return self._scored(
            golden, metrics, runs, client=client, rule=rule, profile=profile, part_hits=part_hits,
            policies=given,
        ).scores  # fmt: skip

    @_of_one_state
    def _scored(
        self,
        golden: Golden,
        metrics: Asked,
        runs: list[str] | str | None,
        *,
        client: Any,
        rule: Rule | None,
        profile: str | Reading | None,
        part_hits: int | None,
        policies: Policies,
    ) -> StoredScores:
        """Return the scores of stored runs, and what they were made by; see `score`."""
        check_type(golden, Golden, "golden")
        if part_hits is not None and (
            isinstance(part_hits, bool) or not isinstance(part_hits, int) or part_hits < 1
        ):
            raise DataError(
                f"found {part_hits!r}", field="part_hits", allowed="a whole number from 1"
            )
        if client is not None and not hasattr(client, "submit"):
            raise DataError(
                f"found {type(client).__name__}", field="client", allowed="a distributed.Client"
            )
        catalogue = self._open()
        names = catalogue.names(runs)
        return score_stored_runs(
            [catalogue.stored[name] for name in names],
            catalogue.about(names).assign(run_id=names),
            golden,
            metrics,
            rule,
            find_reading(profile),
            policies,
            client=client,
            part_hits=part_hits,
        )

    @_of_one_state
    @takes(Policies, NAMED_PROFILE)
    def scores(
        self,
        metrics: list[str] | str | None = None,
        runs: list[str] | str | None = None,
        *,
        allow_different: bool | str | list[str] = False,
        **policies: str | None,
    ) -> pd.DataFrame:
        """Return stored scores of all or some runs, oldest run first.

        The frame of `rs.score` with `created_at` and `system`. Nothing is computed.

        Parameters
        ----------
        allow_different
            Components of the runs' provenance that may differ (`ev.provenance`); True or "all"
            for all.
            Differences in these are only warned of.
        policies
            Policies of `rs.score` and `profile` that the scores must have been made by. Those left
            out may have any value.

        Raises
        ------
        DataError
            A run was saved without a golden set (all of them are named), or scored by another
            policy than asked for; a metric wasn't scored; or the runs' provenance differs.

        Warns
        -----
        UserWarning
            The runs' provenance differs in components that may differ.
        """
        check_choices(policies)
        catalogue = self._open()
        names = catalogue.names(runs)
        catalogue.check_scored(names)
        catalogue.check_policies(names, policies)
        scores = scores_of(catalogue, names, [metrics] if isinstance(metrics, str) else metrics)
        catalogue.check_provenance(names, metric_columns(scores), allow_different)
        return with_about(catalogue, names, scores)

    def provenance(self, metrics: list[str] | str | None = None) -> pd.DataFrame:
        """Return what measured each scored run, oldest run first: the frame of `ev.provenance`."""
        catalogue = self._open()
        parts = catalogue.provenance(catalogue.table["run_id"].astype("str").tolist())
        if metrics is not None:
            return provenance_frame(parts, names_of(metrics, "metrics"))
        judged = {name for part in parts.values() for name in part.get("judge_fingerprint", {})}
        return provenance_frame(parts, [*TABLE.labels(), *sorted(judged & {*TABLE})])

    @_of_one_state
    def _measured(
        self,
        metric: str,
        runs: list[str] | str | None = None,
        *,
        golden: Sequence[Golden] = (),
    ) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
        """Return stored scores of one metric, and by run what its run.json says of the scoring.

        Runs may have been measured differently: the caller must check what can be compared, as
        `store.trend` does.

        Parameters
        ----------
        golden
            Golden sets. Where a run's scores lack the metric, its stored hits are scored by the one
            that it was scored by, at the same match level and by the same policies.

        Raises
        ------
        DataError
            A run was saved without a golden set; or the metric wasn't scored, and none of the
            golden sets is the run's own.
        """
        catalogue = self._open()
        names = catalogue.names(runs)
        catalogue.check_scored(names)
        scorings = {name: catalogue.stored[name].scoring for name in names}
        try:
            return scores_of(catalogue, names, [metric]), scorings
        except DataError:
            lacking = runs_without(catalogue, names, metric)
            if not lacking:
                raise
        if any(metric in scoring.get(DECLARED, {}) for scoring in scorings.values()):
            raise DataError(
                f"saved without {metric}: {name_list(lacking)}",
                field="metric",
                allowed="runs that were all saved with it",
            )
        groups = same_scoring({name: scorings[name] for name in lacking}, metric, golden)
        stored = [name for name in names if name not in lacking]
        parts = [scores_of(catalogue, stored, [metric])] if stored else []
        for own, run_ids in groups:
            described = scorings[run_ids[0]]
            choices = choices_of(described) | {"match": described["level"]}
            profile = choices.pop(PROFILE)
            with unsaid():  # they were warned of when saved
                found = self.score(own, [metric], run_ids, profile=profile, **choices)
            parts.append(found)
        scores = pd.concat([part.astype({"run_id": "str"}) for part in parts])
        order = pd.Categorical(scores["run_id"], categories=names)
        scores = scores.assign(run_id=order)
        scores = scores.iloc[np.argsort(order.codes, kind="stable")]
        for name in lacking:
            scorings[name] = with_versions_of_today(scorings[name], metric)
        return scores, scorings

    @_of_one_state
    def _saved_columns(
        self,
        runs: list[str] | str | None = None,
        declared: MetricTable = TABLE,
        settings: pd.DataFrame | None = None,
        made_by: Mapping[str, Any] | None = None,
    ) -> tuple[pd.DataFrame | None, MetricTable]:
        """Return the columns of your own that runs were saved with, and what is declared of them.

        Left out are values of a metric that is `declared` now, but was another function then; and,
        with a warning, those that were not `made_by` these golden_hash, level and policies.
        One row per run and query: run_id, query_id and a column each; None without any.

        Raises
        ------
        DataError
            Two runs declare a column differently.
        """
        if settings is not None and len(settings):
            first = settings.iloc[0]
            policies = json.loads(first["policies"])
            made_by = {"golden_hash": first["golden_hash"], "level": first["level"],
                       "policies": policies}  # fmt: skip
        catalogue = self._open()
        saved = {name: catalogue.stored[name].scoring for name in catalogue.names(runs)}
        told = {name: one[DECLARED] for name, one in saved.items() if one.get(DECLARED)}
        gone = {
            one
            for own in told.values()
            for one in own
            if not declared.is_own(one)
            and declared.describe(one).source != own[one].get("source", "")
        }
        stale = {
            one
            for name, own in told.items()
            if is_made_otherwise(saved[name], made_by or {})
            for one in own
            if "source" in own[one] and one not in gone
        }
        if stale:
            warn(
                f"left out: {name_list(sorted(stale))}, scored by another golden set or policy;"
                " metrics=[the rs.Metric] scores them anew"
            )
        gone |= stale
        columns = {name: [one for one in own if one not in gone] for name, own in told.items()}
        parts = [
            scores_of(catalogue, [name], own).reset_index()[["run_id", "query_id", *own]]
            for name, own in columns.items()
        ]
        every = {name for own in columns.values() for name in own}
        found = pd.concat([part.astype({"run_id": "str"}) for part in parts]) if parts else None
        bases = every | {name.partition("@")[0] for name in every}
        own_metrics = [
            one for own in told.values() for one in from_plain(_by_metric(own)) if one.base in bases
        ]
        return found, declared.with_metrics(own_metrics)

    @_of_one_state
    def reported(
        self, runs: list[str] | str | None = None
    ) -> tuple[Results | None, dict[str, dict[str, Any]]]:
        """Return the runs of which only aggregates are stored, and what their scoring was made by.

        These are runs that were saved without rows, and those of a clone that has their `run.json`
        and `metrics.json` alone. None if all runs have rows.
        """
        catalogue = self._open()
        alone = without_rows(catalogue, catalogue.names(runs)) if catalogue.stored else []
        if not alone:
            return None, {}
        scorings = {name: catalogue.stored[name].scoring for name in alone}
        return aggregate_results(catalogue, alone), scorings

    @_of_one_state
    def metrics(
        self,
        runs: list[str] | str | None = None,
        *,
        allow_different: bool | str | list[str] = False,
    ) -> pd.DataFrame:
        """Read the `metrics.json` of all or some runs, as the frame of `ev.summary`.

        null is NaN. Runs without scores are left out. Runs that were measured differently are
        refused, unless that is allowed: see `scores`. Where tables of a run are missing, as in a
        clone, a column `is_reported` marks what can't be computed anew.
        """
        catalogue = self._open()
        chosen = catalogue.stored.keys() if runs is None else set(catalogue.names(runs))
        names = [name for name, run in catalogue.stored.items() if name in chosen and run.scoring]
        parts = [read_metrics(catalogue.stored[name]) for name in names]
        if not parts:
            raise DataError(
                "no run of the store has scores",
                file=str(self.root),
                allowed="save(results, golden=...) or refresh(golden)",
            )
        catalogue.check_provenance(
            names, pd.concat(parts)["metric"].unique().tolist(), allow_different
        )
        numbers = [name for name in STATISTICS if name != "n" and not name.startswith("n_")]
        columns = ["run_id", "metric", *STATISTICS]
        table = pd.concat(parts, ignore_index=True).reindex(columns=columns)
        if alone := without_rows(catalogue, names):
            table["is_reported"] = table["run_id"].isin(alone)
        return table.astype(
            {"run_id": "category", "metric": "str"} | dict.fromkeys(numbers, "float64")
        )

    @takes(Policies, NAMED_PROFILE)
    def refresh(
        self,
        golden: Golden,
        *,
        runs: list[str] | str | None = None,
        rule: Rule | None = None,
        **policies: str | None,
    ) -> list[str]:
        """Score stored runs anew, after labels or formulas have changed.

        Scores and `metrics.json` of all runs, or of those named, are rewritten. Each run keeps the
        policies and the profile it was saved with, except for those given here.

        Returns
        -------
        The run ids refreshed.

        Raises
        ------
        DataError
            A run was scored by a rule of your own, and no `rule` is given. No run is refreshed.
        """
        check_type(golden, Golden, "golden")
        check_choices(policies)
        catalogue = self._open()
        names = catalogue.names(runs) if catalogue.stored else []
        for run in (catalogue.stored[name] for name in names):
            used = run.scoring.get("rule")
            own = rule_name(None, str(run.scoring.get("level")))
            if rule is None and run.scoring and used != own:
                raise DataError(
                    f"{run.run_id} was scored by the rule {used}",
                    file=str(run.folder),
                    field="rule",
                    allowed="pass that rule, or another one",
                )
        made_by = {"golden_hash": golden.golden_hash} | ({"policies": policies} if policies else {})
        for at, name in enumerate(names):
            run = catalogue.stored[name]
            kept = tuple(run.scoring.get("primary", ()))
            request = ScoringRequest(
                golden, rule, choices_of(run.scoring) | policies, kept,
                *self._saved_columns(name, made_by=made_by),
            )  # fmt: skip
            with _told(names[:at], "refreshed"):
                scored = score_results(_results_of(catalogue, [name]), request)[name]
                change_run(run, partial(write_scores, described=run.described, scored=scored))
        return names

    @takes(ADDED)
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
        catalogue = self._open()
        (name,) = catalogue.names(run_id)
        run, checked = catalogue.stored[name], dict[str, pd.DataFrame]()
        for kind, frame in frames.items():
            if kind not in FRAMES or kind in ("responses", "hits", "problems"):
                raise DataError(
                    f"found {kind!r}",
                    field="frames",
                    allowed="judgments, chunks, citations, hit_meta, reported, calls or documents",
                )
            if kind in run.entries and not overwrite:
                raise DataError(
                    f"{name} has {kind} already",
                    file=str(run.folder),
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
                write_frame(draft, kind, frame, name)
            return run.described

        change_run(run, write)

    def files(self, table: str, runs: list[str] | str | None = None) -> list[str]:
        """Return the files of a table, oldest run first, for DuckDB, polars or pyarrow.

        Of all or some runs, as in `store.files("hits")`. Runs without the table are left out.
        """
        catalogue = self._open()
        chosen = [catalogue.stored[name] for name in catalogue.names(runs)]
        files = [(run, run.entries[table].name) for run in chosen if table in run.entries]
        now = stamps(self.root, [f"{run.name}/{name}" for run, name in files])
        return [
            str(run.folder / name)
            for (run, name), stamp in zip(files, now, strict=True)
            if stamp is not None
        ]

    def path(self, run: str) -> Path:
        """Return the folder of a run, by run_id or system, in a store on this machine.

        Raises
        ------
        DataError
            There is no such run, or the store lies elsewhere.
        """
        catalogue = self._open()
        folder = catalogue.stored[catalogue.names(run)[0]].folder
        if not isinstance(folder, Path):
            raise DataError(
                "the run has no folder on this machine",
                file=str(folder),
                allowed="load(run), or another store",
            )
        return folder

    def _open(self) -> Catalogue:
        """Return the runs that the store holds now; only new or changed ones are read."""
        self._catalogue = open_catalogue(self.root, self._catalogue)
        return self._catalogue

    def _by_saving(self, column: str = "run_id") -> list[str]:
        """Return run ids, or systems, in the order that gives each its look: new ones come last."""
        catalogue = self._open()
        rows = catalogue.about(catalogue.by_saving)
        return rows[column].dropna().astype("str").unique().tolist() if column in rows else []

    def _with_turns(self, golden: Golden, run_id: str) -> Golden:
        """Return a golden set that names no conversation with those that a run tells."""
        if "conversation" in golden.queries:
            return golden
        with open_parquet(self._open().stored[run_id].table("responses")) as source:
            held = source.read([name for name in source.schema_arrow.names if name in TOLD])
        return with_told_turns(golden, told_turns(held.to_pandas()))

    def _check_free(self, run_ids: list[str], overwrite: bool) -> None:
        check_distinct(self.root, run_ids)
        taken = [] if overwrite else [run_id for run_id in run_ids if is_taken(self.root, run_id)]
        if taken:
            raise DataError(
                f"{', '.join(taken)} saved already",
                file=str(self.root),
                field="run_id",
                allowed="other run ids, or overwrite=True",
            )

    def _make_folder(self) -> None:
        if not isinstance(self.root, Path):
            return
        with writing(self.root, "nothing was saved"):
            make_folder(self.root)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                write_text(ignore, IGNORED)


@contextmanager
def _told(done: list[str], what: str) -> Iterator[None]:
    """Let an error about one of several runs say which were done before it."""
    try:
        yield
    except DataError as error:
        if not done or isinstance(error, GoneError):
            raise
        found = f"{error.found}; {what} before it: {name_list(done)}"
        raise DataError(
            found, file=error.file, line=error.line, field=error.field, allowed=error.allowed,
            columns=error.columns,
        ) from error  # fmt: skip


def _choices(
    golden: Golden | None, text: str, profile: str | None, policies: Policies
) -> dict[str, Any]:
    """Check how a run is to be stored and scored; return policies and profile by name."""
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    check_choice(text, TEXTS, "text")
    default = asdict(Policies())
    choices = {name: value for name, value in asdict(policies).items() if value != default[name]}
    choices |= {"profile": profile} if profile is not None else {}
    check_choices(choices)
    if choices and golden is None:
        raise DataError(
            f"{', '.join(choices)} without a golden set",
            field="golden",
            allowed="a golden set to score by",
        )
    return choices


def _results_of(catalogue: Catalogue, names: list[str]) -> Results:
    return read_runs([catalogue.stored[name] for name in names], catalogue.about(names))


def _own_columns(ev: Any) -> pd.DataFrame | None:
    """Return run_id, query_id and the columns of your own; None without any."""
    own = [one for one in metric_columns(ev.scores) if _is_yours(ev._declared, one)]
    keyed = ev.scores.reset_index()[["run_id", "query_id", *own]]
    return keyed.astype({"run_id": "str"}) if own else None


def _is_yours(table: MetricTable, column: str) -> bool:
    metric = table.describe(column)
    return metric.family == "own" or bool(metric.source)


def _by_metric(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is declared of columns by the name of their metric: mine@5 is of mine@k."""
    return {
        f"{name.partition('@')[0]}@k" if told.get("source") and "@" in name else name: told
        for name, told in own.items()
        if told
    }

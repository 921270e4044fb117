"""`RunStore`.

A folder of runs as Parquet, one folder per run, readable by DuckDB and polars as it is.

The folder may lie on this machine or on object storage; a crash leaves the old run or the new one
(`stored`).
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type, conform, empty
from ragscore.io.load import load_results, record_file
from ragscore.scoring.matching import Rule
from ragscore.scoring.metrics import DEFAULT_METRICS
from ragscore.scoring.policies import read_refusals, resolve_policies, warn_of_missing
from ragscore.scoring.profiles import Profile, find_profile
from ragscore.scoring.provenance import provenance_frame
from ragscore.scoring.score import labels_of, warn_of_deep_cuts, warn_of_no_value
from ragscore.scoring.summary import STATISTICS
from ragscore.scoring.value_states import metric_columns
from ragscore.store.catalogue import Listing, listing_of
from ragscore.store.compact import KINDS_COMPACTED, compact_tables, scores_of, with_about
from ragscore.store.files import check_columns, place_of, stamps, write_frame, write_json
from ragscore.store.ingest import begin, ingest_run
from ragscore.store.level_search import find_level, settle
from ragscore.store.part_scoring import Setting, assembled, batched, mapped, score_batch
from ragscore.store.parts import parts_of
from ragscore.store.runs import is_taken, put_run, stored_runs
from ragscore.store.scoring import check_choices, choices_of, rule_of_scoring, scored
from ragscore.store.scoring_in_parts import Wanted
from ragscore.store.tables import FRAMES, read_metrics, read_runs, write_run, write_scores

TEXTS = ("cut", "full", "none")
IGNORED = (
    "# Texts and tables stay out of version control; metrics.json, report.md and run.json may be"
    " committed.\n*.parquet\n.staging-*/\n.replaced-*/\n"
)


class RunStore:
    """Runs on disk: save them, list them, load them and their scores again.

    Parameters
    ----------
    root
        The folder; it is created with the first run, with a `.gitignore` that keeps texts out of
        version control. Or a URL of a file system that fsspec knows, such as `s3://bucket/runs`
        (extra `scale`).
    storage_options
        What that file system is told: end point, credentials, and the like.
    """

    def __init__(self, root: str | Path, *, storage_options: dict[str, Any] | None = None) -> None:
        self.root = place_of(root, storage_options)
        self._seen: Listing | None = None

    def __repr__(self) -> str:
        return f"RunStore({str(self.root)!r}): {len(stored_runs(self.root))} runs"

    def _repr_html_(self) -> str:
        runs = self.runs().drop(columns=["config"], errors="ignore")
        return f"<p>{self!r}</p>{runs._repr_html_()}"  # type: ignore[operator]

    def save(
        self,
        results: Results,
        *,
        golden: Golden | None = None,
        overwrite: bool = False,
        text: str = "cut",
        match: str = "auto",
        rule: Rule | None = None,
        profile: str | None = None,
        **policies: str,
    ) -> list[str]:
        """Write every run of `results`, and its scores if a golden set is given.

        Matches and scores are computed from the whole text before it is cut, and kept: cutting
        never changes a score. Problems of the load are kept.

        Parameters
        ----------
        golden
            With it `matches.parquet`, `scores.parquet` and `metrics.json` are written too.
        overwrite
            Replace runs that are there already; without it that is an error, and nothing is
            written.
        text
            What is kept of hit texts: "cut" (200 characters), "full" or "none".
        match, rule, profile, policies
            As for `rs.score`: policies are errors, missing, empty_gold, collapse and unknown, a
            profile its name. They are stored with the scores; without a golden set they mean
            nothing and are refused.

        Returns
        -------
        The run ids written.
        """
        check_type(results, Results, "results")
        choices = _choices(golden, text, profile, policies)
        run_ids = results.runs["run_id"].astype("str").tolist()
        self._check_free(run_ids, overwrite)
        for kind in FRAMES:
            if (frame := getattr(results, kind)) is not None:
                check_columns(frame, kind)
        parts = (
            scored(results, golden, rule, choices | {"match": match}) if golden is not None else {}
        )
        self._make_folder()
        for run_id in run_ids:
            put_run(
                self.root,
                run_id,
                partial(write_run, run=results.select([run_id]), text=text, made=parts.get(run_id)),
                overwrite,
            )
        return run_ids

    def ingest(
        self,
        path: str | os.PathLike[str],
        *,
        golden: Golden | None = None,
        format: str | None = None,
        strict: bool = True,
        overwrite: bool = False,
        text: str = "cut",
        match: str = "auto",
        rule: Rule | None = None,
        profile: str | None = None,
        progress: bool | None = None,
        **policies: str,
    ) -> list[str]:
        """Read one run from its file into the store.

        `save(rs.load_results(path), golden=golden)` in memory that doesn't grow with the file.

        A `per_query.jsonl` (also .gz) is read block by block, written row group by row group, and
        scored part by part as `score` does; for that time the store's folder (the system's
        temporary one, for a store elsewhere) takes up to as much room more as the file. In memory
        are the ids of the questions, `judgments.jsonl`, should it stand beside, and with a golden
        set scores and matches. A file in another format is loaded whole.

        Parameters
        ----------
        path
            The run's file, or the folder it is in.
        format, strict
            As for `rs.load_results`; what could not be taken is `problems` of the stored run.
        golden, overwrite, text, match, rule, profile, policies
            As for `save`. A rule of your own sees the hits of one part at a time.
        progress
            Show a bar (needs tqdm); by default on a terminal.

        Returns
        -------
        The run ids written.

        Raises
        ------
        DataError
            As `rs.load_results` and `save`; the store is as it was before. `path` holds several
            runs.

        Warns
        -----
        UserWarning
            As `rs.load_results` and `score`.
        """
        file = record_file(path, format)
        if file is None:
            loaded = load_results(path, format=format, strict=strict)
            return self.save(
                loaded,
                golden=golden,
                overwrite=overwrite,
                text=text,
                match=match,
                rule=rule,
                profile=profile,
                **policies,
            )
        choices = _choices(golden, text, profile, policies) | {"match": match}
        begun = begin(file, strict)
        run_id = str(begun[0]["run_id"])
        self._check_free([run_id], overwrite)
        self._make_folder()
        wanted = None if golden is None else Wanted(golden, rule, choices)
        ingest_run(
            self.root, file, begun, wanted, overwrite=overwrite, text=text, progress=progress
        )
        return [run_id]

    def runs(self) -> pd.DataFrame:
        """One row per stored run, oldest first (created_at, then run_id).

        Columns as the `runs` frame.
        """
        return self._listing().table.copy()

    def load(self, runs: list[str] | str | None = None) -> Results:
        """Stored runs as `Results`.

        All of them, or those named (by run_id, or by a system that only one run has).
        """
        there = self._listing()
        return _results_of(there, there.names(runs))

    def score(
        self,
        golden: Golden,
        metrics: list[str] | str | None = None,
        runs: list[str] | str | None = None,
        *,
        client: Any = None,
        rule: Rule | None = None,
        profile: str | Profile | None = None,
        part_hits: int | None = None,
        **policies: str,
    ) -> pd.DataFrame:
        """Score stored runs part by part, here or on a Dask cluster.

        The frame of `rs.score(store.load(runs), golden)`, of runs of any size.

        A part is a range of a run's queries, or several small runs together; of each only its
        scores come back. Nothing is written.

        Parameters
        ----------
        metrics, rule, profile, policies
            As for `rs.score`. A rule of your own sees the hits of one part, or of the small runs
            read with it, at a time.
        runs
            Run ids or systems; by default all.
        client
            A `distributed.Client` (extra `scale`), whose workers can read the store; None: here, as
            many parts at once as arrow has threads (one, for a rule of your own).
        part_hits
            About as many hits are in memory at once, on each worker and here in each thread; by
            default two million, half a million where a rule may read their texts.

        Raises
        ------
        DataError
            As `rs.score`; the store holds no run; no client, or no number of hits.

        Warns
        -----
        UserWarning
            As `rs.score`; what several parts warn of is said once, with their numbers added up.
        """
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
        chosen = find_profile(profile)
        held = resolve_policies(chosen, policies)
        there = self._listing()
        names = there.names(runs)
        about = there.about(names)
        known = Results(runs=about.assign(run_id=names), responses=empty("responses"))
        setting = Setting(
            read_refusals(golden, chosen), labels_of(known, metrics, chosen), rule, chosen, held
        )
        size = part_hits or setting.part_hits
        of_runs = [
            parts_of(there.stored[name], about.iloc[at : at + 1], size)
            for at, name in enumerate(names)
        ]
        groups = batched(of_runs, len(golden.queries), size)
        setting = settle(mapped(find_level, groups, setting, client), setting, held["match"])
        batches = [batch for group in groups for batch in group]
        scores, valued = assembled(
            batches, mapped(score_batch, batches, setting, client), setting, names
        )
        warn_of_deep_cuts(known, setting.labels, bool(metrics) and chosen is None)
        if held["missing"] == "exclude":
            warn_of_missing(scores)
        assert setting.level is not None
        warn_of_no_value(valued, setting.level)
        return scores

    def scores(
        self,
        metrics: list[str] | str | None = None,
        runs: list[str] | str | None = None,
        *,
        allow_different: bool | list[str] = False,
        **policies: str | None,
    ) -> pd.DataFrame:
        """Stored scores of all or some runs, oldest run first.

        The frame of `rs.score` with `created_at` and `system`.

        Parameters
        ----------
        allow_different
            Components of the runs' rulers (see `rs.ruler`) that may differ, or True for all: they
            are warned of instead.
        policies
            Policies of `rs.score` and `profile` that the scores must have been made by, whatever is
            left out; nothing is computed here.

        Raises
        ------
        DataError
            A run was saved without a golden set (all of them are named), a metric wasn't scored, a
            run was scored by another policy than asked for, or the runs were measured by different
            rulers.

        Warns
        -----
        UserWarning
            Runs were measured by different rulers, of which the components that differ are ignored.
        """
        check_choices(policies)
        there = self._listing()
        names = there.names(runs)
        there.check_scored(names)
        there.check_policies(names, policies)
        scores = scores_of(there, names, [metrics] if isinstance(metrics, str) else metrics)
        there.check_rulers(names, metric_columns(scores), allow_different)
        return with_about(there, names, scores)

    def rulers(self, metrics: list[str] | str | None = None) -> pd.DataFrame:
        """What each scored run was measured by, oldest run first: the frame of `rs.ruler`."""
        there = self._listing()
        parts = there.rulers(there.table["run_id"].astype("str").tolist())
        return provenance_frame(
            parts, [metrics] if isinstance(metrics, str) else metrics or DEFAULT_METRICS
        )

    def golden_changes(self, baseline: str, candidate: str) -> pd.DataFrame:
        """What became of each query between the golden sets that two runs were scored by.

        Query_id, change; see `rs.golden_changes`.

        Raises
        ------
        DataError
            A run was saved without scores.
        """
        there = self._listing()
        (old,), (new,) = there.names(baseline), there.names(candidate)
        return there.golden_changes(old, new)

    def measured(
        self, metric: str, runs: list[str] | str | None = None
    ) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
        """One metric of runs that different rulers may have measured, as stored, and what their run.json say of the scoring.

        Nothing is checked: it is for readers that tell themselves what may be set side by side, as
        `rs.trend` does.

        Raises
        ------
        DataError
            A run was saved without a golden set, or the metric wasn't scored.
        """
        there = self._listing()
        names = there.names(runs)
        there.check_scored(names)
        return scores_of(there, names, [metric]), {
            name: there.stored[name].scoring for name in names
        }

    def metrics(
        self, runs: list[str] | str | None = None, *, allow_different: bool | list[str] = False
    ) -> pd.DataFrame:
        """What the `metrics.json` of all or some runs say.

        The frame of `rs.summarize`, null as NaN. Runs without scores are left out.

        Runs that were measured by different rulers are refused, unless ignored: see `scores`.
        """
        there = self._listing()
        wanted = list(there.stored) if runs is None else there.names(runs)
        names = [name for name, run in there.stored.items() if name in wanted and run.scoring]
        parts = [read_metrics(there.stored[name].folder / "metrics.json") for name in names]
        if not parts:
            raise DataError(
                "no run of the store has scores",
                file=str(self.root),
                allowed="save(results, golden=...) or refresh(golden)",
            )
        there.check_rulers(names, pd.concat(parts)["metric"].unique().tolist(), allow_different)
        # files of before may lack some
        numbers = [name for name in STATISTICS if name != "n" and not name.startswith("n_")]
        table = pd.concat(parts, ignore_index=True).reindex(
            columns=["run_id", "metric", *STATISTICS]
        )
        return table.astype(
            {"run_id": "category", "metric": "str", **dict.fromkeys(numbers, "float64")}
        )

    def refresh(
        self,
        golden: Golden,
        *,
        runs: list[str] | str | None = None,
        rule: Rule | None = None,
        **policies: str | None,
    ) -> list[str]:
        """Score every stored run, or those named, anew and rewrite scores and `metrics.json`.

        Formulas or labels have changed.

        Each run keeps the policies and the profile it was saved with, but for those given here.
        Hits whose text was cut keep the matches that were found before the cut, as long as rule and
        question are unchanged.

        Returns
        -------
        The run ids refreshed.

        Raises
        ------
        DataError
            A run was scored by another rule than its level's own, and no `rule` is given. No run is
            refreshed then.
        """
        check_type(golden, Golden, "golden")
        check_choices(policies)
        there = self._listing()
        names = there.names(runs) if there.stored else []
        for run in (there.stored[name] for name in names):
            rule_then = run.scoring.get("rule")
            if (
                rule is None
                and run.scoring
                and rule_then != rule_of_scoring(str(run.scoring.get("level")), None)
            ):
                raise DataError(
                    f"{run.run_id} was scored by the rule {rule_then}",
                    file=str(run.folder),
                    field="rule",
                    allowed="pass that rule, or another one",
                )
        for run in (there.stored[name] for name in names):
            made = scored(
                _results_of(there, [run.run_id]), golden, rule, choices_of(run.scoring) | policies
            )[run.run_id]
            write_json(run.home / "run.json", write_scores(run.folder, run.described, made))
        return names

    def add(self, run_id: str, *, overwrite: bool = False, **frames: pd.DataFrame) -> None:
        """Add frames to a saved run: `store.add("bm25", judgments=judgments)`.

        Parameters
        ----------
        frames
            By kind: judgments, chunks, citations, hit_meta, reported, hops, documents. Rows of
            other runs are refused.
        overwrite
            Replace a frame that the run has already.
        """
        there = self._listing()
        (name,) = there.names(run_id)
        folder = there.stored[name].folder
        for kind, frame in frames.items():
            if kind not in FRAMES or kind in ("responses", "hits", "matches", "problems"):
                raise DataError(
                    f"found {kind!r}",
                    field="frames",
                    allowed="judgments, chunks, citations, hit_meta, reported, hops or documents",
                )
            if (folder / f"{kind}.parquet").exists() and not overwrite:
                raise DataError(
                    f"{name} has {kind} already",
                    file=str(folder),
                    field=kind,
                    allowed="overwrite=True",
                )
            checked = conform(
                (
                    frame
                    if "run_id" in frame or kind in ("chunks", "documents")
                    else frame.assign(run_id=name)
                ),
                kind,
            )
            if "run_id" in checked and set(checked["run_id"].dropna().astype("str")) - {name}:
                raise DataError(f"rows of other runs than {name}", field=f"{kind}.run_id")
            check_columns(checked, kind)
            write_frame(folder / f"{kind}.parquet", checked, name)

    def compact(self) -> pd.DataFrame:
        """Copy the scores and hits of all runs into one file each, which `scores` then reads in one go; to be called again as runs gather.

        The store's folder gets `scores.parquet`, `hits.parquet` (both with `system` and
        `created_at`) and `runs.parquet`; runs stay where they are. The latter notes what each
        run.json says, so that a store on this machine opened anew reads only those written since.
        Runs that come, change or go later are read as they are then.

        Returns
        -------
        One row per table and run: `n_rows` copied, `left_out` says why a run is not among them (NA:
        it is).
        """
        there = self._listing()
        there.names()
        return compact_tables(there, KINDS_COMPACTED)

    def find(
        self,
        *,
        system: str | None = None,
        since: str | pd.Timestamp | None = None,
        until: str | pd.Timestamp | None = None,
        config: dict[str, Any] | None = None,
    ) -> list[str]:
        """Run ids by what their descriptions say, oldest first, to hand to `runs=` of `scores`, `score`, `load` and `metrics`: of other runs no table is opened.

        Parameters
        ----------
        since, until
            The first time and the one before which a run must have been made (`created_at`; without
            a zone, UTC).
        config
            Keys of the run's config, those inside others with dots (`bm25.k1`), and the values they
            must have.
        """
        return self._listing().find(system, since, until, config or {})

    def files(self, table: str, runs: list[str] | str | None = None) -> list[str]:
        """Where a table of all or some runs lies, oldest run first, for DuckDB, polars or pyarrow.

        `store.files("hits")`. Runs without it are left out.
        """
        there = self._listing()
        found = [there.stored[name] for name in there.names(runs)]
        now = stamps(self.root, [f"{run.at}/{table}.parquet" for run in found])
        return [
            str(run.folder / f"{table}.parquet")
            for run, stamp in zip(found, now, strict=True)
            if stamp is not None
        ]

    def path(self, run: str) -> Path:
        """The folder of a run, by run_id or system, in a store on this machine.

        Raises
        ------
        DataError
            No such run, or the store lies elsewhere.
        """
        there = self._listing()
        folder = there.stored[there.names(run)[0]].folder
        if not isinstance(folder, Path):
            raise DataError(
                "the run has no folder on this machine",
                file=str(folder),
                allowed="load(run), or another store",
            )
        return folder

    def _listing(self) -> Listing:
        """The runs that are there now.

        What was read of them before and is unchanged isn't read again.
        """
        self._seen = listing_of(self.root, self._seen)
        return self._seen

    def _check_free(self, run_ids: list[str], overwrite: bool) -> None:
        there = [] if overwrite else [run_id for run_id in run_ids if is_taken(self.root, run_id)]
        if there:
            raise DataError(
                f"{', '.join(there)} saved already",
                file=str(self.root),
                field="run_id",
                allowed="other run ids, or overwrite=True",
            )

    def _make_folder(self) -> None:
        if not isinstance(self.root, Path):
            return
        self.root.mkdir(parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text(IGNORED, encoding="utf-8")


def _choices(
    golden: Golden | None, text: str, profile: str | None, policies: dict[str, str]
) -> dict[str, Any]:
    """What scores are to be made by, checked like the rest of how a run is to be kept."""
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    if text not in TEXTS:
        raise DataError(f"found {text!r}", field="text", allowed=f"one of {', '.join(TEXTS)}")
    choices: dict[str, Any] = {**policies, **({"profile": profile} if profile is not None else {})}
    check_choices(choices)
    if choices and golden is None:
        raise DataError(
            f"{', '.join(choices)} without a golden set",
            field="golden",
            allowed="a golden set to score by",
        )
    return choices


def _results_of(there: Listing, names: list[str]) -> Results:
    return read_runs([there.stored[name] for name in names], there.about(names))

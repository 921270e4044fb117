"""`RunStore`: a folder of runs as Parquet, one folder per run, readable by DuckDB and polars as it is.

A run is written into `.staging-<id>/` and its folder renamed, so a crash leaves the old run or the new one.
"""

import hashlib
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from ragscore.frames import DataError, Golden, Results, check_type, concat_results, conform, from_records, run_names
from ragscore.golden_versions import changes_of, counted
from ragscore.load import run_description
from ragscore.load.run_json import run_record
from ragscore.match import Rule
from ragscore.metrics import DEFAULT_METRICS
from ragscore.outcomes import metric_columns
from ragscore.rulers import check_rulers, ruler_frame
from ragscore.run_files import check_columns, column_names, read_frame, read_json, read_parquet, write_frame, write_json, write_parquet
from ragscore.scored import check_choices, choices_of, rule_of_scoring, scored
from ragscore.summary import STATISTICS

TEXTS = ("cut", "full", "none")
CUT_AT = 200  # characters of hit text that a store keeps by default
LONGEST_NAME = 200  # of a run's folder: file systems take 255, and a staging folder's name is longer
FRAMES = ("responses", "hits", "citations", "hit_meta", "judgments", "chunks", "reported", "matches", "hops", "documents")
IGNORED = "# Texts and tables stay out of version control; metrics.json, report.md and run.json may be committed.\n*.parquet\n.staging-*/\n.replaced-*/\n"
_OWN_KEYS = ("scoring", "text", "ragscore")


class RunStore:
    """Runs on disk: save them, list them, load them and their scores again.

    Parameters
    ----------
    root
        The folder; it is created with the first run, with a `.gitignore` that keeps texts out of version control.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def __repr__(self) -> str:
        return f"RunStore({str(self.root)!r}): {len(self._folders())} runs"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>" + self.runs().drop(columns=["config"], errors="ignore")._repr_html_()  # type: ignore[operator]

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

        Matches and scores are computed from the whole text before it is cut, and kept: cutting never changes a score.

        Parameters
        ----------
        golden
            With it `matches.parquet`, `scores.parquet` and `metrics.json` are written too.
        overwrite
            Replace runs that are there already; without it that is an error, and nothing is written.
        text
            What is kept of hit texts: "cut" (200 characters), "full" or "none".
        match, rule, profile, policies
            As for `rs.score`: policies are errors, missing, empty_gold, collapse and unknown, a profile its name. They are
            stored with the scores; without a golden set they mean nothing and are refused.

        Returns
        -------
        The run ids written.
        """
        check_type(results, Results, "results")
        check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
        if text not in TEXTS:
            raise DataError(f"found {text!r}", field="text", allowed=f"one of {', '.join(TEXTS)}")
        choices: dict[str, Any] = {**policies, **({"profile": profile} if profile is not None else {})}
        check_choices(choices)
        if choices and golden is None:
            raise DataError(f"{', '.join(choices)} without a golden set", field="golden", allowed="a golden set to score by")
        run_ids = results.runs["run_id"].astype("str").tolist()
        there = [run_id for run_id in run_ids if self._folder(run_id).exists()]
        if there and not overwrite:
            raise DataError(f"{', '.join(there)} saved already", file=self.root, field="run_id", allowed="other run ids, or overwrite=True")
        for kind in FRAMES:
            if (frame := getattr(results, kind)) is not None:
                check_columns(frame, kind)
        parts = scored(results, golden, rule, choices | {"match": match}) if golden is not None else {}
        self.root.mkdir(parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text(IGNORED, encoding="utf-8")
        for run_id in run_ids:
            staging = self._aside("staging", run_id)
            staging.mkdir()
            _write_run(staging, results.select([run_id]), text, parts.get(run_id))
            self._put(staging, run_id)
        return run_ids

    def runs(self) -> pd.DataFrame:
        """One row per stored run, oldest first (created_at, then run_id); columns as the `runs` frame."""
        records = [run_record({k: v for k, v in described.items() if k not in _OWN_KEYS}, folder / "run.json") for folder, described in self._described()]
        runs = from_records(records, "runs")
        by = [name for name in ("created_at", "run_id") if name in runs]
        return runs.assign(run_id=runs["run_id"].astype("str")).sort_values(by, ignore_index=True).astype({"run_id": "category"})

    def load(self, runs: list[str] | str | None = None) -> Results:
        """Stored runs as `Results`: all of them, or those named (by run_id, or by a system that only one run has)."""
        table = self.runs()
        names = self._names(table, runs)
        return concat_results([_read_run(self._folder(name), table[table["run_id"] == name]) for name in names])

    def scores(
        self,
        metrics: list[str] | str | None = None,
        runs: list[str] | str | None = None,
        *,
        ignore_invariants: bool | list[str] = False,
        **policies: str | None,
    ) -> pd.DataFrame:
        """Stored scores of all or some runs, oldest run first: the frame of `rs.score` with `created_at` and `system`.

        Parameters
        ----------
        ignore_invariants
            Components of the runs' rulers (see `rs.ruler`) that may differ, or True for all: they are warned of instead.
        policies
            Policies of `rs.score` and `profile` that the scores must have been made by, whatever is left out; nothing is
            computed here.

        Raises
        ------
        DataError
            A run was saved without a golden set (all of them are named), a metric wasn't scored, a run was scored by another
            policy than asked for, or the runs were measured by different rulers.

        Warns
        -----
        UserWarning
            Runs were measured by different rulers, of which the components that differ are ignored.
        """
        check_choices(policies)
        table = self.runs()
        names = self._names(table, runs)
        scored = [name for name in names if (self._folder(name) / "scores.parquet").exists()]
        if len(scored) < len(names):
            without = ", ".join(name for name in names if name not in scored)
            allowed = "save(results, golden=...) or refresh(golden)" + (f", or runs={scored}" if scored else "")
            raise DataError(f"{without} saved without scores", file=self.root, allowed=allowed)
        self._check_policies(names, policies)
        parts = [self._read_scores(name, [metrics] if isinstance(metrics, str) else metrics) for name in names]
        scores = pd.concat([part.assign(run_id=part["run_id"].astype("str")) for part in parts])
        self._check_rulers(names, metric_columns(scores), ignore_invariants)
        about = table.assign(run_id=table["run_id"].astype("str")).set_index("run_id")
        for name in ("created_at", "system"):
            if name in about:
                scores.insert(1, name, scores["run_id"].map(about[name]))
        return scores.assign(
            run_id=pd.Categorical(scores["run_id"], categories=names), state=scores["state"].astype("category"), level=scores["level"].astype("category")
        )

    def rulers(self, metrics: list[str] | str | None = None) -> pd.DataFrame:
        """What each scored run was measured by, oldest run first: the frame of `rs.ruler`."""
        parts = self._rulers(self.runs()["run_id"].astype("str").tolist())
        return ruler_frame(parts, [metrics] if isinstance(metrics, str) else metrics or DEFAULT_METRICS)

    def golden_changes(self, baseline: str, candidate: str) -> pd.DataFrame:
        """What became of each query between the golden sets that two runs were scored by: query_id, change; see `rs.golden_changes`.

        Raises
        ------
        DataError
            A run was saved without scores.
        """
        old, new = (read_parquet(self.path(name) / "golden.parquet").set_index("query_id") for name in (baseline, candidate))
        return changes_of(old, new)

    def measured(self, metric: str, runs: list[str] | str | None = None) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
        """One metric of runs that different rulers may have measured, as stored, and what their run.json say of the scoring.

        Nothing is checked: it is for readers that tell themselves what may be set side by side, as `rs.trend` does.

        Raises
        ------
        DataError
            A run was saved without a golden set, or the metric wasn't scored.
        """
        names = self._names(self.runs(), runs)
        scorings = {str(described["run_id"]): described.get("scoring", {}) for _, described in self._described()}
        if without := [name for name in names if not scorings[name]]:
            raise DataError(f"{', '.join(without)} saved without scores", file=self.root, allowed="refresh(golden), or other runs")
        return pd.concat([self._read_scores(name, [metric]) for name in names]), {name: scorings[name] for name in names}

    def metrics(self, runs: list[str] | str | None = None, *, ignore_invariants: bool | list[str] = False) -> pd.DataFrame:
        """What the `metrics.json` of all or some runs say: the frame of `rs.summarize`, null as NaN. Runs without scores are left out.

        Runs that were measured by different rulers are refused, unless ignored: see `scores`.
        """
        wanted = None if runs is None else self._names(self.runs(), runs)
        parts, names = [], []
        for folder, described in self._described():
            file = folder / "metrics.json"
            if file.exists() and (wanted is None or str(described["run_id"]) in wanted):
                parts.append(_metrics_of(file))
                names.append(str(described["run_id"]))
        if not parts:
            raise DataError("no run of the store has scores", file=self.root, allowed="save(results, golden=...) or refresh(golden)")
        self._check_rulers(names, pd.concat(parts)["metric"].unique().tolist(), ignore_invariants)
        numbers = [name for name in STATISTICS if name != "n" and not name.startswith("n_")]  # files of before may lack some
        table = pd.concat(parts, ignore_index=True).reindex(columns=["run_id", "metric", *STATISTICS])
        return table.astype({"run_id": "category", "metric": "str", **dict.fromkeys(numbers, "float64")})

    def refresh(self, golden: Golden, *, runs: list[str] | str | None = None, rule: Rule | None = None, **policies: str | None) -> list[str]:
        """Score every stored run, or those named, anew and rewrite scores and `metrics.json`: formulas or labels have changed.

        Each run keeps the policies and the profile it was saved with, but for those given here. Hits whose text was cut keep the matches that were
        found before the cut, as long as rule and question are unchanged.

        Returns
        -------
        The run ids refreshed.

        Raises
        ------
        DataError
            A run was scored by another rule than its level's own, and no `rule` is given. No run is refreshed then.
        """
        check_type(golden, Golden, "golden")
        check_choices(policies)
        described = {str(content["run_id"]): content for _, content in self._described()}
        table = self.runs()
        names = self._names(table, runs) if len(table) else []
        for name in names:
            before = described[name].get("scoring", {})
            if rule is None and before and before.get("rule") != rule_of_scoring(str(before.get("level")), None):
                folder = self._folder(name)
                raise DataError(f"{name} was scored by the rule {before.get('rule')}", file=folder, field="rule", allowed="pass that rule, or another one")
        for name in names:
            choices = choices_of(described[name].get("scoring", {})) | policies
            _write_scores(self._folder(name), described[name], scored(self.load([name]), golden, rule, choices)[name])
        return names

    def add(self, run_id: str, *, overwrite: bool = False, **frames: pd.DataFrame) -> None:
        """Add frames to a saved run: `store.add("bm25", judgments=judgments)`.

        Parameters
        ----------
        frames
            By kind: judgments, chunks, citations, hit_meta, reported, hops, documents. Rows of other runs are refused.
        overwrite
            Replace a frame that the run has already.
        """
        (name,) = run_names(self.runs(), [run_id])
        folder = self._folder(name)
        for kind, frame in frames.items():
            if kind not in FRAMES or kind in ("responses", "hits", "matches"):
                raise DataError(f"found {kind!r}", field="frames", allowed="judgments, chunks, citations, hit_meta, reported, hops or documents")
            if (folder / f"{kind}.parquet").exists() and not overwrite:
                raise DataError(f"{name} has {kind} already", file=folder, field=kind, allowed="overwrite=True")
            checked = conform(frame if "run_id" in frame or kind in ("chunks", "documents") else frame.assign(run_id=name), kind)
            if "run_id" in checked and set(checked["run_id"].dropna().astype("str")) - {name}:
                raise DataError(f"rows of other runs than {name}", field=f"{kind}.run_id")
            check_columns(checked, kind)
            write_frame(folder / f"{kind}.parquet", checked, name)

    def path(self, run: str) -> Path:
        """The folder of a run, by run_id or system."""
        return self._folder(run_names(self.runs(), [run])[0])

    def _check_policies(self, run_ids: list[str], wanted: dict[str, str | None]) -> None:
        """Whether the stored scores of these runs were made as asked for."""
        made = {run_id: choices_of(read_json(self._folder(run_id) / "run.json").get("scoring", {})) for run_id in run_ids}
        for name, value in wanted.items():
            if others := [run_id for run_id, choices in made.items() if choices[name] != value]:
                found = f"{', '.join(others)} scored with {name}={made[others[0]][name]!r}"
                raise DataError(found, file=self.root, field=name, allowed=f"refresh(golden, {name}={value!r}), or save so")

    def _rulers(self, names: list[str]) -> dict[str, dict[str, Any]]:
        """What run.json says of the ruler of each of these runs that has one, by component."""
        scorings = {str(described["run_id"]): described.get("scoring", {}) for _, described in self._described()}
        return {name: scorings[name]["ruler"] for name in names if "ruler" in scorings[name]}

    def _check_rulers(self, names: list[str], columns: list[str], ignore: bool | list[str]) -> None:
        parts = self._rulers(names)
        a, b = next(((a, b) for a, b in pairwise(parts) if parts[a]["golden"] != parts[b]["golden"]), ("", ""))
        n = len(read_parquet(self._folder(a) / "golden.parquet", ["query_id"])) if a else 0
        parts = parts if len(parts) == len(names) else self._by_hash(names, parts)
        details = f"{a} to {b}: {counted(self.golden_changes(a, b), n)}" if a else ""
        check_rulers(parts, columns, ignore, details=details, remedy=": refresh(golden)")

    def _by_hash(self, names: list[str], parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The rulers of runs of which some were saved without one: all that run.json knows of those is the hash of the golden set."""
        hashes = {str(described["run_id"]): described.get("scoring", {}).get("golden_hash") for _, described in self._described()}
        return {name: parts.get(name, {}) | {"golden": f"golden set {hashes[name]}"} for name in names if hashes[name]}

    def _names(self, table: pd.DataFrame, runs: list[str] | str | None) -> list[str]:
        names = run_names(table, [runs] if isinstance(runs, str) else runs) if runs is not None else table["run_id"].astype("str").tolist()
        if not names:
            raise DataError("the store holds no run" if not len(table) else "no run named", file=self.root)
        return list(dict.fromkeys(names))

    def _folder(self, run_id: str) -> Path:
        # A run id may hold anything; a folder's name may not hold a slash, nor begin with a dot, nor be too long.
        name = quote(run_id, safe=" +@=,()[]!~")
        if len(name) > LONGEST_NAME:
            digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]
            name = f"{name[: LONGEST_NAME - len(digest) - 3]}~{digest}"
        return self.root / (f"%2E{name[1:]}" if name.startswith(".") else name)

    def _folders(self) -> list[Path]:
        return sorted(file.parent for file in self.root.glob("*/run.json") if not file.parent.name.startswith("."))

    def _described(self) -> list[tuple[Path, dict[str, Any]]]:
        return [(folder, read_json(folder / "run.json")) for folder in self._folders()]

    def _aside(self, what: str, run_id: str) -> Path:
        aside = self.root / f".{what}-{self._folder(run_id).name}"
        shutil.rmtree(aside, ignore_errors=True)
        return aside

    def _put(self, staging: Path, run_id: str) -> None:
        """Move a finished folder into place; an older one of the same name is moved aside first."""
        folder, replaced = self._folder(run_id), self._aside("replaced", run_id)
        if folder.exists():
            folder.rename(replaced)
        staging.rename(folder)
        shutil.rmtree(replaced, ignore_errors=True)

    def _read_scores(self, run_id: str, metrics: list[str] | None) -> pd.DataFrame:
        file = self._folder(run_id) / "scores.parquet"
        if metrics is None:
            return _by_query(read_parquet(file))
        unknown = [name for name in metrics if name not in column_names(file)]
        if unknown:
            raise DataError(
                f"{run_id} has no scores of {', '.join(unknown)}", file=file, field="metrics", allowed="rs.score(store.load(...), golden, metrics=[...])"
            )
        return _by_query(read_parquet(file, ["run_id", "query_id", "state", "level", *dict.fromkeys(metrics)]))


def _by_query(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.astype({"run_id": "str", "query_id": "str"}).set_index("query_id")


def _metrics_of(file: Path) -> pd.DataFrame:
    """What a `metrics.json` says, one row per metric."""
    content = read_json(file)
    metrics = content.get("metrics")
    if not isinstance(metrics, dict) or "run_id" not in content or not all(isinstance(values, dict) for values in metrics.values()):
        raise DataError("not what a metrics.json holds", file=file, field="metrics", allowed="run_id, and an object of values per metric")
    return pd.DataFrame([{"run_id": content["run_id"], "metric": name, **values} for name, values in metrics.items()])


def _write_run(folder: Path, run: Results, text: str, made: dict[str, Any] | None) -> None:
    run_id = str(run.runs["run_id"].iloc[0])
    for kind in FRAMES:
        frame = getattr(run, kind)
        if frame is not None and (len(frame) or kind == "responses"):
            write_frame(folder / f"{kind}.parquet", _with_text(frame, text) if kind == "hits" else frame, run_id)
    described = run_description(run.runs) | {"text": text}
    if made is not None:
        _write_scores(folder, described, made)
    else:
        write_json(folder / "run.json", described)


def _write_scores(folder: Path, described: dict[str, Any], made: dict[str, Any]) -> None:
    """Scores, matches and metrics.json of a run, and what they were made of into its run.json, which comes last."""
    run_id = str(described["run_id"])
    write_parquet(folder / "scores.parquet", made["scores"].reset_index())
    write_parquet(folder / "golden.parquet", made["golden"])
    if made["matches"] is not None:
        write_frame(folder / "matches.parquet", made["matches"], run_id)
    summary = made["summary"].drop(columns="run_id").set_index("metric")
    values = summary.astype(object).where(summary.notna(), None).to_dict("index")
    write_json(folder / "metrics.json", {"run_id": run_id, **{k: v for k, v in made["scoring"].items() if k != "ruler"}, "metrics": values})
    write_json(folder / "run.json", described | {"golden_hash": made["scoring"]["golden_hash"], "scoring": made["scoring"]})


def _with_text(hits: pd.DataFrame, text: str) -> pd.DataFrame:
    """Hits with their text cut or dropped; `text_cut` says of which hits something is missing."""
    if text == "full" or "text" not in hits:
        return hits
    if text == "none":
        return conform(hits.drop(columns="text").assign(text_cut=hits["text"].notna().astype("boolean")), "hits")
    before = hits["text_cut"].fillna(False) if "text_cut" in hits else False
    is_cut = (hits["text"].str.len() > CUT_AT).fillna(False) | before
    return conform(hits.assign(text=hits["text"].str.slice(0, CUT_AT), text_cut=is_cut.astype("boolean")), "hits")


def _read_run(folder: Path, runs: pd.DataFrame) -> Results:
    there = [kind for kind in FRAMES if kind == "responses" or (folder / f"{kind}.parquet").exists()]
    frames: dict[str, Any] = {kind: read_frame(folder / f"{kind}.parquet", kind) for kind in there}
    return Results(runs=runs.assign(run_id=runs["run_id"].astype("str")).reset_index(drop=True), **frames)

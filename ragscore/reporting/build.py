"""The frames of a report, from runs and golden set or from a comparison."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.invariants import flat_configs
from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, check_inputs, check_type, run_names
from ragscore.golden.coverage import coverage
from ragscore.reporting.measured import gates, measure
from ragscore.reporting.model import Report
from ragscore.scoring.metrics import DEFAULT_METRICS, HEADLINE
from ragscore.scoring.score import score
from ragscore.scoring.summary import summarize
from ragscore.store.store import RunStore

DESCRIBED = (
    "system",
    "created_at",
    "note",
    "suite",
    "commit",
    "k",
    "chunker_version",
    "golden_hash",
)
USUAL_SLICES = ("difficulty", "category", "lang")


def report(
    source: Results | Comparison, golden: Golden | None = None, path: str | Path | None = None, *,
    baseline: str | None = None,
    by: Sequence[str] | str | None = None, match: str = "auto", title: str | None = None,
    gate: Mapping[str, float] | None = None, rule: str = "threshold",
    history: RunStore | None = None,
    margins: dict[str, float] | None = None, vary: list[str] | str | None = None,
    ignore_invariants: bool | list[str] = False,
) -> Report:  # fmt: skip
    """A page to decide from.

    What changed from run to run, how good each run is, for which slices, and what each run was.

    Parts that there is no data for are left out, and named at the end with the reason.

    Parameters
    ----------
    source
        Runs, with their golden set; or a comparison alone.
    path
        Where to write it: .html, .md or .json.
    baseline
        The run that all others are compared with; without it each run is compared with the one
        before it (by created_at where every run has one, else as loaded).
    by
        Slices: columns or tags of the golden set; by default difficulty, category and lang where it
        has them.
    match
        The match level, as for `rs.score`.
    gate, rule
        Metric -> largest loss that is allowed, and how that is decided; see `rs.gate`. Every
        comparison then says whether it passes.
    history
        A store: the trend is drawn over its runs. Without it, over these runs, if a system has runs
        of several times.
    margins, vary, ignore_invariants
        As for `rs.compare_runs`.

    Returns
    -------
    A `Report`: its frames, `to_html`, `to_markdown`, `to_json` and `write`.

    Raises
    ------
    DataError
        Runs without a golden set, a comparison with one, an unknown baseline, slice or metric of
        `gate`, or an ending that names no form; runs that `rs.compare_runs` refuses to compare.
    """
    if isinstance(source, Comparison):
        made = Report(
            title or f"{source.candidate} against {source.baseline}",
            comparisons=(source,),
            gates=gates((source,), gate, rule),
        )
        if golden is not None:
            raise DataError(
                "a golden set beside a comparison",
                field="golden",
                allowed="rs.report(cmp), or rs.report(results, golden)",
            )
    else:
        check_type(source, Results, "source", "Results and a golden set, or a Comparison")
        if golden is None:
            raise DataError(
                "runs without a golden set", field="golden", allowed="rs.report(results, golden)"
            )
        own = [name for name in gate or {} if name not in DEFAULT_METRICS]
        options: dict[str, Any] = {
            "metrics": [*DEFAULT_METRICS, *own] if own else None,
            "match": match,
        }
        options |= {"margins": margins, "vary": vary, "ignore_invariants": ignore_invariants}
        made = _of_runs(
            source, golden, baseline, _slices(golden, by), title, options, gate, rule, history
        )
    if path is not None:
        made.write(path)
    return made


def _of_runs(
    results: Results, golden: Golden, baseline: str | None, by: list[str], title: str | None,
    options: dict[str, Any], max_drop: Mapping[str, float] | None, rule: str,
    history: RunStore | None,
) -> Report:  # fmt: skip
    check_inputs(results, golden)
    check_type(history, (RunStore, type(None)), "history", "a RunStore")
    results = _oldest_first(results)
    scores = score(results, golden, match=options["match"])
    compared = tuple(
        compare_runs(results, golden, a, b, **options) for a, b in _pairs(results, baseline)
    )
    names = [name for name in HEADLINE if name in scores]
    parts = [
        summarize(scores, golden, by=one, metrics=names, results=results)
        .rename(columns={one: "slice"})
        .assign(by=one)
        for one in by
    ]
    found = measure(
        results,
        golden,
        scores,
        compared,
        baseline=baseline,
        max_drop=max_drop,
        rule=rule,
        history=history,
    )
    parts_of_page: dict[str, Any] = {
        name: _plain(part) if isinstance(part, pd.DataFrame) else part
        for name, part in found.parts.items()
    }
    run_ids = results.runs["run_id"].astype("str").tolist()
    return Report(
        title=title or f"{len(run_ids)} runs on {len(golden.queries)} golden queries",
        runs=_runs(results, golden), config=_config(results, run_ids),
        summary=_plain(summarize(scores, golden, results=results)),
        slices=_plain(pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()),
        answers=_answers(results, compared), comparisons=compared, left_out=found.left_out,
        **parts_of_page,
    )  # fmt: skip


def _slices(golden: Golden, by: Sequence[str] | str | None) -> list[str]:
    if by is None:
        return [
            name
            for name in USUAL_SLICES
            if name in golden.queries and golden.queries[name].notna().any()
        ]
    return [by] if isinstance(by, str) else list(dict.fromkeys(by))


def _oldest_first(results: Results) -> Results:
    runs = results.runs
    if "created_at" not in runs or runs["created_at"].isna().any():
        return results
    return results.select(
        runs.sort_values("created_at", kind="stable")["run_id"].astype("str").tolist()
    )


def _pairs(results: Results, baseline: str | None) -> list[tuple[str, str]]:
    """Baseline and candidate of every comparison, newest first."""
    names = results.runs["run_id"].astype("str").tolist()
    if baseline is None:
        return list(pairwise(names))[::-1]
    (first,) = run_names(results.runs, [baseline])
    return [(first, name) for name in names[::-1] if name != first]


def _runs(results: Results, golden: Golden) -> pd.DataFrame:
    """What each run is, and how much of the golden set it answered."""
    known = [
        name for name in DESCRIBED if name in results.runs and results.runs[name].notna().any()
    ]
    counts = (
        coverage(results, golden)
        .reset_index()[["run_id", "n_rows", "n_failed", "n_missing"]]
        .rename(columns={"n_rows": "n_queries"})
    )
    described = results.runs[["run_id", *known]].assign(run_id=results.runs["run_id"].astype("str"))
    return described.merge(
        counts.assign(run_id=counts["run_id"].astype("str")), on="run_id", how="left"
    )


def _config(results: Results, run_ids: list[str]) -> pd.DataFrame:
    """One row per config key and run that has it.

    `value` as JSON text, `differs` where not all runs have the same.
    """
    rows = [
        (key, run_id, value)
        for run_id, config in flat_configs(results, run_ids).items()
        for key, value in config.items()
    ]
    table = pd.DataFrame(rows, columns=["key", "run_id", "value"], dtype="str")
    of_key = table.groupby("key", sort=False)["value"]
    return table.assign(
        differs=(
            (of_key.transform("nunique") > 1) | (of_key.transform("size") < len(run_ids))
        ).astype("bool")
    )


def _answers(results: Results, compared: tuple[Comparison, ...]) -> pd.DataFrame:
    """What was answered to the questions that changed."""
    changed = pd.concat(
        [pd.Series([], dtype="str"), *(one.changed()["query_id"] for one in compared)]
    )
    names = [name for name in ("answer", "refused", "error") if name in results.responses]
    rows = results.responses.loc[
        is_among(results.responses["query_id"], changed), ["run_id", "query_id", *names]
    ]
    return _plain(rows)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Run ids as text, so that a reloaded frame equals this one; the order of the rows is theirs."""
    return (
        frame.assign(run_id=frame["run_id"].astype("str")).reset_index(drop=True)
        if "run_id" in frame
        else frame
    )

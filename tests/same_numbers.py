"""Whether two states of this library compute the same numbers, to the bit.

`python -m tests.same_numbers write DIR` keeps every frame, JSON and file that it can make.
`python -m tests.same_numbers compare BEFORE AFTER` lists what differs, with exit status 1 if any
data does. Texts for people are listed too, and don't fail. Only public names are used.
"""

import argparse
import base64
import dataclasses
import gzip
import hashlib
import inspect
import json
import math
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ragscore as rs
from ragscore.analysis.comparison.align import query_matrix
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.gate import gate
from ragscore.analysis.comparison.relabelling import label_effect
from ragscore.analysis.comparison.score_diff import diff_scores
from ragscore.analysis.config_effects import config_effects
from ragscore.analysis.extras.event_log import write_event_log
from ragscore.analysis.failure_causes import failures
from ragscore.analysis.harness_files import write_metrics_json
from ragscore.analysis.leaderboard import leaderboard
from ragscore.analysis.paraphrases import paraphrases
from ragscore.analysis.query_view import show_query
from ragscore.analysis.rankings import score_distribution
from ragscore.analysis.refusals import refusals
from ragscore.analysis.repeats import average_repeats, repeats
from ragscore.analysis.reported import check_reported
from ragscore.analysis.retrievers import retrievers
from ragscore.analysis.risk_coverage import risk_coverage
from ragscore.analysis.slices import compare_slices, slice_means
from ragscore.analysis.trend.noise import noise_components, noise_floor
from ragscore.analysis.trend.trend import trend
from ragscore.golden.coverage import coverage, coverage_rows
from ragscore.golden.health import golden_health
from ragscore.golden.tie_sensitivity import tie_sensitivity
from ragscore.scoring.profile_aggregates import aggregate
from ragscore.scoring.provenance import judge_fingerprint, provenance
from ragscore.scoring.score import scoring
from ragscore.scoring.summary import add_columns, summarize
from ragscore.scoring.value_states import explain
from ragscore.stats import cosine

# Functions behind methods of the public objects.
INNER: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        add_columns, aggregate, compare_runs, compare_slices, config_effects, coverage,
        coverage_rows,
        diff_scores, explain, gate, label_effect, leaderboard, noise_components, noise_floor,
        provenance, query_matrix, score_distribution, scoring, show_query, slice_means,
        summarize, trend, write_event_log, write_metrics_json,
    )
}  # fmt: skip
# What has another name now: before -> after. It holds for columns, labels, values, JSON keys,
# fields of results and parameters, as whole words, wherever they stand.
RENAMED: dict[str, str] = {
    "hallucinated": "answered_unanswerable",
    "n_unknown": "n_undecidable",
    "ignore_invariants": "allow_different",
    "movers": "largest_changes",
    "by_labels": "label_effect",
    "by_system": "system_effect",
    "by_ruler": "provenance_effect",
    "broken_by": "break_reason",
    "bridge_how": "bridge_reason",
    "left_band": "first_out_of_control",
    "n_by_noise": "n_expected_by_chance",
    "rank_a": "rank_baseline",
    "rank_b": "rank_candidate",
    "only_a": "only_baseline",
    "only_b": "only_candidate",
    "n_expected_a": "n_expected_baseline",
    "n_expected_b": "n_expected_candidate",
    "p50_a": "p50_baseline",
    "p50_b": "p50_candidate",
    "p95_a": "p95_baseline",
    "p95_b": "p95_candidate",
    "value_a": "value_baseline",
    "value_b": "value_candidate",
    "run_a": "run_baseline",
    "run_b": "run_candidate",
    "a_unchanged": "unchanged_baseline",
    "b_unchanged": "unchanged_candidate",
    "delta_unchanged": "unchanged_delta",
    "if_all_zero": "lower_bound_missing",
    "if_all_one": "upper_bound_missing",
    # the fingerprint of the metrics' versions, which names answered_unanswerable
    "5d6692ce834d11c6": "34c930c90b0eaade",
}
# The same of words that also stand in sentences: only where they are the whole text.
RENAMED_ALONE: dict[str, str] = {
    "unknown": "undecidable",
    "level": "confidence",
    "least": "min_n",
    "tiny": "min_chars",
    "giant": "max_chars",
    "vacuous": "empty_value",
    "of": "n_total",
    "fault": "cause",
    "n_a": "n_baseline",
    "n_b": "n_candidate",
    "a": "baseline",
    "b": "candidate",
    "a_old": "baseline",
    "b_new": "candidate",
    "n_old": "n_baseline",
    "n_new": "n_candidate",
    "winners": "n_better",
    "losers": "n_worse",
    "unchanged": "n_same",
    "change": "delta",
    "before": "baseline",
    "after": "candidate",
    "mean_a": "baseline",
    "mean_b": "candidate",
    "tells": "discriminates",
    "what": "issue",
}

# Columns and JSON keys that hold sentences for people: (pattern of the item, pattern of the key).
PROSE = [
    ("*", "sentence"),
    ("*", "*sentences.*"),
    ("*", "title"),
    ("*", "left_out"),
    ("*", "*left_out[[]].why"),
    ("*", "*left_out[[]].part"),
    ("*compare_goldens*", "verdict"),
    ("metrics*", "formula"),
    ("metrics*", "nan_when"),
    ("metrics*", "also"),
    ("metrics*", "range"),
    ("*/problems", "found"),
    ("*/problems", "allowed"),
    ("*validate*", "found"),
    ("*validate*", "allowed"),
    ("*explain*", "reason"),
    ("*check_reported*", "note"),
    ("*gate*", "reason"),
    ("*report*", "gates[[]]*reason"),
    ("*supported_metrics*", "missing"),
    ("*", "*per_query[[]].note"),
    ("*/per_query", "note"),
]
# Methods and properties of a result that are kept beside its fields, if it has them.
DATA_PROPERTIES = ("counts", "overall", "passed", "exit_status", "same", "golden_hash")
PROSE_METHODS = (
    "to_markdown",
    "to_html",
    "to_text",
    "shown",
    "notes",
    "headline",
    "changed",
    "against_baseline",
    "largest_regressions",
)
PROSE_FIELDS = ("sentences", "sentence", "title", "verdict")
LARGE = 300_000  # cells above which a frame is kept as one digest per column
FEW = 5_000  # distinct texts of a large column that are kept themselves
SHOWN = 12  # places of one item that `compare` prints

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "data" / "demo"
SHARED = ROOT / ".." / "shared" / "data"
FIXTURES = ROOT / "tests" / "fixtures"
PROFILES = ("kebab", "rig", "seed-mcp", "trec", "chatbot")


# What is kept


class Kept:
    """A folder of items, one JSON file each.

    Parameters
    ----------
    folder
        Where the items go.
    temporary
        A folder for files that are written on the way; its path becomes `<temp>` in what is kept.
    """

    def __init__(self, folder: Path, temporary: Path) -> None:
        self.folder, self.temporary = folder, temporary
        self.names: set[str] = set()
        self.seconds: dict[str, float] = {}
        self.n_values = 0
        replaced = {
            str(temporary.resolve()): "<temp>",
            str(temporary): "<temp>",
            str(SHARED.resolve()): "<shared>",
            str(SHARED): "<shared>",
            str(ROOT): "<project>",
        }
        self.replaced = dict(sorted(replaced.items(), key=lambda pair: -len(pair[0])))

    def text(self, text: str) -> str:
        """The text without paths of this machine."""
        for path, name in self.replaced.items():
            if path in text:
                text = text.replace(path, name)
        return text

    def put(self, name: str, kind: str, value: Any) -> None:
        """Keep one item.

        Raises
        ------
        ValueError
            An item of this name is there already.
        """
        name = self.text(name)
        if name in self.names:
            raise ValueError(f"two items are called {name}")
        self.names.add(name)
        parts = [re.sub(r"[^\w.@=+\-]", "_", part)[:120] for part in name.split("/")]
        file = self.folder.joinpath(*parts[:-1], parts[-1] + ".json")
        if file.exists():
            mark = hashlib.sha256(name.encode()).hexdigest()[:8]
            file = file.with_name(f"{parts[-1]}.{mark}.json")
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {"item": name, "kind": kind, "value": value}
        file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    def keep(self, name: str, value: Any, *, prose: bool = False) -> None:
        """Keep a result: frames by themselves, everything else as JSON."""
        if isinstance(value, pd.Series):
            value = value.to_frame(str(value.name))
        if isinstance(value, pd.DataFrame):
            encoded = self.frame(value)
            self.n_values += 0 if prose else value.size
            self.put(name, "prose" if prose else "frame", encoded)
        elif self._has_parts(value):
            self._keep_parts(name, value)
        else:
            self.put(name, "prose" if prose else "json", self.plain(value))
            self.n_values += 0 if prose else 1

    def _has_parts(self, value: Any) -> bool:
        if isinstance(value, type):
            return False
        if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
            return True
        values = list(value.values()) if isinstance(value, dict) else value
        return isinstance(values, (list, tuple)) and any(
            isinstance(one, (pd.DataFrame, pd.Series)) or self._has_parts(one) for one in values
        )

    def _keep_parts(self, name: str, value: Any) -> None:
        if isinstance(value, dict):
            fields = {str(key): one for key, one in value.items()}
        elif dataclasses.is_dataclass(value):
            parts = [one for one in dataclasses.fields(value) if one.compare]
            fields = {one.name: getattr(value, one.name) for one in parts}
        elif hasattr(value, "_fields"):
            fields = {one: getattr(value, one) for one in value._fields}
        else:
            fields = {str(number): one for number, one in enumerate(value)}
        if hasattr(value, "to_json") and hasattr(value, "comparisons"):
            fields = {}  # a report: its JSON has all of it, once
        small = {}
        for key, one in fields.items():
            if one is None or callable(one):
                continue
            if key in PROSE_FIELDS:
                self.put(f"{name}/{key}", "prose", self.plain(one))
            elif isinstance(one, (pd.DataFrame, pd.Series, np.ndarray)) or self._has_parts(one):
                self.keep(f"{name}/{key}", one)
            else:
                small[key] = self.plain(one)
        if small:
            self.put(f"{name}/fields", "json", small)
            self.n_values += len(small)
        self._keep_forms(name, value)

    def _keep_forms(self, name: str, value: Any) -> None:
        if callable(getattr(value, "to_json", None)):
            parsed = json.loads(self.text(value.to_json()))
            self.put(f"{name}/to_json", "json", parsed)
            self.n_values += sum(1 for _ in leaves(parsed))
            if "own" in inspect.signature(value.to_json).parameters:
                self.put(
                    f"{name}/to_json_own", "json", json.loads(self.text(value.to_json(own=True)))
                )
        for key in DATA_PROPERTIES:
            declared = inspect.getattr_static(type(value), key, None)
            if isinstance(declared, (property, cached_property)):
                self.put(f"{name}/property_{key}", "json", self.plain(getattr(value, key)))
        for method in PROSE_METHODS:
            if callable(getattr(value, method, None)):
                made, said = caught(getattr(value, method))
                form = self.frame(made) if isinstance(made, pd.DataFrame) else self.plain(made)
                self.put(f"{name}/form_{method}", "prose", [form, said])

    def file(self, name: str, path: Path) -> None:
        """Keep what was written: a file, or all files of a folder."""
        if path.is_dir():
            for one in sorted(path.rglob("*")):
                if one.is_file():
                    # Files of a store have a token of their own in their names.
                    plain = re.sub(r"-[0-9a-f]{12}(?=\.)", "", one.relative_to(path).as_posix())
                    self.file(f"{name}/{plain}", one)
            return
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if path.suffix == ".parquet":
            self.keep(name, pd.read_parquet(path))
            return
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        text = self.text(content.decode("utf-8"))
        kind = "prose" if path.suffix in (".md", ".html") else "file"
        self.put(name, kind, {"sha256": digest, "text": text})
        self.n_values += 0 if kind == "prose" else text.count("\n")

    def call(
        self,
        item: str,
        function: str | Callable[..., Any],
        *args: Any,
        show: str | None = None,
        by_run: bool = False,
        **options: Any,
    ) -> Any:
        """What a public function gives, kept with its warnings, or with its error.

        Parameters
        ----------
        item
            Name of the item.
        function
            A public name, or a method of a public class.
        show
            The frame of the result that is kept; the result itself by default.
        by_run
            Whether the frame is kept with run_id as its index.

        Returns
        -------
        The function's result; None if it ended in an error.
        """
        told: list[str] = []
        try:
            found, told = caught(self._called, function, args, options)
            shown = found if show is None else getattr(found, show)
            shown = shown.set_index("run_id") if by_run else shown
        except Exception as error:
            kind = type(error).__name__
            self.put(f"{item}/error", "json", {"error": kind})
            self.put(f"{item}/error_text", "prose", self.text(str(error)))
            return None
        if told:
            self.put(f"{item}/warnings", "prose", [self.text(one) for one in told])
        self.keep(item, shown)
        return found

    def write(
        self, item: str, function: str, *args: Any, name: str, place: int = 1, **options: Any
    ) -> Any:
        """Keep the files that a public function writes to a path of its own.

        Parameters
        ----------
        name
            The file's name, or the folder's.
        place
            Where the path stands among the function's arguments.
        """
        folder = self.temporary / "written" / hashlib.sha256(item.encode()).hexdigest()[:12]
        folder.mkdir(parents=True)
        given = (*args[:place], folder / name, *args[place:])
        try:
            _, told = caught(self._called, function, given, options)
        except Exception as error:
            self.put(f"{item}/error", "json", {"error": type(error).__name__})
            self.put(f"{item}/error_text", "prose", self.text(str(error)))
            return None
        if told:
            self.put(f"{item}/warnings", "prose", [self.text(one) for one in told])
        self.file(item, folder)
        return folder / name

    def _called(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if isinstance(function, str):
            function = found(function)
        try:
            return function(*args, **options)
        except (TypeError, AttributeError, KeyError, rs.DataError) as error:
            now_args, now_options = in_new_words(args), in_new_words(options)
            if not RENAMED or (same(now_args, args) and same(now_options, options)):
                raise
            try:
                return function(*now_args, **now_options)
            except TypeError:  # no such argument: the first error was meant
                raise error from None

    # Values

    def plain(self, value: Any) -> Any:
        """A value as JSON holds it, floats to the bit."""
        if value is None or value is pd.NA or value is pd.NaT:
            return None
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, (float, np.floating)):
            return float(value)
        if isinstance(value, str):
            return self.text(str(value))
        if isinstance(value, Path):
            return self.text(str(value))
        if isinstance(value, (pd.Timestamp, datetime, date)):
            return value.isoformat()
        if isinstance(value, pd.DataFrame):
            return self.frame(value)
        if isinstance(value, (pd.Series, pd.Index)):
            return [self.plain(one) for one in value.tolist()]
        if isinstance(value, dict):
            return {str(key): self.plain(one) for key, one in value.items()}
        if isinstance(value, (set, frozenset)):
            return sorted((self.plain(one) for one in value), key=repr)
        if isinstance(value, (list, tuple, np.ndarray)):
            return [self.plain(one) for one in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = [one for one in dataclasses.fields(value) if one.compare]
            fields = {one.name: getattr(value, one.name) for one in parts}
            return {key: self.plain(one) for key, one in fields.items() if not callable(one)}
        return f"<{type(value).__name__}>"

    def frame(self, frame: pd.DataFrame) -> dict[str, Any]:
        """A frame as JSON: dtypes, index and columns in their order."""
        is_large = frame.size > LARGE
        index = frame.index
        if isinstance(index, pd.RangeIndex):
            rows: Any = {"range": [index.start, index.stop, index.step]}
        else:
            levels = [index.get_level_values(level) for level in range(index.nlevels)]
            rows = {
                "levels": [self.column(level.name, level.to_series(), is_large) for level in levels]
            }
        columns = [self.column(name, frame.iloc[:, at], is_large) for at, name in enumerate(frame)]
        return {"n": len(frame), "index": rows, "columns": columns}

    def column(self, name: Any, column: pd.Series, is_large: bool) -> dict[str, Any]:
        """A column with its dtype; of a large frame, a digest and its distinct texts."""
        kept: dict[str, Any] = {"name": self.plain(name), "dtype": str(column.dtype)}
        if isinstance(column.dtype, pd.CategoricalDtype):
            kept["categories"] = self.plain(column.cat.categories)
            kept["dtype"] = f"category of {column.cat.categories.dtype}"
            kept["ordered"] = bool(column.cat.ordered)
            if len(kept["categories"]) > FEW:
                kept["categories"] = digest_of(kept["categories"])
        if is_large and not pd.api.types.is_numeric_dtype(column.dtype):
            codes, distinct = pd.factorize(column)
            values = [self.plain(one) for one in distinct]
            kept["codes"] = digest_of(codes.tolist())
            kept["distinct"] = values if len(values) <= FEW else digest_of(values)
        elif is_large:
            kept["digest"] = digest_of(self.values(column))
        else:
            kept["values"] = self.values(column)
        return kept

    def values(self, column: pd.Series) -> list[Any]:
        """The cells, missing ones as null or, in float columns of numpy, as NaN."""
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
            return column.to_numpy().tolist()
        if isinstance(column.dtype, np.dtype) and column.dtype.kind != "O":
            column = column.astype("object")
        if column.dtype == "object":
            return [self.plain(one) for one in column.tolist()]
        missing = column.isna().to_numpy()
        cells = column.tolist()
        return [
            None if absent else self.plain(one) for one, absent in zip(cells, missing, strict=True)
        ]


def found(name: str) -> Callable[..., Any]:
    """A function by its name: public, in a namespace, or one behind a method."""
    spaces = (rs.io, rs.match, rs.frames, rs.golden, rs.judging, rs.collecting, rs.stats)
    for space in (rs, *spaces):
        if callable(function := getattr(space, name, None)):
            return function
    return INNER[name]


def digest_of(values: list[Any]) -> str:
    """One hash of values, in their order."""
    return hashlib.sha256(json.dumps(values, ensure_ascii=False).encode()).hexdigest()


def caught(function: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """What a function gives, and what it warned of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made = function(*args)
    return made, [f"{one.category.__name__}: {one.message}" for one in found]


def in_new_words(value: Any) -> Any:
    """Arguments with everything renamed that has another name now."""
    if isinstance(value, str):
        return substituted(value)
    if isinstance(value, dict):
        return {in_new_words(key): in_new_words(one) for key, one in value.items()}
    if isinstance(value, list):
        return [in_new_words(one) for one in value]
    if type(value) is tuple:
        return tuple(in_new_words(one) for one in value)
    return value


def same(one: Any, other: Any) -> bool:
    """Whether renaming changed nothing."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) or type(one) is tuple:
        return len(one) == len(other) and all(map(same, one, other))
    return one == other if isinstance(one, str) else one is other


def substituted(text: str) -> str:
    """The text with each renamed word in its new form."""
    if text in RENAMED_ALONE:
        return RENAMED_ALONE[text]
    for before, after in RENAMED.items():
        if before in text:
            text = re.sub(rf"(?<!\w){re.escape(before)}(?!\w)", lambda _, new=after: new, text)
    return text


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of a JSON with its path, places of lists as []."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one, (*path, "[]"))
    else:
        yield path, value


# What is computed


def ranking_labels(k: int = 5) -> list[str]:
    """Every label of the metric table, those with a cut-off at k."""
    names = [re.sub(r"@k$", f"@{k}", name) for name in rs.metrics()["name"]]
    return [re.sub(r"@r$", "@0.5", name) for name in names]


def analyses(
    kept: Kept,
    at: str,
    results: Any,
    golden: Any,
    *,
    by: tuple[str, ...] = (),
    pairs: tuple[tuple[str, str], ...] = (),
    metrics: tuple[str, ...] = ("hit@5", "mrr@10", "ndcg@10"),
    right: str | None = None,
    deep: bool = False,
) -> Any:
    """Everything that is computed from some runs and their golden set.

    Parameters
    ----------
    at
        Beginning of the items' names.
    by
        Columns or tags to slice by.
    pairs
        Runs to compare: baseline and candidate.
    metrics
        Labels where few are enough.
    right
        What says that an answer is right.
    deep
        Whether the slower forms are computed as well.

    Returns
    -------
    The scores by default policies.
    """
    call = kept.call
    scores = call(f"{at}/score", "score", results, golden)
    every = call(f"{at}/score_every", "score", results, golden, ranking_labels())
    call(f"{at}/scoring", "scoring", results, golden)
    call(f"{at}/coverage", "coverage", results, golden)
    call(f"{at}/coverage_rows", "coverage_rows", results, golden)
    call(f"{at}/validate", "validate", golden)
    call(f"{at}/supported_metrics", "supported_metrics", golden, results)
    call(f"{at}/ruler", "provenance", results, golden)
    call(f"{at}/provenance_of", "provenance", results, golden, list(metrics), missing="zero")
    if scores is None:
        return None
    call(f"{at}/summarize", "summarize", scores)
    call(f"{at}/summarize_golden", "summarize", scores, golden)
    call(f"{at}/summarize_bounds", "summarize", scores, golden, results=results, bounds=True)
    call(f"{at}/summarize_every", "summarize", every, golden, results=results)
    call(f"{at}/summarize_no_cluster", "summarize", scores, golden, cluster=None)
    for one in by:
        call(f"{at}/summarize_by={one}", "summarize", scores, golden, by=one, results=results)
        call(f"{at}/slices={one}", golden.slices, one)
        call(f"{at}/slice_means={one}", "slice_means", scores, golden, one, list(metrics))
    if len(by) > 1:
        call(f"{at}/slice_means_two", "slice_means", scores, golden, by[:2], list(metrics))
    call(f"{at}/explain", "explain", scores, golden, None if deep else list(metrics), results)
    call(f"{at}/explain_alone", "explain", scores, golden, list(metrics))
    for label in metrics:
        call(f"{at}/query_matrix={label}", "query_matrix", scores, label)
    call(f"{at}/leaderboard", "leaderboard", scores, golden=golden, results=results)
    call(f"{at}/impact", "config_effects", scores, results.runs, list(metrics), golden=golden)
    call(f"{at}/golden_health", golden_health, scores, golden, results, metric=metrics[0])
    call(f"{at}/near_duplicates", golden.near_duplicates, 0.4)
    call(f"{at}/tie_sensitivity", tie_sensitivity, results, golden, list(metrics))
    call(f"{at}/refusal_report", refusals, scores, golden, show="detection", by_run=True)
    for method in ("linear", "floor"):
        call(f"{at}/latency_report={method}", results.latency, method=method)
    call(f"{at}/error_report", results.errors, golden, by_run=True)
    call(f"{at}/indexing_report", results.indexing)
    decisions(kept, at, scores if every is None else every, results, golden, right, pairs)
    call(f"{at}/paraphrases_default", paraphrases, results, golden, show="per_query")
    rows = call(
        f"{at}/paraphrases", paraphrases, results, golden, narrow=2, pool=3, show="per_query"
    )
    if rows is not None and len(rows.per_query):
        kept.keep(f"{at}/paraphrase_groups", rows.groups)
        kept.keep(f"{at}/paraphrase_kinds", rows.kinds)
        kept.keep(f"{at}/paraphrase_summary", rows.summary.set_index("run_id"))
    call(f"{at}/scores_by_rank", results.retriever_scores)
    call(f"{at}/score_distribution", score_distribution, results, golden)
    call(f"{at}/bootstrap", bootstraps, scores, metrics[0])
    for baseline, candidate in pairs:
        compared(
            kept,
            f"{at}/{baseline}..{candidate}",
            results,
            golden,
            scores,
            baseline,
            candidate,
            by,
            metrics,
        )
    return scores


def bootstraps(scores: pd.DataFrame, label: str) -> dict[str, Any]:
    """Bootstrap intervals of one metric, with both generators."""
    values = scores[label].dropna().to_numpy()[:200]
    found: dict[str, Any] = {
        "means": [one.tolist() for one in rs.stats.bootstrap_means(values[:, None], 500)]
    }
    for method in ("numpy", "splitmix64"):
        found[method] = rs.stats.bootstrap_mean(values, 500, method=method)
    return found


def decisions(
    kept: Kept, at: str, scores: Any, results: Any, golden: Any, right: str | None, pairs: Any
) -> None:
    """Refusing as a decision, and what spoilt wrong answers."""
    call = kept.call
    for item, name in (
        ("refusal_decisions", "decisions"), ("refusal_table", "table"),
        ("answered_quality", "quality"),
    ):  # fmt: skip
        call(f"{at}/{item}", lambda name=name: getattr(refusals(scores, golden, right=right), name))
    for how in ("kept", "replaced"):
        for judged_by in dict.fromkeys((right, "hit@5")):
            item = f"{at}/refusal_curve={how},{judged_by}"
            options = {"right": judged_by, "refusals": how}
            curves = call(item, risk_coverage, scores, golden, results, show="curve", **options)
            if curves is not None:
                call(f"{item}/thresholds", curves.at_risk, 0.4)
                call(f"{item}/thresholds_high", curves.at_risk, 0.4, upper=True)
    call(f"{at}/fault_table", failures, scores, golden, results, show="table", hit="hit@5",
         right=right)  # fmt: skip
    causes = call(f"{at}/answer_faults", failures, scores, golden, results, show="per_query",
                  right=right)  # fmt: skip
    if causes is None:
        return
    for baseline, candidate in pairs:
        item = f"{at}/fault_changes={baseline}..{candidate}"
        changes, moved = (
            caught(made, baseline, candidate)[0] for made in (causes.changes, causes.transitions)
        )
        kept.keep(item, changes.rename(columns=SIDES))
        kept.keep(f"{item}/transitions", moved.rename_axis(index="before", columns="after"))


SIDES = {"baseline": "before", "candidate": "after"}


def compared(
    kept: Kept,
    at: str,
    results: Any,
    golden: Any,
    scores: Any,
    baseline: str,
    candidate: str,
    by: tuple[str, ...],
    metrics: tuple[str, ...],
) -> None:
    """Everything that is said of two runs."""
    call = kept.call
    pair = (results, golden, baseline, candidate)
    cmp = call(f"{at}/compare_runs", "compare_runs", *pair)
    call(
        f"{at}/compare_runs_margins",
        "compare_runs",
        *pair,
        margins={metrics[0]: 0.05},
        tie_margins={metrics[1]: 0.02},
        cluster=None,
    )
    if cmp is not None:
        allowed = {metrics[0]: 0.02, metrics[1]: 0.1}
        for rule in ("threshold", "interval"):
            call(f"{at}/gate={rule}", "gate", cmp, allowed, rule=rule)
        call(f"{at}/gate=require", "gate", cmp, allowed, require=True)
    call(f"{at}/diff_config", results.config_diff, baseline, candidate)
    diff = call(f"{at}/diff_scores", "diff_scores", scores, baseline, candidate)
    call(f"{at}/flips", diff.flips)
    call(f"{at}/flips_at", diff.flips, {metrics[1]: (0.25, 0.5)})
    call(f"{at}/rank_overlap", results.rank_overlap, baseline, candidate)
    call(f"{at}/rank_overlap_doc", results.rank_overlap, baseline, candidate, ids="doc", p=0.8)
    call(
        f"{at}/knowledge_gain",
        rs.extras.knowledge_gain.knowledge_gain,
        scores,
        baseline,
        candidate,
        dict.fromkeys(metrics, 1.0),
    )
    call(f"{at}/same_run", "same_run", results.select(baseline), results.select(candidate))
    call(
        f"{at}/leaderboard",
        "leaderboard",
        scores,
        list(metrics),
        baseline=baseline,
        golden=golden,
        iterations=500,
    )
    for one in by:
        call(
            f"{at}/compare_slices={one}",
            "compare_slices",
            scores,
            golden,
            one,
            baseline,
            candidate,
            list(metrics),
        )
    if len(by) > 1:
        call(
            f"{at}/compare_slices_two",
            "compare_slices",
            scores,
            golden,
            by[:2],
            baseline,
            candidate,
            metrics[0],
        )


def policies(kept: Kept, at: str, results: Any, golden: Any, labels: list[str]) -> None:
    """Scores under every policy that there is."""
    options = {
        "match": ("chunk", "span", "doc", "anchor", "predicate"),
        "errors": ("exclude",),
        "missing": ("zero",),
        "empty_gold": ("one", "zero"),
        "collapse": ("doc",),
        "unknown": ("miss",),
        "profile": PROFILES,
    }
    for name, values in options.items():
        for value in values:
            wanted = None if name == "profile" else labels
            kept.call(
                f"{at}/score_{name}={value}", "score", results, golden, wanted, **{name: value}
            )
            kept.call(f"{at}/scoring_{name}={value}", "scoring", results, golden, **{name: value})
    suffixed = [
        f"{metric}:{level}"
        for metric in ("hit@5", "recall@5", "ndcg@10", "mrr", "precision@5")
        for level in ("chunk", "doc", "span", "anchor", "predicate")
    ]
    kept.call(f"{at}/score_suffixes", "score", results, golden, suffixed)
    rules = {
        "by_chunk": rs.match.by_chunk,
        "by_doc": rs.match.by_doc,
        "by_span": rs.match.by_span(),
        "by_span_part": rs.match.by_span(min_overlap=0.2),
        "by_anchor": rs.match.by_anchor(),
        "by_heading": rs.match.by_anchor(snippets=False),
    }
    for name, rule in rules.items():
        kept.call(f"{at}/score_rule={name}", "score", results, golden, labels, rule=rule)
    for level in ("chunk", "doc", "anchor"):
        kept.call(f"{at}/targets_at={level}", "targets_at", golden, level)
    spans = kept.call(f"{at}/resolve_spans", golden.with_spans_from, results)
    if spans is not None:
        kept.call(f"{at}/resolve_spans/score", "score", results, spans, labels, match="span")


def profiles(kept: Kept, at: str, results: Any, golden: Any) -> None:
    """The aggregates and comparisons of the five profiles."""
    runs = [str(one) for one in results.runs["run_id"]]
    for name in PROFILES:
        kept.call(f"{at}/aggregate={name}", "aggregate", results, golden, name)
        kept.call(f"{at}/ruler={name}", "provenance", results, golden, profile=name)
        if len(runs) > 1:
            kept.call(
                f"{at}/compare_runs={name}",
                "compare_runs",
                results,
                golden,
                *runs[:2],
                profile=name,
            )
        item = f"{at}/write_metrics_json={name}"
        kept.write(
            item,
            "write_metrics_json",
            results.select(runs[0]),
            golden,
            name="out",
            place=2,
            profile=name,
        )


def page(kept: Kept, item: str, *args: Any, **options: Any) -> None:
    """A report: its JSON as data, its HTML and Markdown as texts."""
    source = args[0] if len(args) == 1 else rs.evaluate(*args)
    made = kept.call(item, source.report, **options)
    if made is None:
        return
    html = made.to_html()
    pictures = re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", html)
    texts = [base64.b64decode(one).decode() for one in pictures]
    kept.put(f"{item}/pictures", "prose", texts)
    again = rs.Report.from_json(made.to_json())
    kept.keep(f"{item}/reloads", {"same": again.to_json() == made.to_json()})
    for ending in ("json", "md", "html"):
        file = kept.temporary / f"page.{ending}"
        made.write(file)
        kept.put(
            f"{item}/written.{ending}",
            "prose" if ending != "json" else "file",
            {"text": kept.text(file.read_text("utf-8"))},
        )


def demo(kept: Kept) -> None:
    """The demo's golden set and its four runs."""
    golden = kept.call("demo/golden", "load_golden", DEMO / "golden.yaml")
    before = kept.call("demo/golden_before", "load_golden", DEMO / "golden_before.yaml")
    results = kept.call("demo/results", "load_results", str(DEMO / "runs/*/per_query.jsonl"))
    tied = kept.call(
        "demo/results_trec_ties", "load_results", str(DEMO / "runs/*/per_query.jsonl"), ties="trec"
    )
    pairs = (("dense", "hybrid"), ("hybrid", "hybrid_rerank"))
    by = ("difficulty", "category", "tag")
    scores = analyses(
        kept, "demo", results, golden, by=by, pairs=pairs, right="answer_checks", deep=True
    )
    policies(kept, "demo", results, golden, [*ranking_labels(), "ndcg@10"])
    kept.call("demo/score_trec_ties", "score", tied, golden)
    profiles(kept, "demo", results, golden)
    frame = results.hits
    kept.call("demo/rank_hits", "rank_hits", frame, ties="trec")
    kept.call("demo/collapse_hits", "collapse_hits", frame)
    targets = golden.targets[golden.targets["level"] == "doc"]
    graded = kept.call("demo/grade_hits", "grade_hits", frame, targets)
    rows = (
        frame.groupby(["run_id", "query_id"], observed=True).size().rename("n_hits").reset_index()
    )
    if graded is not None:
        kept.call(
            "demo/score_hits",
            "score_hits",
            *graded,
            replaced(golden, targets=targets),
            rows,
            ["map@10", "ndcg@5"],
        )
    kept.call("demo/score_answers", "score_answers", results, golden)
    kept.call("demo/parse_citations", "parse_citations", results.responses["answer"])
    relabelled(kept, results, golden, before)
    suites = {"first": first_queries(golden, 90), "rest": first_queries(golden, -90)}
    kept.call("demo/compare_suites", "compare_suites", results, suites, ["hit@5", "mrr@10"])
    for number, query_id in enumerate(golden.queries["query_id"].iloc[[0, 40, 90, 181]]):
        runs = ["bm25", "hybrid"] if number % 2 else None
        kept.call(f"demo/show_query={query_id}", "show_query", results, golden, query_id, runs)
    page(
        kept,
        "demo/report",
        results,
        golden,
        slices=["difficulty", "category"],
        gate={"mrr@10": 0.02},
    )
    page(
        kept,
        "demo/report_two",
        results.select(["dense", "hybrid"]),
        golden,
        baseline="dense",
        rule="interval",
        gate={"hit@5": 0.01},
    )
    page(kept, "demo/report_comparison", compare_runs(results, golden, "dense", "hybrid"))
    once = dataclasses.replace(results, hits=rs.match.collapse_hits(results.hits))
    kept.call("demo/to_ranx", "to_ranx", once)
    kept.call("demo/to_ranx_golden", "to_ranx", golden)
    kept.call("demo/to_ir_measures", "to_ir_measures", once, golden)
    kept.call("demo/to_ragas", "to_ragas", results, golden)
    gain = rs.extras.knowledge_gain.knowledge_gain(scores, "dense", "hybrid_rerank")
    kept.call(
        "demo/candidate_documents",
        rs.extras.knowledge_gain.candidate_documents,
        gain.per_query,
        golden,
    )
    summary = summarize(scores, golden, metrics=["hit@5", "mrr@10"])
    at = datetime(2026, 1, 1, tzinfo=UTC)
    kept.write(
        "demo/write_event_log",
        "write_event_log",
        summary,
        name="events.jsonl",
        occurred_at=at,
        conversation_id="c",
    )
    deltas = compare_runs(results, golden, "dense", "hybrid").deltas
    kept.write(
        "demo/write_event_log_deltas",
        "write_event_log",
        deltas,
        name="events.jsonl",
        occurred_at=at,
        conversation_id="c",
    )
    written_runs(kept, "demo", results.select("hybrid"))
    written_goldens(kept, "demo", golden)
    store_of(kept, "demo/store", results, golden)


def replaced(golden: Any, **frames: pd.DataFrame) -> Any:
    """The golden set with other frames."""
    return dataclasses.replace(golden, **frames)


def relabelled(kept: Kept, results: Any, golden: Any, before: Any) -> None:
    """What is said where the labels changed."""
    strict = replaced(golden, targets=golden.targets[golden.targets["grade"] >= 2])
    for name, old, new in (("before", before, golden), ("strict", golden, strict)):
        kept.call(f"demo/golden_changes={name}", new.diff, old)
        kept.call(f"demo/unchanged_queries={name}", new.unchanged_since, old)
        item = f"demo/compare_goldens={name}"
        kept.call(
            item,
            "label_effect",
            results,
            new,
            old,
            "dense",
            "hybrid_rerank",
            metrics=["hit@5", "mrr@10"],
        )
        kept.call(f"{item},one_run", "label_effect", results, new, old, "hybrid", metrics=["hit@5"])


def written_runs(kept: Kept, at: str, results: Any) -> None:
    """One run in every format that takes it."""
    once = dataclasses.replace(results, hits=rs.match.collapse_hits(results.hits))
    for level, ranked in (("doc", once), ("chunk", results)):
        for function, ending in (("write_trec_run", "txt"), ("write_json_run", "json")):
            for name in (f"run.{ending}", f"run.{ending}.gz"):
                kept.write(
                    f"{at}/{function}={level},{name}", function, ranked, name=name, level=level
                )
        kept.write(
            f"{at}/write_trec_rag={level}", "write_trec_rag", ranked, name="rag.jsonl", level=level
        )
    single = {
        "write_per_query": "r",
        "write_chatbot": "chatbot",
        "write_ragchecker": "checked.json",
        "write_retrievers": "results.jsonl",
        "write_report": "report.json",
        "write_judgments": "judgments.jsonl",
    }
    for function, name in single.items():
        kept.write(f"{at}/{function}", function, results, name=name)


def written_goldens(kept: Kept, at: str, golden: Any) -> None:
    """A golden set in every format that takes it."""
    for level in ("doc", "chunk"):
        for function, name in (
            ("write_trec_qrels", "qrels.txt"),
            ("write_json_qrels", "qrels.json"),
            ("write_beir", "beir"),
            ("write_qrels_jsonl", "qrels.jsonl"),
            ("write_qrels_jsonl", "qrels.jsonl.gz"),
        ):
            kept.write(f"{at}/{function}={level},{name}", function, golden, name=name, level=level)
    for name in ("golden.yaml", "golden.jsonl", "golden.yaml.gz"):
        kept.write(f"{at}/write_golden={name}", "write_golden", golden, name=name)
    kept.write(f"{at}/write_chatbot_golden", "write_chatbot_golden", golden, name="eval_set.jsonl")
    kept.write(f"{at}/write_predicates", "write_predicates", golden, name="queries.jsonl")


def store_of(kept: Kept, at: str, results: Any, golden: Any) -> None:
    """Runs saved in a store, its files, and what comes back."""
    root = kept.temporary / at.replace("/", "_")
    store = rs.RunStore(root)
    kept.call(f"{at}/save", store.save, results, golden=golden)
    kept.call(f"{at}/runs", store.runs)
    kept.file(f"{at}/files", root)
    loaded = kept.call(f"{at}/load", store.load)
    if loaded is not None:
        kept.call(f"{at}/load/score", "score", loaded, golden)
    kept.call(f"{at}/scores", store.scores)
    kept.call(f"{at}/metrics", store.metrics)
    kept.call(f"{at}/rulers", store.provenance)
    kept.call(f"{at}/score", store.score, golden, part_hits=500)
    kept.call(f"{at}/compact", store.compact)
    kept.call(f"{at}/compacted_scores", store.scores)
    kept.file(f"{at}/compacted_files", root)


def dialects(kept: Kept) -> None:
    """The demo's questions with every kind of label, read by five profiles."""
    golden = kept.call("dialects/golden", "load_golden", DEMO / "dialects.yaml")
    queries = golden.queries["query_id"]
    results = rs.load_results(str(DEMO / "runs/*/per_query.jsonl"))
    results = results.select(["dense", "hybrid_rerank"], queries)
    cell = ["run_id", "query_id", "rank"]
    library = results.hits["doc_id"].str.partition(".")[0]
    described = results.hits[cell].assign(library=library, section=results.hits["heading"])
    meta = described.melt(cell, var_name="key")
    results = dataclasses.replace(
        results, hit_meta=meta.assign(value=meta["value"].map(json.dumps))
    )
    policies(kept, "dialects", results, golden, ranking_labels())
    profiles(kept, "dialects", results, golden)
    pair = (("dense", "hybrid_rerank"),)
    analyses(
        kept, "dialects", results, golden, by=("difficulty",), pairs=pair, right="answer_checks"
    )
    for level in ("chunk", "doc", "anchor", "predicate"):
        item = f"dialects/compare_runs={level}"
        kept.call(item, "compare_runs", results, golden, *pair[0], match=level)
        kept.call(
            f"dialects/show_query={level}",
            "show_query",
            results,
            golden,
            queries.iloc[2],
            match=level,
        )
    predicates(kept, "dialects", results, golden)
    nothing = dataclasses.replace(results, hits=results.hits.iloc[:0], hit_meta=None)
    profiles(kept, "dialects/nothing", nothing, golden)
    written_goldens(kept, "dialects", golden)
    store_of(kept, "dialects/store", results, golden)


def predicates(kept: Kept, at: str, results: Any, golden: Any) -> None:
    """Retrievers side by side, judged by predicates."""
    for hits in ("any", "all"):
        item = f"{at}/predicate_report={hits}"
        kept.call(item, retrievers, results, golden, k=3, hits=hits, show="table", by_run=True)
    found = kept.call(
        f"{at}/predicate_report", retrievers, results, golden, show="table", by_run=True
    )
    kept.keep(f"{at}/predicate_rows", found.per_query)
    kept.keep(f"{at}/predicate_matrix", found.matrix)
    kept.call(f"{at}/predicate_rows_alone", retrievers, results, show="per_query")
    kept.call(
        f"{at}/predicate_rows_all",
        retrievers,
        results,
        golden,
        source_keys="all",
        metadata="any",
        substrings="all",
        show="per_query",
    )
    made, told = caught(lambda: retrievers(results, golden).to_markdown())
    kept.put(f"{at}/predicate_markdown", "prose", [kept.text(made), told])
    kept.call(f"{at}/filter_hits", "filter_hits", results, golden)


def history(kept: Kept) -> None:
    """The demo's history, read as a store from a copy."""
    root = kept.temporary / "history"
    shutil.copytree(DEMO / "history", root)
    store = rs.RunStore(root)
    golden = rs.load_golden(DEMO / "golden.yaml")
    before = rs.load_golden(DEMO / "golden_before.yaml")
    kept.call("history/runs", store.runs)
    results = kept.call("history/load", store.load)
    kept.call("history/scores", store.scores, allow_different=True)
    kept.call("history/scores_refused", store.scores)
    kept.call("history/metrics", store.metrics, allow_different=True)
    kept.call("history/rulers", store.provenance)
    kept.call(
        "history/golden_changes", store.golden_changes, "13-rerank-30", "14-rerank-30-relabelled"
    )
    kept.call("history/measured", store._measured, "mrr@10")
    kept.call("history/find", store.find, system="bm25", config={"bm25.k1": 1.2})
    kept.call("history/score", store.score, golden, ["hit@5", "mrr@10", "ndcg@10"])
    for metric in ("mrr@10", "hit@5", "passed", "latency_ms"):
        kept.call(f"history/trend={metric}", "trend", store, metric, show="table")
        kept.call(
            f"history/trend_golden={metric}",
            "trend",
            store,
            metric,
            golden=[before, golden],
            baseline="05-bm25-k1.5",
            show="table",
        )
    kept.call("history/trend_by", "trend", store, "mrr@10", "category", golden=golden, show="table")
    scores = rs.score(results, golden, ["hit@5", "mrr@10", "passed"])
    options = {"results": results, "golden": golden, "show": "table"}
    kept.call("history/trend_frame", "trend", scores, "mrr@10", **options)
    for metric in ("mrr@10", "passed"):
        kept.call(f"history/noise_floor={metric}", "noise_floor", store, metric)
        kept.call(f"history/noise_components={metric}", "noise_components", store, metric)
    kept.call(
        "history/noise_floor_frame", "noise_floor", scores, "hit@5", results=results, confidence=0.8
    )
    some = ["08-hybrid", "09-hybrid-rrf10", "10-hybrid-pool30", "11-rerank-10", "13-rerank-30"]
    kept.call(
        "history/impact",
        "config_effects",
        scores[scores["run_id"].isin(some)],
        results.runs,
        golden=golden,
    )
    options = {"baseline": "07-dense", "golden": golden}
    kept.call("history/leaderboard", "leaderboard", scores, ["hit@5", "mrr@10"], **options)
    repeated = ["15-cells-repeat1", "16-cells-repeat2", "17-cells-repeat3"]
    options = {"runs": repeated, "show": "per_query"}
    rows = kept.call("history/trials", repeats, scores, "passed", 2, **options)
    kept.keep("history/trial_summary", rows.summary)
    kept.call("history/trials_threshold", repeats, scores, "mrr@10", 3, 0.5, **options)
    kept.call("history/average_repeats", average_repeats, scores, results.runs)
    two = results.select(["11-rerank-10", "13-rerank-30"])
    page(kept, "history/report", two, golden, history=store)
    kept.call(
        "history/compare_runs",
        "compare_runs",
        results,
        golden,
        "11-rerank-10",
        "13-rerank-30",
        vary=["rerank.depth"],
    )
    kept.call("history/refresh", store.refresh, golden, runs=["01-bm25-plain"])
    kept.call("history/refreshed_rulers", store.provenance)
    kept.call("history/compact", store.compact)
    kept.call("history/scores_compacted", store.scores, allow_different=True)


# Small sets of its own, for what the demo has no data of


def lines(file: Path, records: list[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return file


def made_golden(n: int = 24) -> list[dict[str, Any]]:
    """Golden rows with every field, some of them to refuse and one without a label."""
    rows = []
    for number in range(n):
        doc, other = f"d{number // 3}", f"d{(number // 3 + 3) % 9}"
        row: dict[str, Any] = {
            "id": f"q{number:02}",
            "query": f"how is part {number // 3} of thing {number % 5} set?",
            "difficulty": ("easy", "medium", "hard")[number % 3],
            "category": "ab"[number % 2],
            "tags": [f"t{number % 4}", "all"],
            "lang": ("en", "de")[number % 2],
            "group": f"g{number // 3}",
            "variant": ("base", "typo", "short")[number % 3],
        }
        if number == n - 1 or number % 6 == 5:
            alone = {key: value for key, value in row.items() if key not in ("group", "variant")}
            rows.append(alone | ({} if number == n - 1 else {"answerable": False}))
            continue
        support = {"path": f"docs/{doc}.md", "heading": "root", "snippets": [f"words of {doc}"]}
        rows.append(
            row
            | {
                "expected_doc_ids": [
                    {"any": [doc, f"{doc}x"], "grade": 1 + number // 3 % 3},
                    other,
                ],
                "expected_chunk_ids": [[f"{doc}#1", f"{doc}#2"]],
                "gold_supports": [
                    support | {"start": 1, "end": 6, "date": f"2025-0{1 + number % 9}-01"}
                ],
                "must_contain": [f"part {number % 4}"],
                "forbidden": ["never"],
                "expected_key_facts": [f"part {number % 3}", "thing"],
                "reference_answer": f"The part {number % 4} of the thing is set by hand.",
                "folders": [f"docs/{number % 2}"],
                "x_own": number,
            }
        )
    return rows


def made_hit(run: int, number: int, rank: int) -> dict[str, Any]:
    """A hit of run, question and rank."""
    doc = f"d{(number // 3 + (rank * (run + 1) + number * run) % 5 - (run % 3)) % 9}"
    part = 1 + (rank + run) % 3
    path = f"docs/{doc}.md"
    score = round(1.0 / (rank + 0.1 * ((number * 7 + run) % 5)), 4)
    return {
        "rank": rank,
        "chunk_id": f"{doc}#{part}",
        "doc_id": doc,
        "doc_path": path,
        "heading_path": ["root", f"sub {part}"][: 1 + part % 2],
        "section_label": None,
        "snippet": f"some words of {doc}, part {part}, and of thing {number % 5}",
        "citation": {
            "kind": "line",
            "path": path,
            "start": part * 2,
            "end": part * 2 + 3,
            "section": None,
        },
        "retrieval": {
            "method": "hybrid",
            "fusion_score": score,
            "lexical_score": 2 * score,
            "vector_score": None if rank % 3 else 0.5,
            "lexical_rank": rank,
            "vector_rank": None,
        },
        "chunker_version": "c@1",
        "stale": (number + rank) % 7 == 0,
        "score_kind": "rrf",
    }


def made_record(run: int, number: int) -> dict[str, Any]:
    """A line of a run file: some fail, some find nothing, some refuse."""
    query = {
        "query_id": f"q{number:02}",
        "query": f"how is part {number // 3} of thing {number % 5} set?",
        "mode": "hybrid",
    }
    at = number * 5 + run * 3
    if at % 17 == 4:
        error = ("TimeoutError: timed out", "ValueError: broken")[number % 2]
        return query | {"hits_top_k": [], "answer": None, "elapsed_ms": 900, "error": error}
    hits = [] if at % 13 == 6 else [made_hit(run, number, rank) for rank in range(1, 9)]
    cited = [
        {"marker": f"[{n}]", "citation": one["citation"], "chunk_id": one["chunk_id"]}
        for n, one in enumerate(hits[: at % 4], 1)
    ]
    refused = at % 7 == 5
    text = (
        " "
        if at % 19 == 8
        else f"The part {at % 4} of the thing {number % 5} "
        f"[File: docs/d{number % 9}.md, Section: root]."
    )
    trace = [
        {
            "iter": step,
            "kind": ("decompose", "decide", "synthesize")[step],
            "sub_queries": ["a?"] * step,
            "context_chunks_added": at % 3,
            "forced_stop": at % 5 == step,
            "llm_call_ms": 10.5 * at,
        }
        for step in range(1 + at % 3)
    ]
    nli = (at % 10) / 10
    answer = {
        "answer": "I don't know." if refused else text,
        "citations": [] if refused else cited,
        "grounded": not refused,
        "refusal_reason": ("score_gate", "no_hits")[at % 2] if refused else None,
        "hops": trace,
        "verification": {"nli_score": nli, "nli_threshold": 0.5, "nli_passed": nli >= 0.5},
        "usage": {"prompt_tokens": 100 + at, "completion_tokens": 10 + at % 9},
        "cost_usd": at / 1e4,
        "turns": 1 + at % 3,
        "tool_calls": [{"name": ("search", "browse")[at % 2]}],
    }
    return query | {
        "hits_top_k": hits,
        "answer": answer,
        "elapsed_ms": 20 + at % 23 + run / 8,
        "error": None,
    }


def made_judgments(run: int, n: int = 24) -> list[dict[str, Any]]:
    """Verdicts on whole answers and on parts, some of them failed."""
    found = []
    for number in range(n):
        base = {
            "query_id": f"q{number:02}",
            "judge": "words",
            "prompt_hash": "p1",
            "temperature": 0.0,
            "tokens": 50 + number,
            "cost_usd": 0.001,
        }
        points = {
            "judge_correctness": (number * 3 + run) % 6,
            "judge_groundedness": (number + 2 * run) % 6,
        }
        for criterion, value in points.items():
            failed = (number + run) % 11 == 3
            state = (
                {"value": None, "state": "judge_failed"}
                if failed
                else {"value": value, "state": "scored"}
            )
            found.append(base | {"criterion": criterion, "item": ""} | state)
        for criterion in (
            "faithfulness",
            "context_recall",
            "key_facts",
            "claim_precision",
            "claim_recall",
        ):
            for part in range(1 + number % 3):
                value = float((number + part + run) % 2)
                found.append(
                    base
                    | {
                        "criterion": criterion,
                        "item": f"part {part}",
                        "value": value,
                        "state": "scored",
                    }
                )
        for rank in range(1, 4):
            value = float((number + rank) % 2)
            found.append(
                base
                | {
                    "criterion": "context_precision",
                    "item": str(rank),
                    "value": value,
                    "state": "scored",
                }
            )
        refused = float((number * 5 + run * 3) % 7 == 5)
        found.append(
            base | {"criterion": "judge_refused", "item": "", "value": refused, "state": "scored"}
        )
    return found


def made(kept: Kept) -> None:
    """Four small runs with all that answers, judges and catalogues can have."""
    folder = kept.temporary / "made"
    golden_file = folder / "golden.yaml"
    folder.mkdir()
    golden_file.write_text(json.dumps(made_golden(), indent=1), encoding="utf-8")
    for run, name in enumerate(("alpha1", "alpha2", "alpha3", "beta")):
        skipped = {3: (1, 2, 7)}.get(run, ())
        records = [made_record(run, number) for number in range(24) if number not in skipped]
        lines(folder / "runs" / name / "per_query.jsonl", records)
        about = {
            "run_id": name,
            "system": name.rstrip("123"),
            "repeat": run + 1 if run < 3 else None,
            "k": 8,
            "created_at": f"2026-01-0{run + 1}T00:00:00Z",
            "chunker_version": "c@1",
            "config": {"depth": 10 * (1 + run // 3), "chunker_version": "c@1", "eval_k": 8},
        }
        (folder / "runs" / name / "run.json").write_text(json.dumps(about), encoding="utf-8")
        lines(folder / "runs" / name / "judgments.jsonl", made_judgments(run))
    golden = kept.call("made/golden", "load_golden", golden_file)
    results = kept.call("made/results", "load_results", str(folder / "runs/*/per_query.jsonl"))
    kept.call("made/golden_refuse", "load_golden", golden_file, absent_docs="refuse")
    results = dataclasses.replace(results, chunks=made_chunks(), documents=made_documents(folder))
    pairs = (("alpha1", "beta"),)
    scores = analyses(
        kept,
        "made",
        results,
        golden,
        by=("difficulty", "lang", "tag", "folders"),
        pairs=pairs,
        right="key_facts",
        deep=True,
    )
    policies(kept, "made", results, golden, ranking_labels())
    profiles(kept, "made", results, golden)
    steps(kept, results, golden, scores)
    judges(kept, results, golden)
    documents = made_documents(folder)
    fresh = kept.call(
        "made/freshness", rs.extras.freshness, results, documents, 5, show="per_query"
    )
    marks = [name for name in fresh.summary if "marked" in name or "unknown" in name]
    kept.keep("made/freshness_summary", fresh.summary.drop(columns=marks))
    kept.keep("made/marked_stale", fresh.summary[["run_id", *marks]])
    kept.keep("made/stale_hits", fresh.stale_hits)
    kept.keep("made/version_conflicts", fresh.conflicts)
    table = fresh.per_query
    added = kept.call("made/add_columns", "add_columns", scores, table, partial=True)
    kept.call("made/add_columns/summarize", "summarize", added, golden)
    page(kept, "made/report", results, golden, slices="lang", title="Made up")
    written_runs(kept, "made", results.select("alpha1"))
    kept.write(
        "made/write_ragchecker=golden",
        "write_ragchecker",
        results.select("alpha1"),
        golden,
        name="checked.json",
    )
    written_goldens(kept, "made", golden)
    store_of(kept, "made/store", results, golden)
    kept.call("made/to_ragas", "to_ragas", results, golden)
    store = rs.RunStore(kept.temporary / "made_ingested")
    kept.call("made/ingest", store.ingest, folder / "runs/beta", golden=golden, progress=False)
    kept.file("made/ingest/files", kept.temporary / "made_ingested")
    kept.call(
        "made/trend",
        "trend",
        scores,
        "mrr@10",
        results=results,
        golden=golden,
        repeats=["alpha1", "alpha2", "alpha3"],
        show="table",
    )
    judged = kept.call(
        "made/score_judged", "score", results, golden, ["judge_correctness", "mrr@10"]
    )
    for metric in ("judge_correctness", "mrr@10"):
        kept.call(
            f"made/noise_components={metric}", "noise_components", judged, metric, results=results
        )
    collected(kept, golden)
    labelling(kept, folder, results)


def made_chunks() -> pd.DataFrame:
    """A chunk catalogue with something for lint to find."""
    rows = [
        {
            "chunk_id": f"d{doc}#{part}",
            "doc_id": f"d{doc}",
            "path": f"docs/d{doc}.md",
            "text": " ".join([f"word{doc}"] * (part * 30)),
        }
        for doc in range(8)
        for part in range(4)
    ]
    return rs.frames.conform(pd.DataFrame(rows), "chunks")


def made_documents(folder: Path) -> pd.DataFrame:
    """Documents that replace each other."""
    rows = [
        {
            "doc_id": f"d{doc}",
            "version_key": f"v{doc // 3}",
            "effective_timestamp": 2020 + doc,
            "path": f"docs/d{doc}.md",
            "doc_type": "ab"[doc % 2],
        }
        for doc in range(9)
    ]
    rows[4]["superseded_by"] = "d8"
    return rs.io.load_documents(lines(folder / "versions.jsonl", rows))


def steps(kept: Kept, results: Any, golden: Any, scores: Any) -> None:
    """Multi-hop answers, repeats, and how answers behave."""
    kept.call("made/query_hops", results.hops_summary, per_query=True)
    kept.call("made/hop_report", results.hops_summary)
    kept.call("made/hop_latency", results.latency, by="hop")
    kept.call("made/verification_report", results.verification)
    kept.call("made/judge_counts", results.judgment_counts)
    for metric, k in (("passed", 2), ("hit@5", 3)):
        rows = kept.call(
            f"made/trials={metric}",
            repeats,
            scores,
            metric,
            k,
            runs=["alpha1", "alpha2", "alpha3"],
            show="per_query",
        )
        if rows is not None:
            kept.keep(f"made/trial_summary={metric}", rows.summary)
    kept.call("made/average_repeats", average_repeats, scores, results.runs)
    wanted = {
        "*": {"max_latency_ms": 35, "max_tokens": 160, "max_turns": 2, "max_cost_usd": 0.008},
        "q00": {"required": ["part"], "forbidden": ["panic"], "json": True, "tools": ["search"]},
        "q01": {"required": ["part", "never there"], "max_tool_calls": 1},
    }
    behaviour = rs.extras.behaviour
    kept.call("made/behaviour", behaviour, results, wanted, threshold=0.6, show="per_query")
    kept.call("made/behaviour_checks", behaviour, results, wanted, show="checks")
    kept.call(
        "made/lint_chunks", rs.extras.lint_chunks, results.chunks, near_duplicates=0.8, min_chars=40
    )
    kept.call("made/with_judged_refusals", results.with_judged_refusals, True)
    kept.call(
        "made/concat_results", rs.Results.concat, [results.select("alpha1"), results.select("beta")]
    )
    texts = ["one two three", "four five"]
    novelty = {
        "lexical": rs.extras.knowledge_gain.lexical_novelty("one two six", "one two three four"),
        "cosine": cosine([1.0, 2.0, 3.0], [3.0, 1.0, 0.5]),
        "per_chunk": rs.extras.knowledge_gain.novelty_per_chunk(
            [[0.6, 0.8], [1.0, 0.2]], [[1.0, 0.0], [0.3, 0.7]]
        ),
        "all_pairs": rs.extras.knowledge_gain.novelty_all_pairs(
            [[0.6, 0.8], [1.0, 0.2]], [[1.0, 0.0], [0.3, 0.7]]
        ),
        "embedded": rs.extras.knowledge_gain.novelty_per_chunk(
            texts, ["one"], lambda found: [[len(t), t.count("o") + 1] for t in found]
        ),
    }
    kept.keep("made/novelty", novelty)
    kept.call("made/needle_set", rs.extras.needle_set, docs=3, lines=30, needles=5)


def judges(kept: Kept, results: Any, golden: Any) -> None:
    """Who judged, and whether the judges can be believed."""
    one, other = results.select("alpha1"), results.select("beta")
    moved = other.judgments.assign(run_id="alpha1").astype(
        {"run_id": one.judgments["run_id"].dtype}
    )
    second = dataclasses.replace(one, judgments=moved)
    kept.call("made/judge_fingerprint", judge_fingerprint, results)
    kept.call("made/same_judges", rs.judging.same_judges, results, "alpha1", "beta")
    kept.call("made/agreement", rs.judging.agreement, one, second)
    every, alone = rs.judging.Judged(results), rs.judging.Judged(one)
    draw = kept.call("made/draw_answers", alone.sample_for_annotation, 8)
    labels = pd.DataFrame(
        {
            "query_id": [f"q{n:02}" for n in range(24)],
            "criterion": "judge_correctness",
            "value": [float(n % 6) for n in range(24)],
        }
    )
    many = pd.concat([labels.assign(run_id=run) for run in ("alpha1", "alpha2", "alpha3", "beta")])
    audit = kept.call("made/judge_audit", every.audit, many)
    kept.call("made/judge_audit_alone", alone.audit)
    kept.call("made/judge_audit_reversed", alone.audit, reversed_context=second)
    kept.call("made/corrected_means", every.corrected_means, many, random=True)
    kept.call("made/corrected_means_few", alone.corrected_means, labels, random=False)
    folder = kept.temporary / "audit"
    folder.mkdir()
    if audit is not None:
        kept.file("made/judge_audit/written", Path(audit.write(folder)))
    kept.keep("made/drawn", [] if draw is None else len(draw))


def collected(kept: Kept, golden: Any) -> None:
    """A run collected from a function, without what the clock says."""
    titles = {f"d{n}": f"part {n} of thing {n % 5}" for n in range(9)}

    def search(query: str, k: int = 5) -> list[dict[str, Any]]:
        shared = {
            name: len(set(query.split()) & set(title.split())) for name, title in titles.items()
        }
        best = sorted(shared, key=lambda name: (-shared[name], name))[:k]
        return [
            {"chunk_id": f"{name}#1", "doc_id": name, "text": titles[name], "score": shared[name]}
            for name in best
        ]

    def answer(query: str, hits: list[dict[str, Any]]) -> dict[str, Any]:
        if "thing 3" in query:
            raise LookupError("nothing of it")
        return {
            "answer": f"See {hits[0]['doc_id']}.",
            "citations": [{"doc_id": hits[0]["doc_id"]}],
            "usage": {"prompt_tokens": 3},
        }

    out = kept.temporary / "collected"
    results, _ = caught(
        partial(
            rs.collect,
            (search, answer),
            golden,
            out,
            k=4,
            name="titles",
            run_id="c",
            leave_out=["folders"],
            progress=False,
        )
    )
    timed = [
        name
        for name in results.responses
        if name.endswith("_ms") or "time" in name or "latency" in name
    ]
    kept.keep("made/collect/responses", results.responses.drop(columns=timed))
    kept.keep("made/collect/hits", results.hits)
    kept.keep("made/collect/citations", results.citations)
    fixed = [
        name
        for name in ("run_id", "system", "k", "n_queries", "n_failed", "golden_hash")
        if name in results.runs
    ]
    kept.keep("made/collect/runs", results.runs[fixed])


def labelling(kept: Kept, folder: Path, results: Any) -> None:
    """A sitting of labelling: what is shown, and what the golden file becomes."""
    file = folder / "labelled.yaml"
    rows = ["# asked at the help desk\n"]
    rows += [
        f"- id: q{n:02}\n  query: how is part {n // 3} of thing {n % 5} set?   # once\n"
        for n in range(6)
    ]
    file.write_text("".join(rows), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for level in ("anchor", "chunk", "doc"):
            session = rs.golden.LabelSession(file, results, level=level, depth=6)
            session.go("q01")
            kept.keep(f"made/label={level}/questions", session.questions)
            kept.keep(f"made/label={level}/hits", session.hits)
            kept.keep(f"made/label={level}/near_misses", session.near_misses())
            session.mark(2, 3)
            session.go("q05")
            session.refuse()
            kept.file(f"made/label={level}/file", file)


def judged_by_predicates(kept: Kept) -> None:
    """Retrievers that are judged by predicates."""
    folder = kept.temporary / "retrievers"
    asked: list[dict[str, Any]] = [
        {"query": f"question {n}", "expected_source_keys": [f"Key-{n}"]} for n in range(8)
    ]
    asked += [
        {
            "query": "P1142",
            "expected_metadata": {"year": 2024},
            "expected_substrings": ["p1142", "bushels"],
        },
        {"query": "made up", "must_not_contain_source_keys": ["pioneer"]},
        {"query": "nowhere", "expected_empty": True},
        {"query": "own", "filters": {"product": "text 1"}},
    ]
    records = []
    for at, retriever in enumerate(("bm25", "dense", "hybrid")):
        for n, question in enumerate(asked[: len(asked) - at]):
            hits = [
                {
                    "rank": rank,
                    "id": f"c{n}.{rank}",
                    "document": f"text {rank} P1142: {n} bushels"[: 12 + 9 * at],
                    "metadata": {
                        "source_key": f"key-{n}" if rank == 1 + (n + at) % 4 else "else",
                        "year": 2022 + rank,
                    },
                }
                for rank in range(1, 1 + (n * 3 + at) % 6)
            ]
            error = "timeout" if (n + at) % 9 == 7 else None
            records.append(
                {
                    "query": question["query"],
                    "retriever": retriever,
                    "k": 5,
                    "elapsed_ms": 5.5 * (n + at),
                    "hits": hits,
                    "error": error,
                }
            )
    lines(folder / "queries.jsonl", asked)
    lines(folder / "results.jsonl", records)
    golden = kept.call("retrievers/golden", "load_golden", folder / "queries.jsonl")
    results = kept.call("retrievers/results", "load_results", folder / "results.jsonl")
    predicates(kept, "retrievers", results, golden)
    policies(
        kept, "retrievers", results, golden, ["hit@1", "hit@5", "mrr", "passed", "precision@5"]
    )
    analyses(
        kept,
        "retrievers",
        results,
        golden,
        pairs=(("bm25", "hybrid"),),
        metrics=("hit@5", "mrr@10", "passed"),
    )
    profiles(kept, "retrievers", results, golden)
    rule = rs.match.by_predicate(results, golden, substrings="all")
    kept.call("retrievers/score_rule", "score", results, golden, ["hit@5", "mrr"], rule=rule)
    kept.write("retrievers/write_retrievers", "write_retrievers", results, name="results.jsonl")
    rows = retrievers(results, golden).per_query
    summary = kept.write(
        "retrievers/write_retriever_summary",
        "write_retriever_summary",
        results,
        name="summary.jsonl",
        rows=rows,
    )
    if summary is not None:
        told = kept.call("retrievers/summary", "load_results", summary)
        kept.call(
            "retrievers/summary/predicate_report", retrievers, told, show="table", by_run=True
        )
    kept.write("retrievers/write_predicates", "write_predicates", golden, name="queries.jsonl")
    store_of(kept, "retrievers/store", results, golden)


def chatbot(kept: Kept) -> None:
    """Run folders of a chatbot's harness."""
    folder = kept.temporary / "chatbot"
    supports = [
        {"rel_path": f"{name}.md", "heading_path": head}
        for name, head in (("a", "O"), ("b", "Q"), ("c", "R"))
    ]
    cases = [
        {
            "id": f"t{n}",
            "question": f"and {n}?",
            "answerable": n % 5 != 4,
            "gold_supports": supports[: n % 4] if n % 5 != 4 else [],
            "required_support_groups": [[0, 1]] if n % 4 > 1 and n % 5 != 4 else None,
            "expected_key_facts": [f"fact {n}"],
            "tags": ["x", "y"][: n % 3],
            "category": ("factual", "multi_hop")[n % 2],
        }
        for n in range(12)
    ]
    for run, name in enumerate(("20260101_000000", "20260102_000000")):
        rows = []
        for n in range(12 - run):
            chunks = [
                {
                    "chunk_id": f"c{r}",
                    "rel_path": "xabc"[(n + r + run) % 4] + ".md",
                    "heading_path": "X O Q R".split()[(n + r) % 4],
                    "rank": r,
                    "text": "t",
                }
                for r in range(1, 6)
            ]
            rows.append(
                {
                    "test_case_id": f"t{n}",
                    "question": f"and {n}?",
                    "answer": f"the fact {n % 7}",
                    "references": supports[: (n + run) % 3],
                    "retrieved_chunks": chunks,
                    "abstention": {"abstained": (n + run) % 5 == 4},
                    "latency": {"total_ms": 100.0 + n * (run + 1)},
                    "groundedness": {"score": float((n + run) % 6), "reasoning": "r"},
                    "correctness": {"score": float((n * 2 + run) % 6), "reasoning": "r"},
                }
            )
        lines(folder / name / "results.jsonl", rows)
        config = {
            "k": 3 + run,
            "folder_mode": ("on", "off")[run],
            "judge_model": "j",
            "eval_set_commit_hash": "abc",
        }
        (folder / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    golden = kept.call("chatbot/golden", "load_golden", lines(folder / "eval_set.jsonl", cases))
    names = ("20260101_000000", "20260102_000000")
    results = kept.call("chatbot/results", "load_results", [folder / name for name in names])
    analyses(
        kept,
        "chatbot",
        results,
        golden,
        by=("category", "tag"),
        pairs=(names,),
        right="judge_correctness",
    )
    policies(kept, "chatbot", results, golden, ranking_labels())
    profiles(kept, "chatbot", results, golden)
    kept.write("chatbot/write_chatbot", "write_chatbot", results.select(names[0]), name=names[0])
    kept.write(
        "chatbot/write_chatbot_golden", "write_chatbot_golden", golden, name="eval_set.jsonl"
    )
    store_of(kept, "chatbot/store", results, golden)
    page(kept, "chatbot/report", results, golden)


# Files of other tools and other systems


def fixtures(kept: Kept) -> None:
    """The files of other tools that the tests hold."""
    for file in sorted(FIXTURES.iterdir()):
        if file.suffix in (".py", "") or file.name.startswith("make_"):
            continue
        at = f"fixtures/{file.name}"
        results = kept.call(f"{at}/load_results", "load_results", file, strict=False)
        golden = kept.call(f"{at}/load_golden", "load_golden", file, strict=False)
        kept.call(f"{at}/supported_metrics", "supported_metrics", file)
        if results is None:
            continue
        kept.call(f"{at}/reported_scores", results.reported_scores)
        kept.call(f"{at}/judge_counts", results.judgment_counts)
        if golden is not None:
            kept.call(f"{at}/score", "score", results, golden)
            kept.call(f"{at}/check_reported", check_reported, results, golden)
            kept.call(f"{at}/coverage", "coverage", results, golden)
            kept.call(f"{at}/to_ragas", "to_ragas", results, golden)
            profiles(kept, at, results, golden)
    values = json.loads((ROOT / "tests" / "metric_values.json").read_text("utf-8"))
    kept.keep("fixtures/metric_values", values)


def tables(kept: Kept) -> None:
    """Tables and reports of one's own."""
    frame = pd.DataFrame(
        {
            "q": ["how?", "why?", "how?"],
            "found": [["c2", "c1"], ["c3"], ["c1"]],
            "right": [["c1"], ["c4"], ["c1"]],
            "said": ["by hand", "because", "by foot"],
        }
    )
    answered = {"query": "q", "chunk_id": "found", "answer": "said"}
    labelled = {"query": "q", "chunk_id": "right"}
    results = kept.call(
        "tables/load_results", "load_results", frame, columns=answered, run_id="mine"
    )
    golden = kept.call("tables/load_golden", "load_golden", frame, columns=labelled)
    if results is not None and golden is not None:
        kept.call("tables/score", "score", results, golden)
    kept.call("metrics", "metrics")
    kept.call("available_judges", "available_judges")
    for label in ("hit@5", "ndcg@10", "passed", "latency_ms", "citation_precision"):
        kept.keep(f"metrics/card={label}", str(rs.metrics(label)), prose=True)
    for name in ("groundedness", "correctness", "faithfulness", "key_facts"):
        judge = rs.judging.get_judge(name)
        prompts = {"prompt_hash": judge.prompt_hash, "prompt_version": judge.prompt_version}
        kept.keep(f"judges/{name}", prompts)


def needs(kept: Kept, name: str) -> Path | None:
    """A folder beside the project; its absence is kept as an item."""
    folder = SHARED / name
    if folder.is_dir():
        return folder.resolve()
    kept.put(f"shared/{name}/skipped", "json", "not beside the project")
    return None


def first_queries(golden: Any, n: int) -> Any:
    """The golden set of the first n questions, or without the first -n."""
    ids = golden.queries["query_id"]
    ids = ids.iloc[:n] if n > 0 else ids.iloc[-n:]
    named = ("queries", "targets", "tags", "checks", "support_groups", "conditions")
    frames = {name: getattr(golden, name) for name in named}
    return replaced(
        golden,
        **{
            name: frame[frame["query_id"].isin(ids)].reset_index(drop=True)
            if "query_id" in frame
            else frame
            for name, frame in frames.items()
        },
    )


def robust(kept: Kept) -> None:
    """Eight systems on 100 topics."""
    folder = needs(kept, "trec-robust03-runs")
    if folder is None:
        return
    chosen = ("pircRBa1", "humR03dc", "NLPR03vb10", "rutcor03100")
    files = [folder / f"input.{name}.gz" for name in chosen]
    golden = kept.call("shared/robust/golden", "load_golden", folder / "robust03_qrels.txt.gz")
    results = kept.call("shared/robust/results", "load_results", files, ties="trec")
    labels = [
        "map@1000",
        "mrr",
        "ndcg@10",
        "ndcg_linear@100",
        "recall@100",
        "precision@10",
        "hit@1",
        "judged@10",
    ]
    scores = kept.call("shared/robust/score", "score", results, golden, labels, missing="zero")
    kept.call("shared/robust/score_default", "score", results, golden, labels)
    kept.call("shared/robust/aggregate=trec", "aggregate", results, golden, "trec")
    kept.call("shared/robust/aggregate=rig", "aggregate", results, golden, "rig")
    kept.call("shared/robust/summarize", "summarize", scores, golden)
    kept.call(
        "shared/robust/leaderboard",
        "leaderboard",
        scores,
        ["map@1000", "ndcg@10"],
        baseline="humR03dc",
        golden=golden,
    )
    kept.call("shared/robust/diff_scores", "diff_scores", scores, "humR03dc", "pircRBa1")
    kept.call(
        "shared/robust/compare_runs",
        "compare_runs",
        results,
        golden,
        "humR03dc",
        "pircRBa1",
        metrics=labels,
    )
    kept.call(
        "shared/robust/tie_sensitivity",
        tie_sensitivity,
        results.select("rutcor03100"),
        golden,
        ["map@1000", "mrr"],
    )
    part = results.select("NLPR03vb10", golden.queries["query_id"].iloc[:20])
    written_runs(kept, "shared/robust", part)
    some = first_queries(golden, 5)
    written_goldens(kept, "shared/robust", some)
    store = rs.RunStore(kept.temporary / "robust")
    kept.call(
        "shared/robust/ingest",
        store.ingest,
        folder / "input.NLPR03vb10.gz",
        golden=golden,
        progress=False,
    )
    kept.call("shared/robust/ingest/scores", store.scores)
    kept.call("shared/robust/ingest/load", store.load)


def raggy(kept: Kept) -> None:
    """Three systems whose passages are judged by document."""
    folder = needs(kept, "trec-rag24-raggy-dev")
    if folder is None:
        return
    results = kept.call("shared/raggy/results", "load_results", str(folder / "run.*.txt"))
    documents = results.hits["doc_id"].str.split("#").str[0]
    results = dataclasses.replace(
        results, hits=results.hits.assign(chunk_id=results.hits["doc_id"], doc_id=documents)
    )
    runs = [str(one) for one in results.runs["run_id"]]
    for year in (21, 23):
        at = f"shared/raggy/{year}"
        golden = kept.call(
            f"{at}/golden",
            "load_golden",
            folder / f"qrels.dl{year}-doc.txt",
            topics=folder / "topics.tsv",
        )
        asked = golden.queries["query_id"].isin(results.responses["query_id"])
        targets = golden.targets["query_id"].isin(golden.queries.loc[asked, "query_id"])
        golden = rs.Golden(
            queries=golden.queries[asked].reset_index(drop=True),
            targets=golden.targets[targets].reset_index(drop=True),
        )
        kept.call(
            f"{at}/score_collapse",
            "score",
            results,
            golden,
            ["ndcg@10", "recall@100", "map@100"],
            match="doc",
            collapse="doc",
        )
        kept.call(f"{at}/aggregate=trec", "aggregate", results, golden, "trec")
        kept.call(
            f"{at}/compare_runs",
            "compare_runs",
            results,
            golden,
            runs[0],
            runs[1],
            collapse="doc",
            match="doc",
        )
        scores = kept.call(f"{at}/score", "score", results, golden)
        kept.call(
            f"{at}/leaderboard",
            "leaderboard",
            scores,
            ["ndcg@10", "mrr@10"],
            baseline=runs[0],
            golden=golden,
        )
        kept.call(f"{at}/rank_overlap", results.rank_overlap, runs[0], runs[1])
        kept.call(f"{at}/score_distribution", "score_distribution", results, golden)


def cited_answers(kept: Kept) -> None:
    """Answers of three models with citations of each sentence."""
    folder = needs(kept, "trec-rag24-answers")
    if folder is None:
        return
    results = kept.call("shared/answers/results", "load_results", str(folder / "*.jsonl"))
    named = ["query_id", "iter", "doc_id", "grade"]
    texts = dict.fromkeys(("query_id", "doc_id"), "str")
    judged = pd.read_csv(folder / "qrels.rag24.test.txt", sep=r"\s+", names=named, dtype=texts)
    targets = judged.drop(columns="iter").assign(
        level="doc", target_id=judged["doc_id"], alternative=0
    )
    queries = pd.DataFrame({"query_id": judged["query_id"].unique()})
    queries = queries.assign(query="?", answerable=True, position=range(len(queries)))
    golden = rs.Golden(queries=queries, targets=targets)
    runs = [str(one) for one in results.runs["run_id"]]
    analyses(
        kept,
        "shared/answers",
        results,
        golden,
        pairs=((runs[0], runs[1]),),
        right="citation_precision",
    )
    kept.write(
        "shared/answers/write_trec_rag", "write_trec_rag", results.select(runs[0]), name="rag.jsonl"
    )


def checked_answers(kept: Kept) -> None:
    """Inputs and outputs of a checker of claims."""
    folder = needs(kept, "ragchecker-human")
    if folder is None:
        return
    for name in ("checking_inputs", "checking_outputs"):
        at, file = f"shared/checked/{name}", folder / f"{name}.json"
        results = kept.call(f"{at}/results", "load_results", file)
        golden = kept.call(f"{at}/golden", "load_golden", file)
        if results is None or golden is None:
            continue
        scores = kept.call(f"{at}/score", "score", results, golden, ranking_labels())
        kept.call(f"{at}/summarize", "summarize", scores, golden, results=results)
        kept.call(f"{at}/coverage", "coverage", results, golden)
        kept.call(f"{at}/reported_scores", results.reported_scores)
        kept.call(f"{at}/check_reported", check_reported, results, golden)
        kept.write(f"{at}/write_ragchecker", "write_ragchecker", results, golden, name="out.json")
        kept.write(f"{at}/write_report", "write_report", results, name="report.json")


def published(kept: Kept) -> None:
    """A collection's judgements, and a snapshot of another system's run."""
    folder = needs(kept, "vaswani-npl")
    if folder is not None:
        golden = kept.call(
            "shared/collection/golden",
            "load_golden",
            folder / "qrels",
            topics=folder / "query-text.trec",
        )
        kept.call("shared/collection/near_duplicates", golden.near_duplicates, 0.5)
        kept.call("shared/collection/validate", "validate", golden)
        written_goldens(kept, "shared/collection", first_queries(golden, 10))
    folder = needs(kept, "kebab-eval")
    if folder is not None:
        kept.call("shared/reports/run-1", "load_results", folder / "run-1.json", strict=False)


PARTS = (
    tables,
    fixtures,
    made,
    judged_by_predicates,
    chatbot,
    demo,
    dialects,
    history,
    robust,
    raggy,
    cited_answers,
    checked_answers,
    published,
)


def write(out: Path, only: list[str]) -> None:
    """Compute everything and keep it in a folder."""
    if out.exists() and any(out.iterdir()):
        sys.exit(f"{out} is not empty")
    if ROOT not in Path(str(rs.__file__)).resolve().parents:
        sys.exit("ragscore comes from elsewhere than this checkout: set PYTHONPATH to its root")
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        kept = Kept(out, Path(temporary))
        for part in PARTS:
            name = part.__name__
            if only and name not in only:
                continue
            start = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    part(kept)
            except Exception as error:
                kept.put(f"{name}/stopped", "json", {"error": type(error).__name__})
                print(f"{name} stopped: {type(error).__name__}: {error}", file=sys.stderr)
            kept.seconds[name] = round(time.perf_counter() - start, 1)
            print(f"{name}: {kept.seconds[name]} s", flush=True)
    about = {
        "seconds": round(time.perf_counter() - began, 1),
        "parts": kept.seconds,
        "items": len(kept.names),
        "values": kept.n_values,
        "ragscore": rs.__version__,
        "python": sys.version.split()[0],
        "pandas": pd.__version__,
        "numpy": np.__version__,
    }
    (out / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    print(f"{len(kept.names)} items, {kept.n_values:,} values in {about['seconds']} s")


# What differs


@dataclasses.dataclass
class Difference:
    """One place in which an item differs.

    Attributes
    ----------
    where
        The column, or the path in a JSON.
    n
        How many values differ there.
    largest
        The largest difference of two numbers; NaN if there is none.
    example
        One value before and after.
    kind
        data, prose or order.
    """

    where: str
    n: int = 0
    largest: float = math.nan
    example: tuple[Any, Any] | None = None
    kind: str = "data"

    def add(self, before: Any, after: Any) -> None:
        """Count one more pair of values."""
        self.n += 1
        if self.example is None:
            self.example = before, after
        if is_number(before) and is_number(after):
            gap = abs(before - after)
            self.largest = gap if math.isnan(self.largest) else max(self.largest, gap)

    def __str__(self) -> str:
        largest = "" if math.isnan(self.largest) else f", largest difference {self.largest!r}"
        example = (
            ""
            if self.example is None
            else f": {short(self.example[0])} -> {short(self.example[1])}"
        )
        return f"[{self.kind}] {self.where}: {self.n} differ{largest}{example}"


def is_number(value: Any) -> bool:
    """Whether it is a number, booleans apart."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def short(value: Any) -> str:
    """A value in few letters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:160]}..."


def to_the_bit(before: Any, after: Any) -> bool:
    """Whether two single values are the same, a renamed word apart."""
    if type(before) is not type(after):
        return False
    if isinstance(before, float):
        if math.isnan(before) or math.isnan(after):
            return math.isnan(before) and math.isnan(after)
        return before == after and math.copysign(1, before) == math.copysign(1, after)
    if isinstance(before, str):
        return before == after or substituted(before) == after
    return before == after


def is_prose(item: str, where: str) -> bool:
    """Whether a column or key of an item holds sentences for people."""
    keys = [where.rpartition(".")[2].strip("[]"), where]
    return any(
        fnmatchcase(item, of) and any(fnmatchcase(one, key) for one in keys) for of, key in PROSE
    )


class Compared:
    """The differences of two values of one item."""

    def __init__(self, item: str) -> None:
        self.item = item
        self.found: dict[tuple[str, str], Difference] = {}

    def note(self, where: str, before: Any, after: Any, kind: str | None = None) -> None:
        """Count a pair of values that differ."""
        kind = kind or ("prose" if is_prose(self.item, where) else "data")
        self.found.setdefault((where, kind), Difference(where, kind=kind)).add(before, after)

    def values(self, where: str, before: Any, after: Any) -> None:
        """Compare two JSON values."""
        if isinstance(before, dict) and isinstance(after, dict):
            self._mappings(where, before, after)
        elif isinstance(before, list) and isinstance(after, list):
            if len(before) != len(after):
                self.note(f"{where}[] (length)", len(before), len(after))
            for one, other in zip(before, after, strict=False):
                self.values(f"{where}[]", one, other)
        elif not to_the_bit(before, after):
            self.note(where, before, after)

    def _mappings(self, where: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        renamed = {key: key if key in after else substituted(key) for key in before}
        if [key for key in renamed.values() if key in after] != [
            key for key in after if key in renamed.values()
        ]:
            self.note(f"{where} (order of keys)", list(before), list(after), "order")
        for key, value in before.items():
            path = f"{where}.{renamed[key]}" if where else renamed[key]
            if renamed[key] in after:
                self.values(path, value, after[renamed[key]])
            else:
                self.note(f"{path} (key)", value, "not there")
        for key in after.keys() - set(renamed.values()):
            self.note(f"{where}.{key} (key)" if where else f"{key} (key)", "not there", after[key])

    def frames(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Compare two frames, column by column."""
        if before["n"] != after["n"]:
            self.note("(rows)", before["n"], after["n"])
        self._index(before["index"], after["index"])
        there = {str(one["name"]): one for one in after["columns"]}
        ours = {}
        for one in before["columns"]:
            name = str(one["name"])
            ours[name if name in there else substituted(name)] = one
        shared = [name for name in ours if name in there]
        if shared != [name for name in there if name in ours]:
            self.note(
                "(order of columns)", shared, [name for name in there if name in ours], "order"
            )
        for name in ours.keys() - there.keys():
            self.note(f"{name} (column)", "there", "not there")
        for name in there.keys() - ours.keys():
            self.note(f"{name} (column)", "not there", "there")
        for name in shared:
            self._column(name, ours[name], there[name])
        self._rows_in_another_order(before, after, ours, there, shared)

    def _index(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        if ("range" in before) != ("range" in after):
            self.note("(index)", list(before), list(after))
        elif "range" in before:
            self.values("(index)", before["range"], after["range"])
        else:
            if len(before["levels"]) != len(after["levels"]):
                self.note("(levels of the index)", len(before["levels"]), len(after["levels"]))
            for number, (one, other) in enumerate(
                zip(before["levels"], after["levels"], strict=False)
            ):
                self.values(f"(index {number}).name", one["name"], other["name"])
                self._column(f"(index {number})", one, other)

    def _column(self, name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        for key in sorted((before.keys() | after.keys()) - {"name", "values"}):
            if key not in before or key not in after:
                self.note(f"{name} ({key})", before.get(key), after.get(key))
            else:
                self.values(
                    name if key == "distinct" else f"{name} ({key})", before[key], after[key]
                )
        if "values" in before and "values" in after:
            for one, other in zip(before["values"], after["values"], strict=False):
                self.values(name, one, other)

    def _rows_in_another_order(
        self, before: Any, after: Any, ours: Any, there: Any, shared: list[str]
    ) -> None:
        data = [one for one in self.found.values() if one.kind == "data"]
        plain = all("values" in one for name in shared for one in (ours[name], there[name]))
        if not data or not shared or not plain or before["n"] != after["n"]:
            return
        rows = [
            sorted(
                json.dumps(row)
                for row in zip(*(side[name]["values"] for name in shared), strict=True)
            )
            for side in ({name: self._renamed(ours[name]) for name in shared}, there)
        ]
        moved = any(
            self._renamed(ours[name]) != {"values": there[name]["values"]} for name in shared
        )
        if moved and rows[0] == rows[1]:
            self.note("(rows)", "in one order", "the same ones in another order")

    def _renamed(self, column: dict[str, Any]) -> dict[str, Any]:
        return {
            "values": [
                substituted(one) if isinstance(one, str) else one for one in column["values"]
            ]
        }

    def texts(self, before: Any, after: Any) -> None:
        """Compare two texts for people; lines that are only on one side are counted."""
        old, new = (
            [
                line
                for _, text in leaves(value)
                for line in (text.splitlines() if isinstance(text, str) else [str(text)])
            ]
            for value in (before, after)
        )
        kept = set(new)
        lost = sorted({one for one in old if one not in kept and substituted(one) not in kept})
        kept = set(old) | {substituted(one) for one in old}
        won = sorted({one for one in new if one not in kept})
        for at in range(max(len(lost), len(won))):
            first, second = (side[at] if at < len(side) else "" for side in (lost, won))
            self.note("(text)", first, second, "prose")
        if not lost and not won and not same(in_new_words(before), after):
            self.note("(order of lines)", len(old), len(new), "prose")

    def files(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Compare two written files, line by line where their texts differ."""
        if to_the_bit(before["text"], after["text"]):
            if before.get("sha256") != after.get("sha256") and before["text"] == after["text"]:
                self.note("(bytes)", before.get("sha256"), after.get("sha256"))
            return
        old, new = substituted(before["text"]).splitlines(), after["text"].splitlines()
        if len(old) != len(new):
            self.note("(lines)", len(old), len(new))
        n_before = len(self.found)
        is_renamed = False
        for one, other in zip(old, new, strict=False):
            if one != other:
                try:
                    parsed = json.loads(one)
                    is_renamed |= not same(in_new_words(parsed), parsed)
                    self.values("(line)", parsed, json.loads(other))
                except ValueError:
                    self.note("(line)", one, other)
        if len(self.found) == n_before and not is_renamed:
            self.note("(white space or form)", before.get("sha256"), after.get("sha256"))


def loaded(folder: Path) -> dict[str, tuple[str, Path]]:
    """The items of a folder: name -> kind and file."""
    found = {}
    for file in sorted(folder.rglob("*.json")):
        if file == folder / "about.json" or not file.is_file():
            continue
        with file.open(encoding="utf-8") as opened:
            head = opened.read(2000)
        match = re.match(r'\{"item": ("(?:[^"\\]|\\.)*"), "kind": "(\w+)"', head)
        if match is None:
            sys.exit(f"{file} is no item")
        found[json.loads(match[1])] = match[2], file
    return found


def compare(before: Path, after: Path, limit: int) -> int:
    """Print what differs between two folders.

    Returns
    -------
    0 if all data are the same to the bit, else 1.
    """
    left, right = loaded(before), loaded(after)
    names = {item: item if item in right else substituted(item) for item in left}
    counts = dict.fromkeys(("equal", "renamed", "differs", "order", "prose"), 0)
    by_kind: dict[str, int] = {}
    bad: list[str] = []
    prose: list[str] = []
    for item, (kind, file) in left.items():
        if names[item] not in right:
            (prose if kind == "prose" else bad).append(f"only before: {item}")
            continue
        other_kind, other = right[names[item]]
        one_bytes, other_bytes = file.read_bytes(), other.read_bytes()
        if one_bytes == other_bytes:
            counts["equal"] += 1
            by_kind[kind] = by_kind.get(kind, 0) + 1
            continue
        found = Compared(names[item])
        one, two = json.loads(one_bytes)["value"], json.loads(other_bytes)["value"]
        if kind != other_kind:
            found.note("(kind)", kind, other_kind, "data")
        elif kind == "prose":
            found.texts(one, two)
        elif kind == "frame":
            found.frames(one, two)
        elif kind == "file":
            found.files(one, two)
        else:
            found.values("", one, two)
        differences = list(found.found.values())
        kinds = {one.kind for one in differences}
        worst = next((one for one in ("data", "order", "prose") if one in kinds), "renamed")
        counts["differs" if worst == "data" else worst] += 1
        lines_of_item = [f"{names[item]}", *(f"    {one}" for one in differences[:limit])]
        if len(differences) > limit:
            lines_of_item.append(f"    ... and {len(differences) - limit} more places")
        if worst in ("data", "order"):
            bad.append("\n".join(lines_of_item))
        elif worst == "prose":
            prose.append("\n".join(lines_of_item))
    for item in right.keys() - set(names.values()):
        (prose if right[item][0] == "prose" else bad).append(f"only after: {item}")
    if prose:
        print(f"Texts for people that differ ({len(prose)}; they don't fail)\n")
        print("\n".join(prose) + "\n")
    if bad:
        print(f"Data that differ ({len(bad)})\n")
        print("\n".join(bad) + "\n")
    equal = ", ".join(f"{n} {kind}" for kind, n in sorted(by_kind.items()))
    print(
        f"{len(left)} items before, {len(right)} after: "
        f"{counts['equal']} equal to the bit ({equal}), "
        f"{counts['renamed']} equal but for renamed words, {counts['prose']} differ in texts only, "
        f"{counts['order']} in order only, {counts['differs']} in data; "
        f"{sum(one.startswith('only ') for one in bad + prose)} on one side only"
    )
    return 1 if bad else 0


def main() -> int:
    """Write, or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    writer = commands.add_parser("write", help="compute everything and keep it")
    writer.add_argument("out", type=Path, metavar="OUT_DIR")
    writer.add_argument(
        "--only", action="append", default=[], metavar="PART", help="a part; may be repeated"
    )
    comparer = commands.add_parser("compare", help="list what differs; exit status 1 if data do")
    comparer.add_argument("before", type=Path, metavar="DIR_BEFORE")
    comparer.add_argument("after", type=Path, metavar="DIR_AFTER")
    comparer.add_argument("--limit", type=int, default=SHOWN, help="places shown of one item")
    given = parser.parse_args()
    if given.command == "write":
        write(given.out, given.only)
        return 0
    return compare(given.before, given.after, given.limit)


if __name__ == "__main__":
    sys.exit(main())

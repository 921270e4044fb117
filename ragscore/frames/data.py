"""Frames side by side: `Golden` (what is right) and `Results` (what systems answered).

Everything that loads or stores frames calls `conform`; functions further down the pipe trust what
they get.
"""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import pandas as pd

from ragscore.frames.codes import coded, is_among, lookup
from ragscore.frames.errors import DataError as DataError
from ragscore.frames.errors import check_type as check_type
from ragscore.frames.kinds import KINDS as KINDS
from ragscore.frames.kinds import categorical as categorical
from ragscore.frames.kinds import conform as conform
from ragscore.frames.kinds import empty as empty
from ragscore.frames.kinds import from_records as from_records
from ragscore.frames.kinds import records_of as records_of

T = TypeVar("T")


def _refuse_repeats(frame: pd.DataFrame, key: list[str], name: str) -> None:
    repeated = frame.duplicated(key)
    if repeated.any():
        first = " / ".join(frame.loc[repeated, key].iloc[0].astype("str"))
        raise DataError(
            f"{int(repeated.sum())} rows repeat a key, first {first}",
            field=name,
            allowed=f"one row per {', '.join(key)}",
        )


def _described(holder: object, names: list[str]) -> str:
    frames = {
        name: frame for name in names if isinstance(frame := getattr(holder, name), pd.DataFrame)
    }
    rows = "".join(
        f"<tr><th>{name}</th><td>{len(frame):,}</td><td>{', '.join(map(str, frame.columns))}</td></tr>"
        for name, frame in frames.items()
    )
    return f"<table><thead><tr><th>frame</th><th>rows</th><th>columns</th></tr></thead><tbody>{rows}</tbody></table>"


@dataclass(frozen=True)
class Golden:
    """What is right: questions, their targets and checks, as frames side by side.

    Rows about questions that `queries` doesn't have are left out, so a part of a golden set is
    `dataclasses.replace(golden, queries=golden.queries.query("lang == 'de'"))`.

    Attributes
    ----------
    queries, tags, targets, conditions, support_groups, checks
        One row per question / tag / target alternative / metadata condition / member of a support
        group / answer check.
    problems
        What loading with `strict=False` could not take.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    queries: pd.DataFrame
    targets: pd.DataFrame = field(default_factory=lambda: empty("targets"))
    tags: pd.DataFrame = field(default_factory=lambda: empty("tags"))
    checks: pd.DataFrame = field(default_factory=lambda: empty("checks"))
    support_groups: pd.DataFrame = field(default_factory=lambda: empty("support_groups"))
    conditions: pd.DataFrame = field(default_factory=lambda: empty("conditions"))
    problems: pd.DataFrame = field(default_factory=lambda: empty("problems"))

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, conform(getattr(self, item.name), item.name))
        _refuse_repeats(self.queries, ["query_id"], "queries")
        for item in fields(self):
            frame = getattr(self, item.name)
            if (
                "query_id" in frame
                and not (known := is_among(frame["query_id"], self.queries["query_id"])).all()
            ):
                object.__setattr__(self, item.name, frame[known])

    def __getstate__(self) -> dict[str, Any]:
        # What is derived from the frames stays behind: it would double what is sent to a worker.
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @cached_property
    def refusals(self) -> pd.Series:
        """Ids of the questions that should be refused; unlabelled ones are not among them."""
        return self.queries.loc[
            self.queries["answerable"].eq(False).fillna(False).astype(bool), "query_id"
        ]

    @cached_property
    def coded(self) -> "Golden":
        """The same set with `query_id` and `level` of targets as categories, queries in their order."""
        targets, dtype = self.targets, self.query_dtype
        query = pd.Series(
            categorical(lookup(targets["query_id"], dtype.categories), dtype), index=targets.index
        )
        return narrowed(self, targets=targets.assign(query_id=query, level=coded(targets["level"])))

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """What `make` derives from these frames alone, kept under this name, so that the next scoring finds it."""
        if name not in self._derived:
            self._derived[name] = make()
        found: T = self._derived[name]
        return found

    @cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def query_dtype(self) -> pd.CategoricalDtype:
        """The ids of the questions, in their order, as categories."""
        return pd.CategoricalDtype(pd.Index(self.queries["query_id"]))

    @cached_property
    def query_hashes(self) -> pd.Series:
        """A content hash per question (index query_id).

        Its text, labels, targets and checks, without resolved locators.
        """
        return _query_hashes(self)

    @cached_property
    def golden_hash(self) -> str:
        """One hash of the whole set.

        The order of questions doesn't matter, nor do spans that `resolve_spans` added.
        """
        lines = sorted(f"{query_id} {digest}" for query_id, digest in self.query_hashes.items())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        answerable = self.queries["answerable"]
        labels = (
            f"{int(answerable.sum())} answerable, {len(self.refusals)} should be refused,"
            f" {int(answerable.isna().sum())} unlabelled"
        )
        levels = ", ".join(
            f"{n} {level}"
            for level, n in self.targets.groupby("level")["target_id"].count().items()
        )
        return f"Golden: {len(self.queries)} queries ({labels}); targets: {levels or 'none'}"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>" + _described(
            self, [item.name for item in fields(self) if len(getattr(self, item.name))]
        )


@dataclass(frozen=True)
class Results:
    """What systems answered: the frames of one or many runs side by side.

    Attributes
    ----------
    runs, responses, hits, citations
        One row per run / question asked / hit / citation.
    chunks, judgments, hit_meta, reported, matches, hops, documents
        Optional: the index as it was, judges' verdicts, hit metadata, values another tool stored,
        kept matches, steps of multi-hop answers, versions of documents.
    problems
        What loading with `strict=False` could not take.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    runs: pd.DataFrame
    responses: pd.DataFrame
    hits: pd.DataFrame = field(default_factory=lambda: empty("hits"))
    citations: pd.DataFrame = field(default_factory=lambda: empty("citations"))
    chunks: pd.DataFrame | None = None
    judgments: pd.DataFrame | None = None
    hit_meta: pd.DataFrame | None = None
    reported: pd.DataFrame | None = None
    matches: pd.DataFrame | None = None
    hops: pd.DataFrame | None = None
    documents: pd.DataFrame | None = None
    problems: pd.DataFrame = field(default_factory=lambda: empty("problems"))

    def __post_init__(self) -> None:
        for item in fields(self):
            frame = getattr(self, item.name)
            if frame is not None:
                object.__setattr__(self, item.name, conform(frame, item.name))
        # One set of categories for every frame, in the order of the runs, so that codes can be
        # joined.
        names = self.runs["run_id"].astype("str")
        if names.duplicated().any():
            raise DataError(
                f"{', '.join(sorted(set(names[names.duplicated()])))} stands there twice",
                field="runs.run_id",
                allowed="run ids must be unique",
            )
        run_ids = pd.CategoricalDtype(names.tolist())
        for item in fields(self):
            frame = getattr(self, item.name)
            # Unordered category dtypes are equal whatever their order; codes are only joinable if
            # it is the same.
            if (
                frame is not None
                and "run_id" in frame.columns
                and frame["run_id"].cat.categories.tolist() != run_ids.categories.tolist()
            ):
                recoded = frame["run_id"].cat.set_categories(run_ids.categories)
                if recoded.isna().sum() > frame["run_id"].isna().sum():
                    raise DataError("a run_id that the runs frame doesn't know", field=item.name)
                object.__setattr__(self, item.name, frame.assign(run_id=recoded))
        _refuse_repeats(self.responses, ["run_id", "query_id"], "responses")

    def select(
        self, run_ids: list[str] | str, query_ids: Iterable[str] | str | None = None
    ) -> "Results":
        """Only these runs (or this one), in this order; the frames of all others are left out.

        With `query_ids`, also only what those questions (or this one) got; `runs` still says what
        the whole runs were.
        """
        names = run_names(self.runs, [run_ids] if isinstance(run_ids, str) else run_ids)
        twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
        if twice:
            raise DataError(
                f"{', '.join(twice)} is named twice", field="run", allowed="each run once"
            )
        asked = (
            None
            if query_ids is None
            else {query_ids}
            if isinstance(query_ids, str)
            else set(query_ids)
        )
        frames: dict[str, Any] = {}
        for item in fields(self):
            frame = getattr(self, item.name)
            if frame is not None and "run_id" in frame.columns:
                # Chunks, documents and problems may belong to no run in particular.
                keep = frame["run_id"].isin(names) | (
                    frame["run_id"].isna()
                    if item.name in ("chunks", "documents", "problems")
                    else False
                )
                if asked is not None and "query_id" in frame.columns:
                    keep &= frame["query_id"].isin(asked)
                frames[item.name] = frame[keep].assign(
                    run_id=frame.loc[keep, "run_id"].astype("str")
                )
        order = pd.Categorical(frames["runs"]["run_id"], categories=names, ordered=True)
        frames["runs"] = frames["runs"].iloc[order.argsort()]
        return replace(self, **frames)

    def __repr__(self) -> str:
        n_failed = int(self.responses["error"].notna().sum())
        return (
            f"Results: {len(self.runs)} runs, {len(self.responses):,} responses ({n_failed}"
            f" failed), {len(self.hits):,} hits, {len(self.citations):,} citations"
        )

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>" + _described(
            self,
            [
                item.name
                for item in fields(self)
                if getattr(self, item.name) is not None and len(getattr(self, item.name))
            ],
        )


Held = TypeVar("Held", Golden, Results)


def narrowed(held: Held, **frames: pd.DataFrame | None) -> Held:
    """The same golden set or results with some frames replaced by what needs no second check.

    Their own rows, or fewer of them.
    """
    cut = object.__new__(type(held))
    cut.__dict__.update(
        {item.name: frames.get(item.name, getattr(held, item.name)) for item in fields(held)}
    )
    return cut


def check_inputs(results: object, golden: object) -> None:
    """Refuse swapped arguments, and names of files where what they hold belongs."""
    check_type(results, Results, "results")
    check_type(golden, Golden, "golden")


def run_names(runs: pd.DataFrame, names: list[str]) -> list[str]:
    """Run ids for names as people give them: a run_id, or a system that only one run has.

    Raises
    ------
    DataError
        A name that no run has, or a system that several have; the candidates are listed.
    """
    ids = runs["run_id"].astype("str")
    systems = (
        runs["system"] if "system" in runs else pd.Series(pd.NA, index=runs.index, dtype="str")
    )
    found, known = list[str](), set(ids)
    for name in names:
        candidates = [name] if name in known else ids[systems == name].tolist()
        if len(candidates) > 1:
            raise DataError(
                f"{name!r} is the system of {len(candidates)} runs",
                field="run",
                allowed=f"name one of {', '.join(candidates)}",
            )
        if not candidates:
            raise DataError(
                f"no run or system {name!r}",
                field="run",
                allowed=f"there are {', '.join(dict.fromkeys([*ids, *systems.dropna()]))}",
            )
        found.append(str(candidates[0]))
    return found


def concat_results(parts: list[Results]) -> Results:
    """The frames of several results as one; run ids must differ."""
    if not parts:
        raise DataError("found none", field="parts", allowed="at least one Results")
    frames: dict[str, Any] = {}
    for item in fields(Results):
        found = [
            frame
            for part in parts
            if (frame := getattr(part, item.name)) is not None
            and (len(frame) or item.name in ("runs", "responses"))
        ]
        if found:
            # Categories of different runs differ: join them as text, Results gives them one common
            # dtype again.
            plain = [
                frame.assign(run_id=frame["run_id"].astype("str")) if "run_id" in frame else frame
                for frame in found
            ]
            frames[item.name] = plain[0] if len(plain) == 1 else pd.concat(plain, ignore_index=True)
    return Results(**frames)


# What is measured, as against where it was found: spans resolved from an index are not part of a
# target's identity.
_RESOLVED = ["doc_id", "path", "heading", "start", "end", "span_unit"]


def _query_hashes(golden: Golden) -> pd.Series:
    targets = golden.targets.copy()
    is_chunk = targets["level"] == "chunk"
    for name in [name for name in _RESOLVED if name in targets]:
        targets[name] = targets[name].mask(is_chunk)
    parts = {
        "queries": golden.queries.drop(columns="position"),
        "targets": targets,
        "tags": golden.tags,
        "checks": golden.checks,
    }
    parts |= {"support_groups": golden.support_groups, "conditions": golden.conditions}
    texts: dict[str, list[str]] = {query_id: [] for query_id in golden.queries["query_id"]}
    for name, frame in parts.items():
        # An absent column and a column of NA are the same content, so only what is there is
        # written.
        for record in frame.astype(object).where(frame.notna(), None).to_dict("records"):
            content = {key: value for key, value in sorted(record.items()) if value is not None}
            texts[record["query_id"]].append(
                json.dumps([name, content], ensure_ascii=False, default=str)
            )
    digests = {
        query_id: hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
        for query_id, lines in texts.items()
    }
    return pd.Series(digests, dtype="str", name="query_hash").rename_axis("query_id")

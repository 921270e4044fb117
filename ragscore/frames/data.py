"""`Golden` (what is right) and `Results` (what systems answered): frames side by side.

Making one checks and casts each of its frames. Both are frozen: a change is a new object.
"""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ragscore.frames.codes import coded, is_among, lookup
from ragscore.frames.errors import DataError as DataError
from ragscore.frames.errors import excerpt, name_list, nearest
from ragscore.frames.kinds import KINDS as KINDS
from ragscore.frames.kinds import categorical as categorical
from ragscore.frames.kinds import conform as conform
from ragscore.frames.kinds import empty as empty
from ragscore.frames.kinds import from_records as from_records
from ragscore.frames.kinds import records_of as records_of
from ragscore.frames.verbs import Verb

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


def _mapping_text(mapping: pd.DataFrame) -> str:
    """Return which column was taken for which role; empty text if there is none to tell."""
    pairs = zip(mapping["role"], mapping["column"], strict=True)
    told = ", ".join(f"{role} = {column}" for role, column in pairs)
    return f"; taken from the columns {told}" if told else ""


def _frames_as_html(holder: object) -> str:
    """Return one table row per frame that has rows: its name, its length and its columns."""
    names = [item.name for item in fields(holder)]  # type: ignore[arg-type]
    frames = {name: getattr(holder, name) for name in names}
    rows = "".join(
        f"<tr><th>{name}</th><td>{len(frame):,}</td>"
        f"<td>{', '.join(map(str, frame.columns))}</td></tr>"
        for name, frame in frames.items()
        if frame is not None and len(frame)
    )
    header = "<tr><th>frame</th><th>rows</th><th>columns</th></tr>"
    return f"<p>{holder!r}</p><table><thead>{header}</thead><tbody>{rows}</tbody></table>"


@dataclass(frozen=True)
class Golden:
    """A golden set: queries, their targets and checks, as frames side by side.

    Rows about queries that `queries` doesn't have are left out. So a part of a golden set is
    `dataclasses.replace(golden, queries=golden.queries.query("lang == 'de'"))`.

    Attributes
    ----------
    queries, tags, targets, conditions, support_groups, checks
        One row per query / tag / target alternative / metadata condition / member of a support
        group / answer check.
    problems
        One row per thing that loading with `strict=False` could not take.
    mapping
        One row per column of a table that was loaded: the role it was taken for.

    Notes
    -----
    Only ids are needed: `query` is the id where it is absent, `answerable` is True where a target
    has a grade above 0 and otherwise unlabelled, `grade` is 1, `position` the order of the rows.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    queries: pd.DataFrame
    targets: pd.DataFrame = field(default_factory=lambda: empty("targets"))
    tags: pd.DataFrame = field(default_factory=lambda: empty("tags"))
    checks: pd.DataFrame = field(default_factory=lambda: empty("checks"))
    support_groups: pd.DataFrame = field(default_factory=lambda: empty("support_groups"))
    conditions: pd.DataFrame = field(default_factory=lambda: empty("conditions"))
    problems: pd.DataFrame = field(default_factory=lambda: empty("problems"))
    mapping: pd.DataFrame = field(default_factory=lambda: empty("mapping"))

    def __post_init__(self) -> None:
        is_labelled = "answerable" in self.queries
        for item in fields(self):
            object.__setattr__(self, item.name, conform(getattr(self, item.name), item.name))
        if not is_labelled:
            relevant = self.targets.loc[self.targets["grade"] > 0, "query_id"]
            found = pd.Series(is_among(self.queries["query_id"], relevant), self.queries.index)
            answerable = found.astype("boolean").where(found)
            object.__setattr__(self, "queries", self.queries.assign(answerable=answerable))
        _refuse_repeats(self.queries, ["query_id"], "queries")
        for item in fields(self):
            frame = getattr(self, item.name)
            if "query_id" in frame:
                known = is_among(frame["query_id"], self.queries["query_id"])
                if not known.all():
                    object.__setattr__(self, item.name, frame[known])

    validate = Verb("ragscore.golden.validate:validate")
    near_duplicates = Verb("ragscore.golden.duplicates:near_duplicates")
    slices = Verb("ragscore.scoring.summary:slices")
    with_spans_from = Verb("ragscore.scoring.level:resolve_spans")
    diff = Verb("ragscore.frames.golden_versions:golden_changes")
    unchanged_since = Verb("ragscore.frames.golden_versions:unchanged_queries")
    save = Verb("ragscore.io.save:save_golden")

    def __getstate__(self) -> dict[str, Any]:
        # Pickles leave out what is derived from the frames: it would double their size.
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @cached_property
    def refusals(self) -> pd.Series:
        """Ids of the queries that should be refused, without unlabelled ones."""
        should_refuse = self.queries["answerable"].eq(False).fillna(False).astype(bool)
        return self.queries.loc[should_refuse, "query_id"]

    @cached_property
    def coded(self) -> "Golden":
        """The same set with `query_id` and `level` of targets as categories.

        Codes of `query_id` are row positions in `queries`.
        """
        targets, dtype = self.targets, self.query_dtype
        query = pd.Series(
            categorical(lookup(targets["query_id"], dtype.categories), dtype), index=targets.index
        )
        return narrowed(self, targets=targets.assign(query_id=query, level=coded(targets["level"])))

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, computed once per golden set and name.

        `make` must depend on these frames alone. Scoring another run then finds targets encoded
        already.
        """
        if name not in self._derived:
            self._derived[name] = make()
        derived: T = self._derived[name]
        return derived

    @cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def query_dtype(self) -> pd.CategoricalDtype:
        """The query ids as categories, in the order of `queries`."""
        return pd.CategoricalDtype(pd.Index(self.queries["query_id"]))

    @cached_property
    def query_hashes(self) -> pd.Series:
        """A content hash per query (index query_id): text, labels, targets, checks.

        Locators that `with_spans_from` added don't count.
        """
        return _query_hashes(self)

    @cached_property
    def golden_hash(self) -> str:
        """One hash of the whole set.

        Neither the order of queries matters, nor spans that `with_spans_from` added.
        """
        lines = sorted(f"{query_id} {digest}" for query_id, digest in self.query_hashes.items())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        answerable = self.queries["answerable"]
        labels = (
            f"{int(answerable.sum())} answerable, {len(self.refusals)} should be refused,"
            f" {int(answerable.isna().sum())} unlabelled"
        )
        n_targets = self.targets.groupby("level")["target_id"].count()
        levels = ", ".join(f"{n} {level}" for level, n in n_targets.items())
        return (
            f"Golden: {len(self.queries)} queries ({labels}); targets: {levels or 'none'}"
            f"{_mapping_text(self.mapping)}"
        )

    def _repr_html_(self) -> str:
        return _frames_as_html(self)


@dataclass(frozen=True)
class Results:
    """What systems answered: the frames of one or many runs side by side.

    Attributes
    ----------
    runs, responses, hits, citations
        One row per run / response to a query / hit / citation.
    chunks, judgments, hit_meta, reported, matches, hops, documents
        Optional frames: the index during the run, judges' verdicts, metadata of hits, values that
        another tool stored, stored matches, steps of multi-hop answers, versions of documents.
    problems
        One row per thing that loading with `strict=False` could not take.
    mapping
        One row per column of a table that was loaded: the role it was taken for.
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
    mapping: pd.DataFrame = field(default_factory=lambda: empty("mapping"))

    save = Verb("ragscore.io.save:save_results")
    config_diff = Verb("ragscore.analysis.comparison.invariants:config_diff")

    def __post_init__(self) -> None:
        for item in fields(self):
            frame = getattr(self, item.name)
            if frame is not None:
                object.__setattr__(self, item.name, conform(frame, item.name))
        # All frames share one list of categories, in the order of the runs, so that their codes can
        # be joined.
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
            # Compare the lists, not the dtypes: unordered category dtypes are equal in any order.
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
        """Return only these runs (or this one), in this order.

        With `query_ids`, return only the rows of those queries (or this one); `runs` still tells of
        the whole runs.
        """
        names = run_names(self.runs, run_ids)
        twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
        if twice:
            raise DataError(
                f"{', '.join(twice)} is named twice", field="run", allowed="each run once"
            )
        if query_ids is not None:
            query_ids = {query_ids} if isinstance(query_ids, str) else set(query_ids)
        frames: dict[str, Any] = {}
        for item in fields(self):
            frame = getattr(self, item.name)
            if frame is not None and "run_id" in frame.columns:
                keep = frame["run_id"].isin(names)
                if item.name in ("chunks", "documents", "problems"):
                    keep |= frame["run_id"].isna()  # those that belong to no run in particular
                if query_ids is not None and "query_id" in frame.columns:
                    keep &= frame["query_id"].isin(query_ids)
                frame = frame[keep]
                frames[item.name] = frame.assign(run_id=frame["run_id"].astype("str"))
        order = pd.Categorical(frames["runs"]["run_id"], categories=names, ordered=True)
        frames["runs"] = frames["runs"].iloc[order.argsort()]
        return replace(self, **frames)

    @classmethod
    def concat(cls, parts: "Sequence[Results]") -> "Results":
        """Return the runs of several results side by side; run ids must differ."""
        if not parts:
            raise DataError("found none", field="parts", allowed="at least one Results")
        frames: dict[str, Any] = {}
        for item in fields(cls):
            found = [
                frame
                for part in parts
                if (frame := getattr(part, item.name)) is not None
                and (len(frame) or item.name in ("runs", "responses"))
            ]
            if not found:
                continue
            # Runs differ, and so do their categories: join texts, Results makes one dtype of them.
            plain = [
                frame.assign(run_id=frame["run_id"].astype("str")) if "run_id" in frame else frame
                for frame in found
            ]
            frames[item.name] = plain[0] if len(plain) == 1 else pd.concat(plain, ignore_index=True)
        if "mapping" in frames:
            frames["mapping"] = frames["mapping"].drop_duplicates(ignore_index=True)
        return cls(**frames)

    latency = Verb("ragscore.analysis.operations:latency")
    errors = Verb("ragscore.analysis.operations:errors")
    indexing = Verb("ragscore.analysis.operations:indexing")
    hops_summary = Verb("ragscore.analysis.operations:hops_summary")
    verification = Verb("ragscore.analysis.operations:verification")
    retriever_scores = Verb("ragscore.analysis.rankings:retriever_scores")
    rank_overlap = Verb("ragscore.analysis.rankings:rank_overlap")
    reported_scores = Verb("ragscore.analysis.reported:reported_scores")
    judgment_counts = Verb("ragscore.scoring.judgments:judgment_counts")
    with_judged_refusals = Verb("ragscore.scoring.judgments:with_judged_refusals")

    def __repr__(self) -> str:
        n_failed = int(self.responses["error"].notna().sum())
        return (
            f"Results: {len(self.runs)} runs, {len(self.responses):,} responses ({n_failed}"
            f" failed), {len(self.hits):,} hits, {len(self.citations):,} citations"
            f"{_mapping_text(self.mapping)}"
        )

    def _repr_html_(self) -> str:
        return _frames_as_html(self)


Frames = TypeVar("Frames", Golden, Results)


def narrowed(original: Frames, **frames: pd.DataFrame | None) -> Frames:
    """Return the original with some frames replaced by rows of their own, without a second check.

    `dataclasses.replace` would check and cast every frame again.
    """
    copy = object.__new__(type(original))
    names = [item.name for item in fields(original)]
    copy.__dict__.update({name: frames.get(name, getattr(original, name)) for name in names})
    return copy


def check_type(value: object, kind: type | tuple[type, ...], field: str, allowed: str = "") -> None:
    """Refuse an argument of another type, such as a file's name where a frame belongs."""
    if not isinstance(value, kind):
        made_by = {
            "Results": "Results, as rs.load_results gives them",
            "Golden": "a Golden, as rs.load_golden gives it",
        }
        name = kind.__name__ if isinstance(kind, type) else ""
        raise DataError(
            f"found {type(value).__name__}",
            field=field,
            allowed=allowed or made_by.get(name, f"a {name}"),
        )


def check_inputs(results: object, golden: object) -> None:
    """Refuse swapped arguments, and file names where a Results or a Golden belongs."""
    check_type(results, Results, "results")
    check_type(golden, Golden, "golden")


def run_names(runs: pd.DataFrame, names: Iterable[str] | str) -> list[str]:
    """Return run ids for names (or one name): a run_id, or a system that only one run has.

    Raises
    ------
    DataError
        A name that no run has, or a system that several have; the candidates are listed.
    """
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, (list, tuple, pd.Index, pd.Series, np.ndarray)):
        raise DataError(
            f"found {excerpt(given)}", field="run", allowed="the names of runs, as text"
        )
    ids = runs["run_id"].astype("str")
    systems = (
        runs["system"] if "system" in runs else pd.Series(pd.NA, index=runs.index, dtype="str")
    )
    run_ids, known = list[str](), set(ids)
    for name in given:
        candidates = (
            ([name] if name in known else ids[systems == name].tolist())
            if isinstance(name, str)
            else []
        )
        if len(candidates) > 1:
            raise DataError(
                f"{name!r} is the system of {len(candidates)} runs",
                field="run",
                allowed=f"name one of {name_list(candidates)}",
            )
        if not candidates:
            raise DataError(
                f"no run or system {excerpt(name)}",
                field="run",
                allowed=nearest(name, [*ids, *systems.dropna()], "there are"),
            )
        run_ids.append(str(candidates[0]))
    return run_ids


# Where an index holds a target, which `with_spans_from` adds; it is no part of a target's identity.
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

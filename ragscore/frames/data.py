"""`Golden` (what is right) and `Results` (what systems answered): frames side by side.

Making one checks and casts each of its frames. Both hold these frames and nothing derived from
them: users may edit or replace a frame, and the next evaluation checks and uses what is there.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ragscore.frames.codes import all_differ, codes_of, is_among, lookup, pair_numbers
from ragscore.frames.errors import (
    DataError,
    check_known,
    check_type,
    excerpt,
    name_list,
    names_of,
    plural,
)
from ragscore.frames.escaping import visible
from ragscore.frames.kinds import (
    KINDS,
    categorical,
    conform,
    empty,
    from_records,
    records_of,
    refuse_rows,
)
from ragscore.frames.verbs import GoldenVerbs, ResultsVerbs

__all__ = [
    "KINDS", "DataError", "Golden", "Results", "categorical", "check_inputs", "check_type",
    "conform", "empty", "from_records", "golden_part", "narrowed", "records_of",
    "run_names", "runs_without_hits",
]  # fmt: skip
T = TypeVar("T")

LEVELS = pd.Index(KINDS["targets"].choices["level"])
ID_OF_LEVEL = {"doc": "doc_id", "chunk": "chunk_id", "source_key": "source_key"}


def _refuse_repeats(frame: pd.DataFrame, key: list[str], name: str, numbers: Any) -> None:
    """Refuse rows of one key; `numbers` has equal ones for equal keys, and as a rule only then."""
    if all_differ(numbers):  # comparing numbers costs little
        return
    repeated = frame.duplicated(key)
    if repeated.any():
        first = frame.loc[repeated, key].head(5).to_numpy().tolist()
        raise DataError(
            f"{int(repeated.sum())} rows repeat a key: "
            + name_list(" / ".join(map(str, row)) for row in first),
            field=name,
            allowed=f"one row per {', '.join(key)}",
        )


def _mapping_text(mapping: pd.DataFrame) -> str:
    """Return which column was taken for which role; empty text if none was."""
    taken = ", ".join(mapping["role"] + " = " + mapping["column"])
    return taken and f"; taken from the columns {taken}"


@dataclass(eq=False)
class Golden(GoldenVerbs):
    """A golden set: queries, their targets and checks, as frames side by side.

    It is checked when it is made: one row per query and per target, with one grade; all rows are
    about known queries. `golden.select("lang == 'de'")` is a part of it.

    Attributes
    ----------
    queries, tags, targets, conditions, support_groups, checks
        One row per query / tag / target alternative / metadata condition / member of a support
        group / answer check.

    Notes
    -----
    Only ids are needed: `query` is the id where it is absent, `answerable` is True where a target
    has a grade above 0 and otherwise unlabelled, `grade` is 1, `position` the order of the rows. A
    target of level doc, chunk or source_key without a doc_id, chunk_id or source_key is the one
    that its `target_id` names.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    queries: pd.DataFrame
    targets: pd.DataFrame = field(default_factory=lambda: empty("targets"))
    tags: pd.DataFrame = field(default_factory=lambda: empty("tags"))
    checks: pd.DataFrame = field(default_factory=lambda: empty("checks"))
    support_groups: pd.DataFrame = field(default_factory=lambda: empty("support_groups"))
    conditions: pd.DataFrame = field(default_factory=lambda: empty("conditions"))
    _problems: pd.DataFrame = field(default_factory=lambda: empty("problems"))
    _mapping: pd.DataFrame = field(default_factory=lambda: empty("mapping"))

    def __post_init__(self) -> None:
        check_type(self.queries, pd.DataFrame, "queries")
        is_labelled = "answerable" in self.queries
        for item in fields(self):
            setattr(self, item.name, conform(getattr(self, item.name), item.name.strip("_")))
        if not is_labelled:
            relevant = self.targets.loc[self.targets["grade"] > 0, "query_id"]
            found = is_among(self.queries["query_id"], relevant)
            self.queries["answerable"] = pd.arrays.BooleanArray(found, ~found)  # else NA
        numbers = lookup(self.queries["query_id"], pd.Index(self.queries["query_id"].unique()))
        _refuse_repeats(self.queries, ["query_id"], "queries", numbers)
        for item in fields(self):
            frame = getattr(self, item.name)
            if len(frame) and "query_id" in frame and item.name != "queries":
                refuse_rows(
                    frame["query_id"], ~is_among(frame["query_id"], self.queries["query_id"]),
                    item.name,
                    "ids of the queries frame; `golden.select` takes a part of a golden set",
                )  # fmt: skip
        targets = self.targets
        for level, column in ID_OF_LEVEL.items():  # without an id: that which target_id names
            is_open = np.asarray(targets["level"].array == level)
            if column in targets:
                is_open = is_open & targets[column].array.isna()
            if is_open.any():
                ids = targets["target_id"].where(is_open)
                targets = targets.assign(**{column: targets.get(column, ids).fillna(ids)})
        self.targets, key = targets, ["query_id", "level", "target_id"]
        # as a rule a query has a target once, whatever its level
        query = lookup(targets["query_id"], pd.Index(self.queries["query_id"]))
        pairs = pair_numbers(query, targets["target_id"])
        _refuse_repeats(targets, [*key, "alternative"], "targets", pairs)
        if targets["alternative"].any():
            differs = targets.groupby(key)["grade"].transform("nunique").to_numpy() > 1
            allowed = "one grade for all alternatives of a target"
            refuse_rows(targets["target_id"], differs, "targets", allowed)

    def select(self, queries: Any) -> "Golden":
        """Return the part of the golden set about some queries.

        Parameters
        ----------
        queries
            Query ids, a boolean mask over `queries`, or a pandas query string on it.

        Raises
        ------
        DataError
            An unknown query; a mask of another length; a query string that pandas refuses; no query
            left.
        """
        golden = replace(self)
        frame, known = golden.queries, golden.queries["query_id"]
        is_text = isinstance(queries, str) and not known.eq(queries).any()
        is_mask = isinstance(queries, (pd.Series, np.ndarray)) and queries.dtype.kind == "b"
        if not (is_text or is_mask):
            ids = names_of(queries, "queries", "query ids, a mask, or a pandas query")
            check_known(ids, known, "queries", "query", "ids of golden.queries:")
            queries = known.isin(ids)
        try:
            kept = frame.query(queries) if is_text else frame[np.asarray(queries)]
        except Exception as error:  # pandas raises errors of many kinds
            raise DataError(
                f"found {excerpt(queries)}: {error}",
                field="queries",
                allowed=f"query ids, a mask with a value for each of the {len(frame)} queries, or"
                f" a pandas query on {', '.join(frame.columns)}",
            ) from error
        if not len(kept):
            raise DataError("no query left", field="queries", allowed="at least one query")
        return golden_part(golden, kept)

    @property
    def _refusals(self) -> pd.Series:
        """Ids of the queries that should be refused, without unlabelled ones."""
        answerable = self.queries["answerable"]
        return self._once(
            "refusals", lambda: self.queries["query_id"][~answerable.fillna(True).to_numpy(bool)]
        )

    @property
    def _coded(self) -> "Golden":
        """The same set for a scoring, which keeps what is derived from it.

        Its `query_id` and `level` of targets are categories; codes of `query_id` are row positions
        in `queries`.
        """
        if "_derived" in self.__dict__:
            return self
        values = {"query_id": pd.Index(self.queries["query_id"]), "level": LEVELS}
        columns = {
            name: categorical(lookup(self.targets[name], known), pd.CategoricalDtype(known))
            for name, known in values.items()
        }
        coded_set = narrowed(self, targets=self.targets.assign(**columns))
        coded_set.__dict__["_derived"] = {}
        return coded_set

    def _once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, which depends on these frames alone.

        A set made by `_coded` keeps it under its name; a set that users may edit keeps nothing.
        """
        derived: dict[Hashable, T] = self.__dict__.get("_derived", {})
        if name not in derived:
            derived[name] = make()
        return derived[name]

    @property
    def golden_hash(self) -> str:
        """One hash of the whole set.

        Neither the order of queries matters, nor conversations, turns, and spans that
        `resolve_spans` added.
        """
        from ragscore.frames.golden_versions import golden_hash

        return golden_hash(self)

    def __repr__(self) -> str:
        answerable = self.queries["answerable"]
        n_of = self.targets["level"].value_counts().sort_index()
        levels = ", ".join(f"{n} {level}" for level, n in n_of.items())
        return visible(
            f"Golden: {plural(len(self.queries), 'query')} ({int(answerable.sum())} answerable,"
            f" {len(self._refusals)} should be refused, {int(answerable.isna().sum())} unlabelled);"
            f" targets: {levels or 'none'}{_mapping_text(self._mapping)}"
        )


@dataclass(eq=False)
class Results(ResultsVerbs):
    """What systems answered: the frames of one or many runs side by side.

    Attributes
    ----------
    runs, responses, hits, citations
        One row per run / response to a query / hit / citation.
    chunks, judgments, hit_meta, reported, calls, documents
        Optional frames: the index during the run, judges' verdicts, metadata of hits, values that
        another tool stored, searches and steps on the way to an answer, versions of documents.
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
    calls: pd.DataFrame | None = None
    documents: pd.DataFrame | None = None
    problems: pd.DataFrame = field(default_factory=lambda: empty("problems"))
    mapping: pd.DataFrame = field(default_factory=lambda: empty("mapping"))

    def __post_init__(self) -> None:
        for item in fields(self):
            frame = getattr(self, item.name)
            if frame is not None or item.name in ("runs", "responses"):
                setattr(self, item.name, conform(frame, item.name))
        # All frames share one list of categories, in the order of the runs, so that their codes can
        # be joined.
        ids = self.runs["run_id"].array
        _refuse_repeats(self.runs, ["run_id"], "runs", ids.codes)
        names = ids.categories[ids.codes].tolist()
        for name, frame in self._of_runs().items():
            column = frame["run_id"]
            if column.array.categories.tolist() != names:
                used = column.cat.remove_unused_categories().cat.categories
                check_known(used, names, name, "run_id", "the runs frame has")
                setattr(self, name, frame.assign(run_id=column.cat.set_categories(names)))
        pairs = pair_numbers(codes_of(self.responses["run_id"]), self.responses["query_id"])
        _refuse_repeats(self.responses, ["run_id", "query_id"], "responses", pairs)

    def _of_runs(self) -> dict[str, pd.DataFrame]:
        """Return the frames that say of which run a row is."""
        frames = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: one for name, one in frames.items() if one is not None and "run_id" in one}

    def select(
        self, run_ids: list[str] | str, query_ids: Iterable[str] | str | None = None
    ) -> "Results":
        """Return only these runs (or this one), in this order.

        With `query_ids`, return only the rows of those queries (or this one); `runs` still
        describes the whole runs.
        """
        names = list(dict.fromkeys(run_names(self.runs, run_ids)))
        results, frames = replace(self), dict[str, Any]()
        if query_ids is not None:
            query_ids = names_of(query_ids, "query_ids", "query ids")
        for name, frame in results._of_runs().items():
            keep = frame["run_id"].isin(names)
            if name in ("chunks", "documents", "problems"):  # rows of no run, too
                keep |= frame["run_id"].isna()
            if query_ids is not None and "query_id" in frame:
                keep &= frame["query_id"].isin(query_ids)
            rows = frame[keep]
            frames[name] = rows.assign(run_id=rows["run_id"].cat.set_categories(names))
        frames["runs"] = frames["runs"].sort_values("run_id")
        return narrowed(results, **frames)  # what was checked stays right

    @classmethod
    def concat(cls, parts: "Sequence[Results]") -> "Results":
        """Return the runs of several results side by side; run ids must differ."""
        check_type(parts or None, (list, tuple), "parts", "a list of at least one Results")
        for part in parts:
            check_type(part, Results, "parts")
        frames: dict[str, Any] = {}
        for item in fields(cls):
            found = [
                frame for part in parts if (frame := getattr(part, item.name)) is not None
                and (len(frame) or item.name in ("runs", "responses"))
            ]  # fmt: skip
            if found:
                frames[item.name] = pd.concat(found, ignore_index=True)
        if "mapping" in frames:
            frames["mapping"] = frames["mapping"].drop_duplicates(ignore_index=True)
        return cls(**frames)

    def __repr__(self) -> str:
        calls, reported = (
            pd.DataFrame() if one is None else one for one in (self.calls, self.reported)
        )
        n_calls = int(calls["n_hits"].count()) if "n_hits" in calls else 0
        counts = {"call": n_calls, "reported value": len(reported)}
        more = "".join(f", {plural(n, noun)}" for noun, n in counts.items() if n)
        return visible(
            f"Results: {plural(len(self.runs), 'run')}, {plural(len(self.responses), 'response')}"
            f" ({int(self.responses['error'].count())} failed), {plural(len(self.hits), 'hit')},"
            f" {plural(len(self.citations), 'citation')}{more}"
            f"{_mapping_text(self.mapping)}"
        )


Frames = TypeVar("Frames", Golden, Results)


def narrowed(original: Frames, **frames: Any) -> Frames:
    """Return the original with some frames replaced by rows of their own, without a second check.

    `dataclasses.replace` would check and cast every frame again.
    """
    part = copy(original)
    part.__dict__.update(frames)
    if "_derived" in part.__dict__:
        part.__dict__["_derived"] = {}
    return part


def golden_part(golden: Golden, queries: pd.DataFrame) -> Golden:
    """Return a golden set with these of its queries, or with none, and all that is about them."""
    own = {
        item.name: frame[is_among(frame["query_id"], queries["query_id"])]
        for item in fields(golden)
        if "query_id" in (frame := getattr(golden, item.name))
    }
    return narrowed(golden, **own | {"queries": queries})


def check_inputs(results: object, golden: object) -> None:
    """Refuse swapped arguments, and file names where a Results or a Golden belongs."""
    check_type(results, Results, "results")
    check_type(golden, Golden, "golden")


def runs_without_hits(results: Results) -> list[str]:
    """Return the runs that have responses and no hit at all."""
    asked, with_hits = (
        {*map(str, frame["run_id"].unique())} for frame in (results.responses, results.hits)
    )
    return [one for one in results.runs["run_id"].astype("str") if one in asked - with_hits]


def run_names(runs: pd.DataFrame, names: Iterable[str] | str) -> list[str]:
    """Return run ids for names (or one name): a run_id, or a system that only one run has.

    Raises
    ------
    DataError
        A name that no run has, or a system that several have; the candidates are listed.
    """
    ids, systems = runs["run_id"].astype("str"), runs.reindex(columns=["system"])["system"]
    known = ids.groupby(systems.to_numpy()).agg(list).to_dict() | {one: [one] for one in ids}
    asked = names_of(names, "run", "the names of runs, as text")
    check_known(asked, known, "run", "run or system", "there are")
    if several := [name for name in asked if len(known[name]) > 1]:
        raise DataError(
            f"{several[0]!r} is the system of {len(known[several[0]])} runs",
            field="run",
            allowed=f"name one of {name_list(known[several[0]])}",
        )
    return [known[name][0] for name in asked]

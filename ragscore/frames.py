"""The frame kinds: their columns, dtypes and keys, written once.

Everything that loads or stores frames calls `conform`; functions further down the pipe trust what they get.
`Golden` (what is right) and `Results` (what systems answered) only hold frames side by side.
"""

import hashlib
import json
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import pandas as pd

from ragscore.cast import EXACT, cast, refuse_rows
from ragscore.codes import is_among
from ragscore.errors import DataError as DataError
from ragscore.errors import check_type as check_type


@dataclass(frozen=True)
class Kind:
    """One frame kind: key columns first, then required and optional ones, each with its dtype.

    `open_prefixes` names families of columns that users bring along (`x_reviewer`, `latency_rerank_ms`);
    `lowest` is the smallest value that a column may hold.
    """

    key: tuple[str, ...]
    required: dict[str, str]
    optional: dict[str, str] = field(default_factory=dict)
    open_prefixes: tuple[str, ...] = ()
    lowest: dict[str, int] = field(default_factory=dict)

    @property
    def dtypes(self) -> dict[str, str]:
        """Every declared column and its dtype, required ones first."""
        return {**self.required, **self.optional}


_UTC = "datetime64[us, UTC]"
_LOCATORS = {"chunk_id": "str", "doc_id": "str", "path": "str", "heading": "str", "start": "Int64", "end": "Int64", "span_unit": "str"}
_CELL = {"run_id": "category", "query_id": "str"}

KINDS: dict[str, Kind] = {
    "queries": Kind(
        ("query_id",),
        {"query_id": "str", "query": "str", "answerable": "boolean", "position": "int64"},
        {"lang": "str", "difficulty": "str", "category": "str", "group": "str", "variant": "str", "reference_answer": "str"},
        ("x_",),
    ),
    "tags": Kind(("query_id", "kind", "value"), {"query_id": "str", "kind": "str", "value": "str"}),
    "targets": Kind(
        ("query_id", "level", "target_id", "alternative"),
        {"query_id": "str", "level": "str", "target_id": "str", "alternative": "int32", "grade": "int32"},
        {**_LOCATORS, "snippet": "str", "date": "str", "source_key": "str", "chunker_version": "str"},
        lowest={"grade": 0, "alternative": 0},
    ),
    "conditions": Kind(("query_id", "target_id", "key"), {"query_id": "str", "target_id": "str", "key": "str", "value": "str"}),
    "support_groups": Kind(("query_id", "group", "target_id"), {"query_id": "str", "group": "int32", "target_id": "str"}),
    "checks": Kind(("query_id", "kind", "text"), {"query_id": "str", "kind": "str", "text": "str"}),
    "runs": Kind(
        ("run_id",),
        {"run_id": "category"},
        {
            "system": "str", "repeat": "Int64", "suite": "str", "created_at": _UTC, "commit": "str", "config": "str", "config_hash": "str", "golden_hash": "str",
            "chunker_version": "str", "k": "Int64", "n_queries": "Int64", "n_failed": "Int64", "note": "str",
        },
        ("x_",),
    ),
    "responses": Kind(
        ("run_id", "query_id"),
        {**_CELL, "query": "str", "error": "str"},
        {
            "mode": "str", "answer": "str", "grounded": "boolean", "refused": "boolean", "refusal_reason": "str", "elapsed_ms": "float64", "prompt_tokens": "Int64",
            "completion_tokens": "Int64", "cost_usd": "float64", "scope": "str",
        },
        ("x_", "latency_"),
    ),
    "hits": Kind(
        ("run_id", "query_id", "rank"),
        {**_CELL, "rank": "int32"},
        {
            **_LOCATORS, "text": "str", "text_cut": "boolean", "score": "float64", "score_kind": "str", "score_lexical": "float64", "score_vector": "float64",
            "source_key": "str", "chunker_version": "str", "stale": "boolean",
        },
        ("x_",),
    ),
    "hit_meta": Kind(("run_id", "query_id", "rank", "key"), {**_CELL, "rank": "int32", "key": "str", "value": "str"}),
    "citations": Kind(("run_id", "query_id", "position"), {**_CELL, "position": "int32"}, {"marker": "str", **_LOCATORS}, ("x_",)),
    "judgments": Kind(
        ("run_id", "query_id", "criterion", "item"),
        {**_CELL, "criterion": "str", "item": "str", "value": "float64"},
        {
            "verdict": "str", "reason": "str", "item_text": "str", "judge": "str", "prompt_hash": "str", "temperature": "float64", "repeat": "Int64", "tokens": "Int64",
            "cost_usd": "float64", "input_hash": "str", "state": "str",
        },
        ("x_",),
    ),
    "chunks": Kind(("chunk_id",), {"chunk_id": "str"}, {**_LOCATORS, "text": "str", "doc_type": "str", "run_id": "category"}, ("x_",)),
    # The steps of a multi-hop answer; sub_queries is a JSON list of texts.
    "hops": Kind(
        ("run_id", "query_id", "hop"),
        {**_CELL, "hop": "int32"},
        {"kind": "str", "sub_queries": "str", "chunks_added": "Int64", "forced_stop": "boolean", "llm_call_ms": "float64"},
        ("x_",),
        lowest={"hop": 0},
    ),
    # Which document replaces which: by name, or as a later one of the same version_key.
    "documents": Kind(
        ("doc_id",),
        {"doc_id": "str"},
        {"version_key": "str", "effective_timestamp": "Int64", "superseded_by": "str", "run_id": "category"},
        ("x_",),
    ),
    # A query for which the rule found nothing has one row with rank 0 and an empty target_id.
    "matches": Kind(
        ("run_id", "query_id", "level", "rank", "target_id"),
        {**_CELL, "level": "str", "rank": "int32", "target_id": "str", "grade": "int32", "rule": "str", "query_hash": "str"},
        {"coverage": "float64", "unknown": "boolean"},
        lowest={"rank": 0, "grade": 0},
    ),
    # A statistic (mean, std, ...) makes it a value of the whole run, with an empty query_id.
    "reported": Kind(("run_id", "query_id", "metric"), {**_CELL, "metric": "str", "value": "float64"}, {"statistic": "str"}),
    "problems": Kind((), {"file": "str", "line": "Int64", "field": "str", "found": "str", "allowed": "str"}, {"run_id": "category"}),
}  # fmt: skip


def conform(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The same rows with the columns of `kind` in declared order and dtype, keys first.

    Optional columns may be absent and are never added; a column that the kind doesn't know is refused.

    Raises
    ------
    DataError
        A required column is missing, a column is unknown or there twice, or a value doesn't fit: NA in a key, a boolean, date or
        decimal number as an id, 1.5 or a number out of range in a column of whole numbers. The first such row is named.
    """
    if kind not in KINDS:
        raise DataError(f"found {kind!r}", field="kind", allowed=f"one of {', '.join(KINDS)}")
    check_type(frame, pd.DataFrame, kind)
    spec = KINDS[kind]
    twice = frame.columns[frame.columns.duplicated()].unique().tolist()
    if twice:
        raise DataError(f"columns {twice} are there twice", field=kind, allowed="each column once")
    missing = [name for name in spec.required if name not in frame.columns]
    if missing:
        raise DataError(f"columns {missing} are missing", field=kind, allowed=f"found {list(frame.columns)}")
    extra = [name for name in frame.columns if name not in spec.dtypes]
    unknown = [name for name in extra if not str(name).startswith(spec.open_prefixes or ("\0",))]
    if unknown:
        allowed = [*spec.dtypes, *(f"{prefix}*" for prefix in spec.open_prefixes)]
        raise DataError(f"columns {unknown} are unknown", field=kind, allowed=f"allowed are {allowed}")
    columns = {name: cast(frame[name], dtype, kind) for name, dtype in spec.dtypes.items() if name in frame.columns}
    for name in spec.key:
        refuse_rows(columns[name], columns[name].isna().to_numpy(), kind, "a value in every row: it is part of the key")
    for name in spec.lowest:
        refuse_rows(columns[name], columns[name].to_numpy() < spec.lowest[name], kind, f"whole numbers from {spec.lowest[name]}")
    columns |= {name: frame[name] for name in extra}
    return pd.DataFrame(columns, index=frame.index)


def empty(kind: str) -> pd.DataFrame:
    """A frame of this kind without rows: its required columns only."""
    return pd.DataFrame({name: pd.Series([], dtype=_pandas_dtype(dtype)) for name, dtype in KINDS[kind].required.items()})


def from_records(records: list[dict[str, Any]], kind: str) -> pd.DataFrame:
    """Rows given as dicts, as a frame of this kind; optional columns that are None everywhere are left out."""
    if not records:
        return empty(kind)
    names = dict.fromkeys(name for record in records for name in record)
    spec = KINDS[kind]
    columns: dict[str, pd.Series] = {}
    for name in names:
        values = [record.get(name) for record in records]
        if name in spec.required or any(value is not None for value in values):
            dtype = _pandas_dtype(spec.dtypes[name]) if name in spec.dtypes else _common_dtype(values)
            columns[name] = pd.Series(values, dtype=dtype)
    return conform(pd.DataFrame(columns), kind)


def _common_dtype(values: list[Any]) -> str:
    """The narrowest dtype that keeps every value of a user's own column as it is."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in present):
        return "Int64"
    is_number = kinds <= {int, float} and all(isinstance(value, float) or abs(value) <= EXACT for value in present)
    return "float64" if is_number else "str"


def _pandas_dtype(dtype: str) -> str:
    return "str" if dtype == "category" else dtype


def _refuse_repeats(frame: pd.DataFrame, key: list[str], name: str) -> None:
    repeated = frame.duplicated(key)
    if repeated.any():
        first = " / ".join(frame.loc[repeated, key].iloc[0].astype("str"))
        raise DataError(f"{int(repeated.sum())} rows repeat a key, first {first}", field=name, allowed=f"one row per {', '.join(key)}")


def _described(holder: object, names: list[str]) -> str:
    frames = {name: frame for name in names if isinstance(frame := getattr(holder, name), pd.DataFrame)}
    rows = "".join(f"<tr><th>{name}</th><td>{len(frame):,}</td><td>{', '.join(map(str, frame.columns))}</td></tr>" for name, frame in frames.items())
    return f"<table><thead><tr><th>frame</th><th>rows</th><th>columns</th></tr></thead><tbody>{rows}</tbody></table>"


@dataclass(frozen=True)
class Golden:
    """What is right: questions, their targets and checks, as frames side by side.

    Rows about questions that `queries` doesn't have are left out, so a part of a golden set is
    `dataclasses.replace(golden, queries=golden.queries.query("lang == 'de'"))`.

    Attributes
    ----------
    queries, tags, targets, conditions, support_groups, checks
        One row per question / tag / target alternative / metadata condition / member of a support group / answer check.
    problems
        What loading with `strict=False` could not take.
    """

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
            if "query_id" in frame and not (known := is_among(frame["query_id"], self.queries["query_id"])).all():
                object.__setattr__(self, item.name, frame[known])

    @cached_property
    def refusals(self) -> pd.Series:
        """Ids of the questions that should be refused; unlabelled ones are not among them."""
        return self.queries.loc[self.queries["answerable"].eq(False).fillna(False).astype(bool), "query_id"]

    @cached_property
    def query_hashes(self) -> pd.Series:
        """A content hash per question (index query_id): its text, labels, targets and checks, without resolved locators."""
        return _query_hashes(self)

    @cached_property
    def golden_hash(self) -> str:
        """One hash of the whole set; the order of questions doesn't matter, nor do spans that `resolve_spans` added."""
        lines = sorted(f"{query_id} {digest}" for query_id, digest in self.query_hashes.items())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        answerable = self.queries["answerable"]
        labels = f"{int(answerable.sum())} answerable, {len(self.refusals)} should be refused, {int(answerable.isna().sum())} unlabelled"
        levels = ", ".join(f"{n} {level}" for level, n in self.targets.groupby("level")["target_id"].count().items())
        return f"Golden: {len(self.queries)} queries ({labels}); targets: {levels or 'none'}"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>" + _described(self, [item.name for item in fields(self) if len(getattr(self, item.name))])


@dataclass(frozen=True)
class Results:
    """What systems answered: the frames of one or many runs side by side.

    Attributes
    ----------
    runs, responses, hits, citations
        One row per run / question asked / hit / citation.
    chunks, judgments, hit_meta, reported, matches, hops, documents
        Optional: the index as it was, judges' verdicts, hit metadata, values another tool stored, kept matches, steps of
        multi-hop answers, versions of documents.
    problems
        What loading with `strict=False` could not take.
    """

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
        # One set of categories for every frame, in the order of the runs, so that codes can be joined.
        names = self.runs["run_id"].astype("str")
        if names.duplicated().any():
            raise DataError(f"{', '.join(sorted(set(names[names.duplicated()])))} stands there twice", field="runs.run_id", allowed="run ids must be unique")
        run_ids = pd.CategoricalDtype(names.tolist())
        for item in fields(self):
            frame = getattr(self, item.name)
            # Unordered category dtypes are equal whatever their order; codes are only joinable if it is the same.
            if frame is not None and "run_id" in frame.columns and frame["run_id"].cat.categories.tolist() != run_ids.categories.tolist():
                recoded = frame["run_id"].cat.set_categories(run_ids.categories)
                if recoded.isna().sum() > frame["run_id"].isna().sum():
                    raise DataError("a run_id that the runs frame doesn't know", field=item.name)
                object.__setattr__(self, item.name, frame.assign(run_id=recoded))
        _refuse_repeats(self.responses, ["run_id", "query_id"], "responses")

    def select(self, run_ids: list[str] | str) -> "Results":
        """Only these runs (or this one), in this order; the frames of all others are left out."""
        names = run_names(self.runs, [run_ids] if isinstance(run_ids, str) else run_ids)
        twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
        if twice:
            raise DataError(f"{', '.join(twice)} is named twice", field="run", allowed="each run once")
        frames: dict[str, Any] = {}
        for item in fields(self):
            frame = getattr(self, item.name)
            if frame is not None and "run_id" in frame.columns:
                # Chunks, documents and problems may belong to no run in particular.
                keep = frame["run_id"].isin(names) | (frame["run_id"].isna() if item.name in ("chunks", "documents", "problems") else False)
                frames[item.name] = frame[keep].assign(run_id=frame.loc[keep, "run_id"].astype("str"))
        order = pd.Categorical(frames["runs"]["run_id"], categories=names, ordered=True)
        frames["runs"] = frames["runs"].iloc[order.argsort()]
        return replace(self, **frames)

    def __repr__(self) -> str:
        n_failed = int(self.responses["error"].notna().sum())
        return (
            f"Results: {len(self.runs)} runs, {len(self.responses):,} responses ({n_failed} failed), {len(self.hits):,} hits, {len(self.citations):,} citations"
        )

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>" + _described(
            self, [item.name for item in fields(self) if getattr(self, item.name) is not None and len(getattr(self, item.name))]
        )


def narrowed(golden: Golden, **frames: pd.DataFrame) -> Golden:
    """The same golden set with some frames cut to fewer of their own rows, which were checked when the set was made."""
    cut = object.__new__(Golden)
    cut.__dict__.update({item.name: frames.get(item.name, getattr(golden, item.name)) for item in fields(Golden)})
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
    systems = runs["system"] if "system" in runs else pd.Series(pd.NA, index=runs.index, dtype="str")
    found: list[str] = []
    for name in names:
        candidates = [name] if name in set(ids) else ids[systems == name].tolist()
        if len(candidates) > 1:
            raise DataError(f"{name!r} is the system of {len(candidates)} runs", field="run", allowed=f"name one of {', '.join(candidates)}")
        if not candidates:
            raise DataError(f"no run or system {name!r}", field="run", allowed=f"there are {', '.join(dict.fromkeys([*ids, *systems.dropna()]))}")
        found.append(str(candidates[0]))
    return found


def categorical(codes: Any, categories: Any) -> pd.Categorical:
    """Codes (-1 = unknown) as a category column over these categories, or those of a category dtype."""
    dtype = categories if isinstance(categories, pd.CategoricalDtype) else pd.CategoricalDtype(list(categories))
    return pd.Categorical.from_codes(codes, dtype=dtype)


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dicts with None for whatever is missing, as JSON wants them."""
    return [{str(name): value for name, value in row.items()} for row in frame.astype(object).where(frame.notna(), None).to_dict("records")]


def concat_results(parts: list[Results]) -> Results:
    """The frames of several results as one; run ids must differ."""
    if not parts:
        raise DataError("found none", field="parts", allowed="at least one Results")
    frames: dict[str, Any] = {}
    for item in fields(Results):
        found = [frame for part in parts if (frame := getattr(part, item.name)) is not None and (len(frame) or item.name in ("runs", "responses"))]
        if found:
            # Categories of different runs differ: join them as text, Results gives them one common dtype again.
            plain = [frame.assign(run_id=frame["run_id"].astype("str")) if "run_id" in frame else frame for frame in found]
            frames[item.name] = plain[0] if len(plain) == 1 else pd.concat(plain, ignore_index=True)
    return Results(**frames)


# What is measured, as against where it was found: spans resolved from an index are not part of a target's identity.
_RESOLVED = ["doc_id", "path", "heading", "start", "end", "span_unit"]


def _query_hashes(golden: Golden) -> pd.Series:
    targets = golden.targets.copy()
    is_chunk = targets["level"] == "chunk"
    for name in [name for name in _RESOLVED if name in targets]:
        targets[name] = targets[name].mask(is_chunk)
    parts = {"queries": golden.queries.drop(columns="position"), "targets": targets, "tags": golden.tags, "checks": golden.checks}
    parts |= {"support_groups": golden.support_groups, "conditions": golden.conditions}
    texts: dict[str, list[str]] = {query_id: [] for query_id in golden.queries["query_id"]}
    for name, frame in parts.items():
        # An absent column and a column of NA are the same content, so only what is there is written.
        for record in frame.astype(object).where(frame.notna(), None).to_dict("records"):
            content = {key: value for key, value in sorted(record.items()) if value is not None}
            texts[record["query_id"]].append(json.dumps([name, content], ensure_ascii=False, default=str))
    digests = {query_id: hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16] for query_id, lines in texts.items()}
    return pd.Series(digests, dtype="str", name="query_hash").rename_axis("query_id")

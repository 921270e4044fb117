"""What a judge is given of each response.

Its question, answer, context, and what the golden set says of it.

The context is the whole text of the hits. Texts that a store cut are taken from the run's chunk
catalogue; where that doesn't have them they are refused, or judged and marked.

What judges were given, on disk.

To judge the same answers again, by other models or prompts, without the run they came from.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.io.output import write_lines
from ragscore.io.source import Problems, json_rows
from ragscore.judging.cache import digest

CUT_TEXT = ("refuse", "mark")
ORDERS = ("rank", "reversed")


@dataclass(frozen=True)
class Passage:
    """One hit as context: the item under which it is judged, its rank, and its text."""

    item: str
    rank: int
    text: str


@dataclass(frozen=True)
class Case:
    """One response, as judges see it."""

    run_id: str
    query_id: str
    question: str
    answer: str | None
    context: tuple[Passage, ...] = ()
    reference: str | None = None
    key_facts: tuple[str, ...] = ()
    refused: bool = False
    failed: bool = False
    is_cut: bool = False  # part of the context is cut text
    n_textless: int = 0  # hits whose text isn't known

    def has(self, need: str) -> bool:
        """Whether what a judge needs is there; `a|b` is either."""
        there = {
            "answer": bool((self.answer or "").strip()),
            "context": bool(self.context),
            "reference": bool(self.reference),
            "key_facts": bool(self.key_facts),
        }
        return any(there[name] for name in need.split("|"))

    @property
    def input_hash(self) -> str:
        """A hash of everything that a judge may be shown."""
        texts = [passage.text for passage in self.context]
        return digest([self.question, self.answer, texts, self.reference, list(self.key_facts)])[
            :16
        ]


@dataclass(frozen=True)
class _Known:
    """What the golden set says of each query."""

    question: dict[str, str] = field(default_factory=dict)
    reference: dict[str, str] = field(default_factory=dict)
    key_facts: dict[str, list[str]] = field(default_factory=dict)


def cases_of(
    results: Results,
    golden: Golden,
    k: int | None = None,
    cut_text: str = "refuse",
    order: str = "rank",
) -> list[Case]:
    """One case per response whose query the golden set has.

    Parameters
    ----------
    k
        How many hits are the context; by default the run's own k, and all hits where it states
        none.
    cut_text
        "refuse": hits of which only a cut text is there are an error; "mark": they are judged, and
        their judgments marked.
    order
        Of the hits in the context: by "rank", or "reversed".

    Raises
    ------
    DataError
        There is cut text, or a k below 1.
    """
    for name, value, allowed in (("cut_text", cut_text, CUT_TEXT), ("order", order, ORDERS)):
        if value not in allowed:
            raise DataError(f"found {value!r}", field=name, allowed=f"one of {', '.join(allowed)}")
    if k is not None and k < 1:
        raise DataError(f"found {k}", field="k", allowed="at least 1, or None for the run's own")
    known, hits = _known(golden), _hits(results, k)
    hits = hits.iloc[::-1] if order == "reversed" else hits
    if cut_text == "refuse" and (cut := hits["is_cut"] & hits["text"].notna()).any():
        runs = ", ".join(hits.loc[cut, "run_id"].astype("str").unique())
        raise DataError(
            f"{int(cut.sum())} hits of {runs} have cut text",
            field="hits.text",
            allowed="runs with whole texts, results.chunks, or cut_text='mark'",
        )
    passages: dict[Any, pd.DataFrame] = dict(
        iter(hits.groupby(["run_id", "query_id"], observed=True))
    )
    rows = results.responses.reindex(
        columns=["run_id", "query_id", "query", "answer", "error", "refused"]
    ).astype(object)
    records = [
        {str(name): value for name, value in row.items()}
        for row in rows.where(rows.notna(), None).to_dict("records")
    ]
    return [
        _case(record, known, passages.get((record["run_id"], record["query_id"])))
        for record in records
        if record["query_id"] in known.question
    ]


def _case(record: dict[str, Any], known: _Known, hits: pd.DataFrame | None) -> Case:
    query_id = record["query_id"]
    there = hits[hits["text"].notna()] if hits is not None else None
    return Case(
        run_id=str(record["run_id"]),
        query_id=query_id,
        question=known.question[query_id] or record["query"] or "",
        answer=record["answer"],
        context=_passages(there) if there is not None else (),
        reference=known.reference.get(query_id),
        key_facts=tuple(known.key_facts.get(query_id, [])),
        refused=record["refused"] is True,
        failed=record["error"] is not None,
        is_cut=there is not None and bool(there["is_cut"].any()),
        n_textless=0 if hits is None or there is None else len(hits) - len(there),
    )


def _passages(hits: pd.DataFrame) -> tuple[Passage, ...]:
    ranks, texts = hits["rank"].tolist(), hits["text"].tolist()
    ids = hits["chunk_id"]
    items = ids.tolist() if ids.notna().all() and ids.is_unique else [str(rank) for rank in ranks]
    return tuple(
        Passage(item, rank, text) for item, rank, text in zip(items, ranks, texts, strict=True)
    )


def _known(golden: Golden) -> _Known:
    queries = golden.queries
    facts = golden.checks[golden.checks["kind"] == "key_fact"]
    references = (
        queries.dropna(subset=["reference_answer"])
        if "reference_answer" in queries
        else queries.iloc[:0].assign(reference_answer="")
    )
    return _Known(
        question=dict(zip(queries["query_id"], queries["query"], strict=True)),
        reference=dict(zip(references["query_id"], references["reference_answer"], strict=True)),
        key_facts={
            str(query_id): texts.tolist()
            for query_id, texts in facts.groupby("query_id", sort=False)["text"]
        },
    )


def _hits(results: Results, k: int | None) -> pd.DataFrame:
    """Hits within k by rank, with whole texts where hits or catalogue have them."""
    hits = results.hits.reindex(
        columns=["run_id", "query_id", "rank", "chunk_id", "text", "text_cut"]
    )
    limit = (
        pd.Series(k, index=hits.index, dtype="float64") if k is not None else _run_k(results, hits)
    )
    hits = hits[(hits["rank"] <= limit.fillna(np.inf)).to_numpy()].sort_values(
        ["run_id", "query_id", "rank"], kind="stable"
    )
    is_cut = hits["text_cut"].eq(True).fillna(False).to_numpy(dtype=bool)
    whole = _catalogue_texts(results, hits)
    replaced = whole.notna().to_numpy() & (is_cut | hits["text"].isna().to_numpy())
    return hits.assign(text=hits["text"].mask(replaced, whole), is_cut=is_cut & ~replaced)


def _run_k(results: Results, hits: pd.DataFrame) -> pd.Series:
    if "k" not in results.runs:
        return pd.Series(np.nan, index=hits.index)
    by_run = dict(
        zip(results.runs["run_id"].astype("str"), results.runs["k"].astype("float64"), strict=True)
    )
    return hits["run_id"].astype("str").map(by_run).astype("float64")


def _catalogue_texts(results: Results, hits: pd.DataFrame) -> pd.Series:
    """The text that the chunk catalogue of each hit's run, or the one of all runs, has of it."""
    chunks = results.chunks
    if chunks is None or "text" not in chunks:
        return pd.Series(pd.NA, index=hits.index, dtype="str")
    owner = (
        chunks["run_id"].astype("str").fillna("")
        if "run_id" in chunks
        else pd.Series("", index=chunks.index, dtype="str")
    )
    known = (
        chunks.assign(owner=owner)[["owner", "chunk_id", "text"]]
        .dropna()
        .drop_duplicates(["owner", "chunk_id"])
        .set_index(["owner", "chunk_id"])["text"]
    )
    own, shared = (
        known.reindex(pd.MultiIndex.from_arrays([owners, hits["chunk_id"]])).set_axis(hits.index)
        for owners in (hits["run_id"].astype("str"), [""] * len(hits))
    )
    return own.fillna(shared)


def write_judge_inputs(cases: Iterable[Case], path: str | Path) -> Path:
    """One JSON object per response.

    Ids, question, answer, context with ranks, reference answer, key facts.
    """
    return write_lines(path, (_record(case) for case in cases))


def load_judge_inputs(path: str | Path) -> tuple[Results, Golden]:
    """Kept inputs as results and golden set, for `rs.judge`.

    `rs.judge(*rs.load_judge_inputs(path), judges, endpoint)`.

    Raises
    ------
    DataError
        A line that isn't such a record; a question that two responses hold differently.
    """
    problems = Problems(path, strict=True)
    records = []
    for row in json_rows(Path(path), problems):
        missing = [
            name
            for name in ("run_id", "query_id", "query", "context", "key_facts")
            if name not in row.values
        ]
        if missing:
            problems.add(
                f"the fields {missing} are missing",
                line=row.line,
                allowed="a record that keep_inputs= wrote",
            )
        records.append(row.values)
    return _results(records), _golden(records, path)


def _record(case: Case) -> dict[str, Any]:
    context = [
        {"rank": passage.rank, "item": passage.item, "text": passage.text}
        for passage in case.context
    ]
    return {
        "run_id": case.run_id, "query_id": case.query_id, "query": case.question,
        "answer": case.answer, "refused": case.refused, "failed": case.failed,
        "is_cut": case.is_cut, "n_textless": case.n_textless, "context": context,
        "reference_answer": case.reference, "key_facts": list(case.key_facts),
        "input_hash": case.input_hash,
    }  # fmt: skip


def _results(records: list[dict[str, Any]]) -> Results:
    cell = [{"run_id": one["run_id"], "query_id": one["query_id"]} for one in records]
    responses = [
        at
        | {
            "query": one["query"],
            "answer": one.get("answer"),
            "refused": one.get("refused"),
            "error": "failed" if one.get("failed") else None,
        }
        for at, one in zip(cell, records, strict=True)
    ]
    hits = [
        at | {"rank": hit["rank"],
        "chunk_id": None if hit["item"] == str(hit["rank"]) else hit["item"], "text": hit["text"],
        "text_cut": True if one.get("is_cut") else None}
        for at, one in zip(cell, records, strict=True)
        for hit in one["context"]
    ]  # fmt: skip
    # A hit whose text wasn't known keeps its place, so that what couldn't be judged still can't.
    hits += [
        at | {"rank": 10**6 + n}
        for at, one in zip(cell, records, strict=True)
        for n in range(one.get("n_textless", 0))
    ]
    runs = [{"run_id": run_id} for run_id in dict.fromkeys(one["run_id"] for one in records)]
    return Results(
        runs=from_records(runs, "runs"),
        responses=from_records(responses, "responses"),
        hits=from_records(hits, "hits"),
    )


def _golden(records: list[dict[str, Any]], path: str | Path) -> Golden:
    queries: dict[str, dict[str, Any]] = {}
    facts: dict[str, list[str]] = {}
    for one in records:
        query = {
            "query_id": one["query_id"],
            "query": one["query"],
            "reference_answer": one.get("reference_answer"),
        }
        if (
            queries.setdefault(one["query_id"], query) != query
            or facts.setdefault(one["query_id"], one["key_facts"]) != one["key_facts"]
        ):
            raise DataError(
                f"two responses to {one['query_id']!r} differ in question, reference answer or key"
                " facts",
                file=path,
                field="query_id",
            )
    rows = [query | {"answerable": None, "position": n} for n, query in enumerate(queries.values())]
    checks = [
        {"query_id": query_id, "kind": "key_fact", "text": text}
        for query_id, texts in facts.items()
        for text in texts
    ]
    return Golden(queries=from_records(rows, "queries"), checks=from_records(checks, "checks"))

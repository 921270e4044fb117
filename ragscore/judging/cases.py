"""Cases: what a judge may see of each response.

In: results and golden set. Out: one `Case` per response to a golden query, with its context. The
context is the whole text of the hits.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_choice, check_whole
from ragscore.io.values import row_dicts
from ragscore.judging.relevance import flag_labelled
from ragscore.judging.replies import digest

CUT_TEXT = ("refuse", "mark")
_CELL = ["run_id", "query_id"]


class Passage(NamedTuple):
    """One hit as context: its verdict's item, its text, and True if the golden set labels it."""

    item: str
    text: str
    is_labelled: bool


@dataclass(frozen=True)
class Case:
    """One response with everything that a judge may see of it."""

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
    n_textless: int = 0  # hits whose text is unknown

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """What is known of everything that a judge may see, by its name in the request."""
        known = {
            "question": self.question,
            "answer": self.answer if (self.answer or "").strip() else None,
            "context": numbered([passage.text for passage in self.context]),
            "reference_answer": self.reference,
            "key_facts": list(self.key_facts),
        }
        return {name: one for name, one in known.items() if one}

    def has(self, need: str) -> bool:
        """Return True if an input of judges is known; `a|b` means either."""
        return any(name in self.inputs for name in need.split("|"))

    @property
    def input_hash(self) -> str:
        """Hash of everything that a judge may see."""
        texts = [passage.text for passage in self.context]
        return digest([self.question, self.answer, texts, self.reference, self.key_facts])[:16]


def numbered(texts: list[str]) -> list[dict[str, Any]]:
    """Return texts with their numbers, as a model is shown them."""
    return [{"n": n, "text": text} for n, text in enumerate(texts, 1)]


def in_words(name: str) -> str:
    """Return what an input that judges need is called."""
    return name.replace("|", " or ").replace("_", " ")


def cases_of(results: Results, golden: Golden, k: int | None, cut_text: str) -> list[Case]:
    """Return one case per response to a golden query.

    Parameters
    ----------
    k
        Number of hits in the context; None: the run's own k, or all hits if it states none.
    cut_text
        "refuse" raises if only a cut text of some hit is known; "mark" judges it and marks the
        judgments.

    Raises
    ------
    DataError
        Cut text with "refuse", an unknown choice, or a k below 1.
    """
    check_choice(cut_text, CUT_TEXT, "cut_text")
    check_whole(k, "k", or_none=True)
    hits = _context_hits(results, k, golden)
    if cut_text == "refuse" and (is_cut := hits["is_cut"] & hits["text"].notna()).any():
        runs = ", ".join(hits.loc[is_cut, "run_id"].astype("str").unique())
        raise DataError(
            f"{int(is_cut.sum())} hits of {runs} have cut text",
            field="hits.text",
            allowed="runs with whole texts, such as of results.chunks, or cut_text='mark'",
        )
    asked = {one["query_id"]: one for one in row_dicts(golden.queries)}
    facts = golden.checks[golden.checks["kind"] == "key_fact"]
    key_facts = facts.groupby("query_id")["text"].agg(tuple).to_dict() if len(facts) else {}
    contexts: dict[Any, pd.DataFrame] = dict(iter(hits.groupby(_CELL, observed=True)))
    cases = []
    for response in row_dicts(results.responses):
        if (query := asked.get(response["query_id"])) is None:
            continue
        own = contexts.get((response["run_id"], query["query_id"]), hits.iloc[:0])
        with_text = own[own["text"].notna()]
        ids = with_text["chunk_id"]  # ranks replace them where they are missing or repeated
        is_named = ids.notna().all() and ids.is_unique
        items = ids if is_named else with_text["rank"].astype("str")
        cases.append(
            Case(
                run_id=str(response["run_id"]),
                query_id=query["query_id"],
                question=query.get("query") or response.get("query") or "",
                answer=response.get("answer"),
                context=tuple(map(Passage, items, with_text["text"], with_text["is_labelled"])),
                reference=query.get("reference_answer"),
                key_facts=key_facts.get(query["query_id"], ()),
                refused=response.get("refused") is True,
                failed="error" in response,
                is_cut=bool(with_text["is_cut"].any()),
                n_textless=len(own) - len(with_text),
            )
        )
    return cases


def _context_hits(results: Results, k: int | None, golden: Golden) -> pd.DataFrame:
    """Return the hits within k by rank."""
    columns = [*_CELL, "rank", "chunk_id", "text", "text_cut"]
    is_labelled = flag_labelled(results.hits, golden)
    hits = results.hits.reindex(columns=columns).assign(is_labelled=is_labelled)
    runs = results.runs.reindex(columns=["run_id", "k"]).astype({"run_id": "str", "k": "float64"})
    limits = hits["run_id"].astype("str").map(runs.set_index("run_id")["k"]).astype("float64")
    hits = hits[hits["rank"] <= (limits.fillna(np.inf) if k is None else k)]
    is_cut = hits["text_cut"].eq(True).fillna(False).astype(bool)
    return hits.assign(is_cut=is_cut).sort_values([*_CELL, "rank"], kind="stable")

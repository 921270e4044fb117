"""What judges measure: a stored score of the whole answer, else the verdicts on its parts."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import empty
from ragscore.frames.kinds import FAILED, IMPORTANCE, NO_CLAIMS, WORTH
from ragscore.frames.typing import Values
from ragscore.scoring.metrics.declaration import Family
from ragscore.scoring.metrics.needs import KEY_FACTS, NUGGETS, RUBRIC, VITAL

metric = Family("judged", where="finished", default=False, reads="judgments.value")
VERDICTS = {"supported": 1.0, "unsupported": 0.0}
PARTS = {
    "key_facts": "facts",
    "faithfulness": "claims",
    "context_precision": "chunks",
    "context_recall": "claims",
    "answer_relevance": "questions",
    "claim_precision": "claims",
    "claim_recall": "claims",
}
_PASS = ["criterion", "row", "judge", "repeat"]  # one judge going once over the parts of one answer
points: dict[str, Any] = {"kind": "other", "bounds": (0.0, 5.0)}


def verdicts(rows: Any) -> pd.DataFrame:
    """Return the judgments: row, criterion, item, value, failed, judge, repeat."""
    judged = empty("judgments") if rows.results.judgments is None else rows.results.judgments
    row = rows.of(judged) if len(judged) else np.zeros(0, np.int64)
    wide = judged.reindex(
        columns=["criterion", "item", "item_text", "value", "judge", "repeat", "verdict", "state"]
    ).astype({"item_text": "str", "verdict": "str", "state": "str", "item": "str"})
    value = wide["value"].fillna(wide["verdict"].map(VERDICTS | WORTH).astype("float64"))
    found = wide.assign(
        value=value, row=row, failed=wide["state"].eq(FAILED).fillna(False).astype(bool)
    )
    return found[found["row"] >= 0].sort_values(
        "value", kind="stable"
    )  # sums by value, not by order


def measured(rows: Any, name: str) -> Values:
    """Return the values of a criterion: means over judges and repeats of whole scores, or of parts.

    A pass over the parts of an answer in which a judgment failed has no value.
    """
    judged = rows.verdicts[rows.verdicts["criterion"].eq(name).to_numpy()]
    if not len(judged):
        return np.full(rows.n, np.nan)
    if PARTS.get(name) == "claims" and not np.isnan(rows.reading.no_claims):
        is_silent = judged["verdict"].eq(NO_CLAIMS)
        judged = judged.assign(value=judged["value"].mask(is_silent, rows.reading.no_claims))
    is_whole = judged["item"].eq("").to_numpy()
    values = judged[is_whole & ~judged["failed"]].groupby(_PASS, dropna=False)["value"].mean()
    if name in PARTS and not is_whole.all():
        parts = judged[~is_whole]
        parts = parts[~parts.groupby(_PASS, dropna=False)["failed"].transform("any")]
        parts, is_ranked = parts.dropna(subset="value"), PARTS[name] == "chunks"
        if is_ranked:
            parts = parts.assign(rank=ranks(rows, parts)).sort_values(["rank", "item", "value"])
        of_pass = parts.groupby(_PASS, dropna=False)["value"]
        computed = of_pass.agg(average_precision) if is_ranked else of_pass.mean()
        values = pd.concat([values, computed[~computed.index.isin(values.index)]])
    return values.groupby("row").mean().reindex(range(rows.n)).to_numpy("float64")


def average_precision(values: pd.Series) -> float:
    """Return Σ precision at the ranks of relevant chunks / relevant chunks, 0 if none is."""
    is_relevant = values.to_numpy() >= 0.5
    precision = np.cumsum(is_relevant) / np.arange(1, len(values) + 1)
    return float((precision * is_relevant).sum() / max(is_relevant.sum(), 1))


def ranks(rows: Any, chunks: pd.DataFrame) -> Values:
    """Return the rank of each judged chunk: of the hit that its item names, else its number."""
    number = pd.to_numeric(chunks["item"], errors="coerce").to_numpy("float64", na_value=np.nan)
    hits = rows.results.hits
    if "chunk_id" in hits:
        known = hits[["chunk_id", "rank"]].assign(row=rows.row_of_hit).dropna().sort_values("rank")
        known = known.drop_duplicates(["row", "chunk_id"]).set_index(["row", "chunk_id"])["rank"]
        found = known.reindex(pd.MultiIndex.from_arrays([chunks["row"], chunks["item"]])).to_numpy(
            "float64", na_value=np.nan
        )
        number = np.where(np.isnan(found), number, found)
    return np.where(np.isnan(number), np.inf, number)


def judged_nuggets(rows: Any) -> pd.DataFrame:
    """Return one row per row of a query with key facts, and key fact.

    A verdict is about the key fact of its text, else of its number.

    Returns
    -------
    Columns `row`, query_id, text, `nugget` (its number, from 1 within the query), importance,
    weight; `value` and `strict`, the means over verdicts of what they count: 1, 0.5 and 0, or 1, 0
    and 0. NaN: no usable verdict.
    """
    facts = rows.golden.checks[rows.golden.checks["kind"].eq("key_fact")]
    facts = facts.assign(nugget=facts.groupby("query_id").cumcount() + 1).reindex(
        columns=["query_id", "text", "nugget", "importance", "weight"]
    )
    asked = pd.DataFrame({"row": np.arange(rows.n), "query_id": rows.query_ids})
    asked = asked.merge(facts.astype({"importance": "str", "weight": "float64"}), on="query_id")
    judged = rows.verdicts[rows.verdicts["criterion"].eq("nuggets") & ~rows.verdicts["failed"]]
    strict = (judged["value"] >= 1).astype("float64")
    verdicts = judged.assign(strict=strict, text=judged["item_text"]).reindex(
        columns=["row", "item", "text", "value", "strict"]
    )
    by_text = verdicts.merge(asked[["row", "text", "nugget"]], on=["row", "text"], how="left")
    number = by_text["nugget"].fillna(pd.to_numeric(by_text["item"], errors="coerce"))
    keys = ["row", "nugget"]
    known = by_text.assign(nugget=number).dropna(subset=["nugget", "value"])
    means = known.groupby(keys)[["value", "strict"]].mean().reset_index()
    return asked.merge(means.astype({"nugget": "int64"}), on=keys, how="left")


def nugget_share(rows: Any, weight: str, support: str) -> Values:
    """Return Σ weight · support / Σ weights above 0; NaN where a nugget has no verdict.

    `support` is a column of `judged_nuggets`, value or strict.
    """
    nuggets, n = rows.nuggets, rows.n
    weights = {
        "all": pd.Series(1.0, nuggets.index),
        "vital": nuggets["importance"].eq("vital").fillna(False).astype(float),
        "weighted": nuggets["importance"].map(IMPORTANCE).astype(float),
        "rubric": nuggets["weight"],
    }[weight]
    known, row = weights.fillna(0.0).to_numpy(), nuggets["row"]
    earned = np.where(known != 0, known * nuggets[support].to_numpy(), 0.0)
    total, possible = np.bincount(row, earned, n), np.bincount(row, np.maximum(known, 0.0), n)
    lacks = np.bincount(row, weights.isna(), n) > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(lacks | (possible <= 0), np.nan, np.clip(total / possible, 0.0, 1.0))


def criterion(name: str, formula: str, **fields: Any) -> None:
    """Declare what a judge measures, under the name of its criterion."""
    metric(name, formula, **fields)(partial(measured, name=name))


criterion(
    "key_facts",
    "expected key facts that a judge found in the answer / all of them; a stored score of"
    " the whole answer goes first",
)
_SOURCE = " (Pradeep et al. 2025, arXiv:2504.15068)"
for _name, _what, _need in (
    ("all", "supported nuggets, half of those supported in part / all of them", KEY_FACTS),
    ("vital", "the same over vital nuggets alone", VITAL),
    ("weighted", "the same with weights of 1 for vital and 0.5 for okay nuggets", NUGGETS),
    ("rubric", "Σ weight · support / Σ of the weights above 0, from 0 to 1", RUBRIC),
):
    for _end, _text in (("", _what), ("_strict", f"{_what}; support in part counts 0")):
        _compute = partial(nugget_share, weight=_name, support="strict" if _end else "value")
        metric(f"nugget_{_name}{_end}", _text + _SOURCE, needs=(_need,))(_compute)
criterion(
    "faithfulness",
    "claims of the answer that its context supports / all of them; a stored score of the"
    " whole answer goes first",
    also="RAGAS faithfulness",
)
criterion(
    "context_precision",
    "Σ over relevant chunks of (relevant chunks up to it / chunks up to it) / relevant"
    " chunks, 0 if none is, chunks by rank; a stored score goes first",
    also="RAGAS context_precision",
)
criterion(
    "context_recall",
    "claims of the reference answer that the context supports / all of them; a stored score"
    " goes first",
    also="RAGAS context_recall",
)
criterion(
    "answer_relevance",
    "mean cosine between the question and questions generated from the answer; a stored"
    " score goes first",
    kind="other",
    bounds=(-1.0, 1.0),
    also="RAGAS answer_relevancy, but for non-committal answers, which RAGAS gives 0",
)
criterion(
    "claim_precision",
    "claims of the answer that the reference answer supports / all of them; a stored score"
    " goes first",
    also="RAGChecker precision",
)
criterion(
    "claim_recall",
    "claims of the reference answer that the answer supports / all of them; a stored score"
    " goes first",
    also="RAGChecker recall",
)
criterion(
    "judge_groundedness",
    "a judge's points for the support that the answer has in its context",
    **points,
)
criterion("judge_correctness", "a judge's points for how right the answer is", **points)
criterion("judge_refused", "1 if a judge reads the answer as a refusal", kind="binary")


@metric(
    "judge_failed",
    "1 if a judgment of the answer failed",
    kind="binary",
    better="lower",
    where="finished",
)
def judge_failed(rows: Any) -> Values:
    found = rows.verdicts.groupby("row")["failed"].any().astype(float)
    return found.reindex(range(rows.n)).to_numpy()

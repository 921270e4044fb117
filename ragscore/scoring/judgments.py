"""Judges' stored verdicts as scores: one value per response and criterion.

In: `results.judgments`, written by any judge or read from another tool's log. Out: columns of the
answer scores. A stored score of the whole answer (item "") counts as it is. Without one, the
verdicts on its parts (claims, chunks, questions, facts) are put together by the formulas of RAGAS.
Nothing here asks a judge.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from ragscore.frames.data import Results, check_type
from ragscore.frames.typing import Codes, Values
from ragscore.scoring.metrics import CRITERIA, OF_NUGGETS
from ragscore.scoring.metrics.judged import PARTS
from ragscore.scoring.rules import response_of

FAILED = "judge_failed"  # the metric, and the state of a judgment
NOT_MEASURABLE = "not_measurable"  # the judge gave a verdict: there is nothing to measure
NO_CLAIMS = "no_claims"  # the verdict on a text that claims nothing
VERDICTS = {"supported": 1.0, "unsupported": 0.0}
RELEVANT = 0.5  # from here on a chunk counts as relevant; judges give 0 or 1

_CELL = ["criterion", "place"]
_PASS = [*_CELL, "judge", "repeat"]  # one judge going once over the parts of one answer


def score_judgments(
    results: Results, place: Codes, n_responses: int, no_claims: float = np.nan
) -> dict[str, Values]:
    """Compute one column per criterion, and `judge_failed`.

    Repeats, and the values of several judges, are averaged. A pass over the parts of an answer in
    which a judgment failed has no value: the rest of its claims would not stand for the answer.

    Parameters
    ----------
    place
        The position of the response of each row of `results.judgments`, -1 for none.
    no_claims
        The value of a share of claims where a judge found none.

    Returns
    -------
    Arrays of one value per response; NaN where nothing was judged, nothing was measurable (no
    claim, no chunk) or every judgment failed. `judge_failed` is 1 where a judgment failed, 0 where
    none did, NaN where there is none.
    """
    columns = {name: np.full(n_responses, np.nan) for name in (*CRITERIA, FAILED)}
    if results.judgments is None or not len(results.judgments):
        return columns
    judged = _judged(results, no_claims).assign(place=place)
    judged = judged[judged["place"] >= 0]
    # by value: means of repeats and of claims don't depend on the order of rows
    judged = judged.iloc[np.argsort(judged["value"].to_numpy(), kind="stable")]
    n_judged = np.bincount(judged["place"], np.ones(len(judged)), n_responses)
    n_failed = np.bincount(judged["place"], judged["failed"].astype("float64"), n_responses)
    columns[FAILED] = np.where(n_judged > 0, (n_failed > 0).astype("float64"), np.nan)
    is_whole = judged["item"] == ""
    whole, parts = judged[is_whole], judged[~is_whole & judged["criterion"].isin(list(PARTS))]
    stored = whole[~whole["failed"]].groupby(_PASS, dropna=False)["value"].mean()
    computed = _of_passes(parts, results)
    values = pd.concat([stored, computed[~computed.index.isin(stored.index)]]).groupby(_CELL).mean()
    criterion = values.index.get_level_values("criterion")
    for name in CRITERIA:
        found = values[criterion == name]
        rows = found.index.get_level_values("place").to_numpy("int64")
        columns[name][rows] = found.to_numpy("float64")
    return columns


def judged_metrics(judgments: pd.DataFrame | None) -> set[str]:
    """Return the metrics that these judgments are scored by, `judge_failed` if any of them failed.

    Without judge_refused, of which neither value is better (see `with_judged_refusals`).
    """
    if judgments is None:
        return set()
    criteria = set(judgments["criterion"].unique())
    found = criteria & set(CRITERIA) - {"judge_refused"}
    found |= set(OF_NUGGETS) if "nuggets" in criteria else set()
    has_failed = "state" in judgments and judgments["state"].eq(FAILED).any()
    return found | ({FAILED} if has_failed else set())


def with_judged_refusals(results: Results, override: bool = False) -> Results:
    """Fill in `responses.refused` from the abstention judge's verdicts, where it isn't known.

    `refusal_correct`, `answered_unanswerable` and `false_refusal` are then measured by it. Where
    several verdicts differ, more than half of them make a refusal.

    Parameters
    ----------
    override
        Let the judge's verdict replace what the run says, or what loading took from an answer that
        is there: a refusal in words.

    Examples
    --------
    >>> rs.evaluate(results.with_judged_refusals(), golden).refusals().table
    """
    check_type(results, Results, "results")
    responses = results.responses
    rows = results.judgments if results.judgments is not None else responses.iloc[:0]
    judged = score_judgments(results, response_of(rows, responses), len(responses))["judge_refused"]
    verdict = pd.Series(judged > 0.5, index=responses.index, dtype="boolean").mask(np.isnan(judged))
    known = pd.Series(pd.NA, index=responses.index, dtype="boolean")
    if "refused" in responses:
        known = responses["refused"]
    first, second = (verdict, known) if override else (known, verdict)
    return replace(results, responses=responses.assign(refused=first.fillna(second)))


def judgment_counts(results: Results) -> pd.DataFrame:
    """Count judgments and failures, to be read before their means are trusted.

    Returns
    -------
    One row per run and criterion: `n_responses` judged, `n_judgments`, and of these `n_failed` (the
    judge gave no usable verdict) and `n_not_measurable` (it did, and found nothing to measure).

    Examples
    --------
    >>> results.judgment_counts()[["run_id", "criterion", "n_failed"]]
    """
    check_type(results, Results, "results")
    if results.judgments is None or not len(results.judgments):
        counts = ("n_responses", "n_judgments", "n_failed", "n_not_measurable")
        dtypes = {"run_id": "str", "criterion": "str"} | dict.fromkeys(counts, "int64")
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in dtypes.items()})
    judged = _judged(results, np.nan)
    judged = judged.assign(is_empty=judged["value"].isna() & ~judged["failed"])
    return (
        judged.groupby(["run_id", "criterion"], observed=True, sort=False)
        .agg(
            n_responses=("query_id", "nunique"),
            n_judgments=("value", "size"),
            n_failed=("failed", "sum"),
            n_not_measurable=("is_empty", "sum"),
        )
        .astype("int64")
        .reset_index()
    )


def _judged(results: Results, no_claims: float) -> pd.DataFrame:
    """Return the judgments with the columns used here.

    `failed` is True where the judge gave no usable verdict.
    """
    assert results.judgments is not None
    columns = ["run_id", "query_id", "criterion", "item", "value", "judge", "repeat"]
    judged = results.judgments.reindex(columns=[*columns, "verdict", "state"])
    # A verdict in words stands for its value where no value was stored.
    value = judged["value"].fillna(judged["verdict"].map(VERDICTS).astype("float64"))
    if not np.isnan(no_claims):
        claims_nothing = (judged["verdict"] == NO_CLAIMS) & _is_of(judged, "claims")
        value = value.mask(claims_nothing, no_claims)
    failed = judged["state"].astype("str").eq(FAILED).to_numpy(dtype=bool)
    return judged[columns].assign(value=value, failed=failed)


def _is_of(judged: pd.DataFrame, parts: str) -> pd.Series:
    """Flag the judgments whose criterion is made of verdicts on these parts."""
    return judged["criterion"].isin([name for name, own in PARTS.items() if own == parts])


def _of_passes(parts: pd.DataFrame, results: Results) -> pd.Series:
    """Return the value of each pass over the parts of an answer.

    Their mean; for chunks the mean precision at the relevant ones.
    """
    is_whole = parts["failed"]
    if len(parts):
        is_whole = ~parts.groupby(_PASS, dropna=False)["failed"].transform("any")
    usable = parts[is_whole & parts["value"].notna()]
    is_chunk = _is_of(usable, "chunks").to_numpy()
    means = usable[~is_chunk].groupby(_PASS, dropna=False)["value"].mean()
    chunks = usable[is_chunk]
    chunks = chunks.assign(rank=_ranks(chunks, results)).sort_values(["rank", "item", "value"])
    return pd.concat([means, _average_precision(chunks)])


def _average_precision(chunks: pd.DataFrame) -> pd.Series:
    """Return Σ precision at the ranks of relevant chunks / relevant chunks, 0 if none is.

    Chunks come best first.
    """
    relevant, keys = (chunks["value"] >= RELEVANT).astype("float64"), [chunks[n] for n in _PASS]
    of_pass = relevant.groupby(keys, dropna=False)
    precision = of_pass.cumsum() / (of_pass.cumcount() + 1)
    terms = pd.DataFrame({"precision": precision * relevant, "relevant": relevant})
    sums = terms.groupby(keys, dropna=False).sum()
    return (sums["precision"] / sums["relevant"].clip(lower=1)).rename("value")


def _ranks(chunks: pd.DataFrame, results: Results) -> Values:
    """Return the rank of each judged chunk.

    That of the hit whose chunk id its item is, else the number that it is; others come last, by
    their items.
    """
    number = pd.to_numeric(chunks["item"], errors="coerce").to_numpy("float64", na_value=np.nan)
    hits, keys = results.hits, ["run_id", "query_id", "chunk_id"]
    if "chunk_id" in hits and len(chunks):
        near = hits[hits["query_id"].isin(chunks["query_id"].unique())].dropna(subset=["chunk_id"])
        known = near[[*keys, "rank"]].astype(dict.fromkeys(keys, "str"))
        known = known.sort_values("rank").drop_duplicates(keys)
        judged = chunks[["run_id", "query_id", "item"]].astype("str")
        found = judged.rename(columns={"item": "chunk_id"}).merge(known, on=keys, how="left")
        rank = found["rank"].to_numpy("float64", na_value=np.nan)
        number = np.where(np.isnan(rank), number, rank)
    return np.where(np.isnan(number), np.inf, number)

"""Judges' stored verdicts -> one value per response and criterion, and how many judgments failed.

In: `results.judgments`, written by any judge or read from another tool's log. Out: columns of the
answer scores. A stored score of the whole answer (item "") counts as it is; without one the
verdicts on its parts (claims, chunks, questions, facts) are put together by the formulas of RAGAS.
Nothing here asks a judge.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import Results, check_type
from ragscore.scoring.matching import response_of

Values = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

OF_CLAIMS = ("faithfulness", "context_recall", "claim_precision", "claim_recall")
FROM_ITEMS = (*OF_CLAIMS, "context_precision", "answer_relevance", "key_facts")
WHOLE_ONLY = ("judge_groundedness", "judge_correctness", "judge_refused")
CRITERIA = (*FROM_ITEMS, *WHOLE_ONLY)
FAILED = "judge_failed"
NOT_MEASURABLE = "not_measurable"  # the judge did its work, and found nothing to measure
NO_CLAIMS = "no_claims"  # the verdict on a text that claims nothing
VERDICTS = {"supported": 1.0, "unsupported": 0.0}
RELEVANT = 0.5  # from here on a chunk counts as relevant; judges give 0 or 1

_CELL = ["criterion", "place"]
_PASS = [*_CELL, "judge", "repeat"]  # one judge going once over the parts of one answer


def score_judgments(
    results: Results, place: Codes, n_responses: int, no_claims: float = np.nan
) -> dict[str, Values]:
    """One column per criterion, and `judge_failed`.

    Repeats, and the values of several judges, are averaged. A pass over the parts of an answer in
    which a judgment failed has no value: what is left of its claims would not be the answer's.

    Parameters
    ----------
    place
        The position of the response of each row of `results.judgments`, -1 for none.
    no_claims
        What a share of claims is where a judge found none.

    Returns
    -------
    Arrays of one value per response; NaN where nothing was judged, nothing was measurable (no
    claim, no chunk) or every judgment failed. `judge_failed` is 1 where a judgment failed, 0 where
    none did, NaN where there is none.
    """
    columns = {name: np.full(n_responses, np.nan) for name in (*CRITERIA, FAILED)}
    judged = (
        _judged(results, no_claims).assign(place=place) if results.judgments is not None else None
    )
    if judged is None or not len(judged):
        return columns
    judged = judged[judged["place"] >= 0]
    n_judged, n_failed = (
        np.bincount(judged["place"], weight, n_responses)
        for weight in (np.ones(len(judged)), judged["failed"].astype("float64"))
    )
    columns[FAILED] = np.where(n_judged > 0, (n_failed > 0).astype("float64"), np.nan)
    whole, parts = (
        judged[judged["item"] == ""],
        judged[(judged["item"] != "") & judged["criterion"].isin(FROM_ITEMS)],
    )
    stored = whole[~whole["failed"]].groupby(_PASS, dropna=False)["value"].mean()
    computed = _of_passes(parts, results)
    values = pd.concat([stored, computed[~computed.index.isin(stored.index)]]).groupby(_CELL).mean()
    for name in CRITERIA:
        of_one = values[values.index.get_level_values("criterion") == name]
        columns[name][of_one.index.get_level_values("place").to_numpy("int64")] = of_one.to_numpy(
            "float64"
        )
    return columns


def with_judged_refusals(results: Results, override: bool = False) -> Results:
    """The results with `responses.refused` as the abstention judge read the answers, where that isn't known otherwise.

    `refusal_correct`, `answered_unanswerable` and `false_refusal` are then measured by it. Where
    several verdicts differ, more than half of them make a refusal.

    Parameters
    ----------
    override
        The judge's verdict goes before what the run says, or what loading took from an answer that
        is there: a refusal in words.
    """
    check_type(results, Results, "results")
    responses = results.responses
    rows = results.judgments if results.judgments is not None else responses.iloc[:0]
    judged = score_judgments(results, response_of(rows, responses), len(responses))["judge_refused"]
    verdict = pd.Series(judged > 0.5, index=responses.index, dtype="boolean").mask(np.isnan(judged))
    known = (
        responses["refused"]
        if "refused" in responses
        else pd.Series(pd.NA, index=responses.index, dtype="boolean")
    )
    first, second = (verdict, known) if override else (known, verdict)
    return replace(results, responses=responses.assign(refused=first.fillna(second)))


def judge_counts(results: Results) -> pd.DataFrame:
    """Count judgments, before their means are trusted.

    Returns
    -------
    One row per run and criterion: `n_responses` judged, `n_judgments`, and of these `n_failed` (the
    judge gave no usable verdict) and `n_not_measurable` (it did, and found nothing to measure).
    """
    check_type(results, Results, "results")
    names = ["n_responses", "n_judgments", "n_failed", "n_not_measurable"]
    if results.judgments is None or not len(results.judgments):
        return pd.DataFrame(
            {
                "run_id": pd.Series(dtype="str"),
                "criterion": pd.Series(dtype="str"),
                **{name: pd.Series(dtype="int64") for name in names},
            }
        )
    judged = _judged(results, np.nan).assign(
        nothing=lambda frame: frame["value"].isna() & ~frame["failed"]
    )
    counted = judged.groupby(["run_id", "criterion"], observed=True, sort=False).agg(
        n_responses=("query_id", "nunique"),
        n_judgments=("value", "size"),
        n_failed=("failed", "sum"),
        n_not_measurable=("nothing", "sum"),
    )
    return counted.astype("int64").reset_index()


def _judged(results: Results, no_claims: float) -> pd.DataFrame:
    """The judgments with the columns that count here.

    `failed` where the judge gave no usable verdict.
    """
    assert results.judgments is not None
    wanted = [
        "run_id",
        "query_id",
        "criterion",
        "item",
        "value",
        "verdict",
        "judge",
        "repeat",
        "state",
    ]
    judged = results.judgments.reindex(columns=wanted)
    # A verdict in words stands for its value where no value was stored.
    value = judged["value"].fillna(judged["verdict"].map(VERDICTS).astype("float64"))
    if not np.isnan(no_claims):
        value = value.mask(
            (judged["verdict"] == NO_CLAIMS) & judged["criterion"].isin(OF_CLAIMS), no_claims
        )
    return (
        judged.drop(columns="verdict")
        .assign(value=value, failed=judged["state"].astype("str").eq(FAILED).to_numpy(dtype=bool))
        .drop(columns="state")
    )


def _of_passes(parts: pd.DataFrame, results: Results) -> pd.Series:
    """The value of each pass over the parts of an answer.

    Their mean, for chunks the mean precision at the relevant ones.
    """
    grouped = parts.groupby(_PASS, dropna=False)
    is_whole = ~grouped["failed"].transform("any") if len(parts) else parts["failed"]
    kept = parts[is_whole & parts["value"].notna()]
    is_chunk = (kept["criterion"] == "context_precision").to_numpy()
    means = kept[~is_chunk].groupby(_PASS, dropna=False)["value"].mean()
    chunks = (
        kept[is_chunk]
        .assign(rank=_ranks(kept[is_chunk], results))
        .sort_values("rank", kind="stable")
    )
    return pd.concat([means, _average_precision(chunks)])


def _average_precision(chunks: pd.DataFrame) -> pd.Series:
    """Σ precision at the ranks of relevant chunks / relevant chunks, 0 if none is.

    Chunks come best first.
    """
    relevant = (chunks["value"] >= RELEVANT).astype("float64")
    of_pass = relevant.groupby([chunks[name] for name in _PASS], dropna=False)
    precision = of_pass.cumsum() / (of_pass.cumcount() + 1)
    sums = (
        pd.DataFrame({"precision": precision * relevant, "relevant": relevant})
        .groupby([chunks[name] for name in _PASS], dropna=False)
        .sum()
    )
    return (sums["precision"] / sums["relevant"].clip(lower=1)).rename("value")


def _ranks(chunks: pd.DataFrame, results: Results) -> Values:
    """The rank of each judged chunk.

    That of the hit whose chunk id its item is, else the number that it is; others come last.
    """
    number = pd.to_numeric(chunks["item"], errors="coerce").to_numpy("float64", na_value=np.nan)
    keys = ["run_id", "query_id", "chunk_id"]
    if "chunk_id" in results.hits and len(chunks):
        near = results.hits[results.hits["query_id"].isin(chunks["query_id"].unique())].dropna(
            subset=["chunk_id"]
        )
        known = (
            near[[*keys, "rank"]]
            .astype(dict.fromkeys(keys, "str"))
            .sort_values("rank")
            .drop_duplicates(keys)
        )
        wanted = (
            chunks[["run_id", "query_id", "item"]]
            .astype("str")
            .rename(columns={"item": "chunk_id"})
        )
        found = wanted.merge(known, on=keys, how="left")["rank"].to_numpy(
            "float64", na_value=np.nan
        )
        number = np.where(np.isnan(found), number, found)
    return np.where(np.isnan(number), np.inf, number)

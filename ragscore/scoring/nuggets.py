"""Nuggets: which key facts each answer supports, fully, in part or not, and what that is worth.

In: verdicts of the criterion "nuggets", and key facts with their importance or weight. Out: a row
per response and nugget, and one value per response and metric.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.frames.kinds import IMPORTANCE
from ragscore.frames.typing import Values
from ragscore.io.tools.nuggets import WORTH
from ragscore.scoring.judgments import FAILED
from ragscore.scoring.rules import response_of

CRITERION = "nuggets"


def nuggets_of(golden: Golden) -> pd.DataFrame:
    """Return the key facts, numbered from 1 within each query.

    Columns query_id, `nugget` (its number), text, importance (NA: unknown) and weight (NaN: none).
    """
    facts = golden.checks[golden.checks["kind"].eq("key_fact").to_numpy()]
    number = facts.groupby("query_id").cumcount() + 1
    unknown: dict[str, Any] = {
        "importance": pd.array([pd.NA] * len(facts), dtype="str"),
        "weight": np.nan,
    }
    known = {name: facts.get(name, one) for name, one in unknown.items()}
    return facts[["query_id", "text"]].assign(nugget=number, **known).reset_index(drop=True)


def has_verdicts(results: Results) -> bool:
    """Tell if a judge said anything of nuggets."""
    judgments = results.judgments
    return judgments is not None and bool(judgments["criterion"].eq(CRITERION).any())


def judged_nuggets(results: Results, golden: Golden) -> pd.DataFrame:
    """Return one row per response to a query with key facts, and key fact.

    A verdict is about the key fact of its text, else of its number.

    Returns
    -------
    Columns `place` (of the response), run_id, and those of `nuggets_of`; `value` and `strict`, the
    means over verdicts of what they count: 1, 0.5 and 0, or 1, 0 and 0. NaN: no usable verdict.
    """
    responses = results.responses[["run_id", "query_id"]].reset_index(drop=True)
    responses = responses.astype("str").assign(place=np.arange(len(responses)))
    rows = responses.merge(nuggets_of(golden), on="query_id")
    judgments = results.judgments
    found = rows.iloc[:0].assign(value=0.0, strict=0.0)
    if judgments is not None:
        judged = judgments[judgments["criterion"].eq(CRITERION).to_numpy()]
        state = judged.get("state", pd.Series(pd.NA, index=judged.index, dtype="str"))
        judged = judged[state.ne(FAILED).fillna(True).to_numpy(dtype=bool)]
        verdict = judged.get("verdict", pd.Series(pd.NA, index=judged.index, dtype="str"))
        value = judged["value"].fillna(verdict.map(WORTH).astype("float64"))
        found = pd.DataFrame({
            "place": response_of(judged, results.responses), "item": judged["item"],
            "text": judged.get("item_text", pd.Series(pd.NA, index=judged.index, dtype="str")),
            "value": value, "strict": (value >= 1.0).astype("float64").where(value.notna()),
        })  # fmt: skip
        by_text = found.merge(rows[["place", "text", "nugget"]], on=["place", "text"], how="left")
        number = pd.to_numeric(by_text["item"], errors="coerce")
        found = by_text.assign(nugget=by_text["nugget"].fillna(number))
    keys = ["place", "nugget"]
    means = found.dropna(subset=["nugget", "value"]).groupby(keys)[["value", "strict"]].mean()
    return rows.merge(means.reset_index().astype({"nugget": "int64"}), on=keys, how="left")


def nugget_values(rows: pd.DataFrame, n_responses: int) -> dict[str, Values]:
    """Return one value per response and metric, from the rows of `judged_nuggets`.

    NaN where a nugget that counts has no verdict: the rest would not stand for the answer.
    """
    importance = rows["importance"].map(IMPORTANCE).astype("float64")
    weights: Mapping[str, pd.Series] = {
        "nugget_all": pd.Series(1.0, index=rows.index),
        "nugget_vital": rows["importance"].eq("vital").fillna(False).astype("float64"),
        "nugget_weighted": importance,
        "nugget_rubric": rows["weight"],
    }
    place = rows["place"].to_numpy("int64")
    columns: dict[str, Values] = {}
    for name, weight in weights.items():
        for label, value in ((name, rows["value"]), (f"{name}_strict", rows["strict"])):
            columns[label] = _share(place, weight, value, n_responses)
    return columns


def _share(place: Values, weight: pd.Series, value: pd.Series, n: int) -> Values:
    """Return Σ weight · value / Σ of the weights above 0, within 0 and 1, of each response."""
    known = weight.fillna(0.0).to_numpy("float64")
    counts = known != 0
    earned = np.where(counts, known * value.to_numpy("float64"), 0.0)
    total = np.bincount(place, earned, n)  # NaN where a nugget that counts has no verdict
    possible = np.bincount(place, np.maximum(known, 0.0), n)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(total / np.where(possible > 0, possible, np.nan), 0.0, 1.0)
    without = np.bincount(place, weight.isna().to_numpy(), n) > 0  # some nugget is not weighted
    return np.where(without, np.nan, share)

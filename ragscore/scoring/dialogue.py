"""What a chatbot's answers are judged by beside retrieval.

Attribution, recency, folders searched, key facts, time-outs.

In: responses in their order. Out: one array per metric, which `score_answers` joins to its columns.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.scoring.attribution import score_attribution
from ragscore.scoring.facts import score_facts
from ragscore.scoring.scope import score_scope

Values = npt.NDArray[np.float64]

# "Request timed out", "timeout", "ReadTimeoutError", "deadline exceeded"
TIMED_OUT = re.compile(r"time[ds]?[\s_-]*out|deadline exceeded", re.IGNORECASE)


def score_dialogue(
    results: Results, golden: Golden, responses: pd.DataFrame, answerable: Values, unknown: str
) -> dict[str, Values]:
    """The columns of this module for each response.

    `answerable` is 1, 0 or NaN (unlabelled), `unknown` as in `rs.score`.
    """
    failed = responses["error"].notna().to_numpy()
    none = np.zeros(len(responses), dtype=bool)
    answered = responses["answer"].notna().to_numpy() & ~failed if "answer" in responses else none
    refused = (
        responses["refused"].fillna(False).astype(bool).to_numpy()
        if "refused" in responses
        else none
    )
    is_blank = (
        (responses["answer"].str.strip() == "").to_numpy(dtype=bool, na_value=False)
        if "answer" in responses
        else none
    )
    return {
        **score_attribution(results, golden, responses, answered),
        **score_scope(results, golden, responses, failed, unknown),
        **score_facts(golden, responses, answered & (answerable != 0)),
        "timeout": is_timeout(responses["error"]).astype("float64"),
        "empty_response": np.where(answered, is_blank & ~refused, np.nan),
    }


def is_timeout(errors: pd.Series) -> npt.NDArray[np.bool_]:
    """Which errors say that time ran out."""
    found = np.zeros(len(errors), dtype=bool)
    given = errors.notna().to_numpy()
    if given.any():
        found[given] = errors[given].astype(object).str.contains(TIMED_OUT).to_numpy(dtype=bool)
    return found

"""What judges measure: a stored score of the whole answer, else the verdicts on its parts."""

from functools import partial
from typing import Any

from ragscore.scoring.metrics.family import Family
from ragscore.scoring.metrics.needs import KEY_FACTS, NUGGETS, RUBRIC, VITAL_NUGGETS, judged

metric = Family("judged", where="finished", ends_at_refusal=True, default=False)


PARTS: dict[str, str] = {}
"""What of an answer gets verdicts that make its value, by criterion; others judge the whole."""


def criterion(
    name: str, formula: str, needs: tuple[Any, ...] = (), *, parts: str = "", **fields: Any
) -> None:
    """Declare what a judge measures, under the name of its criterion."""
    declared = metric(name, formula, needs=(*needs, judged(name)), **fields)
    declared(lambda facts: facts.judged[name])
    if parts:
        PARTS[name] = parts


whole = "; a stored score of the whole answer goes first"
points: dict[str, Any] = {"kind": "other", "bounds": (0.0, 5.0)}
criterion(
    "key_facts", f"expected key facts that a judge found in the answer / all of them{whole}",
    (KEY_FACTS,), aspect="answers", priority=3, parts="facts",
)  # fmt: skip
_SOURCE = " (Pradeep et al. 2025, arXiv:2504.15068)"
for _name, _what, _need in (
    ("nugget_all", "supported nuggets, half of those supported in part / all of them", KEY_FACTS),
    ("nugget_vital", "the same over vital nuggets alone", VITAL_NUGGETS),
    ("nugget_weighted", "the same with weights of 1 for vital and 0.5 for okay nuggets", NUGGETS),
    ("nugget_rubric", "Σ weight · support / Σ of the weights above 0, from 0 to 1", RUBRIC),
):
    for _label, _text in (
        (_name, _what),
        (f"{_name}_strict", f"{_what}; support in part counts 0"),
    ):
        metric(
            _label, _text + _SOURCE, needs=(_need, judged("nuggets")),
            **({"aspect": "answers", "priority": 3} if _label == "nugget_all" else {}),
        )(partial(lambda label, facts: facts.nuggets[label], _label))  # fmt: skip
criterion(
    "faithfulness", f"claims of the answer that its context supports / all of them{whole}",
    parts="claims", nothing="no claim", also="RAGAS faithfulness",
)  # fmt: skip
criterion(
    "context_precision",
    "Σ over relevant chunks of (relevant chunks up to it / chunks up to it) / relevant chunks, 0 if"
    " none is, chunks by rank; a stored score goes first",
    parts="chunks", nothing="no chunk", also="RAGAS context_precision",
)  # fmt: skip
criterion(
    "context_recall",
    "claims of the reference answer that the context supports / all of them; a stored score goes"
    " first",
    parts="claims", nothing="no claim", also="RAGAS context_recall",
)  # fmt: skip
criterion(
    "answer_relevance",
    "mean cosine between the question and questions generated from the answer; a stored score goes"
    " first",
    parts="questions", nothing="no generated question", kind="other", bounds=(-1.0, 1.0),
    also="RAGAS answer_relevancy, but for non-committal answers, which RAGAS gives 0",
)  # fmt: skip
criterion(
    "claim_precision",
    "claims of the answer that the reference answer supports / all of them; a stored score goes"
    " first",
    parts="claims", nothing="no claim", also="RAGChecker precision",
)  # fmt: skip
criterion(
    "claim_recall",
    "claims of the reference answer that the answer supports / all of them; a stored score goes"
    " first",
    parts="claims", nothing="no claim", also="RAGChecker recall",
)  # fmt: skip
criterion(
    "judge_groundedness", "a judge's points for the support that the answer has in its context",
    **points,
)  # fmt: skip
criterion(
    "judge_correctness", "a judge's points for how right the answer is", aspect="answers",
    priority=1, **points,
)  # fmt: skip
criterion("judge_refused", "1 if a judge reads the answer as a refusal", kind="binary")


@metric(
    "judge_failed", "1 if a judgment of the answer failed", needs=(judged(""),), kind="binary",
    better="lower", ends_at_refusal=False, excuses=False,
)  # fmt: skip
def judge_failed(facts: Any) -> Any:
    return facts.judged["judge_failed"]

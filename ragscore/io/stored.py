"""Scores that other tools stored -> the frames `reported` and `judgments`."""

from typing import Any

from ragscore.frames.data import from_records
from ragscore.io.source import as_text
from ragscore.io.values import VERDICTS, as_number

SAME = {
    "faithfulness": "faithfulness", "context_precision": "context_precision",
    "llm_context_precision_with_reference": "context_precision",
    "contextual precision": "context_precision", "context_recall": "context_recall",
    "llm_context_recall": "context_recall",
    "contextual recall": "context_recall", "context-recall": "context_recall",
    "context-faithfulness": "faithfulness", "answer_relevancy": "answer_relevance",
}  # fmt: skip
"""Other tools' names (lower case) of judged metrics with our formula -> our name."""
ABOUT_METRIC = ("better", "lowest", "highest", "threshold")


def our_name(metric: str, same: dict[str, str] = SAME) -> str:
    """Return our name of another tool's metric if it is the same one, else its own name."""
    plain = metric.strip()
    return same.get(plain.lower(), plain)


def score_of(value: Any) -> tuple[float | None, str | None]:
    """Return a stored score as (number, verdict).

    Yes / no and booleans are 1 / 0. Another word is a verdict without a number. A list of one value
    is that value.
    """
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(value, bool):
        return float(value), str(value).lower()
    if (number := as_number(value)) is not None:
        return number, None
    word = as_text(value) if isinstance(value, str) else None
    if word is None or not word.strip() or word.strip().lower() in ("nan", "none", "null"):
        return None, None
    return VERDICTS.get(word.strip().lower()), word


def stored(
    metric: str, value: Any = None, same: dict[str, str] = SAME, **about: Any
) -> dict[str, Any]:
    """Return a stored score under our name of its metric.

    A score with an error has no value, whatever number stands beside it.
    """
    number, verdict = (None, None) if about.get("error") is not None else score_of(value)
    verdict = about.pop("verdict", None) or verdict
    return {"metric": our_name(metric, same), "value": number, "verdict": verdict, **about}


def frames_of_scores(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the frames of stored scores.

    Each is a dict of run_id, query_id, metric, value, verdict, reason, judge, error, cost_usd,
    is_judged, and `ABOUT_METRIC`. One without a value but with an error is a judge that failed.
    """
    known = {
        (one["run_id"], one["query_id"], one["metric"]): one
        for one in scores
        if one["value"] is not None or one.get("error") or one.get("verdict")
    }
    judged, reported = [], []
    for (run_id, query_id, metric), one in known.items():
        cell = {"run_id": run_id, "query_id": query_id}
        if one.get("is_judged", True) or one["value"] is None:
            judged.append(cell | _judgment(one))
        if one["value"] is not None:
            about = {name: one.get(name) for name in ABOUT_METRIC}
            reported.append(cell | {"metric": metric, "value": one["value"]} | about)
    kinds = {"judgments": judged, "reported": reported}
    return {kind: from_records(rows, kind) for kind, rows in kinds.items() if rows}


def _judgment(score: dict[str, Any]) -> dict[str, Any]:
    error, value, verdict = (score.get(name) for name in ("error", "value", "verdict"))
    is_scored = error is None and (value is not None or verdict is not None)
    reason = score.get("reason") if is_scored else error or score.get("reason")
    return {
        "criterion": score["metric"], "item": "", "value": value, "verdict": verdict,
        "reason": reason, "judge": score.get("judge"), "cost_usd": score.get("cost_usd"),
        "state": "scored" if is_scored else "judge_failed",
    }  # fmt: skip

"""Where a line over runs must break.

What each run was measured by, and what changed from one to the next, in words.

In: what run.json says of a run and its scoring. Out: segments of runs that one ruler measured.
"""

from dataclasses import dataclass
from typing import Any

from ragscore.scoring.fingerprint import settings_text
from ragscore.scoring.metrics import describe
from ragscore.scoring.provenance import content_of

CONTENT = "label content"
NAMES = {
    "labels": "other labels",
    CONTENT: "other labels",
    "chunker": "passages cut anew",
    "level": "other match level",
    "rule": "other rule",
    "judge": "other judge",
}
"""Component -> what its change is called; policies and versions are called by their own names."""
OUTLAST_CUTTING = {
    "doc": "by document",
    "span": "by span",
    "anchor": "by section",
    "predicate": "by predicate",
}
"""Match level whose targets don't hang on how passages are cut -> how a bridge is called that uses this."""
SHORT = 8  # digits of a hash that are shown

Parts = dict[str, str]


@dataclass(frozen=True)
class Segment:
    """Runs in a row that one ruler measured.

    Attributes
    ----------
    parts
        The ruler by component; what no run of the segment states is left out.
    like
        The number of the first segment measured by this ruler; its own if none before it was.
    broken_by
        What changed since the segment before, in words; empty for the first.
    changed
        The components that changed.
    """

    number: int
    run_ids: tuple[str, ...]
    parts: Parts
    like: int
    broken_by: str
    changed: tuple[str, ...]


def ruler_parts(
    scoring: dict[str, Any],
    metric: str,
    *,
    chunker: str | None = None,
    golden: str | None = None,
    judges: dict[str, Any] | None = None,
) -> Parts:
    """The ruler of a run's values of one metric, as far as it is known.

    What none states, or the metric doesn't hang on, is left out.

    Parameters
    ----------
    scoring
        What run.json says of it: golden_hash, level, rule, policies, profile, and, where it was
        recorded, its `ruler` (see `rs.ruler`).
    chunker, golden, judges
        What the run itself states: its chunker version, golden hash and, by criterion, its judges.
    """
    ruler = {"judge_fingerprint": judges or {}} | scoring.get("ruler", {})
    recorded = {
        name: content_of(ruler, name, [metric])
        for name in ("golden", "judge_fingerprint", "metric_versions", "fields")
    }
    parts = {
        "labels": scoring.get("golden_hash") or golden,
        CONTENT: recorded["golden"] or None,
        "profile": scoring.get("profile") or "none",
    }
    parts |= {
        f"policy {name}": value
        for name, value in scoring.get("policies", {}).items()
        if name != "match"
    }
    if describe(metric).kind not in ("time", "cost"):
        parts |= {"level": scoring.get("level"), "rule": scoring.get("rule"), "chunker": chunker}
    parts |= {
        f"judge of {name}": _judge_text(settings)
        for name, settings in recorded["judge_fingerprint"].items()
    }
    parts |= {
        f"version of {name}": version for name, version in recorded["metric_versions"].items()
    }
    parts |= {
        f"result field {name}": "recorded" if there else "not recorded"
        for name, there in recorded["fields"].items()
    }
    return {
        name: str(value) for name, value in parts.items() if value is not None and value == value
    }


def _judge_text(settings: list[dict[str, Any]]) -> str:
    """Judges as text; temperatures that differ by rounding only are the same."""
    return settings_text(
        [
            one | ({"temperature": round(one["temperature"], 2)} if "temperature" in one else {})
            for one in settings
        ]
    )


def segments(parts: dict[str, Parts]) -> list[Segment]:
    """Runs in their order -> segments.

    What is not stated contradicts nothing; a name that labels go by is no change where their
    content is known to be the same.
    """
    found: list[Segment] = []
    for run_id, own in parts.items():
        last = found[-1] if found else None
        changed = contradictions(last.parts, own) if last else ()
        if last and not changed:
            found[-1] = Segment(
                last.number,
                (*last.run_ids, run_id),
                last.parts | own,
                last.like,
                last.broken_by,
                last.changed,
            )
        else:
            words = "; ".join(_words(name, last.parts, own) for name in changed) if last else ""
            found.append(Segment(len(found) + 1, (run_id,), own, len(found) + 1, words, changed))
    return _returns(found)


def contradictions(a: Parts, b: Parts) -> tuple[str, ...]:
    """The components that both state, and not alike."""
    # a hash of all, notes included, says nothing beside one of what measures
    named = {"labels"} if CONTENT in a and CONTENT in b else set()
    return tuple(name for name in a if name in b and a[name] != b[name] and name not in named)


def _returns(found: list[Segment]) -> list[Segment]:
    """The segments, each with the first one that its ruler measured before."""
    out: list[Segment] = []
    for one in found:
        like = next(
            (other.like for other in out if not contradictions(other.parts, one.parts)), one.number
        )
        out.append(Segment(one.number, one.run_ids, one.parts, like, one.broken_by, one.changed))
    return out


def _words(name: str, before: Parts, now: Parts) -> str:
    a, b = before[name], now[name]
    if name in ("labels", CONTENT) and "labels" in before and "labels" in now:
        # the names that a store lists its golden sets by
        a, b = before["labels"][:SHORT], now["labels"][:SHORT]
    if name == "chunker":
        a, b = _differing(a, b)
    return f"{NAMES.get(name, name)} ({a} → {b})"


def _differing(a: str, b: str) -> tuple[str, str]:
    """Two versions without the parts (joined by +) that they share."""
    first, second = a.split("+"), b.split("+")
    return (
        "+".join(part for part in first if part not in second) or a,
        "+".join(part for part in second if part not in first) or b,
    )

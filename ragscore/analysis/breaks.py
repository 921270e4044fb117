"""How each run's values of one metric were computed, and where that changes from run to run.

In: the recorded scoring of runs, or what their files state. Out: provenances, and segments: runs
in a row whose values were computed the same way.
"""

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from ragscore.frames.kinds import FAILED, flat, parsed
from ragscore.scoring.metrics import CRITERIA, TABLE
from ragscore.scoring.provenance import relevant, settings_text

SEEDS = ("seed", "random_state", "repeat")  # config keys in which repeats of one system differ
CONTENT = "label content"
VALUES = "values"  # who computed them: a run that only reports means, or this library
REPORTED, COMPUTED = "as reported", "scored here"
LABELS_OF_RUN = ("eval_set_commit_hash", "dataset_version")  # what a run says of its eval set
JUDGE_OF_RUN = ("judge_model", "judge_prompt_version", "judge_temperature")
CHANGES = {
    "labels": "other labels",
    CONTENT: "other labels",
    "chunker": "passages re-chunked",
    "level": "other match level",
    "rule": "other rule",
    "judge": "other judge",
    "eval_set_commit_hash": "other eval set",
    "dataset_version": "other dataset_version",
    VALUES: "values from elsewhere",
}
"""Component -> description of its change; policies and versions are called by their own names."""
SHORT = 8  # digits of a hash that are shown

Provenance = dict[str, str]
"""Component (labels, level, rule, policy ..., chunker, judge ...) -> its content as text."""


def split_segments(provenance: dict[str, Provenance]) -> tuple[pd.DataFrame, list[Provenance]]:
    """Split runs in their order where a component of the provenance changes.

    A component that a run doesn't state has not changed. Neither have labels of another hash if
    their content is known to be the same.

    Returns
    -------
    One row per run (index): the number of its `segment` from 1, and on the first run of a segment
    the `break_reason`, what changed since the segment before. And what each segment's runs state.
    """
    rows, known = [], list[Provenance]()
    for own in provenance.values():
        changed = contradictions(known[-1], own) if known else ()
        reason = _reason(changed, known[-1], own) if changed else None
        if changed or not known:
            known.append({})
        known[-1] = known[-1] | own
        rows.append((len(known), reason))
    names = ["segment", "break_reason"]
    return pd.DataFrame(rows, list(provenance), names).astype({"break_reason": "str"}), known


def contradictions(a: Provenance, b: Provenance) -> tuple[str, ...]:
    """Return the components that both state, with different contents."""
    # The hash covers notes as well: where the content that is measured is known, that decides.
    ignored = {"labels"} if CONTENT in a and CONTENT in b else set()
    return tuple(name for name in a if name in b and a[name] != b[name] and name not in ignored)


def provenance_of(
    scoring: dict[str, Any],
    metric: str,
    *,
    chunker: str | None = None,
    golden: str | None = None,
    judges: dict[str, Any] | None = None,
) -> Provenance:
    """Return the provenance of a run's values of one metric, as far as it is known.

    Components that nobody states, or that don't affect the metric, are left out.

    Parameters
    ----------
    scoring
        As run.json records it: golden_hash, level, rule, policies, profile, and, where it was
        recorded, its `provenance`.
    chunker, golden, judges
        As the run itself states them: chunker version, golden hash, and judges by criterion.
    """
    recorded = {"judge_fingerprint": judges or {}} | scoring.get("provenance", {})
    recorded = relevant(recorded, [metric])
    parts = {
        "labels": scoring.get("golden_hash") or golden,
        CONTENT: recorded["golden"] or None,
        "profile": scoring.get("profile") or "none",
    }
    for name, value in scoring.get("policies", {}).items():
        if name != "match":
            parts[f"policy {name}"] = value
    if TABLE.describe(metric).kind not in ("time", "cost"):
        parts |= {"level": scoring.get("level"), "rule": scoring.get("rule"), "chunker": chunker}
    for name, settings in recorded["judge_fingerprint"].items():
        # temperatures that differ by rounding only give the same text
        rounded = [
            judge | {"temperature": round(judge["temperature"], 2)}
            if "temperature" in judge
            else judge
            for judge in settings
        ]
        parts[f"judge of {name}"] = settings_text(rounded)
    for name, version in recorded["metric_versions"].items():
        parts[f"version of {name}"] = version
    for name, is_recorded in recorded["fields"].items():
        parts[f"result field {name}"] = "recorded" if is_recorded else "not recorded"
    # NaN, which differs from itself, is as unknown as None
    return {
        name: str(value) for name, value in parts.items() if value is not None and value == value
    }


def _reason(changed: Sequence[str], before: Provenance, now: Provenance) -> str:
    """Describe what changed; hashes are cut, if they differ at the cut."""
    parts = []
    for name in changed:
        a, b = before[name], now[name]
        if name == CONTENT and "labels" in before and "labels" in now:
            a, b = before["labels"], now["labels"]  # a store lists its golden sets by these hashes
        if name in ("labels", CONTENT, *LABELS_OF_RUN) and a[:SHORT] != b[:SHORT]:
            a, b = a[:SHORT], b[:SHORT]
        if name == "chunker":  # leave out the parts that both have
            first, second = a.split("+"), b.split("+")
            a = "+".join(part for part in first if part not in second) or a
            b = "+".join(part for part in second if part not in first) or b
        parts.append(f"{CHANGES.get(name, name)} ({a} → {b})")
    return "; ".join(parts)


def reported_provenance(run: dict[str, Any], metric: str) -> Provenance:
    """Return what a run that only reports means says of how they were measured.

    Its config and its own fields name the eval set and the judge; a golden set is named by its
    hash.
    """
    config = parsed(run.get("config"))
    config = config if isinstance(config, dict) else {}
    stated = {name: config.get(name, run.get(f"x_{name}")) for name in LABELS_OF_RUN}
    parts = {VALUES: REPORTED, "labels": run.get("golden_hash"), **stated}
    if TABLE.describe(metric).kind not in ("time", "cost"):
        parts["chunker"] = run.get("chunker_version")
    if metric in (*CRITERIA, FAILED):
        judge = [config.get(name) for name in JUDGE_OF_RUN]
        names = ("", "prompt ", "temperature ")
        words = [
            f"{name}{value:g}" if isinstance(value, float) else f"{name}{value}"
            for name, value in zip(names, judge, strict=True)
            if value is not None
        ]
        parts["judge"] = ", ".join(words) or None
    return {
        name: str(value) for name, value in parts.items() if value is not None and value == value
    }


def drop_seeds(value: Any) -> Any:
    """Return a config without the keys in which repeats differ."""
    if not isinstance(value, dict):
        return value
    return {key: drop_seeds(inner) for key, inner in value.items() if key not in SEEDS}


def config_changes(runs: pd.DataFrame) -> dict[str, str]:
    """Return run id -> what differs from the config of the same system's run before.

    Seeds and the chunker's version are left out: repeats differ in the one, and a segment's break
    names the other.
    """
    before: dict[str, dict[str, str]] = {}
    found = {}
    for run_id, system, text in zip(runs.index, runs["system"], runs["config"], strict=True):
        config = parsed(text)
        own = flat(drop_seeds(config)) if isinstance(config, dict) else {}
        own.pop("chunker_version", None)
        if not own:
            continue
        own = {key: one if isinstance(one, str) else json.dumps(one) for key, one in own.items()}
        last = before.get(str(system), own)
        before[str(system)] = own
        changes = [
            f"{key.rpartition('.')[2]} {last.get(key, 'unset')}→{own.get(key, 'unset')}"
            for key in dict.fromkeys([*last, *own])
            if last.get(key) != own.get(key)
        ]
        if changes:
            found[str(run_id)] = ", ".join(changes)
    return found

"""What differs between two runs besides their scores: invariants and config keys.

In: `Results` of both runs. Out: frames with one row per name and a column per run. Invariants
(golden set, k, chunker version, judges, ...) should be equal for a comparison to be fair.
"""

from typing import Any

import pandas as pd

from ragscore.analysis.comparison.profile_report import COMPARISONS
from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import DataError, Results, check_type, run_names
from ragscore.frames.errors import name_list, names_of, nearest, warn
from ragscore.scoring.level import chunker_versions
from ragscore.scoring.provenance import (
    check_ignored,
    check_provenance,
    judge_fingerprint,
    judges_agree,
    judges_by_criterion,
    judges_contradict,
    recorded_parts,
    same_temperature,
    unstated_judges,
)
from ragscore.scoring.readings import Reading


def equal(a: Any, b: Any) -> bool:
    """Return True if both values are unknown, or both are known and the same."""
    return bool(pd.isna(b) if pd.isna(a) else not pd.isna(b) and a == b)


def invariants_of(results: Results, a: str, b: str) -> pd.DataFrame:
    """One row per invariant: its `name`, `state` (equal, differs, unknown) and both contents.

    `baseline` and `candidate` hold them as text, None = unknown.
    """
    runs = results.runs.set_index(results.runs["run_id"].astype("str"))
    facts: dict[str, pd.Series] = {
        name: runs[name] if name in runs else pd.Series(pd.NA, index=runs.index)
        for name in ("golden_hash", "k", "suite", "n_queries")
    }
    facts["chunker_version"] = chunker_versions(results)
    if (judges := judge_fingerprint(results)).ne("").any():
        facts["judge_fingerprint"] = judges.mask(judges == "")
    if "mode" in results.responses:
        modes = results.responses.groupby(results.responses["run_id"].astype("str"))["mode"]
        facts["mode"] = modes.agg(lambda found: ", ".join(sorted(found.dropna().unique())))
    rows = []
    for name, values in facts.items():
        pair = values.get(a), values.get(b)
        # judges with almost the same temperature agree, although their fingerprints differ
        agree = judges_agree(results, a, b) if name == "judge_fingerprint" else equal(*pair)
        is_known = not any(pd.isna(value) for value in pair)
        if name == "judge_fingerprint" and is_known and not agree:
            is_known = judges_contradict(results, a, b)
        state = "unknown" if not is_known else "equal" if agree else "differs"
        rows.append([name, *(None if pd.isna(value) else str(value) for value in pair), state])
    return pd.DataFrame(rows, columns=["name", "baseline", "candidate", "state"])


def field_invariants(
    results: Results, columns: list[str], level: str, ignore: bool | str | list[str]
) -> pd.DataFrame:
    """One row per result field that a metric reads and only one run has.

    Columns: name, baseline, candidate, state.
    Different judges of these metrics are refused here, or warned of if ignored; `invariants_of` has
    their row. What one run doesn't state of its judges is warned of. Scoring both runs alike
    settles all other components of the provenance.
    """
    parts = recorded_parts(results, level)
    judges, fields = (
        {run_id: {component: part[component]} for run_id, part in parts.items()}
        for component in ("judge_fingerprint", "fields")
    )
    _refuse_unlike(judges, columns, ignore)
    found = check_provenance(fields, columns, True)[["component", "baseline", "candidate"]]
    return found.rename(columns={"component": "name"}).assign(state="differs").astype("str")


def check_judges(
    results: Results, a: str, b: str, columns: list[str], ignore: bool | str | list[str]
) -> None:
    """Refuse two runs whose judges of these metrics differ, or warn if that is ignored.

    What only one run states of its judges is warned of.
    """
    judges = judges_by_criterion(results)
    parts = {run_id: {"judge_fingerprint": judges.get(run_id, {})} for run_id in (a, b)}
    _refuse_unlike(parts, columns, ignore)


def _refuse_unlike(
    judges: dict[str, dict[str, Any]], columns: list[str], ignore: bool | str | list[str]
) -> None:
    remedy = ": judge both runs alike, name metrics that no judge measures"
    check_provenance(judges, columns, ignore, remedy=remedy)
    if unstated := unstated_judges(judges, columns):
        warn(f"only one of two runs states {name_list(unstated)}: their judges may differ")


def check_fingerprints(fingerprints: dict[str, str], ignore: bool | str | list[str]) -> None:
    """Refuse two reports that name different judges in a text, or warn if that is ignored.

    A report that names none ("") contradicts none, and is warned of beside one that does.
    """
    is_ignored = "judge_fingerprint" in check_ignored(ignore)
    (a, first), (b, second) = fingerprints.items()
    if first == second:
        return
    if not (first and second):
        silent, other = (a, b) if second else (b, a)
        warn(f"{silent} doesn't state its judges, {other} was judged by {first or second!r}")
        return
    text = f"{a} was judged by {first!r}, {b} by {second!r}"
    if not is_ignored:
        raise DataError(
            text,
            field="judge_fingerprint",
            allowed="reports of the same judges, or allow_different=['judge_fingerprint']",
        )
    warn(f"scores of different judges side by side: {text}")


def profile_invariants(
    results: Results, a: str, b: str, profile: Reading, ignore: bool | str | list[str]
) -> pd.DataFrame:
    """One row per config key that the harness of a profile wants equal and that either run states.

    Columns: name, baseline, candidate, state. Keys that differ are refused, or warned of if their
    component is ignored. A key that only one run states is warned of. What a run states of its
    judges doesn't count where both runs hold judgments of the same judges.
    """
    ignored, rows = check_ignored(ignore), []
    fingerprints = judge_fingerprint(results)
    are_judged = bool(fingerprints[a] and fingerprints[b])
    is_judged_alike = are_judged and judges_agree(results, a, b)
    stated = {run_id: _stated(results, run_id) for run_id in (a, b)}
    for key, component in COMPARISONS[profile.name].must_agree.items():
        first, second = (stated[run_id].get(key) for run_id in (a, b))
        if first is None and second is None:
            continue
        if component == "judge_fingerprint" and is_judged_alike:
            state = "equal"
        elif first is None or second is None:
            state = "unknown"
            if component == "judge_fingerprint" and are_judged:
                continue  # the judgments tell, and are looked at where they count
            silent, other = (a, b) if first is None else (b, a)
            known = dumped(second if first is None else first)
            warn(f"{silent} doesn't state its {key}, which is {known} in {other}")
        else:
            are_numbers = all(isinstance(value, (int, float)) for value in (first, second))
            # numbers to within 0.001, as temperatures of judges are
            agree = same_temperature(first, second) if are_numbers else first == second
            state = "equal" if agree else "differs"
        if state == "differs":
            text = f"{key} is {dumped(first)} in {a}, and {dumped(second)} in {b}"
            if component not in ignored:
                raise DataError(
                    text,
                    field=component,
                    allowed=f"runs that agree in it, or allow_different=['{component}']",
                )
            warn(text)
        texts = (None if value is None else str(value) for value in (first, second))
        rows.append([key, *texts, state])
    return pd.DataFrame(rows, columns=["name", "baseline", "candidate", "state"], dtype="str")


def _stated(results: Results, run_id: str) -> dict[str, Any]:
    """Return what a run's config states, else what its file of metrics does; null is unknown."""
    runs = results.runs.set_index(results.runs["run_id"].astype("str"))
    beside = {str(name).removeprefix("x_"): value for name, value in runs.loc[run_id].items()}
    found = beside | _flat_config(results, run_id)
    return {key: value for key, value in found.items() if pd.notna(value)}


def config_diff(results: Results, baseline: str, candidate: str) -> pd.DataFrame:
    """One row per config key whose value differs between two runs.

    `key` (nested ones dotted), `baseline`, `candidate` as text; NA = absent. A config that is
    not JSON is one value, of the key `config`.

    Parameters
    ----------
    baseline, candidate
        Each a run_id, or a system that only one run has.

    Raises
    ------
    DataError
        An unknown run.
    """
    check_type(results, Results, "results")
    run_ids = run_names(results.runs, [baseline, candidate])
    first, second = (_flat_config(results, run_id) for run_id in run_ids)
    rows = []
    for key in dict.fromkeys([*first, *second]):
        values = [dumped(config[key]) if key in config else None for config in (first, second)]
        if values[0] != values[1]:
            plain = [
                config[key] if isinstance(config.get(key), str) else value
                for config, value in zip((first, second), values, strict=True)
            ]
            # 5 and "5" differ, and must not look the same.
            rows.append([key, *(values if plain[0] == plain[1] else plain)])
    return pd.DataFrame(rows, columns=["key", "baseline", "candidate"], dtype="str")


def flag_declared(
    differing: pd.DataFrame, results: Results, a: str, b: str, vary: list[str] | str | None
) -> pd.DataFrame:
    """Add the column `declared`, True for keys that `vary` names; warn if other keys differ.

    Without `vary` the frame is returned as it is.
    """
    if vary is None:
        return differing
    names = names_of(vary, "vary", "config keys")
    known = dict.fromkeys(key for run_id in (a, b) for key in _flat_config(results, run_id))
    unknown = [name for name in names if not any(_is_within(key, name) for key in known)]
    if unknown:
        raise DataError(
            f"no config key {name_list(unknown)}",
            field="vary",
            allowed=nearest(unknown[0], known, "there are"),
        )
    is_declared = [any(_is_within(key, name) for name in names) for key in differing["key"]]
    flagged = differing.assign(declared=pd.array(is_declared, dtype="bool"))
    rest = flagged.loc[~flagged["declared"], "key"].tolist()
    if rest:
        warn(f"{b} differs from {a} in more than vary= declares: {', '.join(rest)}")
    return flagged


def flat_configs(results: Results, run_ids: list[str]) -> dict[str, dict[str, str]]:
    """Return each run's config by run id: dotted keys with their values as JSON text."""
    return {
        run_id: {key: dumped(value) for key, value in _flat_config(results, run_id).items()}
        for run_id in run_ids
    }


def _flat_config(results: Results, run_id: str) -> dict[str, Any]:
    runs = results.runs.set_index(results.runs["run_id"].astype("str"))
    return flat(parsed(runs["config"].get(run_id))) if "config" in runs else {}


def _is_within(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")

"""What differs between two runs besides their scores: invariants and config keys.

In: `Results` of both runs. Out: frames with one row per name and a column per run. Invariants
(golden set, k, chunker version, judges, ...) should be equal for a comparison to be fair.
"""

from typing import Any

import pandas as pd

from ragscore.analysis.comparison.profile_report import HarnessComparison
from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import name_list, names_of, nearest, warn
from ragscore.frames.kinds import dumped, flat, parsed
from ragscore.scoring.level import chunker_versions
from ragscore.scoring.provenance import (
    agree,
    check_ignored,
    check_provenance,
    judge_fingerprint,
    judges_of_scores,
    relevant,
)

COLUMNS = ("name", "baseline", "candidate", "state")
JUDGES = "judge_fingerprint"


def invariants_of(results: Results, a: str, b: str) -> pd.DataFrame:
    """One row per invariant: its `name`, both contents and `state` (equal, differs, unknown).

    `baseline` and `candidate` hold them as text, None = unknown.
    """
    runs = results.runs.set_index(results.runs["run_id"].astype("str"))
    facts: dict[str, pd.Series] = {
        name: runs.get(name, pd.Series(pd.NA, index=runs.index))
        for name in ("golden_hash", "k", "suite", "n_queries")
    }
    facts["chunker_version"] = chunker_versions(results)
    if (judges := judge_fingerprint(results)).ne("").any():
        facts[JUDGES] = judges.mask(judges == "")
    by_criterion = judges_of_scores(results)
    if "mode" in results.responses:
        modes = results.responses.groupby(results.responses["run_id"].astype("str"))["mode"]
        facts["mode"] = modes.agg(lambda found: ", ".join(sorted(found.dropna().unique())))
    rows = []
    for name, values in facts.items():
        first, second = (None if pd.isna(values.get(run)) else values[run] for run in (a, b))
        state = _state(first, second)
        if name == JUDGES and {a, b} <= by_criterion.keys():
            state = _compare_judges(by_criterion[a], by_criterion[b])
        rows.append(_row(name, first, second, state))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def profile_invariants(
    results: Results, a: str, b: str, harness: HarnessComparison, ignore: bool | str | list[str]
) -> pd.DataFrame:
    """One row per config key that a harness wants equal and that a run states.

    What runs state of their judges doesn't count where both hold judgments of the same judges.
    """
    judges, rows = judges_of_scores(results), []
    are_judged = {a, b} <= judges.keys()
    is_alike = are_judged and _compare_judges(judges[a], judges[b]) == "equal"
    first, second = (_stated(results, run_id) for run_id in (a, b))
    for key, component in harness.must_agree.items():
        pair = first.get(key), second.get(key)
        if component == JUDGES and are_judged and (is_alike or None in pair):
            state = "equal" if is_alike else "unknown"  # the judgments show it
        else:
            state = agreed(key, {a: pair[0], b: pair[1]}, component, ignore)
        if pair != (None, None):
            rows.append(_row(key, *pair, state))
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype="str")


def agreed(
    name: str, stated: dict[str, Any], component: str, ignore: bool | str | list[str]
) -> str:
    """Return the state of what two runs must agree in: equal, differs, unknown.

    A difference is refused, or warned of if its component is ignored; and what only one of them
    states is warned of.
    """
    (a, first), (b, second) = stated.items()
    state = _state(first, second)
    if state == "unknown" and first != second:
        silent, other, known = (a, b, second) if first is None else (b, a, first)
        warn(f"{silent} doesn't state its {name}, which is {dumped(known)} in {other}")
    if state == "differs":
        text = f"{name} is {dumped(first)} in {a}, and {dumped(second)} in {b}"
        if component not in check_ignored(ignore):
            raise DataError(
                text, field=component,
                allowed=f"runs that agree in it, or allow_different=['{component}']",
            )  # fmt: skip
        warn(text)
    return state


def check_recorded(
    parts: dict[str, dict[str, Any]], columns: list[str], ignore: bool | str | list[str]
) -> pd.DataFrame:
    """One row per result field that a metric reads and only one run has; a warning names it.

    Different judges of these metrics are refused, or warned of if ignored. What one run doesn't
    state of its judges is warned of. Scoring both runs alike settles the rest of the provenance.

    Parameters
    ----------
    parts
        By run the components `judge_fingerprint` and `fields` of its provenance, or the first.
    """
    remedy = "runs judged alike, metrics that no judge measures"
    found = check_provenance(parts, columns, ignore, remedy=remedy)
    a, b = (relevant(one, columns)["judge_fingerprint"] for one in parts.values())
    if unstated := sorted(
        f"the {name.removeprefix('x_')} for {criterion}"
        for criterion, name in _settings_stated(a) ^ _settings_stated(b)
        if criterion in a and criterion in b
    ):
        warn(
            f"only one of {' and '.join(parts)} states {name_list(unstated)}: their judges may"
            " differ"
        )
    rows = found[found["component"].eq("fields").to_numpy()].assign(state="differs")
    return rows.rename(columns={"component": "name"})[list(COLUMNS)].astype("str")


def _compare_judges(a: dict[str, Any], b: dict[str, Any]) -> str:
    """Return whether two judged runs state the same judges: equal, differs, unknown.

    Judges of other criteria differ.
    """
    if a.keys() != b.keys() or not agree(a, b):
        return "differs"
    return "equal" if _settings_stated(a) == _settings_stated(b) else "unknown"


def _settings_stated(judges: dict[str, Any]) -> set[tuple[str, str]]:
    return {(criterion, name) for criterion, of in judges.items() for one in of for name in one}


def _state(first: Any, second: Any) -> str:
    """Return whether two facts are equal; None is unknown."""
    if first is None or second is None:
        return "unknown"
    return "equal" if agree(first, second) else "differs"


def _row(name: str, first: Any, second: Any, state: str) -> list[str | None]:
    return [name, *(None if value is None else str(value) for value in (first, second)), state]


def _stated(results: Results, run_id: str) -> dict[str, Any]:
    """Return what a run's config states, else what its file of metrics does; null is unknown."""
    run = results.runs[results.runs["run_id"].eq(run_id).to_numpy()].iloc[0]
    beside = {str(name).removeprefix("x_"): value for name, value in run.items()}
    found = beside | _flat_config(results, run_id)
    return {key: value for key, value in found.items() if pd.notna(value)}


def config_diff(results: Results, baseline: str, candidate: str) -> pd.DataFrame:
    """One row per config key whose value differs between two runs.

    `key` (nested ones dotted), `baseline`, `candidate` as text; NA = absent. A config that is
    not JSON is one value, of the key `config`.
    """
    first, second = (_flat_config(results, run_id) for run_id in (baseline, candidate))
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
    known = [*_flat_config(results, a), *_flat_config(results, b)]
    within = {key: [one for one in names if f"{key}.".startswith(f"{one}.")] for key in known}
    if unknown := [one for one in names if not any(one in of_key for of_key in within.values())]:
        raise DataError(
            f"no config key {name_list(unknown)}", field="vary",
            allowed=nearest(unknown[0], within, "there are"),
        )  # fmt: skip
    is_declared = [bool(within[key]) for key in differing["key"]]
    flagged = differing.assign(declared=pd.array(is_declared, dtype="bool"))
    if rest := flagged.loc[~flagged["declared"], "key"].tolist():
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

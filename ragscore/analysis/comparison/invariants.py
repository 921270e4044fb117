"""What differs between two runs besides their scores: invariants and config keys.

In: `Results` of both runs. Out: frames with one row per name and a column per run. Invariants
(golden set, k, chunker version, judges, ...) should be equal for a comparison to be fair.
"""

from typing import Any

import pandas as pd

from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import DataError, Results, check_type, run_names
from ragscore.frames.errors import name_list, names_of, nearest, warn
from ragscore.scoring.level import chunker_versions
from ragscore.scoring.provenance import (
    check_provenance,
    judge_fingerprint,
    judges_agree,
    recorded_parts,
)


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
        state = "unknown" if not is_known else "equal" if agree else "differs"
        rows.append([name, *(None if pd.isna(value) else str(value) for value in pair), state])
    return pd.DataFrame(rows, columns=["name", "baseline", "candidate", "state"])


def field_invariants(
    results: Results, columns: list[str], level: str, ignore: bool | list[str]
) -> pd.DataFrame:
    """One row per result field that a metric reads and only one run has.

    Columns: name, baseline, candidate, state.
    Different judges of these metrics are refused here, or warned of if ignored; `invariants_of` has
    their row. Scoring both runs alike settles all other components of the provenance.
    """
    parts = recorded_parts(results, level)
    judges, fields = (
        {run_id: {component: part[component]} for run_id, part in parts.items()}
        for component in ("judge_fingerprint", "fields")
    )
    check_provenance(judges, columns, ignore, remedy=": judge both runs alike")
    found = check_provenance(fields, columns, True)[["component", "baseline", "candidate"]]
    return found.rename(columns={"component": "name"}).assign(state="differs").astype("str")


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

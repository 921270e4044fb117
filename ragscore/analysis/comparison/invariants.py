"""What else differs between two runs: what should be equal, and every config key that isn't.

In: `Results`. Out: frames of names and both values.
"""

import warnings
from typing import Any

import pandas as pd

from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import DataError, Results, check_type
from ragscore.scoring.level import chunker_versions
from ragscore.scoring.provenance import (
    check_provenance,
    judge_fingerprint,
    judges_agree,
    recorded_parts,
)


def equal(a: Any, b: Any) -> bool:
    """Whether two facts are the same; two unknown ones are."""
    return (pd.isna(a) and pd.isna(b)) or (not pd.isna(a) and not pd.isna(b) and a == b)


def invariants_of(results: Results, a: str, b: str) -> pd.DataFrame:
    """What should be equal for two runs to be comparable.

    Name, a, b, state (equal, differs, unknown).
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
        facts["mode"] = results.responses.groupby(results.responses["run_id"].astype("str"))[
            "mode"
        ].agg(lambda modes: ", ".join(sorted(modes.dropna().unique())))
    rows = []
    for name, values in facts.items():
        value_a, value_b = values.get(a), values.get(b)
        agree = (
            judges_agree(results, a, b)
            if name == "judge_fingerprint"
            else bool(equal(value_a, value_b))
        )
        state = (
            "unknown" if pd.isna(value_a) or pd.isna(value_b) else "equal" if agree else "differs"
        )
        rows.append(
            {
                "name": name,
                "a": None if pd.isna(value_a) else str(value_a),
                "b": None if pd.isna(value_b) else str(value_b),
                "state": state,
            }
        )
    return pd.DataFrame(rows, columns=["name", "a", "b", "state"])


def diff_config(results: Results, a: str, b: str) -> pd.DataFrame:
    """Every config key whose value differs between two runs.

    `key` (nested ones dotted), `a`, `b` as text; NA = absent.

    A config that is not JSON is one value, of the key `config`.
    """
    check_type(results, Results, "results")
    both = [_flat_config(results, run_id) for run_id in (a, b)]
    rows = []
    for key in dict.fromkeys([*both[0], *both[1]]):
        values = [dumped(one[key]) if key in one else None for one in both]
        if values[0] != values[1]:
            plain = [
                one[key] if isinstance(one.get(key), str) else value
                for one, value in zip(both, values, strict=True)
            ]
            # 5 and "5" differ, and must not look the same.
            rows.append([key, *(values if plain[0] == plain[1] else plain)])
    return pd.DataFrame(rows, columns=["key", "a", "b"], dtype="str")


def declared(
    config_diff: pd.DataFrame, results: Results, a: str, b: str, vary: list[str] | str | None
) -> pd.DataFrame:
    """The differences with a flag for those that `vary` declares.

    As they are where nothing was declared.
    """
    if vary is None:
        return config_diff
    wanted = [vary] if isinstance(vary, str) else vary
    known = [key for run_id in (a, b) for key in _flat_config(results, run_id)]
    unknown = [name for name in wanted if not any(_is_within(key, name) for key in known)]
    if unknown:
        raise DataError(
            f"no config key {', '.join(unknown)}",
            field="vary",
            allowed=f"there are {', '.join(dict.fromkeys(known)) or 'none'}",
        )
    is_declared = [any(_is_within(key, name) for name in wanted) for key in config_diff["key"]]
    flagged = config_diff.assign(declared=pd.array(is_declared, dtype="bool"))
    rest = flagged.loc[~flagged["declared"], "key"].tolist()
    if rest:
        warnings.warn(
            f"{b} differs from {a} in more than vary= declares: {', '.join(rest)}",
            UserWarning,
            stacklevel=3,
        )
    return flagged


def _is_within(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def field_invariants(
    results: Results, columns: list[str], level: str, ignore: bool | list[str]
) -> pd.DataFrame:
    """Invariants of the ruler that scoring both runs alike doesn't settle.

    Judges, refused if they differ, and result fields, warned of.

    The judges have their line among the invariants already.
    """
    parts = recorded_parts(results, level)
    judges = {
        run_id: {"judge_fingerprint": part["judge_fingerprint"]} for run_id, part in parts.items()
    }
    check_provenance(judges, columns, ignore, remedy=": judge both runs alike")
    fields = {run_id: {"fields": part["fields"]} for run_id, part in parts.items()}
    found = check_provenance(fields, columns, True)[["component", "a", "b"]]
    return found.rename(columns={"component": "name"}).assign(state="differs").astype("str")


def _flat_config(results: Results, run_id: str) -> dict[str, Any]:
    runs = results.runs.set_index(results.runs["run_id"].astype("str"))
    return flat(parsed(runs["config"].get(run_id))) if "config" in runs else {}


def flat_configs(results: Results, run_ids: list[str]) -> dict[str, dict[str, str]]:
    """Run id -> its config's keys, nested ones dotted, with their values as JSON text."""
    return {
        run_id: {key: dumped(value) for key, value in _flat_config(results, run_id).items()}
        for run_id in run_ids
    }

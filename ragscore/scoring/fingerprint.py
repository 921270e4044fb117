"""Who judged.

A fingerprint of the judges behind a run's judgments, so that only scores of the same judges are
compared.
"""

from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Results, run_names

REPORTED = "x_judge_fingerprint"  # what another tool wrote of its judges
PARTS = (
    "criterion",
    "judge",
    "prompt_hash",
    "x_prompt_version",
    "x_embedding_model",
    "x_context_order",
    "temperature",
)
SAME_TEMPERATURE = 0.001  # temperatures up to this far apart are the same


def judge_fingerprint(results: Results) -> pd.Series:
    """The judges of each run, as one text.

    Returns
    -------
    One text per run (index run_id): `criterion:judge:prompt_hash:prompt version:embedding
    model:temperature` of every distinct setting, parts that aren't known left out, sorted and
    joined with `|`; what another tool wrote of its judges where there are no judgments here; ""
    where nobody judged.
    """
    run_ids = results.runs["run_id"].astype("str")
    reported = (
        results.runs[REPORTED].fillna("")
        if REPORTED in results.runs
        else pd.Series("", index=results.runs.index)
    )
    found = pd.Series(
        reported.astype("str").to_numpy(),
        index=pd.Index(run_ids, name="run_id"),
        dtype="str",
        name="judge_fingerprint",
    )
    if results.judgments is None or not len(results.judgments):
        return found
    rows = results.judgments
    parts = [rows[name].map(_text, na_action="ignore") for name in PARTS if name in rows]
    table = (
        pd.concat(parts, axis=1)
        .astype("str")
        .assign(run_id=rows["run_id"].astype("str"))
        .drop_duplicates()
    )
    names = [name for name in table.columns if name != "run_id"]
    settings = [
        ":".join(value for value in row if isinstance(value, str))
        for row in table[names].itertuples(index=False)
    ]
    joined = (
        pd.Series(settings, index=table["run_id"])
        .groupby(level=0)
        .agg(lambda one: "|".join(sorted(set(one))))
    )
    found.loc[joined.index] = joined
    return found


def same_judges(results: Results, a: str, b: str) -> str:
    """The fingerprint that two runs share (the first run's, where temperatures differ by no more than 0.001).

    Raises
    ------
    DataError
        Their judges differ, or only one run was judged: the scores they gave can't be compared.
    """
    names = run_names(results.runs, [a, b])
    first, second = (str(judge_fingerprint(results)[name]) for name in names)
    if not judges_agree(results, *names):
        raise DataError(
            f"{names[0]} was judged by {first or 'nobody'!r}, {names[1]} by {second or 'nobody'!r}",
            field="judgments",
            allowed="the same judges",
        )
    return first


def judges_agree(results: Results, a: str, b: str) -> bool:
    """Whether the judges of two runs (run ids) are the same, their temperatures to within 0.001.

    Nobody agrees with nobody.
    """
    fingerprints = judge_fingerprint(results)
    if fingerprints[a] == fingerprints[b]:
        return True
    first, second = (_settings(results, run_id) for run_id in (a, b))
    texts = [name for name in PARTS if name != "temperature"]
    if not len(first) or len(first) != len(second) or not first[texts].equals(second[texts]):
        return False
    close = np.isclose(
        first["temperature"],
        second["temperature"],
        rtol=0,
        atol=SAME_TEMPERATURE + 1e-12,
        equal_nan=True,
    )
    return bool(close.all())


def judges_by_criterion(results: Results) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The judges of each run by criterion.

    Every distinct setting, in order, with what is known of judge, prompt and temperature.
    """
    judges: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for run_id in results.runs["run_id"].astype("str"):
        for setting in _settings(results, run_id).to_dict("records"):
            criterion = str(setting.pop("criterion"))
            judges.setdefault(run_id, {}).setdefault(criterion, []).append(
                {str(name): value for name, value in setting.items() if not pd.isna(value)}
            )
    return judges


def settings_agree(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> bool:
    """Whether two lists of settings are the same, temperatures to within 0.001."""
    return len(a) == len(b) and all(_agrees(one, other) for one, other in zip(a, b, strict=True))


def settings_text(settings: list[dict[str, Any]]) -> str:
    """Settings as a fingerprint writes them."""
    return "|".join(":".join(_text(value) for value in one.values()) for one in settings)


def _agrees(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        (
            abs(a[name] - b[name]) <= SAME_TEMPERATURE + 1e-12
            if name == "temperature"
            else a[name] == b[name]
        )
        for name in a
    )


def _settings(results: Results, run_id: str) -> pd.DataFrame:
    """The distinct settings of a run's judges, in order."""
    rows = results.judgments if results.judgments is not None else pd.DataFrame(columns=["run_id"])
    found = rows[rows["run_id"].astype("str") == run_id].reindex(columns=list(PARTS))
    texts = {name: "str" for name in PARTS if name != "temperature"}
    return (
        found.astype(texts | {"temperature": "float64"})
        .drop_duplicates()
        .sort_values(list(PARTS), ignore_index=True)
    )


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

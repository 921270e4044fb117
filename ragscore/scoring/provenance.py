"""Rulers.

A fingerprint of what measures, so that a change of the labels is not taken for one of the system.

In: results and golden set, or what a store kept of them. Out: one hash and text per run and
component; a refusal to set side by side what was measured by different rulers.

Who judged.

A fingerprint of the judges behind a run's judgments, so that only scores of the same judges are
compared.
"""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_inputs, run_names
from ragscore.frames.errors import warn
from ragscore.frames.golden_versions import golden_digest, query_parts, short_hash
from ragscore.scoring.grading import READS_TEXT
from ragscore.scoring.judgments import CRITERIA, FAILED
from ragscore.scoring.matching import Rule
from ragscore.scoring.metrics import BY_NAME, DEFAULT_METRICS, describe
from ragscore.scoring.profiles import Profile
from ragscore.scoring.score import scoring
from ragscore.scoring.value_states import OF_GIVEN_ANSWER, OF_REFUSAL, label_of

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


COMPONENTS = ("golden", "rule", "policies", "judge_fingerprint", "metric_versions", "fields")
_RANKING = "(ranking)"
FIELDS = {
    "responses.refused": (*OF_REFUSAL, *OF_GIVEN_ANSWER, "passed", "empty_response"),
    "responses.grounded": ("citation_coverage", "citation_coverage_weak"),
    "responses.scope": ("citation_out_of_scope",),
    "chunks": ("citation_coverage", "citation_out_of_scope"),
    "hits.chunk_id": ("citation_coverage", "citation_fabricated", "retrieved_cited"),
    "citations.chunk_id": (
        "citation_coverage",
        "citation_fabricated",
        "citation_precision",
        "citation_recall",
        "retrieved_cited",
    ),
    "hits.text": (_RANKING, "passed", "scope_miss_proxy"),
}
"""Result field -> metrics that are measured otherwise without it. One that only leaves them NaN is not here: that shows."""

Parts = dict[str, Any]


def ruler(
    results: Results,
    golden: Golden,
    metrics: list[str] | str | None = None,
    *,
    rule: Rule | None = None,
    profile: str | Profile | None = None,
    **policies: str,
) -> pd.DataFrame:
    """What these runs are measured by: two values with the same ruler differ because of the system.

    Parameters
    ----------
    metrics
        Labels, or one; by default all default metrics. They decide which versions, judges and
        fields count.
    rule, profile, policies
        As for `rs.score`.

    Returns
    -------
    One row per run and component, with its `hash` and its `content` in words. Components: *golden*,
    what is asked and expected, query by query (tags and other notes left out); *rule* and match
    level; *policies*; *judge_fingerprint*, judge, prompt and temperature of every criterion among
    the metrics; *metric_versions*; *fields*, which result fields are there that decide how a metric
    is measured (NA content: nothing among these metrics hangs on it).

    Raises
    ------
    DataError
        An unknown metric, policy or profile.
    """
    check_inputs(results, golden)
    labels = [metrics] if isinstance(metrics, str) else metrics or DEFAULT_METRICS
    parts = provenance_parts(
        results, golden, labels, scoring(results, golden, rule=rule, profile=profile, **policies)
    )
    return provenance_frame(parts, labels).astype({"run_id": results.runs["run_id"].dtype})


def provenance_parts(
    results: Results, golden: Golden, columns: Iterable[str], about: pd.DataFrame
) -> dict[str, Parts]:
    """The ruler of each run by component, as JSON holds it; `about` is from `rs.scoring`."""
    asked, versions = (
        f"{len(golden.queries)} queries, content {golden_digest(query_parts(golden))}",
        _versions(columns),
    )
    level = str(about["level"].iloc[0]) if len(about) else "doc"
    recorded = recorded_parts(results, level)
    parts = {}
    for made in about.to_dict("records"):
        profile = {} if pd.isna(made["profile"]) else {"profile": made["profile"]}
        policies = {**json.loads(made["policies"]), **profile}
        measured = {
            "golden": asked,
            "rule": f"{level}: {made['rule']}",
            "policies": policies,
            "metric_versions": versions,
        }
        parts[str(made["run_id"])] = {**measured, **recorded[str(made["run_id"])]}
    return parts


def recorded_parts(results: Results, level: str) -> dict[str, Parts]:
    """The components of each run's ruler that lie in its results.

    Judges by criterion, and which fields are there.
    """
    judged = judges_by_criterion(results)
    run_ids = results.runs["run_id"].astype("str")
    fields = fields_of(results, level).to_dict("index")
    return {
        run_id: {"judge_fingerprint": judged.get(run_id, {}), "fields": fields[run_id]}
        for run_id in run_ids
    }


def _versions(columns: Iterable[str]) -> dict[str, int]:
    """The formula's version of each of our metrics among these columns, by its name in the table."""
    found = [describe(name) for name in columns]
    return {metric.name: metric.version for metric in found if metric.name in BY_NAME}


def fields_of(results: Results, level: str) -> pd.DataFrame:
    """Which fields of FIELDS the results of each run have.

    Runs by fields; None where a run has nothing that could carry them.
    """
    rows = {
        name: frame
        for name in ("responses", "hits", "citations")
        if (frame := getattr(results, name)) is not None
    }
    answers = rows["responses"]
    rows["responses"] = (
        answers[answers["answer"].notna().to_numpy()] if "answer" in answers else answers.iloc[:0]
    )
    found: dict[str, list[bool | None]] = {}
    for field in FIELDS:
        frame, _, column = field.partition(".")
        if field == "chunks":
            found[field] = _there(
                _n_of_runs(results, results.chunks) > 0, _n_of_runs(results, rows["citations"])
            )
        elif field == "hits.text" and level not in (*READS_TEXT, "per_query"):
            found[field] = [None] * len(results.runs)
        else:
            carried = (
                rows[frame][rows[frame][column].notna().to_numpy()]
                if column in rows[frame]
                else None
            )
            found[field] = _there(
                _n_of_runs(results, carried) > 0, _n_of_runs(results, rows[frame])
            )
    return pd.DataFrame(found, index=results.runs["run_id"].astype("str"), dtype=object)


def _there(is_there: npt.NDArray[np.bool_], n_rows: npt.NDArray[np.int64]) -> list[bool | None]:
    return [bool(there) if n else None for there, n in zip(is_there, n_rows, strict=True)]


def _n_of_runs(results: Results, frame: pd.DataFrame | None) -> npt.NDArray[np.int64]:
    """How many rows of a frame each run has; rows of no run in particular are everybody's."""
    n_runs = len(results.runs)
    if frame is None:
        return np.zeros(n_runs, dtype=np.int64)
    codes = frame["run_id"].cat.codes.to_numpy() if "run_id" in frame else np.full(len(frame), -1)
    return np.bincount(codes[codes >= 0], minlength=n_runs) + int((codes < 0).sum())


def provenance_frame(parts: dict[str, Parts], columns: Iterable[str]) -> pd.DataFrame:
    """The rulers of several runs as a frame; see `ruler`."""
    names = list(columns)
    rows = []
    for run_id, of_run in parts.items():
        for component in COMPONENTS:
            content = content_of(of_run, component, names)
            text = json.dumps(content, sort_keys=True, ensure_ascii=False)
            rows.append(
                [run_id, component, short_hash(text) if content else None, _in_words(content)]
            )
    return pd.DataFrame(rows, columns=["run_id", "component", "hash", "content"], dtype="str")


def check_provenance(
    parts: dict[str, Parts],
    columns: Iterable[str],
    ignore: bool | list[str],
    *,
    details: str = "",
    remedy: str = "",
) -> pd.DataFrame:
    """Refuse runs that were measured by different rulers.

    Components to be ignored are warned of instead.

    Returns
    -------
    One row per component that differs between any two of the runs: component, `run_a`, `run_b`,
    their contents `a`, `b`.

    Raises
    ------
    DataError
        A component differs that isn't ignored: it is named with both contents. `ignore` names no
        component.
    """
    ignored = check_ignored(ignore)
    names = list(columns)
    found = [
        row
        for component in COMPONENTS
        if (row := _first_difference(parts, component, names)) is not None
    ]
    for component, run_a, run_b, a, b in found:
        said = f"{run_a} was measured by {a}, {run_b} by {b}" + (
            f" ({details})" if details and component == "golden" else ""
        )
        if component not in ignored:
            raise DataError(
                said,
                field=component,
                allowed=f"one ruler{remedy}, or allow_different=['{component}']",
            )
        warn(f"scores of different rulers side by side: {component}: {said}")
    return pd.DataFrame(found, columns=["component", "run_a", "run_b", "a", "b"], dtype="str")


def check_ignored(ignore: bool | list[str]) -> tuple[str, ...]:
    """The components that `allow_different` names."""
    if isinstance(ignore, bool):
        return COMPONENTS if ignore else ()
    unknown = [
        name for name in ([ignore] if isinstance(ignore, str) else ignore) if name not in COMPONENTS
    ]
    if unknown:
        raise DataError(
            f"found {', '.join(map(repr, unknown))}",
            field="allow_different",
            allowed=f"True, False, or some of {', '.join(COMPONENTS)}",
        )
    return (ignore,) if isinstance(ignore, str) else tuple(ignore)


def _first_difference(
    parts: dict[str, Parts], component: str, columns: list[str]
) -> tuple[str, str, str, str, str] | None:
    """The first two runs whose contents of a component contradict each other.

    What is unknown contradicts nothing.
    """
    known: dict[str, tuple[str, Any]] = {}
    for run_id, of_run in parts.items():
        content = content_of(of_run, component, columns)
        for key, value in (content if isinstance(content, dict) else {"": content}).items():
            other_id, other = known.setdefault(key, (run_id, value))
            if not _agree(other, value):
                named = f"{key} = " if key else ""
                return (
                    component,
                    other_id,
                    run_id,
                    f"{named}{_shown(other)}",
                    f"{named}{_shown(value)}",
                )
    return None


def _agree(a: Any, b: Any) -> bool:
    return settings_agree(a, b) if isinstance(a, list) and isinstance(b, list) else bool(a == b)


def content_of(parts: Parts, component: str, columns: list[str]) -> Any:
    """What a component says of these metric columns.

    Keys that are unknown, or that none of them hangs on, left out.
    """
    content = parts.get(component)
    if content is None:
        return {}
    labels = [label_of(name) for name in columns]
    names = {label.name for label in labels}
    if component == "policies":  # the level that `match` led to is the rule's
        return {key: value for key, value in content.items() if key != "match"}
    if component == "judge_fingerprint":
        wanted = CRITERIA if FAILED in names else [name for name in CRITERIA if name in names]
        return {name: content[name] for name in wanted if name in content}
    if component == "metric_versions":
        return {name: version for name, version in content.items() if name in _versions(columns)}
    if component == "fields":
        names |= {_RANKING} if any(label.is_ranking for label in labels) else set()
        return {
            name: there
            for name, there in content.items()
            if there is not None and names & set(FIELDS.get(name, ()))
        }
    return content


def _in_words(content: Any) -> str | None:
    if not isinstance(content, dict):
        return str(content)
    return ", ".join(f"{key} {_shown(value)}" for key, value in content.items()) or None


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return repr(settings_text(value))
    return (
        {True: "recorded", False: "not recorded"}[value]
        if isinstance(value, bool)
        else str(value)
        if isinstance(value, int)
        else repr(str(value))
    )

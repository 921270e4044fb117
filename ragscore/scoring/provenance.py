"""Provenance: a fingerprint of how scores were measured, and by which judges.

A change of labels, settings or judges is then not taken for one of the system. In: results and
golden set, or what a store recorded of them. Out: one hash and text per run and component; a
refusal to compare scores of different provenance.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_inputs, run_names
from ragscore.frames.errors import name_list, names_of, nearest, warn
from ragscore.frames.golden_versions import golden_digest, query_parts, short_hash
from ragscore.scoring.citations import has_value
from ragscore.scoring.grading import READS_TEXT
from ragscore.scoring.judgments import FAILED, judged_metrics
from ragscore.scoring.metrics import (
    BY_NAME,
    CRITERIA,
    NOTHING_DECLARED,
    OF_NUGGETS,
    TABLE,
    Declarations,
    default_metrics,
)
from ragscore.scoring.policies import Policies
from ragscore.scoring.profiles import Profile
from ragscore.scoring.rules import Rule
from ragscore.scoring.score import scoring
from ragscore.scoring.success import PASSED, VERDICT

Parts = dict[str, Any]

COMPONENTS = ("golden", "rule", "policies", "judge_fingerprint", "metric_versions", "fields")
_RANKING = "(ranking)"
# Result fields that only some systems have, and `passed` looks at where they are there. Scores of
# runs with and without them stand side by side, with a warning.
OF_ANSWERS = ("responses.answer", f"judgments.{VERDICT}")
# Result field -> metrics that are measured otherwise without it. A field whose absence only leaves
# them NaN is not here: that shows.
_NAMES = (
    "responses.refused", "responses.grounded", "responses.scope", "chunks", "hits.chunk_id",
    "citations.chunk_id", "hits.text", *OF_ANSWERS,
)  # fmt: skip
FIELDS = {
    field: tuple(metric.name for metric in TABLE if metric.is_unlike_without(field))
    for field in _NAMES
}
FIELDS["hits.text"] += (_RANKING,)
REPORTED = "x_judge_fingerprint"  # column of the runs: another tool's own fingerprint of its judges
PARTS = (
    "criterion", "judge", "prompt_hash", "x_prompt_version", "x_embedding_model",
    "x_context_order", "temperature",
)  # fmt: skip
SAME_TEMPERATURE = 0.001  # temperatures up to this far apart are the same
_ROUNDING = 1e-12  # so that 0.701 and 0.7 are


def provenance(
    results: Results,
    golden: Golden,
    metrics: list[str] | str | None = None,
    *,
    rule: Rule | None = None,
    profile: str | Profile | None = None,
    policies: Policies | None = None,
    declared: Declarations = NOTHING_DECLARED,
    **fields: Any,
) -> pd.DataFrame:
    """Describe how these runs are measured; see `Evaluation.provenance`."""
    check_inputs(results, golden)
    if metrics is None:
        labels = default_metrics(judged_metrics(results.judgments))
    else:
        labels = names_of(metrics, "metrics")
    described = scoring(results, golden, rule=rule, profile=profile, policies=policies, **fields)
    frame = provenance_frame(provenance_parts(results, golden, labels, described, declared), labels)
    return frame.astype({"run_id": results.runs["run_id"].dtype})


def provenance_parts(
    results: Results,
    golden: Golden,
    columns: Iterable[str],
    described: pd.DataFrame,
    declared: Declarations = NOTHING_DECLARED,
) -> dict[str, Parts]:
    """Return the provenance of each run by component, as JSON holds it.

    Parameters
    ----------
    described
        The scoring, from `ev.settings`.
    """
    content = golden._once("digest", lambda: golden_digest(query_parts(golden)))
    versions = metric_versions(columns, declared)
    level = str(described["level"].iloc[0]) if len(described) else "doc"
    recorded = recorded_parts(results, level)
    parts = {}
    for of_run in described.to_dict("records"):
        profile = {} if pd.isna(of_run["profile"]) else {"profile": of_run["profile"]}
        measured = {
            "golden": f"{len(golden.queries)} queries, content {content}",
            "rule": f"{level}: {of_run['rule']}",
            "policies": {**json.loads(of_run["policies"]), **profile},
            "metric_versions": versions,
        }
        run_id = str(of_run["run_id"])
        parts[run_id] = {**measured, **recorded[run_id]}
    return parts


def recorded_parts(results: Results, level: str) -> dict[str, Parts]:
    """Return the components that lie in the results: judges by criterion, and fields present."""
    judges = judges_by_criterion(results)
    return {
        str(run_id): {"judge_fingerprint": judges.get(str(run_id), {}), "fields": fields}
        for run_id, fields in fields_of(results, level).to_dict("index").items()
    }


def metric_versions(
    columns: Iterable[str], declared: Declarations = NOTHING_DECLARED
) -> dict[str, int | str]:
    """Return the formula's version of each metric by its name; of your own, a hash of it."""
    described = [declared.describe(name) for name in columns]
    known = [metric for metric in described if metric.source or metric.name in BY_NAME]
    return {metric.name: metric.source or metric.version for metric in known}


def fields_of(results: Results, level: str) -> pd.DataFrame:
    """Return which of FIELDS the results of each run have: runs by fields.

    None where a run has nothing that could carry a field.
    """
    responses, judgments = results.responses, results.judgments
    answers = responses[has_value(responses, "answer")]
    frames = {"responses": answers, "hits": results.hits, "citations": results.citations}
    found: dict[str, list[bool | None]] = {}
    for field in FIELDS:
        name, _, column = field.partition(".")
        if field == "hits.text" and level not in (*READS_TEXT, "per_query"):
            found[field] = [None] * len(results.runs)
            continue
        if field == "chunks":
            carriers, carried = results.citations, results.chunks
        elif field == "responses.answer":
            carriers, carried = responses[~has_value(responses, "error")], answers
        elif name == "judgments":
            carriers, carried = answers, None
            if judgments is not None:
                carried = judgments[judgments["criterion"].eq(column).to_numpy(dtype=bool)]
        else:
            carriers = frames[name]
            carried = carriers[has_value(carriers, column)]
        found[field] = [
            bool(n_carried) if n_carriers else None
            for n_carried, n_carriers in zip(
                _rows_per_run(results, carried), _rows_per_run(results, carriers), strict=True
            )
        ]
    return pd.DataFrame(found, index=results.runs["run_id"].astype("str"), dtype=object)


def _rows_per_run(results: Results, frame: pd.DataFrame | None) -> npt.NDArray[np.int64]:
    """Count the rows of a frame that each run has; rows of no run in particular count for all."""
    n_runs = len(results.runs)
    if frame is None:
        return np.zeros(n_runs, dtype=np.int64)
    codes = frame["run_id"].cat.codes.to_numpy() if "run_id" in frame else np.full(len(frame), -1)
    return np.bincount(codes[codes >= 0], minlength=n_runs) + int((codes < 0).sum())


def provenance_frame(parts: dict[str, Parts], columns: Iterable[str]) -> pd.DataFrame:
    """Return the provenance of several runs as a frame; see `provenance`."""
    names, rows = list(columns), []
    for run_id, of_run in parts.items():
        for component in COMPONENTS:
            content = content_of(of_run, component, names)
            text = json.dumps(content, sort_keys=True, ensure_ascii=False)
            words: str | None = str(content)
            if isinstance(content, dict):
                listed = [f"{key} {_shown(value)}" for key, value in content.items()]
                words = ", ".join(listed) or None
            rows.append([run_id, component, short_hash(text) if content else None, words])
    return pd.DataFrame(rows, columns=["run_id", "component", "hash", "content"], dtype="str")


def check_provenance(
    parts: dict[str, Parts],
    columns: Iterable[str],
    ignore: bool | str | list[str],
    *,
    details: str = "",
    remedy: str = "",
) -> pd.DataFrame:
    """Refuse runs whose scores differ in provenance; warn of components to be ignored.

    Returns
    -------
    One row per component that differs between any two of the runs: component, `run_baseline`,
    `run_candidate`, their contents `baseline`, `candidate`.

    Raises
    ------
    DataError
        A component differs that isn't ignored: it is named with both contents. `ignore` names no
        component.
    """
    ignored, names = check_ignored(ignore), list(columns)
    found = [
        row
        for component in COMPONENTS
        if (row := _first_difference(parts, component, names)) is not None
    ]
    for component, first, second, by_first, by_second in found:
        text = f"{first} was measured by {by_first}, {second} by {by_second}"
        if details and component == "golden":
            text += f" ({details})"
        if is_of_answers := by_first.partition(" = ")[0] in OF_ANSWERS:
            text += "; found looks at hits alone, passed at answers, too"
        if component not in ignored and not is_of_answers:
            raise DataError(
                text,
                field=component,
                allowed=f"equal provenance{remedy}, or allow_different=['{component}']",
            )
        warn(f"scores of different provenance side by side: {component}: {text}")
    columns = ["component", "run_baseline", "run_candidate", "baseline", "candidate"]
    return pd.DataFrame(found, columns=columns, dtype="str")


def check_ignored(ignore: bool | str | list[str]) -> tuple[str, ...]:
    """Return the components that `allow_different` names."""
    if isinstance(ignore, bool):
        return COMPONENTS if ignore else ()
    named = tuple(names_of(ignore, "allow_different", "True, False, or names of components"))
    if "all" in named:  # as on the command line
        return COMPONENTS
    unknown = [name for name in named if name not in COMPONENTS]
    if unknown:
        raise DataError(
            f"found {name_list(map(repr, unknown))}",
            field="allow_different",
            allowed=nearest(unknown[0], COMPONENTS, "True, False, or some of"),
        )
    return named


def _first_difference(
    parts: dict[str, Parts], component: str, columns: list[str]
) -> tuple[str, str, str, str, str] | None:
    """Return the first two runs whose contents of a component contradict each other.

    An unknown content contradicts nothing. Fields of answers come last.
    """
    of_answers = None
    known: dict[str, tuple[str, Any]] = {}
    for run_id, of_run in parts.items():
        content = content_of(of_run, component, columns)
        for key, value in (content if isinstance(content, dict) else {"": content}).items():
            other_id, other = known.setdefault(key, (run_id, value))
            if isinstance(other, list) and isinstance(value, list):
                is_same = _same_settings(other, value)
            else:
                is_same = bool(other == value)
            if not is_same:
                named = f"{key} = " if key else ""
                a, b = (f"{named}{_shown(one)}" for one in (other, value))
                found = component, other_id, run_id, a, b
                if key not in OF_ANSWERS:
                    return found
                of_answers = of_answers or found
    return of_answers


def content_of(parts: Parts, component: str, columns: list[str]) -> Any:
    """Return the content of a component, as far as these metric columns depend on it.

    Unknown keys are left out.
    """
    content = parts.get(component)
    if content is None:
        return {}
    labels = [NOTHING_DECLARED.label_of(name) for name in columns]
    names = {label.name for label in labels}
    if component == "policies":  # the level that `match` led to is the rule's
        return {key: value for key, value in content.items() if key != "match"}
    if component == "judge_fingerprint":
        names |= {VERDICT} if PASSED in names else set()
        names |= {"nuggets"} if names & set(OF_NUGGETS) else set()
        known = [name for name in CRITERIA if name in content]  # in the order of the table
        ordered = dict.fromkeys([*known, *content])
        return {name: content[name] for name in ordered if FAILED in names or name in names}
    if component == "metric_versions":
        ours, bases = metric_versions(columns), {re.split("[@:]", name)[0] for name in columns}
        return {
            name: version
            for name, version in content.items()
            if name in ours or (isinstance(version, str) and name.removesuffix("@k") in bases)
        }
    if component == "fields":
        names |= {_RANKING} if any(label.is_ranking for label in labels) else set()
        return {
            name: is_there
            for name, is_there in content.items()
            if is_there is not None and names & set(FIELDS.get(name, ()))
        }
    return content


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return repr(settings_text(value))
    if isinstance(value, bool):
        return "recorded" if value else "not recorded"
    return str(value) if isinstance(value, int) else repr(str(value))


def judge_fingerprint(results: Results) -> pd.Series:
    """Return the judges of each run, as one text.

    Returns
    -------
    One text per run (index run_id): `criterion:judge:prompt_hash:prompt version:embedding
    model:temperature` of every distinct setting, parts that aren't known left out, sorted and
    joined with `|`. Without judgments here: the text that another tool wrote of its judges, or ""
    where nobody judged.
    """
    runs, rows = results.runs, results.judgments
    index = pd.Index(runs["run_id"].astype("str"), name="run_id")
    found = pd.Series("", index=index, dtype="str", name="judge_fingerprint")
    if REPORTED in runs:
        found[:] = runs[REPORTED].fillna("").astype("str").to_numpy()
    if rows is None or not len(rows):
        return found
    parts = [rows[name].map(_text, na_action="ignore") for name in PARTS if name in rows]
    table = pd.concat(parts, axis=1).astype("str").assign(run_id=rows["run_id"].astype("str"))
    table = table.drop_duplicates()
    settings = [
        ":".join(value for value in row if isinstance(value, str))
        for row in table.drop(columns="run_id").itertuples(index=False)
    ]
    by_run = pd.Series(settings, index=table["run_id"]).groupby(level=0)
    joined = by_run.agg(lambda one: "|".join(sorted(set(one))))
    found.loc[joined.index] = joined
    return found


def same_judges(results: Results, a: str, b: str) -> str:
    """Return the fingerprint of the judges that two runs share.

    It is the first run's, where temperatures differ by no more than 0.001.

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
    """Tell if two runs (run ids) have the same judges, their temperatures to within 0.001.

    Two runs that nobody judged agree.
    """
    fingerprints = judge_fingerprint(results)
    if fingerprints[a] == fingerprints[b]:
        return True
    first, second = (_settings(results, run_id) for run_id in (a, b))
    texts = [name for name in PARTS if name != "temperature"]
    if not len(first) or len(first) != len(second) or not first[texts].equals(second[texts]):
        return False
    is_close = np.isclose(
        first["temperature"],
        second["temperature"],
        rtol=0,
        atol=SAME_TEMPERATURE + _ROUNDING,
        equal_nan=True,
    )
    return bool(is_close.all())


def judges_by_criterion(results: Results) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the judges of each run by criterion.

    Every distinct setting, in order, with what is known of judge, prompt and temperature.
    """
    judges: dict[str, dict[str, list[dict[str, Any]]]] = {}
    if results.judgments is None:
        return judges
    for run_id in results.runs["run_id"].astype("str"):
        for setting in _settings(results, run_id).to_dict("records"):
            criterion = str(setting.pop("criterion"))
            known = {str(name): value for name, value in setting.items() if not pd.isna(value)}
            judges.setdefault(run_id, {}).setdefault(criterion, []).append(known)
    return judges


def _same_settings(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> bool:
    """Tell if two lists of settings don't contradict each other.

    Temperatures are the same to within 0.001. What one side doesn't state contradicts nothing.
    """
    return len(a) == len(b) and all(
        same_temperature(one[name], other[name])
        if name == "temperature"
        else one[name] == other[name]
        for one, other in zip(a, b, strict=True)
        for name in one.keys() & other.keys()
    )


def same_temperature(a: float, b: float) -> bool:
    """Tell if two temperatures are the same, to within 0.001."""
    return bool(abs(a - b) <= SAME_TEMPERATURE + _ROUNDING)


def judges_contradict(results: Results, a: str, b: str) -> bool:
    """Tell if two judged runs state different judges; what one doesn't state contradicts nothing.

    Judges of other criteria, and those that another tool wrote of in a text, do.
    """
    judges = judges_by_criterion(results)
    first, second = judges.get(a, {}), judges.get(b, {})
    return (
        not first
        or first.keys() != second.keys()
        or not all(_same_settings(first[name], second[name]) for name in first)
    )


def unstated_judges(parts: dict[str, Parts], columns: list[str]) -> list[str]:
    """Return the parts of a judge's settings, by criterion, that some run states and another not.

    As texts such as `prompt_hash of the judge of faithfulness`.
    """
    found: dict[tuple[str, str], int] = {}
    n_judged: dict[str, int] = {}
    for of_run in parts.values():
        for criterion, judges in content_of(of_run, "judge_fingerprint", columns).items():
            n_judged[criterion] = n_judged.get(criterion, 0) + 1
            for name in {name for judge in judges for name in judge}:
                found[name, criterion] = found.get((name, criterion), 0) + 1
    return sorted(
        f"{name.removeprefix('x_')} of the judge of {criterion}"
        for (name, criterion), n in found.items()
        if n < n_judged[criterion]
    )


def settings_text(settings: list[dict[str, Any]]) -> str:
    """Return settings as a fingerprint writes them."""
    return "|".join(":".join(_text(value) for value in one.values()) for one in settings)


def _settings(results: Results, run_id: str) -> pd.DataFrame:
    """Return the distinct settings of a run's judges, in order."""
    rows = results.judgments if results.judgments is not None else pd.DataFrame(columns=["run_id"])
    found = rows[rows["run_id"].astype("str") == run_id].reindex(columns=list(PARTS))
    dtypes = dict.fromkeys(PARTS, "str") | {"temperature": "float64"}
    return found.astype(dtypes).drop_duplicates().sort_values(list(PARTS), ignore_index=True)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

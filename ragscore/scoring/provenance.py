"""Provenance: how scores were measured and by which judges, one dict a run.

A change of labels, settings or judges is then not taken for one of the system. Only what both sides
state is compared: what one doesn't state contradicts nothing.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import name_list, names_of, nearest, warn
from ragscore.frames.golden_versions import golden_digest, query_parts, short_hash
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.metrics.judged import FAILED
from ragscore.scoring.policies import Policies
from ragscore.scoring.rules import READS_TEXT, Rule, rule_name
from ragscore.scoring.score import Scored

Parts = dict[str, Any]
COMPONENTS = ("golden", "rule", "policies", "judge_fingerprint", "metric_versions", "fields")
_RANKING = "(ranking)"
_CITED = "citation_coverage citation_precision citation_recall citation_fabricated".split()
# Fields that `passed` looks at where they are there: runs with and without them stand side by side,
# with a warning.
OF_ANSWERS = ("responses.answer", "judgments.judge_correctness")
# Field of results -> metrics that are measured otherwise without it. A field whose absence only
# leaves them NaN is not here: that shows.
FIELDS: dict[str, tuple[str, ...]] = {
    "responses.refused": (
        "found", "passed", "citation_present", "citation_coverage_weak", *_CITED, "refusal_correct",
        "answered_unanswerable", "false_refusal", "empty_response",
    ),
    "responses.grounded": ("citation_coverage", "citation_coverage_weak"),
    "chunks": ("citation_coverage",),
    "hits.chunk_id": ("citation_coverage", "citation_fabricated"),
    "citations.chunk_id": tuple(_CITED),
    "hits.text": ("found", "passed", "scope_miss_proxy", _RANKING),
    "responses.answer": ("passed",),
    "judgments.judge_correctness": ("passed",),
}  # fmt: skip
REPORTED = "x_judge_fingerprint"  # column of the runs: another tool's own fingerprint of its judges
SETTINGS = (
    "criterion", "judge", "prompt_hash", "x_prompt_version", "x_embedding_model",
    "x_context_order", "temperature",
)  # fmt: skip
SAME_TEMPERATURE = 0.001 + 1e-12  # temperatures up to this far apart are the same


def provenance_of(found: Scored, columns: Iterable[str]) -> dict[str, Parts]:
    """Return the provenance of each run of a scoring: a dict of `COMPONENTS`, as JSON holds it."""
    rows, level = found.rows, found.level.name
    measured = measured_by(
        rows.golden, level, rows.rule, found.policies, found.reading.name, columns, found.table
    )
    return {run: measured | parts for run, parts in recorded_parts(rows.results, level).items()}


def measured_by(
    golden: Golden, level: str, rule: Rule | None, policies: Policies, profile: str,
    columns: Iterable[str], table: MetricTable = TABLE,
) -> Parts:  # fmt: skip
    """Return the components that are the same for all runs of a scoring."""
    content = golden._once("digest", lambda: golden_digest(query_parts(golden)))
    return {
        "golden": f"{len(golden.queries)} queries, content {content}",
        "rule": f"{level}: {rule_name(rule, level)}",
        "policies": asdict(policies) | ({"profile": profile} if profile else {}),
        "metric_versions": metric_versions(columns, table),
    }


def recorded_parts(results: Results, level: str) -> dict[str, Parts]:
    """Return what the results record of each run: judges by criterion, and which fields it has.

    A field is None where a run has nothing that could carry it.
    """
    judges, fields = judges_by_criterion(results), {}
    responses, judgments = results.responses, results.judgments
    answers = responses[_known(responses, "answer")]
    finished = responses[~_known(responses, "error")]
    for field in FIELDS:
        frame, _, column = field.partition(".")
        carriers = {"responses": answers, "chunks": results.citations, "judgments": answers}.get(
            frame
        )
        if field == "responses.answer":
            carriers = finished
        held = carriers = getattr(results, frame) if carriers is None else carriers
        if field == "chunks":
            held = results.chunks
        elif frame == "judgments":
            held = None if judgments is None else judgments[judgments["criterion"].eq(column)]
        else:
            held = carriers[_known(carriers, column)]
        is_read = field != "hits.text" or level in (*READS_TEXT, "per_query")
        n_held, n = _rows_per_run(results, held), _rows_per_run(results, carriers)
        fields[field] = [bool(a) if b and is_read else None for a, b in zip(n_held, n, strict=True)]
    return {
        run_id: {
            "judge_fingerprint": judges.get(run_id, {}),
            "fields": {field: values[at] for field, values in fields.items()},
        }
        for at, run_id in enumerate(results.runs["run_id"].astype("str"))
    }


def _known(frame: pd.DataFrame, name: str) -> Any:
    return frame[name].notna().to_numpy() if name in frame else np.zeros(len(frame), dtype=bool)


def _rows_per_run(results: Results, frame: pd.DataFrame | None) -> list[int]:
    """Count the rows of a frame that each run has; rows of no run in particular count for all."""
    n_runs = len(results.runs)
    if frame is None:
        return [0] * n_runs
    codes = frame["run_id"].cat.codes.to_numpy() if "run_id" in frame else np.full(len(frame), -1)
    counts = np.bincount(codes[codes >= 0], minlength=n_runs) + int((codes < 0).sum())
    return [int(one) for one in counts]


def metric_versions(columns: Iterable[str], table: MetricTable = TABLE) -> dict[str, int | str]:
    """Return the formula's version of each metric by its name; of your own, a hash of it."""
    known = [table.describe(name) for name in columns if not table.is_own(name)]
    return {metric.name: metric.source or metric.version for metric in known}


def provenance_frame(
    parts: Mapping[str, Parts], columns: Iterable[str], table: MetricTable = TABLE
) -> pd.DataFrame:
    """Return the provenance of several runs as a frame: run_id, component, hash, content."""
    names, rows = list(columns), []
    for run_id, of_run in parts.items():
        for component in COMPONENTS:
            content = content_of(of_run, component, names, table)
            text = json.dumps(content, sort_keys=True, ensure_ascii=False)
            words: str | None = str(content)
            if isinstance(content, dict):
                words = ", ".join(f"{key} {_shown(one)}" for key, one in content.items()) or None
            rows.append([run_id, component, short_hash(text) if content else None, words])
    return pd.DataFrame(rows, columns=["run_id", "component", "hash", "content"], dtype="str")


def content_of(
    parts: Parts, component: str, columns: Iterable[str], table: MetricTable = TABLE
) -> Any:
    """Return the content of a component, as far as these metric columns depend on it."""
    content = parts.get(component)
    if not isinstance(content, dict):
        return content or {}
    labels = [table.label_of(name) for name in columns]
    names = {label.metric.name for label in labels}
    if component == "policies":  # the level that `match` led to is the rule's
        return {key: value for key, value in content.items() if key != "match"}
    if component == "metric_versions":
        return {name: version for name, version in content.items() if name in names}
    if component == "judge_fingerprint":
        names |= {"judge_correctness"} if "passed" in names else set()
        names |= {"nuggets"} if any(name.startswith("nugget_") for name in names) else set()
        return {name: one for name, one in content.items() if FAILED in names or name in names}
    names |= {_RANKING} if any(label.is_ranking for label in labels) else set()
    return {
        name: one
        for name, one in content.items()
        if one is not None and names & set(FIELDS.get(name, ()))
    }


def check_ignored(ignore: bool | str | list[str]) -> tuple[str, ...]:
    """Return the components that `allow_different` names."""
    if isinstance(ignore, bool):
        return COMPONENTS if ignore else ()
    named = tuple(names_of(ignore, "allow_different", "True, False, or names of components"))
    if "all" in named:  # as on the command line
        return COMPONENTS
    if unknown := [name for name in named if name not in COMPONENTS]:
        raise DataError(
            f"found {name_list(map(repr, unknown))}",
            field="allow_different",
            allowed=nearest(unknown[0], COMPONENTS, "True, False, or some of"),
        )
    return named


def check_provenance(
    parts: Mapping[str, Parts],
    columns: Iterable[str],
    ignore: bool | str | list[str],
    table: MetricTable = TABLE,
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
        A component differs that isn't ignored: it is named with both contents.
    """
    ignored, names = check_ignored(ignore), list(columns)
    found = [_first_difference(parts, component, names, table) for component in COMPONENTS]
    rows = [row for row in found if row is not None]
    for component, first, second, by_first, by_second in rows:
        text = f"{first} was measured by {by_first}, {second} by {by_second}"
        if details and component == "golden":
            text += f" ({details})"
        is_of_answers = by_first.partition(" = ")[0] in OF_ANSWERS
        if is_of_answers:
            text += "; found looks at hits alone, passed at answers, too"
        elif component not in ignored:
            raise DataError(
                text,
                field=component,
                allowed=f"equal provenance{remedy}, or allow_different=['{component}']",
            )
        warn(f"scores of different provenance side by side: {component}: {text}")
    columns = ["component", "run_baseline", "run_candidate", "baseline", "candidate"]
    return pd.DataFrame(rows, columns=columns, dtype="str")


def _first_difference(
    parts: Mapping[str, Parts], component: str, columns: list[str], table: MetricTable
) -> tuple[str, str, str, str, str] | None:
    """Return the first two runs whose contents contradict each other; fields of answers last."""
    of_answers, known = None, dict[str, tuple[str, Any]]()
    for run_id, of_run in parts.items():
        content = content_of(of_run, component, columns, table)
        for key, value in (content if isinstance(content, dict) else {"": content}).items():
            other_id, other = known.setdefault(key, (run_id, value))
            are_judges = isinstance(other, list) and isinstance(value, list)
            if same_settings(other, value) if are_judges else other == value:
                continue
            a, b = (f"{key} = " * bool(key) + _shown(one) for one in (other, value))
            found = component, other_id, run_id, a, b
            if key not in OF_ANSWERS:
                return found
            of_answers = of_answers or found
    return of_answers


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return repr(settings_text(value))
    if isinstance(value, bool):
        return "recorded" if value else "not recorded"
    return str(value) if isinstance(value, int) else repr(str(value))


def judges_by_criterion(results: Results) -> dict[str, dict[str, list[Parts]]]:
    """Return the judges of each run by criterion: each distinct setting, as far as it is known."""
    judged, judges = results.judgments, dict[str, dict[str, list[Parts]]]()
    if judged is None:
        return judges
    dtypes = dict.fromkeys(SETTINGS, "str") | {"temperature": "float64", "run_id": "str"}
    rows = judged.reindex(columns=["run_id", *SETTINGS]).astype(dtypes).drop_duplicates()
    for one in rows.sort_values(["run_id", *SETTINGS]).to_dict("records"):
        known = {str(name): value for name, value in one.items() if not pd.isna(value)}
        run_id, criterion = known.pop("run_id"), known.pop("criterion")
        judges.setdefault(run_id, {}).setdefault(criterion, []).append(known)
    return judges


def judge_fingerprint(results: Results) -> pd.Series:
    """Return the judges of each run as one text (index run_id), "" where nobody judged.

    `criterion:judge:prompt_hash:...:temperature` of every setting, joined with `|`; without
    judgments here, the text that another tool wrote of its judges.
    """
    index = pd.Index(results.runs["run_id"].astype("str"), name="run_id")
    found = pd.Series("", index=index, dtype="str", name="judge_fingerprint")
    if REPORTED in results.runs:
        found[:] = results.runs[REPORTED].fillna("").astype("str").to_numpy()
    for run_id, by_criterion in judges_by_criterion(results).items():
        texts = [
            f"{name}:{settings_text([one])}" for name, of in by_criterion.items() for one in of
        ]
        found[run_id] = "|".join(sorted(set(texts)))
    return found


def settings_text(settings: list[Parts]) -> str:
    """Return settings of judges as a fingerprint writes them."""
    texts = [
        [f"{one:g}" if isinstance(one, float) else str(one) for one in of.values()]
        for of in settings
    ]
    return "|".join(map(":".join, texts))


def same_temperature(a: float, b: float) -> bool:
    """Return whether two temperatures are the same, to within 0.001."""
    return bool(abs(a - b) <= SAME_TEMPERATURE)


def same_settings(a: list[Parts], b: list[Parts]) -> bool:
    """Return whether two lists of settings agree in what both state."""

    def is_same(name: str, one: Parts, other: Parts) -> bool:
        if name == "temperature":
            return same_temperature(one[name], other[name])
        return bool(one[name] == other[name])

    return len(a) == len(b) and all(
        is_same(name, one, other)
        for one, other in zip(a, b, strict=True)
        for name in one.keys() & other.keys()
    )


def judges_agree(results: Results, a: str, b: str) -> bool:
    """Return whether two runs state the same judges, temperatures to within 0.001.

    Two runs that nobody judged agree.
    """
    fingerprints, judges = judge_fingerprint(results), judges_by_criterion(results)
    if fingerprints[a] == fingerprints[b]:
        return True
    first, second = judges.get(a, {}), judges.get(b, {})
    keys = [[[one.keys() for one in of] for of in side.values()] for side in (first, second)]
    return bool(first) and keys[0] == keys[1] and not judges_contradict(results, a, b)


def judges_contradict(results: Results, a: str, b: str) -> bool:
    """Return whether two judged runs state different judges.

    Judges of other criteria do, and those that another tool wrote of in a text.
    """
    judges = judges_by_criterion(results)
    first, second = judges.get(a, {}), judges.get(b, {})
    is_same = bool(first) and first.keys() == second.keys()
    return not is_same or not all(same_settings(first[name], second[name]) for name in first)


def unstated_judges(
    parts: Mapping[str, Parts], columns: Iterable[str], table: MetricTable = TABLE
) -> list[str]:
    """List what of a judge's settings some run states and another doesn't, by criterion."""
    names, stated, n_judged = list(columns), dict[tuple[str, str], int](), dict[str, int]()
    for of_run in parts.values():
        for criterion, judges in content_of(of_run, "judge_fingerprint", names, table).items():
            n_judged[criterion] = n_judged.get(criterion, 0) + 1
            for name in {name for judge in judges for name in judge}:
                stated[name, criterion] = stated.get((name, criterion), 0) + 1
    return sorted(
        f"{name.removeprefix('x_')} of the judge of {criterion}"
        for (name, criterion), n in stated.items()
        if n < n_judged[criterion]
    )

"""Provenance: how scores were measured and by which judges, one dict a run.

A change of labels, settings or judges is then not taken for one of the system. Only what both sides
state is compared: what one doesn't state contradicts nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import check_known, names_of, warn
from ragscore.frames.golden_versions import query_parts, short_hash
from ragscore.frames.kinds import FAILED
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.policies import Policies
from ragscore.scoring.rows import Rows
from ragscore.scoring.rules import READS_TEXT, rule_name

Parts = dict[str, Any]
# criterion -> each distinct setting of its judges, as far as it is known
Judges = dict[str, list[dict[str, Any]]]

COMPONENTS = ("golden", "rule", "policies", "judge_fingerprint", "metric_versions", "fields")
_RANKING = "(ranking)"
_VERDICT = "judgments.judge_correctness"
_CITED = "citation_coverage citation_precision citation_recall citation_fabricated".split()
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
    _VERDICT: ("passed",),
}  # fmt: skip
REPORTED = "x_judge_fingerprint"  # column of the runs: another tool's own fingerprint of its judges
SETTINGS = (
    "criterion", "judge", "prompt_hash", "x_prompt_version", "x_embedding_model",
    "temperature",
)  # fmt: skip
TOLERANCE = 0.001 + 1e-12  # numbers up to this far apart agree, as temperatures of judges do


def provenance_of(
    rows: Rows, policies: Policies, columns: Iterable[str], table: MetricTable = TABLE
) -> dict[str, Parts]:
    """Return the provenance of each run of a scoring: a dict of `COMPONENTS`, as JSON holds it."""
    golden, level, profile = rows.golden, rows.level.name, rows.reading.name
    of = golden._once("parts", lambda: query_parts(golden))
    # of all that affects scores, whatever the order of queries
    content = short_hash("\n".join(sorted(of.index + " " + of["text"] + " " + of["labels"])))
    measured = {
        "golden": f"{len(golden.queries)} queries, content {content}",
        "rule": f"{level}: {rule_name(rows.rule, level)}",
        "policies": asdict(policies) | ({"profile": profile} if profile else {}),
        # the formula's version of each metric; of your own, a hash of it
        "metric_versions": {
            one.name: one.source or one.version
            for name in columns
            if not table.is_own(name)
            for one in [table.describe(name)]
        },
    }
    return {run: measured | own for run, own in recorded_parts(rows.results, level).items()}


def recorded_parts(results: Results, level: str) -> dict[str, Parts]:
    """Return what the results record of each run: judges by criterion, and which fields it has.

    A field is None where a run has nothing that could carry it.
    """
    runs, judges = results.runs["run_id"].astype("str").tolist(), judges_of_scores(results)
    held = {field: _runs_with(results, field) for field in FIELDS} | {
        _VERDICT: {
            run for run, of in judges_by_criterion(results).items() if "judge_correctness" in of
        }
    }
    cited, found = _runs_with(results, "citations.run_id"), _runs_with(results, "hits.run_id")
    carriers = {
        "chunks": cited, "citations.chunk_id": cited, "hits.chunk_id": found,
        "hits.text": found if level in (*READS_TEXT, "per_query") else set(),
        "responses.answer": set(runs),
    }  # fmt: skip
    return {
        run: {
            "judge_fingerprint": judges.get(run, {}),
            "fields": {
                field: run in of if run in carriers.get(field, held["responses.answer"]) else None
                for field, of in held.items()
            },
        }
        for run in runs
    }


def _runs_with(results: Results, field: str) -> set[str]:
    """Return the runs of which a row has a value of a field; rows of no run count for all."""
    name, _, column = field.partition(".")
    frame, column = getattr(results, name), column or "chunk_id"
    if frame is None or column not in frame or not frame[column].notna().any():
        return set()
    held = frame[frame[column].notna().to_numpy()]
    is_of_runs = "run_id" in held and held["run_id"].notna().all()
    return set(held["run_id"].unique() if is_of_runs else results.runs["run_id"])


def relevant(parts: Parts, columns: Iterable[str], table: MetricTable = TABLE) -> Parts:
    """Return the provenance of a run as far as these metric columns depend on it."""
    labels = [table.label_of(name) for name in columns]
    names = {of for label in labels for of in (label.metric.name, _RANKING * label.is_ranking)}
    judges = {name if not name.startswith("nugget_") else "nuggets" for name in names}
    judges |= {"judge_correctness"} if "passed" in names else set()
    found = {component: parts.get(component) or {} for component in COMPONENTS}
    kept = {
        "policies": found["policies"].keys() - {"match"},  # the level that it led to is the rule's
        "judge_fingerprint": found["judge_fingerprint"].keys() if FAILED in names else judges,
        "metric_versions": names,
        "fields": {field for field, of in FIELDS.items() if names & {*of}},
    }
    return found | {
        component: {
            key: one for key, one in found[component].items() if key in keys and one is not None
        }
        for component, keys in kept.items()
    }


def check_ignored(ignore: bool | str | list[str]) -> tuple[str, ...]:
    """Return the components that `allow_different` names; "all" means all of them."""
    if isinstance(ignore, bool):
        return COMPONENTS if ignore else ()
    named = names_of(ignore, "allow_different", "True, False, or names of components")
    check_known(named, (*COMPONENTS, "all"), "allow_different", "component", "True, False, or of")
    return COMPONENTS if "all" in named else tuple(named)


def check_provenance(
    parts: Mapping[str, Parts],
    columns: Iterable[str],
    ignore: bool | str | list[str],
    table: MetricTable = TABLE,
    *,
    details: str = "",
    remedy: str = "scores that were measured alike",
) -> pd.DataFrame:
    """Refuse runs whose scores differ in provenance; warn of fields, and of what may differ.

    Returns
    -------
    One row per component that differs between any two of the runs: component, `run_baseline`,
    `run_candidate`, their contents `baseline`, `candidate`.

    Raises
    ------
    DataError
        A component differs that isn't ignored: it is named with both contents.
    """
    ignored, found = (*check_ignored(ignore), "fields"), _differences(parts, list(columns), table)
    for component, first, second, by_first, by_second in found:
        text = f"{first} was measured by {by_first}, {second} by {by_second}"
        text += f" ({details})" if details and component == "golden" else ""
        if component not in ignored:
            allowed = f"{remedy}, or allow_different=['{component}']"
            raise DataError(text, field=component, allowed=allowed)
        warn(f"scores that were measured differently are side by side: {component}: {text}")
    return pd.DataFrame(
        found, dtype="str",
        columns=["component", "run_baseline", "run_candidate", "baseline", "candidate"],
    )  # fmt: skip


def _differences(
    parts: Mapping[str, Parts], columns: list[str], table: MetricTable
) -> list[tuple[str, ...]]:
    """Return by component the first two runs that contradict each other, and both contents."""
    known: dict[tuple[str, str], tuple[str, Any]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for run_id, of_run in parts.items():
        for component, content in relevant(of_run, columns, table).items():
            facts = content if isinstance(content, dict) else {"": content}
            for key, value in facts.items():
                other_id, other = known.setdefault((component, key), (run_id, value))
                if not agree(other, value):
                    sides = (f"{key} = " * bool(key) + _shown(one) for one in (other, value))
                    found.setdefault(component, (component, other_id, run_id, *sides))
    return [found[component] for component in COMPONENTS if component in found]


def agree(a: Any, b: Any) -> bool:
    """Return whether two contents agree in what both state, numbers to within .001."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(agree(a[key], b[key]) for key in a.keys() & b.keys())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(agree, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= TOLERANCE
    return bool(a == b)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return repr(settings_text(value))
    if isinstance(value, bool):
        return "recorded" if value else "not recorded"
    return str(value) if isinstance(value, int) else repr(str(value))


def judges_by_criterion(results: Results) -> dict[str, Judges]:
    """Return the judges of each run that was judged."""
    judged, judges = results.judgments, dict[str, Judges]()
    if judged is None:
        return judges
    dtypes = dict.fromkeys(SETTINGS, "str") | {"temperature": "float64", "run_id": "str"}
    rows = judged.reindex(columns=["run_id", *SETTINGS]).astype(dtypes).drop_duplicates()
    for one in rows.sort_values(["run_id", *SETTINGS]).to_dict("records"):
        known = {str(name): value for name, value in one.items() if not pd.isna(value)}
        run_id, criterion = known.pop("run_id"), known.pop("criterion")
        judges.setdefault(run_id, {}).setdefault(criterion, []).append(known)
    return judges


def judges_of_scores(results: Results) -> dict[str, Judges]:
    """Return the judges of each run; where it holds no judgments, those that its file names."""
    runs, reported = results.runs, results.reported
    if reported is None or REPORTED not in runs:
        return judges_by_criterion(results)
    names = {one for one in reported["metric"].unique()
             if TABLE.is_own(one) or TABLE.describe(one).family == "judged"}  # fmt: skip
    stated = runs.set_index(runs["run_id"].astype("str"))[REPORTED]
    of_reports = {
        str(run): {name: [{"judge": text} if pd.notna(text) else {}] for name in names}
        for run, text in stated[stated.index.isin(reported["run_id"])].items()
    }
    return of_reports | judges_by_criterion(results)


def settings_text(settings: list[dict[str, Any]]) -> str:
    """Return settings of judges as a fingerprint writes them."""
    texts = [
        [f"{one:g}" if isinstance(one, float) else str(one) for one in of.values()]
        for of in settings
    ]
    return "|".join(map(":".join, texts))


def judge_fingerprint(results: Results) -> pd.Series:
    """Return the judges of each run as one text (index run_id), "" where nobody judged.

    `criterion:judge:prompt_hash:...:temperature` of every setting, joined with `|`; without
    judgments here, the text that another tool wrote of its judges.
    """
    runs = results.runs.set_index(results.runs["run_id"].astype("str"))
    fingerprints = runs.get(REPORTED, pd.Series(index=runs.index, dtype="str")).fillna("").to_dict()
    for run_id, judges in judges_by_criterion(results).items():
        fingerprints[run_id] = "|".join(sorted(
            {f"{name}:{settings_text([one])}" for name, of in judges.items() for one in of}
        ))  # fmt: skip
    return pd.Series(fingerprints, dtype="str", name="judge_fingerprint").rename_axis("run_id")

"""Harnesses' files: samples -> cases, with the means that are reported beside them.

lm-evaluation-harness has `samples_<task>_<time>.jsonl` and `results_<time>.json`, HELM a folder for
each run, Every Eval Ever a record of reported results with its samples, MTEB (version 2) a file for
each task, or a model's folder of them, and BEIR `{"NDCG@10": 0.4}`, or a mapping of those by
measure. The last two have no rows.
"""

import re
from pathlib import Path
from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.records import Record
from ragscore.io.rows import Source, json_value, table_rows
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tools.cases import Imported, aggregate, imported, one_per_query
from ragscore.io.tools.cells import (
    QUERY_KEYS,
    Cells,
    json_text,
    stored,
    text_in,
    with_roles,
    without_missing,
)
from ragscore.io.values import as_number


def _object_in(file: Path) -> dict[str, Any]:
    """Return the object that a file holds; an empty one without the file."""
    content = json_value(file) if file.exists() else {}
    return content if isinstance(content, dict) else {}


# lm-evaluation-harness

_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT.+)\.jsonl(\.gz)?")


def read_lm_eval(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per document, and what the results beside the samples report of their task.

    A line is one document under one filter; those of a document make one case, with the metrics
    `exact_match,none`, `exact_match,strict-match` and so on, as the harness calls them.
    """
    named = _SAMPLES.fullmatch(source.name) if isinstance(source, Path) else None
    task = ""
    beside: dict[str, Any] = {}
    if named is not None and isinstance(source, Path):
        task = named["task"]
        beside = _object_in(source.with_name(f"results_{named['time']}.json"))
    about = Cells(Row(beside, 1), problems)
    better = about.mapping("higher_is_better").get(task) or {}
    cases = [_document_case(row, problems, columns, better) for row in table_rows(source, problems)]
    n_items = as_number((about.mapping("n-samples").get(task) or {}).get("effective"))
    means = []
    for name, value in (about.mapping("results").get(task) or {}).items():
        metric, _, filter = name.partition(",")
        if (number := as_number(value)) is None or not filter or metric.endswith("_stderr"):
            continue
        means.append(aggregate(name, number, name) | _direction(better, metric))
        if n_items is not None:
            means.append(aggregate(name, n_items, name, statistic="n"))
    told = {
        "system": about.text("model_name"), "suite": task or None, "aggregates": means,
        "config": json_text(beside["config"]) if "config" in beside else None,
    }  # fmt: skip
    return imported(one_per_query(cases), described | without_missing(told), problems)


def _direction(better: dict[str, bool], metric: str) -> dict[str, str]:
    told = better.get(metric)
    return {} if told is None else {"better": "higher" if told else "lower"}


def _document_case(
    row: Row, problems: Problems, columns: dict[str, str], better: dict[str, bool]
) -> Record:
    cells = Cells(row, problems)
    doc, filter = cells.mapping("doc"), cells.text("filter") or "none"
    prompt = cells.pop("arguments")  # the first argument of the first request
    while isinstance(prompt, (list, dict)) and prompt:
        prompt = next(iter(prompt.values())) if isinstance(prompt, dict) else prompt[0]
    answers, target = cells.pop("filtered_resps"), cells.pop("target")
    first = answers[0] if isinstance(answers, list) and answers else None
    case = Record(row.line, cells.identifier("doc_id"), extra={"doc": doc})
    case.response = {
        "query": text_in(doc, (*QUERY_KEYS, "problem")) or as_text(prompt),
        "answer": first if isinstance(first, str) else None,
    }
    case.reference_answer = target if isinstance(target, str) else None
    for name in cells.texts("metrics") or []:
        value = cells.pop(name)
        if isinstance(value, bool) or as_number(value) is not None:
            about = _direction(better, name)
            case.stored.append(stored(f"{name},{filter}", value, is_judged=False, same={}, **about))
    return with_roles(case, row, columns, problems)


# HELM: what it reports is over the instances of one split, so its means aren't those of all rows


def read_helm(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per instance, with a score per statistic; a train trial is a repeat."""
    assert isinstance(source, Path)
    content = {
        name: json_value(source / f"{name}.json") if (source / f"{name}.json").exists() else None
        for name in ("scenario_state", "per_instance_stats", "stats", "run_spec")
    }
    cells = Cells(Row(content, 1), problems)
    values: dict[tuple[str, Any], dict[str, float]] = {}
    for of_instance in map(cells.of, cells.records("per_instance_stats")):
        key = _instance_id(of_instance), of_instance.whole("train_trial_index")
        of_key = values.setdefault(key, {})
        for one in of_instance.records("stats"):
            name, mean = one.get("name"), one.get("mean")
            if one.get("count") and isinstance(name, dict) and isinstance(mean, (int, float)):
                of_key[str(name["name"])] = float(mean)  # statistics of nothing have none
    state = cells.part("scenario_state")
    are_repeats = len({trial for _, trial in values}) > 1
    cases = [
        _instance_case(state.of(one), number, values, are_repeats, columns, problems)
        for number, one in enumerate(state.records("request_states"), 1)
    ]
    names = {name for of_instance in values.values() for name in of_instance}
    means = []  # of unperturbed instances by split
    for one in cells.records("stats"):
        name, mean = one.get("name"), one.get("mean")
        if not isinstance(name, dict) or not isinstance(mean, (int, float)):
            continue
        if (split := name.get("split")) and "perturbation" not in name and name["name"] in names:
            metric = f"{name['name']}/{split}"
            means.append(aggregate(metric, float(mean), name["name"], ("split", split)))
    spec = cells.part("run_spec")
    adapter = spec.mapping("adapter_spec")
    told = {
        "system": adapter.get("model"), "suite": spec.text("name"), "config": json_text(adapter),
        "aggregates": means,
    }  # fmt: skip
    return imported(cases, described | without_missing(told), problems)


def _instance_id(cells: Cells) -> str:
    """Return the id of an instance, with the name of its perturbation if it has one."""
    perturbation = cells.mapping("perturbation").get("name")
    own = cells.identifier("instance_id", "id") or ""
    return own if perturbation is None else f"{own}~{perturbation}"


def _instance_case(
    cells: Cells, number: int, values: dict[tuple[str, Any], dict[str, float]], are_repeats: bool,
    columns: dict[str, str], problems: Problems,
) -> Record:  # fmt: skip
    trial, instance = cells.whole("train_trial_index"), cells.part("instance")
    key, split = _instance_id(instance), instance.text("split")
    case = Record(number, key, repeat=(trial or 0) + 1 if are_repeats else None)
    case.response["query"] = instance.part("input").text("text")
    right = [one for one in instance.records("references") if "correct" in (one.get("tags") or ())]
    if right:
        case.reference_answer = instance.of(right[0]).part("output").text("text")
    result = cells.part("result")
    case.response["elapsed_ms"] = result.milliseconds("request_time")
    if result.flag("success") is False:
        case.response["error"] = result.text("error") or "the request failed"
    else:
        first = next(iter(result.records("completions")), {})
        case.response["answer"] = result.of(first).text("text")
    if split is not None:
        case.tags, case.extra = {"split": [split]}, {"split": split}
    of_case = values.get((key, trial), {})
    case.stored = [stored(name, value, is_judged=False, same={}) for name, value in of_case.items()]
    return with_roles(case, Row(cells.values, number), columns, problems)


# Every Eval Ever


def fits_every_eval(seen: Sample) -> bool:
    """Return True for a record, or for samples."""
    is_samples = seen.has("evaluation_id", "sample_id", "evaluation")
    return is_samples or seen.has("evaluation_id", "evaluation_results", "model_info")


def read_every_eval(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per sample, with the record beside it; or a record's results alone.

    The record that samples belong to is the file of the same name.
    """
    rows = list(table_rows(source, problems))
    are_samples = bool(rows) and "sample_id" in rows[0].values
    record = rows[0].values if rows and not are_samples else {}
    if are_samples and isinstance(source, Path):
        file = source.with_name(re.sub(r"_samples\.jsonl(\.gz)?$", ".json", source.name))
        record = _object_in(file) if file != source else {}
    cells = Cells(Row(record, 1), problems)
    abouts, means = {}, []
    for result in map(cells.of, cells.records("evaluation_results")):
        result_id, name = result.values.get("evaluation_result_id"), result.text("evaluation_name")
        config = result.of(dict(result.values.get("metric_config") or {}))
        is_lower = config.flag("lower_is_better")
        about = {
            "better": None if is_lower is None else "lower" if is_lower else "higher",
            "lowest": config.number("min_score"), "highest": config.number("max_score"),
        }  # fmt: skip
        abouts[name if result_id is None else result_id], name = about, name or "score"
        details = result.part("score_details")
        if (score := details.number("score")) is None:
            continue
        means.append(aggregate(name, score, name if are_samples else None, **about))
        if (n := details.part("uncertainty").whole("num_samples")) is not None:
            means.append(aggregate(name, float(n), name, statistic="n"))
    cases = [_sample_case(row, problems, columns, abouts) for row in rows] if are_samples else []
    told = {"system": cells.part("model_info").text("id", "name"), "aggregates": means}
    return imported(one_per_query(cases), described | without_missing(told), problems)


def _sample_case(
    row: Row, problems: Problems, columns: dict[str, str], abouts: dict[Any, dict[str, Any]]
) -> Record:
    cells = Cells(row, problems)
    given, output, verdict = (cells.part(name) for name in ("input", "output", "evaluation"))
    result_id, name = cells.text("evaluation_result_id"), cells.text("evaluation_name") or "score"
    usage = cells.part("token_usage")
    case = Record(row.line, cells.identifier("sample_id"))
    case.response = {
        "query": given.text("raw", "formatted"),
        "answer": next(iter(output.texts("raw") or ()), None),
        "prompt_tokens": usage.whole("input_tokens"),
        "completion_tokens": usage.whole("output_tokens"),
    }
    case.reference_answer = next(iter(given.texts("reference") or ()), None)
    score, is_correct = verdict.pop("score"), verdict.pop("is_correct")
    value, about = is_correct if score is None else score, abouts.get(result_id, abouts.get(name))
    case.stored = [stored(name, value, is_judged=False, same={}, **(about or {}))]
    case.extra = without_missing(cells.mapping("metadata"))
    return with_roles(case, row, columns, problems)


# MTEB: a mean is that of one task, split and subset, such as `SciFact/test/ndcg_at_10`

_META = "model_meta.json"


def fits_mteb(seen: Sample) -> bool:
    """Return True for a task's file, or a folder with the model's description beside such files."""
    is_task = seen.has("task_name", "scores") or seen.has("mteb_version", "scores")
    return is_task or (seen.kind == "folder" and _META in seen.keys)


def read_mteb(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read the means of a task, or of all tasks of a model."""
    assert isinstance(source, Path)
    folder, files = source, sorted(source.glob("*.json"))
    if not source.is_dir():
        folder, files = source.parent, [source]
    rows: list[dict[str, Any]] = []
    for file in (one for one in files if one.name != _META):
        cells = Cells(Row(dict(json_value(file)), 1), problems)
        task = cells.text("task_name") or file.name.removesuffix(".json")
        for split, subsets in cells.mapping("scores").items():
            for subset in map(cells.of, subsets):
                name, place = subset.text("hf_subset"), f"{task}/{split}"
                if len(subsets) > 1 or name not in (None, "default"):
                    place = f"{place}/{name}"
                numbers = {key: as_number(one) for key, one in subset.values.items()}
                rows += [
                    aggregate(f"{place}/{key}", value)
                    for key, value in numbers.items()
                    if value is not None
                ]
    meta = _object_in(folder / _META)
    told = {"system": meta.get("name"), "config": json_text(meta) if meta else None}
    if folder != source and rows:
        told["suite"] = rows[0]["metric"].partition("/")[0]
    return imported([], described | without_missing(told) | {"aggregates": rows}, problems)


# BEIR

_MEASURE = re.compile(
    r"(ndcg|map|recall|p|precision|mrr|r_cap|hole|accuracy|top_k_accuracy)@\d+", re.I
)


def fits_beir_means(seen: Sample) -> int:
    """Return a mark for numbers under names of measures alone."""
    values = _values(seen.first) if seen.kind in ("json", "jsonl") else {}
    is_named = bool(values) and all(_MEASURE.fullmatch(name) for name in values)
    return 3 * (is_named and all(as_number(one) is not None for one in values.values()))


def _values(content: Any) -> dict[str, Any]:
    """Return the values of a mapping, and of those in it, by name."""
    found: dict[str, Any] = {}
    for name, value in content.items() if isinstance(content, dict) else ():
        found |= value if isinstance(value, dict) else {name: value}
    return found


def read_beir_means(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read the means; gains are grades in BEIR's nDCG, which has another label here."""
    assert isinstance(source, Path)
    rows = []
    for name, one in _values(json_value(source)).items():
        measure, _, k = name.partition("@")
        label = {"label": f"ndcg_linear@{k}"} if measure.lower() == "ndcg" else {}
        if (value := as_number(one)) is not None:
            rows.append(aggregate(name, value) | label)
    return imported([], described | {"aggregates": rows}, problems)

"""HELM's run folders (`scenario_state.json`, `per_instance_stats.json`, `stats.json`) -> cases.

What it reports is over the instances of one split, so that its means aren't those of all rows.
"""

from pathlib import Path
from typing import Any

from ragscore.io.records import Record
from ragscore.io.rows import Source, json_value
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Imported, aggregate, imported
from ragscore.io.tools.cells import Cells, json_text, stored, with_roles, without_missing

FILES = ("scenario_state.json", "per_instance_stats.json")


def read(
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
        key = _key(of_instance), of_instance.whole("train_trial_index")
        values.setdefault(key, {}).update(_means(of_instance.records("stats")))
    state = cells.part("scenario_state")
    states = [state.of(one) for one in state.records("request_states")]
    n_trials = len({trial for _, trial in values})
    cases = [
        _case(one, number, values, n_trials > 1, columns, problems)
        for number, one in enumerate(states, 1)
    ]
    spec = cells.part("run_spec")
    adapter = spec.mapping("adapter_spec")
    names = {name for of_instance in values.values() for name in of_instance}
    told = {
        "system": adapter.get("model"), "suite": spec.text("name"), "config": json_text(adapter),
        "aggregates": _aggregates(cells.records("stats"), names),
    }  # fmt: skip
    return imported(cases, described | without_missing(told), problems)


def _key(cells: Cells) -> str:
    """Return the id of an instance, with the name of its perturbation if it has one."""
    perturbation = cells.mapping("perturbation").get("name")
    own = cells.identifier("instance_id", "id") or ""
    return own if perturbation is None else f"{own}~{perturbation}"


def _means(stats: list[dict[str, Any]]) -> dict[str, float]:
    """Return statistic -> its mean; statistics of nothing have none."""
    named = [(one.get("name"), one.get("mean")) for one in stats if one.get("count")]
    return {
        str(name["name"]): float(mean)
        for name, mean in named
        if isinstance(name, dict) and isinstance(mean, (int, float))
    }


def _case(
    cells: Cells, number: int, values: dict[tuple[str, Any], dict[str, float]], are_repeats: bool,
    columns: dict[str, str], problems: Problems,
) -> Record:  # fmt: skip
    trial, instance = cells.whole("train_trial_index"), cells.part("instance")
    key, split = _key(instance), instance.text("split")
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


def _aggregates(stats: list[dict[str, Any]], names: set[str]) -> list[dict[str, Any]]:
    """Return the means of unperturbed instances by split."""
    found = []
    for one in stats:
        name, mean = one.get("name"), one.get("mean")
        if not isinstance(name, dict) or not isinstance(mean, (int, float)):
            continue
        if (split := name.get("split")) and "perturbation" not in name and name["name"] in names:
            row = f"{name['name']}/{split}", float(mean), name["name"], ("split", split)
            found.append(aggregate(*row))
    return found

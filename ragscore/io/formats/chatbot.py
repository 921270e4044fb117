"""Runs of a chatbot's evaluation, `results/<run_id>/{results.jsonl, config.json, metrics.json}`.

Such a folder <-> `Results`. A test case that ended in an error has no row there, so it is missing
from the responses too. Values that the harness computed itself (`retrieval_metrics`,
`metrics.json`) become `reported`; judges' scores and claims become `judgments`; the description in
`summary.md` becomes the run's note.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.io.file_content import read_text
from ragscore.io.formats.fields import (
    RUN_LEVEL,
    Fields,
    aggregate,
    frames_of,
    json_object,
    named_fields,
    take_columns,
)
from ragscore.io.output import by_query, check_one_run, write_json, write_lines, write_text
from ragscore.io.record import none_cited, positions
from ragscore.io.run_records import Frames, Level, Reader
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import (
    as_json,
    as_time,
    extra_fields,
    flatten,
    is_int,
    number,
    row_dicts,
    unflatten,
)

RESPONSE: Fields = {
    "question": ("query", "text"),
    "answer": ("answer", "text"),
    "error": ("error", "failure"),
}
SCOPE: Fields = {"scope": ("scope", "json"), "config": ("x_config.json", "json")}
LATENCY: Fields = {"total_ms": ("elapsed_ms", "number")}
ABSTENTION: Fields = {"abstained": ("refused", "flag")}
REFERENCE: Fields = {"rel_path": ("path", "text"), "heading_path": ("heading", "text")}
CHUNK: Fields = {
    "chunk_id": ("chunk_id", "id"),
    **REFERENCE,
    "rank": ("rank", "whole"),
    "score_final": ("score", "number"),
    "score_vector": ("score_vector", "number"),
    "score_lexical": ("score_lexical", "number"),
    "text": ("text", "text"),
}
JUDGMENT: Fields = {"score": ("value", "number"), "reasoning": ("reason", "text")}
COST: Fields = {"judge_tokens": ("tokens", "whole"), "judge_cost_usd": ("cost_usd", "number")}

# A judge's object in a row -> its criterion, which is the metric's name.
JUDGES = {"groundedness": "judge_groundedness", "correctness": "judge_correctness"}
CLAIMS = {"supported_claims": "supported", "unsupported_claims": "unsupported"}
FLAGS = ("scope_miss", "attribution_hit")  # stored metrics that are true or false there
CUT_LENGTHS = range(195, 206)  # a text that the harness cut to 200 characters, with its ellipsis
DESCRIPTION, AFTER_DESCRIPTION = "## Run Description", "## Configuration"  # lines of summary.md
NO_DESCRIPTION = "No description provided"  # written there when nobody gave one
NO_ROWS = "the file is not there: aggregates are all that is known of the run"
AGGREGATES = {
    "operational_metrics.error_rate": ("failed", "mean"),
    "operational_metrics.timeout_rate": ("timeout", "mean"),
    "operational_metrics.empty_response_rate": ("empty_response", "mean"),
    "latency.p50_ms": ("latency_ms", "p50"),
    "latency.p95_ms": ("latency_ms", "p95"),
    "latency.total_ms": ("latency_ms", "sum"),
    "recall_at_k_avg": ("hit@{k}", "mean"),
    "recall_all_at_k_avg": ("recall_all@{k}", "mean"),
    "mrr_avg": ("mrr@{k}", "mean"),
    "precision_at_k_avg": ("precision@{k}", "mean"),
    "scope_miss_rate": ("scope_miss_proxy", "mean"),
    "attribution_hit_rate": ("attribution_hit", "mean"),
    "groundedness_avg": ("judge_groundedness", "mean"),
    "correctness_avg": ("judge_correctness", "mean"),
    "abstention_accuracy": ("refusal_correct", "mean"),
    "hallucination_rate_unanswerable": ("answered_unanswerable", "mean"),
}
"""Aggregate of `metrics.json` -> our metric, at the run's own k, and the statistic that it is."""
BESIDE = (
    "by_tag", "by_category", "total_tests", "answerable_tests", "unanswerable_tests",
    "judge_reliability",
)  # fmt: skip
"""Parts of `metrics.json` that stand beside `aggregate_metrics`; within it they are read, too."""

Record = dict[str, Any]


def fits_folder(names: frozenset[str]) -> bool:
    """Tell a run folder without rows, as it is committed, by the names of its files."""
    return "metrics.json" in names and not names & {"results.jsonl", "run.json"}


def read_chatbot(path: Path, strict: bool) -> Results:
    """Read one run: `results.jsonl`, with the `config.json` and `metrics.json` beside it.

    A folder without `results.jsonl` gives the run and what it reports, and no responses.
    """
    if path.is_dir():
        path = path / "results.jsonl"
    problems = Problems(path, strict)
    config, metrics = (_object_beside(path, name) for name in ("config.json", "metrics.json"))
    has_rows, reader = path.exists(), Reader(_columns, problems)
    read = _Read()
    if has_rows:
        reader.read(_rows(path, read, problems))
    frames = reader.frames(_run_id(path, metrics))
    run, reported = _run(path, config, metrics, frames["responses"])
    run["note"] = read_description(path.parent / "summary.md") if _is_run_folder(path) else None
    if not has_rows:
        run |= {"n_queries": None, "n_failed": None}  # unknown, and not 0
        if not reported:
            raise DataError(
                "no aggregate",
                file=path.parent / "metrics.json",
                field="aggregate_metrics",
                allowed=f"numbers, or the run's rows beside it ({path.name})",
            )
    read.reported += reported
    if config:
        of_config = problems.for_file(path.parent / "config.json")
        judge = {
            "judge": as_text(config.get("judge_model")),
            "temperature": number(
                config.get("judge_temperature"), "judge_temperature", None, of_config
            ),
            "x_prompt_version": as_text(config.get("judge_prompt_version")),
        }
        read.judgments = [judgment | judge for judgment in read.judgments]
    run_id = run["run_id"]
    beside = {
        kind: [{"run_id": run_id} | one for one in rows]
        for kind, rows in (("judgments", read.judgments), ("reported", read.reported))
    }
    return Results(
        runs=from_records([run], "runs"),
        **frames,
        **frames_of(beside, optional=beside),
        problems=problems.frame(run_id) if has_rows else _without_rows(path, run_id),
    )


def _without_rows(path: Path, run_id: str) -> pd.DataFrame:
    """Return the problem of a run without rows, by which errors can name the missing file."""
    return from_records([{
        "file": str(path), "line": None, "field": None, "found": NO_ROWS,
        "allowed": "the run's rows", "run_id": run_id,
    }], "problems")  # fmt: skip


def read_description(path: Path) -> str | None:
    """Return the description of a run in its `summary.md`; None if there is none, or no such file.

    It ends before the section Configuration, so that it may have headings of its own.
    """
    if not path.is_file():
        return None
    lines = [line.rstrip() for line in read_text(path).splitlines()]
    if DESCRIPTION not in lines:
        return None
    section = lines[lines.index(DESCRIPTION) + 1 :]
    headings = [line for line in section if line.startswith("## ")]
    end = AFTER_DESCRIPTION if AFTER_DESCRIPTION in headings else next(iter(headings), None)
    stated = "\n".join(section if end is None else section[: section.index(end)]).strip()
    return stated if stated not in ("", NO_DESCRIPTION) else None


def _object_beside(path: Path, name: str) -> Record | None:
    """Return the JSON object of another file of the run folder; None without such a file."""
    file = path.parent / name
    return json_object(file) if _is_run_folder(path) and file.exists() else None


def _is_run_folder(path: Path) -> bool:
    """Return True if the files beside a file of rows are those of its run."""
    return path.name.startswith("results.jsonl")


def _run_id(path: Path, metrics: Record | None) -> str:
    stem = path.name.split(".")[0]
    folder_or_stem = path.absolute().parent.name if _is_run_folder(path) else stem
    return as_id((metrics or {}).get("run_id")) or folder_or_stem


def _run(
    path: Path, config: Record | None, metrics: Record | None, responses: pd.DataFrame
) -> tuple[Record, list[Record]]:
    """Return the row of the runs frame, and the aggregates of `metrics.json` as reported values.

    Everything else in `metrics.json` goes to `x_*` columns of the run.
    """
    left = dict(metrics or {})
    run_id, _ = _run_id(path, metrics), left.pop("run_id", None)
    stored = left.pop("aggregate_metrics", {})
    beside = {name: left.pop(name) for name in BESIDE if name in left}
    numbers, others = _numbers_and_others((stored if isinstance(stored, dict) else {}) | beside)
    left |= {"aggregate_metrics": others} if others else {}
    of_rows = responses.get("x_config.json", pd.Series(dtype="str")).dropna()
    first = json.loads(of_rows.iloc[0]) if len(of_rows) else {}
    stated = (config or first).get("k")
    k = stated if is_int(stated) and 1 <= stated < 2**63 else None
    reported = [aggregate(name, value, AGGREGATES, name, k) for name, value in numbers.items()]
    run = {
        "run_id": run_id,
        "created_at": _time(left.get("timestamp"), run_id),
        "config_hash": as_text(left.pop("config_hash", None)),
        "config": None if config is None else json.dumps(config, ensure_ascii=False),
        "n_queries": len(responses),
        "n_failed": int(responses["error"].notna().sum()),
        "k": k,
    }
    return run | flatten(left), reported


def _numbers_and_others(values: Record, prefix: str = "") -> tuple[Record, Record]:
    """Split nested objects into numbers (or null) by dotted name, and all else nested as it was."""
    numbers: Record = {}
    others: Record = {}
    nested: Record = {}
    for name, value in values.items():
        dotted = prefix + name.replace("%", "%25").replace(".", "%2E")
        if isinstance(value, dict) and value:
            inner_numbers, inner = _numbers_and_others(value, f"{dotted}.")
            numbers |= inner_numbers
            nested |= {name: inner} if inner else {}
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            numbers[dotted] = value
        else:
            others[name] = value
    return numbers, others | nested


def _time(stated: Any, run_id: str) -> pd.Timestamp | None:
    """Return the time of a run (UTC): the stated one, else the one in its id.

    A text that is none stays in `x_timestamp`.
    """
    if stated is None and re.fullmatch(r"\d{8}_\d{6}", run_id):
        stated = re.sub(r"(....)(..)(..)_(..)(..)(..)", r"\1-\2-\3T\4:\5:\6", run_id)
    return as_time(stated)


@dataclass
class _Read:
    """What is read row by row: judgments, stored values, and the line of each id."""

    lines: dict[str, int] = field(default_factory=dict)
    judgments: list[Record] = field(default_factory=list)
    reported: list[Record] = field(default_factory=list)


def _rows(path: Path, read: _Read, problems: Problems) -> Iterator[Row]:
    """Yield the test cases, without what judges and the harness computed: that goes to `read`."""
    for row in json_rows(path, problems):
        values, query_id = dict(row.values), as_id(row.values.get("test_case_id"))
        if query_id is None:
            problems.reject(values.get("test_case_id"), row.line, "test_case_id", "text")
            continue
        if (before := read.lines.setdefault(query_id, row.line)) != row.line:
            what, allowed = f"'{query_id}'", "one row per test case"
            problems.repeat(what, before, row.line, "test_case_id", allowed)
            continue
        values |= {name: as_json(values[name]) for name in SCOPE if values.get(name) is not None}
        cell = {"query_id": query_id}
        reported = _reported(_part(values, "retrieval_metrics", row, problems))
        read.judgments += [cell | one for one in _judgments(values, row, problems)]
        read.reported += [cell | one for one in reported]
        yield Row(values, row.line)


def _columns(case: Level) -> Frames:
    """Return the columns of a batch of test cases."""
    query_id = case.batch.query_ids = case.take("test_case_id", "id")
    responses = {"query_id": query_id}
    responses |= case.columns(RESPONSE) | case.columns(SCOPE)
    latency, abstention = case.inner("latency"), case.inner("abstention")
    for name in ("latency", "abstention"):
        case.refuse(name, "an object or null")
    responses |= latency.columns(LATENCY) | abstention.columns(ABSTENTION)
    for name in [name for name in latency.fields if name.endswith("_ms")]:
        responses[f"latency_{name}"] = latency.take(name, "number")
    hits, row, at = case.items("retrieved_chunks")
    rank = hits.order("rank", row, at)
    found = {"rank": pa.array(rank.astype(np.int32))} | hits.columns(CHUNK)
    if "text" in found:
        found["text_cut"] = _is_cut(found["text"])
    hits.extras(found)
    references = case.fields.get("references")
    cited, of_case, _ = case.items("references")
    citations = {"position": positions(of_case)} | cited.columns(REFERENCE)
    cited.extras(citations)
    latency.extras(responses, "x_latency.")
    abstention.extras(responses, "x_abstention.")
    case.extras(responses)
    if references is not None:
        responses["n_citations"] = none_cited(references)
    frames = {"hits": (row, found), "citations": (of_case, citations)}
    return {"responses": (np.arange(len(case)), responses)} | frames


def _is_cut(texts: pa.Array) -> pa.Array:
    n = pc.utf8_length(texts)
    is_long = pc.and_(pc.greater_equal(n, CUT_LENGTHS.start), pc.less(n, CUT_LENGTHS.stop))
    return pc.and_(pc.ends_with(texts, "..."), is_long)


def _part(values: Record, name: str, row: Row, problems: Problems) -> Record:
    """Return a copy of an object of the row, which replaces it in `values` and may be emptied."""
    part = values.get(name)
    if part is not None and not isinstance(part, dict):
        problems.reject(part, row.line, name, "an object or null")
    values[name] = dict(part) if isinstance(part, dict) else {}
    return values[name]


def _judgments(values: Record, row: Row, problems: Problems) -> list[Record]:
    """One row per judge's score and one per claim; the first row bears the judges' common cost."""
    judgments: list[Record] = []
    for name, criterion in JUDGES.items():
        judge = _part(values, name, row, problems)
        if number(judge.get("score"), f"{name}.score", row.line, problems) is None:
            judge.pop("score", None)
            continue
        columns = take_columns(judge, JUDGMENT, row.line, problems, f"{name}.")
        claims = [
            claim
            for key, verdict in CLAIMS.items()
            for claim in _claims(judge, key, verdict, f"{name}.{key}", row, problems)
        ]
        score = {"item": ""} | columns | flatten(judge)
        judgments += [{"criterion": criterion} | one for one in (score, *claims)]
        judge.clear()
    cost = _part(values, "cost", row, problems)
    if judgments and cost:
        judgments[0] |= take_columns(cost, COST, row.line, problems, "cost.")
    return judgments


def _claims(
    judge: Record, key: str, verdict: str, field: str, row: Row, problems: Problems
) -> list[Record]:
    """One row per claim of a list; an empty list stays in `judge`, to be written back."""
    claims = judge.get(key)
    if not claims:
        return []
    del judge[key]
    if not isinstance(claims, list) or not all(isinstance(claim, str) for claim in claims):
        problems.reject(claims, row.line, field, "a list of texts")
        return []
    return [
        {
            "item": f"{verdict} {n}",
            "value": float(verdict == "supported"),
            "verdict": verdict,
            "item_text": claim,
        }
        for n, claim in enumerate(claims, 1)
    ]


def _reported(metrics: Record) -> list[Record]:
    """Take the stored values of one case, true and false as 1 and 0, null as NaN.

    Values that are no numbers stay in `metrics`.
    """
    return [
        {
            "metric": name,
            "value": math.nan if (value := metrics.pop(name)) is None else float(value),
        }
        for name in list(metrics)
        if metrics[name] is None or isinstance(metrics[name], (bool, int, float))
    ]


def write_chatbot(results: Results, folder: str | Path, golden: Golden | None = None) -> Path:
    """Write one run as a chatbot's run folder: `results.jsonl`, `config.json` and `metrics.json`.

    A run that was loaded from such a folder is written with the same objects again, unknown fields
    included. A field that is null there may be absent here, except in `config.json`. Of its
    `summary.md` only the description is written, which is the run's note.
    `metrics.json` holds the values that the run came with (`results.reported`);
    `ev.save_metrics_json` writes newly computed ones. Where no row has a `config` of its own, each
    gets the run's, with its k: that harness scores by what stands there.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    folder
        Created if it isn't there.
    golden
        Says of which queries an answer is `abstention.hallucinated`: of those to be refused.

    Returns
    -------
    The folder.

    Raises
    ------
    DataError
        `results` holds no run or more than one.
    """
    check_one_run(results)
    folder = Path(folder)
    rows = {
        name: {} if (frame := getattr(results, name)) is None else by_query(frame)
        for name in ("hits", "citations", "judgments", "reported")
    }
    run = next(row_dicts(results.runs))
    config = _config_of_rows(run, results.responses)
    to_refuse = {*golden.refusals} if golden is not None else set()
    cases = [
        _case(
            response | config | _hallucinated(response, golden, to_refuse),
            **{name: of_query.get(response["query_id"], []) for name, of_query in rows.items()},
        )
        for response in row_dicts(results.responses.drop(columns="run_id"))
    ]
    write_lines(folder / "results.jsonl", cases)
    if run.get("config", "null") != "null":
        write_json(folder / "config.json", json.loads(run["config"]), indent=2)
    if metrics := _metrics(run, rows["reported"].get(RUN_LEVEL, [])):
        write_json(folder / "metrics.json", metrics, indent=2)
    if "note" in run:
        title = f"# Evaluation Run Summary\n\n**Run ID**: `{run['run_id']}`\n\n"
        write_text(folder / "summary.md", f"{title}{DESCRIPTION}\n\n{run['note']}\n")
    return folder


def _config_of_rows(run: Record, responses: pd.DataFrame) -> Record:
    """Return the column of the run's config, with its k, that rows without one get."""
    config = json.loads(run.get("config", "null")) or {}
    if "k" in run:
        config = {"k": run["k"]} | config
    if not config or "x_config.json" in responses:
        return {}
    return {"x_config.json": json.dumps(config, ensure_ascii=False)}


def _hallucinated(response: Record, golden: Golden | None, to_refuse: set[str]) -> Record:
    """Return the column that says whether a query was answered that should be refused."""
    if golden is None or "refused" not in response:
        return {}
    return {
        "x_abstention.hallucinated": response["query_id"] in to_refuse and not response["refused"]
    }


def _case(
    response: Record,
    hits: list[Record],
    citations: list[Record],
    judgments: list[Record],
    reported: list[Record],
) -> Record:
    """Return one row of `results.jsonl`."""
    own = extra_fields(response)
    case = {
        "test_case_id": response["query_id"],
        **named_fields(response, RESPONSE),
        "references": [named_fields(row, REFERENCE) | extra_fields(row) for row in citations],
        "retrieved_chunks": [named_fields(row, CHUNK) | extra_fields(row) for row in hits],
    }
    if "scope" in response:
        case["scope"] = json.loads(response["scope"])
    latencies = {
        name.removeprefix("latency_"): value
        for name, value in response.items()
        if name.startswith("latency_")
    }
    costs = (named_fields(row, COST) for row in judgments)
    parts: dict[str, Record] = {
        "latency": named_fields(response, LATENCY) | latencies,
        "abstention": named_fields(response, ABSTENTION),
        "retrieval_metrics": {
            row["metric"]: bool(row["value"])
            if row["metric"] in FLAGS and "value" in row
            else row.get("value")
            for row in reported
        },
        **{
            name: _judge([row for row in judgments if row["criterion"] == criterion])
            for name, criterion in JUDGES.items()
        },
        "cost": next(filter(None, costs), {}),
    }
    for name, part in parts.items():
        if part or name in own:
            case[name] = part | own.pop(name, {})
    return case | own


def _judge(judgments: list[Record]) -> Record:
    """Return one judge's object: its score and reasoning, and its claims."""
    judge: Record = {}
    for row in judgments:
        if row["item"] == "":
            own = extra_fields(row)
            own.pop("prompt_version", None)  # it stands in config.json
            judge |= named_fields(row, JUDGMENT) | own
    for key, verdict in CLAIMS.items():
        if claims := [row["item_text"] for row in judgments if row.get("verdict") == verdict]:
            judge[key] = claims
    return judge


def _metrics(run: Record, reported: list[Record]) -> Record:
    """Return the content of `metrics.json`; empty if the run has nothing for it."""
    own = extra_fields(run)
    aggregates = unflatten({f"x_{row['metric']}": row.get("value") for row in reported})
    merged = _merged(aggregates, own.pop("aggregate_metrics", {}))
    if not (merged or own or "config_hash" in run):
        return {}
    config_hash = {"config_hash": run["config_hash"]} if "config_hash" in run else {}
    beside = {name: merged.pop(name) for name in BESIDE if name in merged}
    return {"run_id": str(run["run_id"]), "aggregate_metrics": merged} | beside | config_hash | own


def _merged(one: Record, other: Record) -> Record:
    """Return two nested objects as one."""
    both = {name: _merged(one[name], other[name]) for name in one.keys() & other.keys()}
    return one | other | both

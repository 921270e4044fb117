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
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.io.files import check_one_run, read_text, write_json, write_lines, write_text
from ragscore.io.formats.fields import (
    RUN_LEVEL,
    Fields,
    aggregate,
    json_object,
    leaves,
    named_fields,
    take_columns,
)
from ragscore.io.record import none_cited, positions
from ragscore.io.run_records import Frames, Level, Reader
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import (
    JSON_SUFFIX,
    as_json,
    as_time,
    by_query,
    extra_fields,
    flatten,
    is_int,
    number,
    row_dicts,
    unflatten,
    unify_types,
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
NUMBERS = (bool, int, float, NoneType)
OTHERS = "x_aggregate_metrics."  # how columns of aggregates that are no numbers begin
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
    path = path / "results.jsonl" if path.is_dir() else path
    problems, folder, has_rows = Problems(path, strict), path.parent, path.exists()
    is_run_folder = path.name.startswith("results.jsonl")  # the files beside are those of its run
    config, metrics = (
        json_object(folder / name) if is_run_folder and (folder / name).exists() else None
        for name in ("config.json", "metrics.json")
    )
    named = path.absolute().parent.name if is_run_folder else path.name.split(".")[0]
    run_id = as_id((metrics or {}).get("run_id")) or named
    reader, read = Reader(_columns, problems), _Read(problems)
    if has_rows:
        reader.read(read.rows(path))
    else:
        problems.note(NO_ROWS, allowed="the run's rows")
    frames = reader.frames(run_id)
    run, reported = _run(run_id, config, metrics, frames["responses"])
    run["note"] = read_description(folder / "summary.md") if is_run_folder else None
    if not has_rows:
        run |= {"n_queries": None, "n_failed": None}  # unknown, and not 0
        if not reported:
            raise DataError(
                "no aggregate",
                file=folder / "metrics.json",
                field="aggregate_metrics",
                allowed=f"numbers, or the run's rows beside it ({path.name})",
            )
    judge: Record = {}
    if config:
        of_config = problems.for_file(folder / "config.json")
        judge = {"judge": as_text(config.get("judge_model"))}
        temperature = config.get("judge_temperature")
        judge["temperature"] = number(temperature, "judge_temperature", None, of_config)
        judge["x_prompt_version"] = as_text(config.get("judge_prompt_version"))
    beside = {
        "judgments": [one | judge for one in read.judgments],
        "reported": read.reported + reported,
    }
    for kind in (kind for kind, rows in beside.items() if rows):
        rows = unify_types([{"run_id": run_id} | one for one in beside[kind]])
        frames[kind] = from_records(rows, kind)
    return Results(runs=from_records([run], "runs"), **frames, problems=problems.frame(run_id))


def read_description(path: Path) -> str | None:
    """Return the description of a run in its `summary.md`; None if there is none, or no such file.

    It ends before the section Configuration, so that it may have headings of its own.
    """
    if not path.is_file():
        return None
    text = "\n".join(line.rstrip() for line in ["", *read_text(path).splitlines(), ""])
    section = text.partition(f"\n{DESCRIPTION}\n")[2]
    before, is_there, _ = f"\n{section}".partition(f"\n{AFTER_DESCRIPTION}\n")
    stated = (before if is_there else before.partition("\n## ")[0]).strip()
    return stated if stated not in ("", NO_DESCRIPTION) else None


def _run(
    run_id: str, config: Record | None, metrics: Record | None, responses: pd.DataFrame
) -> tuple[Record, list[Record]]:
    """Return the row of the runs frame, and the aggregates of `metrics.json` as reported values.

    Everything else in `metrics.json` goes to `x_*` columns of the run.
    """
    left = {name: value for name, value in (metrics or {}).items() if name != "run_id"}
    stored = left.pop("aggregate_metrics", None) or {}
    beside = {name: left.pop(name) for name in BESIDE if name in left}
    of_rows = responses.get("x_config.json", pd.Series(dtype="str")).dropna()
    k = (config or (json.loads(of_rows.iloc[0]) if len(of_rows) else {})).get("k")
    k = k if is_int(k) and 1 <= k < 2**63 else None
    reported, others = [], dict[str, Any]()
    for name, value in leaves((stored if isinstance(stored, dict) else {}) | beside):
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            reported.append(aggregate(name, value, AGGREGATES, name, k))
        else:
            is_json = isinstance(value, (dict, list))
            full = f"{OTHERS}{name}{JSON_SUFFIX * is_json}"
            others[full] = as_json(value) if is_json else value
    timestamp = left.get("timestamp")
    if timestamp is None and re.fullmatch(r"\d{8}_\d{6}", run_id):
        timestamp = re.sub(r"(....)(..)(..)_(..)(..)(..)", r"\1-\2-\3T\4:\5:\6", run_id)
    run = {
        "run_id": run_id,
        "created_at": as_time(timestamp),  # a text that is no time stays in `x_timestamp`
        "config_hash": as_text(left.pop("config_hash", None)),
        "config": None if config is None else json.dumps(config, ensure_ascii=False),
        "n_queries": len(responses),
        "n_failed": int(responses["error"].notna().sum()),
        "k": k,
    }
    return run | flatten(left) | others, reported


@dataclass
class _Read:
    """What is read row by row: judgments, stored values, and the line of each id."""

    problems: Problems
    lines: dict[str, int] = field(default_factory=dict)
    judgments: list[Record] = field(default_factory=list)
    reported: list[Record] = field(default_factory=list)

    def rows(self, path: Path) -> Iterator[Row]:
        """Yield the test cases, without what judges and the harness computed."""
        for row in json_rows(path, self.problems):
            values, query_id = dict(row.values), as_id(row.values.get("test_case_id"))
            if query_id is None:
                self.problems.reject(values.get("test_case_id"), row.line, "test_case_id", "text")
                continue
            if (before := self.lines.setdefault(query_id, row.line)) != row.line:
                what, allowed = f"'{query_id}'", "one row per test case"
                self.problems.repeat(what, before, row.line, "test_case_id", allowed)
                continue
            values |= {
                name: as_json(values[name]) for name in SCOPE if values.get(name) is not None
            }
            cell = {"query_id": query_id}
            # true and false are 1 and 0, null is NaN; what is no number stays
            metrics = self._part(values, "retrieval_metrics", row.line)
            for name in [name for name, one in metrics.items() if isinstance(one, NUMBERS)]:
                value = metrics.pop(name)
                value = math.nan if value is None else float(value)
                self.reported.append(cell | {"metric": name, "value": value})
            self.judgments += [cell | one for one in self._judgments(values, row.line)]
            yield Row(values, row.line)

    def _part(self, values: Record, name: str, line: int) -> Record:
        """Return a copy of an object, which replaces it in `values` and may be emptied."""
        part = values.get(name)
        if not isinstance(part, (dict, NoneType)):
            self.problems.reject(part, line, name, "an object or null")
        values[name] = dict(part) if isinstance(part, dict) else {}
        return values[name]

    def _judgments(self, values: Record, line: int) -> list[Record]:
        """One row per judge's score and claim; the first row bears the judges' common cost."""
        judgments: list[Record] = []
        for name, criterion in JUDGES.items():
            judge = self._part(values, name, line)
            columns = take_columns(judge, JUDGMENT, line, self.problems, f"{name}.")
            if columns["value"] is None:
                judge |= {"reasoning": columns["reason"]}
                continue
            rows: list[Record] = []
            for key, verdict in CLAIMS.items():
                claims = judge.pop(key, None)
                if claims == []:
                    judge[key] = claims
                elif isinstance(claims, list) and all(isinstance(one, str) for one in claims):
                    about = {"value": float(verdict == "supported"), "verdict": verdict}
                    rows += [
                        about | {"item": f"{verdict} {n}", "item_text": claim}
                        for n, claim in enumerate(claims, 1)
                    ]
                elif claims:
                    self.problems.reject(claims, line, f"{name}.{key}", "a list of texts")
            score = {"item": ""} | columns | flatten(judge)
            judgments += [{"criterion": criterion} | one for one in (score, *rows)]
            judge.clear()
        cost = self._part(values, "cost", line)
        if judgments and cost:
            judgments[0] |= take_columns(cost, COST, line, self.problems, "cost.")
        return judgments


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


def write_chatbot(results: Results, folder: str | Path, golden: Golden | None = None) -> Path:
    """Write one run as a chatbot's run folder: `results.jsonl`, `config.json` and `metrics.json`.

    A run that was loaded from such a folder is written with the same objects again, unknown fields
    included. A field that is null there may be absent here, except in `config.json`. Of its
    `summary.md` only the description is written, which is the run's note.
    `metrics.json` holds the values that the run came with (`results.reported`);
    `ev.save` writes newly computed ones. Where no row has a `config` of its own, each
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
    run, responses = next(row_dicts(results.runs)), results.responses.drop(columns="run_id")
    stated = json.loads(run.get("config", "null"))
    config = ({"k": run["k"]} if "k" in run else {}) | (stated or {})
    if config and "x_config.json" not in responses:
        text = json.dumps(config, ensure_ascii=False)
        responses = responses.assign(**{"x_config.json": text})
    if golden is not None and "refused" in responses:
        is_answered = ~responses["refused"] & responses["query_id"].isin(golden._refusals)
        is_known = responses["refused"].notna()
        responses["x_abstention.hallucinated"] = is_answered.where(is_known)
    cases = [
        _case(one, **{name: of.get(one["query_id"], []) for name, of in rows.items()})
        for one in row_dicts(responses)
    ]
    write_lines(folder / "results.jsonl", cases)
    if stated is not None:
        write_json(folder / "config.json", stated, indent=2)
    if metrics := _metrics(run, rows["reported"].get(RUN_LEVEL, [])):
        write_json(folder / "metrics.json", metrics, indent=2)
    if "note" in run:
        title = f"# Evaluation Run Summary\n\n**Run ID**: `{run['run_id']}`\n\n"
        write_text(folder / "summary.md", f"{title}{DESCRIPTION}\n\n{run['note']}\n")
    return folder


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
            judge |= named_fields(row, JUDGMENT) | extra_fields(row)
    judge.pop("prompt_version", None)  # it stands in config.json
    for key, verdict in CLAIMS.items():
        if claims := [row["item_text"] for row in judgments if row.get("verdict") == verdict]:
            judge[key] = claims
    return judge


def _metrics(run: Record, reported: list[Record]) -> Record:
    """Return the content of `metrics.json`; empty if the run has nothing for it."""
    flat = {f"x_{row['metric']}": row.get("value") for row in reported}
    for name in [name for name in run if name.startswith(OTHERS)]:
        flat[f"x_{name.removeprefix(OTHERS)}"] = run.pop(name)
    own, aggregates = extra_fields(run), unflatten(flat)
    config_hash = {"config_hash": run["config_hash"]} if "config_hash" in run else {}
    if not (aggregates or own or config_hash):
        return {}
    beside = {name: aggregates.pop(name) for name in BESIDE if name in aggregates}
    whole = {"run_id": str(run["run_id"]), "aggregate_metrics": aggregates}
    return whole | beside | config_hash | own

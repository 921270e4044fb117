"""A chatbot's evaluation: run folders <-> `Results`, golden cases (`eval_set.jsonl`) <-> `Golden`.

A run folder is `results/<run_id>/{results.jsonl, config.json, metrics.json}`. A test case that
ended in an error has no row there, so it is missing from the responses too. Values that the harness
computed itself (`retrieval_metrics`, `metrics.json`) become `reported`; judges' scores and claims
become `judgments`; the description in `summary.md` becomes the run's note.

The golden cases have fields of our own golden file, some under other names. Anchors
(`gold_supports`) are their only targets.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, Golden, Results, conform, from_records
from ragscore.frames.errors import warn
from ragscore.io.files import check_one_run, read_text, write_json, write_lines, write_text
from ragscore.io.formats.fields import (
    RUN_LEVEL,
    Fields,
    aggregate,
    golden_rows,
    json_object,
    leaves,
    named_fields,
    take_columns,
)
from ragscore.io.golden_read import TAG_FIELDS, golden_of
from ragscore.io.run_file import none_cited, positions
from ragscore.io.run_records import Frames, Level, Reader, kinds_of, listed
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import (
    JSON_SUFFIX,
    READ,
    as_json,
    as_time,
    by_query,
    extra_fields,
    flatten,
    is_int,
    row_dicts,
    unflatten,
)

RESPONSE: Fields = {
    "question": ("query", "text"),
    "answer": ("answer", "text"),
    "error": ("error", "failure"),
}
SCOPE = {"scope": "scope", "config": "x_config.json"}  # kept as JSON text
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
JUDGED: Fields = {
    "criterion": ("criterion", "text"),
    "item": ("item", "text"),
    "item_text": ("item_text", "text"),
    "value": ("value", "number"),
    "verdict": ("verdict", "text"),
    "reason": ("reason", "text"),
    "tokens": ("tokens", "whole"),
    "cost_usd": ("cost_usd", "number"),
}
REPORTED: Fields = {"metric": ("metric", "text"), "value": ("value", "number")}
COST: Fields = {"judge_tokens": ("tokens", "whole"), "judge_cost_usd": ("cost_usd", "number")}

# A judge's object in a row -> its criterion, which is the metric's name.
JUDGES = {"groundedness": "judge_groundedness", "correctness": "judge_correctness"}
CLAIMS = {"supported_claims": "supported", "unsupported_claims": "unsupported"}
FLAGS = ("scope_miss", "attribution_hit")  # stored metrics that are true or false there
CUT_LENGTHS = range(195, 206)  # a text that the harness cut to 200 characters, with its ellipsis
DESCRIPTION, AFTER_DESCRIPTION = "## Run Description", "## Configuration"  # lines of summary.md
NO_DESCRIPTION = "No description provided"  # written there when nobody gave one
NUMBERS = (bool, int, float, NoneType)
ROWS = " rows of judgments", " rows of reported"  # names that the rows of a case have within it
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


# Runs


def read_chatbot(path: Path, strict: bool) -> Results:
    """Read one run: `results.jsonl`, with the `config.json` and `metrics.json` beside it.

    A folder without `results.jsonl` gives the run and what it reports, and no responses.
    """
    path = path / "results.jsonl" if path.is_dir() else path
    problems, folder, has_rows = Problems(path, strict), path.parent, path.exists()
    is_run_folder = path.name.startswith("results.jsonl")  # the files beside are those of its run
    config, metrics = (
        json_object(folder / name) if is_run_folder and (folder / name).exists() else {}
        for name in ("config.json", "metrics.json")
    )
    named = path.absolute().parent.name if is_run_folder else path.name.split(".")[0]
    run_id = as_id(metrics.get("run_id")) or named
    reader = Reader(_columns, problems, {"test_case_id": "query_id"}, "one row per test case")
    if has_rows:
        reader.read(_cases(path, problems))
    else:
        problems.note(NO_ROWS, allowed="the run's rows")
    frames = reader.frames(run_id)
    run, aggregates = _run(run_id, config, metrics, frames["responses"])
    if is_run_folder:
        run["note"] = read_description(folder / "summary.md")
    if not has_rows and not aggregates:
        raise DataError(
            "no aggregate",
            file=folder / "metrics.json",
            field="aggregate_metrics",
            allowed=f"numbers, or the run's rows beside it ({path.name})",
        )
    if has_rows:
        run["n_queries"] = len(frames["responses"])
        run["n_failed"] = int(frames["responses"]["error"].notna().sum())
    if aggregates:
        rows = from_records([{"run_id": run_id} | one for one in aggregates], "reported")
        of_cases = [frames["reported"]] if "reported" in frames else []
        frames["reported"] = conform(pd.concat([*of_cases, rows], ignore_index=True), "reported")
    if "judgments" in frames:
        of_config = problems.for_file(folder / "config.json")
        temperature = config.get("judge_temperature")
        judge = {
            "judge": as_text(config.get("judge_model")),
            "temperature": READ["number"](temperature, "judge_temperature", None, of_config),
            "x_prompt_version": as_text(config.get("judge_prompt_version")),
        }
        known = {name: one for name, one in judge.items() if one is not None}
        frames["judgments"] = conform(frames["judgments"].assign(**known), "judgments")
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
    run_id: str, config: Record, metrics: Record, responses: pd.DataFrame
) -> tuple[Record, list[Record]]:
    """Return the row of the runs frame, and the aggregates of `metrics.json` as reported values.

    Everything else in `metrics.json` goes to `x_*` columns of the run.
    """
    left = {name: value for name, value in metrics.items() if name != "run_id"}
    stored = left.pop("aggregate_metrics", None) or {}
    beside = {name: left.pop(name) for name in BESIDE if name in left}
    of_rows = responses.get("x_config.json", pd.Series(dtype="str")).dropna()
    k = (config or json.loads(of_rows.get(of_rows.first_valid_index(), "{}"))).get("k")
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
        "config": json.dumps(config, ensure_ascii=False) if config else None,
        "k": k,
    }
    return run | flatten(left) | others, reported


def _cases(path: Path, problems: Problems) -> Iterator[Row]:
    """Yield test cases; what judges and the harness computed are lists of objects in them."""
    for row in json_rows(path, problems):
        values, parts = dict(row.values), dict[str, Record]()
        for name in (*JUDGES, "retrieval_metrics", "cost"):
            part = values.get(name)
            if not isinstance(part, (dict, NoneType)):
                problems.reject(part, row.line, name, "an object or null")
            parts[name] = values[name] = dict(part) if isinstance(part, dict) else {}
        judgments = [
            one for name in JUDGES for one in _judgments(parts[name], name, row.line, problems)
        ]
        if judgments:  # the first has the judges' common cost
            judgments[0] |= take_columns(parts["cost"], COST, row.line, problems, "cost.")
        metrics = parts["retrieval_metrics"]
        numbers = [name for name, one in metrics.items() if isinstance(one, NUMBERS)]
        reported = [
            {"metric": name, "value": None if (one := metrics.pop(name)) is None else float(one)}
            for name in numbers
        ]
        yield Row(values | dict(zip(ROWS, (judgments, reported), strict=True)), row.line)


def _judgments(judge: Record, name: str, line: int, problems: Problems) -> list[Record]:
    """Return a judge's score and claims, and empty its object, if it has a score."""
    columns = take_columns(judge, JUDGMENT, line, problems, f"{name}.")
    if columns["value"] is None:
        judge["reasoning"] = columns["reason"]
        return []
    claims: list[Record] = []
    for key, verdict in CLAIMS.items():
        texts = judge.pop(key, None) or []
        if not isinstance(texts, list) or kinds_of(texts) - {str}:
            problems.reject(texts, line, f"{name}.{key}", "a list of texts")
            continue
        claims += [
            {
                "value": float(verdict == "supported"),
                "verdict": verdict,
                "item": f"{verdict} {n}",
                "item_text": text,
            }
            for n, text in enumerate(texts, 1)
        ]
    score = {"item": ""} | columns | {"own": dict(judge)}
    judge.clear()
    return [{"criterion": JUDGES[name]} | one for one in (score, *claims)]


def _columns(case: Level) -> Frames:
    """Return the columns of a batch of test cases."""
    frames: Frames = {}
    for kind, name, fields in zip(("judgments", "reported"), ROWS, (JUDGED, REPORTED), strict=True):
        rows, row, _ = case.items(name)
        own = rows.inner("own")
        columns = rows.columns(fields)
        own.extras(columns)
        if len(row):
            frames[kind] = (row, columns)
    responses = case.columns(RESPONSE)
    for name, column in SCOPE.items():
        if name in case.fields:
            values = listed(case.fields.pop(name))
            texts = [None if one is None else as_json(one) for one in values]
            responses[column] = pa.array(texts, pa.string())
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
    frames |= {"hits": (row, found), "citations": (of_case, citations)}
    return frames | {"responses": (np.arange(len(case)), responses)}


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
            name: _judge([row for row in judgments if row["criterion"] == criterion], criterion)
            for name, criterion in JUDGES.items()
        },
        "cost": next(filter(None, costs), {}),
    }
    for name, part in parts.items():
        if part or name in own:
            case[name] = part | own.pop(name, {})
    return case | own


def _judge(judgments: list[Record], criterion: str) -> Record:
    """Return one judge's object: its score and reasoning, and its claims."""
    judge: Record = {}
    for row in judgments:
        if row["item"] == "":
            judge |= named_fields(row, JUDGMENT) | extra_fields(row)
    judge.pop("prompt_version", None)  # it stands in config.json
    if judge and criterion == "judge_groundedness":
        for key, verdict in CLAIMS.items():
            judge[key] = [row["item_text"] for row in judgments if row.get("verdict") == verdict]
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


# Golden cases

LISTS = ("expected_key_facts", "gold_supports", "required_support_groups", *TAG_FIELDS)
ROW_FIELDS = frozenset(
    ("id", "query", "answerable", "recency_conflict_rule", "category", "difficulty", *LISTS)
)
"""Fields that our own golden file has under the same name; only `question` is `query` there."""
OTHER_NAMES = {"path": "rel_path", "heading": "heading_path"}
RULES = ("cite_newer", "acknowledge_both", "cite_both")
PARTS = ("targets", "support_groups", "checks", "tags")


def read_chatbot_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read and check one file of cases.

    Ids must be unique. A case without `answerable` is answerable.
    """
    problems, rows = Problems(path, strict), list[Row]()
    for row in json_rows(path, problems):
        values = dict(row.values)
        if "question" in values:
            values["query"] = values.pop("question")
        rule = values.get("recency_conflict_rule")
        if rule not in (None, *RULES):
            problems.reject(
                rule, row.line, "recency_conflict_rule", f"one of {', '.join(RULES)}, or null"
            )
            values["recency_conflict_rule"] = None
        if values.get("answerable") is None:
            values["answerable"] = True
        rows.append(Row(values, row.line, row.lines))
    golden = golden_of(golden_rows(rows, ROW_FIELDS), problems, absent_docs, catalogue)
    problems.typos.warn()
    return golden


def write_chatbot_golden(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as a chatbot's `eval_set.jsonl`.

    A set that was loaded from such a file is written with the same objects again, unknown fields
    included. Each case has every field that the format requires: null or an empty list where the
    set has nothing. Only targets with a path (anchors) have a place there.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        A support group names a target that is no anchor.
    """
    parts = {name: by_query(getattr(golden, name)) for name in PARTS}
    cases = []
    for query in row_dicts(golden.queries):
        of_query = {name: rows.get(query["query_id"], []) for name, rows in parts.items()}
        cases.append(_written_case(query, of_query | {"conditions": []}))
    written = write_lines(path, cases)
    if n := int((golden.targets["level"] != "anchor").sum()):
        warn(f"{path} has no place for targets: {n:,}")
    return written


def _written_case(query: dict[str, Any], parts: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    from ragscore.io.golden_write import row_of  # yaml is not needed to read

    own = extra_fields(query)
    plain = {name: one for name, one in query.items() if not name.startswith("x_")}
    said = row_of(plain, parts)
    for at, group in enumerate(groups := said.get("required_support_groups", [])):
        if other := [member for member in group if not isinstance(member, int)]:
            raise DataError(
                f"{other[0]!r} in group {at} of query {query['query_id']!r} is no anchor",
                field="support_groups.target_id",
                allowed="anchors (targets with a path): groups are positions in gold_supports",
            )
    supports = [
        {OTHER_NAMES.get(name, name): value for name, value in one.items()}
        for one in said.get("gold_supports", [])
    ]
    return {
        "id": query["query_id"],
        "question": query["query"],
        "answerable": query.get("answerable"),
        "expected_key_facts": said.get("expected_key_facts", []),
        "gold_supports": supports,
        "required_support_groups": groups or None,
        "recency_conflict_rule": said.get("recency_conflict_rule"),
        **{name: said.get(name, []) for name in TAG_FIELDS},
        **{name: said.get(name) for name in ("category", "difficulty")},
        **own,
    }

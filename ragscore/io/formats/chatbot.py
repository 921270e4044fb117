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
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.frames.errors import warn
from ragscore.io.files import check_one_run, read_text, write_json, write_lines, write_text
from ragscore.io.formats.fields import (
    RUN_LEVEL,
    aggregate,
    json_object,
    objects_in,
    placed,
    rows_of,
)
from ragscore.io.golden_read import KNOWN_FIELDS, TAG_FIELDS, golden_of
from ragscore.io.golden_write import written_rows
from ragscore.io.run_file import none_cited
from ragscore.io.run_records import (
    Fields,
    Frames,
    Level,
    Reader,
    is_stated,
    kinds_of,
    listed,
    own_fields,
    places,
)
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import (
    FieldReader,
    as_time,
    escape_key,
    grouped,
    is_int,
    leaves,
    objects_of,
    plain_values_of,
    row_dicts,
    unflatten,
)

RESPONSE: Fields = {
    "question": ("query", "text"),
    "answer": ("answer", "text"),
    "error": ("error", "failure"),
    "scope": ("scope", "any"),
    "latency.total_ms": ("elapsed_ms", "number"),
    "abstention.abstained": ("refused", "flag"),
}
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
# a text that the harness cut to 200 characters, with its ellipsis
CUT_TEXT = r"(?s)^.{192,202}\.\.\.$"
ELLIPSIS = "..."
DESCRIPTION = "## Run Description"
NO_DESCRIPTION = "No description provided"  # written there when nobody gave one
NO_ROWS = "the file is not there: aggregates are all that is known of the run"
# Aggregate of `metrics.json` -> our metric, at the run's own k, and the statistic that it is
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
# Parts of `metrics.json` beside `aggregate_metrics`; within it they are read, too
BESIDE = (
    "by_tag", "by_category", "total_tests", "answerable_tests", "unanswerable_tests",
    "judge_reliability",
)  # fmt: skip

Record = dict[str, Any]


# Runs


def read_chatbot(path: Path, strict: bool) -> Results:
    """Read one run: `results.jsonl`, with the `config.json` and `metrics.json` beside it.

    A folder without `results.jsonl` gives the run and what it reports, and no responses.
    """
    path = path / "results.jsonl" if path.is_dir() else path
    problems, folder, has_rows = Problems(path, strict), path.parent, path.exists()
    is_run_folder = path.name.startswith("results.jsonl")  # the files beside belong to its run
    config, metrics = (
        json_object(folder / name) if is_run_folder and (folder / name).exists() else {}
        for name in ("config.json", "metrics.json")
    )
    named = path.absolute().parent.name if is_run_folder else path.name.split(".")[0]
    run_id = as_id(metrics.get("run_id")) or named
    reader = Reader(_columns, problems, {"test_case_id": "query_id"}, "one row per test case")
    if has_rows:
        reader.read(json_rows(path, reader.faults))
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
        error = frames["responses"]["error"]
        run |= {"n_queries": len(error), "n_failed": int(error.notna().sum())}
    if aggregates:
        rows = from_records([{"run_id": run_id} | one for one in aggregates], "reported")
        of_cases = [frames["reported"]] if "reported" in frames else []
        frames["reported"] = pd.concat([*of_cases, rows], ignore_index=True)
    if "judgments" in frames:
        asked = FieldReader(config, "", None, problems.for_file(folder / "config.json"))
        judge = {
            "judge": asked.take("text", "judge_model"),
            "temperature": asked.take("number", "judge_temperature"),
            "x_prompt_version": asked.take("text", "judge_prompt_version"),
        }
        known = {name: one for name, one in judge.items() if one is not None}
        frames["judgments"] = frames["judgments"].assign(**known)
    return Results(runs=from_records([run], "runs"), **frames, problems=problems.frame(run_id))


def read_description(path: Path) -> str | None:
    """Return the description of a run in its `summary.md`; None if there is none, or no such file.

    It ends before the section Configuration, or with the file.
    """
    section = read_text(path).partition(DESCRIPTION)[2] if path.is_file() else ""
    stated = section.partition("\n## Configuration")[0].strip()
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
    found = dict(leaves((stored if isinstance(stored, dict) else {}) | beside))
    numbers = {name: one for name, one in found.items() if one is None or type(one) in (int, float)}
    if others := {f"x_{name}": one for name, one in found.items() if name not in numbers}:
        left["aggregate_metrics"] = unflatten(others)
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
    reported = [aggregate(name, one, AGGREGATES, name, k) for name, one in numbers.items()]
    return run | own_fields(left), reported


def _columns(case: Level) -> Frames:
    """Return the columns of a batch of test cases."""
    frames, metrics = _judgments(case), case.inner("retrieval_metrics")
    for metric, values in [*metrics.fields.items()]:
        stated, of = listed(values), np.flatnonzero(is_stated(values))
        if kinds_of(stated) <= {bool, int, float}:
            del metrics.fields[metric]
            numbers = pa.array([float(stated[n]) for n in of], pa.float64())
            reported = {"metric": pa.repeat(metric, len(of)), "value": numbers}
            frames.append(("reported", of, reported))
    responses = case.columns(RESPONSE)
    responses["x_config.json"] = case.take("config", "any")
    latency = case.inner("latency")
    for name in [name for name in latency.fields if name.endswith("_ms")]:
        responses[f"latency_{name}"] = latency.take(name, "number")
    hits, row, at = case.items("retrieved_chunks")
    found = {"rank": hits.order("rank", row, at)} | hits.columns(CHUNK)
    if "text" in found:
        found["text_cut"] = pc.match_substring_regex(found["text"], CUT_TEXT)
    hits.extras(found)
    frames.append(("hits", row, found))
    if "references" in case.fields:
        responses["n_citations"] = none_cited(case.fields["references"])
    cited, row, _ = case.items("references")
    citations = {"position": pa.array(places(row))} | cited.columns(REFERENCE)
    cited.extras(citations)
    frames.append(("citations", row, citations))
    for name in ("latency", "abstention", "retrieval_metrics", "cost"):
        case.inner(name)
        case.refuse(name, "an object or null")
    case.extras(responses)
    return [("responses", np.arange(len(case)), responses), *frames]


def _judgments(case: Level) -> Frames:
    """Return what judges say: a row for the score of each, and one for each claim.

    What judging has cost is beside the first score.
    """
    frames: Frames = []
    cost, is_open = case.inner("cost"), np.ones(len(case), bool)
    for name, criterion in JUDGES.items():
        judge = case.inner(name)
        case.refuse(name, "an object or null")
        claims = {verdict: judge.take(key, "texts") for key, verdict in CLAIMS.items()}
        found = judge.columns(JUDGMENT)
        judge.extras(found)
        is_judged = np.any([np.zeros(len(case), bool), *map(is_stated, found.values())], axis=0)
        found |= {
            column: cost.take(place, type, is_judged & is_open)
            for place, (column, type) in COST.items()
        }
        is_open &= ~is_judged
        found |= {"criterion": pa.repeat(criterion, len(case)), "item": pa.repeat("", len(case))}
        of = np.flatnonzero(is_judged)
        frames.append(("judgments", of, {n: one.take(pa.array(of)) for n, one in found.items()}))
        for verdict, texts in claims.items():
            lists = [json.loads(one or "[]") for one in texts.to_pylist()]
            row = np.repeat(np.arange(len(lists)), [*map(len, lists)])
            claimed = {
                "criterion": pa.repeat(criterion, len(row)),
                "item": pa.array([f"{verdict} {n}" for n in places(row)], pa.string()),
                "item_text": pa.array([as_text(one) for one in chain(*lists)], pa.string()),
                "verdict": pa.repeat(verdict, len(row)),
                "value": pa.repeat(float(verdict == "supported"), len(row)),
            }
            frames.append(("judgments", row, claimed))
    return frames


def write_chatbot(results: Results, folder: str | Path, text: int | None = 200) -> Path:
    """Write one run as a chatbot's run folder: `results.jsonl`, `config.json` and `metrics.json`.

    A run that was loaded from such a folder is written with the same objects again, unknown fields
    included. A field that is null there may be absent here, except in `config.json`. Of its
    `summary.md` only the description is written, which is the run's note.
    `metrics.json` holds the values that the run came with (`results.reported`);
    `ev.save` writes newly computed ones. Where no row has a `config` of its own, each
    gets the run's, with its k: that harness scores by it.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    folder
        Created if it isn't there.
    text
        Longer texts of hits are cut to so many characters, as that harness does; None keeps them
        whole.

    Returns
    -------
    The folder.

    Raises
    ------
    DataError
        `results` holds no run or more than one.

    Warns
    -----
    UserWarning
        Counts the texts that are cut.
    """
    check_one_run(results)
    folder = Path(folder)
    run, responses = next(row_dicts(results.runs)), results.responses
    stated = json.loads(run.get("config", "null"))
    config = ({"k": run["k"]} if "k" in run else {}) | (stated or {})
    if config and "x_config.json" not in responses:
        of_rows = json.dumps(config, ensure_ascii=False)
        responses = responses.assign(**{"x_config.json": of_rows})
    hits = _cut(results.hits, text, folder)
    write_lines(folder / "results.jsonl", _written_cases(responses, hits, results))
    if stated is not None:
        write_json(folder / "config.json", stated, indent=2)
    if metrics := _metrics(run, rows_of(results, "reported")):
        write_json(folder / "metrics.json", metrics, indent=2)
    if "note" in run:
        title = f"# Evaluation Run Summary\n\n**Run ID**: `{run['run_id']}`\n\n"
        write_text(folder / "summary.md", f"{title}{DESCRIPTION}\n\n{run['note']}\n")
    return folder


def _cut(hits: pd.DataFrame, text: int | None, folder: Path) -> pd.DataFrame:
    """Return hits whose texts are cut to so many characters, and an ellipsis."""
    if text is None or "text" not in hits:
        return hits
    is_long = hits["text"].str.len().gt(text + len(ELLIPSIS))
    if is_long.any():
        warn(f"{folder}: {is_long.sum():,} texts cut to {text} characters; text=None keeps them")
    return hits.assign(text=hits["text"].mask(is_long, hits["text"].str[:text] + ELLIPSIS))


def _written_cases(responses: pd.DataFrame, hits: pd.DataFrame, results: Results) -> list[Record]:
    """Return the rows of `results.jsonl`."""
    ids, judgments = responses["query_id"], rows_of(results, "judgments")
    spent = judgments.reindex(columns=["query_id", "tokens", "cost_usd"]).groupby("query_id").last()
    reported = rows_of(results, "reported")
    phases = [name for name in map(str, responses) if name.startswith("latency_")]
    names = {f"latency.{name.removeprefix('latency_')}": (name, "number") for name in phases}
    columns = {"x_test_case_id": ids.tolist()} | placed(responses, RESPONSE | names)
    for name, frame, of in (
        ("x_references", rows_of(results, "citations"), REFERENCE),
        ("x_retrieved_chunks", hits, CHUNK),
    ):
        lists = grouped(frame["query_id"], objects_in(frame, of))
        columns[name] = [lists.get(one, []) for one in ids]
    for name, criterion in JUDGES.items():
        judges = _judges(judgments[judgments["criterion"] == criterion])
        columns[f"x_{name}"] = [judges.get(one) for one in ids]
    for name, (column, _) in COST.items():
        columns[f"x_cost.{name}"] = plain_values_of(spent[column].reindex(ids))
    for metric, rows in reported[reported["query_id"] != RUN_LEVEL].groupby("metric", sort=False):
        values = plain_values_of(rows.set_index("query_id")["value"].reindex(ids))
        if metric in FLAGS:
            values = [None if one is None else bool(one) for one in values]
        columns[f"x_retrieval_metrics.{escape_key(str(metric))}"] = values
    return objects_of(columns)


def _judges(judgments: pd.DataFrame) -> dict[str, Record]:
    """Return the object of one judge for each query: its score and reasoning, and its claims."""
    whole = judgments[judgments["item"] == ""]
    objects = objects_in(whole.drop(columns="x_prompt_version", errors="ignore"), JUDGMENT)
    judges = dict(zip(whole["query_id"], objects, strict=True))
    if whole["criterion"].eq("judge_groundedness").any():
        claims = judgments.reindex(columns=["query_id", "verdict", "item_text"])
        for key, verdict in CLAIMS.items():
            texts = claims[claims["verdict"] == verdict].groupby("query_id")["item_text"].agg(list)
            for query_id, judge in judges.items():
                judge[key] = texts.get(query_id, [])
    return judges


def _metrics(run: Record, reported: pd.DataFrame) -> Record:
    """Return the content of `metrics.json`; empty if the run has nothing for it."""
    fields = {
        name: one for name, one in run.items() if name == "config_hash" or name.startswith("x_")
    }
    of_run = reported[reported["query_id"] == RUN_LEVEL]
    values = zip(of_run["metric"], plain_values_of(of_run["value"]), strict=True)
    fields |= {f"x_aggregate_metrics.{metric}": value for metric, value in values}
    if not fields:
        return {}
    whole = {"run_id": str(run["run_id"]), "aggregate_metrics": {}} | unflatten(fields)
    aggregates = whole["aggregate_metrics"]
    return whole | {name: aggregates.pop(name) for name in BESIDE if name in aggregates}


# Golden cases

OTHER_NAMES = {"path": "rel_path", "heading": "heading_path"}


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
        if values.get("answerable") is None:
            values["answerable"] = True
        rows.append(Row(values, row.line, row.lines))
    return golden_of(rows, problems, absent_docs, catalogue)


def write_chatbot_golden(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as a chatbot's `eval_set.jsonl`.

    A set that was loaded from such a file is written with the same objects again, unknown fields
    included (one whose values are of several types as text). Each case has every field that the
    format requires: null or an empty list where the set has nothing. Only targets with a path
    (anchors) have a place there.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        A support group names a target that is no anchor.
    """
    written = write_lines(path, chatbot_cases(golden))
    if n := int((golden.targets["level"] != "anchor").sum()):
        warn(f"{path} has no place for targets: {n:,}")
    return written


def chatbot_cases(golden: Golden) -> list[Record]:
    """Return the cases of `write_chatbot_golden`."""
    return [_written_case(*one) for one in written_rows(golden)]


def _written_case(query: Record, said: Record) -> Record:
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
        **{name: one for name, one in said.items() if name not in KNOWN_FIELDS},
    }

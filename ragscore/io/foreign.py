"""The files of other tools, each declared once (see `importers.Tool`): `TOOLS`, at the end.

Where all fields have a path, the row is all; functions above it are for what no path says.

Values, success, a judge's name, direction and threshold come from the file. RAGAS writes NaN for
a judge that failed and for a missing answer: it is a failed judge if the row has an answer. A row
of promptfoo has no id that survives an edit of its tests (`testIdx` counts repeats, too), so a
query's id is a hash of its `vars`. MLflow's labels are among its scores
(`expected_response/value`), and its passages in the trace's RETRIEVER span.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragscore.frames.kinds import WORTH
from ragscore.io import inspect_log, traces
from ragscore.io.cells import hash_query
from ragscore.io.columns import ID_ROLES, called
from ragscore.io.detect import Mark, Sample
from ragscore.io.frames_in import json_value
from ragscore.io.importers import (
    ANSWER_KEYS,
    PASSED,
    QUERY_KEYS,
    Fields,
    File,
    Tool,
    dicts_in,
    each,
    first_at,
    labels_in,
    mapping,
    text_in,
    text_of,
    without_missing,
)
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.tables import our_name, score_of
from ragscore.io.values import as_number, is_int, nested, value_at

# RAGAS

_STYLE = ("persona_name", "query_style", "query_length", "synthesizer_name")
_RAGAS = (
    "retrieved_contexts retrieved_context_ids reference_contexts reference_context_ids reference"
    " rubrics multi_responses"
)
_JUDGED_BY_RAGAS = (
    "faithfulness answer_relevancy context_precision context_recall context_entity_recall"
    " answer_similarity answer_correctness"
)
_COMPUTED = (
    "id_based_", "non_llm_", "rouge_score", "bleu_score", "chrf_score", "exact_match",
    "string_present", "semantic_similarity",
)  # fmt: skip
_NO_METRICS = {
    *_RAGAS.split(), *_STYLE, "user_input", "question", "contexts", "response", "answer",
    "ground_truth", "ground_truths", "error", "rubric",
}  # fmt: skip


def _names_no_ids(seen: Sample) -> bool:
    """Return True unless a table names ids in its own way: then it is one of one's own."""
    own = seen.keys - {*_RAGAS.split(), "id", "query_id"}
    return not any(called(own, side, *ID_ROLES) for side in ("results", "golden"))


def _ragas(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    values = [row.values for row in rows]
    names = dict.fromkeys(name for one in values for name in one if name not in _NO_METRICS)
    ids = called(names, "results", "query_id")
    metrics = [name for name in names if name not in ids and _are_numbers(values, name)]
    lists = "retrieved_context_ids retrieved_contexts contexts"
    depths = {len(listed) for one in values if (listed := _listed(one, lists))}
    # recall is the same at any cut-off that cuts nothing, precision only if all lists are as long
    same = {"id_based_context_recall": f"recall@{max(depths)}"} if depths else {}
    if len(depths) == 1:
        same["id_based_context_precision"] = f"precision@{max(depths)}"
    own = {*names} - {*ids, *metrics} | {"rubrics", "multi_responses", "rubric"}
    for row in rows:
        one = row.values
        has_answer = first_at(one, "response answer") is not None
        references = _listed(one, "reference ground_truth ground_truths")
        yield row, {
            "query": text_of(first_at(one, "user_input question"), QUERY_KEYS),
            "query_id": first_at(one, " ".join(ids)),
            "reference_answer": references[0] if references else None,
            **{f"tags.{name}": one.get(name) for name in _STYLE},
            "extra": {name: one[name] for name in one if name in own and one[name] is not None},
            "scores": [
                {"metric": same.get(name, name), "value": one.get(name),
                 "is_judged": not name.startswith(_COMPUTED),
                 "error": "NaN in the file" if one.get(name) is None else None}
                for name in metrics if has_answer or one.get(name) is not None
            ],
        }  # fmt: skip


def _listed(row: Fields, paths: str) -> list[Any]:
    found = nested(first_at(row, paths))
    return found if isinstance(found, list) else [] if found is None else [found]


def _are_numbers(rows: list[Fields], name: str) -> bool:
    """Return True for a column whose known values are all numbers or booleans."""
    known = [one for row in rows if (one := row.get(name)) is not None]
    return bool(known) and all(isinstance(one, bool) or as_number(one) is not None for one in known)


# promptfoo

_CHECKS = {
    "contains": "must_contain", "contains-all": "must_contain", "not-contains": "forbidden",
    "not-contains-any": "forbidden",
}  # fmt: skip
_JUDGED_BY_PROMPTFOO = (
    "llm-rubric", "factuality", "model-graded-closedqa", "model-graded-factuality",
    "answer-relevance", "context-faithfulness", "context-recall", "context-relevance", "g-eval",
    "select-best", "search-rubric", "conversation-relevance",
)  # fmt: skip


def _promptfoo(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    providers = [
        as_text(first_at(row.values, "provider.label provider.id provider")) or "provider"
        for row in rows
    ]
    has_prompts = len({as_text(row.values.get("promptIdx")) for row in rows}) > len({*providers})
    for row, provider in zip(rows, providers, strict=True):
        one = row.values
        asked, response = mapping(one, "vars"), mapping(one, "response")
        texts = {name: text for name, text in asked.items() if isinstance(text, str)}
        query = text_in(asked, QUERY_KEYS) or text_in(texts, texts)
        # `error` also has the message of a failed assertion; only this says that the system failed
        has_failed = as_number(one.get("failureReason")) == 2
        error = (has_failed and one.get("error")) or response.get("error")
        error = error or ("error without a message" if has_failed else None)
        success = [{"metric": "success", "value": one.get("success"), "is_judged": False} | PASSED]
        asserted = each(one, "testCase.assert", {"type": "type", "value": "value"})
        stated = [(check["type"], text) for check in asserted for text in _listed(check, "value")
                  if as_text(text)]  # fmt: skip
        is_cached, prompt = response.get("cached") is True, f".prompt{one.get('promptIdx')}"
        yield row, labels_in(mapping(one, "testCase.metadata")) | {
            "run_id": provider + prompt * has_prompts,
            "query_id": hash_query(json.dumps(asked, ensure_ascii=False, sort_keys=True))
            if asked else None,
            "query": query or as_text(value_at(one, "prompt.raw")), "error": error,
            "scores": _scores_of_promptfoo(one) + ([] if error else success),
            "latency_ms": None if is_cached else one.get("latencyMs"),
            **{check: [text for kind, text in stated if _CHECKS.get(kind) == check] or None
               for check in ("must_contain", "forbidden")},
            "reference_answer": next((text for kind, text in stated if kind == "equals"), None),
            "answerable": False if any(one["type"] == "is-refusal" for one in asserted) else None,
            "extra": without_missing({"cached": is_cached, "testIdx": one.get("testIdx")}),
        }  # fmt: skip


def _scores_of_promptfoo(row: Fields) -> list[Fields]:
    """Return one score per assertion; of several with one name, the later ones are numbered."""
    paths = {"metric": "assertion.metric assertion.type", "value": "score", "reason": "reason",
             "judge": "assertion.provider", "kind": "assertion.type",
             "failed": "metadata.graderError"}  # fmt: skip
    scores, used = each(row, "gradingResult.componentResults", paths), Counter[str]()
    for one in scores:
        name = our_name(as_text(one["metric"]) or "assertion")
        used[name] += 1
        one["metric"] = name if used[name] == 1 else f"{name}.{used[name]}"
        one["is_judged"] = str(one.pop("kind")).removeprefix("not-") in _JUDGED_BY_PROMPTFOO
        one["error"] = (one["reason"] or "grader error") if one.pop("failed") is True else None
        one["reason"] = one["reason"] if one["is_judged"] else None
    named = [{"metric": name, "value": value, "is_judged": False}
             for name, value in mapping(row, "namedScores").items()
             if our_name(name) not in used]  # fmt: skip
    return [one | PASSED for one in scores + named]


# DeepEval

_SAME_IN_DEEPEVAL = {
    "faithfulness": "faithfulness", "contextual precision": "context_precision",
    "contextual recall": "context_recall",
}  # fmt: skip
"""Answer Relevancy isn't ours: a share of relevant statements there, a similarity of texts here."""
_METRICS_OF_DEEPEVAL = {
    "metric": "name", "value": "score", "judge": "evaluationModel", "error": "error",
    "reason": "reason", "cost_usd": "evaluationCost", "threshold": "threshold",
    "success": "success",
}  # fmt: skip
_SPANS_OF_DEEPEVAL = [
    f"trace.{kind}Spans" for kind in ("base", "agent", "llm", "retriever", "tool")
]


def _deepeval(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    listed = [each(row.values, "metricsData", _METRICS_OF_DEEPEVAL) for row in rows]
    beyond = {one["metric"] for scores in listed for one in scores
              if not 0 <= (as_number(one["value"]) or 0) <= 1}  # fmt: skip
    for row, scores in zip(rows, listed, strict=True):
        values = row.values
        metadata = mapping(values, "metadata additionalMetadata")
        spans = [one for path in _SPANS_OF_DEEPEVAL for one in dicts_in(value_at(values, path))]
        # the trace itself may say SUCCESS although its root span failed
        failed = [one.get("error") or "the trace's status is ERRORED" for one in spans
                  if one.get("status") == "ERRORED" and one.get("parentUuid") is None]  # fmt: skip
        for one in scores:
            value, threshold = as_number(one["value"]), as_number(one["threshold"])
            success = one.pop("success")
            one |= {"same": _SAME_IN_DEEPEVAL, "is_judged": one["judge"] is not None}
            one["error"] = one["error"] if one["value"] is None else None
            one |= {} if one["metric"] in beyond else {"lowest": 0.0, "highest": 1.0}
            above = 0.0 if value is None or threshold is None else value - threshold
            if above and success is not None:
                one["better"] = "higher" if (above > 0) == success else "lower"
        passed = {"metric": "success", "value": values.get("success"), "is_judged": False} | PASSED
        labels = labels_in(metadata)
        own = {name: one for name, one in metadata.items() if name not in ("id", *labels)}
        yield row, labels | {
            "error": next(iter(failed), None), "scores": [*scores, passed] if scores else [],
            "extra": without_missing({"name": values.get("name") or None, "metadata": own or None,
                                      "comments": values.get("comments") or None}),
        }  # fmt: skip


# MLflow

_MLFLOW_SCORE = re.compile(
    r"^(?P<name>.+?)(?:/v\d+)?/"
    r"(?P<part>value|rationale|error_message|error_code|score|justification)$"
)
_EXPECTED = ("expected_response", "expected_facts", "expected_retrieved_context", "guidelines")
_ASSESSED = {
    "name": "assessment_name",
    "value": "expectation.serialized_value.value expectation.value",
}
_PASSAGES = {"gold_chunk_id": "chunk_id id", "gold_doc_id": "doc_uri doc_id source"}


def _mlflow(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    for row in rows:
        one = row.values
        spans = dicts_in(nested(first_at(one, "spans trace.data.spans")))
        named_spans = [Row({"trace_id": "-", "span_id": None} | span, 1) for span in spans]
        searches = traces.calls_of(traces.spans_of(named_spans, Problems("", False)))
        has_failed = one.get("state") in ("ERROR", "TraceState.ERROR")
        message = value_at(spans, "0.status.message") or "the trace's state is ERROR"
        expected = mapping(one, "expectations") | without_missing(
            {str(assessed["name"]): nested(assessed["value"])
             for assessed in each(one, "assessments", _ASSESSED)}
            | without_missing({name: one.get(f"{name}/value") for name in _EXPECTED})
        )  # fmt: skip
        passages = each(expected, "expected_retrieved_context", _PASSAGES)
        yield row, {
            "query": text_of(first_at(one, "inputs request"), QUERY_KEYS),
            "answer": text_of(first_at(one, "outputs response prediction"), ANSWER_KEYS),
            "error": one.get("error_message") or (message if has_failed else None),
            "reference_answer": first_at(expected, "expected_response")
            or first_at(one, "ground_truth targets target"),
            "key_facts": expected.get("expected_facts"),
            **{name: [passage[name] for passage in passages if passage[name] is not None] or None
               for name in _PASSAGES},
            **(searches if searches["calls"] else {}),
            "scores": _scores_of_mlflow(one),
            "extra": without_missing(
                {name: as_text(one.get(name))
                 for name in ("trace_id", "request_id", "client_request_id")}
            ),
        }  # fmt: skip


def _scores_of_mlflow(row: Fields) -> list[Fields]:
    """Return the scores, whose parts are in columns `<name>/value`, `<name>/rationale`, ..."""
    parts: dict[str, Fields] = {}
    for name, one in row.items():
        found = _MLFLOW_SCORE.match(name)
        if found and one is not None and found["name"] not in _EXPECTED:
            parts.setdefault(found["name"], {})[found["part"]] = one
    scores = []
    for name, part in parts.items():
        value, error = first_at(part, "value score"), first_at(part, "error_message error_code")
        reason = first_at(part, "rationale justification")
        metric = re.sub(r"^(precision|recall|ndcg)_at_(\d+)$", r"\1@\2", name)
        is_judged = reason is not None or score_of(value)[1] is not None
        scores.append({"metric": metric, "value": value, "reason": reason, "error": error,
                       "is_judged": is_judged, "same": {}})  # fmt: skip
    return scores


# Phoenix's experiments

_ANNOTATION = {
    "metric": "name", "value": "score", "verdict": "label", "reason": "explanation",
    "error": "error", "judge": "annotator_kind",
}  # fmt: skip
_FLAT = re.compile(f"annotation_(.+)_(?:{'|'.join(_ANNOTATION.values())})$")


def _phoenix(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    """Yield texts and annotations, in CSV in columns `annotation_<name>_score` and so on."""
    for row in rows:
        values = row.values
        flat = dict.fromkeys(found[1] for name in values if (found := _FLAT.match(name)))
        scores = each(values, "annotations", _ANNOTATION) + [
            {ours: values.get(f"annotation_{name}_{one}") for ours, one in _ANNOTATION.items()}
            | {"metric": name}
            for name in flat
        ]
        for one in scores:
            kind = (as_text(one["judge"]) or "").lower()
            one |= {"same": {}, "is_judged": kind != "code", "error": one["error"] or None,
                    "judge": kind or None, "metric": one["metric"] or "annotation"}  # fmt: skip
        yield row, {
            "query": text_of(values.get("input"), QUERY_KEYS),
            "answer": text_of(values.get("output"), ANSWER_KEYS), "reference_answer":
            text_of(values.get("reference_output"), ANSWER_KEYS), "scores":
            [one for one in scores if first_at(one, "value verdict error") is not None],
        }  # fmt: skip


# lm-evaluation-harness

_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT.+)\.jsonl(\.gz)?")


def _results_of_lm_eval(source: Path) -> Fields:
    """Return the results beside the samples, with their task."""
    named = _SAMPLES.fullmatch(source.name)
    file = source.with_name(f"results_{named['time']}.json") if named else source
    content = json_value(file) if named and file.exists() else {}
    return content | {"task": named["task"]} if named and isinstance(content, dict) else {}


def _lm_eval(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    """Yield one answer for the lines of a document, of which there is one per filter."""
    better = mapping(mapping(file.top, "higher_is_better"), file.top.get("task", ""))
    of_doc: dict[str, list[Row]] = {}
    for row in rows:
        of_doc.setdefault(str(row.values.get("doc_id")), []).append(row)
    for row, *others in of_doc.values():
        one = row.values
        prompt, answer = one.get("arguments"), value_at(one, "filtered_resps.0")
        while isinstance(prompt, (list, dict)) and prompt:  # the first one of the first request
            prompt = next(iter(prompt.values())) if isinstance(prompt, dict) else prompt[0]
        yield row, {
            "query": text_in(mapping(one, "doc"), (*QUERY_KEYS, "problem")) or as_text(prompt),
            "answer": answer if isinstance(answer, str) else None,
            "reference_answer": one["target"] if isinstance(one.get("target"), str) else None,
            "extra": {"doc": mapping(one, "doc")},
            "scores": [
                {"metric": f"{name},{as_text(line.get('filter')) or 'none'}", "value": line[name],
                 "is_judged": False, "same": {},
                 **({"better": "higher" if better[name] else "lower"} if name in better else {})}
                for line in (one, *(other.values for other in others))
                for name in map(str, _listed(line, "metrics"))
                if as_number(line.get(name)) is not None or isinstance(line.get(name), bool)
            ],
        }  # fmt: skip


# Elasticsearch's rank_eval


def _requests(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    """Yield each request: its ratings and, of a response, its hits and its score."""
    row = Row(file.top, 1)
    for one in dicts_in(file.top.get("requests")):
        yield row, {"query_id": one.get("id"), "gold_doc_id": _ratings(one, "ratings", "_id")}
    for query_id, one in mapping(file.top, "details").items():
        metric = next(iter(mapping(one, "metric_details")), "metric_score")
        score = {"metric": metric, "value": one.get("metric_score"), "is_judged": False}
        yield row, {
            "query_id": query_id, "gold_doc_id": _ratings(one, "hits", "hit._id"),
            "doc_id": first_at(one, "hits.hit._id"), "score": first_at(one, "hits.hit._score"),
            "scores": [score | {"better": "higher"}],
        }  # fmt: skip
    for query_id, one in mapping(file.top, "failures").items():
        yield row, {"query_id": query_id, "error": str(value_at(one, "reason") or one)}


def _ratings(values: Fields, place: str, doc: str) -> Fields:
    rated = each(values, place, {"doc": doc, "rating": "rating"})
    return without_missing(
        {str(one["doc"]): as_number(one["rating"]) for one in rated if one["doc"] is not None}
    )


# MTEB's predictions


def _predictions(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    """Yield one row per query of each subset and split, with its documents' scores."""
    subsets = {one: mapping(file.top, one) for one in file.top if one != "mteb_model_meta"}
    lists = {f"{subset}.{split}": mapping(of_subset, split)
             for subset, of_subset in subsets.items() for split in of_subset}  # fmt: skip
    for name, queries in lists.items():
        run = {"run_id": name} if len(lists) > 1 else {}
        for query_id, scores in queries.items():
            yield Row(file.top, 1), {"query_id": query_id, "doc_id": scores} | run


# Answers of the TREC RAG track


def _trec_rag(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    """Yield cited answers; a citation that points beyond the references has only its marker."""
    for row in rows:
        answer = dicts_in(row.values.get("answer"))
        texts = [(as_text(one.get("text")) or "").strip() for one in answer]
        cited = [(n, one) for n, sentence in enumerate(answer, 1)
                 for one in _listed(sentence, "citations")]  # fmt: skip
        is_bad = len(answer) != len(_listed(row.values, "answer"))
        if is_bad or not all(is_int(one) for _, one in cited):
            file.problems.reject(
                row.values["answer"],
                row.line,
                field="answer",
                allowed="a list of mappings; their citations are indices into references, from 0",
            )
            cited = []
        known = dict(enumerate(_listed(row.values, "references")))
        own = {name: one for name, one in row.values.items() if name not in _OF_TREC_RAG}
        yield row, {
            "doc_id": [*known.values()], "answer": " ".join(texts) or None,
            "citations": [
                {"position": at, "marker": f"[{one}]", "x_sentence": n,
                 "doc_id": as_id(known.get(one))} for at, (n, one) in enumerate(cited, 1)
            ],
            "extra": own | {"answer": answer or None},
        }  # fmt: skip


_OF_TREC_RAG = ("run_id", "topic_id", "topic", "references", "answer")


# AutoNuggetizer


def _nuggets(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    """Yield each query with its nuggets; an answer with their assignments, too."""
    for row in rows:
        facts = [without_missing(one) for one in each(row.values, "nuggets", _FACT)]
        verdicts = each(row.values, "nuggets", {"verdict": "assignment"})
        judged = [one | fact for one, fact in zip(verdicts, facts, strict=True)]
        for number, one in enumerate(judged, 1):
            if one["verdict"] not in (None, *WORTH):
                file.problems.reject(
                    one["verdict"],
                    row.line,
                    field=f"nuggets.{number}.assignment",
                    allowed=f"one of {', '.join(WORTH)}",
                )
        yield row, {
            "key_facts": facts or None,
            "judgments": [
                {"criterion": "nuggets", "item": str(number), "item_text": one.get("text"),
                 "value": WORTH[one["verdict"]], "verdict": one["verdict"], "state": "scored"}
                for number, one in enumerate(judged, 1) if one["verdict"] in WORTH
            ],
        }  # fmt: skip


_FACT = {"text": "text", "importance": "importance", "weight": "weight"}


# All tools

TOOLS = [
    Tool(
        "ragas",
        lambda seen: max(
            Mark("user_input", f"{_RAGAS} {_JUDGED_BY_RAGAS}", test=_names_no_ids)(seen),
            Mark("question contexts", _JUDGED_BY_RAGAS, test=_names_no_ids)(seen),
        ),
        ("RAGAS's dataset or result", "`user_input` with a column of its own",
         "labels of RAGAS's dataset"),
        {"text": "retrieved_contexts contexts", "chunk_id": "retrieved_context_ids",
         "answer": "response answer", "error": "error", "gold_text": "reference_contexts",
         "gold_chunk_id": "reference_context_ids"},
        read=_ragas,
    ),
    Tool(
        "promptfoo",
        lambda seen: seen.has("evalId", "results") or seen.has("promptIdx", "testIdx"),
        ("promptfoo's results", "`evalId`, or `promptIdx` and `testIdx`",
         "promptfoo's assertions"),
        {"answer": "response.output", "cost_usd": "cost", "prompt_tokens": "tokenUsage.prompt",
         "completion_tokens": "tokenUsage.completion"},
        rows="results.results results.outputs results", run={"config": "config"},
        read=_promptfoo,
    ),
    Tool(
        "inspect",
        lambda seen: seen.has("eval", "status")
        or (seen.kind == "zip" and seen.path.suffix == ".eval"),
        ("Inspect AI's log", "`eval` and `status`, or the ending `.eval`",
         "targets of Inspect AI's log"),
        inspect_log.COLUMNS, rows="samples", run=inspect_log.RUN, top=inspect_log.opened,
        read=inspect_log.samples,
    ),
    Tool(
        "deepeval", Mark("", "testCases testRunData"),
        ("DeepEval's test run", "`testCases`", "expectations of DeepEval's test run"),
        {"query": "input", "query_id": "metadata.id additionalMetadata.id",
         "answer": "actualOutput", "reference_answer": "expectedOutput", "gold_text": "context",
         "text": "retrievalContext", "latency_s": "completionTime", "cost_usd": "tokenCost",
         "tags": "tags"},
        rows="testRunData.testCases testCases", read=_deepeval,
        run={"system": "testRunData.identifier identifier",
             "config": "testRunData.hyperparameters hyperparameters"},
    ),
    Tool(
        "ragchecker",
        lambda seen: {"query_id", "response", "retrieved_context"}
        <= {*(value_at(seen.first, "results.0") or ())},
        ("RAGChecker's inputs and outputs", "`retrieved_context` in `results`",
         "queries and reference answers of RAGChecker's files"),
        {"query_id": "query_id", "query": "query", "answer": "response",
         "reference_answer": "gt_answer", "doc_id": "retrieved_context", "scores": "metrics"},
        rows="results", run={"metrics": "metrics"},
    ),
    Tool(
        "rank_eval",
        lambda seen: seen.has("metric_score", "details") or seen.has("requests", "metric"),
        ("a response of Elasticsearch's rank_eval", "`metric_score` and `details`",
         "ratings of rank_eval's request or response"),
        read=_requests,
    ),
    Tool(
        "mteb", Mark("mteb_model_meta"),
        ("MTEB's predictions of a retrieval task", "`mteb_model_meta`"),
        run={"system": "mteb_model_meta.model_name"}, read=_predictions,
    ),
    Tool(
        "lm_eval", Mark("doc_id resps filtered_resps target"),
        ("lm-evaluation-harness's samples, with the results beside them",
         "`filtered_resps` and `target`", "targets of lm-evaluation-harness's samples"),
        {"query_id": "doc_id"}, read=_lm_eval, top=_results_of_lm_eval,
        run={"system": "model_name", "suite": "task", "config": "config"},
    ),
    Tool(
        "trec_rag", Mark("topic_id references answer"),
        ("cited answers of the TREC RAG track",
         "JSON lines with `topic_id`, `references`, `answer`"),
        {"query_id": "topic_id", "query": "topic", "run_id": "run_id"}, read=_trec_rag,
    ),
    Tool(
        "nuggets", Mark("qid nuggets"),
        ("nuggets of AutoNuggetizer, and its assignments to answers", "`qid` and `nuggets`",
         "nuggets with their importance"),
        {"query_id": "qid query_id", "run_id": "run_id", "query": "query",
         "answer": "answer_text answer"},
        read=_nuggets,
    ),
    Tool(
        "mlflow",
        lambda seen: max(
            Mark("trace_id request response")(seen),
            Mark("request_id inputs outputs")(seen),
            Mark(test=lambda one: any(map(_MLFLOW_SCORE.match, one.keys)), without="user_input")(
                seen
            ),
        ),
        ("MLflow's evaluation table", "`<name>/value`, or `trace_id`, `request`, `response`",
         "expectations of MLflow's table"),
        {"latency_ms": "execution_duration", "latency_s": "latency"}, read=_mlflow,
    ),
    Tool(
        "phoenix", Mark("example_id repetition_number"),
        ("Phoenix's experiment", "`example_id` and `repetition_number`",
         "references of Phoenix's experiment"),
        {"query_id": "example_id", "repeat": "repetition_number", "error": "error",
         "latency_ms": "latency_ms", "prompt_tokens": "prompt_token_count",
         "completion_tokens": "completion_token_count"},
        read=_phoenix,
    ),
    Tool(
        "traces", traces.fits,
        ("spans of agents: OTLP, dumps of OpenTelemetry's SDK, Phoenix, Langfuse, LangSmith,"
         " MLflow, TruLens", "ids of spans and traces, `resourceSpans`",
         "labels among the spans' attributes, by `columns=`"),
        read=traces.rows_of_traces, options=("calls_from",),
    ),
]  # fmt: skip
"""In the order in which they are tried."""

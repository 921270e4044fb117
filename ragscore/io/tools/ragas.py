"""RAGAS datasets and results (CSV, JSON lines, Parquet, frame) -> cases, and back to its rows.

The column names of v0.1 are read too.
"""

from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.io.columns import is_query_id
from ragscore.io.detect import Sample
from ragscore.io.records import Record, Stored
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Imported, imported
from ragscore.io.tools.cells import (
    Cells,
    hits_of,
    our_name,
    query_of,
    stored,
    with_roles,
    without_missing,
)
from ragscore.io.values import as_number

STYLE = ("persona_name", "query_style", "query_length", "synthesizer_name")
COMPUTED = (
    "id_based_",
    "non_llm_",
    "rouge_score",
    "bleu_score",
    "chrf_score",
    "exact_match",
    "string_present",
    "semantic_similarity",
)
KNOWN = (
    "user_input", "question", "retrieved_contexts", "contexts", "retrieved_context_ids",
    "reference_contexts", "reference_context_ids", "response", "answer",
    "multi_responses", "reference", "ground_truth", "ground_truths", "rubrics", "rubric", "error",
    *STYLE,
)  # fmt: skip


def fits(seen: Sample) -> bool:
    """Return True for `user_input`, or v0.1's `question` with contexts or ground truths."""
    is_old = seen.has("question") and seen.keys & {"contexts", "ground_truth", "ground_truths"}
    return not seen.has("test_case_id") and (seen.has("user_input") or bool(is_old))


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per row: labels, answer and contexts, and a score per metric column.

    RAGAS writes NaN for a judge that failed and for a missing answer. Here NaN is a judge that
    failed if the row has an answer.
    """
    rows = list(table_rows(source, problems))
    names = dict.fromkeys(name for row in rows for name in row.values)
    if "query_id" not in columns and (ids := [name for name in names if is_query_id(name)]):
        columns = {"query_id": ids[0], **columns}  # which RAGAS itself doesn't have
    metrics = [name for name in _metric_columns(rows) if name not in columns.values()]
    cases = [_case(row, metrics, columns, problems) for row in rows]
    _name_by_depth(cases)
    return imported(cases, described, problems)


def _metric_columns(rows: list[Row]) -> list[str]:
    """Return the unknown columns whose known values are all numbers or booleans."""
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.values.items():
            if name not in KNOWN and value is not None:
                values.setdefault(name, []).append(value)
    names = dict.fromkeys(name for row in rows for name in row.values if name in values)
    return [
        name
        for name in names
        if all(isinstance(value, bool) or as_number(value) is not None for value in values[name])
    ]


def _case(row: Row, metrics: list[str], columns: dict[str, str], problems: Problems) -> Record:
    cells = Cells(row, problems)
    query = query_of(cells.pop("user_input", "question"))
    case = Record(row.line, response={"query": query, "error": cells.text("error")})
    case.hits = hits_of(
        cells.texts("retrieved_contexts", "contexts"), cells.texts("retrieved_context_ids")
    )
    ids = cells.texts("reference_context_ids")
    case.gold_ids = {} if ids is None else {"chunk": ids}
    case.gold_texts = cells.texts("reference_contexts") or []
    case.response["answer"] = cells.text("response", "answer")
    if columns.get("reference_answer") is None:
        references = cells.texts("reference", "ground_truth", "ground_truths")
        case.reference_answer = references[0] if references else None
    case.tags = {name: [text] for name in STYLE if (text := cells.text(name)) is not None}
    for name in metrics:
        value = cells.pop(name)
        if value is not None:
            case.stored.append(stored(name, value, is_judged=not name.startswith(COMPUTED)))
        elif case.response["answer"] is not None:
            case.stored.append(Stored(our_name(name), None, error="NaN in the file"))
    case.extra = without_missing(cells.values)
    return with_roles(case, row, columns, problems)


def _name_by_depth(cases: list[Record]) -> None:
    """Give RAGAS's id-based metrics our names, with the number of hits as cut-off.

    Recall is the same at any cut-off that cuts nothing; precision only if all rows have as many
    hits.
    """
    depths = {len(case.hits) for case in cases if case.hits}
    if not depths:
        return
    same = {"id_based_context_recall": f"recall@{max(depths)}"}
    if len(depths) == 1:
        same["id_based_context_precision"] = f"precision@{max(depths)}"
    for case in cases:
        for one in case.stored:
            one.metric = same.get(one.metric, one.metric)


def to_ragas(results: Results, golden: Golden | None = None) -> pd.DataFrame:
    """Return runs and labels as the rows that RAGAS evaluates.

    `EvaluationDataset.from_pandas(...)` or `.from_list(df.to_dict("records"))` takes them.

    Returns
    -------
    One row per response, in the order of `results.responses`: run_id and query_id first (drop them
    for RAGAS), then user_input, response, retrieved_contexts and retrieved_context_ids (lists by
    rank; the chunk id, else the document's), and with a golden set reference and
    reference_context_ids (chunk ids of grade ≥ 1, else documents'). None = not known. Columns
    without any known value are left out. A failed query has no response.
    """
    rows = (
        results.responses[["run_id", "query_id"]]
        .astype("str")
        .assign(user_input=results.responses["query"].astype(object))
    )
    keys = ["run_id", "query_id"]
    rows["response"] = _where_known(results.responses.get("answer"), rows)
    hits = results.hits.astype({"run_id": "str"}).sort_values([*keys, "rank"], kind="stable")
    for column, names in (
        ("retrieved_contexts", ["text"]),
        ("retrieved_context_ids", ["chunk_id", "doc_id"]),
    ):
        rows[column] = _series(_lists(hits, keys, names, rows), rows)
    if golden is not None:
        known = golden.queries.set_index("query_id")
        if "reference_answer" in known:
            rows["reference"] = _where_known(
                known["reference_answer"].reindex(rows["query_id"]), rows
            )
        targets = golden.targets[golden.targets["grade"] > 0]
        rows["reference_context_ids"] = _series(
            _lists(targets, ["query_id"], ["chunk_id", "doc_id"], rows), rows
        )
    rows["user_input"] = _where_known(rows["user_input"], rows)
    return rows[
        [
            name
            for name in rows
            if name in keys or rows[name].map(lambda value: value is not None).any()
        ]
    ]


def _series(values: list[Any], rows: pd.DataFrame) -> pd.Series:
    return pd.Series(values, index=rows.index, dtype=object)


def _where_known(column: pd.Series | None, rows: pd.DataFrame) -> pd.Series:
    return _series(
        (
            [None] * len(rows)
            if column is None
            else [None if pd.isna(value) else value for value in column]
        ),
        rows,
    )


def _lists(
    frame: pd.DataFrame, keys: list[str], names: list[str], rows: pd.DataFrame
) -> list[list[str] | None]:
    """Return for each of `rows` its values of the first of these columns that has any, or None."""
    found: dict[Any, list[str]] = {}
    for name in reversed([name for name in names if name in frame]):
        present = frame.dropna(subset=[name]).drop_duplicates(
            [*keys, *(["rank"] if "rank" in frame else []), name]
        )
        found |= (
            present.groupby(keys if len(keys) > 1 else keys[0], observed=True, sort=False)[name]
            .agg(list)
            .to_dict()
        )
    wanted = zip(*(rows[key] for key in keys), strict=True) if len(keys) > 1 else rows[keys[0]]
    return [found.get(key) for key in wanted]

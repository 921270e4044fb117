"""Answers in the format of the TREC RAG track (JSON lines) <-> `Results`.

A line is one answer: run_id, topic_id, topic, references (passage ids in order), answer [{text,
citations: [index into references]}]. References become hits in their order; each citation of each
sentence becomes a row of `citations`. The sentences themselves are JSON text in
`x_answer_sentences.json`. The format can't say that a system refused: `refused` stays unknown.
"""

import json
import re
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError, Results
from ragscore.io.files import write_lines
from ragscore.io.formats.documents import ID_COLUMNS, ranked_documents
from ragscore.io.importers import results_of_rows
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import by_response, extra_fields, is_int, row_dicts

IDS = {"run_id": "run_id", "topic_id": "query_id"}
FIELDS = frozenset((*IDS, "topic", "references", "answer"))
SENTENCES = "x_answer_sentences.json"


def read_trec_rag(path: Path, strict: bool) -> Results:
    """Read the runs of one file, in the order in which they first appear."""
    problems = Problems(path, strict)
    rows = [_row(row, problems) for row in json_rows(path, problems)]
    if not rows:
        raise DataError(
            "no answer in the file", file=path,
            allowed="one JSON object per line, with run_id, topic_id, references and answer",
        )  # fmt: skip
    called = {"query_id": "topic_id", "query": "topic", "doc_id": "references"}
    return results_of_rows(rows, path.name, problems, called=called)


def _row(row: Row, problems: Problems) -> dict[str, Any]:
    """Return a line with our names; the sentences, without citations, are a column."""
    answer, names = row.values.get("answer") or [], row.values.get("references") or []
    names = names if isinstance(names, list) else [names]
    sentences = [one for one in answer if isinstance(one, dict)] if isinstance(answer, list) else []
    if not isinstance(answer, list) or len(sentences) < len(answer):
        problems.reject(answer, row.line, "answer", "a list of mappings")
    if "answer_sentences" in row.values:
        problems.reject(
            row.values["answer_sentences"], row.line, "answer_sentences", "another name"
        )
    texts = [str(as_text(one.get("text")) or "").strip() for one in sentences]
    extra = {name: one for name, one in row.values.items() if name not in FIELDS}
    extra["answer_sentences"] = [
        {name: value for name, value in one.items() if name != "citations" or not value}
        for one in sentences
    ] or None
    return {
        "line": row.line, "query_id": row.values.get("topic_id"), "extra": extra,
        "run_id": row.values.get("run_id"), "query": row.values.get("topic"),
        "answer": " ".join(texts) or None, "doc_id": names,
        "citations": _citations(sentences, names, row, problems),
    }  # fmt: skip


def _citations(
    answer: list[dict[str, Any]], names: list[Any], row: Row, problems: Problems
) -> list[dict[str, Any]]:
    """Return each citation of each sentence.

    A citation that points beyond the references has only its marker.
    """
    citations: list[dict[str, Any]] = []
    for number, sentence in enumerate(answer, 1):
        indices = sentence.get("citations") or []
        if not isinstance(indices, list) or not all(is_int(index) for index in indices):
            problems.reject(
                indices, row.line, "answer.citations", "a list of indices into references, from 0"
            )
            continue
        for index in indices:
            place = {"position": len(citations) + 1, "marker": f"[{index}]", "x_sentence": number}
            doc_id = {"doc_id": as_id(names[index])} if 0 <= index < len(names) else {}
            citations.append(place | doc_id)
    return citations


def write_trec_rag(results: Results, path: str | Path, *, level: str = "doc") -> Path:
    """Write answers in the format of the TREC RAG track, one a line (gzip if it ends in .gz).

    Runs that were loaded from such a file are written with the same objects again, unknown fields
    included. An answer from elsewhere is one sentence with all its citations. Hits are the
    references, in the order of their ranks.

    Parameters
    ----------
    level
        "doc" writes doc_id, "chunk" chunk_id.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        A hit without an id; a citation of something that is not among the hits of its query; an
        `x_` column that bears a known field's name.

    Warns
    -----
    UserWarning
        Counts what the format has no place for, such as errors and refusals.
    """
    references = by_response(ranked_documents(results, level))
    citations = by_response(results.citations)
    responses = results.responses
    records = []
    for response in row_dicts(responses.astype({"run_id": "str"})):
        cell = (response["run_id"], response["query_id"])
        names = [hit["doc"] for hit in references.get(cell, [])]
        sentences = _cited_sentences(response, names, citations.get(cell, []), ID_COLUMNS[level])
        record = {name: response[column] for name, column in IDS.items()}
        record |= {"topic": response["query"]} if "query" in response else {}
        record |= {"references": names, "answer": sentences}
        response.pop(SENTENCES, None)
        records.append(record | extra_fields(response, FIELDS, "responses"))
    return write_lines(path, records)


def _cited_sentences(
    response: dict[str, Any], names: list[str], citations: list[dict[str, Any]], column: str
) -> list[dict[str, Any]]:
    """Return the sentences with their citations; an answer from elsewhere is one sentence.

    What is cited is the first reference with its id, or that of its marker if the answer is of this
    format: one id may stand there twice, and a marker beyond the references has none.
    """
    is_from_track = SENTENCES in response
    sentences = json.loads(response.get(SENTENCES, "[]"))
    if not sentences and ("answer" in response or citations):
        sentences = [{"text": response.get("answer", ""), "citations": []}]
    for citation in sorted(citations, key=lambda citation: citation["position"]):
        number, name = citation.get("x_sentence", 1), citation.get(column)
        marker = re.fullmatch(r"\[(-?\d+)\]", citation.get("marker", ""))
        stated = int(marker[1]) if marker else -1
        is_told = is_from_track and marker and dict(enumerate(names)).get(stated) == name
        if not 1 <= number <= len(sentences) or not (is_told or name in names):
            raise DataError(
                f"{name!r} is cited for query {response['query_id']!r}, sentence {number}",
                field=f"citations.{column}",
                allowed=f"hits of the query, and one of its {len(sentences)} sentences",
            )
        index = stated if is_told else names.index(str(name))
        sentences[number - 1].setdefault("citations", []).append(index)
    return sentences

"""Answers in the format of the TREC RAG track (JSON lines) <-> `Results`.

A line is one answer: run_id, topic_id, topic, references (passage ids in order), answer [{text,
citations: [index into references]}]. References become hits in their order; each citation of each
sentence becomes a row of `citations`. The sentences themselves are JSON text in
`x_answer_sentences.json`. The format can't say that a system refused: `refused` stays unknown.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.formats.by_document import ID_COLUMNS, ranked_documents
from ragscore.io.formats.fields import frames_of
from ragscore.io.left_out import keeping
from ragscore.io.output import by_response, write_lines
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import extra_fields, flatten, is_int, row_dicts

IDS = {"run_id": "run_id", "topic_id": "query_id"}
FIELDS = frozenset((*IDS, "topic", "references", "answer"))
SENTENCES = "x_answer_sentences.json"
# Fields of these names would take the column `SENTENCES`.
RESERVED = frozenset(("answer_sentences", "answer_sentences.json"))


def read_trec_rag(path: Path, strict: bool) -> Results:
    """Read the runs of one file, in the order in which they first appear."""
    problems = Problems(path, strict)
    records: dict[str, list[dict[str, Any]]] = {"responses": [], "hits": [], "citations": []}
    lines: dict[tuple[str, str], int] = {}
    for row in json_rows(path, problems):
        _read_row(row, records, lines, problems)
    n_queries = Counter(run_id for run_id, _ in lines)
    if not n_queries:
        problems.add(
            "no answer in the file",
            allowed="one JSON object per line, with run_id, topic_id, references and answer",
        )
    runs = [{"run_id": run_id, "n_queries": n} for run_id, n in n_queries.items()]
    return Results(runs=from_records(runs, "runs"), **frames_of(records), problems=problems.frame())


def _read_row(
    row: Row,
    records: dict[str, list[dict[str, Any]]],
    lines: dict[tuple[str, str], int],
    problems: Problems,
) -> None:
    values = dict(row.values)
    topic, references, answer = (
        values.pop(name, default)
        for name, default in (("topic", None), ("references", []), ("answer", None))
    )
    ids: dict[str, str] = {}
    for name, column in IDS.items():
        found = as_id(values.pop(name, None))
        if found is None:
            problems.reject(row.values.get(name), row.line, name, "text")
            return
        ids[column] = found
    cell = (ids["run_id"], ids["query_id"])
    names = [as_id(one) for one in (references if isinstance(references, list) else [None])]
    if taken := sorted(values.keys() & RESERVED):
        problems.add(
            f"found {', '.join(taken)}",
            line=row.line,
            field=taken[0],
            allowed="another name: ragscore keeps the sentences under this one",
        )
    elif cell in lines:
        problems.repeat(f"'{cell[1]}'", lines[cell], row.line, "topic_id", "one answer per topic")
    elif None in names:
        problems.reject(references, row.line, "references", "a list of passage ids")
    elif not isinstance(answer, list) or not all(
        isinstance(sentence, dict) and as_text(sentence.get("text")) is not None
        for sentence in answer
    ):
        problems.reject(answer, row.line, "answer", "a list of objects with text and citations")
    else:
        lines[cell] = row.line
        text = " ".join(str(as_text(sentence["text"])).strip() for sentence in answer)
        response = {"query": as_text(topic), "answer": text or None, "error": None}
        records["responses"].append(ids | response | flatten(values) | _sentences(answer))
        records["hits"] += [
            ids | {"rank": rank, "doc_id": name} for rank, name in enumerate(names, 1)
        ]
        records["citations"] += [ids | one for one in _citations(answer, names, row, problems)]


def _sentences(answer: list[dict[str, Any]]) -> dict[str, str]:
    """Return the sentences as a column, without citations, which are rows of their own."""
    plain = [
        {name: value for name, value in sentence.items() if name != "citations" or not value}
        for sentence in answer
    ]
    return {SENTENCES: json.dumps(plain, ensure_ascii=False)} if plain else {}


def _citations(
    answer: list[dict[str, Any]], names: list[str | None], row: Row, problems: Problems
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
            doc_id = {"doc_id": names[index]} if 0 <= index < len(names) else {}
            citations.append(place | doc_id)
    return citations


@keeping("responses.query", "responses.answer", "responses.x_", "hits.rank", "citations")
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
    """Return the sentences with their citations; an answer from elsewhere is one sentence."""
    text = response.get("answer")
    sentences = json.loads(response.get(SENTENCES, "[]"))
    if not sentences and (text is not None or citations):
        sentences = [{"text": text or "", "citations": []}]
    cited: dict[int, list[int]] = {}
    for citation in sorted(citations, key=lambda citation: citation["position"]):
        number = citation.get("x_sentence", 1)
        if not 1 <= number <= len(sentences):
            raise DataError(
                f"found sentence {number} of {len(sentences)} for query {response['query_id']!r}",
                field="citations.x_sentence",
            )
        index = _index(citation, names, column, is_from_track=SENTENCES in response)
        cited.setdefault(number, []).append(index)
    return [
        sentence | ({"citations": cited[number]} if number in cited else {})
        for number, sentence in enumerate(sentences, 1)
    ]


def _index(citation: dict[str, Any], names: list[str], column: str, is_from_track: bool) -> int:
    """Return the index of a cited reference.

    The marker states it for answers of this format, if it fits the citation's id. Otherwise it is
    the first reference with that id.
    """
    name, marker = citation.get(column), str(citation.get("marker", ""))
    if is_from_track and re.fullmatch(r"\[-?\d+\]", marker):
        index = int(marker[1:-1])
        if (names[index] if 0 <= index < len(names) else None) == name:
            return index
    if name not in names:
        raise DataError(
            f"{name!r} is cited for query {citation['query_id']!r} and is none of its hits",
            field=f"citations.{column}",
            allowed="hits of the query",
        )
    return names.index(name)

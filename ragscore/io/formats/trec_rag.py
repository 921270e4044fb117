"""Answers in the format of the TREC RAG track (JSON lines) <-> `Results`.

A line is one answer: run_id, topic_id, topic, references (passage ids in order), answer [{text,
citations: [index into references]}]. References become hits, in their order; each citation of each
sentence becomes a row of `citations`; the sentences themselves, as they were, are JSON text in
`x_answer_sentences.json`. The format has no way to say that a system refused: `refused` stays
unknown.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.formats.trec import ids_of
from ragscore.io.output import warn_of_left_out, write_lines
from ragscore.io.source import Problems, Row, as_id, as_text, describe, json_rows
from ragscore.io.values import extra_fields, flatten, is_int, row_dicts, unify_types

SENTENCES = "x_answer_sentences.json"
OURS = frozenset(("answer_sentences", "answer_sentences.json"))
FIELDS = frozenset(("run_id", "topic_id", "topic", "references", "answer"))


@dataclass
class _Tables:
    """Records of each frame while a file is read, and the line of each run's topic."""

    responses: list[dict[str, Any]] = field(default_factory=list)
    hits: list[dict[str, Any]] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)


def read_trec_rag(path: Path, strict: bool) -> Results:
    """The runs of one file, in the order in which they first stand there."""
    problems = Problems(path, strict)
    tables = _Tables()
    for row in json_rows(path, problems):
        _read_record(row, tables, problems)
    asked = [run_id for run_id, _ in tables.lines]
    runs = [{"run_id": run_id, "n_queries": asked.count(run_id)} for run_id in dict.fromkeys(asked)]
    if not runs:
        problems.add(
            "no answer in the file",
            allowed="one JSON object per line, with run_id, topic_id, references and answer",
        )
    frames = {
        name: from_records(unify_types(getattr(tables, name)), name)
        for name in ("responses", "hits", "citations")
    }
    return Results(runs=from_records(runs, "runs"), **frames, problems=problems.frame())


def _read_record(row: Row, tables: _Tables, problems: Problems) -> None:
    values = dict(row.values)
    ids = {name: as_id(values.pop(name, None)) for name in ("run_id", "topic_id")}
    references, answer = values.pop("references", []), values.pop("answer", None)
    for name, found in ids.items():
        if found is None:
            problems.add(
                f"found {describe(row.values.get(name))}", line=row.line, field=name, allowed="text"
            )
            return
    run_id, query_id = str(ids["run_id"]), str(ids["topic_id"])
    if taken := values.keys() & OURS:
        problems.add(
            f"found {', '.join(sorted(taken))}",
            line=row.line,
            field=min(taken),
            allowed="another name: this one is ours",
        )
        return
    if (run_id, query_id) in tables.lines:
        problems.add(
            f"'{query_id}' stood on line {tables.lines[run_id, query_id]} already",
            line=row.line,
            field="topic_id",
            allowed="one answer per topic",
        )
        return
    if not isinstance(references, list) or None in (names := [as_id(one) for one in references]):
        problems.add(
            f"found {describe(references)}",
            line=row.line,
            field="references",
            allowed="a list of passage ids",
        )
        return
    if not isinstance(answer, list) or not all(
        isinstance(sentence, dict) and as_text(sentence.get("text")) is not None
        for sentence in answer
    ):
        problems.add(
            f"found {describe(answer)}",
            line=row.line,
            field="answer",
            allowed="a list of objects with text and citations",
        )
        return
    cell = {"run_id": run_id, "query_id": query_id}
    tables.lines[run_id, query_id] = row.line
    text = " ".join(str(as_text(sentence["text"])).strip() for sentence in answer)
    tables.responses.append(
        cell
        | {"query": as_text(values.pop("topic", None)), "answer": text or None, "error": None}
        | flatten(values)
        | _sentences(answer)
    )
    tables.hits += [cell | {"rank": rank, "doc_id": name} for rank, name in enumerate(names, 1)]
    tables.citations += [cell | one for one in _citations(answer, names, row, problems)]


def _sentences(answer: list[dict[str, Any]]) -> dict[str, str]:
    """The sentences without the citations that are rows of their own."""
    plain = [
        {name: value for name, value in sentence.items() if name != "citations" or not value}
        for sentence in answer
    ]
    return {SENTENCES: json.dumps(plain, ensure_ascii=False)} if plain else {}


def _citations(
    answer: list[dict[str, Any]], names: list[str | None], row: Row, problems: Problems
) -> list[dict[str, Any]]:
    """Each citation of each sentence; one that points behind the references has only its marker."""
    found: list[dict[str, Any]] = []
    for number, sentence in enumerate(answer, 1):
        cited = sentence.get("citations") or []
        if not isinstance(cited, list) or not all(is_int(index) for index in cited):
            problems.add(
                f"found {describe(cited)}",
                line=row.line,
                field="answer.citations",
                allowed="a list of indices into references, from 0",
            )
            continue
        for index in cited:
            one = {"position": len(found) + 1, "marker": f"[{index}]", "x_sentence": number}
            found.append(one | ({"doc_id": names[index]} if 0 <= index < len(names) else {}))
    return found


def write_trec_rag(results: Results, path: str | Path, *, level: str = "doc") -> Path:
    """Write answers in the format of the TREC RAG track, one a line (gzip if the file ends in .gz).

    Runs that were loaded from such a file give the same objects again, unknown fields included. An
    answer from elsewhere is one sentence with all its citations; hits are the references, in the
    order of their ranks.

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
        Counts errors and refusals, for which the format has no place.
    """
    hits = results.hits.assign(doc=ids_of(results.hits, level, "hits")).sort_values(
        ["run_id", "query_id", "rank"], kind="stable"
    )
    references, citations = _by_cell(hits), _by_cell(results.citations)
    refused = (
        results.responses["refused"].eq(True).fillna(False)
        if "refused" in results.responses
        else pd.Series(dtype="bool")
    )
    warn_of_left_out(
        path,
        {"errors": int(results.responses["error"].notna().sum()), "refusals": int(refused.sum())},
    )
    records = []
    for response in row_dicts(results.responses.astype({"run_id": "str"})):
        cell = (response["run_id"], response["query_id"])
        record = {"run_id": cell[0], "topic_id": cell[1]} | (
            {"topic": response["query"]} if "query" in response else {}
        )
        names = [hit["doc"] for hit in references.get(cell, [])]
        record |= {
            "references": names,
            "answer": _answer(
                response,
                names,
                citations.get(cell, []),
                "chunk_id" if level == "chunk" else "doc_id",
            ),
        }
        records.append(
            record
            | extra_fields(
                {name: value for name, value in response.items() if name != SENTENCES},
                FIELDS,
                "responses",
            )
        )
    return write_lines(path, records)


def _by_cell(frame: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in row_dicts(frame.astype({"run_id": "str"})):
        rows.setdefault((row["run_id"], row["query_id"]), []).append(row)
    return rows


def _answer(
    response: dict[str, Any], names: list[str], citations: list[dict[str, Any]], column: str
) -> list[dict[str, Any]]:
    """The sentences with what each cites; those of an answer that has none are its text."""
    text = response.get("answer")
    sentences = json.loads(response.get(SENTENCES, "[]")) or (
        [] if text is None and not citations else [{"text": text or "", "citations": []}]
    )
    cited: dict[int, list[int]] = {}
    for citation in sorted(citations, key=lambda one: one["position"]):
        number = citation.get("x_sentence", 1)
        if not 1 <= number <= len(sentences):
            raise DataError(
                f"found sentence {number} of {len(sentences)} for query {response['query_id']!r}",
                field="citations.x_sentence",
            )
        cited.setdefault(number, []).append(
            _index(citation, names, column, is_own=SENTENCES in response)
        )
    return [
        sentence | ({"citations": cited[number]} if number in cited else {})
        for number, sentence in enumerate(sentences, 1)
    ]


def _index(citation: dict[str, Any], names: list[str], column: str, is_own: bool) -> int:
    """Which reference a citation means.

    What its marker says where that is this format's, else its first place among the references.
    """
    name, marker = citation.get(column), str(citation.get("marker", ""))
    if is_own and re.fullmatch(r"\[-?\d+\]", marker):
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

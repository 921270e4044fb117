"""Answers in the format of the TREC RAG track (JSON lines) -> `Results`.

A line is one answer: run_id, topic_id, topic, references (passage ids in order), answer [{text, citations: [index into
references]}]. References become hits, in their order; each citation of each sentence becomes a row of `citations`. The
format has no way to say that a system refused: `refused` stays unknown.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragscore.frames import Results, from_records
from ragscore.load.extras import flatten, settle
from ragscore.load.fields import is_int
from ragscore.load.source import Problems, Row, as_id, as_text, json_rows, shown


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
        problems.add("no answer in the file", allowed="one JSON object per line, with run_id, topic_id, references and answer")
    frames = {name: from_records(settle(getattr(tables, name)), name) for name in ("responses", "hits", "citations")}
    return Results(runs=from_records(runs, "runs"), **frames, problems=problems.frame())


def _read_record(row: Row, tables: _Tables, problems: Problems) -> None:
    values = dict(row.values)
    ids = {name: as_id(values.pop(name, None)) for name in ("run_id", "topic_id")}
    references, answer = values.pop("references", []), values.pop("answer", None)
    for name, found in ids.items():
        if found is None:
            problems.add(f"found {shown(row.values.get(name))}", line=row.line, field=name, allowed="text")
            return
    run_id, query_id = str(ids["run_id"]), str(ids["topic_id"])
    if (run_id, query_id) in tables.lines:
        problems.add(f"'{query_id}' stood on line {tables.lines[run_id, query_id]} already", line=row.line, field="topic_id", allowed="one answer per topic")
        return
    if not isinstance(references, list) or None in (names := [as_id(one) for one in references]):
        problems.add(f"found {shown(references)}", line=row.line, field="references", allowed="a list of passage ids")
        return
    if not isinstance(answer, list) or not all(isinstance(sentence, dict) and as_text(sentence.get("text")) is not None for sentence in answer):
        problems.add(f"found {shown(answer)}", line=row.line, field="answer", allowed="a list of objects with text and citations")
        return
    cell = {"run_id": run_id, "query_id": query_id}
    tables.lines[run_id, query_id] = row.line
    text = " ".join(str(as_text(sentence["text"])).strip() for sentence in answer)
    tables.responses.append(cell | {"query": as_text(values.pop("topic", None)), "answer": text or None, "error": None} | flatten(values))
    tables.hits += [cell | {"rank": rank, "doc_id": name} for rank, name in enumerate(names, 1)]
    tables.citations += [cell | one for one in _citations(answer, names, row, problems)]


def _citations(answer: list[dict[str, Any]], names: list[str | None], row: Row, problems: Problems) -> list[dict[str, Any]]:
    """Each citation of each sentence; one that points behind the references has only its marker."""
    found: list[dict[str, Any]] = []
    for number, sentence in enumerate(answer, 1):
        cited = sentence.get("citations") or []
        if not isinstance(cited, list) or not all(is_int(index) for index in cited):
            problems.add(f"found {shown(cited)}", line=row.line, field="answer.citations", allowed="a list of indices into references, from 0")
            continue
        for index in cited:
            one = {"position": len(found) + 1, "marker": f"[{index}]", "x_sentence": number}
            found.append(one | ({"doc_id": names[index]} if 0 <= index < len(names) else {}))
    return found

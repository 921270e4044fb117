"""Phoenix's experiments: one record per run of an example. Its spans are traces.py's."""

from ragscore.io.detect import Sample
from ragscore.io.records import Record, Stored
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import one_per_row
from ragscore.io.tools.cells import QUERY_KEYS, Cells, stored, with_roles
from ragscore.io.traces import ANSWER_KEYS, text_of


def fits(seen: Sample) -> bool:
    """Return True for a table of an experiment's runs."""
    return seen.has("example_id", "repetition_number")


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Record:
    cells = Cells(row, problems)
    case = Record(row.line, cells.identifier("example_id"), repeat=cells.whole("repetition_number"))
    error, answer = cells.text("error") or None, text_of(cells.pop("output"), ANSWER_KEYS)
    case.response = {
        "error": error,
        "query": text_of(cells.pop("input"), QUERY_KEYS),
        "elapsed_ms": cells.number("latency_ms"),
        "answer": None if error else answer,
        "prompt_tokens": cells.whole("prompt_token_count"),
        "completion_tokens": cells.whole("completion_token_count"),
    }
    case.reference_answer = text_of(cells.pop("reference_output"), ANSWER_KEYS)
    annotations = [cells.of(one) for one in cells.records("annotations")]
    case.stored = [_annotation(one) for one in annotations + _flat_annotations(cells)]
    return with_roles(case, row, columns, problems)


def _annotation(cells: Cells) -> Stored:
    label, kind = cells.text("label"), cells.text("annotator_kind")
    return stored(
        cells.text("name") or "annotation", cells.pop("score"), same={}, verdict=label,
        reason=cells.text("explanation"), error=cells.text("error") or None,
        judge=None if kind is None else kind.lower(), is_judged=kind != "CODE",
    )  # fmt: skip


def _flat_annotations(cells: Cells) -> list[Cells]:
    """Return the annotations in the CSV's columns `annotation_<name>_score` and so on."""
    parts = ("score", "label", "explanation", "annotator_kind", "error")
    names = {
        name[len("annotation_") : -len(part) - 1]: None
        for name in cells.values
        for part in parts
        if name.startswith("annotation_") and name.endswith(f"_{part}")
    }
    annotations = []
    for name in names:
        values = {part: cells.pop(f"annotation_{name}_{part}") for part in parts}
        if any(values[part] is not None for part in ("score", "label", "error")):
            annotations.append(cells.of({"name": name} | values))
    return annotations


read = one_per_row(_case)

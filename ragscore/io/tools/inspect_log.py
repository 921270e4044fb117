"""Inspect AI's logs (`.json`, or `.eval`, a zip of JSON) and its `samples_df` -> cases.

Epochs become repeats. The place of the passages in a sample is each task author's own convention:
name it, as in `columns={"chunk_id": "metadata.sources"}`.
"""

import os
import re
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from ragscore.frames.errors import DataError
from ragscore.io.detect import BROKEN_ZIP, Sample
from ragscore.io.file_content import LIFT, check_regular, most_bytes
from ragscore.io.records import Record, Stored
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row, parse_json
from ragscore.io.tools.cases import Imported, aggregate, imported
from ragscore.io.tools.cells import SAME as COMMON
from ragscore.io.tools.cells import (
    Cells,
    json_text,
    labels_in,
    our_name,
    query_of,
    stored,
    with_roles,
    without_missing,
)
from ragscore.io.values import as_number

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
SAME = {**COMMON, "exact": "exact_match", "f1": "token_f1"}
"""Its scorers with our formula. It rounds f1 to two digits; both take the best of the targets."""
DETERMINISTIC = ("includes", "match", "exact", "f1", "choice", "pattern", "answer")


def fits(seen: Sample) -> bool:
    """Return True for a log, or a frame of its samples."""
    is_log = seen.has("eval", "status") or (seen.kind == "zip" and seen.has("header.json"))
    return is_log or seen.has("eval_id", "epoch", "input")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per sample and epoch; a sample's target is its reference answer."""
    if isinstance(source, Path) and source.suffix == ".eval":
        top: dict[str, Any] = _eval_log(source)
    else:
        rows = list(table_rows(source, problems))
        if rows and "eval_id" in rows[0].values:
            return imported(
                [_frame_case(row, problems, columns) for row in rows], described, problems
            )
        top = rows[0].values if rows else {}
    cells = Cells(Row(top, 1), problems)
    spec = cells.part("eval")
    config = json_text(spec.values)
    about = {
        "system": spec.text("model"), "suite": spec.text("task"), "config": config,
        "created_at": spec.text("created"),
    }  # fmt: skip
    reported = cells.part("results")
    scorers = [reported.of(one) for one in reported.records("scores")]
    aggregates = [row for one in scorers for row in _aggregates(one)]
    # an accuracy is better if it is higher; a mean may be of anything
    accurate = {row["of"] for row in aggregates if row["metric"].endswith("/accuracy")}
    cases = [
        _case(Row(sample, number), problems, columns, accurate)
        for number, sample in enumerate(cells.records("samples"), 1)
    ]
    if all(case.repeat == 1 for case in cases):
        for case in cases:
            case.repeat = None  # one epoch is no repeat
    about |= {"aggregates": aggregates}
    return imported(cases, without_missing(described | about), problems)


def _aggregates(scorer: Cells) -> list[dict[str, Any]]:
    """Return what a log reports of all samples: over the reduced ones, where there are epochs."""
    name, found = scorer.text("name") or "score", []
    for label, metric in scorer.mapping("metrics").items():
        value = as_number(metric.get("value") if isinstance(metric, dict) else metric)
        if value is not None:
            is_mean = label in ("accuracy", "mean")
            of = our_name(name, SAME) if is_mean else None
            found.append(aggregate(f"{name}/{label}", value, of))
    return found


def _eval_log(path: Path) -> dict[str, Any]:
    """Return a log of the kind `.eval`, a zip of JSON, as the one object of a log in JSON."""
    check_regular(path)
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as opened:
            limit = most_bytes(path.stat().st_size)
            if limit is not None and sum(one.file_size for one in opened.infolist()) > limit:
                raise DataError(
                    f"unpacks to more than {limit:,} bytes", file=path, allowed=f"less; {LIFT}"
                )
            names = sorted(opened.namelist(), key=_in_order)
            # a log that was cut short has no header yet
            head = next(one for one in ("header.json", "_journal/start.json") if one in names)
            samples = [one for one in names if one.startswith("samples/")]
            top, *found = (parse_json(_member(opened, file, one)) for one in (head, *samples))
    except (*BROKEN_ZIP, StopIteration) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"can't be read ({type(error).__name__}: {error})",
            file=path,
            allowed="a whole log; or the log as JSON (inspect log convert --to json)",
        ) from error
    return top | {"samples": [_resolved(one, one.get("attachments") or {}) for one in found]}


def _member(opened: zipfile.ZipFile, file: BinaryIO, name: str) -> str:
    """Return a text in a zip, also one packed by zstd, which `zipfile` knows from 3.14 on."""
    info = opened.getinfo(name)
    if info.compress_type != _ZSTD:
        return opened.read(name).decode()
    file.seek(info.header_offset)
    *_, length, more = struct.unpack("<4s22s2H", file.read(30))  # of the name and what follows it
    file.seek(length + more, os.SEEK_CUR)
    packed = pa.BufferReader(file.read(info.compress_size))
    with pa.CompressedInputStream(packed, "zstd") as unpacked:
        content = bytes(unpacked.read(info.file_size + 1))
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {name}")
    return content.decode()


_ZSTD = 93  # its number in APPNOTE.TXT of the zip format


def _in_order(name: str) -> tuple[int, list[tuple[str, int]]]:
    """Return the key by which `samples/2_epoch_1.json` comes before 10, and before epoch 2."""
    epoch = re.search(r"_epoch_(\d+)", name)
    parts = re.findall(r"(\D*)(\d*)", name)
    return int(epoch[1]) if epoch else 0, [(text, int(digits or 0)) for text, digits in parts]


def _resolved(value: Any, attachments: dict[str, str]) -> Any:
    """Return a sample with its long texts, which stand apart, in their places."""
    if isinstance(value, dict):
        return {name: _resolved(one, attachments) for name, one in value.items()}
    if isinstance(value, list):
        return [_resolved(one, attachments) for one in value]
    is_apart = isinstance(value, str) and value.startswith(_ATTACHED)
    return attachments.get(value.removeprefix(_ATTACHED), value) if is_apart else value


_ATTACHED = "attachment://"


def _answer_in(output: Cells) -> str | None:
    """Return the completion of an output, which some logs have only as the first choice's."""
    if (text := output.text("completion")) is not None:
        return text
    first = next(iter(output.records("choices")), {})
    return output.of(output.of(first).mapping("message")).answer("content")


def _case(row: Row, problems: Problems, columns: dict[str, str], accurate: set[str]) -> Record:
    cells = Cells(row, problems)
    metadata, output = cells.mapping("metadata"), cells.part("output")
    case = Record(row.line, cells.identifier("id"), repeat=cells.whole("epoch"))
    fault = cells.pop("error")
    message = str(fault.get("message") or "error") if isinstance(fault, dict) else fault
    error = cells.of({"error": message}).text("error") or None
    usage, target = output.part("usage"), cells.pop("target")
    case.response = {
        "query": query_of(cells.pop("input")),
        "error": error,
        "answer": None if error else _answer_in(output),
        # working time leaves out waiting for rate limits
        "elapsed_ms": cells.milliseconds("working_time", "total_time"),
        "prompt_tokens": usage.whole("input_tokens"),
        "completion_tokens": usage.whole("output_tokens"),
    }
    first = target[0] if isinstance(target, list) and target else target  # of several right ones
    case.reference_answer = first if isinstance(first, str) and first else None
    for name, score in cells.mapping("scores").items():
        case.stored += _scores(
            name, score if isinstance(score, dict) else {"value": score}, accurate
        )
    case.labels = labels_in(metadata)
    own = {name: value for name in ("limit", "retries") if (value := cells.pop(name))}
    messages = map(cells.of, cells.records("messages"))
    calls = [call.get("function") for one in messages for call in one.records("tool_calls")]
    own |= {"tool_calls": calls} if calls else {}
    case.extra = {"metadata": metadata} | own
    return with_roles(case, row, columns, problems)


def _frame_case(row: Row, problems: Problems, columns: dict[str, str]) -> Record:
    """Return a row of `samples_df` as a case; it has no answer, and its texts may be cut."""
    cells = Cells(row, problems)
    case = Record(row.line, cells.identifier("id"), repeat=cells.whole("epoch"))
    error, case.reference_answer = cells.text("error") or None, cells.text("target")
    case.response = {
        "query": re.sub(r"^user:\s*", "", cells.text("input") or "").strip(),
        "error": error,
        "elapsed_ms": cells.milliseconds("working_time", "total_time"),
    }
    for name in [name for name in cells.values if name.startswith("score_")]:
        value = cells.pop(name)
        if value is not None or error is None:
            case.stored += _scores(name.removeprefix("score_"), {"value": value}, set())
    own = {name: one for name, one in cells.values.items() if name.startswith("metadata_")}
    case.extra = without_missing(own)
    return with_roles(case, row, columns, problems)


def _scores(name: str, score: dict[str, Any], accurate: set[str]) -> list[Stored]:
    """Return a score, or one per member of a score that is a mapping.

    None or NaN means that the scorer gave no score. Letters are read as its accuracy does, and so
    is every value that it makes an accuracy of.
    """
    value, explanation = score.get("value"), score.get("explanation")
    about: dict[str, Any] = {"is_judged": name not in DETERMINISTIC}
    about |= {"reason": explanation} if isinstance(explanation, str) else {}
    if isinstance(value, dict):
        return [
            stored(f"{name}.{member}", LETTERS.get(str(one), one), **about, **_told(one, False))
            for member, one in value.items()
        ]
    is_text = isinstance(value, str)
    number = LETTERS.get(value, value) if isinstance(value, str) else value
    about |= _told(value, our_name(name, SAME) in accurate)
    found = stored(name, number, same=SAME, verdict=value if is_text else None, **about)
    if found.value is None and found.verdict is None:
        found.error = found.reason or "unscored"
    return [found]


def _told(value: Any, is_accuracy: bool) -> dict[str, Any]:
    """Return direction and range of a scorer's values, as far as a log tells them."""
    if is_accuracy or isinstance(value, bool) or str(value) in LETTERS:
        return {"better": "higher", "lowest": 0.0, "highest": 1.0}
    return {}

"""Inspect AI's logs (`.json`, or `.eval`, a zip of JSON).

Epochs become repeats. The place of the passages in a sample is each task author's own convention:
name it, as in `columns={"chunk_id": "metadata.sources"}`.
"""

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from ragscore.frames.errors import DataError, name_list
from ragscore.io.files import check_unpacked
from ragscore.io.importers import (
    PASSED,
    QUERY_KEYS,
    Fields,
    File,
    dicts_in,
    each,
    labels_in,
    mapping,
    text_of,
)
from ragscore.io.source import Row, parse_json
from ragscore.io.tables import SAME as COMMON
from ragscore.io.tables import our_name, score_of
from ragscore.io.values import nested

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
SAME = {**COMMON, "exact": "exact_match", "f1": "token_f1"}
"""Its scorers with our formula. It rounds f1 to two digits; both take the best of the targets."""
DETERMINISTIC = ("includes", "match", "exact", "f1", "choice", "pattern", "answer")
COLUMNS = {
    "query_id": "id", "answer": "output.completion output.choices.0.message.content",
    "prompt_tokens": "output.usage.input_tokens", "completion_tokens": "output.usage.output_tokens",
    "latency_s": "working_time total_time",  # working time leaves out waiting for rate limits
    "error": "error.message error",
}  # fmt: skip
RUN = {
    "system": "eval.model", "suite": "eval.task", "config": "eval", "created_at": "eval.created",
}  # fmt: skip


def samples(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    """Yield what no path says of a sample and epoch; the target is its reference answer."""
    # an accuracy is better if it is higher; a mean may be of anything
    scorers = each(file.top, "results.scores", {"name": "name", "accuracy": "metrics.accuracy"})
    accurate = {our_name(one["name"] or "score", SAME) for one in scorers if one["accuracy"]}
    for row in rows:
        one = row.values
        target, metadata = nested(one.get("target")), mapping(one, "metadata")
        first = target[0] if isinstance(target, list) and target else target  # of several right
        kept = {"metadata": metadata, "limit": one.get("limit"), "retries": one.get("retries")}
        kept["tool_calls"] = [call["name"] for message in dicts_in(one.get("messages"))
                              for call in each(message, "tool_calls", {"name": "function"})
                              ]  # fmt: skip
        yield row, labels_in(metadata) | {
            "query": text_of(one.get("input"), QUERY_KEYS),
            "repeat": one.get("epoch"),
            "reference_answer": first if isinstance(first, str) and first else None,
            "scores": [stated for name, score in mapping(one, "scores").items()
                       for stated in _scores(name, score, accurate)],
            "extra": {name: value for name, value in kept.items() if value},
        }  # fmt: skip


def _scores(name: str, score: Any, accurate: set[str]) -> list[Fields]:
    """Return a score, or one per member of a score that is a mapping.

    None or NaN means that the scorer gave no score. Letters are read as its accuracy does, and so
    is every value that it makes an accuracy of.
    """
    score = score if isinstance(score, dict) else {"value": score}
    value, reason = score.get("value"), score.get("explanation")
    about = {"is_judged": name not in DETERMINISTIC,
             "reason": reason if isinstance(reason, str) else None}  # fmt: skip
    members = value if isinstance(value, dict) else {"": value}
    found = []
    for member, one in members.items():
        metric = f"{name}.{member}" if member else name
        is_share = isinstance(one, bool) or str(one) in LETTERS
        number = LETTERS.get(one, one) if isinstance(one, str) else one
        no_score = (about["reason"] or "unscored") if score_of(number) == (None, None) else None
        stated = {"metric": metric, "value": number, "same": SAME, "error": no_score,
                "verdict": one if isinstance(one, str) else None}  # fmt: skip
        known = PASSED if is_share or our_name(metric, SAME) in accurate else {}
        found.append(about | stated | known)
    return found


# The file of the kind `.eval`


def opened(path: Path) -> Fields:
    """Return a log of the kind `.eval` as the one object of a log in JSON; {} for another file."""
    if path.suffix != ".eval":
        return {}
    with path.open("rb") as file, zipfile.ZipFile(file) as opened:
        check_unpacked(sum(one.file_size for one in opened.infolist()), path)
        names = opened.namelist()
        # a log that was cut short has no header yet
        head = "header.json" if "header.json" in names else "_journal/start.json"
        top = parse_json(_member(opened, file, head))
        found = [_whole(_member(opened, file, one)) for one in names if one.startswith("samples/")]
        whole = [one for one in names if one == "summaries.json"]  # a log cut short has only parts
        lists = whole or [one for one in names if one.startswith("_journal/summaries/")]
        summaries = [one for name in lists for one in parse_json(_member(opened, file, name))]
    if lost := _named(summaries) - _named(found):  # as where a name in the zip is damaged
        raise DataError(
            f"{len(found)} samples, without {name_list(sorted(lost))}",
            file=path,
            field="samples",
            allowed="all that its summaries list",
        )
    # the zip has them as they were finished; ids of one length come before longer ones
    in_order = sorted(found, key=lambda one: (one.get("epoch") or 0, str(one.get("id")).zfill(99)))
    return top | {"samples": in_order}


def _named(samples: list[Fields]) -> set[str]:
    return {f"{one.get('id')} (epoch {one.get('epoch')})" for one in samples}


def _member(opened: zipfile.ZipFile, file: BinaryIO, name: str) -> str:
    """Return a text in a zip, also one packed by zstd, which `zipfile` knows from 3.14 on."""
    info = opened.getinfo(name)
    if info.compress_type != _ZSTD:
        return opened.read(name).decode()
    file.seek(info.header_offset)
    *_, length, more = struct.unpack("<4s22s2H", file.read(30))  # of the name and what follows it
    packed = file.read(length + more + info.compress_size)[length + more :]
    content: bytes = pa.decompress(packed, info.file_size, "zstd", asbytes=True)
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {name}")
    return content.decode()


_ZSTD = 93  # its number in APPNOTE.TXT of the zip format


def _whole(text: str) -> Fields:
    """Return a sample with its long texts, which are kept apart, in their places."""
    apart = mapping(parse_json(text), "attachments")
    whole: Fields = parse_json(
        re.sub(
            '"attachment://([^"]+)"',
            lambda found: json.dumps(apart.get(found[1], f"attachment://{found[1]}")),
            text,
        )
    )
    return whole

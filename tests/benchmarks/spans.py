"""Time and memory of reading traces.

`python -m tests.benchmarks.spans [n_spans [n_large]]` (default 10,000 spans).

Files of JSON lines: a dump of OpenTelemetry's SDK, OTLP with one resource a line, Langfuse with one
trace a line. A trace has ten spans: an agent, four model calls with 4 kB of messages, two searches
of ten passages, each as a wrapper and what it wraps, and one tool. Each file is read in a fresh
process, by `rs.load_results`, beside `json.loads` of each line, whose results are thrown away.
Printed are seconds on the wall and of all cores, and peak memory without that of a process that
imports alone. With `n_large`, the dump is read in that size too.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.reading import _timed

KIND = "openinference.span.kind"
OF_TRACE = 10
Attributes = dict[str, Any]


def traces(n: int, seed: int = 0) -> Iterator[list[tuple[str, int | None, Attributes]]]:
    """Spans of one trace after the other: name, place of the parent, attributes."""
    rng = random.Random(seed)
    words = [f"word{number}" for number in range(3000)]
    texts = [" ".join(rng.choices(words, k=40)) for _ in range(2_000)]
    messages = [" ".join(rng.choices(words, k=500)) for _ in range(200)]

    def model() -> Attributes:
        said = {"input.value": rng.choice(messages), "output.value": rng.choice(texts)}
        return {KIND: "LLM", **said, "llm.token_count.prompt": 900}

    def found() -> Attributes:
        held: Attributes = {KIND: "RETRIEVER", "input.value": rng.choice(texts)[:60]}
        for rank in range(10):
            text = rng.randrange(len(texts))
            at = f"retrieval.documents.{rank}.document"
            held |= {
                f"{at}.id": f"c{text}",
                f"{at}.content": texts[text],
                f"{at}.score": 1 / rank if rank else 2.0,
            }
        return held

    for number in range(n):
        root = {KIND: "AGENT", "input.value": f"question {number}?", "output.value": "answer"}
        searches = [found(), found()]
        yield [
            ("agent", None, root), *(("model", 0, model()) for _ in range(4)),
            ("retrieve", 0, searches[0]), ("_retrieve", 5, {KIND: "RETRIEVER"}),
            ("retrieve", 0, searches[1]), ("_retrieve", 7, {KIND: "RETRIEVER"}),
            ("calculator", 0, {KIND: "TOOL", "input.value": "1 + 1"}),
        ]  # fmt: skip


def _ids(trace: int, place: int | None) -> tuple[str, str | None]:
    return f"{trace:032x}", None if place is None else f"{trace * OF_TRACE + place:016x}"


def _dump(number: int, spans: list[Any]) -> Iterator[Any]:
    for place, (name, parent, attributes) in enumerate(spans):
        trace, own = _ids(number, place)
        yield {
            "trace_id": trace, "span_id": own, "parent_id": _ids(number, parent)[1], "name": name,
            "start_time": 10**18 + number * 10**9 + place, "end_time": 10**18 + number * 10**9 + 99,
            "status": {"status_code": "OK"}, "attributes": attributes,
        }  # fmt: skip


def _otlp(number: int, spans: list[Any]) -> Iterator[Any]:
    made = [
        {
            "traceId": one["trace_id"], "spanId": one["span_id"],
            "parentSpanId": one["parent_id"] or "", "name": one["name"],
            "startTimeUnixNano": str(one["start_time"]),
            "endTimeUnixNano": str(one["end_time"]), "status": {},
            "attributes": [
                {"key": key, "value": {"doubleValue" if isinstance(value, float) else "intValue"
                 if isinstance(value, int) else "stringValue": value}}
                for key, value in one["attributes"].items()
            ],
        }
        for one in _dump(number, spans)
    ]  # fmt: skip
    yield {"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}


def _langfuse(number: int, spans: list[Any]) -> Iterator[Any]:
    kinds = {"LLM": "GENERATION"}
    made = []
    for one, (_, _, held) in zip(_dump(number, spans), spans, strict=True):
        documents = [
            {"id": held[f"{at}.id"], "content": held[f"{at}.content"], "score": held[f"{at}.score"]}
            for rank in range(10)
            if f"{(at := f'retrieval.documents.{rank}.document')}.id" in held
        ]
        made.append({
            "id": one["span_id"], "traceId": one["trace_id"],
            "parentObservationId": one["parent_id"], "name": one["name"],
            "type": kinds.get(held[KIND], held[KIND]), "startTime": "2026-01-01T00:00:00Z",
            "endTime": "2026-01-01T00:00:01Z", "input": held.get("input.value"),
            "output": documents or held.get("output.value"), "usageDetails": {"input": 900},
        })  # fmt: skip
    yield {"trace": {"id": f"{number:032x}", "sessionId": None}, "observations": made}


CONTAINERS: dict[str, Callable[[int, list[Any]], Iterator[Any]]] = {
    "SDK": _dump, "OTLP": _otlp, "Langfuse": _langfuse,
}  # fmt: skip


def _write(file: Path, container: str, n_spans: int) -> None:
    with file.open("w", encoding="utf-8") as out:
        for number, spans in enumerate(traces(n_spans // OF_TRACE)):
            out.writelines(json.dumps(one) + "\n" for one in CONTAINERS[container](number, spans))


def _loaded(path: str) -> Any:
    import ragscore as rs

    return rs.load_results(path)


def _parsed(path: str) -> Any:
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            json.loads(line)


def _imported(_: str) -> Any:
    import ragscore as rs

    return rs.load_results({"q": ["a"]})


READERS = {"load_results": _loaded, "json.loads": _parsed, "import": _imported}


def _measured(reader: str, file: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.spans", "--", reader, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(said)
    return found


def main(n_spans: int = 10_000, n_large: int = 0) -> None:
    """Print a line for each container, and one for the large file."""
    print(f"traces of {OF_TRACE} spans; one run each, in fresh processes")
    sizes = [(name, n_spans) for name in CONTAINERS] + [("SDK", n_large)] * bool(n_large)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spans.jsonl"
        for container, n in sizes:
            _write(file, container, n)
            before = _measured("import", file)["rss"]
            ours, parsed = _measured("load_results", file), _measured("json.loads", file)
            print(
                f"{container:9}{n:>10,} spans {file.stat().st_size / 1e6:7,.0f} MB"
                f"   read {ours['wall']:6.1f} s (cpu {ours['cpu']:.1f})"
                f" {ours['rss'] - before:7,.0f} MB"
                f"   json.loads {parsed['wall']:6.1f} s (cpu {parsed['cpu']:.1f})",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--"]:
        print(json.dumps(_timed(lambda: READERS[sys.argv[2]](sys.argv[3]))))
    else:
        main(*map(int, sys.argv[1:]))

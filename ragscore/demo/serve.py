"""A local server that puts systems behind a chatbot's endpoint, `POST /api/v1/ask`.

`?debug=true` adds the debug part to replies. `ragscore demo --serve` serves the demo's four
systems; `DemoServer` serves any system in a notebook or a test.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter, sleep
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ragscore.collecting.replies import as_json, record_of
from ragscore.collecting.systems import ASK, AskError, Given, Request, System, as_system
from ragscore.demo.ask import demo_index, systems_over
from ragscore.demo.corpus import chunker_version
from ragscore.demo.local import LocalServer, Object, Reply
from ragscore.demo.retrievers import Index
from ragscore.frames.errors import DataError
from ragscore.io.source import describe, parse_json

PORT = 9000  # where the chatbot framework listens
_HIT_NAMES = {"doc_path": "rel_path", "snippet": "text", "score": "score_final"}
_CITATION_NAMES = {"path": "rel_path"}


class DemoServer(LocalServer):
    """Serve systems on 127.0.0.1 until closed, to programs of this machine.

    `with DemoServer({"mine": search}) as server: rs.collect(server.url, golden, out)`. A request is
    `{"question": ..., "mode": ..., "k": ..., "with_answer": ..., "filters": ..., "folders": ...}`:
    `mode` names the system and may be left out if there is only one; all else goes to the system,
    and what it can't be told is refused. Errors are `{"error": ...}`: 400 no JSON object, 404
    another address, 422 a field that can't be used, 500 the system failed; hits found all the same
    are in the debug part.

    Parameters
    ----------
    systems
        By mode, each as `rs.collect` takes one.
    port
        0: a free one.
    coverage
        What is known of the index, such as `chunker_version` and `index_version`: reported as
        `debug.indexing_coverage`.

    Attributes
    ----------
    url
        Its address, without the path of the endpoint.

    Raises
    ------
    DataError
        No system, something that is none, or a port that can't be had.
    """

    def __init__(
        self, systems: Mapping[str, Given], port: int = 0, coverage: Mapping[str, Any] | None = None
    ) -> None:
        if not systems:
            raise DataError("none given", field="systems", allowed="at least one")
        self.systems = {mode: as_system(system, mode) for mode, system in systems.items()}
        self.coverage: Object = as_json(dict(coverage or {}))
        super().__init__(port)

    def close(self) -> None:
        """Stop serving, once requests under way are answered."""
        super().close()
        for system in self.systems.values():
            system.close()

    def answer(self, address: str, content: bytes) -> Reply:
        """Return status and body of the reply to a request."""
        parts = urlsplit(address)
        if parts.path != ASK:
            return 404, {"error": f"nothing at {parts.path}; POST {ASK}"}
        try:
            body = parse_json(content.decode())
        except (ValueError, RecursionError) as error:
            return 400, {"error": f"the body is not valid JSON ({error})"}
        if not isinstance(body, dict):
            return 400, {"error": f"the body is {describe(body)}; an object"}
        debug = parse_qs(parts.query).get("debug", [""])[-1].lower() in ("true", "1")
        try:
            return self._asked(*self._read(body), debug)
        except DataError as error:
            return 422, {"error": str(error)}
        except Exception as error:  # a reply, too: clients learn why
            return 500, {"error": f"{type(error).__name__}: {error}"}

    def _read(self, body: Object) -> tuple[System, Request]:
        """Return the system that a request names, and the request without unset fields.

        Null, "" and empty lists count as not set.
        """
        given = {name: value for name, value in body.items() if value not in (None, "", [], {})}
        if len(self.systems) == 1:
            given.setdefault("mode", next(iter(self.systems)))
        for name, allowed in (("question", "text"), ("mode", f"one of {', '.join(self.systems)}")):
            one = given.get(name)
            if not isinstance(one, str) or (name == "mode" and one not in self.systems):
                found = f"found {describe(one)}" if name in given else "the field is missing"
                raise DataError(found, field=name, allowed=allowed)
        system, question = self.systems[given.pop("mode")], given.pop("question")
        taken = given.keys() if system.takes is None else system.takes
        if given.get("with_answer") is True and "with_answer" not in taken:
            del given["with_answer"]  # the system answers, or doesn't, by itself
        if unknown := [name for name in given if name not in taken]:
            allowed = f"one of {', '.join(['question', 'mode', *sorted(taken)])}"
            raise DataError(f"{system.name} can't be told this", field=unknown[0], allowed=allowed)
        return system, {"query": question, **given}

    def _asked(self, system: System, request: Request, debug: bool) -> Reply:
        """Return status and reply of a system; a failed one may still have found hits."""
        fault: str | None = None
        started = perf_counter()
        try:
            reply = system.ask(request, None)
        except AskError as error:
            reply, fault = error.reply, str(error) or type(error).__name__
        total = 1000 * (perf_counter() - started)
        record, config = _recorded({"query_id": "asked", **request}, reply, fault)
        record["latency_total_ms"] = total
        failed = record["error"] is not None
        said = {"error": record["error"]} if failed else _answer(record)
        if debug:
            hits = [
                {"rank": rank} | _renamed(hit, _HIT_NAMES)
                for rank, hit in enumerate(record.get("hits_top_k") or [], 1)
            ]
            found = {
                "retrieved_chunks": hits,
                "latency": {
                    name.removeprefix("latency_"): value
                    for name, value in record.items()
                    if name.startswith("latency_")
                },
                "indexing_coverage": self.coverage,
            }
            if isinstance(scope := record.get("scope"), dict) and scope:
                known = {"folders": "selected"}
                found["folder_selection"] = {
                    f"{known.get(name, name)}_folders": folders for name, folders in scope.items()
                }
            said["debug"] = found | {"config": config, "mode": system.name}
        return 500 if failed else 200, said


def demo_server(cache: Path, port: int = 0) -> DemoServer:
    """Serve the demo's four systems over the manuals of this machine.

    Vectors are stored in `cache`.
    """
    LocalServer(port).close()  # fail before the index is built if the port can't be had
    index, version = demo_index(cache), chunker_version()
    return DemoServer(systems_over(index, version), port, index_coverage(index, version))


def index_coverage(index: Index, version: str) -> Object:
    """Return the counts of documents and passages, and the versions of chunker and index."""
    n = len(index.chunks)
    counts = {
        "docs_processed": int(index.chunks["doc_id"].nunique()),
        "chunks_attempted": n,
        "chunks_embedded": n,
        "chunks_skipped": 0,
    }
    return counts | {"chunker_version": version, "index_version": index.version}


def serve_demo(out: Path, port: int = PORT, report: Callable[[str], None] = print) -> None:
    """Serve the demo's systems until Ctrl-C; `report` is told the address."""
    with suppress(KeyboardInterrupt), demo_server(out / "cache", port) as server:
        report(f"serving {', '.join(server.systems)} at {server.url}{ASK} until Ctrl-C")
        while True:
            sleep(3600)  # an endless wait can't be interrupted on every platform


def _recorded(request: Request, reply: Any, fault: str | None) -> tuple[Object, Object]:
    """Return a reply as a record, and the config that the system reports.

    If only the answer can't be read, its hits are kept.
    """
    try:
        return record_of(request, reply, 0.0, fault)
    except AskError as error:
        text = fault or str(error)
        with suppress(AskError):
            return record_of(request, error.reply, 0.0, text)
        return {"error": text}, {}


def _answer(record: Object) -> Object:
    """Return the reply without its debug part."""
    answer = record.get("answer")
    values: Object = {"answer": answer} if isinstance(answer, str) else answer or {}
    said: Object = {
        "answer": values.get("answer"),
        "references": [_renamed(one, _CITATION_NAMES) for one in values.get("citations") or []],
    }
    if "refused" in values:
        said["abstained"] = values["refused"]
    if values.get("refusal_reason"):
        said["abstain_reason"] = values["refusal_reason"]
    return said


def _renamed(item: Object, names: Mapping[str, str]) -> Object:
    """Return a hit or citation of a record under the endpoint's names."""
    return {names.get(own, own): value for own, value in item.items()}

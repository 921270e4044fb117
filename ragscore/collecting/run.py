"""`rs.collect`: ask a system under test every golden query and write the run.

In: a system and a golden set. Out: `per_query.jsonl` with `run.json` beside it, and the run as
loaded from there. Records go to a journal first, so an interrupted run can be resumed.
"""

import os
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragscore.collecting.journal import (
    Journal,
    code_version,
    environment,
    new_run_id,
    open_journal,
    refuse_finished,
    run_description,
)
from ragscore.collecting.replies import RecordAndConfig
from ragscore.collecting.requests import (
    RequestPolicy,
    ask_all,
    check_accepted,
    checked_settings,
    requests_of,
)
from ragscore.collecting.systems import SETTINGS, Given, Request, as_system
from ragscore.collecting.systems.base import System
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import warn
from ragscore.io.load import load_golden, load_results
from ragscore.io.run_file import results_of
from ragscore.io.run_write import write_per_query
from ragscore.io.secrets import Redactor, redacted_logs, refuse_keys
from ragscore.io.sidecars import run_record
from ragscore.io.source import Problems, Row, as_id
from ragscore.io.waiting import progress_bar


def collect(
    system: Given,
    golden: Golden | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    mode: str | None = None,
    k: int | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    retrieval_only: bool = False,
    settings: dict[str, Any] | None = None,
    leave_out: Iterable[str] = (),
    limit: int | None = None,
    workers: int = 1,
    timeout: float | None = 120.0,
    retries: int = 2,
    rate: float | None = None,
    name: str | None = None,
    run_id: str | None = None,
    suite: str | None = None,
    repeat: int | None = None,
    note: str | None = None,
    config: dict[str, Any] | None = None,
    fresh: bool = False,
    progress: bool = True,
) -> Results:
    """Ask a system under test every golden query.

    Writes the run into `out` as `per_query.jsonl` with `run.json`, and returns it as loaded from
    there.

    A query that fails is recorded with its error and does not stop the run. If only the answer
    failed, the hits are kept. A reply of more than 10 MB fails, too; a mapping's `max_bytes` sets
    another limit. Redirects of an endpoint are not followed. Each record is on disk before it
    counts: after Ctrl-C or a crash, the same call resumes the run. Ctrl-C waits for the replies in
    flight; a second one does not.

    Parameters
    ----------
    system
        One of:

        - a callable, plain or async. It gets the query, and by name those settings and query fields
          that its signature has a parameter for. It returns a list of hits, the text of an answer,
          or a mapping with `hits`, `answer` (text or an object), `citations`, `refused`, `usage`,
          `scope`, `latency` (milliseconds by phase) and `config` (what the system reports of
          itself: chunker_version, embedding, llm, ...);
        - a pair `(search, answer)` of callables, timed separately: `answer(query, hits, ...)` gets
          the hits by that name;
        - the address of a chatbot's ask endpoint;
        - the mapping of another endpoint: a dict, or a YAML file (see
          `ragscore.collecting.systems.Mapping`);
        - a command as a list of texts. It reads the request as JSON on standard input and prints
          its reply as JSON.
    golden
        The golden set, or its file. Fields of a query are sent with it: `filters`, `vaults`,
        `folders`, `product`, `tool`.
    out
        The run's folder.
    mode, k, temperature, seed
        Sent with every query; None leaves the choice to the system.
    retrieval_only
        Ask for no answer (sent as `with_answer: false`).
    settings
        Further settings of the system's own, sent likewise: `{"folder_mode": "on"}`.
    leave_out
        Fields of golden queries that are not sent.
    limit
        Only the first queries.
    workers, timeout, retries, rate
        Number of queries in flight; seconds per attempt, from connecting to the last byte; number
        of further attempts after time-outs, lost connections, 429 and 5xx; maximal attempts per
        second. Retries wait for a growing random time, or as long as the server asks, and none
        waits for more than 60 seconds: the query has failed then. With
        `timeout=None`, a single worker is the calling thread itself.
    name
        The system's name; by default that of the function, host or program.
    run_id, suite, repeat
        Id, suite and repeat number of the run. The default id sorts by time.
    note
        A description of the run: what is tested by it. It stands in `run.json`, in the runs frame
        and in reports. A resumed run keeps the one it was begun with unless another is given.
    config
        Further facts about the system, for the snapshot in `run.json`.
    fresh
        Replace an existing run.
    progress
        Show a progress bar on standard error.

    Returns
    -------
    The run as `rs.load_results` reads it.

    Raises
    ------
    DataError
        A setting or field that the system does not accept; a finished run in `out`; an unfinished
        run with other settings; no valid system.

    Warns
    -----
    UserWarning
        Every query failed; the system reports other settings than it was sent; replies differ in
        the config they report.

    Examples
    --------
    >>> rs.collect(my_rag, golden, "runs/mine", k=10)  # doctest: +SKIP
    >>> rs.collect("http://localhost:9000", golden, "runs/bot", workers=4)  # doctest: +SKIP
    """
    if not isinstance(golden, Golden):
        golden = load_golden(golden)
    check_type(golden, Golden, "golden")
    check_type(note, (str, type(None)), "note", "a text that describes the run")
    policy = RequestPolicy(workers, timeout, retries, rate)
    system = as_system(system, name)
    accepts_choice = system.takes is None or "with_answer" in system.takes
    with_answer = False if retrieval_only else True if accepts_choice else None
    named = dict(zip(SETTINGS, (mode, k, temperature, seed, with_answer), strict=True))
    sent = checked_settings(named, dict(settings or {}))
    left_out = tuple(dict.fromkeys(leave_out))
    requests = requests_of(golden, sent, left_out, limit)
    check_accepted(system, sent, requests, left_out)
    refuse_keys(config, "config", "no key: run.json holds it")
    redactor = Redactor(os.environ.get(name, "") for name in system.variables)
    of_run = {"left_out": list(left_out)} if left_out else {}
    snapshot = redactor.values((config or {}) | sent | of_run | {"system": system.config})
    described = (redactor.text(note).strip() or None) if note is not None else None
    identity = {
        "run_id": run_id,
        "system": name or system.name,
        "suite": suite,
        "repeat": repeat,
        "note": described,
        "golden_hash": golden.golden_hash,
    }
    collector = {"limit": limit, **vars(policy)}
    header = _journal_header(identity, snapshot, requests, collector)
    folder = Path(out)
    try:
        if not fresh:
            refuse_finished(folder)
        with open_journal(folder, header, fresh) as journal:
            if described is not None:
                journal.header["run"]["note"] = described
            with redacted_logs(redactor):
                _ask_missing(system, requests, policy, journal, redactor, progress)
            notes = _finish(journal, [request["query_id"] for request in requests], folder)
    finally:
        system.close()
    for note in notes:
        warn(note)
    return load_results(folder / "per_query.jsonl")


def _journal_header(
    identity: dict[str, Any],
    config: dict[str, Any],
    requests: list[Request],
    collector: dict[str, Any],
) -> dict[str, Any]:
    """Return the first line of a journal.

    `run` and `config` go into `run.json`. A call resumes the run if its `asked` is the same.
    """
    given_id = identity["run_id"]
    if given_id is not None and as_id(given_id) is None:
        raise DataError(f"found {given_id!r}", field="run_id", allowed="text that isn't empty")
    run = {
        **identity,
        "run_id": as_id(given_id) or new_run_id(),
        "created_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        **code_version(),
        "collector": {name: value for name, value in collector.items() if value is not None},
        "environment": environment(),
    }
    asked = {
        "config": config,
        "golden_hash": identity["golden_hash"],
        "system": identity["system"],
        "queries": [request["query_id"] for request in requests],
    }
    optional = ("suite", "repeat", "run_id")
    asked |= {name: identity[name] for name in optional if identity[name] is not None}
    return {"asked": asked, "run": run, "config": config}


def _ask_missing(
    system: System,
    requests: list[Request],
    policy: RequestPolicy,
    journal: Journal,
    redactor: Redactor,
    progress: bool,
) -> None:
    """Ask the requests that are not in the journal yet."""

    def save(answer: RecordAndConfig) -> bool:
        record, config = answer
        journal.append(record | ({"config": config} if config else {}))
        return record["error"] is not None

    missing = [request for request in requests if request["query_id"] not in journal.done]
    n_failed = sum(record["error"] is not None for record in journal.done.values())
    n, name = len(journal.done), journal.header["run"]["system"]
    with progress_bar(n + len(missing), name, "query", progress, initial=n) as bar:
        try:
            asked = ask_all(system, missing, policy, save, redactor, progress)
            with closing(asked) as answers:
                for is_failed in answers:
                    n_failed += is_failed
                    bar.set_postfix_str(f"failed={n_failed}", refresh=False)
                    bar.update()
        except KeyboardInterrupt as stopped:
            stopped.add_note(
                f"{len(journal.done)} answers are in {journal.file}; the same call resumes the run"
            )
            raise


def _finish(journal: Journal, order: list[str], folder: Path) -> list[str]:
    """Write the run in the order of the golden file, delete the journal, and return warnings."""
    described, differing, notes = run_description(
        journal.header, [journal.done[query_id].get("config", {}) for query_id in order]
    )
    records = []
    for query_id in order:
        record = dict(journal.done[query_id])
        config = record.pop("config", {})
        if own := {name: value for name, value in config.items() if name in differing}:
            record["reported"] = own
        records.append(record)
    run = run_record(described, journal.file)
    rows = [Row(record, line) for line, record in enumerate(records, 2)]
    problems = Problems(run["run_id"], strict=True)
    write_per_query(results_of(dict(run), rows, problems), folder)
    journal.file.unlink()
    errors = [record["error"] for record in records if record["error"] is not None]
    if len(errors) == len(records):
        notes.append(f"every query failed, the first with: {errors[0]}")
    return notes

"""`rs.collect`: ask a system under test every golden query and write the run.

In: a system and a golden set. Out: `per_query.jsonl` with `run.json` beside it, and the run as
loaded from there. Records go to a journal first, so an interrupted run can be resumed.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from ragscore.collecting.http import chatbot, http_system, mapping_of_file, read_mapping
from ragscore.collecting.journal import (
    RUN_NAME,
    Journal,
    code_version,
    environment,
    new_run_id,
    open_journal,
    run_description,
)
from ragscore.collecting.replies import RecordAndConfig, readable
from ragscore.collecting.requests import (
    RequestPolicy,
    ask_all,
    check_accepted,
    checked_settings,
    requests_of,
)
from ragscore.collecting.systems import (
    SETTINGS,
    Request,
    System,
    command_system,
    function_system,
)
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import warn
from ragscore.io.load import load_golden, load_results
from ragscore.io.run_file import results_of, run_record
from ragscore.io.run_write import write_per_query
from ragscore.io.servers import progress_bar, redacted_logs, refuse_keys
from ragscore.io.source import Problems, Row, as_id

Given: TypeAlias = "Callable[..., Any] | str | os.PathLike[str] | dict[str, Any] | list[str]"
ALLOWED = (
    "a callable, the address of a chatbot's ask endpoint, a mapping of request and response fields"
    " (a dict, or a YAML file), or a command as a list of texts"
)


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

    A query that fails is recorded with its error and does not stop the run. A reply of more than
    10 MB fails, too; a mapping's `max_bytes` sets another limit. Redirects of an endpoint are not
    followed. Each record is on disk before it counts: after Ctrl-C or a crash, the same call
    resumes the run. Ctrl-C waits for the replies in flight; a second one does not.

    Parameters
    ----------
    system
        One of:

        - a callable, plain or async. It gets the query, and by name those settings and query fields
          that its signature has a parameter for. It returns a list of hits, the text of an answer,
          or a mapping with `hits`, `answer` (text or an object), `citations`, `refused`, `usage`,
          `scope`, `latency` (milliseconds by phase), `error` (why there is no answer; the hits are
          kept) and `config` (what the system reports of itself: chunker_version, embedding, llm,
          ...);
        - the address of a chatbot's ask endpoint;
        - the mapping of another endpoint: a dict, or a YAML file (see
          `ragscore.collecting.http.EndpointMapping`);
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
    workers, timeout, retries
        Number of queries in flight; seconds per attempt, from connecting to the last byte; number
        of further attempts after time-outs, lost connections, 429 and 5xx. Retries wait for a
        growing random time, or as long as the server asks, and none waits for more than 60 seconds:
        the query has failed then. With `timeout=None`, a single worker is the calling thread
        itself.
    name
        The system's name; by default the name of the function, host or program.
    run_id, suite, repeat
        Id, suite and repeat number of the run. The default id sorts by time.
    note
        A description of the run: what is tested by it. It is in `run.json`, in the runs frame
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
    policy = RequestPolicy(workers, timeout, retries)
    if run_id is not None and as_id(run_id) is None:
        raise DataError(f"found {run_id!r}", field="run_id", allowed="text that isn't empty")
    tested = as_system(system, name)
    try:
        accepts_choice = tested.takes is None or "with_answer" in tested.takes
        with_answer = False if retrieval_only else True if accepts_choice else None
        named = dict(zip(SETTINGS, (mode, k, temperature, seed, with_answer), strict=True))
        sent = checked_settings(named, dict(settings or {}))
        left_out = list(dict.fromkeys(leave_out))
        requests = requests_of(golden, sent, left_out, limit)
        check_accepted(tested, sent, requests, left_out)
        refuse_keys(config, "config", "no key: run.json holds it")
        snapshot = (config or {}) | sent | ({"left_out": left_out} if left_out else {})
        snapshot = tested.redactor.values(snapshot | {"system": tested.config})
        described = tested.redactor.text(note or "").strip() or None
        asked = {
            "run_id": as_id(run_id),
            "system": name or tested.name,
            "suite": suite,
            "repeat": repeat,
            "golden_hash": golden.golden_hash,
        }
        header = {
            # A call resumes the run if its `asked` is the same.
            "asked": asked | {"config": snapshot, "queries": [one["query_id"] for one in requests]},
            # Both go into run.json.
            "run": {
                **asked,
                "note": described,
                "run_id": asked["run_id"] or new_run_id(),
                "created_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
                **code_version(),
                "collector": {
                    name: one
                    for name, one in {"limit": limit, **vars(policy)}.items()
                    if one is not None
                },
                "environment": environment(),
            },
            "config": snapshot,
        }
        folder = Path(out)
        with open_journal(folder, header, fresh) as journal:
            if described is not None:
                journal.header["run"]["note"] = described
            with redacted_logs(tested.redactor):
                _ask_missing(tested, requests, policy, journal, progress)
            notes = _finish(journal, [request["query_id"] for request in requests], folder)
        journal.file.unlink()
    finally:
        tested.close()
    for one in notes:
        warn(one)
    return load_results(folder / RUN_NAME)


def as_system(given: Given, name: str | None = None) -> System:
    """Return the system for any accepted form of one; see `collect`.

    Raises
    ------
    DataError
        No accepted form, a mapping with an unknown field, an environment variable that a header
        names but that is not set, or httpx is missing.
    """
    if isinstance(given, System) or callable(given):  # made by hand, as the demo's
        return given if isinstance(given, System) else function_system(given, name)
    if isinstance(given, list) and given and all(isinstance(part, str) for part in given):
        return command_system(given, name)
    if isinstance(given, dict):
        return http_system(read_mapping(given), name)
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        return http_system(chatbot(given), name)
    if isinstance(given, (str, os.PathLike)) and Path(given).suffix in (".yaml", ".yml", ".json"):
        return http_system(mapping_of_file(given), name or Path(given).stem)
    # The value isn't shown: an address that is none may hold a key.
    raise DataError(f"found a {type(given).__name__}", field="system", allowed=ALLOWED)


def _ask_missing(
    system: System, requests: list[Request], policy: RequestPolicy, journal: Journal, progress: bool
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
            with closing(ask_all(system, missing, policy, save, progress)) as answers:
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
    """Write the run in the order of the golden file, and return warnings."""
    records = [dict(journal.done[query_id]) for query_id in order]
    reported = [record.pop("config", {}) for record in records]
    described, notes = run_description(journal.header, reported)
    run = run_record(described, journal.file)
    problems = Problems(folder, strict=True)
    try:
        results = results_of(dict(run), map(Row, records, range(2, len(records) + 2)), problems)
    except Exception:  # each record by itself: only what can't be read is left out
        records = [*map(readable, records)]
        results = results_of(dict(run), map(Row, records, range(2, len(records) + 2)), problems)
    write_per_query(results, folder)
    errors = [record["error"] for record in records if record["error"] is not None]
    if len(errors) == len(records):
        notes.append(f"every query failed, the first with: {errors[0]}")
    return notes

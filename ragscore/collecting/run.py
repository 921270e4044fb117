"""`rs.collect`.

Every golden query asked of a system under test, as `per_query.jsonl` with `run.json` beside it.
"""

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragscore.collecting.journal import (
    NAME,
    Journal,
    Reported,
    code_version,
    description,
    environment,
    new_run_id,
    now,
    open_journal,
    sync_folder,
)
from ragscore.collecting.requests import (
    Answered,
    Manner,
    Settings,
    asked,
    check_told,
    chosen,
    requests_of,
)
from ragscore.collecting.systems import Given, Request, System, as_system
from ragscore.collecting.systems.secrets import Redactor, secrets_in
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import warn
from ragscore.io.load import load_golden, load_results
from ragscore.io.per_query import results_of
from ragscore.io.per_query_write import write_per_query
from ragscore.io.record import Tables, read_record
from ragscore.io.sidecars import run_record
from ragscore.io.source import Problems, Row, as_id

_LOGGERS = (
    "httpx",
    "httpcore",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
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
    sample: int | None = None,
    workers: int = 1,
    timeout: float | None = 120.0,
    retries: int = 2,
    rate: float | None = None,
    name: str | None = None,
    run_id: str | None = None,
    suite: str | None = None,
    repeat: int | None = None,
    config: dict[str, Any] | None = None,
    fresh: bool = False,
    progress: bool = True,
) -> Results:
    """Ask a system under test every golden query.

    The run is in `out` as `per_query.jsonl` with `run.json`, and returned as loaded from there.

    A query that fails is recorded with its error and stops nothing; hits are kept if only the
    answer failed. Each answer is on disk before it counts: called again after Ctrl-C or a crash,
    the same call goes on where it was.

    Parameters
    ----------
    system
        A callable, plain or async: it gets the query, and by name whatever of the settings below
        and of the query's own fields its signature has a place for; it returns a list of hits, an
        answer's text, or a mapping with `hits`, `answer` (text or an object), `citations`,
        `refused`, `usage`, `scope`, `latency` (milliseconds by phase), `config` (what it says of
        itself: chunker_version, embedding, llm, ...). A pair `(search, answer)` of such:
        `answer(query, hits, ...)`; each is timed. The address of a chatbot's ask endpoint, or the
        mapping of another (a dict, or a YAML file; see `ragscore.collecting.systems.Mapping`). A command as a
        list of texts: it gets the request as JSON on standard input and prints its reply as JSON.
    golden
        What to ask. What a query carries is sent with it: `filters`, `vaults`, `folders`,
        `product`, `tool`.
    out
        The run's folder.
    mode, k, temperature, seed
        Sent with every query; None leaves it to the system.
    retrieval_only
        Ask for no answer (sent as `with_answer: false`).
    settings
        Further settings of the system's own, sent likewise: `{"folder_mode": "on"}`.
    leave_out
        Fields of golden queries that are not sent.
    limit, sample
        Only the first queries, or so many drawn with the seed (0 without one).
    workers, timeout, retries, rate
        Queries in flight at a time; seconds per attempt (with None, a single worker is the calling
        thread itself); further attempts after time-outs, lost connections, 429 and 5xx, with a
        growing random wait or as long as the server says; most attempts per second.
    name, run_id, suite, repeat
        Of the system (else it is named after what it is), and of the run: without an id it gets one
        that sorts by time.
    config
        What is known of the system beyond what is sent and what it reports, for the snapshot.
    fresh
        Begin anew, replacing a run that is there.
    progress
        Show a progress bar on standard error.

    Returns
    -------
    The run as `rs.load_results` reads it.

    Raises
    ------
    DataError
        A setting or field that the system can't be told; a finished run in `out`; an unfinished one
        that was begun with other settings; a system that is none.

    Warns
    -----
    UserWarning
        Every query failed; the system reports other settings than it was sent, or replies differ in
        what they report.

    Examples
    --------
    >>> rs.collect(my_rag, golden, "runs/mine", k=10)  # doctest: +SKIP
    >>> rs.collect("http://localhost:9000", golden, "runs/chatbot", k=10, workers=4)  # doctest: +SKIP
    """
    questions = golden if isinstance(golden, Golden) else load_golden(golden)
    check_type(questions, Golden, "golden")
    manner = Manner(workers, timeout, retries, rate)
    given = as_system(system, name)
    answers = (
        False
        if retrieval_only
        else True
        if given.takes is None or "with_answer" in given.takes
        else None
    )
    sent = Settings(mode, k, temperature, seed, answers, dict(settings or {}))
    left = tuple(dict.fromkeys(leave_out))
    requests = chosen(requests_of(questions, sent, left), limit, sample, seed or 0)
    check_told(given, sent, requests, left)
    named = {
        "run_id": run_id,
        "system": name or given.name,
        "suite": suite,
        "repeat": repeat,
        "golden_hash": questions.golden_hash,
    }
    redactor = Redactor([*given.secrets, *secrets_in([sent.own, config or {}])])
    snapshot = redactor.config(
        {**(config or {}), **sent.sent, **({"left_out": list(left)} if left else {})}
    ) | {"system": redactor.values(given.config)}
    header = _header(named, snapshot, requests, {"limit": limit, "sample": sample, **vars(manner)})
    return _collected(given, requests, manner, Path(out), header, redactor, fresh, progress)


def _header(
    named: dict[str, Any], config: dict[str, Any], requests: list[Request], manner: dict[str, Any]
) -> dict[str, Any]:
    """The first line of a journal.

    The run, its snapshot, and by what it is the same run when it goes on.
    """
    run_id = named.pop("run_id")
    if run_id is not None and as_id(run_id) is None:
        raise DataError(f"found {run_id!r}", field="run_id", allowed="text that isn't empty")
    told = {name: value for name, value in manner.items() if value is not None}
    run = {
        "run_id": as_id(run_id) or new_run_id(),
        **named,
        "created_at": now(),
        **code_version(),
        "collector": told,
        "environment": environment(),
    }
    asked_for = {
        "config": config,
        "golden_hash": named["golden_hash"],
        "system": named["system"],
        "queries": [one["query_id"] for one in requests],
    }
    asked_for |= {name: named[name] for name in ("suite", "repeat") if named[name] is not None} | (
        {"run_id": run_id} if run_id is not None else {}
    )
    return {"asked": asked_for, "run": run, "config": config}


def _collected(
    system: System,
    requests: list[Request],
    manner: Manner,
    folder: Path,
    header: dict[str, Any],
    redactor: Redactor,
    fresh: bool,
    progress: bool,
) -> Results:
    try:
        refuse_finished(folder, fresh)
        with open_journal(folder, header, fresh) as journal:
            with _quiet_logs(redactor):
                _ask(
                    system,
                    [one for one in requests if one["query_id"] not in journal.done],
                    manner,
                    journal,
                    redactor,
                    progress,
                )
            odd = _finish(journal, [one["query_id"] for one in requests], folder)
    finally:
        system.close()
    for text in odd:
        warn(text)
    return load_results(folder / "per_query.jsonl")


def refuse_finished(folder: Path, fresh: bool) -> None:
    """Refuse to write over a run that is complete, unless asked to."""
    if (folder / "per_query.jsonl").exists() and not (folder / NAME).exists() and not fresh:
        raise DataError(
            "a finished run is there",
            file=folder / "per_query.jsonl",
            allowed="another folder, or fresh=True (--fresh), which replaces it",
        )


def _ask(
    system: System,
    requests: list[Request],
    manner: Manner,
    journal: Journal,
    redactor: Redactor,
    progress: bool,
) -> None:
    """Ask what isn't in the journal yet."""

    def keep(found: Answered) -> bool:
        record = _clean(*found, redactor)
        journal.append(record)
        return record["error"] is not None

    n_failed = sum(record["error"] is not None for record in journal.done.values())
    with _bar(len(journal.done), len(requests), journal.header["run"]["system"], progress) as bar:
        try:
            for failed in asked(system, requests, manner, keep):
                n_failed += failed
                bar.set_postfix(failed=n_failed, refresh=False)
                bar.update()
        except KeyboardInterrupt as stopped:
            stopped.add_note(
                f"{len(journal.done)} answers are in {journal.file}; the same call goes on from"
                " there"
            )
            raise


def _clean(record: dict[str, Any], reported: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """A record as it may be written, with what the system said of itself.

    Id and text of the question are the golden file's.
    """
    kept: dict[str, Any] = redactor.values(record) | (
        {"config": redactor.config(reported)} if reported else {}
    )
    kept |= {name: record[name] for name in ("query_id", "query")}
    return kept | {"error": None if record["error"] is None else redactor.message(record["error"])}


@contextmanager
def _bar(n_done: int, n_left: int, name: str, progress: bool) -> Iterator[Any]:
    """Queries done, their rate, failures and the time left, on standard error."""
    from tqdm.auto import tqdm

    with tqdm(
        total=n_done + n_left,
        initial=n_done,
        desc=name,
        unit="query",
        file=sys.stderr,
        disable=not progress,
    ) as bar:
        yield bar


def _finish(journal: Journal, order: list[str], folder: Path) -> list[str]:
    """Write the run in the order of the golden file and end the journal; what is odd about the run."""
    reported = Reported()
    for query_id in order:
        reported.add(journal.done[query_id].get("config", {}))
    described, odd = description(journal.header, reported)
    differing = {name for name, values in reported.values.items() if len(values) > 1}
    records = [_without_config(journal.done[query_id], differing) for query_id in order]
    run = run_record(described, journal.file)
    file = write_per_query(_results(run, records), folder)
    for written in (file, folder / "run.json"):
        with written.open("rb") as handle:
            os.fsync(handle.fileno())
    sync_folder(folder)
    journal.file.unlink()
    failed = [record["error"] for record in records if record["error"] is not None]
    return [
        *odd,
        *(
            [f"every query failed, the first with: {failed[0]}"]
            if len(failed) == len(records)
            else []
        ),
    ]


def _results(run: dict[str, Any], records: list[dict[str, Any]]) -> Results:
    problems, tables = Problems(run["run_id"], strict=True), Tables()
    for line, record in enumerate(records, 2):
        read_record(Row(record, line), tables, problems)
    return results_of(dict(run), tables, problems)


def _without_config(record: dict[str, Any], differing: set[str]) -> dict[str, Any]:
    """A record without what the run as a whole says of the system.

    What replies differ in stays with each.
    """
    own = {name: value for name, value in record.get("config", {}).items() if name in differing}
    return {name: value for name, value in record.items() if name != "config"} | (
        {"reported": own} if own else {}
    )


@contextmanager
def _quiet_logs(redactor: Redactor) -> Iterator[None]:
    """While queries are asked, what the HTTP client logs is without secrets."""

    def clean(entry: logging.LogRecord) -> bool:
        entry.msg, entry.args = redactor.message(entry.getMessage()), ()
        return True

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(clean)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(clean)

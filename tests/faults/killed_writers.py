"""Run by test_kills_of_files: what writes files, killed at any step or short of room.

One process imports the library and forks for every round. A step is a call that reaches a file: a
write, an fsync, a rename, a lock, an end. A killed process dies right before one of them; one short
of room may write no file beyond a size. After either the file must be the old or the new one, and
the same work, done again, must end as if nothing had happened.
"""

import io
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import yaml

import ragscore as rs
from ragscore.collecting import run as collect_run
from ragscore.golden.labelling.session import LabelConflict, LabelSession
from ragscore.io.output import write_text

STEPS = frozenset(
    "write truncate flush close __exit__ replace unlink fsync chmod mkdir open flock".split()
)
DONE, REFUSED, BROKEN, KILLED = 0, 3, 1, -signal.SIGKILL
Tell = Callable[[str], None]
Work = Callable[[Path, Tell], None]


def forked(
    work: Work, folder: Path, kill_at: int | None = None, room: int | None = None
) -> tuple[int, int, list[str]]:
    """Work in a process of its own; return its end, the number of its steps, and what it told."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status, numbers = BROKEN, itertools.count(1)
        tell = os.write

        def step(frame: Any, event: str, called: Any) -> None:
            if event != "c_call" or called.__name__ not in STEPS:
                return
            owner = getattr(called, "__self__", None)
            is_system = isinstance(owner, ModuleType) and owner.__name__ in ("posix", "fcntl")
            if (is_system or isinstance(owner, io.IOBase)) and next(numbers) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            if room is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
            threading.setprofile(step)
            sys.setprofile(step)
            work(folder, lambda text: tell(write, f"{text}\n".encode()) and None)
            sys.setprofile(None)
            status = DONE
        except rs.DataError as error:
            sys.setprofile(None)
            status = REFUSED if str(folder) in str(error) else BROKEN
            tell(write, f"refused: {error}\n".replace("\n", " ").encode() + b"\n")
        except BaseException:
            sys.setprofile(None)
            traceback.print_exc()
        finally:
            sys.setprofile(None)
            tell(write, f"steps {next(numbers) - 1}\n".encode())
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    n_steps = [int(line.split()[1]) for line in told if line.startswith("steps ")]
    return os.waitstatus_to_exitcode(status), n_steps[0] if n_steps else 0, told


def content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


OLD, NEW = "old\n" * 700, "näw\n" * 900


class Report:
    """A text written over an older one."""

    size = len(NEW.encode())

    def before(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "report.md").write_text(OLD)

    def work(self, folder: Path, tell: Tell) -> None:
        write_text(folder / "report.md", NEW)

    def check(self, folder: Path, told: list[str], end: int) -> None:
        found = content(folder / "report.md")
        assert found in ([OLD.encode()] if end == REFUSED else [OLD.encode(), NEW.encode()])

    def is_finished(self, folder: Path) -> bool:
        return False

    def check_done(self, folder: Path, told: list[str]) -> None:
        assert content(folder / "report.md") == NEW.encode()
        assert names_in(folder) == ["report.md"]


def golden_of(n: int) -> rs.Golden:
    rows = [
        {"query_id": f"q{one:02}", "query": f"question {one}", "answerable": True, "position": one}
        for one in range(n)
    ]
    return rs.Golden(pd.DataFrame(rows))


class GoldenSet(Report):
    """A golden set saved over an older one."""

    size = 2200
    name = "golden.yaml"

    def before(self, folder: Path) -> None:
        folder.mkdir()
        golden_of(30).save(folder / self.name)
        self.old = content(folder / self.name)

    def work(self, folder: Path, tell: Tell) -> None:
        golden_of(40).save(folder / self.name)

    def check(self, folder: Path, told: list[str], end: int) -> None:
        found = content(folder / self.name)
        assert found is not None and (found == self.old or found.count(b"query: question") == 40)
        assert end != REFUSED or found == self.old

    def check_done(self, folder: Path, told: list[str]) -> None:
        assert names_in(folder) == [self.name]
        assert (folder / self.name).read_text().count("query: question") == 40


def run_of(name: str, n: int) -> rs.Results:
    ids = [f"q{one:02}" for one in range(n)]
    runs = pd.DataFrame([{"run_id": name, "system": name}])
    responses = pd.DataFrame(
        [{"run_id": name, "query_id": one, "query": f"{name} {one}"} for one in ids]
    )
    return rs.Results(runs=runs, responses=responses)


class SavedRun(Report):
    """A run saved over another: its records and its description belong together."""

    size = 3600

    def before(self, folder: Path) -> None:
        run_of("old", 20).save(folder / "per_query.jsonl")

    def work(self, folder: Path, tell: Tell) -> None:
        run_of("new", 30).save(folder / "per_query.jsonl")

    def _names(self, folder: Path) -> tuple[str, str | None]:
        lines = (folder / "per_query.jsonl").read_text().splitlines()
        (name,) = {json.loads(line)["query"].split()[0] for line in lines}
        assert len(lines) == {"old": 20, "new": 30}[name]
        described = content(folder / "run.json")
        return name, None if described is None else json.loads(described)["run_id"]

    def check(self, folder: Path, told: list[str], end: int) -> None:
        name, described = self._names(folder)
        assert described in (name, None), f"records of {name} described as {described}"
        assert end != REFUSED or (name, described) == ("old", "old")

    def check_done(self, folder: Path, told: list[str]) -> None:
        assert self._names(folder) == ("new", "new")
        assert names_in(folder) == ["per_query.jsonl", "run.json"]


class Labels(Report):
    """Labels given in a session: a click that returned is in the file."""

    n_queries, size = 6, 400

    def before(self, folder: Path) -> None:
        folder.mkdir()
        rows = [f"- id: q{n}\n  query: question {n}\n" for n in range(self.n_queries)]
        (folder / "golden.yaml").write_text("# made by hand\n" + "".join(rows))

    def _session(self, folder: Path) -> LabelSession:
        ids = [f"q{n}" for n in range(self.n_queries)]
        hits = [
            {"run_id": "r", "query_id": one, "rank": rank, "doc_id": f"d{rank}"}
            for one in ids
            for rank in (1, 2)
        ]
        results = rs.Results(
            runs=pd.DataFrame([{"run_id": "r"}]),
            responses=pd.DataFrame([{"run_id": "r", "query_id": i, "query": i} for i in ids]),
            hits=pd.DataFrame(hits),
        )
        return LabelSession(folder / "golden.yaml", results, level="doc")

    def _click(self, session: LabelSession, name: str, number: int, tell: Tell) -> None:
        session.go(name)
        for _ in range(100):
            try:
                session.mark(number)
            except LabelConflict:
                continue
            tell(f"clicked {name} d{number}")
            return

    def work(self, folder: Path, tell: Tell) -> None:
        session = self._session(folder)
        for n in range(self.n_queries):
            self._click(session, f"q{n}", 1, tell)

    def _labels(self, folder: Path) -> dict[str, set[str]]:
        rows = yaml.safe_load((folder / "golden.yaml").read_text())
        return {row["id"]: set(row.get("expected_doc_ids", [])) for row in rows}

    def check(self, folder: Path, told: list[str], end: int) -> None:
        labels = self._labels(folder)
        clicked = [line.split()[1:] for line in told if line.startswith("clicked")]
        assert len(labels) == self.n_queries
        assert all(doc in labels[name] for name, doc in clicked), f"lost: {clicked} {labels}"
        assert sum(map(len, labels.values())) <= len(clicked) + 1
        backup = content(folder / "golden.yaml.bak")
        assert backup is None or (b"doc" not in backup and backup.count(b"- id") == len(labels))

    def check_done(self, folder: Path, told: list[str]) -> None:
        assert self._labels(folder) == {f"q{n}": {"d1"} for n in range(self.n_queries)}
        assert all(name.startswith("golden.yaml") for name in names_in(folder))
        assert (folder / "golden.yaml").read_text().startswith("# made by hand\n")


class TwoSessions(Labels):
    """Two sessions that label the same questions at the same time."""

    def work(self, folder: Path, tell: Tell) -> None:
        other = os.fork()
        number = 1 if other else 2
        try:
            session = self._session(folder)
            for n in range(self.n_queries):
                self._click(session, f"q{n}", number, tell)
        finally:
            if not other:
                os._exit(0)
        os.waitpid(other, 0)

    def check(self, folder: Path, told: list[str], end: int) -> None:
        labels = self._labels(folder)
        clicked = [line.split()[1:] for line in told if line.startswith("clicked")]
        assert all(doc in labels[name] for name, doc in clicked), f"lost: {clicked} {labels}"

    def check_done(self, folder: Path, told: list[str]) -> None:
        found = self._labels(folder)
        assert all(found[f"q{n}"] == {"d1", "d2"} for n in range(self.n_queries)), found


class Collected(Report):
    """A run collected: what was answered is not asked again."""

    n_queries, workers, size = 8, 1, 9000

    def before(self, folder: Path) -> None:
        folder.mkdir()

    def work(self, folder: Path, tell: Tell) -> None:
        def system(query: str) -> dict[str, Any]:
            tell(f"asked {query}")
            return {"hits": [{"chunk_id": query, "text": "ä" * 300}], "answer": query}

        rs.collect(
            system,
            golden_of(self.n_queries),
            folder / "run",
            workers=self.workers,
            timeout=None,
            run_id="run",
            progress=False,
        )

    def is_finished(self, folder: Path) -> bool:
        """A kill after the last step but the end leaves a whole run, which is not asked again."""
        run = folder / "run"
        return (run / "per_query.jsonl").exists() and not (run / ".per_query.journal").exists()

    def _asked(self, told: list[str]) -> list[str]:
        return [line.removeprefix("asked ") for line in told if line.startswith("asked ")]

    def check(self, folder: Path, told: list[str], end: int) -> None:
        journal, written = folder / "run/.per_query.journal", folder / "run/per_query.jsonl"
        assert written.exists() or journal.exists() or not self._asked(told)
        if written.exists():
            assert len(written.read_text().splitlines()) == self.n_queries
        elif journal.exists():
            whole = [line for line in journal.read_text().splitlines(True) if line.endswith("\n")]
            answered = {json.loads(line)["query"] for line in whole[1:]}
            assert len(set(self._asked(told)) - answered) <= self.workers

    def check_done(self, folder: Path, told: list[str]) -> None:
        asked = Counter(self._asked(told))
        assert len(asked) == self.n_queries and asked.total() - len(asked) <= self.workers, asked
        lines = (folder / "run/per_query.jsonl").read_text().splitlines()
        assert [json.loads(line)["hits_top_k"][0]["chunk_id"] for line in lines] == list(
            golden_of(self.n_queries).queries["query"]
        )
        assert names_in(folder / "run") == ["per_query.jsonl", "run.json"]


class CollectedByThree(Collected):
    """A run collected by several workers."""

    workers = 3


TARGETS: dict[str, Callable[[], Any]] = {
    "report": Report,
    "golden set": GoldenSet,
    "saved run": SavedRun,
    "label": Labels,
    "label, two sessions": TwoSessions,
    "collect": Collected,
    "collect, three workers": CollectedByThree,
}


def attacked(target: Any, folder: Path, seed: int, n_steps: int) -> str:
    """One round: return what came of it."""
    drawn = random.Random(seed)
    target.before(folder)
    if isinstance(target, TwoSessions):
        end, _, told = forked(target.work, folder)
        outcome = "whole" if end == DONE else "broken"
    elif drawn.random() < 0.75:
        end, _, told = forked(target.work, folder, kill_at=drawn.randrange(1, n_steps + 1))
        outcome = "killed" if end == KILLED else "whole" if end == DONE else "broken"
    else:
        end, _, told = forked(target.work, folder, room=drawn.randrange(target.size))
        outcome = "no room" if end == REFUSED else "whole" if end == DONE else "broken"
    assert outcome != "broken", f"{end} {told[-3:]}"
    target.check(folder, told, end)
    if outcome != "whole" and not target.is_finished(folder):
        again, _, more = forked(target.work, folder)
        assert again == DONE, f"again: {again} {more[-3:]}"
        told += more
    target.check_done(folder, told)
    return outcome


def main(folder: Path, n_rounds: int) -> None:
    collect_run.load_results = lambda path: None  # type: ignore[assignment,return-value]
    collect_run.environment = collect_run.code_version = dict
    told = []
    for name, make in TARGETS.items():
        target, place = make(), folder / "counted"
        target.before(place)
        end, n_steps, _ = forked(target.work, place)
        assert end == DONE and n_steps > 3, (name, end, n_steps)
        shutil.rmtree(place)
        for seed in range(n_rounds):
            place = folder / f"{name} {seed}"
            try:
                outcome = attacked(target, place, seed, n_steps)
            except AssertionError as error:
                outcome = f"FAILED: {str(error) or traceback.format_exc()[-400:]}"
            told.append([name, seed, n_steps, outcome])
            shutil.rmtree(place, ignore_errors=True)
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

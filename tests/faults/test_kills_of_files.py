"""Kills and full disks while files outside of a store are written: reports, saved runs, labels.

After either the file must be the old or the new one, and the same work, done again, must end as if
nothing had happened.
"""

import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import ragscore as rs
from faults.children import Steps, chance, start
from faults.size import times
from ragscore.io.files import write_text

pytestmark = pytest.mark.slow

Tell = Callable[[str], object]


def content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def names_in(folder: Path) -> list[str]:
    """Return the names of all files but those that a killed writer didn't finish."""
    return sorted(file.name for file in folder.iterdir() if file.suffix != ".staging")


OLD, NEW = "old\n" * 700, "näw\n" * 900


class Report:
    """A text written over an older one."""

    size = len(NEW.encode())

    def before(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "report.md").write_text(OLD)

    def work(self, folder: Path, tell: Tell) -> None:
        write_text(folder / "report.md", NEW)

    def check(self, folder: Path, told: list[str], is_refused: bool) -> None:
        found = content(folder / "report.md")
        assert found in ([OLD.encode()] if is_refused else [OLD.encode(), NEW.encode()])

    def check_done(self, folder: Path) -> None:
        assert content(folder / "report.md") == NEW.encode()
        assert names_in(folder) == ["report.md"]


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

    def check(self, folder: Path, told: list[str], is_refused: bool) -> None:
        name, described = self._names(folder)
        assert described in (name, None), f"records of {name} described as {described}"
        assert not is_refused or (name, described) == ("old", "old")

    def check_done(self, folder: Path) -> None:
        assert self._names(folder) == ("new", "new")
        assert names_in(folder) == ["per_query.jsonl", "run.json"]


class Labels(Report):
    """Labels of a sheet: what `add_labels` returned from is in the file."""

    n_queries, size = 6, 400

    def before(self, folder: Path) -> None:
        folder.mkdir()
        rows = [f"- id: q{n}\n  query: question {n}\n" for n in range(self.n_queries)]
        (folder / "golden.yaml").write_text("# made by hand\n" + "".join(rows))

    def work(self, folder: Path, tell: Tell) -> None:
        ids = [f"q{n}" for n in range(self.n_queries)]
        hits = [{"run_id": "r", "query_id": one, "rank": 1, "doc_id": "d1"} for one in ids]
        results = rs.Results(
            runs=pd.DataFrame([{"run_id": "r"}]),
            responses=pd.DataFrame([{"run_id": "r", "query_id": i, "query": i} for i in ids]),
            hits=pd.DataFrame(hits),
        )
        sheet = rs.label_sheet(results, folder / "golden.yaml", level="doc")
        for n in range(self.n_queries):
            rs.add_labels(
                folder / "golden.yaml", sheet[sheet["query_id"].eq(f"q{n}")].assign(grade=1)
            )
            tell(f"written q{n} d1")

    def _labels(self, folder: Path) -> dict[str, set[str]]:
        rows = yaml.safe_load((folder / "golden.yaml").read_text())
        return {row["id"]: set(row.get("expected_doc_ids", [])) for row in rows}

    def check(self, folder: Path, told: list[str], is_refused: bool) -> None:
        labels = self._labels(folder)
        clicked = [line.split()[1:] for line in told if line.startswith("written")]
        assert len(labels) == self.n_queries
        assert all(doc in labels[name] for name, doc in clicked), f"lost: {clicked} {labels}"
        assert sum(map(len, labels.values())) <= len(clicked) + 1
        backup = content(folder / "golden.yaml.bak")
        assert backup is None or (b"doc" not in backup and backup.count(b"- id") == len(labels))

    def check_done(self, folder: Path) -> None:
        assert self._labels(folder) == {f"q{n}": {"d1"} for n in range(self.n_queries)}
        assert all(name.startswith("golden.yaml") for name in names_in(folder))
        assert (folder / "golden.yaml").read_text().startswith("# made by hand\n")


def attempt(
    target: Report, folder: Path, last: int | None = None, room: int | None = None
) -> tuple[Any, list[str]]:
    """Work in a process that is killed after so many steps, or may write no file beyond a size.

    Return the number of steps, None of one that was killed or its error; and what it told.
    """
    read, into = os.pipe()
    write = os.write

    def work() -> int:
        if room is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        counted = Steps(last)
        target.work(folder, lambda text: write(into, f"{text}\n".encode()))
        return counted.n

    end = start(work).answer()
    os.close(into)
    with os.fdopen(read) as pipe:
        return end, pipe.read().splitlines()


@pytest.mark.parametrize("make", [Report, SavedRun, Labels])
def test_a_file_is_the_old_or_the_new_one_whatever_ends_its_writer(make, tmp_path):
    target = make()
    target.before(tmp_path / "counted")
    n_steps, _ = attempt(target, tmp_path / "counted")
    assert isinstance(n_steps, int) and n_steps > 3, n_steps
    for seed in range(times(6)):
        folder, drawn = tmp_path / str(seed), chance(seed)
        target.before(folder)
        if seed % 3:
            end, told = attempt(target, folder, last=drawn.randrange(n_steps))
            assert end is None, end
        else:
            end, told = attempt(target, folder, room=drawn.randrange(target.size))
            assert isinstance(end, int) or (end.startswith("DataError") and str(folder) in end), end
        target.check(folder, told, isinstance(end, str))
        again, _ = attempt(target, folder)
        assert isinstance(again, int), f"seed {seed}: {again}"
        target.check_done(folder)

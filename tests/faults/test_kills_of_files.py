"""Kills while files outside of a store are written: saved runs, labels.

After one the file must be the old or the new one, and the same work, done again, must end as if
nothing had happened.
"""

import json
import os
from pathlib import Path
from random import Random

import pandas as pd
import pytest
import yaml
from conftest import times

import ragscore as rs
from faults.children import Steps, start

pytestmark = pytest.mark.slow


def names_in(folder):
    """Return the names of all files but those that a killed writer didn't finish."""
    return {file.name for file in folder.iterdir() if file.suffix != ".staging"}


def run_of(name, n):
    responses = pd.DataFrame(
        {"run_id": name, "query_id": [f"q{one}" for one in range(n)], "query": f"{name} asks"}
    )
    return rs.Results(runs=pd.DataFrame({"run_id": [name]}), responses=responses)


class SavedRun:
    """A run saved over another: its records and its description belong together."""

    files = ("per_query.jsonl", "run.json")

    def before(self, folder):
        run_of("old", 20).save(folder / "per_query.jsonl")

    def work(self, folder, tell):
        run_of("new", 30).save(folder / "per_query.jsonl")
        tell("done")

    def check(self, folder, told):
        lines = (folder / "per_query.jsonl").read_text().splitlines()
        (name,) = {json.loads(line)["query"].split()[0] for line in lines}
        assert len(lines) == {"old": 20, "new": 30}[name]
        file = folder / "run.json"
        described = json.loads(file.read_bytes())["run_id"] if file.exists() else None
        assert described in (name, None), f"records of {name} described as {described}"
        assert not told or (name, described) == ("new", "new")


class Labels:
    """Labels of a sheet: what `add_labels` returned from is in the file."""

    n_queries, files = 3, ("golden.yaml", "golden.yaml.bak")

    def before(self, folder):
        folder.mkdir()
        rows = [f"- id: q{n}\n  query: question {n}\n" for n in range(self.n_queries)]
        (folder / "golden.yaml").write_text("# made by hand\n" + "".join(rows))

    def work(self, folder, tell):
        file, found = folder / "golden.yaml", run_of("r", self.n_queries)
        hits = found.responses[["run_id", "query_id"]].assign(rank=1, doc_id="d1")
        results = rs.Results(found.runs, found.responses, hits)
        for name, part in rs.label_sheet(results, file, level="doc").groupby("query_id"):
            rs.add_labels(file, part.assign(grade=1))
            tell(name)
        tell("done")

    def check(self, folder, told):
        text = (folder / "golden.yaml").read_text()
        assert text.startswith("# made by hand\n")
        rows = yaml.safe_load(text)
        labels = {row["id"]: row.get("expected_doc_ids", []) for row in rows}
        clicked = list(labels) if "done" in told else told
        assert len(labels) == self.n_queries
        assert all(labels[name] == ["d1"] for name in clicked), f"lost: {clicked} {labels}"
        assert sum(map(len, labels.values())) <= len(clicked) + 1
        if (backup := folder / "golden.yaml.bak").exists():
            text = backup.read_text()
            assert "doc" not in text and text.count("- id") == len(labels)


def attempt(target, folder: Path, last: int | None = None):
    """Work in a process that is killed after so many steps.

    Return the number of steps, None of one that was killed or its error; and what it told.
    """
    read, into = os.pipe()
    write = os.write

    def work() -> int:
        counted = Steps(last)
        target.work(folder, lambda text: write(into, f"{text}\n".encode()))
        return counted.n

    end = start(work).answer()
    os.close(into)
    with os.fdopen(read) as pipe:
        return end, pipe.read().splitlines()


@pytest.mark.parametrize("make", [SavedRun, Labels])
def test_a_file_is_the_old_or_the_new_one_whenever_its_writer_is_killed(make, tmp_path):
    target = make()
    target.before(tmp_path / "counted")
    n_steps, _ = attempt(target, tmp_path / "counted")
    assert isinstance(n_steps, int) and n_steps > 3, n_steps
    for seed in range(times(4)):
        folder = tmp_path / str(seed)
        target.before(folder)
        end, told = attempt(target, folder, last=Random(seed).randrange(n_steps))
        assert end is None, end
        target.check(folder, told)
        again, told = attempt(target, folder)
        assert isinstance(again, int) and "done" in told, f"seed {seed}: {again}"
        target.check(folder, told)
        assert names_in(folder) == set(target.files)

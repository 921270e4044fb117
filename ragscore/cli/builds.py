"""A gate in a build: where its baseline is, how old it is, and the files that a build keeps.

In: `store://DIR#RUN`, `git:REF:PATH`, or a file, and a gate. Out: the runs of the baseline, a line
about it, and a folder with comment, JSON, JUnit XML, report and explorer.
"""

import io
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import pandas as pd

from ragscore.analysis.comparison.gate import Gate
from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import plural
from ragscore.frames.escaping import markdown_line
from ragscore.frames.tables import Table
from ragscore.io.load import load_results
from ragscore.io.output import write_text
from ragscore.scoring.provenance import judge_fingerprint
from ragscore.store.store import RunStore

STORE, GIT = "store://", "git:"
MARK = "<!-- ragscore gate -->"
"""First line of the comment, by which the next build finds and replaces it."""
WAYS = "store://DIR, store://DIR#RUN (or a system: its newest run), git:REF:PATH"


def is_elsewhere(name: str) -> bool:
    """Tell if a run is named by where it lies, and not by its file."""
    return name.startswith((STORE, GIT))


def fetched(name: str) -> Results:
    """Return the run that lies in a store, or in a file of another commit.

    Of a store the newest run, or the newest of a system.

    Raises
    ------
    DataError
        No such store, run, commit or file.
    """
    if name.startswith(STORE):
        folder, _, wanted = name.removeprefix(STORE).partition("#")
        if not Path(folder).is_dir():
            raise DataError("no such folder", file=folder, field="baseline", allowed=WAYS)
        store = RunStore(folder)
        runs = store.runs()  # oldest first
        is_wanted = runs["run_id"].astype("str").eq(wanted)
        if "system" in runs:
            is_wanted |= runs["system"].astype("str").eq(wanted)
        rows = runs[is_wanted.to_numpy()] if wanted else runs
        if not len(rows):
            raise DataError(
                f"no run {wanted!r} in the store" if wanted else "the store is empty",
                file=folder, field="baseline", allowed=WAYS,
            )  # fmt: skip
        return store.load([str(rows["run_id"].iloc[-1])])
    ref, has_path, path = name.removeprefix(GIT).partition(":")
    if not (ref and has_path and path) or ref.startswith("-"):
        raise DataError(f"found {name!r}", field="baseline", allowed=WAYS)
    done = subprocess.run(
        ["git", "archive", "--format=tar", ref, "--", path], capture_output=True, check=False
    )
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
        raise DataError(
            told[-1], file=name, field="baseline",
            allowed="a commit or branch that is fetched, and a path in it",
        )  # fmt: skip
    with TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(folder, filter="data")
        return load_results(Path(folder) / path)


def about_baseline(
    results: Results, baseline: str, golden: Golden | None, *, may_differ: bool = False
) -> str:
    """Say how old the baseline is, on which golden set it ran and which judges it had.

    Raises
    ------
    DataError
        It ran on another golden set, and none may differ.
    """
    row = results.runs.set_index(results.runs["run_id"].astype("str")).loc[baseline]
    told = []
    made = pd.Timestamp(row.get("created_at"))  # type: ignore[arg-type]
    if pd.isna(made):
        told.append("its age isn't known (no created_at)")
    else:
        days = max((pd.Timestamp.now(tz="UTC") - made.tz_convert("UTC")).days, 0)
        told.append(f"made {made:%Y-%m-%d}, {days} day{'s' * (days != 1)} ago")
    known = row.get("golden_hash")
    if golden is not None and isinstance(known, str) and known:
        is_same = known == golden.golden_hash
        if not (is_same or may_differ):
            raise DataError(
                f"the baseline {baseline} ran on golden set {known}, this is {golden.golden_hash}",
                field="baseline",
                allowed="a baseline of this golden set; --allow-different golden",
            )
        told.append(f"golden set {known[:8]}, {'this one' if is_same else 'another one'}")
    else:
        told.append("its golden set isn't recorded")
    judges = str(judge_fingerprint(results).get(baseline, "") or "")
    told.append(f"judged by {judges}" if judges else "no judge")
    return f"Baseline {baseline}: {'; '.join(told)}."


def comment(found: Gate, about: str, link: str | None) -> str:
    """Return the comment of a build: the answer, the primary metrics, the queries to read first."""
    worst = found.regressions
    table = Table(found.shown()).to_markdown()
    parts = [MARK, f"## {markdown_line(found.headline())}", about, table]
    if len(worst):
        parts.append(f"### The {plural(len(worst), 'query')} that lost most")
        lines = [
            f"- {_named(row, link)}: {row['outcome']}, rank {row['rank_baseline']} →"
            f" {row['rank_candidate']}; {markdown_line(str(row['query']))}"
            for row in worst.to_dict("records")
        ]
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, *found.notes()]) + "\n"


def _named(row: dict[Any, Any], link: str | None) -> str:
    """Return a query's id, with a link to it in the explorer."""
    name = markdown_line(str(row["query_id"]))
    return name if link is None else f"[{name}]({link}#x.q={quote(str(row['query_id']), safe='')})"


def write_files(
    folder: str, found: Gate, cmp: Comparison, about: str, link: str | None
) -> list[Path]:
    """Write what a build keeps: comment.md, gate.json, junit.xml, report.html, explorer.html."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    written = [
        write_text(out / "comment.md", comment(found, about, link)),
        write_text(out / "gate.json", found.to_json()),
        write_text(out / "junit.xml", found.to_junit()),
    ]
    verbs: Any = cmp
    verbs.report(out / "report.html")
    return [*written, out / "report.html", verbs.explore().write(out / "explorer.html")]

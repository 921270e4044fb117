"""A gate in a build: what is known of its baseline, and the files that a build keeps."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from ragscore.analysis.comparison.gate import Gate
from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import plural
from ragscore.frames.escaping import markdown_line
from ragscore.frames.tables import Table
from ragscore.io.files import write_text
from ragscore.scoring.provenance import judge_fingerprint

MARK = "<!-- ragscore gate -->"
"""First line of the comment, by which the next build finds and replaces it."""


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

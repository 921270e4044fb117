"""`Report`: frames with their forms, HTML, Markdown and JSON."""

import json
from dataclasses import dataclass
from pathlib import Path

from ragscore.frames.data import DataError
from ragscore.frames.errors import plural
from ragscore.frames.render import dump
from ragscore.frames.tables import Display, Table
from ragscore.io.output import write_text
from ragscore.plot.style import all_runs
from ragscore.reporting.explorer.element import element
from ragscore.reporting.frames import ReportFrames
from ragscore.reporting.page import to_html, to_markdown
from ragscore.reporting.sections import explored, run_ids, sections
from ragscore.reporting.summary import summary_of

# where no script runs
SHOWN_COMPARISONS = 5  # in a notebook's form
PLAIN = "<p>Single queries are shown by a script. The sections below need none.</p>"


@dataclass(frozen=True, repr=False)
class Report(Display, ReportFrames):
    """The content of a page as frames; equal frames give equal pages, to the byte.

    Attributes
    ----------
    runs
        One row per run, oldest first: what it is (system, created_at, note, k, ...) and
        `n_queries`, `n_failed`, `n_missing`.
    config
        One row per config key and run that has it: `value` as JSON text, `differs` where not all
        runs have the same.
    summary
        `ev.summary` of these runs.
    reported
        `results.reported_summary()` of the runs without rows; empty where all have rows.
    slices
        One row per `by`, `slice`, run and metric, with the columns of `summary`: hit@5, mrr@10
        and passed, or three headline metrics where none of these was measured.
    leaderboard
        `ev.leaderboard` of several runs.
    gates
        One `cmp.gate` per comparison where losses were declared, in their order.
    trends
        `store.trend` of hit@5, mrr@10 and passed, one below the other.
    decisions, quality
        `Refusals.table` and `Refusals.quality`; empty where no run says whether it refused.
    faults
        `Failures.table`.
    transitions
        One row per comparison (`run_baseline`, `run_candidate`), cause in the `baseline` and in the
        `candidate`: `n` queries.
    curve
        `RiskCoverage.curve`, and `right_by`, what says that an answer is right.
    read_first
        One row per query most worth reading (`query_id`, `query`, `outcome`, `why`): the worst
        regressions of the newest comparison, else its largest losses, else answers to queries that
        should be refused; of a run alone its worst queries.
    primary
        The metrics that decide.
    declared
        Direction and range of columns of your own, as the evaluation had them declared.
    explorer
        The content of the explorer, packed: of the newest comparison, or of a run alone. Empty for
        a comparison from JSON.
    comparisons
        Of the newest run with the one before it; or of all with one baseline, newest first.
    order
        All runs of the evaluation: their order gives each its colour and its marker.
    left_out
        One row per part that there is no data for: `part`, `why`.
    """

    def to_html(self, *, alone: bool = True) -> str:
        """Return one HTML page that needs no other file.

        What the runs decide first, then the newest comparison, the explorer of single queries, and
        sections that fold. Style, figures and scripts are inside; every text is
        escaped.
        """
        if not alone:
            return super().to_html(alone=False)
        code = "cmp" if self.comparisons else "ev"
        mounted = element(self.explorer, code=code, plain=PLAIN) if self.explorer else None
        with all_runs(self.order):  # as in the evaluation's plots
            return to_html(
                self.title, sections(self), summary_of(self), mounted, explored(self),
                run_ids(self),
            )  # fmt: skip

    def to_markdown(self) -> str:
        """Return the same as Markdown, without figures and the explorer; tables have all rows."""
        return to_markdown(self.title, sections(self), summary_of(self))

    def to_json(self) -> str:
        """Return the frames as JSON, NaN as null."""
        board = None if self.leaderboard is None else json.loads(self.leaderboard.to_json())
        return dump(
            self,
            comparisons=[json.loads(one.to_json(own=True)) for one in self.comparisons],
            leaderboard=board,
        )

    def write(self, path: str | Path) -> Path:
        """Write the form that the file's ending names: .html, .md or .json.

        Raises
        ------
        DataError
            Another ending, or the file can't be written; an older one is then as it was.
        """
        file = Path(path)
        forms = {
            ".html": self.to_html,
            ".htm": self.to_html,
            ".md": self.to_markdown,
            ".json": self.to_json,
        }
        if file.suffix.lower() not in forms:
            raise DataError(
                f"found {file.suffix or 'no ending'!r}",
                file=file,
                field="path",
                allowed="a name that ends in .html, .md or .json",
            )
        return write_text(file, forms[file.suffix.lower()]())

    def _parts(self) -> list[str | Table]:
        lines = [
            f"{one.candidate} against {one.baseline}: {one.overall}"
            for one in self.comparisons[:SHOWN_COMPARISONS]
        ]
        more = len(self.comparisons) - len(lines)
        lines += [f"{plural(more, 'more comparison')}: .comparisons"] if more > 0 else []
        lines += [gate.headline() for gate in self.gates]
        holds = f"{plural(len(self.runs), 'run')}, {plural(len(self.comparisons), 'comparison')}"
        way = ".write('report.html') writes the page; .md and .json, too"
        return [f"Report: {self.title} ({holds})", *lines, way]

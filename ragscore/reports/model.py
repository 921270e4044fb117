"""`Report`: the frames that a page is written from, and its forms."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ragscore.comparison import Comparison
from ragscore.frame_json import dump, reload
from ragscore.frames import DataError
from ragscore.profiles import Profile
from ragscore.reports.markdown import to_markdown
from ragscore.reports.page import to_html
from ragscore.reports.sections import sections


@dataclass(frozen=True)
class Report:
    """What a page says, as frames; the same frames always give the same page, to the byte.

    Attributes
    ----------
    runs
        One row per run, oldest first: what it is (system, created_at, note, k, ...) and `n_queries`, `n_failed`, `n_missing`.
    config
        One row per config key and run that has it: `value` as JSON text, `differs` where not all runs have the same.
    summary
        `rs.summarize` of these runs.
    slices
        One row per `by`, `slice`, run and headline metric, with the columns of `summary`.
    decisions
        `rs.refusal_table`; empty where no run says whether it refused.
    answers
        One row per run and query of those that changed: answer, refused, error.
    comparisons
        Of each run with the one before it, or with one baseline; newest first.
    """

    title: str
    runs: pd.DataFrame
    config: pd.DataFrame
    summary: pd.DataFrame
    slices: pd.DataFrame
    decisions: pd.DataFrame
    answers: pd.DataFrame
    comparisons: tuple[Comparison, ...] = ()

    def to_html(self) -> str:
        """One page that needs nothing else: style, figures and the script that sorts its tables are inside, every text is escaped."""
        return to_html(self.title, sections(self))

    def to_markdown(self) -> str:
        """The same sections and tables as Markdown, without figures and answers."""
        return to_markdown(self.title, sections(self))

    def to_json(self) -> str:
        """The frames as JSON, NaN as null; `from_json` reloads it."""
        return dump(self, comparisons=[json.loads(one.to_json(own=True)) for one in self.comparisons])

    @classmethod
    def from_json(cls, text: str, profile: Profile | None = None) -> "Report":
        """The report that `to_json` wrote.

        Parameters
        ----------
        profile
            As for `Comparison.from_json`.

        Raises
        ------
        DataError
            No JSON, or not that of a report.
        """
        return reload(cls, text, comparisons=lambda parts: tuple(Comparison.from_json(json.dumps(one), profile) for one in parts))

    def write(self, path: str | Path) -> Path:
        """Write the form that the file's ending names: .html, .md or .json.

        Raises
        ------
        DataError
            Another ending.
        """
        file = Path(path)
        forms = {".html": self.to_html, ".htm": self.to_html, ".md": self.to_markdown, ".json": self.to_json}
        if file.suffix.lower() not in forms:
            raise DataError(f"found {file.suffix or 'no ending'!r}", file=file, field="path", allowed="a name that ends in .html, .md or .json")
        file.write_text(forms[file.suffix.lower()](), encoding="utf-8", newline="\n")
        return file

    def __repr__(self) -> str:
        return f"Report: {self.title} ({len(self.runs)} runs, {len(self.comparisons)} comparisons); .write('report.html')"

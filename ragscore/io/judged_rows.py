"""Judged documents of questions -> `Golden`.

What every format of relevance judgements (qrels) shares.
"""

import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, from_records
from ragscore.io.golden_read import check_catalogue
from ragscore.io.source import Problems

HIGHEST = 2**31 - 1
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


@dataclass
class Judged:
    """Questions and their judged documents while a file is read.

    Attributes
    ----------
    queries
        Id of each question -> the other columns of its row.
    grades
        Its documents and their grades, in file order.
    lines
        The line of each judgement, where judgements stand on lines of their own.
    """

    queries: dict[str, dict[str, Any]] = field(default_factory=dict)
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    n_negative: int = 0
    n_repeated: int = 0

    def add(self, query_id: str, doc_id: str, grade: int, line: int, problems: Problems) -> None:
        """One judgement on a line of its own.

        A negative grade means "not judged"; the same judgement again adds nothing.
        """
        known = self.grades.setdefault(query_id, {})
        if grade < 0:
            self.n_negative += 1
        elif doc_id not in known:
            known[doc_id] = grade
            self.lines[query_id, doc_id] = line
        elif known[doc_id] == grade:
            self.n_repeated += 1
        else:
            found = (
                f"{doc_id!r} has grade {grade} here and {known[doc_id]} on line"
                f" {self.lines[query_id, doc_id]} for query {query_id!r}"
            )
            problems.add(
                found, line=line, field="grade", allowed="one grade per query and document"
            )

    def golden(
        self, problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None
    ) -> Golden:
        """The frames.

        A question without a relevant document is unlabelled, unless `absent_docs` says that it
        should be refused.
        """
        self._say_what_is_left_out(problems)
        otherwise = False if absent_docs == "refuse" else None
        queries, targets = [], []
        for position, (query_id, more) in enumerate(self.queries.items()):
            grades = self.grades.get(query_id, {})
            answerable = True if any(grade > 0 for grade in grades.values()) else otherwise
            queries.append(
                {
                    "query_id": query_id,
                    "query": query_id,
                    "answerable": answerable,
                    "position": position,
                    **more,
                }
            )
            targets += [
                {
                    "query_id": query_id,
                    "level": "doc",
                    "target_id": doc_id,
                    "alternative": 0,
                    "grade": grade,
                    "doc_id": doc_id,
                }
                for doc_id, grade in grades.items()
            ]
        if catalogue is not None:
            check_catalogue(targets, catalogue, problems)
        return Golden(
            queries=from_records(queries, "queries"),
            targets=from_records(targets, "targets"),
            problems=problems.frame(),
        )

    def _say_what_is_left_out(self, problems: Problems) -> None:
        for n, found in (
            (
                self.n_negative,
                (
                    "judgements with a negative grade are left out: those documents count as not"
                    " judged"
                ),
            ),
            (self.n_repeated, "judgements that stand there twice count once"),
        ):
            if n:
                problems.note(f"{n} {found}", field="grade")
                # where load_golden was called
                warnings.warn(f"{problems.file}: {n} {found}", UserWarning, stacklevel=5)


def as_grade(text: str) -> int | None:
    """A grade as written in a table: a whole number, possibly negative; None for anything else."""
    return int(text) if _WHOLE.fullmatch(text) and abs(int(text)) <= HIGHEST else None

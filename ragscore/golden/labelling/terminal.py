"""Labelling in a terminal: the same session, with clicks typed as words.

In: a session and lines of input, typed or from a file. Out: text to show, line by line.
"""

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.escaping import visible
from ragscore.golden.labelling.session import FILTERS, LabelConflict, LabelSession

HELP = """\
1 4        hits 1 and 4 support the answer; again: they don't (their labels are taken away)
2=3 5=0    hit 2 answers it exactly (grade 3), hit 5 does not help (grade 0)
x          nothing answers it: a system should refuse; again: take that back
w 2 words  add words of hit 2 by which its label finds it again
new text   write a new golden query made from this one
n, p       next query, previous one (an empty line is n)
g id       go to a query
f filter   stop only at: {filters}
near       high-ranked hits without a label, in all labelled queries
u          take the last change back
l          show the query again
q          quit (everything is saved already)"""
LINES = 6  # of a hit's text
_GRADED = re.compile(r"(\d+)(?:=([0-3]))?")
Output = Callable[[str], None]


def label_in_terminal(
    session: LabelSession, lines: Iterable[str], output: Output = print, *, width: int | None = None
) -> None:
    """Show the session's queries and follow each line, until `q` or the end of the lines.

    A line that can't be followed changes nothing.
    """
    columns = width or shutil.get_terminal_size((100, 24)).columns

    def say(text: str) -> None:
        output(visible(text))

    say(_query(session, columns))
    for line in lines:
        command = line.strip()
        if command in ("q", "quit"):
            break
        before = session.query_id
        try:
            shown = _do(session, command or "n", columns)
        except (DataError, OSError) as error:
            shown = f"not written: {error}" + (
                f"\n{error.changed.to_string(index=False)}"
                if isinstance(error, LabelConflict)
                else ""
            )
        if shown is None:
            shown = session.message
            if session.query_id != before or command in ("l", ""):
                shown = "\n".join(part for part in (shown, _query(session, columns)) if part)
        say(shown)
    done, total = session.progress
    say(f"{done} of {total} labelled in {session.file.path}")


def _do(session: LabelSession, command: str, width: int) -> str | None:
    """Follow a line; return text to show, or None if the session's message tells it."""
    word, _, rest = command.partition(" ")
    plain: dict[str, Callable[[], None]] = {
        "n": session.next, "p": session.previous, "u": session.undo, "l": session.refresh,
        "x": lambda: session.refuse(session.state != "should refuse"),
    }  # fmt: skip
    if command in plain:
        plain[command]()
    elif word == "g":
        session.go(rest.strip())
    elif word == "f":
        session.show(rest.strip())
    elif word == "new":
        session.add_question(rest)
    elif word == "w" and rest.partition(" ")[0].isdecimal():
        number, _, words = rest.partition(" ")
        session.add_snippet(int(number), words)
    elif command == "near":
        rows = [
            f"{row['query_id']}  rank {row['best_rank']} in {row['n_runs']} runs "
            f" {row.get('path') or row.get('doc_id')}"
            for row in session.near_misses().to_dict("records")
        ]
        return "\n".join(rows or ["none: every high-ranked hit of a labelled query is judged"])
    elif marks := _marks(command):
        messages = []
        for hit, grade in marks:
            session.toggle(hit, grade)
            messages.append(session.message)
        return "\n".join(messages)
    else:
        return HELP.format(filters=", ".join(FILTERS))
    return None


def _marks(command: str) -> list[tuple[int, int]]:
    """Return hits with their grades; none if the line is another command."""
    found = [_GRADED.fullmatch(word) for word in re.split(r"[\s,]+", command)]
    return [(int(one[1]), int(one[2] or 1)) for one in found if one] if all(found) else []


def _query(session: LabelSession, width: int) -> str:
    done, total = session.progress
    head = (
        f"── {session.query_id} · {session.state} · {done} of {total} labelled · {session.filter}"
    )
    parts = [head, textwrap.fill(session.query, width)]
    if session.note:
        parts.append(textwrap.fill(f"reference answer: {session.note}", width))
    if session.unmet:
        parts.append(
            textwrap.fill(f"expected, but none of these hits: {', '.join(session.unmet)}", width)
        )
    hits = [_hit(hit, width) for _, hit in session.hits.iterrows()]
    return "\n".join([*parts, *(hits or ["no run was asked this query"])])


def _hit(hit: "pd.Series", width: int) -> str:
    mark = " " if pd.isna(hit["grade"]) else "✘" if hit["grade"] == 0 else "✔"
    place = " › ".join(
        str(hit[name]) for name in ("path", "heading") if name in hit and isinstance(hit[name], str)
    ) or str(hit.get("doc_id"))
    grade = f" · grade {hit['grade']}" if not pd.isna(hit["grade"]) and hit["grade"] > 1 else ""
    labels = f" · {hit['labels']}" if hit["labels"] and pd.isna(hit["own_grade"]) else ""
    head = f"{mark} {hit['number']:>2}  {place} · {hit['found']}{grade}{labels}"
    text = hit["text"] if isinstance(hit["text"], str) else ""
    body = textwrap.wrap(" ".join(text.split()), width - 6, max_lines=LINES, placeholder=" …")
    return "\n".join([head, *(f"      {line}" for line in body)])

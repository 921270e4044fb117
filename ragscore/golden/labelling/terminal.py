"""The labelling loop in a terminal: the same session, clicks typed as words.

Reads lines, so a file of them does as well as a person.

In: a session and lines of input. Out: what a person should see, line by line.
"""

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.golden.labelling.session import FILTERS, LabelConflict, LabelSession

HELP = """\
1 4        hits 1 and 4 support the answer; again: they don't (their labels are taken away)
2=3 5=0    hit 2 answers it exactly (grade 3), hit 5 does not help (grade 0)
x          nothing answers it: a system should refuse; again: take that back
w 2 words  add words of hit 2 by which its label finds it again
new text   write a new golden question made from this one
n, p       next question, previous one (an empty line is n)
g id       go to a question
f filter   stop only at: {filters}
near       high-ranked hits without a label, in all labelled questions
u          take the last change back
l          show the question again
q          quit (everything is saved already)"""
LINES = 6  # of a hit's text
_GRADED = re.compile(r"(\d+)(?:=([0-3]))?")
Say = Callable[[str], None]


def label_in_terminal(
    session: LabelSession, lines: Iterable[str], say: Say = print, *, width: int | None = None
) -> None:
    """Show the session's queries and do what each line says, until `q` or the end of the lines.

    A line that can't be done changes nothing.
    """
    columns = width or shutil.get_terminal_size((100, 24)).columns
    say(_question(session, columns))
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
                shown = "\n".join(part for part in (shown, _question(session, columns)) if part)
        say(shown)
    done, total = session.progress
    say(f"{done} of {total} labelled in {session.file.path}")


def _do(session: LabelSession, command: str, width: int) -> str | None:
    """What a line says; text to show, or None where the session's message tells it."""
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
        return _near(session)
    elif marks := _marks(command):
        return _marked(session, marks)
    else:
        return HELP.format(filters=", ".join(FILTERS))
    return None


def _marks(command: str) -> list[tuple[int, int]]:
    """Hits and their grades; none where the line is something else."""
    found = [_GRADED.fullmatch(word) for word in re.split(r"[\s,]+", command)]
    return [(int(one[1]), int(one[2] or 1)) for one in found if one] if all(found) else []


def _marked(session: LabelSession, marks: list[tuple[int, int]]) -> str:
    told = []
    for number, grade in marks:
        session.toggle(number, grade)
        told.append(session.message)
    return "\n".join(told)


def _question(session: LabelSession, width: int) -> str:
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
    return "\n".join([*parts, *(hits or ["no run was asked this question"])])


def _hit(hit: "pd.Series", width: int) -> str:
    mark = " " if pd.isna(hit["grade"]) else "✘" if hit["grade"] == 0 else "✔"
    place = " › ".join(
        str(hit[name]) for name in ("path", "heading") if name in hit and isinstance(hit[name], str)
    ) or str(hit.get("doc_id"))
    grade = f" · grade {hit['grade']}" if not pd.isna(hit["grade"]) and hit["grade"] > 1 else ""
    said = f" · {hit['labels']}" if hit["labels"] and pd.isna(hit["own_grade"]) else ""
    head = f"{mark} {hit['number']:>2}  {place} · {hit['found']}{grade}{said}"
    text = hit["text"] if isinstance(hit["text"], str) else ""
    body = textwrap.wrap(
        " ".join(_printable(text).split()), width - 6, max_lines=LINES, placeholder=" …"
    )
    return "\n".join([_printable(head), *(f"      {line}" for line in body)])


def _near(session: LabelSession) -> str:
    found = session.near_misses()
    rows = [
        f"{row['query_id']}  rank {row['best_rank']} in {row['n_runs']} runs "
        f" {row.get('path') or row.get('doc_id')}"
        for row in found.to_dict("records")
    ]
    return "\n".join(
        [_printable(row) for row in rows]
        or ["none: every high-ranked hit of a labelled question is judged"]
    )


def _printable(text: str) -> str:
    """The text without characters that would steer a terminal."""
    return "".join(one if one.isprintable() or one in "\n\t" else "�" for one in text)

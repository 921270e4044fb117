"""What the label panel shows, as HTML without scripts: every text that comes from files is escaped."""

import re
from html import escape

import pandas as pd

from ragscore.golden.labelling.session import LabelConflict, LabelSession

GRADES = {
    1: ("✔ supports", "supports the answer (grade 1)"),
    2: ("2 well", "answers it well (grade 2)"),
    3: ("3 exactly", "answers it exactly (grade 3)"),
    0: ("✘ no", "judged: does not help (grade 0)"),
}
MARKS = {"labelled": "✔", "should refuse": "∅", "unlabelled": "·", "not in the file": "+"}
_COLOURS = {
    "labelled": "#00785a",
    "should refuse": "#7a4fa3",
    "unlabelled": "#8a5a00",
    "not in the file": "#555",
}
_TEXT = "white-space:pre-wrap;overflow-wrap:anywhere;max-height:9.5em;overflow-y:auto;line-height:1.4;margin-top:3px"
_CHIP = (
    "display:inline-block;border-radius:9px;padding:0 8px;color:#fff;font-size:85%;line-height:1.5"
)


def question_html(session: LabelSession) -> str:
    """The question shown, its state, and what is expected but not among its hits."""
    state = session.state
    chip = f'<span style="{_CHIP};background:{_COLOURS[state]}">{MARKS[state]} {state}</span>'
    parts = [
        f'<div style="font-size:135%;line-height:1.35;margin:2px 0">{escape(session.query)}</div>'
    ]
    if session.note:
        parts.append(
            '<div style="opacity:.8;line-height:1.4">Reference answer:'
            f" {escape(session.note)}</div>"
        )
    if session.unmet:
        parts.append(
            '<div style="opacity:.8;line-height:1.4">Expected, but none of these hits:'
            f" {escape(', '.join(session.unmet))}</div>"
        )
    return (
        f'<div class="ragscore-question"><b>{escape(session.query_id)}</b>'
        f" {chip}{''.join(parts)}</div>"
    )


def hit_html(hit: "pd.Series", words: list[str]) -> str:
    """One hit.

    Where it stands, who found it at which rank, what is said of it so far, its text with the words
    of the labels marked.
    """
    place = " › ".join(
        escape(str(hit[name]))
        for name in ("path", "heading")
        if name in hit and isinstance(hit[name], str) and hit[name]
    )
    if not place:
        place = next(
            (
                escape(str(hit[name]))
                for name in ("doc_id", "chunk_id")
                if name in hit and isinstance(hit[name], str)
            ),
            "",
        )
    text = hit["text"] if isinstance(hit["text"], str) else ""
    cut = " …" if "text_cut" in hit and not pd.isna(hit["text_cut"]) and hit["text_cut"] else ""
    body = _highlighted(text, words) + cut if text else '<i style="opacity:.7">no text was kept</i>'
    said = (
        f'<span style="opacity:.75"> · {escape(hit["labels"])}</span>'
        if hit["labels"] and pd.isna(hit["own_grade"])
        else ""
    )
    head = (
        f'<b>{hit["number"]}</b>&ensp;{place}<span style="opacity:.75"> ·'
        f" {escape(hit['found'])}</span>{said}"
    )
    grade = None if pd.isna(hit["grade"]) else int(hit["grade"])
    colour, width = (
        ("transparent", 5) if grade is None else ("#999", 5) if grade == 0 else ("#009e73", 5)
    )
    background = "rgba(0,158,115,.10)" if grade else "transparent"
    style = (
        f"border-left:{width}px solid {colour};background:{background};padding:2px 10px"
        " 6px;line-height:1.4"
    )
    return f'<div style="{style}"><div>{head}</div><div style="{_TEXT}">{body}</div></div>'


def _highlighted(text: str, words: list[str]) -> str:
    """The text escaped, the words of labels marked."""
    wanted = [re.escape(one) for one in sorted(set(words), key=len, reverse=True) if one]
    if not wanted:
        return escape(text)
    pieces = re.split(f"({'|'.join(wanted)})", text, flags=re.IGNORECASE)
    return "".join(
        f'<mark style="background:#ffe9a8">{escape(piece)}</mark>' if place % 2 else escape(piece)
        for place, piece in enumerate(pieces)
    )


def progress_html(session: LabelSession) -> str:
    """How far the labelling is."""
    done, total = session.progress
    share = done / total if total else 0
    bar = f'<div style="width:{share:.1%};height:100%;background:#009e73;border-radius:5px"></div>'
    outer = (
        "<div"
        f' style="width:160px;height:10px;background:rgba(128,128,128,.3);border-radius:5px;display:inline-block;vertical-align:middle">{bar}</div>'
    )
    return f'<div class="ragscore-progress">{outer}&ensp;<b>{done}</b> of {total} labelled</div>'


def status_html(session: LabelSession) -> str:
    """What the last click did."""
    saved = f"saved in {escape(session.file.path.name)}: " if session.file.backup else ""
    return (
        '<div class="ragscore-status"'
        f' role="status">{saved if session.message else ""}{escape(session.message)}&nbsp;</div>'
    )


def error_html(error: Exception) -> str:
    """Why a click was not written; for a conflict, what someone else changed."""
    rows = ""
    if isinstance(error, LabelConflict):
        cells = [
            (row["field"], row["shown"], row["now"]) for row in error.changed.to_dict("records")
        ]
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
            for row in cells
        )
        rows = f"<table><tr><th>field</th><th>was shown</th><th>is now</th></tr>{body}</table>"
    return (
        '<div class="ragscore-status" role="alert" style="color:#b00020"><b>Not written.</b>'
        f" {escape(str(error))}{rows}</div>"
    )

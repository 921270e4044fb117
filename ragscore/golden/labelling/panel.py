"""Labelling panel of a notebook: widgets that show a session and pass clicks on to it.

A click is in the golden file before its mark appears, so a visible mark is never lost. The HTML has
no scripts, and every text from files is escaped.
"""

import re
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.escaping import html_text, visible
from ragscore.golden.labelling.session import FILTERS, LabelConflict, LabelSession

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
_TEXT = (
    "white-space:pre-wrap;overflow-wrap:anywhere;max-height:9.5em;overflow-y:auto;"
    "line-height:1.4;margin-top:3px"
)
_CHIP = (
    "display:inline-block;border-radius:9px;padding:0 8px;color:#fff;font-size:85%;line-height:1.5"
)


def query_html(session: LabelSession) -> str:
    """Return the query shown with its state, and the targets that none of its hits meets."""
    state = session.state
    chip = f'<span style="{_CHIP};background:{_COLOURS[state]}">{MARKS[state]} {state}</span>'
    query = html_text(session.query)
    parts = [f'<div style="font-size:135%;line-height:1.35;margin:2px 0">{query}</div>']
    if session.note:
        parts.append(
            '<div style="opacity:.8;line-height:1.4">Reference answer:'
            f" {html_text(session.note)}</div>"
        )
    if session.unmet:
        parts.append(
            '<div style="opacity:.8;line-height:1.4">Expected, but none of these hits:'
            f" {html_text(', '.join(session.unmet))}</div>"
        )
    return (
        f'<div class="ragscore-query"><b>{html_text(session.query_id)}</b>'
        f" {chip}{''.join(parts)}</div>"
    )


def hit_html(hit: "pd.Series", words: list[str]) -> str:
    """Return one hit: its place, the runs that found it, its labels and its text.

    The words of the labels are highlighted in the text.
    """
    names = ("path", "heading", "doc_id", "chunk_id")
    known = {name: hit[name] for name in names if isinstance(hit.get(name), str)}
    place = " › ".join(known[name] for name in names[:2] if known.get(name))
    place = html_text(place or known.get("doc_id", known.get("chunk_id", "")))
    text = hit["text"] if isinstance(hit["text"], str) else ""
    cut = " …" if "text_cut" in hit and not pd.isna(hit["text_cut"]) and hit["text_cut"] else ""
    body = _highlighted(text, words) + cut if text else '<i style="opacity:.7">no text was kept</i>'
    labels = (
        f'<span style="opacity:.75"> · {html_text(hit["labels"])}</span>'
        if hit["labels"] and pd.isna(hit["own_grade"])
        else ""
    )
    head = (
        f'<b>{hit["number"]}</b>&ensp;{place}<span style="opacity:.75"> ·'
        f" {html_text(hit['found'])}</span>{labels}"
    )
    grade = None if pd.isna(hit["grade"]) else int(hit["grade"])
    colour = "transparent" if grade is None else "#999" if grade == 0 else "#009e73"
    background = "rgba(0,158,115,.10)" if grade else "transparent"
    style = (
        f"border-left:5px solid {colour};background:{background};padding:2px 10px"
        " 6px;line-height:1.4"
    )
    return f'<div style="{style}"><div>{head}</div><div style="{_TEXT}">{body}</div></div>'


def _highlighted(text: str, words: list[str]) -> str:
    """Return the text escaped, with the words of labels highlighted."""
    wanted = [re.escape(one) for one in sorted(set(words), key=len, reverse=True) if one]
    if not wanted:
        return html_text(text)
    pieces = re.split(f"({'|'.join(wanted)})", text, flags=re.IGNORECASE)
    return "".join(
        f'<mark style="background:#ffe9a8">{piece}</mark>' if place % 2 else piece
        for place, piece in enumerate(map(html_text, pieces))
    )


def progress_html(session: LabelSession) -> str:
    """Return the progress of the labelling as a bar."""
    done, total = session.progress
    share = done / total if total else 0
    bar = f'<div style="width:{share:.1%};height:100%;background:#009e73;border-radius:5px"></div>'
    style = (
        "width:160px;height:10px;background:rgba(128,128,128,.3);border-radius:5px;"
        "display:inline-block;vertical-align:middle"
    )
    outer = f'<div style="{style}">{bar}</div>'
    return f'<div class="ragscore-progress">{outer}&ensp;<b>{done}</b> of {total} labelled</div>'


def status_html(session: LabelSession) -> str:
    """Return the result of the last click."""
    saved = f"saved in {html_text(session.file.path.name)}: " if session.file.backup else ""
    return (
        '<div class="ragscore-status"'
        f' role="status">{saved if session.message else ""}{html_text(session.message)}&nbsp;</div>'
    )


def error_html(error: Exception) -> str:
    """Return the reason why a click was not written, with the fields in conflict."""
    rows = ""
    if isinstance(error, LabelConflict):
        cells = error.changed[["field", "shown", "now"]].itertuples(index=False)
        body = "".join(
            "<tr>" + "".join(f"<td>{html_text(str(cell))}</td>" for cell in row) + "</tr>"
            for row in cells
        )
        rows = f"<table><tr><th>field</th><th>was shown</th><th>is now</th></tr>{body}</table>"
    return (
        '<div class="ragscore-status" role="alert" style="color:#b00020"><b>Not written.</b>'
        f" {html_text(str(error))}{rows}</div>"
    )


LONGEST_ENTRY = 90  # characters of a query in the list
_LINE = {"align_items": "center", "flex_flow": "row wrap"}


class LabelPanel:
    """Labelling panel, as `rs.label` returns it; the last value of a cell is shown.

    Attributes
    ----------
    session
        The `LabelSession` behind the panel: queries, hits and near misses as frames.
    widget
        The panel as an ipywidgets box, to be put beside others.
    """

    def __init__(self, session: LabelSession) -> None:
        self.session = session
        self._quiet = False
        self._cards: list[_Card] = []
        self._progress, self._query, self._status = (widgets.HTML() for _ in range(3))
        self._filter = widgets.Dropdown(
            layout={"width": "190px"}, tooltip="which queries to stop at"
        )
        self._list = widgets.Dropdown(layout={"flex": "1 1 300px"}, tooltip="go to a query")
        self._filter.observe(self._on_filter, "value")
        self._list.observe(self._on_query, "value")
        self._undo = _button(
            "↶ undo", "take the last click back", lambda: session.undo(), self._do, "undo"
        )
        self._refuse = _button(
            "∅ no answer",
            "nothing answers it: a system should refuse",
            lambda: session.refuse(session.state != "should refuse"),
            self._do,
            "refuse",
            width="120px",
        )
        self._new = widgets.Text(
            placeholder="the new query", layout={"flex": "1 1 300px"}, continuous_update=False
        )
        self._new_row = widgets.HBox(
            [
                self._new,
                _button("add", "write it into the golden file", self._add, self._do, "add"),
            ],
            layout={"display": "none"},
        )
        steps = (
            ("◀ previous", self.session.previous, "previous"),
            ("next ▶", self.session.next, "next"),
        )
        step, again = (  # above the hits and below them
            [_button(text, "", go, self._do, name, width="100px") for text, go, name in steps]
            for _ in range(2)
        )
        opened = widgets.Button(
            description="new query …",
            tooltip="write a golden query made from this one",
            layout={"width": "130px"},
        )
        opened.on_click(self._open_new)
        self._hits = widgets.VBox()
        self.widget = widgets.VBox(
            [
                widgets.HBox([self._progress, self._filter, self._list], layout=_LINE),
                widgets.HBox([*step, self._refuse, opened, self._undo], layout=_LINE),
                self._new_row, self._status, self._query, self._hits, widgets.HBox(again),
            ],
            layout={"max_width": "1000px"},
        )  # fmt: skip
        self.widget.add_class("ragscore-label")
        self._show()

    def __repr__(self) -> str:
        done, total = self.session.progress
        return visible(
            f"LabelPanel: {done} of {total} queries of {self.session.file.path.name} are labelled"
        )

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        return {**self.widget._repr_mimebundle_(**asked), "text/plain": repr(self)}

    def _do(self, action: Callable[[], object]) -> None:
        """Pass a click on and show the new state, or the error and the file's own state."""
        try:
            action()
            status = status_html(self.session)
        except (DataError, OSError) as error:
            status = error_html(error)
        self._show()
        self._status.value = status

    def _show(self) -> None:
        session, self._quiet = self.session, True
        queries = session.questions
        self._filter.options = [
            (f"{name} ({int(keep(queries).sum())})", name) for name, keep in FILTERS.items()
        ]
        self._filter.value = session.filter
        kept = queries[
            FILTERS[self.session.filter](queries).to_numpy(dtype=bool)
            | (queries["query_id"] == self.session.query_id).to_numpy()
        ]
        entries = [
            (f"{MARKS[state]} {query_id}: {query}"[:LONGEST_ENTRY], query_id)
            for query_id, query, state in zip(
                kept["query_id"], kept["query"], kept["state"], strict=True
            )
        ]
        self._list.options = entries
        self._list.value = self.session.query_id or None
        self._quiet = False
        self._progress.value, self._query.value = progress_html(session), query_html(session)
        self._refuse.button_style = "info" if session.state == "should refuse" else ""
        self._undo.disabled = not session.can_undo
        hits, words = session.hits, session.snippets
        while len(self._cards) < len(hits):
            self._cards.append(_Card(self))
        for card, (_, hit) in zip(self._cards, hits.iterrows(), strict=False):
            card.show(hit, words)
        shown = [card.widget for card in self._cards[: len(hits)]] or [
            widgets.HTML("<i>no run was asked this query</i>")
        ]
        if list(self._hits.children) != shown:
            self._hits.children = shown

    def _on_filter(self, change: Any) -> None:
        if not self._quiet:
            self._do(lambda: self.session.show(change["new"]))

    def _on_query(self, change: Any) -> None:
        if not self._quiet and change["new"]:
            self._do(lambda: self.session.go(change["new"]))

    def _open_new(self, _: Any) -> None:
        is_open = self._new_row.layout.display is None
        self._new.value, self._new_row.layout.display = (
            self.session.query,
            "none" if is_open else None,
        )

    def _add(self) -> None:
        self.session.add_question(self._new.value)
        self._new_row.layout.display = "none"


class _Card:
    """One hit with its buttons.

    A card is used again for other hits, which is faster than making new widgets.
    """

    def __init__(self, panel: LabelPanel) -> None:
        self.number, self._panel = 0, panel
        self._html = widgets.HTML(layout={"flex": "1 1 0", "min_width": "300px", "margin": "0"})
        self._grades = {grade: self._grade_button(grade) for grade in GRADES}
        self._words = widgets.Text(
            placeholder="words of this text by which the label finds it again",
            layout={"flex": "1 1 300px"},
            continuous_update=False,
        )
        self._words_row = widgets.HBox(
            [self._words, _button("add", "", self._add_words, panel._do, "add-words")],
            layout={"display": "none"},
        )
        opened = widgets.Button(
            description="+ words",
            tooltip="add words of this text by which the label finds it again",
            layout={"width": "90px"},
        )
        opened.on_click(self._open_words)
        opened.layout.display = None if panel.session.level == "anchor" else "none"
        buttons = widgets.VBox(
            [
                self._grades[1],
                widgets.HBox([self._grades[2], self._grades[3]]),
                widgets.HBox([self._grades[0], opened]),
            ],
            layout={"width": "190px", "flex": "0 0 auto"},
        )
        self.widget = widgets.VBox(
            [widgets.HBox([buttons, self._html]), self._words_row],
            layout={"border_top": "1px solid rgba(128,128,128,.35)", "padding": "5px 0"},
        )
        self.widget.add_class("ragscore-hit")

    def show(self, hit: "pd.Series", words: list[str]) -> None:
        """Show this hit."""
        if self.number != hit["number"]:
            self._words_row.layout.display = "none"
        self.number = int(hit["number"])
        self._html.value = hit_html(hit, words)
        own = None if pd.isna(hit["own_grade"]) else int(hit["own_grade"])
        for grade, button in self._grades.items():
            button.button_style = "" if own != grade else "warning" if grade == 0 else "success"

    def _grade_button(self, grade: int) -> widgets.Button:
        width = "184px" if grade == 1 else "90px"
        return _button(
            *GRADES[grade],
            lambda: self._panel.session.toggle(self.number, grade),
            self._panel._do,
            f"grade-{grade}",
            width=width,
        )

    def _open_words(self, _: Any) -> None:
        is_open = self._words_row.layout.display is None
        self._words.value, self._words_row.layout.display = "", "none" if is_open else None

    def _add_words(self) -> None:
        self._panel.session.add_snippet(self.number, self._words.value)
        self._words_row.layout.display = "none"


def _button(
    text: str,
    tip: str,
    action: Callable[[], object],
    do: Callable[[Callable[[], object]], None],
    name: str,
    width: str = "80px",
) -> widgets.Button:
    button = widgets.Button(description=text, tooltip=tip, layout={"width": width})
    button.on_click(lambda _: do(action))
    button.add_class(f"ragscore-{name}")
    return button

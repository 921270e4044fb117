"""Labelling panel of a notebook: a view of a label sheet, whose clicks are written at once.

A click is in the golden file before its mark appears, so a visible mark is never lost. The HTML has
no scripts, and every text from files is escaped.
"""

import os
import re
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.escaping import html_text, visible
from ragscore.golden.labels import add_labels
from ragscore.golden.sheet import STATES, filled, golden_to_label

GRADES = {1: "✔ supports", 2: "2 well", 3: "3 exactly", 0: "✘ no"}
_TEXT = (
    "white-space:pre-wrap;overflow-wrap:anywhere;max-height:9.5em;overflow-y:auto;"
    "line-height:1.4;margin-top:3px"
)
LONGEST_ENTRY = 90  # characters of a query in the list


class LabelPanel(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Panel that fills in a label sheet: a query, its hits, and a button for each grade.

    Every click is written into the golden file before its mark appears: `rs.add_labels` of that
    query's rows. A second click on a grade takes it back.

    Parameters
    ----------
    golden_file, sheet
        As for `rs.add_labels`; the queries of the sheet are shown in its order.

    Attributes
    ----------
    sheet
        The sheet as the file has it now.
    """

    def __init__(self, golden_file: str | os.PathLike[str], sheet: pd.DataFrame) -> None:
        self.golden_file, self.sheet = Path(golden_file), sheet
        texts = sheet.drop_duplicates("query_id").set_index("query_id")["query"].items()
        entries = [(f"{name}: {text}"[:LONGEST_ENTRY], name) for name, text in texts]
        self._list = widgets.Dropdown(options=entries, layout={"flex": "1 1 300px"})
        self._list.observe(lambda change: self._show(), "value")
        self._bar, self._query, self._status = (widgets.HTML() for _ in range(3))
        self._refuse, self._hits = _button("∅ no answer", "refuse"), widgets.VBox()
        following = _button("next ▶", "next")
        following.on_click(lambda _: self._next())
        self._refuse.on_click(lambda _: self._toggle(slice(None), "answerable", False))
        buttons = widgets.HBox([following, self._refuse])
        super().__init__([
            widgets.HBox([self._bar, self._list]), buttons, self._status, self._query, self._hits,
        ], layout={"max_width": "1000px"})  # fmt: skip
        self.add_class("ragscore-label")
        self._show()

    def __repr__(self) -> str:
        return visible(
            f"LabelPanel: {self._done()} queries of {self.golden_file.name} are labelled"
        )

    def _done(self) -> str:
        stated = self.sheet.drop_duplicates("query_id")["answerable"].notna()
        return f"{stated.sum()} of {len(stated)}"

    def _next(self) -> None:
        if n := len(self._list.options):
            self._list.index = (self._list.index + 1) % n

    def _toggle(self, rows: Any, column: str, value: Any) -> None:
        """Set or clear cells of the query shown, write them, and show what the file says now."""
        part = self._part()
        is_set = part.loc[rows, column].eq(value).fillna(False).any()
        part.loc[rows, column] = pd.NA if is_set else value
        try:
            add_labels(self.golden_file, part)
            status = f'<div role="status">saved in {html_text(self.golden_file.name)}</div>'
        except (DataError, OSError) as error:
            status = error_html(error)
        self._show(status)

    def _part(self) -> pd.DataFrame:
        return self.sheet[self.sheet["query_id"].eq(self._list.value)].copy()

    def _show(self, status: str = "") -> None:
        self.sheet = filled(self.sheet, golden_to_label(self.golden_file))
        part = self._part()
        self._bar.value = f'<div class="ragscore-progress"><b>{self._done()} labelled</b></div>'
        self._query.value, self._status.value = query_html(part), status
        is_refused = part["answerable"].eq(False).fillna(False).any()
        self._refuse.button_style = "info" if is_refused else ""
        hits = part[part["rank"].notna()]
        self._hits.children = [self._card(row, hit) for row, hit in hits.iterrows()] or [
            widgets.HTML("<i>no run was asked this query</i>")
        ]

    def _card(self, row: Any, hit: "pd.Series") -> Any:
        buttons = []
        for grade, text in GRADES.items():
            button = _button(text, f"grade-{grade}")
            button.on_click(lambda _, grade=grade: self._toggle([row], "grade", grade))
            if not pd.isna(hit["grade"]) and hit["grade"] == grade:
                button.button_style = "success" if grade else "warning"
            buttons.append(button)
        shown = widgets.VBox([widgets.HTML(hit_html(hit))], layout={"flex": "1 1 0"})
        card = widgets.HBox([widgets.VBox(buttons), shown])
        card.add_class("ragscore-hit")
        return card


def error_html(error: Exception) -> str:
    """Return why a label was not written, as HTML."""
    reason = f"<b>Not written.</b> {html_text(str(error))}"
    return f'<div role="alert" style="color:#b00020">{reason}</div>'


def query_html(part: pd.DataFrame) -> str:
    """Return a query with its state."""
    if not len(part):
        return ""
    first = part.iloc[0]
    stated = STATES.get(str(first["answerable"]), "unlabelled")
    return (
        f'<div class="ragscore-query"><b>{html_text(first["query_id"])}</b> ({stated})'
        f'<div style="font-size:135%;line-height:1.35">{html_text(str(first["query"]))}</div></div>'
    )


def hit_html(hit: "pd.Series") -> str:
    """Return one hit: its place, the runs that found it, and its text, the snippet highlighted."""
    places = [hit[name] for name in ("path", "heading") if isinstance(hit.get(name), str)]
    ids = [hit[name] for name in ("doc_id", "chunk_id") if isinstance(hit.get(name), str)]
    place, text = " › ".join(places or ids[:1]), hit.get("text")
    words = hit["snippet"] if isinstance(hit["snippet"], str) else ""
    body = '<i style="opacity:.7">no text was kept</i>'
    if isinstance(text, str):
        parts = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE) if words else [text]
        body = "".join(
            f'<mark style="background:#ffe9a8">{one}</mark>' if n % 2 else one
            for n, one in enumerate(map(html_text, parts))
        )
    head = f"{html_text(place)}<span style='opacity:.75'> · {html_text(str(hit['found']))}</span>"
    return f'<div style="padding:2px 10px 6px">{head}<div style="{_TEXT}">{body}</div></div>'


def _button(text: str, name: str) -> widgets.Button:
    button = widgets.Button(description=text, layout={"width": "110px"})
    button.add_class(f"ragscore-{name}")
    return button

"""Labelling by hand: which hits answer which question, written into the golden file click by click.

`spans`, `splice`, `golden_text` change a row of a file's text and nothing beside it; `on_disk` writes it; `marks` says what a click
means, `pool` which hits a person sees; `session` is all of it without a widget; `panel` shows it in a notebook, `terminal` in a terminal.
"""

from ragscore.label.session import LabelConflict, LabelSession

__all__ = ["LabelConflict", "LabelSession"]

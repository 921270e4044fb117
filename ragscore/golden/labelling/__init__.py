"""Labelling by hand: hits that support an answer, written into the golden file click by click.

`session` holds the logic without any user interface; `panel` shows it in a notebook, `terminal` in
a terminal. `pool` and `sheet` prepare the queries and hits. `marks` translates a click into changed
fields, `minimal_diff` into the smallest change of the YAML or JSON Lines text, and `golden_text`
checks and writes the file.
"""

import os
from typing import TYPE_CHECKING, Any

from ragscore.frames.data import Results
from ragscore.frames.errors import packages_of
from ragscore.frames.signatures import takes
from ragscore.golden.labelling.session import LabelConflict, LabelSession

if TYPE_CHECKING:
    from ragscore.golden.labelling.panel import LabelPanel

__all__ = ["LabelConflict", "LabelSession", "label"]


@takes(LabelSession)
def label(
    golden_file: str | os.PathLike[str], results: Results | str | os.PathLike[str] | list[str], *,
    show: str | None = None, **options: Any
) -> "LabelPanel":  # fmt: skip
    """Return a panel for labelling by hand in a notebook.

    The panel shows a query, the hits of one or several runs, and buttons for hits that support the
    answer.

    Every click is written into the golden file before its mark appears. Only the row of that query
    changes: comments and all other rows stay byte for byte, and so do changes that others made
    meanwhile. If someone else changed the same row, the panel shows the conflict and writes
    nothing. The file as it was before is kept beside it (.bak). A closed notebook or a dead kernel
    loses nothing.

    Parameters
    ----------
    golden_file
        The file to label; see `LabelSession` for its formats.
    results
        The runs whose hits are shown: `Results`, or what `rs.load_results` takes.
    show
        Filter to begin with: all, unlabelled, labelled, should refuse, near misses
        (high-ranked hits without a label, to find missing ones), nothing right found, not in the
        file. By default all.
    options
        level, runs, depth, texts and near of `LabelSession`.

    Returns
    -------
    A `LabelPanel`, shown if it is the last value of a cell; its `session` has queries, hits and
    near misses as frames.

    Raises
    ------
    DataError
        For the same reasons as `LabelSession`, or because ipywidgets is not installed.
    """
    with packages_of("lab", field="label"):
        from ragscore.golden.labelling.panel import LabelPanel
    session = LabelSession(golden_file, results, **options)
    session.show(show or "all")
    return LabelPanel(session)

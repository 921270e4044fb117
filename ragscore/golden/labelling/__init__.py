"""Labelling by hand: which hits answer which query, written into the golden file click by click.

`spans`, `splice`, `golden_text` change a row of a file's text and nothing beside it; `on_disk`
writes it, `history` takes it back; `marks` says what a click means, `pool` and `sheet` what a
person sees; `session` is all of it without a widget; `panel` and `cards` show it in a notebook,
`terminal` in a terminal.
"""

import os
from typing import TYPE_CHECKING, Any

from ragscore.frames.data import DataError, Results
from ragscore.golden.labelling.session import LabelConflict, LabelSession

if TYPE_CHECKING:
    from ragscore.golden.labelling.panel import LabelPanel

__all__ = ["LabelConflict", "LabelSession", "label"]


def label(
    golden_file: str | os.PathLike[str], results: Results | str | os.PathLike[str] | list[str], *,
    show: str = "all", **options: Any
) -> "LabelPanel":  # fmt: skip
    """A panel for labelling by hand in a notebook.

    The query, the hits of one or several runs, and a click for what supports the answer.

    Every click is written into the golden file before its mark appears: only the row of that
    query changes, comments and all other rows survive byte for byte, what others wrote meanwhile
    stays, and a change of the same row is shown, never written over. The file as it was before the
    sitting is kept beside it (.bak). A closed notebook or a dead kernel loses nothing.

    Parameters
    ----------
    golden_file
        The file that is labelled; `LabelSession` says of what kinds it may be.
    results
        The runs whose hits are shown: `Results`, or what `rs.load_results` takes.
    show
        Which queries to begin with: all, unlabelled, labelled, should refuse, near misses
        (high-ranked hits without a label, to find missing ones), nothing right found, not in the
        file.
    options
        level, runs, depth, texts and near of `LabelSession`.

    Returns
    -------
    A `LabelPanel`: end a cell with it; its `session` has queries, hits and near misses as frames.

    Raises
    ------
    DataError
        As `LabelSession`; ipywidgets is not installed.
    """
    try:
        from ragscore.golden.labelling.panel import LabelPanel
    except ModuleNotFoundError as error:
        raise DataError(
            f"the package {error.name} is missing",
            field="label",
            allowed="pip install 'ragscore[lab]'",
        ) from error
    session = LabelSession(golden_file, results, **options)
    session.show(show)
    return LabelPanel(session)

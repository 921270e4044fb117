"""The anchor rule.

A hit meets a target if it is from the same file, under the target's heading, and holds one of its
snippets.

Anchors outlive re-chunking. Where only the beginning of a hit's text was stored, a snippet that
isn't in it may stand in the rest: such a pair is undecidable.
"""

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import contains_each, unique_rows
from ragscore.scoring.matching import Codes, Rule, pairs_with_equal

Flags = npt.NDArray[np.bool_]
ELLIPSES = ("...", "…")
_MARKS = re.compile(r"^[#\s]+")


def by_anchor(snippets: bool = True) -> Rule:
    """Build the rule.

    Same path, the target's heading a beginning of the hit's, and one of the target's snippets in
    the text.

    Paths are compared case-sensitively, headings part by part without their `#` marks ("Setup" is
    no beginning of "Setups"; a target without a heading takes its whole file), snippets
    case-insensitively and without an ellipsis that cuts them. A hit without any text can't be
    checked for snippets and meets the target, as citations do.

    Parameters
    ----------
    snippets
        False leaves the snippets out.

    Returns
    -------
    A rule whose matches carry `undecidable`: True where the hit's text is cut (`text_cut`) and none
    of the target's snippets stands in what is left of it. `rs.grade_hits` takes such a pair as a
    miss, `rs.score` as `unknown=` says.
    """

    def rule(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        hit, target = pairs_with_equal(hits, targets, "path", "path")
        is_inside = is_under(
            _column(hits, "heading").take(hit), _column(targets, "heading").take(target)
        )
        hit, target = hit[is_inside], target[is_inside]
        if not snippets or "snippet" not in targets:
            return pd.DataFrame(
                {"hit": hit, "target": target, "undecidable": np.zeros(len(hit), dtype=bool)}
            )
        is_cut = (
            hits["text_cut"].take(hit).fillna(False).to_numpy(dtype=bool)
            if "text_cut" in hits
            else np.zeros(len(hit), dtype=bool)
        )
        holds = _holds(_column(hits, "text"), hit, targets["snippet"], target, is_cut)
        kept = np.concatenate(
            [np.flatnonzero(holds), _undecidable(hit, target, targets, holds, is_cut)]
        )
        return pd.DataFrame(
            {
                "hit": hit[kept],
                "target": target[kept],
                "undecidable": np.arange(len(kept)) >= holds.sum(),
            }
        )

    rule.__qualname__ = f"by_anchor(snippets={snippets})"
    return rule


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name] if name in frame else pd.Series(pd.NA, index=frame.index, dtype="str")


def _holds(text: pd.Series, hit: Codes, snippet: pd.Series, target: Codes, is_cut: Flags) -> Flags:
    """Whether each pair's text holds its snippet.

    There is nothing to check without a snippet, nor without a text that was never cut.
    """
    wholes, whole = unique_rows(text, hit)
    parts, part = unique_rows(snippet, target)
    is_free = (snippet.isna().to_numpy()[target]) | (
        (wholes == "").to_numpy(dtype=bool)[whole] & ~is_cut
    )
    wanted = parts.str.lower().str.strip()
    for mark in ELLIPSES:  # a snippet that was cut itself stands in no text with its ellipsis
        wanted = wanted.str.removesuffix(mark)
    found = is_free.copy()
    found[~is_free] = contains_each(
        wholes.str.lower().tolist(), whole[~is_free], wanted.tolist(), part[~is_free]
    )
    return found


def _undecidable(
    hit: Codes, target: Codes, targets: pd.DataFrame, holds: Flags, is_cut: Flags
) -> Codes:
    """One pair per hit and target of which no snippet was found in a text that is cut."""
    if not (is_cut & ~holds).any():
        return np.zeros(0, dtype=np.int64)
    target_of = targets.groupby(["query_id", "target_id"], sort=False).ngroup().to_numpy()[target]
    cells = hit * (int(target_of.max(initial=0)) + 1) + target_of
    rows = np.flatnonzero(is_cut & ~holds & ~np.isin(cells, cells[holds]))
    _, first = np.unique(cells[rows], return_index=True)
    return rows[np.sort(first)]


@lru_cache(maxsize=2**16)
def _name(part: str) -> str:
    """One part of a heading path; the same few stand in thousands of paths."""
    return " ".join(_MARKS.sub("", part).split())


@lru_cache(maxsize=2**16)
def heading_parts(heading: str) -> tuple[str, ...]:
    """The names along a heading path.

    Split at `>`, leading `#` marks dropped, white space collapsed, empty parts left out.
    """
    return tuple(name for part in heading.split(">") if (name := _name(part)))


def is_under(headings: pd.Series, wanted: pd.Series) -> npt.NDArray[np.bool_]:
    """Whether each heading lies at or under the wanted one of the same row.

    An empty wanted heading holds every heading.
    """
    codes, names = pd.factorize(headings.astype("str").fillna(""))
    wanted_codes, wanted_names = pd.factorize(wanted.astype("str").fillna(""))
    parts, wanted_parts = (
        [heading_parts(name) for name in some.tolist()] for some in (names, wanted_names)
    )
    # Headings repeat from hit to hit: each pair of names is compared once.
    pairs, row = np.unique(
        codes.astype(np.int64) * max(len(wanted_names), 1) + wanted_codes, return_inverse=True
    )
    one, other = (some.tolist() for some in np.divmod(pairs, max(len(wanted_names), 1)))
    holds = np.array(
        [
            parts[a][: len(wanted_parts[b])] == wanted_parts[b]
            for a, b in zip(one, other, strict=True)
        ],
        dtype=bool,
    )
    return holds[row] if len(row) else np.zeros(0, dtype=bool)

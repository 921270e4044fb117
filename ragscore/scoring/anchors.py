"""The anchor rule: match hits by file, heading and a snippet of text.

In: hits with path, heading and text; targets of level "anchor". Out: matches.
Anchors outlive re-chunking. Where only the beginning of a hit's text was stored, a snippet that
isn't in it may stand in the rest: such a pair is undecidable.
"""

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import contains_each, unique_rows
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.rules import Rule, pairs_with_equal

ELLIPSES = ("...", "…")
_MARKS = re.compile(r"^[#\s]+")


def by_anchor(snippets: bool = True) -> Rule:
    """Match hits from a target's file, at or under its heading, that hold one of its snippets.

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
    of the target's snippets stands in what is left of it. `rs.match.grade_hits` takes such a pair
    as a miss, `rs.score` as `unknown=` says.
    """

    def rule(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        hit, target = pairs_with_equal(hits, targets, "path", "path")
        is_inside = is_under(
            _column(hits, "heading").take(hit), _column(targets, "heading").take(target)
        )
        hit, target = hit[is_inside], target[is_inside]
        is_cut = np.zeros(len(hit), dtype=bool)
        if not snippets or "snippet" not in targets:
            return pd.DataFrame({"hit": hit, "target": target, "undecidable": is_cut})
        if "text_cut" in hits:
            is_cut = hits["text_cut"].take(hit).fillna(False).to_numpy(dtype=bool)
        holds = _holds_snippet(_column(hits, "text"), hit, targets["snippet"], target, is_cut)
        undecidable = _undecidable_pairs(hit, target, targets, holds, is_cut)
        rows = np.concatenate([np.flatnonzero(holds), undecidable])
        undecidable = np.arange(len(rows)) >= holds.sum()
        return pd.DataFrame({"hit": hit[rows], "target": target[rows], "undecidable": undecidable})

    rule.__qualname__ = f"by_anchor(snippets={snippets})"
    return rule


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name] if name in frame else pd.Series(pd.NA, index=frame.index, dtype="str")


def _holds_snippet(
    text: pd.Series, hit: Codes, snippet: pd.Series, target: Codes, is_cut: Flags
) -> Flags:
    """Test each pair's text for its snippet.

    Pairs without a snippet, or with a text that is empty and was never cut, pass unchecked.
    """
    texts, of_hit = unique_rows(text, hit)
    parts, of_target = unique_rows(snippet, target)
    is_empty = (texts == "").to_numpy(dtype=bool)[of_hit]
    holds = snippet.isna().to_numpy()[target] | (is_empty & ~is_cut)
    parts = parts.str.lower().str.strip()
    for mark in ELLIPSES:  # a snippet that was cut itself stands in no text with its ellipsis
        parts = parts.str.removesuffix(mark)
    rest = ~holds
    holds[rest] = contains_each(
        texts.str.lower().tolist(), of_hit[rest], parts.tolist(), of_target[rest]
    )
    return holds


def _undecidable_pairs(
    hit: Codes, target: Codes, targets: pd.DataFrame, holds: Flags, is_cut: Flags
) -> Codes:
    """Return one pair per hit and target of which no snippet was found in a text that is cut."""
    if not (is_cut & ~holds).any():
        return np.zeros(0, dtype=np.int64)
    target_of = targets.groupby(["query_id", "target_id"], sort=False).ngroup().to_numpy()[target]
    cells = hit * (int(target_of.max(initial=0)) + 1) + target_of
    rows = np.flatnonzero(is_cut & ~holds & ~np.isin(cells, cells[holds]))
    _, first = np.unique(cells[rows], return_index=True)
    return rows[np.sort(first)]


@lru_cache(maxsize=2**16)  # the same few headings stand in thousands of paths
def _heading_name(part: str) -> str:
    return " ".join(_MARKS.sub("", part).split())


@lru_cache(maxsize=2**16)
def heading_parts(heading: str) -> tuple[str, ...]:
    """Split a heading path at `>` into names.

    Leading `#` marks are dropped, white space is collapsed, empty parts are left out.
    """
    return tuple(name for part in heading.split(">") if (name := _heading_name(part)))


def is_under(headings: pd.Series, wanted: pd.Series) -> npt.NDArray[np.bool_]:
    """Flag the headings that lie at or under the wanted one of their row.

    An empty wanted heading holds every heading.
    """
    codes, names = pd.factorize(headings.astype("str").fillna(""))
    wanted_codes, wanted_names = pd.factorize(wanted.astype("str").fillna(""))
    parts, wanted_parts = (
        [heading_parts(name) for name in some.tolist()] for some in (names, wanted_names)
    )
    # Headings repeat from hit to hit: each pair of names is compared once.
    n_wanted = max(len(wanted_names), 1)
    pairs, row = np.unique(codes.astype(np.int64) * n_wanted + wanted_codes, return_inverse=True)
    holds = np.array(
        [
            parts[a][: len(wanted_parts[b])] == wanted_parts[b]
            for a, b in zip(*(some.tolist() for some in np.divmod(pairs, n_wanted)), strict=True)
        ],
        dtype=bool,
    )
    return holds[row] if len(row) else np.zeros(0, dtype=bool)

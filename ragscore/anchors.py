"""The anchor rule: a hit meets a target if it is from the same file, under the target's heading, and holds one of its snippets.

Anchors outlive re-chunking. Where only the beginning of a hit's text was stored, a snippet that isn't in it may stand
in the rest: such a pair is undecided.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.match import Rule, pairs_with_equal

ELLIPSES = ("...", "…")
_MARKS = re.compile(r"^[#\s]+")


def by_anchor(snippets: bool = True) -> Rule:
    """Build the rule: same path, the target's heading a beginning of the hit's, and one of the target's snippets in the text.

    Paths are compared case-sensitively, headings part by part without their `#` marks ("Setup" is no beginning of
    "Setups"; a target without a heading takes its whole file), snippets case-insensitively and without an ellipsis that
    cuts them. A hit without any text can't be checked for snippets and meets the target, as citations do.

    Parameters
    ----------
    snippets
        False leaves the snippets out.

    Returns
    -------
    A rule whose matches carry `unknown`: True where the hit's text is cut (`text_cut`) and none of the target's snippets
    stands in what is left of it. Such a pair is undecided; `rs.grade_hits` takes it as a miss, `rs.score` as `unknown=` says.
    """

    def rule(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        hit, target = pairs_with_equal(hits, targets, "path", "path")
        is_inside = is_under(_column(hits, "heading").iloc[hit], _column(targets, "heading").iloc[target])
        hit, target = hit[is_inside], target[is_inside]
        if not snippets or "snippet" not in targets:
            return pd.DataFrame({"hit": hit, "target": target, "unknown": np.zeros(len(hit), dtype=bool)})
        text = _column(hits, "text").iloc[hit]
        is_cut = hits["text_cut"].fillna(False).astype(bool).to_numpy()[hit] if "text_cut" in hits else np.zeros(len(hit), dtype=bool)
        holds = _holds(text, targets["snippet"].iloc[target], is_cut)
        target_of = targets.groupby(["query_id", "target_id"], sort=False).ngroup().to_numpy()[target]
        open_pairs = _undecided(hit.astype(np.int64) * (int(target_of.max(initial=0)) + 1) + target_of, holds, is_cut)
        kept = np.concatenate([np.flatnonzero(holds), open_pairs])
        return pd.DataFrame({"hit": hit[kept], "target": target[kept], "unknown": np.arange(len(kept)) >= holds.sum()})

    rule.__qualname__ = f"by_anchor(snippets={snippets})"
    return rule


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name] if name in frame else pd.Series(pd.NA, index=frame.index, dtype="str")


def _holds(text: pd.Series, snippet: pd.Series, is_cut: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether each pair's text holds its snippet; there is nothing to check without a snippet, nor without a text that was never cut."""
    free = snippet.isna().to_numpy() | ((text.isna() | (text == "")).to_numpy(dtype=bool) & ~is_cut)
    lower, wanted = text.fillna("").str.lower(), snippet.fillna("").str.lower().str.strip()
    for mark in ELLIPSES:  # a snippet that was cut itself stands in no text with its ellipsis
        wanted = wanted.str.removesuffix(mark)
    # Substring search has no column form in pandas where both sides vary by row.
    found = np.fromiter((one in whole for one, whole in zip(wanted, lower, strict=True)), dtype=bool, count=len(wanted))
    return np.asarray(free | found)


def _undecided(cells: npt.NDArray[np.int64], holds: npt.NDArray[np.bool_], is_cut: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """One row per hit and target (`cells`) of which no snippet was found in a text that is cut."""
    rows = np.flatnonzero(is_cut & ~holds & ~np.isin(cells, cells[holds]))
    _, first = np.unique(cells[rows], return_index=True)
    return rows[np.sort(first)]


def heading_parts(heading: str) -> tuple[str, ...]:
    """The names along a heading path: split at `>`, leading `#` marks dropped, white space collapsed, empty parts left out."""
    parts = (" ".join(_MARKS.sub("", part).split()) for part in heading.split(">"))
    return tuple(part for part in parts if part)


def is_under(headings: pd.Series, wanted: pd.Series) -> npt.NDArray[np.bool_]:
    """Whether each heading lies at or under the wanted one of the same row; an empty wanted heading holds every heading."""
    codes, names = pd.factorize(headings.astype("str").fillna(""))
    wanted_codes, wanted_names = pd.factorize(wanted.astype("str").fillna(""))
    parts, wanted_parts = [heading_parts(name) for name in names], [heading_parts(name) for name in wanted_names]
    # Headings repeat from hit to hit: each pair of names is compared once.
    pairs, row = np.unique(codes.astype(np.int64) * max(len(wanted_names), 1) + wanted_codes, return_inverse=True)
    heads = (divmod(int(pair), max(len(wanted_names), 1)) for pair in pairs)
    holds = np.array([parts[one][: len(wanted_parts[other])] == wanted_parts[other] for one, other in heads], dtype=bool)
    return holds[row] if len(row) else np.zeros(0, dtype=bool)

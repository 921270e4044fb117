"""Attribution: which gold supports an answer names, and whether the system searched near them.

In: responses in their order, with citations that came with an answer or stand in its text, and the
folders a system chose. Out: one value per response and metric. Citations have the shape of hits,
so the anchor rule judges them; snippets are left out, as a citation quotes nothing.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.config import parsed
from ragscore.frames.data import Golden, Results
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.anchors import by_anchor
from ragscore.scoring.grading import decidable, level_rule
from ragscore.scoring.modes import response_configs
from ragscore.scoring.rules import level_rows, response_of, targets_at

SELECTING = ("on", "on_with_fallback")  # folder modes in which folders are chosen at all
_QUOTE = "[\"'“”`]?"
_FILE = rf"{_QUOTE}\s*{{path}}\s*{_QUOTE}\s*,\s*Section:\s*{_QUOTE}\s*"
_FORMS = (  # inside [ ], inside ( ), bare; a path never holds a comma
    r"\[\s*(?:File:\s*"
    + _FILE.format(path=r"[^\[\],\n\"“”]+?")
    + "|"
    + _FILE.format(path=r"[^\[\],\n\"“”:]+?\.\w+")
    + rf")[^\[\]\n]*?\s*{_QUOTE}\s*\]",
    r"\(\s*File:\s*" + _FILE.format(path=r"[^\(\),\n\"“”]+?") + rf"[^\(\)\n]*?\s*{_QUOTE}\s*\)",
    r"File:\s*" + _FILE.format(path=r"[^\[\]\(\),\n\"“”]+?\.\w+") + r"[^\[\]\n;\"“”]*",
)
_CITATION = re.compile("(" + "|".join(_FORMS) + ")", re.IGNORECASE)
_PARTS = re.compile(
    rf"(?:File:\s*)?{_QUOTE}\s*(?P<path>[^,]+?)\s*{_QUOTE}\s*,\s*Section:\s*{_QUOTE}\s*(?P<heading>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_BLOCK = re.compile(r"^\W*citations?\W*:", re.IGNORECASE | re.MULTILINE)
_CLOSING = "\"'“”`"


def parse_citations(answers: pd.Series) -> pd.DataFrame:
    """Find the citations that stand in the answers' text.

    Read are, in any case of letters, `[File: path, Section: heading]`, the same with quotes around
    path or heading, `[path.md, Section: heading]`, `(File: path, Section: heading)` and `File:
    path.md, Section: heading`. Those of a block that begins with `Citations:` come first. A path
    that holds a comma is not read.

    Parameters
    ----------
    answers
        Texts; NA is no answer.

    Returns
    -------
    One row per answer and cited (path, heading), each once: `answer`, the label of the text in the
    index of `answers`; `position` (from 1), `path`, `heading`.
    """
    texts = answers.astype("str").fillna("").reset_index(drop=True).tolist()
    # The block is split off first: one expression for both parts would need variable look-behind.
    begins = [found.start() if (found := _BLOCK.search(text)) else len(text) for text in texts]
    blocks = [text[begin:] for text, begin in zip(texts, begins, strict=True)]
    others = [text[:begin] for text, begin in zip(texts, begins, strict=True)]
    listed = pd.concat(
        [_citations_in(part).assign(part=n) for n, part in enumerate((blocks, others))],
        ignore_index=True,
    )
    listed = listed.sort_values(["row", "part"], kind="stable")
    listed = listed.drop_duplicates(["row", "path", "heading"])
    position = listed.groupby("row").cumcount().add(1).astype("int32")
    return pd.DataFrame({
        "answer": answers.index.take(listed["row"].to_numpy()), "position": position.to_numpy(),
        "path": listed["path"].to_numpy(), "heading": listed["heading"].to_numpy(),
    }).astype({"path": "str", "heading": "str"})  # fmt: skip


def _citations_in(texts: list[str]) -> pd.DataFrame:
    """Return row, path and heading of each citation, in the order of the text."""
    whole = pd.Series(texts, dtype="str").astype(object).str.extractall(_CITATION)[0].astype("str")
    inside = whole.str.replace(r"^[\[(]\s*|\s*[\])]$", "", regex=True)
    parts = inside.astype(object).str.extract(_PARTS).astype("str")
    is_bare = ~whole.str.startswith(("[", "("))
    # A bare citation ends with its sentence, a bracketed one with its bracket.
    sentence = parts["heading"].str.replace(r"(?s)(\.\s.*|[\s.)]*)$", "", regex=True)
    heading = parts["heading"].where(~is_bare, sentence).str.strip().str.strip(_CLOSING).str.strip()
    return pd.DataFrame({
        "row": whole.index.get_level_values(0).to_numpy(),
        "path": parts["path"].str.strip(_CLOSING).str.strip().to_numpy(),
        "heading": heading.to_numpy(),
    })  # fmt: skip


def score_attribution(
    results: Results, golden: Golden, responses: pd.DataFrame, answered: Flags
) -> dict[str, Values]:
    """Compute `attribution_hit` and `recency_ok` of each response, as `rs.metrics()` defines them.

    Supports are the anchors of grade ≥ 1.
    """
    none = np.full(len(responses), np.nan)
    undefined = {"attribution_hit": none, "recency_ok": none.copy()}
    anchors = targets_at(golden, "anchor").targets
    if not len(anchors) or not answered.any():
        return undefined
    anchors = anchors[anchors["grade"] > 0].drop_duplicates(["query_id", "target_id"])
    anchors = anchors.reset_index(drop=True)
    applies = answered & (
        lookup(responses["query_id"], pd.Index(anchors["query_id"].unique())) >= 0
    )
    if not applies.any():
        return undefined
    cited = _cited(results, responses, applies)
    matches = by_anchor(snippets=False)(cited, anchors)
    cited_row = cited["row"].to_numpy()[matches["hit"].to_numpy()]
    met = pd.DataFrame({"row": cited_row, "target": matches["target"].to_numpy()}).drop_duplicates()
    n_met = np.bincount(met["row"], minlength=len(responses))

    rules = golden.checks[golden.checks["kind"] == "recency_rule"].drop_duplicates("query_id")
    rule = responses["query_id"].map(rules.set_index("query_id")["text"]).astype("str")
    n_targets = responses["query_id"].map(anchors.groupby("query_id").size())
    met_newest = met.loc[met["target"].isin(_newest(anchors)), "row"]
    cites_newest = np.isin(np.arange(len(responses)), met_newest)
    cites_all = n_met == n_targets.to_numpy("float64", na_value=np.nan)
    wants_newest = (rule == "cite_newer").to_numpy(dtype=bool)
    wants_all = rule.isin(["acknowledge_both", "cite_both"]).to_numpy()
    recency = np.select(
        [applies & wants_newest, applies & wants_all], [cites_newest, cites_all], np.nan
    )
    return {
        "attribution_hit": np.where(applies, n_met > 0, np.nan),
        "recency_ok": np.asarray(recency, dtype="float64"),
    }


def _cited(results: Results, responses: pd.DataFrame, applies: Flags) -> pd.DataFrame:
    """List what the responses cite, in references or in their text.

    Returns
    -------
    One row per citation of a response that `applies`: `row` of the response, query_id, path,
    heading.
    """
    references = results.citations.reset_index(drop=True)
    references = references.reindex(columns=["run_id", "query_id", "path", "heading"])
    place = response_of(references, responses) if len(references) else np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(applies)
    answers = pd.Series(responses["answer"].to_numpy()[rows], index=rows, dtype="str")
    written = parse_citations(answers).rename(columns={"answer": "row"})
    parts = [part for part in (references.assign(row=place), written) if len(part)] or [written]
    cited = pd.concat([part[["row", "path", "heading"]] for part in parts], ignore_index=True)
    cited = cited[cited["row"].isin(rows)].reset_index(drop=True)
    query_ids = responses["query_id"].to_numpy()[cited["row"].to_numpy(dtype=np.int64)]
    dtypes = {"query_id": "str", "path": "str", "heading": "str"}
    return cited.assign(query_id=query_ids).astype(dtypes)


def _newest(anchors: pd.DataFrame) -> list[int]:
    """Return the row of the newest support of each query.

    If all supports of a query have a date, the newest is used; otherwise the last one in the file.
    """
    date = pd.Series(pd.NaT, index=anchors.index, dtype="datetime64[us, UTC]")
    if "date" in anchors:
        date = pd.to_datetime(anchors["date"], utc=True, format="ISO8601")
    is_dated = date.notna().groupby(anchors["query_id"]).transform("all")
    ordered = anchors[["query_id"]].assign(
        date=date.where(is_dated), position=np.arange(len(anchors))
    )
    ordered = ordered.sort_values(["query_id", "date", "position"])
    return [int(row) for row in ordered.drop_duplicates("query_id", keep="last").index]


def missed_scope(golden: Golden, responses: pd.DataFrame) -> Values:
    """Return 1 where a response chose folders and none holds, or lies in, a gold folder."""
    miss = np.full(len(responses), np.nan)
    if "scope" not in responses or not responses["scope"].notna().any():
        return miss
    stated = responses["scope"].dropna()
    chosen = stated.map({text: _chosen_folders(text) for text in stated.unique()}).dropna()
    gold = _gold_folders(golden)
    applies = chosen.index[is_among(responses.loc[chosen.index, "query_id"], gold["query_id"])]
    rows = chosen.loc[applies].explode().rename("chosen").rename_axis("row").reset_index()
    query_ids = responses["query_id"].take(rows["row"].to_numpy(dtype=np.int64)).to_numpy()
    pairs = rows.assign(query_id=query_ids).merge(gold, on="query_id")
    # Prefixes have no column form in pandas where both sides vary by row.
    holds = [
        wanted.startswith(folder) or (not is_file and folder.startswith(wanted))
        for folder, wanted, is_file in zip(
            pairs["chosen"], pairs["folder"], pairs["is_file"], strict=True
        )
    ]
    miss[applies] = 1.0
    miss[pairs.loc[holds, "row"].to_numpy(dtype=np.int64)] = 0.0
    return miss


def _chosen_folders(scope: str) -> list[str] | None:
    """Return the folders a scope names, each with a slash at its end; None if it records nothing.

    A scope that names none, or fell back to all, is the root.
    """
    read = parsed(scope)
    folders = read.get("folders") if isinstance(read, dict) else read
    if isinstance(read, dict) and read.get("fallback") is True:
        return [""]
    if not isinstance(folders, list):
        return None
    return [_with_slash(folder) for folder in folders if isinstance(folder, str)] or [""]


def _with_slash(folder: str) -> str:
    return f"{folder.strip('/')}/" if folder.strip("/") else ""


def _gold_folders(golden: Golden) -> pd.DataFrame:
    """List where the supports of each query are: its folders, or else the paths of its supports.

    One row per query and `folder`; `is_file` marks paths.
    """
    tags = golden.tags[golden.tags["kind"] == "folder"]
    tags = tags[~is_among(tags["query_id"], golden.refusals)]
    folders = tags[["query_id"]].assign(folder=tags["value"].map(_with_slash), is_file=False)
    anchors = targets_at(golden, "anchor").targets
    if "path" in anchors:
        paths = anchors.loc[~is_among(anchors["query_id"], folders["query_id"])]
        paths = paths[["query_id", "path"]].dropna().drop_duplicates()
        paths = paths.rename(columns={"path": "folder"}).assign(is_file=True)
        folders = pd.concat([folders, paths], ignore_index=True)
    return folders.astype({"query_id": "str", "folder": "str", "is_file": "bool"})


def missed_scope_proxy(
    results: Results, golden: Golden, responses: pd.DataFrame, unknown: str
) -> Values:
    """Return 1 where folders were chosen and no hit, however deep, meets a support.

    Hits on cut text are misses, or make it NaN if the value depends on them.
    """
    if not level_rows(golden, "anchor").any():
        return np.full(len(responses), np.nan)
    anchors = targets_at(golden, "anchor").targets
    applies = is_among(responses["query_id"], anchors["query_id"])
    if applies.any():
        # those made in a mode that chooses folders, by their own config or their run's
        stated = pd.Series(pd.NA, index=responses.index, dtype="str")
        for texts in response_configs(results):
            stated = stated.fillna(texts)
        selecting = [
            text
            for text in stated.dropna().unique()
            if isinstance(config := parsed(text), dict) and config.get("folder_mode") in SELECTING
        ]
        applies = applies & is_among(stated, selecting)
    if not applies.any():
        return np.full(len(responses), np.nan)
    place = response_of(results.hits, responses)
    matches = level_rule("anchor", results, golden)(results.hits, anchors)

    def count(pairs: pd.DataFrame) -> npt.NDArray[np.int64]:
        rows = place[pairs["hit"].to_numpy()]
        return np.bincount(rows[rows >= 0], minlength=len(responses))

    n_met = count(decidable(matches))
    is_known = (count(matches) == 0) | (n_met > 0) | (unknown == "miss")
    return np.where(applies & is_known, n_met == 0, np.nan)

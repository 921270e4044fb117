"""Which gold supports an answer names.

In the references that came with it, and in citations written into its text.

Citations have the shape of hits, so the anchor rule judges them; snippets are left out, a citation
quotes nothing.

Whether the system searched where the gold supports are.

From the folders it chose, where a response records them; as a weak stand-in, from its hits alone.
"""

import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Golden, Results
from ragscore.scoring.anchors import by_anchor
from ragscore.scoring.grading import decidable, level_rule
from ragscore.scoring.matching import at_level, response_of

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

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
    """Citations that stand in the answers' text.

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
    texts = answers.astype("str").fillna("").reset_index(drop=True)
    # A regular expression with several groups has no column form for one in two parts: block first,
    # then the rest.
    begins = [found.start() if (found := _BLOCK.search(text)) else len(text) for text in texts]
    parts = [
        [text[begin:] for text, begin in zip(texts, begins, strict=True)],
        [text[:begin] for text, begin in zip(texts, begins, strict=True)],
    ]
    listed = pd.concat(
        [_found(pd.Series(part, dtype="str")).assign(part=n) for n, part in enumerate(parts)],
        ignore_index=True,
    )
    listed = listed.sort_values(["row", "part"], kind="stable").drop_duplicates(
        ["row", "path", "heading"]
    )
    position = listed.groupby("row").cumcount().add(1).astype("int32")
    return pd.DataFrame({
        "answer": answers.index.take(listed["row"].to_numpy()), "position": position.to_numpy(),
        "path": listed["path"].to_numpy(), "heading": listed["heading"].to_numpy(),
    }).astype({"path": "str", "heading": "str"})  # fmt: skip


def _found(texts: pd.Series) -> pd.DataFrame:
    """Row, path and heading of each citation, in the order of the text."""
    whole = texts.astype(object).str.extractall(_CITATION)[0].astype("str")
    inside = whole.str.replace(r"^[\[(]\s*|\s*[\])]$", "", regex=True)
    parts = inside.astype(object).str.extract(_PARTS).astype("str")
    is_bare = ~whole.str.startswith(("[", "("))
    # A bare citation ends with its sentence, a bracketed one with its bracket.
    sentence = parts["heading"].str.replace(r"(?s)(\.\s.*|[\s.)]*)$", "", regex=True)
    heading = parts["heading"].where(~is_bare, sentence).str.strip().str.strip(_CLOSING).str.strip()
    return pd.DataFrame(
        {
            "row": whole.index.get_level_values(0).to_numpy(),
            "path": parts["path"].str.strip(_CLOSING).str.strip().to_numpy(),
            "heading": heading.to_numpy(),
        }
    )


def score_attribution(
    results: Results, golden: Golden, responses: pd.DataFrame, answered: Flags
) -> dict[str, Values]:
    """What the answers attribute to the gold supports.

    `attribution_hit` and `recency_ok`, in the order of `responses`.
    """
    none = np.full(len(responses), np.nan)
    anchors = at_level(golden, "anchor").targets
    if not len(anchors) or not answered.any():
        return {"attribution_hit": none, "recency_ok": none.copy()}
    anchors = (
        anchors[anchors["grade"] > 0]
        .drop_duplicates(["query_id", "target_id"])
        .reset_index(drop=True)
    )
    queries = pd.Index(anchors["query_id"].unique())
    query = lookup(responses["query_id"], queries)
    applies = answered & (query >= 0)
    if not applies.any():
        return {"attribution_hit": none, "recency_ok": none.copy()}
    cited = _cited(results, responses, applies)
    matches = by_anchor(snippets=False)(cited, anchors)
    met = pd.DataFrame(
        {
            "row": cited["row"].to_numpy()[matches["hit"].to_numpy()],
            "target": matches["target"].to_numpy(),
        }
    ).drop_duplicates()
    n_met = np.bincount(met["row"], minlength=len(responses))
    return {
        "attribution_hit": np.where(applies, n_met > 0, np.nan),
        "recency_ok": _recency(golden, anchors, responses, applies, met, n_met),
    }


def _cited(results: Results, responses: pd.DataFrame, applies: Flags) -> pd.DataFrame:
    """References and citations in the text of the responses it applies to.

    `row` of the response, query_id, path, heading.
    """
    references = results.citations.reset_index(drop=True).reindex(
        columns=["run_id", "query_id", "path", "heading"]
    )
    place = response_of(references, responses) if len(references) else np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(applies)
    written = parse_citations(
        pd.Series(responses["answer"].to_numpy()[rows], index=rows, dtype="str")
    )
    parts = [references.assign(row=place), written.rename(columns={"answer": "row"})]
    cited = pd.concat(
        [part[["row", "path", "heading"]] for part in parts if len(part)]
        or [written.rename(columns={"answer": "row"})],
        ignore_index=True,
    )
    cited = cited[cited["row"].isin(rows)].reset_index(drop=True)
    return cited.assign(
        query_id=responses["query_id"].to_numpy()[cited["row"].to_numpy(dtype=np.int64)]
    ).astype({"query_id": "str", "path": "str", "heading": "str"})


def _recency(
    golden: Golden,
    anchors: pd.DataFrame,
    responses: pd.DataFrame,
    applies: Flags,
    met: pd.DataFrame,
    n_met: npt.NDArray[np.int64],
) -> Values:
    """1 / 0 where the query has a rule for supports that disagree, else NaN."""
    rules = (
        golden.checks[golden.checks["kind"] == "recency_rule"]
        .drop_duplicates("query_id")
        .set_index("query_id")["text"]
    )
    rule = responses["query_id"].map(rules).astype("str")
    n_targets = (
        responses["query_id"]
        .map(anchors.groupby("query_id").size())
        .to_numpy("float64", na_value=np.nan)
    )
    cites_newest = np.isin(
        np.arange(len(responses)), met.loc[met["target"].isin(_newest(anchors)), "row"]
    )
    wants_newest, wants_all = (
        (rule == "cite_newer").to_numpy(dtype=bool),
        rule.isin(["acknowledge_both", "cite_both"]).to_numpy(),
    )
    ok = np.select(
        [applies & wants_newest, applies & wants_all], [cites_newest, n_met == n_targets], np.nan
    )
    return np.asarray(ok, dtype="float64")


def _newest(anchors: pd.DataFrame) -> list[int]:
    """Row of the newest support of each query.

    By date where all of its supports have one, else the last in the file.
    """
    date = (
        pd.to_datetime(anchors["date"], utc=True, format="ISO8601")
        if "date" in anchors
        else pd.Series(pd.NaT, index=anchors.index, dtype="datetime64[us, UTC]")
    )
    is_dated = date.notna().groupby(anchors["query_id"]).transform("all")
    ordered = pd.DataFrame(
        {
            "query_id": anchors["query_id"],
            "date": date.where(is_dated),
            "place": np.arange(len(anchors)),
        }
    ).sort_values(["query_id", "date", "place"])
    return [int(row) for row in ordered.drop_duplicates("query_id", keep="last").index]


SELECTING = ("on", "on_with_fallback")  # folder modes in which folders are chosen at all


def score_scope(
    results: Results, golden: Golden, responses: pd.DataFrame, failed: Flags, unknown: str
) -> dict[str, Values]:
    """`scope_miss` and `scope_miss_proxy` of each response, as `rs.metrics()` defines them."""
    columns = {
        "scope_miss": _miss(golden, responses),
        "scope_miss_proxy": _proxy(results, golden, responses, unknown),
    }
    return {name: np.where(failed, np.nan, values) for name, values in columns.items()}


def _miss(golden: Golden, responses: pd.DataFrame) -> Values:
    """1 where a response chose folders and none of them holds, or lies in, a gold folder."""
    if "scope" not in responses or not responses["scope"].notna().any():
        return np.full(len(responses), np.nan)
    stated = responses["scope"].dropna()
    chosen = stated.map({text: _folders(text) for text in stated.unique()}).dropna()
    gold = _gold_folders(golden)
    applies = chosen.index[is_among(responses.loc[chosen.index, "query_id"], gold["query_id"])]
    rows = (
        chosen.loc[applies]
        .explode()
        .rename("chosen")
        .rename_axis("row")
        .reset_index()
        .assign(
            query_id=lambda t: (
                responses["query_id"].take(t["row"].to_numpy(dtype=np.int64)).to_numpy()
            )
        )
    )
    pairs = rows.merge(gold, on="query_id")
    # Prefixes have no column form in pandas where both sides vary by row.
    holds = [
        wanted.startswith(one) or (not is_file and one.startswith(wanted))
        for one, wanted, is_file in zip(
            pairs["chosen"], pairs["folder"], pairs["is_file"], strict=True
        )
    ]
    miss = np.full(len(responses), np.nan)
    miss[applies] = 1.0
    miss[pairs.loc[holds, "row"].to_numpy(dtype=np.int64)] = 0.0
    return miss


def _folders(scope: str) -> list[str] | None:
    """The folders a scope names, each with a slash at its end.

    One that names none, or fell back to all, is the root. None: nothing recorded.
    """
    try:
        read: Any = json.loads(scope)
    except ValueError:
        return None
    folders = read.get("folders") if isinstance(read, dict) else read
    if isinstance(read, dict) and read.get("fallback") is True:
        return [""]
    if not isinstance(folders, list):
        return None
    return [_with_slash(folder) for folder in folders if isinstance(folder, str)] or [""]


def _with_slash(folder: str) -> str:
    return f"{folder.strip('/')}/" if folder.strip("/") else ""


def _gold_folders(golden: Golden) -> pd.DataFrame:
    """Where the supports of each query are.

    Its folders, or without any the paths of its supports (`is_file`).
    """
    folders = golden.tags.loc[
        (golden.tags["kind"] == "folder") & ~is_among(golden.tags["query_id"], golden.refusals),
        ["query_id", "value"],
    ]
    folders = folders.rename(columns={"value": "folder"}).assign(is_file=False)
    folders["folder"] = folders["folder"].map(_with_slash)
    anchors = at_level(golden, "anchor").targets
    paths = (
        anchors.loc[~is_among(anchors["query_id"], folders["query_id"]), ["query_id", "path"]]
        if "path" in anchors
        else anchors[["query_id"]].iloc[:0].assign(path="")
    )
    paths = paths.dropna().drop_duplicates().rename(columns={"path": "folder"}).assign(is_file=True)
    return pd.concat([folders, paths], ignore_index=True).astype(
        {"query_id": "str", "folder": "str", "is_file": "bool"}
    )


def _proxy(results: Results, golden: Golden, responses: pd.DataFrame, unknown: str) -> Values:
    """1 where folders were chosen and no hit, however deep, meets a support.

    Hits with cut text are misses, or make it NaN if it hangs on them.
    """
    anchors = at_level(golden, "anchor").targets
    applies = is_among(responses["query_id"], anchors["query_id"])
    applies = applies & _selects_folders(results, responses) if applies.any() else applies
    if not applies.any():
        return np.full(len(responses), np.nan)
    place = response_of(results.hits, responses)
    matches = level_rule("anchor", results, golden)(results.hits, anchors)
    n_any, n_met = (
        np.bincount(rows[rows >= 0], minlength=len(responses))
        for rows in (place[one["hit"].to_numpy()] for one in (matches, decidable(matches)))
    )
    is_known = (n_any == 0) | (n_met > 0) | (unknown == "miss")
    return np.where(applies & is_known, n_met == 0, np.nan)


def _selects_folders(results: Results, responses: pd.DataFrame) -> Flags:
    """Whether each response was made in a mode that chooses folders.

    By its own config, else by its run's.
    """
    configs = (
        results.runs["config"]
        if "config" in results.runs
        else pd.Series(pd.NA, index=results.runs.index, dtype="str")
    )
    of_run = (
        responses["run_id"]
        .astype("str")
        .map(dict(zip(results.runs["run_id"].astype("str"), configs, strict=True)))
    )
    stated = responses["x_config.json"].fillna(of_run) if "x_config.json" in responses else of_run
    return is_among(stated, [text for text in stated.dropna().unique() if _mode(text) in SELECTING])


def _mode(config: str) -> Any:
    try:
        read = json.loads(config)
    except ValueError:
        return None
    return read.get("folder_mode") if isinstance(read, dict) else None

"""Which gold supports an answer names.

In the references that came with it, and in citations written into its text.

Citations have the shape of hits, so the anchor rule judges them; snippets are left out, a citation
quotes nothing.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.scoring.anchors import by_anchor
from ragscore.scoring.matching import at_level, lookup, response_of

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

"""Metrics of citations: what an answer cites, beside its hits and the targets of its query."""

import re
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, equal_pairs, lookup
from ragscore.frames.kinds import parsed
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.scoring.metrics.declaration import Family
from ragscore.scoring.metrics.needs import ANCHORS, CONFLICT_RULE, FOLDERS, RELEVANT
from ragscore.scoring.rules import RULES, by_anchor, has_spans
from ragscore.scoring.targets import LEVELS, targets_at

metric = Family("citations", reads="citations", where="given")
DTYPES = dict.fromkeys(("chunk_id", "doc_id", "path", "heading", "span_unit"), "str") | {
    "start": "Int64",
    "end": "Int64",
}
LOCATORS = list(DTYPES)
CARRIED = {"chunk": "chunk_id", "span": "start", "anchor": "path", "doc": "doc_id"}

# by what a passage is found among hits and chunks, and what is then known of it
FILLED = (
    ("chunk_id", LOCATORS[1:]),
    ("span", ["chunk_id", "doc_id", "heading"]),
    ("path", ["doc_id"]),
    ("doc_id", ["path"]),
)


def locators(frame: pd.DataFrame, *more: str) -> pd.DataFrame:
    """Return the columns that say where a passage is, NA where a frame has none, and some more."""
    return frame.reindex(columns=[*LOCATORS, *more]).astype(DTYPES)


def pointed_at(cited: pd.DataFrame, known: pd.DataFrame, key: str, scope: str) -> Codes:
    """Return the position of the first known passage that each citation points at; -1 for none.

    Both are of one scope and have one text as `key`; by "span" also one file and unit, and the
    known passage holds the span of the citation.
    """
    texts = [
        one[key] if key != "span"
        else (one["path"] + "\0" + one["span_unit"].fillna("")).where(one["start"].notna())
        for one in (cited, known)
    ]  # fmt: skip
    ids = pd.Index(texts[1].dropna().unique())
    own, codes = (
        np.where(at < 0, -1, one[scope].to_numpy(np.int64) * len(ids) + at)
        for one, at in ((cited, lookup(texts[0], ids)), (known, lookup(texts[1], ids)))
    )
    if key != "span":  # the first of each will do
        codes = np.where(pd.Index(codes).duplicated(), -1, codes)
    citation, passage = equal_pairs(own, codes)
    if key == "span":
        (begin, end), (start, stop) = (
            one[["start", "end"]].to_numpy("float64", na_value=np.nan)[at].T
            for one, at in ((cited, citation), (known, passage))
        )
        is_inside = (begin >= start) & (end <= stop)
        citation, passage = citation[is_inside], passage[is_inside]
    found = np.full(len(cited), -1)
    found[citation[::-1]] = passage[::-1]  # the first is written last
    return found


class Cited:
    """What answers cite: `rows` has a line per citation, `passages` one per passage."""

    def __init__(self, rows: Any) -> None:
        self.of, citations, chunks = rows, rows.results.citations, rows.results.chunks
        cited = locators(citations, "query_id", "position", "marker").assign(row=rows.of(citations))
        cited = cited[cited["row"] >= 0].sort_values(["row", "position"], kind="stable")
        cited = cited.reset_index(drop=True).assign(run=rows.run[cited["row"]])
        if cited["start"].notna().any():
            has_spans(rows.seen, "hits")
        number = cited["position"].astype("str") + "?"
        is_bare = cited[LOCATORS].isna().all(axis=1)
        cited["name"] = cited["marker"].astype("str").fillna(number).where(is_bare, "")
        row = rows.of(rows.seen)
        near = np.flatnonzero(np.isin(row, cited["row"]))
        # passages, and the column that joins them to citations
        self.known = [(locators(rows.seen.iloc[near]).assign(row=row[near]), "row")]
        if chunks is not None:
            run = codes_of(chunks["run_id"]) if "run_id" in chunks else np.full(len(chunks), -1)
            own = locators(chunks).assign(run=run)
            shared = [own[run < 0].assign(run=one) for one in range(len(rows.runs))]
            self.known.append((pd.concat([own[run >= 0], *shared]), "run"))
        resolves = [self.resolves(cited, *one) for one in self.known]
        self.rows = cited.assign(retrieved=resolves[0], resolved=np.any(resolves, axis=0))
        self.passages = self.located(self.rows.drop_duplicates(["row", "name", *LOCATORS]))

    def resolves(self, cited: pd.DataFrame, known: pd.DataFrame, scope: str) -> Flags:
        """Flag citations of a known passage: by chunk id; else by path and span, path, document."""
        has_chunk, has_span, has_path = (
            cited[name].notna().to_numpy() for name in ("chunk_id", "start", "path")
        )
        by_chunk, by_span, by_path, by_doc = (
            pointed_at(cited, known, key, scope) >= 0 for key, _ in FILLED
        )
        elsewhere = by_span | (by_path & ~has_span) | (by_doc & ~has_path)
        return np.where(has_chunk, by_chunk, elsewhere)

    def located(self, passages: pd.DataFrame) -> pd.DataFrame:
        """Return passages with the locators of the hit, or chunk, that they point at."""
        for known, scope in self.known:
            for key, names in FILLED:
                at = pointed_at(passages, known, key, scope)
                if (at >= 0).any():
                    found = known[names].reset_index(drop=True).reindex(at)
                    filled = passages[names].fillna(found.set_axis(passages.index))
                    passages = passages.assign(**{name: filled[name] for name in names})
        return passages

    def count(self, frame: pd.DataFrame, flags: Any = 1.0) -> Values:
        """Count the lines of each row that have this flag."""
        weights = np.broadcast_to(np.asarray(flags, float), len(frame))
        return np.bincount(frame["row"], weights, self.of.n).astype(np.float64)

    @cached_property
    def matched(self) -> tuple[Values, Values, Values]:
        """Count for each row relevant passages, targets that they meet, and all targets.

        At the scoring's level, or the next coarser one that passages of the answer carry.
        """
        rows, golden, passages = self.of, self.of.golden, self.passages
        own, by_query = rows.level.name, rows.level.name == "per_query"
        usable = rows.level.joinable if by_query else LEVELS[LEVELS.index(own) :]
        n_relevant, n_met, n_targets = (np.zeros(rows.n) for _ in range(3))
        is_open, cites_nothing = rows.asked.copy(), self.count(passages) == 0
        for level in [one for one in CARRIED if one in usable]:
            targets = targets_at(golden, level).targets
            targets = targets[targets["grade"] > 0]
            of_query = targets.groupby("query_id")["target_id"].nunique()
            expected = rows.query_ids.map(of_query).fillna(0.0).to_numpy("float64")
            carries = self.count(passages, passages[CARRIED[level]].notna()) > 0
            has_target = expected > 0
            here = is_open & np.where(cites_nothing | by_query, has_target, carries)
            here &= (carries | cites_nothing) & bool(len(targets))
            hit, target = RULES[level](passages, targets)
            place = passages["row"].to_numpy()[hit]
            pairs = pd.DataFrame(
                {"row": place, "hit": hit, "target_id": targets["target_id"].to_numpy()[target]}
            )
            for found, keys in ((n_relevant, ["row", "hit"]), (n_met, ["row", "target_id"])):
                found[here] = self.count(pairs.drop_duplicates(keys))[here]
            n_targets[here] = expected[here]
            is_open &= ~here
        return n_relevant, n_met, n_targets


@metric("citation_present", "1 if the answer has at least one citation", kind="binary")
def present(rows: Any) -> Values:
    return rows.cited.count(rows.cited.rows) > 0


@metric(
    "citation_coverage",
    "1 if there is a citation and each one resolves: its chunk id, or its path and span"
    " inside a chunk, is among the query's hits or the run's chunk catalogue",
    kind="binary",
    where="grounded",
)
def resolving(rows: Any) -> Values:
    cited = rows.cited
    return (cited.count(cited.rows) > 0) & (cited.count(cited.rows, ~cited.rows["resolved"]) == 0)


@metric(
    "citation_coverage_weak",
    "1 if there is a citation and each one has a path",
    kind="binary",
    where="grounded",
    default=False,
    also="kebab citation_coverage",
    reads="responses.answer",
)
def weak(rows: Any) -> Values:
    cited = rows.cited
    lacks_path = cited.rows["path"].fillna("").eq("")
    return (cited.count(cited.rows) > 0) & (cited.count(cited.rows, lacks_path) == 0)


@metric(
    "citation_precision",
    "cited passages that meet a target of grade ≥ 1 / passages cited, each once; at the"
    " match level, or the next coarser one that the answer's citations carry",
    also="ALCE citation precision (by labels, not NLI)",
    needs=(RELEVANT,),
)
def precision(rows: Any) -> Values:
    n_relevant, _, n_targets = rows.cited.matched
    return np.where(n_targets > 0, n_relevant / rows.cited.count(rows.cited.passages), np.nan)


@metric(
    "citation_recall",
    "targets (grade ≥ 1) that a cited passage meets / all of them; level as for citation_precision",
    needs=(RELEVANT,),
)
def recall(rows: Any) -> Values:
    _, n_met, n_targets = rows.cited.matched
    return n_met / n_targets


@metric(
    "citation_fabricated",
    "cited passages that are not among the query's hits / passages cited, each once",
    better="lower",
)
def fabricated(rows: Any) -> Values:
    passages = rows.cited.passages
    return rows.cited.count(passages, ~passages["retrieved"]) / rows.cited.count(passages)


# What an answer names in its text, and where the system looked

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


def citations_in(text: str) -> list[tuple[str, str]]:
    """Return the paths and headings cited in a text, a `Citations:` block's first."""
    begin = found.start() if (found := _BLOCK.search(text)) else len(text)
    cited = []
    for whole in (*_CITATION.findall(text[begin:]), *_CITATION.findall(text[:begin])):
        inside = re.sub(r"^[\[(]\s*|\s*[\])]$", "", whole)
        path, heading = _PARTS.findall(inside)[0]  # what _CITATION finds has both
        if not whole.startswith(("[", "(")):  # a bare citation ends with its sentence
            heading = re.sub(r"(?s)(\.\s.*|[\s.)]*)$", "", heading, count=1)
        cited.append((path.strip(_CLOSING).strip(), heading.strip().strip(_CLOSING).strip()))
    return list(dict.fromkeys(cited))


named = Family("answers", kind="binary", where="answered", reads="responses.answer")


def met_anchors(rows: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the supports of each query, and which of them each answer names (row, target)."""
    anchors = targets_at(rows.golden, "anchor").targets
    anchors = anchors[anchors["grade"] > 0].drop_duplicates(["query_id", "target_id"])
    anchors = anchors.reset_index(drop=True)
    at = np.flatnonzero(rows.answered & rows.query_ids.isin(anchors["query_id"]).to_numpy())
    written = [(row, *one) for row in at.tolist() for one in citations_in(rows.answers.iloc[row])]
    references = locators(rows.results.citations).assign(row=rows.of(rows.results.citations))
    cited = pd.concat([
        pd.DataFrame(written, columns=["row", "path", "heading"]),
        references.loc[references["row"].isin(at), ["row", "path", "heading"]],
    ]).astype({"row": "int64", "path": "str", "heading": "str"})  # fmt: skip
    row = cited["row"].to_numpy()
    cited = cited.assign(query_id=rows.query_ids.to_numpy()[row])
    hit, target = by_anchor(snippets=False)(cited, anchors)
    return anchors, pd.DataFrame({"row": row[hit], "target": target}).drop_duplicates()


@named(
    "attribution_hit",
    "1 if a reference of the answer, or a citation in its text, names the file and heading"
    " of an anchor (snippets left out)",
    needs=(ANCHORS,),
    also="the chatbot harness's attribution_hit",
)
def attribution_hit(rows: Any) -> Values:
    return np.isin(np.arange(rows.n), met_anchors(rows)[1]["row"]).astype(np.float64)


@named(
    "recency_ok",
    "1 if the answer cites the supports that the query's rule for supports that disagree wants: the"
    " newest (cite_newer), every one (cite_both, acknowledge_both)",
    needs=(CONFLICT_RULE, ANCHORS),
)
def recency_ok(rows: Any) -> Values:
    anchors, met = met_anchors(rows)
    rules = rows.golden.checks[rows.golden.checks["kind"].eq("recency_rule")]
    rule = rows.query_ids.map(rules.drop_duplicates("query_id").set_index("query_id")["text"])
    date = pd.to_datetime(
        anchors.get("date", pd.Series(pd.NaT, anchors.index)), utc=True, format="ISO8601"
    )
    is_dated = date.notna().groupby(anchors["query_id"]).transform("all")
    ordered = (
        anchors[["query_id"]]
        .assign(date=date.where(is_dated), at=anchors.index)
        .sort_values(["query_id", "date", "at"])
    )
    newest = ordered.drop_duplicates("query_id", keep="last").index
    cites_newest = np.isin(np.arange(rows.n), met.loc[met["target"].isin(newest), "row"])
    n_targets = rows.query_ids.map(anchors.groupby("query_id").size()).to_numpy(
        "float64", na_value=np.nan
    )
    cites_all = np.bincount(met["row"], minlength=rows.n) == n_targets
    wants = [rule.eq("cite_newer").fillna(False), rule.isin(["acknowledge_both", "cite_both"])]
    return np.select(wants, [cites_newest, cites_all], np.nan)


scope = Family("scope", kind="binary", better="lower", where="finished")


def with_slash(folder: str) -> str:
    return f"{folder.strip('/')}/" if folder.strip("/") else ""


def chosen_folders(scope: str) -> list[str] | None:
    """Return the folders a scope names; the root for all of them, None if it records nothing."""
    read = parsed(scope)
    folders = read.get("folders") if isinstance(read, dict) else read
    if isinstance(read, dict) and read.get("fallback") is True:
        return [""]
    return (
        [with_slash(one) for one in folders if isinstance(one, str)] or [""]
        if isinstance(folders, list)
        else None
    )


@scope(
    "scope_miss",
    "1 if none of the folders that the system chose to search holds, or lies in, a folder of the"
    " query (else a file of its anchors)",
    needs=(FOLDERS,),
    reads="responses.scope",
)
def scope_miss(rows: Any) -> Values:
    golden = rows.golden
    tags = golden.tags[
        golden.tags["kind"].eq("folder") & ~golden.tags["query_id"].isin(golden._refusals)
    ]
    gold = (
        tags.groupby("query_id")["value"]
        .agg(lambda ones: [(with_slash(one), False) for one in ones])
        .to_dict()
    )
    anchors = targets_at(golden, "anchor").targets.reindex(columns=["query_id", "path"]).dropna()
    for query, paths in anchors.groupby("query_id")["path"]:
        gold.setdefault(query, [(path, True) for path in paths.unique()])
    miss = np.full(rows.n, np.nan)
    for row, (query, stated) in enumerate(zip(rows.query_ids, rows.column("scope"), strict=True)):
        chosen = chosen_folders(stated) if isinstance(stated, str) and query in gold else None
        if chosen is not None:
            miss[row] = not any(
                of.startswith(own) or (not is_file and own.startswith(of))
                for own in chosen for of, is_file in gold[query]
            )  # fmt: skip
    return miss


@scope(
    "scope_miss_proxy",
    "1 if no hit at all meets an anchor, in a folder mode that chooses folders: a weak"
    " stand-in for scope_miss",
    needs=(ANCHORS,),
    default=False,
    also="the chatbot harness's scope_miss",
)
def scope_miss_proxy(rows: Any) -> Values:
    anchors = targets_at(rows.golden, "anchor").targets
    configs = rows.results.runs.set_index("run_id").get("config", pd.Series(dtype="str"))
    own = rows.column("x_config.json")
    of_run = pd.Series(rows.runs.astype("str")[rows.run]).map(configs.astype("str").rename(str))
    modes = (
        own.astype("str")
        .fillna(of_run.set_axis(own.index).astype("str"))
        .map(lambda text: (parsed(text) or {}).get("folder_mode"), na_action="ignore")
    )
    met = np.isin(
        np.arange(rows.n),
        rows.row_of_hit[by_anchor(cut_text=rows.reading.cut_text)(rows.hits, anchors)[0]],
    )
    return np.where(modes.isin(["on", "on_with_fallback"]), ~met, np.nan)

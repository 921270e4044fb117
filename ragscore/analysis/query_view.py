"""One question through several runs.

The ranked lists side by side, what met a target, what moved, what was answered.

In: `Results` and `Golden`. Out: a `QueryView`, whose frames are plain and whose notebook form is
HTML without scripts.
"""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import DataError, Golden, Results, check_inputs, run_names
from ragscore.frames.render import dump, reload
from ragscore.scoring.grading import decidable, level_rule
from ragscore.scoring.level import Level, choose_level
from ragscore.scoring.matching import LEVELS, apply_rule, at_level, level_rows

ROW = 24  # pixels of one hit in the drawing
GAP = 56  # and of the space in which moves are drawn
SHOWN_TEXT = 600
STROKES = {"up": ("#009e73", ""), "down": ("#d55e00", "6 3"), "same": ("#999999", "")}


@dataclass(frozen=True)
class QueryView:
    """One question as several runs answered it.

    Attributes
    ----------
    hits
        One row per run and rank: `id` (chunk, else document), doc_id, path, heading, `score`,
        `score_kind`, `text`, what of these the hits have; `target` (names of the targets met, empty
        if none), `grade` (NA if none), and `rank_before`, where the run before this one has the
        same id (NA: not among its hits, or no run before).
    targets
        One row per target of the question: its grade, and its first rank in each run (column =
        run_id, NA = not found).
    answers
        One row per run: answer, refused, error, `cites`, what of these was recorded.
    checks
        What the answer must (not) hold: kind, text.
    level
        The level at which hits were matched with targets.
    """

    query_id: str
    query: str
    run_ids: tuple[str, ...]
    hits: pd.DataFrame
    targets: pd.DataFrame
    answers: pd.DataFrame
    checks: pd.DataFrame
    level: str
    should_refuse: bool

    def to_text(self) -> str:
        """The lists side by side, a hit that met a target marked by `*`; then targets and answers."""
        columns = {run_id: self._labels(run_id) for run_id in self.run_ids}
        lists = pd.DataFrame(
            {name: pd.Series(labels, dtype="str") for name, labels in columns.items()}
        ).fillna("")
        lists.index = pd.RangeIndex(1, len(lists) + 1, name="rank")
        parts = [self._title(), lists.to_string(), self._expected_text()]
        return "\n\n".join(
            [
                *parts,
                *(
                    f"{row['run_id']}: {_answer_text(row)}"
                    for row in self.answers.to_dict("records")
                ),
            ]
        )

    def to_html(self) -> str:
        """The same as HTML: no scripts, nothing loaded, every text escaped."""
        parts = []
        for place, run_id in enumerate(self.run_ids):
            if place:
                parts.append(self._moves(self.run_ids[place - 1], run_id))
            parts.append(self._list(run_id))
        lists = (
            "<div"
            f' style="display:flex;align-items:flex-start;overflow-x:auto">{"".join(parts)}</div>'
        )
        answers = "".join(
            f"<p><b>{escape(str(row['run_id']))}</b>: {_br(_answer_text(row))}</p>"
            for row in self.answers.to_dict("records")
        )
        return f"<div><p><b>{escape(self._title())}</b></p><p>{_br(self._expected_text())}</p>{lists}{answers}</div>"

    def to_json(self) -> str:
        """The view as JSON, NaN as null; `from_json` reloads it."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> "QueryView":
        """The view that `to_json` wrote."""
        return reload(cls, text)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return self.to_text()

    def _title(self) -> str:
        return f"{self.query_id}: {self.query}"

    def _expected_text(self) -> str:
        if self.should_refuse:
            return "The system should refuse this question."
        if not len(self.targets):
            return "No target is labelled for this question."
        lines = [
            f"expected ({self.level}, grade {row['grade']}): {row['target_id']}"
            f" ({_ranks(row, self.run_ids)})"
            for row in self.targets.to_dict("records")
        ]
        return "\n".join(
            [*lines, *(f"{kind}: {text}" for kind, text in self.checks.itertuples(index=False))]
        )

    def _labels(self, run_id: str) -> list[str]:
        rows = self.hits[(self.hits["run_id"] == run_id).to_numpy()]
        depth = int(rows["rank"].max()) if len(rows) else 0
        labels = [""] * depth
        is_first = run_id == self.run_ids[0]
        for rank, name, target, before in zip(
            rows["rank"], rows["id"], rows["target"], rows["rank_before"], strict=True
        ):
            labels[rank - 1] = (
                f"{'*' if target else ' '} {name}{'' if is_first else f' ({_move(rank, before)})'}"
            )
        return labels

    def _list(self, run_id: str) -> str:
        rows = self.hits[(self.hits["run_id"] == run_id).to_numpy()]
        is_first = run_id == self.run_ids[0]
        body = (
            "".join(_item(row, is_first) for row in rows.to_dict("records"))
            or '<div style="color:#666">no hits</div>'
        )
        return (
            '<div style="flex:1 1 0;min-width:220px"><div'
            f' style="height:{ROW}px"><b>{escape(run_id)}</b></div>{body}</div>'
        )

    def _moves(self, before: str, here: str) -> str:
        """Lines from each hit's place in one list to its place in the next.

        Solid up, dashed down, grey where it stayed.
        """
        rows = self.hits[(self.hits["run_id"] == here).to_numpy()].dropna(subset=["rank_before"])
        depth = (
            int(self.hits.loc[self.hits["run_id"].isin([before, here]), "rank"].max())
            if len(self.hits)
            else 0
        )
        lines = []
        for rank, old, target in zip(
            rows["rank"], rows["rank_before"], rows["target"], strict=True
        ):
            colour, dash = STROKES["same" if rank == old else "up" if rank < old else "down"]
            y = [ROW * (place + 0.5) for place in (old, rank)]  # the header is one row high
            lines.append(
                f'<line x1="2" y1="{y[0]:g}" x2="{GAP - 2}" y2="{y[1]:g}" stroke="{colour}"'
                f' stroke-width="{3 if target else 1.2}" stroke-dasharray="{dash}"/>'
            )
        return (
            f'<svg width="{GAP}" height="{ROW * (depth + 1)}"'
            f' style="flex:none">{"".join(lines)}</svg>'
        )


def show_query(
    results: Results,
    golden: Golden,
    query_id: str,
    runs: list[str] | None = None,
    *,
    match: str = "auto",
    texts: pd.DataFrame | None = None,
) -> QueryView:
    """One question through several runs.

    Ranked lists side by side, hits that met a target marked, moves drawn, answers below.

    Parameters
    ----------
    runs
        Run ids, or systems that only one run has; by default all runs, in their order.
    match
        The match level, as for `rs.score`.
    texts
        Passages (chunk_id, text) to show where the hits kept no text of their own.

    Returns
    -------
    A `QueryView`: print it, end a notebook cell with it, or take its frames.

    Raises
    ------
    DataError
        A question that neither the golden set nor these runs have; an unknown run.
    """
    check_inputs(results, golden)
    names = run_names(
        results.runs, list(results.runs["run_id"].astype("str")) if runs is None else runs
    )
    pair = results.select(names)
    asked = pair.responses[(pair.responses["query_id"] == query_id).to_numpy()]
    known = golden.queries[(golden.queries["query_id"] == query_id).to_numpy()]
    if not len(asked) and not len(known):
        raise DataError(
            f"no question {query_id!r}",
            field="query_id",
            allowed="a query_id of the golden set or of these runs",
        )
    level = _level_of(query_id, choose_level(pair, golden, match), golden)
    hits = pair.hits[(pair.hits["query_id"] == query_id).to_numpy()].sort_values(
        ["run_id", "rank"], ignore_index=True
    )
    targets = at_level(golden, level).targets
    targets = targets[(targets["query_id"] == query_id).to_numpy()].reset_index(drop=True)
    pairs = decidable(apply_rule(level_rule(level, pair, golden), hits, targets))
    checks = golden.checks.loc[
        (golden.checks["query_id"] == query_id).to_numpy(), ["kind", "text"]
    ].reset_index(drop=True)
    return QueryView(
        query_id, str((known if len(known) else asked)["query"].iloc[0]), tuple(names),
        _shown_hits(hits, targets, pairs, names, texts),
        _found_targets(hits, targets, pairs, names), _answers(pair, asked, query_id), checks, level,
        bool((golden.refusals == query_id).any()),
    )  # fmt: skip


def _level_of(query_id: str, level: Level, golden: Golden) -> str:
    if level.name != "per_query":
        return level.name
    is_here = (golden.targets["query_id"] == query_id).to_numpy()
    return next(
        (
            one
            for one in LEVELS
            if one in level.joinable and (level_rows(golden, one) & is_here).any()
        ),
        "doc",
    )


def _shown_hits(
    hits: pd.DataFrame,
    targets: pd.DataFrame,
    pairs: pd.DataFrame,
    names: list[str],
    texts: pd.DataFrame | None,
) -> pd.DataFrame:
    met = pd.DataFrame({
        "hit": pairs["hit"].to_numpy(),
        "target": targets["target_id"].to_numpy()[pairs["target"].to_numpy()],
        "grade": targets["grade"].to_numpy()[pairs["target"].to_numpy()],
    }).drop_duplicates()  # fmt: skip
    by_hit = met.groupby("hit").agg(target=("target", ", ".join), grade=("grade", "max"))
    id_of = [hits[name] for name in ("chunk_id", "doc_id", "path", "source_key") if name in hits]
    shown = hits[["run_id", "rank"]].assign(
        run_id=hits["run_id"].astype("str"), id=_first_of(id_of, len(hits))
    )
    for name in ("doc_id", "path", "heading", "score", "score_kind", "text"):
        if name in hits:
            shown[name] = hits[name]
    if texts is not None and "chunk_id" in hits:
        place = lookup(hits["chunk_id"], pd.Index(texts["chunk_id"]))
        # -1 has no text
        known = texts["text"].reset_index(drop=True).reindex(place).set_axis(hits.index, axis=0)
        shown["text"] = shown["text"].fillna(known) if "text" in shown else known
    shown["target"] = by_hit["target"].reindex(range(len(hits))).astype("str").fillna("")
    shown["grade"] = by_hit["grade"].reindex(range(len(hits))).astype("Int64")
    return shown.assign(rank_before=_ranks_before(shown, names))


def _first_of(columns: list[pd.Series], n: int) -> pd.Series:
    """The first of these that is known, row by row."""
    found = pd.Series(pd.NA, index=range(n), dtype="str")
    for column in columns:
        found = found.fillna(column)
    return found.fillna("—")


def _ranks_before(shown: pd.DataFrame, names: list[str]) -> pd.Series:
    """Where the run before has the same id first."""
    before = dict(zip(names[1:], names[:-1], strict=True))
    first = shown.drop_duplicates(["run_id", "id"]).rename(
        columns={"rank": "rank_before", "run_id": "before"}
    )
    # nothing is before a single run
    wanted = shown[["run_id", "id"]].assign(before=shown["run_id"].map(before).astype("str"))
    return wanted.merge(first[["before", "id", "rank_before"]], on=["before", "id"], how="left")[
        "rank_before"
    ].astype("Int64")


def _found_targets(
    hits: pd.DataFrame, targets: pd.DataFrame, pairs: pd.DataFrame, names: list[str]
) -> pd.DataFrame:
    listed = targets[["target_id", "grade"]].drop_duplicates("target_id").reset_index(drop=True)
    met = pd.DataFrame({
        "target_id": targets["target_id"].to_numpy()[pairs["target"].to_numpy()],
        "run_id": hits["run_id"].astype("str").to_numpy()[pairs["hit"].to_numpy()],
        "rank": hits["rank"].to_numpy()[pairs["hit"].to_numpy()],
    })  # fmt: skip
    first = (
        met.groupby(["target_id", "run_id"])["rank"].min().unstack("run_id")
        if len(met)
        else pd.DataFrame(index=pd.Index([], dtype="str"))
    )
    return listed.join(first.reindex(columns=names).astype("Int64"), on="target_id")


def _answers(results: Results, asked: pd.DataFrame, query_id: str) -> pd.DataFrame:
    columns = [name for name in ("answer", "refused", "refusal_reason", "error") if name in asked]
    shown = (
        asked[["run_id", *columns]]
        .assign(run_id=asked["run_id"].astype("str"))
        .reset_index(drop=True)
    )
    cited = results.citations[(results.citations["query_id"] == query_id).to_numpy()]
    if len(cited):
        locator = _first_of(
            [
                cited[name].reset_index(drop=True)
                for name in ("chunk_id", "path", "doc_id", "marker")
                if name in cited
            ],
            len(cited),
        )
        by_run = locator.groupby(cited["run_id"].astype("str").to_numpy()).agg(", ".join)
        shown["cites"] = shown["run_id"].map(by_run)
    return shown


def _item(row: dict[Any, Any], is_first: bool) -> str:
    """One hit on one line; its whole text is the tooltip."""
    mark = f"<b>✔ {escape(str(row['id']))}</b>" if row["target"] else escape(str(row["id"]))
    score = row.get("score")
    shown_score = (
        f" <small>{score:.3g}</small>" if isinstance(score, float) and not np.isnan(score) else ""
    )
    moved = "" if is_first else f" <small>{_move(row['rank'], row['rank_before'])}</small>"
    text = row.get("text")
    tip = escape(
        f"{row['target']} {text if isinstance(text, str) else ''}".strip()[:SHOWN_TEXT], quote=True
    )
    style = f"height:{ROW}px;line-height:{ROW}px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
    background = ";background:rgba(0,158,115,.18)" if row["target"] else ""
    return (
        f'<div style="{style}{background}" title="{tip}">{row["rank"]}.'
        f" {mark}{moved}{shown_score}</div>"
    )


def _move(rank: Any, before: Any) -> str:
    if pd.isna(before):
        return "new"
    change = int(before) - int(rank)
    return "=" if change == 0 else f"{'↑' if change > 0 else '↓'}{abs(change)}"


def _ranks(row: dict[Any, Any], names: tuple[str, ...]) -> str:
    return "; ".join(
        f"{name} {'not found' if pd.isna(row[name]) else f'rank {row[name]}'}" for name in names
    )


def _answer_text(row: dict[Any, Any]) -> str:
    if not pd.isna(row.get("error")):
        return f"failed: {row['error']}"
    said = (
        []
        if row.get("refused") is not True
        else [
            (
                f"refused ({row.get('refusal_reason')})"
                if not pd.isna(row.get("refusal_reason"))
                else "refused"
            )
        ]
    )
    answer = row.get("answer")
    said += (
        [str(answer)[:SHOWN_TEXT]]
        if isinstance(answer, str) and answer
        else []
        if said
        else ["no answer"]
    )
    cites = row.get("cites")
    return " ".join(said) + (f"\ncites {cites}" if isinstance(cites, str) else "")


def _br(text: str) -> str:
    return escape(text).replace("\n", "<br>")

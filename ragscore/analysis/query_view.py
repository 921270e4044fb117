"""One query through several runs, side by side.

In: `Results` and `Golden`. Out: a `QueryView` of the ranked lists, the targets that were met, the
moves between lists and the answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.extras.agents import call_of_hits, repeats, search_rows, turn_numbers
from ragscore.frames.data import (
    ID_OF_LEVEL,
    DataError,
    Golden,
    Results,
    check_type,
    narrowed,
    run_names,
)
from ragscore.frames.errors import excerpt, nearest, plural
from ragscore.frames.tables import Display, Table
from ragscore.scoring.rows import Rows
from ragscore.scoring.rules import matched_pairs, rule_of
from ragscore.scoring.targets import LEVELS, targets_at

MAX_CHARS = 600  # of a text that is shown


@dataclass(frozen=True, repr=False)
class QueryView(Display):
    """One query as several runs answered it: lists side by side, targets, and answers.

    A `*` marks a hit that met a target, an arrow by how many ranks it moved. Ranks run through
    several calls, and what each call asked is above it.

    Attributes
    ----------
    hits
        One row per run and rank: `id` (chunk, else document); doc_id, path, heading, `score`,
        `score_kind` and `text` where the hits have them; `target` (names of the targets met, empty
        if none), `grade` (NA if none), and `rank_before`, where the run before this one has the
        same id first (NA: not among its hits, or no run before). Where hits name their call: `call`
        and `repeats`, the earlier call that first returned its document (NA: none).
    calls
        One row per run and search, where hits name their call: what is recorded of it (`query`, the
        text asked, tool, elapsed_ms, error, ...), `n_hits`, `n_repeated` of them that an earlier
        call had returned, `found` (the relevant targets that it was first to find).
    targets
        One row per target of the query: its grade, `alternatives` (other ids that meet it; empty
        without any), and its first rank in each run (column = run_id, NA = not found).
    turns
        One row per turn of the query's conversation, up to this one: conversation, `turn`,
        query_id, query. Empty without a conversation.
    answers
        One row per run: answer, refused, error and `cites` where these were recorded.
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
    calls: pd.DataFrame
    turns: pd.DataFrame

    def _parts(self) -> list[str | Table]:
        turns = [
            f"{'turn' if row['query_id'] != self.query_id else 'this is turn'} {row['turn']}"
            f" of {row['conversation']}: {row['query']}"
            for row in self.turns.to_dict("records")
        ]
        calls = [_call_text(row, self.query) for row in self.calls.to_dict("records")]
        before = ["\n".join(lines) for lines in (turns, calls) if lines]
        columns = {run_id: _labels(self.hits, run_id, self.run_ids[0]) for run_id in self.run_ids}
        ranks = pd.RangeIndex(
            1, max((one.index.max() for one in columns.values() if len(one)), default=0) + 1
        )
        lists = pd.DataFrame(columns).reindex(ranks).fillna("")
        lists.insert(0, "rank", ranks, allow_duplicates=True)
        title, shown = f"{self.query_id}: {self.query}", Table(lists, verdicts=())
        answers = [_answer_text(row) for row in self.answers.to_dict("records")]
        return [title, *before, self._expected_text(), shown, *answers]

    def _expected_text(self) -> str:
        if self.should_refuse:
            return "The system should refuse this query."
        lines = [] if len(self.targets) else ["No target is labelled for this query."]
        for row in self.targets.to_dict("records"):
            ranks = "; ".join(
                f"{one} not found" if pd.isna(row[one]) else f"{one} rank {row[one]}"
                for one in self.run_ids
            )
            names = " or ".join(filter(None, [row["target_id"], row["alternatives"]]))
            lines.append(f"expected ({self.level}, grade {row['grade']}): {names} ({ranks})")
        lines += [f"{kind}: {text}" for kind, text in self.checks.itertuples(index=False)]
        return "\n".join(lines)


def show_compared(cmp: Any, query_id: str) -> QueryView:
    """Show one query: what was expected, and the hits and answers of both runs side by side.

    Raises
    ------
    DataError
        An unknown query; a comparison that was reloaded from JSON.

    Examples
    --------
    >>> ev.compare("dense", "hybrid").query("pd-005")
    """
    return show_query(cmp._evaluated[0], query_id, [cmp.baseline, cmp.candidate])


def show_query(rows: Rows, query_id: str, runs: list[str] | None = None) -> QueryView:
    """Show one query through several runs, as they were matched; see `Evaluation.query`."""
    check_type(query_id, str, "query_id", "the id of a query")
    results, golden = rows.results, rows.golden
    names = run_names(results.runs, [*map(str, rows.runs)] if runs is None else runs)
    chosen = results if runs is None else results.select(names)

    def of_query(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[(frame["query_id"] == query_id).to_numpy()]

    responses, known = of_query(chosen.responses), of_query(golden.queries)
    asked = known if len(known) else responses
    if not len(asked):
        ids = pd.concat([golden.queries["query_id"], chosen.responses["query_id"]]).unique()
        allowed = nearest(query_id, ids, "the golden set and these runs have")
        raise DataError(f"no query {excerpt(query_id)}", field="query_id", allowed=allowed)
    used = rows.used[(rows.query_ids == query_id).to_numpy()].max(initial=-1)
    level = LEVELS[used] if used >= 0 else "doc"
    hits = of_query(chosen.hits).sort_values(["run_id", "rank"], ignore_index=True)
    targets = of_query(targets_at(golden, level).targets).reset_index(drop=True)
    targets = targets.astype({"query_id": "str", "target_id": "str"})
    hit, target = matched_pairs(rows.rule or rule_of(level, chosen, golden), hits, targets)
    calls = None if chosen.calls is None else of_query(chosen.calls)
    shown = _shown_hits(hits, names)
    met = shown[["run_id", "rank"]].assign(hit=shown.index, call=call_of_hits(hits)).iloc[hit]
    met = met.assign(**{
        name: targets[name].to_numpy()[target] for name in ("target_id", "grade")
    }).sort_values("hit", kind="stable", ignore_index=True)  # fmt: skip
    by_hit = met[["hit", "target_id", "grade"]].drop_duplicates().groupby("hit")
    names_of_targets = by_hit["target_id"].agg(", ".join).reindex(shown.index)
    shown = shown.assign(
        target=names_of_targets.astype("str").fillna(""),
        grade=by_hit["grade"].max().reindex(shown.index).astype("Int64"),
        rank_before=shown.pop("rank_before"),
    )
    return QueryView(
        query_id,
        str(asked["query"].iloc[0]),
        tuple(names),
        shown,
        _target_ranks(targets, met, names),
        _answers(responses, of_query(chosen.citations)),
        of_query(golden.checks)[["kind", "text"]].reset_index(drop=True),
        level,
        bool((golden._refusals == query_id).any()),
        _calls(narrowed(chosen, hits=hits, calls=calls), met[(met["grade"] > 0).to_numpy()], names),
        _turns(golden, query_id),
    )


def _shown_hits(hits: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    shown = pd.DataFrame(
        {
            "run_id": hits["run_id"].astype("str"),
            "rank": hits["rank"],
            "id": first_known(hits, ("chunk_id", "doc_id", "path", "source_key")),
        }
    )
    for name in ("doc_id", "path", "heading", "score", "score_kind", "text"):
        if name in hits:
            shown[name] = hits[name]
    if "call" in hits:
        shown["call"], shown["repeats"] = call_of_hits(hits), repeats(hits)
    # the first rank of the same id in the run before
    before = dict(zip(names[1:], names[:-1], strict=True))
    shown["before"] = shown["run_id"].map(before).astype("str")
    first = shown.drop_duplicates(["run_id", "id"])[["run_id", "id", "rank"]]
    first = first.rename(columns={"run_id": "before", "rank": "rank_before"})
    shown = shown.merge(first, on=["before", "id"], how="left").drop(columns="before")
    return shown.astype({"rank_before": "Int64"})


def _calls(results: Results, met: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """One row per run and search of the query: what it asked, found first, and repeated."""
    rows = search_rows(results)
    rows = rows.drop(columns="query_id").astype({"run_id": "str"})
    first = met.sort_values("call", kind="stable").drop_duplicates(["run_id", "target_id"])
    found = first.groupby(["run_id", "call"])["target_id"].agg(", ".join)
    keys = pd.MultiIndex.from_frame(rows[["run_id", "call"]])
    rows["found"] = found.reindex(keys).fillna("").astype("str").to_numpy()
    order = rows["run_id"].map({name: at for at, name in enumerate(names)})
    return rows.iloc[np.lexsort((rows["call"], order))].reset_index(drop=True)


def _turns(golden: Golden, query_id: str) -> pd.DataFrame:
    """One row per turn of the query's conversation, up to the query's own."""
    names = ["conversation", "turn", "query_id", "query"]
    queries = golden.queries
    if "conversation" not in queries:
        return pd.DataFrame(columns=names)
    rows = queries.assign(turn=turn_numbers(queries))[names]
    own = rows.loc[rows["query_id"].eq(query_id), "conversation"]
    is_of = rows["conversation"].isin(own.dropna())
    rows = rows[is_of.to_numpy()].sort_values("turn", kind="stable", ignore_index=True)
    return rows[rows.index <= rows.index[rows["query_id"].eq(query_id)].max()]


def first_known(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Return the first of these columns that has a value, row by row; "—" where none has."""
    values = pd.Series(pd.NA, index=frame.index, dtype="str")
    for name in names:
        values = values.fillna(frame[name]) if name in frame else values
    return values.fillna("—")


def other_ids(targets: pd.DataFrame) -> pd.Series:
    """Return the id of each row that is another way to meet its target; NA for the first."""
    ids = pd.Series(pd.NA, index=targets.index, dtype="str")
    for level, name in ID_OF_LEVEL.items():  # passages of an anchor are no ids
        if name in targets:
            here = (targets["alternative"] > 0) & (targets["level"] == level)
            ids = ids.where(~here.to_numpy(dtype=bool), targets[name])
    return ids


def _target_ranks(targets: pd.DataFrame, met: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """One row per target: its grade, its other alternatives, and its first rank in each run."""
    listed = targets[["target_id", "grade"]].drop_duplicates("target_id").reset_index(drop=True)
    others = other_ids(targets).dropna().groupby(targets["target_id"]).agg(" or ".join)
    listed["alternatives"] = listed["target_id"].map(others).astype("str").fillna("")
    first = met.drop_duplicates(["run_id", "target_id"])
    ranks = first.pivot(index="target_id", columns="run_id", values="rank")
    ranks = ranks.reindex(columns=names).astype("Int64")
    return listed.join(ranks.set_index(ranks.index.astype("str")), on="target_id")


def _answers(responses: pd.DataFrame, citations: pd.DataFrame) -> pd.DataFrame:
    names = ("answer", "refused", "refusal_reason", "error")
    shown = responses[["run_id", *(name for name in names if name in responses)]]
    shown = shown.astype({"run_id": "str"}).reset_index(drop=True)
    if len(citations):
        cited = citations.sort_values("position", ignore_index=True)
        known = first_known(cited, ("chunk_id", "path", "doc_id", "marker"))
        locators = known.groupby(cited["run_id"].astype("str").to_numpy())
        shown["cites"] = shown["run_id"].map(locators.agg(", ".join))
    return shown


def _call_text(row: dict[Any, Any], query: str) -> str:
    """Return what a call asked and gave, as one line."""
    known = {name: value for name, value in row.items() if not pd.isna(value)}
    asked, n_hits = known.get("query", ""), known["n_hits"]
    failed = f"failed: {known['error']}" if "error" in known else ""
    head = [
        f"{row['run_id']}, call {row['call']}",
        known.get("tool"),
        "the query itself" if asked == query else f"“{asked}”" if asked else "",
        f"{known['elapsed_ms']:,.0f} ms" if "elapsed_ms" in known else "",
    ]
    gave = [
        failed,
        plural(n_hits, "hit") if n_hits else "" if failed else "no documents",
        f"{known['n_repeated']} returned before" if known["n_repeated"] else "",
        f"first to find {known['found']}" if known["found"] else "",
    ]
    return f"{', '.join(filter(None, head))}: {'; '.join(filter(None, gave))}"


def _labels(hits: pd.DataFrame, run_id: str, first_run: str) -> pd.Series:
    """Return the hits of a run as text by rank."""
    texts = {}
    for row in hits[(hits["run_id"] == run_id).to_numpy()].to_dict("records"):
        up = 0 if pd.isna(row["rank_before"]) else row["rank_before"] - row["rank"]
        move = f"{'↑' if up > 0 else '↓'}{abs(up)}" if up else "="
        notes = ["new" if pd.isna(row["rank_before"]) else move] if run_id != first_run else []
        if not pd.isna(earlier := row.get("repeats", pd.NA)):
            notes.append(f"as in call {earlier}")
        noted = f" ({', '.join(notes)})" if notes else ""
        texts[row["rank"]] = f"{'*' if row['target'] else ' '} {row['id']}{noted}"
    return pd.Series(texts, dtype="str")


def _answer_text(row: dict[Any, Any]) -> str:
    known = {name: value for name, value in row.items() if not pd.isna(value)}
    reason = f" ({known['refusal_reason']})" if "refusal_reason" in known else ""
    parts = [f"refused{reason}" if known.get("refused") is True else "", known.get("answer", "")]
    text = " ".join(filter(None, parts))[:MAX_CHARS] or "no answer"
    if "error" in known:
        text = f"failed: {known['error']}"
    elif "cites" in known:
        text += f"\ncites {known['cites']}"
    return f"{row['run_id']}: {text}"

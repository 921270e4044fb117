"""The report of a comparison as another harness has it: JSON, a table, and its own Markdown.

In: a comparison by a profile. Out: that harness's content; its Markdown is byte for byte as there,
but that what Markdown would follow in a name is escaped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.aggregates import round_half_away, set_nested
from ragscore.frames.data import records_of
from ragscore.frames.escaping import markdown_cell, markdown_code
from ragscore.frames.kinds import flat
from ragscore.frames.tables import shown_number
from ragscore.scoring.readings import HARNESSES, Reading

Row = list[str]
RANKS = ["rank_baseline", "rank_candidate"]
ROW = {
    "query_id": "query_id", "outcome": "kind", "rank_baseline": "a_hit_rank",
    "rank_candidate": "b_hit_rank", "note": "note",
}  # fmt: skip
KINDS = {"only_baseline": "only_a", "only_candidate": "only_b"}


@dataclass(frozen=True)
class HarnessComparison:
    """How one harness compares two runs.

    Attributes
    ----------
    levels, fallback_levels
        Its match levels, finest first, and those for runs of different chunkers.
    one_side_missing
        Queries that one run wasn't asked: "apart" (outcomes of their own), or "no_hit".
    outcomes
        Names of outcomes that differ from ours.
    markdown
        Key of its aggregates -> name in its Markdown report; empty: it has none.
    cuts_at_k
        True if hits below the run's k don't count.
    must_agree
        Keys of the config that both runs must share -> component of the provenance.
    """

    levels: tuple[str, ...]
    fallback_levels: tuple[str, ...]
    one_side_missing: str = "apart"
    outcomes: Mapping[str, str] = field(default_factory=dict)
    markdown: Mapping[str, str] = field(default_factory=dict)
    cuts_at_k: bool = False
    must_agree: Mapping[str, str] = field(default_factory=dict)


COMPARISONS = {
    "kebab": HarnessComparison(
        ("chunk", "doc"), ("doc",), "no_hit", {"both_miss": "draw", "no_target": "draw"},
        {
            "hit_at_k": "hit@{k}", "mrr": "MRR", "recall_at_k_doc": "recall@{k}_doc",
            "precision_at_k_chunk": "precision@{k}_chunk",
            "citation_coverage": "citation_coverage", "groundedness": "groundedness",
            "empty_result_rate": "empty_result_rate", "refusal_correctness": "refusal_correctness",
        },
    ),
    "rig": HarnessComparison(("doc",), ("doc",)),
    "seed-mcp": HarnessComparison(("predicate",), ("predicate",)),
    "trec": HarnessComparison(("doc",), ("doc",)),
    "chatbot": HarnessComparison(
        ("anchor",), ("anchor",), cuts_at_k=True,
        must_agree={
            "eval_set_commit_hash": "golden", "judge_model": "judge_fingerprint",
            "judge_prompt_version": "judge_fingerprint", "judge_temperature": "judge_fingerprint",
        },
    ),
}  # fmt: skip


def harness_outcomes(per_query: pd.DataFrame, harness: HarnessComparison) -> pd.DataFrame:
    """Name outcomes and note ranks as a profile's harness does, sorted by query id as there."""
    rows = per_query
    if harness.one_side_missing == "no_hit":
        hit_a, hit_b = (rows[name].notna() for name in RANKS)
        is_one_sided = rows["outcome"].isin(["only_baseline", "only_candidate"])
        as_hits = np.select([hit_b & ~hit_a, hit_a & ~hit_b], ["win", "regression"], "both_miss")
        rows = rows.assign(outcome=np.where(is_one_sided, as_hits, rows["outcome"]))
    rows = rows.assign(outcome=rows["outcome"].replace(harness.outcomes))
    first, second = (rows[name].astype("str") for name in RANKS)
    is_moved = rows["outcome"].isin(["win", "loss"]) & rows[RANKS].notna().all(axis=1)
    note = ("rank " + first + "→" + second).where(is_moved, "")
    note = note.mask(rows["outcome"].eq("regression"), "hit→miss")
    return rows.assign(note=note).sort_values("query_id", ignore_index=True)


def harness_report(cmp: Any, profile: Reading) -> dict[str, Any]:
    """Return the compare report of a profile's harness: aggregates, differences, every query."""
    a, b = cmp._aggregates[cmp.baseline], cmp._aggregates[cmp.candidate]
    harness = HARNESSES[profile.name]
    deltas, of_a, of_b = dict[str, Any](), flat(a), flat(b)
    for key in [one for one in of_a | of_b if one not in harness.totals]:
        pair: Any = (of_a.get(key), of_b.get(key))
        delta = None if None in pair else round_half_away(pair[1] - pair[0], harness.decimals)
        set_nested(deltas, key, delta)
    deltas["chunker_version_match"] = cmp._level.chunker_version_match
    rows = cmp.per_query[[*ROW]].rename(columns=ROW)
    notes = rows["note"].where(rows["note"] != "")
    return {
        "run_a": cmp.baseline, "run_b": cmp.candidate, "aggregate_a": a, "aggregate_b": b,
        "deltas": deltas,
        "per_query": records_of(rows.assign(kind=rows["kind"].replace(KINDS), note=notes)),
    }  # fmt: skip


def harness_table(report: dict[str, Any], profile: Reading) -> pd.DataFrame:
    """One row per aggregate as text: both runs and their difference; nested names are dotted."""
    names = {**flat(report["aggregate_a"]), **flat(report["aggregate_b"])}
    rows = _aggregates(report, profile, {key: key for key in names})
    return pd.DataFrame(rows, columns=["metric", "baseline", "candidate", "delta"])


def harness_markdown(report: dict[str, Any], profile: Reading, limit: int | None = None) -> str:
    """Return the aggregates of both runs, and every query with its outcome, draws included.

    With a `limit`, that many queries.
    """
    rows, kinds = report["per_query"], [row["kind"] for row in report["per_query"]]
    listed = rows if limit is None else rows[: max(limit, 0)]
    n_wins, n_losses, n_regressions = map(kinds.count, ("win", "loss", "regression"))
    names = {
        f"{key}.{k}" if "{k}" in name else key: name.format(k=k)
        for key, name in COMPARISONS[profile.name].markdown.items()
        for k in HARNESSES[profile.name].ks
    }
    lines = [
        f"# Eval compare: {markdown_code(report['run_a'])} vs {markdown_code(report['run_b'])}",
        "",
        "## Aggregate deltas",
        "",
        *_table(["metric", "a", "b", "Δ (b - a)"], _aggregates(report, profile, names)),
        "",
        f"chunker_version_match: `{report['deltas']['chunker_version_match']}`",
        "",
        f"## Wins ({n_wins}) / Losses ({n_losses}) / Regressions ({n_regressions})",
        "",
        *_table(["query_id", "kind", "rank_a", "rank_b", "note"], [_query(row) for row in listed]),
    ]
    if len(listed) < len(rows):
        lines += ["", f"{len(rows) - len(listed)} more are not listed."]
    return "\n".join(lines) + "\n"


def _aggregates(report: dict[str, Any], profile: Reading, names: dict[str, str]) -> list[Row]:
    """Return what these aggregates are called, both values and their difference."""
    a, b, deltas = (flat(report[side]) for side in ("aggregate_a", "aggregate_b", "deltas"))
    found, harness = [], HARNESSES[profile.name]
    for key, name in names.items():
        digits, delta = 0 if key in harness.totals else harness.decimals or 3, deltas.get(key)
        texts = [shown_number(side.get(key), digits) for side in (a, b)]
        # as that harness writes it: 0 has a sign, too
        texts.append("—" if pd.isna(delta) else f"{delta:+.{digits}f}")
        found.append([name, *texts])
    return found


def _query(row: dict[str, Any]) -> Row:
    ranks = ["—" if rank is None else str(rank) for rank in (row["a_hit_rank"], row["b_hit_rank"])]
    return [row["query_id"], row["kind"], *ranks, row["note"] or ""]


def _table(header: Row, rows: list[Row]) -> list[str]:
    def line(cells: Row) -> str:
        return "| " + " | ".join(map(markdown_cell, cells)) + " |"

    return [line(header), "|" + "---|" * len(header), *map(line, rows)]

"""The report of a comparison as another harness lays it out in Markdown.

In: the content of that harness's JSON report, and its profile. Out: text, byte for byte as there,
but that what Markdown would follow in a name is escaped.
"""

from typing import Any

import pandas as pd

from ragscore.frames.escaping import markdown_cell, markdown_code
from ragscore.frames.render import shown_number
from ragscore.scoring.profile_aggregates import get_nested
from ragscore.scoring.profiles import Profile

Row = list[str]


def harness_markdown(report: dict[str, Any], profile: Profile, limit: int | None = None) -> str:
    """Return the aggregates of both runs, and every query with its outcome, draws included.

    With a `limit`, that many queries.
    """
    rows, kinds = report["per_query"], [row["kind"] for row in report["per_query"]]
    listed = rows if limit is None else rows[: max(limit, 0)]
    n_wins, n_losses, n_regressions = map(kinds.count, ("win", "loss", "regression"))
    lines = [
        f"# Eval compare: {markdown_code(report['run_a'])} vs {markdown_code(report['run_b'])}",
        "",
        "## Aggregate deltas",
        "",
        *_table(["metric", "a", "b", "Δ (b - a)"], _aggregates(report, profile)),
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


def _aggregates(report: dict[str, Any], profile: Profile) -> list[Row]:
    """Return name, both values and their difference of every number that the layout shows."""
    sides = [report[name] for name in ("aggregate_a", "aggregate_b", "deltas")]
    found = []
    for key, name in profile.markdown.items():
        cuts = [f".{k}" for k in profile.ks] if "{k}" in name else [""]
        for cut in cuts:
            a, b, delta = (get_nested(side, key + cut) for side in sides)
            digits = profile.decimals or 3
            texts = [shown_number(a, digits), shown_number(b, digits)]
            # as that harness writes it: 0 has a sign, too
            texts.append("—" if pd.isna(delta) else f"{delta:+.{digits}f}")
            found.append([name.format(k=cut.removeprefix(".")), *texts])
    return found


def _query(row: dict[str, Any]) -> Row:
    ranks = ["—" if rank is None else str(rank) for rank in (row["a_hit_rank"], row["b_hit_rank"])]
    return [row["query_id"], row["kind"], *ranks, row["note"] or ""]


def _table(header: Row, rows: list[Row]) -> list[str]:
    def line(cells: Row) -> str:
        return "| " + " | ".join(map(markdown_cell, cells)) + " |"

    return [line(header), "|" + "---|" * len(header), *map(line, rows)]

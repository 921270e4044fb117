"""The report of a comparison that another harness wrote -> a `Comparison` of what it holds."""

from dataclasses import replace
from typing import Any

from ragscore.analysis.comparison.compare import NO_CUT, compare_runs
from ragscore.analysis.comparison.model import FRAMES, ONE_SIDED, OUTCOMES, Comparison
from ragscore.frames.data import DataError
from ragscore.frames.render import frame_of, require
from ragscore.io.load import load_golden, load_results
from ragscore.scoring.level import Level
from ragscore.scoring.profiles import COMPARE_JSON, Profile, find_profile

OF_A_HARNESS = "cmp.to_json(), or a comparison that the kebab harness wrote"
PER_QUERY_OF_A_HARNESS = {
    "query_id": "str", "kind": "str", "a_hit_rank": "Int64", "b_hit_rank": "Int64", "note": "str",
}  # fmt: skip


def comparison_of(report: dict[str, Any], profile: Profile | None) -> Comparison:
    """Return the comparison that a profile's harness reported; `to_json` writes such a report."""
    chosen = profile or find_profile(COMPARE_JSON)
    require(report, ("run_b", "aggregate_a", "aggregate_b", "deltas", "per_query"), OF_A_HARNESS)
    rows = frame_of(report["per_query"], PER_QUERY_OF_A_HARNESS, "per_query")
    kinds = rows["kind"].replace({word: outcome for outcome, word in ONE_SIDED.items()})
    if unknown := sorted(set(kinds) - set(OUTCOMES)):
        raise DataError(
            f"found {unknown[0]!r}", field="per_query.kind", allowed=", ".join(OUTCOMES[:4])
        )
    sides = [str(report["run_a"]), str(report["run_b"])]
    # The frames of a comparison of these runs; what they hold of hits isn't known, so they lose it.
    golden = load_golden({str(one): {"target": 1} for one in rows["query_id"]})
    runs: dict[str, Any] = {run: {str(one): [] for one in rows["query_id"]} for run in sides}
    cmp = compare_runs(load_results(runs), golden, *sides, metrics="hit@1")
    names = [name for name in FRAMES if name not in ("per_query", "config_diff")]
    match = report["deltas"].get("chunker_version_match", "exact")
    return replace(
        cmp,
        **{name: getattr(cmp, name).head(0) for name in names},
        per_query=cmp.per_query.set_index("query_id").loc[rows["query_id"]].reset_index().assign(
            outcome=kinds, rank_baseline=rows["a_hit_rank"], rank_candidate=rows["b_hit_rank"]
        ),
        level=Level("per_query", "", (), match),
        k=NO_CUT, primary=(), policies={}, profile=chosen,
        aggregates=dict(zip(sides, (report["aggregate_a"], report["aggregate_b"]), strict=True)),
        golden=None, scores=None, results=None,
    )  # fmt: skip

"""Coverage of golden sets by runs, to be read before any score.

`coverage` counts missing, failed, unlabelled and tied queries by run, and the ids by which hits and
targets could be joined.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.codes import codes_of, distinct, is_among, lookup, response_of
from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import plural
from ragscore.frames.ranking import tied
from ragscore.scoring.ids import COLUMN
from ragscore.scoring.rules import pairs_with_equal
from ragscore.scoring.targets import targets_at

ALWAYS_SHOWN = ("n_golden", "n_rows", "n_missing", "n_failed", "k")
# Up to so many runs are shown side by side, more below each other.
SIDE_BY_SIDE = 8


@dataclass(frozen=True, repr=False, eq=False)
class Coverage(FramesResult):
    """What a mean would silently leave out or distort, by run.

    Attributes
    ----------
    runs
        One row per run (index run_id): `n_golden` queries, `n_rows` responses; golden queries
        without a row (`n_missing`), rows without a golden query (`n_extra`), `n_failed`, `n_empty`
        (no hits, not failed); of the golden queries `n_unlabelled` and `n_should_refuse`; queries
        whose stored ranks contradict the list order (`n_rank_order`) or with tied scores
        (`n_ties`); `k`, the hits per query that the run says it kept (NA: unknown; metrics with a
        higher cut-off see no more hits); `n_cut`, hits whose text is cut, where an expected text
        may no longer be found. The judged share of the hits is the metric judged@k.
    ids
        One row per run and match level at which the golden set expects ids: `run_id`, `level`;
        `n_hits`; `n_with_id`, hits with an id of that level; `n_ids`, how many distinct ids these
        have; `n_expected_ids`, distinct ids that the golden set expects; `n_joined_ids`, how many
        of them the run ever returned, for whatever query; `n_joined_hits`, hits whose own query
        expects their id. Counts are 0 or more; a level with 0 joined ids scores 0.
    issues
        The queries behind the counts, one row per finding: run_id, query_id and `issue`: missing,
        extra, empty, rank order, ties.
    """

    runs: pd.DataFrame
    ids: pd.DataFrame
    issues: pd.DataFrame

    def _heading(self) -> str:
        n = self.runs["n_golden"].max() if len(self.runs) else 0
        return f"Coverage of {n} golden queries by {plural(len(self.runs), 'run')}"

    def _shown(self) -> pd.DataFrame:
        """Return what is always shown, what isn't 0 for all runs, and the ids by level."""
        counts = [
            name for name in self.runs if name in ALWAYS_SHOWN or self.runs[name].fillna(0).any()
        ]
        table = self.runs[counts].astype("object").where(self.runs[counts].notna(), "—")
        for level, rows in self.ids.groupby("level", sort=False):
            by_run = rows.set_index("run_id").astype("str").reindex(table.index)
            table[f"hits with an id ({level})"] = by_run["n_with_id"] + " of " + by_run["n_hits"]
            joined = by_run["n_joined_ids"] + " of " + by_run["n_expected_ids"]
            table[f"expected ids returned ({level})"] = joined
        if len(table) > SIDE_BY_SIDE:
            return table.reset_index()
        return table.T.rename_axis(index=None, columns=None).reset_index(names="")


def coverage(results: Results, golden: Golden) -> Coverage:
    """Count, by run, the queries and ids that a mean would silently leave out or distort."""
    issues, hits = _issues(results, golden), results.hits
    run_ids = results.runs["run_id"].cat.categories
    counts = pd.crosstab(issues["run_id"], issues["issue"]).reindex(run_ids, fill_value=0)
    of_run = results.responses.groupby("run_id", observed=False)
    is_cut = hits.get("text_cut", pd.Series(False, hits.index)).fillna(False).astype(bool)
    columns = {
        "n_golden": len(golden.queries),
        "n_rows": of_run.size(),
        "n_missing": counts.get("missing", 0),
        "n_extra": counts.get("extra", 0),
        "n_failed": of_run["error"].count(),
        "n_empty": counts.get("empty", 0),
        "n_unlabelled": int(golden.queries["answerable"].isna().sum()),
        "n_should_refuse": len(golden._refusals),
        "n_rank_order": counts.get("rank order", 0),
        "n_ties": counts.get("ties", 0),
        "k": results.runs.set_index("run_id").reindex(columns=["k"])["k"].astype("Int64"),
        "n_cut": is_cut.groupby(hits["run_id"], observed=False).sum(),
    }
    runs = pd.DataFrame(columns, index=counts.index).rename_axis("run_id")
    return Coverage(runs, _ids(hits, golden), issues)


def _issues(results: Results, golden: Golden) -> pd.DataFrame:
    """Return the queries behind the counts of `coverage`; see `Coverage.issues`."""
    responses, hits, pair = results.responses, results.hits, ["run_id", "query_id"]
    query_ids, asked = golden.queries["query_id"], responses[pair].astype("str")
    runs = results.runs["run_id"].astype("str").tolist()
    every = pd.MultiIndex.from_product([runs, query_ids], names=pair)
    missing = every[~every.isin(pd.MultiIndex.from_frame(asked))].to_frame(index=False)
    response = response_of(hits, responses)
    has_hits = np.bincount(response[response >= 0], minlength=len(responses)) > 0
    # one number for each list of hits
    query = lookup(hits["query_id"], distinct(hits["query_id"]))
    cell = codes_of(hits["run_id"]).astype(np.int64) * (query.max(initial=0) + 1) + query
    is_late = hits["rank"].groupby(cell).diff().lt(0)
    parts = {
        "missing": missing,
        "extra": asked[~is_among(asked["query_id"], query_ids)],
        "empty": asked[~has_hits & responses["error"].isna().to_numpy()],
        "rank order": hits.loc[is_late, pair].drop_duplicates(),
        "ties": hits.loc[tied(cell, hits), pair].drop_duplicates(),
    }
    rows = [part.astype("str").assign(issue=issue) for issue, part in parts.items()]
    order = pd.CategoricalDtype(runs, ordered=True)
    table = pd.concat(rows, ignore_index=True).astype({"run_id": order})
    table = table.sort_values(["run_id", "issue"], kind="stable", ignore_index=True)
    return table.astype({"run_id": "str"})


def _ids(hits: pd.DataFrame, golden: Golden) -> pd.DataFrame:
    """Count the ids of hits, the expected ids, and those that both have, by run and level."""
    parts = []
    for level, column in COLUMN.items():
        targets = targets_at(golden, level).targets
        wanted = distinct(targets[column].dropna()) if column in targets else pd.Index([])
        if len(wanted):
            ids = hits[column] if column in hits else pd.Series(pd.NA, hits.index, dtype="str")
            is_joined = pd.Series(False, hits.index)
            is_joined.iloc[pairs_with_equal(hits, targets, column)[0]] = True
            known = ids.where(is_among(ids, wanted))
            run = hits["run_id"]
            of_ids = ids.groupby(run, observed=False)
            parts.append(pd.DataFrame({
                "level": level, "n_hits": of_ids.size(), "n_with_id": of_ids.count(),
                "n_ids": of_ids.nunique(), "n_expected_ids": len(wanted),
                "n_joined_ids": known.groupby(run, observed=False).nunique(),
                "n_joined_hits": is_joined.groupby(run, observed=False).sum(),
            }))  # fmt: skip
    if not parts:
        return pd.DataFrame(columns=["run_id", "level"])
    found = pd.concat(parts).sort_index(kind="stable").rename_axis("run_id").reset_index()
    return found.astype({"run_id": "str", "level": "str"})

"""The comparison of two runs: its frames, how it is shown, and its JSON form, which reloads.

In: the frames that `compare_runs` made. Out: text, HTML, JSON. Nothing is computed here.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.profile_report import (
    COMPARISONS,
    harness_markdown,
    harness_report,
    harness_table,
)
from ragscore.analysis.comparison.text import (
    changed_queries,
    describe_matching,
    lost_values,
    one_sided,
    shown_deltas,
)
from ragscore.analysis.slices import MIN_N, SliceComparison, compare_slices
from ragscore.frames.data import DataError
from ragscore.frames.escaping import json_text
from ragscore.frames.tables import SIGNS, TINTS, Display, Notes, Table, dump, reload
from ragscore.frames.verbs import Accessor, ComparisonVerbs
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.policies import Policies
from ragscore.scoring.readings import READINGS, Reading
from ragscore.scoring.rows import Rows
from ragscore.stats.verdicts import overall_word

OUTCOMES = (
    "win", "loss", "regression", "draw", "both_miss", "no_target", "only_baseline",
    "only_candidate",
)  # fmt: skip
NO_RANKS = {
    "no_target": "queries in both", "only_baseline": "in the baseline alone",
    "only_candidate": "in the candidate alone",
}  # fmt: skip
"""Outcomes without a rank -> how they are counted where there is no other."""
OWN_JSON = "cmp.to_json(), with a profile cmp.to_json(own=True)"


class Counts(dict[str, int]):
    """Number by outcome, 0 for an outcome that is not listed."""

    def __missing__(self, outcome: str) -> int:
        return 0


@dataclass(frozen=True, repr=False, kw_only=True)
class RankChanges:
    """What changed between the ranks of two runs: what a `Comparison` has without any test."""

    baseline: str
    candidate: str
    per_query: pd.DataFrame
    targets: pd.DataFrame
    invariants: pd.DataFrame
    config_diff: pd.DataFrame
    _level: Level
    _k: int
    _profile: Reading | None = None
    _policies: dict[str, Any] = field(default_factory=dict)
    _rows: Rows | None = field(default=None, compare=False)

    @property
    def _harness(self) -> Reading | None:
        """The profile whose harness has a report of its own; a reading of one's own has none."""
        return self._profile if self._profile and self._profile.name in COMPARISONS else None

    @property
    def counts(self) -> dict[str, int]:
        """Number of queries by outcome; an outcome that no query had is not listed, and is 0."""
        found = self.per_query["outcome"].value_counts()
        return Counts({outcome: int(found[outcome]) for outcome in OUTCOMES if outcome in found})


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(RankChanges, ComparisonVerbs, Display):
    """A candidate against a baseline.

    Attributes
    ----------
    deltas
        One row per metric.

        - `baseline` and `candidate`, the means over the `n` queries where both have a value (of
          times and costs the medians: `statistic`); `delta`, their difference, with its interval
          `low`, `high`.
        - Metrics that decide (`is_primary`): their intervals hold together in 95 % of cases, and
          the `verdict` is better or worse where the interval leaves out 0, else can't tell. All
          others have a 95 % interval of their own and `p`, and no verdict.
        - `low_95`, `high_95`: each metric's own 95 % interval, for `gate(rule="interval")`.
        - `detectable`: about the true difference that so many queries find 4 times in 5.
        - `n_better`, `n_worse`, `n_same` queries; `skewness` of the differences; `caution` if a few
          queries carry the mean.
        - `n_lost` values of the baseline have none in the candidate, because it failed or was not
          asked. `n_expected_baseline` and `n_expected_candidate` values were expected on either
          side (see `ev.explain`).
    aspects
        One row per aspect that decides: its primary `metrics`, `verdict` and `sentence`. The two
        metrics of refusals are judged jointly: refusing less trades one for the other.
    per_query
        One row per query that either run has: `outcome`, first ranks `rank_baseline`,
        `rank_candidate` (NA: no hit), `n_gained` and `n_lost` targets with their names in `gained`,
        `lost`, a `note`, and `rbo`, the rank-biased overlap of both rankings
        (0 to 1; NaN where a side has no hits). `state_baseline` and
        `state_candidate`: how it ended (scored, failed, missing).
    targets
        One row per target that either run found: its ranks and `change` (gained, lost, moved,
        same).
    invariants, config_diff
        One row per fact that should be equal (state: equal, differs, unknown), and one row per
        config key that differs (with `vary=`, `declared` is True if it was meant to).
    flips
        One row per answer metric (0/1, or what a judge measured) and query that went from good to
        bad (kind: regression) or back (improvement), with both values `baseline`, `candidate` and
        the limits: worse than `bad` is bad, `good` and better is good.
    confidence
        Of each interval of a metric that decides.
    """

    deltas: pd.DataFrame
    flips: pd.DataFrame
    # of metrics that decide, but 0/1: the three queries that lost most, and that gained most
    _largest_changes: pd.DataFrame
    _aggregates: dict[str, dict[str, Any]]
    aspects: pd.DataFrame
    _primary: tuple[str, ...]
    _tails: pd.DataFrame  # one row per time or cost: the 95th percentiles of both sides
    confidence: float = 0.95
    _among: str = ""  # what all pairs of several runs leave of the overall word
    _declared: MetricTable = TABLE
    _clusters: str = ""
    _averaged: str = ""  # of which systems the repeats are averaged
    _scores: pd.DataFrame | None = field(default=None, compare=False)

    plot = Accessor("ragscore.plot.accessor:COMPARISON")

    def slices(
        self,
        by: str | Sequence[str],
        metrics: list[str] | str | None = None,
        *,
        cluster: str | None = "group",
        min_n: int = MIN_N,
    ) -> SliceComparison:
        """Compare the two runs slice by slice.

        Parameters
        ----------
        by
            As `by` of `ev.summary`: a name or several. "mode" slices by the responses' mode, on the
            queries that both runs answered in the same one; the others are counted.
        metrics
            Some of those compared; by default the primary ones.
        cluster, min_n
            As for `ev.slices`.

        Returns
        -------
        A `SliceComparison`: differences with their intervals.

        Raises
        ------
        DataError
            An unknown name or metric; a comparison that was reloaded from JSON.

        Examples
        --------
        >>> ev.compare("dense", "hybrid").slices("difficulty", "hit@5")
        """
        rows, scores = self._evaluated
        chosen = list(self._primary) if metrics is None else metrics
        return compare_slices(
            scores, rows.golden, by, self.baseline, self.candidate, chosen, rows=rows,
            cluster=cluster, min_n=min_n, declared=self._declared,
        )  # fmt: skip

    @property
    def _evaluated(self) -> tuple[Rows, pd.DataFrame]:
        """What is known of each row of the scoring, and the scores of both runs.

        Raises
        ------
        DataError
            The comparison was reloaded from JSON, which doesn't hold them.
        """
        if self._rows is None or self._scores is None:
            raise DataError(
                "a comparison from JSON holds no scores, hits and answers",
                field="scores",
                allowed="rs.evaluate(results, golden).compare(baseline, candidate)",
            )
        return self._rows, self._scores

    @property
    def overall(self) -> str:
        """One word over the primary metrics, aspect by aspect (`aspects`).

        better or worse (some aspect is, and none is the opposite), mixed, can't tell.
        """
        return overall_word(self.aspects["verdict"].tolist())

    def to_markdown(self, limit: int | None = None) -> str:
        """Return the comparison as Markdown.

        What it shows, what differs between the runs, the largest changes of what decides, which
        answers flipped, and every query that changed; of each the first `limit` rows. With a
        profile: what that harness reports, in its own layout where it has one (kebab: every query,
        draws included).
        """
        if self._harness and COMPARISONS[self._harness.name].markdown:
            return harness_markdown(harness_report(self, self._harness), self._harness, limit)
        changed, parts = self.changed(), [super().to_markdown()]
        tables = {f"Queries that changed ({len(changed)})": changed}
        if not self._harness:
            tables = {
                "What differs between the runs": self.config_diff,
                "Largest changes": self._largest_changes,
                f"Answers that flipped ({len(self.flips)})": self.flips,
            } | tables
        for name, table in tables.items():
            listed = table if limit is None else table.head(max(limit, 0))
            if len(listed):
                parts.append(Table(listed, name).to_markdown() + "\n")
            if len(listed) < len(table):
                parts.append(f"{len(table) - len(listed)} more are not listed.\n")
        return "\n".join(parts)

    def to_json(self, *, own: bool = False) -> str:
        """Return the comparison as JSON, NaN as null.

        With a profile this is the report of that harness, of which `from_json` reloads the kebab
        harness's; with `own` it is the comparison itself.
        """
        if self._harness and not own:
            return json_text(harness_report(self, self._harness))
        before = self.deltas["baseline"]
        per_cent = 100 * self.deltas["delta"] / before.where(before != 0)
        return dump(
            self, deltas=self.deltas.assign(delta_pct=per_cent), level=asdict(self._level),
            chunker_version_match=self._level.chunker_version_match, counts=self.counts,
            overall=self.overall, profile=self._profile and self._profile.name,
            scores=None, rows=None,
        )  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> "Comparison":
        """Reload the comparison that `to_json` wrote: frames, level, policies, and profile by name.

        Raises
        ------
        DataError
            No JSON, or the report of a harness (write it with `to_json(own=True)`).
        """
        found = reload(cls, text, OWN_JSON)
        parts: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in found._level.items()
        }
        name: Any = found._profile
        return replace(
            found, _profile=READINGS.get(name, Reading(name)) if name else None,
            _level=Level(**parts), deltas=found.deltas.drop(columns="delta_pct"),
        )  # fmt: skip

    def changed(self) -> pd.DataFrame:
        """One row per query that changed, by outcome from regression on; ranks are text."""
        return changed_queries(self.per_query)

    def _headline(self) -> str:
        """Return the number of queries by outcome, the match level, and unusual policies."""
        words = NO_RANKS if {*self.counts} <= {*NO_RANKS} else {}
        counts = ", ".join(f"{n} {words.get(name, name)}" for name, n in self.counts.items())
        matching = (
            "" if words else describe_matching(self._level, None if self._harness else self._k)
        )
        changed = ", ".join(
            f"{name}={value}"
            for name, value in self._policies.items()
            if name != "match" and value != getattr(Policies(), name)
        )
        parts = [
            f"{counts}.",
            matching,
            changed and f"Scored with {changed}.",
            self._clusters,
            self._averaged,
        ]
        return " ".join(filter(None, parts))

    @cached_property
    def _shown(self) -> tuple[pd.DataFrame, str]:
        """The table of metrics for display, and the note below it."""
        if self._harness:
            return harness_table(harness_report(self, self._harness), self._harness), ""
        return shown_deltas(self.deltas, self.confidence)

    def _words(self) -> list[str]:
        """Return the overall word with that among all runs, then a line for each aspect.

        Another harness has none.
        """
        if self._harness:
            return []
        of_aspects = self.aspects[["aspect", "verdict", "sentence"]].to_numpy().tolist()
        return [
            f"{self.overall}{self._among}",
            *(f"{of}: {word} ({why})" for of, word, why in of_aspects),
        ]

    def notes(self) -> Notes:
        """Return in lines the outcomes, how they were matched, and how to read the table."""
        is_named = self.invariants["state"].eq("differs") & self.invariants["name"].ne("mode")
        differing = self.invariants.loc[is_named, "name"].unique()  # a mode may be what is compared
        note = f"The runs differ in {', '.join(differing)}: see .invariants."
        lines = [self._headline(), *[note] * bool(len(differing)), *self._shown[1].splitlines()]
        return Notes("\n".join(lines))

    def _parts(self) -> list[str | Table]:
        title = f"{self.candidate} (candidate) against {self.baseline} (baseline)"
        (shown, note), words = self._shown, self._words()
        if words:
            title = f"{SIGNS[self.overall]} {words[0]}: {title}"
        if not len(shown):
            overlap = self.per_query["rbo"].mean()
            more = f" Their rankings overlap by {overlap:.2f} (RBO; 1: the same)."
            return [title, note + (more if overlap >= 0 else ""), Notes(self._headline())]
        # an aspect of several metrics has a word of its own
        of_metrics = zip(words[1:], self.aspects["metrics"], strict=False)
        joint = [line for line, metrics in of_metrics if "," in metrics]
        notes = [*lost_values(self.deltas), *one_sided(self.deltas), *joint]
        return [title, Table(shown), *notes, self.notes()]

    def _tint(self) -> str:
        return "" if self._harness else TINTS.get(self.overall, "")

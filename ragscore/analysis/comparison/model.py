"""The comparison of two runs: its frames, how it is shown, and its JSON form, which reloads.

In: the frames that `compare_runs` made. Out: text, HTML, JSON. Only the report of another harness
is computed here: with a profile, its aggregates and their differences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.profile_report import harness_markdown
from ragscore.analysis.comparison.text import (
    changed_queries,
    describe_matching,
    lost_values,
    one_sided,
    shown_deltas,
    shown_flips,
    shown_largest_changes,
)
from ragscore.analysis.slices import MIN_N, SliceComparison, compare_slices
from ragscore.frames.config import flat
from ragscore.frames.data import DataError, Golden, Results, records_of
from ragscore.frames.errors import plural
from ragscore.frames.escaping import json_text, markdown_line, markdown_paragraph
from ragscore.frames.render import dtypes_of, frame_of, parse, require, rows_of, shown_number
from ragscore.frames.tables import TINTS, Display, Notes, Table, with_sign
from ragscore.frames.verbs import Accessor, ComparisonVerbs
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.policies import Policies
from ragscore.scoring.profile_aggregates import get_nested, round_half_away, set_nested
from ragscore.scoring.profiles import Profile, find_profile
from ragscore.scoring.rules import Rule
from ragscore.stats.verdicts import overall_word

OUTCOMES = (
    "win", "loss", "regression", "draw", "both_miss", "no_target", "only_baseline",
    "only_candidate",
)  # fmt: skip
ONE_SIDED = {"only_baseline": "only_a", "only_candidate": "only_b"}
"""Outcome -> its word in the reports of other harnesses."""


FRAMES = (
    "deltas", "aspects", "per_query", "targets", "invariants", "config_diff", "flips",
    "largest_changes", "tails",
)  # fmt: skip


def count_outcomes(per_query: pd.DataFrame) -> dict[str, int]:
    """Return the number of queries by outcome, without outcomes that no query had."""
    found = per_query["outcome"].value_counts()
    return {outcome: int(found[outcome]) for outcome in OUTCOMES if outcome in found}


@dataclass(frozen=True, repr=False)
class Comparison(ComparisonVerbs, Display):
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
        (`results.rank_overlap`, 0 to 1; NaN where a side has no hits). `state_baseline` and
        `state_candidate`: how it ended (scored, failed, missing).
    targets
        One row per target that either run found: its ranks and `change` (gained, lost, moved,
        same).
    invariants, config_diff
        One row per fact that should be equal (state: equal, differs, unknown), and one row per
        config key that differs (with `vary=`, `declared` tells if it was meant to).
    flips
        One row per answer metric (0/1, or what a judge measured) and query that went from good to
        bad (kind: regression) or back (improvement), with both values `baseline`, `candidate` and
        the limits: worse than `bad` is bad, `good` and better is good.
    primary
        The metrics that decide.
    declared
        Direction and range of columns of your own, as the evaluation had them declared.
    largest_changes
        Largest changes: the three queries that lost most and the three that gained most in every
        metric that isn't 0/1, with `baseline`, `candidate`, `delta`, kind.
    policies
        How both runs were scored: the fields of `rs.Policies`.
    tails
        One row per time or cost: `p95_baseline`, `p95_candidate`.
    confidence
        Of each interval of a metric that decides.
    among
        The overall word where all pairs of the `n_runs` runs are asked about, of which these two
        were taken; empty if they are two.
    clusters
        How many conversations intervals allow for, in words; empty without any.
    golden, scores, results, rule
        What slices and some pictures are made of; not part of the JSON.
    """

    baseline: str
    candidate: str
    deltas: pd.DataFrame
    per_query: pd.DataFrame
    targets: pd.DataFrame
    invariants: pd.DataFrame
    config_diff: pd.DataFrame
    flips: pd.DataFrame
    largest_changes: pd.DataFrame
    level: Level
    k: int
    aggregates: dict[str, dict[str, Any]]
    aspects: pd.DataFrame
    primary: tuple[str, ...]
    profile: Profile | None = None
    policies: dict[str, Any] = field(default_factory=dict)
    tails: pd.DataFrame = field(default_factory=pd.DataFrame)
    confidence: float = 0.95
    among: str = ""
    n_runs: int = 2
    declared: Declarations = NOTHING_DECLARED
    clusters: str = ""
    golden: Golden | None = field(default=None, repr=False, compare=False)
    scores: pd.DataFrame | None = field(default=None, repr=False, compare=False)
    results: Results | None = field(default=None, repr=False, compare=False)
    rule: Rule | None = field(default=None, repr=False, compare=False)

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
            As for `golden.slices`: a name or several. "mode" slices by the responses' mode, on the
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
        golden, scores = self._evaluated
        chosen = list(self.primary) if metrics is None else metrics
        return compare_slices(
            scores, golden, by, self.baseline, self.candidate, chosen, results=self.results,
            cluster=cluster, min_n=min_n, declared=self.declared,
        )  # fmt: skip

    @property
    def _evaluated(self) -> tuple[Golden, pd.DataFrame]:
        """The golden set and the scores of both runs.

        Raises
        ------
        DataError
            The comparison was reloaded from JSON, which doesn't hold them.
        """
        if self.golden is None or self.scores is None:
            raise DataError(
                "a comparison from JSON holds no scores",
                field="scores",
                allowed="rs.evaluate(results, golden).compare(baseline, candidate)",
            )
        return self.golden, self.scores

    @property
    def counts(self) -> dict[str, int]:
        """Number of queries by outcome; outcomes that no query had are left out."""
        return count_outcomes(self.per_query)

    @property
    def overall(self) -> str:
        """One word over the primary metrics, aspect by aspect (`aspects`).

        better or worse (some aspect is, and none is the opposite), mixed, can't tell.
        """
        return overall_word(self.aspects["verdict"].tolist())

    def to_markdown(self, limit: int | None = None) -> str:
        """Return the comparison as Markdown.

        Metrics, what differs between the runs, which answers flipped, and every query that changed,
        or the first `limit`. With a profile: what that harness reports, in its own layout where it
        has one (kebab: every query, draws included).
        """
        if self.profile and self.profile.markdown:
            return harness_markdown(_profile_report(self, self.profile), self.profile, limit)
        shown, note = self.shown()
        parts = [
            f"# {markdown_line(f'{self.candidate} against {self.baseline}')}",
            *map(markdown_paragraph, [f"Overall: {self._overall()}"] * (not self.profile)),
            *map(markdown_paragraph, self._aspect_lines()),
            markdown_paragraph(self._headline()),
            *([Table(shown).to_markdown()] if len(shown) else []),
            *map(markdown_paragraph, [*note.splitlines(), *lost_values(self.deltas)]),
        ]
        if not self.profile:
            if len(self.config_diff):
                parts += ["## What differs between the runs", Table(self.config_diff).to_markdown()]
            if len(self.largest_changes):
                largest = shown_largest_changes(self.deltas, self.largest_changes)
                parts += ["## Largest changes", Table(largest).to_markdown()]
            if len(self.flips):
                flipped = shown_flips(self.flips)
                parts += ["## Answers that flipped", Table(flipped).to_markdown()]
        changed = self.changed()
        listed = changed if limit is None else changed.head(max(limit, 0))
        parts += [
            f"## Queries that changed ({len(changed)})",
            Table(listed).to_markdown() if len(changed) else "None.",
        ]
        if len(listed) < len(changed):
            parts.append(f"{len(changed) - len(listed)} more are not listed.")
        return "\n\n".join(parts) + "\n"

    def to_json(self, *, own: bool = False) -> str:
        """Return the comparison as JSON, NaN as null.

        With a profile this is the report of that harness, of which `from_json` reloads the kebab
        harness's; with `own` it is the comparison itself.
        """
        if self.profile and not own:
            content = _profile_report(self, self.profile)
        else:
            content = _own_report(self)
        return json_text(content)

    @classmethod
    def from_json(cls, text: str, profile: Profile | None = None) -> "Comparison":
        """Reload the comparison that `to_json` wrote: frames, level, policies, and profile by name.

        Parameters
        ----------
        profile
            The profile itself, if it is not one of the library's.

        Raises
        ------
        DataError
            No JSON, the report of a harness (write it with `to_json(own=True)`), or a profile that
            isn't known.
        """
        return _from_content(parse(text, "cmp.to_json()"), profile)

    def changed(self) -> pd.DataFrame:
        """One row per query that changed, by outcome from regression on; ranks are text."""
        if self.profile is None:
            return changed_queries(self.per_query)
        notes = [_profile_note(row) or "" for row in records_of(_profile_ranks(self.per_query))]
        return changed_queries(self.per_query.assign(note=notes, n_gained=0, n_lost=0)).drop(
            columns=["gained", "lost"]
        )

    def _headline(self) -> str:
        """Return the number of queries by outcome, the match level, and unusual policies."""
        counts = ", ".join(f"{n} {outcome}" for outcome, n in self.counts.items())
        matching = describe_matching(self.level, None if self.profile else self.k)
        if {*self.counts} <= {"no_target", "only_baseline", "only_candidate"}:
            # without any target there is no rank to speak of
            alone = [
                (self.counts.get(f"only_{side}", 0), side) for side in ("baseline", "candidate")
            ]
            only = "".join(f", {n} in the {side} alone" for n, side in alone if n)
            n_both = self.counts.get("no_target", 0)
            counts, matching = f"{plural(n_both, 'query')} in both{only}", ""
        changed = ", ".join(
            f"{name}={value}"
            for name, value in self.policies.items()
            if name != "match" and value != getattr(Policies(), name)
        )
        scored = f"Scored with {changed}." if changed else ""
        return " ".join(filter(None, [f"{counts}.", matching, scored, self.clusters]))

    def shown(self) -> tuple[pd.DataFrame, str]:
        """Return the table of metrics for display, and the note below it."""
        if self.profile:
            return _profile_table(self, self.profile), ""
        return shown_deltas(self.deltas, self.confidence)

    def _overall(self) -> str:
        """Return the overall word, and that among all runs; another harness has none."""
        if self.profile:
            return ""
        more = f"; among all {self.n_runs} runs: {self.among}" if self.among else ""
        return f"{self.overall}{more}"

    def _aspect_lines(self) -> list[str]:
        """Return the word of each aspect and what it rests on, where there are several."""
        if self.profile:
            return []
        return [
            f"{row.aspect}: {row.verdict} ({row.sentence})" for row in self.aspects.itertuples()
        ]

    def _trades(self) -> list[str]:
        """Return the lines of aspects whose word is not that of each of their metrics."""
        joint = self.aspects["metrics"].str.contains(",")
        return [
            line for line, is_joint in zip(self._aspect_lines(), joint, strict=False) if is_joint
        ]

    def notes(self) -> Notes:
        """Return in lines the word of each aspect, the outcomes, and how to read the table."""
        return Notes("\n".join([self._headline(), *self.shown()[1].splitlines()]))

    def _parts(self) -> list[str | Table]:
        title = f"{self.candidate} (candidate) against {self.baseline} (baseline)"
        if not self.profile:
            title = (
                f"{with_sign(self.overall)}{self._overall().removeprefix(self.overall)}: {title}"
            )
        shown, note = self.shown()
        if not len(shown):
            overlap = self.per_query["rbo"].mean()
            more = f" Their rankings overlap by {overlap:.2f} (RBO; 1: the same)."
            return [title, note + (more if overlap >= 0 else ""), Notes(self._headline())]
        told = [*lost_values(self.deltas), *one_sided(self.deltas), *self._trades()]
        return [title, Table(shown), *told, self.notes()]

    def _tint(self) -> str:
        return "" if self.profile else TINTS.get(self.overall, "")


def _own_report(cmp: Comparison) -> dict[str, Any]:
    """Content of the JSON that `from_json` reloads."""
    content: dict[str, Any] = {
        "baseline": cmp.baseline,
        "candidate": cmp.candidate,
        "match": cmp.level.name,
        "chunker_version_match": cmp.level.chunker_version_match,
        "k": cmp.k,
        "left_out": cmp.level.left_out,
        "policies": cmp.policies,
        "counts": cmp.counts,
        "primary": list(cmp.primary),
        "declared": cmp.declared.to_plain(),
        "overall": cmp.overall,
        "clusters": cmp.clusters,
        "confidence": cmp.confidence,
        "among": cmp.among,
        "n_runs": cmp.n_runs,
    }
    content |= {name: rows_of(getattr(cmp, name)) for name in FRAMES}
    for row in content["deltas"]:
        row["delta_pct"] = None if not row["baseline"] else 100 * row["delta"] / row["baseline"]
    return content | {
        "profile": cmp.profile.name if cmp.profile else None,
        "joinable": list(cmp.level.joinable),
        "aggregates": cmp.aggregates,
        "dtypes": {name: dtypes_of(getattr(cmp, name)) for name in FRAMES},
    }


def _from_content(content: Any, profile: Profile | None) -> Comparison:
    """Rebuild a comparison from the content of its JSON."""
    names = (
        "baseline", "candidate", "match", "left_out", "joinable", "chunker_version_match", "k",
        "policies", "aggregates", "profile", "dtypes", "primary", "declared", "clusters",
        "confidence", "among", "n_runs",
    )  # fmt: skip
    require(content, (*names, *FRAMES), "cmp.to_json(), with a profile cmp.to_json(own=True)")
    if profile is not None and profile.name != content["profile"]:
        raise DataError(
            f"found {profile.name!r}",
            field="profile",
            allowed=f"the profile that was compared with, {content['profile']!r}",
        )
    for row in content["deltas"]:
        row.pop("delta_pct", None)  # it follows from the others
    frames: dict[str, Any] = {
        name: frame_of(content[name], content["dtypes"].get(name), name) for name in FRAMES
    }
    return Comparison(
        baseline=content["baseline"],
        candidate=content["candidate"],
        **frames,
        level=Level(
            content["match"],
            content["left_out"],
            tuple(content["joinable"]),
            content["chunker_version_match"],
        ),
        k=content["k"],
        aggregates=content["aggregates"],
        profile=profile or find_profile(content["profile"]),
        policies=content["policies"],
        primary=tuple(content["primary"]),
        declared=Declarations.from_plain(content["declared"]),
        **{name: content[name] for name in ("clusters", "confidence", "among", "n_runs")},
    )


def _profile_report(cmp: Comparison, profile: Profile) -> dict[str, Any]:
    """Return the compare report of a profile's harness: aggregates, differences, every query."""
    a, b = cmp.aggregates[cmp.baseline], cmp.aggregates[cmp.candidate]
    decimals = profile.decimals
    deltas: dict[str, Any] = {}
    for key in profile.aggregate:
        of_a, of_b = get_nested(a, key), get_nested(b, key)
        if isinstance(of_a, dict):
            set_nested(deltas, key, {k: _difference(of_a[k], of_b[k], decimals) for k in of_a})
        elif key not in profile.omit_if_none or of_a is not None or of_b is not None:
            set_nested(deltas, key, _difference(of_a, of_b, decimals))
    deltas["chunker_version_match"] = cmp.level.chunker_version_match
    ranks = records_of(_profile_ranks(cmp.per_query))
    return {
        "run_a": cmp.baseline,
        "run_b": cmp.candidate,
        "aggregate_a": a,
        "aggregate_b": b,
        "deltas": deltas,
        "per_query": [{**row, "note": _profile_note(row)} for row in ranks],
    }


def _profile_ranks(per_query: pd.DataFrame) -> pd.DataFrame:
    rows = per_query[["query_id", "outcome", "rank_baseline", "rank_candidate"]]
    return rows.assign(outcome=rows["outcome"].replace(ONE_SIDED)).rename(
        columns={"outcome": "kind", "rank_baseline": "a_hit_rank", "rank_candidate": "b_hit_rank"}
    )


def _profile_table(cmp: Comparison, profile: Profile) -> pd.DataFrame:
    """One row per aggregate of a profile, as text: both runs and their difference.

    Names of nested aggregates are dotted.
    """
    report = _profile_report(cmp, profile)
    a, b, deltas = (flat(report[name]) for name in ("aggregate_a", "aggregate_b", "deltas"))
    rows = []
    for key in dict.fromkeys([*a, *b]):
        digits = 0 if key in profile.totals else profile.decimals or 3
        values = [shown_number(side.get(key), digits) for side in (a, b)]
        rows.append([key, *values, shown_number(deltas.get(key), digits, signed=True)])
    return pd.DataFrame(rows, columns=["metric", "baseline", "candidate", "delta"])


def _profile_note(row: dict[str, Any]) -> str | None:
    before, after = row["a_hit_rank"], row["b_hit_rank"]
    if row["kind"] == "regression":
        return "hit→miss"
    is_moved = row["kind"] in ("win", "loss") and before is not None and after is not None
    return f"rank {before}→{after}" if is_moved else None


def _difference(a: float | None, b: float | None, decimals: int | None) -> float | None:
    return None if a is None or b is None else round_half_away(b - a, decimals)

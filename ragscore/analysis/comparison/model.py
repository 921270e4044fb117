"""What a comparison of two runs holds, how it is shown, and its JSON form, which reloads.

In: the frames that `compare_runs` made. Out: text, HTML, JSON. Computes nothing but a profile's own
report.
"""

import json
from dataclasses import dataclass, field
from html import escape
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.deltas import UNTESTED
from ragscore.analysis.comparison.text import (
    changed_queries,
    describe_matching,
    shown_deltas,
    shown_flips,
    shown_moves,
    shown_tails,
)
from ragscore.frames.config import flat
from ragscore.frames.data import DataError, records_of
from ragscore.frames.render import (
    dtypes_of,
    frame_of,
    markdown_table,
    parse,
    require,
    rows_of,
    shown_number,
)
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import HEADLINE, parse_label
from ragscore.scoring.policies import POLICIES
from ragscore.scoring.profile_aggregates import get_nested, round_half_away, set_nested
from ragscore.scoring.profiles import Profile, find_profile

OUTCOMES = ("win", "loss", "regression", "draw", "both_miss", "no_target", "only_a", "only_b")

FRAMES = ("deltas", "per_query", "targets", "invariants", "config_diff", "flips", "movers")
LATER = {
    "flips": ("metric", "query_id", "a", "b", "kind"),
    "movers": ("metric", "query_id", "a", "b", "delta", "kind"),
}
"""Frames that JSON of before version 0.1.0 may lack -> their columns."""
NEEDED = (
    "metric",
    "a",
    "b",
    "delta",
    "low",
    "high",
    "p",
    "mde",
    "n",
    "n_expected_a",
    "n_expected_b",
    "n_lost",
    "skewness",
    "caution",
    "verdict",
    "sentence",
)


@dataclass(frozen=True)
class Comparison:
    """Run b (candidate) against run a (baseline).

    Attributes
    ----------
    deltas
        One row per metric: means `a` and `b` over the `n` queries where both have a value, `delta`
        = b − a with its paired 95 % interval `low`, `high`, `delta_pct`, `p` of the paired test
        (McNemar's mid-p for 0/1 metrics, else sign-flip permutation; NaN: not tested), `mde` (the
        least difference that n queries find with 80 % power, n divided by the design effect of
        groups; NaN: none is detectable at this n), `verdict` and the `sentence` it comes from;
        `better` (True, False; NA: no change), how many queries are better, worse or the same, and
        `n_by_noise`: wins, and as many losses, if that many moves were even-handed; `skewness` of
        the differences, and `caution` where a few queries carry the mean. `p50_a`, `p50_b` are
        medians, `p50_delta` the median of the paired differences with its interval `p50_low`,
        `p50_high` (NaN below six queries), `ratio` the geometric mean of b / a. Of times and costs
        `p95_a`, `p95_b`, and `p95_delta` with its interval `p95_low`, `p95_high` by paired
        bootstrap (NaN below 72 queries). `n_lost` values of a have none in b, because b failed or
        was not asked; `delta_worst` counts them at the metric's worst value. `n_expected_a`,
        `n_expected_b` values were expected of either side (see `rs.explain`); n of them are in the
        means.
    per_query
        One row per query that either run has: `outcome`, first ranks `rank_a`, `rank_b` (NA: no
        hit), `n_gained` and `n_lost` targets with their names in `gained`, `lost`, a `note`, and
        `rbo`, how alike both rankings are (`rs.rank_overlap`, 0 to 1; NaN where a side has no
        hits).
    targets
        One row per target that either run found: its ranks and `change` (gained, lost, moved,
        same).
    invariants, config_diff
        What should be equal (state: equal, differs, unknown), and every config key that isn't (with
        `vary=`, whether it was declared).
    flips
        One row per 0/1 answer metric, or judge's points, and query that went from good to bad
        (kind: regression) or back (improvement), with both values `a`, `b`.
    movers
        The three queries that lost most and the three that gained most in every other metric: `a`,
        `b`, `delta`, kind.
    policies
        How both runs were scored: `match`, `collapse`, `empty_gold`, `unknown`.
    """

    baseline: str
    candidate: str
    deltas: pd.DataFrame
    per_query: pd.DataFrame
    targets: pd.DataFrame
    invariants: pd.DataFrame
    config_diff: pd.DataFrame
    flips: pd.DataFrame
    movers: pd.DataFrame
    level: Level
    k: int
    aggregates: dict[str, dict[str, Any]]
    profile: Profile | None = None
    policies: dict[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many queries had each outcome."""
        found = self.per_query["outcome"].value_counts()
        return {
            outcome: int(found.get(outcome, 0)) for outcome in OUTCOMES if found.get(outcome, 0)
        }

    @property
    def overall(self) -> str:
        """One word over the headline metrics but times and costs.

        Better, regressed, mixed (some of each), or same (none could be told apart).
        """
        shown = self.deltas[self.deltas["metric"].isin(HEADLINE).to_numpy()]
        judged = [
            name
            for name in (shown if len(shown) else self.deltas)["metric"]
            if parse_label(name).metric.kind not in UNTESTED
        ]
        words = set(self.deltas.loc[self.deltas["metric"].isin(judged), "verdict"])
        return (
            "mixed"
            if {"better", "worse"} <= words
            else "better"
            if "better" in words
            else "regressed"
            if "worse" in words
            else "same"
        )

    def to_markdown(self, limit: int | None = None) -> str:
        """The comparison as Markdown.

        Metrics, what differs between the runs, which answers flipped, and every query that changed,
        or the first `limit`.

        Latency is shown by its median (`p50_*` of `deltas`), every other metric by its mean. With a
        profile: what that harness reports.
        """
        shown, note = self.shown()
        parts = [
            f"# {self.candidate} against {self.baseline}",
            self.headline(),
            markdown_table(shown),
            *note.splitlines(),
        ]
        if len(self.config_diff) and not self.profile:
            parts += ["## What differs between the runs", markdown_table(self.config_diff)]
        if not self.profile:
            parts += shown_tails(self.deltas)
            parts += (
                ["## Largest moves", markdown_table(shown_moves(self.deltas, self.movers))]
                if len(self.movers)
                else []
            )
            parts += (
                ["## Answers that flipped", markdown_table(shown_flips(self.flips))]
                if len(self.flips)
                else []
            )
        changed = self.changed()
        left_out = 0 if limit is None else max(len(changed) - limit, 0)
        parts += [
            f"## Queries that changed ({len(changed)})",
            markdown_table(changed.head(len(changed) - left_out)) if len(changed) else "None.",
        ]
        return (
            "\n\n".join(parts + ([f"{left_out} more are not listed."] if left_out else [])) + "\n"
        )

    def to_json(self, *, own: bool = False) -> str:
        """The comparison as JSON, NaN as null.

        With a profile, the report of that harness, but with `own` the one that `from_json` reloads.
        """
        content = _profile_report(self) if self.profile and not own else _own_report(self)
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, profile: Profile | None = None) -> "Comparison":
        """The comparison that `to_json` wrote.

        The same frames, level, policies, and profile by its name.

        Parameters
        ----------
        profile
            The profile itself, if it is one of your own.

        Raises
        ------
        DataError
            No JSON, the report of another harness (write it with `to_json(own=True)`), a profile
            that isn't known, or JSON of an earlier version whose `deltas` lack columns. Where only
            `flips` and `movers` are lacking, they are empty.
        """
        return _reloaded(parse(text, "cmp.to_json()"), profile)

    def changed(self) -> pd.DataFrame:
        """The queries that changed, worst first.

        One row per query with its ranks as text, and targets gained and lost.
        """
        if self.profile is None:
            return changed_queries(self.per_query)
        notes = [_profile_note(row) or "" for row in records_of(_profile_ranks(self.per_query))]
        return changed_queries(self.per_query.assign(note=notes, n_gained=0, n_lost=0)).drop(
            columns=["gained", "lost"]
        )

    def headline(self) -> str:
        """How many queries had each outcome, how hits were matched, and by which policies, in words."""
        counts = ", ".join(f"{n} {outcome}" for outcome, n in self.counts.items())
        changed = ", ".join(
            f"{name}={value}"
            for name, value in self.policies.items()
            if name != "match" and value != POLICIES[name][0]
        )
        return f"{counts}. {describe_matching(self.level, None if self.profile else self.k)}" + (
            f" Scored with {changed}." if changed else ""
        )

    def shown(self) -> tuple[pd.DataFrame, str]:
        """The table of metrics for display, and a note to it."""
        return (
            (_profile_table(self), "") if self.profile else shown_deltas(self.deltas, self.movers)
        )

    def __repr__(self) -> str:
        shown, note = self.shown()
        text = (
            f"Comparison of {self.candidate} (b) against {self.baseline}"
            f" (a)\n{self.headline()}\n\n{shown.to_string(index=False)}"
        )
        return f"{text}\n\n{note}" if note else text

    def _repr_html_(self) -> str:
        shown, note = self.shown()
        title = (
            f"<p><b>{escape(self.candidate)}</b> (b) against <b>{escape(self.baseline)}</b>"
            f" (a)<br>{escape(self.headline())}</p>"
        )
        return (
            title
            + shown.to_html(index=False, border=0)
            + ("<p>" + escape(note).replace("\n", "<br>") + "</p>" if note else "")
        )


def _own_report(cmp: Comparison) -> dict[str, Any]:
    content: dict[str, Any] = {
        "run_a": cmp.baseline,
        "run_b": cmp.candidate,
        "match": cmp.level.name,
        "chunker_version_match": cmp.level.chunker_version_match,
        "k": cmp.k,
    }
    content |= {"left_out": cmp.level.left_out, "policies": cmp.policies, "counts": cmp.counts}
    content |= {name: rows_of(getattr(cmp, name)) for name in FRAMES}
    content |= {
        "profile": cmp.profile.name if cmp.profile else None,
        "joinable": list(cmp.level.joinable),
        "aggregates": cmp.aggregates,
    }
    return content | {"dtypes": {name: dtypes_of(getattr(cmp, name)) for name in FRAMES}}


def _reloaded(content: Any, profile: Profile | None) -> Comparison:
    """A comparison from the content of its JSON."""
    names = (
        "run_a",
        "run_b",
        "match",
        "left_out",
        "joinable",
        "chunker_version_match",
        "k",
        "policies",
        "aggregates",
        "profile",
        "dtypes",
    )
    require(
        content,
        (*names, *(name for name in FRAMES if name not in LATER)),
        "cmp.to_json(), with a profile cmp.to_json(own=True)",
    )
    if profile is not None and profile.name != content["profile"]:
        raise DataError(
            f"found {profile.name!r}",
            field="profile",
            allowed=f"the profile that was compared with, {content['profile']!r}",
        )
    level = Level(
        content["match"],
        content["left_out"],
        tuple(content["joinable"]),
        content["chunker_version_match"],
    )
    frames = {
        name: frame_of(content[name], content["dtypes"].get(name), name)
        for name in FRAMES
        if name in content
    }
    if missing := [name for name in NEEDED if name not in frames["deltas"]]:
        raise DataError(
            f"no {', '.join(missing)}",
            field="deltas",
            allowed="JSON of version 0.1.0 or later; this one is older: compare the runs again",
        )
    frames |= {
        name: pd.DataFrame(columns=list(columns))
        for name, columns in LATER.items()
        if name not in content
    }
    return Comparison(
        baseline=content["run_a"], candidate=content["run_b"], **frames, level=level,
        k=content["k"], aggregates=content["aggregates"],
        profile=profile or find_profile(content["profile"]), policies=content["policies"],
    )  # fmt: skip


def _profile_report(cmp: Comparison) -> dict[str, Any]:
    """The compare report of a profile's harness.

    Both aggregates, their differences, and every query.
    """
    assert cmp.profile is not None
    a, b = cmp.aggregates[cmp.baseline], cmp.aggregates[cmp.candidate]
    decimals = cmp.profile.decimals
    deltas: dict[str, Any] = {}
    for key in cmp.profile.aggregate:
        of_a, of_b = get_nested(a, key), get_nested(b, key)
        if isinstance(of_a, dict):
            set_nested(deltas, key, {k: _difference(of_a[k], of_b[k], decimals) for k in of_a})
        elif key not in cmp.profile.omit_if_none or of_a is not None or of_b is not None:
            set_nested(deltas, key, _difference(of_a, of_b, decimals))
    ranks = _profile_ranks(cmp.per_query)
    notes = [_profile_note(row) for row in records_of(ranks)]
    per_query = [{**row, "note": note} for row, note in zip(records_of(ranks), notes, strict=True)]
    deltas["chunker_version_match"] = cmp.level.chunker_version_match
    return {
        "run_a": cmp.baseline,
        "run_b": cmp.candidate,
        "aggregate_a": a,
        "aggregate_b": b,
        "deltas": deltas,
        "per_query": per_query,
    }


def _profile_ranks(per_query: pd.DataFrame) -> pd.DataFrame:
    return per_query[["query_id", "outcome", "rank_a", "rank_b"]].rename(
        columns={"outcome": "kind", "rank_a": "a_hit_rank", "rank_b": "b_hit_rank"}
    )


def _profile_table(cmp: Comparison) -> pd.DataFrame:
    """A profile's aggregates of both runs and their differences, keys of nested ones dotted."""
    report = _profile_report(cmp)
    a, b = flat(report["aggregate_a"]), flat(report["aggregate_b"])
    deltas = flat(report["deltas"])
    keys = list(dict.fromkeys([*a, *b]))
    digits = (
        {key: 0 if key in cmp.profile.totals else cmp.profile.decimals or 3 for key in keys}
        if cmp.profile
        else {}
    )
    rows = [
        [
            key,
            shown_number(a.get(key), digits[key]),
            shown_number(b.get(key), digits[key]),
            shown_number(deltas.get(key), digits[key], True),
        ]
        for key in keys
    ]
    return pd.DataFrame(rows, columns=["metric", "a", "b", "delta"])


def _profile_note(row: dict[str, Any]) -> str | None:
    if row["kind"] == "regression":
        return "hit→miss"
    moved = (
        row["kind"] in ("win", "loss")
        and row["a_hit_rank"] is not None
        and row["b_hit_rank"] is not None
    )
    return f"rank {row['a_hit_rank']}→{row['b_hit_rank']}" if moved else None


def _difference(a: float | None, b: float | None, decimals: int | None) -> float | None:
    return None if a is None or b is None else round_half_away(b - a, decimals)

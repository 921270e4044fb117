"""Two runs aligned per query: what changed, for which queries, and what else differs between the runs."""

import json
import warnings
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.aggregates import aggregate, find, place, rounded
from ragscore.config import dumped, flat, parsed
from ragscore.deltas import UNTESTED, paired_deltas, query_groups
from ragscore.fingerprint import judge_fingerprint, judges_agree
from ragscore.frame_json import dtypes_of, frame_of, rows_of
from ragscore.frames import DataError, Golden, Results, check_inputs, check_type, records_of, run_names
from ragscore.grades import grade_hits
from ragscore.kept import level_rule
from ragscore.level import Level, choose_level, chunker_versions
from ragscore.match import LEVELS, at_level
from ragscore.metrics import HEADLINE, parse_label
from ragscore.policies import POLICIES, read_refusals, resolve_policies
from ragscore.profiles import Profile, find_profile
from ragscore.ranks import collapsed
from ragscore.report import changed_queries, describe_matching, shown_deltas
from ragscore.rulers import check_rulers, recorded_parts
from ragscore.score import score
from ragscore.summary import metric_columns
from ragscore.tables import markdown_table, shown_number

OUTCOMES = ("win", "loss", "regression", "draw", "both_miss", "no_target", "only_a", "only_b")
NO_CUT = 2**31 - 1
CAUSES = {"chunker": "chunker_version", "embedding": "embedding", "prompt": "prompt", "k": "k"}
"""What a change of rank is known to come from -> the part of a config key's name that tells."""


@dataclass(frozen=True)
class Comparison:
    """Run b (candidate) against run a (baseline).

    Attributes
    ----------
    deltas
        One row per metric: means `a` and `b` over the `n` queries where both have a value, `delta` = b − a with its
        paired 95 % interval `low`, `high`, `delta_pct`, `p` of the paired test (McNemar's mid-p for 0/1 metrics, else
        sign-flip permutation; NaN: not tested), `mde` (the least difference that n queries find with 80 % power;
        NaN: none is detectable at this n), `verdict` and the `sentence` it comes from; `better` (True, False; NA: no
        change), how many queries are better, worse or the same, and `n_by_noise`: wins, and as many losses, if that many
        moves were even-handed; `skewness` of the differences, and `caution` where a few queries carry the mean.
        `p50_a`, `p50_b` are medians, `p50_delta` the median of the paired differences with its interval `p50_low`,
        `p50_high` (NaN below six queries), `ratio` the geometric mean of b / a. `n_lost` values of a have none in b,
        because b failed or was not asked; `delta_worst` counts them at the metric's worst value.
    per_query
        One row per query that either run has: `outcome`, first ranks `rank_a`, `rank_b` (NA: no hit), `n_gained` and
        `n_lost` targets with their names in `gained`, `lost`, and a `note`.
    targets
        One row per target that either run found: its ranks and `change` (gained, lost, moved, same).
    invariants, config_diff
        What should be equal (state: equal, differs, unknown), and every config key that isn't (with `vary=`, whether it was declared).
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
    level: Level
    k: int
    aggregates: dict[str, dict[str, Any]]
    profile: Profile | None = None
    policies: dict[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many queries had each outcome."""
        found = self.per_query["outcome"].value_counts()
        return {outcome: int(found.get(outcome, 0)) for outcome in OUTCOMES if found.get(outcome, 0)}

    @property
    def overall(self) -> str:
        """One word over the headline metrics but times and costs: better, regressed, mixed (some of each), or same (none could be told apart)."""
        shown = self.deltas[self.deltas["metric"].isin(HEADLINE).to_numpy()]
        judged = [name for name in (shown if len(shown) else self.deltas)["metric"] if parse_label(name).metric.kind not in UNTESTED]
        words = set(self.deltas.loc[self.deltas["metric"].isin(judged), "verdict"])
        return "mixed" if {"better", "worse"} <= words else "better" if "better" in words else "regressed" if "worse" in words else "same"

    def to_markdown(self, limit: int | None = None) -> str:
        """The comparison as Markdown: metrics, what differs between the runs, and every query that changed, or the first `limit`.

        Latency is shown by its median (`p50_*` of `deltas`), every other metric by its mean. With a profile: what that
        harness reports.
        """
        shown, note = self.shown()
        parts = [f"# {self.candidate} against {self.baseline}", self.headline(), markdown_table(shown), *note.splitlines()]
        if len(self.config_diff) and not self.profile:
            parts += ["## What differs between the runs", markdown_table(self.config_diff)]
        changed = self.changed()
        left_out = 0 if limit is None else max(len(changed) - limit, 0)
        parts += [f"## Queries that changed ({len(changed)})", markdown_table(changed.head(len(changed) - left_out)) if len(changed) else "None."]
        return "\n\n".join(parts + ([f"{left_out} more are not listed."] if left_out else [])) + "\n"

    def to_json(self, *, own: bool = False) -> str:
        """The comparison as JSON, NaN as null; with a profile, the report of that harness, but with `own` the one that `from_json` reloads."""
        content = _profile_report(self) if self.profile and not own else _own_report(self)
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, profile: Profile | None = None) -> "Comparison":
        """The comparison that `to_json` wrote: the same frames, level, policies, and profile by its name.

        Parameters
        ----------
        profile
            The profile itself, if it is one of your own.

        Raises
        ------
        DataError
            No JSON, the report of another harness (write it with `to_json(own=True)`), or a profile that isn't known.
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise DataError(f"no JSON: {error}", field="text", allowed="cmp.to_json()") from error
        return _reloaded(content, profile)

    def to_html(self, path: str | Path | None = None) -> str:
        """The comparison as one HTML page that needs nothing else: verdicts, figures, what differs, every changed query. Written to `path` if given."""
        from ragscore.reports import report

        return report(self, path=path).to_html()

    def changed(self) -> pd.DataFrame:
        """The queries that changed, worst first: one row per query with its ranks as text, and targets gained and lost."""
        if self.profile is None:
            return changed_queries(self.per_query)
        notes = [_profile_note(row) or "" for row in records_of(_profile_ranks(self.per_query))]
        return changed_queries(self.per_query.assign(note=notes, n_gained=0, n_lost=0)).drop(columns=["gained", "lost"])

    def headline(self) -> str:
        """How many queries had each outcome, how hits were matched, and by which policies, in words."""
        counts = ", ".join(f"{n} {outcome}" for outcome, n in self.counts.items())
        changed = ", ".join(f"{name}={value}" for name, value in self.policies.items() if name != "match" and value != POLICIES[name][0])
        return f"{counts}. {describe_matching(self.level, None if self.profile else self.k)}" + (f" Scored with {changed}." if changed else "")

    def shown(self) -> tuple[pd.DataFrame, str]:
        """The table of metrics for display, and a note to it."""
        return (_profile_table(self), "") if self.profile else shown_deltas(self.deltas)

    def __repr__(self) -> str:
        shown, note = self.shown()
        text = f"Comparison of {self.candidate} (b) against {self.baseline} (a)\n{self.headline()}\n\n{shown.to_string(index=False)}"
        return f"{text}\n\n{note}" if note else text

    def _repr_html_(self) -> str:
        shown, note = self.shown()
        title = f"<p><b>{escape(self.candidate)}</b> (b) against <b>{escape(self.baseline)}</b> (a)<br>{escape(self.headline())}</p>"
        return title + shown.to_html(index=False, border=0) + ("<p>" + escape(note).replace("\n", "<br>") + "</p>" if note else "")


def compare_runs(
    results: Results,
    golden: Golden,
    baseline: str,
    candidate: str,
    *,
    metrics: list[str] | str | None = None,
    match: str = "auto",
    collapse: str = "none",
    empty_gold: str = "nan",
    unknown: str = "exclude",
    profile: str | Profile | None = None,
    strict_chunker_version: bool = False,
    cluster: str | None = "group",
    margins: dict[str, float] | None = None,
    vary: list[str] | str | None = None,
    ignore_invariants: bool | list[str] = False,
) -> Comparison:
    """Compare two runs query by query, on the queries both have.

    Parameters
    ----------
    baseline, candidate
        Runs a and b: a run_id, or a system that only one run has.
    metrics
        Labels for `deltas`; by default all default metrics.
    match
        The match level, one for both runs and for aggregates and per-query rows alike; see `rs.score`.
    collapse
        As for `rs.score`; ranks, outcomes and targets are then those of the shorter lists, too.
    empty_gold, unknown
        As for `rs.score`, in `deltas`; in outcomes and ranks an undecided hit is a miss.
    profile
        Another harness's conventions for aggregates, outcomes and JSON. It has match levels and policies of its own.
    strict_chunker_version
        Refuse to compare runs of different chunkers instead of falling back to spans or documents.
    cluster
        The column of `golden.queries` whose equal values make queries depend on each other (paraphrases, a source, a
        conversation): they change sign together in tests, and intervals allow for it. None: every query stands alone.
    margins
        Metric -> largest loss that doesn't matter; the verdict then knows "no worse than margin".
    vary
        Config keys that are meant to differ (a key that holds others stands for all of them). `config_diff` then has a
        column `declared`, and other keys that differ are warned of.
    ignore_invariants
        Components of the ruler (see `rs.ruler`) that may differ, or True for all. Scores are computed here, for both runs by
        the same golden set, so what may differ are the judges of judged metrics, refused unless ignored, and the result
        fields that metrics are measured by, which are only warned of. Either way the difference stands in `invariants`.

    Raises
    ------
    DataError
        Unknown or ambiguous run names; the same run twice; different chunkers with `strict_chunker_version`; `match`
        or a policy beside a profile; a `cluster` that the golden set doesn't have; different judges of a metric that is compared; a key of `vary` that neither run has.

    Warns
    -----
    UserWarning
        Config keys differ that `vary` doesn't declare; judges differ, and are ignored; a field is there in one run only.
    """
    check_inputs(results, golden)
    chosen = find_profile(profile)
    policies = resolve_policies(None, {"match": match, "collapse": collapse, "empty_gold": empty_gold, "unknown": unknown})
    changed = [name for name, value in policies.items() if value != POLICIES[name][0]]
    if chosen is not None and changed:
        found, what = f"found {policies[changed[0]]!r} beside a profile", "levels" if changed[0] == "match" else "policies"
        raise DataError(f"{found}, which has {what} of its own", field=changed[0], allowed=f"{changed[0]} or profile, not both")
    a, b = run_names(results.runs, [baseline, candidate])
    if a == b:
        raise DataError(f"{a!r} is both baseline and candidate", field="candidate", allowed="two different runs")
    whole = results.select([a, b])
    pair = collapsed(whole) if collapse == "doc" else whole
    golden = read_refusals(golden, chosen)
    versions = chunker_versions(pair)
    if strict_chunker_version and not _equal(versions[a], versions[b]):
        raise DataError(
            f"chunker versions differ: {versions[a]} and {versions[b]}",
            field="strict_chunker_version",
            allowed="runs of one chunker, or no strict_chunker_version",
        )
    level = choose_level(pair, golden, match) if chosen is None else _profile_level(chosen, bool(_equal(versions[a], versions[b])))
    asked = {run_id: _asked(pair, run_id) for run_id in (a, b)}
    k = _common_k(pair, a, b) if chosen is None else NO_CUT
    targets, with_target = _target_ranks(pair, golden, level, chosen, k)
    invariants, config_diff = _invariants(pair, a, b), _declared(diff_config(pair, a, b), pair, a, b, vary)
    per_query = _outcomes(targets, with_target, golden, pair, asked, k)
    per_query["note"] = _notes(per_query, config_diff, invariants)
    if chosen is not None:
        per_query = _as_profile(per_query, chosen)
    deltas = _paired_deltas(whole, golden, a, b, metrics, policies, level, cluster, margins)
    of_ruler = _field_invariants(pair, deltas["metric"].tolist(), level.name, ignore_invariants)
    invariants = pd.concat([invariants, of_ruler], ignore_index=True)
    aggregates = aggregate(pair, golden, chosen) if chosen else {}
    made_by = {name: policies[name] for name in ("match", "collapse", "empty_gold", "unknown")} if chosen is None else {}
    return Comparison(a, b, deltas, per_query, targets, invariants, config_diff, level, k, aggregates, chosen, made_by)


def _profile_level(profile: Profile, versions_agree: bool) -> Level:
    levels = profile.levels if versions_agree else profile.fallback_levels
    name = "per_query" if len(levels) > 1 else levels[0]
    return Level(name, "", levels, "exact" if versions_agree else "fallback_doc_span" if "span" in levels else "fallback_doc")


def _asked(results: Results, run_id: str) -> pd.Index:
    return pd.Index(results.responses.loc[results.responses["run_id"] == run_id, "query_id"])


def _common_k(results: Results, a: str, b: str) -> int:
    """The smaller k of the two runs; a run that doesn't state its k has the depth of its deepest list."""
    stated = results.runs.set_index(results.runs["run_id"].astype("str"))["k"] if "k" in results.runs else pd.Series(dtype="Int64")
    deepest = results.hits.groupby("run_id", observed=False)["rank"].max()
    ks = [stated.get(run_id) if not pd.isna(stated.get(run_id)) else deepest.get(run_id) for run_id in (a, b)]
    return int(min((k for k in ks if not pd.isna(k)), default=0))


def _target_ranks(results: Results, golden: Golden, level: Level, profile: Profile | None, k: int) -> tuple[pd.DataFrame, set[str]]:
    """One row per query and target found by either run, with both ranks; and the queries that have targets at all."""
    names = [name for name in LEVELS if name in level.joinable] if level.name == "per_query" else [level.name]
    taken: set[str] = set()
    parts = []
    for name in names:  # finest first; each query is matched at one level only
        selected = at_level(golden, name, profile is not None and profile.score_refusals).targets
        selected = selected[~selected["query_id"].isin(taken) & (selected["grade"] > 0)]
        taken |= set(selected["query_id"])
        parts.append(grade_hits(results.hits, selected, level_rule(name, results, golden))[1])
    found = pd.concat(parts, ignore_index=True).query("rank <= @k")
    ranks = found.pivot_table(index=["query_id", "target_id"], columns="run_id", values="rank", aggfunc="min", observed=False)
    ranks = ranks.reindex(columns=results.runs["run_id"].astype("str").tolist()).set_axis(["rank_a", "rank_b"], axis=1).astype("Int64").reset_index()
    in_a, in_b = ranks["rank_a"].notna(), ranks["rank_b"].notna()
    moved = (ranks["rank_a"] != ranks["rank_b"]).fillna(True).astype(bool)
    ranks["change"] = np.select([~in_a, ~in_b, moved], ["gained", "lost", "moved"], "same")
    return ranks, taken


def _outcomes(targets: pd.DataFrame, with_target: set[str], golden: Golden, results: Results, asked: dict[str, pd.Index], k: int) -> pd.DataFrame:
    """One row per query that either run was asked: outcome, first ranks, gained and lost targets."""
    a, b = asked
    of_golden = golden.queries[["query_id", "query"]]
    extra = results.responses.loc[~results.responses["query_id"].isin(of_golden["query_id"]), ["query_id", "query"]].drop_duplicates("query_id")
    rows = pd.concat([of_golden, extra], ignore_index=True)
    in_a, in_b = rows["query_id"].isin(asked[a]).to_numpy(), rows["query_id"].isin(asked[b]).to_numpy()
    rows, in_a, in_b = rows[in_a | in_b].reset_index(drop=True), in_a[in_a | in_b], in_b[in_a | in_b]
    first = targets.groupby("query_id")[["rank_a", "rank_b"]].min()
    rows = rows.join(first, on="query_id")
    for change in ("gained", "lost"):
        changed = targets[targets["change"] == change].groupby("query_id")["target_id"]
        rows[f"n_{change}"] = rows["query_id"].map(changed.size()).fillna(0).astype("int64")
        rows[change] = rows["query_id"].map(changed.agg(", ".join)).astype("str").fillna("")
    hit_a, hit_b = rows["rank_a"].notna().to_numpy(), rows["rank_b"].notna().to_numpy()
    rank_a, rank_b = (rows[name].to_numpy("float64", na_value=np.inf) for name in ("rank_a", "rank_b"))
    kinds = [~in_b, ~in_a, ~rows["query_id"].isin(with_target).to_numpy(), ~hit_a & ~hit_b, hit_a & ~hit_b, rank_b < rank_a, rank_b > rank_a]
    outcome = np.select(kinds, ["only_a", "only_b", "no_target", "both_miss", "regression", "win", "loss"], "draw")
    return rows.assign(outcome=outcome)[["query_id", "query", "outcome", "rank_a", "rank_b", "n_gained", "n_lost", "gained", "lost"]]


def _notes(per_query: pd.DataFrame, config_diff: pd.DataFrame, invariants: pd.DataFrame) -> list[str]:
    """What happened to the first hit, and the known causes that changed between the runs."""
    differs = invariants[invariants["state"] == "differs"].set_index("name")
    causes = []
    for cause, part in CAUSES.items():
        if part in differs.index:
            causes.append(f"{cause} {differs['a'][part]}→{differs['b'][part]}")
        elif cause in ("embedding", "prompt"):
            shown = config_diff.fillna("—")
            causes += [f"{key} {a}→{b}" for key, a, b in zip(shown["key"], shown["a"], shown["b"], strict=True) if part in key]
    suffix = "".join(f"; {cause}" for cause in causes)
    notes = []
    for outcome, a, b in zip(per_query["outcome"], per_query["rank_a"], per_query["rank_b"], strict=True):
        if outcome == "win":
            notes.append((f"miss→rank {b}" if pd.isna(a) else f"rank {a}→{b}") + suffix)
        elif outcome in ("loss", "regression"):
            notes.append((f"rank {a}→miss" if pd.isna(b) else f"rank {a}→{b}") + suffix)
        else:
            notes.append("")
    return notes


def _as_profile(per_query: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Outcomes in a profile's words, in its order."""
    rows = per_query
    if profile.one_side_missing == "no_hit":
        hit_a, hit_b = rows["rank_a"].notna(), rows["rank_b"].notna()
        alone = rows["outcome"].isin(["only_a", "only_b"])
        as_hits = np.select([hit_b & ~hit_a, hit_a & ~hit_b], ["win", "regression"], "both_miss")
        rows = rows.assign(outcome=np.where(alone, as_hits, rows["outcome"]))
    return rows.assign(outcome=rows["outcome"].replace(profile.outcomes)).sort_values("query_id", ignore_index=True)


def _paired_deltas(
    results: Results, golden: Golden, a: str, b: str, metrics: list[str] | str | None, policies: dict[str, Any], level: Level,
    cluster: str | None, margins: dict[str, float] | None,
) -> pd.DataFrame:  # fmt: skip
    """Deltas over the queries that both runs were asked; what b failed on or was not asked is counted as lost."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "golden queries without a row", UserWarning)  # those are only_a and only_b here
        match = level.name if level.name in LEVELS or policies["match"] == "per_query" else policies["match"]
        scores = score(results, golden, metrics, **policies | {"match": match})
    names = metric_columns(scores)
    scores = scores[(scores["state"] != "extra").to_numpy()]
    first, second = (scores[(scores["run_id"] == run_id).to_numpy()] for run_id in (a, b))
    second = second.reindex(first.index)
    states = [side["state"].astype("str").to_numpy() for side in (first, second)]
    in_both = (states[0] != "missing") & (states[1] != "missing")
    is_lost = (states[1] == "missing") | (states[1] == "failed")
    lost = first[names].where(is_lost[:, None] & second[names].isna().to_numpy())
    groups = query_groups(golden, first.index, cluster)
    return paired_deltas(first[names][in_both], second[names][in_both], lost, groups=None if groups is None else groups[in_both], margins=margins)


def _equal(a: Any, b: Any) -> bool:
    return (pd.isna(a) and pd.isna(b)) or (not pd.isna(a) and not pd.isna(b) and a == b)


def _invariants(results: Results, a: str, b: str) -> pd.DataFrame:
    """What should be equal for two runs to be comparable: name, a, b, state (equal, differs, unknown)."""
    runs = results.runs.set_index(results.runs["run_id"].astype("str"))
    facts: dict[str, pd.Series] = {
        name: runs[name] if name in runs else pd.Series(pd.NA, index=runs.index) for name in ("golden_hash", "k", "suite", "n_queries")
    }
    facts["chunker_version"] = chunker_versions(results)
    if (judges := judge_fingerprint(results)).ne("").any():
        facts["judge_fingerprint"] = judges.mask(judges == "")
    if "mode" in results.responses:
        facts["mode"] = results.responses.groupby(results.responses["run_id"].astype("str"))["mode"].agg(
            lambda modes: ", ".join(sorted(modes.dropna().unique()))
        )
    rows = []
    for name, values in facts.items():
        value_a, value_b = values.get(a), values.get(b)
        agree = judges_agree(results, a, b) if name == "judge_fingerprint" else bool(_equal(value_a, value_b))
        state = "unknown" if pd.isna(value_a) or pd.isna(value_b) else "equal" if agree else "differs"
        rows.append({"name": name, "a": None if pd.isna(value_a) else str(value_a), "b": None if pd.isna(value_b) else str(value_b), "state": state})
    return pd.DataFrame(rows, columns=["name", "a", "b", "state"])


def diff_config(results: Results, a: str, b: str) -> pd.DataFrame:
    """Every config key whose value differs between two runs: `key` (nested ones dotted), `a`, `b` as text; NA = absent.

    A config that is not JSON is one value, of the key `config`.
    """
    check_type(results, Results, "results")
    both = [_flat_config(results, run_id) for run_id in (a, b)]
    rows = []
    for key in dict.fromkeys([*both[0], *both[1]]):
        values = [dumped(one[key]) if key in one else None for one in both]
        if values[0] != values[1]:
            plain = [one[key] if isinstance(one.get(key), str) else value for one, value in zip(both, values, strict=True)]
            # 5 and "5" differ, and must not look the same.
            rows.append([key, *(values if plain[0] == plain[1] else plain)])
    return pd.DataFrame(rows, columns=["key", "a", "b"], dtype="str")


def _declared(config_diff: pd.DataFrame, results: Results, a: str, b: str, vary: list[str] | str | None) -> pd.DataFrame:
    """The differences with a flag for those that `vary` declares; as they are where nothing was declared."""
    if vary is None:
        return config_diff
    wanted = [vary] if isinstance(vary, str) else vary
    known = [key for run_id in (a, b) for key in _flat_config(results, run_id)]
    unknown = [name for name in wanted if not any(_is_within(key, name) for key in known)]
    if unknown:
        raise DataError(f"no config key {', '.join(unknown)}", field="vary", allowed=f"there are {', '.join(dict.fromkeys(known)) or 'none'}")
    is_declared = [any(_is_within(key, name) for name in wanted) for key in config_diff["key"]]
    flagged = config_diff.assign(declared=pd.array(is_declared, dtype="bool"))
    rest = flagged.loc[~flagged["declared"], "key"].tolist()
    if rest:
        warnings.warn(f"{b} differs from {a} in more than vary= declares: {', '.join(rest)}", UserWarning, stacklevel=3)
    return flagged


def _is_within(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def _field_invariants(results: Results, columns: list[str], level: str, ignore: bool | list[str]) -> pd.DataFrame:
    """Invariants of the ruler that scoring both runs alike doesn't settle: judges, refused if they differ, and result fields, warned of.

    The judges have their line among the invariants already.
    """
    parts = recorded_parts(results, level)
    judges = {run_id: {"judge_fingerprint": part["judge_fingerprint"]} for run_id, part in parts.items()}
    check_rulers(judges, columns, ignore, remedy=": judge both runs alike")
    fields = {run_id: {"fields": part["fields"]} for run_id, part in parts.items()}
    found = check_rulers(fields, columns, True)[["component", "a", "b"]]
    return found.rename(columns={"component": "name"}).assign(state="differs").astype("str")


def _flat_config(results: Results, run_id: str) -> dict[str, Any]:
    runs = results.runs.set_index(results.runs["run_id"].astype("str"))
    return flat(parsed(runs["config"].get(run_id))) if "config" in runs else {}


def flat_configs(results: Results, run_ids: list[str]) -> dict[str, dict[str, str]]:
    """Run id -> its config's keys, nested ones dotted, with their values as JSON text."""
    return {run_id: {key: dumped(value) for key, value in _flat_config(results, run_id).items()} for run_id in run_ids}


FRAMES = ("deltas", "per_query", "targets", "invariants", "config_diff")


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
    content |= {"profile": cmp.profile.name if cmp.profile else None, "joinable": list(cmp.level.joinable), "aggregates": cmp.aggregates}
    return content | {"dtypes": {name: dtypes_of(getattr(cmp, name)) for name in FRAMES}}


def _reloaded(content: Any, profile: Profile | None) -> Comparison:
    """A comparison from the content of its JSON."""
    names = ("run_a", "run_b", "match", "left_out", "joinable", "chunker_version_match", "k", "policies", "aggregates", "profile", "dtypes", *FRAMES)
    missing = [name for name in names if not isinstance(content, dict) or name not in content]
    if missing:
        raise DataError(f"no {', '.join(missing)}", field="text", allowed="cmp.to_json(), with a profile cmp.to_json(own=True)")
    if profile is not None and profile.name != content["profile"]:
        raise DataError(f"found {profile.name!r}", field="profile", allowed=f"the profile that was compared with, {content['profile']!r}")
    level = Level(content["match"], content["left_out"], tuple(content["joinable"]), content["chunker_version_match"])
    frames = {name: frame_of(content[name], content["dtypes"].get(name), name) for name in FRAMES}
    return Comparison(
        baseline=content["run_a"], candidate=content["run_b"], **frames, level=level, k=content["k"], aggregates=content["aggregates"],
        profile=profile or find_profile(content["profile"]), policies=content["policies"],
    )  # fmt: skip


def _profile_report(cmp: Comparison) -> dict[str, Any]:
    """The compare report of a profile's harness: both aggregates, their differences, and every query."""
    assert cmp.profile is not None
    a, b = cmp.aggregates[cmp.baseline], cmp.aggregates[cmp.candidate]
    decimals = cmp.profile.decimals
    deltas: dict[str, Any] = {}
    for key in cmp.profile.aggregate:
        of_a, of_b = find(a, key), find(b, key)
        if isinstance(of_a, dict):
            place(deltas, key, {k: _difference(of_a[k], of_b[k], decimals) for k in of_a})
        elif key not in cmp.profile.omit_if_none or of_a is not None or of_b is not None:
            place(deltas, key, _difference(of_a, of_b, decimals))
    ranks = _profile_ranks(cmp.per_query)
    notes = [_profile_note(row) for row in records_of(ranks)]
    per_query = [{**row, "note": note} for row, note in zip(records_of(ranks), notes, strict=True)]
    deltas["chunker_version_match"] = cmp.level.chunker_version_match
    return {"run_a": cmp.baseline, "run_b": cmp.candidate, "aggregate_a": a, "aggregate_b": b, "deltas": deltas, "per_query": per_query}


def _profile_ranks(per_query: pd.DataFrame) -> pd.DataFrame:
    return per_query[["query_id", "outcome", "rank_a", "rank_b"]].rename(columns={"outcome": "kind", "rank_a": "a_hit_rank", "rank_b": "b_hit_rank"})


def _profile_table(cmp: Comparison) -> pd.DataFrame:
    """A profile's aggregates of both runs and their differences, keys of nested ones dotted."""
    report = _profile_report(cmp)
    a, b = flat(report["aggregate_a"]), flat(report["aggregate_b"])
    deltas = flat(report["deltas"])
    keys = list(dict.fromkeys([*a, *b]))
    digits = {key: 0 if key in cmp.profile.totals else cmp.profile.decimals or 3 for key in keys} if cmp.profile else {}
    rows = [
        [key, shown_number(a.get(key), digits[key]), shown_number(b.get(key), digits[key]), shown_number(deltas.get(key), digits[key], True)] for key in keys
    ]
    return pd.DataFrame(rows, columns=["metric", "a", "b", "delta"])


def _profile_note(row: dict[str, Any]) -> str | None:
    if row["kind"] == "regression":
        return "hit→miss"
    moved = row["kind"] in ("win", "loss") and row["a_hit_rank"] is not None and row["b_hit_rank"] is not None
    return f"rank {row['a_hit_rank']}→{row['b_hit_rank']}" if moved else None


def _difference(a: float | None, b: float | None, decimals: int | None) -> float | None:
    return None if a is None or b is None else rounded(b - a, decimals)

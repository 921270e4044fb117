"""What a store keeps of a scoring.

Scores, the matches behind them, and what they were made of (level, rule, policies, profile).
"""

from typing import Any

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.golden_versions import query_parts
from ragscore.frames.ranking import collapsed
from ragscore.scoring.grading import level_rule, level_rule_name, matches_to_store, rule_name
from ragscore.scoring.level import choose_level
from ragscore.scoring.matching import LEVELS, Rule
from ragscore.scoring.policies import POLICIES, read_refusals, resolve_policies
from ragscore.scoring.profiles import find_profile
from ragscore.scoring.provenance import provenance_parts
from ragscore.scoring.score import score, scoring
from ragscore.scoring.summary import metric_columns, summarize

PROFILE = "profile"


def scored(
    results: Results, golden: Golden, rule: Rule | None, choices: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """For each run its `scores`, their `summary`, the `matches` behind them, the `scoring` that made them, with its ruler, and the hashes of `golden`.

    Parameters
    ----------
    choices
        Policies of `rs.score` by name, and `profile`, a profile's name or None.
    """
    chosen = find_profile(choices.get(PROFILE))
    policies = resolve_policies(
        chosen, {name: value for name, value in choices.items() if name != PROFILE}
    )
    scores = score(results, golden, rule=rule, profile=chosen, **policies)
    read = read_refusals(golden, chosen)
    about = scoring(results, golden, rule=rule, profile=chosen, **policies)
    ranked = collapsed(results) if policies["collapse"] == "doc" else results
    level = choose_level(
        ranked, read, policies["match"], chosen is not None and chosen.score_refusals
    )
    used = (
        [name for name in LEVELS if name in level.joinable]
        if level.name == "per_query"
        else [level.name]
    )
    matches = matches_to_store(
        results,
        golden,
        {name: rule or level_rule(name, results, golden) for name in used},
        has_own_rule=rule is not None,
    )
    made_by = {
        "match": policies["match"],
        "policies": policies,
        PROFILE: None if chosen is None else chosen.name,
    }
    rulers, of_golden = (
        provenance_parts(results, golden, metric_columns(scores), about),
        query_parts(golden).reset_index(),
    )
    parts = {}
    for made in about.to_dict("records"):
        run_id = str(made["run_id"])
        described = {
            name: made[name]
            for name in (
                "level",
                "left_out",
                "chunker_version_match",
                "n_expected",
                "n_undecidable",
                "golden_hash",
                "rule",
            )
        }
        described |= made_by | {"ruler": rulers[run_id]}
        own = scores[scores["run_id"] == run_id]
        kept = matches[matches["run_id"] == run_id] if matches is not None else None
        parts[run_id] = {
            "scores": own.assign(run_id=own["run_id"].astype("str")), "scoring": described,
            "matches": kept, "summary": summarize(own, golden),
            "golden": of_golden.assign(run_id=run_id),
        }  # fmt: skip
    return parts


def rule_of_scoring(level: str, rule: Rule | None) -> str:
    """The name of the rule a scoring was made by: one of your own, or the level's own."""
    if rule is not None:
        return rule_name(rule)
    return level_rule_name(level)


def choices_of(described: dict[str, Any]) -> dict[str, Any]:
    """Policies and profile that a stored scoring was made by.

    One that doesn't say had the defaults.
    """
    defaults = {name: allowed[0] for name, allowed in POLICIES.items()}
    return (
        defaults
        | {"match": described.get("match", "auto")}
        | described.get("policies", {})
        | {PROFILE: described.get(PROFILE)}
    )


def check_choices(wanted: dict[str, Any]) -> None:
    """Refuse what is no policy, no value of one, or no profile.

    Raises
    ------
    DataError
        The first such choice.
    """
    find_profile(wanted.get(PROFILE))
    resolve_policies(None, {name: value for name, value in wanted.items() if name != PROFILE})
    if not isinstance(wanted.get(PROFILE), (str, type(None))):
        raise DataError(
            "a profile that has no name here",
            field=PROFILE,
            allowed="the name of a profile: a store keeps names",
        )

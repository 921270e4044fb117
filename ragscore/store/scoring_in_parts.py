"""What a store keeps of a scoring, made part by part of a run whose tables are written.

What `scored` makes of the whole run.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, Results, conform, empty
from ragscore.frames.golden_versions import query_parts
from ragscore.scoring.grading import (
    count_undecidable,
    level_rule,
    level_rule_name,
    matches_to_store,
    rule_name,
)
from ragscore.scoring.level import Level
from ragscore.scoring.matching import LEVELS, Rule
from ragscore.scoring.policies import read_refusals, resolve_policies, warn_of_missing
from ragscore.scoring.profiles import find_profile
from ragscore.scoring.provenance import fields_of, provenance_parts
from ragscore.scoring.score import labels_of, warn_of_no_value
from ragscore.scoring.summary import metric_columns, summarize
from ragscore.store.level_search import find_level, settle
from ragscore.store.part_scoring import TEXT_TARGETS, Batch, Setting, assembled, mapped, score_batch
from ragscore.store.parts import Part, filled, parts_of, read_part
from ragscore.store.runs import Stored
from ragscore.store.scoring import PROFILE

PER_QUERY = "per_query"


@dataclass(frozen=True)
class Wanted:
    """What a run is to be scored by: golden set, rule, and policies and profile by name."""

    golden: Golden
    rule: Rule | None
    choices: dict[str, Any]

    @property
    def reads_text(self) -> bool:
        """Whether scores may depend on the hits' texts."""
        return self.rule is not None or bool(
            is_among(self.golden.targets["level"], TEXT_TARGETS).any()
        )


@dataclass(frozen=True)
class _Looked:
    """What one part says: matches by level, undecidable hits, and which fields are recorded."""

    matches: dict[str, pd.DataFrame | None]
    n_undecidable: int
    fields: dict[str, bool | None]


def scored_in_parts(run: Stored, beside: Results, wanted: Wanted) -> dict[str, Any]:
    """What `scored` gives for this run.

    Parameters
    ----------
    run
        Its tables, with the hits' texts as they are if the scores may depend on them.
    beside
        Its row of the runs frame, and its judgments.
    """
    chosen = find_profile(wanted.choices.get(PROFILE))
    policies = resolve_policies(
        chosen, {name: value for name, value in wanted.choices.items() if name != PROFILE}
    )
    read = read_refusals(wanted.golden, chosen)
    setting = Setting(read, labels_of(beside, None, chosen), wanted.rule, chosen, policies)
    parts = parts_of(run, beside.runs, setting.part_hits)
    batches: list[Batch] = [(part,) for part in parts]
    setting = settle(mapped(find_level, [batches], setting, None), setting, policies["match"])
    assert setting.level is not None
    scores, valued = assembled(
        batches, mapped(score_batch, batches, setting, None), setting, [run.run_id]
    )
    if policies["missing"] == "exclude":
        warn_of_missing(scores)
    warn_of_no_value(valued, setting.level)
    looked = [_look(part, setting, wanted.golden) for part in parts]
    described = _described(setting, wanted, sum(one.n_undecidable for one in looked))
    about = pd.DataFrame(
        [
            described
            | {
                "run_id": run.run_id,
                "policies": json.dumps(policies, sort_keys=True),
                PROFILE: chosen.name if chosen else None,
            }
        ]
    )
    ruler = provenance_parts(
        replace(beside, responses=empty("responses")), wanted.golden, metric_columns(scores), about
    )[run.run_id]
    ruler["fields"] = _fields([one.fields for one in looked], run, setting.level)
    made_by = {
        "match": policies["match"],
        "policies": policies,
        PROFILE: chosen.name if chosen else None,
    }
    return {
        "scores": scores.assign(run_id=scores["run_id"].astype("str")),
        "scoring": described | made_by | {"ruler": ruler}, "matches": _joined(looked),
        "summary": summarize(scores, wanted.golden),
        "golden": query_parts(wanted.golden).reset_index().assign(run_id=run.run_id),
    }  # fmt: skip


def _described(setting: Setting, wanted: Wanted, n_undecidable: int) -> dict[str, Any]:
    level = setting.level
    assert level is not None
    return {
        "level": level.name, "left_out": level.left_out,
        "chunker_version_match": level.chunker_version_match,
        "n_expected": len(setting.golden.queries),
        "n_undecidable": n_undecidable, "golden_hash": wanted.golden.golden_hash,
        "rule": rule_name(wanted.rule) if wanted.rule is not None else level_rule_name(level.name),
    }  # fmt: skip


def _look(part: Part, setting: Setting, golden: Golden) -> _Looked:
    level = setting.level
    assert level is not None
    used = (
        [name for name in LEVELS if name in level.joinable]
        if level.name == PER_QUERY
        else [level.name]
    )
    results, queries = read_part(part, setting.without)
    here = replace(golden, queries=golden.queries[queries.hold(golden.queries["query_id"])])
    rules = {name: setting.rule or level_rule(name, results, here) for name in used}
    matches = {
        name: matches_to_store(results, here, {name: rule}, has_own_rule=setting.rule is not None)
        for name, rule in rules.items()
    }
    read = replace(
        setting.golden,
        queries=setting.golden.queries[queries.hold(setting.golden.queries["query_id"])],
    )
    n_undecidable = sum(int(count_undecidable(results, read, name).sum()) for name in used)
    return _Looked(
        matches,
        n_undecidable,
        {str(name): there for name, there in fields_of(results, level.name).iloc[0].items()},
    )


def _fields(
    found: list[dict[str, bool | None]], run: Stored, level: Level
) -> dict[str, bool | None]:
    """Which fields the run records.

    One that any part does; None where no part has anything that could carry it.
    """
    fields = {
        name: (
            True
            if any(one[name] for one in found)
            else None
            if all(one[name] is None for one in found)
            else False
        )
        for name in found[0]
    }
    if level.name == PER_QUERY and fields["hits.text"] is False:
        # the parts may have been read without it
        fields["hits.text"] = filled(run, "hits").get("text", False) is not False
    return fields


def _joined(looked: list[_Looked]) -> pd.DataFrame | None:
    """The matches of all parts, level by level, with those of queries that met nothing at the end of each; otherwise in no order that counts."""
    if any(one is None for part in looked for one in part.matches.values()):
        return None
    return conform(
        pd.concat(
            [_of_level([part.matches[level] for part in looked]) for level in looked[0].matches],
            ignore_index=True,
        ),
        "matches",
    )


def _of_level(frames: Iterable[pd.DataFrame | None]) -> pd.DataFrame:
    plain = [frame.astype({"run_id": "str"}) for frame in frames if frame is not None]
    is_match = [frame["rank"].gt(0) for frame in plain]
    met = [frame[found] for frame, found in zip(plain, is_match, strict=True)]
    if any("undecidable" in frame for frame in met):
        met = [
            frame if "undecidable" in frame else frame.assign(undecidable=False) for frame in met
        ]
    return pd.concat(
        [*met, *(frame[~found] for frame, found in zip(plain, is_match, strict=True))],
        ignore_index=True,
    )

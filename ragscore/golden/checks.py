"""The rules of a good golden set, each one line of data.

What it is about, to which questions it applies, what breaks it.

In: a `Golden`. Out: one row per offence. `validate` makes the table of them that people read.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden
from ragscore.frames.kinds import CHOICE_KINDS, EXPECTATIONS
from ragscore.scoring.matching import RANKLESS, UNKNOWN_TARGET

RECENCY_RULES = ("cite_newer", "acknowledge_both", "cite_both")
ONE_OF_RULES = f"one of {', '.join(RECENCY_RULES)}"
RECENCY_CATEGORIES = ("recency", "conflict", "recency/conflict")
FIELD_OF_LEVEL = {
    "doc": "expected_doc_ids", "chunk": "expected_chunk_ids", "anchor": "gold_supports",
    "source_key": "expected_source_keys", "predicate": "expected_metadata",
}  # fmt: skip
# of the ids; below that a set has no pattern that single ids could break
MIN_SHARE_OF_PATTERN = 0.9

# one row per offence: query_id, found, and `field` where a check is about several
Found = pd.DataFrame
NOTHING = pd.DataFrame({"query_id": pd.Series(dtype="str"), "found": pd.Series(dtype="str")})


@dataclass(frozen=True)
class Check:
    """One rule of a good golden set.

    `applies` gives the queries that it is about (a boolean Series over `golden.queries`), `find`
    the offences among all queries: query_id, found, and field if the check is about several.
    """

    name: str
    field: str
    allowed: str
    applies: Callable[[Golden], pd.Series]
    find: Callable[[Golden], Found]


def offence(rows: pd.DataFrame, found: pd.Series | str, **more: pd.Series | str) -> Found:
    """Rows of some frame as offences of their queries."""
    if not len(rows):  # nearly always: making a frame costs more than any check
        return NOTHING
    return pd.DataFrame({"query_id": rows["query_id"].astype("str")}).assign(found=found, **more)


# To which queries a check applies


def _all(golden: Golden) -> pd.Series:
    return pd.Series(True, index=golden.queries.index)


def _category(*names: str) -> Callable[[Golden], pd.Series]:
    return lambda golden: (
        pd.Series(is_among(golden.queries["category"], names))
        if "category" in golden.queries
        else ~_all(golden)
    )


def _answerable(value: bool) -> Callable[[Golden], pd.Series]:
    return lambda golden: golden.queries["answerable"].eq(value)


def _with_supports_only(golden: Golden) -> pd.Series:
    """Answerable questions of a set whose targets are all supports (anchors)."""
    return _answerable(True)(golden) & (set(golden.targets["level"]) == {"anchor"})


def _unlabelled(golden: Golden) -> pd.Series:
    return golden.queries["answerable"].isna()


# What a check finds


def _checks(golden: Golden, *kinds: str) -> pd.DataFrame:
    return golden.checks[is_among(golden.checks["kind"], kinds)]


def _odd_ids(golden: Golden) -> Found:
    """Ids of another shape (letters, digits, their number) than nearly all ids have, where these are numbers with leading zeros."""
    ids = golden.queries["query_id"]
    shape = ids.str.replace(r"[^\W\d_]+", "a", regex=True).str.replace(r"\d", "0", regex=True)
    counted = shape.value_counts()
    usual = shape == counted.index[0] if len(counted) else shape.isna()
    if (
        not len(ids)
        or usual.mean() < MIN_SHARE_OF_PATTERN
        or not ids[usual].str.contains(r"^[^\W\d_]+[\W_]?0\d+$").any()
    ):
        return NOTHING
    return offence(golden.queries[~usual], ids[~usual] + f" (others are like {ids[usual].iloc[0]})")


def _without(frame: Callable[[Golden], pd.DataFrame], found: str) -> Callable[[Golden], Found]:
    """Queries that have no row in a frame."""
    return lambda golden: offence(
        golden.queries[~is_among(golden.queries["query_id"], frame(golden)["query_id"])], found
    )


def _targets_there(golden: Golden) -> Found:
    if not len(golden.targets):
        return NOTHING
    return offence(
        golden.targets,
        golden.targets["target_id"],
        field=golden.targets["level"].map(FIELD_OF_LEVEL).fillna("expected_doc_ids"),
    )


def _rows_of(kind: str) -> Callable[[Golden], Found]:
    return lambda golden: offence(rows := _checks(golden, kind), rows["text"])


def _groups_there(golden: Golden) -> Found:
    if not len(golden.support_groups):
        return NOTHING
    n = golden.support_groups.groupby("query_id")["group"].nunique()
    return n.astype("str").add(" groups").rename("found").reset_index()


def _few_targets(golden: Golden) -> Found:
    n = (
        golden.targets.drop_duplicates(["query_id", "level", "target_id"])
        .groupby(["query_id", "level"])
        .size()
        .groupby("query_id")
        .max()
    )
    n = n.reindex(golden.queries["query_id"], fill_value=0)
    return n[n < 2].astype("str").rename("found").rename_axis("query_id").reset_index()


def _unknown_members(golden: Golden) -> Found:
    if not len(golden.support_groups):
        return NOTHING
    unknown = golden.support_groups[
        golden.support_groups["target_id"].str.startswith(UNKNOWN_TARGET)
    ]
    return offence(unknown, unknown["target_id"].str.removeprefix(UNKNOWN_TARGET))


def _recency_rules(golden: Golden) -> pd.DataFrame:
    return _checks(golden, "recency_rule")


def _said_answerable(golden: Golden) -> Found:
    return offence(golden.queries[golden.queries["answerable"].fillna(False).astype(bool)], "true")


def _odd_rules(golden: Golden) -> Found:
    rules = _checks(golden, "recency_rule")
    return offence(rules[~is_among(rules["text"], RECENCY_RULES)], rules["text"])


def _texts(golden: Golden, column: str, pattern: str) -> Found:
    """Locators of targets that hold a pattern."""
    if column not in golden.targets:
        return NOTHING
    bad = golden.targets[
        golden.targets[column].str.contains(pattern, regex=True).fillna(False).astype(bool)
    ].drop_duplicates(["query_id", column])
    return offence(bad, bad[column])


def _folders_with_backslash(golden: Golden) -> Found:
    folders = golden.tags[is_among(golden.tags["kind"], ["folder", "vault"])]
    return (
        NOTHING
        if not len(folders)
        else offence(folders[folders["value"].str.contains("\\", regex=False)], folders["value"])
    )


def _foreign_vaults(golden: Golden) -> Found:
    """Tags that name a vault of the set which is not among the question's own vaults."""
    vaults, tags = (
        golden.tags.loc[golden.tags["kind"] == kind, ["query_id", "value"]]
        for kind in ("vault", "tag")
    )
    if not len(vaults) or not len(tags):
        return NOTHING
    named = tags[
        is_among(tags["value"], vaults["value"]) & is_among(tags["query_id"], vaults["query_id"])
    ].merge(vaults, how="left", indicator=True)
    strange = named[named["_merge"] == "left_only"]
    return offence(strange, strange["value"])


def _outside_folders(golden: Golden) -> Found:
    if "path" not in golden.targets:
        return NOTHING
    folders = golden.tags.loc[golden.tags["kind"] == "folder", ["query_id", "value"]]
    paths = golden.targets.loc[
        golden.targets["path"].notna(), ["query_id", "path"]
    ].drop_duplicates()
    if not len(folders) or not len(paths):
        return NOTHING
    pairs = paths.merge(folders, on="query_id")
    # A prefix search has no column form in pandas where both sides vary by row.
    inside = [
        path == folder or path.startswith(folder.rstrip("/") + "/")
        for path, folder in zip(pairs["path"], pairs["value"], strict=True)
    ]
    lies_in = (
        pairs.assign(inside=np.array(inside, dtype=bool))
        .groupby(["query_id", "path"])["inside"]
        .any()
        .reset_index()
    )
    outside = lies_in[~lies_in["inside"].to_numpy(bool)]
    return offence(outside, outside["path"])


def _two_grades(golden: Golden) -> Found:
    keys = ["query_id", "level", "target_id"]
    several = golden.targets[golden.targets.duplicated(keys, keep=False)]
    if not len(several):
        return NOTHING
    grades = several.groupby(keys)["grade"].agg(["min", "max"]).reset_index()
    twice = grades[grades["min"] != grades["max"]]
    if not len(twice):
        return NOTHING
    return offence(
        twice,
        twice["target_id"]
        + ": grades "
        + twice["min"].astype("str")
        + " and "
        + twice["max"].astype("str"),
        field=twice["level"].map(FIELD_OF_LEVEL),
    )


def _only_grade_0(golden: Golden) -> Found:
    if not (golden.targets["grade"] == 0).any():
        return NOTHING
    best = golden.targets.groupby("query_id")["grade"].max()
    return best[best == 0].astype("str").rename("found").reset_index()


def _nothing_expected(golden: Golden) -> Found:
    """Questions without target, check, reference answer or label."""
    queries = golden.queries
    expects = is_among(queries["query_id"], golden.targets["query_id"]) | is_among(
        queries["query_id"], golden.checks["query_id"]
    )
    if "reference_answer" in queries:
        expects |= queries["reference_answer"].notna().to_numpy()
    return offence(queries[~expects], "nothing is expected")


def _empty_predicates(golden: Golden) -> Found:
    """Predicate targets without a condition, a substring or a source key to ask for."""
    wanted = golden.targets[is_among(golden.targets["level"], ["predicate"])].drop_duplicates(
        ["query_id", "target_id"]
    )
    if not len(wanted):
        return NOTHING
    asked = pd.concat(
        [
            golden.conditions["query_id"],
            _checks(golden, "expected_substring")["query_id"],
            golden.targets.loc[golden.targets["level"] == "source_key", "query_id"],
        ]
    )
    return offence(wanted[~is_among(wanted["query_id"], asked)], "no condition")


def _idle_choices(golden: Golden) -> Found:
    """Choices about an expectation that the question doesn't have, or that something else decides before."""
    keys, rankless = (
        golden.targets.loc[golden.targets["level"] == "source_key", "query_id"],
        _checks(golden, *RANKLESS)["query_id"],
    )
    having = dict(
        zip(
            EXPECTATIONS,
            (
                keys,
                golden.conditions["query_id"],
                _checks(golden, "expected_substring")["query_id"],
            ),
            strict=True,
        )
    )
    stated = _checks(golden, *CHOICE_KINDS)
    name = stated["kind"].str.partition(".")[0] if len(stated) else stated["kind"]
    is_expected = np.select(
        [name == one for one in EXPECTATIONS],
        [stated["query_id"].isin(having[one]) for one in EXPECTATIONS],
        False,
    )
    is_outvoted = stated["query_id"].isin(rankless) | (
        (name != EXPECTATIONS[0]) & stated["query_id"].isin(keys)
    )
    bad = ~is_expected.astype(bool) | is_outvoted.to_numpy()
    return offence(stated[bad], stated.loc[bad, "kind"])


def _pairs_within(left: pd.DataFrame, right: pd.DataFrame, ignore_case: bool) -> Found:
    """Texts (`text`) of a query that hold a text which the query forbids."""
    if not len(left) or not len(right):
        return NOTHING
    texts = {"query_id": "str", "text": "str"}
    pairs = (
        left[[*texts]]
        .astype(texts)
        .merge(right[[*texts]].astype(texts), on="query_id", suffixes=("", "_forbidden"))
    )
    folded = [
        (one.lower(), other.lower()) if ignore_case else (one, other)
        for one, other in zip(pairs["text"], pairs["text_forbidden"], strict=True)
    ]
    bad = pairs[np.array([other in one for one, other in folded], dtype=bool)]
    return (
        NOTHING
        if not len(bad)
        else offence(bad, "'" + bad["text"] + "' holds '" + bad["text_forbidden"] + "'")
    )


def _contradictory_texts(golden: Golden) -> Found:
    return _pairs_within(
        _checks(golden, "must_contain"), _checks(golden, "forbidden"), ignore_case=False
    )


def _contradictory_keys(golden: Golden) -> Found:
    is_key = is_among(golden.targets["level"], ["source_key"])
    if not is_key.any():
        return NOTHING
    keys = (
        golden.targets[is_key]
        .reindex(columns=["query_id", "source_key"])
        .rename(columns={"source_key": "text"})
    )
    return _pairs_within(keys, _checks(golden, "forbidden_source_key"), ignore_case=True)


def _empty_and_expected(golden: Golden) -> Found:
    bad = golden.targets[
        is_among(golden.targets["query_id"], _checks(golden, "expected_empty")["query_id"])
    ]
    return offence(bad, bad["target_id"])


CHECKS = (
    Check("ids follow the set's pattern", "id", "an id like the others", _all, _odd_ids),
    Check("answerable needs supports", "gold_supports", "at least one support", _with_supports_only,
    _without(lambda golden: golden.targets, "none")),
    Check("unanswerable expects nothing", "answerable",
    "no expected ids or supports: the question should be refused", _answerable(False),
    _targets_there),
    Check("unanswerable has no key facts", "expected_key_facts",
    "an empty list: the question should be refused", _answerable(False), _rows_of("key_fact")),
    Check("something is expected", "answerable",
    "a target, a check, a reference answer, or answerable", _unlabelled, _nothing_expected),
    Check("factual has no groups", "required_support_groups", "null for this category",
    _category("factual"), _groups_there),
    Check("factual has no recency rule", "recency_conflict_rule", "null for this category",
    _category("factual"), _rows_of("recency_rule")),
    Check("multi_hop has groups", "required_support_groups", "at least one group",
    _category("multi_hop"), _without(lambda golden: golden.support_groups, "none")),
    Check("multi_hop has two supports", "gold_supports", "at least 2 targets",
    _category("multi_hop"), _few_targets),
    Check("groups name supports", "required_support_groups",
    "indices or ids of the question's own targets", _all, _unknown_members),
    Check("recency has a rule", "recency_conflict_rule", ONE_OF_RULES,
    _category(*RECENCY_CATEGORIES), _without(_recency_rules, "none")),
    Check("recency rules are known", "recency_conflict_rule", ONE_OF_RULES, _all, _odd_rules),
    Check("recency has two supports", "gold_supports", "at least 2 targets",
    _category(*RECENCY_CATEGORIES), _few_targets),
    Check("general is unanswerable", "answerable", "false for this category", _category("general"),
    _said_answerable),
    Check("general has no supports", "gold_supports", "none for this category",
    _category("general"), _targets_there),
    Check("general has no key facts", "expected_key_facts", "none for this category",
    _category("general"), _rows_of("key_fact")),
    Check("paths have forward slashes", "gold_supports", "a path with /", _all,
    lambda golden: _texts(golden, "path", r"\\")),
    Check("folders have forward slashes", "folders", "a folder with /", _all,
    _folders_with_backslash),
    Check("headings are joined by ' > '", "gold_supports", "parts joined by ' > '", _all,
    lambda golden: _texts(golden, "heading", r"[^\s\-=>]>[^=>]|[^\-=>]>[^\s=>]|\s\s>|>\s\s")),
    Check("tags name the question's vaults", "tags", "a vault that the question lists", _all,
    _foreign_vaults),
    Check("supports are in the folders", "gold_supports",
    "a path under a folder that the question lists", _all, _outside_folders),
    Check("targets have one grade", "expected_doc_ids", "one grade per target", _all, _two_grades),
    Check("some target is relevant", "answerable", "a target of grade 1 or more", _answerable(True),
    _only_grade_0),
    Check("predicates ask for something", "expected_metadata",
    "a condition, a substring or a source key", _all, _empty_predicates),
    Check("choices are about what decides", "satisfied_by",
    "an expectation that the question has and that nothing goes before", _all, _idle_choices),
    Check("must_contain is not forbidden", "must_contain",
    "texts that an answer can hold without a forbidden one", _all, _contradictory_texts),
    Check("expected source keys are not forbidden", "expected_source_keys",
    "keys that hold no forbidden text", _all, _contradictory_keys),
    Check("nothing expected where empty is", "expected_empty", "no target beside it", _all,
    _empty_and_expected),
)  # fmt: skip

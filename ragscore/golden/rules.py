"""Rules of a good golden set, as a table.

Each rule names its field, the queries it applies to and a function that finds the violations. In:
a `Golden`. Out: one row per violation, which `validate` puts into its table.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragscore.frames.data import Golden
from ragscore.frames.kinds import UNKNOWN_TARGET
from ragscore.io.golden_read import KNOWN_FIELDS, SUPPORT_EXTRAS, SUPPORT_FIELDS
from ragscore.io.source import suggest_field

FIELD_OF_LEVEL = {
    "doc": "expected_doc_ids", "chunk": "expected_chunk_ids", "anchor": "gold_supports",
    "source_key": "expected_source_keys", "text": "expected_texts",
    "predicate": "expected_metadata",
}  # fmt: skip
RECENCY_RULES = ("cite_newer", "acknowledge_both", "cite_both")
ONE_OF_RULES = f"one of {', '.join(RECENCY_RULES)}"
RECENCY_CATEGORIES = ("recency", "conflict", "recency/conflict")
# Share of the ids; if fewer are alike, the set has no pattern.
MIN_SHARE_OF_PATTERN = 0.9

# One row per violation: query_id, found, and `field` and `allowed` where these vary
Violations = pd.DataFrame
NOTHING = pd.DataFrame({"query_id": pd.Series(dtype="str"), "found": pd.Series(dtype="str")})


@dataclass(frozen=True)
class Check:
    """Rule of a good golden set.

    `applies` flags the queries that the rule is about, as a boolean Series over `golden.queries`.
    `find` returns the violations among all queries. `severity` is error, or warning for what may be
    meant.
    """

    name: str
    field: str
    allowed: str
    applies: Callable[[Golden], pd.Series]
    find: Callable[[Golden], Violations]
    severity: str = "error"

    def violations(self, golden: Golden) -> Violations:
        """Return the violations of this rule."""
        applies = self.applies(golden).to_numpy(dtype=bool, na_value=False)
        if not applies.any() or not len(found := self.find(golden)):
            return NOTHING
        found = found[found["query_id"].isin(golden.queries.loc[applies, "query_id"])]
        return found.assign(
            rule=self.name, severity=self.severity, field=found.get("field", self.field),
            allowed=found.get("allowed", self.allowed),
        )  # fmt: skip


def violation(rows: pd.DataFrame, found: pd.Series | str, **more: pd.Series | str) -> Violations:
    """Return one violation per row, with its query and the value found."""
    if not len(rows):  # Nearly always; making a frame costs more than any check.
        return NOTHING
    return pd.DataFrame({"query_id": rows["query_id"].astype("str")}).assign(found=found, **more)


# Queries that a check applies to


def _all(golden: Golden) -> pd.Series:
    return pd.Series(True, index=golden.queries.index)


def _category(*names: str) -> Callable[[Golden], pd.Series]:
    return lambda golden: (
        golden.queries["category"].isin(names) if "category" in golden.queries else ~_all(golden)
    )


def _answerable(value: bool) -> Callable[[Golden], pd.Series]:
    return lambda golden: golden.queries["answerable"].eq(value)


def _with_supports_only(golden: Golden) -> pd.Series:
    """Flag answerable queries if all targets of the set are supports (anchors)."""
    return _answerable(True)(golden) & (set(golden.targets["level"]) == {"anchor"})


# Violations of a check


def _checks(golden: Golden, *kinds: str) -> pd.DataFrame:
    return golden.checks[golden.checks["kind"].isin(kinds)]


def _without_text(golden: Golden) -> Violations:
    """Find queries without text, or with their id in its place where other queries have text.

    Readers put the id there where a file has no text. Ids made of texts hold spaces.
    """
    ids, texts = golden.queries["query_id"], golden.queries["query"]
    is_blank = texts.str.fullmatch(r"[\s\u200b\u2060\ufeff]*")
    is_id = texts == ids
    if is_id.mean() > 0.5 or ids.str.contains(r"\s", regex=True).any():
        is_id &= False
    return pd.concat(
        [
            violation(golden.queries[is_blank], "no text"),
            violation(golden.queries[is_id & ~is_blank], "no text but the id"),
        ],
        ignore_index=True,
    )


def _odd_ids(golden: Golden) -> Violations:
    """Find ids that break the set's pattern.

    The pattern is that of `MIN_SHARE_OF_PATTERN` of the ids: the same letters-and-digits shape,
    numbers with leading zeros.
    """
    ids = golden.queries["query_id"]
    if not len(ids):
        return NOTHING
    shape = ids.str.replace(r"[^\W\d_]+", "a", regex=True).str.replace(r"\d", "0", regex=True)
    usual = shape == shape.value_counts().index[0]
    is_numbered = ids[usual].str.contains(r"^[^\W\d_]+[\W_]?0\d+$").any()
    if usual.mean() < MIN_SHARE_OF_PATTERN or not is_numbered:
        return NOTHING
    return violation(
        golden.queries[~usual], ids[~usual] + f" (others are like {ids[usual].iloc[0]})"
    )


def _without(frame: Callable[[Golden], pd.DataFrame], found: str) -> Callable[[Golden], Violations]:
    """Find queries that have no row in a frame."""
    return lambda golden: violation(
        golden.queries[~golden.queries["query_id"].isin(frame(golden)["query_id"])], found
    )


def _any_target(golden: Golden) -> Violations:
    field = golden.targets["level"].map(FIELD_OF_LEVEL).fillna("expected_doc_ids")
    return violation(golden.targets, golden.targets["target_id"], field=field)


def _rows_of(kind: str) -> Callable[[Golden], Violations]:
    return lambda golden: violation(rows := _checks(golden, kind), rows["text"])


def _any_group(golden: Golden) -> Violations:
    n = golden.support_groups.groupby("query_id")["group"].nunique()
    return n.astype("str").add(" groups").rename("found").reset_index()


def _few_targets(golden: Golden) -> Violations:
    by_level = golden.targets.groupby(["query_id", "level"])["target_id"].nunique()
    n = by_level.groupby("query_id").max().reindex(golden.queries["query_id"], fill_value=0)
    return n[n < 2].astype("str").rename("found").rename_axis("query_id").reset_index()


def _unknown_members(golden: Golden) -> Violations:
    groups = golden.support_groups
    unknown = groups[groups["target_id"].str.startswith(UNKNOWN_TARGET)]
    return violation(unknown, unknown["target_id"].str.removeprefix(UNKNOWN_TARGET))


def _odd_rules(golden: Golden) -> Violations:
    rules = _checks(golden, "recency_rule")
    return violation(rules[~rules["text"].isin(RECENCY_RULES)], rules["text"])


def _matching(golden: Golden, column: str, pattern: str) -> Violations:
    """Find paths or headings of targets that match a pattern."""
    if column not in golden.targets:
        return NOTHING
    targets = golden.targets.drop_duplicates(["query_id", column])
    bad = targets[targets[column].str.contains(pattern, regex=True).fillna(False).astype(bool)]
    return violation(bad, bad[column])


def _folders_with_backslash(golden: Golden) -> Violations:
    folders = golden.tags[golden.tags["kind"].isin(["folder", "vault"])]
    return violation(folders[folders["value"].str.contains("\\", regex=False)], folders["value"])


def _only_grade_0(golden: Golden) -> Violations:
    best = golden.targets.groupby("query_id")["grade"].max()
    return best[best == 0].astype("str").rename("found").reset_index()


def _nothing_expected(golden: Golden) -> Violations:
    """Find queries without target, check and reference answer."""
    queries = golden.queries
    expects = queries["query_id"].isin([*golden.targets["query_id"], *golden.checks["query_id"]])
    if "reference_answer" in queries:
        expects |= queries["reference_answer"].notna()
    return violation(queries[~expects], "nothing is expected")


def _contained(left: pd.DataFrame, right: pd.DataFrame, ignore_case: bool) -> Violations:
    """Find texts of a query (`text`) that contain a text which the query forbids."""
    if not len(left) or not len(right):
        return NOTHING
    left, right = (frame[["query_id", "text"]].astype("str") for frame in (left, right))
    pairs = left.merge(right, on="query_id", suffixes=("", "_forbidden"))
    fold = str.lower if ignore_case else str
    holds = [
        fold(forbidden) in fold(text)
        for text, forbidden in zip(pairs["text"], pairs["text_forbidden"], strict=True)
    ]
    bad = pairs[np.array(holds, dtype=bool)]
    return violation(bad, "'" + bad["text"] + "' holds '" + bad["text_forbidden"] + "'")


def _contradictory_keys(golden: Golden) -> Violations:
    is_key = golden.targets["level"] == "source_key"
    keys = golden.targets[is_key].reindex(columns=["query_id", "source_key"])
    keys = keys.rename(columns={"source_key": "text"})
    return _contained(keys, _checks(golden, "forbidden_source_key"), ignore_case=True)


def _tags(golden: Golden, kind: str) -> pd.DataFrame:
    return golden.tags.loc[golden.tags["kind"] == kind, ["query_id", "value"]]


def _foreign_vaults(golden: Golden) -> Violations:
    """Find tags that name a vault of the set, but none of the query's own vaults."""
    vaults, tags = _tags(golden, "vault"), _tags(golden, "tag")
    is_about = tags["value"].isin(vaults["value"]) & tags["query_id"].isin(vaults["query_id"])
    named = tags[is_about].merge(vaults, how="left", indicator=True)
    strange = named[named["_merge"] == "left_only"]
    return violation(strange, strange["value"])


def _outside_folders(golden: Golden) -> Violations:
    """Find paths of supports in none of their query's folders; either may begin with the vault."""
    folders, vaults = _tags(golden, "folder"), _tags(golden, "vault")
    supports = golden.targets[golden.targets["level"] == "anchor"]
    if not len(folders) or not len(supports):
        return NOTHING
    known = vaults.groupby("query_id")["value"].agg(list)
    pairs = supports.dropna(subset="path").merge(folders, on="query_id")
    pairs["vaults"] = pairs["query_id"].map(known)

    def parts(text: str, own: list[str]) -> list[str]:
        found = [one for one in text.replace("\\", "/").split("/") if one not in ("", ".")]
        return found[1:] if found and isinstance(own, list) and found[0] in own else found

    columns = (pairs[name].tolist() for name in ("path", "value", "vaults"))
    pairs["inside"] = [
        parts(path, own)[: len(folder)] == folder
        for path, value, own in zip(*columns, strict=True)
        for folder in [parts(value, own)]
    ]
    inside = pairs.groupby(["query_id", "target_id", "path"])["inside"].any()
    outside = inside[~inside].reset_index().drop_duplicates(["query_id", "path"])
    return violation(outside, outside["path"])


def _similar_fields(golden: Golden) -> Violations:
    """Find fields of the user's own whose names resemble a field of ours."""
    own = golden.queries.filter(regex="^x_").drop(columns=SUPPORT_EXTRAS, errors="ignore")
    named = [(str(name).removeprefix("x_"), "", own[name].notna()) for name in own]
    if SUPPORT_EXTRAS in golden.queries:
        texts = golden.queries[SUPPORT_EXTRAS].fillna("[]")
        extras = [{name for one in json.loads(text) for name in one} for text in texts]
        named += [
            (name, "gold_supports", pd.Series([name in one for one in extras], texts.index))
            for name in sorted(set().union(*extras))
        ]
    parts = [NOTHING]
    for name, field, has in named:
        fields = SUPPORT_FIELDS if field else KNOWN_FIELDS
        if has.any() and (meant := suggest_field(name, frozenset(fields))):
            many = "1 query" if has.sum() == 1 else f"{has.sum():,} queries"
            told = f"unknown field {name!r}, in {many}"
            allowed = f"did you mean {meant!r}?"
            rows = golden.queries[has][:1]
            parts.append(violation(rows, told, field=field or name, allowed=allowed))
    return pd.concat(parts, ignore_index=True)


CHECKS = (
    Check("queries have text", "query", "the text of the query", _all, _without_text),
    Check("ids follow the set's pattern", "id", "an id like the others", _all, _odd_ids, "warning"),
    Check("answerable needs supports", "gold_supports", "at least one support", _with_supports_only,
    _without(lambda golden: golden.targets, "none")),
    Check("unanswerable expects nothing", "answerable",
    "no expected ids or supports: the query should be refused", _answerable(False),
    _any_target),
    Check("unanswerable has no key facts", "expected_key_facts",
    "an empty list: the query should be refused", _answerable(False), _rows_of("key_fact")),
    Check("something is expected", "answerable",
    "a target, a check, a reference answer, or answerable",
    lambda golden: golden.queries["answerable"].isna(), _nothing_expected),
    Check("factual has no groups", "required_support_groups", "null for this category",
    _category("factual"), _any_group),
    Check("factual has no recency rule", "recency_conflict_rule", "null for this category",
    _category("factual"), _rows_of("recency_rule")),
    Check("multi_hop has groups", "required_support_groups", "at least one group",
    _category("multi_hop"), _without(lambda golden: golden.support_groups, "none")),
    Check("multi_hop has two supports", "gold_supports", "at least 2 targets",
    _category("multi_hop"), _few_targets),
    Check("groups name supports", "required_support_groups",
    "indices or ids of the query's own targets", _all, _unknown_members),
    Check("recency has a rule", "recency_conflict_rule", ONE_OF_RULES,
    _category(*RECENCY_CATEGORIES),
    _without(lambda golden: _checks(golden, "recency_rule"), "none")),
    Check("recency rules are known", "recency_conflict_rule", ONE_OF_RULES, _all, _odd_rules),
    Check("recency has two supports", "gold_supports", "at least 2 targets",
    _category(*RECENCY_CATEGORIES), _few_targets),
    Check("general is unanswerable", "answerable", "false for this category", _category("general"),
    lambda golden: violation(golden.queries[_answerable(True)(golden).fillna(False)], "true")),
    Check("general has no supports", "gold_supports", "none for this category",
    _category("general"), _any_target),
    Check("general has no key facts", "expected_key_facts", "none for this category",
    _category("general"), _rows_of("key_fact")),
    Check("paths have forward slashes", "gold_supports", "a path with /", _all,
    lambda golden: _matching(golden, "path", r"\\")),
    Check("folders have forward slashes", "folders", "a folder with /", _all,
    _folders_with_backslash),
    Check("headings are joined by ' > '", "gold_supports", "parts joined by ' > '", _all,
    lambda golden: _matching(golden, "heading", r"[^\s\-=>]>[^=>]|[^\-=>]>[^\s=>]|\s\s>|>\s\s")),
    Check("some target is relevant", "answerable", "a target of grade 1 or more", _answerable(True),
    _only_grade_0),
    Check("must_contain is not forbidden", "must_contain",
    "texts that an answer can hold without a forbidden one", _all,
    lambda golden: _contained(
        _checks(golden, "must_contain"), _checks(golden, "forbidden"), ignore_case=False
    )),
    Check("expected source keys are not forbidden", "expected_source_keys",
    "keys that hold no forbidden text", _all, _contradictory_keys),
    Check("nothing expected where empty is", "expected_empty", "no target beside it", _all,
    lambda golden: violation(rows := golden.targets.merge(
        _checks(golden, "expected_empty")[["query_id"]].drop_duplicates()
    ), rows["target_id"])),
    Check("targets are in the folders", "gold_supports",
    "a path under a folder that the query lists", _all, _outside_folders),
    Check("tags name the query's vaults", "tags", "a vault that the query lists", _all,
    _foreign_vaults),
    Check("fields are known", "id", "a field of the golden file", _all, _similar_fields, "warning"),
)  # fmt: skip

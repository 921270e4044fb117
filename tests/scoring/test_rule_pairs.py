"""Rules work on whole columns.

Here each pair of a hit and a target is judged by itself, in plain Python, and must come out the
same.
"""

import json
from unittest import mock

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.frames import codes
from ragscore.scoring.rules import by_predicate
from ragscore.scoring.rules import apply_rule

QUERIES, DOCS = ["q1", "q2", "q3"], ["a.md", "b.md"]
META_VALUES = [1, 1.0, 1, "Two", "tWO", "two", 2, "1", True, None, ["two"]]
HEADINGS = st.sampled_from(
    [
        None,
        "",
        "Guide",
        "# Guide > Set up",
        "Guide  >  ##Set\tup > Linux",
        "Guides",
        "Guide > \xa0Set up",
        ">Guide> >Set up",
    ]
)
TEXTS = st.sampled_from([None, "", "one TWO three", "Two", "STRASSE straße", "… two …", "nothing"])
SNIPPETS = st.sampled_from([None, "two", " Two… ", "two...", "three", "", "ß"])
UNITS = st.sampled_from(["chars", "lines"])


def column(values, dtype="str"):
    return pd.Series(list(values), dtype=dtype)


def frame(rows, **dtypes):
    """A frame of these columns, whatever rows there are."""
    return pd.DataFrame(
        {name: column((row[name] for row in rows), dtype) for name, dtype in dtypes.items()}
    )


HIT = st.fixed_dictionaries({
    "run_id": st.sampled_from(["r", "s"]), "query_id": st.sampled_from([*QUERIES, "other"]),
    "rank": st.integers(1, 4), "doc_id": st.sampled_from([None, *DOCS]),
    "path": st.sampled_from([None, *DOCS]), "heading": HEADINGS, "text": TEXTS,
    "text_cut": st.booleans(), "source_key": st.sampled_from([None, "K", "k", "l"]),
    "start": st.one_of(st.none(), st.integers(0, 6)), "length": st.integers(1, 5),
    "span_unit": UNITS,
    "meta": st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(META_VALUES)), max_size=3),
})  # fmt: skip
TARGET = st.fixed_dictionaries({
    "query_id": st.sampled_from(QUERIES), "doc_id": st.sampled_from([None, *DOCS]),
    "path": st.sampled_from([None, *DOCS]), "heading": HEADINGS,
    "snippet": SNIPPETS, "target_id": st.sampled_from(["t1", "t2"]),
    "start": st.one_of(st.none(), st.integers(0, 6)), "length": st.integers(1, 5),
    "span_unit": UNITS, "grade": st.integers(0, 2),
})  # fmt: skip
HITS = st.lists(
    HIT, max_size=16, unique_by=lambda hit: (hit["run_id"], hit["query_id"], hit["rank"])
)

MANY_HITS = st.lists(
    HIT,
    min_size=8,
    max_size=20,
    unique_by=lambda hit: (hit["run_id"], hit["query_id"], hit["rank"]),
)


def hits_frame(hits):
    columns = frame(
        hits, run_id="category", query_id="str", rank="int32", doc_id="str", path="str",
        heading="str", text="str", text_cut="boolean", source_key="str",
        start="Int64", span_unit="category",
    )  # fmt: skip
    return columns.assign(end=columns["start"] + column((hit["length"] for hit in hits), "Int64"))


def targets_frame(targets):
    columns = frame(
        targets,
        query_id="str",
        target_id="str",
        doc_id="str",
        path="str",
        heading="str",
        snippet="str",
        start="Int64",
        span_unit="str",
        grade="int32",
    )
    return columns.assign(
        end=columns["start"] + column((target["length"] for target in targets), "Int64")
    )


def pairs_of(hits, targets):
    return (
        (h, t)
        for h, hit in enumerate(hits)
        for t, target in enumerate(targets)
        if hit["query_id"] == target["query_id"]
    )


def share_of(hit, target):
    """How much of the shorter span both have; None where there is nothing to compare."""
    same = (
        hit["doc_id"] == target["doc_id"]
        if target["doc_id"] is not None
        else hit["path"] == target["path"] is not None
    )
    if (
        not same
        or hit["start"] is None
        or target["start"] is None
        or hit["span_unit"] != target["span_unit"]
    ):
        return None
    shared = min(hit["start"] + hit["length"], target["start"] + target["length"]) - max(
        hit["start"], target["start"]
    )
    return max(shared, 0) / min(hit["length"], target["length"])


@given(HITS, st.lists(TARGET, max_size=8))
def test_the_span_rule_judges_each_pair_by_itself(hits, targets):
    found = apply_rule(rs.match.by_span(), hits_frame(hits), targets_frame(targets))
    expected = {
        (h, t): share
        for h, t in pairs_of(hits, targets)
        if (share := share_of(hits[h], targets[t])) is not None and share >= 0.5
    }
    assert (
        dict(
            zip(
                zip(found["hit"], found["target"], strict=True),
                found.get("coverage", []),
                strict=True,
            )
        )
        == expected
    )


def names(heading):
    parts = (" ".join(part.lstrip("# \t\xa0").split()) for part in (heading or "").split(">"))
    return [part for part in parts if part]


def anchored(hit, target):
    """True, False, or None where a cut text leaves it open."""
    wanted = names(target["heading"])
    if (
        hit["path"] is None
        or hit["path"] != target["path"]
        or names(hit["heading"])[: len(wanted)] != wanted
    ):
        return False
    if target["snippet"] is None or (not hit["text"] and not hit["text_cut"]):
        return True
    snippet = target["snippet"].lower().strip().removesuffix("...").removesuffix("…")
    return True if snippet in (hit["text"] or "").lower() else None if hit["text_cut"] else False


@given(HITS, st.lists(TARGET, max_size=8))
def test_the_anchor_rule_judges_each_pair_by_itself(hits, targets):
    found = apply_rule(rs.match.by_anchor(), hits_frame(hits), targets_frame(targets))
    judged = {(h, t): anchored(hits[h], targets[t]) for h, t in pairs_of(hits, targets)}
    is_open = found["undecidable"].to_numpy(dtype=bool)
    assert set(zip(found["hit"][~is_open], found["target"][~is_open], strict=True)) == {
        pair for pair, holds in judged.items() if holds
    }

    def target_of(pairs):
        return sorted({(h, targets[t]["query_id"], targets[t]["target_id"]) for h, t in pairs})

    # A hit and a target with several snippets are open once, if none of these is found.
    decided = target_of(pair for pair, holds in judged.items() if holds)
    still_open = [
        one
        for one in target_of(pair for pair, holds in judged.items() if holds is None)
        if one not in decided
    ]
    assert target_of(
        zip(found["hit"][is_open], found["target"][is_open], strict=True)
    ) == still_open and is_open.sum() == len(still_open)


VALUES = st.sampled_from([1, 1.0, "two", "TWO", 2.0, "1", True])
QUESTION = st.fixed_dictionaries({
    "keys": st.lists(st.sampled_from(["K", "l", "m"]), max_size=2, unique=True),
    "conditions": st.lists(st.tuples(st.sampled_from("xy"), VALUES), max_size=2,
    unique_by=lambda one: one[0]),
    "texts": st.lists(st.sampled_from(["TWO", "three", "1"]), max_size=2, unique=True),
})  # fmt: skip


def equal(value, wanted):
    """Whether a metadata value is what was asked for.

    Texts whatever their case, null as an empty text; numbers by value, true as 1.
    """
    value, wanted = ("" if one is None else one for one in (value, wanted))
    if isinstance(value, str) and isinstance(wanted, str):
        return value.lower() == wanted.lower()
    return bool(value == wanted)


def met(hit, question, metadata, substrings):
    """Whether the hit has the metadata and texts.

    True, False, or None where a cut text leaves it open.
    """
    rows = hit["meta"]
    n_held = sum(
        equal(value, wanted)
        for key, wanted in question["conditions"]
        for name, value in rows
        if name == key
    )
    if question["conditions"] and n_held < (
        len(question["conditions"]) if metadata == "all" else 1
    ):
        return False
    wholes = [
        (hit["text"] or "").lower(),
        *(
            "" if value is None else value.lower() if isinstance(value, str) else json.dumps(value)
            for _, value in rows
        ),
    ]
    held = [any(text.lower() in whole for whole in wholes) for text in question["texts"]]
    if not held or (all(held) if substrings == "all" else any(held)):
        return True
    return None if hit["text_cut"] else False


@given(
    MANY_HITS,
    st.tuples(QUESTION, QUESTION, QUESTION),
    st.sampled_from(["any", "all"]),
    st.sampled_from(["any", "all"]),
    st.sampled_from([2, codes.PIECE]),
)
def test_the_predicate_rule_judges_each_hit_by_itself(hits, questions, metadata, substrings, piece):
    asked = dict(zip(QUERIES, questions, strict=True))
    keyed = [
        {"query_id": name, "level": "source_key", "target_id": key, "source_key": key}
        for name, one in asked.items()
        for key in one["keys"]
    ]
    content = [
        {"query_id": name, "level": "predicate", "target_id": "expected", "source_key": None}
        for name, one in asked.items()
        if one["conditions"] or one["texts"]
    ]
    targets = frame(
        [*keyed, *content], query_id="str", level="str", target_id="str", source_key="str"
    ).assign(grade=1)
    conditions = [
        {"query_id": q, "target_id": "expected", "key": key, "value": json.dumps(value)}
        for q, one in asked.items()
        for key, value in one["conditions"]
    ]
    checks = [
        {"query_id": name, "kind": "expected_substring", "text": text}
        for name, one in asked.items()
        for text in one["texts"]
    ]
    queries = pd.DataFrame(
        {"query_id": QUERIES, "query": QUERIES, "answerable": True, "position": range(3)}
    )
    golden = rs.Golden(
        queries=queries, targets=targets.assign(alternative=0),
        conditions=frame(conditions, query_id="str", target_id="str", key="str", value="str"),
        checks=frame(checks, query_id="str", kind="str", text="str"),
    )  # fmt: skip
    meta = [
        {**hit, "key": key, "value": json.dumps(value)}
        for hit in hits
        for key, value in hit["meta"]
    ]
    # The metadata of a hit that isn't there belongs to none.
    meta += [{"run_id": "r", "query_id": "q1", "rank": 9, "key": "x", "value": "1"}]
    results = rs.Results(
        runs=pd.DataFrame({"run_id": pd.Categorical(["r", "s"])}),
        responses=frame([], run_id="category", query_id="str", query="str", error="str"),
        hit_meta=frame(meta, run_id="category", query_id="str", rank="int32", key="str",
        value="str"),
    )  # fmt: skip
    rule = by_predicate(results, golden, metadata=metadata, substrings=substrings)
    with mock.patch.object(codes, "PIECE", piece):  # a few rows in pieces, too
        found = apply_rule(rule, hits_frame(hits), targets)
    expected = {}
    for h, hit in enumerate(hits):
        for t, row in enumerate([*keyed, *content]):
            if row["query_id"] == hit["query_id"]:
                is_met = (
                    row["source_key"].lower() == (hit["source_key"] or "").lower()
                    if row["source_key"]
                    else met(hit, asked[hit["query_id"]], metadata, substrings)
                )
                expected |= {(h, t): is_met is None} if is_met is not False else {}
    assert (
        dict(
            zip(zip(found["hit"], found["target"], strict=True), found["undecidable"], strict=True)
        )
        == expected
    )
    assert not found.duplicated(["hit", "target"]).any()

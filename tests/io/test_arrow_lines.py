"""The fast reader of run files gives what the per-line reader gives, frame for frame and error for
error, or leaves the file to it.
"""

import gzip
import json
import math
import random
import warnings

import pytest
from conftest import EXAMPLES, answer, hit, record
from plausible_runs import equal, plausible, put

import ragscore as rs
from ragscore.io import arrow_lines, per_query

N_FILES = EXAMPLES // 4


def outcome(file, strict):
    """What a load ends in: its frames or its error, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = rs.load_results(file, format="per_query", strict=strict)
        except rs.DataError as error:
            found = str(error)
    return found, [str(one.message) for one in caught]


@pytest.fixture
def both(monkeypatch):
    """Read a file both ways, compare, and say whether the fast reader took it."""

    def compare(file, strict=True, block=4_000):
        taken = []

        def spied(*arguments):
            taken.append(arrow_lines.read_frames(*arguments))
            return taken[-1]

        monkeypatch.setattr(per_query, "read_frames", spied)
        monkeypatch.setattr(arrow_lines, "BLOCK_BYTES", block)
        monkeypatch.setattr(arrow_lines, "FROM_BYTES", math.inf)
        plain, plain_warnings = outcome(file, strict)
        assert not taken or taken[-1] is None
        monkeypatch.setattr(arrow_lines, "FROM_BYTES", 0)
        fast, fast_warnings = outcome(file, strict)
        assert type(fast) is type(plain) and fast_warnings == plain_warnings
        if isinstance(plain, str):
            assert fast == plain
        else:
            equal(fast, plain)
        return bool(taken) and taken[-1] is not None

    return compare


def test_files_of_plausible_records_read_the_same(both, tmp_path):
    for seed in range(N_FILES):
        by = random.Random(seed)
        ascii_only = by.random() < 0.5
        file = put(tmp_path, [json.dumps(one, ensure_ascii=ascii_only) for one in plausible(by)])
        both(file, block=by.choice([2_000, 10_000, 10**6]))


GOOD = [
    record(f"q{n}", [hit("c1", "d1", 1), hit("c2", "d2", 2)], answer=answer("yes", paths=["p"]))
    for n in range(12)
]
LINE = json.dumps(GOOD[0]).replace('"q0"', '"new"')


def test_a_file_like_those_of_the_tools_is_read_fast_plain_or_compressed(both, tmp_path):
    file = put(tmp_path, GOOD)
    assert both(file)
    packed = tmp_path / "per_query.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert both(packed)


def test_fields_that_come_late_are_learned_on_the_way(both, tmp_path):
    late = [
        record(
            f"r{n}",
            [hit("c", "d", 1, section_label="s", weight=n + 0.5)],
            answer=answer("a"),
            note="n",
        )
        for n in range(5)
    ]
    assert both(
        put(tmp_path, [*GOOD, *late, *[one | {"query_id": one["query_id"] + "b"} for one in GOOD]])
    )
    whole = [
        one | {"query_id": f"s{n}", "hits_top_k": [hit("c", "d", 1, weight=n)]}
        for n, one in enumerate(GOOD)
    ]
    # whole numbers first, decimal ones later: a column of decimal numbers
    assert both(put(tmp_path, [*whole, *late]))


ODD_LINES = {
    "two objects on a line": LINE + LINE.replace("new", "newer"),
    "an object over two lines": LINE.replace(', "mode"', '\n, "mode"'),
    "a blank line": "",
    "carriage return": LINE + "\r",
    "indented": "  " + LINE,
    "a mark within": "\ufeff" + LINE,
    "a nul after it": LINE + "\0}",
    "a nul in text": LINE.replace('"question q0"', '"\\u0000"'),
    "cut off": LINE[:-9],
    "a key twice": LINE.replace('"mode"', '"query"'),
    "a lone high surrogate": LINE.replace('"lexical"', '"\\ud800"'),
    "a pair": LINE.replace('"lexical"', '"\\ud83d\\ude00"'),
    "NaN": LINE.replace('"elapsed_ms": 1', '"elapsed_ms": NaN'),
    "minus zero": LINE.replace('"elapsed_ms": 1', '"elapsed_ms": -0'),
    "beyond float": LINE.replace('"elapsed_ms": 1', f'"elapsed_ms": {10**400}'),
    "a number as id": LINE.replace('"new"', "7"),
    "no id": LINE.replace('"query_id"', '"id"'),
    "an id again": LINE.replace('"new"', '"q3"'),
    "an empty chunk id": LINE.replace('"c1"', '""'),
    "rank from 0": LINE.replace('"rank": 1', '"rank": 0'),
    "rank twice": LINE.replace('"rank": 2', '"rank": 1'),
    "a gap in ranks": LINE.replace('"rank": 2', '"rank": 3'),
    "one rank null": LINE.replace('"rank": 2', '"rank": null'),
    "hits that are none": LINE.replace('"hits_top_k": [', '"hits_top_k": 3, "y": ['),
    "a slip": LINE.replace('"mode"', '"modes"'),
    "a slip in a hit": LINE.replace('"chunk_id"', '"chunkid"'),
    "a citation without kind": LINE.replace('"kind": "line"', '"sort": "line"'),
    "a span that ends first": LINE.replace('"end": 4', '"end": 0'),
    "a null span unit": (
        LINE.replace('"section": null', '"x": 1').replace(
            '"rank": 1', '"rank": 1, "span_unit": null'
        )
    ),
    "the longest span": LINE.replace('"end": 4', f'"end": {2**63 - 1}'),
    "answer as text": json.dumps(record("new", [], answer="text")),
    "an answer of own nulls": json.dumps(record("new", [], answer={"model": None})),
    "a blank answer": json.dumps(record("new", [], answer={"answer": " \x1f"})),
    "unknown refusal": json.dumps(record("new", [], answer=answer("a", refused="unknown"))),
    "hops": json.dumps(record("new", [], answer=answer("a", hops=[{"kind": "k"}]))),
    "negative tokens": json.dumps(
        record("new", [], answer=answer("a", usage={"prompt_tokens": -1}))
    ),
    "metadata": json.dumps(
        record("new", [hit("c", "d", 1, metadata={"y": None, "source_key": "k"})])
    ),
    "a heading of parts that hold the separator": json.dumps(
        record("new", [hit("c", "d", 1, heading_path=["a > b"])])
    ),
    "an empty part": json.dumps(record("new", [hit("c", "d", 1, heading_path=[""])])),
    "a heading as text": json.dumps(record("new", [hit("c", "d", 1, heading_path="a > b")])),
    "two scores": json.dumps(record("new", [hit("c", "d", 1, score=3)])),
    "nested": json.dumps(record("new", [], own={"a": {"b": 1}})),
    "a list of objects": json.dumps(record("new", [], own=[{"b": 1, "a": None}])),
    "an own number without end": json.dumps(record("new", [], own=2**63)),
    "a long one beside a decimal": (
        json.dumps(record("new", [], own=2**60)) + "\n" + json.dumps(record("b", [], own=0.5))
    ),
    "an own mix": (
        json.dumps(record("new", [], own=1)) + "\n" + json.dumps(record("b", [], own="1"))
    ),
    "a list and a text": (
        json.dumps(record("new", [], own=[1])) + "\n" + json.dumps(record("b", [], own="1"))
    ),
    "an error that is none": json.dumps(record("new", [], error=False)),
    "a key json": json.dumps(record("new", [], **{"json": [1], "a.b": "%", "": "e"})),
    "a duration that comes late": (
        json.dumps(record("new", [], latency_a_ms=None))
        + "\n"
        + json.dumps(record("b", [], note="x"))
        + "\n"
        + json.dumps(record("c", [], latency_a_ms=3))
    ),
    "objects nested without end": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "arrays nested without end": '{"a":' + "[" * 50_000 + "]" * 50_000 + "}",
    "nested 300 times": '{"own":' * 300 + "1" + "}" * 300,
}


@pytest.mark.parametrize("name", list(ODD_LINES))
def test_an_odd_line_ends_the_same_wherever_it_stands(both, tmp_path, name):
    both(put(tmp_path, [ODD_LINES[name], *GOOD[:6]]), strict=False, block=10**7)
    both(put(tmp_path, [*GOOD[:6], ODD_LINES[name]]), strict=True)

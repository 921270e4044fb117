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
from damaged_files import READERS, damaged, written
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


def test_files_of_plausible_records_read_the_same_and_most_of_them_fast(both, tmp_path):
    n_taken = 0
    for seed in range(N_FILES):
        by = random.Random(seed)
        ascii_only = by.random() < 0.5
        file = put(tmp_path, [json.dumps(one, ensure_ascii=ascii_only) for one in plausible(by)])
        n_taken += both(file, block=by.choice([2_000, 10_000, 10**6]))
    assert n_taken > N_FILES / 3


@pytest.mark.parametrize("strict", [True, False])
def test_files_nearly_right_end_the_same_whoever_reads_them(both, tmp_path, strict):
    n_taken = 0
    for seed in range(N_FILES):
        by, file = random.Random(f"fast {seed}"), tmp_path / "per_query.jsonl"
        _, _, good, how, _, _ = READERS["per_query"]
        without_hops = (
            [one | {"answer": None} if by.random() < 0.9 else one for one in good]
            if by.random() < 0.8
            else good
        )
        file.write_bytes(
            damaged(written(without_hops, how, by).encode("utf-8", "surrogatepass"), by)
        )
        n_taken += both(file, strict)
    assert n_taken < N_FILES and (n_taken or N_FILES < 20)  # few files may all be damaged


GOOD = [
    record(f"q{n}", [hit("c1", "d1", 1), hit("c2", "d2", 2)], answer=answer("yes", paths=["p"]))
    for n in range(12)
]
LINE = json.dumps(GOOD[0]).replace('"q0"', '"new"')


@pytest.mark.large
def test_a_file_like_those_of_the_tools_is_read_fast_plain_or_compressed(both, tmp_path):
    file = put(tmp_path, GOOD)
    assert both(file) and both(file, block=10**7)
    packed = tmp_path / "per_query.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert both(packed)
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    assert both(file)


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
    "one over two lines and two on one": (
        LINE.replace(', "mode"', '\n, "mode"') + LINE.replace("new", "newer")
    ),
    "a blank line": "",
    "spaces": "  ",
    "carriage return": LINE + "\r",
    "indented": "  " + LINE,
    "a mark within": "\ufeff" + LINE,
    "a nul after it": LINE + "\0}",
    "a nul in text": LINE.replace('"question q0"', '"\\u0000"'),
    "an array": "[]",
    "a number": "1",
    "cut off": LINE[:-9],
    "a key twice": LINE.replace('"mode"', '"query"'),
    "a null key twice": LINE.replace('"section_label"', '"embedding_model"'),
    "a lone high surrogate": LINE.replace('"lexical"', '"\\ud800"'),
    "a lone low one": LINE.replace('"lexical"', '"\\udc00"'),
    "a pair": LINE.replace('"lexical"', '"\\ud83d\\ude00"'),
    "NaN": LINE.replace('"elapsed_ms": 1', '"elapsed_ms": NaN'),
    "infinity": LINE.replace('"elapsed_ms": 1', '"elapsed_ms": Infinity'),
    "Inf": LINE.replace('"elapsed_ms": 1', '"elapsed_ms": Inf'),
    "minus zero": LINE.replace('"elapsed_ms": 1', '"elapsed_ms": -0'),
    "beyond float": LINE.replace('"elapsed_ms": 1', f'"elapsed_ms": {10**400}'),
    "a number as id": LINE.replace('"new"', "7"),
    "an empty id": LINE.replace('"new"', '""'),
    "no id": LINE.replace('"query_id"', '"id"'),
    "an id again": LINE.replace('"new"', '"q3"'),
    "null as id": LINE.replace('"new"', "null"),
    "an empty chunk id": LINE.replace('"c1"', '""'),
    "rank 1.0": LINE.replace('"rank": 1', '"rank": 1.0'),
    "rank from 0": LINE.replace('"rank": 1', '"rank": 0'),
    "rank twice": LINE.replace('"rank": 2', '"rank": 1'),
    "a gap in ranks": LINE.replace('"rank": 2', '"rank": 3'),
    "one rank null": LINE.replace('"rank": 2', '"rank": null'),
    "true as rank": LINE.replace('"rank": 1', '"rank": true'),
    "a null hit": LINE.replace('"hits_top_k": [', '"hits_top_k": [null, '),
    "hits that are none": LINE.replace('"hits_top_k": [', '"hits_top_k": 3, "y": ['),
    "a slip": LINE.replace('"mode"', '"modes"'),
    "a slip in a hit": LINE.replace('"chunk_id"', '"chunkid"'),
    "an unknown kind": LINE.replace('"kind": "line"', '"kind": "lines"'),
    "a citation without kind": LINE.replace('"kind": "line"', '"sort": "line"'),
    "a span that ends first": LINE.replace('"end": 4', '"end": 0'),
    "half a span": LINE.replace('"end": 4', '"end": null'),
    "a span from below": LINE.replace('"start": 1', '"start": -1'),
    "a null span unit": (
        LINE.replace('"section": null', '"x": 1').replace(
            '"rank": 1', '"rank": 1, "span_unit": null'
        )
    ),
    "the longest span": LINE.replace('"end": 4', f'"end": {2**63 - 1}'),
    "beyond it": LINE.replace('"end": 4', f'"end": {2**63}'),
    "answer as text": json.dumps(record("new", [], answer="text")),
    "an empty answer": json.dumps(record("new", [], answer={})),
    "an answer of nulls": json.dumps(record("new", [], answer={"answer": None})),
    "an answer of own nulls": json.dumps(record("new", [], answer={"model": None})),
    "a blank answer": json.dumps(record("new", [], answer={"answer": " \x1f"})),
    "unknown refusal": json.dumps(record("new", [], answer=answer("a", refused="unknown"))),
    "hops": json.dumps(record("new", [], answer=answer("a", hops=[{"kind": "k"}]))),
    "no hops": json.dumps(record("new", [], answer=answer("a", hops=[]))),
    "negative tokens": json.dumps(
        record("new", [], answer=answer("a", usage={"prompt_tokens": -1}))
    ),
    "metadata": json.dumps(
        record("new", [hit("c", "d", 1, metadata={"y": None, "source_key": "k"})])
    ),
    "no metadata": json.dumps(record("new", [hit("c", "d", 1, metadata={})])),
    "a heading of parts that hold the separator": json.dumps(
        record("new", [hit("c", "d", 1, heading_path=["a > b"])])
    ),
    "parts that make one at the seam": json.dumps(
        record("new", [hit("c", "d", 1, heading_path=["a >", "b"])])
    ),
    "an empty part": json.dumps(record("new", [hit("c", "d", 1, heading_path=[""])])),
    "a null part": json.dumps(record("new", [hit("c", "d", 1, heading_path=[None])])),
    "a heading as text": json.dumps(record("new", [hit("c", "d", 1, heading_path="a > b")])),
    "two scores": json.dumps(record("new", [hit("c", "d", 1, score=3)])),
    "an empty own object": json.dumps(record("new", [], own={})),
    "one of nulls": json.dumps(record("new", [], own={"a": None})),
    "nested": json.dumps(record("new", [], own={"a": {"b": 1}})),
    "a list of objects": json.dumps(record("new", [], own=[{"b": 1, "a": None}])),
    "a list of decimal numbers": json.dumps(record("new", [], own=[1, 2.5])),
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
    "a scope that is a list": json.dumps(record("new", [], scope=["a"])),
    "an error that is none": json.dumps(record("new", [], error=False)),
    "a key json": json.dumps(record("new", [], **{"json": [1], "a.b": "%", "": "e"})),
    "a duration that comes late": (
        json.dumps(record("new", [], latency_a_ms=None))
        + "\n"
        + json.dumps(record("b", [], note="x"))
        + "\n"
        + json.dumps(record("c", [], latency_a_ms=3))
    ),
}


@pytest.mark.parametrize("name", list(ODD_LINES))
@pytest.mark.parametrize("at", [0, 12])
def test_an_odd_line_ends_the_same_wherever_it_stands(both, tmp_path, name, at):
    file = put(tmp_path, [*GOOD[:at], ODD_LINES[name], *GOOD[at:]])
    for strict in (True, False):
        both(file, strict, block=4_000 if strict else 10**7)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"{}",
        b"\xef\xbb\xbf" + LINE.encode(),
        LINE.encode() + b"\n\n",
        LINE.replace("lexical", "\xff").encode("latin-1"),
        b'{"query_id": "\xed\xa0\x80"}',
    ],
)
def test_files_of_odd_bytes_end_the_same(both, tmp_path, content):
    file = tmp_path / "per_query.jsonl"
    file.write_bytes(content)
    for strict in (True, False):
        both(file, strict)


@pytest.mark.parametrize(
    "deep",
    [
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"own":' * 300 + "1" + "}" * 300,
    ],
)
@pytest.mark.parametrize("at", [0, 12])
def test_lines_nested_without_end_end_the_same_and_not_the_process(both, tmp_path, deep, at):
    file = put(tmp_path, [*GOOD[:at], deep, *GOOD[at:]])
    for strict in (True, False):
        both(file, strict)


def test_a_small_file_is_left_to_the_per_line_reader(tmp_path):
    assert arrow_lines.read_frames(put(tmp_path, GOOD[:2]), "r") is None
    assert (
        arrow_lines.read_frames(
            put(
                tmp_path,
                [one | {"query_id": f"{one['query_id']}-{n}"} for n in range(40) for one in GOOD],
            ),
            "r",
        )
        is not None
    )

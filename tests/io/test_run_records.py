"""A run file gives the same frames, faults and warnings, whoever parses its lines (pyarrow or
`json`), and however many become columns at once.
"""

import gzip
import json
import random
import subprocess
import sys
import warnings

import pandas as pd
import pytest
from conftest import EXAMPLES, answer, hit, record
from plausible_runs import plausible, put
from stored import assert_same

import ragscore as rs
from ragscore.io import files, run_records
from tests.messages import warned

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
    """Read a file in both ways, compare, and return whether pyarrow parsed its end."""

    def compare(file, strict=True, block=4_000, batch=3):
        parsed, parse = [], run_records.LineParser.parse

        def spied(parser, *arguments):
            parsed.append((parser, parse(parser, *arguments)))
            return parsed[-1][1]

        monkeypatch.setattr(run_records.LineParser, "parse", spied)
        found = []
        # json for the whole file; pyarrow for blocks of it, and json for a few lines at once
        for fewest, lines, size in ((10**9, 10**9, 10**9), (1, batch, block)):
            monkeypatch.setattr(run_records, "FEWEST", fewest)
            monkeypatch.setattr(run_records, "BATCH", lines)
            monkeypatch.setattr(files, "BLOCK_BYTES", size)
            found.append(outcome(file, strict))
        (plain, told), (other, told_there) = found
        assert told_there == told and type(other) is type(plain)
        if isinstance(plain, str):
            assert other == plain
        else:  # columns of one's own may come in another order
            assert_same(other, plain, check_like=True)
        parser, last = parsed[-1]
        return last is not None and not parser.is_off

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


LATE = [
    record(
        f"r{n}", [hit("c", "d", 1, section_label="s", weight=n + 0.5)], answer=answer("a"), note="n"
    )
    for n in range(5)
]
AGAIN = [one | {"query_id": one["query_id"] + "b"} for one in GOOD]
WHOLE = [one | {"hits_top_k": [hit("c", "d", 1, weight=n)]} for n, one in enumerate(GOOD)]
BARE = [record(f"q{n}", [{"chunk_id": "c", "rank": 1}], answer=None) for n in range(12)]


@pytest.mark.parametrize(
    "rows",
    [
        GOOD,
        BARE,  # no citation anywhere
        [*GOOD, *LATE, *AGAIN],  # fields that come late are learned on the way
        [*WHOLE, *LATE],  # whole numbers first, decimal ones later: a column of decimal numbers
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_file_like_those_of_the_tools_is_read_fast_plain_or_compressed(
    both, tmp_path, rows, is_packed
):
    file = put(tmp_path, rows)
    packed = tmp_path / "per_query.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert both(packed if is_packed else file)


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
    "an own mix, far apart": "\n".join(
        json.dumps(record(name, [], own=1 if name < "d" else "1")) for name in "abcdefgh"
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


# The first lines are odd JSON, each in its way, the others odd records, as plausible files hold
# them, too.
N_OF_JSON = 18


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (n >= N_OF_JSON))
        for n, name in enumerate(ODD_LINES)
    ],
)
def test_an_odd_line_ends_the_same_wherever_it_stands(both, tmp_path, name):
    both(put(tmp_path, [ODD_LINES[name], *GOOD[:6]]), strict=False, block=10**7)
    both(put(tmp_path, [*GOOD[:6], ODD_LINES[name]]), strict=True)


def test_errors_whose_words_say_that_there_is_none_are_warned_of(tmp_path):
    rows = [record(f"q{n}", [], error=one) for n, one in enumerate(["None", "null", "N/A", "boom"])]
    with warned(3, "'None', 'null', 'N/A'"):
        assert rs.load_results(put(tmp_path, rows)).runs["n_failed"].tolist() == [4]


def test_an_empty_list_of_citations_records_that_nothing_is_cited(tmp_path):
    answers = [{"answer": "a", "citations": one} for one in ([], None, [{"doc_id": "d"}])]
    rows = [record(f"q{n}", [], answer=one) for n, one in enumerate([*answers, {"answer": "a"}])]
    found = rs.load_results(put(tmp_path, rows))
    assert found.responses["n_citations"].fillna(-1).tolist() == [0, -1, -1, -1]
    written = found.save(tmp_path / "out", format="per_query").read_text().splitlines()
    assert [json.loads(one)["answer"].get("citations") for one in written] == [
        [], None, [{"doc_id": "d"}], None,
    ]  # fmt: skip
    rows = [one for one in rows if "citations" not in one["answer"]]
    assert "n_citations" not in rs.load_results(put(tmp_path, rows)).responses


def test_a_query_whose_hits_are_null_was_asked(tmp_path):
    rows = [record("1", [hit("c", "d", 1)]), record("2", []) | {"hits_top_k": None}]
    found = rs.load_results(put(tmp_path, rows))
    assert found.responses["query_id"].tolist() == ["1", "2"]
    scores = rs.score(found, rs.load_golden({"1": ["d"], "2": ["d"]}), ["hit@1"])
    assert scores["hit@1"].tolist() == [1, 0]


def test_pieces_of_a_file_make_the_run(tmp_path, monkeypatch):
    rows = [record(f"q{n}", [hit("c", "d", 1)], answer={"answer": "a"}) for n in range(40)]
    rows[-1] |= {"answer": {"answer": "no", "refused": True}, "error": "late"}
    file = put(tmp_path, rows)
    monkeypatch.setattr(files, "BLOCK_BYTES", 4_000)
    monkeypatch.setattr(run_records, "FEWEST", 1)
    pieces, whole = [*rs.io.load_pieces(file)], rs.load_results(file)
    assert len(pieces) > 3
    for kind in ("responses", "hits"):
        frame = pd.concat([getattr(one, kind) for one in pieces], ignore_index=True)
        pd.testing.assert_frame_equal(frame, getattr(whole, kind), check_like=True)
    for one in pieces:
        pd.testing.assert_frame_equal(one.runs, whole.runs)


# A field of a response is one line of the schema: reader, writer, roles and mappings follow.

# Adds two fields before anything of ragscore has read the schema, and looks for them everywhere.
ADDED = """
from ragscore.frames.schema import FIELDS, Field
FIELDS["responses"] += [
    Field("n_reviews", "whole", "answer.n_reviews", names="n_reviews reviews"),
    Field("region", "text", "region", names="region zone"),
]
import json, sys
from pathlib import Path
import ragscore as rs
from ragscore.collecting.replies import record_of
from ragscore.collecting.http import read_mapping, reply_of
from ragscore.io.servers import Redactor
from ragscore.io import run_records

line = {"query_id": "q", "query": "?", "mode": None, "hits_top_k": [], "answer":
        {"answer": "a", "n_reviews": 3, "citations": []}, "elapsed_ms": 1.5, "error": None,
        "region": "eu"}
file = Path("per_query.jsonl")
file.write_text(json.dumps(line) + "\\n" + json.dumps(line | {"query_id": "r"}) + "\\n")
texts = []
for run_records.FEWEST in (1 << 30, 0):
    found = rs.load_results(file)
    texts.append(found.responses.to_csv())
    assert found.responses["n_reviews"].tolist() == [3, 3]
    assert str(found.responses["n_reviews"].dtype) == "Int64"
    assert found.responses["region"].tolist() == ["eu", "eu"]
assert texts[0] == texts[1]

written = found.save("out.jsonl").read_text().splitlines()
assert json.loads(written[0]) == line, written[0]

table = [{"query_id": "q", "doc_id": ["d"], "zone": "us", "seen": 4}]
mapped = rs.load_results(table, columns={"n_reviews": "seen"}).responses
assert mapped["n_reviews"].tolist() == [4] and mapped["region"].tolist() == ["us"]

mapping = read_mapping({"url": "http://x", "response":
    {"answer": "said", "n_reviews": "meta.reviews", "region": "meta.zone"}})
reply = reply_of(mapping, {"said": "a", "meta": {"reviews": 5, "zone": "af"}})
record, _ = record_of({"query_id": "q", "query": "?"}, reply, 1.0, 1, Redactor())
assert record["answer"]["n_reviews"] == 5 and record["region"] == "af", record

file.write_text(json.dumps(line | {"answer": {"answer": "a", "n_reviews": "x"}}) + "\\n")
try:
    rs.load_results(file)
except rs.DataError as error:
    assert (error.line, error.field) == (1, "answer.n_reviews"), error
else:
    sys.exit("a value of another type was taken")
file.write_text(json.dumps({**line, "answer": {"answer": "a", "n_review": 3}}) + "\\n")
rs.load_results(file)
"""


def test_a_field_that_is_added_to_the_schema_is_known_everywhere(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", ADDED], cwd=tmp_path, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert "n_review" in told.stderr and "n_reviews" in told.stderr  # the warning of a misspelling

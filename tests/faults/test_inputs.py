"""Mutated files under every reader: each ends in frames of finite values, or in one DataError.

Whatever a file holds, its reader returns what it could read or one error that names the file,
within a gigabyte and 20 s. Rounds run in a process of their own, some at a time.
"""

import json
import random
import re
import resource
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import times
from damaged_files import (
    IS_GOLDEN,
    KEBAB_RUN,
    READERS,
    RECORDS,
    changed,
    lines,
)

import ragscore as rs
from faults.children import start
from ragscore.frames.kinds import conform

FIXTURES = Path(__file__).parents[1] / "fixtures"


def either(file, *arguments, strict, **options):
    try:
        return rs.load_results(file, *arguments, strict=strict, **options)
    except rs.DataError:
        return rs.load_golden(file, *arguments, strict=strict, **options)


@dataclass(frozen=True)
class Attacked:
    """A good file, what lies beside it, and how it is read."""

    file: str
    content: bytes
    load: object
    records: tuple = ()
    how: str = ""
    target: str = ""
    beside: dict = field(default_factory=dict)
    format: str | None = None


def as_written(good, how):
    write = {"json": json.dumps, "lines": lines, "yaml": yaml.safe_dump, "text": "\n".join}[how]
    return write(good).encode("utf-8", "surrogatepass")


HITS = pd.DataFrame(
    {"query_id": ["q1", "q1", "q2"], "doc_id": ["d1", "d2", "d1"], "rank": [1, 2, 1],
     "score": [2.5, 1.5, 0.25], "note": ["a", None, "b"]}
)  # fmt: skip
ROWS = HITS.astype(object).where(HITS.notna(), None).to_dict("records")
LABELS = pd.DataFrame(
    {"query": ["one?", "two?"], "expected": ['["d1", "d2"]', "[]"], "answerable": [True, False]}
)
JUDGMENTS = [
    {"query_id": "q1", "criterion": "faithfulness", "item": "", "value": 0.5, "judge": "m"},
    {"query_id": "q2", "criterion": "correctness", "verdict": "yes", "tokens": 10},
]
TOPICS = "<top>\n<num> Number: q1\n<title> one?\n</top>\n<top>\n<num> q2\n<title> two?\n</top>\n"


RUN = {"per_query.jsonl": as_written(RECORDS, "lines")}


def of_records(file, good, how, load, **more):
    """A file that is written from good records, of which one or another is changed."""
    records = tuple(good) if isinstance(good, list) and how != "text" else (good,)
    return Attacked(file, as_written(good, how), load, records, how, **more)


# Every reader with a good file of its own.
CASES = {}
for name, (form, file, good, how, beside, target) in READERS.items():
    load = rs.load_golden if name in IS_GOLDEN else rs.load_results
    files = {inner: text.encode() for inner, text in beside.items()}
    CASES[name] = of_records(
        file, good, how, load if form else lambda file, **_: rs.io.load_documents(file),
        target=target, beside=files, format=form,
    )  # fmt: skip
CASES |= {
    "hits.csv": Attacked(
        "hits.csv", HITS.to_csv(index=False).encode(), rs.load_results, format="table"
    ),
    "labels.tsv": Attacked(
        "labels.tsv", LABELS.to_csv(index=False, sep="\t").encode(), rs.load_golden, format="table"
    ),
    "hits.parquet": Attacked("hits.parquet", HITS.to_parquet(), rs.load_results),
    "labels.parquet": Attacked("labels.parquet", LABELS.to_parquet(), rs.load_golden),
    "topics": Attacked(
        "topics.txt", TOPICS.encode(),
        lambda file, **options: rs.load_golden(file.parent / "qrels.txt", topics=file, **options),
        beside={"qrels.txt": b"q1 0 d1 1\nq2 0 d3 2\n"},
    ),
    "judgments.jsonl": of_records(
        "judgments.jsonl", JUDGMENTS, "lines", rs.load_results, target="per_query.jsonl", beside=RUN
    ),
    "a whole run": of_records("run.json", KEBAB_RUN, "json", rs.load_results),
    "hits.jsonl": of_records("hits.jsonl", ROWS, "lines", rs.load_results),
    "hits.json": of_records("hits.json", ROWS, "json", rs.load_results),
} | {
    f"tool {path.name}": Attacked(path.name, path.read_bytes(), either)
    for path in sorted(FIXTURES.glob("*_*"))
}  # fmt: skip


# What is done to a file


def flipped(data, by):
    for _ in range(by.choice([1, 1, 1, 2, 8])):
        place = by.randrange(len(data))
        data = data[:place] + bytes([data[place] ^ 1 << by.randrange(8)]) + data[place + 1 :]
    return data


def cut(data, by):
    return data[: by.randrange(len(data))]


VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[^\s,\t":{}\[\]]+')
TOKENS = [
    b"1e999", b"-1e999", b"NaN", b"Infinity", b"-0", b"0.1e-400", b"1" + b"0" * 400, b"9" * 5000,
    b"1:59:59" + b":59" * 300, b"9223372036854775808", b"-9223372036854775809", b"0001-01-01",
    b"9999-12-31T23:59:59-14:00", b"99999-99-99", b'"9999-12-31T23:59:59-14:00"',
    b'"0001-01-01T00:00:00+14:00"', b'"262143-01-01"', b".inf", b".nan", b"1.0e+999",
    b"0x" + b"f" * 500, b'"' + b"a" * 70_000 + b'"', b"a" * 70_000, b'"\\ud800"', b"\xff", b"\x00",
    b"null", b"[]", b"{}", b"true", b"[[]]", b'{"a": 1}', b"*a", b"&a [*a]", b"!!binary x", b"<<",
    b"!!python/object:os.system x", b"? [a]\n: b", b"---\n", b"<<: 1\n", b'""', b"''", b"-", b"- ",
    b"#", b"\t", b"\r", b"\xe2\x80\xa8",
]  # fmt: skip


def odd_value(data, by):
    found = list(VALUE.finditer(data))
    places = by.sample(found, min(len(found), by.choice([1, 1, 2])))
    for place in sorted(places, key=lambda one: -one.start()):
        data = data[: place.start()] + by.choice(TOKENS) + data[place.end() :]
    return data


def deep(data, by):
    depth = by.choice([50, 101, 400, 2000, 100_000])
    opening, closing = by.choice([(b"[", b"]"), (b'{"a":', b"}"), (b"- ", b""), (b"{a: ", b"}")])
    place = by.choice([*VALUE.finditer(data)])
    inside = opening * depth + place[0] + closing * depth * by.randrange(2)
    return data[: place.start()] + inside + data[place.end() :]


def encoded(data, by):
    kind = by.choice(["utf-16", "utf-32", "latin-1", "cp1252", "utf-8-sig"])
    return (data.decode("utf-8", "replace") + "é\0").encode(kind, "replace")


NONSENSE = [
    b"", b"\n", b" ", b"\xef\xbb\xbf", b"null", b"{}", b"[]", b"[null]", b"0", b'"text"', b"---\n",
    b"a,b\n", b"a,a\n1,2\n", b'a,b\n"1', b"[" * 100_000, b'{"a":' * 50_000, b'{"\\ud800": 1}',
]  # fmt: skip


BYTES = [flipped] * 6 + [cut] * 3 + [odd_value] * 8 + [deep, encoded]


def mutated(one, by):
    """The name of an attack, and the file's bytes after it."""
    attack = by.choice(BYTES)
    if not one.records or by.random() > 0.3:
        return attack.__name__, attack(one.content, by)
    good = [changed(row, by) if by.random() < 0.6 else row for row in one.records]
    good += [by.choice(good)] * by.choice([0, 0, 0, 1])
    how = "lines" if one.how == "lines" else "json"  # which is YAML, too
    return "records", as_written(good[0] if how == "json" and len(good) == 1 else good, how)


# One round

FINE = ("loaded", "refused")


def check(found):
    """Proper frames: names once, the values of each kind fit, every number is finite."""
    is_known = isinstance(found, (rs.Results, rs.Golden))
    names = [one.name for one in fields(found)] if is_known else []
    frames = {name: one for name in names if (one := getattr(found, name)) is not None}
    for kind, frame in frames.items():
        assert frame.columns.is_unique, kind
        numbers = frame.select_dtypes("float").drop(columns="score", errors="ignore")
        assert not np.isinf(numbers.to_numpy("float64", na_value=np.nan)).any(), kind
        if kind in ("runs", "responses", "hits", "queries", "targets"):
            assert len(conform(frame, kind)) == len(frame)


def put(one, data, folder):
    """Write the files of a case to a new folder, and return what is loaded."""
    for inner, content in (one.beside | {one.file: data}).items():
        (folder / inner).parent.mkdir(parents=True, exist_ok=True)
        (folder / inner).write_bytes(content)
    return folder / (one.target or one.file)


def read(one, path, strict, form):
    """Return what was read and None, or None and an error that names the file."""
    try:
        found = one.load(path, strict=strict, **({"format": form} if form else {}))
    except rs.DataError as error:
        named = error.file is not None and error.file.startswith(str(path.parent))
        return None, "refused" if named and error.found else f"no file named: {error}"
    check(found)
    return found, "loaded"


def round_of(seed, folder):
    """Read one mutated file; return what was done to it, and what came of it."""
    by = random.Random(seed)
    name, one = list(CASES.items())[seed % len(CASES)]
    attack, data = mutated(one, by)
    path = put(one, data, folder)
    return name, attack, read(one, path, by.random() < 0.5, by.choice([one.format, None]))[1]


def batch(seeds, folder):
    """In a child: some rounds, as seed, reader, attack, outcome."""
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))  # the machine comes first
    found = []
    for seed in seeds:
        begun = time.perf_counter()
        try:
            told = round_of(seed, folder / str(seed))
        except Exception:
            told = (list(CASES)[seed % len(CASES)], traceback.format_exc())
        is_slow = time.perf_counter() - begun > 20
        found.append((seed, *told, *(["took long"] if is_slow else [])))
    return found


@pytest.mark.parametrize("rounds", [50, pytest.param(400, marks=pytest.mark.slow)])
def test_every_file_ends_in_finite_frames_or_in_an_error_that_names_it(tmp_path, rounds):
    counts, faults, n = Counter(), [], 50
    for first in range(0, times(rounds), n):
        told = start(partial(batch, range(first, first + n), tmp_path)).answer(limit=120)
        if not isinstance(told, list):
            faults.append(f"rounds {first} to {first + n - 1}: {told}")
            continue
        counts.update(outcome for *_, outcome in told)
        faults += [f"round {one}" for one in told if one[-1] not in FINE]
    # A harness whose files are all refused, or all read, would see nothing.
    assert counts["loaded"] > 0.1 * counts.total(), counts
    assert counts["refused"] > 0.2 * counts.total(), counts
    assert not faults, f"{len(faults)} rounds\n" + "\n".join(faults[:20])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_good_files_are_read_and_nonsense_in_their_place_ends_well(name, step, tmp_path):
    one = CASES[name]
    # each reader gets other pieces of it
    for n, data in list(enumerate(NONSENSE))[list(CASES).index(name) % step :: step]:
        path = put(one, data, tmp_path / str(n))
        assert read(one, path, n % 2 == 0, one.format)[1] in FINE
    assert read(one, put(one, one.content, tmp_path / "good"), False, one.format)[0] is not None


# Attack: tables of labels and of results, changed as exports and spreadsheets change them.

# What no reader could know: (change, side, column) -> why.
MEANT = {
    ("shifted", "results", "latency_ms"): "any number may be the time of any query",
    ("shifted", "results", "chunk_id"): "any list may be what any query returned",
    ("shifted", "results", "refused"): "any query may be refused",
    ("swapped", "results", "latency_ms"): "a score may be a time, and the other way round",
    ("swapped", "results", "score"): "as above",
    ("nulls put in", "results", "latency_ms"): "a time may be unknown",
    ("nulls put in", "results", "chunk_id"): "a query may have no hits",
    ("nulls put in", "golden", "doc_id"): "nothing may be known of a query",
    ("nulls put in", "golden", "chunk_id"): "as above",
    ("dropped", "golden", "grade"): "labels may come without grades: each is relevant",
}
METRICS = ["hit@3", "recall@5", "mrr", "ndcg@5", "refusal_correct", "passed", "latency_ms"]
N = 24  # queries of a set


def urls(rng):
    """A search log: documents are addresses; ranks and scores, answers and refusals."""
    golden = pd.DataFrame({
        "query_id": [f"q{n}" for n in range(N)],
        "query": [f"what is thing {n}?" for n in range(N)],
        "doc_id": [f"https://example.org/pages/{n}" if n % 6 else None for n in range(N)],
        "answerable": [bool(n % 6) for n in range(N)],
        "difficulty": rng.choice(["easy", "hard"], N),
    })  # fmt: skip
    rows = [
        {"query_id": f"q{n}", "query": f"what is thing {n}?", "rank": rank,
         "doc_id": f"https://example.org/pages/{document}", "score": 1 / rank,
         "answer": f"Thing {n} is {n}.", "refused": n % 5 == 0, "latency_ms": 10.0 + n}
        for n in range(N)
        for rank, document in enumerate(rng.choice(N, 5, replace=False), 1)
    ]  # fmt: skip
    return golden, pd.DataFrame(rows)


def grades(rng):
    """Judgements with grades, a row each; results of scores alone."""
    judged = [(n, d) for n in range(N) for d in rng.choice(N, 4, replace=False)]
    golden = pd.DataFrame({
        "query_id": [f"{100 + n}" for n, _ in judged],
        "doc_id": [f"MED-{1000 + d}" for _, d in judged],
        "grade": rng.integers(0, 4, len(judged)),
    })  # fmt: skip
    rows = [
        {"query_id": f"{100 + n}", "doc_id": f"MED-{1000 + d}", "score": float(20 - at)}
        for n in range(N)
        for at, d in enumerate(rng.choice(N, 8, replace=False))
    ]
    return golden, pd.DataFrame(rows)


def lists(rng):
    """A row per query, with lists in its cells; chunks of documents."""
    golden = pd.DataFrame({
        "query_id": np.arange(N) + 1,
        "query": [f"question number {n}" for n in range(N)],
        "chunk_id": [[f"guide.md#{n}"] for n in range(N)],
        "category": rng.choice(["a", "b"], N),
    })  # fmt: skip
    results = pd.DataFrame({
        "query_id": np.arange(N) + 1,
        "chunk_id": [[f"guide.md#{d}" for d in rng.choice(N, 5, replace=False)] for _ in range(N)],
        "answer": [f"It is {n}." for n in range(N)],
        "latency_ms": rng.integers(5, 500, N),
    })  # fmt: skip
    return golden, results


SETS = {"urls": urls, "grades": grades, "lists": lists}


# What is done to a column of a table, each (frame, name of the column, rng) -> frame.


def renamed(frame, name, rng):
    spelled = [name.upper(), name.title(), f" {name}", f"my_{name}", name.replace("_", " ")]
    others = [name[:-1], f"{name}s", "value", "id", "col1", "expected", "text"]
    return frame.rename(columns={name: rng.choice([*spelled, *others])})


def swapped(frame, name, rng):
    other = rng.choice(frame.columns.drop(name))
    return frame.rename(columns={name: other, other: name})


def shifted(frame, name, rng):
    return frame.assign(**{name: frame[name].shift(int(rng.choice([-1, 1])))})


def retyped(frame, name, rng):
    column, is_list = frame[name], isinstance(frame[name].iloc[0], list)
    made = {
        "text": lambda: column.map(lambda one: one if one is None else str(one)),
        "object": lambda: column.astype(object),
        "other": lambda: column.map(json.dumps) if is_list else column.astype("category"),
        "float": lambda: column.astype(
            float if pd.api.types.is_integer_dtype(column) else object
        ),
    }  # fmt: skip
    return frame.assign(**{name: made[rng.choice([*made])]()})


def nulls_put_in(frame, name, rng):
    missing = rng.random(len(frame)) < rng.choice([0.05, 0.5, 1.0])
    return frame.assign(**{name: frame[name].astype(object).mask(missing, None)})


CHANGES = {
    "renamed": renamed, "nulls put in": nulls_put_in, "swapped": swapped,
    "dropped": lambda frame, name, rng: frame.drop(columns=name),
    "shifted": shifted, "retyped": retyped,
}  # fmt: skip


def measured(golden, results):
    """Return means and counts of the metrics, and what was said; None where it was refused."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            golden, results = rs.load_golden(golden), rs.load_results(results)
            ev = rs.evaluate(results, golden, METRICS)
        except rs.DataError:
            return None
    found = ev.scores.groupby("run_id", observed=True)[METRICS].agg(["mean", "count"])
    # What stands below the means of a printed evaluation counts, too.
    said = {*(str(one.message) for one in told), *ev._notes()[1:]}
    return found.stack(0, future_stack=True), said


def is_silent(before, after):
    """Whether values changed, and nothing was said of it."""
    (was, said_before), (now, said) = before, after
    there = was.index[was["count"] > 0].intersection(now.index[now["count"] > 0])
    is_same = np.allclose(was.loc[there, "mean"], now.loc[there, "mean"]) and len(now) == len(was)
    return not is_same and said <= said_before


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("name", SETS)
def test_a_changed_table_gives_the_same_numbers_or_is_refused_or_told(name, kind):
    tables = SETS[name](np.random.default_rng(31))
    before = measured(*tables)
    for seed in range(times(4)):
        rng = np.random.default_rng(seed)
        pair, side = list(tables), int(rng.integers(2))
        column = rng.choice([*tables[side]])
        pair[side] = CHANGES[kind](tables[side], column, rng)
        known = MEANT.get((kind, ("golden", "results")[side], column))
        after = measured(*pair)
        assert known or after is None or not is_silent(before, after), (side, column, seed)

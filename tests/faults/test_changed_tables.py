"""Attack: tables of labels and of results, changed as exports and spreadsheets change them.

Whatever happens to a table, an evaluation of it gives the same numbers, refuses it, or says what
it noticed. Only what no reader could know is left out; `MEANT` says why.
"""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import times

import ragscore as rs

pytestmark = pytest.mark.slow

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

"""Judges under attack: odd replies, broken connections, damaged caches, kills, limits of cost."""

import json
import random
import re
import warnings

import numpy as np
import pytest
from conftest import answer, hit, record, times

import ragscore as rs
from faults.children import start
from faults.judge_wire import (
    BODIES,
    EITHER,
    ENVELOPES,
    FAILED,
    SCORED,
    WireServer,
    damaged,
    in_json,
    sent,
    sound,
    verdict,
    wire_faults,
)
from ragscore.judging.endpoint import Cache
from ragscore.judging.run import ledger_of
from tests.messages import check, says

pytestmark = pytest.mark.slow
PRICES = {"words": (1_000.0, 2_000.0)}
N = 8
# Every other answer has one sentence of two in its context: round(5 · 1/2) = 2 points of 5.
POINTS = {f"q{i}": 5.0 if i % 2 else 2.0 for i in range(N)}


@pytest.fixture
def given(write_golden, write_run):
    """Results of some answered queries, and their golden set."""

    def made(n=N):
        ids = [f"q{i}" for i in range(n)]
        facts = [f"Stone {i} is heavy." for i in range(n)]
        more = [" Feathers fly everywhere today.", ""] * n
        records = [
            record(one, [hit("c", "d", 1, snippet=fact)], answer=answer(fact + also))
            for one, fact, also in zip(ids, facts, more, strict=False)
        ]
        golden = [{"id": one, "query": one, "expected_doc_ids": ["d"]} for one in ids]
        return rs.load_results(write_run("r", records)), rs.load_golden(write_golden(golden))

    return made


def points(judged):
    """Return the points by query, NaN where the judgment failed."""
    whole = judged.judgments[judged.judgments["item"].fillna("") == ""]
    return dict(zip(whole["query_id"], whole["value"], strict=True))


def judge(given, url, *, timeout=20.0, options=None, **more):
    endpoint = rs.judging.Endpoint(
        "words", base_url=url, api_key="sk-secret", timeout=timeout, retries=0,
        options=options or {},
    )  # fmt: skip
    more = {"cache": None, "workers": 2, "progress": False} | more
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        judged = rs.judge(*given, "groundedness", endpoint, **more)
    return judged, [str(one.message) for one in said]


def question(body):
    return json.loads(body["messages"][1]["content"])["question"]


def test_an_odd_reply_ends_one_judgment_and_no_run(given, tmp_path):
    """Each kind of odd reply ends one judgment of a run; sound ones stand between them."""
    with WireServer(None) as server:
        wire = wire_faults(server.port)
        kinds = [*ENVELOPES, *BODIES, *wire, *["damaged"] * times(60)]
        expected = dict.fromkeys(kinds, FAILED) | {"damaged": EITHER}
        expected |= {kind: fault[0] for kind, fault in (wire | ENVELOPES).items()}

        def reply(number, body):
            place = int(question(body)[1:])
            kind = kinds[place // 2]
            if place % 2 == 0:
                return sound(body)
            if kind == "damaged":
                return [sent(damaged(place, json.dumps(verdict(body)).encode()))]
            if kind in BODIES:
                return [sent(BODIES[kind])]
            return wire[kind][1](body) if kind in wire else [sent(in_json(kind, body))]

        server.parts = reply
        # One worker asks q0 first, as an endpoint that never answered may refuse the key.
        judged, _ = judge(given(2 * len(kinds)), server.url, workers=1, prices=PRICES)
    ledger, found = judged.ledger.set_index("query_id"), points(judged)
    for number, kind in enumerate(kinds):
        sound_one, odd = f"q{2 * number}", f"q{2 * number + 1}"
        state, reason = ledger.loc[odd, ["state", "reason"]]
        assert found[sound_one] == 2.0, (kind, ledger.loc[sound_one].to_dict())
        states = (FAILED, SCORED) if expected[kind] == EITHER else (expected[kind],)
        assert state in states, (kind, reason)
        if state == FAILED:
            assert np.isnan(found[odd]) and reason and "sk-secret" not in reason, kind
            assert " in judging: " not in reason and len(reason) < 1_000, kind  # no error of ours
        elif kind != "damaged":
            assert found[odd] == 5.0, kind
    assert not (ledger[["tokens", "cost_usd"]] < 0).any(axis=None)
    assert not np.isinf(ledger[["tokens", "cost_usd"]]).any(axis=None)
    judged.save(tmp_path)
    assert len(ledger_of(tmp_path)) == len(ledger)


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_max_cost_is_passed_by_the_calls_under_way_at_most(given, workers):
    usage = {"prompt_tokens": 500, "completion_tokens": 0}  # half a dollar

    def reply(number, body):
        return [number % 3 / 100, sent(json.dumps(verdict(body) | {"usage": usage}).encode())]

    with WireServer(reply) as server:
        judged, said = judge(given(40), server.url, workers=workers, prices=PRICES, max_cost=5.0)
        n_asked = len(server.requests)
    assert 10 <= n_asked < 10 + workers and said == []
    assert judged.ledger["cost_usd"].sum() == pytest.approx(n_asked / 2)
    states = judged.ledger["state"].value_counts().to_dict()
    assert states == {"scored": n_asked, "not_asked": 40 - n_asked}


@pytest.mark.parametrize("counts", [(-(10**9), 5), (0.5, 0.5), ("none", 0), (None, None)])
def test_a_call_of_unknown_cost_is_the_last_one_under_max_cost(given, counts):
    usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1]}

    def reply(number, body):
        return [sent(json.dumps(verdict(body) | {"usage": usage}).encode())]

    with WireServer(reply) as server:
        judged, _ = judge(given(), server.url, workers=1, prices=PRICES, max_cost=8.0)
        assert len(server.requests) == 1
    assert judged.ledger["state"].value_counts().to_dict() == {"scored": 1, "not_asked": N - 1}
    says(judged.ledger["reason"].dropna().iloc[0], "max_cost", "unknown")


# The cache


@pytest.fixture
def server():
    with WireServer(lambda number, body: sound(body)) as running:
        yield running


def filled(given, path, server):
    """Judge into a new cache; no request is counted afterwards."""
    judged, said = judge(given, server.url, cache=path)
    assert points(judged) == POINTS and said == [] and len(server.requests) == N
    server.requests.clear()
    return path.read_bytes()


def test_a_damaged_cache_is_refused_or_asked_again_and_never_believed(given, tmp_path, server):
    data, path = given(), tmp_path / "c.sqlite"
    whole = filled(data, path, server)
    for seed in range(times(20)):
        server.requests.clear()
        path.write_bytes(damaged(seed, whole))
        try:
            judged, said = judge(data, server.url, cache=path)
        except rs.DataError as error:
            check(error, file=path, field="cache")
            continue
        assert points(judged) == POINTS, f"seed {seed}"
        assert len(server.requests) == judged.ledger["n_calls"].sum(), f"seed {seed}"
        assert all(str(path) in text for text in said), f"seed {seed}"


def test_a_flipped_bit_of_a_verdict_is_asked_again(given, tmp_path, server):
    data, path = given(), tmp_path / "c.sqlite"
    whole = filled(data, path, server)
    at = [found.end() for found in re.finditer(rb'"score": ', whole)][:3]
    changed = bytearray(whole)
    for place in at:
        changed[place] ^= 1  # 4 for 5, 3 for 2
    path.write_bytes(changed)
    judged, said = judge(data, server.url, cache=path)
    assert points(judged) == POINTS and len(server.requests) == 3
    assert len(said) == 1
    says(said[0], path, 3)
    assert judge(data, server.url, cache=path)[1] == [] and len(server.requests) == 3


def test_a_disk_that_takes_no_more_loses_no_verdict(given, tmp_path, server, monkeypatch):
    data, path = given(), tmp_path / "c.sqlite"
    run = Cache._run

    def full(self, statement, values):
        if statement.startswith("insert"):
            self._rows.execute("pragma max_page_count = 1")
            values = [values[0], "x" * 100_000, *values[2:]]  # more than the disk has
        return run(self, statement, values)

    with monkeypatch.context() as patched:
        patched.setattr(Cache, "_run", full)
        judged, said = judge(data, server.url, cache=path)
    assert points(judged) == POINTS and len(server.requests) == N
    assert len(said) == 1
    says(said[0], path, "full")
    assert points(judge(data, server.url, cache=path)[0]) == POINTS


# Kills


def start_judge(given, url, path):
    """Judge in a process of its own, which answers whether every verdict is right."""
    return start(lambda: points(judge(given, url, cache=path)[0]) == POINTS)


def test_a_killed_judge_leaves_whole_verdicts_and_the_next_asks_for_the_rest(given, tmp_path):
    data, children = given(), []
    for seed in range(times(5)):
        path, chance = tmp_path / f"{seed}.sqlite", random.Random(seed)
        at = chance.randrange(N)

        def reply(number, body, chance=chance, at=at):
            yield chance.random() / 100
            if number == at:
                children[-1].process.kill()
            yield from sound(body)

        with WireServer(reply) as server:
            children.append(start_judge(data, server.url, path))
            children[-1].answer()
            n_before = len(server.requests)
            server.parts = lambda number, body: sound(body)
            judged, said = judge(data, server.url, cache=path)
            n_asked = len(server.requests) - n_before
            assert points(judged) == POINTS and said == [], f"seed {seed}"
            # Each of the two workers may have had a reply that it could not store any more.
            assert n_before + n_asked <= N + 2, f"seed {seed}: {n_before} and {n_asked}"
            assert judged.ledger["n_cached"].sum() == N - n_asked


@pytest.mark.parametrize("n_processes", [2, 4])
def test_judging_processes_at_one_time_lose_nothing_in_one_cache(given, tmp_path, n_processes):
    data, path, chance = given(), tmp_path / "c.sqlite", random.Random(n_processes)
    with WireServer(lambda number, body: [chance.random() / 100, *sound(body)]) as server:
        children = [start_judge(data, server.url, path) for _ in range(n_processes)]
        assert all(child.answer(60) is True for child in children)
        n_before = len(server.requests)
        judged, said = judge(data, server.url, cache=path)
        assert points(judged) == POINTS and said == []
        assert len(server.requests) == n_before, "asked again"

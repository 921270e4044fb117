"""Judges under attack: odd replies, broken connections, damaged caches, kills, limits of cost."""

import json
import os
import random
import signal
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from conftest import answer, hit, record

import ragscore as rs
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
    slow_faults,
    sound,
    verdict,
    wire_faults,
)
from faults.size import times
from ragscore.judging.cache import Cache, CachedReply
from ragscore.judging.run import ledger_of
from tests.messages import check, names, says

pytestmark = pytest.mark.slow
PRICES = {"words": (1_000.0, 2_000.0)}
N = 8
# Every other answer has one sentence of two in its context: round(5 · 1/2) = 2 points of 5.
POINTS = {f"q{i}": 5.0 if i % 2 else 2.0 for i in range(N)}


@pytest.fixture
def given(write_golden, write_run):
    """Results of some answered queries, and their golden set."""

    def made(n=N):
        asked = [{"id": f"q{i}", "query": f"q{i}", "expected_doc_ids": ["d"]} for i in range(n)]
        records = []
        for i in range(n):
            facts = f"Stone {i} is heavy." + ("" if i % 2 else " Feathers fly everywhere today.")
            chunk = hit("c", "d", 1, snippet=f"Stone {i} is heavy.")
            records.append(record(f"q{i}", [chunk], answer=answer(facts)))
        return rs.load_results(write_run("r", records)), rs.load_golden(write_golden(asked))

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

        server.reply = reply
        # One worker asks q0 first, as an endpoint that never answered may refuse the key.
        judged, _ = judge(given(2 * len(kinds)), server.url, workers=1, prices=PRICES)
    ledger, found = judged.ledger.set_index("query_id"), points(judged)
    for number, kind in enumerate(kinds):
        sound_one, odd = f"q{2 * number}", f"q{2 * number + 1}"
        state, reason = ledger.loc[odd, ["state", "reason"]]
        assert found[sound_one] == 2.0, kind
        assert state == expected[kind] or (expected[kind] == EITHER and state in (FAILED, SCORED))
        if state == FAILED:
            assert np.isnan(found[odd]) and reason and "sk-secret" not in reason, kind
            assert " in judging: " not in reason and len(reason) < 1_000, kind  # no error of ours
        elif kind != "damaged":
            assert found[odd] == 5.0, kind
    assert not (ledger[["tokens", "cost_usd"]] < 0).any(axis=None)
    assert not np.isinf(ledger[["tokens", "cost_usd"]]).any(axis=None)
    judged.save(tmp_path)
    assert len(ledger_of(tmp_path)) == len(ledger)


def test_a_reply_that_never_ends_is_given_up_in_time(given):
    kinds = slow_faults()
    data = given(len(kinds))
    for _ in range(times(1)):
        with WireServer(lambda number, body: kinds[int(question(body)[1:])](body)) as server:
            start = time.monotonic()
            judged, _ = judge(data, server.url, timeout=0.5, workers=len(kinds))
        assert judged.ledger["state"].tolist() == [FAILED] * len(kinds)
        assert time.monotonic() - start < 15  # a limit for "ends at all"


@pytest.mark.parametrize("kind", ["endless", "gzip bomb"])
def test_a_reply_over_the_stated_size_is_not_held_in_memory(given, kind):
    data = given(1)
    with WireServer(None) as server:
        parts = wire_faults(server.port)[kind][1]
        list(zip(range(2), parts({}), strict=False))  # the bomb is made before the measurement
        server.reply = lambda number, body: parts(body)
        judge(data, server.url)  # imports
        server.n_sent = 0
        tracemalloc.start()
        judged, _ = judge(data, server.url)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    says(judged.ledger["reason"].iloc[0], "10,000,000")
    assert peak < 60_000_000 and server.n_sent < 60_000_000


def test_neither_key_nor_texts_follow_a_redirect(given):
    data = given(1)
    with WireServer(lambda number, body: sound(body)) as elsewhere, WireServer(None) as server:
        to = b"Location: http://127.0.0.1:%d/v1/chat/completions" % elsewhere.port
        for status in (b"302 x", b"307 x", b"308 x"):
            server.reply = lambda number, body, status=status: [sent(b"", to, status=status)]
            judged, _ = judge(data, server.url)
            reason = judged.ledger["reason"].iloc[0]
            says(reason, int(status[:3]), "base_url")
    assert elsewhere.requests == []


def test_max_cost_is_passed_by_one_call_at_most(given):
    data = given(40)
    for seed in range(times(3)):
        chance = random.Random(seed)
        limit, workers = 50, chance.choice([1, 4, 16])
        max_cost = chance.uniform(0.0, 20.0)
        usages = [(chance.randint(100, 800), chance.randint(0, limit)) for _ in range(200)]

        def reply(number, body, usages=usages):
            prompt, completion = usages[number]
            usage = {"prompt_tokens": prompt, "completion_tokens": completion}
            content = json.dumps(verdict(body) | {"usage": usage}).encode()
            return [usages[number][1] / 2_000, sent(content)]

        with WireServer(reply) as server:
            judged, said = judge(
                data, server.url, workers=workers, prices=PRICES, max_cost=max_cost,
                options={"max_tokens": limit},
            )  # fmt: skip
            n_asked = len(server.requests)
        costs = [(1_000 * prompt + 2_000 * reply) / 1e6 for prompt, reply in usages[:n_asked]]
        assert sum(costs) < max_cost + max([*costs, 0]) or not costs, f"seed {seed}"
        assert judged.ledger["cost_usd"].sum() == pytest.approx(sum(costs))
        states = judged.ledger["state"].value_counts()
        assert states.get("scored", 0) == n_asked and states.sum() == 40
        assert n_asked == 40 or sum(costs) >= max_cost, f"seed {seed}: stopped too early"
        assert said == []


@pytest.mark.parametrize("counts", [(-(10**9), -(10**9)), (0.5, 0.5), ("none", 0), (10**9, 10**9)])
def test_counts_that_cant_be_true_count_as_the_worst_case(given, counts):
    usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1]}

    def reply(number, body):
        return [sent(json.dumps(verdict(body) | {"usage": usage}).encode())]

    with WireServer(reply) as server:
        judged, said = judge(
            given(), server.url, workers=1, prices=PRICES, max_cost=8.0,
            options={"max_tokens": 50},
        )  # fmt: skip
        # At worst some 2,500 bytes and 1,000 tokens for 1,000 $ a million: 3.6 $ a call.
        assert len(server.requests) == 3
    assert judged.ledger["state"].value_counts().to_dict() == {"scored": 3, "not_asked": N - 3}
    assert judged.ledger["cost_usd"].isna().sum() == 3
    assert len(said) == 1
    says(said[0], 3, "token")


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


def test_a_damaged_cache_is_asked_again_and_never_believed(given, tmp_path, server):
    data, path = given(), tmp_path / "c.jsonl"
    whole = filled(data, path, server)
    for seed in range(times(5)):
        server.requests.clear()
        path.write_bytes(damaged(seed, whole))
        try:
            judged, said = judge(data, server.url, cache=path)
        except rs.DataError as error:  # nothing is left by which to tell that it is a cache
            check(error, file=path, field="cache")
            assert b"sha256" not in path.read_bytes()
            continue
        n_asked = len(server.requests)
        assert points(judged) == POINTS, f"seed {seed}"
        assert n_asked == judged.ledger["n_calls"].sum(), f"seed {seed}"
        assert len(said) <= 1 and all(str(path) in text for text in said), f"seed {seed}"
        again, _ = judge(data, server.url, cache=path)
        assert points(again) == POINTS, f"seed {seed}"
        assert len(server.requests) == n_asked, f"seed {seed}: asked twice"


def test_a_verdict_that_fits_no_rubric_is_asked_again(given, tmp_path, server):
    data, path = given(), tmp_path / "c.jsonl"
    filled(data, path, server)
    with Cache(path) as cache:
        keys = [json.loads(line)["key"] for line in path.read_text().split("\n\n")[1:4]]
        for key in keys:
            reply = cache.get(key)
            text = reply.text[: reply.text.rindex(":")] + ": 9}"
            cache.put(key, CachedReply(text, reply.prompt_tokens, reply.completion_tokens))
    judged, said = judge(data, server.url, cache=path)
    assert points(judged) == POINTS and len(server.requests) == 3
    assert len(said) == 1
    says(said[0], path, 3)
    assert judge(data, server.url, cache=path)[1] == [] and len(server.requests) == 3


def test_a_disk_that_takes_no_more_loses_no_verdict(given, tmp_path, monkeypatch):
    data, write = given(), os.write
    for seed in range(times(3)):
        chance, path = random.Random(seed), tmp_path / f"{seed}.jsonl"
        n_fail = {chance.randrange(1, N + 1) for _ in range(3)}
        calls = []

        def full(file, content, chance=chance, n_fail=n_fail, calls=calls):
            calls.append(content)
            if len(calls) - 1 not in n_fail:
                return write(file, content)
            if chance.random() < 0.5:
                raise OSError(28, "No space left on device")
            return write(file, content[: chance.randrange(len(content))])

        with WireServer(lambda number, body: sound(body)) as server:
            with monkeypatch.context() as patched:
                patched.setattr("ragscore.judging.cache.os.write", full)
                judged, said = judge(data, server.url, cache=path, workers=1)
            assert points(judged) == POINTS and len(server.requests) == N
            about = [names(text, len(n_fail)) and str(path) in text for text in said]
            assert any(about), f"seed {seed}"
            judged, _ = judge(data, server.url, cache=path)
            # A row of which only the line break is missing is whole as soon as the next begins.
            assert points(judged) == POINTS and len(server.requests) <= N + len(n_fail)


# Kills

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are started by forking")


def start_judge(given, url, path):
    """Judge in a process of its own; it ends with 0 if every verdict is right."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if points(judge(given, url, cache=path)[0]) == POINTS else 2
        finally:
            os._exit(status)
    return child


@needs_fork
def test_a_killed_judge_leaves_whole_verdicts_and_the_next_asks_for_the_rest(given, tmp_path):
    data = given()
    for seed in range(times(5)):
        chance, path = random.Random(seed), tmp_path / f"{seed}.jsonl"
        at_reply = chance.randrange(N) if chance.random() < 0.5 else None
        child = None

        def reply(number, body, chance=chance, at_reply=at_reply):
            yield chance.random() / 100
            if number == at_reply and child:  # noqa: B023
                os.kill(child, signal.SIGKILL)  # noqa: B023
            yield from sound(body)

        with WireServer(reply) as server:
            child = start_judge(data, server.url, path)
            if at_reply is None:
                time.sleep(chance.random() / 5)
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            child = None
            n_before = len(server.requests)
            judged, said = judge(data, server.url, cache=path)
            n_asked = len(server.requests) - n_before
            assert points(judged) == POINTS and said == [], f"seed {seed}"
            # Each of the two workers may have had a reply that it could not store any more.
            assert n_before + n_asked <= N + 2, f"seed {seed}: {n_before} and {n_asked}"
            assert judged.ledger["n_cached"].sum() == N - n_asked
            assert judge(data, server.url, cache=path)[0].ledger["n_calls"].sum() == 0


@needs_fork
def test_judging_processes_at_one_time_lose_nothing_in_one_cache(given, tmp_path):
    data = given()
    for seed in range(times(3)):
        chance, path = random.Random(seed), tmp_path / f"{seed}.jsonl"

        def reply(number, body, chance=chance):
            yield chance.random() / 100
            yield from sound(body)

        with WireServer(reply) as server:
            children = [start_judge(data, server.url, path) for _ in range(chance.choice([2, 4]))]
            assert {os.waitpid(child, 0)[1] for child in children} == {0}, f"seed {seed}"
            n_before = len(server.requests)
            judged, said = judge(data, server.url, cache=path)
            assert points(judged) == POINTS and said == [], f"seed {seed}"
            assert len(server.requests) == n_before, f"seed {seed}: asked again"

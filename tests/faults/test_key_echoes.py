"""Endpoints that echo the key: at every cut, in every kind of reply, and nothing is left of it.

A key is hidden before a text is cut, so all that is written is searched for six characters of it in
a row: a random key of 64 signs has 36 bits in them, and five occur by chance.
"""

import json
import logging
import pickle
import random
import string
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from conftest import answer, hit, questions, record, times
from servers import Reply, Server

import ragscore as rs
from faults.judge_wire import WireServer, sent, verdict
from ragscore.collecting import journal

PIECE = 6
LENGTHS = (8, 16, 51, 164)
SIGNS = string.ascii_letters + string.digits
CUTS = (60, 200, 300, 500, 1_000, 10_000)  # where some message or buffer ends
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:every query failed", "ignore:replies differ", "ignore:.*do not join"
    ),
]


def key_of(chance, length):
    """Return a key as services give them: letters and digits, at times with other signs."""
    key = "".join(chance.choices(SIGNS + chance.choice(["", "-_", "+/=."]), k=length))
    return "k" + key[1:-1] + "Q"  # an address would drop signs at the ends


ENCODINGS = {
    "plain": str,
    "upper": str.upper,
    "lower": str.lower,
    "url": lambda key: quote(key, safe=""),
    "json": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "twice": lambda key: json.dumps(json.dumps(key)),
    "repr": lambda key: repr({"authorization": f"Bearer {key}"}),
    "bytes": lambda key: repr(key.encode()),
}


def echoes(chance, key, replies):
    """Return kinds of replies, and for each a text that holds the key.

    A cut falls at each place within it.
    """
    made = []
    for number in range(times(2 * len(replies))):
        shown = chance.choice([*ENCODINGS.values()])(key)
        before = CUTS[number % len(CUTS)] - number // len(CUTS) % (len(shown) + 1)
        made.append(f"{'.' * before}{shown}{' ' * chance.choice([0, 3, 500])}")
    kinds = [list(replies)[number % len(replies)] for number in range(len(made))]
    chance.shuffle(kinds)
    return [*zip(kinds, made, strict=True)]


def pieces_of(key):
    """Return all that a search looks for."""
    forms = {key, ENCODINGS["url"](key)}
    return {form[at : at + PIECE].lower() for form in forms for at in range(len(form) - PIECE + 1)}


def assert_no_piece(key, attack, *written):
    for text in written:
        folded = text.lower()
        for piece in pieces_of(key):
            at = folded.find(piece)
            assert at < 0, f"{attack}: {piece!r} in {text[max(at - 200, 0) : at + 60]!r}"


@pytest.fixture
def logged(caplog, capfd):
    """What goes to logs and terminals, once it is asked for."""
    caplog.set_level(logging.DEBUG)
    return lambda: [*capfd.readouterr(), caplog.text, repr([vars(one) for one in caplog.records])]


def everything_in(folder):
    """Return all bytes below a folder as text, Parquet also decoded."""
    texts = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            texts.append(file.read_bytes().decode("utf-8", "replace"))
            if file.suffix == ".parquet":
                texts += [str(column.to_pylist()) for column in pq.read_table(file).columns]
    return "\n".join(texts)


def stored(results, golden, folder):
    """Return all that a store and pickles make of results."""
    evaluation = rs.evaluate(results, golden)
    rs.RunStore(folder).save(evaluation)
    pickled = pickle.dumps(results).decode("utf-8", "replace")
    return f"{everything_in(folder)}\n{pickled}\n{results!r}\n{evaluation!r}"


CHATBOT = {"response": {"answer": "answer", "hits": "hits", "config": {"note": "note"}}}
SYSTEM_REPLIES = {
    "400": lambda text: Reply(text=text, status=400),
    "400, JSON": lambda text: Reply({"error": {"message": text}}, status=400),
    "500": lambda text: Reply(text=text, status=500),
    "429": lambda text: Reply(text=text, status=429, headers={"Retry-After": "1e9"}),
    "no JSON": lambda text: Reply(text=text),
    "no JSON, quoted": lambda text: Reply(text=f'{{"answer": "{text}'),
    "no object": lambda text: Reply([text]),
    "redirect": lambda text: Reply({}, 307, {"Location": f"http://127.0.0.1/{quote(text)}"}),
    "header": lambda text: Reply({"answer": "a", "hits": []}, 200, {"X-Key": text.strip()}),
    "answer": lambda text: Reply(
        {"answer": text, "hits": [{"doc_id": "d", "chunk_id": text, "text": text}]}
    ),
    "field": lambda text: Reply({"answer": "a", "hits": [{"chunk_id": "c", text[-300:]: text}]}),
    "rank": lambda text: Reply({"answer": "a", "hits": [{"chunk_id": "c", "rank": text}]}),
    "score": lambda text: Reply({"answer": "a", "hits": [{"chunk_id": "c", "score": text}]}),
    "hits": lambda text: Reply({"answer": "a", "hits": text}),
    "config": lambda text: Reply({"answer": "a", "hits": [], "note": {"api_key": text}}),
    "citations": lambda text: Reply({"answer": {"answer": "a", "citations": text}, "hits": []}),
}
HOW = {
    "X-Key": {"headers": {"X-Key": "$ECHOED_NAME"}},
    "bearer": {"headers": {"Authorization": "Bearer ${ECHOED_NAME}"}},
    "parameter": {"params": {"api_key": "$ECHOED_NAME"}},
    "another parameter": {"params": {"k": "$ECHOED_NAME"}},
}


@pytest.mark.parametrize("how", HOW)
def test_no_piece_of_a_key_that_a_system_echoes_is_written(tmp_path, monkeypatch, logged, how):
    length = LENGTHS[list(HOW).index(how) % len(LENGTHS)]
    chance = random.Random(length)
    key = key_of(chance, length)
    monkeypatch.setenv("ECHOED_NAME", key)
    lines, json_line = [], journal.json_line
    monkeypatch.setattr(
        journal, "json_line", lambda values: (lines.append(json_line(values)), lines[-1])[1]
    )
    attacks = echoes(chance, key, SYSTEM_REPLIES)
    golden = questions(len(attacks))

    def reply(seen):
        kind, text = attacks[int(seen.body["query"].split()[1])]
        return SYSTEM_REPLIES[kind](text)

    with Server(reply) as server:
        results = rs.collect(
            CHATBOT | {"url": server.url} | HOW[how], golden, tmp_path / "run",
            retries=0, workers=2, progress=True,
        )  # fmt: skip
        told = server.requests[0]
        assert key in f"{told.headers} {told.params}"
    run = everything_in(tmp_path / "run")
    written = [run, *lines, *logged(), stored(results, golden, tmp_path / "store")]
    assert_no_piece(key, f"{how}, {length} characters", *written)
    assert results.responses["error"].notna().any() and "***" in run


def reason(text):
    return lambda body: json.dumps(
        verdict(body)
        | {
            "choices": [
                {"message": {"content": json.dumps(
                    {"reasoning": text, "supported_claims": [text], "unsupported_claims": [],
                     "score": 4})}}
            ]
        }
    ).encode()  # fmt: skip


def content(text):
    return lambda body: json.dumps(
        verdict(body) | {"choices": [{"message": {"content": text}}]}
    ).encode()


def codes(text):
    return "".join(f"\\u{ord(one):04x}" for one in text)


def wire(data, status=b"200 OK", *headers):
    return [sent(data, *headers, status=status)]


JUDGE_REPLIES = {
    "400": lambda text, body: wire(text.encode(), b"400 no"),
    "400, JSON": lambda text, body: wire(
        json.dumps({"error": {"message": text}}).encode(), b"400 no"
    ),
    "500": lambda text, body: wire(text.encode(), b"500 oh"),
    "429": lambda text, body: wire(text.encode(), b"429 wait", b"Retry-After: 1e9"),
    "no JSON": lambda text, body: wire(text.encode()),
    "redirect": lambda text, body: wire(
        b"", b"307 x", b"Location: http://%s.example/" % quote(text.strip(" .")).encode()[:900]
    ),
    "redirect, no address": lambda text, body: wire(
        b"", b"307 x", b"Location: http://[%s" % quote(text.strip()).encode()[:900]
    ),
    "status": lambda text, body: [b"HTTP/1.1 " + text.strip(" .").encode()[:900] + b"\r\n\r\n"],
    "header": lambda text, body: wire(
        reason("fine")(body), b"200 OK", b"X-Key: " + text.strip().encode()
    ),
    "verdict": lambda text, body: wire(reason(text)(body)),
    "verdict in codes": lambda text, body: wire(
        content(
            f'{{"reasoning": "{codes(text.strip(" .")[:900])}", "supported_claims": [],'
            ' "unsupported_claims": [], "score": 4}'
        )(body)
    ),
    "prose": lambda text, body: wire(content(text)(body)),
    "another field": lambda text, body: wire(content(json.dumps({text: 1}))(body)),
    "score": lambda text, body: wire(content(json.dumps({"score": text}))(body)),
    "tokens": lambda text, body: wire(
        json.dumps(verdict(body) | {"usage": {"prompt_tokens": text}}).encode()
    ),
    "model": lambda text, body: wire(
        json.dumps(verdict(body) | {"model": text, "id": text}).encode()
    ),
}


@pytest.mark.parametrize("length", LENGTHS)
def test_no_piece_of_a_key_that_a_judge_echoes_is_written(write_run, tmp_path, logged, length):
    chance = random.Random(1000 + length)
    key = key_of(chance, length)
    attacks = echoes(chance, key, JUDGE_REPLIES)
    # The first question is answered, as a refusal from the first call on ends the run.
    attacks[0] = ("verdict", attacks[0][1])
    records = [
        record(f"q{n:02}", [hit("c", "d", 1, snippet="Stone.")], answer=answer("Stone."))
        for n in range(len(attacks))
    ]
    results, golden = rs.load_results(write_run("r", records)), questions(len(attacks))

    def reply(number, body):
        kind, text = attacks[int(json.loads(body["messages"][1]["content"])["question"].split()[1])]
        return JUDGE_REPLIES[kind](text, body)

    with WireServer(reply) as server:
        endpoint = rs.judging.Endpoint(
            "words", base_url=server.url, api_key=key, retries=0, timeout=20
        )
        judged = rs.judge(
            results, golden, "groundedness", endpoint, cache=tmp_path / "cache.sqlite",
            workers=2, progress=True,
        )  # fmt: skip
    judged.save(tmp_path / "judged")
    saved = everything_in(tmp_path / "judged")
    pickled = b"".join(map(pickle.dumps, (judged, endpoint, judged.ledger, judged.judgments)))
    written = [
        saved, *logged(), judged.judgments.to_csv(), judged.ledger.to_csv(),
        f"{judged!r} {endpoint!r}", pickled.decode("utf-8", "replace"),
        (tmp_path / "cache.sqlite").read_bytes().decode("utf-8", "replace"),
        stored(judged.results, golden, tmp_path / "store"),
    ]  # fmt: skip
    assert_no_piece(key, f"{length} characters", *written)
    assert not [text for text in written if codes(key)[:48] in text]
    assert {"scored", "judge_failed"} <= set(judged.ledger["state"]) and "***" in saved

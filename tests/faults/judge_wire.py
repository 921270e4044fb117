"""A judge server at the level of bytes: its replies may break any rule of HTTP or of the API."""

import gzip
import json
import random
import zlib

from servers import Reply, Server

from tests.judge_server import completed, judged, verdict


class WireServer(Server):
    """`parts(number, body)` gives what is sent: bytes, or seconds to wait."""

    def __init__(self, parts):
        super().__init__(lambda seen: Reply(parts=self.parts(seen.number - 1, seen.body)))
        self.parts, self.port = parts, self.server.server_address[1]
        self.url += "/v1"


def sent(content, *headers, status=b"200 OK", length=None):
    """Return one response as bytes."""
    given = [b"Content-Type: application/json", b"Connection: close", *headers]
    size = len(content) if length is None else length
    if size is not ...:
        given.append(b"Content-Length: %s" % str(size).encode())
    return b"HTTP/1.1 %s\r\n%s\r\n\r\n%s" % (status, b"\r\n".join(given), content)


def sound(body):
    return [sent(json.dumps(verdict(body)).encode())]


# Envelopes: JSON that is no chat completion, or one with odd parts.

FAILED, SCORED, EITHER = "judge_failed", "scored", "either"


def with_choices(value):
    return lambda body: verdict(body) | {"choices": value}


def with_text(text):
    return lambda body: completed(body, text(json.dumps(judged(body))))


def with_usage(value):
    return lambda body: verdict(body) | {"usage": value}


DEEP = b"[" * 100_000
ENVELOPES = {
    **{f"choices {value!r}": (FAILED, with_choices(value)) for value in (
        "abc", 5, None, {}, [], [[]], [None], [{}], [{"message": "x"}], [{"message": [1]}],
        [{"message": None}], {"0": {"message": {"content": "x"}}}, True, 1e308,
    )},
    **{f"content {value!r}": (FAILED, with_choices(
        [{"message": {"role": "assistant", "content": value}}])) for value in (
        5, [], [{"type": "text", "text": "{}"}], {}, True, None, "", "{}", "[]", "null", "5",
        '{"score": 5}', "\ud800", "\x00", '{"score": NaN}', "{" * 50_000, "[" * 50_000,
        '{"a":' * 50_000, '{"score": ' + "9" * 5_000 + "}", "<think>" * 1_000, "``" * 5_000,
        "```json\n{}\n```",
    )},
    **{f"usage {value!r}"[:60]: (SCORED, with_usage(value)) for value in (
        "abc", 5, None, [], {}, True, {"prompt_tokens": {}}, [{"prompt_tokens": 1}],
    )},
    **{f"counts {value!r}"[:60]: (SCORED, with_usage(
        dict(zip(("prompt_tokens", "completion_tokens"), value, strict=True)))) for value in (
        ("twelve", "one"), (-5, 10), (5, -10), (10**400, 1), (1, 10**400), (1.5, 2), (True, False),
        (None, 3), ([], {}), (1e308, 1e308), (-(10**18), -(10**18)), (float("nan"), 1),
        (float("inf"), 1), (10**18, 1),
    )},
    "10**5000 tokens": (FAILED, None),
    "a surrogate in the reason": (FAILED, with_text(
        lambda text: text.replace('sentences"', 'sentences \\ud83d"'))),
    "score 10**400": (FAILED, with_text(
        lambda text: text.replace('"score": ', '"score": 1' + "0" * 400))),
    "score twice": (FAILED, with_text(lambda text: text.replace("{", '{"score": 0, ', 1))),
    "score true": (FAILED, with_text(lambda text: text[: text.rindex(":")] + ": true}")),
    "score -1": (FAILED, with_text(lambda text: text[: text.rindex(":")] + ": -1}")),
    "another field, deep": (FAILED, with_text(
        lambda text: text.replace("{", '{"x": ' + "[" * 900 + "]" * 900 + ", ", 1))),
    "a long reason": (SCORED, with_text(
        lambda text: text.replace('sentences"', "sentences" + "!" * 1_000_000 + '"'))),
    "no usage": (SCORED, lambda body: {
        key: value for key, value in verdict(body).items() if key != "usage"}),
}  # fmt: skip


def in_json(name, body):
    """Return the bytes of an odd envelope."""
    if name == "10**5000 tokens":
        return (
            json.dumps(verdict(body))
            .replace('"prompt_tokens": ', '"prompt_tokens": ' + "9" * 5000)
            .encode()
        )
    return json.dumps(ENVELOPES[name][1](body)).encode()


BODIES = {
    "deep": DEEP,
    "deep objects": b'{"choices":' * 100_000,
    "deep and whole": b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nothing": b"",
    "not JSON": b"<html>busy</html>",
    "cut off": b'{"choices": [{"mess',
    "null": b"null", "a number": b"5", "a text": b'"abc"', "a list": b"[1, 2]", "a word": b"NaN",
    "zeros": b"\x00" * 1000,
    "bytes": bytes(range(256)) * 10,
    "half a character": b'{"choices": "\xff\xfe"}',
    "utf-16": '{"choices": 5}'.encode("utf-16"),
    "events": b'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n',
}  # fmt: skip


def wire_faults(port):
    """Return faults below the API, by name: expected state and the parts to send."""
    head = b"HTTP/1.1 200 OK\r\n"

    def redirect(status, to):
        return FAILED, lambda body: [sent(b"", b"Location: " + to, status=status)]

    def packed(encoding, content):
        return lambda body: [sent(content(body), b"Content-Encoding: " + encoding)]

    def plain(body):
        return json.dumps(verdict(body)).encode()

    other = b"http://localhost:%d/v1/chat/completions" % port
    return {
        "dropped": (FAILED, lambda body: []),
        "dropped in the headers": (FAILED, lambda body: [head + b"Content-Ty"]),
        "dropped in the content": (FAILED, lambda body: [sent(plain(body)[:50], length=5000)]),
        "no status": (FAILED, lambda body: [b"hello\r\n\r\n"]),
        "status abc": (FAILED, lambda body: [sent(plain(body), status=b"abc OK")]),
        "status 999": (FAILED, lambda body: [sent(plain(body), status=b"999 no")]),
        "status 204": (FAILED, lambda body: [sent(b"", status=b"204 No Content", length=...)]),
        "status 304": (FAILED, lambda body: [sent(b"", status=b"304 Not Modified", length=...)]),
        "status 500": (FAILED, lambda body: [sent(DEEP, status=b"500 oh")]),
        "status 400": (FAILED, lambda body: [
            sent(b'{"error": {"message": "\\ud800 no"}}', status=b"400 no")]),
        "status 403": (FAILED, lambda body: [sent(b"[" * 5000, status=b"403 no")]),
        "status 404": (FAILED, lambda body: [sent(b"", status=b"404 no")]),
        "length too long": (FAILED, lambda body: [sent(plain(body), length=10**6)]),
        "length too short": (FAILED, lambda body: [sent(plain(body), length=20)]),
        "length of words": (FAILED, lambda body: [sent(plain(body), length="ten")]),
        "length -1": (FAILED, lambda body: [sent(plain(body), length=-1)]),
        "no length": (SCORED, lambda body: [sent(plain(body), length=...)]),
        "bad chunks": (FAILED, lambda body: [
            sent(b"zz\r\nabc", b"Transfer-Encoding: chunked", length=...)]),
        "huge headers": (FAILED, lambda body: [head, *[b"X: " + b"y" * 10_000 + b"\r\n"] * 500]),
        "gzip": (SCORED, packed(b"gzip", lambda body: gzip.compress(plain(body)))),
        "deflate": (SCORED, packed(b"deflate", lambda body: zlib.compress(plain(body)))),
        "gzip that is none": (FAILED, packed(b"gzip", plain)),
        "gzip cut off": (FAILED, packed(b"gzip", lambda body: gzip.compress(plain(body))[:-12])),
        "br": (EITHER, packed(b"br", plain)),
        "gzip twice": (FAILED, packed(b"gzip, gzip", plain)),
        "redirect 307 elsewhere": redirect(b"307 x", other),
        "redirect 308 elsewhere": redirect(b"308 x", other),
        "redirect 302 elsewhere": redirect(b"302 x", other),
        "redirect 301 here": redirect(b"301 x", b"/v1/other"),
        "redirect in a circle": redirect(b"307 x", b"/v1/chat/completions"),
        "redirect to a file": redirect(b"307 x", b"file:///etc/passwd"),
        "redirect to https": redirect(b"307 x", b"https://127.0.0.1:%d/v1" % port),
        "redirect to no address": redirect(b"307 x", b"http://[::1"),
        "redirect nowhere": (FAILED, lambda body: [sent(b"", status=b"307 x")]),
    }  # fmt: skip


def damaged(seed, content):
    """Return content with some of its bytes changed, taken out or put in."""
    chance, content = random.Random(seed), bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(content) + 1)
        flipped = bytes(one ^ 1 << chance.randrange(8) for one in content[at : at + 1])
        end, instead = chance.choice([
            (at + 1, flipped), (at + 1, flipped), (len(content), b""),
            (at + chance.randint(1, 40), b""), (at, chance.randbytes(chance.randint(1, 40))),
            (at, content[at : at + 500]),
        ])  # fmt: skip
        content[at:end] = instead
    return bytes(content)

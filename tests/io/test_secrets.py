"""Texts from outside lose the secrets in use, in any usual form and in pieces."""

import base64
import html
import json
import logging
import random
import re
import string
import time
from urllib.parse import quote, quote_plus

import pytest

from ragscore.io.secrets import (
    PIECE_OF_CONTENT,
    PIECE_OF_MESSAGE,
    Redactor,
    hidden_url,
    redacted_logs,
    secrets_of_url,
)

KEY = "Zk4-q_7WxB2mTt9LrHc5Ff1D"  # 24 characters
AWKWARD = "pä\"s'w\\o/r+d &%=7Xy<9"


@pytest.mark.parametrize("key", [KEY, AWKWARD, "Ab3?", "hunter2"])
@pytest.mark.parametrize(
    "form",
    [
        str,
        quote,
        lambda key: quote(key, safe=""),
        lambda key: re.sub("%..", lambda code: code[0].lower(), quote(key, safe="")),
        quote_plus,
        html.escape,
        lambda key: json.dumps(key)[1:-1],
        lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
        lambda key: json.dumps(json.dumps(key))[3:-3],
        lambda key: "".join(f"\\u{ord(one):04X}" for one in key),
        lambda key: repr(key)[1:-1],
        lambda key: repr(key.encode())[2:-1],
        lambda key: key.encode().hex(),
        lambda key: base64.b64encode(key.encode()).decode().rstrip("="),
        lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_found_in_every_form(key, form):
    redact = Redactor([key], environment={})
    for hide in (redact.text, redact.message):
        hidden = hide(f"({form(key)})")
        assert form(key).lower() not in hidden.lower() and hidden[0] + hidden[-1] == "()"


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "user"])
def test_of_basic_authentication_nothing_of_the_password_is_left(user):
    told = base64.b64encode(f"{user}:{KEY}".encode()).decode()
    shown = Redactor([KEY], environment={}).text(f"Basic {told} or so")
    left = shown.removeprefix("Basic ").partition("***")[0]
    assert base64.b64decode(left + "A" * (-len(left) % 4))[: len(user) + 1] in (
        f"{user}:".encode(),
        f"{user}:".encode()[: len(left) * 3 // 4],
    )
    assert len(left) <= -(-(len(user) + 1) * 8 // 6) and shown.endswith("or so")


@pytest.mark.parametrize("case", [str.upper, str.lower, str.swapcase])
def test_case_does_not_count(case):
    assert Redactor([KEY], environment={}).text(case(KEY)) == "***"
    assert Redactor([KEY], environment={}).text(f"İİ{case(KEY)}İ") == "İİ***İ"


def test_every_piece_of_a_key_is_one_from_six_characters_in_messages_and_twelve_in_contents():
    redact = Redactor([f"Bearer {KEY}"], environment={})
    for hide, least in ((redact.message, PIECE_OF_MESSAGE), (redact.text, PIECE_OF_CONTENT)):
        for start in range(len(KEY)):
            for stop in range(start + 1, len(KEY) + 1):
                shown = hide(f"<{KEY[start:stop]}>")
                assert shown == ("<***>" if stop - start >= least else f"<{KEY[start:stop]}>")
    assert redact.text("Bearer of news") == redact.message("Bearer of news") == "Bearer of news"


@pytest.mark.parametrize(("length", "least"), [(8, 8), (16, 8), (20, 10), (24, 12), (164, 12)])
def test_half_of_a_short_secret_is_a_piece_in_contents(length, least):
    key = "".join(random.Random(length).sample(string.ascii_letters + string.digits, 62) * 3)[
        :length
    ]
    redact = Redactor([key], environment={})
    assert redact.text(key[:least]) == redact.text(key[-least:]) == "***"
    assert redact.text(key[: least - 1]) == key[: least - 1]


def test_ids_of_a_million_hexadecimal_digits_stay_as_they_are():
    chance = random.Random(1)
    key = f"{chance.getrandbits(256):064x}"
    ids = [f"{chance.getrandbits(256):064x}" for _ in range(20_000)]
    assert [*map(Redactor([key], environment={}).text, ids)] == ids


def test_a_text_is_cut_after_its_secrets_are_hidden():
    redact = Redactor([KEY], environment={})
    for cut in (60, 300):
        for offset in range(len(KEY) + 1):
            text = "." * (cut - offset) + KEY + " and so on" * 50
            assert redact.excerpt(text, cut) == (text[: cut - offset] + "***" + text)[:cut] or (
                set(redact.excerpt(text, cut)[cut - offset : cut - offset + 3]) <= {"*"}
            )
            assert KEY[:6] not in redact.excerpt(text, cut)
            assert KEY[-6:] not in redact.excerpt(text[::-1].replace(KEY[::-1], KEY), -cut)


def test_what_stands_for_no_key_is_none():
    text = "Ollama runs locally; the token is not-needed, and none is a dummy."
    assert Redactor(["ollama", "none", "not-needed", "dummy"], {}).text(text) == text


def test_variables_count_whole_in_contents_and_in_pieces_where_they_look_like_keys():
    redact = Redactor(environment={"RAG_TOKEN": KEY, "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.123456"})
    assert redact.text(f"{KEY} {KEY[:12]}") == f"*** {KEY[:12]}"
    assert redact.message(f"{KEY[:12]} /tmp/ssh-x") == "*** /tmp/ssh-x"


def test_variables_may_hold_any_bytes():
    redact = Redactor(environment={"RAG_TOKEN": "12345678\udcff9"})
    assert redact.text("12345678\udcff9 x") == "*** x"


@pytest.mark.parametrize(
    ("url", "shown", "found"),
    [
        ("https://me:pw@h/a?key=abcd&k=3#t=1", "https://h/a?key=***&k=3", {"abcd", "pw"}),
        (f"https://{KEY}@h", "https://h", {KEY}),
        (f"https://{KEY}:x@h", "https://h", {KEY, "x"}),
        ("https://h/a?sig=s%2B1", "https://h/a?sig=***", {"s+1"}),
        ("http://[::1", "***", set()),
    ],
)
def test_addresses_tell_their_secrets(url, shown, found):
    assert hidden_url(url) == shown and {one for one in secrets_of_url(url) if one} == found


@pytest.mark.parametrize(
    "text", ["a" * 9_000, "eyJ-" * 2_500, "token " * 1_600, "sk-" * 3_000, KEY[:5] * 2_000]
)
def test_hostile_texts_take_no_time(text):
    started = time.perf_counter()
    Redactor([KEY, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], environment={}).message(text)
    assert time.perf_counter() - started < 2


def test_all_loggers_are_redacted_meanwhile_and_none_afterwards(caplog):
    caplog.set_level(logging.DEBUG)
    factory, log = logging.getLogRecordFactory(), logging.getLogger("anybody.s.library")
    first, second = Redactor([KEY], {}), Redactor(["hunter-2222"], {})
    with redacted_logs(first):
        log.debug("sent %s", {"x-key": KEY})
        log.warning("nothing %d", 5)
        log.makeRecord("x", 10, "", 1, "fits %d no message", ("really",), None)  # doesn't raise
        try:
            raise ValueError(f"no {KEY[:10]}")
        except ValueError:
            log.exception("failed")
        with redacted_logs(second):
            log.debug("%s and hunter-2222", KEY)
        log.debug("hunter-2222")
    log.debug("%s again", KEY)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "sent {'x-key': '***'}",
        "nothing 5",
        "failed",
        "*** and ***",
        "hunter-2222",
        f"{KEY} again",
    ]
    assert caplog.records[1].msg == "nothing %d"  # what holds no secret stays a template
    assert KEY[:6] not in caplog.text.split("again")[0].rpartition("\n")[0]
    assert "ValueError: no ***" in caplog.text
    assert logging.getLogRecordFactory() is factory

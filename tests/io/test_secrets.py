"""Keys are refused outside their place, and texts from outside lose those in use."""

import json
import logging
import random
import re
import string
import traceback
from base64 import b64encode
from itertools import product
from urllib.parse import quote, quote_plus

import pytest

from ragscore.io.servers import (
    PIECE,
    Redactor,
    checked_address,
    checked_key,
    hidden,
    is_secret,
    redacted_logs,
)
from tests.messages import refused

KEY = "Zk4-q_7WxB2mTt9LrHc5Ff1D"  # 24 characters
AWKWARD = "pä\"s'w\\o/r+d &%=7Xy<9"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    monkeypatch.setattr("os.environ", {})


@pytest.mark.parametrize("key", [KEY, AWKWARD, "Ab3?", "hunter2", "ab/cdefghijklm+nop9Q"])
@pytest.mark.parametrize(
    "form",
    [
        str,
        quote,
        lambda key: quote(key, safe=""),
        lambda key: re.sub("%..", lambda code: code[0].lower(), quote(key, safe="")),
        quote_plus,
        lambda key: json.dumps(key)[1:-1],
        lambda key: json.dumps(key, ensure_ascii=False)[1:-1],
        lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
        lambda key: json.dumps(json.dumps(key))[3:-3],
        lambda key: repr(key)[1:-1],
        lambda key: repr(key.encode())[2:-1],
        lambda key: f"Bearer {key}",
        lambda key: b64encode(key.encode()).decode().rstrip("="),
    ],
)
def test_a_key_is_found_in_the_usual_forms(key, form):
    shown = Redactor([key]).text(f"({form(key)})")
    assert shown.replace("(Bearer ", "(") == "(***)"


@pytest.mark.parametrize("case", [str.upper, str.lower, str.swapcase])
def test_case_does_not_count(case):
    assert Redactor([KEY]).text(f"İİ{case(KEY)}İ") == "İİ***İ"


def test_the_beginning_and_the_end_of_a_key_are_hidden_wherever_it_was_cut():
    redact = Redactor([f"Bearer {KEY}"]).text
    for n in range(PIECE, len(KEY) + 1):
        assert redact(f"<{KEY[:n]}>") == redact(f"<{KEY[-n:]}>") == "<***>"
    assert redact(KEY[: PIECE - 1]) == KEY[: PIECE - 1]
    assert redact(f"{KEY}{KEY[:9]} {KEY[-9:]}") == "****** ***"
    assert redact("Bearer of news") == "Bearer of news"


def test_ids_of_hexadecimal_digits_stay_as_they_are():
    ids = [f"{random.Random(n).getrandbits(256):064x}" for n in range(10_000)]
    assert [*map(Redactor([f"{random.Random(-1.5).getrandbits(256):064x}"]).text, ids)] == ids


def test_a_text_is_cut_after_its_keys_are_hidden():
    redact = Redactor([KEY])
    for cut, offset in product((60, 300), range(len(KEY) + 1)):
        text = "." * (cut - offset) + KEY + " and so on" * 50
        assert KEY[:6] not in redact.excerpt(text, cut) and len(redact.excerpt(text, cut)) == cut
        assert KEY[-6:] not in redact.excerpt(text[::-1].replace(KEY[::-1], KEY), -cut)


def test_what_stands_for_no_key_is_none():
    text = "Ollama runs locally; the token is not-needed, and none is a dummy."
    assert Redactor(["ollama", "none", "not-needed", "dummy", ""]).text(text) == text


def test_variables_count_whole_and_in_pieces_where_they_look_like_keys(monkeypatch):
    variables = {
        "RAG_TOKEN": KEY, "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.123456", "MODE": "production",
        "AUTH": "none", "ODD_TOKEN": "12345678\udcff9",
    }  # fmt: skip
    monkeypatch.setattr("os.environ", variables)
    redact = Redactor().text
    assert redact(f"{KEY} {KEY[:12]}") == "*** ***"
    assert redact("/tmp/ssh-x in production, none") == "/tmp/ssh-x in production, none"
    assert redact("/tmp/ssh-x/agent.123456 12345678\udcff9 x") == "*** *** x"


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{KEY}@h/a", f"https://{KEY}@h", f"https://h/a?key={KEY}",
        f"https://h/a?sig={KEY}", f"http://[{KEY}", f"http://h:{KEY}/v1", f"{KEY}://h", KEY,
        "http://", "", "http://h:0/a",
    ],
)  # fmt: skip
def test_an_address_that_is_none_or_holds_a_key_is_refused_and_not_quoted(url):
    with refused(field="url") as caught:
        checked_address(url, "url", "no key")
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert checked_address("http://h:80/a?k=3", "url", "").port == 80


@pytest.mark.parametrize("key", [f"{KEY}ä", f"{KEY}\n{KEY}", f"{KEY}\x7f"])
def test_a_key_that_no_header_holds_is_refused_and_not_quoted(key):
    with refused(field="api_key") as caught:
        checked_key(key, "api_key")
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert checked_key(f" {KEY}\n", "api_key") == KEY


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api_key", True), ("X-Api-Key", True), ("apiKey", True), ("OPENAI_API_KEY", True),
        ("access_token", True), ("Authorization", True), ("DB_PASSWORD", True),
        ("sig", True), ("max_tokens", False), ("tokenizer", False), ("key", False),
        ("keyword", False), ("author", False), ("prompt_tokens", False),
    ],
)  # fmt: skip
def test_names_that_tell_of_keys(name, secret):
    assert is_secret(name) is secret
    found = hidden([{"a": {name: "x", "b": [1, None]}}])
    assert found == [{"a": {name: "***" if secret else "x", "b": [1, None]}}]


def test_addresses_in_texts_hide_users_and_keys():
    found = hidden([f"at http://me:{KEY}@h:1/a?k=3&x_api_key={KEY}&n=2, or http://h/a@b?monkey"])
    assert found == ["at http://***@h:1/a?k=3&x_api_key=***&n=2, or http://h/a@b?monkey"]


@pytest.mark.parametrize(
    "text", ["a" * 9_000, "eyJ-" * 2_500, "token " * 1_600, "sk-" * 3_000, KEY[:8] * 2_000]
)
def test_hostile_texts_end(text):
    Redactor([KEY, "a" * 32, *(string.ascii_letters[n:] for n in range(40))]).text(text)


def test_all_loggers_are_redacted_meanwhile_and_none_afterwards(caplog):
    caplog.set_level(logging.DEBUG)
    factory, log = logging.getLogRecordFactory(), logging.getLogger("anybody.s.library")
    with redacted_logs(Redactor([KEY])):
        log.debug("sent %s", {"x-key": KEY})
        log.warning("nothing %d", 5)
        log.makeRecord("x", 10, "", 1, "fits %d no message", ("really",), None)  # doesn't raise
        try:
            raise ValueError(f"no {KEY[:10]}")
        except ValueError:
            log.exception("failed")
    log.debug("%s again", KEY)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["sent {'x-key': '***'}", "nothing 5", "failed", f"{KEY} again"]
    assert caplog.records[1].msg == "nothing %d"  # what holds no key stays a template
    assert KEY[:6] not in caplog.text.split("again")[0].rpartition("\n")[0]
    assert "ValueError: no ***" in caplog.text
    assert logging.getLogRecordFactory() is factory


def test_a_factory_that_was_set_meanwhile_stays_and_calls_no_other_for_ever():
    factory = logging.getLogRecordFactory()
    try:
        with redacted_logs(Redactor([KEY])):
            ours = logging.getLogRecordFactory()
            logging.setLogRecordFactory(lambda *values, **more: ours(*values, **more))
        with redacted_logs(Redactor([KEY])):
            record = logging.getLogger("x").makeRecord("x", 10, "", 1, KEY, (), None)
        assert record.getMessage() == "***"
    finally:
        logging.setLogRecordFactory(factory)

"""Secrets: the one door for texts from outside, on their way to files, logs and messages.

In: nested values, texts, addresses, command lines. Out: the same without secrets. Imports the
standard library only.

A secret cut in two is still one, so its pieces count too. In a message, six characters are a
piece: they carry up to 36 bits of a key, and a star too many costs nothing. In contents, such as
ids and texts of hits, twelve are: six digits of a hexadecimal key occur in some id by chance, and
an id that changes changes scores. Of a secret under 24 characters, half of it is a piece there.
"""

import base64
import html
import json
import logging
import os
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlencode, urlsplit, urlunsplit

HIDDEN = "***"
# A shorter secret would be redacted in texts that contain it by chance. The values of variables
# need more: AUTH=none and X_TOKEN=disabled hold no secret.
MIN_LENGTH, MIN_VARIABLE_LENGTH, MIN_WORD_LENGTH = 4, 8, 16
PIECE_OF_MESSAGE, PIECE_OF_CONTENT, LEAST_OF_CONTENT, LEAST_OF_BASE64 = 6, 12, 8, 6  # characters
QUOTED = 10_000  # characters of a text from outside that are looked at for an excerpt
# What is given to local servers that want no key; hiding it would change texts about them.
_PLACEHOLDERS = frozenset(
    "none null empty dummy ollama local test token lm-studio not-needed no-key no-key-required"
    " sk-no-key-required".split()
)
_WORDS = frozenset(
    "token secret secrets password passwd passphrase pwd apikey apitoken accesskey authorization"
    " auth credential credentials cookie signature sig bearer jwt".split()
)
_KEYS = frozenset("api access private secret auth account subscription".split())  # before "key"
_PATTERNS = [
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {HIDDEN}"),
    (
        re.compile(
            r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
            r"|\bhf_[A-Za-z0-9]{20,}|\bAKIA[A-Z0-9]{16}\b|\bxox[a-z]-[A-Za-z0-9-]{10,}"
        ),
        HIDDEN,
    ),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
    (re.compile(r"(?<=://)[^\s/@'\"]+(?=@)"), HIDDEN),
    (
        re.compile(
            r"(?i)((?:api[_-]?key|token|secret|password|passwd|signature|[?&]key)"
            r"[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*)[^\s\"'&,;}]{4,}"
        ),
        rf"\1{HIDDEN}",
    ),
]
_SCHEME = re.compile(r"(?i)^(?:bearer|basic|token|apikey|digest)\s+(?=\S)")
_KEY_LIKE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])(?!/)[\w+/=.~:-]{16,}")
_OPTION = re.compile(r"^-{1,2}([\w-]+)(?:=(.*))?$", re.DOTALL)
_ASSIGNED = re.compile(r"^(\w+)=(.*)$", re.DOTALL)


def is_secret(name: str) -> bool:
    """Return True if a field, header, parameter or variable of this name may hold a secret.

    True for `api_key` and `X-Auth-Token`, False for `max_tokens` and `tokenizer`.
    """
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    parts = re.split(r"[^a-z0-9]+", words)
    return bool(_WORDS & set(parts)) or any(
        word in _KEYS and following == "key" for word, following in pairwise(parts)
    )


def hidden_url(url: str) -> str:
    """Return an address without user, password and the values of parameters that may be secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    host = parts.netloc.rpartition("@")[2]
    query = [
        (name, HIDDEN if is_secret_parameter(name) else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(netloc=host, query=urlencode(query, safe="*"), fragment=""))


def is_secret_parameter(name: str) -> bool:
    """Return True if a parameter of an address may hold a secret: as a field, or `key`."""
    return name.lower() == "key" or is_secret(name)


def secrets_of_url(url: str) -> list[str]:
    """Return what `hidden_url` hides: password, parameters, and a user that may be a key."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    found = [value for name, value in parse_qsl(parts.query) if is_secret_parameter(name)]
    # Some services take the key as the user, with any password or none.
    return [*found, password, user if not password or _KEY_LIKE.fullmatch(user) else ""]


class Redactor:
    """Replaces every known secret in texts by `***`, in any case and in the usual encodings.

    Known are the given secrets, with their pieces, and the values of environment variables whose
    names suggest one. Of the latter only pieces of what looks like a key count, in messages.
    """

    def __init__(
        self, secrets: Iterable[str] = (), environment: dict[str, str] | None = None
    ) -> None:
        variables = os.environ if environment is None else environment
        given = {
            secret
            for text in secrets
            for secret in (text.strip(), _SCHEME.sub("", text.strip()))
            if len(secret) >= MIN_LENGTH and secret.lower() not in _PLACEHOLDERS
        }
        others = {
            value
            for name, value in variables.items()
            if is_secret(name)
            and len(value) >= (MIN_WORD_LENGTH if value.isalpha() else MIN_VARIABLE_LENGTH)
        } - given
        in_parts = {secret for secret in given if not _SCHEME.match(secret)}
        key_like = {value for value in others if _KEY_LIKE.fullmatch(value) and "://" not in value}
        whole = (given | others) - in_parts
        self._in_contents = _Finder(
            {
                **dict.fromkeys(whole, 0),
                **{
                    one: min(PIECE_OF_CONTENT, max(LEAST_OF_CONTENT, len(one) // 2))
                    for one in in_parts
                },
            }
        )
        self._in_messages = _Finder(
            {
                **dict.fromkeys(whole, 0),
                **dict.fromkeys(in_parts | key_like, PIECE_OF_MESSAGE),
            }
        )

    def text(self, text: str) -> str:
        """Return a text without known secrets."""
        return self._in_contents.hide(text)

    def message(self, text: str) -> str:
        """Return a message or log line without known secrets and texts that look like one."""
        return _without_probable(self._in_messages.hide(text))

    def excerpt(self, text: str, length: int) -> str:
        """Return the beginning of a message, or the end if `length` is negative.

        It is cut after its secrets are hidden: of a secret that was cut before, a part would stay.
        """
        part = text.strip()
        part = self.message(part[:QUOTED] if length > 0 else part[-QUOTED:])
        return part[:length] if length > 0 else part[length:]

    def values(self, value: Any) -> Any:
        """Return nested values without known secrets, in keys too."""
        return _mapped(value, self.text)

    def config(self, value: Any) -> Any:
        """Return a snapshot without known, named or probable secrets.

        Named are texts in fields and command options whose name suggests a secret. Probable are
        texts that look like a key.
        """
        return _mapped(hidden(value), lambda text: _without_probable(self.text(text)))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return nested values with every text changed, in keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            change(key) if isinstance(key, str) else key: _mapped(inner, change)
            for key, inner in value.items()
        }
    return [_mapped(part, change) for part in value] if isinstance(value, (list, tuple)) else value


def _without_probable(text: str) -> str:
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    return text


class _Finder:
    """Finds secrets and their pieces in texts, in time that grows with the text alone.

    Parameters
    ----------
    secrets
        The secrets, and how many characters of each are a piece; 0 stands for the whole.
    """

    def __init__(self, secrets: dict[str, int]) -> None:
        self.size = (min([least for least in secrets.values() if least], default=8) + 1) // 2
        self.places: dict[str, list[tuple[str, int, int]]] = {}
        short = set()
        for secret, least in secrets.items():
            for form, is_whole in _forms(secret):
                needed = len(form) if is_whole or not least else min(least, len(form))
                if needed < 2 * self.size - 1:
                    short.add(form)
                    continue
                # A found piece holds a block of this size that begins at a multiple of it.
                ends = self.size if needed == len(form) else len(form) - self.size + 1
                folded = _folded(form)
                for start in range(ends):
                    block = folded[start : start + self.size]
                    self.places.setdefault(block, []).append((folded, start, needed))
        longest_first = sorted(short, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first))) if short else None

    def hide(self, text: str) -> str:
        """Return a text with `***` for each secret or piece of one."""
        if self.places:
            folded, kept, end = _folded(text), [], 0
            for start, stop in self._spans(folded):
                kept += [text[end:start], HIDDEN]
                end = stop
            text = "".join([*kept, text[end:]]) if end else text
        return text if self.pattern is None else self.pattern.sub(HIDDEN, text)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of all finds, in order, and joined where they meet."""
        size, found = self.size, list[tuple[int, int]]()
        blocks = (text[at : at + size] for at in range(0, len(text), size))
        hits = (number * size for number, block in enumerate(blocks) if block in self.places)
        for at in hits:
            if found and at + size <= found[-1][1]:
                continue
            start, stop = at, at
            for form, place, needed in self.places[text[at : at + size]]:
                before, after = 0, size
                while before < min(at, place) and text[at - before - 1] == form[place - before - 1]:
                    before += 1
                most = min(len(text) - at, len(form) - place)
                while after < most and text[at + after] == form[place + after]:
                    after += 1
                if before + after >= needed:
                    start, stop = min(start, at - before), max(stop, at + after)
            if start < stop:
                while found and found[-1][1] >= start:
                    start, stop = min(start, found[-1][0]), max(stop, found[-1][1])
                    found.pop()
                found.append((start, stop))
        return found


def _folded(text: str) -> str:
    """Return a text in lower case and of the same length: only one letter becomes two."""
    return text.replace("\u0130", "i").lower()


def hidden(value: Any) -> Any:
    """Return nested values without texts in fields and command options that may be secret."""
    return _hidden(value, [])


def secrets_in(value: Any) -> list[str]:
    """Return the texts that `hidden` hides."""
    found: list[str] = []
    _hidden(value, found)
    return found


def _hidden(value: Any, found: list[str]) -> Any:
    """Return what `hidden` does, and add what it hides to a list."""
    if isinstance(value, dict):
        shown = {}
        for key, inner in value.items():
            is_own = isinstance(inner, str) and inner != "" and is_secret(str(key))
            shown[key] = HIDDEN if is_own else _hidden(inner, found)
            found += [inner] if is_own else []
        return shown
    if not isinstance(value, (list, tuple)):
        return value
    if not all(isinstance(part, str) for part in value):
        return [_hidden(part, found) for part in value]
    # A command's arguments: `***` for x in `--token x`, `--token=x` and `TOKEN=x`.
    arguments: list[str] = []
    is_value = False
    for argument in value:
        option, assigned = _OPTION.match(argument), _ASSIGNED.match(argument)
        matches = (match for match in (option, assigned) if match and is_secret(match[1]))
        secret = next(matches, None)
        start = 0 if is_value and not option else len(argument)
        if start and secret is not None and secret[2]:
            start = secret.start(2)
        found += [argument[start:]] if start < len(argument) else []
        arguments.append(argument[:start] + HIDDEN * (start < len(argument)))
        is_value = option is not None and secret is option and option[2] is None
    return arguments


def _forms(secret: str) -> set[tuple[str, bool]]:
    """Return a secret in the forms that texts may give it, and True for those that count whole."""
    # Variables may hold any bytes, of which some are no text.
    given, secret = secret, secret.encode("utf-8", "replace").decode()
    escaped = json.dumps(secret)[1:-1]
    forms = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):  # bytes such as `user:` in front shift what base64 makes of it
            encoded = encode(bytes(before) + secret.encode()).decode()
            n_whole = (before + len(secret.encode())) * 8 // 6
            forms.add(encoded[-(-before * 8 // 6) : n_whole])
        forms.add(encode(secret.encode()).decode().rstrip("="))
    forms = {form for form in forms if len(form) >= LEAST_OF_BASE64} | {
        given,
        re.sub("%..", lambda code: code[0].lower(), quote(secret, safe="")),
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        escaped,
        escaped.replace("/", "\\/"),
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(escaped)[1:-1],
        repr(secret)[1:-1],
        repr(secret.encode())[2:-1],
        html.escape(secret),
        secret.encode().hex(),
    }
    codes = "".join(f"\\u{ord(character):04x}" for character in secret)
    signs = "".join(
        one if one.isalnum() and one.isascii() else f"\\u{ord(one):04x}" for one in secret
    )
    return {(form, False) for form in forms | {signs}} | {(codes, True)}


_in_use: list[Redactor] = []
_installed: list[tuple[Any, Any]] = []
_lock = threading.Lock()


@contextmanager
def redacted_logs(redactor: Redactor) -> Iterator[None]:
    """Keep secrets out of what any library logs meanwhile, at any level.

    Records are changed as they are made: a filter of a logger misses the loggers below it, and
    that of a handler the handlers to come.
    """
    with _lock:
        before = logging.getLogRecordFactory()

        def create(*values: Any, **more: Any) -> logging.LogRecord:
            return _redacted_record(before(*values, **more))

        if not _in_use:
            logging.setLogRecordFactory(create)
            _installed.append((create, before))
        _in_use.append(redactor)
    try:
        yield
    finally:
        with _lock:
            _in_use.remove(redactor)
            if not _in_use:
                own, earlier = _installed.pop()
                # Where another stands on it, it stays, and changes nothing any more.
                if logging.getLogRecordFactory() is own:
                    logging.setLogRecordFactory(earlier)


def _redacted_record(record: logging.LogRecord) -> logging.LogRecord:
    for redactor in list(_in_use):
        try:
            text = record.getMessage()
        except Exception:  # arguments that fit no message: logging itself reports them
            continue
        if (shown := redactor.message(text)) != text:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[0] is not None:
            text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (shown := redactor.message(text)) != text:
                record.exc_info, record.exc_text = None, shown
        elif record.exc_text:
            record.exc_text = redactor.message(record.exc_text)
        if record.stack_info:
            record.stack_info = redactor.message(record.stack_info)
    return record

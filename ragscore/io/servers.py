"""What is asked of servers: keys, addresses, waits, and a progress bar meanwhile.

Keys have one place, an `api_key` or an environment variable; elsewhere they are refused. Whatever
comes from outside goes through a `Redactor` on its way to files, logs and messages: a server may
echo the key that it was sent. A key cut in two is still one, so its beginning and its end count
from eight characters on. A server may ask its callers to wait for any time: `LONGEST_WAIT` is the
most that anything here waits for one, and a query that would have to wait longer has failed.
"""

import json
import logging
import os
import re
import string
import traceback
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from os.path import commonprefix
from types import SimpleNamespace
from typing import Any
from urllib.parse import SplitResult, quote, quote_plus, urlsplit

from ragscore.frames.errors import DataError
from ragscore.frames.escaping import visible

LONGEST_WAIT = 60.0  # seconds
HIDDEN = "***"
# A shorter key would be found in texts that hold it by chance. The values of variables need more:
# AUTH=none and X_TOKEN=disabled hold no key.
MIN_LENGTH, MIN_VARIABLE_LENGTH, MIN_WORD_LENGTH, PIECE = 4, 8, 16, 8
QUOTED = 10_000  # characters of a text from outside that are looked at for an excerpt
# What is given to local servers that want no key; hiding it would change texts about them.
_PLACEHOLDERS = frozenset(
    "none null empty dummy ollama local test token lm-studio not-needed no-key no-key-required"
    " sk-no-key-required".split()
)
_SECRET = re.compile(
    "(?:^|_)(?:token|secrets?|pass(?:word|wd|phrase)|pwd|auth|authorization|credentials?|cookie"
    "|signature|sig|bearer|jwt|api_?key|apitoken|access_?key"
    "|(?:private|secret|auth|account|subscription)_key)(?:_|$)"
)
_IN_ADDRESS = re.compile(
    r"(?i)(://)[^\s/@]+(?=@)|([?&](?:auth|authorization|bearer|cookie|[\w-]*(?:key|token|secrets?"
    r"|pass(?:word|wd|phrase)|pwd|credentials?|sig|signature|jwt))=)[^&\s]+"
)
_KEY_LIKE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])(?!/)(?!.*://)[\w+/=.~:-]{16,}")
SCHEME = re.compile(r"(?i)^(?:bearer|basic|token|apikey|digest)\s+(?=\S)")


def is_secret(name: str) -> bool:
    """Return True if a field, header, parameter or variable of this name may hold a key.

    True for `api_key` and `X-Auth-Token`, False for `max_tokens` and `tokenizer`.
    """
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    return _SECRET.search(re.sub(r"[^a-z0-9]+", "_", words)) is not None


def hidden(value: Any) -> Any:
    """Return nested values with `***` for keys: in fields whose name suggests one, in addresses."""
    if isinstance(value, str):
        return _IN_ADDRESS.sub(r"\1\2***", value)
    if isinstance(value, dict):
        return {
            name: HIDDEN if isinstance(one, str) and one and is_secret(str(name)) else hidden(one)
            for name, one in value.items()
        }
    return [*map(hidden, value)] if isinstance(value, list) else value


def refuse_keys(value: Any, field: str, allowed: str) -> None:
    """Raise a DataError if nested values hold what `hidden` hides."""
    if hidden(value) != value:
        raise DataError("found a key", field=field, allowed=allowed)


def checked_key(text: str, field: str) -> str:
    """Return a key that a header can hold; libraries quote others in their errors."""
    if not (text := text.strip()).isascii() or not text.isprintable():
        raise DataError(
            "found more than printable ASCII", field=field, allowed="what a header can hold"
        )
    return text


def checked_address(url: str, field: str, allowed: str) -> SplitResult:
    """Return the parts of an address. One that is none or holds a key is refused, not quoted."""
    is_address = False
    with suppress(ValueError):  # which may quote a key in the place of a port
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    if not is_address:
        raise DataError("no address", field=field, allowed="http://... or https://...")
    if _IN_ADDRESS.search(url):
        raise DataError("found a user, a password or a key", field=field, allowed=allowed)
    return parts


@cache
def tls() -> Any:
    """Return the certificates that servers are checked by, which take long to load: once."""
    import httpx

    return httpx.create_ssl_context()


class Redactor:
    """Replaces every known key in texts by `***`, in any case and in the usual spellings.

    Known are the given keys, and the values of environment variables whose names suggest one. Of
    the latter only those count in pieces that look like a key.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        known = {
            key: True
            for key in (SCHEME.sub("", one.strip()) for one in keys)
            if len(key) >= MIN_LENGTH and key.lower() not in _PLACEHOLDERS
        }
        for name, value in os.environ.items():
            least = MIN_WORD_LENGTH if value.isalpha() else MIN_VARIABLE_LENGTH
            if is_secret(name) and len(value) >= least:
                known.setdefault(value, bool(_KEY_LIKE.fullmatch(value)))
        forms = {
            (form.translate(_FOLDED), least)
            for key, in_pieces in known.items()
            for form, piece in _forms(key).items()
            for least in (len(form), piece if in_pieces else len(form))
        }
        # whole forms first, the longest of them: a piece of one may be a piece of another one, too
        self._forms = sorted(forms, key=lambda one: (-one[1], -len(one[0])))

    def text(self, text: str) -> str:
        """Return a text without known keys."""
        for form, least in self._forms:
            text = _without(text, form, least)
            text = _without(text[::-1], form[::-1], least)[::-1]
        return text

    def excerpt(self, text: str, length: int) -> str:
        """Return the beginning of a text, or the end if `length` is negative.

        It is cut after its keys are hidden: of a key that was cut before, a part would stay.
        """
        if length < 0:
            return self.text(text.strip()[-QUOTED:])[length:]
        return self.text(text.strip()[:QUOTED])[:length]

    def values(self, value: Any) -> Any:
        """Return nested values without known keys, in names too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.values(name): self.values(inner) for name, inner in value.items()}
        return [*map(self.values, value)] if isinstance(value, (list, tuple)) else value


_FOLDED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _without(text: str, form: str, least: int) -> str:
    """Return a text with `***` for the form, and for its beginning from `least` characters on."""
    folded, parts, end = text.translate(_FOLDED), list[str](), 0
    while (at := folded.find(form[:least], end)) >= 0:
        parts += [text[end:at], HIDDEN]
        end = at + len(commonprefix([form, folded[at : at + len(form)]]))  # noqa: RUF071
    return "".join([*parts, text[end:]])


def _forms(key: str) -> dict[str, int]:
    """Return a key as addresses, headers, JSON and Python may spell it, and its least piece."""
    plain = key.encode("utf-8", "replace").decode()  # a variable may hold any bytes
    escaped, quoted = json.dumps(plain)[1:-1], quote(plain, safe="")
    forms = {
        key, quote(plain), quoted, quote(quoted), quote_plus(plain), escaped,
        escaped.replace("/", "\\/"), json.dumps(plain, ensure_ascii=False)[1:-1],
        json.dumps(escaped)[1:-1], repr(plain)[1:-1], repr(plain.encode())[2:-1],
        b64encode(plain.encode()).decode().rstrip("="),
    }  # fmt: skip
    return dict.fromkeys(forms, PIECE) | {"".join(f"\\u{ord(one):04x}" for one in key): 6 * PIECE}


@contextmanager
def redacted_logs(redactor: Redactor) -> Iterator[None]:
    """Keep keys out of what any library logs meanwhile, at any level.

    Records are changed as they are made: a logger's filter misses the loggers below it, a
    handler's filter the handlers to come.
    """
    earlier = logging.getLogRecordFactory()

    def redacted(*values: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = earlier(*values, **more)
        with suppress(Exception):  # arguments that fit no message: logging itself reports them
            text = record.getMessage()
            if (shown := redactor.text(text)) != text:
                record.msg, record.args = shown, ()
            if record.exc_info and record.exc_info[0] is not None:
                raised = "".join(traceback.format_exception(*record.exc_info))
                record.exc_text, record.exc_info = redactor.text(raised.rstrip("\n")), None
        return record

    logging.setLogRecordFactory(redacted)
    try:
        yield
    finally:  # under a factory that was set meanwhile it stays
        if logging.getLogRecordFactory() is redacted:
            logging.setLogRecordFactory(earlier)


# Waiting


def retry_after(value: str | None) -> float | None:
    """Return the seconds to wait; None where no number is stated."""
    return float(value) if value and re.fullmatch(r"\d+(\.\d+)?|inf", value) else None


@contextmanager
def progress_bar(
    total: int, what: str, unit: str, shown: bool | None, **options: Any
) -> Iterator[Any]:
    """Yield a bar of tqdm's, with `update` and `set_postfix_str`.

    Without tqdm nothing is shown, and nothing fails. `shown=None` shows it on a terminal only.
    """
    try:
        tqdm = import_module("tqdm.auto" if shown else "tqdm").tqdm
    except ImportError:
        yield SimpleNamespace(update=lambda: None, set_postfix_str=lambda text, **more: None)
        return

    class Bar(tqdm):  # type: ignore[misc,valid-type]
        monitor_interval = 0  # its thread would outlive the bar

    disable = None if shown is None else not shown
    with Bar(
        total=total, desc=visible(what), unit=unit, disable=disable, miniters=1, **options
    ) as bar:
        yield bar

"""Secrets: find them by the names of fields, and keep them out of files, logs and messages.

In: nested values, texts, addresses, command lines. Out: the same without secrets. Imports the
standard library only.
"""

import base64
import json
import os
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit, urlunsplit

HIDDEN = "***"
# A shorter secret would be redacted in texts that contain it by chance. The values of variables
# need more: AUTH=none and X_TOKEN=disabled hold no secret.
MIN_LENGTH, MIN_VARIABLE_LENGTH, MIN_WORD_LENGTH = 4, 8, 16
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
            r"(?i)([\w-]*(?:api[_-]?key|token|secret|password|passwd|signature)"
            r"[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*)[^\s\"'&,;}]{4,}"
        ),
        rf"\1{HIDDEN}",
    ),
]
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
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = [
        (name, HIDDEN if is_secret(name) else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(netloc=host, query=urlencode(query, safe="*")))


class Redactor:
    """Replaces every known secret in texts by `***`.

    Known are the given secrets, and the values of environment variables whose names suggest one.
    """

    def __init__(
        self, secrets: Iterable[str] = (), environment: dict[str, str] | None = None
    ) -> None:
        variables = os.environ if environment is None else environment
        known = {secret for secret in secrets if len(secret) >= MIN_LENGTH}
        known |= {
            value
            for name, value in variables.items()
            if is_secret(name)
            and len(value) >= (MIN_WORD_LENGTH if value.isalpha() else MIN_VARIABLE_LENGTH)
        }
        forms = {form for secret in known for form in _forms(secret)}
        longest_first = sorted(forms, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def text(self, text: str) -> str:
        """Return a text without known secrets."""
        return text if self.pattern is None else self.pattern.sub(HIDDEN, text)

    def message(self, text: str) -> str:
        """Return a message or log line without known secrets and texts that look like one."""
        text = self.text(text)
        for pattern, shown in _PATTERNS:
            text = pattern.sub(shown, text)
        return text

    def values(self, value: Any) -> Any:
        """Return nested values without known secrets, in keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key) if isinstance(key, str) else key: self.values(inner)
                for key, inner in value.items()
            }
        return [self.values(part) for part in value] if isinstance(value, (list, tuple)) else value

    def config(self, value: Any) -> Any:
        """Return a snapshot without known, named or probable secrets.

        Named are texts in fields and command options whose name suggests a secret. Probable are
        texts that look like a key.
        """
        return self._messages(hidden(value))

    def _messages(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(str(key)): self._messages(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._messages(part) for part in value]
        return self.message(value) if isinstance(value, str) else value


def hidden(value: Any) -> Any:
    """Return nested values without texts in fields and command options that may be secret."""
    if isinstance(value, dict):
        return {
            key: HIDDEN
            if isinstance(inner, str) and inner and is_secret(str(key))
            else hidden(inner)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        is_command = all(isinstance(part, str) for part in value)
        return [hidden(part) for part in (_hidden_options(value) if is_command else value)]
    return value


def secrets_in(value: Any) -> list[str]:
    """Return the texts that `hidden` hides."""
    if isinstance(value, dict):
        own = [text for key, text in value.items() if isinstance(text, str) and is_secret(str(key))]
        return own + [secret for inner in value.values() for secret in secrets_in(inner)]
    if not isinstance(value, (list, tuple)):
        return []
    found = []
    texts = [part for part in value if isinstance(part, str)]
    for text, shown in zip(texts, _hidden_options(texts), strict=True):
        if text != shown:
            option = _OPTION.match(text) or _ASSIGNED.match(text)
            found.append(option[2] if option and option[2] else text)
    return found + [
        secret for part in value if not isinstance(part, str) for secret in secrets_in(part)
    ]


def _hidden_options(arguments: Iterable[str]) -> list[str]:
    """Return a command's arguments with `***` for x in `--token x`, `--token=x` and `TOKEN=x`."""
    shown: list[str] = []
    is_value = False
    for argument in arguments:
        option, assigned = _OPTION.match(argument), _ASSIGNED.match(argument)
        matches = (match for match in (option, assigned) if match and is_secret(match[1]))
        secret = next(matches, None)
        if is_value and not option:
            shown.append(HIDDEN)
        elif secret is not None and secret[2]:
            shown.append(argument[: secret.start(2)] + HIDDEN)
        else:
            shown.append(argument)
        is_value = option is not None and secret is option and option[2] is None
    return shown


def _forms(secret: str) -> set[str]:
    """Return a secret as it may appear in a file: plain, in an address, in JSON, in base64."""
    encoded = base64.b64encode(secret.encode()).decode()
    return {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        encoded.rstrip("="),
    }

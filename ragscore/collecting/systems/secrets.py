"""What may hold a key, by its name, and texts without the keys in them."""

import base64
import json
import os
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit, urlunsplit

HIDDEN = "***"
SHORTEST = 4  # a given secret that is shorter would blacken texts that only happen to hold it
# so would the value of a variable such as AUTH=none or X_TOKEN=disabled
SHORTEST_VARIABLE, SHORTEST_WORD = 8, 16
_WORDS = frozenset(
    "token secret secrets password passwd passphrase pwd apikey apitoken accesskey authorization"
    " auth credential credentials cookie signature sig bearer jwt".split()
)
_PAIRS = frozenset(
    (
        ("api", "key"),
        ("access", "key"),
        ("private", "key"),
        ("secret", "key"),
        ("auth", "key"),
        ("account", "key"),
        ("subscription", "key"),
    )
)
_PATTERNS = [
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {HIDDEN}"),
    (
        re.compile(
            r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bhf_[A-Za-z0-9]{20,}|\bAKIA[A-Z0-9]{16}\b|\bxox[a-z]-[A-Za-z0-9-]{10,}"
        ),
        HIDDEN,
    ),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
    (re.compile(r"(?<=://)[^\s/@'\"]+(?=@)"), HIDDEN),
    (
        re.compile(
            r"(?i)([\w-]*(?:api[_-]?key|token|secret|password|passwd|signature)[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*)[^\s\"'&,;}]{4,}"
        ),
        rf"\1{HIDDEN}",
    ),
]
_OPTION = re.compile(r"^-{1,2}([\w-]+)(?:=(.*))?$", re.DOTALL)
_ASSIGNED = re.compile(r"^(\w+)=(.*)$", re.DOTALL)


def is_secret(name: str) -> bool:
    """Whether a field, header, parameter or variable of this name may hold a key.

    `api_key`, `X-Auth-Token`; not `max_tokens`, `tokenizer`.
    """
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    parts = re.split(r"[^a-z0-9]+", words)
    return bool(_WORDS & set(parts)) or any(pair in _PAIRS for pair in pairwise(parts))


def hidden_url(url: str) -> str:
    """An address without user, password and the values of parameters that may be keys."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = [
        (name, HIDDEN if is_secret(name) else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(netloc=host, query=urlencode(query, safe="*")))


class Redactor:
    """Texts with every known secret blacked out.

    Those that were given, and what the environment holds under a telling name.
    """

    def __init__(
        self, secrets: Iterable[str] = (), environment: dict[str, str] | None = None
    ) -> None:
        variables = os.environ if environment is None else environment
        known = {one for one in secrets if len(one) >= SHORTEST}
        known |= {
            value
            for name, value in variables.items()
            if is_secret(name)
            and len(value) >= (SHORTEST_WORD if value.isalpha() else SHORTEST_VARIABLE)
        }
        forms = {form for one in known for form in _forms(one)}
        self.pattern = (
            re.compile("|".join(re.escape(one) for one in sorted(forms, key=len, reverse=True)))
            if forms
            else None
        )

    def text(self, text: str) -> str:
        """The text without known secrets; all else as it was."""
        return text if self.pattern is None else self.pattern.sub(HIDDEN, text)

    def message(self, text: str) -> str:
        """An error message or a line of a log: also without what only looks like a key."""
        text = self.text(text)
        for pattern, shown in _PATTERNS:
            text = pattern.sub(shown, text)
        return text

    def values(self, value: Any) -> Any:
        """Nested values without known secrets, in keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key) if isinstance(key, str) else key: self.values(one)
                for key, one in value.items()
            }
        return [self.values(one) for one in value] if isinstance(value, (list, tuple)) else value

    def config(self, value: Any) -> Any:
        """A snapshot.

        Also without the texts of fields and options whose name tells, and without what only looks
        like a key.
        """
        return self._messages(hidden(value))

    def _messages(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(str(key)): self._messages(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._messages(one) for one in value]
        return self.message(value) if isinstance(value, str) else value


def hidden(value: Any) -> Any:
    """Nested values without the texts of fields whose name tells that they are secret, and of such options of a command."""
    if isinstance(value, dict):
        return {
            key: HIDDEN if isinstance(one, str) and one and is_secret(str(key)) else hidden(one)
            for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            hidden(one)
            for one in (
                _without_options(value) if all(isinstance(one, str) for one in value) else value
            )
        ]
    return value


def secrets_in(value: Any) -> list[str]:
    """The texts of a snapshot's fields whose name tells that they are secret, and of such options of a command."""
    if isinstance(value, dict):
        held = [one for key, one in value.items() if isinstance(one, str) and is_secret(str(key))]
        return held + [found for one in value.values() for found in secrets_in(one)]
    if isinstance(value, (list, tuple)):
        texts = [one for one in value if isinstance(one, str)]
        hidden = zip(texts, _without_options(texts), strict=True)
        return [_held(one) for one, shown in hidden if one != shown] + [
            found for one in value if not isinstance(one, str) for found in secrets_in(one)
        ]
    return []


def _held(argument: str) -> str:
    found = _OPTION.match(argument) or _ASSIGNED.match(argument)
    return found[2] if found and found[2] else argument


def _without_options(arguments: Iterable[str]) -> list[str]:
    """A command's arguments, `--token x`, `--token=x` and `TOKEN=x` without x."""
    shown: list[str] = []
    is_next = False
    for one in arguments:
        option, assigned = _OPTION.match(one), _ASSIGNED.match(one)
        telling = next(
            (found for found in (option, assigned) if found and is_secret(found[1])), None
        )
        if is_next and not option:
            shown.append(HIDDEN)
        elif telling is not None and telling[2]:
            shown.append(one[: telling.start(2)] + HIDDEN)
        else:
            shown.append(one)
        is_next = option is not None and telling is option and option[2] is None
    return shown


def _forms(secret: str) -> set[str]:
    """A secret as it may stand in a file: as it is, as part of an address, within JSON, in base64."""
    coded = base64.b64encode(secret.encode()).decode()
    return {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        coded.rstrip("="),
    }

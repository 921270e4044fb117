"""What `run.json` and `metrics.json` hold: one schema each, checked when read.

Whoever knows how a store seals its files can write anything into them. So whatever is taken out of
one later was checked here, once. In: the content, as JSON gives it. Out: nothing, or an error that
names file, field, what was found and what is allowed.

A field is one line. Those that end in `?` may be missing, and fields that aren't listed are passed:
in `run.json` they are those of the runs frame, which `run_record` checks, and columns of your own.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.file_content import is_too_long
from ragscore.io.source import describe
from ragscore.scoring.own import DECLARED, from_plain
from ragscore.scoring.policies import policies_of
from ragscore.scoring.readings import find_reading
from ragscore.scoring.summary import STATISTICS
from ragscore.scoring.targets import LEVELS
from ragscore.store.places import Place

FILE_NAME = re.compile(r"[a-z_]+-[0-9a-f]{12}\.(parquet|json)")
TEXTS = ("cut", "full", "none")


@dataclass(frozen=True)
class One:
    """A value: what is allowed, in words, and a test."""

    allowed: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True)
class Each:
    """An object of any names, or a list, of values that all are alike."""

    inner: "Shape"
    of: type = dict


class Fields:
    """An object of these fields; those that end in `?` may be missing."""

    def __init__(self, fields: dict[str, "Shape"]) -> None:
        self.known = {name.removesuffix("?"): one for name, one in fields.items()}
        self.required = [name for name in fields if not name.endswith("?")]


Shape = One | Each | Fields


def _choice(*values: str) -> One:
    return One(f"one of {', '.join(values)}", lambda one: isinstance(one, str) and one in values)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not is_too_long(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value) is not None


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _passes(check: Callable[[Any], Any], value: Any) -> bool:
    try:
        check(value)
    except (DataError, TypeError):
        return False
    return True


def _or_null(one: One) -> One:
    return One(f"{one.allowed}, or null", lambda value: value is None or one.fits(value))


TEXT = One("text", _is_text)
BOOLEAN = One("true or false", lambda value: isinstance(value, bool))
NUMBER = One("a number", _is_number)
SETTING = One(
    "text, a number, true or false",
    lambda value: isinstance(value, bool) or _is_number(value) or _is_text(value),
)
COUNT = One("a whole number from 0", lambda value: type(value) is int and 0 <= value < 2**63)
VERSION = One(
    "a whole number from 0, or a hash", lambda value: _is_hash(value) or COUNT.fits(value)
)
ID = One("text that isn't empty", lambda value: _is_text(value) and value != "")
TIME = One("a time such as 2026-01-31T09:30:00Z", _is_time)
POLICIES = One(
    "policies of rs.score, with values that they can have",
    lambda value: isinstance(value, dict) and _passes(lambda one: policies_of(None, one), value),
)
PROFILE = One("the name of a profile, or null", lambda value: _passes(find_reading, value))
DECLARATIONS = One(
    "direction and range of columns by name, as ev.with_columns takes them",
    lambda value: _passes(from_plain, value),
)
FILES = Fields({
    "files": Each(Fields({
        "name": One(
            "the name of a file as the store writes it",
            lambda value: isinstance(value, str) and FILE_NAME.fullmatch(value) is not None,
        ),
        "size": COUNT,
        "crc32": One(
            "eight hex digits a block",
            lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]*", value) is not None,
        ),
    })),
    "superseded?": Each(TIME),
    "saved_at?": TIME,
})  # fmt: skip
PROVENANCE = Fields(
    {
        "golden": TEXT,
        "rule?": TEXT,
        "policies?": Each(SETTING),
        "metric_versions?": Each(VERSION),
        "judge_fingerprint?": Each(Each(Each(SETTING), list)),
        "fields?": Each(_or_null(BOOLEAN)),
    }
)
SCORING = Fields(
    {
        "level": _choice(*LEVELS, "per_query"),
        "golden_hash": TEXT,
        "rule": TEXT,
        "n_expected?": COUNT,
        "left_out?": _or_null(TEXT),
        "chunker_version_match?": _or_null(TEXT),
        "match": TEXT,
        "policies": POLICIES,
        "profile": PROFILE,
        "primary?": Each(TEXT, list),
        "provenance": PROVENANCE,
        f"{DECLARED}?": DECLARATIONS,
    }
)
RUN_JSON = Fields(
    {
        "run_id": ID,
        "text?": _choice(*TEXTS),
        "scoring?": SCORING,
        "ragscore": FILES,
    }
)
NAMES_FILES = Fields({"ragscore": FILES})
STATISTIC = Fields(
    {
        **dict.fromkeys([f"{name}?" for name in STATISTICS], _or_null(NUMBER)),
    }
)
METRICS_JSON = Fields({"run_id": ID, "metrics": Each(STATISTIC)})


def check_content(content: Any, shape: Shape, file: Place | str) -> None:
    """Refuse content of another shape.

    Raises
    ------
    DataError
        It names the first field that doesn't fit.
    """
    misfit = _misfit(content, shape)
    if misfit is not None:
        path, found, allowed = misfit
        raise DataError(
            found, file=str(file), field=".".join(reversed(path)) or None, allowed=allowed
        )


def _misfit(value: Any, shape: Shape) -> tuple[list[str], str, str] | None:
    """Return the path of the first field that doesn't fit, innermost name first, and why."""
    if isinstance(shape, One):
        return None if shape.fits(value) else ([], f"found {describe(value)}", shape.allowed)
    if isinstance(shape, Each) and shape.of is list:
        if not isinstance(value, list):
            return [], f"found {describe(value)}", "a list"
        value = dict(enumerate(value))
    elif not isinstance(value, dict):
        return [], f"found {describe(value)}", "an object"
    if isinstance(shape, Fields):
        for name in shape.required:
            if name not in value:
                return [name], "the field is missing", "a file as the store writes it"
        for name, one in shape.known.items():
            if name in value and (found := _misfit(value[name], one)) is not None:
                return [*found[0], name], *found[1:]
        return None
    for key, inner in value.items():
        if (found := _misfit(inner, shape.inner)) is not None:
            return [*found[0], str(key)], *found[1:]
    return None

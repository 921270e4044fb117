"""The table of frames in concepts/data-model.md, made from the kinds of frames themselves."""

from ragscore.frames.kinds import KINDS
from tests.manual import NOTEBOOKS
from tests.manual.reference import PART, table

PAGE = NOTEBOOKS / "concepts" / "data-model.md"


def text() -> str:
    """Return the page with its table as it should be."""
    return PART.sub(
        lambda part: f"{part[1]}\n{frames()}\n\n{part[3]}", PAGE.read_text(encoding="utf-8")
    )


def frames() -> str:
    """Return one row per kind of frame: its key, and its other columns."""
    return table(
        ("frame", "key", "other columns"),
        [
            (f"`{name}`", ", ".join(f"`{one}`" for one in kind.key) or "none", _others(name))
            for name, kind in KINDS.items()
        ],
    )


def _others(name: str) -> str:
    kind = KINDS[name]
    always = [f"`{one}`" for one in kind.required if one not in kind.key]
    sometimes = [f"`{one}`" for one in kind.optional]
    open_ended = [f"`{prefix}*`" for prefix in kind.open_prefixes]
    in_brackets = ", ".join([*sometimes, *open_ended])
    return ", ".join(always + ([f"({in_brackets})"] if in_brackets else []))

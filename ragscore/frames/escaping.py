"""How texts of files and models leave: shown as they are, and never followed.

In: any text. Out: the same text for a terminal, HTML, Markdown or JSON. Every `repr`,
notebook form, page and command goes through these functions, so that none has a rule of its own.
"""

import json
import re
from typing import Any

# What a terminal, a browser or an editor follows instead of showing it: C0 and C1 controls but
# newline and tab, breaks of lines that few know, marks that turn the direction of writing, and
# code points that no UTF-8 or XML can hold. Joiners stay: scripts and emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
    "\ufffe\uffff]"
)
# `_` inside a word opens nothing, and names of metrics are full of it
_MARKUP = re.compile(
    r"[\\`*$]|~(?=~)|(?<=~)~|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|:(?=//)|(?<=www)\.",
    re.IGNORECASE,
)
_BLOCK = re.compile(r"(\d{1,9}(?=[.)](?:\s|$))|(?=[-+=](?:[-+=\s]|$)|#{1,6}(?:\s|$)|[>|~:%]))")


def visible(text: str) -> str:
    r"""Return a text with what would control a terminal or turn the writing shown as `\u001b`."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def html_text(text: object) -> str:
    """Return a text for HTML, inside an element or a quoted attribute."""
    from html import escape

    return escape(visible(str(text)))


def markdown_line(text: object) -> str:
    """Return a text as one line of Markdown in which nothing opens: no tag, link, image or code.

    Addresses are no links either: a renderer would make them so.
    """
    line = visible(" ".join(str(text).split())).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKUP.sub(lambda found: "\\" + found[0], line)


def markdown_paragraph(text: object) -> str:
    """Return a text as a paragraph or an item of a list: no heading, list or rule begins in it."""
    line = markdown_line(text)
    return _BLOCK.sub(r"\1\\", line, count=1) if _BLOCK.match(line) else line


class Markdown(str):
    """A text that is Markdown already, made by `markdown_code`."""


def markdown_cell(text: object) -> str:
    """Return a text, or code, for the cell of a Markdown table."""
    if isinstance(text, Markdown):  # a backslash before a pipe would be read as its escape
        return text.replace("\\|", "\\ |").replace("|", "\\|")
    return markdown_line(text).replace("|", "\\|")


def markdown_code(text: str) -> Markdown:
    """Return a text as code within a line; its quotes are longer than any in the text."""
    line = visible(" ".join(text.split()))
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    quote, space = "`" * (longest + 1), " " * bool(longest)
    return Markdown(f"{quote}{space}{line}{space}{quote}")


def json_text(content: Any, **options: Any) -> str:
    """Return content as strict JSON that any file, terminal or script can hold.

    NaN is refused. Characters that are no text become escapes, which reload into the same.
    """
    return visible(json.dumps(content, ensure_ascii=False, allow_nan=False, **options))

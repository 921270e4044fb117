"""The explorer as HTML: an element of a page, a page of its own, or the frame of a notebook.

In: the content that `data` made. Out: text. Style and script are inside and nothing is loaded. The
content is packed into the element (gzip, base64), so that no text of it is ever HTML. Equal
content gives equal bytes: names of elements are hashes of it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ragscore.frames.escaping import html_text

HEIGHT = 640  # pixels of the frame in a notebook
SCRIPTS = ("passages.js", "seeking.js", "explorer.js", "mount.js")


@dataclass(frozen=True)
class Mounted:
    """The parts of an explorer in a page, which writes style and script once.

    `name` is the id of the element. The script starts every explorer before it.
    """

    html: str
    style: str
    script: str
    name: str


def pack(content: dict[str, Any]) -> str:
    """Return the content as JSON in gzip in base64: equal content, equal bytes."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = text.encode("utf-8", "backslashreplace")  # half a character as JSON writes it
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


def element(
    packed: str, *, link: str = "hash", code: str = "cmp",
    state: dict[str, Any] | None = None, plain: str = "",
) -> Mounted:  # fmt: skip
    """Return the explorer as an element of a page.

    Parameters
    ----------
    packed
        What `data` made, as `pack` gives it.
    link
        "hash": links lead to the page's address; "message": the page around this one
        gets the selection.
    code
        What copied code begins with: cmp or ev.
    state
        What to open with: query, outcome, search.
    plain
        HTML shown until the explorer starts, and where no script runs.
    """
    options = json.dumps({"link": link, "code": code, "theme": "auto", "state": state})
    name = f"x-{hashlib.sha256((packed + options).encode()).hexdigest()[:12]}"
    html = (
        f'<div class="rs-explorer" id="{name}" data-lm-suppress-shortcuts="true"'
        f' data-options="{escape(options)}"><script type="text/plain">{packed}</script>'
        f'<div class="rs-plain">{plain}</div></div>'
    )
    return Mounted(html, _file("explorer.css"), "\n".join(_file(one) for one in SCRIPTS), name)


def page(title: str, body: str, style: str, *scripts: str) -> str:
    """Return a page of its own, which may load nothing and run nothing but these scripts."""
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src {' '.join(map(digest, scripts))};"
        " base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<title>{html_text(title)}</title><style>\n{style}</style></head>\n<body>\n{body}\n"
        + "".join(f"<script>{one}</script>\n" for one in scripts)
        + "</body>\n</html>\n"
    )


def frame(title: str, mounted: Mounted, plain: str) -> str:
    """Return the explorer in a frame without rights, for a notebook.

    Hosts that strip frames show the plain table; a script hides it once the frame has started.
    """
    alone = page(title, mounted.html, mounted.style, mounted.script)
    return (
        f'<div class="rs-output"><iframe data-ragscore="{mounted.name}" title="{html_text(title)}"'
        ' sandbox="allow-scripts" allow="clipboard-write" style="width:100%;border:0;'
        f'height:{HEIGHT}px;resize:vertical" srcdoc="{escape(alone)}"></iframe>'
        f'<div class="rs-plain">{plain}</div><script>{_file("frame.js")}</script></div>'
    )


def digest(script: str) -> str:
    """Return the hash of a script, quoted as a policy has it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")

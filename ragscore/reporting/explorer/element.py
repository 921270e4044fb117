"""The explorer as HTML: an element of a page, a page of its own, or the frame of a notebook.

In: the content that `data` made. Out: text. Style and script are inside and nothing is loaded. The
content stands packed in the element (gzip, base64), so that no text of it is ever HTML. Equal
content gives equal bytes: names of elements are hashes of it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragscore.frames.escaping import html_source, html_text

HEIGHT = 640  # pixels of the frame in a notebook
LARGE = 3_000_000  # characters of JSON up to which a page unpacks all of it at once
SIZED = 500  # queries by which the size of more is told
PART = 1_000_000  # characters of a part of more, which a page unpacks within a frame or two
DETAILS = ("hits", "targets", "answers", "citations", "checks", "calls", "judgments")
SCRIPTS = ("passages.js", "seeking.js", "shares.js", "explorer.js", "mount.js")


@dataclass(frozen=True)
class Mounted:
    """The parts of an explorer in a page, which writes style and script once.

    `name` is the id of the element. `policy` is what the page's Content-Security-Policy must allow
    beside its own scripts: `script-src 'sha256-…'`. The script starts every explorer before it.
    """

    html: str
    style: str
    script: str
    name: str


def pack(content: dict[str, Any]) -> str:
    """Return the content as JSON in gzip in base64: equal content, equal bytes.

    Large content is several lines of it: first what the list shows, then blocks of items, then
    the details of blocks of queries, which a page unpacks when they are needed.
    """
    is_many = "hits" in content and len(content["queries"]["id"]) > SIZED
    text = "" if is_many else _json(content)
    size = _size(content) if is_many else len(text)
    if size <= LARGE or "hits" not in content:
        return _packed(text or _json(content))
    texts = map(_json, _parts(content, math.ceil(size / PART)))
    with ThreadPoolExecutor() as pool:  # each is packed while the next is written
        return "\n".join(pool.map(_packed, texts))


def _size(content: dict[str, Any]) -> float:
    """Estimate how many characters of JSON the details and items have, from a sample."""
    details, items = [content[name] for name in DETAILS if name in content], content["items"]

    def share_of(n: int, cut: Callable[[int, int], list[Any]]) -> float:
        spans = [(at, min(at + SIZED // 5, n)) for at, _ in _blocks(max(n - SIZED // 5, 1), 5)]
        texts = [cut(*span) for span in spans]
        return len(_json(texts)) * n / max(sum(end - begin for begin, end in spans), 1)

    return share_of(
        len(content["queries"]["id"]), lambda *span: [_cut(one, *span) for one in details]
    ) + share_of(len(items["id"]), lambda *span: [one[slice(*span)] for one in items.values()])


def _json(content: dict[str, Any] | list[Any]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _packed(text: str) -> str:
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a character is shown as one that is unknown
        data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


def _parts(content: dict[str, Any], n: int) -> Iterator[dict[str, Any]]:
    """Yield the content without details, then its items and its details in about n parts each."""
    n_queries = len(content["queries"]["id"])
    items = content["items"]
    blocks = [*_blocks(len(items["id"]), n)]
    cuts = [*_blocks(n_queries, n)]
    core = {name: part for name, part in content.items() if name not in (*DETAILS, "items")}
    core["parts"] = {"items": len(blocks), "from": [begin for begin, _ in cuts] or [0]}
    core["hits"] = {"kind": content["hits"]["kind"]}
    core["answers"] = {k: v for k, v in content["answers"].items() if k == "error"}
    yield core
    for begin, end in blocks:
        yield {name: values[begin:end] for name, values in items.items()}
    for begin, end in cuts:
        yield {name: _cut(content[name], begin, end) for name in DETAILS if name in content}


def _blocks(n_rows: int, n: int) -> Iterator[tuple[int, int]]:
    step = max(1, math.ceil(n_rows / n))
    return ((begin, min(begin + step, n_rows)) for begin in range(0, n_rows, step))


def _cut(table: dict[str, Any], begin: int, end: int) -> dict[str, Any]:
    """Return the rows of some queries; a column is one list, or one for each run."""
    start = table.get("start")
    if start is None:  # a row per query
        return {
            name: values[begin:end] if name == "reference" else [one[begin:end] for one in values]
            for name, values in table.items()
        }
    is_nested = bool(start) and isinstance(start[0], list)
    found: dict[str, Any] = {}
    for name, values in table.items():
        if name == "kind" and is_nested:  # of a run's scores
            continue
        own = values if is_nested or name in ("rank", "call", "met") else [values]
        at = start if is_nested else [start] * len(own)
        cut = [
            [place - row[begin] for place in row[begin : end + 1]]
            if name == "start"
            else column[row[begin] : row[end]]
            for column, row in zip(own, at, strict=True)
        ]
        found[name] = cut if own is values else cut[0]
    return found


def element(
    content: dict[str, Any] | str, *, link: str | None = "hash", code: str = "cmp",
    state: dict[str, Any] | None = None, label: bool = False, plain: str = "",
) -> Mounted:  # fmt: skip
    """Return the explorer as an element of a page.

    Parameters
    ----------
    content
        What `data` made, or the same packed.
    link
        "hash": links lead to the page's address; "message": the selection is told to the page
        around this one; None: neither.
    code
        What copied code begins with: cmp or ev.
    state
        What to open with: query, outcome, search, run.
    label
        Offer a button that asks Python to label.
    plain
        HTML that stands there until the explorer starts, and where no script runs.
    """
    packed = content if isinstance(content, str) else pack(content)
    options = json.dumps(
        {"link": link, "code": code, "theme": "auto", "label": label, "state": state}
    )
    name = token(packed + options)
    html = (
        f'<div class="rs-explorer" id="{name}" data-lm-suppress-shortcuts="true"'
        f' data-options="{html_source(options)}"><script type="text/plain">{packed}</script>'
        f'<div class="rs-plain">{plain}</div></div>'
    )
    return Mounted(html, _file("explorer.css"), "\n".join(_file(one) for one in SCRIPTS), name)


def page(title: str, mounted: Mounted) -> str:
    """Return a page of its own with the explorer in it; it may load nothing."""
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src {digest(mounted.script)};"
        " base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<title>{html_text(title)}</title><style>\n{mounted.style}</style></head>\n"
        f"<body>\n{mounted.html}\n<script>{mounted.script}</script>\n</body>\n</html>\n"
    )


def frame(title: str, mounted: Mounted, plain: str) -> str:
    """Return the explorer in a frame without rights, for a notebook.

    Hosts that strip frames show the plain table; a script hides it once the frame has started.
    """
    return (
        f'<div class="rs-output"><iframe data-ragscore="{mounted.name}" title="{html_text(title)}"'
        ' sandbox="allow-scripts" allow="clipboard-write" style="width:100%;border:0;'
        f'height:{HEIGHT}px;resize:vertical" srcdoc="{html_source(page(title, mounted))}"></iframe>'
        f'<div class="rs-plain">{plain}</div><script>{_file("frame.js")}</script></div>'
    )


def digest(script: str) -> str:
    """Return the hash of a script, quoted as a policy has it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def token(text: str) -> str:
    """Return a name for an element: a hash of its content."""
    return f"x-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")

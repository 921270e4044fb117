"""The demo's corpus: manuals that are on the machine anyway, as documents and passages.

In: the installed Python, numpy, pandas and matplotlib. Out: two frames, `documents` and `chunks`. A
document is one docstring (or one topic of the language reference); a passage is a piece of its
lead, Parameters or Notes, at most 900 characters long (or another size), cut between lines and
prefixed with the document's name.
"""

import importlib
import inspect
import platform
import pydoc_data.topics
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

SCHEME = "docstring-sections@1"
MAX_CHARS = 900  # of a passage; another size gives other passage ids and another chunker version
MIN_CHARS = 120  # shorter docstrings ("Refer to numpy.sum ...") answer nothing
KEPT_SECTIONS = ("lead", "Parameters", "Notes")

# Where public names live, best name first: the first name under which a docstring appears is its
# canonical one.
NAMESPACES = {
    "numpy": ["numpy", "numpy.linalg", "numpy.fft", "numpy.random.Generator", "numpy.ndarray"],
    "pandas": [
        "pandas", "pandas.DataFrame", "pandas.Series", "pandas.Series.str", "pandas.Series.dt",
        "pandas.Series.cat", "pandas.DataFrame.plot",
        "pandas.Index", "pandas.api.typing.DataFrameGroupBy", "pandas.api.typing.Rolling",
        "pandas.api.typing.Resampler",
    ],
    "matplotlib": [
        "matplotlib", "matplotlib.axes.Axes", "matplotlib.figure.Figure", "matplotlib.pyplot",
        "matplotlib.colors", "matplotlib.ticker", "matplotlib.dates",
        "matplotlib.animation", "matplotlib.gridspec", "matplotlib.style",
    ],
}  # fmt: skip
# scipy, once imported, writes a section into the docstring of numpy.sinc: the corpus must not
# depend on what else a process has loaded.
ADDED_BY_SCIPY = re.compile(
    r"\n\*\*Array API Standard Support\*\*\n.*?(?=\n[A-Z][a-z]+\n-{4,}\n|\Z)", re.DOTALL
)
UMBRELLA_TOPICS = {"compound", "specialnames"}  # they only repeat the text of other topics


def build_corpus(max_chars: int = MAX_CHARS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every manual entry found on this machine, as documents and passages.

    Parameters
    ----------
    max_chars
        The size of a passage; with another one than today's, passage ids end in `@<size>`: they
        stand for other lines.

    Returns
    -------
    documents
        One row per document: doc_id (canonical qualified name), library, summary, text.
    chunks
        One row per passage, in document order: chunk_id (`doc_id#section` or `doc_id#section.N`),
        doc_id, path, heading, start, end (lines of the document, half-open), span_unit, text
        (prefixed with the name), doc_type.
    """
    documents = pd.DataFrame(list(_documents()), columns=["doc_id", "library", "text"])
    # The same docstring under several names is one document.
    documents = documents.drop_duplicates("text").drop_duplicates("doc_id").reset_index(drop=True)
    documents["summary"] = documents["text"].str.split("\n\n").str[0].str.replace("\n", " ")
    pieces = [piece for row in documents.to_dict("records") for piece in _passages(row, max_chars)]
    return documents, pd.DataFrame(pieces)


def chunker_version(max_chars: int = MAX_CHARS) -> str:
    """The passage scheme, its size if it isn't today's, and the versions of what it was applied to.

    Chunk ids hold within one of these.
    """
    versions = [f"{name}{importlib.import_module(name).__version__}" for name in NAMESPACES]
    return "+".join(
        [
            SCHEME + _size(max_chars),
            f"python{'.'.join(platform.python_version_tuple()[:2])}",
            *versions,
        ]
    )


def _size(max_chars: int) -> str:
    return "" if max_chars == MAX_CHARS else f"@{max_chars}"


def _documents() -> Iterator[tuple[str, str, str]]:
    for topic, reference in sorted(pydoc_data.topics.topics.items()):
        if topic not in UMBRELLA_TOPICS:
            yield f"python.{topic}", "python", reference.strip()
    for library, namespaces in NAMESPACES.items():
        for namespace in namespaces:
            for name, member in _public_members(namespace):
                qualified = f"{namespace}.{name}"
                text = _own_text(member) if _is_documented(member) else None
                if text and len(text) >= MIN_CHARS and not _is_repeated(qualified, library):
                    yield qualified, library, text.strip()


def _resolve(qualified: str) -> object:
    """The object behind a dotted name: the longest importable module, then attributes."""
    parts = qualified.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise ImportError(qualified)


def _public_members(namespace: str) -> Iterator[tuple[str, object]]:
    owner = _resolve(namespace)
    names = getattr(owner, "__all__", None) or dir(owner)
    for name in sorted(name for name in names if not name.startswith("_")):
        try:
            member = (
                inspect.getattr_static(owner, name)
                if inspect.isclass(owner)
                else getattr(owner, name)
            )
        except AttributeError:
            continue
        home = getattr(member, "__module__", None) or ""
        if (
            inspect.isclass(owner)
            or inspect.ismodule(member)
            or home.split(".")[0] in ("", namespace.split(".")[0])
        ):
            yield name, member


def _is_documented(member: object) -> bool:
    """Functions, methods, classes and properties; a constant shows the docstring of its type."""
    if inspect.ismodule(member):
        return False
    return (
        callable(member)
        or isinstance(member, (property, classmethod, staticmethod))
        or inspect.isdatadescriptor(member)
    )


def _own_text(member: object) -> str | None:
    """The docstring; a class that has none of its own doesn't show its parent's."""
    if inspect.isclass(member):
        return inspect.cleandoc(member.__doc__) if isinstance(member.__doc__, str) else None
    text = inspect.getdoc(member)
    return ADDED_BY_SCIPY.sub("", text) if text else text


def _is_repeated(qualified: str, library: str) -> bool:
    """A second entry for the same thing.

    Pyplot's wrappers and re-exports, or a method that the main class has too.
    """
    namespace, _, name = qualified.rpartition(".")
    if namespace == "matplotlib.pyplot":
        owners = [_resolve("matplotlib.axes.Axes"), _resolve("matplotlib.figure.Figure")]
        is_wrapper = any(hasattr(owner, verb + name) for owner in owners for verb in ("", "set_"))
        is_own = getattr(_resolve(qualified), "__module__", "") == namespace
        return is_wrapper or not is_own or name in _resolve("matplotlib.colormaps")  # type: ignore[operator]
    main = {
        "pandas.Series": ["pandas.DataFrame"],
        "pandas.Index": ["pandas.DataFrame", "pandas.Series"],
        "numpy.ndarray": ["numpy"],
    }
    return any(hasattr(_resolve(owner), name) for owner in main.get(namespace, []))


def _sections(lines: list[str]) -> Iterator[tuple[str, int, int]]:
    """Section name and its body's lines [start, end).

    What comes before the first underlined title is the lead.
    """
    marks = [
        i
        for i in range(1, len(lines))
        if re.fullmatch(r"([-=*~^])\1{2,}", lines[i].strip()) and lines[i - 1].strip()
    ]
    bounds = [(lines[i - 1].strip(), i + 1, i - 1) for i in marks]
    yield "lead", 0, bounds[0][2] if bounds else len(lines)
    for n, (title, start, _) in enumerate(bounds):
        yield title, start, bounds[n + 1][2] if n + 1 < len(bounds) else len(lines)


def _passages(document: dict[Any, Any], max_chars: int) -> Iterator[dict[str, object]]:
    lines = document["text"].split("\n")
    is_topic = document["library"] == "python"
    seen: dict[str, int] = {}
    for title, start, end in _sections(lines):
        if not is_topic and title not in KEPT_SECTIONS:
            continue
        section = re.sub(r"\W+", "-", title.lower()).strip("-") or "section"
        for first, last in _pieces(lines, start, end, max_chars - len(document["doc_id"]) - 2):
            seen[section] = seen.get(section, 0) + 1
            suffix = section if seen[section] == 1 else f"{section}.{seen[section]}"
            text = "\n".join(lines[first:last]).strip()
            yield {
                "chunk_id": f"{document['doc_id']}#{suffix}{_size(max_chars)}",
                "doc_id": document["doc_id"], "path": document["doc_id"], "heading": title,
                "start": first + 1, "end": last + 1, "span_unit": "line",
                "text": f"{document['doc_id']}: {text}", "doc_type": document["library"],
            }  # fmt: skip


def _pieces(lines: list[str], start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Runs of lines of at most `limit` characters, broken at a blank line where one is near."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    while start < end:
        stop, size = start, 0
        while stop < end and (size + len(lines[stop]) + 1 <= limit or stop == start):
            size += len(lines[stop]) + 1
            stop += 1
        if stop < end:  # look back for a paragraph's end in the second half of the piece
            blank = next(
                (
                    i
                    for i in range(stop, start + (stop - start) // 2, -1)
                    if not lines[i - 1].strip()
                ),
                None,
            )
            stop = blank or stop
        last = stop
        while last > start and not lines[last - 1].strip():
            last -= 1
        yield start, last
        start = stop
        while start < end and not lines[start].strip():
            start += 1

"""The demo's corpora: the manuals on this machine, and eight passages about the sea.

In: the installed Python, numpy, pandas and matplotlib. Out: two frames, `documents` and `chunks`. A
document is one docstring or one topic of the language reference. A passage is a piece of its lead,
Parameters or Notes, at most 900 characters long, cut between lines and prefixed with its name.

The passages about the sea come with twelve queries, a search and two answerers, for examples that
collect and judge answers offline. `plain` gives the best sentence, or says that it doesn't know;
`chatty` says more, and adds a sentence of its own.
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
MAX_CHARS = 900  # of a passage; another size changes passage ids and the chunker version
MIN_CHARS = 120  # shorter docstrings ("Refer to numpy.sum ...") answer nothing
KEPT_SECTIONS = ("lead", "Parameters", "Notes")

# Where public names are, best name first: the first name of a docstring is its canonical one.
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
# scipy, once imported, adds a section to the docstring of numpy.sinc. The corpus must not depend on
# what a process has imported.
ADDED_BY_SCIPY = re.compile(
    r"\n\*\*Array API Standard Support\*\*\n.*?(?=\n[A-Z][a-z]+\n-{4,}\n|\Z)", re.DOTALL
)
UMBRELLA_TOPICS = {"compound", "specialnames"}  # they only repeat other topics


def build_corpus(max_chars: int = MAX_CHARS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return all entries of the manuals on this machine, as documents and passages.

    Parameters
    ----------
    max_chars
        The size of a passage. With another size than the default, passage ids end in `@<size>`,
        since they mean other lines.

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
    """Return the version of the passages: scheme, size, and versions of the manuals.

    Chunk ids are comparable within one version only.
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
    """Return the object of a dotted name: the longest importable module, then attributes."""
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
    """Return the docstring; a class without its own doesn't inherit one."""
    if inspect.isclass(member):
        return inspect.cleandoc(member.__doc__) if isinstance(member.__doc__, str) else None
    text = inspect.getdoc(member)
    return ADDED_BY_SCIPY.sub("", text) if text else text


def _is_repeated(qualified: str, library: str) -> bool:
    """Tell a second entry for one thing: pyplot's wrappers, or a method of the main class."""
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
    """Yield each section's title and the lines [start, end) of its body.

    The lead is the text before the first underlined title.
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
    """Yield pieces of at most `limit` characters, broken at a blank line if one is near."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    while start < end:
        stop, size = start, 0
        while stop < end and (size + len(lines[stop]) + 1 <= limit or stop == start):
            size += len(lines[stop]) + 1
            stop += 1
        if stop < end:  # look back for the end of a paragraph in the second half of the piece
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


PASSAGES = {
    "tides": (
        "The tides follow the moon. Spring tides come at new moon and at full moon. Neap tides come"
        " a week later."
    ),
    "salt": (
        "Sea water holds about 35 grams of salt in a litre. The Dead Sea holds about ten times as"
        " much."
    ),
    "ice": "Sea ice floats because ice is lighter than water. It forms at about minus 1.8 degrees.",
    "waves": (
        "Waves are made by wind. A wave breaks when the water is shallower than about the height of"
        " the wave."
    ),
    "whales": "Whales breathe air. A sperm whale can dive for more than an hour.",
    "coral": (
        "Corals are animals that live in colonies. They bleach when the water is too warm for"
        " weeks."
    ),
    "depth": (
        "The deepest place of the sea is the Challenger Deep. It lies almost eleven kilometres"
        " under the surface."
    ),
    "current": (
        "The Gulf Stream carries warm water to the north east. It begins in the Gulf of Mexico."
    ),
}
_ASKED = [
    ("When do spring tides come?", "Spring tides come at new moon and at full moon.", "tides"),
    ("When do neap tides come?", "Neap tides come a week after spring tides.", "tides"),
    (
        "How much salt does sea water hold?",
        "Sea water holds about 35 grams of salt in a litre.",
        "salt",
    ),
    ("Why does sea ice float?", "Sea ice floats because ice is lighter than water.", "ice"),
    ("What makes waves?", "Waves are made by wind.", "waves"),
    (
        "When does a wave break?",
        "A wave breaks when the water is shallower than about its height.",
        "waves",
    ),
    ("How long can a sperm whale dive?", "A sperm whale can dive for more than an hour.", "whales"),
    ("What are corals?", "Corals are animals that live in colonies.", "coral"),
    (
        "Which is the deepest place of the sea?",
        "The deepest place of the sea is the Challenger Deep.",
        "depth",
    ),
    (
        "Where does the Gulf Stream begin?",
        "The Gulf Stream begins in the Gulf of Mexico.",
        "current",
    ),
]
_UNANSWERABLE = ["Who won the regatta of 1907?", "What is the price of a ferry ticket?"]
GOLDEN: list[dict[str, Any]] = [
    {"id": f"sea-{n:02}", "query": query, "reference_answer": reference, "expected_doc_ids": [doc]}
    for n, (query, reference, doc) in enumerate(_ASKED, 1)
] + [
    {"id": f"sea-{n}", "query": query, "answerable": False}
    for n, query in enumerate(_UNANSWERABLE, len(_ASKED) + 1)
]
"""The rows of a golden file."""
_COMMON = frozenset(
    "a an and at by can do does for how in is it long made much of on the to was what when where"
    " which who why".split()
)


def search(query: str, k: int = 3) -> list[dict[str, Any]]:
    """Return the k passages that share the most words with a query."""
    shared = {name: len(_words(query) & _words(text)) for name, text in PASSAGES.items()}
    best = sorted(shared, key=lambda name: shared[name], reverse=True)[:k]
    return [
        {"chunk_id": name, "doc_id": name, "text": PASSAGES[name], "score": shared[name]}
        for name in best
    ]


def plain(query: str, hits: list[dict[str, Any]]) -> str:
    """Return the best sentence of the best passage, or a refusal if they share one word only."""
    return _best_sentence(query, hits[0]["text"]) if hits[0]["score"] > 1 else "I don't know."


def chatty(query: str, hits: list[dict[str, Any]]) -> str:
    """Return a sentence of each of two passages, and one of no passage."""
    return " ".join(
        [
            *(_best_sentence(query, hit["text"]) for hit in hits[:2]),
            "Sailors have always known such things by heart.",
        ]
    )


def _best_sentence(query: str, text: str) -> str:
    return max(
        (f"{one}." for one in text.rstrip(".").split(". ")),
        key=lambda one: len(_words(query) & _words(one)),
    )


def _words(text: str) -> set[str]:
    return {word.strip(".,?") for word in text.lower().split()} - _COMMON

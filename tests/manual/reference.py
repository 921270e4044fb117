"""The parts of the reference that are made from the code: `python -m tests.manual --reference`.

A page holds them between `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`, with prose by
hand around them. The pages of `reference/api/` are made whole.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from ragscore.frames.verbs import Accessor, Verb

PART = re.compile(r"(<!-- generated:([\w-]+) -->\n).*?(<!-- /generated:\2 -->)", flags=re.S)


def write(folder: Path) -> list[Path]:
    """Renew the generated parts of the pages in `folder`; return the files that changed."""
    changed = []
    for file, text in texts(folder).items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"{file.relative_to(folder)}: renewed")
            changed.append(file)
    return changed


def texts(folder: Path) -> dict[Path, str]:
    """Return each page with generated parts, as it should be."""
    found = {}
    for page in sorted(folder.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if PART.search(text):
            found[page] = PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n\n{part[3]}", text)
    return found | {folder / "api" / f"{name}.md": api_page(name) for name in API}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([one.replace("|", "\\|") for one in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# -- api.md and api/: the names that Sphinx describes --

# Page -> its title, its first sentence, and its parts: heading -> names below `ragscore`.
API: dict[str, tuple[str, str, dict[str, list[str]]]] = {
    "functions": (
        "Functions",
        "The verbs of `rs`: load, evaluate, score, check, collect, judge and label.",
        {
            "Load": ["load_golden", "load_results"],
            "Score": ["evaluate", "score"],
            "Look before": ["validate", "supported_metrics", "metrics"],
            "Make new data": ["collect", "judge", "label"],
        },
    ),
    "evaluation": (
        "Evaluation",
        "What `rs.evaluate` returns: runs scored against a golden set, and all that can be asked.",
        {"": ["Evaluation"]},
    ),
    "data": (
        "Golden sets and results",
        "What goes in, the choices of a scoring, and the error of unusable input.",
        {"": ["Golden", "Results", "Policies", "Profile", "DataError"]},
    ),
    "comparison": (
        "Comparisons",
        "What `ev.compare`, `ev.relabelled` and `ev.score_diff` return.",
        {
            "": [
                "Comparison",
                "analysis.comparison.gate.Gate",
                "analysis.slices.SliceComparison",
                "analysis.comparison.label_first.LabelFirst",
                "analysis.comparison.relabelling.LabelEffect",
                "analysis.comparison.score_diff.ScoreDiff",
            ]
        },
    ),
    "analyses": (
        "Analyses",
        "What the other methods of an evaluation return. These objects are never made by hand.",
        {
            "": [
                "Leaderboard",
                "golden.coverage.Coverage",
                "analysis.refusals.Refusals",
                "analysis.risk_coverage.RiskCoverage",
                "analysis.failure_causes.Failures",
                "analysis.paraphrases.Paraphrases",
                "analysis.repeats.Repeats",
                "analysis.config_effects.ConfigEffects",
                "analysis.retrievers.RetrieverReport",
                "analysis.query_view.QueryView",
                "analysis.unjudged.Unjudged",
                "golden.health.GoldenHealth",
                "analysis.trend.trend.Trend",
            ]
        },
    ),
    "store": (
        "Stores",
        "Runs as Parquet files in a folder.",
        {"": ["RunStore"]},
    ),
    "pages": (
        "Reports and explorers",
        "What `ev.report`, `ev.explore` and `cmp.explore` return.",
        {"": ["Report", "reporting.explorer.explorer.Explorer"]},
    ),
    "plot": ("rs.plot", "A frame in, matplotlib Axes out.", {"": ["plot"]}),
    "match": ("rs.match", "Matching, step by step.", {"": ["match"]}),
    "io": ("rs.io", "Writers of single formats, and frames for other tools.", {"": ["io"]}),
    "judging": (
        "rs.judging",
        "Language models as judges of answers, and how far to trust them.",
        {"": ["judging"]},
    ),
    "labelling": (
        "rs.golden and rs.collecting",
        "Labelling sessions, suites side by side, and whether two runs are the same.",
        {"": ["golden", "golden.labelling.panel.LabelPanel", "collecting"]},
    ),
    "extras": (
        "rs.extras",
        "What only some systems need.",
        {"": ["extras", "extras.knowledge_gain"]},
    ),
    "stats": ("rs.stats", "Statistics on arrays.", {"": ["stats"]}),
    "frames": ("rs.frames", "The kinds of frames.", {"": ["frames"]}),
}
NAMESPACES = (
    "io", "match", "frames", "golden", "stats", "plot", "judging", "collecting", "extras",
    "extras.knowledge_gain",
)  # fmt: skip


def found(name: str) -> Any:
    """Return what a name below `ragscore` stands for."""
    import ragscore

    value: Any = ragscore
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(f"{value.__name__}.{part}")
    return value


def names_in(namespace: str) -> list[str]:
    """Return the public names of a namespace, without namespaces in it."""
    module = found(namespace)
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "") == module.__name__
        and (inspect.isfunction(value) or inspect.isclass(value))
    ]
    return [
        f"{namespace}.{name}"
        for name in names
        if not inspect.ismodule(found(f"{namespace}.{name}"))
    ]


def members(cls: type) -> list[str]:
    """Return the methods and properties of a class that have a docstring, own ones first."""
    seen: dict[str, bool] = {}
    for owner in cls.__mro__:
        if not owner.__module__.startswith("ragscore"):
            continue
        for name, value in vars(owner).items():
            kinds = (classmethod, staticmethod, property, cached_property, Verb)
            if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds)):
                doc = inspect.getdoc(
                    value if isinstance(value, (property, cached_property)) else getattr(cls, name)
                )
                seen.setdefault(name, bool(doc))
    return sorted(name for name, has_doc in seen.items() if has_doc)


def api_page(name: str) -> str:
    """Return a page whose names Sphinx describes by their docstrings."""
    title, sentence, parts = API[name]
    lines = [f"# {title}", "", sentence]
    for heading, names in parts.items():
        if heading:
            lines += ["", f"## {heading}"]
        described = [directive(each) for one in names for each in expanded(one)]
        lines += ["", "```{eval-rst}", "\n\n".join(described), "```"]
    return "\n".join([*lines, ""])


def expanded(name: str) -> list[str]:
    return names_in(name) if name in NAMESPACES else [name]


def directive(name: str) -> str:
    """Return the directive by which Sphinx describes a name."""
    value = found(name)
    if inspect.isclass(value):
        lines = [f".. autoclass:: ragscore.{name}"]
        if listed := members(value):
            lines.append(f"   :members: {', '.join(listed)}")
        if isinstance(inspect.getattr_static(value, "plot", None), Accessor):
            lines += ["", *pictures_of(value)]
        return "\n".join(lines)
    if callable(value):
        return f".. autofunction:: ragscore.{name}"
    return f".. autodata:: ragscore.{name}\n   :no-value:"


def api_tables() -> str:
    """Return tables of names, one for each page: Sphinx adds what each does, and the links."""
    parts = []
    for page, (title, sentence, groups) in API.items():
        names = [each for group in groups.values() for one in group for each in expanded(one)]
        parts += [f"## {title}", f"{sentence} [In full](api/{page}.md)."]
        classes = [one for one in names if inspect.isclass(found(one)) and members(found(one))]
        if others := [one for one in names if one not in classes]:
            parts.append(summary(others))
        for one in classes:
            if len(names) > 1:
                parts.append(f"### {one.rpartition('.')[2]}")
            parts.append(summary([one, *(f"{one}.{member}" for member in members(found(one)))]))
    return "\n\n".join(parts)


def summary(names: list[str]) -> str:
    rows = [f"   ~ragscore.{name}" for name in names]
    lines = ["```{eval-rst}", ".. autosummary::", "   :nosignatures:", "", *rows, "```"]
    return "\n".join(lines)


def api_pages() -> str:
    """Return the hidden table of contents of api.md."""
    return "\n".join(["```{toctree}", ":hidden:", "", *(f"api/{name}" for name in API), "```"])


def pictures_of(cls: Any) -> list[str]:
    """Return the directive that describes `plot`, whose methods are functions of `rs.plot`."""
    usual, *others = cls.plot.pictures
    text = [
        "   .. py:method:: plot(...)",
        "",
        f"      Draw the usual picture: :func:`~ragscore.plot.{usual}` with what the object knows.",
    ]
    if others:
        links = ", ".join(f":func:`plot.{name}() <ragscore.plot.{name}>`" for name in others)
        text += ["", f"      Others: {links}."]
    return text


PARTS: dict[str, Callable[[], str]] = {"api": api_tables, "api-pages": api_pages}

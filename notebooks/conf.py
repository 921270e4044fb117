"""How Sphinx builds the manual: `python -m sphinx -W -n notebooks notebooks/_build/html`."""

import os
import re
from pathlib import Path

# Figures are drawn without a screen, here and in the pages.
os.environ.setdefault("MPLBACKEND", "Agg")

from numpydoc.docscrape import NumpyDocString, Parameter, dedent_lines
from numpydoc.docscrape_sphinx import SphinxDocString
from pygments.lexers.json5 import Json5Lexer
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import ragscore

project = "ragscore"
author = "The ragscore maintainers"
project_copyright = author
version = release = ragscore.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "**/.ipynb_checkpoints", "jupyter_execute"]

# The tests run notebooks and pages, and compare what they print: the site shows what is stored.
nb_execution_mode = "off"
nb_merge_streams = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
myst_url_schemes = {"http": None, "https": None, "mailto": None}

autosummary_generate = True
autodoc_typehints = "none"
add_module_names = False
# `name` in a docstring is code.
default_role = "literal"
smartquotes = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "ragscore"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_search_scorer = str(Path(__file__).parent / "search_scores.js")
html_show_sourcelink = False
html_copy_source = False
# A page without pages beside it has no list of them.
html_sidebars = {page: [] for page in ("quickstart", "gallery", "coming-from")}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


# The classes of the reference, by their short names.
CLASSES = {
    name.rpartition(".")[2]: name
    for page in sorted((Path(__file__).parent / "reference" / "api").glob("*.md"))
    for name in re.findall(r"autoclass:: (\S+)", page.read_text(encoding="utf-8"))
}
MADE_BY_HAND = (
    "Golden", "Results", "Reading", "RunStore", "Endpoint", "LabelPanel",
)  # fmt: skip


def shown_signature(app, what, name, value, options, signature, returns):
    """Name the class that a function returns; shorten what nobody reads."""
    if what == "class":
        is_made = name.rpartition(".")[2] in MADE_BY_HAND
        return (signature.replace("<factory>", "...") if is_made and signature else ""), None
    annotated = getattr(value, "__annotations__", {}).get("return", "")
    returned = CLASSES.get(getattr(annotated, "__name__", str(annotated)))
    # a default that is the whole table of metrics
    short = re.sub(r"declared=\{.*\}", "declared=...", signature or "", flags=re.S)
    return (short or None, returned) if returned or short != signature else None


class Prose:
    """How numpydoc reads and shows a section "Returns" that is prose: as its paragraphs."""

    def _parse_param_list(self, content, single_element_is_type=False):
        lines = dedent_lines(content)
        is_named = len(lines) > 1 and lines[1].startswith("    ")
        if single_element_is_type and not is_named:
            return [Parameter("", "", lines)]
        return NumpyDocString._parse_param_list(self, content, single_element_is_type)

    def _str_returns(self, name="Returns"):
        if [(one.name, one.type) for one in self[name]] != [("", "")]:
            return Prose.with_names(self, name)
        return [*self._str_field_list(name), "", *self._str_indent(self[name][0].desc, 4), ""]

    with_names = SphinxDocString._str_returns


def write_explorer(app: Sphinx, error: Exception | None) -> None:
    """Write the explorer that the first page shows, at a query that its newer run lost."""
    if error or app.builder.format != "html":
        return
    demo = Path(__file__).parents[1] / "data" / "demo"
    ev = ragscore.evaluate(str(demo / "runs/*/per_query.jsonl"), str(demo / "golden.yaml"))
    pair = ["dense", "hybrid_rerank"]
    shown = ev.compare(*pair).explore("pd-040", max_queries=50)
    shown.write(Path(app.outdir) / "_static" / "explorer.html")


def setup(app: Sphinx) -> None:
    """Say how docstrings are read, and how the files of examples are coloured."""
    SphinxDocString._parse_param_list = Prose._parse_param_list
    SphinxDocString._str_returns = Prose._str_returns
    app.connect("autodoc-process-signature", shown_signature)
    app.connect("build-finished", write_explorer)
    app.add_lexer("jsonl", Json5Lexer)  # NaN, too, which some tools write
    for plain in ("csv", "tsv", "trec"):
        app.add_lexer(plain, TextLexer)

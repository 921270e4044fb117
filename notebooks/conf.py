"""How Sphinx builds the manual: `python -m sphinx -W -n notebooks notebooks/_build/html`."""

import os

# Figures are drawn without a screen, here and in the pages.
os.environ.setdefault("MPLBACKEND", "Agg")

from pygments.lexers.data import JsonLexer
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
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "ragscore"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_show_sourcelink = False
html_copy_source = False
# A page without pages beside it has no list of them.
html_sidebars = {
    page: []
    for page in ("quickstart", "gallery", "coming-from", "benchmarks", "architecture", "changes")
}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app: Sphinx) -> None:
    """Say how the files of examples are coloured."""
    app.add_lexer("jsonl", JsonLexer)
    for plain in ("csv", "tsv", "trec"):
        app.add_lexer(plain, TextLexer)

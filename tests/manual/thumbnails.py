"""Small pictures of the gallery's sections, by what they tell.

`python -m tests.manual --thumbnails` makes them anew of the figures that the gallery shows, and the
table that its first cell lists them in.
"""

import base64
import io
import json
import re
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from tests.manual import NOTEBOOKS

FILE = NOTEBOOKS / "gallery.ipynb"
FOLDER = NOTEBOOKS / "_static" / "thumbnails"
SIZE, COLOURS = (176, 122), 32
TOLD = {  # what is asked -> beginnings of the headings of the pictures that tell it
    "Is it better?": ["Forest", "Forest with margins", "Means side by side", "Leaderboard"],
    "What moved?": ["Outcomes", "Ranks", "Scatter", "Failure transitions"],
    "Where?": ["Slices", "Differences by slice", "Heat map", "Facets"],
    "Over time?": ["Trend", "Turns", "Calls"],
    "What does it cost?": ["Trade-off", "Trade-off by a key of the config", "Metric at k"],
    "Does it refuse what it should?": ["Refusal matrix", "Risk and coverage"],
    "What do scores say?": ["Scores by rank"],
    "In a paper?": ["Several pictures in one figure", "Theme", "A picture of your own"],
}
BEGIN = "| to know | pictures |\n|---|---|\n"


def cells() -> list[dict[str, Any]]:
    """Return the cells of the gallery."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cells"]
    return found


def sections() -> dict[str, tuple[str, bytes]]:
    """Return the heading and the figure of every section, by the beginning of the heading."""
    found = {}
    for text, code in zip(cells()[2::2], cells()[3::2], strict=True):
        heading = text["source"][0].removeprefix("## ").strip()
        (png,) = (one["data"]["image/png"] for one in code["outputs"] if "image/png" in one["data"])
        found[re.split(r"[:,]", heading)[0]] = heading, base64.b64decode(png)
    return found


def file_of(name: str) -> str:
    """Return the name of a thumbnail's file."""
    return f"{_slug(name)}.png"


def _slug(text: str) -> str:
    return re.sub(r"[^\w\s-]", "", text.lower()).strip().replace(" ", "-")


def small(png: bytes) -> Image.Image:
    """Return a figure in the size of a thumbnail, on white."""
    whole = Image.open(io.BytesIO(png)).convert("RGBA")
    paper = Image.new("RGBA", whole.size, "white")
    paper.alpha_composite(whole)
    page = Image.new("RGB", SIZE, "white")
    inner = ImageOps.contain(paper.convert("RGB"), SIZE, Image.Resampling.LANCZOS)
    page.paste(inner, ((SIZE[0] - inner.width) // 2, (SIZE[1] - inner.height) // 2))
    return page


def distance(name: str, png: bytes) -> float:
    """Return the mean difference of a stored thumbnail and its figure, as a share of white."""
    stored = np.asarray(Image.open(FOLDER / file_of(name)).convert("RGB"), dtype=float)
    made = np.asarray(small(png), dtype=float)
    return 1.0 if stored.shape != made.shape else float(np.abs(stored - made).mean() / 255)


def table() -> str:
    """Return the table of the gallery's first cell."""
    headings = {name: heading for name, (heading, _) in sections().items()}
    rows = [
        f"| {told} | "
        + " ".join(
            f"[![{name}](_static/thumbnails/{file_of(name)})](#{_slug(headings[name])})"
            for name in names
        )
        + " |"
        for told, names in TOLD.items()
    ]
    return BEGIN + "\n".join(rows)


def write() -> None:
    """Write all thumbnails and the table."""
    FOLDER.mkdir(exist_ok=True)
    for name, (_, png) in sections().items():
        few = small(png).quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(FOLDER / file_of(name), optimize=True)
    book = json.loads(FILE.read_text(encoding="utf-8"))
    title, intro, *rest = "".join(book["cells"][0]["source"]).split("\n\n")
    rest = [one for one in rest if not one.startswith(BEGIN)]
    told = "\n\n".join([title, intro, table(), *rest])
    book["cells"][0]["source"] = told.splitlines(keepends=True)
    FILE.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

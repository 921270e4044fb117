"""Write what pages show: `python -m tests.manual [PAGE ...]` runs them and renews outputs.

`--reference` writes the generated parts of the reference instead, `--thumbnails` the small pictures
of the gallery.
"""

import argparse
import os
import tempfile
import warnings
from pathlib import Path

from tests.manual import NOTEBOOKS, pages, plain, run, same


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.manual", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="all without any")
    parser.add_argument("--reference", action="store_true", help="the generated parts")
    parser.add_argument("--thumbnails", action="store_true", help="small pictures of the gallery")
    given = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "Agg")
    warnings.simplefilter("error")  # as the tests have it
    if given.reference:
        from tests.manual import frames, reference

        reference.write(NOTEBOOKS / "reference")
        frames.PAGE.write_text(frames.text(), encoding="utf-8")
        return
    if given.thumbnails:
        from tests.manual import thumbnails

        thumbnails.write()
        return
    for page in [one.resolve() for one in given.pages] or pages():
        renew(page)


def renew(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        outputs = [(shown, printed) for _, shown, printed in run(page, Path(folder)) if shown]
    changed = 0
    for shown, printed in reversed(outputs):
        if not same(shown.text, printed):
            text = f"{text[: shown.start]}{plain(printed)}\n{text[shown.end :]}"
            changed += 1
    if changed:
        page.write_text(text, encoding="utf-8")
    print(f"{page.name}: {len(outputs)} outputs, {changed} renewed")


if __name__ == "__main__":
    main()

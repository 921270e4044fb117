"""Write what pages show: `python -m tests.manual [PAGE ...]` runs them and renews outputs.

`--reference` writes the generated parts of the reference instead.
"""

import argparse
import os
import tempfile
import warnings
from pathlib import Path

from tests.manual import pages, plain, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.manual", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="all without any")
    parser.add_argument("--reference", action="store_true", help="the generated parts")
    given = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "Agg")
    warnings.simplefilter("error")  # as the tests have it
    if given.reference:
        from tests.manual import reference

        for page, text in reference.texts().items():
            page.write_text(text, encoding="utf-8")
        return
    for page in [one.resolve() for one in given.pages] or pages():
        renew(page)


def renew(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        outputs = [(shown, printed) for _, shown, printed in run(page, Path(folder)) if shown]
    changed = [
        (shown, printed) for shown, printed in outputs if plain(printed) != plain(shown.text)
    ]
    for shown, printed in reversed(changed):
        text = f"{text[: shown.start]}{plain(printed)}\n{text[shown.end :]}"
    page.write_text(text, encoding="utf-8")
    print(f"{page.name}: {len(outputs)} outputs, {len(changed)} renewed")


if __name__ == "__main__":
    main()

"""What other folders import of scoring: names of its face, and the number that it has reached."""

import ast
from pathlib import Path

from ragscore.scoring import FACE

PACKAGE, FOLDER = Path(__file__).parents[1] / "ragscore", "ragscore.scoring"
REACHED = 81  # it is only lowered


def imported() -> set[str]:
    """Return module and name of everything that files outside the folder import from it."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        if PACKAGE / "scoring" in file.parents:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(FOLDER):
                module = (node.module or "").removeprefix(FOLDER)
                found |= {f"{module}.{one.name}".removeprefix(".") for one in node.names}
    return found


def test_other_folders_import_names_of_the_face_alone():
    stated = {f"{module}.{name}" for module, names in FACE.items() for name in names.split()}
    assert imported() <= stated
    assert len(stated) <= REACHED

"""The page on how the package is built names every folder, in order, and only what exists."""

import re

import pytest

from tests.manual import NOTEBOOKS, ROOT
from tests.test_layers import LAYERS

PACKAGE = ROOT / "ragscore"
PAGE = (NOTEBOOKS / "architecture.md").read_text(encoding="utf-8")


def test_every_folder_is_in_the_tree():
    for folder in (file.parent for file in PACKAGE.rglob("__init__.py")):
        assert folder == PACKAGE or f"{folder.name}/" in PAGE, folder


def test_the_folders_of_the_tree_are_the_layers_in_their_order():
    shown = re.findall(r"^    (\w+)/ ", PAGE, flags=re.M)
    assert shown == [layer for layer in LAYERS if (PACKAGE / layer).is_dir()]


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`([\w/]+(?:/|\.pyi?|/\w+\.json))`", PAGE)))
)
def test_what_the_page_names_exists(name):
    assert (PACKAGE / name).exists() or (ROOT / name).exists()


@pytest.mark.parametrize(
    ("said", "module", "constant"),
    [
        (r"blocks of (\d+) MiB", "io.arrow_lines", ("BLOCK_BYTES", 2**20)),
        (r"below (\d+) KiB", "io.arrow_lines", ("FROM_BYTES", 2**10)),
        (r"block of (\d+) KiB", "store.checked", ("BLOCK", 2**10)),
    ],
)
def test_the_sizes_on_the_page_are_those_of_the_code(said, module, constant):
    name, unit = constant
    path = PACKAGE / (module.replace(".", "/") + ".py")
    written = re.search(rf"^{name} = (.+?)(?:  #.*)?$", path.read_text(encoding="utf-8"), re.M)
    assert int(re.search(said, PAGE)[1]) * unit == eval(written[1])

"""The architecture as facts: who may import whom, and what `import ragscore` may cost."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

import ragscore
from ragscore.scoring import FACE

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ragscore"
# A folder a layer: what it may import of the others, and the statements that it has reached.
# A number is only lowered: what grows beyond it fails.
FOLDERS = {
    "frames": ("", 1240),
    "stats": ("frames", 745),
    "io": ("frames", 5394),
    "scoring": ("frames stats io", 3009),
    "store": ("frames io scoring", 1189),
    "analysis": ("frames stats io scoring store", 3718),
    "golden": ("frames stats io scoring analysis", 903),
    "plot": ("frames stats scoring analysis", 632),
    "reporting": ("frames stats io scoring store analysis golden plot", 810),
    "judging": ("frames stats io scoring store analysis", 1047),
    "collecting": ("frames io analysis", 824),
    "demo": ("frames io store collecting evaluation", 106),
    "evaluation": ("frames io scoring store analysis golden plot reporting judging", 397),
    "cli": (
        "frames io scoring store analysis golden judging collecting demo evaluation __init__",
        533,
    ),
    "__init__": ("", 4),
}
# The same of what isn't the package's code.
REACHED = {
    "modules": 178,
    "public names": 220,
    "statements of tests": 17034,
    "words written by hand in notebooks": 28821,
    "lines of README": 120,
    "names of the face of scoring": 81,
}
ON_USE_ONLY = (
    "scipy", "matplotlib", "onnxruntime", "tokenizers", "bm25s", "Stemmer", "tqdm", "httpx",
    "ipywidgets", "openai", "jsonschema", "fsspec", "s3fs", "dask", "distributed",
    "ragscore.demo",
)  # fmt: skip


NAMESPACES = ("io", "match", "stats", "plot", "judging", "extras")
PROFILES = ("ragscore.scoring.readings", "ragscore.analysis.comparison.profile_report")
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(file: Path) -> str:
    path = file.relative_to(PACKAGE.parent).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__")


def layer_of(module: str) -> str:
    """Return the folder below the package that a module lies in."""
    return module.split(".")[1] if "." in module else "__init__"


MODULES = {name_of(file): file for file in FILES}


@cache
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


@cache
def imports_of(file: Path) -> set[str]:
    """Return the modules of the package that a file imports, wherever the import stands."""
    found = set()
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ragscore"):
            named = {alias.name for alias in node.names} - {"__version__"}
            names = {f"{node.module}.{name}" for name in named}
            found |= {name if name in MODULES else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("ragscore")}
    return found


def statements(files: Iterable[Path]) -> int:
    return sum(isinstance(node, ast.stmt) for file in files for node in nodes(file))


@pytest.mark.parametrize("folder", sorted({layer_of(name) for name in MODULES}))
def test_a_folder_imports_only_what_it_may_and_has_not_grown(folder):
    may, reached = FOLDERS[folder]
    files = [file for name, file in MODULES.items() if layer_of(name) == folder]
    assert statements(files) <= reached
    for file in files:
        others = {layer_of(name) for name in imports_of(file)} - {folder}
        assert others <= set(may.split()), f"{name_of(file)} imports {others}"


def attributes(cls: type) -> set[str]:
    """Return the public attributes of a class; of an error, those that errors don't all have."""
    named = {one.name for one in fields(cls)} if is_dataclass(cls) else set()
    return {one for one in {*named, *dir(cls)} - set(dir(ValueError)) if not one.startswith("_")}


def public_names() -> int:
    """Return how many names a user can type: attributes of the main objects are counted, too."""
    objects = ("Evaluation", "Comparison", "Results", "Golden", "RunStore", "Leaderboard",
               "Report", "Reading")  # fmt: skip
    own = sum(len(attributes(getattr(ragscore, one))) for one in objects)
    return (
        len(ragscore.__all__) + own + sum(len(getattr(ragscore, one).__all__) for one in NAMESPACES)
    )


def words_by_hand() -> int:
    """Return the words of pages and notebooks, without code and what is made from the code."""
    texts = [
        file.read_text(encoding="utf-8")
        for file in (ROOT / "notebooks").rglob("*.md")
        if "_build" not in file.parts and file.parent.name != "api"
    ]
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        texts += ["".join(one["source"]) for one in cells if one["cell_type"] == "markdown"]
    made = re.compile(r"^(```+|~~~+).*?^\1\s*$|<!-- (\w+:\S+) -->.*?<!-- /\2 -->", re.M | re.S)
    return sum(len(re.findall(r"\w[\w'-]*", made.sub("", text))) for text in texts)


@pytest.mark.slow
def test_tests_manual_and_face_have_not_grown():
    found = {
        "modules": len(MODULES),
        "public names": public_names(),
        "statements of tests": statements((ROOT / "tests").rglob("*.py")),
        "words written by hand in notebooks": words_by_hand(),
        "lines of README": (ROOT / "README.md").read_text(encoding="utf-8").count("\n"),
    }
    grown = {name: n for name, n in found.items() if n > REACHED[name]}
    assert not grown, f"reached before: {REACHED}"


def test_other_folders_import_names_of_the_face_of_scoring_alone():
    stated = {f"{module}.{name}" for module, names in FACE.items() for name in names.split()}
    found = set()
    for name, file in MODULES.items():
        for node in nodes(file):
            module = getattr(node, "module", None) or ""
            if layer_of(name) != "scoring" and module.startswith("ragscore.scoring"):
                below = module.removeprefix("ragscore.scoring")
                found |= {f"{below}.{one.name}".removeprefix(".") for one in node.names}
    assert found <= stated and len(stated) <= REACHED["names of the face of scoring"]


def test_statistics_know_arrays_and_errors_only():
    files = [file for name, file in MODULES.items() if layer_of(name) == "stats"]
    others = {one for file in files for one in imports_of(file) if layer_of(one) != "stats"}
    assert others <= {"ragscore.frames.errors", "ragscore.frames.typing"}


@pytest.mark.slow
def test_no_imports_run_in_a_circle():
    left = {name: imports_of(file) - {name} for name, file in MODULES.items()}
    while free := {name for name, needed in left.items() if not needed & set(left)}:
        left = {name: needed for name, needed in left.items() if name not in free}
    assert not left


def test_no_module_but_profiles_names_a_profile_in_code():
    others = {name: file for name, file in MODULES.items() if layer_of(name) != "cli"}
    literals = {
        (name, node.value) for name, file in others.items() if name not in PROFILES
        for node in nodes(file) if isinstance(node, ast.Constant)
    }  # fmt: skip
    assert [name for name, value in literals if value == "kebab"] == []


# What is done in a process of its own -> which modules must not be there afterwards.
NOT_IMPORTED = {
    "import ragscore": [*ON_USE_ONLY, "pandas", "pyarrow", "numpy", *sorted(MODULES)[1:]],
    "import ragscore as rs; rs.load_golden, rs.load_results, rs.evaluate": [
        *ON_USE_ONLY, "yaml", "sqlite3", "html", "pyarrow.csv", "pyarrow.json", "pyarrow.parquet",
        "ragscore.plot", "ragscore.golden", "ragscore.reporting", "ragscore.store",
        "ragscore.analysis.comparison",
    ],
}  # fmt: skip


def printed(code: str) -> str:
    """Return what a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_nothing_is_imported_before_it_is_used():
    there = "print([one for one in absent if one in sys.modules])"
    code = f"for code, absent in {NOT_IMPORTED!r}.items():\n    exec(code)\n    {there}"
    assert printed(f"import sys\n{code}").splitlines() == ["[]"] * len(NOT_IMPORTED)


@pytest.mark.slow
def test_functions_are_what_the_package_shows_also_where_their_modules_were_imported_first():
    names = [name for name in MODULES if not name.endswith("__main__")]
    modules = "[one for one in rs.__all__ if isinstance(getattr(rs, one), types.ModuleType)]"
    code = f"import importlib, types, ragscore as rs; [*map(importlib.import_module, {names!r})]"
    assert printed(f"{code}; print({modules})") == repr(sorted(NAMESPACES))


def test_the_stub_lists_by_stage_what_it_imports():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    (listed,) = (ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert sorted(listed) == sorted(ragscore.__all__)


@pytest.mark.parametrize("namespace", [ragscore, *(getattr(ragscore, one) for one in NAMESPACES)])
def test_every_public_name_is_there_once_and_documented(namespace):
    assert len(set(namespace.__all__)) == len(namespace.__all__) <= 32
    for name in namespace.__all__:
        found = getattr(namespace, name)
        assert found.__doc__ or not callable(found) or name == "Rule", name


def test_texts_and_docstrings_name_what_the_package_shows():
    text = "\n".join(file.read_text(encoding="utf-8") for file in FILES)
    for path in sorted({*re.findall(r"\brs((?:\.[A-Za-z_]+)+)(?!\{)\b", text)}):
        found = ragscore
        for part in path.split(".")[1:]:
            found = found if callable(found) else getattr(found, part)


def test_scipy_stats_is_not_imported_since_it_takes_half_a_second():
    says = r"(?m)^\s*(from scipy\.stats|from scipy import .*stats|import scipy\.stats)"
    assert not [file.name for file in FILES if re.search(says, file.read_text(encoding="utf-8"))]

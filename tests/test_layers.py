"""The architecture as facts: who may import whom, and what `import ragscore` may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ragscore"
LAYERS = {
    "errors": 0, "warned": 0, "cast": 0, "codes": 0, "pairs": 0, "kinds": 0, "frames": 0,
    "frame_json": 1, "load": 1, "match": 1, "grades": 1, "metrics": 1, "stats": 1, "tables": 1,
    "rules": 1, "anchors": 1, "ranks": 1, "exchange": 1, "run_files": 1,
    "filesystem": 0, "noted": 2, "stored": 2, "stored_scores": 4, "run_tables": 3, "listing": 4,
    "partitions": 3, "score_parts": 4, "compact": 4, "ingest": 4, "scored_parts": 4,
    "run_batches": 3, "deciding": 4,
    "answers": 2, "dialogue": 2, "attribution": 2, "scope": 2, "facts": 2, "intervals": 2,
    "summary": 2, "health": 2, "level": 2, "kept": 2,
    "golden_versions": 2, "applies": 2, "row_facts": 2, "outcomes": 2, "resolve": 2, "doctor": 2,
    "golden_checks": 2,
    "profiles": 3, "policies": 3, "passed": 3, "score": 3, "scored": 3, "operations": 3,
    "aggregates": 3, "report": 3, "rulers": 3, "relabelling": 4,
    "deltas": 3, "comparison": 4, "differences": 4, "moves": 4, "hit_scores": 4, "compare": 4,
    "gate": 5, "metrics_json": 4, "groups": 4, "store": 4, "diffs": 4, "reported": 4,
    "texts": 2, "cited": 2, "citations": 2, "judgments": 2, "validate": 2,
    "hops": 4, "trials": 4, "freshness": 4, "gain": 4, "synthetic": 4, "lint": 4, "behaviour": 4,
    "events": 4, "columns": 2, "fingerprint": 2,
    "refusals": 3, "matrix": 3, "leaderboard": 4, "impact": 4, "config": 1, "reversals": 2,
    "sliced": 4, "selective": 4, "faults": 4,
    "means": 1, "near_duplicates": 2, "ties": 4, "suites": 4, "golden_health": 5,
    "segments": 3, "history": 4, "noise": 4, "bands": 4, "bridges": 4, "trend": 4,
    "plot": 5, "overlap": 4, "show": 4,
    "systems": 4, "collect": 5, "judge": 5,
    "predicates": 1, "metadata": 1, "substrings": 0, "satisfaction": 1, "predicate_report": 4,
    "label": 5,
    "reports": 6,
    "demo": 6,
    "cli": 7, "__init__": 7,
}  # fmt: skip
# Within a layer only these: ranking metrics are computed from matches, a scoring reads its profile.
SIDEWAYS = {
    ("rules", "match"), ("rules", "anchors"), ("anchors", "match"), ("health", "kept"),
    ("load", "ranks"), ("exchange", "load"), ("cast", "errors"),
    ("pairs", "codes"), ("frames", "errors"), ("frames", "cast"), ("frames", "codes"),
    ("frames", "kinds"), ("kinds", "cast"), ("kinds", "codes"), ("kinds", "errors"),
    ("summary", "intervals"), ("rules", "predicates"), ("predicates", "match"),
    ("predicates", "metadata"), ("answers", "dialogue"), ("dialogue", "attribution"),
    ("dialogue", "scope"), ("dialogue", "facts"), ("scope", "kept"),
    ("predicates", "satisfaction"), ("satisfaction", "match"), ("load", "satisfaction"),
    ("scored", "score"), ("scored", "profiles"), ("scored", "policies"),
    ("metrics", "match"), ("grades", "match"), ("score", "profiles"), ("score", "policies"),
    ("score", "passed"), ("policies", "profiles"),
    ("aggregates", "score"), ("aggregates", "profiles"), ("kept", "answers"),
    ("answers", "texts"), ("answers", "citations"), ("answers", "cited"), ("citations", "cited"),
    ("comparison", "reports"), ("compare", "comparison"), ("compare", "differences"),
    # a comparison writes itself as a page; imported on use
    ("compare", "moves"), ("compare", "overlap"), ("moves", "diffs"),
    ("answers", "level"), ("answers", "judgments"), ("citations", "level"),
    ("validate", "golden_checks"),
    ("applies", "judgments"), ("row_facts", "answers"), ("row_facts", "judgments"),
    ("outcomes", "applies"), ("outcomes", "row_facts"),
    ("outcomes", "judgments"), ("summary", "outcomes"), ("rulers", "score"), ("rulers", "profiles"),
    ("scored", "rulers"),
    ("store", "listing"), ("store", "score_parts"), ("store", "compact"), ("compact", "listing"),
    ("filesystem", "errors"),
    ("deciding", "score_parts"), ("store", "deciding"), ("scored_parts", "deciding"),
    ("stored", "noted"), ("run_batches", "run_tables"), ("store", "stored_scores"),
    ("stored_scores", "compact"), ("stored_scores", "listing"),
    ("store", "ingest"), ("store", "scored_parts"), ("ingest", "scored_parts"),
    ("scored_parts", "score_parts"),
    ("segments", "rulers"), ("history", "store"), ("noise", "history"), ("noise", "store"),
    ("bridges", "history"), ("trend", "store"), ("trend", "history"), ("trend", "noise"),
    ("trend", "bridges"), ("trend", "bands"), ("bands", "history"), ("bands", "noise"),
}  # fmt: skip
ON_USE_ONLY = (
    "scipy", "matplotlib", "onnxruntime", "tokenizers", "bm25s", "Stemmer", "tqdm", "httpx",
    "tenacity", "ipywidgets", "openai", "jsonschema", "fsspec", "s3fs", "dask", "distributed",
    "ragscore.demo",
)  # fmt: skip


def module_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imports_of(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ragscore"):
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names]
                if node.module == "ragscore"
                else [node.module]
            )
            found |= {name.split(".")[1] for name in names}
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(PACKAGE)) for file in FILES])
def test_a_module_imports_only_layers_above_it(file):
    module = module_of(file)
    below = {
        name
        for name in imports_of(file) - {module}
        if LAYERS[name] >= LAYERS[module] and (module, name) not in SIDEWAYS
    }
    assert not below, f"{module} (layer {LAYERS[module]}) imports {below}"


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(PACKAGE)) for file in FILES])
def test_no_module_but_profiles_names_a_profile_in_code(file):
    if module_of(file) in ("profiles", "cli"):
        return
    literals = {
        node.value
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert "kebab" not in literals


def test_optional_and_heavy_packages_are_imported_on_use_only():
    code = f"import sys, ragscore; print([name for name in {ON_USE_ONLY!r} if name in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_nothing_is_imported_before_it_is_used():
    code = (
        "import sys, ragscore; print([name for name in sys.modules if name.startswith(('ragscore.',"
        " 'pandas', 'pyarrow', 'numpy'))])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_functions_are_what_the_package_shows_also_where_their_modules_were_imported_first():
    modules = [
        f"ragscore.{module_of(file).removesuffix('.py')}"
        for file in FILES
        if file.name != "__init__.py" or file.parent != PACKAGE
    ]
    code = f"""
import importlib, types
for name in {sorted(set(modules))!r}:
    importlib.import_module(name)
import ragscore as rs
print([name for name in rs.__all__ if isinstance(getattr(rs, name), types.ModuleType)])
"""
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "['plot']"
    )


def test_the_package_is_pickled_by_name_as_modules_are():
    import pickle

    import ragscore

    assert pickle.loads(pickle.dumps(ragscore)) is ragscore


def test_the_stub_lists_by_stage_what_it_imports():
    import ragscore

    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    (listed,) = (ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert sorted(listed) == sorted(ragscore.__all__)


def test_every_public_name_is_there_and_documented():
    import ragscore

    assert len(set(ragscore.__all__)) == len(ragscore.__all__)
    for name in ragscore.__all__:
        assert getattr(ragscore, name).__doc__ or name == "Rule", name

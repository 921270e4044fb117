"""The workflows test what pyproject.toml promises, by the scripts that `.ci/run` calls."""

import re
import tomllib

import pytest
import yaml

from tests.manual import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCRIPTS = {"lint", "manual", "wheel", "lowest"}


def jobs(name):
    # YAML reads the key `on` as true.
    return yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text("utf-8"))["jobs"]


def commands(name):
    return [step["run"] for job in jobs(name).values() for step in job["steps"] if "run" in step]


def test_every_python_of_the_classifiers_is_tested():
    promised = [
        one.rpartition(" ")[2]
        for one in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", one)
    ]
    assert promised == ["3.11", "3.12", "3.13", "3.14"]
    assert jobs("tests")["newest"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_workflows_run_the_same_steps_as_the_local_script():
    local = (ROOT / ".ci/run").read_text(encoding="utf-8")
    ran = {one for name in ("tests", "manual") for one in commands(name)}
    for script in SCRIPTS:
        file = ROOT / ".ci" / script
        assert file.exists() and file.stat().st_mode & 0o100
        assert f".ci/{script}" in ran
        assert f".ci/{script}" in local or script == "lowest"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_may_only_read(file):
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert all(set(step) & {"uses", "run"} for step in job["steps"])
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v0"))


def test_extras_name_what_is_there():
    extras = PROJECT["optional-dependencies"]
    assert {"lab", "demo", "collect", "judge", "scale", "docs", "test", "dev"} <= set(extras)
    for needed in extras.values():
        for one in needed:
            for name in re.findall(r"^ragscore\[([\w,]+)\]", one):
                assert set(name.split(",")) <= set(extras)

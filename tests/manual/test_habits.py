"""The files for those who join are well formed, and true of the package and its tests."""

import re
import subprocess
import tomllib

import pytest
import yaml

import ragscore as rs
from ragscore.io.file_content import MAX_BYTES, RATIO
from ragscore.io.yaml_text import FREE_VALUES, VALUES_PER_BYTE
from tests.manual import ROOT
from tests.manual.test_words import LINK, LONGEST, OTHER_WORDS, prose, sentences, slugs

GITHUB = ROOT / ".github"
CONTRIBUTING = GITHUB / "CONTRIBUTING.md"
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
TEXTS = [CONTRIBUTING, GITHUB / "SECURITY.md", GITHUB / "pull_request_template.md"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOP_LEVEL = {
    "pyproject.toml", "ragscore", "notebooks", "data", "tests", "README.md", "LICENSE",
    "CITATION.cff",
}  # fmt: skip
# Of the Citation File Format 1.2.0; an entity is an author with a name of its own.
CFF_NEEDS = {"cff-version", "message", "title", "authors"}
CFF_KNOWS = {
    *CFF_NEEDS, "abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords",
    "license", "license-url", "preferred-citation", "references", "repository",
    "repository-artifact", "repository-code", "type", "url", "version",
}  # fmt: skip
FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def loaded(file):
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def test_the_top_level_holds_what_belongs_there():
    done = subprocess.run(
        ["git", "ls-tree", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip("no git checkout")
    assert {name for name in done.stdout.split() if not name.startswith(".")} <= TOP_LEVEL


def test_the_citation_is_valid_and_of_this_version():
    found = loaded(ROOT / "CITATION.cff")
    assert set(found) >= CFF_NEEDS and set(found) <= CFF_KNOWS
    assert found["cff-version"] == "1.2.0" and found["type"] == "software"
    assert found["version"] == rs.__version__ == PROJECT["version"]
    assert found["license"] == PROJECT["license"] and found["title"] == PROJECT["name"]
    assert found["abstract"] == PROJECT["description"]
    assert found["keywords"] == PROJECT["keywords"]
    assert found["authors"] == [{"name": "The ragscore maintainers"}]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_is_one_as_github_reads_it(form):
    found = loaded(form)
    assert set(found) == {"name", "description", "body"}
    asked = [field for field in found["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in found["body"]} <= FIELDS
    ids = [field["id"] for field in asked]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]+", one) for one in ids)
    assert all(field["attributes"]["label"] for field in asked)
    assert any(field.get("validations", {}).get("required") for field in asked)
    assert all("value" in field["attributes"] for field in found["body"] if field not in asked)


def test_the_issue_forms_are_there():
    assert [form.stem for form in FORMS] == ["bug", "idea", "wrong-number"]


def test_hooks_need_no_network_and_run_what_the_dev_extra_installs():
    (repo,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    installed = {re.match(r"[\w-]+", one)[0] for one in PROJECT["optional-dependencies"]["dev"]}
    for hook in repo["hooks"]:
        assert hook["language"] == "system" and hook["entry"].split()[0] in installed


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_a_text_reads_well_and_names_what_is_there(page):
    text = page.read_text(encoding="utf-8")
    long = [one for one in sentences(prose(page)) if len(re.findall(r"[\w@'’-]+", one)) > LONGEST]
    assert long == [] and not OTHER_WORDS.search(prose(page))
    for name in re.findall(r"`((?:ragscore|tests|notebooks|data|\.ci)/[\w/.-]*)`", text):
        assert (ROOT / name).exists(), name
    for module in re.findall(r"python -m (tests[\w.]*)", text):
        file = ROOT / module.replace(".", "/")
        assert file.with_suffix(".py").exists() or (file / "__main__.py").exists(), module
    for target, _ in LINK.findall(text):
        file, _, anchor = target.partition("#")
        assert (page.parent / file).exists()
        assert not anchor or anchor in slugs((page.parent / file).resolve())


def test_the_commands_to_set_up_install_an_extra_that_is_there():
    text = CONTRIBUTING.read_text(encoding="utf-8")
    (extra,) = set(re.findall(r"pip install -e '\.\[(\w+)\]'", text))
    assert {"ruff", "mypy"} <= {
        re.match(r"[\w-]+", one)[0] for one in PROJECT["optional-dependencies"][extra]
    }


def test_nobody_is_told_to_install_the_package_of_that_name_on_the_index():
    # It is another project. Quotes and line ends may stand within a text of the source.
    advice = re.compile(r"(?<!do not run )pip3? install (?:-\S+ )*ragscore\b")
    files = [ROOT / "README.md", *GITHUB.rglob("*.md"), *GITHUB.rglob("*.yml")]
    for folder in ("ragscore", "tests", "notebooks"):
        for kind in ("py", "md", "ipynb", "yml"):
            files += (ROOT / folder).rglob(f"*.{kind}")
    assert len(files) > 500
    for file in files:
        text = re.sub(r"(?:[\s'\"`*]|\\n)+", " ", file.read_text(encoding="utf-8"))
        assert not advice.search(text.lower()), file


def test_the_limits_that_are_promised_are_those_of_the_code():
    text = (GITHUB / "SECURITY.md").read_text(encoding="utf-8")
    assert MAX_BYTES == 64 * 2**20 and "unpack to 64 MB" in text and f"{RATIO} times" in text
    assert f"{FREE_VALUES:,} values and {VALUES_PER_BYTE} per character" in text

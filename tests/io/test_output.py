"""How files are put in place: by one rename, with nothing left beside and the old one intact."""

import errno
import os
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

import ragscore as rs
from ragscore.io.files import replacing, write_text
from ragscore.io.run_write import write_per_query
from tests.messages import refused


def names_in(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOENT])
def test_what_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch, step, code):
    file = write_text(tmp_path / "report.md", "old")
    monkeypatch.setattr(step, Mock(side_effect=OSError(code, os.strerror(code))))
    with refused(os.strerror(code), file=file) as caught:
        write_text(file, "new")
    monkeypatch.undo()
    assert caught.value.allowed
    assert names_in(tmp_path) == ["report.md"] and file.read_text() == "old"


def test_an_exception_while_it_is_written_leaves_the_old_file(tmp_path):
    file = write_text(tmp_path / "report.md", "old")
    with pytest.raises(KeyboardInterrupt), replacing(file) as out:
        out.write(b"ne")
        raise KeyboardInterrupt
    assert names_in(tmp_path) == ["report.md"] and file.read_text() == "old"


def test_what_can_not_be_written_there_is_an_error(tmp_path):
    (tmp_path / "report.md").mkdir()
    (tmp_path / "runs").write_text("")
    (tmp_path / "null").symlink_to("/dev/null")
    for path, text, told in (
        ("report.md", "new", "folder"), ("runs/report.md", "new", "written"),
        ("null", "new", "device"),
        ("half.md", "a\ud800", "ud800"),
    ):  # fmt: skip
        with refused(told, file=path):
            write_text(tmp_path / path, text)
    assert names_in(tmp_path) == ["null", "report.md", "runs"]


def test_links_and_rights_of_the_old_file_stay(tmp_path):
    (tmp_path / "shared").mkdir()
    target = write_text(tmp_path / "shared" / "golden.yaml", "old")
    target.chmod(0o640)
    link = tmp_path / "golden.yaml"
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_two_writers_of_one_file_never_mix(tmp_path):
    with replacing(tmp_path / "report.md") as slow:
        slow.write(b"slow")
        write_text(tmp_path / "report.md", "quick")
        assert (tmp_path / "report.md").read_text() == "quick"
    assert (tmp_path / "report.md").read_text() == "slow"
    assert names_in(tmp_path) == ["report.md"]


def test_no_run_is_described_as_another_where_its_file_can_not_be_put_in_place(
    tmp_path, write_run, monkeypatch
):
    record = {"query_id": "q", "query": "?", "hits_top_k": []}
    first, second = (rs.load_results(write_run(name, [record], system=name)) for name in "ab")
    write_per_query(first, tmp_path / "out")
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    put, errors = Path.replace, [OSError(errno.EIO, "Input/output error")]

    def first_fails(path, target):
        if errors:
            raise errors.pop()
        return put(path, target)

    monkeypatch.setattr(Path, "replace", first_fails)
    with refused(file="per_query.jsonl"):
        write_per_query(second, tmp_path / "out")
    after = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert after == before and sorted(before) == ["per_query.jsonl", "run.json"]

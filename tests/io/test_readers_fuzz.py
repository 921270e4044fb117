"""Whatever stands in a golden file or a run, each of our own readers ends in frames or in one
DataError.

Each reader sees some files of 50 records (see damaged_files.py), strictly and leniently; files that
are one object (run.json, config.json, metrics.json, a report) are as many objects.
tests/faults/test_inputs.py attacks the same readers in a process of its own.
"""

import json
import random
import warnings

import pytest
import yaml
from damaged_files import IS_GOLDEN, N_FILES, READERS, damaged, lines, written

import ragscore as rs

NONSENSE = [
    "", "\n", "\ufeff", "{}", "null", "[null]", "1", "a,b\n1,2\n", "[" * 100_000,
    '{"a":' * 50_000, '{"\\ud800": 1}',
]  # fmt: skip


def ends_well(load, *arguments, **options):
    """What was loaded, or nothing where one DataError says why not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return load(*arguments, **options)
        except rs.DataError as error:
            assert str(error)
            return None


def put(files, folder):
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def read(name, folder, strict):
    format_name, target = READERS[name][0], folder / READERS[name][5]
    if format_name is None:
        return ends_well(rs.io.load_documents, target)
    return ends_well(
        rs.load_golden if name in IS_GOLDEN else rs.load_results,
        target,
        format=format_name,
        strict=strict,
    )


@pytest.mark.parametrize("name", list(READERS))
def test_records_nearly_right_end_in_frames_or_one_error(name, tmp_path):
    _, file, good, how, beside, _ = READERS[name]
    put(beside, tmp_path)
    for seed in range(N_FILES):
        by = random.Random(f"{name} {seed}")
        (tmp_path / file).write_bytes(
            damaged(written(good, how, by).encode("utf-8", "surrogatepass"), by)
        )
        for strict in (True, False):
            read(name, tmp_path, strict)
    # A reader that refused everything would pass: the good records of these files are read.
    (tmp_path / file).write_text(
        {"json": json.dumps, "lines": lines, "yaml": yaml.safe_dump, "text": "\n".join}[how](good),
        encoding="utf-8",
    )
    assert read(name, tmp_path, True) is not None


@pytest.mark.parametrize("name", list(READERS))
def test_files_of_nothing_nonsense_and_depth(name, tmp_path):
    put(READERS[name][4], tmp_path)
    for content in NONSENSE:
        (tmp_path / READERS[name][1]).write_text(content, encoding="utf-8")
        for strict in (True, False):
            read(name, tmp_path, strict)

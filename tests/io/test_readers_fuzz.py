"""Whatever stands in a golden file or a run, each of our own readers ends in frames or in one
DataError.

Each reader sees 20 files of 50 records (see damaged_files.py), so 1,000 records, strictly and
leniently; files that are one object (run.json, config.json, metrics.json, a report) are 20 objects.
RAGSCORE_EXAMPLES sets the number of files (see conftest.EXAMPLES).
"""

import json
import random
import sqlite3
import warnings

import pytest
import yaml
from damaged_files import IS_GOLDEN, N_FILES, READERS, RECORDS, changed, damaged, lines, written

import ragscore as rs


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
    n_loaded = 0
    for seed in range(N_FILES):
        by = random.Random(f"{name} {seed}")
        (tmp_path / file).write_bytes(
            damaged(written(good, how, by).encode("utf-8", "surrogatepass"), by)
        )
        n_loaded += sum(read(name, tmp_path, strict) is not None for strict in (True, False))
    # A reader that refused everything would pass: the good records of these files are read.
    (tmp_path / file).write_text(
        {"json": json.dumps, "lines": lines, "yaml": yaml.safe_dump, "text": "\n".join}[how](good),
        encoding="utf-8",
    )
    assert read(name, tmp_path, True) is not None
    assert n_loaded or N_FILES < 20  # few files may all be damaged


@pytest.mark.parametrize("name", list(READERS))
@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n",
        "\ufeff",
        "{}",
        "null",
        "[null]",
        '"text"',
        "1",
        "a,b\n1,2\n",
        "[" * 100_000,
        '{"a":' * 50_000,
        '{"\\ud800": 1}',
    ],
)
def test_files_of_nothing_nonsense_and_depth(name, content, tmp_path):
    for other, text in READERS[name][4].items():
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_text(text, encoding="utf-8")
    (tmp_path / READERS[name][1]).write_text(content, encoding="utf-8")
    for strict in (True, False):
        read(name, tmp_path, strict)


@pytest.mark.parametrize("name", IS_GOLDEN)
def test_golden_files_nearly_right_end_in_a_table_of_problems_or_one_error(name, tmp_path):
    format_name, file, good, how, beside, target = READERS[name]
    put(beside, tmp_path)
    n_told = 0
    for seed in range(N_FILES):
        by = random.Random(f"validate {name} {seed}")
        (tmp_path / file).write_bytes(
            damaged(written(good, how, by).encode("utf-8", "surrogatepass"), by)
        )
        found = ends_well(rs.validate, tmp_path / target, format=format_name)
        if found is not None:
            assert list(found.columns) == [
                "severity",
                "rule",
                "query_id",
                "file",
                "line",
                "field",
                "found",
                "allowed",
            ]
            assert found["rule"].notna().all() and found["found"].notna().all()
            n_told += 1
    assert n_told


def test_a_database_of_any_content_ends_in_frames_or_one_error(tmp_path):
    loaded = 0
    for seed in range(max(N_FILES, 10)):
        by, file = random.Random(seed), tmp_path / f"{seed}.db"
        base = sqlite3.connect(file)
        base.execute(
            "create table eval_runs (run_id, suite, commit_hash, config_snapshot_json, created_at,"
            " aggregate_json)"
        )
        base.execute("create table eval_query_results (run_id, query_id, result_json)")
        run = ["r1", "golden", "abc", '{"eval_k": 10}', "2025-01-01T00:00:00Z", "{}"]
        if by.random() < 0.5:
            run[by.randrange(6)] = by.choice([None, 1, 1.5, b"\xff", "", "[", "null", "x"])
        base.execute("insert into eval_runs values (?, ?, ?, ?, ?, ?)", run)
        for n, one in enumerate(RECORDS * 5):
            text = json.dumps(
                changed(one, by) if by.random() < 0.3 else one | {"query_id": f"q{n}"}
            )
            row = ["r1", f"q{n}", by.choice([text] * 9 + [None, b"\xff", 3, text[:20]])]
            base.execute("insert into eval_query_results values (?, ?, ?)", row)
        base.commit()
        base.close()
        if by.random() < 0.3:
            file.write_bytes(file.read_bytes()[: by.randrange(100, 9000)])
        loaded += sum(
            ends_well(rs.load_results, file, format="sqlite", strict=strict) is not None
            for strict in (True, False)
        )
    assert loaded

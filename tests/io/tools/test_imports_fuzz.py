"""Whatever stands in a foreign file, reading it ends in frames or in one DataError.

Each importer sees some files of 50 rows that the tool wrote, changed here and there.
tests/faults/test_inputs.py changes bytes of the tools' files.
"""

import json
import random
import warnings
from pathlib import Path

import pytest
from damaged_files import N_FILES, N_RECORDS, changed, damaged

import ragscore as rs
from ragscore.io.frames_in import table_rows
from ragscore.io.registry import TOOLS
from ragscore.io.source import Problems

FIXTURES = Path(__file__).parents[2] / "fixtures"
READ = {
    "ragas": "ragas_result.csv", "promptfoo": "promptfoo_results.json",
    "inspect": "inspect_log.json", "deepeval": "deepeval_run.json", "mlflow": "mlflow_result.csv",
    "traces": "phoenix_spans.csv", "table": "ragas_dataset.jsonl",
}  # fmt: skip
WRAPPED = {
    "inspect": lambda rows: {"eval": {}, "status": "success", "samples": rows},
    "deepeval": lambda rows: {"testCases": rows},
    "promptfoo": lambda rows: {"evalId": "e", "results": {"results": rows}},
}


def ends_well(source, tool):
    """Reads it leniently and strictly; returns the results that came out, if any did."""
    found = {}
    for strict in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for load in (rs.load_golden, rs.load_results):
                try:
                    found[load] = load(source, tool, strict=strict)
                except rs.DataError as error:
                    assert str(error)
    return found.get(rs.load_results)


NONSENSE = {
    "x.json": ["", "[", "[" * 100_000, "{}", "[null]", '"text"'],
    "x.jsonl": ["\n", "\ufeff", '{"a":' * 50_000],
    "x.csv": ["", "a,b\n1\n", 'a,b\n"1', "a,a\n1,2\n"],
}
ROWS_AT = {
    "promptfoo": lambda top: top["results"]["results"],
    "inspect": lambda top: top["samples"],
    "deepeval": lambda top: top["testCases"],
}


@pytest.mark.parametrize("tool", list(READ))
def test_rows_nearly_as_the_tool_wrote_them(tool, tmp_path):
    rows = [
        row.values
        for row in table_rows(FIXTURES / READ[tool], Problems(FIXTURES / READ[tool], strict=True))
    ]
    rows = ROWS_AT[tool](rows[0]) if tool in ROWS_AT else rows
    wrapped, file = WRAPPED.get(tool, list), tmp_path / "rows.json"
    for seed in range(N_FILES):
        by = random.Random(f"{tool} {seed}")
        share, many = by.choice([0.1, 0.4]), [by.choice(rows) for _ in range(N_RECORDS)]
        content = wrapped([changed(row, by) if by.random() < share else row for row in many])
        file.write_bytes(damaged(json.dumps(content).encode("utf-8", "surrogatepass"), by))
        ends_well(file, tool)
    # A reader that refused everything would pass: the rows as they are can be read.
    file.write_text(json.dumps(wrapped(rows)), encoding="utf-8")
    assert ends_well(file, tool) is not None


@pytest.mark.parametrize("tool", [*(tool.name for tool in TOOLS), "table"])
def test_files_of_nothing_nonsense_and_depth(tool, tmp_path):
    for name, contents in NONSENSE.items():
        for content in contents:
            (tmp_path / name).write_text(content, encoding="utf-8")
            ends_well(tmp_path / name, tool)

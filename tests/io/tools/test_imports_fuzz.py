"""Whatever stands in a foreign file, reading it ends in frames or in one DataError.

Each importer sees 20 files of 50 rows that the tool wrote, changed here and there, so 1,000
records, beside the examples that hypothesis makes from nothing. RAGSCORE_FUZZ multiplies all of
them (see conftest.EXAMPLES).
"""

import csv
import io
import json
import random
import warnings
from pathlib import Path

import pandas as pd
import pytest
from conftest import EXAMPLES
from damaged_files import N_FILES, N_RECORDS, changed, damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragscore as rs
from ragscore.io.registry import TOOLS
from ragscore.io.rows import table_rows
from ragscore.io.source import Problems

FIXTURES = Path(__file__).parents[2] / "fixtures"
READ = {
    "ragas": "ragas_result.csv", "promptfoo": "promptfoo_results.json",
    "inspect": "inspect_log.json", "deepeval": "deepeval_run.json", "mlflow": "mlflow_result.csv",
    "traces": "phoenix_spans.csv", "table": "ragas_dataset.jsonl",
}  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "",
            " ",
            "nan",
            "1e999",
            "[",
            "['a",
            "{'a': 1}",
            "\u202e",
            "\x00",
            "\ud800",
            "ﬁ",
            "yes",
            "a\r\nb",
        ]
    ),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
KEYS = {
    "ragas": ["user_input", "retrieved_contexts", "retrieved_context_ids", "reference_contexts",
    "response", "reference", "faithfulness", "persona_name"],
    "promptfoo": ["promptIdx", "testIdx", "vars", "testCase", "response", "gradingResult",
    "failureReason", "latencyMs", "tokenUsage", "provider", "prompt", "cost"],
    "inspect": ["id", "epoch", "input", "target", "scores", "metadata", "output", "error",
    "working_time", "limit"],
    "deepeval": ["input", "actualOutput", "expectedOutput", "context", "retrievalContext",
    "metricsData", "metadata", "completionTime", "tags", "tokenCost"],
    "mlflow": ["inputs", "request", "outputs", "trace", "spans", "expectations", "assessments",
    "state", "a/value", "a/error_message", "expected_facts/value"],
    "traces": ["context.trace_id", "parent_id", "span_kind", "start_time", "end_time",
    "attributes.retrieval.documents", "attributes.input.value", "annotations"],
    "otlp": ["traceId", "parentSpanId", "attributes", "status", "startTimeUnixNano"],
    "table": ["query_id", "query", "run_id", "repeat", "answer", "retrieved_ids", "doc_id", "rank",
    "score", "gold_ids", "grade", "answerable", "latency_ms", "score.x", "tags"],
}  # fmt: skip
WRAPPED = {
    "otlp": lambda rows: {"resourceSpans": [{"scopeSpans": [{"spans": rows}]}]},
    "inspect": lambda rows: {"eval": {}, "status": "success", "samples": rows},
    "deepeval": lambda rows: {"testCases": rows},
    "promptfoo": lambda rows: {"evalId": "e", "results": {"results": rows}},
}
GENTLE = settings(
    max_examples=EXAMPLES // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def ends_well(source, tool):
    """Reads it leniently and strictly; returns what came out, if anything did."""
    found = None
    for strict in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for load in (rs.load_results, rs.load_golden):
                try:
                    one = load(source, tool, strict=strict)
                except rs.DataError:
                    continue
                assert isinstance(one.problems, pd.DataFrame)
                found = one if isinstance(one, rs.Results) or found is None else found
    return found


@pytest.mark.parametrize("tool", list(KEYS))
@GENTLE
@given(data=st.data())
def test_records_of_any_content(tool, tmp_path, data):
    rows = data.draw(
        st.lists(
            st.one_of(
                st.dictionaries(st.one_of(st.sampled_from(KEYS[tool]), TEXTS), VALUES, max_size=8),
                VALUES,
            ),
            max_size=3,
        )
    )
    (tmp_path / "rows.json").write_text(
        json.dumps(WRAPPED.get(tool, lambda rows: rows)(rows)), encoding="utf-8"
    )
    ends_well(tmp_path / "rows.json", tool)


ROWS_AT = {
    "promptfoo": lambda top: top["results"]["results"],
    "inspect": lambda top: top["samples"],
    "deepeval": lambda top: top["testCases"],
}


@pytest.mark.slow
@pytest.mark.parametrize("tool", list(READ))
def test_rows_nearly_as_the_tool_wrote_them(tool, tmp_path):
    rows = [
        row.values
        for row in table_rows(FIXTURES / READ[tool], Problems(FIXTURES / READ[tool], strict=True))
    ]
    rows = ROWS_AT[tool](rows[0]) if tool in ROWS_AT else rows
    n_loaded = 0
    for seed in range(N_FILES):
        by = random.Random(f"{tool} {seed}")
        share, many = by.choice([0.0, 0.1, 0.4]), [by.choice(rows) for _ in range(N_RECORDS)]
        content = json.dumps(
            WRAPPED.get(tool, lambda rows: rows)(
                [changed(row, by) if by.random() < share else row for row in many]
            )
        )
        (tmp_path / "rows.json").write_bytes(damaged(content.encode("utf-8", "surrogatepass"), by))
        n_loaded += ends_well(tmp_path / "rows.json", tool) is not None
    assert n_loaded or N_FILES < 20  # few files may all be damaged


@pytest.mark.parametrize("tool", ["ragas", "mlflow", "traces", "table", "inspect"])
@GENTLE
@given(data=st.data())
def test_frames_and_csv_of_any_content(tool, tmp_path, data):
    names = data.draw(st.lists(st.sampled_from(KEYS[tool]), min_size=1, max_size=6, unique=True))
    rows = data.draw(
        st.lists(st.lists(VALUES, min_size=len(names), max_size=len(names)), max_size=3)
    )
    ends_well(pd.DataFrame(rows, columns=names, dtype=object), tool)
    written = io.StringIO()
    csv.writer(written, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"]))).writerows(
        [
            names,
            *[[repr(one) if isinstance(one, (list, dict)) else one for one in row] for row in rows],
        ]
    )
    mark = data.draw(st.sampled_from(["", "\ufeff"]))
    (tmp_path / "rows.csv").write_bytes((mark + written.getvalue()).encode("utf-8", "replace"))
    ends_well(tmp_path / "rows.csv", tool)


@pytest.mark.parametrize("tool", list(READ))
@GENTLE
@given(data=st.data())
def test_real_files_cut_short_or_with_a_byte_changed(tool, tmp_path, data):
    content = bytearray((FIXTURES / READ[tool]).read_bytes())
    content = content[: data.draw(st.integers(0, len(content)))]
    if content and data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path / READ[tool]
    file.write_bytes(bytes(content))
    ends_well(file, tool)
    ends_well(file, None)


@pytest.mark.parametrize("tool", [*(tool.name for tool in TOOLS), "table"])
@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n",
        "[",
        "[" * 100_000,
        "{}",
        "null",
        "[null]",
        '{"a":' * 50_000,
        '"text"',
        "\ufeff",
        "a,b\n1\n",
        'a,b\n"1',
        "a,a\n1,2\n",
    ],
)
def test_files_of_nothing_nonsense_and_depth(tool, content, tmp_path):
    for name in ("x.json", "x.jsonl", "x.csv"):
        (tmp_path / name).write_text(content, encoding="utf-8")
        ends_well(tmp_path / name, tool)


@pytest.mark.slow
def test_the_fuzz_would_see_what_it_reads():
    # The same harness on files that are whole gives frames: a reader that refused everything would
    # pass the tests above.
    for tool, name in READ.items():
        found = ends_well(FIXTURES / name, tool if tool != "table" else "ragas")
        assert isinstance(found, rs.Results) and len(found.responses) >= 4, tool

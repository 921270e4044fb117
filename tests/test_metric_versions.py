"""A metric's version says what its formula meant when a value was stored.

Values on a fixed example may change only with it.

`metric_values.json` beside this file holds version and values of every metric. After a deliberate
change of a formula raise the metric's `version` in the metric table, then write the file anew with
`python tests/test_metric_versions.py`.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from conftest import answer, hit, record

import ragscore as rs
from ragscore.scoring.metrics import CRITERIA, TABLE

FILE = Path(__file__).with_name("metric_values.json")
K = 3
SUPPORTS = [
    {"path": "docs/d1.md", "heading": "root", "snippets": ["snip"]},
    {"path": "docs/d2.md", "heading": "root", "snippets": ["snip"]},
]
FULL = {
    "query": "?", "answerable": True,
    "expected_doc_ids": [["d1"], {"any": ["d2"], "grade": 2}, {"any": ["d3"], "grade": 0}],
    "gold_supports": SUPPORTS,
    "required_support_groups": [["d1", "d2"]], "must_contain": ["merge"], "forbidden": ["never"],
    "expected_key_facts": [
        {"text": "use merge", "importance": "vital", "weight": 3},
        {"text": "keep all rows", "importance": "okay", "weight": -2},
    ],
    "reference_answer": "Use merge and keep the rows", "recency_conflict_rule": "cite_newer",
    "folders": ["docs"],
}  # fmt: skip
GOLDEN = [FULL | {"id": name} for name in ("good", "late", "poor", "refused")] + [
    {"id": "no", "query": "?", "answerable": False},
    {"id": "odd", "query": "?", "answerable": False},
]
BEST = [hit("c1", "d1", 1), hit("c2", "d2", 2), hit("c3", "d3", 3)]
LATE = [hit("x", "dx", 1), hit("y", "dx", 2), hit("c2", "d2", 3), hit("c1", "d1", 4)]
GOOD = answer("Use merge, and keep the rows!", paths=["docs/d1.md", "docs/d2.md"])
POOR = answer(
    "Never merge: keep all rows [File: docs/d2.md, Section: root]",
    paths=["docs/d1.md", "docs/d1.md", "else/e.md"],
)
RECORDS = [
    record("good", BEST, answer=GOOD, scope={"folders": ["docs"]}, elapsed_ms=10),
    record("late", LATE, answer=POOR, scope={"folders": ["else"]}, elapsed_ms=20),
    record("poor", LATE[:2], answer=answer(" "), scope={"folders": ["docs"]}, elapsed_ms=30),
    record("refused", [], answer=answer("no idea", grounded=False)),
    record("no", [], answer=answer("no idea", grounded=False)),
    record("odd", BEST, answer=answer("merge")), record("stray", [], error="request timed out"),
]  # fmt: skip


def example(folder: Path) -> tuple[rs.Results, rs.Golden]:
    (folder / "run").mkdir()
    (folder / "golden.yaml").write_text(json.dumps(GOLDEN), encoding="utf-8")
    (folder / "run" / "per_query.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in RECORDS), encoding="utf-8"
    )
    (folder / "run" / "run.json").write_text(
        json.dumps({"run_id": "run", "k": 10, "config": {"folder_mode": "on"}}), encoding="utf-8"
    )
    results = rs.load_results(folder / "run" / "per_query.jsonl")
    rows = [
        {"run_id": "run", "query_id": query, "criterion": name, "item": item, "value": value}
        for name in CRITERIA for query,
        values in (("good", {"c1": 1.0, "c2": 0.0, "c3": 1.0}), ("late", {"": 0.25})) for item,
        value in values.items()
    ]  # fmt: skip
    rows += [
        {"run_id": "run", "query_id": query, "criterion": "nuggets", "item": str(n), "value": value}
        for query, values in (("good", (1.0, 0.5)), ("late", (0.5, 1.0)), ("poor", (1.0, 1.0)))
        for n, value in enumerate(values, 1)
    ]
    rows += [
        {"run_id": "run", "query_id": "good", "criterion": name, "item": "", "value": 3.5}
        for name in ("judge_groundedness", "judge_correctness")
    ]
    rows += [
        {
            "run_id": "run",
            "query_id": "good",
            "criterion": "judge_refused",
            "item": "",
            "value": 0.0,
        }
    ]
    rows += [
        {
            "run_id": "run",
            "query_id": "poor",
            "criterion": "faithfulness",
            "item": "",
            "value": np.nan,
            "state": "judge_failed",
        }
    ]
    frames = {name: getattr(results, name) for name in ("runs", "hits", "citations")}
    frames["hits"] = results.hits.assign(call=results.hits["rank"].astype("Int64"))
    responses = results.responses.assign(cost_usd=[0.1, 0.2, 0.3, None, None, None, None])
    return rs.Results(**frames, responses=responses, judgments=pd.DataFrame(rows)), rs.load_golden(
        folder / "golden.yaml"
    )


def measured(results: rs.Results, golden: rs.Golden) -> dict[str, dict[str, object]]:
    labels = {
        metric.name.replace("@k", f"@{K}").replace("@r", "@0.5"): metric.version
        for metric in TABLE.values()
    }
    scores = rs.score(results, golden, list(labels), match="doc")
    return {
        label: {
            "version": version,
            "values": [None if np.isnan(value) else round(value, 9) for value in scores[label]],
        }
        for label, version in labels.items()
    }


def without_version(found: dict[str, dict[str, object]]) -> list[str]:
    """Metrics whose values on the example differ from the file's though their version is the same,
    or of which the file holds another version.
    """
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    return [label for label, of_metric in found.items() if kept.get(label) != of_metric]


@pytest.fixture
def small(tmp_path):
    return example(tmp_path)


def test_a_formulas_values_change_only_with_its_version(small):
    assert without_version(measured(*small)) == [], (
        "raise the versions of these metrics, and write metric_values.json anew"
    )


def test_the_example_gives_every_metric_of_the_table_different_values(small):
    found = measured(*small)
    assert set(found) == set(json.loads(FILE.read_text(encoding="utf-8")))
    assert [
        label
        for label, one in found.items()
        if len({value for value in one["values"] if value is not None}) < 2
    ] == []


def test_a_changed_formula_is_noticed(small, monkeypatch):
    halved = replace(
        TABLE["precision@k"], compute=lambda e, label: e.total(e.gain > 0) / label.k / 2
    )
    monkeypatch.setitem(TABLE, "precision@k", halved)
    assert without_version(measured(*small)) == [f"precision@{K}"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            f" {json.dumps(label)}: {json.dumps(one)}"
            for label, one in measured(*example(Path(folder))).items()
        ]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

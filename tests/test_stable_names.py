"""What is stored names things by what they are, and a metric's version says what it meant.

`metric_values.json` beside this file holds version and values of every metric on a fixed example.
They may change only together. After a deliberate change of a formula raise the metric's `version`
in the metric table, then write the file anew: run its test with RAGSCORE_RENEW=1.
"""

import json
import os
import pickle
import pickletools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.frames.golden_versions import short_hash
from ragscore.scoring.metrics import CRITERIA, TABLE
from ragscore.scoring.score import scored
from tests.compared import provenance


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (rs.match.by_chunk, "by_chunk"),
        (rs.match.by_doc, "by_doc"),
        (rs.match.by_span, "by_span"),
        (rs.match.by_anchor(), "by_anchor(snippets=True)"),
    ],
)
def test_a_rule_is_recorded_by_its_name_and_parameters(rule, name, demo):
    assert rule.__qualname__ == name
    if name in ("by_chunk", "by_doc"):
        results = demo.results.select("bm25")
        assert list(scored(results, demo.golden, rule=rule).settings["rule"]) == [name]


def test_a_rule_of_ones_own_is_recorded_with_a_hash_of_its_code(demo):
    def mine(hits, targets):
        return rs.match.by_doc(hits, targets)

    (name,) = scored(demo.results.select("bm25"), demo.golden, rule=mine).settings["rule"]
    assert name.startswith(mine.__qualname__ + "#")
    assert len(name.rpartition("#")[2]) == 8


def test_hashes_of_the_demo_are_what_they_were(demo):
    assert demo.golden.golden_hash == "63253d3c2a3be42c"
    metrics = ["hit@5", "recall@5", "refusal_correct"]
    (parts,) = provenance(rs.evaluate(demo.results.select("bm25"), demo.golden, metrics)).values()
    texts = {name: json.dumps(one, sort_keys=True) for name, one in parts.items() if one}
    assert {name: short_hash(text) for name, text in texts.items()} == {
        "golden": "43117429100d2f69",
        "rule": "3c4004f61fbab62e",
        "policies": "0c94a5c7bfc8d38a",
        "metric_versions": "71acc490696e8b1e",
        "fields": "ad7e11d64d50839b",
    }


def test_pickles_name_the_package_and_no_module_of_it(demo):
    error = rs.DataError("two", field="k", allowed="one")
    for kept in (demo.golden, demo.results.select("bm25"), error, rs.Reading("mine")):
        pickled = pickle.dumps(kept)
        named = {str(argument) for _, argument, _ in pickletools.genops(pickled)}
        assert {one for one in named if one.startswith("ragscore")} == {"ragscore"}, type(kept)
        assert type(pickle.loads(pickled)) is type(kept)


# A metric's version says what its formula meant when a value was stored

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


# criterion, query, item, value, state
JUDGED = [
    *((name, "good", item, value, "scored") for name in CRITERIA
      for item, value in (("c1", 1.0), ("c2", 0.0), ("c3", 1.0))),
    *((name, "late", "", 0.25, "scored") for name in CRITERIA),
    *(("nuggets", query, item, value, "scored")
      for query, values in (("good", (1.0, 0.5)), ("late", (0.5, 1.0)), ("poor", (1.0, 1.0)))
      for item, value in zip("12", values, strict=True)),
    ("judge_groundedness", "good", "", 3.5, "scored"),
    ("judge_correctness", "good", "", 3.5, "scored"),
    ("judge_refused", "good", "", 0.0, "scored"),
    ("faithfulness", "poor", "", np.nan, "judge_failed"),
]  # fmt: skip


@pytest.fixture
def example(write_golden, write_run):
    found = rs.load_results(write_run("run", RECORDS, k=10, config={"folder_mode": "on"}))
    columns = ["criterion", "query_id", "item", "value", "state"]
    return replace(
        found,
        hits=found.hits.assign(call=found.hits["rank"].astype("Int64")),
        responses=found.responses.assign(cost_usd=[0.1, 0.2, 0.3, *[None] * 4]),
        judgments=pd.DataFrame(JUDGED, columns=columns).assign(run_id="run"),
    ), rs.load_golden(write_golden(GOLDEN))


def measured(results: rs.Results, golden: rs.Golden) -> dict[str, dict[str, object]]:
    """Version and values of every metric."""
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


def test_a_formulas_values_change_only_with_its_version(example):
    found = measured(*example)
    if "RAGSCORE_RENEW" in os.environ:
        lines = [f" {json.dumps(label)}: {json.dumps(one)}" for label, one in found.items()]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    assert found == kept, "raise the versions of metrics that differ, and renew the file"
    # An example that gives a metric one value alone wouldn't notice a change.
    n_values = {label: len({*one["values"]} - {None}) for label, one in found.items()}
    assert [label for label, n in n_values.items() if n < 2] == []

"""A field of a response is one line of the schema: reader, writer, roles and mappings follow."""

import subprocess
import sys

# Adds two fields before anything of ragscore has read the schema, and looks for them everywhere.
ADDED = """
from ragscore.frames.schema import FIELDS, Field
FIELDS["responses"] += [
    Field("n_reviews", "whole", "answer.n_reviews", names="n_reviews reviews"),
    Field("region", "text", "region", names="region zone"),
]
import json, sys
from pathlib import Path
import ragscore as rs
from ragscore.collecting.replies import record_of
from ragscore.collecting.http import read_mapping, reply_of
from ragscore.io.servers import Redactor
from ragscore.io import run_records

line = {"query_id": "q", "query": "?", "mode": None, "hits_top_k": [], "answer":
        {"answer": "a", "n_reviews": 3, "citations": []}, "elapsed_ms": 1.5, "error": None,
        "region": "eu"}
file = Path("per_query.jsonl")
file.write_text(json.dumps(line) + "\\n" + json.dumps(line | {"query_id": "r"}) + "\\n")
texts = []
for run_records.FEWEST in (1 << 30, 0):
    found = rs.load_results(file)
    texts.append(found.responses.to_csv())
    assert found.responses["n_reviews"].tolist() == [3, 3]
    assert str(found.responses["n_reviews"].dtype) == "Int64"
    assert found.responses["region"].tolist() == ["eu", "eu"]
assert texts[0] == texts[1]

written = found.save("out.jsonl").read_text().splitlines()
assert json.loads(written[0]) == line, written[0]

table = [{"query_id": "q", "doc_id": ["d"], "zone": "us", "seen": 4}]
mapped = rs.load_results(table, columns={"n_reviews": "seen"}).responses
assert mapped["n_reviews"].tolist() == [4] and mapped["region"].tolist() == ["us"]

mapping = read_mapping({"url": "http://x", "response":
    {"answer": "said", "n_reviews": "meta.reviews", "region": "meta.zone"}})
reply = reply_of(mapping, {"said": "a", "meta": {"reviews": 5, "zone": "af"}})
record, _ = record_of({"query_id": "q", "query": "?"}, reply, 1.0, 1, Redactor())
assert record["answer"]["n_reviews"] == 5 and record["region"] == "af", record

file.write_text(json.dumps(line | {"answer": {"answer": "a", "n_reviews": "x"}}) + "\\n")
try:
    rs.load_results(file)
except rs.DataError as error:
    assert (error.line, error.field) == (1, "answer.n_reviews"), error
else:
    sys.exit("a value of another type was taken")
file.write_text(json.dumps({**line, "answer": {"answer": "a", "n_review": 3}}) + "\\n")
rs.load_results(file)
"""


def test_a_field_that_is_added_to_the_schema_is_known_everywhere(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", ADDED], cwd=tmp_path, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert "n_review" in told.stderr and "n_reviews" in told.stderr  # the warning of a misspelling

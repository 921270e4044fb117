"""A column that is called as a role is has it, or is refused with its row; none is left out."""

import json

import pandas as pd
import pytest

import ragscore as rs
from ragscore.frames.errors import DataError
from tests.messages import refused

GOLDEN = rs.load_golden({"q1": ["d1"], "q2": ["d2"]})
NAMES = ("run_id", "system", "tag")


def two_runs(name, first, second):
    """Two runs: one finds the document of each query, the other that of the other one."""
    found = [("q1", "d1", first), ("q2", "d2", first), ("q1", "d2", second), ("q2", "d1", second)]
    return [{"query_id": query, "doc_id": doc, name: run} for query, doc, run in found]


TEXTS = {
    "text": ("a", "b"),
    "long": ("a" * 201, "b" * 201),
    "many words": ("a run of more words than a name has", "b"),
    "two lines": ("a\nb", "c"),
    "nan": ("nan", "b"),
    "yes and no": ("yes", "no"),
    "True": ("True", "False"),
    "a list": ("[a]", "[b]"),
    "numbers": (1, 2),
    "decimal texts": ("0.1", "0.2"),
}
OTHERS = {
    "decimals": (0.1, 0.2),
    "booleans": (True, False),
    "a boolean and its text": (True, "True"),
    "mappings": ({"a": 1}, {"a": 2}),
    "tuples": (("a", 1), ("a", 2)),
    "lists": (["a"], ["b"]),
    "dates": (pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02")),
    "bytes": (b"a", b"b"),
    "a missing one": ("a", None),
}


def shapes(records, name):
    """The records as every kind of source that holds any values."""
    columns = {column: [row[column] for row in records] for column in records[0]}
    per_query = [
        {"query_id": row["query_id"], "retrieved": [row["doc_id"]], name: row[name]}
        for row in records
    ]
    return {
        "frame": pd.DataFrame({one: pd.Series(values) for one, values in columns.items()}),
        "records": records,
        "dict of columns": columns,
        "per query": per_query,
    }


def of_each(values, others):
    """Each kind of values under the first name, and these kinds under the others."""
    cases = [(NAMES[0], kind) for kind in values] + [
        (n, kind) for n in NAMES[1:] for kind in others
    ]
    return pytest.mark.parametrize(("name", "values"), [(n, values[kind]) for n, kind in cases])


@of_each(TEXTS, ("text", "numbers"))
def test_a_column_that_names_runs_keeps_them_apart(name, values, tmp_path):
    records = two_runs(name, *values)
    pd.DataFrame(records).to_csv(tmp_path / "a.csv", index=False)
    for kind, source in (shapes(records, name) | {"CSV": tmp_path / "a.csv"}).items():
        results = rs.load_results(source)
        assert results.runs["run_id"].astype("str").to_list() == list(map(str, values)), kind
    means = rs.score(results, GOLDEN, ["mrr"]).groupby("run_id")["mrr"].mean()
    assert means.to_dict() == {str(values[0]): 1.0, str(values[1]): 0.0}


@of_each(OTHERS, ("booleans",))
def test_what_names_no_run_is_refused_with_its_row(name, values):
    for kind, source in shapes(two_runs(name, *values), name).items():
        with pytest.raises(DataError) as caught:
            rs.load_results(source)
        assert caught.value.line is not None, kind
        assert caught.value.field == name, kind


@pytest.mark.parametrize(
    ("field", "n"),
    [("run_id", 2), ("run_name", 2), ("run", 2), ("system", 2), ("run_id", 6000)],
)
def test_a_run_file_of_two_runs_is_refused(field, n, tmp_path):
    file = tmp_path / "per_query.jsonl"
    hits = [{"rank": 1, "doc_id": "a", "snippet": "x" * 20}]
    file.write_text(
        "\n".join(
            json.dumps({"query_id": f"q{i}", field: "AB"[i == n - 1], "hits_top_k": hits})
            for i in range(n)
        )
    )
    with pytest.raises(DataError) as caught:
        rs.load_results(file)
    assert (caught.value.field, caught.value.line) == (field, n)
    apart = rs.load_results(file, format="table")
    assert apart.runs["run_id"].to_list() == ["A", "B"]


def test_no_column_has_a_role_that_is_given_to_none():
    rows = [{"query_id": "q1", "doc_id": "d1", "system": {"name": "m"}}]
    with refused("run_id", file="records", line=1, field="system") as caught:
        rs.load_results(rows)
    assert (caught.value.line, caught.value.field) == (1, "system")
    results = rs.load_results(rows, columns={"run_id": None})
    assert results.runs["run_id"].to_list() == ["run"]
    assert results.hits["x_system.name"].to_list() == ["m"]


def test_a_number_in_a_path_is_a_position_and_a_name_is_that_of_each_in_a_list():
    rows = [{"query_id": "q", "steps": [{"hits": [{"key": "a"}]}, {"hits": [{"key": "b"}]}]}]
    for path, ids in (("steps.1.hits.key", ["b"]), ("steps.0.hits.0.key", ["a"])):
        loaded = rs.load_results(rows, columns={"query_id": "query_id", "doc_id": path})
        assert loaded.hits["doc_id"].tolist() == ids


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([{"query_id": one, "doc_id": "d", "hops": n} for n, one in enumerate("abc")], None),
        ([{"query_id": "q", "doc_id": one, "year": 2000} for one in "abc"], None),
        (
            [{"query_id": "q", "doc_id": one, "n": int(one > "a")} for one in "abc"],
            {"grade": None},
        ),
    ],
    ids=["a row per query", "large numbers", "said to be none"],
)
def test_other_numbers_beside_judged_ids_are_silent(rows, columns):
    assert len(rs.load_golden(rows, columns=columns).targets) == 3

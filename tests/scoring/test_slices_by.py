"""What `by` means, everywhere: a name or several, each a column of the queries or a kind of tag."""

import pytest

import ragscore as rs
from ragscore.scoring.summary import slices
from tests.messages import refused


@pytest.fixture
def golden(write_golden):
    rows = [
        {"difficulty": "easy", "tags": ["x", "y"], "team": "red"},
        {"difficulty": "hard", "tags": ["x"], "team": "blue"},
        {"tags": [], "team": "red"},
    ]
    return rs.load_golden(
        write_golden(
            [
                row | {"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]}
                for n, row in enumerate(rows)
            ]
        )
    )


def test_several_names_make_a_slice_of_every_combination(golden):
    assert slices(golden, ["difficulty", "tag"]).values.tolist() == [
        ["q0", "easy", "x"],
        ["q0", "easy", "y"],
        ["q1", "hard", "x"],
        ["q2", "(none)", "(none)"],
    ]


def test_a_field_of_ones_own_needs_no_prefix(golden):
    assert "x_team" in golden.queries
    assert slices(golden, "team")["team"].tolist() == ["red", "blue", "red"]
    assert slices(golden, "x_team")["x_team"].tolist() == ["red", "blue", "red"]


@pytest.mark.parametrize(
    ("by", "named"),
    [
        ("dificulty", ["dificulty", "difficulty"]),
        (["tag", "teams"], ["teams", "team"]),
        (["tag", "tag"], ["tag"]),
        ([], []),
    ],
)
def test_an_unknown_name_lists_the_nearest(golden, by, named):
    with refused(*named, field="by"):
        slices(golden, by)


def test_a_column_called_group_is_a_slice_like_any():
    golden = rs.load_golden(
        [{"query_id": one, "relevant_doc_ids": ["d"], "group": one.upper()} for one in "ab"]
    )
    ev = rs.evaluate(rs.load_results({"a": ["d"], "b": ["x"]}), golden, ["hit@1"])
    assert ev.summary(by="group")[["group", "mean"]].values.tolist() == [["A", 1], ["B", 0]]


def test_a_summary_has_a_column_per_name(golden, write_run):
    from conftest import hit, record

    found = [record("q0", [hit("c", "d", 1)]), record("q1", []), record("q2", [])]
    ev = rs.evaluate(rs.load_results(write_run("a", found)), golden, ["hit@1"])
    rows = ev.summary("hit@1", by=["team", "tag"])
    assert rows[["team", "tag", "mean", "n"]].values.tolist() == [
        ["blue", "x", 0, 1],
        ["red", "(none)", 0, 1],
        ["red", "x", 1, 1],
        ["red", "y", 1, 1],
    ]

"""Any or all hits, any or all of the values listed.

Each expectation by itself, as the golden file or the caller states it.
"""

import json
from contextlib import nullcontext
from itertools import product

import pytest
from conftest import found, said

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.retrievers import retrievers
from tests.messages import refused, warned

CHOICES = ("any", "all")
CONTENT = {"expected_metadata": {"x": 1, "y": 2}, "expected_substrings": ["a", "b"]}
# Each hit as (metadata, text); every list of one to three of these is tried.
KINDS_OF_HIT = [
    ({"x": 1, "y": 2}, "a b"),
    ({"x": 1, "y": 0}, "a b"),
    ({"x": 1, "y": 2}, "a"),
    ({"x": 0, "y": 0}, "b a"),
    ({"x": 1, "y": 2}, "-"),
    ({}, "b"),
]
LISTS = [list(kinds) for n in (1, 2, 3) for kinds in product(range(len(KINDS_OF_HIT)), repeat=n)]


def satisfied_by(**choices):
    """`satisfied_by` of a golden row: expectation=(hits, values)."""
    return {
        "satisfied_by": {
            f"expected_{name}": {"hits": hits, "values": values}
            for name, (hits, values) in choices.items()
        }
    }


@pytest.fixture
def load(tmp_path):
    def write(questions, records):
        loaded = []
        for name, rows, read in (
            ("results.jsonl", records, rs.load_results),
            ("queries.jsonl", questions, rs.load_golden),
        ):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / name).write_text(lines, encoding="utf-8")
            loaded.append(read(tmp_path / name) if rows else None)
        return loaded

    return write


def first_match(kinds, of_metadata, of_substrings):
    """The same worked out hit by hit.

    Rank of the first hit that satisfies everything, None where the question fails.
    """
    needed = {"any": any, "all": all}
    (meta_hits, meta_values), (text_hits, text_values) = of_metadata, of_substrings
    in_meta = [
        needed[meta_values](
            KINDS_OF_HIT[kind][0].get(key) == value for key, value in {"x": 1, "y": 2}.items()
        )
        for kind in kinds
    ]
    in_text = [
        needed[text_values](text in KINDS_OF_HIT[kind][1] for text in "ab") for kind in kinds
    ]
    if (meta_hits == "all" and not all(in_meta)) or (text_hits == "all" and not all(in_text)):
        return None
    return next(
        (rank for rank, both in enumerate(zip(in_meta, in_text, strict=True), 1) if all(both)), None
    )


@pytest.mark.large
@pytest.mark.parametrize(
    ("of_metadata", "of_substrings"), list(product(product(CHOICES, CHOICES), repeat=2))
)
def test_every_combination_passes_what_a_hit_by_hit_check_passes(load, of_metadata, of_substrings):
    questions = [
        {
            "query": f"q{n}",
            **CONTENT,
            **satisfied_by(metadata=of_metadata, substrings=of_substrings),
        }
        for n in range(len(LISTS))
    ]
    hits = [
        [
            found(rank, document=KINDS_OF_HIT[kind][1], **KINDS_OF_HIT[kind][0])
            for rank, kind in enumerate(kinds, 1)
        ]
        for kinds in LISTS
    ]
    results, golden = load(questions, [said(f"q{n}", one) for n, one in enumerate(hits)])
    expected = [first_match(kinds, of_metadata, of_substrings) for kinds in LISTS]
    scores = rs.score(results, golden, ["passed", "mrr"])
    assert scores["passed"].tolist() == [float(rank is not None) for rank in expected]
    assert scores["mrr"].tolist() == [1 / rank if rank else 0 for rank in expected]
    assert retrievers(results, golden).matrix["dense"].tolist() == [
        f"✅ #{rank}" if rank else "❌" for rank in expected
    ]
    assert 0 < sum(rank is not None for rank in expected) < len(LISTS)


@pytest.mark.large
@pytest.mark.filterwarnings("ignore:ids of")
@pytest.mark.parametrize(
    ("hits", "values", "keys", "rank"),
    [
        ("any", "any", "cab", 2), ("any", "any", "cc", None), ("any", "all", "cab", 3),
        ("any", "all", "ca", None),
        ("all", "any", "aba", 1), ("all", "any", "abc", None), ("all", "all", "aab", 3),
        ("all", "all", "aa", None), ("all", "all", "abc", None),
    ],
)  # fmt: skip
def test_source_keys_by_any_or_all_hits_and_keys(load, hits, values, keys, rank):
    question = {"query": "q", "expected_source_keys": ["a", "b"]}
    record = said("q", [found(rank, key) for rank, key in enumerate(keys, 1)])
    results, golden = load([question | satisfied_by(source_keys=(hits, values))], [record])
    assert rs.score(results, golden, ["passed", "mrr"])[["passed", "mrr"]].to_numpy().tolist() == [
        [float(rank is not None), 1 / rank if rank else 0]
    ]
    results, plain = load([question], [record])
    (row,) = retrievers(results, plain, hits=hits, source_keys=values).per_query.to_dict("records")
    assert row["passed"] == float(rank is not None)


@pytest.mark.large
def test_a_golden_row_goes_before_the_callers_choice(load):
    questions = [
        {
            "query": "own",
            "expected_metadata": {"x": 1, "y": 2},
            **satisfied_by(metadata=("any", "any")),
        },
        {
            "query": "half",
            "expected_metadata": {"x": 1, "y": 2},
            "satisfied_by": {"expected_metadata": {"values": "any"}},
        },
        {"query": "none", "expected_metadata": {"x": 1, "y": 2}},
    ]
    results, golden = load(
        questions, [said(query, [found(1, x=1), found(2)]) for query in ("own", "half", "none")]
    )
    assert retrievers(results, golden).per_query["passed"].tolist() == [1, 1, 0]
    assert retrievers(results, golden, hits="all").per_query["passed"].tolist() == [1, 0, 0]
    assert retrievers(results, golden, metadata="all").per_query["passed"].tolist() == [1, 1, 0]


def test_only_hits_within_the_runs_k_must_satisfy(load):
    question = {
        "query": "q",
        "expected_metadata": {"x": 1},
        **satisfied_by(metadata=("all", "all")),
    }
    results, golden = load(
        [question],
        [
            said("q", [found(1, x=1), found(2, x=2)], "one", k=1),
            said("q", [found(1, x=1), found(2, x=2)], "two", k=2),
        ],
    )
    assert rs.score(results, golden, ["passed"])["passed"].tolist() == [1, 0]
    assert retrievers(results, golden, k=1).per_query["passed"].tolist() == [1, 1]


def test_no_hit_is_not_every_hit(load):
    results, golden = load(
        [{"query": "q", "expected_substrings": ["s"], **satisfied_by(substrings=("all", "any"))}],
        [said("q", [])],
    )
    assert rs.score(results, golden, ["passed"])["passed"].tolist() == [0]


@pytest.mark.large
@pytest.mark.parametrize(
    ("texts", "shown"),
    [(("sss", "...."), "?"), (("sss", "....", "none"), "❌"), (("sss", "s..."), "✅ #1")],
)
def test_one_undecided_hit_leaves_every_hit_undecided(load, texts, shown):
    question = {
        "query": "q",
        "expected_substrings": ["s"],
        **satisfied_by(substrings=("all", "any")),
    }
    results, golden = load(
        [question], [said("q", [found(rank, document=text) for rank, text in enumerate(texts, 1)])]
    )
    results = rs.Results(
        runs=results.runs,
        responses=results.responses,
        hits=results.hits.assign(text_cut=results.hits["text"].str.contains(".", regex=False)),
    )
    with warned(2) if shown == "?" else nullcontext():
        assert retrievers(results, golden).matrix["dense"].tolist() == [shown]


@pytest.mark.large
def test_a_run_whose_hits_must_all_satisfy_is_compared_and_stored_alike(load, tmp_path):
    question = {
        "query": "q",
        "expected_metadata": {"x": 1},
        **satisfied_by(metadata=("all", "all")),
    }
    results, golden = load(
        [question],
        [
            said("q", [found(1, x=1), found(2, x=2)], "old"),
            said("q", [found(1, x=1), found(2, x=1)], "new"),
        ],
    )
    assert compare_runs(results, golden, "old", "new", metrics=["mrr"]).per_query[
        "outcome"
    ].tolist() == ["win"]
    store = rs.RunStore(tmp_path / "store")
    store.save(results, golden=golden)
    assert store.scores(["mrr"]).set_index("run_id")["mrr"].to_dict() == {"old": 0, "new": 1}
    assert rs.score(store.load(), golden, ["mrr"]).set_index("run_id")["mrr"].to_dict() == {
        "old": 0,
        "new": 1,
    }


def test_choices_survive_the_file_and_change_the_questions_hash(load, tmp_path, write_golden):
    questions = [
        {
            "query": "a",
            **CONTENT,
            **satisfied_by(metadata=("all", "any"), substrings=("any", "all")),
        },
        {
            "query": "b",
            "expected_source_keys": ["k"],
            "satisfied_by": {"expected_source_keys": {"hits": "all"}},
        },
        {"query": "c", **CONTENT},
    ]
    _, golden = load(questions, [])
    again = rs.io.write_predicates(golden, tmp_path / "again.jsonl")
    assert [
        json.loads(line) for line in again.read_text(encoding="utf-8").splitlines()
    ] == questions
    assert rs.load_golden(again).golden_hash == golden.golden_hash
    plain = load(
        [
            {name: value for name, value in one.items() if name != "satisfied_by"}
            for one in questions
        ],
        [],
    )[1]
    assert (plain._query_hashes == golden._query_hashes).tolist() == [False, False, True]
    ours = rs.load_golden(write_golden([{"id": one["query"], **one} for one in questions]))
    assert ours.checks.to_dict("records") == golden.checks.to_dict("records") and not [
        name for name in ours.queries if name.startswith("x_")
    ]


@pytest.mark.parametrize(
    ("written", "field", "named"),
    [
        (
            "all",
            "satisfied_by",
            ["all", "expected_source_keys", "expected_metadata", "expected_substrings"],
        ),
        ({"metadata": {}}, "satisfied_by", ["metadata", "expected_source_keys"]),
        (
            {"expected_metadata": "all"},
            "satisfied_by.expected_metadata",
            ["all", "hits", "values"],
        ),
        (
            {"expected_metadata": {"hit": "all"}},
            "satisfied_by.expected_metadata",
            ["hit", "hits", "values"],
        ),
        (
            {"expected_metadata": {"hits": "most"}},
            "satisfied_by.expected_metadata.hits",
            ["most", "any", "all"],
        ),
        (
            {"expected_metadata": {"hits": ["all"]}},
            "satisfied_by.expected_metadata.hits",
            ['["all"]', "any", "all"],
        ),
    ],
)
def test_a_bad_choice_is_one_error_with_its_line(load, write_golden, written, field, named):
    with refused(*named, line=2, field=field):
        load(
            [
                {"query": "ok", "expected_source_keys": ["k"]},
                {"query": "q", **CONTENT, "satisfied_by": written},
            ],
            [],
        )
    with refused(*named, line=2, field=field):
        rs.load_golden(
            write_golden([{"id": "q", "query": "q", **CONTENT, "satisfied_by": written}])
        )


@pytest.mark.parametrize(
    ("expectation", "idle"),
    [
        (CONTENT, []),
        ({"expected_metadata": {"x": 1}}, ["expected_substrings.hits"]),
        ({"expected_substrings": ["a"]}, ["expected_metadata.hits"]),
        (
            CONTENT | {"expected_source_keys": ["k"]},
            ["expected_metadata.hits", "expected_substrings.hits"],
        ),
        (
            CONTENT | {"expected_empty": True},
            ["expected_metadata.hits", "expected_substrings.hits"],
        ),
    ],
)
def test_choices_that_decide_nothing_are_found(write_golden, expectation, idle):
    row = {
        "id": "q",
        "query": "?",
        **expectation,
        "satisfied_by": {
            name: {"hits": "all"} for name in ("expected_metadata", "expected_substrings")
        },
    }
    table = rs.validate(write_golden([row]))
    found_idle = table[table["rule"] == "choices are about what decides"]
    assert found_idle["found"].tolist() == idle and set(found_idle["field"]) <= {"satisfied_by"}

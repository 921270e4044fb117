"""Golden sets written as our golden file.

What was loaded comes back, whatever the set holds; what can't come back is refused.
"""

import gzip
import json
import warnings
from dataclasses import replace

import pandas as pd
import pytest
from conftest import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from plausible_runs import put

import ragscore as rs
from tests.messages import refused, warned

ROWS = [
    {
        "id": "001", "query": "yes", "answerable": False,
        "expected_doc_ids": ["no", ["a", "b"], {"any": ["c"], "grade": 2}],
        "expected_chunk_ids": {"a#1": 3, "2026-01-01": 0},
        "chunker_version": "1.10",
        "gold_supports": [
            {"path": "a.md", "heading": "h > i", "start": 3, "end": 9, "span_unit": "char",
             "doc_id": "a", "date": "2026-01-31", "snippets": ["one", "two\nlines"], "grade": 2,
             "page_image": {"n": 1}},
            {"path": "a.md"},
        ],
        "required_support_groups": [[0, 1], ["a", 7], ["nowhere"]],
        "expected_source_keys": ["k"], "expected_texts": ["a sentence", ["one", "two"]],
        "expected_metadata": {"year": 2024, "crop": "2024", "ok": True},
        "expected_substrings": ["t/ha"],
        "must_not_contain_source_keys": ["x"], "expected_empty": True, "must_contain": ["m"],
        "forbidden": ["~"], "expected_key_facts": ["fact: one"],
        "recency_conflict_rule": "cite_newer", "reference_answer": " kept\tas it is ", "lang": "no",
        "difficulty": "hard", "category": "12:30", "group": "g",
        "variant": "typo", "accepted_answers": ["so", "thus"], "tags": ["t"],
        "vaults": ["v"], "folders": ["f"],
        "filters": {"product": "P1", "year": [2024, None]}, "reviewed": True, "note": "a",
        "ids": [1, "x"],
    },
    {"id": "g2", "query": "what?", "answerable": False},
    {"id": "g3", "query": "unlabelled", "weight": 1.5, "deep.name": "a"},
    {"id": "g4", "query": "judged", "expected_doc_ids": {"a": 0}},
    {"id": "g5", "query": "plain", "expected_doc_ids": ["a"], "note": "[not json"},
]  # fmt: skip
FRAMES = ("queries", "targets", "tags", "checks", "support_groups", "conditions")


def quietly(load, *arguments):
    with warnings.catch_warnings():
        # unlabelled questions, names that look like slips
        warnings.simplefilter("ignore", UserWarning)
        return load(*arguments)


def assert_comes_back(golden, folder, name):
    file = golden.save(folder / name, format="golden")
    again = quietly(rs.load_golden, file)
    for frame in FRAMES:
        pd.testing.assert_frame_equal(
            getattr(again, frame), getattr(golden, frame), check_like=True
        )
    assert again.golden_hash == golden.golden_hash
    assert again.save(folder / f"again_{name}", format="golden").read_bytes() == file.read_bytes()
    return file


@pytest.mark.parametrize("name", ["g.yml.gz", "g.jsonl"])
def test_every_suffix_gives_equal_frames_rows_and_the_same_bytes_again(
    write_golden, tmp_path, name
):
    file = assert_comes_back(quietly(rs.load_golden, write_golden(ROWS)), tmp_path, name)
    if name == "g.jsonl":
        assert [json.loads(line) for line in file.read_text().splitlines()] == ROWS
    else:
        assert gzip.decompress(file.read_bytes()).startswith(b"#")


def test_yaml_reads_well_and_says_what_should_be_refused(write_golden, tmp_path):
    text = (
        "- id: g1\n  query: what is a join?\n  expected_doc_ids: [d1, d2]\n  gold_supports:\n"
        "  - {path: a.md, heading: Joins}\n  difficulty: easy\n  tags: [sql]\n  mine: 3\n- id:"
        " '002'\n  query: weather?\n  answerable: false\n"
    )
    written = (
        rs.load_golden(write_golden(text)).save(tmp_path / "out.yaml", format="golden").read_text()
    )
    comment, rows = written.split("- id", 1)
    assert "- id" + rows == text
    assert (
        all(line.startswith("# ") for line in comment.splitlines())
        and "Should refuse: `answerable: false`" in comment
    )


QRELS = {"query_id": "q", "query": "?", "relevant_docs": {"a": 2, "b": 0}, "reference_answer": "r",
         "deep": {"er": [1]}}  # fmt: skip
CASE = {"id": "c", "question": "?", "expected_key_facts": ["f"], "required_support_groups": [[0]],
        "gold_supports": [{"rel_path": "a.md", "snippets": ["s"], "mine": 1}]}  # fmt: skip
TABLE = [
    {"qid": "1", "question": "?", "expected_texts": ["born in 1979", "a fact"],
     "gold_answers": ["Mark Twain", "Samuel Clemens"]},
    {"qid": "2", "question": "!", "expected_texts": ["x"], "gold_answers": ["a"]},
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "written"),
    [
        ([QRELS], "b: 0"),
        ([CASE], "snippets: [s]"),
        (TABLE, "expected_texts: [born in 1979, a fact]"),
        (TABLE, "accepted_answers: [Samuel Clemens]"),
        ([{"id": "a", "query": "?", "expected_doc_ids": []}], "query: '?'\n  answerable: false\n"),
    ],
)
@pytest.mark.parametrize("name", ["out.yaml", "out.jsonl"])
def test_sets_of_every_kind_come_back_from_golden_files(tmp_path, rows, written, name):
    golden = quietly(rs.load_golden, put(tmp_path, rows, "in.jsonl"))
    text = assert_comes_back(golden, tmp_path, name).read_text()
    assert name == "out.jsonl" or written in text


def test_a_part_of_a_set_is_numbered_anew(write_golden, tmp_path):
    golden = rs.load_golden(
        write_golden(
            [
                {"id": one, "query": "?", "expected_doc_ids": [one], "lang": one}
                for one in ("de", "en")
            ]
        )
    )
    part = golden.select("lang == 'en'")
    again = rs.load_golden(part.save(tmp_path / "out.yaml", format="golden"))
    assert again.golden_hash == part.golden_hash and again.queries["position"].tolist() == [0]


ONE = {"id": "q", "query": "?", "expected_doc_ids": ["d"], "tags": ["t"], "must_contain": ["m"]}


@pytest.mark.parametrize(
    ("frame", "change", "field"),
    [
        ("queries", {"answerable": None}, "golden.queries.answerable"),
        ("queries", {"x_tags": "t"}, "queries"),
        ("tags", [{"kind": "team", "value": "search"}], "golden.tags"),
        ("tags", [{"kind": "tag", "value": "t"}], "golden.tags"),
        ("checks", [{"kind": "style", "text": "short"}], "golden.checks"),
        ("checks", [{"kind": "product", "text": "P1"}], "golden.checks"),
        ("targets", [{"level": "doc", "target_id": "again", "doc_id": "d", "alternative": 0,
                      "grade": 1}], "golden.targets"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["out.yaml", "out.jsonl"])
def test_what_would_not_come_back_is_refused_and_not_left_out(
    write_golden, tmp_path, frame, change, field, name
):
    golden = rs.load_golden(write_golden([ONE]))
    rows = getattr(golden, frame)
    if isinstance(change, dict):
        edited = rows.assign(**change)
    else:
        more = pd.DataFrame(change).assign(query_id="q")
        edited = pd.concat([rows, more], ignore_index=True).astype(rows.dtypes)
    with refused(*([f"1 of {len(edited)}"] if len(edited) > len(rows) else []), field=field):
        replace(golden, **{frame: edited}).save(tmp_path / name, format="golden")
    assert not (tmp_path / name).exists()


def test_resolved_spans_are_counted_as_left_out(write_golden, tmp_path):
    golden = rs.load_golden(write_golden([{"id": "q", "query": "?", "expected_chunk_ids": ["c"]}]))
    spans = golden.targets.assign(doc_id="d", start=1, end=5, span_unit="line")
    with warned("out.yaml", 1):
        file = replace(golden, targets=spans).save(tmp_path / "out.yaml", format="golden")
    assert rs.load_golden(file).golden_hash == golden.golden_hash


TEXT = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    [
        "",
        "no",
        "001",
        "1e3",
        "12:30",
        "2026-01-31",
        "~",
        "<<",
        "=",
        "- a",
        "a: b",
        "# c",
        "[1]",
        "{}",
        " x",
        "x\n",
    ]
)
IDS = TEXT.filter(bool)
GRADES = st.integers(0, 2**31 - 1)
WANTED = st.lists(
    IDS
    | st.lists(IDS, min_size=1, max_size=2)
    | st.fixed_dictionaries(
        {"any": st.lists(IDS, min_size=1, max_size=2)}, optional={"grade": GRADES}
    ),
    max_size=3,
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
SUPPORT = st.fixed_dictionaries(
    {"path": IDS},
    optional={"heading": TEXT, "snippets": st.lists(TEXT, max_size=2), "doc_id": IDS,
    "grade": GRADES, "date": st.just("2026-01-31"), "x": VALUES, "end": st.none()},
) | st.builds(lambda start: {"path": "p", "start": start, "end": start + 3},
st.integers(0, 2**62))  # fmt: skip
TEXTS = st.lists(TEXT, max_size=2)
ROW = st.fixed_dictionaries(
    {"query": TEXT},
    optional={
        "answerable": st.none() | st.booleans(),
        "expected_doc_ids": WANTED | st.dictionaries(IDS, GRADES, max_size=3),
        "expected_chunk_ids": WANTED,
        "expected_source_keys": WANTED, "expected_texts": WANTED, "chunker_version": TEXT,
        "gold_supports": st.lists(SUPPORT, max_size=2),
        "required_support_groups": st.lists(st.lists(IDS | st.integers(0, 3), max_size=2),
        max_size=3), "expected_metadata": st.dictionaries(TEXT, VALUES, max_size=2),
        "expected_substrings": TEXTS, "expected_empty": st.booleans(), "must_contain": TEXTS,
        "expected_key_facts": TEXTS, "recency_conflict_rule": TEXT,
        "reference_answer": TEXT, "lang": TEXT, "tags": TEXTS, "folders": TEXTS, "filters": VALUES,
        "own": VALUES, "%.json": VALUES,
    },
)  # fmt: skip


@settings(max_examples=-(-EXAMPLES // 2))
@given(rows=st.lists(ROW, min_size=1, max_size=3), name=st.sampled_from(["g.yaml", "g.jsonl"]))
def test_any_golden_set_comes_back(tmp_path_factory, rows, name):
    folder = tmp_path_factory.mktemp("golden")
    (folder / "in.jsonl").write_text(
        "".join(json.dumps({"id": f"q{n}", **row}) + "\n" for n, row in enumerate(rows))
    )
    try:
        golden = quietly(rs.load_golden, folder / "in.jsonl")
    except rs.DataError:  # one target with two grades
        return
    assert_comes_back(golden, folder, name)

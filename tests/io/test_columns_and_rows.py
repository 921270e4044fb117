"""Hits read as columns are those read row by row: frames, problems, warnings, errors."""

import json
import warnings
from dataclasses import fields

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.io import tables
from ragscore.io.run_records import NotPlain


def _declined(*_, **__):
    raise NotPlain


def outcome(path, strict):
    """Frames, or the error's text, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = rs.load_results(path, strict=strict)
            frames = {item.name: getattr(found, item.name) for item in fields(found)}
        except rs.DataError as error:
            frames = {"error": str(error)}
    return frames, [str(one.message) for one in caught]


def assert_same_by_rows(path, strict):
    fast, fast_warnings = outcome(path, strict)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables, "hit_objects", _declined)
        slow, slow_warnings = outcome(path, strict)
    assert fast_warnings == slow_warnings and fast.keys() == slow.keys()
    for name, frame in slow.items():
        if isinstance(frame, pd.DataFrame):
            pd.testing.assert_frame_equal(fast[name], frame, check_exact=True, check_like=True)
        else:
            assert fast[name] == frame


# What a field of a hit may hold in JSON: mostly one kind of value, sometimes any.
ANY = st.one_of(
    st.none(), st.booleans(), st.sampled_from([0, 1, 2, -1, 2**31, 2**53 + 1, 2**63, 10**30]),
    st.sampled_from([0.5, -0.0, 1.0, 1e300]), st.sampled_from(["", "a", "1", "yes", "é", " > "]),
    st.sampled_from([[], ["a"], [1, "b"], [None], {}, {"a": 1}, {"a": None}, {"a": {"b": [0.5]}}]),
)  # fmt: skip
OF_KIND = {
    "id": ["d1", "d2", "é", 7, None], "text": ["one", "two ...", "", None],
    "number": [0.5, 1, 2, -1.5, None], "whole": [1, 2, 3, None], "flag": [True, False, None],
    "texts": [["a", "b"], [], ["a > b"], [""], "a", None],
    "rank": [1, 2, 3], "object": [{"a": 1}, {"a": 2, "b": "x"}, {"source_key": "k"}, None],
}  # fmt: skip


def hits_with(**kinds):
    """Lists of hits with fields of these kinds, some with fields of their own."""

    def lists(draw, is_odd):
        fields = draw(st.lists(st.sampled_from([*kinds]), unique=True, max_size=len(kinds)))
        fields += draw(st.lists(st.sampled_from(["own", "own.a", "json", "scor"]), max_size=2))
        found = []
        for rank in range(1, draw(st.integers(0, 3)) + 1):
            hit = {}
            for name in fields:
                kind = kinds.get(name, "number")
                plain = st.just(rank) if kind == "rank" else st.sampled_from(OF_KIND[kind])
                hit[name] = draw(ANY if is_odd and not draw(st.integers(0, 5)) else plain)
            found.append(dict(sorted(hit.items(), reverse=draw(st.booleans()))))
        return draw(ANY) if is_odd and not draw(st.integers(0, 9)) else found

    return lists


FILES = {
    "table": (
        "retrieved",
        hits_with(doc_id="id", id="id", text="text", score="number", rank="rank", meta="object"),
        lambda n, hits: {"qid": f"q{n}", "question": "what", "retrieved": hits},
    ),
    "passages": (
        "passages", hits_with(doc_id="id", content="text", score="number", position="rank"),
        lambda n, hits: {"qid": f"q{n}", "answer": "a", "passages": hits},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@given(st.data(), st.booleans(), st.booleans())
def test_hits_of_a_file_of_records(tmp_path_factory, name, data, strict, is_odd):
    _, lists, record = FILES[name]
    rows = [record(n, lists(data.draw, is_odd)) for n in range(data.draw(st.integers(1, 4)))]
    if is_odd and not data.draw(st.integers(0, 3)):
        rows.append(rows[0] | {"other": data.draw(ANY)})
    path = tmp_path_factory.getbasetemp() / f"{name}.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    assert_same_by_rows(path, strict)


def test_fractions_are_gains_whose_levels_count_from_0():
    frame = pd.DataFrame({"query_id": list("qqr"), "doc_id": list("aba"), "grade": [0.5, 1, 0.25]})
    with pytest.warns(UserWarning, match=r"fractions \(0.25, 0.5\)"):
        targets = rs.load_golden(frame).targets
    assert targets["gain"].tolist() == [0.5, 1, 0.25]
    assert targets["grade"].tolist() == [2, 3, 1]  # of 0, .25, .5 and 1

"""What is stored or sent names things by what they are, not by the module that they lie in."""

import json
import pickle
import pickletools

import pytest

import ragscore as rs
from ragscore.frames.golden_versions import short_hash
from ragscore.scoring.score import scored
from tests.compared import provenance


def modules_in(pickled):
    return {
        argument
        for _, argument, _ in pickletools.genops(pickled)
        if isinstance(argument, str) and argument.startswith("ragscore")
    }


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
        assert modules_in(pickled) == {"ragscore"}, type(kept)
        assert type(pickle.loads(pickled)) is type(kept)

"""How messages name things: the nearest of what is known, and never a list of thousands."""

from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

import ragscore as rs
from ragscore.frames.errors import (
    DataError,
    check_choice,
    nearest,
    packages_of,
    unsaid,
    warn,
)
from tests.messages import check, refused

QUERIES = [f"pd-{n:03}" for n in range(60)]


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("hits@1", ["mrr@10", "hit@1"], "one of mrr@10, hit@1; did you mean hit@1?"),
        ("MRR@10", ["mrr@10", "hit@1"], "one of mrr@10, hit@1; did you mean mrr@10?"),
        ("dense", ["dense-v2-2024", "hybrid"], "one of dense-v2-2024, hybrid; did you mean dense-"),
        ("nobody", ["dense", "hybrid"], "one of dense, hybrid"),
        ("x", [], "there are none"),
        ("pd-14", QUERIES, "did you mean pd-014?"),
        (14, QUERIES, "did you mean pd-014?"),
        ("zz", QUERIES, "one of pd-000, pd-001, pd-002, pd-003, pd-004, pd-005, pd-006, pd-007,"),
        (None, ["a", "b"], "one of a, b"),
        (pd.DataFrame({"a": [1]}), ["a", "b"], "one of a, b"),
    ],
)
def test_the_nearest_of_known_names_is_named(name, known, text):
    assert nearest(name, known).startswith(text)


@pytest.mark.parametrize("value", [None, 5, [], ["doc"], pd.DataFrame(), pd.Series(["doc"])])
def test_a_choice_is_one_of_a_few_words(value):
    check_choice("doc", ("none", "doc"), "collapse")
    with refused("none, doc", field="collapse"):
        check_choice(value, ("none", "doc"), "collapse")


def test_of_an_extra_the_package_is_named_and_never_ours_of_the_index():
    with pytest.raises(DataError) as caught, packages_of("collect", field="system"):
        raise ModuleNotFoundError(name="httpx")
    check(caught.value, "httpx", "'.[collect]'", field="system")


def test_a_warning_that_is_kept_back_is_listed_and_others_are_given():
    with pytest.warns(UserWarning) as given, unsaid() as outer, unsaid("few") as said:
        with ThreadPoolExecutor(1) as pool:  # another thread keeps nothing back
            pool.submit(warn, "few hits there").result()
        warn("few hits")
        warn("many hits")
    assert (said, outer) == (["few hits"], ["many hits"])
    assert [str(one.message) for one in given] == ["few hits there"]


def test_an_error_names_a_few_of_many_columns_and_ids():
    many = pd.DataFrame([range(1_986)], columns=[f"q{n}" for n in range(1_986)])
    with pytest.raises(rs.DataError) as caught:
        rs.Golden(queries=many)
    assert "1,986 in all" in str(caught.value) and len(str(caught.value)) < 400

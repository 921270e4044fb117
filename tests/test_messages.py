"""Facts of a sentence are checked where it is said; the sentence itself is compared on one page."""

import warnings

import pytest

import ragscore as rs
from tests import messages
from tests.messages import check, made_elsewhere, names, plain, read, refused, says, warned, write


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(messages, "SAID", {})


def error(**more):
    given = {"file": "/a/b/runs.csv", "line": 7, "field": "rank"} | more
    return rs.DataError("found 'x1' in 12 rows", allowed="a whole number", **given)


@pytest.mark.parametrize(
    "facts",
    [{"file": "runs.csv"}, {"file": "b/runs.csv", "line": 7}, {"field": "rank", "line": 7}],
)
def test_the_facts_of_an_error_are_its_own(facts):
    with refused("x1", 12, "a whole number", **facts) as caught:
        raise error()
    assert caught.value.line == 7


@pytest.mark.parametrize(
    ("named", "facts"),
    [
        (["x"], {}), ([1], {}), (["x12"], {}), ([], {"file": "uns.csv"}), ([], {"file": "a.csv"}),
        ([], {"line": 8}), ([], {"line": None}), ([], {"field": "ran"}), ([], {"file": None}),
    ],
)  # fmt: skip
def test_another_fact_is_a_failure(named, facts):
    with pytest.raises(AssertionError), refused(*named, **facts):
        raise error()


def test_no_error_is_a_failure_and_another_one_passes_through():
    with pytest.raises(pytest.fail.Exception), refused():
        pass
    with pytest.raises(KeyError), refused():
        raise KeyError("x1")
    with pytest.raises(AssertionError):
        check(error(file=None), file="runs.csv")


def test_a_warning_that_names_it_is_expected_and_others_are_passed_on():
    with warned("q1", 3) as told:
        warnings.warn("3 rows of q1", UserWarning, stacklevel=1)
    assert len(told) == 1
    with pytest.raises(AssertionError), warned("q2"):
        warnings.warn("3 rows of q1", UserWarning, stacklevel=1)
    with pytest.raises(UserWarning, match="other"), warned("q1"):
        warnings.warn("3 rows of q1", UserWarning, stacklevel=1)
        warnings.warn("other", UserWarning, stacklevel=1)


def test_of_a_display_the_line_that_names_it_all_is_kept():
    says("Comparison\n  2 win, 1 loss\n  2 ties", 2, 1)
    says("3 runs", 3)
    (kept,) = messages.SAID.values()
    assert kept == ["2 win, 1 loss", "3 runs"]
    with pytest.raises(AssertionError):
        says("2 win\n1 loss", 2, 1)


def test_a_name_is_named_as_a_whole():
    assert names("rank: found '7'", 7) and names("p is .05.", 0.05) is False
    assert not names("rank: found 17", 7) and not names("rank: found 7.5", 7)
    assert names("a[0] and 'ü'", "[0]") and names("mrr@10, hit@5", "mrr@10")


def test_the_page_is_read_as_it_was_written(tmp_path):
    said = {"tests/a.py::t[- `x`]": ["one ⏎ two", "1"], "tests/b.py::t": ["## no heading"]}
    write(said, tmp_path / "page.md")
    assert read(tmp_path / "page.md") == said
    assert messages.differences(said, said) == []
    assert messages.differences({"tests/a.py::t": ["1"]}, {}) == ["tests/a.py::t", "  + 1"]
    assert messages.differences({"t": ["1"]}, {"t": ["2"]}) == ["t", "  - 2", "  + 1"]


def test_a_folder_of_this_run_is_not_said(tmp_path):
    assert plain(f"{tmp_path / 'x.csv'}:3: no\n two ") == "x.csv:3: no ⏎  two"
    assert plain(f"found '{tmp_path}'") == "found ''"


def test_a_page_made_with_other_versions_is_not_compared(tmp_path):
    page = tmp_path / "messages.md"
    write({"tests/test_a.py::test_b": ["no rank"]}, page)
    assert made_elsewhere(page) == ""
    page.write_text(page.read_text().replace("pandas ", "pandas 1"))
    assert "pandas 1" in made_elsewhere(page)


def test_free_ports_times_and_seconds_up_to_a_date_are_not_said():
    assert plain("port: 42105 can't be had") == "port: … can't be had"
    assert plain("a wait of 2338504042 s, and 60 s") == "a wait of … s, and 60 s"
    assert plain("a wait of 61 s") == "a wait of 61 s"
    assert plain("mrr@10 1.000   0.7 s  since") == "mrr@10 1.000   … s  since"

"""A run of a store looks the same in every session, whatever is saved later."""

import matplotlib
import pytest
from conftest import RUN_A, THREE_QUERIES

import ragscore as rs

matplotlib.use("Agg")


@pytest.fixture
def golden(write_golden):
    return rs.load_golden(write_golden(THREE_QUERIES))


@pytest.fixture
def save(write_run, tmp_path, golden):
    """Save a run of a system of its own name with the first day of a month of 2026 as its date."""

    def saved(name, month, **how):
        file = write_run(name, RUN_A, system=name, created_at=f"2026-{month:02}-01T00:00:00Z")
        rs.RunStore(tmp_path / "store").save(rs.load_results(file), golden=golden, **how)

    return saved


@pytest.fixture
def looks(tmp_path, golden):
    """Return run -> colour and marker in a summary, and in a trend, of the store opened anew."""

    def drawn(runs=None):
        store = rs.RunStore(tmp_path / "store")
        ax = store.evaluate(golden, runs=runs).plot(["hit@1"])
        marks = {one.get_label(): one.lines[0] for one in ax.containers}
        lines = {one.get_label(): one for one in store.trend("hit@1").plot().get_lines()}
        return [
            {run: (one[run].get_color(), one[run].get_marker()) for run in marks}
            for one in (marks, lines)
        ]

    yield drawn
    matplotlib.pyplot.close("all")


def test_looks_stay_when_a_run_of_an_earlier_date_is_saved_later(save, looks):
    save("b", 3)
    save("c", 4)
    before = looks()
    save("a", 1)
    after = looks()
    assert [list(one) for one in after] == [["a", "b", "c"]] * 2, "runs stand by date"
    for first, second in zip(before, after, strict=True):
        assert {run: second[run] for run in first} == first
        assert len(set(second.values())) == 3
    assert looks(["b"])[0] == {"b": before[0]["b"]}, "a selection, too"

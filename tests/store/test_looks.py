"""A run of a store looks the same in every session, whatever is saved later."""

import matplotlib.pyplot as plt
from conftest import RUN_A, THREE_QUERIES

import ragscore as rs

GOLDEN = rs.load_golden(THREE_QUERIES)


def looks(folder, runs=None):
    """Return run -> colour and marker in a summary, and in a trend, of the store opened anew."""
    store = rs.RunStore(folder)
    ax = store.evaluate(GOLDEN, runs=runs).plot(["hit@1"])
    marks = {one.get_label(): one.lines[0] for one in ax.containers}
    lines = {one.get_label(): one for one in store.trend("hit@1").plot().get_lines()}
    plt.close("all")
    return [
        {run: (one[run].get_color(), one[run].get_marker()) for run in marks}
        for one in (marks, lines)
    ]


def test_looks_stay_when_a_run_of_an_earlier_date_is_saved_later(write_run, store, tmp_path):
    def save(name, month):
        file = write_run(name, RUN_A, system=name, created_at=f"2026-{month:02}-01T00:00:00Z")
        store.save(rs.load_results(file), golden=GOLDEN)

    save("b", 3)
    save("c", 4)
    before = looks(tmp_path)
    save("a", 1)
    after = looks(tmp_path)
    assert [list(one) for one in after] == [["a", "b", "c"]] * 2, "runs stand by date"
    for first, second in zip(before, after, strict=True):
        assert {run: second[run] for run in first} == first
        assert len(set(second.values())) == 3
    assert looks(tmp_path, ["b"])[0] == {"b": before[0]["b"]}, "a selection, too"

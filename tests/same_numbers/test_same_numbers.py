"""The library's answers are those recorded, and a changed value is found."""

import pandas as pd
import pytest

from tests.same_numbers import __main__ as same


@pytest.mark.slow
def test_the_library_answers_as_recorded(capsys):
    assert same.main([]) == 0, capsys.readouterr().out


def test_a_changed_value_another_word_and_a_row_gone_are_found_and_rounding_is_none():
    frame = pd.DataFrame({"run_id": list("abcd"), "mean": [0.1, 0.2, 0.3, None], "word": "same"})
    before = same.cells("demo: summary", frame)
    assert same.differences(before, before).empty
    now = frame.assign(mean=[0.1 + 1e-15, 0.2 + 1e-8, 0.3, None], word=["same", "same", "no", ""])
    found = same.differences(before, same.cells("demo: summary", now.iloc[:3]))
    assert found[["row", "field", "change"]].sort_values("row").to_numpy().tolist() == [
        ["b 0", "mean", "differs"], ["c 0", "word", "differs"],
        ["d 0", "mean", "gone"], ["d 0", "word", "gone"],
    ]  # fmt: skip

"""The library's answers are those recorded."""

import pytest

from tests.same_numbers import __main__ as same


@pytest.mark.slow
def test_the_library_answers_as_recorded(capsys):
    assert same.main([]) == 0, capsys.readouterr().out

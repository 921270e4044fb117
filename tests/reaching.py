"""Name the file of tests that runs, so that coverage knows which one reaches a line."""

import coverage
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if (measuring := coverage.Coverage.current()) is not None:
        measuring.switch_context(item.nodeid.split("::")[0])

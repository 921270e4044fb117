"""A writer that is killed leaves the old run or the new one, and a retry succeeds."""

import shutil
from functools import partial
from pathlib import Path

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import Steps, chance, start
from faults.size import times

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _shared():
    yield
    small.remove_home()


def work(root: Path, operation: small.Operation, last: int | None) -> int:
    """In a child: do it, and die after so many steps; return how many there were."""
    store = rs.RunStore(root)
    counted = Steps(last)
    operation.do(store)
    return counted.n


@pytest.mark.parametrize("name", small.ATTACKED)
def test_a_killed_writer_leaves_the_old_run_or_the_new_one_and_a_retry_succeeds(name):
    state, operation = small.ATTACKED[name]
    new = operation.becomes(state)
    prepared = small.home() / name
    small.build(prepared, state)
    wrong, rounds = [], times(4)
    operation.do(rs.RunStore(small.copied(prepared, "warm")))
    n = start(partial(work, small.copied(prepared, "steps"), operation, None)).answer()
    assert isinstance(n, int), n
    for seed in range(rounds):
        last = seed % n if rounds > n / 4 else chance(seed).randrange(n)
        root = small.copied(prepared, seed)
        assert start(partial(work, root, operation, last)).answer() is None, "not killed"
        found, bad = small.verdict(rs.RunStore(root), [state, new])
        bad = bad or small.retried(root, operation, found, new)
        if bad:
            wrong.append(f"{name}, step {last} of {n}: {bad}")
        shutil.rmtree(root)
    assert not wrong, f"{len(wrong)} of {rounds}\n" + "\n".join(wrong[:20])

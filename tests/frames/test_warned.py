"""Each thread hears what it warns of itself, and nothing is left changed afterwards."""

import threading
import warnings

import pytest

from ragscore.frames.warned import heard


def test_what_is_heard_is_not_shown_and_listening_leaves_no_trace():
    filters, show = list(warnings.filters), warnings.showwarning
    with heard() as said:
        warnings.warn("once", UserWarning, stacklevel=1)
        warnings.warn("once", UserWarning, stacklevel=1)
        with heard() as inner:
            warnings.warn("inside", UserWarning, stacklevel=1)
        warnings.warn("after", DeprecationWarning, stacklevel=1)
    assert [str(one) for one in said] == ["once", "once", "after"] and [
        str(one) for one in inner
    ] == ["inside"]
    assert [type(one) for one in said] == [UserWarning, UserWarning, DeprecationWarning]
    assert warnings.filters == filters and warnings.showwarning is show


def test_threads_hear_their_own_warnings_only():
    said, barrier = {}, threading.Barrier(8)

    def work(n):
        with heard() as mine:
            for turn in range(20):
                barrier.wait()
                warnings.warn(f"{n} in turn {turn}", UserWarning, stacklevel=1)
        said[n] = [str(one) for one in mine]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {n: [f"{n} in turn {turn}" for turn in range(20)] for n in range(8)}
    with pytest.warns(UserWarning, match="shown again"):
        warnings.warn("shown again", UserWarning, stacklevel=1)


def test_listening_ends_with_an_error():
    show = warnings.showwarning
    with pytest.raises(ValueError, match="boom"), heard():
        raise ValueError("boom")
    assert warnings.showwarning is show

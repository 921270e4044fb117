"""What one thread warns of, while others warn of theirs.

`warnings.catch_warnings` in several threads would mix them up.
"""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_lock = threading.Lock()
# one for all threads: the first to listen opens it
_listening: "list[warnings.catch_warnings[None]]" = []
_n_listeners = 0
_ear = threading.local()


@contextmanager
def heard() -> Iterator[list[Warning]]:
    """Collect every warning of this thread instead of showing it.

    What threads that don't listen warn of is shown as before.
    """
    said: list[Warning] = []
    outer, _ear.said = getattr(_ear, "said", None), said
    _open()
    try:
        yield said
    finally:
        _close()
        _ear.said = outer


def _open() -> None:
    global _n_listeners
    with _lock:
        if not _n_listeners:
            show = warnings.showwarning

            def hear(
                message: Warning | str,
                category: type[Warning],
                filename: str,
                lineno: int,
                file: TextIO | None = None,
                line: str | None = None,
            ) -> None:
                said = getattr(_ear, "said", None)
                if said is None:
                    show(message, category, filename, lineno, file, line)
                else:
                    said.append(message if isinstance(message, Warning) else category(message))

            _listening.append(warnings.catch_warnings())
            _listening[0].__enter__()
            warnings.simplefilter("always")
            warnings.showwarning = hear
        _n_listeners += 1


def _close() -> None:
    global _n_listeners
    with _lock:
        _n_listeners -= 1
        if not _n_listeners:
            _listening.pop().__exit__(None, None, None)

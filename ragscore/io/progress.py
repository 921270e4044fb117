"""Progress bars: tqdm's where it is installed, else none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragscore.frames.escaping import visible


class _NoBar:
    def __getattr__(self, name: str) -> Any:
        return lambda *given, **more: None


@contextmanager
def progress_bar(
    total: int, what: str, unit: str, shown: bool | None, **options: Any
) -> Iterator[Any]:
    """Yield a bar of tqdm's, with `update` and `set_postfix_str`.

    It leaves no thread behind. Without tqdm nothing is shown, and nothing fails.

    Parameters
    ----------
    shown
        None shows it on a terminal only.
    options
        Further arguments of tqdm.
    """
    try:
        if shown:
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
    except ImportError:
        yield _NoBar()
        return

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # its thread would outlive the bar

    disable = None if shown is None else not shown
    with Bar(
        total=total, desc=visible(what), unit=unit, disable=disable, miniters=1, **options
    ) as bar:
        yield bar

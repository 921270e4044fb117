"""What a system under test is to the collector.

A way to ask it, what it can be told, and how to describe it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SETTINGS = ("mode", "k", "temperature", "seed", "with_answer")
"""What a caller sets for a whole run."""
CARRIED = ("filters", "vaults", "folders", "product", "tool")
"""What a golden query carries to be sent with it."""

Request = dict[str, Any]
"""One question: `query`, `query_id`, and whatever of `SETTINGS`, `CARRIED` and settings of the system's own is set."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class System:
    """A system under test.

    Attributes
    ----------
    name
        Of the system, as it stands in `runs.system`.
    ask
        A request, and the seconds it may take (None: no limit) -> the reply: a list of hits, an
        answer's text, or a mapping that holds `hits`, `answer` and what else is known. Raises
        `AskError`.
    config
        How it is asked: kind, address, mapping; without what may be secret by its name. Part of the
        run's snapshot.
    takes
        The names that it can be told beside the query; None: any.
    needs
        Those of them that it can't do without.
    secrets
        Texts that no file and no log may hold.
    close
        Called when the last query is answered.
    """

    name: str
    ask: Callable[[Request, float | None], Any]
    config: dict[str, Any] = field(default_factory=dict)
    takes: frozenset[str] | None = None
    needs: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    close: Callable[[], None] = _nothing


class AskError(Exception):
    """A query that the system didn't answer.

    Attributes
    ----------
    again
        Whether asking again may help: time-outs, lost connections, 429 and 5xx.
    wait
        The seconds after which the system wants to be asked again, if it says so.
    reply
        What it gave all the same, such as the hits of a search whose answer failed.
    """

    def __init__(
        self, found: str, *, again: bool = False, wait: float | None = None, reply: Any = None
    ) -> None:
        super().__init__(found)
        self.again, self.wait, self.reply = again, wait, reply


def timed_out(seconds: float | None) -> AskError:
    """The error of a query that took too long."""
    return AskError(
        f"timed out after {seconds:g} s" if seconds is not None else "timed out", again=True
    )

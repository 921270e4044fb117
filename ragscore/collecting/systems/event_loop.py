"""An event loop for systems that are asked through it: async functions and HTTP endpoints.

It has a thread of its own, so that it works in Jupyter, whose own loop is already running.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ragscore.collecting.systems.base import timed_out

CANCEL_SECONDS = 5.0  # time for cancelled calls to end


@dataclass
class EventLoop:
    """An event loop in its own thread, started at first use.

    Its time limits hold for all that a call waits for, since they cancel the call.
    """

    loop: asyncio.AbstractEventLoop | None = None
    thread: threading.Thread | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, awaitable: Any, seconds: float | None) -> Any:
        """Return the result of an awaitable, which is cancelled after so many seconds."""
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                self.thread = threading.Thread(
                    target=_run_forever, args=(self.loop,), name="ragscore-async", daemon=True
                )
                self.thread.start()
        return asyncio.run_coroutine_threadsafe(_limited(awaitable, seconds), self.loop).result()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancel running calls, do a last thing, and stop; a call that resists is abandoned."""
        if self.loop is not None and self.thread is not None:
            for step in filter(None, (_cancel_others, last)):
                with contextlib.suppress(TimeoutError):
                    asyncio.run_coroutine_threadsafe(step(), self.loop).result(CANCEL_SECONDS)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(CANCEL_SECONDS)
            self.loop = self.thread = None


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        # Names of hosts are looked up in threads of the loop's own.
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def _limited(awaitable: Any, seconds: float | None) -> Any:
    started = perf_counter()
    try:
        return await asyncio.wait_for(awaitable, seconds)
    except TimeoutError as error:
        if seconds is not None and perf_counter() - started >= seconds:
            raise timed_out(seconds) from error
        raise  # a time-out of its own, whose message tells more


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

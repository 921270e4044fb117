"""A page as a browser shows it: what it loads, what it complains about, what its script does.

Speaks to Chromium through its debugging pipe.
"""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
SILENT = 300  # seconds after which a browser that says nothing is taken for dead
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]


class Browser:
    """One page at a time; `events` are all that it reported since it was opened."""

    def __enter__(self) -> "Browser":
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
        command = [
            CHROMIUM,
            *QUIET,
            f"--user-data-dir={self.profile.name}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        shell = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$0" "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.reader, self.writer = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        self._new_page()
        return self

    def _new_page(self) -> None:
        self.session = None
        self.target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=self.target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __exit__(self, *_: object) -> None:
        self.writer.close()
        self.reader.close()
        self.process.terminate()
        self.process.wait(timeout=20)
        self.profile.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        session = {"sessionId": self.session} if self.session else {}
        self.writer.write(
            json.dumps({"id": self.number, "method": method, "params": params, **session}).encode()
            + b"\0"
        )
        self.writer.flush()
        while True:
            message = self._receive()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            assert select.select([self.reader], [], [], SILENT)[0], (
                f"no word from the browser for {SILENT} s"
            )
            more = os.read(self.reader.fileno(), 1 << 16)
            assert more, "the browser is gone"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def open(self, file: Path) -> None:
        """Load a file and wait until it, and all that it loads, is there."""
        self.events = []
        self.send("Page.navigate", url=file.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())
        # Two frames later everything that a script does on its own has been done and reported.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def visit(self, url: str) -> None:
        """Go to an address in a new page; what must be there is waited for with `wait`.

        The old page is closed as it is: asked to go elsewhere, it would ask about unsaved changes
        first.
        """
        old, self.session = self.target, None
        self.send("Target.closeTarget", targetId=old)
        self._new_page()
        self.events = []
        self.send("Page.navigate", url=url)

    def wait(self, expression: str, seconds: float = 180) -> None:
        """Return once a script expression is true, or gives an element.

        A slow machine only takes longer.
        """
        until = time.monotonic() + seconds
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < until, f"after {seconds} s still not: {expression}"
            time.sleep(0.1)  # between two looks

    def click(self, selector: str) -> None:
        """Press and release the mouse on the first element that a selector names."""
        quoted = json.dumps(selector)
        find = (
            f"document.querySelector({quoted}).scrollIntoView({{block: 'center'}}),"
            f" document.querySelector({quoted}).getBoundingClientRect()"
        )
        x, y = self.run(f"(box => [box.x + box.width / 2, box.y + box.height / 2])(({find}))")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="none" if kind == "mouseMoved" else "left",
                clickCount=int(kind != "mouseMoved"),
            )

    def run(self, expression: str) -> Any:
        """The value of a script expression in the page."""
        return self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )["result"].get("value")

    @property
    def complaints(self) -> list[str]:
        """Whatever stands in the console, exceptions too."""
        found = [
            event["params"]
            for event in self.events
            if event.get("method")
            in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        ]
        return [json.dumps(one)[:3000] for one in found]

    @property
    def loaded(self) -> list[str]:
        """Every address that was asked for but data inside the page."""
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith("data:")]

"""A page as a browser shows it: what it loads, what it complains about, what its script does. Speaks to Chromium through its debugging pipe."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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
        command = [CHROMIUM, *QUIET, f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"]
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        shell = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$0" "$@"'
        self.process = subprocess.Popen(["bash", "-c", shell, *command], pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.reader, self.writer = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()
        self.reader.close()
        self.process.terminate()
        self.process.wait(timeout=20)
        self.profile.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        session = {"sessionId": self.session} if self.session else {}
        self.writer.write(json.dumps({"id": self.number, "method": method, "params": params, **session}).encode() + b"\0")
        self.writer.flush()
        while True:
            message = self._receive()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
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

    def run(self, expression: str) -> Any:
        """The value of a script expression in the page."""
        return self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)["result"].get("value")

    @property
    def complaints(self) -> list[str]:
        """Whatever stands in the console, exceptions too."""
        found = [event["params"] for event in self.events if event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")]
        return [json.dumps(one)[:3000] for one in found]

    @property
    def loaded(self) -> list[str]:
        """Every address that was asked for but data inside the page."""
        urls = [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]

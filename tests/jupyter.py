"""A JupyterLab of its own on the loopback, for tests that drive a notebook as a person does."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from browser import Browser

ROOT = Path(__file__).parents[1]
STARTED_WITHIN = 300  # seconds; a loaded machine takes its time


class Lab:
    """The server over a folder, until the `with` block ends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token, self.port = folder, secrets.token_hex(16), _free_port()

    def __enter__(self) -> "Lab":
        settings = self.folder / ".jupyter"
        (settings / "labconfig").mkdir(parents=True)
        quiet = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
        (settings / "labconfig" / "page_config.json").write_text(
            json.dumps(quiet), encoding="utf-8"
        )
        names = ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR",
                 "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")  # fmt: skip
        own = {name: str(settings / name.lower()) for name in names}
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
            f"--port={self.port}", "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={self.folder}", f"--IdentityProvider.token={self.token}",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]  # fmt: skip
        environment = {
            **os.environ,
            **own,
            "JUPYTER_CONFIG_DIR": str(settings),
            "PYTHONPATH": str(ROOT),
        }
        self.log = (self.folder / ".jupyter" / "log").open("wb")
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=self.log, stderr=subprocess.STDOUT
        )
        until = time.monotonic() + STARTED_WITHIN
        while not self._answers():
            assert self.process.poll() is None and time.monotonic() < until, (
                self.folder / ".jupyter" / "log"
            ).read_text()[-3000:]
            time.sleep(0.2)  # between two looks
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()  # the server ends its kernels first
        self.process.wait(timeout=60)
        self.log.close()

    def address(self, path: str) -> str:
        """An address of the server, with its token."""
        return f"http://127.0.0.1:{self.port}/{path}{'&' if '?' in path else '?'}token={self.token}"

    def run_first_cell(self, page: Browser, notebook: str, shown: str) -> None:
        """Open a notebook in the browser and run its first cell, as a person does, until an element
        is shown.
        """
        page.visit(self.address(f"doc/tree/{notebook}?reset"))
        page.wait(
            "document.querySelector('.jp-Notebook .jp-CodeCell') &&"
            " document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]')"
        )
        self._press_run(page)
        page.wait(f"document.querySelector({json.dumps(shown)})", 300)

    def _press_run(self, page: Browser) -> None:
        """Press the run button until the cell runs.

        A page that isn't quite there yet takes no clicks, or asks which kernel is meant.
        """
        started = (
            r"/\[[\d*]+\]/.test(document.querySelector('.jp-CodeCell .jp-InputPrompt').innerText)"
        )
        asked = ".jp-Dialog button.jp-mod-accept"
        until = time.monotonic() + STARTED_WITHIN
        while not page.run(started):
            assert time.monotonic() < until, "the cell doesn't run"
            is_asked = page.run(f"Boolean(document.querySelector({json.dumps(asked)}))")
            page.click(
                asked
                if is_asked
                else ".jp-NotebookPanel-toolbar [data-command='notebook:run-cell-and-select-next']"
            )
            soon = time.monotonic() + 5
            while time.monotonic() < soon and not page.run(
                f"{started} || Boolean(document.querySelector({json.dumps(asked)}))"
            ):
                time.sleep(0.1)  # between two looks

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(self.address("api/status"), timeout=120):
            return True
        return False


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write_notebook(file: Path, code: str) -> None:
    """A notebook of one cell."""
    import nbformat  # comes with JupyterLab

    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cell = nbformat.v4.new_code_cell(code, id="panel")
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(notebook, file)

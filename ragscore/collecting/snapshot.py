"""What a run was made with.

Its id and time, settings, what the system says of itself, code, libraries and machine. No secrets.
"""

import os
import platform
import secrets
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ragscore.analysis.harness_files import config_hash
from ragscore.frames.config import dumped

LIBRARIES = (
    "ragscore",
    "pandas",
    "numpy",
    "pyarrow",
    "httpx",
    "tenacity",
    "openai",
    "bm25s",
    "onnxruntime",
    "torch",
    "transformers",
    "sentence-transformers",
)


def new_run_id(nanoseconds: int | None = None) -> str:
    """An id that sorts by time.

    `run_` and the 32 digits of a UUIDv7 (RFC 9562), its 12 bits after the milliseconds a finer
    time.
    """
    milliseconds, rest = divmod(time.time_ns() if nanoseconds is None else nanoseconds, 1_000_000)
    finer = rest * 4096 // 1_000_000
    value = milliseconds << 80 | 0x7 << 76 | finer << 64 | 0b10 << 62 | secrets.randbits(62)
    return f"run_{value:032x}"


def now() -> str:
    """The time in UTC, as `run.json` has it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def code_version() -> dict[str, Any]:
    """The commit of the working directory, and whether files differ from it.

    Nothing outside a repository.
    """
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    return ({"commit": commit} if commit else {}) | (
        {"uncommitted_changes": True} if changed else {}
    )


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def environment() -> dict[str, Any]:
    """Libraries that are installed, and the machine; nothing that names its owner."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"python": platform.python_version(), "libraries": found, "hardware": _hardware()}


def _hardware() -> dict[str, Any]:
    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory_gb"] = round(
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1
        )
    return {name: value for name, value in found.items() if value}


def _cpu() -> str | None:
    """The processor's name, where the system tells it."""
    if sys.platform == "linux":
        try:
            with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123  # a file of the kernel
                return next(
                    (
                        line.partition(":")[2].strip()
                        for line in lines
                        if line.startswith("model name")
                    ),
                    None,
                )
        except OSError:
            return None
    return platform.processor() or None


class Reported:
    """What replies say of the system: each name's values in the order they came."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}

    def add(self, config: dict[str, Any]) -> None:
        """What one reply said."""
        for name, value in config.items():
            self.values.setdefault(name, {})[dumped(value)] = value

    def merged(self, config: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """A config with what was reported, and what is odd about it.

        A value other than the one that was sent, or several.

        What clashes with the config stands apart under `reported`; of several values all are
        listed, by their text.
        """
        merged, apart, odd = dict(config), {}, []
        for name, found in self.values.items():
            several = [found[text] for text in sorted(found)]
            value = several[0] if len(several) == 1 else several
            if len(several) > 1:
                odd.append(f"replies differ in {name}: {_short(', '.join(sorted(found)))}")
            if name not in config:
                merged[name] = value
            elif dumped(config[name]) != dumped(value):
                apart[name] = value
                odd.append(
                    f"the system reports {name} {_short(dumped(value))} where"
                    f" {_short(dumped(config[name]))} was set"
                )
        return merged | ({"reported": apart} if apart else {}), odd


def description(header: dict[str, Any], reported: Reported) -> tuple[dict[str, Any], list[str]]:
    """The content of `run.json`, and what is odd about the run."""
    config, odd = reported.merged(header["config"])
    run = {name: value for name, value in header["run"].items() if value is not None}
    k = config.get("k")
    return {**run, "config": config, "config_hash": config_hash(config)} | (
        {"k": k} if isinstance(k, int) else {}
    ), odd


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:97] + "..."

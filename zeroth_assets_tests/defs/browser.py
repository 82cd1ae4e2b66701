"""`zeroth dev` and headless Chromium for tests.

What belongs here: starting both, waiting for them without sleeping, and seeing that nothing of them is left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from zeroth_assets_tests.small_corpus import SmallCorpus

START_SECONDS = 120
STOP_SECONDS = 60
# No sandbox: containers have none to give. The rest keeps Chromium from calling home.
CHROMIUM_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """The browser; where there is none the test is skipped with the reason, and fails in CI."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    reason = "Chromium is not installed: `apt-get install -y chromium` (as root) installs it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def open_page(base_url: str) -> Iterator[Any]:
    """A page of a fresh browser profile."""
    executable = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
        try:
            page = browser.new_page(base_url=base_url, viewport={"width": 1600, "height": 1000})
            page.set_default_timeout(60_000)
            yield page
        finally:
            browser.close()


@dataclass(frozen=True, slots=True)
class Dev:
    """A `zeroth dev` that runs."""

    process: psutil.Popen
    log: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, text: str, seconds: float = START_SECONDS) -> None:
        """Wait until it has printed `text`."""
        for _ in range(int(seconds / 0.1)):
            if text in self.log.read_text("utf-8"):
                return
            with contextlib.suppress(psutil.TimeoutExpired):
                code = self.process.wait(timeout=0.1)
                raise AssertionError(f"it ended with {code} before it said {text!r}: {self.log.read_text('utf-8')}")
        raise AssertionError(f"it did not say {text!r} in {seconds} s: {self.log.read_text('utf-8')}")

    def family(self) -> list[psutil.Process]:
        """All that it started and that still runs. The database is nobody's child."""
        return list(self.process.children(recursive=True))

    def end(self, number: int) -> int:
        """Send it a signal and return the exit code."""
        self.process.send_signal(number)
        return int(self.process.wait(timeout=STOP_SECONDS))


@contextlib.contextmanager
def zeroth_dev(corpus: SmallCorpus, *options: str) -> Iterator[Dev]:
    """`zeroth dev` on a free port; whatever the test does, nothing of it outlives the block."""
    port = free_port()
    corpus.home.mkdir(parents=True, exist_ok=True)
    log = corpus.home / f"dev-{port}.log"
    with log.open("wb") as stream:
        process = psutil.Popen(
            [sys.executable, "-m", "zeroth_assets.cli", "dev", "--port", str(port), *options],
            env=corpus.environment(),
            cwd=corpus.folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    dev = Dev(process, log, port)
    family: list[psutil.Process] = []
    try:
        yield dev
    finally:
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            family = dev.family()
            process.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(timeout=STOP_SECONDS)
        for left in [process, *family]:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def left_of(family: list[psutil.Process], seconds: float = STOP_SECONDS) -> list[psutil.Process]:
    """Which of these processes still run after that time."""
    return list(psutil.wait_procs(family, timeout=seconds)[1])

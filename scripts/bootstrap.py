"""Make the virtual environment and install the pinned dependencies, once, however many processes ask.

Runs on the system's Python before anything is installed: the standard library alone.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
TOLD_EVERY_SECONDS = 20.0


def stamp_of(root: Path) -> str:
    """A hash over everything that decides what is installed."""
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def install(folder: Path) -> None:
    """Create `folder` and install the project with its pins into it; done work is not done again."""
    stamp = folder / ".installed"
    lock = ROOT / f"{folder.name}.lock"
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another make is installing; waiting for it", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        wanted = stamp_of(ROOT)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        python = folder / "bin" / "python"
        if not python.exists():
            print(f"creating {folder.name}", flush=True)
            venv.create(folder, with_pip=True, symlinks=True, clear=folder.exists())
        print(
            "installing pinned dependencies (2.5 GB; two minutes with a fast network and idle processors)", flush=True
        )
        # CUDA builds of torch are several GB; the index of CPU builds is not assumed, the pin decides.
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--constraint", str(ROOT / "constraints.txt"), "--editable", f"{ROOT}[dev]"]
        code = wait_for(subprocess.Popen(command))
        if code != 0:
            sys.exit(f"pip failed with exit code {code}; its own message stands above")
        temporary = stamp.with_suffix(".part")
        temporary.write_text(wanted)
        temporary.replace(stamp)


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """The exit code of `process`, telling every while that it still works: pip says nothing for minutes."""
    started = time.monotonic()
    while True:
        try:
            return process.wait(timeout=TOLD_EVERY_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"still installing, {time.monotonic() - started:.0f} s so far", flush=True)


def main() -> None:
    """Entry point."""
    if sys.version_info < OLDEST:
        sys.exit(
            f"Python {'.'.join(map(str, OLDEST))} or newer is needed, this is {sys.version.split()[0]}. "
            "To do: install it and call `make PYTHON=python3.11 ...`."
        )
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    install((ROOT / parser.parse_args().venv).absolute())


if __name__ == "__main__":
    main()

"""Reading a file that somebody else put there: a mirror's, or one that a user names.

What belongs here: the proof that a path leads to a regular file of a bearable size, before a byte of it is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

# A FIFO without a writer would block `open` for ever; a terminal must not become this process's own.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


class UnfitFile(Exception):  # noqa: N818
    """What lies at a path is not to be read as a document; the message says why, without the path."""


def read_file(path: Path, limit: int, root: Path | None = None) -> bytes:
    """The bytes of a regular file of at most `limit` bytes that, links resolved, lies under `root` if one is given.

    Raises:
        UnfitFile: it is something else, too large, or a link that leads out of `root` or in a circle.
        OSError: it is not there or may not be read.
    """
    try:
        resolved = path.resolve(strict=True)
        if root is not None and not resolved.is_relative_to(root.resolve(strict=True)):
            raise UnfitFile(f"a link that leads out of {root}")
    except RuntimeError as error:
        raise UnfitFile("a link that leads in a circle") from error
    descriptor = os.open(resolved, _OPEN_FLAGS | getattr(os, "O_NOFOLLOW", 0))
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnfitFile(f"{_kind(found.st_mode)} and no regular file")
        if found.st_size > limit:
            raise UnfitFile(f"{found.st_size} bytes, more than the {limit} that a document may have")
        with os.fdopen(descriptor, "rb", closefd=False) as handle:
            payload = handle.read(limit + 1)  # a file of procfs, or one that grows, has more than its size says
    finally:
        os.close(descriptor)
    if len(payload) > limit:
        raise UnfitFile(f"more than the {limit} bytes that a document may have")
    return payload


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")

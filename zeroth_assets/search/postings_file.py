"""Postings as bytes and as memory-mapped files.

What belongs here: the format, writing it so that no reader meets half a file, and refusing what is damaged, foreign or
of another version. One file holds one tenant: magic, version, length and sha256 of the header; the header, JSON, with
the sha256 of the body, the array layout, tenant, chunk set, analyser and counts; the body, arrays at multiples of 64.

The file holds every word of its tenant, so it is readable by its owner alone and guarded like the text itself.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.errors import ArtefactError
from zeroth_assets.search.postings import ARRAYS, Array, Part, Postings

MAGIC = b"ZBM25\r\n\0"
FORMAT_VERSION = 1
_HEAD = struct.Struct("<8sII32s")
_ALIGNED = 64
_TYPES = {
    "chunk_ids": ("<i8",),
    "lengths": ("<u4",),
    "hashes": ("<u8",),
    "spellings": ("|u1",),
    "spelling_ends": ("<i8",),
    "starts": ("<i8",),
    "chunks": ("|u1", "<u2", "<u4"),
    "counts": ("|u1", "<u2", "<u4"),
}


def postings_to_bytes(postings: Postings) -> bytes:
    """One tenant's postings in the file format; the same postings give the same bytes.

    Raises:
        ArtefactError: they are of several tenants, and would outlive the grants that they were joined for.
    """
    if len(postings.parts) != 1:
        raise ArtefactError(
            "Joined postings are not written",
            expected="the postings of one tenant",
            found=f"{len(postings.parts)} tenants",
            remedy="write each tenant's own, and join what a principal may see when it asks",
        )
    layout: dict[str, list[Any]] = {}
    body = bytearray()
    for name in ARRAYS:
        array = np.ascontiguousarray(getattr(postings, name))
        body.extend(bytes(-len(body) % _ALIGNED))
        layout[name] = [array.dtype.str, len(array), len(body)]
        body.extend(array.tobytes())
    header = {
        "tenant": postings.parts[0].tenant,
        "chunk_set": postings.chunk_set,
        "analyser": postings.analyser,
        "chunks": postings.size,
        "terms": len(postings.hashes),
        "entries": len(postings.chunks),
        "total_length": int(postings.lengths.sum(dtype=np.int64)),
        "body_bytes": len(body),
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "arrays": layout,
    }
    encoded = json.dumps(header, sort_keys=True).encode()
    encoded += b" " * (-(_HEAD.size + len(encoded)) % _ALIGNED)
    head = _HEAD.pack(MAGIC, FORMAT_VERSION, len(encoded), hashlib.sha256(encoded).digest())
    return head + encoded + bytes(body)


def postings_from_bytes(payload: bytes | mmap.mmap | memoryview, name: str = "postings") -> Postings:
    """The postings in `payload`, whose memory the arrays use; `name` says in errors what it is.

    Raises:
        ArtefactError: it is damaged, cut short, of another format or another version.
    """
    header, body = _opened(memoryview(payload), name)
    try:
        sound = header["body_bytes"] == len(body) and hashlib.sha256(body).hexdigest() == header["body_sha256"]
        if not sound:
            raise _damaged(name, "the body that its header describes", f"{len(body)} bytes with another checksum")
        arrays = {array: _array(body, array, *header["arrays"][array]) for array in ARRAYS}
        postings = Postings(
            parts=(Part(header["tenant"], len(arrays["chunk_ids"])),),
            chunk_set=header["chunk_set"],
            analyser=header["analyser"],
            **arrays,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(name, "a header with all its fields", f"{type(error).__name__}: {error}") from error
    _check_shape(postings, name)
    return postings


def write_postings(postings: Postings, path: Path) -> None:
    """Write one tenant's postings to `path`, all or nothing, readable by the owner alone.

    Raises:
        ArtefactError: as `postings_to_bytes`.
    """
    write_atomic(path, postings_to_bytes(postings), mode=0o600)


def open_postings(path: Path) -> Postings:
    """The postings in `path`, verified, memory-mapped: pages that no query needs may leave memory again.

    Replacing the file leaves postings that are open as they were.

    Raises:
        ArtefactError: there is no file, or as `postings_from_bytes`.
    """
    try:
        with path.open("rb") as handle:
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise _damaged(str(path), "a file of postings", str(error)) from error
    return postings_from_bytes(mapped, str(path))


def _opened(view: memoryview, name: str) -> tuple[dict[str, Any], memoryview]:
    if len(view) < _HEAD.size or bytes(view[: len(MAGIC)]) != MAGIC:
        raise _damaged(name, f"a file that starts with {MAGIC!r}", repr(bytes(view[: len(MAGIC)])))
    _, version, length, digest = _HEAD.unpack(view[: _HEAD.size])
    if version != FORMAT_VERSION:
        raise _damaged(name, f"format version {FORMAT_VERSION}", f"version {version}")
    encoded = bytes(view[_HEAD.size : _HEAD.size + length])
    if len(encoded) != length or hashlib.sha256(encoded).digest() != digest:
        raise _damaged(name, "the header that was written", f"{len(encoded)} bytes with another checksum")
    header: dict[str, Any] = json.loads(encoded)  # its checksum was right: JSON that we wrote
    return header, view[_HEAD.size + length :]


def _array(body: memoryview, name: str, kind: str, length: int, offset: int) -> Array:
    if kind not in _TYPES[name]:
        raise ValueError(f"{name} of type {kind}")
    return np.frombuffer(body, dtype=np.dtype(kind), count=length, offset=offset)


def _check_shape(postings: Postings, name: str) -> None:
    """What a checksum cannot say: that the arrays belong together, whoever wrote them."""
    p = postings
    rising = all(bool(np.all(a[1:] > a[:-1])) for a in (p.chunk_ids, p.hashes, p.starts, p.spelling_ends))
    ends = (
        len(p.starts) == len(p.spelling_ends) == len(p.hashes) + 1
        and (int(p.starts[0]), int(p.spelling_ends[0])) == (0, 0)
        and (int(p.starts[-1]), int(p.spelling_ends[-1])) == (len(p.chunks), len(p.spellings))
    )
    sizes = len(p.lengths) == p.size and len(p.counts) == len(p.chunks)
    if not (rising and ends and sizes and int(p.chunks.max(initial=0)) < max(1, p.size)):
        raise _damaged(name, "arrays that belong together", "sizes, order or chunk numbers that do not")


def _damaged(name: str, expected: str, found: str) -> ArtefactError:
    return ArtefactError(
        f"The postings {name} cannot be used",
        expected=expected,
        found=found,
        remedy="remove them and materialise this tenant's bm25_index again",
    )

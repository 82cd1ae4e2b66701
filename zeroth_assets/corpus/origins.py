"""Where a record's bytes are to be had, given the mirror in force.

What belongs here: the choice between mirror, publisher, archive and local file, and the check that a mirror is there.
"""

from __future__ import annotations

import re
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.pacing import is_sec
from zeroth_assets.errors import AcquisitionError


@dataclass(frozen=True, slots=True)
class Origin:
    """One place to get one document: a URL, a local file, or a member of the archive at a URL or path.

    `root` is the folder that a file must not lead out of by symbolic links: the mirror's.
    """

    kind: Literal["web", "file"]
    location: str
    member: str | None = None
    root: str | None = None

    @property
    def label(self) -> str:
        """For reports."""
        return self.location if self.member is None else f"{self.location}!{self.member}"

    @property
    def is_sec(self) -> bool:
        """Whether sec.gov would be asked."""
        return self.kind == "web" and is_sec((urllib.parse.urlsplit(self.location).hostname or "").lower())


def is_web(location: str) -> bool:
    """Whether a location is an http(s) URL."""
    return location.startswith(("http://", "https://"))


def check_mirror(mirror: str | None) -> None:
    """Pass if there is no mirror, it is an http(s) base, or a folder that is there.

    Raises:
        AcquisitionError: it is none of these.
    """
    if mirror is None or is_web(mirror) or Path(mirror).is_dir():
        return
    raise AcquisitionError(
        f"The mirror {mirror} is not there",
        expected="a folder that holds the documents of the manifest, or an http(s) base URL",
        found="a file" if Path(mirror).exists() else "nothing at that path",
        remedy="correct ZEROTH_MIRROR, or unset it to fetch from the publishers",
    )


def origin_of(record: ManifestRecord, mirror: str | None) -> Origin:
    """The mirror's copy where there is a mirror and the record has a path in it; else the URL; else the archive.

    Raises:
        AcquisitionError: the record names only a path in a mirror, and there is none.
    """
    if mirror is not None and record.mirror_path is not None:
        if is_web(mirror):
            return Origin("web", f"{mirror.rstrip('/')}/{urllib.parse.quote(record.mirror_path)}")
        return Origin("file", str(Path(mirror) / record.mirror_path), root=mirror)
    if record.url is not None:
        return _origin(record.url)
    if record.archive_url is not None:
        base = _origin(record.archive_url)
        return Origin(base.kind, base.location, record.archive_member)
    raise AcquisitionError(
        f"{record.document_id} is only to be had from a mirror",
        expected=f"a mirror that holds {record.mirror_path}",
        remedy="set ZEROTH_MIRROR to its folder or base URL",
    )


def _origin(url: str) -> Origin:
    if is_web(url):
        return Origin("web", url)
    return Origin("file", urllib.request.url2pathname(re.sub(r"^file:(//)?", "", url)))

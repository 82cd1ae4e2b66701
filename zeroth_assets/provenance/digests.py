"""Data versions of selections: some records of the manifest, some documents of the assignments.

What belongs here: digests that stand in a sidecar's inputs in place of a whole artefact's sha256, where only a part
of it went in. The planner computes them to tell what is stale; verification computes them again from what is on
disk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from zeroth_assets.corpus.manifest import Manifest


def manifest_digest(manifest: Manifest, source: str) -> str:
    """Of a source's records: document ids and checksums. Input key `corpus_manifest#<source>`."""
    return _digest(sorted([r.document_id, r.sha256] for r in manifest.records if r.source == source))


def documents_digest(documents: Iterable[tuple[str, str, str, str | None]]) -> str:
    """Of a tenant's documents: (document id, version, parser version, text digest) each.

    Input key `tenant_assignments#<tenant>`. The text's digest ties a chunk to the canonical text that it was cut
    from; it is None in assignments made before they had one, and is then left out.
    """
    rows = sorted(documents, key=lambda row: row[:2])
    return _digest([list(row[:3]) if row[3] is None else list(row) for row in rows])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=True).encode()).hexdigest()

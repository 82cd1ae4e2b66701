"""Provenance: from an artefact down to the bytes at a publisher's URL, and whether all of it still holds.

What belongs here: `naming` (the artefact that a person asks about), `digests` (data versions of a selection of records
or documents), `chain` (following the sidecars) and `verification` (reading the files along a chain again).
"""

from zeroth_assets.provenance.chain import Chain, Link, sidecar_problems, trace
from zeroth_assets.provenance.digests import documents_digest, manifest_digest
from zeroth_assets.provenance.naming import named
from zeroth_assets.provenance.verification import Verified, verify

__all__ = [
    "Chain",
    "Link",
    "Verified",
    "documents_digest",
    "manifest_digest",
    "named",
    "sidecar_problems",
    "trace",
    "verify",
]

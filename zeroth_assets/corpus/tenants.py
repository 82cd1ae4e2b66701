"""Tenants: which tenant each document belongs to, and why.

What belongs here: tenant keys and the assignment. A tenant is a working group, a contract type or a filing company;
hash buckets are not tenants. Deterministic: the same documents give the same tenants, in any order.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

import polars as pl

from zeroth_assets.artefacts import PARTITION_KEY
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.errors import TenantError
from zeroth_assets.settings import SOURCES

TENANTS_VERSION = "1"
MAX_SLUG = 40

ASSIGNMENT_SCHEMA = pl.Schema(
    {
        "document_id": pl.String,
        "version": pl.String,
        "source": pl.String,
        "tenant": pl.String,
        "raw_tenant": pl.String,
        "attribute": pl.String,
        "similarity": pl.Float64,
        "reason": pl.String,
        "estimated_chunks": pl.Float64,
    }
)


@functools.cache
def acronyms(source: str) -> Mapping[str, str]:
    """The short names that the repository's table gives to well-known attributes of a source."""
    table = json.loads((Path(str(resources.files(__package__))) / "tenant_acronyms.json").read_text("utf-8"))
    return dict(table.get(source, {}))


def tenant_key(source: str, attribute: str) -> str:
    """The key `<source>-<slug>` of the tenant that documents with this attribute belong to.

    The slug is the attribute's entry in the table of acronyms, or the attribute in lower case and ASCII with every run
    of other characters made one hyphen, at most 40 characters.

    >>> tenant_key("rfc", "Transport Layer Security")
    'rfc-tls'
    >>> tenant_key("cuad", "Non-Compete/No-Solicit")
    'cuad-non-compete-no-solicit'

    Raises:
        TenantError: the source is unknown or nothing of the attribute is left.
    """
    if source not in SOURCES:
        raise TenantError(f"Source {source!r} is unknown", expected=", ".join(SOURCES), remedy="correct the manifest")
    plain = unicodedata.normalize("NFKD", acronyms(source).get(attribute, attribute))
    slug = re.sub(r"[^a-z0-9]+", "-", plain.encode("ascii", "ignore").decode().lower()).strip("-")
    slug = slug[:MAX_SLUG].rstrip("-")
    key = f"{source}-{slug}"
    if not slug or not PARTITION_KEY.fullmatch(key):
        raise TenantError(
            f"No tenant key can be made of {attribute!r}",
            expected="an attribute with at least one ASCII letter or digit",
            found=repr(key),
            remedy="correct tenant_attribute in the manifest, or add a name for it to tenant_acronyms.json",
        )
    return key


def tenant_keys(records: Iterable[ManifestRecord]) -> dict[tuple[str, str], str]:
    """(source, attribute) to tenant key, for every attribute that occurs.

    Raises:
        TenantError: two attributes would share a key.
    """
    keys: dict[tuple[str, str], str] = {}
    owners: dict[str, str] = {}
    for source, attribute in sorted({(r.source, r.tenant_attribute) for r in records}):
        key = tenant_key(source, attribute)
        if key in owners:
            raise TenantError(
                f"Two tenants would have the key {key!r}",
                expected="one attribute a key",
                found=f"{owners[key]!r} and {attribute!r}",
                remedy="give one of them a name of its own in tenant_acronyms.json",
            )
        owners[key] = attribute
        keys[source, attribute] = key
    return keys


def assign_tenants(documents: pl.DataFrame, records: Iterable[ManifestRecord], *, stride: int) -> pl.DataFrame:
    """Which tenant each document belongs to: one row per document, in `ASSIGNMENT_SCHEMA`, ordered by document.

    `documents` has `document_id`, `version`, `source` and `tokens` (content tokens of the text). `stride` is how many
    new tokens a fixed window brings; tokens / stride, at least 1, estimates a document's chunks.

    Raises:
        TenantError: a document is not in the manifest, or two attributes would share a key.
    """
    listed = list(records)
    keys = tenant_keys(listed)
    attributes = {(r.document_id, r.sha256): r.tenant_attribute for r in listed}
    rows = []
    for row in documents.sort("document_id", "version").iter_rows(named=True):
        attribute = attributes.get((row["document_id"], row["version"]))
        if attribute is None:
            raise TenantError(
                f"{row['document_id']} was parsed and is not in the manifest",
                expected=f"a record with version {row['version'][:16]}",
                remedy="run `zeroth materialize`; it parses again what the manifest lists",
            )
        key = keys[row["source"], attribute]
        estimate = max(1.0, row["tokens"] / stride)
        rows.append(
            (row["document_id"], row["version"], row["source"], key, key, attribute, None, "own tenant", estimate)
        )
    return pl.DataFrame(rows, schema=ASSIGNMENT_SCHEMA, orient="row")

"""Tenants: which tenant each document belongs to, and why.

What belongs here: tenant keys, the assignment, and the plan that adds the folding of small tenants to it. A tenant is a
working group, a contract type or a filing company; hash buckets are not tenants. Deterministic: the same documents give
the same tenants, in any order.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import polars as pl

from zeroth_assets.artefacts import PARTITION_KEY
from zeroth_assets.corpus.centroids import FloatMatrix, TenantVectors, tenant_vectors
from zeroth_assets.corpus.folding import (
    Folding,
    RawTenant,
    difference,
    final_cosines,
    fit,
    fold,
    steps_frame,
    weigh_floors,
)
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.model import text_digest
from zeroth_assets.corpus.shingles import Progress
from zeroth_assets.errors import TenantError
from zeroth_assets.settings import SOURCES

TENANTS_VERSION = "2"
MAX_SLUG = 40
# On the sample, where one working group has a single chunk, the floor shows what folding is. On the published
# corpus 25 folds 11 of 149 raw tenants (0.4 % of the chunks), never more than two into one, and no filer into
# another. A higher one buys size with purity: at 100 one tenant holds 13 filers, at 500 one holds 36, and a third
# of all chunks have moved. Size is not needed for recall, since a small tenant is searched exactly; a tenant is
# what access is granted to.
SAMPLE_FLOOR = 10
PUBLISHED_FLOOR = 25

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
        "text_sha256": pl.String,
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

    `documents` has `document_id`, `version`, `source`, `tokens` (content tokens of the text) and, where it is at hand,
    `text`, whose digest ties what is made for a tenant to the texts that it is made of. `stride` is how many new tokens
    a fixed window brings; tokens / stride, at least 1, estimates a document's chunks.

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
        digest = text_digest(row["text"]) if "text" in row else None
        about = (attribute, None, "own tenant", estimate, digest)
        rows.append((row["document_id"], row["version"], row["source"], key, key, *about))
    return pl.DataFrame(rows, schema=ASSIGNMENT_SCHEMA, orient="row")


@dataclass(frozen=True, slots=True)
class TenantPlan:
    """The tenants of a corpus: what is in force, and what the rule of `folding` would change.

    `assignments` (`ASSIGNMENT_SCHEMA`) is in force: `tenant` is the final tenant, `raw_tenant` the unmerged one,
    `similarity` the cosine of the raw tenant with the rest of its final tenant (None for the one that gave its name).
    `proposal` (`folding.FOLD_SCHEMA`) are the rule's steps from scratch, each with the similarity that decided it.
    `diff` (`folding.DIFF_SCHEMA`) is where accepted folding and proposal differ. `cosines` are of the final tenants in
    force, shape (tenants, tenants), rows as `tenants`. `floors` (`folding.FLOOR_SCHEMA`) weighs other floors.
    """

    floor: int
    assignments: pl.DataFrame
    proposal: pl.DataFrame
    diff: pl.DataFrame
    tenants: tuple[str, ...]
    cosines: FloatMatrix
    floors: pl.DataFrame

    @property
    def pending(self) -> pl.DataFrame:
        """The rows of `diff` that only an acceptance would put in force."""
        return self.diff.filter(pl.col("in_force").ne_missing(pl.col("proposed")))

    def table(self) -> pl.DataFrame:
        """One row per final tenant: raw tenants, documents and estimated chunks, largest first."""
        return (
            self.assignments.group_by("source", "tenant")
            .agg(
                pl.col("raw_tenant").n_unique().cast(pl.Int64).alias("raw_tenants"),
                pl.len().cast(pl.Int64).alias("documents"),
                pl.col("estimated_chunks").sum(),
                pl.col("similarity").min().alias("lowest_similarity"),
            )
            .sort(["estimated_chunks", "tenant"], descending=[True, False])
        )


def default_floor(corpus: str) -> int:
    """Estimated chunks below which a tenant is folded, where no setting says so: by the corpus' name."""
    return SAMPLE_FLOOR if corpus == "sample" else PUBLISHED_FLOOR


def plan_tenants(
    documents: pl.DataFrame,
    records: Iterable[ManifestRecord],
    *,
    stride: int,
    floor: int = 0,
    accepted: pl.DataFrame | None = None,
    accept: bool = False,
    progress: Progress | None = None,
) -> TenantPlan:
    """Assign every document and fold the tenants under `floor`.

    `documents` as for `assign_tenants`, with `text`. `accepted` are the assignments in force until now: without
    `accept` every raw tenant in them keeps its final tenant, and what the rule would change stands in `diff`; with
    it, or where nothing is in force, the rule's folding is taken. `progress` counts documents read.

    Raises:
        TenantError: as for `assign_tenants`, or the accepted assignments contradict themselves.
    """
    raw = assign_tenants(documents, records, stride=stride)
    sized = raw.group_by("raw_tenant", "source").agg(pl.col("estimated_chunks").sum())
    tenants = {key: RawTenant(key, source, chunks) for key, source, chunks in sized.sort("raw_tenant").iter_rows()}
    texts = raw.join(documents.select("document_id", "version", "text"), on=["document_id", "version"])
    vectors = tenant_vectors(texts.select("source", "tenant", "text"), progress)
    known = None if accepted is None else _accepted_folding(accepted)
    proposed = fold(tenants, vectors, floor)
    in_force = proposed if known is None or accept else fold(tenants, vectors, floor, known)
    keys, cosines = final_cosines(in_force.final, vectors)
    settled = {} if accept or known is None else known
    return TenantPlan(
        floor=floor,
        assignments=_folded(raw, _reasons(tenants, in_force, settled, floor), in_force, vectors),
        proposal=steps_frame(proposed.steps),
        diff=difference(tenants, known, in_force.final, proposed.final),
        tenants=keys,
        cosines=cosines,
        floors=weigh_floors(tenants, vectors),
    )


def _accepted_folding(accepted: pl.DataFrame) -> dict[str, str]:
    pairs = accepted.select("raw_tenant", "tenant").unique().sort("raw_tenant", "tenant")
    split = pairs.filter(pl.col("raw_tenant").is_duplicated())
    if not split.is_empty():
        raise TenantError(
            f"The assignments in force give {split['raw_tenant'][0]!r} two tenants",
            expected="one final tenant for each raw tenant",
            found=", ".join(split.filter(pl.col("raw_tenant") == split["raw_tenant"][0])["tenant"]),
            remedy="remove the artefact tenant_assignments and run `zeroth materialize --asset tenant_assignments`",
        )
    return dict(pairs.iter_rows())


def _folded(raw: pl.DataFrame, reasons: Mapping[str, str], folding: Folding, vectors: TenantVectors) -> pl.DataFrame:
    rows = [
        (key, final, None if key == final else fit(key, folding.final, vectors), reasons[key])
        for key, final in folding.final.items()
    ]
    schema = {"raw_tenant": pl.String, "tenant": pl.String, "similarity": pl.Float64, "reason": pl.String}
    moved = pl.DataFrame(rows, schema=schema, orient="row")
    joined = raw.drop("tenant", "similarity", "reason").join(moved, on="raw_tenant", how="left", maintain_order="left")
    return joined.select(ASSIGNMENT_SCHEMA.names()).sort("document_id", "version")


def _reasons(
    tenants: Mapping[str, RawTenant], folding: Folding, settled: Mapping[str, str], floor: int
) -> dict[str, str]:
    reasons = {}
    for key, final in folding.final.items():
        size = f"{tenants[key].chunks:.0f} chunks, floor {floor}"
        path = [f"{step.into} ({step.similarity:.3f})" for step in folding.path(key)]
        if key in settled:
            reasons[key] = "own tenant, as accepted" if key == final else f"folded into {final}, as accepted"
        elif path:
            reasons[key] = f"{size}: folded into {', with it into '.join(path)}"
        elif key in folding.stranded:
            reasons[key] = f"own tenant: {size}, and no other tenant of its source is like it"
        else:
            reasons[key] = "own tenant"
    return reasons

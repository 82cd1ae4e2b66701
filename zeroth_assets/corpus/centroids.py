"""What a tenant is about: one TF-IDF centroid per tenant, and the cosines between them.

What belongs here: from texts to vectors, and from vectors to similarities. Which tenants are folded is not decided
here.

A document's vector has a weight per word, (1 + ln tf) x idf with scikit-learn's smoothed idf, and length 1; a tenant's
centroid is the mean of its documents' vectors, so a long document counts no more than a short one. Document frequencies
are counted within a source: what every contract says tells no contract types apart, and a new RFC leaves the contracts'
weights alone. Words of digits, of one letter, or of one document only, carry no weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from zeroth_assets.corpus.shingles import Progress, word_lists

FloatMatrix = NDArray[np.float64]
_BATCH_CHARACTERS = 6_000_000
_TERM = r"^[\p{L}\p{M}\p{N}]*\p{L}[\p{L}\p{M}\p{N}]*$"


@dataclass(frozen=True, slots=True)
class TenantVectors:
    """Dot products of the tenants' summed document vectors, shape (tenants, tenants); rows as `tenants`, sorted.

    A sum has the direction of the mean, and the sums of merged tenants add: this matrix is all that a cosine between
    any groups of tenants needs.
    """

    tenants: tuple[str, ...]
    products: FloatMatrix

    def cosines(self, groups: Sequence[Sequence[str]] | None = None) -> FloatMatrix:
        """Cosine of each pair of `groups` of tenants (of single tenants, without), shape (groups, groups).

        A group without any weighted word has a cosine of 0 with all, itself included.
        """
        place = {tenant: i for i, tenant in enumerate(self.tenants)}
        chosen = groups if groups is not None else [(tenant,) for tenant in self.tenants]
        member = np.zeros((len(chosen), len(self.tenants)))
        for row, group in enumerate(chosen):
            member[row, [place[tenant] for tenant in group]] = 1.0
        merged = member @ self.products @ member.T
        lengths = np.sqrt(np.diag(merged))
        scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        cosines: FloatMatrix = merged * scale[:, None] * scale[None, :]
        # Rounded, so that the order in which a library adds does not decide between two equal similarities.
        return np.clip(np.round(cosines, 10), 0.0, 1.0)


def tenant_vectors(documents: pl.DataFrame, progress: Progress | None = None) -> TenantVectors:
    """Vectors of the tenants of `documents` (`source`, `tenant` and `text`, one row per document)."""
    # Imported here: it takes most of a second, and every command of the console imports this module.
    from sklearn.feature_extraction.text import TfidfTransformer

    documents = documents.with_row_index("row")
    counts = _term_counts(documents, progress)
    words = counts["term"].unique().sort()
    counts = counts.join(words.to_frame().with_row_index("column"), on="term")
    tenants = tuple(sorted(set(documents["tenant"])))
    place = {tenant: i for i, tenant in enumerate(tenants)}
    sums = sparse.csr_array((len(tenants), len(words)), dtype=np.float64)
    for source in sorted(set(documents["source"])):
        mine = documents.filter(pl.col("source") == source).select("row", "tenant").with_row_index("position")
        cells = counts.join(mine, on="row")
        raw = sparse.csr_array(
            (cells["count"].to_numpy().astype(np.float64), (cells["position"].to_numpy(), cells["column"].to_numpy())),
            shape=(mine.height, len(words)),
        )
        if raw.nnz == 0:
            continue
        raw = sparse.csr_array(raw @ sparse.diags_array((_document_frequencies(raw) > 1).astype(np.float64)))
        raw.eliminate_zeros()
        weighted = TfidfTransformer(norm="l2", sublinear_tf=True, smooth_idf=True).fit_transform(raw)
        rows = np.array([place[t] for t in mine["tenant"]])
        belongs = sparse.csr_array((np.ones(mine.height), (rows, np.arange(mine.height))), (len(tenants), mine.height))
        sums = sums + belongs @ weighted
    return TenantVectors(tenants, (sums @ sums.T).toarray())


def _document_frequencies(counts: sparse.csr_array) -> NDArray[np.int64]:
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.int64)


def _term_counts(documents: pl.DataFrame, progress: Progress | None) -> pl.DataFrame:
    """How often each document uses each word: columns `row`, `term`, `count`."""
    parts: list[pl.DataFrame] = []
    texts = documents["text"]
    batches = documents.select("row", batch=texts.str.len_chars().cum_sum() // _BATCH_CHARACTERS)
    for _, rows in batches.group_by("batch", maintain_order=True):
        chosen = rows["row"]
        words = pl.DataFrame({"row": chosen, "term": word_lists(texts.gather(chosen).to_list())}).explode("term")
        counted = words.drop_nulls().group_by("row", "term").agg(pl.len().alias("count"))
        parts.append(counted.filter((pl.col("term").str.len_chars() > 1) & pl.col("term").str.contains(_TERM)))
        if progress is not None:
            progress(int(chosen[-1]) + 1, documents.height)
    if not parts:
        return pl.DataFrame(schema={"row": pl.UInt32, "term": pl.String, "count": pl.UInt32})
    return pl.concat(parts).sort("row", "term")

"""Groups of queries that share documents, and the two splits: calibration and test.

What belongs here: what may not be torn apart, and the seeded deal. A group is everything that duplicates, succession
(an obsoleted RFC and its successor), a filer's several years, or one query's own documents tie together. A group goes
to one split by a hash of its name, so that a query that is added moves no other.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.stratify import turn

CALIBRATION_SHARE = 0.4


def document_links(records: Iterable[ManifestRecord], pairs: pl.DataFrame) -> list[tuple[str, str]]:
    """Pairs of documents that stay together: near duplicates, direct succession, one filer's filings.

    `pairs` is the dedup report's frame: every pair in it, 0.80 and above.
    """
    listed = list(records)
    known = {r.document_id for r in listed}
    links: set[tuple[str, str]] = set()
    filers: dict[str, str] = {}
    for record in sorted(listed, key=lambda r: r.document_id):
        links.update((record.document_id, other) for other in (*record.obsoletes, *record.obsoleted_by))
        if record.source == "sec":
            first = filers.setdefault(record.tenant_attribute, record.document_id)
            links.add((record.document_id, first))
    links.update(pairs.select("contained_id", "container_id").iter_rows())
    return sorted((one, two) for one, two in links if one != two and {one, two} <= known)


def with_groups(queries: pl.DataFrame, spans: pl.DataFrame, links: Iterable[tuple[str, str]]) -> pl.DataFrame:
    """`queries` with their `group`: the least document id of all that they are tied to, or the question itself."""
    leader: dict[str, str] = {}

    def find(node: str) -> str:
        while leader.setdefault(node, node) != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    def join(nodes: list[str]) -> None:
        for node in nodes[1:]:
            one, two = find(nodes[0]), find(node)
            leader[max(one, two)] = min(one, two)

    for link in links:
        join(list(link))
    quoted = dict(spans.group_by("query_id").agg(pl.col("document_id").unique()).iter_rows())
    of_query = {
        row["query_id"]: sorted({*(row["about"] or ()), *quoted.get(row["query_id"], ())})
        for row in queries.iter_rows(named=True)
    }
    for documents in of_query.values():
        join(documents)
    groups = [
        f"g:{find(of_query[query][0])}" if of_query[query] else f"g:{question}"
        for query, question in queries.select("query_id", "question_id").iter_rows()
    ]
    return queries.with_columns(pl.Series("group", groups, dtype=pl.String))


def with_splits(queries: pl.DataFrame, *, seed: int, calibration: float = CALIBRATION_SHARE) -> pl.DataFrame:
    """`queries` with their `split`: a group is calibration if its hash under the seed falls below `calibration`.

    Raises:
        MeasurementError: a share outside (0, 1).
    """
    if not 0 < calibration < 1:
        raise MeasurementError(
            "The share of calibration is impossible", expected="above 0, below 1", found=str(calibration)
        )
    split = {
        group: "calibration" if int(turn(seed, "split", group)[:13], 16) / 16**13 < calibration else "test"
        for group in queries["group"].unique()
    }
    return queries.with_columns(pl.col("group").replace_strict(split, return_dtype=pl.String).alias("split"))


def check_splits(queries: pl.DataFrame) -> None:
    """Raise unless each group, and both scopes of each question, lie in one split.

    Raises:
        GoldenError: one straddles; it is named.
    """
    for column in ("group", "question_id"):
        torn = queries.group_by(column).agg(pl.col("split").n_unique()).filter(pl.col("split") > 1).sort(column)
        if torn.height:
            raise GoldenError(
                f"{torn.height} of the {column}s lie in both splits",
                expected="each in one split",
                found=str(torn[column][0]),
                remedy="deal the splits again over all queries together",
            )

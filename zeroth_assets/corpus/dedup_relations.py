"""Why two documents overlap, as far as the manifest knows.

What belongs here: the relation of a pair of documents from their records. Nothing here reads a text.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from zeroth_assets.corpus.manifest import ManifestRecord

NO_RELATION = "none in the manifest"


def relate(pairs: pl.DataFrame, records: Iterable[ManifestRecord]) -> pl.DataFrame:
    """`pairs` (of a dedup report) with a column `relation`: what the manifest says of contained and container.

    Read as "the contained document is ... the container": `obsoleted by`, `obsoleted through others by`, `updated
    by`, `another version of`, and in the other direction `successor of` or `update of`; else `another filing of the
    filer of`, `of the same tenant as` or `NO_RELATION`.
    """
    listed = {(r.document_id, r.sha256): r for r in records}
    successors: dict[str, set[str]] = {}
    for record in listed.values():
        successors.setdefault(record.document_id, set()).update(record.obsoleted_by)
        for former in record.obsoletes:
            successors.setdefault(former, set()).add(record.document_id)
    keys = pairs.select("contained_id", "contained_version", "container_id", "container_version").iter_rows()
    relations = [
        _relation(listed.get((one, one_version)), listed.get((two, two_version)), successors)
        for one, one_version, two, two_version in keys
    ]
    return pairs.with_columns(pl.Series("relation", relations, dtype=pl.String))


def _relation(one: ManifestRecord | None, two: ManifestRecord | None, successors: dict[str, set[str]]) -> str:
    if one is None or two is None:
        return NO_RELATION
    first, second = one.document_id, two.document_id
    if first == second:
        return "another version of"
    if second in successors.get(first, ()):
        return "obsoleted by"
    if second in _reachable(first, successors):
        return "obsoleted through others by"
    if first in _reachable(second, successors):
        return "successor of"
    if second in one.updated_by or first in two.updates:
        return "updated by"
    if first in two.updated_by or second in one.updates:
        return "update of"
    if (one.source, one.tenant_attribute) == (two.source, two.tenant_attribute):
        return "another filing of the filer of" if one.form is not None else "of the same tenant as"
    return NO_RELATION


def _reachable(start: str, successors: dict[str, set[str]]) -> set[str]:
    """Everything that came after a document, through any number of successors."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for following in successors.get(waiting.pop(), ()):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen

"""Documents that another has replaced, changed or amended: which text stands, and what has to be said of the rest.

What belongs here: what the manifest says of documents' relations, and the order that follows from it. A superseded
passage never stands before one of its successor, and never stands without being marked. Where two documents are
related and neither supersedes the other, both stay, each with its date and status.

A successor is named only if a passage of it is among the candidates, which the caller may see: that a document exists
elsewhere is for its own tenant to know. So what a document's own record says of it is always told, and what only the
successor's record says is told where that one belongs with a document among the candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zeroth_assets.corpus.manifest import ManifestRecord, current_versions
from zeroth_assets.search.passages import Passage

_AMENDMENT = "/A"


@dataclass(frozen=True, slots=True)
class DocumentStatus:
    """What a document says of itself: its date, its status as published, whether a later one replaced or changed it."""

    document_id: str
    date: str | None
    status: str | None
    superseded: bool
    updated: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """What a result has to carry: the document's status, and visible documents that supersede it or bear on it."""

    status: DocumentStatus
    superseded_by: tuple[str, ...] = ()
    read_with: tuple[str, ...] = ()

    @property
    def marked(self) -> bool:
        """Whether there is anything that a reader must know."""
        return self.status.superseded or bool(self.superseded_by) or bool(self.read_with)

    def describe(self) -> str:
        """A line for people."""
        about = ", ".join(part for part in (self.status.status, self.status.date) if part) or "no date or status known"
        if self.superseded_by:
            return f"superseded by {', '.join(self.superseded_by)} ({about})"
        if self.status.superseded:
            return f"superseded by a later document ({about})"
        return f"{about}; read with {', '.join(self.read_with)}" if self.read_with else about


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which document replaces which, as the manifest has it. An empty one knows nothing and changes no order.

    `groups` is what puts documents into one tenant, whoever sees one of them sees all of them.
    """

    statuses: Mapping[str, DocumentStatus] = field(default_factory=dict)
    successors: Mapping[str, frozenset[str]] = field(default_factory=dict)
    related: Mapping[str, frozenset[str]] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[ManifestRecord]) -> Lineage:
        """The lineage of a manifest's records. Successors of successors count; so does an amended filing's amendment.

        An amendment (form `10-K/A`) supersedes the filing of the same filer, form and period; where there are several,
        the later date stands. Updates (RFC) change a document without replacing it.
        """
        records = current_versions(records)
        direct: dict[str, set[str]] = {}
        related: dict[str, set[str]] = {}
        for record in records:
            direct.setdefault(record.document_id, set()).update(record.obsoleted_by)
            for older in record.obsoletes:
                direct.setdefault(older, set()).add(record.document_id)
            for other in (*record.updates, *record.updated_by):
                related.setdefault(record.document_id, set()).add(other)
                related.setdefault(other, set()).add(record.document_id)
        for older, newer in _amendments(records):
            direct.setdefault(older, set()).add(newer)
        successors = {document: _closure(document, direct) for document in direct}
        statuses = {
            record.document_id: DocumentStatus(
                document_id=record.document_id,
                date=record.date or record.period_end,
                status=record.status or record.form,
                superseded=bool(record.obsoleted_by),
                updated=bool(record.updated_by),
            )
            for record in records
        }
        return cls(
            statuses=statuses,
            successors={document: found for document, found in successors.items() if found},
            related={document: frozenset(others) for document, others in related.items()},
            groups={record.document_id: (record.source, record.tenant_attribute) for record in records},
        )

    def supersedes(self, newer: str, older: str) -> bool:
        """Whether `newer` replaced `older`, at once or through others; in a cycle, neither did."""
        return newer in self.successors.get(older, ()) and older not in self.successors.get(newer, ())


@dataclass(frozen=True, slots=True)
class Ordered:
    """Places of the passages given, each once, and the standing of each place. `moved` stood before a successor."""

    order: tuple[int, ...]
    standings: tuple[Standing, ...]
    moved: tuple[int, ...]


def put_successors_first(passages: Sequence[Passage], lineage: Lineage, *, within: int | None = None) -> Ordered:
    """The order given, but that within the first `within` every superseded passage comes after all of its successors'.

    All after all, not best after best: else the successor's second passage would stand behind the text that it
    replaced. Behind the first `within` nothing moves, so that a successor which hardly answers the query does not push
    out a superseded text that does; that one stays, marked.
    """
    visible = {passage.document_id for passage in passages}
    groups = {lineage.groups[document] for document in visible if document in lineage.groups}
    standings = tuple(_standing(passage.document_id, lineage, visible, groups) for passage in passages)
    count = len(passages) if within is None else min(within, len(passages))
    left: dict[str, int] = {}
    for passage in passages[:count]:
        left[passage.document_id] = left.get(passage.document_id, 0) + 1
    newer = {document: [other for other in left if lineage.supersedes(other, document)] for document in left}
    waiting = list(range(count))
    order: list[int] = []
    while waiting:
        # There is one to be had, since supersession has no cycle.
        place = next(one for one in waiting if not any(left[other] for other in newer[passages[one].document_id]))
        waiting.remove(place)
        left[passages[place].document_id] -= 1
        order.append(place)
    moved = tuple(place for rank, place in enumerate(order) if rank > place and newer[passages[place].document_id])
    return Ordered((*order, *range(count, len(passages))), standings, moved)


def _standing(document: str, lineage: Lineage, visible: set[str], groups: set[tuple[str, str]]) -> Standing:
    status = lineage.statuses.get(document) or DocumentStatus(document, None, None, False, False)
    if any(lineage.groups.get(other) in groups for other in lineage.successors.get(document, ())):
        status = replace(status, superseded=True)
    newer = sorted(other for other in visible if lineage.supersedes(other, document))
    beside = sorted(
        other
        for other in lineage.related.get(document, frozenset()) & visible
        if other not in newer and not lineage.supersedes(document, other)
    )
    return Standing(status, tuple(newer), tuple(beside))


def _amendments(records: Sequence[ManifestRecord]) -> list[tuple[str, str]]:
    """(amended, amendment) of filings; an amendment is amended by a later one."""
    filings: dict[tuple[str, str, str], list[ManifestRecord]] = {}
    for record in records:
        if record.form and record.period_end:
            key = (record.tenant_attribute, record.form.removesuffix(_AMENDMENT), record.period_end)
            filings.setdefault(key, []).append(record)
    pairs = []
    for same in filings.values():
        for amendment in (r for r in same if r.form and r.form.endswith(_AMENDMENT)):
            for other in same:
                earlier = bool(other.form and other.form.endswith(_AMENDMENT)) and (
                    other.date is not None and amendment.date is not None and other.date < amendment.date
                )
                if other.form == (amendment.form or "").removesuffix(_AMENDMENT) or earlier:
                    pairs.append((other.document_id, amendment.document_id))
    return pairs


def _closure(document: str, direct: Mapping[str, set[str]]) -> frozenset[str]:
    found: set[str] = set()
    waiting = list(direct.get(document, ()))
    while waiting:
        one = waiting.pop()
        if one not in found and one != document:
            found.add(one)
            waiting.extend(direct.get(one, ()))
    return frozenset(found)

"""Attacks by words on the postings, which row-level security does not reach.

What belongs here: searching as principals of the database through the product's own lexical arm, for words that only
other tenants write. What may be searched comes from the verified claim, and every hit is read again; both are tried.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import ArtefactError, QueryError
from zeroth_assets.search.analyser import ANALYSERS, DEFAULT_ANALYSER
from zeroth_assets.search.lexical import LexicalRetriever, NoTermsError
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_file import postings_to_bytes
from zeroth_assets.search.sessions import Sessions
from zeroth_assets.search.shelf import PostingsShelf, artefact_name
from zeroth_assets.security import seed
from zeroth_assets.security.ground import Ground
from zeroth_assets.security.model import Probe, Record
from zeroth_assets.store.acl import MEASURING, UnknownPrincipalError, list_grants

_STRANGER = "zeroth-security-stranger"
_ASKERS, _FOREIGN, _WORDS = 3, 3, 5


@dataclass(frozen=True, slots=True)
class Asker:
    """A principal and the tenants that it was granted, by key."""

    principal: str
    tenants: frozenset[str]


def foreign_words(ground: Ground, record: Record) -> None:
    """Words that stand in hidden tenants' postings alone, and numbers that those would move."""
    if ground.brief:
        record.skip("a brief run")
        return
    with _postings_of(ground) as store:
        for chunk_set in _chunk_sets(ground):
            shelf = PostingsShelf(store, chunk_set)
            built = {key for key in store.partitions(artefact_name(chunk_set)) if key in ground.tenants}
            if not built:
                continue
            with Sessions(ground.db) as sessions:
                arm = LexicalRetriever(sessions, store, chunk_set)
                for asker in _askers(ground):
                    own = {term for key in asker.tenants & built for term in _terms(shelf, key)}
                    for hidden in sorted(built - asker.tenants)[:_FOREIGN]:
                        for word in sorted(_terms(shelf, hidden) - own, key=len, reverse=True)[:_WORDS]:
                            record.tried()
                            _ask(arm, ground, asker, word, f"{chunk_set}: words of {hidden}", record)
                    for word in sorted(own, key=len, reverse=True)[:_WORDS]:
                        record.tried()
                        _ask(arm, ground, asker, word, f"{chunk_set}: words of its own", record)
    if not record.tries:
        record.skip("this home has no postings that a principal is not granted")


def exchanged_files(ground: Ground, record: Record) -> None:
    """A hidden tenant's postings under the name of a tenant that the principal may see."""
    if ground.brief or not ground.throwaway:
        record.skip("a brief run" if ground.brief else "only beside a throw-away database: it exchanges files")
        return
    with _postings_of(ground) as store:
        chunk_set = seed.CHUNK_SET
        for asker in _askers(ground):
            hidden = sorted(set(seed.WORDS) - asker.tenants)
            for own in sorted(asker.tenants & set(seed.WORDS)) if hidden else ():
                record.tried()
                _post(store, own, of=hidden[0])
                with Sessions(ground.db) as sessions, contextlib.suppress(ArtefactError):
                    LexicalRetriever(sessions, store, chunk_set).search(asker.principal, seed.WORDS[hidden[0]])
                    record.breach(f"{asker.principal}: postings of {hidden[0]} were searched as those of {own}")
                _post(store, own, of=own)
    if not record.tries:
        record.skip("no principal is kept from any tenant")


def _ask(arm: LexicalRetriever, ground: Ground, asker: Asker, word: str, where: str, record: Record) -> None:
    try:
        found = arm.search_in_detail(asker.principal, word)
    except (UnknownPrincipalError, NoTermsError):
        return
    except QueryError as error:
        record.breach(f"{asker.principal}: {where}: refused for another reason ({error.what})")
        return
    allowed = {ground.tenants[key] for key in asker.tenants}
    foreign = [hit for hit in found.stage.candidates if hit.tenant_id not in allowed]
    if foreign:
        record.breach(f"{asker.principal}: {where}: {len(foreign)} hits")
    if strange := sorted(set(found.shelved.opened) - asker.tenants):
        record.breach(f"{asker.principal}: {where}: scores stand on {len(strange)} tenants that it may not see")
    if found.shelved.index.chunks != sum(one.postings.size for one in found.shelved.opened.values()):
        record.breach(f"{asker.principal}: {where}: N counts chunks that it may not see")


def _askers(ground: Ground) -> tuple[Asker, ...]:
    """The narrowest principals, one whose grants all ended, and nobody's name."""
    everybody = [
        Asker(one.principal, frozenset(one.tenant_keys))
        for one in list_grants(ground.db)
        if not one.principal.startswith(MEASURING)
    ]
    narrow = sorted((a for a in everybody if a.tenants), key=lambda a: (len(a.tenants), a.principal))[:_ASKERS]
    without = [a for a in everybody if not a.tenants][:1]
    return (*narrow, *without, Asker(_STRANGER, frozenset()))


def _chunk_sets(ground: Ground) -> tuple[str, ...]:
    with ground.db.owner() as connection:
        rows = connection.execute("select distinct name from zeroth.chunk_set order by name").fetchall()
    return tuple(str(row[0]) for row in rows)


def _terms(shelf: PostingsShelf, tenant: str) -> set[str]:
    opened = shelf.open(tenant)
    return set() if opened is None else set(opened.postings.terms())


@contextlib.contextmanager
def _postings_of(ground: Ground) -> Iterator[ArtefactStore]:
    """The home's postings; for a throw-away database, some of its own."""
    if not ground.throwaway:
        yield ArtefactStore(ground.db.home / "artefacts")
        return
    with tempfile.TemporaryDirectory(prefix="zeroth-postings-") as folder:
        store = ArtefactStore(folder)
        for key in seed.WORDS:
            _post(store, key, of=key)
        yield store


def _post(store: ArtefactStore, tenant: str, *, of: str) -> None:
    chunks, _ = seed.chunks_of(of)
    postings = build_postings(
        chunks["chunk_id"].to_list(),
        chunks["text"].to_list(),
        tenant=of,
        chunk_set=seed.CHUNK_SET,
        analyser=ANALYSERS[DEFAULT_ANALYSER],
    )
    store.write_bytes(
        postings_to_bytes(postings),
        ".bm25",
        artefact_name(seed.CHUNK_SET),
        tenant,
        describes="Postings to be attacked.",
        code_version="1",
        code=f"{__name__}._post",
        rows=postings.size,
    )


PROBES = (
    Probe(
        "postings: words of others",
        "searches as each principal for words that only hidden tenants write",
        "a hit of theirs, or a score that their chunks move",
        foreign_words,
    ),
    Probe(
        "postings: exchanged files",
        "puts a hidden tenant's postings under the name of a permitted one",
        "they are searched",
        exchanged_files,
    ),
)

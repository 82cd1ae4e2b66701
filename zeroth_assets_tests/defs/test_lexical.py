"""What the check of postings says when nobody may compare them."""

from __future__ import annotations

from pathlib import Path

from zeroth_assets.defs.lexical import agreement
from zeroth_assets.store.acl import grant, revoke
from zeroth_assets.store.connect import Database
from zeroth_assets_tests.search.corpus import CHUNK_SET, DIMENSION, filled


def test_a_tenant_whose_own_principal_lost_its_grant_is_not_compared_and_the_check_says_why(
    module_database: Database, tmp_path: Path
) -> None:
    store = filled(module_database, tmp_path)
    assert agreement(module_database, store, CHUNK_SET, "rfc-quic", DIMENSION).passed
    revoke(module_database, "rfc-quic")
    found = agreement(module_database, store, CHUNK_SET, "rfc-quic", DIMENSION)
    assert not found.passed
    assert "may not read rfc-quic" in str(found.metadata["not compared"].value)
    assert "zeroth acl grant rfc-quic rfc-quic" in str(found.metadata["remedy"].value)
    grant(module_database, "rfc-quic", ["rfc-quic"])
    assert agreement(module_database, store, CHUNK_SET, "rfc-quic", DIMENSION).passed

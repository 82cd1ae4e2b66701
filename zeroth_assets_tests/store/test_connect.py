from __future__ import annotations

from zeroth_assets.store.connect import Database


def test_each_role_connects_as_itself(fresh_database: Database) -> None:
    with fresh_database.owner() as conn:
        assert conn.execute("select current_user").fetchone() == ("zeroth_owner",)
    with fresh_database.loader() as conn:
        assert conn.execute("select current_user").fetchone() == ("zeroth_loader",)
    with fresh_database.app() as conn:
        assert conn.execute("select current_user").fetchone() == ("zeroth_app",)
    with fresh_database.admin() as conn:
        assert conn.execute("select current_user").fetchone() == ("zeroth_admin",)

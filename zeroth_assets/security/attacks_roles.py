"""What the other roles see, and that the rightful identity sees what it should.

What belongs here: probes as `zeroth_owner` and `zeroth_loader`, and the check without which a database that shows
nobody anything would pass for a safe one.
"""

from __future__ import annotations

from psycopg import sql

from zeroth_assets.security.ground import Ground, attempt
from zeroth_assets.security.model import Probe, Record


def owner_and_loader(ground: Ground, record: Record) -> None:
    """The owner, and a loader that has declared no tenant: no chunk, through parents and partitions."""
    tables = (*ground.content, *ground.partitions)
    for who, session in (("zeroth_owner", ground.db.owner), ("zeroth_loader", ground.db.loader)):
        with session() as connection:
            connection.execute("savepoint probe")
            for table in tables:
                record.tried()
                outcome = attempt(connection, sql.SQL("select 1 from {} limit 1").format(table.identifier))
                if outcome.rows:
                    record.breach(f"{who} sees rows of {table.path}")
            connection.rollback()
    if not tables:
        record.skip("there is no chunk table")


def complete(ground: Ground, record: Record) -> None:
    """The rightful identities see as many rows of their tenants as the builds' records say, and their tenants."""
    with ground.db.owner() as owner:
        rows = owner.execute(
            "select 'chunk_' || chunk_set_id, tenant_id, row_count from zeroth.index_build where status = 'live'"
            " union all select 'shared_' || chunk_set_id, tenant_id, row_count from zeroth.shared_part"
        ).fetchall()
    recorded = {(str(table), int(tenant)): int(count) for table, tenant, count in rows}
    for identity in (ground.cast.own, ground.cast.other):
        if identity is None:
            continue
        with ground.session(identity) as connection:
            for table in ground.content:
                record.tried()
                query = sql.SQL("select tenant_id, count(*) from {} group by tenant_id").format(table.identifier)
                seen = {int(tenant): int(count) for tenant, count in attempt(connection, query).rows}
                expected = {
                    tenant: count
                    for (name, tenant), count in recorded.items()
                    if name == table.name and tenant in identity.permitted and count
                }
                if seen != expected:
                    record.breach(
                        f"{identity.name}: {table.path}: {sum(seen.values())} rows, {sum(expected.values())} recorded"
                    )
            record.tried(2)
            tenants = {int(row[0]) for row in attempt(connection, "select tenant_id from zeroth.tenant").rows}
            granted = {int(row[0]) for row in attempt(connection, "select tenant_id from zeroth.my_grants()").rows}
            if tenants != identity.permitted or granted != identity.permitted:
                record.breach(
                    f"{identity.name}: {len(tenants)} tenants, {len(granted)} grants, {len(identity.permitted)} held"
                )


PROBES = (
    Probe(
        "the owner and the loader",
        "read chunk tables and partitions as zeroth_owner, and as zeroth_loader without a declared tenant",
        "a row",
        owner_and_loader,
    ),
    Probe(
        "the rightful identity sees its rows",
        "counts rows per tenant under a rightful claim, against the records of builds and grants",
        "more or fewer than recorded",
        complete,
    ),
)

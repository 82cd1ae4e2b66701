"""Attacks by way of the catalogue: its rules, statistics, schemas, names.

What belongs here: probes that look for hidden rows in what PostgreSQL keeps beside the tables.
"""

from __future__ import annotations

from psycopg import sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.security.ground import Ground, attempt
from zeroth_assets.security.matrix import OUR_SCHEMAS
from zeroth_assets.security.model import Probe, Record
from zeroth_assets.store.catalogue import lint_catalogue
from zeroth_assets.store.preflight import PreflightError, preflight


def lint(ground: Ground, record: Record) -> None:
    """The lint over the catalogue, as the querying role."""
    with ground.session(ground.cast.own) as connection:
        record.tried()
        for finding in lint_catalogue(connection):
            record.breach(f"{finding.object}: {finding.rule}: {finding.found}")


def looked_at_first(ground: Ground, record: Record) -> None:
    """What refuses to measure or to serve."""
    record.tried()
    try:
        preflight(ground.db)
    except PreflightError as error:
        for finding in error.differences:
            record.breach(f"{finding.object}: {finding.rule}: {finding.found}")
    except DatabaseError as error:
        record.breach(error.what)


def statistics(ground: Ground, record: Record) -> None:
    """Most common values, histograms and extended statistics of parents and partitions."""
    names = {relation.name for relation in ground.relations}
    with ground.session(ground.cast.own) as connection:
        for table in ("pg_statistic", "pg_statistic_ext_data"):
            record.tried()
            if not attempt(
                connection, sql.SQL("select 1 from pg_catalog.{} limit 1").format(sql.Identifier(table))
            ).refused:
                record.breach(f"{table} can be read")
        for view, columns in (
            ("pg_stats", "most_common_vals::text, histogram_bounds::text"),
            ("pg_stats_ext", "most_common_vals::text, null::text"),
            ("pg_stats_ext_exprs", "most_common_vals::text, histogram_bounds::text"),
        ):
            record.tried()
            rows = attempt(
                connection,
                sql.SQL("select tablename::text, {} from pg_catalog.{} where schemaname = any ({})").format(
                    sql.SQL(columns), sql.Identifier(view), list(OUR_SCHEMAS)
                ),
            ).rows
            for name, *_ in rows:
                if name in names and name not in ("meta", "chunk_set"):
                    record.breach(f"{view} shows {name}")
    record.tried()
    with ground.db.owner() as owner:
        kept = owner.execute(
            "select c.oid::regclass::text, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
            " where c.relnamespace = any (%s::regnamespace[]) and c.relkind in ('r', 'p') and a.attnum > 0"
            " and not a.attisdropped and coalesce(a.attstattarget, -1) <> 0 and a.attname <> 'tenant_id'"
            " and c.relname not in ('meta', 'chunk_set')",
            (["zeroth", "zeroth_acl"],),
        ).fetchall()
    for table, column in kept:
        record.breach(f"statistics are kept on {table}.{column}")


def schemas(ground: Ground, record: Record) -> None:
    """The access list's and the staging schema."""
    with ground.session(ground.cast.own) as connection:
        for schema in OUR_SCHEMAS:
            for privilege in ("USAGE", "CREATE"):
                if (schema, privilege) == ("zeroth", "USAGE"):
                    continue
                record.tried()
                held = attempt(
                    connection, sql.SQL("select has_schema_privilege({}::text, {})").format(schema, privilege)
                )
                if held.rows == [(True,)]:
                    record.breach(f"{privilege} on schema {schema}")


def names(ground: Ground, record: Record) -> None:
    """Names, comments, constraints, predicates, bounds, sources: do they say who a hidden tenant is?"""
    keys = {key: tenant for key, tenant in ground.tenants.items() if tenant in ground.hidden}
    words = {text: tenant for tenant, texts in ground.canaries.items() for text in texts if tenant in ground.hidden}
    with ground.session(ground.cast.own) as connection:
        for what, statement in (
            ("relation names", "select relname::text from pg_class"),
            ("schema names", "select nspname::text from pg_namespace"),
            ("comments", "select description from pg_description"),
            ("shared comments", "select description from pg_shdescription"),
            ("constraints", "select conname::text || pg_get_constraintdef(oid) from pg_constraint"),
            ("defaults", "select pg_get_expr(adbin, adrelid) from pg_attrdef"),
            ("index definitions", "select pg_get_indexdef(indexrelid) from pg_index where indexrelid >= 16384"),
            ("policies", "select polname::text || coalesce(pg_get_expr(polqual, polrelid), '') from pg_policy"),
            ("partition bounds", "select pg_get_expr(relpartbound, oid) from pg_class where relpartbound is not null"),
            ("function sources", "select prosrc from pg_proc where oid >= 16384"),
            ("settings", "select name || setting from pg_settings"),
            ("database and role settings", "select array_to_string(setconfig, ' ') from pg_db_role_setting"),
            ("information_schema", "select table_name || coalesce(view_definition, '') from information_schema.views"),
            ("role names", "select rolname::text from pg_roles"),
            ("security labels", "select label from pg_seclabels"),
        ):
            record.tried()
            whole = "\n".join(str(row[0]) for row in attempt(connection, statement).rows)
            for text, tenant in {**keys, **words}.items():
                if len(text) > 3 and text in whole:
                    record.breach(f"{what} name tenant {tenant}")
        listed = attempt(
            connection,
            "select table_schema || '.' || table_name from information_schema.tables where table_schema ~ '^zeroth'",
        ).rows
        record.tried()
        for (path,) in listed:
            if any(relation.path == path for relation in ground.partitions):
                record.breach(f"information_schema lists {path}")


PROBES = (
    Probe("access list and staging", "privileges on the schemas that are nobody's to query", "any", schemas),
    Probe("catalogue lint", "holds policies, grants, functions and flags against the design", "a finding", lint),
    Probe("preflight", "what is looked at before measuring and serving", "a difference", looked_at_first),
    Probe(
        "pg_statistic, pg_stats, pg_stats_ext",
        "reads common values and histograms of tables and partitions",
        "any are shown or kept",
        statistics,
    ),
    Probe(
        "names, comments and definitions",
        "looks for keys and words of hidden tenants in everything that the catalogue tells",
        "one stands there",
        names,
    ),
)

"""Attacks by way of the catalogue: statistics, sequences, functions, large objects, other sessions, names.

What belongs here: probes that look for hidden rows in what PostgreSQL keeps beside the tables.
"""

from __future__ import annotations

import contextlib

from psycopg import sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.security.ground import Ground, attempt, become
from zeroth_assets.security.identities import Identity
from zeroth_assets.security.matrix import OUR_SCHEMAS
from zeroth_assets.security.model import Probe, Record
from zeroth_assets.store.catalogue import lint_catalogue
from zeroth_assets.store.preflight import PreflightError, preflight

# SECURITY DEFINER functions that a query may call, and what each gives to whom nobody vouches for.
ANSWERS = {
    "zeroth.permitted_tenants()": "{}",
    "zeroth.verified_principal()": None,
    "zeroth.principal_is_known()": False,
    "zeroth.my_grants()": "no row",
}
_HOSTILE = {
    "int4": ("null", "0", "-1", "2147483647"),
    "int8": ("null", "-1", "9223372036854775807"),
    "text": ("null", "''", "'x''; drop table zeroth.meta; --'", "repeat('x', 100000)", "'zeroth.tenant'"),
    "bytea": ("null", "''", "'\\x00'"),
    "regclass": ("null", "'zeroth.tenant'::regclass", "0::regclass"),
}
# Of contrib modules and of the server, each reads past policies or changes what others rely on.
_FUNCTIONS = (
    "get_raw_page|heap_page_items|bt_page_items|bt_page_stats|bt_metap|page_header|fsm_page_contents|"
    "pgstattuple|pgstattuple_approx|pgstatindex|pgstatginindex|pgstathashindex|pg_relpages|pgrowlocks|"
    "pg_visibility|pg_visibility_map|pg_buffercache_pages|verify_heapam|bt_index_check|bt_index_parent_check|"
    "pg_get_wal_records_info|"
    "dblink|dblink_connect|pg_stat_statements|pg_read_file|pg_read_binary_file|pg_ls_dir|pg_ls_logdir|pg_ls_waldir|"
    "pg_stat_file|pg_file_write|lo_import|lo_export|pg_reload_conf|pg_rotate_logfile|pg_hba_file_rules|"
    "pg_show_all_file_settings|pg_promote|"
    "pg_get_shmem_allocations|pg_get_backend_memory_contexts|pg_log_standby_snapshot"
)
_STATEMENTS = (
    "copy (select 1) to '/tmp/zeroth-probe'",
    "copy (select 1) to program 'true'",
    "do $$ begin perform pg_read_file('/etc/passwd'); end $$",
    "select pg_ls_dir('.')",
    "select pg_current_logfile()",
    "select pg_logical_emit_message(true, 'probe', 'x'), pg_switch_wal()",
    "select setval('zeroth.tenant_tenant_id_seq', 1)",
    "checkpoint",
    "select pg_create_physical_replication_slot('zeroth_probe')",
    "select pg_logical_slot_get_changes('zeroth_probe', null, null)",
    "select pg_clear_relation_stats('zeroth', 'tenant')",
    "select pg_clear_attribute_stats('zeroth', 'tenant', 'tenant_id', false)",
    "analyze zeroth.tenant; select 1/0",
)


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


def sequences(ground: Ground, record: Record) -> None:
    """Where sequences stand: how many tenants, sets and builds there ever were."""
    with ground.session(ground.cast.own) as connection:
        found = attempt(
            connection,
            "select c.oid::regclass::text, c.oid::int8 from pg_class c where c.relkind = 'S'"
            " and c.relnamespace::regnamespace::text ~ '^zeroth'",
        ).rows
        for name, oid in found:
            for text in (
                "select last_value from {n}",
                "select nextval('{n}')",
                "select currval('{n}')",
                "select setval('{n}', 1)",
                "select 1 from pg_sequences s where schemaname || '.' || sequencename = '{n}' and s.last_value > 0",
                "select pg_sequence_last_value({o}) where pg_sequence_last_value({o}) is not null",
                "select last_value from pg_get_sequence_data({o}) where last_value is not null",
            ):
                record.tried()
                outcome = attempt(connection, text.format(n=name, o=oid))
                if outcome.rows:
                    record.breach(f"{text.format(n=name, o=oid)}: answered")
    if not found:
        record.skip("no sequence")


def functions(ground: Ground, record: Record) -> None:
    """Every function of ours with hostile arguments, and functions of others that read past policies."""
    with ground.session(Identity("", frozenset())) as connection:
        ours = attempt(
            connection,
            "select p.oid::regprocedure::text, n.nspname || '.' || p.proname, p.prosecdef,"
            " array(select t.typname::text from unnest(p.proargtypes) with ordinality a (oid, at)"
            " join pg_type t on t.oid = a.oid order by at), p.prorettype::regtype::text,"
            " has_function_privilege('zeroth_app', p.oid, 'EXECUTE')"
            " from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname ~ '^zeroth'"
            " or p.prosecdef and has_function_privilege('zeroth_app', p.oid, 'EXECUTE')",
        ).rows
        for signature, name, _, types, result, may in ours:
            if may and signature not in ANSWERS:
                record.breach(f"{signature} may be called")
            if result in ("trigger", "event_trigger"):
                continue
            for place in range(4):
                arguments = [_HOSTILE.get(kind, ("null",)) for kind in types]
                call = f"select {name}({', '.join(values[place % len(values)] for values in arguments)})"
                record.tried()
                outcome = attempt(connection, call)
                if outcome.rows == [(None,)] and not may:
                    continue  # a strict function of NULL is not even called
                if outcome.worked and not may:
                    record.breach(f"{signature}: answered")
                elif signature in ANSWERS and not _is_no_answer(outcome.rows, ANSWERS[signature]):
                    record.breach(f"{signature}: answers nobody with something")
                elif not may and not outcome.refused:
                    record.breach(f"{signature}: refused only by {outcome.state}")
                if not types:
                    break
        record.tried()
        beyond = attempt(
            connection,
            sql.SQL(
                "select p.oid::regprocedure::text from pg_proc p where p.proname ~ {}"
                " and has_function_privilege('zeroth_app', p.oid, 'EXECUTE')"
            ).format(f"^({_FUNCTIONS})$"),
        ).rows
        for (signature,) in beyond:
            record.breach(f"{signature} may be called")
        for statement in _STATEMENTS:
            record.tried()
            if attempt(connection, statement).worked:
                record.breach(f"not refused: {statement}")


def _is_no_answer(rows: list[tuple[object, ...]], expected: object) -> bool:
    if expected == "no row":
        return not rows
    return rows == [([] if expected == "{}" else expected,)]


def large_objects(ground: Ground, record: Record) -> None:
    """Storage that no policy binds."""
    with ground.session(ground.cast.own) as connection:
        record.tried()
        if not attempt(connection, "select 1 from pg_largeobject limit 1").refused:
            record.breach("pg_largeobject can be read")
        readable = attempt(
            connection,
            "select m.oid from pg_largeobject_metadata m where exists (select from aclexplode(m.lomacl) a"
            " where a.grantee in (0, 'zeroth_app'::regrole))",
        ).rows
        if readable:
            record.breach(f"{len(readable)} large objects are granted")
        for call in ("lo_create(0)", "lo_creat(-1)", "lo_from_bytea(0, 'x')", "lo_get(1)", "lo_open(1, 262144)"):
            record.tried()
            outcome = attempt(connection, f"select {call}")
            if not outcome.refused and ground.db.embedded:
                record.breach(f"{call}: not refused for privileges")


def other_sessions(ground: Ground, record: Record) -> None:
    """What another session of the same role does: its statements, its locks; ending it; its notifications."""
    if not ground.content:
        record.skip("there is no chunk table")
        return
    victim = ground.connect()
    with contextlib.closing(victim), ground.session(ground.cast.own) as connection:
        other = ground.cast.other or ground.cast.own
        become(victim, other)
        victim.execute(sql.SQL("select count(*) from {}").format(ground.content[0].identifier))
        pid, seen = victim.info.backend_pid, list[str]()
        for what, statement in (
            (
                "its statement",
                f"select 1 from pg_stat_activity where pid = {pid} and query !~ 'insufficient privilege'",
            ),
            ("its statement", f"select 1 where pg_stat_get_backend_activity({pid}) is not null"),
            ("its locks", f"select 1 from pg_locks where pid = {pid} and locktype = 'relation'"),
            ("its memory", f"select 1 where pg_log_backend_memory_contexts({pid})"),
            # A process that is none: refused before it is looked for.
            ("cancelling it", "select pg_cancel_backend(0)"),
            ("ending it", "select pg_terminate_backend(0)"),
        ):
            record.tried()
            if attempt(connection, statement).rows:
                seen.append(what)
        for what in seen if ground.db.embedded else ():
            record.breach(f"another session of the role: {what}")
        connection.execute("listen zeroth")
        record.tried()
        heard = list(connection.notifies(timeout=0))
        if heard:
            record.breach("a notification of another session")
        record.tried()
        senders = attempt(
            connection,
            "select p.oid::regprocedure::text from pg_proc p where p.pronamespace::regnamespace::text ~ '^zeroth'"
            " and p.prosrc ~* 'pg_notify|notify '",
        ).rows
        for (signature,) in senders:
            record.breach(f"{signature} notifies")


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
    Probe("catalogue lint", "holds policies, grants, functions and flags against the design", "a finding", lint),
    Probe("preflight", "what is looked at before measuring and serving", "a difference", looked_at_first),
    Probe(
        "pg_statistic, pg_stats, pg_stats_ext",
        "reads common values and histograms of tables and partitions",
        "any are shown or kept",
        statistics,
    ),
    Probe("access list and staging", "privileges on the schemas that are nobody's to query", "any", schemas),
    Probe("sequences", "reads, advances and sets them, by name, by oid and through views", "an answer", sequences),
    Probe(
        "functions with hostile arguments",
        "calls every function of ours, and looks for those that read pages, files or logs",
        "an answer to nobody, or a function beyond the list that may be called",
        functions,
    ),
    Probe("large objects", "reads and makes them", "not refused", large_objects),
    Probe(
        "other sessions",
        "reads statements and locks of another session of the role, ends it, listens to it",
        "any of it comes about",
        other_sessions,
    ),
    Probe(
        "names, comments and definitions",
        "looks for keys and words of hidden tenants in everything that the catalogue tells",
        "one stands there",
        names,
    ),
)

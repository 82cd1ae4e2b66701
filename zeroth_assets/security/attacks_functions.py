"""Attacks by calling: functions with hostile arguments, sequences, large objects, other sessions.

What belongs here: probes that ask PostgreSQL's functions, and ours, for what no table gives.
"""

from __future__ import annotations

import contextlib

from psycopg import sql

from zeroth_assets.security.ground import Ground, attempt, become
from zeroth_assets.security.identities import Identity
from zeroth_assets.security.model import Probe, Record

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
    "copy (select 1) to '/nonexistent/zeroth-probe'",
    "copy (select 1) to program 'true'",
    "do $$ begin perform pg_read_file('/etc/passwd'); end $$",
    "select pg_ls_dir('.')",
    "select pg_current_logfile()",
    "select pg_logical_emit_message(true, 'probe', 'x'), pg_switch_wal()",
    "select setval('zeroth.tenant_tenant_id_seq', 1)",
    "checkpoint",
    "select pg_logical_slot_get_changes('zeroth_probe', null, null)",
    "select pg_clear_relation_stats('zeroth', 'tenant')",
    "select pg_clear_attribute_stats('zeroth', 'tenant', 'tenant_id', false)",
)


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
            if not attempt(connection, statement).refused:
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


PROBES = (
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
)

"""Attacks by what a statement computes: leaky functions, errors, oracles, estimates, samples, full text.

What belongs here: probes in which the session is rightful and the statement reaches for more.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from zeroth_assets.security.canaries import look_for_canaries, named_tables
from zeroth_assets.security.ground import Ground, Outcome, attempt
from zeroth_assets.security.matrix import foreign
from zeroth_assets.security.model import Probe, Record

_NO_MAKING = (
    "create function pg_temp.f_leak(t text) returns bool language sql as 'select true'",
    "create function public.f_leak(t text) returns bool language sql as 'select true'",
    "create function zeroth.f_leak(t text) returns bool language plpgsql cost 0.0000001 as 'begin return true; end'",
    "create procedure public.p() language sql as ''",
    "create operator public.<<< (leftarg = text, rightarg = text, function = texteq)",
    "create aggregate public.agg (text) (sfunc = textcat, stype = text)",
    "create cast (text as int) with inout as implicit",
    "create type public.t as (n int)",
    "create domain public.d as text",
    "create view public.v as select 1",
    "create materialized view public.m as select 1",
    "create table public.t as select 1",
    "create temporary table t (n int)",
    "create temporary view v as select 1",
    "create temporary sequence s",
    "select 1 as n into temporary t",
    "create schema zeroth_probe",
    "create extension if not exists pgstattuple",
    "create language c",
    'create collation public.c from "C"',
    "create text search dictionary public.d (template = pg_catalog.simple)",
    "create text search configuration public.c (copy = pg_catalog.english)",
    "create publication zeroth_probe for all tables",
    "create event trigger zeroth_probe on ddl_command_end execute function suppress_redundant_updates_trigger()",
    "create foreign data wrapper zeroth_probe",
    "create server zeroth_probe foreign data wrapper none",
    "create subscription zeroth_probe connection '' publication p with (connect = false)",
    "alter function pg_catalog.textne(text, text) cost 1",
    "alter function zeroth.permitted_tenants() cost 1",
    "alter system set log_statement = 'all'",
    "load 'pgoutput'",
)


def making(ground: Ground, record: Record) -> None:
    """Nothing that could be put into a WHERE, a plan or a trigger can be made, not even in a temporary schema."""
    with ground.session(ground.cast.own) as connection:
        for statement in _NO_MAKING:
            record.tried()
            if attempt(connection, statement).worked:
                record.breach(f"not refused: {statement}")


def printing_functions(ground: Ground, record: Record) -> None:
    """Built-in functions that keep their arguments, in WHERE, before and behind the policy's test."""
    stash = "set_config('zeroth.seen', coalesce(current_setting('zeroth.seen', true), '') || tenant_id || ',', true)"
    for identity in ground.cast.all:
        for relation in named_tables(ground):
            for condition in (
                f"{stash} is not null",
                f"{stash} is not null or true",
                f"case when {stash} = '' then 1 end = 1",
            ):
                with ground.session(identity) as connection:
                    record.tried()
                    query = sql.SQL("select count(*) from {} where " + condition).format(relation.identifier)
                    connection.execute("select set_config('zeroth.seen', '', true)")
                    connection.execute("savepoint probe")
                    # Undone by the savepoint, so it is read within the same statement's successor.
                    outcome = _stashed(connection, query)
                    shown = foreign(outcome, identity, relation)
                    if shown:
                        record.breach(f"{identity.name}: {relation.path}: a function in WHERE was given {shown}")


def _stashed(connection: psycopg.Connection[Any], query: sql.Composed) -> Outcome:
    try:
        connection.execute(query, prepare=False)
        row = connection.execute("select current_setting('zeroth.seen', true)").fetchone()
    except psycopg.Error:
        connection.execute("rollback to savepoint probe")
        return Outcome()
    seen = {part for part in str(row[0] if row else "").split(",") if part}
    connection.execute("rollback to savepoint probe")
    return Outcome([(int(part),) for part in sorted(seen)])


def owners_function(ground: Ground, record: Record) -> None:
    """A cheap, leaky function that the owner made and granted, before and after the policy was made anew."""
    if not ground.throwaway or not ground.content:
        record.skip("only in a throw-away database: it takes a function of the owner's")
        return
    table = ground.content[0]
    make = (
        "create function zeroth.f_leak(n int) returns bool language plpgsql cost 0.0000001 as"
        " $$ begin perform set_config('zeroth.seen', current_setting('zeroth.seen', true) || n || ',', true);"
        " return true; end $$; grant execute on function zeroth.f_leak(int) to zeroth_app"
    )
    query = sql.SQL("select count(*) from {} where zeroth.f_leak(tenant_id)").format(table.identifier)
    renew = sql.SQL(
        "alter policy app_reads on {0} rename to app_reads_old; alter policy app_reads_old on {0} rename to app_reads"
    ).format(table.identifier)
    with ground.db.owner(autocommit=True) as owner:
        owner.execute(make)
        try:
            for when in ("before", "after"):
                for identity in ground.cast.all:
                    with ground.session(identity) as connection:
                        record.tried()
                        connection.execute("select set_config('zeroth.seen', '', true)")
                        connection.execute("savepoint probe")
                        if shown := foreign(_stashed(connection, query), identity, table):
                            record.breach(f"{identity.name}: f_leak made {when} the policy was given {shown}")
                owner.execute(renew)
        finally:
            owner.execute("drop function zeroth.f_leak(int)")


def error_texts(ground: Ground, record: Record) -> None:
    """Errors that a hidden row would raise: casts, divisions, overflows, constraints."""
    for identity in ground.cast.all:
        foreigners = sorted(frozenset(ground.tenants.values()) - identity.permitted)
        with ground.session(identity) as connection:
            for relation in named_tables(ground):
                statements = [
                    sql.SQL(
                        "select count(*) from {} where 1 / (case when tenant_id = {} then 0 else 1 end) = 1"
                    ).format(relation.identifier, tenant)
                    for tenant in foreigners[:3]
                ]
                if "text" in relation.columns:
                    statements += [
                        sql.SQL("select count(*) from {} where tenant_id = any ({}) and text::int = 1").format(
                            relation.identifier, foreigners
                        ),
                        sql.SQL("select count(*) from {} where tenant_id = any ({}) and text::xml is not null").format(
                            relation.identifier, foreigners
                        ),
                        sql.SQL(
                            "select count(*) from {} where tenant_id = any ({}) and substr(text, 1, -1) = ''"
                        ).format(relation.identifier, foreigners),
                    ]
                for statement in statements:
                    record.tried()
                    outcome = attempt(connection, statement)
                    if outcome.state and not outcome.refused:
                        record.breach(f"{identity.name}: {relation.path}: a hidden row raised {outcome.state}")
                    look_for_canaries(ground, identity, [outcome], f"{relation.path}: error text", record)


def oracles(ground: Ground, record: Record) -> None:
    """Unique and foreign-key violations: a key that a hidden row has is refused just as one that nobody has."""
    hidden = sorted(ground.hidden)
    keys = [key for key, tenant in ground.tenants.items() if tenant in ground.hidden]
    if not hidden:
        record.skip("the rightful identity sees every tenant")
        return
    pairs = [
        ("insert into zeroth.tenant (tenant_key) values ({})", keys[0], "never-there"),
        ("insert into zeroth.tenant (tenant_id, tenant_key) overriding system value values ({}, 'n')", hidden[0], -5),
        ("insert into zeroth.shared_part values (1, {}, 1, 1, 'x')", hidden[0], -5),
        ("insert into zeroth.index_build (chunk_set_id, tenant_id) values (1, {})", hidden[0], -5),
        ("insert into zeroth_acl.grant_ values ('probe', {})", hidden[0], -5),
        ("insert into zeroth_acl.principal values ({})", keys[0], "never-there"),
        ("select zeroth.register_tenant({})", keys[0], "never-there"),
        ("insert into zeroth.tenant (tenant_key) values ({}) on conflict do nothing", keys[0], "never-there"),
        ("delete from zeroth.tenant where tenant_id = {}", hidden[0], -5),
    ]
    for table in ground.content:
        pairs.append((f"insert into {table.path} (tenant_id, chunk_id) values ({{}}, 1)", hidden[0], -5))
        pairs.append((f"insert into {table.path} (tenant_id) values ({{}}) on conflict do nothing", hidden[0], -5))
    with ground.session(ground.cast.own) as connection:
        for text, there, absent in pairs:
            record.tried()
            found = [attempt(connection, sql.SQL(text).format(value)) for value in (there, absent)]
            if (found[0].state, found[0].message) != (found[1].state, found[1].message):
                record.breach(f"{text}: a hidden value is told from none ({found[0].state}, {found[1].state})")
            if not all(one.refused for one in found):
                record.breach(f"{text}: not refused for privileges ({found[0].state or 'carried out'})")


def estimates(ground: Ground, record: Record) -> None:
    """A bare EXPLAIN: do its estimates know a hidden tenant's values from values that nobody has?"""
    if not ground.canaries or not ground.hidden:
        record.skip("it takes values that a hidden tenant alone has")
        return
    with ground.session(ground.cast.own) as connection:
        for tenant, (word, digits) in _hidden_pairs(ground):
            for table in ground.content:
                for column, there, absent in (
                    ("document_id", f"doc-{word}", "doc-nothing"),
                    ("document_version", f"v-{digits}", "v-0"),
                    ("section_path", f"Section {word}", "Section nothing"),
                ):
                    record.tried()
                    told = [
                        attempt(
                            connection,
                            sql.SQL("explain (format json) select 1 from {} where tenant_id = {} and {} = {}").format(
                                table.identifier, tenant, sql.Identifier(column), value
                            ),
                        )
                        for value in (there, absent)
                    ]
                    rows = [str(one.rows[0][0][0]["Plan"]["Plan Rows"]) if one.rows else one.state for one in told]
                    if rows[0] != rows[1]:
                        record.breach(
                            f"{table.path}.{column}: {rows[0]} rows estimated where it is, {rows[1]} elsewhere"
                        )
        keys = [key for key, tenant in ground.tenants.items() if tenant in ground.hidden]
        told = [
            attempt(connection, sql.SQL("explain select 1 from zeroth.tenant where tenant_key = {}").format(value))
            for value in (keys[0], "never-there")
        ]
        if [one.rows[0][0].partition("rows=")[2] for one in told[:1]] != [
            one.rows[0][0].partition("rows=")[2] for one in told[1:]
        ]:
            record.breach("zeroth.tenant.tenant_key: a hidden key is estimated otherwise than one that nobody has")


def _hidden_pairs(ground: Ground) -> list[tuple[int, tuple[str, str]]]:
    return [(t, (texts[0], texts[1])) for t, texts in ground.canaries.items() if t in ground.hidden]


PROBES = (
    Probe(
        "making things",
        "functions, operators, casts, views, tables, temporary ones too, extensions, publications, triggers",
        "anything can be made",
        making,
    ),
    Probe(
        "functions in WHERE that print their arguments",
        "built-in functions without the mark of being leakproof, which keep what they are given",
        "one was given a hidden row",
        printing_functions,
    ),
    Probe(
        "the owner's f_leak",
        "a function that costs next to nothing, before and after the policy was made",
        "it was given a hidden row",
        owners_function,
    ),
    Probe(
        "error texts",
        "casts, divisions and ranges over hidden rows in WHERE",
        "a hidden row raises an error, or its text stands in one",
        error_texts,
    ),
    Probe(
        "unique and foreign-key violations",
        "inserts keys that a hidden row has, and keys that nobody has",
        "the two are refused in different words, or for another reason than privileges",
        oracles,
    ),
    Probe(
        "estimates of EXPLAIN",
        "compares estimates for a hidden tenant's values with those for values that nobody has",
        "they differ",
        estimates,
    ),
)

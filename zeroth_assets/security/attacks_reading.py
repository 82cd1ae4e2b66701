"""Attacks by the form of reading: samples, positions, full text, XML, order of distance.

What belongs here: probes that read what they may name in every way that PostgreSQL has.
"""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import sql

from zeroth_assets.security.canaries import look_for_canaries, named_tables
from zeroth_assets.security.ground import Ground, Outcome, Statement, attempt
from zeroth_assets.security.matrix import foreign
from zeroth_assets.security.model import Probe, Record


def samples(ground: Ground, record: Record) -> None:
    """TABLESAMPLE, system columns, row locks by position, whole-row and nested forms of reading."""
    for identity in ground.cast.all:
        with ground.session(identity) as connection:
            for relation in named_tables(ground):
                for text in (
                    "select tenant_id from {} tablesample system (100)",
                    "select tenant_id from {} tablesample bernoulli (100) repeatable (1)",
                    "select tenant_id from {} where ctid = '(0,1)'",
                    "select tenant_id from {} where ctid between '(0,1)' and '(0,200)'",
                    "select tenant_id from {} where xmin <> '0'",
                    "select tenant_id from only {}",
                    "table {}",
                    "with recursive s as (select tenant_id from {}) select * from s",
                    "select l.tenant_id from (select 1) x cross join lateral (select tenant_id from {} offset 0) l",
                    "select (json_agg(t) -> 0 ->> 'tenant_id')::int from {} t having count(*) > 0",
                    "select tenant_id from {} order by tenant_id limit 3 offset 0",
                    "select max(tenant_id) from {} having count(*) > 0",
                ):
                    record.tried()
                    outcome = attempt(connection, sql.SQL(text).format(relation.identifier))
                    if text == "table {}":
                        at = relation.columns.index("tenant_id")
                        outcome = Outcome([(row[at],) for row in outcome.rows], outcome.state)
                    if shown := foreign(outcome, identity, relation):
                        record.breach(f"{identity.name}: {text.format(relation.path)}: {shown}")
                record.tried()
                tables = attempt(
                    connection,
                    sql.SQL("select distinct tableoid::regclass::text from {}").format(relation.identifier),
                )
                for row in tables.rows:
                    number = str(row[0]).rpartition("_t")[2]
                    if number.isdigit() and int(number) not in identity.permitted:
                        record.breach(f"{identity.name}: tableoid of {relation.path} names tenant {number}")


def full_text(ground: Ground, record: Record) -> None:
    """Headlines, word statistics and statements inside of statements: the words of hidden tenants."""
    for identity in ground.cast.all:
        with ground.session(identity) as connection:
            for table in ground.content:
                name = table.path
                queries: list[Statement] = [
                    f"select ts_headline('english', text, 'clause'::tsquery) from {name} where tsv @@ 'claus'::tsquery",
                    f"select word from ts_stat('select tsv from {name}')",
                    f"select query_to_xml('select text from {name}', true, false, '')::text",
                    f"select table_to_xml('{name}', true, false, '')::text",
                    "select schema_to_xml('zeroth', true, false, '')::text",
                    f"select cursor_to_xml('c', 1000, true, false, '')::text from {name}",
                    f"select string_agg(text, ' ') from {name}",
                    f"select ts_rewrite('claus', 'select to_tsquery(''claus''), plainto_tsquery(text) from {name}')",
                ]
                queries += [
                    sql.SQL("select text from {} where tsv @@ plainto_tsquery('english', {})").format(
                        table.identifier, word
                    )
                    for word in _words(ground)
                ]
                for query in queries:
                    record.tried()
                    outcome = attempt(connection, query)
                    look_for_canaries(ground, identity, [outcome], f"{name}: {str(query)[:40]}", record)
                record.tried()
                order = sql.SQL("select tenant_id from {} order by embedding <=> (select {}::{}) limit 50").format(
                    table.identifier, sql.Literal(_unit(ground)), sql.SQL("vector")
                )
                if shown := foreign(attempt(connection, order), identity, table):
                    record.breach(f"{identity.name}: {name} in order of distance: {shown}")


def _unit(ground: Ground) -> str:
    dimension = _dimension(ground)
    return "[" + ",".join(["1", *["0"] * (dimension - 1)]) + "]"


def _dimension(ground: Ground) -> int:
    with ground.db.owner() as owner:
        row = owner.execute("select max(dimension) from zeroth.chunk_set").fetchone()
    return int(row[0]) if row and row[0] else 1


def _words(ground: Ground) -> Iterable[str]:
    return [text for texts in ground.canaries.values() for text in texts]


PROBES = (
    Probe(
        "TABLESAMPLE, system columns, forms of reading",
        "reads by sample, position, transaction id, table oid, ONLY, LATERAL, aggregates",
        "a hidden row",
        samples,
    ),
    Probe(
        "full text, XML and order of distance",
        "headlines, word statistics, statements inside of statements, nearest neighbours",
        "words or rows of a hidden tenant",
        full_text,
    ),
)

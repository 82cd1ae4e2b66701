"""Table by command by identity, generated from the catalogue: a table that is added later is tested by being there.

What belongs here: the commands, what each must come to, and the run over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from zeroth_assets.security.ground import GONE, OPEN, Ground, Outcome, Relation, attempt, copy_in, copy_out
from zeroth_assets.security.identities import NOBODY, OWN, Identity
from zeroth_assets.security.model import Probe, Record

OUR_SCHEMAS = ("zeroth", "zeroth_acl", "zeroth_staging", "zeroth_migration")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that no identity may carry out on any table."""

    name: str
    privilege: str | None
    statement: Callable[[Relation], sql.Composed]
    kinds: str = "rpvmf"


def _on(text: str) -> Callable[[Relation], sql.Composed]:
    return lambda relation: sql.SQL(text).format(
        relation=relation.identifier,
        column=sql.Identifier(relation.columns[-1] if relation.columns else "none"),  # the first may be an identity
    )


COMMANDS: tuple[Command, ...] = (
    Command("INSERT", "INSERT", _on("insert into {relation} default values")),
    Command("UPDATE", "UPDATE", _on("update {relation} set {column} = {column}")),
    Command("DELETE", "DELETE", _on("delete from {relation}")),
    Command(
        "MERGE", None, _on("merge into {relation} using (values (1)) v (n) on true when matched then delete"), "rp"
    ),
    Command("TRUNCATE", "TRUNCATE", _on("truncate {relation}"), "rp"),
    Command("SELECT FOR UPDATE", None, _on("select 1 from {relation} for update"), "rpv"),
    Command("COPY FROM", None, _on("copy {relation} from stdin"), "rp"),
    Command("REFERENCES", "REFERENCES", _on("create table public.zeroth_probe (n int references {relation})"), "rp"),
    Command(
        "TRIGGER",
        "TRIGGER",
        _on(
            "create trigger zeroth_probe before insert on {relation} for each row"
            " execute function suppress_redundant_updates_trigger()"
        ),
        "rp",
    ),
    Command("CREATE INDEX", None, _on("create index on {relation} ({column})"), "rpm"),
    Command("CREATE POLICY", None, _on("create policy zeroth_probe on {relation} using (true)"), "rp"),
    Command("CREATE RULE", None, _on("create rule zeroth_probe as on delete to {relation} do nothing"), "rp"),
    Command(
        "CREATE STATISTICS", None, _on("create statistics zeroth_probe on {column}, {column} from {relation}"), "rpm"
    ),
    Command("DISABLE ROW LEVEL SECURITY", None, _on("alter table {relation} disable row level security"), "rp"),
    # Without a grant option, GRANT is a warning where any privilege is held; so the option is looked up.
    Command("GRANT", "SELECT WITH GRANT OPTION", _on("grant insert on {relation} to zeroth_loader"), ""),
    Command("COMMENT", None, _on("comment on table {relation} is 'seen'"), "rp"),
    Command("DROP", None, _on("drop table {relation}"), "rp"),
    Command("LOCK", None, _on("lock table {relation} in access exclusive mode nowait"), "rp"),
)
# Commands that are refused for a reason that precedes the privilege; what the privilege says is looked up besides.
_OTHER_REFUSALS = {
    "CREATE STATISTICS": ("42602", "0A000", "42601"),
    "COMMENT": ("42809",),
    "SELECT FOR UPDATE": ("0A000",),
}


def run_matrix(ground: Ground, record: Record) -> None:
    """Every relation, every command, every identity."""
    for identity in ground.cast.all:
        # A privilege is the role's, whoever asks: a brief run tries commands as two of them.
        writes = not ground.brief or identity.name in (NOBODY, OWN)
        with ground.session(identity) as connection:
            for relation in ground.relations:
                _read(connection, identity, relation, record)
                for command in COMMANDS:
                    if writes and relation.kind in command.kinds:
                        _write(connection, identity, relation, command, record)
    _privileges(ground, record)


def foreign(outcome: Outcome, identity: Identity, relation: Relation) -> str:
    """What an outcome shows that the identity may not see, in words; empty if nothing. Rows begin with a tenant id."""
    if not outcome.rows:
        return ""
    if relation.has_tenant:
        seen = {int(row[0]) if row[0] is not None else -1 for row in outcome.rows}
        extra = seen - identity.permitted
        return f"rows of tenants {sorted(extra)[:6]}" if extra else ""
    return "" if relation.path in OPEN else f"{len(outcome.rows)} rows that belong to no tenant"


def reading(relation: Relation) -> sql.Composed:
    """A statement that gives the tenants whose rows are there, or one row per row."""
    if relation.has_tenant:
        return sql.SQL("select tenant_id, count(*) from {} group by tenant_id").format(relation.identifier)
    return sql.SQL("select 1 from {} limit 5").format(relation.identifier)


def _read(connection: psycopg.Connection[Any], identity: Identity, relation: Relation, record: Record) -> None:
    record.tried(4)
    whole = attempt(connection, reading(relation))
    # A grant on one column lets rows be counted, whatever the column.
    counted = attempt(connection, sql.SQL("select count(*) from {}").format(relation.identifier))
    column = sql.SQL("tenant_id" if relation.has_tenant else "1")
    copied = copy_out(connection, sql.SQL("copy (select {} from {}) to stdout").format(column, relation.identifier))
    for how, outcome in (("SELECT", whole), ("COPY (query) TO", copied)):
        if outcome.state in GONE:
            return
        shown = foreign(outcome, identity, relation)
        if shown:
            record.breach(f"{identity.name}: {how} {relation.path}: {shown}")
    expected = sum(int(row[1]) for row in whole.rows) if relation.has_tenant else None
    if counted.worked and whole.refused and counted.rows[0][0]:
        record.breach(
            f"{identity.name}: SELECT count(*) {relation.path}: {counted.rows[0][0]} rows, by a column's grant"
        )
    if relation.is_partition and not whole.refused:
        record.breach(f"{identity.name}: SELECT {relation.path}: not refused, and a partition may not be named at all")
    if relation.kind in "rpm":
        plain = copy_out(connection, sql.SQL("copy {} to stdout").format(relation.identifier))
        if plain.worked and plain.rows and (len(plain.rows) > (expected or 0) and relation.path not in OPEN):
            record.breach(
                f"{identity.name}: COPY {relation.path} TO: {len(plain.rows)} lines, SELECT gives {expected or 0}"
            )


def _write(
    connection: psycopg.Connection[Any], identity: Identity, relation: Relation, command: Command, record: Record
) -> None:
    record.tried()
    run = copy_in if command.name == "COPY FROM" else attempt
    outcome = run(connection, command.statement(relation))
    if outcome.refused or outcome.state in GONE or outcome.state in _OTHER_REFUSALS.get(command.name, ()):
        return
    came = "carried out" if outcome.worked else f"refused only by {outcome.state}"
    record.breach(f"{identity.name}: {command.name} {relation.path}: {came}")


def _privileges(ground: Ground, record: Record) -> None:
    """A privilege behind which only a policy stands is a breach already."""
    named: Iterable[tuple[str, str]] = [(c.name, c.privilege) for c in COMMANDS if c.privilege is not None]
    with ground.session(ground.cast.own) as connection:
        for relation in ground.relations:
            for name, privilege in named:
                record.tried()
                columns = privilege in ("INSERT", "UPDATE", "REFERENCES")
                function = sql.SQL("has_any_column_privilege" if columns else "has_table_privilege")
                outcome = attempt(
                    connection,
                    sql.SQL("select {}({}::oid, {})").format(
                        function, sql.Literal(relation.oid), sql.Literal(privilege)
                    ),
                )
                if outcome.rows and outcome.rows[0][0]:
                    record.breach(f"zeroth_app holds {name} on {relation.path}")


MATRIX = Probe(
    "table x command x identity",
    "every command on every table, partition and view that the catalogue lists, as every identity",
    "a row of a tenant that the identity may not see, or a command other than reading that is not refused",
    run_matrix,
)

"""A lint over PostgreSQL's catalogue: is every table, policy, grant and function behind the boundary as it has to be?

What belongs here: findings, and running the rules. The rules are in `catalogue_rules` (statements over the catalogue)
and `catalogue_policies` (wording of policies, bodies of functions). Any role can run them; they read no row of ours.

A rule names what is allowed, never what is forbidden, so that whatever is added later is a finding until somebody has
thought about it and said why it is none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from zeroth_assets.store.catalogue_policies import function_differences, policy_differences
from zeroth_assets.store.catalogue_rules import RULES, Rule


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing in the database that is not as the boundary needs it."""

    object: str
    rule: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.object}: {self.rule}: {self.found}. To do: {self.remedy}"


def lint_catalogue(connection: psycopg.Connection[Any]) -> tuple[Finding, ...]:
    """Everything that is not as it has to be, by object; empty where the boundary's shape holds.

    What it cannot see: what the functions' callers do, and rows that one function or grant in the list may let through.
    """
    with _plain_names(connection):
        return tuple(
            sorted(
                {
                    *apply_rules(connection, RULES),
                    *(
                        Finding(*difference)
                        for difference in (*policy_differences(connection), *function_differences(connection))
                    ),
                }
            )
        )


def apply_rules(connection: psycopg.Connection[Any], rules: Iterable[Rule]) -> Iterator[Finding]:
    """The findings of some rules. The rules' statements take no parameters and give object and what was found."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        for rule in rules:
            for found_object, found in cursor.execute(rule.statement).fetchall():
                yield Finding(str(found_object), rule.name, str(found), rule.remedy)


@contextlib.contextmanager
def _plain_names(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """With nothing but pg_catalog on the search path, the catalogue's texts name every schema; then as it was."""
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("select current_setting('search_path')").fetchone()
        cursor.execute("select set_config('search_path', 'pg_catalog', true)")
        yield
        cursor.execute("select set_config('search_path', %s, true)", (row[0] if row else "",))

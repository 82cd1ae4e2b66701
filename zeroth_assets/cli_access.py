"""The command line's `zeroth acl`, `zeroth claim` and `zeroth db lint`.

What belongs here: arguments, what is printed, and exit codes of the commands about who may see what.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from zeroth_assets.cli_output import Json, database_of, emit, out
from zeroth_assets.errors import QueryError
from zeroth_assets.settings import load_settings

if TYPE_CHECKING:
    from zeroth_assets.store.connect import Database

acl = typer.Typer(no_args_is_help=True, help="Who may see which tenants. Changes hold from the next statement on.")
claim = typer.Typer(no_args_is_help=True, help="The key that signs who asks.")
Principal = Annotated[str, typer.Argument(help="Name of the principal, as the caller's verified session carries it.")]


@acl.command("grant")
def acl_grant(
    principal: Principal,
    tenant: Annotated[list[str], typer.Argument(help="Tenant keys.")],
    as_json: Json = False,
) -> None:
    """Let a principal see tenants; a key that is not known grants none of them. The name needs no sign-up."""
    from zeroth_assets.store.acl import grant

    database = database_of(load_settings())
    _refuse_built_in(database, principal)
    new = grant(database, principal, tenant)
    if as_json:
        emit({"principal": principal, "granted": new})
    else:
        out.print(f"{new} granted, {len(set(tenant)) - new} held before", highlight=False)


@acl.command("revoke")
def acl_revoke(
    principal: Principal,
    tenant: Annotated[list[str] | None, typer.Argument(help="Tenant keys.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every tenant of the principal.")] = False,
    as_json: Json = False,
) -> None:
    """Take tenants from a principal; with --all, every one."""
    from zeroth_assets.store.acl import revoke

    if bool(tenant) == everything:
        raise QueryError(
            "It is not clear what is to be revoked", expected="tenant keys, or --all", remedy="name one or the other"
        )
    database = database_of(load_settings())
    _refuse_built_in(database, principal)
    ended = revoke(database, principal, tenant or None)
    if as_json:
        emit({"principal": principal, "revoked": ended})
    else:
        out.print(f"{ended} revoked", highlight=False)


def _refuse_built_in(database: Database, principal: str) -> None:
    """What is measured as a tenant or as `all` is asked by these principals: their grants follow the corpus."""
    from zeroth_assets.store.registry import EVERYTHING, list_tenants

    if principal == EVERYTHING or principal in {tenant.tenant_key for tenant in list_tenants(database)}:
        raise QueryError(
            f"What {principal!r} may see is not changed by hand",
            expected="a name of your own",
            found=f"{'the principal of every tenant' if principal == EVERYTHING else 'the principal of one tenant'},"
            " as which the figures are measured",
            remedy="grant another name the tenants that it is to see",
        )


@acl.command("list")
def acl_list(
    principal: Annotated[str | None, typer.Argument(help="One principal; default: all.")] = None,
    as_json: Json = False,
) -> None:
    """List principals and the tenants that each may see."""
    from zeroth_assets.store.acl import UnknownPrincipalError, list_grants

    grants = [g for g in list_grants(database_of(load_settings())) if principal in (None, g.principal)]
    if principal is not None and not grants:
        raise UnknownPrincipalError(
            f"Nobody is called {principal!r}", expected="a principal that was granted something", found="no such name"
        )
    if as_json:
        emit([asdict(one) for one in grants])
        return
    for one in grants:
        out.print(
            f"{escape(one.principal)}: {', '.join(one.tenant_keys) or 'nothing'}", highlight=False, soft_wrap=True
        )


@claim.command("rotate-key")
def claim_rotate(
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Refuse the former key from now on: open sessions end.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Sign with a new key from now on; claims under the former one hold until they run out."""
    from zeroth_assets.store.claim_keys import rotate_claim_key

    database = database_of(load_settings())
    key = rotate_claim_key(database, overlap=0.0) if at_once else rotate_claim_key(database)
    if as_json:
        emit({"key_id": key})
    else:
        out.print(f"new key {key}", highlight=False)


@claim.command("list")
def claim_list(as_json: Json = False) -> None:
    """List the keys that the database knows, without the keys themselves."""
    from zeroth_assets.store.claim_keys import list_claim_keys

    keys = [asdict(key) for key in list_claim_keys(database_of(load_settings()))]
    if as_json:
        emit(keys)
        return
    for key in keys:
        out.print("  ".join(f"{name} {value}" for name, value in key.items()), highlight=False, soft_wrap=True)


def db_lint(as_json: Json = False) -> None:
    """Look whether tables, grants, policies and functions are as the boundary needs them. Exit code 10 if not."""
    from zeroth_assets.errors import DatabaseError
    from zeroth_assets.store.catalogue import lint_catalogue
    from zeroth_assets.store.failures import database_errors
    from zeroth_assets.store.preflight import PreflightError, preflight

    database = database_of(load_settings())
    with database_errors("reading the catalogue"), database.owner() as connection:
        findings = list(lint_catalogue(connection))
    try:
        preflight(database)
    except PreflightError as error:
        findings += [one for one in error.differences if one not in findings]
    if as_json:
        emit([asdict(one) for one in findings])
    else:
        for one in findings:
            out.print(str(one), highlight=False, markup=False, soft_wrap=True)
        out.print(f"{len(findings)} findings", highlight=False)
    if findings:
        raise typer.Exit(DatabaseError.exit_code)

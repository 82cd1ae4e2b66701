"""The command line, `zeroth`.

What belongs here: arguments, what is printed, and exit codes. Every command does its work by one call into the package.
Heavy imports (Dagster, the encoder) wait until a command needs them, so that `--help` is quick.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from zeroth_assets import __version__
from zeroth_assets.cli_access import acl, claim, db_lint
from zeroth_assets.cli_baseline import baseline
from zeroth_assets.cli_beir import beir
from zeroth_assets.cli_corpus import corpus
from zeroth_assets.cli_judge import judge
from zeroth_assets.cli_ledger import ledger
from zeroth_assets.cli_metrics import metrics
from zeroth_assets.cli_output import Json, database_of, emit, err, out
from zeroth_assets.cli_query import query
from zeroth_assets.cli_security import security
from zeroth_assets.errors import SettingsError, ZerothError
from zeroth_assets.settings import Settings, load_settings

INTERRUPTED = 130
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A measured, access-controlled retrieval index on PostgreSQL + pgvector, as Dagster assets.",
)
db = typer.Typer(no_args_is_help=True, help="The database: embedded, or the one that ZEROTH_DATABASE_URL names.")
app.add_typer(db, name="db")
app.add_typer(corpus, name="corpus")
app.add_typer(acl, name="acl")
app.add_typer(claim, name="claim")
app.add_typer(security, name="security")
app.add_typer(baseline, name="baseline")
app.add_typer(beir, name="beir")
app.add_typer(judge, name="judge")
app.add_typer(ledger, name="ledger")
app.command("query")(query)
db.command("lint")(db_lint)
app.add_typer(metrics, name="metrics")


@app.command()
def version() -> None:
    """Print the version."""
    out.print(__version__)


@app.command()
def materialize(
    tenant: Annotated[list[str] | None, typer.Option("--tenant", "-t", help="Tenant key; repeat for several.")] = None,
    source: Annotated[list[str] | None, typer.Option("--source", "-s", help="Source: sec, cuad, rfc, text.")] = None,
    asset: Annotated[
        list[str] | None, typer.Option("--asset", help="Make this asset again, fresh or not; repeat for several.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", help="With --asset: its source, tenant, or CHUNK_SET.RETRIEVER.")
    ] = None,
    fan_ins: Annotated[
        bool, typer.Option("--fan-ins/--no-fan-ins", help="Whether to make what stands on all tenants.")
    ] = True,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of bars.")] = False,
    as_json: Json = False,
) -> None:
    """Make what is stale: source runs, a run per tenant, then what stands on all tenants. Nothing stale means no run.

    Narrowed by --tenant or --source, what stands on all tenants is made of the tenants that there are.
    """
    from zeroth_assets.defs.console import materialize_here, quieten

    quieten()
    from zeroth_assets.definitions import build_defs

    if asset and (tenant or source):
        raise SettingsError(
            "--asset makes one artefact again, --tenant and --source narrow the plan",
            remedy="name the asset's partition by --partition, or leave --asset out",
        )
    settings = load_settings()
    outcome = materialize_here(
        settings,
        build_defs,
        tenants=tuple(tenant or settings.tenants),
        sources=tuple(source or ()),
        assets=tuple(asset or ()),
        partition=partition,
        console=err if as_json else out,
        bars=not plain and not as_json and err.is_terminal,
        fan_ins=fan_ins,
    )
    if as_json:
        emit(outcome.as_dict())
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


@app.command()
def dev(
    host: Annotated[str, typer.Option(help="Address that the UI listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the UI.")] = 3000,
    webserver: Annotated[bool, typer.Option(help="Run the web server.")] = True,
    daemon: Annotated[bool, typer.Option(help="Run the daemon (schedules, backfills, the run queue).")] = True,
) -> None:
    """Open the Dagster UI on this home's instance. Ctrl-C stops it and what it started."""
    from zeroth_assets.defs.server import serve

    raise typer.Exit(serve(load_settings(), host=host, port=port, webserver=webserver, daemon=daemon, console=out))


@app.command()
def env() -> None:
    """Print the variables for a bare Dagster command: eval "$(zeroth env)"."""
    from zeroth_assets.defs.instance import environment
    from zeroth_assets.defs.resources import Project

    project = Project()
    for name, value in environment(project.settings, project.database).items():
        sys.stdout.write(f"export {name}={_quoted(value)}\n")


@app.command()
def provenance(
    artefact: Annotated[str, typer.Argument(help="Asset, or asset/partition: ann_recall_fixed_512/rfc-tls.")],
    verify: Annotated[bool, typer.Option("--verify", help="Read every file along the chain again.")] = False,
    as_json: Json = False,
) -> None:
    """Print what an artefact stands on, down to URL and checksum. With --verify, fail on the first mismatch."""
    from zeroth_assets.artefacts import ArtefactStore
    from zeroth_assets.corpus.manifest import load_manifest
    from zeroth_assets.planning import all_assets
    from zeroth_assets.provenance import named, trace
    from zeroth_assets.provenance import verify as verify_chain

    settings = load_settings()
    store, manifest = ArtefactStore(settings.state_dir / "artefacts"), load_manifest(settings.manifest_path)
    chain = trace(store, manifest, *named(store, artefact, all_assets()))
    read = None
    if verify:
        raw_dir = settings.state_dir / "raw"
        read = verify_chain(chain, store, manifest, raw_dir, manifest_path=settings.manifest_path)
    if as_json:
        emit({**chain.to_json(), "verified": asdict(read) if read else None})
        return
    out.print(chain.to_text(), highlight=False, markup=False, soft_wrap=True)
    if read:
        out.print(f"verified: {read.artefacts} artefacts and {read.documents} documents read again", highlight=False)


@db.command("start")
def db_start(as_json: Json = False) -> None:
    """Start the embedded server, or check the external one, and make roles and databases where they are absent."""
    settings = load_settings()
    database_of(settings)
    _db_status(settings, as_json)


@db.command("stop")
def db_stop() -> None:
    """Stop the embedded server of this home; fine if it does not run."""
    from zeroth_assets.defs.processes import sweep
    from zeroth_assets.store.server import stop

    settings = load_settings()
    if settings.database_url:
        raise SettingsError(
            "The external database is not ours to stop",
            expected="the embedded server",
            found="ZEROTH_DATABASE_URL is set",
            remedy="unset it, or stop the server where it runs",
        )
    sweep(settings.state_dir)
    out.print("stopped" if stop(settings.state_dir) else "not running")


@db.command("status")
def db_status(as_json: Json = False) -> None:
    """Say whether the database answers, its versions and where it lies. Exit code 3 when it does not run."""
    _db_status(load_settings(), as_json)


@db.command("psql", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def db_psql(
    context: typer.Context,
    role: Annotated[str, typer.Option(help="admin, owner, loader or app.")] = "app",
) -> None:
    """Open psql as a role, `app` by default: it sees what a query sees. Further arguments go to psql."""
    from zeroth_assets.store.shell import psql_command

    settings = load_settings()
    arguments, variables = psql_command(database_of(settings), role, settings.pg_bin)
    done = subprocess.run([*arguments, *context.args], env={**os.environ, **variables}, check=False)
    raise typer.Exit(done.returncode)


@db.command("migrate")
def db_migrate(as_json: Json = False) -> None:
    """Apply the migrations that the database lacks."""
    from zeroth_assets.store.migrate import migrate

    settings = load_settings()
    report = migrate(database_of(settings), corpus=settings.corpus)
    if as_json:
        emit({"applied": list(report.applied), "already": list(report.already)})
    else:
        out.print(f"{len(report.applied)} applied, {len(report.already)} already there")


def _db_status(settings: Settings, as_json: bool) -> None:
    from zeroth_assets.store.connect import external_database
    from zeroth_assets.store.server import status

    if settings.database_url:
        database = external_database(settings.database_url, settings.state_dir)
        report = {"state": "running", "place": repr(database), **asdict(database.ensure_databases())}
    else:
        report = asdict(status(settings.state_dir))
    if as_json:
        emit(report)
    else:
        for name, value in report.items():
            out.print(f"{name}: {'' if value is None else value}", highlight=False, soft_wrap=True)
    if report["state"] != "running":
        raise typer.Exit(3)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def main() -> None:
    """Entry point: errors that are meant for a person go to standard error, without a traceback."""
    try:
        app()
    except ZerothError as error:
        err.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except SystemExit as ending:
        if ending.code == INTERRUPTED:  # Typer made it of the KeyboardInterrupt
            err.print("interrupted; the same command goes on from here", highlight=False)
        raise


if __name__ == "__main__":
    main()

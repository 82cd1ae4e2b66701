"""The command line, `zeroth`.

What belongs here: arguments, what is printed, and exit codes. Every command does its work by one call into the package.
Heavy imports (Dagster, the encoder) wait until a command needs them, so that `--help` is quick.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from zeroth_assets import __version__
from zeroth_assets.errors import AcquisitionError, SettingsError, ZerothError
from zeroth_assets.settings import Settings, load_settings

if TYPE_CHECKING:
    from zeroth_assets.store.connect import Database

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A measured, access-controlled retrieval index on PostgreSQL + pgvector, as Dagster assets.",
)
db = typer.Typer(no_args_is_help=True, help="The database: embedded, or the one that ZEROTH_DATABASE_URL names.")
corpus = typer.Typer(no_args_is_help=True, help="The corpus: manifest, bytes, tenants.")
app.add_typer(db, name="db")
app.add_typer(corpus, name="corpus")

PLAIN_WIDTH = 140
out = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
err = Console(stderr=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]


def emit(payload: Any) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(payload, indent=2, default=str) + "\n")


@app.command()
def version() -> None:
    """Print the version."""
    out.print(__version__)


@app.command()
def materialize(
    tenant: Annotated[list[str] | None, typer.Option("--tenant", "-t", help="Tenant key; repeat for several.")] = None,
    source: Annotated[list[str] | None, typer.Option("--source", "-s", help="Source: sec, cuad, rfc.")] = None,
    asset: Annotated[
        list[str] | None, typer.Option("--asset", help="Make this asset again, fresh or not; repeat for several.")
    ] = None,
    partition: Annotated[str | None, typer.Option("--partition", help="With --asset: its source or tenant.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of bars.")] = False,
    as_json: Json = False,
) -> None:
    """Make what is stale: source runs, then a run per tenant, each a Dagster run. Nothing stale means no run."""
    from zeroth_assets.defs.console import materialize_here, quieten

    quieten()
    from zeroth_assets.definitions import build_defs

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
    from zeroth_assets.provenance import trace
    from zeroth_assets.provenance import verify as verify_chain

    settings = load_settings()
    store, manifest = ArtefactStore(settings.state_dir / "artefacts"), load_manifest(settings.manifest_path)
    name, _, partition = artefact.partition("/")
    chain = trace(store, manifest, name, partition or None)
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


@app.command()
def metrics(
    chunk_set: Annotated[str | None, typer.Option(help="One chunk set; default: all.")] = None,
    tenant: Annotated[list[str] | None, typer.Option("--tenant", "-t", help="Tenant key; repeat for several.")] = None,
    all_ef: Annotated[bool, typer.Option("--all-ef", help="Every ef_search, not only the headline 40.")] = False,
    as_json: Json = False,
) -> None:
    """Print the metric tables: per tenant and chunk set, exact against HNSW, with intervals."""
    from zeroth_assets.defs.tables import ann_recall_frame, ann_recall_table

    settings = load_settings()
    frame = ann_recall_frame(
        settings, tenants=tuple(tenant or settings.tenants), chunk_set=chunk_set, headline_only=not all_ef
    )
    if as_json:
        emit(frame.to_dicts())
        return
    for table in ann_recall_table(frame):
        out.print(table)


@db.command("start")
def db_start(as_json: Json = False) -> None:
    """Start the embedded server, or check the external one, and make roles and databases where they are absent."""
    settings = load_settings()
    _database(settings)
    _db_status(settings, as_json)


@db.command("stop")
def db_stop() -> None:
    """Stop the embedded server of this home; fine if it does not run."""
    from zeroth_assets.store.server import stop

    settings = load_settings()
    if settings.database_url:
        raise SettingsError(
            "The external database is not ours to stop",
            expected="the embedded server",
            found="ZEROTH_DATABASE_URL is set",
            remedy="unset it, or stop the server where it runs",
        )
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
    arguments, variables = psql_command(_database(settings), role, settings.pg_bin)
    done = subprocess.run([*arguments, *context.args], env={**os.environ, **variables}, check=False)
    raise typer.Exit(done.returncode)


@db.command("migrate")
def db_migrate(as_json: Json = False) -> None:
    """Apply the migrations that the database lacks."""
    from zeroth_assets.store.migrate import migrate

    settings = load_settings()
    report = migrate(_database(settings), corpus=settings.corpus)
    if as_json:
        emit({"applied": list(report.applied), "already": list(report.already)})
    else:
        out.print(f"{len(report.applied)} applied, {len(report.already)} already there")


@corpus.command("verify")
def corpus_verify(as_json: Json = False) -> None:
    """Read every document on disk again and compare it with the manifest. Exit code 4 where one is not right."""
    from zeroth_assets.corpus.manifest import load_manifest
    from zeroth_assets.corpus.verification import verify_raw

    settings = load_settings()
    report = verify_raw(load_manifest(settings.manifest_path).records, settings.state_dir / "raw")
    wrong = report.documents.filter(report.documents["state"] != "intact")
    if as_json:
        emit({"counts": report.counts, "intact": report.intact, "wrong": wrong.to_dicts()})
    else:
        for row in wrong.iter_rows(named=True):
            out.print(f"{row['document_id']}: {row['state']} {row['found'] or ''}", highlight=False)
        out.print(f"{report.counts.get('intact', 0)} of {report.documents.height} documents are intact")
    if not report.intact:
        raise typer.Exit(AcquisitionError.exit_code)


@corpus.command("dead")
def corpus_dead(as_json: Json = False) -> None:
    """List the dead letters: documents that could not be had, with cause, attempts, last answer and next step."""
    from zeroth_assets.corpus.dead_letters import DeadLetters
    from zeroth_assets.corpus.manifest import load_manifest

    settings = load_settings()
    listed = [(r.document_id, r.sha256) for r in load_manifest(settings.manifest_path)]
    frame = DeadLetters(settings.state_dir).frame(versions=listed)
    if as_json:
        emit(frame.to_dicts())
        return
    for row in frame.iter_rows(named=True):
        out.print(f"{row['document_id']}: {row['cause']} ({row['attempts']} attempts). {row['next_step']}")
    out.print(f"{frame.height} dead letters")


@corpus.command("retry")
def corpus_retry(
    document: Annotated[list[str] | None, typer.Argument(help="Document ids; default: every dead letter.")] = None,
    as_json: Json = False,
) -> None:
    """Take up dead letters, final ones too. `zeroth materialize` then goes on from what arrived."""
    from zeroth_assets.corpus.acquisition import retry_dead
    from zeroth_assets.corpus.manifest import load_manifest
    from zeroth_assets.defs.resources import fetch_options

    settings = load_settings()
    report = retry_dead(
        load_manifest(settings.manifest_path).records,
        raw_dir=settings.state_dir / "raw",
        document_ids=document or None,
        mirror=settings.mirror_location,
        options=fetch_options(settings),
    )
    if as_json:
        emit({"counts": report.counts, "documents": report.documents.to_dicts()})
    else:
        for row in report.documents.filter(report.documents["status"] == "failed").iter_rows(named=True):
            out.print(f"{row['document_id']}: {row['cause']}. {row['next_step'] or ''}")
        out.print(f"{report.count('fetched')} fetched, {report.count('failed')} failed", highlight=False)
    if not report.complete:
        raise typer.Exit(AcquisitionError.exit_code)


@corpus.command("update")
def corpus_update(
    document: Annotated[list[str] | None, typer.Argument(help="Document ids; default: all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    as_json: Json = False,
) -> None:
    """Take what publishers now serve as new versions: the manifest gains records, the old versions stay."""
    from zeroth_assets.corpus.versions import update_manifest

    settings = load_settings()
    update = update_manifest(
        settings.manifest_path, raw_dir=settings.state_dir / "raw", document_ids=document or None, dry_run=dry_run
    )
    left = [(candidate.document_id, why) for candidate, why in update.left]
    if as_json:
        emit({"added": [asdict(r) for r in update.added], "left": left})
        return
    for record in update.added:
        out.print(f"{record.document_id}: {record.sha256[:16]} supersedes {(record.supersedes or '')[:16]}")
    for document_id, why in left:
        out.print(f"{document_id}: left, {why}")
    out.print(f"{len(update.added)} new versions{' would be' if dry_run else ''} recorded", highlight=False)


@corpus.command("add")
def corpus_add(
    location: Annotated[str, typer.Argument(help="A URL or a file.")],
    source: Annotated[str, typer.Option(help="sec, cuad or rfc: which parser reads it.")],
    licence: Annotated[str, typer.Option(help="Under which terms you may use it.")],
    tenant: Annotated[str, typer.Option(help="Tenant attribute: working group, contract type or company.")],
    manifest: Annotated[Path | None, typer.Option(help="Manifest to add to; default: the one in force.")] = None,
    identifier: Annotated[str | None, typer.Option(help="RFC number, contract name, CIK or ticker.")] = None,
    title: Annotated[str | None, typer.Option()] = None,
    date: Annotated[str | None, typer.Option(help="ISO date.")] = None,
    form: Annotated[str | None, typer.Option(help="Filings: 10-K, 10-K/A, 10-K405.")] = None,
    period_end: Annotated[str | None, typer.Option(help="Filings: ISO date of the period's end.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="A new version of a document that is listed.")] = False,
    as_json: Json = False,
) -> None:
    """Add a document of your own: checked, stored, and recorded in the manifest."""
    from zeroth_assets.corpus.additions import Description, add_document
    from zeroth_assets.defs.resources import fetch_options

    settings = load_settings()
    record = add_document(
        location,
        Description(
            source=source,
            licence=licence,
            tenant_attribute=tenant,
            identifier=identifier,
            title=title,
            date=date,
            form=form,
            period_end=period_end,
        ),
        manifest_path=(manifest or settings.manifest_path).resolve(),
        raw_dir=settings.state_dir / "raw",
        options=fetch_options(settings),
        replace=replace,
    )
    if as_json:
        emit(asdict(record))
    else:
        out.print(f"{record.document_id} {record.sha256[:16]} added; `zeroth materialize` takes it in", highlight=False)


@corpus.command("tenants")
def corpus_tenants(
    accept: Annotated[
        bool, typer.Option("--accept", help="Take the folding that the rule proposes; tenants may be renamed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the tenants: documents, estimated chunks, what was folded into them, and a folding that waits."""
    from zeroth_assets.defs.tables import pending_folding, tenant_frame

    settings = load_settings()
    if accept:
        from zeroth_assets.defs.console import accept_folding, quieten

        quieten()
        from zeroth_assets.definitions import build_defs

        accept_folding(build_defs, err if as_json else out)
    for change in pending_folding(settings):
        err.print(
            f"waits for --accept: {change['raw_tenant']} from {change['in_force']} to {change['proposed']}",
            soft_wrap=True,
        )
    frame = tenant_frame(settings)
    if as_json:
        emit(frame.to_dicts())
        return
    table = Table(title="Tenants")
    for name in frame.columns:
        table.add_column(name, justify="left" if name in ("tenant", "folded in") else "right")
    for row in frame.iter_rows():
        table.add_row(*[f"{cell:.0f}" if isinstance(cell, float) else str(cell) for cell in row])
    out.print(table)


def _database(settings: Settings) -> Database:
    from zeroth_assets.store.connect import open_database

    database = open_database(settings.state_dir, settings.database_url, settings.pg_bin)
    database.ensure_databases()
    return database


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
        err.print(f"[bold red]{type(error).__name__}[/]: {_escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        err.print("interrupted; the same command goes on from here", highlight=False)
        sys.exit(130)


def _escape(text: str) -> str:
    return text.replace("[", "\\[")


if __name__ == "__main__":
    main()

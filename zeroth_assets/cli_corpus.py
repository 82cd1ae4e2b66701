"""The command line's `zeroth corpus`.

What belongs here: arguments, what is printed, and exit codes of the commands about manifest, bytes and tenants.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from zeroth_assets.cli_output import Json, emit, err, out
from zeroth_assets.errors import AcquisitionError
from zeroth_assets.settings import load_settings

corpus = typer.Typer(no_args_is_help=True, help="The corpus: manifest, bytes, tenants.")


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
    source: Annotated[str, typer.Option(help="sec, cuad, rfc or text: which parser reads it.")],
    licence: Annotated[str, typer.Option(help="Under which terms you may use it.")],
    tenant: Annotated[str, typer.Option(help="Tenant attribute: working group, contract type or company.")],
    manifest: Annotated[Path | None, typer.Option(help="Manifest to add to; default: the one in force.")] = None,
    identifier: Annotated[str | None, typer.Option(help="RFC number, name, CIK or ticker.")] = None,
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

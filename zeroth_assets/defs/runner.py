"""The runner: what belongs here is carrying out a plan as Dagster runs, in one warm process.

One run cannot span two partition sets, so the order is: unpartitioned, a run per source, unpartitioned over the
sources, a run per tenant. Nothing stale means no run. One tenant's failure leaves the others standing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg
import polars as pl
from filelock import FileLock, Timeout

from zeroth_assets import errors
from zeroth_assets.artefacts import check_partition_key
from zeroth_assets.defs.instance import PROCESS_TAG, close_orphans, open_instance, this_process
from zeroth_assets.defs.partitions import register_tenants
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import AcquisitionError, ArtefactError, RunError, TenantError, ZerothError
from zeroth_assets.planning import CORPUS_ASSETS, PLAIN_ASSETS, SOURCE_ASSETS, tenant_assets
from zeroth_assets.settings import SOURCES
from zeroth_assets.store.registry import list_tenants
from zeroth_assets.store.retire import retire_tenant


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One Dagster run: what it made, for which partition, and how it ended."""

    run_id: str
    partition: str | None
    assets: tuple[str, ...]
    succeeded: bool
    seconds: float
    error: str | None = None
    error_type: str | None = None


@dataclass(slots=True)
class Outcome:
    """What a materialisation did. `fresh` counts artefacts that were left alone."""

    runs: list[RunOutcome] = field(default_factory=list)
    fresh: int = 0
    closed_runs: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "runs": [asdict(run) for run in self.runs],
            "fresh": self.fresh,
            "failed": len(self.failed),
            "missing": [{"document_id": document_id, "cause": cause} for document_id, cause in self.missing],
            "closed_runs": self.closed_runs,
            "retired": self.retired,
        }

    @property
    def exit_code(self) -> int:
        """0, or the code of the error that all failed runs share, or RunError's; missing documents are a failure."""
        if self.failed:
            codes = {_error_class(run.error_type).exit_code for run in self.failed}
            return codes.pop() if len(codes) == 1 else RunError.exit_code
        return AcquisitionError.exit_code if self.missing else 0

    @property
    def failed(self) -> list[RunOutcome]:
        """The runs that did not end in success."""
        return [run for run in self.runs if not run.succeeded]


@dataclass(frozen=True, slots=True)
class Watcher:
    """What the runner tells a person: messages, and the start and end of each run."""

    message: Callable[[str], None] = lambda text: None
    started: Callable[[str, tuple[str, ...], int, int], None] = lambda what, assets, number, of: None
    ended: Callable[[RunOutcome], None] = lambda outcome: None


class Runner:
    """Materialises what is stale on one home."""

    def __init__(self, definitions: dg.Definitions, project: Project, watcher: Watcher | None = None) -> None:
        self._project = project
        self._watcher = watcher or Watcher()
        self._job = definitions.resolve_implicit_global_asset_job_def()
        self._outcome = Outcome()
        self._instance: dg.DagsterInstance | None = None

    def materialize(self, tenants: Sequence[str] = (), sources: Sequence[str] = ()) -> Outcome:
        """Bring everything up to date, or what `tenants` and `sources` need.

        Raises:
            TenantError: a tenant that the corpus does not have.
            ZerothError: whatever stops the whole plan: no database, no mirror, a manifest that breaks a rule.
        """
        with self._alone():
            self._prepare()
            wanted = tuple(sources) or sources_of(tenants)
            self._stage(PLAIN_ASSETS, [None])
            self._stage(SOURCE_ASSETS, [s for s in wanted if self._project.manifest.of_source(s)])
            self._outcome.missing = self._missing(wanted)
            self._stage(CORPUS_ASSETS, [None])
            self._tell_pending_folding()
            self._retire(wanted)
            self._stage(tenant_assets(), self._tenants(tenants, wanted), required=False)
        return self._outcome

    def materialize_named(
        self, assets: Sequence[str], partition: str | None, ops: Mapping[str, Any] | None = None
    ) -> Outcome:
        """Make `assets` again in one run, fresh or not.

        Raises:
            ArtefactError: an asset that the graph does not have, or a partition key that breaks the rule.
        """
        known = {key.to_user_string() for key in self._job.asset_layer.executable_asset_keys}
        unknown = sorted(set(assets) - known)
        if unknown:
            raise ArtefactError(
                f"There is no asset {', '.join(unknown)}",
                expected=", ".join(sorted(known)),
                remedy="name one of them",
            )
        with self._alone():
            self._prepare()
            self._check_partition(assets, partition)
            self.run(assets, partition, ops)
        return self._outcome

    def run(self, assets: Sequence[str], partition: str | None, ops: Mapping[str, Any] | None = None) -> RunOutcome:
        """One Dagster run, stale or not; `ops` is configuration by asset."""
        assert self._instance is not None
        started = time.monotonic()
        result = self._job.execute_in_process(
            instance=self._instance,
            partition_key=partition,
            asset_selection=[dg.AssetKey(a) for a in assets],
            raise_on_error=False,
            # The console is the watcher's; the instance has every event.
            run_config={
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                "ops": {asset: {"config": dict(config)} for asset, config in (ops or {}).items()},
            },
            tags={PROCESS_TAG: this_process()},
        )
        error, error_type = (None, None) if result.success else _first_error(result)
        seconds = time.monotonic() - started
        outcome = RunOutcome(result.run_id, partition, tuple(assets), result.success, seconds, error, error_type)
        self._outcome.runs.append(outcome)
        self._watcher.ended(outcome)
        return outcome

    def _check_partition(self, assets: Sequence[str], partition: str | None) -> None:
        """Refuse a partition key that breaks the rule, is unknown, or does not fit all of the assets."""
        assert self._instance is not None
        if partition is not None:
            check_partition_key(partition)
        for asset in assets:
            definition = self._job.asset_layer.asset_graph.get(dg.AssetKey(asset)).partitions_def
            keys = definition.get_partition_keys(dynamic_partitions_store=self._instance) if definition else ()
            if (definition is None and partition is None) or partition in keys:
                continue
            raise TenantError(
                f"Partition {partition!r} is none of {asset}'s" if partition else f"{asset} has partitions",
                expected=f"one of {', '.join(keys[:8])}" + (" ..." if len(keys) > 8 else "")
                if keys
                else "no partition",
                found=repr(partition),
                remedy="list tenants with `zeroth corpus tenants`; sources are sec, cuad and rfc",
            )

    def _prepare(self) -> None:
        self._instance = open_instance(self._project.settings, self._project.database)
        self._outcome.closed_runs = close_orphans(self._instance, self._project.settings)
        for run_id in self._outcome.closed_runs:
            self._watcher.message(f"run {run_id[:8]} was left by a process that is gone: marked failed")

    def _stage(self, assets: Sequence[str], partitions: Sequence[str | None], required: bool = True) -> None:
        planner = self._project.planner()
        todo = [(p, planner.stale(assets, p)) for p in partitions]
        self._outcome.fresh += sum(len(assets) - len(stale) for _, stale in todo)
        todo = [(p, stale) for p, stale in todo if stale]
        for number, (partition, stale) in enumerate(todo, start=1):
            self._watcher.started(partition or ", ".join(stale), stale, number, len(todo))
            self.run(stale, partition)
        if todo and not any(run.succeeded for run in self._outcome.runs[-len(todo) :]) and required:
            last = self._outcome.runs[-1]
            raise _error_class(last.error_type)(
                f"{', '.join(last.assets)} could not be made, and all else stands on it",
                found=last.error or "see the run",
                remedy="mend the cause and run the same command again",
            )

    def _tell_pending_folding(self) -> None:
        pending = self._project.store.require("tenant_assignments").details.get("pending", ())
        for row in pending:
            self._watcher.message(
                f"folding: {row['raw_tenant']} is in {row['in_force']}, would be in {row['proposed']}"
            )
        if pending:
            self._watcher.message("the folding in force stays; take the new one by `zeroth corpus tenants --accept`")

    def _retire(self, sources: Sequence[str]) -> None:
        """Take tenants that no document belongs to any more out of the database.

        A source with missing documents retires nobody: its tenants may only be waiting for their documents.
        """
        incomplete = {document_id.partition(":")[0] for document_id, _ in self._outcome.missing}
        known = set(self._project.planner().tenants)
        for tenant in list_tenants(self._project.database):
            source = tenant.tenant_key.partition("-")[0]
            if tenant.tenant_key in known or source not in sources or source in incomplete:
                continue
            report = retire_tenant(self._project.database, tenant.tenant_key)
            for asset in tenant_assets():
                self._project.store.remove(asset, tenant.tenant_key)
            self._outcome.retired.append(tenant.tenant_key)
            self._watcher.message(f"{tenant.tenant_key} holds no document any more: {report.rows} rows removed")

    def _missing(self, sources: Sequence[str]) -> list[tuple[str, str]]:
        """Documents that the manifest lists and that could not be had or parsed, with the cause."""
        store = self._project.store
        missing: list[tuple[str, str]] = []
        for source in sources:
            if store.exists("raw_documents", source):
                frame = store.read_frame("raw_documents", source).filter(pl.col("cause").is_not_null())
                missing += frame.select("document_id", "cause").rows()
            parsed = store.sidecar("parsed_documents", source)
            if parsed is not None:
                missing += [(f["document_id"], f["detail"]) for f in parsed.details.get("failures", ())]
        return missing

    def _tenants(self, wanted: Sequence[str], sources: Sequence[str]) -> list[str]:
        assert self._instance is not None
        known = self._project.planner().tenants
        register_tenants(self._instance, known)
        unknown = sorted(set(wanted) - set(known))
        if unknown:
            raise TenantError(
                f"No document belongs to tenant {', '.join(unknown)}",
                expected=f"one of the {len(known)} tenants",
                found=", ".join(unknown),
                remedy="list them with `zeroth corpus tenants`",
            )
        return [t for t in known if (t in wanted if wanted else t.partition("-")[0] in sources)]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two materialisations of one home take turns: the second finds the work done."""
        state = self._project.settings.state_dir
        state.mkdir(parents=True, exist_ok=True)
        lock = FileLock(state / "materialize.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self._watcher.message("another materialisation works on this home; waiting for it to end")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def sources_of(tenants: Sequence[str]) -> tuple[str, ...]:
    """The sources that the tenant keys name, all for none."""
    return tuple(s for s in SOURCES if not tenants or any(t.startswith(f"{s}-") for t in tenants))


def _error_class(name: str | None) -> type[ZerothError]:
    found = getattr(errors, name or "", RunError)
    return found if isinstance(found, type) and issubclass(found, ZerothError) else RunError


def _first_error(result: dg.ExecuteInProcessResult) -> tuple[str, str | None]:
    for event in result.get_step_failure_events():
        error = event.step_failure_data.error
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            return error.message.strip(), error.cls_name
        return event.message or "failed", None
    return "the run failed before any step", None

"""The runner: what belongs here is carrying out a plan as Dagster runs, in one warm process.

One run cannot span two partition sets, so the plan is a row of phases (`planning.PHASES`): unpartitioned, a run per
source, unpartitioned over the sources, a run per tenant, then what stands on all tenants. Nothing stale means no run.
One tenant's failure leaves the others standing; what stands on all tenants is made of those that there are.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import polars as pl
from filelock import FileLock, Timeout

from zeroth_assets.defs.instance import PROCESS_TAG, close_orphans, open_instance, this_process
from zeroth_assets.defs.outcome import Outcome, RunOutcome, Watcher, error_class, first_error
from zeroth_assets.defs.partitions import check_partition, dagster_key, register_tenants
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import ArtefactError, SettingsError, TenantError
from zeroth_assets.planning import PHASES, SOURCE_ASSETS, Phase, measured_arms, tenant_assets
from zeroth_assets.settings import SOURCES
from zeroth_assets.store.acl import end_left_measurements
from zeroth_assets.store.migrate import claim_corpus
from zeroth_assets.store.registry import list_tenants
from zeroth_assets.store.retire import retire_tenant
from zeroth_assets.store.state import applied_digest


class Runner:
    """Materialises what is stale on one home."""

    def __init__(self, definitions: dg.Definitions, project: Project, watcher: Watcher | None = None) -> None:
        self._project = project
        self._watcher = watcher or Watcher()
        self._job = definitions.resolve_implicit_global_asset_job_def()
        self._outcome = Outcome()
        self._instance: dg.DagsterInstance | None = None
        self._closed: dict[str, str] = {}  # phases that nothing can stand on, and why

    def materialize(self, tenants: Sequence[str] = (), sources: Sequence[str] = (), *, fan_ins: bool = True) -> Outcome:
        """Bring everything up to date, or what `tenants` and `sources` need.

        Narrowed or not, what stands on all tenants is made of the tenants that there are, unless `fan_ins` is False:
        it and all after it is then left out.

        Raises:
            SettingsError: a source that there is not, or a home that cannot be written.
            TenantError: a tenant that the corpus does not have.
            ZerothError: whatever stops the whole plan: no database, no mirror, a manifest that breaks a rule.
        """
        wanted = _known_sources(sources) or sources_of(tenants)
        with self._alone():
            self._prepare()
            for phase in PHASES:
                if phase.over_tenants and not self._has_tenants(fan_ins):
                    break
                if reasons := [self._closed[name] for name in phase.needs if name in self._closed]:
                    self._watcher.message(f"{phase.name}: left out, {reasons[0]}")
                    continue
                match phase.partitioned_by:
                    case "source":
                        self._phase(phase, [s for s in wanted if self._has_source(s)])
                        self._outcome.missing = self._missing(wanted)
                    case "tenant":
                        self._phase(phase, self._tenants(tenants, wanted))
                    case "arm":
                        self._phase(phase, measured_arms(self._project.settings))
                    case None:
                        self._phase(phase, [None])
                if phase.name == "corpus":
                    self._tell_pending_folding()
                    self._retire(wanted)
                if phase.name == "questions" and not self._has_questions():
                    self._closed[phase.name] = "since this corpus has no golden queries"
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
            partition_key=dagster_key(partition),
            asset_selection=[dg.AssetKey(a) for a in assets],
            raise_on_error=False,
            # The console is the watcher's; the instance has every event.
            run_config={
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                "ops": {asset: {"config": dict(config)} for asset, config in (ops or {}).items()},
            },
            tags={PROCESS_TAG: this_process()},
        )
        error, error_type = (None, None) if result.success else first_error(result)
        seconds = time.monotonic() - started
        unmet = tuple(
            f"{check.asset_key.to_user_string()}: {check.check_name}"
            for check in result.get_asset_check_evaluations()
            if not check.passed
        )
        outcome = RunOutcome(result.run_id, partition, tuple(assets), result.success, seconds, error, error_type, unmet)
        if error_type == dg.DagsterExecutionInterruptedError.__name__:
            # Dagster ends the run and swallows the interrupt: the plan must not go on to the next tenant.
            raise KeyboardInterrupt
        self._outcome.runs.append(outcome)
        self._watcher.ended(outcome)
        return outcome

    def _check_partition(self, assets: Sequence[str], partition: str | None) -> None:
        assert self._instance is not None
        for asset in assets:
            definition = self._job.asset_layer.asset_graph.get(dg.AssetKey(asset)).partitions_def
            check_partition(asset, definition, partition, self._instance)

    def _prepare(self) -> None:
        settings, database = self._project.settings, self._project.database
        if applied_digest(database) is not None:
            # Another corpus would retire every tenant that it does not know.
            claim_corpus(database, settings.corpus)
            if left := end_left_measurements(database):
                self._watcher.message(f"{left} principals of a measurement that was killed: their grants are ended")
        self._instance = open_instance(settings, database)
        self._outcome.closed_runs = close_orphans(self._instance, settings)
        for run_id in self._outcome.closed_runs:
            self._watcher.message(f"run {run_id[:8]} was left by a process that is gone: marked failed")

    def _phase(self, phase: Phase, partitions: Sequence[str | None]) -> None:
        planner, assets = self._project.planner(), phase.assets
        # What failed in an earlier phase has told why; nothing is made on top of it.
        failed = {run.partition for run in self._outcome.failed if run.partition is not None}
        todo = [(p, planner.stale(assets, p)) for p in partitions if p not in failed]
        self._outcome.fresh += sum(len(assets) - len(stale) for _, stale in todo)
        todo = [(p, stale) for p, stale in todo if stale]
        for number, (partition, stale) in enumerate(todo, start=1):
            self._watcher.started(partition or ", ".join(stale), stale, number, len(todo))
            self.run(stale, partition)
        ended = self._outcome.runs[-len(todo) :] if todo else []
        if phase.partitioned_by is None and any(not run.succeeded for run in ended):
            self._closed[phase.name] = f"since {phase.name} failed"
        if phase.required and ended and not any(run.succeeded for run in ended):
            last = self._outcome.runs[-1]
            raise error_class(last.error_type)(
                f"{', '.join(last.assets)} could not be made, and all else stands on it",
                found=last.error or "see the run",
                remedy="mend the cause and run the same command again",
            )

    def _has_tenants(self, fan_ins: bool) -> bool:
        """Whether what stands on all tenants is to be made; tells why where it is not."""
        if not fan_ins:
            self._watcher.message("what stands on all tenants is left out; it stays as it was")
            return False
        planner = self._project.planner()
        first = tenant_assets()[0]
        made = planner.tenants_with(first)
        if not made:
            self._watcher.message("no tenant could be made: what stands on all tenants is left out")
        return bool(made)

    def _has_questions(self) -> bool:
        sidecar = self._project.store.sidecar("golden_queries")
        return sidecar is not None and sidecar.rows > 0

    def _has_source(self, source: str) -> bool:
        """Whether the manifest names the source, or did: what was made of it then must not stand for ever."""
        return bool(self._project.manifest.of_source(source)) or bool(
            self._project.store.sidecar(SOURCE_ASSETS[0], source)
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
        store = self._project.store
        loaded = {tenant.tenant_key for tenant in list_tenants(self._project.database)}
        published = {key for asset in tenant_assets() for key in store.partitions(asset)}
        for tenant in sorted((loaded | published) - known):
            source = tenant.partition("-")[0]
            if source not in sources or source in incomplete:
                continue
            rows = retire_tenant(self._project.database, tenant).rows if tenant in loaded else 0
            for asset in tenant_assets():
                store.remove(asset, tenant)
            self._outcome.retired.append(tenant)
            self._watcher.message(f"{tenant} holds no document any more: {rows} rows removed")

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
        lock = FileLock(state / "materialize.lock")
        try:
            state.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            self._watcher.message("another materialisation works on this home; waiting for it to end")
            lock.acquire()
        except OSError as error:
            raise SettingsError(
                f"The home {state} cannot be written",
                expected="a folder that exists or can be made, with room on its disk",
                found=str(error),
                remedy="set ZEROTH_HOME to a folder of your own, or make room, and run the same command again",
            ) from error
        try:
            yield
        finally:
            lock.release()


def sources_of(tenants: Sequence[str]) -> tuple[str, ...]:
    """The sources that the tenant keys name, all for none."""
    return tuple(s for s in SOURCES if not tenants or any(t.startswith(f"{s}-") for t in tenants))


def _known_sources(sources: Sequence[str]) -> tuple[str, ...]:
    unknown = sorted(set(sources) - set(SOURCES))
    if unknown:
        raise SettingsError(
            f"There is no source {', '.join(unknown)}", expected=", ".join(SOURCES), remedy="name one of them"
        )
    return tuple(sources)

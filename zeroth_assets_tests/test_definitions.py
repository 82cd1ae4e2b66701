from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import dagster as dg
import pytest

from zeroth_assets.definitions import build_defs, defs
from zeroth_assets.defs.partitions import store_key
from zeroth_assets.defs.resources import Project
from zeroth_assets.planning import SOURCE_ASSETS, all_assets, measured_arms, partitioned_by, tenant_assets
from zeroth_assets.settings import SOURCES, read_settings

ROOT = Path(__file__).resolve().parent.parent


def specs() -> list[dg.AssetSpec]:
    return sorted(defs.resolve_all_asset_specs(), key=lambda spec: spec.key)


def test_the_graph_is_what_the_plan_knows() -> None:
    names = {spec.key.to_user_string() for spec in specs()}
    assert names == set(all_assets())


@pytest.mark.parametrize("spec", specs(), ids=lambda spec: spec.key.to_user_string())
def test_every_asset_says_what_it_is(spec: dg.AssetSpec) -> None:
    assert spec.description
    assert spec.kinds
    assert spec.owners
    assert spec.group_name in {"corpus", "chunks", "embeddings", "index", "golden", "evaluation"}


@pytest.mark.parametrize("spec", specs(), ids=lambda spec: spec.key.to_user_string())
def test_every_frame_declares_its_columns(spec: dg.AssetSpec) -> None:
    if "numpy" in spec.kinds and "postgres" not in spec.kinds:
        return
    schema = spec.metadata["dagster/column_schema"]
    assert isinstance(schema, dg.TableSchema)
    assert schema.columns


def test_assets_are_partitioned_by_source_or_tenant_or_not_at_all() -> None:
    graph = defs.resolve_asset_graph()
    for name in SOURCE_ASSETS:
        assert graph.get(dg.AssetKey(name)).partitions_def == dg.StaticPartitionsDefinition(list(SOURCES))
    for name in tenant_assets():
        assert graph.get(dg.AssetKey(name)).partitions_def == dg.DynamicPartitionsDefinition(name="tenant")
    for name in all_assets():
        partitions = graph.get(dg.AssetKey(name)).partitions_def
        if partitioned_by(name) is None:
            assert partitions is None
        if partitioned_by(name) == "arm":
            assert isinstance(partitions, dg.MultiPartitionsDefinition)
            assert set(measured_arms(read_settings())) < {store_key(key) for key in partitions.get_partition_keys()}


def test_checks_that_guard_what_is_downstream_block() -> None:
    graph = defs.resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if graph.get_check_spec(key).blocking}
    assert {
        "fits_the_encoder",
        "offsets_are_exact",
        "no_section_crossed",
        "unit_norm",
        "finite",
        "no_zero_row",
        "nothing_truncated",
        "holds_these_chunks",
        "figures_are_honest",
        "controls_are_answered",
        "preflight",
        "catalogue_lint",
        "equals_the_tenants_rows",
        "quotes_resolve",
        "splits_are_clean",
        "no_cross_tenant_row",
        "no_regression",
        "every_query_was_run",
        "unchanged_unless_accepted",
        "no_figure_without_interval",
        "test_split_alone",
        "parameters_chosen_apart",
    } <= blocking


def test_each_source_has_a_nightly_schedule_that_is_off() -> None:
    schedules = {name: defs.resolve_schedule_def(name) for name in ("nightly_sec", "nightly_cuad", "nightly_rfc")}
    assert all(s.default_status == dg.DefaultScheduleStatus.STOPPED for s in schedules.values())


def test_a_resource_can_be_swapped_without_patching(tmp_path: Path) -> None:
    other = Project(home=str(tmp_path))
    built = build_defs(resource_overrides={"project": other})
    assert built.resources is not None
    assert built.resources["project"] is other


def test_dg_check_defs_accepts_the_definitions(tmp_path: Path) -> None:
    """With any DAGSTER_HOME; `zeroth env` prints that of the project's own instance."""
    done = subprocess.run(
        [sys.executable, "-m", "dagster_dg_cli.cli", "check", "defs"],
        cwd=ROOT,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, unpacked; built without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True, timeout=180)
    (built,) = folder.glob("*.whl")
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(built) as archive:
        archive.extractall(unpacked)
    return unpacked


def run_in_wheel(wheel: Path, home: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(wheel), "ZEROTH_HOME": str(home), "ZEROTH_MIRROR": ""},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_installed_wheel_works_as_the_checkout_does(wheel: Path, tmp_path: Path) -> None:
    program = (
        "import zeroth_assets, dagster as dg;"
        "from zeroth_assets.settings import load_settings, project_file;"
        "from zeroth_assets.corpus.manifest import load_manifest;"
        "from zeroth_assets.store.migrate import read_migrations;"
        "from zeroth_assets.definitions import defs;"
        "s = load_settings();"
        "print(zeroth_assets.__file__);"
        "print(len(load_manifest(s.manifest_path)), len(load_manifest(project_file('corpus_manifest.json'))));"
        "print(len(read_migrations()), project_file('dagster.yaml').exists(), project_file('workspace.yaml').exists());"
        "dg.Definitions.validate_loadable(defs)"
    )
    lines = run_in_wheel(wheel, tmp_path, "-c", program).splitlines()
    assert lines[0].startswith(str(wheel))
    sample, published = map(int, lines[1].split())
    assert sample >= 30
    assert published == 1267
    assert lines[2].split()[1:] == ["True", "True"]
    assert int(lines[2].split()[0]) >= 4


def test_the_command_line_of_a_wheel_needs_no_checkout(wheel: Path, tmp_path: Path) -> None:
    out = run_in_wheel(wheel, tmp_path, "-m", "zeroth_assets.cli", "--help")
    for name in ("materialize", "dev", "db", "metrics", "corpus"):
        assert name in out

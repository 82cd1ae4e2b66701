from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def compose() -> dict[str, dict[str, dict[str, object]]]:
    content: dict[str, dict[str, dict[str, object]]] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    return content


def test_compose_has_database_webserver_and_daemon(compose: dict[str, dict[str, dict[str, object]]]) -> None:
    services = compose["services"]
    assert set(services) == {"postgres", "webserver", "daemon"}
    assert "pgvector" in str(services["postgres"]["image"])
    for name in ("webserver", "daemon"):
        assert services[name]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        build = services[name]["build"]
        assert isinstance(build, dict)
        assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).resolve() == ROOT / "deploy/Dockerfile"


def test_compose_publishes_to_loopback_alone_and_holds_no_password(
    compose: dict[str, dict[str, dict[str, object]]],
) -> None:
    published = [str(port) for service in compose["services"].values() for port in service.get("ports", [])]  # type: ignore[attr-defined]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert "${ZEROTH_PG_PASSWORD:?" in (ROOT / "deploy/compose.yaml").read_text()


def test_the_image_installs_what_constraints_pin_and_runs_as_no_root() -> None:
    lines = (ROOT / "deploy/Dockerfile").read_text().splitlines()
    instructions = [line.split(maxsplit=1) for line in lines if line and not line.startswith(("#", " "))]
    assert instructions[0][0] == "FROM"
    assert any(name == "RUN" and "--constraint constraints.txt" in rest for name, rest in instructions)
    users = [rest for name, rest in instructions if name == "USER"]
    assert users
    assert users[-1] != "root"
    command = next(rest for name, rest in instructions if name == "CMD")
    assert yaml.safe_load(command)[:2] == ["zeroth", "dev"]


def test_the_instance_switches_telemetry_and_nux_off_and_sets_limits() -> None:
    instance = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    assert instance["telemetry"] == {"enabled": False}
    assert instance["nux"] == {"enabled": False}
    assert instance["concurrency"]["runs"]["max_concurrent_runs"] > 0
    assert instance["concurrency"]["pools"]["default_limit"] > 0
    assert "postgres" in instance["storage"]


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pins = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {_name(requirement) for requirement in wanted}
    assert names <= pins, sorted(names - pins)


def test_no_file_of_the_project_names_a_registry_or_this_machine() -> None:
    """A clone must work anywhere; `file:` and host names come in by a careless `pip freeze`."""
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "+cpu" not in text


def _name(requirement: str) -> str:
    head = requirement.split(";")[0]
    for separator in ("[", ">", "<", "=", "!", "~", " "):
        head = head.split(separator)[0]
    return head.strip().lower().replace("_", "-")

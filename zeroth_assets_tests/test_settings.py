from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from zeroth_assets.errors import SettingsError
from zeroth_assets.settings import Settings, package_file, project_file, read_settings


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"ZEROTH_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_with_nothing_set_the_sample_corpus_is_used_under_dot_zeroth(tmp_path: Path) -> None:
    settings = read_settings()
    assert settings.corpus == "sample"
    assert settings.state_dir == tmp_path / ".zeroth"
    assert settings.mirror_location == str(package_file("sample/documents"))


def test_a_mirror_means_the_published_corpus_in_a_home_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEROTH_MIRROR", "mirror")
    settings = read_settings()
    assert settings.corpus == "published"
    assert settings.state_dir == tmp_path / ".zeroth-published"
    assert settings.manifest_path == project_file("corpus_manifest.json")
    assert settings.mirror_location == str(tmp_path / "mirror")


def test_a_mirror_may_be_an_http_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROTH_MIRROR", "http://127.0.0.1:8000/corpus")
    assert read_settings().mirror_location == "http://127.0.0.1:8000/corpus"


def test_ones_own_manifest_names_the_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZEROTH_MANIFEST", "mine.json")
    settings = read_settings()
    assert settings.corpus == "mine"
    assert settings.manifest_path == tmp_path / "mine.json"
    assert settings.state_dir == tmp_path / ".zeroth-mine"


def test_tenants_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROTH_TENANTS", "rfc-quic, cuad-license,,")
    assert read_settings().tenants == ("rfc-quic", "cuad-license")


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROTH_MIRROR", "")
    monkeypatch.setenv("ZEROTH_DATABASE_URL", " ")
    settings = read_settings()
    assert settings.mirror is None
    assert settings.database_url is None


def test_every_bad_variable_is_named_with_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROTH_MAX_TOKENS", "many")
    monkeypatch.setenv("ZEROTH_HNSW_M", "1")
    with pytest.raises(SettingsError) as caught:
        read_settings()
    assert "ZEROTH_MAX_TOKENS" in str(caught.value)
    assert "'many'" in str(caught.value)
    assert "ZEROTH_HNSW_M" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"JUDGE_URL": "http://127.0.0.1:1/v1"}, "judge_url needs judge_model"),
        ({"JUDGE_INPUT_PRICE": "2"}, "go together"),
        ({"JUDGE_MONEY_BUDGET": "5"}, "judge_money_budget needs"),
        ({"HNSW_M": "40"}, "2 \\* hnsw_m"),
        ({"JUDGE_TRIES": "0"}, "ZEROTH_JUDGE_TRIES"),
    ],
)
def test_no_message_shows_a_key_or_a_password(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], says: str
) -> None:
    """What breaks a rule over several variables is all of them together."""
    secrets = {"JUDGE_API_KEY": "sk-canary-1", "DATABASE_URL": "postgresql://u:canary-2@h/d"}
    for name, value in {**secrets, **given}.items():
        monkeypatch.setenv(f"ZEROTH_{name}", value)
    with pytest.raises(SettingsError, match=says) as caught:
        read_settings()
    assert "canary" not in "".join(traceback.format_exception(caught.value))
    for name in given:
        monkeypatch.delenv(f"ZEROTH_{name}")
    settings = read_settings()
    assert settings.judge_api_key is not None
    assert "canary" not in repr(settings) + str(settings)
    assert "sk-canary" not in settings.model_dump_json()


def test_a_judge_is_configured_by_its_variables_and_blank_ones_are_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROTH_JUDGE_URL", " ")
    monkeypatch.setenv("ZEROTH_JUDGE_TOKEN_BUDGET", "")
    monkeypatch.setenv("ZEROTH_JUDGE_TEMPERATURE", "none")
    settings = read_settings()
    assert (settings.judge_url, settings.judge_token_budget, settings.judge_temperature) == (None, None, None)


def test_ef_construction_below_twice_m_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROTH_HNSW_M", "40")
    with pytest.raises(SettingsError, match="2 \\* hnsw_m"):
        read_settings()

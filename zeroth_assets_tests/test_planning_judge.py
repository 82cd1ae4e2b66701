from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from zeroth_assets.evaluation.judging.model import JudgeConfig, Prices, Snapshot
from zeroth_assets.planning.judge import journal_path, judge_config, judge_recipe
from zeroth_assets.settings import Settings, read_settings

KEY = "sk-canary"
ASKED: dict[str, Any] = {"judge_url": "http://127.0.0.1:1/v1", "judge_model": "j-2025-01-01", "judge_api_key": KEY}


def settings(**changes: Any) -> Settings:
    return read_settings(**{**ASKED, **changes})


def test_without_a_url_there_is_no_judge_whatever_else_is_set() -> None:
    alone = settings(judge_url=None)
    assert judge_config(alone) is None
    assert judge_recipe(alone) == "none"


def test_every_setting_of_the_judge_reaches_its_calls() -> None:
    config = judge_config(
        settings(
            judge_publishing=False,
            judge_temperature=None,
            judge_max_output_tokens=9,
            judge_output_limit_field="max_completion_tokens",
            judge_passages_per_call=3,
            judge_repeats_per_query=2,
            judge_concurrency=4,
            judge_token_budget=5,
            judge_money_budget=6.0,
            judge_input_price=1.0,
            judge_output_price=2.0,
            judge_currency="EUR",
            judge_timeout_seconds=7.0,
            judge_tries=8,
            seed=11,
        )
    )
    assert config is not None
    assert config.api_key is not None
    assert dataclasses.replace(config, api_key=None) == JudgeConfig(
        "http://127.0.0.1:1/v1", "j-2025-01-01", None, False, None, 11, 9, "max_completion_tokens", 3, 2, 5, 6.0,
        Prices(1.0, 2.0, "EUR"), 7.0, 8, 2, 4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        ({"judge_model": "other-2025-01-01"}, True),
        ({"judge_temperature": 0.5}, True),
        ({"judge_max_output_tokens": 4_096}, True),
        ({"judge_passages_per_call": 5}, True),
        ({"seed": 12}, True),
        ({"judge_url": "http://127.0.0.1:2/v1"}, False),
        ({"judge_api_key": "another"}, False),
        ({"judge_token_budget": 1_000}, False),
        ({"judge_tries": 2}, False),
    ],
)
def test_the_recipe_knows_what_changes_a_grade_and_nothing_else(change: dict[str, Any], stale: bool) -> None:
    assert (judge_recipe(settings(**change)) != judge_recipe(settings())) is stale


def test_no_recipe_and_no_journals_name_holds_the_key_or_the_address() -> None:
    told = json.dumps(judge_recipe(settings())) + str(journal_path(settings(), Snapshot("a/../b", "1", "r", "a")))
    assert KEY not in told
    assert "127.0.0.1" not in told
    assert journal_path(settings(), Snapshot("a/../b", "1", "r", "a")).parent.name == "judge"

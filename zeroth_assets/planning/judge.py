"""The judge as the settings name it: what calls are made with, and what of it makes grades stale.

What belongs here: from settings to `JudgeConfig`, and to the part of a recipe. The recipe never holds the server's
address, which may change, or the key; budgets, prices and patience change no grade.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zeroth_assets.evaluation.judging.model import JudgeConfig, Prices, Snapshot
from zeroth_assets.evaluation.judging.prompt import prompt_hash
from zeroth_assets.settings import Settings

NO_JUDGE = "none"


def judge_config(settings: Settings) -> JudgeConfig | None:
    """How the judge is to be asked, None where none is configured.

    Raises:
        JudgeError: values that contradict each other.
    """
    if settings.judge_url is None:
        return None
    assert settings.judge_model is not None  # the settings refuse a URL without a model
    prices = None
    if settings.judge_input_price is not None and settings.judge_output_price is not None:
        prices = Prices(settings.judge_input_price, settings.judge_output_price, settings.judge_currency)
    return JudgeConfig(
        url=settings.judge_url,
        model=settings.judge_model,
        api_key=settings.judge_api_key,
        publishing=settings.judge_publishing,
        temperature=settings.judge_temperature,
        seed=settings.seed,
        max_output_tokens=settings.judge_max_output_tokens,
        output_limit_field=settings.judge_output_limit_field,
        passages_per_call=settings.judge_passages_per_call,
        repeats_per_query=settings.judge_repeats_per_query,
        token_budget=settings.judge_token_budget,
        money_budget=settings.judge_money_budget,
        prices=prices,
        timeout_seconds=settings.judge_timeout_seconds,
        tries=settings.judge_tries,
        concurrency=settings.judge_concurrency,
    )


def judge_recipe(settings: Settings) -> dict[str, Any] | str:
    """What of the judge goes into the recipe of its grades."""
    if settings.judge_url is None:
        return NO_JUDGE
    return {
        "model": settings.judge_model,
        "prompt": prompt_hash(),
        "publishing": settings.judge_publishing,
        "temperature": settings.judge_temperature,
        "seed": settings.seed,
        "max_output_tokens": settings.judge_max_output_tokens,
        "passages_per_call": settings.judge_passages_per_call,
        "repeats_per_query": settings.judge_repeats_per_query,
        "agreement_queries": settings.judge_agreement_queries,
    }


def judge_folder(settings: Settings) -> Path:
    """Where the judge's journals lie, and the keys of the sheets that were given out."""
    return settings.state_dir / "judge"


def journal_path(settings: Settings, snapshot: Snapshot) -> Path:
    """The journal of a snapshot with today's prompt: grades of two judges are never in one."""
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in snapshot.label)[:80]
    return judge_folder(settings) / f"{name}.{prompt_hash()[:12]}.jsonl"

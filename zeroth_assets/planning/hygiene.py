"""What of a retriever a person can choose, and the home's record of what was read for choosing it.

What belongs here: an arm's parameters under the settings, its defaults, and where the record lies.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zeroth_assets.evaluation.golden.ledger import Entry, SplitLedger
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, split_arm
from zeroth_assets.settings import Settings

_CHOICES = ("retrieval_depth", "analyser", "model", "model_revision", "pooling", "max_tokens")


def arm_parameters(settings: Settings, key: str) -> dict[str, Any]:
    """What was chosen of an arm (chunk set and retriever) under these settings."""
    return _parameters({name: getattr(settings, name) for name in _CHOICES}, settings.reranker, key)


def default_parameters(settings: Settings, key: str) -> dict[str, Any]:
    """What an arm is where nobody chose anything; which reranker there is, is what the arm is."""
    return _parameters({name: Settings.model_fields[name].default for name in _CHOICES}, settings.reranker, key)


def ledger_path(settings: Settings) -> Path:
    """The record of the home: a line for each time that queries were read, or parameters chosen."""
    return settings.state_dir / "split_ledger.jsonl"


def entries_for(settings: Settings, retriever: str) -> tuple[Entry, ...]:
    """What is recorded of a retriever, oldest first. Raises GoldenError where a line is none."""
    entries = SplitLedger.load(ledger_path(settings)).entries
    return tuple(entry for entry in entries if entry.retriever == retriever)


def record_digest(settings: Settings, retriever: str) -> str | None:
    """What changes with the record of a retriever, None where there is none."""
    entries = entries_for(settings, retriever)
    if not entries:
        return None
    return hashlib.sha256(json.dumps([asdict(entry) for entry in entries]).encode()).hexdigest()


def _parameters(chosen: dict[str, Any], reranker: str, key: str) -> dict[str, Any]:
    chunk_set, name = split_arm(key)
    arm = RETRIEVERS[name]
    told: dict[str, Any] = {"chunk_set": chunk_set, "stages": list(arm.stages), "path": arm.path}
    told["depth"] = chosen["retrieval_depth"]
    if "lexical" in arm.stages:
        told["analyser"] = chosen["analyser"]
    if arm.dense:
        told |= {field: chosen[field] for field in ("model", "model_revision", "pooling", "max_tokens")}
    if arm.rerank:
        told["reranker"] = reranker
    return told

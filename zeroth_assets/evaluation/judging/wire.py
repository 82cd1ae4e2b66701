"""The chat protocol's messages: what a request says, what an answer is allowed to be.

What belongs here: building and reading JSON, without a connection. Sending is in `client`.

The schema of an answer is asked for in every spelling at once, since each server reads its own and most ignore the
others': `response_format` (hosted APIs, vLLM, llama.cpp's server), `structured_outputs` (vLLM from 0.11 on; the older
`guided_json` was dropped in 0.12 and is ignored in silence) and `json_schema` (llama.cpp). A server that refuses
unknown fields gets `response_format` alone, one that refuses that gets the older fields alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from zeroth_assets.evaluation.judging.model import AnswerError, JudgeConfig, Usage

SPELLINGS = ("every spelling", "response_format", "server fields")
_SCHEMA_NAME = "grades"
# A byte-level vocabulary has no token without a byte; a chat template adds a few of its own.
_TEMPLATE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Completion:
    """What a server said. Nothing of it is trusted yet: see `answer_text`."""

    content: str | None
    finish_reason: str | None
    refused: bool
    model: str | None
    system_fingerprint: str
    choices: int
    usage: Usage


def completion_body(
    config: JudgeConfig,
    model: str,
    messages: list[dict[str, str]],
    *,
    seed: int,
    schema: dict[str, Any] | None,
    spelling: str = SPELLINGS[0],
    limit: int | None = None,
) -> dict[str, Any]:
    """The request for one completion; without `schema` an unconstrained one."""
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "seed": seed,
        "n": 1,
        "stream": False,
        config.output_limit_field: limit or config.max_output_tokens,
    }
    if config.temperature is not None:
        body["temperature"] = config.temperature
    if schema is None:
        return body
    if spelling in SPELLINGS[:2]:
        form = {"name": _SCHEMA_NAME, "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if spelling == SPELLINGS[0]:
        body["structured_outputs"] = {"json": schema}
    if spelling in (SPELLINGS[0], SPELLINGS[2]):
        body["json_schema"] = schema
    if spelling == SPELLINGS[2]:
        body["guided_json"] = schema
    return body


def encode(body: dict[str, Any]) -> bytes:
    """The bytes of a request; equal bodies give equal bytes."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def most_tokens(messages: list[dict[str, str]], output_limit: int) -> Usage:
    """An upper bound on what a call can cost."""
    text = sum(len(message["content"].encode("utf-8")) for message in messages)
    return Usage(1, text + _TEMPLATE_TOKENS, output_limit, 0, reported=False)


def read_completion(envelope: Any, bound: Usage) -> Completion:
    """Read a completion's envelope, whatever it lacks. `bound` stands in for a usage that is not told."""
    envelope = envelope if isinstance(envelope, dict) else {}
    choices = envelope.get("choices")
    choices = choices if isinstance(choices, list) else []
    choice = choices[0] if choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    return Completion(
        content=_text(message.get("content")),
        finish_reason=_text(choice.get("finish_reason")),
        refused=bool(message.get("refusal")),
        model=_text(envelope.get("model")),
        system_fingerprint=token(envelope.get("system_fingerprint")),
        choices=len(choices),
        usage=_usage(envelope.get("usage"), bound),
    )


def answer_text(completion: Completion, output_limit: int) -> str:
    """The text of a completion that ended by itself.

    Raises:
        AnswerError: cut off, stopped by a filter, refused, or without text; however well the rest may parse.
    """
    if completion.finish_reason == "length":
        usage = completion.usage
        thought = f", {usage.reasoning_tokens:,} of them reasoning" if usage.reasoning_tokens else ""
        raise AnswerError(
            "The judge's answer is cut off",
            expected="finish_reason stop",
            found=f"finish_reason length after {usage.output_tokens:,} output tokens{thought}",
            remedy=f"raise the output limit above {output_limit:,}, or show fewer passages per call",
            kind="truncated",
        )
    if completion.refused or completion.finish_reason == "content_filter":
        raise AnswerError("The judge refuses to answer", expected="an answer", found="a refusal", kind="refused")
    if completion.finish_reason != "stop":
        raise AnswerError(
            "The judge's answer did not end by itself",
            expected="finish_reason stop",
            found=f"finish_reason {token(completion.finish_reason)}",
            kind="stopped",
        )
    if completion.choices != 1 or completion.content is None:
        raise AnswerError(
            "The judge's answer has no text",
            expected="one choice with text",
            found=f"{completion.choices} choices, {'no ' if completion.content is None else ''}text",
            kind="schema",
        )
    return completion.content


def token(value: object) -> str:
    """A name that a server gave, safe to record and to print: short, printable, or "unknown"."""
    if not isinstance(value, str) or not value.strip():
        return "unknown"
    return "".join(c if c.isascii() and (c.isalnum() or c in "._:/+@-") else "_" for c in value.strip()[:120])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _usage(told: object, bound: Usage) -> Usage:
    if not isinstance(told, dict):
        return bound
    given = _count(told.get("prompt_tokens")), _count(told.get("completion_tokens"))
    if given[0] is None or given[1] is None:
        return bound
    prompt, output = given[0], given[1]
    details = told.get("completion_tokens_details")
    reasoning = (_count(details.get("reasoning_tokens")) if isinstance(details, dict) else None) or 0
    total = _count(told.get("total_tokens")) or 0
    # Most servers count reasoning as completion; some tell it beside, and show that only in the total or by a count
    # that exceeds the completion's.
    if reasoning > output:
        output += reasoning
    output = max(output, total - prompt)
    return Usage(1, prompt, output, reasoning)


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 10**12 else None

"""Which model really answers: a name is only a name until the server says what stands behind it.

What belongs here: resolving a name at the start of a run, and holding every answer to it.

A pinned name carries a date (`judge-2025-04-14`, `judge-20250414`, `judge-2411`) or a revision (`judge@1a2b3c4`,
sha256). A server of your own pins by the name that it serves under: vLLM's `--served-model-name`, llama.cpp's
`--alias`, with the weights' revision after an @.
"""

from __future__ import annotations

import re
from typing import Any

from zeroth_assets.evaluation.judging.client import ChatClient
from zeroth_assets.evaluation.judging.model import UNKNOWN, JudgeQuery, Snapshot, SnapshotError, Usage
from zeroth_assets.evaluation.judging.wire import Completion, token

_DATE = re.compile(r"(?<!\d)20\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])(?!\d)")
_YEAR_MONTH = re.compile(r"-2\d(?:0[1-9]|1[0-2])$")
_REVISION = re.compile(r"@(?=[0-9a-f]*\d)[0-9a-f]{7,64}$|(?<![0-9a-f])[0-9a-f]{40}(?:[0-9a-f]{24})?(?![0-9a-f])")
_LATEST = re.compile(r"[-:@_](?:latest|stable|preview)$")
# How golden sets write that they do not know who drafted.
_UNNAMED = re.compile(r"^\s*$|not recorded|unknown|unnamed|^\s*(?:a |some )?(?:language )?model\s*$", re.IGNORECASE)
_PROBE = [{"role": "user", "content": "Answer with the word yes."}]
_PROBE_TOKENS = 16


def is_pinned(name: str) -> bool:
    """Whether a name carries the date or the revision of the model that it names.

    >>> [is_pinned(n) for n in ("m-2025-04-14", "m-20250414", "m-2411", "m@1a2b3c4d", "m-latest", "m-7b", "m@main")]
    [True, True, True, True, False, False, False]
    """
    lowered = name.casefold()
    if _LATEST.search(lowered):
        return False
    return any(pattern.search(lowered) for pattern in (_DATE, _YEAR_MONTH, _REVISION))


def resolve(client: ChatClient) -> tuple[Snapshot, Usage]:
    """Ask the server what stands behind the configured name, and what the asking cost.

    The server's list of models comes first, with the aliases that it tells; where that settles nothing, the `model`
    of a completion of a few tokens does.

    Raises:
        SnapshotError: the server does not serve the name; or nothing pins it and a figure is to be published.
        JudgeUnavailable, RequestRefused: see `ChatClient.complete`.
    """
    config = client.config
    name = config.model.strip()
    listed = _listed(client.get("/models"))
    entry = next((item for item in listed if item["id"] == name or name in _aliases(item)), None)
    if listed and entry is None:
        raise SnapshotError(
            "The judge's server does not serve the model",
            expected=f"one of its {len(listed)} models",
            found=token(name),
            remedy="known are " + ", ".join(sorted(token(item["id"]) for item in listed)[:8]),
        )
    backend, version = _backend(client, entry)
    spent = Usage()
    snapshot, request_name, answer_name = _pinned_by_list(name, listed), name, name
    if snapshot is not None:
        request_name = answer_name = snapshot
    else:
        probe = client.complete(name, _PROBE, seed=config.seed, schema=None, limit=_PROBE_TOKENS)
        spent = probe.usage
        answer_name = probe.model or ""
        if not answer_name:
            raise SnapshotError("The judge's server does not say which model answers", expected="a model's name")
        if is_pinned(answer_name):
            snapshot = answer_name
            # A listed snapshot is asked for by its own name, so that the alias may move on while the run goes on.
            request_name = answer_name if any(item["id"] == answer_name for item in listed) else name
        if version == UNKNOWN:
            version = probe.system_fingerprint
    if snapshot is None and config.publishing:
        raise SnapshotError(
            "The judge is not pinned, and its figures are to be published",
            expected="a model's name with its date or revision, or an alias that the server resolves to one",
            found=f"{token(name)}, answering as {token(answer_name)}",
            remedy="name the snapshot, or serve the model under a name with its revision (name@revision)",
        )
    return Snapshot(name, snapshot, request_name, answer_name, backend, version), spent


def check_answer(snapshot: Snapshot, completion: Completion) -> None:
    """Hold a completion to the snapshot of the run.

    Raises:
        SnapshotError: another model answered; what it said is worth nothing to this run.
    """
    if completion.model != snapshot.answer_name:
        raise SnapshotError(
            "Another model answered than the run began with",
            expected=token(snapshot.answer_name),
            found=token(completion.model) if completion.model else "no name",
            remedy="start a new journal with the new snapshot; grades of two models are not mixed",
        )


def same_model(judge: Snapshot, drafter: str) -> bool:
    """Whether a drafter's name means the judge's model, in whatever version.

    >>> same_model(Snapshot("org/Judge-7B-latest", None, "j", "j"), "judge-7b-2025-04-14")
    True
    """
    return _family(drafter) in {_family(name) for name in (judge.name, judge.snapshot or "", judge.answer_name) if name}


def drafter_caveat(judge: Snapshot, query: JudgeQuery) -> str | None:
    """What a record must say about who drafted its question, if anything.

    Raises:
        SnapshotError: the judge would grade questions of its own making.
    """
    if query.drafter is None or _UNNAMED.search(query.drafter):
        return "the question's drafter is not recorded: it may be the judge's own model"
    if same_model(judge, query.drafter):
        raise SnapshotError(
            "The judge drafted a question that it is to grade",
            expected="a judge of another model than every drafter",
            found=f"query {query.query_id!r}, drafter {token(query.drafter)}, judge {token(judge.label)}",
            remedy="configure another judge, or leave these queries out of its pool",
        )
    return None


def _family(name: str) -> str:
    base = name.strip().casefold().rsplit("/", 1)[-1]
    base = base.split("@", 1)[0].split(":", 1)[0]
    for pattern in (_DATE, _REVISION, _LATEST, _YEAR_MONTH):
        base = pattern.sub("", base)
    return re.sub(r"[^a-z0-9]+", "-", base).strip("-")


def _listed(answer: Any) -> list[dict[str, Any]]:
    data = answer.get("data") if isinstance(answer, dict) else None
    items = data if isinstance(data, list) else []
    return [item for item in items if isinstance(item, dict) and isinstance(item.get("id"), str)]


def _aliases(item: dict[str, Any]) -> list[str]:
    aliases = item.get("aliases")
    return [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []


def _pinned_by_list(name: str, listed: list[dict[str, Any]]) -> str | None:
    if is_pinned(name):
        return name
    named = {item["id"] for item in listed if name in _aliases(item) and is_pinned(item["id"])}
    return named.pop() if len(named) == 1 else None


def _backend(client: ChatClient, entry: dict[str, Any] | None) -> tuple[str, str]:
    """The server's software and its version, by what each kind of server tells of itself."""
    owner = token(entry.get("owned_by")) if entry else UNKNOWN
    if owner == "vllm":
        page, key = client.get("/version", at_root=True), "version"
    elif owner == "llamacpp":
        page, key = client.get("/props", at_root=True), "build_info"
    else:
        return owner, UNKNOWN
    return owner, token(page.get(key)) if isinstance(page, dict) else UNKNOWN

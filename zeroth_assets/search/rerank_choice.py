"""The reranker that somebody chose by name.

What belongs here: from a name and what it needs to a reranker that is ready, for the command line and the graph alike.
"""

from __future__ import annotations

from typing import Literal, get_args

from zeroth_assets.embedding.encoder import Encoder
from zeroth_assets.errors import QueryError, SettingsError
from zeroth_assets.search.rerank import Reranker
from zeroth_assets.search.rerank_cross import DEFAULT_MODEL, CrossEncoderReranker
from zeroth_assets.search.rerank_hosted import HostedReranker
from zeroth_assets.search.rerank_late import LateInteraction

RerankerName = Literal["none", "late", "cross", "hosted"]
NAMES: tuple[RerankerName, ...] = get_args(RerankerName)


def checked_name(name: str) -> RerankerName:
    """`name`, if there is such a reranker.

    Raises:
        QueryError: there is none.
    """
    for known in NAMES:
        if name == known:
            return known
    raise QueryError(f"There is no reranker {name!r}", expected="none, late, cross or hosted", found=repr(name))


def open_reranker(
    name: RerankerName,
    *,
    encoder: Encoder | None = None,
    model: str | None = None,
    revision: str | None = None,
    precision: str = "auto",
    url: str | None = None,
    api_key: str | None = None,
) -> Reranker | None:
    """The reranker, loaded, so that no query's budget pays for that; None for `none`.

    `model` and `revision` are of the cross-encoder, or the name that a service knows its own by; `precision` is bf16 or
    else fp32.

    Raises:
        QueryError: late interaction without an encoder.
        SettingsError: a service without a URL and a model, or a URL that others could read along.
        EmbeddingError: the cross-encoder is not pinned, or cannot be had or loaded.
    """
    match name:
        case "none":
            return None
        case "late":
            if encoder is None:
                raise QueryError("Late interaction has no encoder", expected="the encoder of the index", found="none")
            late = LateInteraction(encoder)
            late.load()
            return late
        case "cross":
            kind: Literal["fp32", "bf16"] = "bf16" if precision == "bf16" else "fp32"
            cross = CrossEncoderReranker(model or DEFAULT_MODEL, revision, precision=kind)
            cross.load()
            return cross
        case "hosted":
            if not url or not model:
                raise SettingsError(
                    "A hosted reranker has no address" if not url else "A hosted reranker has no model",
                    expected="ZEROTH_RERANKER_URL and ZEROTH_RERANKER_MODEL",
                    found=f"URL {'set' if url else 'unset'}, model {'set' if model else 'unset'}",
                    remedy="set both; passages that the asking principal may read are sent there",
                )
            return HostedReranker(url, model, api_key=api_key)

"""Every setting, in one place, from the environment.

What belongs here: names, defaults, types and the checks that need no I/O beyond resolving a path. A
module that wants a setting takes it as an argument; only `defs/` and the command line call `load_settings`.
"""

from __future__ import annotations

import functools
import os
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from zeroth_assets.errors import SettingsError

PLAIN_CHUNK_SETS: tuple[str, ...] = ("fixed_512", "section_aware")


def chunk_sets_of(context_prefix: str | None) -> tuple[str, ...]:
    """The chunk sets that the graph is made of, by the value of ZEROTH_CONTEXT_PREFIX.

    >>> chunk_sets_of("1")
    ('fixed_512', 'section_aware', 'fixed_512_context', 'section_aware_context')
    """
    wanted = (context_prefix or "").strip().lower() in ("1", "true", "t", "yes", "y", "on")
    return (*PLAIN_CHUNK_SETS, *(f"{name}_context" for name in PLAIN_CHUNK_SETS if wanted))


# Assets and partitions are declared when modules are imported, so this one setting is read then.
CHUNK_SETS: tuple[str, ...] = chunk_sets_of(os.environ.get("ZEROTH_CONTEXT_PREFIX"))
SOURCES: tuple[str, ...] = ("sec", "cuad", "rfc", "text")
SECRETS = frozenset({"database_url", "judge_url", "judge_api_key", "reranker_url", "reranker_api_key"})
"""Settings that may hold a key or a password: no message shows them."""


class Settings(BaseSettings):
    """The settings of one process. Each field `x` is read from `ZEROTH_X`."""

    model_config = SettingsConfigDict(env_prefix="ZEROTH_", frozen=True, extra="ignore")

    home: Path | None = Field(
        default=None,
        description="State folder. Default: .zeroth for the sample, .zeroth-<corpus> for any other corpus.",
    )
    mirror: str | None = Field(
        default=None, description="Folder or http(s) base that stands in for the publishers' sites."
    )
    manifest: str | None = Field(
        default=None,
        description="Manifest file, or `sample`, or `published`. Default: published with a mirror, else sample.",
    )
    tenants: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Comma-separated tenant keys to narrow a materialisation to."
    )
    contact: str | None = Field(default=None, description="Contact address for the User-Agent; sec.gov wants one.")
    sec_requests_per_second: float = Field(default=8.0, gt=0, le=10)
    requests_per_second: float = Field(default=5.0, gt=0)
    fetch_timeout_seconds: float = Field(default=30.0, gt=0)

    database_url: str | None = Field(
        default=None,
        repr=False,
        description="External PostgreSQL (an administrator's URL). Unset: the embedded server.",
    )
    pg_bin: Path | None = Field(default=None, description="Folder with initdb, pg_ctl and postgres.")

    tenant_floor: int | None = Field(
        default=None,
        ge=0,
        description="Estimated chunks below which a tenant is folded into the most similar. Default: per corpus.",
    )
    model: str = Field(default="all-MiniLM-L6-v2", description="Packaged name, hub id or local folder.")
    model_revision: str | None = Field(default=None, description="Pinned revision for a hub id.")
    pooling: Literal["mean", "cls"] | None = Field(default=None, description="Default: the model's own.")
    max_tokens: int = Field(default=512, ge=16, le=8192, description="Encoder input length, special tokens included.")
    engine: Literal["auto", "torch", "openvino"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: int | None = Field(default=None, ge=1, description="CPU threads of the encoder. Default: all.")

    context_prefix: bool = Field(
        default=False,
        description="Also make both chunk sets with title and section path before what is embedded and indexed.",
    )
    analyser: Literal["compound", "compound-s", "exact"] = Field(
        default="compound", description="What cuts text into terms for BM25; compound-s takes plurals as singulars."
    )
    hnsw_m: int = Field(default=16, ge=2, le=100)
    hnsw_ef_construction: int = Field(default=64, ge=4, le=1000)
    ann_queries: int = Field(default=50, ge=10, description="Sampled queries per tenant.")
    recall_floor: float = Field(default=0.9, ge=0, le=1, description="Recall@10 at ef_search 40 that a tenant owes.")
    access_grid: Literal["small", "full"] = Field(
        default="small", description="Which index designs, ef_search and k access_recall measures."
    )
    baselines: Path | None = Field(
        default=None, description="Folder of accepted figures. Default: the package's for its corpora, else the home's."
    )
    arms: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Comma-separated retrievers that are measured. Default: all that the settings allow."
    )
    reranker: Literal["none", "late", "cross", "hosted"] = Field(
        default="none",
        description="What reorders the shortlist: nothing, the packaged encoder, a cross-encoder, or a service.",
    )
    reranker_model: str | None = Field(
        default=None,
        description="Cross-encoder: hub id or folder, default BAAI/bge-reranker-base; or a service's own.",
    )
    reranker_revision: str | None = Field(default=None, description="Pinned revision of another cross-encoder.")
    reranker_url: str | None = Field(
        default=None, repr=False, description="Service that reranks; it is sent passages that the principal may read."
    )
    reranker_api_key: SecretStr | None = Field(default=None, description="Key that is sent to that service alone.")
    retrieval_depth: int = Field(default=50, ge=10, le=1000, description="Candidates that each arm gives.")
    latency_queries: int = Field(
        default_factory=lambda known: (
            5 if known.get("manifest") in (None, "sample") and not known.get("mirror") else 50
        ),
        ge=5,
        description="Queries per role whose latency is measured. Default: 50; 5 for the sample.",
    )
    abstention_target: float = Field(default=0.05, gt=0, lt=1, description="Unanswerable queries answered, at most.")
    expert_labels: Path | None = Field(
        default=None, description="File of expert labels over CUAD. Default: the mirror's, where it has one."
    )
    golden_answerable: int = Field(default=500, ge=0, description="Questions with an answer, from expert labels.")
    golden_unanswerable: int = Field(default=350, ge=0, description="Questions without one, from expert labels.")
    judge_url: str | None = Field(
        default=None,
        repr=False,
        description="Chat server that grades pooled passages, up to /chat/completions. Unset: no model does.",
    )
    judge_model: str | None = Field(default=None, description="The judge's name on that server.")
    judge_api_key: SecretStr | None = Field(default=None, description="Key that is sent to that server alone.")
    judge_publishing: bool = Field(
        default=True, description="Refuse a judge for which the server tells no dated name or revision."
    )
    judge_temperature: float | None = Field(default=0.0, ge=0, description="`none`: not sent; some models refuse it.")
    judge_max_output_tokens: int = Field(default=2_048, ge=1, description="Of one answer, its reasoning included.")
    judge_output_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    judge_passages_per_call: int = Field(default=10, ge=1)
    judge_repeats_per_query: int = Field(default=1, ge=0, description="Passages shown twice, for self-agreement.")
    judge_agreement_queries: int = Field(
        default=40, ge=0, description="Questions of which the judge also grades what people graded: its worth."
    )
    judge_concurrency: int = Field(default=1, ge=1, le=64)
    judge_token_budget: int | None = Field(default=None, ge=1, description="Of a judge and prompt, over all runs.")
    judge_money_budget: float | None = Field(default=None, gt=0, description="The same in money; needs both prices.")
    judge_input_price: float | None = Field(default=None, ge=0, description="Of a million tokens.")
    judge_output_price: float | None = Field(default=None, ge=0, description="Of a million tokens, reasoning included.")
    judge_currency: str = "USD"
    judge_timeout_seconds: float = Field(default=120.0, gt=0)
    judge_tries: int = Field(default=5, ge=1, le=20, description="Of one call, with growing waits between.")
    seed: int = 20_240_501
    resamples: int = Field(default=1_000, ge=100)

    @field_validator("tenants", "arms", mode="before")
    @classmethod
    def _split_at_commas(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("context_prefix", mode="before")
    @classmethod
    def _blank_is_no(cls, value: object) -> object:
        return False if isinstance(value, str) and not value.strip() else value

    @field_validator(
        "home",
        "mirror",
        "manifest",
        "contact",
        "database_url",
        "pg_bin",
        "model_revision",
        "reranker_model",
        "reranker_revision",
        "reranker_url",
        "reranker_api_key",
        "expert_labels",
        "baselines",
        "judge_url",
        "judge_model",
        "judge_api_key",
        "judge_token_budget",
        "judge_money_budget",
        "judge_input_price",
        "judge_output_price",
        mode="before",
    )
    @classmethod
    def _blank_is_unset(cls, value: object) -> object:
        """An empty variable means "unset": compose files and CI pass empty strings for absent values."""
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("judge_temperature", mode="before")
    @classmethod
    def _none_is_not_sent(cls, value: object) -> object:
        return None if isinstance(value, str) and value.strip().lower() == "none" else value

    @model_validator(mode="after")
    def _judge_is_whole(self) -> Settings:
        if self.judge_url is not None and self.judge_model is None:
            raise ValueError("judge_url needs judge_model")
        if (self.judge_input_price is None) != (self.judge_output_price is None):
            raise ValueError("judge_input_price and judge_output_price go together")
        if self.judge_money_budget is not None and self.judge_input_price is None:
            raise ValueError("judge_money_budget needs judge_input_price and judge_output_price")
        return self

    @model_validator(mode="after")
    def _ef_construction_fits_m(self) -> Settings:
        if self.hnsw_ef_construction < 2 * self.hnsw_m:
            raise ValueError("hnsw_ef_construction must be at least 2 * hnsw_m (pgvector refuses less)")
        return self

    @property
    def corpus(self) -> str:
        """Name of the corpus: `sample`, `published`, or the stem of the manifest file."""
        if self.manifest is None:
            return "published" if self.mirror else "sample"
        if self.manifest in ("sample", "published"):
            return self.manifest
        return Path(self.manifest).stem

    @property
    def state_dir(self) -> Path:
        """The resolved `ZEROTH_HOME`, absolute. One home holds one corpus."""
        if self.home is not None:
            return self.home.expanduser().resolve()
        name = ".zeroth" if self.corpus == "sample" else f".zeroth-{self.corpus}"
        return Path.cwd() / name

    @property
    def baselines_dir(self) -> Path:
        """Where accepted figures lie: committed with the package for the corpora that travel with it."""
        if self.baselines is not None:
            return self.baselines.expanduser().resolve()
        if self.manifest in (None, "sample", "published"):
            return package_file(f"baselines/{self.corpus}")
        return self.state_dir / "baselines"

    @property
    def manifest_path(self) -> Path:
        """The manifest file that the settings name."""
        if self.corpus == "sample" and self.manifest in (None, "sample"):
            return package_file("sample/corpus_manifest.json")
        if self.manifest in (None, "published"):
            return project_file("corpus_manifest.json")
        assert self.manifest is not None  # the branches above leave only a path
        return Path(self.manifest).expanduser().resolve()

    @property
    def mirror_location(self) -> str | None:
        """Where bytes come from: the mirror, the packaged sample, or None for the publishers' sites."""
        if self.mirror is not None:
            if self.mirror.startswith(("http://", "https://")):
                return self.mirror
            return str(Path(self.mirror).expanduser().resolve())
        if self.corpus == "sample":
            return str(package_file("sample/documents"))
        return None


def package_file(relative: str) -> Path:
    """A file that lies inside the package, in a checkout and in an installed wheel alike."""
    return Path(str(resources.files("zeroth_assets"))) / relative


def project_file(relative: str) -> Path:
    """A file that stands at the top of a checkout and under `zeroth_assets/_project` in a wheel."""
    packaged = package_file(f"_project/{relative}")
    if packaged.exists():
        return packaged
    return package_file("..").resolve() / relative


@functools.cache
def load_settings() -> Settings:
    """Read the settings once per process.

    Raises:
        SettingsError: a variable does not parse; the message names each one.
    """
    return read_settings()


def read_settings(**overrides: object) -> Settings:
    """Read the settings anew, with `overrides` above the environment.

    Raises:
        SettingsError: as for `load_settings`.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        found = "; ".join(_problem(e["loc"], e["msg"], e["input"]) for e in error.errors(include_url=False))
        raise SettingsError(
            "The environment holds settings that cannot be used",
            expected="the types and ranges of the settings table in README.md",
            found=found,
            remedy="correct or unset the variables named",
        ) from None  # the original prints what every variable held


def _problem(where: tuple[int | str, ...], says: str, given: object) -> str:
    """One variable's fault. What breaks a rule over several is all of them together, keys and passwords included."""
    name = "_".join(map(str, where))
    shown = f" (given {given!r})" if where and name not in SECRETS else ""
    return f"ZEROTH_{name.upper() or '*'}: {says}{shown}"

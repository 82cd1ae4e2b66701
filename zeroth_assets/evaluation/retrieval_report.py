"""The published figures of retrieval as frames, for tables and for files.

What belongs here: reading what assets published, the table of arms, and exports: a file per table, or TREC files of
runs and grades. No figure is computed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

import polars as pl

from zeroth_assets.artefacts import ArtefactStore, write_atomic
from zeroth_assets.errors import ArtefactError
from zeroth_assets.evaluation.document_figures import document_runs
from zeroth_assets.evaluation.golden.model import IMPORTED
from zeroth_assets.evaluation.golden.trec import write_qrels, write_run
from zeroth_assets.evaluation.retrieval_arms import UNRESTRICTED, split_arm
from zeroth_assets.evaluation.retrieval_figures import ALL, FIGURE_SCHEMA, run_of

Format = Literal["csv", "parquet", "json", "trec"]
FORMATS: Final[tuple[Format, ...]] = ("csv", "parquet", "json", "trec")
TABLE_OF_ARMS: Final = (
    "success@5",
    "success@10",
    "recall@50",
    "reciprocal_rank@10",
    "ndcg_exponential@10",
    "judged@10",
    "document_ndcg@10",
    "document_recall@100",
)
_ABSTENTION: Final[Mapping[str, str]] = {
    "correct_abstention": "rightly withheld",
    "correct_abstention_naive": "the same, naive",
    "insufficient_candidates": "too few candidates",
    "answer_coverage": "answerable answered",
    "selective_accuracy": "answers right",
    "auroc": "AUROC",
}
JUDGED: Final = "judged@10"
_PER_QUERY: Final = ["query_ids", "values"]
_SINGLE: Final = ("metric_comparisons", "abstention_metrics", "latency_metrics", "golden_set")


def published_figures(store: ArtefactStore, arms: Iterable[str] | None = None) -> pl.DataFrame:
    """The figures of the arms that were measured (of `arms`, partitions, where given), in `FIGURE_SCHEMA`."""
    published = store.partitions("retrieval_metrics")
    wanted = published if arms is None else [arm for arm in arms if arm in published]
    frames = [store.read_frame("retrieval_metrics", key) for key in wanted]
    # Figures that an earlier version published may lack a column.
    return pl.concat([FIGURE_SCHEMA.to_frame(), *frames], how="diagonal").select(list(FIGURE_SCHEMA))


def graders_in_words(figures: pl.DataFrame) -> list[str]:
    """Which figures rest on a model's grades, to what part, and what that model is worth; empty where none does."""
    rest = figures.filter((pl.col("model_grades") > 0) & (pl.col("category") == ALL) & (pl.col("metric") != JUDGED))
    found = rest.group_by("chunk_set", "role", "judge", maintain_order=True).agg(
        pl.col("arm").unique().sort(),
        pl.col("metric").unique(maintain_order=True),
        # The same queries have the same grades, whatever the arm or the measure.
        pl.col("model_grades").max(),
        pl.col("grades").max(),
    )
    return [
        f"{row['chunk_set']}, {row['role']}, {', '.join(row['arm'])}: {row['model_grades']} of {row['grades']} grades"
        f" under {', '.join(row['metric'])} are by the model {row['judge']}"
        for row in found.iter_rows(named=True)
    ]


def doubts_in_words(figures: pl.DataFrame) -> list[str]:
    """What is doubtful about the intervals of the table of arms, each with how many figures it is said of."""
    shown = figures.filter(pl.col("metric").is_in(TABLE_OF_ARMS))
    doubts = shown.drop_nulls("warning").group_by("warning").len().sort("len", "warning", descending=[True, False])
    return [f"{count} of {shown.height} intervals: {warning}" for warning, count in doubts.iter_rows()]


def table_of_arms(figures: pl.DataFrame, category: str = ALL) -> pl.DataFrame:
    """A row per role, chunk set and arm, with each measure as `value [low, high]`."""
    shown = _interval()
    chosen = figures.filter((pl.col("category") == category) & pl.col("metric").is_in(TABLE_OF_ARMS))
    wide = chosen.with_columns(shown.alias("shown")).pivot(
        on="metric", index=["role", "chunk_set", "arm", "n", "units"], values="shown"
    )
    measures = [name for name in TABLE_OF_ARMS if name in wide.columns]
    return wide.select("role", "chunk_set", "arm", "n", "units", *measures).sort(
        "role", "chunk_set", "arm", descending=[True, False, False]
    )


def table_of_abstention(frame: pl.DataFrame) -> pl.DataFrame:
    """A row per role, chunk set and arm of abstention's figures, the naive count beside the honest one."""
    count = pl.when(pl.col("n") > 0).then(pl.format("{} of {}", _interval(), pl.col("n"))).otherwise(pl.lit(""))
    chosen = frame.filter((pl.col("category") == ALL) & pl.col("metric").is_in(list(_ABSTENTION)))
    names = pl.col("metric").replace_strict(dict(_ABSTENTION), return_dtype=pl.String)
    wide = chosen.with_columns(names.alias("metric"), count.alias("shown")).pivot(
        on="metric", index=["role", "chunk_set", "arm"], values="shown"
    )
    measures = [name for name in _ABSTENTION.values() if name in wide.columns]
    return wide.select("role", "chunk_set", "arm", *measures).sort(
        "role", "chunk_set", "arm", descending=[True, False, False]
    )


def per_query_values(figures: pl.DataFrame) -> pl.DataFrame:
    """A row per chunk set, arm, role, metric and query: what the means are of."""
    whole = figures.filter(pl.col("category") == ALL)
    return whole.select("chunk_set", "arm", "role", "metric", *_PER_QUERY).explode(_PER_QUERY)


def published_tables(store: ArtefactStore) -> dict[str, pl.DataFrame]:
    """Every table of retrieval's figures that was published, flat, by name.

    Raises:
        ArtefactError: none was.
    """
    tables: dict[str, pl.DataFrame] = {}
    figures = published_figures(store)
    if figures.height:
        tables["retrieval_metrics"] = figures.drop(_PER_QUERY)
        tables["retrieval_per_query"] = per_query_values(figures)
    for name in _SINGLE:
        if store.sidecar(name) is not None:
            tables[name] = store.read_frame(name)
    if not tables:
        raise _nothing()
    return tables


def export_tables(store: ArtefactStore, folder: Path, form: Format) -> list[Path]:
    """Write every published table into `folder` as CSV, Parquet or JSON. Returns the files.

    Raises:
        ArtefactError: nothing was published, the format is none of these, or the folder cannot be written.
    """
    writers: Mapping[str, Callable[[pl.DataFrame], bytes]] = {
        "csv": lambda frame: frame.write_csv().encode(),
        "json": lambda frame: (frame.write_json() + "\n").encode(),
        "parquet": _parquet,
    }
    if form not in writers:
        raise ArtefactError(f"Tables are not written as {form!r}", expected=", ".join(writers), found=form)
    files = []
    for name, frame in published_tables(store).items():
        files.append(_write(folder / f"{name}.{form}", writers[form](frame)))
    return files


def export_trec(store: ArtefactStore, folder: Path, split: str = "test") -> list[Path]:
    """Write a run per arm and role, and qrels per chunk set, of the queries of one split. Returns the files.

    A document is a chunk. The qrels hold what every principal may see together: a single tenant's run is judged by the
    grades of its own chunks. Imported queries, which judge whole documents, go apart: `document.qrels`, and a run
    `<arm>.documents.run`.

    Raises:
        ArtefactError: nothing was published, or the folder cannot be written.
    """
    keys = store.partitions("retrieval_runs")
    if not keys or store.sidecar("golden_set") is None:
        raise _nothing()
    queries = store.read_frame("golden_queries").filter(pl.col("split") == split).select("query_id", "category")
    imported = queries.filter(pl.col("category") == IMPORTED)
    _made(folder)
    files = []
    for (chunk_set,), grades in store.read_frame("golden_set").group_by("chunk_set", maintain_order=True):
        path = folder / f"{chunk_set}.qrels"
        write_qrels(grades.join(queries, on="query_id", how="semi"), path)
        files.append(path)
    homes = {name: _homes(store, name) for name in {split_arm(key)[0] for key in keys}} if imported.height else {}
    for key in keys:
        runs = store.read_frame("retrieval_runs", key).filter(pl.col("split") == split)
        for (role,), part in runs.group_by("role", maintain_order=True):
            own = run_of(part.join(imported, on="query_id", how="anti"))
            whole = part.join(imported, on="query_id", how="semi")
            if own.height or whole.is_empty():
                files.append(folder / f"{key}.{role}.run")
                write_run(own, files[-1], tag=f"{key}.{role}")
            if whole.height and role == UNRESTRICTED:
                files.append(folder / f"{key}.documents.run")
                write_run(document_runs(whole, homes[split_arm(key)[0]]), files[-1], tag=f"{key}.documents")
    return files


def _homes(store: ArtefactStore, chunk_set: str) -> pl.DataFrame:
    """The document of every chunk that was cut."""
    name = f"chunks_{chunk_set}"
    return pl.concat(
        [store.read_frame(name, key, columns=["chunk_id", "document_id"]) for key in store.partitions(name)]
    )


def _interval() -> pl.Expr:
    return pl.format("{} [{}, {}]", *(_rounded(name) for name in ("value", "low", "high")))


def _rounded(name: str) -> pl.Expr:
    """Three decimals, always: figures below one another are to be compared."""
    exact = pl.col(name).fill_nan(None)
    return exact.map_elements(lambda value: f"{value:.3f}", return_dtype=pl.String).fill_null("?")


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> Path:
    _made(path.parent)
    write_atomic(path, content, mode=0o644)
    return path


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtefactError(
            f"The folder {folder} cannot be made", expected="a folder that you may write", found=str(error)
        ) from error


def _nothing() -> ArtefactError:
    return ArtefactError(
        "No figure of retrieval was published yet",
        expected="retrieval_runs, golden_set and retrieval_metrics",
        found="none in this home",
        remedy="run `zeroth materialize`",
    )

"""Index designs under access control, side by side, on the tenants of a home.

    python benchmarks/access_recall/run.py [--tenants 25] [--queries 50] [--quick] [--pictures FOLDER]

The home is the one that ZEROTH_HOME and the other settings name; one that holds no tenant yet is materialised first
(two minutes for the sample). Then the shared index is brought up to date, `--tenants` tenants spread over all sizes are
measured alone, and the principals of 3, of 10, of all but the largest and of all tenants beside them. What is measured
is kept in the home, so that a run that was stopped goes on where it was. The dense retriever is asked as every
principal too, and its time taken in turns with the shared index's. Prints the finding, the tables, and which of the
targets are met.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from zeroth_assets.corpus.model import documents_to_frame
from zeroth_assets.defs.chunks import tenant_documents
from zeroth_assets.defs.resources import Project
from zeroth_assets.embedding import embed_with_memo
from zeroth_assets.evaluation.access_grid import Unit, measure_grid
from zeroth_assets.evaluation.access_latency import against_shared, latency_table
from zeroth_assets.evaluation.access_model import LATENCY, LEFT_OUT, TRUTH, merge_reports
from zeroth_assets.evaluation.access_plots import (
    plot_empty_answers,
    plot_latency,
    plot_recall_by_ef,
    plot_recall_by_share,
)
from zeroth_assets.evaluation.access_principals import (
    Asked,
    granted_for_measurement,
    spread_queries,
    wide_principals,
)
from zeroth_assets.evaluation.access_report import access_summary, access_table, compare_designs, verdict
from zeroth_assets.evaluation.access_retriever import measure_retriever
from zeroth_assets.evaluation.queries import NoQueriesError, sample_queries
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.path_model import stored_costs
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.preflight import preflight
from zeroth_assets.store.registry import IndexParameters
from zeroth_assets.store.shared import load_shared
from zeroth_assets.store.shared_state import SharedState, shared_state
from zeroth_assets.store.state import live_builds


def main() -> int:
    """Measure and print; 1 if a row of another tenant came back or a figure is not what it claims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunk-set", default="fixed_512")
    parser.add_argument("--tenants", type=int, default=25, help="tenants measured alone; 0 for every one")
    parser.add_argument("--queries", type=int, default=50, help="of each principal")
    parser.add_argument("--quick", action="store_true", help="ef_search 40 and 800, k 10")
    parser.add_argument("--pictures", type=Path, help="folder for four PNG files")
    parser.add_argument("--results", type=Path, help="folder for the figures as CSV")
    parser.add_argument("--retriever-only", action="store_true", help="no grid of index designs; k 10 alone")
    options = parser.parse_args()
    project = Project()
    seed, chunk_set = project.settings.seed, options.chunk_set
    if not live_builds(project.database):
        print("The home holds no tenant: materialising it", flush=True)
        subprocess.run([str(Path(sys.executable).parent / "zeroth"), "materialize"], check=True, env=os.environ)
    migrate(project.database)
    preflight(project.database)
    loaded = load_shared(
        project.database,
        chunk_set,
        dimension=project.encoder.dimension,
        parameters=IndexParameters(m=project.settings.hnsw_m, ef_construction=project.settings.hnsw_ef_construction),
    )
    print(
        f"shared index: {loaded.rows:,} rows of {loaded.tenants} tenants, {loaded.index_bytes / 2**20:.0f} MiB; "
        f"{loaded.kind}, rows {loaded.rows_seconds:.1f} s, index {loaded.index_seconds:.1f} s",
        flush=True,
    )
    state = shared_state(project.database, chunk_set, project.encoder.dimension)
    asked = _queries(project, state, options.queries)
    rows = {part.tenant_key: part.row_count for part in state.parts}
    wide = wide_principals(rows, seed=seed)
    units = [Unit(w.name, spread_queries(asked, w.tenant_keys, n=options.queries, seed=seed)) for w in wide]
    units += [Unit(tenant, asked[tenant]) for tenant in _spread(rows, asked, options.tenants)]
    how: dict[str, Any] = {"ef_search": (40, 800), "ks": (10,)} if options.quick else {}
    common: dict[str, Any] = {
        "chunk_set": chunk_set,
        "seed": seed,
        "folder": project.settings.state_dir / "benchmarks" / "access_recall",
        "dimension": project.encoder.dimension,
        "fingerprint_digest": project.encoder.fingerprint.digest,
        "resamples": project.settings.resamples,
        "progress": lambda done, total: print(f"\r{done} of {total} principals", end="", flush=True, file=sys.stderr),
    }
    costs = stored_costs(project.store, chunk_set)
    began = time.perf_counter()
    reports = []
    with granted_for_measurement(project.database, wide):
        if not options.retriever_only:
            reports.append(measure_grid(project.database, units, **common, **how))
        print(f"\n{len(units)} principals, {time.perf_counter() - began:.0f} s; the retriever", file=sys.stderr)
        ks: dict[str, Any] = {"ks": (10,)} if how or options.retriever_only else {}
        by_retriever = measure_grid(project.database, units, measure=measure_retriever, costs=costs, **common, **ks)
        reports.append(by_retriever)
        with DenseRetriever(
            project.database,
            chunk_set,
            fingerprint_digest=project.encoder.fingerprint.digest,
            costs=costs,
            dimension=project.encoder.dimension,
            for_measurement=True,
        ) as retriever:
            times = against_shared(project.database, retriever, units, common["progress"])
    report = merge_reports(reports)
    print(file=sys.stderr)
    print(f"{len(units)} principals, {report.figures.height} figures, {time.perf_counter() - began:.0f} s\n")
    left_out = [LEFT_OUT[reason] for reason in report.left_out]
    if options.retriever_only:
        print(access_table(compare_designs(report.figures, seed=seed)))
    else:
        print(access_summary(report, seed=seed, left_out=left_out))
    print(
        f"\nTruth: {TRUTH}.\nLatency: {LATENCY}.\nRows of tenants that were not granted: {report.cross_tenant_rows}.\n"
    )
    print(latency_table(times), "", *targets(by_retriever.figures), sep="\n")
    if options.results is not None:
        _keep(options.results, chunk_set, report.figures, times, retriever_only=options.retriever_only)
    if options.pictures is not None and not options.retriever_only:
        comparison = compare_designs(report.figures, seed=seed)
        options.pictures.mkdir(parents=True, exist_ok=True)
        for name, picture in (
            ("recall_by_share", plot_recall_by_share(report.figures)),
            ("recall_by_ef", plot_recall_by_ef(comparison)),
            ("empty_answers", plot_empty_answers(comparison)),
            ("latency", plot_latency(comparison)),
        ):
            (options.pictures / f"{name}.png").write_bytes(picture)
    found = verdict(report)
    for line in (*found.problems, *(f"withheld: {warning}" for warning in found.warnings)):
        print(line)
    return 0 if found.ok else 1


def targets(figures: pl.DataFrame) -> list[str]:
    """What the retriever owes every principal, and who falls short of it."""
    asked = figures.filter(k=10, predicate=True)
    recall = asked.filter(pl.col("recall") < 0.99).sort("recall")
    low = asked.filter(pl.col("recall_low") < 0.98)
    few = int(low.filter(pl.col("recall") == 1.0).height)
    empty = asked.filter(pl.col("empty_queries") > 0)
    worst = ", ".join(f"{row['principal']} {row['recall']:.3f}" for row in recall.head(5).iter_rows(named=True))
    return [
        f"recall@10 >= 0.99: {asked.height - recall.height} of {asked.height} principals"
        + (f"; below: {worst}" if worst else ""),
        f"lower end >= 0.98: {asked.height - low.height} of {asked.height}; {few} of the others recall 1.000",
        f"no empty answer: {asked.height - empty.height} of {asked.height}",
    ]


def _keep(folder: Path, chunk_set: str, figures: pl.DataFrame, times: pl.DataFrame, *, retriever_only: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    left_out = ("fingerprint_digest", "builds_digest", "index_name", "interval_warning", "chunk_set", "tenant")
    kept = figures.drop(left_out).with_columns(cs.float().round(4))
    kept.write_csv(folder / (f"{chunk_set}_retriever.csv" if retriever_only else f"{chunk_set}.csv"))
    times.drop("retriever_ms", "shared_ms").with_columns(cs.float().round(3)).write_csv(
        folder / f"{chunk_set}_latency.csv"
    )


def _queries(project: Project, state: SharedState, count: int) -> dict[str, Asked]:
    """Sampled sentences of each tenant's own documents; a tenant without any is left out."""
    asked = {}
    for part in state.parts:
        try:
            drawn = sample_queries(
                documents_to_frame(tenant_documents(project, part.tenant_key)),
                n=count,
                seed=project.settings.seed,
                tenant=part.tenant_key,
            )
        except NoQueriesError:
            continue
        texts = [project.encoder.query_prefix + text for text in drawn["text"]]
        vectors = embed_with_memo(texts, project.encoder, project.memo).vectors
        asked[part.tenant_key] = Asked(tuple(drawn["query_id"]), vectors)
    return asked


def _spread(rows: dict[str, int], asked: dict[str, Asked], count: int) -> list[str]:
    """So many tenants that can be asked, from the smallest to the largest in even steps."""
    by_size = sorted((tenant for tenant in rows if tenant in asked and rows[tenant]), key=lambda t: (rows[t], t))
    if count <= 0 or count >= len(by_size):
        return by_size
    return [by_size[round(place)] for place in np.linspace(0, len(by_size) - 1, count)]


if __name__ == "__main__":
    raise SystemExit(main())

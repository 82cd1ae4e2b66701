"""Engines side by side on the same texts, in one run: chunks per second, and cosine to fp32.

    python benchmarks/embedding/run.py [--texts 64] [--rounds 5] [--threads N] [--documents FOLDER] [--json FILE]

The peer is `SentenceTransformer.encode()` as its documentation shows it (fp32, its default batch of 32, which it
sorts by length itself). Ours is `Encoder.encode` with each engine and precision. Each is warmed up, then the rounds go
through all of them in turn, and the best round of each counts, which is the one that other work disturbed least; the
slowest is shown beside it. Texts are stretches of the documents of just under 256 and 512 tokens, so that every engine
does the same work.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from zeroth_assets.chunking import FastTokenizer, chunk_fixed
from zeroth_assets.corpus.model import Document
from zeroth_assets.embedding import find_model, load_encoder
from zeroth_assets.embedding.engines import FloatArray, usable_threads
from zeroth_assets.embedding.openvino_engine import cpu_has_bf16, cpu_name
from zeroth_assets.settings import package_file

PEER = "SentenceTransformer.encode()"
Encode = Callable[[Sequence[str]], FloatArray]


def main() -> int:
    """Measure and print; 1 if the engine that `auto` chooses is below three times the peer at either length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=64, help="texts of each length")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=usable_threads())
    parser.add_argument("--documents", type=Path, default=package_file("sample/documents"), help="folder of .txt files")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        engines, chosen = load(given.threads, Path(cache))
        rows = []
        for length in (256, 512):
            texts = texts_of(given.documents, length, given.texts)
            rows += measure(engines, texts, length, given.rounds)
    table = pl.DataFrame(rows)
    pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=140, tbl_hide_dataframe_shape=True)
    print(f"{cpu_name()}, {given.threads} threads; auto chooses {chosen}")
    print(table)
    if given.json:
        given.json.write_text(json.dumps({"cpu": cpu_name(), "threads": given.threads, "auto": chosen, "rows": rows}))
    slow = table.filter((pl.col("engine") == chosen) & (pl.col("times_peer") < 3))
    return 1 if slow.height else 0


def load(threads: int, cache: Path) -> tuple[dict[str, Encode], str]:
    """The peer and every engine that this machine has, by name, and the name of the one that `auto` takes."""
    import torch

    torch.set_num_threads(threads)
    model = SentenceTransformer(str(find_model("all-MiniLM-L6-v2").folder), device="cpu", local_files_only=True)
    model.max_seq_length = 512
    engines: dict[str, Encode] = {
        PEER: lambda texts: np.asarray(model.encode(list(texts), normalize_embeddings=True), dtype=np.float32)
    }
    kinds = [("torch", "fp32"), ("torch", "bf16"), ("openvino", "fp32"), ("openvino", "bf16")]
    for engine, precision in kinds:
        if precision == "bf16" and not cpu_has_bf16():
            continue
        encoder = load_encoder(engine=engine, precision=precision, threads=threads, cache_dir=cache)  # type: ignore[arg-type]
        engines[f"{engine} {precision}"] = encoder.encode
    auto = load_encoder(threads=threads, cache_dir=cache).fingerprint
    return engines, f"{auto.engine} {auto.precision}"


def texts_of(folder: Path, tokens: int, count: int) -> list[str]:
    """`count` texts of just under `tokens` tokens, from all documents in turn."""
    tokenizer: FastTokenizer = find_model("all-MiniLM-L6-v2").tokenizer()
    texts: list[str] = []
    for file in sorted(folder.rglob("*.txt")):
        document = Document(f"rfc:{file.name}", "0" * 64, "rfc", "", file.read_text("utf-8", "replace"))
        full = [c.text for c in chunk_fixed(document, tokenizer, tokens, 0) if c.token_count >= tokens - 8]
        texts += full[:8]
        if len(texts) >= count:
            return texts[:count]
    sys.exit(f"{folder} holds {len(texts)} texts of {tokens} tokens, {count} are wanted: give --documents or --texts")


def measure(engines: dict[str, Encode], texts: list[str], length: int, rounds: int) -> list[dict[str, object]]:
    """One row per engine: chunks per second in the best round, and cosine to the peer's fp32 vectors."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    vectors: dict[str, FloatArray] = {}
    for encode in engines.values():
        encode(texts[:4])
    for _ in range(rounds):
        for name, encode in engines.items():
            begun = time.perf_counter()
            vectors[name] = encode(texts)
            seconds[name].append(time.perf_counter() - begun)
    peer = min(seconds[PEER])
    rows: list[dict[str, object]] = []
    for name in engines:
        cosines = (vectors[name] * vectors[PEER]).sum(axis=1, dtype=np.float64)
        own = min(seconds[name])
        rows.append(
            {
                "tokens": length,
                "engine": name,
                "chunks_per_second": round(len(texts) / own, 1),
                "slowest_round": round(len(texts) / max(seconds[name]), 1),
                "times_peer": round(peer / own, 2),
                "cosine_mean": round(float(cosines.mean()), 6),
                "cosine_min": round(float(cosines.min()), 6),
            }
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())

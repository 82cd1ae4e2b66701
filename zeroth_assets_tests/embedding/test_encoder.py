from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from zeroth_assets.embedding import TOLERANCE, Encoder, ModelFiles, choice, find_model, load_encoder, openvino_engine
from zeroth_assets.embedding.choice import Choice
from zeroth_assets.embedding.encoder import make_batches
from zeroth_assets.embedding.engines import Batch, Engine, FloatArray
from zeroth_assets.embedding.selftest_texts import SELF_TEST_TEXTS
from zeroth_assets.errors import EmbeddingError
from zeroth_assets_tests.embedding.conftest import MakeFolder

TEXTS = [text[:300] for text in SELF_TEST_TEXTS] + ["", " ", "\x00", "\ud800 lone", "漢字", "👩‍👩‍👧", "a" * 5_000]


@cache
def peer(folder: Path) -> FloatArray:
    """The self-test's texts, embedded by sentence-transformers in fp32."""
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    model.max_seq_length = 512
    return np.asarray(model.encode(list(SELF_TEST_TEXTS), normalize_embeddings=True), dtype=np.float32)


@pytest.mark.parametrize("engine", ["torch", "openvino"])
def test_fp32_vectors_are_those_of_sentence_transformers(engine: str, cache_dir: Path) -> None:
    encoder = load_encoder(engine=engine, precision="fp32", cache_dir=cache_dir)  # type: ignore[arg-type]
    assert (encoder.fingerprint.engine, encoder.fingerprint.precision) == (engine, "fp32")
    expected = peer(encoder.files.folder)
    np.testing.assert_allclose(encoder.encode(SELF_TEST_TEXTS), expected, atol=1e-5)


def test_a_local_folder_that_pools_by_its_first_token_gives_what_its_peer_gives(
    model_folder: MakeFolder,
) -> None:
    folder = model_folder(**{"1_Pooling__config": {"embedding_dimension": 384, "pooling_mode": "cls"}})
    encoder = load_encoder(str(folder), engine="torch", precision="fp32")
    assert encoder.fingerprint.pooling == "cls"
    np.testing.assert_allclose(encoder.encode(SELF_TEST_TEXTS), peer(folder), atol=1e-5)


def test_the_engine_that_is_chosen_agrees_with_fp32(encoder: Encoder) -> None:
    assert encoder.choice.cosine_mean is not None
    assert encoder.choice.cosine_mean >= 0.9999
    cosines = (encoder.encode(SELF_TEST_TEXTS) * peer(encoder.files.folder)).sum(axis=1)
    assert cosines.mean() >= 0.9999


def test_vectors_are_unit_float32_in_the_order_of_the_texts(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    backwards = encoder.encode(TEXTS[::-1])[::-1]
    np.testing.assert_allclose(vectors, backwards, atol=TOLERANCE[encoder.fingerprint.precision])
    assert encoder.encode([]).shape == (0, 384)


@pytest.mark.parametrize(("engine", "precision"), [("openvino", "fp32"), ("openvino", "bf16"), ("torch", "fp32")])
def test_batches_of_1_and_of_64_agree_within_the_stated_tolerance(engine: str, precision: str, cache_dir: Path) -> None:
    if precision == "bf16" and not openvino_engine.cpu_has_bf16():
        pytest.skip("this CPU does not compute in bf16")
    encoder = load_encoder(engine=engine, precision=precision, cache_dir=cache_dir)  # type: ignore[arg-type]
    one, many = encoder.encode(TEXTS, batch=1), encoder.encode(TEXTS, batch=64)
    np.testing.assert_allclose(one, many, atol=TOLERANCE[precision])


def test_a_text_that_is_too_long_is_refused_and_not_cut(encoder: Encoder) -> None:
    fits, too_long = "word " * 510, "word " * 511
    assert encoder.encode([fits]).shape == (1, 384)
    with pytest.raises(EmbeddingError, match=r"1 of 2 texts.*513 tokens in text 1"):
        encoder.encode([fits, too_long])


def test_queries_get_the_prefix_of_the_model_and_documents_do_not(model_folder: MakeFolder) -> None:
    folder = model_folder(config_sentence_transformers={"prompts": {"query": "query: "}})
    encoder = load_encoder(str(folder), engine="torch", precision="fp32")
    asked = encoder.encode_queries(["What is a stream?"])
    np.testing.assert_allclose(asked, encoder.encode(["query: What is a stream?"]), atol=1e-5)
    assert not np.allclose(asked, encoder.encode(["What is a stream?"]), atol=1e-2)


@pytest.mark.parametrize("max_tokens", [2, 513])
def test_a_length_that_the_model_cannot_read_is_refused(max_tokens: int) -> None:
    with pytest.raises(EmbeddingError, match="at most 512"):
        load_encoder(max_tokens=max_tokens, engine="torch", precision="fp32")


def test_progress_ends_with_all_texts(encoder: Encoder) -> None:
    seen: list[tuple[int, int]] = []
    encoder.encode(TEXTS, progress=lambda *p: seen.append(p), batch=1)
    assert seen[-1] == (len(TEXTS), len(TEXTS))
    assert seen == sorted(seen)
    assert len(seen) > 1


def test_batches_hold_every_text_once_within_their_budget(encoder: Encoder) -> None:
    encodings = encoder.tokenizer.encode(["word " * n for n in (1, 510, 30, 200, 510, 7)] * 9)
    batches = make_batches(encodings, 4, 512, pad_id=0)
    assert sorted(row for b in batches for row in b.rows) == list(range(54))
    for batch in batches:
        assert batch.ids.size <= 4 * 512
        assert len(batch.rows) <= 64
        for line, row in enumerate(batch.rows):
            assert batch.ids[line][batch.mask[line] == 1].tolist() == encodings[row].ids


class Noisy:
    """An engine whose vectors have nothing to do with their texts."""

    name, precision = "openvino", "bf16"

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        for batch in batches:
            yield batch, np.random.default_rng(0).normal(size=(len(batch.rows), 384)).astype(np.float32)


def test_an_engine_that_disagrees_with_fp32_is_passed_over(
    tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = choice.make_engine

    def make(files: ModelFiles, of: Choice, threads: int | None, cache: Path | None) -> Engine:
        return Noisy() if of.precision == "bf16" else real(files, of, threads, cache_dir)

    monkeypatch.setattr(choice, "make_engine", make)
    monkeypatch.setattr(choice, "cpu_has_bf16", lambda: True)
    encoder = load_encoder(cache_dir=tmp_path)
    assert (encoder.fingerprint.engine, encoder.fingerprint.precision) == ("openvino", "fp32")


def test_the_choice_is_kept_and_a_damaged_record_is_made_anew(
    encoder: Encoder, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(choice, "TorchEngine", None)  # a comparison would need it
        assert load_encoder(cache_dir=cache_dir).choice == encoder.choice
    for record in (cache_dir / "engine").glob("*.json"):
        record.write_text("{")
    assert load_encoder(cache_dir=cache_dir).fingerprint == encoder.fingerprint


def test_a_damaged_converted_model_is_made_anew(tmp_path: Path) -> None:
    first = load_encoder(engine="openvino", precision="fp32", cache_dir=tmp_path)
    vectors = first.encode(TEXTS[:3])
    (weights,) = tmp_path.glob("openvino/*/model.bin")
    weights.write_bytes(weights.read_bytes()[:1000])
    again = load_encoder(engine="openvino", precision="fp32", cache_dir=tmp_path)
    np.testing.assert_array_equal(again.encode(TEXTS[:3]), vectors)
    assert weights.stat().st_size > 1000


def test_an_openvino_engine_has_made_its_first_call_before_threads_make_theirs(cache_dir: Path) -> None:
    """Two first calls at once were seen to wait for each other for ever inside the binding."""
    engine = openvino_engine.OpenVinoEngine(find_model("all-MiniLM-L6-v2"), "fp32", 2, cache_dir)
    requests = [engine._requests.get() for _ in range(engine._requests.qsize())]
    # An output is of no known shape until a call has been made.
    shapes = [tuple(request.get_output_tensor(0).shape) for request in requests]
    assert (1, 2, 384) in shapes


def test_bf16_is_refused_where_the_cpu_would_not_compute_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_engine, "_abilities", lambda core: ["FP32"])
    encoder = load_encoder(engine="openvino", precision="bf16")
    with pytest.raises(EmbeddingError, match="set ZEROTH_PRECISION to fp32 or auto"):
        encoder.encode(["text"])


def test_a_vector_of_zero_or_nan_is_an_error(encoder: Encoder) -> None:
    class Broken(Noisy):
        def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
            for batch in batches:
                yield batch, np.full((len(batch.rows), 384), np.nan, dtype=np.float32)

    broken = Encoder(find_model("all-MiniLM-L6-v2"), Choice("openvino", "bf16"), 512, Broken)
    with pytest.raises(EmbeddingError, match="cannot be normalised"):
        broken.encode(["text"])


def test_a_warm_encoder_needs_no_torch_and_openvino_reports_nothing(encoder: Encoder, cache_dir: Path) -> None:
    assert encoder.encode(["text"]).shape == (1, 384)
    if encoder.fingerprint.engine != "openvino":
        pytest.skip("openvino was not chosen on this machine")
    code = (
        "import sys; from pathlib import Path; from zeroth_assets.embedding import load_encoder\n"
        f"load_encoder(cache_dir=Path({str(cache_dir)!r})).encode(['text'])\n"
        "print('torch' in sys.modules, bool(sys.modules.get('openvino_telemetry')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["False", "False"], done.stderr

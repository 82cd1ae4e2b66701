"""Write the sample corpus anew: `python -m zeroth_assets.sample.generate [FOLDER]`.

What belongs here: files. The same bank gives the same bytes on every machine; a test compares them with those that are
committed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from zeroth_assets.corpus.manifest import Manifest, write_manifest
from zeroth_assets.sample.documents import all_documents
from zeroth_assets.sample.facts import dump_facts, resolve_facts

HERE = Path(__file__).parent


def generate(folder: Path) -> Manifest:
    """Write `documents/`, `corpus_manifest.json` and `facts.json` below `folder`, replacing what is there."""
    documents = all_documents()
    root = folder / "documents"
    shutil.rmtree(root, ignore_errors=True)
    for document in documents:
        assert document.record.mirror_path is not None  # every sample record has one
        path = root / document.record.mirror_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document.raw)
    manifest = write_manifest((d.record for d in documents), folder / "corpus_manifest.json")
    texts = {d.record.document_id: (d.record.sha256, d.raw.decode("utf-8", "replace")) for d in documents}
    (folder / "facts.json").write_bytes(dump_facts(resolve_facts(texts)))
    return manifest


def main(arguments: list[str]) -> int:
    """Write the sample; returns the process exit code."""
    folder = Path(arguments[0]) if arguments else HERE
    folder.mkdir(parents=True, exist_ok=True)
    manifest = generate(folder)
    size = sum(record.bytes for record in manifest)
    sys.stdout.write(f"{len(manifest)} documents, {size:,} bytes, manifest sha256 {manifest.sha256}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

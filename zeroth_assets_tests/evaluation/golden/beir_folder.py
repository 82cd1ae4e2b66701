"""A tiny test collection in BEIR's format, made by rule: 20 documents, 7 queries, graded qrels.

What belongs here: writing it. Each topic has a word of its own and a few documents, one of them longer than a window;
two documents share the words of another topic, so that no ranking is right by itself.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

TOPICS = ("zinc", "comets", "yeast", "glaciers", "moths")
QUERIES = {
    "1": "which documents speak of zinc",
    "2": "how do comets move",
    "3": "what does yeast do to dough",
    "4": "glaciers and zinc",
    "5": "moths near light",
    "PLAIN-6": "words about nothing of the kind",
    "7": "do comets melt glaciers",
}
TEST = {
    "1": {"0": 2, "MED-5": 1, "10": 1, "1": 0},
    "2": {"1": 1, "MED-6": 2, "3": 0},
    "3": {"2": 2, "MED-7": 1, "12": 1},
    "4": {"3": 1, "0": 1, "MED-8": 2, "empty": 1},
    "5": {"4": 1, "14": 2},
    "PLAIN-6": {"19": 1, "18": 1},
}
DEV = {"7": {"1": 1, "3": 1}}


def write_folder(folder: Path) -> Path:
    """Write the collection; one of its 21 documents has no text."""
    (folder / "qrels").mkdir(parents=True)
    chance = random.Random(5)
    common = [f"word{number}" for number in range(60)]
    lines: list[dict[str, object]] = []
    for number in range(20):
        topic = TOPICS[number % 5]
        identifier = f"MED-{number}" if 5 <= number < 10 else str(number)
        sentences = []
        for _ in range(60 if number == 10 else 4):
            words = [topic if chance.random() < 0.12 else chance.choice(common) for _ in range(12)]
            sentences.append(" ".join(words).capitalize() + ".")
        if number in (13, 16):
            sentences.append(
                f"Here {TOPICS[0]} and again {TOPICS[0]} are named in passing, and no more of {TOPICS[0]}."
            )
        title = f"On {topic}, {number}" if number % 3 else ""
        lines.append({"_id": identifier, "title": title, "text": " ".join(sentences), "metadata": {}})
    lines.append({"_id": "empty", "title": "", "text": " "})
    _write(folder / "corpus.jsonl", lines)
    _write(folder / "queries.jsonl", [{"_id": key, "text": text} for key, text in QUERIES.items()])
    for name, judged in (("test", TEST), ("dev", DEV)):
        rows = [
            f"{query}\t{document}\t{grade}\n" for query, all_of in judged.items() for document, grade in all_of.items()
        ]
        (folder / "qrels" / f"{name}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows), "utf-8")
    return folder


def _write(path: Path, items: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")

"""Controls of the duplicate detector: pairs whose answer is known before it runs.

What belongs here: making them, out of a document of the corpus at hand where there is one. They join the corpus as
documents and go through the same index, so a detector that is broken in any step shows it here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from zeroth_assets.corpus.dedup_index import ShingleIndex, estimate_of
from zeroth_assets.corpus.shingles import word_lists

UNRELATED_LIMIT = 0.05
_PREFERRED_SOURCE = "cuad"
_MIN_WORDS = 100
_EXCERPT_WORDS = 200

CONTROL_SCHEMA = pl.Schema(
    {
        "control": pl.String,
        "expected": pl.String,
        "contained": pl.String,
        "container": pl.String,
        "containment": pl.Float64,
        "estimate": pl.Float64,
        "standard_error": pl.Float64,
        "method": pl.String,
        "found": pl.Boolean,
        "passed": pl.Boolean,
    }
)

# Written for this purpose, about nothing that a corpus holds: a lease of a beehive and a walk to a lighthouse.
PACKAGED_CONTRACT = """Lease of Nine Beehives. Oswin Tarrow lends nine cedar hives, painted ochre, to Perpetua Lunn
for one flowering of the lime trees. Perpetua Lunn keeps wasps away with jars of plum vinegar, and counts the queens
aloud each Thursday before the church bell has finished. Honey that drips onto the gravel belongs to the badgers. If
a swarm settles on the weathercock, neither neighbour may fetch it with a ladder longer than seventeen rungs,
because the thatch is old and was insured by a fishmonger. Wax is weighed wet. Oswin Tarrow takes two combs in five,
wrapped in rhubarb leaves, and leaves the brood alone. Should frost come before the ivy blooms, both of them carry
the hives indoors on the same evening, singing if they like, and drink whatever cider the cooper has not sold.
Nothing written here can be read against the bees, who signed with a dance that the schoolmaster drew in the margin.
When the limes are bare the hives go home on a hay cart, upright, their doors closed with moss, and whoever breaks a
frame planes a new one from pear wood by candle mass."""
PACKAGED_HOST = """A walk to the lighthouse takes an hour at low tide and is not advised at any other. From the
cattle grid follow the wall where samphire grows until it stops at a rusted winch. Herring boats were once hauled
here by women whose names are cut into the sleepers. Beyond the winch the path is shingle and walkers sink a little
with every step, which the dogs enjoy. Terns nest on the bar from May and will strike at hats. The keeper's cottage
sells soup on days when the flag is up. Two hundred and six stairs lead to the lamp, and the handrail is cold enough
to be remembered. On clear mornings the mountains of another country stand on the horizon like folded paper. Return
before the bell buoy changes its tune, keeping the chapel on the left shoulder, and shake the sand out of your shoes
for the sake of whoever sweeps the bus."""


@dataclass(frozen=True, slots=True)
class ControlSet:
    """Documents to add to the corpus (name and text), and which document of it is the contract, None if packaged."""

    contract: int | None
    names: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Expectation:
    control: str
    contained: str
    container: str
    related: bool


_EXPECTATIONS = (
    _Expectation("embedded", "contract", "embedded", True),
    _Expectation("reformatted", "contract", "reformatted", True),
    _Expectation("excerpt", "excerpt", "embedded", True),
    _Expectation("unrelated", "unrelated", "contract", False),
    _Expectation("shuffled", "shuffled", "contract", False),
)


def make_controls(sources: Sequence[str], texts: Sequence[str], index: ShingleIndex, seed: int) -> ControlSet:
    """Five documents made from a contract that is drawn by `seed`, and a host for it from another source.

    `embedded`: the host with the contract in its middle. `reformatted`: the contract in capitals with other white
    space, line breaks and spaces around punctuation. `excerpt`: its first 200 words, short enough to be compared in
    full. `unrelated`: a text that no corpus holds. `shuffled`: the contract's own words in another order. Without a
    document long enough in the corpus, contract and host are texts of this package.
    """
    rng = random.Random(seed)  # noqa: S311 (a draw that must be repeatable, not a secret)
    contract = _draw(rng, _eligible(sources, index, lambda s: s == _PREFERRED_SOURCE) or _eligible(sources, index))
    text = PACKAGED_CONTRACT if contract is None else texts[contract]
    own = None if contract is None else sources[contract]
    host = None if own is None else _draw(rng, _eligible(sources, index, lambda s: s != own))
    carrier = PACKAGED_HOST if host is None else texts[host]
    words = word_lists([text]).to_list()[0]
    rng.shuffle(words)
    made = {
        "embedded": _embedded(text, carrier),
        "reformatted": _reformatted(text, rng),
        "excerpt": _excerpt(text),
        "unrelated": PACKAGED_HOST if contract is None else PACKAGED_CONTRACT,
        "shuffled": " ".join(words),
    }
    if contract is None:
        made["contract"] = text
    return ControlSet(contract, tuple(made), tuple(made.values()))


def judge_controls(
    controls: ControlSet, corpus_size: int, labels: Sequence[str], index: ShingleIndex, found: set[tuple[int, int]]
) -> pl.DataFrame:
    """What the detector made of each control, in `CONTROL_SCHEMA`.

    `index` holds the corpus, then the controls; `found` has the pairs that the detector reports, as ordered positions;
    `labels` names the corpus' documents.
    """
    place = {name: corpus_size + i for i, name in enumerate(controls.names)}
    if controls.contract is not None:
        place["contract"] = controls.contract
    rows = []
    for item in _EXPECTATIONS:
        first, second = place[item.contained], place[item.container]
        candidate = index.compare(first, second)
        # Asked of the named text, not of the smaller one: a detector that turns pairs round must not pass.
        value = index.shared(first, second) / max(1, int(index.sizes[first]))
        estimate = estimate_of(candidate.shared, max(1, candidate.kept), int(index.sizes[candidate.smaller]))
        seen = index.ordered(first, second) in found
        passed = (
            (seen and value == 1.0 and estimate.value == 1.0)
            if item.related
            else (not seen and value < UNRELATED_LIMIT and estimate.value < UNRELATED_LIMIT)
        )
        rows.append(
            (
                item.control,
                "1.0, found" if item.related else f"< {UNRELATED_LIMIT}, not found",
                _label(item.contained, place, corpus_size, labels),
                _label(item.container, place, corpus_size, labels),
                value,
                estimate.value,
                estimate.standard_error,
                "sample" if candidate.by_sample else "full",
                seen,
                passed,
            )
        )
    return pl.DataFrame(rows, schema=CONTROL_SCHEMA, orient="row")


def _label(name: str, place: dict[str, int], corpus_size: int, labels: Sequence[str]) -> str:
    return labels[place[name]] if place[name] < corpus_size else f"control: {name}"


def _eligible(sources: Sequence[str], index: ShingleIndex, wanted: Callable[[str], bool] | None = None) -> list[int]:
    """Positions of documents that can serve: of a wanted source, long ones if there are any."""
    usable = [i for i, s in enumerate(sources) if index.sizes[i] >= _MIN_WORDS and (wanted is None or wanted(s))]
    return [i for i in usable if index.is_long[i]] or usable


def _draw(rng: random.Random, positions: list[int]) -> int | None:
    return rng.choice(positions) if positions else None


def _embedded(contract: str, host: str) -> str:
    middle = host.find("\n", len(host) // 2)
    middle = len(host) // 2 if middle < 0 else middle
    return f"{host[:middle]}\n\n{contract}\n\n{host[middle:]}"


def _reformatted(text: str, rng: random.Random) -> str:
    spaced = re.sub(r"([,;:.()\"])", r" \1 ", text)
    pieces = spaced.upper().split()
    gaps = rng.choices((" ", "  ", "\n", "\t", " \r\n   ", "\n\n"), k=len(pieces))
    return "".join(piece + gap for piece, gap in zip(pieces, gaps, strict=True))


def _excerpt(text: str) -> str:
    end = 0
    for count, match in enumerate(re.finditer(r"\S+", text), start=1):
        end = match.end()
        if count == _EXCERPT_WORDS:
            break
    return text[:end]

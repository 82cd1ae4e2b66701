"""How many of a query's words its evidence repeats: what tells a paraphrase from a quotation.

What belongs here: the measure that `drafted.jsonl` records as `lexical_overlap`, and the threshold below which a query
counts as paraphrased.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PARAPHRASED_AT_MOST = 0.34
"""Up to a third of the query's content words may stand in its evidence for it to count as paraphrased."""

_WORD = re.compile(r"[a-z]+|[0-9]+(?:[.,][0-9]+)*")
_SUFFIXES = ("ings", "ing", "edly", "ed", "ies", "ers", "es", "er", "ly", "s", "e", "y")
_COMMON = """
a about above after again against all also although always am among an and another any are as at be because been
before being below between both but by came can cannot come could did do does doing done down during each either
else ever every few for from further give gave given go goes going had has have having he hence her here hers him
his how however i if in instead into is it its itself just least less let lot made make many may me might more most
much must my neither never no none nor not now of off often on once one only or other others otherwise our ours out
over own per put rather s same shall she should since so some such t take than that the their theirs them then
there these they this those though three through thus till to too took two under until up upon us very was we well
went were what whatever when whenever where whereas whether which while who whom whose why will with within without
would yet you your
"""
_STOPWORDS = frozenset(_COMMON.split())


def content_words(text: str) -> frozenset[str]:
    """The words of `text` that carry meaning: lower case, no stopwords, crudely stemmed, numbers as written."""
    words = (
        word for word in _WORD.findall(text.lower()) if word not in _STOPWORDS and (len(word) > 1 or word.isdigit())
    )
    return frozenset(_stem(word) for word in words)


def lexical_overlap(query: str, quotes: Iterable[str]) -> float:
    """Share of the query's content words that occur in any of `quotes`, 0 to 1, rounded to 3 places.

    >>> lexical_overlap("How long do retries go on?", ["Retries continue until the message is transmitted"])
    0.5
    """
    asked = content_words(query)
    if not asked:
        return 0.0
    evidence = frozenset[str]().union(*(content_words(quote) for quote in quotes))
    return round(len(asked & evidence) / len(asked), 3)


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word

"""How a lawyer drafts: the same clause in one firm's words or another's.

What belongs here: small, meaning-preserving substitutions, chosen once per contract. Without them two contracts that
share clauses would share a third of their five-word shingles, far more than contracts of different firms do.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from zeroth_assets.sample.chooser import Chooser

# The first of each row is what the bank says. Capitals matter: "Each party" opens a sentence, "each party" does not.
_HABITS: tuple[tuple[str, ...], ...] = (
    ("shall", "will", "must"),
    ("Neither party may", "Neither party shall", "No party may", "Neither of the parties may"),
    ("Each party", "Every party", "Each of the parties"),
    ("either party", "any party", "one of the parties"),
    ("this Agreement", "the Agreement"),
    ("This Agreement", "The Agreement"),
    ("at least", "not less than", "a minimum of"),
    ("in writing", "by written instrument", "in written form"),
    ("by notice", "upon notice", "by written notice", "on giving notice"),
    ("once a year", "annually", "one time in each year"),
    ("provided that", "on condition that", "so long as"),
    ("except that", "save that", "but"),
    ("for each", "for every", "in respect of each"),
    ("days' notice", "days' prior notice", "days' written notice"),
    ("from the Effective Date", "counted from the Effective Date", "as from the Effective Date"),
    ("at the prices last in force", "at the last prices in force", "at the most recent prices"),
    ("the other", "the other party", "the other side"),
    ("more than", "in excess of", "above"),
    ("days after", "days of", "calendar days after"),
    ("if", "in the event that", "where"),
    ("If", "In the event that", "Where"),
    ("unless", "except where", "save where"),
    ("because", "since", "as"),
)


def drafting_style(chooser: Chooser) -> Callable[[str], str]:
    """A function that rewrites a clause in one firm's habits."""
    chosen = {words[0]: chooser.pick(words) for words in _HABITS}
    longest_first = sorted(chosen, key=len, reverse=True)
    words = "|".join(re.escape(habit) for habit in longest_first)
    # "no more than" and "because of" are phrases of their own; "the other party" is already whole.
    pattern = re.compile(rf"(?<!no )(?<!not )\b({words})\b(?! part| side| not| of)")

    def rewrite(clause: str) -> str:
        return pattern.sub(lambda match: chosen[match[1]], clause)

    return rewrite

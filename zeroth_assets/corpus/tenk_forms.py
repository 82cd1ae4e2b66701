"""What Form 10-K prescribes: its Items, what their titles begin with, and which Part they stand in.

What belongs here: the form, as it was between 1993 and now. How a filing prints it is `tenk_items`' concern.
"""

from __future__ import annotations

import re

ITEM_NUMBERS = (
    "1", "1A", "1B", "1C", "2", "3", "4", "4A", "5", "6", "7", "7A", "8", "9", "9A", "9B", "9C",
    "10", "11", "12", "13", "14", "15", "16",
)  # fmt: skip
ITEM_RANK = {number: rank for rank, number in enumerate(ITEM_NUMBERS)}
PARTS = {"I": 1, "II": 2, "III": 3, "IV": 4}
_RESERVED = r"reserved|omitted|removed|not applicable|none\b"
_TITLES = {
    "1": "business|description of (?:the )?business|general", "1A": "risk factors|certain risk",
    "1B": "unresolved|staff comments", "1C": "cyber", "2": "propert|description of propert",
    "3": "legal|pending legal", "4": "submission|mine|safety|executive officers", "4A": "executive officers|submission",
    "5": "market", "6": "select|consolidated", "7": "management|md&a|discussion", "7A": "quantitative|market risk",
    "8": "financial|consolidated|supplementary", "9": "change|disagreement", "9A": "control|procedure",
    "9B": "other", "9C": "disclosure", "10": "director|executive officer", "11": "executive|compensation",
    "12": "security|beneficial|ownership", "13": "certain|relationship|related|transaction",
    "14": "exhibit|principal|control|account|fees", "15": "exhibit|principal|financial statement|account",
    "16": "form|summary|exhibit|principal",
}  # fmt: skip
ITEM_TITLE = {number: re.compile(rf"(?:{words}|{_RESERVED})", re.IGNORECASE) for number, words in _TITLES.items()}

_NUMBER = re.compile(r"(\d{1,2})(?:\s?\(?([A-C])(?![A-Za-z])\)?)?(?:\s?\((?:T|[ivx]{1,3})\))?", re.IGNORECASE)
_RANGE_WORD = re.compile(r"through|\bto\b|-|–", re.IGNORECASE)


def item_numbers(printed: str) -> tuple[str, ...]:
    """The Items that a printed number names, or () if one of them is no Item of Form 10-K.

    >>> item_numbers("1 and 2"), item_numbers("9A(T)"), item_numbers("10 through 13"), item_numbers("14(a)")
    (('1', '2'), ('9A',), ('10', '11', '12', '13'), ())
    """
    found: list[str] = []
    end = 0
    for match in _NUMBER.finditer(printed):
        number = f"{int(match[1])}{(match[2] or '').upper()}"
        if number not in ITEM_RANK:
            return ()
        if found and _RANGE_WORD.search(printed[end : match.start()]):
            low, high = ITEM_RANK[found[-1]] + 1, ITEM_RANK[number]
            found.extend(n for n in ITEM_NUMBERS[low:high] if n.isdigit())
        found.append(number)
        end = match.end()
    return tuple(dict.fromkeys(found))


def part_of(number: str) -> int:
    """The Part, 1 to 4, in which an Item stands today."""
    rank = ITEM_RANK[number]
    return 1 if rank < ITEM_RANK["5"] else 2 if rank < ITEM_RANK["10"] else 3 if rank < ITEM_RANK["15"] else 4


def may_stand_in(number: str, part: str) -> bool:
    """Whether an Item may stand in a Part ("I" to "IV"): Item 14 has stood in IV (until 2002) and in III since.

    >>> may_stand_in("7A", "II"), may_stand_in("14", "III"), may_stand_in("14", "IV"), may_stand_in("1", "II")
    (True, True, True, False)
    """
    return PARTS[part] == part_of(number) or (number == "14" and part == "IV")

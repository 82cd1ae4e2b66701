"""Naming a contract as a person would: by its kind, its parties, and its date where that is needed.

What belongs here: reading the experts' answers on parties, name and date, and finding for each contract a name that no
other contract of the corpus answers to. Never a file's name or an id.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

_QUOTED: Final = re.compile(r"\([^()]*\)")
_PLACEHOLDER: Final = re.compile(r"\[|\]|_{2,}|●|\*|X{4,}")
_GENERIC: Final = re.compile(
    r"^(?:the )?(?:you|we|us|franchisee|franchisor|affiliate|party|parties|company|each|individually|jointly"
    r"|collectively|sometimes|seller|buyer|distributor|licensee|licensor|consultant|customer|certain|various|its|and|other"
    r"|undersigned)\b|^(?:the )?(?:supplier|vendor|purchaser|contractor|manufacturer|agent|owner|operator|sponsor"
    r"|lender|borrower|provider|client|reseller|licensees?|executive|employee|subcontractor|guarantors?"
    r"|sales agents?|web ?site owners?|software publishers?)$",
    re.IGNORECASE,
)
_ROLES_JOINED: Final = re.compile(
    r"\b(?:collectively|individually|jointly|referred to|affiliates? of)\b", re.IGNORECASE
)
_SUFFIX: Final = re.compile(
    r"(?:,|\s)+(?:inc|incorporated|corp|corporation|llc|l\.l\.c|ltd|limited|l\.p|lp|llp|plc|n\.v|b\.v|gmbh|s\.a|s\.p\.a|ag|ab"
    r"|co|n\.a|pte|pty|plc)\b[.,]*\s*$",
    re.IGNORECASE,
)
_DBA: Final = re.compile(
    r",?\s+(?:d/b/a|f/k/a|formerly known as|a/k/a|and its affiliates|a subsidiary of|dba)\b.*$", re.IGNORECASE
)
_WORD: Final = re.compile(r"[^\W_]+")
_KIND_WORD: Final = re.compile(r"\b(?:agreement|contract|addendum|amendment|endorsement|lease|license)\b")
_NO_KIND: Final = re.compile(rf"{_PLACEHOLDER.pattern}|\benters? into\b", re.IGNORECASE)
_SMALL: Final = frozenset({"and", "of", "the", "for", "in", "to", "on", "by", "with", "de", "a"})
_SHORT_WORDS: Final = frozenset(
    {"AIR", "BAY", "BIG", "CAR", "DAY", "GAS", "ICE", "JIM", "LAW", "LEE", "LOS", "NET", "NEW", "OIL", "ONE", "RED"}
    | {"SAN", "SEA", "SKY", "SUN", "THE", "TOM", "TOP", "TWO"}
)
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MAX_KIND_WORDS = 8
_MAX_PARTIES = 4


@dataclass(frozen=True, slots=True)
class Identity:
    """What a contract can be named by. `parties` are spoken names; `kind` is lower case; `signed` may be unknown."""

    document_id: str
    parties: tuple[str, ...]
    kind: str
    signed: date | None

    @property
    def keys(self) -> tuple[frozenset[str], ...]:
        """Each party's words, for comparison."""
        return tuple(_words(party) for party in self.parties)


@dataclass(frozen=True, slots=True)
class Name:
    """A phrase that singles out one contract, such as "the supply agreement between Alpha and Beta Foods"."""

    document_id: str
    phrase: str
    parties: tuple[str, ...]
    dated: bool


def identity_of(document_id: str, contract_type: str, answers: Mapping[str, str], kinds: Mapping[str, str]) -> Identity:
    """A contract's identity from the experts' answers; `kinds` says what a contract type is called."""
    parties = tuple(party_names(answers.get("Parties", "")))
    kind = spoken_kind(answers.get("Document Name", ""), parties) or kinds[contract_type]
    return Identity(document_id, parties, kind, date_of(answers.get("Agreement Date", "")))


def party_names(answer: str) -> list[str]:
    """Names in an answer such as 'A, Inc. ("Company"); B LLC ("B")', without roles and without legal form.

    >>> party_names('BIRCH FIRST GLOBAL INVESTMENTS INC. ("Company"); Cisco Systems, Inc., ("Cisco")("Parties")')
    ['Birch First Global Investments', 'Cisco Systems']
    """
    names: list[str] = []
    bare = answer
    while _QUOTED.search(bare):
        bare = _QUOTED.sub(" ", bare)
    for piece in bare.split(";"):
        name = " ".join(piece.replace("\xa0", " ").strip(' ,.()"“”').split())
        if len(name) < 3 or _PLACEHOLDER.search(name) or _GENERIC.match(name) or _ROLES_JOINED.search(name):
            continue
        if any(_words(one) <= _words(name) for one in names):
            continue
        spoken = spoken_name(name)
        if _words(spoken) and len(spoken.split()) <= 9:
            names.append(spoken)
    return names


def spoken_name(name: str) -> str:
    """A company's name without its legal form, in ordinary case.

    >>> spoken_name("MOUNT KNOWLEDGE HOLDINGS INC."), spoken_name("AT&T Corp."), spoken_name("IBM")
    ('Mount Knowledge Holdings', 'AT&T', 'IBM')
    """
    name = _DBA.sub("", name)
    shorter = _SUFFIX.sub("", name).rstrip(" ,.&")
    while shorter != name and len(shorter) > 3:
        name, shorter = shorter, _SUFFIX.sub("", shorter).rstrip(" ,.&")
    name = shorter if len(shorter) > 2 else name
    letters = [c for c in name if c.isalpha()]
    if len(name) > 5 and letters and all(c.isupper() for c in letters):
        name = " ".join(_ordinary(word, first=i == 0) for i, word in enumerate(name.split()))
    return name


def _ordinary(word: str, *, first: bool) -> str:
    if word.lower() in _SMALL and not first:
        return word.lower()
    initials = len(word) <= 3 and word not in _SHORT_WORDS
    if initials or "." in word or "&" in word or not re.search("[AEIOUY]", word):
        return word
    return re.sub(r"[^\W\d_]+", lambda m: m[0].capitalize(), word)


def spoken_kind(name: str, parties: Iterable[str]) -> str | None:
    """A document's name in lower case, as a kind of contract; None where it is none that can be spoken.

    Words of the parties are taken out, and what is long or names no kind is refused.

    >>> spoken_kind("JACKSONVILLE JAGUARS SPONSORSHIP AGREEMENT", ["Jacksonville Jaguars"])
    'sponsorship agreement'
    """
    theirs = frozenset[str]().union(*(_words(party) for party in parties)) - _SMALL
    plain = re.sub(r"^\s*(?:form of|exhibit\s+\S+)\s+", "", name, flags=re.IGNORECASE)
    words = [w for w in re.sub(r"[,;:()\[\]\"“”'’‘]", " ", plain).split() if not (_words(w) & theirs)]
    kind = " ".join(words).lower().strip(" .-–")
    if not _KIND_WORD.search(kind) or len(words) > _MAX_KIND_WORDS or _NO_KIND.search(name):
        return None
    words = [w for w in kind.split() if len(w) > 1 or not w.isalpha() or w == "a"]
    kind = " ".join(words)
    return kind if kind.split()[-1] not in _SMALL and kind.split()[0] not in {"and", "of", "to"} else None


def date_of(answer: str) -> date | None:
    """The date of an answer such as "5/8/14"; None where a part of it is blank.

    >>> date_of("11/28/01"), date_of("04/30/[]"), date_of("9/2/98").year
    (datetime.date(2001, 11, 28), None, 1998)
    """
    match = re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{2}|\d{4})", answer.strip())
    if match is None:
        return None
    month, day, year = (int(part) for part in match.groups())
    if year < 100:
        year += 1900 if year >= 50 else 2000
    try:
        return date(year, month, day)
    except ValueError:
        return None


def spoken_date(day: date) -> str:
    """A date as Americans write it, whatever the machine's locale."""
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"


class Names:
    """Finds names among the contracts of one corpus.

    `alike` maps a contract to those that hold the same text: they need not be told apart, since they share answers.
    """

    def __init__(self, identities: Iterable[Identity], alike: Mapping[str, frozenset[str]]) -> None:
        self._all = tuple(identities)
        self._by_id = {one.document_id: one for one in self._all}
        self._alike = alike
        self._named: dict[tuple[str, frozenset[str]], Name | None] = {}
        self._keys = [(one, one.keys, _kind_words(one.kind)) for one in self._all]

    def name(self, document_id: str, *, hide: frozenset[str] = frozenset()) -> Name | None:
        """The shortest name that singles out the contract; None if there is none.

        `hide` keeps out what the question asks for: `date`, `kind`, or `parties` (all but the first).
        """
        if (document_id, hide) not in self._named:
            self._named[document_id, hide] = self._found(self._by_id[document_id], hide)
        return self._named[document_id, hide]

    def _found(self, one: Identity, hide: frozenset[str]) -> Name | None:
        for parties, kind, signed in self._candidates(one, hide) if one.parties else ():
            if not self._others(one, parties, kind, signed):
                return Name(one.document_id, _phrase(parties, kind, signed), parties, signed is not None)
        return None

    @staticmethod
    def _candidates(one: Identity, hide: frozenset[str]) -> Iterator[tuple[tuple[str, ...], str | None, date | None]]:
        kind = None if "kind" in hide else one.kind
        dates = [None] if "date" in hide or one.signed is None else [None, one.signed]
        if "parties" in hide:
            counts = [1]
        else:
            counts = list(range(min(2, len(one.parties)), min(_MAX_PARTIES, len(one.parties)) + 1))
        for signed, count in itertools.product(dates, counts):
            yield one.parties[:count], kind, signed

    def _others(self, one: Identity, parties: tuple[str, ...], kind: str | None, signed: date | None) -> bool:
        """Whether another contract answers to the name. Unknown dates and looser names of a kind count as answering."""
        wanted = [_words(party) for party in parties]
        sort = None if kind is None else _kind_words(kind)
        alike = self._alike.get(one.document_id, frozenset())
        for other, theirs, theirs_sort in self._keys:
            if other.document_id == one.document_id or other.document_id in alike:
                continue
            if signed is not None and other.signed is not None and other.signed != signed:
                continue
            if sort is not None and not (sort <= theirs_sort or theirs_sort <= sort):
                continue
            if all(any(w <= t or t <= w for t in theirs) for w in wanted):
                return True
        return False


def _kind_words(kind: str) -> frozenset[str]:
    return _words(kind) - _SMALL


def _phrase(parties: tuple[str, ...], kind: str | None, signed: date | None) -> str:
    thing = kind or "agreement"
    if len(parties) == 1:
        phrase = f"the {thing} of {parties[0]}"
    else:
        phrase = f"the {thing} between {', '.join(parties[:-1])} and {parties[-1]}"
    return phrase if signed is None else f"{phrase} dated {spoken_date(signed)}"


def _words(text: str) -> frozenset[str]:
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return frozenset(word.casefold() for word in _WORD.findall(plain))

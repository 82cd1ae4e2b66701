"""What a query's text may be, before any stage sees it.

What belongs here: the limits, and the replacement of characters that neither PostgreSQL nor UTF-8 can hold. The text
is data throughout: no stage builds SQL, a tsquery or a pattern from it.
"""

from __future__ import annotations

import re

from zeroth_assets.errors import QueryError
from zeroth_assets.search.bm25 import MAX_QUERY

_UNHOLDABLE = re.compile("[\x00\ud800-\udfff]")


def checked_query(text: str) -> str:
    """`text` with NUL and lone surrogates as U+FFFD, one for one, as texts of documents have them.

    >>> checked_query("idle\\x00timeout")
    'idle\\ufffdtimeout'

    Raises:
        QueryError: it is not text, holds nothing but white space, or is too long.
    """
    if not isinstance(text, str):
        raise QueryError("The query is not text", expected="a str", found=type(text).__name__)
    if len(text) > MAX_QUERY:
        raise QueryError(
            "The query is too long",
            expected=f"at most {MAX_QUERY:,} characters",
            found=f"{len(text):,}",
            remedy="ask for less at once",
        )
    if not text.strip():
        raise QueryError("The query is empty", expected="words to search for", found=f"{len(text)} blank characters")
    return _UNHOLDABLE.sub("\ufffd", text)


def checked_k(k: int) -> int:
    """`k`, if so many results can be asked for.

    Raises:
        QueryError: it is no whole number from 1 to 1,000.
    """
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= 1_000:
        raise QueryError(
            "The number of results is impossible", expected="a whole number from 1 to 1,000", found=repr(k)
        )
    return k

"""Whether an answer is a judgment: checked after parsing, since constrained decoding promises structure, not sense.

What belongs here: strict JSON, and the rules that an answer must keep. An error names labels and kinds, never what the
model wrote, since that may quote a tenant's text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from zeroth_assets.evaluation.judging.model import GRADES, AnswerError, FailureKind

_LONGEST_ANSWER = 100_000
_LONGEST_NUMBER = 20


class _DuplicateKeyError(ValueError):
    pass


def strict_json(text: str) -> Any:
    """Parse JSON as RFC 8259 has it: no NaN, no Infinity, no name twice in an object.

    Raises:
        ValueError: anything else.
    """
    return json.loads(text, parse_constant=_refuse_constant, parse_int=_bounded_int, object_pairs_hook=_unique_keys)


def parse_grades(text: str, names: Sequence[str]) -> dict[str, int]:
    """The grade of every label of `names`.

    >>> parse_grades('{"P1": 0, "P2": 3}', ["P1", "P2"])
    {'P1': 0, 'P2': 3}

    Raises:
        AnswerError: not JSON ("not json"), a label twice ("duplicate"), another shape, unknown labels or grades that
            are no integers ("schema"), labels without a grade ("incomplete"), grades outside 0 to 3 ("bounds").
    """
    if len(text) > _LONGEST_ANSWER:
        _refuse("not json", f"at most {_LONGEST_ANSWER:,} characters", f"{len(text):,}")
    try:
        answer = strict_json(text)
    except _DuplicateKeyError:
        _refuse("duplicate", "each passage once", "a passage named twice")
    except (ValueError, RecursionError):
        _refuse("not json", "one JSON object", "text that is not strict JSON")
    if not isinstance(answer, dict):
        _refuse("schema", "a JSON object", type(answer).__name__)
    strangers = len(answer.keys() - set(names))
    if strangers:
        _refuse("schema", f"the passages {names[0]} to {names[-1]} alone", f"{strangers} other names")
    missing = [name for name in names if name not in answer]
    if missing:
        _refuse("incomplete", f"a grade for each of {len(names)} passages", "none for " + ", ".join(missing))
    # A bool is an int to Python, and 2.0 an integer to JSON Schema: neither is a grade that was asked for.
    wrong = [name for name in names if type(answer[name]) is not int]
    if wrong:
        _refuse("schema", "integers", "others for " + ", ".join(wrong))
    off = [name for name in names if answer[name] not in GRADES]
    if off:
        _refuse("bounds", f"grades from {GRADES[0]} to {GRADES[-1]}", "others for " + ", ".join(off))
    return {name: answer[name] for name in names}


def _refuse(kind: FailureKind, expected: str, found: str) -> NoReturn:
    raise AnswerError("The judge's answer is no judgment", expected=expected, found=found, kind=kind) from None


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("not a JSON number")


def _bounded_int(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("an absurd number")
    return int(digits)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise _DuplicateKeyError
    return keys

"""The texts that an engine is compared to torch fp32 on.

What belongs here: 16 texts of the kinds and lengths that the corpus holds, from one line to a full window.
"""

from __future__ import annotations

_SHORT = (
    "What is the effective date of the agreement?",
    "4.2. Connection Migration",
    "Item 7. Management's Discussion and Analysis of Financial Condition and Results of Operations",
    "| 2019 | 260,174 | 55,256 | 21.2% |",
)
_PROSE = (
    (
        "An endpoint MUST NOT send data on a stream without ensuring that it is within the flow control limits set by "
        "its peer. A receiver that gets more than it has allowed closes the connection with an error of type "
        "FLOW_CONTROL_ERROR. "
    ),
    (
        "The Licensee shall indemnify, defend and hold harmless the Licensor, its affiliates and their officers from "
        "any claim, damage or cost, including reasonable attorneys' fees, that arises out of the use of the Licensed "
        "Marks otherwise than as this Agreement permits. "
    ),
    (
        "Net sales increased 6% or $14.2 billion during the year, driven by services and by the effect of a "
        "fifty-third week. Gross margin percentage fell because of component costs and of the strength of the U.S. "
        "dollar. "
    ),
    (
        "   0                   1\n   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5\n  +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+\n  |  Type  "
        "|  Length  |  Value ...\n  +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+\n"
    ),
)

SELF_TEST_TEXTS: tuple[str, ...] = (
    *_SHORT,
    *_PROSE,
    *((_PROSE[n] * 2).strip() for n in range(4)),
    *((_PROSE[n] * times + _PROSE[n + 1] * 2).strip() for n, times in ((0, 3), (1, 4), (2, 4))),
    " ".join(_PROSE[:3] * 2),
)

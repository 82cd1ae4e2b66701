"""How a retriever's parameters came about, as far as the record of what was read tells.

What belongs here: the verdict on one configuration. The record is `ledger`'s; whoever tunes takes the queries from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from zeroth_assets.evaluation.golden.ledger import Entry, SplitLedger, parameters_digest
from zeroth_assets.evaluation.golden.model import GoldenError

State = Literal["untuned", "calibration", "unrecorded", "refused"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """`untuned`: defaults that were there before any query. `calibration`: chosen with that split alone.

    `unrecorded`: other than the defaults, and nobody recorded why. `refused`: chosen with test queries, or after they
    were read and without a record: figures on the test split would flatter it.
    """

    state: State
    wording: str
    read: int


def provenance_of(
    entries: Iterable[Entry],
    queries: pl.DataFrame,
    *,
    retriever: str,
    parameters: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> Provenance:
    """What the record (oldest entry first) tells of these parameters of a retriever.

    `queries` has query_id, group and split. The `defaults` count as declared before anything was read.
    """
    declared = Entry("untuned", retriever, "", parameters=parameters_digest(defaults))
    ledger = SplitLedger([declared, *entries])
    read = {
        q for entry in ledger.entries if entry.act == "read" and entry.retriever == retriever for q in entry.query_ids
    }
    try:
        known = ledger.check(queries, retriever=retriever, parameters=parameters)
    except GoldenError as error:
        tests = read & set(queries.filter(pl.col("split") == "test")["query_id"])
        recorded = any(
            e.parameters == parameters_digest(parameters) and e.retriever == retriever for e in ledger.entries
        )
        if recorded or tests:
            why = (
                error.what
                if recorded
                else f"{len(tests)} test queries were read for {retriever}, and no choice recorded"
            )
            return Provenance("refused", f"{why}; {error.found}", len(read))
        return Provenance("unrecorded", f"other than the defaults; {error.remedy}", len(read))
    if known.untuned:
        return Provenance("untuned", "declared before any query was read for it", known.read)
    return Provenance("calibration", f"chosen with {known.read} queries of the calibration split", known.read)

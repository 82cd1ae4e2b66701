"""What each way to the nearest chunks costs, and which way is the cheaper for a principal.

What belongs here: measured points, the model fitted to them, and their JSON form. No database; measuring is
`path_costs`'s. Milliseconds throughout.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import MeasurementError

FORMAT = 1
# Without a measurement: a scan of this many rows takes a few milliseconds anywhere, and it is right.
UNMEASURED_EXACT_ROWS = 5_000
UNMEASURED_EF_SEARCH = 200
# Up to here a walk at ef_search 100 looks at most of the rows anyway, and what is measured between the two is noise.
LEAST_EXACT_ROWS = 500
# An index has to win by this much: near the crossover nothing is gained by being approximate.
_MARGIN = 0.9


@dataclass(frozen=True, slots=True)
class SizePoint:
    """One tenant: the time of an exact scan of its partition, and of its HNSW at an ef_search that reached the target
    recall (`recall` is what it reached; None throughout where the tenant has no index)."""

    rows: int
    exact_ms: float
    hnsw_ms: float | None
    ef_search: int | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class WidthPoint:
    """Several tenants at once: over their partitions, and over the shared index (None where there is none)."""

    tenants: int
    rows: int
    share: float
    partitions_ms: float
    shared_ms: float | None
    shared_ef_search: int | None
    shared_recall: float | None


@dataclass(frozen=True, slots=True)
class PathCosts:
    """Measured costs with what they hold for. `sizes` and `widths` ascend in rows and in tenants.

    `target_recall` is what an index had to reach, against the exact scan, before its time counted.
    """

    chunk_set: str
    dimension: int
    fingerprint_digest: str
    k: int
    queries: int
    target_recall: float
    sizes: tuple[SizePoint, ...]
    widths: tuple[WidthPoint, ...]
    measured_at: str
    server: str

    def holds_for(self, chunk_set: str, dimension: int, fingerprint_digest: str | None) -> bool:
        """Whether these are costs of this index."""
        mine = (self.chunk_set, self.dimension)
        return mine == (chunk_set, dimension) and fingerprint_digest in (None, self.fingerprint_digest)

    @property
    def rows(self) -> int:
        """Of all tenants together when it was measured; no querying role can read that now."""
        return max((p.rows for p in self.widths), default=0)

    @property
    def has_shared(self) -> bool:
        """Whether any point of the shared index counts."""
        return bool(self._sound_widths())

    def share(self, rows: int) -> float:
        """Of all rows."""
        return min(rows / self.rows, 1.0) if self.rows else 1.0

    def exact_ms(self, rows: int) -> float:
        """Exact scan of one partition: a line through the measured points."""
        offset, slope = _exact_line(self)
        return offset + slope * rows

    def hnsw_ms(self, rows: int) -> float | None:
        """HNSW of one partition, interpolated over log(rows); beyond the largest measured tenant, that tenant's."""
        points = [(p.rows, p.hnsw_ms) for p in self.sizes if p.hnsw_ms is not None and self._reached(p.recall)]
        if not points:
            return None
        return float(np.interp(math.log(max(rows, 1)), [math.log(r) for r, _ in points], [ms for _, ms in points]))

    def ef_search(self, rows: int) -> int:
        """The ef_search that reached the target for the measured tenants up to the first at least this large."""
        return _least([(p.rows, p.ef_search) for p in self.sizes if self._reached(p.recall)], rows)

    @property
    def exact_rows(self) -> int:
        """Up to this many rows an exact scan is the cheaper for one tenant. Where the model says so for every size that
        was measured, the largest of them, or where both lines meet beyond it (`exact_rows_extrapolated`)."""
        return _crossover(self)[0]

    @property
    def exact_rows_extrapolated(self) -> bool:
        """Whether no measured tenant was large enough for its index to win."""
        return _crossover(self)[1]

    def partitions_ms(self, exact_rows: Sequence[int], hnsw_rows: Sequence[int]) -> float:
        """Over partitions: the scans, the index walks, and what each further partition adds to planning."""
        offset, slope = _exact_line(self)
        walks = [self.hnsw_ms(rows) for rows in hnsw_rows]
        walked = sum(max(ms - offset, 0.0) for ms in walks if ms is not None)
        further = max(len(exact_rows) + len(hnsw_rows) - 1, 0)
        return offset + slope * sum(exact_rows) + walked + _per_partition(self) * further

    def shared_ms(self, share: float) -> float | None:
        """Over the shared index, by the share of its rows that the principal may see; None below the least share at
        which it reached the target."""
        points = self._sound_widths()
        if not points or share < points[0].share * (1 - 1e-9):
            return None
        times = [p.shared_ms for p in points if p.shared_ms is not None]
        return float(np.interp(math.log(share), [math.log(p.share) for p in points], times))

    def shared_ef_search(self, share: float) -> int:
        """The ef_search of the measured point with the next smaller share: a narrower principal needs no less."""
        below = [p.shared_ef_search for p in self._sound_widths() if p.share <= share * (1 + 1e-9)]
        return below[-1] if below and below[-1] is not None else UNMEASURED_EF_SEARCH

    @property
    def shared_tenants(self) -> int | None:
        """The least measured number of tenants from which on the shared index was the faster; None if it never was."""
        won: int | None = None
        for point in reversed(self.widths):
            if point.shared_ms is None or not self._reached(point.shared_recall):
                break
            if point.shared_ms >= point.partitions_ms:
                break
            won = point.tenants
        return won

    def to_json(self) -> str:
        """As `from_json` reads it; the thresholds are written too, for people, and worked out anew when read."""
        found = {
            "exact_rows": self.exact_rows,
            "exact_rows_extrapolated": self.exact_rows_extrapolated,
            "shared_tenants": self.shared_tenants,
        }
        return json.dumps({"format": FORMAT, **asdict(self), "thresholds": found}, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Costs as `to_json` wrote them.

        Raises:
            MeasurementError: not such a text, or of another format.
        """
        try:
            payload: dict[str, Any] = json.loads(text)
            if payload.pop("format") != FORMAT:
                raise ValueError("another format")
            payload.pop("thresholds")
            payload["sizes"] = tuple(SizePoint(**point) for point in payload["sizes"])
            payload["widths"] = tuple(WidthPoint(**point) for point in payload["widths"])
            return cls(**payload)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MeasurementError(
                "The stored path costs cannot be read",
                expected=f"JSON of format {FORMAT}, as `PathCosts.to_json` writes it",
                found=f"{type(error).__name__}: {error}",
                remedy="measure the path costs again",
            ) from error

    def _sound_widths(self) -> list[WidthPoint]:
        """Points of the shared index by share, down to the first that missed the target: none narrower is trusted."""
        sound: list[WidthPoint] = []
        for point in sorted(self.widths, key=lambda p: -p.share):
            if point.shared_ms is None or not self._reached(point.shared_recall):
                break
            sound.append(point)
        return sound[::-1]

    def _reached(self, recall: float | None) -> bool:
        return recall is not None and recall >= self.target_recall


def stored_costs(store: ArtefactStore, chunk_set: str) -> PathCosts | None:
    """The costs that were measured of a chunk set's indexes, `path_costs_<chunk set>`; None where there are none."""
    sidecar = store.sidecar(f"path_costs_{chunk_set}")
    costs = None if sidecar is None else sidecar.details.get("costs")
    return None if costs is None else PathCosts.from_json(json.dumps(costs))


def check_points(sizes: Sequence[SizePoint], widths: Sequence[WidthPoint]) -> None:
    """Refuse points that no model can stand on.

    Raises:
        MeasurementError: no sizes, or an order that does not ascend.
    """
    rising = all(a.rows <= b.rows for a, b in itertools.pairwise(sizes)) and all(
        a.tenants <= b.tenants for a, b in itertools.pairwise(widths)
    )
    if not sizes or not rising:
        raise MeasurementError(
            "The measured points cannot be used",
            expected="at least one tenant, sizes and widths ascending",
            found=f"{len(sizes)} sizes, {len(widths)} widths",
        )


def _least(points: Sequence[tuple[int, int | None]], rows: int) -> int:
    """The largest ef_search of all measured tenants up to the first with at least `rows` rows."""
    ordered = sorted((size, ef) for size, ef in points if ef is not None)
    taken: list[int] = []
    for size, ef in ordered:
        taken.append(ef)
        if size >= rows:
            break
    return max(taken, default=UNMEASURED_EF_SEARCH)


def as_mapping(costs: PathCosts) -> Mapping[str, Any]:
    """The costs as plain values, for metadata."""
    payload: Mapping[str, Any] = json.loads(costs.to_json())
    return payload


# Asked for by every query; costs are frozen, so each is worked out once.
@functools.lru_cache(maxsize=64)
def _exact_line(costs: PathCosts) -> tuple[float, float]:
    """Offset and slope, neither negative, by least squares relative to each time: the short ones count too."""
    rows = np.array([p.rows for p in costs.sizes], dtype=np.float64)
    times = np.array([p.exact_ms for p in costs.sizes], dtype=np.float64)
    if len(rows) < 2 or np.ptp(rows) == 0:
        return 0.0, float(np.mean(times / np.maximum(rows, 1)))
    design = np.column_stack([np.ones_like(rows), rows]) / times[:, None]
    offset, slope = np.linalg.lstsq(design, np.ones_like(times), rcond=None)[0]
    if slope <= 0:
        return float(times.mean()), 0.0
    if offset < 0:
        return 0.0, float(np.mean(times / rows))
    return float(offset), float(slope)


@functools.lru_cache(maxsize=64)
def _per_partition(costs: PathCosts) -> float:
    offset, slope = _exact_line(costs)
    residuals = [(p.partitions_ms - offset - slope * p.rows) / (p.tenants - 1) for p in costs.widths if p.tenants > 1]
    return max(float(np.median(residuals)), 0.0) if residuals else 0.0


@functools.lru_cache(maxsize=64)
def _crossover(costs: PathCosts) -> tuple[int, bool]:
    largest = max(p.rows for p in costs.sizes)
    ladder = np.unique(np.geomspace(1, largest, 400).astype(np.int64))
    wins = [
        (ms := costs.hnsw_ms(int(rows))) is not None and ms < _MARGIN * costs.exact_ms(int(rows)) for rows in ladder
    ]
    if wins[-1]:
        # From the last size at which the scan won.
        last = max((i for i, won in enumerate(wins) if not won), default=-1)
        return max(int(ladder[last]) if last >= 0 else 0, LEAST_EXACT_ROWS), False
    offset, slope = _exact_line(costs)
    ceiling = costs.hnsw_ms(largest)
    if ceiling is None or slope <= 0:
        return max(largest, UNMEASURED_EXACT_ROWS), True
    return max(largest, LEAST_EXACT_ROWS, math.ceil((ceiling / _MARGIN - offset) / slope)), True

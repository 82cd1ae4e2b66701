"""A trace for a terminal.

What belongs here: tables and lines of rich, and nothing that is not in the trace.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zeroth_assets.search.model import Shortfall, counted
from zeroth_assets.search.passages import Key
from zeroth_assets.search.trace import Trace


def render_trace(trace: Trace, *, rows: int = 20) -> RenderableType:
    """The trace, readable: stages, the first `rows` of the fusion with their arithmetic, what was dropped and why."""
    parts: list[RenderableType] = [_stages(trace)]
    if trace.fused:
        parts.append(_fusion(trace, rows))
    parts.extend(Text(line) for line in _lines(trace))
    return Group(*parts)


def _stages(trace: Trace) -> Table:
    table = Table(
        title=f"{trace.chunk_set} as {escape(trace.principal)}, {counted(trace.tenants, 'tenant')}",
        title_justify="left",
    )
    for name in ("stage", "found", "ms", "plan", "remarks"):
        table.add_column(name, justify="right" if name in ("found", "ms") else "left", overflow="fold")
    known = {stage.stage: stage for stage in trace.stages}
    for name, seconds in trace.seconds.items():
        stage = known.get(name)
        remarks = [] if stage is None else [stage.degraded or "", shortfall_line(stage.shortfall)]
        table.add_row(
            name,
            "" if stage is None else str(len(stage.candidates)),
            f"{seconds * 1e3:.1f}",
            escape(stage.plan or "") if stage is not None else "",
            escape("; ".join(filter(None, remarks))),
        )
    return table


def _fusion(trace: Trace, rows: int) -> Table:
    final = {key: rank for rank, key in enumerate(trace.order, 1)}
    scores = trace.rerank.scores if trace.rerank is not None else {}
    table = Table(title="fusion", title_justify="left")
    columns = ["fused", "tenant", "chunk", "arithmetic", *(["reranked"] if trace.rerank is not None else []), "final"]
    for name in columns:
        table.add_column(name, justify="left" if name == "arithmetic" else "right")
    for fused in trace.fused[:rows]:
        score, place = scores.get(fused.id), final.get(fused.id)
        table.add_row(
            str(fused.rank),
            Text(trace.tenant_keys.get(fused.id[0], str(fused.id[0]))),
            str(fused.id[1]),
            escape(fused.explain(trace.rrf_k)),
            *([] if trace.rerank is None else ["" if score is None else f"{score:.4f}"]),
            "" if place is None else str(place),
        )
    return table


def _lines(trace: Trace) -> list[str]:
    lines = [
        f"{counted(count, 'candidate')} dropped: {reason.replace('_', ' ')}" for reason, count in trace.dropped.items()
    ]
    if trace.deferred:
        lines.append(f"put behind, since they overlap one before them: {_chunks(trace.deferred)}")
    if trace.moved:
        lines.append(f"put behind their successors: {_chunks(trace.moved)}")
    if trace.rerank is not None and trace.rerank.truncated:
        lines.append(f"the reranker read {counted(trace.rerank.truncated, 'input')} only in part")
    lines += [f"degraded: {reason}" for reason in trace.degradations]
    if trace.shortfall is not None:
        lines.append(shortfall_line(trace.shortfall))
    if trace.abstention is not None:
        about = trace.abstention
        compared = (
            f" ({about.score:.4f} < {about.threshold:.4f})" if about.score is not None and about.threshold else ""
        )
        lines.append(f"abstained, {about.reason}: {about.detail}{compared}")
    lines += [f"{name}: {value}" for name, value in trace.fingerprints.items()]
    return lines


def shortfall_line(shortfall: Shortfall | None) -> str:
    """How short, why, and whether anything was missed; empty where nothing is short."""
    if shortfall is None:
        return ""
    certainty = "complete" if shortfall.complete else "there may be more"
    return f"{shortfall.returned} of {shortfall.asked}: {shortfall.reason.replace('_', ' ')} ({certainty})"


def _chunks(keys: tuple[Key, ...]) -> str:
    return ", ".join(str(chunk_id) for _, chunk_id in keys)

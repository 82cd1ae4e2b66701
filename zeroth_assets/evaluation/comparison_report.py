"""Comparisons as a person reads them.

What belongs here: the table of `comparisons` as Markdown.
"""

from __future__ import annotations

import polars as pl


def comparisons_markdown(frame: pl.DataFrame) -> str:
    """The table of `compare_arms` as Markdown: what was claimed, then what was only looked at."""
    head = "| comparison | metric | n | difference | 95 % interval | p | p (Holm) | detectable | what it says |"
    if frame.height and frame["confidence"][0] != 0.95:
        head = head.replace("95 %", f"{100 * frame['confidence'][0]:g} %")
    lines = [head, "| " + "--- | " * 9]
    for row in frame.iter_rows(named=True):
        interval = "none" if row["ci_low"] is None else f"[{row['ci_low']:+.3f}, {row['ci_high']:+.3f}]"
        cells = [
            f"{row['arm_a']} - {row['arm_b']}" + ("" if row["primary"] else " (exploratory)"),
            row["metric"],
            str(row["n"]),
            f"{row['difference']:+.3f}",
            interval,
            f"{row['p']:.4f}",
            "" if row["p_holm"] is None else f"{row['p_holm']:.4f}",
            "" if row["mde"] is None else f"{row['mde']:.3f}",
            row["wording"] + (f" ({row['warning']})" if row["warning"] else ""),
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(line.rstrip() for line in lines) + "\n"

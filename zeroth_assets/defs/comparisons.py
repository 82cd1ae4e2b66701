"""What the arms' runs say side by side: what belongs here is `metric_comparisons` (paired, Holm-corrected differences)."""

import dagster as dg

assets: list[dg.AssetsDefinition] = []

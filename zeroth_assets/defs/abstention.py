"""Abstention: what belongs here is `abstention_metrics` (thresholds from the calibration split, figures on the test split)."""

import dagster as dg

assets: list[dg.AssetsDefinition] = []

"""Latency: what belongs here is `latency_metrics` (p50, p95 and p99 of each stage of each arm)."""

import dagster as dg

assets: list[dg.AssetsDefinition] = []

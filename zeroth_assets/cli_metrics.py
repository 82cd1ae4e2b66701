"""`zeroth metrics`: what belongs here is printing and exporting the figures of retrieval (CSV, Parquet, JSON, TREC)."""

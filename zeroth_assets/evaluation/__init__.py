"""Evaluation: metrics, the bootstrap, recall of approximate and access-controlled search."""

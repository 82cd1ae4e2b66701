"""Queries with their truth, as data.

What belongs here: the drafted queries (`drafted.jsonl`), how they were made (`README.md`), and the one measure that
their file records of itself. Reading, mapping to chunks and grading belong to `zeroth_assets.evaluation`.
"""

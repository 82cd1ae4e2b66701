"""A measured, access-controlled retrieval index on PostgreSQL + pgvector, as Dagster assets."""

__version__ = "0.1.0"

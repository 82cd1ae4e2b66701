"""The store: embedded PostgreSQL, connection roles, migrations, loading, index building."""

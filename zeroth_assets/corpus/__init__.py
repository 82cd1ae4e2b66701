"""The corpus: manifest, acquisition, one parser per source, dedup, tenants."""

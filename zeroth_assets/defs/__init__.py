"""Everything Dagster: assets, partitions, resources, checks, jobs, schedules."""

"""Partitions: what belongs here is the two partition sets of the graph and the mapping between them.

Sources are known beforehand; tenants are registered when `tenant_assignments` is materialised. Dagster has no built-in
mapping from a source to its tenants, so edges across the two name `AllPartitionMapping`; which of a source's documents
really go into a tenant is decided by the planner, document by document.
"""

from __future__ import annotations

import dagster as dg

from zeroth_assets.settings import SOURCES

TENANT_PARTITIONS = "tenant"
sources = dg.StaticPartitionsDefinition(list(SOURCES))
tenants = dg.DynamicPartitionsDefinition(name=TENANT_PARTITIONS)


def all_of(asset: str) -> dg.AssetDep:
    """A dependency on every partition of `asset`."""
    return dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())


def register_tenants(instance: dg.DagsterInstance, keys: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Make the registered tenant partitions equal to `keys`. Returns those added and those removed."""
    registered = set(instance.get_dynamic_partitions(TENANT_PARTITIONS))
    wanted = set(keys)
    if wanted - registered:
        instance.add_dynamic_partitions(TENANT_PARTITIONS, sorted(wanted - registered))
    for key in sorted(registered - wanted):
        instance.delete_dynamic_partition(TENANT_PARTITIONS, key)
    return wanted - registered, registered - wanted

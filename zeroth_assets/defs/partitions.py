"""Partitions: what belongs here is the partition sets of the graph, the mapping between them, and their keys.

Sources are known beforehand; tenants are registered when `tenant_assignments` is materialised. Dagster has no built-in
mapping from a source to its tenants, so edges across the two name `AllPartitionMapping`; which of a source's documents
really go into a tenant is decided by the planner, document by document.
"""

from __future__ import annotations

import dagster as dg

from zeroth_assets.artefacts import check_partition_key
from zeroth_assets.errors import TenantError
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, arm_key, split_arm
from zeroth_assets.settings import CHUNK_SETS, SOURCES

TENANT_PARTITIONS = "tenant"
sources = dg.StaticPartitionsDefinition(list(SOURCES))
arms = dg.MultiPartitionsDefinition(
    {
        "chunk_set": dg.StaticPartitionsDefinition(list(CHUNK_SETS)),
        "retriever": dg.StaticPartitionsDefinition(list(RETRIEVERS)),
    }
)
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


def dagster_key(partition: str | None) -> str | None:
    """A partition as Dagster spells it: an arm has two dimensions there, and a dot between them in the store."""
    chunk_set, retriever = split_arm(partition or "")
    if chunk_set in CHUNK_SETS and retriever in RETRIEVERS:
        return dg.MultiPartitionKey({"chunk_set": chunk_set, "retriever": retriever})
    return partition


def store_key(partition: str) -> str:
    """A partition as the store spells it."""
    if isinstance(partition, dg.MultiPartitionKey):
        dimensions = partition.keys_by_dimension
        return arm_key(dimensions["chunk_set"], dimensions["retriever"])
    return partition


def check_partition(
    asset: str, definition: dg.PartitionsDefinition[str] | None, partition: str | None, instance: dg.DagsterInstance
) -> None:
    """Refuse a partition key that breaks the rule, is unknown, or is missing.

    Raises:
        ArtefactError: it breaks the rule.
        TenantError: the asset has no such partition, or has none, or needs one.
    """
    if partition is not None:
        check_partition_key(partition)
    keys = (
        [store_key(k) for k in definition.get_partition_keys(dynamic_partitions_store=instance)] if definition else []
    )
    if (definition is None and partition is None) or partition in keys:
        return
    raise TenantError(
        f"Partition {partition!r} is none of {asset}'s" if partition else f"{asset} has partitions",
        expected=f"one of {', '.join(keys[:8])}" + (" ..." if len(keys) > 8 else "") if keys else "no partition",
        found=repr(partition),
        remedy="list tenants by `zeroth corpus tenants`; sources are sec, cuad, rfc and text; arms CHUNK_SET.RETRIEVER",
    )

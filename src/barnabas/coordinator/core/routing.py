"""The partition of a coordinator's topic that a key belongs to."""

from barnabas.protocol.java_hash import java_hash

_INT32_MIN = -(2**31)


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of a key, as Kafka's GroupCoordinatorService.partitionFor does."""
    hashed = java_hash(key)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % partitions

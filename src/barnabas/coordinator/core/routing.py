"""Which partition of `__consumer_offsets` a group belongs to."""

from barnabas.protocol.java_hash import java_hash

_INT32_MIN = -(2**31)


def partition_for(key: str, partitions: int) -> int:
    """The partition of a group, as Kafka's GroupCoordinatorService.partitionFor finds it."""
    hashed = java_hash(key)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % partitions

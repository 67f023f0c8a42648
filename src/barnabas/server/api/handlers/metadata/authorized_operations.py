"""The operations that a client may do, as bit fields of `AclOperation` codes.

Nothing is authorized yet, so every client may do all operations of a resource; Kafka sends the same
without an authorizer.
"""

# org.apache.kafka.common.acl.AclOperation
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# org.apache.kafka.server.authorizer.AclEntry#supportedOperations
TOPIC_OPERATIONS = _bits(
    _READ, _WRITE, _CREATE, _DESCRIBE, _DELETE, _ALTER, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
CLUSTER_OPERATIONS = _bits(
    _CREATE,
    _CLUSTER_ACTION,
    _DESCRIBE_CONFIGS,
    _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
    _ALTER,
    _DESCRIBE,
)

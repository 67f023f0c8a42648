"""The operations of a topic and of the cluster, as bit fields of `AclOperation` codes.

They are the answer of a node without an authorizer, where every client may do all of them.
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

"""One module per family of apis; a module is imported when one of its apis is first asked for.

A handler takes a `RequestContext` and the decoded request and returns the response (or awaits
first, or returns a `Deferred`, or None for no response). It is bound by `@handles`. An api is
served, and told of in ApiVersions, when it stands in the table below.
"""

# api name -> module of this package.
HANDLER_MODULES: dict[str, str] = {
    "Produce": "produce",
    "Fetch": "fetch",
    "ListOffsets": "list_offsets",
    "Metadata": "metadata",
    "OffsetCommit": "offsets",
    "OffsetFetch": "offsets",
    "FindCoordinator": "find_coordinator",
    "JoinGroup": "groups",
    "Heartbeat": "groups",
    "LeaveGroup": "groups",
    "SyncGroup": "groups",
    "DescribeGroups": "groups",
    "ListGroups": "groups",
    "ApiVersions": "api_versions",
    "CreateTopics": "topics",
    "DeleteTopics": "topics",
    "DeleteRecords": "delete_records",
    "InitProducerId": "init_producer_id",
    "AddPartitionsToTxn": "transactions",
    "AddOffsetsToTxn": "transactions",
    "EndTxn": "transactions",
    "WriteTxnMarkers": "producers",
    "TxnOffsetCommit": "txn_offset_commit",
    "DescribeProducers": "producers",
    "DescribeTransactions": "transactions",
    "ListTransactions": "transactions",
    "OffsetForLeaderEpoch": "offset_for_leader_epoch",
    "DescribeConfigs": "configs",
    "AlterConfigs": "configs",
    "AlterReplicaLogDirs": "alter_replica_log_dirs",
    "DescribeLogDirs": "describe_log_dirs",
    "CreatePartitions": "topics",
    "DeleteGroups": "groups",
    "IncrementalAlterConfigs": "configs",
    "ElectLeaders": "elections",
    "ListPartitionReassignments": "topics",
    "OffsetDelete": "offsets",
    "DescribeQuorum": "quorum",
    "UpdateFeatures": "features",
    "DescribeCluster": "cluster",
    "ListConfigResources": "configs",
    "ConsumerGroupHeartbeat": "consumer_groups",
    "ConsumerGroupDescribe": "consumer_groups",
    "DescribeTopicPartitions": "cluster",
}
